"""CSV and Parquet tables: one column per feature and per label.

Label columns are named by the caller, or recognised by the prefix ``label:`` that our writer gives them. In
Parquet they may be booleans or numbers.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from ._arff_plan import NEGATIVE_WORDS, POSITIVE_WORDS
from ._dataset import LABEL_DTYPE, DataFormatError, Dataset
from ._missing import fill_missing
from ._numbers import COMMA, NEWLINE, byte_table, format_number, is_binary, is_rectangle, parse_number, scan
from ._source import TextSource

LABEL_PREFIX = "label:"
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
_MISSING_WORDS = frozenset({"", "?", "na", "n/a", "nan", "null", "none"})
_MAX_CELL = 1 << 27


class Columns:
    """Which columns of a table are features, labels (in the order asked for) and left out."""

    def __init__(
        self, path: Path, names: Sequence[str], labels: Any, drop: Sequence[str], delimiter: str | None = None
    ) -> None:
        self.names = list(names)
        where = {name: j for j, name in enumerate(names)}
        if len(where) < len(names):
            twice = next(name for j, name in enumerate(names) if where[name] != j)
            raise DataFormatError(path, f"column {twice!r} stands twice in the header", 1)
        unknown = set(drop) - set(where)
        if unknown:
            raise ValueError(f"drop= names {sorted(unknown)}, not columns of {path}")
        self.prefixed = labels is None
        try:
            chosen = _label_columns(names, where, labels)
        except _NoSuchLabelsError as error:
            raise DataFormatError(path, f"{error}{delimiter_hint(names, delimiter)}", 1) from None
        dropped = {where[name] for name in drop}
        self.labels = [j for j in chosen if j not in dropped]
        if not self.labels:
            raise ValueError(f"drop= leaves no label of {path}")
        used = dropped.union(self.labels)
        self.features = [j for j in range(len(names)) if j not in used]
        self._check_names(path)

    def _check_names(self, path: Path) -> None:
        for j in self.features + self.labels:
            name = self.names[j]
            if name == "" or _PANDAS_INDEX.fullmatch(name):
                reason = (
                    f"column {j + 1} is called {name!r}: an index that pandas wrote? Write the file with index=False, "
                    f"or leave it out with drop=[{name!r}]"
                )
                raise DataFormatError(path, reason, 1)
            if self.prefixed and name == LABEL_PREFIX:
                raise DataFormatError(path, f"column {j + 1} is called {name!r}, a label without a name", 1)

    def dataset(self, X: np.ndarray, Y: np.ndarray) -> Dataset:
        """Arrays with the names of their columns."""
        skip = len(LABEL_PREFIX) if self.prefixed else 0
        return Dataset(
            X,
            Y,
            tuple(self.names[j] for j in self.features),
            tuple(self.names[j][skip:] for j in self.labels),
            "",
        )


class _NoSuchLabelsError(Exception):
    """Why the label columns could not be told."""


def _label_columns(names: Sequence[str], where: dict[str, int], labels: Any) -> list[int]:
    """Columns that are labels, in the order asked for."""
    if labels is None:
        chosen = [j for j, name in enumerate(names) if name.startswith(LABEL_PREFIX)]
        if not chosen:
            raise _NoSuchLabelsError(
                f"no column starts with {LABEL_PREFIX!r}: say labels= (names or a number of columns); "
                "for texts with a column of label lists say text= and labels= (a name each)"
            )
        return chosen
    if isinstance(labels, (int, np.integer)):
        count, every = int(labels), list(range(len(names)))
        if not 1 <= abs(count) <= len(names):
            raise _NoSuchLabelsError(f"labels={count}, but there are {len(names)} columns")
        return every[:count] if count > 0 else every[count:]
    wanted = [labels] if isinstance(labels, str) else list(labels)
    absent = [name for name in wanted if name not in where]
    if absent:
        raise _NoSuchLabelsError(f"label {absent[0]!r} is not a column of the file")
    if not wanted or len(set(wanted)) < len(wanted):
        raise _NoSuchLabelsError("labels= must name distinct columns")
    return [where[name] for name in wanted]


def delimiter_hint(names: Sequence[str], delimiter: str | None) -> str:
    """What to add to a message about a CSV header (``delimiter`` is not None) that looks wrongly split."""
    if delimiter is None or len(names) != 1:
        return ""
    other = next((c for c in ";\t|," if c != delimiter and c in names[0]), None)
    if other is None:
        return ""
    return f". The header is one column, {names[0][:80]!r}: if {other!r} stands between cells, say delimiter={other!r}"


def csv_records(
    source: TextSource, lines: Iterable[str], first: int, delimiter: str
) -> Iterator[tuple[int, list[str]]]:
    """Yield (line of its end, cells) of every CSV record; faults of the quoting are DataFormatErrors.

    Parameters
    ----------
    source : TextSource
        The file, for messages.
    lines : iterable of str
        Lines with their ends.
    first : int
        Number of the first of them.
    delimiter : str
        Between the cells.

    Yields
    ------
    int
        Line number.
    list of str
        Cells.
    """
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


class _CellReader:
    """Turns the cells of a row into numbers."""

    def __init__(self, source: TextSource, columns: Columns, missing: str) -> None:
        self.source, self.columns, self.missing = source, columns, missing

    def row(self, line: int, cells: list[str]) -> list[float]:
        columns = self.columns
        if len(cells) != len(columns.names):
            raise self.source.fail(f"has {len(cells)} cells, the header {len(columns.names)}", line)
        numbers = [self._feature(cells[j].strip(), j, line) for j in columns.features]
        return numbers + [self._label(cells[j].strip(), j, line) for j in columns.labels]

    def _feature(self, cell: str, j: int, line: int) -> float:
        value = parse_number(cell)
        if value is not None:
            return value
        name = self.columns.names[j]
        if cell.lower() not in _MISSING_WORDS:
            raise self.source.fail(
                f"{cell[:40]!r} in column {name!r} is not a finite number (drop= leaves it out)", line
            )
        if self.missing == "error":
            raise self.source.fail(f"the value in column {name!r} is missing; missing= says what to do", line)
        return float("nan")

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

    def rows(self, records: Iterable[tuple[int, list[str]]]) -> np.ndarray:
        numbers = [self.row(line, cells) for line, cells in records if cells]
        return np.array(numbers, dtype=np.float64).reshape(len(numbers), -1)


def read_csv(
    path: Path,
    *,
    labels: Any,
    missing: str,
    drop: Sequence[str],
    delimiter: str,
    encoding: str,
    fast: bool = True,
) -> Dataset:
    """Read a CSV table with a header line.

    Parameters
    ----------
    path : Path
        The file.
    labels : sequence of str, int or None
        Label columns; None: those with the prefix ``label:``, which is not part of their names.
    missing : str
        What to do with empty cells (also ``?``, ``NA``, ``nan``, ``null``).
    drop : sequence of str
        Columns to leave out.
    delimiter : str
        Between the cells.
    encoding : str
        Text encoding.
    fast : bool
        False: every row by the careful parser.

    Returns
    -------
    Dataset
        Dense arrays.
    """
    with TextSource(path, encoding) as source:
        header = next(csv_records(source, source.lines(), 1, delimiter), None)
        if header is None or not any(header[1]):
            raise source.fail("has no header line", 1)
        columns = Columns(path, header[1], labels, drop, delimiter)
        cells = _CellReader(source, columns, missing)
        table = byte_table({b"\n": NEWLINE, delimiter.encode(): COMMA})
        order = np.array(columns.features + columns.labels, dtype=np.intp)
        parts: list[np.ndarray] = []
        for first, block in source.blocks():
            if b'"' in block:
                # A quoted cell may go on into the next block: read the rest as one stream.
                lines = [source.decode(line, i) + "\n" for i, line in enumerate(block.split(b"\n")[:-1], first)]
                parts.append(cells.rows(csv_records(source, _chain(lines, source), first, delimiter)))
                break
            values = _fast_rows(block, table, len(columns.names), order, len(columns.features)) if fast else None
            if values is None:
                lines = [source.decode(line, i) + "\n" for i, line in enumerate(block.split(b"\n")[:-1], first)]
                values = cells.rows(csv_records(source, lines, first, delimiter))
            parts.append(values)
        parts = [part for part in parts if len(part)]
        if not parts:
            raise source.fail("has no rows")
    values = np.concatenate(parts)
    n = len(columns.features)
    X = fill_missing(np.ascontiguousarray(values[:, :n]), missing)
    return columns.dataset(X, values[:, n:].astype(LABEL_DTYPE))


def _chain(lines: list[str], source: TextSource) -> Iterator[str]:
    yield from lines
    yield from source.lines()


def _fast_rows(block: bytes, table: bytes, width: int, order: np.ndarray, n_features: int) -> np.ndarray | None:
    """All columns in order, or None when the careful reader has to look."""
    found = scan(block, table)
    if found is None or not is_rectangle(found, width):
        return None
    values = found.value.reshape(-1, width)[:, order]
    return values if is_binary(values[:, n_features:]) else None


def check_table_names(dataset: Dataset) -> list[str]:
    """Column names of a table that holds the data set; ValueError when it could not be read back."""
    for name in dataset.feature_names:
        if name.startswith(LABEL_PREFIX):
            raise ValueError(f"dataset: feature {name!r} starts with {LABEL_PREFIX!r}, the mark of label columns")
        if _PANDAS_INDEX.fullmatch(name):
            raise ValueError(f"dataset: feature {name!r} is called like an index of pandas, which tables leave out")
    return [*dataset.feature_names, *(LABEL_PREFIX + name for name in dataset.label_names)]


def write_csv(dataset: Dataset, file: IO[str], delimiter: str) -> None:
    """Write a CSV table; missing values (NaN) become empty cells.

    Parameters
    ----------
    dataset : Dataset
        What to write, checked.
    file : text file
        Where to write.
    delimiter : str
        Between the cells.
    """
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
    writer.writerow(check_table_names(dataset))
    X, Y = as_dense(dataset)
    for x, y in zip(X, Y, strict=True):
        cells = [format_number(v) if v == v else "" for v in x.tolist()] + [str(v) for v in y.tolist()]
        # A lone empty cell would be a blank line.
        file.write((delimiter.join(cells) or '""') + "\n")


def as_dense(dataset: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """X and Y as dense arrays."""
    X, Y = (sp.csr_array(A).toarray() if sp.issparse(A) else np.asarray(A) for A in (dataset.X, dataset.Y))
    return X, Y
