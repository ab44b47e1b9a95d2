r"""PrML: alternation of the two convex SVM+ steps, each started with the dual variables of the other.

Both steps have the same constraints, so the dual variables of one are the start of the other. A step is solved as
precisely as the last alternation made progress, at first loosely; its result is mixed with the point before, which is
feasible too, so that the objective never rises. Between the steps D and W are balanced: the singular value
decomposition of Z = D^T W gives the pair with the same Z that costs least.

The first D has the singular vectors of PrBR's predictors. Where an alternation from there does worse than PrBR's
predictors of a few labels alone, one begins with those as well, and the better of both goes on.

The dual objective of a checkpoint is that of the D-step (with the constant W-term of (5)): the gap says how much (D, T)
could still gain with W held. In the end a W-step certifies the same point. How far (5) is from its global optimum is
bounded by ``PrMLProblem.lower_bound``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..kernels._rows import CSR
from ..problems.label_prior import PriorPart, identity_prior
from ..problems.prml import PrMLProblem, SlackDual, SVMPlusProblem
from ._loop import Control, progress, tolerance
from ._prml_alternation import STEP_ITER, Alternation, Watch
from ._prml_feasible import infeasible_labels, named, privileged_ways
from ._prml_start import Point, PrMLFinished, PrMLStart, PrMLStopped, first_dictionary, kept_predictors
from ._prml_step import Ways
from ._prml_system import RowGram
from ._result import Checkpoint, Result, Status
from ._threads import one_blas_thread
from .prbr import SVMPlusResult, n_seeds, solve_svm_plus

# The gap to which PrBR is solved for a start.
_START_TOL = 0.1
# Problems solved for predictors that cost their lengths in place of half their squares, and the smallest length in the
# first of them, relative to the largest.
_REWEIGHTED = 2
_SHORTEST = 1e-3
# Alternations without any change at full precision are a stall when there are this many.
_PATIENCE = 3
# Objectives of one point in one problem differ by at most this fraction.
_SAME = 1e-10


@dataclass(frozen=True)
class PrMLResult(Result):
    """Solution of PrML; ``dual_coef`` is the ``SlackDual`` of the last step.

    Attributes
    ----------
    dictionary : ndarray of shape (rank, n_features)
        D.
    codes : ndarray of shape (rank, n_labels)
        W.
    privileged : ndarray of shape (n_labels, n_labels)
        Row i has the privileged weights of label i, at its own place the constant's.
    lower_bound : float
        No D, W and T, of any rank, have a smaller objective than this.
    kept : PrMLStart
        What a next solve can start from; the alternation that a callback stopped need not be the best one.
    """

    dictionary: np.ndarray
    codes: np.ndarray
    privileged: np.ndarray
    lower_bound: float
    kept: PrMLStart

    @property
    def finished(self) -> PrMLFinished:
        """The solution and how it was reached."""
        solution = self.dictionary, self.codes, self.privileged, self.dual_coef
        return PrMLFinished(*solution, self.history, self.status.name)


def solve_prml(
    problem: PrMLProblem,
    view: np.ndarray | CSR,
    control: Control,
    *,
    rank: int,
    seeds: Iterable[int],
    n_threads: int = 1,
    start: PrMLStart | None = None,
) -> PrMLResult:
    """Alternate until neither the objective nor the privileged weights change any more.

    Parameters
    ----------
    problem : PrMLProblem
        All labels.
    view : ndarray or CSR
        ``problem.X`` as the kernels take it.
    control : Control
        Tolerance, most alternations, progress and callback, which see every alternation, and every few seconds the
        step under way.
    rank : int
        Rows of D and W.
    seeds : iterable of int
        One seed per start; the start with the best objective is returned.
    n_threads : int, default=1
        Threads; the result is the same for any number.
    start : PrMLStart or None
        Where the first start begins; from its D alone, if the rest is not feasible for this problem. If None, it has
        the singular vectors of PrBR's predictors. All others have random mixtures of them. One that a callback stopped
        after an alternation, on the same problem, goes on as if it had not been; within one, from the point it had.

    Returns
    -------
    PrMLResult
        ``coef`` is (D^T W)^T. Converged: both steps are certified to ``tol`` of the objective at the point returned,
        the last alternation lowered it by no more, and moved the privileged weights by at most ``tol`` of their length
        (or by less than the gap of the step can tell apart). Stopped within an alternation: the last checkpoint of
        ``history`` is that of the step under way.
    """
    seeds = list(seeds)
    if not seeds:
        raise ValueError("seeds must hold at least one seed: one per start")
    started = time.perf_counter() if control.started is None else control.started
    stopped = None if start is None else _going_on(start, problem, len(seeds))
    control = replace(control, started=started - (stopped.history[-1].seconds if stopped is not None else 0.0))
    # Rounding decides between local optima: it must not depend on the threads of BLAS.
    with one_blas_thread(), progress(control) as show:
        watch = Watch(control, show)
        ways = privileged_ways(problem.step(problem.X, identity_prior(problem.S.shape[1])[0]))
        best = None if stopped is None or stopped.best is None else _finished(stopped.best, problem, control.tol)
        first = 0 if stopped is None else stopped.number
        gram: RowGram | None = None
        predictors: _Predictors | None = None
        for number, seed in enumerate(seeds[first:], first):
            rng = np.random.default_rng(seed)
            known = start if number == first else None
            dual = None if known is None or not _fits(known.dual, problem) else known.dual
            if dual is None:
                if predictors is None:
                    # Those of a fit that was stopped, again.
                    rng_before = rng if stopped is None else np.random.default_rng(seeds[0])
                    predictors = _Predictors(problem, view, ways, rng_before, n_threads, watch)
                dual = predictors.plain.dual_coef
                if watch.stopped:
                    return predictors.unfinished(rank, rng) if best is None else replace(best, status=Status.STOPPED)
            alternation = Alternation(problem, view, control.tol, n_threads, ways, dual, gram, watch)
            history: tuple[Checkpoint, ...] = ()
            if known is not None and stopped is not None:
                alternation.go_on(known, stopped)
                history = stopped.history
            elif known is not None:
                point = known.point(problem)
                if point is not None:  # as precise as the solution it comes from
                    alternation.step_tol = control.tol
                alternation.begin(known.dictionary, point)
            else:
                assert predictors is not None
                alternation = _first_alternation(alternation, predictors, rank, rng, mixed=number > 0)
                if watch.stopped and best is None:  # a step under way may be far above what there was before it
                    earlier = predictors.unfinished(rank, rng)
                    if earlier.primal < alternation.objective:
                        return earlier
            result = _run(alternation, control, watch, history)
            gram = alternation.gram
            if result.status is Status.STOPPED:
                finished = None if best is None else best.finished
                kept = result.kept._replace(stopped=alternation.stopped(number, result.history, finished))
                best = result if best is None or result.primal < best.primal else best
                return replace(best, kept=kept, status=Status.STOPPED)
            if best is None or result.primal < best.primal:
                best = result
        assert best is not None
        return best


def _going_on(start: PrMLStart, problem: PrMLProblem, n_starts: int) -> PrMLStopped | None:
    """How far a fit got that a callback stopped, if it was one of this problem: the objective of its point tells."""
    stopped = start.stopped
    if stopped is None or stopped.number >= n_starts or not _fits(start.dual, problem):
        return None
    point = start.point(problem)
    if point is None:
        return None
    objective, then = problem.objective(*point), stopped.history[-1].primal
    return stopped if abs(objective - then) <= _SAME * abs(then) else None


def _finished(best: PrMLFinished, problem: PrMLProblem, tol: float) -> PrMLResult:
    """The result of a start that was finished before."""
    point = Point(best.dictionary, best.codes, best.privileged.T)
    return _result(problem, point, best.dual, best.history, tol, Status[best.status])


def _fits(dual: SlackDual | None, problem: PrMLProblem) -> bool:
    """Whether dual variables are of these rows, label sets and labels."""
    shapes = problem.S.shape, problem.set_cost.shape
    return dual is not None and (dual.A.shape, dual.B.shape) == shapes


class _Predictors:
    """Predictors of the labels, each for itself, loosely: where the alternation begins."""

    def __init__(
        self,
        problem: PrMLProblem,
        view: np.ndarray | CSR,
        ways: Ways,
        rng: np.random.Generator,
        n_threads: int,
        watch: Watch,
    ) -> None:
        self.problem, self.view, self.ways, self.n_threads, self.watch = problem, view, ways, n_threads, watch
        n_labels = problem.S.shape[1]
        nothing = np.zeros((1, problem.X.shape[1])), np.zeros((1, n_labels)), ways.lift
        # What is shown meanwhile: slacks alone, if they can be, or a better point that is known.
        self.objective = problem.objective(*nothing) if not ways.bases else np.inf
        self.seeds = rng.integers(2**63, size=n_seeds(self._step(np.ones(problem.S.shape[1])))).tolist()

    def _step(self, r: np.ndarray) -> SVMPlusProblem:
        return self.problem.step(self.problem.X, PriorPart(np.arange(len(r)), "diagonal", r))

    def _solve(self, r: np.ndarray, start: SlackDual | None) -> SVMPlusResult:
        def within(primal: float, dual: float) -> bool:
            return bool(np.isfinite(self.objective)) and self.watch.within(0, self.objective, 0.0)

        control = Control(_START_TOL, STEP_ITER, within=within)
        return solve_svm_plus(
            self._step(r),
            self.view,
            control,
            seeds=self.seeds,
            n_threads=self.n_threads,
            start=start,
            ways=self.ways,
        )

    @cached_property
    def plain(self) -> SVMPlusResult:
        """PrBR."""
        return self._solve(np.ones(self.problem.S.shape[1]), None)

    @cached_property
    def whole(self) -> SVMPlusResult:
        """At the cost that predictors with a row of D each have: sqrt(gamma1) ||z||, by squares reweighted.

        The squares of PrBR make predictors that are too short to be kept whole. With c = ||z|| the bound
        ||z|| <= (||z||^2 / c + c) / 2 is tight: R = c / sqrt(gamma1).
        """
        result = self.plain
        for _ in range(_REWEIGHTED):
            lengths = np.linalg.norm(result.coef, axis=1)
            if not lengths.any() or self.watch.stopped:
                break
            r = np.maximum(lengths, _SHORTEST * lengths.max()) / np.sqrt(self.problem.gamma1)
            result = self._solve(r, result.dual_coef)
        return result

    def unfinished(self, rank: int, rng: np.random.Generator) -> PrMLResult:
        """What there is when the callback ends the fit in here: predictors of a few labels, or none.

        The next fit begins there, or with the singular vectors of what there is.
        """
        problem, (n_labels, n_features) = self.problem, self.plain.coef.shape
        D = first_dictionary(self.plain.coef, rank, problem.gamma1, rng, mixed=False)
        nothing = Point(D, np.zeros((rank, n_labels)), self.ways.lift)
        few = kept_predictors(problem, self.plain.coef, self.plain.privileged, self.ways, rank, rng, drawn=False)
        next_start = nothing if few is None else few
        point = nothing._replace(D=np.zeros((rank, n_features))) if few is None else few
        # Of all A = 0: nothing is below the part of W.
        objective, bound = problem.objective(*point), 0.5 * problem.gamma1 * float(np.sum(point.W**2))
        history = (self.watch.checkpoint(0, objective, bound),)
        kept = PrMLStart(next_start.D, next_start.W, np.ascontiguousarray(next_start.T.T), self.plain.dual_coef)
        result = _result(problem, point, self.plain.dual_coef, history, self.watch.control.tol, Status.STOPPED)
        return replace(result, kept=kept)


def _first_alternation(
    alternation: Alternation, predictors: _Predictors, rank: int, rng: np.random.Generator, *, mixed: bool
) -> Alternation:
    """Begin with the singular vectors of PrBR's predictors, or random mixtures, or some predictors as they are."""
    problem, ways, plain = alternation.problem, alternation.ways, predictors.plain
    D = first_dictionary(plain.coef, rank, problem.gamma1, rng, mixed=mixed)
    kept = kept_predictors(problem, plain.coef, plain.privileged, ways, rank, rng, drawn=mixed)
    # Labels without slack for some rows need predictors that this D need not have.
    bad = infeasible_labels(problem.w_step(D)) if ways.bases else {}
    if not bad:
        alternation.known = predictors.objective
        alternation.begin(D)
        alternation.known, predictors.objective = np.inf, alternation.objective
        if alternation.watch.stopped or kept is None or problem.objective(*kept) >= alternation.objective:
            return alternation
    if kept is None:
        raise ValueError(
            f"no predictors of rank {rank} were found that satisfy all constraints for {len(bad)} of "
            f"{problem.S.shape[1]} labels ({named(bad)}), which have no slack for some rows. Use "
            "privileged_intercept=True, which is always feasible, or a larger rank"
        )
    whole = predictors.whole
    better = kept_predictors(problem, whole.coef, whole.privileged, ways, rank, rng, drawn=mixed)
    if better is not None and problem.objective(*better) < problem.objective(*kept):
        kept, rival = better, alternation.again(whole.dual_coef)
    else:
        rival = alternation.again(plain.dual_coef)
    rival.begin(kept.D, kept)
    return alternation if alternation.objective <= rival.objective else rival


def _run(alternation: Alternation, control: Control, watch: Watch, before: tuple[Checkpoint, ...]) -> PrMLResult:
    """Go on until the tolerance, the limit, or the callback's word; ``before`` are the checkpoints up to here.

    Without any, the first alternation is done and has none yet.
    """
    history, status = list(before), _ended(alternation, control) if before else None
    while status is None:
        if history:
            alternation.alternate()
        state = alternation.n_done, alternation.objective, alternation.step_dual
        # What the callback ended within an alternation is no state that it has seen.
        history.append(watch.checkpoint(*state) if watch.stopped else watch.tell(*state))
        status = Status.STOPPED if watch.stopped else _ended(alternation, control)
    point = Point(alternation.D, alternation.W, alternation.T)
    return _result(alternation.problem, point, alternation.dual, tuple(history), control.tol, status)


def _result(
    problem: PrMLProblem, point: Point, dual: SlackDual, history: tuple[Checkpoint, ...], tol: float, status: Status
) -> PrMLResult:
    D, W, T = point
    privileged = np.ascontiguousarray(T.T)
    kept = PrMLStart(D, W, privileged, dual)
    coef = np.ascontiguousarray((D.T @ W).T)
    tol_abs, bound = tolerance(tol, history[-1].primal), problem.lower_bound(dual)
    return PrMLResult(coef, dual, history, tol_abs, status, D, W, privileged, bound, kept)


def _ended(alternation: Alternation, control: Control) -> Status | None:
    """How an alternation ended with the steps so far, if it did."""
    if alternation.done:
        return Status.CONVERGED
    if alternation.n_idle >= _PATIENCE:
        return Status.STALLED
    return Status.MAX_ITER if alternation.n_done >= control.max_iter else None
