"""Pair steps for kernel M3L: components of R in threads over rows of the kernel matrix that all of them share."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from ..core.gram import Gram, GramCache
from ..core.loop import Control, run_loop, tolerance
from ..core.result import Result
from ..core.threads import worker_threads
from ..core.validation import Matrix
from ._finish import newton_step
from ._loops_pairs import SignedDual, m3l_pair_visits
from ._newton import Newton, RowSpace
from .losses import LabelSums
from .prior import PriorPart, prior_for_loops, whole_prior
from .problem import M3LKernelProblem, dual_rounding, restricted


@dataclass(frozen=True)
class PairPolicy:
    steps_per_visit: int = 256  # along one label before the gradients of the coupled labels are updated
    reduction: float = 0.1  # fraction of its largest projected gradient at which a label is left earlier
    finish_after: float = 5.0  # pair steps per variable before Newton steps are tried
    finish_flops: float = 4e9  # limit of their cost
    rounds_per_step: int = 10  # of one iteration when rows of K are missing: with few in memory a round is little work
    rows_wanted: int = 32  # of K that a label asks for when the one it needs is not in memory


POLICY = PairPolicy()


def components(prior: tuple[PriorPart, ...]) -> list[PriorPart]:
    """Parts of R that are solved on their own: its components, and every label without a partner."""
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
        own, n_labels = restricted(problem, part), len(part.labels)
        self.part, self.tol, self.loss, self.diagonal = part, tol, problem.loss, part.diagonal
        self.sign, self.cost = np.ascontiguousarray(own.S.T), np.ascontiguousarray(own.cost().T)
        self.target = np.transpose(own.target())
        edge = self.sign * (self.loss.bound * self.cost)
        beta = np.zeros(edge.shape)
        if start is not None:
            np.clip(self.sign * start[:, part.labels].T, np.minimum(edge, 0.0), np.maximum(edge, 0.0), out=beta)
        # Variables that no score depends on are at their optimum.
        fixed = (problem.X.diagonal <= 0.0) | (self.diagonal <= 0.0)[:, None]
        beta[fixed] = (self.sign * self.cost * self.loss.slope(self.target))[fixed]
        self.state = SignedDual(
            beta,
            edge,
            np.empty(edge.shape),
            np.where(fixed | (edge == 0.0), np.nan, 0.0).astype(np.float32),
            np.zeros(n_labels),
            np.zeros(n_labels, dtype=np.uint8),
            np.zeros(1, dtype=np.int64),
            self.loss.ridge(self.cost) if self.loss.is_smooth else np.empty((0, 0)),
        )
        self.matrix = prior_for_loops(part)
        self._set_sides()

    def visit(self, cache: GramCache, max_steps: int, reduction: float, n_visits: int) -> None:
        """Pair steps along the labels of the worst variables."""
        gram, R = (cache.rows, cache.scale, cache.clock), (self.matrix, self.diagonal)
        m3l_pair_visits(*gram, *R, self.state, max_steps, reduction, n_visits)
        self.measure()

    def take_scores(self, F: np.ndarray) -> None:
        """Go on from exact scores F of the training rows."""
        self.state.h[:] = F - self.sign * self.target + self._pull()
        self.measure()

    def _pull(self) -> np.ndarray | float:
        """Part of h that the conjugate of the loss adds."""
        return self.state.ridge * self.state.beta if self.loss.is_smooth else 0.0

    def measure(self) -> None:
        """Compute the objectives at the current gradients, and how much of the gap every label may keep."""
        beta, allowed = self.state.beta, self.state.allowed
        minus_missing = self.state.h - self._pull()  # times the sign
        linear = np.vecdot(self.sign * self.target, beta)
        quadratic = np.vecdot(beta, minus_missing) + linear
        losses = np.vecdot(self.cost, self.loss.value(-self.sign * minus_missing))
        conjugate = np.sum(self.loss.conjugate(beta, self.cost), axis=1) if self.loss.is_smooth else 0.0
        self.sums = LabelSums(quadratic, losses, linear - conjugate)
        # Slightly below the tolerance, so that the sum over components meets it despite rounding.
        enough = 0.9 * tolerance(self.tol, self.sums.primal)
        allowed[:] = enough / len(allowed)
        self.done = self.sums.gap <= enough

    def finish(self, gram: Gram) -> bool:
        """Newton steps on the free variables, when they are few; returns whether a variable has moved.

        Pair steps are slow when R or K is nearly singular: Newton steps see all directions at once. h must be exact,
        and is stale after a change.
        """
        state, R = self.state, self.part.to_array()
        sign, old = np.sign(state.edge), np.abs(state.beta)
        upper = np.where(np.isnan(state.side), 0.0, self.loss.finite_upper(old, self.cost, self.target))

        def hessian(labels: np.ndarray, rows: np.ndarray) -> np.ndarray:
            some, place = np.unique(rows, return_inverse=True)
            s, K = sign[labels, rows], gram.block(some, some)[np.ix_(place, place)]
            Q = 2.0 * np.outer(s, s) * R[np.ix_(labels, labels)] * K
            if self.loss.is_smooth:
                Q[np.diag_indices_from(Q)] += state.ridge[labels, rows]
            return Q

        new = newton_step(old, upper, sign * state.h, hessian, POLICY.finish_flops)
        if new is old:
            return False
        state.beta[:] = sign * new
        self._set_sides()
        return True

    def _set_sides(self) -> None:
        """Compute which way every variable can go; those that no score depends on cannot move."""
        beta, edge, side = self.state.beta, self.state.edge, self.state.side
        sides = np.where(beta == edge, np.sign(edge), np.where(beta == 0.0, -np.sign(edge), 0.0))
        side[:] = np.where(np.isnan(side), np.nan, sides)

    def wanted(self, cache: GramCache) -> list[np.ndarray]:
        """Rows of K that labels wait for, the worst first."""
        lists = []
        for label in np.flatnonzero(self.state.missed):
            h, side = self.state.h[label], self.state.side[label]
            violation = np.where(h * side >= 0.0, np.abs(h), 0.0) * (1.0 - cache.rows.cached)
            count = min(POLICY.rows_wanted, int(np.count_nonzero(violation)))
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
) -> Result:
    """Solve kernel M3L to a certified gap; the result is the same for any number of threads.

    ``cache`` is of ``problem.X`` and may hold rows already. The scheme "pairs" visits the labels in turn, "smo" is the
    paper's: L steps along the label of the worst variable. ``start`` (n_samples, n_labels) is clipped to the
    bounds. In the result ``coef`` is (2 B R)^T and ``dual_coef`` is A.
    """
    priors = [whole_prior(problem.prior)] if scheme == "smo" else components(problem.prior)
    parts = [Component(problem, part, control.tol, start) for part in priors]
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
                part.visit(cache, POLICY.steps_per_visit, POLICY.reduction, n_labels)

        def step() -> float:
            for _ in range(POLICY.rounds_per_step):
                busy = [part for part in parts if not part.done]
                list(pool.map(advance, busy))
                wanted = [rows for part in busy for rows in part.wanted(cache)]
                if not wanted:
                    break
                cache.fetch(wanted, pool)
            return sum(p.sums.gap for p in parts) if all(p.done for p in parts) else np.inf

        def certify() -> tuple[float, float]:
            _exact_gradients(problem, parts, cache, pool)
            late = [p for p in parts if not p.done and p.state.steps[0] >= POLICY.finish_after * p.state.h.size]
            if sum(p.finish(problem.X) for p in late):
                _exact_gradients(problem, parts, cache, pool)
            A, diagonal = _dual_variables(problem, parts), problem.X.diagonal
            rounding = sum(dual_rounding(p.part, diagonal, A[:, p.part.labels], p.sums.quadratic) for p in parts)
            return sum(p.sums.primal for p in parts), sum(p.sums.dual for p in parts) - rounding

        status, history, tol_abs = run_loop(step, certify, control, state=lambda: _dual_variables(problem, parts))
    A = _dual_variables(problem, parts)
    return Result(problem.coefficients(A).T, A, history, tol_abs, status)


def certified_weights(
    problem: M3LKernelProblem, X: Matrix, result: Result, tol: float
) -> tuple[Result, np.ndarray, np.ndarray]:
    """Weights (n_labels, n_features) and intercepts of the linear kernel, and the result with their certificate.

    Where dual variables cancel, the weights that are returned do not have the scores that K gives.
    """
    A, constant = result.dual_coef, problem.X.constant
    B = problem.S * A
    V, bias = np.asarray(X.T @ B), np.sqrt(constant) * B.sum(axis=0, keepdims=True)
    Z, b = 2.0 * problem.apply_prior(V), 2.0 * problem.apply_prior(bias)  # Eq. (23)
    quadratic = np.sum(V * Z, axis=0) + (bias * b)[0]
    sums = LabelSums(quadratic, problem.losses(X @ Z + np.sqrt(constant) * b), problem.gains(A))
    rounding = sum(
        dual_rounding(part, problem.X.diagonal, A[:, part.labels], quadratic[part.labels]) for part in problem.prior
    )
    result = result.certified_by(sums.primal, sums.dual - rounding, tolerance(tol, sums.primal))
    return result, np.ascontiguousarray(Z.T), np.sqrt(constant) * b[0]


def _dual_variables(problem: M3LKernelProblem, parts: list[Component]) -> np.ndarray:
    A = np.empty(problem.S.shape)
    for part in parts:
        A[:, part.part.labels] = np.abs(part.state.beta).T
    return A


def _exact_gradients(
    problem: M3LKernelProblem, parts: list[Component], cache: GramCache, pool: ThreadPoolExecutor
) -> None:
    """Compute h and the objectives anew from exact rows of K."""
    F = problem.scores(_dual_variables(problem, parts), pool, cache.exact)
    for part in parts:
        part.take_scores(F[:, part.part.labels].T)


def solve_m3l_kernel_by_newton(
    problem: M3LKernelProblem,
    cache: GramCache,
    control: Control,
    *,
    n_threads: int = 1,
    start: np.ndarray | None = None,
) -> Result:
    """Solve kernel M3L by Newton steps, for losses whose conjugate is not quadratic.

    Arguments are those of `solve_m3l_kernel`, but for the choice of a scheme.

    In the result ``coef`` is (M R)^T, whose primal objective is certified. ``dual_coef``, as ``start``, is S o M / 2,
    the dual variables to which the weights would belong: at the optimum A, before it not always within the bounds.
    """
    with worker_threads(n_threads) as pool:
        if cache.keeps_exact:
            cache.fetch([np.arange(cache.capacity)], pool)
        newtons, A = [], np.zeros(problem.S.shape) if start is None else start.copy()
        for part in problem.prior:
            own = restricted(problem, part)
            space = RowSpace(problem.X, part, pool, cache.exact)
            newtons.append(Newton(own, part, space, 2.0 * own.S * A[:, part.labels]))

        def enough(newton: Newton) -> float:
            return 0.9 * tolerance(control.tol, newton.sums.primal)

        def step() -> float:
            for newton in newtons:
                if newton.sums.gap > enough(newton):
                    newton.step()
            return sum(newton.sums.gap for newton in newtons)

        def certify() -> tuple[float, float]:
            duals = (
                newton.sums.dual - dual_rounding(part, problem.X.diagonal, newton.A, newton.sums.quadratic)
                for part, newton in zip(problem.prior, newtons, strict=True)
            )
            return sum(newton.sums.primal for newton in newtons), sum(duals)

        def dual_variables() -> np.ndarray:
            for part, newton in zip(problem.prior, newtons, strict=True):
                A[:, part.labels] = 0.5 * problem.S[:, part.labels] * newton.M
            return A.copy()

        status, history, tol_abs = run_loop(step, certify, control, check_every=1, state=dual_variables)
    coefficients = np.empty(A.shape)
    for part, newton in zip(problem.prior, newtons, strict=True):
        coefficients[:, part.labels] = part.apply(newton.M)
    return Result(coefficients.T, dual_variables(), history, tol_abs, status)
