# mypy: ignore-errors
"""The restricted problem of a structured SVM: a few labelings (planes) for every row.

With B_p = psi(y_p) - psi(y_i), theta_i = x_i^T W and s_p = Delta_p + B_p . theta_i, the loss of row i smoothed around
the masses a0 is

    h_i(s) = max_{a >= 0, sum a = m_i}  a . s - ||a - a0||^2 / (2 sigma),      its gradient a = P(a0 + sigma s),

P the projection onto the simplex of size m_i. The derivative of P takes the mean over the positive entries away.
B_p are differences of moments, and W their weights (``weights_of_moments``): the same s_p with fewer entries.
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled
from ._loops import all_on


class Planes(NamedTuple):
    """Labelings of some rows, as differences of their moments from those of the true one.

    begin int64 (R + 1,): first plane of each row.  start int64 (N + 1,), columns int32, values: B in compressed rows.
    """

    begin: np.ndarray
    start: np.ndarray
    columns: np.ndarray
    values: np.ndarray


@compiled
def plane_sizes(rows, truth, layout, known, start):
    """Write the non-zeros of every B_p of some rows into start[1:], not yet summed up; start int64 (N + 1,)."""
    labels, count = known.labels, known.count
    n_moments = layout.subset_begin.shape[0] - 1
    plane = 0
    start[0] = 0
    for i in rows:
        right = truth[i]
        for p in range(count[i]):
            size, met = 0, labels[i, p]
            for m in range(n_moments):
                size += all_on(met, layout, m) != all_on(right, layout, m)
            plane += 1
            start[plane] = size


@compiled
def plane_fill(rows, truth, cost, layout, known, start, columns, values, delta):
    """Write B (``columns`` int32, ``values``) and Delta (N,) of every plane of some rows; start int64 (N + 1,)."""
    labels, count = known.labels, known.count
    n_labels, n_moments = truth.shape[1], layout.subset_begin.shape[0] - 1
    plane = 0
    for i in rows:
        right = truth[i]
        for p in range(count[i]):
            q, met = start[plane], labels[i, p]
            loss = 0.0
            for k in range(n_labels):
                if met[k] != right[k]:
                    loss += cost[i, k]
            for m in range(n_moments):
                on = all_on(met, layout, m)
                if on != all_on(right, layout, m):
                    columns[q], values[q] = m, 1.0 if on else -1.0
                    q += 1
            delta[plane] = loss
            plane += 1


@compiled
def plane_scores(planes, theta, out):
    """Write B_p . theta_i into ``out`` (N,), for theta (R, S)."""
    begin, start, columns, values = planes
    for r in range(begin.shape[0] - 1):
        for p in range(begin[r], begin[r + 1]):
            score = 0.0
            for q in range(start[p], start[p + 1]):
                score += values[q] * theta[r, columns[q]]
            out[p] = score


@compiled
def plane_sums(planes, a, out):
    """Write sum_p a_p B_p of every row into ``out`` (R, S)."""
    begin, start, columns, values = planes
    out[:] = 0.0
    for r in range(begin.shape[0] - 1):
        for p in range(begin[r], begin[r + 1]):
            if a[p] != 0.0:
                for q in range(start[p], start[p + 1]):
                    out[r, columns[q]] += values[q] * a[p]


@compiled
def smoothed_loss(begin, mass, centre, scores, sigma, a):
    """Write a = P(centre + sigma scores) (N,), row by row; returns the sum of h_i."""
    total = 0.0
    largest = 0
    for r in range(begin.shape[0] - 1):
        largest = max(largest, begin[r + 1] - begin[r])
    ordered = np.empty(largest)
    for r in range(begin.shape[0] - 1):
        first, last = begin[r], begin[r + 1]
        n = last - first
        best = scores[first]
        for p in range(first + 1, last):
            best = max(best, scores[p])
        for p in range(n):  # insertion sort, highest first: a row has few planes
            value = centre[first + p] + sigma * (scores[first + p] - best)
            q = p
            while q > 0 and ordered[q - 1] < value:
                ordered[q] = ordered[q - 1]
                q -= 1
            ordered[q] = value
        # threshold: the largest k with ordered_k above the mean excess of the first k
        excess, threshold = -mass[r], 0.0
        for p in range(n):
            excess += ordered[p]
            if ordered[p] * (p + 1) > excess:
                threshold = excess / (p + 1)
        for p in range(first, last):
            a[p] = max(centre[p] + sigma * (scores[p] - best) - threshold, 0.0)
            moved = a[p] - centre[p]
            total += a[p] * scores[p] - 0.5 * moved * moved / sigma
    return total


@compiled
def projection_derivative(begin, a, change):
    """Apply the derivative of the projection at a (N,) to ``change`` (N,), in place."""
    for r in range(begin.shape[0] - 1):
        mean, positive = 0.0, 0
        for p in range(begin[r], begin[r + 1]):
            if a[p] > 0.0:
                mean += change[p]
                positive += 1
        if positive > 0:
            mean /= positive
        for p in range(begin[r], begin[r + 1]):
            change[p] = change[p] - mean if a[p] > 0.0 else 0.0
