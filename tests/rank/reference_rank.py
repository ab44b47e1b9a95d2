"""Independent optima of Rank-CVM and Rank-SVM, every pair written out and given to cvxpy's interior-point solver.

Pairs (i, m, n), m relevant and n irrelevant for row i, in the order of `pairs`: rows, then m, then n. H (L, pairs) has
+1 at m and -1 at n. ``cost`` holds C_i, one number per row; rows without pairs may occur, their cost is not used.

Rank-CVM, (37), where K already contains the + 1:
    W = min 1/2 a^T Theta a,  sum a = 1, a >= 0,  Theta = (H^T H) o K + diag(1 / C_i)
Rank-SVM, (18) and (19), with free biases:
    min 1/2 sum_k ||w_k||^2 + sum_imn C_i max(0, 1 - f_m(x_i) + f_n(x_i)),  f_k(x) = w_k . phi(x) + b_k
    max sum alpha - 1/2 sum_k beta_k^T K beta_k,  0 <= alpha_imn <= C_i, H alpha = 0
beta[i, k] is the sum of alpha (or a) over the pairs of row i with m = k, minus that with n = k.
"""

import warnings
from typing import NamedTuple

import cvxpy as cp
import numpy as np


class RankCVMOptimum(NamedTuple):
    """Minimum of 1/2 a^T Theta a and where it is; all unique, as Theta is positive definite."""

    W: float
    beta: np.ndarray  # (n, L), of a: sum_k beta_ik = 0; f = K beta has its scale
    a: np.ndarray  # (pairs,), sums to 1


class RankSVMOptimum(NamedTuple):
    """Minimum of (18), maximum of (19), and where they are.

    The objective and F - bias = K beta are unique. Not always unique: alpha; beta if K is singular; the differences of
    biases if too few pairs have 0 < alpha < C_i, above all for a label that is relevant for no row or for every one.
    """

    objective: float  # (18) at F
    F: np.ndarray  # (n, L), decision values with sum(bias) = 0
    beta: np.ndarray  # (n, L), columns sum to 0
    dual: float  # (19) at alpha
    bias: np.ndarray  # (L,)
    alpha: np.ndarray  # (pairs,)


def pairs(Y):
    """All (i, m, n) with label m on and n off in row i, of shape (n_pairs, 3); NaN is neither."""
    found = [
        (i, m, n) for i, y in enumerate(np.asarray(Y)) for m in np.flatnonzero(y == 1) for n in np.flatnonzero(y == 0)
    ]
    return np.array(found, dtype=int).reshape(-1, 3)


def signs(P, n_labels):
    """H of (25): +1 at the relevant, -1 at the irrelevant label of every pair, of shape (L, pairs)."""
    return (np.eye(n_labels)[P[:, 1]] - np.eye(n_labels)[P[:, 2]]).T


def pair_kernel(K, P, n_labels):
    """(H^T H) o K over pairs."""
    H = signs(P, n_labels)
    return (H.T @ H) * np.asarray(K, dtype=float)[np.ix_(P[:, 0], P[:, 0])]


def theta(K, Y, cost):
    """Theta of Rank-CVM, of shape (pairs, pairs)."""
    P = pairs(Y)
    return pair_kernel(K, P, np.shape(Y)[1]) + np.diag(1.0 / np.asarray(cost, dtype=float)[P[:, 0]])


def square_root(K):
    """G with K = G G^T for a positive semidefinite K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


def row_coefficients(Y, alpha):
    """beta (n, L) of one number per pair."""
    P, beta = pairs(Y), np.zeros(np.shape(Y))
    np.add.at(beta, (P[:, 0], P[:, 1]), alpha)
    np.add.at(beta, (P[:, 0], P[:, 2]), -alpha)
    return beta


def solve(problem):
    """Run CLARABEL to the tightest tolerance that it reaches. The caller certifies the answer."""
    for tol in (1e-12, 1e-11, 1e-10, 1e-9, 1e-8):
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
                problem.solve(solver=cp.CLARABEL, tol_gap_abs=tol, tol_gap_rel=tol, tol_feas=tol)
        except cp.SolverError:
            continue  # the steps became too short before the tolerance was reached
        if problem.status == cp.OPTIMAL:
            return
    raise RuntimeError(f"CLARABEL ended with {problem.status}")


def rank_cvm_optimum(K, Y, cost):
    """The optimum of Rank-CVM for a kernel matrix with the + 1 in it, certified to 1e-9, usually right to 1e-13.

    CLARABEL finds the support; x = a / (2 W) then solves Theta_SS x_S = 1 there, and the optimality conditions x >= 0,
    Theta x >= 1 are checked, pairs that break them changing sides.
    """
    Theta = theta(K, Y, cost)
    if len(Theta) == 0:
        raise ValueError("Y must have a row with a label on and one off")
    # Divided by its largest entry, so that the solver's tolerances are relative.
    R = np.linalg.cholesky(Theta / np.diag(Theta).max())
    v = cp.Variable(len(Theta), nonneg=True)
    solve(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(R.T @ v)), [cp.sum(v) == 1]))
    x, support = np.zeros(len(Theta)), v.value > 1e-7 * v.value.max()
    for _ in range(10 * len(Theta)):
        x[:] = 0.0
        x[support] = np.linalg.solve(Theta[np.ix_(support, support)], np.ones(support.sum()))
        gradient = Theta @ x
        lowest = np.where(support, 1.0, gradient).argmin()
        if x.min() < 0.0:
            support &= x > 0.0
        elif not support[lowest] and gradient[lowest] < 1.0 - 1e-11:
            support[lowest] = True
        else:
            a = x / x.sum()
            W = 0.5 * float(a @ Theta @ a)
            gap = 2.0 * W - float((Theta @ a).min())
            if not gap <= 1e-9 * W:
                raise RuntimeError(f"the reference optimum {W:.9g} is certified only to {gap:.2g}")
            return RankCVMOptimum(W, row_coefficients(Y, a), a)
    raise RuntimeError("the support of the reference optimum did not settle")


def rank_svm_optimum(K, Y, cost):
    """The optima of (18) and of (19), modelled one without the other, equal to 1e-8 relative.

    Where biases alone satisfy all pairs the optimum is 0; there they agree to 1e-12 of the cost of all pairs.
    """
    K, Y = np.asarray(K, dtype=float), np.asarray(Y)
    P, n_labels = pairs(Y), Y.shape[1]
    if len(P) == 0:
        raise ValueError("Y must have a row with a label on and one off")
    upper = np.asarray(cost, dtype=float)[P[:, 0]]
    objective, F, bias = rank_svm_primal(K, P, upper, n_labels)
    dual, alpha = rank_svm_dual(K, P, upper, n_labels)
    beta = row_coefficients(Y, alpha)
    if not abs(objective - dual) <= 1e-8 * objective + 1e-12 * upper.sum():
        raise RuntimeError(f"primal {objective:.12g} and dual {dual:.12g} of the reference differ")
    unbalanced = np.abs(beta.sum(axis=0)).max()
    if not unbalanced <= 1e-10 * upper.max() or alpha.min() < 0.0 or np.any(alpha > upper):
        raise RuntimeError(f"the dual reference is not feasible: H alpha = {unbalanced:.2g}")
    return RankSVMOptimum(objective, F, beta, dual, bias, alpha)


def rank_svm_primal(K, P, upper, n_labels):
    """(18), with w in coordinates where K = G G^T: value, decision values (n, L), biases that sum to 0."""
    G = square_root(K)
    w = cp.Variable((G.shape[1], n_labels))
    b = cp.Variable(n_labels)
    H, G_pairs = signs(P, n_labels), G[P[:, 0]]
    margins = cp.sum(cp.multiply(G_pairs @ w, H.T), axis=1) + H.T @ b
    loss = upper @ cp.pos(1.0 - margins)
    solve(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(w) + loss), [cp.sum(b) == 0]))
    bias = b.value - b.value.mean()
    F = G @ w.value + bias
    short = np.maximum(1.0 - F[P[:, 0], P[:, 1]] + F[P[:, 0], P[:, 2]], 0.0)
    return float(0.5 * np.sum(w.value**2) + upper @ short), F, bias


def rank_svm_dual(K, P, upper, n_labels):
    """(19): value and a maximiser (pairs,), feasible to rounding."""
    root, H = square_root(K), signs(P, n_labels)
    # Row r of label k of M alpha is w_k in coordinate r: ||M alpha||^2 = sum_k beta_k^T K beta_k.
    M = np.vstack([(root[P[:, 0]] * H[k][:, None]).T for k in range(n_labels)])
    z = cp.Variable(len(P))
    constraints = [z >= 0, z <= upper, H @ z == 0]
    solve(cp.Problem(cp.Maximize(cp.sum(z) - 0.5 * cp.sum_squares(M @ z)), constraints))
    alpha = balanced(z.value, H, upper)
    return float(alpha.sum() - 0.5 * np.sum((M @ alpha) ** 2)), alpha


def balanced(alpha, H, upper):
    """The nearest alpha with H alpha = 0 in the box, by projecting on one and the other in turn."""
    alpha = np.clip(alpha, 0.0, upper)
    for _ in range(1000):
        inside = (alpha > 0.0) & (alpha < upper)
        excess = H @ alpha
        if np.abs(excess).max() <= 1e-14 * upper.max():
            break
        step = np.zeros(len(alpha))
        step[inside] = np.linalg.pinv(H[:, inside]) @ excess
        alpha = np.clip(alpha - step, 0.0, upper)
    return alpha
