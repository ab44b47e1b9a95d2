r"""Decimal text to float64, a block of lines at a time, correctly rounded.

Every text format here is numbers between separators. `scan` maps a block's bytes to a handful of separator
codes, finds all separators at once and computes all numbers with array operations, several times faster
than parsing them one by one:

* a number ``-12.34`` is the digit runs ``12`` and ``34`` around the marks ``-`` and ``.``;
* a run of up to eight digits is one 64-bit word, whose value takes three multiplications (pairs, fours,
  eight);
* its value is m / 10^k with integers m and k, so the division of two exact doubles is correctly rounded
  whenever m <= 2^53 and k <= 22 (Clinger, 1990, doi:10.1145/93542.93557); for m up to 4 * 10^18 the remainder
  of the division gives the missing bits (`_divide`);
* other numbers (exponents, a leading plus, longer digits) are read by `parse_number`, one at a time.

The format checks whether the separators come in a legal order (`follows`, `is_legal`). `scan` returns None for
anything else than numbers, marks of missing ones and separators; then the careful line parser of the format reads the
block.
"""

import re
from typing import Any, NamedTuple

import numpy as np

# Separator codes; the digits stay 48..57, below them the marks inside a number.
BAD, NEWLINE, COMMA, SPACE, COLON, OPEN, CLOSE = range(7)
_ODD, _MINUS, _DOT = 44, 45, 46
MISSING = 47  # a mark, too: alone between separators it is a missing number
_FIRST_DIGIT = 48

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_MAX_RUN = 24
# Room to read three words before the first run, and separators to look back at before the first number.
_PAD = b"0" * _MAX_RUN + bytes([NEWLINE]) * 4
_LOOK_BACK = 3
# Tables over the number k of decimals: 10^k (as int64 only where it is needed), and the largest whole part w for
# which w * 10^k + f stays <= 4 * 10^18 with f < 10^k. Beyond k = 22, 10^k is no double: no w will do.
_POW10 = np.array([float(10**k) for k in range(_MAX_RUN + 1)])
_POW10_INT = np.array([10 ** min(k, 18) for k in range(_MAX_RUN + 1)], dtype=np.int64)
_MAX_WHOLE = np.array([max(4 * 10**18 // 10**k - 1, 0) if k <= 22 else -1 for k in range(_MAX_RUN + 1)], dtype=np.int64)
_TOO_LONG = 2**62  # stands for the value of a digit run that three words do not hold


class Scan(NamedTuple):
    """Separators and numbers of a block, one entry per separator.

    ``kind`` is the code of the separator, ``prev`` that of the one before it, ``filled`` whether a number
    stands between the two, ``plain`` whether it is written with digits alone, and ``value`` the number (0
    where there is none, NaN for a missing one).
    """

    kind: np.ndarray
    prev: np.ndarray
    filled: np.ndarray
    plain: np.ndarray
    value: np.ndarray


def byte_table(separators: dict[bytes, int]) -> bytes:
    """Translation table for `scan`: the characters of each key get its code, unknown bytes become BAD.

    A format in which a character means that a number is missing gives it the code MISSING.
    """
    table = bytearray([BAD]) * 256
    for digit in b"0123456789":
        table[digit] = digit
    for characters, code in {**separators, b"-": _MINUS, b".": _DOT, b"+eE": _ODD}.items():
        for character in characters:
            table[character] = code
    return bytes(table)


def follows(*legal: tuple[int, int, bool]) -> np.ndarray:
    """Table of the legal (previous separator, separator, is there a number between them), for `is_legal`."""
    table = np.zeros((8, 8, 2), dtype=bool)
    for prev, kind, filled in legal:
        table[prev, kind, int(filled)] = True
    return table.ravel()


def is_legal(scan: Scan, table: np.ndarray) -> bool:
    """Tell whether every separator may stand after the one before it."""
    return bool(table[(scan.prev * 8 + scan.kind) * 2 + scan.filled].all())


def is_rectangle(scan: Scan, width: int, may_be_empty: bool = False) -> bool:
    """Tell whether there are ``width`` numbers on every line, none of them empty unless that may be."""
    at_end = scan.kind == NEWLINE
    n_rows = np.count_nonzero(at_end)
    is_even = n_rows * width == at_end.size and bool(at_end[width - 1 :: width].all())
    return is_even and (may_be_empty or bool(scan.filled.all()))


def is_binary(values: np.ndarray) -> bool:
    return bool(((values == 0.0) | (values == 1.0)).all())


def parse_number(text: str) -> float | None:
    """Value of a decimal number, or None when the text is not one or is not finite."""
    if _NUMBER.fullmatch(text) is None:
        return None
    value = float(text)
    return value if abs(value) != float("inf") else None


def format_number(value: float, missing: str = "nan") -> str:
    """Return the shortest text that reads back as the same double; whole numbers without a point."""
    if value != value:
        return missing
    if value == 0.0:
        return "-0.0" if str(value).startswith("-") else "0"
    if abs(value) < 1e15 and value.is_integer():
        return str(int(value))
    return repr(value)


def _words(text: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Value of the runs of 1 to 8 digits that end before ``ends``."""
    windows = np.ndarray(shape=(text.size - 7,), dtype="<u8", buffer=text, strides=(1,))
    word = windows[ends - 8].astype(np.uint64, copy=False)
    word ^= np.uint64(0x3030303030303030)  # '0'..'9' -> 0..9; the first digit is the lowest byte
    before = ((8 - lengths) * 8).astype(np.uint64)
    word >>= before  # the bytes before the run become leading zeros
    word <<= before
    for factor, shift, keep in (
        (10 * 2**8 + 1, 8, 0x00FF00FF00FF00FF),
        (100 * 2**16 + 1, 16, 0x0000FFFF0000FFFF),
        (10000 * 2**32 + 1, 32, 0xFFFFFFFFFFFFFFFF),
    ):
        word *= np.uint64(factor)
        word >>= np.uint64(shift)
        word &= np.uint64(keep)
    return word.view(np.int64)


def _run_values(text: np.ndarray, ends: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Value of the digit run before each of ``ends``; 0 for an empty one."""
    value = text[ends - 1].astype(np.int64)
    value -= _FIRST_DIGIT
    value[np.flatnonzero(lengths == 0)] = 0
    many = np.flatnonzero(lengths > 1)
    length = lengths[many]
    value[many] = _words(text, ends[many], np.minimum(length, 8))
    many = many[length > 8]
    if many.size:
        value[many] += 10**8 * _words(text, ends[many] - 8, np.minimum(lengths[many] - 8, 8))
        many = many[lengths[many] > 16]
        top = _words(text, ends[many] - 16, np.minimum(lengths[many] - 16, 8))
        fits = (top < 400) & (lengths[many] <= _MAX_RUN)
        value[many] = np.where(fits, value[many] + 10**16 * np.minimum(top, 400), _TOO_LONG)
    return value


def _halves(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Split doubles into two of 26 bits each (Veltkamp)."""
    scaled = a * (2.0**27 + 1.0)
    high = scaled - (scaled - a)
    return high, a - high


def _divide(mantissa: np.ndarray, power: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Quotient of int64 beyond 2^53 and exact doubles, and whether it is correctly rounded for certain.

    With m = high + low and q = high / p rounded, the remainder r = high - q p is a double and computed exactly
    (Dekker's product), so that q + (r + low) / p has a relative error of about 2^-104 before its last rounding.
    That rounding is the right one unless the sum lies that close to the middle of two doubles.
    """
    high = mantissa.astype(np.float64)
    low = (mantissa - high.astype(np.int64)).astype(np.float64)
    quotient = high / power
    (a, b), (c, d) = _halves(quotient), _halves(power)
    product = quotient * power
    remainder = (high - product) - (((a * c - product) + a * d + b * c) + b * d)
    correction = (remainder + low) / power
    value = quotient + correction
    lost = np.abs(correction - (value - quotient))
    ulp = np.spacing(value)
    # A quarter: below a power of two doubles are twice as dense.
    near_middle = (np.abs(lost - 0.5 * ulp) < 1e-9 * ulp) | (np.abs(lost - 0.25 * ulp) < 1e-9 * ulp)
    return value, ~near_middle


def _signed_values(
    codes: np.ndarray, lengths: np.ndarray, runs: np.ndarray, first: np.ndarray, last: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Value of the numbers between two marks that hold a minus or a dot, and whether it is exact."""
    before = last - 1
    has_dot = codes[before] == _DOT
    # A minus stands first, so there are no digits before it.
    minus = codes[first + 1] == _MINUS
    if minus.any():
        minus &= lengths[first + 1] == 0
    simple = before - first == has_dot.astype(np.int64) + minus
    places, whole, fraction = lengths[last], runs[before], runs[last]
    simple &= (places > 0) | (has_dot & (lengths[before] > 0))  # there are digits at all
    if not has_dot.all():
        whole = np.where(has_dot, whole, fraction)
        fraction = np.where(has_dot, fraction, 0)
        places = np.where(has_dot, places, 0)
    places = np.minimum(places, _MAX_RUN)
    largest = _MAX_WHOLE[places]
    simple &= (whole <= largest) & (fraction < _TOO_LONG)
    mantissa = np.minimum(whole, largest, out=largest)
    mantissa *= _POW10_INT[places]
    mantissa += fraction
    value = mantissa / _POW10[places]
    wide = np.flatnonzero(simple & (mantissa > 2**53))
    if wide.size:
        value[wide], simple[wide] = _divide(mantissa[wide], _POW10[places[wide]])
    np.negative(value, out=value, where=minus)
    return value, simple


def scan(block: bytes, table: bytes) -> Scan | None:
    """Find all separators and numbers of a block of whole lines; None when it holds anything else."""
    coded = block.translate(table)
    if BAD in coded:
        return None
    text = np.frombuffer(_PAD + coded, dtype=np.uint8)
    marks = np.flatnonzero(text < _FIRST_DIGIT)
    codes = text[marks]
    lengths = np.zeros_like(marks)  # of the digit run before each mark
    np.subtract(marks[1:], marks[:-1] + 1, out=lengths[1:])
    runs = _run_values(text, marks, lengths)

    separators = codes < _ODD
    if separators.all():  # nothing but digits between separators, as in sparse 0/1 data
        first: Any = slice(_LOOK_BACK, -1)
        last: Any = slice(_LOOK_BACK + 1, None)
        plain = np.ones(codes.size - _LOOK_BACK - 1, dtype=bool)
        filled = lengths[last] > 0
    else:
        last = np.flatnonzero(separators)[_LOOK_BACK:]
        first, last = last[:-1], last[1:]
        plain = last - first == 1
        filled = (lengths[last] > 0) | ~plain
    whole = runs[last]
    value = whole.astype(np.float64)
    simple = plain & (whole < _TOO_LONG)
    if not plain.all():
        signed = np.flatnonzero(~plain)  # those with marks inside: a minus, a dot, or something odd
        value[signed], simple[signed] = _signed_values(codes, lengths, runs, first[signed], last[signed])
        if MISSING in table:
            before, after = first[signed], last[signed]
            alone = (codes[before + 1] == MISSING) & (marks[after] - marks[before] == 2)
            value[signed[alone]], simple[signed[alone]] = np.nan, True
    if not simple.all():
        rest = np.flatnonzero(~simple)
        starts, ends = marks[first][rest] + 1 - len(_PAD), marks[last][rest] - len(_PAD)
        for i, start, end in zip(rest.tolist(), starts.tolist(), ends.tolist(), strict=True):
            number = parse_number(block[start:end].decode("ascii"))
            if number is None:
                return None
            value[i] = number
    return Scan(codes[last], codes[first], filled, plain, value)
