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
vouches for all of these cuts at once; this is how all cuts are visited without a test at each.
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
def losses_around(rows, bad, grows, size):
    """Loss of the row of each event before it and after it; -1 where the row does not take part.

    Parameters
    ----------
    rows : row of each event
    bad : whether the event adds to the numerator of its row's loss
    grows : whether every event adds to the denominator
    size : denominators before the first event; a row with 0 does not take part
    """
    above, below = np.zeros(size.shape[0]), size.copy()
    before, after = np.empty(rows.shape[0]), np.empty(rows.shape[0])
    for e in range(rows.shape[0]):
        r = rows[e]
        before[e] = above[r] / below[r] if below[r] > 0.0 else -1.0
        above[r] += bad[e]
        below[r] += grows
        after[e] = above[r] / below[r]
    return before, after
