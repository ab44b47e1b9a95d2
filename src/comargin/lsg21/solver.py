"""LSG21 to a certified gap: exact steps for one feature at a time, between them steps for all that is not zero."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..kernels._edge_prox import Edges, Scratch, shrink_row
from ..kernels._edges import edge_descent, edge_excess
from ..kernels._norm_sum import FACTOR_UP_TO
from ..problems.lsg21 import EdgePenalty, LSG21Problem
from ._edge_newton import RidgedNewton, reweighted
from ._label_split import split_labels
from ._loop import Control, run_loop
from ._result import Result

# Products of all features with each other are computed at once when that is little work, else for the features that
# matter: at first these, then twice as many as are in use, at most so many at once.
_ALL_FEATURES_UP_TO = 2e10
_FIRST_FEATURES = 256
_MOST_FEATURES = 4096
# Passes over the features in use, after a pass over all, as long as each gains this fraction of the first, and this of
# the whole step; only with no more edges than labels: else the step of one row costs more than its share of a step for
# all weights together.
_MORE_PASSES = 5
_WORTH_A_PASS = 0.3
_WORTH_ANY = 1e-3
# Steps for the same features, as long as each gains this fraction of the first.
_STEPS_AT_ONCE = 3
_WORTH_A_STEP = 0.1
# Steps that reweight after a start from nothing: Newton's method is for zeros that hardly change any more.
_REWEIGHTED = 2
# Most steps of conjugate gradients in one step: from ridge regression, which has no zeros, and from a pass.
_FROM_RIDGE = 160
_FROM_PASS = 24
# Accuracy of the row steps: at first, after ridge regression and reweighting, from step to step or as a part of what
# the last step gained of ||Y||^2, at last.
_ACCURACY = 1e-4
_AFTER_RIDGE = 1e-6
_FINER = 0.3
_OF_GAIN = 0.01
_EXACT = 1e-12
_COARSE_STEPS = 5
# Below this fraction of ||Y||^2 the residual is computed, not taken from inner products.
_FROM_PRODUCTS = 1e-4
# From this multiple of alpha on, slopes of single labels tell that W = 0 is not optimal. Where this fraction of all
# slopes exceeds alpha, ridge regression and reweighting find the weights sooner than one feature after the other.
_FAR = 2.0
_MANY = 0.4
# Reweighting ends with steps that gain this part of the tolerance, of ||Y||^2: it is not for small ones.
_OF_TOL = 0.1
_LOOSE = 1e-5


class LSG21Start(NamedTuple):
    """Weights to start from, in the shape the dual variables would have.

    Attributes
    ----------
    W : ndarray of shape (n_features, n_labels)
        Weights.
    shape : tuple of int
        (n_samples, n_labels).
    """

    W: np.ndarray
    shape: tuple[int, int]


def as_edges(penalty: EdgePenalty) -> Edges:
    """The penalty as the loops take it.

    Parameters
    ----------
    penalty : EdgePenalty
        Omega.

    Returns
    -------
    Edges
        With the edges of every label.
    """
    n_labels, n_edges = penalty.own.size, penalty.weight.size
    ends = np.concatenate([penalty.first, penalty.second])
    order = np.argsort(ends, kind="stable")
    begin = np.zeros(n_labels + 1, dtype=np.int32)
    begin[1:] = np.cumsum(np.bincount(ends, minlength=n_labels))
    at = (order % max(n_edges, 1)).astype(np.int32)
    other = np.concatenate([penalty.second, penalty.first])[order]
    return Edges(penalty.first, penalty.second, penalty.weight, penalty.own, begin, at, other)


def scratch_for(edges: Edges) -> Scratch:
    """Memory for the row steps of a label graph.

    Parameters
    ----------
    edges : Edges
        The label graph.

    Returns
    -------
    Scratch
        Uninitialised.
    """
    n_labels, n_edges = edges.own.size, edges.weight.size
    size = min(n_labels, FACTOR_UP_TO)
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
        system=np.empty((size, size)),
        h=np.empty(n_labels),
        delta=np.empty(n_labels),
        changed=np.empty(n_labels, dtype=np.int32),
    )


def alpha_max(problem: LSG21Problem) -> float:
    """The smallest alpha for which W = 0: the largest dual norm of a row of 2 X^T Y.

    t is below the dual norm of g exactly when u = prox_{t Omega}(g) is not 0, and then <g, u> / Omega(u) lies between t
    and it: Newton's method for the root of a convex function, from the left.

    Parameters
    ----------
    problem : LSG21Problem
        With at least one label that is penalised.

    Returns
    -------
    float
        To rounding, from above.
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
    excess = np.empty(G.shape[0])
    edge_excess(G, np.zeros_like(G), t, edges, penalty.total, scratch, _EXACT, excess)
    return t * (1.0 + float(excess.max()))


class Certifier:
    """Objectives of any weights.

    Parameters
    ----------
    problem : LSG21Problem
        Data and penalty; all labels penalised.
    alpha : float
        Of the penalty, positive.
    """

    def __init__(self, problem: LSG21Problem, alpha: float) -> None:
        self.problem, self.alpha = problem, alpha
        self.edges = as_edges(problem.penalty)
        self.scratch = scratch_for(self.edges)

    def objectives(self, W: np.ndarray, split_at: np.ndarray) -> tuple[float, float, np.ndarray, np.ndarray]:
        """Primal and dual objective from the residual of W.

        Parameters
        ----------
        W : ndarray of shape (n_features, n_labels)
            Weights.
        split_at : ndarray of shape (n_features, n_labels)
            Weights in whose directions the slopes are split over the edges: W, or W without entries near zero.

        Returns
        -------
        primal, dual : float
            The optimum lies between them.
        slope : ndarray of shape (n_features, n_labels)
            X^T (X W - Y).
        excess : ndarray of shape (n_features,)
            How far each feature may be from dual feasible, as a fraction of alpha.
        """
        problem = self.problem
        R = problem.product(W) - problem.Y
        slope = problem.transposed(R)
        excess = self.excess(slope, split_at)
        square, inner = float(np.vdot(R, R)), float(np.vdot(R, problem.Y))
        primal = square + self.alpha * problem.penalty.value(W)
        return primal, problem.dual(square, inner, float(excess.max(initial=0.0))), slope, excess

    def excess(self, slope: np.ndarray, split_at: np.ndarray, accuracy: float = _EXACT) -> np.ndarray:
        """How far each feature may be from dual feasible, as a fraction of alpha, from slopes X^T (X W - Y)."""
        excess, total = np.empty(len(slope)), self.problem.penalty.total
        edge_excess(-2.0 * slope, split_at, self.alpha, self.edges, total, self.scratch, accuracy, excess)
        return excess


class _Descent(Certifier):
    """W, and the features that steps are taken for: their products with each other, and slopes X_f . (X W - Y).

    All features when there are few; else those that matter, chosen anew at every certificate. Invariant: ``slope``
    belongs to W for the chosen features.
    """

    def __init__(self, problem: LSG21Problem, alpha: float, W: np.ndarray, tol: float, gram: np.ndarray | None) -> None:
        super().__init__(problem, alpha)
        self.W, self.tol, self.all = W, tol, gram is not None
        self.features, self.gram = np.empty(0, dtype=np.intp), np.empty((0, 0))
        self.slope = np.empty((0, W.shape[1]))
        if gram is not None:
            self.features, self.gram = np.arange(W.shape[0]), gram
            self.XY = problem.transposed(problem.Y)
            self.slope = self.gram @ W - self.XY if W.any() else -self.XY
        self.square = float(np.vdot(problem.Y, problem.Y))
        self.newton = RidgedNewton(self.edges)
        self.cold, self.moved = not W.any(), False
        self.more_passes = _MORE_PASSES if self.edges.weight.size <= self.edges.own.size else 0
        self.n_reweighted = _REWEIGHTED if self.cold else 0
        self.accuracy = _ACCURACY if self.cold else _ACCURACY**2
        self.n_steps, self.first_fell = 0, 0.0

    def step(self) -> float:
        """All weights that are not zero, then passes over the features; returns how much the objective fell."""
        W = self.W if self.all else np.ascontiguousarray(self.W[self.features])
        fell = self._together(W)
        self.cold, self.moved = False, True
        first = gained = self._pass(W, np.arange(len(W), dtype=np.int32))
        fell += first
        for _ in range(self.more_passes):
            if gained < max(_WORTH_A_PASS * first, _WORTH_ANY * fell):
                break
            gained = self._pass(W, np.flatnonzero(W.any(axis=1)).astype(np.int32))
            fell += gained
        self.accuracy = max(min(_FINER * self.accuracy, _OF_GAIN * fell / self.square), _EXACT)
        if self.all:
            return fell
        self.W[self.features] = W
        self.n_steps += 1
        self.first_fell = max(self.first_fell, fell)
        # Other features matter now: a certificate chooses them.
        return 0.0 if self.n_steps >= _STEPS_AT_ONCE or fell <= _WORTH_A_STEP * self.first_fell else np.inf

    def _together(self, W: np.ndarray) -> float:
        if self.cold:
            return self._from_ridge(W) if self.all and np.mean(self._singles() > self.alpha) >= _MANY else 0.0
        if self.n_reweighted == 0:
            return self.newton.step(self.gram, self.slope, W, self.alpha)
        self.n_reweighted -= 1
        return self._reweighted(W, _FROM_PASS)

    def _reweighted(self, W: np.ndarray, most: int, ridge: np.ndarray | None = None) -> float:
        enough = _OF_TOL * max(self.tol, _LOOSE) * self.square
        return reweighted(self.gram, self.slope, W, self.alpha, self.edges, most=most, enough=enough, ridge=ridge)

    def _from_ridge(self, W: np.ndarray) -> float:
        """From W = 0 towards ridge regression, and from there by reweighting."""
        # Squares that touch |w_i| at what the feature would do by itself.
        largest = np.max(np.abs(self.XY), axis=1)
        inverse = np.divide(self.gram.diagonal(), largest, out=np.zeros_like(largest), where=largest > 0.0)
        fell = self._reweighted(W, _FROM_RIDGE, self.alpha * np.outer(inverse, self.problem.penalty.total))
        if fell > 0.0:
            self.n_reweighted, self.accuracy = 0, _AFTER_RIDGE
        return fell

    def _singles(self) -> np.ndarray:
        """|g_i| / T_i, g = 2 slope: the dual norm of g is between their maximum and sqrt(2) times it."""
        return 2.0 * np.abs(self.slope) / self.problem.penalty.total

    def _pass(self, W: np.ndarray, features: np.ndarray) -> float:
        return edge_descent(self.gram, self.slope, W, self.alpha, self.edges, features, self.scratch, self.accuracy)

    def certify(self) -> tuple[float, float]:
        """Primal and dual objective: from inner products while they are far apart, at the end from the residual."""
        problem, W = self.problem, self.W
        if self.all:
            fitted = float(np.vdot(W, self.XY))
            square = self.square + float(np.vdot(W, self.slope)) - fitted
            primal = square + self.alpha * problem.penalty.value(W)
            excess = self._bound()
            dual = problem.dual(square, fitted - self.square, excess)
            if square > _FROM_PRODUCTS * self.square and primal - dual > self.tol * abs(primal):
                return primal, dual
        primal, dual, slope, apart = self.objectives(W, W)
        if self.all:
            self.slope = slope
        else:
            self._choose(slope, apart)
        return primal, dual

    def _bound(self) -> float:
        """How far any feature may be from dual feasible: as tight as steps are exact, rough where that tells enough."""
        if self.cold:
            single = float(self._singles().max(initial=0.0)) / self.alpha
            if single > _FAR:
                return math.sqrt(2.0) * single - 1.0
        accuracy = self.accuracy if self.moved else _EXACT
        return float(self.excess(self.slope, self.W, accuracy).max(initial=0.0))

    def _choose(self, slope: np.ndarray, excess: np.ndarray) -> None:
        """Take the features with weights and those that are furthest from feasible; keep products that are known."""
        used, apart = self.W.any(axis=1), excess.copy()
        # At the optimum -2 <slope_f, w_f> = alpha Omega(w_f); a feature in use may be feasible and too large.
        W = self.W[used]
        cost = self.alpha * self.problem.penalty.row_values(W)
        apart[used] += np.abs(1.0 + 2.0 * np.einsum("fl,fl->f", slope[used], W) / cost)
        wanted = min(max(_FIRST_FEATURES, 2 * np.count_nonzero(used)), _MOST_FEATURES)
        # Features in use are first. When they leave no room for others, those that are furthest from their optimum are.
        first = 1.0 + apart.max(initial=0.0) if 4 * np.count_nonzero(used) <= 3 * _MOST_FEATURES else 0.0
        score = np.where(used, first, 0.0) + apart
        order = np.argsort(-score, kind="stable")[:wanted]
        chosen = order[score[order] > 0.0]
        known = self.features[np.isin(self.features, chosen)]
        new = np.setdiff1d(chosen, known)
        if new.size:
            kept = np.flatnonzero(np.isin(self.features, chosen))
            features = np.concatenate([known, new])
            gram = np.empty((features.size, features.size))
            gram[: kept.size, : kept.size] = self.gram[np.ix_(kept, kept)]
            gram[:, kept.size :] = self.problem.gram(features, new)
            gram[kept.size :, : kept.size] = gram[: kept.size, kept.size :].T
            self.features, self.gram = features, gram
        self.slope = np.ascontiguousarray(slope[self.features])
        self.n_steps, self.first_fell = 0, 0.0


def full_gram(problem: LSG21Problem) -> np.ndarray | None:
    """X^T X when that is little work and memory, else None.

    Parameters
    ----------
    problem : LSG21Problem
        The data.

    Returns
    -------
    ndarray of shape (n_features, n_features) or None
        Products of all features with each other.
    """
    n_samples, n_features = problem.X.shape
    filled = n_samples if isinstance(problem.X, np.ndarray) else problem.X.nnz**2 / max(n_samples * n_features**2, 1)
    if n_features > _MOST_FEATURES or (n_features > _FIRST_FEATURES and filled * n_features**2 > _ALL_FEATURES_UP_TO):
        return None
    everything = np.arange(n_features)
    return problem.gram(everything, everything)


def solve_lsg21(
    problem: LSG21Problem,
    alpha: float,
    control: Control,
    *,
    start: np.ndarray | None = None,
    gram: np.ndarray | None = None,
) -> Result:
    """Solve LSG21 to a certified gap.

    Parameters
    ----------
    problem : LSG21Problem
        Data and penalty.
    alpha : float
        Of the penalty, not negative.
    control : Control
        Tolerance, limits, progress and callback.
    start : ndarray of shape (n_features, n_labels) or None
        Weights to start from; zero if None.
    gram : ndarray of shape (n_features, n_features) or None
        ``full_gram(problem)``, when it is known.

    Returns
    -------
    Result
        ``coef`` is W^T, ``dual_coef`` an `LSG21Start`.
    """
    split = split_labels(problem, alpha)
    part, shape = split.part, (problem.X.shape[1], split.penalised.size)
    begun = np.zeros(shape) if start is None else np.array(start[:, split.penalised], order="C")
    descent = _Descent(part, alpha, begun, control.tol, full_gram(part) if gram is None else gram)

    def certify() -> tuple[float, float]:
        primal, dual = descent.certify() if split.penalised.size else (0.0, 0.0)
        return primal + split.primal, dual + split.dual

    def kept() -> LSG21Start:
        return LSG21Start(split.joined(descent.W), problem.Y.shape)

    def step() -> float:
        return descent.step() if split.penalised.size else 0.0

    status, history, tol_abs = run_loop(step, certify, control, patience=_COARSE_STEPS, state=kept)
    last = kept()
    return Result(np.ascontiguousarray(last.W.T), last, history, tol_abs, status)
