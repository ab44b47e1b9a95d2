"""Newton directions of SVM+ for labels that R couples, factorised; they need a small D."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..core.cholesky import cholesky, solve_factored, solve_lower
from ..m3l.prior import PriorPart
from ._system import Features, LabelSystem

# Most entries of D, in the coordinates of the rows' span, and of the moments of all labels, for a factorised system.
_MOST_ENTRIES, _MOST_MOMENTS = 3000, 40_000_000
_MOMENTS_AT_ONCE = 4_000_000

Vectors = list[np.ndarray]


def solves_directly(features: Features, prior: PriorPart) -> bool:
    """Whether D is small enough for a factorised system."""
    n_labels, rank = len(prior.labels), prior.factor.shape[1]
    small = rank * features.n_compact <= _MOST_ENTRIES
    return small and n_labels * features.n_compact**2 <= _MOST_MOMENTS


def coupled_directly(
    features: Features,
    prior: PriorPart,
    systems: list[LabelSystem],
    gV: np.ndarray,
    grads: Vectors,
    run: Callable[..., Iterable[Any]],
) -> list[tuple[np.ndarray, np.ndarray]]:
    r"""Solve for z and t of all labels by the Newton system of D = F^T V^T (rank x d), privileged weights eliminated.

    .. math:: \Big(I + \sum_l f_l f_l^\top \otimes X_l^\top \Pi_l X_l\Big)\, dD = -g_D - \sum_l f_l
        (X_l^\top S_l\, \sigma U_l H_l'^{-1} g_l)^\top, \qquad \Pi_l = \sigma I - \sigma^2 S U H'^{-1} U^\top S,
        \quad H' = H + \sigma U^\top U

    Rows of D are in the span of X: where rows are fewer than features the system is that of its coordinates. ``gV`` is
    the gradient in V, ``grads`` are the negative gradients in T; ``run`` maps a function over labels.
    """
    F = prior.factor
    n_labels, rank = F.shape
    d = features.n_compact

    def rows_of(system: LabelSystem) -> np.ndarray:
        return system.signs[:, None] * features.compact(system.rows)

    def moment(system: LabelSystem, g: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        X, sigma = rows_of(system), system.sigma
        inner = cholesky(system.H + sigma * (system.U.T @ system.U))
        half = solve_lower(inner, sigma * (system.U.T @ X))
        return sigma * (X.T @ X) - half.T @ half, half.T @ solve_lower(inner, g), inner

    M, right = np.zeros((rank * rank, d * d)), -(F.T @ features.compact_weights(gV).T)
    inners: Vectors = []
    n_at_once = max(1, _MOMENTS_AT_ONCE // (d * d))
    for first in range(0, n_labels, n_at_once):
        some = slice(first, first + n_at_once)
        found = list(run(moment, systems[some], grads[some]))
        f = F[some]
        outer = (f[:, :, None] * f[:, None, :]).reshape(len(f), -1)
        M += outer.T @ np.stack([m for m, _, _ in found]).reshape(len(f), -1)
        right -= f.T @ np.stack([r for _, r, _ in found])
        inners += [inner for _, _, inner in found]
    M = np.ascontiguousarray(M.reshape(rank, rank, d, d).transpose(0, 2, 1, 3)).reshape(rank * d, rank * d)
    M.flat[:: rank * d + 1] += 1.0
    dD = solve_factored(cholesky(M), right.ravel()).reshape(rank, d)

    def values(system: LabelSystem, inner: np.ndarray, f: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        margins = rows_of(system) @ (f @ dD)
        # z = Pi dM + sigma U H'^-1 g, with H t = g - U^T z.
        t = solve_factored(inner, g - system.sigma * (system.U.T @ margins))
        z = np.asarray(system.sigma * (margins + system.U @ t))
        return z, solve_factored(cholesky(system.H), g - system.U.T @ z)

    return list(run(values, systems, inners, F, grads))
