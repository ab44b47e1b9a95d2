"""Convex SVM+ problems to a certified gap: PrBR, and both steps of PrML.

The start is M3L: a few passes of its coordinate descent with A between 0 and the cost, B = cost - A, so that T = 0.
Passes with split slacks (``_prml_split``) come next: they leave labels that R does not couple near their solution or
at it, and are most of the work for coupled ones. Then the method of multipliers with Newton steps (``_prml_step``),
labels that R does not couple in threads; those it does not solve soon are given to an interior-point method if their
weights are few (``_prml_finish``).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..kernels._rows import CSR
from ..problems.label_prior import PriorPart
from ..problems.m3l import M3LProblem
from ..problems.prml import SlackDual, SVMPlusProblem
from ..problems.rows import squared_lengths
from ._loop import Control, run_loop, tolerance
from ._prml_coupled import solves_directly
from ._prml_feasible import privileged_ways
from ._prml_finish import finish_label
from ._prml_split import LabelPasses, LabelRun, SplitPhase
from ._prml_step import StepBlock, Ways
from ._prml_system import Features, RowGram
from ._result import Checkpoint, Result, Status
from ._threads import worker_threads
from .m3l import label_blocks, solve_m3l

# Passes of coordinate descent before the first Newton step, and the gap at which they end early.
_START_PASSES = 10
_START_TOL = 0.05
# Passes with split slacks between two certificates, and most of them; repairs are made when the dual rises by less than
# this share of the gap.
_SPLIT_PASSES, _SPLIT_GROWTH = 100, 1.5
_MOST_PASSES, _MOST_IF_DIRECT = 3000, 600
_TOO_FAR = 0.5
_STILL_RISING = 0.25
# Updates that may pass before the first feasible point, in the literal form.
_FIRST_STEPS = 100
# Updates of the multipliers of a label before an interior-point method is tried.
_FINISH_AFTER = 10
# Most rows of a Gram matrix that all labels share; computed when those of single labels would be this share of it.
_SHARED_GRAM, _WORTH_SHARING = 4096, 0.2


@dataclass(frozen=True)
class SVMPlusResult(Result):
    """Solution and certificate of an SVM+ problem; ``dual_coef`` is a ``SlackDual``.

    Attributes
    ----------
    privileged : ndarray of shape (n_labels, n_labels)
        Row i has the privileged weights of label i, at its own place the constant's.
    V : ndarray of shape (n_features, n_labels)
        With Z = V R.
    penalty : ndarray of shape (n_labels,)
        Where the method of multipliers ended; a start for a similar problem.
    """

    privileged: np.ndarray
    V: np.ndarray
    penalty: np.ndarray


def solve_svm_plus(
    problem: SVMPlusProblem,
    view: np.ndarray | CSR,
    control: Control,
    *,
    seeds: Iterable[int],
    n_threads: int = 1,
    start: SlackDual | None = None,
    penalty: np.ndarray | None = None,
    ways: Ways | None = None,
    gram: RowGram | None = None,
    known: tuple[float, np.ndarray, np.ndarray] | None = None,
) -> SVMPlusResult:
    """Solve an SVM+ problem to a certified gap.

    Parameters
    ----------
    problem : SVMPlusProblem
        All labels.
    view : ndarray or CSR
        ``problem.X`` as the kernels take it.
    control : Control
        Tolerance, limits (of updates of the multipliers), progress and callback. ``within`` is called between passes
        over coupled labels, and between labels.
    seeds : iterable of int
        One seed per block of ``label_blocks((problem.prior,))``; used when there is no start.
    n_threads : int, default=1
        Threads; the result is the same for any number.
    start : SlackDual or None
        Dual start; some passes of M3L if None.
    penalty : ndarray of shape (n_labels,) or None
        The penalty of an earlier result, for a start near the solution.
    ways : Ways or None
        ``privileged_ways(problem)``, if it is known.
    gram : RowGram or None
        Of ``problem.X``, for coupled labels; it is filled as needed.
    known : tuple of float and two ndarrays, or None
        Objective, V and T of a feasible point, of all labels together. It is returned, with V unchanged, whatever it
        is, if the start proves it good enough; for labels that R couples also if nothing better is found.

    Returns
    -------
    SVMPlusResult
        ``coef`` is Z^T; with the privileged weights it is feasible, and its objective the last primal of ``history``.
    """
    ways = privileged_ways(problem) if ways is None else ways
    seeds = list(seeds)
    seed = seeds[0] if seeds else 0
    if start is None:
        start = m3l_start(problem, view, seeds=seeds, n_threads=n_threads)
    features = Features(problem.X, view)
    mean_sqnorm = float(np.mean(squared_lengths(problem.X)))
    labels = problem.labels
    coupled = problem.prior.form != "diagonal"
    shared = not isinstance(problem.X, np.ndarray) and features.n_samples <= _SHARED_GRAM
    if shared:
        gram = RowGram(features) if gram is None else gram

    def block_of(some: np.ndarray) -> StepBlock:
        own = SlackDual(start.A[:, some], start.B[:, some])
        return StepBlock(problem, some, features, mean_sqnorm, control.tol, own, ways, penalty)

    with worker_threads(min(n_threads, len(labels))) as pool:
        can_split = _can_split(problem, ways)
        together = coupled or (can_split and known is not None)
        passes, runs = None, dict[int, LabelRun]()
        updates = np.zeros(len(labels), dtype=np.int64)
        looking = False

        def look() -> None:
            """Show how far it is; what the blocks have found so far stays when this ends it."""
            if looking and control.within is not None and control.within(*_objectives(blocks)):
                raise _EndedWithin

        run = _looking(pool.map, look)

        def single_labels() -> list[StepBlock]:
            singles = list(pool.map(block_of, [labels[i : i + 1] for i in labels]))
            if can_split:
                common = LabelPasses(problem, seed)
                runs.update((i, LabelRun(common, singles[i])) for i in labels)
            return singles

        if together:
            blocks = [block_of(labels)]
            if known is not None:
                blocks[0].keep(*known)
            passes = _Split(blocks[0], seed) if coupled and can_split else None
        else:
            blocks = single_labels()

        def advance(block: StepBlock) -> None:
            label = int(block.labels[0])
            if label in runs:
                runs[label].advance()
                if not runs[label].promising:
                    del runs[label]
                return
            block.gram = gram if gram is not None and gram.rows.size == features.n_samples else RowGram(features)
            block.advance()
            block.gram = None  # of the rows of this label only: the next label needs the room
            updates[label] += 1
            if updates[label] == _FINISH_AFTER and not block.done:
                finish_label(block)

        def step() -> float:
            nonlocal blocks, together
            if passes is not None and not passes.exhausted:
                passes.advance(run, look)
                return 0.0
            if together and not coupled:  # what was known is not good enough
                blocks, together = single_labels(), False
            left = [block for block in blocks if not block.done]
            if shared and gram is not None and gram.rows.size < features.n_samples:
                newton = [block for block in left if int(block.labels[0]) not in runs]
                if sum(np.count_nonzero(block.A) ** 2 for block in newton) > _WORTH_SHARING * features.n_samples**2:
                    gram.require(np.arange(features.n_samples), pool.map)
            if coupled:
                blocks[0].gram = gram
                blocks[0].advance(run)
            else:
                list(run(advance, left))
            return 0.0

        def certify() -> tuple[float, float]:
            primal, dual = _objectives(blocks)
            if len(blocks) > 1:  # half of what is allowed to each label by its objective, half to all alike
                for block in blocks:
                    block.share, block.allowance = 0.45, 0.45 * control.tol * max(dual, 0.0) / len(blocks)
                    block.check()
            return primal, dual

        # The literal form need not have a feasible point near the start.
        for _ in range(_FIRST_STEPS):
            if np.isfinite(sum(b.best_primal for b in blocks)):
                break
            step()
        else:
            raise RuntimeError(
                f"no feasible point was found in {_FIRST_STEPS} updates, though one exists: scale the features, or use "
                "privileged_intercept=True"
            )

        def dual_variables() -> SlackDual:
            A, B = np.empty(problem.S.shape), np.empty((len(problem.privileged.sets), len(labels)))
            for block in blocks:
                A[:, block.labels], B[:, block.labels] = block.best_A, block.best_B
            return SlackDual(A, B)

        looking, begun = True, time.perf_counter() if control.started is None else control.started
        try:
            status, history, tol_abs = run_loop(step, certify, control, patience=3, state=dual_variables)
        except _EndedWithin:
            status, history = Status.STOPPED, ()
    if not history:  # threads may have been at work until here
        history = (Checkpoint(control.n_before, time.perf_counter() - begun, *_objectives(blocks)),)
        tol_abs = tolerance(control.tol, history[-1].primal)
    n_labels = len(labels)
    Z, V = np.empty((features.n_features, n_labels)), np.empty((features.n_features, n_labels))
    T, sigma = np.empty((n_labels, n_labels)), np.empty(n_labels)
    for block in blocks:
        columns = block.labels
        V[:, columns], Z[:, columns] = block.best_V, block.apply_prior(block.best_V)
        T[:, columns], sigma[columns] = block.best_T, block.sigma
    return SVMPlusResult(Z.T.copy(), dual_variables(), history, tol_abs, status, T.T.copy(), V, sigma)


class _EndedWithin(Exception):  # noqa: N818
    """``Control.within`` ended an iteration."""


def _objectives(blocks: list[StepBlock]) -> tuple[float, float]:
    """The best primal and dual objective so far."""
    return sum(block.best_primal for block in blocks), sum(block.best_dual for block in blocks)


def _looking(run: Callable[..., Iterable[Any]], look: Callable[[], None]) -> Callable[..., Iterable[Any]]:
    """``run`` that looks up after every item."""

    def running(function: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        for result in run(function, *items):
            look()
            yield result

    return running


class _Split:
    """Passes over coupled labels before the first Newton step, as long as they pay."""

    def __init__(self, block: StepBlock, seed: int) -> None:
        self.block, self.phase, self.exhausted, self.count = block, SplitPhase(block, seed), False, _SPLIT_PASSES
        self.repaired = self.fruitless = 0
        self.direct = solves_directly(block.features, block.problem.prior)
        self.most = _MOST_IF_DIRECT if self.direct else _MOST_PASSES

    def advance(self, run: Callable[..., Iterable[Any]], look: Callable[[], None]) -> None:
        """Some passes and a certificate; in the end the block stands at its best dual variables.

        Passes that gain nothing are the last: from a start more precise than theirs they would only come back to it,
        and a fit that was not given to Newton steps yet would count as stalled. Where Newton
        steps cost more than passes they are given a second chance: the first ones may only have left a good start.
        """
        block, before, gap_before = self.block, self.block.best_dual, self.block.best_primal - self.block.best_dual
        for _ in range(self.count):
            self.phase.iterate()
            look()
        self.phase.to_block()
        self.count = int(_SPLIT_GROWTH * self.count)
        raised, gap = block.best_dual - before, block.best_primal - block.best_dual
        near = raised <= _STILL_RISING * max(block.tol * abs(block.best_dual), gap) and (raised > 0.0 or self.fruitless)
        # A problem that is not half solved by now has costs too high for passes.
        last = self.phase.n_passes >= self.most or (self.direct and gap > _TOO_FAR * block.best_primal)
        if not block.done and near and not (last and self.direct) and self.phase.n_passes >= 2 * self.repaired:
            self.phase.repair(run)
            self.repaired = self.phase.n_passes
        gap = block.best_primal - block.best_dual
        self.fruitless = self.fruitless + 1 if gap >= gap_before else 0
        if last or self.fruitless > (0 if self.direct else 1):
            self.exhausted = True
            block.A, block.B = block.best_A, block.best_B
            block.link()


def _can_split(problem: SVMPlusProblem, ways: Ways) -> bool:
    """Whether every pair is in the problem and every slack can be raised."""
    return not ways.bases and bool(problem.row_cost.min() > 0.0) and bool(problem.label_cost.min() > 0.0)


def m3l_start(
    problem: SVMPlusProblem, view: np.ndarray | CSR, *, seeds: Iterable[int], n_threads: int = 1
) -> SlackDual:
    """Dual variables after some passes with the budgets held at the cost: T = 0, and the step is M3L's.

    Parameters
    ----------
    problem : SVMPlusProblem
        All labels.
    view : ndarray or CSR
        ``problem.X`` as the kernels take it.
    seeds : iterable of int
        One seed per block of ``label_blocks((problem.prior,))``.
    n_threads : int, default=1
        Threads.

    Returns
    -------
    SlackDual
        Feasible, with T = 0.
    """
    control = Control(_START_TOL, _START_PASSES)
    result = solve_m3l(held_budgets(problem), view, control, seeds=seeds, n_threads=n_threads)
    A = np.clip(2.0 * result.dual_coef, 0.0, problem.cost())
    return SlackDual(A, problem.privileged.sum_by_set(problem.cost() - A))


def held_budgets(problem: SVMPlusProblem) -> M3LProblem:
    """The step without its privileged part: the sums A + B held at the cost. With 2 A for A it is M3L at half the cost.

    Parameters
    ----------
    problem : SVMPlusProblem
        All labels.

    Returns
    -------
    M3LProblem
        For ``solve_m3l``.
    """
    prior: tuple[PriorPart, ...] = (problem.prior,)
    return M3LProblem(problem.X, problem.S, 0.5 * problem.row_cost, problem.label_cost, prior, np.empty((0, 0)))


def n_seeds(problem: SVMPlusProblem) -> int:
    """How many seeds ``solve_svm_plus`` takes.

    Parameters
    ----------
    problem : SVMPlusProblem
        All labels.

    Returns
    -------
    int
        One per block of labels.
    """
    return len(label_blocks((problem.prior,)))
