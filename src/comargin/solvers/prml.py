r"""PrML: alternation of the two convex SVM+ steps, each started with the dual variables of the other.

Both steps have the same constraints, so the dual variables of one are the start of the other. A step is solved as
precisely as the last alternation made progress, at first loosely; its result is mixed with the point before, which is
feasible too, so that the objective never rises. Between the steps D and W are balanced: the singular value
decomposition of Z = D^T W gives the pair with the same Z that costs least.

The first D has the singular vectors of PrBR's predictors. Where an alternation from there does worse than PrBR's
predictors of a few labels alone, one begins with those as well, and the better of both goes on.

The dual objective of a checkpoint is that of the D-step (with the constant W-term of (5)): the gap says how much (D, T)
could still gain with W held. How far (5) is from its global optimum is bounded by ``PrMLProblem.lower_bound``.
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
from ._loop import ROUNDING, Control, progress, tolerance
from ._prml_feasible import infeasible_labels, named, privileged_ways
from ._prml_start import Point, PrMLStart, balanced, first_dictionary, kept_predictors
from ._prml_step import Ways
from ._prml_system import Features, RowGram
from ._result import Checkpoint, Result, Status
from .prbr import SVMPlusResult, n_seeds, solve_svm_plus

# Steps are solved to this gap at first, and then to this share of the last decrease of the objective.
_FIRST_TOL = 0.03
_SHARE_OF_PROGRESS = 0.3
# The gap to which PrBR is solved for a start.
_START_TOL = 0.1
_STEP_ITER = 50
# The W-step is not the one that is certified in the end: it may be as much less precise.
_W_TOL = 3.0
# Penalties at which a step begins, relative to where the same step ended in the alternation before.
_PENALTY_BACK = 1.0 / 16.0
# Problems solved for predictors that cost their lengths in place of half their squares, and the smallest length in the
# first of them, relative to the largest.
_REWEIGHTED = 2
_SHORTEST = 1e-3
# Nothing is converged while steps are looser than this many tolerances, and alternations without any change at full
# precision are a stall when there are this many.
_LOOSE = 3.0
_PATIENCE = 3


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
    """

    dictionary: np.ndarray
    codes: np.ndarray
    privileged: np.ndarray
    lower_bound: float


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
        Tolerance, most alternations, progress and callback.
    rank : int
        Rows of D and W.
    seeds : iterable of int
        One seed per start; the start with the best objective is returned.
    n_threads : int, default=1
        Threads; the result is the same for any number.
    start : PrMLStart or None
        Where the first start begins; from its D alone, if the rest is not feasible for this problem. If None, it has
        the singular vectors of PrBR's predictors. All others have random mixtures of them.

    Returns
    -------
    PrMLResult
        ``coef`` is (D^T W)^T. Converged: the D-step is solved to the tolerance, the last alternation lowered the
        objective by less than ``tol`` of it, and moved the privileged weights by less than ``tol`` of their length (or
        by less than the gap of the step can tell apart).
    """
    started = time.perf_counter() if control.started is None else control.started
    control = replace(control, started=started)
    ways = privileged_ways(problem.step(problem.X, identity_prior(problem.S.shape[1])[0]))
    best: PrMLResult | None = None
    gram: RowGram | None = None
    predictors: _Predictors | None = None
    for number, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        known = start if number == 0 else None
        dual = None if known is None or not _fits(known.dual, problem) else known.dual
        if dual is None:
            predictors = _Predictors(problem, view, ways, rng, n_threads) if predictors is None else predictors
            dual = predictors.plain.dual_coef
        alternation = _Alternation(problem, view, control.tol, n_threads, ways, dual, gram)
        if known is not None:
            point = known.point(problem)
            if point is not None:  # as precise as the solution it comes from
                alternation.step_tol = control.tol
            alternation.begin(known.dictionary, point)
        else:
            assert predictors is not None
            alternation = _first_alternation(alternation, predictors, rank, rng, mixed=number > 0)
        result = _run(alternation, control)
        gram = alternation.gram
        if best is None or result.primal < best.primal:
            best = result
        if result.status is Status.STOPPED:
            break
    if best is None:
        raise ValueError("seeds must hold at least one seed: one per start")
    return best


def _fits(dual: SlackDual | None, problem: PrMLProblem) -> bool:
    """Whether dual variables are of these rows, label sets and labels."""
    shapes = problem.S.shape, problem.set_cost.shape
    return dual is not None and (dual.A.shape, dual.B.shape) == shapes


class _Predictors:
    """Predictors of the labels, each for itself, loosely: where the alternation begins."""

    def __init__(
        self, problem: PrMLProblem, view: np.ndarray | CSR, ways: Ways, rng: np.random.Generator, n_threads: int
    ) -> None:
        self.problem, self.view, self.ways, self.n_threads = problem, view, ways, n_threads
        self.seeds = rng.integers(2**63, size=n_seeds(self._step(np.ones(problem.S.shape[1])))).tolist()

    def _step(self, r: np.ndarray) -> SVMPlusProblem:
        return self.problem.step(self.problem.X, PriorPart(np.arange(len(r)), "diagonal", r))

    def _solve(self, r: np.ndarray, start: SlackDual | None) -> SVMPlusResult:
        control = Control(_START_TOL, _STEP_ITER)
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
            if not lengths.any():
                break
            r = np.maximum(lengths, _SHORTEST * lengths.max()) / np.sqrt(self.problem.gamma1)
            result = self._solve(r, result.dual_coef)
        return result


def _first_alternation(
    alternation: _Alternation, predictors: _Predictors, rank: int, rng: np.random.Generator, *, mixed: bool
) -> _Alternation:
    """Begin with the singular vectors of PrBR's predictors, or random mixtures, or some predictors as they are."""
    problem, ways, plain = alternation.problem, alternation.ways, predictors.plain
    D = first_dictionary(plain.coef, rank, problem.gamma1, rng, mixed=mixed)
    kept = kept_predictors(problem, plain.coef, plain.privileged, ways, rank, rng, drawn=mixed)
    # Labels without slack for some rows need predictors that this D need not have.
    bad = infeasible_labels(problem.w_step(D)) if ways.bases else {}
    if not bad:
        alternation.begin(D)
        if kept is None or problem.objective(*kept) >= alternation.objective:
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


class _Alternation:
    """State of one start: D, W and T feasible together from the first W-step on."""

    def __init__(
        self,
        problem: PrMLProblem,
        view: np.ndarray | CSR,
        tol: float,
        n_threads: int,
        ways: Ways,
        dual: SlackDual,
        gram: RowGram | None,
    ) -> None:
        self.problem, self.view, self.tol, self.n_threads, self.ways = problem, view, tol, n_threads, ways
        self.dual, self.gram = dual, gram
        self.n_idle = 0
        self.w_penalty: np.ndarray | None = None
        self.d_penalty: np.ndarray | None = None
        self.step_tol = max(tol, _FIRST_TOL)
        self.objective, self.step_dual = np.inf, -np.inf

    def again(self, dual: SlackDual) -> _Alternation:
        """Another start."""
        return _Alternation(self.problem, self.view, self.tol, self.n_threads, self.ways, dual, self.gram)

    def begin(self, D: np.ndarray, point: Point | None = None) -> None:
        """First alternation, from D, or from a feasible point with that D."""
        n_labels = self.problem.S.shape[1]
        self.D = np.array(D, dtype=np.float64)
        self.W, self.T = np.zeros((len(self.D), n_labels)), np.zeros((n_labels, n_labels))
        if point is not None:
            self.W, self.T, self.objective = point.W, point.T, self.problem.objective(*point)
        self.alternate()

    def alternate(self) -> None:
        """One W-step and one D-step."""
        before, T_before = self.objective, self.T
        self._w_step()
        self._balance()
        self._d_step()
        decrease = before - self.objective
        self.change = float(np.linalg.norm(self.T - T_before))
        tol_abs = tolerance(self.tol, self.objective)
        # ||dT|| that a step of this gap can tell apart: gamma2 / 2 ||dT||^2 <= gap.
        resolution = np.sqrt(2.0 * max(self.objective - self.step_dual, 0.0) / self.problem.gamma2)
        still = self.change <= max(self.tol * float(np.linalg.norm(self.T)), resolution)
        precise = self.step_tol <= _LOOSE * self.tol
        self.done = precise and decrease <= tol_abs and still and self.objective - self.step_dual <= tol_abs
        idle = self.step_tol <= self.tol and decrease <= ROUNDING * abs(self.objective)
        self.n_idle = self.n_idle + 1 if idle else 0
        gained = decrease / abs(self.objective) if self.objective != 0.0 else 0.0
        self.step_tol = max(self.tol, min(self.step_tol, _SHARE_OF_PROGRESS * gained))

    def _solve(
        self,
        step: SVMPlusProblem,
        view: np.ndarray | CSR,
        penalty: np.ndarray | None,
        gram: RowGram | None,
        known: tuple[float, np.ndarray, np.ndarray] | None = None,
        looser: float = 1.0,
    ) -> SVMPlusResult:
        start = None if penalty is None else _PENALTY_BACK * penalty
        # The tolerance is meant for (5), of which a coupled step is a part.
        tol = looser * self.step_tol * (self.objective / known[0] if known is not None and known[0] > 0.0 else 1.0)
        return solve_svm_plus(
            step,
            view,
            Control(tol, _STEP_ITER),
            seeds=(),
            n_threads=self.n_threads,
            start=self.dual,
            penalty=start,
            ways=self.ways,
            gram=gram,
            known=known,
        )

    def _w_step(self) -> None:
        """Best W and T for D."""
        step = self.problem.w_step(self.D)
        known = None
        if np.isfinite(self.objective):
            known = (self.objective - 0.5 * float(np.sum(self.D * self.D)), self.problem.gamma1 * self.W, self.T)
        result = self._solve(step, step.X, self.w_penalty, None, known, _W_TOL)
        self.w_penalty, self.dual = result.penalty, result.dual_coef
        self._move(self.D, result.coef.T, result.privileged.T)

    def _d_step(self) -> None:
        """Best D and T for W."""
        used = np.flatnonzero(self.W.any(axis=1))
        step = self.problem.d_step(self.W[used])
        if not isinstance(self.problem.X, np.ndarray) and self.gram is None:
            self.gram = RowGram(Features(self.problem.X, self.view))
        constant = 0.5 * self.problem.gamma1 * float(np.sum(self.W * self.W))
        # D at hand is feasible but belongs to no V: NaN stands for it.
        nowhere = np.full((self.D.shape[1], self.W.shape[1]), np.nan)
        known = (self.objective - constant, nowhere, self.T)
        result = self._solve(step, self.view, self.d_penalty, self.gram, known)
        self.d_penalty, self.dual = result.penalty, result.dual_coef
        if not np.isnan(result.V).any():
            D = np.zeros(self.D.shape)
            D[used] = self.W[used] @ result.V.T
            self._move(D, self.W, result.privileged.T)
        self.step_dual = result.dual + constant

    def _move(self, D: np.ndarray, W: np.ndarray, T: np.ndarray) -> None:
        """Go to the best mixture of this point and that at hand, both feasible for one step."""
        old, new = (self.D, self.W, self.T), (D, W, T)
        share = _best_share(self.problem, old, new) if np.isfinite(self.objective) else 1.0
        self.D, self.W, self.T = (_mix(a, b, share) for a, b in zip(old, new, strict=True))
        self.objective = self.problem.objective(self.D, self.W, self.T)

    def _balance(self) -> None:
        """The D and W that cost least of all with this Z."""
        Q, corner = np.linalg.qr(self.D.T)
        D, W = balanced(corner @ self.W, len(self.D), self.problem.gamma1)
        D = D @ Q.T
        objective = self.problem.objective(D, W, self.T)
        if objective <= self.objective:
            self.D, self.W, self.objective = D, W, objective


def _run(alternation: _Alternation, control: Control) -> PrMLResult:
    """Go on after the first alternation until the tolerance, the limit, or the callback's word."""
    assert control.started is not None
    history: list[Checkpoint] = []
    status = Status.MAX_ITER
    with progress(control) as show:
        for n_iter in range(1, max(control.max_iter, 1) + 1):
            if n_iter > 1:
                alternation.alternate()
            seconds = time.perf_counter() - control.started
            history.append(Checkpoint(control.n_before + n_iter, seconds, alternation.objective, alternation.step_dual))
            tol_abs = tolerance(control.tol, alternation.objective)
            show(history[-1], tol_abs)
            if control.callback is not None and control.callback(history[-1]):
                status = Status.STOPPED
                break
            if alternation.done or alternation.n_idle >= _PATIENCE:
                status = Status.CONVERGED if alternation.done else Status.STALLED
                break
    D, W, T = alternation.D, alternation.W, alternation.T
    return PrMLResult(
        np.ascontiguousarray((D.T @ W).T),
        alternation.dual,
        tuple(history),
        tol_abs,
        status,
        D,
        W,
        np.ascontiguousarray(T.T),
        alternation.problem.lower_bound(alternation.dual),
    )


def _mix(old: np.ndarray, new: np.ndarray, share: float) -> np.ndarray:
    return new if share == 1.0 else (1.0 - share) * old + share * new


_Point = tuple[np.ndarray, np.ndarray, np.ndarray]


def _best_share(problem: PrMLProblem, old: _Point, new: _Point) -> float:
    """Share of ``new`` in the best mixture of two feasible points of a step, on which the objective is quadratic."""
    middle = tuple(0.5 * (a + b) for a, b in zip(old, new, strict=True))
    first, centre, last = (problem.objective(*point) for point in (old, middle, new))
    curvature = 4.0 * (first - 2.0 * centre + last)
    slope = last - first - 0.5 * curvature
    if curvature <= 0.0:
        return 1.0 if last <= first else 0.0
    return float(np.clip(-slope / curvature, 0.0, 1.0))
