"""What an attribute may hold: the checks between a file and the code that computes with it.

A kind tests one value by itself. A kind with a ``shape`` also names its sizes, such as ``("labels", "features")``: the
attributes of one model that name a size must agree on it, which `check_sizes` compares.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Kind:
    """A set of values."""

    expected: str  # in words, for messages
    accepts: Callable[[Any], bool]
    shape: tuple[str | int, ...] = ()  # sizes of an array, length of a list, or what a whole number counts
    optional: bool = False  # whether an attribute with a shape may be missing

    def shaped(self, *shape: str | int, optional: bool = False) -> "Kind":
        """The same kind with names (or numbers) of its sizes."""
        return replace(self, shape=shape, optional=optional)

    def check(self, value: Any, where: str) -> None:
        """Raise ValueError when the value does not belong."""
        if not self.accepts(value):
            raise ValueError(f"{where}: expected {self.expected}, found a value of type {type(value).__name__}")


def inside(where: str, name: str) -> str:
    """Path of an attribute; the model itself has the path ``""``."""
    return f"{where}.{name}" if where else name


def _is_array(value: Any, kinds: str, ndim: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.ndim == ndim


def floats(ndim: int, *, finite: bool = True, single: bool = False) -> Kind:
    """Float64 arrays: our loops know no other floats, and some do not end on NaN. Scikit-learn's may be float32 too."""
    dtypes = (np.float64, np.float32) if single else (np.float64,)

    def accepts(value: Any) -> bool:
        right = _is_array(value, "f", ndim) and value.dtype in dtypes
        return right and (not finite or bool(np.isfinite(value).all()))

    names = " or ".join(np.dtype(dtype).name for dtype in dtypes)
    return Kind(f"a {'finite ' if finite else ''}{names} array with {ndim} dimension(s)", accepts)


def integers(ndim: int, *, least: int = 0, dtype: type | None = None) -> Kind:
    """Integer arrays, of any type or a given one, without values below ``least``."""

    def accepts(value: Any) -> bool:
        right = _is_array(value, "iu", ndim) and (dtype is None or value.dtype == dtype)
        return right and bool((value >= least).all())

    return Kind(f"an {np.dtype(dtype or int)} array with {ndim} dimension(s), at least {least}", accepts)


def csr(*classes: type) -> Kind:
    """Finite float64 matrices of exactly these classes."""
    names = " or ".join(cls.__name__ for cls in classes)
    return Kind(
        f"a finite float64 {names}",
        lambda value: type(value) in classes and value.dtype == np.float64 and bool(np.isfinite(value.data).all()),
    )


def instance(*classes: type) -> Kind:
    """Objects of exactly these classes."""
    names = " or ".join(cls.__name__ for cls in classes)
    return Kind(f"a {names}", lambda value: type(value) in classes)


def any_of(*kinds: Kind) -> Kind:
    """Values of any of some kinds."""
    expected = " or ".join(kind.expected for kind in kinds)
    return Kind(expected, lambda value: any(kind.accepts(value) for kind in kinds))


def list_of(kind: Kind, container: type[list[Any]] | type[tuple[Any, ...]] = list) -> Kind:
    """Lists (or tuples) of one kind."""
    return Kind(
        f"a {container.__name__}, each {kind.expected}",
        lambda value: type(value) is container and all(kind.accepts(item) for item in value),
    )


def choice(*values: str) -> Kind:
    """One of some strings."""
    return Kind(f"one of {', '.join(values)}", lambda value: isinstance(value, str) and value in values)


ANYTHING = Kind("anything", lambda value: True)
NOTHING = Kind("None", lambda value: value is None)
FLAG = instance(bool)
TEXT = instance(str)
COUNT = Kind("a whole number, at least 0", lambda value: type(value) in (int, np.int32, np.int64) and value >= 0)
NUMBER = Kind("a number", lambda value: type(value) in (int, float, np.float64, np.float32, np.int64, np.int32))
INDICES = integers(1)
VECTOR, MATRIX = floats(1), floats(2)
REALS, REALS_MATRIX = floats(1, single=True), floats(2, single=True)
# Thresholds are infinite for labels that never are on; means over nothing are NaN.
LOOSE_VECTOR, LOOSE_MATRIX = floats(1, finite=False), floats(2, finite=False)
FLAGS_MATRIX = Kind("a boolean array with 2 dimensions", lambda value: _is_array(value, "b", 2))
TEXTS = list_of(TEXT, tuple)
NAMES = Kind("an array of strings", lambda value: _is_array(value, "O", 1) and all(type(v) is str for v in value))
CLASSES = Kind("a 1-D array of numbers or strings", lambda value: _is_array(value, "biufU", 1) or NAMES.accepts(value))
ROWS = any_of(MATRIX, csr(sp.csr_array))
CLASSIFIER = Kind("a classifier", lambda value: hasattr(value, "fit") and hasattr(value, "predict"))
_NAMED = {
    "anything": ANYTHING,
    "none": NOTHING,
    "flag": FLAG,
    "count": COUNT,
    "number": NUMBER,
    "text": TEXT,
    "texts": TEXTS,
    "names": NAMES,
    "classes": CLASSES,
    "integers": INDICES,
    "integer matrix": integers(2),
    "vector": VECTOR,
    "matrix": MATRIX,
    "loose vector": LOOSE_VECTOR,
    "loose matrix": LOOSE_MATRIX,
    "rows": ROWS,
    "classifier": CLASSIFIER,
}


def kind_of(declared: Any) -> Kind:
    """The kind that a declaration means: a name, a class, a tuple of alternatives, or ``[kind]`` for lists."""
    if isinstance(declared, str) and declared in _NAMED:
        return _NAMED[declared]
    if isinstance(declared, type):
        return instance(declared)
    if isinstance(declared, tuple) and declared:
        return any_of(*map(kind_of, declared))
    if isinstance(declared, list) and len(declared) == 1:
        return list_of(kind_of(declared[0]))
    raise ValueError(f"{declared!r} is no kind: use {', '.join(_NAMED)}, a class, a tuple of kinds or [kind]")


def check_shape(where: str, found: tuple[int, ...], *expected: int) -> None:
    """Raise ValueError when a shape is another one."""
    if found != expected:
        raise ValueError(f"{where}: expected the shape {expected}, found {found}")


def check_sizes(values: Mapping[str, Any], kinds: Mapping[str, Kind], where: str, sizes: dict[str, int]) -> None:
    """Raise ValueError unless all values that name a size agree on it; ``sizes`` has those known before, and grows."""
    for name, kind in kinds.items():
        if name not in values:
            if kind.shape and not kind.optional:
                raise ValueError(f"{inside(where, name)}: is missing")
            continue
        found = _sizes_of(values[name])
        if kind.shape and not found and hasattr(values[name], "get_params"):
            raise ValueError(f"{inside(where, name)}: is not fitted")
        if kind.shape and found:
            named = zip(kind.shape, found, strict=True)
            expected = (sizes.setdefault(key, size) if isinstance(key, str) else key for key, size in named)
            check_shape(inside(where, name), found, *expected)


# The attributes that have the size of an object: of a graph, a rule, a calibrator, a promise, and known label sets.
_SIZED_BY = ("n_labels", "n_labels_", "slope_", "cuts_", "sets_")


def _sizes_of(value: Any) -> tuple[int, ...]:
    """Shape of an array, length of a list, size of an object, a whole number itself; else empty."""
    if isinstance(value, list | tuple):
        return (len(value),)
    value = next((getattr(value, name) for name in _SIZED_BY if hasattr(value, name)), value)
    return (int(value),) if isinstance(value, int | np.integer) else getattr(value, "shape", ())
