"""Interior-point method for box-constrained QPs with a Hessian of low rank.

Coordinate descent fails on dense features far from zero: every dual variable stays strictly inside its box, and the
steps along the few directions that matter are tiny. A primal-dual interior-point method (Mehrotra, 1992) does not care
about scaling: some twenty iterations, each one factorisation of a matrix of the size of the rank (Fine and Scheinberg,
2001, for SVMs).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpotrf

_STEP_TO_BOUNDARY = 0.995
_MAX_ITER = 100


def interior_point_on_box(
    M: np.ndarray, linear: np.ndarray, upper: np.ndarray, *, tol: float = 1e-10
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``1/2 ||M^T x||^2 + linear . x`` over ``0 <= x <= upper``.

    Parameters
    ----------
    M : ndarray of shape (m, d)
        Factor of the Hessian M M^T.
    linear : ndarray of shape (m,)
        Coefficients of the linear term.
    upper : ndarray of shape (m,)
        Upper bounds, all positive.
    tol : float, default=1e-10
        Relative complementarity at which to stop.

    Returns
    -------
    inside : ndarray of shape (m,)
        Solution as it is, every variable strictly between its bounds.
    on_bounds : ndarray of shape (m,)
        The same with variables moved to the bounds they lean to: it shows which ones are free, but moving them all
        can cost more than it gains until the free ones have been adjusted.
    """
    # x in units of its bounds, so that one mu fits variables of very different weight.
    M = upper[:, None] * M
    cost = upper * (np.mean(np.abs(linear)) + np.finfo(np.float64).tiny)  # the unit of each gradient entry
    linear = linear * upper
    x = np.full(upper.shape, 0.5)
    room = 1.0 - x  # kept apart: near the upper bound 1 - x would be lost to rounding
    residual = M @ (M.T @ x) + linear  # of stationarity, without the multipliers
    scale = float(np.max(np.abs(residual))) + float(np.max(cost))
    low, high = np.full(x.shape, scale), np.full(x.shape, scale)  # multipliers of x >= 0 and x <= 1
    low += np.maximum(residual, 0.0)
    high += np.maximum(-residual, 0.0)
    for _ in range(_MAX_ITER):
        dual_residual = M @ (M.T @ x) + linear - low + high
        mu = float(x @ low + room @ high) / (2 * x.size)
        if 2 * x.size * mu <= tol * float(np.sum(cost)) and np.max(np.abs(dual_residual)) <= 1e-9 * scale:
            break
        newton = _NewtonSystem(M, x, room, low, high, dual_residual)
        # Predictor: straight to complementarity zero; it tells how much centring the corrector needs.
        dx, dlow, dhigh = newton.direction(-x * low, -room * high)
        step, dual_step = _longest((x, dx), (room, -dx)), _longest((low, dlow), (high, dhigh))
        ahead = (x + step * dx) @ (low + dual_step * dlow) + (room - step * dx) @ (high + dual_step * dhigh)
        target = mu * (float(ahead) / (2 * x.size * mu)) ** 3
        dx, dlow, dhigh = newton.direction(target - x * low - dx * dlow, target - room * high + dx * dhigh)
        step, dual_step = _longest((x, dx), (room, -dx)), _longest((low, dlow), (high, dhigh))
        x, room = x + _STEP_TO_BOUNDARY * step * dx, room - _STEP_TO_BOUNDARY * step * dx
        low = low + _STEP_TO_BOUNDARY * dual_step * dlow
        high = high + _STEP_TO_BOUNDARY * dual_step * dhigh
    # Complementarity: of x and its multiplier (in units of its cost) the larger one is not zero.
    on_bounds = np.where(low > x * cost, 0.0, np.where(high > room * cost, 1.0, x))
    return upper * np.clip(x, 0.0, 1.0), upper * on_bounds


class _NewtonSystem:
    """The linearised optimality conditions at one point, factorised once for both steps.

    (Theta + M M^T) dx = right, Theta = low / x + high / room, is solved through the d x d matrix of Woodbury's formula.
    """

    def __init__(
        self, M: np.ndarray, x: np.ndarray, room: np.ndarray, low: np.ndarray, high: np.ndarray, residual: np.ndarray
    ) -> None:
        self.x, self.room, self.low, self.high, self.residual = x, room, low, high, residual
        self.theta = low / x + high / room
        self.scaled = M / self.theta[:, None]
        # R^T R = I + M^T Theta^-1 M.
        self.R, info = dpotrf(np.eye(M.shape[1]) + M.T @ self.scaled)
        if info != 0:  # near the end the product can be too ill-conditioned to be formed: QR does without it
            stacked = np.concatenate([M / np.sqrt(self.theta)[:, None], np.eye(M.shape[1])])
            self.R = qr(stacked, mode="r", overwrite_a=True, check_finite=False)[0][: M.shape[1]]

    def direction(self, low_change: np.ndarray, high_change: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Steps of x and both multipliers that change x * low and room * high by so much, to first order."""
        right = -self.residual + low_change / self.x - high_change / self.room
        inner = solve_triangular(self.R, self.scaled.T @ right, trans="T", check_finite=False)
        inner = solve_triangular(self.R, inner, check_finite=False)
        dx = right / self.theta - self.scaled @ inner
        return dx, (low_change - self.low * dx) / self.x, (high_change + self.high * dx) / self.room


def _longest(*pairs: tuple[np.ndarray, np.ndarray]) -> float:
    """Longest step, at most 1, that keeps every value of every (value, change) pair from going below zero."""
    length = 1.0
    for value, change in pairs:
        shrinking = change < 0.0
        if shrinking.any():
            length = min(length, float(np.min(-value[shrinking] / change[shrinking])))
    return length
