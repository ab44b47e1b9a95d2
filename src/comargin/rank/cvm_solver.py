"""Rank-CVM: a few passes of row-block coordinate descent, then Newton's method; or coordinate descent alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.loop import ROUNDING, Control, run_loop
from ..core.result import Result
from ._loops import rank_cvm_block, rank_cvm_curvature, rank_cvm_terms, rank_lowest
from ._newton import newton_step, refined
from ._products import KernelProducts
from .problem import RankProblem, core_vector_certificate


@dataclass(frozen=True)
class CoreVectorPolicy:
    """Tuned numbers of the solver; what the sweep of each showed is in the comment."""

    passes: int = 5  # cheap passes that find most pairs that count before Newton's method; 1 to 20 take equal time
    easy_cost: float = 10.0  # C_i K_ii up to which Newton starts at once; 40: 2.5 times slower on scene at C = 1000
    raise_cost: float = 10.0  # factor between two levels of costs; 40: twice as slow there
    loose_gap: float = 0.5  # relative gap that ends a level; without effect from 0.125 to 2
    steps_per_level: int = 50  # safety cap
    newton_patience: int = 3  # Newton steps without a fall of the objective or of the gradient: rounding has won
    patience: int = 300  # iterations without any gain that end the fit


POLICY = CoreVectorPolicy()


class SquaredHinge:
    """1/2 sum_i C_i sum_mn max(0, 1 - F_im + F_in)^2, and the dual variables that scores stand for."""

    def __init__(self, problem: RankProblem) -> None:
        self.cost = problem.cost
        self.n_relevant = np.count_nonzero(problem.Y, axis=1).astype(np.int32)
        self.order = np.argsort(problem.Y == 0, axis=1, kind="stable").astype(np.int32)
        self.reach = np.empty(problem.Y.shape, dtype=np.int32)
        self.beta = np.empty(problem.Y.shape)
        self.total = self.squares = 0.0

    def evaluate(self, F: np.ndarray) -> None:
        """Set ``beta``, ``total`` = sum x and ``squares`` = sum x^2 / C_i for the x that F stands for."""
        self.total, self.squares = rank_cvm_terms(F, self.order, self.n_relevant, self.cost, self.reach, self.beta)

    def curvature(self, V: np.ndarray) -> np.ndarray:
        """D V."""
        out = np.empty(V.shape)
        rank_cvm_curvature(V, self.order, self.n_relevant, self.cost, self.reach, out)
        return out

    def certificate(self, U: np.ndarray, scores: np.ndarray) -> tuple[float, float]:
        """W and its lower bound for the x of U, which was evaluated last; ``scores`` are K beta."""
        lowest = rank_lowest(scores, U, self.order, self.n_relevant)
        return core_vector_certificate(self.total, float(np.vdot(self.beta, scores)) + self.squares, lowest)


@dataclass(frozen=True)
class BestVectors:
    """The best U so far, its W and the lower bound of the minimum."""

    objective: float
    bound: float
    U: np.ndarray

    @property
    def gap(self) -> float:
        """The Frank-Wolfe gap, Eq. (62)."""
        return self.objective - self.bound

    def is_beaten_by(self, objective: float, bound: float) -> bool:
        """Whether another point has a lower W, or near the optimum a smaller relative gap."""
        if math.isinf(self.objective):
            return True
        other, own = (objective - bound) / objective, self.gap / self.objective
        return other < own if min(other, own) < POLICY.loose_gap else objective < self.objective


class CoreVectors:
    """The iterate of both methods: U stands for x, and ``loss.beta`` are its coefficients; also the best U so far.

    ``coef`` is what the first Newton step starts from, the coefficients of U if None.
    """

    def __init__(
        self,
        problem: RankProblem,
        products: KernelProducts,
        seed: int,
        U: np.ndarray | None = None,
        coef: np.ndarray | None = None,
    ) -> None:
        self.products, self.loss = products, SquaredHinge(problem)
        self.rng = np.random.default_rng(seed)
        # Scores of 1 and 0 are exactly the margin, and x = 0: the optimum of a vanishing C.
        self.U = problem.Y.astype(np.float64) if U is None else U.copy()
        self.first_coef = coef
        # K beta, and K (coef - beta) for Newton's iterate.
        self.scores = self.image = np.empty(0)
        self.value: tuple[float, float] | None = None  # certificate of U, once it is known
        self.coef: np.ndarray | None = None  # of Newton's iterate, whose scores are U; None while passes go on
        self.length = math.inf  # of the gradient at the last Newton step
        self.primal = math.inf  # its objective, the squared hinge and the norm of the weights
        self.best = BestVectors(math.inf, -math.inf, self.U)

    def certify(self) -> tuple[float, float]:
        """W and its lower bound, exactly, for the best U so far."""
        if self.value is None:
            self.loss.evaluate(self.U)
            if self.loss.total == 0.0:
                # All pairs have their margin, so that x = 0; but a = x / sum x must be something.
                factor = (1.0 - 1e-3) / rank_lowest(self.U, self.U, self.loss.order, self.loss.n_relevant)
                self.U = factor * self.U
                self.coef = None if self.coef is None else factor * self.coef
                self.loss.evaluate(self.U)
            if self.coef is None:
                self.scores = self.products.times(self.loss.beta)
            else:  # small differences keep their digits this way round
                self.image = self.products.times(self.coef - self.loss.beta)
                self.scores = self.U - self.image
            self.value = self.loss.certificate(self.U, self.scores)
            if self.best.is_beaten_by(*self.value):
                self.best = BestVectors(*self.value, self.U.copy())
        return self.best.objective, self.best.bound

    def one_pass(self) -> float:
        """Visit all rows once, each solved exactly given the others; returns an estimate of the relative gap."""
        loss, products = self.loss, self.products
        loss.evaluate(self.U)
        self.coef = None
        products.start(loss.beta)
        lowest = np.inf
        for k in self.rng.permutation(len(products.blocks)):
            rows = products.blocks[k]
            theta = products.scores(rows)
            delta = np.empty_like(theta)
            visits = self.rng.permutation(len(theta))
            labels = (loss.order, loss.n_relevant)
            low = rank_cvm_block(
                theta, products.gram(rows), visits, rows.start, *labels, loss.cost, self.U, loss.beta, delta
            )
            products.add(rows, delta)
            lowest = min(lowest, low)
        self.value = None
        # At the optimum all gradients are at least 1, and those of pairs with x > 0 equal 1.
        return 2.0 * abs(1.0 - lowest)

    def newton(self) -> float:
        """One Newton step for the coefficients; returns the relative gap."""
        loss, products = self.loss, self.products
        self.certify()
        if self.coef is None:
            self.coef = loss.beta.copy() if self.first_coef is None else self.first_coef
            self.U, self.value = self.scores if self.first_coef is None else products.times(self.coef), None
            self.first_coef = None
            self.certify()
        residual = self.coef - loss.beta
        length = math.sqrt(max(float(np.vdot(residual, self.image)), 0.0))  # of the gradient
        gain = length / self.length if self.length > 0.0 else 1.0
        self.length = length
        self.coef = newton_step(loss, products, self.coef, self.U, residual, self.image, gain)
        self.U, self.value = products.times(self.coef), None
        relative = self.relative_gap()
        self.primal = 0.5 * float(np.vdot(self.coef, self.U)) + 0.5 * loss.squares
        return relative

    def refine(self) -> float:
        """One Newton step for U, kept if it is a gain; returns the relative gap."""
        before, U = self.relative_gap(), self.U
        self.coef, self.value = None, None
        self.U = refined(self.loss, self.products, U, self.scores)
        if not self.relative_gap() < before:
            self.U, self.value = U, None
        return self.relative_gap()

    def relative_gap(self) -> float:
        """The gap of the current U over its W."""
        self.certify()
        assert self.value is not None
        objective, bound = self.value
        return (objective - bound) / objective


def solve_rank_cvm(
    problem: RankProblem,
    products: KernelProducts,
    control: Control,
    *,
    seed: int = 0,
    start: np.ndarray | None = None,
    start_cost: np.ndarray | None = None,
    passes: int | None = POLICY.passes,
) -> Result:
    """Minimise W over the simplex.

    ``products`` are those of K with the 1 of the biases. ``start`` is ``dual_coef`` of another solve and ``start_cost``
    its costs, those of this problem if None. An iteration is a pass or a Newton step: ``passes`` passes come before
    Newton steps unless there is a start; None means no Newton steps at all.

    ``coef`` of the result is beta^T of a = x / sum(x): the scores of x are its kernel values, plus 1, times these.
    ``dual_coef`` is U, from which all x follow.
    """
    coef = None
    if start is not None and start_cost is not None:
        # The weights of that solve: U stands for other x when costs are others.
        before = SquaredHinge(RankProblem(problem.Y, start_cost))
        before.evaluate(start)
        coef = before.beta
    state = CoreVectors(problem, products, seed, start, coef)
    descent = _Descent(state, 0 if passes and start is not None else passes)
    if passes is not None and start is None:
        descent.before = lambda: _raise_costs(state, problem, seed, passes)
    status, history, tol_abs = run_loop(
        descent.step,
        state.certify,
        control,
        check_every=10 if passes is None else 1,
        patience=POLICY.patience,
        state=lambda: state.best.U,
    )
    loss = state.loss
    loss.evaluate(state.best.U)
    return Result(loss.beta.T / loss.total, state.best.U, history, tol_abs, status)


def _raise_costs(state: CoreVectors, problem: RankProblem, seed: int, passes: int) -> bool:
    """Solve the problem with lower costs, each loosely and from the weights of the one before; False if not needed.

    Where C_i K_ii is large, the first Newton steps would else undo the passes.
    """
    products = state.products
    largest = float(np.max(problem.cost * products.diagonal))
    if not POLICY.easy_cost < largest < math.inf:
        return False
    U: np.ndarray | None = None
    coef: np.ndarray | None = None
    for level in range(math.ceil(math.log(largest / POLICY.easy_cost, POLICY.raise_cost)), 0, -1):
        lower = RankProblem(problem.Y, problem.cost / POLICY.raise_cost**level)
        easier = CoreVectors(lower, products, seed, U, coef)
        descent = _Descent(easier, passes if U is None else 0)
        for _ in range(POLICY.steps_per_level):
            descent.step()
            if easier.best.gap <= POLICY.loose_gap * easier.best.objective:
                break
        U, coef = easier.U, easier.coef
    assert U is not None
    state.U, state.first_coef, state.value = U, coef, None
    return True


class _Descent:
    """Which method is next: passes, Newton steps for coefficients, Newton steps for U, passes again."""

    def __init__(self, state: CoreVectors, passes: int | None) -> None:
        self.state = state
        self.passes_first = passes or 0
        self.phase = "newton" if passes is not None else "passes"
        self.lowest = self.shortest = math.inf
        self.idle = 0
        self.before: Callable[[], bool] | None = None  # may give the state a start, in the first step

    def step(self) -> float:
        """One iteration; returns an estimate of the gap."""
        state = self.state
        if self.before is not None:
            if self.before():
                self.passes_first = 0
            self.before = None
        if self.passes_first:
            self.passes_first -= 1
            relative = state.one_pass()
        elif self.phase == "newton":
            relative = state.newton()
            gain = state.primal < (1.0 - 16 * ROUNDING) * self.lowest or state.length < 0.5 * self.shortest
            self.lowest, self.shortest = min(self.lowest, state.primal), min(self.shortest, state.length)
            self.idle = 0 if gain else self.idle + 1
            if self.idle >= POLICY.newton_patience:
                self.phase = "refine"
        elif self.phase == "refine":
            before = state.relative_gap()
            relative = state.refine()
            if relative > 0.5 * before:
                self.phase = "passes"
        else:
            relative = state.one_pass()
        return relative * state.best.objective
