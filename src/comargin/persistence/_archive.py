"""The container: a zip file of one JSON document and plain arrays; every size is checked before memory is taken."""

from __future__ import annotations

import json
import math
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from ..core.files import AtomicFiles

DOCUMENT = "model.json"
# Most bytes of the JSON document, and its deepest nesting: long lists are arrays, so models stay far below.
MAX_JSON = 1 << 23
MAX_DEPTH = 100
# Most bytes of the table of contents of the zip file, some 60 for every array.
_MAX_DIRECTORY = 1 << 22
_CHUNK = 1 << 20
_END_BYTES = 22
_ARRAY_NAME = re.compile(r"arrays/(0|[1-9][0-9]{0,5})\.npy")
_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_HEADER = re.compile(
    r"\{'descr': '(?P<descr>[<|][a-zA-Z][0-9]{1,6})', 'fortran_order': (?P<fortran>False|True), "
    r"'shape': \((?P<shape>(?:[0-9]{1,15}, ?)*[0-9]{0,15})\), \} *\n"
)
# Possessive, and a string without end is one too: the time is linear in any text.
_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NUMBERS = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
_MAX_DIMENSIONS = 8
# Deflate makes at most this many bytes of one.
_MOST_INFLATED = 1032
# Compressed where that saves this much of the first bytes; weights hardly shrink.
_WORTHWHILE = 0.7
_UTF8_NAME = 0x800  # the one flag of a zip member that says nothing about its contents
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    re.error,
    struct.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    OverflowError,
    OSError,
)


class ModelFileError(ValueError):
    """A model file that is broken, too large, or not one.

    Parameters
    ----------
    path : str or path-like
        The file.
    reason : str
        What is wrong with it.

    Notes
    -----
    Both are attributes, the path as a string.
    """

    def __init__(self, path: str | os.PathLike[str], reason: str) -> None:
        self.path, self.reason = os.fspath(path), reason
        super().__init__(f"{self.path}: {reason}")

    def __reduce__(self) -> tuple[type[ModelFileError], tuple[str, str]]:
        return type(self), (self.path, self.reason)


@contextmanager
def one_error(path: Path) -> Iterator[None]:
    """Whatever the contents of a file make go wrong, in a zip file, an array or a constructor, is a ModelFileError."""
    try:
        yield
    except ModelFileError:
        raise
    except _BROKEN as error:
        text = str(error) or type(error).__name__
        raise ModelFileError(path, f"cannot be read: {text}") from error


def write_archive(path: Path, document: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Write a file that appears whole or not at all; the same contents give the same bytes."""
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
    if len(text) > MAX_JSON:
        raise ValueError(
            f"the model's description takes {len(text)} bytes, at most {MAX_JSON} are allowed: shorten meta"
        )
    if _depth(text) > MAX_DEPTH:
        raise ValueError(f"the model is nested more than {MAX_DEPTH} levels deep")
    with AtomicFiles() as files:
        temporary = files.reserve(path)
        with temporary.open("r+b") as raw:
            with zipfile.ZipFile(raw, "w") as archive:
                _write_member(archive, DOCUMENT, b"", memoryview(text))
                for k, array in enumerate(arrays):
                    _write_member(archive, f"arrays/{k}.npy", *_npy(array))
            raw.flush()
            os.fsync(raw.fileno())
    if hasattr(os, "O_DIRECTORY"):  # where folders can be opened: the new name survives a power cut too
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _npy(array: np.ndarray) -> tuple[bytes, memoryview]:
    """Header and bytes of an array, which keeps its order: products of another order round differently."""
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    fortran = array.flags.f_contiguous and not array.flags.c_contiguous
    shape = ", ".join(map(str, array.shape)) + ("," if array.ndim == 1 else "")
    text = f"{{'descr': '{array.dtype.str}', 'fortran_order': {fortran}, 'shape': ({shape}), }}"
    # The format wants the whole header to be a multiple of 64 bytes, ended by a new line.
    text += " " * (-(len(_NPY_MAGIC) + 2 + len(text) + 1) % 64) + "\n"
    header = _NPY_MAGIC + len(text).to_bytes(2, "little") + text.encode("ascii")
    flat = np.ascontiguousarray(array.T if fortran else array).reshape(-1)
    return header, flat.view(np.uint8).data if flat.size else memoryview(b"")


def _write_member(archive: zipfile.ZipFile, name: str, header: bytes, data: memoryview) -> None:
    info = zipfile.ZipInfo(name)  # dated 1980, as a fixed date must be some date
    sample = header + bytes(data[: 1 << 16])
    if len(zlib.compress(sample)) < _WORTHWHILE * len(sample):
        info.compress_type = zipfile.ZIP_DEFLATED
    with archive.open(info, "w", force_zip64=len(data) >= 1 << 30) as member:
        member.write(header)
        for start in range(0, len(data), _CHUNK):
            member.write(data[start : start + _CHUNK])


class Archive:
    """An open model file of at most ``max_size`` bytes, unpacked; nothing in it is believed before it is checked."""

    def __init__(self, path: Path, max_size: int) -> None:
        self.path = path
        self._file: IO[bytes] = path.open("rb")
        try:
            with one_error(path):
                self.file_size = os.fstat(self._file.fileno()).st_size
                if self._file.read(4) != b"PK\x03\x04":
                    raise ModelFileError(path, "is not a model file of comargin")
                self._file.seek(-_END_BYTES, os.SEEK_END)
                end = self._file.read()
                if not (end.startswith(b"PK\x05\x06") and end.endswith(b"\0\0")):  # and no comment
                    raise ModelFileError(path, "is not whole: its end is missing, or something was appended")
                self._zip = zipfile.ZipFile(_SmallReads(self._file))
                self._members = self._checked_members(max_size)
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Archive:
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()
        self._file.close()

    @property
    def n_arrays(self) -> int:
        """Number of arrays."""
        return len(self._members) - 1

    @property
    def unpacked_size(self) -> int:
        """Bytes of all members."""
        return sum(info.file_size for info in self._members.values())

    def _checked_members(self, max_size: int) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            name = info.filename
            if name != DOCUMENT and not _ARRAY_NAME.fullmatch(name):
                raise ModelFileError(self.path, f"has an unknown member {name[:80]!r}")
            if name in members:
                raise ModelFileError(self.path, f"has the member {name!r} twice")
            if info.flag_bits & ~_UTF8_NAME:
                raise ModelFileError(self.path, f"{name}: is encrypted or written in a way that is not ours")
            if info.compress_type == zipfile.ZIP_STORED:
                possible = info.file_size == info.compress_size
            elif info.compress_type == zipfile.ZIP_DEFLATED:
                possible = info.file_size <= _MOST_INFLATED * info.compress_size
            else:
                raise ModelFileError(self.path, f"{name}: unknown compression {info.compress_type}")
            if not possible:
                raise ModelFileError(
                    self.path, f"{name}: {info.compress_size} bytes cannot be the {info.file_size} it declares"
                )
            members[name] = info
        if members.keys() != {DOCUMENT, *(f"arrays/{k}.npy" for k in range(len(members) - 1))}:
            raise ModelFileError(self.path, f"lacks {DOCUMENT} or an array")
        if sum(info.compress_size for info in members.values()) > self.file_size:
            raise ModelFileError(self.path, "declares more than the file has")
        total = sum(info.file_size for info in members.values())
        if total > max_size:
            raise ModelFileError(self.path, f"holds {total} bytes, more than max_size={max_size}")
        return members

    def document(self) -> Any:
        """Return the JSON document; numbers are finite and integers have at most 64 bits."""
        info = self._members[DOCUMENT]
        if info.file_size > MAX_JSON:
            raise ModelFileError(self.path, f"{DOCUMENT}: {info.file_size} bytes, at most {MAX_JSON} are allowed")
        with self._zip.open(info) as member:
            text = member.read(MAX_JSON + 1)
        if len(text) != info.file_size:
            raise ModelFileError(self.path, f"{DOCUMENT}: has not the size it declares")
        if _depth(text) > MAX_DEPTH:
            raise ModelFileError(self.path, f"{DOCUMENT}: nested more than {MAX_DEPTH} levels deep")
        return json.loads(
            text.decode("utf-8"),
            parse_constant=_no_constant,
            parse_float=_finite,
            parse_int=_small_integer,
            object_pairs_hook=_no_repeats,
        )

    def array(self, k: int) -> np.ndarray:
        """Return one array, after its header agrees with the size of its member."""
        name = f"arrays/{k}.npy"
        info = self._members[name]
        with self._zip.open(info) as member:
            dtype, shape, fortran, start = self._npy_header(member, name)
            count = math.prod(shape)
            if count * dtype.itemsize != info.file_size - start:
                raise ModelFileError(
                    self.path, f"{name}: shape {shape} of {dtype} does not fill its {info.file_size - start} bytes"
                )
            flat = np.empty(count, dtype)
            target = flat.view(np.uint8)
            filled = 0
            while filled < len(target):
                chunk = member.read(min(_CHUNK, len(target) - filled))
                if not chunk:
                    raise ModelFileError(self.path, f"{name}: ends early")
                target[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
                filled += len(chunk)
            if member.read(1):  # the end is where the checksum is compared
                raise ModelFileError(self.path, f"{name}: is longer than it declares")
        largest = {"b": 1, "U": 0x10FFFF}.get(dtype.kind)
        if largest is not None and count and target.view(np.uint8 if dtype.kind == "b" else "<u4").max() > largest:
            raise ModelFileError(self.path, f"{name}: bytes that are no {dtype}")
        native = flat.astype(dtype.newbyteorder("="), copy=False)
        return native.reshape(shape, order="F" if fortran else "C")

    def _npy_header(self, member: IO[bytes], name: str) -> tuple[np.dtype, tuple[int, ...], bool, int]:
        """Type, shape, whether in Fortran order, and where the numbers begin."""
        magic = member.read(len(_NPY_MAGIC))
        length = int.from_bytes(member.read(2), "little")
        match = _NPY_HEADER.fullmatch(member.read(length).decode("latin-1"))
        if magic != _NPY_MAGIC or match is None:
            raise ModelFileError(self.path, f"{name}: is no array of numbers or strings")
        descr = match["descr"]
        if descr not in _NUMBERS and not re.fullmatch("<U[1-9][0-9]*", descr):
            raise ModelFileError(self.path, f"{name}: arrays of {descr} are not read")
        shape = tuple(int(size) for size in match["shape"].replace(" ", "").split(",") if size)
        if len(shape) > _MAX_DIMENSIONS:
            raise ModelFileError(self.path, f"{name}: has {len(shape)} dimensions, at most {_MAX_DIMENSIONS}")
        return np.dtype(descr), shape, match["fortran"] == "True", len(_NPY_MAGIC) + 2 + length


class _SmallReads:
    """A file without large reads: zipfile reads a table of contents in one go, in whatever size it declares."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.seek, self.tell, self.seekable = file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > _MAX_DIRECTORY:
            raise zipfile.BadZipFile(f"its table of contents has {size} bytes, at most {_MAX_DIRECTORY} are allowed")
        return self._file.read(size)


def _depth(text: bytes) -> int:
    """Deepest nesting of brackets outside strings."""
    bare = np.frombuffer(_JSON_STRING.sub(b"", text), np.uint8)
    opened = np.isin(bare, (ord("["), ord("{"))).astype(np.int64)
    return int(np.cumsum(opened - np.isin(bare, (ord("]"), ord("}")))).max(initial=0))


def _no_constant(text: str) -> float:
    raise ValueError(f"{text} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is too large")
    return number


def _small_integer(text: str) -> int:
    number = int(text) if len(text) <= 20 else 1 << 64
    if not -(1 << 63) <= number < 1 << 63:
        raise ValueError(f"the integer {text[:40]} has more than 64 bits")
    return number


def _no_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name comes twice in an object")
    return found
