"""Rows of a command: of a file, of the standard input or of a known set, and as a tagger takes them."""

from __future__ import annotations

import difflib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._console import remark
from ._options import READING_FLAGS, as_labels, in_flags

if TYPE_CHECKING:
    import scipy.sparse as sp

    from ..data import Chunk, Dataset
    from ..training import Tagger

STANDARD = "-"
_MOST_ROWS, _MOST_NUMBERS = 4096, 1 << 22  # of a chunk
# Formats that are recognised by the suffix alone: the file may be handed over open, to count the bytes read.
_COUNTABLE = ("csv", "jsonl")
_NUMBERED = re.compile(r"y(0|[1-9][0-9]{0,17})")  # what labels are called in files that do not name them
_SHOWN_NAMES = 5


def _is_file(source: str) -> bool:
    """Whether a source is a file or a pipe; a folder that is called like a known set does not hide it."""
    return Path(source).exists() and not Path(source).is_dir()


def obtain(source: str, split: str, data_home: Path | None, reading: dict[str, Any]) -> Dataset:
    """Read a file, or load a known set."""
    from ..data import list_datasets, load, read

    path = Path(source)
    if _is_file(source):
        if split != "all":
            raise ValueError("--split is for known sets; a file is read whole")
        with in_flags():
            return read(path, **reading)
    if source.lower() not in {info.name.lower() for info in list_datasets(data_home)}:
        if path.is_dir():
            raise ValueError(f"{source} is a folder, neither a data file nor a known set")
        if path.suffix != "" or len(path.parts) > 1:
            raise FileNotFoundError(f"there is no file {source}")
    elif reading:
        options = ", ".join(READING_FLAGS[name] for name in reading)
        raise ValueError(f"{source} is not a file, and {options} only says how to read a file")
    with in_flags():
        return load(source, split=split, data_home=data_home)


def published_split(source: str, data_home: Path | None) -> bool:
    """Whether this is the name of a known set that comes with rows to train on and rows to test."""
    from ..data import list_datasets

    return not _is_file(source) and any(  # OpenML has the sets, and not their splits
        info.name.lower() == source.lower() and info.n_train is not None and info.where != "OpenML"
        for info in list_datasets(data_home)
    )


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

    path = Path(source)
    chunk_rows = chunk_rows or _rows_at_once(tagger)
    if source != STANDARD and not _is_file(source):
        return _rows_of_known_set(tagger, source, reading, split, data_home, chunk_rows)
    if split is not None:
        raise ValueError("--split is for known sets; a file is read whole")
    options = dict(reading)
    if options.get("missing", "error") not in ("error", "zero"):
        raise ValueError(f"--missing {options['missing']!r}: a tagger takes no missing values; allowed are error, zero")
    if tagger.n_features is None:
        if not may_hold_texts(path, options.get("format")):
            raise ValueError(f"{source}: the tagger takes texts, and a file of this format has none")
    elif "text" in options:
        raise ValueError(f"--text: the tagger takes {tagger.n_features} features, not texts")
    if counted is not None:
        options.setdefault("format", format_of_suffix(path))  # an open file has no suffix
    with in_flags():
        chunks = tagger.rows(counted or source, labels=labels, chunk_rows=chunk_rows, **options)
    return _taken(chunks, tagger)


def _taken(chunks: Iterator[Chunk], tagger: Tagger) -> Iterator[Chunk]:
    """Chunks as the tagger takes them; errors about the file name the flags of the command line."""
    while True:
        with in_flags():
            chunk = next(chunks, None)
        if chunk is None:
            return
        yield chunk._replace(X=_dense_if_needed(chunk.X, tagger))


def _dense_if_needed(X: Any, tagger: Tagger) -> Any:
    """Rows of a sparse file as a dense array for a tagger that centers its features."""
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
    from ..data.labels import tags_of

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
    """Texts (``n_features`` None), or these columns of a data set, in order."""
    from ..data.chunks import Wanted, match_names
    from ..data.sparse_text import generated_names

    X: Any = dataset.X
    names = dataset.feature_names
    is_text = isinstance(X, list)
    if is_text != (n_features is None):
        takes = "texts" if n_features is None else f"{n_features} features"
        raise ValueError(f"{dataset.name} has {'texts' if is_text else 'features'}, and the tagger takes {takes}")
    if is_text:
        return X
    if names != feature_names and feature_names and names != generated_names("x", len(names)):
        X = X[:, match_names(dataset.name, names, feature_names)]
    Wanted(n_features=n_features).check_count(dataset.name, X.shape[1])
    return X


def labelled_rows(
    tagger: Tagger, data: str, reading: dict[str, Any], split: str | None, data_home: Path | None
) -> Iterator[Chunk]:
    """Rows with labels: from --labels, else as in training, as the file marks them, or in columns named as labels."""
    from ..data.format_table import format_of_suffix

    options = dict(reading)
    labels = options.pop("labels", None)
    formats = (options.get("format"), format_of_suffix(Path(data)))
    is_json = "jsonl" in formats
    if "parquet" in formats:
        options.setdefault("sep", ";")  # Parquet has lists, whatever separated the labels in training

    def started(place: Any) -> Iterator[Chunk]:
        chunks = rows_for(tagger, data, options, split=split, data_home=data_home, labels=place)
        return chain([next(chunks)], chunks)

    if labels is not None:
        return started(as_labels(labels, is_column=tagger.n_features is None or is_json))
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


def true_labels(
    tags: Sequence[Sequence[str]], label_names: Sequence[str], data: str, quiet: bool = True
) -> tuple[sp.csr_array, dict[str, int]]:
    """True labels in the order of the tagger's, and the number of rows with every label that it does not know."""
    from ..core.wording import counted, nearest
    from ..data.labels import indicator

    counts = Counter(tag for row in tags for tag in row)
    known = set(label_names)
    place = {tag: tag for tag in counts if tag in known}
    are_numbered = bool(counts) and not place and all(map(_NUMBERED.fullmatch, counts))
    if are_numbered:
        place = {tag: label_names[int(tag[1:])] for tag in counts if int(tag[1:]) < len(label_names)}
    unknown = {tag: n for tag, n in counts.most_common() if tag not in place}
    if unknown and not place:
        hint = nearest(next(iter(unknown)), label_names) or f"; it knows {_some(label_names)}"
        raise ValueError(f"{data}: the tagger knows none of the labels ({_some(unknown)}){hint}")
    if are_numbered:
        remark(f"{data}: its labels have no names; they are taken for the tagger's, in order", quiet)
    if unknown:
        n_rows = sum(any(tag in unknown for tag in row) for row in tags)
        words = f"left out of the measures, as the tagger does not know {'it' if len(unknown) == 1 else 'them'}"
        labels, rows = counted(len(unknown), "label"), counted(n_rows, "row")
        remark(f"{data}: {labels} in {rows} {words}: {_some(unknown)}", quiet)
    Y, _ = indicator([[place[tag] for tag in row if tag in place] for row in tags], label_names)
    return Y, unknown


def _some(names: Iterable[str]) -> str:
    names = list(names)
    more = f", ... ({len(names)} in all)" if len(names) > _SHOWN_NAMES else ""
    return ", ".join(names[:_SHOWN_NAMES]) + more
