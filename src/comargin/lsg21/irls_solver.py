"""LSG21 by iterative reweighting, the paper's Algorithm 2: one linear system per label and round."""

from collections.abc import Callable

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ..core.loop import Control, run_loop
from ..core.result import Result
from ..core.threads import blas_threads_for
from ._label_split import split_labels
from .problem import LSG21Problem
from .solver import Certifier, LSG21Start

# Smoothing of sqrt(w_i^2 + w_j^2), relative to the largest weight of the start: a zero row would have infinite weights.
_SMOOTHING = 1e-8
# Weights below this fraction of the largest one of the start count as zeros in the certificate.
_NEARLY_ZERO = 1e-5


def solve_lsg21_irls(
    problem: LSG21Problem, alpha: float, control: Control, *, start: np.ndarray | None = None
) -> Result:
    """Solve LSG21 by reweighting.

    Each round replaces ||(w_i, w_j)|| by its tangent in the squares, Eq. (14), which makes labels independent:
    (X^T X + alpha diag(m_i)) w_i = X^T y_i, Eq. (17), with m_fi = 1/2 sum_e weight_e / ||w_e^f|| over label i's edges.

    ``start`` are weights to start from, ridge regression if None. ``coef`` of the result is W^T, with no weight exactly
    zero; ``dual_coef`` is an `LSG21Start`.
    """
    split = split_labels(problem, alpha)
    part, penalty = split.part, split.part.penalty
    n_samples, n_features = part.X.shape
    solve = _by_features(part) if n_features <= n_samples else _by_samples(part)
    if start is None:
        with blas_threads_for(min(n_samples, n_features)):
            W = solve(alpha * np.broadcast_to(penalty.total, (n_features, penalty.total.size)))
    else:
        W = np.array(start[:, split.penalised], order="C")
    certifier = Certifier(part, alpha)
    scale = float(np.abs(W).max(initial=0.0)) or 1.0

    def step() -> None:
        nonlocal W
        smallest = _SMOOTHING * scale
        edges = np.hypot(np.hypot(W[:, penalty.first], W[:, penalty.second]), smallest)
        weights = 0.5 * penalty.own / np.hypot(W, smallest)  # M of Eq. (15)
        for end in (penalty.first, penalty.second):
            np.add.at(weights.T, end, (0.5 * penalty.weight / edges).T)
        with blas_threads_for(min(n_samples, n_features)):
            W = solve(alpha * weights)  # Eq. (18)

    def certify() -> tuple[float, float]:
        split_at = np.where(np.abs(W) > _NEARLY_ZERO * scale, W, 0.0)
        primal, dual = certifier.objectives(W, split_at)[:2] if split.penalised.size else (0.0, 0.0)
        return primal + split.primal, dual + split.dual

    def kept() -> LSG21Start:
        return LSG21Start(split.joined(W), problem.Y.shape)

    status, history, tol_abs = run_loop(step, certify, control, state=kept)
    last = kept()
    return Result(np.ascontiguousarray(last.W.T), last, history, tol_abs, status)


def _by_features(problem: LSG21Problem) -> Callable[[np.ndarray], np.ndarray]:
    """Solver of (X^T X + diag(m)) w = X^T y for every label, through systems of the size of the features."""
    gram, XY = problem.gram(), problem.transposed(problem.Y)

    def solve(added: np.ndarray) -> np.ndarray:
        W = np.empty_like(XY)
        for label in range(W.shape[1]):
            W[:, label] = _solve_ridged(gram.copy(), added[:, label], XY[:, label])
        return W

    return solve


def _by_samples(problem: LSG21Problem) -> Callable[[np.ndarray], np.ndarray]:
    """The same through systems of the size of the rows: w = M^-1 X^T (I + X M^-1 X^T)^-1 y, M = diag(m)."""
    X = problem.centred()

    def solve(added: np.ndarray) -> np.ndarray:
        W = np.empty((X.shape[1], problem.Y.shape[1]))
        for label in range(W.shape[1]):
            scaled = X / added[:, label]
            W[:, label] = scaled.T @ _solve_ridged(scaled @ X.T, 1.0, problem.Y[:, label])
        return W

    return solve


def _solve_ridged(system: np.ndarray, ridge: np.ndarray | float, target: np.ndarray) -> np.ndarray:
    """Solve (system + diag(ridge)) x = target, positive definite; ``system`` is overwritten."""
    system[np.diag_indices_from(system)] += ridge
    factors = cho_factor(system, lower=True, overwrite_a=True, check_finite=False)
    return np.asarray(cho_solve(factors, target, check_finite=False))
