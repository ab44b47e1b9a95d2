"""Row-block dual coordinate descent for linear M3L.

    max  D(A) = 2 sum t_il A_il - 2 tr(V R V^T),   V = X^T (S o A),   0 <= A_il <= U_il,
    U_il = row_upper_i label_upper[S_il > 0, l],   Z = 2 V R

For row i all labels share one product with x_i, contiguous in memory. With G_il = S_il (x_i^T Z)_l - t_il and
q_i = ||x_i||^2 the exact step along A_il is A_il <- clip(A_il - G_il / (2 q_i R_ll), 0, U_il); it changes the scores
of the row by 2 q_i S_il R_l. Three kernels, by the form of R: diagonal, general (dense or CSR), and R = F F^T of low
rank, where W = 2 V F stands for Z = W F^T.

Shrinking follows LIBLINEAR, label by label: (i, l) leaves the active set when A_il sits at a bound and G_il points
outwards by more than the largest violation of the pass before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._jit import kernel
from ._random import shuffle
from ._rows import row_axpy, row_axpy_label, row_dot_label, row_gemv, row_ger


class Dual(NamedTuple):
    """The dual variables of some labels and what bounds them.

    A (n, L): the variables.  S int8 (n, L): signs -1 / +1.  targets (n, L), or (0, 0) when every t_il is 1.
    row_upper (n,), label_upper (2, L): factors of U, the latter for negatives and positives.  sqnorm (n,): ||x_i||^2.
    """

    A: np.ndarray
    S: np.ndarray
    targets: np.ndarray
    row_upper: np.ndarray
    label_upper: np.ndarray
    sqnorm: np.ndarray


class Active(NamedTuple):
    """What is still visited.

    rows int32 (n,): active rows first.  labels int32 (n, L): active labels of each row first.  count int32 (n + 1,):
    active labels of each row, and last the number of active rows.  bounds (2, L): smallest and largest projected
    gradient of the pass before.  state uint64 (4,): random state.
    """

    rows: np.ndarray
    labels: np.ndarray
    count: np.ndarray
    bounds: np.ndarray
    state: np.ndarray


@kernel
def _upper(dual, i, label):
    return dual.row_upper[i] * dual.label_upper[1 if dual.S[i, label] > 0 else 0, label]


@kernel
def _target(dual, i, label):
    return dual.targets[i, label] if dual.targets.shape[0] > 0 else 1.0


@kernel
def _visit(dual, active, found, i, label, score, curvature, gap_parts):
    """Step along A_il, given the score z_l . x_i; returns the change of A_il, or NaN when (i, l) is to be shrunk.

    ``found`` (2, L) collects the smallest and largest projected gradient, ``gap_parts`` (L,) the parts of the duality
    gap, 2 (A_il G_il if G_il >= 0 else (A_il - U_il) G_il).
    """
    upper = _upper(dual, i, label)
    if upper <= 0.0:  # weighs nothing
        return np.nan
    old = dual.A[i, label]
    gradient = dual.S[i, label] * score - _target(dual, i, label)
    gap_parts[label] += 2.0 * gradient * (old if gradient >= 0.0 else old - upper)
    projected = gradient
    if old <= 0.0:
        if gradient > active.bounds[1, label]:
            return np.nan
        projected = min(gradient, 0.0)
    elif old >= upper:
        if gradient < active.bounds[0, label]:
            return np.nan
        projected = max(gradient, 0.0)
    found[0, label] = min(found[0, label], projected)
    found[1, label] = max(found[1, label], projected)
    if projected == 0.0:
        return 0.0
    if curvature <= 0.0:  # an empty row, or a label R does not know: the score stays 0 and the loss is paid
        new = upper if gradient < 0.0 else 0.0
    else:
        new = min(max(old - gradient / curvature, 0.0), upper)
    dual.A[i, label] = new
    return new - old


@kernel
def _begin(active, gap_parts, n_labels):
    """Shuffle the active rows; returns the fresh ``found`` of ``_visit``."""
    shuffle(active.state, active.rows, active.count[-1])
    gap_parts[:] = 0.0
    found = np.empty((2, n_labels))
    found[0] = np.inf
    found[1] = -np.inf
    return found


@kernel
def _shrink_label(active, i, k, count):
    """Move the k-th active label of row i behind the active ones; returns how many are left."""
    count -= 1
    label = active.labels[i, k]
    active.labels[i, k] = active.labels[i, count]
    active.labels[i, count] = label
    return count


@kernel
def _close_row(active, position, count):
    """Store the active labels of the row at ``position``; returns the position of the next row."""
    i = active.rows[position]
    active.count[i] = count
    if count > 0:
        return position + 1
    active.count[-1] -= 1
    active.rows[position] = active.rows[active.count[-1]]
    active.rows[active.count[-1]] = i
    return position


@kernel
def _end(active, found):
    """Bounds for the next pass, by LIBLINEAR's rule: one of the wrong sign would shrink what is still moving."""
    for label in range(found.shape[1]):
        active.bounds[0, label] = found[0, label] if found[0, label] < 0.0 else -np.inf
        active.bounds[1, label] = found[1, label] if found[1, label] > 0.0 else np.inf


@kernel
def m3l_diagonal_epoch(X, r, dual, active, Z, gap_parts):
    """One pass over the active rows with R = diag(r); updates the dual, the active set and Z = 2 X^T (S o A) R.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    r : ndarray (L,), diagonal of R
    dual : Dual
    active : Active
    Z : ndarray (d, L)
    gap_parts : ndarray (L,), written: parts of the duality gap at the margins met on the way
    """
    n_labels = Z.shape[1]
    found = _begin(active, gap_parts, n_labels)
    scores = np.empty(n_labels)
    steps = np.zeros(n_labels)
    position = 0
    while position < active.count[-1]:
        i = active.rows[position]
        count = active.count[i]
        # Few active labels: strided products with those; otherwise all labels at once, contiguously.
        few = 8 * count < n_labels
        if not few:
            row_gemv(X, i, Z, scores)
        moved = False
        k = 0
        while k < count:
            label = active.labels[i, k]
            score = row_dot_label(X, i, Z, label) if few else scores[label]
            change = _visit(dual, active, found, i, label, score, 2.0 * dual.sqnorm[i] * r[label], gap_parts)
            if np.isnan(change):
                count = _shrink_label(active, i, k, count)
                continue
            if change != 0.0:
                step = 2.0 * dual.S[i, label] * r[label] * change
                if few:
                    row_axpy_label(step, X, i, Z, label)
                else:
                    steps[label] = step
                    moved = True
            k += 1
        if moved:
            row_ger(X, i, steps, Z)
            steps[:] = 0.0
        position = _close_row(active, position, count)
    _end(active, found)


@kernel
def m3l_coupled_epoch(X, R, diagonal, dual, active, Z, gap_parts):
    """One pass over the active rows with any R; updates the dual, the active set and Z = 2 X^T (S o A) R.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    R : ndarray (L, L) or CSR
    diagonal : ndarray (L,), of R
    dual : Dual
    active : Active
    Z : ndarray (d, L)
    gap_parts : ndarray (L,), written: parts of the duality gap at the margins met on the way
    """
    n_labels = Z.shape[1]
    found = _begin(active, gap_parts, n_labels)
    scores = np.empty(n_labels)
    steps = np.zeros(n_labels)
    position = 0
    while position < active.count[-1]:
        i = active.rows[position]
        count = active.count[i]
        row_gemv(X, i, Z, scores)
        moved = False
        k = 0
        while k < count:
            label = active.labels[i, k]
            curvature = 2.0 * dual.sqnorm[i] * diagonal[label]
            change = _visit(dual, active, found, i, label, scores[label], curvature, gap_parts)
            if np.isnan(change):
                count = _shrink_label(active, i, k, count)
                continue
            if change != 0.0:
                step = 2.0 * dual.S[i, label] * change
                row_axpy(step, R, label, steps)
                row_axpy(step * dual.sqnorm[i], R, label, scores)
                moved = True
            k += 1
        if moved:
            row_ger(X, i, steps, Z)
            steps[:] = 0.0
        position = _close_row(active, position, count)
    _end(active, found)


@kernel
def m3l_factor_epoch(X, F, diagonal, dual, active, W, gap_parts):
    """One pass over the active rows with R = F F^T; updates the dual, the active set and W = 2 X^T (S o A) F.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    F : ndarray (L, k)
    diagonal : ndarray (L,), of R
    dual : Dual
    active : Active
    W : ndarray (d, k)
    gap_parts : ndarray (L,), written: parts of the duality gap at the margins met on the way
    """
    rank = F.shape[1]
    found = _begin(active, gap_parts, F.shape[0])
    hidden = np.empty(rank)  # x_i^T W
    steps = np.zeros(rank)
    position = 0
    while position < active.count[-1]:
        i = active.rows[position]
        count = active.count[i]
        row_gemv(X, i, W, hidden)
        moved = False
        k = 0
        while k < count:
            label = active.labels[i, k]
            score = 0.0
            for h in range(rank):
                score += hidden[h] * F[label, h]
            curvature = 2.0 * dual.sqnorm[i] * diagonal[label]
            change = _visit(dual, active, found, i, label, score, curvature, gap_parts)
            if np.isnan(change):
                count = _shrink_label(active, i, k, count)
                continue
            if change != 0.0:
                step = 2.0 * dual.S[i, label] * change
                row_axpy(step, F, label, steps)
                row_axpy(step * dual.sqnorm[i], F, label, hidden)
                moved = True
            k += 1
        if moved:
            row_ger(X, i, steps, W)
            steps[:] = 0.0
        position = _close_row(active, position, count)
    _end(active, found)


@kernel
def m3l_dual_average(X, dual, V):
    """Add X^T (S o A) to V (d, L); rows without a positive A_il cost nothing.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    dual : Dual
    V : ndarray (d, L)
    """
    n_samples, n_labels = dual.A.shape
    signed = np.empty(n_labels)
    for i in range(n_samples):
        any_positive = False
        for label in range(n_labels):
            signed[label] = dual.S[i, label] * dual.A[i, label]
            if signed[label] != 0.0:
                any_positive = True
        if any_positive:
            row_ger(X, i, signed, V)


@kernel
def m3l_sums(X, dual, Z, sums):
    """Per label: sum_i U_il max(0, t_il - S_il z_l . x_i), and sum_i t_il A_il.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    dual : Dual
    Z : ndarray (d, L)
    sums : ndarray (2, L), written
    """
    n_samples, n_labels = dual.A.shape
    scores = np.empty(n_labels)
    recent = np.zeros((2, n_labels))  # summed apart, so that rounding grows with n / 1024 and not with n
    sums[:] = 0.0
    for i in range(n_samples):
        row_gemv(X, i, Z, scores)
        for label in range(n_labels):
            target = _target(dual, i, label)
            loss = target - dual.S[i, label] * scores[label]
            if loss > 0.0:
                recent[0, label] += _upper(dual, i, label) * loss
            recent[1, label] += target * dual.A[i, label]
        if i % 1024 == 1023 or i == n_samples - 1:
            sums += recent
            recent[:] = 0.0
