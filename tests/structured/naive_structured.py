"""Literal, slow, independent versions of the structured SVM's algorithms: plain loops from the papers' equations.

Labelings are in C order (the first label is the most significant bit). Weights are one flat vector: node 0 off, node 0
on, node 1 off, ..., then every clique's states in C order of the labels as its tuple lists them; d weights each, the
constant feature last. ``unflatten`` gives u (K, 2, d) and one (2^|c|, d) array per clique. ``alpha`` is the papers'
lambda.
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq


class Fit(NamedTuple):
    w: np.ndarray
    dual: float
    history: list  # (primal, dual) after every epoch
    alpha_dual: np.ndarray  # (n, 2^K), sum_y alpha_iy = s_i / n, the column of y_i included


class SmoothedFit(NamedTuple):
    objective: float  # of (10), without the smoothing term
    w: np.ndarray
    history: list  # (primal, dual) of the smoothed problem (11) after every epoch
    alpha_dual: np.ndarray  # (n, 2^K) in the scale of (8): sum_y alpha_iy = s_i / n


def labeling(index, n_labels):
    """Labeling number ``index`` in C order."""
    return [(index >> (n_labels - 1 - k)) & 1 for k in range(n_labels)]


def joint_feature(x, y, cliques):
    """Psi(y, x): the feature vector in the block of each node's and each clique's state, zero elsewhere."""
    blocks = []
    for c in [[k] for k in range(len(y))] + [list(c) for c in cliques]:
        state = 0
        for label in c:
            state = 2 * state + int(y[label])
        for s in range(2 ** len(c)):
            blocks.append(x if s == state else np.zeros(len(x)))
    return np.concatenate(blocks)


def unflatten(w, n_labels, cliques):
    """Node weights (K, 2, d) and one (2^|c|, d) array per clique."""
    d = len(w) // (2 * n_labels + sum(2 ** len(c) for c in cliques))
    position = 2 * n_labels * d
    clique_weights = []
    for c in cliques:
        size = 2 ** len(c) * d
        clique_weights.append(w[position : position + size].reshape(-1, d))
        position += size
    return w[: 2 * n_labels * d].reshape(n_labels, 2, d), clique_weights


def losses_and_differences(X, Y, cliques, fit_intercept):
    """Lists Delta[i][y] and Phi[i][y] = Psi(y_i, x_i) - Psi(y, x_i)."""
    n_labels = len(Y[0])
    delta, phi = [], []
    for i in range(len(X)):
        x = np.append(X[i], 1.0) if fit_intercept else np.array(X[i], dtype=float)
        truth = [int(v) for v in Y[i]]
        delta.append([])
        phi.append([])
        for index in range(2**n_labels):
            y = labeling(index, n_labels)
            delta[i].append(sum(a != b for a, b in zip(y, truth, strict=True)))
            phi[i].append(joint_feature(x, truth, cliques) - joint_feature(x, y, cliques))
    return delta, phi


def worst_labeling(w, delta_i, phi_i):
    """Loss-augmented decoding by trying every labeling: (value, index)."""
    best, best_index = -np.inf, -1
    for index in range(len(delta_i)):
        value = delta_i[index] - float(w @ phi_i[index])
        if value > best:
            best, best_index = value, index
    return best, best_index


def start_on_truth(delta, sample_weight):
    """Dual variables with all mass on y_i, hence w = 0, and the mass s_i / n of each row."""
    n = len(delta)
    mass = [1.0 / n if sample_weight is None else sample_weight[i] / n for i in range(n)]
    alpha_dual = np.zeros((n, len(delta[0])))
    for i in range(n):
        alpha_dual[i, delta[i].index(0)] = mass[i]
    return alpha_dual, mass


def naive_bcfw(X, Y, cliques, alpha, n_epochs, seed, fit_intercept=True, sample_weight=None):
    """Block-coordinate Frank-Wolfe of Lacoste-Julien et al. (2013) with its line search; all cliques in one group.

    w_i = 1/lam sum_y a_iy Phi_iy and l_i = sum_y a_iy Delta_iy are kept per row, w and l are their sums, and the
    dual is l - lam/2 ||w||^2. An epoch draws n rows with replacement.
    """
    delta, phi = losses_and_differences(X, Y, cliques, fit_intercept)
    n = len(X)
    alpha_dual, mass = start_on_truth(delta, sample_weight)
    w_rows, l_rows = [np.zeros(len(phi[0][0])) for _ in range(n)], [0.0] * n
    w, total = np.zeros(len(phi[0][0])), 0.0
    rng = np.random.default_rng(seed)
    history = []
    for _ in range(n_epochs):
        for _ in range(n):
            i = int(rng.integers(n))
            _, y = worst_labeling(w, delta[i], phi[i])
            w_new, l_new = mass[i] * phi[i][y] / alpha, mass[i] * delta[i][y]
            slope = alpha * float((w_rows[i] - w_new) @ w) - l_rows[i] + l_new
            curvature = alpha * float((w_rows[i] - w_new) @ (w_rows[i] - w_new))
            step = float(slope > 0) if curvature == 0.0 else min(max(slope / curvature, 0.0), 1.0)
            w = w + step * (w_new - w_rows[i])
            total += step * (l_new - l_rows[i])
            w_rows[i] = (1.0 - step) * w_rows[i] + step * w_new
            l_rows[i] = (1.0 - step) * l_rows[i] + step * l_new
            alpha_dual[i] *= 1.0 - step
            alpha_dual[i, y] += step * mass[i]
        primal = 0.5 * alpha * float(w @ w)
        for i in range(n):
            primal += mass[i] * worst_labeling(w, delta[i], phi[i])[0]
        history.append((primal, total - 0.5 * alpha * float(w @ w)))
    return Fit(w, history[-1][1], history, alpha_dual)


def naive_prox_squared_l21(norms, s):
    """Algorithm 3 of the CGM paper on the norms alone: argmin_o 1/2 ||o - norms||^2 + s/2 (sum_k |o_k|)^2."""
    ordered = sorted((float(v) for v in norms), reverse=True)
    rho, threshold = 0, 0.0
    for k in range(1, len(ordered) + 1):  # line 3: the LARGEST k that passes
        candidate = s / (1.0 + k * s) * sum(ordered[:k])
        if ordered[k - 1] - candidate > 0:
            rho, threshold = k, candidate
    if rho == 0:
        return [0.0 for _ in norms]
    return [float(v) - threshold if v > threshold else 0.0 for v in norms]


def naive_clique_scores(X, Y, alpha_dual, cliques, fit_intercept=True):
    """Scores s_c = ||v_c(alpha)||^2 of section 4.3, v_c = sum_iy alpha_iy Phi^c_iy: no 1 / lambda in it."""
    n_labels = len(Y[0])
    scores = []
    for c in cliques:
        d = len(X[0]) + bool(fit_intercept)
        v = [np.zeros(d) for _ in range(2 ** len(c))]
        for i in range(len(X)):
            x = np.append(X[i], 1.0) if fit_intercept else np.array(X[i], dtype=float)
            for index in range(2**n_labels):
                y = labeling(index, n_labels)
                true_state = int("".join(str(int(Y[i][k])) for k in c), 2)
                state = int("".join(str(y[k]) for k in c), 2)
                v[true_state] = v[true_state] + alpha_dual[i][index] * x
                v[state] = v[state] - alpha_dual[i][index] * x
        scores.append(sum(float(block @ block) for block in v))
    return scores


class SquaredL21:
    """Omega of (12) for a flat w: 1/2 ||u||^2 + sigma/(2 lam) ||omega||^2 + 1/2 (sum_k ||omega_k||)^2."""

    def __init__(self, n_labels, d, cliques, groups, sigma_over_lam):
        self.n_nodes, self.ratio = 2 * n_labels * d, sigma_over_lam
        self.members = {}
        position = self.n_nodes
        for c, g in zip(cliques, groups, strict=True):
            size = 2 ** len(c) * d
            self.members.setdefault(int(g), []).extend(range(position, position + size))
            position += size

    def value(self, w, smoothed=True):
        norms = [float(np.linalg.norm(w[index])) for index in self.members.values()]
        smoothing = self.ratio * sum(v * v for v in norms) if smoothed else 0.0
        return 0.5 * (float(w[: self.n_nodes] @ w[: self.n_nodes]) + smoothing + sum(norms) ** 2)

    def conjugate_gradient(self, z):
        """argmax_w w.z - Omega(w): Algorithm 3, lines 1 to 7."""
        w = np.array(z)
        scaled = {g: z[index] / self.ratio for g, index in self.members.items()}
        norms = [float(np.linalg.norm(v)) for v in scaled.values()]
        for (g, v), before, after in zip(
            scaled.items(), norms, naive_prox_squared_l21(norms, 1.0 / self.ratio), strict=True
        ):
            w[self.members[g]] = v * (after / before) if after > 0 else 0.0
        return w


def naive_spdca(X, Y, cliques, groups, alpha, sigma, n_epochs, seed, fit_intercept=True, sample_weight=None):
    """Algorithm 2 of the CGM paper on the smoothed problem (11), corrected so that it solves it.

    1. It keeps the dual average z = 1/lam sum_iy a_iy Phi_iy and sets w = grad Omega*(z). As printed, grad Omega* is
       applied again and again to w itself, which shrinks what has been shrunk already.
    2. Steps are scaled by the row's mass s_i / n and 1 / lam, with Phi_iy in place of Psi.
    3. The row's dual variables stay in their simplex: a_i moves to (1 - step) a_i + step s_i/n e_y. As printed, nothing
       bounds sum_y a_iy and a coordinate raised in one epoch never falls.
    4. The step is exact, by the sign of the slope of the smoothed dual along the segment, in place of
       1 / (theta ||Psi||^2) and the doubling of theta: the quadratic with modulus 1 that gives this formula is not a
       bound, since Omega is only sigma/lam strongly convex between active groups.
    5. The maximum over y includes y_i.
    """
    delta, phi = losses_and_differences(X, Y, cliques, fit_intercept)
    n, n_labels, d = len(X), len(Y[0]), len(X[0]) + bool(fit_intercept)
    omega = SquaredL21(n_labels, d, cliques, groups, sigma / alpha)
    alpha_dual, mass = start_on_truth(delta, sample_weight)
    z_rows, l_rows = [np.zeros(len(phi[0][0])) for _ in range(n)], [0.0] * n
    z, w, total = np.zeros(len(phi[0][0])), np.zeros(len(phi[0][0])), 0.0
    rng = np.random.default_rng(seed)
    history, loss = [], 0.0
    for _ in range(n_epochs):
        for _ in range(n):
            i = int(rng.integers(n))
            _, y = worst_labeling(w, delta[i], phi[i])
            towards, gain = mass[i] * phi[i][y] / alpha - z_rows[i], mass[i] * delta[i][y] - l_rows[i]

            def slope(step, z=z, towards=towards, gain=gain):  # of the dual; it falls as step grows
                return gain - alpha * float(omega.conjugate_gradient(z + step * towards) @ towards)

            if slope(0.0) <= 0:
                continue
            step = 1.0 if slope(1.0) >= 0 else brentq(slope, 0.0, 1.0, xtol=1e-12)
            z = z + step * towards
            w = omega.conjugate_gradient(z)
            z_rows[i] = z_rows[i] + step * towards
            total += step * gain
            l_rows[i] += step * gain
            alpha_dual[i] *= 1.0 - step
            alpha_dual[i, y] += step * mass[i]
        loss = sum(mass[i] * worst_labeling(w, delta[i], phi[i])[0] for i in range(n))
        conjugate = float(w @ z) - omega.value(w)
        history.append((alpha * omega.value(w) + loss, total - alpha * conjugate))
    return SmoothedFit(alpha * omega.value(w, smoothed=False) + loss, w, history, alpha_dual)
