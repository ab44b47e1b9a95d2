"""StructuredSVMClassifier: the objective, the optimum and the predictions, all labelings written out."""

import itertools
import re

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC
from tests.structured import reference_structured
from tests.structured.reference_structured import (
    all_labelings,
    one_hot_states,
    structured_objective,
    structured_optimum,
)

from comargin import CGMClassifier, StructuredSVMClassifier
from comargin.data import make_cgm_toy
from comargin.graphs import LabelGraph, chow_liu_tree
from comargin.structured import classifier as module

GRAPHS = {
    "none": [],
    "tree": [(0, 1), (1, 2), (1, 3), (3, 4)],
    "loop": [(0, 1), (1, 2), (0, 2)],
    "triple": [(0, 2, 3), (1, 4)],
    "pairs of a triple": [(0, 1, 2), (0, 1), (2, 4)],
    "four": [(0, 1, 2, 4), (3, 4)],
}


def make(rng, n=60, n_features=4, n_labels=5):
    """Labels that follow X, and some of them each other."""
    X = rng.normal(size=(n, n_features))
    Y = (X @ rng.normal(size=(n_features, n_labels)) + 0.7 * rng.normal(size=(n, n_labels)) > 0.2).astype(int)
    for label in range(1, n_labels, 2):
        copied = rng.random(n) < 0.5
        Y[copied, label] = Y[copied, label - 1]
    return X, Y


@pytest.fixture
def data(rng):
    return make(rng)


def fit(X, Y, graph, sample_weight=None, **options):
    options = {"alpha": 0.05, "random_state": 0} | options
    return StructuredSVMClassifier(graph=graph, **options).fit(X, Y, sample_weight=sample_weight)


def blocks(model):
    """Weights as the reference writes them: u_on = coef_ / 2 = -u_off, and tables of the cliques."""
    half = 0.5 * np.column_stack([model.coef_, model.intercept_])
    tables = [np.column_stack(table) for table in zip(model.clique_coef_, model.clique_intercept_, strict=True)]
    return np.stack([-half, half], axis=1), tables


def all_scores(model, X):
    """Scores of all labelings of every row, (n, 2^K); a node that is off counts for nothing."""
    n_labels = len(model.coef_)
    labelings = all_labelings(n_labels)
    scores = (X @ model.coef_.T + model.intercept_) @ labelings.T
    states = one_hot_states(labelings, model.cliques_)[:, 2 * n_labels :]
    for coef, intercept in zip(model.clique_coef_, model.clique_intercept_, strict=True):
        scores += (X @ coef.T + intercept) @ states[:, : len(coef)].T
        states = states[:, len(coef) :]
    return scores


def max_marginals(model, X):
    scores, labelings = all_scores(model, X), all_labelings(len(model.coef_))
    return np.column_stack([scores[:, y > 0].max(axis=1) - scores[:, y == 0].max(axis=1) for y in labelings.T])


def test_a_score_of_two_labels_by_hand():
    """s(y) = y_0 g_0 x + y_1 g_1 x + v_(y_0 y_1) x: the helper that everything here is compared with."""
    X, Y = np.array([[1.0], [-1.0], [2.0], [-0.5]]), np.array([[1, 1], [0, 1], [1, 0], [0, 0]])
    model = fit(X, Y, [(0, 1)])
    (g0,), (g1,) = model.coef_
    v = model.clique_coef_[0][:, 0]
    b = model.clique_intercept_[0]
    by_hand = [
        0,
        g1 * 3.0 + model.intercept_[1],
        g0 * 3.0 + model.intercept_[0],
        (g0 + g1) * 3.0 + sum(model.intercept_),
    ]
    assert_allclose(all_scores(model, np.array([[3.0]]))[0], by_hand + 3.0 * v + b)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_objective_and_predictions_from_the_attributes(graph, storage, rng):
    X, Y = make(rng)
    cliques = GRAPHS[graph]
    given = sp.csr_array(X) if storage == "csr" else X
    model = fit(given, Y, cliques)
    assert model.cliques_ == cliques
    assert [coef.shape for coef in model.clique_coef_] == [(2 ** len(c), 4) for c in cliques]
    assert [intercept.shape for intercept in model.clique_intercept_] == [(2 ** len(c),) for c in cliques]
    u, tables = blocks(model)
    assert_allclose(structured_objective(X, Y, cliques, None, 0.05, u, tables), model.objective_, rtol=1e-9)
    assert 0.0 <= model.duality_gap_ <= 1e-3 * model.objective_
    assert_allclose(model.clique_norms_, [np.linalg.norm(table) for table in tables], rtol=1e-12)
    new = rng.normal(size=(40, 4))
    new_given = sp.csr_array(new) if storage == "csr" else new
    scores = all_scores(model, new)
    assert_allclose(model.decision_function(new_given), max_marginals(model, new), rtol=1e-9, atol=1e-11)
    best = all_labelings(5)[np.argmax(scores, axis=1)]
    assert_array_equal(model.predict(new_given), best)
    assert len(np.unique(best, axis=0)) > 3
    found = model.predict_map(new_given)
    assert_array_equal(found.labels, best)
    assert_allclose(found.score, scores.max(axis=1), rtol=1e-12)
    assert_array_equal(found.bound, found.score)
    assert found.certified == 1.0


def test_without_intercept(data, rng):
    X, Y = data
    cliques = GRAPHS["pairs of a triple"]
    model = fit(X, Y, cliques, fit_intercept=False, tol=1e-5)
    assert not model.intercept_.any()
    assert not any(intercept.any() for intercept in model.clique_intercept_)
    u, tables = blocks(model)
    u, tables = u[:, :, :-1], [table[:, :-1] for table in tables]
    value = structured_objective(X, Y, cliques, None, 0.05, u, tables, fit_intercept=False)
    assert_allclose(model.objective_, value, rtol=1e-9)
    optimum, _, _ = structured_optimum(X, Y, cliques, None, 0.05, fit_intercept=False)
    assert_allclose(model.objective_, optimum, rtol=3e-5)
    new = rng.normal(size=(20, 4))
    assert_allclose(model.decision_function(new), max_marginals(model, new), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("groups", [None, [0, 1, 1, 2, 2]])
@pytest.mark.parametrize("alpha", [0.2, 0.01, 1e-3])
def test_fixed_graphs_reach_the_independent_optimum(alpha, groups, rng):
    X, Y = make(rng, n=40, n_features=3, n_labels=6)
    cliques = [(0, 1), (1, 2), (2, 3), (3, 4, 5), (0, 5)]
    optimum, _, _ = structured_optimum(X, Y, cliques, groups, alpha)
    model = fit(X, Y, cliques, groups=groups, alpha=alpha, tol=1e-5)
    assert np.linalg.norm(model.coef_) > 1e-2
    assert_allclose(model.objective_, optimum, rtol=1e-4)
    assert model.dual_objective_ <= optimum * (1 + 1e-7)
    assert model.objective_ >= optimum * (1 - 1e-7)


def test_groups_across_connected_parts(rng):
    """Parts are solved on their own, but share the weights of the groups."""
    X, Y = make(rng, n=40, n_features=3, n_labels=6)
    cliques, groups = [(0, 1), (1, 2), (3, 4), (4, 5)], [0, 1, 0, 2]
    optimum, _, tables = structured_optimum(X, Y, cliques, groups, 0.05)
    model = fit(X, Y, cliques, groups=groups, tol=1e-5)
    assert_allclose(model.objective_, optimum, rtol=1e-4)
    assert model.dual_objective_ <= optimum * (1 + 1e-7)
    assert_allclose(model.clique_norms_, [np.linalg.norm(table) for table in tables], rtol=0.1, atol=0.05)


def test_useless_groups_are_dropped_exactly(rng):
    """Label 3 is the parity of two coins, 2 is known from X and 4 is another coin: only the triple is worth weights."""
    X, coins = rng.normal(size=(120, 2)), rng.integers(0, 2, size=(120, 3))
    Y = np.column_stack([coins[:, 0], coins[:, 1], X[:, 0] > 0, coins[:, 0] ^ coins[:, 1], coins[:, 2]]).astype(int)
    cliques, groups = [(0, 1, 3), (2, 4)], [0, 1]
    optimum, _, tables = structured_optimum(X, Y, cliques, groups, 0.3)
    lengths = [np.linalg.norm(table) for table in tables]
    assert lengths[1] < 1e-3 < 1.0 < lengths[0]
    model = fit(X, Y, cliques, groups=groups, alpha=0.3, tol=1e-5)
    assert model.clique_norms_[1] == 0.0
    assert not model.clique_coef_[1].any()
    assert_allclose(model.clique_norms_[0], lengths[0], rtol=1e-2)
    assert_allclose(model.objective_, optimum, rtol=2e-5)
    assert model.label_graph_.edges.tolist() == [[0, 1], [0, 3], [1, 3]]
    assert model.label_graph_.isolated == ("label_2", "label_4")
    # A clique without weights is left out of inference, and predictions are the same.
    assert_allclose(model.decision_function(X), max_marginals(model, X), rtol=1e-9, atol=1e-11)


def test_one_label_per_part_is_a_linear_svm(data):
    """Without cliques: alpha/4 |g|^2 + mean hinge, LIBLINEAR's problem at C = 2 / (alpha n)."""
    X, Y = data
    model = fit(X, Y, "none", tol=1e-8, alpha=0.1, max_iter=20_000)
    for k in range(5):
        svm = LinearSVC(loss="hinge", C=2 / (0.1 * 60), tol=1e-9, max_iter=10**6, random_state=0).fit(X, Y[:, k])
        assert_allclose(model.coef_[k], svm.coef_[0], rtol=1e-2, atol=2e-3)
    assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_, rtol=1e-12)
    assert model.clique_norms_.shape == (0,)
    assert model.label_graph_.isolated == tuple(f"label_{k}" for k in range(5))


def test_the_label_graph_adds_up_all_cliques_of_a_pair(data):
    model = fit(*data, GRAPHS["pairs of a triple"])
    triple, pair, other = model.clique_norms_
    assert min(triple, pair, other) > 1e-3
    expected = np.zeros((5, 5))
    expected[0, 1] = np.hypot(triple, pair)
    expected[0, 2] = expected[1, 2] = triple
    expected[2, 4] = other
    assert_allclose(model.label_graph_.to_array(), expected + expected.T, rtol=1e-12)
    assert model.label_graph_.isolated == ("label_3",)


def test_prediction_in_blocks(data, monkeypatch):
    X, Y = data
    model = fit(X, Y, GRAPHS["triple"])
    expected = model.predict(X), model.decision_function(X), model.predict_map(X)
    sizes = []
    row_blocks = module.row_blocks

    def counted(n_rows, size):
        sizes.append(size)
        return row_blocks(n_rows, size)

    monkeypatch.setattr(module, "row_blocks", counted)
    n_columns = 5 + 8 + 4
    for n_bytes, size in [(1, 1), (8 * n_columns * 7 + 5, 7)]:
        monkeypatch.setattr(module, "_BLOCK_BYTES", n_bytes)
        for rows in (X, sp.csr_array(X)):
            assert_array_equal(model.predict(rows), expected[0])
            assert_allclose(model.decision_function(rows), expected[1], rtol=1e-12, atol=1e-13)
            found = model.predict_map(rows)
            assert_array_equal(found.labels, expected[2].labels)
            assert_allclose(found.score, expected[2].score, rtol=1e-12)
        assert set(sizes[-6:]) == {size}


@pytest.mark.parametrize(
    "form",
    [
        lambda edges: [list(edge) for edge in edges],
        lambda edges: tuple(edges),
        lambda edges: [(k, j) for j, k in edges],
        lambda edges: [set(edge) for edge in edges],
        lambda edges: [frozenset(edge) for edge in edges],
        np.array,
        lambda edges: np.array(edges, dtype=np.int32),
        lambda edges: np.array(edges, dtype=np.uint8),
        lambda edges: LabelGraph.from_edges(edges, [0.5, 2.0, -1.0], n_labels=5),
    ],
    ids=["lists", "tuple", "turned", "sets", "frozensets", "array", "int32", "uint8", "LabelGraph"],
)
def test_forms_of_the_same_graph(data, form):
    edges = [(0, 1), (0, 4), (2, 3)]
    expected, model = fit(*data, edges), fit(*data, form(edges))
    assert model.cliques_ == edges
    assert all(type(label) is int for clique in model.cliques_ for label in clique)
    assert_array_equal(model.coef_, expected.coef_)
    for coef, other in zip(model.clique_coef_, expected.clique_coef_, strict=True):
        assert_array_equal(coef, other)


def test_a_set_of_cliques_has_no_order(data):
    edges = [(0, 1), (0, 4), (2, 3)]
    model = fit(*data, set(edges), tol=1e-6)
    assert sorted(model.cliques_) == edges
    assert_allclose(model.objective_, fit(*data, edges, tol=1e-6).objective_, rtol=3e-6)


def test_named_graphs(data, rng):
    X, Y = data
    weight = rng.integers(0, 4, size=60).astype(float)
    assert fit(X, Y, "none").cliques_ == fit(X, Y, []).cliques_ == fit(X, Y, np.empty((0, 2))).cliques_ == []
    assert fit(X, Y, "full").cliques_ == list(itertools.combinations(range(5), 2))
    for sample_weight in (None, weight):
        tree = chow_liu_tree(Y, sample_weight=sample_weight).edges
        assert fit(X, Y, "tree", sample_weight=sample_weight).cliques_ == [tuple(edge) for edge in tree.tolist()]
    assert StructuredSVMClassifier().graph == "tree"


def test_groups_are_names_only(data):
    cliques = [(0, 1), (1, 2), (3, 4)]
    expected = fit(*data, cliques, groups=[0, 0, 1])
    for groups in ([5, 5, 9], (-3, -3, 0), np.array([7, 7, 250], dtype=np.uint8)):
        assert_array_equal(fit(*data, cliques, groups=groups).coef_, expected.coef_)
    turned = fit(*data, cliques, groups=[9, 9, 5], tol=1e-4)
    assert_allclose(turned.objective_, expected.objective_, rtol=2e-3)
    one = fit(*data, cliques, groups=[4, 4, 4])
    assert_array_equal(one.coef_, fit(*data, cliques).coef_)
    assert expected.objective_ > 1.001 * one.objective_  # (|a| + |b|)^2 > |a|^2 + |b|^2
    assert fit(*data, "none", groups=[]).cliques_ == []


def test_one_label(rng):
    X, Y = make(rng, n_labels=1)
    for graph in ("tree", "none", "full", []):
        model = fit(X, Y, graph, tol=1e-5)
        optimum, _, _ = structured_optimum(X, Y, [], None, 0.05)
        assert_allclose(model.objective_, optimum, rtol=2e-5)
        assert model.cliques_ == []
        assert_array_equal(model.predict(X), (X @ model.coef_.T + model.intercept_ > 0).astype(int))
        assert model.label_graph_.n_labels == 1


def test_binary_classes(rng):
    X, Y = make(rng, n_labels=1)
    y = np.where(Y[:, 0] == 1, "yes", "no")
    model = fit(X, y, "tree", tol=1e-6)
    indicator = fit(X, Y, "tree", tol=1e-6)
    assert model.classes_.tolist() == ["no", "yes"]
    assert_array_equal(model.coef_, indicator.coef_)
    assert model.decision_function(X).shape == (60,)
    assert_array_equal(model.predict(X), np.where(model.decision_function(X) > 0, "yes", "no"))
    weighted = fit(X, y, "tree", class_weight={"yes": 3.0}, tol=1e-6)
    by_rows = fit(X, y, "tree", sample_weight=np.where(Y[:, 0] == 1, 3.0, 1.0), tol=1e-6)
    assert_array_equal(weighted.coef_, by_rows.coef_)


@pytest.mark.parametrize("graph", ["tree", "full", [(0, 2)]])
def test_multiclass_is_the_largest_max_marginal(graph, rng):
    X = rng.normal(size=(90, 3))
    classes = np.array([3, 5, 11])
    y = classes[np.argmax(X @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(90, 3)), axis=1)]
    model = fit(X, y, graph, tol=1e-5)
    Y = (y[:, None] == classes).astype(int)
    assert_array_equal(model.classes_, classes)
    u, tables = blocks(model)
    assert_allclose(structured_objective(X, Y, model.cliques_, None, 0.05, u, tables), model.objective_, rtol=1e-9)
    assert_allclose(model.decision_function(X), max_marginals(model, X), rtol=1e-9, atol=1e-11)
    assert_array_equal(model.predict(X), classes[np.argmax(max_marginals(model, X), axis=1)])
    assert model.score(X, y) > 0.7


def test_sample_weights_reach_the_independent_optimum(data, rng):
    X, Y = data
    weight = 3.0 * rng.random(60)
    weight[:5] = 0.0
    cliques, groups = GRAPHS["tree"], [0, 1, 1, 2]
    scaled = weight * 60 / weight.sum()  # the reference divides by n, the estimator by the sum of the weights
    optimum, _, _ = structured_optimum(X, Y, cliques, groups, 0.05, sample_weight=scaled)
    model = fit(X, Y, cliques, groups=groups, sample_weight=weight, tol=1e-5)
    assert_allclose(model.objective_, optimum, rtol=2e-5)
    assert model.dual_objective_ <= optimum * (1 + 1e-7)
    u, tables = blocks(model)
    value = structured_objective(X, Y, cliques, groups, 0.05, u, tables, sample_weight=scaled)
    assert_allclose(model.objective_, value, rtol=1e-9)


@pytest.mark.parametrize("graph", ["tree", "none", "full"])
def test_rows_without_weight_do_not_count(graph, data, rng):
    X, Y = data
    X_more, Y_more = np.vstack([X, 9.0 * X[::-1]]), np.vstack([Y, 1 - Y])
    order = rng.permutation(120)
    weight = np.r_[np.full(60, 2.0), np.zeros(60)]
    few = fit(X, Y, graph, tol=1e-7)
    many = fit(X_more[order], Y_more[order], graph, sample_weight=weight[order], tol=1e-7)
    assert many.cliques_ == few.cliques_
    assert_allclose(many.objective_, few.objective_, rtol=3e-7)
    assert_allclose(many.decision_function(X), few.decision_function(X), rtol=1e-2, atol=2e-2)


def test_costs_of_wrong_labels_reach_the_independent_optimum(data, monkeypatch):
    X, Y = data
    weights = [{0: 1.0, 1: 3.0}, {0: 2.0}, {0: 0.5, 1: 0.0}, {}, {0: 0.0, 1: 1.5}]
    cost = np.array([[1.0, 2.0, 0.5, 1.0, 0.0], [3.0, 1.0, 0.0, 1.0, 1.5]])
    arrays = reference_structured.problem_arrays

    def with_costs(*given):
        wrong = all_labelings(5)[None] != Y[:, None]
        return arrays(*given)._replace(delta=np.sum(wrong * np.where(Y > 0, cost[1], cost[0])[:, None], axis=2))

    monkeypatch.setattr(reference_structured, "problem_arrays", with_costs)
    for groups in (None, [0, 1, 1, 0]):
        optimum, _, _ = structured_optimum(X, Y, GRAPHS["tree"], groups, 0.05)
        model = fit(X, Y, GRAPHS["tree"], groups=groups, class_weight=weights, tol=1e-5)
        assert_allclose(model.objective_, optimum, rtol=2e-5)
        u, tables = blocks(model)
        assert_allclose(
            structured_objective(X, Y, GRAPHS["tree"], groups, 0.05, u, tables), model.objective_, rtol=1e-9
        )


def test_twice_the_costs_is_half_the_regulariser(data):
    """F with 2 Delta and alpha at w is twice F with Delta and 2 alpha at w / 2."""
    twice = fit(*data, "tree", class_weight={0: 2.0, 1: 2.0}, alpha=0.05, tol=1e-8)
    half = fit(*data, "tree", alpha=0.1, tol=1e-8)
    assert_allclose(twice.objective_, 2.0 * half.objective_, rtol=3e-8)
    assert_allclose(twice.coef_, 2.0 * half.coef_, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("groups", [None, [0, 1, 2, 3]])
def test_warm_start_with_another_alpha(data, groups):
    X, Y = data
    model = fit(X, Y, GRAPHS["tree"], groups=groups, tol=1e-6, warm_start=True)
    for alpha in (0.07, 0.3, 0.03):
        before = model.alpha
        model.set_params(alpha=alpha).fit(X, Y)
        cold = fit(X, Y, GRAPHS["tree"], groups=groups, alpha=alpha, tol=1e-6)
        assert_allclose(model.objective_, cold.objective_, rtol=3e-6)
        assert alpha < before or model.history_[0].gap < cold.history_[0].gap


def test_warm_start_with_another_graph(data):
    X, Y = data
    model = fit(X, Y, "none", tol=1e-6, warm_start=True)
    for graph in ([(0, 1)], [(0, 1), (2, 3)], "full", GRAPHS["four"], [(3, 4)], "none", "tree"):
        model.set_params(graph=graph).fit(X, Y)
        cold = fit(X, Y, graph, tol=1e-6)
        assert model.cliques_ == cold.cliques_
        assert len(model.clique_coef_) == len(cold.cliques_)
        assert_allclose(model.objective_, cold.objective_, rtol=3e-6)
    more = fit(X, Y, [(0, 1)], tol=1e-6, warm_start=True).set_params(graph=[(0, 1), (2, 3)]).fit(X, Y)
    assert more.history_[0].gap < 0.2 * fit(X, Y, [(0, 1), (2, 3)], tol=1e-6).history_[0].gap


@pytest.mark.parametrize("groups", [None, [0, 1, 2, 3]])
def test_warm_start_with_other_labels_of_the_rows(data, groups):
    X, Y = data
    other = Y.copy()
    other[:10] = 1 - other[:10]
    model = fit(X, Y, GRAPHS["tree"], groups=groups, tol=1e-6, warm_start=True).fit(X, other)
    assert_allclose(model.objective_, fit(X, other, GRAPHS["tree"], groups=groups, tol=1e-6).objective_, rtol=3e-6)


def test_warm_start_with_other_weights_of_the_rows(data, rng):
    X, Y = data
    model = fit(X, Y, "tree", tol=1e-6, warm_start=True)
    for weight in (rng.integers(0, 3, size=60), rng.integers(0, 3, size=60)):
        tree = [tuple(edge) for edge in chow_liu_tree(Y, sample_weight=weight).edges.tolist()]
        model.set_params(graph=tree).fit(X, Y, sample_weight=weight)
        assert_allclose(model.objective_, fit(X, Y, tree, sample_weight=weight, tol=1e-6).objective_, rtol=3e-6)


@pytest.mark.parametrize("change", ["fewer features", "no intercept"])
def test_warm_start_with_other_features(data, change):
    """Masses of the rows are a start whatever the features are; old weights are not."""
    X, Y = data
    model = fit(X, Y, GRAPHS["tree"], tol=1e-6, warm_start=True)
    options = {"fit_intercept": False} if change == "no intercept" else {}
    rows = X if change == "no intercept" else X[:, :2]
    model.set_params(**options).fit(rows, Y)
    assert_allclose(model.objective_, fit(rows, Y, GRAPHS["tree"], tol=1e-6, **options).objective_, rtol=3e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"graph": [(0, 1), (1, 5)]}, r"graph: clique \(1, 5\) names a label outside 0\.\.4"),
        ({"graph": [(-1, 2)]}, r"graph: clique \(-1, 2\) names a label outside 0\.\.4"),
        ({"graph": [(0, 1, 2, 3, 4, 5)]}, r"names a label outside 0\.\.4"),
        ({"graph": [(2, 1, 2)]}, r"graph: clique \(2, 1, 2\) repeats a label"),
        ({"graph": [(0, 1), (3,)]}, r"graph: a clique joins at least two labels, got \(3,\)"),
        ({"graph": [()]}, r"graph: a clique joins at least two labels, got \(\)"),
        ({"graph": [(0, 1), (2, 3), (1, 0)]}, r"graph: clique \(1, 0\) comes twice"),
        ({"graph": [(0, 1.0)]}, r"graph: a clique is a sequence of label indices, got \(0, 1\.0\)"),
        ({"graph": np.array([[0.0, 1.0]])}, "graph: a clique is a sequence of label indices"),
        ({"graph": [(0, True)]}, "graph: a clique is a sequence of label indices"),
        ({"graph": ["01"]}, "graph: a clique is a sequence of label indices, got '01'"),
        ({"graph": [0, 1]}, "graph: a clique is a sequence of label indices, got 0"),
        ({"graph": "chain"}, "'graph' parameter .* a str among .* Got 'chain'"),
        ({"graph": 3}, "'graph' parameter"),
        ({"graph": None}, "'graph' parameter"),
        ({"graph": LabelGraph.from_edges([(0, 1)], n_labels=4)}, "graph has 4 labels, but y has 5"),
        ({"graph": LabelGraph.from_edges([(0, 6)], n_labels=7)}, "graph has 7 labels, but y has 5"),
        ({"graph": [(0, 1)], "groups": [0, 1]}, r"groups must have one int per clique, shape \(1,\), got shape \(2,\)"),
        ({"graph": "tree", "groups": [0, 1]}, r"groups must have one int per clique, shape \(4,\)"),
        ({"graph": [(0, 1)], "groups": [[0]]}, r"groups must have one int per clique.* got shape \(1, 1\)"),
        ({"graph": [(0, 1)], "groups": [0.0]}, "groups must have one int per clique.* of dtype float64"),
        ({"graph": [(0, 1)], "groups": [True]}, "groups must have one int per clique.* of dtype bool"),
        ({"graph": [(0, 1)], "groups": ["a"]}, "groups must have one int per clique"),
        ({"graph": [(0, 1), (1, 2)], "groups": [[0], [1, 2]]}, "groups must have one int per clique"),
        ({"graph": [(0, 1)], "groups": 0}, "'groups' parameter"),
        ({"inference": "loopy"}, "'inference' parameter .* a str among .* Got 'loopy'"),
        ({"alpha": 0.0}, "'alpha' parameter"),
        ({"alpha": -1.0}, "'alpha' parameter"),
        ({"alpha": "small"}, "'alpha' parameter"),
        ({"fit_intercept": "yes"}, "'fit_intercept' parameter"),
        ({"class_weight": "equal"}, "'class_weight' parameter"),
        ({"class_weight": [{0: 1}]}, "class_weight has 1 dicts, but y has 5 labels"),
        ({"class_weight": {1: -1.0}}, "class_weight"),
        ({"max_iter": 0}, "'max_iter' parameter"),
    ],
)
def test_bad_parameters_are_named_and_nothing_remains(data, options, message):
    model = StructuredSVMClassifier(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert vars(model) == vars(StructuredSVMClassifier(**options))


def test_labels_in_messages_are_plain_numbers(data):
    with pytest.raises(ValueError, match=re.escape("clique (0, 9) names")):
        fit(*data, np.array([[0, 9]]))


def test_a_clique_of_too_many_labels(rng):
    X, Y = make(rng, n=20, n_labels=14)
    with pytest.raises(ValueError, match=r"graph: a clique of 13 labels has 2\^13 states; at most 12"):
        fit(X, Y, [tuple(range(13))])


def test_a_graph_that_is_too_dense_for_exact_inference(rng):
    X, Y = make(rng, n=20, n_labels=30)
    model = StructuredSVMClassifier(graph="full", inference="exact")
    with pytest.raises(ValueError, match=r"inference='exact'.* 30 labels and 435 cliques.* width is 29, at most 22"):
        model.fit(X, Y)
    assert vars(model) == vars(StructuredSVMClassifier(graph="full", inference="exact"))


def test_a_bad_graph_keeps_the_fit_before(data):
    model = fit(*data, "tree")
    before = dict(vars(model))
    with pytest.raises(ValueError, match="names a label outside"):
        model.set_params(graph=[(0, 9)]).fit(*data)
    assert vars(model) == before | {"graph": [(0, 9)]}
    assert model.predict(data[0]).shape == data[1].shape


@pytest.mark.parametrize("inference", ["auto", "exact", "mplp"])
def test_kinds_of_inference(data, inference):
    """On a tree the bound of message passing is tight, so that all three are certified."""
    X, Y = data
    model = fit(X, Y, GRAPHS["tree"], inference=inference, tol=1e-4)
    optimum, _, _ = structured_optimum(X, Y, GRAPHS["tree"], None, 0.05)
    assert_allclose(model.objective_, optimum, rtol=2e-4)
    assert_array_equal(model.predict(X), all_labelings(5)[np.argmax(all_scores(model, X), axis=1)])


def test_bounds_of_message_passing_are_counted(data):
    """On loops the bound may be above the best score: objective_ is then above F of the weights, and it is said."""
    X, Y = data
    cliques = list(itertools.combinations(range(5), 2))
    model = StructuredSVMClassifier(0.05, graph="full", inference="mplp", tol=1e-4, max_iter=100, random_state=0)
    with pytest.warns(ConvergenceWarning, match="duality gap"):
        model.fit(X, Y)
    u, tables = blocks(model)
    optimum, _, _ = structured_optimum(X, Y, cliques, None, 0.05)
    assert model.objective_ > structured_objective(X, Y, cliques, None, 0.05, u, tables) * (1 + 1e-6)
    assert model.dual_objective_ <= optimum * (1 + 1e-7)
    found = model.predict_map(X)
    assert np.all(found.bound >= all_scores(model, X).max(axis=1) - 1e-9)
    assert 0.0 <= found.certified <= 1.0
    exact = fit(X, Y, "full", inference="exact", tol=1e-4)
    assert_allclose(exact.objective_, optimum, rtol=2e-4)


def test_wide_rows_are_learned_in_their_span(rng):
    X, Y = rng.normal(size=(12, 40)), rng.integers(0, 2, (12, 3))
    model = StructuredSVMClassifier(0.1, graph=[(0, 1), (1, 2)], tol=1e-7, random_state=0).fit(X, Y)
    optimum, _, _ = structured_optimum(X, Y, [(0, 1), (1, 2)], [0, 0], 0.1)
    assert_allclose(model.objective_, optimum, rtol=1e-6)
    sparse = StructuredSVMClassifier(0.1, graph=[(0, 1), (1, 2)], tol=1e-7, random_state=0).fit(sp.csr_array(X), Y)
    assert_allclose(model.coef_, sparse.coef_, atol=1e-2 * np.abs(sparse.coef_).max())


def test_names_of_labels_come_from_y(rng):
    pd = pytest.importorskip("pandas")
    X, Y = rng.normal(size=(40, 4)), rng.integers(0, 2, (40, 3))
    model = StructuredSVMClassifier(0.1, graph="full", random_state=0)
    frame = pd.DataFrame(Y, columns=["sea", "sky", "city"])
    assert model.fit(X, frame).label_graph_.label_names == ("sea", "sky", "city")
    assert model.fit(X, Y).label_graph_.label_names == ("label_0", "label_1", "label_2")
    classes = np.array(["a", "b", "c", "d"])[rng.integers(0, 4, 40)]
    assert model.fit(X, classes).label_graph_.label_names == tuple("abcd")


def test_warning_names_inexact_inference(rng):
    X, Y = rng.normal(size=(30, 3)), rng.integers(0, 2, (30, 4))
    with pytest.warns(ConvergenceWarning, match="inference='mplp' is not exact on this graph"):
        StructuredSVMClassifier(1e-3, graph="full", inference="mplp", tol=1e-9, max_iter=3, random_state=0).fit(X, Y)


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "learner",
    [
        StructuredSVMClassifier(alpha=1e-2, graph=[(0, 1), (1, 2, 3), (0, 4), (2, 4)], random_state=0),
        StructuredSVMClassifier(alpha=1e-2, graph="none", random_state=0),
        CGMClassifier(alpha=1e-2, max_cliques=3, random_state=0),
    ],
)
def test_explanations_are_differences_of_joint_scores(learner, storage):
    toy = make_cgm_toy(80)
    model = learner.fit(storage(toy.X), toy.Y)
    X, Y = toy.X[:15], model.predict_map(toy.X[:15]).labels

    def joint_score(x, y):
        total = y @ (model.coef_ @ x + model.intercept_)
        for clique, coef, intercept in zip(model.cliques_, model.clique_coef_, model.clique_intercept_, strict=True):
            state = sum(int(y[label]) << (len(clique) - 1 - t) for t, label in enumerate(clique))
            total += coef[state] @ x + intercept[state]
        return total

    kinds = set()
    for x, y, row in zip(X, Y, model.explain(storage(X), top=3, labels=range(Y.shape[1])), strict=True):
        for label, one in enumerate(row):
            on, off = y.copy(), y.copy()
            on[label], off[label] = 1, 0
            assert_allclose(one.score, joint_score(x, on) - joint_score(x, off), rtol=1e-9, atol=1e-11)
            total = sum(term.value for term in one.contributions) + one.others + one.intercept
            assert_allclose(total, one.score, rtol=1e-9, atol=1e-12)
            assert one.score * (2 * int(y[label]) - 1) >= -1e-9  # no flip improves the best labeling
            for term in one.contributions:
                kinds.add(term.kind)
                if term.kind in ("with", "without"):
                    assert {int(y[other]) for other in term.name} == {term.kind == "with"}
                    assert any({label, *term.name} <= set(clique) for clique in model.cliques_)
    assert kinds == ({"feature"} if not model.cliques_ else {"feature", "with", "without"})
    predicted = [[one.label for one in row] for row in model.explain(X)]
    assert predicted == [np.flatnonzero(y).tolist() for y in Y]
