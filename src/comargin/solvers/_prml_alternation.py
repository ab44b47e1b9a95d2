"""One start of PrML: the point it is at, and the two steps that move it."""

from __future__ import annotations

import numpy as np

from ..kernels._rows import CSR
from ..problems.prml import PrMLProblem, SlackDual, SVMPlusProblem
from ._loop import ROUNDING, Control, tolerance
from ._prml_start import Point, PrMLFinished, PrMLStart, PrMLStopped, balanced
from ._prml_step import Ways
from ._prml_system import Features, RowGram
from ._result import Checkpoint
from .prbr import SVMPlusResult, solve_svm_plus

# Most updates of a step.
STEP_ITER = 50
# Steps are solved to this gap at first, and then to this share of the last decrease of the objective.
_FIRST_TOL = 0.03
_SHARE_OF_PROGRESS = 0.3
# The W-step is not the one that is certified in the end: it may be as much less precise.
_W_TOL = 3.0
# Penalties at which a step begins, relative to where the same step ended in the alternation before.
_PENALTY_BACK = 1.0 / 16.0
# Nothing is converged while steps are looser than this many tolerances.
_LOOSE = 3.0


class Alternation:
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

    def again(self, dual: SlackDual) -> Alternation:
        """Another start."""
        return Alternation(self.problem, self.view, self.tol, self.n_threads, self.ways, dual, self.gram)

    def begin(self, D: np.ndarray, point: Point | None = None) -> None:
        """First alternation, from D, or from a feasible point with that D."""
        n_labels = self.problem.S.shape[1]
        self.D = np.array(D, dtype=np.float64)
        self.W, self.T = np.zeros((len(self.D), n_labels)), np.zeros((n_labels, n_labels))
        if point is not None:
            self.W, self.T, self.objective = point.W, point.T, self.problem.objective(*point)
        self.alternate()

    def go_on(self, start: PrMLStart, stopped: PrMLStopped) -> None:
        """Stand where a callback stopped an alternation."""
        assert start.codes is not None
        assert start.privileged is not None
        self.D, self.W, self.T = start.dictionary, start.codes, start.privileged.T
        self.objective, self.step_dual = stopped.history[-1].primal, stopped.history[-1].dual
        self.step_tol = max(self.tol, stopped.step_tol)
        self.w_penalty, self.d_penalty = stopped.w_penalty, stopped.d_penalty
        self.n_idle, self.done = stopped.n_idle, stopped.done

    def stopped(self, number: int, history: tuple[Checkpoint, ...], best: PrMLFinished | None) -> PrMLStopped:
        """What `go_on` needs to stand here again."""
        return PrMLStopped(number, self.step_tol, self.w_penalty, self.d_penalty, self.n_idle, self.done, history, best)

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
            Control(tol, STEP_ITER),
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
