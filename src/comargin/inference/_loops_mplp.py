# mypy: ignore-errors
"""MPLP (Globerson and Jaakkola, 2007) on one connected component of a label graph, row by row.

The score is kept as a sum of label beliefs b_i and clique tables t_c that is equal to it for every labeling:

    score(y) = sum_i b_i(y_i) + sum_c t_c(y_c)  <=  sum_i max b_i + sum_c max t_c .

The update of a clique takes the beliefs of its labels into its table and gives each label an equal share of its
max-marginals back, which leaves a table with maximum 0:

    t = t_c + sum_{i in c} b_i,   b_i(y_i) = max_{y_c : y_i} t(y_c) / |c|,   t_c = t - sum_{i in c} b_i .

The upper bound never rises. It is block coordinate descent on the dual of the relaxation to locally consistent
marginals. Labels are decoded from the beliefs and improved by single flips.
"""

import numpy as np

from ..core.compiled import compiled
from ._loops_branch import branch_and_bound
from ._loops_clique_scores import component_score, copy_labels

# As fractions of the largest possible score: a gap that is rounding, and a fall of the bound that is none.
ROUNDING = 1e-12
_STANDSTILL = 1e-15
_DOUBT = 1e-7  # rounding beyond this fraction of the potentials of the best labels proves nothing


@compiled
def load_row(row, component, belief, tables):
    """Beliefs and tables of one row of potentials; returns a bound on the size of its scores."""
    scale = 0.0
    for k in range(component.label.shape[0]):
        belief[k, 0] = 0.0
        belief[k, 1] = row[component.label[k]]
        scale += abs(belief[k, 1])
    for c in range(component.column.shape[0]):
        first = component.table[c]
        largest = 0.0
        for state in range(component.table[c + 1] - first):
            value = row[component.column[c] + state]
            tables[first + state] = value
            largest = max(largest, abs(value))
        scale += largest
    return scale


@compiled
def clamp_label(component, k, value, belief, tables):
    """Fix label k by giving its other state the potentials of ``value``."""
    belief[k, 1 - value] = belief[k, value]
    for e in range(component.clique_start[k], component.clique_start[k + 1]):
        c, bit = component.clique[e], component.bit[e]
        first = component.table[c]
        for state in range(component.table[c + 1] - first):
            if state & bit == 0:
                fixed = tables[first + state + value * bit]
                tables[first + state] = fixed
                tables[first + state + bit] = fixed


@compiled
def update_pair(b, i, j, tables, first):
    """The update of a clique of two labels."""
    t00 = tables[first] + b[i, 0] + b[j, 0]
    t01 = tables[first + 1] + b[i, 0] + b[j, 1]
    t10 = tables[first + 2] + b[i, 1] + b[j, 0]
    t11 = tables[first + 3] + b[i, 1] + b[j, 1]
    i0, i1 = 0.5 * max(t00, t01), 0.5 * max(t10, t11)
    j0, j1 = 0.5 * max(t00, t10), 0.5 * max(t01, t11)
    b[i, 0], b[i, 1], b[j, 0], b[j, 1] = i0, i1, j0, j1
    tables[first] = t00 - i0 - j0
    tables[first + 1] = t01 - i0 - j1
    tables[first + 2] = t10 - i1 - j0
    tables[first + 3] = t11 - i1 - j1


@compiled
def update_clique(b, member, start, end, tables, first):
    """The update of a clique of any order."""
    order = end - start
    n_states = 1 << order
    for t in range(order):
        k, bit = member[start + t], 1 << (order - 1 - t)
        for state in range(n_states):
            tables[first + state] += b[k, 1] if state & bit else b[k, 0]
    for t in range(order):
        k, bit = member[start + t], 1 << (order - 1 - t)
        off, on = -np.inf, -np.inf
        for state in range(n_states):
            if state & bit:
                on = max(on, tables[first + state])
            else:
                off = max(off, tables[first + state])
        b[k, 0], b[k, 1] = off / order, on / order
    for t in range(order):
        k, bit = member[start + t], 1 << (order - 1 - t)
        for state in range(n_states):
            tables[first + state] -= b[k, 1] if state & bit else b[k, 0]


@compiled
def sweep(component, belief, tables):
    """Update every clique once; returns the upper bound."""
    for c in range(component.column.shape[0]):
        start, end, first = component.start[c], component.start[c + 1], component.table[c]
        if end - start == 2:
            update_pair(belief, component.member[start], component.member[start + 1], tables, first)
        else:
            update_clique(belief, component.member, start, end, tables, first)
    bound = 0.0  # the tables have maximum 0
    for k in range(belief.shape[0]):
        bound += max(belief[k, 0], belief[k, 1])
    return bound


@compiled
def improve(row, component, fixed, y, state):
    """Flip single labels other than ``fixed`` as long as that raises the score; updates ``y`` and ``state``."""
    improved = True
    while improved:
        improved = False
        for k in range(y.shape[0]):
            if k == fixed:
                continue
            gain = -row[component.label[k]] if y[k] else row[component.label[k]]
            size = abs(gain)
            for e in range(component.clique_start[k], component.clique_start[k + 1]):
                c = component.clique[e]
                now = row[component.column[c] + state[c]]
                then = row[component.column[c] + (state[c] ^ component.bit[e])]
                gain += then - now
                size += abs(then) + abs(now)
            if gain > 1e-14 * size:  # more than rounding: flips cannot go round in a circle
                improved = True
                y[k] = 1 - y[k]
                for e in range(component.clique_start[k], component.clique_start[k + 1]):
                    state[component.clique[e]] ^= component.bit[e]


@compiled
def decode(row, component, belief, fixed, value, y, state):
    """Labels with the larger belief, improved by single flips; returns their score."""
    for k in range(y.shape[0]):
        y[k] = value if k == fixed else belief[k, 1] > belief[k, 0]
    component_score(row, component, y, state)
    improve(row, component, fixed, y, state)
    return component_score(row, component, y, state)


@compiled
def solve_rows(potentials, rows, component, fixed, max_sweeps, min_progress, max_nodes, labels, score, gap):
    """MPLP, then branch and bound, on one component of some rows.

    Sweeps end when the bound meets the best score found, or when a sweep lowers the bound by no more than
    ``min_progress`` times the gap or rounding; a search of ``max_nodes`` nodes follows if there is a gap left.

    ``rows`` int64 are the rows of ``potentials`` (n, n_columns) to solve; label ``fixed`` of the component (-1: none)
    keeps its value in ``labels``. Writes, in these rows, ``labels`` uint8 (n, K) at the component, their ``score`` (n,)
    there, and ``gap`` (n,), upper bound minus score, exactly 0 where the labels are certified to be the best.
    """
    n_members, n_cliques = component.label.shape[0], component.column.shape[0]
    belief = np.empty((n_members, 2))
    tables = np.empty(component.table[n_cliques])
    state = np.empty(n_cliques, dtype=np.int64)
    seen = np.empty(n_members, dtype=np.uint8)
    y = np.empty(n_members, dtype=np.uint8)
    best_y = np.empty(n_members, dtype=np.uint8)
    for i in rows:
        row = potentials[i]
        scale = load_row(row, component, belief, tables)
        value = np.uint8(0)
        if fixed >= 0:
            value = labels[i, component.label[fixed]]
            clamp_label(component, fixed, value, belief, tables)
        rounding = ROUNDING * scale
        bound, best = np.inf, -np.inf
        for n_sweeps in range(max_sweeps):
            before = bound
            bound = min(bound, sweep(component, belief, tables))
            if n_sweeps == 0 or not same_signs(belief, seen):
                for k in range(n_members):
                    seen[k] = belief[k, 1] > belief[k, 0]
                found = decode(row, component, belief, fixed, value, y, state)
                if found > best:
                    best = found
                    copy_labels(y, best_y)
            if bound - best <= rounding or before - bound <= max(_STANDSTILL * scale, min_progress * (bound - best)):
                break
        if bound - best > rounding and max_nodes > 0:
            best, bound = branch_and_bound(
                row, component, belief, tables, fixed, value, max_nodes, rounding, bound, best, best_y
            )
        for k in range(n_members):
            labels[i, component.label[k]] = best_y[k]
        score[i] = best
        # Pruned differences are rounding, unless other potentials are so much larger than those of the best labels that
        # rounding is a large part of their score.
        component_score(row, component, best_y, state)
        size, smallest = 0.0, np.inf
        for k in range(n_members):
            potential = abs(row[component.label[k]])
            size += potential * best_y[k]
            smallest = min(smallest, potential) if potential > 0.0 else smallest
        for c in range(n_cliques):
            size += abs(row[component.column[c] + state[c]])
        size = max(size, smallest)  # all labels may be off
        open_to_doubt = bound - best > rounding or rounding > _DOUBT * size
        gap[i] = max(bound - best, rounding) if open_to_doubt else 0.0


@compiled
def same_signs(belief, seen):
    """Whether the beliefs prefer the labels of the last decoding."""
    for k in range(seen.shape[0]):
        if seen[k] != (belief[k, 1] > belief[k, 0]):
            return False
    return True
