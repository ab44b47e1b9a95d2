"""JSON Lines: one value per line, a text or the features of one row.

A row of texts is an object with a text field, or a bare string. A row of features is a list of numbers, an object
with a number for every name, or an object whose field ``features`` holds either of them. Blank lines do not count.
Labels are a list of strings in a field of the object, or one string of them.

The labels of a file are those that occur, sorted, unless the first row has a field ``all_labels``: our writer puts
all names there, in order, where the rows do not determine them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from ..core.files import AtomicFiles
from ..core.wording import nearest
from ._dataset import Dataset, as_dense, fill_missing, looks_like_text, not_a_number_advice
from ._source import TextSource
from .chunks import Chunk, Wanted, regroup, stacked, tags_of
from .sparse_text import generated_names
from .text_table import LABELS_COLUMN, TEXT_COLUMN, names_follow_from, split_tags, tagged_dataset

FEATURES_FIELD = "features"
ALL_LABELS_FIELD = "all_labels"
_RESERVED = frozenset({TEXT_COLUMN, LABELS_COLUMN, FEATURES_FIELD, ALL_LABELS_FIELD})
_ROWS_AT_ONCE = 4096  # joined into one array


def is_json_line(line: str) -> bool:
    """Tell whether a line opens an object or a list of JSON."""
    return line.lstrip().startswith(("{", "["))


def read_json_lines(
    path: Path, *, text: str | None, labels: str | None, sep: str, missing: str, drop: Sequence[str], encoding: str
) -> Dataset:
    """Read a JSON Lines file with labels; X is texts if ``text=`` is given or the first row has a field ``text``."""
    if text is not None and drop:
        raise ValueError("drop= means nothing to texts: only the two fields are read")
    if (labels or LABELS_COLUMN) in drop:
        raise ValueError(f"drop= leaves no label of {path}")
    is_text = True if text is not None else False if drop else None
    # "mean" is filled in at the end, when the means of the columns are known.
    wanted = Wanted(labels=True if labels is None else labels, missing="nan" if missing == "mean" else missing)
    with TextSource(path, encoding) as source:
        rows = _JsonRows(source, wanted, sep, drop)
        parts: list[Any] = []
        tags: list[list[str]] = []
        for chunk in regroup(rows.chunks(text, is_text), _ROWS_AT_ONCE):
            parts.append(chunk.X)
            tags += chunk.tags or []
            # A short row may stand for many missing features.
            what = f"{len(tags)} rows of {rows.n_features} features"
            source.check_array_size(8 * len(tags) * (rows.n_features or 0), what)
        if not parts:
            raise source.fail("has no rows")
    if rows.unseen:
        raise ValueError(f"drop= names {sorted(rows.unseen)}, not fields of {path}")
    all_labels = None if rows.all_labels is None else list(rows.all_labels)
    X = stacked(parts)
    if isinstance(X, list):
        return tagged_dataset(path, X, tags, all_labels)
    feature_names = generated_names("x", X.shape[1]) if rows.names is None else rows.names
    return tagged_dataset(path, fill_missing(X, missing), tags, all_labels, feature_names)


def stream_json_lines(
    source: TextSource, wanted: Wanted, is_text: bool | None, *, text: str | None, sep: str
) -> Iterator[Chunk]:
    """Read the rows of a JSON Lines file, one at a time."""
    yield from _JsonRows(source, wanted, sep).chunks(text, is_text)


class _JsonRows:
    """Rows of one file; every fault names the line.

    With ``drop`` the rows are for learning: all fields but labels and these are features, the first row determines
    them (``names``; None for a list of numbers) and may list the labels (``all_labels``). Without ``drop`` the caller
    names the features.
    """

    def __init__(self, source: TextSource, wanted: Wanted, sep: str, drop: Sequence[str] | None = None) -> None:
        self.source, self.wanted, self.sep = source, wanted, sep
        self.n_features = len(wanted.feature_names) or wanted.n_features
        self.names: tuple[str, ...] | None = wanted.feature_names or None
        self.labels = LABELS_COLUMN if wanted.labels is True else wanted.labels
        self.to_learn, self.drop, self.unseen = drop is not None, frozenset(drop or ()), set(drop or ())
        self.all_labels: dict[str, None] | None = None  # in order, and quick to look into

    def chunks(self, text: str | None, is_text: bool | None) -> Iterator[Chunk]:
        """Yield the rows one by one; arguments as in `stream_json_lines`."""
        values = (self._parse(content) for content in self.source.lines() if not content.isspace())
        for i, value in enumerate(values):
            if is_text is None:
                # A feature may have that name, too.
                has_text = isinstance(value, dict) and not isinstance(value.get(TEXT_COLUMN, 0), (int, float))
                is_text = isinstance(value, str) or has_text
            if i == 0 and self.to_learn:
                self.all_labels = self._listed(value)
            tags = self._tags(value)  # first: without its labels all fields of a row look like features
            X = [self._text(value, text or TEXT_COLUMN)] if is_text else self._features(value)
            yield Chunk(X, 0, self._ids(value), tags)

    def _fail(self, reason: str) -> NoReturn:
        raise self.source.fail(reason, self.source.line)

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

    def _ids(self, value: Any) -> list[str] | None:
        """Name of the row, if the caller wants it."""
        name = self.wanted.id
        if name is None:
            return None
        found = self._field(value, name, "id= says which names the rows")
        if isinstance(found, int) and not isinstance(found, bool):
            return [str(found)]
        return ["" if found is None else self._string(found, f"field {name!r}")]

    def _tags(self, value: Any) -> list[list[str]] | None:
        """Labels of the row, if the caller wants them: a list, or a string that ``sep`` splits."""
        name = self.labels
        if name is None:
            return None
        found = self._field(value, name, "labels= says which holds the labels (a row without any has [])")
        if found is None and self.wanted.missing == "zero":
            return [[]]
        if isinstance(found, str):
            tags = split_tags(self._string(found, f"field {name!r}"), self.sep)
        elif isinstance(found, list):
            tags = [self._string(tag, f"a label in {name!r}") for tag in found]
        else:
            self._fail(f"field {name!r} is {_kind(found)}, not a list of labels ([] if there are none)")
        if "" in tags:
            self._fail(f"a label in {name!r} is empty ([] if there are none)")
        stray = [] if self.all_labels is None else [tag for tag in tags if tag not in self.all_labels]
        if stray:
            self._fail(f"label {stray[0]!r} is not one of those that {ALL_LABELS_FIELD!r} of the first row lists")
        return [list(dict.fromkeys(tags))]

    def _listed(self, value: Any) -> dict[str, None] | None:
        """Label names in the field ``all_labels`` of the first row; None: it is no list, but a feature or absent."""
        listed = value.get(ALL_LABELS_FIELD) if isinstance(value, dict) and self.labels == LABELS_COLUMN else None
        if not isinstance(listed, list):
            return None
        names = dict.fromkeys(self._string(name, f"a label in {ALL_LABELS_FIELD!r}") for name in listed)
        if not names or "" in names or len(names) < len(listed):
            self._fail(f"{ALL_LABELS_FIELD!r} must list distinct names, none of them empty")
        return names

    def _features(self, value: Any) -> np.ndarray:
        """Features of a row, an array of shape (1, n_features)."""
        fields = self._feature_fields(value)
        if isinstance(fields, dict):
            if self.unseen:
                self.unseen.difference_update(fields, value)
            if self.to_learn:
                self._check_fields(fields, is_row=fields is value)
            if self.names is None:
                self._fail("has named features, and feature_names= does not say which are wanted")
            absent = next((name for name in self.names if name not in fields), None)
            if absent is not None and self.wanted.missing == "error":
                self._fail(f"has no feature {absent!r}{nearest(absent, fields)}; missing= says what to do")
            row = [self._number(fields.get(name), name) for name in self.names]
        elif isinstance(fields, list):
            if self.n_features is None:
                self.n_features = len(fields)
            if len(fields) != self.n_features:
                self._fail(f"has {len(fields)} features, expected {self.n_features}")
            row = [self._number(number, f"number {j}") for j, number in enumerate(fields, 1)]
        else:
            self._fail(f"is {_kind(fields)}, neither a list nor an object of features")
        return np.asarray(fill_missing(np.array([row], dtype=np.float64), self.wanted.missing))

    def _feature_fields(self, value: Any) -> Any:
        """The field ``features`` of a row, or the row itself."""
        if not isinstance(value, dict) or FEATURES_FIELD not in value:
            return value
        held = value[FEATURES_FIELD]
        # Unless it is a list or an object, the field is a feature of that name, where the file may have one.
        is_feature = self.to_learn or FEATURES_FIELD in self.wanted.feature_names
        return value if is_feature and not isinstance(held, (list, dict)) else held

    def _check_fields(self, fields: dict[str, Any], is_row: bool) -> None:
        """Take the features from the first row; refuse others in later rows, which may lack some."""
        left_out = set(self.drop)
        if is_row:
            left_out |= {self.labels, ALL_LABELS_FIELD} if self.all_labels is not None else {self.labels}
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
                self._fail(f"the value of {name!r} is missing; missing= says what to do")
            return math.nan
        if not isinstance(value, (int, float)):
            advice = ""
            if self.to_learn and self.names is not None:
                advice = not_a_number_advice(name, isinstance(value, str) and looks_like_text(value))
            self._fail(f"the value of {name!r} is {_kind(value)}, not a number{advice}")
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
    for x in as_dense(dataset)[0]:
        numbers = (None if number != number else number for number in x.tolist())
        row = dict(zip(dataset.feature_names, numbers, strict=True))
        yield {FEATURES_FIELD: row} if is_apart else row
