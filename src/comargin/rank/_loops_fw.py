# mypy: ignore-errors
"""Frank-Wolfe steps for Rank-CVM: the paper's recursions, and an exact search that visits few pairs.

Over the simplex of the pairs (i, m, n), W(a) = 1/2 a^T Theta a has the gradient, Eq. (59) of Xu (2013),

    g_imn = f_m(x_i) - f_n(x_i) + c_imn,   c_imn = a_imn / C_i .

A step goes towards the pair of the lowest gradient, Eqs. (61)-(68). It moves the scores of two labels by one row of K
and shrinks all numbers by one factor 1 - lambda. The product of these factors, ``scale``, is stored separately, so that
a step writes two axpys of length n and one c. During the steps c, f, low and low_of are the paper's numbers over scale.

Search: when the scores of label m rise by t K_i and those of n fall as much, only pairs with m or n change, and all
pairs of the same two labels change alike, by between t min_j K_ij and t max_j K_ij. Pairs are therefore grouped by
their two labels; every group has a lower bound of its lowest gradient, and is searched again only when its bound is the
lowest of all. This is exact up to the rounding of the bounds. (Bounds by row are useless: the lowest gradients of rows
lie closer together than one step moves them.)
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled


class PairGroups(NamedTuple):
    """All pairs, by relevant label m, then irrelevant label n, then row.

    row uint32 (n_pairs,).  begin int64 (L, L + 1): pairs of (m, n) are begin[m, n] to begin[m, n + 1].
    cost (n_samples,): C_i.
    """

    row: np.ndarray
    begin: np.ndarray
    cost: np.ndarray


class FrankWolfe(NamedTuple):
    """The iterate and bounds of its gradients.

    c (n_pairs,): a / C_i.  f (L, n_samples): scores.  low (L, L): lower bounds of the gradients of groups, infinite
    where there is no pair.  exact bool (L, L): whether low is attained.  low_of (L,): lower bounds of the rows of low.
    """

    c: np.ndarray
    f: np.ndarray
    low: np.ndarray
    exact: np.ndarray
    low_of: np.ndarray


class FullRows(NamedTuple):
    """Rows of K in float64 that are in memory.

    rows (capacity, n_samples).  slot int32 (n_samples,): where row i of K is, or -1.  stamp int64 (n_samples,): the
    last step that used it.  diagonal, smallest, largest (n_samples,): K_ii; the smallest entry of row i, and its
    largest one off the diagonal, both valid for rows that were in memory.
    """

    rows: np.ndarray
    slot: np.ndarray
    stamp: np.ndarray
    diagonal: np.ndarray
    smallest: np.ndarray
    largest: np.ndarray


@compiled
def lowest_of_group(row, c, f_m, f_n):
    """Lowest gradient of the pairs of two labels, infinite when there are none."""
    lowest = np.inf
    for k in range(row.shape[0]):
        gradient = f_m[row[k]] - f_n[row[k]] + c[k]
        lowest = gradient if gradient < lowest else lowest
    return lowest


@compiled
def rank_fw_bounds(pairs, state):
    """Make all bounds exact, from c and f alone; returns the lowest gradient."""
    row, begin, _ = pairs
    c, f, low, exact, low_of = state
    for m in range(f.shape[0]):
        low_of[m] = np.inf
        for n in range(f.shape[0]):
            first, end = begin[m, n], begin[m, n + 1]
            low[m, n] = lowest_of_group(row[first:end], c[first:end], f[m], f[n])
            exact[m, n] = True
            low_of[m] = min(low_of[m], low[m, n])
    return low_of.min()


@compiled
def rank_fw_coefficients(pairs, c, beta):
    """Write beta (n_samples, L), Eq. (21); returns sum(a) and sum a^2 / C_i, the diagonal part of a^T Theta a."""
    row, begin, cost = pairs
    beta[:] = 0.0
    total, squares = 0.0, 0.0
    for m in range(beta.shape[1]):
        for n in range(beta.shape[1]):
            for k in range(begin[m, n], begin[m, n + 1]):
                i = row[k]
                a = c[k] * cost[i]
                beta[i, m] += a
                beta[i, n] -= a
                total += a
                squares += a * c[k]
    return total, squares


@compiled
def _lowest_pair(pairs, state):
    """Labels m, n and place k of the first pair of the lowest gradient, and that gradient."""
    row, begin, _ = pairs
    c, f, low, exact, low_of = state
    while True:
        m = np.argmin(low_of)
        n = np.argmin(low[m])
        first, end = begin[m, n], begin[m, n + 1]
        if low[m, n] > low_of[m]:
            low_of[m] = low[m, n]
        elif exact[m, n]:
            break
        else:
            low[m, n] = lowest_of_group(row[first:end], c[first:end], f[m], f[n])
            exact[m, n] = True
    # Searched anew, since the bound and the gradients were scaled and rounded separately.
    place, lowest = first, np.inf
    for k in range(first, end):
        gradient = f[m, row[k]] - f[n, row[k]] + c[k]
        if gradient < lowest:
            place, lowest = k, gradient
    return m, n, place, lowest


@compiled
def _move(row, step, f_m, f_n):
    """Add step times a row of K to the scores of one label, and subtract it from those of another."""
    for j in range(row.shape[0]):
        change = step * row[j]
        f_m[j] += change
        f_n[j] -= change


@compiled
def _move_bounds(state, m, n, rise, fall):
    """Update the bounds: pairs (m, .), (., n) rose by ``rise`` at least, (n, .), (., m) fell by ``fall`` at most."""
    _, _, low, exact, low_of = state
    for k in range(low.shape[0]):
        low[m, k] += rise
        low[k, n] += rise
        low[n, k] -= fall
        low[k, m] -= fall
        exact[m, k] = exact[k, n] = exact[n, k] = exact[k, m] = False
        # Where low rose this is still a bound, if a loose one; the search tightens it.
        low_of[k] = min(low_of[k], min(low[k, m], low[k, n]))
    low_of[m], low_of[n] = low[m].min(), low[n].min()


@compiled
def rank_fw_steps(gram, pairs, state, W, clock, n_steps):
    """Take ``n_steps`` Frank-Wolfe steps on the simplex; updates ``state`` and the stamps of ``gram``.

    ``W`` is the objective at ``state``, at most that of every single pair; ``clock`` numbers the first step. Ends early
    when the gap is not positive, which is rounding, or when a row of K is not in memory. Returns W, the gap 2 W - min g
    before the last step, the number of steps done, and the row of K that is missing, or -1.
    """
    rows, slot, stamp, diagonal, smallest, largest = gram
    row, _, cost = pairs
    c, f, low, _, low_of = state
    scale, gap, missing, done = 1.0, np.inf, -1, 0
    while done < n_steps:
        m, n, k, gradient = _lowest_pair(pairs, state)  # Eqs. (41), (45), (46), (61)
        gradient *= scale
        gap = 2.0 * W - gradient  # Eq. (62)
        if not gap > 0.0:
            break
        i = row[k]
        if slot[i] < 0:
            missing = np.int64(i)
            break
        theta = 2.0 * diagonal[i] + 1.0 / cost[i]  # Eq. (54)
        # Eqs. (43), (63), (64). At most 1/2, since 2 W <= theta: the start is the best single pair, and W only falls.
        size = gap / (theta - 2.0 * gradient + 2.0 * W)
        W = (1.0 - size) ** 2 * W + size * (1.0 - size) * gradient + 0.5 * size**2 * theta  # Eq. (68)
        scale *= 1.0 - size
        step = size / scale
        c[k] += step / cost[i]  # Eq. (66)
        _move(rows[slot[i]], step, f[m], f[n])  # Eq. (70) by way of the scores
        # Row i has m on and n off, so none of its gradients fall: ``largest`` leaves the diagonal out.
        _move_bounds(state, m, n, step * smallest[i], step * largest[i])
        stamp[i] = clock + done
        done += 1
    c *= scale
    f *= scale
    low *= scale
    low_of *= scale
    return W, gap, done, missing
