r"""PrML: alternation of the two convex SVM+ steps, each started with the dual variables of the other.

Both steps have the same constraints, so the dual variables of one are the start of the other. A step is solved as
precisely as the last alternation made progress, at first loosely. It knows the point before, which is feasible too, and
returns it where nothing better is found, so that the objective never rises. Between the steps D and W are balanced.

The first D has the singular vectors of PrBR's predictors. Where an alternation from there does worse than PrBR's
predictors of a few labels alone, one begins with those as well, and the better of both goes on.

The dual objective of a checkpoint is that of the D-step (with the constant W-term of (5)): the gap says how much (D, T)
could still gain with W held. In the end a W-step certifies the same point. ``lower_bound`` says how far (5) may be from
its global optimum.
"""

import time
from dataclasses import dataclass, replace

import numpy as np

from ..core.loop import Control, progress, tolerance
from ..core.result import Checkpoint, Result, Status
from ..core.rows import CSR
from ..core.threads import one_blas_thread
from . import _alternation
from ._alternation import Alternation, PrMLFit
from ._directions import infeasible_labels, named, with_directions
from .problem import PrMLProblem, SlackDual
from .start import Point, PrMLFinished, PrMLState, PrMLStopped, first_dictionary, kept_predictors
from .step_solver import SVMPlusResult, solve_svm_plus


@dataclass(frozen=True)
class StartPolicy:
    """Tuned numbers of the starts and the end of a fit."""

    # The gap to which PrBR is solved for a start.
    start_tol: float = 0.1
    # Reweighted PrBR problems that approximate the cost sum ||z|| in place of 1/2 ||z||^2, and the smallest length in
    # the first of them, relative to the largest.
    reweighted: int = 2
    shortest: float = 1e-3
    # Alternations without any change at full precision are a stall when there are this many.
    patience: int = 3
    # Objectives of one point in one problem differ by at most this fraction.
    same: float = 1e-10


POLICY = StartPolicy()


@dataclass(frozen=True)
class PrMLResult(Result):
    """Solution of PrML; ``dual_coef`` is the ``SlackDual`` of the last step."""

    dictionary: np.ndarray  # D (rank, n_features)
    codes: np.ndarray  # W (rank, n_labels)
    privileged: np.ndarray  # (n_labels, n_labels): row i has the privileged weights of label i, at i the constant's
    lower_bound: float  # no D, W and T, of any rank, have a smaller objective than this
    kept: PrMLState  # where a next solve can start; the alternation that a callback stopped need not be the best one


def solve_prml(
    problem: PrMLProblem,
    view: np.ndarray | CSR,
    control: Control,
    *,
    rank: int,
    seeds: list[int],
    n_threads: int = 1,
    start: PrMLState | None = None,
) -> PrMLResult:
    """Alternate until neither the objective nor the privileged weights change any more.

    ``view`` is ``problem.X`` as compiled loops take it, ``rank`` the rows of D and W. There is one seed per start; the
    result is the best of them, the same for any number of threads. The callback sees every alternation and, every few
    seconds, the step under way; ``control.keep`` is offered the state of the last alternation at the same moments.

    The first start begins at ``start``, or at its D where the rest is not feasible for this problem; without it, at the
    singular vectors of PrBR's predictors. All others begin at random mixtures of them. The state of a fit of the same
    problem goes on as if never interrupted, or from its point if a callback stopped it within an alternation.

    Converged: both steps are certified to ``tol`` of the objective at the point returned, the last alternation lowered
    it by no more, and moved the privileged weights by at most ``tol`` of their length (or by less than the gap of the
    step can tell apart). Stopped within an alternation: the last checkpoint is that of the step under way.
    """
    if not seeds:
        raise ValueError("seeds must hold at least one seed: one per start")
    started = time.perf_counter() if control.started is None else control.started
    stopped = None if start is None else _going_on(start, problem, len(seeds))
    control = replace(control, started=started - (stopped.history[-1].seconds if stopped is not None else 0.0))
    # Rounding decides between local optima: it must not depend on the threads of BLAS.
    with one_blas_thread(), progress(control) as show:
        ones = np.ones(problem.S.shape[1])
        problem = replace(problem, privileged=with_directions(problem.step(problem.X, ones)))
        fit = PrMLFit(problem, view, control, show, n_threads)
        best, first = (None, 0) if stopped is None else (stopped.best, stopped.number)
        prbr: SVMPlusResult | None = None
        for number, seed in enumerate(seeds[first:], first):
            rng = np.random.default_rng(seed)
            given = start if number == first else None
            dual = None if given is None or not _fits(given.dual, problem) else given.dual
            if dual is None:
                if prbr is None:
                    # Recompute the predictors of the stopped fit, from its first seed.
                    rng_before = rng if stopped is None else np.random.default_rng(seeds[0])
                    prbr = _predictors(fit, ones, None, int(rng_before.integers(2**63)))
                dual = prbr.dual_coef
                if fit.stopped:
                    return _unfinished(fit, prbr, rank, rng) if best is None else _result(fit, best, Status.STOPPED)
            alternation = Alternation(fit, dual)
            history: tuple[Checkpoint, ...] = ()
            if given is not None and stopped is not None:
                alternation.go_on(given, stopped)
                history = stopped.history
            elif given is not None:
                point = given.point(problem)
                if point is not None:  # as precise as the solution it comes from
                    alternation.step_tol = control.tol
                alternation.begin(given.dictionary, point)
            else:
                assert prbr is not None
                alternation = _first_alternation(alternation, prbr, rank, rng, mixed=number > 0)
                if fit.stopped and best is None:  # a step under way may be far above what there was before it
                    earlier = _unfinished(fit, prbr, rank, rng)
                    if earlier.primal < alternation.objective:
                        return earlier
            before, found = best, _run(alternation, history, number, best)
            if best is None or found.history[-1].primal < best.history[-1].primal:
                best = found
            if fit.stopped:
                return _result(fit, best, Status.STOPPED, alternation.state(number, found.history, before))
        assert best is not None
        return _result(fit, best, Status[best.status])


def _going_on(start: PrMLState, problem: PrMLProblem, n_starts: int) -> PrMLStopped | None:
    """The progress of a stopped fit, if it belongs to this problem: its point must have the objective it had then."""
    stopped = start.stopped
    if stopped is None or stopped.number >= n_starts or not _fits(start.dual, problem):
        return None
    point, then = start.point(problem), stopped.history[-1].primal
    objective = np.inf if point is None else problem.objective(*point)
    return stopped if abs(objective - then) <= POLICY.same * abs(then) else None


def _fits(dual: SlackDual | None, problem: PrMLProblem) -> bool:
    """Whether dual variables are of these rows, label sets and labels."""
    shapes = problem.S.shape, problem.set_cost.shape
    return dual is not None and (dual.A.shape, dual.B.shape) == shapes


def _predictors(fit: PrMLFit, r: np.ndarray, start: SlackDual | None, seed: int = 0) -> SVMPlusResult:
    """Predictors of the labels, each for itself and loosely, at the cost ||z_i||^2 / (2 r_i): PrBR with r = 1."""
    problem = fit.problem
    if start is None and not problem.privileged.bases:
        fit.objective_beside = problem.objective(*fit.nothing)  # what is shown meanwhile
    control = Control(
        POLICY.start_tol, _alternation.POLICY.step_iter, within=lambda primal, dual: fit.within(0, np.inf, 0.0)
    )
    return solve_svm_plus(
        problem.step(problem.X, r), fit.view, control, seed=seed, n_threads=fit.n_threads, start=start
    )


def _whole_predictors(fit: PrMLFit, result: SVMPlusResult) -> SVMPlusResult:
    """Predictors at the cost that those with a row of D each have: sqrt(gamma1) ||z||, by squares reweighted.

    The squares of PrBR make predictors that are too short to be kept whole. With c = ||z|| the bound
    ||z|| <= (||z||^2 / c + c) / 2 is tight: R = c / sqrt(gamma1).
    """
    for _ in range(POLICY.reweighted):
        lengths = np.linalg.norm(result.coef, axis=1)
        if not lengths.any() or fit.stopped:
            break
        r = np.maximum(lengths, POLICY.shortest * lengths.max()) / np.sqrt(fit.problem.gamma1)
        result = _predictors(fit, r, result.dual_coef)
    return result


def _unfinished(fit: PrMLFit, prbr: SVMPlusResult, rank: int, rng: np.random.Generator) -> PrMLResult:
    """The result when the callback ends the fit before the first alternation: predictors of a few labels, or none.

    The next fit begins there, or with the singular vectors of PrBR's predictors.
    """
    problem, (n_labels, n_features) = fit.problem, prbr.coef.shape
    point = next_start = kept_predictors(problem, prbr.coef, prbr.privileged, rank, rng, drawn=False)
    if point is None or next_start is None:
        D = first_dictionary(prbr.coef, rank, problem.gamma1, rng, mixed=False)
        next_start = Point(D, np.zeros((rank, n_labels)), fit.nothing.T)
        point = next_start._replace(D=np.zeros((rank, n_features)))
    # Of all A = 0: nothing is below the part of W.
    objective, bound = problem.objective(*point), 0.5 * problem.gamma1 * float(np.sum(point.W**2))
    history, kept = (fit.checkpoint(0, objective, bound),), PrMLState(*next_start.arrays, prbr.dual_coef)
    return _result(fit, PrMLFinished(*point.arrays, prbr.dual_coef, history, ""), Status.STOPPED, kept)


def _first_alternation(
    alternation: Alternation, prbr: SVMPlusResult, rank: int, rng: np.random.Generator, *, mixed: bool
) -> Alternation:
    """Begin with the singular vectors of PrBR's predictors, or random mixtures, or some predictors as they are."""
    fit, problem = alternation.fit, alternation.fit.problem
    D = first_dictionary(prbr.coef, rank, problem.gamma1, rng, mixed=mixed)
    kept = kept_predictors(problem, prbr.coef, prbr.privileged, rank, rng, drawn=mixed)
    # Labels without slack for some rows need predictors that this D need not have.
    bad = infeasible_labels(problem.w_step(D)) if problem.privileged.bases else {}
    if not bad:
        alternation.begin(D)
        fit.objective_beside = alternation.objective
        if fit.stopped or kept is None or problem.objective(*kept) >= alternation.objective:
            return alternation
    if kept is None:
        raise ValueError(
            f"no predictors of rank {rank} were found that satisfy all constraints for {len(bad)} of "
            f"{problem.S.shape[1]} labels ({named(bad)}), which have no slack for some rows. Use "
            "privileged_intercept=True, which is always feasible, or a larger rank"
        )
    whole, dual = _whole_predictors(fit, prbr), prbr.dual_coef
    better = kept_predictors(problem, whole.coef, whole.privileged, rank, rng, drawn=mixed)
    if better is not None and problem.objective(*better) < problem.objective(*kept):
        kept, dual = better, whole.dual_coef
    rival = Alternation(fit, dual)
    rival.begin(kept.D, kept)
    return alternation if alternation.objective <= rival.objective else rival


def _run(
    alternation: Alternation, before: tuple[Checkpoint, ...], number: int, best: PrMLFinished | None
) -> PrMLFinished:
    """Alternate until the tolerance, the limit, or the callback ends it; ``before`` are the checkpoints up to here.

    Without any, the first alternation is done and has none yet. Every alternation is a state to go on from: ``number``
    is that of the start, ``best`` the best of those before.
    """
    fit = alternation.fit
    fit.objective_beside = np.inf
    history, status = list(before), _ended(alternation) if before else None
    while status is None:
        if history:
            alternation.alternate()
        point = fit.checkpoint(alternation.n_done, alternation.objective, alternation.step_dual)
        history.append(point)
        if not fit.stopped:  # a point within an alternation is no state to continue from
            fit.state = alternation.state(number, tuple(history), best)
            fit.report(point)
        status = Status.STOPPED if fit.stopped else _ended(alternation)
    reached = Point(alternation.D, alternation.W, alternation.T)
    return PrMLFinished(*reached.arrays, alternation.dual, tuple(history), status.name)


def _result(fit: PrMLFit, found: PrMLFinished, status: Status, kept: PrMLState | None = None) -> PrMLResult:
    D, W, privileged, dual, history, _ = found
    tol_abs, bound = tolerance(fit.tol, history[-1].primal), fit.problem.lower_bound(dual)
    kept = PrMLState(D, W, privileged, dual) if kept is None else kept
    coef = np.ascontiguousarray((D.T @ W).T)
    return PrMLResult(coef, dual, history, tol_abs, status, D, W, privileged, bound, kept)


def _ended(alternation: Alternation) -> Status | None:
    """How an alternation ended with the steps so far, if it did."""
    if alternation.done:
        return Status.CONVERGED
    if alternation.n_idle >= POLICY.patience:
        return Status.STALLED
    return Status.MAX_ITER if alternation.n_done >= alternation.fit.control.max_iter else None
