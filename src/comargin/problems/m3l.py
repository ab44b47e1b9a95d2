r"""Max-margin multi-label learning with independent labels (M3L, Hamming loss, R = I), linear kernel.

With Z (d x L) the weights, S in {-1, +1} the signs of the labels and U_il = C c_il the weighted cost:

.. math:: P(Z) = \tfrac12 \|Z\|_F^2 + 2 \sum_{il} U_{il} \max(0, 1 - S_{il}\, z_l^\top x_i)
.. math:: D(A) = 2 \sum_{il} A_{il} - 2 \|V\|_F^2, \quad V = X^\top (S \circ A), \quad 0 \le A_{il} \le U_{il}
.. math:: Z = 2 V

The Hamming loss of the paper counts each error twice, hence the factor 2: this is one-vs-all hinge-loss SVM with
LIBLINEAR's cost C' = 2 C and no separate bias. With Z = 2 V the gap is a sum of non-negative parts,

.. math:: P - D = 2 \sum_{il}
    \begin{cases} A_{il} G_{il} & G_{il} \ge 0 \\ (A_{il} - U_{il}) G_{il} & G_{il} < 0 \end{cases},
    \qquad G_{il} = S_{il}\, z_l^\top x_i - 1 .

Notation, paper -> code: ``alpha -> A``, ``y_il -> S``, ``phi(x) -> x``, labels are columns.

Reference: Hariharan, Vishwanathan, Varma: Efficient max-margin multi-label classification with applications to
zero-shot learning. Machine Learning 88 (2012), doi:10.1007/s10994-012-5291-x.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

# Rows whose margins are held at once: bounds the temporaries to this many rows x labels.
_ROWS_AT_ONCE = 65536


@dataclass(frozen=True)
class M3LProblem:
    """M3L with R = I for the labels of one block.

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
    """

    X: np.ndarray | sp.csr_array
    S: np.ndarray
    row_upper: np.ndarray
    label_upper: np.ndarray

    def upper(self, rows: slice = slice(None)) -> np.ndarray:
        """U_il, the upper bounds of the dual variables, for the given rows."""
        weight = np.where(self.S[rows] > 0, self.label_upper[1], self.label_upper[0])
        return self.row_upper[rows, None] * weight

    def dual_average(self, A: np.ndarray) -> np.ndarray:
        """V = X^T (S o A), of shape (n_features, n_labels)."""
        V = np.zeros((self.X.shape[1], self.S.shape[1]))
        for rows in self._row_blocks():
            V += self.X[rows].T @ (self.S[rows] * A[rows])
        return V

    def primal_from_dual(self, A: np.ndarray) -> np.ndarray:
        """Z = 2 V: the weights that belong to A at the optimum."""
        return 2.0 * self.dual_average(A)

    def primal(self, Z: np.ndarray) -> float:
        """P(Z)."""
        hinge = 0.0
        for rows in self._row_blocks():
            margin = self.S[rows] * (self.X[rows] @ Z)
            hinge += float(np.sum(self.upper(rows) * np.maximum(1.0 - margin, 0.0)))
        return 0.5 * float(np.sum(Z * Z)) + 2.0 * hinge

    def dual(self, A: np.ndarray) -> float:
        """D(A)."""
        V = self.dual_average(A)
        return 2.0 * float(np.sum(A)) - 2.0 * float(np.sum(V * V))

    def gap(self, Z: np.ndarray, A: np.ndarray) -> float:
        """P(Z) - D(A): never negative for feasible A."""
        return self.primal(Z) - self.dual(A)

    def kkt_residual(self, A: np.ndarray) -> np.ndarray:
        """Projected gradient of the scaled dual, one entry per A_il; all zero exactly at the optimum."""
        G = self.S * (self.X @ self.primal_from_dual(A)) - 1.0
        return np.where(A <= 0.0, np.minimum(G, 0.0), np.where(A >= self.upper(), np.maximum(G, 0.0), G))

    def _row_blocks(self) -> list[slice]:
        n_samples = self.S.shape[0]
        return [slice(i, min(i + _ROWS_AT_ONCE, n_samples)) for i in range(0, n_samples, _ROWS_AT_ONCE)]
