"""One connected part of the graph of a structured SVM, with fixed weights t of the groups.

A pass visits the rows in blocks. Each row of a block meets the labeling that violates its margin most at the current
weights, then the masses of the labelings it knows are optimised (``_loops.py``); the weights follow. This
is block-coordinate Frank-Wolfe (Lacoste-Julien et al., 2013) with its labelings kept and pairwise steps.

With few features passes converge slowly. When they have cost as much as it would, the restricted problem, with the
labelings known so far, is solved by Newton's method (``_planes.py``), all rows meet their worst labelings at its
solution, and so on: a cutting plane method with one slack per row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.loop import tolerance
from ..core.row_blocks import row_blocks
from ..core.row_products import RowProducts
from ..inference import Inference
from ._loops import Known, Layout, meet_labelings, scores_of_known, structured_block, structured_coefficients
from ._planes import PlaneProblem, newton_planes
from .cliques import prox_squared_l21
from .labelings import columns_of, layout_of, with_room
from .problem import StructuredProblem

_CHUNK = 1024  # rows whose worst labelings are found together at a certificate
_MULTIPLES = (0.5, 2.0)  # of the weights, among which the best is certified
_HALVINGS = 15  # of this interval: 3e-5 of it is left


@dataclass(frozen=True)
class StructuredPolicy:
    """Tuned numbers of the solver: its passes, when Newton's method takes over, and the weights of the groups."""

    block: int = 32  # rows whose worst labelings are found at the same weights: fewer need fewer passes
    near_bytes: int = 2**20  # larger weights leave the cache: blocks are then large and share products with them
    large_block: int = 128  # rows of a block in that case
    together: int = 1024  # rows that share a product, if their inner products fit and rows have twice as many entries
    row_space: float = 1.5  # passes use inner products of all rows if these are at most as many times the entries of X
    row_space_block: int = 8  # rows of a block then
    oldest: int = 10  # passes before a labeling without mass is forgotten; 2 to 40 need the same passes
    last_capacity: int = 64  # most labelings of a row: memory against labelings that are met again and again
    fewest_passes: int = 20  # before a Newton attempt, after a start that needed it or in few features
    passes_per_feature: float = 2.0  # passes whose work is about that of Newton's method, per dimension of X
    most_passes: int = 600  # before a Newton attempt
    newton_work: float = 3000.0  # products with all rows that the first attempt may cost; doubled when it is useless
    first_sigma: float = 0.1  # first proximal parameter of Newton's method, times the mean mass of a row
    smallest_weight: float = 1e-3  # step of Algorithm 3: it sets groups below about this weight to exactly zero


POLICY = StructuredPolicy()


class Certificate(NamedTuple):
    """Share of a part in F and D with the norm sum_col ||w_col||^2 / (2 scale_col), and the loss within F."""

    primal: float = np.inf
    dual: float = -np.inf
    loss: float = np.inf

    @property
    def gap(self) -> float:
        """Duality gap for given t."""
        return self.primal - self.dual


@dataclass(frozen=True)
class PartData:
    """The constant data of one part: problem, inference, products with the rows, columns, and blocks of rows."""

    problem: StructuredProblem
    engine: Inference
    products: RowProducts
    layout: Layout
    block: int
    super_blocks: list[slice]
    in_row_space: bool  # whether passes work with the inner products of all rows, see ``ConnectedPart.run_pass``

    @classmethod
    def of(cls, problem: StructuredProblem, engine: Inference, products: RowProducts) -> "PartData":
        """Choose the blocks: large ones where the weights do not stay in the cache."""
        near = 8 * problem.X.shape[1] * len(problem.cliques.subsets) <= POLICY.near_bytes
        block, together = POLICY.block if near else POLICY.large_block, POLICY.together
        n_rows, size = len(problem.Y), problem.X.size
        in_row_space = products.keeps_gram(n_rows) and n_rows**2 <= POLICY.row_space * size
        if in_row_space:
            block = POLICY.row_space_block
        shared = not (near or in_row_space) and products.keeps_gram(together) and size >= 2 * together * n_rows
        super_blocks = row_blocks(n_rows, together if shared else block)
        return cls(problem, engine, products, layout_of(problem.cliques), block, super_blocks, in_row_space)


class Pace:
    """Chooses between passes and Newton steps: passes first, until they have cost about as much as Newton's method.

    After a start that needed Newton steps these come first, or with new cliques only earlier: without labelings of the
    new cliques and good weights of their groups, Newton steps take more products than the passes that find both.
    """

    def __init__(
        self, tol: float, shape: tuple[int, ...] = (0, 0), newton_before: bool = False, new_cliques: bool = False
    ) -> None:
        self.tol = tol
        self.budget = max(POLICY.fewest_passes, int(min(POLICY.passes_per_feature * min(shape), POLICY.most_passes)))
        self.n_passes, self.newton_from = 0, self.budget
        if newton_before:
            self.newton_from = POLICY.fewest_passes if new_cliques else 0
        self.newton_work = POLICY.newton_work
        self.met, self.ratio = 0.0, 1.0  # gap met on the way in the last pass; by what the certified one is larger

    @property
    def newton_is_next(self) -> bool:
        """Whether the passes have spent their budget."""
        return self.n_passes >= self.newton_from

    @property
    def estimate(self) -> float:
        """The gap that a certificate is expected to find; 0 when nothing is known."""
        return self.ratio * self.met

    def update(self, gap: float, gap_before: float, by_newton: bool) -> None:
        """Learn from the gap of a certificate: go on with Newton steps as long as they help."""
        if by_newton and self.n_passes > 0 and gap > 0.5 * gap_before:
            self.newton_from = self.n_passes + POLICY.fewest_passes
            self.newton_work *= 2.0
        elif not by_newton and self.met > 0.0:
            self.ratio = (self.ratio * gap / self.met) ** 0.5  # smoothed: the primal of single passes is noisy


class ConnectedPart:
    """The iterate of one part: masses, their average V (as moments, see ``cliques.py``), t and the weights W.

    ``known`` is changed; W is V * scale where no ``weights`` are given; ``sigma`` is the proximal parameter of the
    Newton steps before, times the mean mass of a row. With several groups there is only one part (``parts_of``).
    """

    def __init__(
        self,
        data: PartData,
        pace: Pace,
        seed: int,
        known: Known,
        weights: np.ndarray | None,
        group_weights: np.ndarray,
        sigma: float = 0.0,
    ) -> None:
        self.data, self.pace, self.known = data, pace, known
        self.t, self.scale = group_weights, data.problem.scale(group_weights)
        self.rng = np.random.default_rng(seed)
        n_moments = len(data.problem.cliques.subsets)
        self.moments, self.linear = data.products.zeros(n_moments), 0.0
        n_own = len(data.problem.Y) if data.in_row_space else 0
        # In row space passes move these two, and ``average`` brings the moments up to date.
        self.potentials, self.pending = np.empty((n_own, n_moments)), np.zeros((n_own, n_moments))
        self.W = weights  # of the start, or of the last Newton steps; V * scale if None
        self.multiple = 1.0  # of these weights that was certified
        self.relative_sigma = max(sigma, POLICY.first_sigma)  # of the next Newton steps, times the mean mass of a row
        self.certificate, self.certified = Certificate(), False
        self._refresh()

    @property
    def average(self) -> np.ndarray:
        """The dual average V, a copy."""
        if self.pending.any():
            self.data.products.add(slice(0, len(self.pending)), self.pending, self.moments)
            self.pending[:] = 0.0
        return self.data.products.arranged(columns_of(np.ascontiguousarray(self.moments), self.data.layout))

    @property
    def weights(self) -> np.ndarray:
        """W, the primal solution."""
        W = self.average * self.scale if self.W is None else self.W
        return self.multiple * W

    @property
    def wants_newton(self) -> bool:
        """Whether Newton steps came last, or were to come next."""
        return self.W is not None or (not self.done and self.pace.newton_is_next)

    @property
    def gap(self) -> float:
        """Duality gap for given t, or its estimate after a step."""
        return self.certificate.gap if self.done else self.pace.estimate

    @property
    def done(self) -> bool:
        """Whether nothing needs to be done for given t."""
        return self.certified and self.certificate.gap <= 0.5 * tolerance(self.pace.tol, self.certificate.primal)

    def regroup(self, V: np.ndarray | None = None, allowed: float = 0.0) -> np.ndarray | None:
        """Move t towards its optimum at the dual average, or at ``V``; returns the new scale, or None without a change.

        t_k <- t_k ||v_k|| / sum_j t_j ||v_j|| is the minimiser of F over t at the weights t_k v_k / lambda, so that F
        never rises. It reaches zero only in the limit, so Algorithm 3 with a small step decides which groups are zero.
        t does not change while sum_k t_k ||v_k||^2 / (2 lambda) is within ``allowed`` of its maximum.
        """
        if len(self.t) < 2:
            return None
        V, problem = self.average if V is None else V, self.data.problem
        lengths = problem.cliques.group_lengths(np.einsum("ij,ij->j", V, V))
        if 0.5 * (lengths.max() ** 2 - self.t @ lengths**2) / problem.alpha <= allowed:
            return None
        step = POLICY.smallest_weight
        kept = prox_squared_l21(lengths * (self.t + step), step)  # Algorithm 3
        t = np.where(kept > 0.0, np.maximum(self.t * lengths, kept), 0.0)
        self.t = t / t.sum()
        self.scale, self.certified = problem.scale(self.t), False
        if self.W is not None:
            self.W[:, self.scale <= 0.0] = 0.0  # dropped groups
        return self.scale

    def step(self) -> None:
        """Make one pass, or Newton steps, to be certified afterwards; both move t."""
        pace = self.pace
        if pace.newton_is_next:
            self._newton()
            pace.met = 0.0
        else:
            pace.met = self.run_pass()
            self.regroup()
        self.certified = False
        pace.n_passes += 1

    def run_pass(self) -> float:
        """Coordinate steps on all blocks; returns the gap on known labelings as met on the way.

        In row space the potentials X m of all rows follow every block by its columns of X X^T: one product in place of
        two, from moments and to them, which pays where X has not many fewer columns than rows.
        """
        data = self.data
        problem, products = data.problem, data.products
        all_gram = products.gram(slice(0, len(problem.Y))) if data.in_row_space else None
        if self.W is not None:
            self._refresh()
            self.W = None
        self.multiple = 1.0
        parts = np.zeros(3)
        for k in self.rng.permutation(len(data.super_blocks)):
            rows = data.super_blocks[k]
            if all_gram is None:
                all_potentials, gram = products.forward(self.moments, rows), products.gram(rows)
            else:
                all_potentials, gram = self.potentials[rows].copy(), all_gram[rows, rows]
            all_delta = np.empty_like(all_potentials)
            for block in row_blocks(rows.stop - rows.start, data.block):
                done, indices = slice(0, block.start), np.arange(rows.start + block.start, rows.start + block.stop)
                potentials, delta = all_potentials[block], all_delta[block]
                if block.start:  # add the changes of the blocks before
                    potentials += gram[block, done] @ all_delta[done]
                theta = columns_of(potentials, data.layout)
                theta *= self.scale
                problem.augment(theta, slice(indices[0], indices[-1] + 1))
                found = data.engine.best_labels(theta)  # Eq. (13)
                structured_block(
                    indices, problem.Y, problem.cost, data.layout, self.known, found, POLICY.oldest, potentials,
                    np.ascontiguousarray(gram[block, block]), self.scale, delta, parts,
                )  # fmt: skip
            if all_gram is None:
                products.add(rows, all_delta, self.moments)
            else:
                self.potentials += all_gram[rows].T @ all_delta
                self.pending[rows] += all_delta
        self._make_room(parts[2])
        return float(parts[0])

    def _make_room(self, n_without: float) -> bool:
        """Allow more labelings a row when some found no room, as all known ones of their row have mass."""
        capacity = self.known.mass.shape[1]
        grows = n_without > 0 and capacity < POLICY.last_capacity
        if grows:
            self.known = with_room(self.known, min(2 * capacity, POLICY.last_capacity))
        return grows

    def _newton(self) -> None:
        """Solve the restricted problem to a tenth of the gap."""
        problem = self.data.problem
        planes = PlaneProblem(problem, self.data.layout, self.known, self.data.products)
        mean_mass = float(np.mean(problem.mass))
        start = planes.masses(self.known), self.weights
        sigma, goal = self.relative_sigma * mean_mass, 0.1 * self.certificate.gap
        work = self.pace.newton_work
        masses, self.W, sigma = newton_planes(planes, *start, self.scale, sigma, goal, work, self.regroup)
        self.relative_sigma = max(sigma / mean_mass, POLICY.first_sigma)
        self.multiple = 1.0
        planes.store(self.known, masses)

    def _refresh(self) -> None:
        """Compute the moments and sum Delta a anew from the masses, so that rounding of the updates does not add up.

        Masses are brought back to the simplex first: a certificate is one only for a feasible dual point.
        """
        problem = self.data.problem
        total = self.known.mass.sum(axis=1)
        self.known.mass[:] *= np.divide(problem.mass, total, out=np.zeros_like(total), where=total > 0.0)[:, None]
        self.moments[:], self.linear = 0.0, 0.0
        for rows in row_blocks(len(problem.Y), _CHUNK):
            coefficients = np.empty((rows.stop - rows.start, self.moments.shape[1]))
            self.linear += structured_coefficients(
                np.arange(rows.start, rows.stop), problem.Y, problem.cost, self.data.layout, self.known, coefficients
            )
            self.data.products.add(rows, coefficients, self.moments)  # u(a), v(a) of Eq. (4)
        if self.data.in_row_space:
            self.potentials, self.pending[:] = self.data.products.forward(self.moments), 0.0

    def certify(self) -> None:
        """Compute exact objectives, the loss by the bounds of inference; the rows meet the labelings found.

        After passes the primal is that of the best multiple of the weights on the known labelings: with a small lambda
        the dual is right long before the length of its weights is.
        """
        problem, products, engine = self.data.problem, self.data.products, self.data.engine
        self._refresh()
        V, self.multiple = self.average, 1.0
        weights = self.weights
        chunks = row_blocks(len(problem.Y), _CHUNK)
        all_potentials = list(
            products.pool.map(lambda rows: np.ascontiguousarray(products.part(rows) @ weights), chunks)
        )
        squares = np.einsum("ij,ij->j", weights, weights)
        norm = 0.5 * float(np.sum(np.divide(squares, self.scale, out=np.zeros_like(squares), where=squares > 0.0)))
        if self.W is None:  # Newton steps find the length too, and a start was certified as it is
            self.multiple = self._best_multiple(norm, chunks, all_potentials)

        def worst(rows: slice, potentials: np.ndarray) -> tuple[float, np.ndarray, int]:
            potentials *= self.multiple
            true = engine.score(potentials, problem.Y[rows])
            constant = problem.augment(potentials, rows)
            found, _, bound = engine.map(potentials)  # Eq. (14)
            loss = float(problem.mass[rows] @ np.maximum(bound + constant - true, 0.0))
            return loss, found, meet_labelings(np.arange(rows.start, rows.stop), found, self.known, POLICY.oldest)

        losses, all_found, without_room = zip(*products.pool.map(worst, chunks, all_potentials), strict=True)
        if self._make_room(sum(without_room)):
            for rows, found in zip(chunks, all_found, strict=True):
                meet_labelings(np.arange(rows.start, rows.stop), found, self.known, POLICY.oldest)
        dual = self.linear - 0.5 * float(self.scale @ np.einsum("ij,ij->j", V, V))
        gap_before, self.certified = self.certificate.gap, True
        self.certificate = Certificate(self.multiple**2 * norm + sum(losses), dual, sum(losses))
        self.pace.update(self.certificate.gap, gap_before, self.W is not None)

    def _best_multiple(self, norm: float, chunks: list[slice], all_potentials: list[np.ndarray]) -> float:
        """The s that minimises s^2 norm + sum_i m_i max_p (Delta_ip + s B_ip . theta_i) over the known labelings p.

        1 where that gains less than half of the tolerance.
        """
        problem = self.data.problem
        shape = len(problem.Y), int(self.known.count.max(initial=1))
        linear, constant = np.empty(shape), np.empty(shape)
        for rows, potentials in zip(chunks, all_potentials, strict=True):
            augmented, numbers = potentials.copy(), np.arange(rows.start, rows.stop)
            problem.augment(augmented, rows)
            scores_of_known(numbers, self.data.layout, self.known, potentials, linear[rows])
            scores_of_known(numbers, self.data.layout, self.known, augmented, constant[rows])
        constant -= linear

        def value(multiple: float) -> float:
            return multiple**2 * norm + float(problem.mass @ np.max(constant + multiple * linear, axis=1))

        every, (low, high) = np.arange(len(linear)), _MULTIPLES
        for _ in range(_HALVINGS):  # of the interval where the derivative changes its sign
            middle = 0.5 * (low + high)
            worst = np.argmax(constant + middle * linear, axis=1)
            slope = 2.0 * middle * norm + problem.mass @ linear[every, worst]
            low, high = (low, middle) if slope > 0.0 else (middle, high)
        best = 0.5 * (low + high)
        before = value(1.0)
        return best if before - value(best) > 0.5 * tolerance(self.pace.tol, before) else 1.0
