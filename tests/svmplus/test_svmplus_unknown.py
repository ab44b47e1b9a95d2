"""PrBR and PrML with unknown labels: their cells ask for nothing and explain nothing; against cvxpy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.svmplus import reference_prml as reference

from comargin import PrBRClassifier, PrMLClassifier
from comargin.svmplus.problem import nearest_labels

BOTH = pytest.mark.parametrize("learner", [PrBRClassifier, PrMLClassifier])


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(40, 4))
    Y = (X @ rng.normal(size=(4, 5)) + rng.normal(size=(40, 5)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.35] = np.nan
    Y[:, 3], Y[7] = np.nan, np.nan  # a label and a row that nobody looked at
    return X, Y


def signs_of(Y):
    return np.nan_to_num(2.0 * Y - 1.0)


def costs_of(Y, C, weight):
    return C * weight[:, None] * ~np.isnan(Y)


def nearest(Y, count):
    """Labels of the smallest share of differing rows among those where both are known; never known together is 1."""
    n_labels = Y.shape[1]
    mask = np.zeros((n_labels, n_labels), dtype=bool)
    for i in range(n_labels):
        distance = []
        for other in range(n_labels):
            both = ~np.isnan(Y[:, i]) & ~np.isnan(Y[:, other])
            share = np.mean(Y[both, i] != Y[both, other]) if both.any() else 1.0
            distance += [] if other == i else [(share, other)]
        mask[i, [other for _, other in sorted(distance)[:count]]] = True
    return mask


def with_constant(X):
    return np.column_stack([X, np.ones(len(X))])


@pytest.mark.parametrize("weighted", [False, True])
def test_nearest_labels_by_the_rows_where_both_are_known(rows, rng, weighted):
    _, Y = rows
    Y[Y[:, 0] == 1, 1] = np.nan  # labels 0 and 1 are never on together, and not often known together
    weight = rng.integers(0, 3, len(Y)) if weighted else np.ones(len(Y), dtype=int)
    S = signs_of(Y).astype(np.int8)
    for count in range(5):
        found = nearest_labels(S, count, weight.astype(float) if weighted else None)
        assert_array_equal(found, nearest(np.repeat(Y, weight, axis=0), count))


@pytest.mark.parametrize("n_privileged", [None, 0, 2])
@pytest.mark.parametrize("C", [0.02, 1.0])
def test_prbr_is_optimal_over_known_cells(rows, rng, C, n_privileged):
    X, Y = rows
    weight = 0.5 + rng.random(len(X))
    mask = None if n_privileged is None else nearest(Y, n_privileged)
    best = reference.prbr_optimum(with_constant(X), signs_of(Y), costs_of(Y, C, weight), 0.7, mask)
    model = PrBRClassifier(C, gamma2=0.7, n_privileged=n_privileged, tol=1e-8, max_iter=2000, random_state=0)
    model.fit(X, Y, sample_weight=weight)
    assert_allclose([model.objective_, model.dual_objective_], best.objective, rtol=1e-6)
    Z = np.column_stack([model.coef_, model.intercept_]).T
    assert_allclose(Z, best.weights, atol=1e-3)
    assert_allclose(model.privileged_coef_.T, best.Wt, atol=1e-3)
    assert_array_equal(Z[:, 3], 0.0)
    assert_array_equal(model.privileged_coef_[3], 0.0)
    assert_allclose(model.privileged_coef_[:, 3], 0.0, atol=1e-12)
    assert_array_equal(model.predict(X)[:, 3], 0)
    assert np.abs(Z).max() > 0.1


def test_prml_is_optimal_over_known_cells(rows, rng):
    """Both steps at the solution have its objective, and no predictors of any rank have less than the bound."""
    X, Y = rows
    weight, C = 0.5 + rng.random(len(X)), 0.3
    model = PrMLClassifier(C, rank=4, gamma1=0.6, gamma2=0.7, tol=1e-7, max_iter=1000, random_state=0)
    model.fit(X, Y, sample_weight=weight)
    S, cost, H = signs_of(Y), costs_of(Y, C, weight), with_constant(X)
    D, W, T = np.column_stack([model.dictionary_, model.dictionary_intercept_]), model.codes_, model.privileged_coef_.T
    assert reference.violation(H @ D.T @ W, S, T, cost) <= 1e-9
    assert_allclose(model.objective_, reference.prml_objective(D, W, T, S, cost, 0.6, 0.7), rtol=1e-9)
    w_step = reference.w_step_optimum(H, S, D, cost, 0.6, 0.7).objective + 0.5 * np.sum(D**2)
    d_step = reference.d_step_optimum(H, S, W, cost, 0.7).objective + 0.3 * np.sum(W**2)
    assert_allclose([w_step, d_step], model.objective_, rtol=1e-6)
    assert_allclose(model.dual_objective_, d_step, rtol=1e-6)
    lowest, _ = reference.nuclear_optimum(H, S, cost, 0.6, 0.7)
    assert model.lower_bound_ <= lowest * (1 + 1e-6)
    assert_allclose(model.objective_, lowest, rtol=1e-4)  # the rank is enough
    assert np.abs(model.coef_).max() > 0.1
    assert_array_equal(model.coef_[3], 0.0)
    assert_allclose(T[:, 3], 0.0, atol=1e-9)


@pytest.mark.parametrize("n_privileged", [None, 0])
def test_a_label_learns_from_the_rows_where_it_is_known(rows, n_privileged):
    X, Y = rows
    options = {"C": 0.5, "tol": 1e-9, "max_iter": 2000, "n_privileged": n_privileged, "class_weight": "balanced"}
    model = PrBRClassifier(**options, random_state=0).fit(X, Y)
    for label in (0, 1, 2, 4):
        known = ~np.isnan(Y[:, label])
        alone = PrBRClassifier(**options, random_state=0).fit(X[known], Y[known])
        assert_allclose(model.coef_[label], alone.coef_[label], atol=1e-4)
        assert_allclose(model.privileged_coef_[label], alone.privileged_coef_[label], atol=1e-3)


@pytest.mark.parametrize("n_privileged", [None, 3])
def test_the_literal_form_is_optimal_where_it_is_feasible(rng, n_privileged):
    X = rng.normal(size=(40, 4))
    Y = np.column_stack([X > 0.0, X.sum(axis=1) > 0.0]).astype(float)  # separable
    Y[rng.random(Y.shape) < 0.35] = np.nan
    mask = None if n_privileged is None else nearest(Y, n_privileged)
    best = reference.prbr_optimum(with_constant(X), signs_of(Y), costs_of(Y, 0.5, np.ones(40)), 0.7, mask, False)
    options = {"gamma2": 0.7, "privileged_intercept": False, "n_privileged": n_privileged, "random_state": 0}
    model = PrBRClassifier(0.5, tol=1e-8, max_iter=2000, **options).fit(X, Y)
    assert_allclose([model.objective_, model.dual_objective_], best.objective, rtol=1e-6)
    assert_array_equal(np.diag(model.privileged_coef_), 0.0)
    low_rank = PrMLClassifier(0.5, rank=5, tol=1e-6, max_iter=1000, **options).fit(X, Y)
    lowest, _ = reference.nuclear_optimum(
        with_constant(X), signs_of(Y), costs_of(Y, 0.5, np.ones(40)), 1.0, 0.7, mask, False
    )
    assert low_rank.lower_bound_ <= lowest * (1 + 1e-6)
    assert_allclose(low_rank.objective_, lowest, rtol=1e-3)


def overlapping():
    """Labels 0 and 1 change at equal x, and no weights of other labels keep slacks from being negative."""
    return np.array([[0.0], [0.0], [5.0], [5.0]]), np.array([[1.0, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1]])


@BOTH
def test_unknown_cells_have_no_constraints_that_could_be_infeasible(learner):
    X, Y = overlapping()
    model = learner(privileged_intercept=False, tol=1e-6, random_state=0)
    with pytest.raises(ValueError, match=r"2 of 3 labels \(0, 1\).*privileged_intercept=True"):
        model.fit(X, Y)
    hidden = Y.copy()
    hidden[[0, 2], 0] = np.nan  # label 0 is off where it is known, and for label 1 it explains some rows only
    best = reference.prbr_optimum(
        with_constant(X), signs_of(hidden), costs_of(hidden, 1.0, np.ones(4)), 1.0, None, False
    )
    assert best.infeasible == ()
    model.fit(X, hidden)
    assert np.isfinite(model.objective_)
    hidden[:, 0] = np.nan  # nothing is left to explain label 1 with
    with pytest.raises(ValueError, match=r"1 of 3 labels \(1\).*privileged_intercept=True"):
        model.fit(X, hidden)


def test_predictors_of_too_low_a_rank_are_refused(rng):
    """Three labels without any slack: label 3, which nobody looked at, explains nothing."""
    X = np.repeat(np.eye(3), 4, axis=0) + 0.01 * rng.normal(size=(12, 3))
    Y = np.column_stack([np.repeat(np.eye(3), 4, axis=0), np.full(12, np.nan)])
    options = {"privileged_intercept": False, "n_privileged": 0, "fit_intercept": False, "random_state": 0}
    with pytest.raises(ValueError, match=r"no predictors of rank 1 were found that satisfy all constraints for"):
        PrMLClassifier(rank=1, **options).fit(X, Y)
    model = PrMLClassifier(rank=3, **options).fit(X, Y)
    assert_array_equal(model.predict(X)[:, :3], Y[:, :3])


@BOTH
def test_sparse_rows_give_what_dense_ones_do(rows, learner):
    X, Y = rows
    X = np.where(X > 0.0, X, 0.0)
    dense, sparse = (learner(0.5, tol=1e-8, max_iter=2000, random_state=0).fit(x, Y) for x in (X, sp.csr_array(X)))
    assert_allclose(sparse.objective_, dense.objective_, rtol=1e-7)
    assert_allclose(sparse.coef_, dense.coef_, atol=1e-3)


@BOTH
def test_warm_starts_and_states(rows, learner):
    X, Y = rows
    model = learner(0.5, tol=1e-5, max_iter=1000, random_state=0, warm_start=True).fit(X, Y)
    objective, n_iter = model.objective_, model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ < n_iter
    assert_allclose(model.objective_, objective, rtol=1e-4)
    states = []
    stopped = learner(0.5, tol=1e-5, max_iter=1000, random_state=0)
    stopped.fit_from_state(X, Y, None, keep=lambda make: states.append(make()), should_stop=lambda: len(states) > 1)
    stopped.fit_from_state(X, Y, states[-1])
    assert_allclose(stopped.objective_, objective, rtol=1e-4)
    assert stopped.n_iter_ < 1000


def test_zero_predictors_leave_a_label_that_nobody_looked_at_alone(rng):
    """Where slacks alone are best, its privileged weights are zero too, and the certificate is exact."""
    X, Y = rng.normal(size=(30, 2)), (rng.random((30, 3)) < 0.5).astype(float)
    Y[:, 2] = np.nan
    model = PrMLClassifier(1e-4, tol=1e-6, random_state=0)
    with pytest.warns(UserWarning, match="all predictors are zero"):
        model.fit(X, Y)
    assert_array_equal(model.coef_, 0.0)
    assert_array_equal(model.privileged_coef_[2], 0.0)
    assert model.duality_gap_ <= 1e-6 * model.objective_
