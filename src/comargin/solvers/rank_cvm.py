"""Rank-CVM: a few passes of row-block coordinate descent, then Newton's method; or coordinate descent alone."""

from __future__ import annotations

import math

import numpy as np

from ..kernels._rank import rank_cvm_block, rank_cvm_curvature, rank_cvm_terms, rank_lowest
from ..problems.rank import RankProblem, core_vector_certificate
from ._loop import Control, run_loop
from ._rank_newton import newton_step
from ._rank_products import KernelProducts
from ._result import Result

# Passes before Newton's method takes over. They are cheap and find most pairs that count; to converge they need
# hundreds to thousands.
_PASSES_FIRST = 5
# Newton steps gain an order of magnitude each until rounding stops them: scores K coef are sums of large numbers.
# Passes then go on, since they solve the rows for U itself. The sign is so many steps that did not halve the gap, fewer
# when the gap is small already; and so many passes without any gain are the sign to give up.
_SMALL_GAP = 1e-6
_NEWTON_PATIENCE = (3, 50)
_PASS_PATIENCE = 20


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
    start : ndarray of shape (n_samples, n_labels) or None
        U to begin with.
    seed : int
        Fixes the order of visits.
    """

    def __init__(self, problem: RankProblem, products: KernelProducts, start: np.ndarray | None, seed: int) -> None:
        self.products, self.loss = products, SquaredHinge(problem)
        self.rng = np.random.default_rng(seed)
        # Scores of 1 and 0 are exactly the margin: all x are 0.
        self.U = problem.Y.astype(np.float64) if start is None else start.copy()
        # K beta, and K (coef - beta) for Newton's iterate.
        self.scores = self.image = np.empty(0)
        self.delta = np.empty((max(rows.stop - rows.start for rows in products.blocks), problem.Y.shape[1]))
        self.value: tuple[float, float] | None = None  # certificate of U, once it is known
        self.objective = math.inf  # W when it was last known
        self.coef: np.ndarray | None = None  # of Newton's iterate, whose scores are U; None while passes go on
        self.length = math.inf  # of the gradient at the last Newton step

    def certify(self) -> tuple[float, float]:
        """W and its lower bound, exactly."""
        if self.value is None:
            self.loss.evaluate(self.U)
            if self.coef is None:
                self.scores = self.products.times(self.loss.beta)
            else:  # small differences keep their digits this way round
                self.image = self.products.times(self.coef - self.loss.beta)
                self.scores = self.U - self.image
            if self.loss.total > 0.0:
                self.value = self.loss.certificate(self.U, self.scores)
            else:  # x = 0 is no point of the simplex: W of the single pair that the paper begins with, Eq. (57)
                diagonal = np.concatenate([np.diag(self.products.gram(rows)) for rows in self.products.blocks])
                self.value = float(np.min(diagonal + 0.5 / self.loss.cost)), 0.0
            self.objective = self.value[0]
        return self.value

    def one_pass(self) -> float:
        """Visit all rows once, each solved exactly given the others; returns an estimate of the relative gap."""
        loss, products = self.loss, self.products
        self.certify()
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
        return 2.0 * (1.0 - lowest)  # at the optimum all gradients are at least 1, those of pairs with x > 0 equal 1

    def newton(self) -> float:
        """One Newton step; returns the relative gap."""
        loss, products = self.loss, self.products
        self.certify()
        if self.coef is None:
            self.coef, self.U, self.value = loss.beta.copy(), self.scores, None
            self.certify()
        residual = self.coef - loss.beta
        length = math.sqrt(max(float(np.vdot(residual, self.image)), 0.0))  # of the gradient
        gain, self.length = length / self.length, length
        self.coef = newton_step(loss, products, self.coef, self.U, residual, self.image, gain)
        self.U, self.value = products.times(self.coef), None
        objective, bound = self.certify()
        return (objective - bound) / objective


def solve_rank_cvm(
    problem: RankProblem,
    products: KernelProducts,
    control: Control,
    *,
    seed: int = 0,
    start: np.ndarray | None = None,
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
        ``dual_coef`` of another solve, perhaps with other costs.
    passes : int or None, default=5
        Passes of coordinate descent before Newton steps; None means no Newton steps at all.

    Returns
    -------
    Result
        ``coef`` is beta^T of a = x / sum(x): the scores of x are its kernel values, plus 1, times these. ``dual_coef``
        is U, from which all x follow.
    """
    state = CoreVectors(problem, products, start, seed)
    descent = _Descent(state, passes)
    status, history, tol_abs = run_loop(descent.step, state.certify, control, check_every=1 if passes else 10)
    loss = state.loss
    return Result(loss.beta.T / loss.total, state.U, history, tol_abs, status)


class _Descent:
    """Which method is next: passes, Newton steps, then passes again."""

    def __init__(self, state: CoreVectors, passes: int | None) -> None:
        self.state = state
        self.passes_first, self.only_passes = passes or 0, passes is None
        self.best, self.idle = math.inf, 0

    def step(self) -> float:
        """One iteration; returns an estimate of the gap."""
        if self.passes_first:
            self.passes_first -= 1
            relative = self.state.one_pass()
        elif self.only_passes:
            if self.idle >= _PASS_PATIENCE and self.best < _SMALL_GAP:
                return math.inf  # nothing is done, which the loop will notice
            relative = self.state.one_pass()
            self.idle = 0 if relative < 0.99 * self.best else self.idle + 1
        else:
            relative = self.state.newton()
            self.idle = 0 if relative < 0.5 * self.best else self.idle + 1
            if self.idle >= _NEWTON_PATIENCE[0 if self.best < _SMALL_GAP else 1]:
                self.only_passes, self.idle = True, 0
        self.best = min(self.best, relative)
        return relative * self.state.objective
