"""What an attribute may hold: the checks between a file and the code that computes with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Kind:
    """A set of values."""

    expected: str  # in words, for messages
    accepts: Callable[[Any], bool]

    def check(self, value: Any, where: str) -> None:
        """Raise ValueError when the value does not belong."""
        if not self.accepts(value):
            raise ValueError(f"{where}: expected {self.expected}, found a value of type {type(value).__name__}")


def inside(where: str, name: str) -> str:
    """Path of an attribute; the model itself has the path ``""``."""
    return f"{where}.{name}" if where else name


def _is_array(value: Any, kinds: str, ndim: int) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in kinds and value.ndim == ndim


def floats(ndim: int, *, finite: bool = True) -> Kind:
    """Float64 arrays; the compiled loops know no other floats, and some do not end on NaN."""

    def accepts(value: Any) -> bool:
        right = _is_array(value, "f", ndim) and value.dtype == np.float64
        return right and (not finite or bool(np.isfinite(value).all()))

    return Kind(f"a {'finite ' if finite else ''}float64 array with {ndim} dimension(s)", accepts)


def reals(ndim: int) -> Kind:
    """Finite arrays of float64 or float32, as scikit-learn keeps them."""
    return Kind(
        f"a finite array of floats with {ndim} dimension(s)",
        lambda value: _is_array(value, "f", ndim) and value.dtype.itemsize >= 4 and bool(np.isfinite(value).all()),
    )


def integers(ndim: int, *, least: int) -> Kind:
    """Integer arrays without values below ``least``."""
    return Kind(
        f"an integer array with {ndim} dimension(s), at least {least}",
        lambda value: _is_array(value, "iu", ndim) and bool((value >= least).all()),
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
VECTOR, MATRIX = floats(1), floats(2)
REALS, REALS_MATRIX = reals(1), reals(2)
# Thresholds are infinite for labels that never are on; means over nothing are NaN.
LOOSE_VECTOR, LOOSE_MATRIX = floats(1, finite=False), floats(2, finite=False)
FLAGS_MATRIX = Kind("a boolean array with 2 dimensions", lambda value: _is_array(value, "b", 2))
TEXTS = list_of(TEXT, tuple)
CLASSES = Kind(
    "a 1-D array of numbers or strings",
    lambda value: _is_array(value, "biufU", 1) or (_is_array(value, "O", 1) and all(type(v) is str for v in value)),
)
NAMES = Kind("an array of strings", lambda value: _is_array(value, "O", 1) and all(type(v) is str for v in value))
ROWS = any_of(
    MATRIX,
    Kind(
        "a finite float64 csr_array",
        lambda value: type(value) is sp.csr_array and value.dtype == np.float64 and bool(np.isfinite(value.data).all()),
    ),
)

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
    "integers": integers(1, least=0),
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


def check_shape(where: str, array: Any, *shape: int) -> None:
    """Raise ValueError when an array has another shape."""
    if array.shape != shape:
        raise ValueError(f"{where}: expected the shape {shape}, found {array.shape}")


def check_shapes(model: Any, where: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raise ValueError when an array of a model has another shape."""
    for name, shape in shapes.items():
        check_shape(inside(where, name), getattr(model, name), *shape)
