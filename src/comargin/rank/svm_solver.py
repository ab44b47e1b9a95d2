r"""Rank-SVM with free biases, by the proximal point method: every step is smooth and solved by Newton's method.

Around dual variables a and biases c, one step solves

    min_{w, b}  1/2 ||w||^2 + 1/(2 tau) ||b - c||^2 + sum_i sum_mn h_imn(1 - f_m(x_i) + f_n(x_i)),
    h_imn(s) = max_{0 <= x <= C_i} x s - (x - a_imn)^2 / (2 t C_i)

whose maximisers x and biases b are the next a and c. The penalty on b makes it the weight of a constant feature: the
kernel is K + tau, and sum_i beta_ki, the violation of the dual's equality constraints, is (b - c) / tau. Steps grow as
long as Newton's method is fast. A small flow between labels makes the constraints exact, so that the dual value is a
bound.
"""

import math
from dataclasses import dataclass

import numpy as np

from ..core.loop import ROUNDING, Control, average_rounding, run_loop
from ..core.result import Result
from ._loops_svm import (
    rank_hinge,
    rank_svm_coefficients,
    rank_svm_curvature,
    rank_svm_room,
    rank_svm_shift,
    rank_svm_terms,
)
from ._newton import newton_step
from ._products import KernelProducts
from .problem import RankProblem


@dataclass(frozen=True)
class ProximalPolicy:
    """Tuned numbers of the proximal steps."""

    inner: float = 0.003  # accuracy of the smooth problem, as a part of the cost of smoothing
    innermost: float = 3e-6  # the same after refinements: a tenth each time that idle rows still matter
    refinements: int = 8  # number of refinements after which idle rows may keep their coefficients
    newton_steps: int = 40  # more of them are a failure: the centre stays, and the step shrinks to a tenth
    few: int = 6  # Newton steps up to which the next proximal step grows by ``growth``
    growth: float = 4.0
    longest: float = 1e6  # longest step of the dual variables
    longest_bias: float = 16.0  # longest step of the biases; 1e6: 1.6 times the Newton steps on scene at C = 1000
    imbalance: float = (
        10.0  # violated constraints over the rest of the gap from which biases may take ``longest`` steps
    )
    patience: int = 20  # steps without any gain that end a fit
    first: float = 100.0  # largest change of scores by the first step; any change: twice the Newton steps on yeast
    nothing: float = 1e-10  # part of their bound below which variables are zero, up to rounding


POLICY = ProximalPolicy()


@dataclass(frozen=True)
class RankDual:
    """A solution: dual variables over C_i, in the order of ``_loops_svm.py``, and biases of mean zero."""

    alpha: np.ndarray
    bias: np.ndarray


class SmoothedHinge:
    """The sum of all h_imn: ``centre`` holds their a, ``length`` their t, ``x`` the maximisers."""

    def __init__(self, problem: RankProblem) -> None:
        order, n_relevant, n_known = problem.labels()
        begin = np.concatenate([[0], np.cumsum(n_relevant.astype(np.int64) * (n_known - n_relevant))])
        self.pairs = (order, n_relevant, n_known, begin)
        self.cost = problem.cost
        self.cost_of_pair = np.repeat(problem.cost, np.diff(begin))
        self.centre, self.x = np.zeros(begin[-1]), np.zeros(begin[-1])
        self.beta: np.ndarray = np.empty(problem.Y.shape)
        self.length = 1.0
        self.excess = 0.0

    def evaluate(self, F: np.ndarray) -> None:
        """Set x, ``beta``, Eq. (21), and ``excess``, the cost of smoothing."""
        self.excess = rank_svm_terms(F, *self.pairs, self.cost, self.length, self.centre, self.x, self.beta)

    def curvature(self, V: np.ndarray) -> np.ndarray:
        out = np.empty(V.shape)
        rank_svm_curvature(V, *self.pairs, self.cost, self.length, self.x, out)
        return out

    def balanced(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Dual variables near x with sum_i beta_ki = 0 exactly, and their beta; None when x is too far from any."""
        x, beta = self.x.copy(), np.empty_like(self.beta)
        n_labels = self.beta.shape[-1]
        room = np.empty((n_labels, n_labels))
        for _ in range(3):  # the second and third round correct rounding
            rank_svm_coefficients(x, *self.pairs, beta)
            rank_svm_room(x, *self.pairs, self.cost, room)
            # A flow between labels through the variables that can move: potentials y with
            # sum_n flow_kn - sum_m flow_mk = -sum_i beta_ki, flow_mn = room_mn (y_m - y_n).
            both = room + room.T
            y = -np.linalg.lstsq(np.diag(both.sum(axis=1)) - both, beta.sum(axis=0), rcond=None)[0]
            part = y[:, None] - y[None, :]
            if np.abs(part[room > 0.0]).max(initial=0.0) > 1.0:
                return None
            rank_svm_shift(x, *self.pairs, self.cost, np.clip(part, -1.0, 1.0))
        rank_svm_coefficients(x, *self.pairs, beta)
        if np.abs(beta.sum(axis=0)).max() > 16 * ROUNDING * np.abs(beta).sum():
            return None
        return x, beta


@dataclass
class BestPair:
    """The best primal point and the best dual point so far; D is 0 at x = 0."""

    coef: np.ndarray
    bias: np.ndarray
    x: np.ndarray
    primal: float = math.inf
    dual: float = 0.0


class ProximalPoint:
    """The iterate, coefficients of the weights and biases, with its scores and gradient; and the best pair so far."""

    def __init__(self, problem: RankProblem, products: KernelProducts, tol: float, start: RankDual | None) -> None:
        self.products, self.tol = products, tol
        self.loss = loss = SmoothedHinge(problem)
        if start is not None:
            loss.centre = start.alpha * loss.cost_of_pair
        rank_svm_coefficients(loss.centre, *loss.pairs, loss.beta)
        self.coef = loss.beta.copy()
        self.bias = np.zeros(problem.Y.shape[1]) if start is None else start.bias
        scale = float(np.mean(products.diagonal))
        # Biases count like a feature of the size of the others, but they must be able to move by 1.
        self.tau = self.first_tau = max(scale, 1.0 / float(loss.cost_of_pair.sum()))
        if scale > 0.0:
            # Long enough for x to cross its box at a shortfall of 1, unless scores would change too much then.
            loss.length = min(1.0, POLICY.first / (scale * float(loss.cost.max())))
        self.best = BestPair(np.zeros(problem.Y.shape), np.zeros(problem.Y.shape[1]), np.zeros_like(loss.x))
        self.refinements = 0
        self._evaluate()

    def _times(self, V: np.ndarray) -> np.ndarray:
        """(K + tau) V."""
        return self.products.times(V) + self.tau * V.sum(axis=0)

    def _evaluate(self) -> None:
        """Scores, maximisers and gradient at the current coefficients."""
        loss = self.loss
        self.F = self._times(self.coef) + self.bias
        loss.evaluate(self.F)
        self.residual = self.coef - loss.beta
        self.image = self._times(self.residual)
        self.square = max(float(np.vdot(self.residual, self.image)), 0.0)

    def certify(self) -> tuple[float, float]:
        """The best primal and dual objective so far."""
        if math.isinf(self.best.primal):
            self._update_best()
        return self.best.primal, self.best.dual

    def _update_best(self) -> None:
        """Compare the current point with the best ones so far."""
        best = self.best
        coef, bias, primal = self._without_idle_rows()
        if primal < best.primal:
            best.primal, best.coef, best.bias = primal, coef, bias - bias.mean()
        balanced = self.loss.balanced()
        if balanced is not None:
            x, beta = balanced
            squares = np.vecdot(beta.T, self.products.times(beta).T)
            dual = float(x.sum()) - 0.5 * float(squares.sum())  # Eq. (19)
            dual -= average_rounding(np.sqrt(self.products.diagonal), np.abs(beta), 1.0, squares)
            if dual > best.dual:
                best.dual, best.x = dual, x

    def _without_idle_rows(self) -> tuple[np.ndarray, np.ndarray, float]:
        """Coefficients, biases and the primal objective of the current point.

        Newton's weights are much better than those of the dual variables. Idle rows, whose variables are all zero, have
        no part in the optimum; without them the weights are as good once the smooth problem is solved well enough.
        """
        loss = self.loss
        bias = self.bias + self.tau * self.coef.sum(axis=0)
        coef, primal = self.coef, self._primal(self.coef, bias)
        positive = loss.x > POLICY.nothing * loss.cost_of_pair
        support = np.diff(np.concatenate([[0], np.cumsum(positive)])[loss.pairs[-1]]) > 0
        if not support.all():
            sparse = np.where(support[:, None], self.coef, 0.0)
            value = self._primal(sparse, bias)
            good = value <= (1.0 + 0.1 * self.tol) * primal
            if not good:
                self.refinements += 1
            if good or self.refinements <= POLICY.refinements:
                coef, primal = sparse, value
        if 0.0 < primal < POLICY.nothing * float(loss.cost_of_pair.sum()):
            # If biases alone, a little enlarged, rank all labels right, the optimum is 0.
            alone = np.zeros_like(coef), (1.0 + 1e-3) * bias
            if self._primal(*alone) == 0.0:
                return *alone, 0.0
        return coef, bias, primal

    def _primal(self, coef: np.ndarray, bias: np.ndarray) -> float:
        scores = self.products.times(coef)
        loss = rank_hinge(scores + bias, *self.loss.pairs[:-1], self.loss.cost)
        return 0.5 * float(np.vdot(coef, scores)) + loss  # Eq. (18)

    def step(self) -> float:
        """Solve the smooth problem and take its solution as the next centre; returns an estimate of the gap."""
        loss = self.loss

        def rough_product(V: np.ndarray) -> np.ndarray:
            return self.products.roughly(V) + self.tau * V.sum(axis=0)

        # P - D is 1/2 ||gradient||^2 plus the cost of smoothing, up to the biases' part.
        goal = 0.1 * self.tol * abs(self.best.dual)
        gain, n_steps = math.inf, 0
        part = max(POLICY.inner * 0.1**self.refinements, POLICY.innermost)
        while 0.5 * self.square > part * max(loss.excess, goal) and n_steps < POLICY.newton_steps:
            before = self.square
            self.coef = newton_step(loss, rough_product, self.coef, self.F, self.residual, self.image, gain)
            self._evaluate()
            gain = math.sqrt(self.square / before)
            n_steps += 1
        estimate = 0.5 * self.square + loss.excess
        self._update_best()
        if n_steps < POLICY.newton_steps:
            self.bias = self.bias + self.tau * self.coef.sum(axis=0)
            loss.centre = loss.x.copy()
        if n_steps <= POLICY.few:
            self._stretch(POLICY.growth)
        elif n_steps == POLICY.newton_steps:
            self._stretch(0.1)
        self._evaluate()
        return estimate

    def _stretch(self, factor: float) -> None:
        """Multiply the lengths of the next steps by ``factor``, within their limits."""
        left = abs(float(self.bias @ self.loss.beta.sum(axis=0)))
        bias_counts = left > POLICY.imbalance * (self.square + self.loss.excess)
        limit = POLICY.longest if bias_counts else POLICY.longest_bias
        self.loss.length = min(factor * self.loss.length, POLICY.longest)
        self.tau = min(max(factor * self.tau, self.first_tau), limit * self.first_tau)


def solve_rank_svm(
    problem: RankProblem, products: KernelProducts, control: Control, *, start: RankDual | None = None
) -> tuple[Result, np.ndarray]:
    """Minimise P(w, b); returns the result and the biases, of mean zero.

    An iteration is a proximal step. ``start`` is ``dual_coef`` of another solve, perhaps with other costs. ``coef`` of
    the result is beta^T, which with the biases gives the scores f_k(x) = sum_i beta_ki K(x, x_i) + b_k, Eq. (27).
    """
    n_samples, n_labels = problem.Y.shape
    if start is not None and len(start.alpha) != problem.n_pairs:
        raise ValueError(
            "warm_start=True continues on the same rows of positive weight and the same labels: the fit before had "
            f"{len(start.alpha)} pairs of labels to rank, now there are {problem.n_pairs}. Clone the estimator"
        )
    peeled = _peel(problem)
    one_sided = [label for label, _ in peeled]
    inner = np.setdiff1d(np.arange(n_labels), one_sided)
    inside = _pairs_among(problem, inner)
    coef, bias, alpha = np.zeros((n_samples, n_labels)), np.zeros(n_labels), np.zeros(problem.n_pairs)
    low = high = 0.0
    if len(inner):
        part = None if start is None else RankDual(start.alpha[inside], start.bias[inner])
        state = ProximalPoint(problem.at(inner), products, control.tol, part)

        def kept() -> RankDual:
            alpha[inside], bias[inner] = state.best.x / state.loss.cost_of_pair, state.best.bias
            return RankDual(alpha.copy(), bias.copy())

        status, history, tol_abs = run_loop(
            state.step, state.certify, control, check_every=1, patience=POLICY.patience, state=kept
        )
        kept()
        coef[:, inner] = state.best.coef
        scores = products.times(coef)[:, inner] + bias[inner]
        low, high = float(scores.min()), float(scores.max())
    else:  # biases alone rank all labels right
        status, history, tol_abs = run_loop(lambda: 0.0, lambda: (0.0, 0.0), control)
    for label, on in reversed(peeled):  # from the inside out
        bias[label] = high + 1.0 if on else low - 1.0
        low, high = min(low, bias[label]), max(high, bias[label])
    if one_sided:
        bias -= bias.mean()
    return Result(coef.T, RankDual(alpha, bias), history, tol_abs, status), bias


def _pairs_among(problem: RankProblem, labels: np.ndarray) -> np.ndarray | slice:
    """Select the pairs whose two labels are both among ``labels``."""
    n_labels = problem.Y.shape[1]
    if len(labels) == n_labels:
        return slice(None)
    chosen, rows = np.isin(np.arange(n_labels), labels), zip(problem.Y.astype(bool), problem.off, strict=True)
    return np.concatenate([np.outer(chosen[on], chosen[off]).ravel() for on, off in rows])


def _peel(problem: RankProblem) -> list[tuple[int, bool]]:
    """One-sided labels, on (True) or off (False) in every row with a pair of the labels left, in order of removal.

    All pairs of a label that is never on want it lower, and sum_i beta_ki = 0 makes their variables zero: the label has
    no weights, and a bias low enough gives all of them their margin. Without it other labels may become one-sided.
    """
    on, off = problem.Y.astype(bool), problem.off
    left: np.ndarray = np.ones(on.shape[1], dtype=bool)
    peeled: list[tuple[int, bool]] = []
    while left.any():
        rows = on[:, left].any(axis=1) & off[:, left].any(axis=1)
        always, never = left & ~off[rows].any(axis=0), left & ~on[rows].any(axis=0)
        if not (always | never).any():
            break
        # A label without pairs is both: any order is right, but one that is never known to be on belongs below.
        always &= on.any(axis=0)
        peeled += [(int(label), bool(always[label])) for label in np.flatnonzero(always | never)]
        left &= ~(always | never)
    return peeled
