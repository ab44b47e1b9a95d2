# mypy: ignore-errors
r"""The compiled loop of SVM+: a pass of the splitting.

It is dual coordinate descent for a step whose slacks are held near given values c:

    min  1/2 tr(V R V^T) + sum_gl beta_gl xi_gl + rho_g / 2 (xi_gl - c_gl)^2,   R = F F^T or diagonal
    s.t. S_il x_i^T V R_l + xi_gl >= 1 for all rows i of set g,   xi >= 0

In its dual variables A >= 0 the slack of a set is xi = max(0, u + sum_{i in g} A_il / rho), u = c - beta / rho, and the
gradient along A_il is piecewise linear and increasing: G = S_il (x_i^T V R)_l - 1 + xi. Rows are visited as in M3L, all
labels of a row over one product x_i^T V F.
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled
from ..core.random_numbers import shuffle
from ..core.rows import row_axpy, row_gemv, row_ger


class SplitDual(NamedTuple):
    """The dual variables of a pass and what they are bound to."""

    A: np.ndarray  # (n, m)
    S: np.ndarray  # int8 (n, m): signs, 0 for pairs without a constraint
    sqnorm: np.ndarray  # (n,): ||x_i||^2
    row_set: np.ndarray  # int (n,)
    offset: np.ndarray  # (n_sets, m): u
    inverse: np.ndarray  # (n_sets,): 1 / rho
    totals: np.ndarray  # (n_sets, m): sums of A over the rows of each set


@compiled
def split_pass(X, F, diagonal, dual, rows, state, N):
    """One pass over all variables; updates A, totals, N = X^T (S o A) F and the order of the rows.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    F : ndarray (m, k), or (0, 0) where R is diagonal and N = X^T (S o A)
    diagonal : ndarray (m,), of R
    dual : SplitDual
    rows : int32 ndarray (n,), in the order of the last pass
    state : uint64 ndarray (4,), random state
    N : ndarray (d, k)
    """
    A, S, sqnorm, row_set, offset, inverse, totals = dual
    rank, coupled = N.shape[1], F.shape[0] > 0
    hidden, steps = np.empty(rank), np.zeros(rank)
    shuffle(state, rows, rows.shape[0])
    for position in range(rows.shape[0]):
        i = rows[position]
        row_gemv(X, i, N, hidden)
        g = row_set[i]
        softness = inverse[g]
        moved = False
        for label in range(S.shape[1]):
            sign, old = S[i, label], A[i, label]
            if sign == 0:
                continue
            score = 0.0
            if coupled:
                for h in range(rank):
                    score += hidden[h] * F[label, h]
            else:
                score = hidden[label] * diagonal[label]
            margin = sign * score - 1.0
            u = offset[g, label] + totals[g, label] * softness
            if old <= 0.0 and margin + max(u, 0.0) >= 0.0:
                continue
            curvature = sqnorm[i] * diagonal[label]
            change = -(margin + u) / (curvature + softness)
            if u + change * softness < 0.0 and curvature > 0.0:  # the slack comes to rest at zero
                change = -margin / curvature
            change = max(change, -old)
            if change != 0.0:
                A[i, label] = old + change
                totals[g, label] += change
                if coupled:
                    row_axpy(sign * change, F, label, steps)
                    row_axpy(sign * change * sqnorm[i], F, label, hidden)
                else:
                    steps[label] += sign * change
                moved = True
        if moved:
            row_ger(X, i, steps, N)
            steps[:] = 0.0


@compiled
def add_pairs(rows, weight, gram):
    """Add sum_g weight_g r_g r_g^T to ``gram`` (L, L), r_g the rows (CSR)."""
    data, indices, indptr = rows
    for g in range(weight.shape[0]):
        if weight[g] != 0.0:
            for a in range(indptr[g], indptr[g + 1]):
                value = weight[g] * data[a]
                for b in range(indptr[g], indptr[g + 1]):
                    gram[indices[a], indices[b]] += value * data[b]


@compiled
def signed_products(products, rows, signs, out):
    """Write the lower triangle of (s s^T) o K into ``out`` (p, p), K the ``products`` (n, n) of rows (p,)."""
    for a in range(rows.shape[0]):
        row = products[rows[a]]
        for b in range(a + 1):
            out[a, b] = signs[a] * signs[b] * row[rows[b]]


@compiled
def add_rows(X, signed, V):
    """Add X^T ``signed`` to V; rows of zeros, nearly all near the solution of a label, cost nothing."""
    own = np.empty(signed.shape[1])
    for i in range(signed.shape[0]):
        own[:] = signed[i]
        if own.any():
            row_ger(X, i, own, V)
