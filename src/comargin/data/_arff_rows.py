r"""The rows of an ARFF file, dense (``1,2,?``) or sparse (``{0 1, 7 2.5}``).

Each kind has two parsers. The careful one goes line by line, knows quotes, comments, nominal values and missing
values, and names the line of every fault: it is the specification. The fast one (`comargin.data._numbers.scan`)
handles blocks of plain numbers, some of them missing; the careful one reads all other blocks.
"""

import math
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from ._arff_header import token
from ._arff_plan import DROPPED, Column, Plan
from ._numbers import (
    CLOSE,
    COMMA,
    MISSING,
    NEWLINE,
    OPEN,
    SPACE,
    byte_table,
    follows,
    is_binary,
    is_legal,
    is_rectangle,
    scan,
)
from ._source import TextSource

_DENSE_BYTES = byte_table({b"\n": NEWLINE, b",": COMMA, b"?": MISSING})
_SPARSE_BYTES = byte_table({b"\n": NEWLINE, b",": COMMA, b" \t": SPACE, b"{": OPEN, b"}": CLOSE, b"?": MISSING})
_SPARSE_ORDER = follows(
    (NEWLINE, OPEN, False),
    (OPEN, SPACE, True),
    (COMMA, SPACE, True),
    (SPACE, COMMA, True),
    (SPACE, CLOSE, True),
    (OPEN, CLOSE, False),
    (CLOSE, NEWLINE, False),
)
_QUOTING = re.compile(r"""['"\\]""")
_SPACED = ((b", ", b","), (b" ,", b","), (b"{ ", b"{"), (b"{,", b"{"), (b" }", b"}"), (b" \n", b"\n"), (b"\n ", b"\n"))
# One value up to the next comma: quoted, or bare with backslash pairs. Possessive, so linear in the line.
_FIELD = re.compile(
    r"""\s*+(?:'((?:[^'\\]|\\.)*+)'\s*+|"((?:[^"\\]|\\.)*+)"\s*+|((?:[^,'"\\]|\\.)(?:[^,\\]|\\.)*+))(,|$)"""
)
_ENTRY = re.compile(r"\s*+([0-9]{1,18}+)\s++")
_COMMENT = re.compile(r"\s%")


class SparseBlock(NamedTuple):
    """Rows of a sparse block: entries per row, attribute (increasing in a row) and value of every entry."""

    counts: np.ndarray
    attributes: np.ndarray
    values: np.ndarray


def _tidy(block: bytes) -> bytes:
    """Remove single blanks around separators and blank lines, where they mean nothing."""
    block = block.replace(b"\t", b" ")
    for spaced, tight in _SPACED:
        block = block.replace(spaced, tight)
    while b"\n\n" in block:
        block = block.replace(b"\n\n", b"\n")
    return block.lstrip(b"\n")


def fast_dense(block: bytes, plan: Plan) -> np.ndarray | None:
    """Parse a block of plain numbers; None when it needs the careful parser."""
    found = (scan(block, _DENSE_BYTES) or scan(_tidy(block), _DENSE_BYTES)) if plan.numeric else None
    width = plan.n_attributes
    if found is None or not is_rectangle(found, width):
        return None
    values = found.value.reshape(-1, width)
    if b"?" in block and np.isnan(values[:, as_slice(plan.never_missing)]).any():
        return None
    for attributes, numbers in plan.allowed:
        if not _all_in(values[:, as_slice(attributes)], numbers):
            return None
    return values


def fast_sparse(block: bytes, plan: Plan) -> SparseBlock | None:
    """Parse a block of sparse rows of plain numbers; None when it needs the careful parser."""
    found = scan(block, _SPARSE_BYTES) if plan.numeric else None
    if found is not None and not is_legal(found, _SPARSE_ORDER):
        found = scan(_tidy(block), _SPARSE_BYTES)
        found = found if found is not None and is_legal(found, _SPARSE_ORDER) else None
    if found is None:
        return None
    at = np.flatnonzero(found.kind == SPACE)  # an index; its value is the next number
    if not found.plain[at].all():
        return None
    index, values = found.value[at], found.value[at + 1]
    if index.size and index.max() >= plan.n_attributes:
        return None
    # A row with k entries has 2k + 2 separators, an empty one 3.
    counts = (np.diff(np.flatnonzero(found.kind == NEWLINE), prepend=-1) - 2) // 2
    attributes = index.astype(np.int32)
    increasing = attributes[1:] > attributes[:-1]
    starts = np.cumsum(counts)[:-1]
    increasing[starts[(starts > 0) & (starts < attributes.size)] - 1] = True  # a new row
    if not increasing.all():
        return None
    if b"?" in block and np.isin(attributes[np.isnan(values)], plan.never_missing).any():
        return None
    for members, numbers in plan.allowed:
        chosen = np.zeros(plan.n_attributes, dtype=bool)
        chosen[members] = True
        if not _all_in(values if chosen.all() else values[chosen[attributes]], numbers):
            return None
    return SparseBlock(counts, attributes, values)


def as_slice(positions: np.ndarray) -> slice | np.ndarray:
    """Return a slice when the positions are consecutive, so that indexing makes no copy."""
    if positions.size and positions[-1] - positions[0] + 1 == positions.size and (np.diff(positions) == 1).all():
        return slice(int(positions[0]), int(positions[-1]) + 1)
    return positions


def _all_in(values: np.ndarray, numbers: np.ndarray) -> bool:
    """Tell whether all values that are not missing are among the numbers."""
    if numbers.tolist() == [0.0, 1.0] and is_binary(values):
        return True
    return bool((np.isin(values, numbers) | np.isnan(values)).all())


def _split_line(text: str) -> list[tuple[str, bool]] | None:
    """Values of a line with quotes as (value, is it quoted); None when the quoting is broken."""
    fields: list[tuple[str, bool]] = []
    at = 0
    while match := _FIELD.match(text, at):
        fields.append(token(match))
        at = match.end()
        if not match.group(4):
            return fields
    return None


def _without_comment(text: str) -> str:
    """Strip a line and its comment: ``%`` at the start, or after white space outside quotes."""
    text = text.strip()
    if text.startswith("%"):
        return ""
    found = _COMMENT.search(text) if "%" in text and not _QUOTING.search(text) else None
    return text[: found.start()].rstrip() if found else text


class CarefulParser:
    """Line-by-line parser of both kinds of rows."""

    def __init__(self, source: TextSource, plan: Plan) -> None:
        self._source, self._plan = source, plan
        # For rows without quotes: one lookup or float() per value; the exact parser finds the faults afterwards.
        self._quick: list[Callable[[str], float]] = [
            (lambda _: 0.0) if c.role == DROPPED else float if c.codes is None else c.codes.__getitem__
            for c in plan.columns
        ]
        self._numeric_labels = [j for j in plan.label_order.tolist() if plan.columns[j].codes is None]
        self._may_miss = set(range(plan.n_attributes)).difference(plan.never_missing.tolist())
        self._stand_ins = [next(iter(c.codes), "0") if c.codes else "0" for c in plan.columns]  # for missing values

    def lines(self, first: int, block: bytes) -> Iterator[tuple[int, str]]:
        """Yield the lines of a block that hold a row, without comments."""
        for line, written in self._source.block_lines(first, block):
            text = _without_comment(written)
            if text:
                yield line, text

    def dense(self, first: int, block: bytes) -> np.ndarray:
        """Rows of a dense block, one column per attribute; NaN where a value is missing and may be."""
        rows = [self._dense_row(line, text) for line, text in self.lines(first, block)]
        return np.array(rows, dtype=np.float64).reshape(len(rows), self._plan.n_attributes)

    def _dense_row(self, line: int, text: str) -> list[float]:
        width = self._plan.n_attributes
        if text.startswith("{"):
            raise self._source.fail("a sparse row in a file of dense rows", line)
        if _QUOTING.search(text):
            fields = _split_line(text)
            if fields is None:
                raise self._source.fail("broken quotes or an empty value", line)
        else:
            parts = text.split(",") if "," in text or width == 1 else text.split()
            parts = [part.strip() for part in parts]
            row = self._quick_row(text, parts)
            if row is not None:
                return row
            fields = [(part, False) for part in parts]
        if len(fields) != width:
            raise self._source.fail(f"has {len(fields)} values, expected {width} (one per attribute)", line)
        return [self._number(column, *item, line) for column, item in zip(self._plan.columns, fields, strict=True)]

    def _quick_row(self, text: str, parts: list[str]) -> list[float] | None:
        # float() also takes nan, inf, 1_000 and digits of other scripts, which ARFF does not.
        if len(parts) != len(self._quick) or "_" in text or not text.isascii():
            return None
        gaps = [j for j, part in enumerate(parts) if part == "?"] if "?" in text else ()
        if not self._may_miss.issuperset(gaps):
            return None
        filled = list(parts)
        for j in gaps:
            filled[j] = self._stand_ins[j]
        try:
            row = [convert(part) for convert, part in zip(self._quick, filled, strict=True)]
        except (KeyError, ValueError):
            return None
        is_sound = all(map(math.isfinite, row)) and all(row[j] in (0.0, 1.0) for j in self._numeric_labels)
        for j in gaps:
            row[j] = math.nan
        return row if is_sound else None

    def sparse(self, first: int, block: bytes) -> SparseBlock:
        """Rows of a sparse block, entries sorted."""
        rows = [self._sparse_row(line, text) for line, text in self.lines(first, block)]
        entries = [entry for row in rows for entry in row]
        return SparseBlock(
            np.array([len(row) for row in rows], dtype=np.intp),
            np.array([j for j, _ in entries], dtype=np.int32),
            np.array([value for _, value in entries], dtype=np.float64),
        )

    def _sparse_row(self, line: int, text: str) -> list[tuple[int, float]]:
        if not text.startswith("{"):
            raise self._source.fail("a dense row in a file of sparse rows", line)
        if not text.endswith("}"):
            raise self._source.fail("a sparse row that is not closed by }", line)
        body = text[1:-1].strip().removeprefix(",")  # Slashdot writes a row without words as {,3125 1}
        n_attributes = self._plan.n_attributes
        entries: dict[int, float] = {}
        at = 0
        while at < len(body):
            index = _ENTRY.match(body, at)
            value = _FIELD.match(body, index.end()) if index else None
            if index is None or value is None:
                raise self._source.fail(f"expected 'index value' in a sparse row, found {body[at : at + 40]!r}", line)
            j = int(index.group(1))
            if j >= n_attributes:
                raise self._source.fail(f"index {j} is out of range, there are {n_attributes} attributes", line)
            if j in entries:
                raise self._source.fail(f"index {j} stands twice in one row", line)
            entries[j] = self._number(self._plan.columns[j], *token(value), line)
            at = value.end()
            if value.group(4) == "," and at == len(body):
                raise self._source.fail("a sparse row ends in a comma", line)
        return sorted(entries.items())

    def _number(self, column: Column, text: str, quoted: bool, line: int) -> float:
        number = column.number(text, quoted)
        if isinstance(number, str):
            raise self._source.fail(number, line)
        return number
