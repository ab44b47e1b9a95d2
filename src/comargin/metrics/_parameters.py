"""The Parameters sections of the measures: their arguments are described once, here."""

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

Measure = TypeVar("Measure", bound=Callable[..., float])

_MATRIX = "array-like or sparse matrix of shape (n_samples, n_labels)"
_RANKED_SCORES = ("array-like of shape (n_samples, n_labels)", "Score of each label; higher means more relevant.")
_SCORES_AT_K = (
    _MATRIX,
    "Score of each label. Of tied labels the first counts; in sparse scores only stored ones are predicted.",
)
_ENTRIES = {
    "Y_true": (_MATRIX, "True {0, 1} label indicator."),
    "Y_pred": (_MATRIX, "Predicted {0, 1} label indicator."),
    "k": ("int", "Number of labels taken of each row, positive. Beyond n_labels all are taken."),
    "propensities": (
        "array-like of shape (n_labels,)",
        "Chance in (0, 1] that a relevant label was recorded; see `label_propensities`.",
    ),
    "normalize": ("bool, default=False", "Divide by the number of labels, as some papers do."),
    "zero_division": ("{0, 1, nan}, default=0", ""),
    "sample_weight": ("array-like of shape (n_samples,), default=None", "Weight of each row."),
}


def documented(**meanings: str) -> Callable[[Measure], Measure]:
    """Add the Parameters section to the docstring of a measure; ``meanings`` replace the usual descriptions."""

    def add_section(measure: Measure) -> Measure:
        if measure.__doc__ is None:  # python -OO
            return measure
        names = inspect.signature(measure).parameters
        entries: dict[str, Any] = {**_ENTRIES, "scores": _SCORES_AT_K if "k" in names else _RANKED_SCORES}
        section = ["Parameters", "----------"]
        for name in names:
            kind, meaning = entries[name]
            section += [f"{name} : {kind}", *textwrap.wrap(meanings.get(name, meaning), 110, initial_indent="    ")]
        text = inspect.cleandoc(measure.__doc__)
        place = re.search(r"^(References|Examples)$", text, re.MULTILINE)
        end = len(text) if place is None else place.start()
        measure.__doc__ = text[:end] + "\n".join([*section, "", text[end:]])
        return measure

    return add_section
