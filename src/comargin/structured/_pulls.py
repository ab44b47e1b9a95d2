"""Why labels of a labeling are on: what the cliques that they belong to say."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from ..core.explanation import Contribution


class Pulls:
    """How much each clique of a label prefers it on to off, with the other labels as in given labelings."""

    def __init__(self, cliques: Sequence[tuple[int, ...]], potentials: np.ndarray, labelings: np.ndarray) -> None:
        self._potentials, self._labelings = potentials, labelings
        self._cliques: dict[int, list[tuple[tuple[int, ...], int]]] = defaultdict(list)  # and their first columns
        column = labelings.shape[1]
        for clique in cliques:
            for label in clique:
                self._cliques[label].append((clique, column))
            column += 1 << len(clique)

    def of(self, row: int, label: int) -> list[Contribution]:
        """One contribution for all cliques in which the same other labels are on."""
        labeling = self._labelings[row]
        pulls: dict[tuple[str, tuple[int, ...]], float] = defaultdict(float)
        for clique, column in self._cliques[label]:
            # State sum_t y_{c_t} 2^{|c| - 1 - t}, without the label.
            weight = {member: 1 << (len(clique) - 1 - t) for t, member in enumerate(clique)}
            others = tuple(member for member in clique if member != label)
            on = tuple(member for member in others if labeling[member])
            state = column + sum(weight[member] for member in on)
            difference = self._potentials[row, state + weight[label]] - self._potentials[row, state]
            pulls["with" if on else "without", on or others] += float(difference)
        return [Contribution(kind, members, value) for (kind, members), value in pulls.items() if value != 0.0]
