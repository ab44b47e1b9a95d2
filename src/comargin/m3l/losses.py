r"""Losses as numbers. Problem, loops, finishing methods and certificates take the loss as one tuple, ``Loss``.

With :math:`u = t_{il} - S_{il} z_l^\top x_i` the missing margin and U_il the cost of the pair, the primal pays
:math:`2 U_{il}\, \phi(u)` and the dual variable :math:`A_{il} = U_{il}\, s` pays :math:`2 U_{il}\, \phi^*(s)`, with

.. math:: \phi(u) = \max_{0 \le s \le bound} s u - \phi^*(s), \qquad
    \phi^*(s) = \tfrac12\, curvature\, s^2, \quad \text{or of the logistic loss}\ s \log s + (1 - s) \log (1 - s) .

============= ========= ======= =========== ====== ====================
loss          curvature bound   is_logistic margin phi(u)
============= ========= ======= =========== ====== ====================
hinge         0         1       no          1      max(0, u)
squared hinge 1/2       none    no          1      max(0, u)^2
logistic      0         1       yes         0      log(1 + e^u)
============= ========= ======= =========== ====== ====================

``margin`` is t_il where no other is asked for. A quadratic conjugate makes two numbers for a variable, LIBLINEAR's
``upper_bound`` and ``diag``: it lies between 0 and upper = bound U, and the loss adds ridge = curvature / U to its
second derivative. Any curvature >= 0 and bound > 0 make a loss.

The method where passes over linear features are slow, and with kernels:

================= ========================== ============================
loss              linear, after slow passes  with a kernel
================= ========================== ============================
hinge             _finish.py                 pair steps
smooth, quadratic _newton.py                 pair steps with a ``ridge``
other conjugate   _newton.py                 _newton.py
================= ========================== ============================

``_loops_step.py`` has value and conjugate for the loops, and the step ``coordinate``. A conjugate that is not quadratic
needs a branch in ``slope``, ``second``, ``value`` and ``conjugate`` here, and in ``loss_value``, ``loss_conjugate`` and
``coordinate`` there.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit, xlog1py, xlogy

from ._loops_step import LEAST_CURVATURE

# A bound where there is none: finite, so that 0 times it is 0.
HUGE = 1e100


class Loss(NamedTuple):
    """The numbers of a loss."""

    curvature: float
    bound: float
    is_logistic: bool = False
    margin: float = 1.0

    def slope(self, missing: np.ndarray | float) -> np.ndarray:
        """phi'(u), the s that attains the maximum: A = U s is the best dual variable for fixed weights."""
        if self.is_logistic:
            return expit(missing)
        return np.minimum(np.maximum(missing, 0.0) * (1.0 / max(self.curvature, LEAST_CURVATURE)), self.bound)

    def second(self, missing: np.ndarray) -> np.ndarray:
        """phi''(u) of a smooth loss; where the slope has a kink, from the left."""
        if self.is_logistic:
            return expit(missing) * expit(-missing)
        steep = (missing > 0.0) & (missing <= self.curvature * self.bound)
        return np.where(steep, 1.0 / self.curvature, 0.0)

    def value(self, missing: np.ndarray | float) -> np.ndarray:
        """phi(u)."""
        if self.is_logistic:
            return np.logaddexp(0.0, missing)
        s = self.slope(missing)
        return s * (missing - 0.5 * self.curvature * s)

    def conjugate(self, A: np.ndarray, cost: np.ndarray) -> np.ndarray:
        """U phi*(A / U)."""
        if self.is_logistic:
            s = np.divide(A, cost, out=np.zeros(A.shape), where=cost > 0.0)
            return cost * (xlogy(s, s) + xlog1py(1.0 - s, -s))
        return 0.5 * self.ridge(cost) * A**2

    def ridge(self, cost: np.ndarray) -> np.ndarray:
        """Second derivative of a quadratic U phi*(A / U) in A; 0 where the cost is 0, as that variable is 0."""
        return np.divide(self.curvature, cost, out=np.zeros(cost.shape), where=cost > 0.0)

    @property
    def is_smooth(self) -> bool:
        """Whether phi has a derivative everywhere; then phi* is not 0 within the bounds and depends on the cost."""
        return self.curvature > 0.0 or self.is_logistic

    @property
    def is_quadratic(self) -> bool:
        """Whether phi* is quadratic, so that the dual is a quadratic problem on a box."""
        return not self.is_logistic

    def finite_upper(self, A: np.ndarray, cost: np.ndarray, targets: np.ndarray | float) -> np.ndarray:
        """Upper bounds for methods that need finite ones and may end short of the optimum."""
        within = np.maximum(cost * self.slope(10.0 * np.max(targets)), 2.0 * A)
        return np.minimum(self.bound * cost, within)

    def gaps(self, A: np.ndarray, cost: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """U phi(u) + U phi*(A / U) - A u: half of the share of each variable in P - D, >= 0."""
        return cost * self.value(missing) + self.conjugate(A, cost) - A * missing


HINGE = Loss(curvature=0.0, bound=1.0)
SQUARED_HINGE = Loss(curvature=0.5, bound=HUGE)
LOGISTIC = Loss(curvature=0.0, bound=1.0, is_logistic=True, margin=0.0)


class LabelSums(NamedTuple):
    """The terms of both objectives, one number per label.

    Newton steps certify D as a whole, as their Z is not that of A; ``gains`` is computed back from it.
    """

    quadratic: np.ndarray  # the diagonal of V^T Z; its sum is tr(Z R^-1 Z^T) / 2
    losses: np.ndarray  # sum_i U_il phi(u_il)
    gains: np.ndarray  # sum_i t_il A_il - U_il phi*(A_il / U_il)

    def copied(self) -> "LabelSums":
        """The same in arrays of its own."""
        return LabelSums(*(array.copy() for array in self))

    @property
    def primal(self) -> float:
        return float(np.sum(self.quadratic + 2.0 * self.losses))  # Eqs. (11)-(14)

    @property
    def dual(self) -> float:
        return float(np.sum(2.0 * self.gains - self.quadratic))  # Eq. (25)

    @property
    def gap(self) -> float:
        return self.primal - self.dual

    @property
    def label_gaps(self) -> np.ndarray:
        """P - D label by label."""
        return 2.0 * (self.quadratic + self.losses - self.gains)
