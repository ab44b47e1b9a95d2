r"""The first part of an SVM+ step: coordinate descent for V, least squares for T, multipliers between them.

The slacks xi (one per label set) and the privileged weights T are split, xi = U T, by the alternating direction method
of multipliers (Gabay and Mercier, 1976) with multipliers beta - cost and penalties rho_g that grow with the rows of the
set:

1. V and xi by one pass of dual coordinate descent with slacks held near U T (``_loops.py``): M3L's pass, with a
   quadratic penalty in place of the upper bounds of A;
2. T by least squares, (gamma2 I + U^T diag(rho) U) T = U^T (beta - cost + rho xi), factorised once for all passes;
3. beta += rho (xi - U T).

The dual is near its optimum after a hundred passes or so; the constraints are still broken by what the worst row lacks,
which the certificate adds to T.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.cholesky import cholesky, solve_factored
from ..core.loop import ROUNDING
from ..core.random_numbers import random_state_array
from ..m3l.solver import label_blocks
from ._coupled import solves_directly
from ._loops import SplitDual, split_pass
from ._step import StepBlock
from ._system import Features, Run, privileged_gram, signs_gram
from .problem import PrivilegedSets, SlackDual, SVMPlusProblem


@dataclass(frozen=True)
class SplitPolicy:
    """Tuned numbers of the splitting."""

    penalty: float = 0.1  # of a slack, per row of its set
    # Passes of the first round of single labels and of coupled ones, and how rounds grow.
    first_alone: int = 20
    first_coupled: int = 100
    growth: float = 1.5
    # Most passes where Newton steps can follow.
    most_alone: int = 300
    most_coupled: int = 600
    # A single label goes on while a round divides its gap, or that of all, by this; coupled ones are given to Newton
    # steps if the gap is this share of the objective after a round.
    fall: float = 3.0
    too_far: float = 0.5


POLICY = SplitPolicy()


class Splitting:
    """Rounds of passes over all labels of a step, as long as they pay; ``blocks`` get their certificates.

    R couples either all labels, of one block, or none: then passes run over fixed parts of the labels, in threads.
    """

    def __init__(self, problem: SVMPlusProblem, blocks: list[StepBlock], start: SlackDual, seed: int) -> None:
        features = blocks[0].features
        self.blocks, self.is_coupled, self.n_passes = blocks, problem.is_coupled, 0
        sizes = np.bincount(problem.privileged.row_set).astype(np.float64)
        regression = Regression(problem.privileged, problem.gamma2, POLICY.penalty * sizes)
        apart = [] if self.is_coupled else [problem.part(part.labels) for part in label_blocks((problem.prior,))]
        self.passes = [
            SplitPasses(part, features, start.of(part.labels), None, regression, random_state_array(seed))
            for part in apart or [problem]
        ]
        self.newton_follows = not self.is_coupled or solves_directly(features, problem.prior)
        self.count = POLICY.first_coupled if self.is_coupled else POLICY.first_alone
        self.exhausted = False

    def advance(self, run: Run, look: Callable[[], None]) -> None:
        """One round and its certificates; single labels that are done, or gain too little, leave the passes."""
        labels = np.concatenate([p.problem.labels for p in self.passes])  # in ascending order
        blocks = [block for block in self.blocks if block.problem.labels[0] in labels]
        before = np.array([block.best.gap for block in blocks])

        def go(passes: SplitPasses) -> None:
            for _ in range(self.count):
                passes.iterate()
                if self.is_coupled:
                    look()

        list(run(go, self.passes))
        self.n_passes += self.count
        self.count = int(POLICY.growth * self.count)
        A, B, T = (np.hstack(parts) for parts in zip(*(p.solution() for p in self.passes), strict=True))

        def place(block: StepBlock) -> None:
            own = np.searchsorted(labels, block.problem.labels)
            block.stand_at(A[:, own], B[:, own], T=T[:, own])

        list(run(place, blocks))
        if self.is_coupled:
            best = blocks[0].best
            far = best.gap >= before[0] or best.gap > POLICY.too_far * best.primal
            self.exhausted = self.newton_follows and (far or self.n_passes >= POLICY.most_coupled)
            if self.exhausted:
                blocks[0].stand_at(best.A, best.B)
            return
        gaps, done = np.array([(block.best.gap, block.done) for block in blocks]).T
        paid = (POLICY.fall * gaps <= before) | (POLICY.fall * gaps.sum() <= before.sum())
        stay = labels[paid & (done == 0.0)]
        self.passes = [p.only(stay) for p in self.passes if np.isin(p.problem.labels, stay).any()]
        self.exhausted = not self.passes or self.n_passes >= POLICY.most_alone


class SplitPasses:
    """Passes over some labels of a step: all that R couples, or some that it does not.

    Invariants: N = X^T (S o A) F; ``dual.totals`` are the sums of A over sets; ``slack`` = U T.
    """

    def __init__(
        self,
        problem: SVMPlusProblem,
        features: Features,
        start: SlackDual,
        T: np.ndarray | None,
        regression: Regression,
        state: np.ndarray,
    ) -> None:
        self.problem, self.features, self.regression, sets = problem, features, regression, problem.privileged
        A, B = np.where(problem.there, start.A, 0.0), np.where(problem.set_there, start.B, 0.0)
        totals = sets.sum_by_set(A)
        self.rho, self.beta = regression.rho[:, None], totals + B
        self.T = problem.privileged_weights(SlackDual(A, B)) if T is None else T
        self.slack = sets.slack(self.T, problem.labels)
        V = features.average(problem.S * A)
        self.F = np.ascontiguousarray(problem.prior.factor) if problem.is_coupled else np.empty((0, 0))
        self.N = np.ascontiguousarray(V @ self.F if problem.is_coupled else V)
        signs, offset = problem.S * problem.there, np.empty(totals.shape)
        self.dual = SplitDual(A, signs, features.sqnorm, sets.row_set, offset, 1.0 / regression.rho, totals)
        self.rows, self.state = np.arange(len(problem.S), dtype=np.int32), state

    def only(self, labels: np.ndarray) -> SplitPasses:
        """Passes that go on from here over those of the given labels, which R does not couple."""
        left = np.flatnonzero(np.isin(self.problem.labels, labels))
        A, B, T = (np.ascontiguousarray(array[:, left]) for array in self.solution())
        part = self.problem.part(left)
        return SplitPasses(part, self.features, SlackDual(A, B), T, self.regression, self.state)

    def iterate(self) -> None:
        """One iteration of V, T and multipliers."""
        problem, sets, dual = self.problem, self.problem.privileged, self.dual
        dual.offset[:] = self.slack - self.beta / self.rho
        split_pass(self.features.view, self.F, problem.prior.diagonal, dual, self.rows, self.state, self.N)
        xi = dual.offset + dual.totals / self.rho
        xi = np.where(problem.set_there, np.maximum(xi, 0.0), xi)
        right = sets.adjoint(self.beta - problem.set_cost + self.rho * xi, problem.labels)
        self.T = self.regression.solve(right, problem.labels)
        self.slack = sets.slack(self.T, problem.labels)
        self.beta = self.beta + self.rho * (xi - self.slack)

    def solution(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A, B and T; B is zero, not the rounding of the sums, for slacks above their bound."""
        B = self.beta - self.dual.totals
        return self.dual.A, np.where(ROUNDING * np.abs(self.beta) < B, B, 0.0) * self.problem.set_there, self.T


class Regression:
    r"""Solves (gamma2 I + U_i^T diag(rho) U_i) t_i = r_i for labels i.

    Where all labels are privileged features, U_i is the signs of the sets with column i replaced by ones: the system is
    that of the signs, H, plus a matrix of rank 2, and one inverse serves all labels. Else each has its own factor.
    With 1 - s in {0, 1, 2}:

    .. math:: H_i = H + e_i a_i^\top + a_i e_i^\top + b_i e_i e_i^\top, \qquad a_i = S^\top \rho (1 - s_i), \quad
        b_i = (1 - s_i)^\top \rho (1 - s_i)
    """

    def __init__(self, sets: PrivilegedSets, gamma2: float, rho: np.ndarray) -> None:
        self.sets, self.rho, self.is_shared = sets, rho, sets.mask is None and sets.intercept
        if not self.is_shared:
            labels = range(sets.sets.shape[1])
            self.factors = [cholesky(privileged_gram(sets, label, rho, gamma2)) for label in labels]
            return
        H, sums = signs_gram(sets, rho)
        self.a = sums[:, None] - H
        b = 2.0 * (rho.sum() - sums) - rho @ (sets.sets == 0)  # (1 - s)^2 = 2 (1 - s), less 1 where s = 0
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
            T = np.empty(right.shape)
            for k, label in enumerate(labels):
                solved = solve_factored(self.factors[label], self.sets.to_label(label, right[:, k]))
                T[:, k] = self.sets.of_label(label, solved)
            return T
        T = self.inverse @ right
        seen = np.stack([T[labels, np.arange(len(labels))], np.vecdot(self.a.T[labels], T.T)], axis=1)
        first, second = np.einsum("iab,ib->ai", self.small[labels], seen)
        T -= self.inverse[:, labels] * first + self.inverse_a[:, labels] * second
        return T
