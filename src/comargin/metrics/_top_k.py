"""Measures of the k best-scored labels of each row, as used for very many labels.

Ties go to the label with the lower index. Scores may be sparse here: a label without a stored score is *not
predicted*, it is never among the k best (a stored zero is a score). Y is never made dense.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..core.checks import whole_number
from ._input import (
    BLOCK_ELEMENTS,
    FloatArray,
    IntArray,
    Truth,
    Weights,
    check_scores,
    check_true,
    documented,
    mean_defined,
)


def check_k(k: Any) -> int:
    """Return the number of labels that are taken of each row, checked."""
    return whole_number("k", k, 1)


def top_labels(scores: Any, k: int) -> IntArray:
    """The k best labels of each row (all of them if there are fewer), best first; -1 where no score is stored."""
    k = min(k, scores.shape[1])
    if sparse.issparse(scores):
        return _top_labels_sparse(scores, k)
    n_samples, n_labels = scores.shape
    top = np.empty((n_samples, k), dtype=np.int64)
    step = max(1, BLOCK_ELEMENTS // n_labels)
    for start in range(0, n_samples, step):
        top[start : start + step] = _top_labels_block(scores[start : start + step], k)
    return top


def _top_labels_block(scores: NDArray[np.floating[Any]], k: int) -> IntArray:
    kth_best = np.partition(scores, -k, axis=1)[:, -k, None]
    chosen = scores >= kth_best
    # Several labels at the k-th score: keep the first ones that fill the row up.
    crowded = np.flatnonzero(np.count_nonzero(chosen, axis=1) > k)
    above = scores[crowded] > kth_best[crowded]
    tied = chosen[crowded] & ~above
    room = k - np.count_nonzero(above, axis=1)
    chosen[crowded] = above | (tied & (np.cumsum(tied, axis=1) <= room[:, None]))
    labels = np.nonzero(chosen)[1].reshape(len(scores), k)
    best_first = np.argsort(-np.take_along_axis(scores, labels, axis=1), axis=1, kind="stable")
    return np.take_along_axis(labels, best_first, axis=1)


def _top_labels_sparse(scores: sparse.csr_array, k: int) -> IntArray:
    lengths = np.diff(scores.indptr)
    rows = np.repeat(np.arange(scores.shape[0]), lengths)
    order = np.lexsort((scores.indices, -scores.data, rows))
    position = np.arange(len(rows)) - np.repeat(scores.indptr[:-1], lengths)
    best = position < k
    top = np.full((scores.shape[0], k), -1, dtype=np.int64)
    top[rows[best], position[best]] = scores.indices[order][best]
    return top


def hits_at(Y_true: sparse.csr_array, top: IntArray) -> NDArray[np.bool_]:
    """Which of the top labels are relevant, for a canonical Y_true."""
    n_samples, n_labels = Y_true.shape
    if Y_true.nnz == 0:
        return np.zeros(top.shape, dtype=bool)
    rows = np.repeat(np.arange(n_samples, dtype=np.int64), np.diff(Y_true.indptr))
    # One sorted key per relevant entry.
    relevant = rows * n_labels + Y_true.indices
    wanted = np.arange(n_samples, dtype=np.int64)[:, None] * n_labels + top
    found = np.searchsorted(relevant, wanted)
    found[found == len(relevant)] = 0
    return (relevant[found] == wanted) & (top >= 0)


class TopLabels:
    """Checked labels and scores: the best known labels of each row, best first, and which of them are relevant."""

    def __init__(self, truth: Truth, scores: Any, weight: FloatArray, k: int, propensities: Any = None) -> None:
        self.truth, self.scores, self.weight, self.propensities = truth, scores, weight, propensities
        self.top = top_labels(truth.seen(scores), k)
        self.hits = hits_at(truth.Y, self.top)
        self.relevant = np.diff(truth.Y.indptr)


def _precision(best: TopLabels, k: int) -> float:
    return mean_defined(best.hits[:, :k].sum(axis=1) / k, best.weight)


def _recall(best: TopLabels, k: int) -> float:
    undefined, some = np.full(len(best.hits), np.nan), best.relevant > 0
    return mean_defined(np.divide(best.hits[:, :k].sum(axis=1), best.relevant, out=undefined, where=some), best.weight)


def _ndcg(best: TopLabels, k: int) -> float:
    hits = best.hits[:, :k]
    places = hits.shape[1]
    discount = 1 / np.log2(np.arange(2, places + 2))
    ideal = np.concatenate([[np.nan], np.cumsum(discount)])[np.minimum(best.relevant, places)]
    return mean_defined((hits @ discount) / ideal, best.weight)


#: The measures at k, in the order of `evaluate`.
AT_K_MEASURES: dict[str, Callable[[TopLabels, int], float]] = {
    "precision_at_k": _precision,
    "recall_at_k": _recall,
    "ndcg_at_k": _ndcg,
}


def propensity_scored(best: TopLabels, k: int) -> float:
    """Gain of the ranking over the largest possible gain, both summed over the rows."""
    Y, propensities = best.truth.Y, best.propensities
    assert propensities is not None
    gain = np.where(best.hits, 1 / propensities[best.top], 0.0)[:, :k].sum(axis=1)
    ideal = top_labels(sparse.csr_array((1 / propensities[Y.indices], Y.indices, Y.indptr), Y.shape), k)
    ideal_gain = np.where(ideal >= 0, 1 / propensities[ideal], 0.0).sum(axis=1)
    total = best.weight @ ideal_gain
    return float(best.weight @ gain / total) if total > 0 else float("nan")


def check_propensities(propensities: ArrayLike, n_labels: int) -> FloatArray:
    values = np.asarray(propensities, dtype=np.float64)
    if values.shape != (n_labels,):
        raise ValueError(f"propensities must have shape ({n_labels},), got {values.shape}.")
    if not ((values > 0) & (values <= 1)).all():
        raise ValueError("propensities must be in (0, 1].")
    return values


def _best(Y_true: Any, scores: Any, k: int, sample_weight: Weights, propensities: Any = None) -> TopLabels:
    truth = check_true(Y_true)
    scores = check_scores(scores, truth, accept_sparse=True)
    if propensities is not None:
        propensities = check_propensities(propensities, truth.shape[1])
    return TopLabels(truth, scores, truth.weights(sample_weight), check_k(k), propensities)


def _measured(name: str, Y_true: Any, scores: Any, k: int, sample_weight: Weights) -> float:
    best = _best(Y_true, scores, k, sample_weight)
    return AT_K_MEASURES[name](best, k)


@documented(
    k="Number of labels taken of each row, positive. Beyond n_labels all are taken, and a hit still counts 1 / k."
)
def precision_at_k(Y_true: Any, scores: Any, *, k: int, sample_weight: Weights = None) -> float:
    """Mean fraction of relevant labels among the k best-scored ones of each row.

    All rows count; a row with fewer than k relevant labels cannot reach 1, one without any is 0. The value is in
    [0, 1], higher is better.

    Examples
    --------
    >>> from comargin.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.5, 0.4, 0.3]], k=2)
    0.5
    """
    return _measured("precision_at_k", Y_true, scores, k, sample_weight)


@documented()
def recall_at_k(Y_true: Any, scores: Any, *, k: int, sample_weight: Weights = None) -> float:
    """Mean fraction of a row's relevant labels that are among its k best-scored ones.

    Rows with no relevant label are skipped. The value is in [0, 1], higher is better; nan if no row has a relevant
    label.

    Examples
    --------
    >>> from comargin.metrics import recall_at_k
    >>> recall_at_k([[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.5, 0.4, 0.3]], k=2)
    0.75
    """
    return _measured("recall_at_k", Y_true, scores, k, sample_weight)


@documented()
def ndcg_at_k(Y_true: Any, scores: Any, *, k: int, sample_weight: Weights = None) -> float:
    """Mean normalised discounted cumulative gain of the k best-scored labels of each row.

    A relevant label at rank j gains ``1 / log2(j + 1)``; a row's gain is divided by that of a perfect ranking of
    its relevant labels. Rows with no relevant label are skipped (scikit-learn's `ndcg_score` counts them as 0, and
    averages over the orders of tied labels, where here the first label counts). The value is in [0, 1], higher is
    better; nan if no row has a relevant label.

    Examples
    --------
    >>> from comargin.metrics import ndcg_at_k
    >>> round(ndcg_at_k([[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.5, 0.4, 0.3]], k=2), 4)
    0.6934
    """
    return _measured("ndcg_at_k", Y_true, scores, k, sample_weight)


@documented()
def propensity_scored_precision_at_k(
    Y_true: Any, scores: Any, *, k: int, propensities: ArrayLike, sample_weight: Weights = None
) -> float:
    """Precision at k in which a hit on a rare label counts more, relative to the best possible ranking.

    Each hit on label l counts ``1 / propensities[l]`` (Jain et al., 2016). As in the tables of the Extreme
    Classification Repository the sum over all rows is divided by the sum that a perfect ranking would reach, so 1
    is attainable. The value is in [0, 1], higher is better; nan if no row has a relevant label.

    References
    ----------
    H. Jain, Y. Prabhu, M. Varma. Extreme multi-label loss functions for recommendation, tagging, ranking and
    other missing label applications. KDD 2016. https://doi.org/10.1145/2939672.2939756

    Examples
    --------
    >>> from comargin.metrics import propensity_scored_precision_at_k
    >>> Y, scores = [[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.5, 0.4, 0.3]]
    >>> propensity_scored_precision_at_k(Y, scores, k=1, propensities=[0.5, 0.25, 1.0])
    0.3333333333333333
    """
    return propensity_scored(_best(Y_true, scores, k, sample_weight, propensities), k)


def label_propensities(Y_train: Any, *, A: float = 0.55, B: float = 1.5) -> FloatArray:
    """Propensities of the labels by their frequency in the training set, after Jain et al. (2016).

    ``p_l = 1 / (1 + C * (n_l + B) ** -A)`` with ``C = (log(n_samples) - 1) * (B + 1) ** A``, where ``n_l`` is
    the number of training rows with label l.

    Parameters
    ----------
    Y_train : array-like or sparse matrix of shape (n_samples, n_labels)
        {0, 1} label indicator of the training set, at least 3 rows (the formula needs ``log(n_samples) > 1``).
    A : float, default=0.55
        Exponent, positive. Published: 0.5 for Wikipedia data sets, 0.6 for Amazon, 0.55 for the others.
    B : float, default=1.5
        Offset, positive. Published: 0.4 for Wikipedia data sets, 2.6 for Amazon, 1.5 for the others.

    Returns
    -------
    ndarray of shape (n_labels,)
        In (0, 1); the rarer the label, the smaller.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.metrics import label_propensities
    >>> label_propensities(np.array([[1, 0], [1, 0], [1, 1], [1, 0]])).round(3)
    array([0.8  , 0.721])
    """
    Y = check_true(Y_train, "Y_train").Y
    n_samples, n_labels = Y.shape
    if n_samples < 3:
        raise ValueError(f"Y_train must have at least 3 rows, got {n_samples}.")
    for name, value in (("A", A), ("B", B)):
        if not (np.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be a positive number, got {value!r}.")
    counts = np.bincount(Y.indices, minlength=n_labels)
    C = (np.log(n_samples) - 1) * (B + 1) ** A
    return 1 / (1 + C * (counts + B) ** -A)
