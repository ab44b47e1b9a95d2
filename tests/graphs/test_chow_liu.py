"""Chow-Liu tree against mutual information by loops and against all spanning trees."""

import itertools
import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import chi2_contingency
from sklearn.metrics import mutual_info_score

from comargin.graphs import chow_liu_tree


def loop_information(Y, i, j, smoothing=0.0):
    n = len(Y)
    total = 0.0
    for a, b in itertools.product((0, 1), repeat=2):
        p_a, p_b = np.mean(Y[:, i] == a), np.mean(Y[:, j] == b)
        joint = np.mean((Y[:, i] == a) & (Y[:, j] == b))
        joint = (n * joint + smoothing * p_a * p_b) / (n + smoothing)
        if joint > 0:
            total += joint * math.log(joint / (p_a * p_b))
    return total


def is_forest(edges, L):
    parent = list(range(L))

    def root(v):
        while parent[v] != v:
            v = parent[v]
        return v

    for i, j in edges:
        if root(i) == root(j):
            return False
        parent[root(i)] = root(j)
    return True


def best_tree_weight(weights):
    """Largest total weight over all spanning trees, by trying every set of L - 1 pairs."""
    L = len(weights)
    pairs = list(itertools.combinations(range(L), 2))
    return max(
        sum(weights[i, j] for i, j in edges) for edges in itertools.combinations(pairs, L - 1) if is_forest(edges, L)
    )


def random_labels(seed, n=40, L=6):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, L)) < rng.uniform(0.2, 0.7, L)).astype(int)
    for column in range(1, L):  # dependence: copy some entries from an earlier label
        source = rng.integers(0, column)
        copied = rng.random(n) < rng.uniform(0.1, 0.8)
        Y[copied, column] = Y[copied, source]
    return Y


@pytest.mark.parametrize("L", [2, 3, 5, 6])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("smoothing", [0.0, 5.0])
def test_the_tree_is_the_best_of_all_spanning_trees(seed, L, smoothing):
    Y = random_labels(seed, L=L)
    weights = np.zeros((L, L))
    for i, j in itertools.combinations(range(L), 2):
        weights[i, j] = loop_information(Y, i, j, smoothing)
    tree = chow_liu_tree(Y, smoothing=smoothing)
    assert is_forest(tree.edges.tolist(), L)
    assert len(tree.edges) == L - 1
    assert_allclose(tree.edge_weights, [weights[i, j] for i, j in tree.edges], rtol=1e-12)
    assert_allclose(tree.edge_weights.sum(), best_tree_weight(weights), rtol=1e-12)
    assert tree.edge_weights.sum() > 1e-3


def test_mutual_information_agrees_with_scikit_learn_and_scipy():
    Y = random_labels(7, L=2)
    weight = chow_liu_tree(Y).edge_weights[0]
    assert_allclose(weight, mutual_info_score(Y[:, 0], Y[:, 1]), rtol=1e-12)
    table = [[np.sum((Y[:, 0] == a) & (Y[:, 1] == b)) for b in (0, 1)] for a in (0, 1)]
    g = chi2_contingency(table, correction=False, lambda_="log-likelihood").statistic
    assert_allclose(weight, g / (2 * len(Y)), rtol=1e-12)


def test_weak_dependence_is_not_lost_to_rounding():
    """One row short of independence among 4 million: I = D^2 / (2 n^4 p(1-p)q(1-q)) to first order."""
    n = 4_000_000
    columns = np.zeros((n, 2), dtype=np.int8)
    columns[: n // 2, 0] = 1
    columns[n // 4 - 1 : 3 * n // 4 - 1, 1] = 1  # n/4 + 1 rows with both
    excess = n * (n // 4 + 1) - (n // 2) ** 2
    expected = excess**2 / (2 * n**4 / 16)
    assert_allclose(chow_liu_tree(sp.csr_array(columns)).edge_weights, expected, rtol=1e-6)


def test_deterministic_dependence_with_empty_cells():
    Y = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]])
    entropy = -(0.4 * math.log(0.4) + 0.6 * math.log(0.6))
    assert_allclose(chow_liu_tree(Y).edge_weights, entropy, rtol=1e-14)


def test_independent_and_constant_labels_stay_isolated():
    """Labels 0, 1 independent of each other; 2 copies 1; 3 never, 4 always on."""
    a, b = np.repeat([0, 1], 4), np.tile([0, 1], 4)
    Y = np.column_stack([a, b, b, np.zeros(8), np.ones(8)]).astype(int)
    for smoothing in (0.0, 2.0):
        tree = chow_liu_tree(Y, smoothing=smoothing, label_names=list("abcde"))
        assert tree.isolated == ("a", "d", "e")
        assert [edge[:2] for edge in tree.top_edges()] == [("b", "c")]


def test_no_positives_one_label_one_row():
    for Y in (np.zeros((5, 3)), [[1]], [[1, 0, 1]]):
        tree = chow_liu_tree(Y)
        assert tree.n_labels == np.asarray(Y).shape[1]
        assert tree.edges.shape == (0, 2)


def test_ties_are_settled_by_label_order():
    column = np.array([0, 1, 1, 0, 1])
    tree = chow_liu_tree(np.column_stack([column] * 4))
    assert_array_equal(tree.edges, [[0, 1], [0, 2], [0, 3]])


def test_sparse_dense_and_types_agree():
    Y = random_labels(3)
    expected = chow_liu_tree(Y)
    for same in (Y.astype(bool), Y.astype(float), sp.csr_array(Y), sp.csr_matrix(Y)):
        assert_array_equal(chow_liu_tree(same).to_array(), expected.to_array())


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="Y must be a label indicator"):
        chow_liu_tree([[0, 3]])
    with pytest.raises(ValueError, match="smoothing must be"):
        chow_liu_tree([[0, 1]], smoothing=-1)
