"""How much a search may try: a number of fits, or a time."""

import re
import time
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_GROWTH = 1.5  # power of the rows that the seconds of a fit grow with, for estimates


class Budget(NamedTuple):
    """How much may be tried: fits of folds, seconds, or no bound."""

    fits: float = np.inf
    seconds: float = np.inf


def parse_budget(budget: Any) -> Budget:
    """The budget of a text or a number of seconds.

    >>> parse_budget("5m")
    Budget(fits=inf, seconds=300.0)
    >>> parse_budget("20 fits").fits
    20.0
    >>> parse_budget("soon")
    Traceback (most recent call last):
    ...
    ValueError: budget must be a time such as "90s", "5m" or "1h", or a number of fits such as "20 fits"; got 'soon'.
    """
    if budget is None:
        return Budget()
    if isinstance(budget, Real) and not isinstance(budget, bool) and 0.0 < float(budget) < np.inf:
        return Budget(seconds=float(budget))
    found = re.fullmatch(r"(\d+(?:\.\d+)?) ?(s|m|h|fits?)", budget.strip()) if isinstance(budget, str) else None
    if found and float(found[1]) > 0.0:
        number = float(found[1])
        if found[2] in _UNITS:
            return Budget(seconds=number * _UNITS[found[2]])
        if number.is_integer():
            return Budget(fits=number)
    raise ValueError(
        f'budget must be a time such as "90s", "5m" or "1h", or a number of fits such as "20 fits"; got {budget!r}.'
    )


class Purse:
    """Says whether another trial may begin.

    ``growth`` is how many times more rows the members of the blend are fitted on at the end.
    """

    def __init__(self, budget: Budget, n_folds: int, growth: float) -> None:
        self._budget, self._n_folds = budget, n_folds
        # Of the seconds of a trial: one more fit, or all folds and one fit of more rows.
        self._finish = 1.0 / n_folds if growth == 1.0 else growth**_GROWTH * (1.0 + 1.0 / n_folds)
        self._began = time.perf_counter()

    def expected(self, candidates: list[tuple[float, int]]) -> float:
        """Seconds that are left, by those of a trial of each candidate and the neighbours it has."""
        left = sum(seconds * (n_neighbours + self._finish) for seconds, n_neighbours in candidates)
        return min(left, max(self._budget.seconds - (time.perf_counter() - self._began), 0.0))

    def allows(self, expected: float | None, seconds: list[float]) -> bool:
        """Whether a trial of so many seconds (None: not known) is within the budget, after trials of these."""
        if not seconds:
            return True
        if self._n_folds * (len(seconds) + 1) > self._budget.fits:
            return False
        mean = sum(seconds) / len(seconds)
        spent = max(time.perf_counter() - self._began, sum(seconds))  # those of before an interruption too
        next_one = mean if expected is None else expected
        return spent + next_one + self._finish * mean <= self._budget.seconds
