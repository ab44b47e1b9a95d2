r"""SVM+ steps by the method of multipliers with Newton steps.

The slack of an SVM+ is linear in few weights T, and its cost n times larger than what regularises them: the T-part is
almost a linear program, on which coordinate descent creeps. The method of multipliers (Rockafellar, 1976) does not
mind. With A, B >= 0 the multipliers and sigma the penalty it minimises over (V, T)

.. math:: \tfrac12 \operatorname{tr}(V R V^\top) + \tfrac{\gamma_2}2 \|T\|^2 + \sum C \xi
    + \tfrac1{2\sigma} \big(\|[A + \sigma (1 - M - \xi)]_+\|^2 + \|[B - \sigma \xi]_+\|^2\big),
    \qquad M = S \circ (X V R)

and takes the two brackets as the next A and B.
The function is convex, piecewise quadratic: Newton steps with an exact line search end after a few changes of the
active constraints. Labels that R does not couple are solved on their own; coupled ones together (``_coupled.py``). The
penalties grow with every update, and are lowered when an update is not solved and gains nothing.

The certificate: D(A, B) is a lower bound for any A, B >= 0. (V, T) becomes feasible by raising the privileged
constant.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

from ..core.loop import ROUNDING, average_rounding, tolerance
from ._coupled import coupled_directly
from ._system import Features, LabelSystem, Run, privileged_gram
from .problem import SlackDual, SVMPlusProblem


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


POLICY = MultiplierPolicy()


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


class Brackets(NamedTuple):
    """The next multipliers, before they are cut at zero and after, and the weights that belong to them."""

    margin_bracket: np.ndarray
    slack_bracket: np.ndarray
    A: np.ndarray
    B: np.ndarray
    V: np.ndarray
    T: np.ndarray


class StepBlock:
    """Labels of a step that are solved together, all of ``problem``, on the way to their solution.

    ``features`` are those of the problem, ``start`` has the columns of these labels.
    """

    def __init__(self, problem: SVMPlusProblem, features: Features, tol: float, start: SlackDual) -> None:
        self.problem, self.features, self.sets, self.tol = problem, features, problem.privileged, tol
        A, B = np.where(problem.there, start.A, 0.0), np.where(problem.set_there, start.B, 0.0)
        V, T = self._weights_of(A, B)
        first, self.largest_penalty = self._penalties()
        self.at = Iterate(A, B, V, T, *self._seen_at(V, T), first)
        self.best = Best(V, T, A, B)
        self.certify(V, T)
        self._offer_raised(0.0)  # a T whose sums A + B are far from the cost is worse than none

    def _penalties(self) -> tuple[np.ndarray, np.ndarray]:
        """The first and the largest, by the squared lengths of the constraints in units of what regularises."""
        problem = self.problem
        slack = (np.count_nonzero(self.sets.used[:, problem.labels], axis=0) + 1.0) / problem.gamma2
        lengths = np.asarray(float(np.mean(self.features.sqnorm)) * problem.prior.diagonal + slack)
        mean = problem.cost.sum(axis=0) / np.maximum(problem.there.sum(axis=0), 1)
        unit = (POLICY.first_coupled if problem.is_coupled else POLICY.first_penalty) / lengths
        largest = POLICY.largest_penalty / lengths
        return np.minimum(np.where(mean > 0.0, mean, 1.0) * unit, largest), largest

    def _weights_of(self, A: np.ndarray, B: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """V and T that belong to the dual variables."""
        V = self.features.average(self.problem.S * A)  # Eqs. (8), (12)
        return V, self.problem.privileged_weights(SlackDual(A, B))

    def _seen_at(self, V: np.ndarray, T: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Margins and slacks, computed anew, so that rounding of the updates does not add up."""
        problem = self.problem
        return problem.S * self.features.scores(problem.weights(V)), self.sets.slack(T, problem.labels)

    def stand_at(self, A: np.ndarray, B: np.ndarray, V: np.ndarray | None = None, T: np.ndarray | None = None) -> None:
        """Go to these multipliers, and to these weights if there are better ones than those that belong to them."""
        at = self.at
        at.A, at.B = A, B
        dual_V, dual_T = self._weights_of(A, B)
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
            gV, gT = at.V - brackets.V, self.problem.gamma2 * (at.T - brackets.T)
            left = self.problem.half_norm(gV, gT / self.problem.gamma2)
            solved = newton > 0 and left <= enough
            if solved or newton == POLICY.most_newton or not self._newton_step(brackets, gV, gT, run):
                break
        before = at.A, at.B, best.dual
        at.A, at.B = brackets.A, brackets.B
        at.margins, at.xi = self._seen_at(at.V, at.T)
        self.certify(brackets.V, brackets.T)
        if solved or best.dual > before[2]:
            at.sigma = np.minimum(POLICY.growth * at.sigma, self.largest_penalty)
        else:  # too hard with this penalty: the multipliers stay
            at.A, at.B = before[:2]
            at.sigma = at.sigma / POLICY.shrink

    def _brackets(self) -> Brackets:
        at, problem = self.at, self.problem
        ahead = at.A + at.sigma * (1.0 - at.margins - at.xi[self.sets.row_set])
        margin_bracket = np.where(problem.there, ahead, -np.inf)
        slack_bracket = np.where(problem.set_there, at.B - at.sigma * at.xi, -np.inf)
        A, B = np.maximum(margin_bracket, 0.0), np.maximum(slack_bracket, 0.0)
        return Brackets(margin_bracket, slack_bracket, A, B, *self._weights_of(A, B))

    def _newton_step(self, brackets: Brackets, gV: np.ndarray, gT: np.ndarray, run: Run) -> bool:
        """Move V and T along the Newton direction; returns whether they moved."""
        at, problem = self.at, self.problem
        dV, dT = self._direction(brackets, gV, gT, run)
        RdV = problem.weights(dV)
        d_margins, d_xi = self._seen_at(dV, dT)
        dA, dB = at.sigma * (d_margins + d_xi[self.sets.row_set]), at.sigma * d_xi
        constant = float(np.sum(at.V * RdV)) + problem.gamma2 * float(np.sum(at.T * dT))
        constant += float(np.sum(problem.set_cost * d_xi))
        slope = 2.0 * problem.half_norm(dV, dT)

        def derivative(t: float) -> float:
            """Of the function along the direction, at length t."""
            ahead = np.einsum("ij,ij->j", np.maximum(brackets.margin_bracket - t * dA, 0.0), dA)
            ahead += np.einsum("ij,ij->j", np.maximum(brackets.slack_bracket - t * dB, 0.0), dB)
            return constant + t * slope - float(np.sum(ahead / at.sigma))

        length = _zero_of(derivative)
        if length == 0.0:
            return False
        at.V, at.T = at.V + length * dV, at.T + length * dT
        at.margins, at.xi = at.margins + length * d_margins, at.xi + length * d_xi
        return True

    def _direction(self, brackets: Brackets, gV: np.ndarray, gT: np.ndarray, run: Run) -> tuple[np.ndarray, np.ndarray]:
        r"""The Newton direction, through z = sigma (dM + dxi) on the active rows.

        .. math:: dV = -g_V - X^\top (S \circ z), \quad (\gamma_2 + \sigma U_b^\top U_b)\, dt = -g_t - U^\top z, \quad
            z / \sigma = S \circ (X\, dV R) + U dt
        """
        problem, features, labels = self.problem, self.features, self.problem.labels
        systems = list(run(partial(self._system, brackets), range(len(labels))))
        grads = [-self.sets.to_label(label, column) for label, column in zip(labels, gT.T, strict=True)]
        if problem.is_coupled:
            solved = coupled_directly(features, problem.prior, systems, gV, grads, run)
        else:
            list(run(partial(LabelSystem.factorise, features=features), systems))
            right = -problem.S * features.scores(problem.weights(gV))
            rights = [right[system.rows, k] for k, system in enumerate(systems)]
            solved = list(run(LabelSystem.solve, systems, rights, grads))
        spread, dT = np.zeros(problem.S.shape), np.zeros(gT.shape)
        for k, (system, (z, t)) in enumerate(zip(systems, solved, strict=True)):
            spread[system.rows, k] = z
            dT[:, k] = self.sets.of_label(labels[k], t)
        return -gV - features.average(problem.S * spread), dT

    def _system(self, brackets: Brackets, k: int) -> LabelSystem:
        """The Newton system of the k-th label."""
        problem, sigma, label = self.problem, float(self.at.sigma[k]), int(self.problem.labels[k])
        rows = np.flatnonzero(brackets.A[:, k] > 0.0)
        U = self.sets.features(label, self.sets.row_set[rows])
        active = np.where(brackets.B[:, k] > 0.0, sigma, 0.0)
        H = privileged_gram(self.sets, label, active, problem.gamma2)
        return LabelSystem(rows, problem.S[rows, k].astype(np.float64), U, H, float(problem.prior.diagonal[k]), sigma)

    # ---- certificate

    def certify(self, dual_V: np.ndarray, dual_T: np.ndarray) -> None:
        """Exact dual objective of A and B, whose weights are given, and the best feasible point near V and T."""
        at, best, prior = self.at, self.best, self.problem.prior
        dual = float(at.A.sum()) - self.problem.half_norm(dual_V, dual_T)  # Eqs. (7), (11)
        squares = np.sum(dual_V * self.problem.weights(dual_V))
        dual -= average_rounding(np.sqrt(self.features.sqnorm), at.A, prior.diagonal, squares)
        if dual > best.dual:
            best.dual, best.A, best.B = dual, at.A, at.B
        self._offer_raised(1.0)

    def offer(self, V: np.ndarray, T: np.ndarray, primal: float | None = None) -> None:
        """Keep a feasible point if it is the best so far."""
        primal = self.problem.primal(V, T) if primal is None else primal
        if primal < self.best.primal:
            self.best.primal, self.best.V, self.best.T = primal, V, T

    def _offer_raised(self, of_T: float) -> None:
        """Offer V and ``of_T`` T, with what slacks lack added to T."""
        at, labels = self.at, self.problem.labels
        assert self.sets.lift is not None
        needed = self.problem.needed(at.margins)
        T = of_T * at.T + np.maximum(np.max(needed - of_T * at.xi, axis=0), 0.0) * self.sets.lift[:, labels]
        # In the literal form a lift need not reach all slacks: constraints have to hold up to rounding.
        rounding = 100.0 * ROUNDING * (1.0 + float(np.max(np.abs(at.margins))))
        if not self.sets.bases or np.max(needed - self.sets.slack(T, labels)) <= rounding:
            self.offer(at.V, T)

    @property
    def done(self) -> bool:
        """Whether the gap is small enough."""
        return bool(np.isfinite(self.best.gap)) and self.best.gap <= self.allowed()

    def allowed(self) -> float:
        """What the gap may be: below the tolerance, so that sums over blocks meet theirs in spite of rounding."""
        return 0.9 * tolerance(self.tol, self.best.primal)


def _zero_of(derivative: Callable[[float], float]) -> float:
    """Length t > 0 at which an increasing function that is negative at 0 is nearly zero; 0 if it is not negative."""
    first, t = derivative(0.0), 1.0
    if not first < 0.0:
        return 0.0
    while (value := derivative(t)) < POLICY.line_search * first and t < 1e6:
        t *= 2.0
    if value <= -POLICY.line_search * first:
        return t
    return float(brentq(derivative, 0.0, t, rtol=0.1 * POLICY.line_search))
