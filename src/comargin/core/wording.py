"""Words that messages share."""

import difflib
from collections.abc import Callable, Iterable, Sequence

# The warning of scikit-learn about a label that is constant in a fold; the user cannot change that.
CONSTANT_LABEL = r"Label (not )?\S+ is present in all training examples"


def shortened(text: str, most: int) -> str:
    """A text of at most so many characters, which ends in dots if it was longer."""
    return text if len(text) <= most else f"{text[: most - 3]}..."


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: ``1 row``, ``2 rows``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def nearest(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the most similar of ``names``, if there is one."""
    known = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"; the nearest is {known[near[0]]!r}" if near else ""


def did_you_mean(name: str, names: Sequence[str], form: Callable[[str], str] = str.lower) -> str:
    """Advice about an unknown name: the two most similar of ``names``, compared in ``form``, or all of them."""
    known = {form(other): other for other in names}
    near = [known[match] for match in difflib.get_close_matches(form(name), known, n=2)]
    return f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(names)}"
