"""One connected part of the graph of a structured SVM, with fixed weights t of the groups.

A pass visits the rows in blocks. Each row of a block meets the labeling that violates its margin most at the current
weights, then the masses of the labelings it knows are optimised (``kernels/_structured.py``); the weights follow. This
is block-coordinate Frank-Wolfe (Lacoste-Julien et al., 2013) with its labelings kept and pairwise steps.

With few features or a small lambda passes converge slowly. Then the restricted problem, with the labelings known so
far, is solved by Newton's method (``_planes.py``), all rows meet their worst labelings at its solution, and so on: a
cutting plane method with one slack per row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from ..kernels._structured import (
    Known,
    columns_of_moments,
    meet_labelings,
    structured_block,
    structured_coefficients,
)
from ..problems.rows import row_blocks
from ..problems.structured import StructuredProblem
from ._labelings import layout_of, with_room
from ._loop import tolerance
from ._planes import PlaneProblem, newton_planes
from ._row_products import RowProducts

# Rows of a block: their worst labelings are found at the same weights, so that fewer is better, but each block costs a
# few calls. Where weights take more than so many bytes, to read and write all of them costs more than the rest: then
# blocks are larger, and those of so many rows share one product with the weights, as long as the inner products of
# these rows can be kept and rows have at least twice as many entries (else to follow the blocks before costs more).
_BLOCK, _LARGE_BLOCK, _NEAR_BYTES = 32, 128, 2**20
_TOGETHER = 1024
# Rows of a part of a whole pass.
_CHUNK = 1024
# A labeling without mass is forgotten after so many passes. Room for labelings grows up to so many per row.
_OLDEST = 10
_LAST_CAPACITY = 64
# Newton's method is tried after so many passes, when more than so many are expected, for at most so many products with
# all rows; when these are too few, with more after some passes. A start that needed it with other cliques lets it come
# earlier, but not first: without labelings of the new cliques, and weights of their groups that are nearly right, it
# takes more products than all the passes that find both.
_PASSES_FIRST, _TOO_MANY, _NEWTON_WORK, _MOST_NEWTON_WORK = 20, 200, 3000.0, 24000.0
_TOO_MANY_AGAIN = 0.25  # times as many
# The rate of passes is taken over at least so many.
_RATE_PASSES = 10
# First proximal parameter, times the mean mass of a row.
_FIRST_SIGMA = 0.1


class MapEngine(Protocol):
    """What finds the best labeling of every row, see ``comargin.inference.Inference``."""

    def map(self, potentials: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...


class Part:
    """State of one part: masses, their average V (as moments, see ``problems/cliques.py``) and the weights W.

    ``primal`` and ``dual`` are its share of F and D with the norm sum_col ||w_col||^2 / (2 scale_col), that is for
    given t.
    """

    def __init__(
        self,
        problem: StructuredProblem,
        engine: MapEngine,
        products: RowProducts,
        seed: int,
        tol: float,
        known: Known,
        weights: np.ndarray | None,
        scale: np.ndarray,
        *,
        newton_before: bool = False,
        new_cliques: bool = False,
        sigma: float = 0.0,
    ) -> None:
        self.problem, self.engine, self.products, self.tol = problem, engine, products, tol
        self.known, self.scale = known, scale
        cliques = problem.cliques
        self.layout, n_moments = layout_of(cliques), len(cliques.subsets)
        self.rng = np.random.default_rng(seed)
        near = 8 * problem.X.shape[1] * n_moments <= _NEAR_BYTES
        self.block = _BLOCK if near else _LARGE_BLOCK
        shared = not near and products.keeps_gram(_TOGETHER) and problem.X.size >= 2 * _TOGETHER * len(problem.Y)
        self.super_blocks = row_blocks(len(problem.Y), _TOGETHER if shared else self.block)
        self.moments, self.linear = products.zeros(n_moments), 0.0
        self.W = weights  # of the start, or of the last Newton steps; V * scale if None
        self.sigma = max(sigma, _FIRST_SIGMA) * float(np.mean(problem.mass))
        newton_first = newton_before and not new_cliques
        self.too_many = _TOO_MANY_AGAIN * _TOO_MANY if newton_before else _TOO_MANY
        self.n_passes, self.newton_from = 0, 0 if newton_first else _PASSES_FIRST
        self.newton_work = _NEWTON_WORK
        self.anchor = (0, np.inf)  # passes and gap of an earlier certificate
        self.optimism = 1.0  # how many times larger the gap was than its estimate
        self.primal, self.dual, self.loss = np.inf, -np.inf, np.inf
        self.passes_to_go = np.inf if newton_first else 0.0  # not known yet
        self.estimate, self.certified = np.inf, False
        self._refresh()

    @property
    def average(self) -> np.ndarray:
        """The dual average V, a copy."""
        return self.products.arranged(self._columns(np.ascontiguousarray(self.moments)))

    def _columns(self, moments: np.ndarray) -> np.ndarray:
        """Columns of some moments."""
        out = np.empty((len(moments), len(self.layout.moment)))
        columns_of_moments(moments, self.layout, out)
        return out

    @property
    def weights(self) -> np.ndarray:
        """W, the primal solution."""
        return self.average * self.scale if self.W is None else self.W

    @property
    def wants_newton(self) -> bool:
        """Whether Newton steps came last, or were to come next."""
        return self.W is not None or (not self.done and self.passes_to_go > self.too_many)

    @property
    def relative_sigma(self) -> float:
        """Proximal parameter of the next Newton steps, times the mean mass of a row."""
        return self.sigma / float(np.mean(self.problem.mass))

    @property
    def gap(self) -> float:
        """Duality gap for given t."""
        return self.primal - self.dual

    @property
    def done(self) -> bool:
        """Whether nothing needs to be done for given t."""
        return self.certified and self.gap <= 0.5 * tolerance(self.tol, self.primal)

    def group_squares(self, W: np.ndarray, n_groups: int) -> np.ndarray:
        """Squared lengths of the groups in weights, or dual averages, of this part.

        Parameters
        ----------
        W : ndarray of shape (n_features, n_columns)
            Weights.
        n_groups : int
            Groups of the whole problem.

        Returns
        -------
        ndarray of shape (n_groups,)
            Not negative.
        """
        group = self.problem.cliques.group_of_column
        squares = np.einsum("ij,ij->j", W, W)
        return np.bincount(group[group >= 0], squares[group >= 0], minlength=n_groups)

    def rescale(self, scale: np.ndarray) -> None:
        """Go on with other weights of the groups.

        Parameters
        ----------
        scale : ndarray of shape (n_columns,)
            Of the new weights.
        """
        self.scale = scale
        self.certified = False
        if self.W is not None:
            self.W[:, scale <= 0.0] = 0.0  # dropped groups

    def step(self, regroup: Callable[[Part, np.ndarray, float], np.ndarray | None]) -> None:
        """One pass, or Newton steps, to be certified afterwards.

        Parameters
        ----------
        regroup : callable
            Given this part, a dual average and a tolerance: the scale of better weights of the groups, or None.
        """
        if self.passes_to_go > self.too_many and self.n_passes >= self.newton_from:
            self._newton(regroup)
            self.estimate = 0.0
        else:
            self.estimate = self.optimism * self._pass()
        self.certified = False
        self.n_passes += 1

    def _pass(self) -> float:
        """Coordinate steps on all blocks; returns the gap on known labelings as met on the way."""
        problem = self.problem
        if self.W is not None:
            self._refresh()
            self.W = None
        parts = np.zeros(3)
        for k in self.rng.permutation(len(self.super_blocks)):
            rows = self.super_blocks[k]
            all_potentials = self.products.forward(self.moments, rows)
            gram, all_delta = self.products.gram(rows), np.empty_like(all_potentials)
            for block in row_blocks(rows.stop - rows.start, self.block):
                done, indices = slice(0, block.start), np.arange(rows.start + block.start, rows.start + block.stop)
                potentials, delta = all_potentials[block], all_delta[block]
                if block.start:  # what the blocks before have changed
                    potentials += gram[block, done] @ all_delta[done]
                theta = self._columns(potentials)
                theta *= self.scale
                problem.augment(theta, slice(indices[0], indices[-1] + 1))
                found = self.engine.map(theta)[0]
                structured_block(
                    indices, problem.Y, problem.cost, self.layout, self.known, found, _OLDEST, potentials,
                    np.ascontiguousarray(gram[block, block]), self.scale, delta, parts,
                )  # fmt: skip
            self.products.add(rows, all_delta, self.moments)
        self._make_room(parts[2])
        return float(parts[0])

    def _make_room(self, n_without: float) -> bool:
        """Let rows know more labelings, when some found no room since all that the row knows have mass."""
        capacity = self.known.mass.shape[1]
        grows = n_without > 0 and capacity < _LAST_CAPACITY
        if grows:
            self.known = with_room(self.known, min(2 * capacity, _LAST_CAPACITY))
        return grows

    def _newton(self, regroup: Callable[[Part, np.ndarray, float], np.ndarray | None]) -> None:
        """Solve the restricted problem to a tenth of the gap."""
        planes = PlaneProblem(self.problem, self.layout, self.known, self.products)

        def rescale(V: np.ndarray, allowed: float) -> np.ndarray | None:
            scale = regroup(self, V, allowed)
            if scale is not None:
                self.scale = scale
            return scale

        start = planes.masses(self.known), self.weights
        masses, self.W, sigma = newton_planes(
            planes, *start, self.scale, self.sigma, 0.1 * self.gap, self.newton_work, rescale
        )
        # The next one begins farther from its solution.
        self.sigma = max(sigma / 25.0, _FIRST_SIGMA * float(np.mean(self.problem.mass)))
        planes.store(self.known, masses)

    def _refresh(self) -> None:
        """Compute the moments and sum Delta a anew from the masses, so that rounding of the updates does not add up.

        Masses are brought back to the simplex first: a certificate is one only for a feasible dual point.
        """
        problem = self.problem
        total = self.known.mass.sum(axis=1)
        self.known.mass[:] *= np.divide(problem.mass, total, out=np.zeros_like(total), where=total > 0.0)[:, None]
        self.moments[:], self.linear = 0.0, 0.0
        for rows in row_blocks(len(problem.Y), _CHUNK):
            coefficients = np.empty((rows.stop - rows.start, self.moments.shape[1]))
            self.linear += structured_coefficients(
                np.arange(rows.start, rows.stop), problem.Y, problem.cost, self.layout, self.known, coefficients
            )
            self.products.add(rows, coefficients, self.moments)

    def certify(self) -> None:
        """Exact objectives; the loss is taken from the bounds of inference, and the rows meet what it found."""
        problem = self.problem
        self._refresh()
        V = self.average
        weights = V * self.scale if self.W is None else self.W

        def worst(rows: slice) -> tuple[float, np.ndarray, int]:
            potentials = np.ascontiguousarray(self.products.part(rows) @ weights)
            true = problem.true_scores(potentials, rows)
            constant = problem.augment(potentials, rows)
            found, _, bound = self.engine.map(potentials)
            loss = float(problem.mass[rows] @ np.maximum(bound + constant - true, 0.0))
            return loss, found, meet_labelings(np.arange(rows.start, rows.stop), found, self.known, _OLDEST)

        chunks = row_blocks(len(problem.Y), _CHUNK)
        losses, all_found, without_room = zip(*self.products.pool.map(worst, chunks), strict=True)
        if self._make_room(sum(without_room)):
            for rows, found in zip(chunks, all_found, strict=True):
                meet_labelings(np.arange(rows.start, rows.stop), found, self.known, _OLDEST)
        self.loss = sum(losses)
        squares = np.einsum("ij,ij->j", weights, weights)
        norm = 0.5 * float(np.sum(np.divide(squares, self.scale, out=np.zeros_like(squares), where=squares > 0.0)))
        before, self.certified = self.gap, True
        self.primal = norm + self.loss
        self.dual = self.linear - 0.5 * float(self.scale @ np.einsum("ij,ij->j", V, V))
        self._plan(before)

    def _plan(self, before: float) -> None:
        """Passes that are still needed if the gap goes on shrinking as it did; ``before`` is the gap certified last."""
        gap, n_passes = self.gap, self.n_passes - self.anchor[0]
        allowed = 0.5 * tolerance(self.tol, self.primal)
        if self.n_passes == 0:  # passes begin without the weights of a start, and may lose some of it
            return
        if self.W is not None:  # going on with Newton steps as long as they help
            if gap > 0.5 * before:
                self.newton_from = self.n_passes + _PASSES_FIRST
                self.newton_work = min(2.0 * self.newton_work, _MOST_NEWTON_WORK)
            self.passes_to_go, self.anchor = np.inf, (self.n_passes, gap)
            return
        if 0.0 < self.estimate <= allowed < gap:  # looked solved, and was not
            self.optimism = min(self.optimism * gap / self.estimate, 100.0)
        if self.anchor[1] == np.inf:
            self.anchor = (self.n_passes, gap)
        elif n_passes >= _RATE_PASSES:  # over fewer passes the gap may well rise
            shrinkage = np.log(self.anchor[1] / gap) if 0.0 < gap < self.anchor[1] else 0.0
            ahead = np.log(gap / allowed) if 0.0 < allowed < gap else 0.0
            self.passes_to_go = n_passes * ahead / shrinkage if shrinkage > 0.0 else np.inf
            self.anchor = (self.n_passes, gap)
