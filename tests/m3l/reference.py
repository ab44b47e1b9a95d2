"""Independent optima: the problems as written, given to cvxpy's interior-point solver."""

import cvxpy as cp
import numpy as np


def m3l_optimum(X, S, U, R=None, T=1.0):
    """Minimum and minimiser of 1/2 tr(Z R^-1 Z^T) + 2 sum U hinge(T - S * XZ), over Z = Q P^T with R = P P^T."""
    R = np.eye(S.shape[1]) if R is None else R
    values, vectors = np.linalg.eigh(R)
    P = vectors * np.sqrt(np.maximum(values, 0.0))
    P = P[:, values > 1e-12 * values.max()]
    Q = cp.Variable((X.shape[1], P.shape[1]))
    Z = Q @ P.T
    hinge = cp.pos(T - cp.multiply(S.astype(float), X @ Z))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(Q) + 2 * cp.sum(cp.multiply(U, hinge))))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value), np.asarray(Z.value)


def box_qp_optimum(M, c, upper):
    """Minimum of 1/2 ||M^T x||^2 + c^T x over 0 <= x <= upper."""
    x = cp.Variable(len(c))
    objective = 0.5 * cp.sum_squares(M.T @ x) + c @ x
    problem = cp.Problem(cp.Minimize(objective), [x >= 0, x <= upper])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value)
