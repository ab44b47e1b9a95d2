"""Finishing M3L labels that coordinate descent alone would take forever on.

What is not solved after some passes is badly scaled, and is finished by methods that see all directions at once: an
interior-point method when the features are few, and Newton steps on the few dual variables that matter. They may cost
what the passes still to be expected would, but not much more than all passes so far. No step is taken that does not
raise the dual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..kernels._rows import CSR
from ._box_newton import newton_on_box
from ._interior_point import LabelRows, interior_point_flops, interior_point_on_box

if TYPE_CHECKING:
    from .m3l import Block

NEWTON_SIZE = 1024  # most variables of a Newton system
_DENSE_SIZE = 20_000_000  # most entries of X as a dense array, of its moments, and of an interior-point system
_FREE_FLOPS = 1e10  # what may be spent on a block in any case
_BLAS = 10.0  # operations of BLAS in the time of one operation of a pass
_SHARE = 0.3  # of the gap that is allowed: where the interior-point method stops


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # what is not finite is not taken
def finish(block: Block) -> None:
    """Move the dual variables of a block by interior-point and Newton steps; Z is not updated.

    Parameters
    ----------
    block : Block
        With Z = 2 X^T (S o A) R.
    """
    view = block.view
    n_stored = view.data.size if isinstance(view, CSR) else view.size
    A, coupled = block.dual_state.A, block.part.form != "diagonal"
    # A variable that no score depends on has no direction to move in: a bound of 0 says so.
    matters = (block.dual_state.sqnorm > 0.0)[:, None] & (block.part.diagonal > 0.0)
    upper = np.where(matters, block.upper(), 0.0)
    flops = max(_BLAS * 4.0 * n_stored * block.epochs_to_go * A.shape[1], _FREE_FLOPS)
    if coupled:
        few = np.count_nonzero((A > 0.0) & (A < upper)) <= NEWTON_SIZE
        if _interior_jointly(block, upper, flops):
            return
        if few:
            _newton_jointly(block, upper, flops)
        if few or _interior_fits(block.X.shape, *block.part.factor.shape):
            return  # in time all labels can be solved at once
        R = block.part.to_array()
    enough = 0.5 * block.allowed / A.shape[1]
    unsolved = np.flatnonzero((block.part.diagonal > 0.0) & (block.label_gaps > enough))
    for label in unsolved:
        change = _finish_label(block, int(label), upper[:, label], flops / unsolved.size)
        if coupled and change.any():
            block.Z += np.outer(2.0 * (block.X.T @ change), R[label])


def _interior_fits(shape: tuple[int, int], n_labels: int, rank: int) -> bool:
    """Whether the arrays of an interior-point method on so many labels fit in memory."""
    n_samples, n_features = shape
    sizes = n_samples * n_features, n_labels * n_features**2, n_labels * rank**2, (n_features * rank) ** 2
    return max(sizes) <= _DENSE_SIZE


def _label_rows(
    block: Block, S: np.ndarray, F: np.ndarray, a: np.ndarray, u: np.ndarray, flops: float
) -> LabelRows | None:
    """The variables ``a`` of labels with Hessian 4 (S S^T) o K o (F F^T), or None when other steps are the better ones.

    That is when the interior-point method would cost more than ``flops``; and at first also when there are fewer free
    variables than columns of M, which bound those of a generic optimum: they may be nearly right, and Newton steps keep
    them.
    """
    X, n_free = block.X, np.count_nonzero((a > 0.0) & (a < u))
    if not _interior_fits(X.shape, *F.shape) or (n_free <= X.shape[1] * F.shape[1] and not block.tried_finish):
        return None
    chosen = np.flatnonzero(u > 0.0)
    if not chosen.size or interior_point_flops(X.shape, *F.shape) > flops:
        return None
    return LabelRows(X if isinstance(X, np.ndarray) else X.toarray(), S, 2.0 * F, chosen)


def _finish_label(block: Block, label: int, u: np.ndarray, flops: float) -> np.ndarray:
    """Solve for the dual variables of one label, the others fixed; returns the change of S o A."""
    X, dual = block.X, block.dual_state
    s, start, r = dual.S[:, label].astype(np.float64), dual.A[:, label].copy(), float(block.part.diagonal[label])
    target = dual.targets[:, label] if dual.targets.size else 1.0
    # Of f = -D, whose Hessian is 4 r (s s^T) o K.
    gradient = 2.0 * (s * (X @ block.Z[:, label]) - target)

    def value_and_gap(a: np.ndarray) -> tuple[float, float]:
        """f(a) - f(start), whose quadratic part is that of the weights, and the gap of this label at a."""
        step = a - start
        weights = X.T @ (s * step)
        moved = gradient + 4.0 * r * s * (X @ weights)
        return float(gradient @ step) + 2.0 * r * float(weights @ weights), _gap(a, u, moved)

    candidates = []
    M = _label_rows(block, s[:, None], np.array([[np.sqrt(r)]]), start[:, None], u[:, None], flops)
    newton_start = start
    if M is not None:
        rows = M.chosen
        linear = gradient[rows] - M.times(M.transposed(start[rows]))
        inside, newton_start = start.copy(), start.copy()
        gap = _SHARE * block.allowed / dual.A.shape[1]
        inside[rows], newton_start[rows] = interior_point_on_box(M, linear, u[rows], gap=gap)
        candidates.append(inside)
    moved_gradient = gradient + 4.0 * r * s * (X @ (X.T @ (s * (newton_start - start))))
    candidates.append(_newton(block, newton_start, u, moved_gradient, s, r, flops))
    best = _better(start, candidates, value_and_gap)
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
    """Interior-point method on all labels at once, if rank(R) times the features is small; returns whether A moved."""
    dual, F = block.dual_state, block.part.factor
    M = _label_rows(block, dual.S, F, dual.A, upper, flops)
    if M is None:
        return False
    linear = -2.0 * (dual.targets.ravel()[M.chosen] if dual.targets.size else np.ones(M.chosen.size))
    u, old = upper.ravel()[M.chosen], dual.A.ravel()[M.chosen]
    inside, exact = interior_point_on_box(M, linear, u, gap=_SHARE * block.allowed)
    gradient = M.times(M.transposed(exact)) + linear
    chosen = with_violators(exact, u, gradient)
    if 0 < chosen.size <= NEWTON_SIZE:
        i, label = np.unravel_index(M.chosen[chosen], dual.A.shape)
        Q = _hessian(block, i, label)
        flops = interior_point_flops(M.X.shape, *M.F.shape)
        exact[chosen] = newton_on_box(Q, gradient[chosen], exact[chosen], u[chosen], max_flops=flops)

    def value_and_gap(a: np.ndarray) -> tuple[float, float]:
        half = M.transposed(a)
        return 0.5 * float(half @ half) + float(linear @ a), _gap(a, u, M.times(half) + linear)

    best = _better(old, [inside, exact], value_and_gap)
    dual.A.reshape(-1)[M.chosen] = best
    return best is not old


def _newton_jointly(block: Block, upper: np.ndarray, flops: float) -> None:
    """Newton on the free variables of all labels at once."""
    X, dual = block.X, block.dual_state
    target = dual.targets if dual.targets.size else 1.0
    gradient = 2.0 * (dual.S * (X @ block.Z) - target)
    flat = with_violators(dual.A.ravel(), upper.ravel(), gradient.ravel())
    if not 0 < flat.size <= NEWTON_SIZE:
        return
    i, label = np.unravel_index(flat, dual.A.shape)
    Q = _hessian(block, i, label)
    moved = newton_on_box(Q, gradient[i, label], dual.A[i, label], upper[i, label], max_flops=flops)
    step = moved - dual.A[i, label]
    if float(gradient[i, label] @ step) + 0.5 * float(step @ Q @ step) < 0.0:
        dual.A[i, label] = moved


def _gap(a: np.ndarray, u: np.ndarray, gradient: np.ndarray) -> float:
    """Duality gap of a box-constrained problem at ``a``, less a constant if some bounds are 0 and ``a`` is not."""
    return float(a @ np.maximum(gradient, 0.0) - (u - a) @ np.minimum(gradient, 0.0))


def _better(
    start: np.ndarray, candidates: list[np.ndarray], value_and_gap: Callable[[np.ndarray], tuple[float, float]]
) -> np.ndarray:
    """Of the candidates with a lower value than ``start`` the one with the smallest gap, or ``start``.

    Values alone do not tell: near the optimum they agree in all digits when gaps still differ a million times.
    """
    limit = value_and_gap(start)[0]
    measured = [(value_and_gap(a), a) for a in candidates]
    lower = [(gap, k) for k, ((value, gap), _) in enumerate(measured) if value < limit]  # never true for NaN
    return measured[min(lower)[1]][1] if lower else start


def _hessian(block: Block, i: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Of -D in the variables (i, l): 4 S_il S_jk R_lk K_ij."""
    s = block.dual_state.S[i, label].astype(np.float64)
    return 4.0 * np.outer(s, s) * _gram(block, i) * block.part.to_array()[np.ix_(label, label)]


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
