# mypy: ignore-errors
"""The set with the greatest expected F1 among the k likeliest labels of a row, the labels independent.

With p_1 >= ... >= p_L, A_k the number of true labels among the first k and B_k that among the others,

    F(k) = E[2 A_k / (k + A_k + B_k)] = sum_a 2 a P(A_k = a) e_k(k + a),    e_k(m) = E[1 / (m + B_k)]

and e_{k-1}(m) = p_k e_k(m + 1) + (1 - p_k) e_k(m). With M_k = p_1 + ... + p_k the inequality of Jensen gives

    2 M_k / (k + 1 + M_L) <= F(k) <= 2 M_k / (k + M_k)

and the upper bound falls with k: no k is best from where it lies below the best lower bound. These sizes are left out,
so that a row costs O(L t + K^2) with K the last size and t the number of labels that are true together with a
probability that double precision can tell from 0.
"""

import numpy as np

from ..core.compiled import compiled

_NEGLIGIBLE = 1e-18  # probability of a number of labels that is dropped at the end of its distribution


@compiled
def _add_label(pmf, size, p):
    """Add a label of probability p to a distribution of counts ``pmf[:size]``; returns the new size."""
    pmf[size] = 0.0
    for a in range(size, 0, -1):
        pmf[a] += p * (pmf[a - 1] - pmf[a])
    pmf[0] *= 1.0 - p
    return size if pmf[size] < _NEGLIGIBLE else size + 1


@compiled
def _last_size(p):
    """The last k that may be best."""
    total = p.sum()
    mass, floor = 0.0, 0.0
    for k in range(1, p.shape[0] + 1):
        mass += p[k - 1]
        floor = max(floor, 2.0 * mass / (k + 1.0 + total))
    mass = 0.0
    for k in range(1, p.shape[0] + 1):
        mass += p[k - 1]
        if 2.0 * mass < floor * (k + mass):
            return k - 1
    return p.shape[0]


@compiled
def best_sizes(P, sizes, values):
    """Write the best k >= 1 of every row and F(k); the rows of ``P`` are sorted by falling probability."""
    n_labels = P.shape[1]
    others = np.empty(n_labels + 2)
    for i in range(P.shape[0]):
        p = P[i]
        last = max(_last_size(p), 1)
        # B_K, and from it e_K(m) for m = 1..2 K.
        others[0], size = 1.0, 1
        for label in range(last, n_labels):
            size = _add_label(others, size, p[label])
        inverse = np.empty(2 * last + 1)
        for m in range(1, 2 * last + 1):
            e = 0.0
            for b in range(size):
                e += others[b] / (m + b)
            inverse[m] = e
        # P(A_k = a) of every k up to K.
        table = np.zeros((last + 1, last + 1))
        table[0, 0] = 1.0
        for k in range(1, last + 1):
            table[k, 0] = table[k - 1, 0] * (1.0 - p[k - 1])
            for a in range(1, k + 1):
                table[k, a] = table[k - 1, a] * (1.0 - p[k - 1]) + table[k - 1, a - 1] * p[k - 1]
        best, best_size = -1.0, 1
        for k in range(last, 0, -1):
            value = 0.0
            for a in range(1, k + 1):
                value += 2.0 * a * table[k, a] * inverse[k + a]
            if value >= best:
                best, best_size = value, k
            for m in range(1, 2 * k - 1):
                inverse[m] += p[k - 1] * (inverse[m + 1] - inverse[m])
        sizes[i], values[i] = best_size, best
