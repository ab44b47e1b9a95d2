"""The words of a promise: what may be said, and the texts of it."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..core.wording import did_you_mean

_SENSES = {"recall": ">=", "precision": ">=", "false tags per row": "<="}
_PART = re.compile(r"\s*(.*?)\s*(>=|<=|≥|≤|==|=|<|>)\s*(\S+)\s*(?:and\s+(?=\S)|$)", re.DOTALL)


@dataclass(frozen=True)
class Guarantee:
    """One promise: a measure, its target, and the label that it is about.

    Parameters
    ----------
    measure : {"recall", "precision", "false tags per row"}
        What is promised.
    target : float
        The lowest recall or precision, or the highest number of false tags.
    label : int or None, default=None
        Column of the one label in question; None for all together.
    name : str or None, default=None
        Name of that label.

    Examples
    --------
    >>> from comargin.decisions import Guarantee
    >>> str(Guarantee("recall", 0.9, label=3))
    'recall of 3 >= 0.9'
    """

    measure: str
    target: float
    label: int | None = None
    name: str | None = None

    def __post_init__(self) -> None:
        if self.measure not in _SENSES:
            raise ValueError(
                f"guarantee: unknown measure {self.measure!r}; {did_you_mean(self.measure, list(_SENSES))}"
            )
        most = math.inf if _SENSES[self.measure] == "<=" else 1.0
        if not 0.0 < self.target < most:
            allowed = "positive" if most > 1.0 else "between 0 and 1, both excluded"
            raise ValueError(f"guarantee: the target for {self.measure} must be {allowed}; got {self.target:g}.")

    def __str__(self) -> str:
        whose = "" if self.label is None else f" of {self.label if self.name is None else self.name}"
        return f"{self.measure}{whose} {_SENSES[self.measure]} {self.target:g}"

    @property
    def limit(self) -> float:
        """Most that the expected loss may be."""
        return self.target if self.measure == "false tags per row" else 1.0 - self.target


def parse_guarantee(text: str, label_names: Sequence[str] | None = None) -> tuple[Guarantee, ...]:
    """Read promises such as "recall >= 0.9 and false tags per row of sports <= 0.1".

    Parameters
    ----------
    text : str
        "recall >= 0.9", "precision >= 0.8" or "false tags per row <= 1", each for all labels together or "of" one
        label; several joined by "and".
    label_names : sequence of str or None, default=None
        Names of the labels. Without names a label is called by its number, from 0.

    Returns
    -------
    tuple of Guarantee
        The promises, in their order.

    Examples
    --------
    >>> from comargin.decisions import parse_guarantee
    >>> parse_guarantee("precision of sea >= 0.8", ["sky", "sea"])
    (Guarantee(measure='precision', target=0.8, label=1, name='sea'),)
    """
    if not isinstance(text, str):
        raise ValueError(f'guarantee must be a text such as "recall >= 0.9", got {text!r}.')
    parts, at = [], 0
    while at < len(text) and (found := _PART.match(text, at)):
        parts.append(_read_part(label_names, *found.groups()))
        at = found.end()
    if not parts or at < len(text):
        raise ValueError(
            f'guarantee must read like "recall >= 0.9", "precision of NAME >= 0.8" or "false tags per row <= 1", '
            f'joined by "and"; got {text!r}.'
        )
    return tuple(parts)


def _read_part(label_names: Sequence[str] | None, subject: str, sense: str, number: str) -> Guarantee:
    words, _, label_text = subject.partition(" of ")
    measure = " ".join(words.lower().split())
    if measure not in _SENSES:
        raise ValueError(f"guarantee: unknown measure {measure!r}; {did_you_mean(measure, list(_SENSES))}")
    wanted = _SENSES[measure]
    if sense.replace("≥", ">=").replace("≤", "<=") != wanted:
        raise ValueError(f'guarantee: say "{measure} {wanted} ...", not {sense!r}.')
    try:
        target = float(number)
    except ValueError:
        raise ValueError(f"guarantee: the target {number!r} for {measure} is not a number.") from None
    if not label_text:
        return Guarantee(measure, target)
    label_text = label_text.strip()
    if label_names is not None:
        names = [str(name) for name in label_names]
        if label_text not in names:
            raise ValueError(f"guarantee: there is no label {label_text!r}; "
                             f"{did_you_mean(label_text, names)}")  # fmt: skip
        return Guarantee(measure, target, names.index(label_text), label_text)
    if not label_text.isdecimal():
        raise ValueError(f"guarantee: labels have no names here, give the number of {label_text!r}.")
    return Guarantee(measure, target, int(label_text))


def check_confidence(confidence: float | None) -> None:
    """Raise unless the confidence is None or a number between 0 and 1.

    Parameters
    ----------
    confidence : float or None
        Confidence of a promise; None for a promise in expectation.

    Examples
    --------
    >>> from comargin.decisions import check_confidence
    >>> check_confidence(0.9)
    """
    number = isinstance(confidence, int | float | np.integer | np.floating) and not isinstance(confidence, bool)
    if confidence is not None and not (number and 0.0 < confidence < 1.0):
        raise ValueError(
            f"confidence must be a number between 0 and 1, both excluded, or None for a promise in expectation; "
            f"got {confidence!r}."
        )
