r"""Newton's method for losses of pairs of labels in a row.

    min_w  1/2 ||w||^2 + sum_i loss_i(f(x_i)),     f(x_i) = w x_i

for convex loss_i with gradient -beta_i(f) and a curvature D_i, of which a generalised one is enough (the gradient is
piecewise linear). Weights are written w = X^T coef, so that any kernel will do: f = K coef, the gradient is X^T (coef -
beta), and the Newton direction X^T d solves d + D K d = beta - coef. In the inner product <u, v> = u^T K v this system
is symmetric with all eigenvalues at least 1; conjugate gradients need one product with K per step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np


@dataclass(frozen=True)
class NewtonPolicy:
    """Tuned numbers of Newton's method; what the sweep of each showed is in the comment."""

    cg_tolerances: tuple[float, float] = (0.01, 0.1)  # of the systems, by the last gain; times 4: 1.4 times the steps
    most_products: int = 300  # products with K in one system; 75: a tenth slower
    refined_tolerance: float = 1e-4  # of the last steps, which have nothing but rounding to fear
    slope_left: float = 0.5  # part of the slope that may be left along a step; 0.9: up to 2.4 times slower
    most_trials: int = 30  # lengths of one step: safety cap


POLICY = NewtonPolicy()


class RoughProducts(Protocol):
    """The kernel, as far as Newton's method looks at it."""

    def roughly(self, V: np.ndarray) -> np.ndarray:
        """K V."""


class ExactProducts(Protocol):
    """The same, where every digit counts."""

    def times(self, V: np.ndarray) -> np.ndarray:
        """K V."""


class PairLoss(Protocol):
    """Sum of the losses of all rows, as a function of their scores F (n_samples, n_labels)."""

    beta: np.ndarray

    def evaluate(self, F: np.ndarray) -> None:
        """Set ``beta``, minus the gradient, and what ``curvature`` needs."""

    def curvature(self, V: np.ndarray) -> np.ndarray:
        """D V at the scores that were evaluated last."""


def newton_step(
    loss: PairLoss,
    products: RoughProducts,
    coef: np.ndarray,
    F: np.ndarray,
    residual: np.ndarray,
    image: np.ndarray,
    gain: float,
) -> np.ndarray:
    """One step with a line search; returns the new coefficients.

    ``coef`` and F = K coef plus any constant are where we are, ``residual`` is coef - beta and ``image`` K times it;
    ``loss`` is evaluated at F, and on return at the last trial of the line search. ``gain`` is the length of the
    gradient over that before the last step.
    """
    tolerance = min(max(gain, POLICY.cg_tolerances[0]), POLICY.cg_tolerances[1])
    step, along = _direction(loss, products, residual, image, tolerance)
    first = float(np.vdot(residual, along))
    if not first < 0.0:  # no direction down, by rounding
        return coef
    low, slope_low, high, slope_high, length = 0.0, first, np.inf, np.inf, 1.0
    for _ in range(POLICY.most_trials):
        loss.evaluate(F + length * along)
        slope = float(np.vdot(coef + length * step - loss.beta, along))
        if abs(slope) <= POLICY.slope_left * abs(first):
            break
        if slope > 0.0:
            high, slope_high = length, slope
        else:
            low, slope_low = length, slope
        if np.isinf(high):
            length *= 2.0
        else:  # the slope rises from low to high: where a straight line would cross zero, but well inside
            share = slope_low / (slope_low - slope_high)
            length = low + (high - low) * min(max(share, 0.1), 0.9)
    return coef + length * step


def refined(loss: PairLoss, products: ExactProducts, U: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """A Newton step for U = K beta(U) itself, near the solution.

    Coefficients play no part, so rounding in sums of large ones does no harm: with r = K beta(U) - U and v solving
    v + K D v = r, the next U is U + r - K D v. Conjugate gradients work in the inner product <u, v> = u^T D v, where
    the system is symmetric; what it does not see is where D is zero, and there U + r is right already.

    ``loss`` is evaluated at U, and ``scores`` are K beta(U).
    """
    step = scores - U
    rest = step.copy()
    p = rest.copy()
    square = first = float(np.vdot(rest, loss.curvature(rest)))
    for _ in range(POLICY.most_products):
        Dp = loss.curvature(p)
        K_Dp = products.times(Dp)
        curvature = float(np.vdot(Dp, p)) + float(np.vdot(Dp, K_Dp))
        if not (square > 0.0 and curvature > 0.0):
            break
        length = square / curvature
        step -= length * K_Dp
        rest -= length * (p + K_Dp)
        before, square = square, float(np.vdot(rest, loss.curvature(rest)))
        if square <= POLICY.refined_tolerance**2 * first:
            break
        p *= square / before
        p += rest
    return U + step


def _direction(
    loss: PairLoss, products: RoughProducts, residual: np.ndarray, image: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Solve d + D K d = -residual by conjugate gradients; returns d and K d."""
    d, Kd = np.zeros_like(residual), np.zeros_like(residual)
    rest, K_rest = -residual, -image
    p, Kp = rest.copy(), K_rest.copy()
    square = first = float(np.vdot(rest, K_rest))
    for _ in range(POLICY.most_products):
        q = loss.curvature(Kp)
        q += p
        curvature = float(np.vdot(Kp, q))
        if not (square > 0.0 and curvature > 0.0):  # rounding is all that is left
            break
        length = square / curvature
        Kq = products.roughly(q)
        d += length * p
        Kd += length * Kp
        q *= length
        rest -= q
        Kq *= length
        K_rest -= Kq
        before, square = square, float(np.vdot(rest, K_rest))
        if square <= tolerance**2 * first:
            break
        p *= square / before
        p += rest
        Kp *= square / before
        Kp += K_rest
    return d, Kd
