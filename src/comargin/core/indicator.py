"""The one check of a {0, 1} label indicator, for every part that takes Y."""

from numbers import Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

_BINARIZE = "turn label sets into an indicator with sklearn.preprocessing.MultiLabelBinarizer"


def split_unknown(Y: Any, name: str) -> tuple[Any, np.ndarray | None]:
    """Y with 0 in place of its unknown cells, and which cells are known: bool of its shape, None if all are.

    Unknown is NaN, in a dense array or stored in a sparse one, also None and pandas.NA among objects, and a masked cell
    of `numpy.ma`. What is not 2-D comes back as it is. The input is never changed.
    """
    if sp.issparse(Y):
        stored = Y.tocoo() if Y.dtype.kind == "f" else Y
        if Y.dtype.kind != "f" or not (missing := np.isnan(stored.data)).any():
            return Y, None
        known = np.ones(Y.shape, dtype=bool)
        known[stored.row[missing], stored.col[missing]] = False
        there = ~missing
        return sp.csr_array((stored.data[there], (stored.row[there], stored.col[there])), shape=Y.shape), known
    refuse_label_sets(Y, name)
    masked = isinstance(Y, np.ma.MaskedArray)
    values = np.ma.getdata(Y) if masked else np.asarray(Y)
    if values.ndim != 2 or values.dtype.kind not in "biufO":
        return Y, None
    missing = np.ma.getmaskarray(Y) if masked else np.zeros(values.shape, dtype=bool)
    if values.dtype.kind == "f":
        missing = missing | np.isnan(values)
    elif values.dtype.kind == "O":
        missing = missing | np.reshape([_is_missing(value) for value in values.flat], values.shape)
    if not missing.any():
        return Y, None
    values = np.where(missing, 0, values)
    if values.dtype.kind == "O" and all(isinstance(value, Real) for value in values.flat):
        values = values.astype(np.float64)
    return values, ~missing


def _is_missing(value: Any) -> bool:
    """Whether an object is None, NaN or pandas.NA, which is known by its type, as pandas may not be there."""
    return value is None or type(value).__name__ == "NAType" or (isinstance(value, float) and value != value)


def with_unknown(Y: sp.csr_array, known: np.ndarray | None) -> sp.csr_array:
    """The reverse of `split_unknown` for a canonical indicator: float64, with NaN stored in the cells not known."""
    if known is None:
        return Y
    unknown = np.nonzero(~known)
    return Y.astype(np.float64) + sp.csr_array((np.full(len(unknown[0]), np.nan), unknown), shape=Y.shape)


def known_share(Y: Any) -> str:
    """How many cells are known, in words; empty if all are."""
    known = split_unknown(Y, "Y")[1]
    return "" if known is None else f"{np.count_nonzero(known)} of {known.size} ({known.mean():.1%})"


def check_labels(Y: Any, name: str) -> sp.csr_array:
    """`check_indicator` for a Y that may have unknown cells: with them float64, NaN stored there."""
    values, known = split_unknown(Y, name)
    return with_unknown(check_indicator(values, name), known)


def check_indicator(Y: Any, name: str) -> sp.csr_array:
    """Check a {0, 1} label indicator of any dtype, dense or sparse, and return it as canonical int8 CSR.

    Indices are sorted, only ones are stored, and the input is never changed. ``name`` is for the error message.
    """
    if not sp.issparse(Y):
        return sp.csr_array(dense_indicator(Y, name))
    _check_two_dimensional(Y, name)
    Y = sp.csr_array(Y)
    if not (Y.has_canonical_format and Y.data.all()):
        Y = Y.copy()
        Y.sum_duplicates()
        Y.eliminate_zeros()
    if not np.all(Y.data == 1):
        raise _not_binary(name, Y.data[Y.data != 1][0])
    return sp.csr_array((np.ones(Y.nnz, dtype=np.int8), Y.indices, Y.indptr), shape=Y.shape)


def dense_indicator(Y: Any, name: str) -> np.ndarray:
    """Check a dense {0, 1} label indicator of any dtype; returns an int8 copy in the memory order of the input."""
    refuse_label_sets(Y, name)
    Y = np.asarray(Y)
    _check_two_dimensional(Y, name)
    if Y.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a label indicator with entries in {{0, 1}}, got dtype {Y.dtype}; {_BINARIZE}")
    ones = Y == 1
    bad = ~ones & (Y != 0)
    if bad.any():
        raise _not_binary(name, Y[bad][0])
    return ones.view(np.int8)


def refuse_label_sets(y: Any, name: str) -> None:
    """Raise for label sets in place of an array, e.g. ``[["sun", "sea"], ["sea"]]``; ``name`` is the argument."""
    if sp.issparse(y):
        return
    try:
        values = np.asarray(y)
    except ValueError as error:
        raise ValueError(f"{name} has rows of different lengths; {_BINARIZE}") from error
    # Sets, and lists inside a Series or an object array, become objects of a 1-D array.
    if values.dtype == object and values.ndim == 1:
        for row in values:
            if isinstance(row, list | tuple | set | frozenset | np.ndarray):
                raise ValueError(f"{name} holds label sets such as {row!r}; {_BINARIZE}")


def check_weight(sample_weight: ArrayLike | None, n_samples: int) -> NDArray[np.float64]:
    """Return one non-negative weight per row; ones by default."""
    if sample_weight is None:
        return np.ones(n_samples)
    try:
        weight = np.asarray(sample_weight, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers, one per row: {error}") from error
    if weight.shape != (n_samples,):
        raise ValueError(f"sample_weight must have shape ({n_samples},), got {weight.shape}.")
    if not (np.isfinite(weight).all() and (weight >= 0).all() and weight.any()):
        raise ValueError("sample_weight must be finite and non-negative, and not zero for all rows.")
    return weight


def _check_two_dimensional(Y: Any, name: str) -> None:
    if Y.ndim != 2:
        raise ValueError(f"{name} must be a label indicator of shape (n_samples, n_labels), got shape {Y.shape}")


def _not_binary(name: str, value: Any) -> ValueError:
    return ValueError(f"{name} must be a label indicator with entries in {{0, 1}}, got {value}")
