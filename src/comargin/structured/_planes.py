"""Newton's method on the restricted problem of a structured SVM: only the labelings met so far.

    min_w  1/2 ||w||^2 + sum_i m_i max_p s_ip(w)          (columns of w scaled so that the norm is plain)

Proximal point on its dual: with masses a0, minimise 1/2 ||w||^2 + sum_i h_i(s_i(w)), where h_i is the loss smoothed
around a0 (``_loops_planes.py``), then take its masses as the next a0. The smooth problem is solved by semismooth
Newton steps; their systems I + sigma A^T J A live on the rows that divide their mass among several labelings, and
conjugate gradients need products with these rows only. Where coordinate steps need thousands of passes (few features,
small lambda), some ten of these steps do.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..core.conjugate_gradients import conjugate_gradients
from ..core.row_products import RowProducts
from ._loops import Known, Layout, weights_of_moments
from ._loops_planes import (
    Planes,
    plane_fill,
    plane_scores,
    plane_sizes,
    plane_sums,
    projection_derivative,
    smoothed_loss,
)
from .labelings import columns_of
from .problem import StructuredProblem


@dataclass(frozen=True)
class NewtonPolicy:
    cg_tolerance: float = 0.05  # relative residual of the conjugate gradients: products within a step against steps
    most_products: int = 300  # of one step; ill-conditioned problems reach this
    most_steps: int = 40  # of one smooth problem; ill-conditioned problems reach this
    few_steps: int = 6  # of one smooth problem, up to which the next sigma is ``growth`` times as large
    growth: float = 5.0
    many_steps: int = 20  # from which the next sigma is ``shrinkage`` times as large
    shrinkage: float = 0.5
    largest_sigma: float = 1e5  # times the mean mass of a row; beyond it masses are differences of much larger numbers


POLICY = NewtonPolicy()


class PlaneProducts:
    """Products with the planes of some rows."""

    def __init__(self, planes: Planes, products: RowProducts, layout: Layout) -> None:
        self.planes, self.products, self.layout = planes, products, layout
        self.n_moments = len(layout.subset_begin) - 1

    def scores(self, W: np.ndarray) -> np.ndarray:
        """B_p . (x_i^T W) of every plane."""
        weights = np.empty((W.shape[0], self.n_moments))
        weights_of_moments(np.ascontiguousarray(W), self.layout, weights)
        out = np.empty(len(self.planes.start) - 1)
        plane_scores(self.planes, self.products.forward(weights), out)
        return out

    def average(self, a: np.ndarray) -> np.ndarray:
        """sum_p a_p x_i B_p^T, shape (n_features, n_columns)."""
        sums = np.empty((len(self.planes.begin) - 1, self.n_moments))
        plane_sums(self.planes, a, sums)
        moments = np.ascontiguousarray(self.products.backward(sums))
        return self.products.arranged(columns_of(moments, self.layout))


class PlaneProblem(PlaneProducts):
    """The planes of all rows that have mass."""

    def __init__(self, problem: StructuredProblem, layout: Layout, known: Known, products: RowProducts) -> None:
        self.rows = np.flatnonzero(problem.mass > 0.0)
        self.mass = problem.mass[self.rows]
        n_planes = known.count[self.rows].astype(np.int64)
        begin = np.concatenate([[0], np.cumsum(n_planes)])
        start = np.empty(begin[-1] + 1, dtype=np.int64)
        plane_sizes(self.rows, problem.Y, layout, known, start)
        np.cumsum(start, out=start)
        columns, values = np.empty(start[-1], dtype=np.int32), np.empty(start[-1])
        self.delta = np.empty(begin[-1])
        plane_fill(self.rows, problem.Y, problem.cost, layout, known, start, columns, values, self.delta)
        super().__init__(Planes(begin, start, columns, values), products.take(self.rows), layout)
        self.row_of_plane = np.repeat(np.arange(len(self.rows)), n_planes)
        self.slot_of_plane = np.arange(begin[-1]) - begin[self.row_of_plane]

    def masses(self, known: Known) -> np.ndarray:
        """Dual variables of the planes."""
        return known.mass[self.rows[self.row_of_plane], self.slot_of_plane]

    def store(self, known: Known, a: np.ndarray) -> None:
        known.mass[self.rows[self.row_of_plane], self.slot_of_plane] = a

    def free(self, a: np.ndarray) -> PlaneProducts:
        """The rows that divide their mass among several labelings, with the planes that have some."""
        positive = a > 0.0
        per_row = np.add.reduceat(positive, self.planes.begin[:-1], dtype=np.int64)
        rows = np.flatnonzero(per_row > 1)
        chosen = np.flatnonzero(positive & (per_row > 1)[self.row_of_plane])
        _, start, columns, values = self.planes
        sizes = start[chosen + 1] - start[chosen]
        new_start = np.concatenate([[0], np.cumsum(sizes)])
        places = np.repeat(start[chosen] - new_start[:-1], sizes) + np.arange(new_start[-1])
        begin = np.concatenate([[0], np.cumsum(per_row[rows])])
        planes = Planes(begin, new_start, columns[places], values[places])
        return PlaneProducts(planes, self.products.take(rows), self.layout)


def newton_planes(
    planes: PlaneProblem,
    a: np.ndarray,
    W: np.ndarray,
    scale: np.ndarray,
    sigma: float,
    goal: float,
    work: float,
    rescale: Callable[[np.ndarray, float], np.ndarray | None],
) -> tuple[np.ndarray, np.ndarray, float]:
    """Solve the restricted problem to a gap of ``goal``, or until ``work`` products with all rows are spent.

    The norm is sum ||w_col||^2 / (2 scale_col); columns of scale 0 have no weights. Given the dual average V of the
    masses and a tolerance, ``rescale`` returns another scale, or None to keep this one. Returns the masses of the
    last smooth problem that was solved, the weights, and the proximal parameter of the next problem, which begins
    farther from its solution.
    """

    def plain(W: np.ndarray, root: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """U with w = root u, whose norm is plain, and the scores of the planes."""
        U = np.divide(W, root, out=np.zeros_like(W), where=root > 0.0)
        return U, planes.scores(U * root) + planes.delta

    root = np.sqrt(scale)
    U, scores = plain(W, root)
    begin, mass, n_rows = planes.planes.begin, planes.mass, len(planes.rows)
    spent = 1.0
    new = np.empty_like(a)
    first = planes.average(a) * root
    reached = a @ planes.delta - 0.5 * np.vdot(first, first)
    while True:
        centre = a
        value = 0.5 * np.vdot(U, U) + smoothed_loss(begin, mass, centre, scores, sigma, new)
        for n_steps in range(POLICY.most_steps + 1):
            average = planes.average(new)
            gradient = U + average * root
            spent += 1.0
            # P - D = inner + outer: the distance of u from the minimiser, and the cost of smoothing.
            inner = 0.5 * float(np.vdot(gradient, gradient))
            outer = float(mass @ np.maximum.reduceat(scores, begin[:-1]) - new @ scores)
            if n_steps == POLICY.most_steps or spent >= work:
                break
            if inner <= 0.1 * max(outer, goal):
                other = rescale(average, 0.2 * max(outer, goal))
                if other is None:
                    break
                W, root = U * root, np.sqrt(other)
                reached = -np.inf  # D was of another scale
                U, scores = plain(W, root)
                value = 0.5 * np.vdot(U, U) + smoothed_loss(begin, mass, centre, scores, sigma, new)
                average = planes.average(new)
                spent += 2.0
                gradient = U + average * root
            part = planes.free(new)
            step, n_products = _newton_step(part, root, sigma, gradient)
            spent += 2.0 * n_products * (len(part.planes.begin) - 1) / n_rows + 1.0
            along = planes.scores(step * root)
            slope, length = float(np.vdot(gradient, step)), 1.0
            flat, linear, square = 0.5 * np.vdot(U, U), np.vdot(U, step), 0.5 * np.vdot(step, step)
            while True:
                norm = flat + length * linear + length**2 * square
                trial = norm + smoothed_loss(begin, mass, centre, scores + length * along, sigma, new)
                if trial <= value + 1e-4 * length * slope or length < 1e-8:
                    break
                length *= 0.5
            U = U + length * step
            scores = scores + length * along
            value = trial
        # P - D = inner + outer exactly, so that D of the new masses costs nothing.
        dual = 0.5 * np.vdot(U, U) + mass @ np.maximum.reduceat(scores, begin[:-1]) - inner - outer
        if dual >= reached:
            a, reached = new.copy(), dual
        if inner + outer <= goal or spent >= work:
            return a, U * root, sigma / POLICY.growth**2
        if n_steps <= POLICY.few_steps:
            sigma = min(POLICY.growth * sigma, POLICY.largest_sigma * float(np.mean(mass)))
        elif n_steps >= POLICY.many_steps:
            sigma *= POLICY.shrinkage


def _newton_step(part: PlaneProducts, root: np.ndarray, sigma: float, gradient: np.ndarray) -> tuple[np.ndarray, int]:
    """Solve (I + sigma A^T J A) x = -gradient ; returns x and the number of products."""
    all_positive = np.ones(len(part.planes.start) - 1)

    def times(direction: np.ndarray) -> np.ndarray:
        change = part.scores(direction * root)
        projection_derivative(part.planes.begin, all_positive, change)
        return direction + sigma * root * part.average(change)

    step, n_products, _ = conjugate_gradients(times, -gradient, POLICY.cg_tolerance, POLICY.most_products)
    return step, n_products
