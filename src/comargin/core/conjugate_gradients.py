"""Conjugate gradients."""

from collections.abc import Callable

import numpy as np

Product = Callable[[np.ndarray], np.ndarray]


def conjugate_gradients(
    times: Product, right: np.ndarray, tol: float, most: int, precondition: Product = lambda V: V
) -> tuple[np.ndarray, int, bool]:
    """Solve A x = right for a positive definite A, given as ``times``, from x = 0.

    Ends when the residual, in the norm of the preconditioner, is ``tol`` times that of ``right``, after ``most``
    products, or along a direction without curvature. Returns x, the number of products, and whether ``tol`` was met.
    """
    x, residual = np.zeros_like(right), right
    z = precondition(residual)
    direction, square, n_products = z, float(np.vdot(residual, z)), 0
    enough = tol**2 * square
    while square > enough and n_products < most:
        product = times(direction)
        n_products += 1
        curvature = float(np.vdot(direction, product))
        if curvature <= 0.0:
            break
        x += (square / curvature) * direction
        residual = residual - (square / curvature) * product
        z = precondition(residual)
        before, square = square, float(np.vdot(residual, z))
        direction = z + (square / before) * direction
    return x, n_products, square <= enough
