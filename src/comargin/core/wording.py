"""Words that messages share."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def counted(n: int, noun: str) -> str:
    """Return a number with its noun: ``1 row``, ``2 rows``."""
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def nearest(name: str, names: Iterable[str]) -> str:
    """What to add to a message about a name that is not one of ``names``: the one that looks most like it."""
    known = {other.lower(): other for other in names}
    near = difflib.get_close_matches(name.lower(), known, n=1)
    return f"; the nearest is {known[near[0]]!r}" if near else ""
