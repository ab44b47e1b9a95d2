"""The problem of LSG21: penalty, centring, products and dual, against plain loops and an independent optimum."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.lsg21 import naive_lsg21 as naive
from tests.lsg21 import reference_lsg21 as reference

from comargin.lsg21 import problem as lsg21
from comargin.lsg21.problem import EdgePenalty, LSG21Problem


def draw(rng, n=12, d=5, n_labels=4):
    """Data with zeros and an affinity with a missing edge."""
    X = (rng.normal(size=(n, d)) + 0.5) * (rng.random((n, d)) < 0.7)
    Y = (rng.random((n, n_labels)) < 0.4).astype(float)
    Y[0], Y[1] = 0.0, 1.0
    A = rng.uniform(0.2, 1.0, (n_labels, n_labels))
    A = 0.5 * (A + A.T)
    A[0, 1] = A[1, 0] = 0.0
    return X, Y, A, rng.uniform(0.0, 2.0, n)


def build(X, Y, A, weight=None, self_edges=True, fit_intercept=True):
    weight = np.ones(len(Y)) if weight is None else weight
    return LSG21Problem.build(X, Y, weight, EdgePenalty.from_affinity(sp.csr_array(A), self_edges), fit_intercept)


# ---- the penalty


def test_penalty_by_hand():
    A = np.array([[1.0, 0.5, 0.0], [0.5, 2.0, 3.0], [0.0, 3.0, 0.0]])
    penalty = EdgePenalty.from_affinity(sp.csr_array(A), self_edges=True)
    assert_array_equal(penalty.first, [0, 1])
    assert_array_equal(penalty.second, [1, 2])
    assert_array_equal(penalty.weight, [1.0, 6.0])
    root = math.sqrt(2.0)
    assert_allclose(penalty.own, [root, 2.0 * root, 0.0])
    assert_allclose(penalty.total, [root + 1.0, 2.0 * root + 7.0, 6.0])
    W = np.array([[3.0, -4.0, 0.0], [0.0, 0.0, 2.0]])
    assert_allclose(penalty.value(W), 5.0 + 24.0 + 12.0 + 3.0 * root + 8.0 * root)
    without = EdgePenalty.from_affinity(sp.csr_array(A), self_edges=False)
    assert_array_equal(without.own, 0.0)
    assert_allclose(without.value(W), 5.0 + 24.0 + 12.0)


@pytest.mark.parametrize("self_edges", [True, False])
def test_penalty_is_the_double_sum(self_edges, rng):
    A = draw(rng)[2]
    penalty = EdgePenalty.from_affinity(sp.csr_array(A), self_edges)
    for W in (rng.normal(size=(6, 4)), rng.normal(size=(6, 4)) * (rng.random((6, 4)) < 0.4), np.zeros((6, 4))):
        assert_allclose(penalty.value(W), reference.penalty(W, A, self_edges), rtol=1e-13)
    assert penalty.weight.size == 5


def test_entries_that_are_no_edges(rng):
    A = sp.csr_array(draw(rng)[2])
    stored = A.copy()
    stored.data[1] = 0.0  # entry (0, 2), explicitly zero
    stored = stored.tolil()
    stored[2, 0] = 0.0
    stored = stored.tocsr()
    penalty = EdgePenalty.from_affinity(sp.csr_array(stored), self_edges=True)
    assert (0, 2) not in set(zip(penalty.first.tolist(), penalty.second.tolist(), strict=True))
    assert (penalty.weight > 0.0).all()
    empty = EdgePenalty.from_affinity(sp.csr_array((3, 3)), self_edges=True)
    assert empty.weight.size == 0
    assert empty.value(np.ones((2, 3))) == 0.0
    assert_array_equal(empty.total, 0.0)


def test_order_of_the_entries_does_not_matter(rng):
    A = sp.csr_array(draw(rng)[2])
    shuffled = A.copy()
    for row in range(4):
        part = slice(*A.indptr[row : row + 2])
        shuffled.indices[part], shuffled.data[part] = A.indices[part][::-1], A.data[part][::-1]
    shuffled.has_sorted_indices = False
    shuffled.has_canonical_format = False
    one, other = (EdgePenalty.from_affinity(M, self_edges=True) for M in (A, shuffled))
    for name in ("first", "second", "weight", "own"):
        assert_array_equal(getattr(one, name), getattr(other, name))


def test_penalty_of_some_labels(rng):
    A = np.zeros((6, 6))
    A[np.ix_([1, 3, 4], [1, 3, 4])] = rng.uniform(0.1, 1.0)
    A[np.ix_([0, 5], [0, 5])] = rng.uniform(0.1, 1.0)
    part = EdgePenalty.from_affinity(sp.csr_array(A), self_edges=True).at(np.array([1, 3, 4]))
    W = rng.normal(size=(4, 3))
    assert_allclose(part.value(W), reference.penalty(W, A[np.ix_([1, 3, 4], [1, 3, 4])]), rtol=1e-13)
    assert part.first.max() < 3


# ---- centring and products


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.asfortranarray])
def test_products_are_those_of_centred_data(form, weighted, fit_intercept, rng, monkeypatch):
    monkeypatch.setattr(lsg21, "_COLUMNS_AT_ONCE", 2)
    X, Y, A, weight = draw(rng)
    s = weight if weighted else np.ones(12)
    problem = build(form(X), Y, A, s, fit_intercept=fit_intercept)
    mean_x, mean_y = (s @ X / s.sum(), s @ Y / s.sum()) if fit_intercept else (0.0, 0.0)
    Z, T = np.sqrt(s)[:, None] * (X - mean_x), np.sqrt(s)[:, None] * (Y - mean_y)
    W, R = rng.normal(size=(5, 4)), rng.normal(size=(12, 4))
    assert_allclose(problem.Y, T, atol=1e-14)
    assert_allclose(problem.centred(), Z, atol=1e-14)
    assert_allclose(problem.product(W), Z @ W, atol=1e-13)
    assert_allclose(problem.transposed(R), Z.T @ R, atol=1e-13)
    for features, others in (([0, 3], [4, 1, 2]), ([2], [2]), (range(5), range(5)), (range(5), [3, 1])):
        features, others = np.array(features), np.array(others)
        assert_allclose(problem.gram(features, others), Z[:, features].T @ Z[:, others], atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_products_of_all_features_in_any_order(form, rng):
    X, Y, A, _ = draw(rng)
    problem = build(form(X), Y, A)
    Z, order = X - X.mean(axis=0), np.array([3, 0, 4, 2, 1])
    assert_allclose(problem.gram(order, np.array([1, 2])), Z[:, order].T @ Z[:, [1, 2]], atol=1e-12)
    assert_allclose(problem.gram(order, order), Z[:, order].T @ Z[:, order], atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_the_data_of_the_caller_are_not_changed(form, rng):
    X, Y, A, weight = draw(rng)
    given, copies = form(X), (X.copy(), Y.copy(), weight.copy())
    build(given, Y, A, weight)
    assert_array_equal(given.toarray() if sp.issparse(given) else given, copies[0])
    assert_array_equal(Y, copies[1])
    assert_array_equal(weight, copies[2])


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_objective_is_that_of_plain_loops(form, fit_intercept, rng):
    X, Y, A, weight = draw(rng)
    problem = build(form(X), Y, A, weight, fit_intercept=fit_intercept)
    W = rng.normal(size=(5, 4))
    b = problem.intercept(W)
    R = problem.product(W) - problem.Y
    expected = naive.objective(W, b, X, Y, A, 0.7, True, weight)
    assert_allclose(np.vdot(R, R) + 0.7 * problem.penalty.value(W), expected, rtol=1e-12)
    if not fit_intercept:
        assert_array_equal(b, 0.0)
        return
    for change in (1e-3, -1e-3):  # no other b is better
        for label in range(4):
            other = b + change * np.eye(4)[label]
            assert naive.objective(W, other, X, Y, A, 0.7, True, weight) > expected


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_problem_of_some_labels(form, rng):
    X, Y, A, weight = draw(rng)
    A[:2, 2:] = A[2:, :2] = 0.0
    problem, labels = build(form(X), Y, A, weight), np.array([2, 3])
    part, alone = problem.at(labels), build(form(X), Y[:, labels], A[2:, 2:], weight)
    W = rng.normal(size=(5, 2))
    assert_allclose(part.Y, alone.Y)
    assert_allclose(part.intercept(W), alone.intercept(W))
    assert_allclose(part.penalty.value(W), alone.penalty.value(W))
    assert problem.at(np.arange(4)) is problem


# ---- whether weights are determined


def test_rank_by_numbers_of_rows(rng):
    A = np.eye(2)
    for form in (np.asarray, sp.csr_array):
        X, Y = rng.normal(size=(8, 7)), (rng.random((8, 2)) < 0.5).astype(float)
        assert not build(form(X), Y, A).is_rank_deficient()
        assert build(form(X[:7]), Y[:7], A).is_rank_deficient()  # the intercept takes one
        assert not build(form(X[:7]), Y[:7], A, fit_intercept=False).is_rank_deficient()
        assert build(form(X[:6]), Y[:6], A, fit_intercept=False).is_rank_deficient()
        weight = np.ones(8)
        weight[2] = 0.0
        assert build(form(X), Y, A, weight).is_rank_deficient()


def test_rank_of_dense_features_that_depend_on_each_other(rng):
    X, Y = rng.normal(size=(20, 4)), (rng.random((20, 2)) < 0.5).astype(float)
    for column in (X[:, 1], np.zeros(20), np.full(20, 0.1), X[:, 0] - X[:, 1]):
        assert build(np.column_stack([X, column]), Y, np.eye(2)).is_rank_deficient()
    assert not build(np.column_stack([X, np.full(20, 0.1)]), Y, np.eye(2), fit_intercept=False).is_rank_deficient()


def test_rank_of_sparse_rows_with_mean_zero():
    half = np.array([[1.0, 2.0, 0.0, 0.5], [0.0, 1.0, 1.0, 3.0]])
    X = np.vstack([half, -half])  # four rows, four features, means 0: rank 2, and at most 3 by the numbers
    Y = np.array([[1.0], [0.0], [0.0], [1.0]])
    assert build(sp.csr_array(X), Y, np.eye(1)).is_rank_deficient()


# ---- the dual


def exact_excess(problem, W, A, alpha, self_edges):
    """How far the rows of 2 X^T R exceed alpha, by the reference's dual norm."""
    G = 2.0 * problem.transposed(problem.product(W) - problem.Y)
    return max(reference.largest_dual_norm(G, A, self_edges) / alpha - 1.0, 0.0)


@pytest.mark.parametrize("self_edges", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_weak_duality_and_no_gap_at_the_optimum(self_edges, fit_intercept, rng):
    X, Y, A, weight = draw(rng)
    problem = build(X, Y, A, weight, self_edges, fit_intercept)
    alpha = 0.2 * reference.alpha_max(X, Y, A, self_edges=self_edges, sample_weight=weight)
    best = reference.lsg21_optimum(
        X, Y, A, alpha, self_edges=self_edges, fit_intercept=fit_intercept, sample_weight=weight
    )
    assert np.abs(best.W).max() > 1e-3
    for k, W in enumerate([best.W, 0.0 * best.W, 1.1 * best.W, *rng.normal(size=(4, 5, 4))]):
        R = problem.product(W) - problem.Y
        square, inner = float(np.vdot(R, R)), float(np.vdot(R, problem.Y))
        primal = square + alpha * problem.penalty.value(W)
        dual = problem.dual(square, inner, exact_excess(problem, W, A, alpha, self_edges))
        assert dual <= best.objective * (1.0 + 1e-7)
        assert primal >= best.objective * (1.0 - 1e-9)
        assert dual >= 0.0  # as good as no dual variable at all
        if k == 0:
            assert_allclose([primal, dual], best.objective, rtol=1e-6)


def test_dual_is_the_best_multiple(rng):
    for _ in range(20):
        R, Y, excess = rng.normal(size=(6, 2)), rng.normal(size=(6, 2)), rng.exponential()
        square, inner = float(np.vdot(R, R)), float(np.vdot(R, Y))
        multiples = np.linspace(-1.0, 1.0, 2001) / (1.0 + excess)
        # D(Theta) = -1/4 ||Theta||^2 - <Theta, Y> at Theta = 2 c R.
        best = max(-0.25 * np.sum((2.0 * c * R) ** 2) - np.sum(2.0 * c * R * Y) for c in multiples)
        found = LSG21Problem.dual(square, inner, excess)
        assert best <= found * (1.0 + 1e-12)
        assert_allclose(found, best, rtol=1e-4, atol=1e-5)
    assert LSG21Problem.dual(0.0, 0.0, 3.0) == 0.0
    assert LSG21Problem.dual(1.0, -1.0, math.inf) == 0.0


@pytest.mark.parametrize("n_late", [1, 12])
@pytest.mark.parametrize("n", [16, 17, 40])
def test_columns_that_vary_in_the_last_row_only_are_not_taken_for_constant(n, n_late, rng):
    """And constant ones are exactly zero; few such columns, and most of them."""
    X, Y = rng.normal(size=(n, 20)), (rng.random((n, 20)) < 0.5).astype(float)
    Y[0], Y[1] = 0.0, 1.0
    X[:, :n_late], Y[:, :n_late] = 0.1, 0.0
    X[-1, :n_late], Y[-1, :n_late] = 0.7, 1.0
    X[:, -1], Y[:, -1] = 0.3, 1.0
    problem = build(X, Y, np.ones((20, 20)))
    for centred, columns in ((problem.X, X), (problem.Y, Y)):
        assert_allclose(centred[:, :-1], (columns - columns.mean(axis=0))[:, :-1], atol=1e-14)
        assert centred[-1, :n_late].min() > 0.5
        assert_array_equal(centred[:, -1], 0.0)
