"""LSG21's labels without a penalty: least squares by themselves."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, lsmr

from ..problems.lsg21 import LSG21Problem

# A residual below this fraction of what it is of is rounding.
_ROUNDING = 1e-10


def least_norm(problem: LSG21Problem, labels: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Least squares without a penalty, the shortest of the best weights.

    Parameters
    ----------
    problem : LSG21Problem
        The data.
    labels : ndarray of int
        Labels to solve for.

    Returns
    -------
    W : ndarray of shape (n_features, n_labels)
        Weights of these labels.
    primal, dual : float
        ||X W - Y||^2, and that without the part of the residual that X could still fit.
    """
    n_samples, n_features = problem.X.shape
    Y = problem.Y[:, labels]
    if not Y.any():  # nothing to fit
        return np.zeros((n_features, labels.size)), 0.0, 0.0

    def fit(targets: np.ndarray) -> np.ndarray:
        if isinstance(problem.X, np.ndarray):
            return np.linalg.lstsq(problem.X, targets, rcond=None)[0]
        operator = LinearOperator(
            (n_samples, n_features),
            matvec=lambda w: problem.product(w.reshape(-1, 1))[:, 0],
            rmatvec=lambda r: problem.transposed(r.reshape(-1, 1))[:, 0],
            dtype=np.float64,
        )
        solved = [lsmr(operator, y, atol=1e-12, btol=1e-12, maxiter=10 * min(operator.shape))[0] for y in targets.T]
        return np.column_stack(solved)

    W = fit(Y)
    R = Y - problem.product(W)
    correction = fit(R)
    rest = R - problem.product(correction)
    primal, dual = float(np.vdot(R, R)), float(np.vdot(rest, rest))
    return W, primal, primal if primal <= _ROUNDING**2 * float(np.vdot(Y, Y)) else min(dual, primal)


class LabelSplit(NamedTuple):
    """Labels that are penalised, and the solution for those that are not.

    Attributes
    ----------
    penalised, free : ndarray of int
        Labels.
    part : LSG21Problem
        Of the penalised labels.
    W : ndarray of shape (n_features, n_free)
        Least squares of least norm.
    primal, dual : float
        Objectives of ``W``.
    """

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
    """Solve for the labels without a penalty, and leave the others.

    Parameters
    ----------
    problem : LSG21Problem
        All labels.
    alpha : float
        Of the penalty.

    Returns
    -------
    LabelSplit
        What is left to do.
    """
    penalised = np.flatnonzero(alpha * problem.penalty.total > 0.0)
    free = np.setdiff1d(np.arange(problem.Y.shape[1]), penalised)
    return LabelSplit(penalised, free, problem.at(penalised), *least_norm(problem, free))
