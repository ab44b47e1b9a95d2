"""Row-block dual coordinate descent for M3L: independent blocks of labels in threads over one shared X."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ..kernels._m3l import m3l_identity_epoch
from ..kernels._random import random_state_array
from ..kernels._rows import CSR
from ..problems.m3l import M3LProblem
from ._box_newton import newton_on_box
from ._interior_point import interior_point_on_box
from ._loop import Control, run_loop, tolerance
from ._result import Result
from ._threads import worker_threads

# Labels that share one product x_i^T V. Fixed, so that the result does not depend on the number of threads.
LABELS_PER_BLOCK = 32

# What is not solved after this many passes is badly scaled, and is finished by methods that see all directions at
# once: Newton steps, on at most so many variables, and an interior-point method, on at most so many entries of a dense
# X. They may cost what the passes still to be expected would (at most so many passes), or so many operations for the
# labels of a block.
_FINISH_AFTER = 20
_NEWTON_SIZE = 512
_DENSE_SIZE = 20_000_000
_FINISH_FLOPS = 2e8
_MAX_EXPECTED = 2000.0


def label_blocks(n_labels: int) -> list[slice]:
    """Split the labels into equal blocks of at most ``LABELS_PER_BLOCK``.

    Parameters
    ----------
    n_labels : int
        Number of labels.

    Returns
    -------
    list of slice
        Consecutive, covering ``range(n_labels)``.
    """
    n_blocks = -(-n_labels // LABELS_PER_BLOCK)
    edges = [round(b * n_labels / n_blocks) for b in range(n_blocks + 1)]
    return [slice(a, b) for a, b in itertools.pairwise(edges)]


@dataclass
class _Block:
    """State of one block of labels; ``epoch`` and ``certify`` release the GIL in their heavy parts."""

    problem: M3LProblem
    view: np.ndarray | CSR
    sqnorm: np.ndarray
    A: np.ndarray
    state: np.ndarray
    tol: float
    primal: float = np.inf
    dual: float = -np.inf
    estimate: float = np.inf
    done: bool = False
    n_epochs: int = 0
    certified: tuple[int, float] = (0, np.inf)  # passes and gap at the last certificate
    epochs_to_go: float = 0.0
    V: np.ndarray = field(init=False)
    bounds: np.ndarray = field(init=False)

    def __post_init__(self) -> None:
        n_samples, n_labels = self.A.shape
        self.rows = np.arange(n_samples, dtype=np.int32)
        self.labels = np.tile(np.arange(n_labels, dtype=np.int32), (n_samples, 1))
        self.n_active = np.empty(n_samples + 1, dtype=np.int32)
        self.gap_parts = np.empty(n_labels)
        self.activate_all()

    def activate_all(self) -> None:
        """Every dual variable may move again."""
        n_samples, n_labels = self.A.shape
        self.n_active[:-1] = n_labels
        self.n_active[-1] = n_samples
        self.bounds = np.array([[-np.inf], [np.inf]]).repeat(n_labels, axis=1)

    def epoch(self) -> None:
        """One pass over the active set."""
        p = self.problem
        self.n_epochs += 1
        m3l_identity_epoch(
            self.view, p.S, self.sqnorm, p.row_upper, p.label_upper, self.A, self.V,
            self.rows, self.labels, self.n_active, self.bounds, self.state, self.gap_parts,
        )  # fmt: skip
        self.estimate = float(self.gap_parts.sum())

    def certify(self) -> None:
        """Exact objectives; V is computed anew, so rounding of the updates does not add up."""
        if self.n_epochs >= _FINISH_AFTER:
            self.finish_labels()
        self.V = self.problem.dual_average(self.A)
        self.dual = 2.0 * float(np.sum(self.A)) - 2.0 * float(np.sum(self.V * self.V))
        self.primal = self.problem.primal(2.0 * self.V)
        # A hair below the tolerance, so that the sum over blocks meets it in spite of rounding.
        allowed = 0.9 * tolerance(self.tol, self.primal)
        gap = self.primal - self.dual
        self.done = gap <= allowed
        if not self.done:
            self.epochs_to_go = self._expected_epochs(gap, allowed)
            self.certified = (self.n_epochs, gap)
        if not self.done and self.estimate <= allowed:
            self.activate_all()  # the active part is solved, something shrunk too early is not

    def _expected_epochs(self, gap: float, allowed: float) -> float:
        """Passes until ``allowed`` if the gap goes on shrinking half as fast as it did since the last certificate."""
        n_before, gap_before = self.certified
        if not 0.0 < gap < gap_before or not np.isfinite(gap_before) or allowed <= 0.0:
            return _MAX_EXPECTED
        expected = (self.n_epochs - n_before) * np.log(gap / allowed) / np.log(gap_before / gap)
        return min(2.0 * float(expected), _MAX_EXPECTED)

    def finish_labels(self) -> None:
        """Label by label, take the steps that coordinate descent cannot: see ``_finish_label``."""
        upper = self.problem.upper()
        n_stored = self.view.data.size if isinstance(self.view, CSR) else self.view.size
        flops = max(4.0 * n_stored * self.epochs_to_go, _FINISH_FLOPS / self.A.shape[1])
        for label in range(self.A.shape[1]):
            self._finish_label(label, upper[:, label], flops)
        self.activate_all()

    def _finish_label(self, label: int, u: np.ndarray, flops: float) -> None:
        """Newton on the free dual variables and those that most want to leave a bound, when they are few.

        When they are many, the features are few and badly scaled (the rank of X bounds the free variables of a generic
        optimum): an interior-point method finds the few that are really free.
        """
        X, s, a = self.problem.X, self.problem.S[:, label], self.A[:, label]
        if np.count_nonzero((a > 0.0) & (a < u)) > _NEWTON_SIZE:
            n_samples, n_features = X.shape
            if 60.0 * n_samples * n_features**2 > flops or n_samples * n_features > _DENSE_SIZE:
                return
            rows = np.flatnonzero(u > 0.0)
            dense = X[rows] if isinstance(X, np.ndarray) else X[rows].toarray()
            a[rows] = interior_point_on_box(2.0 * s[rows, None] * dense, 2.0, u[rows])
            self.V[:, label] = X.T @ (s * a)
        gradient = 4.0 * s * (X @ self.V[:, label]) - 2.0  # of -D
        free = (a > 0.0) & (a < u)
        violation = np.where(a <= 0.0, -gradient, gradient)
        violation[free | (u <= 0.0)] = 0.0
        others = np.flatnonzero(violation > 0.0)
        n_others = max(_NEWTON_SIZE - np.count_nonzero(free), 0)
        others = others[np.argsort(-violation[others], kind="stable")[:n_others]]
        chosen = np.concatenate([np.flatnonzero(free), others])
        if 0 < chosen.size <= _NEWTON_SIZE:
            K = X[chosen] @ X[chosen].T
            K = K if isinstance(K, np.ndarray) else K.toarray()
            Q = 4.0 * K * np.outer(s[chosen], s[chosen])
            a[chosen] = newton_on_box(Q, gradient[chosen], a[chosen], u[chosen], max_flops=flops)


def solve_m3l(
    problem: M3LProblem,
    view: np.ndarray | CSR,
    control: Control,
    *,
    seeds: Iterable[int],
    n_threads: int = 1,
    start: np.ndarray | None = None,
) -> Result:
    """Solve M3L with R = I to a certified gap.

    Parameters
    ----------
    problem : M3LProblem
        All labels.
    view : ndarray or CSR
        ``problem.X`` as the kernels take it.
    control : Control
        Tolerance, limits, progress and callback.
    seeds : iterable of int
        One seed per block of ``label_blocks(n_labels)``.
    n_threads : int, default=1
        Threads; the result is the same for any number.
    start : ndarray of shape (n_samples, n_labels) or None
        Dual start, clipped to the bounds; zero if None.

    Returns
    -------
    Result
        ``coef`` is Z^T, ``dual_coef`` is A.
    """
    n_labels = problem.S.shape[1]
    X = problem.X
    sqnorm = np.asarray(X.multiply(X).sum(axis=1)).ravel() if not isinstance(X, np.ndarray) else np.vecdot(X, X)
    blocks = []
    for labels, seed in zip(label_blocks(n_labels), seeds, strict=True):
        S, label_upper = (
            np.ascontiguousarray(problem.S[:, labels]),
            np.ascontiguousarray(problem.label_upper[:, labels]),
        )
        part = M3LProblem(X, S, problem.row_upper, label_upper)
        A = np.zeros(S.shape) if start is None else np.clip(start[:, labels], 0.0, part.upper())
        blocks.append(_Block(part, view, sqnorm, A, random_state_array(seed), control.tol))

    with worker_threads(min(n_threads, len(blocks))) as pool:

        def step() -> float:
            list(pool.map(_Block.epoch, [b for b in blocks if not b.done]))
            return sum(b.primal - b.dual if b.done else b.estimate for b in blocks)

        def certify() -> tuple[float, float]:
            list(pool.map(_Block.certify, [b for b in blocks if not b.done]))
            return sum(b.primal for b in blocks), sum(b.dual for b in blocks)

        status, history, tol_abs = run_loop(step, certify, control)
    coef = np.concatenate([2.0 * b.V.T for b in blocks])
    dual_coef = np.concatenate([b.A for b in blocks], axis=1)
    return Result(coef, dual_coef, history, tol_abs, status)
