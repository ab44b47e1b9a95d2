"""Finishing M3L labels that coordinate descent alone would take forever on.

What is not solved after some passes is badly scaled, and is finished by methods that see all directions at once: an
interior-point method when the features are few, and Newton steps on the few dual variables that matter. They may cost
what the passes still to be expected would, but not much more than all passes so far. No step is taken that does not
raise the dual.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..kernels._rows import CSR
from ._box_newton import newton_on_box
from ._interior_point import interior_point_on_box

if TYPE_CHECKING:
    from .m3l import Block

NEWTON_SIZE = 1024  # most variables of a Newton system
_DENSE_SIZE = 20_000_000  # most entries of X as a dense array
_FREE_FLOPS = 1e9  # what may be spent on the labels of a block in any case


def finish(block: Block) -> None:
    """Move the dual variables of a block by interior-point and Newton steps; Z is not updated.

    Parameters
    ----------
    block : Block
        With Z = 2 X^T (S o A) R.
    """
    view = block.view
    n_stored = view.data.size if isinstance(view, CSR) else view.size
    A = block.dual_state.A
    upper = block.upper()
    flops = max(4.0 * n_stored * block.epochs_to_go, _FREE_FLOPS / A.shape[1])
    if block.part.form != "diagonal":
        if _interior_jointly(block, upper, flops * A.shape[1]):
            return
        if np.count_nonzero((A > 0.0) & (A < upper)) <= NEWTON_SIZE:
            _newton_jointly(block, upper, flops * A.shape[1])
            return
        R = block.part.to_array()
    enough = 0.5 * block.allowed / A.shape[1]
    for label in np.flatnonzero((block.part.diagonal > 0.0) & (block.label_gaps > enough)):
        change = _finish_label(block, int(label), upper[:, label], flops)
        if block.part.form != "diagonal" and change.any():
            block.Z += np.outer(2.0 * (block.X.T @ change), R[label])


def _finish_label(block: Block, label: int, u: np.ndarray, flops: float) -> np.ndarray:
    """Solve for the dual variables of one label, the others fixed; returns the change of S o A."""
    X, dual = block.X, block.dual_state
    s, start, r = dual.S[:, label].astype(np.float64), dual.A[:, label].copy(), float(block.part.diagonal[label])
    target = dual.targets[:, label] if dual.targets.size else 1.0
    # Of f = -D, whose Hessian is 4 r (s s^T) o K.
    gradient = 2.0 * (s * (X @ block.Z[:, label]) - target)

    def rise(a: np.ndarray) -> float:
        """f(a) - f(start); the quadratic part is that of the weights."""
        step = a - start
        weights = X.T @ (s * step)
        return float(gradient @ step) + 2.0 * r * float(weights @ weights)

    n_samples, n_features = X.shape
    n_free = np.count_nonzero((start > 0.0) & (start < u))
    candidates = []
    if 25.0 * n_samples * n_features**2 <= flops and n_samples * n_features <= _DENSE_SIZE and n_free > n_features:
        # The rank of X bounds the free variables of a generic optimum: more of them means that it is far.
        rows = np.flatnonzero(u > 0.0)
        M = 2.0 * np.sqrt(r) * s[rows, None] * (X[rows] if isinstance(X, np.ndarray) else X[rows].toarray())
        inside, newton_start = start.copy(), start.copy()
        inside[rows], newton_start[rows] = interior_point_on_box(M, gradient[rows] - M @ (M.T @ start[rows]), u[rows])
        candidates.append(inside)
    else:
        newton_start = start
    moved_gradient = gradient + 4.0 * r * s * (X @ (X.T @ (s * (newton_start - start))))
    candidates.append(_newton(block, newton_start, u, moved_gradient, s, r, flops))
    best, best_rise = start, 0.0
    for a in candidates:
        value = rise(a)
        if value < best_rise:  # never true for NaN
            best, best_rise = a, value
    dual.A[:, label] = best
    return s * (best - start)


def _newton(
    block: Block, a: np.ndarray, u: np.ndarray, gradient: np.ndarray, s: np.ndarray, r: float, flops: float
) -> np.ndarray:
    """Newton on the free dual variables of one label and those that most want to leave a bound, when they are few."""
    chosen = with_violators(a, u, gradient)
    if not 0 < chosen.size <= NEWTON_SIZE:
        return a
    K = _gram(block, chosen)
    moved = a.copy()
    Q = 4.0 * r * K * np.outer(s[chosen], s[chosen])
    moved[chosen] = newton_on_box(Q, gradient[chosen], a[chosen], u[chosen], max_flops=flops)
    return moved


def _interior_jointly(block: Block, upper: np.ndarray, flops: float) -> bool:
    """Interior-point method on all labels at once, when rank(R) times the features is small; returns whether A moved.

    With R = F F^T the Hessian of -D is M M^T, the row of (i, l) in M being 2 S_il times the products of x_i and F_l.
    The columns of M bound the free variables of a generic optimum: more of them means that it is far.
    """
    X, dual, part = block.X, block.dual_state, block.part
    F = part.factor()
    n_columns = X.shape[1] * F.shape[1]
    n_free = np.count_nonzero((dual.A > 0.0) & (dual.A < upper))
    too_large = dual.A.size * n_columns > _DENSE_SIZE or 25.0 * dual.A.size * n_columns**2 > flops
    if too_large or n_free <= n_columns:
        return False
    dense = X if isinstance(X, np.ndarray) else X.toarray()
    M = 2.0 * dual.S[:, :, None, None] * dense[:, None, :, None] * F[None, :, None, :]
    M = M.reshape(dual.A.size, n_columns)
    target = dual.targets.ravel() if dual.targets.size else np.ones(dual.A.size)
    can_move = np.flatnonzero((upper.ravel() > 0.0) & (M != 0.0).any(axis=1))
    M, linear, u = M[can_move], -2.0 * target[can_move], upper.ravel()[can_move]
    old = dual.A.ravel()[can_move]
    inside, exact = interior_point_on_box(M, linear, u)
    gradient = M @ (exact @ M) + linear
    chosen = with_violators(exact, u, gradient)
    if 0 < chosen.size <= NEWTON_SIZE:
        exact[chosen] = newton_on_box(M[chosen] @ M[chosen].T, gradient[chosen], exact[chosen], u[chosen])
    values = [0.5 * float(np.sum((a @ M) ** 2)) + float(linear @ a) for a in (old, inside, exact)]
    best = (old, inside, exact)[int(np.nanargmin(values))]
    dual.A.reshape(-1)[can_move] = best
    return best is not old


def _newton_jointly(block: Block, upper: np.ndarray, flops: float) -> None:
    """Newton on the free variables of all labels at once: Hessian 4 S_il S_jk R_lk K_ij."""
    X, dual = block.X, block.dual_state
    target = dual.targets if dual.targets.size else 1.0
    gradient = 2.0 * (dual.S * (X @ block.Z) - target)
    usable = np.where(block.part.diagonal > 0.0, upper, 0.0)  # a label R does not know has no direction to move in
    flat = with_violators(dual.A.ravel(), usable.ravel(), gradient.ravel())
    if not 0 < flat.size <= NEWTON_SIZE:
        return
    i, label = np.unravel_index(flat, dual.A.shape)
    s = dual.S[i, label].astype(np.float64)
    Q = 4.0 * np.outer(s, s) * _gram(block, i) * block.part.to_array()[np.ix_(label, label)]
    moved = newton_on_box(Q, gradient[i, label], dual.A[i, label], upper[i, label], max_flops=flops)
    step = moved - dual.A[i, label]
    if float(gradient[i, label] @ step) + 0.5 * float(step @ Q @ step) < 0.0:
        dual.A[i, label] = moved


def _gram(block: Block, rows: np.ndarray) -> np.ndarray:
    K = block.X[rows] @ block.X[rows].T
    return K if isinstance(K, np.ndarray) else K.toarray()


def with_violators(a: np.ndarray, u: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """The variables a Newton system is made of.

    Parameters
    ----------
    a, u, gradient : ndarray of shape (n,)
        Variables between 0 and u, and the gradient of what is minimised.

    Returns
    -------
    int ndarray
        Indices of the free variables and, as far as there is room, of those that most want to leave a bound.
    """
    free = (a > 0.0) & (a < u)
    violation = np.where(a <= 0.0, -gradient, gradient)
    violation[free | (u <= 0.0)] = 0.0
    others = np.flatnonzero(violation > 0.0)
    n_others = max(NEWTON_SIZE - np.count_nonzero(free), 0)
    others = others[np.argsort(-violation[others], kind="stable")[:n_others]]
    return np.concatenate([np.flatnonzero(free), others])
