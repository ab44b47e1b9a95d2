"""Writing predictions, a chunk at a time: CSV, JSON Lines or Parquet, to a file or to the standard output."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from ..core.checks import whole_number
from ..core.files import AtomicFiles
from ..core.indicator import check_indicator
from ._numbers import format_number
from ._table import delimiter_of
from .chunks import Chunk
from .format_table import format_of_suffix
from .formats import check_sep, checked_names
from .labels import LABELS_COLUMN, check_separable, tags_of
from .parquet import EXPLAIN_COLUMN, TOP_COLUMN, TOP_PROBABILITIES_COLUMN, TOP_SCORES_COLUMN, PredictionTable

if TYPE_CHECKING:
    from ..core.explanation import Explanation

PREDICTION_FORMATS = ("csv", "jsonl", "parquet")
_STANDARD = "-"
# Prefix of a column, name of an object, and heading of the best ones.
_NAMES = {
    False: ("score:", "scores", TOP_SCORES_COLUMN),
    True: ("probability:", "probabilities", TOP_PROBABILITIES_COLUMN),
}
# Appends rows: their names, one list per row for every list column, and scores of shape (n_rows, n_labels or 0).
_Append = Callable[[list[Any], list[list[Any]], np.ndarray], None]


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
    probabilities : bool
        Whether what is passed as scores are probabilities: columns are called ``probability:NAME``,
        ``probabilities`` and ``top_probabilities``.
    explain : bool
        Write also why the labels have their scores.
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
    column ``score:NAME`` each. Scores are written so that they read back as the same doubles. ``explain`` has a text
    per label, in JSON Lines an object.

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
        probabilities: bool = False,
        explain: bool = False,
        sep: str = ";",
        delimiter: str | None = None,
        id_name: str = "row",
    ) -> None:
        self.label_names = checked_names("label_names", label_names)
        if not self.label_names or len(set(self.label_names)) < len(self.label_names):
            raise ValueError("label_names= must hold distinct names, at least one")
        check_sep("sep", sep)
        self.top_k = None if top_k is None else min(whole_number("top_k", top_k, 1), len(self.label_names))
        self.scores = scores
        self.n_rows = 0
        self._target = target
        path = Path(target) if isinstance(target, (str, Path)) and str(target) != _STANDARD else None
        self._path, self.format = path, _format_of(path, format)
        prefix, self._scores_name, top_heading = _NAMES[bool(probabilities)]
        self._headings = [id_name, LABELS_COLUMN, *([] if top_k is None else [TOP_COLUMN, top_heading])]
        self._headings += [EXPLAIN_COLUMN] if explain else []
        self._score_headings = [prefix + name for name in self.label_names] if scores else []
        if not isinstance(id_name, str) or id_name in {*self._headings[1:], *self._score_headings, self._scores_name}:
            raise ValueError(f"id_name={id_name!r} must be a name that no other column has")
        self._delimiter = delimiter_of(path or Path(), delimiter)
        self._sep = sep
        if self.format == "csv":
            check_separable("label_names", self.label_names, sep)
        self._stack = ExitStack()
        self._append: _Append | None = None
        self._stream: IO[str] | None = None

    def __enter__(self) -> PredictionWriter:
        with ExitStack() as stack:
            self._append = self._open(stack)
            self._stack = stack.pop_all()
        return self

    def _open(self, stack: ExitStack) -> _Append:
        """Open the target and return the function that appends rows to it."""
        headings = [*self._headings, *self._score_headings]
        if self._path is None:
            file = self._stream = sys.stdout if isinstance(self._target, (str, Path)) else self._target
            if file is None or file.closed:
                raise ValueError("target: '-' is the standard output, which is closed")
        else:
            files = stack.enter_context(AtomicFiles())
            if self.format == "parquet":
                table = PredictionTable(files.reserve(self._path), headings)
                stack.callback(table.close)
                return lambda ids, lists, scores: table.append([ids, *lists, *np.ascontiguousarray(scores.T)])
            file = files.open(self._path)

        def append_json(ids: list[Any], lists: list[list[Any]], scores: np.ndarray) -> None:
            for *cells, numbers in zip(ids, *lists, scores.tolist(), strict=True):
                row = dict(zip(self._headings, cells, strict=True))
                if self.scores:
                    row[self._scores_name] = dict(zip(self.label_names, numbers, strict=True))
                file.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")

        if self.format == "jsonl":
            return append_json
        writer = csv.writer(file, delimiter=self._delimiter, lineterminator="\n")
        writer.writerow(headings)

        def append_csv(ids: list[Any], lists: list[list[Any]], scores: np.ndarray) -> None:
            cells = [[self._sep.join(map(_text, values)) for values in column] for column in lists]
            numbers = [map(format_number, column) for column in scores.T.tolist()]
            writer.writerows(zip(ids, *cells, *numbers, strict=True))

        return append_csv

    def __exit__(self, *details: Any) -> None:
        self._append = None
        self._stack.__exit__(*details)

    def write(
        self, chunk: Chunk, Y_pred: Any, scores: Any = None, explanations: Sequence[Sequence[Explanation]] | None = None
    ) -> None:
        """Write the predictions of a chunk.

        Parameters
        ----------
        chunk : Chunk
            Which rows they are.
        Y_pred : array-like or sparse matrix of shape (n_rows, n_labels)
            Predicted labels, 0 or 1.
        scores : array-like of shape (n_rows, n_labels) or None
            Scores, the higher the more certain; needed if they or ``top_k`` labels are written.
        explanations : list of list of Explanation or None
            For every row, those of its labels, by name; needed if they are written.
        """
        if self._append is None:
            raise ValueError("PredictionWriter: write inside its with block")
        shape = (chunk.n_rows, len(self.label_names))
        Y = check_indicator(Y_pred, "Y_pred")
        if Y.shape != shape:
            raise ValueError(f"Y_pred has shape {Y.shape}, expected {shape} (rows of the chunk, label_names)")
        ids: list[Any] | None = chunk.ids
        if ids is None:
            ids = list(range(chunk.first_row, chunk.first_row + shape[0]))
        lists: list[list[Any]] = [tags_of(Y, self.label_names)]
        values = np.empty((shape[0], 0))
        if self.top_k is not None or self.scores:
            if scores is None:
                raise ValueError("scores: they are to be written, but None are given")
            values = np.asarray(scores, dtype=np.float64)
            if values.shape != shape:
                raise ValueError(f"scores has shape {values.shape}, expected {shape} (rows of the chunk, label_names)")
            if not np.isfinite(values).all():
                raise ValueError("scores holds NaN or infinite values")
        if self.top_k is not None:
            best = np.argsort(-values, axis=1, kind="stable")[:, : self.top_k]
            lists.append([[self.label_names[j] for j in row] for row in best.tolist()])
            lists.append(np.take_along_axis(values, best, axis=1).tolist())
        if EXPLAIN_COLUMN in self._headings:
            lists.append(self._explained(explanations, shape[0]))
        self._append(ids, lists, values if self.scores else values[:, :0])
        if self._stream is not None:
            self._stream.flush()
        self.n_rows += shape[0]

    def _explained(self, explanations: Sequence[Sequence[Explanation]] | None, n_rows: int) -> list[Any]:
        if explanations is None or len(explanations) != n_rows:
            raise ValueError(f"explanations must be those of the {n_rows} rows of the chunk")
        if self.format == "jsonl":
            return [{one.label: one.to_dict() for one in row} for row in explanations]
        return [[str(one) for one in row] for row in explanations]


def _text(value: str | float) -> str:
    return value if isinstance(value, str) else format_number(value)


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
