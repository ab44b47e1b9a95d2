r"""The first part of an SVM+ step: coordinate descent for V, least squares for T, multipliers between them.

The slacks xi (one per label set) and the privileged weights T are split, xi = U T, by the alternating direction method
of multipliers (Gabay and Mercier, 1976) with multipliers beta - cost and penalties rho_g that grow with the rows of the
set:

1. V and xi by one pass of dual coordinate descent with slacks held near U T (``_loops.py``): M3L's pass, with a
   quadratic penalty in place of the upper bounds of A;
2. T by least squares, (gamma2 I + U^T diag(rho) U) T = U^T (beta - cost + rho xi), factorised once for all passes;
3. beta += rho (xi - U T).

The dual is near its optimum after a hundred passes or so, the constraints are still broken by what the worst row lacks.
For the certificate of coupled labels T is therefore solved exactly for the margins at hand, each label for itself: an
SVM+ without features (``best_privileged``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from ..core.cholesky import cholesky, solve_factored
from ..core.loop import ROUNDING
from ..core.random_numbers import random_state_array
from ..m3l.prior import PriorPart
from ..m3l.solver import label_blocks
from ._block import BlockData
from ._coupled import solves_directly
from ._directions import SlackDirections
from ._loops import SplitActive, SplitDual, split_pass
from ._step import StepBlock
from ._system import Features, Run, privileged_gram, signs_gram
from .problem import PrivilegedSets, SlackDual, SVMPlusProblem


@dataclass(frozen=True)
class SplitPolicy:
    """Tuned numbers of the splitting."""

    # Penalty of a slack per row of its set, and over-relaxation of the slacks.
    penalty: float = 0.1
    relax: float = 1.5
    # Every so many passes all variables are visited. Variables at zero with gradients above ``keep_all`` then, or above
    # ``keep`` in other passes, are not visited until the next time.
    visit_all: int = 10
    keep_all: float = 0.3
    keep: float = 1.0
    # Passes of the first round of single labels and of coupled ones, and how rounds grow.
    first_alone: int = 20
    first_coupled: int = 100
    growth: float = 1.5
    # Most passes where Newton steps can follow.
    most_alone: int = 300
    most_coupled: int = 600
    # Single labels go on while a round divides their gap by this; coupled ones are given to Newton steps if the gap is
    # this share of the objective after a round.
    fall: float = 3.0
    too_far: float = 0.5
    # T is repaired when a round raises the dual by less than this share of the gap, to this share of the tolerance.
    still_rising: float = 0.25
    repair: float = 0.2
    most_repairs: int = 30


POLICY = SplitPolicy()


class Splitting:
    """Rounds of passes over all labels of a step, as long as they pay; ``blocks`` get their certificates.

    R couples either all labels, of one block, or none: then passes run over fixed parts of the labels, in threads.
    ``leave_done`` ends the passes over labels that are done; a step of PrML, whose successor starts from all of them,
    gains from their further precision.
    """

    def __init__(self, data: BlockData, blocks: list[StepBlock], start: SlackDual, seed: int, leave_done: bool) -> None:
        problem, self.leave_done = data.problem, leave_done
        sizes = np.bincount(problem.privileged.row_set).astype(np.float64)
        regression = Regression(problem.privileged, problem.gamma2, POLICY.penalty * sizes, data.directions)
        self.blocks, self.is_coupled, self.n_passes, self.n_repaired = blocks, data.is_coupled, 0, 0
        parts = [data.labels] if data.is_coupled else [part.labels for part in label_blocks((problem.prior,))]
        self.passes = [SplitPasses.of(replace(data, labels=labels), start, regression, seed) for labels in parts]
        self.newton_follows = not data.is_coupled or solves_directly(data.features, problem.prior)
        self.count = POLICY.first_coupled if data.is_coupled else POLICY.first_alone
        self.exhausted = False

    def advance(self, run: Run, look: Callable[[], None]) -> None:
        """One round and its certificates; after the last round the blocks stand at their best dual variables."""
        left = [block for block in self.blocks if not block.done]
        before, dual_before = sum(block.best.gap for block in left), sum(block.best.dual for block in left)

        def go(passes: SplitPasses) -> None:
            for _ in range(self.count):
                passes.iterate()
                if self.is_coupled:
                    look()

        list(run(go, self.passes))
        self.n_passes += self.count
        self.count = int(POLICY.growth * self.count)
        A, B, T = (np.hstack(parts) for parts in zip(*(p.solution() for p in self.passes), strict=True))
        labels = np.concatenate([p.data.labels for p in self.passes])  # in ascending order

        def place(block: StepBlock) -> None:
            own = np.searchsorted(labels, block.data.labels)
            block.stand_at(A[:, own], B[:, own], T=T[:, own])

        list(run(place, left))
        gap, raised = sum(block.best.gap for block in left), sum(block.best.dual for block in left) - dual_before
        if self.is_coupled:
            block = self.blocks[0]
            most = max(block.tol * abs(block.best.dual), gap)
            self.exhausted = self.newton_follows and (
                self.n_passes >= POLICY.most_coupled or gap >= before or gap > POLICY.too_far * block.best.primal
            )
            near = raised <= POLICY.still_rising * most and self.n_passes >= 2 * self.n_repaired
            if near and not block.done and not self.exhausted and not block.data.bases:
                self._repair(block, run)
        else:
            self.exhausted = self.n_passes >= POLICY.most_alone or not gap * POLICY.fall <= before
            if self.leave_done:
                done = [int(block.data.labels[0]) for block in left if block.done]
                self.passes = [p.without(done) for p in self.passes]
        if self.exhausted:
            for block in left:
                block.stand_at(block.best.A, block.best.B)

    def _repair(self, block: StepBlock, run: Run) -> None:
        """Offer the block the margins of V with the T that is best for them."""
        allowed = POLICY.repair * block.tol * abs(block.best.primal)
        total = block.data.sets.sum_by_set(block.at.A) + block.at.B
        T = best_privileged(block.data.problem, block.needed(1.0), total, allowed, block.data.directions, run)
        block.offer(block.at.V, T)
        self.n_repaired = self.n_passes


class SplitPasses:
    """Passes over some labels of a step: all that R couples, or some that it does not.

    Invariants: N = X^T (S o A) F; ``dual.totals`` are the sums of A over sets; ``slack`` = U T.
    """

    def __init__(
        self, data: BlockData, A: np.ndarray, beta: np.ndarray, T: np.ndarray, regression: Regression, state: np.ndarray
    ) -> None:
        self.data, self.regression, sets = data, regression, data.sets
        n_samples = len(data.signs)
        self.rho, self.beta, self.T = regression.rho[:, None], beta, T
        self.slack = sets.slack(T, data.labels)
        V = data.features.average(data.signs * A)
        self.F = np.ascontiguousarray(data.problem.prior.factor) if data.is_coupled else np.empty((0, 0))
        self.N = np.ascontiguousarray(V @ self.F if data.is_coupled else V)
        offset, totals = np.empty(beta.shape), sets.sum_by_set(A)
        self.dual = SplitDual(A, data.signs, data.features.sqnorm, sets.row_set, offset, 1.0 / regression.rho, totals)
        # Pairs without a constraint are the last of each row, and not visited.
        self.active = SplitActive(
            np.arange(n_samples, dtype=np.int32),
            np.argsort(~data.there, axis=1, kind="stable").astype(np.int32),
            np.empty(n_samples, dtype=np.int32),
            state,
        )
        self.n_passes = 0

    @classmethod
    def of(cls, data: BlockData, start: SlackDual, regression: Regression, seed: int) -> SplitPasses:
        """Passes from the columns of ``start`` that belong to these labels."""
        A = np.where(data.there, start.A[:, data.labels], 0.0)
        B = np.where(data.set_there, start.B[:, data.labels], 0.0)
        T = data.weights_of(A, B)[1]
        return cls(data, A, data.sets.sum_by_set(A) + B, T, regression, random_state_array(seed))

    def without(self, done: list[int]) -> SplitPasses:
        """Passes that go on from here without some labels, which R does not couple."""
        left = ~np.isin(self.data.labels, done)
        if left.all():
            return self
        data = replace(self.data, labels=self.data.labels[left])
        A = np.ascontiguousarray(self.dual.A[:, left])
        return SplitPasses(data, A, self.beta[:, left], self.T[:, left], self.regression, self.active.state)

    def iterate(self) -> None:
        """One iteration of V, T and multipliers."""
        data, dual = self.data, self.dual
        dual.offset[:] = self.slack - self.beta / self.rho
        visit_all = self.n_passes % POLICY.visit_all == 0
        if visit_all:
            self.active.count[:] = np.count_nonzero(data.there, axis=1)
        keep = POLICY.keep_all if visit_all else POLICY.keep
        split_pass(data.features.view, self.F, data.r, dual, self.active, self.N, keep)
        self.n_passes += 1
        xi = dual.offset + dual.totals / self.rho
        xi = np.where(data.set_there, np.maximum(xi, 0.0), xi)
        xi = POLICY.relax * xi + (1.0 - POLICY.relax) * self.slack
        right = data.sets.adjoint(self.beta - data.set_cost + self.rho * xi, data.labels)
        self.T = self.regression.solve(right, data.labels)
        self.slack = data.sets.slack(self.T, data.labels)
        self.beta = self.beta + self.rho * (xi - self.slack)

    def solution(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, B and T; B is zero, not the rounding of the sums, for slacks above their bound."""
        B = self.beta - self.dual.totals
        return self.dual.A, np.where(ROUNDING * np.abs(self.beta) < B, B, 0.0) * self.data.set_there, self.T


class Regression:
    r"""Solves (gamma2 I + U_i^T diag(rho) U_i) t_i = r_i for labels i.

    Where all labels are privileged features, U_i is the signs of the sets with column i replaced by ones: with H the
    matrix of the signs the system is H plus a matrix of rank 2, so that one inverse serves all labels:

    .. math:: H_i = H + e_i a_i^\top + a_i e_i^\top + b_i e_i e_i^\top, \qquad a_i = S^\top \rho (1 - s_i), \quad
        b_i = (1 - s_i)^\top \rho (1 - s_i)

    Else every label has a factor of its own size.
    """

    def __init__(self, sets: PrivilegedSets, gamma2: float, rho: np.ndarray, directions: SlackDirections) -> None:
        self.sets, self.rho, self.bases = sets, rho, directions.bases
        self.factors: list[np.ndarray] = []
        self.is_shared = sets.mask is None and sets.intercept
        if not self.is_shared:
            for label in range(sets.sets.shape[1]):
                H = privileged_gram(sets, label, rho)
                if label in self.bases:
                    H = self.bases[label].T @ H @ self.bases[label]
                H.flat[:: len(H) + 1] += gamma2
                self.factors.append(cholesky(H))
            return
        H, sums = signs_gram(sets, rho)
        self.a = sums[:, None] - H
        b = 2.0 * (rho.sum() - sums)
        H.flat[:: len(H) + 1] += gamma2
        inverse = solve_factored(cholesky(H), np.eye(len(H)))
        self.inverse = 0.5 * (inverse + inverse.T)
        self.inverse_a = self.inverse @ self.a
        # (M^-1 + E^T H^-1 E)^-1 of E = [e_i, a_i], M = [[b_i, 1], [1, 0]], M^-1 = [[0, 1], [1, -b_i]].
        small = np.empty((len(H), 2, 2))
        small[:, 0, 0] = self.inverse.diagonal()
        small[:, 0, 1] = small[:, 1, 0] = 1.0 + self.inverse_a.diagonal()
        small[:, 1, 1] = np.vecdot(self.a.T, self.inverse_a.T) - b
        self.small = np.linalg.inv(small)

    def solve(self, right: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The t_i of some labels, (n_labels, m), from their r_i."""
        if not self.is_shared:
            T = np.zeros(right.shape)
            for k, label in enumerate(labels):
                columns, basis = self.sets.columns(int(label)), self.bases.get(int(label))
                column = right[columns, k]
                column = solve_factored(self.factors[label], column if basis is None else basis.T @ column)
                T[columns, k] = column if basis is None else basis @ column
            return T
        T = self.inverse @ right
        seen = np.stack([T[labels, np.arange(len(labels))], np.vecdot(self.a.T[labels], T.T)], axis=1)
        first, second = np.einsum("iab,ib->ai", self.small[labels], seen)
        T -= self.inverse[:, labels] * first + self.inverse_a[:, labels] * second
        return T


def best_privileged(
    problem: SVMPlusProblem,
    needed: np.ndarray,
    start: np.ndarray,
    allowed: float,
    directions: SlackDirections,
    run: Run = map,
) -> np.ndarray:
    """The cheapest privileged weights T with at least the slacks ``needed`` of each set, (n_sets, n_labels).

    ``start`` are dual variables to begin with, ``allowed`` is the precision of the objective of all labels together.
    """
    sets = problem.privileged
    n_sets, n_labels = needed.shape
    by_set = PrivilegedSets(sets.sets, np.arange(n_sets), sets.mask, sets.intercept)
    row_cost = sets.sum_by_set(problem.row_cost[:, None])[:, 0]
    prior = PriorPart(np.arange(n_labels), "diagonal", np.zeros(n_labels))
    nothing = np.zeros((n_sets, 1))
    sub = SVMPlusProblem(nothing, sets.sets, row_cost, problem.label_cost, prior, problem.gamma2, by_set)
    features = Features(nothing, nothing)

    def solve(label: int) -> np.ndarray:
        data = BlockData(sub, np.array([label]), features, directions, needed)
        dual = SlackDual(np.zeros((n_sets, 1)), start[:, label : label + 1])
        block = StepBlock(data, 0.0, dual, allowance=allowed / n_labels)
        for _ in range(POLICY.most_repairs):
            if block.done:
                break
            block.advance()
        return block.best.T[:, 0]

    return np.column_stack(list(run(solve, range(n_labels))))
