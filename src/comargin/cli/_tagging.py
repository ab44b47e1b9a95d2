"""Shared by the commands that use a tagger: loading it, and rows as it takes them."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._messages import in_flags
from ._reading import READING_FLAGS
from ._sources import obtain, published_split

if TYPE_CHECKING:
    from ..data import Chunk, Dataset
    from ..training import Tagger

STANDARD = "-"
TaggerFile = Annotated[
    Path, typer.Argument(metavar="TAGGER", help="A tagger that comargin train has written.", show_default=False)
]
TestSplit = Annotated[
    str | None,
    typer.Option(
        "--split", help="Rows of a known set: all, train or test (default: test where it is published, else all)."
    ),
]
_MOST_ROWS, _MOST_NUMBERS = 4096, 1 << 22  # of a chunk
# Formats that are recognised by the suffix alone: the file may be handed over open, to count the bytes read.
_COUNTABLE = ("csv", "jsonl")


def load_tagger(path: Path) -> Tagger:
    """Read a tagger; an error about a missing file proposes the nearest existing name."""
    from ..training import Tagger

    if not path.exists():
        others = {other.stem: str(other) for other in path.parent.glob("*.cmg")}
        near = difflib.get_close_matches(path.stem, others, n=1)
        advice = f"did you mean {others[near[0]]}?" if near else "comargin train writes one"
        raise FileNotFoundError(f"there is no tagger {path}; {advice}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a tagger; comargin train writes one")
    return Tagger.load(path)


class CountedFile(io.RawIOBase):
    """A file read as a stream that knows its format (its name is not seen) and how far it was read."""

    def __init__(self, path: Path, format: str) -> None:
        self.name = str(path)  # messages show it
        self.format = format
        self.size = path.stat().st_size
        self.n_read = 0
        self._file = path.open("rb", buffering=0)

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer."""
        n_bytes = self._file.readinto(buffer) or 0
        self.n_read += n_bytes
        return n_bytes

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


def counted_file(source: str, format: str | None) -> CountedFile | None:
    """Open a file that counts the bytes read; None for a source that must be opened by its name."""
    from ..data.format_table import format_of_suffix

    path = Path(source)
    found = format_of_suffix(path) if format is None else format
    if found is None or found not in _COUNTABLE or source == STANDARD or not path.is_file():
        return None
    return CountedFile(path, found)


def rows_for(
    tagger: Tagger,
    source: str,
    reading: dict[str, Any],
    *,
    split: str | None,
    data_home: Path | None,
    chunk_rows: int | None = None,
    labels: Any = None,
    counted: CountedFile | None = None,
) -> Iterator[Chunk]:
    """Rows of a file, of the standard input ("-") or of a known set, as the tagger takes them."""
    from ..data.format_table import may_hold_texts

    path = Path(source)
    chunk_rows = chunk_rows or _rows_at_once(tagger)
    if source != STANDARD and (not path.exists() or path.is_dir()):
        return _rows_of_known_set(tagger, source, reading, split, data_home, chunk_rows)
    if split is not None:
        raise ValueError("--split is for known sets; a file is read whole")
    options = dict(reading)
    if options.get("missing", "error") not in ("error", "zero"):
        raise ValueError(f"--missing {options['missing']!r}: a tagger takes no missing values; allowed are error, zero")
    if tagger.n_features is None:
        if not may_hold_texts(path, options.get("format")):
            raise ValueError(f"{source}: the tagger takes texts, and a file of this format has none")
        options.setdefault("text", tagger.reading.get("text", "text"))
    elif "text" in options:
        raise ValueError(f"--text: the tagger takes {tagger.n_features} features, not texts")
    if counted is not None:
        options["format"] = counted.format
    rows: Any = source if counted is None else counted
    with in_flags(READING_FLAGS):
        chunks = tagger.rows(rows, labels=labels, chunk_rows=chunk_rows, **options)
    return _taken(chunks, tagger)


def _taken(chunks: Iterator[Chunk], tagger: Tagger) -> Iterator[Chunk]:
    """Chunks as the tagger takes them; errors about the file name the flags of the command line."""
    while True:
        with in_flags(READING_FLAGS):
            chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk._replace(X=_dense_if_needed(chunk.X, tagger))


def _dense_if_needed(X: Any, tagger: Tagger) -> Any:
    """Rows of a sparse file for a tagger that was trained on a dense one, and centers what it gets."""
    from scipy.sparse import issparse

    return X.toarray() if issparse(X) and not _takes_sparse(tagger) else X


def _takes_sparse(tagger: Tagger) -> bool:
    from sklearn.utils import get_tags

    return bool(get_tags(tagger.model).input_tags.sparse)


def _rows_at_once(tagger: Tagger) -> int:
    """Rows whose scores, and whose features when they are made dense, take at most 32 MiB."""
    width = len(tagger.label_names)
    if tagger.n_features is not None and not _takes_sparse(tagger):
        width = max(width, tagger.n_features)
    return max(1, min(_MOST_ROWS, _MOST_NUMBERS // width))


def _rows_of_known_set(
    tagger: Tagger, source: str, reading: dict[str, Any], split: str | None, data_home: Path | None, chunk_rows: int
) -> Iterator[Chunk]:
    from ..data import Chunk
    from ..data.chunks import tags_of

    if split is None:
        split = "test" if published_split(source, data_home) else "all"
    dataset = obtain(source, split, data_home, reading)
    X = columns_for(dataset, tagger)
    for first in range(0, dataset.Y.shape[0], chunk_rows):
        rows = slice(first, first + chunk_rows)
        yield Chunk(X[rows], first, None, tags_of(dataset.Y[rows], dataset.label_names))


def columns_for(dataset: Dataset, tagger: Tagger) -> Any:
    """Features of a data set as a tagger takes them, by name where both have names."""
    return _dense_if_needed(matched_columns(dataset, tagger.n_features, tagger.feature_names), tagger)


def matched_columns(dataset: Dataset, n_features: int | None, feature_names: tuple[str, ...]) -> Any:
    """Texts, or these columns of a data set, in order; None means texts."""
    from ..data.chunks import Wanted, match_names
    from ..data.sparse_text import generated_names

    X: Any = dataset.X
    is_text = isinstance(X, list)
    if is_text != (n_features is None):
        takes = "texts" if n_features is None else f"{n_features} features"
        raise ValueError(f"{dataset.name} has {'texts' if is_text else 'features'}, and the tagger takes {takes}")
    names = dataset.feature_names
    if is_text:
        return X
    if names != feature_names and feature_names and names != generated_names("x", len(names)):
        X = X[:, match_names(dataset.name, names, feature_names)]
    Wanted(n_features=n_features).check_count(dataset.name, X.shape[1])
    return X
