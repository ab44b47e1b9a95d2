"""Finishing M3L labels that coordinate descent alone would take forever on.

What is not solved after some passes is badly scaled, and is finished by methods that see all directions at once: Newton
steps on the few dual variables that matter, and an interior-point method when the features are few. They may cost what
the passes still to be expected would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..kernels._rows import CSR
from ._box_newton import newton_on_box
from ._interior_point import interior_point_on_box

if TYPE_CHECKING:
    from .m3l import Block

FINISH_AFTER = 20  # passes
_NEWTON_SIZE = 512  # most variables of a Newton system
_DENSE_SIZE = 20_000_000  # most entries of X as a dense array
_FREE_FLOPS = 2e8  # what may be spent on the labels of a block in any case


def finish(block: Block) -> None:
    """Move the dual variables of a block by Newton and interior-point steps; Z is that of A before and after.

    Parameters
    ----------
    block : Block
        With Z = 2 X^T (S o A) R.
    """
    view = block.view
    n_stored = view.data.size if isinstance(view, CSR) else view.size
    A = block.dual_state.A
    upper = block.upper()
    flops = max(4.0 * n_stored * block.epochs_to_go, _FREE_FLOPS / A.shape[1])
    if block.part.form != "diagonal":
        free = np.argwhere((A > 0.0) & (A < upper))
        if len(free) <= _NEWTON_SIZE:
            _newton_jointly(block, upper, free, flops * A.shape[1])
            return
    for label in range(A.shape[1]):
        if block.part.diagonal[label] > 0.0:
            before = A[:, label].copy()
            _finish_label(block, label, upper[:, label], flops)
            if block.part.form != "diagonal":
                change = block.dual_state.S[:, label] * (A[:, label] - before)
                block.Z += 2.0 * np.outer(block.X.T @ change, block.part.apply(np.eye(A.shape[1])[[label]])[0])


def _finish_label(block: Block, label: int, u: np.ndarray, flops: float) -> None:
    """Newton on the free dual variables of one label and those that most want to leave a bound, when they are few.

    When they are many, the features are few and badly scaled (the rank of X bounds the free variables of a generic
    optimum): an interior-point method finds the few that are really free.
    """
    X, dual = block.X, block.dual_state
    s, a, r = dual.S[:, label], dual.A[:, label], float(block.part.diagonal[label])
    t = dual.targets[:, label] if dual.targets.size else np.ones(len(s))
    gradient = 2.0 * (s * (X @ block.Z[:, label]) - t)  # of -D; its Hessian is 4 r (s s^T) o K
    if np.count_nonzero((a > 0.0) & (a < u)) > _NEWTON_SIZE:
        n_samples, n_features = X.shape
        if 60.0 * n_samples * n_features**2 > flops or n_samples * n_features > _DENSE_SIZE:
            return
        rows = np.flatnonzero(u > 0.0)
        M = 2.0 * np.sqrt(r) * s[rows, None] * (X[rows] if isinstance(X, np.ndarray) else X[rows].toarray())
        moved = a.copy()
        # gradient = M M^T a + linear, with the other labels fixed
        moved[rows] = interior_point_on_box(M, gradient[rows] - M @ (M.T @ a[rows]), u[rows])
        gradient = gradient + 4.0 * r * s * (X @ (X.T @ (s * (moved - a))))
        a[:] = moved
    free = (a > 0.0) & (a < u)
    chosen = _with_violators(free, a, u, gradient)
    if 0 < chosen.size <= _NEWTON_SIZE:
        K = X[chosen] @ X[chosen].T
        K = K if isinstance(K, np.ndarray) else K.toarray()
        Q = 4.0 * r * K * np.outer(s[chosen], s[chosen])
        a[chosen] = newton_on_box(Q, gradient[chosen], a[chosen], u[chosen], max_flops=flops)


def _with_violators(free: np.ndarray, a: np.ndarray, u: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Indices of the free variables and, as far as there is room, of those that most want to leave a bound."""
    violation = np.where(a <= 0.0, -gradient, gradient)
    violation[free | (u <= 0.0)] = 0.0
    others = np.flatnonzero(violation > 0.0)
    n_others = max(_NEWTON_SIZE - np.count_nonzero(free), 0)
    others = others[np.argsort(-violation[others], kind="stable")[:n_others]]
    return np.concatenate([np.flatnonzero(free), others])


def _newton_jointly(block: Block, upper: np.ndarray, free: np.ndarray, flops: float) -> None:
    """Newton on the free variables of all labels at once: Hessian 4 S_il S_jk R_lk K_ij."""
    X, dual = block.X, block.dual_state
    target = dual.targets if dual.targets.size else 1.0
    gradient = 2.0 * (dual.S * (X @ block.Z) - target)
    gradient[:, block.part.diagonal <= 0.0] = 0.0
    is_free = np.zeros(dual.A.shape, dtype=bool)
    is_free[free[:, 0], free[:, 1]] = True
    is_free[:, block.part.diagonal <= 0.0] = False
    flat = _with_violators(is_free.ravel(), dual.A.ravel(), upper.ravel(), gradient.ravel())
    if not flat.size:
        return
    i, label = np.unravel_index(flat, dual.A.shape)
    K = X[i] @ X[i].T
    K = K if isinstance(K, np.ndarray) else K.toarray()
    s = dual.S[i, label].astype(np.float64)
    Q = 4.0 * np.outer(s, s) * K * block.part.to_array()[np.ix_(label, label)]
    dual.A[i, label] = newton_on_box(Q, gradient[i, label], dual.A[i, label], upper[i, label], max_flops=flops)
