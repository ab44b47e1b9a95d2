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
from ._loop import Control, run_loop, tolerance
from ._result import Result
from ._threads import worker_threads

# Labels that share one product x_i^T V. Fixed, so that the result does not depend on the number of threads.
LABELS_PER_BLOCK = 32

# A label that is not solved after this many passes is badly scaled: take Newton steps on its free variables, as long as
# there are few enough of them for a dense factorisation.
# They may cost what the passes before cost, or this many operations for all labels of a block.
_NEWTON_AFTER = 20
_NEWTON_SIZE = 512
_NEWTON_FLOPS = 2e8


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
    epochs_since_newton: int = 0
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
        self.epochs_since_newton += 1
        m3l_identity_epoch(
            self.view, p.S, self.sqnorm, p.row_upper, p.label_upper, self.A, self.V,
            self.rows, self.labels, self.n_active, self.bounds, self.state, self.gap_parts,
        )  # fmt: skip
        self.estimate = float(self.gap_parts.sum())

    def certify(self) -> None:
        """Exact objectives; V is computed anew, so rounding of the updates does not add up."""
        if self.epochs_since_newton >= _NEWTON_AFTER:
            self.newton_on_free()
        self.V = self.problem.dual_average(self.A)
        self.dual = 2.0 * float(np.sum(self.A)) - 2.0 * float(np.sum(self.V * self.V))
        self.primal = self.problem.primal(2.0 * self.V)
        # A hair below the tolerance, so that the sum over blocks meets it in spite of rounding.
        allowed = 0.9 * tolerance(self.tol, self.primal)
        self.done = self.primal - self.dual <= allowed
        if not self.done and self.estimate <= allowed:
            self.activate_all()  # the active part is solved, something shrunk too early is not

    def newton_on_free(self) -> None:
        """Label by label, solve for the free dual variables and those that most want to leave a bound."""
        upper = self.problem.upper()
        n_stored = self.view.data.size if isinstance(self.view, CSR) else self.view.size
        max_flops = max(4.0 * n_stored * self.epochs_since_newton, _NEWTON_FLOPS / self.A.shape[1])
        self.epochs_since_newton = 0
        for label in range(self.A.shape[1]):
            a, u, s = self.A[:, label], upper[:, label], self.problem.S[:, label]
            free = (a > 0.0) & (a < u)
            n_free = int(np.count_nonzero(free))
            if n_free > _NEWTON_SIZE:
                continue
            gradient = 4.0 * s * (self.problem.X @ self.V[:, label]) - 2.0  # of -D
            violation = np.where(a <= 0.0, -gradient, gradient)
            violation[free | (u <= 0.0)] = 0.0
            others = np.flatnonzero(violation > 0.0)
            others = others[np.argsort(-violation[others], kind="stable")[: _NEWTON_SIZE - n_free]]
            chosen = np.concatenate([np.flatnonzero(free), others])
            if chosen.size:
                X_chosen = self.problem.X[chosen]
                K = X_chosen @ X_chosen.T
                K = K if isinstance(K, np.ndarray) else K.toarray()
                Q = 4.0 * K * np.outer(s[chosen], s[chosen])
                self.A[chosen, label] = newton_on_box(Q, gradient[chosen], a[chosen], u[chosen], max_flops=max_flops)
        self.activate_all()


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
