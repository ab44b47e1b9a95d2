# mypy: ignore-errors
"""Second-order pair steps for M3L with a kernel matrix K, label by label over rows of K that all labels share.

In the signed dual variables beta_li = S_il A_il, which lie between 0 and edge_li = S_il U_il, one minimises

    -D / 2 = sum_lk R_lk beta_l^T K beta_k - sum_li S_il t_il beta_li   with the gradient
    h_l = 2 sum_k R_lk K beta_k - s_l t_l .

A step along label l takes the variable p of the largest projected gradient, the q that promises most together with it
(Eq. 30 of Hariharan et al., 2012), and solves for both (their Algorithm 2). It changes h_l by two rows of K; the
gradients of the other labels wait until the visit to label l ends: h_k += R_kl / R_ll times the change of h_l, their
Eq. (35). With h at hand the duality gap is a sum over single variables,

    P - D = 2 sum_li max(beta_li h_li, (beta_li - edge_li) h_li)      (hinge; other losses add a ridge to the Hessian)

Selection works on float32 arrays, in loops that the compiler turns into vector instructions; h and the steps are
float64.
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled
from ..core.rows import row_axpy
from ._loops_step import LEAST_CURVATURE, TINY, gap_part

LANES = 256  # of the search for a maximum; searched arrays are padded to a multiple of it
_PARALLEL = np.float32(1e-6)  # smallest 1 - cos^2 of two rows that are solved together
_STEPS_PER_CHECK = 64  # steps between two checks of the gap of a label
_ZERO, _ONE, _TWO = np.float32(0.0), np.float32(1.0), np.float32(2.0)


class SignedDual(NamedTuple):
    """State of the labels of one component of R.

    beta, edge, h (m, n): variables, their non-zero bound, gradient.  side float32 (m, n): which way a variable can go:
    1 down only, -1 up only, 0 both, NaN not at all.  allowed (m,): gap that a label may keep.  missed uint8 (m,): set
    when a label stopped because the row of K it needs is not in memory.  steps int64 (1,): pair steps done.
    ridge (m, n), or (0, 0) if it is 0: second derivative of the loss's part of the dual, contained in h.
    """

    beta: np.ndarray
    edge: np.ndarray
    h: np.ndarray
    side: np.ndarray
    allowed: np.ndarray
    missed: np.ndarray
    steps: np.ndarray
    ridge: np.ndarray = np.empty((0, 0))


@compiled
def side_of(beta, edge):
    """Which way a variable between 0 and ``edge`` can go, as in ``SignedDual.side``."""
    low, high = min(edge, 0.0), max(edge, 0.0)
    if beta <= low:
        return np.float32(np.nan) if beta >= high else np.float32(-1.0)
    return _ONE if beta >= high else _ZERO


@compiled
def pair_minimum(q11, q12, q22, g1, g2, low1, high1, low2, high2):
    """Minimum of 1/2 x^T Q x + g^T x over a box, Q positive definite: Algorithm 2 of Hariharan et al. (2012)."""
    det = q11 * q22 - q12 * q12
    x1, x2 = (q12 * g2 - q22 * g1) / det, (q12 * g1 - q11 * g2) / det
    inside1, inside2 = low1 <= x1 <= high1, low2 <= x2 <= high2
    if inside1 and inside2:
        return x1, x2
    clipped1, clipped2 = min(max(x1, low1), high1), min(max(x2, low2), high2)
    with1 = min(max(-(g2 + q12 * clipped1) / q22, low2), high2)
    with2 = min(max(-(g1 + q12 * clipped2) / q11, low1), high1)
    if inside1:
        return with2, clipped2
    if inside2:
        return clipped1, with1
    value1 = 0.5 * (q11 * clipped1**2 + q22 * with1**2) + q12 * clipped1 * with1 + g1 * clipped1 + g2 * with1
    value2 = 0.5 * (q11 * with2**2 + q22 * clipped2**2) + q12 * with2 * clipped2 + g1 * with2 + g2 * clipped2
    if value1 < value2:
        return clipped1, with1
    return with2, clipped2


@compiled
def _moved(old, change, low, high):
    """The sum, exactly at a bound when the change leads there: old + (high - old) may miss high by rounding."""
    if change <= low - old:
        return low
    if change >= high - old:
        return high
    return min(max(old + change, low), high)


@compiled
def _project(h, side, projected):
    for j in range(h.shape[0]):
        x = np.float32(h[j])
        projected[j] = x if x * side[j] >= _ZERO else _ZERO


@compiled
def _add_pair(h, side, projected, row_p, row_q, step_p, step_q):
    """Add two rows of K to h, Eq. (33), and project it, in one loop: h is in the cache just then."""
    for j in range(h.shape[0]):
        h[j] += step_p * row_p[j] + step_q * row_q[j]
        x = np.float32(h[j])
        projected[j] = x if x * side[j] >= _ZERO else _ZERO


@compiled
def _gains(row, projected, side, inverse_norm, cached, p, out):
    """4 R_ll times (30), the gain of the pair (p, j) without bounds; 0 for j that cannot move or is not in memory.

    A j inside its bounds always counts: its gradient is 0 up to rounding only, and a row nearly parallel to p is the
    best partner then. With u = h / sqrt(K_jj) and rho the cosine of the pair, the gain is
    (u_p^2 + u_j^2 - 2 rho u_p u_j) / (1 - rho^2).
    """
    norm_p = inverse_norm[p]
    u_p = projected[p] * norm_p
    square = u_p * u_p
    for j in range(row.shape[0]):
        norm = inverse_norm[j]
        u = projected[j] * norm
        rho = np.float32(row[j]) * norm_p * norm
        rest = _ONE - rho * rho
        gain = square + u * (u - _TWO * rho * u_p)
        gain = gain * cached[j] if u != _ZERO or side[j] == _ZERO else _ZERO
        gain = gain if rest > _PARALLEL else _ZERO
        out[j] = gain / max(rest, _PARALLEL)  # the maximum is a constant away from 0: no check for it in the loop


@compiled
def argmax_abs(values, lanes):
    """Index of the largest |value|, the first in its lane, or -1 if all are 0; the length is a multiple of LANES."""
    for k in range(LANES):
        lanes[k] = abs(values[k])
    for begin in range(LANES, values.shape[0], LANES):
        part = values[begin : begin + LANES]
        for k in range(LANES):
            lanes[k] = max(lanes[k], abs(part[k]))
    best, lane = lanes[0], 0
    for k in range(1, LANES):
        if lanes[k] > best:
            best, lane = lanes[k], k
    if best == _ZERO:
        return -1
    for j in range(lane, values.shape[0], LANES):
        if abs(values[j]) == best:
            return j
    return -1


@compiled
def _label_gap(beta, edge, h, ridge):
    gap = 0.0
    if ridge.shape[0] == 0:
        for j in range(h.shape[0]):
            gap += max(beta[j] * h[j], (beta[j] - edge[j]) * h[j])
    else:
        for j in range(h.shape[0]):
            a, gradient = abs(beta[j]), h[j] if edge[j] > 0.0 else -h[j]
            steepness = 1.0 / max(ridge[j], LEAST_CURVATURE)
            gap += gap_part(a, gradient - ridge[j] * a, steepness, abs(edge[j]), ridge[j])
    return 2.0 * gap


@compiled
def _visit(gram, clock, r, beta, edge, h, side, ridge, allowed, max_steps, reduction, projected, gains, lanes):
    """Pair steps along one label; returns how many, and whether a row was missing.

    Ends after ``max_steps``, when the largest projected gradient has fallen to the fraction ``reduction``, or when the
    gap of the label is at most ``allowed``.
    """
    rows, slot, cached, diagonal, inverse_norm, stamp = gram
    n_steps = 0
    enough = np.float32(-1.0)
    _project(h, side, projected)
    while n_steps < max_steps:
        if n_steps % _STEPS_PER_CHECK == 0 and _label_gap(beta, edge, h, ridge) <= allowed:
            break
        p = argmax_abs(projected, lanes)
        if p < 0:
            break
        violation = abs(projected[p])
        if enough < _ZERO:
            enough = np.float32(reduction) * violation
        if violation <= enough:
            break
        if slot[p] < 0:
            # A variable nearly as good whose row is in memory is better than waiting for a row.
            for j in range(h.shape[0]):
                gains[j] = projected[j] * cached[j]
            p = argmax_abs(gains, lanes)
            if p < 0 or abs(projected[p]) < np.float32(0.5) * violation:
                return n_steps, True
        row_p = rows[slot[p]]
        stamp[p] = clock
        _gains(row_p, projected, side, inverse_norm, cached, p, gains)
        gains[p] = _ZERO
        q = argmax_abs(gains, lanes)
        low_p, high_p = min(edge[p], 0.0), max(edge[p], 0.0)
        old_p = beta[p]
        ridge_p = ridge[p] if ridge.shape[0] > 0 else 0.0
        if q < 0:
            rate = 1.0 / max(2.0 * r * diagonal[p] + ridge_p, TINY)
            beta[p] = _moved(old_p, -h[p] * rate, low_p, high_p)  # Eqs. (37)-(39)
            row_q, step_q = row_p, 0.0
        else:
            row_q = rows[slot[q]]
            stamp[q] = clock
            low_q, high_q = min(edge[q], 0.0), max(edge[q], 0.0)
            old_q = beta[q]
            ridge_q = ridge[q] if ridge.shape[0] > 0 else 0.0
            change_p, change_q = pair_minimum(  # Eqs. (26)-(28)
                2.0 * r * diagonal[p] + ridge_p, 2.0 * r * row_p[q], 2.0 * r * diagonal[q] + ridge_q, h[p], h[q],
                low_p - old_p, high_p - old_p, low_q - old_q, high_q - old_q,
            )  # fmt: skip
            beta[p] = _moved(old_p, change_p, low_p, high_p)
            beta[q] = _moved(old_q, change_q, low_q, high_q)
            side[q] = side_of(beta[q], edge[q])
            step_q = 2.0 * r * (beta[q] - old_q)
            h[q] += ridge_q * (beta[q] - old_q)
        side[p] = side_of(beta[p], edge[p])
        h[p] += ridge_p * (beta[p] - old_p)
        _add_pair(h, side, projected, row_p, row_q, 2.0 * r * (beta[p] - old_p), step_q)
        n_steps += 1
    return n_steps, False


@compiled
def m3l_pair_visits(gram, scale, clock, R, diagonal, dual, max_steps, reduction, n_visits):
    """Visits to the label of the worst variable, the others brought up to date after each; updates ``dual``.

    This is Algorithm 1 of Hariharan et al. (2012) with L = ``max_steps``, reduction 0 and allowed gaps of 0.

    Parameters
    ----------
    gram : GramRows, of K / scale
    scale : float, positive
    clock : int, written to the stamps of the rows of K that are used
    R : ndarray (m, m) or CSR
    diagonal : ndarray (m,), of R
    dual : SignedDual
    max_steps : int, most pair steps along a label
    reduction : float, a visit ends when the largest projected gradient has fallen to this fraction
    n_visits : int
    """
    beta, edge, h, side, allowed, missed, steps, ridge = dual
    none = np.empty(0)
    has_ridge = ridge.shape[0] > 0
    n_labels, n_samples = h.shape
    padded = (n_samples + LANES - 1) // LANES * LANES
    projected, gains = np.zeros(padded, dtype=np.float32), np.zeros(padded, dtype=np.float32)
    lanes = np.empty(LANES, dtype=np.float32)
    before, coupling = np.empty(n_samples), np.zeros(n_labels)
    worst = np.zeros(n_labels, dtype=np.float32)
    stale = np.ones(n_labels, dtype=np.uint8)
    missed[:] = 0
    for _ in range(n_visits):
        for label in range(n_labels):
            if stale[label]:
                _project(h[label], side[label], projected)
                p = argmax_abs(projected, lanes)
                worst[label] = abs(projected[p]) if p >= 0 else _ZERO
                stale[label] = 0
        label = np.argmax(worst)  # Eq. (32)
        if worst[label] == _ZERO:
            return
        before[:] = h[label]
        own_ridge = ridge[label] if has_ridge else none
        if has_ridge:  # the ridge does not act on other labels
            before -= own_ridge * beta[label]
        done, waits = _visit(
            gram, clock, scale * diagonal[label], beta[label], edge[label], h[label], side[label], own_ridge,
            allowed[label], max_steps, reduction, projected, gains, lanes,
        )  # fmt: skip
        if has_ridge:
            before += own_ridge * beta[label]
        if waits:
            missed[label] = 1
        if waits or done == 0:
            worst[label] = _ZERO  # nothing to do here until another label moves
        else:
            stale[label] = 1
        if done > 0:
            steps[0] += done
            _spread(R, label, diagonal[label], before, h, coupling)
            for k in range(n_labels):
                if k != label and coupling[k] != 0.0:
                    stale[k] = 1


@compiled
def _spread(R, label, r, before, h, coupling):
    """Eqs. (34)-(36): h_k += R_kl / R_ll (h_l - before) for all other labels k; leaves row l of R in ``coupling``."""
    coupling[:] = 0.0
    row_axpy(1.0, R, label, coupling)
    change = h[label]
    for k in range(h.shape[0]):
        if k == label or coupling[k] == 0.0:
            continue
        factor = coupling[k] / r
        other = h[k]
        for j in range(h.shape[1]):
            other[j] += factor * (change[j] - before[j])
