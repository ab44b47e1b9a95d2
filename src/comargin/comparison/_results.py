"""The results file: one row per finished cell, written as soon as it is finished, CSV or Parquet."""

import csv
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..core.files import AtomicFiles
from ..data.parquet import pyarrow_modules

Record = dict[str, Any]

# Columns of every file, in order, and how their texts are read; measures follow, all of them floats.
FIXED: dict[str, type] = {
    "cell": str,
    "dataset": str,
    "model": str,
    "split": int,
    "protocol": str,
    "seed": int,
    "data": str,
    "definition": str,
    "n_train": int,
    "n_test": int,
    "tune_seconds": float,
    "fit_seconds": float,
    "predict_seconds": float,
    "parameters": str,
    "warnings": str,
    "error": str,
    "versions": str,
}
SUFFIXES = (".csv", ".parquet")


class ResultsFile:
    """Finished cells on disk. One run at a time may write to a file.

    The file, and its folder, are made if they do not exist; an existing one must have columns for all ``measures``, and
    may have more. Half a line at the end of a CSV file, left by a run that was killed while it wrote, is removed.
    """

    def __init__(self, path: str | os.PathLike[str], measures: Sequence[str]) -> None:
        self.path = checked_path(path)
        self.records: list[Record] = []
        self.measures = tuple(measures)
        if self.path.exists():
            known, self.records, n_whole = _read(self.path)
            if known or self.records:  # neither empty nor killed in its first line
                self.measures = known
                missing = [name for name in measures if name not in known]
                if missing:
                    raise ValueError(
                        f"results: {self.path} has no column {missing[0]!r}: its cells were made without that measure; "
                        "give another file"
                    )
                if n_whole is not None:
                    os.truncate(self.path, n_whole)
        if not self.records:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if self.path.suffix == ".parquet":
                self._rewrite_parquet()
            else:
                self._write_line((*FIXED, *self.measures), "w")

    def append(self, record: Mapping[str, Any]) -> None:
        """Write one finished cell, with a value or None in every column."""
        self.records.append({name: record[name] for name in (*FIXED, *self.measures)})
        if self.path.suffix == ".parquet":
            self._rewrite_parquet()
        else:
            values = ("" if value is None else value for value in self.records[-1].values())
            self._write_line((repr(v) if isinstance(v, float) else str(v) for v in values), "a")

    def _write_line(self, values: Iterable[str], mode: str) -> None:
        """Write a line to the disk; a kill leaves at most the last line in pieces."""
        with self.path.open(mode, encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerow(values)
            file.flush()
            os.fsync(file.fileno())

    def _rewrite_parquet(self) -> None:
        """Parquet cannot grow: the whole file is replaced, in one step."""
        pa, pq = pyarrow_modules()
        kinds = {str: pa.string(), int: pa.int64(), float: pa.float64()}
        columns = {**FIXED, **dict.fromkeys(self.measures, float)}
        schema = pa.schema([(name, kinds[kind]) for name, kind in columns.items()])
        table = pa.Table.from_pylist(self.records, schema=schema)
        with AtomicFiles() as files:
            pq.write_table(table, files.reserve(self.path))


def read_results(path: str | os.PathLike[str]) -> tuple[tuple[str, ...], list[Record]]:
    """Measures and rows of a results file, which is not changed; half a line at its end is left out."""
    file = checked_path(path)
    if not file.is_file():
        raise ValueError(f"results: there is no file {file}")
    measures, records, _ = _read(file)
    return measures, records


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The path of a results file, if its ending says which kind."""
    file = Path(path)
    if file.suffix not in SUFFIXES:
        raise ValueError(f"results must end in {' or '.join(SUFFIXES)}, got {file.name!r}")
    if file.is_dir():
        raise ValueError(f"results: {file} is a folder")
    return file


def _read(path: Path) -> tuple[tuple[str, ...], list[Record], int | None]:
    """Measures, rows, and for CSV the number of bytes in whole lines."""
    if path.suffix == ".parquet":
        pa, pq = pyarrow_modules()
        try:
            table = pq.read_table(path)
        except pa.ArrowInvalid as error:
            raise ValueError(f"results: {path} is no Parquet file: {error}") from error
        return _measures_of(table.column_names, path), table.to_pylist(), None
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    try:
        lines = data[:whole].decode("utf-8").split("\n")[:-1]
    except UnicodeDecodeError as error:
        raise ValueError(f"results: {path} is no UTF-8 text: {error}") from error
    if not lines:
        if data and not ",".join(FIXED).startswith(data[:20].decode("utf-8", "replace")):
            raise ValueError(f"results: {path} is no results file")
        return (), [], 0
    rows = list(csv.reader(lines))
    columns = rows[0]
    measures = _measures_of(columns, path)
    records = []
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(columns):
            raise ValueError(f"results: {path}:{number}: {len(row)} values for {len(columns)} columns")
        try:
            records.append({name: _from_text(name, text) for name, text in zip(columns, row, strict=True)})
        except ValueError as error:
            raise ValueError(f"results: {path}:{number}: {error}") from error
    return measures, records, whole


def _measures_of(columns: list[str], path: Path) -> tuple[str, ...]:
    if tuple(columns[: len(FIXED)]) != tuple(FIXED):
        raise ValueError(
            f"results: {path} is no results file: its columns begin with {', '.join(columns[:3])}; expected "
            f"{', '.join(list(FIXED)[:3])}"
        )
    return tuple(columns[len(FIXED) :])


def _from_text(name: str, text: str) -> Any:
    kind = FIXED.get(name, float)
    return None if text == "" and kind is not str else kind(text)
