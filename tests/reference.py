"""Independent optima: the problems as written, given to cvxpy's interior-point solver."""

import cvxpy as cp
import numpy as np


def m3l_optimum(X, S, U):
    """Minimum and minimiser of 1/2 ||Z||^2 + 2 sum U hinge(S * XZ)."""
    Z = cp.Variable((X.shape[1], S.shape[1]))
    hinge = cp.pos(1 - cp.multiply(S.astype(float), X @ Z))
    problem = cp.Problem(cp.Minimize(0.5 * cp.sum_squares(Z) + 2 * cp.sum(cp.multiply(U, hinge))))
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value), np.asarray(Z.value)


def box_qp_optimum(M, c, upper):
    """Minimum of 1/2 ||M^T x||^2 + c^T x over 0 <= x <= upper."""
    x = cp.Variable(len(c))
    objective = 0.5 * cp.sum_squares(M.T @ x) + c @ x
    problem = cp.Problem(cp.Minimize(objective), [x >= 0, x <= upper])
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-11, tol_gap_rel=1e-11, tol_feas=1e-11)
    return float(problem.value)
