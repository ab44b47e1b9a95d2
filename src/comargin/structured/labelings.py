r"""Dual solutions of structured SVMs: for every row and connected part of the graph, labelings and their masses.

Losses and scores add up over connected parts, so the worst labeling of a row is the worst of every part, and the dual
has one simplex per row and part: :math:`\sum_p a_{ip} = m_i` over labelings p of the part.
"""

from dataclasses import dataclass

import numpy as np

from ..inference.cliques import component_of_labels
from ._loops import Known, Layout, columns_of_moments, couple_labelings
from .cliques import CliqueSet
from .problem import StructuredProblem

FIRST_CAPACITY = 8


def parts_of(cliques: CliqueSet) -> list[tuple[int, ...]]:
    """Labels of the parts of a graph that are solved on their own: its connected components.

    With several groups all labels that have cliques are one part: they share the weights t of the groups, which Newton
    steps find together with everything else. A label without cliques is a part of its own.
    """
    number = component_of_labels(cliques.n_labels, cliques.cliques)
    if cliques.n_groups > 1:
        number[np.unique(cliques.members)] = number[cliques.members[0]]
    return [tuple(np.flatnonzero(number == part).tolist()) for part in dict.fromkeys(number.tolist())]


@dataclass(frozen=True)
class StructuredDual:
    """Masses of labelings and the weights that go with them: the end of one solve and the start of another."""

    cliques: CliqueSet
    parts: tuple[tuple[int, ...], ...]  # labels of the connected parts
    known: tuple[Known, ...]  # labelings of every part, as `without_room` leaves them
    weights: np.ndarray | None  # W (n_features, n_columns)
    group_weights: np.ndarray  # t (n_groups,)
    by_newton: bool = False  # whether Newton steps came last, or next: passes are too slow to be tried first
    sigma: float = 0.0  # proximal parameter that they ended with, times the mean mass of a row; 0 without them

    @property
    def shape(self) -> tuple[int, int]:
        return self.known[0].labels.shape[0], self.cliques.n_labels

    @classmethod
    def true(cls, problem: StructuredProblem) -> "StructuredDual":
        """All mass on the true labelings: a dual point of value 0, without weights."""
        parts = tuple(parts_of(problem.cliques))
        known = tuple(no_labelings((len(problem.Y), len(labels)), FIRST_CAPACITY) for labels in parts)
        for labels, met in zip(parts, known, strict=True):
            met.labels[:, 0], met.mass[:, 0] = problem.Y[:, labels], problem.mass
        return cls(problem.cliques, parts, known, None, _equal_weights(problem.cliques))

    def start_of(self, problem: StructuredProblem) -> "StructuredDual":
        """A start for another problem on the same rows, with other masses of the rows or another graph; a copy.

        Masses keep their proportions; labelings of parts that are joined now are coupled. The weights are kept where
        the new cliques begin with the old ones; new groups get an equal share.
        """
        parts = tuple(parts_of(problem.cliques))
        known = tuple(self._restricted(labels, problem) for labels in parts)
        weights, group_weights = None, _equal_weights(problem.cliques)
        old, new = self.cliques, problem.cliques
        begins_with_old = new.cliques[: len(old.cliques)] == old.cliques and new.groups[: len(old.groups)] == old.groups
        same_features = self.weights is not None and self.weights.shape[0] == problem.X.shape[1]
        if begins_with_old and same_features:
            weights = np.zeros((problem.X.shape[1], new.n_columns), order="F")
            weights[:, : old.n_columns] = self.weights
            group_weights[: old.n_groups] = self.group_weights * old.n_groups / max(new.n_groups, 1)
        return StructuredDual(new, parts, known, weights, group_weights, self.by_newton, self.sigma)

    def _restricted(self, labels: tuple[int, ...], problem: StructuredProblem) -> Known:
        """Labelings of some labels, with the masses of the rows of the problem."""
        truth, place = problem.Y[:, labels], {label: k for k, label in enumerate(labels)}
        if labels in self.parts:  # labelings without mass may be needed again
            known = _with_spare_room(self.known[self.parts.index(labels)])
        else:
            known = no_labelings((len(truth), 0), 1)
            known.mass[:, 0] = self.known[0].mass.sum(axis=1)
            for part, met in zip(self.parts, self.known, strict=True):
                places = np.array([place.get(label, -1) for label in part], dtype=np.int64)
                if places.max() >= 0:
                    both = no_labelings(truth.shape, known.mass.shape[1] + met.mass.shape[1])
                    couple_labelings(known, met, np.arange(known.labels.shape[2]), places, both)
                    known = _with_spare_room(both)
        return _with_masses(known, truth, problem.mass)


def _equal_weights(cliques: CliqueSet) -> np.ndarray:
    return np.full(cliques.n_groups, 1.0 / max(cliques.n_groups, 1))


def layout_of(cliques: CliqueSet) -> Layout:
    """Columns and moments of some cliques, as the loops take them."""
    labels = np.array([label for subset in cliques.subsets for label in subset], dtype=np.int32)
    begin = np.cumsum([0, *map(len, cliques.subsets)], dtype=np.int32)
    return Layout(cliques.members, cliques.begin, cliques.column, cliques.moment, labels, begin)


def columns_of(moments: np.ndarray, layout: Layout) -> np.ndarray:
    """Columns (r, n_columns) of some moments (r, n_moments)."""
    out = np.empty((len(moments), len(layout.moment)))
    columns_of_moments(moments, layout, out)
    return out


def no_labelings(shape: tuple[int, ...], capacity: int) -> Known:
    """Room for labelings, ``capacity`` a row, and one without labels and mass in every row."""
    n_samples, n_labels = shape
    labels = np.zeros((n_samples, capacity, n_labels), dtype=np.uint8)
    mass, age = np.zeros((n_samples, capacity)), np.zeros((n_samples, capacity), dtype=np.int32)
    return Known(labels, mass, age, np.ones(n_samples, dtype=np.int32))


def flips(truth: np.ndarray, mass: np.ndarray, flipped: np.ndarray) -> Known:
    """Labelings of one label, the true one and the other, which has the mass ``flipped`` (n_samples,)."""
    known = no_labelings(truth.shape, 2)
    known.labels[:, 0], known.labels[:, 1] = truth, 1 - truth
    known.mass[:, 0], known.mass[:, 1] = mass - flipped, flipped
    known.count[:] = 2
    return known


def _with_spare_room(known: Known) -> Known:
    return with_room(known, max(FIRST_CAPACITY, int(known.count.max()) + 2))


def with_room(known: Known, capacity: int) -> Known:
    """A copy with room for ``capacity`` labelings a row, at least the slots in use."""
    n_samples, now, n_labels = known.labels.shape
    out = no_labelings((n_samples, n_labels), capacity)
    kept = min(now, capacity)
    for new, old in zip(out[:3], known[:3], strict=True):
        new[:, :kept] = old[:, :kept]
    out.count[:] = known.count
    return out


def without_room(known: Known) -> Known:
    """A copy with as many slots as the row with most uses; slots not in use are zero, as are all ages."""
    out = no_labelings((len(known.labels), known.labels.shape[2]), int(known.count.max(initial=1)))
    used = np.arange(out.mass.shape[1]) < known.count[:, None]
    for array, now in ((out.labels, known.labels), (out.mass, np.maximum(known.mass, 0.0))):
        array[used] = now[:, : out.mass.shape[1]][used]
    out.count[:] = known.count
    return out


def _with_masses(known: Known, truth: np.ndarray, mass: np.ndarray) -> Known:
    """Scale to the masses of the rows; rows without mass, or with another truth than before, begin anew."""
    total = known.mass.sum(axis=1)
    kept = (total > 0.0) & np.all(known.labels[:, 0] == truth, axis=1)
    known.mass[kept] *= (mass[kept] / total[kept])[:, None]
    known.labels[~kept, 0] = truth[~kept]
    known.mass[~kept] = 0.0
    known.mass[~kept, 0] = mass[~kept]
    known.count[~kept] = 1
    return known
