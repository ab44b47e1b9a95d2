# mypy: ignore-errors
"""The sigmoid of one label: Newton's method in its slope a and offset b, with a Gaussian prior around those of others.

min_{a, b}  sum_i w_i [log(1 + e^eta_i) - y_i eta_i] + kappa_a/2 (a - a_0)^2 + kappa_b/2 (b - b_0)^2,
eta_i = a t_i + b
"""

import math

import numpy as np

from ..core.compiled import compiled

_STEPS = 50
_ENOUGH = 1e-9  # fall of the objective, relative to the sum of weights, at which the steps end
_SHORTEST = 1e-6  # step that is tried before rounding ends the search
_MOST_PRODUCT = 1e250


@compiled
def _measured(t, on, weight, a, b, prior, sums):
    """Objective at (a, b); ``sums`` takes its gradient and second derivatives: a, b, aa, ab, bb."""
    a_0, b_0, kappa_a, kappa_b = prior
    value = 0.5 * (kappa_a * (a - a_0) ** 2 + kappa_b * (b - b_0) ** 2)
    g_a, g_b = kappa_a * (a - a_0), kappa_b * (b - b_0)
    h_aa, h_ab, h_bb = kappa_a, 0.0, kappa_b
    for i in range(t.shape[0]):
        eta, w = a * t[i] + b, weight[i]
        e = math.exp(-abs(eta))
        p = 1.0 / (1.0 + e) if eta >= 0.0 else e / (1.0 + e)
        value += w * (math.log1p(e) + max(eta, 0.0) - on[i] * eta)
        residual, curvature = w * (p - on[i]), w * p * (1.0 - p)
        g_a += residual * t[i]
        g_b += residual
        h_ab += curvature * t[i]
        h_aa += curvature * t[i] * t[i]
        h_bb += curvature
    sums[0], sums[1], sums[2], sums[3], sums[4] = g_a, g_b, h_aa, h_ab, h_bb
    return value


@compiled
def fit_sigmoid(t, on, weight, a_0, b_0, kappa_a, kappa_b):
    """Slope and offset at the minimum; steps that do not lower the objective are halved."""
    prior, sums, new_sums = (a_0, b_0, kappa_a, kappa_b), np.empty(5), np.empty(5)
    a, b, enough = a_0, b_0, _ENOUGH * weight.sum()
    value = _measured(t, on, weight, a, b, prior, sums)
    for _ in range(_STEPS):
        g_a, g_b, h_aa, h_ab, h_bb = sums
        determinant = h_aa * h_bb - h_ab * h_ab
        step_a, step_b = (h_bb * g_a - h_ab * g_b) / determinant, (h_aa * g_b - h_ab * g_a) / determinant
        length = 1.0
        new = _measured(t, on, weight, a - step_a, b - step_b, prior, new_sums)
        while new > value and length > _SHORTEST:
            length *= 0.5
            new = _measured(t, on, weight, a - length * step_a, b - length * step_b, prior, new_sums)
        if new > value:
            break
        a, b = a - length * step_a, b - length * step_b
        fall, value = value - new, new
        sums[:] = new_sums
        if fall <= enough:
            break
    return a, b
