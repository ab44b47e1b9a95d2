r"""Least squares with an l2,1 norm on every edge of a label graph (LSG21).

With W (d x L) the weights, rows w^f for features, b free and A a symmetric, non-negative affinity of labels:

.. math:: P(W, b) = \sum_i s_i \|x_i^\top W + b^\top - y_i^\top\|^2 + \alpha \sum_f \Omega(w^f), \qquad
    \Omega(w) = \sum_i \lambda_i |w_i| + \sum_{i<j} \omega_{ij} \sqrt{w_i^2 + w_j^2},

lambda_i = sqrt(2) a_ii (0 without self edges), omega_ij = 2 a_ij: the sum over ordered pairs of ||[w_i, w_j]||_{2,1}
counts every edge twice. The best b is the mean of Y - X W, so both are centred and b is gone: with X and Y centred (and
rows times sqrt(s_i)), R = X W - Y, the dual with Theta in the shape of Y is

.. math:: D(\Theta) = -\tfrac14 \|\Theta\|^2 - \langle \Theta, Y \rangle, \qquad
    \Omega^\circ(X_f^\top \Theta) \le \alpha \text{ for every feature } f ,

Omega-circle the dual norm: the smallest t for which g is a sum of parts g = sum_e p_e, one for every edge, on its
labels, with ||p_e|| <= t omega_e. It is not computed. From any parts that respect t = alpha, and what is left of g,
u = g - sum_e p_e, follows Omega-circle(g) <= alpha + max_e ||(u_i / T_i, u_j / T_j)||, T_i = lambda_i + sum_j omega_ij:
label i hands u_i out to its edges in proportion to their weights. With Theta = 2 R and that bound (1 + excess) alpha
over all features, c Theta is feasible for |c| <= 1 / (1 + excess); the best such c gives the certificate.

Parts that leave as little as possible are those of the proximal map: u = prox_{alpha Omega}(g).

Notation, paper -> code: ``gamma -> alpha``, X is transposed, classes are labels.

Reference: Cai, Nie, Cai, Huang: New graph structured sparsity model for multi-label image annotations. ICCV 2013,
doi:10.1109/ICCV.2013.104.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import scipy.sparse as sp

# Features whose products are dense at once: bounds the temporaries of sparse X.
_COLUMNS_AT_ONCE = 512
# Most features of sparse X whose rank is computed, from their products with each other.
_RANK_UP_TO = 2048
# Rows in which columns are seen to vary before all rows are looked at.
_SOME_ROWS = 16


@dataclass(frozen=True)
class EdgePenalty:
    """Omega: weights of the edges between labels and of the labels themselves.

    first, second : int32 (n_edges,), labels of every edge, first < second, in ascending order.  weight : (n_edges,),
    omega of every edge, positive.  own : (n_labels,), lambda of every label.
    """

    first: np.ndarray
    second: np.ndarray
    weight: np.ndarray
    own: np.ndarray

    @classmethod
    def from_affinity(cls, affinity: sp.csr_array, self_edges: bool) -> EdgePenalty:
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

    def at(self, labels: np.ndarray) -> EdgePenalty:
        """Omega on some of the labels, which no edge joins to the others."""
        place = np.full(self.own.size, -1, dtype=np.int32)
        place[labels] = np.arange(labels.size, dtype=np.int32)
        kept = place[self.first] >= 0
        return EdgePenalty(place[self.first[kept]], place[self.second[kept]], self.weight[kept], self.own[labels])


@dataclass(frozen=True)
class LSG21Problem:
    """Centred, weighted least squares with an edge penalty, Eq. (4).

    X is used as ``X - root_weight mean^T`` and never centred in memory when it is sparse.

    Attributes
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Rows times ``root_weight``; for an ndarray centred already.
    Y : ndarray of shape (n_samples, n_labels)
        Labels, centred, rows times ``root_weight``.
    root_weight : ndarray of shape (n_samples,)
        Square roots of the weights of the rows.
    shift : ndarray of shape (n_features,)
        What has to be subtracted from sparse rows; zero for an ndarray.
    mean : ndarray of shape (n_features,)
        Weighted means of the features, zero without intercept.
    label_mean : ndarray of shape (n_labels,)
        Weighted means of the labels, zero without intercept.
    penalty : EdgePenalty
        Omega.
    fit_intercept : bool
        Whether there is a free b.
    """

    X: np.ndarray | sp.csr_array
    Y: np.ndarray
    root_weight: np.ndarray
    shift: np.ndarray
    mean: np.ndarray
    label_mean: np.ndarray
    penalty: EdgePenalty
    fit_intercept: bool

    @classmethod
    def build(
        cls,
        X: np.ndarray | sp.csr_array,
        Y: np.ndarray,
        sample_weight: np.ndarray,
        penalty: EdgePenalty,
        fit_intercept: bool,
    ) -> LSG21Problem:
        """Centre copies of the data, Eq. (4); weights s_i are not negative and not all zero."""
        root, total = np.sqrt(sample_weight), float(sample_weight.sum())
        mean, label_mean = np.zeros(X.shape[1]), np.zeros(Y.shape[1])
        targets = root[:, None] * Y
        varies = np.ones(X.shape[1], dtype=bool)
        if fit_intercept:
            mean, label_mean = (sample_weight @ X) / total, (sample_weight @ Y) / total
            counted = root > 0.0 if not root.all() else slice(None)
            # Centred columns that do not vary are exactly zero, not what rounding leaves.
            varies, label_varies = _varies(X[counted]), _varies(Y[counted])
            targets = np.where(label_varies, root[:, None] * (Y - label_mean), 0.0)
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

    def product(self, W: np.ndarray) -> np.ndarray:
        """X W, for W of shape (n_features, n_labels)."""
        XW = np.asarray(self.X @ W)
        shifted = self.shift @ W
        return XW - np.outer(self.root_weight, shifted) if np.any(shifted) else XW

    def transposed(self, R: np.ndarray) -> np.ndarray:
        """X^T R, for R of shape (n_samples, n_labels)."""
        if isinstance(self.X, np.ndarray):  # which BLAS computes sooner transposed
            return np.ascontiguousarray((R.T @ self.X).T)
        XR = np.asarray(self.X.T @ R)
        return XR - np.outer(self.shift, self.root_weight @ R) if self.shift.any() else XR

    def gram(self, features: np.ndarray, others: np.ndarray) -> np.ndarray:
        """X_f . X_g for f in ``features`` and g in ``others``, dense."""
        rows, columns = self._columns(features), self._columns(others)
        if isinstance(rows, np.ndarray):
            return rows.T @ columns
        gram = np.empty((len(features), len(others)))
        for begin in range(0, len(others), _COLUMNS_AT_ONCE):
            part = slice(begin, begin + _COLUMNS_AT_ONCE)
            gram[:, part] = (rows.T @ columns[:, part]).toarray()
        # sum_i s_i x_i = (sum_i s_i) mean: of the four products of centred columns one remains.
        gram -= (self.root_weight @ self.root_weight) * np.outer(self.shift[features], self.shift[others])
        return gram

    def centred(self) -> np.ndarray:
        """X, dense."""
        if isinstance(self.X, np.ndarray):
            return self.X
        return self.X.toarray() - np.outer(self.root_weight, self.shift)

    def is_rank_deficient(self) -> bool:
        """Whether X does not determine the weights; of wide sparse X only its shape is looked at."""
        n_used = int(np.count_nonzero(self.root_weight)) - int(self.fit_intercept)
        if self.X.shape[1] > n_used:
            return True
        if isinstance(self.X, np.ndarray):
            return int(np.linalg.matrix_rank(self.X)) < self.X.shape[1]
        everything = np.arange(self.X.shape[1])
        if everything.size > _RANK_UP_TO:
            return False
        return int(np.linalg.matrix_rank(self.gram(everything, everything), hermitian=True)) < everything.size

    def _columns(self, features: np.ndarray) -> np.ndarray | sp.csc_array:
        everything = np.array_equal(features, np.arange(self.X.shape[1]))
        columns = self.X if everything else self.X[:, features]
        return columns if isinstance(columns, np.ndarray) else sp.csc_array(columns)

    def at(self, labels: np.ndarray) -> LSG21Problem:
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

        ``excess`` is how far the dual norm of a row of 2 X^T R exceeds alpha at most, as a fraction of alpha.
        """
        if square == 0.0:
            return 0.0
        # D(2 c R) = -c^2 ||R||^2 - 2 c <R, Y>.
        most = 1.0 / (1.0 + excess)
        scale = min(max(-inner / square, -most), most)
        return -(scale**2) * square - 2.0 * scale * inner


def _varies(columns: np.ndarray | sp.csr_array) -> np.ndarray:
    """Which columns have different entries."""
    if isinstance(columns, np.ndarray):
        varies = np.any(columns[:_SOME_ROWS] != columns[:1], axis=0)
        left = np.flatnonzero(~varies)
        if 4 * left.size > varies.size:  # rare features: no copies of them
            return np.any(columns != columns[:1], axis=0)
        varies[left] = np.any(columns[:, left] != columns[:1, left], axis=0)
        return varies
    columns = sp.csc_array(columns)
    return np.asarray(columns.max(axis=0).toarray() != columns.min(axis=0).toarray()).ravel()
