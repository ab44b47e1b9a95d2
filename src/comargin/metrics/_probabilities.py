"""Measures of probabilities: are they near the truth, and do they come true as often as they say?

The Brier score and the log loss are means over all entries. Calibration errors compare, in bins of entries with similar
probabilities, the mean probability with the share of entries that are on. Bins have equal mass: nearly all
probabilities of a rare label are near 0, where bins of equal width put them together.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.checks import whole_number
from ._input import (
    BLOCK_ELEMENTS,
    FloatArray,
    IntArray,
    Truth,
    Weights,
    check_probabilities,
    check_true,
    documented,
    mean_defined,
)
from ._top_k import TopLabels, check_k

N_BINS = 10
_LEAST = float(np.finfo(np.float64).eps)  # probabilities are moved this far off 0 and 1 for the log loss


class Probabilities:
    """Checked labels, probabilities and weights."""

    def __init__(self, truth: Truth, p: FloatArray, weight: FloatArray) -> None:
        self.truth, self.p, self.weight = truth, p, weight

    def mean_loss(self, losses: Callable[[FloatArray], tuple[FloatArray, FloatArray]]) -> float:
        """Weighted mean over the known entries of a loss; ``losses`` gives it for entries that are off, and on."""
        Y, known, total = self.truth.Y, self.truth.known, 0.0
        step = max(1, BLOCK_ELEMENTS // Y.shape[1])
        for start in range(0, Y.shape[0], step):
            rows = slice(start, start + step)
            off, on = losses(self.p[rows])
            of_off = off.sum(axis=1) if known is None else np.vecdot(off, known[rows])
            total += float(self.weight[rows] @ (of_off + Y[rows].multiply(on - off).sum(axis=1)))
        cells = float(self.weight @ self.truth.n_known)
        return total / cells if cells > 0.0 else float("nan")


def _squared(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    return p**2, (1.0 - p) ** 2


def _logarithmic(p: FloatArray) -> tuple[FloatArray, FloatArray]:
    p = np.clip(p, _LEAST, 1.0 - _LEAST)
    return -np.log1p(-p), -np.log(p)


def _by_label(of: Probabilities, n_bins: int = N_BINS) -> float:
    columns, known = of.truth.Y.tocsc(), of.truth.known
    n_samples, n_labels = of.truth.shape
    errors = np.full(n_labels, np.nan)
    for label in np.flatnonzero(of.truth.judged):
        on = np.zeros(n_samples)
        on[columns.indices[columns.indptr[label] : columns.indptr[label + 1]]] = 1.0
        weight = of.weight if known is None else of.weight * known[:, label]
        errors[label] = _binned_error(on, of.p[:, label], weight, n_bins)
    return mean_defined(errors)


def _binned_error(on: FloatArray, p: FloatArray, weight: FloatArray, n_bins: int) -> float:
    """Mean over bins of equal mass of abs(mean probability - share that is on); NaN without any weight."""
    if not weight.any():
        return float("nan")
    bins = _equal_mass_bins(p, weight, n_bins)
    return float(np.abs(np.bincount(bins, weight * (p - on))).sum() / weight.sum())


def _equal_mass_bins(p: FloatArray, weight: FloatArray, n_bins: int) -> IntArray:
    """Bin of each entry, by the mass below it; equal probabilities are one bin, by the middle of their mass."""
    levels, level = np.unique(p, return_inverse=True)
    mass = np.bincount(level, weight, len(levels))
    middle = np.cumsum(mass) - 0.5 * mass
    return np.minimum((n_bins * middle / mass.sum()).astype(np.int64), n_bins - 1)[level]


def top_calibration_error(best: TopLabels, k: int, n_bins: int = N_BINS) -> float:
    """Calibration error of the known entries that are among the k likeliest of their row."""
    top, known = best.top[:, :k], best.truth.known
    chosen, weight = np.take_along_axis(best.scores, top, axis=1).ravel(), np.repeat(best.weight, top.shape[1])
    if known is not None:
        weight *= np.take_along_axis(known, top, axis=1).ravel()
    return _binned_error(best.hits[:, :k].ravel().astype(float), chosen, weight, n_bins)


#: The measures of probabilities, in the order of `evaluate`.
PROBABILITY_MEASURES: dict[str, Callable[[Probabilities], float]] = {
    "brier_score": lambda of: of.mean_loss(_squared),
    "log_loss": lambda of: of.mean_loss(_logarithmic),
    "calibration_error": _by_label,
}


def _checked(Y_true: Any, probabilities: Any, sample_weight: Weights) -> Probabilities:
    truth = check_true(Y_true)
    return Probabilities(truth, check_probabilities(probabilities, truth), truth.weights(sample_weight))


@documented()
def brier_score(Y_true: Any, probabilities: Any, *, sample_weight: Weights = None) -> float:
    """Mean squared difference of the probabilities and the truth, over all entries.

    The mean over the labels of scikit-learn's `brier_score_loss`. The value is in [0, 1], lower is better.

    Examples
    --------
    >>> from comargin.metrics import brier_score
    >>> round(brier_score([[1, 0], [0, 1]], [[0.9, 0.1], [0.4, 0.8]]), 4)
    0.055
    """
    return PROBABILITY_MEASURES["brier_score"](_checked(Y_true, probabilities, sample_weight))


@documented()
def log_loss(Y_true: Any, probabilities: Any, *, sample_weight: Weights = None) -> float:
    """Mean negative logarithm of the probability of what is true, over all entries.

    The mean over the labels of scikit-learn's `log_loss`. Probabilities are first moved off 0 and 1 by 2.2e-16, so that
    a wrong certainty costs 36. The value is at least 0, lower is better.

    Examples
    --------
    >>> from comargin.metrics import log_loss
    >>> round(log_loss([[1, 0], [0, 1]], [[0.9, 0.1], [0.4, 0.8]]), 4)
    0.2362
    """
    return PROBABILITY_MEASURES["log_loss"](_checked(Y_true, probabilities, sample_weight))


@documented()
def calibration_error(Y_true: Any, probabilities: Any, *, n_bins: int = N_BINS, sample_weight: Weights = None) -> float:
    """Expected calibration error of each label, averaged over the labels.

    The rows are put into bins of equal mass by their probability of the label (equal probabilities are in one bin). The
    error of a label is the weighted mean over the bins of the difference between the mean probability and the share of
    rows that have the label. With few rows in a bin it is above 0 for perfect probabilities too. The value is in
    [0, 1], lower is better.

    References
    ----------
    K. Nguyen, B. O'Connor. Posterior calibration and exploratory analysis for natural language processing models.
    EMNLP 2015.

    Examples
    --------
    >>> from comargin.metrics import calibration_error
    >>> Y, P = [[1], [0], [1], [1]], [[0.3], [0.3], [0.9], [0.9]]
    >>> round(calibration_error(Y, P, n_bins=2), 4)
    0.15
    """
    return _by_label(_checked(Y_true, probabilities, sample_weight), whole_number("n_bins", n_bins, 1))


@documented()
def calibration_error_at_k(
    Y_true: Any, probabilities: Any, *, k: int, n_bins: int = N_BINS, sample_weight: Weights = None
) -> float:
    """Expected calibration error of the k likeliest labels of each row, all labels together.

    With many rare labels nearly all entries are rightly near 0 and hide the others from `calibration_error`; the
    labels that would be shown are judged here. Bins are those of `calibration_error`, over all these entries. The value
    is in [0, 1], lower is better.

    Examples
    --------
    >>> from comargin.metrics import calibration_error_at_k
    >>> Y, P = [[1, 0, 0], [0, 0, 1]], [[0.8, 0.1, 0.1], [0.6, 0.2, 0.2]]
    >>> round(calibration_error_at_k(Y, P, k=1, n_bins=1), 4)
    0.2
    """
    of, k = _checked(Y_true, probabilities, sample_weight), check_k(k)
    return top_calibration_error(TopLabels(of.truth, of.p, of.weight, k), k, whole_number("n_bins", n_bins, 1))
