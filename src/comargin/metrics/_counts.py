"""Counts and formulas behind the measures of predicted label sets.

All of them follow from three counts, per row or per label: ``hits`` (both true and predicted), ``true`` and
``predicted``. Precision is hits / predicted, recall hits / true, F1 is 2 hits / (true + predicted).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ._input import FloatArray, mean_defined, ratio


class Counts(NamedTuple):
    """Hits, true and predicted labels, one entry per row or per label."""

    hits: FloatArray
    true: FloatArray
    predicted: FloatArray


class SetCounts(NamedTuple):
    """The counts all measures of label sets are made of; `labels` is weighted by `weight`, `rows` is not."""

    rows: Counts
    labels: Counts
    weight: FloatArray
    n_labels: int


def count_sets(Y_true: sparse.csr_array, Y_pred: sparse.csr_array, weight: FloatArray) -> SetCounts:
    """Count hits, true and predicted labels of two checked indicators."""
    parts = (Y_true.multiply(Y_pred).tocsr(), Y_true, Y_pred)
    rows = Counts(*(np.diff(Y.indptr).astype(np.float64) for Y in parts))
    labels = Counts(*(_weighted_column_sums(Y, weight) for Y in parts))
    return SetCounts(rows, labels, weight, Y_true.shape[1])


def _weighted_column_sums(Y: sparse.csr_array, weight: FloatArray) -> FloatArray:
    weight_of_entry = np.repeat(weight, np.diff(Y.indptr))
    return np.bincount(Y.indices, weight_of_entry, minlength=Y.shape[1]).astype(np.float64)


def precision_of(counts: Counts, zero_division: float) -> FloatArray:
    return ratio(counts.hits, counts.predicted, zero_division)


def recall_of(counts: Counts, zero_division: float) -> FloatArray:
    return ratio(counts.hits, counts.true, zero_division)


def f1_of(counts: Counts, zero_division: float) -> FloatArray:
    return ratio(2 * counts.hits, counts.true + counts.predicted, zero_division)


Formula = Callable[[Counts, float], FloatArray]
SetMeasure = Callable[[SetCounts, float], float]
FORMULAS: dict[str, Formula] = {"precision": precision_of, "recall": recall_of, "f1": f1_of}


def hamming_of(counts: SetCounts, zero_division: float) -> float:
    rows = counts.rows
    wrong = rows.true + rows.predicted - 2 * rows.hits
    return mean_defined(wrong / counts.n_labels, counts.weight)


def subset_accuracy_of(counts: SetCounts, zero_division: float) -> float:
    rows = counts.rows
    right = (rows.hits == rows.true) & (rows.hits == rows.predicted)
    return mean_defined(right.astype(np.float64), counts.weight)


def example_of(formula: Formula) -> SetMeasure:
    """Weighted mean of the formula over the rows."""
    return lambda counts, zero_division: mean_defined(formula(counts.rows, zero_division), counts.weight)


def micro_of(formula: Formula) -> SetMeasure:
    """The formula of the counts of all labels together."""

    def measure(counts: SetCounts, zero_division: float) -> float:
        pooled = Counts(*(np.array([values.sum()]) for values in counts.labels))
        return float(formula(pooled, zero_division)[0])

    return measure


def macro_of(formula: Formula) -> SetMeasure:
    """Mean of the formula over the labels."""
    return lambda counts, zero_division: mean_defined(formula(counts.labels, zero_division))


def macro_f1_of_averages_of(counts: SetCounts, zero_division: float) -> float:
    precision, recall = (macro_of(formula)(counts, zero_division) for formula in (precision_of, recall_of))
    return 2 * precision * recall / (precision + recall) if precision + recall != 0 else 0.0
