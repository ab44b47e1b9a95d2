r"""Least squares with an l2,1 norm on every edge of a label graph (LSG21).

With W (d x L) the weights, rows w^f for features, b free and A a symmetric, non-negative affinity of labels:

.. math:: P(W, b) = \sum_i s_i \|x_i^\top W + b^\top - y_i^\top\|^2 + \alpha \sum_f \Omega(w^f), \qquad
    \Omega(w) = \sum_i \lambda_i |w_i| + \sum_{i<j} \omega_{ij} \sqrt{w_i^2 + w_j^2},

lambda_i = sqrt(2) a_ii (0 without self edges), omega_ij = 2 a_ij: the sum over ordered pairs of ||[w_i, w_j]||_{2,1},
Eq. (3), counts every edge twice. The best b is the mean of Y - X W; centring X and Y removes it, Eq. (4). With X and Y
centred (and rows times sqrt(s_i)), R = X W - Y, the dual with Theta in the shape of Y is

.. math:: D(\Theta) = -\tfrac14 \|\Theta\|^2 - \langle \Theta, Y \rangle, \qquad
    \Omega^\circ(X_f^\top \Theta) \le \alpha \text{ for every feature } f ,

Omega-circle the dual norm: the smallest t for which g is a sum of parts g = sum_e p_e, one for every edge, on its
labels, with ||p_e|| <= t omega_e. It is bounded: any parts with ||p_e|| <= alpha omega_e and the rest u = g - sum_e p_e
give Omega-circle(g) <= alpha + max_e ||(u_i / T_i, u_j / T_j)||, T_i = lambda_i + sum_j omega_ij, since label i can
distribute u_i over its edges in proportion to their weights. With Theta = 2 R and that bound (1 + excess) alpha over
all features, c Theta is feasible for |c| <= 1 / (1 + excess); the best such c gives the certificate. The parts of the
proximal map leave the least: u = prox_{alpha Omega}(g).

Notation, paper -> code: ``gamma -> alpha``, X is transposed, classes are labels.

Reference: Cai, Nie, Cai, Huang: New graph structured sparsity model for multi-label image annotations. ICCV 2013,
doi:10.1109/ICCV.2013.104.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from ..core.row_blocks import row_blocks
from ..core.validation import Matrix

_COLUMNS_AT_ONCE = 512  # columns of X^T X of sparse X that are computed together: memory
_RANK_UP_TO = 2048  # most features of sparse X whose rank is computed, from X^T X


@dataclass(frozen=True)
class EdgePenalty:
    """Omega: weights of the edges between labels and of the labels themselves."""

    first: np.ndarray  # int32 (n_edges,), labels of every edge, first < second, in ascending order
    second: np.ndarray
    weight: np.ndarray  # (n_edges,), omega of every edge, positive
    own: np.ndarray  # (n_labels,), lambda of every label

    @classmethod
    def from_affinity(cls, affinity: sp.csr_array, self_edges: bool) -> "EdgePenalty":
        """Omega of a symmetric, non-negative affinity: each edge stands for the two ordered pairs of Eq. (3)."""
        pairs = affinity.tocoo()
        kept = np.flatnonzero((pairs.row < pairs.col) & (pairs.data > 0.0))
        kept = kept[np.lexsort((pairs.col[kept], pairs.row[kept]))]
        first, second = pairs.row[kept].astype(np.int32), pairs.col[kept].astype(np.int32)
        own = np.sqrt(2.0) * affinity.diagonal() if self_edges else np.zeros(affinity.shape[0])
        return cls(first, second, 2.0 * pairs.data[kept], own)

    @cached_property
    def total(self) -> np.ndarray:
        """T_i, all weight at label i: zero for a label that is not penalised."""
        total = self.own.copy()
        np.add.at(total, self.first, self.weight)
        np.add.at(total, self.second, self.weight)
        return total

    def value(self, W: np.ndarray) -> float:
        """sum_f Omega(w^f) for W of shape (n_features, n_labels)."""
        return float(self.row_values(W).sum())

    def row_values(self, W: np.ndarray) -> np.ndarray:
        """Omega(w^f) of every row of W."""
        return np.hypot(W[:, self.first], W[:, self.second]) @ self.weight + np.abs(W) @ self.own

    def at(self, labels: np.ndarray) -> "EdgePenalty":
        """Omega on some of the labels, which no edge joins to the others."""
        place = np.full(self.own.size, -1, dtype=np.int32)
        place[labels] = np.arange(labels.size, dtype=np.int32)
        kept = place[self.first] >= 0
        return EdgePenalty(place[self.first[kept]], place[self.second[kept]], self.weight[kept], self.own[labels])


@dataclass(frozen=True)
class LSG21Problem:
    """Centred, weighted least squares with an edge penalty, Eq. (4).

    All products are with the centred matrix ``X - root_weight shift^T``, which is never formed when X is sparse.
    """

    X: Matrix  # rows times root_weight; an ndarray is centred already
    Y: np.ndarray  # (n_samples, n_labels), centred, rows times root_weight
    root_weight: np.ndarray  # (n_samples,), square roots of the weights of the rows
    shift: np.ndarray  # (n_features,), zero for an ndarray
    mean: np.ndarray  # (n_features,), weighted means of the features, zero without intercept
    label_mean: np.ndarray  # (n_labels,), weighted means of the labels, zero without intercept
    penalty: EdgePenalty
    fit_intercept: bool

    @classmethod
    def build(
        cls, X: Matrix, Y: np.ndarray, sample_weight: np.ndarray, penalty: EdgePenalty, fit_intercept: bool
    ) -> "LSG21Problem":
        """Centre copies of the data, Eq. (4); weights s_i are not negative and not all zero."""
        root = np.sqrt(sample_weight)
        mean, varies = np.zeros(X.shape[1]), np.ones(X.shape[1], dtype=bool)
        if fit_intercept:
            mean = (sample_weight @ X) / float(sample_weight.sum())
            varies = _varies(X[root > 0.0] if not root.all() else X)  # constant columns become exactly zero
        targets, label_mean = _centred_labels(Y, root, fit_intercept)
        if isinstance(X, np.ndarray):
            centred = X - mean
            if np.any(root != 1.0):
                centred *= root[:, None]
            centred[:, ~varies] = 0.0
            return cls(centred, targets, root, np.zeros_like(mean), mean, label_mean, penalty, fit_intercept)
        weighted = sp.csr_array(sp.diags_array(root) @ X)
        if not varies.all():
            weighted = sp.csr_array(weighted @ sp.diags_array(varies.astype(np.float64)))
        return cls(weighted, targets, root, np.where(varies, mean, 0.0), mean, label_mean, penalty, fit_intercept)

    def with_labels(self, Y: np.ndarray) -> "LSG21Problem":
        """The same rows, features and penalty with other values of the labels."""
        targets, label_mean = _centred_labels(Y, self.root_weight, self.fit_intercept)
        return replace(self, Y=targets, label_mean=label_mean)

    def product(self, W: np.ndarray) -> np.ndarray:
        """X W, for W of shape (n_features, n_labels)."""
        XW = np.asarray(self.X @ W)
        shifted = self.shift @ W
        return XW - np.outer(self.root_weight, shifted) if np.any(shifted) else XW

    def transposed(self, R: np.ndarray) -> np.ndarray:
        """X^T R, for R of shape (n_samples, n_labels)."""
        if isinstance(self.X, np.ndarray):  # BLAS is faster on the transposed product
            return np.ascontiguousarray((R.T @ self.X).T)
        XR = np.asarray(self.X.T @ R)
        return XR - np.outer(self.shift, self.root_weight @ R) if self.shift.any() else XR

    def gram(self, features: np.ndarray | slice = slice(None), others: np.ndarray | slice = slice(None)) -> np.ndarray:
        """X_f . X_g for f in ``features`` and g in ``others``, dense."""
        rows, columns = self.X[:, features], self.X[:, others]
        if isinstance(rows, np.ndarray):
            return rows.T @ columns
        rows, columns = sp.csc_array(rows), sp.csc_array(columns)
        gram = np.empty((rows.shape[1], columns.shape[1]))
        for part in row_blocks(columns.shape[1], _COLUMNS_AT_ONCE):
            gram[:, part] = (rows.T @ columns[:, part]).toarray()
        # sum_i s_i x_i = (sum_i s_i) mean, so that the three terms with the mean are one.
        gram -= (self.root_weight @ self.root_weight) * np.outer(self.shift[features], self.shift[others])
        return gram

    def centred(self) -> np.ndarray:
        """X, dense."""
        if isinstance(self.X, np.ndarray):
            return self.X
        return self.X.toarray() - np.outer(self.root_weight, self.shift)

    def is_rank_deficient(self) -> bool:
        """Whether X does not determine the weights; of sparse X with many features only the shape is checked."""
        n_used = int(np.count_nonzero(self.root_weight)) - int(self.fit_intercept)
        if self.X.shape[1] > n_used:
            return True
        if isinstance(self.X, np.ndarray):
            return int(np.linalg.matrix_rank(self.X)) < self.X.shape[1]
        if self.X.shape[1] > _RANK_UP_TO:
            return False
        return int(np.linalg.matrix_rank(self.gram(), hermitian=True)) < self.X.shape[1]

    def at(self, labels: np.ndarray) -> "LSG21Problem":
        """The problem of some of the labels, which no edge joins to the others."""
        if len(labels) == self.Y.shape[1]:
            return self
        return replace(
            self,
            Y=np.ascontiguousarray(self.Y[:, labels]),
            label_mean=self.label_mean[labels],
            penalty=self.penalty.at(labels),
        )

    def intercept(self, W: np.ndarray) -> np.ndarray:
        """The best b for W."""
        return self.label_mean - self.mean @ W  # below Eq. (3)

    @staticmethod
    def dual(square: float, inner: float, excess: float) -> float:
        """D at the best feasible multiple of 2 R, from ||R||^2 and <R, Y>, R = X W - Y: a lower bound on the optimum.

        The dual norm of every row of 2 X^T R is at most (1 + excess) alpha.
        """
        if square == 0.0:
            return 0.0
        # D(2 c R) = -c^2 ||R||^2 - 2 c <R, Y>.
        most = 1.0 / (1.0 + excess)
        scale = min(max(-inner / square, -most), most)
        return -(scale**2) * square - 2.0 * scale * inner


def _centred_labels(Y: np.ndarray, root: np.ndarray, fit_intercept: bool) -> tuple[np.ndarray, np.ndarray]:
    """Values of the labels less their weighted means and times the roots of the weights, and these means."""
    if not fit_intercept:
        return root[:, None] * Y, np.zeros(Y.shape[1])
    mean = (root**2 @ Y) / float(root @ root)
    varies = _varies(Y[root > 0.0] if not root.all() else Y)  # constant columns become exactly zero
    return np.where(varies, root[:, None] * (Y - mean), 0.0), mean


def _varies(columns: Matrix) -> np.ndarray:
    """Which columns have different entries."""
    if isinstance(columns, np.ndarray):
        return np.asarray(np.any(columns != columns[:1], axis=0))
    columns = sp.csc_array(columns)
    return np.asarray(columns.max(axis=0).toarray() != columns.min(axis=0).toarray()).ravel()
