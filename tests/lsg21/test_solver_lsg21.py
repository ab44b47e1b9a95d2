"""LSG21's solvers against independent optima, closed forms and each other."""

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso, MultiTaskLasso
from tests.lsg21 import naive_lsg21 as naive
from tests.lsg21 import reference_lsg21 as reference

from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.lsg21 import _edge_newton
from comargin.lsg21 import solver as lsg21
from comargin.lsg21._edge_newton import reweighted
from comargin.lsg21._label_split import least_norm, split_labels
from comargin.lsg21.irls_solver import solve_lsg21_irls
from comargin.lsg21.problem import EdgePenalty, LSG21Problem
from comargin.lsg21.solver import alpha_max, as_edges, full_gram, solve_lsg21

TIGHT = Control(1e-9, 1000)


def instance(rng, n=18, d=5, n_labels=4):
    """Labels of a few shared features, and an affinity with a missing edge."""
    X = rng.normal(size=(n, d)) + 0.5
    Y = (X[:, :2] @ rng.normal(size=(2, n_labels)) + 0.5 * rng.normal(size=(n, n_labels)) > 0.5).astype(float)
    Y[0], Y[1] = 0.0, 1.0  # no column is constant
    A = rng.uniform(0.2, 1.0, (n_labels, n_labels))
    A = 0.5 * (A + A.T)
    if n_labels > 1:
        A[0, 1] = A[1, 0] = 0.0
    return X, Y, A


def build(X, Y, A, self_edges=True, fit_intercept=True, sample_weight=None):
    s = np.ones(X.shape[0]) if sample_weight is None else np.asarray(sample_weight, dtype=float)
    penalty = EdgePenalty.from_affinity(sp.csr_array(A), self_edges)
    return LSG21Problem.build(X, np.asarray(Y, dtype=float), s, penalty, fit_intercept)


def random_problem(seed, n, d, n_labels, ratio, **options):
    """A problem and an alpha, as a fraction of alpha_max."""
    X, Y, A = instance(np.random.default_rng(seed), n, d, n_labels)
    problem = build(X, Y, A, **options)
    return problem, ratio * alpha_max(problem)


def dense(X):
    return X.toarray() if sp.issparse(X) else X


def messy_csr(X):
    """The same rows with explicit zeros and unsorted columns."""
    n, d = X.shape
    columns = np.tile(np.arange(d)[::-1], n)
    return sp.csr_array((X[:, ::-1].ravel(), columns, np.arange(0, n * d + 1, d)), shape=X.shape)


def value(problem, W, alpha):
    """The objective of centred data, from the definition."""
    R = problem.centred() @ W - problem.Y
    A = np.diag(problem.penalty.own / math.sqrt(2.0))
    A[problem.penalty.first, problem.penalty.second] = A[problem.penalty.second, problem.penalty.first] = (
        0.5 * problem.penalty.weight
    )
    return float(np.sum(R**2)) + alpha * reference.penalty(W, A)


@pytest.fixture
def few_features_at_once(monkeypatch):
    """As if there were too many features for all their products, with room for some."""

    def limit(first, most):
        policy = replace(lsg21.POLICY, gram_work=0, first_features=first, most_features=most)
        monkeypatch.setattr(lsg21, "POLICY", policy)

    return limit


# ---- what went wrong once


@pytest.mark.compiled
def test_the_objective_never_rises_with_fewer_rows_than_features():
    for seed in range(12):
        problem, alpha = random_problem(seed, 8, 15, 2, 0.003)
        result = solve_lsg21(problem, alpha, Control(1e-6, 100))
        primals = np.array([point.primal for point in result.history])
        assert (np.diff(primals) <= 1e-3 * primals[0]).all(), seed


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.compiled
def test_a_working_set_may_grow_to_all_features(few_features_at_once, form):
    X, Y, A = instance(np.random.default_rng(3), 80, 60, 4)
    problem = build(form(X), Y, A)
    alpha = 0.02 * alpha_max(problem)
    expected = solve_lsg21(problem, alpha, TIGHT)
    assert np.count_nonzero(expected.coef.any(axis=0)) > 40
    few_features_at_once(3, 60)
    result = solve_lsg21(problem, alpha, Control(1e-6, 300))
    assert result.status is Status.CONVERGED
    assert_allclose(result.primal, expected.primal, rtol=1e-6)


@pytest.mark.compiled
def test_just_below_alpha_max_there_are_weights():
    for seed in range(10):
        problem, alpha = random_problem(seed, 30, 8, 6, 0.999)
        result = solve_lsg21(problem, alpha, TIGHT)
        assert result.status is Status.CONVERGED, seed
        assert result.coef.any(), seed


def test_reweighting_above_alpha_max_ends_at_zero():
    for seed, ratio in ((0, 1.3), (1, 2.0), (3, 5.0)):
        problem, alpha = random_problem(seed, 30, 8, 4, ratio, self_edges=False)
        result = solve_lsg21_irls(problem, alpha, Control(1e-4, 1000))
        assert result.status is Status.CONVERGED
        assert_allclose(result.coef, 0.0, atol=1e-3)


def test_reweighting_keeps_the_order_of_its_start(monkeypatch):
    problem, alpha = random_problem(0, 30, 8, 4, 0.1)
    original, in_order = lsg21.edge_excess, []

    def spy(H, W, *arguments):
        in_order.append(H.flags.c_contiguous and W.flags.c_contiguous)
        return original(H, W, *arguments)

    monkeypatch.setattr(lsg21, "edge_excess", spy)
    for solve in (solve_lsg21, solve_lsg21_irls):
        for form in (np.ascontiguousarray, np.asfortranarray):
            solve(problem, alpha, Control(0.1, 10), start=form(np.ones((8, 4))))
    assert all(in_order)


@pytest.mark.parametrize("sparse", [False, True])
def test_unpenalised_labels_that_X_fits_exactly_have_converged(sparse, rng):
    X, Y, A = instance(rng, n=8, d=15)
    problem = build(sp.csr_array(X) if sparse else X, Y, 0.0 * A)
    for solve in (solve_lsg21, solve_lsg21_irls):
        assert solve(problem, 1.0, Control(1e-6, 50)).status is Status.CONVERGED


def test_labels_that_never_change_have_no_alpha_max(rng):
    X, Y, A = instance(rng, n=40)
    for seed in range(20):
        weight = np.random.default_rng(seed).uniform(0.1, 1.0, 40)
        assert alpha_max(build(X, np.ones_like(Y), A, sample_weight=weight)) == 0.0


@pytest.mark.parametrize(("seed", "n_labels", "ratio"), [(7, 12, 0.4), (4, 25, 0.1)])
@pytest.mark.compiled
def test_copies_of_features_have_a_certificate(seed, n_labels, ratio):
    """At the optimum the copy of a feature keeps weights of 1e-9: their directions say nothing."""
    X, Y, A = instance(np.random.default_rng(seed), 20, 40, n_labels)
    X[:, 20:] = X[:, :20]
    problem = build(X, Y, A)
    assert solve_lsg21(problem, ratio * alpha_max(problem), Control(1e-6, 60)).status is Status.CONVERGED


# ---- the optimum


CASES = {
    "plain": {},
    "no self edges": {"self_edges": False},
    "no intercept": {"fit_intercept": False},
    "weights": {"weight": True},
    "all": {"self_edges": False, "fit_intercept": False, "weight": True},
}


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize(("shape", "ratio"), [((18, 5, 4), 0.02), ((18, 5, 4), 0.3), ((9, 11, 3), 0.1)])
def test_matches_cvxpy(options, shape, ratio, rng):
    X, Y, A = instance(rng, *shape)
    options = dict(options)
    if options.pop("weight", False):
        options["sample_weight"] = rng.uniform(0.0, 2.0, shape[0]) * (rng.random(shape[0]) < 0.9)
    problem = build(X, Y, A, **options)
    alpha = ratio * alpha_max(problem)
    best = reference.lsg21_optimum(X, Y, A, alpha, **options)
    assert np.abs(best.W).max() > 1e-3
    assert (best.W == 0.0).any() or ratio < 0.1
    for form in (np.asarray, sp.csr_array, messy_csr):
        problem = build(form(X), Y, A, **options)
        result = solve_lsg21(problem, alpha, TIGHT)
        assert result.status is Status.CONVERGED
        assert -1e-12 * result.primal <= result.gap <= 1e-9 * result.primal
        assert_allclose(result.primal, best.objective, rtol=1e-8)
        W, b = result.coef.T, problem.intercept(result.coef.T)
        weight = options.get("sample_weight")
        found = reference.objective(W, b, X, Y, A, alpha, options.get("self_edges", True), weight)
        assert_allclose(result.primal, found, rtol=1e-12)
        assert_allclose(W, best.W, atol=1e-5)
        assert_allclose(b, best.b, atol=1e-5)


@pytest.mark.parametrize("features", ["twice", "constant", "zero", "scaled"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_difficult_features_match_cvxpy(features, form, rng):
    X, Y, A = instance(rng)
    if features == "twice":
        X[:, 3:] = X[:, :2]
    elif features == "constant":
        X[:, 3], X[:, 4] = 0.1, 1000.0
    elif features == "zero":
        X[:, 0] = 0.0
    else:
        X *= np.array([1e-2, 1.0, 10.0, 0.1, 1e2])
    problem = build(form(X), Y, A)
    alpha = 0.05 * alpha_max(problem)
    best = reference.lsg21_optimum(X, Y, A, alpha)
    result = solve_lsg21(problem, alpha, TIGHT)
    assert result.status is Status.CONVERGED
    assert_allclose(result.primal, best.objective, rtol=1e-7)
    assert_allclose(X @ result.coef.T + problem.intercept(result.coef.T), X @ best.W + best.b, atol=1e-5)
    if features in ("constant", "zero"):
        fixed = [3, 4] if features == "constant" else [0]
        assert_array_equal(result.coef[:, fixed], 0.0)


@pytest.mark.parametrize("self_edges", [True, False])
def test_one_sided_labels_have_no_weights_of_their_own(self_edges, rng):
    X, Y, A = instance(rng)
    Y[:, 1], Y[:, 2] = 0.0, 1.0
    A[:] = 0.5
    problem = build(X, Y, A, self_edges)
    alpha = 0.1 * alpha_max(problem)
    best = reference.lsg21_optimum(X, Y, A, alpha, self_edges=self_edges)
    result = solve_lsg21(problem, alpha, TIGHT)
    assert_allclose(result.primal, best.objective, rtol=1e-8)
    assert_array_equal(result.coef[[1, 2]], 0.0)
    assert_allclose(problem.intercept(result.coef.T)[[1, 2]], [0.0, 1.0])
    assert result.coef[0].any()


def test_one_label_is_the_lasso(rng):
    # ||Xw - y||^2 + alpha sqrt(2) a |w|, against 1/(2n) ||.||^2 + beta |w|: beta = alpha sqrt(2) a / (2n).
    X, Y, _ = instance(rng, 40, 12, 1)
    problem = build(X, Y, [[0.7]])
    alpha = 0.1 * alpha_max(problem)
    result = solve_lsg21(problem, alpha, Control(1e-12, 1000))
    lasso = Lasso(alpha * math.sqrt(2.0) * 0.7 / 80.0, tol=1e-14, max_iter=100_000).fit(X, Y[:, 0])
    assert 0 < np.count_nonzero(lasso.coef_) < 12
    assert_allclose(result.coef[0], lasso.coef_, atol=1e-7)
    assert_array_equal(result.coef[0] != 0.0, lasso.coef_ != 0.0)


def test_one_edge_is_the_multi_task_lasso(rng):
    # One edge without self edges: 2 alpha a ||[w_1, w_2]||_2,1.
    X, Y, _ = instance(rng, 40, 12, 2)
    problem = build(X, Y, [[3.0, 0.6], [0.6, 3.0]], self_edges=False)
    alpha = 0.2 * alpha_max(problem)
    result = solve_lsg21(problem, alpha, Control(1e-12, 1000))
    lasso = MultiTaskLasso(2.0 * alpha * 0.6 / 80.0, tol=1e-14, max_iter=100_000).fit(X, Y)
    assert 0 < np.count_nonzero(lasso.coef_.any(axis=0)) < 12
    assert_allclose(result.coef, lasso.coef_, atol=1e-7)


def test_labels_without_edges_between_them_are_separate_problems(rng):
    X, Y, A = instance(rng, 30, 6, 5)
    A[:2, 2:] = A[2:, :2] = 0.0
    problem = build(X, Y, A)
    alpha = 0.1 * alpha_max(problem)
    together = solve_lsg21(problem, alpha, Control(1e-12, 1000))
    for labels in ([0, 1], [2, 3, 4]):
        alone = solve_lsg21(build(X, Y[:, labels], A[np.ix_(labels, labels)]), alpha, Control(1e-12, 1000))
        assert_allclose(together.coef[labels], alone.coef, atol=1e-7)


def test_permuted_rows_features_and_labels(rng):
    X, Y, A = instance(rng, 30, 8, 5)
    problem = build(X, Y, A)
    alpha = 0.05 * alpha_max(problem)
    result = solve_lsg21(problem, alpha, Control(1e-12, 1000))
    rows, features, labels = rng.permutation(30), rng.permutation(8), rng.permutation(5)
    other = build(X[np.ix_(rows, features)], Y[np.ix_(rows, labels)], A[np.ix_(labels, labels)])
    again = solve_lsg21(other, alpha, Control(1e-12, 1000))
    assert_allclose(again.coef, result.coef[np.ix_(labels, features)], atol=1e-7)
    assert_allclose(alpha_max(other), alpha_max(problem), rtol=1e-12)


@pytest.mark.compiled
def test_many_labels_and_features_end_with_a_certificate():
    """More labels than systems are factorised for; the gap is computed here, by other means."""
    problem, alpha = random_problem(0, 80, 20, 80, 0.05)
    result = solve_lsg21(problem, alpha, Control(1e-7, 500))
    assert result.status is Status.CONVERGED
    assert_allclose(result.primal, value(problem, result.coef.T, alpha), rtol=1e-12)
    # Optimal: no row, feature or label can be improved by itself, nor all of them together by scaling.
    rng = np.random.default_rng(0)
    for _ in range(20):
        W = result.coef.T * (1.0 + 1e-3 * rng.normal(size=(20, 80)))
        assert value(problem, W, alpha) >= result.primal * (1.0 - 1e-7)
        assert value(problem, W + 1e-4 * rng.normal(size=W.shape), alpha) >= result.primal * (1.0 - 1e-7)


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e3, 1e8])
def test_other_units_of_X_are_the_same_problem(scale, rng):
    X, Y, A = instance(rng)
    problem, scaled = build(X, Y, A), build(scale * X, Y, A)
    assert_allclose(alpha_max(scaled), scale * alpha_max(problem), rtol=1e-12)
    alpha = 0.1 * alpha_max(problem)
    result, again = solve_lsg21(problem, alpha, TIGHT), solve_lsg21(scaled, scale * alpha, TIGHT)
    assert again.status is Status.CONVERGED
    assert_allclose(scale * again.coef, result.coef, atol=1e-8)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_badly_scaled_features_still_converge(form, rng):
    X, Y, A = instance(rng, 60, 12, 4)
    problem = build(form(X * 10.0 ** np.linspace(-6.0, 6.0, 12)), Y, A)
    for ratio in (1e-10, 1e-8, 1e-4, 0.1):  # below, slopes are known no better than to a part of alpha
        result = solve_lsg21(problem, ratio * alpha_max(problem), Control(1e-6, 1000))
        assert result.status is Status.CONVERGED, ratio


# ---- alpha_max


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_alpha_max_is_that_of_the_reference(options, rng):
    X, Y, A = instance(rng)
    options = dict(options)
    if options.pop("weight", False):
        options["sample_weight"] = rng.uniform(0.5, 2.0, 18)
    largest = alpha_max(build(X, Y, A, **options))
    assert_allclose(largest, reference.alpha_max(X, Y, A, **options), rtol=1e-6)
    for form in (np.asarray, messy_csr):
        problem = build(form(X), Y, A, **options)
        assert_allclose(alpha_max(problem), largest, rtol=1e-10)
        for above in (alpha_max(problem), 1.5 * largest, 1e6 * largest):
            result = solve_lsg21(problem, above, TIGHT)
            assert result.n_iter == 0
            assert_array_equal(result.coef, 0.0)
            assert_allclose(result.primal, float(np.sum(problem.Y**2)), rtol=1e-14)
        assert solve_lsg21(problem, 0.99 * largest, TIGHT).coef.any()


def test_alpha_max_of_one_label_and_of_nothing(rng):
    X, Y, _ = instance(rng, n_labels=1)
    X[:, 2] = 0.0
    centred = Y - Y.mean(axis=0)
    expected = np.abs(2.0 * X.T @ centred).max() / (math.sqrt(2.0) * 0.3)
    assert_allclose(alpha_max(build(X, Y, [[0.3]])), expected, rtol=1e-12)
    assert alpha_max(build(0.0 * X, Y, [[0.3]])) == 0.0
    assert alpha_max(build(X, 0.0 * Y, [[0.3]])) == 0.0


@pytest.mark.parametrize("kind", ["complete", "star"])
@pytest.mark.compiled
def test_alpha_max_of_many_labels_is_where_weights_end(kind, rng):
    X, Y, A = instance(rng, 50, 10, 100)
    if kind == "star":
        A[1:, 1:] = 0.0
        A[0] = A[:, 0] = 1.0
    problem = build(X, Y, A, self_edges=False)
    largest = alpha_max(problem)
    assert not solve_lsg21(problem, largest, TIGHT).coef.any()
    assert solve_lsg21(problem, 0.97 * largest, TIGHT).coef.any()


# ---- labels that are not penalised


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("n", "d"), [(18, 5), (7, 11)])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_unpenalised_label_gets_the_shortest_least_squares_solution(form, n, d, fit_intercept, rng):
    X, Y, A = instance(rng, n, d)
    A[2, :] = A[:, 2] = 0.0
    weight = rng.uniform(0.5, 2.0, n)
    problem = build(form(X), Y, A, fit_intercept=fit_intercept, sample_weight=weight)
    split = split_labels(problem, 0.3)
    assert_array_equal(split.free, [2])
    assert_array_equal(split.penalised, [0, 1, 3])
    result = solve_lsg21(problem, 0.3, Control(1e-7, 1000))
    s = weight / weight.sum()
    mean_x, mean_y = (s @ X, s @ Y[:, 2]) if fit_intercept else (np.zeros(d), 0.0)
    root = np.sqrt(weight)
    expected = np.linalg.pinv(root[:, None] * (X - mean_x)) @ (root * (Y[:, 2] - mean_y))
    assert_allclose(result.coef[2], expected, rtol=1e-6, atol=1e-8)
    # The others are as if it were not there.
    others = [0, 1, 3]
    alone = build(form(X), Y[:, others], A[np.ix_(others, others)], fit_intercept=fit_intercept, sample_weight=weight)
    assert_allclose(result.coef[others], solve_lsg21(alone, 0.3, Control(1e-7, 1000)).coef, atol=1e-3)


@pytest.mark.parametrize("solve", [solve_lsg21, solve_lsg21_irls])
def test_without_alpha_all_labels_are_least_squares(solve, rng):
    X, Y, A = instance(rng)
    result = solve(build(X, Y, A), 0.0, TIGHT)
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(18)]), Y, rcond=None)[0]
    assert_allclose(result.coef, expected[:-1].T, atol=1e-9)
    assert result.n_iter == 0
    assert result.status is Status.CONVERGED


def test_a_small_alpha_leads_to_least_squares(rng):
    X, Y, A = instance(rng)
    result = solve_lsg21(build(X, Y, A), 1e-9, Control(1e-9, 1000))
    expected = np.linalg.lstsq(np.column_stack([X, np.ones(18)]), Y, rcond=None)[0]
    assert_allclose(result.coef, expected[:-1].T, atol=1e-6)


def test_nothing_to_fit_is_not_fitted(rng):
    X, Y, A = instance(rng)
    W, primal, dual = least_norm(build(X, 0.0 * Y, A), np.array([0, 3]))
    assert W.shape == (5, 2)
    assert (W.any(), primal, dual) == (False, 0.0, 0.0)


# ---- working sets


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("ratio", [0.7, 0.5, 0.3])
@pytest.mark.compiled
def test_steps_for_some_features_reach_the_same_optimum(few_features_at_once, form, ratio):
    X, Y, A = instance(np.random.default_rng(3), 80, 120, 4)
    X = X * (np.random.default_rng(4).random(X.shape) < 0.5)
    problem = build(form(X), Y, A)
    alpha = ratio * alpha_max(problem)
    expected = solve_lsg21(problem, alpha, Control(1e-11, 1000))
    used = np.count_nonzero(expected.coef.any(axis=0))
    assert 0 < 2 * used < 120  # never all features at once, see the bug above
    few_features_at_once(3, 119)
    assert full_gram(problem) is None
    result = solve_lsg21(problem, alpha, Control(1e-9, 1000))
    assert result.status is Status.CONVERGED
    assert_allclose(result.primal, expected.primal, rtol=1e-9)
    assert_allclose(result.coef, expected.coef, atol=1e-5)
    start = solve_lsg21(problem, alpha, Control(1e-9, 1000), start=result.coef.T)
    assert start.n_iter == 0


@pytest.mark.compiled
def test_more_features_in_use_than_steps_are_taken_for(few_features_at_once):
    for n in (60, 30):
        problem, alpha = random_problem(0, n, 25, 4, 0.02)
        expected = solve_lsg21(problem, alpha, TIGHT, gram=problem.gram(np.arange(25), np.arange(25)))
        assert np.count_nonzero(expected.coef.any(axis=0)) > 12
        few_features_at_once(4, 6)
        result = solve_lsg21(problem, alpha, Control(1e-6, 3000))
        assert result.status is Status.CONVERGED
        assert_allclose(result.primal, expected.primal, rtol=1e-6)


def test_products_of_chosen_features_are_kept_up_to_date(few_features_at_once, rng):
    X, Y, A = instance(rng, 40, 60, 3)
    few_features_at_once(4, 58)
    problem = build(sp.csr_array(X), Y, A)
    alpha = 0.2 * alpha_max(problem)
    descent = lsg21._Descent(lsg21.Certifier(problem, alpha), np.zeros((60, 3)), 1e-6, None)
    sizes = []
    for _ in range(8):
        descent.certify()
        Z = problem.centred()
        features = descent.chosen.index
        chosen = Z[:, features]
        assert np.unique(features).size == features.size
        assert_allclose(descent.chosen.gram, chosen.T @ chosen, atol=1e-10)
        assert_allclose(descent.slope, chosen.T @ (Z @ descent.W - problem.Y), atol=1e-10)
        assert np.isin(np.flatnonzero(descent.W.any(axis=1)), features).all()
        sizes.append(features.size)
        descent.step()
    assert sizes[0] == 4
    assert sizes[-1] > 4


def test_products_of_all_features_only_when_they_are_few(monkeypatch, rng):
    X, Y, A = instance(rng, 20, 12)
    for form in (np.asarray, sp.csr_array):
        problem = build(form(X), Y, A)
        assert_allclose(full_gram(problem), problem.centred().T @ problem.centred(), atol=1e-10)
    monkeypatch.setattr(lsg21, "POLICY", replace(lsg21.POLICY, most_features=11))
    assert full_gram(problem) is None


# ---- starts, paths, limits


@pytest.mark.parametrize("solve", [solve_lsg21, solve_lsg21_irls])
def test_start_at_the_optimum_takes_no_step(solve):
    problem, alpha = random_problem(0, 30, 8, 4, 0.1)
    result = solve(problem, alpha, Control(1e-6, 3000))
    assert result.n_iter > 0
    W = result.coef.T.copy()
    again = solve(problem, alpha, Control(1e-6, 3000), start=W)
    assert again.n_iter == 0
    assert_array_equal(again.coef, result.coef)
    assert_array_equal(W, result.coef.T)  # the caller's start is not written to


@pytest.mark.parametrize("scale", [1.0, 1e-6, 1e6])
def test_any_start_leads_to_the_optimum(scale, rng):
    problem, alpha = random_problem(0, 30, 8, 4, 0.1)
    best = solve_lsg21(problem, alpha, TIGHT)
    result = solve_lsg21(problem, alpha, TIGHT, start=scale * rng.normal(size=(8, 4)))
    assert result.status is Status.CONVERGED
    assert_allclose(result.coef, best.coef, atol=1e-5)


@pytest.mark.parametrize(("n", "d"), [(60, 12), (20, 30)])
@pytest.mark.compiled
def test_a_path_is_the_same_as_fits_from_nothing(n, d):
    problem, largest = random_problem(2, n, d, 5, 1.0)
    control = Control(1e-8, 1000)
    gram, start, warm_steps, cold_steps = full_gram(problem), None, 0, 0
    for alpha in largest * np.geomspace(1.0, 0.02, 12):
        warm = solve_lsg21(problem, alpha, control, start=start, gram=gram)
        cold = solve_lsg21(problem, alpha, control)
        assert warm.status is cold.status is Status.CONVERGED
        assert_allclose(warm.primal, cold.primal, rtol=2e-8)
        assert_allclose(warm.coef, cold.coef, atol=1e-3)
        start, warm_steps, cold_steps = warm.dual_coef.W, warm_steps + warm.n_iter, cold_steps + cold.n_iter
    # Fits from nothing begin with ridge regression where alpha is small, which takes about as many steps as a start
    # from the weights before; with more features than rows the steps of both vary a lot.
    assert warm_steps <= (1.25 * cold_steps if n > d else 300)


def test_result_is_a_start(rng):
    problem, alpha = random_problem(0, 18, 5, 4, 0.1)
    result = solve_lsg21(problem, alpha, TIGHT)
    assert_array_equal(result.dual_coef.W, result.coef.T)
    assert result.dual_coef.shape == (18, 4)
    assert result.coef.flags.c_contiguous


def test_same_result_every_time(rng):
    problem, alpha = random_problem(0, 40, 20, 5, 0.05)
    first, second = (solve_lsg21(problem, alpha, Control(1e-6, 100)) for _ in range(2))
    assert_array_equal(first.coef, second.coef)
    assert [point.primal for point in first.history] == [point.primal for point in second.history]


def test_limits_and_callbacks_end_the_loop():
    problem, alpha = random_problem(0, 40, 20, 5, 0.05)
    stopped = solve_lsg21(problem, alpha, Control(1e-12, 1))
    assert stopped.status is Status.MAX_ITER
    assert stopped.n_iter == 1
    assert_allclose(stopped.primal, value(problem, stopped.coef.T, alpha), rtol=1e-12)
    seen = []
    result = solve_lsg21(problem, alpha, Control(1e-12, 100, callback=lambda point: seen.append(point) or True))
    assert result.status is Status.STOPPED
    assert list(result.history) == seen
    assert len(seen) == 1


def test_history_falls_to_the_optimum():
    problem, alpha = random_problem(1, 60, 20, 5, 0.02)
    result = solve_lsg21(problem, alpha, Control(1e-10, 1000))
    primals, duals = (np.array([getattr(point, name) for point in result.history]) for name in ("primal", "dual"))
    assert len(primals) > 2
    assert (np.diff(primals) <= 1e-9 * primals[0]).all()
    assert (duals <= result.primal * (1.0 + 1e-12)).all()
    assert primals[0] == pytest.approx(float(np.sum(problem.Y**2)))


@pytest.mark.parametrize("ratio", [0.3, 0.01])
def test_reweighting_lowers_the_objective_and_keeps_zeros(ratio):
    problem, alpha = random_problem(1, 60, 20, 5, ratio)
    gram, W = full_gram(problem), np.random.default_rng(0).normal(size=(20, 5))
    W[3:8], W[9, 2] = 0.0, 0.0
    for kept in (slice(0, 20), slice(0, 9)):  # nearly all rows, and few of them
        part = np.zeros_like(W)
        part[kept] = W[kept]
        zero, before = part == 0.0, value(problem, part, alpha)
        slope = problem.transposed(problem.product(part) - problem.Y)
        fell = reweighted(gram, slope, part, alpha, as_edges(problem.penalty), most=24, enough=0.0)
        assert fell > 0.0
        assert_allclose(before - value(problem, part, alpha), fell, rtol=1e-9)
        assert_allclose(slope, problem.transposed(problem.product(part) - problem.Y), atol=1e-9)
        assert_array_equal(part[zero], 0.0)


def test_reweighting_ends_where_it_gains_enough_or_little():
    problem, alpha = random_problem(1, 60, 20, 5, 0.1)
    gram, edges = full_gram(problem), as_edges(problem.penalty)

    def fell(most, enough=0.0):
        W = np.random.default_rng(0).normal(size=(20, 5))
        slope = problem.transposed(problem.product(W) - problem.Y)
        return reweighted(gram, slope, W, alpha, edges, most=most, enough=enough)

    falls = [fell(most) for most in (1, 8, 16, 24)]
    assert falls[0] > 0.0
    assert (np.diff(falls) > 0.0).all()
    assert fell(160, np.inf) == falls[1]  # steps are judged by eights
    assert fell(160, 0.9 * (falls[2] - falls[1])) >= falls[2]
    assert fell(160) < fell(10_000) * (1.0 + 1e-9)
    assert fell(0) == 0.0


def test_with_a_ridge_the_first_steps_are_those_of_ridge_regression(rng):
    problem, alpha = random_problem(0, 60, 4, 4, 0.1)
    gram, W, ridge = full_gram(problem), np.zeros((4, 4)), rng.uniform(1.0, 3.0, (4, 4))
    slope = -problem.transposed(problem.Y)
    edges = as_edges(problem.penalty)
    assert reweighted(gram, slope, W, alpha, edges, most=4, enough=0.0, ridge=ridge) > 0.0
    for label in range(4):  # four steps of conjugate gradients solve a system of four
        system = 2.0 * gram + np.diag(ridge[:, label])
        solved = np.linalg.solve(system, 2.0 * problem.transposed(problem.Y)[:, label])
        assert_allclose(W[:, label], solved, rtol=1e-4, atol=1e-4 * np.abs(solved).max())
    assert_allclose(slope, problem.transposed(problem.product(W) - problem.Y), atol=1e-9)


@pytest.mark.parametrize("unit", [1e-25, 1e25])
def test_reweighting_does_not_depend_on_the_units_of_features(unit, rng):
    """Products are in single precision, between features of length 1."""
    X, Y, A = instance(rng, 40, 8, 4)
    problems = [build(X, Y, A), build(unit * X, Y, A)]
    weights = []
    for problem, scale in zip(problems, (1.0, unit), strict=True):
        gram, W, slope = full_gram(problem), np.zeros((8, 4)), -problem.transposed(problem.Y)
        ridge = np.outer(gram.diagonal(), np.ones(4))
        reweighted(gram, slope, W, scale, as_edges(problem.penalty), most=40, enough=0.0, ridge=ridge)
        weights.append(scale * W)
    assert np.abs(weights[0]).max() > 1e-3
    assert_allclose(weights[1], weights[0], atol=1e-5 * np.abs(weights[0]).max())


@pytest.mark.parametrize("sparse", [False, True])
def test_labels_without_a_penalty_are_solved_whatever_the_lengths_of_features(sparse, rng):
    X, Y, _ = instance(rng, 60, 12, 3)
    best = least_norm(build(X, Y, np.eye(3)), np.arange(3))
    X[:, 0] *= 1e6
    X[:, 1:3] *= 1e-6
    X[:, 4] *= 1e-18
    W, primal, dual = least_norm(build(sp.csr_array(X) if sparse else X, Y, np.eye(3)), np.arange(3))
    assert_allclose([primal, dual], best[1], rtol=1e-8)
    assert_allclose(W[5:], best[0][5:], atol=1e-6)


@pytest.mark.parametrize("ratio", [0.9, 0.01])
def test_ridge_regression_is_where_most_weights_will_not_be_zero(ratio, monkeypatch):
    problem, alpha = random_problem(1, 200, 20, 5, ratio)
    ridges = []

    def spy(*args, ridge=None, **options):
        ridges.append(ridge is not None)
        return reweighted(*args, ridge=ridge, **options)

    monkeypatch.setattr(lsg21, "reweighted", spy)
    result = solve_lsg21(problem, alpha, Control(1e-6, 100))
    assert result.status is Status.CONVERGED
    assert ridges.count(True) == (1 if ratio < 0.1 else 0)
    if ratio < 0.1:  # and what it leaves is near
        step = solve_lsg21(problem, alpha, Control(0.0, 1))
        assert result.primal <= step.primal <= (1.0 + 1e-4) * result.primal


def test_a_ridge_that_is_no_better_than_nothing_is_not_taken(monkeypatch):
    """Near alpha_max weights are not worth their penalty; there the start is that of passes alone."""
    problem, alpha = random_problem(2, 60, 12, 5, 0.9)
    policy = replace(lsg21.POLICY, most_conjugate=1)
    monkeypatch.setattr(lsg21, "POLICY", policy)
    best = solve_lsg21(problem, alpha, TIGHT)
    monkeypatch.setattr(lsg21, "POLICY", replace(policy, ridge_start_from=0.0))
    result = solve_lsg21(problem, alpha, TIGHT)
    assert_array_equal(result.coef, best.coef)
    assert [point.primal for point in result.history] == [point.primal for point in best.history]


@pytest.mark.parametrize("factorise", [True, False])
def test_newton_steps_with_and_without_factors_reach_the_same_weights(monkeypatch, factorise):
    problem, alpha = random_problem(0, 200, 30, 6, 0.02)
    best = solve_lsg21(problem, alpha, TIGHT)
    monkeypatch.setattr(_edge_newton, "POLICY", replace(_edge_newton.POLICY, products_saved=10**9 if factorise else 0))
    result = solve_lsg21(problem, alpha, TIGHT)
    assert result.status is Status.CONVERGED
    assert_allclose(result.coef, best.coef, atol=1e-6)


def test_rough_bounds_at_the_start_are_bounds():
    """From nothing, far below alpha_max, the certificate is rough; it must not exceed the optimum."""
    for ratio in (0.001, 0.1, 0.4, 0.6, 0.99):
        problem, alpha = random_problem(2, 40, 12, 5, ratio)
        result = solve_lsg21(problem, alpha, TIGHT)
        assert result.history[0].dual <= result.dual * (1.0 + 1e-12)
        assert result.history[0].dual > 0.0


def test_zero_rows_of_X_and_one_row(rng):
    X, Y, A = instance(rng)
    for rows in (0, 1):
        problem = build(X[: rows + 1], Y[: rows + 1], A)
        result = solve_lsg21(problem, 0.1, TIGHT)
        assert result.status is Status.CONVERGED
        assert np.isfinite(result.coef).all()
    assert_array_equal(solve_lsg21(build(0.0 * X, Y, A), 0.1, TIGHT).coef, 0.0)


# ---- reweighting


@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(("n", "d"), [(30, 8), (10, 14)])
def test_reweighting_reaches_the_optimum(options, form, n, d, rng):
    X, Y, A = instance(rng, n, d)
    options = dict(options)
    if options.pop("weight", False):
        options["sample_weight"] = rng.uniform(0.5, 2.0, n)
    problem = build(form(X), Y, A, **options)
    alpha = 0.2 * alpha_max(problem)
    best = solve_lsg21(problem, alpha, TIGHT)
    result = solve_lsg21_irls(problem, alpha, Control(1e-4, 5000))
    assert result.status is Status.CONVERGED
    assert best.primal * (1.0 - 1e-8) <= result.primal <= best.primal * (1.0 + 1e-4)
    assert_allclose(result.primal, value(problem, result.coef.T, alpha), rtol=1e-10)
    assert result.dual <= best.primal * (1.0 + 1e-12)
    assert_allclose(result.coef, best.coef, atol=0.02 * np.abs(best.coef).max())


def test_reweighting_takes_the_steps_of_the_paper(rng):
    X, Y, A = instance(rng, 20, 4, 3)
    start = rng.uniform(0.5, 1.5, (4, 3))
    problem = build(X, Y, A)
    alpha = 0.05 * alpha_max(problem)
    expected = naive.reweighting(X, Y, A, alpha, 3, start=start, eps=1e-9)
    result = solve_lsg21_irls(problem, alpha, Control(0.0, 3), start=start)
    assert result.n_iter == 3
    assert_allclose(result.coef.T, expected.W, rtol=1e-6, atol=1e-9)
    assert_allclose(problem.intercept(result.coef.T), expected.b, rtol=1e-6)
    assert_allclose(result.primal, expected.objective[-1], rtol=1e-8)


def test_reweighting_never_raises_the_objective(rng):
    problem, alpha = random_problem(0, 30, 8, 4, 0.1)
    primals = [point.primal for point in solve_lsg21_irls(problem, alpha, Control(1e-9, 300)).history]
    assert len(primals) > 3
    assert (np.diff(primals) <= 1e-9 * primals[0]).all()


@pytest.mark.parametrize("targets", [0.0, 1.0])
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_reweighting_with_nothing_to_learn(targets, scale, rng):
    X, Y, A = instance(rng)
    result = solve_lsg21_irls(build(scale * X, np.full_like(Y, targets), A), 5.0, TIGHT)
    assert result.status is Status.CONVERGED
    assert_allclose(result.coef, 0.0, atol=1e-12)
