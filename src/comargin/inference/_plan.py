"""Connected components of a label graph, good orders of elimination, and the elimination as a plan of flat arrays.

A plan is made once per graph and run on all rows by ``_loops_elimination.py``.
"""

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ._loops_elimination import LOW_BITS, EliminationPlan
from .cliques import component_of_labels


class Order(NamedTuple):
    """Labels in the order of elimination, and the scope of each one's message in the same order."""

    labels: tuple[int, ...]
    scopes: tuple[tuple[int, ...], ...]

    @property
    def width(self) -> int:
        """Induced width: labels in the largest message."""
        return max((len(scope) for scope in self.scopes), default=0)

    @property
    def n_states(self) -> int:
        """Entries of all messages."""
        return sum(1 << len(scope) for scope in self.scopes)


def components(n_labels: int, cliques: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Labels of each connected component that has a clique, in increasing order; components by smallest label."""
    number = component_of_labels(n_labels, cliques)
    members: dict[int, list[int]] = {}
    for label in sorted(set().union(*cliques)):
        members.setdefault(number[label], []).append(label)
    return [tuple(labels) for labels in members.values()]


def best_order(labels: Sequence[int], cliques: Iterable[tuple[int, ...]]) -> Order:
    """The better, by entries of all messages, of the orders by smallest fill-in and by smallest degree."""
    place = {label: k for k, label in enumerate(labels)}
    neighbours = [0] * len(labels)  # bit sets
    for clique in cliques:
        members = 0
        for label in clique:
            members |= 1 << place[label]
        for label in clique:
            neighbours[place[label]] |= members & ~(1 << place[label])
    orders = [_greedy(neighbours, _fill_in, reach=2), _greedy(neighbours, lambda neighbours, k: 0, reach=1)]
    best = min(orders, key=lambda order: order.n_states)
    return Order(tuple(labels[k] for k in best.labels), tuple(tuple(labels[k] for k in scope) for scope in best.scopes))


def _bits(members: int) -> list[int]:
    """Positions of the bits that are set, increasing."""
    found = []
    while members:
        lowest = members & -members
        found.append(lowest.bit_length() - 1)
        members ^= lowest
    return found


def _fill_in(neighbours: list[int], k: int) -> int:
    """Twice the edges that eliminating k would add."""
    around = neighbours[k]
    return sum((around & ~neighbours[u]).bit_count() - 1 for u in _bits(around))


def _greedy(neighbours: list[int], cost: Callable[[list[int], int], int], reach: int) -> Order:
    """Eliminate a label of smallest (cost, degree, index) until none is left.

    Eliminating a label changes the degrees of its neighbours and the fill-in of their neighbours: costs are recomputed
    at distances up to ``reach``.
    """
    neighbours = list(neighbours)
    n = len(neighbours)
    current = [(cost(neighbours, k), neighbours[k].bit_count(), k) for k in range(n)]
    heap = list(current)
    heapq.heapify(heap)
    left = (1 << n) - 1
    order: list[int] = []
    around_of: list[int] = []
    while left:
        entry = heapq.heappop(heap)
        k = entry[2]
        if not left >> k & 1 or entry != current[k]:
            continue
        around = neighbours[k]
        left &= ~(1 << k)
        order.append(k)
        around_of.append(around)
        if around == left:  # the labels left form one clique: every order is as good
            for k in _bits(around):
                left &= ~(1 << k)
                order.append(k)
                around_of.append(left)
            break
        changed = around
        for u in _bits(around):
            neighbours[u] = (neighbours[u] | around) & ~(1 << u) & ~(1 << k)
            if reach == 2:
                changed |= neighbours[u]
        for u in _bits(changed):
            entry = (cost(neighbours, u), neighbours[u].bit_count(), u)
            if entry != current[u]:
                current[u] = entry
                heapq.heappush(heap, entry)
    rank = {k: t for t, k in enumerate(order)}
    scopes = tuple(tuple(sorted(_bits(around), key=rank.__getitem__)) for around in around_of)
    return Order(tuple(order), scopes)


def elimination_plan(
    orders: Sequence[Order], cliques: Sequence[tuple[int, ...]], first_column: Mapping[tuple[int, ...], int]
) -> EliminationPlan:
    """Plan that eliminates several components, one order each; ``first_column``: where the states of a clique begin."""
    labels = [label for order in orders for label in order.labels]
    scopes = [scope for order in orders for scope in order.scopes]
    step_of = {label: s for s, label in enumerate(labels)}

    # Inputs: p_v of every step, then the states of the cliques in the order of their buckets.
    bucket_of = [min(step_of[label] for label in clique) for clique in cliques]
    by_bucket = sorted(range(len(cliques)), key=bucket_of.__getitem__)
    column = list(labels)
    # Per step: (position of state 0, labels with the stride of each, child step or -1)
    sources: list[list[tuple[int, dict[int, int], int]]] = [[] for _ in labels]
    for c in by_bucket:
        clique = cliques[c]
        strides = {label: 1 << (len(clique) - 1 - t) for t, label in enumerate(clique)}
        sources[bucket_of[c]].append((len(column), strides, -1))
        column.extend(range(first_column[clique], first_column[clique] + (1 << len(clique))))
    message = [len(column)]
    for s, scope in enumerate(scopes):
        if scope:
            sources[step_of[scope[0]]].append((message[-1], {label: 1 << t for t, label in enumerate(scope)}, s))
        message.append(message[-1] + (1 << len(scope)))

    first, level, stride, child, index_start, index = [], [], [], [], [], []
    n_index = 0
    for label, scope, found in zip(labels, scopes, sources, strict=True):
        place = {other: t for t, other in enumerate(scope)}
        by_level = [
            (max((place[o] for o in strides if o != label), default=-1), strides, k, s) for k, strides, s in found
        ]
        for top, strides, k, s in sorted(by_level, key=lambda source: source[0]):
            first.append(k)
            level.append(top)
            stride.append(strides[label])
            child.append(s)
            index_start.append(n_index)
            steps = [strides.get(other, 0) for other in scope]
            for part in (_subset_sums(steps[:LOW_BITS]), _subset_sums(steps[LOW_BITS:])):
                index.append(part)
                n_index += len(part)

    def ints(values: Sequence[int]) -> np.ndarray:
        return np.array(values, dtype=np.int64)

    def running_sum(items: Sequence[Sequence[object]]) -> np.ndarray:
        return np.cumsum([0, *map(len, items)], dtype=np.int64)

    return EliminationPlan(
        column=ints(column),
        label=ints(labels),
        width=ints([len(scope) for scope in scopes]),
        message=ints(message),
        scope_start=running_sum(scopes),
        scope=ints([label for scope in scopes for label in scope]),
        source_start=running_sum(sources),
        first=ints(first),
        level=ints(level),
        stride=ints(stride),
        child=ints(child),
        index_start=ints(index_start),
        index=np.concatenate(index) if index else ints([]),
    )


def _subset_sums(steps: Sequence[int]) -> np.ndarray:
    """Sum of steps[t] over the bits t of j, for every j."""
    sums = np.zeros(1, dtype=np.int64)
    for step in steps:
        sums = np.concatenate([sums, sums + step])
    return sums
