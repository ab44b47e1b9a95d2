"""solve_map and solve_map_factors: tables in, labelings out, and what they refuse."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from comargin.inference import MapResult, solve_map, solve_map_factors


def brute_force(node, cliques, tables):
    """(best score, score of a labeling) in plain loops over one row."""

    def score(y):
        total = sum(node[k][y[k]] for k in range(len(node)))
        return total + sum(table[tuple(y[k] for k in c)] for c, table in zip(cliques, tables, strict=True))

    return max(score(y) for y in itertools.product([0, 1], repeat=len(node))), score


@pytest.mark.parametrize("method", ["auto", "exact", "mplp"])
def test_pairs_equal_loops_over_all_labelings(method, rng):
    n_exact = 0
    for _ in range(150):
        n_labels = int(rng.integers(1, 7))
        n_edges = int(rng.integers(0, 9)) if n_labels > 1 else 0
        # Pairs come twice and reversed.
        edges = np.array([rng.permutation(n_labels)[:2] for _ in range(n_edges)], dtype=np.int32).reshape(-1, 2)
        node, edge = rng.normal(size=(n_labels, 2)), 2 * rng.normal(size=(n_edges, 2, 2))
        result = solve_map(node, edges, edge, method)
        best, score = brute_force(node, edges.tolist(), edge)
        assert isinstance(result.score, float)
        assert isinstance(result.exact, bool)
        assert result.labels.shape == (n_labels,)
        assert_allclose(result.score, score(result.labels), atol=1e-12)
        assert result.bound >= best - 1e-10
        assert result.certified == float(result.exact)
        if method != "mplp" or result.exact:
            assert result.exact
            assert_allclose(result.score, best, atol=1e-10)
        n_exact += result.exact
    assert n_exact > 75


def test_rows_equal_single_calls(rng):
    n, n_labels = 40, 7
    edges = [(i, j) for i in range(n_labels) for j in range(n_labels) if i != j and (i + 2 * j) % 3]
    node, edge = rng.normal(size=(n, n_labels, 2)), rng.normal(size=(n, len(edges), 2, 2))
    result = solve_map(node, edges, edge)
    assert result.labels.shape == (n, n_labels)
    assert result.exact.all()
    assert result.certified == 1.0
    for i in range(n):
        alone = solve_map(node[i], edges, edge[i])
        assert_array_equal(result.labels[i], alone.labels)
        assert_allclose([result.score[i], result.bound[i]], [alone.score, alone.bound], rtol=1e-13)
    # Tables without the axis of rows are those of all rows.
    same = solve_map(node, edges, edge[3])
    assert_array_equal(same.labels, solve_map(node, edges, np.broadcast_to(edge[3], edge.shape)).labels)
    same = solve_map(node[3], edges, edge)
    assert_array_equal(same.labels, solve_map(np.broadcast_to(node[3], node.shape), edges, edge).labels)


def test_factors_equal_loops_over_all_labelings(rng):
    for _ in range(80):
        n_labels = int(rng.integers(4, 8))
        cliques = [rng.permutation(n_labels)[: rng.integers(2, 5)].tolist() for _ in range(rng.integers(0, 7))]
        if cliques:
            cliques.append(cliques[0][::-1])
        tables = [rng.normal(size=(2,) * len(clique)) for clique in cliques]
        node = rng.normal(size=(n_labels, 2))
        result = solve_map_factors(node, cliques, tables)
        best, score = brute_force(node, cliques, tables)
        assert_allclose(result.score, best, atol=1e-10)
        assert_allclose(score(result.labels), best, atol=1e-10)
        assert result.exact


def test_factors_with_rows(rng):
    n, cliques = 9, [(3, 0, 1), (1, 2), (0, 3, 1), (2, 4, 0, 3)]
    node = rng.normal(size=(5, 2))
    tables = [rng.normal(size=(n, *(2,) * len(c))) if c != (1, 2) else rng.normal(size=(2, 2)) for c in cliques]
    result = solve_map_factors(node, cliques, tables, "exact")
    for i in range(n):
        own = [table if table.ndim == len(c) else table[i] for c, table in zip(cliques, tables, strict=True)]
        best, score = brute_force(node, cliques, own)
        assert_allclose([result.score[i], score(result.labels[i])], best, rtol=1e-12)


def test_pairs_are_factors_of_order_two(rng):
    node, edges, edge = rng.normal(size=(3, 4, 2)), [(0, 1), (3, 1)], rng.normal(size=(3, 2, 2, 2))
    a, b = solve_map(node, edges, edge), solve_map_factors(node, edges, [edge[:, 0], edge[:, 1]])
    assert_array_equal(a.labels, b.labels)
    assert_array_equal(a.score, b.score)


def test_small_and_empty():
    one = solve_map([[3.0, 1.0]], [], [])
    assert one == MapResult(one.labels, 3.0, 3.0)
    assert_array_equal(one.labels, [0])
    many = solve_map([[[0, 1], [2, 0]]], np.zeros((0, 2), dtype=int), np.zeros((0, 2, 2)))
    assert_array_equal(many.labels, [[1, 0]])
    assert_array_equal(many.score, [3.0])
    assert solve_map(np.zeros((2, 2)), [], np.zeros((4, 0, 2, 2))).labels.shape == (4, 2)
    none = solve_map(np.zeros((0, 3, 2)), [(0, 2)], np.zeros((0, 1, 2, 2)))
    assert none.labels.shape == (0, 3)
    assert none.score.shape == none.bound.shape == none.exact.shape == (0,)
    assert none.certified == 1.0
    assert_array_equal(solve_map_factors([[0, 1]], [], []).labels, [1])


def test_ties_are_settled_the_same_way_every_time():
    node = np.zeros((6, 2))
    edges = list(itertools.combinations(range(6), 2))
    edge = np.tile([[0, 1], [1, 0]], (15, 1, 1))
    results = [solve_map(node, edges, edge) for _ in range(3)]
    assert {tuple(r.labels) for r in results} == {tuple(results[0].labels)}
    assert results[0].score == results[0].bound == 9.0


def test_result_of_open_rows():
    result = MapResult(np.zeros((4, 1), dtype=np.uint8), np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 2.5, 3.0, 4.5]))
    assert_array_equal(result.exact, [True, False, True, False])
    assert result.certified == 0.5
    assert MapResult(np.zeros(1, dtype=np.uint8), 1.0, 1.5).exact is False
    # A triangle that wants three differences: the relaxation has 3, labelings have 2.
    triangle = solve_map(np.zeros((3, 2)), [(0, 1), (1, 2), (0, 2)], np.tile([[0, 1], [1, 0]], (3, 1, 1)), "mplp")
    assert (triangle.score, triangle.exact) == (2.0, False)
    assert_allclose(triangle.bound, 3.0)


GOOD = (np.zeros((3, 2)), [(0, 1)], np.zeros((1, 2, 2)))


@pytest.mark.parametrize(
    ("position", "value", "message"),
    [
        (0, np.zeros((3, 3)), r"node must have shape \(K, 2\) or \(n, K, 2\)"),
        (0, np.zeros(2), "node must have shape"),
        (0, np.zeros((0, 2)), "node must have shape .* at least one label"),
        (0, [[0, np.nan], [0, 1]], "node must be finite"),
        (0, [["a", "b"]], "node must be an array of real numbers"),
        (0, [[1j, 0]], "node must be an array of real numbers"),
        (0, [[1, 0], [1]], "node must be an array of numbers"),
        (1, [(0, 3)], r"edges: clique \(0, 3\) names a label outside 0\.\.2"),
        (1, [(-1, 0)], r"edges: clique \(-1, 0\) names a label outside 0\.\.2"),
        (1, [(1, 1)], r"edges: clique \(1, 1\) repeats a label"),
        (1, [(0.0, 1.0)], r"edges: a clique is a sequence of label indices, got \(0\.0, 1\.0\)"),
        (1, [(0, 1, 2)], r"edges must have shape \(E, 2\)"),
        (1, [0, 1], "edges: a clique is a sequence of label indices, got 0"),
        (1, [(0, 1), (1, 2)], r"edge must have shape \(2, 2, 2\) or \(n, 2, 2, 2\), got \(1, 2, 2\)"),
        (2, np.zeros((1, 4)), r"edge must have shape \(1, 2, 2\)"),
        (2, np.full((1, 2, 2), np.inf), "edge must be finite"),
        (2, np.full((1, 2, 2), 1e308), "node and edge are too large"),
    ],
)
def test_bad_input_names_the_argument(position, value, message):
    arguments = list(GOOD)
    arguments[position] = value
    with pytest.raises(ValueError, match=message):
        solve_map(*arguments)


def test_more_bad_input():
    with pytest.raises(ValueError, match=r"method must be one of \('auto', 'exact', 'mplp'\), got 'best'"):
        solve_map(*GOOD, method="best")
    with pytest.raises(ValueError, match=r"node and edge must have the same number of rows, got \[4, 5\]"):
        solve_map(np.zeros((4, 3, 2)), [(0, 1)], np.zeros((5, 1, 2, 2)))
    with pytest.raises(ValueError, match="tables must be one per clique, got 1 for 2 cliques"):
        solve_map_factors(np.zeros((3, 2)), [(0, 1), (1, 2)], [np.zeros((2, 2))])
    with pytest.raises(ValueError, match=r"tables\[0\] must have shape \(2, 2, 2\) or \(n, 2, 2, 2\), got \(2, 2\)"):
        solve_map_factors(np.zeros((3, 2)), [(0, 1, 2)], [np.zeros((2, 2))])
    for clique, message in [((0,), "joins at least two"), ((), "joins at least two"), (1, "is a sequence of label")]:
        with pytest.raises(ValueError, match=f"cliques: a clique {message}"):
            solve_map_factors(np.zeros((3, 2)), [clique], [np.zeros(2)])
    with pytest.raises(ValueError, match=r"cliques: clique \(0, 1, 0\) repeats a label"):
        solve_map_factors(np.zeros((3, 2)), [(0, 1, 0)], [np.zeros((2, 2, 2))])
    pairs = list(itertools.combinations(range(24), 2))
    with pytest.raises(ValueError, match="width is 23"):
        solve_map(np.zeros((24, 2)), pairs, np.zeros((len(pairs), 2, 2)), "exact")
