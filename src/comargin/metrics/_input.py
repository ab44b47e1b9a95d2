"""Arguments of the measures: checked once and brought to one form, and described once for their docstrings."""

import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..core.indicator import check_indicator, check_weight, split_unknown

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Weights = ArrayLike | None

# Elements of a temporary block: small enough to stay in cache, large enough to hide NumPy's call overhead.
BLOCK_ELEMENTS = 500_000


@dataclass(frozen=True)
class Truth:
    """True labels: an indicator that is off in unknown cells, and which cells are known; None if all are.

    What is said of unknown cells counts nowhere: `seen` leaves it out.
    """

    Y: sparse.csr_array
    known: NDArray[np.bool_] | None = None

    @property
    def shape(self) -> tuple[int, int]:
        return self.Y.shape

    @cached_property
    def n_known(self) -> IntArray:
        """Known cells of each row."""
        n_samples, n_labels = self.shape
        return np.full(n_samples, n_labels) if self.known is None else np.count_nonzero(self.known, axis=1)

    @property
    def judged(self) -> NDArray[np.bool_]:
        """Labels with a known cell."""
        return np.ones(self.shape[1], dtype=bool) if self.known is None else np.any(self.known, axis=0)

    def seen(self, values: Any) -> Any:
        """Predictions or scores with those of unknown cells gone: not stored if sparse, and below all others if dense.

        An infinite score of a known cell becomes finite, so that it is above those.
        """
        if self.known is None:
            return values
        if sparse.issparse(values):
            rows = np.repeat(np.arange(values.shape[0]), np.diff(values.indptr))
            there = self.known[rows, values.indices]
            return sparse.csr_array((values.data[there], (rows[there], values.indices[there])), shape=values.shape)
        return np.where(self.known, np.maximum(values, np.finfo(values.dtype).min), -np.inf)

    def weight(self, sample_weight: Weights) -> FloatArray | None:
        """Weight of each row, 0 for those without a known cell; None if all rows count the same."""
        empty = self.n_known == 0
        if sample_weight is None and not empty.any():
            return None
        return np.where(empty, 0.0, check_weight(sample_weight, self.shape[0]))

    def weights(self, sample_weight: Weights) -> FloatArray:
        """`weight` as an array."""
        weight = self.weight(sample_weight)
        return np.ones(self.shape[0]) if weight is None else weight


def check_true(Y: Any, name: str = "Y_true") -> Truth:
    """Check the true label indicator: at least one row and one label; NaN is unknown."""
    Y, known = split_unknown(Y, name)
    Y = check_indicator(Y, name)
    if 0 in Y.shape:
        raise ValueError(f"{name} must have at least one row and one label, got shape {Y.shape}.")
    return Truth(Y, known)


def check_predicted(Y_pred: Any, truth: Truth, true_name: str = "Y_true") -> sparse.csr_array:
    """Check the predicted label indicator: of the shape of the true one."""
    Y_pred = check_indicator(Y_pred, "Y_pred")
    _check_same_shape(Y_pred, "Y_pred", truth, true_name)
    return Y_pred


def _check_same_shape(values: Any, name: str, Y_true: Truth, true_name: str) -> None:
    if values.shape != Y_true.shape:
        raise ValueError(f"{name} must have the shape of {true_name}, {Y_true.shape}, got {values.shape}.")


def check_scores(scores: Any, Y_true: Truth, *, accept_sparse: bool = False, true_name: str = "Y_true") -> Any:
    """Check scores: floating point, of the shape of Y_true, without NaN (infinite scores rank fine)."""
    if sparse.issparse(scores):
        if not accept_sparse:
            raise ValueError("scores must be dense for this measure; only the measures at k take sparse scores.")
        scores = sparse.csr_array(scores)
        if not scores.has_canonical_format:
            scores = scores.copy()
            scores.sum_duplicates()
        values = scores.data
    else:
        scores = np.asarray(scores)
        values = scores
    if values.dtype.kind not in "biuf":
        raise ValueError(f"scores must hold numbers, got dtype {values.dtype}.")
    _check_same_shape(scores, "scores", Y_true, true_name)
    if values.dtype.kind != "f":
        return scores.astype(np.float64)
    # min() propagates a NaN and needs no temporary of the size of the scores.
    if values.size and np.isnan(values.min()):
        raise ValueError("scores must not contain NaN.")
    return scores


def check_probabilities(probabilities: Any, Y_true: Truth, true_name: str = "Y_true") -> FloatArray:
    """Check probabilities: dense numbers from 0 to 1, of the shape of Y_true."""
    if sparse.issparse(probabilities):
        raise ValueError("probabilities must be dense.")
    p = np.asarray(probabilities)
    if p.dtype.kind not in "biuf":
        raise ValueError(f"probabilities must hold numbers, got dtype {p.dtype}.")
    _check_same_shape(p, "probabilities", Y_true, true_name)
    if not (p.min() >= 0 and p.max() <= 1):
        raise ValueError(f"probabilities must be from 0 to 1, got values from {p.min():g} to {p.max():g}.")
    return p.astype(np.float64, copy=False)


def check_zero_division(zero_division: float) -> float:
    """Return the value of 0/0: 0, 1 or NaN (NaN leaves the case out of the mean)."""
    if not (zero_division in (0, 1) or np.isnan(zero_division)):
        raise ValueError(f"zero_division must be 0, 1 or nan, got {zero_division!r}.")
    return float(zero_division)


def ratio(numerator: FloatArray, denominator: FloatArray, zero_division: float) -> FloatArray:
    """Divide elementwise, with a given value for 0/0."""
    out = np.full(numerator.shape, zero_division)
    return np.divide(numerator, denominator, out=out, where=denominator > 0)


def mean_defined(values: FloatArray, weight: FloatArray | None = None) -> float:
    """Weighted mean of the values that are not NaN; NaN if there are none."""
    defined = ~np.isnan(values)
    weight = np.ones(len(values)) if weight is None else weight
    total = weight[defined].sum()
    return float(values[defined] @ weight[defined] / total) if total > 0 else float("nan")


Measure = TypeVar("Measure", bound=Callable[..., float])

_MATRIX = "array-like or sparse matrix of shape (n_samples, n_labels)"
_RANKED_SCORES = ("array-like of shape (n_samples, n_labels)", "Score of each label; higher means more relevant.")
_SCORES_AT_K = (
    _MATRIX,
    "Score of each label. Of tied labels the first counts; in sparse scores only stored ones are predicted.",
)
_ENTRIES = {
    "Y_true": (_MATRIX, "True {0, 1} label indicator; cells that are NaN are unknown and count nowhere."),
    "Y_pred": (_MATRIX, "Predicted {0, 1} label indicator."),
    "probabilities": ("array-like of shape (n_samples, n_labels)", "Probability of each label, from 0 to 1."),
    "n_bins": ("int, default=10", "Number of bins of equal mass."),
    "k": ("int", "Number of labels taken of each row, positive. Beyond n_labels all are taken."),
    "propensities": (
        "array-like of shape (n_labels,)",
        "Chance in (0, 1] that a relevant label was recorded; see `label_propensities`.",
    ),
    "normalize": ("bool, default=False", "Divide by the number of labels, as some papers do."),
    "zero_division": ("{0, 1, nan}, default=0", ""),
    "sample_weight": ("array-like of shape (n_samples,), default=None", "Weight of each row."),
}


def documented(**meanings: str) -> Callable[[Measure], Measure]:
    """Add the Parameters section to the docstring of a measure; ``meanings`` replace the usual descriptions."""

    def add_section(measure: Measure) -> Measure:
        if measure.__doc__ is None:  # python -OO
            return measure
        names = inspect.signature(measure).parameters
        entries: dict[str, Any] = {**_ENTRIES, "scores": _SCORES_AT_K if "k" in names else _RANKED_SCORES}
        section = ["Parameters", "----------"]
        for name in names:
            kind, meaning = entries[name]
            section += [f"{name} : {kind}", *textwrap.wrap(meanings.get(name, meaning), 110, initial_indent="    ")]
        text = inspect.cleandoc(measure.__doc__)
        place = re.search(r"^(References|Examples)$", text, re.MULTILINE)
        end = len(text) if place is None else place.start()
        measure.__doc__ = text[:end] + "\n".join([*section, "", text[end:]])
        return measure

    return add_section
