"""Text files, plain or gzipped, read by lines or in blocks of whole lines."""

import codecs
import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from ..core.files import is_gzip
from ._dataset import DataFormatError

BLOCK_BYTES = 1 << 18  # parsed at once: the working arrays of a block stay in the processor's cache
MAX_LINE_BYTES = 1 << 26
# A gzip stream can grow a thousandfold; published multi-label files grow less than fiftyfold.
MAX_EXPANSION = 200
EXPANSION_FLOOR = 1 << 26
# Most bytes of a decompressed file that is kept whole; parsed, they take several times as much memory.
MAX_UNPACKED = 1 << 30
UNPACKED_VARIABLE = "COMARGIN_MAX_UNPACKED"
# Arrays may be larger than the text: nominal values become columns, values omitted in sparse rows may be non-zero.
ARRAY_EXPANSION = 200
ARRAY_FLOOR = 1 << 28
_GZIP_MAGIC = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Recoded(io.RawIOBase):
    """The UTF-8 bytes of a UTF-16 stream with a byte order mark."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream, self._left = stream, b""
        self._decoder = codecs.getincrementaldecoder("utf-16")()

    def readable(self) -> bool:
        """Return True, as `io.BufferedReader` requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; what does not fit waits for the next call."""
        while not self._left:
            data = self._stream.read1(len(buffer))  # type: ignore[attr-defined]
            self._left = self._decoder.decode(data, final=not data).encode()
            if not data:
                break
        taken, self._left = self._left[: len(buffer)], self._left[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)


class _Replayed(io.RawIOBase):
    """A stream with the bytes already taken from it put back in front; closing this leaves the stream open."""

    def __init__(self, taken: bytes, stream: IO[bytes]) -> None:
        self._taken = io.BytesIO(taken)
        # read1 returns what a pipe holds now instead of waiting until the buffer is full.
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)

    def readable(self) -> bool:
        """Return True, as `io.BufferedReader` requires."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, first with the bytes put back."""
        data = self._taken.read(len(buffer)) or self._read(len(buffer))
        if not isinstance(data, bytes):
            raise ValueError(f"source: a stream of {type(data).__name__}, expected one of bytes (sys.stdin.buffer)")
        buffer[: len(data)] = data
        return len(data)


def _unpacked(stream: IO[bytes]) -> IO[bytes]:
    """Bytes of a stream, decompressed if its first two bytes are those of gzip."""
    file = io.BufferedReader(_Replayed(b"", stream))
    start = file.read(len(_GZIP_MAGIC))
    whole = io.BufferedReader(_Replayed(start, file))
    return io.BufferedReader(gzip.GzipFile(fileobj=whole, mode="rb")) if start == _GZIP_MAGIC else whole


def check_is_file(path: Path) -> None:
    """Raise FileNotFoundError for a missing path and DataFormatError for a folder or an empty file."""
    if not path.exists():
        raise FileNotFoundError(f"no such data file: {path}")
    if path.is_dir():
        raise DataFormatError(path, "is a folder, not a data file")
    if path.is_file() and path.stat().st_size == 0:
        raise DataFormatError(path, "is empty")


def first_line(path: Path) -> str:
    """First line of a file that is neither blank nor a comment (``#`` or ``%``), as latin-1; empty: there is none."""
    with TextSource(path, "latin-1") as source:
        while (line := source.readline()) is not None:
            if line.strip() and not line.lstrip().startswith(("#", "%")):
                return line
    return ""


def _most_unpacked() -> int:
    """Limit of a decompressed file, which the environment may raise."""
    text = os.environ.get(UNPACKED_VARIABLE, str(MAX_UNPACKED))
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise ValueError(f"{UNPACKED_VARIABLE} must be a whole number of bytes, got {text[:40]!r}")
    return int(text)


class TextSource:
    """Lines of a text file, plain or gzipped, first one at a time (headers) and then in blocks (rows).

    A byte order mark of UTF-16 says the encoding. Every fault of the bytes themselves (broken or exploding gzip, NUL
    bytes, endless lines) is a DataFormatError. A ``stream`` is read instead of the file, which then only names it, and
    stays open. The size of a decompressed gzip file is limited when the caller keeps the ``whole`` of it.
    """

    def __init__(
        self, path: Path, encoding: str = "utf-8", *, stream: IO[bytes] | None = None, whole: bool = True
    ) -> None:
        self.path, self.encoding = path, encoding
        self.is_stream = stream is not None
        self.line = 0  # lines handed out so far = number of the last one
        self.bytes_read = 0
        self._limit: int | None = None
        if stream is not None:
            self._opened = _unpacked(stream)
        else:
            check_is_file(path)
            packed = is_gzip(path)
            self._opened = io.BufferedReader(gzip.GzipFile(path, "rb")) if packed else path.open("rb")
            if packed and whole:
                self._limit = min(max(EXPANSION_FLOOR, MAX_EXPANSION * path.stat().st_size), _most_unpacked())
        self._file: IO[bytes] = self._opened
        if self._starts().startswith(_UTF16_BOMS):
            self._file, self.encoding = io.BufferedReader(_Recoded(self._opened)), "utf-8"

    def __enter__(self) -> "TextSource":
        return self

    def __exit__(self, *details: object) -> None:
        self._file.close()
        self._opened.close()  # first_line() puts another object in front of it

    def fail(self, reason: str, line: int | None = None) -> DataFormatError:
        """Return the error to raise about this file."""
        return DataFormatError(self.path, reason, line)

    def decode(self, data: bytes, line: int) -> str:
        try:
            return data.decode(self.encoding)
        except UnicodeError as error:  # some codecs raise the base class, which knows no position
            where = f"byte {error.start + 1} of the line" if isinstance(error, UnicodeDecodeError) else str(error)
            raise self.fail(f"is not {self.encoding} text ({where}): say encoding=, such as latin-1", line) from error

    def block_lines(self, first: int, block: bytes) -> Iterator[tuple[int, str]]:
        """Yield number and text of the lines of a block that `blocks` has yielded."""
        for line, data in enumerate(block.split(b"\n")[:-1], start=first):
            yield line, self.decode(data, line)

    def check_array_size(self, needed: int, why: str) -> None:
        """Refuse arrays of ``needed`` bytes when that is out of all proportion to the text read so far."""
        limit = max(ARRAY_FLOOR, ARRAY_EXPANSION * self.bytes_read)
        if needed > limit:
            raise self.fail(
                f"{why}: more than {limit} bytes, the most that is made of {self.bytes_read} bytes of text: refused"
            )

    def first_line(self) -> bytes:
        """First line that is neither blank nor a comment (``#`` or ``%``), or b""; all lines are still to be read."""
        taken: list[bytes] = []
        line, size = b"", 0
        while not line.strip() or line.lstrip().startswith((b"#", b"%")):
            line = self._read()
            taken.append(line)
            size += len(line)
            if not line or size > MAX_LINE_BYTES:
                line = b""
                break
            line = line.removeprefix(_BOM) if len(taken) == 1 else line
        self._file = io.BufferedReader(_Replayed(b"".join(taken), self._file))
        return line

    def readline(self) -> str | None:
        """Next line without its end, or None at the end of the file."""
        line = next(self.lines(), None)
        return None if line is None else line.rstrip("\r\n")

    def lines(self) -> Iterator[str]:
        """Yield the lines that are left, with their ends as they are."""
        while data := self._take():
            self.line += 1
            self._check(data, self.line)
            yield self.decode(data, self.line)

    def blocks(self) -> Iterator[tuple[int, bytes]]:
        r"""Yield (number of the first line, whole lines ended by ``\n``), about ``BLOCK_BYTES`` at a time."""
        while data := self._take(BLOCK_BYTES):
            if not data.endswith(b"\n"):
                data += self._take()
                if not data.endswith(b"\n"):
                    data += b"\n"
            first = self.line + 1
            self._check(data, first)
            if b"\r" in data:
                data = data.replace(b"\r\n", b"\n")
            self.line += data.count(b"\n")
            yield first, data

    def _starts(self) -> bytes:
        """First bytes, which are still to be read; a broken gzip file has none yet."""
        try:
            return self._opened.peek(2)  # type: ignore[attr-defined]
        except (EOFError, OSError, zlib.error):
            return b""

    def _read(self, size: int | None = None) -> bytes:
        """Read about ``size`` bytes; None: a line."""
        try:
            return self._file.readline(MAX_LINE_BYTES + 1) if size is None else self._file.read(size)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise self.fail(f"broken gzip data ({error})", self.line + 1) from error
        except UnicodeDecodeError as error:
            raise self.fail(f"broken UTF-16 text ({error.reason})", self.line + 1) from error

    def _take(self, size: int | None = None) -> bytes:
        """Read as `_read` does, without the byte order mark; refuse endless lines and exploding files."""
        data = self._read(size)
        if len(data) > MAX_LINE_BYTES and b"\n" not in data:
            raise self.fail(f"a line is longer than {MAX_LINE_BYTES} bytes", self.line + 1)
        if self.bytes_read == 0 and data.startswith(_BOM):
            self.bytes_read = len(_BOM)
            data = data[len(_BOM) :]
        self.bytes_read += len(data)
        if self._limit is not None and self.bytes_read > self._limit:
            raise self.fail(
                f"expands to more than {self._limit} bytes: refused, at most {MAX_EXPANSION} times its size and "
                f"{UNPACKED_VARIABLE} (now {_most_unpacked()}) bytes are read; unpack it, or set this variable"
            )
        return data

    def _check(self, data: bytes, first: int) -> None:
        if b"\0" in data:
            line = first + data.count(b"\n", 0, data.index(b"\0"))
            raise self.fail("holds a NUL byte: not a text file", line)
