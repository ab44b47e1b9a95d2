"""One promise on one set of rows: its losses as events along the cuts, and the cuts that the rows vouch for.

A cut t switches a label on where its probability is greater than t. Every promise is "the expectation of a loss in
[0, top] is at most alpha", and along the cuts, from the safe end to the risky one, the loss of a row changes at events,
the probabilities of some of its labels:

================  =====================================  ===================================  ==========  ===========
measure           loss of a row                          events, in their order               rows        alpha
================  =====================================  ===================================  ==========  ===========
recall            missed true labels / true labels       true labels, rising probability      with tags   1 - target
false tags        false labels that are on               false labels, falling probability    all         target
precision         false labels that are on / labels on   all labels, falling probability      (see below) 1 - target
================  =====================================  ===================================  ==========  ===========

In precision a row takes part at a cut when a label is on there. Rows that do not take part neither win nor lose a bet,
which tests the mean over those that do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ._loops_betting import deviations, mean_and_bound, walk, wins

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

PILOT = 8  # one row of so many chooses where the tests of precision begin
_STAGE = 32  # rows before the first look at the spread of the losses; doubled from look to look
_PRIOR_ROWS = 8.0  # weight of the spread that is assumed before any look
_MOST_TIMES = 100  # how many times the rows at hand a refusal recommends
_GRID = np.linspace(0.0, 1.0, 4097)
_BELL = np.exp(-0.5 * np.square(ndtri(np.clip(_GRID, 1e-300, 1.0 - 1e-16)))) / np.sqrt(2.0 * np.pi)
_BELL[[0, -1]] = 0.0


@dataclass(frozen=True)
class Events:
    """Losses of rows along the cuts; ``ends`` groups the events of equal probability."""

    p: FloatArray
    rows: IntArray
    bad: NDArray[np.int8]
    ends: IntArray
    size: FloatArray  # denominators of the rows before the first event
    rising: bool
    grows: bool
    alpha: float
    top: float

    @property
    def n_rows(self) -> int:
        return len(self.size)

    def of_rows(self, rows: slice) -> Events:
        """The same losses of some rows only."""
        first, last, _ = rows.indices(self.n_rows)
        kept = (self.rows >= first) & (self.rows < last)
        return _grouped(
            self.p[kept], self.rows[kept] - first, self.bad[kept], self.size[rows], self.rising, self.grows,
            self.alpha, self.top,
        )  # fmt: skip

    def cut(self, groups: int) -> float:
        """The riskiest cut with so many groups of events behind it."""
        if groups == len(self.ends):
            return np.inf if self.rising else -np.inf
        p = float(self.p[self.ends[groups] - 1])
        return float(np.nextafter(p, -np.inf)) if self.rising else p


def losses_along_cuts(
    measure: str, alpha: float, probabilities: FloatArray, true: NDArray[np.bool_], order: IntArray
) -> Events:
    """Events of the labels that a promise is about, with rows in this order."""
    P, true = probabilities[order], true[order]
    if measure == "recall":
        tagged = true.any(axis=1)
        P, true = P[tagged], true[tagged]
        size, counted, rising = true.sum(axis=1).astype(float), true, True
    elif measure == "precision":
        size, counted, rising = np.zeros(len(P)), np.ones_like(true), False
    else:
        size, counted, rising = np.ones(len(P)), ~true, False
    row, label = np.nonzero(counted)
    p = P[row, label]
    bad = ~true[row, label] if measure == "precision" else np.ones(len(p))
    place = np.argsort(p if rising else -p, kind="stable")
    top = float(true.shape[1]) if measure == "false tags per row" else 1.0
    return _grouped(p[place], row[place], bad.astype(np.int8)[place], size, rising, measure == "precision", alpha, top)


def _grouped(
    p: FloatArray, rows: IntArray, bad: NDArray[np.int8], size: FloatArray, rising: bool, grows: bool, alpha: float,
    top: float,
) -> Events:  # fmt: skip
    ends = np.append(np.flatnonzero(np.diff(p)) + 1, len(p)) if len(p) else np.empty(0, dtype=np.int64)
    return Events(p, rows, bad, ends, size, rising, grows, alpha, top)


def _deviations(events: Events) -> tuple[FloatArray, FloatArray]:
    """Sum over rows of loss - alpha, and of its square, at every cut from the one before the first event on."""
    total, square = deviations(events.rows, events.bad, events.grows, events.size, events.alpha)
    n = float(np.count_nonzero(events.size))
    ends = events.ends - 1
    return np.append(-n * events.alpha, total[ends]), np.append(n * events.alpha**2, square[ends])


def _spread(events: Events) -> FloatArray:
    """Standard deviation of the losses at the cut in question, times the root of the number of rows to come.

    Each row's number depends on the rows before it only.
    """
    n, variance = events.n_rows, np.empty(events.n_rows)
    assumed = events.alpha * (1.0 - events.alpha / events.top)
    variance[:_STAGE] = assumed
    stage = _STAGE
    while stage < n:
        total, square = _deviations(events.of_rows(slice(stage)))
        at = int(np.flatnonzero(total <= 0.0)[-1])
        found = max(square[at] / stage - (total[at] / stage) ** 2, 0.0)
        variance[stage : 2 * stage] = (stage * found + _PRIOR_ROWS * assumed) / (stage + _PRIOR_ROWS)
        stage *= 2
    return np.sqrt(variance * np.arange(n, 0, -1))


@dataclass(frozen=True)
class CutTests:
    """What the tests at a level said about the cuts; level None is the promise in expectation."""

    events: Events  # of the rows that were tested
    level: float | None
    start: int  # groups of events behind the first cut
    last: int  # and behind the riskiest certified one; -1 if the first test failed
    spread: FloatArray

    def allowed(self) -> tuple[float, float]:
        """The lowest and the highest certified cut."""
        first, last = self.events.cut(self.start), self.events.cut(self.last)
        if self.start == 0:
            first = -np.inf if self.events.rising else np.inf
        return min(first, last), max(first, last)

    def first_losses(self) -> FloatArray:
        """Of the rows that take part at the first cut."""
        e = self.events
        end = e.ends[self.start - 1] if self.start else 0
        above = np.bincount(e.rows[:end], weights=e.bad[:end], minlength=e.n_rows)
        below = e.size + e.grows * np.bincount(e.rows[:end], minlength=e.n_rows)
        return np.divide(above, below, out=np.full(e.n_rows, -1.0), where=below > 0.0)

    def rows_that_would_do(self) -> int | None:
        """Rows with the mix of losses of the first cut that would pass its test, or None."""
        e, loss = self.events, self.first_losses()
        deviation = float(np.std(np.where(loss < 0.0, 0.0, loss - e.alpha))) or np.sqrt(e.alpha * (1.0 - e.alpha))
        n = e.n_rows
        while n < _MOST_TIMES * e.n_rows:
            n = math.ceil(1.1 * n)
            if wins(np.resize(loss, n), e.alpha, e.top, deviation * np.sqrt(np.arange(n, 0, -1)), _BELL, self.level):
                return math.ceil(n * PILOT / (PILOT - 1.0)) if e.grows else n
        return None

    def curve(self, places: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean loss and its upper bound at cuts with so many groups of events behind them."""
        e = self.events
        level = 0.5 if self.level is None else self.level
        mean, bound = mean_and_bound(
            e.rows, e.bad, e.ends, places, e.grows, e.size, e.alpha, e.top, self.spread, _BELL, level
        )
        return mean, (e.n_rows * mean + e.top) / (e.n_rows + 1.0) if self.level is None else bound


def run_tests(events: Events, level: float | None) -> CutTests:
    """Test the cuts from the safe end on, each at error probability ``level``, until a test fails.

    In expectation (level None) a cut passes if (n mean loss + top) / (n + 1) <= alpha.
    """
    if level is None:
        total, _ = _deviations(events)
        last = int(np.count_nonzero(total + events.top <= events.alpha + 1e-9)) - 1
        return CutTests(events, level, 0, last, np.ones(events.n_rows))
    start = 0
    if events.grows:  # no row takes part at the safe end: a pilot chooses the cut with the most to win
        pilot, events = (
            events.of_rows(slice(events.n_rows // PILOT)),
            events.of_rows(slice(events.n_rows // PILOT, None)),
        )
        total, _ = _deviations(pilot)
        best = 1 + int(np.argmin(total[1:]))
        start = max(int(np.count_nonzero(events.p[events.ends - 1] > pilot.cut(best))), 1)
    spread = _spread(events)
    last = walk(
        events.rows, events.bad, events.ends, start, events.grows, events.size, events.alpha, events.top, spread,
        _BELL, level,
    )  # fmt: skip
    return CutTests(events, level, start, int(last), spread)


def fewest_rows(events: Events, level: float | None) -> int:
    """Rows without any loss that would vouch for the promise; with fewer nothing can."""
    if level is None:
        return math.ceil(events.top / events.alpha - 1.0 - 1e-9)  # (n 0 + top) / (n + 1) <= alpha
    tested = math.ceil(math.log(level) / math.log1p(-events.alpha / events.top) - 1e-9)  # (1 - alpha / top)^n <= level
    none = np.empty(0, dtype=np.int64)
    while True:
        flawless = _grouped(
            np.empty(0), none, none.astype(np.int8), np.ones(tested), True, False, events.alpha, events.top
        )
        if wins(np.zeros(tested), events.alpha, events.top, _spread(flawless), _BELL, level):
            break
        tested += 1
    rows = tested
    if events.grows:
        rows = max(tested, PILOT)
        while rows - rows // PILOT < tested:
            rows += 1
    return rows
