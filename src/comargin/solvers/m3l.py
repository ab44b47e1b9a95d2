"""Row-block dual coordinate descent for linear M3L: parts of the labels in threads over one shared X."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import numpy as np

from ..kernels._m3l import (
    Active,
    Dual,
    m3l_coupled_epoch,
    m3l_diagonal_epoch,
    m3l_dual_average,
    m3l_factor_epoch,
    m3l_sums,
)
from ..kernels._random import random_state_array
from ..kernels._rows import CSR
from ..problems.label_prior import PriorPart
from ..problems.m3l import M3LProblem
from ._loop import Control, run_loop, tolerance
from ._m3l_finish import finish
from ._prior_matrix import kernel_matrix
from ._result import Result
from ._threads import worker_threads

# Independent labels that share one product with x_i. Fixed, so that the result does not depend on the threads.
LABELS_PER_BLOCK = 32
# Coordinate descent alone as long as it is young, or near its end.
_FINISH_AFTER = 20
_NEAR_THE_END = 30.0


def label_blocks(prior: tuple[PriorPart, ...]) -> list[PriorPart]:
    """Parts of R that are solved on their own: its components, and the labels without a partner in equal blocks.

    Parameters
    ----------
    prior : tuple of PriorPart
        R.

    Returns
    -------
    list of PriorPart
        Covering all labels.
    """
    blocks = []
    for part in prior:
        if part.form != "diagonal":
            blocks.append(part)
            continue
        n_labels = len(part.labels)
        n_blocks = -(-n_labels // LABELS_PER_BLOCK)
        edges = [round(b * n_labels / n_blocks) for b in range(n_blocks + 1)]
        for a, b in itertools.pairwise(edges):
            blocks.append(PriorPart(part.labels[a:b], "diagonal", np.ascontiguousarray(part.matrix[a:b])))
    return blocks


class Block:
    """State of the labels of one part of R; ``epoch`` and ``certify`` release the GIL in their heavy parts.

    Invariant after ``certify``: Z = 2 V R with V = X^T (S o A); for low rank W = 2 V F.
    """

    def __init__(
        self,
        problem: M3LProblem,
        part: PriorPart,
        view: np.ndarray | CSR,
        sqnorm: np.ndarray,
        seed: int,
        tol: float,
        start: np.ndarray | None,
    ) -> None:
        labels = part.labels
        n_samples, n_labels = problem.S.shape[0], len(labels)
        self.X, self.view, self.part, self.tol = problem.X, view, part, tol
        targets = np.ascontiguousarray(problem.targets[:, labels]) if problem.targets.size else np.empty((0, 0))
        S = np.ascontiguousarray(problem.S[:, labels])
        label_upper = np.ascontiguousarray(problem.label_upper[:, labels])
        A = np.zeros(S.shape)
        self.dual_state = Dual(A, S, targets, problem.row_upper, label_upper, sqnorm)
        if start is not None:
            np.clip(start[:, labels], 0.0, self.upper(), out=A)
        self.active = Active(
            np.arange(n_samples, dtype=np.int32),
            np.tile(np.arange(n_labels, dtype=np.int32), (n_samples, 1)),
            np.empty(n_samples + 1, dtype=np.int32),
            np.empty((2, n_labels)),
            random_state_array(seed),
        )
        self.matrix = kernel_matrix(part)
        self.gap_parts = np.empty(n_labels)
        self.Z = np.zeros((problem.X.shape[1], n_labels))
        self.W = np.zeros((problem.X.shape[1], part.matrix.shape[1])) if part.form == "factor" else self.Z
        self.primal, self.dual, self.estimate = np.inf, -np.inf, np.inf
        self.done, self.n_epochs, self.epochs_to_go = False, 0, np.inf
        self.certified = (0, np.inf)  # passes and gap at the last certificate
        self.allowed, self.label_gaps = 0.0, np.full(n_labels, np.inf)
        self.optimism = 1.0  # how many times larger the gap was than its estimate then
        self.activate_all()

    def upper(self) -> np.ndarray:
        """U, shape (n_samples, n_labels)."""
        d = self.dual_state
        return d.row_upper[:, None] * np.where(d.S > 0, d.label_upper[1], d.label_upper[0])

    def activate_all(self) -> None:
        """Every dual variable may move again."""
        n_samples, n_labels = self.dual_state.A.shape
        self.active.count[:-1] = n_labels
        self.active.count[-1] = n_samples
        self.active.bounds[0], self.active.bounds[1] = -np.inf, np.inf

    def epoch(self) -> None:
        """One pass over the active set."""
        self.n_epochs += 1
        dual, active = self.dual_state, self.active
        if self.part.form == "diagonal":
            m3l_diagonal_epoch(self.view, self.matrix, dual, active, self.Z, self.gap_parts)
        elif self.part.form == "factor":
            m3l_factor_epoch(self.view, self.matrix, self.part.diagonal, dual, active, self.W, self.gap_parts)
        else:
            m3l_coupled_epoch(self.view, self.matrix, self.part.diagonal, dual, active, self.Z, self.gap_parts)
        self.estimate = self.optimism * float(self.gap_parts.sum())

    def certify(self) -> None:
        """Exact objectives; Z is computed anew from A, so rounding of the updates does not add up."""
        self._evaluate()
        if self.n_epochs >= _FINISH_AFTER and not self.done and self.epochs_to_go > _NEAR_THE_END:
            finish(self)
            self.activate_all()
            self._evaluate()

    def _evaluate(self) -> None:
        """Objectives of A, whether they meet the tolerance, and what is to be expected if not."""
        dual = self.dual_state
        if dual.A.any():
            V = self._refresh()
            sums = np.empty((2, V.shape[1]))
            m3l_sums(self.view, dual, self.Z, sums)
            quadratic = np.sum(V * self.Z, axis=0)
            self.primal = float(np.sum(quadratic + 2.0 * sums[0]))
            self.dual = float(np.sum(2.0 * sums[1] - quadratic))
            self.label_gaps = 2.0 * (quadratic + sums[0] - sums[1])
        else:  # no product with X needed
            self.primal = 2.0 * float(np.sum(self.upper() * (dual.targets if dual.targets.size else 1.0)))
            self.dual = 0.0
        # A hair below the tolerance, so that the sum over blocks meets it in spite of rounding.
        allowed = self.allowed = 0.9 * tolerance(self.tol, self.primal)
        gap = self.primal - self.dual
        self.done = gap <= allowed
        if not self.done:
            self.epochs_to_go = self._expected_epochs(gap, allowed)
            self.certified = (self.n_epochs, gap)
            if self.estimate <= allowed:
                # The active part looked solved: something was shrunk too early, or margins moved on within the pass.
                self.activate_all()
                if self.estimate > 0.0:
                    self.optimism = min(self.optimism * gap / self.estimate, 10.0)

    def _refresh(self) -> np.ndarray:
        """Compute V, and from it Z (and W); returns V."""
        V = np.zeros_like(self.Z)
        m3l_dual_average(self.view, self.dual_state, V)
        self.Z[:] = self.part.apply(V)
        self.Z *= 2.0
        if self.part.form == "factor":
            self.W[:] = 2.0 * (V @ self.matrix)
        return V

    def _expected_epochs(self, gap: float, allowed: float) -> float:
        """Passes until ``allowed`` if the gap goes on shrinking half as fast as it did since the last certificate.

        Never more than twice the passes so far: who spends no more than that on anything else has lost little when
        passes alone would have been enough.
        """
        n_before, gap_before = self.certified
        most = max(100.0, 2.0 * self.n_epochs)
        if not 0.0 < gap < gap_before or not np.isfinite(gap_before) or allowed <= 0.0:
            return most
        expected = (self.n_epochs - n_before) * np.log(gap / allowed) / np.log(gap_before / gap)
        return min(2.0 * float(expected), most)


def solve_m3l(
    problem: M3LProblem,
    view: np.ndarray | CSR,
    control: Control,
    *,
    seeds: Iterable[int],
    n_threads: int = 1,
    start: np.ndarray | None = None,
) -> Result:
    """Solve linear M3L to a certified gap.

    Parameters
    ----------
    problem : M3LProblem
        All labels.
    view : ndarray or CSR
        ``problem.X`` as the kernels take it.
    control : Control
        Tolerance, limits, progress and callback.
    seeds : iterable of int
        One seed per block of ``label_blocks(problem.prior)``.
    n_threads : int, default=1
        Threads; the result is the same for any number.
    start : ndarray of shape (n_samples, n_labels) or None
        Dual start, clipped to the bounds; zero if None.

    Returns
    -------
    Result
        ``coef`` is Z^T, ``dual_coef`` is A.
    """
    X = problem.X
    sqnorm = np.vecdot(X, X) if isinstance(X, np.ndarray) else np.asarray(X.multiply(X).sum(axis=1)).ravel()
    blocks = [
        Block(problem, part, view, sqnorm, seed, control.tol, start)
        for part, seed in zip(label_blocks(problem.prior), seeds, strict=True)
    ]
    with worker_threads(min(n_threads, len(blocks))) as pool:

        def step() -> float:
            list(pool.map(Block.epoch, [b for b in blocks if not b.done]))
            return sum(b.primal - b.dual if b.done else b.estimate for b in blocks)

        def certify() -> tuple[float, float]:
            list(pool.map(Block.certify, [b for b in blocks if not b.done]))
            return sum(b.primal for b in blocks), sum(b.dual for b in blocks)

        status, history, tol_abs = run_loop(step, certify, control)
    coef, dual_coef = np.empty((problem.S.shape[1], X.shape[1])), np.empty(problem.S.shape)
    for block in blocks:
        coef[block.part.labels] = block.Z.T
        dual_coef[:, block.part.labels] = block.dual_state.A
    return Result(coef, dual_coef, history, tol_abs, status)
