r"""Newton's method for losses of pairs of labels in a row.

    min_w  1/2 ||w||^2 + sum_i loss_i(f(x_i)),     f(x_i) = w x_i

for convex loss_i with gradient -beta_i(f) and a curvature D_i, of which a generalised one is enough (the gradient is
piecewise linear). Weights are written w = X^T coef, so that any kernel will do: f = K coef, the gradient is X^T (coef -
beta), and the Newton direction X^T d solves d + D K d = beta - coef. In the inner product <u, v> = u^T K v this system
is symmetric with all eigenvalues at least 1; conjugate gradients need one product with K per step.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

# Relative accuracy of Newton systems: loose as long as steps gain little, since then the next system is another one.
_CG_TOLERANCES = (0.01, 0.1)
_MOST_PRODUCTS = 300
# That of the last steps, which have nothing but rounding to fear.
_REFINED = 1e-4
# A step is long enough when the slope along it has fallen to this part.
_SLOPE = 0.5
_MOST_TRIALS = 30


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
    """One step with a line search.

    Parameters
    ----------
    loss : PairLoss
        Evaluated at F; at return it is so at the last trial of the line search.
    products : RoughProducts
        K.
    coef, F : ndarray of shape (n_samples, n_labels)
        Where we are: coefficients, and K coef plus any constant.
    residual, image : ndarray of shape (n_samples, n_labels)
        coef - beta and K times it.
    gain : float
        Length of the gradient now over that before the last step.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        New coefficients.
    """
    tolerance = min(max(gain, _CG_TOLERANCES[0]), _CG_TOLERANCES[1])
    step, along = _direction(loss, products, residual, image, tolerance)
    first = float(np.vdot(residual, along))
    if not first < 0.0:  # no direction down, by rounding
        return coef
    low, slope_low, high, slope_high, length = 0.0, first, np.inf, np.inf, 1.0
    for _ in range(_MOST_TRIALS):
        loss.evaluate(F + length * along)
        slope = float(np.vdot(coef + length * step - loss.beta, along))
        if abs(slope) <= _SLOPE * abs(first):
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

    Parameters
    ----------
    loss : PairLoss
        Evaluated at U.
    products : ExactProducts
        K.
    U, scores : ndarray of shape (n_samples, n_labels)
        Where we are, and K beta(U).

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        The next U.
    """
    step = scores - U
    rest = step.copy()
    p = rest.copy()
    square = first = float(np.vdot(rest, loss.curvature(rest)))
    for _ in range(_MOST_PRODUCTS):
        Dp = loss.curvature(p)
        K_Dp = products.times(Dp)
        curvature = float(np.vdot(Dp, p)) + float(np.vdot(Dp, K_Dp))
        if not (square > 0.0 and curvature > 0.0):
            break
        length = square / curvature
        step -= length * K_Dp
        rest -= length * (p + K_Dp)
        before, square = square, float(np.vdot(rest, loss.curvature(rest)))
        if square <= _REFINED**2 * first:
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
    for _ in range(_MOST_PRODUCTS):
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
