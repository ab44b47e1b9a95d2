"""Parquet tables of both kinds: feature and label columns, or texts with lists of labels. Needs pyarrow."""

import json
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import AtomicFiles
from ._dataset import LABEL_DTYPE, DataFormatError, Dataset, as_dense, not_a_number_advice
from ._numbers import is_binary
from ._source import ARRAY_FLOOR, BLOCK_BYTES, check_is_file
from ._table import check_table_names, choose_columns, own_label_columns
from .chunks import CHUNK_BYTES, Part, Rows, Wanted, match_names
from .labels import LABELS_COLUMN, MISSING_CURE, TEXT_COLUMN, UNLABELLED_CURE, tags_of
from .text_table import has_label_columns, one_column

_METADATA = b"comargin"
MAGIC = b"PAR1"
TOP_COLUMN = "top"
TOP_SCORES_COLUMN, TOP_PROBABILITIES_COLUMN = "top_scores", "top_probabilities"
EXPLAIN_COLUMN = "explain"
# Parquet packs runs of equal values: published sets, dense with rare labels, grow by less than 120.
PARQUET_EXPANSION = 500
_BATCH_ROWS = 1 << 13
_OBJECT_BYTES = 50  # of a Python string and its place in a list, beside the characters


def pyarrow_modules() -> tuple[Any, Any]:
    """``pyarrow`` and ``pyarrow.parquet``; an ImportError with the cure where they are not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'comargin[parquet]'") from error
    return pyarrow, pyarrow.parquet


def parquet_rows(path: Path, wanted: Wanted, *, text: str | None) -> Rows:
    """Rows of a Parquet table of numbers or of texts; the columns say which when the caller does not."""
    check_is_file(path)
    with _parquet_file(path) as file:
        schema, footer = file.schema_arrow, file.metadata
    n_rows = max(footer.num_rows, sum(footer.row_group(i).num_rows for i in range(footer.num_row_groups)))
    is_text = wanted.is_text
    if is_text is None and wanted.to_learn:
        is_text = wanted.labels is True and {TEXT_COLUMN, LABELS_COLUMN} <= set(schema.names)
    elif is_text is None:
        kinds = [field.type for field in schema if field.name == TEXT_COLUMN]
        is_text = bool(kinds) and not all(_is_number(kind) for kind in kinds)  # a feature may have that name
    if is_text:
        return _TextRows(path, schema, footer, n_rows, wanted, text or TEXT_COLUMN)
    return _NumberRows(path, schema, n_rows, wanted)


class _ParquetRows(Rows):
    """Some columns of a Parquet file."""

    used: list[str]
    row_bytes: int  # of the arrays or objects that are made of a row
    dictionaries: Sequence[str] = ()  # columns that are read as such: a repeated text becomes one Python string

    def __init__(self, path: Path, wanted: Wanted) -> None:
        self.path, self.wanted = path, wanted

    @abstractmethod
    def part(self, table: Any, first: int) -> Part:
        """Rows of a table that starts with this row of the file."""

    def parts(self) -> Iterator[Part]:
        """Yield all rows at once to learn from, else at most some thousand at a time."""
        id_name, first = self.wanted.id, 0
        for table in filter(len, self._tables([*self.used, *([] if id_name is None else [id_name])])):
            ids = None
            if id_name is not None:
                ids = ["" if value is None else str(value) for value in table.column(id_name).to_pylist()]
            yield self.part(table, first)._replace(ids=ids)
            first += table.num_rows

    def _tables(self, names: Sequence[str]) -> Iterator[Any]:
        names, options = list(dict.fromkeys(names)), {"read_dictionary": list(self.dictionaries)}
        if self.wanted.to_learn:
            with _parquet_file(self.path, **options) as file:
                yield file.read(columns=names)
            return
        pa, _ = pyarrow_modules()
        n_rows = max(1, min(_BATCH_ROWS, CHUNK_BYTES // self.row_bytes))
        # Without a buffer, pyarrow would read a column of a whole row group at once.
        with _parquet_file(self.path, **options, pre_buffer=False, buffer_size=BLOCK_BYTES) as file:
            for batch in file.iter_batches(batch_size=n_rows, columns=names, use_threads=False):
                yield pa.Table.from_batches([batch])


class _NumberRows(_ParquetRows):
    """Columns of features and of labels."""

    def __init__(self, path: Path, schema: Any, n_rows: int, wanted: Wanted) -> None:
        super().__init__(path, wanted)
        self._columns = columns = choose_columns(path, schema.names, wanted)
        self.feature_names, self.label_names = columns.feature_names, columns.label_names
        for j in columns.used:
            field = schema.field(j)
            if not _is_number(field.type):
                may_be_text = _is_text(field.type) and j not in columns.labels
                advice = not_a_number_advice(field.name, may_be_text) if columns.to_learn else ""
                raise DataFormatError(path, f"column {field.name!r} is of type {field.type}, not a number{advice}")
        self.used = [columns.names[j] for j in columns.used]
        self.row_bytes = 24 * max(len(self.used), 1)  # Arrow's column, its cast and ours: 8 bytes a cell each at most
        if wanted.to_learn:
            _check_size(path, 16 * n_rows * len(self.used), f"{n_rows} rows of {len(self.used)} columns")

    def part(self, table: Any, first: int) -> Part:
        """Numbers of all columns, NaN where they are missing and may be."""
        columns, wanted = self._columns, self.wanted
        features = [columns.names[j] for j in columns.features]
        X = _array(self.path, table, features, wanted.missing != "error", first, MISSING_CURE)
        return Part(X, _labels(self.path, table, [columns.names[j] for j in columns.labels], wanted, first))


def _labels(path: Path, table: Any, names: Sequence[str], wanted: Wanted, first: int) -> np.ndarray:
    """Labels of a column each; NaN where one is missing and may be."""
    labels = _array(path, table, names, wanted.unlabelled is not None, first, UNLABELLED_CURE)
    for name, values in zip(names, labels.T, strict=True):
        if not is_binary(np.nan_to_num(values, nan=0.0)):
            raise DataFormatError(path, f"label column {name!r} holds other values than 0 and 1")
    return labels


def _array(path: Path, table: Any, names: Sequence[str], may_miss: bool, first: int, cure: str) -> np.ndarray:
    values = np.empty((table.num_rows, len(names)))
    for to, name in enumerate(names):
        values[:, to] = _numbers(path, table.column(name), name, may_miss, first, cure)
    return values


class _TextRows(_ParquetRows):
    """A column of texts, and one of lists of labels or one for each label."""

    label_names: Sequence[str] | None = None
    _indicators: tuple[str, ...]

    def __init__(self, path: Path, schema: Any, footer: Any, n_rows: int, wanted: Wanted, text: str) -> None:
        super().__init__(path, wanted)
        wanted.check_texts()
        self._text, self._indicators = text, ()
        self._labels: str | None = None
        if has_label_columns(wanted.labels, schema.names):
            found, self.label_names = own_label_columns(path, schema.names, wanted)
            self._indicators = tuple(schema.names[j] for j in found)
            if text in self._indicators:
                raise DataFormatError(path, f"column {text!r} is the text, and among the labels, too")
        else:
            self._labels = wanted.place_of_lists()
        self._check_columns(schema)
        match_names(path, schema.names, [] if wanted.id is None else [wanted.id])
        self.used = [text, *self._indicators, *([] if self._labels is None else [self._labels])]
        groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
        leaves = [group.column(j) for group in groups for j in range(footer.num_columns)]
        # Stored chunks of these columns; those of a list stand below its name.
        begins = tuple(f"{name}." for name in self.used)
        leaves = [leaf for leaf in leaves if f"{leaf.path_in_schema}.".startswith(begins)]
        self.dictionaries = list({leaf.path_in_schema for leaf in leaves})
        n_bytes = sum(chunk.total_uncompressed_size for chunk in leaves)
        # Four times the average size of a row; a repeated text costs only its references.
        self.row_bytes = 4 * (n_bytes // max(n_rows, 1) + _OBJECT_BYTES)
        if wanted.to_learn:
            n_values = sum(chunk.num_values for chunk in leaves)
            _check_size(path, _OBJECT_BYTES * n_values + 4 * n_bytes, f"{n_values} texts and labels")
            if not self._indicators:
                self.label_names = _label_names(path, schema.metadata or {})

    def _check_columns(self, schema: Any) -> None:
        """Refuse a file without the one column of texts, and of lists of labels if these are wanted."""
        pa, _ = pyarrow_modules()
        kind = schema.field(one_column(self.path, schema.names, self._text, "text")).type
        if not _is_text(kind):
            raise DataFormatError(self.path, f"column {self._text!r} is of type {kind}, not text")
        for name in self._indicators:
            kind = schema.field(name).type
            if not _is_number(kind):
                raise DataFormatError(self.path, f"label column {name!r} is of type {kind}, not a number")
        if self._labels is None:
            return
        kind = schema.field(one_column(self.path, schema.names, self._labels, "labels")).type
        if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            raise DataFormatError(self.path, f"column {self._labels!r} is of type {kind}, not a list of labels")
        if not (_is_text(kind.value_type) or pa.types.is_integer(kind.value_type)):
            raise DataFormatError(self.path, f"column {self._labels!r} holds lists of {kind.value_type}, not of texts")

    def part(self, table: Any, first: int) -> Part:
        """Texts and lists of labels, none of them null."""
        with _readable(self.path):
            texts = [value for chunk in table.column(self._text).chunks for value in _values(chunk)]
        if None in texts:
            row = first + texts.index(None)
            raise DataFormatError(self.path, f"column {self._text!r} is null in row {row} (from 0)")
        if self._indicators:
            return Part(texts, _labels(self.path, table, self._indicators, self.wanted, first))
        tags = None if self._labels is None else self._tags(table.column(self._labels), first)
        if self.label_names is not None and not {tag for row in tags or () for tag in row} <= set(self.label_names):
            self.label_names = None  # another program changed the labels and kept our metadata
        return Part(texts, tags)

    def _tags(self, column: Any, first: int) -> list[list[str]]:
        written: list[list[Any]] = []
        with _readable(self.path):
            for lists in column.chunks:
                flat = iter(_values(lists.flatten()))  # null lists have no values
                written += [list(islice(flat, n or 0)) for n in lists.value_lengths().to_pylist()]
        for i, row in enumerate(written, first):
            if None in row:
                raise DataFormatError(self.path, f"column {self._labels!r} holds a null label in row {i} (from 0)")
        return [[str(tag) for tag in row] for row in written]


@contextmanager
def _parquet_file(path: Path, **options: Any) -> Iterator[Any]:
    """Open a Parquet file; every error of pyarrow about it is a DataFormatError."""
    _, pq = pyarrow_modules()
    with _readable(path), pq.ParquetFile(path, **options) as file:
        yield file


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn every error of pyarrow about a broken file into a DataFormatError."""
    pa, _ = pyarrow_modules()
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, ValueError, LookupError, TypeError) as error:
        raise DataFormatError(path, f"is not a readable Parquet file ({str(error)[:200]})") from error


def _check_size(path: Path, needed: int, what: str) -> None:
    """Refuse before reading a file that would expand too far: repeated values take next to no room in it."""
    n_bytes = path.stat().st_size
    limit = max(ARRAY_FLOOR, PARQUET_EXPANSION * n_bytes)
    if needed > limit:
        reason = f"{what}: more than {limit} bytes, the most that is made of a file of {n_bytes} bytes: refused"
        raise DataFormatError(path, reason)


def _numbers(path: Path, column: Any, name: str, may_miss: bool, first: int, cure: str) -> np.ndarray:
    pa, _ = pyarrow_modules()
    try:
        # Integers beyond 2^53 would be rounded: safe=True refuses them.
        values = column.cast(pa.float64(), safe=True).to_numpy()
    except pa.ArrowException as error:
        raise DataFormatError(path, f"column {name!r} does not fit float64 ({str(error)[:200]})") from error
    if np.isinf(values).any():
        raise DataFormatError(path, f"column {name!r} holds infinite values")
    if not may_miss and np.isnan(values).any():
        row = first + int(np.flatnonzero(np.isnan(values))[0])
        reason = f"column {name!r} is missing a value in row {row} (from 0){cure}"
        raise DataFormatError(path, reason)
    return values


def _is_number(kind: Any) -> bool:
    types = pyarrow_modules()[0].types
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


def _is_text(kind: Any) -> bool:
    types = pyarrow_modules()[0].types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _values(array: Any) -> list[Any]:
    """Python values; those of a dictionary are made once and shared."""
    pa, _ = pyarrow_modules()
    if not pa.types.is_dictionary(array.type):
        return list(array.to_pylist())
    words = array.dictionary.to_pylist()
    return [None if k is None else words[k] for k in array.indices.to_pylist()]


def _label_names(path: Path, metadata: dict[bytes, bytes]) -> list[str] | None:
    """Label names as our writer keeps them, or None when another program wrote the file."""
    if _METADATA not in metadata:
        return None
    try:
        ours = json.loads(metadata[_METADATA])
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise DataFormatError(path, f"holds broken metadata ({error})") from error
    names = ours.get("label_names") if isinstance(ours, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise DataFormatError(path, "holds broken metadata: label_names is not a list of names")
    if len(set(names)) < len(names):
        raise DataFormatError(path, "holds broken metadata: label_names has a name twice")
    return names


def write_parquet(dataset: Dataset, path: Path, files: AtomicFiles) -> None:
    """Write a Parquet table of numbers or of texts."""
    pa, pq = pyarrow_modules()
    if isinstance(dataset.X, list):
        columns = {TEXT_COLUMN: pa.array(dataset.X, pa.string())}
        columns[LABELS_COLUMN] = pa.array(tags_of(dataset.Y, dataset.label_names), pa.list_(pa.string()))
    else:
        X, Y = as_dense(dataset.X), as_dense(dataset.Y)
        arrays = [pa.array(values) for values in np.ascontiguousarray(X.T)]
        for values in np.ascontiguousarray(Y.T):
            missing = np.isnan(values)
            arrays.append(pa.array(np.where(missing, 0, values).astype(LABEL_DTYPE), mask=missing))
        columns = dict(zip(check_table_names(dataset), arrays, strict=True))
    metadata = {_METADATA: json.dumps({"label_names": list(dataset.label_names)}).encode()}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), files.reserve(path))


class PredictionTable:
    """A Parquet file of predictions that grows; the first column names the rows, by texts or by numbers."""

    def __init__(self, path: Path, headings: Sequence[str]) -> None:
        pyarrow_modules()  # fails early where pyarrow is missing
        self._path, self._headings = path, headings
        self._writer: Any = None

    def append(self, columns: Sequence[Any]) -> None:
        """Write rows, given by column, as a row group."""
        pa, _ = pyarrow_modules()
        self._open(named=any(isinstance(name, str) for name in columns[0]))
        schema = self._writer.schema
        arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
        self._writer.write_table(pa.Table.from_arrays(arrays, schema=schema))

    def _open(self, named: bool) -> None:
        """Write the schema, unless that is done; ``named`` says that texts name the rows."""
        if self._writer is not None:
            return
        pa, pq = pyarrow_modules()
        texts, numbers = pa.list_(pa.string()), pa.list_(pa.float64())
        kinds = dict.fromkeys((LABELS_COLUMN, TOP_COLUMN, EXPLAIN_COLUMN), texts)
        kinds |= dict.fromkeys((TOP_SCORES_COLUMN, TOP_PROBABILITIES_COLUMN), numbers)
        fields = [(name, kinds.get(name, pa.float64())) for name in self._headings[1:]]
        fields.insert(0, (self._headings[0], pa.string() if named else pa.int64()))
        self._writer = pq.ParquetWriter(self._path, pa.schema(fields))

    def close(self) -> None:
        """Finish the file; without rows it has columns only."""
        self._open(named=False)
        self._writer.close()
