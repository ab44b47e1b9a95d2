"""Pair steps for kernel M3L: components of R in threads over rows of the kernel matrix that all of them share."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.linalg import LinAlgError

from ..kernels._m3l_pairs import SignedDual, m3l_pair_visits
from ..problems.gram import Gram
from ..problems.label_prior import PriorPart, whole_prior
from ..problems.m3l import M3LKernelProblem
from ._box_newton import newton_on_box
from ._gram_cache import GramCache, gram_blocks
from ._loop import Control, run_loop, tolerance
from ._m3l_finish import NEWTON_SIZE, with_violators
from ._prior_matrix import kernel_matrix
from ._result import Result
from ._threads import worker_threads

# Most steps along one label before the gradients of the labels it is coupled with are brought up to date, and the
# fraction of its largest projected gradient at which it is left earlier.
_STEPS_PER_VISIT = 256
_REDUCTION = 0.1
# Pair steps per variable after which what is left is given to Newton steps too, and what these may cost.
_FINISH_AFTER = 5.0
_FINISH_FLOPS = 4e9
# Rounds of one iteration when rows of K are missing: with few of them in memory a round is little work.
_ROUNDS_PER_STEP = 10
# Rows of K that a label asks for when the one it needs is not in memory.
_ROWS_WANTED = 32


def components(prior: tuple[PriorPart, ...]) -> list[PriorPart]:
    """Parts of R that are solved on their own: its components, and every label without a partner.

    Parameters
    ----------
    prior : tuple of PriorPart
        R.

    Returns
    -------
    list of PriorPart
        Covering all labels.
    """
    parts = []
    for part in prior:
        if part.form == "diagonal":
            parts += [PriorPart(part.labels[[k]], "dense", part.matrix[[k], None]) for k in range(len(part.labels))]
        elif part.form == "factor":  # steps along a label need its row of R
            parts.append(PriorPart(part.labels, "dense", part.to_array()))
        else:
            parts.append(part)
    return parts


class Component:
    """State of the labels of one component of R, in the signed variables beta = S o A, labels as rows."""

    def __init__(self, problem: M3LKernelProblem, part: PriorPart, tol: float, start: np.ndarray | None) -> None:
        labels = part.labels
        signs = np.ascontiguousarray(problem.S[:, labels].T)
        weight = np.where(signs > 0, problem.label_upper[1, labels, None], problem.label_upper[0, labels, None])
        edge = signs * problem.row_upper * weight
        self.part, self.tol, self.diagonal = part, tol, part.diagonal
        self.signed_target = signs * (problem.targets[:, labels].T if problem.targets.size else 1.0)
        beta = np.zeros(edge.shape)
        if start is not None:
            np.clip(signs * start[:, labels].T, np.minimum(edge, 0.0), np.maximum(edge, 0.0), out=beta)
        # Variables that no score depends on: the loss is paid in full.
        fixed = (problem.gram.diagonal <= 0.0) | (self.diagonal <= 0.0)[:, None]
        beta[fixed] = edge[fixed]
        side = np.where(fixed | (edge == 0.0), np.nan, 0.0).astype(np.float32)
        n_labels = len(labels)
        h = -self.signed_target.astype(np.float64)
        self.state = SignedDual(
            beta, edge, h, side, np.zeros(n_labels), np.zeros(n_labels, dtype=np.uint8), np.zeros(1, dtype=np.int64)
        )
        self.matrix = kernel_matrix(part)
        self.primal, self.dual, self.done = np.inf, -np.inf, False
        self._set_sides()

    def visit(self, cache: GramCache, max_steps: int, reduction: float, n_visits: int) -> None:
        """Visits to the label of the worst variable, as ``m3l_pair_visits`` says."""
        m3l_pair_visits(
            cache.rows,
            cache.scale,
            cache.clock,
            self.matrix,
            self.diagonal,
            self.state,
            max_steps,
            reduction,
            n_visits,
        )
        self.measure()

    def take_gradients(self, h: np.ndarray) -> None:
        """Go on from exact gradients."""
        self.state.h[:] = h
        self.measure()

    def measure(self) -> None:
        """Objectives at the current gradients, and how much of the gap every label may keep."""
        beta, edge, h, allowed = self.state.beta, self.state.edge, self.state.h, self.state.allowed
        linear = np.vecdot(self.signed_target, beta)
        quadratic = np.vecdot(beta, h) + linear
        hinge = np.sum(np.maximum(-edge * h, 0.0), axis=1)
        self.primal = float(np.sum(quadratic + 2.0 * hinge))
        self.dual = float(np.sum(2.0 * linear - quadratic))
        # A hair below the tolerance, so that the sum over components meets it in spite of rounding.
        enough = 0.9 * tolerance(self.tol, self.primal)
        allowed[:] = enough / len(allowed)
        self.done = self.primal - self.dual <= enough

    def finish(self, gram: Gram) -> bool:
        """Newton steps on the free variables, when they are few; h must be exact, and is stale after a change.

        Pair steps creep when R or K is nearly singular: Newton steps see all directions at once.

        Parameters
        ----------
        gram : Gram
            The kernel matrix.

        Returns
        -------
        bool
            Whether a variable has moved.
        """
        beta, edge, h, side = self.state.beta.ravel(), self.state.edge.ravel(), self.state.h.ravel(), self.state.side
        sign = np.sign(edge)
        upper = np.where(np.isnan(side.ravel()), 0.0, np.abs(edge))
        chosen = with_violators(np.abs(beta), upper, sign * h)
        if not 0 < chosen.size <= NEWTON_SIZE:
            return False
        label, row = np.unravel_index(chosen, side.shape)
        rows, place = np.unique(row, return_inverse=True)
        s, R = sign[chosen], self.part.to_array()
        Q = 2.0 * np.outer(s, s) * R[np.ix_(label, label)] * gram.block(rows, rows)[np.ix_(place, place)]
        old, slope = np.abs(beta[chosen]), s * h[chosen]
        try:
            new = newton_on_box(Q, slope, old, upper[chosen], max_flops=_FINISH_FLOPS)
        except LinAlgError:  # K is singular, and rounding has made it indefinite: pair steps go on alone
            return False
        step = new - old
        if not float(slope @ step) + 0.5 * float(step @ Q @ step) < 0.0:
            return False
        beta[chosen] = s * new  # a view of the state
        self._set_sides()
        return True

    def _set_sides(self) -> None:
        """Which way every variable can go; those that no score depends on stay where they are."""
        beta, edge, side = self.state.beta, self.state.edge, self.state.side
        sides = np.where(beta == edge, np.sign(edge), np.where(beta == 0.0, -np.sign(edge), 0.0))
        side[:] = np.where(np.isnan(side), np.nan, sides)

    def wanted(self, cache: GramCache) -> list[np.ndarray]:
        """Rows of K that labels wait for, the worst first."""
        lists = []
        for label in np.flatnonzero(self.state.missed):
            h, side = self.state.h[label], self.state.side[label]
            violation = np.where(h * side >= 0.0, np.abs(h), 0.0) * (1.0 - cache.rows.cached)
            count = min(_ROWS_WANTED, int(np.count_nonzero(violation)))
            worst = np.argpartition(-violation, count - 1)[:count] if count else np.empty(0, dtype=np.int64)
            lists.append(worst[np.argsort(-violation[worst], kind="stable")])
        return lists


def solve_m3l_kernel(
    problem: M3LKernelProblem,
    cache: GramCache,
    control: Control,
    *,
    n_threads: int = 1,
    start: np.ndarray | None = None,
    scheme: str = "pairs",
    products: list[np.ndarray] | None = None,
) -> Result:
    """Solve kernel M3L to a certified gap.

    Parameters
    ----------
    problem : M3LKernelProblem
        All labels.
    cache : GramCache
        Of ``problem.gram``; may hold rows already.
    control : Control
        Tolerance, limits, progress and callback.
    n_threads : int, default=1
        Threads; the result is the same for any number.
    start : ndarray of shape (n_samples, n_labels) or None
        Dual start, clipped to the bounds; zero if None.
    scheme : {"pairs", "smo"}
        "pairs" visits the labels in turn; "smo" is the paper's choice of the worst one, L steps along it.
    products : list of ndarray, or None
        The gradients h of ``start``, one array per part of R, when they are known and no bound lies below it.

    Returns
    -------
    Result
        ``coef`` is (2 B R)^T, ``dual_coef`` is A, ``products`` are the gradients.
    """
    priors = [_whole(problem.prior)] if scheme == "smo" else components(problem.prior)
    parts = [Component(problem, part, control.tol, start) for part in priors]
    known = products
    with worker_threads(n_threads) as pool:
        if cache.holds_all:
            cache.fetch([np.arange(cache.capacity)], pool)

        def advance(part: Component) -> None:
            n_labels, n_samples = part.state.h.shape
            if scheme == "smo":
                part.state.allowed[:] = 0.0
                part.visit(cache, n_labels, 0.0, max(n_labels, n_samples // n_labels))
            elif n_labels == 1:
                part.visit(cache, n_samples, 0.0, 1)
            else:
                part.visit(cache, _STEPS_PER_VISIT, _REDUCTION, n_labels)

        def step() -> float:
            for _ in range(_ROUNDS_PER_STEP):
                busy = [part for part in parts if not part.done]
                list(pool.map(advance, busy))
                wanted = [rows for part in busy for rows in part.wanted(cache)]
                if not wanted:
                    break
                cache.fetch(wanted, pool)
            return sum(p.primal - p.dual for p in parts) if all(p.done for p in parts) else np.inf

        def certify() -> tuple[float, float]:
            nonlocal known
            if known is None:
                _exact_gradients(problem, parts, cache, pool)
            else:
                for part, h in zip(parts, known, strict=True):
                    part.take_gradients(h)
                known = None
            late = [p for p in parts if not p.done and p.state.steps[0] >= _FINISH_AFTER * p.state.h.size]
            if sum(p.finish(problem.gram) for p in late):
                _exact_gradients(problem, parts, cache, pool)
            return sum(p.primal for p in parts), sum(p.dual for p in parts)

        status, history, tol_abs = run_loop(step, certify, control, state=lambda: _dual_variables(problem, parts))
    A = _dual_variables(problem, parts)
    return Result(problem.coefficients(A).T, A, history, tol_abs, status, products=[part.state.h for part in parts])


def _whole(prior: tuple[PriorPart, ...]) -> PriorPart:
    """R of all labels as one part."""
    R = whole_prior(prior)
    n_labels = R.shape[0]
    sparse = 8 * R.nnz <= n_labels**2
    return PriorPart(np.arange(n_labels), "sparse" if sparse else "dense", R if sparse else R.toarray())


def _dual_variables(problem: M3LKernelProblem, parts: list[Component]) -> np.ndarray:
    A = np.empty(problem.S.shape)
    for part in parts:
        A[:, part.part.labels] = np.abs(part.state.beta).T
    return A


def _exact_gradients(
    problem: M3LKernelProblem, parts: list[Component], cache: GramCache, pool: ThreadPoolExecutor
) -> None:
    """Compute h and the objectives anew from exact rows of K."""
    coefficients = problem.coefficients(_dual_variables(problem, parts))
    support = np.flatnonzero(coefficients.any(axis=1))
    chosen = coefficients[support]
    K = cache.exact
    F = np.zeros(problem.S.shape)

    def block_scores(rows: slice) -> None:
        F[rows] = problem.gram.block(rows, support) @ chosen if K is None else K[rows] @ coefficients

    if support.size:
        list(pool.map(block_scores, gram_blocks(problem.gram.n_samples, support.size)))
    for part in parts:
        part.take_gradients(F[:, part.part.labels].T - part.signed_target)
