# mypy: ignore-errors
r"""Compiled loops of SVM+: a pass of the splitting, and raised slacks.

A pass is dual coordinate descent for a step whose slacks are held near given values c:

    min  1/2 tr(V R V^T) + sum_gl beta_gl xi_gl + rho_g / 2 (xi_gl - c_gl)^2,   R = F F^T or diagonal
    s.t. S_il x_i^T V R_l + xi_gl >= 1 for all rows i of set g,   xi >= 0

In its dual variables A >= 0 the slack of a set is xi = max(0, u + sum_{i in g} A_il / rho), u = c - beta / rho, and the
gradient along A_il is piecewise linear and increasing: G = S_il (x_i^T V R)_l - 1 + xi. Rows are visited as in M3L, all
labels of a row over one product x_i^T V F.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled
from ..core.random_numbers import shuffle
from ..core.rows import row_axpy, row_gemv, row_ger


class SplitDual(NamedTuple):
    """The dual variables of a pass and what they are bound to."""

    A: np.ndarray  # (n, m)
    S: np.ndarray  # int8 (n, m)
    sqnorm: np.ndarray  # (n,): ||x_i||^2
    row_set: np.ndarray  # int (n,)
    offset: np.ndarray  # (n_sets, m): u
    inverse: np.ndarray  # (n_sets,): 1 / rho
    totals: np.ndarray  # (n_sets, m): sums of A over the rows of each set


class SplitActive(NamedTuple):
    """The variables that are still visited."""

    rows: np.ndarray  # int32 (n,): in the order of the last pass
    labels: np.ndarray  # int32 (n, m): active labels of each row first
    count: np.ndarray  # int32 (n,): how many of them
    state: np.ndarray  # uint64 (4,): random state


@compiled
def split_pass(X, F, diagonal, dual, active, N, keep):
    """One pass over the active variables; updates A, totals, the active set and N = X^T (S o A) F.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    F : ndarray (m, k), or (0, 0) where R is diagonal and N = X^T (S o A)
    diagonal : ndarray (m,), of R
    dual : SplitDual
    active : SplitActive
    N : ndarray (d, k)
    keep : float, variables at zero with a gradient above this are not visited again
    """
    A, S, sqnorm, row_set, offset, inverse, totals = dual
    rows, labels, count, state = active
    rank, coupled = N.shape[1], F.shape[0] > 0
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
            label = labels[i, k]
            sign = S[i, label]
            old = A[i, label]
            score = 0.0
            if coupled:
                for h in range(rank):
                    score += hidden[h] * F[label, h]
            else:
                score = hidden[label] * diagonal[label]
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
                if coupled:
                    row_axpy(sign * change, F, label, steps)
                    row_axpy(sign * change * sqnorm[i], F, label, hidden)
                else:
                    steps[label] += sign * change
                moved = True
            k += 1
        count[i] = n_left
        if moved:
            row_ger(X, i, steps, N)
            steps[:] = 0.0


@compiled
def raise_slacks(missing, labels, indptr, indices, lift, price, change):
    """Changes of T that raise the slack of every set by what it lacks, mostly through labels that are on in few rows.

    Half of a raise goes to the label and half to the constant, so that slacks of sets without it stay. The cheapest
    label of each set gives what those raised before do not; sets without such a label are raised with all others.

    Parameters
    ----------
    missing : ndarray (m, n_sets), what each set lacks
    labels : int ndarray (m,), whose slacks these are
    indptr, indices : int ndarrays, CSR of the labels that are on in a set
    lift : ndarray (m, L), raises every slack by at least 1
    price : ndarray (m, L), cost of the rows in which a label is on; infinite for labels that cannot raise a slack
    change : ndarray (m, L), gets the changes
    """
    n_sets, n_labels = missing.shape[1], change.shape[1]
    for m in range(labels.shape[0]):
        base = 0.0
        for g in range(n_sets):
            if missing[m, g] > base:
                alone = True
                for k in range(indptr[g], indptr[g + 1]):
                    alone = alone and price[m, indices[k]] == np.inf
                if alone:
                    base = missing[m, g]
        change[m] = 0.0
        for g in range(n_sets):
            lacking = missing[m, g] - base
            if lacking <= 0.0:
                continue
            cheapest = -1
            for k in range(indptr[g], indptr[g + 1]):
                other = indices[k]
                if price[m, other] < np.inf:
                    lacking -= change[m, other]
                    if cheapest < 0 or price[m, other] < price[m, cheapest]:
                        cheapest = other
            if lacking > 0.0:
                change[m, cheapest] += lacking
        constant = 0.0
        for k in range(n_labels):
            change[m, k] *= 0.5
            constant += change[m, k]
        for k in range(n_labels):
            change[m, k] += base * lift[m, k]
        change[m, labels[m]] += constant
