"""Parquet tables of both kinds: feature and label columns, or texts with lists of labels. Needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..core.files import AtomicFiles
from ..core.wording import nearest
from ._dataset import LABEL_DTYPE, DataFormatError, Dataset, as_dense, fill_missing, not_a_number_advice
from ._numbers import is_binary
from ._source import ARRAY_FLOOR, BLOCK_BYTES, check_is_file
from ._table import Columns, check_table_names, columns_to_learn, columns_to_predict, table_chunk
from .chunks import CHUNK_BYTES, Chunk, Wanted, match_names, tags_of
from .text_table import LABELS_COLUMN, TEXT_COLUMN, tagged_dataset

_METADATA = b"comargin"
MAGIC = b"PAR1"
TOP_COLUMN = "top"
TOP_SCORES_COLUMN = "top_scores"
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


def read_parquet(path: Path, *, text: str | None, labels: Any, missing: str, drop: Sequence[str]) -> Dataset:
    """Read a Parquet table of numbers, or of texts if ``text=`` is given or the writer's two columns are there."""
    schema, footer, n_rows = _opened(path)
    names = schema.names
    if text is not None or (labels is None and {TEXT_COLUMN, LABELS_COLUMN} <= set(names)):
        if drop:
            raise ValueError("drop= means nothing to texts: only the two columns are read")
        return _texts(path, schema, footer, text or TEXT_COLUMN, labels or LABELS_COLUMN)
    columns = columns_to_learn(path, names, labels, drop)
    used = _numeric_columns(path, schema, columns)
    # Arrow's column and ours: 8 bytes a cell each at most.
    _check_size(path, 16 * n_rows * len(used), f"{n_rows} rows of {len(used)} columns")
    with _parquet_file(path) as file:
        table = file.read(columns=used)
    X, Y = _arrays(path, table, columns, missing, 0)
    return Dataset(fill_missing(X, missing), Y, columns.feature_names, columns.label_names, "")


def stream_parquet(path: Path, wanted: Wanted, is_text: bool | None, *, text: str | None) -> Iterator[Chunk]:
    """Read the rows of a Parquet table, some at a time; if ``is_text`` is None, a column ``text`` of texts decides."""
    schema, footer, n_rows = _opened(path)
    if is_text is None:
        kinds = [field.type for field in schema if field.name == TEXT_COLUMN]
        is_text = bool(kinds) and not all(_is_number(kind) for kind in kinds)  # a feature may have that name
    id_names = [] if wanted.id is None else [wanted.id]
    dictionaries: list[str] = []
    if is_text:
        text, labels = text or TEXT_COLUMN, LABELS_COLUMN if wanted.labels is True else wanted.labels
        _check_text_columns(path, schema, text, labels)
        match_names(path, schema.names, id_names)
        used = [text] if labels is None else [text, labels]
        leaves, dictionaries = _leaves(footer, used)
        # Four times the average size of a row; a repeated text costs only its references.
        row_bytes = 4 * (sum(chunk.total_uncompressed_size for chunk in leaves) // n_rows + _OBJECT_BYTES)

        def chunk_of(table: Any, first: int, ids: list[str] | None) -> Chunk:
            tags = None if labels is None else _tags_column(path, table, labels, first)
            return Chunk(_text_column(path, table, text, first), 0, ids, tags)
    else:
        columns = columns_to_predict(path, schema.names, wanted)
        used = _numeric_columns(path, schema, columns)
        row_bytes = 24 * max(len(used), 1)  # Arrow's column, its cast and ours: 8 bytes a cell each at most

        def chunk_of(table: Any, first: int, ids: list[str] | None) -> Chunk:
            X, Y = _arrays(path, table, columns, wanted.missing, first)
            return table_chunk(X, Y, columns, wanted, ids)

    first = 0
    for table in _batches(path, [*used, *id_names], max(1, min(_BATCH_ROWS, CHUNK_BYTES // row_bytes)), dictionaries):
        values = [table.column(name).to_pylist() for name in id_names]
        yield chunk_of(table, first, ["" if value is None else str(value) for value in values[0]] if values else None)
        first += table.num_rows


def _opened(path: Path) -> tuple[Any, Any, int]:
    """Schema, footer and number of rows of a file that has rows."""
    check_is_file(path)
    with _parquet_file(path) as file:
        schema, footer = file.schema_arrow, file.metadata
    n_rows = max(footer.num_rows, sum(footer.row_group(i).num_rows for i in range(footer.num_row_groups)))
    if n_rows == 0:
        raise DataFormatError(path, "has no rows")
    return schema, footer, n_rows


@contextmanager
def _parquet_file(path: Path, **options: Any) -> Iterator[Any]:
    """Open a Parquet file; every error of pyarrow about it is a DataFormatError."""
    _, pq = pyarrow_modules()
    with _readable(path), pq.ParquetFile(path, **options) as file:
        yield file


def _batches(path: Path, names: Sequence[str], n_rows: int, dictionaries: Sequence[str]) -> Iterator[Any]:
    """Yield tables of at most ``n_rows`` rows; only a buffer per column is in memory."""
    pa, _ = pyarrow_modules()
    # Without a buffer, pyarrow would read a column of a whole row group at once.
    options = {"read_dictionary": list(dictionaries), "pre_buffer": False, "buffer_size": BLOCK_BYTES}
    with _parquet_file(path, **options) as file:
        for batch in file.iter_batches(batch_size=n_rows, columns=list(dict.fromkeys(names)), use_threads=False):
            yield pa.Table.from_batches([batch])


def _numeric_columns(path: Path, schema: Any, columns: Columns) -> list[str]:
    """Names of the columns of features and labels; DataFormatError when one does not hold numbers."""
    used = columns.features + columns.labels
    # A column of numbers is no list of labels: then a text is one column too many.
    with_tags = columns.tags is not None and not _is_number(schema.field(columns.tags).type)
    for j in used:
        field = schema.field(j)
        if not _is_number(field.type):
            may_be_text = with_tags and j != columns.tags and _is_text(field.type)
            advice = not_a_number_advice(field.name, may_be_text) if columns.to_learn else ""
            raise DataFormatError(path, f"column {field.name!r} is of type {field.type}, not a number{advice}")
    return [columns.names[j] for j in used]


def _arrays(path: Path, table: Any, columns: Columns, missing: str, first: int) -> tuple[np.ndarray, np.ndarray]:
    """X, with NaN where values are missing and may be, and Y of rows from ``first`` on."""
    X = np.empty((table.num_rows, len(columns.features)))
    for to, name in enumerate(columns.feature_names):
        X[:, to] = _numbers(path, table.column(name), name, missing, first)
    Y = np.empty((table.num_rows, len(columns.labels)), dtype=LABEL_DTYPE)
    for to, j in enumerate(columns.labels):
        name = columns.names[j]
        values = _numbers(path, table.column(name), name, "zero" if missing == "zero" else "error", first)
        if missing == "zero":
            values = np.nan_to_num(values, nan=0.0)
        if not is_binary(values):
            raise DataFormatError(path, f"label column {name!r} holds other values than 0 and 1")
        Y[:, to] = values
    return X, Y


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


def _numbers(path: Path, column: Any, name: str, missing: str, first: int) -> np.ndarray:
    pa, _ = pyarrow_modules()
    try:
        # Integers beyond 2^53 would be rounded: safe=True refuses them.
        values = column.cast(pa.float64(), safe=True).to_numpy()
    except pa.ArrowException as error:
        raise DataFormatError(path, f"column {name!r} does not fit float64 ({str(error)[:200]})") from error
    if np.isinf(values).any():
        raise DataFormatError(path, f"column {name!r} holds infinite values")
    if missing == "error" and np.isnan(values).any():
        row = first + int(np.flatnonzero(np.isnan(values))[0])
        reason = f"column {name!r} is missing a value in row {row} (from 0); missing= says what to do"
        raise DataFormatError(path, reason)
    return values


def _texts(path: Path, schema: Any, footer: Any, text: str, labels: str) -> Dataset:
    _check_text_columns(path, schema, text, labels)
    leaves, dictionaries = _leaves(footer, (text, labels))
    counts = sum(chunk.num_values for chunk in leaves)
    characters = sum(chunk.total_uncompressed_size for chunk in leaves)
    _check_size(path, _OBJECT_BYTES * counts + 4 * characters, f"{counts} texts and labels")
    # As dictionaries: a repeated text becomes one Python string.
    with _parquet_file(path, read_dictionary=dictionaries) as file:
        table = file.read(columns=[text, labels])
    rows, tags = _text_column(path, table, text, 0), _tags_column(path, table, labels, 0)
    names = _label_names(path, schema.metadata or {})
    if names is not None and not {tag for row in tags for tag in row} <= set(names):
        names = None  # another program changed the labels and kept our metadata
    return tagged_dataset(path, rows, tags, names)


def _check_text_columns(path: Path, schema: Any, text: str, labels: str | None) -> None:
    """Refuse a file without the one column of texts, and of label lists unless ``labels`` is None."""
    pa, _ = pyarrow_modules()
    columns = [(text, "text")] if labels is None else [(text, "text"), (labels, "labels")]
    for name, argument in columns:
        if schema.names.count(name) != 1:
            near = nearest(name, schema.names) if name not in schema.names else ""
            raise DataFormatError(path, f"no single column called {name!r}; say {argument}={near}")
        kind = schema.field(name).type
        if argument == "text":
            fault = "" if _is_text(kind) else f"is of type {kind}, not text"
        elif not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
            fault = f"is of type {kind}, not a list of labels"
        else:
            is_tag = _is_text(kind.value_type) or pa.types.is_integer(kind.value_type)
            fault = "" if is_tag else f"holds lists of {kind.value_type}, not of texts"
        if fault:
            raise DataFormatError(path, f"column {name!r} {fault}")


def _text_column(path: Path, table: Any, name: str, first: int) -> list[str]:
    with _readable(path):
        rows = [value for chunk in table.column(name).chunks for value in _values(chunk)]
    if None in rows:
        raise DataFormatError(path, f"column {name!r} is null in row {first + rows.index(None)} (from 0)")
    return rows


def _tags_column(path: Path, table: Any, name: str, first: int) -> list[list[str]]:
    written: list[list[Any]] = []
    with _readable(path):
        for lists in table.column(name).chunks:
            flat = iter(_values(lists.flatten()))  # null lists have no values
            written += [list(islice(flat, n or 0)) for n in lists.value_lengths().to_pylist()]
    for i, row in enumerate(written, first):
        if None in row:
            raise DataFormatError(path, f"column {name!r} holds a null label in row {i} (from 0)")
    return [list(dict.fromkeys(str(tag) for tag in row)) for row in written]


def _is_number(kind: Any) -> bool:
    types = pyarrow_modules()[0].types
    return bool(types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind))


def _is_text(kind: Any) -> bool:
    types = pyarrow_modules()[0].types
    return bool(types.is_string(kind) or types.is_large_string(kind))


def _leaves(footer: Any, names: Sequence[str]) -> tuple[list[Any], list[str]]:
    """Stored chunks of some columns and their paths in the file; those of a list stand below its name."""
    chunks = [footer.row_group(i).column(j) for i in range(footer.num_row_groups) for j in range(footer.num_columns)]
    chunks = [c for c in chunks if any(c.path_in_schema == n or c.path_in_schema.startswith(f"{n}.") for n in names)]
    return chunks, list({chunk.path_in_schema for chunk in chunks})


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
        X, Y = as_dense(dataset)
        arrays = [*np.ascontiguousarray(X.T), *np.ascontiguousarray(Y.T)]
        columns = {name: pa.array(values) for name, values in zip(check_table_names(dataset), arrays, strict=True)}
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
        kinds = {LABELS_COLUMN: texts, TOP_COLUMN: texts, TOP_SCORES_COLUMN: numbers}
        fields = [(name, kinds.get(name, pa.float64())) for name in self._headings[1:]]
        fields.insert(0, (self._headings[0], pa.string() if named else pa.int64()))
        self._writer = pq.ParquetWriter(self._path, pa.schema(fields))

    def close(self) -> None:
        """Finish the file; without rows it has columns only."""
        self._open(named=False)
        self._writer.close()
