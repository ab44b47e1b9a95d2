r"""The first part of an SVM+ step: coordinate descent for V, least squares for T, multipliers between them.

The slacks xi (one per label set) and the privileged weights T are split, xi = U T, by the alternating direction method
of multipliers (Gabay and Mercier, 1976) with multipliers beta - cost and penalties rho_g that grow with the rows of the
set:

1. V and xi by one pass of dual coordinate descent with slacks held near U T (``kernels/_prml_split``): M3L's pass, with
   budgets that give way;
2. T by least squares, (gamma2 I + U^T diag(rho) U) T = U^T (beta - cost + rho xi), factorised once for all passes;
3. beta += rho (xi - U T).

The dual is near its optimum after a hundred passes or so, the constraints are still broken by what the worst row lacks.
For the certificate of coupled labels T is therefore solved exactly for the margins at hand, each label for itself: an
SVM+ without features (``best_privileged``). Labels that R does not couple make two passes over the rows that matter in
each iteration (``kernels/_prml_label``), and what their slacks lack is added to T where few rows pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..kernels._cholesky import cholesky, solve_factored
from ..kernels._prml_label import (
    LabelSplit,
    SlackPrices,
    SplitInverse,
    SplitSets,
    prml_label_certificate,
    prml_split_label,
)
from ..kernels._prml_split import SplitActive, SplitDual, prml_split_pass
from ..kernels._random import random_state_array
from ..problems.label_prior import PriorPart
from ..problems.prml import PrivilegedSets, SlackDual, SVMPlusProblem
from ..problems.rows import squared_lengths
from ._loop import ROUNDING
from ._prml_step import StepBlock, Ways
from ._prml_system import Features, privileged_gram, signs_gram

# Penalty of a slack, per row of its set; over-relaxation of the slacks. Both for coupled labels.
_PENALTY = 0.1
_RELAX = 1.5
# Every so many passes all variables are visited; then those at zero with gradients below the first number are kept,
# and in other passes those below the second.
_VISIT_ALL = 10
_KEEP = (0.3, 1.0)
# Labels that are not coupled: penalty of a slack, by the root of the rows of its set; passes over the rows in each
# iteration, and its over-relaxation; iterations between two certificates, and the rows
# a certificate keeps. Iterations of the first round, and most of all rounds; up to how many they go on if the gap only
# falls by this factor in a round.
_PENALTY_ALONE = 0.2
_SWEEPS, _RELAX_ALONE = 2, 1.8
_CERTIFY_EVERY, _KEEP_ALONE = 10, 0.03
_FIRST_ROUND, _MOST_ALONE = 20, 160
_MOST_IN_HOPE, _FALL = 80, 2.0
# How far V and T are scaled up for a certificate: shares of what the margins lack.
_SHARES = np.array([0.0, 0.1, 0.3, 0.6])
# The exact T: precision as a share of that of the step, and most updates of the multipliers.
_PRECISION = 0.2
_MOST_UPDATES = 30


class SplitPhase:
    """Passes over all labels of a block that R couples.

    Invariants: N = X^T (S o A) F; ``totals`` are the sums of A over sets; ``slack`` = U T.

    Parameters
    ----------
    block : StepBlock
        All labels, with R = F F^T; its dual variables are the start.
    seed : int
        Of the order of rows and labels.
    """

    def __init__(self, block: StepBlock, seed: int) -> None:
        self.block, sets = block, block.sets
        n_samples, n_labels = block.S.shape
        self.F = np.ascontiguousarray(block.problem.prior.factor)
        self.diagonal = np.vecdot(self.F, self.F)
        rho = _PENALTY * _rows_of(sets)
        self.rho = rho[:, None]
        self.regression = _Regression(sets, block.gamma2, rho)
        totals = sets.sum_by_set(block.A)
        self.beta = totals + block.B
        self.T, self.slack = block.T, block.xi
        self.N = np.ascontiguousarray(block.features.average(block.S * block.A) @ self.F)
        sqnorm = squared_lengths(block.features.X)
        self.dual = SplitDual(block.A.copy(), block.S, sqnorm, sets.row_set, np.empty(totals.shape), 1.0 / rho, totals)
        self.active = SplitActive(
            np.arange(n_samples, dtype=np.int32),
            np.tile(np.arange(n_labels, dtype=np.int32), (n_samples, 1)),
            np.empty(n_samples, dtype=np.int32),
            random_state_array(seed),
        )
        self.n_passes = 0

    def iterate(self) -> None:
        """One iteration of V, T and multipliers."""
        block, dual, active = self.block, self.dual, self.active
        dual.offset[:] = self.slack - self.beta / self.rho
        visit_all = self.n_passes % _VISIT_ALL == 0
        if visit_all:
            active.count[:] = dual.A.shape[1]
        keep = _KEEP[0 if visit_all else 1]
        prml_split_pass(block.features.view, self.F, self.diagonal, dual, active, self.N, keep)
        self.n_passes += 1
        xi = np.maximum(dual.offset + dual.totals / self.rho, 0.0)
        xi = _RELAX * xi + (1.0 - _RELAX) * self.slack
        right = block.sets.adjoint(self.beta - block.set_cost + self.rho * xi, block.labels)
        self.T = self.regression.solve(right)
        self.slack = block.sets.slack(self.T, block.labels)
        self.beta = self.beta + self.rho * (xi - self.slack)

    def to_block(self) -> None:
        """Give the block these dual variables, with its certificate."""
        block = self.block
        block.A = self.dual.A.copy()
        block.B = _bounds_dual(self.beta, self.dual.totals)
        block.link()
        block.T, block.xi = self.T, self.slack
        block.certify()

    def repair(self, run: Callable[..., Iterable[Any]] = map) -> None:
        """Offer the block the margins of V with the T that is best for them."""
        block = self.block
        allowed = _PRECISION * block.tol * abs(block.best_primal)
        ways = Ways(block.lift, {})  # passes are made only where no slack has to be zero
        T = best_privileged(block.problem, block.needed(1.0), self.dual.totals + block.B, allowed, ways, run)
        block.offer(block.V, T)


class LabelPasses:
    """What the passes over single labels share, where R couples none.

    Parameters
    ----------
    problem : SVMPlusProblem
        All labels.
    seed : int
        Of the order of rows.
    """

    def __init__(self, problem: SVMPlusProblem, seed: int) -> None:
        sets, self.seed = problem.privileged, seed
        rho = _PENALTY_ALONE * np.sqrt(_rows_of(sets))
        self.regression = _Regression(sets, problem.gamma2, rho)
        self.sets = SplitSets(squared_lengths(problem.X), sets.row_set, rho, sets.on.indptr, sets.on.indices)


class LabelRun:
    """Passes over one label, in rounds, as long as they promise to meet the tolerance.

    Parameters
    ----------
    shared : LabelPasses
        Of all labels.
    block : StepBlock
        Of this label; its dual variables are the start. It gets every certificate, and stands where the passes ended as
        soon as they are not promising.
    """

    def __init__(self, shared: LabelPasses, block: StepBlock) -> None:
        self.block, self.shared, self.label = block, shared, int(block.labels[0])
        totals = block.sets.sum_by_set(block.A)[:, 0]
        self.one = LabelSplit(
            block.A[:, 0].copy(),
            block.S[:, 0],
            block.V[:, 0].copy(),
            block.T[:, 0].copy(),
            block.xi[:, 0].copy(),
            totals + block.B[:, 0],
            block.set_cost[:, 0],
            totals,
        )
        gradient = block.margins[:, 0] - 1.0 + np.maximum(block.xi[block.sets.row_set, 0], 0.0)
        self.n_rows = np.count_nonzero((self.one.A > 0.0) | (gradient < _KEEP_ALONE))
        self.rows = np.argsort((self.one.A <= 0.0) & (gradient >= _KEEP_ALONE), kind="stable").astype(np.int32)
        self.state = random_state_array(shared.seed)  # the same for all: equal labels get equal weights
        self.n_passes, self.promising = 0, True

    def advance(self) -> None:
        """A round of as many iterations as there were, with certificates."""
        block, shared = self.block, self.shared
        inverse, r = shared.regression.inverse_of(self.label), float(block.r[0])
        before = block.best_primal - block.best_dual
        for _ in range(0, max(self.n_passes, _FIRST_ROUND), _CERTIFY_EVERY):
            rows = self.rows[: self.n_rows]
            prml_split_label(
                block.features.view,
                r,
                self.label,
                self.one,
                shared.sets,
                inverse,
                self.state,
                rows,
                _CERTIFY_EVERY,
                _SWEEPS,
                _RELAX_ALONE,
            )
            self.n_passes += _CERTIFY_EVERY
            self._certify(r)
            if block.done:
                break
        gap = block.best_primal - block.best_dual
        fall = before / gap if gap > 0.0 else np.inf
        # The next round has twice the iterations of this one.
        hopeful = self.n_passes < _MOST_IN_HOPE and fall >= _FALL
        self.promising = self.n_passes < _MOST_ALONE and (hopeful or gap <= fall**2 * block.allowed())
        if not self.promising and not block.done:
            block.A, block.B = self._dual_variables()
            block.link()
            block.certify()
            block.T, block.xi = self.one.T[:, None].copy(), self.one.slack[:, None].copy()

    def _certify(self, r: float) -> None:
        """Objectives of where the passes are, for the block, and the rows to visit from here on."""
        block, T = self.block, np.empty(len(self.one.T))
        self.n_rows, dual, primal, scale = prml_label_certificate(
            block.features.view,
            r,
            block.gamma2,
            self.label,
            self.one,
            self.shared.sets,
            SlackPrices(block.sets.used[:, self.label].copy(), block.linear[:, 0], block.lift[:, 0], block.price[:, 0]),
            _KEEP_ALONE,
            _SHARES,
            self.rows,
            T,
        )
        if dual > block.best_dual:
            block.best_dual = dual
            block.best_A, block.best_B = self._dual_variables()
        block.keep(primal, scale * self.one.v[:, None], T[:, None])

    def _dual_variables(self) -> tuple[np.ndarray, np.ndarray]:
        """A and B of the passes."""
        return self.one.A[:, None].copy(), _bounds_dual(self.one.beta[:, None], self.one.totals[:, None])


def _rows_of(sets: PrivilegedSets) -> np.ndarray:
    """How many rows each set has."""
    return np.bincount(sets.row_set, minlength=len(sets.sets)).astype(np.float64)


def _bounds_dual(beta: np.ndarray, totals: np.ndarray) -> np.ndarray:
    """B of multipliers beta = sum A + B: zero, not the rounding of the sums, for slacks above their bound."""
    B = beta - totals
    return np.where(B > ROUNDING * np.abs(beta), B, 0.0)


class _Regression:
    r"""Solves (gamma2 I + U_i^T diag(rho) U_i) t_i = r_i for all labels i.

    Where all labels are privileged features, U_i is the signs of the sets with column i replaced by ones: with H the
    matrix of the signs the system is H plus a matrix of rank 2, so that one inverse serves all labels:

    .. math:: H_i = H + e_i a_i^\top + a_i e_i^\top + b_i e_i e_i^\top, \qquad a_i = S^\top \rho (1 - s_i), \quad
        b_i = (1 - s_i)^\top \rho (1 - s_i)

    Else every label has a factor of its own size.

    Parameters
    ----------
    sets : PrivilegedSets
        U.
    gamma2 : float
        Regularisation of T.
    rho : ndarray of shape (n_sets,)
        Weights of the sets, positive.
    """

    def __init__(self, sets: PrivilegedSets, gamma2: float, rho: np.ndarray) -> None:
        self.sets = sets
        self.factors: list[np.ndarray] = []
        labels = range(sets.sets.shape[1])
        self.shared = sets.mask is None and sets.intercept
        if not self.shared:
            for label in labels:
                H = privileged_gram(sets, label, rho)
                H.flat[:: len(H) + 1] += gamma2
                self.factors.append(cholesky(H))
            return
        H, sums = signs_gram(sets, rho)
        a = sums[:, None] - H
        b = 2.0 * (rho.sum() - sums)
        H.flat[:: len(H) + 1] += gamma2
        inverse = solve_factored(cholesky(H), np.eye(len(H)))
        self.inverse = 0.5 * (inverse + inverse.T)
        self.a, self.inverse_a = a, self.inverse @ a
        # (M^-1 + E^T H^-1 E)^-1 of E = [e_i, a_i], M = [[b_i, 1], [1, 0]], M^-1 = [[0, 1], [1, -b_i]].
        small = np.empty((len(H), 2, 2))
        small[:, 0, 0] = self.inverse.diagonal()
        small[:, 0, 1] = small[:, 1, 0] = 1.0 + self.inverse_a.diagonal()
        small[:, 1, 1] = np.vecdot(a.T, self.inverse_a.T) - b
        self.small = np.linalg.inv(small)

    def inverse_of(self, label: int) -> SplitInverse:
        """The inverse of one system, zero in places that the label does not use."""
        if self.shared:
            pair = np.stack([self.inverse[:, label], self.inverse_a[:, label]])
            return SplitInverse(self.inverse, pair, self.small[label])
        n_labels = self.sets.sets.shape[1]
        columns, factor = self.sets.columns(label), self.factors[label]
        inverse = np.zeros((n_labels, n_labels))
        inverse[np.ix_(columns, columns)] = solve_factored(factor, np.eye(len(factor)))
        return SplitInverse(inverse, np.zeros((2, n_labels)), np.zeros((2, 2)))

    def solve(self, right: np.ndarray) -> np.ndarray:
        """All t_i, (n_labels, n_labels), from all r_i."""
        if not self.shared:
            T = np.zeros(right.shape)
            for label, factor in enumerate(self.factors):
                columns = self.sets.columns(label)
                T[columns, label] = solve_factored(factor, right[columns, label])
            return T
        T = self.inverse @ right
        seen = np.stack([T.diagonal(), np.vecdot(self.a.T, T.T)], axis=1)
        first, second = np.einsum("iab,ib->ai", self.small, seen)
        T -= self.inverse * first + self.inverse_a * second
        return T


def best_privileged(
    problem: SVMPlusProblem,
    needed: np.ndarray,
    start: np.ndarray,
    allowed: float,
    ways: Ways,
    run: Callable[..., Iterable[Any]] = map,
) -> np.ndarray:
    """The cheapest privileged weights with at least the given slacks.

    Parameters
    ----------
    problem : SVMPlusProblem
        All labels.
    needed : ndarray of shape (n_sets, n_labels)
        Smallest slack of each set.
    start : ndarray of shape (n_sets, n_labels)
        Dual variables to begin with.
    allowed : float
        Precision of the objective, of all labels together.
    ways : Ways
        Of the problem.
    run : callable
        Maps a function over labels.

    Returns
    -------
    ndarray of shape (n_labels, n_labels)
        T; feasible.
    """
    sets = problem.privileged
    n_sets, n_labels = needed.shape
    by_set = PrivilegedSets(sets.sets, np.arange(n_sets), sets.mask, sets.intercept)
    row_cost = sets.sum_by_set(problem.row_cost[:, None])[:, 0]
    prior = PriorPart(np.arange(n_labels), "diagonal", np.zeros(n_labels))
    nothing = np.zeros((n_sets, 1))
    sub = SVMPlusProblem(nothing, sets.sets, row_cost, problem.label_cost, prior, problem.gamma2, by_set)
    features = Features(nothing, nothing)
    share = allowed / n_labels

    def solve(label: int) -> np.ndarray:
        dual = SlackDual(np.zeros((n_sets, 1)), start[:, label : label + 1])
        block = StepBlock(sub, np.array([label]), features, 0.0, 0.0, dual, ways, needed=needed, allowance=share)
        for _ in range(_MOST_UPDATES):
            if block.done:
                break
            block.advance()
        return block.best_T[:, 0]

    return np.column_stack(list(run(solve, range(n_labels))))
