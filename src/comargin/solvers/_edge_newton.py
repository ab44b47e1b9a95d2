"""Newton steps for LSG21 on the weights that are not zero, where its objective is smooth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve

from ..kernels._edge_prox import Edges
from ..kernels._edges import edge_curvature, edge_curvature_diagonal, edge_slope
from ..problems.lsg21 import EdgePenalty

# Conjugate gradients end when the residual, in the norm of the preconditioner, has fallen to this.
_CG_TOL = 0.05
_CG_MAX = 30
# Numbers in the systems of all labels together; beyond it, memory, the preconditioner is the diagonal.
_SYSTEMS_UP_TO = 60_000_000
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
    gram: np.ndarray
    factors: tuple[np.ndarray, bool]


class _Hessian:
    """Second derivatives where W is not zero, and what of them joins no labels as a preconditioner."""

    def __init__(self, gram: np.ndarray, W: np.ndarray, alpha: float, edges: Edges, ridge: float) -> None:
        self.gram, self.W, self.alpha, self.edges, self.free = gram, W, alpha, edges, W != 0.0
        self.curved = np.empty_like(W)
        edge_curvature_diagonal(W, edges, self.curved)
        lengths = 2.0 * gram.diagonal()
        self.ridge = ridge * lengths[:, None]
        added = alpha * self.curved + self.ridge
        self.diagonal = lengths[:, None] + added
        counts = self.free.sum(axis=0).astype(np.int64)
        self.systems: list[_LabelSystem] | None = None
        if int(counts @ counts) <= _SYSTEMS_UP_TO:
            self.systems = []
            for label in np.flatnonzero(counts):
                rows = np.flatnonzero(self.free[:, label])
                part = 2.0 * gram[np.ix_(rows, rows)]
                system = part.copy()
                system[np.diag_indices_from(system)] += added[rows, label]
                factors = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
                self.systems.append(_LabelSystem(int(label), rows, part, factors))
        # One product for all labels, or one of its own size for each.
        self.apart = self.systems is not None and 4 * int(counts @ counts) < gram.size * counts.size

    def product(self, V: np.ndarray) -> np.ndarray:
        """The Hessian times V."""
        edge_curvature(self.W, V, self.edges, self.curved)
        if not self.apart or self.systems is None:
            return np.where(self.free, 2.0 * (self.gram @ V) + self.alpha * self.curved + self.ridge * V, 0.0)
        product = self.alpha * self.curved + self.ridge * V
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


def _direction(hessian: _Hessian, gradient: np.ndarray) -> np.ndarray:
    """Minus the inverse Hessian times the gradient, by conjugate gradients."""
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
    return D


class RidgedNewton:
    """Newton steps with a ridge that grows when a step fails and shrinks when it does not (Levenberg, Marquardt).

    Where features depend on each other, the objective is straight along some directions and nothing but a ridge ends a
    step there.
    """

    def __init__(self, edges: Edges, penalty: EdgePenalty) -> None:
        self.edges, self.penalty, self.ridge = edges, penalty, FIRST_RIDGE

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
        used = np.flatnonzero(W.any(axis=1))
        if used.size == 0:
            return 0.0
        # Copies of what is used only pay when that is little.
        rows = used if 2 * used.size <= len(W) else slice(None)
        system = gram[np.ix_(used, used)] if rows is used else gram
        part, slopes = W[rows], slope[rows]
        gradient = np.empty_like(part)
        edge_slope(part, self.edges, gradient)
        gradient = np.where(part != 0.0, 2.0 * slopes + alpha * gradient, 0.0)
        for _ in range(_TRIALS):
            D = _direction(_Hessian(system, part, alpha, self.edges, self.ridge), gradient)
            for length in _LENGTHS:
                new, fell = self._best(system, slopes, part, length * D, alpha)
                if fell > 0.0:
                    break
            if fell > 0.0:
                # A step that had to be shortened wants more of a ridge next time.
                change = _LESS if length == 1.0 else _MORE
                self.ridge = min(max(change * self.ridge, _SMALLEST_RIDGE), _LARGEST_RIDGE)
                delta = np.zeros_like(W)
                delta[rows] = new - part
                W[rows] = new
                slope += _times(gram, delta)
                return fell
            self.ridge = min(_MORE * self.ridge, _LARGEST_RIDGE)
        return 0.0

    def _best(
        self, system: np.ndarray, slopes: np.ndarray, W: np.ndarray, D: np.ndarray, alpha: float
    ) -> tuple[np.ndarray, float]:
        """The better of the ends of a step, and how much the objective falls to it: not at all by W itself and 0."""
        before, moved = self.penalty.value(W), W + D
        best, most = W, 0.0
        crossed = (moved > 0.0) != (W > 0.0)
        # A weight that crosses zero may stop there, or have been on the wrong side.
        for new in (np.where(crossed, 0.0, moved), moved) if crossed.any() else (moved,):
            delta = new - W
            quadratic, linear = float(np.vdot(delta, _times(system, delta))), 2.0 * float(np.vdot(delta, slopes))
            after = self.penalty.value(new)
            fell = alpha * (before - after) - linear - quadratic
            rounding = _ROUNDING * (quadratic + abs(linear) + alpha * (before + after))
            if fell > max(most, rounding):
                best, most = new, fell
        return best, most


def _times(gram: np.ndarray, V: np.ndarray) -> np.ndarray:
    """The symmetric ``gram`` times V, which may be mostly zeros."""
    if np.count_nonzero(V) < _SPARSE_BELOW * V.size:
        return np.asarray((sp.csr_array(V.T) @ gram).T)
    return gram @ V
