r"""Newton's method for losses of pairs of labels in a row.

    min_w  1/2 ||w||^2 + sum_i loss_i(f(x_i)),     f(x_i) = w x_i

for convex loss_i with gradient -beta_i(f) and a generalised curvature D_i (the gradient is piecewise linear). Weights
are written w = X^T coef, which allows any kernel: f = K coef, the gradient is X^T (coef - beta), and the Newton
direction X^T d solves d + D K d = beta - coef. In the inner product <u, v> = u^T K v this system is symmetric with all
eigenvalues at least 1; conjugate gradients need one product with K per step.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

Product = Callable[[np.ndarray], np.ndarray]  # V -> K V or D V


@dataclass(frozen=True)
class NewtonPolicy:
    """Tuned numbers of Newton's method; the comment gives the result of a sweep."""

    cg_tolerances: tuple[float, float] = (0.01, 0.1)  # range of the systems' tolerance; times 4: 1.4 times the steps
    most_products: int = 300  # products with K in one system; 75: a tenth slower
    refined_tolerance: float = 1e-4  # of the last steps, where rounding is the limit
    slope_left: float = 0.5  # largest part of the slope left by a line search; 0.9: up to 2.4 times slower
    most_trials: int = 30  # lengths of one step: safety cap


POLICY = NewtonPolicy()


class PairLoss(Protocol):
    """Sum of the losses of all rows, as a function of their scores F (n_samples, n_labels)."""

    beta: np.ndarray

    def evaluate(self, F: np.ndarray) -> None:
        """Set ``beta``, minus the gradient at F, and the curvature there."""

    def curvature(self, V: np.ndarray) -> np.ndarray:
        """D V at the last evaluated scores."""


def newton_step(
    loss: PairLoss,
    product: Product,
    coef: np.ndarray,
    F: np.ndarray,
    residual: np.ndarray,
    image: np.ndarray,
    gain: float,
) -> np.ndarray:
    """One step from ``coef`` with a line search; returns the new coefficients.

    F is K coef plus any constant, ``residual`` coef - beta, ``image`` K residual, and ``product`` may be rough.
    ``loss`` is evaluated at F, and on return at the last trial of the line search. ``gain`` is the length of the
    gradient relative to that before the last step.
    """
    tolerance = min(max(gain, POLICY.cg_tolerances[0]), POLICY.cg_tolerances[1])
    step, along = _conjugate_gradients(loss.curvature, product, -residual, -image, tolerance)
    first = float(np.vdot(residual, along))
    if not first < 0.0:  # rounding: no descent direction
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
        else:  # secant step for the zero of the slope, kept well inside (low, high)
            share = slope_low / (slope_low - slope_high)
            length = low + (high - low) * min(max(share, 0.1), 0.9)
    return coef + length * step


def refined(loss: PairLoss, product: Product, U: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """A Newton step for U = K beta(U) near the solution, without coefficients, whose sums would lose digits.

    With r = K beta(U) - U and v solving v + K D v = r, the next U is U + r - K D v; where D is zero, U + r is right
    already. ``loss`` is evaluated at U, ``scores`` are K beta(U), and ``product`` is exact.
    """
    rest = scores - U
    _, Dv = _conjugate_gradients(product, loss.curvature, rest, loss.curvature(rest), POLICY.refined_tolerance)
    return scores - product(Dv)


def _conjugate_gradients(
    A: Product, B: Product, rest: np.ndarray, image: np.ndarray, tolerance: float
) -> tuple[np.ndarray, np.ndarray]:
    """Solve d + A B d = rest, symmetric in the inner product u^T B v, given ``image`` = B rest; returns d and B d."""
    d, Bd = np.zeros_like(rest), np.zeros_like(rest)
    rest, image = rest.copy(), image.copy()
    p, Bp = rest.copy(), image.copy()
    square = first = float(np.vdot(rest, image))
    for _ in range(POLICY.most_products):
        q = A(Bp)
        q += p
        curvature = float(np.vdot(Bp, q))
        if not (square > 0.0 and curvature > 0.0):  # only rounding is left
            break
        length = square / curvature
        Bq = B(q)
        d += length * p
        Bd += length * Bp
        q *= length
        rest -= q
        Bq *= length
        image -= Bq
        before, square = square, float(np.vdot(rest, image))
        if square <= tolerance**2 * first:
            break
        p *= square / before
        p += rest
        Bp *= square / before
        Bp += image
    return d, Bd
