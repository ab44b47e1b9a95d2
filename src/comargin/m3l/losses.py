r"""Losses as numbers. Problem, loops, finishing methods and certificates take the loss as one tuple, ``Loss``.

With :math:`u = t_{il} - S_{il} z_l^\top x_i` the missing margin and U_il the cost of the pair, the primal pays
:math:`2 U_{il}\, \phi(u)` and the dual variable :math:`A_{il} = U_{il}\, s` pays :math:`2 U_{il}\, \phi^*(s)`, with

.. math:: \phi(u) = \max_{0 \le s \le bound} s u - \tfrac12\, curvature\, s^2, \qquad
    \phi^*(s) = \tfrac12\, curvature\, s^2 \quad (0 \le s \le bound) .

============= ========= ======== ====================
loss          curvature bound    phi(u)
============= ========= ======== ====================
hinge         0         1        max(0, u)
squared hinge 1/2       none     max(0, u)^2
============= ========= ======== ====================

One variable sees two numbers, LIBLINEAR's ``upper_bound`` and ``diag``: it lies between 0 and upper = bound U, and
the loss adds ridge = curvature / U to its second derivative. ``_loops_step.py`` has the same functions for the loops.

A loss of this family is one more constant below. A loss with another conjugate (logistic) is a number more in ``Loss``,
its ``slope``, ``value``, ``conjugate`` and ``pull`` here, and the same functions with its step in ``_loops_step.py``.
The box QPs of ``_finish.py`` and of pair steps take ``ridge`` as the constant second derivative of the conjugate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ._loops_step import LEAST_CURVATURE

# A bound where there is none: finite, so that 0 times it is 0.
HUGE = 1e100


class Loss(NamedTuple):
    """The numbers of a loss."""

    curvature: float
    bound: float

    def slope(self, missing: np.ndarray | float) -> np.ndarray:
        """phi'(u), the s that attains the maximum: A = U s is the best dual variable for fixed weights."""
        return np.minimum(np.maximum(missing, 0.0) * (1.0 / max(self.curvature, LEAST_CURVATURE)), self.bound)

    def value(self, missing: np.ndarray | float) -> np.ndarray:
        """phi(u)."""
        s = self.slope(missing)
        return s * (missing - 0.5 * self.curvature * s)

    def conjugate(self, A: np.ndarray, cost: np.ndarray) -> np.ndarray:
        """U phi*(A / U)."""
        return 0.5 * self.ridge(cost) * A**2

    def pull(self, A: np.ndarray, cost: np.ndarray) -> np.ndarray:
        """Derivative of U phi*(A / U) in A."""
        return self.ridge(cost) * A

    def ridge(self, cost: np.ndarray) -> np.ndarray:
        """Second derivative of U phi*(A / U) in A; 0 where the cost is 0, as that variable is 0."""
        return np.divide(self.curvature, cost, out=np.zeros(cost.shape), where=cost > 0.0)

    @property
    def has_conjugate(self) -> bool:
        """Whether phi* is not 0 within the bounds, so that the dual of given variables depends on the costs."""
        return self.curvature > 0.0

    def finite_upper(self, A: np.ndarray, cost: np.ndarray, targets: np.ndarray | float) -> np.ndarray:
        """Upper bounds for methods that need finite ones and may end short of the optimum."""
        within = np.maximum(cost * self.slope(10.0 * np.max(targets)), 2.0 * A)
        return np.minimum(self.bound * cost, within)

    def gaps(self, A: np.ndarray, cost: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """U phi(u) + U phi*(A / U) - A u: half of the share of each variable in P - D, >= 0."""
        return cost * self.value(missing) + self.conjugate(A, cost) - A * missing


HINGE = Loss(curvature=0.0, bound=1.0)
SQUARED_HINGE = Loss(curvature=0.5, bound=HUGE)


@dataclass(frozen=True)
class LabelSums:
    """The terms of both objectives, one number per label."""

    quadratic: np.ndarray  # the diagonal of V^T Z; its sum is tr(Z R^-1 Z^T) / 2
    losses: np.ndarray  # sum_i U_il phi(u_il)
    gains: np.ndarray  # sum_i t_il A_il - U_il phi*(A_il / U_il)

    @property
    def primal(self) -> float:
        """P."""
        return float(np.sum(self.quadratic + 2.0 * self.losses))  # Eqs. (11)-(14)

    @property
    def dual(self) -> float:
        """D."""
        return float(np.sum(2.0 * self.gains - self.quadratic))  # Eq. (25)

    @property
    def gap(self) -> float:
        """P - D."""
        return self.primal - self.dual

    @property
    def label_gaps(self) -> np.ndarray:
        """P - D label by label."""
        return 2.0 * (self.quadratic + self.losses - self.gains)
