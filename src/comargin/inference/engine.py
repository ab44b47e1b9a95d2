"""Best labelings of many rows on one label graph."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ._loops_clique_scores import Component, labeling_scores
from ._loops_elimination import EliminationPlan, eliminate, eliminate_both_ways
from ._loops_mplp import solve_rows
from ._plan import Order, best_order, components, elimination_plan
from .cliques import checked_cliques

METHODS = ("auto", "exact", "mplp")
# Widest elimination: its tables take about 140 MB per thread, 200 MB for max-marginals.
LARGEST_WIDTH = 22


@dataclass(frozen=True)
class InferencePolicy:
    """Tuned numbers of inference; times on random graphs of 22 to 100 labels."""

    block_entries: int = 1 << 20  # entries of a plan's tables times rows of a block: the cache; 1/4: up to 1.15 times
    marginal_width: int = 16  # up to it max-marginals are eliminated; at width 19 searches take a sixth of that time
    shared_states: int = 1 << 12  # entries of tables of components eliminated together; times 4: up to 1.13 times
    min_progress: float = 0.01  # part of the gap that a sweep of MPLP must close, else search; 1/4: up to 1.3 times


POLICY = InferencePolicy()


class _Elimination(NamedTuple):
    """A plan and the number of rows solved together."""

    plan: EliminationPlan
    block: int


class _Search(NamedTuple):
    """A component solved by MPLP and branching, and by elimination where that leaves a gap (None: too wide)."""

    component: Component
    width: int
    max_nodes: int
    fallback: _Elimination | None


class Inference:
    r"""Best labelings, their scores and upper bounds, for rows of potentials on one label graph.

    The score of a labeling y is

    .. math:: s(y) = \sum_k y_k p_k + \sum_c p_c(y_c)

    over labels k and cliques c. Components of the graph are solved separately, by one of

    - *elimination* of one label after the other in a good order: exact; the cost grows as 2 to the induced width;
    - *MPLP*: descent on the dual of a linear relaxation, which gives an upper bound, and decoding, which gives a score;
    - *branch and bound* with the bound of MPLP.

    Labels without a clique are on where p_k > 0. Methods may be called from several threads at once.

    Parameters
    ----------
    n_labels : int
        Number of labels K.
    cliques : sequence of tuple of int
        Subsets of at least two different labels, none of them twice.
    method : {"auto", "exact", "mplp"}, default="auto"
        "exact" is elimination and refuses graphs wider than 22. "auto" is elimination up to ``max_width``; above, MPLP
        with branching, and elimination of rows whose search reaches ``max_nodes`` if the width is at most 22. Only
        wider components (none with 23 labels or less) can end with a gap. "mplp" is MPLP without branching.
    max_width : int, default=13
        Width up to which "auto" eliminates outright, at most 22.
    max_sweeps : int, default=1000
        Most sweeps of MPLP over the cliques, at least 1.
    max_nodes : int, default=100000
        Most nodes of the search on a component of a row ("auto"), at least 0.

    Attributes
    ----------
    n_labels : int
        K.
    cliques : tuple of tuple of int
        As given.
    n_columns : int
        Columns of the potentials: K, and 2^|c| for every clique.
    exact : bool
        Whether every answer is exact by construction.
    width : int
        Induced width of the widest component, in the order that was found.

    Examples
    --------
    Label 1 alone would be off; label 0 and the pair turn it on.

    >>> import numpy as np
    >>> engine = Inference(3, [(0, 1)])
    >>> potentials = np.array([[1.0, -0.5, -2.0, 0.0, 0.0, 0.0, 3.0]])
    >>> labels, score, bound = engine.map(potentials)
    >>> labels
    array([[1, 1, 0]], dtype=uint8)
    >>> score, bound
    (array([3.5]), array([3.5]))
    >>> engine.max_marginals(potentials)
    array([[ 3.5,  2.5, -2. ]])
    """

    def __init__(
        self,
        n_labels: int,
        cliques: Sequence[tuple[int, ...]],
        method: str = "auto",
        *,
        max_width: int = 13,
        max_sweeps: int = 1000,
        max_nodes: int = 100_000,
    ) -> None:
        if method not in METHODS:
            raise ValueError(f"method must be one of {METHODS}, got {method!r}")
        if n_labels < 1:
            raise ValueError(f"n_labels must be at least 1, got {n_labels}")
        if not 0 <= max_width <= LARGEST_WIDTH:
            raise ValueError(f"max_width must be between 0 and {LARGEST_WIDTH}, got {max_width}")
        if max_sweeps < 1:
            raise ValueError(f"max_sweeps must be at least 1, got {max_sweeps}")
        if max_nodes < 0:
            raise ValueError(f"max_nodes must be at least 0, got {max_nodes}")
        self.n_labels, self.method, self.max_sweeps = int(n_labels), method, int(max_sweeps)
        self.cliques = checked_cliques(cliques, self.n_labels, "cliques")
        column = _running_sum([1 << len(clique) for clique in self.cliques]) + self.n_labels
        self.n_columns = int(column[-1])
        first_column = dict(zip(self.cliques, column.tolist(), strict=False))
        self._graph = _component(range(self.n_labels), self.cliques, first_column)
        self._searches: list[_Search] = []
        self.width = 0
        self._make_plans(first_column, max_width, max_nodes)
        self.exact = all(search.fallback is not None for search in self._searches)

    def _make_plans(self, first_column: dict[tuple[int, ...], int], max_width: int, max_nodes: int) -> None:
        """Decide how each component is solved."""
        members = components(self.n_labels, self.cliques)
        component_of = {label: m for m, labels in enumerate(members) for label in labels}
        inside: list[list[tuple[int, ...]]] = [[] for _ in members]
        for clique in self.cliques:
            inside[component_of[clique[0]]].append(clique)
        limit = LARGEST_WIDTH if self.method == "exact" else max_width
        eliminable: list[tuple[Order, list[tuple[int, ...]]]] = []
        for labels, own in zip(members, inside, strict=True):
            order = best_order(labels, own)
            self.width = max(self.width, order.width)
            if self.method == "exact" and order.width > limit:
                raise ValueError(
                    f"method='exact' cannot eliminate a component of {len(labels)} labels and {len(own)} cliques: its "
                    f"width is {order.width}, at most {limit} is possible. Use method='auto', or fewer cliques"
                )
            if self.method != "mplp" and order.width <= limit:
                eliminable.append((order, own))
                continue
            fallback, nodes = None, max_nodes
            if self.method == "auto" and order.width <= LARGEST_WIDTH:
                fallback = _elimination([order], own, first_column)
                nodes = min(nodes, order.n_states // 16)  # a node costs as much as about 16 states
            self._searches.append(_Search(_component(labels, own, first_column), order.width, nodes, fallback))
        # Small components share a plan.
        groups: list[tuple[list[Order], list[tuple[int, ...]]]] = []
        filled = POLICY.shared_states
        for order, own in sorted(eliminable, key=lambda planned: planned[0].n_states):
            if filled + order.n_states > POLICY.shared_states:
                groups.append(([], []))
                filled = 0
            groups[-1][0].append(order)
            groups[-1][1].extend(own)
            filled += order.n_states
        self._eliminations = [_elimination(orders, cliques, first_column) for orders, cliques in groups]

    def map(self, potentials: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Best labeling of every row.

        Parameters
        ----------
        potentials : float64 ndarray of shape (n, n_columns), C-contiguous
            Value of every label being on, then of every state of every clique. State 0 of a clique has all its labels
            off; its first label is the most significant bit. Finite.

        Returns
        -------
        labels : uint8 ndarray of shape (n, K)
            The labelings. Of two equally good states of a label, elimination takes off.
        score : ndarray of shape (n,)
            Their scores.
        bound : ndarray of shape (n,)
            Upper bounds of all scores, up to rounding; equal to ``score`` where the labeling is certified to be best.
        """
        self._check(potentials)
        labels, gap = self._labels_and_gap(potentials)
        score = self.score(potentials, labels)
        return labels, score, score + gap

    def best_labels(self, potentials: np.ndarray) -> np.ndarray:
        """The labelings of ``map``, without the cost of their scores.

        Parameters
        ----------
        potentials : float64 ndarray of shape (n, n_columns), C-contiguous
            As for ``map``.

        Returns
        -------
        uint8 ndarray of shape (n, K)
        """
        self._check(potentials)
        return self._labels_and_gap(potentials)[0]

    def score(self, potentials: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Score of one labeling per row.

        Parameters
        ----------
        potentials : float64 ndarray of shape (n, n_columns), C-contiguous
            As for ``map``.
        labels : uint8 ndarray of shape (n, K)
            Labelings.

        Returns
        -------
        ndarray of shape (n,)
        """
        self._check(potentials)
        if labels.shape != (len(potentials), self.n_labels) or labels.dtype != np.uint8:
            raise ValueError(
                f"labels must be uint8 of shape {(len(potentials), self.n_labels)}, got {labels.dtype} {labels.shape}"
            )
        score = np.empty(len(potentials))
        labeling_scores(potentials, np.ascontiguousarray(labels), self._graph, score)
        return score

    def max_marginals(self, potentials: np.ndarray) -> np.ndarray:
        """Best score with a label on minus best score with it off, for every row and label.

        Exact where elimination is used. On other components these are differences of the best scores found with the
        label fixed to either value: exact if these searches are complete, as they are where ``exact`` holds.

        Parameters
        ----------
        potentials : float64 ndarray of shape (n, n_columns), C-contiguous
            As for ``map``.

        Returns
        -------
        ndarray of shape (n, K)
        """
        self._check(potentials)
        rows = np.arange(len(potentials))
        difference = potentials[:, : self.n_labels].copy()
        for plan, block in self._eliminations:
            eliminate_both_ways(potentials, rows, plan, block, difference)
        for search in self._searches:
            if search.fallback is not None and search.width <= POLICY.marginal_width:
                eliminate_both_ways(potentials, rows, *search.fallback, difference)
            else:
                self._fix_each_label(search, potentials, rows, difference)
        return difference

    def _labels_and_gap(self, potentials: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Labels of every row and upper bound minus score."""
        rows = np.arange(len(potentials))
        labels = (potentials[:, : self.n_labels] > 0.0).view(np.uint8)
        gap = np.zeros(len(potentials))
        for plan, block in self._eliminations:
            eliminate(potentials, rows, plan, block, labels)
        for search in self._searches:
            own_score, own_gap = self._search(search, potentials, rows, -1, labels)
            if search.fallback is not None:
                eliminate(potentials, np.flatnonzero(own_gap), *search.fallback, labels)
            else:
                self._sweep_open_rows(search, potentials, labels, own_score, own_gap)
                gap += own_gap
        return labels, gap

    def _sweep_open_rows(
        self, search: _Search, potentials: np.ndarray, labels: np.ndarray, score: np.ndarray, gap: np.ndarray
    ) -> None:
        """Run MPLP to its end on rows whose search, which stops MPLP early, left a gap; keep the better result."""
        rows = np.flatnonzero(gap)
        if self.method == "mplp" or len(rows) == 0:
            return
        swept = labels.copy()
        swept_score, swept_gap = self._search(search, potentials, rows, -1, swept, sweeps_only=True)
        bound = np.minimum(score[rows] + gap[rows], swept_score[rows] + swept_gap[rows])
        better = rows[swept_score[rows] > score[rows]]
        labels[better], score[better] = swept[better], swept_score[better]
        gap[rows] = np.maximum(bound - score[rows], 0.0)

    def _search(
        self,
        search: _Search,
        potentials: np.ndarray,
        rows: np.ndarray,
        fixed: int,
        labels: np.ndarray,
        *,
        sweeps_only: bool = False,
    ) -> tuple[np.ndarray, np.ndarray]:
        """MPLP and branching; writes ``labels``, returns scores on the component and gaps."""
        score, gap = np.empty(len(potentials)), np.empty(len(potentials))
        sweeps_only = sweeps_only or self.method == "mplp"
        min_progress, max_nodes = (0.0, 0) if sweeps_only else (POLICY.min_progress, search.max_nodes)
        limits = (self.max_sweeps, min_progress, max_nodes)
        solve_rows(potentials, rows, search.component, fixed, *limits, labels, score, gap)
        return score, gap

    def _fix_each_label(
        self, search: _Search, potentials: np.ndarray, rows: np.ndarray, difference: np.ndarray
    ) -> None:
        """Max-marginals of a component, from its best labeling and the best one with each label flipped."""
        best_labels = np.empty((len(potentials), self.n_labels), dtype=np.uint8)
        best, gap = self._search(search, potentials, rows, -1, best_labels)
        for k, label in enumerate(search.component.label):
            labels = best_labels.copy()
            labels[:, label] ^= 1
            other, other_gap = self._search(search, potentials, rows, k, labels)
            difference[:, label] = np.where(best_labels[:, label] == 1, best - other, other - best)
            gap = np.maximum(gap, other_gap)
        if search.fallback is not None:
            eliminate_both_ways(potentials, np.flatnonzero(gap), *search.fallback, difference)

    def _check(self, potentials: Any) -> None:
        if not (
            isinstance(potentials, np.ndarray)
            and potentials.dtype == np.float64
            and potentials.ndim == 2
            and potentials.shape[1] == self.n_columns
            and potentials.flags.c_contiguous
        ):
            raise ValueError(
                f"potentials must be a C-contiguous float64 array of shape (n, {self.n_columns}), got "
                f"{getattr(potentials, 'dtype', type(potentials).__name__)} {np.shape(potentials)}"
            )


def _running_sum(sizes: Sequence[int]) -> np.ndarray:
    return np.cumsum([0, *sizes], dtype=np.int64)


def _elimination(
    orders: Sequence[Order], cliques: Sequence[tuple[int, ...]], first_column: dict[tuple[int, ...], int]
) -> _Elimination:
    plan = elimination_plan(orders, cliques, first_column)
    return _Elimination(plan, min(64, max(1, POLICY.block_entries // int(plan.message[-1]))))


def _component(
    labels: Sequence[int], cliques: Sequence[tuple[int, ...]], first_column: dict[tuple[int, ...], int]
) -> Component:
    place = {label: k for k, label in enumerate(labels)}
    cliques_of: list[list[tuple[int, int]]] = [[] for _ in labels]
    for c, clique in enumerate(cliques):
        for t, label in enumerate(clique):
            cliques_of[place[label]].append((c, 1 << (len(clique) - 1 - t)))
    flat = np.array([pair for own in cliques_of for pair in own], dtype=np.int64).reshape(-1, 2)
    return Component(
        label=np.array(labels, dtype=np.int64),
        start=_running_sum([len(clique) for clique in cliques]),
        member=np.array([place[label] for clique in cliques for label in clique], dtype=np.int64),
        column=np.array([first_column[clique] for clique in cliques], dtype=np.int64),
        table=_running_sum([1 << len(clique) for clique in cliques]),
        clique_start=_running_sum([len(own) for own in cliques_of]),
        clique=np.ascontiguousarray(flat[:, 0]),
        bit=np.ascontiguousarray(flat[:, 1]),
    )
