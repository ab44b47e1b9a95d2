"""From ARFF attributes to columns of X and Y: which attribute is what, and how its values become numbers."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ._arff_header import Attribute, Header
from ._dataset import DataFormatError
from ._numbers import parse_number
from .labels import MISSING_CURE, NEGATIVE_WORDS, POSITIVE_WORDS, UNLABELLED_CURE

NOMINAL = ("auto", "onehot")
MISSING = ("error", "nan", "zero", "mean")
FEATURE, LABEL, DROPPED = range(3)
_MAX_GROUPS = 64  # of attributes with the same allowed numbers; the fast path checks each
_MAX_NAME_CHARACTERS = 1 << 26  # of all columns attribute=value together


def _numbers(values: Sequence[str]) -> list[float] | None:
    """Numbers that the values are; None when one is not a number."""
    numbers = [number for value in values if (number := parse_number(value)) is not None]
    return numbers if len(numbers) == len(values) else None


def _binary_codes(values: Sequence[str]) -> dict[str, float]:
    """Codes 0 and 1 of two values: in this order, unless the first plainly means yes and the second no."""
    first, second = (value.lower() for value in values)
    is_yes_no = first in POSITIVE_WORDS and second in NEGATIVE_WORDS
    return dict(zip(values, (1.0, 0.0) if is_yes_no else (0.0, 1.0), strict=True))


@dataclass
class Column:
    """Role and coding of one attribute.

    ``codes`` maps the text of a nominal value to its number, in the order of declaration (None: the attribute is
    numeric or dropped). With ``onehot`` the number is the position of the value, and X has a column per value.
    """

    attribute: Attribute
    role: int
    codes: dict[str, float] | None = None
    onehot: bool = False
    numbers: dict[float, float] | None = None  # codes of the declared values when all are numbers
    missing_allowed: bool = False

    @property
    def omitted(self) -> float:
        """Value of the attribute in a sparse row without it: as in Weka the FIRST declared value, or 0."""
        return next(iter(self.codes.values())) if self.codes else 0.0

    @property
    def width(self) -> int:
        """Number of columns of X."""
        return len(self.attribute.values) if self.onehot else 1

    @property
    def names(self) -> list[str]:
        name = self.attribute.name
        return [f"{name}={value}" for value in self.attribute.values] if self.onehot else [name]

    def number(self, text: str, quoted: bool) -> float | str:
        """Number of one value as written in a row (NaN: missing), or the reason why it is refused."""
        if self.role == DROPPED:
            return 0.0
        if text == "?" and not quoted:
            if self.missing_allowed:
                return float("nan")
            if self.role == LABEL:
                return f"the label of attribute {self.attribute.name!r} is missing (?){UNLABELLED_CURE}"
            return f"the value of attribute {self.attribute.name!r} is missing (?){MISSING_CURE}"
        if self.codes is None or (self.numbers is not None and text not in self.codes):
            value = parse_number(text)
            if value is not None and (self.numbers is None or value in self.numbers):
                if self.role == LABEL and self.codes is None and value not in (0.0, 1.0):
                    return f"label {self.attribute.name!r} is {text!r}, allowed are 0 and 1"
                return value if self.numbers is None else self.numbers[value]
            if self.codes is None:
                return f"{text[:40]!r} is not a finite number (attribute {self.attribute.name!r})"
        code = self.codes.get(text)
        if code is None:
            return f"{text[:40]!r} is not a declared value of attribute {self.attribute.name!r}"
        return code


def _code_nominal(column: Column, nominal: str, path: Path) -> None:
    """Choose the codes of a nominal attribute (the rules are in the docstring of `comargin.data.read`)."""
    attribute = column.attribute
    values, numbers = attribute.values, _numbers(attribute.values)
    if column.role == LABEL:
        if numbers is not None and (set(numbers) <= {0.0, 1.0} or set(numbers) == {-1.0, 1.0}):
            column.codes = {value: max(number, 0.0) for value, number in zip(values, numbers, strict=True)}
        elif len(values) == 2:
            column.codes = _binary_codes(values)
        else:
            reason = f"label {attribute.name!r} has {len(values)} values, expected {{0,1}} or two"
            raise DataFormatError(path, reason, attribute.line)
    else:
        column.onehot = len(values) != 2 and (numbers is None or (nominal == "onehot" and len(values) > 2))
        if column.onehot:
            column.codes = {value: float(position) for position, value in enumerate(values)}
        elif numbers is not None:
            column.codes = dict(zip(values, numbers, strict=True))
        else:
            column.codes = _binary_codes(values)
    if numbers is not None:  # a row may write 1 as 1.0; if two declared values are equal numbers, the first counts
        column.numbers = {float(value): column.codes[value] for value in reversed(values)}


@dataclass
class Plan:
    """All attributes of a file, and the arrays the fast path needs."""

    columns: list[Column]
    label_order: np.ndarray  # attribute of every label, in the order asked for
    feature_order: np.ndarray  # attribute of every feature attribute, in the order of the file
    numeric: bool = False  # every value that is used is written as a number and stays that number
    allowed: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list)  # (attributes, numbers they may take)
    never_missing: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.intp))  # attributes

    @property
    def n_attributes(self) -> int:
        return len(self.columns)

    @property
    def feature_names(self) -> tuple[str, ...]:
        return tuple(name for j in self.feature_order for name in self.columns[j].names)

    @property
    def label_names(self) -> tuple[str, ...]:
        return tuple(self.columns[j].attribute.name for j in self.label_order)


def make_plan(
    path: Path,
    header: Header,
    labels: Sequence[int],
    *,
    nominal: str,
    missing: str,
    unlabelled: str | None = None,
    drop: Collection[int],
) -> Plan:
    """Decide for every attribute whether it is a feature, a label (unless dropped) or dropped, and how it is coded."""
    label_order = [j for j in labels if j not in drop]
    is_label = set(label_order)
    columns: list[Column] = []
    for j, attribute in enumerate(header.attributes):
        role = DROPPED if j in drop else LABEL if j in is_label else FEATURE
        may_miss = unlabelled is not None if role == LABEL else missing != "error"
        column = Column(attribute, role, missing_allowed=may_miss or role == DROPPED)
        if role != DROPPED and attribute.kind in ("string", "date"):
            reason = f"attribute {attribute.name!r} is a {attribute.kind}: no number; leave it out with drop="
            raise DataFormatError(path, reason, attribute.line)
        if role != DROPPED and attribute.kind == "nominal":
            _code_nominal(column, nominal, path)
        columns.append(column)
    feature_order = [j for j, column in enumerate(columns) if column.role == FEATURE]
    plan = Plan(columns, np.array(label_order, dtype=np.intp), np.array(feature_order, dtype=np.intp))
    plan.never_missing = np.array([j for j, each in enumerate(columns) if not each.missing_allowed], dtype=np.intp)
    _check_onehot_names(path, plan)
    _prepare_fast_path(plan)
    return plan


def _check_onehot_names(path: Path, plan: Plan) -> None:
    """Refuse columns ``attribute=value`` that are called like another column."""
    columns = [plan.columns[j] for j in plan.feature_order]
    if not any(column.onehot for column in columns):
        return  # names of attributes are distinct
    seen: dict[str, Attribute] = {}
    n_characters = 0
    for column in columns:
        n_characters += column.width * len(column.attribute.name)  # the name is repeated in every column
        if n_characters > _MAX_NAME_CHARACTERS:
            reason = f"the names of columns attribute=value take more than {_MAX_NAME_CHARACTERS} characters: refused"
            raise DataFormatError(path, reason, column.attribute.line)
        for name in column.names:
            if name in seen:
                reason = (
                    f"column {name[:80]!r} of X comes from attribute {seen[name].name[:40]!r} and from "
                    f"{column.attribute.name[:40]!r} (nominal values become columns attribute=value); "
                    "leave one out with drop="
                )
                raise DataFormatError(path, reason, column.attribute.line)
            seen[name] = column.attribute


def _prepare_fast_path(plan: Plan) -> None:
    """Find out whether blocks of plain numbers can be read at once, and which attributes take which numbers only."""
    groups: dict[frozenset[float], list[int]] = {}
    plan.numeric = True
    for j, column in enumerate(plan.columns):
        if column.role == DROPPED:
            _, kind, values, _ = column.attribute
            plan.numeric &= kind in ("numeric", "nominal") and _numbers(values) is not None
        elif column.codes is None:
            if column.role == LABEL:
                groups.setdefault(frozenset({0.0, 1.0}), []).append(j)
        elif column.onehot or column.numbers is None or any(float(t) != c for t, c in column.codes.items()):
            plan.numeric = False
        else:
            groups.setdefault(frozenset(column.numbers), []).append(j)
    # Every block is checked against every group: beyond a few the careful parser is faster.
    plan.numeric &= len(groups) <= _MAX_GROUPS
    plan.allowed = [(np.array(members), np.array(sorted(numbers))) for numbers, members in groups.items()]
