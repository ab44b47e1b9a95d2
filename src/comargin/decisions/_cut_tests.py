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
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from ._loops_betting import losses_around, wins

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
    """Losses of rows along the cuts, which change at events in their order; a loss below 0: the row takes no part."""

    p: FloatArray
    rows: IntArray
    bad: NDArray[np.int8]  # what the event adds to the numerator of its row's loss
    size: FloatArray  # denominators of the rows before the first event
    rising: bool
    grows: bool  # whether every event adds to the denominator
    alpha: float
    top: float

    @property
    def n_rows(self) -> int:
        return len(self.size)

    @cached_property
    def ends(self) -> IntArray:
        """Events over at each cut: none at the first, then one group of equal probabilities after the other."""
        return np.append(0, np.flatnonzero(np.diff(self.p, append=np.nan)) + 1)

    @cached_property
    def around(self) -> tuple[FloatArray, FloatArray]:
        """Loss of the row of each event, before it and after it."""
        return losses_around(self.rows, self.bad, self.grows, self.size)

    def of_rows(self, rows: slice) -> Events:
        """The same losses of some rows only."""
        first, last, _ = rows.indices(self.n_rows)
        kept = (self.rows >= first) & (self.rows < last)
        return replace(self, p=self.p[kept], rows=self.rows[kept] - first, bad=self.bad[kept], size=self.size[rows])

    def cut(self, place: int) -> float:
        """A cut behind so many groups of equal probabilities: halfway to the next group, but near it where that is far.

        It stays off the probabilities themselves by more than rounding.
        """
        if place == len(self.ends) - 1:
            return np.inf if self.rising else -np.inf
        p, margin = float(self.p[self.ends[place]]), 1e-6 * float(self.p[self.ends[place]])
        before = float(self.p[self.ends[place] - 1]) if place else -np.inf if self.rising else np.inf
        return max(0.5 * (p + before), p - margin) if self.rising else min(0.5 * (p + before), p + margin)

    def losses(self, place: int) -> FloatArray:
        """Losses of the rows at a cut."""
        loss = np.where(self.size > 0.0, 0.0, -1.0)
        self.advance(loss, 0, self.ends[place])
        return loss

    def advance(self, loss: FloatArray, first: int, last: int) -> None:
        """Let events happen to the losses; of several to one row the last one stays."""
        loss[self.rows[first:last]] = self.around[1][first:last]

    def sums(self) -> tuple[FloatArray, FloatArray]:
        """Sum over rows of loss - alpha, and of its square, at every cut."""
        before, after = (np.where(loss < 0.0, 0.0, loss - self.alpha) for loss in self.around)
        n = np.count_nonzero(self.size)
        total, square = (np.append(0.0, np.cumsum(change)) for change in (after - before, after**2 - before**2))
        return total[self.ends] - n * self.alpha, square[self.ends] + n * self.alpha**2

    def keeps(self, loss: FloatArray, spread: FloatArray, level: float, alpha: float | None = None) -> bool:
        """Whether the bets win against the claim that the expectation is above alpha."""
        return wins(loss, self.alpha if alpha is None else alpha, self.top, spread, _BELL, level)


def losses_along_cuts(
    measure: str, alpha: float, probabilities: FloatArray, true: NDArray[np.bool_], order: IntArray,
    known: NDArray[np.bool_] | None = None,
) -> Events:  # fmt: skip
    """Events of the labels that a promise is about, with rows in this order; only ``known`` cells count.

    Rows without a known cell take no part.
    """
    if known is None:
        known = np.ones_like(true)
    order = order[known[order].any(axis=1)]
    P, true, known = probabilities[order], true[order], known[order]
    if measure == "recall":
        tagged = true.any(axis=1)
        P, true = P[tagged], true[tagged]
        size, counted, rising = true.sum(axis=1).astype(float), true, True
    elif measure == "precision":
        size, counted, rising = np.zeros(len(P)), known, False
    else:
        size, counted, rising = np.ones(len(P)), known & ~true, False
    row, label = np.nonzero(counted)
    p = P[row, label]
    bad = ~true[row, label] if measure == "precision" else np.ones(len(p))
    place = np.argsort(p if rising else -p, kind="stable")
    top = float(true.shape[1]) if measure == "false tags per row" else 1.0
    return Events(p[place], row[place], bad.astype(np.int8)[place], size, rising, measure == "precision", alpha, top)


def _spread(events: Events) -> FloatArray:
    """Standard deviation of the losses at the cut in question, times the root of the number of rows to come.

    Each row's number depends on the rows before it only.
    """
    n, variance = events.n_rows, np.empty(events.n_rows)
    assumed = events.alpha * (1.0 - events.alpha / events.top)
    variance[:_STAGE] = assumed
    stage = _STAGE
    while stage < n:
        total, square = events.of_rows(slice(stage)).sums()
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

    def rows_that_would_do(self) -> int | None:
        """Rows with the mix of losses of the first cut that would pass its test, or None."""
        assert self.level is not None  # in expectation the first cut passes
        e, loss = self.events, self.events.losses(self.start)
        deviation = float(np.std(np.where(loss < 0.0, 0.0, loss - e.alpha))) or np.sqrt(e.alpha * (1.0 - e.alpha))
        n = e.n_rows
        while n < _MOST_TIMES * e.n_rows:
            n = math.ceil(1.1 * n)
            if e.keeps(np.resize(loss, n), deviation * np.sqrt(np.arange(n, 0, -1)), self.level):
                return math.ceil(n * PILOT / (PILOT - 1.0)) if e.grows else n
        return None

    def curve(self, places: IntArray) -> tuple[FloatArray, FloatArray]:
        """Mean loss and its upper bound at cuts with so many groups of events behind them, rising."""
        e = self.events
        mean, bound = np.empty(len(places)), np.empty(len(places))
        loss, done = e.losses(0), 0
        for k, end in enumerate(e.ends[places]):
            e.advance(loss, done, end)
            done = end
            mean[k] = loss[loss >= 0.0].sum() / max(np.count_nonzero(loss >= 0.0), 1)
            if self.level is None:
                bound[k] = (e.n_rows * mean[k] + e.top) / (e.n_rows + 1.0)
                continue
            low, bound[k], middle = 0.0, e.top, e.alpha
            for _ in range(12):
                if e.keeps(loss, self.spread, self.level, middle):
                    bound[k] = middle
                else:
                    low = middle
                middle = 0.5 * (low + bound[k])
        return mean, bound


def run_tests(events: Events, level: float | None) -> CutTests:
    """Test the cuts from the safe end on, each at error probability ``level``, until a test fails.

    In expectation (level None) a cut passes if (n mean loss + top) / (n + 1) <= alpha.
    """
    if level is None:
        total, _ = events.sums()
        last = int(np.count_nonzero(total + events.top <= events.alpha + 1e-9)) - 1
        return CutTests(events, level, 0, last, np.ones(events.n_rows))
    start = 0
    if events.grows:  # no row takes part at the safe end: a pilot chooses the cut with the most to win
        size = events.n_rows // PILOT
        pilot, events = events.of_rows(slice(size)), events.of_rows(slice(size, None))
        best = 1 + int(np.argmin(pilot.sums()[0][1:]))
        start = int(np.count_nonzero(events.p[events.ends[:-1]] > pilot.cut(best)))
        if start == 0:  # no tested row takes part at the pilot's cut
            return CutTests(events, level, 1, -1, _spread(events))
    spread = _spread(events)
    return CutTests(events, level, start, _last_passed(events, start, spread, level), spread)


def _last_passed(events: Events, start: int, spread: FloatArray, level: float) -> int:
    """Place of the last cut that passes, or -1: every stretch is tested at once, and halved where that fails."""
    ends, after = events.ends, events.around[1]
    loss, done = events.losses(start), start
    if not events.keeps(loss, spread, level):
        return -1
    step = max((len(ends) - 1 - done) // 2, 1)
    while done < len(ends) - 1:
        step = min(step, len(ends) - 1 - done)
        at, first, last = ends[done], ends[done + 1], ends[done + step]
        highest = loss.copy()
        events.advance(highest, at, first)
        highest[highest < 0.0] = events.alpha  # to take no part is as good as to lose alpha
        np.maximum.at(highest, events.rows[first:last], after[first:last])
        if events.keeps(highest, spread, level):
            events.advance(loss, at, last)
            done, step = done + step, 2 * step
        elif step == 1:
            break
        else:
            step //= 2
    return done


def fewest_rows(events: Events, level: float | None) -> int:
    """Rows without any loss that would vouch for the promise; with fewer nothing can."""
    if level is None:
        return math.ceil(events.top / events.alpha - 1.0 - 1e-9)  # (n 0 + top) / (n + 1) <= alpha
    least = math.ceil(math.log(level) / math.log1p(-events.alpha / events.top) - 1e-9)  # (1 - alpha / top)^n <= level
    none = slice(0)
    flawless = replace(events, p=events.p[none], rows=events.rows[none], bad=events.bad[none])
    tested = next(
        n for n in count(least) if events.keeps(np.zeros(n), _spread(replace(flawless, size=np.ones(n))), level)
    )
    return next(n for n in count(max(tested, PILOT)) if n - n // PILOT >= tested) if events.grows else tested
