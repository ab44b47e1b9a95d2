"""File names and files that are written whole or not at all."""

import gzip
import io
import os
import secrets
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any


def is_gzip(path: Path) -> bool:
    """Whether the suffix says that a file is compressed."""
    return path.suffix.lower() == ".gz"


def plain_suffix(path: Path) -> str:
    """Suffix in lower case without a trailing ``.gz``."""
    return Path(path.stem).suffix.lower() if is_gzip(path) else path.suffix.lower()


def plain_stem(path: Path) -> str:
    """File name without its suffix, and without ``.gz`` before that."""
    return Path(path.stem).stem if is_gzip(path) else path.stem


def _check_is_replaceable(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"path: {path} is a folder, where a file is to be written")
    if path.exists() and not path.is_file():  # renaming would replace the device
        raise ValueError(f"path: {path} is a device or a pipe, where a file is to be written")


class AtomicFiles:
    """Files written under temporary names that are all renamed at the end of the ``with`` block, or none is.

    A failure inside the block leaves every earlier file as it was, and so does a target that is a folder or a device,
    which is checked before the first file is renamed. A path that ends in ``.gz`` is compressed.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._pending: list[tuple[Path, Path]] = []  # (temporary, final)

    def __enter__(self) -> "AtomicFiles":
        return self

    def reserve(self, path: Path) -> Path:
        """Return the temporary name to write ``path`` under."""
        path = path.resolve() if path.is_symlink() else path  # replace the target, not the link
        _check_is_replaceable(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{secrets.token_hex(8)}.part")
        # Not tempfile, whose files are private: here the system applies the umask, which no thread-safe call reads.
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
        self._pending.append((temporary, path))
        return temporary

    def open(self, path: Path) -> IO[str]:
        r"""Open ``path`` for UTF-8 text with ``\n`` line ends."""
        temporary = self.reserve(path)
        stream: Any = self._stack.enter_context(temporary.open("wb"))
        if is_gzip(path):
            # No name and no time in the header: the same data give the same bytes.
            stream = self._stack.enter_context(gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0))
        return self._stack.enter_context(io.TextIOWrapper(stream, encoding="utf-8", newline=""))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._stack.close()
            if error is None:
                for _, final in self._pending:
                    _check_is_replaceable(final)
                for temporary, final in self._pending:
                    os.replace(temporary, final)
        finally:
            for temporary, _ in self._pending:
                temporary.unlink(missing_ok=True)

    @property
    def paths(self) -> list[Path]:
        """Final paths, in the order they were opened."""
        return [final for _, final in self._pending]
