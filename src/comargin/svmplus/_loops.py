r"""Dual coordinate descent for an SVM+ step whose slacks are held near given values.

    min  1/2 tr(V R V^T) + sum_gl beta_gl xi_gl + rho_g / 2 (xi_gl - c_gl)^2,   R = F F^T
    s.t. S_il x_i^T V R_l + xi_gl >= 1 for all rows i of set g,   xi >= 0

In its dual variables A >= 0 the slack of a set is xi = max(0, u + sum_{i in g} A_il / rho), u = c - beta / rho, and the
gradient along A_il is piecewise linear and increasing: G = S_il (x_i^T V R)_l - 1 + xi. Rows are visited as in M3L, all
labels of a row over one product x_i^T V F.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._jit import kernel
from ._random import random_below, shuffle
from ._rows import row_axpy, row_gemv, row_ger


class SplitDual(NamedTuple):
    """The dual variables and what they are bound to.

    A (n, L).  S int8 (n, L).  sqnorm (n,): ||x_i||^2.  row_set int (n,).  offset (G, L): u.  inverse (G,): 1 / rho.
    totals (G, L): sums of A over the rows of each set.
    """

    A: np.ndarray
    S: np.ndarray
    sqnorm: np.ndarray
    row_set: np.ndarray
    offset: np.ndarray
    inverse: np.ndarray
    totals: np.ndarray


class SplitActive(NamedTuple):
    """What is still visited.

    rows int32 (n,): in the order of the last pass.  labels int32 (n, L): active labels of each row first.  count int32
    (n,): how many of them.  state uint64 (4,): random state.
    """

    rows: np.ndarray
    labels: np.ndarray
    count: np.ndarray
    state: np.ndarray


@kernel
def prml_split_pass(X, F, diagonal, dual, active, N, keep):
    """One pass over the active variables; updates A, totals, the active set and N = X^T (S o A) F.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    F : ndarray (L, k)
    diagonal : ndarray (L,), of R
    dual : SplitDual
    active : SplitActive
    N : ndarray (d, k)
    keep : float, variables at zero with a gradient above this are not visited again
    """
    A, S, sqnorm, row_set, offset, inverse, totals = dual
    rows, labels, count, state = active
    rank = F.shape[1]
    hidden, steps = np.empty(rank), np.zeros(rank)
    shuffle(state, rows, rows.shape[0])
    for position in range(rows.shape[0]):
        i = rows[position]
        n_left = count[i]
        if n_left == 0:
            continue
        row_gemv(X, i, N, hidden)
        g = row_set[i]
        softness = inverse[g]
        moved = False
        k = 0
        while k < n_left:
            chosen = k + random_below(state, n_left - k)
            label = labels[i, chosen]
            labels[i, chosen] = labels[i, k]
            labels[i, k] = label
            sign = S[i, label]
            old = A[i, label]
            score = 0.0
            for h in range(rank):
                score += hidden[h] * F[label, h]
            margin = sign * score - 1.0
            u = offset[g, label] + totals[g, label] * softness
            gradient = margin + max(u, 0.0)
            if old <= 0.0 and gradient >= 0.0:
                if gradient > keep:
                    n_left -= 1
                    labels[i, k] = labels[i, n_left]
                    labels[i, n_left] = label
                else:
                    k += 1
                continue
            curvature = sqnorm[i] * diagonal[label]
            change = -(margin + u) / (curvature + softness)
            if u + change * softness < 0.0 and curvature > 0.0:  # the slack comes to rest at zero
                change = -margin / curvature
            change = max(change, -old)
            if change != 0.0:
                A[i, label] = old + change
                totals[g, label] += change
                row_axpy(sign * change, F, label, steps)
                row_axpy(sign * change * sqnorm[i], F, label, hidden)
                moved = True
            k += 1
        count[i] = n_left
        if moved:
            row_ger(X, i, steps, N)
            steps[:] = 0.0
