# mypy: ignore-errors
"""Newton's method for 1/2 ||u - v||^2 + sum_e radius_e ||u_e||, u_e the two entries of u that edge e joins.

u and the parts p_e, ||p_e|| <= radius_e, at the optimum radius_e u_e / ||u_e||, are found together with ||u_e||
smoothed to sqrt(||u_e||^2 + mu^2), mu to 0 (Andersen, Christiansen, Conn, Overton: An efficient primal-dual
interior-point method for minimizing a sum of Euclidean norms, SIAM J. Sci. Comput. 22, 2000). ``scratch`` is that of
``_loops_prox.py``.
"""

import numpy as np

from ..core.compiled import compiled

_NEWTON_MAX = 60
_ROUNDING = 1e-13


@compiled
def _smoothed(u, v, mu, scratch, n_core, n_edges):
    """1/2 ||u - v||^2 + sum_e radius_e sqrt(||u_e||^2 + mu^2)."""
    value = 0.0
    for c in range(n_core):
        value += 0.5 * (u[c] - v[c]) ** 2
    for e in range(n_edges):
        a, b = u[scratch.ends[0, e]], u[scratch.ends[1, e]]
        value += scratch.radius[e] * np.sqrt(a * a + b * b + mu * mu)
    return value


@compiled
def _edge_system(u, scratch, e):
    """The three entries that edge e adds to the Newton system, made symmetric."""
    a, b, inverse = u[scratch.ends[0, e]], u[scratch.ends[1, e]], scratch.inverse[e]
    p, q, radius = scratch.parts[0, e], scratch.parts[1, e], scratch.radius[e]
    return (
        (radius - p * a * inverse) * inverse,
        (radius - q * b * inverse) * inverse,
        -0.5 * (p * b + q * a) * inverse * inverse,
    )


@compiled
def _conjugate_solve(u, scratch, x, n_core, n_edges):
    """Solve the Newton system for x in place, by conjugate gradients with its diagonal."""
    residual, conjugate, product, diagonal = scratch.work[2], scratch.work[3], scratch.work[4], scratch.work[5]
    ends = scratch.ends
    for c in range(n_core):
        diagonal[c], residual[c], x[c] = 1.0, x[c], 0.0
    for e in range(n_edges):
        first, second, _ = _edge_system(u, scratch, e)
        diagonal[ends[0, e]] += first
        diagonal[ends[1, e]] += second
    rho = 0.0
    for c in range(n_core):
        conjugate[c] = residual[c] / diagonal[c]
        rho += residual[c] * conjugate[c]
    target = 1e-4 * rho  # 1e-8, or factors of the system, take as long
    for _ in range(2 * n_core):
        if rho <= target:
            break
        for c in range(n_core):
            product[c] = conjugate[c]
        for e in range(n_edges):
            i, j = ends[0, e], ends[1, e]
            first, second, mixed = _edge_system(u, scratch, e)
            product[i] += first * conjugate[i] + mixed * conjugate[j]
            product[j] += second * conjugate[j] + mixed * conjugate[i]
        curvature = 0.0
        for c in range(n_core):
            curvature += conjugate[c] * product[c]
        if curvature <= 0.0:
            break
        ratio, before = rho / curvature, rho
        rho = 0.0
        for c in range(n_core):
            x[c] += ratio * conjugate[c]
            residual[c] -= ratio * product[c]
            rho += residual[c] * residual[c] / diagonal[c]
        for c in range(n_core):
            conjugate[c] = residual[c] / diagonal[c] + rho / before * conjugate[c]


@compiled
def norm_sum_newton(u, scratch, n_core, n_edges, accuracy, enough):
    """Newton steps for u and the parts, from the given u, until v - sum_e p_e is u to ``accuracy``.

    They end early once no entry of v - sum_e p_e reaches ``enough``. Invariant: ||p_e|| <= radius_e.
    """
    v, parts, ends, radius, inverse = scratch.v, scratch.parts, scratch.ends, scratch.radius, scratch.inverse
    step, slope, left, trial = scratch.work[0], scratch.work[1], scratch.work[6], scratch.work[2]
    total, largest = 0.0, 0.0
    for e in range(n_edges):
        total += radius[e]
    for c in range(n_core):
        largest = max(largest, v[c])
    mu, least, length = np.inf, 0.1 * accuracy * largest, 1.0
    for _ in range(_NEWTON_MAX):
        # sum_e radius_e ||u_e|| - <p_e, u_e> + 1/2 ||v - sum_e p_e - u||^2
        gap = 0.0
        for c in range(n_core):
            left[c] = v[c]
        for e in range(n_edges):
            i, j = ends[0, e], ends[1, e]
            gap += radius[e] * np.sqrt(u[i] * u[i] + u[j] * u[j]) - parts[0, e] * u[i] - parts[1, e] * u[j]
            left[i] -= parts[0, e]
            left[j] -= parts[1, e]
        apart, most_left = 0.0, 0.0
        for c in range(n_core):
            gap += 0.5 * (left[c] - u[c]) ** 2
            apart = max(apart, abs(left[c] - u[c]))
            most_left = max(most_left, abs(left[c]))
        if (mu == least and apart <= accuracy * largest) or most_left < enough:
            break
        if length > 0.9:  # the last step was a full one: smooth less
            floor = 0.1 * mu if mu < np.inf else 0.0
            mu = max(min(mu, max(floor, 0.1 * gap / total)), least)
        before = 0.0
        for c in range(n_core):
            slope[c] = u[c] - v[c]
            before += 0.5 * slope[c] * slope[c]
        for e in range(n_edges):
            i, j = ends[0, e], ends[1, e]
            smoothed = np.sqrt(u[i] * u[i] + u[j] * u[j] + mu * mu)
            inverse[e] = 1.0 / smoothed
            before += radius[e] * smoothed
            slope[i] += radius[e] * inverse[e] * u[i]
            slope[j] += radius[e] * inverse[e] * u[j]
        descent = 0.0
        for c in range(n_core):
            step[c] = -slope[c]
        _conjugate_solve(u, scratch, step, n_core, n_edges)
        for c in range(n_core):
            descent += step[c] * slope[c]
        for e in range(n_edges):
            i, j = ends[0, e], ends[1, e]
            a, b, da, db = u[i], u[j], step[i], step[j]
            scale, turn = radius[e] * inverse[e], (a * da + b * db) * inverse[e] * inverse[e]
            p = scale * (a + da) - parts[0, e] * turn
            q = scale * (b + db) - parts[1, e] * turn
            square = p * p + q * q
            shrink = radius[e] / np.sqrt(square) if square > radius[e] * radius[e] else 1.0
            parts[0, e], parts[1, e] = shrink * p, shrink * q
        length = 1.0
        for _ in range(30):
            for c in range(n_core):
                trial[c] = u[c] + length * step[c]
            # A descent below the rounding of the objective is accepted unchecked.
            if -descent <= _ROUNDING * before or (
                _smoothed(trial, v, mu, scratch, n_core, n_edges) <= before + 1e-4 * length * descent
            ):
                break
            length *= 0.5
        for c in range(n_core):
            u[c] = max(trial[c], 0.0)
