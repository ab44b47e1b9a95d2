"""Row-block dual coordinate descent for linear M3L.

    max  D(A) = 2 sum t_il A_il - 2 tr(V R V^T),   V = X^T (S o A),   0 <= A_il <= U_il,
    U_il = row_upper_i label_upper[S_il > 0, l],   Z = 2 V R

For row i all labels share one product with x_i, contiguous in memory. With G_il = S_il (x_i^T Z)_l - t_il and
q_i = ||x_i||^2 the exact step along A_il is A_il <- clip(A_il - G_il / (2 q_i R_ll), 0, U_il); it changes the scores
of the row by 2 q_i S_il R_l. Three kernels, by the form of R: diagonal, general (dense or CSR), and R = F F^T of low
rank, where W = 2 V F stands for Z = W F^T. Where labels are coupled, those of a row are visited in random order: always
in the same order it takes two to three times as many passes.

Shrinking follows LIBLINEAR, label by label: (i, l) leaves the active set when A_il sits at a bound and G_il points
outwards by more than the largest violation of the pass before.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ._jit import kernel
from ._random import random_below, shuffle
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
def _coordinate(old, gradient, upper, curvature, lowest, highest):
    """New value of one dual variable, and its projected gradient: NaN when the variable is to be shrunk.

    Numbers only: an array, let alone a tuple of them, would cost its reference counts in every call.
    """
    projected = gradient
    if old <= 0.0:
        if gradient > highest or upper <= 0.0:
            return old, np.nan
        projected = min(gradient, 0.0)
    elif old >= upper:
        if gradient < lowest:
            return old, np.nan
        projected = max(gradient, 0.0)
    if projected == 0.0:
        return old, 0.0
    if curvature <= 0.0:  # an empty row, or a label R does not know: the score stays 0 and the loss is paid
        return (upper if gradient < 0.0 else 0.0), projected
    return min(max(old - gradient / curvature, 0.0), upper), projected


@kernel
def _begin(rows, count, state, gap_parts, n_labels):
    """Shuffle the active rows; returns where the pass collects its smallest and largest projected gradients."""
    shuffle(state, rows, count[-1])
    gap_parts[:] = 0.0
    found = np.empty((2, n_labels))
    found[0] = np.inf
    found[1] = -np.inf
    return found


@kernel
def _close_row(rows, count, position, n_left):
    """Store the active labels of the row at ``position``; returns the position of the next row."""
    i = rows[position]
    count[i] = n_left
    if n_left > 0:
        return position + 1
    count[-1] -= 1
    rows[position] = rows[count[-1]]
    rows[count[-1]] = i
    return position


@kernel
def _end(bounds, found):
    """Bounds for the next pass, by LIBLINEAR's rule: one of the wrong sign would shrink what is still moving."""
    for label in range(found.shape[1]):
        bounds[0, label] = found[0, label] if found[0, label] < 0.0 else -np.inf
        bounds[1, label] = found[1, label] if found[1, label] > 0.0 else np.inf


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
    A, S, targets, row_upper, label_upper, sqnorm = dual
    rows, labels, count, bounds, state = active
    has_targets = targets.shape[0] > 0
    n_labels = Z.shape[1]
    found = _begin(rows, count, state, gap_parts, n_labels)
    scores = np.empty(n_labels)
    steps = np.zeros(n_labels)
    position = 0
    while position < count[-1]:
        i = rows[position]
        n_left = count[i]
        # Few active labels: strided products with those; otherwise all labels at once, contiguously.
        few = 8 * n_left < n_labels
        if not few:
            row_gemv(X, i, Z, scores)
        moved = False
        k = 0
        while k < n_left:
            label = labels[i, k]
            sign = S[i, label]
            old = A[i, label]
            upper = row_upper[i] * label_upper[1 if sign > 0 else 0, label]
            score = row_dot_label(X, i, Z, label) if few else scores[label]
            gradient = sign * score - (targets[i, label] if has_targets else 1.0)
            gap_parts[label] += 2.0 * gradient * (old if gradient >= 0.0 else old - upper)
            curvature = 2.0 * sqnorm[i] * r[label]
            new, projected = _coordinate(old, gradient, upper, curvature, bounds[0, label], bounds[1, label])
            if np.isnan(projected):
                n_left -= 1
                labels[i, k] = labels[i, n_left]
                labels[i, n_left] = label
                continue
            found[0, label] = min(found[0, label], projected)
            found[1, label] = max(found[1, label], projected)
            if new != old:
                A[i, label] = new
                step = 2.0 * sign * r[label] * (new - old)
                if few:
                    row_axpy_label(step, X, i, Z, label)
                else:
                    steps[label] = step
                    moved = True
            k += 1
        if moved:
            row_ger(X, i, steps, Z)
            steps[:] = 0.0
        position = _close_row(rows, count, position, n_left)
    _end(bounds, found)


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
    A, S, targets, row_upper, label_upper, sqnorm = dual
    rows, labels, count, bounds, state = active
    has_targets = targets.shape[0] > 0
    n_labels = Z.shape[1]
    found = _begin(rows, count, state, gap_parts, n_labels)
    scores = np.empty(n_labels)
    steps = np.zeros(n_labels)
    position = 0
    while position < count[-1]:
        i = rows[position]
        n_left = count[i]
        row_gemv(X, i, Z, scores)
        moved = False
        k = 0
        while k < n_left:
            chosen = k + random_below(state, n_left - k)
            label = labels[i, chosen]
            labels[i, chosen] = labels[i, k]
            labels[i, k] = label
            sign = S[i, label]
            old = A[i, label]
            upper = row_upper[i] * label_upper[1 if sign > 0 else 0, label]
            score = scores[label]
            gradient = sign * score - (targets[i, label] if has_targets else 1.0)
            gap_parts[label] += 2.0 * gradient * (old if gradient >= 0.0 else old - upper)
            curvature = 2.0 * sqnorm[i] * diagonal[label]
            new, projected = _coordinate(old, gradient, upper, curvature, bounds[0, label], bounds[1, label])
            if np.isnan(projected):
                n_left -= 1
                labels[i, k] = labels[i, n_left]
                labels[i, n_left] = label
                continue
            found[0, label] = min(found[0, label], projected)
            found[1, label] = max(found[1, label], projected)
            if new != old:
                A[i, label] = new
                step = 2.0 * sign * (new - old)
                row_axpy(step, R, label, steps)
                row_axpy(step * sqnorm[i], R, label, scores)
                moved = True
            k += 1
        if moved:
            row_ger(X, i, steps, Z)
            steps[:] = 0.0
        position = _close_row(rows, count, position, n_left)
    _end(bounds, found)


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
    A, S, targets, row_upper, label_upper, sqnorm = dual
    rows, labels, count, bounds, state = active
    has_targets = targets.shape[0] > 0
    rank = F.shape[1]
    found = _begin(rows, count, state, gap_parts, F.shape[0])
    hidden = np.empty(rank)  # x_i^T W
    steps = np.zeros(rank)
    position = 0
    while position < count[-1]:
        i = rows[position]
        n_left = count[i]
        row_gemv(X, i, W, hidden)
        moved = False
        k = 0
        while k < n_left:
            chosen = k + random_below(state, n_left - k)
            label = labels[i, chosen]
            labels[i, chosen] = labels[i, k]
            labels[i, k] = label
            sign = S[i, label]
            old = A[i, label]
            upper = row_upper[i] * label_upper[1 if sign > 0 else 0, label]
            score = 0.0
            for h in range(rank):
                score += hidden[h] * F[label, h]
            gradient = sign * score - (targets[i, label] if has_targets else 1.0)
            gap_parts[label] += 2.0 * gradient * (old if gradient >= 0.0 else old - upper)
            curvature = 2.0 * sqnorm[i] * diagonal[label]
            new, projected = _coordinate(old, gradient, upper, curvature, bounds[0, label], bounds[1, label])
            if np.isnan(projected):
                n_left -= 1
                labels[i, k] = labels[i, n_left]
                labels[i, n_left] = label
                continue
            found[0, label] = min(found[0, label], projected)
            found[1, label] = max(found[1, label], projected)
            if new != old:
                A[i, label] = new
                step = 2.0 * sign * (new - old)
                row_axpy(step, F, label, steps)
                row_axpy(step * sqnorm[i], F, label, hidden)
                moved = True
            k += 1
        if moved:
            row_ger(X, i, steps, W)
            steps[:] = 0.0
        position = _close_row(rows, count, position, n_left)
    _end(bounds, found)


@kernel
def m3l_dual_average(X, dual, V):
    """Add X^T (S o A) to V (d, L); rows without a positive A_il cost nothing.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    dual : Dual
    V : ndarray (d, L)
    """
    A, S = dual.A, dual.S
    n_samples, n_labels = A.shape
    signed = np.empty(n_labels)
    for i in range(n_samples):
        any_positive = False
        for label in range(n_labels):
            signed[label] = S[i, label] * A[i, label]
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
    A, S, targets, row_upper, label_upper, _ = dual
    n_samples, n_labels = A.shape
    has_targets = targets.shape[0] > 0
    scores = np.empty(n_labels)
    recent = np.zeros((2, n_labels))  # summed apart, so that rounding grows with n / 1024 and not with n
    sums[:] = 0.0
    for i in range(n_samples):
        row_gemv(X, i, Z, scores)
        for label in range(n_labels):
            target = targets[i, label] if has_targets else 1.0
            loss = target - S[i, label] * scores[label]
            if loss > 0.0:
                recent[0, label] += row_upper[i] * label_upper[1 if S[i, label] > 0 else 0, label] * loss
            recent[1, label] += target * A[i, label]
        if i % 1024 == 1023 or i == n_samples - 1:
            sums += recent
            recent[:] = 0.0
