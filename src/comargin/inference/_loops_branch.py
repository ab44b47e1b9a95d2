# mypy: ignore-errors
"""Depth-first branch and bound on one row of one component, with the bound that MPLP leaves behind.

With beliefs b and tables t whose sum is the score (see ``_loops_mplp.py``), a partial labeling is bounded by

    sum over assigned labels of b_i(y_i) + sum over the others of max b_i
    + sum over cliques of the largest entry of t_c that agrees with it,

where a clique with one label left is counted in the belief of that label. Assigning a label only changes the terms of
its own cliques: a node costs as much as the label has neighbours.
"""

import numpy as np

from ..core.compiled import compiled
from ._loops_clique_scores import component_score, copy_labels

# Weight of the tables of a label, against its beliefs, in the choice of the label to branch on. On random dense and
# sparse graphs of 20 to 159 labels, beliefs alone needed up to 7 times, tables alone up to 17 times as many nodes.
_TABLE_WEIGHT = 0.1


@compiled
def agreeing_maximum(tables, first, n_states, mask, value):
    """Largest entry of a table among the states whose bits in ``mask`` are those of ``value``."""
    largest = -np.inf
    for state in range(n_states):
        if state & mask == value:
            largest = max(largest, tables[first + state])
    return largest


@compiled
def label_to_branch_on(belief, influence, assigned):
    """The label whose worse state costs most: a wrong choice is refuted early."""
    chosen, largest = -1, -np.inf
    for k in range(assigned.shape[0]):
        if not assigned[k]:
            worth = abs(belief[k, 1] - belief[k, 0]) + _TABLE_WEIGHT * influence[k]
            if worth > largest:
                chosen, largest = k, worth
    return chosen


@compiled
def table_influence(component, tables):
    """For every label, the sum of maximum - minimum of the tables of its cliques."""
    influence = np.zeros(component.label.shape[0])
    for c in range(component.column.shape[0]):
        smallest, largest = np.inf, -np.inf
        for state in range(component.table[c], component.table[c + 1]):
            smallest = min(smallest, tables[state])
            largest = max(largest, tables[state])
        for t in range(component.start[c], component.start[c + 1]):
            influence[component.member[t]] += largest - smallest
    return influence


@compiled
def assign(component, k, value, assigned, belief, tables, mask, agreed, trail, trail_belief, n_trail):
    """Assign ``value`` to label k: its cliques with one label left enter the belief of that label.

    Old beliefs are put on the trail. Returns the change of the bound, without that of b_k, and the end of the trail.
    """
    change = 0.0
    for e in range(component.clique_start[k], component.clique_start[k + 1]):
        c, bit = component.clique[e], component.bit[e]
        first = component.table[c]
        n_states = component.table[c + 1] - first
        left = (n_states - 1) & ~(mask[c] | bit)
        if left != 0 and mask[c] != 0:  # without an assigned label the maximum is 0
            change -= agreeing_maximum(tables, first, n_states, mask[c], agreed[c])
        mask[c] |= bit
        agreed[c] |= value * bit
        if left & (left - 1) != 0:  # at least two labels of the clique are left
            change += agreeing_maximum(tables, first, n_states, mask[c], agreed[c])
        elif left != 0:
            u = -1
            for t in range(component.start[c], component.start[c + 1]):
                if not assigned[component.member[t]]:
                    u = component.member[t]
            trail[n_trail] = u
            trail_belief[n_trail, 0], trail_belief[n_trail, 1] = belief[u, 0], belief[u, 1]
            n_trail += 1
            change -= max(belief[u, 0], belief[u, 1])
            belief[u, 0] += tables[first + agreed[c]]
            belief[u, 1] += tables[first + agreed[c] + left]
            change += max(belief[u, 0], belief[u, 1])
    return change, n_trail


@compiled
def branch_and_bound(row, component, belief, tables, fixed, value, max_nodes, rounding, bound, best, best_y):
    """Search for a labeling better than ``best`` by more than rounding, or for the proof that there is none.

    ``row`` are potentials, ``belief`` (k, 2) is used up, ``tables`` have maximum 0 each, the label ``fixed`` (or -1)
    keeps its ``value``. Writes a better labeling into ``best_y`` uint8 (k,); returns its score and an upper bound,
    which are equal when the search is complete.
    """
    n_members, n_cliques = component.label.shape[0], component.column.shape[0]
    n_incidences = component.clique.shape[0]
    influence = table_influence(component, tables)
    if fixed >= 0:
        influence[fixed] = np.inf  # first of all
    mask = np.zeros(n_cliques, dtype=np.int64)
    agreed = np.zeros(n_cliques, dtype=np.int64)
    state = np.empty(n_cliques, dtype=np.int64)
    assigned = np.zeros(n_members, dtype=np.uint8)
    y = np.zeros(n_members, dtype=np.uint8)
    trail = np.empty(n_incidences, dtype=np.int64)
    trail_belief = np.empty((n_incidences, 2))
    # Of the node at each depth: its bound, the start of its trail, the label it branches on, children left to visit.
    node_bound = np.empty(n_members + 1)
    trail_start = np.zeros(n_members + 1, dtype=np.int64)
    branch_label = np.empty(n_members, dtype=np.int64)
    n_children = np.empty(n_members, dtype=np.int64)
    node_bound[0] = bound
    depth, n_nodes, arrived = 0, 0, True
    while depth >= 0:
        if arrived and depth == n_members:
            found = component_score(row, component, y, state)
            if found > best:
                best = found
                copy_labels(y, best_y)
            arrived = False
            depth -= 1
        if arrived:
            k = label_to_branch_on(belief, influence, assigned)
            branch_label[depth] = k
            n_children[depth] = 1 if k == fixed else 2
            y[k] = value if k == fixed else belief[k, 1] > belief[k, 0]
            assigned[k] = 1
        else:
            # Undo the last child.
            k = branch_label[depth]
            for t in range(trail_start[depth + 1] - 1, trail_start[depth] - 1, -1):
                belief[trail[t], 0], belief[trail[t], 1] = trail_belief[t, 0], trail_belief[t, 1]
            for e in range(component.clique_start[k], component.clique_start[k + 1]):
                mask[component.clique[e]] &= ~component.bit[e]
                agreed[component.clique[e]] &= ~component.bit[e]
            y[k] = 1 - y[k]
        if n_children[depth] == 0 or node_bound[depth] <= best + rounding:
            assigned[k] = 0
            arrived = False
            depth -= 1
            continue
        if n_nodes == max_nodes:
            break
        n_nodes += 1
        n_children[depth] -= 1
        change, trail_start[depth + 1] = assign(
            component, k, y[k], assigned, belief, tables, mask, agreed, trail, trail_belief, trail_start[depth]
        )
        child_bound = node_bound[depth] + change + belief[k, y[k]] - max(belief[k, 0], belief[k, 1])
        arrived = child_bound > best + rounding
        if arrived:
            depth += 1
            node_bound[depth] = child_bound
    # Unvisited labelings lie below the nodes with children left; without any, none is better than the best.
    open_bound = best
    for d in range(depth + 1):
        if n_children[d] > 0:
            open_bound = max(open_bound, node_bound[d])
    return best, max(best, min(bound, open_bound))
