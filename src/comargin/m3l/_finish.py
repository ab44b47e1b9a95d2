"""Finishing M3L labels that coordinate descent alone would take forever on.

What is not solved after some passes is badly scaled, and is finished by methods that see all directions at once: an
interior-point method when the features are few, and Newton steps on the few dual variables that matter. They may cost
what the passes still to be expected would, but not much more than all passes so far. No step is taken that does not
raise the dual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.box_newton import newton_on_box
from ..core.interior_point import LabelRows, interior_point_flops, interior_point_on_box
from ..core.rows import CSR

if TYPE_CHECKING:
    from .solver import Block


@dataclass(frozen=True)
class FinishPolicy:
    """What finishing may cost, in memory and time."""

    newton_size: int = 1024  # most variables of a Newton system
    dense_size: int = 20_000_000  # most entries of X as a dense array, of its moments, and of an interior-point system
    free_flops: float = 1e10  # what may be spent on a block in any case
    blas: float = 10.0  # operations of BLAS in the time of one operation of a pass
    share: float = 0.3  # of the gap that is allowed: where the interior-point method stops


POLICY = FinishPolicy()


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # what is not finite is not taken
def finish(block: Block) -> None:
    """Move the dual variables of a block, just certified, by interior-point and Newton steps; W is stale after it."""
    view, loss = block.view, block.dual_state.loss
    n_stored = view.data.size if isinstance(view, CSR) else view.size
    A, coupled = block.dual_state.A, block.part.form != "diagonal"
    # A variable that no score depends on has no direction to move in: a cost of 0 says so.
    matters = (block.dual_state.sqnorm > 0.0)[:, None] & (block.part.diagonal > 0.0)
    cost = np.where(matters, block.cost(), 0.0)
    box = Box(loss.finite_upper(A, cost, block.target()), cost, 2.0 * loss.ridge(cost))
    flops = max(POLICY.blas * 4.0 * n_stored * block.forecast.epochs_to_go * A.shape[1], POLICY.free_flops)
    if coupled:
        few = np.count_nonzero((A > 0.0) & (A < box.upper)) <= POLICY.newton_size
        if _interior_jointly(block, box, flops):
            return
        if few:
            _newton_jointly(block, box, flops)
        if few or _interior_fits(block.X.shape, *block.part.factor.shape):
            return  # in time all labels can be solved at once
        R = block.part.to_array()
    Z = block.now.Z.copy() if coupled else block.now.Z
    enough = 0.5 * block.allowed / A.shape[1]
    unsolved = np.flatnonzero((block.part.diagonal > 0.0) & (block.now.sums.label_gaps > enough))
    for label in unsolved:
        own = Box(box.upper[:, label], cost[:, label], box.ridge[:, label])
        change = _finish_label(block, int(label), Z[:, label], own, flops / unsolved.size)
        if coupled and change.any():
            Z += np.outer(2.0 * (block.X.T @ change), R[label])  # Eq. (40)


class Box(NamedTuple):
    """Bounds and costs of some dual variables, and the diagonal that the loss adds to the Hessian of -D."""

    upper: np.ndarray
    cost: np.ndarray
    ridge: np.ndarray


def _interior_fits(shape: tuple[int, int], n_labels: int, rank: int) -> bool:
    """Whether the arrays of an interior-point method on so many labels fit in memory."""
    n_samples, n_features = shape
    sizes = n_samples * n_features, n_labels * n_features**2, n_labels * rank**2, (n_features * rank) ** 2
    return max(sizes) <= POLICY.dense_size


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


def _finish_label(block: Block, label: int, z: np.ndarray, box: Box, flops: float) -> np.ndarray:
    """Solve for the dual variables of one label, the others fixed; returns the change of S o A."""
    X, dual = block.X, block.dual_state
    s, start, r = dual.S[:, label].astype(np.float64), dual.A[:, label].copy(), float(block.part.diagonal[label])
    target = dual.targets[:, label] if dual.targets.size else 1.0
    # Of f = -D without what the loss adds, whose Hessian is 4 r (s s^T) o K; Eq. (29).
    gradient = 2.0 * (s * (X @ z) - target)

    def value_and_gap(a: np.ndarray) -> tuple[float, float]:
        """f(a) - f(start), whose quadratic part is that of the weights, and the gap of this label at a."""
        step = a - start
        weights = X.T @ (s * step)
        moved = gradient + 4.0 * r * s * (X @ weights)
        change = float(gradient @ step) + 2.0 * r * float(weights @ weights)
        change += 0.5 * float(box.ridge @ (step * (a + start)))
        return change, 2.0 * float(np.sum(dual.loss.gaps(a, box.cost, -0.5 * moved)))

    candidates = []
    M = _label_rows(block, s[:, None], np.array([[np.sqrt(r)]]), start[:, None], box.upper[:, None], flops)
    newton_start = start
    if M is not None:
        rows = M.chosen
        linear = gradient[rows] - M.times(M.transposed(start[rows]))
        inside, newton_start = start.copy(), start.copy()
        gap = POLICY.share * block.allowed / dual.A.shape[1]
        inside[rows], newton_start[rows] = interior_point_on_box(
            M, linear, box.upper[rows], gap=gap, ridge=box.ridge[rows]
        )
        candidates.append(inside)
    moved_gradient = gradient + 4.0 * r * s * (X @ (X.T @ (s * (newton_start - start))))
    candidates.append(_newton(block, newton_start, box, moved_gradient, s, r, flops))
    best = _better(start, candidates, value_and_gap)
    dual.A[:, label] = best
    return s * (best - start)


def _newton(
    block: Block, a: np.ndarray, box: Box, gradient: np.ndarray, s: np.ndarray, r: float, flops: float
) -> np.ndarray:
    """Newton on the free dual variables of one label and those that most want to leave a bound, when they are few."""
    gradient = gradient + box.ridge * a
    chosen = with_violators(a, box.upper, gradient)
    if not 0 < chosen.size <= POLICY.newton_size:
        return a
    moved = a.copy()
    Q = 4.0 * r * _gram(block, chosen) * np.outer(s[chosen], s[chosen]) + np.diag(box.ridge[chosen])
    moved[chosen] = newton_on_box(Q, gradient[chosen], a[chosen], box.upper[chosen], max_flops=flops)
    return moved


def _interior_jointly(block: Block, box: Box, flops: float) -> bool:
    """Interior-point method on all labels at once, if rank(R) times the features is small; returns whether A moved."""
    dual, F = block.dual_state, block.part.factor
    M = _label_rows(block, dual.S, F, dual.A, box.upper, flops)
    if M is None:
        return False
    linear = -2.0 * (dual.targets.ravel()[M.chosen] if dual.targets.size else np.ones(M.chosen.size))
    u, cost, ridge = (bounds.ravel()[M.chosen] for bounds in box)
    old = dual.A.ravel()[M.chosen]
    inside, exact = interior_point_on_box(M, linear, u, gap=POLICY.share * block.allowed, ridge=ridge)
    gradient = M.times(M.transposed(exact)) + ridge * exact + linear
    chosen = with_violators(exact, u, gradient)
    if 0 < chosen.size <= POLICY.newton_size:
        i, label = np.unravel_index(M.chosen[chosen], dual.A.shape)
        Q = _hessian(block, i, label, box)
        flops = interior_point_flops(M.X.shape, *M.F.shape)
        exact[chosen] = newton_on_box(Q, gradient[chosen], exact[chosen], u[chosen], max_flops=flops)

    def value_and_gap(a: np.ndarray) -> tuple[float, float]:
        half = M.transposed(a)
        value = 0.5 * float(half @ half + ridge @ a**2) + float(linear @ a)
        return value, 2.0 * float(np.sum(dual.loss.gaps(a, cost, -0.5 * (M.times(half) + linear))))

    best = _better(old, [inside, exact], value_and_gap)
    dual.A.reshape(-1)[M.chosen] = best
    return best is not old


def _newton_jointly(block: Block, box: Box, flops: float) -> None:
    """Newton on the free variables of all labels at once."""
    dual = block.dual_state
    gradient = 2.0 * (dual.S * (block.X @ block.now.Z) - block.target()) + box.ridge * dual.A
    flat = with_violators(dual.A.ravel(), box.upper.ravel(), gradient.ravel())
    if not 0 < flat.size <= POLICY.newton_size:
        return
    i, label = np.unravel_index(flat, dual.A.shape)
    Q = _hessian(block, i, label, box)
    moved = newton_on_box(Q, gradient[i, label], dual.A[i, label], box.upper[i, label], max_flops=flops)
    step = moved - dual.A[i, label]
    if float(gradient[i, label] @ step) + 0.5 * float(step @ Q @ step) < 0.0:
        dual.A[i, label] = moved


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


def _hessian(block: Block, i: np.ndarray, label: np.ndarray, box: Box) -> np.ndarray:
    """Of -D in the variables (i, l): 4 S_il S_jk R_lk K_ij, and what the loss adds to the diagonal."""
    s = block.dual_state.S[i, label].astype(np.float64)
    R = block.part.to_array()[np.ix_(label, label)]
    return 4.0 * np.outer(s, s) * _gram(block, i) * R + np.diag(box.ridge[i, label])


def _gram(block: Block, rows: np.ndarray) -> np.ndarray:
    K = block.X[rows] @ block.X[rows].T
    return K if isinstance(K, np.ndarray) else K.toarray()


def with_violators(a: np.ndarray, u: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Indices of the free variables and, as far as there is room, of those that most want to leave a bound."""
    free = (a > 0.0) & (a < u)
    violation = np.where(a <= 0.0, -gradient, gradient)
    violation[free | (u <= 0.0)] = 0.0
    others = np.flatnonzero(violation > 0.0)
    n_others = max(POLICY.newton_size - np.count_nonzero(free), 0)
    others = others[np.argsort(-violation[others], kind="stable")[:n_others]]
    return np.concatenate([np.flatnonzero(free), others])
