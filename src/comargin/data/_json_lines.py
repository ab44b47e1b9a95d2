"""JSON Lines: one value per line, a text or the features of one row; or one list of all rows.

A row of texts is an object with a text field, or a bare string. A row of features is a list of numbers, an object
with a number for every name, or an object whose field ``features`` holds either of them. Blank lines do not count.
Labels are a list of strings in a field of the object, or one string of them.

The labels of a file are those that occur, sorted, unless the first row has a field ``all_labels``: our writer puts
all names there, in order, where the rows do not determine them.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

from ..core.files import AtomicFiles
from ..core.wording import nearest, shortened
from ._dataset import Dataset, as_dense, looks_like_text, not_a_number_advice
from ._source import MAX_LINE_BYTES, TextSource
from .chunks import Part, Rows, Wanted, parts_of_rows
from .labels import LABELS_COLUMN, MISSING_CURE, TEXT_COLUMN, UNLABELLED_CURE, names_follow_from, split_tags, tags_of
from .sparse_text import generated_names

FEATURES_FIELD = "features"
ALL_LABELS_FIELD = "all_labels"
# A file that starts with a bracket and a row, or a bracket alone, is a list of all rows.
_LIST_OF_ROWS = re.compile(r'\s*\[\s*(?:[\[{"]|$)')
_CUT = 2  # characters before the end of a text at which an item is found to go on
_RESERVED = frozenset({TEXT_COLUMN, LABELS_COLUMN, FEATURES_FIELD, ALL_LABELS_FIELD})


def is_json_line(line: str) -> bool:
    """Tell whether a line opens an object or a list of JSON."""
    return line.lstrip().startswith(("{", "["))


class JsonRows(Rows):
    """Rows of one file; every fault names the line.

    To learn, all fields but labels and those to drop are features. The first row determines them (``names``; None for
    a list of numbers) and may list the labels (``label_names``).
    """

    def __init__(self, source: TextSource, wanted: Wanted, *, text: str | None, sep: str) -> None:
        self.labels = wanted.place_of_lists("for JSON Lines it must name the one field")
        if wanted.is_text:
            wanted.check_texts()
        self.source, self.wanted, self.text, self.sep = source, wanted, text or TEXT_COLUMN, sep
        self.is_text = False if wanted.drop and wanted.is_text is None else wanted.is_text
        self.n_features = len(wanted.feature_names) or wanted.n_features
        self.names: tuple[str, ...] | None = wanted.feature_names or None
        self.unseen = set(wanted.drop or ())
        self.listed: frozenset[str] | None = None  # labels that the first row lists
        if self.labels in self.unseen:
            raise ValueError(f"drop= leaves no label of {source.path}")

    def parts(self) -> Iterator[Part]:
        yield from parts_of_rows(self._rows(), self.wanted)
        if self.unseen:
            raise ValueError(f"drop= names {sorted(self.unseen)}, not fields of {self.source.path}")
        if self.wanted.to_learn and not self.is_text:
            self.feature_names = generated_names("x", self.n_features or 0) if self.names is None else self.names

    def _rows(self) -> Iterator[tuple[Any, list[str], str]]:
        for i, value in enumerate(self._values()):
            if self.is_text is None:
                # A feature may have that name, too.
                has_text = isinstance(value, dict) and not isinstance(value.get(TEXT_COLUMN, 0), (int, float))
                self.is_text = isinstance(value, str) or has_text
            if i == 0 and self.wanted.to_learn:
                self._list_labels(value)
            tags = self._tags(value)  # first: without its labels all fields of a row look like features
            x = self._text(value, self.text) if self.is_text else self._features(value)
            if self.wanted.to_learn and not self.is_text:
                # A short row may stand for many missing features.
                what = f"{i + 1} rows of {self.n_features} features"
                self.source.check_array_size(8 * (i + 1) * (self.n_features or 0), what)
            yield x, tags, self._id(value)

    def _fail(self, reason: str) -> NoReturn:
        raise self.source.fail(reason, self.source.line)

    def _values(self) -> Iterator[Any]:
        """Values of the lines, or the items of the one list that all lines make together."""
        lines = (content for content in self.source.lines() if not content.isspace())
        first = next(lines, "")
        if _LIST_OF_ROWS.match(first):
            yield from self._items(first.lstrip()[1:].strip(), lines)
        elif first:
            yield self._parse(first)
            yield from map(self._parse, lines)

    def _items(self, text: str, lines: Iterator[str]) -> Iterator[Any]:
        """Items of a list from behind its bracket; one that is not whole is tried again with twice the text."""
        decoder = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_refuse)
        comma = ""
        while not text.startswith("]"):
            if text and not text.startswith(comma):
                self._fail(f"is not JSON: a comma or ] must stand before {shortened(text, 40)!r}")
            item = text.removeprefix(comma).lstrip()
            try:
                value, end = decoder.raw_decode(item)
            except json.JSONDecodeError as error:
                more = _at_least(lines, len(text))
                if not more or error.pos < len(item) - _CUT or len(text) > MAX_LINE_BYTES:
                    self._fail(f"is not a list of rows in JSON ({error.msg}, in {shortened(item, 60)!r})")
                text = f"{text} {more}".strip()
            except (ValueError, RecursionError) as error:
                self._fail(f"is not JSON that can be read ({error})")
            else:
                yield value
                text, comma = item[end:].lstrip(), ","
        if text[1:].strip() or next(lines, None) is not None:
            self._fail("has more after the end of the list of rows")

    def _parse(self, content: str) -> Any:
        try:
            return json.loads(content, object_pairs_hook=_object, parse_constant=_refuse)
        except json.JSONDecodeError as error:
            self._fail(f"is not JSON ({error.msg}, character {error.pos + 1}): a line must hold one whole value")
        except (ValueError, RecursionError) as error:
            self._fail(f"is not JSON that can be read ({error})")

    def _field(self, value: Any, name: str, cure: str) -> Any:
        if not isinstance(value, dict):
            is_document = isinstance(value, list) and any(isinstance(item, dict) for item in value)
            hint = "; it is a list of objects, which must stand on a line each" if is_document else ""
            self._fail(f"is not an object with the field {name!r}{hint}")
        if name not in value:
            there = f"; it has {', '.join(value)[:200]}" if value else ""
            self._fail(f"has no field {name!r}{nearest(name, value)}{there}; {cure}")
        return value[name]

    def _string(self, value: Any, what: str) -> str:
        if not isinstance(value, str):
            self._fail(f"{what} is {_kind(value)}, not a string")
        if not value.isascii() and any("\ud800" <= c <= "\udfff" for c in value):
            self._fail(f"{what} holds half a surrogate pair")
        return value

    def _text(self, value: Any, name: str) -> str:
        if isinstance(value, str):
            return self._string(value, "the text")
        return self._string(self._field(value, name, "text= says which is the text"), f"field {name!r}")

    def _id(self, value: Any) -> str:
        """Name of the row, empty unless the caller wants it."""
        name = self.wanted.id
        found = None if name is None else self._field(value, name, "id= says which names the rows")
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
        return "" if found is None else self._string(found, f"field {name!r}")

    def _tags(self, value: Any) -> list[str]:
        """Labels of the row, if the caller wants them: a list, or a string that ``sep`` splits."""
        name = self.labels
        if name is None:
            return []
        found = self._field(value, name, "labels= says which holds the labels (a row without any has [])")
        if found is None and self.wanted.unlabelled is not None:
            return []
        if isinstance(found, str):
            try:
                tags = split_tags(self._string(found, f"field {name!r}"), self.sep)
            except ValueError as error:
                self._fail(str(error))
        elif isinstance(found, list):
            tags = [self._string(tag, f"a label in {name!r}") for tag in found]
        else:
            cure = UNLABELLED_CURE if found is None else ""
            self._fail(f"field {name!r} is {_kind(found)}, not a list of labels ([] if there are none){cure}")
        if "" in tags:
            self._fail(f"a label in {name!r} is empty ([] if there are none)")
        stray = next((tag for tag in tags if tag not in self.listed), None) if self.listed is not None else None
        if stray is not None:
            self._fail(f"label {stray!r} is not one of those that {ALL_LABELS_FIELD!r} of the first row lists")
        return tags

    def _list_labels(self, value: Any) -> None:
        """Take the label names from the field ``all_labels`` of the first row, unless it is a feature or absent."""
        listed = value.get(ALL_LABELS_FIELD) if isinstance(value, dict) and self.labels == LABELS_COLUMN else None
        if isinstance(listed, list):
            self.label_names = [self._string(name, f"a label in {ALL_LABELS_FIELD!r}") for name in listed]
            self.listed = frozenset(listed)
            if not listed or "" in listed or len(self.listed) < len(listed):
                self._fail(f"{ALL_LABELS_FIELD!r} must list distinct names, none of them empty")

    def _features(self, value: Any) -> list[float]:
        """Features of a row, NaN where they are missing and may be."""
        fields = self._feature_fields(value)
        if isinstance(fields, dict):
            if self.unseen:
                self.unseen.difference_update(fields, value)
            if self.wanted.to_learn:
                self._check_fields(fields, is_row=fields is value)
            if self.names is None:
                self._fail("has named features, and feature_names= does not say which are wanted")
            absent = next((name for name in self.names if name not in fields), None)
            if absent is not None and self.wanted.missing == "error":
                self._fail(f"has no feature {absent!r}{nearest(absent, fields)}{MISSING_CURE}")
            return [self._number(fields.get(name), name) for name in self.names]
        if not isinstance(fields, list):
            self._fail(f"is {_kind(fields)}, neither a list nor an object of features")
        if self.n_features is None:
            self.n_features = len(fields)
        if len(fields) != self.n_features:
            self._fail(f"has {len(fields)} features, expected {self.n_features}")
        return [self._number(number, f"number {j}") for j, number in enumerate(fields, 1)]

    def _feature_fields(self, value: Any) -> Any:
        """The field ``features`` of a row, or the row itself."""
        if not isinstance(value, dict) or FEATURES_FIELD not in value:
            return value
        held = value[FEATURES_FIELD]
        # Unless it is a list or an object, the field is a feature of that name, where the file may have one.
        is_feature = self.wanted.to_learn or FEATURES_FIELD in self.wanted.feature_names
        return value if is_feature and not isinstance(held, (list, dict)) else held

    def _check_fields(self, fields: dict[str, Any], is_row: bool) -> None:
        """Take the features from the first row; refuse others in later rows, which may lack some."""
        left_out: set[str | None] = set(self.wanted.drop or ())
        if is_row:
            left_out |= {self.labels} if self.listed is None else {self.labels, ALL_LABELS_FIELD}
        found = [name for name in fields if name not in left_out]
        if self.n_features is None:
            if "" in found:
                self._fail("has a field without a name; drop=[''] leaves it out")
            self.names = tuple(self._string(name, "the name of a field") for name in found)
            self.n_features = len(found)
        if self.names is None:
            self._fail("has named features, and the first row a list")
        if len(found) > len(self.names) or not set(found) <= set(self.names):
            stray = next(name for name in found if name not in self.names)
            self._fail(
                f"has a field {stray!r}, and the first row, which says what the features are, has none"
                f"{nearest(stray, self.names)}; drop= leaves it out"
            )

    def _number(self, value: Any, name: str) -> float:
        if value is None:
            if self.wanted.missing == "error":
                self._fail(f"the value of {name!r} is missing{MISSING_CURE}")
            return math.nan
        if not isinstance(value, (int, float)):
            advice = ""
            if self.wanted.to_learn and self.names is not None:
                advice = not_a_number_advice(name, isinstance(value, str) and looks_like_text(value))
            self._fail(f"the value of {name!r} is {_kind(value)}, not a number{advice}")
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            self._fail(f"the value of {name!r} is not a finite number")
        return number


def _at_least(lines: Iterator[str], size: int) -> str:
    """Lines of so many characters together, or all that are left."""
    taken, n = [], 0
    for line in lines:
        taken.append(line.strip())
        n += len(line)
        if n >= size:
            break
    return " ".join(taken)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"field {twice!r} stands twice")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}
    return kinds.get(type(value), "a number")


def write_json_lines(dataset: Dataset, path: Path, files: AtomicFiles) -> None:
    """Write one object for every row; missing values (NaN) become nulls."""
    file = files.open(path)
    tags = tags_of(dataset.Y, dataset.label_names)
    listed = {} if names_follow_from(tags, dataset.label_names) else {ALL_LABELS_FIELD: dataset.label_names}
    for row, labels in zip(_feature_objects(dataset), tags, strict=True):
        value = {**row, LABELS_COLUMN: labels, **listed}
        file.write(json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n")
        listed = {}  # in the first row only


def _feature_objects(dataset: Dataset) -> Iterator[dict[str, Any]]:
    """Yield the fields of every row except its labels."""
    if isinstance(dataset.X, list):
        yield from ({TEXT_COLUMN: text} for text in dataset.X)
        return
    is_apart = not _RESERVED.isdisjoint(dataset.feature_names)
    for x in as_dense(dataset.X):
        numbers = (None if number != number else number for number in x.tolist())
        row = dict(zip(dataset.feature_names, numbers, strict=True))
        yield {FEATURES_FIELD: row} if is_apart else row
