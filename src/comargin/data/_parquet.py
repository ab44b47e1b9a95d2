"""Parquet tables of both kinds: feature and label columns, or texts with lists of labels. Needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ._dataset import LABEL_DTYPE, DataFormatError, Dataset
from ._missing import fill_missing
from ._source import ARRAY_FLOOR, check_is_file
from ._table import Columns, as_dense, check_table_names
from ._text_table import LABELS_COLUMN, TEXT_COLUMN, tag_lists, text_dataset

_METADATA = b"comargin"
MAGIC = b"PAR1"
# Parquet packs runs of equal values: published sets, dense with rare labels, grow by less than 120.
PARQUET_EXPANSION = 500
_OBJECT_BYTES = 50  # what a Python list spends on a text or a label it holds


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'comargin[parquet]'") from error
    return pyarrow, pyarrow.parquet


def read_parquet(path: Path, *, text: str | None, labels: Any, missing: str, drop: Sequence[str]) -> Dataset:
    """Read a Parquet table.

    Parameters
    ----------
    path : Path
        The file.
    text : str or None
        Text column, for texts with tags; None: as our writer marks them.
    labels : sequence of str, int, str or None
        Label columns (None: by prefix); for texts the column of label lists.
    missing : str
        What to do with nulls and NaN.
    drop : sequence of str
        Columns to leave out.

    Returns
    -------
    Dataset
        Dense arrays, or texts and a CSR indicator.
    """
    check_is_file(path)
    _, pq = _pyarrow()
    with _readable(path), pq.ParquetFile(path) as file:
        schema, footer = file.schema_arrow, file.metadata
        names = schema.names
    n_rows = max(footer.num_rows, sum(footer.row_group(i).num_rows for i in range(footer.num_row_groups)))
    if n_rows == 0:
        raise DataFormatError(path, "has no rows")
    if text is not None or (labels is None and {TEXT_COLUMN, LABELS_COLUMN} <= set(names)):
        if drop:
            raise ValueError("drop= means nothing to texts: only the two columns are read")
        return _texts(path, schema, footer, text or TEXT_COLUMN, labels or LABELS_COLUMN)
    columns = Columns(path, names, labels, drop)
    used = columns.features + columns.labels
    for j in used:
        _check_is_number(path, schema.field(j))
    # Arrow's column and ours: 8 bytes a cell each at most.
    _check_size(path, 16 * n_rows * len(used), f"{n_rows} rows of {len(used)} columns")
    with _readable(path), pq.ParquetFile(path) as file:
        table = file.read(columns=[names[j] for j in used])
        n_rows = table.num_rows
    X = np.empty((n_rows, len(columns.features)))
    for to, j in enumerate(columns.features):
        X[:, to] = _numbers(path, table.column(names[j]), names[j], missing)
    Y = np.empty((n_rows, len(columns.labels)), dtype=LABEL_DTYPE)
    for to, j in enumerate(columns.labels):
        values = _numbers(path, table.column(names[j]), names[j], "zero" if missing == "zero" else "error")
        if missing == "zero":
            values = np.nan_to_num(values, nan=0.0)
        if not np.isin(values, (0.0, 1.0)).all():
            raise DataFormatError(path, f"label column {names[j]!r} holds other values than 0 and 1")
        Y[:, to] = values
    return columns.dataset(fill_missing(X, missing), Y)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Whatever pyarrow makes of a broken file is a DataFormatError."""
    pa, _ = _pyarrow()
    try:
        yield
    except (pa.ArrowException, OSError, MemoryError, ValueError, KeyError, TypeError) as error:
        raise DataFormatError(path, f"is not a readable Parquet file ({str(error)[:200]})") from error


def _check_size(path: Path, needed: int, what: str) -> None:
    """Repeated values take next to no room in the file: look at the counts before anything is read."""
    n_bytes = path.stat().st_size
    limit = max(ARRAY_FLOOR, PARQUET_EXPANSION * n_bytes)
    if needed > limit:
        reason = f"{what}: more than {limit} bytes, the most that is made of a file of {n_bytes} bytes: refused"
        raise DataFormatError(path, reason)


def _check_is_number(path: Path, field: Any) -> None:
    pa, _ = _pyarrow()
    kind = field.type
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataFormatError(path, f"column {field.name!r} is of type {kind}, not a number (drop= leaves it out)")


def _numbers(path: Path, column: Any, name: str, missing: str) -> np.ndarray:
    pa, _ = _pyarrow()
    try:
        # Integers beyond 2^53 would be rounded: safe=True refuses them.
        values = column.cast(pa.float64(), safe=True).to_numpy()
    except pa.ArrowException as error:
        raise DataFormatError(path, f"column {name!r} does not fit float64 ({str(error)[:200]})") from error
    if np.isinf(values).any():
        raise DataFormatError(path, f"column {name!r} holds infinite values")
    if missing == "error" and np.isnan(values).any():
        row = int(np.flatnonzero(np.isnan(values))[0])
        reason = f"column {name!r} is missing a value in row {row} (from 0); missing= says what to do"
        raise DataFormatError(path, reason)
    return values


def _texts(path: Path, schema: Any, footer: Any, text: str, labels: str) -> Dataset:
    pa, pq = _pyarrow()
    for name, argument in ((text, "text"), (labels, "labels")):
        if schema.names.count(name) != 1:
            raise DataFormatError(path, f"no single column called {name!r}; say {argument}=")
    if not _is_text(schema.field(text).type):
        raise DataFormatError(path, f"column {text!r} is of type {schema.field(text).type}, not text")
    lists = schema.field(labels).type
    if not (pa.types.is_list(lists) or pa.types.is_large_list(lists)):
        raise DataFormatError(path, f"column {labels!r} is of type {lists}, not a list of labels")
    if not (_is_text(lists.value_type) or pa.types.is_integer(lists.value_type)):
        raise DataFormatError(path, f"column {labels!r} holds lists of {lists.value_type}, not of texts")
    leaves = _leaves(footer, (text, labels))
    counts = sum(chunk.num_values for chunk in leaves)
    characters = sum(chunk.total_uncompressed_size for chunk in leaves)
    _check_size(path, _OBJECT_BYTES * counts + 4 * characters, f"{counts} texts and labels")
    # As dictionaries: a text that the file holds once is made once, however many rows have it.
    paths = list({chunk.path_in_schema for chunk in leaves})
    with _readable(path), pq.ParquetFile(path, read_dictionary=paths) as file:
        table = file.read(columns=[text, labels])
        rows = [value for chunk in table.column(text).chunks for value in _values(chunk)]
        written = [tags for chunk in table.column(labels).chunks for tags in _tag_lists(chunk)]
    if None in rows:
        raise DataFormatError(path, f"column {text!r} is null in row {rows.index(None)} (from 0)")
    for i, row in enumerate(written):
        if None in row:
            raise DataFormatError(path, f"column {labels!r} holds a null label in row {i} (from 0)")
    tags = [list(dict.fromkeys(str(tag) for tag in row)) for row in written]
    names = _label_names(path, schema.metadata or {})
    if names is not None and not {tag for row in tags for tag in row} <= set(names):
        names = None  # edited after we wrote it: the rows are right
    return text_dataset(path, rows, tags, names)


def _is_text(kind: Any) -> bool:
    pa, _ = _pyarrow()
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _leaves(footer: Any, names: tuple[str, str]) -> list[Any]:
    """Stored chunks of the two columns; those of a list stand below its name."""
    chunks = [footer.row_group(i).column(j) for i in range(footer.num_row_groups) for j in range(footer.num_columns)]
    return [c for c in chunks if any(c.path_in_schema == n or c.path_in_schema.startswith(f"{n}.") for n in names)]


def _values(array: Any) -> list[Any]:
    """Python values; those of a dictionary are made once and shared."""
    pa, _ = _pyarrow()
    if not pa.types.is_dictionary(array.type):
        return list(array.to_pylist())
    words = array.dictionary.to_pylist()
    return [None if k is None else words[k] for k in array.indices.to_pylist()]


def _tag_lists(lists: Any) -> list[list[Any]]:
    tags = iter(_values(lists.flatten()))  # without those of null lists
    return [list(islice(tags, n or 0)) for n in lists.value_lengths().to_pylist()]


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


def write_parquet(dataset: Dataset, path: Path) -> None:
    """Write a Parquet table of either kind.

    Parameters
    ----------
    dataset : Dataset
        What to write, checked.
    path : Path
        Where.
    """
    pa, pq = _pyarrow()
    if isinstance(dataset.X, list):
        columns = {TEXT_COLUMN: pa.array(dataset.X, pa.string())}
        columns[LABELS_COLUMN] = pa.array(tag_lists(dataset), pa.list_(pa.string()))
    else:
        X, Y = as_dense(dataset)
        arrays = [*np.ascontiguousarray(X.T), *np.ascontiguousarray(Y.T)]
        columns = {name: pa.array(values) for name, values in zip(check_table_names(dataset), arrays, strict=True)}
    metadata = {_METADATA: json.dumps({"label_names": list(dataset.label_names)}).encode()}
    pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
