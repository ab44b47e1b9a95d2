"""Rows of a command: of a file, of the standard input or of a known set, and as a tagger takes them."""

from __future__ import annotations

import difflib
import io
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._options import as_labels

if TYPE_CHECKING:
    from ..data import Chunk, Dataset
    from ..training import Tagger

STANDARD = "-"
_MOST_ROWS, _MOST_NUMBERS = 4096, 1 << 22  # of a chunk
# Formats that are recognised by the suffix alone: the file may be handed over open, to count the bytes read.
_COUNTABLE = ("csv", "jsonl")


def obtain(source: str, split: str, data_home: Path | None, reading: dict[str, Any]) -> Dataset:
    """Read a file, or load a known set."""
    from ..data import sources

    return sources.obtain(source, split, data_home, reading)


def load_tagger(path: Path, expect_hash: str | None = None) -> Tagger:
    """Read a tagger; an error about a missing file proposes the nearest existing name."""
    from ..training import Tagger

    if not path.exists():
        others = {other.stem: str(other) for other in path.parent.glob("*.cmg")}
        near = difflib.get_close_matches(path.stem, others, n=1)
        advice = f"did you mean {others[near[0]]}?" if near else "comargin train writes one"
        raise FileNotFoundError(f"there is no tagger {path}; {advice}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a tagger; comargin train writes one")
    return Tagger.load(path, expect_hash=expect_hash)


def counted_file(source: str, format: str | None) -> io.FileIO | None:
    """Open a file whose ``tell()`` is the bytes read; None for a source that must be opened by its name."""
    from ..data.format_table import format_of_suffix

    is_countable = (format or format_of_suffix(Path(source))) in _COUNTABLE
    return io.FileIO(source) if is_countable and source != STANDARD and Path(source).is_file() else None


def rows_for(
    tagger: Tagger,
    source: str,
    reading: dict[str, Any],
    *,
    split: str | None,
    data_home: Path | None,
    chunk_rows: int | None = None,
    labels: Any = None,
    counted: io.FileIO | None = None,
) -> Iterator[Chunk]:
    """Rows of a file, of the standard input ("-") or of a known set, as the tagger takes them."""
    from ..data.format_table import format_of_suffix, may_hold_texts
    from ..data.sources import is_file

    path = Path(source)
    chunk_rows = chunk_rows or _rows_at_once(tagger)
    _check_missing(tagger, reading.get("missing", "error"))
    if source != STANDARD and not is_file(source):
        return _taken(_rows_of_known_set(tagger, source, reading, split, data_home, chunk_rows), tagger)
    if split is not None:
        raise ValueError("--split is for known sets; a file is read whole")
    options = dict(reading)
    if tagger.n_features is None:
        if not may_hold_texts(path, options.get("format")):
            raise ValueError(f"{source}: the tagger takes texts, and a file of this format has none")
    elif "text" in options:
        raise ValueError(f"--text: the tagger takes {tagger.n_features} features, not texts")
    if counted is not None:
        options.setdefault("format", format_of_suffix(path))  # an open file has no suffix
    chunks = tagger.rows(counted or source, labels=labels, chunk_rows=chunk_rows, **options)
    return _taken(chunks, tagger)


def _check_missing(tagger: Tagger, missing: str) -> None:
    allowed = ["error", "zero", *(["nan"] if tagger.reading.get("missing") == "nan" else [])]
    if missing not in allowed:
        cure = "" if "nan" in allowed else "; comargin train --missing mean makes one that fills them itself"
        raise ValueError(
            f"--missing {missing!r}: the tagger takes no missing values; allowed are {', '.join(allowed)}{cure}"
        )


def _taken(chunks: Iterator[Chunk], tagger: Tagger) -> Iterator[Chunk]:
    """Chunks as the tagger takes them."""
    from ..core.validation import dense_if_needed

    for chunk in chunks:
        yield chunk._replace(X=dense_if_needed(chunk.X, tagger.model))


def _rows_at_once(tagger: Tagger) -> int:
    """Rows whose scores, and whose features when they are made dense, take at most 32 MiB."""
    from sklearn.utils import get_tags

    width = len(tagger.label_names)
    if tagger.n_features is not None and not get_tags(tagger.model).input_tags.sparse:
        width = max(width, tagger.n_features)
    return max(1, min(_MOST_ROWS, _MOST_NUMBERS // width))


def _rows_of_known_set(
    tagger: Tagger, source: str, reading: dict[str, Any], split: str | None, data_home: Path | None, chunk_rows: int
) -> Iterator[Chunk]:
    from ..data import Chunk
    from ..data.labels import tags_of, unknown_of
    from ..data.matching import matched_columns
    from ..data.sources import has_published_split

    if split is None:
        split = "test" if has_published_split(source, data_home) else "all"
    known = {"missing": tagger.reading["missing"]} if "missing" in tagger.reading else {}
    dataset = obtain(source, split, data_home, known | reading)
    X = matched_columns(dataset, tagger.n_features, tagger.feature_names)
    for first in range(0, dataset.Y.shape[0], chunk_rows):
        rows = slice(first, first + chunk_rows)
        Y, names = dataset.Y[rows], dataset.label_names
        yield Chunk(X[rows], first, None, tags_of(Y, names), unknown_of(Y, names))


def labelled_rows(
    tagger: Tagger, data: str, reading: dict[str, Any], split: str | None, data_home: Path | None
) -> Iterator[Chunk]:
    """Rows with labels: from --labels, else as in training, as the file marks them, or in columns named as labels."""
    from ..data.format_table import format_of_suffix

    options = dict(reading)
    labels = options.pop("labels", None)
    is_json = "jsonl" in (options.get("format"), format_of_suffix(Path(data)))

    def started(place: Any) -> Iterator[Chunk]:
        chunks = rows_for(tagger, data, options, split=split, data_home=data_home, labels=place)
        return chain([next(chunks)], chunks)

    if labels is not None:
        return started(as_labels(labels))
    try:
        return started(True)
    except ValueError as fault:
        # Only a table of features that can be opened again may have columns called as the labels.
        if tagger.n_features is None or is_json or not Path(data).is_file():
            raise
        try:
            return started(tagger.label_names)
        except ValueError:
            raise fault from None
