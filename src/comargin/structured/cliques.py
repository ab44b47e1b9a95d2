r"""Label cliques and the columns of the joint feature.

The joint feature of a structured SVM is the one-hot state of every clique, tensor x. Its weights are a matrix with one
column per node and one per state of a clique of order two and more:

    columns 0 .. K-1      label k is on. The paper has two blocks per node, on and off; differences of joint features
                          have opposite signs there, so u_on = -u_off at every dual point, and one column
                          g_k = u_on - u_off = 2 u_on says both:  ||u_k||^2 = ||g_k||^2 / 2.
    then 2^|c| a clique   its states in C order of a table (2,)*|c|: state = sum_t y_{c[t]} 2^(|c|-1-t).

Columns of a dual average V = sum_i x_i q_i^T depend on each other: q_i is a difference of joint features with the same
total mass, so that the states of a clique follow from its moments m_S = sum_i x_i q_iS, q_iS that of prod_{k in S} y_k,
over the sets S of its labels. For a pair (j, k) the four states are

    11: m_jk      10: m_j - m_jk      01: m_k - m_jk      00: -(m_j + m_k - m_jk),

so that K + C moments determine K + 4 C columns, and products with X need K + C columns only.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..inference.cliques import checked_cliques

# Tables of 2^order states: 4096 weight vectors for one clique are more than anybody can learn.
MAX_ORDER = 12


@dataclass(frozen=True)
class CliqueSet:
    """Cliques of order two and more among ``n_labels`` labels, each in one group of the regulariser."""

    n_labels: int
    cliques: tuple[tuple[int, ...], ...] = ()  # of different labels each, see check_cliques
    groups: tuple[int, ...] = ()  # of every clique, 0 .. n_groups - 1

    def __post_init__(self) -> None:
        if len(self.groups) != len(self.cliques):
            raise ValueError(f"groups must have one int per clique, {len(self.cliques)}, got {len(self.groups)}")

    @property
    def n_groups(self) -> int:
        return max(self.groups, default=-1) + 1

    @cached_property
    def column(self) -> np.ndarray:
        """First column of every clique, and last the number of columns; int32 (n_cliques + 1,)."""
        sizes = [self.n_labels] + [2 ** len(clique) for clique in self.cliques]
        return np.cumsum(sizes, dtype=np.int32)

    @property
    def n_columns(self) -> int:
        return int(self.column[-1])

    @cached_property
    def begin(self) -> np.ndarray:
        """First place of every clique in ``members``, and last its length; int32 (n_cliques + 1,)."""
        return np.cumsum([0] + [len(clique) for clique in self.cliques], dtype=np.int32)

    @cached_property
    def members(self) -> np.ndarray:
        """Labels of the cliques, one after the other; int32."""
        return np.array([label for clique in self.cliques for label in clique], dtype=np.int32)

    @cached_property
    def group_of_column(self) -> np.ndarray:
        """Group of every column, -1 for nodes; (n_columns,)."""
        return np.repeat(np.array((-1, *self.groups)), np.diff(self.column, prepend=0))

    @cached_property
    def subsets(self) -> tuple[tuple[int, ...], ...]:
        """Sets of labels that have a moment: every label, then all larger subsets of the cliques."""
        larger = {
            subset: None
            for clique in self.cliques
            for size in range(2, len(clique) + 1)
            for subset in itertools.combinations(sorted(clique), size)
        }
        return (*((label,) for label in range(self.n_labels)), *larger)

    @cached_property
    def moment(self) -> np.ndarray:
        """Place in ``subsets`` of the labels that are on in the state of every column, -1 for none; int32."""
        place = {subset: m for m, subset in enumerate(self.subsets)}
        out = list(range(self.n_labels))
        for clique in self.cliques:
            for state in itertools.product((0, 1), repeat=len(clique)):
                on = tuple(sorted(itertools.compress(clique, state)))
                out.append(place.get(on, -1))
        return np.array(out, dtype=np.int32)

    def group_lengths(self, sqnorms: np.ndarray) -> np.ndarray:
        """Length of the weights of every group, from the squared lengths of the columns; (n_groups,)."""
        in_group = self.group_of_column >= 0
        return np.sqrt(np.bincount(self.group_of_column[in_group], sqnorms[in_group], minlength=self.n_groups))

    def clique_squares(self, sqnorms: np.ndarray) -> np.ndarray:
        """Squared length of the weights of every clique, from the squared lengths of the columns; (n_cliques,)."""
        return np.add.reduceat(sqnorms, self.column[:-1]) if self.cliques else np.zeros(0)

    def within(self, labels: Sequence[int]) -> "CliqueSet":
        """The cliques that begin with one of these labels, which must hold them, with the labels numbered from 0."""
        number = {label: k for k, label in enumerate(labels)}
        inside = [c for c, clique in enumerate(self.cliques) if clique[0] in number]
        cliques = tuple(tuple(number[label] for label in self.cliques[c]) for c in inside)
        return CliqueSet(len(labels), cliques, tuple(self.groups[c] for c in inside))


def check_cliques(cliques: Any, n_labels: int, name: str) -> tuple[tuple[int, ...], ...]:
    """Cliques as given by a user, the labels of each sorted; an error names the argument ``name``."""
    checked = tuple(tuple(sorted(clique)) for clique in checked_cliques(cliques, n_labels, name))
    largest = max(map(len, checked), default=0)
    if largest > MAX_ORDER:
        raise ValueError(f"{name}: a clique of {largest} labels has 2^{largest} states; at most {MAX_ORDER}")
    return checked


def prox_squared_l21(lengths: np.ndarray, step: float) -> np.ndarray:
    """Lengths of the minimiser of 1/2 ||w - z||^2 + step/2 (sum_k ||w_k||)^2: Algorithm 3 of Tan et al. (2015).

    The longest groups, of lengths ||z_k||, are shortened by the same amount and the others vanish, exactly; directions
    do not change.
    """
    if len(lengths) == 0:
        return lengths.copy()
    longest_first = np.sort(lengths)[::-1]  # line 2
    thresholds = step / (1.0 + np.arange(1, len(lengths) + 1) * step) * np.cumsum(longest_first)  # line 4
    kept = np.flatnonzero(longest_first > thresholds)  # line 3; rho is the last
    return np.maximum(lengths - thresholds[kept[-1]], 0.0) if len(kept) else np.zeros_like(lengths)
