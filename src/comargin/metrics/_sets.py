"""Measures of predicted label sets: Hamming loss, subset accuracy, precision, recall and F1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import ArrayLike

from ..core.indicator import check_weight
from ._counts import (
    FORMULAS,
    SetCounts,
    count_sets,
    example_of,
    hamming_of,
    macro_f1_of_averages_of,
    macro_of,
    micro_of,
    subset_accuracy_of,
)
from ._input import check_predicted, check_true, check_zero_division

#: The measures of label sets, from the counts of a prediction and the value of 0/0, in the order of `evaluate`.
SET_MEASURES: dict[str, Callable[[SetCounts, float], float]] = {
    "hamming_loss": hamming_of,
    "subset_accuracy": subset_accuracy_of,
    **{f"example_{name}": example_of(formula) for name, formula in FORMULAS.items()},
    **{f"micro_{name}": micro_of(formula) for name, formula in FORMULAS.items()},
    **{f"macro_{name}": macro_of(formula) for name, formula in FORMULAS.items()},
    "macro_f1_of_averages": macro_f1_of_averages_of,
}
SET_LOSSES = frozenset({"hamming_loss"})


def _measured(
    name: str, Y_true: Any, Y_pred: Any, sample_weight: ArrayLike | None, zero_division: float = 0.0
) -> float:
    Y_true = check_true(Y_true)
    Y_pred = check_predicted(Y_pred, Y_true)
    counts = count_sets(Y_true, Y_pred, check_weight(sample_weight, Y_true.shape[0]))
    return SET_MEASURES[name](counts, check_zero_division(zero_division))


def hamming_loss(Y_true: Any, Y_pred: Any, *, sample_weight: ArrayLike | None = None) -> float:
    """Fraction of wrong entries of the label indicator (scikit-learn's `hamming_loss`).

    The value is in [0, 1], lower is better.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import hamming_loss
    >>> hamming_loss([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.25
    """
    return _measured("hamming_loss", Y_true, Y_pred, sample_weight)


def subset_accuracy(Y_true: Any, Y_pred: Any, *, sample_weight: ArrayLike | None = None) -> float:
    """Fraction of rows whose label set is predicted exactly (scikit-learn's `accuracy_score`).

    The value is in [0, 1], higher is better. A row without labels is right if none is predicted.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import subset_accuracy
    >>> subset_accuracy([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.5
    """
    return _measured("subset_accuracy", Y_true, Y_pred, sample_weight)


def example_precision(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over rows of hits / predicted labels.

    scikit-learn's `precision_score` with ``average="samples"``. The value is in [0, 1], higher is better; nan if no
    row is left.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a row in which no label is predicted; nan leaves such rows out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import example_precision
    >>> round(example_precision([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.75
    """
    return _measured("example_precision", Y_true, Y_pred, sample_weight, zero_division)


def example_recall(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over rows of hits / true labels.

    scikit-learn's `recall_score` with ``average="samples"``. The value is in [0, 1], higher is better; nan if no
    row is left.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a row in which no label is true; nan leaves such rows out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import example_recall
    >>> round(example_recall([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.75
    """
    return _measured("example_recall", Y_true, Y_pred, sample_weight, zero_division)


def example_f1(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over rows of 2 hits / (true + predicted labels).

    scikit-learn's `f1_score` with ``average="samples"``. The value is in [0, 1], higher is better; nan if no row is
    left.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a row in which no label is either true or predicted; nan leaves such rows out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import example_f1
    >>> round(example_f1([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.75
    """
    return _measured("example_f1", Y_true, Y_pred, sample_weight, zero_division)


def micro_precision(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Precision over all entries of the indicator pooled: hits / predicted labels.

    scikit-learn's ``average="micro"``. The value is in [0, 1], higher is better.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        The result if no label is predicted anywhere.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import micro_precision
    >>> round(micro_precision([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.667
    """
    return _measured("micro_precision", Y_true, Y_pred, sample_weight, zero_division)


def micro_recall(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Recall over all entries of the indicator pooled: hits / true labels.

    scikit-learn's ``average="micro"``. The value is in [0, 1], higher is better.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        The result if no label is true anywhere.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import micro_recall
    >>> round(micro_recall([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.667
    """
    return _measured("micro_recall", Y_true, Y_pred, sample_weight, zero_division)


def micro_f1(Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None) -> float:
    """F1 over all entries of the indicator pooled: 2 hits / (true + predicted labels).

    scikit-learn's ``average="micro"``. The value is in [0, 1], higher is better.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        The result if no label is either true or predicted anywhere.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import micro_f1
    >>> round(micro_f1([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.667
    """
    return _measured("micro_f1", Y_true, Y_pred, sample_weight, zero_division)


def macro_precision(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over labels of the label's own precision.

    scikit-learn's `precision_score` with ``average="macro"``. The value is in [0, 1], higher is better; nan if no
    label is left.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a label that is never predicted; nan leaves such labels out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import macro_precision
    >>> round(macro_precision([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.5
    """
    return _measured("macro_precision", Y_true, Y_pred, sample_weight, zero_division)


def macro_recall(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over labels of the label's own recall.

    scikit-learn's `recall_score` with ``average="macro"``. The value is in [0, 1], higher is better; nan if no
    label is left.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a label without positives; nan leaves such labels out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import macro_recall
    >>> round(macro_recall([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.667
    """
    return _measured("macro_recall", Y_true, Y_pred, sample_weight, zero_division)


def macro_f1(Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None) -> float:
    """Mean over labels of the label's own F1.

    scikit-learn's `f1_score` with ``average="macro"``. `macro_f1_of_averages` is the other definition in use; it is
    never smaller than this one (the harmonic mean is concave). The value is in [0, 1], higher is better; nan if no
    label is left.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a label that is never true nor predicted; nan leaves such labels out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import macro_f1
    >>> round(macro_f1([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.556
    """
    return _measured("macro_f1", Y_true, Y_pred, sample_weight, zero_division)


def macro_f1_of_averages(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Harmonic mean of macro-averaged precision and macro-averaged recall.

    The second definition of macro-F1 in the literature. `macro_f1` is the mean of the labels' own F1
    (scikit-learn's); the two can differ by as much as 0.5, so a comparison has to say which one it uses. The value
    is in [0, 1], higher is better; 0 if both averages are 0.

    Parameters
    ----------
    Y_true, Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        True and predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a label's precision or recall when it is 0/0; nan leaves such labels out of that average.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Examples
    --------
    >>> from comargin.metrics import macro_f1_of_averages
    >>> round(macro_f1_of_averages([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.571
    """
    return _measured("macro_f1_of_averages", Y_true, Y_pred, sample_weight, zero_division)
