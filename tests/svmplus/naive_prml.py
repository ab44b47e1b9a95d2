"""PrML by plain loops: the paper's dual coordinate descent (Algorithm 1) and the alternation around it (Algorithm 2).

Rows j are examples, columns i labels; S, C, alpha, beta are n x L, D is k x d, W is k x L, and column i of Wt belongs
to label i. ``features`` holds yt as an array (L, n, L): features[i][j] is yt_ij. Where C is 0 the row is out of the
label's problem.
"""

from typing import NamedTuple

import numpy as np


class Descent(NamedTuple):
    """Where dual coordinate descent ended."""

    weights: np.ndarray  # w (p,) or D (k, d), linked to alpha
    privileged: np.ndarray  # wt (L,) or Wt (L, L), linked to alpha and beta
    alpha: np.ndarray
    beta: np.ndarray
    dual: list  # dual objective after every pass
    change: float  # largest projected gradient at the end


class Alternation(NamedTuple):
    """Iterates of Algorithm 2."""

    D: np.ndarray
    W: np.ndarray
    Wt: np.ndarray
    objective: list  # (5) after every W-step and every D-step, at points that are feasible to the steps' precision


def privileged_features(S, privileged_intercept=True, mask=None):
    """yt of every label and row, (3): row j of S without label i, whose place is 0 or the constant 1."""
    n, n_labels = S.shape
    features = np.zeros((n_labels, n, n_labels))
    for i in range(n_labels):
        for j in range(n):
            for other in range(n_labels):
                if other == i:
                    features[i, j, other] = 1.0 if privileged_intercept else 0.0
                elif mask is None or mask[i][other]:
                    features[i, j, other] = S[j, other]
    return features


def objective(D, W, Wt, S, features, C, gamma1, gamma2):
    """(5), with C (n, L)."""
    total = 0.5 * np.sum(D**2)
    for i in range(S.shape[1]):
        total += 0.5 * gamma1 * (W[:, i] @ W[:, i]) + 0.5 * gamma2 * (Wt[:, i] @ Wt[:, i])
        for j in range(len(S)):
            total += C[j, i] * (Wt[:, i] @ features[i, j])
    return float(total)


def label_descent(H, s, yt, c, gamma1, gamma2, n_passes, rng, tol=0.0):
    """Algorithm 1 for one label, the dual (7): w and wt of (6) on rows H_j with signs s_j and privileged rows yt_j.

    Divided by gamma1 as the paper does: c -> c / gamma1, gamma = gamma2 / gamma1. alpha and beta returned are those of
    (6) itself, that is times gamma1. A pass draws as many indices as there are variables; it ends early when the
    projected gradient of all of them is at most ``tol``.
    """
    rows = [j for j in range(len(s)) if c[j] > 0.0]
    gamma, c = gamma2 / gamma1, np.asarray(c, dtype=float) / gamma1
    alpha, beta = np.zeros(len(s)), np.zeros(len(s))
    w, wt = np.zeros(H.shape[1]), np.zeros(yt.shape[1])
    for j in rows:
        wt -= c[j] / gamma * yt[j]  # line 3: alpha = beta = 0
    dual, largest = [], np.inf
    for _ in range(n_passes):
        for pick in rng.integers(0, 2 * len(rows), 2 * len(rows)):  # line 5
            j = rows[pick % len(rows)]
            if pick < len(rows):
                q = H[j] @ H[j] + yt[j] @ yt[j] / gamma  # line 2
                step = coordinate_step(alpha[j], s[j] * (w @ H[j]) - 1.0 + wt @ yt[j], q)  # lines 8-9
                w += step * s[j] * H[j]  # line 10
                alpha[j] += step
            else:
                step = coordinate_step(beta[j], wt @ yt[j], yt[j] @ yt[j] / gamma)  # lines 13-14
                beta[j] += step
            wt += step / gamma * yt[j]  # line 16
        dual.append(gamma1 * (alpha.sum() - 0.5 * (w @ w) - 0.5 * gamma * (wt @ wt)))
        largest = 0.0
        for j in rows:
            largest = max(largest, projected(alpha[j], s[j] * (w @ H[j]) - 1.0 + wt @ yt[j]))
            largest = max(largest, projected(beta[j], wt @ yt[j]))
        if largest <= tol:
            break
    return Descent(w, wt, gamma1 * alpha, gamma1 * beta, dual, largest)


def dictionary_descent(X, S, W, features, C, gamma2, n_passes, rng, tol=0.0):
    """Algorithm 1 as printed, the dual (11): D and Wt of (10), over all pairs of a label and a row."""
    n, n_labels = S.shape
    pairs = [(i, j) for i in range(n_labels) for j in range(n) if C[j, i] > 0.0]  # phi: first labels, then rows
    alpha, beta = np.zeros((n, n_labels)), np.zeros((n, n_labels))
    D, Wt = np.zeros((W.shape[0], X.shape[1])), np.zeros((n_labels, n_labels))
    for i, j in pairs:
        Wt[:, i] -= C[j, i] / gamma2 * features[i, j]  # line 3
    dual, largest = [], np.inf
    for _ in range(n_passes):
        for pick in rng.integers(0, 2 * len(pairs), 2 * len(pairs)):  # line 5
            i, j = pairs[pick % len(pairs)]
            w, x, yt = W[:, i], X[j], features[i, j]
            if pick < len(pairs):
                q = (w @ w) * (x @ x) + yt @ yt / gamma2  # line 2
                step = coordinate_step(alpha[j, i], S[j, i] * (w @ D @ x) - 1.0 + Wt[:, i] @ yt, q)  # lines 8-9
                D += step * S[j, i] * np.outer(w, x)  # line 10
                alpha[j, i] += step
            else:
                step = coordinate_step(beta[j, i], Wt[:, i] @ yt, yt @ yt / gamma2)  # lines 13-14
                beta[j, i] += step
            Wt[:, i] += step / gamma2 * yt  # line 16
        dual.append(float(alpha.sum() - 0.5 * np.sum(D**2) - 0.5 * gamma2 * np.sum(Wt**2)))
        largest = 0.0
        for i, j in pairs:
            xi = Wt[:, i] @ features[i, j]
            largest = max(largest, projected(alpha[j, i], S[j, i] * (W[:, i] @ D @ X[j]) - 1.0 + xi))
            largest = max(largest, projected(beta[j, i], xi))
        if largest <= tol:
            break
    return Descent(D, Wt, alpha, beta, dual, largest)


def coordinate_step(value, gradient, curvature):
    """Step of the minimum over value >= 0; a variable that moves nothing stays."""
    return max(-value, -gradient / curvature) if curvature > 0.0 else 0.0


def projected(value, gradient):
    """How far a gradient is from optimal at value >= 0."""
    return abs(gradient) if value > 0.0 else max(0.0, -gradient)


def prml(X, S, D, C, gamma1, gamma2, n_rounds, rng, *, features, n_passes=2000, tol=1e-9):
    """Algorithm 2 from the dictionary D (k, d): ``n_rounds`` W-steps over all labels, a D-step after each."""
    n_labels = S.shape[1]
    W, Wt, history = np.zeros((len(D), n_labels)), np.zeros((n_labels, n_labels)), []
    for _ in range(n_rounds):
        H = np.array([D @ x for x in X])
        for i in range(n_labels):
            step = label_descent(H, S[:, i], features[i], C[:, i], gamma1, gamma2, n_passes, rng, tol)
            W[:, i], Wt[:, i] = step.weights, step.privileged
        history.append(objective(D, W, Wt, S, features, C, gamma1, gamma2))
        step = dictionary_descent(X, S, W, features, C, gamma2, n_passes, rng, tol)
        D, Wt = step.weights, step.privileged
        history.append(objective(D, W, Wt, S, features, C, gamma1, gamma2))
    return Alternation(D, W, Wt, history)
