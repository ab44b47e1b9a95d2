"""One start of PrML: the point it is at, and the two steps that move it.

It has converged when both steps are certified at one point: D, W and T such that neither (W, T) with D held nor (D, T)
with W held can lower the objective by more than the tolerance. That a step came back unmoved proves nothing by itself:
its tolerance may have been too loose.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.loop import ROUNDING, Control, tolerance
from ..core.result import Checkpoint, FitState
from ..core.rows import CSR
from .problem import PrMLProblem, SlackDual, SVMPlusProblem
from .start import Point, PrMLFinished, PrMLState, PrMLStopped, balanced
from .step_solver import SVMPlusResult, solve_svm_plus


@dataclass(frozen=True)
class AlternationPolicy:
    """Tuned numbers of the alternation."""

    # Most rounds and updates of a step.
    step_iter: int = 50
    # Steps are solved to this gap at first, and then to this share of the last decrease of the objective.
    first_tol: float = 0.03
    share_of_progress: float = 0.3
    # Steps become more precise than the tolerance, by halves up to this share, while W-steps do not certify what they
    # leave unmoved: an alternation that gains less than this share of the tolerance.
    finest: float = 1.0 / 16.0
    unmoved: float = 0.1
    # Scores that are nothing beside a margin of 1: alternations would only halve them, again and again.
    next_to_nothing: float = 1e-5
    # Seconds between two looks at a step under way.
    seconds: float = 2.0


POLICY = AlternationPolicy()


class PrMLFit:
    """What all starts of a fit share: the problem, and what the caller sees and decides.

    It reports the fit to the caller, also within its steps, offers its states, and notes whether the callback stopped
    it. ``control`` has ``started``; ``show`` takes a ``Checkpoint`` and the absolute tolerance.
    """

    def __init__(
        self,
        problem: PrMLProblem,
        view: np.ndarray | CSR,
        control: Control,
        show: Callable[[Checkpoint, float], None],
        n_threads: int,
    ) -> None:
        self.problem, self.view, self.control, self.show, self.n_threads = problem, view, control, show, n_threads
        self.tol, self.stopped, self.last = control.tol, False, time.perf_counter()
        self.state: PrMLState | None = None  # that of the last alternation
        self.objective_beside = np.inf  # of a point that the fit falls back on, beside the alternation under way

    @property
    def nothing(self) -> Point:
        """Zero predictors of rank 1: slacks alone, feasible if all of them can be raised."""
        problem, lift = self.problem, self.problem.privileged.lift
        assert lift is not None
        return Point(np.zeros((1, problem.X.shape[1])), np.zeros((1, len(lift))), lift)

    def within(self, n_iter: int, primal: float, dual: float) -> bool:
        """Report a point within a step if the last report is some seconds old; returns whether to stop."""
        primal = min(primal, self.objective_beside)
        if np.isfinite(primal) and not self.stopped and time.perf_counter() - self.last >= POLICY.seconds:
            self.report(self.checkpoint(n_iter, primal, dual))
        return self.stopped

    def report(self, point: Checkpoint) -> None:
        """Offer the state of the last alternation to the caller, and show a point."""
        state = self.state
        if self.control.keep is not None and state is not None:
            self.control.keep(lambda: FitState(state))
        self.show(point, tolerance(self.tol, point.primal))
        self.stopped = self.control.callback is not None and bool(self.control.callback(point))
        self.last = time.perf_counter()

    def checkpoint(self, n_iter: int, primal: float, dual: float) -> Checkpoint:
        """A point at this moment."""
        assert self.control.started is not None
        return Checkpoint(n_iter, time.perf_counter() - self.control.started, primal, dual)


class Alternation:
    """State of one start: D, W and T feasible together from the first W-step on.

    ``n_done`` alternations are done. When the callback ended the fit, the point is that of the step under way.
    """

    def __init__(self, fit: PrMLFit, dual: SlackDual) -> None:
        self.fit, self.dual = fit, dual
        self.n_done, self.n_idle, self.done = 0, 0, False
        self.step_tol = max(fit.tol, POLICY.first_tol)
        self.objective, self.step_dual = np.inf, -np.inf

    def begin(self, D: np.ndarray, point: Point | None = None) -> None:
        """First alternation, from D, or from a feasible point with that D."""
        n_labels = self.fit.problem.S.shape[1]
        self.D = np.array(D, dtype=np.float64)
        self.W, self.T = np.zeros((len(self.D), n_labels)), np.zeros((n_labels, n_labels))
        if point is not None:
            self.W, self.T, self.objective = point.W, point.T, self.fit.problem.objective(*point)
        self.alternate()

    def go_on(self, start: PrMLState, stopped: PrMLStopped) -> None:
        """Stand where an alternation of another fit ended."""
        assert start.codes is not None
        assert start.privileged is not None
        self.D, self.W, self.T = start.dictionary, start.codes, start.privileged.T
        self.objective, self.step_dual = stopped.history[-1].primal, stopped.history[-1].dual
        self.step_tol = max(POLICY.finest * self.fit.tol, stopped.step_tol)
        self.n_done, self.n_idle, self.done = stopped.history[-1].n_iter, stopped.n_idle, stopped.done

    def state(self, number: int, history: tuple[Checkpoint, ...], best: PrMLFinished | None) -> PrMLState:
        """What `go_on` needs to stand here again."""
        stopped = PrMLStopped(number, self.step_tol, self.n_idle, self.done, history, best)
        return PrMLState(*Point(self.D, self.W, self.T).arrays, self.dual, stopped)

    def alternate(self) -> None:
        """One W-step and one D-step."""
        before, T_before = self.objective, self.T
        self._w_step()
        if self.fit.stopped:
            return
        self._balance()
        self._d_step()
        if self.fit.stopped:
            return
        self.n_done += 1
        decrease = before - self.objective
        change = float(np.linalg.norm(self.T - T_before))
        tol_abs = tolerance(self.fit.tol, self.objective)
        # ||dT|| that a step of this gap can tell apart: gamma2 / 2 ||dT||^2 <= gap.
        resolution = np.sqrt(2.0 * max(self.objective - self.step_dual, 0.0) / self.fit.problem.gamma2)
        still = change <= max(self.fit.tol * float(np.linalg.norm(self.T)), resolution)
        idle = self.step_tol <= POLICY.finest * self.fit.tol and decrease <= ROUNDING * abs(self.objective)
        self.n_idle = self.n_idle + 1 if idle else 0
        gained = decrease / abs(self.objective) if self.objective != 0.0 else 0.0
        self.step_tol = max(min(self.fit.tol, self.step_tol), min(self.step_tol, POLICY.share_of_progress * gained))
        settled = decrease <= tol_abs and still and self.objective - self.step_dual <= tol_abs
        # With D held the objective can be less by this much, at most.
        self.done = (
            settled and self.objective - (self._w_solution(self.fit.tol).dual + self._of_dictionary()) <= tol_abs
        )
        if self.done:
            self._drop_worthless()
        elif decrease <= POLICY.unmoved * tol_abs:
            self.step_tol = max(POLICY.finest * self.fit.tol, 0.5 * self.step_tol)

    def _drop_worthless(self) -> None:
        """Go to zero predictors where next to nothing is left of them and slacks alone cost less."""
        problem, T = self.fit.problem, self.fit.nothing.T
        objective = problem.objective(*self.fit.nothing)
        largest = np.abs(np.asarray(problem.X @ self.D.T) @ self.W).max()
        if problem.privileged.bases or objective > self.objective or largest > POLICY.next_to_nothing:
            return
        self.D, self.W, self.T, self.objective = np.zeros(self.D.shape), np.zeros(self.W.shape), T, objective
        # With these dual variables and R = 0 the bound is that of T alone.
        self.step_dual = problem.step(problem.X, np.zeros(len(T))).dual(self.dual)

    def _solve(self, step: SVMPlusProblem, constant: float, V: np.ndarray, tol: float) -> SVMPlusResult:
        """Solve a step of which (5) is the objective plus a constant; ``V`` is that of the point before."""
        view = self.fit.view if step.X is self.fit.problem.X else step.X
        objective, before = self.objective, None
        if np.isfinite(objective):
            before = (objective - constant, V, self.T)
            # The tolerance is meant for (5), of which the step is a part.
            tol *= objective / before[0] if before[0] > 0.0 else 1.0
        control = Control(
            tol,
            POLICY.step_iter,
            within=lambda primal, dual: self.fit.within(
                self.n_done, min(objective, primal + constant), dual + constant
            ),
        )
        return solve_svm_plus(step, view, control, n_threads=self.fit.n_threads, start=self.dual, before=before)

    def _of_dictionary(self) -> float:
        """The part of the objective that the W-step does not see."""
        return 0.5 * float(np.sum(self.D * self.D))

    def _w_solution(self, tol: float) -> SVMPlusResult:
        """Best W and T for D."""
        step, constant = self.fit.problem.w_step(self.D), self._of_dictionary()
        return self._solve(step, constant, self.fit.problem.gamma1 * self.W, tol)

    def _w_step(self) -> None:
        """Go to the best W and T for D."""
        result = self._w_solution(self.step_tol)
        self.dual, self.step_dual = result.dual_coef, result.dual + self._of_dictionary()
        self._move(self.D, result.coef.T, result.privileged.T)

    def _d_step(self) -> None:
        """Go to the best D and T for W."""
        used = np.flatnonzero(self.W.any(axis=1))
        constant = 0.5 * self.fit.problem.gamma1 * float(np.sum(self.W * self.W))
        # D at hand is feasible but belongs to no V: NaN stands for it.
        nowhere = np.full((self.D.shape[1], self.W.shape[1]), np.nan)
        step = self.fit.problem.d_step(self.W[used])
        result = self._solve(step, constant, nowhere, self.step_tol)
        self.dual = result.dual_coef
        if not np.isnan(result.V).any():
            D = np.zeros(self.D.shape)
            D[used] = self.W[used] @ result.V.T
            self._move(D, self.W, result.privileged.T)
        self.step_dual = result.dual + constant

    def _move(self, D: np.ndarray, W: np.ndarray, T: np.ndarray) -> None:
        """Go to a point, unless rounding makes it the worse one."""
        objective = self.fit.problem.objective(D, W, T)
        if objective <= self.objective:
            self.D, self.W, self.T, self.objective = D, W, T, objective

    def _balance(self) -> None:
        """The D and W that cost least of all with this Z."""
        Q, corner = np.linalg.qr(self.D.T)
        D, W = balanced(corner @ self.W, len(self.D), self.fit.problem.gamma1)
        self._move(D @ Q.T, W, self.T)
