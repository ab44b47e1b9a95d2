"""Parquet tables of both kinds: feature and label columns, or texts with lists of labels. Needs pyarrow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ._dataset import LABEL_DTYPE, DataFormatError, Dataset
from ._missing import fill_missing
from ._source import check_is_file
from ._table import Columns, as_dense, check_table_names
from ._text_table import LABELS_COLUMN, TEXT_COLUMN, is_text_header, tag_lists, text_dataset

_METADATA = b"comargin"
MAGIC = b"PAR1"


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
    pa, pq = _pyarrow()
    try:
        table = pq.read_table(path, memory_map=False, partitioning=None)
        names = table.schema.names
    except (pa.ArrowException, OSError, MemoryError, ValueError, KeyError, TypeError) as error:
        raise DataFormatError(path, f"is not a readable Parquet file ({str(error)[:200]})") from error
    if table.num_rows == 0:
        raise DataFormatError(path, "has no rows")
    if text is not None or (labels is None and is_text_header(names)):
        return _texts(path, table, text or TEXT_COLUMN, labels or LABELS_COLUMN)
    columns = Columns(path, names, labels, drop)
    X = np.empty((table.num_rows, len(columns.features)))
    for to, j in enumerate(columns.features):
        X[:, to] = _numbers(path, table.column(j), names[j], missing)
    Y = np.empty((table.num_rows, len(columns.labels)), dtype=LABEL_DTYPE)
    for to, j in enumerate(columns.labels):
        values = _numbers(path, table.column(j), names[j], "zero" if missing == "zero" else "error")
        if missing == "zero":
            values = np.nan_to_num(values, nan=0.0)
        if not np.isin(values, (0.0, 1.0)).all():
            raise DataFormatError(path, f"label column {names[j]!r} holds other values than 0 and 1")
        Y[:, to] = values
    return columns.dataset(fill_missing(X, missing), Y)


def _numbers(path: Path, column: Any, name: str, missing: str) -> np.ndarray:
    pa, _ = _pyarrow()
    kind = column.type
    if not (pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise DataFormatError(path, f"column {name!r} is of type {kind}, not a number (drop= leaves it out)")
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


def _texts(path: Path, table: Any, text: str, labels: str) -> Dataset:
    pa, _ = _pyarrow()
    for name, argument in ((text, "text"), (labels, "labels")):
        if table.schema.names.count(name) != 1:
            raise DataFormatError(path, f"no single column called {name!r}; say {argument}=")
    texts, lists = table.column(text), table.column(labels)
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        raise DataFormatError(path, f"column {text!r} is of type {texts.type}, not text")
    if not (pa.types.is_list(lists.type) or pa.types.is_large_list(lists.type)):
        raise DataFormatError(path, f"column {labels!r} is of type {lists.type}, not a list of labels")
    try:
        written = [[str(tag) for tag in row or ()] for row in lists.to_pylist()]
        rows = texts.to_pylist()
        names = json.loads((table.schema.metadata or {}).get(_METADATA, b"{}")).get("label_names")
    except (UnicodeDecodeError, json.JSONDecodeError, AttributeError) as error:
        raise DataFormatError(path, f"holds broken text ({error})") from error
    if None in rows:
        raise DataFormatError(path, f"column {text!r} is null in row {rows.index(None)} (from 0)")
    tags = [list(dict.fromkeys(row)) for row in written]
    if names is not None and not {tag for row in tags for tag in row} <= {str(name) for name in names}:
        names = None  # edited after we wrote it: the rows are right
    return text_dataset(path, rows, tags, names)


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
