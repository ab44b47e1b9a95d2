"""Base of the rules that turn scores into label sets; each learns from scores and true labels alone.

All rules: ``fit(scores, Y, sample_weight=None)`` and ``predict(scores)``. A label that is on in no row given to ``fit``
is never switched on, and one that is on in every row always is, because its scores cannot be judged. (The one exception
is `TopK`, which must fill k places.)
"""

from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from .indicator import check_labels, check_weight, split_unknown

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]


class ThresholdRule(BaseEstimator):
    """Base of the rules: checks the input and keeps constant labels constant.

    Labels that are on in no row, or in every row, given to `fit` are *constant*: they stay off, or on.
    A rule writes ``_learn`` and ``_switch``. Attributes set here: ``n_labels_`` and ``constant_``, an int
    array with 0 for labels never on in ``fit``, 1 for labels always on, -1 for the others.

    Examples
    --------
    >>> from comargin.decisions import GlobalCut, ThresholdRule
    >>> issubclass(GlobalCut, ThresholdRule)
    True
    >>> GlobalCut().fit([[0.2, 1.0], [0.9, 3.0]], [[0, 0], [1, 0]]).constant_
    array([-1,  0])
    """

    def fit(self, scores: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Learn the rule.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_labels)
            Finite scores, higher for labels more likely on. They should come from rows the scorer was not trained on.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            True labels, 0 or 1; cells that are NaN are unknown and count nowhere.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the rows; a weight of 2 counts as the row given twice, 0 as the row left out.

        Returns
        -------
        self : object
            The fitted rule.
        """
        scores, Y, weight = read_scores_and_labels(scores, Y, sample_weight)
        ones, known = split_unknown(Y, "Y")
        positives = np.bincount(ones.indices, minlength=Y.shape[1])
        n_known = Y.shape[0] if known is None else np.count_nonzero(known, axis=0)
        constant = np.where(positives == 0, 0, np.where(positives == n_known, 1, -1))
        self._learn(scores, Y, weight, constant)
        self.n_labels_ = scores.shape[1]
        self.constant_ = constant
        return self

    def predict(self, scores: Any) -> NDArray[np.int64]:
        """Apply the rule.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_labels)
            Finite scores of the labels `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1 where a label is on, 0 elsewhere.
        """
        check_is_fitted(self)
        return self._switch(check_scores(scores, n_labels=self.n_labels_)).astype(np.int64)

    @abstractmethod
    def _learn(self, scores: FloatArray, Y: sparse.csr_array, weight: FloatArray, constant: NDArray[np.int_]) -> None:
        """Set the fitted attributes from checked input; all weights are positive, NaN is stored in unknown cells."""

    @abstractmethod
    def _switch(self, scores: FloatArray) -> BoolArray:
        """Which labels are on."""


def dense(Y: Any) -> BoolArray:
    return Y.toarray().astype(bool)


def read_scores_and_labels(
    scores: Any, Y: Any, sample_weight: Any, name: str = "scores"
) -> tuple[FloatArray, sparse.csr_array, FloatArray]:
    """Scores, true labels (as of `check_labels`) and weights of the rows that count, checked.

    Rows of weight 0 and those without a known label do not count.
    """
    scores = check_scores(scores, name)
    Y = check_labels(Y, "Y")
    if Y.shape != scores.shape:
        raise ValueError(f"Y must have the shape of {name}, {scores.shape}, got {Y.shape}.")
    if 0 in scores.shape:
        raise ValueError(f"{name} must have at least one row and one label, got shape {scores.shape}.")
    weight = check_weight(sample_weight, scores.shape[0])
    known = split_unknown(Y, "Y")[1]
    counts = weight > 0.0 if known is None else (weight > 0.0) & known.any(axis=1)
    if not counts.all():
        counted = np.flatnonzero(counts)
        if not counted.size:
            raise ValueError("Y has no known cell in a row that has weight: at least one label must be known.")
        scores, Y, weight = scores[counted], Y[counted], weight[counted]
    return scores, Y, weight


def check_scores(scores: Any, name: str = "scores", n_labels: int | None = None, of: str = "rule") -> FloatArray:
    """Scores as a finite float array of two dimensions, and of ``n_labels``; ``name`` and ``of`` are for errors."""
    scores = np.asarray(scores)
    if scores.ndim != 2 or scores.dtype.kind not in "biuf":
        raise ValueError(
            f"{name} must be a dense array of numbers of shape (n_samples, n_labels), got shape "
            f"{scores.shape} and dtype {scores.dtype}."
        )
    scores = scores.astype(np.float64, copy=False)
    if not np.isfinite(scores).all():
        raise ValueError(f"{name} must be finite: NaN or infinity found.")
    if n_labels is not None and scores.shape[1] != n_labels:
        raise ValueError(f"{name} has {scores.shape[1]} labels, the {of} was fitted with {n_labels}.")
    return scores


def check_option(name: str, value: Any, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}.")


def midpoint(upper: FloatArray, lower: FloatArray) -> FloatArray:
    """Middle of two scores; ``lower``, which a cut leaves off too, where rounding puts it outside [lower, upper)."""
    middle = 0.5 * upper + 0.5 * lower
    return np.where((lower <= middle) & (middle < upper), middle, lower)


def end_offset(low: FloatArray, high: FloatArray, count: int | NDArray[np.int_]) -> FloatArray:
    """Half the mean gap of ``count`` scores; half their size if they are all equal, 1/2 if all zero."""
    half_gap = (0.5 * high - 0.5 * low) / np.maximum(count - 1, 1)
    half_size = np.where(low == 0.0, 0.5, 0.5 * np.abs(low))
    return np.where(half_gap > 0.0, half_gap, half_size)


def below_lowest(low: FloatArray, offset: FloatArray) -> FloatArray:
    """A cut under the lowest score, distinct from it even where the offset is lost in rounding."""
    return np.minimum(low - offset, np.nextafter(low, -np.inf))
