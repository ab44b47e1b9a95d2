"""Writing predictions, a chunk at a time: CSV, JSON Lines or Parquet, to a file or to the standard output."""

from __future__ import annotations

import csv
import json
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NamedTuple

import numpy as np

from ..core.files import AtomicFiles
from ..core.indicator import check_indicator
from ._numbers import format_number
from ._table import delimiter_of
from .chunks import Chunk, tags_of
from .format_table import format_of_suffix
from .formats import check_sep, checked_names
from .parquet import TOP_COLUMN, TOP_SCORES_COLUMN, PredictionTable
from .text_table import LABELS_COLUMN, check_separable

PREDICTION_FORMATS = ("csv", "jsonl", "parquet")
_STANDARD = "-"
_SCORE_PREFIX = "score:"
_SCORES = "scores"


class _Rows(NamedTuple):
    """What is written of some rows: names, labels, scores of the labels, best labels and their scores."""

    ids: list[Any]
    tags: list[list[str]]
    scores: np.ndarray | None
    top: list[list[str]] | None
    top_scores: list[list[float]] | None


class PredictionWriter:
    r"""Write predictions as they come.

    Use it in a ``with`` block: a file appears, whole, at its end, and not at all when the block fails. What goes to
    the standard output is flushed after every chunk.

    Parameters
    ----------
    target : str, Path or text stream
        Where to write; "-" is the standard output. A file that ends in ``.gz`` is compressed.
    label_names : sequence of str
        Names of the columns of the predictions.
    format : {"csv", "jsonl", "parquet"} or None
        None: by the suffix (``.csv``, ``.tsv``, ``.jsonl``, ``.ndjson``, ``.parquet``); a stream gets CSV.
    top_k : int or None
        Write also the ``top_k`` labels of the highest scores, in their order, and these scores.
    scores : bool
        Write also the scores of all labels.
    sep : str
        Between the labels of a CSV cell.
    delimiter : str or None
        Between the cells of a CSV file; None: a comma, a tab for ``.tsv``.
    id_name : str
        Heading of what the rows are called: their ``ids``, or their numbers from 0 where a chunk has none.

    Notes
    -----
    In CSV the labels stand in one cell, and so do the best ones (``top``) and their scores (``top_scores``); scores
    have a column ``score:NAME`` each. JSON Lines have a list each, and an object ``scores``. Parquet has lists, and a
    column ``score:NAME`` each. Scores are written so that they read back as the same doubles.

    Examples
    --------
    >>> import sys
    >>> import numpy as np
    >>> from comargin.data import Chunk, PredictionWriter
    >>> Y, scores = np.array([[1, 1, 0], [0, 0, 0]]), np.array([[0.5, 2.0, -1.0], [-3.0, -0.25, -1.5]])
    >>> with PredictionWriter(sys.stdout, ["wine", "red", "food"], top_k=2) as out:
    ...     out.write(Chunk(["a red one", "?"], first_row=0), Y, scores)
    row,labels,top,top_scores
    0,wine;red,red;wine,2;0.5
    1,,red;food,-0.25;-1.5
    """

    def __init__(
        self,
        target: str | Path | IO[str],
        label_names: Sequence[str],
        *,
        format: str | None = None,
        top_k: int | None = None,
        scores: bool = False,
        sep: str = ";",
        delimiter: str | None = None,
        id_name: str = "row",
    ) -> None:
        self.label_names = checked_names("label_names", label_names)
        if not self.label_names or len(set(self.label_names)) < len(self.label_names):
            raise ValueError("label_names= must hold distinct names, at least one")
        if top_k is not None and (isinstance(top_k, bool) or not isinstance(top_k, (int, np.integer)) or top_k < 1):
            raise ValueError(f"top_k={top_k!r} must be None or an integer >= 1")
        check_sep("sep", sep)
        self.top_k = None if top_k is None else min(int(top_k), len(self.label_names))
        self.scores = scores
        self.n_rows = 0
        self._target = target
        path = Path(target) if isinstance(target, (str, Path)) and str(target) != _STANDARD else None
        self._path = path
        self.format = _format_of(path, format)
        if not isinstance(id_name, str) or id_name in {*self._columns(), _SCORES}:
            raise ValueError(f"id_name={id_name!r} must be a name that no other column has")
        self._headings = [id_name, *self._columns()]
        self._delimiter = delimiter_of(path or Path(), delimiter)
        self._sep = sep
        if self.format == "csv":
            check_separable("label_names", self.label_names, sep)
        self._stack = ExitStack()
        self._form: _Form | None = None

    def _columns(self) -> list[str]:
        top = [] if self.top_k is None else [TOP_COLUMN, TOP_SCORES_COLUMN]
        scores = [_SCORE_PREFIX + name for name in self.label_names] if self.scores else []
        return [LABELS_COLUMN, *top, *scores]

    def __enter__(self) -> PredictionWriter:
        with ExitStack() as stack:
            self._form = self._open(stack)
            self._stack = stack.pop_all()
        return self

    def _open(self, stack: ExitStack) -> _Form:
        if self._path is None:
            file = sys.stdout if isinstance(self._target, (str, Path)) else self._target
            if file is None or file.closed:
                raise ValueError("target: '-' is the standard output, which is closed")
            return self._text_form(file, flush=True)
        files = stack.enter_context(AtomicFiles())
        if self.format == "parquet":
            return _ParquetForm(files.reserve(self._path), self._headings, stack)
        return self._text_form(files.open(self._path), flush=False)

    def _text_form(self, file: IO[str], flush: bool) -> _Form:
        if self.format == "jsonl":
            return _JsonForm(file, self._headings[0], self.label_names, flush)
        return _CsvForm(file, self._headings, self._sep, self._delimiter, flush)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._form = None
        self._stack.__exit__(kind, error, trace)

    def write(self, chunk: Chunk, Y_pred: Any, scores: Any = None) -> None:
        """Write the predictions of a chunk.

        Parameters
        ----------
        chunk : Chunk
            Which rows they are.
        Y_pred : array-like or sparse matrix of shape (n_rows, n_labels)
            Predicted labels, 0 or 1.
        scores : array-like of shape (n_rows, n_labels) or None
            Scores, the higher the more certain; needed if they or ``top_k`` labels are written.
        """
        if self._form is None:
            raise ValueError("PredictionWriter: write inside its with block")
        shape = (chunk.n_rows, len(self.label_names))
        Y = check_indicator(Y_pred, "Y_pred")
        if Y.shape != shape:
            raise ValueError(f"Y_pred has shape {Y.shape}, expected {shape} (rows of the chunk, label_names)")
        ids: list[Any] | None = chunk.ids
        if ids is None:
            ids = list(range(chunk.first_row, chunk.first_row + shape[0]))
        self._form.write(_Rows(ids, tags_of(Y, self.label_names), *self._scored(scores, shape)))
        self.n_rows += shape[0]

    def _scored(self, scores: Any, shape: tuple[int, int]) -> tuple[Any, Any, Any]:
        if self.top_k is None and not self.scores:
            return None, None, None
        if scores is None:
            raise ValueError("scores: they are to be written, but None are given")
        values = np.asarray(scores, dtype=np.float64)
        if values.shape != shape:
            raise ValueError(f"scores has shape {values.shape}, expected {shape} (rows of the chunk, label_names)")
        if not np.isfinite(values).all():
            raise ValueError("scores holds NaN or infinite values")
        top = top_scores = None
        if self.top_k is not None:
            best = np.argsort(-values, axis=1, kind="stable")[:, : self.top_k]
            top = [[self.label_names[j] for j in row] for row in best.tolist()]
            top_scores = np.take_along_axis(values, best, axis=1).tolist()
        return values if self.scores else None, top, top_scores


def _format_of(path: Path | None, format: str | None) -> str:
    if format is None and path is not None:
        format = format_of_suffix(path)
        if format not in PREDICTION_FORMATS:
            known = ", ".join(PREDICTION_FORMATS)
            raise ValueError(f"the suffix of {path.name!r} names no format; say format= (one of {known})")
    format = "csv" if format is None else format
    if format not in PREDICTION_FORMATS:
        raise ValueError(f"format={format!r} is unknown, allowed are {', '.join(PREDICTION_FORMATS)}")
    if format == "parquet" and path is None:
        raise ValueError("format='parquet' needs a file; a stream takes 'csv' or 'jsonl'")
    return format


class _Form(ABC):
    """How rows are written."""

    @abstractmethod
    def write(self, rows: _Rows) -> None:
        """Write some rows."""


class _CsvForm(_Form):
    def __init__(self, file: IO[str], headings: list[str], sep: str, delimiter: str, flush: bool) -> None:
        self._file, self._sep, self._flush = file, sep, flush
        self._writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        self._writer.writerow(headings)

    def write(self, rows: _Rows) -> None:
        columns: list[list[Any]] = [rows.ids, [self._sep.join(tags) for tags in rows.tags]]
        if rows.top is not None and rows.top_scores is not None:
            columns.append([self._sep.join(tags) for tags in rows.top])
            columns.append([self._sep.join(map(format_number, values)) for values in rows.top_scores])
        if rows.scores is not None:
            columns += [[format_number(value) for value in column] for column in rows.scores.T.tolist()]
        self._writer.writerows(zip(*columns, strict=True))
        if self._flush:
            self._file.flush()


class _JsonForm(_Form):
    def __init__(self, file: IO[str], id_name: str, label_names: Sequence[str], flush: bool) -> None:
        self._file, self._id_name, self._label_names, self._flush = file, id_name, label_names, flush

    def write(self, rows: _Rows) -> None:
        for i, (name, tags) in enumerate(zip(rows.ids, rows.tags, strict=True)):
            row: dict[str, Any] = {self._id_name: name, LABELS_COLUMN: tags}
            if rows.top is not None and rows.top_scores is not None:
                row[TOP_COLUMN], row[TOP_SCORES_COLUMN] = rows.top[i], rows.top_scores[i]
            if rows.scores is not None:
                row[_SCORES] = dict(zip(self._label_names, rows.scores[i].tolist(), strict=True))
            self._file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")
        if self._flush:
            self._file.flush()


class _ParquetForm(_Form):
    """The rows of a chunk are a row group."""

    def __init__(self, path: Path, headings: list[str], stack: ExitStack) -> None:
        self._table = PredictionTable(path, headings)
        stack.callback(self._table.close)

    def write(self, rows: _Rows) -> None:
        columns: list[Any] = [rows.ids, rows.tags]
        if rows.top is not None:
            columns += [rows.top, rows.top_scores]
        if rows.scores is not None:
            columns += [*np.ascontiguousarray(rows.scores.T)]
        self._table.append(columns)
