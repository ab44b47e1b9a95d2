r"""Max-margin multi-label learning with correlated labels (M3L).

With Z (d x L) the weights, S in {-1, +1} the signs of the labels, R the label correlation (symmetric, positive
semi-definite), U_il = C c_il the weighted cost, t_il the margin asked for, and phi the loss (losses.py; the paper's is
the hinge, phi(u) = max(0, u), phi* = 0, A_il <= U_il; where a label is unknown, S_il = 0 and U_il = 0):

.. math:: P(Z) = \tfrac12 \operatorname{tr}(Z R^{-1} Z^\top)
    + 2 \sum_{il} U_{il}\, \phi(t_{il} - S_{il}\, z_l^\top x_i)      \qquad (11)-(14)
.. math:: D(A) = 2 \sum_{il} [t_{il} A_{il} - U_{il}\, \phi^*(A_{il} / U_{il})] - 2 \operatorname{tr}(V R V^\top),
    \quad V = X^\top (S \circ A)      \qquad (25)
.. math:: Z = 2 V R      \qquad (23)

R is never inverted: Z lives in its range, Z = 2 V R for some V, and then tr(Z R^-1 Z^T) = 4 tr(V R V^T), also when R is
singular. With a kernel K in place of X X^T nothing changes but the
names: the quadratic part is 2 tr(B^T K B R), B = S o A, and the scores of the training rows are F = 2 K B R.

Margins: t_il = 1 with the hinge is the Hamming loss (6); it counts each error twice, hence the factors 2, and R = I is
one-vs-all hinge-loss SVM with LIBLINEAR's cost C' = 2 C, (15)-(18). t_il = S_il (R s_i)_l is the loss of section 3.2,
which charges correlated mistakes; it needs a diagonally dominant R, so that no t_il is negative.

Notation, paper -> code: ``alpha -> A``, ``y_il -> S``, ``phi(x) -> x``, ``Delta^- - Delta^+ -> 2 t``. Labels are
columns. The paper's gradient (29) is -2 times the G_il = S_il z_l^T x_i - t_il used here.

Reference: Hariharan, Vishwanathan, Varma: Efficient max-margin multi-label classification with applications to
zero-shot learning. Machine Learning 88 (2012), doi:10.1007/s10994-012-5291-x.
"""

from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np
import scipy.sparse as sp

from ..core.gram import Gram, gram_product
from ..core.loop import average_rounding
from ..core.validation import cell_weights
from .losses import HINGE, LabelSums, Loss
from .prior import PriorPart

Rows = TypeVar("Rows")


@dataclass(frozen=True)
class LabelTerms(Generic[Rows]):
    """Base of the linear and the kernel problem."""

    X: Rows  # float64 features, or K by blocks
    S: np.ndarray  # int8 (n_samples, n_labels), signs of the labels, 0 where unknown
    row_cost: np.ndarray  # (n_samples,), C times the weight of each row
    label_cost: np.ndarray  # (2, n_labels), weight of a negative (row 0) and of a positive (row 1) of each label
    prior: tuple[PriorPart, ...]  # R
    targets: np.ndarray  # (n_samples, n_labels), margins t_il; (0, 0) when all are the loss's own
    loss: Loss = HINGE  # phi

    def cost(self, rows: slice = slice(None)) -> np.ndarray:
        """U_il of the given rows."""
        return cell_weights(self.S[rows], self.row_cost[rows], self.label_cost)

    def upper(self, rows: slice = slice(None)) -> np.ndarray:
        """Upper bounds of the dual variables of the given rows."""
        return self.loss.bound * self.cost(rows)

    def target(self, rows: slice = slice(None)) -> np.ndarray | float:
        """Margins t_il of the given rows."""
        return self.targets[rows] if self.targets.size else self.loss.margin

    def apply_prior(self, V: np.ndarray) -> np.ndarray:
        """V R for V of shape (any, n_labels)."""
        VR = np.empty_like(V)
        for part in self.prior:
            VR[:, part.labels] = part.apply(V[:, part.labels])
        return VR

    def losses(self, F: np.ndarray | float, rows: slice = slice(None)) -> np.ndarray:
        """sum_i U_il phi(t_il - S_il f_il) of every label, for the scores F of the given rows."""
        return np.sum(self.cost(rows) * self.loss.value(self.target(rows) - self.S[rows] * F), axis=0)

    def sums(self, A: np.ndarray, F: np.ndarray) -> LabelSums:
        """P at the weights of A and D at A, whose scores of the training rows are F; the solvers compute the same."""
        quadratic = np.sum(self.S * A * F, axis=0)  # diagonal of V^T Z, or of B^T F
        return LabelSums(quadratic, self.losses(F), self.gains(A))

    def gains(self, A: np.ndarray) -> np.ndarray:
        """sum_i t_il A_il - U_il phi*(A_il / U_il) of every label."""
        return np.sum(self.target() * A - self.loss.conjugate(A, self.cost()), axis=0)


class M3LProblem(LabelTerms[np.ndarray | sp.csr_array]):
    """M3L on a linear kernel."""

    def weights(self, A: np.ndarray) -> np.ndarray:
        """Z = 2 V R with V = X^T (S o A)."""
        return 2.0 * self.apply_prior(np.asarray(self.X.T @ (self.S * A)))  # Eq. (23)


class M3LKernelProblem(LabelTerms[Gram]):
    """M3L on any kernel."""

    def coefficients(self, A: np.ndarray) -> np.ndarray:
        """2 B R, shape (n_samples, n_labels): the scores of x are k(x, X) times these."""
        return 2.0 * self.apply_prior(self.S * A)  # Eq. (23)

    def scores(self, A: np.ndarray, pool: Executor | None = None, K: np.ndarray | None = None) -> np.ndarray:
        """F = 2 K B R, the scores of the training rows; K by blocks unless it is given."""
        return gram_product(self.X, self.coefficients(A), pool, K)


def dual_rounding(part: PriorPart, sqnorm: np.ndarray, A: np.ndarray, quadratic: np.ndarray) -> float:
    """What to take off D at A for rounding, for the labels of one part of R; ``sqnorm`` is the diagonal of K."""
    squares = 2.0 * (quadratic if part.form == "diagonal" else np.sum(quadratic))
    return average_rounding(2.0 * np.sqrt(sqnorm), A, part.diagonal, squares)  # of Z = 2 V R, without a copy of A


AnyProblem = TypeVar("AnyProblem", M3LProblem, M3LKernelProblem)


def restricted(problem: AnyProblem, part: PriorPart) -> AnyProblem:
    """The problem of the labels of one part of R, with contiguous arrays."""
    S, label_cost = (np.ascontiguousarray(array[:, part.labels]) for array in (problem.S, problem.label_cost))
    targets = np.ascontiguousarray(problem.targets[:, part.labels]) if problem.targets.size else problem.targets
    return replace(problem, S=S, label_cost=label_cost, prior=(part,), targets=targets)
