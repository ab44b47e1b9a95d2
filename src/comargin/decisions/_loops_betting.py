# mypy: ignore-errors
"""Bets against a broken promise, at every cut: the compiled part of `guarantees`.

Losses l_i in [0, top] of rows in a fixed order; the promise is broken if their expectation is greater than alpha. A
player with w_0 = 0.9 delta bets on every row that its loss is below alpha,

    w_i = w_(i-1) + h_i (alpha - l_i),     h_i = min(bell(w) / spread_i, w / (top - alpha), (1 - w) / alpha)

The bet h_i depends on rows before i only and the second bound keeps w >= 0, so that w is a non-negative
supermartingale under a broken promise and P(w >= 0.9 at some row) <= delta (Ville). With bell = phi(Phi^-1(w)) and
spread_i the standard deviation of the losses times the root of the number of rows to come, h is the hedge of the
payment "1 if the mean is low enough", which makes the test about as sharp as a normal approximation; no choice of bell
and spread can make it wrong. The last bets towards 1 are tiny, which is why the goal is 0.9.

bell is concave, hence h is, with h(0) = h(1) = 0; so w_i never falls when w_(i-1) rises, whatever l_i is, and w falls
in every loss and rises in alpha. One test with the largest loss that each row has over a stretch of cuts therefore
vouches for all of these cuts at once; this is how `walk` visits all cuts without a test at each.
"""

import numpy as np

from ..core.compiled import compiled

GOAL = 0.9


@compiled
def wins(loss, alpha, top, spread, bell, delta):
    """Whether the bets reach the goal: the promise "expected loss <= alpha" is kept, with error probability delta.

    Parameters
    ----------
    loss : losses from 0 to top; negative where the row does not take part
    alpha : the limit, between 0 and top
    top : the largest loss that there can be
    spread : of each row, positive
    bell : a concave function on an even grid over [0, 1], zero at both ends
    delta : error probability
    """
    w, cells = delta * GOAL, bell.shape[0] - 1
    for i in range(loss.shape[0]):
        if loss[i] >= 0.0:
            place = w * cells
            cell = min(int(place), cells - 1)
            height = bell[cell] + (place - cell) * (bell[cell + 1] - bell[cell])
            h = min(height / spread[i], w / (top - alpha), (1.0 - w) / alpha)
            w = max(w + h * (alpha - loss[i]), 0.0)
            if w >= GOAL:
                return True
    return False


@compiled
def deviations(rows, bad, grows, size, alpha):
    """After every event: the sum over rows of loss - alpha, and of its square.

    Parameters
    ----------
    rows : row of each event
    bad : whether the event adds to the numerator of its row's loss
    grows : whether every event adds to the denominator
    size : denominators before the first event; a row with 0 does not take part
    alpha : the limit
    """
    below, above = size.copy(), np.zeros(size.shape[0])
    total, square = np.zeros(rows.shape[0]), np.zeros(rows.shape[0])
    s, q = 0.0, 0.0
    for i in range(size.shape[0]):
        if size[i] > 0.0:
            s -= alpha
            q += alpha * alpha
    for e in range(rows.shape[0]):
        r = rows[e]
        if below[r] > 0.0:
            d = above[r] / below[r] - alpha
            s -= d
            q -= d * d
        above[r] += bad[e]
        below[r] += grows
        d = above[r] / below[r] - alpha
        s += d
        q += d * d
        total[e], square[e] = s, q
    return total, square


@compiled
def _apply(rows, bad, grows, first, last, sign, above, below):
    for e in range(first, last):
        above[rows[e]] += sign * bad[e]
        below[rows[e]] += sign * grows


@compiled
def _ratio(above, below, other):
    return above / below if below > 0.0 else other


@compiled
def walk(rows, bad, ends, start, grows, size, alpha, top, spread, bell, delta):
    """Test cuts from group ``start`` on until one fails; the number of groups that are over when the last one passes.

    -1 if the first test fails. Cut g has the events of groups 0 to g - 1 behind it.

    Parameters
    ----------
    rows : row of each event
    bad : whether the event adds to the numerator of its row's loss
    ends : where each group of events, of one cut, ends
    start : groups that are over at the first cut
    grows : whether every event adds to the denominator
    size : denominators before the first event; a row with 0 does not take part
    alpha : the limit, between 0 and top
    top : the largest loss that there can be
    spread : of each row, positive
    bell : a concave function on an even grid over [0, 1], zero at both ends
    delta : error probability
    """
    n_groups = ends.shape[0]
    above, below = np.zeros(size.shape[0]), size.copy()
    done, at = start, ends[start - 1] if start else 0
    _apply(rows, bad, grows, 0, at, 1.0, above, below)
    highest = np.empty(size.shape[0])  # a row that does not take part is as good as one with the loss alpha
    for i in range(size.shape[0]):
        highest[i] = _ratio(above[i], below[i], alpha)
    if not wins(highest, alpha, top, spread, bell, delta):
        return -1
    step = max((n_groups - done) // 2, 1)
    while done < n_groups:
        step = min(step, n_groups - done)
        first = at
        for g in range(done, done + step):
            _apply(rows, bad, grows, first, ends[g], 1.0, above, below)
            for e in range(first, ends[g]):
                r = rows[e]
                loss = above[r] / below[r]
                highest[r] = max(highest[r], loss) if g > done else loss
            first = ends[g]
        passed = wins(highest, alpha, top, spread, bell, delta)
        if not passed:
            _apply(rows, bad, grows, at, first, -1.0, above, below)
        for e in range(at, first):
            highest[rows[e]] = _ratio(above[rows[e]], below[rows[e]], alpha)
        if passed:
            done += step
            at = first
            step *= 2
        elif step == 1:
            break
        else:
            step //= 2
    return done


@compiled
def mean_and_bound(rows, bad, ends, places, grows, size, alpha, top, spread, bell, delta):
    """At the cuts ``places``: the mean loss, and the smallest limit that the bets vouch for (top if none).

    Parameters
    ----------
    rows : row of each event
    bad : whether the event adds to the numerator of its row's loss
    ends : where each group of events, of one cut, ends
    places : groups that are over at each cut asked for, rising
    grows : whether every event adds to the denominator
    size : denominators before the first event; a row with 0 does not take part
    alpha : where the search for the bound begins
    top : the largest loss that there can be
    spread : of each row, positive
    bell : a concave function on an even grid over [0, 1], zero at both ends
    delta : error probability
    """
    above, below = np.zeros(size.shape[0]), size.copy()
    loss = np.empty(size.shape[0])
    mean, bound = np.zeros(places.shape[0]), np.full(places.shape[0], top)
    at = 0
    for k in range(places.shape[0]):
        end = ends[places[k] - 1] if places[k] else 0
        _apply(rows, bad, grows, at, end, 1.0, above, below)
        at = end
        count = 0
        for i in range(size.shape[0]):
            loss[i] = _ratio(above[i], below[i], -1.0)
            if loss[i] >= 0.0:
                count += 1
                mean[k] += loss[i]
        mean[k] /= max(count, 1)
        low, high, middle = 0.0, top, alpha
        for _ in range(12):
            if wins(loss, middle, top, spread, bell, delta):
                high = middle
            else:
                low = middle
            middle = 0.5 * (low + high)
        bound[k] = high
    return mean, bound
