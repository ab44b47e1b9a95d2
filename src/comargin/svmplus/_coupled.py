"""Newton directions of SVM+ for labels that R couples: factorised when D is small, else by conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import numpy as np

from ..kernels._cholesky import cholesky, solve_factored, solve_lower
from ..problems.label_prior import PriorPart
from ._prml_system import Features, LabelSystem

# Most entries of D, in the coordinates of the rows' span, for a factorised system; most entries of the moments of all
# labels, and of those that are held at once.
_DIRECT_SIZE = 3000
_DIRECT_MOMENTS = 40_000_000
_MOMENTS_AT_ONCE = 4_000_000
# Conjugate gradients: what may be left of the gradient, most steps, and steps between two looks at it.
_CG_SHARE = 0.3
_CG_STEPS = 200
_CG_CHECK = 5

Vectors = list[np.ndarray]


def solves_directly(features: Features, prior: PriorPart) -> bool:
    """Whether D is small enough for a factorised system.

    Parameters
    ----------
    features : Features
        X.
    prior : PriorPart
        R.

    Returns
    -------
    bool
        True for R = F F^T of low rank on few features or few rows.
    """
    if prior.form != "factor":
        return False
    n_labels, rank = prior.matrix.shape
    small = rank * features.n_compact <= _DIRECT_SIZE
    return small and n_labels * features.n_compact**2 <= _DIRECT_MOMENTS


def coupled_directly(
    features: Features,
    prior: PriorPart,
    systems: list[LabelSystem],
    gV: np.ndarray,
    grads: Vectors,
    run: Callable[..., Iterable[Any]],
) -> Vectors:
    r"""Solve for z of all labels by the Newton system of D = F^T V^T (rank x d) with the privileged weights eliminated.

    .. math:: \Big(I + \sum_l f_l f_l^\top \otimes X_l^\top \Pi_l X_l\Big)\, dD = -g_D - \sum_l f_l
        (X_l^\top S_l\, \sigma U_l H_l'^{-1} g_l)^\top, \qquad \Pi_l = \sigma I - \sigma^2 S U H'^{-1} U^\top S,
        \quad H' = H + \sigma U^\top U

    Rows of D are in the span of X: where rows are fewer than features the system is that of its coordinates.

    Parameters
    ----------
    features : Features
        X.
    prior : PriorPart
        R = F F^T, of form "factor".
    systems : list of LabelSystem
        One per label; they need not be factorised.
    gV : ndarray of shape (n_features, n_labels)
        Gradient in V.
    grads : list of ndarray
        Negative gradients in T.
    run : callable
        Maps a function over labels.

    Returns
    -------
    list of ndarray
        One per label, on its active rows.
    """
    F = np.asarray(prior.matrix)
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
        M += (f[:, :, None] * f[:, None, :]).reshape(len(f), -1).T @ np.stack([m for m, _, _ in found]).reshape(
            len(f), -1
        )
        right -= f.T @ np.stack([r for _, r, _ in found])
        inners += [inner for _, _, inner in found]
    M = np.ascontiguousarray(M.reshape(rank, rank, d, d).transpose(0, 2, 1, 3)).reshape(rank * d, rank * d)
    M.flat[:: rank * d + 1] += 1.0
    dD = solve_factored(cholesky(M), right.ravel()).reshape(rank, d)

    def values(system: LabelSystem, inner: np.ndarray, f: np.ndarray, g: np.ndarray) -> np.ndarray:
        margins = rows_of(system) @ (f @ dD)
        # z = Pi dM + sigma U H'^-1 g, with H t = g - U^T z.
        t = solve_factored(inner, g - system.sigma * (system.U.T @ margins))
        return np.asarray(system.sigma * (margins + system.U @ t))

    return list(run(values, systems, inners, F, grads))


def coupled_by_cg(
    product: Callable[[list[LabelSystem], Vectors], Vectors],
    stray: Callable[[list[LabelSystem], Vectors], float],
    systems: list[LabelSystem],
    rights: Vectors,
    grads: Vectors,
    zs: Vectors,
    left: float,
    run: Callable[..., Iterable[Any]],
) -> Vectors:
    """Solve for z of all labels by conjugate gradients with the systems of the single labels as preconditioner.

    Parameters
    ----------
    product : callable
        The part of the system that couples labels, of all labels, times z.
    stray : callable
        What a residual leaves of the gradient.
    systems : list of LabelSystem
        Factorised, one per label.
    rights, grads : list of ndarray
        Right-hand sides of z and of T.
    zs : list of ndarray
        Start.
    left : float
        The gradient, in the units of ``stray``.
    run : callable
        Maps a function over labels.

    Returns
    -------
    list of ndarray
        One per label, on its active rows.
    """

    def own(system: LabelSystem, z: np.ndarray) -> np.ndarray:
        return z / system.sigma + system.U @ system.weights(system.U.T @ z)

    def whole(zs: Vectors) -> Vectors:
        return [a + b for a, b in zip(product(systems, zs), run(own, systems, zs), strict=True)]

    def alone(system: LabelSystem, f: np.ndarray) -> np.ndarray:
        return system.solve(f, np.zeros(len(system.H)))[0]

    precondition = partial(run, alone, systems)
    target = [f + s.U @ s.weights(g) for s, f, g in zip(systems, rights, grads, strict=True)]
    residual = [f - q for f, q in zip(target, whole(zs), strict=True)]
    ahead = list(precondition(residual))
    size = _dot(residual, ahead)
    direction = ahead
    for step in range(_CG_STEPS):
        if step % _CG_CHECK == 0 and stray(systems, residual) <= _CG_SHARE**2 * left:
            break
        q = whole(direction)
        length = size / _dot(direction, q)
        zs = [z + length * d for z, d in zip(zs, direction, strict=True)]
        residual = [f - length * v for f, v in zip(residual, q, strict=True)]
        ahead = list(precondition(residual))
        size, before = _dot(residual, ahead), size
        direction = [a + size / before * d for a, d in zip(ahead, direction, strict=True)]
    return zs


def _dot(first: Vectors, second: Vectors) -> float:
    return sum(float(a @ b) for a, b in zip(first, second, strict=True))
