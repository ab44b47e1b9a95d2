"""CSV and Parquet tables: one column per feature and per label.

Label columns are named by the caller, or recognised by the prefix ``label:`` that our writer gives them. In
Parquet they may be booleans or numbers.
"""

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.files import AtomicFiles, plain_suffix
from ._dataset import DataFormatError, Dataset, as_dense, looks_like_text, not_a_number_advice
from ._numbers import COMMA, MISSING, NEWLINE, byte_table, format_number, is_binary, is_rectangle, parse_number, scan
from ._source import TextSource
from .chunks import CELLS_AT_ONCE, Part, Rows, Wanted, match_names
from .labels import LABELS_COLUMN, MISSING_CURE, MISSING_WORDS, UNLABELLED_CURE, label_columns, label_of_cell

LABEL_PREFIX = "label:"
_PANDAS_INDEX = re.compile(r"__index_level_[0-9]+__")
_MAX_CELL = 1 << 27
DELIMITERS = ",;\t|"  # that are found in a header
_QUOTED = re.compile(r'"[^"]*"?')
_WORDS = sorted((word.encode() for word in MISSING_WORDS - {"", "?"}), key=len, reverse=True)


class Columns(NamedTuple):
    """Columns of a table that are read: features and labels in the order wanted, and the one that names the rows.

    In a table to learn from (``to_learn``) the user can drop other columns, or take one as a text.
    """

    names: Sequence[str]
    features: list[int]
    labels: list[int]
    label_names: tuple[str, ...]
    id: int | None = None
    to_learn: bool = False

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(self.names[j] for j in self.features)

    @property
    def used(self) -> list[int]:
        """Columns of features and labels."""
        return self.features + self.labels


def _is_index(name: str) -> bool:
    return name == "" or _PANDAS_INDEX.fullmatch(name) is not None


def choose_columns(path: Path, names: Sequence[str], wanted: Wanted, line: int | None = None) -> Columns:
    """Columns of a table: features by name, or all that are not labels; the names stand in ``line``."""
    if wanted.to_learn and len(set(names)) < len(names):
        twice = next(name for name, n in Counter(names).items() if n > 1)
        raise DataFormatError(path, f"column {twice!r} stands twice in the header", 1)
    dropped = wanted.dropped(path, names, "column")
    found, label_names = own_label_columns(path, names, wanted)
    labels = [j for j in found if j not in dropped]
    if found and not labels:
        raise ValueError(f"drop= leaves no label of {path}")
    label_names = tuple(name for j, name in zip(found, label_names, strict=True) if j not in dropped)
    if wanted.to_learn and "" in label_names and wanted.labels is True:
        reason = f"column {names.index(LABEL_PREFIX) + 1} is called {LABEL_PREFIX!r}, a label without a name"
        raise DataFormatError(path, reason, 1)
    keep = None if wanted.id is None else match_names(path, names, [wanted.id], line)[0]
    if wanted.feature_names:
        features = match_names(path, names, wanted.feature_names, line)
    else:
        other = {*dropped, *labels, keep}
        if not wanted.to_learn:
            other.update(j for j, name in enumerate(names) if name.startswith(LABEL_PREFIX) or _is_index(name))
        features = [j for j in range(len(names)) if j not in other]
        wanted.check_count(path, len(features), line)
    columns = Columns(names, features, labels, label_names, keep, wanted.to_learn)
    index = next((j for j in columns.used if _is_index(names[j])), None)
    if index is not None:
        name = names[index]
        reason = (
            f"column {index + 1} is called {name!r}: an index that pandas wrote? Write the file with index=False, "
            f"or leave it out with drop=[{name!r}]"
        )
        raise DataFormatError(path, reason, 1)
    return columns


def own_label_columns(path: Path, names: Sequence[str], wanted: Wanted) -> tuple[list[int], tuple[str, ...]]:
    """Columns that are labels, in the order asked for, and what the labels are called."""
    labels = wanted.labels
    if labels is None:
        return [], ()
    if labels is True:
        marked = [j for j, name in enumerate(names) if name.startswith(LABEL_PREFIX)]
        if not marked:
            reason = (
                f"no column starts with {LABEL_PREFIX!r}: say labels= (names or a number of columns); "
                "for texts with a column of label lists say text= and labels= (a name each)"
            )
            raise DataFormatError(path, reason, 1)
        return marked, tuple(names[j].removeprefix(LABEL_PREFIX) for j in marked)
    named = (labels,) if isinstance(labels, str) else labels
    if not wanted.to_learn and not isinstance(labels, int):
        there = set(names)  # a name may leave out the prefix of its column
        short = {name for name in named if name not in there and LABEL_PREFIX + name in there}
        full = [LABEL_PREFIX + name if name in short else name for name in named]
        return label_columns(path, names, full, line=1), tuple(named)
    found = label_columns(path, names, named, line=1)
    return found, tuple(names[j] for j in found)


def delimiter_of(path: Path, delimiter: str | None) -> str:
    """Delimiter of a CSV file: the given one, checked, or that of the suffix."""
    if delimiter is None:
        return "\t" if plain_suffix(path) == ".tsv" else ","
    is_char = isinstance(delimiter, str) and len(delimiter) == 1 and delimiter.isascii()
    if not is_char or delimiter.isalnum() or delimiter in '\r\n"+-.':
        raise ValueError(f"delimiter={delimiter!r} must be one ASCII character that is not part of a number")
    return delimiter


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


def _with_marks(block: bytes) -> bytes:
    """Lines with a question mark for every word that means a missing value, where nothing else is words."""
    block = block.lower()
    for word in _WORDS:
        block = block.replace(word, b"?")
    return block


class TableRows(Rows):
    """The rows of a CSV table below its header."""

    def __init__(self, source: TextSource, header: Sequence[str], wanted: Wanted, delimiter: str) -> None:
        self._source, self._delimiter = source, delimiter
        self._missing, self._unlabelled = wanted.missing, wanted.unlabelled
        self._columns = choose_columns(source.path, header, wanted, 1)
        self.feature_names, self.label_names = self._columns.feature_names, self._columns.label_names

    def parts(self) -> Iterator[Part]:
        source, columns = self._source, self._columns
        table = byte_table({b"\n": NEWLINE, self._delimiter.encode(): COMMA, b"?": MISSING})
        for first, block in source.blocks():
            quoted = b'"' in block
            part = None if quoted or columns.id is not None else self._fast(block, table)
            if part is not None:
                yield part
                continue
            lines: Iterable[str] = [text + "\n" for _, text in source.block_lines(first, block)]
            if quoted:  # a cell may continue in the next block: read the rest line by line
                lines = chain(lines, source.lines())
            yield from self._cells(csv_records(source, lines, first, self._delimiter))

    def _fast(self, block: bytes, table: bytes) -> Part | None:
        """Rows of plain numbers, some of them missing; None when each cell must be looked at."""
        found = scan(block, table) or scan(_with_marks(block), table)
        width = len(self._columns.names)
        if found is None or not is_rectangle(found, width, may_be_empty=width > 1):
            return None
        values = np.where(found.filled, found.value, np.nan).reshape(-1, width)
        part = self._part(values[:, np.array(self._columns.used, dtype=np.intp)], None)
        if self._missing == "error" and np.isnan(part.X).any():
            return None
        known = part.labels if self._unlabelled is None else np.nan_to_num(part.labels)
        return part if is_binary(known) else None

    def _part(self, values: np.ndarray, ids: list[str] | None) -> Part:
        n = len(self._columns.features)
        return Part(np.ascontiguousarray(values[:, :n]), values[:, n:], ids)

    def _cells(self, records: Iterable[tuple[int, list[str]]]) -> Iterator[Part]:
        """Rows of which each cell is looked at."""
        width, keep = len(self._columns.used), self._columns.id
        filled = ((line, cells) for line, cells in records if cells)
        while batch := list(islice(filled, max(1, CELLS_AT_ONCE // max(width, 1)))):
            numbers = [self._row(line, cells) for line, cells in batch]
            ids = None if keep is None else [cells[keep] for _, cells in batch]
            yield self._part(np.array(numbers, dtype=np.float64).reshape(len(numbers), width), ids)

    def _row(self, line: int, cells: list[str]) -> list[float]:
        columns = self._columns
        check_width(self._source, cells, len(columns.names), line)
        numbers = [self._feature(cells, j, line) for j in columns.features]
        return numbers + label_numbers(self._source, columns.names, cells, columns.labels, line, self._unlabelled)

    def _feature(self, cells: list[str], j: int, line: int) -> float:
        cell = cells[j].strip()
        value = parse_number(cell)
        if value is not None:
            return value
        name = self._columns.names[j]
        if cell.lower() in MISSING_WORDS:
            if self._missing == "error":
                raise self._source.fail(f"the value in column {name!r} is missing{MISSING_CURE}", line)
            return float("nan")
        advice = ""
        if self._columns.to_learn:
            advice = not_a_number_advice(name, looks_like_text(cells[j]))
        raise self._source.fail(f"{cell[:40]!r} in column {name!r} is not a finite number{advice}", line)


def label_numbers(
    source: TextSource,
    names: Sequence[str],
    cells: list[str],
    columns: Sequence[int],
    line: int,
    unlabelled: str | None,
) -> list[float]:
    """Labels of a row with a column for each of them; NaN where one is missing and may be."""
    numbers = [label_of_cell(cells[j]) for j in columns]
    if None in numbers or (unlabelled is None and any(value != value for value in numbers)):
        k = next(k for k, value in enumerate(numbers) if value is None or (unlabelled is None and value != value))
        where = f"{cells[columns[k]].strip()[:40]!r} in label column {names[columns[k]]!r}"
        cure = ", allowed are 0 and 1 (yes, no, ...)" if numbers[k] is None else UNLABELLED_CURE
        raise source.fail(f"{where}{cure}", line)
    return [value for value in numbers if value is not None]


def check_width(source: TextSource, cells: list[str], width: int, line: int) -> None:
    """Refuse a row of a CSV file with more or fewer cells than the header."""
    if len(cells) != width:
        raise source.fail(f"has {len(cells)} cells, the header {width}", line)


def csv_header(source: TextSource, delimiter: str | None) -> tuple[list[str], str]:
    """Heading and delimiter of a CSV file; the delimiter is the given one or the only one in the first line."""
    lines = source.lines()
    first = next(lines, "")
    delimiter = _delimiter_in(source, first) if delimiter is None else delimiter_of(source.path, delimiter)
    _, header = next(csv_records(source, chain([first], lines), 1, delimiter), (1, []))
    if not any(header):
        raise source.fail("has no header line", 1)
    return header, delimiter


def _delimiter_in(source: TextSource, heading: str) -> str:
    # A heading of labels may list them, with a separator of its own between them.
    bare = _QUOTED.sub("", heading).split(f"{LABELS_COLUMN}:")[0]
    usual = delimiter_of(source.path, None)
    found = [sign for sign in DELIMITERS if sign in bare] or [usual]
    if len(found) > 1 and not (usual == "\t" and usual in found):
        signs = f"{', '.join(map(repr, found[:-1]))} and {found[-1]!r}"
        raise source.fail(f"the header has {signs}: say which stands between cells, as in delimiter={found[0]!r}", 1)
    return found[0] if usual not in found else usual


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
    for parts in zip(as_dense(dataset.X), as_dense(dataset.Y), strict=True):
        cells = [format_number(value, "") for part in parts for value in part.tolist()]
        # A lone empty cell would be a blank line.
        file.write((delimiter.join(cells) or '""') + "\n")
