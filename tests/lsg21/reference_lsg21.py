"""Independent optima of LSG21: objective (3) as written, given to cvxpy's interior-point solver.

    P(W, b) = sum_il s_i (x_i.w_l + b_l - Y_il)^2 + alpha Omega(W),  Omega(W) = sum_i sum_j a_ij ||[w_i, w_j]||_2,1
    D(T) = sum_il (T_il Y_il - T_il^2 / (4 s_i)),  sum_i T_il = 0 (free b),  Omega0(row k of X^T T) <= alpha for every k

W is d x L, column l for label l; s_i is the weight of a row, and a row of weight 0 is not there. The sum runs over
ordered pairs. Without ``self_edges`` the diagonal of A is not read. Over unordered edges e with weights omega_e,

    Omega(W) = sum_k sum_e omega_e ||W_k,e||,  omega_ij = a_ij + a_ji on labels {i, j},  omega_ii = sqrt(2) a_ii on {i}

and Omega0 is the dual norm of one row: the least t such that g = sum_e u_e with u_e on the labels of e alone and
||u_e|| <= t omega_e. At the optimum T_il = 2 s_i (Y_il - x_i.w_l - b_l).

A label without an edge of positive weight is not penalised: it is a least-squares problem of its own, and its w_l is
the one of least norm. `alpha_max` leaves such labels out.
"""

import math
from typing import NamedTuple

import cvxpy as cp
import numpy as np
from tests.rank.reference_rank import solve


class LSG21Optimum(NamedTuple):
    """Minimum of P, maximum of D, and where the first is: unique if the columns of X (and 1) are independent."""

    W: np.ndarray  # (d, L), usually right to 1e-10 and with exact zeros, see `polished`
    b: np.ndarray  # (L,); 0 without an intercept
    objective: float  # P at (W, b)
    dual: float  # D at T, of a model of its own
    T: np.ndarray  # (n, L), rows of weight 0 are 0


# ---- the objective, literally


def penalty(W, A, self_edges=True):
    """Omega(W), the double sum of (3): every edge twice, a self edge once."""
    total = 0.0
    for i in range(W.shape[1]):
        for j in range(W.shape[1]):
            if i != j or self_edges:
                total += A[i, j] * sum(math.hypot(w_i, w_j) for w_i, w_j in zip(W[:, i], W[:, j], strict=True))
    return total


def objective(W, b, X, Y, A, alpha, self_edges=True, sample_weight=None):
    """P(W, b)."""
    s = row_weights(X, sample_weight)
    residual = X @ W + b - np.asarray(Y, dtype=float)
    return float(np.sum(s[:, None] * residual**2)) + alpha * penalty(W, np.asarray(A, dtype=float), self_edges)


def row_weights(X, sample_weight):
    return np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=float)


# ---- the optimum


def edge_list(A, self_edges=True):
    """(labels, omega) of every unordered edge of positive weight."""
    A = np.asarray(A, dtype=float)
    if A.min(initial=0.0) < 0.0:
        raise ValueError("A must not have negative entries")
    n_labels = len(A)
    found = [([i, j], A[i, j] + A[j, i]) for i in range(n_labels) for j in range(i + 1, n_labels)]
    if self_edges:
        found += [([i], math.sqrt(2.0) * A[i, i]) for i in range(n_labels)]
    return [(labels, omega) for labels, omega in found if omega > 0.0]


def penalised_labels(A, self_edges=True):
    """Labels with an edge, in order."""
    return sorted({label for labels, _ in edge_list(A, self_edges) for label in labels})


def lsg21_optimum(X, Y, A, alpha, *, self_edges=True, fit_intercept=True, sample_weight=None):
    """The optima of P and of D, modelled one without the other, equal to 1e-8 relative."""
    X, Y, A = (np.asarray(M, dtype=float) for M in (X, Y, A))
    s = row_weights(X, sample_weight)
    n_labels = Y.shape[1]
    W, b, T = np.zeros((X.shape[1], n_labels)), np.zeros(n_labels), np.zeros(Y.shape)
    there = s > 0.0
    penalised = penalised_labels(A, self_edges) if alpha > 0.0 else []
    free = sorted(set(range(n_labels)) - set(penalised))
    if free:
        W[:, free], b[free] = least_squares(X[there], Y[np.ix_(there, free)], s[there], fit_intercept)
        T[np.ix_(there, free)] = 2.0 * s[there, None] * (Y - X @ W - b)[np.ix_(there, free)]
    if penalised:
        part = (X[there], Y[np.ix_(there, penalised)], s[there])
        graph = edge_list(A[np.ix_(penalised, penalised)], self_edges)
        W[:, penalised], b[penalised] = primal_optimum(*part, graph, alpha, fit_intercept)
        T[np.ix_(there, penalised)] = dual_optimum(*part, graph, alpha, fit_intercept)
    found = objective(W, b, X, Y, A, alpha, self_edges, s)
    dual = float(np.sum(T * Y) - np.sum(T[there] ** 2 / (4.0 * s[there, None])))
    if not abs(found - dual) <= 1e-8 * found + 1e-12 * float(s @ (Y**2).sum(axis=1)):
        raise RuntimeError(f"primal {found:.12g} and dual {dual:.12g} of the reference differ")
    return LSG21Optimum(W, b, found, dual, T)


def least_squares(X, Y, s, fit_intercept):
    """W of least norm and b of the weighted least-squares problem without a penalty."""
    centre_x, centre_y = means(X, Y, s, fit_intercept)
    root = np.sqrt(s)[:, None]
    W = np.linalg.pinv(root * (X - centre_x), rcond=1e-12) @ (root * (Y - centre_y))
    return W, centre_y - centre_x @ W


def means(X, Y, s, fit_intercept):
    """Weighted means of the columns; 0 without an intercept."""
    if fit_intercept:
        return s @ X / s.sum(), s @ Y / s.sum()
    return np.zeros(X.shape[1]), np.zeros(Y.shape[1])


def primal_optimum(X, Y, s, graph, alpha, fit_intercept):
    """Minimiser of P for edges as `edge_list` gives them, every label with one."""
    W, b = cp.Variable((X.shape[1], Y.shape[1])), cp.Variable((1, Y.shape[1]))
    norms = [omega * cp.sum(cp.norm(W[:, labels], 2, axis=1)) for labels, omega in graph]
    residual = cp.multiply(np.sqrt(s)[:, None] * np.ones(Y.shape), X @ W + np.ones((len(X), 1)) @ b - Y)
    solve(cp.Problem(cp.Minimize(cp.sum_squares(residual) + alpha * sum(norms)), [] if fit_intercept else [b == 0]))
    # Without b, as a quadratic in the rows of W one after the other: columns and labels less their means.
    centre_x, centre_y = means(X, Y, s, fit_intercept)
    n_labels = Y.shape[1]
    G = np.kron(2.0 * (s[:, None] * (X - centre_x)).T @ (X - centre_x), np.eye(n_labels))
    c = 2.0 * (X - centre_x).T @ (s[:, None] * (Y - centre_y))
    groups = [(k * n_labels + np.array(labels), alpha * omega) for k in range(X.shape[1]) for labels, omega in graph]
    W = polished(W.value.ravel(), G, c.ravel(), groups).reshape(W.shape)
    return W, centre_y - centre_x @ W


def polished(x, G, c, groups):
    """A better minimiser of 1/2 x^T G x - c.x + sum_e omega_e ||x_e|| than the interior point x, by Newton's method.

    Coordinates that are tiny in x are set to 0 and the others solved for; x itself comes back if that is not as good.
    """

    def value(x):
        return 0.5 * x @ G @ x - c @ x + sum(omega * np.linalg.norm(x[e]) for e, omega in groups)

    if value(x) >= 0.0:  # the value of x = 0
        return np.zeros(len(x))
    on = np.flatnonzero(np.abs(x) > 1e-6 * np.abs(x).max())
    y, last = np.zeros(len(x)), np.inf
    y[on] = x[on]
    for _ in range(30):
        gradient, hessian = G @ y - c, G.copy()
        for e, omega in groups:
            norm = np.linalg.norm(y[e])
            if norm > 0.0:
                gradient[e] += omega * y[e] / norm
                hessian[np.ix_(e, e)] += omega * (np.eye(len(e)) - np.outer(y[e], y[e]) / norm**2) / norm
        size = np.abs(gradient[on]).max()
        if not 0.0 < size < last:
            break
        last = size
        y[on] -= np.linalg.lstsq(hessian[np.ix_(on, on)], gradient[on], rcond=1e-13)[0]
    return y if value(y) <= value(x) + 1e-14 * abs(value(x)) else x


def dual_optimum(X, Y, s, graph, alpha, fit_intercept):
    """Maximiser of D; T = V sqrt(s), so that the quadratic part is that of V."""
    root = np.sqrt(s)[:, None]
    V = cp.Variable(Y.shape)
    parts = [cp.Variable((X.shape[1], len(labels))) for labels, _ in graph]
    constraints = [cp.norm(part, 2, axis=1) <= alpha * omega for part, (_, omega) in zip(parts, graph, strict=True)]
    gradient = (root * X).T @ V
    constraints += [gradient[:, label] == sum_over_edges(parts, graph, label) for label in range(Y.shape[1])]
    if fit_intercept:
        constraints.append(root[:, 0] @ V == 0)
    solve(cp.Problem(cp.Maximize(cp.sum(cp.multiply(root * Y, V)) - 0.25 * cp.sum_squares(V)), constraints))
    return root * V.value


# ---- one row: dual norm and prox


def dual_norm(g, A, self_edges=True):
    """Omega0(g) of one row g (L,); infinite if g is not 0 on a label without an edge."""
    return largest_dual_norm(np.asarray(g, dtype=float)[None, :], A, self_edges)


def largest_dual_norm(rows, A, self_edges=True):
    """max_k Omega0(row k), of rows (d, L): one t for all of them."""
    graph, penalised = edge_list(A, self_edges), penalised_labels(A, self_edges)
    scale = np.abs(rows).max(initial=0.0)
    if scale == 0.0:
        return 0.0
    if np.any(np.delete(rows, penalised, axis=1) != 0.0):
        return math.inf
    t = cp.Variable(nonneg=True)
    parts = [cp.Variable((len(rows), len(labels))) for labels, _ in graph]
    constraints = [cp.norm(part, 2, axis=1) <= t * omega for part, (_, omega) in zip(parts, graph, strict=True)]
    constraints += [sum_over_edges(parts, graph, label) == rows[:, label] / scale for label in penalised]
    solve(cp.Problem(cp.Minimize(t), constraints))
    return float(scale * t.value)


def sum_over_edges(parts, graph, label):
    """Column of ``label`` of sum_e u_e, where parts[e] (d, |e|) are the u_e of d rows."""
    return sum(part[:, labels.index(label)] for part, (labels, _) in zip(parts, graph, strict=True) if label in labels)


def alpha_max(X, Y, A, *, self_edges=True, fit_intercept=True, sample_weight=None):
    """The least alpha for which W = 0 (on the labels that have an edge) is optimal: max_k Omega0(2 x_k^T s (Y - b))."""
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
    s = row_weights(X, sample_weight)
    gradient = 2.0 * X.T @ (s[:, None] * (Y - means(X, Y, s, fit_intercept)[1]))
    some = penalised_labels(A, self_edges)
    return largest_dual_norm(gradient[:, some], np.asarray(A, dtype=float)[np.ix_(some, some)], self_edges)


def prox(u, step, A, self_edges=True):
    """The v that minimises 1/2 ||v - u||^2 + step Omega(v) for one row u (L,)."""
    u = np.asarray(u, dtype=float)
    v = cp.Variable(len(u))
    graph = edge_list(A, self_edges)
    norms = [omega * cp.norm(v[labels], 2) for labels, omega in graph]
    solve(cp.Problem(cp.Minimize(0.5 * cp.sum_squares(v - u) + step * sum(norms))))
    return polished(v.value, np.eye(len(u)), u, [(np.array(labels), step * omega) for labels, omega in graph])
