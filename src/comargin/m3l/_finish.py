"""Finishing steps for M3L labels on which coordinate descent is slow.

Labels that passes have not solved are badly scaled. Methods that see all directions at once finish those of losses that
are not smooth: an interior-point method when the features are few, and Newton steps on the few dual variables that
matter. They may cost as much as the expected remaining passes, but not much more than all passes so far. Every step
taken raises the dual. With kernels `newton_step` finishes the pair steps of any quadratic loss.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError

from ..core.rows import CSR
from ._box_newton import newton_on_box
from ._interior_point import LabelRows, interior_point_flops, interior_point_on_box
from .prior import PriorPart

if TYPE_CHECKING:
    from .solver import Block


@dataclass(frozen=True)
class FinishPolicy:
    """Limits of finishing, in memory and time."""

    newton_size: int = 1024  # most variables of a Newton system
    dense_size: int = 20_000_000  # most entries of X as a dense array, of its moments, and of an interior-point system
    free_flops: float = 1e10  # allowed for a block in any case
    blas: float = 10.0  # operations of BLAS in the time of one operation of a pass
    share: float = 0.3  # of the gap that is allowed: where the interior-point method stops


POLICY = FinishPolicy()
# Hessian of some variables, from their places along both axes.
Hessian = Callable[[np.ndarray, np.ndarray], np.ndarray]


class LabelBox(NamedTuple):
    """Labels to be solved for, the others fixed, and their dual variables as arrays (n_samples, n_chosen)."""

    labels: slice  # which labels of the block
    part: PriorPart  # R on these labels
    upper: np.ndarray  # bounds of the variables; 0 for those that no score depends on


@np.errstate(over="ignore", divide="ignore", invalid="ignore")  # values that are not finite are not taken
def finish(block: Block) -> None:
    """Move the dual variables of a block, just certified, by interior-point and Newton steps; W is stale after it."""
    view, part, dual = block.view, block.part, block.dual_state
    n_stored = view.data.size if isinstance(view, CSR) else view.size
    n_labels = len(part.labels)
    matters = (dual.sqnorm > 0.0)[:, None] & (part.diagonal > 0.0)
    upper = np.where(matters, block.problem.upper(), 0.0)
    everything = LabelBox(slice(None), part, upper)
    flops = max(POLICY.blas * 4.0 * n_stored * block.forecast.epochs_to_go * n_labels, POLICY.free_flops)
    Z, coupled = block.now.Z, part.form != "diagonal"
    if coupled:
        few = _count_free(dual.A, upper) <= POLICY.newton_size
        moved = _solve(block, everything, Z, flops, POLICY.share * block.allowed).any()
        if moved or few or _interior_fits(block.problem.X.shape, *part.factor.shape):
            return  # in time all labels can be solved at once
        Z, R = Z.copy(), part.to_array()
    enough = 0.5 * block.allowed / n_labels
    unsolved = np.flatnonzero((part.diagonal > 0.0) & (block.now.sums.label_gaps > enough))
    for label in unsolved:
        one = slice(label, label + 1)
        own = PriorPart(part.labels[one], "diagonal", part.diagonal[one])
        box = LabelBox(one, own, upper[:, one])
        change = _solve(block, box, Z[:, one], flops / unsolved.size, POLICY.share * block.allowed / n_labels)
        if coupled and change.any():
            Z += 2.0 * (block.problem.X.T @ change) * R[label]  # Eq. (40)


def _count_free(a: np.ndarray, upper: np.ndarray) -> int:
    return int(np.count_nonzero((a > 0.0) & (a < upper)))


def _interior_fits(shape: tuple[int, int], n_labels: int, rank: int) -> bool:
    """Whether the arrays of an interior-point method on so many labels fit in memory."""
    n_samples, n_features = shape
    sizes = n_samples * n_features, n_labels * n_features**2, n_labels * rank**2, (n_features * rank) ** 2
    return max(sizes) <= POLICY.dense_size


def _hessian_factor(block: Block, box: LabelBox, flops: float) -> LabelRows | None:
    """M with Hessian M M^T = 4 (S S^T) o K o R, or None when the interior-point method is not the better one.

    That is when it would cost more than ``flops``; and at first also when there are fewer free variables than columns
    of M, which bound those of a generic optimum: they may be nearly right, and Newton steps keep them.
    """
    X, F = block.problem.X, box.part.factor
    n_free = _count_free(block.dual_state.A[:, box.labels], box.upper)
    if not _interior_fits(X.shape, *F.shape) or (n_free <= X.shape[1] * F.shape[1] and not block.tried_finish):
        return None
    chosen = np.flatnonzero(box.upper > 0.0)
    if not chosen.size or interior_point_flops(X.shape, *F.shape) > flops:
        return None
    S = block.dual_state.S[:, box.labels]
    return LabelRows(X if isinstance(X, np.ndarray) else X.toarray(), S, 2.0 * F, chosen)


def _solve(block: Block, box: LabelBox, Z: np.ndarray, flops: float, gap: float) -> np.ndarray:
    """Solve for the dual variables of some labels, of weights Z, to a gap; returns the change of S o A."""
    X, dual = block.problem.X, block.dual_state
    A, S = dual.A[:, box.labels], dual.S[:, box.labels].astype(np.float64)
    t = dual.targets[:, box.labels] if dual.targets.size else dual.loss.margin
    start, cost = A.copy(), box.upper / dual.loss.bound
    gradient = 2.0 * (S * (X @ Z) - t)  # Eq. (29), of f = -D

    def moved_by(step: np.ndarray) -> tuple[np.ndarray, float]:
        """The gradient after a step, and the quadratic part of the change of f."""
        V = X.T @ (S * step)
        VR = box.part.apply(V)
        return gradient + 4.0 * S * (X @ VR), 2.0 * float(np.vdot(V, VR))

    def value_and_gap(a: np.ndarray) -> tuple[float, float]:
        """-D(a) + D(start), and the gap of these labels at a."""
        step = a - start
        moved, quadratic = moved_by(step)
        change = float(np.vdot(gradient, step)) + quadratic
        return change, 2.0 * float(np.sum(dual.loss.gaps(a, cost, -0.5 * moved)))

    candidates, newton_start = [], start
    M = _hessian_factor(block, box, flops)
    if M is not None:
        place = np.unravel_index(M.chosen, A.shape)
        linear = gradient[place] - M.times(M.transposed(start[place]))
        inside, newton_start = start.copy(), start.copy()
        inside[place], newton_start[place] = interior_point_on_box(M, linear, box.upper[place], gap=gap)
        candidates.append(inside)

    def hessian(rows: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """4 S_il S_jk R_lk K_ij."""
        K = X[rows] @ X[rows].T
        K = K if isinstance(K, np.ndarray) else K.toarray()
        s, R = S[rows, labels], box.part.to_array()[np.ix_(labels, labels)]
        return 4.0 * np.outer(s, s) * K * R

    moved = gradient if M is None else moved_by(newton_start - start)[0]
    candidates.append(newton_step(newton_start, box.upper, moved, hessian, flops))
    # Values alone do not tell: near the optimum they agree in all digits when gaps still differ a million times.
    smallest = np.inf
    for candidate in candidates:
        value, its_gap = value_and_gap(candidate)
        if value < 0.0 and its_gap < smallest:  # never true for NaN
            A[:], smallest = candidate, its_gap
    return S * (A - start)


def newton_step(a: np.ndarray, upper: np.ndarray, gradient: np.ndarray, hessian: Hessian, flops: float) -> np.ndarray:
    """Newton steps on the free variables and those that most want to leave a bound, if the free ones are few.

    All arrays have two axes. Returns ``a`` itself if nothing helps.
    """
    free = (a > 0.0) & (a < upper)
    violation = np.where(a <= 0.0, -gradient, gradient)
    violation[free | (upper <= 0.0)] = 0.0
    n_others = max(POLICY.newton_size - np.count_nonzero(free), 0)
    others = np.flatnonzero(violation > 0.0)
    others = others[np.argsort(-violation.ravel()[others], kind="stable")[:n_others]]
    chosen = np.concatenate([np.flatnonzero(free), others])
    if not 0 < chosen.size <= POLICY.newton_size:
        return a
    place = np.unravel_index(chosen, a.shape)
    Q, slope = hessian(*place), gradient[place]
    try:
        new = newton_on_box(Q, slope, a[place], upper[place], max_flops=flops)
    except LinAlgError:  # K is singular, and indefinite by rounding
        return a
    step = new - a[place]
    if not float(slope @ step) + 0.5 * float(step @ Q @ step) < 0.0:  # NaN included
        return a
    moved = a.copy()
    moved[place] = new
    return moved
