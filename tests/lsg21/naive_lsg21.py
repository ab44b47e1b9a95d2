"""LSG21 by plain loops: the paper's reweighting (Algorithm 2), smoothed, with weights of rows and with or without b.

A norm sqrt(w_i^2 + w_j^2) is replaced by sqrt(w_i^2 + w_j^2 + eps^2) wherever it stands, which Algorithm 2 needs at
zero rows. Every round then minimises a quadratic that touches the smoothed objective from above: it never rises.
"""

import math
from typing import NamedTuple

import numpy as np


class Reweighting(NamedTuple):
    """Where `reweighting` ended, and the objectives of the start and of every round."""

    W: np.ndarray  # (d, L)
    b: np.ndarray  # (L,)
    smoothed: list  # falls from round to round
    objective: list  # (3) itself, eps = 0


def smooth_norm(w_i, w_j, eps):
    return math.sqrt(w_i * w_i + w_j * w_j + eps * eps)


def objective(W, b, X, Y, A, alpha, self_edges=True, sample_weight=None, eps=0.0):
    """(3), over ordered pairs, smoothed by ``eps``."""
    n, n_labels, d = len(X), len(A), len(W)
    total = 0.0
    for row in range(n):
        s = 1.0 if sample_weight is None else sample_weight[row]
        for i in range(n_labels):
            score = b[i] + sum(X[row][k] * W[k][i] for k in range(d))
            total += s * (score - Y[row][i]) ** 2
    for i in range(n_labels):
        for j in range(n_labels):
            if i != j or self_edges:
                for k in range(d):
                    total += alpha * A[i][j] * smooth_norm(W[k][i], W[k][j], eps)
    return total


def reweighting(
    X, Y, A, alpha, n_rounds, *, self_edges=True, fit_intercept=True, sample_weight=None, eps=1e-8, start=None
):
    """Algorithm 2 for ``n_rounds`` rounds from W = ``start`` (d, L); by default all ones.

    A label without an edge has M = 0, and gets the least-squares solution of least norm.
    """
    X, Y = np.asarray(X, dtype=float), np.asarray(Y, dtype=float)
    n_labels, d = Y.shape[1], X.shape[1]
    s = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    # H of (4): take the weighted mean off every column.
    mean_x = s @ X / s.sum() if fit_intercept else np.zeros(d)
    mean_y = s @ Y / s.sum() if fit_intercept else np.zeros(n_labels)
    gram, right = np.zeros((d, d)), np.zeros((d, n_labels))
    for row in range(len(X)):
        gram += s[row] * np.outer(X[row] - mean_x, X[row] - mean_x)  # X H X^T
        right += s[row] * np.outer(X[row] - mean_x, Y[row] - mean_y)  # X H Y
    W = np.ones((d, n_labels)) if start is None else np.array(start, dtype=float)
    b = mean_y - mean_x @ W
    arguments = (X, Y, A, alpha, self_edges, s)
    smoothed, plain = [objective(W, b, *arguments, eps)], [objective(W, b, *arguments)]
    for _ in range(n_rounds):
        M = np.zeros((d, n_labels))
        for i in range(n_labels):
            for j in range(n_labels):
                if i != j or self_edges:
                    for k in range(d):
                        # M^i = sum_j (a_ij + a_ji) D^ij, D^ij_kk = 1 / (2 norm); the paper's 2 a_ij for a_ij = a_ji.
                        M[k, i] += (A[i][j] + A[j][i]) / (2.0 * smooth_norm(W[k, i], W[k, j], eps))
        for i in range(n_labels):
            if alpha * M[:, i].max() > 0.0:
                W[:, i] = np.linalg.solve(gram + alpha * np.diag(M[:, i]), right[:, i])  # (18)
            else:
                W[:, i] = np.linalg.pinv(gram, rcond=1e-12, hermitian=True) @ right[:, i]
        b = mean_y - mean_x @ W
        smoothed.append(objective(W, b, *arguments, eps))
        plain.append(objective(W, b, *arguments))
    return Reweighting(W, b, smoothed, plain)


def dual_norm_of_a_pair(g_0, g_1, edge, self_0, self_1):
    """Omega0 of a row with two labels, by bisection on t: what the self edges cannot carry must fit into the edge.

    Weights of the edge and of the self edges are those of unordered edges: 2 a_01, sqrt(2) a_00, sqrt(2) a_11.
    """
    low, high = 0.0, (abs(g_0) + abs(g_1)) / edge
    for _ in range(200):
        t = 0.5 * (low + high)
        rest_0, rest_1 = max(abs(g_0) - t * self_0, 0.0), max(abs(g_1) - t * self_1, 0.0)
        if math.hypot(rest_0, rest_1) > t * edge:
            low = t
        else:
            high = t
    return high
