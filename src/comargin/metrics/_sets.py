"""Measures of predicted label sets: Hamming loss, subset accuracy, precision, recall and F1."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ._counts import (
    SetCounts,
    count_sets,
    example_of,
    f1_of,
    hamming_of,
    macro_f1_of_averages_of,
    macro_of,
    micro_of,
    precision_of,
    recall_of,
    subset_accuracy_of,
)
from ._input import check_predicted, check_true, check_weight, check_zero_division


def _checked_counts(Y_true: Any, Y_pred: Any, sample_weight: ArrayLike | None) -> SetCounts:
    Y_true = check_true(Y_true)
    Y_pred = check_predicted(Y_pred, Y_true)
    return count_sets(Y_true, Y_pred, check_weight(sample_weight, Y_true.shape[0]))


def hamming_loss(Y_true: Any, Y_pred: Any, *, sample_weight: ArrayLike | None = None) -> float:
    """Fraction of wrong entries of the label indicator (scikit-learn's `hamming_loss`).

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], lower is better.

    Examples
    --------
    >>> from comargin.metrics import hamming_loss
    >>> hamming_loss([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.25
    """
    return hamming_of(_checked_counts(Y_true, Y_pred, sample_weight))


def subset_accuracy(Y_true: Any, Y_pred: Any, *, sample_weight: ArrayLike | None = None) -> float:
    """Fraction of rows whose label set is predicted exactly (scikit-learn's `accuracy_score`).

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better. A row without labels is right if none is predicted.

    Examples
    --------
    >>> from comargin.metrics import subset_accuracy
    >>> subset_accuracy([[1, 0], [1, 1]], [[1, 0], [0, 1]])
    0.5
    """
    return subset_accuracy_of(_checked_counts(Y_true, Y_pred, sample_weight))


def example_precision(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over rows of hits / predicted labels.

    scikit-learn's `precision_score` with ``average="samples"``.

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a row in which no label is predicted; nan leaves such rows out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better; nan if no row is left.

    Examples
    --------
    >>> from comargin.metrics import example_precision
    >>> round(example_precision([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.75
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return example_of(precision_of, counts, check_zero_division(zero_division))


def example_recall(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over rows of hits / true labels.

    scikit-learn's `recall_score` with ``average="samples"``.

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a row in which no label is true; nan leaves such rows out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better; nan if no row is left.

    Examples
    --------
    >>> from comargin.metrics import example_recall
    >>> round(example_recall([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.75
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return example_of(recall_of, counts, check_zero_division(zero_division))


def example_f1(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over rows of 2 hits / (true + predicted labels).

    scikit-learn's `f1_score` with ``average="samples"``.

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a row in which no label is either true or predicted; nan leaves such rows out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better; nan if no row is left.

    Examples
    --------
    >>> from comargin.metrics import example_f1
    >>> round(example_f1([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.75
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return example_of(f1_of, counts, check_zero_division(zero_division))


def micro_precision(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Precision over all entries of the indicator pooled: hits / predicted labels.

    scikit-learn's ``average="micro"``.

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        The result if no label is predicted anywhere.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better.

    Examples
    --------
    >>> from comargin.metrics import micro_precision
    >>> round(micro_precision([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.667
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return micro_of(precision_of, counts, check_zero_division(zero_division))


def micro_recall(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Recall over all entries of the indicator pooled: hits / true labels.

    scikit-learn's ``average="micro"``.

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        The result if no label is true anywhere.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better.

    Examples
    --------
    >>> from comargin.metrics import micro_recall
    >>> round(micro_recall([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.667
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return micro_of(recall_of, counts, check_zero_division(zero_division))


def micro_f1(Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None) -> float:
    """F1 over all entries of the indicator pooled: 2 hits / (true + predicted labels).

    scikit-learn's ``average="micro"``.

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        The result if no label is either true or predicted anywhere.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better.

    Examples
    --------
    >>> from comargin.metrics import micro_f1
    >>> round(micro_f1([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.667
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return micro_of(f1_of, counts, check_zero_division(zero_division))


def macro_precision(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over labels of the label's own precision.

    scikit-learn's `precision_score` with ``average="macro"``.

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a label that is never predicted; nan leaves such labels out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better; nan if no label is left.

    Examples
    --------
    >>> from comargin.metrics import macro_precision
    >>> round(macro_precision([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.5
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return macro_of(precision_of, counts, check_zero_division(zero_division))


def macro_recall(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Mean over labels of the label's own recall.

    scikit-learn's `recall_score` with ``average="macro"``.

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a label without positives; nan leaves such labels out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better; nan if no label is left.

    Examples
    --------
    >>> from comargin.metrics import macro_recall
    >>> round(macro_recall([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.667
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return macro_of(recall_of, counts, check_zero_division(zero_division))


def macro_f1(Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None) -> float:
    """Mean over labels of the label's own F1.

    scikit-learn's `f1_score` with ``average="macro"``. `macro_f1_of_averages` is the other
    definition in use; it is never smaller than this one (the harmonic mean is concave).

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a label that is never true nor predicted; nan leaves such labels out of the mean.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better; nan if no label is left.

    Examples
    --------
    >>> from comargin.metrics import macro_f1
    >>> round(macro_f1([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.556
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return macro_of(f1_of, counts, check_zero_division(zero_division))


def macro_f1_of_averages(
    Y_true: Any, Y_pred: Any, *, zero_division: float = 0.0, sample_weight: ArrayLike | None = None
) -> float:
    """Harmonic mean of macro-averaged precision and macro-averaged recall.

    The second definition of macro-F1 in the literature. `macro_f1` is the mean of the labels' own F1
    (scikit-learn's); the two can differ by as much as 0.5, so a comparison has to say which one it uses.

    Parameters
    ----------
    Y_true : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    zero_division : {0, 1, nan}, default=0
        Value of a label's precision or recall when it is 0/0; nan leaves such labels out of that average.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    float
        In [0, 1], higher is better; 0 if both averages are 0.

    Examples
    --------
    >>> from comargin.metrics import macro_f1_of_averages
    >>> round(macro_f1_of_averages([[1, 0, 1], [0, 1, 0]], [[1, 1, 0], [0, 1, 0]]), 3)
    0.571
    """
    counts = _checked_counts(Y_true, Y_pred, sample_weight)
    return macro_f1_of_averages_of(counts, check_zero_division(zero_division))
