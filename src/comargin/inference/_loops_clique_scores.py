# mypy: ignore-errors
"""The score of a labeling: sum_k y_k p_k plus, for every clique, the potential of the state its labels are in."""

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled


class Component(NamedTuple):
    """Labels and cliques of a connected component, or of a whole graph, as int64 arrays; labels are renumbered."""

    label: np.ndarray  # (k,), number of each label in the potentials
    start: np.ndarray  # (n_cliques + 1,), where the labels of each clique begin in ``member``
    member: np.ndarray  # labels of the cliques, of each the most significant bit of its state first
    column: np.ndarray  # (n_cliques,), column of the potential of each clique's state 0
    table: np.ndarray  # (n_cliques + 1,), first entry of each clique's table
    clique_start: np.ndarray  # (k + 1,), where the cliques of each label begin in ``clique`` and ``bit``
    clique: np.ndarray  # cliques of the labels
    bit: np.ndarray  # the label's bit in the states of each


@compiled
def labeling_scores(potentials, labels, graph, score):
    """Write the score (n,) of one labeling uint8 (n, K) of the whole graph per row of potentials (n, n_columns)."""
    start, member, column = graph.start, graph.member, graph.column
    for i in range(labels.shape[0]):
        total = 0.0
        for k in range(labels.shape[1]):
            if labels[i, k]:
                total += potentials[i, k]
        for c in range(column.shape[0]):
            state = 0
            for t in range(start[c], start[c + 1]):
                state = 2 * state + labels[i, member[t]]
            total += potentials[i, column[c] + state]
        score[i] = total


@compiled
def copy_labels(source, target):
    """target[:] = source; the assignment of a slice takes seconds to compile."""
    for k in range(source.shape[0]):
        target[k] = source[k]


@compiled
def component_score(row, component, y, state):
    """Score of the labeling y on the component; writes the state of every clique."""
    total = 0.0
    for k in range(y.shape[0]):
        if y[k]:
            total += row[component.label[k]]
    for c in range(state.shape[0]):
        s = 0
        for t in range(component.start[c], component.start[c + 1]):
            s = 2 * s + y[component.member[t]]
        state[c] = s
        total += row[component.column[c] + s]
    return total
