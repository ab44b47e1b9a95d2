"""Steps for all weights of LSG21 that are not zero, where its objective is smooth: reweighting and Newton's method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from ..kernels._edge_prox import Edges
from ..kernels._edges import (
    conjugate_start,
    conjugate_steps,
    edge_curvature,
    edge_curvature_diagonal,
    edge_penalty,
    edge_slope,
    edge_weights,
)
from ._threads import blas_threads_for

# Conjugate gradients end when the residual, in the norm of the preconditioner, has fallen to this.
_CG_TOL = 0.1
_CG_MAX = 30
# Numbers in the systems of all labels together; beyond it, memory, the preconditioner is the diagonal.
_SYSTEMS_UP_TO = 60_000_000
# The diagonal needs about so many more products with X^T X: systems that cost more than these are not factorised.
_PRODUCTS_SAVED = 20
# Products are taken label by label when the weights in use leave less than this fraction of the work.
_APART_BELOW = 0.25
# Steps of conjugate gradients for a ridge regression to start from.
_RIDGE_STEPS = 4
# What so many steps of reweighting gain together tells whether to go on: not if it is more than this fraction of what
# those before gained, as what is left are weights on their way to zero.
_STEPS_TOGETHER = 8
_SLOW = 0.9
# The ridge of a Newton step, relative to the length of each feature: the first, the smallest, and how it changes.
FIRST_RIDGE = 1e-6
_SMALLEST_RIDGE = 1e-9
_LARGEST_RIDGE = 1.0
_MORE, _LESS = 30.0, 0.1
# Products with matrices that have less than this fraction of entries skip the others.
_SPARSE_BELOW = 0.1
# Lengths of a step that are tried with one ridge.
_LENGTHS = (1.0, 0.3, 0.1, 0.03)
# Ridges that are tried at most; and a fall of the objective that may be rounding.
_TRIALS = 6
_ROUNDING = 1e-14


class _LabelSystem(NamedTuple):
    """2 X^T X on the weights of one label that are not zero, and the factors with the curvature of the penalty."""

    label: int
    rows: np.ndarray
    gram: np.ndarray | None
    factors: tuple[np.ndarray, bool]


class _Hessian:
    """Second derivatives where W is not zero, and what of them joins no labels, or their diagonal, to precondition."""

    def __init__(
        self, gram: np.ndarray, W: np.ndarray, alpha: float, edges: Edges, ridge: float, factorise: bool
    ) -> None:
        self.gram, self.W, self.alpha, self.edges, self.free = gram, W, alpha, edges, W != 0.0
        self.curved = np.empty_like(W)
        edge_curvature_diagonal(W, edges, self.curved)
        lengths = 2.0 * gram.diagonal()
        self.ridge = ridge * lengths[:, None]
        added = alpha * self.curved + self.ridge
        self.diagonal = lengths[:, None] + added
        self.diagonal[self.diagonal == 0.0] = 1.0  # features of length 0, whose weights are zero
        counts = self.free.sum(axis=0).astype(np.float64)
        cheap = factorise or (counts**3).sum() / 3.0 <= _PRODUCTS_SAVED * 2.0 * gram.size * counts.size
        self.systems: list[_LabelSystem] | None = None
        # One product for all labels, or one of its own size for each.
        self.apart = float(counts @ counts) < _APART_BELOW * gram.size * counts.size
        if cheap and counts @ counts <= _SYSTEMS_UP_TO:
            self.systems = []
            for label in np.flatnonzero(counts):
                rows = np.flatnonzero(self.free[:, label])
                part = 2.0 * gram[np.ix_(rows, rows)]
                system = part.copy() if self.apart else part
                system[np.diag_indices_from(system)] += added[rows, label]
                # Symmetric: the transpose is what LAPACK wants without a copy.
                factors = cho_factor(system.T, lower=True, overwrite_a=True, check_finite=False)
                self.systems.append(_LabelSystem(int(label), rows, part if self.apart else None, factors))

    def product(self, V: np.ndarray) -> np.ndarray:
        """The Hessian times V."""
        edge_curvature(self.W, V, self.edges, self.curved)
        product = self.alpha * self.curved + self.ridge * V
        if not self.apart or self.systems is None:
            return np.where(self.free, 2.0 * (self.gram @ V) + product, 0.0)
        for system in self.systems:
            product[system.rows, system.label] += system.gram @ V[system.rows, system.label]
        return product

    def precondition(self, V: np.ndarray) -> np.ndarray:
        """V through the inverse of the parts of single labels, or of the diagonal."""
        if self.systems is None:
            return V / self.diagonal
        solved = np.zeros_like(V)
        for system in self.systems:
            v = V[system.rows, system.label]
            solved[system.rows, system.label] = cho_solve(system.factors, v, check_finite=False)
        return solved


def _direction(hessian: _Hessian, gradient: np.ndarray) -> tuple[np.ndarray, bool]:
    """Minus the inverse Hessian times the gradient, by conjugate gradients, and whether they came near it."""
    D, residual = np.zeros_like(gradient), -gradient
    z = hessian.precondition(residual)
    conjugate, rho = z.copy(), float(np.vdot(residual, z))
    enough = _CG_TOL**2 * rho
    for _ in range(_CG_MAX):
        if rho <= enough:
            break
        product = hessian.product(conjugate)
        curvature = float(np.vdot(conjugate, product))
        if curvature <= 0.0:
            break
        D += (rho / curvature) * conjugate
        residual -= (rho / curvature) * product
        z = hessian.precondition(residual)
        before, rho = rho, float(np.vdot(residual, z))
        conjugate = z + (rho / before) * conjugate
    return D, rho <= enough


class _Used:
    """The rows of W that are not zero, or all, with what belongs to them; copies only pay when these rows are few."""

    def __init__(self, gram: np.ndarray, slope: np.ndarray, W: np.ndarray, every: bool = False) -> None:
        self.gram, self.slope, self.W = gram, slope, W
        used = np.flatnonzero(W.any(axis=1))
        self.n_rows, self.few = used.size, 2 * used.size <= len(W) and not every
        self.rows = used if self.few else slice(None)
        self.system = gram[np.ix_(used, used)] if self.few else gram
        self.part, self.slopes = W[self.rows], slope[self.rows]

    def moved(self, new: np.ndarray, product: np.ndarray) -> None:
        """Write new weights for these rows, and the slopes that follow; ``product`` is that of system and change."""
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
    """Conjugate gradients for the weights that are not zero, the norms reweighted after every step.

    The norms are replaced by squares that touch them at W and are above them elsewhere. That makes labels independent,
    and a step that lowers the new objective lowers the old one.

    Parameters
    ----------
    gram : ndarray of shape (n_features, n_features)
        X^T X.
    slope : ndarray of shape (n_features, n_labels)
        X^T (X W - Y), kept up to date.
    W : ndarray of shape (n_features, n_labels)
        Weights, changed.
    alpha : float
        Of the penalty.
    edges : Edges
        The label graph.
    most : int
        Most steps.
    enough : float
        Steps end when some of them together gain no more than this.
    ridge : ndarray of shape (n_features, n_labels) or None
        Squares sum_fi ridge_fi w_fi^2 / 2 for the first steps, which may then start from W = 0.

    Returns
    -------
    float
        How much the objective fell; 0 when W is as it was.
    """
    used = _Used(gram, slope, W, every=ridge is not None)
    # Labels in rows: the features of a label are contiguous.
    new, slopes = used.part.T.copy(), used.slopes.T.copy()
    root = np.sqrt(used.system.diagonal())
    inverse = np.divide(1.0, root, out=np.zeros_like(root), where=root > 0.0)
    # In single precision, half the time: directions and lengths of steps need no more, and slopes are computed anew in
    # the end. Features of length 1 keep the products from overflowing.
    system = (inverse[:, None] * used.system * inverse).astype(np.float32)
    weights, residual, conjugate, steepest = (np.empty_like(new) for _ in range(4))
    rho, scaled = np.empty(len(new)), np.empty(new.shape, np.float32)
    state, n_held = (new, slopes, residual, conjugate, rho, scaled, steepest), 0
    if ridge is None:
        edge_weights(new, alpha, edges, weights)
    else:
        weights[:], n_held = ridge.T, _RIDGE_STEPS
    conjugate_start(weights, root, *state)
    before = np.inf
    with blas_threads_for(len(root)):
        for first in range(0, most, _STEPS_TOGETHER):
            count = min(_STEPS_TOGETHER, most - first)
            # When products overflow nothing is gained, and W stays as it was.
            gained = conjugate_steps(system, weights, root, alpha, edges, n_held - first, count, *state)
            if first >= n_held and not enough < gained <= _SLOW * before:
                break
            before = gained
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
    """Newton steps with a ridge that grows when a step fails and shrinks when it does not (Levenberg, Marquardt).

    Where features depend on each other, the objective is straight along some directions and nothing but a ridge ends a
    step there.
    """

    def __init__(self, edges: Edges) -> None:
        self.edges, self.ridge, self.factorise = edges, FIRST_RIDGE, False

    def step(self, gram: np.ndarray, slope: np.ndarray, W: np.ndarray, alpha: float) -> float:
        """One step for the weights that are not zero.

        Parameters
        ----------
        gram : ndarray of shape (n_features, n_features)
            X^T X.
        slope : ndarray of shape (n_features, n_labels)
            X^T (X W - Y), kept up to date.
        W : ndarray of shape (n_features, n_labels)
            Weights, changed.
        alpha : float
            Of the penalty.

        Returns
        -------
        float
            How much the objective fell; 0 when W is as it was.
        """
        used = _Used(gram, slope, W)
        if used.n_rows == 0:
            return 0.0
        gradient = np.empty_like(used.part)
        edge_slope(used.part, self.edges, gradient)
        gradient = np.where(used.part != 0.0, 2.0 * used.slopes + alpha * gradient, 0.0)
        for _ in range(_TRIALS):
            with blas_threads_for(used.n_rows):
                hessian = _Hessian(used.system, used.part, alpha, self.edges, self.ridge, self.factorise)
                D, solved = _direction(hessian, gradient)
            self.factorise = self.factorise or not solved
            for length in _LENGTHS:
                new, product, fell = self._best(used, length * D, alpha)
                if fell > 0.0:
                    break
            if fell > 0.0:
                # A step that had to be shortened wants more of a ridge next time.
                change = _LESS if length == 1.0 else _MORE
                self.ridge = min(max(change * self.ridge, _SMALLEST_RIDGE), _LARGEST_RIDGE)
                used.moved(new, product)
                return fell
            self.ridge = min(_MORE * self.ridge, _LARGEST_RIDGE)
        return 0.0

    def _best(self, used: _Used, D: np.ndarray, alpha: float) -> tuple[np.ndarray, np.ndarray, float]:
        """The better of the ends of a step, X^T X times it, and how much the objective falls: by W itself 0."""
        W = used.part
        before, moved = edge_penalty(W, self.edges), W + D
        best, along, most = W, D, 0.0
        crossed = (moved > 0.0) != (W > 0.0)
        # A weight that crosses zero may stop there, or have been on the wrong side.
        for new in (np.where(crossed, 0.0, moved), moved) if crossed.any() else (moved,):
            delta = new - W
            product = _times(used.system, delta)
            quadratic, linear = float(np.vdot(delta, product)), 2.0 * float(np.vdot(delta, used.slopes))
            after = edge_penalty(new, self.edges)
            fell = alpha * (before - after) - linear - quadratic
            rounding = _ROUNDING * (quadratic + abs(linear) + alpha * (before + after))
            if fell > max(most, rounding):
                best, along, most = new, product, fell
        return best, along, most


def _times(gram: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The symmetric ``gram`` times V, which may be mostly zeros."""
    if np.count_nonzero(V) < _SPARSE_BELOW * V.size:
        return np.asarray((sp.csr_array(V.T) @ gram).T)
    return gram @ V
