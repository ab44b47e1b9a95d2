r"""SVM+ steps by the method of multipliers with Newton steps.

The slack of an SVM+ is linear in few weights T, and its cost n times larger than what regularises them: the T-part is
almost a linear program, on which coordinate descent creeps. The method of multipliers (Rockafellar, 1976) does not
mind. With A, B >= 0 the multipliers and sigma the penalty it minimises over (V, T)

.. math:: \tfrac12 \operatorname{tr}(V R V^\top) + \tfrac{\gamma_2}2 \|T\|^2 + \sum C \xi
    + \tfrac1{2\sigma} \|[A + \sigma (1 - M - \xi)]_+\|^2 + \tfrac1{2\tau} \|[B - \tau \xi]_+\|^2,
    \qquad M = S \circ (X V R)

(tau is sigma in the ratio of the lengths of both kinds of constraints) and takes the two brackets as the next A and B.
The function is convex, piecewise quadratic: Newton steps with an exact line search end after a few changes of the
active constraints. Labels that R does not couple are solved on their own; coupled ones together (``_coupled.py``). The
penalties grow with every update, and are lowered when an update is not solved and gains nothing.

The certificate: D(A, B) is a lower bound for any A, B >= 0. (V, T) becomes feasible by raising the privileged
constant, or labels that are on in the rows that need it, or by scaling margins and slacks up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np

from ..core.loop import ROUNDING, tolerance
from ._block import Best, BlockData, Iterate
from ._coupled import coupled_directly
from ._loops import raise_slacks
from ._system import LabelSystem, Run, privileged_gram
from .problem import SlackDual


@dataclass(frozen=True)
class MultiplierPolicy:
    """Tuned numbers of the method of multipliers; Newton steps counted on enron, emotions and cal500, C = 0.01 to 1."""

    # First penalty, in units of cost over the squared length of a constraint: larger is fewer, harder updates. A fourth
    # takes 0.8 to 1.1 times as many steps, four times as much up to 1.6 times (cal500).
    first_penalty: float = 10_000.0
    first_coupled: float = 100.0
    growth: float = 2.0  # 4 takes up to 1.1 times as many steps, 8 up to 1.3 times
    # In units of one over the squared length of a constraint; beyond, Newton systems are rounding.
    largest_penalty: float = 1e10
    shrink: float = 16.0
    most_newton: int = 50
    # Newton steps end when the possible gain is below inner * tolerance, or below inner^2 * gap; 0.2 changes nothing.
    inner: float = 0.1
    line_search: float = 0.3  # share of the first slope at which a line search ends; 0.1 saves 2 % of the steps
    # Scales that are tried for a feasible point, as shares of what margins lack.
    shares: tuple[float, ...] = (0.3, 1.0)


POLICY = MultiplierPolicy()


class Brackets(NamedTuple):
    """The next multipliers, before they are cut at zero and after, and the weights that belong to them."""

    margin_bracket: np.ndarray
    slack_bracket: np.ndarray
    A: np.ndarray
    B: np.ndarray
    V: np.ndarray
    T: np.ndarray


class StepBlock:
    """Some labels of a step on the way to their solution.

    ``start`` has the columns of these labels. The gap may be ``share`` of the tolerance of these labels and
    ``allowance`` beside it: a hair below the tolerance, so that sums meet it in spite of rounding.
    """

    def __init__(
        self,
        data: BlockData,
        tol: float,
        start: SlackDual,
        penalty: np.ndarray | None = None,
        allowance: float = 0.0,
    ) -> None:
        self.data, self.tol, self.share, self.allowance = data, tol, 0.9, allowance
        A, B = np.where(data.there, start.A, 0.0), np.where(data.set_there, start.B, 0.0)
        V, T = data.weights_of(A, B)
        self.at = Iterate(A, B, V, T, *self._seen_at(V, T), _first_penalty(data, penalty))
        self.best, self.done = Best(V, T, A, B), False
        self.certify(V, T)
        self._offer_scaled(1.0, 0.0)  # a T whose sums A + B are far from the cost is worse than none

    def _seen_at(self, V: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Margins and slacks, computed anew, so that rounding of the updates does not add up."""
        data = self.data
        return data.signs * data.features.scores(data.apply_prior(V)), data.sets.slack(T, data.labels)

    def stand_at(self, A: np.ndarray, B: np.ndarray, V: np.ndarray | None = None, T: np.ndarray | None = None) -> None:
        """Go to these multipliers, and to these weights if there are better ones than those that belong to them."""
        at = self.at
        at.A, at.B = A, B
        dual_V, dual_T = self.data.weights_of(A, B)
        at.V, at.T = dual_V if V is None else V, dual_T if T is None else T
        at.margins, at.xi = self._seen_at(at.V, at.T)
        self.certify(dual_V, dual_T)

    # ---- Newton

    def advance(self, run: Run = map) -> None:
        """One update of the multipliers, after Newton steps; ``run`` maps a function over labels."""
        at, best = self.at, self.best
        enough = POLICY.inner * (POLICY.inner * abs(best.dual))
        if np.isfinite(best.gap):
            enough = POLICY.inner * max(self.allowed(), POLICY.inner * best.gap)
        for newton in range(POLICY.most_newton + 1):
            brackets = self._brackets()
            gV, gT = at.V - brackets.V, self.data.problem.gamma2 * (at.T - brackets.T)
            left = self.data.half_norm(gV, gT / self.data.problem.gamma2)
            solved = newton > 0 and left <= enough
            if solved or newton == POLICY.most_newton or not self._newton_step(brackets, gV, gT, run):
                break
        before = at.A, at.B, best.dual
        at.A, at.B = brackets.A, brackets.B
        at.margins, at.xi = self._seen_at(at.V, at.T)
        self.certify(brackets.V, brackets.T)
        if solved or best.dual > before[2]:
            at.sigma = np.minimum(POLICY.growth * at.sigma, _largest_penalty(self.data))
        else:  # too hard with this penalty: the multipliers stay
            at.A, at.B = before[:2]
            at.sigma = at.sigma / POLICY.shrink

    def _brackets(self) -> Brackets:
        at, data = self.at, self.data
        margin_bracket = np.where(data.there, at.A + at.sigma * (1.0 - at.margins - at.xi[data.sets.row_set]), -np.inf)
        slack_bracket = np.where(data.set_there, at.B + data.stiffer * at.sigma * (data.least - at.xi), -np.inf)
        A, B = np.maximum(margin_bracket, 0.0), np.maximum(slack_bracket, 0.0)
        return Brackets(margin_bracket, slack_bracket, A, B, *data.weights_of(A, B))

    def _newton_step(self, brackets: Brackets, gV: np.ndarray, gT: np.ndarray, run: Run) -> bool:
        """Move V and T along the Newton direction; returns whether they moved."""
        at, data = self.at, self.data
        dV, dT = self._direction(brackets, gV, gT, run)
        RdV = data.apply_prior(dV)
        d_margins = data.signs * data.features.scores(RdV)
        d_xi = data.sets.slack(dT, data.labels)
        dA, dB = at.sigma * (d_margins + d_xi[data.sets.row_set]), data.stiffer * at.sigma * d_xi
        constant = float(np.sum(at.V * RdV)) + data.problem.gamma2 * float(np.sum(at.T * dT))
        constant += float(np.sum(data.set_cost * d_xi))
        slope = 2.0 * data.half_norm(dV, dT)

        def derivative(t: float) -> float:
            """Of the function along the direction, at length t."""
            ahead = np.einsum("ij,ij->j", np.maximum(brackets.margin_bracket - t * dA, 0.0), dA)
            ahead += np.einsum("ij,ij->j", np.maximum(brackets.slack_bracket - t * dB, 0.0), dB) / data.stiffer
            return constant + t * slope - float(np.sum(ahead / at.sigma))

        length = _zero_of(derivative)
        if length == 0.0:
            return False
        at.V, at.T = at.V + length * dV, at.T + length * dT
        at.margins, at.xi = at.margins + length * d_margins, at.xi + length * d_xi
        return True

    def _direction(self, brackets: Brackets, gV: np.ndarray, gT: np.ndarray, run: Run) -> tuple[np.ndarray, np.ndarray]:
        r"""The Newton direction, through z = sigma (dM + dxi) on the active rows.

        .. math:: dV = -g_V - X^\top (S \circ z), \quad (\gamma_2 + \tau U_b^\top U_b)\, dt = -g_t - U^\top z, \quad
            z / \sigma = S \circ (X\, dV R) + U dt
        """
        data, features = self.data, self.data.features
        systems = list(run(partial(self._system, brackets), range(len(data.labels))))
        grads = []
        for k, label in enumerate(data.labels):
            column = -gT[data.sets.columns(int(label)), k]
            grads.append(data.bases[k].T @ column if k in data.bases else column)
        if data.is_coupled:
            solved = coupled_directly(features, data.problem.prior, systems, gV, grads, run)
        else:
            list(run(partial(LabelSystem.factorise, features=features), systems))
            right = -data.signs * features.scores(data.apply_prior(gV))
            rights = [right[system.rows, k] for k, system in enumerate(systems)]
            solved = list(run(LabelSystem.solve, systems, rights, grads))
        spread, dT = np.zeros(data.signs.shape), np.zeros(gT.shape)
        for k, (system, (z, t)) in enumerate(zip(systems, solved, strict=True)):
            spread[system.rows, k] = z
            dT[data.sets.columns(int(data.labels[k])), k] = data.bases[k] @ t if k in data.bases else t
        return -gV - features.average(data.signs * spread), dT

    def _system(self, brackets: Brackets, k: int) -> LabelSystem:
        """The Newton system of the k-th label."""
        data, sigma = self.data, float(self.at.sigma[k])
        label, basis = int(data.labels[k]), data.bases.get(k)
        rows = np.flatnonzero(brackets.A[:, k] > 0.0)
        U = data.sets.features(label, data.sets.row_set[rows])
        H = privileged_gram(data.sets, label, np.where(brackets.B[:, k] > 0.0, data.stiffer[k] * sigma, 0.0))
        if basis is not None:
            U, H = U @ basis, basis.T @ H @ basis
        H.flat[:: len(H) + 1] += data.problem.gamma2
        return LabelSystem(rows, data.signs[rows, k].astype(np.float64), U, H, float(data.r[k]), sigma)

    # ---- certificate

    def certify(self, dual_V: np.ndarray, dual_T: np.ndarray) -> None:
        """Exact dual objective of A and B, whose weights are given, and the best feasible point near V and T."""
        at, best = self.at, self.best
        dual = self.data.dual(at.A, at.B, dual_V, dual_T)
        if dual > best.dual:
            best.dual, best.A, best.B = dual, at.A, at.B
        for scale in self._scales():
            self._offer_scaled(scale, scale)
        self.check()

    def offer(self, V: np.ndarray, T: np.ndarray, primal: float | None = None) -> None:
        """Keep a feasible point if it is the best so far."""
        primal = self.data.primal(V, T) if primal is None else primal
        if primal < self.best.primal:
            self.best.primal, self.best.V, self.best.T = primal, V, T
        self.check()

    def _offer_scaled(self, of_V: float, of_T: float) -> None:
        """Offer V and T times these factors, with what slacks lack added to T: to all alike, and where few rows pay."""
        at, data = self.at, self.data
        missing = self.needed(of_V) - of_T * at.xi
        T = of_T * at.T + np.maximum(np.max(missing, axis=0), 0.0) * data.lift
        if not data.bases or self._is_feasible(of_V, T):
            self.offer(of_V * at.V, T)
        if data.sets.intercept:
            change = np.empty((len(data.labels), len(at.T)))
            lacking, lift, price = (np.ascontiguousarray(array.T) for array in (missing, data.lift, data.price))
            on = data.sets.on
            raise_slacks(lacking, data.labels, on.indptr, on.indices, lift, price, change)
            self.offer(of_V * at.V, of_T * at.T + change.T)

    def check(self) -> None:
        """Whether the gap is small enough."""
        self.done = bool(np.isfinite(self.best.gap)) and self.best.gap <= self.allowed()

    def allowed(self) -> float:
        """What the gap may be."""
        return self.share * tolerance(self.tol, self.best.primal) + self.allowance

    def needed(self, scale: float) -> np.ndarray:
        """Slack that every set needs when the margins are scaled."""
        data = self.data
        hinge = data.sets.largest_by_set(np.where(data.there, 1.0 - scale * self.at.margins, -np.inf))
        return np.maximum(hinge, np.where(data.set_there, data.least, -np.inf))

    def _scales(self) -> list[float]:
        """Factors of V and T that can make them feasible cheaply: 1, and those that cure some of what margins lack."""
        at, data = self.at, self.data
        negative = np.where(data.set_there, data.least - at.xi, 0.0).max(axis=0).clip(min=0.0)
        short = max(float(np.max(self.needed(1.0) - at.xi - negative)), 0.0)
        return [1.0, *(1.0 / (1.0 - share * short) for share in POLICY.shares if 0.0 < share * short < 0.9)]

    def _is_feasible(self, scale: float, T: np.ndarray) -> bool:
        """Whether every constraint holds up to rounding: a lift need not reach all slacks in the literal form."""
        lacking = np.max(self.needed(scale) - self.data.sets.slack(T, self.data.labels))
        return bool(lacking <= 100.0 * ROUNDING * (1.0 + float(np.max(np.abs(self.at.margins)))))


def _first_penalty(data: BlockData, penalty: np.ndarray | None) -> np.ndarray:
    """Where sigma begins: at the given value if that is larger."""
    mean = data.cost.sum(axis=0) / np.maximum(data.there.sum(axis=0), 1)
    unit = (POLICY.first_coupled if data.is_coupled else POLICY.first_penalty) / data.lengths[0]
    first = np.minimum(np.where(mean > 0.0, mean, 1.0) * unit, _largest_penalty(data))
    return first if penalty is None else np.clip(penalty[data.labels], first, _largest_penalty(data))


def _largest_penalty(data: BlockData) -> np.ndarray:
    return POLICY.largest_penalty / data.lengths[0]


def _zero_of(derivative: Callable[[float], float]) -> float:
    """Length t > 0 at which an increasing function that is negative at 0 has a third of its first size, or less."""
    first, t = derivative(0.0), 1.0
    if not first < 0.0:
        return 0.0
    value = derivative(t)
    low, low_value, high, high_value = 0.0, first, t, value
    while value < POLICY.line_search * first and t < 1e6:
        low, low_value = t, value
        t *= 2.0
        value = derivative(t)
        high, high_value = t, value
    for _ in range(30):
        if abs(value) <= -POLICY.line_search * first or high_value <= low_value:  # or nothing but rounding is left
            break
        share = min(max(-low_value / (high_value - low_value), 0.1), 0.9)
        t = low + share * (high - low)
        value = derivative(t)
        if value < 0.0:
            low, low_value = t, value
        else:
            high, high_value = t, value
    return t
