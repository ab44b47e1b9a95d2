"""The Chow-Liu tree: the tree-shaped graph between labels that keeps most of their mutual information."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import minimum_spanning_tree
from scipy.special import xlog1py

from ._affinity import _as_indicator, _as_weight, _check_smoothing
from ._label_graph import LabelGraph


def chow_liu_tree(
    Y: Any, smoothing: float = 0.0, *, sample_weight: ArrayLike | None = None, label_names: Sequence[str] | None = None
) -> LabelGraph:
    r"""Spanning tree of the labels with the largest total mutual information.

    .. math:: I_{ij} = \sum_{a, b \in \{0, 1\}} p_{ij}(a, b) \log \frac{p_{ij}(a, b)}{p_i(a)\, p_j(b)}

    Parameters
    ----------
    Y : array-like or sparse of shape (n_samples, n_labels)
        Label indicator with entries in {0, 1}.
    smoothing : float, default=0.0
        Weight, in rows, of independence: the joint distribution of two labels is taken as ``(n p_ij(a, b) + smoothing
        p_i(a) p_j(b)) / (n + smoothing)``. It lowers every I_ij and invents no dependence where there is none (as
        adding a constant to the four cells would do for rare labels). Non-negative.
    sample_weight : array-like of shape (n_samples,) or None, default=None
        Non-negative weights of the rows, not all zero: a row of weight 2 counts as two. One for every row if None.
    label_names : sequence of str or None, default=None
        One name per label.

    Returns
    -------
    graph : LabelGraph
        The tree, with I_ij in nats as weights and a zero diagonal. A pair without mutual information is no edge:
        labels that depend on no other (without positives, say) stay isolated, and the tree is a forest. Pairs of
        equal weight are taken in label order, so the result is deterministic.

    References
    ----------
    Chow, Liu. Approximating discrete probability distributions with dependence trees, IEEE Transactions on
    Information Theory 14, 1968. doi:10.1109/TIT.1968.1054142

    Examples
    --------
    >>> chow_liu_tree([[1, 1, 0], [1, 1, 1], [0, 0, 1], [0, 0, 0]])
    LabelGraph(3 labels, 1 edge; strongest: label_0 - label_1 0.693)
    """
    _check_smoothing(smoothing)
    indicator = sp.csr_array(_as_indicator(Y))
    weight = _as_weight(sample_weight, indicator.shape[0])
    if not 0.0 < weight.sum() < np.inf:
        raise ValueError(f"sample_weight must have a positive, finite sum, got {weight.sum()}")
    information = _mutual_information(indicator, smoothing, weight)
    n_labels = information.shape[0]
    rows, columns = np.nonzero(np.triu(information, k=1))
    weights = information[rows, columns]
    # A spanning tree depends on the order of the weights only. Ranks break ties by label order and are never 0, which
    # SciPy would read as "no edge".
    rank = np.empty(len(weights))
    rank[np.argsort(-weights, kind="stable")] = np.arange(1, len(weights) + 1)
    tree = minimum_spanning_tree(sp.csr_array((rank, (rows, columns)), shape=(n_labels, n_labels))).tocoo()
    edges = np.column_stack([tree.row, tree.col])
    return LabelGraph.from_edges(edges, information[tree.row, tree.col], n_labels=n_labels, label_names=label_names)


def _mutual_information(indicator: sp.csr_array, smoothing: float, weight: np.ndarray) -> np.ndarray:
    """I_ij of all pairs of labels; exactly 0 where they are independent in the data, and on the diagonal.

    For binary labels p_ij(a, b) = p_i(a) p_j(b) (1 + t_ab), t_ab = shrink (n n_ab - c_a c_b) / (c_a c_b), and
    I = sum_ab p_i p_j (1 + t) log(1 + t): written with log1p of the exact t, weak dependence is not lost in
    the rounding of a ratio near 1.
    """
    n_samples = weight.sum()
    together = np.asarray((indicator.T @ sp.diags_array(weight) @ indicator).toarray())
    positives = together.diagonal()
    # n n_11 - c_i c_j, exact for whole weights; the other cells have the same with alternating sign.
    excess = n_samples * together - np.outer(positives, positives)
    excess[np.abs(excess) <= 1e-14 * n_samples**2] = 0.0  # rounding of other weights
    shrink = n_samples / (n_samples + smoothing)
    information = np.zeros_like(together)
    dependent = excess != 0
    np.fill_diagonal(dependent, False)
    for sign_i, count_i in ((1, positives), (-1, n_samples - positives)):
        for sign_j, count_j in ((1, positives), (-1, n_samples - positives)):
            # The product is positive: a label that is constant in the data is independent of all others.
            product = np.outer(count_i, count_j)[dependent]
            t = shrink * (sign_i * sign_j * excess[dependent] / product)
            information[dependent] += product / n_samples**2 * xlog1py(1.0 + t, t)
    return np.asarray(np.maximum(information, 0.0))
