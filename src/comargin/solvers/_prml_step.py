r"""SVM+ steps by the method of multipliers with Newton steps.

The slack of an SVM+ is linear in few weights T, and its cost n times larger than what regularises them: the T-part is
almost a linear program, on which coordinate descent creeps. The method of multipliers (Rockafellar, 1976) does not
mind. With A, B >= 0 the multipliers and sigma the penalty it minimises over (V, T)

.. math:: \tfrac12 \operatorname{tr}(V R V^\top) + \tfrac{\gamma_2}2 \|T\|^2 + \sum C \xi
    + \tfrac1{2\sigma} \|[A + \sigma (1 - M - \xi)]_+\|^2 + \tfrac1{2\tau} \|[B - \tau \xi]_+\|^2,
    \qquad M = S \circ (X V R)

(tau is sigma in the ratio of the lengths of both kinds of constraints) and takes the two brackets as the next A and B.
The function is convex, piecewise quadratic: Newton steps with an exact line search end after a few changes of the
active constraints, of which there are few (at most as many as weights, at a generic optimum). Labels that R does not
couple are solved on their own; coupled ones together, factorised or by conjugate gradients with the systems of the
single labels as preconditioner. The penalties grow with every update, and are lowered when an update is not solved and
gains nothing.

The certificate: D(A, B) is a lower bound for any A, B >= 0. (V, T) becomes feasible by raising the privileged
constant, or labels that are on in the rows that need it, or by scaling margins and slacks up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from ..kernels._prml_label import prml_raise
from ..problems.prml import SlackDual, SVMPlusProblem
from ._loop import tolerance
from ._prml_coupled import coupled_by_cg, coupled_directly, solves_directly
from ._prml_system import Features, LabelSystem, RowGram, privileged_gram

# First penalty, in units of cost over the squared length of a constraint; how it grows with every update; and the
# largest, in units of one over that length: beyond, Newton systems are rounding. Conjugate gradients need smaller ones.
_FIRST_PENALTY, _FIRST_COUPLED = 10000.0, 100.0
_GROWTH, _GROWTH_COUPLED = 2.0, 2.0
_LARGEST_PENALTY = 1e10
_SHRINK = 16.0
_MOST_NEWTON = 50
# Newton steps end when what they could still gain is this fraction of the tolerance, or of the gap if that is larger.
_INNER = 0.1
_INNER_GAP = 0.1
_LINE_SEARCH = 0.1


class Ways:
    """How T of each label can move: all of its places, or only where no slack that has to be zero changes.

    Attributes
    ----------
    lift : ndarray of shape (n_labels, m)
        Column i raises the slack of label i: by at least 1 for every set whose slack can be raised.
    bases : dict of int to ndarray
        Orthonormal columns in the places of T that the label uses, for labels that may not use all of that space.
    """

    def __init__(self, lift: np.ndarray, bases: dict[int, np.ndarray]) -> None:
        self.lift, self.bases = lift, bases


class StepBlock:
    """State of some labels of a step; they are independent of all others.

    With ``needed`` there are no margins, but slacks with lower bounds of their own (n_sets, n_labels): T alone is
    sought. ``start`` has the columns of these labels. ``allowance`` is added to the gap that ``tol`` allows.

    Invariants: Z = V R; ``margins`` = S o (X Z); ``xi`` is the slack of every set at T.
    """

    def __init__(
        self,
        problem: SVMPlusProblem,
        labels: np.ndarray,
        features: Features,
        mean_sqnorm: float,
        tol: float,
        start: SlackDual | None,
        ways: Ways,
        penalty: np.ndarray | None = None,
        needed: np.ndarray | None = None,
        allowance: float = 0.0,
    ) -> None:
        # What the gap may be: this share of the tolerance of these labels, and something beside it. A hair below the
        # tolerance, so that sums meet it in spite of rounding.
        self.share, self.allowance = 0.9, allowance
        self.problem, self.labels, self.features, self.tol = problem, labels, features, tol
        self.sets, self.gamma2 = problem.privileged, problem.gamma2
        self.coupled = problem.prior.form != "diagonal"
        self.lift = np.ascontiguousarray(ways.lift[:, labels])
        self.bases = {k: ways.bases[label] for k, label in enumerate(labels) if label in ways.bases}
        self.S = np.ascontiguousarray(problem.S[:, labels])
        self.r = problem.prior.diagonal[labels]
        cost = problem.row_cost[:, None] * np.where(
            self.S > 0, problem.label_cost[1, labels], problem.label_cost[0, labels]
        )
        self.set_cost = self.sets.sum_by_set(cost)
        self.there, self.set_there = cost > 0.0, self.set_cost > 0.0
        # Slacks cost <linear, T>. With a constant, a label that is on raises the slacks of its own rows alone.
        self.linear = self.sets.adjoint(self.set_cost, labels)
        can_raise = self.sets.used[:, labels] > 0.0 if self.sets.intercept else np.zeros(self.linear.shape, dtype=bool)
        can_raise[labels, np.arange(len(labels))] = False
        self.price = np.where(can_raise, self.sets.on.T @ self.set_cost, np.inf)
        if needed is None:
            self.least = np.zeros(self.set_cost.shape)
        else:  # slacks with bounds of their own, instead of margins
            self.least, self.there = np.ascontiguousarray(needed[:, labels]), np.zeros(cost.shape, dtype=bool)
        if start is None:  # all of the cost in B: T = 0
            self.A, self.B = np.zeros(self.S.shape), self.set_cost.copy()
        else:
            self.A = np.where(self.there, start.A, 0.0)
            self.B = np.where(self.set_there, start.B, 0.0)
        slack_length = (np.count_nonzero(self.sets.used[:, labels], axis=0) + 1.0) / self.gamma2
        length = mean_sqnorm * self.r + slack_length
        self.stiffer = length / slack_length
        mean_cost = cost.sum(axis=0) / np.maximum(self.there.sum(axis=0), 1)
        self.largest_penalty = _LARGEST_PENALTY / length
        self.growth = _GROWTH_COUPLED if self.coupled else _GROWTH
        first = np.minimum(
            (_FIRST_COUPLED if self.coupled else _FIRST_PENALTY) * np.where(mean_cost > 0.0, mean_cost, 1.0) / length,
            self.largest_penalty,
        )
        self.sigma = first if penalty is None else np.clip(penalty[labels], first, self.largest_penalty)
        self.gram: RowGram | None = None
        self.done, self.best_primal, self.best_dual = False, np.inf, -np.inf
        self.link()
        self.certify()
        self._offer_scaled(1.0, 0.0)  # a T whose sums A + B are far from the cost is worse than none

    # ---- the step's linear maps

    def apply_prior(self, V: np.ndarray) -> np.ndarray:
        """V R; single labels have a diagonal R."""
        return self.problem.prior.apply(V) if self.coupled else V * self.r

    def adjoint(self, gamma: np.ndarray) -> np.ndarray:
        """Sum of gamma yt, in the directions T can move in."""
        weights = self.sets.adjoint(gamma, self.labels)
        for k, basis in self.bases.items():
            columns = self.sets.columns(int(self.labels[k]))
            weights[columns, k] = basis @ (basis.T @ weights[columns, k])
        return weights

    def weights_of(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """V and T that belong to the dual variables."""
        V = self.features.average(self.S * A)
        return V, self.adjoint(self.sets.sum_by_set(A) + B - self.set_cost) / self.gamma2

    def link(self) -> None:
        """V, T and what follows from them, of A and B."""
        self.V, self.T = self.weights_of(self.A, self.B)
        self.next_V, self.next_T = self.V, self.T
        self.next_A, self.next_B = self.A, self.B
        self.refresh()

    def refresh(self) -> None:
        """Margins and slacks of V and T, anew, so that rounding of the updates does not add up."""
        self.margins = self.S * self.features.scores(self.apply_prior(self.V))
        self.xi = self.sets.slack(self.T, self.labels)

    # ---- Newton

    def advance(self, run: Callable[..., Iterable[Any]] = map) -> None:
        """One update of the multipliers, after Newton steps; ``run`` maps a function over labels."""
        if self.gram is None:
            self.gram = RowGram(self.features)
        gap = self.best_primal - self.best_dual
        if np.isfinite(gap):
            enough = _INNER * max(self.allowed(), _INNER_GAP * gap)
        else:
            enough = _INNER * _INNER_GAP * abs(self.best_dual)
        for newton in range(_MOST_NEWTON):
            inner_A, inner_B, gV, gT = self._gradient()
            RgV = self.apply_prior(gV)
            left = 0.5 * (float(np.sum(gV * RgV)) + float(np.sum(gT * gT)) / self.gamma2)
            solved = newton > 0 and left <= enough
            if solved or not self._newton_step(inner_A, inner_B, gV, RgV, gT, left, run):
                break
        else:
            self._gradient()
        before = self.A, self.B, self.best_dual
        self.A, self.B = self.next_A, self.next_B
        self.refresh()
        self.certify()
        if solved or self.best_dual > before[2]:
            self.sigma = np.minimum(self.growth * self.sigma, self.largest_penalty)
        else:  # too hard with this penalty: the multipliers stay
            self.A, self.B = before[:2]
            self.sigma = self.sigma / _SHRINK

    def _gradient(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The brackets before they are cut at zero, and the gradient in V and T."""
        inner_A = self.A + self.sigma * (1.0 - self.margins - self.xi[self.sets.row_set])
        inner_B = self.B + self.stiffer * self.sigma * (self.least - self.xi)
        self.next_A = np.where(self.there, np.maximum(inner_A, 0.0), 0.0)
        self.next_B = np.where(self.set_there, np.maximum(inner_B, 0.0), 0.0)
        self.next_V, self.next_T = self.weights_of(self.next_A, self.next_B)
        return inner_A, inner_B, self.V - self.next_V, self.gamma2 * (self.T - self.next_T)

    def _newton_step(
        self,
        inner_A: np.ndarray,
        inner_B: np.ndarray,
        gV: np.ndarray,
        RgV: np.ndarray,
        gT: np.ndarray,
        left: float,
        run: Callable[..., Iterable[Any]],
    ) -> bool:
        """Move V and T along the Newton direction; returns whether they moved."""
        dV, dT = self._direction(gV, RgV, gT, left, run)
        RdV = self.apply_prior(dV)
        d_margins = self.S * self.features.scores(RdV)
        d_xi = self.sets.slack(dT, self.labels)
        dA, dB = self.sigma * (d_margins + d_xi[self.sets.row_set]), self.stiffer * self.sigma * d_xi
        inner_A = np.where(self.there, inner_A, -np.inf)
        inner_B = np.where(self.set_there, inner_B, -np.inf)
        constant = float(np.sum(self.V * RdV)) + self.gamma2 * float(np.sum(self.T * dT))
        constant += float(np.sum(self.set_cost * d_xi))
        slope = float(np.sum(dV * RdV)) + self.gamma2 * float(np.sum(dT * dT))

        def derivative(t: float) -> float:
            """Of the function along the direction, at length t."""
            ahead = np.einsum("ij,ij->j", np.maximum(inner_A - t * dA, 0.0), dA)
            ahead += np.einsum("ij,ij->j", np.maximum(inner_B - t * dB, 0.0), dB) / self.stiffer
            return constant + t * slope - float(np.sum(ahead / self.sigma))

        length = _zero_of(derivative)
        if length == 0.0:
            return False
        self.V, self.T = self.V + length * dV, self.T + length * dT
        self.margins, self.xi = self.margins + length * d_margins, self.xi + length * d_xi
        return True

    def _direction(
        self, gV: np.ndarray, RgV: np.ndarray, gT: np.ndarray, left: float, run: Callable[..., Iterable[Any]]
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""The Newton direction, through z = sigma (dM + dxi) on the active rows.

        .. math:: dV = -g_V - X^\top (S \circ z), \quad (\gamma_2 + \tau U_b^\top U_b)\, dt = -g_t - U^\top z, \quad
            z / \sigma = S \circ (X\, dV R) + U dt
        """
        assert self.gram is not None
        systems = list(run(self._system, range(len(self.labels))))
        grads = [-self._places(gT, k) for k in range(len(systems))]
        if self.coupled and solves_directly(self.features, self.problem.prior):
            zs = coupled_directly(self.gram.features, self.problem.prior, systems, gV, grads, run)
        else:
            list(run(partial(LabelSystem.factorise, features=self.features, gram=self.gram), systems))
            right = -self.S * self.features.scores(RgV)
            rights = [right[system.rows, k] for k, system in enumerate(systems)]
            solved = list(run(LabelSystem.solve, systems, rights, grads))
            zs, ts = [z for z, _ in solved], [t for _, t in solved]
            if self.coupled:
                zs = coupled_by_cg(self.coupled_product, self.stray, systems, rights, grads, zs, left, run)
        if self.coupled:
            ts = [system.weights(g - system.U.T @ z) for system, g, z in zip(systems, grads, zs, strict=True)]
        dT = np.zeros(self.T.shape)
        for k, t in enumerate(ts):
            columns = self.sets.columns(int(self.labels[k]))
            dT[columns, k] = self.bases[k] @ t if k in self.bases else t
        return -gV - self.features.average(self.S * self._spread(systems, zs)), dT

    def _places(self, gT: np.ndarray, k: int) -> np.ndarray:
        """Column k of a gradient, in the directions that label moves in."""
        column = gT[self.sets.columns(int(self.labels[k])), k]
        return self.bases[k].T @ column if k in self.bases else column

    def _system(self, k: int) -> LabelSystem:
        """The Newton system of the k-th label."""
        label, basis = int(self.labels[k]), self.bases.get(k)
        rows = np.flatnonzero(self.next_A[:, k] > 0.0)
        U = self.sets.features(label, self.sets.row_set[rows])
        H = privileged_gram(self.sets, label, np.where(self.next_B[:, k] > 0.0, self.stiffer[k] * self.sigma[k], 0.0))
        if basis is not None:
            U, H = U @ basis, basis.T @ H @ basis
        H.flat[:: len(H) + 1] += self.gamma2
        signs = self.S[rows, k].astype(np.float64)
        return LabelSystem(rows, signs, U, H, float(self.r[k]), float(self.sigma[k]))

    def _spread(self, systems: list[LabelSystem], zs: list[np.ndarray]) -> np.ndarray:
        """Values of the active rows as (n_samples, m), zero elsewhere."""
        out = np.zeros(self.S.shape)
        for k, (system, z) in enumerate(zip(systems, zs, strict=True)):
            out[system.rows, k] = z
        return out

    def coupled_product(self, systems: list[LabelSystem], zs: list[np.ndarray]) -> list[np.ndarray]:
        """S o (X X^T (S o z) R) on the active rows of each label."""
        V = self.features.average(self.S * self._spread(systems, zs))
        coupled = self.S * self.features.scores(self.apply_prior(V))
        return [coupled[system.rows, k] for k, system in enumerate(systems)]

    def stray(self, systems: list[LabelSystem], residual: list[np.ndarray]) -> float:
        """What a residual of z leaves of the gradient in (V, T), in the units of the objective."""
        scaled = self.sigma * self._spread(systems, residual)
        V = self.features.average(self.S * scaled)
        T = self.adjoint(self.sets.sum_by_set(scaled))
        return 0.5 * (float(np.sum(V * self.apply_prior(V))) + float(np.sum(T * T)) / self.gamma2)

    # ---- certificate

    def certify(self) -> None:
        """Exact dual objective of A and B, and the best feasible point near V and T."""
        RV = self.apply_prior(self.next_V)
        quadratic = float(np.sum(self.next_V * RV)) + self.gamma2 * float(np.sum(self.next_T**2))
        dual = float(self.A.sum()) + float(np.sum(self.least * self.B)) - 0.5 * quadratic
        if dual > self.best_dual:
            self.best_dual, self.best_A, self.best_B = dual, self.A, self.B
        for scale in self._scales():
            self._offer_scaled(scale, scale)
        self.check()

    def offer(self, V: np.ndarray, T: np.ndarray) -> None:
        """Keep a feasible point if it is the best so far."""
        self.keep(self.objective(V, T), V, T)

    def _offer_scaled(self, of_V: float, of_T: float) -> None:
        """Offer V and T times these factors, with what slacks lack added to T: to all alike, and where few rows pay."""
        missing = self.needed(of_V) - of_T * self.xi
        T = of_T * self.T + np.maximum(np.max(missing, axis=0), 0.0) * self.lift
        if not self.bases or self._feasible(of_V, T):
            self.offer(of_V * self.V, T)
        if self.sets.intercept:
            change = np.empty((len(self.labels), len(self.T)))
            prml_raise(
                np.ascontiguousarray(missing.T),
                self.labels,
                self.sets.on.indptr,
                self.sets.on.indices,
                np.ascontiguousarray(self.lift.T),
                np.ascontiguousarray(self.price.T),
                change,
            )
            self.offer(of_V * self.V, of_T * self.T + change.T)

    def keep(self, primal: float, V: np.ndarray, T: np.ndarray) -> None:
        """The same, with its objective."""
        if primal < self.best_primal:
            self.best_primal, self.best_V, self.best_T = primal, V, T
        self.check()

    def check(self) -> None:
        """Whether the gap is small enough."""
        gap = self.best_primal - self.best_dual
        self.done = bool(np.isfinite(gap)) and gap <= self.allowed()

    def allowed(self) -> float:
        """What the gap may be."""
        return self.share * tolerance(self.tol, self.best_primal) + self.allowance

    def objective(self, V: np.ndarray, T: np.ndarray) -> float:
        """P(V, T) of these labels."""
        quadratic = float(np.sum(V * self.apply_prior(V))) + self.gamma2 * float(np.sum(T * T))
        return 0.5 * quadratic + float(np.sum(self.linear * T))

    def needed(self, scale: float) -> np.ndarray:
        """Slack that every set needs when the margins are scaled."""
        hinge = self.sets.largest_by_set(np.where(self.there, 1.0 - scale * self.margins, -np.inf))
        return np.maximum(hinge, np.where(self.set_there, self.least, -np.inf))

    def _scales(self) -> list[float]:
        """Factors of V and T that can make them feasible cheaply: 1, and those that cure the margins of some labels."""
        negative = np.where(self.set_there, self.least - self.xi, 0.0).max(axis=0).clip(min=0.0)
        hinge = self.needed(1.0) - self.xi - negative
        short = np.max(hinge, axis=0).clip(min=0.0)
        shares = np.unique(np.quantile(short, [0.5, 0.9, 1.0]))
        return [1.0, *(1.0 / (1.0 - share) for share in shares if 0.0 < share < 0.9)]

    def _feasible(self, scale: float, T: np.ndarray) -> bool:
        """Whether every constraint holds up to rounding: a lift need not reach all slacks in the literal form."""
        lacking = np.max(self.needed(scale) - self.sets.slack(T, self.labels))
        return bool(lacking <= 1e-12 * (1.0 + float(np.max(np.abs(self.margins)))))


def _zero_of(derivative: Callable[[float], float]) -> float:
    """Length t > 0 at which an increasing function that is negative at 0 has a tenth of its first size, or less."""
    first, t = derivative(0.0), 1.0
    if not first < 0.0:
        return 0.0
    value = derivative(t)
    low, low_value, high, high_value = 0.0, first, t, value
    while value < _LINE_SEARCH * first and t < 1e6:
        low, low_value = t, value
        t *= 2.0
        value = derivative(t)
        high, high_value = t, value
    for _ in range(30):
        if abs(value) <= -_LINE_SEARCH * first or high_value <= low_value:  # or nothing but rounding is left
            break
        share = min(max(-low_value / (high_value - low_value), 0.1), 0.9)
        t = low + share * (high - low)
        value = derivative(t)
        if value < 0.0:
            low, low_value = t, value
        else:
            high, high_value = t, value
    return t
