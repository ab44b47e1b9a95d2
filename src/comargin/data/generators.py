"""Data sets drawn from known models: the toy of the CGM paper, correlated linear labels, and sparse text.

Every generator is determined by its ``seed``, and draws its rows one after the other: a training and a test
part of one model are two slices of one data set.
"""

import itertools
import math
from collections.abc import Sequence

import numpy as np
from scipy.special import ndtri

from ..core.checks import number, whole_number
from ._dataset import LABEL_DTYPE, Dataset
from ._text_like import _names, _streams, make_text_like

__all__ = ["make_cgm_toy", "make_correlated", "make_text_like"]

_MAX_TOY_LABELS = 16  # the argmax looks at all 2^L labelings


def make_cgm_toy(
    n_samples: int = 3000,
    *,
    n_features: int = 10,
    n_labels: int = 10,
    edges: Sequence[tuple[int, int]] = ((0, 1), (0, 2), (0, 3), (0, 4)),
    seed: int = 0,
) -> Dataset:
    r"""Labels that depend on each other through a few edges: section 5.2 of the CGM paper.

    Features are standard normal. Labels are the best labeling of a pairwise model with standard normal weights,

    .. math:: y(x) = \arg\max_{y \in \{0, 1\}^L} \sum_k y_k \, u_k^\top x
              + \sum_{(j, k) \in E} v_{jk, y_j y_k}^\top x ,

    found among all of them. There is no noise: the model with the true edges fits perfectly.

    Parameters
    ----------
    n_samples : int, default=3000
        Number of rows. The paper trains on 2000 and tests on 1000: the first 2000 rows and the rest.
    n_features : int, default=10
        Number of features; the paper prints weights in R^5 for features in R^10, here both are R^10.
    n_labels : int, default=10
        Number of labels, at most 16.
    edges : sequence of pairs of int, default=((0, 1), (0, 2), (0, 3), (0, 4))
        The true edges (0-based).
    seed : int, default=0
        Determines the weights and the rows.

    Returns
    -------
    dataset : Dataset
        Dense ``X`` and ``Y``; ``extra`` has ``edges`` (E, 2), ``node_weights`` (L, d) and ``edge_weights``
        (E, 4, d), the four states of an edge (j, k) in the order y_j y_k = 00, 01, 10, 11.

    References
    ----------
    Tan, Shi, van den Hengel, Zhang, Gao, Hu, Zhang. Learning graph structure for multi-label image
    classification via clique generation, CVPR 2015.

    Examples
    --------
    >>> toy = make_cgm_toy()
    >>> toy.X.shape, toy.Y.shape, toy.extra["edges"].tolist()
    ((3000, 10), (3000, 10), [[0, 1], [0, 2], [0, 3], [0, 4]])
    """
    n_samples, n_features = whole_number("n_samples", n_samples, 1), whole_number("n_features", n_features, 1)
    n_labels = whole_number("n_labels", n_labels, 1, most=_MAX_TOY_LABELS)
    pairs = _checked_edges(edges, n_labels)
    weights_rng, rows_rng = _streams(seed, 2)
    node_weights = weights_rng.standard_normal((n_labels, n_features))
    edge_weights = weights_rng.standard_normal((len(pairs), 4, n_features))
    X = rows_rng.standard_normal((n_samples, n_features))

    labelings = np.array(list(itertools.product((0, 1), repeat=n_labels)), dtype=LABEL_DTYPE)
    # The score of a labeling is linear in x: one weight vector per labeling.
    labeling_weights = labelings @ node_weights
    for (j, k), state_weights in zip(pairs, edge_weights, strict=True):
        labeling_weights += state_weights[2 * labelings[:, j] + labelings[:, k]]
    Y = np.empty((n_samples, n_labels), dtype=LABEL_DTYPE)
    block = max(1, 2**22 // len(labelings))  # bounds the score matrix to 32 MB
    for start in range(0, n_samples, block):
        scores = X[start : start + block] @ labeling_weights.T
        Y[start : start + block] = labelings[scores.argmax(axis=1)]
    return Dataset(
        X,
        Y,
        _names("feature", n_features),
        _names("label", n_labels),
        "cgm_toy",
        {"edges": pairs, "node_weights": node_weights, "edge_weights": edge_weights},
    )


def make_correlated(
    n_samples: int = 1000,
    n_features: int = 20,
    n_labels: int = 10,
    *,
    correlation: float = 0.8,
    rank: int = 2,
    noise: float = 0.1,
    positive_rate: float = 0.5,
    seed: int = 0,
) -> Dataset:
    r"""Linear labels whose weight vectors are correlated: the model for which M3L's prior R is right.

    .. math:: R = (1 - \rho) I + \rho F F^\top, \qquad Z_{j \cdot} \sim N(0, R) \text{ for each feature } j,
              \qquad y_{il} = [\, x_i^\top z_l / \sqrt d + b_l + \text{noise} \cdot \epsilon_{il} > 0 \,]

    with standard normal x and epsilon, rho = ``correlation`` and F an L x ``rank`` matrix with rows of
    length 1, so that R has a unit diagonal.

    Parameters
    ----------
    n_samples, n_features, n_labels : int, default=1000, 20, 10
        Shape of the data.
    correlation : float, default=0.8
        rho in [0, 1]: 0 gives R = I (independent labels), 1 a singular R of the given rank.
    rank : int, default=2
        Columns of F; at 1 all correlations are +-rho.
    noise : float, default=0.1
        Standard deviation of the noise; that of the scores is about 1.
    positive_rate : float, default=0.5
        Expected share of positives of every label, in (0, 1); it sets the intercept b.
    seed : int, default=0
        Determines the weights and the rows.

    Returns
    -------
    dataset : Dataset
        Dense ``X`` and ``Y``; ``extra`` has ``R`` (L, L), ``weights`` (L, d), ``intercept`` (L,):
        noise-free labels are ``X @ weights.T + intercept > 0``.

    Examples
    --------
    >>> data = make_correlated(500, 8, 4, correlation=1.0, rank=1)
    >>> data.X.shape, data.Y.shape, sorted(data.extra)
    ((500, 8), (500, 4), ['R', 'intercept', 'weights'])
    """
    n_samples, n_features = whole_number("n_samples", n_samples, 1), whole_number("n_features", n_features, 1)
    n_labels, rank = whole_number("n_labels", n_labels, 1), whole_number("rank", rank, 1)
    rho = number("correlation", correlation, 0.0, 1.0)
    noise = number("noise", noise, 0.0)
    rate = number("positive_rate", positive_rate, 0.0, 1.0)
    if not 0.0 < rate < 1.0:
        raise ValueError(f"positive_rate must lie strictly between 0 and 1, got {positive_rate!r}")
    model_rng, rows_rng, noise_rng = _streams(seed, 3)
    F = model_rng.standard_normal((n_labels, rank))
    F /= np.linalg.norm(F, axis=1, keepdims=True)
    R = (1.0 - rho) * np.eye(n_labels) + rho * (F @ F.T)
    np.fill_diagonal(R, 1.0)
    own = model_rng.standard_normal((n_features, n_labels))
    shared = model_rng.standard_normal((n_features, rank))
    Z = math.sqrt(1.0 - rho) * own + math.sqrt(rho) * (shared @ F.T)  # rows have covariance R, singular or not
    weights = Z.T / math.sqrt(n_features)
    X = rows_rng.standard_normal((n_samples, n_features))
    # Given the weights, the score of label l is N(0, |w_l|^2 + noise^2): its quantile gives the rate of positives.
    spread = np.sqrt(np.einsum("ij,ij->i", weights, weights) + noise**2)
    intercept = spread * float(ndtri(rate))
    scores = X @ weights.T + intercept + noise * noise_rng.standard_normal((n_samples, n_labels))
    return Dataset(
        X,
        (scores > 0).astype(LABEL_DTYPE),
        _names("feature", n_features),
        _names("label", n_labels),
        "correlated",
        {"R": R, "weights": weights, "intercept": intercept},
    )


def _checked_edges(edges: Sequence[tuple[int, int]], n_labels: int) -> np.ndarray:
    pairs = np.asarray(edges)
    if pairs.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
        raise ValueError(f"edges must be pairs of integer label indices, got {edges!r}")
    if pairs.min() < 0 or pairs.max() >= n_labels or np.any(pairs[:, 0] == pairs[:, 1]):
        raise ValueError(f"edges must join different labels out of 0..{n_labels - 1}, got {edges!r}")
    return pairs.astype(np.int64)
