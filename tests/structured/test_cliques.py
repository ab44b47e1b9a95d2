"""Cliques, their states and columns against loops; Algorithm 3 against other minimisers."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import nnls
from tests.structured.reference_structured import all_labelings, features, label_products, state_signs

from comargin.inference import Inference
from comargin.structured.cliques import MAX_ORDER, CliqueSet, check_cliques, prox_squared_l21

# Labels of a clique in any order, orders two to four, groups that are not contiguous.
MIXED = CliqueSet(5, ((0, 1), (3, 1, 2), (4, 0), (0, 1, 2, 4), (2, 3)), (1, 0, 1, 2, 0))


@pytest.mark.parametrize(
    "given",
    [
        [(1, 0), (2, 0, 3)],
        [[1, 0], [2, 0, 3]],
        (np.array([1, 0], dtype=np.uint8), np.array([2, 0, 3])),
        [(np.int64(1), np.int8(0)), (np.uint16(2), 0, 3)],
    ],
)
def test_checked_cliques_are_sorted_within_and_keep_their_order(given):
    checked = check_cliques(given, 4, "graph")
    assert checked == ((0, 1), (0, 2, 3))
    assert all(type(label) is int for clique in checked for label in clique)
    assert check_cliques(iter(given), 4, "graph") == checked


def test_no_cliques_an_array_of_edges_and_the_largest_clique():
    assert check_cliques([], 3, "graph") == ()
    assert check_cliques(np.empty((0, 2), dtype=int), 3, "graph") == ()
    assert check_cliques(np.array([[2, 1], [0, 2]]), 3, "graph") == ((1, 2), (0, 2))
    assert check_cliques([range(MAX_ORDER)], MAX_ORDER, "graph") == (tuple(range(MAX_ORDER)),)


@pytest.mark.parametrize(
    ("cliques", "message"),
    [
        ([5], r"a clique is a sequence of label indices, got 5"),
        ([None], r"a clique is a sequence of label indices, got None"),
        (["01"], r"a clique is a sequence of label indices, got '01'"),
        ([(0, 1.0)], r"a clique is a sequence of label indices, got \(0, 1\.0\)"),
        ([(0, "1")], r"a clique is a sequence of label indices, got \(0, '1'\)"),
        ([(True, False)], r"a clique is a sequence of label indices, got \(True, False\)"),
        ([[(0, 1)]], r"a clique is a sequence of label indices, got \[\(0, 1\)\]"),
        ([()], r"a clique joins at least two labels, got \(\); every label is a node anyway"),
        ([(0, 1), (1,)], r"a clique joins at least two labels, got \(1,\)"),
        ([(1, 20)], r"clique \(1, 20\) names a label outside 0\.\.19"),
        ([(2, -1)], r"clique \(2, -1\) names a label outside 0\.\.19"),
        ([(3, 1, 3)], r"clique \(3, 1, 3\) repeats a label"),
        ([range(MAX_ORDER + 1)], r"a clique of 13 labels has 2\^13 states; at most 12"),
        ([(0, 1), (2, 3), (1, 0)], r"clique \(1, 0\) comes twice"),
    ],
)
def test_bad_cliques_are_named(cliques, message):
    with pytest.raises(ValueError, match=r"^my_graph: " + message):
        check_cliques(cliques, 20, "my_graph")


@pytest.mark.parametrize("clique", [(0, (1, 2)), (0, True)])
def test_bad_cliques_that_numpy_hides(clique):
    with pytest.raises(ValueError, match=r"^my_graph: a clique is a sequence of label indices, got \(0, "):
        check_cliques([clique], 3, "my_graph")


@pytest.mark.parametrize("groups", [(), (0,), (0, 1, 2)])
def test_groups_must_be_as_many_as_cliques(groups):
    with pytest.raises(ValueError, match=rf"groups must have one int per clique, 2, got {len(groups)}"):
        CliqueSet(3, ((0, 1), (1, 2)), groups)


def test_columns_by_hand():
    assert MIXED.n_columns == 5 + 4 + 8 + 4 + 16 + 4
    assert MIXED.n_groups == 3
    assert_array_equal(MIXED.column, [5, 9, 17, 21, 37, 41])
    assert_array_equal(MIXED.begin, [0, 2, 5, 7, 11, 13])
    assert_array_equal(MIXED.members, [0, 1, 3, 1, 2, 4, 0, 0, 1, 2, 4, 2, 3])
    assert_array_equal(MIXED.group_of_column, [-1] * 5 + [1] * 4 + [0] * 8 + [1] * 4 + [2] * 16 + [0] * 4)
    assert {array.dtype for array in (MIXED.column, MIXED.begin, MIXED.members)} == {np.dtype(np.int32)}


def test_moments_by_hand():
    triple = CliqueSet(4, ((3, 1), (2, 0, 3)), (0, 0))
    assert triple.subsets == ((0,), (1,), (2,), (3,), (1, 3), (0, 2), (0, 3), (2, 3), (0, 2, 3))
    #                                 labels      3, 1          2, 0, 3: 000, 001, 010, 011, 100, 101, 110, 111
    assert_array_equal(triple.moment, [0, 1, 2, 3, -1, 1, 3, 4, -1, 3, 0, 6, 2, 7, 5, 8])
    assert triple.moment.dtype == np.int32


@pytest.mark.parametrize("cliques", [CliqueSet(3), MIXED])
def test_features_are_known_by_their_moments(cliques):
    """psi(y) = E (products of y) + what is the same for all y; no set comes twice, none is missing."""
    labelings = all_labelings(cliques.n_labels)
    psi, products = features(cliques, labelings), label_products(labelings, cliques.subsets)
    E = state_signs(cliques.n_labels, cliques.cliques, cliques.subsets)
    assert_array_equal(psi - psi[0], (products - products[0]) @ E.T)
    assert len(set(cliques.subsets)) == len(cliques.subsets) == np.linalg.matrix_rank(psi - psi[0])


def test_nodes_alone():
    nodes = CliqueSet(3)
    assert (nodes.n_columns, nodes.n_groups) == (3, 0)
    assert_array_equal(nodes.column, [3])
    assert_array_equal(nodes.begin, [0])
    assert nodes.members.shape == (0,)
    assert nodes.members.dtype == np.int32
    assert_array_equal(nodes.group_of_column, [-1, -1, -1])
    assert_array_equal(nodes.moment, [0, 1, 2])
    assert_array_equal(features(nodes, all_labelings(3)), all_labelings(3))
    assert nodes.group_lengths(np.ones(3)).shape == nodes.clique_squares(np.ones(3)).shape == (0,)


def test_scores_of_the_engine_by_loops(rng):
    """The columns of a clique set are the potentials of an inference engine."""
    labelings = all_labelings(5)
    expected = np.zeros((32, MIXED.n_columns))
    for row, y in enumerate(labelings):
        expected[row, :5] = y
        first = 5
        for clique in MIXED.cliques:
            bits = "".join(str(y[label]) for label in clique)
            expected[row, first + int(bits, 2)] = 1.0
            first += 2 ** len(clique)
    assert_array_equal(features(MIXED, labelings), expected)
    potentials = np.tile(rng.normal(size=MIXED.n_columns), (32, 1))
    found = Inference(5, MIXED.cliques).score(potentials, labelings.astype(np.uint8))
    assert_allclose(found, expected @ potentials[0], atol=1e-12)


def test_lengths_by_loops(rng):
    W = rng.normal(size=(3, MIXED.n_columns))
    tables, first = [], 5
    for clique in MIXED.cliques:
        tables.append(W[:, first : first + 2 ** len(clique)])
        first += 2 ** len(clique)
    sqnorms = np.sum(W**2, axis=0)
    assert_allclose(np.sqrt(MIXED.clique_squares(sqnorms)), [np.linalg.norm(table) for table in tables])
    of_group = [[table for table, g in zip(tables, MIXED.groups, strict=True) if g == k] for k in range(3)]
    assert_allclose(MIXED.group_lengths(sqnorms), [np.linalg.norm(np.hstack(some)) for some in of_group])


def test_a_group_without_cliques_has_no_length():
    cliques = CliqueSet(3, ((0, 1), (1, 2)), (0, 2))
    assert_allclose(cliques.group_lengths(np.ones(cliques.n_columns)), [2.0, 0.0, 2.0])


def minimiser(z, step):
    """The same by least squares: 1/2 ||w - z||^2 + 1/2 (sqrt(step) sum w)^2 over w >= 0."""
    return nnls(np.vstack([np.eye(len(z)), np.full(len(z), np.sqrt(step))]), np.append(z, 0.0))[0]


PROX_INPUTS = [
    [3.0, 1.0, 2.0],
    [2.0, 2.0, 2.0, 2.0],
    [5.0, 5.0, 1e-3, 5.0, 0.0],
    [0.0, 0.0, 4.0],
    [7.0],
    [1e-9, 1e6, 1e6],
]


@pytest.mark.parametrize("step", [1e-3, 0.2, 1.0, 50.0])
@pytest.mark.parametrize("lengths", [*PROX_INPUTS, None])
def test_prox_minimises(lengths, step, rng):
    z = rng.exponential(size=12) if lengths is None else np.array(lengths)
    given = z.copy()
    w = prox_squared_l21(z, step)
    assert_array_equal(z, given)
    assert_allclose(w, minimiser(z, step), rtol=1e-8, atol=1e-9 * z.max())
    # w_k = z_k - step sum w where it is positive; z_k <= step sum w where it is zero.
    shortening = step * w.sum()
    assert w.min() >= 0.0
    assert w.max() > 0.0
    assert_allclose(w[w > 0.0], (z - shortening)[w > 0.0], rtol=1e-9, atol=1e-10 * z.max())
    assert np.all(z[w == 0.0] <= shortening * (1 + 1e-12))


def test_prox_by_hand():
    # One group: z / (1 + step). Two kept of three: each shortened by 1/3 (5 + 4) = 3 at step 1; the threshold is 3.
    assert_allclose(prox_squared_l21(np.array([6.0]), 2.0), [2.0])
    assert_allclose(prox_squared_l21(np.array([4.0, 2.0, 5.0]), 1.0), [1.0, 0.0, 2.0])
    # Exactly at the threshold: dropped.
    assert_array_equal(prox_squared_l21(np.array([3.0, 4.0, 5.0]), 1.0), [0.0, 1.0, 2.0])


@pytest.mark.parametrize("lengths", PROX_INPUTS)
def test_prox_of_step_zero_changes_nothing(lengths):
    assert_array_equal(prox_squared_l21(np.array(lengths), 0.0), lengths)


@pytest.mark.parametrize("n_groups", [0, 1, 4])
def test_prox_of_nothing_is_nothing(n_groups):
    assert_array_equal(prox_squared_l21(np.zeros(n_groups), 0.7), np.zeros(n_groups))


def test_prox_of_vectors_keeps_their_directions(rng):
    """The minimiser over whole vectors, by cvxpy, has the lengths of Algorithm 3 and the directions of z."""
    Z = rng.normal(size=(4, 3)) * np.array([[3.0], [2.0], [0.3], [2.5]])
    W = cp.Variable(Z.shape)
    penalty = cp.square(cp.sum(cp.norm(W, 2, axis=1)))
    cp.Problem(cp.Minimize(0.5 * cp.sum_squares(W - Z) + 0.2 * penalty)).solve(solver=cp.CLARABEL)
    z = np.linalg.norm(Z, axis=1)
    lengths = prox_squared_l21(z, 0.4)
    assert 0 < np.count_nonzero(lengths) < 4
    assert_allclose(Z * (lengths / z)[:, None], W.value, atol=1e-5)
