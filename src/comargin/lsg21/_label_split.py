"""LSG21's labels without a penalty: least squares by themselves."""

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from ..core.row_blocks import squared_lengths
from .problem import LSG21Problem

_ROUNDING = 1e-10  # relative residual
_CORRECTIONS = 4  # fits of the residual of least squares, with features of length 1


def least_norm(problem: LSG21Problem, labels: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Least squares of some labels without a penalty: the minimiser of least norm, and both objectives.

    The primal is ||X W - Y||^2; the dual leaves out the part of the residual that another fit still explains.
    """
    n_samples, n_features = problem.X.shape
    Y = problem.Y[:, labels]
    if not Y.any():  # nothing to fit
        return np.zeros((n_features, labels.size)), 0.0, 0.0

    def fit(targets: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Least squares with the features times ``scale``, of least norm there, in the original units."""
        if isinstance(problem.X, np.ndarray):
            solved = np.linalg.lstsq(problem.X * scale, targets, rcond=None)[0]
        else:
            operator = LinearOperator(
                (n_samples, n_features),
                matvec=lambda w: problem.product((scale * w.ravel())[:, None])[:, 0],
                rmatvec=lambda r: scale * problem.transposed(r.reshape(-1, 1))[:, 0],
                dtype=np.float64,
            )
            limit = 10 * min(operator.shape)
            solved = np.column_stack(
                [lsmr(operator, y, atol=1e-12, btol=1e-12, conlim=0, maxiter=limit)[0] for y in targets.T]
            )
        return scale[:, None] * solved

    W = fit(Y, np.ones(n_features))
    R = Y - problem.product(W)
    squares = squared_lengths(problem.X.T) - (problem.root_weight @ problem.root_weight) * problem.shift**2
    lengths = np.sqrt(np.maximum(squares, 0.0))  # of the centred features; 0 where they do not vary
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)
    total = float(np.vdot(Y, Y))
    for _ in range(_CORRECTIONS):
        correction = fit(R, inverse)
        rest = R - problem.product(correction)
        primal, dual = float(np.vdot(R, R)), float(np.vdot(rest, rest))
        if primal - dual <= _ROUNDING * total:
            break
        # With features of very different lengths a smaller residual matters more than the norm of all weights.
        W, R = W + correction, rest
    return W, primal, primal if primal <= _ROUNDING**2 * total else min(dual, primal)


class LabelSplit(NamedTuple):
    """The penalised labels with their problem, and the weights and objectives of the free ones."""

    penalised: np.ndarray
    free: np.ndarray
    part: LSG21Problem
    W: np.ndarray
    primal: float
    dual: float

    def joined(self, W: np.ndarray) -> np.ndarray:
        """Weights of all labels, given those of the penalised ones."""
        full = np.empty((W.shape[0], self.penalised.size + self.free.size))
        full[:, self.penalised], full[:, self.free] = W, self.W
        return full


def split_labels(problem: LSG21Problem, alpha: float) -> LabelSplit:
    """Separate the labels without a penalty and solve for them."""
    penalised = np.flatnonzero(alpha * problem.penalty.total > 0.0)
    free = np.setdiff1d(np.arange(problem.Y.shape[1]), penalised)
    return LabelSplit(penalised, free, problem.at(penalised), *least_norm(problem, free))
