"""Literal, slow, independent versions of our algorithms: plain Python loops straight from the equations."""

import numpy as np
from scipy.special import logit

# ---- the problem


def primal(problem, V):
    """P at Z = 2 V R of a linear problem, for any V (n_features, n_labels)."""
    Z = 2.0 * problem.apply_prior(V)
    missing = problem.target() - problem.S * (problem.X @ Z)
    return float(np.sum(V * Z) + 2.0 * np.sum(problem.cost() * problem.loss.value(missing)))


def dual_average(problem, A):
    """V = X^T (S o A)."""
    return np.asarray(problem.X.T @ (problem.S * A))


def sums(problem, A):
    """Both objectives of a linear problem at A and its weights."""
    return problem.sums(A, np.asarray(problem.X @ problem.weights(A)))


def dual(problem, A):
    """D of a linear problem."""
    return sums(problem, A).dual


def kkt_residual(problem, A, F=None):
    """Projected gradient of -D / 2, Eqs. (29) and (31), one entry per A_il: all zero exactly at the optimum.

    F are the scores of the training rows; those of a linear problem are computed here.
    """
    F = problem.X @ problem.weights(A) if F is None else F
    cost = problem.cost()
    s = np.divide(A, cost, out=np.full(A.shape, 0.5), where=cost > 0.0)
    pull = logit(s) if problem.loss.is_logistic else problem.loss.ridge(cost) * A  # derivative of U phi*(A / U)
    G = problem.S * F - problem.target() + pull
    G = np.where(A <= 0.0, np.minimum(G, 0.0), G)
    return np.where(A >= problem.upper(), np.maximum(G, 0.0), G)


# ---- passes

_MASK = (1 << 64) - 1


class Xoshiro:
    """xoshiro256++ on Python integers."""

    def __init__(self, words):
        self.s = [int(w) for w in words]

    def next(self):
        s = self.s
        total = (s[0] + s[3]) & _MASK
        result = ((((total << 23) & _MASK) | (total >> 41)) + s[0]) & _MASK
        t = (s[1] << 17) & _MASK
        s[2] ^= s[0]
        s[3] ^= s[1]
        s[1] ^= s[2]
        s[0] ^= s[3]
        s[2] ^= t
        s[3] = ((s[3] << 45) & _MASK) | (s[3] >> 19)
        return result

    def below(self, n):
        while True:
            product = (self.next() >> 32) * n
            if (product & 0xFFFFFFFF) >= (2**32 - n) % n:
                return product >> 32

    def shuffle(self, values):
        for i in range(len(values) - 1, 0, -1):
            j = self.below(i + 1)
            values[i], values[j] = values[j], values[i]


def m3l_epochs(X, S, U, R, T, n_epochs, words, shuffle_labels, relaxation):
    """Dual coordinate descent on M3L, all variables, rows and labels in the order the kernel would take them.

    Steps towards the minimum over one A_il at a time, others fixed, ``relaxation`` times as far as it lies: no
    shrinking, no shared products.
    """
    n, d = X.shape
    n_labels = S.shape[1]
    A = np.zeros((n, n_labels))
    rng = Xoshiro(words)
    rows = list(range(n))
    labels = [list(range(n_labels)) for _ in range(n)]
    for _ in range(n_epochs):
        rng.shuffle(rows)
        for i in rows:
            for k in range(n_labels):
                if shuffle_labels:
                    chosen = k + rng.below(n_labels - k)
                    labels[i][k], labels[i][chosen] = labels[i][chosen], labels[i][k]
                label = labels[i][k]
                z = np.zeros(d)
                for j in range(n):
                    for m in range(n_labels):
                        z += 2.0 * R[m, label] * S[j, m] * A[j, m] * X[j]
                t = T[i, label] if T.size else 1.0
                gradient = S[i, label] * float(z @ X[i]) - t
                q = float(X[i] @ X[i]) * R[label, label]
                if q == 0.0:
                    A[i, label] = U[i, label]
                else:
                    A[i, label] = min(max(A[i, label] - relaxation * gradient / (2.0 * q), 0.0), U[i, label])
    return A


class LabelRows:
    """Rows of one label: visited and kept in this pass, still to come, and those that left the active set."""

    def __init__(self, n):
        self.kept, self.to_come, self.left = [], list(range(n)), []

    def new_pass(self):
        self.to_come, self.kept = self.kept + self.to_come, []

    def activate_all(self):
        self.to_come, self.left = self.kept + self.to_come + self.left, []
        self.kept = []


def m3l_gradient(A, X, S, R, T, i, label):
    """G_il = S_il z_l . x_i - t_il with z_l summed from all dual variables."""
    score = 0.0
    for j in range(len(X)):
        for m in range(len(R)):
            score += 2.0 * R[m][label] * S[j, m] * A[j, m] * float(X[j] @ X[i])
    return S[i, label] * score - (T[i, label] if T.size else 1.0)


def m3l_label_pass(A, rows, bounds, X, S, U, R, T, run_length, rng):
    """One pass of section 6 of the M3L paper: runs of variables along random labels, those that look settled leave.

    Changes A and rows. Returns [smallest, largest] projected gradient of every label (inf, -inf if not visited), and
    the sum of the gap's parts.
    """
    n_labels = len(R)
    found = [[np.inf, -np.inf] for _ in range(n_labels)]
    gap = 0.0
    order = []
    for label in range(n_labels):
        rows[label].new_pass()
        order += [label] * -(-len(rows[label].to_come) // run_length)
    rng.shuffle(order)
    for label in order:
        here = rows[label]
        for _ in range(min(run_length, len(here.to_come))):
            p = rng.below(len(here.to_come))
            i = here.to_come[p]
            G, a, u = m3l_gradient(A, X, S, R, T, i, label), A[i, label], U[i, label]
            gap += 2.0 * (a * G if G >= 0 else (a - u) * G)
            if (a <= 0 and (G > bounds[label][1] or u <= 0)) or (a >= u > 0 and G < bounds[label][0]):
                here.to_come[p] = here.to_come[-1]
                here.to_come.pop()
                here.left.insert(0, i)
                continue
            here.to_come[p] = here.to_come[0]
            here.to_come.pop(0)
            here.kept.append(i)
            projected = min(G, 0.0) if a <= 0 else max(G, 0.0) if a >= u else G
            found[label] = [min(found[label][0], projected), max(found[label][1], projected)]
            q = 2.0 * float(X[i] @ X[i]) * R[label][label]
            if projected != 0.0:
                A[i, label] = min(max(a - G / q, 0.0), u) if q > 0 else (u if G < 0 else 0.0)
    return found, gap


def m3l_extremal_gradients(found, R):
    """Eqs. (44) and (45) of the M3L paper with |R_kl| / R_kk in place of |R_kl|."""
    bounds = []
    for label in range(len(R)):
        lowest, highest = found[label]
        for k in range(len(R)):
            if k != label and R[k][k] > 0 and R[k][label] != 0:
                share = abs(R[k][label]) / R[k][k]
                lowest, highest = min(lowest, share * found[k][0]), max(highest, share * found[k][1])
        bounds.append([lowest if lowest < 0 else -np.inf, highest if highest > 0 else np.inf])
    return bounds


def m3l_dcd(X, S, U, R, T, words, switch_at, tau_factor):
    """The scheme of section 6 of the M3L paper; yields A, active rows and extrema after each pass."""
    n, n_labels = S.shape
    A, rng = np.zeros((n, n_labels)), Xoshiro(words)
    rows = [LabelRows(n) for _ in range(n_labels)]
    free = [[-np.inf, np.inf]] * n_labels
    bounds, tau = free, 0.0
    run_length = n_labels if np.count_nonzero(R) == np.count_nonzero(np.diag(R)) else 1
    margin = T.max() if T.size else 1.0
    while True:
        everything = not any(r.left for r in rows)
        found, _ = m3l_label_pass(A, rows, bounds, X, S, U, R, T, run_length, rng)
        bounds = m3l_extremal_gradients(found, R)
        largest = max(max(-low, high, 0.0) for low, high in found)
        if largest <= switch_at * margin:
            run_length = n_labels
        if everything:
            tau = tau_factor * largest
        elif largest <= tau:
            bounds = free
            for r in rows:
                r.activate_all()
        yield A, [r.kept + r.to_come for r in rows], found
