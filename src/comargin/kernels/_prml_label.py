r"""Iterations with split slacks, and their certificate, for one label that R does not couple.

The problem of ``_prml_split`` with a diagonal R: coordinate descent over the rows that matter, T by least squares, the
multipliers. Which rows matter is found by the certificate, which has the margins of all of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._jit import kernel
from ._random import shuffle
from ._rows import row_axpy, row_dot, row_gemv


class LabelSplit(NamedTuple):
    """The variables of the label.

    A (n,).  signs int8 (n,).  v (d,): X^T (S o A).  T (L,), slack (G,): U T.  beta (G,): multipliers + cost.
    cost (G,): of the rows of each set.  totals (G,): sums of A over the rows of each set.
    """

    A: np.ndarray
    signs: np.ndarray
    v: np.ndarray
    T: np.ndarray
    slack: np.ndarray
    beta: np.ndarray
    cost: np.ndarray
    totals: np.ndarray


class SplitSets(NamedTuple):
    """What all labels share.

    sqnorm (n,): ||x_i||^2.  row_set int (n,).  rho (G,).  indptr, indices int: CSR of the labels that are on in a set.
    """

    sqnorm: np.ndarray
    row_set: np.ndarray
    rho: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray


class SplitInverse(NamedTuple):
    """(gamma2 I + U^T diag(rho) U)^-1 = common - pair^T small pair, zero where T has to be.

    common (L, L).  pair (2, L).  small (2, 2).
    """

    common: np.ndarray
    pair: np.ndarray
    small: np.ndarray


class SlackPrices(NamedTuple):
    """What privileged weights of the label cost, each (L,).

    used: 1.0 for places of T that the label may use, else 0.0.  linear: U^T cost.  lift: raises every slack by at least
    1.  price: cost of the rows in which each label is on; infinite for labels that cannot raise a slack of their own.
    """

    used: np.ndarray
    linear: np.ndarray
    lift: np.ndarray
    price: np.ndarray


@kernel
def prml_split_label(X, r, label, one, sets, inverse, state, rows, count, sweeps, relax):
    """Iterations of V, T and multipliers for one label with R_ll = r; only the given rows are visited.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    r : float
    label : int
    one : LabelSplit, updated
    sets : SplitSets
    inverse : SplitInverse
    state : uint64 ndarray (4,), random state
    rows : int32 ndarray (m,), the rows to visit, all with A > 0 among them; shuffled
    count : int, iterations
    sweeps : int, passes over the rows in each
    relax : float, over-relaxation of the slacks
    """
    A, signs, v, T, slack, beta, cost, totals = one
    sqnorm, row_set, rho, indptr, indices = sets
    common, pair, small = inverse
    n_sets, n_labels = rho.shape[0], T.shape[0]
    offset, right = np.empty(n_sets), np.empty((1, n_labels))
    inverse_rho = 1.0 / rho
    for _ in range(count):
        for g in range(n_sets):
            offset[g] = slack[g] - beta[g] * inverse_rho[g]
        for _ in range(sweeps):
            shuffle(state, rows, rows.shape[0])
            for position in range(rows.shape[0]):
                i = rows[position]
                g, sign, old = row_set[i], signs[i], A[i]
                margin = sign * r * row_dot(X, i, v) - 1.0
                u = offset[g] + totals[g] * inverse_rho[g]
                if old <= 0.0 and margin + max(u, 0.0) >= 0.0:
                    continue
                curvature = sqnorm[i] * r
                change = -(margin + u) / (curvature + inverse_rho[g])
                if u + change * inverse_rho[g] < 0.0 and curvature > 0.0:  # the slack comes to rest at zero
                    change = -margin / curvature
                change = max(change, -old)
                if change != 0.0:
                    A[i] = old + change
                    totals[g] += change
                    row_axpy(sign * change, X, i, v)
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
        first, second = 0.0, 0.0
        for k in range(n_labels):
            right[0, k] = 2.0 * right[0, k] - everything if k != label else everything
            first += pair[0, k] * right[0, k]
            second += pair[1, k] * right[0, k]
        first, second = small[0, 0] * first + small[0, 1] * second, small[1, 0] * first + small[1, 1] * second
        row_gemv(right, 0, common, T)
        # U T: signs are 2 on - 1, the label's own element is the constant.
        below = 0.0
        for k in range(n_labels):
            T[k] -= first * pair[0, k] + second * pair[1, k]
            below += T[k] if k != label else -T[k]
        for g in range(n_sets):
            total = 0.0
            for k in range(indptr[g], indptr[g + 1]):
                total += T[indices[k]] if indices[k] != label else 0.0
            slack[g] = 2.0 * total - below
            beta[g] += rho[g] * (offset[g] - slack[g])


@kernel
def prml_label_certificate(X, r, gamma2, label, one, sets, prices, keep, shares, rows, T_found):
    """Objectives of one label: of its dual variables, and of the best feasible point found near V and T.

    V and T are scaled up by so much that a share of what the margins lack is gone; what slacks lack then is added to T.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    r, gamma2 : float
    label : int
    one : LabelSplit; v and totals are computed anew
    sets : SplitSets
    prices : SlackPrices
    keep : float, rows whose constraint holds by less than this are to be visited
    shares : ndarray, of the lacking margins, below 1
    rows : int32 ndarray (n,), gets the rows to visit
    T_found : ndarray (L,), gets T of the feasible point

    Returns
    -------
    n_rows : int, rows to visit
    dual, primal : float
    scale : float, the feasible point has V = scale v
    """
    A, signs, v, T, slack, beta, cost, totals = one
    _, row_set, rho, indptr, indices = sets
    used, linear, lift, price = prices
    n_samples, n_sets, n_labels = A.shape[0], rho.shape[0], T.shape[0]
    v[:] = 0.0
    totals[:] = 0.0
    dual = 0.0
    for i in range(n_samples):
        if A[i] > 0.0:
            dual += A[i]
            totals[row_set[i]] += A[i]
            row_axpy(signs[i] * A[i], X, i, v)
    squared = 0.0
    for k in range(v.shape[0]):
        squared += v[k] * v[k]
    squared *= r
    # gamma2 T = U^T (sum A + B - cost), B = beta - sum A where that is positive.
    weights, everything = np.zeros(n_labels), 0.0
    for g in range(n_sets):
        weight = max(beta[g], totals[g]) - cost[g]
        everything += weight
        for k in range(indptr[g], indptr[g + 1]):
            weights[indices[k]] += weight
    for k in range(n_labels):
        weight = used[k] * (2.0 * weights[k] - everything if k != label else everything)
        dual -= 0.5 * weight * weight / gamma2
    dual -= 0.5 * squared
    worst, n_rows = np.full(n_sets, np.inf), 0
    for i in range(n_samples):
        g = row_set[i]
        margin = signs[i] * r * row_dot(X, i, v)
        worst[g] = min(worst[g], margin)
        if A[i] > 0.0 or margin - 1.0 + max(slack[g], 0.0) < keep:
            rows[n_rows] = i
            n_rows += 1
    short = 0.0
    for g in range(n_sets):
        short = max(short, 1.0 - worst[g] - max(slack[g], 0.0))
    primal, best_scale = np.inf, 1.0
    missing, lifts = np.empty(n_sets), np.empty(n_labels)
    for share in shares:
        if share * short >= 1.0:
            continue
        scale = 1.0 / (1.0 - share * short)
        for g in range(n_sets):
            missing[g] = max(1.0 - scale * worst[g], 0.0) - scale * slack[g]
        raise_slacks(missing, label, indptr, indices, lift, price, lifts)
        value = 0.5 * scale * scale * squared
        for k in range(n_labels):
            lifts[k] += scale * T[k]
            value += lifts[k] * (linear[k] + 0.5 * gamma2 * lifts[k])
        if value < primal:
            primal, best_scale = value, scale
            T_found[:] = lifts
    return n_rows, dual, primal, best_scale


@kernel
def prml_raise(missing, labels, indptr, indices, lift, price, change):
    """Changes of T that raise the slacks by what they lack, label by label.

    Parameters
    ----------
    missing : ndarray (m, G)
    labels : int ndarray (m,)
    indptr, indices : int ndarrays, CSR of the labels that are on in a set
    lift, price : ndarrays (m, L), as in ``SlackPrices``
    change : ndarray (m, L), gets the changes
    """
    for k in range(labels.shape[0]):
        raise_slacks(missing[k], labels[k], indptr, indices, lift[k], price[k], change[k])


@kernel
def raise_slacks(missing, label, indptr, indices, lift, price, change):
    """A change of T that raises the slack of every set by what it lacks, mostly through labels that are on in few rows.

    Half of a raise goes to the label and half to the constant, so that slacks of sets without it stay. The cheapest
    label of each set gives what those raised before do not; sets without such a label are raised with all others.

    Parameters
    ----------
    missing : ndarray (G,), what each set lacks
    label : int, whose slacks these are
    indptr, indices : int ndarrays, CSR of the labels that are on in a set
    lift, price : ndarrays (L,), as in ``SlackPrices``
    change : ndarray (L,), gets the change
    """
    n_sets, n_labels = missing.shape[0], change.shape[0]
    base = 0.0
    for g in range(n_sets):
        if missing[g] > base:
            alone = True
            for k in range(indptr[g], indptr[g + 1]):
                alone = alone and price[indices[k]] == np.inf
            if alone:
                base = missing[g]
    change[:] = 0.0
    for g in range(n_sets):
        lacking = missing[g] - base
        if lacking <= 0.0:
            continue
        cheapest = -1
        for k in range(indptr[g], indptr[g + 1]):
            other = indices[k]
            if price[other] < np.inf:
                lacking -= change[other]
                if cheapest < 0 or price[other] < price[cheapest]:
                    cheapest = other
        if lacking > 0.0:
            change[cheapest] += lacking
    constant = 0.0
    for k in range(n_labels):
        change[k] *= 0.5
        constant += change[k]
    for k in range(n_labels):
        change[k] += base * lift[k]
    change[label] += constant
