# mypy: ignore-errors
"""Row-block dual coordinate descent for linear M3L.

For row i all labels share one product with x_i, contiguous in memory. With G_il = S_il (x_i^T Z)_l - t_il and
q_i = ||x_i||^2 the best step along A_il (of the hinge) is A_il <- clip(A_il - G_il / (2 q_i R_ll), 0, U_il), Eqs.
(37)-(39); we go RELAXATION times as far, which raises D too and saves passes. A step delta changes the scores of the
row by 2 q_i S_il delta R_l. There are two loops, for a diagonal R and for any other. Where labels are coupled, the loop
visits those of a row in random order: a fixed order takes two to three times as many passes.

Shrinking follows LIBLINEAR, label by label: (i, l) leaves the active set when A_il sits at a bound and G_il points
outwards by more than the largest violation of the pass before.
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled
from ..core.random_numbers import random_below, shuffle
from ..core.rows import row_axpy, row_axpy_label, row_dot, row_dot_label, row_gemv, row_ger
from ._loops_step import (
    LEAST_CURVATURE,
    TINY,
    coordinate,
    dual_raise,
    dual_slope,
    gap_part,
    leaves,
    logistic_step,
    loss_conjugate,
    loss_value,
    projected_slope,
    stepped,
)
from .losses import HINGE, Loss

# Of 1, 1.2 and 1.35 on five data sets with and without intercept and R: 1.2 takes up to a third fewer passes than 1 and
# never more; 1.35 is not better. Any value between 0 and 2 would converge.
RELAXATION = 1.2


class Dual(NamedTuple):
    """The dual variables of some labels and their bounds.

    A (n, L): the variables.  S int8 (n, L): signs -1 / +1, 0 where unknown.  targets (n, L), or (0, 0) when every t_il
    is loss.margin.  row_cost (n,), label_cost (2, L): factors of U, the latter for negatives and positives; U is 0
    where S is.  sqnorm (n,): ||x_i||^2.  loss: sets bounds and curvature of the variables for a given U.
    """

    A: np.ndarray
    S: np.ndarray
    targets: np.ndarray
    row_cost: np.ndarray
    label_cost: np.ndarray
    sqnorm: np.ndarray
    loss: Loss = HINGE


class Active(NamedTuple):
    """The active set.

    rows int32 (n,): active rows first.  labels int32 (n, L): active labels of each row first.  count int32 (n + 1,):
    active labels of each row, and last the number of active rows.  bounds (2, L): smallest and largest projected
    gradient of the pass before.  state uint64 (4,): random state.
    """

    rows: np.ndarray
    labels: np.ndarray
    count: np.ndarray
    bounds: np.ndarray
    state: np.ndarray


@compiled
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


@compiled
def _set_shrinking_bounds(bounds, smallest, largest):
    """Bounds of the next pass, by LIBLINEAR's rule: one of the wrong sign would shrink moving variables."""
    for label in range(smallest.shape[0]):
        bounds[0, label] = smallest[label] if smallest[label] < 0.0 else -np.inf
        bounds[1, label] = largest[label] if largest[label] > 0.0 else np.inf


@compiled
def m3l_diagonal_epoch(X, r, dual, active, Z, parts):
    """One pass over the active rows with R = diag(r); updates the dual, the active set and Z = 2 X^T (S o A) R.

    As long as many labels of a row are active, all of them step at once, in loops over contiguous labels that the
    compiler vectorises; a step of a variable at rest changes nothing. With few active labels left the row keeps their
    list.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    r : ndarray (L,), diagonal of R
    dual : Dual; A_il is the optimum where r_l or the row is 0, U phi'(t)
    active : Active
    Z : ndarray (d, at least L), float32 or float64; columns beyond L stay 0
    parts : ndarray (2, L), written: parts of the duality gap at the margins met on the way; the raise of the dual
    """
    A, S, targets, row_cost, label_cost, sqnorm, loss = dual
    rows, labels, count, bounds, state = active
    loss_curvature, loss_bound, margin = loss.curvature, loss.bound, loss.margin
    is_logistic = loss.is_logistic
    inverse_curvature = 1.0 / max(loss_curvature, LEAST_CURVATURE)
    has_targets = targets.shape[0] > 0
    n_labels, width = A.shape[1], Z.shape[1]
    shuffle(state, rows, count[-1])
    parts[:] = 0.0
    gaps, raised = parts[0], parts[1]
    smallest, largest = np.full(n_labels, np.inf), np.full(n_labels, -np.inf)
    lowest, highest = bounds[0].copy(), bounds[1].copy()
    inverse_r = np.zeros(n_labels)  # a label that R does not know stays where it is, as an empty row does
    for label in range(n_labels):
        if r[label] > 0.0:
            inverse_r[label] = 1.0 / r[label]
    negative, positive = label_cost[0].copy(), label_cost[1].copy()
    scores, steps = np.empty(width, dtype=Z.dtype), np.zeros(width, dtype=Z.dtype)
    gradient, change, upper = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    steepness, ridge, rate = np.empty(n_labels), np.zeros(n_labels), np.empty(n_labels)
    keep = np.empty(n_labels, dtype=np.int64)
    position = 0
    while position < count[-1]:
        i = rows[position]
        n_left = count[i]
        q = sqnorm[i]
        weight = row_cost[i]
        if n_left == n_labels:
            row_gemv(X, i, Z, scores)
            if has_targets:
                for label in range(n_labels):
                    gradient[label] = S[i, label] * scores[label] - targets[i, label]
            else:
                for label in range(n_labels):
                    gradient[label] = S[i, label] * scores[label] - margin
            for label in range(n_labels):
                cost = weight * abs(S[i, label]) * (positive[label] if S[i, label] > 0 else negative[label])
                upper[label] = loss_bound * cost
                steepness[label] = inverse_curvature * cost
            if is_logistic:  # no variable ever rests at a bound: all stay active
                for label in range(n_labels):
                    new, _, gap, gain = logistic_step(A[i, label], gradient[label], upper[label], 2.0 * q * r[label])
                    gaps[label] += gap
                    raised[label] += gain
                    steps[label] = 2.0 * S[i, label] * r[label] * (new - A[i, label])
                    A[i, label] = new
                row_ger(X, i, steps, Z)  # Eq. (40)
                position += 1
                continue
            if loss_curvature > 0.0:
                for label in range(n_labels):
                    ridge[label] = 1.0 / max(steepness[label], TINY)
                    rate[label] = RELAXATION / max(2.0 * q * r[label] + ridge[label], TINY)
            else:
                half_inverse = 0.5 * RELAXATION / q if q > 0.0 else 0.0
                for label in range(n_labels):
                    rate[label] = half_inverse * inverse_r[label]
            for label in range(n_labels):
                gaps[label] += gap_part(A[i, label], gradient[label], steepness[label], upper[label], ridge[label])
            for label in range(n_labels):
                gradient[label] = dual_slope(A[i, label], gradient[label], ridge[label])
            n_left = 0
            for label in range(n_labels):
                left = leaves(A[i, label], gradient[label], upper[label], lowest[label], highest[label])
                keep[label] = 0 if left else 1
                n_left += keep[label]
            for label in range(n_labels):
                change[label] = projected_slope(A[i, label], gradient[label], upper[label])
            for label in range(n_labels):
                smallest[label] = min(smallest[label], change[label])
                largest[label] = max(largest[label], change[label])
            for label in range(n_labels):
                old = A[i, label]
                A[i, label] = stepped(old, gradient[label], rate[label], upper[label])
                change[label] = A[i, label] - old
            moved = 0
            for label in range(n_labels):
                moved += 1 if change[label] != 0.0 else 0
            if moved > 0:
                for label in range(n_labels):
                    raised[label] += dual_raise(change[label], gradient[label], 2.0 * q * r[label] + ridge[label])
                for label in range(n_labels):
                    steps[label] = 2.0 * S[i, label] * r[label] * change[label]
                row_ger(X, i, steps, Z)  # Eq. (40)
            if 8 * n_left >= n_labels:
                n_left = n_labels
            else:
                n_left = 0
                for label in range(n_labels):
                    if keep[label]:
                        labels[i, n_left] = label
                        n_left += 1
        else:
            k = 0
            while k < n_left:
                label = labels[i, k]
                sign = S[i, label]
                old = A[i, label]
                g = sign * row_dot_label(X, i, Z, label) - (targets[i, label] if has_targets else loss.margin)
                cost = weight * abs(sign) * label_cost[1 if sign > 0 else 0, label]
                new, projected, gap, gain = coordinate(
                    old, g, cost, 2.0 * q * r[label], RELAXATION, lowest[label], highest[label], loss
                )
                gaps[label] += gap
                if np.isnan(projected):
                    n_left -= 1
                    labels[i, k] = labels[i, n_left]
                    continue
                smallest[label] = min(smallest[label], projected)
                largest[label] = max(largest[label], projected)
                if new != old:
                    A[i, label] = new
                    raised[label] += gain
                    row_axpy_label(2.0 * sign * r[label] * (new - old), X, i, Z, label)  # Eq. (40)
                k += 1
        position = _close_row(rows, count, position, n_left)
    _set_shrinking_bounds(bounds, smallest, largest)
    parts *= 2.0  # both sums were of -D / 2


@compiled
def m3l_coupled_epoch(X, R, factored, diagonal, dual, active, W, parts):
    """One pass over the active rows with any R; updates the dual, the active set and W = Z = 2 X^T (S o A) R.

    A factor F with R = F F^T may take the place of R: then W = 2 X^T (S o A) F, and Z = W F^T is never formed.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    R : ndarray (L, L), of the precision of W, or CSR; or F, ndarray (L, k)
    factored : bool, whether R is F
    diagonal : ndarray (L,), of R itself
    dual : Dual
    active : Active
    W : ndarray (d, at least L or k), float32 or float64; columns beyond stay 0
    parts : ndarray (2, L), written: parts of the duality gap at the margins met on the way; the raise of the dual
    """
    A, S, targets, row_cost, label_cost, sqnorm, loss = dual
    rows, labels, count, bounds, state = active
    has_targets = targets.shape[0] > 0
    n_labels, width = A.shape[1], W.shape[1]
    shuffle(state, rows, count[-1])
    parts[:] = 0.0
    smallest, largest = np.full(n_labels, np.inf), np.full(n_labels, -np.inf)
    scores, before = np.empty(width, dtype=W.dtype), np.empty(width, dtype=W.dtype)  # x_i^T W, and before its steps
    steps = np.empty(width, dtype=W.dtype)
    position = 0
    while position < count[-1]:
        i = rows[position]
        n_left = count[i]
        row_gemv(X, i, W, scores)
        before[:] = scores
        moved = False
        k = 0
        while k < n_left:
            chosen = k + random_below(state, n_left - k)
            label = labels[i, chosen]
            labels[i, chosen] = labels[i, k]
            labels[i, k] = label
            sign = S[i, label]
            old = A[i, label]
            score = row_dot(R, label, scores) if factored else scores[label]
            gradient = sign * score - (targets[i, label] if has_targets else loss.margin)
            cost = row_cost[i] * abs(sign) * label_cost[1 if sign > 0 else 0, label]
            new, projected, gap, raised = coordinate(
                old, gradient, cost, 2.0 * sqnorm[i] * diagonal[label], RELAXATION, bounds[0, label], bounds[1, label],
                loss,
            )  # fmt: skip
            parts[0, label] += gap
            if np.isnan(projected):
                n_left -= 1
                labels[i, k] = labels[i, n_left]
                labels[i, n_left] = label
                continue
            smallest[label] = min(smallest[label], projected)
            largest[label] = max(largest[label], projected)
            if new != old:
                A[i, label] = new
                parts[1, label] += raised
                row_axpy(2.0 * sign * (new - old) * sqnorm[i], R, label, scores)  # x_i times Eq. (40)
                moved = True
            k += 1
        if moved:
            inverse = 1.0 / max(sqnorm[i], TINY)
            for column in range(width):
                steps[column] = (scores[column] - before[column]) * inverse
            row_ger(X, i, steps, W)  # Eq. (40), for all features once the row is done
        position = _close_row(rows, count, position, n_left)
    _set_shrinking_bounds(bounds, smallest, largest)
    parts *= 2.0  # both sums were of -D / 2


@compiled
def m3l_signed_sum(X, dual, V):
    """Add X^T (S o A) to V (d, L); rows without a positive A_il cost nothing."""
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


@compiled
def m3l_sums(X, dual, Z, sums):
    """Write the losses and the gains of ``LabelSums`` at Z (d, L) into sums (2, L)."""
    A, S, targets, row_cost, label_cost, _, loss = dual
    n_samples, n_labels = A.shape
    has_targets = targets.shape[0] > 0
    scores = np.empty(n_labels)
    recent = np.zeros((2, n_labels))  # summed apart, so that rounding grows with n / 1024 and not with n
    sums[:] = 0.0
    for i in range(n_samples):
        row_gemv(X, i, Z, scores)
        for label in range(n_labels):
            target = targets[i, label] if has_targets else loss.margin
            a, sign = A[i, label], S[i, label]
            cost = row_cost[i] * abs(sign) * label_cost[1 if sign > 0 else 0, label]
            recent[0, label] += loss_value(target - sign * scores[label], cost, loss)
            recent[1, label] += target * a - loss_conjugate(a, cost, loss)
        if i % 1024 == 1023 or i == n_samples - 1:
            sums += recent
            recent[:] = 0.0
