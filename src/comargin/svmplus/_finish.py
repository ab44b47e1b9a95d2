r"""An interior-point method for labels of SVM+ problems on which the method of multipliers creeps.

Features far larger than privileged ones, or far from zero, leave no penalty that suits both: with one that keeps Newton
systems above rounding, T hardly moves. A primal-dual interior-point method (Mehrotra, 1992) over all weights of a label
does not care about scaling, and is affordable where features and labels are few:

.. math:: \min_w \tfrac12 w^\top Q w + c^\top w \quad \text{s.t.} \quad G w \ge h, \qquad w = (z, t), \quad
    G = \begin{pmatrix} S \circ X & U \\ 0 & U_g \end{pmatrix}

Its multipliers are A and B. They, and (z, t) made feasible, count only as far as their certificate is better.
"""

from collections.abc import Callable

import numpy as np
from numpy.linalg import LinAlgError

from ..core.cholesky import cholesky, solve_factored
from ..core.interior_point import longest_step
from ._step import StepBlock
from ._system import as_dense

_MOST_FLOPS = 2e10  # of one label
_MOST_ITER = 60
_TO_BOUNDARY = 0.995
_PRECISION = 1e-9


def finish_label(block: StepBlock) -> None:
    """Offer a block of one label the point of an interior-point method, if its weights are few."""
    problem, privileged, X = block.problem, block.sets, block.features.X
    n_features, r, label = X.shape[1], float(problem.prior.diagonal[0]), int(problem.labels[0])
    c_t = privileged.to_label(label, problem.linear[:, 0])
    size, n_constraints = n_features + len(c_t), len(problem.S) + len(privileged.sets)
    if label in privileged.bases or r <= 0.0 or _MOST_ITER * n_constraints * float(size) ** 2 > _MOST_FLOPS:
        return
    rows, sets = np.flatnonzero(problem.there[:, 0]), np.flatnonzero(problem.set_there[:, 0])
    U = privileged.features(label, np.arange(len(privileged.sets)))
    margins = np.hstack([problem.S[rows] * as_dense(X[rows]), U[privileged.row_set[rows]]])
    G = np.vstack([margins, np.hstack([np.zeros((len(sets), n_features)), U[sets]])])
    h = np.repeat([1.0, 0.0], [len(rows), len(sets)])
    Q = np.repeat([1.0 / r, problem.gamma2], [n_features, len(c_t)])
    try:
        w, multipliers = interior_point(Q, np.concatenate([np.zeros(n_features), c_t]), G, h)
    except LinAlgError:
        return
    if not (np.isfinite(w).all() and np.isfinite(multipliers).all()):
        return
    A, B, before = np.zeros(problem.S.shape), np.zeros(problem.set_cost.shape), block.best.dual
    A[rows, 0], B[sets, 0] = multipliers[: len(rows)], multipliers[len(rows) :]
    block.stand_at(A, B, w[:n_features, None] / r, privileged.of_label(label, w[n_features:])[:, None])
    if block.best.dual <= before:  # the method of multipliers goes on from the best
        block.stand_at(block.best.A, block.best.B)


def interior_point(Q: np.ndarray, c: np.ndarray, G: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``1/2 w^T diag(Q) w + c . w`` subject to ``G w >= h``; w is in general not quite feasible.

    Returns w and the multipliers of the constraints, which are not negative.
    """
    # Weights in units in which their columns are of length 1.
    unit = np.linalg.norm(G, axis=0)
    unit = 1.0 / np.where(unit > 0.0, unit, 1.0)
    G, Q, c = G * unit, Q * unit**2, c * unit
    w = np.zeros(len(c))
    slack, multipliers = np.ones(len(h)), np.full(len(h), max(1.0, float(np.max(np.abs(c)))))
    for _ in range(_MOST_ITER):
        of_dual = Q * w + c - G.T @ multipliers
        of_primal = G @ w - h - slack
        mu = float(slack @ multipliers) / len(h)
        objective = abs(float(c @ w)) + 0.5 * float(Q @ w**2)
        feasible = np.max(np.abs(of_primal)) <= _PRECISION
        feasible &= np.max(np.abs(of_dual)) <= _PRECISION * (1.0 + float(np.max(np.abs(c))))
        if mu <= 0.0 or (feasible and mu * len(h) <= _PRECISION * objective):
            break
        direction = _newton(Q, G, slack, multipliers, of_dual, of_primal)
        # Predictor: straight to complementarity zero; it shows how much centring the corrector needs.
        dw, dslack, dmultipliers = direction(-slack * multipliers)
        length = longest_step((slack, dslack), (multipliers, dmultipliers))
        ahead = float((slack + length * dslack) @ (multipliers + length * dmultipliers)) / len(h)
        centred = mu * min(ahead / mu, 1.0) ** 3
        dw, dslack, dmultipliers = direction(centred - slack * multipliers - dslack * dmultipliers)
        # One length for both: with a quadratic term the residual of the dual has both parts.
        length = _TO_BOUNDARY * longest_step((slack, dslack), (multipliers, dmultipliers))
        w, slack = w + length * dw, slack + length * dslack
        multipliers = multipliers + length * dmultipliers
    return w * unit, multipliers


def _newton(
    Q: np.ndarray, G: np.ndarray, slack: np.ndarray, multipliers: np.ndarray, of_dual: np.ndarray, of_primal: np.ndarray
) -> Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """The steps of w, slack and multipliers that change slack * multipliers by so much; factorised once for all."""
    ratio = multipliers / slack
    system = G.T @ (ratio[:, None] * G)
    system.flat[:: len(Q) + 1] += Q
    factor = cholesky(system)

    def direction(product: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        dw = solve_factored(factor, G.T @ (product / slack - ratio * of_primal) - of_dual)
        dslack = G @ dw + of_primal
        return dw, dslack, product / slack - ratio * dslack

    return direction
