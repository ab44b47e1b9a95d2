"""The flat plan of a variable elimination, made once per graph and run on all rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ._loops_elimination import LOW_BITS, EliminationPlan
from ._order import Order


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
        unary=np.arange(len(labels), dtype=np.int64),
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
