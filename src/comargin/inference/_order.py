"""Connected components of a label graph, and good orders of elimination."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Order(NamedTuple):
    """An order of elimination.

    labels : in this order; scopes : for each, the labels that its message depends on, in the order of elimination.
    """

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
    leader = list(range(n_labels))

    def find(label: int) -> int:
        while leader[label] != label:
            leader[label] = leader[leader[label]]
            label = leader[label]
        return label

    for clique in cliques:
        for label in clique[1:]:
            a, b = find(clique[0]), find(label)
            leader[max(a, b)] = min(a, b)
    members: dict[int, list[int]] = {}
    for label in sorted({label for clique in cliques for label in clique}):
        members.setdefault(find(label), []).append(label)
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
    orders = [_greedy(neighbours, _fill_in, reach=2), _greedy(neighbours, _no_fill_in, reach=1)]
    best = min(orders, key=lambda order: order.n_states)
    return Order(
        tuple(labels[k] for k in best.labels),
        tuple(tuple(labels[k] for k in scope) for scope in best.scopes),
    )


def _bits(members: int) -> list[int]:
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


def _no_fill_in(neighbours: list[int], k: int) -> int:
    return 0


def _greedy(neighbours: list[int], cost: Callable[[list[int], int], int], reach: int) -> Order:
    """Eliminate a label of smallest (cost, degree, index) until none is left.

    Eliminating a label changes the degrees of its neighbours and the fill-in of their neighbours: ``reach`` says how
    far costs are renewed.
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
        if around == left:  # all that is left is one clique now: any order is as good
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
