"""User input of the measures, checked once and brought to one form."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..core.indicator import check_indicator

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Weights = ArrayLike | None

# Elements of a temporary block: small enough to stay in cache, large enough to hide NumPy's call overhead.
BLOCK_ELEMENTS = 500_000


def check_true(Y: Any, name: str = "Y_true") -> sparse.csr_array:
    """Check the true label indicator: at least one row and one label."""
    Y = check_indicator(Y, name)
    if 0 in Y.shape:
        raise ValueError(f"{name} must have at least one row and one label, got shape {Y.shape}.")
    return Y


def check_predicted(Y_pred: Any, Y_true: sparse.csr_array, true_name: str = "Y_true") -> sparse.csr_array:
    """Check the predicted label indicator: of the shape of the true one."""
    Y_pred = check_indicator(Y_pred, "Y_pred")
    _check_same_shape(Y_pred, "Y_pred", Y_true, true_name)
    return Y_pred


def _check_same_shape(values: Any, name: str, Y_true: sparse.csr_array, true_name: str) -> None:
    if values.shape != Y_true.shape:
        raise ValueError(f"{name} must have the shape of {true_name}, {Y_true.shape}, got {values.shape}.")


def check_scores(
    scores: Any, Y_true: sparse.csr_array, *, accept_sparse: bool = False, true_name: str = "Y_true"
) -> Any:
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
