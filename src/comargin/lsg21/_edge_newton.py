"""Steps for all non-zero weights of LSG21 together, where its objective is smooth: reweighting and Newton's method."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from ..core.conjugate_gradients import conjugate_gradients
from ..core.loop import ROUNDING
from ..core.threads import blas_threads_for
from ._loops_edges import (
    conjugate_directions,
    conjugate_steps,
    edge_curvature,
    edge_curvature_diagonal,
    edge_penalty,
    edge_slope,
    edge_weights,
)
from ._loops_prox import Edges


@dataclass(frozen=True)
class NewtonPolicy:
    """Tuned numbers of the steps for all weights together; the comment gives the result of a sweep."""

    cg_tol: float = 0.1  # residual where conjugate gradients end; 0.4 costs a fifth more steps, 0.025 changes nothing
    cg_max: int = 30  # safety cap: with the systems of single labels a handful of steps is the rule
    systems_up_to: int = 60_000_000  # numbers in the systems of all labels: memory; beyond, the diagonal preconditions
    products_saved: int = 20  # factors may cost as much as this many products with X^T X
    sparse_below: float = 0.1  # fill of a matrix below which products with it skip the zeros
    ridge_steps: int = 4  # conjugate steps towards ridge regression; 16 overshoot and double the later steps
    steps_together: int = 8  # reweighted steps between two checks of their gain; 2 end too early on emotions and scene
    first_ridge: float = 1e-6  # ridge of the first Newton step, relative to the squared length of each feature
    ridge_range: tuple[float, float] = (1e-9, 1.0)  # below: rounding of X^T X; above: a gradient step
    ridge_up: float = 30.0  # factor after a step that failed or had to be shortened
    ridge_down: float = 0.1  # factor after a full step
    lengths: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03)  # lengths of a step that are tried with one ridge
    trials: int = 6  # ridges that are tried: from the first to the largest


POLICY = NewtonPolicy()


class _LabelSystem(NamedTuple):
    """Factors of the Hessian on the non-zero weights of one label."""

    label: int
    rows: np.ndarray
    factors: tuple[np.ndarray, bool]


class _Hessian:
    """Second derivatives where W is not zero, preconditioned by the blocks of single labels or by the diagonal."""

    def __init__(
        self, gram: np.ndarray, W: np.ndarray, alpha: float, edges: Edges, ridge: float, factorise: bool
    ) -> None:
        self.gram, self.W, self.alpha, self.edges = gram, W, alpha, edges
        self.curved = np.empty_like(W)
        edge_curvature_diagonal(W, edges, self.curved)
        lengths = 2.0 * gram.diagonal()
        self.ridge = ridge * lengths[:, None]
        added = alpha * self.curved + self.ridge
        self.diagonal = lengths[:, None] + added
        self.diagonal[self.diagonal == 0.0] = 1.0  # features of length 0, whose weights are zero
        free = W != 0.0
        counts = free.sum(axis=0).astype(np.float64)
        self.systems: list[_LabelSystem] | None = None
        cheap = (counts**3).sum() / 3.0 <= POLICY.products_saved * 2.0 * gram.size * counts.size
        if (cheap or factorise) and counts @ counts <= POLICY.systems_up_to:
            self.systems = []
            for label in np.flatnonzero(counts):
                rows = np.flatnonzero(free[:, label])
                system = 2.0 * gram[np.ix_(rows, rows)]
                system[np.diag_indices_from(system)] += added[rows, label]
                # Symmetric: the transpose is what LAPACK wants without a copy.
                factors = cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False)
                self.systems.append(_LabelSystem(int(label), rows, factors))

    def product(self, V: np.ndarray) -> np.ndarray:
        """The Hessian times V."""
        edge_curvature(self.W, V, self.edges, self.curved)
        product = self.alpha * self.curved + self.ridge * V
        return np.where(self.W != 0.0, 2.0 * _times(self.gram, V) + product, 0.0)

    def precondition(self, V: np.ndarray) -> np.ndarray:
        """The inverse of the blocks of single labels, or of the diagonal, times V."""
        if self.systems is None:
            return V / self.diagonal
        solved = np.zeros_like(V)
        for system in self.systems:
            v = V[system.rows, system.label]
            solved[system.rows, system.label] = cho_solve(system.factors, v, check_finite=False)
        return solved

    def direction(self, gradient: np.ndarray) -> tuple[np.ndarray, bool]:
        """Minus the inverse Hessian times the gradient, by conjugate gradients, and whether they converged."""
        D, _, solved = conjugate_gradients(self.product, -gradient, POLICY.cg_tol, POLICY.cg_max, self.precondition)
        return D, solved


class _Used:
    """The non-zero rows of W with their part of X^T X and of the slopes; all rows where a copy does not pay."""

    def __init__(self, gram: np.ndarray, slope: np.ndarray, W: np.ndarray, every: bool = False) -> None:
        self.gram, self.slope, self.W = gram, slope, W
        used = np.flatnonzero(W.any(axis=1))
        self.n_rows, self.few = used.size, 2 * used.size <= len(W) and not every
        self.rows = used if self.few else slice(None)
        self.system = gram[np.ix_(used, used)] if self.few else gram
        self.part, self.slopes = W[self.rows], slope[self.rows]

    def moved(self, new: np.ndarray, product: np.ndarray) -> None:
        """Write new weights for these rows and update the slopes; ``product`` is ``system`` times the change."""
        if self.few:
            delta = np.zeros_like(self.W)
            delta[self.rows] = new - self.part
            product = _times(self.gram, delta)
        self.W[self.rows] = new
        self.slope += product


def reweighted(
    gram: np.ndarray,
    slope: np.ndarray,
    W: np.ndarray,
    alpha: float,
    edges: Edges,
    *,
    most: int,
    enough: float,
    ridge: np.ndarray | None = None,
) -> float:
    """Conjugate gradients for the non-zero weights, the norms reweighted after every step.

    Quadratic majorisers of the norms, tangent at W, make labels independent, Eqs. (14), (16), and a step that lowers
    their objective lowers the original one, Eq. (9).

    ``slope`` is X^T (X W - Y), changed like W. Steps end after ``most`` of them, or when some together gain no more
    than ``enough``. The first steps take the squares sum_fi ridge_fi w_fi^2 / 2 if ``ridge`` is given, and may then
    start from W = 0. Returns how much the objective fell; 0 if W is unchanged.
    """
    used = _Used(gram, slope, W, every=ridge is not None)
    # Labels in rows: the features of a label are contiguous.
    new, slopes = used.part.T.copy(), used.slopes.T.copy()
    root = np.sqrt(used.system.diagonal())
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
    # Single precision halves the time and is enough for directions; slopes are recomputed in the end. Features of
    # length 1 keep the products from overflowing.
    system = (inverse[:, None] * used.system * inverse).astype(np.float32)
    weights, residual, conjugate, steepest = (np.zeros_like(new) for _ in range(4))
    rho, scaled = np.zeros(len(new)), np.zeros(new.shape, np.float32)
    state, n_held = (new, slopes, residual, conjugate, rho, scaled, steepest), 0
    if ridge is None:
        edge_weights(new, alpha, edges, weights)
    else:
        weights[:], n_held = ridge.T, POLICY.ridge_steps
    conjugate_directions(weights, root, *state)
    with blas_threads_for(len(root)):
        for first in range(0, most, POLICY.steps_together):
            count = min(POLICY.steps_together, most - first)
            # If products overflow, the gain is not positive and W stays unchanged.
            gained = conjugate_steps(system, weights, root, alpha, edges, n_held - first, count, *state)
            if first >= n_held and not gained > enough:
                break
    moved = np.ascontiguousarray(new.T)
    change = moved - used.part
    exact = used.system @ change
    fell = alpha * (edge_penalty(used.part, edges) - edge_penalty(moved, edges))
    fell -= float(np.vdot(change, 2.0 * used.slopes + exact))
    if not fell > 0.0:
        return 0.0
    used.moved(moved, exact)
    return fell


class RidgedNewton:
    """Newton steps with a ridge that grows when a step fails and shrinks when it succeeds (Levenberg, Marquardt).

    Where features depend on each other, the objective is linear along some directions and only a ridge bounds a step.
    """

    def __init__(self, edges: Edges) -> None:
        self.edges, self.ridge = edges, POLICY.first_ridge
        self.factorise = False  # at any cost, once the diagonal was not enough

    def step(self, gram: np.ndarray, slope: np.ndarray, W: np.ndarray, alpha: float) -> float:
        """Change the non-zero weights and ``slope``, X^T (X W - Y); returns how much the objective fell, or 0."""
        used = _Used(gram, slope, W)
        if used.n_rows == 0:
            return 0.0
        gradient = np.empty_like(used.part)
        edge_slope(used.part, self.edges, gradient)
        gradient = np.where(used.part != 0.0, 2.0 * used.slopes + alpha * gradient, 0.0)
        for _ in range(POLICY.trials):
            with blas_threads_for(used.n_rows):
                hessian = _Hessian(used.system, used.part, alpha, self.edges, self.ridge, self.factorise)
                D, solved = hessian.direction(gradient)
            self.factorise = self.factorise or not solved
            for length in POLICY.lengths:
                new, product, fell = self._best(used, length * D, alpha)
                if fell > 0.0:
                    self._change_ridge(POLICY.ridge_down if length == 1.0 else POLICY.ridge_up)
                    used.moved(new, product)
                    return fell
            self._change_ridge(POLICY.ridge_up)
        return 0.0

    def _change_ridge(self, factor: float) -> None:
        smallest, largest = POLICY.ridge_range
        self.ridge = min(max(factor * self.ridge, smallest), largest)

    def _best(self, used: _Used, D: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray, float]:
        """The best of W + D, W + D cut at zero, and W; X^T X times the change; and how much the objective falls."""
        W = used.part
        before, moved = edge_penalty(W, self.edges), W + D
        best, along, most = W, D, 0.0
        crossed = (moved > 0.0) != (W > 0.0)
        # A weight that crosses zero may belong at zero, or on the other side.
        for new in (np.where(crossed, 0.0, moved), moved) if crossed.any() else (moved,):
            delta = new - W
            product = _times(used.system, delta)
            quadratic, linear = float(np.vdot(delta, product)), 2.0 * float(np.vdot(delta, used.slopes))
            after = edge_penalty(new, self.edges)
            fell = alpha * (before - after) - linear - quadratic
            rounding = ROUNDING * (quadratic + abs(linear) + alpha * (before + after))
            if fell > max(most, rounding):
                best, along, most = new, product, fell
        return best, along, most


def _times(gram: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The symmetric ``gram`` times V, which may be mostly zeros."""
    if np.count_nonzero(V) < POLICY.sparse_below * V.size:
        return np.asarray((sp.csr_array(V.T) @ gram).T)
    return gram @ V
