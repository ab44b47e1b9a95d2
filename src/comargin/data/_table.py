"""CSV and Parquet tables: one column per feature and per label.

Label columns are named by the caller, or recognised by the prefix ``label:`` that our writer gives them. In
Parquet they may be booleans or numbers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..core.files import AtomicFiles, plain_suffix
from ..core.wording import nearest
from ._arff_plan import NEGATIVE_WORDS, POSITIVE_WORDS
from ._dataset import (
    LABEL_DTYPE,
    DataFormatError,
    Dataset,
    as_dense,
    fill_missing,
    looks_like_text,
    not_a_number_advice,
)
from ._numbers import COMMA, NEWLINE, byte_table, format_number, is_binary, is_rectangle, parse_number, scan
from ._source import TextSource
from .chunks import CELLS_AT_ONCE, Chunk, Wanted, match_names, tags_of

LABEL_PREFIX = "label:"
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
_MISSING_WORDS = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
_MAX_CELL = 1 << 27


class Columns(NamedTuple):
    """Columns of a table that are read: features and labels in the order wanted, and the one that names the rows.

    In a table to learn from (``to_learn``) the user can drop other columns, or take one as a text if ``tags`` is the
    only column of labels that ``labels=`` names.
    """

    names: Sequence[str]
    features: list[int]
    labels: list[int]
    label_names: tuple[str, ...]
    id: int | None = None
    to_learn: bool = False
    tags: int | None = None

    @property
    def feature_names(self) -> tuple[str, ...]:
        """Names of the columns of X."""
        return tuple(self.names[j] for j in self.features)

    def check_no_index(self, path: Path) -> None:
        """Refuse a column of X or Y that is called like an index of pandas."""
        for j in self.features + self.labels:
            name = self.names[j]
            if _is_index(name):
                reason = (
                    f"column {j + 1} is called {name!r}: an index that pandas wrote? Write the file with index=False, "
                    f"or leave it out with drop=[{name!r}]"
                )
                raise DataFormatError(path, reason, 1)


def _is_index(name: str) -> bool:
    return name == "" or _PANDAS_INDEX.fullmatch(name) is not None


def columns_to_learn(
    path: Path, names: Sequence[str], labels: Any, drop: Sequence[str], delimiter: str | None = None
) -> Columns:
    """Columns of a table with labels; all that are neither labels nor dropped are features."""
    where = {name: j for j, name in enumerate(names)}
    if len(where) < len(names):
        twice = next(name for j, name in enumerate(names) if where[name] != j)
        raise DataFormatError(path, f"column {twice!r} stands twice in the header", 1)
    unknown = set(drop) - set(where)
    if unknown:
        raise ValueError(f"drop= names {sorted(unknown)}, not columns of {path}")
    dropped = {where[name] for name in drop}
    chosen = [j for j in _label_columns(path, names, labels, delimiter) if j not in dropped]
    if not chosen:
        raise ValueError(f"drop= leaves no label of {path}")
    used = dropped.union(chosen)
    features = [j for j in range(len(names)) if j not in used]
    label_names = tuple(names[j] if labels is not None else names[j].removeprefix(LABEL_PREFIX) for j in chosen)
    tags = chosen[0] if len(chosen) == 1 and isinstance(labels, (str, list, tuple)) else None
    columns = Columns(names, features, chosen, label_names, to_learn=True, tags=tags)
    columns.check_no_index(path)
    if labels is None and "" in label_names:
        j = where[LABEL_PREFIX]
        raise DataFormatError(path, f"column {j + 1} is called {LABEL_PREFIX!r}, a label without a name", 1)
    return columns


def columns_to_predict(path: Path, names: Sequence[str], wanted: Wanted, delimiter: str | None = None) -> Columns:
    """Columns of a table that may have labels: features by name, or all that are not labels."""
    line = None if delimiter is None else 1
    labels: list[int] = []
    label_names: tuple[str, ...] = ()
    if wanted.labels is True or isinstance(wanted.labels, int):
        labels = _label_columns(path, names, None if wanted.labels is True else wanted.labels, delimiter)
        prefix = LABEL_PREFIX if wanted.labels is True else ""
        label_names = tuple(names[j].removeprefix(prefix) for j in labels)
    elif wanted.labels is not None:
        # A name may leave out the prefix of its column.
        label_names = (wanted.labels,) if isinstance(wanted.labels, str) else tuple(wanted.labels)
        there = set(names)
        short = {name for name in label_names if name not in there and LABEL_PREFIX + name in there}
        full = [LABEL_PREFIX + name if name in short else name for name in label_names]
        labels = _label_columns(path, names, full, delimiter)
    keep = None if wanted.id is None else match_names(path, names, [wanted.id], line)[0]
    if wanted.feature_names:
        features = match_names(path, names, wanted.feature_names, line, delimiter_hint(names, delimiter))
    else:
        other = {*labels, keep}.union(j for j, name in enumerate(names) if name.startswith(LABEL_PREFIX))
        features = [j for j, name in enumerate(names) if j not in other and not _is_index(name)]
        wanted.check_count(path, len(features), line)
    columns = Columns(names, features, labels, label_names, keep)
    columns.check_no_index(path)
    return columns


def _label_columns(path: Path, names: Sequence[str], labels: Any, delimiter: str | None) -> list[int]:
    """Columns that are labels, in the order asked for; None: those with the prefix."""
    fault = ""
    if labels is None:
        chosen = [j for j, name in enumerate(names) if name.startswith(LABEL_PREFIX)]
        if not chosen:
            fault = (
                f"no column starts with {LABEL_PREFIX!r}: say labels= (names or a number of columns); "
                "for texts with a column of label lists say text= and labels= (a name each)"
            )
    elif isinstance(labels, int):
        every = list(range(len(names)))
        chosen = every[:labels] if labels > 0 else every[labels:]
        if not 1 <= abs(labels) <= len(names):
            fault = f"labels={labels}, but there are {len(names)} columns"
    else:
        wanted = [labels] if isinstance(labels, str) else list(labels)
        where = {name: j for j, name in enumerate(names)}
        absent = next((name for name in wanted if name not in where), None)
        chosen = [where[name] for name in wanted if name in where]
        if absent is not None:
            fault = f"label {absent!r} is not a column of the file{nearest(absent, names)}"
        elif not chosen or len(set(chosen)) < len(chosen):
            fault = "labels= must name distinct columns"
    if fault:
        raise DataFormatError(path, fault + delimiter_hint(names, delimiter), 1)
    return chosen


def delimiter_of(path: Path, delimiter: str | None) -> str:
    """Delimiter of a CSV file: the given one, checked, or that of the suffix."""
    if delimiter is None:
        return "\t" if plain_suffix(path) == ".tsv" else ","
    is_char = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()
    if not is_char or delimiter.isalnum() or delimiter in '\r\n"+-.':
        raise ValueError(f"delimiter={delimiter!r} must be one ASCII character that is not part of a number")
    return delimiter


def delimiter_hint(names: Sequence[str], delimiter: str | None) -> str:
    """Advice at the end of a message about a CSV header (``delimiter`` is not None) that looks wrongly split."""
    is_one = delimiter is not None and len(names) == 1
    other = next((c for c in ";\t|," if c != delimiter and c in names[0]), None) if is_one else None
    if other is None:
        return ""
    return f". The header is one column, {names[0][:80]!r}: if {other!r} stands between cells, say delimiter={other!r}"


def csv_records(
    source: TextSource, lines: Iterable[str], first: int, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line of its end, cells) of every CSV record; faults of the quoting are DataFormatErrors."""
    # The limit is a global of the csv module: raised once and left so, as another thread may be reading.
    if csv.field_size_limit() < _MAX_CELL:
        csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        try:
            record = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise source.fail(f"broken CSV ({error})", first + max(reader.line_num, 1) - 1) from error
        yield first + reader.line_num - 1, record


class _CellReader(NamedTuple):
    """Turns the cells of a row into numbers."""

    source: TextSource
    columns: Columns
    missing: str

    def rows(self, records: Iterable[tuple[int, list[str]]]) -> Iterator[tuple[np.ndarray, list[str] | None]]:
        """Yield the numbers and the names of some rows at a time."""
        width, keep = len(self.columns.features) + len(self.columns.labels), self.columns.id
        filled = ((line, cells) for line, cells in records if cells)
        while batch := list(islice(filled, max(1, CELLS_AT_ONCE // max(width, 1)))):
            numbers = [self._row(line, cells) for line, cells in batch]
            ids = None if keep is None else [cells[keep] for _, cells in batch]
            yield np.array(numbers, dtype=np.float64).reshape(len(numbers), width), ids

    def _row(self, line: int, cells: list[str]) -> list[float]:
        columns = self.columns
        if len(cells) != len(columns.names):
            raise self.source.fail(f"has {len(cells)} cells, the header {len(columns.names)}", line)
        numbers = [self._feature(cells, j, line) for j in columns.features]
        return numbers + [self._label(cells[j].strip(), j, line) for j in columns.labels]

    def _feature(self, cells: list[str], j: int, line: int) -> float:
        cell = cells[j].strip()
        value = parse_number(cell)
        if value is not None:
            return value
        name = self.columns.names[j]
        if cell.lower() in _MISSING_WORDS:
            if self.missing == "error":
                raise self.source.fail(f"the value in column {name!r} is missing; missing= says what to do", line)
            return float("nan")
        advice = ""
        if self.columns.to_learn:
            tags = self.columns.tags
            # A cell of 0 or 1 is no list of labels: then the text is one column too many.
            with_tags = tags is not None and parse_number(cells[tags].strip()) not in (0.0, 1.0)
            advice = not_a_number_advice(name, with_tags and looks_like_text(cells[j]))
        raise self.source.fail(f"{cell[:40]!r} in column {name!r} is not a finite number{advice}", line)

    def _label(self, cell: str, j: int, line: int) -> float:
        word = cell.lower()
        if word in POSITIVE_WORDS:
            return 1.0
        if word in NEGATIVE_WORDS or (self.missing == "zero" and word in _MISSING_WORDS):
            return 0.0
        value = parse_number(cell)
        if value not in (0.0, 1.0):
            name = self.columns.names[j]
            raise self.source.fail(f"{cell[:40]!r} in label column {name!r}, allowed are 0 and 1 (yes, no, ...)", line)
        return float(value)


def read_csv(
    path: Path, *, labels: Any, missing: str, drop: Sequence[str], delimiter: str, encoding: str, fast: bool = True
) -> Dataset:
    """Read a CSV table with a header line into dense arrays; by default labels have the prefix ``label:``."""
    with TextSource(path, encoding) as source:
        columns = columns_to_learn(path, csv_header(source, delimiter), labels, drop, delimiter)
        parts = [values for values, _ in _csv_rows(source, columns, missing, delimiter, fast)]
        if not parts:
            raise source.fail("has no rows")
    values = np.concatenate(parts)
    n = len(columns.features)
    X = fill_missing(np.ascontiguousarray(values[:, :n]), missing)
    return Dataset(X, values[:, n:].astype(LABEL_DTYPE), columns.feature_names, columns.label_names, "")


def stream_csv(source: TextSource, header: Sequence[str], wanted: Wanted, delimiter: str) -> Iterator[Chunk]:
    """Read the rows of a CSV table, some at a time."""
    columns = columns_to_predict(source.path, header, wanted, delimiter)
    n = len(columns.features)
    for values, ids in _csv_rows(source, columns, wanted.missing, delimiter, fast=columns.id is None):
        yield table_chunk(np.ascontiguousarray(values[:, :n]), values[:, n:], columns, wanted, ids)


def table_chunk(X: np.ndarray, Y: np.ndarray, columns: Columns, wanted: Wanted, ids: list[str] | None) -> Chunk:
    """Rows of a table, of the numbers in its columns of features (changed in place) and of labels."""
    tags = None if wanted.labels is None else tags_of(Y, columns.label_names)
    return Chunk(fill_missing(X, wanted.missing), 0, ids, tags)


def csv_header(source: TextSource, delimiter: str) -> list[str]:
    """Names in the first record of a CSV file."""
    _, header = next(csv_records(source, source.lines(), 1, delimiter), (1, []))
    if not any(header):
        raise source.fail("has no header line", 1)
    return header


def _csv_rows(
    source: TextSource, columns: Columns, missing: str, delimiter: str, fast: bool
) -> Iterator[tuple[np.ndarray, list[str] | None]]:
    """Yield the numbers in the columns of features and labels, and the names of the rows if they have any."""
    cells = _CellReader(source, columns, missing)
    table = byte_table({b"\n": NEWLINE, delimiter.encode(): COMMA})
    order = np.array(columns.features + columns.labels, dtype=np.intp)
    for first, block in source.blocks():
        quoted = b'"' in block
        found = scan(block, table) if fast and not quoted else None
        if found is not None and is_rectangle(found, len(columns.names)):
            values = found.value.reshape(-1, len(columns.names))[:, order]
            if is_binary(values[:, len(columns.features) :]):
                yield values, None
                continue
        lines: Iterable[str] = [source.decode(line, i) + "\n" for i, line in enumerate(block.split(b"\n")[:-1], first)]
        if quoted:  # a cell may continue in the next block: read the rest line by line
            lines = chain(lines, source.lines())
        yield from cells.rows(csv_records(source, lines, first, delimiter))


def check_table_names(dataset: Dataset) -> list[str]:
    """Column names of a table that holds the data set; ValueError when it could not be read back."""
    for name in dataset.feature_names:
        if name.startswith(LABEL_PREFIX):
            raise ValueError(f"dataset: feature {name!r} starts with {LABEL_PREFIX!r}, the mark of label columns")
        if _PANDAS_INDEX.fullmatch(name):
            raise ValueError(f"dataset: feature {name!r} is called like an index of pandas, which tables leave out")
    return [*dataset.feature_names, *(LABEL_PREFIX + name for name in dataset.label_names)]


def write_csv(dataset: Dataset, path: Path, files: AtomicFiles, *, delimiter: str) -> None:
    """Write a CSV table; missing values (NaN) become empty cells."""
    file = files.open(path)
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(check_table_names(dataset))
    X, Y = as_dense(dataset)
    for x, y in zip(X, Y, strict=True):
        cells = [format_number(v) if v == v else "" for v in x.tolist()] + [str(v) for v in y.tolist()]
        # A lone empty cell would be a blank line.
        file.write((delimiter.join(cells) or '""') + "\n")
