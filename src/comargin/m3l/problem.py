r"""Max-margin multi-label learning with correlated labels (M3L).

With Z (d x L) the weights, S in {-1, +1} the signs of the labels, R the label correlation (symmetric, positive
semi-definite), U_il = C c_il the weighted cost and t_il the margin asked for:

.. math:: P(Z) = \tfrac12 \operatorname{tr}(Z R^{-1} Z^\top)
    + 2 \sum_{il} U_{il} \max(0, t_{il} - S_{il}\, z_l^\top x_i)
.. math:: D(A) = 2 \sum_{il} t_{il} A_{il} - 2 \operatorname{tr}(V R V^\top), \quad V = X^\top (S \circ A),
    \quad 0 \le A_{il} \le U_{il}
.. math:: Z = 2 V R

R is never inverted: Z lives in its range, Z = 2 V R for some V, and then tr(Z R^-1 Z^T) = 4 tr(V R V^T), also when R is
singular. The methods of the linear problem therefore take V. With a kernel K in place of X X^T nothing changes but the
names: the quadratic part is 2 tr(B^T K B R), B = S o A, and the scores of the training rows are F = 2 K B R.

Loss: t_il = 1 is the Hamming loss; it counts each error twice, hence the factors 2, and R = I is one-vs-all hinge-loss
SVM with LIBLINEAR's cost C' = 2 C. t_il = S_il (R s_i)_l is the loss of section 3.2, which charges correlated
mistakes; it needs a diagonally dominant R, so that no t_il is negative.

With Z = 2 V R and V = X^T (S o A) the gap is a sum of non-negative parts,

.. math:: P - D = 2 \sum_{il}
    \begin{cases} A_{il} G_{il} & G_{il} \ge 0 \\ (A_{il} - U_{il}) G_{il} & G_{il} < 0 \end{cases},
    \qquad G_{il} = S_{il}\, z_l^\top x_i - t_{il} .

Notation, paper -> code: ``alpha -> A``, ``y_il -> S``, ``phi(x) -> x``, ``Delta^- - Delta^+ -> 2 t``. Labels are
columns.

Reference: Hariharan, Vishwanathan, Varma: Efficient max-margin multi-label classification with applications to
zero-shot learning. Machine Learning 88 (2012), doi:10.1007/s10994-012-5291-x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from .gram import Gram
from .label_prior import PriorPart
from .rows import row_blocks

# Rows whose margins are held at once: bounds the temporaries to this many rows x labels; and rows of K.
_ROWS_AT_ONCE = 65536
_GRAM_ROWS_AT_ONCE = 1024


class LabelTerms:
    """What the linear and the kernel problem share: signs, bounds, margins and R."""

    S: np.ndarray
    row_upper: np.ndarray
    label_upper: np.ndarray
    prior: tuple[PriorPart, ...]
    targets: np.ndarray

    def upper(self, rows: slice = slice(None)) -> np.ndarray:
        """U_il, the upper bounds of the dual variables, for the given rows."""
        weight = np.where(self.S[rows] > 0, self.label_upper[1], self.label_upper[0])
        return self.row_upper[rows, None] * weight

    def target(self, rows: slice = slice(None)) -> np.ndarray | float:
        """Margins t_il of the given rows."""
        return self.targets[rows] if self.targets.size else 1.0

    def apply_prior(self, V: np.ndarray) -> np.ndarray:
        """V R for V of shape (any, n_labels)."""
        VR = np.empty_like(V)
        for part in self.prior:
            VR[:, part.labels] = part.apply(V[:, part.labels])
        return VR


@dataclass(frozen=True)
class M3LProblem(LabelTerms):
    """M3L on a linear kernel.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Features, float64.
    S : int8 ndarray of shape (n_samples, n_labels)
        Signs of the labels.
    row_upper : ndarray of shape (n_samples,)
        C times the weight of each row.
    label_upper : ndarray of shape (2, n_labels)
        Weight of a negative (row 0) and of a positive (row 1) of each label.
    prior : tuple of PriorPart
        R.
    targets : ndarray of shape (n_samples, n_labels), or (0, 0)
        Margins t_il; empty when all are 1.
    """

    X: np.ndarray | sp.csr_array
    S: np.ndarray
    row_upper: np.ndarray
    label_upper: np.ndarray
    prior: tuple[PriorPart, ...]
    targets: np.ndarray

    def dual_average(self, A: np.ndarray) -> np.ndarray:
        """V = X^T (S o A), of shape (n_features, n_labels)."""
        V = np.zeros((self.X.shape[1], self.S.shape[1]))
        for rows in row_blocks(self.S.shape[0], _ROWS_AT_ONCE):
            V += self.X[rows].T @ (self.S[rows] * A[rows])
        return V

    def weights(self, V: np.ndarray) -> np.ndarray:
        """Z = 2 V R."""
        return 2.0 * self.apply_prior(V)

    def primal(self, V: np.ndarray) -> float:
        """P(Z) at Z = 2 V R."""
        Z = self.weights(V)
        hinge = 0.0
        for rows in row_blocks(self.S.shape[0], _ROWS_AT_ONCE):
            loss = self.target(rows) - self.S[rows] * (self.X[rows] @ Z)
            hinge += float(np.sum(self.upper(rows) * np.maximum(loss, 0.0)))
        return float(np.sum(V * Z)) + 2.0 * hinge

    def dual(self, A: np.ndarray) -> float:
        """D(A)."""
        V = self.dual_average(A)
        return 2.0 * float(np.sum(self.target() * A)) - float(np.sum(V * self.weights(V)))

    def gap(self, V: np.ndarray, A: np.ndarray) -> float:
        """P - D: never negative for feasible A."""
        return self.primal(V) - self.dual(A)

    def kkt_residual(self, A: np.ndarray) -> np.ndarray:
        """Projected gradient of the scaled dual, one entry per A_il; all zero exactly at the optimum."""
        G = self.S * (self.X @ self.weights(self.dual_average(A))) - self.target()
        return projected_gradient(A, self.upper(), G)


@dataclass(frozen=True)
class M3LKernelProblem(LabelTerms):
    """M3L on any kernel.

    Attributes
    ----------
    gram : Gram
        The kernel matrix, by blocks.
    S, row_upper, label_upper, prior, targets
        As in :class:`M3LProblem`.
    """

    gram: Gram
    S: np.ndarray
    row_upper: np.ndarray
    label_upper: np.ndarray
    prior: tuple[PriorPart, ...]
    targets: np.ndarray

    def coefficients(self, A: np.ndarray) -> np.ndarray:
        """2 B R, shape (n_samples, n_labels): the scores of x are k(x, X) times these."""
        return 2.0 * self.apply_prior(self.S * A)

    def scores(self, A: np.ndarray) -> np.ndarray:
        """F = 2 K B R, the scores of the training rows."""
        coefficients = self.coefficients(A)
        support = np.flatnonzero(coefficients.any(axis=1))
        F = np.empty(A.shape)
        for rows in row_blocks(self.S.shape[0], _GRAM_ROWS_AT_ONCE):
            F[rows] = self.gram.block(rows, support) @ coefficients[support]
        return F

    def primal(self, A: np.ndarray) -> float:
        """P at Z = sum_i phi(x_i) (2 B R)_i."""
        F = self.scores(A)
        hinge = np.sum(self.upper() * np.maximum(self.target() - self.S * F, 0.0))
        return float(np.sum(self.S * A * F)) + 2.0 * float(hinge)

    def dual(self, A: np.ndarray) -> float:
        """D(A)."""
        return 2.0 * float(np.sum(self.target() * A)) - float(np.sum(self.S * A * self.scores(A)))

    def kkt_residual(self, A: np.ndarray) -> np.ndarray:
        """Projected gradient of the scaled dual, one entry per A_il; all zero exactly at the optimum."""
        return projected_gradient(A, self.upper(), self.S * self.scores(A) - self.target())


def projected_gradient(A: np.ndarray, upper: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Gradient of a function to be minimised over the box, zero where it points out of the box.

    Parameters
    ----------
    A, upper, gradient : ndarray of equal shape
        Variables, their upper bounds (the lower ones are zero), and the gradient.

    Returns
    -------
    ndarray
        Of that shape.
    """
    return np.where(A <= 0.0, np.minimum(gradient, 0.0), np.where(A >= upper, np.maximum(gradient, 0.0), gradient))
