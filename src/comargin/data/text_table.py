"""Texts with tags: a CSV file (or Parquet table) with a column of texts, and one of label lists or one for each label.

The labels of a file are the tags that occur, sorted, unless the head of the label column lists them: our writer
calls the column ``labels``, or ``labels:a;b;c`` where the rows do not determine the names and their order.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import AtomicFiles
from ..core.wording import nearest
from ._dataset import DataFormatError, Dataset
from ._source import TextSource
from ._table import (
    LABEL_PREFIX,
    TableRows,
    check_width,
    csv_header,
    csv_records,
    label_numbers,
    own_label_columns,
    write_csv,
)
from .chunks import Part, Rows, Wanted, match_names, parts_of_rows
from .labels import LABELS_COLUMN, TEXT_COLUMN, check_separable, names_follow_from, split_tags, tags_of

_LISTING = f"{LABELS_COLUMN}:"  # starts the heading of a column of labels that lists them all


def table_kind(path: Path, delimiter: str | None) -> str:
    """Tell texts with tags by the header from other CSV tables."""
    with TextSource(path, "latin-1") as source:
        header, _ = csv_header(source, delimiter)
    has_labels = any(name == LABELS_COLUMN or name.startswith(_LISTING) for name in header)
    return "text-csv" if has_labels and TEXT_COLUMN in header else "csv"


def csv_rows(
    source: TextSource, wanted: Wanted, only_texts: bool = False, *, text: str | None, sep: str, delimiter: str | None
) -> Rows:
    """Rows of a CSV file of either kind; when the caller does not say which, the header of new rows does."""
    header, delimiter = csv_header(source, delimiter)
    may_be_text = TEXT_COLUMN in header and not wanted.to_learn if wanted.is_text is None else wanted.is_text
    if only_texts or may_be_text:
        return TextRows(source, header, wanted, text or TEXT_COLUMN, sep, delimiter)
    return TableRows(source, header, wanted, delimiter)


class TextRows(Rows):
    """Texts with tags, in the rows of a CSV file below its header."""

    label_names: list[str] | None = None

    def __init__(
        self, source: TextSource, header: Sequence[str], wanted: Wanted, text: str, sep: str, delimiter: str
    ) -> None:
        wanted.check_texts()
        self._source, self._wanted, self._delimiter, self._sep = source, wanted, delimiter, sep
        self._header = header
        self._text = one_column(source.path, header, text, "text", 1)
        self._labels: int | None = None
        self._indicators: list[int] = []  # of labels that have a column each
        if has_label_columns(wanted.labels, header):
            self._indicators, names = own_label_columns(source.path, header, wanted)
            self.label_names = list(names)
            if self._text in self._indicators:
                raise source.fail(f"column {header[self._text]!r} is the text, and among the labels, too", 1)
        elif wanted.labels is True:
            listing = [name for name in header if name.startswith(_LISTING)]
            name = listing[0] if len(listing) == 1 and LABELS_COLUMN not in header else LABELS_COLUMN
            self._labels = one_column(source.path, header, name, "labels", 1)
            if name != LABELS_COLUMN:
                self.label_names = split_tags(name.removeprefix(_LISTING), sep)
                if len(set(self.label_names)) < len(self.label_names):
                    raise source.fail("the header lists a label twice", 1)
        elif wanted.labels is not None:
            self._labels = one_column(source.path, header, wanted.place_of_lists() or "", "labels", 1)
        self._id = None if wanted.id is None else match_names(source.path, header, [wanted.id], 1)[0]

    def parts(self) -> Iterator[Part]:
        for part in parts_of_rows(self._rows(), self._wanted):
            yield part._replace(labels=np.array(part.labels, dtype=np.float64)) if self._indicators else part

    def _rows(self) -> Iterator[tuple[str, list[Any], str]]:
        source, known = self._source, None if self.label_names is None else set(self.label_names)
        header, indicators, unlabelled = self._header, self._indicators, self._wanted.unlabelled
        at_text, at_labels, at_id, sep = self._text, self._labels, self._id, self._sep
        for line, cells in csv_records(source, source.lines(), source.line + 1, self._delimiter):
            if not cells:
                continue
            check_width(source, cells, len(header), line)
            if indicators:
                numbers = label_numbers(source, header, cells, indicators, line, unlabelled)
                yield cells[at_text], numbers, "" if at_id is None else cells[at_id]
                continue
            try:
                tags = [] if at_labels is None else split_tags(cells[at_labels], sep)
            except ValueError as error:
                raise source.fail(str(error), line) from None
            if known is not None and not known.issuperset(tags):
                stray = next(tag for tag in tags if tag not in known)
                raise source.fail(f"label {stray!r} is not one of those the header lists", line)
            yield cells[at_text], tags, "" if at_id is None else cells[at_id]


def has_label_columns(labels: Any, names: Sequence[str]) -> bool:
    """Whether labels beside texts are columns of 0 and 1: several names or a number say so, or the marks of columns."""
    if labels is True:
        listed = any(name == LABELS_COLUMN or name.startswith(_LISTING) for name in names)
        return not listed and any(name.startswith(LABEL_PREFIX) for name in names)
    return isinstance(labels, int) or (isinstance(labels, tuple) and len(labels) > 1)


def one_column(path: Path, names: Sequence[str], name: str, argument: str, line: int | None = None) -> int:
    """Position of the only column of a name that ``argument`` says; the names stand in ``line``, in a file of lines."""
    if names.count(name) == 1:
        return names.index(name)
    how_many = f"{names.count(name)} columns" if name in names else "no column"
    near = "" if name in names else nearest(name, names)
    reason = f"{how_many} called {name!r} in the header ({', '.join(names)[:200]}); say {argument}="
    raise DataFormatError(path, reason + near, line)


def write_table(dataset: Dataset, path: Path, files: AtomicFiles, *, sep: str, delimiter: str) -> None:
    """Write a CSV file of the kind that holds the data."""
    if isinstance(dataset.X, list):
        write_text_csv(dataset, path, files, sep=sep, delimiter=delimiter)
    else:
        write_csv(dataset, path, files, delimiter=delimiter)


def write_text_csv(dataset: Dataset, path: Path, files: AtomicFiles, *, sep: str, delimiter: str) -> None:
    """Write texts with tags as CSV; no label name may contain ``sep``."""
    if not isinstance(dataset.X, list):
        raise ValueError("format='text-csv' takes texts, X holds numbers")
    check_separable("dataset", dataset.label_names, sep)
    tags = tags_of(dataset.Y, dataset.label_names)
    head = LABELS_COLUMN
    if not names_follow_from(tags, dataset.label_names):
        head += ":" + sep.join(dataset.label_names)
    writer = csv.writer(files.open(path), delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow([TEXT_COLUMN, head])
    writer.writerows([text, sep.join(row)] for text, row in zip(dataset.X, tags, strict=True))
