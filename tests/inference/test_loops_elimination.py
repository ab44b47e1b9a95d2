"""Elimination over blocks of rows against all labelings; buckets wider than one index table."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.inference import brute

from comargin.inference._loops_clique_scores import labeling_scores
from comargin.inference._loops_elimination import LOW_BITS, bucket, eliminate, eliminate_both_ways, load_block
from comargin.inference._plan import best_order, components, elimination_plan
from comargin.inference.engine import _component

GRAPHS = {
    "edge": (2, [(1, 0)]),
    "chain": (5, [(0, 1), (2, 1), (2, 3), (4, 3)]),
    "two components": (6, [(0, 4), (1, 2), (2, 5), (5, 1)]),
    "triple": (4, [(2, 0, 3), (1, 0)]),
    "order 4": (5, [(4, 1, 0, 2), (3, 1), (2, 3, 4)]),
    "wide": (LOW_BITS + 3, list(itertools.combinations(range(LOW_BITS + 3), 2))),
}


def make_plan(n_labels, cliques):
    orders = [best_order(own, [c for c in cliques if c[0] in own]) for own in components(n_labels, cliques)]
    first = n_labels + np.cumsum([0, *(2 ** len(c) for c in cliques)])
    return elimination_plan(orders, cliques, dict(zip(cliques, first.tolist(), strict=False))), first


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("block", [1, 4, 64])
def test_both_directions_equal_brute_force(name, block, rng):
    n_labels, cliques = GRAPHS[name]
    plan, first = make_plan(n_labels, cliques)
    n = 3 if name == "wide" else 9
    P = rng.normal(size=(n, first[-1]))
    P[1] = rng.integers(-1, 2, size=first[-1])
    scores = brute.all_scores(n_labels, cliques, P)
    rows = np.arange(n - 1, 0, -1)  # not the first
    labels = np.full((n, n_labels), 7, dtype=np.uint8)
    labels[rows] = P[rows, :n_labels] > 0
    eliminate(P, rows, plan, block, labels)
    assert_allclose(brute.scores_of(labels[rows], scores[rows]), scores[rows].max(axis=1), rtol=1e-12)
    assert np.all(labels[0] == 7)
    difference = np.full((n, n_labels), np.nan)
    difference[rows] = P[rows, :n_labels]
    eliminate_both_ways(P, rows, plan, block, difference)
    assert_allclose(difference[rows], brute.max_marginals(n_labels, scores)[rows], atol=1e-12)
    assert np.isnan(difference[0]).all()
    eliminate(P, rows[:0], plan, block, labels)  # no rows


def test_ties_are_off():
    plan, first = make_plan(3, [(0, 1), (1, 2)])
    labels = np.ones((2, 3), dtype=np.uint8)
    eliminate(np.zeros((2, first[-1])), np.arange(2), plan, 64, labels)
    assert not labels.any()


def test_bucket_is_the_sum_of_its_sources(rng):
    cliques = [(0, 1), (2, 0, 1), (0, 2)]
    plan, first = make_plan(3, cliques)
    P = rng.normal(size=(2, first[-1]))
    values = np.empty((plan.message[-1], 2))
    load_block(P, np.arange(2), 0, 2, plan.column, values)
    assert_array_equal(values[: len(plan.column)], P.T[plan.column])
    off, on = np.empty((4, 2)), np.empty((4, 2))
    bucket(plan, 0, values, 2, off, on)
    label, (a, b) = plan.label[0], plan.scope[:2]
    # All three cliques are in the bucket of the first label that has them; what is left is a bucket of its own.
    bucket_of_first = [c for c in cliques if label in c]
    for j in range(4):
        for state, table in ((0, off), (1, on)):
            y = np.zeros(3, dtype=int)
            y[a], y[b], y[label] = j & 1, j >> 1, state
            expected = state * P[:, label]
            for c in bucket_of_first:
                expected = expected + P[:, first[cliques.index(c)] + int("".join(str(y[k]) for k in c), 2)]
            assert_allclose(table[j], expected, rtol=1e-13)


def test_labeling_scores(rng):
    n_labels, cliques = GRAPHS["order 4"]
    first = n_labels + np.cumsum([0, *(2 ** len(c) for c in cliques)])
    P = rng.normal(size=(32, first[-1]))
    labels = brute.labelings(n_labels).astype(np.uint8)
    graph = _component(range(n_labels), cliques, dict(zip(cliques, first.tolist(), strict=False)))
    score = np.empty(32)
    labeling_scores(P, labels, graph, score)
    assert_allclose(score, brute.all_scores(n_labels, cliques, P).diagonal(), rtol=1e-12)
