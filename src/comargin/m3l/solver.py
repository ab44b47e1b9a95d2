"""Row-block dual coordinate descent for linear M3L: parts of the labels in threads over one shared X."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

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
from ..problems.rows import row_blocks, squared_lengths
from ._loop import Control, run_loop, tolerance
from ._m3l_finish import finish
from ._prior_matrix import kernel_matrix
from ._result import Result, Status
from ._threads import worker_threads

# Most independent labels that share one product with x_i: more are faster, but two threads want two blocks
# where there is work for both. Fixed, so that the result does not depend on the threads.
LABELS_PER_BLOCK = 80
_ALONE_UP_TO = 64
# Weights are in single precision when the tolerance is at least this: passes are bound by fetching them, and the
# certificate is computed in double precision in any case. Their rows fill whole cache lines.
_SINGLE_FROM = 1e-4
_SINGLE_RANGE = (1e-8, 1e8)
_CACHE_LINE = 64
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
        n_blocks += n_blocks % 2 if n_labels > _ALONE_UP_TO else 0  # an even number keeps two threads busy
        edges = [round(b * n_labels / n_blocks) for b in range(n_blocks + 1)]
        for a, b in itertools.pairwise(edges):
            blocks.append(PriorPart(part.labels[a:b], "diagonal", np.ascontiguousarray(part.matrix[a:b])))
    return blocks


@dataclass(frozen=True)
class Products:
    """What a certificate has computed from A and X for the labels of one block.

    Attributes
    ----------
    Z : ndarray of shape (n_features, n_labels)
        2 V R.
    sums : ndarray of shape (3, n_labels)
        The diagonal of V^T Z, the losses sum_i U_il max(0, t_il - S_il z_l^T x_i), and sum_i t_il A_il.
    """

    Z: np.ndarray
    sums: np.ndarray

    def at(self, ratio: float) -> Products:
        """The same where C is ``ratio`` times larger: the losses alone are proportional to it."""
        return Products(self.Z, self.sums * np.array([[1.0], [ratio], [1.0]]))


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
        products: Products | None = None,
    ) -> None:
        labels = part.labels
        n_samples, n_labels = problem.S.shape[0], len(labels)
        self.X, self.view, self.part, self.tol = problem.X, view, part, tol
        targets = np.ascontiguousarray(problem.targets[:, labels]) if problem.targets.size else np.empty((0, 0))
        S = np.ascontiguousarray(problem.S[:, labels])
        label_upper = np.ascontiguousarray(problem.label_upper[:, labels])
        A = np.zeros(S.shape)
        self.dual_state = Dual(A, S, targets, problem.row_upper, label_upper, sqnorm)
        for rows in row_blocks(n_samples):
            if start is not None:
                np.clip(start[rows][:, labels], 0.0, self.upper(rows), out=A[rows])
            # Variables that no score depends on: the loss is paid in full.
            fixed = (sqnorm[rows] <= 0.0)[:, None] | (part.diagonal <= 0.0)
            if fixed.any():
                A[rows][fixed] = self.upper(rows)[fixed]
                products = None
        self.active = Active(
            np.arange(n_samples, dtype=np.int32),
            np.tile(np.arange(n_labels, dtype=np.int32), (n_samples, 1)),
            np.empty(n_samples + 1, dtype=np.int32),
            np.empty((2, n_labels)),
            random_state_array(seed),
        )
        self.parts = np.empty((2, n_labels))
        n_features = problem.X.shape[1]
        self.matrix = kernel_matrix(part)
        if tol >= _SINGLE_FROM and part.form in ("diagonal", "dense") and self._fits_single(sqnorm):
            self.Z = _lined_up_zeros(n_features, n_labels)
            if part.form == "dense":
                self.matrix = np.asarray(self.matrix, dtype=np.float32)
        else:
            self.Z = np.zeros((n_features, n_labels))
        self.W = np.zeros((n_features, part.matrix.shape[1])) if part.form == "factor" else self.Z
        self.primal, self.dual, self.estimate = np.inf, -np.inf, np.inf
        self.certified_Z = self.best_Z = self.Z
        self.best_primal = np.inf
        self.done, self.n_epochs, self.epochs_to_go = False, 0, np.inf
        self.tried_finish = False
        self.certified = (0, np.inf)  # passes and gap at the last certificate
        self.allowed, self.label_gaps = 0.0, np.full(n_labels, np.inf)
        self.met = 0.0  # parts of the gap met in the pass before
        self.optimism = 1.0  # how many times larger the gap was than its estimate then
        self.products = None if part.form == "factor" else products
        self.sums = np.zeros((3, n_labels))
        self.activate_all()

    def _fits_single(self, sqnorm: np.ndarray) -> bool:
        """Whether weights and scores stay far from the ends of single precision."""
        d = self.dual_state
        sizes = [sqnorm, self.part.diagonal, d.row_upper, d.label_upper]  # R has no entry above its diagonal
        positive = [size[size > 0.0] for size in sizes]
        return all(p.size == 0 or (_SINGLE_RANGE[0] < p.min() and p.max() < _SINGLE_RANGE[1]) for p in positive)

    def upper(self, rows: slice = slice(None)) -> np.ndarray:
        """U of the given rows, shape (n_rows, n_labels)."""
        d = self.dual_state
        return d.row_upper[rows, None] * np.where(d.S[rows] > 0, d.label_upper[1], d.label_upper[0])

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
            m3l_diagonal_epoch(self.view, self.matrix, dual, active, self.Z, self.parts)
        elif self.part.form == "factor":
            m3l_factor_epoch(self.view, self.matrix, self.part.diagonal, dual, active, self.W, self.parts)
        else:
            m3l_coupled_epoch(self.view, self.matrix, self.part.diagonal, dual, active, self.Z, self.parts)
        gap, raised = self.parts.sum(axis=1)
        # Met on the way, that is half a pass ago on average: the gap goes on shrinking as it did.
        shrinkage = min(float(gap) / self.met, 1.0) ** 0.5 if self.met > 0.0 else 1.0
        self.met = float(gap)
        self.estimate = self.optimism * shrinkage * self.met
        self.dual += float(raised)

    def looks_done(self) -> bool:
        """Whether the gap met on the way is small enough, at the primal objective that goes with it."""
        return self.estimate < np.inf and self.estimate <= 0.9 * tolerance(self.tol, self.dual + self.estimate)

    def advance(self) -> None:
        """One pass, and a certificate when that promises to be the last."""
        self.epoch()
        if self.looks_done():
            self.certify()

    def to_double(self) -> None:
        """Go on in double precision."""
        self.Z = self.W = np.zeros((self.Z.shape[0], self.dual_state.A.shape[1]))
        self.matrix = kernel_matrix(self.part)
        self._refresh()

    def certify(self) -> None:
        """Exact objectives; Z is computed anew from A, so rounding of the updates does not add up."""
        self._evaluate()
        if self.n_epochs >= _FINISH_AFTER and not self.done and self.epochs_to_go > _NEAR_THE_END:
            if self.Z.dtype == np.float32:
                self.to_double()
            finish(self)
            self.tried_finish = True
            self.activate_all()
            self._evaluate()

    def _evaluate(self) -> None:
        """Objectives of A, whether they meet the tolerance, and what is to be expected if not."""
        dual = self.dual_state
        n_labels = dual.A.shape[1]
        if self.products is not None:  # A is where they were computed
            self.certified_Z, sums = self.products.Z, self.products.sums
            self.Z[:, :n_labels] = self.certified_Z
            self.products = None
        elif dual.A.any():
            self.certified_Z, quadratic = self._refresh()
            sums = np.empty((3, n_labels))
            sums[0] = quadratic
            m3l_sums(self.view, dual, self.certified_Z, sums[1:])
        else:  # no product with X needed
            self.certified_Z, sums = np.zeros((self.Z.shape[0], n_labels)), np.zeros((3, n_labels))
            for rows in row_blocks(dual.A.shape[0]):
                sums[1] += np.sum(self.upper(rows) * (dual.targets[rows] if dual.targets.size else 1.0), axis=0)
        self.sums = sums
        quadratic, losses, targets = sums
        self.primal = float(np.sum(quadratic + 2.0 * losses))
        if not self.primal >= self.best_primal:
            self.best_primal, self.best_Z = self.primal, self.certified_Z
        self.dual = float(np.sum(2.0 * targets - quadratic))
        self.label_gaps = 2.0 * (quadratic + losses - targets)
        # A hair below the tolerance, so that the sum over blocks meets it in spite of rounding.
        allowed = self.allowed = 0.9 * tolerance(self.tol, self.primal)
        gap = self.primal - self.dual
        self.done = gap <= allowed
        if not self.done:
            self.epochs_to_go = self._expected_epochs(gap, allowed)
            self.certified = (self.n_epochs, gap)
            if self.looks_done():
                # The active part looked solved: something was shrunk too early, or margins moved on within the pass.
                self.activate_all()
                if self.estimate > 0.0:
                    self.optimism = min(self.optimism * gap / self.estimate, 10.0)

    def _refresh(self) -> tuple[np.ndarray, np.ndarray]:
        """Compute Z (and W) anew from A; returns Z in double precision, and the diagonal of V^T Z."""
        V = np.zeros((self.Z.shape[0], self.dual_state.A.shape[1]))
        m3l_dual_average(self.view, self.dual_state, V)
        if self.part.form == "diagonal":  # no second array of that size
            quadratic = 2.0 * self.part.diagonal * np.einsum("ij,ij->j", V, V)
            V *= 2.0 * self.part.diagonal
            Z = V
        else:
            Z = np.ascontiguousarray(self.part.apply(V))
            Z *= 2.0
            quadratic = np.einsum("ij,ij->j", V, Z)
            if self.part.form == "factor":
                self.W[:] = 2.0 * (V @ self.matrix)
        self.Z[:, : Z.shape[1]] = Z
        return Z, quadratic

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


def _lined_up_zeros(n_rows: int, n_columns: int) -> np.ndarray:
    """Zeros in single precision, (n_rows, at least n_columns): rows begin with a cache line and fill their last."""
    width = -(-4 * n_columns // _CACHE_LINE) * _CACHE_LINE
    raw = np.zeros(n_rows * width + _CACHE_LINE, dtype=np.uint8)
    first = -raw.ctypes.data % _CACHE_LINE
    return raw[first : first + n_rows * width].view(np.float32).reshape(n_rows, width // 4)


def _columns(labels: np.ndarray) -> np.ndarray | slice:
    """Labels as a slice if they are neighbours: copies of whole runs are several times faster."""
    first, last = int(labels[0]), int(labels[-1])
    return slice(first, last + 1) if np.array_equal(labels, np.arange(first, last + 1)) else labels


def solve_m3l(
    problem: M3LProblem,
    view: np.ndarray | CSR,
    control: Control,
    *,
    seeds: Iterable[int],
    n_threads: int = 1,
    start: np.ndarray | None = None,
    products: Sequence[Products] | None = None,
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
    products : sequence of Products, or None
        Those of ``start``, block by block, when they are known and no bound lies below it.

    Returns
    -------
    Result
        ``coef`` is Z^T, a view, ``dual_coef`` is A, ``products`` are those of its blocks. If it ended before the
        tolerance was met, Z is the best one certified, not that of A, and the last of ``history`` its certificate; a
        start from A does not know it.
    """
    X = problem.X
    sqnorm = squared_lengths(X)
    parts = label_blocks(problem.prior)
    known: Sequence[Products | None] = products or [None] * len(parts)
    blocks = [
        Block(problem, part, view, sqnorm, seed, control.tol, start, of_block)
        for part, seed, of_block in zip(parts, seeds, known, strict=True)
    ]
    with worker_threads(min(n_threads, len(blocks))) as pool:

        def step() -> float:
            list(pool.map(Block.advance, [b for b in blocks if not b.done]))
            return sum(b.primal - b.dual for b in blocks) if all(b.done for b in blocks) else np.inf

        def certify() -> tuple[float, float]:
            list(pool.map(Block.certify, [b for b in blocks if not b.done]))
            return sum(b.primal for b in blocks), sum(b.dual for b in blocks)

        def joined(n_rows: int, of_block: Callable[[Block], np.ndarray]) -> np.ndarray:
            whole = np.empty((n_rows, problem.S.shape[1]))

            def copy(block: Block) -> None:
                whole[:, _columns(block.part.labels)] = of_block(block)

            list(pool.map(copy, blocks))
            return whole

        def dual_variables() -> np.ndarray:
            return joined(X.shape[0], lambda block: block.dual_state.A)

        status, history, tol_abs = run_loop(step, certify, control, check_every=_FINISH_AFTER, state=dual_variables)
        # The dual rises, but the primal does not only fall: a run that ends early has the best weights met.
        best = control.unit * sum(b.best_primal for b in blocks)
        ended_early = status is not Status.CONVERGED and best < history[-1].primal
        if ended_early:
            history, tol_abs = (*history[:-1], history[-1]._replace(primal=best)), tolerance(control.tol, best)
            if history[-1].gap <= tol_abs and status is not Status.STOPPED:
                status = Status.CONVERGED
        Z = joined(X.shape[1], lambda block: block.best_Z if ended_early else block.certified_Z)
        A = dual_variables()
    products = [Products(block.certified_Z, block.sums) for block in blocks]
    return Result(Z.T, A, history, tol_abs, status, products=products)
