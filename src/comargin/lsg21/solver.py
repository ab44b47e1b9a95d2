"""LSG21 to a certified gap: exact steps for one feature at a time, and steps for all non-zero weights together."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..core.loop import Control, run_loop
from ..core.result import Result
from ._edge_newton import RidgedNewton, reweighted
from ._label_split import split_labels
from ._loops_edges import edge_descent, edge_excess
from ._loops_prox import Edges, Scratch, shrink_row
from .problem import EdgePenalty, LSG21Problem

_EXACT = 1e-12  # accuracy of row steps and bounds at the limit of rounding


@dataclass(frozen=True)
class DescentPolicy:
    """Tuned numbers of the descent; the comment gives the result of a sweep."""

    gram_work: float = 2e10  # multiply-adds up to which X^T X is computed for all features at once
    first_features: int = 256  # features chosen at first when X^T X is too much; later twice those in use
    most_features: int = 4096  # features with products at one time: memory
    more_passes: int = 5  # passes over the features in use; 0: scene takes a fifth longer, without a limit half
    worth_a_pass: float = 0.3  # part of the first pass's gain that the next ones must reach
    steps_at_once: int = 3  # steps for the chosen features before others are chosen
    n_reweighted: int = 2  # reweighted steps after a start from nothing; with 0 enron takes 1.8 times as long
    most_conjugate: int = 160  # conjugate steps of one reweighting; 40 cost scene two more steps
    reweighting_gain: float = 1e-6  # part of ||Y||^2 that some steps must gain to go on; 0: corel5k takes twice as long
    ridge_start_from: float = 0.4  # part of slopes beyond alpha that starts from ridge; never: 1.5 to 2 times slower
    first_accuracy: float = 1e-5  # of the first row steps; 1e-6 takes 1.5 times as long on corel5k, 1e-4 more steps
    ridge_accuracy: float = 1e-6  # of those after a ridge start, which is near; 1e-5 costs a step on generated data
    accuracy_of_gain: float = 0.01  # accuracy of the next row steps, as a part of the last gain relative to ||Y||^2
    products_down_to: float = 1e-4  # part of ||Y||^2 below which inner products cancel and the residual is computed


POLICY = DescentPolicy()


class LSG21Start(NamedTuple):
    """Weights (n_features, n_labels) to start from; ``shape`` is that of the indicator, (n_samples, n_labels)."""

    W: np.ndarray
    shape: tuple[int, int]


def as_edges(penalty: EdgePenalty) -> Edges:
    """The penalty in the form of the loops, with the edges of every label."""
    n_labels, n_edges = penalty.own.size, penalty.weight.size
    ends = np.concatenate([penalty.first, penalty.second])
    order = np.argsort(ends, kind="stable")
    begin = np.zeros(n_labels + 1, dtype=np.int32)
    begin[1:] = np.cumsum(np.bincount(ends, minlength=n_labels))
    at = (order % max(n_edges, 1)).astype(np.int32)
    other = np.concatenate([penalty.second, penalty.first])[order]
    return Edges(penalty.first, penalty.second, penalty.weight, penalty.own, begin, at, other)


def scratch_for(edges: Edges) -> Scratch:
    """Uninitialised memory for the row steps of a label graph."""
    n_labels, n_edges = edges.own.size, edges.weight.size
    return Scratch(
        left=np.empty(n_labels),
        zero=np.empty(n_labels, dtype=bool),
        queue=np.empty(n_labels, dtype=np.int32),
        place=np.empty(n_labels, dtype=np.int32),
        ends=np.empty((2, n_edges), dtype=np.int32),
        radius=np.empty(n_edges),
        parts=np.empty((2, n_edges)),
        inverse=np.empty(n_edges),
        u=np.empty(n_labels),
        v=np.empty(n_labels),
        work=np.empty((7, n_labels)),
    )


def alpha_max(problem: LSG21Problem) -> float:
    """The smallest alpha for which W = 0: the largest dual norm of a row of 2 X^T Y.

    t is below the dual norm of g exactly when u = prox_{t Omega}(g) is not 0, and then <g, u> / Omega(u) lies between
    the two: Newton's method for the root of a convex function, from the left. All labels must be penalised; the result
    is exact to rounding, from above.
    """
    penalty = problem.penalty
    edges = as_edges(penalty)
    scratch = scratch_for(edges)
    G = np.ascontiguousarray(2.0 * problem.transposed(problem.Y))
    nothing = np.zeros(G.shape[1])
    # Lower bounds: single labels, and g itself as a direction.
    omega = penalty.row_values(G)
    bounds = np.max(np.abs(G) / penalty.total, axis=1)
    squares = np.einsum("fl,fl->f", G, G)
    bounds = np.maximum(bounds, np.divide(squares, omega, out=np.zeros_like(omega), where=omega > 0.0))
    t = float(bounds.max())
    if t == 0.0:
        return 0.0
    for f in np.argsort(-bounds, kind="stable"):
        while True:
            shrink_row(G[f], nothing, 0.0, t, edges, scratch, _EXACT)
            u = np.copysign(scratch.left, G[f])
            if not u.any():
                break
            raised = float(G[f] @ u) / penalty.value(u[None])
            if raised <= t * (1.0 + 4.0 * np.finfo(np.float64).eps):
                break
            t = raised
    excess = edge_excess(G, np.zeros_like(G), t, edges, penalty.total, scratch, _EXACT)
    return t * (1.0 + float(excess.max()))


class Certifier:
    """Objectives of any weights, for a positive alpha and a problem whose labels are all penalised."""

    def __init__(self, problem: LSG21Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.edges = as_edges(problem.penalty)
        self.scratch = scratch_for(self.edges)

    def objectives(self, W: np.ndarray, split_at: np.ndarray) -> tuple[float, float, np.ndarray, np.ndarray]:
        """Primal and dual objective, slopes X^T (X W - Y), and the excess of every feature.

        The slopes are split over the edges in the directions of ``split_at``: W, or W without entries near zero.
        """
        problem = self.problem
        R = problem.product(W) - problem.Y
        slope = problem.transposed(R)
        excess = self.excess(slope, split_at)
        square, inner = float(np.vdot(R, R)), float(np.vdot(R, problem.Y))
        primal = square + self.alpha * problem.penalty.value(W)  # Eq. (4)
        return primal, problem.dual(square, inner, float(excess.max(initial=0.0))), slope, excess

    def excess(self, slope: np.ndarray, split_at: np.ndarray, accuracy: float = _EXACT) -> np.ndarray:
        """Bound of the dual infeasibility of each feature, as a fraction of alpha, from slopes X^T (X W - Y)."""
        total = self.problem.penalty.total
        return edge_excess(-2.0 * slope, split_at, self.alpha, self.edges, total, self.scratch, accuracy)


class _ChosenFeatures:
    """The features that steps change, with their products: all features, or the most promising ones."""

    def __init__(self, problem: LSG21Problem, gram: np.ndarray | None) -> None:
        self.problem, self.all = problem, gram is not None
        self.index: np.ndarray = np.arange(0 if gram is None else len(gram))
        self.gram = np.empty((0, 0)) if gram is None else gram
        self.n_steps = 0  # since the last choice

    def choose(self, W: np.ndarray, slope: np.ndarray, excess: np.ndarray, alpha: float) -> None:
        """Choose the features in use and those furthest from feasible; reuse known products."""
        used, apart = W.any(axis=1), excess.copy()
        n_used = np.count_nonzero(used)
        # At the optimum -2 <slope_f, w_f> = alpha Omega(w_f); a feasible feature may violate this.
        cost = alpha * self.problem.penalty.row_values(W[used])
        apart[used] += np.abs(1.0 + 2.0 * np.einsum("fl,fl->f", slope[used], W[used]) / cost)
        wanted = min(max(POLICY.first_features, 2 * n_used), POLICY.most_features)
        # Features in use come first, unless they leave no room for others.
        first = 1.0 + apart.max(initial=0.0) if 4 * n_used <= 3 * POLICY.most_features else 0.0
        score = np.where(used, first, 0.0) + apart
        order = np.argsort(-score, kind="stable")[:wanted]
        chosen = order[score[order] > 0.0]
        kept = np.flatnonzero(np.isin(self.index, chosen))
        new = np.setdiff1d(chosen, self.index)
        if new.size:
            index = np.concatenate([self.index[kept], new])
            gram = np.empty((index.size, index.size))
            gram[: kept.size, : kept.size] = self.gram[np.ix_(kept, kept)]
            gram[:, kept.size :] = self.problem.gram(index, new)
            gram[kept.size :, : kept.size] = gram[: kept.size, kept.size :].T
            self.index, self.gram = index, gram
        self.n_steps = 0


class _Descent:
    """The iterate W and the accuracy of its steps. Invariant: ``slope`` is X_f . (X W - Y) of the chosen features."""

    def __init__(self, certifier: Certifier, W: np.ndarray, tol: float, gram: np.ndarray | None) -> None:
        problem = certifier.problem
        self.certifier, self.tol = certifier, tol
        self.XY, self.square = problem.transposed(problem.Y), float(np.vdot(problem.Y, problem.Y))
        self.W, self.cold = W, not W.any()
        self.chosen = _ChosenFeatures(problem, gram)
        self.slope = np.empty((0, W.shape[1]))
        if gram is not None:
            self.slope = -self.XY if self.cold else gram @ W - self.XY
        self.newton = RidgedNewton(certifier.edges)
        # With more edges than labels a row step costs more than its share of a step for all weights together.
        few_edges = certifier.edges.weight.size <= certifier.edges.own.size
        self.more_passes = POLICY.more_passes if few_edges else 0
        self.n_reweighted = POLICY.n_reweighted if self.cold else 0
        self.accuracy = POLICY.first_accuracy if self.cold else POLICY.first_accuracy**2

    def step(self) -> float:
        """Move all non-zero weights together, then pass over the features; returns how much the objective fell."""
        chosen = self.chosen
        W = self.W if chosen.all else np.ascontiguousarray(self.W[chosen.index])
        fell = self._move_together(W)
        first = gained = self._pass(W, np.arange(len(W), dtype=np.int32))
        fell += first
        for _ in range(self.more_passes):
            if gained <= POLICY.worth_a_pass * first:
                break
            gained = self._pass(W, np.flatnonzero(W.any(axis=1)).astype(np.int32))
            fell += gained
        self.cold = False
        self.accuracy = max(min(self.accuracy, POLICY.accuracy_of_gain * fell / self.square), _EXACT)
        if chosen.all:
            return fell
        self.W[chosen.index] = W
        chosen.n_steps += 1
        # An estimate of 0 asks for a certificate, which chooses other features.
        return 0.0 if chosen.n_steps >= POLICY.steps_at_once else np.inf

    def _pass(self, W: np.ndarray, features: np.ndarray) -> float:
        gram, alpha, edges = self.chosen.gram, self.certifier.alpha, self.certifier.edges
        return edge_descent(gram, self.slope, W, alpha, edges, features, self.certifier.scratch, self.accuracy)

    def _singles(self) -> np.ndarray:
        """|g_i| / (alpha T_i), g = 2 slope: the dual norm of g is between alpha max_i and sqrt(2) times that."""
        return 2.0 * np.abs(self.slope) / (self.certifier.alpha * self.certifier.problem.penalty.total)

    def _excess(self) -> float:
        """Bound of the dual infeasibility of all features; rough where W = 0 is clearly not optimal."""
        if self.cold:
            single = float(self._singles().max(initial=0.0))
            if single > 1.0:
                return math.sqrt(2.0) * single - 1.0
        accuracy = _EXACT if self.cold else self.accuracy
        return float(self.certifier.excess(self.slope, self.W, accuracy).max(initial=0.0))

    def _move_together(self, W: np.ndarray) -> float:
        if self.cold:
            many = np.mean(self._singles() > 1.0) >= POLICY.ridge_start_from
            return self._start_from_ridge(W) if self.chosen.all and many else 0.0
        if self.n_reweighted == 0:
            return self.newton.step(self.chosen.gram, self.slope, W, self.certifier.alpha)
        self.n_reweighted -= 1
        return self._reweight(W)

    def _reweight(self, W: np.ndarray, ridge: np.ndarray | None = None) -> float:
        alpha, edges, enough = self.certifier.alpha, self.certifier.edges, POLICY.reweighting_gain * self.square
        most = POLICY.most_conjugate
        return reweighted(self.chosen.gram, self.slope, W, alpha, edges, most=most, enough=enough, ridge=ridge)

    def _start_from_ridge(self, W: np.ndarray) -> float:
        """From W = 0 towards ridge regression, and from there by reweighting."""
        # Quadratic majoriser of |w_i|, tangent at the single-feature solution.
        largest = np.max(np.abs(self.XY), axis=1)
        inverse = np.divide(self.chosen.gram.diagonal(), largest, out=np.zeros_like(largest), where=largest > 0.0)
        penalty = self.certifier.problem.penalty
        fell = self._reweight(W, self.certifier.alpha * np.outer(inverse, penalty.total))
        if fell > 0.0:
            self.n_reweighted, self.accuracy = 0, POLICY.ridge_accuracy
        return fell

    def certify(self) -> tuple[float, float]:
        """Primal and dual objective: from inner products while they are far apart, at the end from the residual."""
        certifier, W = self.certifier, self.W
        problem, alpha = certifier.problem, certifier.alpha
        if self.chosen.all:
            fitted = float(np.vdot(W, self.XY))
            square = self.square + float(np.vdot(W, self.slope)) - fitted
            primal = square + alpha * problem.penalty.value(W)  # Eq. (4)
            dual = problem.dual(square, fitted - self.square, self._excess())
            if square > POLICY.products_down_to * self.square and primal - dual > self.tol * abs(primal):
                return primal, dual
        primal, dual, slope, excess = certifier.objectives(W, W)
        if not self.chosen.all:
            self.chosen.choose(W, slope, excess, alpha)
            slope = np.ascontiguousarray(slope[self.chosen.index])
        self.slope = slope
        return primal, dual


def full_gram(problem: LSG21Problem) -> np.ndarray | None:
    """X^T X where it takes little work and memory, else None."""
    n_samples, n_features = problem.X.shape
    filled = n_samples if isinstance(problem.X, np.ndarray) else problem.X.nnz**2 / max(n_samples * n_features**2, 1)
    if n_features > POLICY.most_features:
        return None
    if n_features > POLICY.first_features and filled * n_features**2 > POLICY.gram_work:
        return None
    return problem.gram()


def solve_lsg21(
    problem: LSG21Problem,
    alpha: float,
    control: Control,
    *,
    start: np.ndarray | None = None,
    gram: np.ndarray | None = None,
) -> Result:
    """Solve LSG21 to a certified gap.

    ``start`` are weights (n_features, n_labels) to start from, zero if None; ``gram`` is ``full_gram(problem)`` when
    it is known. ``coef`` of the result is W^T, its ``dual_coef`` an `LSG21Start`.
    """
    split = split_labels(problem, alpha)
    part, shape = split.part, (problem.X.shape[1], split.penalised.size)
    begun = np.zeros(shape) if start is None else np.array(start[:, split.penalised], order="C")
    descent = _Descent(Certifier(part, alpha), begun, control.tol, full_gram(part) if gram is None else gram)

    def certify() -> tuple[float, float]:
        primal, dual = descent.certify() if split.penalised.size else (0.0, 0.0)
        return primal + split.primal, dual + split.dual

    def kept() -> LSG21Start:
        return LSG21Start(split.joined(descent.W), problem.Y.shape)

    def step() -> float:
        return descent.step() if split.penalised.size else 0.0

    # Steps without any change refine the accuracy: the fit ends after five.
    status, history, tol_abs = run_loop(step, certify, control, patience=5, state=kept)
    last = kept()
    return Result(np.ascontiguousarray(last.W.T), last, history, tol_abs, status)
