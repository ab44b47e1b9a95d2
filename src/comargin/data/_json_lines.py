"""JSON Lines: one value per line, a text or the features of one row.

A row of texts is an object with a text field, or a bare string. A row of features is a list of numbers, an object
with a number for every name, or an object whose field ``features`` holds either of them. Blank lines do not count.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np

from ._chunks import Chunk, Wanted
from ._dataset import nearest
from ._missing import fill_missing
from ._source import TextSource
from ._text_table import LABELS_COLUMN, TEXT_COLUMN, split_tags

FEATURES_FIELD = "features"


def stream_json_lines(
    source: TextSource, wanted: Wanted, *, text: str | None, is_text: bool | None, sep: str
) -> Iterator[Chunk]:
    """Read the rows of a JSON Lines file, one at a time.

    Parameters
    ----------
    source : TextSource
        The file, at its beginning.
    wanted : Wanted
        Which fields are to be read.
    text : str or None
        Text field; None: ``text``.
    is_text : bool or None
        Whether texts are to be read; None: if the first row is a string or has a field ``text``.
    sep : str
        Between labels that are written as one string.

    Yields
    ------
    Chunk
        One text, or one dense row.
    """
    rows = _JsonRows(source, wanted, sep)
    for content in source.lines():
        if content.isspace():
            continue
        value = rows.parse(content)
        if is_text is None:
            is_text = isinstance(value, str) or (isinstance(value, dict) and TEXT_COLUMN in value)
        X = [rows.text(value, text or TEXT_COLUMN)] if is_text else rows.features(value)
        yield Chunk(X, 0, rows.ids(value), rows.tags(value))


class _JsonRows:
    """Takes the values of the lines of one file apart; faults name the line."""

    def __init__(self, source: TextSource, wanted: Wanted, sep: str) -> None:
        self.source, self.wanted, self.sep = source, wanted, sep
        self.n_features = len(wanted.feature_names) or wanted.n_features

    def _fail(self, reason: str) -> NoReturn:
        raise self.source.fail(reason, self.source.line)

    def parse(self, content: str) -> Any:
        """Value of a line."""
        try:
            return json.loads(content, object_pairs_hook=_object, parse_constant=_refuse)
        except json.JSONDecodeError as error:
            self._fail(f"is not JSON ({error.msg}, character {error.pos + 1})")
        except (ValueError, RecursionError) as error:
            self._fail(f"is not JSON that can be read ({error})")

    def _field(self, value: Any, name: str) -> Any:
        if not isinstance(value, dict):
            self._fail(f"is not an object with the field {name!r}")
        if name not in value:
            self._fail(f"has no field {name!r}{nearest(name, value)}")
        return value[name]

    def _string(self, value: Any, what: str) -> str:
        if not isinstance(value, str):
            self._fail(f"{what} is {_kind(value)}, not a string")
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            self._fail(f"{what} holds half a surrogate pair")
        return value

    def text(self, value: Any, name: str) -> str:
        """Text of a row."""
        if isinstance(value, str):
            return self._string(value, "the text")
        return self._string(self._field(value, name), f"field {name!r}")

    def ids(self, value: Any) -> list[str] | None:
        """What the row is called, if that is asked for."""
        name = self.wanted.id
        if name is None:
            return None
        found = self._field(value, name)
        if isinstance(found, int) and not isinstance(found, bool):
            return [str(found)]
        return ["" if found is None else self._string(found, f"field {name!r}")]

    def tags(self, value: Any) -> list[list[str]] | None:
        """Labels of the row, if they are asked for: a list, or a string that is taken apart."""
        if self.wanted.labels is None:
            return None
        name = LABELS_COLUMN if self.wanted.labels is True else self.wanted.labels
        found = self._field(value, name)
        if isinstance(found, str):
            return [list(dict.fromkeys(split_tags(self._string(found, f"field {name!r}"), self.sep)))]
        if not isinstance(found, list):
            self._fail(f"field {name!r} is {_kind(found)}, not a list of labels")
        return [list(dict.fromkeys(self._string(tag, f"a label in {name!r}") for tag in found))]

    def features(self, value: Any) -> np.ndarray:
        """Features of a row, an array of shape (1, n_features)."""
        names = self.wanted.feature_names
        if isinstance(value, dict) and FEATURES_FIELD in value and FEATURES_FIELD not in names:
            value = value[FEATURES_FIELD]
        if isinstance(value, dict):
            if not names:
                self._fail("has named features, and feature_names= does not say which are wanted")
            row = [self._number(value[name], name) if name in value else self._absent(name, value) for name in names]
        elif isinstance(value, list):
            if self.n_features is None:
                self.n_features = len(value)
            if len(value) != self.n_features:
                self._fail(f"has {len(value)} features, expected {self.n_features}")
            row = [self._number(number, f"number {j}") for j, number in enumerate(value, 1)]
        else:
            self._fail(f"is {_kind(value)}, neither a list nor an object of features")
        return np.asarray(fill_missing(np.array([row], dtype=np.float64).reshape(1, -1), self.wanted.missing))

    def _absent(self, name: str, value: dict[str, Any]) -> float:
        if self.wanted.missing == "error":
            self._fail(f"has no feature {name!r}{nearest(name, value)}; missing= says what to do")
        return math.nan

    def _number(self, value: Any, name: str) -> float:
        if value is None:
            if self.wanted.missing == "error":
                self._fail(f"the value of {name!r} is missing; missing= says what to do")
            return math.nan
        if not isinstance(value, (int, float)):
            self._fail(f"the value of {name!r} is {_kind(value)}, not a number")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self._fail(f"the value of {name!r} is not a finite number")
        return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"field {twice!r} stands twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


def _kind(value: Any) -> str:
    return {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}.get(
        type(value), "a number"
    )
