"""LSG21 with unknown labels against cvxpy on the known cells, and its certificate."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from comargin import LSG21Classifier, LSG21ClassifierCV
from comargin.graphs import cosine_affinity

AFFINITY = np.array([[1.0, 0.5, 0.0, 0.0], [0.5, 1.0, 0.3, 0.0], [0.0, 0.3, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]])


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(60, 6)) + 1.0
    Y = (X @ rng.normal(size=(6, 4)) + rng.normal(size=(60, 4)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.5] = np.nan
    Y[3] = np.nan
    return X, Y


def optimum(X, Y, alpha, affinity, weight, fit_intercept):
    n_labels, known = Y.shape[1], ~np.isnan(Y)
    W, b = cp.Variable((X.shape[1], n_labels)), cp.Variable((1, n_labels))
    R = cp.multiply(known * np.sqrt(weight)[:, None], X @ W + np.ones((len(X), 1)) @ b - np.nan_to_num(Y))
    penalty = sum(
        affinity[i, j] * cp.sum(cp.norm(cp.vstack([W[:, i], W[:, j]]), axis=0))
        for i, j in zip(*np.nonzero(affinity), strict=True)
    )
    problem = cp.Problem(cp.Minimize(cp.sum_squares(R) + alpha * penalty), [] if fit_intercept else [b == 0])
    return problem.solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("alpha", [0.3, 3.0])
def test_the_certified_optimum_is_that_of_the_known_cells(rows, rng, alpha, fit_intercept):
    X, Y = rows
    weight = 0.5 + rng.random(len(X))
    model = LSG21Classifier(alpha, affinity=AFFINITY, fit_intercept=fit_intercept, tol=1e-8).fit(X, Y, weight)
    assert_allclose(model.objective_, optimum(X, Y, alpha, AFFINITY, weight, fit_intercept), rtol=1e-6)
    assert model.duality_gap_ <= 1e-8 * model.objective_
    assert np.abs(model.coef_).max() > 0.01
    known, residual = ~np.isnan(Y), model.decision_function(X) + 0.5 - np.nan_to_num(Y)
    squares = float((weight[:, None] * known * residual**2).sum())
    norms = np.hypot(model.coef_[:, None], model.coef_[None]).sum(axis=2)
    assert_allclose(model.objective_, squares + alpha * float((AFFINITY * norms).sum()), rtol=1e-9)


def test_sparse_rows_give_what_dense_ones_do(rows):
    X, Y = rows
    X = np.where(X > 1.0, X, 0.0)
    dense = LSG21Classifier(0.5, tol=1e-9).fit(X, Y)
    sparse = LSG21Classifier(0.5, tol=1e-9).fit(sp.csr_array(X), Y)
    assert_allclose(sparse.coef_, dense.coef_, atol=1e-5)


@pytest.mark.parametrize("options", [{"alpha": 0.0}, {"self_edges": False}])
def test_labels_without_a_penalty_are_least_squares_on_their_rows(rows, options):
    X, Y = rows
    model = LSG21Classifier(**{"alpha": 1.0, "affinity": AFFINITY, "tol": 1e-7, **options}).fit(X, Y)
    known = ~np.isnan(Y[:, 3])  # no edge joins it
    A = np.column_stack([X[known], np.ones(known.sum())])
    expected = np.linalg.lstsq(A, Y[known, 3], rcond=None)[0]
    assert_allclose([*model.coef_[3], model.intercept_[3]], expected, atol=1e-8)
    assert model.duality_gap_ <= 1e-7 * model.objective_


def test_a_label_that_nobody_looked_at_is_off(rows):
    X, Y = rows
    Y[:, 1] = np.nan
    model = LSG21Classifier(1.0, affinity=AFFINITY).fit(X, Y)
    assert_array_equal(model.coef_[1], 0.0)
    assert_array_equal(model.predict(X)[:, 1], 0)


def test_the_graph_counts_pairs_of_known_cells(rng):
    Y = np.repeat([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 1.0]], 500, axis=0)
    hidden = np.where(rng.random(Y.shape) < 0.5, np.nan, Y)
    assert_allclose(cosine_affinity(hidden).to_array(), cosine_affinity(Y).to_array(), atol=0.06)


def test_the_search_along_alpha_and_what_irls_refuses(rows):
    X, Y = rows
    found = LSG21ClassifierCV(alphas=4, cv=3).fit(X, Y)
    assert found.alpha_ > 0.0
    nothing = LSG21Classifier(1.001 * found.alphas_.max(), tol=1e-6).fit(X, Y)
    assert_array_equal(nothing.coef_, 0.0)
    with pytest.raises(ValueError, match='solver="irls" takes no unknown labels'):
        LSG21Classifier(solver="irls").fit(X, Y)
