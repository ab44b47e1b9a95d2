"""Convex SVM+ problems to a certified gap: PrBR, and both steps of PrML.

1. The start is M3L: a few passes of its coordinate descent with A between 0 and the cost, B = cost - A, so that T = 0.
2. Passes with split slacks (``_split.py``) solve most labels to a moderate precision.
3. The method of multipliers with Newton steps (``_step.py``) finishes: labels that R does not couple in threads,
   coupled ones together if their D is small. Where D is large, passes go on to the end.

Labels whose features are far larger than the privileged ones are given to an interior-point method (``_finish.py``).
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..core.loop import Control, run_loop, tolerance
from ..core.result import Checkpoint, Result, Status
from ..core.rows import CSR
from ..core.threads import worker_threads
from ..m3l.problem import M3LProblem
from ..m3l.solver import label_blocks, solve_m3l
from ._directions import with_directions
from ._finish import finish_label
from ._split import Splitting
from ._step import StepBlock
from ._system import Features, Run
from .problem import SlackDual, SVMPlusProblem


@dataclass(frozen=True)
class StepPolicy:
    """Tuned numbers of a step."""

    # Passes of M3L's coordinate descent at the start, and the gap at which they end early.
    start_passes: int = 10
    start_tol: float = 0.05
    # Updates that may pass before the first feasible point, in the literal form.
    most_infeasible: int = 100
    # Updates of the multipliers of a label before an interior-point method is tried.
    finish_after: int = 10


POLICY = StepPolicy()


@dataclass(frozen=True)
class SVMPlusResult(Result):
    """Solution and certificate of an SVM+ problem; ``dual_coef`` is a ``SlackDual``."""

    privileged: np.ndarray  # (n_labels, n_labels): row i has the privileged weights of label i, at i the constant's
    V: np.ndarray  # (n_features, n_labels), with Z = V R


def solve_svm_plus(
    problem: SVMPlusProblem,
    view: np.ndarray | CSR,
    control: Control,
    *,
    seed: int = 0,
    n_threads: int = 1,
    start: SlackDual | None = None,
    before: tuple[float, np.ndarray, np.ndarray] | None = None,
) -> SVMPlusResult:
    """Solve an SVM+ problem to a certified gap; the result is the same for any number of threads.

    ``view`` is ``problem.X`` as compiled loops take it; ``seed`` orders the rows of the passes. ``start`` are dual
    variables; without them M3L makes some. ``before`` is the objective, V and T of a feasible point, which is returned
    where nothing better is found: for all labels, with V unchanged, if R couples them, else for every label. Iterations
    are rounds of passes and updates of the multipliers; ``control.within`` is called between passes over coupled
    labels, and between labels.
    """
    problem = replace(problem, privileged=with_directions(problem))
    features, n_labels = Features(problem.X, view), len(problem.labels)
    if start is None:
        start = m3l_start(problem, view, seed, n_threads)

    def block_of(part: SVMPlusProblem) -> StepBlock:
        block = StepBlock(part, features, control.tol, start.of(part.labels))
        if before is not None:
            primal, V, T = before
            block.offer(V[:, part.labels], T[:, part.labels], primal if part.is_coupled else None)
        return block

    begun = time.perf_counter() if control.started is None else control.started
    with worker_threads(min(n_threads, n_labels)) as pool:
        alone = [problem.part(np.array([label])) for label in range(n_labels)] if not problem.is_coupled else [problem]
        blocks = list(pool.map(block_of, alone))
        step = _Step(blocks, lambda: Splitting(problem, blocks, start, seed), control, pool.map)
        step.find_feasible()
        try:
            status, history, tol_abs = run_loop(step.advance, step.objectives, control, patience=3, state=step.dual)
        except _EndedWithin:
            status, history = Status.STOPPED, ()
    if not history:  # threads may have been at work until here
        history = (Checkpoint(control.n_before, time.perf_counter() - begun, *step.objectives()),)
        tol_abs = tolerance(control.tol, history[-1].primal)
    V, T = (np.hstack([getattr(block.best, name) for block in blocks]) for name in ("V", "T"))
    coef = problem.weights(V).T.copy()
    return SVMPlusResult(coef, step.dual(), history, tol_abs, status, T.T.copy(), V)


class _EndedWithin(Exception):  # noqa: N818
    """``Control.within`` ended an iteration."""


class _Step:
    """The blocks of a problem and the method that is at work on them; ``threads`` map a function over items."""

    def __init__(
        self, blocks: list[StepBlock], make_splitting: Callable[[], Splitting], control: Control, threads: Run
    ) -> None:
        self.blocks, self.make_splitting, self.control, self.threads = blocks, make_splitting, control, threads
        self.n_updates, self.is_shown = dict.fromkeys(blocks, 0), False

    @cached_property
    def splitting(self) -> Splitting:
        """Passes; not made where the start is good enough."""
        return self.make_splitting()

    def objectives(self) -> tuple[float, float]:
        """The best primal and dual objective so far."""
        return sum(block.best.primal for block in self.blocks), sum(block.best.dual for block in self.blocks)

    def dual(self) -> SlackDual:
        """The best dual variables so far."""
        return SlackDual(*(np.hstack([getattr(block.best, name) for block in self.blocks]) for name in ("A", "B")))

    def look(self) -> None:
        """Report progress to ``Control.within``, and end the iteration if it asks to stop; blocks keep their best."""
        if self.is_shown and self.control.within is not None and self.control.within(*self.objectives()):
            raise _EndedWithin

    def run(self, function: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        """Map a function over items in threads, and report progress after every item."""
        for result in self.threads(function, *items):
            self.look()
            yield result

    def advance(self) -> float:
        """A round of passes, or an update of all blocks that are not done; returns 0: certificates are at hand."""
        left = [block for block in self.blocks if not block.done]
        if not self.splitting.exhausted:
            self.splitting.advance(self.run, self.look)
        elif left and left[0].problem.is_coupled:
            left[0].advance(self.run)
        elif left:
            _ = left[0].features.products  # once, before threads ask for it
            list(self.run(self._update, left))
        return 0.0

    def _update(self, block: StepBlock) -> None:
        block.advance()
        self.n_updates[block] += 1
        if self.n_updates[block] == POLICY.finish_after and not block.done:
            finish_label(block)

    def find_feasible(self) -> None:
        """Advance to the first feasible point: in the literal form there need not be one near the start."""
        for _ in range(POLICY.most_infeasible):
            if np.isfinite(self.objectives()[0]):
                self.is_shown = True
                return
            self.advance()
        raise ValueError(
            f"no feasible point was found in {POLICY.most_infeasible} updates, though one exists: scale the features, "
            "or use privileged_intercept=True"
        )


def m3l_start(problem: SVMPlusProblem, view: np.ndarray | CSR, seed: int, n_threads: int) -> SlackDual:
    """Dual variables after some passes with the sums A + B held at the cost: T = 0, and 2 A is that of M3L at C / 2."""
    prior = (problem.prior,)
    m3l = M3LProblem(problem.X, problem.S, 0.5 * problem.row_cost, problem.label_cost, prior, np.empty((0, 0)))
    seeds = np.random.SeedSequence(seed).generate_state(len(label_blocks(prior))).tolist()
    control = Control(POLICY.start_tol, POLICY.start_passes)
    A = 2.0 * solve_m3l(m3l, view, control, seeds=seeds, n_threads=n_threads).dual_coef
    A = np.clip(A, 0.0, problem.cost)
    return SlackDual(A, problem.privileged.sum_by_set(problem.cost - A))
