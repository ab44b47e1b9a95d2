"""MPLP and its search: what updates must not change, what they must lower, and all labelings of tiny graphs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.inference import brute

from comargin.inference._loops_branch import branch_and_bound
from comargin.inference._loops_clique_scores import component_score
from comargin.inference._loops_mplp import clamp_label, improve, load_row, solve_rows, sweep, update_clique, update_pair
from comargin.inference.engine import _component

GRAPHS = {
    "triangle": (3, [(0, 1), (2, 1), (0, 2)]),
    "dense": (5, [(i, j) for i in range(5) for j in range(i)]),
    "orders 2 to 4": (5, [(3, 1), (2, 0, 4), (1, 4, 0, 3), (0, 1)]),
}


@pytest.fixture(params=GRAPHS)
def graph(request):
    n_labels, cliques = GRAPHS[request.param]
    first = n_labels + np.cumsum([0, *(2 ** len(c) for c in cliques)])
    component = _component(range(n_labels), cliques, dict(zip(cliques, first.tolist(), strict=False)))
    return n_labels, cliques, component, int(first[-1])


def value_of_all(n_labels, cliques, belief, tables):
    """Sum of beliefs and tables, for every labeling."""
    potentials = np.concatenate([belief[:, 1] - belief[:, 0], tables])[None]
    return brute.all_scores(n_labels, cliques, potentials)[0] + belief[:, 0].sum()


def loaded(row, component):
    belief, tables = np.empty((len(component.label), 2)), np.empty(component.table[-1])
    return load_row(row, component, belief, tables), belief, tables


def test_sweeps_change_no_score_and_lower_the_bound(graph, rng):
    n_labels, cliques, component, n_columns = graph
    row = 3.0 * rng.normal(size=n_columns)
    scale, belief, tables = loaded(row, component)
    scores = brute.all_scores(n_labels, cliques, row[None])[0]
    assert scale >= np.abs(scores).max()
    bounds = [belief.max(axis=1).sum() + sum(t.max() for t in np.split(tables, component.table[1:-1]))]
    for _ in range(12):
        bounds.append(sweep(component, belief, tables))
        assert_allclose(value_of_all(n_labels, cliques, belief, tables), scores, atol=1e-12 * scale)
        assert_allclose([t.max() for t in np.split(tables, component.table[1:-1])], 0.0, atol=1e-14 * scale)
        assert_allclose(bounds[-1], belief.max(axis=1).sum(), rtol=1e-14)
    assert np.all(np.diff(bounds) <= 1e-13 * scale)
    assert bounds[-1] >= scores.max() - 1e-13 * scale
    assert bounds[-1] < bounds[0]


def test_pairs_are_cliques_of_order_two(rng):
    belief, tables = rng.normal(size=(3, 2)), rng.normal(size=6)
    other_belief, other_tables = belief.copy(), tables.copy()
    update_pair(belief, 2, 0, tables, 1)
    update_clique(other_belief, np.array([1, 2, 0]), 1, 3, other_tables, 1)
    assert_allclose(belief, other_belief, rtol=1e-14)
    assert_allclose(tables, other_tables, atol=1e-15)
    assert np.abs(belief[2]).max() > 0.01


@pytest.mark.parametrize("value", [0, 1])
def test_clamping_makes_a_label_irrelevant(graph, value, rng):
    n_labels, cliques, component, n_columns = graph
    row = rng.normal(size=n_columns)
    scores = brute.all_scores(n_labels, cliques, row[None])[0]
    Y = brute.labelings(n_labels)
    for k in range(n_labels):
        _, belief, tables = loaded(row, component)
        clamp_label(component, k, value, belief, tables)
        clamped = value_of_all(n_labels, cliques, belief, tables)
        agree = Y[:, k] == value
        assert_allclose(clamped[agree], scores[agree], atol=1e-13)
        assert_allclose(np.sort(clamped[~agree]), np.sort(scores[agree]), atol=1e-13)


def test_improve_ends_where_no_flip_helps(graph, rng):
    n_labels, cliques, component, n_columns = graph
    row = rng.normal(size=n_columns)
    scores = brute.all_scores(n_labels, cliques, row[None])
    for fixed in (-1, 1):
        for start in brute.labelings(n_labels).astype(np.uint8):
            y, state = start.copy(), np.empty(len(cliques), dtype=np.int64)
            before = component_score(row, component, y, state)
            assert_allclose(before, brute.scores_of(start[None], scores)[0], atol=1e-13)
            improve(row, component, fixed, y, state)
            kept = state.copy()
            after = component_score(row, component, y, state)
            assert_array_equal(state, kept)
            assert after >= before
            flipped = y ^ np.eye(n_labels, dtype=np.uint8)
            flipped = flipped[np.arange(n_labels) != fixed]
            assert np.all(brute.scores_of(flipped, np.repeat(scores, len(flipped), axis=0)) <= after + 1e-12)
            if fixed >= 0:
                assert y[fixed] == start[fixed]


def test_search_ends_with_the_best_and_gives_up_with_a_bound(graph, rng):
    n_labels, cliques, component, n_columns = graph
    Y = brute.labelings(n_labels)
    for fixed, value in ((-1, 0), (2, 0), (2, 1)):
        row = rng.normal(size=n_columns)
        scores = brute.all_scores(n_labels, cliques, row[None])
        allowed = scores[0] if fixed < 0 else scores[0, Y[:, fixed] == value]
        finished = 0
        for max_nodes in (1, 3, 6, 12, 200):
            _, belief, tables = loaded(row, component)
            if fixed >= 0:
                clamp_label(component, fixed, value, belief, tables)
            bound = sweep(component, belief, tables)
            y = np.zeros(n_labels, dtype=np.uint8)
            found, new = branch_and_bound(
                row, component, belief, tables, fixed, value, max_nodes, 1e-12, bound, -np.inf, y
            )
            assert allowed.max() - 1e-11 <= new <= bound + 1e-11
            if np.isfinite(found):
                assert_allclose(found, brute.scores_of(y[None], scores)[0], atol=1e-13)
            if new == found:
                finished += 1
                assert_allclose(found, allowed.max(), atol=1e-11)
        assert new == found
        assert finished < 5


@pytest.mark.parametrize(("max_nodes", "max_sweeps"), [(0, 50), (0, 1), (1000, 50), (1000, 1)])
def test_rows_of_a_component(graph, max_nodes, max_sweeps, rng):
    n_labels, cliques, component, n_columns = graph
    P = rng.normal(size=(4, n_columns))
    P[2] = rng.integers(-1, 2, size=n_columns)
    scores = brute.all_scores(n_labels, cliques, P)
    Y = brute.labelings(n_labels)
    rows = np.array([3, 0, 2])
    for fixed in (-1, 0):
        labels = np.ones((4, n_labels), dtype=np.uint8)
        labels[3] = 0
        score, gap = np.full(4, np.nan), np.full(4, np.nan)
        solve_rows(P, rows, component, fixed, max_sweeps, 0.0, max_nodes, labels, score, gap)
        assert_allclose(score[rows], brute.scores_of(labels, scores)[rows], atol=1e-13)
        assert np.isnan(score[1])
        assert np.isnan(gap[1])
        assert np.all(gap[rows] >= 0.0)
        for i in rows:
            allowed = scores[i] if fixed < 0 else scores[i, Y[:, 0] == labels[i, 0]]
            assert score[i] + gap[i] >= allowed.max() - 1e-11
            if fixed >= 0:
                assert labels[i, 0] == (i != 3)
        if max_nodes:
            assert_array_equal(gap[rows], 0.0)
