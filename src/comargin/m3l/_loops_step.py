# mypy: ignore-errors
"""The step along one dual variable, Eqs. (37)-(39), for every loop over single variables, and the loss in the loops.

The variable a lies between 0 and upper, and -D / 2 has the slope g + (U phi*(a / U))' along it and the curvature k +
(U phi*(a / U))'', where g = S_il z_l . x_i - t_il and k = 2 R_ll ||x_i||^2. With a quadratic conjugate these are g +
ridge a and k + ridge, and upper = bound U, ridge = curvature / U and steepness = 1 / ridge are the loss (losses.py).

All arguments are numbers, or the tuple of numbers ``Loss``: arrays would cost reference counts in every call. The
functions from `loss_slope` to `dual_raise` have no branches, so that the compiler vectorises a loop over labels that
calls them.
"""

import math

import numpy as np

from ..core.compiled import compiled, inlined

TINY = 2.3e-308  # in place of a curvature of 0: such a step ends at a bound
LEAST_CURVATURE = 1e-100  # of a loss, in place of 0


@compiled
def loss_terms(cost, loss):
    """upper, steepness and ridge of a variable of cost U."""
    if loss.curvature > 0.0:
        return loss.bound * cost, cost * (1.0 / loss.curvature), loss.curvature / max(cost, TINY)
    return loss.bound * cost, cost * (1.0 / LEAST_CURVATURE), 0.0  # no division that depends on the variable


@compiled
def loss_slope(missing, steepness, upper):
    """U phi'(u), the best dual variable for fixed weights."""
    return min(max(missing, 0.0) * steepness, upper)


@compiled
def dual_slope(a, gradient, ridge):
    """Slope of -D / 2 along the variable: g and the derivative of the conjugate."""
    return gradient + ridge * a


@compiled
def gap_part(a, gradient, steepness, upper, ridge):
    """U phi(-g) + U phi*(a / U) + a g: half of the share of the variable in P - D."""
    best = loss_slope(-gradient, steepness, upper)
    return (a - best) * (gradient + 0.5 * ridge * (a + best))


@compiled
def leaves(a, slope, upper, lowest, highest):
    """Whether the variable leaves the active set: at a bound, with a slope that points outwards far enough."""
    return ((a <= 0.0) & (slope > highest)) | ((a >= upper) & (slope < lowest)) | (upper <= 0.0)


@compiled
def projected_slope(a, slope, upper):
    """The slope, 0 where it points out of the box: Eq. (31), for a minimum."""
    inward = min(slope, 0.0) if a <= 0.0 else slope
    return max(inward, 0.0) if a >= upper else inward


@compiled
def stepped(a, slope, rate, upper):
    """The variable after its step; rate is the relaxation over the curvature."""
    return min(max(a - slope * rate, 0.0), upper)  # Eqs. (37)-(39)


@compiled
def dual_raise(change, slope, curvature):
    """Half of the raise of D."""
    return -change * (slope + 0.5 * curvature * change)


@compiled
def logistic_step(a, gradient, cost, curvature):
    r"""A step along one variable of the logistic loss; returns what `coordinate` does, with (a - U p) / U as its slope.

    With p = phi'(-g) the variable U p is the best one for fixed weights. For s <= 2 / (1 + k U / 4) a step from a to
    a + s (U p - a) never lowers D, since U phi* has at least the curvature 4 / U; s = 1 / (1 + k U p (1 - p)) is
    Newton's step from U p. Both keep a within its bounds without a logarithm. The gap and the raise are estimates, of
    second order: with s = a / U the gap is U (p - s)^2 over p (1 - p) + s (1 - s).
    """
    e = math.exp(-abs(gradient))
    larger = 1.0 / (1.0 + e)
    p = e * larger if gradient > 0.0 else larger
    variance = e * larger * larger  # p (1 - p)
    ahead = cost * p - a
    share = min(1.0 / (1.0 + curvature * cost * variance), 1.9 / (1.0 + 0.25 * curvature * cost))
    spread = 0.5 * (cost * variance + a * (1.0 - a / max(cost, TINY)))  # 1 / (U phi*)''
    gap = 0.5 * ahead * ahead / max(spread, TINY)
    change = share * ahead
    raised = 0.5 * change * ((2.0 * ahead - change) / max(spread, TINY) - curvature * change)
    return a + change, -ahead / max(cost, TINY), gap, raised


@compiled
def loss_value(missing, cost, loss):
    """U phi(u)."""
    if loss.is_logistic:
        return cost * (max(missing, 0.0) + math.log1p(math.exp(-abs(missing))))
    upper, steepness, ridge = loss_terms(cost, loss)
    best = loss_slope(missing, steepness, upper)
    return best * (missing - 0.5 * ridge * best)


@compiled
def loss_conjugate(a, cost, loss):
    """U phi*(a / U)."""
    if loss.is_logistic:
        if a <= 0.0 or a >= cost:
            return 0.0
        s = a / cost
        return a * math.log(s) + (cost - a) * math.log1p(-s)
    return 0.5 * (loss.curvature / max(cost, TINY)) * a * a


@inlined
def coordinate(a, gradient, cost, curvature, relaxation, lowest, highest, loss):
    """One visit to one variable.

    Returns its new value, its projected slope (NaN when it leaves the active set), half of its share in P - D, and half
    of the raise of D.
    """
    if loss.is_logistic:
        return logistic_step(a, gradient, cost, curvature)
    upper, steepness, ridge = loss_terms(cost, loss)
    gap = gap_part(a, gradient, steepness, upper, ridge)
    slope = dual_slope(a, gradient, ridge)
    if leaves(a, slope, upper, lowest, highest):
        return a, np.nan, gap, 0.0
    projected = projected_slope(a, slope, upper)
    if projected == 0.0:
        return a, 0.0, gap, 0.0
    total = curvature + ridge
    new = stepped(a, slope, relaxation / max(total, TINY), upper)
    return new, projected, gap, dual_raise(new - a, slope, total)
