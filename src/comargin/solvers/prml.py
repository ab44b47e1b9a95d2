r"""PrML: alternation of the two convex SVM+ steps, each started with the dual variables of the other.

Both steps have the same constraints, so the dual variables of one are the start of the other. A step is solved as
precisely as the last alternation made progress, at first loosely; its result is mixed with the point before, which is
feasible too, so that the objective never rises. Between the steps D and W are balanced: the singular value
decomposition of Z = D^T W gives the pair with the same Z that costs least.

The dual objective of a checkpoint is that of the D-step (with the constant W-term of (5)): the gap says how much (D, T)
could still gain with W held. How far (5) is from its global optimum is bounded by ``PrMLProblem.lower_bound``.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..kernels._rows import CSR
from ..problems.label_prior import identity_prior
from ..problems.prml import PrMLProblem, SlackDual, SVMPlusProblem
from ._loop import Control, _progress, tolerance
from ._prml_feasible import privileged_ways
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
# Noise of the first D, relative to its largest entry.
_NOISE = 1e-4
# Singular values of Z below this fraction of the largest are rounding.
_RANK = 1e-12


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
    start: np.ndarray | None = None,
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
    start : ndarray of shape (rank, n_features) or None
        D to begin with, from every seed. If None, the first start has the singular vectors of PrBR's predictors, and
        the others random mixtures of them.

    Returns
    -------
    PrMLResult
        ``coef`` is (D^T W)^T. Converged: the D-step is solved to the tolerance, the last alternation lowered the
        objective by less than ``tol`` of it, and moved the privileged weights by less than ``tol`` of their length (or
        by less than the gap of the step can tell apart).
    """
    best: PrMLResult | None = None
    gram = None
    first: SVMPlusResult | None = None
    for number, seed in enumerate(seeds):
        rng = np.random.default_rng(seed)
        if first is None:
            first = _without_dictionary(problem, view, rng, n_threads)
        alternation = _Alternation(problem, view, control.tol, n_threads, gram, first.dual_coef)
        alternation.begin(_first_dictionary(first.coef, rank, rng, mixed=number > 0) if start is None else start)
        result = _run(alternation, control)
        gram = alternation.gram
        if best is None or result.primal < best.primal:
            best = result
        if result.status is Status.STOPPED:
            break
    if best is None:
        raise ValueError("seeds must hold at least one seed: one per start")
    return best


def _without_dictionary(
    problem: PrMLProblem, view: np.ndarray | CSR, rng: np.random.Generator, n_threads: int
) -> SVMPlusResult:
    """PrBR, loosely: its predictors and dual variables are where the alternation begins."""
    step = problem.step(problem.X, identity_prior(problem.S.shape[1])[0])
    seeds = rng.integers(2**63, size=n_seeds(step)).tolist()
    control = Control(_START_TOL, _STEP_ITER)
    return solve_svm_plus(step, view, control, seeds=seeds, n_threads=n_threads)


def _first_dictionary(coef: np.ndarray, rank: int, rng: np.random.Generator, *, mixed: bool) -> np.ndarray:
    """D (rank, n_features) of predictors (n_labels, n_features): their singular vectors, or random mixtures of them.

    Both scaled as in a balanced pair, where D^T D is (Z Z^T)^1/2. A little noise leaves no direction of D empty: what
    is zero would stay zero.
    """
    _, values, right = np.linalg.svd(coef, full_matrices=False)
    D = np.zeros((rank, coef.shape[1]))
    if mixed:
        mixture = rng.normal(size=(rank, len(values))) / np.sqrt(rank)
        D += (mixture * np.sqrt(values)) @ right
    else:
        n_kept = min(rank, len(values))
        D[:n_kept] = np.sqrt(values[:n_kept])[:, None] * right[:n_kept]
    size = float(np.abs(D).max())
    return D + _NOISE * (size if size > 0.0 else 1.0) * rng.normal(size=D.shape)


class _Alternation:
    """State of one start: D, W and T feasible together from the first W-step on."""

    def __init__(
        self,
        problem: PrMLProblem,
        view: np.ndarray | CSR,
        tol: float,
        n_threads: int,
        gram: RowGram | None,
        dual: SlackDual,
    ) -> None:
        self.problem, self.view, self.tol, self.n_threads = problem, view, tol, n_threads
        self.gram, self.dual = gram, dual
        self.w_penalty: np.ndarray | None = None
        self.d_penalty: np.ndarray | None = None
        self.step_tol = max(tol, _FIRST_TOL)
        self.objective, self.step_dual = np.inf, -np.inf

    def begin(self, D: np.ndarray) -> None:
        """First D."""
        n_labels = self.problem.S.shape[1]
        self.D = np.array(D, dtype=np.float64)
        self.W, self.T = np.zeros((len(self.D), n_labels)), np.zeros((n_labels, n_labels))
        self.ways = privileged_ways(self.problem.w_step(self.D))

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
        self.done = decrease <= tol_abs and still and self.objective - self.step_dual <= tol_abs
        progress = decrease / abs(self.objective) if self.objective != 0.0 else 0.0
        self.step_tol = max(self.tol, min(self.step_tol, _SHARE_OF_PROGRESS * progress))

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
        """The D and W that cost least of all with this Z: singular vectors, times the roots of the singular values."""
        Q, corner = np.linalg.qr(self.D.T)
        left, values, right = np.linalg.svd(corner @ self.W, full_matrices=False)
        values = np.where(values > _RANK * values[0], values, 0.0)
        root, scale = np.sqrt(values)[:, None], self.problem.gamma1**0.25
        D, W = np.zeros(self.D.shape), np.zeros(self.W.shape)
        D[: len(values)] = scale * root * (Q @ left).T
        W[: len(values)] = root / scale * right
        objective = self.problem.objective(D, W, self.T)
        if objective <= self.objective:
            self.D, self.W, self.objective = D, W, objective


def _run(alternation: _Alternation, control: Control) -> PrMLResult:
    """Alternate until the tolerance, the limit, or the callback's word."""
    begin = time.perf_counter() if control.started is None else control.started
    history: list[Checkpoint] = []
    status = Status.MAX_ITER
    with _progress(control) as show:
        for n_iter in range(1, max(control.max_iter, 1) + 1):
            alternation.alternate()
            seconds = time.perf_counter() - begin
            history.append(Checkpoint(control.n_before + n_iter, seconds, alternation.objective, alternation.step_dual))
            tol_abs = tolerance(control.tol, alternation.objective)
            show(history[-1], tol_abs)
            if control.callback is not None and control.callback(history[-1]):
                status = Status.STOPPED
                break
            if alternation.done:
                status = Status.CONVERGED
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
