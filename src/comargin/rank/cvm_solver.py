"""Rank-CVM, Eq. (37): a few passes of row-block coordinate descent, then Newton's method; or passes alone."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np

from ..core.loop import ROUNDING, Control, run_loop
from ..core.result import Result
from ._loops import rank_cvm_block, rank_cvm_curvature, rank_cvm_terms, rank_lowest
from ._newton import newton_step, refined
from ._products import KernelProducts
from .problem import RankProblem, core_vector_certificate, pair_rounding


@dataclass(frozen=True)
class CoreVectorPolicy:
    """Tuned numbers of the solver; the comment gives the result of a sweep."""

    passes: int = 5  # cheap passes that find most violated pairs before Newton's method; 1 to 20 take equal time
    easy_cost: float = 10.0  # C_i K_ii up to which Newton starts at once; 40: 2.5 times slower on scene at C = 1000
    raise_cost: float = 10.0  # factor between two levels of costs; 40: twice as slow there
    loose_gap: float = 0.5  # relative gap that ends a level; 0.125 and 2 take as long
    most_at_a_level: int = 50  # passes and Newton steps: safety cap
    patience: int = 300  # iterations without any gain, passes above all, that end a fit
    newton_patience: int = 3  # Newton steps without a lower objective or gradient: rounding; 12 up to 1.9 times longer


POLICY = CoreVectorPolicy()


class SquaredHinge:
    """1/2 sum_i C_i sum_mn max(0, 1 - F_im + F_in)^2, and the dual variables x of scores F, Eq. (35)."""

    def __init__(self, problem: RankProblem) -> None:
        self.cost = problem.cost
        self.labels = problem.labels()
        self.reach = np.empty(problem.Y.shape, dtype=np.int32)
        self.beta = np.empty(problem.Y.shape)
        self.total = self.squares = 0.0

    def evaluate(self, F: np.ndarray) -> None:
        """Set ``beta``, Eq. (21), ``total`` = sum x and ``squares`` = sum x^2 / C_i for the x of F."""
        self.total, self.squares = rank_cvm_terms(F, *self.labels, self.cost, self.reach, self.beta)

    def curvature(self, V: np.ndarray) -> np.ndarray:
        out = np.empty(V.shape)
        rank_cvm_curvature(V, *self.labels, self.cost, self.reach, out)
        return out

    def certificate(self, U: np.ndarray, scores: np.ndarray, diagonal: np.ndarray) -> tuple[float, float]:
        """W and its lower bound for the x of U, the last evaluated scores; ``scores`` are K beta."""
        lowest = rank_lowest(scores, U, *self.labels) - pair_rounding(diagonal, self.beta)
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
    """The iterate: U stands for x, ``loss.beta`` are its coefficients; also the best U so far.

    The first Newton step starts from ``coef``, the coefficients of U if None.
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
        self.scores = self.image = np.empty(0)  # K beta, and K (coef - beta) for Newton's iterate
        self.value: tuple[float, float] | None = None  # certificate of U, once known
        self.coef: np.ndarray | None = None  # of Newton's iterate, whose scores are U; None during passes
        self.length = math.inf  # of the gradient at the last Newton step
        self.primal = math.inf  # squared hinge plus norm of the weights after the last Newton step
        self.best = BestVectors(math.inf, -math.inf, self.U)

    def certify(self) -> tuple[float, float]:
        """W and its lower bound, exactly, for the best U so far."""
        if self.value is None:
            self.loss.evaluate(self.U)
            if self.loss.total == 0.0:
                # All pairs have their margin and x = 0, for which a = x / sum x is undefined: shrink U a little.
                factor = (1.0 - 1e-3) / rank_lowest(self.U, self.U, *self.loss.labels)
                self.U = factor * self.U
                self.coef = None if self.coef is None else factor * self.coef
                self.loss.evaluate(self.U)
            if self.coef is None:
                self.scores = self.products.times(self.loss.beta)
            else:  # the small difference coef - beta keeps its digits
                self.image = self.products.times(self.coef - self.loss.beta)
                self.scores = self.U - self.image
            self.value = self.loss.certificate(self.U, self.scores, self.products.diagonal)
            if self.best.is_beaten_by(*self.value):
                self.best = BestVectors(*self.value, self.U.copy())
        return self.best.objective, self.best.bound

    def one_pass(self) -> float:
        """Solve every row exactly given the others; returns an estimate of the relative gap."""
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
            gram = products.gram(rows)
            low = rank_cvm_block(theta, gram, visits, rows.start, *loss.labels, loss.cost, self.U, loss.beta, delta)
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
        self.coef = newton_step(loss, products.roughly, self.coef, self.U, residual, self.image, gain)
        self.U, self.value = products.times(self.coef), None
        relative = self.relative_gap()
        self.primal = 0.5 * float(np.vdot(self.coef, self.U)) + 0.5 * loss.squares
        return relative

    def refine(self) -> float:
        """One Newton step for U, kept if it is a gain; returns the relative gap."""
        before, U = self.relative_gap(), self.U
        self.coef, self.value = None, None
        self.U = refined(self.loss, self.products.times, U, self.scores)
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
    newton: bool = True,
) -> Result:
    """Minimise W over the simplex.

    ``products`` are those of K + 1. ``start`` is ``dual_coef`` of another solve and ``start_cost`` its costs, those of
    this problem if None. An iteration is a pass or a Newton step: some passes come before Newton steps unless there is
    a start; without ``newton`` there are passes only. ``coef`` of the result is beta^T of a = x / sum(x), which gives
    the scores f_k(x) = sum_i beta_ki (K(x, x_i) + 1), Eqs. (27), (33); ``dual_coef`` is U.
    """
    coef = None
    if start is not None and start_cost is not None:
        # The weights of that solve: with other costs U stands for other x.
        before = SquaredHinge(replace(problem, cost=start_cost))
        before.evaluate(start)
        coef = before.beta
    state = CoreVectors(problem, products, seed, start, coef)
    passes = POLICY.passes if newton else None

    def relative_gaps() -> Iterator[float]:
        skip_passes = passes is not None and (start is not None or _raise_costs(state, problem, seed, passes))
        yield from _descent(state, 0 if skip_passes else passes)

    steps = relative_gaps()
    status, history, tol_abs = run_loop(
        lambda: next(steps) * state.best.objective,
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
    """Start from solutions of lower costs, each loose and warm-started by the one before; False if not needed.

    Where C_i K_ii is large, the first Newton steps would otherwise undo the passes.
    """
    products = state.products
    largest = float(np.max(problem.cost * products.diagonal))
    if not POLICY.easy_cost < largest < math.inf:
        return False
    U: np.ndarray | None = None
    coef: np.ndarray | None = None
    for level in range(math.ceil(math.log(largest / POLICY.easy_cost, POLICY.raise_cost)), 0, -1):
        lower = replace(problem, cost=problem.cost / POLICY.raise_cost**level)
        easier = CoreVectors(lower, products, seed, U, coef)
        for _ in islice(_descent(easier, passes if U is None else 0), POLICY.most_at_a_level):
            if easier.best.gap <= POLICY.loose_gap * easier.best.objective:
                break
        U, coef = easier.U, easier.coef
    assert U is not None
    state.U, state.first_coef, state.value = U, coef, None
    return True


def _descent(state: CoreVectors, passes: int | None) -> Iterator[float]:
    """Yield relative gaps of passes, then Newton steps for coefficients, then for U, then passes without end.

    Each kind of Newton step ends when it gains no more; ``passes=None`` takes passes only.
    """
    for _ in range(passes or 0):
        yield state.one_pass()
    if passes is not None:
        lowest = shortest = math.inf
        idle = 0
        while idle < POLICY.newton_patience:
            relative = state.newton()
            gain = state.primal < (1.0 - 16 * ROUNDING) * lowest or state.length < 0.5 * shortest
            lowest, shortest = min(lowest, state.primal), min(shortest, state.length)
            idle = 0 if gain else idle + 1
            yield relative
        before = math.inf
        while relative <= 0.5 * before:
            before = state.relative_gap()
            relative = state.refine()
            yield relative
    while True:
        yield state.one_pass()
