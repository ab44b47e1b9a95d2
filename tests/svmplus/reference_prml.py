"""Independent optima of PrBR and of PrML's two steps: SVM+ as written, given to cvxpy's interior-point solver.

    (5)  1/2 ||D||^2 + g1/2 ||W||^2 + g2/2 ||Wt||^2 + sum_ji C_ji xi_ji,   xi_ji = yt_ji . wt_i
         s.t.  S_ji x_j . D^T w_i >= 1 - xi_ji,  xi_ji >= 0

Rows j are examples and columns i labels, so that S and xi are n x L (the paper's transposed), D is k x d, W is k x L
and Wt is L x L: *columns* w_i and wt_i belong to label i, and wt_i has one element per privileged label. X is used as
it is: append the constant 1 before. yt_ji is row j of S with element i set to 1 (``privileged_intercept``) or 0 (the
paper's form), and 0 for labels l with ``mask[i, l]`` False; the diagonal of ``mask`` is not read, and None allows all
labels. C is a number or an n x L array; C_ji = 0 takes row j out of label i's problem, constraints and all.

PrBR drops W (D^T W = Z, d x L, g1 = 1):  1/2 ||Z||^2 + g2/2 ||Wt||^2 + sum C xi, a problem of its own for every label.
The W-step is (6), that is (5) without 1/2 ||D||^2; the D-step is (10), that is (5) without g1/2 ||W||^2. Their duals
over A, B >= 0 (n x L), with w_i = 1/g1 sum_j A_ji S_ji D x_j, D = sum_ji A_ji S_ji w_i x_j^T,
wt_i = 1/g2 sum_j (A_ji + B_ji - C_ji) yt_ji, are

    sum A - g1/2 ||W(A)||^2 - g2/2 ||Wt(A, B)||^2   and   sum A - 1/2 ||D(A)||^2 - g2/2 ||Wt(A, B)||^2

Infeasible problems have the objective inf and weights of nan, and name their labels.
"""

import math
from typing import NamedTuple

import cvxpy as cp
import numpy as np
from scipy.optimize import linprog
from tests.rank.reference_rank import solve


class PrivilegedOptimum(NamedTuple):
    """Where a step has its optimum; weights and Wt are unique, A and B need not be."""

    weights: np.ndarray  # Z (d, L) of PrBR, W (k, L) of the W-step, D (k, d) of the D-step
    Wt: np.ndarray  # (L, L), column i for label i
    objective: float  # of the step; inf if any label is infeasible
    dual: float  # of the step, of a model of its own; inf if any label is infeasible
    A: np.ndarray  # (n, L), multipliers of the margins, 0 where C is 0
    B: np.ndarray  # (n, L), multipliers of xi >= 0
    infeasible: tuple  # labels; all of them for the D-step, which couples them


# ---- privileged features and (5), in NumPy


def signs(Y):
    """S = 2 Y - 1 as floats."""
    return 2.0 * np.asarray(Y, dtype=float) - 1.0


def nearest_labels(S, n_privileged):
    """mask[i, l]: l is among the labels nearest to i in Hamming distance, i left out; of equals the first."""
    n_labels = S.shape[1]
    mask = np.zeros((n_labels, n_labels), dtype=bool)
    for i in range(n_labels):
        distance = [(int(np.sum(S[:, i] != S[:, other])), other) for other in range(n_labels) if other != i]
        mask[i, [other for _, other in sorted(distance)[:n_privileged]]] = True
    return mask


def privileged_features(S, i, mask=None, privileged_intercept=True):
    """yt_ji for all rows j, of shape (n, L)."""
    T = np.array(S, dtype=float)
    if mask is not None:
        T[:, ~np.asarray(mask, dtype=bool)[i]] = 0.0
    T[:, i] = 1.0 if privileged_intercept else 0.0
    return T


def slack(S, Wt, mask=None, privileged_intercept=True):
    """xi (n, L)."""
    columns = [privileged_features(S, i, mask, privileged_intercept) @ Wt[:, i] for i in range(S.shape[1])]
    return np.column_stack(columns)


def costs(S, C):
    """C as an array (n, L)."""
    return np.broadcast_to(np.asarray(C, dtype=float), S.shape)


def violation(F, S, Wt, C=1.0, mask=None, privileged_intercept=True):
    """Largest amount by which a constraint is broken at decision values F = X D^T W; at most 0 if none is."""
    xi = slack(S, Wt, mask, privileged_intercept)
    broken = np.maximum(1.0 - xi - S * F, -xi)
    return float(np.max(broken[costs(S, C) > 0.0], initial=-math.inf))


def step_objective(weights, Wt, S, C, gamma, gamma2, mask=None, privileged_intercept=True):
    """gamma/2 ||weights||^2 + g2/2 ||Wt||^2 + sum C xi; gamma is 1 for PrBR and the D-step and g1 for the W-step."""
    xi = slack(S, Wt, mask, privileged_intercept)
    return float(0.5 * gamma * np.sum(weights**2) + 0.5 * gamma2 * np.sum(Wt**2) + np.sum(costs(S, C) * xi))


def prml_objective(D, W, Wt, S, C, gamma1, gamma2, mask=None, privileged_intercept=True):
    """(5), feasible or not."""
    return step_objective(D, Wt, S, C, 1.0, gamma2, mask, privileged_intercept) + 0.5 * gamma1 * float(np.sum(W**2))


def is_feasible(H, s, T):
    """Whether some w, wt have s_j w.H_j + wt.T_j >= 1 and wt.T_j >= 0.

    The same with t instead of 1 is feasible for t = 0, and by scaling for all t or for no t > 0: the largest t <= 1 is
    1 or 0, which needs no tolerance.
    """
    n, n_primal, n_privileged = len(s), H.shape[1], T.shape[1]
    margin = np.hstack([-s[:, None] * H, -T, np.ones((n, 1))])
    sign = np.hstack([np.zeros((n, n_primal)), -T, np.zeros((n, 1))])
    cost = np.append(np.zeros(n_primal + n_privileged), -1.0)
    bounds = [(None, None)] * (n_primal + n_privileged) + [(0.0, 1.0)]
    found = linprog(cost, np.vstack([margin, sign]), np.zeros(2 * n), bounds=bounds, method="highs")
    if found.status != 0:
        raise RuntimeError(f"the feasibility problem ended with: {found.message}")
    return bool(-found.fun > 0.5)


def kkt_residual(problem, dual):
    """Projected gradients of -D of an ``SVMPlusProblem``, for A and for B; all zero exactly at the optimum."""
    xi = problem.privileged.slack(problem.privileged_weights(dual), problem.labels)
    margins = problem.S * (problem.X @ problem.weights(problem.dual_average(dual.A)))
    G = np.where(problem.cost > 0.0, margins + xi[problem.privileged.row_set] - 1.0, 0.0)
    H = np.where(problem.set_cost > 0.0, xi, 0.0)
    return np.where(dual.A > 0.0, G, np.minimum(G, 0.0)), np.where(dual.B > 0.0, H, np.minimum(H, 0.0))


# ---- one label


def svm_plus(H, s, T, c, gamma, gamma2):
    """min gamma/2 ||w||^2 + g2/2 ||wt||^2 + sum_j c_j wt.T_j over rows with c_j > 0; w, wt, alpha, beta or None.

    ``gamma`` is g1 in (6). The dual (7) is modelled by itself.
    """
    there = c > 0.0
    if not is_feasible(H[there], s[there], T[there]):
        return None
    H_there, s_there, T_there, c_there = H[there], s[there], T[there], c[there]
    w, wt = cp.Variable(H.shape[1]), cp.Variable(T.shape[1])
    xi = T_there @ wt
    value = 0.5 * gamma * cp.sum_squares(w) + 0.5 * gamma2 * cp.sum_squares(wt) + c_there @ xi
    solve(cp.Problem(cp.Minimize(value), [cp.multiply(s_there, H_there @ w) + xi >= 1, xi >= 0]))
    a, b = cp.Variable(there.sum()), cp.Variable(there.sum())
    dual = (
        cp.sum(a)
        - cp.sum_squares((s_there[:, None] * H_there).T @ a) / (2.0 * gamma)
        - cp.sum_squares(T_there.T @ (a + b - c_there)) / (2.0 * gamma2)
    )
    solve(cp.Problem(cp.Maximize(dual), [a >= 0, b >= 0]))
    alpha, beta = np.zeros(len(s)), np.zeros(len(s))
    alpha[there], beta[there] = np.maximum(a.value, 0.0), np.maximum(b.value, 0.0)
    return w.value, np.where(np.any(T_there != 0.0, axis=0), wt.value, 0.0), alpha, beta


def dual_value(norm_of_weights, A, B, S, C, gamma2, mask=None, privileged_intercept=True):
    """sum A - 1/2 ``norm_of_weights`` - g2/2 ||Wt(A, B)||^2."""
    Wt = privileged_weights(A, B, S, C, gamma2, mask, privileged_intercept)
    return float(A.sum() - 0.5 * norm_of_weights - 0.5 * gamma2 * np.sum(Wt**2))


def privileged_weights(A, B, S, C, gamma2, mask=None, privileged_intercept=True):
    """Wt(A, B), (9) and (13); multipliers are not read where C is 0."""
    c = costs(S, C)
    excess = np.where(c > 0.0, A + B - c, 0.0)
    features = [privileged_features(S, i, mask, privileged_intercept) for i in range(S.shape[1])]
    return np.column_stack([T.T @ excess[:, i] for i, T in enumerate(features)]) / gamma2


def certified(optimum, F, S, C, mask, privileged_intercept):
    """The optimum itself if it is feasible and its dual has the same value."""
    broken = violation(F, S, optimum.Wt, C, mask, privileged_intercept)
    if not broken <= 1e-8:
        raise RuntimeError(f"the reference breaks a constraint by {broken:.2g}")
    if not abs(optimum.objective - optimum.dual) <= 1e-8 * abs(optimum.objective):
        raise RuntimeError(f"primal {optimum.objective:.12g} and dual {optimum.dual:.12g} of the reference differ")
    return optimum


def w_step_optimum(X, S, D, C, gamma1, gamma2, mask=None, privileged_intercept=True):
    """(6) for all labels: W and Wt given D (k, d), certified to 1e-8."""
    return label_by_label(np.asarray(X, dtype=float) @ D.T, S, C, gamma1, gamma2, mask, privileged_intercept)


def prbr_optimum(X, S, C, gamma2, mask=None, privileged_intercept=True):
    """PrBR for all labels: Z and Wt, certified to 1e-8. One label: take column i of each."""
    return label_by_label(np.asarray(X, dtype=float), S, C, 1.0, gamma2, mask, privileged_intercept)


def label_by_label(H, S, C, gamma, gamma2, mask, privileged_intercept):
    """SVM+ on rows H_j for every label."""
    S, c = np.asarray(S, dtype=float), costs(S, C)
    n_labels = S.shape[1]
    W, Wt = np.full((H.shape[1], n_labels), np.nan), np.full((n_labels, n_labels), np.nan)
    A, B, infeasible = np.full(S.shape, np.nan), np.full(S.shape, np.nan), []
    for i in range(n_labels):
        T = privileged_features(S, i, mask, privileged_intercept)
        found = svm_plus(H, S[:, i], T, c[:, i], gamma, gamma2)
        if found is None:
            infeasible.append(i)
        else:
            W[:, i], Wt[:, i], A[:, i], B[:, i] = found
    if infeasible:
        return PrivilegedOptimum(W, Wt, math.inf, math.inf, A, B, tuple(infeasible))
    value = step_objective(W, Wt, S, c, gamma, gamma2, mask, privileged_intercept)
    norm = np.sum((H.T @ (S * A)) ** 2) / gamma
    dual = dual_value(norm, A, B, S, c, gamma2, mask, privileged_intercept)
    return certified(PrivilegedOptimum(W, Wt, value, dual, A, B, ()), H @ W, S, c, mask, privileged_intercept)


# ---- all labels together


def d_step_optimum(X, S, W, C, gamma2, mask=None, privileged_intercept=True):
    """(10): D (k, d) and Wt given W (k, L), certified to 1e-8."""
    X, S, c = np.asarray(X, dtype=float), np.asarray(S, dtype=float), costs(S, C)
    shape = (W.shape[0], X.shape[1])
    if not d_step_is_feasible(X, S, W, c, mask, privileged_intercept):
        nan, labels = np.full(S.shape, np.nan), tuple(range(S.shape[1]))
        weights, Wt = np.full(shape, np.nan), np.full((len(labels), len(labels)), np.nan)
        return PrivilegedOptimum(weights, Wt, math.inf, math.inf, nan, nan, labels)
    D = cp.Variable(shape)
    value, constraints, Wt = hinge_model(X @ D.T @ W, S, c, gamma2, mask, privileged_intercept)
    solve(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(D) + value), constraints))
    A, B = cp.Variable(S.shape), cp.Variable(S.shape)
    dual = cp.sum(A) - 0.5 * cp.sum_squares(W @ cp.multiply(S, A).T @ X)
    for i in range(S.shape[1]):
        T = (c[:, i] > 0.0)[:, None] * privileged_features(S, i, mask, privileged_intercept)
        dual -= cp.sum_squares(T.T @ (A[:, i] + B[:, i] - c[:, i])) / (2.0 * gamma2)
    absent = (c == 0.0).astype(float)
    solve(cp.Problem(cp.Maximize(dual), [A >= 0, B >= 0, cp.multiply(absent, A) == 0, cp.multiply(absent, B) == 0]))
    multipliers = [np.where(c > 0.0, np.maximum(M.value, 0.0), 0.0) for M in (A, B)]
    norm = np.sum((W @ (S * multipliers[0]).T @ X) ** 2)
    optimum = PrivilegedOptimum(
        D.value,
        Wt.value,
        step_objective(D.value, Wt.value, S, c, 1.0, gamma2, mask, privileged_intercept),
        dual_value(norm, *multipliers, S, c, gamma2, mask, privileged_intercept),
        *multipliers,
        (),
    )
    return certified(optimum, X @ D.value.T @ W, S, c, mask, privileged_intercept)


def hinge_model(F, S, c, gamma2, mask, privileged_intercept):
    """g2/2 ||Wt||^2 + sum C xi and the constraints of all labels, for decision values F (n, L) that cvxpy varies."""
    Wt = cp.Variable((S.shape[1], S.shape[1]))
    value, constraints = 0.5 * gamma2 * cp.sum_squares(Wt), []
    for i in range(S.shape[1]):
        there = np.flatnonzero(c[:, i] > 0.0)
        if len(there):
            xi = privileged_features(S, i, mask, privileged_intercept)[there] @ Wt[:, i]
            value += c[there, i] @ xi
            constraints += [cp.multiply(S[there, i], F[there, i]) + xi >= 1, xi >= 0]
    return value, constraints, Wt


def d_step_is_feasible(X, S, W, c, mask, privileged_intercept):
    """`is_feasible` of (10): row (j, i) has the features w_i x_j^T and yt_ji in a block of its own."""
    H, s, T = [], [], []
    n_labels = S.shape[1]
    for i in range(n_labels):
        features = privileged_features(S, i, mask, privileged_intercept)
        for j in np.flatnonzero(c[:, i] > 0.0):
            H.append(np.outer(W[:, i], X[j]).ravel())
            s.append(S[j, i])
            T.append(np.outer(np.eye(n_labels)[i], features[j]).ravel())
    return not s or is_feasible(np.array(H), np.array(s), np.array(T))


def nuclear_optimum(X, S, C, gamma1, gamma2, mask=None, privileged_intercept=True):
    """Global minimum of (5) over D, W and Wt of every rank k, and a minimiser Z = D^T W (d, L).

    The least 1/2 ||D||^2 + g1/2 ||W||^2 with D^T W = Z is sqrt(g1) times the sum of Z's singular values, so this convex
    problem bounds (5) from below for every k, and is attained for k at least the rank of the minimiser. Right to about
    1e-6. The problem must be feasible.
    """
    X, S, c = np.asarray(X, dtype=float), np.asarray(S, dtype=float), costs(S, C)
    Z = cp.Variable((X.shape[1], S.shape[1]))
    value, constraints, _ = hinge_model(X @ Z, S, c, gamma2, mask, privileged_intercept)
    problem = cp.Problem(cp.Minimize(math.sqrt(gamma1) * cp.normNuc(Z) + value), constraints)
    solve(problem)
    return float(problem.value), Z.value
