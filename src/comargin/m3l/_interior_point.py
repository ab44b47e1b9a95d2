"""Interior-point method for box-constrained QPs with a Hessian of low rank.

Coordinate descent fails on dense features far from zero: every dual variable stays strictly inside its box, and the
steps along the few directions that matter are tiny. A primal-dual interior-point method (Mehrotra, 1992) does not
depend on the scaling: about twenty iterations, each one factorisation of a matrix of the size of the rank (Fine and
Scheinberg, 2001, for SVMs).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import qr, solve_triangular
from scipy.linalg.lapack import dpotrf

from ..core.interior_point import longest_step

_STEP_TO_BOUNDARY = 0.995  # share of the way to the nearest bound
_USUAL_STEPS, _MAX_ITER = 25, 100  # steps that the cost estimate assumes, and the limit
_PRECISION = 1e-10  # gap relative to the linear term at which rounding takes over
_MOST_WORSE = 3  # more steps in a row without a smaller gap are rounding
_SPOILT = 10.0  # a gap this many times the smallest is rounding


@dataclass(frozen=True)
class LabelRows:
    """The Hessian M M^T of some dual variables (i, l): their rows of M are S_il times the products of x_i and F_l.

    X is (n_samples, n_features), the signs S (n_samples, n_labels), F (n_labels, rank); ``chosen`` indexes the
    variables in S.ravel(). M (one column per feature and column of F) is never formed: sums over rows are computed
    label by label in the space of the features, and combined by F.
    """

    X: np.ndarray
    S: np.ndarray
    F: np.ndarray
    chosen: np.ndarray

    @property
    def n_columns(self) -> int:
        return self.X.shape[1] * self.F.shape[1]

    def transposed(self, x: np.ndarray) -> np.ndarray:
        """M^T x."""
        return np.asarray((self.X.T @ (self.S * self._spread(x))) @ self.F).ravel()

    def times(self, w: np.ndarray) -> np.ndarray:
        """M w."""
        W = w.reshape(self.X.shape[1], self.F.shape[1])
        return (self.S * (self.X @ (W @ self.F.T))).ravel()[self.chosen]

    def triangle(self, weights: np.ndarray) -> np.ndarray:
        """Upper triangular T with T^T T = I + M^T diag(weights) M = I + sum_l (X^T diag(weights_l) X) x (F_l^T F_l)."""
        spread, n_features = self._spread(weights), self.X.shape[1]
        roots = np.sqrt(spread).T
        moments = np.stack([weighted.T @ weighted for weighted in (root[:, None] * self.X for root in roots)])
        pairs = self.F[:, :, None] * self.F[:, None, :]
        normal = np.tensordot(moments, pairs, axes=(0, 0)).transpose(0, 2, 1, 3).reshape(self.n_columns, self.n_columns)
        normal.flat[:: self.n_columns + 1] += 1.0
        factor, info = dpotrf(normal)
        if info == 0:
            return np.asarray(factor)
        # Near the end the sums can be too ill-conditioned: QR factors of the labels avoid them.
        triangle = np.eye(self.n_columns)
        for root, f in zip(roots, self.F, strict=True):
            own = qr(root[:, None] * self.X, mode="r", overwrite_a=True, check_finite=False)[0][:n_features]
            stacked = np.concatenate([triangle, np.kron(own, f[None, :])])
            triangle = qr(stacked, mode="r", overwrite_a=True, check_finite=False)[0][: self.n_columns]
        return np.asarray(triangle)

    def _spread(self, x: np.ndarray) -> np.ndarray:
        whole = np.zeros(self.S.size)
        whole[self.chosen] = x
        return whole.reshape(self.S.shape)


def interior_point_flops(shape: tuple[int, int], n_labels: int, rank: int) -> float:
    """Expected BLAS operations of a solve for all labels, X of shape ``shape`` and F (n_labels, rank)."""
    n_samples, n_features = shape
    moments = n_features**2 * n_labels * (n_samples + 2.0 * rank**2)
    return _USUAL_STEPS * (moments + (n_features * rank) ** 3 / 3.0)


def interior_point_on_box(
    M: LabelRows, linear: np.ndarray, upper: np.ndarray, *, gap: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Minimise ``1/2 ||M^T x||^2 + linear . x`` over ``0 <= x <= upper``, with ``upper`` positive.

    Stops at the duality gap (complementarity) ``gap``, or at 1e-10 of the linear term if that is larger.

    Returns
    -------
    inside : ndarray of shape (m,)
        The iterate with the smallest gap, every variable strictly between its bounds.
    on_bounds : ndarray of shape (m,)
        The same with variables moved to the bounds they approach. It identifies the free variables; moving all the
        others can cost more than it gains until the free ones have been adjusted.
    """
    # x is in units of its bounds, so that one mu fits variables of very different weight; M becomes diag(upper) M.
    cost = upper * (np.mean(np.abs(linear)) + np.finfo(np.float64).tiny)  # the unit of each gradient entry
    enough = max(gap, _PRECISION * float(np.sum(cost)))
    linear = linear * upper
    x = np.full(upper.shape, 0.5)
    room = 1.0 - x  # stored, because 1 - x loses all digits near the upper bound
    residual = upper * M.times(M.transposed(upper * x)) + linear  # of stationarity, without the multipliers
    scale = float(np.max(np.abs(residual))) + float(np.max(cost))
    low, high = np.full(x.shape, scale), np.full(x.shape, scale)  # multipliers of x >= 0 and x <= 1
    low += np.maximum(residual, 0.0)
    high += np.maximum(-residual, 0.0)
    smallest, inside, last, n_worse = np.inf, x, (x, room, low, high), 0
    for _ in range(_MAX_ITER):
        gradient = upper * M.times(M.transposed(upper * x)) + linear
        # The gap of x with its own gradient; the multipliers may be far from it.
        at_x = float(x @ np.maximum(gradient, 0.0) - room @ np.minimum(gradient, 0.0))
        n_worse = 0 if at_x < smallest else n_worse + 1
        if at_x < smallest:
            smallest, inside = at_x, x
        if at_x <= _SPOILT * smallest:
            last = x, room, low, high
        if at_x <= enough or n_worse > _MOST_WORSE:
            break
        mu = float(x @ low + room @ high) / (2 * x.size)
        if mu <= 0.0:
            break
        direction = _newton_system(M, upper, (x, room, low, high), gradient - low + high)
        # Predictor: straight to complementarity zero; its progress sets the centring of the corrector.
        dx, dlow, dhigh = direction(-x * low, -room * high)
        step = longest_step((x, dx), (room, -dx), (low, dlow), (high, dhigh))
        ahead = (x + step * dx) @ (low + step * dlow) + (room - step * dx) @ (high + step * dhigh)
        target = mu * min(float(ahead) / (2 * x.size * mu), 1.0) ** 3
        dx, dlow, dhigh = direction(target - x * low - dx * dlow, target - room * high + dx * dhigh)
        # One length for all: the gradient moves with x, and the multipliers have to follow it.
        step = _STEP_TO_BOUNDARY * longest_step((x, dx), (room, -dx), (low, dlow), (high, dhigh))
        x, room, low, high = x + step * dx, room - step * dx, low + step * dlow, high + step * dhigh
    # Complementarity: of x and its multiplier (in units of its cost) the larger one is not zero. The last step before
    # rounding separates them best.
    x, room, low, high = last
    on_bounds = np.where(low > x * cost, 0.0, np.where(high > room * cost, 1.0, x))
    return upper * np.clip(inside, 0.0, 1.0), upper * on_bounds


def _newton_system(
    M: LabelRows, upper: np.ndarray, point: tuple[np.ndarray, ...], residual: np.ndarray
) -> Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Linearise the optimality conditions at ``point`` = (x, room, low, high), factorised once for both steps.

    (Theta + M M^T) dx = right, Theta = low / x + high / room, is solved in the columns of M by Woodbury's
    formula. The returned function gives the steps of x and both multipliers that change x * low and room * high by its
    arguments, to first order.
    """
    x, room, low, high = point
    theta = low / x + high / room
    triangle = M.triangle(upper**2 / theta)

    def solve(right: np.ndarray) -> np.ndarray:
        inner = M.transposed(upper * right / theta)
        inner = solve_triangular(triangle, inner, trans="T", check_finite=False)
        inner = solve_triangular(triangle, inner, check_finite=False)
        return (right - upper * M.times(inner)) / theta

    def direction(low_change: np.ndarray, high_change: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        right = -residual + low_change / x - high_change / room
        dx = solve(right)
        # One refinement: free variables have a Theta near zero, by which rounding is divided.
        dx += solve(right - theta * dx - upper * M.times(M.transposed(upper * dx)))
        return dx, (low_change - low * dx) / x, (high_change + high * dx) / room

    return direction
