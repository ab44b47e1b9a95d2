"""Structured SVMs with a kernel: the factor of its matrix, an independent optimum, and what the projection can cost."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import linear_kernel, rbf_kernel
from tests.structured.reference_structured import structured_optimum

from comargin import CGMClassifier, M3LClassifier, StructuredSVMClassifier
from comargin.core.kernel_functions import kernel_function
from comargin.structured import kernel_features as module
from comargin.structured.kernel_features import pivoted_factor

TREE = [(0, 1), (1, 2), (1, 3)]


def make(seed, n=24, n_features=5, n_labels=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    scores = np.sin(2.0 * X) @ rng.normal(size=(n_features, n_labels)) + 0.3 * rng.normal(size=(n, n_labels))
    Y = (scores > 0.2).astype(int)
    Y[:, 1] ^= Y[:, 0] & (rng.random(n) < 0.6)
    return X, Y


def gram_of(X, kernel="rbf"):
    return kernel_function(kernel, 0.3, 3, 1.0, X).gram(X, constant=0.0)


def roots(K):
    """Rows whose products are K, by its eigenvectors."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array])
def test_a_full_factor_equals_the_kernel_matrix(storage, seed):
    X = np.random.default_rng(seed).normal(size=(300, 40))  # several blocks of pivots
    factor = pivoted_factor(gram_of(storage(X)), 300, constant=True)
    F, pivots = factor.F[:, :-1], factor.pivots
    assert_allclose(F @ F.T, rbf_kernel(X, gamma=0.3), atol=1e-8)
    assert_array_equal(factor.F[:, -1], 1.0)
    assert len(set(pivots.tolist())) == F.shape[1]
    assert_allclose(np.triu(F[pivots], 1), 0.0, atol=1e-9)


@pytest.mark.parametrize("most", [1, 7, 40])
def test_a_truncated_factor_leaves_a_positive_rest(most, seed):
    X = np.random.default_rng(seed).normal(size=(80, 3))
    factor = pivoted_factor(gram_of(X), most)
    rest = rbf_kernel(X, gamma=0.3) - factor.F @ factor.F.T
    assert factor.F.shape == (80, most)
    assert np.linalg.eigvalsh(rest)[0] > -1e-9
    assert_allclose(factor.residual, np.diag(rest), atol=1e-9)


def test_the_factor_of_few_features_has_their_rank(seed):
    X = np.random.default_rng(seed).normal(size=(90, 4))
    assert pivoted_factor(gram_of(X, "linear"), 90).F.shape == (90, 4)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("graph", [TREE, [(0, 1), (1, 2), (0, 2)], [(0, 1, 2), (2, 3)]])
def test_agrees_with_the_independent_optimum(graph, fit_intercept, seed):
    X, Y = make(seed)
    K = rbf_kernel(X, gamma=0.3)
    optimum, _, _ = structured_optimum(roots(K), Y, graph, [0] * len(graph), 0.01, fit_intercept=fit_intercept)
    model = StructuredSVMClassifier(
        0.01, graph=graph, kernel="precomputed", fit_intercept=fit_intercept, tol=1e-5, max_iter=20_000, random_state=0
    ).fit(K, Y)
    assert_allclose(model.objective_, optimum, rtol=1e-4)
    assert model.dual_objective_ <= optimum * (1 + 1e-7)
    assert len(np.unique(model.predict(K), axis=0)) > 2
    by_rows = StructuredSVMClassifier(
        0.01, graph=graph, kernel="rbf", gamma=0.3, fit_intercept=fit_intercept, tol=1e-5, random_state=0,
        max_iter=20_000,
    ).fit(X, Y)  # fmt: skip
    other = make(seed + 1)[0]
    values = rbf_kernel(other, X, gamma=0.3)
    assert_allclose(by_rows.decision_function(other), model.decision_function(values), atol=1e-3)


def test_without_edges_it_is_a_kernel_m3l(seed):
    X, Y = make(seed, n=60)
    n, alpha = len(X), 0.01
    ours = StructuredSVMClassifier(alpha, graph="none", kernel="rbf", tol=1e-7, max_iter=10_000).fit(X, Y)
    m3l = M3LClassifier(1.0 / (alpha * n), kernel="rbf", tol=1e-7).fit(X, Y)
    assert_allclose(ours.objective_, 0.5 * alpha * m3l.objective_, rtol=1e-6)
    assert_allclose(ours.decision_function(X), m3l.decision_function(X), atol=1e-2)


@pytest.mark.parametrize("groups", [None, [0, 1, 1]])
@pytest.mark.parametrize("most", [2, 6, 15])
def test_the_residual_bounds_what_a_truncated_factor_costs(most, groups, monkeypatch, seed):
    """The optimum of the whole kernel lies within the certificate, and the bound within that of the trace."""
    X, Y = make(seed, n=40)
    options = {"graph": TREE, "groups": groups, "kernel": "rbf", "gamma": 0.1, "tol": 1e-4, "random_state": 0}
    whole = StructuredSVMClassifier(0.05, **options).fit(X, Y)
    megabytes = (most + 0.5) * 16 * len(X) / 2**20
    with pytest.warns(ConvergenceWarning, match="factor of the kernel matrix"):
        cut = StructuredSVMClassifier(0.05, cache_size=megabytes, **options).fit(X, Y)
    assert len(cut.support_) == most
    assert cut.dual_objective_ <= whole.objective_
    assert whole.dual_objective_ <= cut.objective_
    assert cut.duality_gap_ >= cut.kernel_residual_ > 0.0
    rest = pivoted_factor(kernel_function("rbf", 0.1, 3, 1.0, X).gram(X, constant=0.0), most).residual
    assert cut.kernel_residual_ <= (4 + 3) / 0.05 * rest.mean()
    assert whole.kernel_residual_ <= 1e-6


def test_a_linear_kernel_function_equals_the_linear_learner(seed):
    X, Y = make(seed, n=60)
    linear, function = (
        CGMClassifier(0.01, max_cliques=3, tol=1e-6, max_iter=5000, kernel=kernel, random_state=0).fit(X, Y)
        for kernel in ("linear", linear_kernel)
    )
    assert function.cliques_ == linear.cliques_
    assert_allclose(function.objective_, linear.objective_, rtol=2e-6)
    assert_allclose(function.clique_norms_, linear.clique_norms_, rtol=0.05, atol=1e-3)
    assert_allclose(function.dual_coef_ @ X[function.support_], linear.coef_, atol=2e-2)
    assert not hasattr(function, "coef_")
    assert not hasattr(linear, "support_")


@pytest.mark.compiled
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_csr_equals_dense(kernel, seed):
    X, Y = make(seed, n=60)
    X[np.abs(X) < 0.5] = 0.0
    dense, csr = (
        CGMClassifier(0.01, max_cliques=3, kernel=kernel, tol=1e-5, max_iter=5000, random_state=0).fit(rows, Y)
        for rows in (X, sp.csr_array(X))
    )
    assert csr.cliques_ == dense.cliques_
    assert_allclose(csr.objective_, dense.objective_, rtol=2e-5)
    assert_allclose(csr.decision_function(sp.csr_array(X)), dense.decision_function(X), atol=1e-2)


@pytest.mark.compiled
def test_blocks_of_rows_predict_as_all_and_explain_by_training_rows(monkeypatch, seed):
    X, Y = make(seed, n=60)
    model = StructuredSVMClassifier(0.01, kernel="rbf", random_state=0).fit(X, Y)
    scores, labels = model.decision_function(X), model.predict(X)
    monkeypatch.setattr("comargin.structured.classifier._BLOCK_BYTES", 8 * 16 * 5)
    assert_allclose(model.decision_function(X), scores, rtol=1e-12)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), labels)
    explained = model.explain(X[:3], top=2)
    kinds = {contribution.kind for row in explained for label in row for contribution in label.contributions}
    assert "training_row" in kinds


@pytest.mark.compiled
def test_a_warm_start_at_the_optimum_is_certified_at_once(seed):
    X, Y = make(seed, n=60)
    model = StructuredSVMClassifier(0.05, kernel="rbf", tol=1e-5, max_iter=5000, warm_start=True, random_state=0)
    first = model.fit(X, Y).objective_
    model.set_params(tol=1e-3).fit(X, Y)
    assert model.n_iter_ == 0
    assert_allclose(model.objective_, first, rtol=1e-6)


def test_rows_of_one_point_have_one_pivot():
    X = np.ones((12, 3))
    factor = pivoted_factor(gram_of(X), 12)
    assert factor.F.shape == (12, 1)
    assert module.POLICY.block > 12  # one block, of which one pivot is kept
