r"""Newton's method for M3L with a smooth loss, all labels of a part of R at once.

The weights are M R for coefficients M: of features in the linear problem (d x L), of training rows with a kernel
(n x L). With G = I, or K, the coefficients have the inner product <M, N> = tr(M^T G N R), in which

.. math:: P(M) = \tfrac12 \langle M, M \rangle + 2 \sum_{il} U_{il}\, \phi(u_{il}), \qquad
    \nabla P = M - B(2\, S \circ A), \quad A = U \circ \phi'(u),

where B is X^T, or nothing with a kernel. A is feasible for the dual, and (25) at A is P - |grad P|^2 / 2, so every
gradient is a certificate. A step solves the Newton system N + B(2 U phi''(u) o scores of N) = -grad P by conjugate
gradients, which read X (or K) once for all labels; independent labels have step lengths of their own.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..core.cholesky import cholesky, solve_factored
from ..core.gram import Gram, gram_product
from .losses import LabelSums
from .prior import PriorPart
from .problem import LabelTerms


@dataclass(frozen=True)
class NewtonPolicy:
    most_products: int = 100  # in one Newton system; enron at C = 10 comes near, at C = 0.1 it needs ten
    forcing: float = 0.1  # by which conjugate gradients reduce the gradient: a gap falls a hundred times in a step
    factorised_features: int = 1024  # most features of a factorised preconditioner: raw features then need few products


POLICY = NewtonPolicy()
_ARMIJO = 1e-4
_SHORTEST = 1e-10


# Maps coefficients to coefficients.
Preconditioner = Callable[[np.ndarray], np.ndarray]


class FeatureSpace:
    """Where the coefficients live: here those of features, of the linear problem."""

    def __init__(self, X: np.ndarray | sp.csr_array, part: PriorPart) -> None:
        self.X, self.part = X, part

    def metric(self, M: np.ndarray) -> np.ndarray:
        """G M R."""
        return self.part.apply(M)

    def scores(self, metric: np.ndarray) -> np.ndarray:
        """Scores of the training rows, from ``metric`` of the coefficients."""
        return np.asarray(self.X @ metric)

    def adjoint(self, C: np.ndarray) -> np.ndarray:
        """Coefficients of sum_i x_i C_i."""
        return np.asarray(self.X.T @ C)

    @cached_property
    def _squares(self) -> np.ndarray | sp.csr_array:
        return self.X**2 if isinstance(self.X, np.ndarray) else self.X.power(2)

    def preconditioner(self, weight: np.ndarray) -> Preconditioner:
        """Approximate inverse of N -> N + B(weight o scores of N).

        That of the Hessian of the mean label, factorised; of its diagonal, or every label's, if features are many. It
        multiplies coefficients from the left, so that it is symmetric in the inner product of any R.
        """
        n_features, r = self.X.shape[1], self.part.diagonal
        if isinstance(self.X, np.ndarray) and n_features <= POLICY.factorised_features:
            rows = self.X * np.sqrt((weight @ r) / len(r))[:, None]
            H = rows.T @ rows
            H.flat[:: n_features + 1] += 1.0
            factor = cholesky(H)
            return lambda M: solve_factored(factor, M)
        if self.part.form == "diagonal":
            diagonal = 1.0 + r * np.asarray(self._squares.T @ weight)
        else:
            diagonal = 1.0 + np.asarray(self._squares.T @ (weight @ r / len(r)))[:, None]
        return lambda M: M / diagonal


class RowSpace:
    """The same for coefficients of training rows, with a kernel; ``K`` is the kernel matrix if it is in memory."""

    def __init__(self, gram: Gram, part: PriorPart, pool: Executor, K: np.ndarray | None) -> None:
        self.gram, self.part, self.pool, self.K = gram, part, pool, K

    def metric(self, M: np.ndarray) -> np.ndarray:
        return gram_product(self.gram, self.part.apply(M), self.pool, self.K)

    def scores(self, metric: np.ndarray) -> np.ndarray:
        return metric

    def adjoint(self, C: np.ndarray) -> np.ndarray:
        return C

    def preconditioner(self, weight: np.ndarray) -> Preconditioner:
        return lambda M: M


class Newton:
    """Newton steps on the labels of one part of R, and the certificate of the point they are at."""

    def __init__(self, problem: LabelTerms, part: PriorPart, space: FeatureSpace | RowSpace, start: np.ndarray) -> None:
        self.problem, self.space, self.loss = problem, space, problem.loss
        self.is_coupled = part.form != "diagonal"
        self.S, self.cost, self.target = problem.S, problem.cost(), problem.target()
        self.M = start
        self.refresh()
        # A start that is far from the optimum can have a larger objective than M = 0.
        nothing = np.sum(self.cost * self.loss.value(self.target), axis=0)
        worse = self.sums.quadratic + 2.0 * (self.sums.losses - nothing)
        worse = np.broadcast_to(worse.sum(), worse.shape) if self.is_coupled else worse
        if (worse > 0.0).any():
            self.M = np.where(worse > 0.0, 0.0, self.M)
            self.refresh()

    def _dot(self, M: np.ndarray, metric: np.ndarray) -> np.ndarray:
        """Inner products: of every label, or (1,) of all where R couples them."""
        dots = np.einsum("ij,ij->j", M, metric)
        return dots.sum(keepdims=True) if self.is_coupled else dots

    def refresh(self) -> None:
        """Compute everything anew from M."""
        self.metric = self.space.metric(self.M)
        self.scores = self.space.scores(self.metric)
        missing = self.target - self.S * self.scores
        self.A = self.cost * self.loss.slope(missing)
        self.gradient = self.M - self.space.adjoint(2.0 * self.S * self.A)
        self.gradient_metric = self.space.metric(self.gradient)
        self.weight = 2.0 * self.cost * self.loss.second(missing)
        quadratic = 0.5 * np.einsum("ij,ij->j", self.M, self.metric)
        losses = np.sum(self.cost * self.loss.value(missing), axis=0)
        half_gaps = 0.25 * np.einsum("ij,ij->j", self.gradient, self.gradient_metric)
        self.sums = LabelSums(quadratic, losses, quadratic + losses - half_gaps)

    def step(self) -> None:
        direction, metric, scores = self._direction()
        length = self._length(direction, metric, scores)
        self.M = self.M + length * direction
        self.refresh()

    def _direction(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Solve the Newton system; returns its solution, with metric and scores."""
        space, apply = self.space, self.space.preconditioner(self.weight)
        residual = -self.gradient
        p = apply(residual)
        p_metric = space.metric(p)
        size = self._dot(residual, p_metric)
        enough = POLICY.forcing**2 * size
        solution, solution_metric = np.zeros_like(p), np.zeros_like(p_metric)
        solution_scores = np.zeros(self.scores.shape)
        for _ in range(POLICY.most_products):
            p_scores = space.scores(p_metric)
            product = p + space.adjoint(self.weight * p_scores)
            curvature = self._dot(product, p_metric)
            moves = (size > enough) & (curvature > 0.0)
            if not moves.any():
                break
            step = np.divide(size, curvature, out=np.zeros(size.shape), where=moves)
            solution += step * p
            solution_metric += step * p_metric
            solution_scores += step * p_scores
            residual = residual - step * product
            z = apply(residual)
            z_metric = space.metric(z)
            new_size = self._dot(residual, z_metric)
            if not (new_size > enough).any():
                break
            ratio = np.divide(new_size, size, out=np.zeros(size.shape), where=moves)
            p, p_metric, size = z + ratio * p, z_metric + ratio * p_metric, new_size
        return solution, solution_metric, solution_scores

    def _length(self, direction: np.ndarray, metric: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Step lengths by Armijo's rule, halved from 1."""
        across, along = self._dot(direction, self.metric), self._dot(direction, metric)
        slope = self._dot(direction, self.gradient_metric)

        def change(length: np.ndarray) -> np.ndarray:
            """P after the step, less P."""
            losses = self.loss.value(self.target - self.S * (self.scores + length * scores))
            rise = 2.0 * (np.sum(self.cost * losses, axis=0) - self.sums.losses)
            rise = rise.sum(keepdims=True) if self.is_coupled else rise
            return length * (across + 0.5 * length * along) + rise

        rounding = 1e-14 * np.abs(self.sums.quadratic + 2.0 * self.sums.losses)
        rounding = rounding.sum(keepdims=True) if self.is_coupled else rounding
        length = np.ones(slope.shape)
        while True:
            fails = ~(change(length) <= _ARMIJO * length * slope + rounding)  # NaN fails
            if not fails.any() or length.min() < _SHORTEST:
                return np.where(fails, 0.0, length)
            length = np.where(fails, 0.5 * length, length)
