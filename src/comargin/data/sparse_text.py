r"""Sparse text formats: one row per line, ``label,label index:value index:value ...``.

* "libsvm": LIBSVM's multi-label sets. Features count from 1, labels from 0 (both can be told otherwise),
  there is no header. A line may end in a ``# comment``. Files called XMC but without a header line (as
  napkinXC takes them) are of this kind.
* "xmc": the Extreme Classification repository. A header line ``n_rows n_features n_labels``; everything
  counts from 0.

A row without labels starts with a blank or directly with ``index:value``; a row with nothing at all is a
line with one blank. Neither format holds names: columns are called ``x0, x1, ...`` and labels ``y0, y1,
...``.

The shape of a LIBSVM file is what its largest indices say. Where that loses empty last columns our writer
puts a comment line ``# comargin: n_features=.. n_labels=..`` first, which our reader obeys and svmlight
readers skip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import scipy.sparse as sp

from ..core.files import AtomicFiles
from ._dataset import LABEL_DTYPE, Dataset
from ._numbers import COLON, COMMA, NEWLINE, SPACE, byte_table, follows, format_number, is_legal, parse_number, scan
from ._source import TextSource, first_line
from .chunks import Chunk, Wanted

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


class _Rows:
    """Collects rows of one file; parses blocks fast where it can."""

    def __init__(
        self, source: TextSource, bases: tuple[int, int], bounds: tuple[int | None, int | None], xmc: bool
    ) -> None:
        self.source, self.xmc = source, xmc
        self.index_base, self.label_base = bases
        self.n_features, self.n_labels = bounds
        self.clear()
        self.n_rows = 0
        self.n_blank = 0  # blank lines since the last row
        self.first_blank = 0
        self.fast = True

    def clear(self) -> None:
        """Forget the rows collected so far, but not how many they were."""
        self.counts: list[np.ndarray] = []  # (2, rows): labels and features per row
        self.labels: list[np.ndarray] = []
        self.indices: list[np.ndarray] = []
        self.values: list[np.ndarray] = []

    def add(self, first: int, block: bytes) -> None:
        """Parse a block of whole lines."""
        if not block.strip(b"\n"):
            self._note_blank(first, block.count(b"\n"))
        elif not (self.fast and self._add_fast(block)):
            self._add_careful(first, block)

    def _note_blank(self, line: int, count: int) -> None:
        if self.n_blank == 0:
            self.first_blank = line
        self.n_blank += count

    def _append(self, counts: np.ndarray, labels: np.ndarray, indices: np.ndarray, values: np.ndarray) -> None:
        self.counts.append(counts)
        self.labels.append(labels)
        self.indices.append(indices)
        self.values.append(values)
        self.n_rows += counts.shape[1]

    def _add_fast(self, block: bytes) -> bool:
        found = scan(block, _BYTES)
        if found is None or self.n_blank or not is_legal(found, _ORDER):
            return False
        is_index = found.kind == COLON
        is_value = found.prev == COLON
        is_label = found.filled & ~is_index & ~is_value
        if not (found.plain[is_index].all() and found.plain[is_label].all()):
            return False
        at_end = found.kind == NEWLINE
        parts = []
        for chosen, base, bound in (
            (is_label, self.label_base, self.n_labels),
            (is_index, self.index_base, self.n_features),
        ):
            column = found.value[chosen] - base
            ends = np.cumsum(chosen)[at_end]
            increasing = np.diff(column, prepend=-1.0) > 0
            increasing[ends[ends < column.size]] = True
            if column.size and not (
                increasing.all() and column.min() >= 0 and column.max() < (2**53 if bound is None else bound)
            ):
                return False
            parts.append((np.diff(ends, prepend=0), column.astype(np.int64)))
        self._append(np.stack([parts[0][0], parts[1][0]]), parts[0][1], parts[1][1], found.value[is_value])
        return True

    def _add_careful(self, first: int, block: bytes) -> None:
        counts: list[tuple[int, int]] = []
        labels: list[int] = []
        indices: list[int] = []
        values: list[float] = []
        for line, data in enumerate(block.split(b"\n")[:-1], start=first):
            text = self.source.decode(data, line)
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
                counts += [(0, 0)] * self.n_blank
                self.n_blank = 0
            row_labels, row = self._parse(text, line)
            counts.append((len(row_labels), len(row)))
            labels += row_labels
            indices += [j for j, _ in row]
            values += [value for _, value in row]
        self._append(
            np.array(counts, dtype=np.int64).reshape(-1, 2).T,
            np.array(labels, dtype=np.int64),
            np.array(indices, dtype=np.int64),
            np.array(values, dtype=np.float64),
        )

    def _parse(self, text: str, line: int) -> tuple[list[int], list[tuple[int, float]]]:
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

    def features(self) -> sp.csr_array:
        """CSR array of the features collected."""
        return self._matrix(1, self.n_features, np.concatenate(self.values))

    def indicator(self) -> sp.csr_array:
        """CSR array of the labels collected."""
        ones = np.ones(sum(part.size for part in self.labels), dtype=LABEL_DTYPE)
        return self._matrix(0, self.n_labels, ones)

    def _matrix(self, which: int, n_columns: int | None, data: np.ndarray) -> sp.csr_array:
        columns = np.concatenate((self.labels, self.indices)[which])
        what, argument = (("labels", "n_labels"), ("features", "n_features"))[which]
        if n_columns is None:
            n_columns = int(columns.max()) + 1 if columns.size else 0
            if which == 0 and n_columns == 0:
                raise self.source.fail("no row has a label")
            self.check_plausible(n_columns, what, f"; say {argument}= if that is right")
        indptr = np.concatenate([[0], np.cumsum(np.concatenate(self.counts, axis=1)[which])])
        kind = np.int32 if max(n_columns, columns.size) < 2**31 else np.int64
        matrix = sp.csr_array((data, columns.astype(kind), indptr.astype(kind)), shape=(indptr.size - 1, n_columns))
        matrix.eliminate_zeros()
        return matrix

    def check_plausible(self, n_columns: int, what: str, advice: str = "") -> None:
        """Refuse more columns than a file of this size can mean."""
        if n_columns > max(_FREE_COLUMNS, _COLUMNS_PER_BYTE * self.source.bytes_read):
            reason = f"{n_columns} {what} in a file of {self.source.bytes_read} bytes: not plausible{advice}"
            raise self.source.fail(reason)

    def obey_shape(self, block: bytes) -> None:
        """Take what is not yet known of the shape from the comment that our writer puts first."""
        if not block.startswith(b"#"):
            return
        shape = _SHAPE.fullmatch(self.source.decode(block[: block.index(b"\n")], 1))
        if shape is None:
            return
        if self.n_features is None:
            self.n_features = int(shape.group(1))
            self.check_plausible(self.n_features, "features")
        if self.n_labels is None:
            self.n_labels = int(shape.group(2))
            self.check_plausible(self.n_labels, "labels")

    def finish(self, declared_rows: int | None) -> None:
        if declared_rows is not None:
            n_blank = min(self.n_blank, max(declared_rows - self.n_rows, 0))
            none = np.zeros(0, dtype=np.int64)
            self._append(np.zeros((2, n_blank), dtype=np.int64), none, none, none.astype(np.float64))
            if self.n_rows != declared_rows:
                raise self.source.fail(f"the header says {declared_rows} rows, the file has {self.n_rows}", 1)
        if self.n_rows == 0:
            raise self.source.fail("has no rows")


def read_sparse_text(
    path: Path,
    *,
    xmc: bool,
    n_features: int | None = None,
    n_labels: int | None = None,
    index_base: int = 1,
    label_base: int = 0,
    encoding: str = "utf-8",
    fast: bool = True,
) -> Dataset:
    """Read a LIBSVM multi-label file, or an XMC file (with a header line, and everything counted from 0)."""
    with TextSource(path, encoding) as source:
        declared: int | None = None
        if xmc:
            declared, n_features, n_labels = _read_shape(source)
            index_base = label_base = 0
        rows = _Rows(source, (index_base, label_base), (n_features, n_labels), xmc)
        rows.fast = fast
        for first, block in source.blocks():
            if first == 1:
                rows.obey_shape(block)
            rows.add(first, block)
        rows.finish(declared)
        if xmc:
            rows.check_plausible(n_features or 0, "features")
            rows.check_plausible(n_labels or 0, "labels")
        X, Y = rows.features(), rows.indicator()
    return Dataset(X, Y, generated_names("x", X.shape[1]), generated_names("y", Y.shape[1]), "")


def _read_shape(source: TextSource) -> tuple[int, int, int]:
    """Rows, features and labels as the header line of an XMC file says."""
    match = _HEADER.fullmatch(source.readline() or "")
    if match is None:
        reason = (
            "the first line is not 'n_rows n_features n_labels'; a file without it is "
            "format='libsvm' (index_base=0 when its features count from 0)"
        )
        raise source.fail(reason, 1)
    n_rows, n_features, n_labels = (int(number) for number in match.groups())
    return n_rows, n_features, n_labels


def stream_sparse_text(
    source: TextSource, wanted: Wanted, is_text: bool | None, *, xmc: bool, index_base: int = 1, label_base: int = 0
) -> Iterator[Chunk]:
    """Read the rows of a LIBSVM multi-label or XMC file, some at a time; unnamed labels are ``y0, y1, ...``."""
    n_features = len(wanted.feature_names) or wanted.n_features
    label_names = wanted.labels if isinstance(wanted.labels, tuple) else None
    n_labels = None if label_names is None else len(label_names)
    declared: int | None = None
    if xmc:
        declared, in_header, n_labels_in_header = _read_shape(source)
        n_features = in_header if n_features is None else n_features
        n_labels = n_labels_in_header if n_labels is None else n_labels
        index_base = label_base = 0
    rows = _Rows(source, (index_base, label_base), (n_features, n_labels), xmc)

    def collected() -> Chunk:
        tags = None
        if wanted.labels is not None:
            labels = iter(np.concatenate(rows.labels).tolist())
            counts = np.concatenate(rows.counts, axis=1)[0].tolist()
            tags = [[f"y{j}" if label_names is None else label_names[j] for j in islice(labels, n)] for n in counts]
        X = rows.features()
        rows.clear()
        return Chunk(X, 0, None, tags)

    for first, block in source.blocks():
        if first == 1:
            rows.obey_shape(block)
        if rows.n_features is None:
            raise source.fail("n_features= must say how many features there are: a libsvm file does not")
        rows.add(first, block)
        if rows.counts:
            yield collected()
    rows.finish(declared)
    if rows.counts:
        yield collected()


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
    for i in range(X.shape[0]):
        labels = ",".join(str(int(j)) for j in Y.indices[Y.indptr[i] : Y.indptr[i + 1]])
        at, to = X.indptr[i], X.indptr[i + 1]
        features = " ".join(
            f"{j + base}:{format_number(v)}"
            for j, v in zip(X.indices[at:to].tolist(), X.data[at:to].tolist(), strict=True)
            if v != 0
        )
        file.write(f"{labels} {features}\n")
