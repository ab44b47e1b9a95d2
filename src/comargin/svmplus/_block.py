"""Labels of an SVM+ step that are solved together: their data, what moves, and the best so far."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ._directions import SlackDirections
from ._system import Features
from .problem import PrivilegedSets, SVMPlusProblem


@dataclass(frozen=True)
class BlockData:
    """Labels of a step that are solved together; R couples them with no others.

    With ``needed`` there are no margins, but slacks with lower bounds of their own (n_sets, n_labels): T alone is
    sought.
    """

    problem: SVMPlusProblem
    labels: np.ndarray
    features: Features
    directions: SlackDirections
    needed: np.ndarray | None = None

    @property
    def sets(self) -> PrivilegedSets:
        """Privileged features."""
        return self.problem.privileged

    @property
    def is_coupled(self) -> bool:
        """Whether R couples these labels."""
        return self.problem.prior.form != "diagonal"

    @cached_property
    def signs(self) -> np.ndarray:
        """Signs."""
        return np.ascontiguousarray(self.problem.S[:, self.labels])

    @cached_property
    def r(self) -> np.ndarray:
        """Diagonal of R."""
        return self.problem.prior.diagonal[self.labels]

    @cached_property
    def cost(self) -> np.ndarray:
        """C_ji."""
        weight = self.problem.label_cost[:, self.labels]
        return self.problem.row_cost[:, None] * np.where(self.signs > 0, weight[1], weight[0])

    @cached_property
    def there(self) -> np.ndarray:
        """Which pairs have a margin constraint."""
        return self.cost > 0.0 if self.needed is None else np.zeros(self.cost.shape, dtype=bool)

    @cached_property
    def set_cost(self) -> np.ndarray:
        """Cost of the rows of each set."""
        return self.sets.sum_by_set(self.cost)

    @cached_property
    def set_there(self) -> np.ndarray:
        """Which sets have a slack constraint."""
        return self.set_cost > 0.0

    @cached_property
    def least(self) -> np.ndarray:
        """Lower bounds of the slacks."""
        if self.needed is None:
            return np.zeros(self.set_cost.shape)
        return np.where(self.set_there, self.needed[:, self.labels], 0.0)

    @cached_property
    def linear(self) -> np.ndarray:
        """Slacks cost <linear, T>."""
        return self.sets.adjoint(self.set_cost, self.labels)

    @cached_property
    def lift(self) -> np.ndarray:
        """Raises every slack that can be raised by at least 1."""
        return np.ascontiguousarray(self.directions.lift[:, self.labels])

    @cached_property
    def bases(self) -> dict[int, np.ndarray]:
        """Where the k-th label may move, if that is not all of the space."""
        bases = self.directions.bases
        return {k: bases[label] for k, label in enumerate(self.labels) if label in bases}

    @cached_property
    def price(self) -> np.ndarray:
        """Cost of the rows in which a label is on; with a constant, such a label raises the slacks of these alone."""
        used = self.sets.used[:, self.labels] > 0.0
        can_raise = used if self.sets.intercept else np.zeros(used.shape, dtype=bool)
        can_raise[self.labels, np.arange(len(self.labels))] = False
        return np.where(can_raise, self.sets.on.T @ self.set_cost, np.inf)

    @cached_property
    def lengths(self) -> tuple[np.ndarray, np.ndarray]:
        """Squared lengths of the two kinds of constraints, in units of what regularises: margins, slacks."""
        slack = (np.count_nonzero(self.sets.used[:, self.labels], axis=0) + 1.0) / self.problem.gamma2
        return float(np.mean(self.features.sqnorm)) * self.r + slack, slack

    @cached_property
    def stiffer(self) -> np.ndarray:
        """The ratio tau / sigma."""
        margin, slack = self.lengths
        return margin / slack

    def apply_prior(self, V: np.ndarray) -> np.ndarray:
        """V R; single labels have a diagonal R."""
        return self.problem.prior.apply(V) if self.is_coupled else V * self.r

    def adjoint(self, gamma: np.ndarray) -> np.ndarray:
        """Sum of gamma yt, in the directions T can move in."""
        weights = self.sets.adjoint(gamma, self.labels)
        for k, basis in self.bases.items():
            columns = self.sets.columns(int(self.labels[k]))
            weights[columns, k] = basis @ (basis.T @ weights[columns, k])
        return weights

    def weights_of(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """V and T that belong to the dual variables."""
        V = self.features.average(self.signs * A)  # Eqs. (8), (12)
        T = self.adjoint(self.sets.sum_by_set(A) + B - self.set_cost) / self.problem.gamma2  # Eqs. (9), (13)
        return V, T

    def half_norm(self, V: np.ndarray, T: np.ndarray) -> float:
        """The regularisers of V and T."""
        return 0.5 * (float(np.sum(V * self.apply_prior(V))) + self.problem.gamma2 * float(np.sum(T * T)))

    def primal(self, V: np.ndarray, T: np.ndarray) -> float:
        """P(V, T) of these labels."""
        return self.half_norm(V, T) + float(np.sum(self.linear * T))  # Eqs. (6), (10)

    def dual(self, A: np.ndarray, B: np.ndarray, V: np.ndarray, T: np.ndarray) -> float:
        """D(A, B), with the weights that belong to them."""
        return float(A.sum()) + float(np.sum(self.least * B)) - self.half_norm(V, T)  # Eqs. (7), (11)


@dataclass
class Iterate:
    """What moves: the multipliers, the weights with their margins S o (X V R) and slacks xi, and the penalties."""

    A: np.ndarray
    B: np.ndarray
    V: np.ndarray
    T: np.ndarray
    margins: np.ndarray
    xi: np.ndarray
    sigma: np.ndarray


@dataclass
class Best:
    """The best feasible point and the best dual variables so far, each with its objective."""

    V: np.ndarray
    T: np.ndarray
    A: np.ndarray
    B: np.ndarray
    primal: float = np.inf
    dual: float = -np.inf

    @property
    def gap(self) -> float:
        """Between the two."""
        return self.primal - self.dual
