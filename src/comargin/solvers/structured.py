"""Structured SVM to a certified gap: coordinate steps on blocks of rows, then Newton steps where these are too slow.

A pass visits the rows in blocks. Each row of a block meets the labeling that violates its margin most at the current
weights, then the masses of the labelings it knows are optimised (``kernels/_structured.py``); the weights follow. This
is block-coordinate Frank-Wolfe (Lacoste-Julien et al., 2013) with its labelings kept and pairwise steps.

With few features or a small lambda passes converge slowly. Then the restricted problem, with the labelings known so
far, is solved by Newton's method (``_planes.py``), all rows meet their worst labelings at its solution, and so on: a
cutting plane method with one slack per row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..kernels._structured import Known, Layout, meet_labelings, structured_block, structured_coefficients
from ..problems.cliques import CliqueSet, prox_squared_l21
from ..problems.rows import row_blocks
from ..problems.structured import StructuredProblem
from ._loop import Control, run_loop, tolerance
from ._planes import PlaneProblem, newton_planes
from ._result import Result
from ._row_products import RowProducts
from ._threads import worker_threads

# Rows whose inner products are at hand together: their worst labelings are found at the same weights, so that fewer is
# better, but each block costs a few calls.
_BLOCK = 32
# Rows of a part of a whole pass.
_CHUNK = 1024
# Inner products of the rows of the blocks are kept up to this many bytes.
_GRAM_BYTES = 2**28
# A labeling without mass is forgotten after so many passes. Rows begin with room for few labelings; it grows, within
# bounds, when rows need more.
_OLDEST = 10
_FIRST_CAPACITY, _LAST_CAPACITY = 8, 64
# Newton's method is tried after so many passes, when more than so many are expected.
_PASSES_FIRST, _TOO_MANY = 20, 200
_NEWTON_WORK = 3000.0
# Weight below which a group may be dropped, see Structured.rescale.
_SMALLEST_WEIGHT = 1e-3


class MapEngine(Protocol):
    """What finds the best labeling of every row, see ``comargin.inference.Inference``."""

    def map(self, potentials: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...


@dataclass(frozen=True)
class Labelings:
    """Dual solution: for every row the labelings that have mass, and some that may get it.

    Attributes
    ----------
    known : Known
        Labelings and masses.
    cliques : CliqueSet or None
        What the weights are of.
    weights : ndarray of shape (n_features, n_columns) or None
        W.
    group_weights : ndarray of shape (n_groups,) or None
        t.
    """

    known: Known
    cliques: CliqueSet | None = None
    weights: np.ndarray | None = None
    group_weights: np.ndarray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and labels."""
        return self.known.labels.shape[0], self.known.labels.shape[2]

    @classmethod
    def true(cls, Y: np.ndarray, mass: np.ndarray) -> Labelings:
        """All mass on the true labelings.

        Parameters
        ----------
        Y : uint8 ndarray of shape (n_samples, n_labels)
            True labelings.
        mass : ndarray of shape (n_samples,)
            Masses.

        Returns
        -------
        Labelings
            A dual point of value 0.
        """
        n_samples, n_labels = Y.shape
        labels = np.zeros((n_samples, _FIRST_CAPACITY, n_labels), dtype=np.uint8)
        masses = np.zeros((n_samples, _FIRST_CAPACITY))
        labels[:, 0], masses[:, 0] = Y, mass
        age = np.zeros((n_samples, _FIRST_CAPACITY), dtype=np.int32)
        return cls(Known(labels, masses, age, np.ones(n_samples, dtype=np.int32)))

    def start_of(self, problem: StructuredProblem) -> Labelings:
        """A start for another problem on the same rows, with other masses or more cliques.

        Parameters
        ----------
        problem : StructuredProblem
            What is to be solved.

        Returns
        -------
        Labelings
            A copy. Masses keep their proportions within a row and lie on the true labeling where it had none or
            another one; weights are kept where the new cliques begin with the old, new groups get an equal share.
        """
        known = Known(*(array.copy() for array in self.known))
        total = known.mass.sum(axis=1)
        kept = (total > 0.0) & np.all(known.labels[:, 0] == problem.Y, axis=1)
        known.mass[kept] *= (problem.mass[kept] / total[kept])[:, None]
        known.labels[~kept, 0] = problem.Y[~kept]
        known.mass[~kept] = 0.0
        known.mass[~kept, 0] = problem.mass[~kept]
        known.count[~kept] = 1
        n_groups = problem.cliques.n_groups
        weights, group_weights = None, np.full(n_groups, 1.0 / max(n_groups, 1))
        old = self.cliques
        if old is not None and self.weights is not None and self.group_weights is not None:
            begins_with_old = problem.cliques.cliques[: len(old.cliques)] == old.cliques
            if begins_with_old and problem.cliques.groups[: len(old.groups)] == old.groups:
                weights = np.zeros((self.weights.shape[0], problem.cliques.n_columns), order="F")
                weights[:, : old.n_columns] = self.weights
                group_weights[: old.n_groups] = self.group_weights * old.n_groups / max(n_groups, 1)
        return Labelings(known, problem.cliques, weights, group_weights)

    def with_more_room(self) -> Labelings:
        """The same, with room for twice as many labelings.

        Returns
        -------
        Labelings
            A copy.
        """
        labels, mass, age, count = self.known
        room = ((0, 0), (0, labels.shape[1]))
        return Labelings(Known(np.pad(labels, (*room, (0, 0))), np.pad(mass, room), np.pad(age, room), count))


class Structured:
    """State of one fit: dual masses, their average V, weights W and the weights t of the groups."""

    def __init__(
        self,
        problem: StructuredProblem,
        engine: MapEngine,
        products: RowProducts,
        seed: int,
        tol: float,
        start: Labelings,
    ) -> None:
        self.problem, self.engine, self.products, self.tol = problem, engine, products, tol
        self.labelings = start
        self.group_weights = np.zeros(0) if start.group_weights is None else start.group_weights
        cliques = problem.cliques
        self.layout = Layout(cliques.members, cliques.begin, cliques.column)
        self.rng = np.random.default_rng(seed)
        self.blocks = row_blocks(len(problem.Y), _BLOCK)
        self.grams: dict[int, np.ndarray] = {}
        self.V, self.linear = products.zeros(cliques.n_columns), 0.0
        self.W = start.weights  # of the start, or of the last Newton steps; V * scale if None
        self.sigma = 0.1 * float(np.mean(problem.mass))
        self.n_passes, self.n_certified, self.gap, self.gap_before = 0, 0, np.inf, np.inf
        self.passes_to_go, self.newton_from = np.inf, _PASSES_FIRST
        self.primal = np.inf

    @property
    def weights(self) -> np.ndarray:
        """W, the primal solution."""
        return self.V * self.problem.scale(self.group_weights) if self.W is None else self.W

    def step(self) -> float:
        """One pass, or Newton steps and then one more look at all rows; returns an estimate of the gap."""
        if self.passes_to_go > _TOO_MANY and self.n_passes >= self.newton_from:
            self._newton()
            self.n_passes += 1
            return 0.0  # to be certified, which lets the rows meet their labelings
        gap = self._pass()
        self.n_passes += 1
        return gap

    def _pass(self) -> float:
        """Coordinate steps on all blocks; returns the gap on known labelings as met on the way."""
        problem, known = self.problem, self.labelings.known
        if self.W is not None:
            self._refresh()
            self.W = None
        parts = np.zeros(3)
        scale = problem.scale(self.group_weights)
        for k in self.rng.permutation(len(self.blocks)):
            rows = self.blocks[k]
            theta = self.products.forward(self.V, rows)
            theta *= scale
            augmented = theta.copy()
            problem.augment(augmented, rows)
            found = self.engine.map(augmented)[0]
            delta = np.empty_like(theta)
            indices = np.arange(rows.start, rows.stop)
            structured_block(
                indices,
                problem.Y,
                problem.cost,
                self.layout,
                known,
                found,
                _OLDEST,
                theta,
                self._gram(k),
                scale,
                delta,
                parts,
            )
            self.products.add(rows, delta, self.V)
        self._make_room(parts[2])
        self.rescale(self.V, 0.0)
        return float(parts[0])

    def _gram(self, block: int) -> np.ndarray:
        """Inner products of the rows of a block."""
        gram = self.grams.get(block)
        if gram is None:
            X = self.products.part(self.blocks[block])
            gram = X @ X.T if isinstance(X, np.ndarray) else (X @ X.T).toarray()
            if 8 * _BLOCK * len(self.problem.Y) <= _GRAM_BYTES:
                self.grams[block] = gram
        return gram

    def _make_room(self, n_without: float) -> None:
        """Let rows know more labelings, when more than a few found no room."""
        if n_without > 0.01 * len(self.problem.Y) and self.labelings.known.labels.shape[1] < _LAST_CAPACITY:
            self.labelings = self.labelings.with_more_room()

    def _newton(self) -> None:
        """Solve the restricted problem to a tenth of the gap."""
        known = self.labelings.known
        planes = PlaneProblem(self.problem, self.layout, known, self.products)
        scale, start = self.problem.scale(self.group_weights), self.weights
        masses, self.W, sigma = newton_planes(
            planes, planes.masses(known), start, scale, self.sigma, 0.1 * self.gap, _NEWTON_WORK, self.rescale
        )
        self.sigma = sigma / 25.0  # the next one begins farther from its solution
        planes.store(known, masses)

    def rescale(self, V: np.ndarray, allowed: float) -> np.ndarray | None:
        """Move the weights t of the groups towards their optimum for the dual average V.

        t_k <- t_k ||v_k|| / sum_j t_j ||v_j|| is the minimiser of F over t at the weights t_k v_k / lambda, so that F
        never rises. It only ever reaches zero in the limit; groups that Algorithm 3 with a small step drops are dropped
        at once, and those that it takes up again are.

        Parameters
        ----------
        V : ndarray of shape (n_features, n_columns)
            Dual average, of either sign.
        allowed : float
            Difference between sum_k t_k ||v_k||^2 and the maximum, over 2 lambda, that needs no change.

        Returns
        -------
        ndarray of shape (n_columns,) or None
            New scale; None when nothing changed.
        """
        t = self.group_weights
        if len(t) < 2:
            return None
        lengths = self.problem.cliques.group_lengths(np.einsum("ij,ij->j", V, V))
        longest = float(lengths.max())
        if longest <= 0.0 or 0.5 * (longest**2 - t @ lengths**2) / self.problem.alpha <= allowed:
            return None
        kept = prox_squared_l21(lengths * (t + _SMALLEST_WEIGHT), _SMALLEST_WEIGHT)
        t = np.where(kept > 0.0, np.maximum(t * lengths, kept), 0.0)
        self.group_weights = t / t.sum()
        return self.problem.scale(self.group_weights)

    def _refresh(self) -> None:
        """Compute V and sum Delta a anew from the masses, so that rounding of the updates does not add up."""
        problem = self.problem
        self.V[:], self.linear = 0.0, 0.0
        for rows in row_blocks(len(problem.Y), _CHUNK):
            coefficients = np.empty((rows.stop - rows.start, problem.cliques.n_columns))
            self.linear += structured_coefficients(
                np.arange(rows.start, rows.stop),
                problem.Y,
                problem.cost,
                self.layout,
                self.labelings.known,
                coefficients,
            )
            self.products.add(rows, coefficients, self.V)

    def certify(self) -> tuple[float, float]:
        """Exact objectives; the loss is taken from the bounds of inference, and the rows meet what it found."""
        problem = self.problem
        self._refresh()
        weights = self.weights

        def worst(rows: slice) -> tuple[float, int]:
            potentials = np.ascontiguousarray(self.products.part(rows) @ weights)
            true = problem.true_scores(potentials, rows)
            constant = problem.augment(potentials, rows)
            found, _, bound = self.engine.map(potentials)
            loss = float(problem.mass[rows] @ np.maximum(bound + constant - true, 0.0))
            indices = np.arange(rows.start, rows.stop)
            return loss, meet_labelings(indices, found, self.labelings.known, _OLDEST)

        losses, without_room = zip(*self.products.pool.map(worst, row_blocks(len(problem.Y), _CHUNK)), strict=True)
        self._make_room(sum(without_room))
        self.primal = problem.regulariser(np.einsum("ij,ij->j", weights, weights)) + sum(losses)
        dual = problem.dual(self.linear, np.einsum("ij,ij->j", self.V, self.V))
        self._plan(self.primal - dual)
        return self.primal, dual

    def _plan(self, gap: float) -> None:
        """Passes that are still needed if the gap goes on shrinking as it did since the last certificate."""
        n_passes = self.n_passes - self.n_certified
        if self.W is not None and gap > 0.5 * self.gap:
            self.newton_from = 2 * self.n_passes  # Newton steps did not help: passes first
        allowed = tolerance(self.tol, self.primal)
        if 0.0 < allowed < gap and n_passes > 0:
            shrinkage = np.log(self.gap / gap) if gap < self.gap < np.inf else 0.0
            self.passes_to_go = n_passes * np.log(gap / allowed) / shrinkage if shrinkage > 0.0 else np.inf
            if self.W is not None:  # going on with Newton steps as long as they help
                self.passes_to_go = np.inf
        self.n_certified, self.gap = self.n_passes, gap


def solve_structured(
    problem: StructuredProblem,
    engine: MapEngine,
    control: Control,
    *,
    seed: int,
    n_threads: int = 1,
    start: Labelings | None = None,
) -> Result:
    """Solve a structured SVM to a certified gap.

    Parameters
    ----------
    problem : StructuredProblem
        Data and cliques.
    engine : MapEngine
        Inference on ``problem.cliques``.
    control : Control
        Tolerance, limits, progress and callback.
    seed : int
        Order of the blocks.
    n_threads : int, default=1
        Threads; the result is the same for any number.
    start : Labelings or None
        ``dual_coef`` of another result on the same rows; the true labelings if None.

    Returns
    -------
    Result
        ``coef`` is W^T (n_columns, n_features), ``dual_coef`` the ``Labelings``.
    """
    start = (start or Labelings.true(problem.Y, problem.mass)).start_of(problem)
    with worker_threads(n_threads) as pool:
        state = Structured(problem, engine, RowProducts(problem.X, pool), seed, control.tol, start)
        status, history, tol_abs = run_loop(state.step, state.certify, control)
    solution = Labelings(state.labelings.known, problem.cliques, state.weights, state.group_weights)
    return Result(np.ascontiguousarray(state.weights.T), solution, history, tol_abs, status)
