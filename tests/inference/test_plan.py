"""Components and orders of elimination against a literal simulation on sets."""

import itertools

import pytest
from tests.inference import brute

from comargin.inference._plan import best_order, components


def simulated_scopes(labels, cliques):
    """Neighbours of each label when it is eliminated in this order."""
    around = {label: {o for c in cliques if label in c for o in c} - {label} for label in labels}
    scopes = []
    for label in labels:
        scopes.append(around[label])
        for other in around[label]:
            around[other] = (around[other] | around[label]) - {other, label}
    return scopes


@pytest.mark.parametrize("shape", ["tree", "sparse", "loopy", "dense", "higher order"])
def test_scopes_are_those_of_the_order(shape, rng):
    for _ in range(30):
        n_labels, cliques = brute.random_graph(rng, shape)
        for labels in components(n_labels, cliques):
            own = [clique for clique in cliques if clique[0] in labels]
            order = best_order(labels, own)
            assert sorted(order.labels) == list(labels)
            rank = {label: t for t, label in enumerate(order.labels)}
            expected = simulated_scopes(order.labels, own)
            assert [set(scope) for scope in order.scopes] == expected
            assert all(list(scope) == sorted(scope, key=rank.get) for scope in order.scopes)
            assert order.width == max(map(len, expected))
            assert order.n_states == sum(2 ** len(scope) for scope in expected)
            if shape == "tree":
                assert order.width == 1


def grid(rows, columns):
    across = [(columns * a + b, columns * a + b + 1) for a in range(rows) for b in range(columns - 1)]
    return across + [(columns * a + b, columns * (a + 1) + b) for a in range(rows - 1) for b in range(columns)]


@pytest.mark.parametrize(
    ("n_labels", "cliques", "width"),
    [
        (2, [(0, 1)], 1),
        (8, [(k, (k + 1) % 8) for k in range(8)], 2),
        (9, list(itertools.combinations(range(9), 2)), 8),
        (20, grid(4, 5), 4),
        (5, [(0, 1, 2, 3, 4)], 4),
        (7, [(0, k) for k in range(1, 7)], 1),
    ],
    ids=["edge", "cycle", "complete", "grid", "one clique", "star"],
)
def test_width_of_known_graphs(n_labels, cliques, width):
    assert best_order(range(n_labels), cliques).width == width


def test_components():
    assert components(8, [(6, 1), (3, 4), (4, 1), (2, 7)]) == [(1, 3, 4, 6), (2, 7)]
    assert components(3, []) == []
