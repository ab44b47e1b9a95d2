"""Row-block dual coordinate descent for M3L with R = I (linear kernel).

    max  D(A) = 2 sum A_il - 2 ||V||_F^2,   V = X^T (S o A),   0 <= A_il <= U_il,
    U_il = row_upper_i label_upper[S_il > 0, l]

For row i all labels share the product x_i^T V, one contiguous run of V per non-zero of x_i. With
G_il = 2 S_il (x_i^T V)_l - 1 and q_i = ||x_i||^2 the exact step along A_il is
A_il <- clip(A_il - G_il / (2 q_i), 0, U_il).

Shrinking follows LIBLINEAR, label by label: (i, l) leaves the active set when A_il sits at a bound and G_il points
outwards by more than the largest violation of the pass before.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from ._random import shuffle
from ._rows import row_axpy_label, row_dot_label, row_gemv, row_ger


@kernel
def m3l_identity_epoch(X, S, sqnorm, row_upper, label_upper, A, V, rows, labels, n_active, bounds, state, gap_estimate):
    """One pass over the active rows; updates A, V, the active sets and the shrinking bounds in place.

    Invariant: V == X^T (S o A).

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    S : int8 ndarray (n, L), signs -1 / +1
    sqnorm : ndarray (n,), ||x_i||^2
    row_upper : ndarray (n,), C times the weight of the row
    label_upper : ndarray (2, L), weights of a negative and of a positive of each label
    A : ndarray (n, L), dual variables
    V : ndarray (d, L)
    rows : int32 ndarray (n,), active rows first
    labels : int32 ndarray (n, L), active labels of each row first
    n_active : int32 ndarray (n + 1,), active labels of each row; the last entry is the number of active rows
    bounds : ndarray (2, L), smallest and largest projected gradient of the pass before, per label
    state : uint64 ndarray (4,), random state
    gap_estimate : ndarray (L,), written: sum over the active A_il of their part of the duality gap,
        2 (A_il G_il if G_il >= 0 else (A_il - U_il) G_il), at the margins met on the way

    Returns
    -------
    largest : float, the largest |projected gradient| met
    """
    n_labels = V.shape[1]
    n_rows = n_active[-1]
    shuffle(state, rows, n_rows)
    products = np.empty(n_labels)
    steps = np.zeros(n_labels)
    low = np.full(n_labels, np.inf)
    high = np.full(n_labels, -np.inf)
    gap_estimate[:] = 0.0
    position = 0
    while position < n_rows:
        i = rows[position]
        count = n_active[i]
        # Few active labels: strided products with those; otherwise all labels at once, contiguously.
        few = 4 * count < n_labels
        if not few:
            row_gemv(X, i, V, products)
        n_moved = 0
        k = 0
        while k < count:
            label = labels[i, k]
            sign = S[i, label]
            upper = row_upper[i] * label_upper[1 if sign > 0 else 0, label]
            product = row_dot_label(X, i, V, label) if few else products[label]
            old = A[i, label]
            gradient = 2.0 * sign * product - 1.0
            gap_estimate[label] += 2.0 * (gradient * old if gradient >= 0.0 else gradient * (old - upper))
            projected = gradient
            at_bound = False
            if old <= 0.0:
                projected = min(gradient, 0.0)
                at_bound = gradient > bounds[1, label]
            elif old >= upper:
                projected = max(gradient, 0.0)
                at_bound = gradient < bounds[0, label]
            if at_bound:
                count -= 1
                labels[i, k] = labels[i, count]
                labels[i, count] = label
                continue
            low[label] = min(low[label], projected)
            high[label] = max(high[label], projected)
            if projected != 0.0:
                # An empty row has margin 0 whatever the weights: its loss is paid, A_il = U_il.
                new = upper if sqnorm[i] == 0.0 else min(max(old - gradient / (2.0 * sqnorm[i]), 0.0), upper)
                if new != old:
                    A[i, label] = new
                    n_moved += 1
                    if few:
                        row_axpy_label(sign * (new - old), X, i, V, label)
                    else:
                        steps[label] = sign * (new - old)
            k += 1
        if n_moved > 0 and not few:
            row_ger(X, i, steps, V)
            steps[:] = 0.0
        n_active[i] = count
        if count == 0:
            n_rows -= 1
            rows[position] = rows[n_rows]
            rows[n_rows] = i
        else:
            position += 1
    n_active[-1] = n_rows
    largest = 0.0
    for label in range(n_labels):
        largest = max(largest, high[label], -low[label])
        # LIBLINEAR's rule: a bound of the wrong sign would shrink what is still moving.
        bounds[0, label] = low[label] if low[label] < 0.0 else -np.inf
        bounds[1, label] = high[label] if high[label] > 0.0 else np.inf
    return largest
