"""Affinities and correlations between labels, from an indicator matrix or from class signatures.

Notation: C = Y^T Y are the co-occurrence counts of an indicator Y (n x L), c = diag(C) the label counts,
S = 2Y - 1. A sparse Y is never made dense.
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.indicator import check_indicator, dense_indicator, split_unknown
from ._label_graph import LabelGraph, _as_label_names

# Most labels and entries of a dense indicator that stays dense: its products take less time than finding the ones.
_FEW_LABELS, _FEW_ENTRIES = 64, 4_000_000


def cooccurrence(Y: Any, *, label_names: Sequence[str] | None = None) -> LabelGraph:
    """Count how often two labels occur together.

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels)
        Label indicator with entries in {0, 1}.
    label_names : sequence of str or None, default=None
        One name per label.

    Returns
    -------
    graph : LabelGraph
        Weight (i, j) is the number of rows with both labels, the diagonal the number of rows with the label.

    Examples
    --------
    >>> cooccurrence([[1, 1, 0], [1, 1, 1], [0, 0, 1]]).to_array()
    array([[2., 2., 1.],
           [2., 2., 1.],
           [1., 1., 2.]])
    """
    return _graph(_counts(_as_indicator(Y)), label_names)


def cosine_affinity(
    Y: Any, cut: float = 0.1, *, sample_weight: ArrayLike | None = None, label_names: Sequence[str] | None = None
) -> LabelGraph:
    r"""Cosine similarity of label columns, weak entries removed: the graph of LSG21.

    .. math:: a_{ij} = \frac{y_i^\top y_j}{\lVert y_i \rVert \lVert y_j \rVert}, \qquad
              a_{ij} \leftarrow 0 \text{ where } a_{ij} < \text{cut} \cdot \max_{kl} a_{kl}

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels)
        Label indicator with entries in {0, 1}.
    cut : float, default=0.1
        Entries under ``cut`` times the largest entry become 0; in [0, 1]. The largest entry is the diagonal, 1.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Non-negative weights of the rows in the inner products and norms; 1 when None.
    label_names : sequence of str or None, default=None
        One name per label.

    Returns
    -------
    graph : LabelGraph
        Affinities in [0, 1]. The diagonal is 1, and 0 for a label without positives. Where cells of Y are unknown
        (NaN), inner products are in proportion to the rows where both labels are known.

    References
    ----------
    Cai, Nie, Cai, Huang. New graph structured sparsity model for multi-label image annotations, ICCV 2013,
    Eq. (19).

    Examples
    --------
    >>> cosine_affinity([[1, 1, 0], [1, 1, 0], [1, 0, 1], [1, 0, 0]])
    LabelGraph(3 labels, 2 edges; strongest: label_0 - label_1 0.707, label_0 - label_2 0.5)
    """
    if not (isinstance(cut, int | float | np.number) and 0 <= cut <= 1):
        raise ValueError(f"cut must be a number in [0, 1], got {cut!r}")
    Y, known = split_unknown(Y, "Y")
    indicator = _as_indicator(Y)
    weight = _as_weight(sample_weight, indicator.shape[0])
    if np.any(weight != 1.0):
        # Sparse: sums in the same order for all pairs, so that equal columns have a cosine of exactly 1.
        indicator = sp.csr_array(sp.diags_array(np.sqrt(weight)) @ sp.csr_array(indicator))
    together = _counts(indicator).tocoo()
    together.eliminate_zeros()  # rows of weight 0
    counts = together.diagonal()
    # Eq. (19). The square root of the product is exact for perfect squares, so that a cosine equal to the cut stays.
    cosine = together.data / np.sqrt(counts[together.row] * counts[together.col])
    if known is not None:  # each count in proportion to the rows where both labels are known
        rows = (known.T * weight) @ known.astype(np.float64)
        both, own = rows[together.row, together.col], rows.diagonal()
        cosine = np.minimum(cosine * np.sqrt(own[together.row] * own[together.col]) / both, 1.0)
    keep = cosine >= cut * cosine.max(initial=0.0)
    affinity = sp.coo_array((cosine[keep], (together.row[keep], together.col[keep])), shape=together.shape)
    return _graph(affinity, label_names)


def smoothed_correlation(Y: Any, smoothing: float = 1.0, *, label_names: Sequence[str] | None = None) -> LabelGraph:
    r"""Correlation of labels, shrunk to the identity: a prior R for M3L from training labels.

    With G the Gram matrix of the centred columns of S = 2Y - 1,

    .. math:: R_{ij} = \frac{G_{ij}}{\sqrt{(G_{ii} + \alpha)(G_{jj} + \alpha)}}, \qquad R_{ii} = 1,
              \qquad \alpha = \text{smoothing},

    which is Pearson's correlation at smoothing 0 and the identity when it grows. A rare label is shrunk
    more than a frequent one; a label that is constant in Y is uncorrelated with all others. Unknown cells (NaN) count
    as the mean of their label, which shrinks too.

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels)
        Label indicator with entries in {0, 1}.
    smoothing : float, default=1.0
        Added to the squared norms of the columns, of which a label with k << n positives has about 4k. Non-negative.
    label_names : sequence of str or None, default=None
        One name per label.

    Returns
    -------
    graph : LabelGraph
        R, with unit diagonal. Almost every pair of labels has some correlation, so R is dense in memory.

    Notes
    -----
    R = D (G + alpha I) D with a diagonal D is positive semi-definite, as the Gram matrix G is. With alpha > 0 its
    smallest eigenvalue is at least alpha / (n + alpha). At alpha = 0 a constant column is a zero row and column of G,
    and its diagonal 1 a block of its own.

    Examples
    --------
    >>> smoothed_correlation([[1, 1], [1, 1], [0, 0], [0, 0]], smoothing=1.0).to_array()
    array([[1. , 0.8],
           [0.8, 1. ]])
    """
    _check_smoothing(smoothing)
    Y, known = split_unknown(Y, "Y")
    indicator = _as_indicator(Y)
    if known is None:
        n_samples = indicator.shape[0]
        together = _counts(indicator).toarray()
        counts = together.diagonal()
        # G = S^T (I - 11^T/n) S = 4 (C - c c^T / n); the integers are exact, so independent labels get exactly 0.
        gram = 4.0 * (n_samples * together - np.outer(counts, counts)) / n_samples
    else:
        dense = sp.csr_array(indicator).toarray()
        centred = 2.0 * known * (dense - dense.sum(axis=0) / np.maximum(known.sum(axis=0), 1))
        gram = centred.T @ centred
    norms = np.sqrt(gram.diagonal() + smoothing)
    norms[norms == 0.0] = 1.0  # constant column without smoothing: its row of G is 0
    correlation = gram / np.outer(norms, norms)
    np.fill_diagonal(correlation, 1.0)
    return _graph(correlation, label_names)


def correlation_from_classes(
    signatures: Any, prior: ArrayLike | None = None, *, label_names: Sequence[str] | None = None
) -> LabelGraph:
    r"""Correlation of labels from what is known about classes: the prior R of zero-shot M3L.

    .. math:: R = \sum_c p(c)\, s_c s_c^\top, \qquad s_c \in \{-1, +1\}^L

    Parameters
    ----------
    signatures : array-like of shape (n_classes, n_labels)
        Labels of each class, in {0, 1} or in {-1, +1}.
    prior : array-like of shape (n_classes,) or None, default=None
        Probability of each class; uniform when None. Non-negative, with sum 1.
    label_names : sequence of str or None, default=None
        One name per label.

    Returns
    -------
    graph : LabelGraph
        R, symmetric positive semi-definite with unit diagonal; its rank is at most the number of classes
        with p(c) > 0, so it is singular as soon as there are more labels than classes.

    References
    ----------
    Hariharan, Vishwanathan, Varma. Efficient max-margin multi-label classification with applications to
    zero-shot learning, Machine Learning 88, 2012, section 7.2.1. doi:10.1007/s10994-012-5291-x

    Examples
    --------
    >>> correlation_from_classes([[1, 1, 0], [0, 0, 1]]).to_array()
    array([[ 1.,  1., -1.],
           [ 1.,  1., -1.],
           [-1., -1.,  1.]])
    """
    dense = signatures.toarray() if sp.issparse(signatures) else np.asarray(signatures)
    if dense.ndim != 2 or 0 in dense.shape:
        raise ValueError(f"signatures must be a matrix of classes x labels, at least 1 x 1, got shape {dense.shape}")
    if (
        dense.dtype.kind not in "biuf"
        or not np.all(np.isin(dense, (-1, 0, 1)))
        or {-1, 0} <= set(np.unique(dense).tolist())
    ):
        raise ValueError("signatures must have entries in {0, 1} or in {-1, +1}")
    signs = np.where(dense > 0, 1.0, -1.0)
    n_classes = signs.shape[0]
    p = np.full(n_classes, 1.0 / n_classes) if prior is None else np.asarray(prior, dtype=np.float64)
    if p.shape != (n_classes,):
        raise ValueError(f"prior must have one probability per class, shape ({n_classes},), got {p.shape}")
    if not np.all(np.isfinite(p)) or p.min() < 0:
        raise ValueError("prior must be finite and non-negative")
    if not math.isclose(p.sum(), 1.0, rel_tol=1e-9):
        raise ValueError(f"prior must sum to 1, got {p.sum():.6g}; divide counts by their sum")
    correlation = (signs.T * p) @ signs
    np.fill_diagonal(correlation, 1.0)
    return _graph(correlation, label_names)


def _graph(weights: Any, label_names: Sequence[str] | None) -> LabelGraph:
    return LabelGraph(weights, _as_label_names(label_names, weights.shape[0]))


def _as_indicator(Y: Any) -> np.ndarray | sp.csr_array:
    """Check a label indicator and return it in float64: CSR, or dense if it is dense and small."""
    indicator = check_indicator(Y, "Y") if sp.issparse(Y) else dense_indicator(Y, "Y")
    if 0 in indicator.shape:
        raise ValueError(
            f"Y must be a label indicator (samples x labels) with at least one of each, got shape {indicator.shape}"
        )
    if indicator.shape[1] > _FEW_LABELS or indicator.shape[0] * indicator.shape[1] > _FEW_ENTRIES:
        indicator = sp.csr_array(indicator)
    return indicator.astype(np.float64)


def _counts(indicator: np.ndarray | sp.csr_array) -> sp.csr_array:
    """C = Y^T Y, the co-occurrence counts (exact integers in float64)."""
    return sp.csr_array(indicator.T @ indicator)


def _as_weight(sample_weight: ArrayLike | None, n_samples: int) -> np.ndarray:
    weight = np.ones(n_samples) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (n_samples,) or not (np.isfinite(weight).all() and weight.min(initial=0.0) >= 0.0):
        raise ValueError(
            f"sample_weight must hold {n_samples} finite, non-negative numbers, one per row; got shape {weight.shape}"
        )
    return weight


def _check_smoothing(smoothing: float) -> None:
    if not (isinstance(smoothing, int | float | np.number) and 0 <= smoothing < math.inf):
        raise ValueError(f"smoothing must be a non-negative finite number, got {smoothing!r}")
