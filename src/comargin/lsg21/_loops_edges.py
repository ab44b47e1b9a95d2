# mypy: ignore-errors
"""Passes over features and derivatives for the penalty on the edges of a label graph (LSG21)."""

import numpy as np

from ..core.compiled import compiled
from ._loops_prox import least_left_over, left_over, shrink_row

# Excess from which on a certificate computes better parts than those that follow from the weights of the feature.
_REFINE_ABOVE = 1e-9


@compiled
def edge_descent(gram, slope, W, alpha, edges, features, scratch, accuracy):
    """One pass of exact steps for the rows of W, one after the other; returns how much the objective fell.

    The step of row f minimises ||X_f||^2 ||w||^2 + 2 <slope_f - ||X_f||^2 w_old, w> + alpha Omega(w). ``gram`` is
    X^T X, ``slope`` X^T (X W - Y), changed like W (d, L); ``features`` int32 are the rows to visit, ``accuracy`` is
    that of ``shrink_row``.
    """
    n_features, n_labels = W.shape
    h, delta, changed = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels, dtype=np.int32)
    fell = 0.0
    for f in features:
        curvature = 2.0 * gram[f, f]
        if curvature <= 0.0:
            continue
        at_rest = True
        for i in range(n_labels):
            h[i] = curvature * W[f, i] - 2.0 * slope[f, i]
            at_rest = at_rest and W[f, i] == 0.0 and abs(h[i]) <= alpha * edges.own[i]
        if at_rest:
            continue
        shrink_row(h, W[f], curvature, alpha, edges, scratch, accuracy)
        n_changed, gain = 0, 0.0
        for i in range(n_labels):
            new = np.copysign(scratch.left[i], h[i]) / curvature
            delta[i] = new - W[f, i]
            if delta[i] != 0.0:
                changed[n_changed] = i
                n_changed += 1
                gain -= delta[i] * (2.0 * slope[f, i] + 0.5 * curvature * delta[i])
        if n_changed == 0:
            continue
        before = row_penalty(W[f], edges)
        for k in range(n_changed):
            W[f, changed[k]] += delta[changed[k]]
        fell += gain + alpha * (before - row_penalty(W[f], edges))
        products = gram[f]  # symmetric: a row is contiguous, a column is not
        if 2 * n_changed >= n_labels:
            for g in range(n_features):
                product = products[g]
                for i in range(n_labels):
                    slope[g, i] += product * delta[i]
        else:
            for g in range(n_features):
                product = products[g]
                for k in range(n_changed):
                    slope[g, changed[k]] += product * delta[changed[k]]
    return fell


@compiled
def row_penalty(w, edges):
    """Omega(w)."""
    value = 0.0
    for i in range(w.size):
        value += edges.own[i] * abs(w[i])
    for e in range(edges.weight.size):
        a, b = w[edges.first[e]], w[edges.second[e]]
        if a != 0.0 or b != 0.0:
            value += edges.weight[e] * np.sqrt(a * a + b * b)
    return value


@compiled
def edge_penalty(W, edges):
    """sum_f Omega(w^f)."""
    value = 0.0
    for f in range(W.shape[0]):
        value += row_penalty(W[f], edges)
    return value


@compiled
def edge_excess(H, W, alpha, edges, total, scratch, accuracy):
    """Bounds (d,) of (Omega-circle(H_f) - alpha) / alpha for every feature.

    H are the slopes -2 X^T R, ``total`` is T, the weight at every label. Only the largest bound matters: it is made as
    tight as the others allow.
    """
    n_labels = H.shape[1]
    excess = np.zeros(H.shape[0])
    for f in range(H.shape[0]):
        at_rest = True
        for i in range(n_labels):
            at_rest = at_rest and abs(H[f, i]) <= alpha * edges.own[i]
        if at_rest:
            continue
        left_over(H[f], W[f], alpha, edges, scratch, accuracy)
        excess[f] = _handed_out(edges, total, scratch.left) / alpha
    # Better parts than those of W, whose small weights may point anywhere. Once one excess is as small as possible,
    # others need not be smaller.
    done = np.zeros(H.shape[0], dtype=np.bool_)
    least, known = np.min(total), 0.0
    while H.shape[0] > 0:
        f = np.argmax(excess)
        longest = np.max(np.abs(W[f]))
        if excess[f] <= _REFINE_ABOVE or done[f] or longest == 0.0:
            break
        done[f] = True
        scale, enough = excess[f] * alpha * least / longest, known * alpha * least / np.sqrt(2.0)
        if not np.isfinite(scale):  # weights next to nothing
            scale = 0.0
        least_left_over(H[f], W[f], scale, alpha, edges, scratch, accuracy, enough)
        excess[f] = min(excess[f], _handed_out(edges, total, scratch.left) / alpha)
        known = max(known, excess[f])
    return excess


@compiled
def _handed_out(edges, total, left):
    """Largest growth of a part, relative to its weight, when labels distribute ``left`` over their edges."""
    worst = 0.0
    for i in range(left.size):
        if np.isnan(left[i]):
            return np.inf
        if edges.own[i] > 0.0 or edges.begin[i] == edges.begin[i + 1]:
            worst = max(worst, abs(left[i]) / total[i])
    for e in range(edges.weight.size):
        a = left[edges.first[e]] / total[edges.first[e]]
        b = left[edges.second[e]] / total[edges.second[e]]
        worst = max(worst, np.sqrt(a * a + b * b))
    return worst


@compiled
def edge_slope(W, edges, out):
    """Write the gradient of sum_f Omega(w^f) where it has one: entries with W = 0 get 0."""
    for f in range(W.shape[0]):
        for i in range(W.shape[1]):
            out[f, i] = np.copysign(edges.own[i], W[f, i]) if W[f, i] != 0.0 else 0.0
        for e in range(edges.weight.size):
            i, j = edges.first[e], edges.second[e]
            a, b = W[f, i], W[f, j]
            length = np.sqrt(a * a + b * b)
            if length > 0.0:
                scale = edges.weight[e] / length
                out[f, i] += scale * a
                out[f, j] += scale * b


@compiled
def edge_weights(W, alpha, edges, out):
    """Write m for which sum_if m_if v_if^2 / 2 + const. >= alpha sum_f Omega(v_f), equal at v = W; 0 where W is 0.

    sqrt(s) lies below its tangent in s: ||v_e|| <= ||w_e|| / 2 + ||v_e||^2 / (2 ||w_e||), Eq. (6). Also 0 for weights
    so near zero that m overflows. W and ``out`` are (L, d): loops over the contiguous features are vectorised.
    """
    n_features = W.shape[1]
    for i in range(W.shape[0]):
        own = alpha * edges.own[i]
        for f in range(n_features):
            out[i, f] = own / abs(W[i, f]) if W[i, f] != 0.0 else 0.0
    for e in range(edges.weight.size):
        weight, first, second = alpha * edges.weight[e], edges.first[e], edges.second[e]
        for f in range(n_features):
            a, b = W[first, f], W[second, f]
            square = a * a + b * b
            scale = weight / np.sqrt(square) if square > 0.0 else 0.0
            out[first, f] += scale
            out[second, f] += scale
    for i in range(W.shape[0]):
        for f in range(n_features):
            if W[i, f] == 0.0 or not np.isfinite(out[i, f]):
                out[i, f] = 0.0


@compiled
def conjugate_directions(weights, root, W, slope, residual, conjugate, rho, scaled, steepest):
    """Write the next directions of ``conjugate_steps``; steepest descent if ``residual`` and ``rho`` are zero."""
    for i in range(W.shape[0]):
        for f in range(W.shape[1]):
            m = weights[i, f]
            z = -(2.0 * slope[i, f] + m * W[i, f]) / (2.0 * root[f] * root[f] + m) if m > 0.0 else 0.0
            steepest[i, f] = z
        before, across = rho[i], np.dot(steepest[i], residual[i])
        for f in range(W.shape[1]):
            residual[i, f] = (2.0 * root[f] * root[f] + weights[i, f]) * steepest[i, f]
        rho[i] = np.dot(steepest[i], residual[i])
        turn = max(min(rho[i] - across, rho[i]) / before, 0.0) if before > 0.0 else 0.0
        for f in range(W.shape[1]):
            c = steepest[i, f] + turn * conjugate[i, f] if weights[i, f] > 0.0 else 0.0
            conjugate[i, f], scaled[i, f] = c, root[f] * c


@compiled
def conjugate_steps(
    system, weights, root, alpha, edges, held, count, W, slope, residual, conjugate, rho, scaled, steepest
):
    """Steps of conjugate gradients for the labels, each by itself: ||X w - y||^2 + sum_f m_f w_f^2 / 2.

    Preconditioned by the diagonal; weights with m = 0 do not move. From the end of step ``held`` on, m is recomputed at
    the new W after every step, with directions of Polak and Ribiere, with at most the turn of Fletcher and Reeves
    (Gilbert and Nocedal, SIAM J. Optim. 2, 1992); all of these agree if m stays. Returns how much the quadratic
    objectives fell.

    Parameters
    ----------
    system : ndarray (d, d), X^T X between features of length 1
    weights : ndarray (L, d), m, changed from the end of step ``held`` on
    root : ndarray (d,), the lengths of the features
    alpha : float
    edges : Edges
    held : int, the first step (from 1) that recomputes m
    count : int, number of steps
    W, slope, residual, conjugate : ndarray (L, d), changed; slope is X^T (X W - Y)
    rho : ndarray (L,), squared residuals in the norm of the preconditioner, changed
    scaled : ndarray (L, d), ``conjugate`` times ``root`` in the type of ``system``, written
    steepest : ndarray (L, d), the preconditioned residual, written
    """
    n_labels, n_features = W.shape
    fell, curved, product = 0.0, np.empty(n_features), np.empty_like(scaled)
    for step in range(count):
        np.dot(scaled, system, product)
        for i in range(n_labels):
            for f in range(n_features):
                curved[f] = 2.0 * root[f] * product[i, f] + weights[i, f] * conjugate[i, f]
            inner, curvature = np.dot(conjugate[i], residual[i]), np.dot(conjugate[i], curved)
            length = inner / curvature if curvature > 0.0 else 0.0
            fell += 0.5 * length * inner
            for f in range(n_features):
                W[i, f] += length * conjugate[i, f]
                slope[i, f] += length * root[f] * product[i, f]
        if step + 1 >= held:
            edge_weights(W, alpha, edges, weights)
        conjugate_directions(weights, root, W, slope, residual, conjugate, rho, scaled, steepest)
    return fell


@compiled
def edge_curvature(W, V, edges, out):
    """Write the second derivative of sum_f Omega(w^f) in the direction V, for V = 0 wherever W = 0."""
    for f in range(W.shape[0]):
        for i in range(W.shape[1]):
            out[f, i] = 0.0
        for e in range(edges.weight.size):
            i, j = edges.first[e], edges.second[e]
            a, b = W[f, i], W[f, j]
            square = a * a + b * b
            cube = square * np.sqrt(square)
            if a != 0.0 and b != 0.0 and cube > 0.0:
                # The part of V across w_e, over its length.
                across = (b * V[f, i] - a * V[f, j]) * edges.weight[e] / cube
                out[f, i] += b * across
                out[f, j] -= a * across


@compiled
def edge_curvature_diagonal(W, edges, out):
    """Write the diagonal of ``edge_curvature``."""
    for f in range(W.shape[0]):
        for i in range(W.shape[1]):
            out[f, i] = 0.0
        for e in range(edges.weight.size):
            i, j = edges.first[e], edges.second[e]
            a, b = W[f, i], W[f, j]
            square = a * a + b * b
            cube = square * np.sqrt(square)
            if a != 0.0 and b != 0.0 and cube > 0.0:
                scale = edges.weight[e] / cube
                out[f, i] += b * b * scale
                out[f, j] += a * a * scale
