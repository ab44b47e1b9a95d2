"""Projected Newton steps on a small box-constrained QP.

Coordinate descent finds the free variables fast, but on badly scaled data it creeps along the flat directions between
them. Once the free set is known and small, a few Newton steps on it reach the minimum.
"""

import numpy as np
from scipy.linalg import LinAlgError
from scipy.linalg.lapack import dpotrf, dpotrs

# Ridges relative to the diagonal, tried in turn: a singular Hessian becomes solvable, a flat direction a long step.
_RIDGES = (1e-13, 1e-11, 1e-9)
_HALVINGS = 6  # shorter steps that are tried
_NOISE = 1e-14  # rounding of a gradient entry, relative to its terms


def newton_on_box(
    Q: np.ndarray, gradient: np.ndarray, x: np.ndarray, upper: np.ndarray, *, max_flops: float = np.inf
) -> np.ndarray:
    """Decrease ``f(x) = 1/2 x^T Q x + ...`` over ``0 <= x <= upper`` by Newton steps on the free variables.

    ``Q`` (m, m) is positive semi-definite, ``gradient`` that of f at the start ``x`` inside the box. ``max_flops``
    bounds the cost of the factorisations. Returns a point of the box with f no larger than at the start: the minimum up
    to rounding, unless the bound was met.
    """
    x, gradient = x.copy(), gradient.copy()
    free = (x > 0) & (x < upper)
    noise = _NOISE * (np.abs(gradient) + np.abs(Q) @ x)  # rounding of each gradient entry
    batch = max(1, x.size // 8)
    for _ in range(4 * x.size + 10):
        moved = False
        if free.any():
            idx = np.flatnonzero(free)
            max_flops -= idx.size**3 / 3.0 + 8.0 * idx.size**2
            if max_flops < 0.0:
                break
            new = _newton_step(Q[np.ix_(idx, idx)], gradient[idx], x[idx], upper[idx])
            step = new - x[idx]
            moved = bool(np.any(np.abs(step) > _NOISE * upper[idx]))
            x[idx] = new
            gradient += Q[:, idx] @ step
            free[idx] = (new > 0) & (new < upper[idx])
        if moved:
            batch = min(2 * batch, x.size)
            continue
        # Stationary on the free variables: free those at a bound that gain most. Several at once save steps but may
        # block each other; one alone always moves.
        inward = np.where(x <= 0, -gradient, gradient)
        inward[free | (upper <= 0) | (inward <= noise)] = 0.0
        order = np.argsort(-inward, kind="stable")[:batch]
        order = order[inward[order] > 0.0]
        if order.size == 0:
            break
        free[order] = True
        batch = max(1, batch // 4)
    return x


def _newton_step(H: np.ndarray, gradient: np.ndarray, x: np.ndarray, upper: np.ndarray) -> np.ndarray:
    """The best of the Newton step cut at the first bound, and projections of a few shorter ones on the box."""
    diagonal = np.diag(H) + np.finfo(np.float64).tiny
    for ridge in _RIDGES:  # the smallest for which the factorisation exists
        factor, info = dpotrf(H + np.diag(ridge * diagonal))
        if info == 0:
            break
    else:
        raise LinAlgError("the Hessian of the free variables is not positive semi-definite")
    direction = -dpotrs(factor, gradient)[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(direction > 0, (upper - x) / direction, np.where(direction < 0, -x / direction, np.inf))
    first = int(np.argmin(room))
    lengths = [2.0**-k for k in range(_HALVINGS)]
    candidates = [np.clip(x + length * direction, 0.0, upper) for length in lengths]
    if room[first] < 1.0:
        cut = np.clip(x + room[first] * direction, 0.0, upper)
        cut[first] = upper[first] if direction[first] > 0 else 0.0  # exactly on the bound
        candidates.append(cut)
    changes = [float(gradient @ (c - x) + 0.5 * (c - x) @ (H @ (c - x))) for c in candidates]
    best = int(np.argmin(changes))
    return candidates[best] if changes[best] < 0.0 else x
