"""Values to JSON nodes and back: numbers and strings as they are, everything else as an object with a ``type``.

========================  ===========================================================================
``float``                 NaN and the infinities, which JSON has not
``number``, ``dtype``     NumPy's scalars and scalar types
``list``, ``tuple``, ...  items one by one
``strings``, ...          long lists of one kind, as arrays
``dict``                  a list of keys and a list of values
``array``, ``sparse``     NumPy's arrays, and SciPy's CSR and CSC
``object``                an entry of the closed table in ``_registry.py``
========================  ===========================================================================
"""

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import scipy.sparse as sp

from ._archive import MAX_DEPTH, Archive

Node = Any
_SCALARS = {kind.__name__: kind for kind in (np.bool_, np.int32, np.int64, np.float32, np.float64)}
_SEQUENCES: dict[str, Callable[[list[Any]], Any]] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_INDEX_TYPES = {np.dtype(np.int32), np.dtype(np.int64)}
_INFINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_SPARSE = {
    ("csr", "array"): sp.csr_array,
    ("csr", "matrix"): sp.csr_matrix,
    ("csc", "array"): sp.csc_array,
    ("csc", "matrix"): sp.csc_matrix,
}
# Shorter lists are easier to look at as JSON.
_SHORT = 8
# Memory of Python's objects, which is more than their bytes in the file; counted before they are made.
_STRING_BYTES = 64
_NUMBER_BYTES = 40
_ARRAY_BYTES = 128


class Codec(Protocol):
    """How objects of one class are written and read."""

    @property
    def name(self) -> str:
        """Name of the class in files, which stays when the class is renamed."""

    @property
    def cls(self) -> type: ...

    def write(self, obj: Any, writer: "Writer", where: str) -> dict[str, Node]:
        """Return the nodes that describe the object, by names of the codec's own choice."""

    def read(self, node: dict[str, Node], reader: "Reader", where: str) -> Any:
        """Return the object, checked; ``where`` is its path in the model, for messages."""


class Writer:
    """Collects the arrays of a model while its nodes are made."""

    def __init__(self, codec_of: Callable[[type], Codec | None]) -> None:
        self.arrays: list[np.ndarray] = []
        self._codec_of = codec_of
        self._place: dict[int, int] = {}
        self._depth = 0

    def value(self, value: Any, where: str) -> Node:
        """Return the node of a value; ``where`` is its path in the model, for messages."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise ValueError(f"{where[:80]}: the model is nested more than {MAX_DEPTH} levels deep, or contains itself")
        node = self._node(value, where)
        self._depth -= 1
        return node

    def _node(self, value: Any, where: str) -> Node:
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind is int:
            if not -(1 << 63) <= value < 1 << 63:
                raise ValueError(f"{where}: an integer of more than 64 bits cannot be saved")
            return value
        if kind is float:
            return value if math.isfinite(value) else {"type": "float", "value": str(value)}
        if isinstance(value, np.generic) and kind in _SCALARS.values():
            return {"type": "number", "dtype": kind.__name__, "value": self.value(value.item(), where)}
        if isinstance(value, type) and value in _SCALARS.values():
            return {"type": "dtype", "name": value.__name__}
        if kind is list:
            return self._packed(value) or {"type": "list", "items": self._items(value, where)}
        if kind is tuple:
            return {"type": "tuple", "items": self._packed(list(value)) or self._items(value, where)}
        if kind in (set, frozenset):
            if not _all(value, str):
                raise TypeError(f"{where}: only sets of strings can be saved")
            texts = sorted(value)
            return {"type": kind.__name__, "items": self._packed(texts) or texts}
        if kind is dict:
            items = list(value.values())
            values = self._packed(items) or {"type": "list", "items": self._items(items, where, list(value))}
            return {"type": "dict", "keys": self.value(list(value), where), "values": values}
        if kind is np.ndarray:
            return self._array_node(value, where)
        if sp.issparse(value):
            return self._sparse(value, where)
        if kind is np.random.RandomState:
            return self._random_state(value)
        codec = self._codec_of(kind)
        if codec is None:
            raise TypeError(f"{where}: {_described(value)} cannot be saved")
        return {"type": "object", "class": codec.name, **codec.write(value, self, where)}

    def member(self, array: np.ndarray) -> int:
        """Number of an array in the file; the same array is written once."""
        if id(array) not in self._place:
            self._place[id(array)] = len(self.arrays)
            self.arrays.append(array)  # held, so that no other array gets its id
        return self._place[id(array)]

    def _items(self, values: Any, where: str, keys: Any = None) -> list[Node]:
        keys = range(len(values)) if keys is None else keys
        return [self.value(item, f"{where}[{key!r}]") for key, item in zip(keys, values, strict=True)]

    def _packed(self, values: list[Any]) -> Node | None:
        """Node of a long list of one kind, or None."""
        if len(values) <= _SHORT:
            return None
        if _all(values, str):
            coded = [text.encode("utf-8", "surrogatepass") for text in values]
            joined = np.frombuffer(b"".join(coded), np.uint8)
            return {"type": "strings", "bytes": self.member(joined), "ends": self.member(_ends(coded))}
        if _all(values, int) and all(-(1 << 63) <= value < 1 << 63 for value in values):
            return {"type": "integers", "values": self.member(np.array(values, np.int64))}
        if _all(values, float):
            return {"type": "floats", "values": self.member(np.array(values, np.float64))}
        if _all(values, tuple) and all(type(k) is int and 0 <= k < 1 << 63 for value in values for k in value):
            flat = np.array([k for value in values for k in value], np.int64)
            return {"type": "int_tuples", "values": self.member(flat), "ends": self.member(_ends(values))}
        if _all(values, np.ndarray):
            first = values[0]
            alike = all(value.dtype == first.dtype and value.ndim == first.ndim for value in values)
            if alike and first.ndim and first.dtype.kind in "biuf":
                shapes = np.array([value.shape for value in values], np.int64)
                flat = np.concatenate([value.ravel() for value in values])
                return {"type": "arrays", "values": self.member(flat), "shapes": self.member(shapes)}
        return None

    def _array_node(self, value: np.ndarray, where: str) -> Node:
        if (value.dtype.kind in "biuf" and value.dtype.itemsize <= 8) or value.dtype.kind == "U":
            return {"type": "array", "member": self.member(value)}
        if value.dtype.kind == "O" and value.ndim == 1 and _all(value.tolist(), str):
            return {"type": "texts", "items": self.value(value.tolist(), where)}
        raise TypeError(f"{where}: an array of {value.dtype} cannot be saved")

    def _sparse(self, value: Any, where: str) -> Node:
        container = "array" if isinstance(value, sp.sparray) else "matrix"
        if _SPARSE.get((value.format, container)) is not type(value) or value.dtype.kind not in "biuf":
            raise TypeError(f"{where}: a {type(value).__name__} of {value.dtype} cannot be saved: use CSR or CSC")
        if len(value.data) != value.nnz:  # room for more at the end
            value = value.copy()
            value.prune()
        parts = {name: self.member(getattr(value, name)) for name in ("data", "indices", "indptr")}
        shape = [int(size) for size in value.shape]
        return {"type": "sparse", "format": value.format, "container": container, "shape": shape, **parts}

    def _random_state(self, value: np.random.RandomState) -> Node:
        _, key, position, has_gauss, gauss = value.get_state(legacy=True)
        return {
            "type": "random_state",
            "key": self.member(np.asarray(key)),
            "position": int(position),
            "gauss": float(gauss) if has_gauss else None,
        }


class Reader:
    """Makes values of nodes, of at most ``max_size`` bytes."""

    def __init__(self, archive: Archive, max_size: int, codec_named: Callable[[str], Codec | None]) -> None:
        self._archive = archive
        self._left = max_size
        self._codec_named = codec_named
        self._arrays: dict[int, np.ndarray] = {}
        self._readers: dict[str, Callable[[dict[str, Node], str], Any]] = {
            "float": lambda node, where: _INFINITE[node["value"]],
            "number": self._number,
            "dtype": lambda node, where: _SCALARS[node["name"]],
            **dict.fromkeys(_SEQUENCES, self._sequence),
            "strings": self._strings,
            "integers": lambda node, where: self._numbers(node, np.int64),
            "floats": lambda node, where: self._numbers(node, np.float64),
            "int_tuples": self._int_tuples,
            "arrays": self._array_list,
            "dict": self._dict,
            "array": lambda node, where: self.member(node["member"]),
            "texts": self._texts,
            "sparse": self._sparse,
            "random_state": self._random_state,
            "object": self._object,
        }

    @property
    def n_read(self) -> int:
        """Number of different arrays that were read."""
        return len(self._arrays)

    def value(self, node: Node, where: str) -> Any:
        """Return the value of a node; ``where`` is its path in the model, for messages."""
        if node is None or isinstance(node, bool | int | float | str):
            return node
        if not isinstance(node, dict) or not isinstance(node.get("type"), str) or node["type"] not in self._readers:
            raise ValueError(f"{where}: is no value of a known type")
        try:
            return self._readers[node["type"]](node, where)
        except KeyError as error:
            raise ValueError(f"{where}: {error} is missing or unknown") from error

    def member(self, k: Any, dtype: Any = None, ndim: int | None = None) -> np.ndarray:
        """Return an array of the file, of a given type and number of dimensions."""
        if type(k) is not int or not 0 <= k < self._archive.n_arrays:
            raise ValueError(f"the file has no array {k!r}")
        if k not in self._arrays:
            self._arrays[k] = self._archive.array(k)
        array = self._arrays[k]
        self.take(array.nbytes)
        if (dtype is not None and array.dtype != dtype) or (ndim is not None and array.ndim != ndim):
            raise ValueError(f"array {k}: {np.dtype(dtype)} with {ndim} dimensions expected, got {array.dtype}")
        return array

    def take(self, n_bytes: int) -> None:
        """Count memory before it is used; an array that is referred to twice counts twice, as it may be copied."""
        self._left -= n_bytes
        if self._left < 0:
            raise ValueError("takes more memory than max_size allows")

    def _number(self, node: dict[str, Node], where: str) -> Any:
        value = self.value(node["value"], where)
        if not isinstance(value, bool | int | float):
            raise ValueError(f"{where}: is no number")
        return _SCALARS[node["dtype"]](value)

    def _sequence(self, node: dict[str, Node], where: str) -> Any:
        kind, items = node["type"], node["items"]
        if isinstance(items, list):
            values = [self.value(item, f"{where}[{k}]") for k, item in enumerate(items)]
        else:
            values = self.value(items, where)  # packed
        if type(values) is not list or (kind in ("set", "frozenset") and not _all(values, str)):
            raise ValueError(f"{where}: is no {kind}")
        return _SEQUENCES[kind](values)

    def _strings(self, node: dict[str, Node], where: str) -> list[str]:
        joined = self.member(node["bytes"], np.uint8, 1)
        bounds = self._bounds(node["ends"], len(joined), where)
        self.take(_STRING_BYTES * len(bounds) + 4 * len(joined))
        data = joined.tobytes()
        return [data[a:b].decode("utf-8", "surrogatepass") for a, b in pairwise(bounds)]

    def _bounds(self, k: Any, size: int, where: str) -> list[int]:
        """Where the parts of an array of this size begin and end; at least one part."""
        ends = self.member(k, np.int64, 1)
        if len(ends) == 0 or ends[0] < 0 or (ends[1:] < ends[:-1]).any() or ends[-1] != size:
            raise ValueError(f"{where}: ends of the parts of an array must rise from 0 to its size")
        return [0, *ends.tolist()]

    def _numbers(self, node: dict[str, Node], dtype: Any) -> list[Any]:
        values = self.member(node["values"], dtype, 1)
        self.take(_NUMBER_BYTES * len(values))
        return values.tolist()

    def _int_tuples(self, node: dict[str, Node], where: str) -> list[tuple[int, ...]]:
        values = self.member(node["values"], np.int64, 1)
        bounds = self._bounds(node["ends"], len(values), where)
        self.take(_NUMBER_BYTES * len(values) + _STRING_BYTES * len(bounds))
        numbers = values.tolist()
        return [tuple(numbers[a:b]) for a, b in pairwise(bounds)]

    def _array_list(self, node: dict[str, Node], where: str) -> list[np.ndarray]:
        flat, shapes = self.member(node["values"], ndim=1), self.member(node["shapes"], np.int64, 2)
        self.take(_ARRAY_BYTES * len(shapes))
        if len(shapes) and shapes.min() < 0:
            raise ValueError(f"{where}: a shape is negative")
        sizes = [math.prod(shape) for shape in shapes.tolist()]  # Python's integers do not overflow
        if shapes.shape[1] == 0 or sum(sizes) != len(flat):
            raise ValueError(f"{where}: arrays and their shapes do not agree")
        parts = np.split(flat, np.cumsum(sizes)[:-1]) if sizes else []
        return [part.reshape(shape) for part, shape in zip(parts, shapes.tolist(), strict=True)]

    def _dict(self, node: dict[str, Node], where: str) -> dict[Any, Any]:
        keys, values = self.value(node["keys"], where), self.value(node["values"], where)
        if type(keys) is not list or type(values) is not list or len(keys) != len(values):
            raise ValueError(f"{where}: keys and values do not agree")
        found = dict(zip(keys, values, strict=True))
        if len(found) != len(keys):
            raise ValueError(f"{where}: a key comes twice")
        return found

    def _texts(self, node: dict[str, Node], where: str) -> np.ndarray:
        items = self.value(node["items"], where)
        if type(items) is not list or not _all(items, str):
            raise ValueError(f"{where}: is no list of strings")
        texts = np.empty(len(items), dtype=object)
        texts[:] = items
        return texts

    def _sparse(self, node: dict[str, Node], where: str) -> Any:
        make = _SPARSE[node["format"], node["container"]]
        shape = node["shape"]
        right = isinstance(shape, list) and len(shape) == 2
        if not right or not all(type(n) is int and 0 <= n < 1 << 40 for n in shape):
            raise ValueError(f"{where}: {shape!r} is no shape of a matrix")
        data, indices, indptr = (self.member(node[name], ndim=1) for name in ("data", "indices", "indptr"))
        if data.dtype.kind not in "biuf" or not {indices.dtype, indptr.dtype} <= _INDEX_TYPES:
            raise ValueError(f"{where}: numbers with int32 or int64 indices expected")
        outer, inner = shape if node["format"] == "csr" else shape[::-1]
        # SciPy's loops do not check bounds.
        if (
            len(indptr) != outer + 1
            or indptr[0] != 0
            or (indptr[1:] < indptr[:-1]).any()
            or not indptr[-1] == len(indices) == len(data)
            or (len(indices) and not (indices.min() >= 0 and indices.max() < inner))
        ):
            raise ValueError(f"{where}: a sparse matrix with indices out of range")
        return make((data, indices, indptr), shape=tuple(shape))

    def _random_state(self, node: dict[str, Node], where: str) -> np.random.RandomState:
        key, position, gauss = self.member(node["key"], np.uint32, 1), node["position"], node["gauss"]
        right = type(position) is int and 0 <= position <= 624 and (gauss is None or type(gauss) is float)
        if len(key) != 624 or not right:
            raise ValueError(f"{where}: is no state of a random generator")
        state = np.random.RandomState(0)
        state.set_state(("MT19937", key, position, int(gauss is not None), gauss or 0.0))
        return state

    def _object(self, node: dict[str, Node], where: str) -> Any:
        name = node["class"]
        codec = self._codec_named(name) if isinstance(name, str) else None
        if codec is None:
            raise ValueError(f"{where}: {str(name)[:80]!r} is no class that is read here")
        return codec.read(node, self, where)


def _all(values: Any, kind: type) -> bool:
    return all(type(value) is kind for value in values)


def _ends(parts: list[Any]) -> np.ndarray:
    return np.cumsum([len(part) for part in parts], dtype=np.int64)


def _described(value: Any) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if callable(value):
        return "a function"
    return f"an object of the class {type(value).__module__}.{type(value).__qualname__}"
