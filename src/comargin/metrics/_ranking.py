"""Measures of label scores: how each row ranks its labels, and how each label ranks the rows (AUC).

Ties are counted against the classifier, as the literature's formulas say (they compare with ``>=``) and as
scikit-learn does: a tie of a relevant with an irrelevant label is an error. AUC is the
exception, a tie there counts one half, as everywhere.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

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

# Columns are sorted one by one, but copied together: a strided column alone would read every cache line.
_COLUMN_BLOCK_ELEMENTS = 8_000_000


class RowMeasures(NamedTuple):
    """One value per row; NaN where the measure is not defined."""

    one_error: FloatArray
    coverage: FloatArray
    ranking_loss: FloatArray
    average_precision: FloatArray


def row_measures(truth: Truth, scores: NDArray[np.floating[Any]]) -> RowMeasures:
    """All four measures of each row's ranking, from the ranks of its relevant labels; unknown ones come last."""
    Y_true, scores, n_samples = truth.Y, truth.seen(scores), truth.shape[0]
    relevant = np.diff(Y_true.indptr).astype(np.float64)
    rows = np.repeat(np.arange(n_samples), np.diff(Y_true.indptr))
    values = scores[rows, Y_true.indices]

    # Relevant labels of each row by falling score; rows stay where CSR has them.
    order = np.lexsort((-values, rows))
    values, top = values[order], np.argmax(scores, axis=1)
    at_least = _count_at_least(scores, rows, values)
    relevant_at_least = _tie_group_ends(rows, values) - Y_true.indptr[rows]

    some = relevant > 0
    ordered_pairs = relevant * (truth.n_known - relevant)
    wrong_pairs = np.bincount(rows, at_least - relevant_at_least, minlength=n_samples)
    precision_sum = np.bincount(rows, relevant_at_least / at_least, minlength=n_samples)

    one_error = np.full(n_samples, np.nan)
    one_error[some] = 1.0
    one_error[rows[Y_true.indices == top[rows]]] = 0.0
    coverage = np.full(n_samples, np.nan)
    # The last relevant label of a row has its lowest score.
    coverage[some] = at_least[Y_true.indptr[1:][some] - 1] - 1.0
    undefined = np.full(n_samples, np.nan)
    return RowMeasures(
        one_error,
        coverage,
        np.divide(wrong_pairs, ordered_pairs, out=undefined.copy(), where=ordered_pairs > 0),
        np.divide(precision_sum, relevant, out=undefined, where=some),
    )


def _count_at_least(scores: NDArray[np.floating[Any]], rows: IntArray, values: NDArray[np.floating[Any]]) -> IntArray:
    """For each relevant label, how many labels of its row score at least as much (itself included)."""
    counts = np.empty(len(rows), dtype=np.int64)
    step = max(1, BLOCK_ELEMENTS // scores.shape[1])
    for start in range(0, len(rows), step):
        block = slice(start, start + step)
        counts[block] = np.count_nonzero(scores[rows[block]] >= values[block, None], axis=1)
    return counts


def _tie_group_ends(rows: IntArray, values: NDArray[np.floating[Any]]) -> IntArray:
    """Index after the last entry with the same row and value, for sorted entries."""
    new_group = (rows[1:] != rows[:-1]) | (values[1:] != values[:-1])
    ends = np.append(np.flatnonzero(new_group) + 1, len(rows))
    return np.repeat(ends, np.diff(ends, prepend=0))


def label_auc(truth: Truth, scores: NDArray[np.floating[Any]], weight: FloatArray | None) -> FloatArray:
    """AUC of each label; NaN for a label that is true in no row or in all."""
    n_samples, n_labels = scores.shape
    columns = truth.Y.tocsc()
    auc = np.empty(n_labels)
    step = max(1, _COLUMN_BLOCK_ELEMENTS // n_samples)
    for start in range(0, n_labels, step):
        for label, values in enumerate(np.ascontiguousarray(scores[:, start : start + step].T), start):
            positive = columns.indices[columns.indptr[label] : columns.indptr[label + 1]]
            known = None if truth.known is None else truth.known[:, label]
            auc[label] = _auc(values, positive, known, weight)
    return auc


def pooled_auc(truth: Truth, scores: NDArray[np.floating[Any]], weight: FloatArray | None) -> float:
    """AUC over all entries of the score matrix as one ranking."""
    n_samples, n_labels = scores.shape
    rows = np.repeat(np.arange(n_samples, dtype=np.int64), np.diff(truth.Y.indptr))
    positive = rows * n_labels + truth.Y.indices
    known = None if truth.known is None else truth.known.ravel()
    return _auc(np.ravel(scores), positive, known, None if weight is None else np.repeat(weight, n_labels))


def _auc(
    values: NDArray[np.floating[Any]], positive: IntArray, known: NDArray[np.bool_] | None, weight: FloatArray | None
) -> float:
    """Weighted probability that a positive entry scores more than a known negative one, ties one half."""
    is_negative = np.ones(len(values), dtype=bool) if known is None else known.copy()
    is_negative[positive] = False
    negative_values, positive_values = values[is_negative], np.sort(values[positive])
    if weight is None:
        negative_values.sort()
        below = np.searchsorted(negative_values, positive_values, side="left")
        not_above = np.searchsorted(negative_values, positive_values, side="right")
        wins = (below.sum() + not_above.sum()) / 2
        pairs = float(len(negative_values)) * len(positive_values)
    else:
        order = np.argsort(negative_values)
        positive_weight = weight[positive][np.argsort(values[positive])]
        cumulated = np.concatenate([[0.0], np.cumsum(weight[is_negative][order])])
        below = cumulated[np.searchsorted(negative_values, positive_values, side="left", sorter=order)]
        not_above = cumulated[np.searchsorted(negative_values, positive_values, side="right", sorter=order)]
        wins = positive_weight @ (below + not_above) / 2
        pairs = positive_weight.sum() * cumulated[-1]
    return float(wins / pairs) if pairs > 0 else float("nan")


class Ranking:
    """Checked labels and scores; the measures of the rows are computed once. Without weights AUC takes a faster way."""

    def __init__(self, truth: Truth, scores: NDArray[np.floating[Any]], weight: FloatArray | None) -> None:
        self.truth, self.scores, self.weight = truth, scores, weight

    @cached_property
    def rows(self) -> RowMeasures:
        return row_measures(self.truth, self.scores)


#: The measures of whole rankings, in the order of `evaluate`.
RANKING_MEASURES: dict[str, Callable[[Ranking], float]] = {
    "one_error": lambda ranking: mean_defined(ranking.rows.one_error, ranking.weight),
    "coverage": lambda ranking: mean_defined(ranking.rows.coverage, ranking.weight),
    "ranking_loss": lambda ranking: mean_defined(ranking.rows.ranking_loss, ranking.weight),
    "average_precision": lambda ranking: mean_defined(ranking.rows.average_precision, ranking.weight),
    "macro_auc": lambda ranking: mean_defined(label_auc(ranking.truth, ranking.scores, ranking.weight)),
    "micro_auc": lambda ranking: pooled_auc(ranking.truth, ranking.scores, ranking.weight),
}


def _measured(name: str, Y_true: Any, scores: Any, sample_weight: Weights) -> float:
    truth = check_true(Y_true)
    return RANKING_MEASURES[name](Ranking(truth, check_scores(scores, truth), truth.weight(sample_weight)))


@documented()
def one_error(Y_true: Any, scores: Any, *, sample_weight: Weights = None) -> float:
    """Fraction of rows whose top-scored label is not relevant.

    Rows with no relevant label are skipped. Of several labels tied at the top the first one counts, so each row is
    0 or 1 (the formula as some papers print it counts all of them). The value is in [0, 1], lower is better; nan if
    no row has a relevant label.

    Examples
    --------
    >>> from comargin.metrics import one_error
    >>> one_error([[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.5, 0.4, 0.3]])
    0.5
    """
    return _measured("one_error", Y_true, scores, sample_weight)


@documented()
def coverage(Y_true: Any, scores: Any, *, normalize: bool = False, sample_weight: Weights = None) -> float:
    """How many further labels one has to go down each row's ranking to meet all its relevant labels.

    The literature's definition: a row that ranks its only relevant label first has coverage 0. scikit-learn's
    `coverage_error` is larger by 1, and counts rows with no relevant label, which are skipped here, as 0. Labels
    tied with the lowest relevant one count as ranked before it. The value is in [0, n_labels - 1], lower is better;
    nan if no row has a relevant label.

    Examples
    --------
    >>> from comargin.metrics import coverage
    >>> coverage([[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.5, 0.4, 0.3]])
    1.0
    """
    depth = _measured("coverage", Y_true, scores, sample_weight)
    return depth / np.shape(scores)[1] if normalize else depth


@documented()
def ranking_loss(Y_true: Any, scores: Any, *, sample_weight: Weights = None) -> float:
    """Mean fraction of pairs (relevant, irrelevant label) of a row that are in the wrong order.

    A tie is a wrong order, as in the literature's formula and in scikit-learn. Rows with no pairs, that is with no
    relevant label or with all, are skipped; scikit-learn's `label_ranking_loss` counts them as 0. The value is in
    [0, 1], lower is better; nan if no row has a pair.

    Examples
    --------
    >>> from comargin.metrics import ranking_loss
    >>> ranking_loss([[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.5, 0.4, 0.3]])
    0.5
    """
    return _measured("ranking_loss", Y_true, scores, sample_weight)


@documented()
def average_precision(Y_true: Any, scores: Any, *, sample_weight: Weights = None) -> float:
    """Mean over a row's relevant labels of the precision of its ranking down to that label.

    The literature's example-based measure: for relevant label k of a row, the share of relevant ones among the labels
    that score at least as much as k (ties included). scikit-learn calls it `label_ranking_average_precision_score` and
    gives rows with no relevant label 1; they are skipped here. It is not scikit-learn's `average_precision_score`, the
    area under a precision-recall curve. The value is in (0, 1], higher is better; nan if no row has a relevant label.

    Examples
    --------
    >>> from comargin.metrics import average_precision
    >>> round(average_precision([[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.5, 0.4, 0.3]]), 4)
    0.7917
    """
    return _measured("average_precision", Y_true, scores, sample_weight)


@documented()
def macro_auc(Y_true: Any, scores: Any, *, sample_weight: Weights = None) -> float:
    """Mean over labels of the area under the label's ROC curve.

    Labels that are true in no row or in all rows have no ROC curve and are skipped, without a warning. A tie of a
    positive with a negative row counts one half. The value is in [0, 1], higher is better; nan if no label has both
    positive and negative rows.

    Examples
    --------
    >>> from comargin.metrics import macro_auc
    >>> macro_auc([[1, 0], [0, 1], [0, 1]], [[0.9, 0.3], [0.2, 0.8], [0.1, 0.3]])
    0.875
    """
    return _measured("macro_auc", Y_true, scores, sample_weight)


@documented()
def micro_auc(Y_true: Any, scores: Any, *, sample_weight: Weights = None) -> float:
    """Area under the ROC curve of all entries of the score matrix pooled into one ranking.

    It compares scores of different labels with each other. A tie counts one half. The value is in [0, 1], higher is
    better; nan if all entries of Y_true are equal.

    Examples
    --------
    >>> from comargin.metrics import micro_auc
    >>> round(micro_auc([[1, 0], [0, 1], [0, 1]], [[0.9, 0.3], [0.2, 0.8], [0.1, 0.3]]), 4)
    0.9444
    """
    return _measured("micro_auc", Y_true, scores, sample_weight)
