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
from ._rows import row_axpy, row_axpy_label, row_dot_label, row_gemv, row_ger


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


class LabelSplit(NamedTuple):
    """One label that R does not couple.

    A (n,).  signs int8 (n,).  z (d, 1): X^T (S o A) R_ll.  T (L,), slack (G,): U T.  beta (G,): multipliers + cost.
    cost (G,): of the rows of each set.
    """

    A: np.ndarray
    signs: np.ndarray
    z: np.ndarray
    T: np.ndarray
    slack: np.ndarray
    beta: np.ndarray
    cost: np.ndarray


class SplitSets(NamedTuple):
    """What all labels share.

    sqnorm (n,): ||x_i||^2.  row_set int (n,).  rho (G,).  indptr, indices int: CSR of the labels that are on in a set.
    """

    sqnorm: np.ndarray
    row_set: np.ndarray
    rho: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray


@kernel
def prml_split_label(X, r, label, one, sets, inverse, state, count, visit_all, keep, relax):
    """Iterations of V, T and multipliers for one label with R_ll = r; the rows it needs no more cost nothing.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    r : float
    label : int
    one : LabelSplit, updated
    sets : SplitSets
    inverse : ndarray (L, L), (gamma2 I + U^T diag(rho) U)^-1, zero where T has to be
    state : uint64 ndarray (4,), random state
    count : int, iterations
    visit_all : int, all rows are visited every so many passes
    keep : float, rows at zero with a gradient above this are not visited until all are
    relax : float, over-relaxation of the slacks
    """
    A, signs, z, T, slack, beta, cost = one
    sqnorm, row_set, rho, indptr, indices = sets
    n_samples, n_sets, n_labels = A.shape[0], rho.shape[0], T.shape[0]
    rows = np.arange(n_samples).astype(np.int32)
    totals, offset, right = np.zeros(n_sets), np.empty(n_sets), np.empty((1, n_labels))
    inverse_rho = 1.0 / rho
    for i in range(n_samples):
        totals[row_set[i]] += A[i]
    n_left = n_samples
    for iteration in range(count):
        if iteration % visit_all == 0:
            n_left = n_samples
        for g in range(n_sets):
            offset[g] = slack[g] - beta[g] * inverse_rho[g]
        shuffle(state, rows, n_left)
        position = 0
        while position < n_left:
            i = rows[position]
            g, sign, old = row_set[i], signs[i], A[i]
            margin = sign * row_dot_label(X, i, z, 0) - 1.0
            u = offset[g] + totals[g] * inverse_rho[g]
            gradient = margin + max(u, 0.0)
            if old <= 0.0 and gradient >= 0.0:
                if gradient > keep:
                    n_left -= 1
                    rows[position], rows[n_left] = rows[n_left], i
                else:
                    position += 1
                continue
            curvature = sqnorm[i] * r
            change = -(margin + u) / (curvature + inverse_rho[g])
            if u + change * inverse_rho[g] < 0.0 and curvature > 0.0:  # the slack comes to rest at zero
                change = -margin / curvature
            change = max(change, -old)
            if change != 0.0:
                A[i] = old + change
                totals[g] += change
                row_axpy_label(sign * change * r, X, i, z, 0)
            position += 1
        # From here on offset is the new slack, over-relaxed; then T = inverse U^T (beta - cost + rho xi).
        right[:] = 0.0
        everything = 0.0
        for g in range(n_sets):
            xi = max(offset[g] + totals[g] * inverse_rho[g], 0.0)
            offset[g] = relax * xi + (1.0 - relax) * slack[g]
            weight = beta[g] - cost[g] + rho[g] * offset[g]
            everything += weight
            for k in range(indptr[g], indptr[g + 1]):
                right[0, indices[k]] += weight
        for k in range(n_labels):
            right[0, k] = 2.0 * right[0, k] - everything
        right[0, label] = everything
        row_gemv(right, 0, inverse, T)
        # U T: signs are 2 on - 1, the label's own element is the constant.
        below = 0.0
        for k in range(n_labels):
            below += T[k]
        below -= T[label]
        for g in range(n_sets):
            total = 0.0
            for k in range(indptr[g], indptr[g + 1]):
                total += T[indices[k]] if indices[k] != label else 0.0
            slack[g] = 2.0 * total - below + T[label]
            beta[g] += rho[g] * (offset[g] - slack[g])
