# mypy: ignore-errors
"""The penalty on the edges of a label graph for one feature: its proximal map (LSG21).

For a row w of weights (one per label), Omega(w) = sum_i own_i |w_i| + sum_e weight_e ||(w_i, w_j)||, e = (i, j).

The proximal map u = prox_{alpha Omega}(h) is the shortest u = h - sum_e p_e with parts ||p_e|| <= alpha weight_e of the
edges; p_e = alpha weight_e u_e / ||u_e|| where u_e is not 0. An exact reduction comes first: own terms are soft
thresholds, and an edge to a label that is certainly 0 is an own term of the other label. The labels that remain, the
core, have positive targets v. Sweeps that project one part after the other solve it exactly and fast where u = 0 with
room to spare; otherwise Newton steps do (``_loops_norm_sum.py``).
"""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled
from ._loops_norm_sum import norm_sum_newton

# Entries of u below this many times the accuracy are 0: smoothing leaves a multiple of mu there.
_NOTHING = 20.0
# Entries of u below this fraction of the largest target may be 0: ``_settle`` checks.
_PERHAPS = 1e-6
_SWEEPS = 4


class Edges(NamedTuple):
    """A label graph of L labels and E edges as flat arrays; indices are int32."""

    first: np.ndarray  # (E,), labels of every edge
    second: np.ndarray
    weight: np.ndarray  # (E,)
    own: np.ndarray  # (L,)
    begin: np.ndarray  # (L + 1,), where the edges of each label begin in ``at`` and ``other``
    at: np.ndarray  # (2 E,), edges of label 0, of label 1, ...
    other: np.ndarray  # (2 E,), their labels at the other end


class Scratch(NamedTuple):
    """Memory of one row's proximal map; its contents do not matter between rows. Indices are int32."""

    left: np.ndarray  # (L,), result: the entry of every label without the sign of h
    zero: np.ndarray  # bool (L,), labels outside the core
    queue: np.ndarray  # (L,), labels of the core
    place: np.ndarray  # (L,), their places there
    ends: np.ndarray  # (2, E), places of the ends of the core's edges
    radius: np.ndarray  # (E,), largest length of each part
    parts: np.ndarray  # (2, E)
    inverse: np.ndarray  # (E,), one over the smoothed length of u at each edge
    u: np.ndarray  # (L,), by places
    v: np.ndarray  # (L,), by places
    work: np.ndarray  # (7, L)


@compiled
def _reduce(h, alpha, edges, scratch):
    """Apply own terms and edges to labels that are certainly 0: writes ``left``, ``zero``; returns the number of 0."""
    left, queue, zero = scratch.left, scratch.queue, scratch.zero
    n_labels = h.size
    n_zero = 0
    for i in range(n_labels):
        left[i] = max(abs(h[i]) - alpha * edges.own[i], 0.0)
        zero[i] = left[i] == 0.0
        if zero[i]:
            queue[n_zero] = i
            n_zero += 1
    seen = 0
    while seen < n_zero < n_labels:
        i = queue[seen]
        seen += 1
        for k in range(edges.begin[i], edges.begin[i + 1]):
            j = edges.other[k]
            if not zero[j]:
                left[j] -= alpha * edges.weight[edges.at[k]]
                if left[j] <= 0.0:
                    left[j] = 0.0
                    zero[j] = True
                    queue[n_zero] = j
                    n_zero += 1
    return n_zero


@compiled
def _list_core(alpha, edges, scratch):
    """List labels with ``zero`` False and the edges between them by places; returns the numbers of both."""
    queue, place, ends, radius = scratch.queue, scratch.place, scratch.ends, scratch.radius
    n_core, n_edges = 0, 0
    for i in range(scratch.zero.size):
        if not scratch.zero[i]:
            queue[n_core], place[i] = i, n_core
            scratch.v[n_core] = scratch.left[i]
            n_core += 1
    for c in range(n_core):
        i = queue[c]
        for k in range(edges.begin[i], edges.begin[i + 1]):
            j = edges.other[k]
            if j > i and not scratch.zero[j]:
                ends[0, n_edges], ends[1, n_edges] = c, place[j]
                radius[n_edges] = alpha * edges.weight[edges.at[k]]
                n_edges += 1
    return n_core, n_edges


@compiled
def _sweep(u, scratch, n_edges, n_sweeps):
    """Project the parts of the edges one by one, u = v - sum_e p_e; returns whether that ended with u = 0."""
    ends, radius, parts = scratch.ends, scratch.radius, scratch.parts
    for _ in range(n_sweeps):
        moved = False
        for e in range(n_edges):
            i, j = ends[0, e], ends[1, e]
            if u[i] == 0.0 and u[j] == 0.0:
                continue
            a, b = u[i] + parts[0, e], u[j] + parts[1, e]
            square = a * a + b * b
            if square <= radius[e] * radius[e]:
                parts[0, e], parts[1, e] = a, b
                u[i], u[j] = 0.0, 0.0
            else:
                moved = True
                scale = radius[e] / np.sqrt(square)
                parts[0, e], parts[1, e] = scale * a, scale * b
                u[i], u[j] = a - parts[0, e], b - parts[1, e]
        if not moved:
            return True
    return False


@compiled
def _settle(u, scratch, n_core, n_edges, accuracy):
    """Set entries of u to 0 that are of the size of smoothing, or whose target the edges can take completely.

    The latter holds for entries near 0 if the edges between them can take their targets with ||p_e|| <= radius_e.
    """
    v, ends, radius, parts = scratch.v, scratch.ends, scratch.radius, scratch.parts
    rest, room = scratch.work[0], scratch.work[1]
    largest = 0.0
    for c in range(n_core):
        largest = max(largest, v[c])
    small = max(_PERHAPS, _NOTHING * accuracy) * largest
    for c in range(n_core):
        rest[c], room[c] = v[c], 0.0
    for e in range(n_edges):
        i, j = ends[0, e], ends[1, e]
        if u[i] <= small and u[j] <= small:
            rest[i] -= parts[0, e]
            rest[j] -= parts[1, e]
            room[i] += radius[e]
            room[j] += radius[e]
    taken = True
    for e in range(n_edges):
        i, j = ends[0, e], ends[1, e]
        if u[i] <= small and u[j] <= small:
            a, b = parts[0, e] + rest[i] / room[i] * radius[e], parts[1, e] + rest[j] / room[j] * radius[e]
            taken = taken and a * a + b * b <= radius[e] * radius[e]
    for c in range(n_core):
        if u[c] <= _NOTHING * accuracy * largest or (taken and u[c] <= small and room[c] > 0.0):
            u[c] = 0.0


@compiled
def _start(h, w, scale, scratch, n_core, n_edges):
    """Write u = scale |w| where w has the sign of h, else 0, and the parts in its direction.

    Returns whether w is 0 in the core: then u is the target, and the parts are 0.
    """
    u, ends, parts = scratch.u, scratch.ends, scratch.parts
    cold = True
    for c in range(n_core):
        i = scratch.queue[c]
        cold = cold and w[i] == 0.0
        u[c] = scale * abs(w[i]) if (w[i] > 0.0) == (h[i] > 0.0) else 0.0
    for e in range(n_edges):
        a, b = u[ends[0, e]], u[ends[1, e]]
        length = np.sqrt(a * a + b * b)
        part = scratch.radius[e] / length if length > 0.0 else 0.0
        parts[0, e], parts[1, e] = part * a, part * b
    for c in range(n_core):
        u[c] = scratch.v[c] if cold else u[c]
    return cold


@compiled
def _solve_core(h, w, scale, scratch, n_core, n_edges, accuracy, enough):
    """Find u and the parts from a start at scale |w|; returns whether sweeps showed that u = 0 at all edges."""
    u = scratch.u
    if _start(h, w, scale, scratch, n_core, n_edges):
        if _sweep(u, scratch, n_edges, _SWEEPS):
            return True
        for c in range(n_core):
            u[c] = max(u[c], 0.0)
    norm_sum_newton(u, scratch, n_core, n_edges, accuracy, enough)
    return False


@compiled
def _take_parts(scratch, n_core, n_edges):
    """Write v - sum_e p_e into ``left``."""
    u = scratch.u
    for c in range(n_core):
        u[c] = scratch.v[c]
    for e in range(n_edges):
        u[scratch.ends[0, e]] -= scratch.parts[0, e]
        u[scratch.ends[1, e]] -= scratch.parts[1, e]
    for c in range(n_core):
        scratch.left[scratch.queue[c]] = u[c]


@compiled
def shrink_row(h, w, scale, alpha, edges, scratch, accuracy):
    """Write u = prox_{alpha Omega}(h), without the signs of h, into ``scratch.left``.

    The start is u = scale |w|; ``accuracy`` is that of u, relative to its largest target.
    """
    if _reduce(h, alpha, edges, scratch) == h.size:
        return
    n_core, n_edges = _list_core(alpha, edges, scratch)
    if n_edges == 0:
        return
    if not _solve_core(h, w, scale, scratch, n_core, n_edges, accuracy, 0.0):
        _settle(scratch.u, scratch, n_core, n_edges, accuracy)
    for c in range(n_core):
        scratch.left[scratch.queue[c]] = scratch.u[c]


@compiled
def least_left_over(h, w, scale, alpha, edges, scratch, accuracy, enough):
    """Write h - sum_e p_e for the best parts, prox_{alpha Omega}(h) without the signs of h, into ``scratch.left``.

    The start is u = scale |w|; parts that leave less than ``enough`` for every label are good enough.
    """
    if _reduce(h, alpha, edges, scratch) == h.size:
        return
    n_core, n_edges = _list_core(alpha, edges, scratch)
    if n_edges == 0:
        return
    _solve_core(h, w, scale, scratch, n_core, n_edges, accuracy, enough)
    _take_parts(scratch, n_core, n_edges)


@compiled
def left_over(h, w, alpha, edges, scratch, accuracy):
    """Write h - sum_e p_e for good parts, with the signs of h taken out, into ``scratch.left``.

    Parts of edges with w_e not 0 are alpha weight_e w_e / ||w_e||, as at the optimum; those between labels with w = 0
    leave as little as possible.
    """
    left = scratch.left
    n_labels = h.size
    if _reduce(h, alpha, edges, scratch) == n_labels:
        return
    # Labels with w not 0 leave the core; their edges have fixed parts.
    for i in range(n_labels):
        if scratch.zero[i] or w[i] == 0.0:
            continue
        a = abs(w[i]) if (w[i] > 0.0) == (h[i] > 0.0) else -abs(w[i])
        for k in range(edges.begin[i], edges.begin[i + 1]):
            j = edges.other[k]
            length = np.sqrt(w[i] * w[i] + w[j] * w[j])
            if not scratch.zero[j] and length > 0.0:
                left[i] -= alpha * edges.weight[edges.at[k]] * a / length
    for i in range(n_labels):
        scratch.zero[i] = scratch.zero[i] or w[i] != 0.0
    n_core, n_edges = _list_core(alpha, edges, scratch)
    _solve_core(h, w, 0.0, scratch, n_core, n_edges, accuracy, 0.0)
    _take_parts(scratch, n_core, n_edges)
