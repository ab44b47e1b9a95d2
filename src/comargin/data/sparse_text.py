r"""Sparse text formats: one row per line, ``label,label index:value index:value ...``.

* "libsvm": LIBSVM's multi-label sets. Features count from 1 and labels from 0 unless the caller says otherwise;
  there is no header. A line may end in a ``# comment``. Files called XMC but without a header line (as
  napkinXC takes them) are of this kind.
* "xmc": the Extreme Classification repository. A header line ``n_rows n_features n_labels``; everything
  counts from 0.

A row without labels starts with a blank or directly with ``index:value``; a row with nothing at all is a
line with one blank. Neither format holds names: columns are called ``x0, x1, ...`` and labels ``y0, y1,
...``.

The largest indices of a LIBSVM file give its shape. Where that loses empty last columns our writer puts a comment
line ``# comargin: n_features=.. n_labels=..`` first, which our reader obeys and svmlight readers skip.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.files import AtomicFiles
from ._dataset import LABEL_DTYPE, Dataset, entries_of
from ._numbers import COLON, COMMA, NEWLINE, SPACE, byte_table, follows, format_number, is_legal, parse_number, scan
from ._source import TextSource, first_line
from .chunks import Part, Rows, Wanted

_BYTES = byte_table({b"\n": NEWLINE, b",": COMMA, b" \t": SPACE, b":": COLON})
_ORDER = follows(
    *((prev, kind, True) for prev in (NEWLINE, COMMA) for kind in (COMMA, SPACE, NEWLINE)),  # a label
    (NEWLINE, SPACE, False),  # no labels
    (SPACE, COLON, True),
    (NEWLINE, COLON, True),
    (COLON, SPACE, True),
    (COLON, NEWLINE, True),
    (SPACE, NEWLINE, False),  # trailing blank
)
_HEADER = re.compile(r"\s*([0-9]{1,18})\s+([0-9]{1,18})\s+([0-9]{1,18})\s*")
_SHAPE = re.compile(r"#\s*comargin: n_features=([0-9]{1,18}) n_labels=([0-9]{1,18})\s*")
_LABELS = re.compile(r"[0-9]++(?:,[0-9]++)*+")
_ENTRY = re.compile(r"[0-9]++:.++")
_INDEX = re.compile(r"[0-9]{1,18}")
# An index may promise columns that no row fills, but not billions of them for a file of a few bytes.
# Each costs its generated name, about 65 bytes: 3 per byte of text is the limit of other formats, 200-fold.
_FREE_COLUMNS = 1 << 21
_COLUMNS_PER_BYTE = 3


def is_xmc_header(line: str) -> bool:
    """Tell whether a line is ``n_rows n_features n_labels``."""
    return _HEADER.fullmatch(line) is not None


def is_libsvm_line(line: str) -> bool:
    """Tell whether a line is ``label,label index:value ...``, token by token: linear in its length."""
    tokens = line.partition("#")[0].split()
    if not tokens:
        return False
    entries = tokens[1:] if _LABELS.fullmatch(tokens[0]) else tokens
    return all(_ENTRY.fullmatch(token) for token in entries)


def sparse_kind(path: Path, delimiter: str | None) -> str:
    """Tell XMC files by their header line from LIBSVM files."""
    return "xmc" if is_xmc_header(first_line(path)) else "libsvm"


_Row = tuple[list[int], list[tuple[int, float]]]  # columns of the labels; columns and values of the features


class _Block(NamedTuple):
    """Some rows: labels and features per row, of shape (2, n_rows), and their columns and values row by row."""

    counts: np.ndarray
    labels: np.ndarray
    indices: np.ndarray
    values: np.ndarray


class _LabelNumbers(Sequence[str]):
    """Names ``y0, y1, ...`` of labels that a file does not name or count."""

    def __getitem__(self, j: Any) -> str:
        return f"y{j}"

    def __len__(self) -> int:
        return sys.maxsize


class SparseRows(Rows):
    """The rows of one file; ``n_features`` and ``n_labels`` are bounds of the columns, or None.

    A header line or our writer's comment gives the bounds that the caller leaves open.
    """

    def __init__(
        self, source: TextSource, wanted: Wanted, *, xmc: bool, index_base: int = 0, label_base: int = 0
    ) -> None:
        self.source, self.wanted, self.xmc = source, wanted, xmc
        self.index_base, self.label_base = index_base, label_base
        self.n_features = len(wanted.feature_names) or wanted.n_features
        self.n_labels = wanted.n_labels
        self.label_names: Sequence[str] = _LabelNumbers()
        if isinstance(wanted.labels, tuple):
            self.label_names, self.n_labels = wanted.labels, len(wanted.labels)
        self.declared_rows: int | None = None
        self.n_rows = 0
        self.n_blank = 0  # blank lines since the last row
        self.first_blank = 0
        if xmc:
            match = _HEADER.fullmatch(source.readline() or "")
            if match is None:
                reason = (
                    "the first line is not 'n_rows n_features n_labels'; a file without it is "
                    "format='libsvm' (index_base=0 when its features count from 0)"
                )
                raise source.fail(reason, 1)
            self.declared_rows = int(match.group(1))
            self._take_bounds(int(match.group(2)), int(match.group(3)))

    def parts(self) -> Iterator[Part]:
        """Yield the rows of a block at a time, of as many columns as are known by then."""
        n_features, n_labels = self.n_features or 0, self.n_labels or 0
        for block in self._blocks():
            n_features = self.n_features or max(n_features, int(block.indices.max(initial=-1)) + 1)
            n_labels = self.n_labels or max(n_labels, int(block.labels.max(initial=-1)) + 1)
            X = _matrix(n_features, block.counts[1], block.indices, block.values)
            yield Part(X, _matrix(n_labels, block.counts[0], block.labels, np.ones(block.labels.size, LABEL_DTYPE)))
        if not (self.wanted.to_learn and self.n_rows):
            return
        if n_labels == 0 and self.n_labels is None:
            raise self.source.fail("no row has a label")
        for what, width, given in (
            ("features", n_features, self.wanted.n_features),
            ("labels", n_labels, self.wanted.n_labels),
        ):
            if given is None:
                self._check_plausible(width, what, "" if self.xmc else f"; say n_{what}= if that is right")
        self.feature_names, self.label_names = generated_names("x", n_features), generated_names("y", n_labels)

    def _take_bounds(self, n_features: int, n_labels: int) -> None:
        self.n_features = n_features if self.n_features is None else self.n_features
        self.n_labels = n_labels if self.n_labels is None else self.n_labels

    def _blocks(self) -> Iterator[_Block]:
        for first, text in self.source.blocks():
            if first == 1:
                self._obey_shape(text)
            if not self.wanted.to_learn and self.n_features is None:
                raise self.source.fail("n_features= must say how many features there are: a libsvm file does not")
            if not text.strip(b"\n"):
                self._note_blank(first, text.count(b"\n"))
                continue
            block = self._parse_fast(text) or self._parse_carefully(first, text)
            self.n_rows += block.counts.shape[1]
            yield block
        if self.declared_rows is not None:
            n_blank = min(self.n_blank, max(self.declared_rows - self.n_rows, 0))
            if n_blank:
                yield _block([([], [])] * n_blank)
            self.n_rows += n_blank
            if self.n_rows != self.declared_rows:
                reason = f"the header says {self.declared_rows} rows, the file has {self.n_rows}"
                raise self.source.fail(reason, 1)

    def _obey_shape(self, text: bytes) -> None:
        """Take the bounds from the comment that our writer puts first."""
        if not text.startswith(b"#"):
            return
        shape = _SHAPE.fullmatch(self.source.decode(text[: text.index(b"\n")], 1))
        if shape is not None:
            n_features, n_labels = int(shape.group(1)), int(shape.group(2))
            self._check_plausible(n_features if self.n_features is None else 0, "features")
            self._check_plausible(n_labels if self.n_labels is None else 0, "labels")
            self._take_bounds(n_features, n_labels)

    def _note_blank(self, line: int, count: int) -> None:
        if self.n_blank == 0:
            self.first_blank = line
        self.n_blank += count

    def _parse_fast(self, text: bytes) -> _Block | None:
        """Parse rows of plain numbers; None when they need the careful parser."""
        found = scan(text, _BYTES)
        if found is None or self.n_blank or not is_legal(found, _ORDER):
            return None
        is_index = found.kind == COLON
        is_value = found.prev == COLON
        is_label = found.filled & ~is_index & ~is_value
        if not (found.plain[is_index].all() and found.plain[is_label].all()):
            return None
        at_end = found.kind == NEWLINE
        counts: list[np.ndarray] = []
        columns: list[np.ndarray] = []
        for chosen, base, bound in (
            (is_label, self.label_base, self.n_labels),
            (is_index, self.index_base, self.n_features),
        ):
            column = found.value[chosen] - base
            ends = np.cumsum(chosen)[at_end]
            increasing = np.diff(column, prepend=-1.0) > 0
            increasing[ends[ends < column.size]] = True
            bound = 2**53 if bound is None else bound
            if column.size and not (increasing.all() and column.min() >= 0 and column.max() < bound):
                return None
            counts.append(np.diff(ends, prepend=0))
            columns.append(column.astype(np.int64))
        return _Block(np.stack(counts), columns[0], columns[1], found.value[is_value])

    def _parse_carefully(self, first: int, block: bytes) -> _Block:
        rows: list[_Row] = []
        for line, text in self.source.block_lines(first, block):
            if not self.xmc and "#" in text:
                text = text[: text.index("#")]
                if not text.strip():
                    continue
            if not text:
                self._note_blank(line, 1)
                continue
            if self.n_blank:
                if not self.xmc:
                    reason = "a blank line between rows (a row without labels and features is one blank)"
                    raise self.source.fail(reason, self.first_blank)
                rows += [([], [])] * self.n_blank
                self.n_blank = 0
            rows.append(self._parse(text, line))
        return _block(rows)

    def _parse(self, text: str, line: int) -> _Row:
        tokens = text.split()
        labels: set[int] = set()
        if tokens and ":" not in tokens[0] and not text[0].isspace():
            for label in tokens.pop(0).split(","):
                labels.add(self._column(label, "label", self.label_base, self.n_labels, line))
        row: dict[int, float] = {}
        for token in tokens:
            index, colon, written = token.partition(":")
            if not colon:
                raise self.source.fail(f"expected index:value, found {token[:40]!r}", line)
            j = self._column(index, "feature", self.index_base, self.n_features, line)
            value = parse_number(written)
            if value is None:
                raise self.source.fail(f"{written[:40]!r} is not a finite number", line)
            if j in row:
                raise self.source.fail(f"feature {index} stands twice in one row", line)
            row[j] = value
        return sorted(labels), sorted(row.items())

    def _column(self, text: str, what: str, base: int, bound: int | None, line: int) -> int:
        if _INDEX.fullmatch(text) is None:
            raise self.source.fail(f"{text[:40]!r} is not a {what} index", line)
        column = int(text) - base
        if column < 0:
            argument = "index_base" if what == "feature" else "label_base"
            raise self.source.fail(f"{what} {text}, but they count from {base}; {argument}= can change that", line)
        if bound is not None and column >= bound:
            raise self.source.fail(f"{what} {text} is out of range, there are {bound}", line)
        return column

    def _check_plausible(self, n_columns: int, what: str, advice: str = "") -> None:
        """Refuse more columns than a file of this size can mean."""
        if n_columns > max(_FREE_COLUMNS, _COLUMNS_PER_BYTE * self.source.bytes_read):
            reason = f"{n_columns} {what} in a file of {self.source.bytes_read} bytes: not plausible{advice}"
            raise self.source.fail(reason)


def _block(rows: list[_Row]) -> _Block:
    entries = [entry for _, row in rows for entry in row]
    return _Block(
        np.array([(len(labels), len(row)) for labels, row in rows], dtype=np.int64).reshape(-1, 2).T,
        np.array([label for labels, _ in rows for label in labels], dtype=np.int64),
        np.array([j for j, _ in entries], dtype=np.int64),
        np.array([value for _, value in entries], dtype=np.float64),
    )


def _matrix(n_columns: int, counts: np.ndarray, columns: np.ndarray, data: np.ndarray) -> sp.csr_array:
    kind = np.int32 if max(n_columns, columns.size) < 2**31 else np.int64
    indptr = np.concatenate([[0], np.cumsum(counts)]).astype(kind)
    matrix = sp.csr_array((data, columns.astype(kind), indptr), shape=(counts.size, n_columns))
    matrix.eliminate_zeros()
    return matrix


def generated_names(prefix: str, n: int) -> tuple[str, ...]:
    """Names for columns that have none."""
    return tuple(f"{prefix}{j}" for j in range(n))


def write_sparse_text(dataset: Dataset, path: Path, files: AtomicFiles, *, xmc: bool) -> None:
    """Write a LIBSVM multi-label (features from 1, labels from 0) or XMC (both from 0) file."""
    file = files.open(path)
    X, Y = sp.csr_array(dataset.X), sp.csr_array(dataset.Y)
    if np.isnan(X.data).any():
        raise ValueError(f"dataset: X holds NaN, which {'xmc' if xmc else 'libsvm'} files cannot; fill them first")
    base = 0 if xmc else 1
    if xmc:
        file.write(f"{X.shape[0]} {X.shape[1]} {Y.shape[1]}\n")
    else:
        used_x = int(X.indices[X.data != 0].max()) + 1 if (X.data != 0).any() else 0
        used_y = int(Y.indices.max()) + 1 if Y.nnz else 0
        if (used_x, used_y) != (X.shape[1], Y.shape[1]):
            file.write(f"# comargin: n_features={X.shape[1]} n_labels={Y.shape[1]}\n")
    for x, y in zip(entries_of(X), entries_of(Y), strict=True):
        labels = ",".join(str(j) for j, _ in y)
        file.write(labels + " " + " ".join(f"{j + base}:{format_number(value)}" for j, value in x) + "\n")
