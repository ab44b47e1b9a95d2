# mypy: ignore-errors
"""Dual coordinate ascent along labels for linear M3L: section 6 of the paper.

The exact step along one variable, (37)-(39), changes z_k by 2 R_kl S_il (change of A_il) x_i for every label k, (40).
Several steps in turn along one label need only z_l. The other weights wait and get the sum of the steps at once,

    u = sum_i S_il (change of A_il) x_i,   z_k <- z_k + 2 R_kl u   for k != l                             (41)-(43)

which is exact, not an approximation. u is kept sparse: only features of the rows that moved are touched.

The memory order of Z (d, L) depends on R. With a dense R the update (43) dominates and the labels of a feature are
contiguous; with a sparse R the products with z_l dominate and the features of a label are contiguous.
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled
from ..core.random_numbers import random_below, shuffle
from ..core.rows import row_axpy_label, row_collect, row_dot_label, row_spread
from ._loops_step import coordinate


class LabelActive(NamedTuple):
    """The active set, label by label.

    rows int32 (L, n): active rows of each label first.  count int32 (L,): how many those are.  bounds (2, L): a
    variable at a bound whose gradient is outside leaves.  found (2, L), written: smallest and largest projected
    gradient met in the pass, +inf and -inf for a label that was not visited.  state uint64 (4,): random state.
    """

    rows: np.ndarray
    count: np.ndarray
    bounds: np.ndarray
    found: np.ndarray
    state: np.ndarray


@compiled
def _runs_in_random_order(count, run_length, state):
    """One entry per run of up to ``run_length`` active rows of a label: the labels, shuffled."""
    n_runs = (count + run_length - 1) // run_length
    order = np.repeat(np.arange(count.shape[0], dtype=np.int32), n_runs)
    shuffle(state, order, order.shape[0])
    return order


@compiled
def m3l_dcd_pass(X, R, diagonal, coupled, dual, active, Z, run_length):
    """Visit every active variable once: random labels, up to ``run_length`` random rows of a label in turn.

    Invariant between runs: Z = 2 X^T (S o A) R. Within the run of label l it holds for z_l.

    Returns the duality gap of the variables visited, at the gradients met on the way, and how many variables changed.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    R : ndarray (L, L) or CSR
    diagonal : ndarray (L,), of R
    coupled : bool ndarray (L,), labels that R ties to another one
    dual : Dual
    active : LabelActive
    Z : ndarray (d, L), C order when R is an array, Fortran order when it is CSR
    run_length : int, steps along a label before the next one is chosen
    """
    A, S, targets, row_cost, label_cost, sqnorm, loss = dual
    rows, count, bounds, found, state = active
    has_targets = targets.shape[0] > 0
    n_features = Z.shape[0]
    total = np.zeros(n_features)  # u of (41)-(43)
    marked = np.zeros(n_features, dtype=np.bool_)
    features = np.empty(n_features, dtype=np.int32)
    n_visited = np.zeros(count.shape[0], dtype=np.int32)
    found[0] = np.inf
    found[1] = -np.inf
    gap = 0.0
    n_moved = 0
    for label in _runs_in_random_order(count, run_length, state):
        # rows[label] holds: visited and kept, still to come, left the active set.
        first = n_visited[label]
        last = count[label]
        lowest, highest = bounds[0, label], bounds[1, label]
        smallest, largest = found[0, label], found[1, label]
        is_coupled = coupled[label]
        r = diagonal[label]
        n_listed = 0
        for _ in range(min(run_length, last - first)):
            drawn = first + random_below(state, last - first)
            i = rows[label, drawn]
            sign = S[i, label]
            old = A[i, label]
            gradient = sign * row_dot_label(X, i, Z, label) - (targets[i, label] if has_targets else loss.margin)
            cost = row_cost[i] * abs(sign) * label_cost[1 if sign > 0 else 0, label]
            new, projected, part, _ = coordinate(old, gradient, cost, 2.0 * sqnorm[i] * r, 1.0, lowest, highest, loss)
            gap += 2.0 * part
            if np.isnan(projected):
                last -= 1
                rows[label, drawn] = rows[label, last]
                rows[label, last] = i
                continue
            rows[label, drawn] = rows[label, first]
            rows[label, first] = i
            first += 1
            smallest = min(smallest, projected)
            largest = max(largest, projected)
            if new != old:
                A[i, label] = new
                step = sign * (new - old)
                row_axpy_label(2.0 * r * step, X, i, Z, label)  # Eq. (40) for k = l
                if is_coupled:
                    n_listed = row_collect(step, X, i, total, marked, features, n_listed)  # Eq. (42)
                n_moved += 1
        n_visited[label] = first
        count[label] = last
        found[0, label], found[1, label] = smallest, largest
        if n_listed > 0:
            row_spread(R, label, total, features, n_listed, Z)  # Eq. (43)
            for f in range(n_listed):
                total[features[f]] = 0.0
                marked[features[f]] = False
    return gap, n_moved
