r"""Privileged multi-label learning: SVM+ steps whose slack is a linear function of the other labels.

With S in {-1, 0, 1} the signs (n x L, 0 where a label is unknown), s_j row j of S, C_ji the weighted cost of row j and
label i, 0 where S_ji is, Z (d x L) the predictors, and T (L x L) the privileged weights, column i for label i:

.. math:: \min_{D, W, T} \tfrac12 \|D\|^2 + \tfrac{\gamma_1}2 \|W\|^2 + \tfrac{\gamma_2}2 \|T\|^2
    + \sum_{ji} C_{ji}\, \xi_{ji}, \qquad Z = D^\top W, \quad \xi_{ji} = \langle t_i, \tilde y_{ji} \rangle      (5)
.. math:: S_{ji}\, z_i^\top x_j + \xi_{ji} \ge 1, \qquad \xi_{ji} \ge 0

The privileged features of row j for label i, Eq. (3), are s_j with element i replaced by the constant 1, or by 0 (the
literal form, which can be infeasible); all labels are used, or only the nearest ones of each label. Pairs of zero cost
are out of the problem, constraints and all: a label that is unknown in row j asks for no margin there and has no slack,
and in the slacks of the row's other labels its element is 0, neither on nor off.

Each step over (W, T) or (D, T) is the same convex problem in V (d x L), with R symmetric and positive semi-definite:

.. math:: P(V, T) = \tfrac12 \operatorname{tr}(V R V^\top) + \tfrac{\gamma_2}2 \|T\|^2 + \sum_{ji} C_{ji} \xi_{ji},
    \qquad Z = V R
.. math:: D(A, B) = \sum_{ji} A_{ji} - \tfrac12 \operatorname{tr}(V R V^\top) - \tfrac{\gamma_2}2 \|T\|^2,
    \quad A, B \ge 0
.. math:: V = X^\top (S \circ A), \qquad t_i = \tfrac1{\gamma_2} \sum_j (A_{ji} + B_{ji} - C_{ji})\, \tilde y_{ji}

====== ============= =============== =====================
step   X             R               solution
====== ============= =============== =====================
PrBR   X             I               Z = V
W      X D^T         I / gamma1      W = V / gamma1
D      X             W^T W           D = W V^T
====== ============= =============== =====================

The slack depends on a row only through its label set: rows with equal sets share :math:`\xi`, and B is kept per
distinct set, each standing for the sum over its rows.

Notation, paper -> code: ``alpha -> A``, ``beta -> B``, ``Y_ij -> S[j, i]``, ``\tilde w_i -> T[:, i]``. Deviation: the
constant privileged feature, without which (5) need not have a feasible point.

Reference: You, Xu, Wang, Xu, Tao: Privileged multi-label learning. IJCAI 2017, arXiv:1701.07194.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.row_blocks import row_blocks
from ..core.validation import cell_weights
from ..m3l.prior import PriorPart

_ROWS_AT_ONCE = 65536


class SlackDual(NamedTuple):
    """Dual variables of a step: of the margins, and of the slacks of the distinct label sets."""

    A: np.ndarray  # (n_samples, n_labels)
    B: np.ndarray  # (n_sets, n_labels)

    def of(self, labels: np.ndarray) -> SlackDual:
        """Those of some labels."""
        return SlackDual(self.A[:, labels], self.B[:, labels])


def nearest_labels(S: np.ndarray, n_privileged: int, weight: np.ndarray | None = None) -> np.ndarray:
    """The ``n_privileged`` labels nearest to each label in Hamming distance; of labels equally near the first ones.

    Entry (i, l) of the mask: l is one of the nearest to i; none to itself. ``weight`` tells how often each row counts.
    Of two labels the rows where both are known count, so that the distance is the share of those where they differ;
    labels that are never known together are as far apart as can be.
    """
    n_labels = S.shape[1]
    agreement = _products_of_columns(S, weight)
    if not S.all():
        together = _products_of_columns(np.abs(S), weight)
        agreement = np.divide(agreement, together, out=np.full_like(together, -1.0), where=together > 0.0)
    np.fill_diagonal(agreement, -np.inf)
    order = np.argsort(-agreement, axis=1, kind="stable")[:, : min(max(n_privileged, 0), n_labels - 1)]
    mask = np.zeros((n_labels, n_labels), dtype=bool)
    np.put_along_axis(mask, order, True, axis=1)
    return mask


def _products_of_columns(S: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """S^T diag(weight) S."""
    products = np.zeros((S.shape[1], S.shape[1]))
    for rows in row_blocks(S.shape[0], _ROWS_AT_ONCE):
        part = S[rows].astype(np.float64)
        products += (part if weight is None else weight[rows, None] * part).T @ part
    return products


@dataclass(frozen=True)
class PrivilegedSets:
    """Privileged features of the distinct label sets (3), what they do with weights, and how weights can move."""

    sets: np.ndarray  # int8 (n_sets, n_labels): distinct rows of the signs, 0 where unknown
    row_set: np.ndarray  # int (n_samples,): the set of each row
    mask: np.ndarray | None  # (i, l): label l is a privileged feature of label i (diagonal not read); None: all are
    intercept: bool  # whether element i of the features of label i is the constant 1, or 0, Eq. (3)
    # (n_labels, n_labels): column i raises by at least 1 each slack of label i that can be raised; None: not computed
    lift: np.ndarray | None = None
    # Orthonormal columns in the places of T of labels that move only where no slack that has to be zero changes.
    bases: dict[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, S: np.ndarray, mask: np.ndarray | None = None, *, intercept: bool = True) -> PrivilegedSets:
        """The sets that occur in the signs S, of shape (n_samples, n_labels)."""
        sets, row_set = np.unique(np.ascontiguousarray(S, dtype=np.int8), axis=0, return_inverse=True)
        lift = np.diag(sets.any(axis=0).astype(np.float64)) if intercept else None  # unknown labels have no slacks
        return cls(sets, row_set.reshape(-1), mask, intercept, lift)

    @cached_property
    def used(self) -> np.ndarray:
        """(n_labels, n_labels) of 0.0 and 1.0: column i has the places of T that label i may use."""
        n_labels = self.sets.shape[1]
        used = np.ones((n_labels, n_labels)) if self.mask is None else self.mask.T.astype(np.float64)
        np.fill_diagonal(used, float(self.intercept))
        return used

    @cached_property
    def above(self) -> sp.csr_array:
        """The signs plus 1: few labels are on (2) or unknown (1), so that products with the signs are cheap."""
        return sp.csr_array(self.sets + 1.0)

    @cached_property
    def above_transposed(self) -> sp.csr_array:
        return sp.csr_array(self.above.T)

    @cached_property
    def by_set(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows ordered by their set, and where each set begins."""
        order = np.argsort(self.row_set, kind="stable")
        starts = np.searchsorted(self.row_set[order], np.arange(len(self.sets)))
        return order, starts

    def slack(self, T: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Slacks of every set for the given labels, (n_sets, m), from their columns T (n_labels, m)."""
        constant = T[labels, np.arange(len(labels))]
        xi = self.above @ T - T.sum(axis=0)
        xi += constant * (1 - self.sets[:, labels])  # the element of the label itself is s there and has to be 1
        return np.asarray(xi)  # Eq. (4)

    def adjoint(self, gamma: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """sum_g gamma_g yt_g of the given labels, (n_labels, m), from gamma (n_sets, m)."""
        totals = gamma.sum(axis=0)
        weights = self.above_transposed @ gamma - totals
        weights[labels, np.arange(len(labels))] = totals
        weights *= self.used[:, labels]
        for k in np.flatnonzero(np.isin(labels, list(self.bases))):
            weights[:, k] = self.of_label(labels[k], self.to_label(labels[k], weights[:, k]))
        return np.asarray(weights)

    def columns(self, label: int) -> np.ndarray:
        """The places of T that a label uses."""
        return np.flatnonzero(self.used[:, label])

    def to_label(self, label: int, column: np.ndarray) -> np.ndarray:
        """A column of T, projected to where the label can move, in coordinates of that space."""
        used = column[self.columns(label)]
        return self.bases[label].T @ used if label in self.bases else used

    def of_label(self, label: int, coordinates: np.ndarray) -> np.ndarray:
        """The column of T with these coordinates."""
        column = np.zeros(self.sets.shape[1])
        column[self.columns(label)] = self.bases[label] @ coordinates if label in self.bases else coordinates
        return column

    def features(self, label: int, sets: np.ndarray) -> np.ndarray:
        """Features of the given sets in the coordinates of the label, (len(sets), n_coordinates)."""
        columns = self.columns(label)
        U = self.sets[sets][:, columns].astype(np.float64)
        U[:, columns == label] = 1.0
        return U @ self.bases[label] if label in self.bases else U

    def sum_by_set(self, values: np.ndarray) -> np.ndarray:
        """Sums over the rows of each set, (n_sets, m) from (n_samples, m)."""
        order, starts = self.by_set
        return np.asarray(np.add.reduceat(values[order], starts, axis=0))

    def largest_by_set(self, values: np.ndarray) -> np.ndarray:
        """Largest over the rows of each set, (n_sets, m) from (n_samples, m)."""
        order, starts = self.by_set
        return np.asarray(np.maximum.reduceat(values[order], starts, axis=0))


@dataclass(frozen=True)
class SVMPlusProblem:
    """One convex step, or the part of some of its labels that R does not couple with others."""

    X: np.ndarray | sp.csr_array  # (n_samples, n_features), float64
    S: np.ndarray  # int8 (n_samples, n_labels): signs of the labels, 0 where unknown
    row_cost: np.ndarray  # (n_samples,): C times the weight of each row
    label_cost: np.ndarray  # (2, n_labels): weight of a negative (row 0) and of a positive (row 1) of each label
    prior: PriorPart  # R, with the numbers of these labels in the whole step
    gamma2: float  # regularisation of T
    privileged: PrivilegedSets  # of the signs of the whole step

    @property
    def labels(self) -> np.ndarray:
        """These labels, among those of the step."""
        return self.prior.labels

    @property
    def is_coupled(self) -> bool:
        """Whether R couples the labels."""
        return self.prior.form != "diagonal"

    def part(self, columns: np.ndarray) -> SVMPlusProblem:
        """The problem of some of the labels; R is diagonal."""
        prior = PriorPart(self.labels[columns], "diagonal", np.ascontiguousarray(self.prior.diagonal[columns]))
        S, label_cost = np.ascontiguousarray(self.S[:, columns]), self.label_cost[:, columns]
        return replace(self, S=S, label_cost=label_cost, prior=prior)

    @cached_property
    def cost(self) -> np.ndarray:
        """C_ji."""
        return cell_weights(self.S, self.row_cost, self.label_cost)

    @cached_property
    def set_cost(self) -> np.ndarray:
        """Cost of the rows of each set, (n_sets, n_labels)."""
        return self.privileged.sum_by_set(self.cost)

    @cached_property
    def there(self) -> np.ndarray:
        """Which pairs have a margin constraint."""
        return self.cost > 0.0

    @cached_property
    def set_there(self) -> np.ndarray:
        """Which sets have a slack constraint."""
        return self.set_cost > 0.0

    @cached_property
    def linear(self) -> np.ndarray:
        """Slacks cost <linear, T>."""
        return self.privileged.adjoint(self.set_cost, self.labels)

    def dual_average(self, A: np.ndarray) -> np.ndarray:
        """V = X^T (S o A)."""
        return np.asarray(self.X.T @ (self.S * A))  # Eqs. (8), (12)

    def weights(self, V: np.ndarray) -> np.ndarray:
        """Z = V R."""
        return self.prior.apply(V)

    def privileged_weights(self, dual: SlackDual) -> np.ndarray:
        """T of (A, B)."""
        gamma = self.privileged.sum_by_set(dual.A) + dual.B - self.set_cost
        return self.privileged.adjoint(gamma, self.labels) / self.gamma2  # Eqs. (9), (13)

    def half_norm(self, V: np.ndarray, T: np.ndarray) -> float:
        """The regularisers of V and T."""
        return 0.5 * (float(np.sum(V * self.weights(V))) + self.gamma2 * float(np.sum(T * T)))

    def primal(self, V: np.ndarray, T: np.ndarray) -> float:
        """P(V, T), feasible or not."""
        return self.half_norm(V, T) + float(np.sum(self.linear * T))  # Eqs. (6), (10)

    def dual(self, dual: SlackDual) -> float:
        """D(A, B)."""
        V, T = self.dual_average(dual.A), self.privileged_weights(dual)
        return float(dual.A.sum()) - self.half_norm(V, T)  # Eqs. (7), (11)

    def violation(self, V: np.ndarray, T: np.ndarray) -> np.ndarray:
        """Largest amount by which a constraint of each label is broken; not positive where (V, T) is feasible."""
        xi = self.privileged.slack(T, self.labels)
        margins = self.S * np.asarray(self.X @ self.weights(V))
        return np.asarray(np.max(self.needed(margins) - xi, axis=0))

    def needed(self, margins: np.ndarray) -> np.ndarray:
        """The slack that every set needs with these margins, (n_sets, n_labels); -inf where nothing is asked."""
        hinge = self.privileged.largest_by_set(np.where(self.there, 1.0 - margins, -np.inf))
        return np.maximum(hinge, np.where(self.set_there, 0.0, -np.inf))


@dataclass(frozen=True)
class PrMLProblem:
    r"""Problem (5): predictors of low rank, Z = D^T W.

    Not convex in (D, W) together, but bounded from below by a convex problem. Of all (D, W) with the same Z the
    balanced ones cost least, :math:`\sqrt{\gamma_1} \|Z\|_*` (the sum of the singular values), whose dual is

    .. math:: \max_{A, B \ge 0} \sum A - \tfrac{\gamma_2}2 \|T\|^2 \quad \text{s.t.} \quad
        \|X^\top (S \circ A)\|_2 \le \sqrt{\gamma_1}

    so any dual variables, scaled down until the largest singular value fits, bound (5) for every rank.
    """

    X: np.ndarray | sp.csr_array
    S: np.ndarray
    row_cost: np.ndarray
    label_cost: np.ndarray
    gamma1: float  # regularisation of W
    gamma2: float
    privileged: PrivilegedSets

    def step(self, X: np.ndarray | sp.csr_array, R: np.ndarray) -> SVMPlusProblem:
        """A convex step on the rows of X: R is given by its diagonal, or by F with R = F F^T."""
        prior = PriorPart(np.arange(len(R)), "diagonal" if R.ndim == 1 else "factor", R)
        return SVMPlusProblem(X, self.S, self.row_cost, self.label_cost, prior, self.gamma2, self.privileged)

    def w_step(self, D: np.ndarray) -> SVMPlusProblem:
        """The step over (W, T); W = V / gamma1."""
        return self.step(np.ascontiguousarray(np.asarray(self.X @ D.T)), np.full(self.S.shape[1], 1.0 / self.gamma1))

    def d_step(self, W: np.ndarray) -> SVMPlusProblem:
        """The step over (D, T); D = W V^T."""
        return self.step(self.X, np.ascontiguousarray(W.T))

    def objective(self, D: np.ndarray, W: np.ndarray, T: np.ndarray) -> float:
        """(5), feasible or not."""
        xi = self.privileged.slack(T, np.arange(self.S.shape[1]))
        quadratic = float(np.sum(D * D)) + self.gamma1 * float(np.sum(W * W)) + self.gamma2 * float(np.sum(T * T))
        return 0.5 * quadratic + float(np.sum(self.set_cost * xi))  # Eq. (5)

    @cached_property
    def set_cost(self) -> np.ndarray:
        """Cost of the rows of each set, (n_sets, n_labels)."""
        return self.step(self.X, np.ones(self.S.shape[1])).set_cost

    def lower_bound(self, dual: SlackDual) -> float:
        """A bound of (5) for all D, W and T, of any rank.

        A is scaled down, B raised so that T stays; then both move towards A = 0, B = cost, T = 0 as far as that gains.
        """
        step = self.step(self.X, np.ones(self.S.shape[1]))
        largest, T = float(np.linalg.norm(step.dual_average(dual.A), 2)), step.privileged_weights(dual)
        share = min(1.0, np.sqrt(self.gamma1) / largest) if largest > 0.0 else 1.0
        linear, quadratic = share * float(dual.A.sum()), self.gamma2 * float(np.sum(T * T))
        kept = min(1.0, linear / quadratic) if quadratic > 0.0 else 1.0
        return kept * linear - 0.5 * kept**2 * quadratic
