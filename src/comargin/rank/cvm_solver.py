"""Rank-CVM: a few passes of row-block coordinate descent, then Newton's method; or coordinate descent alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ..kernels._rank import rank_cvm_block, rank_cvm_curvature, rank_cvm_terms, rank_lowest
from ..problems.rank import RankProblem, core_vector_certificate
from ._loop import Control, run_loop
from ._rank_newton import newton_step, refined
from ._rank_products import KernelProducts
from ._result import Result

# Passes before Newton's method takes over. They are cheap and find most pairs that count; to converge they need
# hundreds to thousands.
_PASSES_FIRST = 5
# Newton steps for coefficients end by rounding, since scores K coef are sums of large numbers. The sign is that neither
# the objective has fallen by this part nor the gradient to one half, so many times.
_FALL = 1e-13
_NEWTON_PATIENCE = 3
# Then come Newton steps for U itself, as long as they halve the gap, and then passes. So many iterations without any
# gain end the fit.
_PATIENCE = 300
# Where C_i K_ii exceeds this, costs are raised to it step by step: the first Newton steps would else undo the passes.
_EASY, _RAISE = 10.0, 10.0
_LOOSE, _MOST_STEPS = 0.5, 50
# Scores that have the margin everywhere are made so much smaller than just to have it.
_ALMOST = 1.0 - 1e-3


class SquaredHinge:
    """1/2 sum_i C_i sum_mn max(0, 1 - F_im + F_in)^2, and the dual variables that scores stand for.

    Parameters
    ----------
    problem : RankProblem
        Rows and costs.
    """

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


class CoreVectors:
    """The iterate of both methods: U stands for x; ``loss.beta`` are its coefficients.

    Parameters
    ----------
    problem : RankProblem
        Rows and costs.
    products : KernelProducts
        K, with the 1 of the biases.
    seed : int
        Fixes the order of visits.
    U : ndarray of shape (n_samples, n_labels) or None
        To begin with.
    coef : ndarray of shape (n_samples, n_labels) or None
        What the first Newton step starts from, the coefficients of U if None.
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
        self.delta = np.empty((max(rows.stop - rows.start for rows in products.blocks), problem.Y.shape[1]))
        self.value: tuple[float, float] | None = None  # certificate of U, once it is known
        self.objective, self.bound, self.best_U = math.inf, -math.inf, self.U  # the best so far
        self.coef: np.ndarray | None = None  # of Newton's iterate, whose scores are U; None while passes go on
        self.length = math.inf  # of the gradient at the last Newton step
        self.primal = math.inf  # its objective, the squared hinge and the norm of the weights

    def certify(self) -> tuple[float, float]:
        """W and its lower bound, exactly, for the best U so far."""
        if self.value is None:
            self.loss.evaluate(self.U)
            if self.loss.total == 0.0:
                # All pairs have their margin, so that x = 0; but a = x / sum x must be something.
                factor = _ALMOST / rank_lowest(self.U, self.U, self.loss.order, self.loss.n_relevant)
                self.U = factor * self.U
                self.coef = None if self.coef is None else factor * self.coef
                self.loss.evaluate(self.U)
            if self.coef is None:
                self.scores = self.products.times(self.loss.beta)
            else:  # small differences keep their digits this way round
                self.image = self.products.times(self.coef - self.loss.beta)
                self.scores = self.U - self.image
            self.value = self.loss.certificate(self.U, self.scores)
            if self._better(*self.value):
                (self.objective, self.bound), self.best_U = self.value, self.U.copy()
        return self.objective, self.bound

    def _better(self, objective: float, bound: float) -> bool:
        """Whether this is better than the best so far: a lower W, or near the optimum a smaller relative gap."""
        if math.isinf(self.objective):
            return True
        gap, best = (objective - bound) / objective, self.gap / self.objective
        return gap < best if min(gap, best) < _LOOSE else objective < self.objective

    def one_pass(self) -> float:
        """Visit all rows once, each solved exactly given the others; returns an estimate of the relative gap."""
        loss, products = self.loss, self.products
        loss.evaluate(self.U)
        self.coef = None
        products.start(loss.beta)
        lowest = np.inf
        for k in self.rng.permutation(len(products.blocks)):
            rows = products.blocks[k]
            theta, delta = products.scores(rows), self.delta[: rows.stop - rows.start]
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

    @property
    def gap(self) -> float:
        """That of the best U so far."""
        return self.objective - self.bound

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
    passes: int | None = _PASSES_FIRST,
) -> Result:
    """Minimise W over the simplex.

    Parameters
    ----------
    problem : RankProblem
        Rows and costs.
    products : KernelProducts
        K of these rows, with the 1 of the biases.
    control : Control
        Tolerance, limits, progress and callback; an iteration is a pass or a Newton step.
    seed : int, default=0
        Fixes the order of visits.
    start : ndarray of shape (n_samples, n_labels) or None
        ``dual_coef`` of another solve.
    start_cost : ndarray of shape (n_samples,) or None
        The costs of that solve; those of this problem if None.
    passes : int or None, default=5
        Passes of coordinate descent before Newton steps, unless there is a start; None means no Newton steps at all.

    Returns
    -------
    Result
        ``coef`` is beta^T of a = x / sum(x): the scores of x are its kernel values, plus 1, times these. ``dual_coef``
        is U, from which all x follow.
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
        patience=_PATIENCE,
        state=lambda: state.best_U,
    )
    loss = state.loss
    loss.evaluate(state.best_U)
    return Result(loss.beta.T / loss.total, state.best_U, history, tol_abs, status)


def _raise_costs(state: CoreVectors, problem: RankProblem, seed: int, passes: int) -> bool:
    """Solve the problem with lower costs, each loosely and from the weights of the one before; False if not needed."""
    products = state.products
    largest = float(np.max(problem.cost * products.diagonal))
    if not _EASY < largest < math.inf:
        return False
    U: np.ndarray | None = None
    coef: np.ndarray | None = None
    for level in range(math.ceil(math.log(largest / _EASY, _RAISE)), 0, -1):
        lower = RankProblem(problem.Y, problem.cost / _RAISE**level)
        easier = CoreVectors(lower, products, seed, U, coef)
        descent = _Descent(easier, passes if U is None else 0)
        for _ in range(_MOST_STEPS):
            descent.step()
            if easier.gap <= _LOOSE * easier.objective:
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
            gain = state.primal < (1.0 - _FALL) * self.lowest or state.length < 0.5 * self.shortest
            self.lowest, self.shortest = min(self.lowest, state.primal), min(self.shortest, state.length)
            self.idle = 0 if gain else self.idle + 1
            if self.idle >= _NEWTON_PATIENCE:
                self.phase = "refine"
        elif self.phase == "refine":
            before = state.relative_gap()
            relative = state.refine()
            if relative > 0.5 * before:
                self.phase = "passes"
        else:
            relative = state.one_pass()
        return relative * state.objective
