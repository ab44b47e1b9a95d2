"""Texts with tags: a CSV file (or Parquet table) with one column of texts and one of label lists.

The labels of a file are the tags that occur, sorted, unless the head of the label column lists them: our writer
calls the column ``labels``, or ``labels:a;b;c`` where the rows do not determine the names and their order.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.files import AtomicFiles
from ..core.wording import nearest
from ._dataset import LABEL_DTYPE, DataFormatError, Dataset
from ._source import TextSource
from ._table import csv_header, csv_records, delimiter_hint, delimiter_of, stream_csv
from .chunks import Chunk, Wanted, match_names, tags_of

TEXT_COLUMN = "text"
LABELS_COLUMN = "labels"


def table_kind(path: Path, delimiter: str | None) -> str:
    """Tell texts with tags by the header from other CSV tables."""
    with TextSource(path, "latin-1") as source:
        header = next(csv_records(source, source.lines(), 1, delimiter_of(path, delimiter)), (1, []))[1]
    has_labels = any(name == LABELS_COLUMN or name.startswith(f"{LABELS_COLUMN}:") for name in header)
    return "text-csv" if has_labels and TEXT_COLUMN in header else "csv"


def indicator(tags: list[list[str]], names: Sequence[str] | None) -> tuple[sp.csr_array, tuple[str, ...]]:
    """Int32 indicator and label names of lists of distinct tags; without names, the tags that occur, sorted."""
    order = tuple(names) if names is not None else tuple(sorted({tag for row in tags for tag in row}))
    where = {name: j for j, name in enumerate(order)}
    indices = [sorted(where[tag] for tag in row) for row in tags]
    indptr = np.cumsum([0, *(len(row) for row in indices)], dtype=np.int32)
    flat = np.array([j for row in indices for j in row], dtype=np.int32)
    return sp.csr_array((np.ones(flat.size, dtype=LABEL_DTYPE), flat, indptr), shape=(len(tags), len(order))), order


def read_text_csv(
    path: Path, *, text: str | None, labels: str | None, sep: str, delimiter: str, encoding: str
) -> Dataset:
    """Read a CSV file with a text column and a label-list column."""
    with TextSource(path, encoding) as source:
        records = csv_records(source, source.lines(), 1, delimiter)
        _, header = next(records, (1, []))
        columns = _text_columns(path, header, text, True if labels is None else labels, sep, delimiter)
        rows = [(cells[columns.text], tags) for cells, tags in _rows(source, records, columns, sep)]
        if not rows:
            raise source.fail("has no rows")
    return tagged_dataset(path, [text for text, _ in rows], [tags for _, tags in rows], columns.listed)


def stream_table(
    source: TextSource, wanted: Wanted, is_text: bool | None, *, text: str | None, sep: str, delimiter: str
) -> Iterator[Chunk]:
    """Read the rows of a CSV file of either kind, some at a time; the header says which when ``is_text`` is None."""
    header = csv_header(source, delimiter)
    if not (is_text or (is_text is None and TEXT_COLUMN in header)):
        yield from stream_csv(source, header, wanted, delimiter)
        return
    wanted.check_label_column()
    columns = _text_columns(source.path, header, text, wanted.labels, sep, delimiter)
    keep = None if wanted.id is None else match_names(source.path, header, [wanted.id], 1)[0]
    records = csv_records(source, source.lines(), source.line + 1, delimiter)
    for cells, tags in _rows(source, records, columns, sep):
        ids = None if keep is None else [cells[keep]]
        yield Chunk([cells[columns.text]], 0, ids, None if columns.labels is None else [tags])


class _TextColumns(NamedTuple):
    """Positions of texts and label lists (None: not read), and the labels that the header lists."""

    width: int
    text: int
    labels: int | None
    listed: list[str] | None


def _text_columns(
    path: Path, header: Sequence[str], text: str | None, labels: str | bool | None, sep: str, delimiter: str
) -> _TextColumns:
    at_text = _find(path, header, text, TEXT_COLUMN, "text", delimiter)
    if labels is None:
        return _TextColumns(len(header), at_text, None, None)
    wanted = labels if isinstance(labels, str) else None
    at_labels = _find(path, header, wanted, LABELS_COLUMN, "labels", delimiter)
    head = header[at_labels]
    listed = head.removeprefix(f"{LABELS_COLUMN}:") if wanted is None else head
    return _TextColumns(len(header), at_text, at_labels, split_tags(listed, sep) if listed != head else None)


def _rows(
    source: TextSource, records: Iterable[tuple[int, list[str]]], columns: _TextColumns, sep: str
) -> Iterator[tuple[list[str], list[str]]]:
    """Yield cells and distinct tags of every row."""
    known = None if columns.listed is None else set(columns.listed)
    for line, cells in records:
        if not cells:
            continue
        if len(cells) != columns.width:
            raise source.fail(f"has {len(cells)} cells, the header {columns.width}", line)
        tags = [] if columns.labels is None else list(dict.fromkeys(split_tags(cells[columns.labels], sep)))
        if known is not None and not known.issuperset(tags):
            stray = next(tag for tag in tags if tag not in known)
            raise source.fail(f"label {stray!r} is not one of those the header lists", line)
        yield cells, tags


def tagged_dataset(
    path: Path, X: Any, tags: list[list[str]], names: Sequence[str] | None, feature_names: tuple[str, ...] = ()
) -> Dataset:
    """Texts (or features) and tag lists as a data set; DataFormatError when there is no label at all."""
    Y, order = indicator(tags, names)
    if not order:
        raise DataFormatError(path, "no row has a label")
    if len(set(order)) < len(order):
        raise DataFormatError(path, "the header lists a label twice", 1)
    return Dataset(X, Y, feature_names, order, "")


def split_tags(cell: str, sep: str) -> list[str]:
    """Labels of a cell, without the blanks around them."""
    return [tag for part in cell.split(sep) if (tag := part.strip())]


def _find(path: Path, header: Sequence[str], wanted: str | None, default: str, argument: str, delimiter: str) -> int:
    name = default if wanted is None else wanted
    found = [j for j, head in enumerate(header) if head == name]
    if wanted is None and argument == "labels":
        found = found or [j for j, head in enumerate(header) if head.startswith(f"{default}:")]
    if len(found) == 1:
        return found[0]
    how_many = "no column" if not found else f"{len(found)} columns"
    reason = f"{how_many} called {name!r} in the header ({', '.join(header)[:200]}); say {argument}="
    near = "" if found else nearest(name, header)
    raise DataFormatError(path, reason + near + delimiter_hint(header, delimiter), 1)


def names_follow_from(tags: Iterable[list[str]], names: Sequence[str]) -> bool:
    """Tell whether reading the tags alone gives the label names back, in order."""
    return tuple(sorted({tag for row in tags for tag in row})) == tuple(names)


def check_separable(argument: str, label_names: Sequence[str], sep: str) -> None:
    """ValueError about the argument when a list of labels could not be taken apart again."""
    for name in label_names:
        if sep in name or name != name.strip() or not name:
            raise ValueError(
                f"{argument}: label {name!r} is empty, has blanks around it or contains sep={sep!r}: "
                "it could not be read back. Choose another sep= or format="
            )


def write_text_csv(dataset: Dataset, path: Path, files: AtomicFiles, *, sep: str, delimiter: str) -> None:
    """Write texts with tags as CSV; no label name may contain ``sep``."""
    check_separable("dataset", dataset.label_names, sep)
    tags = tags_of(dataset.Y, dataset.label_names)
    head = LABELS_COLUMN
    if not names_follow_from(tags, dataset.label_names):
        head += ":" + sep.join(dataset.label_names)
    writer = csv.writer(files.open(path), delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow([TEXT_COLUMN, head])
    writer.writerows([text, sep.join(row)] for text, row in zip(dataset.X, tags, strict=True))
