"""Algorithm 1 of Hariharan et al. (2012), corrected, as plain loops in the paper's unsigned variables."""

import itertools

import numpy as np


def box_minimum_2d(Q, g, low, high):
    """Minimum of 1/2 x^T Q x + g^T x over a box, by trying every face."""
    best, best_value = None, np.inf
    for choice in itertools.product((None, 0, 1), repeat=2):
        x = np.array([np.nan if c is None else (low, high)[c][k] for k, c in enumerate(choice)], dtype=float)
        free = [k for k, c in enumerate(choice) if c is None]
        held = [k for k, c in enumerate(choice) if c is not None]
        if free:
            A = Q[np.ix_(free, free)]
            x[free] = np.linalg.solve(A, -g[free] - Q[np.ix_(free, held)] @ x[held])
        if np.all(x >= np.asarray(low) - 1e-12) and np.all(x <= np.asarray(high) + 1e-12):
            value = 0.5 * x @ Q @ x + g @ x
            if value < best_value:
                best, best_value = x, value
    return best


def smo(K, S, U, R, T, n_visits, steps_per_visit):
    """A after ``n_visits`` choices of a label and ``steps_per_visit`` pair steps along each."""
    n, n_labels = S.shape
    A = np.zeros((n, n_labels))

    def gradient():  # of D, Eq. (29); for unit targets Delta^- - Delta^+ = 2
        return 2.0 * T - 4.0 * S * (K @ (S * A) @ R)

    def projected(g):  # Eq. (31)
        inside = np.where(A <= 0, np.maximum(g, 0), np.where(A >= U, np.minimum(g, 0), g))
        return np.where(U > 0, inside, 0).astype(np.float32)

    for _ in range(n_visits):
        label = int(np.argmax(np.abs(projected(gradient())).max(axis=0)))
        for _ in range(steps_per_visit):
            g, free = gradient()[:, label], projected(gradient())[:, label]
            if not free.any():
                break
            p = int(np.argmax(np.abs(free)))
            best, q = -np.inf, -1
            for j in range(n):  # Eq. (30), over pairs that are not parallel
                det = K[p, p] * K[j, j] - K[p, j] ** 2
                inside = 0 < A[j, label] < U[j, label]  # where a zero gradient is rounding
                if j == p or not (free[j] or inside) or det <= 1e-6 * K[p, p] * K[j, j]:
                    continue
                cross = 2 * g[p] * g[j] * S[p, label] * S[j, label] * K[p, j]
                gain = (g[p] ** 2 * K[j, j] + g[j] ** 2 * K[p, p] - cross) / det
                if gain > best:
                    best, q = gain, j
            chosen = [p] if q < 0 else [p, q]
            s = S[chosen, label].astype(float)
            Q = 4.0 * R[label, label] * K[np.ix_(chosen, chosen)] * np.outer(s, s)
            low, high = -A[chosen, label], U[chosen, label] - A[chosen, label]
            if q < 0:
                step = np.clip(g[chosen] / Q[0], low, high)
            else:
                step = box_minimum_2d(Q, -g[chosen], low, high)
            for i, x, a, b in zip(chosen, step, low, high, strict=True):  # exactly at a bound: a sum may miss it
                A[i, label] = 0.0 if x <= a else U[i, label] if x >= b else A[i, label] + x
    return A
