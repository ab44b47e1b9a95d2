"""Rows in chunks: the columns wanted of a file, columns found by name, and chunks of even size."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.row_blocks import take_rows
from ..core.wording import counted, nearest
from ._dataset import DataFormatError
from .labels import LABELS_COLUMN, labelled, settled

CHUNK_BYTES = 1 << 26  # a chunk of this size is yielded, however few its rows are
CELLS_AT_ONCE = 1 << 13  # parsed one by one before they become an array
_ROWS_AT_ONCE = 4096  # parsed one by one before they become a part, if they need not be given out as they come
_TEXT_BYTES = 64  # of a Python string beside its characters


class Chunk(NamedTuple):
    """Some rows of a file.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features), csr_array, or list of str
        Features, dense or CSR as the file is, or texts.
    first_row : int
        Number of the first of the rows in the file, from 0.
    ids : list of str or None
        What the rows are called in the column that ``id=`` names; None when it names none.
    tags : list of list of str or None
        Names of the labels of every row when ``labels=`` asks for them, else None.
    unknown : list of (list of str or None) or None
        With ``unlabelled="unknown"`` names of the labels of every row that are unknown; None in place of a list: all
        labels of the row.
    """

    X: Any
    first_row: int
    ids: list[str] | None = None
    tags: list[list[str]] | None = None
    unknown: list[list[str] | None] | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.X) if isinstance(self.X, list) else int(self.X.shape[0])

    def part(self, start: int, stop: int) -> "Chunk":
        """Rows ``start`` to ``stop``, counted from the first one here."""
        rows = slice(start, stop)
        return Chunk(
            self.X[rows],
            self.first_row + start,
            None if self.ids is None else self.ids[rows],
            None if self.tags is None else self.tags[rows],
            None if self.unknown is None else self.unknown[rows],
        )


class Part(NamedTuple):
    """Some rows as a reader yields them; missing features are NaN, and labels as `comargin.data.labels` has them."""

    X: Any
    labels: Any = None
    ids: list[str] | None = None


def with_settled_labels(part: Part, unlabelled: str | None) -> Part:
    """A part whose labels are entries of Y or distinct names; "drop" leaves out the rows that miss a label.

    With "unknown" missing entries stay NaN, and missing lists stay empty.
    """
    if unlabelled == "drop":
        rows = labelled(part.labels)
        ids = None if part.ids is None else take_rows(part.ids, rows)
        part = Part(take_rows(part.X, rows), take_rows(part.labels, rows), ids)
    return part._replace(labels=settled(part.labels, unlabelled))


class Rows(ABC):
    """The rows of an open file. What its columns are called may be known only after the last part."""

    feature_names: tuple[str, ...] = ()
    label_names: Sequence[str] | None = None  # None: the labels that occur, sorted

    @abstractmethod
    def parts(self) -> Iterator[Part]:
        """Yield the rows, any number at a time."""


@dataclass(frozen=True)
class Wanted:
    """What `read` and `stream` want of a file of any format.

    Columns of X by name or by number, labels (None: none, True: as the file marks them), the column that names the
    rows, how to treat missing values, and whether X is texts (None: as the file is). ``drop`` is None to predict; to
    learn it holds the columns to leave out, and all others that are not labels are features.
    """

    feature_names: tuple[str, ...] = ()
    n_features: int | None = None
    labels: Any = None
    id: str | None = None
    missing: str = "error"
    unlabelled: str | None = None
    is_text: bool | None = None
    n_labels: int | None = None
    drop: tuple[str, ...] | None = None

    @property
    def to_learn(self) -> bool:
        """Whether the file says what are features."""
        return self.drop is not None

    def dropped(self, path: Any, names: Sequence[str], noun: str) -> set[int]:
        """Positions of the columns to leave out; ValueError for names that the file does not have."""
        drop = set(self.drop or ())
        unknown = drop.difference(names)
        if unknown:
            raise ValueError(f"drop= names {sorted(unknown)}, not {noun}s of {path}")
        return {j for j, name in enumerate(names) if name in drop}

    def place_of_lists(self, cure: str = "it must name the one column") -> str | None:
        """Column or field of lists of labels, the usual one if the caller names none; None: none is wanted."""
        labels = self.labels[0] if isinstance(self.labels, tuple) and len(self.labels) == 1 else self.labels
        if not (labels is None or labels is True or isinstance(labels, str)):
            raise ValueError(f"labels={labels!r}: {cure} of label lists")
        return LABELS_COLUMN if labels is True else labels

    def check_texts(self) -> None:
        """Refuse what means nothing to texts."""
        if self.drop:
            raise ValueError("drop= means nothing to texts: only the two columns are read")

    def check_count(self, path: Any, n_columns: int, line: int | None = None) -> None:
        """Refuse a file without names whose number of features is not the wanted one."""
        if self.n_features is not None and n_columns != self.n_features:
            reason = f"has {counted(n_columns, 'feature')}, expected {self.n_features}"
            raise DataFormatError(path, reason, line)


def parts_of_rows(rows: Iterator[tuple[Any, list[str], str]], wanted: Wanted) -> Iterator[Part]:
    """Parts of rows that are read one by one, as (text or features, labels, name); many in a part to learn from."""
    while batch := list(islice(rows, _ROWS_AT_ONCE if wanted.to_learn else 1)):
        X, labels, ids = (list(column) for column in zip(*batch, strict=True))
        yield Part(
            X if isinstance(X[0], str) else np.array(X, dtype=np.float64),
            None if wanted.labels is None else labels,
            None if wanted.id is None else ids,
        )


def match_names(path: Any, names: Sequence[str], wanted: Sequence[str], line: int | None = None) -> list[int]:
    """Positions of the wanted names among the columns of a file; a missing or doubled one is a DataFormatError."""
    where = {name: j for j, name in enumerate(names)}
    absent = [name for name in wanted if name not in where]
    if absent:
        more = f" (nor are {len(absent) - 1} others)" if len(absent) > 1 else ""
        reason = f"column {absent[0]!r} is not there{more}{nearest(absent[0], names)}"
        raise DataFormatError(path, reason, line)
    if len(where) < len(names):
        times = Counter(names)
        doubled = next((name for name in wanted if times[name] > 1), None)
        if doubled is not None:
            raise DataFormatError(path, f"column {doubled!r} stands twice", line)
    return [where[name] for name in wanted]


def regroup(parts: Iterable[Chunk], chunk_rows: int) -> Iterator[Chunk]:
    """Regroup parts of any size into chunks of ``chunk_rows`` rows; of fewer at the end and where rows are large."""
    first = n_rows = n_bytes = 0
    waiting: list[Chunk] = []
    for part in parts:
        at, size = 0, part.n_rows
        while at < size:
            step = min(size - at, chunk_rows - n_rows)
            piece = part if step == size else part.part(at, at + step)
            waiting.append(piece)
            at += step
            n_rows += step
            n_bytes += _size(piece.X)
            if n_rows == chunk_rows or n_bytes >= CHUNK_BYTES:
                yield _joined(waiting, first)
                first += n_rows
                n_rows, n_bytes, waiting = 0, 0, []
    if waiting:
        yield _joined(waiting, first)


def _size(X: Any) -> int:
    if isinstance(X, list):
        return sum(map(len, X)) + _TEXT_BYTES * len(X)
    return int(X.data.nbytes + X.indices.nbytes + X.indptr.nbytes if sp.issparse(X) else X.nbytes)


def _joined(parts: list[Chunk], first_row: int) -> Chunk:
    lists = [[getattr(part, name) for part in parts] for name in ("ids", "tags", "unknown")]
    more = (None if of_parts[0] is None else stacked(of_parts) for of_parts in lists)
    return Chunk(stacked([part.X for part in parts]), first_row, *more)


def stacked(parts: Sequence[Any]) -> Any:
    """Rows below each other, of lists, dense or CSR arrays alike."""
    if isinstance(parts[0], list):
        return [row for part in parts for row in part]
    if not sp.issparse(parts[0]):
        return np.concatenate(parts)
    width = max(part.shape[1] for part in parts)  # that of a file without header grows with its rows
    for part in parts:
        part.resize(part.shape[0], width)
    return sp.csr_array(sp.vstack(parts, format="csr"))
