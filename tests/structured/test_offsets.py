"""Offsets, the part of the scores that no weights change: optimum, predictions and limits."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.structured import naive_structured, reference_structured
from tests.structured.reference_structured import (
    all_labelings,
    one_hot_states,
    structured_objective,
    structured_optimum,
)

from comargin import CGMClassifier, StructuredSVMClassifier

GRAPHS = {"none": [], "tree": [(0, 1), (1, 2), (1, 3), (3, 4)], "loop": [(0, 1), (1, 2), (0, 2)]}


def make(rng, n=40, d=3, n_labels=5):
    """Labels that follow X and each other, and offsets that are often right, seldom by the cost of a label."""
    X = rng.normal(size=(n, d))
    Y = (X @ rng.normal(size=(d, n_labels)) + 0.7 * rng.normal(size=(n, n_labels)) > 0.2).astype(int)
    copied = rng.random(n) < 0.5
    Y[copied, 1] = Y[copied, 0]
    offsets = 0.8 * rng.normal(size=Y.shape) + (2.0 * Y - 1.0) * (rng.random(Y.shape) < 0.6)
    return X, Y, offsets


def fixed_scores(Y, offsets):
    """o_i . (y - y_i) of every row and labeling."""
    labelings = all_labelings(Y.shape[1])
    return offsets @ labelings.T - np.sum(offsets * Y, axis=1, keepdims=True)


@pytest.fixture
def reference(monkeypatch):
    """The references, with offsets in the linear part of every labeling."""

    def use(Y, offsets):
        arrays, lists = reference_structured.problem_arrays, naive_structured.losses_and_differences
        fixed = fixed_scores(Y, offsets)

        def with_offsets(*given):
            found = arrays(*given)
            return found._replace(delta=found.delta + fixed)

        def lists_with_offsets(*given):
            delta, phi = lists(*given)
            return (np.array(delta) + fixed).tolist(), phi

        monkeypatch.setattr(reference_structured, "problem_arrays", with_offsets)
        monkeypatch.setattr(naive_structured, "losses_and_differences", lists_with_offsets)

    return use


def blocks(model):
    """Weights as the reference writes them."""
    half = 0.5 * np.column_stack([model.coef_, model.intercept_])
    tables = [np.column_stack(table) for table in zip(model.clique_coef_, model.clique_intercept_, strict=True)]
    return np.stack([-half, half], axis=1), tables


def all_scores(model, X, offsets):
    """Scores of all labelings."""
    rows = np.column_stack([X, np.ones(len(X))])
    (_, on), tables = blocks(model)[0].transpose(1, 0, 2), blocks(model)[1]
    labelings = all_labelings(on.shape[0])
    states = one_hot_states(labelings, model.cliques_)[:, 2 * on.shape[0] :]
    edges = rows @ np.vstack(tables).T @ states.T if tables else 0.0
    return (2.0 * rows @ on.T + offsets) @ labelings.T + edges, labelings


@pytest.mark.parametrize(("graph", "groups"), [("none", None), ("tree", None), ("tree", [0, 1, 1, 2]), ("loop", None)])
def test_the_optimum_is_that_of_all_labelings(graph, groups, rng, reference):
    X, Y, offsets = make(rng)
    reference(Y, offsets)
    edges = GRAPHS[graph]
    optimum, _, _ = structured_optimum(X, Y, edges, groups, 0.05)
    model = StructuredSVMClassifier(0.05, graph=edges, groups=groups, tol=1e-5, max_iter=5000, random_state=0)
    model.fit_with_offsets(X, Y, offsets)
    assert_allclose(model.objective_, optimum, rtol=2e-5)
    assert model.dual_objective_ <= optimum * (1 + 1e-7)
    assert_allclose(structured_objective(X, Y, edges, groups, 0.05, *blocks(model)), model.objective_, rtol=1e-9)
    # Without offsets it is another problem.
    other = StructuredSVMClassifier(0.05, graph=edges, groups=groups, tol=1e-5, random_state=0).fit(X, Y)
    assert abs(other.objective_ - optimum) > 0.05 * optimum


def test_plain_frank_wolfe_agrees(rng, reference):
    X, Y, offsets = make(rng, n=15, n_labels=3)
    reference(Y, offsets)
    # The true labeling has Delta 0, and so may others: the naive start looks for the first one.
    plain = naive_structured.naive_bcfw(X, Y, [(0, 1)], 0.3, 400, 0)
    model = StructuredSVMClassifier(0.3, graph=[(0, 1)], tol=1e-5, random_state=0).fit_with_offsets(X, Y, offsets)
    assert plain.dual - 1e-9 <= model.objective_ <= plain.history[-1][0] * (1 + 1e-5)
    assert model.dual_objective_ <= plain.history[-1][0] + 1e-9


@pytest.mark.parametrize("graph", GRAPHS)
def test_best_labelings_and_max_marginals(graph, rng):
    X, Y, offsets = make(rng)
    model = StructuredSVMClassifier(0.01, graph=GRAPHS[graph], random_state=0).fit_with_offsets(X, Y, offsets)
    scores, labelings = all_scores(model, X, offsets)
    assert_array_equal(model.predict(X, offsets=offsets), labelings[np.argmax(scores, axis=1)])
    expected = [
        scores[:, labelings[:, k] == 1].max(axis=1) - scores[:, labelings[:, k] == 0].max(axis=1) for k in range(5)
    ]
    assert_allclose(model.decision_function(X, offsets=offsets), np.transpose(expected), atol=1e-9)
    assert_allclose(model.predict_map(X, offsets=offsets).score, scores.max(axis=1), rtol=1e-9)
    assert (model.predict(X, offsets=offsets) != model.predict(X)).any()


def test_cgm_ends_at_the_optimum_of_its_cliques(rng, reference):
    X, Y, offsets = make(rng)
    model = CGMClassifier(0.05, max_cliques=3, round_tol=0.0, tol=1e-5, max_iter=5000, random_state=0)
    model.fit_with_offsets(X, Y, offsets)
    reference(Y, offsets)
    groups = list(itertools.chain.from_iterable([k] * len(r.cliques) for k, r in enumerate(model.rounds_)))
    optimum, _, _ = structured_optimum(X, Y, model.cliques_, groups, 0.05)
    assert_allclose(model.objective_, optimum, rtol=2e-5)


def test_right_offsets_leave_nothing_to_learn(rng):
    X, Y, _ = make(rng)
    model = StructuredSVMClassifier(0.1, random_state=0).fit_with_offsets(X, Y, 1.5 * (2.0 * Y - 1.0))
    assert model.objective_ == 0.0
    assert not model.coef_.any()


def test_a_large_alpha_leaves_the_offsets(rng):
    X, Y, offsets = make(rng)
    model = StructuredSVMClassifier(1e6, random_state=0).fit_with_offsets(X, Y, offsets)
    assert_array_equal(model.predict(X, offsets=offsets), offsets > 0)
    assert_allclose(model.decision_function(X, offsets=offsets), offsets, atol=1e-3)


def test_offsets_of_zero_are_none(rng):
    X, Y, _ = make(rng)
    plain = StructuredSVMClassifier(0.05, random_state=0).fit(X, Y)
    zero = StructuredSVMClassifier(0.05, random_state=0).fit_with_offsets(X, Y, np.zeros(Y.shape))
    assert_array_equal(zero.coef_, plain.coef_)


def test_one_column_for_two_classes(rng):
    X = rng.normal(size=(50, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=50) > 0, "yes", "no")
    offsets = np.where(y == "yes", 1.5, -1.5)
    model = StructuredSVMClassifier(0.1, random_state=0).fit_with_offsets(X, y, offsets)
    assert not model.coef_.any()
    assert_array_equal(model.predict(X, offsets=offsets), y)


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        (np.zeros((40, 4)), r"offsets must have shape \(40, 5\).*got \(40, 4\)"),
        (np.zeros(40), "offsets must have shape"),
        (np.full((40, 5), np.nan), "offsets must be finite"),
    ],
)
def test_wrong_offsets(offsets, message, rng):
    X, Y, right = make(rng)
    model = StructuredSVMClassifier(0.1)
    with pytest.raises(ValueError, match=message):
        model.fit_with_offsets(X, Y, offsets)
    assert not hasattr(model, "coef_")
    model.fit_with_offsets(X, Y, right)
    with pytest.raises(ValueError, match=message):
        model.predict(X, offsets=offsets)


def test_a_kernel_takes_offsets_too(rng):
    X, Y, offsets = make(rng)
    shared = {"alpha": 0.05, "fit_intercept": False, "tol": 1e-6, "max_iter": 5000, "random_state": 0}
    linear = StructuredSVMClassifier(**shared).fit_with_offsets(X, Y, offsets)
    model = StructuredSVMClassifier(kernel="precomputed", **shared).fit_with_offsets(X @ X.T, Y, offsets)
    assert_allclose(model.objective_, linear.objective_, rtol=3e-6)
    values = model.decision_function(X @ X.T, offsets=offsets)
    assert_allclose(values, linear.decision_function(X, offsets=offsets), atol=0.02)
