"""Measures of predicted label sets: Hamming loss, subset accuracy, precision, recall and F1.

All of them follow from three counts, per row or per label: ``hits`` (both true and predicted), ``true`` and
``predicted``. Precision is hits / predicted, recall hits / true, F1 is 2 hits / (true + predicted).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ._input import (
    FloatArray,
    Truth,
    Weights,
    check_predicted,
    check_true,
    check_zero_division,
    documented,
    mean_defined,
    ratio,
)


class Counts(NamedTuple):
    """Hits, true and predicted labels, one entry per row or per label."""

    hits: FloatArray
    true: FloatArray
    predicted: FloatArray


class SetCounts(NamedTuple):
    """The counts of a prediction; `labels` is weighted by `weight`, `rows` is not."""

    rows: Counts
    labels: Counts
    weight: FloatArray
    truth: Truth


def count_sets(truth: Truth, Y_pred: sparse.csr_array, weight: FloatArray) -> SetCounts:
    """Count hits, true and predicted labels of two checked indicators, in known cells."""
    Y_pred = truth.seen(Y_pred)
    parts = (truth.Y.multiply(Y_pred).tocsr(), truth.Y, Y_pred)
    n_labels = truth.shape[1]
    rows = Counts(*(np.diff(Y.indptr).astype(np.float64) for Y in parts))
    labels = Counts(
        *(np.bincount(Y.indices, np.repeat(weight, np.diff(Y.indptr)), n_labels).astype(np.float64) for Y in parts)
    )
    return SetCounts(rows, labels, weight, truth)


Formula = Callable[[Counts, float], FloatArray]
SetMeasure = Callable[..., float]  # of `SetCounts`, and of the value of 0/0, which is 0 by default
#: Measures of each row or label, from its counts and the value of 0/0.
FORMULAS: dict[str, Formula] = {
    "precision": lambda counts, zero_division: ratio(counts.hits, counts.predicted, zero_division),
    "recall": lambda counts, zero_division: ratio(counts.hits, counts.true, zero_division),
    "f1": lambda counts, zero_division: ratio(2 * counts.hits, counts.true + counts.predicted, zero_division),
}


def _hamming(counts: SetCounts, zero_division: float = 0.0) -> float:
    rows = counts.rows
    wrong = rows.true + rows.predicted - 2 * rows.hits
    cells = float(counts.weight @ counts.truth.n_known)
    return float(counts.weight @ wrong) / cells if cells > 0.0 else float("nan")


def _subset_accuracy(counts: SetCounts, zero_division: float = 0.0) -> float:
    rows = counts.rows
    right = (rows.hits == rows.true) & (rows.hits == rows.predicted)
    return mean_defined(right.astype(np.float64), counts.weight)


def _example(formula: Formula) -> SetMeasure:
    """Weighted mean of the formula over the rows."""
    return lambda counts, zero_division=0.0: mean_defined(formula(counts.rows, zero_division), counts.weight)


def _micro(formula: Formula) -> SetMeasure:
    """The formula of the counts of all labels together."""

    def measure(counts: SetCounts, zero_division: float = 0.0) -> float:
        pooled = Counts(*(np.array([values.sum()]) for values in counts.labels))
        return float(formula(pooled, zero_division)[0])

    return measure


def _macro(formula: Formula) -> SetMeasure:
    """Mean of the formula over the labels with a known cell."""
    return lambda counts, zero_division=0.0: mean_defined(formula(counts.labels, zero_division)[counts.truth.judged])


def _macro_f1_of_averages(counts: SetCounts, zero_division: float = 0.0) -> float:
    precision, recall = (_macro(FORMULAS[name])(counts, zero_division) for name in ("precision", "recall"))
    return 2 * precision * recall / (precision + recall) if precision + recall != 0 else 0.0


#: The measures of label sets, from the counts of a prediction and the value of 0/0, in the order of `evaluate`.
SET_MEASURES: dict[str, SetMeasure] = {
    "hamming_loss": _hamming,
    "subset_accuracy": _subset_accuracy,
    **{f"example_{name}": _example(formula) for name, formula in FORMULAS.items()},
    **{f"micro_{name}": _micro(formula) for name, formula in FORMULAS.items()},
    **{f"macro_{name}": _macro(formula) for name, formula in FORMULAS.items()},
    "macro_f1_of_averages": _macro_f1_of_averages,
}


def _measured(name: str, Y_true: Any, Y_pred: Any, sample_weight: Weights, zero_division: float = 0.0) -> float:
    truth = check_true(Y_true)
    Y_pred = check_predicted(Y_pred, truth)
    counts = count_sets(truth, Y_pred, truth.weights(sample_weight))
    return SET_MEASURES[name](counts, check_zero_division(zero_division))


@documented()
def hamming_loss(Y_true: Any, Y_pred: Any, *, sample_weight: Weights = None) -> float:
    """Fraction of wrong entries of the label indicator (scikit-learn's `hamming_loss`).

    The value is in [0, 1], lower is better.

    Examples
    --------
    >>> from comargin.metrics import hamming_loss
    >>> hamming_loss([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.25
    """
    return _measured("hamming_loss", Y_true, Y_pred, sample_weight)


@documented()
def subset_accuracy(Y_true: Any, Y_pred: Any, *, sample_weight: Weights = None) -> float:
    """Fraction of rows whose label set is predicted exactly (scikit-learn's `accuracy_score`).

    The value is in [0, 1], higher is better. A row without labels is right if none is predicted.

    Examples
    --------
    >>> from comargin.metrics import subset_accuracy
    >>> subset_accuracy([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.5
    """
    return _measured("subset_accuracy", Y_true, Y_pred, sample_weight)


# Formula: its name, what it divides, and the labels (or rows) without which it is 0/0.
_RATIOS = {
    "precision": ("precision", "hits / predicted labels", "predicted"),
    "recall": ("recall", "hits / true labels", "true"),
    "f1": ("F1", "2 hits / (true + predicted labels)", "true or predicted"),
}
# Average: what it computes, scikit-learn's name of it, its value for 0/0, and when it is not defined.
_AVERAGES = {
    "example": (
        "Mean over rows of {formula}.",
        "samples",
        "Value of a row without {lacking} labels; nan leaves such rows out of the mean.",
        "; nan if no row is left",
    ),
    "micro": (
        "{title} over all entries of the indicator pooled: {formula}.",
        "micro",
        "The result if there are no {lacking} labels at all.",
        "",
    ),
    "macro": (
        "Mean over labels of the label's own {ratio}.",
        "macro",
        "Value of a label without {lacking} rows; nan leaves such labels out of the mean.",
        "; nan if no label is left",
    ),
}
_DOCUMENTATION = """{summary}

scikit-learn's `{ratio_name}_score` with ``average="{average}"``. The value is in [0, 1], higher is better{left}.{note}

Examples
--------
>>> from comargin.metrics import {name}
>>> round({name}([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
{example}
"""


def meaning_of(name: str) -> str:
    """What a measure with the name of an average and a formula is."""
    average, _, ratio_name = name.partition("_")
    ratio, formula, _ = _RATIOS[ratio_name]
    return _AVERAGES[average][0].format(formula=formula, ratio=ratio, title=ratio.capitalize())


def _averaged(name: str, example: float, note: str = "") -> Callable[..., float]:
    """The measure of this name, an average and a formula, documented; ``example`` is its value in the example."""
    average, _, ratio_name = name.partition("_")
    lacking = _RATIOS[ratio_name][2]
    _, sklearn_average, undefined, left = _AVERAGES[average]

    def measure(Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: Weights = None) -> float:
        return _measured(name, Y_true, Y_pred, sample_weight, zero_division)

    measure.__name__ = measure.__qualname__ = name
    measure.__doc__ = _DOCUMENTATION.format(
        summary=meaning_of(name),
        name=name,
        ratio_name=ratio_name,
        average=sklearn_average,
        note=note,
        left=left,
        example=example,
    )
    return documented(zero_division=undefined.format(lacking=lacking))(measure)


example_precision = _averaged("example_precision", 0.75)
example_recall = _averaged("example_recall", 0.75)
example_f1 = _averaged("example_f1", 0.75)
micro_precision = _averaged("micro_precision", 0.667)
micro_recall = _averaged("micro_recall", 0.667)
micro_f1 = _averaged("micro_f1", 0.667)
macro_precision = _averaged("macro_precision", 0.5)
macro_recall = _averaged("macro_recall", 0.667)
macro_f1 = _averaged(
    "macro_f1",
    0.556,
    "\n`macro_f1_of_averages` is the other definition in use; it is never smaller (the harmonic mean is concave).",
)


@documented(
    zero_division="Value of a label's precision or recall when it is 0/0; nan leaves such labels out of that average."
)
def macro_f1_of_averages(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: Weights = None
) -> float:
    """Harmonic mean of macro-averaged precision and macro-averaged recall.

    The second definition of macro-F1 in the literature. `macro_f1` is the mean of the labels' own F1
    (scikit-learn's); the two can differ by as much as 0.5, so a comparison has to say which one it uses. The value
    is in [0, 1], higher is better; 0 if both averages are 0.

    Examples
    --------
    >>> from comargin.metrics import macro_f1_of_averages
    >>> round(macro_f1_of_averages([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.571
    """
    return _measured("macro_f1_of_averages", Y_true, Y_pred, sample_weight, zero_division)
