# mypy: ignore-errors
"""The score of a labeling: sum_k y_k p_k plus, for every clique, the potential of the state its labels are in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.compiled import compiled


class Cliques(NamedTuple):
    """Cliques as flat int64 arrays.

    start (n_cliques + 1,), member: labels of clique c are member[start[c]:start[c + 1]], the first of them the most
    significant bit of its state.  column (n_cliques,): the potential of its state 0.
    """

    start: np.ndarray
    member: np.ndarray
    column: np.ndarray


class Component(NamedTuple):
    """A connected component as flat int64 arrays; labels are numbered within it.

    label (k,): number of each label in the potentials.  start (n_cliques + 1,), member: labels of each clique, the
    first the most significant bit of its state.  column (n_cliques,): the potential of its state 0.  table
    (n_cliques + 1,): first entry of its table.  Per label: clique_start (k + 1,), clique: the cliques it is in, bit:
    its bit in the states of each of them.
    """

    label: np.ndarray
    start: np.ndarray
    member: np.ndarray
    column: np.ndarray
    table: np.ndarray
    clique_start: np.ndarray
    clique: np.ndarray
    bit: np.ndarray


@compiled
def labeling_scores(potentials, labels, cliques, score):
    """Write the score (n,) of one labeling uint8 (n, K) per row of potentials (n, n_columns)."""
    for i in range(labels.shape[0]):
        total = 0.0
        for k in range(labels.shape[1]):
            if labels[i, k]:
                total += potentials[i, k]
        for c in range(cliques.column.shape[0]):
            state = 0
            for t in range(cliques.start[c], cliques.start[c + 1]):
                state = 2 * state + labels[i, cliques.member[t]]
            total += potentials[i, cliques.column[c] + state]
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
