"""Plain loops over explicit pairs: the Rank-CVM paper's Frank-Wolfe, coordinate descent, Rank-SVM, and label sets.

Pairs (i, m, n) come in the order rows, relevant labels m, irrelevant labels n. ``cost`` holds C_i of every row. For
Rank-CVM K contains the + 1 already; for Rank-SVM it does not.
"""

import itertools
from typing import NamedTuple

import numpy as np


class FrankWolfe(NamedTuple):
    """Iterates of `frank_wolfe`: W and gap before every step and after the last, and the last a and beta."""

    W: list
    gap: list
    chosen: list  # index of the pair of the start and of every step
    a: list
    beta: list  # n lists of L numbers


class RankSVM(NamedTuple):
    """Where `rank_svm` ended."""

    alpha: np.ndarray  # (pairs,), in the box
    beta: np.ndarray  # (n, L)
    bias: np.ndarray  # (L,), sums to 0
    F: np.ndarray  # (n, L), K beta + bias
    objective: float  # (18) at F
    dual: float  # (19) at alpha
    imbalance: float  # largest |sum_i beta_ki|


def list_pairs(Y):
    """(i, m, n) in the order everything here uses."""
    found = []
    for i in range(len(Y)):
        for m in range(len(Y[i])):
            for n in range(len(Y[i])):
                if Y[i][m] == 1 and Y[i][n] == 0:  # neither is unknown, NaN
                    found.append((i, m, n))
    return found


def same_labels(p, q):
    """(H^T H)_pq: labels that both pairs push the same way, minus those they push against each other."""
    return (p[1] == q[1]) - (p[1] == q[2]) - (p[2] == q[1]) + (p[2] == q[2])


def theta_entry(K, cost, p, q):
    """Theta_pq, (53)."""
    return same_labels(p, q) * K[p[0]][q[0]] + (1.0 / cost[p[0]] if p == q else 0.0)


def coefficients(Y, alpha):
    """beta (n, L), (21)."""
    beta = np.zeros(np.shape(Y))
    for (i, m, n), value in zip(list_pairs(Y), alpha, strict=True):
        beta[i, m] += value
        beta[i, n] -= value
    return beta


def frank_wolfe(K, Y, cost, n_steps, tol=0.0):
    """Rank-CVM by (55)-(70), the gradient of all pairs kept; stops when the gap 2 W - min g is at most tol * W.

    Of equal gradients, and of equal diagonal entries at the start, the first pair is taken.
    """
    P = list_pairs(Y)
    size, n_labels = len(P), len(Y[0])
    diagonal = [theta_entry(K, cost, p, p) for p in P]  # (54)
    start = diagonal.index(min(diagonal))  # (55)
    a = [0.0] * size
    a[start] = 1.0  # (56)
    W = diagonal[start] / 2.0  # (57)
    beta = [[0.0] * n_labels for _ in Y]
    beta[P[start][0]][P[start][1]] = 1.0  # (58)
    beta[P[start][0]][P[start][2]] = -1.0
    g = [theta_entry(K, cost, p, P[start]) for p in P]  # (60)
    history = FrankWolfe([], [], [start], a, beta)
    for step in range(n_steps + 1):
        j = g.index(min(g))  # (61)
        z = g[j] - 2.0 * W  # (62)
        history.W.append(W)
        history.gap.append(-z)
        if -z <= tol * W or step == n_steps:
            break
        history.chosen.append(j)
        step_size = min(-z / (diagonal[j] - 2.0 * g[j] + 2.0 * W), 1.0)  # (64)
        rest = 1.0 - step_size
        W = rest**2 * W + step_size * rest * g[j] + 0.5 * step_size**2 * diagonal[j]  # (68)
        for p in range(size):
            a[p] *= rest  # (66)
            g[p] = rest * g[p] + step_size * theta_entry(K, cost, P[p], P[j])  # (70)
        a[j] += step_size
        i, m, n = P[j]
        for row in beta:  # (67)
            for k in range(n_labels):
                row[k] *= rest
        beta[i][m] += step_size
        beta[i][n] -= step_size
    return history


def coordinate_descent(K, Y, cost, n_sweeps, row_orders=None, tol=0.0):
    """x of min 1/2 x^T Theta x - sum x over x >= 0, one pair at a time, rows in turn and their pairs in order.

    ``row_orders`` has the order of the rows of every sweep; None takes them as they come. x / sum(x) is a of Rank-CVM;
    ends early when its Frank-Wolfe gap 2 W - min Theta a is at most tol * W, if ``tol`` is positive.
    """
    P = list_pairs(Y)
    x, g = np.zeros(len(P)), -np.ones(len(P))
    Theta = np.array([[theta_entry(K, cost, p, q) for q in P] for p in P])
    for sweep in range(n_sweeps):
        for i in range(len(Y)) if row_orders is None else row_orders[sweep]:
            for j in [j for j, p in enumerate(P) if p[0] == i]:
                new = max(0.0, x[j] - g[j] / Theta[j, j])
                g += Theta[:, j] * (new - x[j])
                x[j] = new
        g = Theta @ x - 1.0  # rounding does not add up from sweep to sweep
        a, gradient = x / x.sum(), (g + 1.0) / x.sum()
        if tol > 0.0 and a @ gradient - gradient.min() <= tol * 0.5 * (a @ gradient):
            break
    return x


def rank_svm(K, Y, cost, penalty=1.0, n_rounds=500, n_sweeps=100, tol=1e-10):
    """Rank-SVM (19) by the augmented Lagrangian of H alpha = 0, whose multipliers are the biases.

        min 1/2 alpha^T Q alpha - sum alpha + b^T H alpha + penalty / 2 ||H alpha||^2,  0 <= alpha_imn <= C_i
        b <- b + penalty H alpha

    Every round is plain projected coordinate descent, at most ``n_sweeps`` of them. Ends when the projected gradient
    and H alpha (in the scale of the largest C_i) are at most ``tol``.
    """
    P, n_labels = list_pairs(Y), len(Y[0])
    Q = np.array([[same_labels(p, q) * K[p[0]][q[0]] for q in P] for p in P], dtype=float)
    HtH = np.array([[same_labels(p, q) for q in P] for p in P], dtype=float)
    M = Q + penalty * HtH
    upper = np.array([cost[p[0]] for p in P])
    alpha, bias = np.zeros(len(P)), np.zeros(n_labels)
    for _ in range(n_rounds):
        slope = np.array([bias[m] - bias[n] - 1.0 for _, m, n in P])
        for _ in range(n_sweeps):
            g = M @ alpha + slope
            worst = 0.0
            for j in range(len(P)):
                new = min(max(0.0, alpha[j] - g[j] / M[j, j]), upper[j])
                worst = max(worst, abs(new - alpha[j]) * M[j, j])
                g += M[:, j] * (new - alpha[j])
                alpha[j] = new
            if worst <= 0.1 * tol:
                break
        excess = coefficients(Y, alpha).sum(axis=0)
        bias += penalty * excess
        if worst <= tol and np.abs(excess).max() <= tol * upper.max():
            break
    beta = coefficients(Y, alpha)
    F = np.asarray(K) @ beta + bias
    loss = sum(u * max(0.0, 1.0 - F[i, m] + F[i, n]) for u, (i, m, n) in zip(upper, P, strict=True))
    square = 0.5 * alpha @ Q @ alpha
    return RankSVM(alpha, beta, bias, F, square + loss, alpha.sum() - square, np.abs(excess).max())


def row_threshold(scores, labels):
    """t* of one row: the middle of the gap between scores with the fewest wrong labels, the widest, the highest.

    The gaps above the highest and below the lowest score are as wide as the mean gap; as the score, or 1 if
    it is 0, if there is one score only.
    """
    values = sorted(set(scores), reverse=True)
    end = (values[0] - values[-1]) / (len(scores) - 1) if len(values) > 1 else abs(values[0]) or 1.0
    edges = [values[0] + end, *values, values[-1] - end]
    best = None
    for high, low in itertools.pairwise(edges):
        middle = (high + low) / 2.0
        wrong = sum((f > middle) != bool(y) for f, y in zip(scores, labels, strict=True))
        if best is None or (wrong, -(high - low)) < best[:2]:
            best = (wrong, -(high - low), middle)
    return best[2]


def threshold_rule(F, Y, weight=None):
    """s and s_0 of t(x) = s . f(x) + s_0, least squares on t* of every row; s of least norm if F is rank deficient."""
    weight = np.ones(len(F)) if weight is None else np.asarray(weight, dtype=float)
    target = [row_threshold(list(f), list(y)) for f, y in zip(F, Y, strict=True)]
    mean_f, mean_t = np.zeros(len(F[0])), 0.0
    for w, f, t in zip(weight, F, target, strict=True):
        mean_f += w * np.asarray(f) / weight.sum()
        mean_t += w * t / weight.sum()
    normal, right = np.zeros((len(mean_f), len(mean_f))), np.zeros(len(mean_f))
    for w, f, t in zip(weight, F, target, strict=True):
        normal += w * np.outer(f - mean_f, f - mean_f)
        right += w * (t - mean_t) * (f - mean_f)
    s = np.linalg.pinv(normal, rcond=1e-12, hermitian=True) @ right
    return s, float(mean_t - mean_f @ s)


def label_sets(F, s, s_0):
    """Labels with f_k(x) > s . f(x) + s_0."""
    return [[int(f_k > sum(a * b for a, b in zip(s, f, strict=True)) + s_0) for f_k in f] for f in F]
