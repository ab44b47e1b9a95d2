"""The container: a zip file of one JSON document and plain arrays; every size is checked before memory is taken."""

import hashlib
import io
import json
import math
import os
import re
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
# Possessive quantifiers, and an unterminated string matches too: the time is linear in any text.
_JSON_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_NUMBERS = {"|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f2", "<f4", "<f8"}
_MAX_DIMENSIONS = 8
_MOST_INFLATED = 1032  # bytes that deflate can make of one
# Members are compressed if their first bytes shrink to less than this; weights hardly shrink.
_WORTHWHILE = 0.7
_NO_SUM = "0" * 64
_SUM = re.compile("[0-9a-f]{64}")
_UTF8_NAME = 0x800  # the one flag of a zip member that says nothing about its contents


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

    def __reduce__(self) -> "tuple[type[ModelFileError], tuple[str, str]]":
        return type(self), (self.path, self.reason)


@contextmanager
def one_error(path: Path) -> Iterator[None]:
    """Raise a ModelFileError for every error that the contents of a file cause, in a zip file or a constructor."""
    try:
        yield
    except (ModelFileError, MemoryError):
        raise
    except Exception as error:
        raise ModelFileError(path, f"cannot be read: {str(error) or type(error).__name__}") from error


def write_archive(path: Path, document: dict[str, Any], arrays: Sequence[np.ndarray]) -> None:
    """Write a file, whole or not at all; the same contents give the same bytes.

    The document has the SHA-256 of every array, and first its own, made with zeros in its place: it identifies all.
    """
    sums = [_npy_sum(array) for array in arrays]
    document = {"sha256": _NO_SUM, **document, "arrays_sha256": sums}
    text = json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
    text = text.replace(_NO_SUM.encode(), hashlib.sha256(text).hexdigest().encode(), 1)
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
    if hasattr(os, "O_DIRECTORY"):  # not on Windows: sync the folder, so that the new name survives a power cut
        folder = os.open(path.parent, os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _npy_sum(array: np.ndarray) -> str:
    header, data = _npy(array)
    total = hashlib.sha256(header)
    total.update(data)
    return total.hexdigest()


def _npy(array: np.ndarray) -> tuple[bytes, memoryview]:
    """Header and bytes of an array in its own order: products with another order round differently."""
    array = array.astype(array.dtype.newbyteorder("<"), copy=False)
    header = io.BytesIO()
    facts = np.lib.format.header_data_from_array_1_0(array)
    np.lib.format.write_array_header_1_0(header, facts)
    flat = np.ascontiguousarray(array.T if facts["fortran_order"] else array).reshape(-1)
    return header.getvalue(), flat.view(np.uint8).data if flat.size else memoryview(b"")


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
    """An open model file of at most ``max_size`` bytes when unpacked; every declared size is checked before use.

    ``verify`` compares what is read with the hashes in the document; files of earlier versions have none.
    """

    def __init__(self, path: Path, max_size: int, *, verify: bool = True) -> None:
        self.path, self.verify, self._sums = path, verify, list[str]()
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
                self._members = self._checked_members()
                self.n_arrays = len(self._members) - 1
                self.unpacked_size = sum(info.file_size for info in self._members.values())
                if self.unpacked_size > max_size:
                    raise ModelFileError(path, f"holds {self.unpacked_size} bytes, more than max_size={max_size}")
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> "Archive":
        return self

    def __exit__(self, *error: object) -> None:
        self._zip.close()
        self._file.close()

    def _checked_members(self) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            name = info.filename
            if name != DOCUMENT and not _ARRAY_NAME.fullmatch(name):
                raise ModelFileError(self.path, f"has an unknown member {name[:80]!r}")
            if name in members:
                raise ModelFileError(self.path, f"has the member {name!r} twice")
            if info.flag_bits & ~_UTF8_NAME:
                raise ModelFileError(self.path, f"{name}: is encrypted or written in a way that is not ours")
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ModelFileError(self.path, f"{name}: unknown compression {info.compress_type}")
            size, packed = info.file_size, info.compress_size
            if size > _MOST_INFLATED * packed or (info.compress_type == zipfile.ZIP_STORED and size != packed):
                raise ModelFileError(self.path, f"{name}: {packed} bytes cannot be the {size} it declares")
            members[name] = info
        if members.keys() != {DOCUMENT, *(f"arrays/{k}.npy" for k in range(len(members) - 1))}:
            raise ModelFileError(self.path, f"lacks {DOCUMENT} or an array")
        if min(info.header_offset for info in members.values()) > 0:
            raise ModelFileError(self.path, "is not whole: something stands before it, perhaps another model file")
        if sum(info.compress_size for info in members.values()) > self.file_size:
            raise ModelFileError(self.path, "declares more than the file has")
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
        document = json.loads(
            text.decode("utf-8"),
            parse_constant=_finite,
            parse_float=_finite,
            parse_int=_small_integer,
            object_pairs_hook=_no_repeats,
        )
        if self.verify and isinstance(document, dict) and "sha256" in document:
            self._check_document(text, document)
        return document

    def _check_document(self, text: bytes, document: dict[str, Any]) -> None:
        own, sums = document["sha256"], document.get("arrays_sha256")
        right = isinstance(sums, list) and len(sums) == self.n_arrays and isinstance(own, str) and _SUM.fullmatch(own)
        if not right or hashlib.sha256(text.replace(own.encode(), _NO_SUM.encode(), 1)).hexdigest() != own:
            raise ModelFileError(self.path, f"{DOCUMENT}: was changed after it was written: its SHA-256 differs")
        self._sums = document["arrays_sha256"]

    def array(self, k: int) -> np.ndarray:
        """Return one array, after its header agrees with the size of its member."""
        name = f"arrays/{k}.npy"
        info = self._members[name]
        total = hashlib.sha256()
        with self._zip.open(info) as member:
            dtype, shape, fortran, start = self._npy_header(member, name, total)
            count = math.prod(shape)
            if count * dtype.itemsize != info.file_size - start:
                raise ModelFileError(
                    self.path, f"{name}: shape {shape} of {dtype} does not fill its {info.file_size - start} bytes"
                )
            flat = np.empty(count, dtype)
            target = flat.view(np.uint8)
            filled = 0
            while chunk := member.read(_CHUNK):  # zipfile ends at the declared size, and compares the checksum there
                total.update(chunk)
                target[filled : filled + len(chunk)] = np.frombuffer(chunk, np.uint8)
                filled += len(chunk)
            if filled != len(target):
                raise ModelFileError(self.path, f"{name}: ends early")
        if self._sums and self._sums[k] != total.hexdigest():
            raise ModelFileError(self.path, f"{name}: was changed after it was written: its SHA-256 differs")
        largest = {"b": 1, "U": 0x10FFFF}.get(dtype.kind)
        if largest is not None and count and target.view(np.uint8 if dtype.kind == "b" else "<u4").max() > largest:
            raise ModelFileError(self.path, f"{name}: bytes that are no {dtype}")
        native = flat.astype(dtype.newbyteorder("="), copy=False)
        return native.reshape(shape, order="F" if fortran else "C")

    def _npy_header(self, member: IO[bytes], name: str, total: Any) -> tuple[np.dtype, tuple[int, ...], bool, int]:
        """Type, shape, whether in Fortran order, and where the numbers begin; what is read is added to a hash."""
        magic, size = member.read(len(_NPY_MAGIC)), member.read(2)
        length = int.from_bytes(size, "little")
        header = member.read(length)
        total.update(magic + size + header)
        match = _NPY_HEADER.fullmatch(header.decode("latin-1"))
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
    """A file that refuses large reads: zipfile reads a table of contents at once, whatever size it declares."""

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


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:40]} is not finite")
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
