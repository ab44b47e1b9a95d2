"""M3LClassifier with kernels: optimum, LIBSVM, every way to give a kernel, memory, prediction, errors."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV
from sklearn.svm import SVC
from tests.m3l import reference
from tests.m3l.priors import PRIORS, make_prior

from comargin import M3LClassifier
from comargin.data import load

KERNELS = {
    "rbf": (lambda A, B: rbf_kernel(A, B, gamma=0.2), {"kernel": "rbf", "gamma": 0.2}),
    "poly": (
        lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.3, coef0=0.5),
        {"kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 0.5},
    ),
    "linear": (lambda A, B: np.asarray(A @ B.T), {"kernel": "linear", "solver": "smo"}),
    "callable": (laplacian_kernel, {"kernel": laplacian_kernel}),
}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 4))
    Y = (np.sin(2 * X @ rng.normal(size=(4, 5))) + 0.3 * rng.normal(size=(60, 5)) > 0.2).astype(int)
    Y[:, 1] = 0
    return X, Y


def features_of(K):
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_and_prior_matches_cvxpy(data, name, prior, rng):
    X, Y = data
    function, options = KERNELS[name]
    R = make_prior(prior, 5, rng)
    weight = 0.5 + rng.random(60)
    model = M3LClassifier(C=0.7, label_correlation=R, tol=1e-8, class_weight={1: 2.0}, max_iter=10_000, **options)
    model.fit(X, Y, sample_weight=weight)
    U = 0.7 * weight[:, None] * np.where(Y == 1, 2.0, 1.0)
    features = features_of(function(X, X) + 1.0)
    optimum, Z = reference.m3l_optimum(features, 2 * Y - 1, U, R.toarray() if sp.issparse(R) else R)
    assert_allclose(model.objective_, optimum, rtol=1e-6)
    assert_allclose(model.decision_function(X), features @ Z, atol=2e-3)
    assert np.abs(model.decision_function(X)).max() > 0.1


@pytest.mark.parametrize("solver", ["auto", "smo"])
def test_correlated_loss_and_balanced_weights_match_cvxpy(data, solver):
    X, Y = data
    R = 0.7 * np.eye(5) + 0.06
    model = M3LClassifier(
        C=0.5, kernel="rbf", gamma=0.2, label_correlation=R, loss="correlated", class_weight="balanced", tol=1e-8,
        fit_intercept=False, solver=solver,
    ).fit(X, Y)  # fmt: skip
    S = 2 * Y - 1
    share = Y.mean(axis=0)
    with np.errstate(divide="ignore"):
        weight = np.where(Y == 1, 0.5 / share, 0.5 / (1 - share))
    weight[:, share == 0] = 1.0
    optimum, _ = reference.m3l_optimum(features_of(rbf_kernel(X, gamma=0.2)), S, 0.5 * weight, R, S * (S @ R))
    assert_allclose(model.objective_, optimum, rtol=1e-6)


def libsvm_without_bias(K, s, C):
    """LIBSVM on every row and its mirror image (-phi, -s): by symmetry the best bias is 0; every loss is paid twice."""
    mirrored = np.block([[K, -K], [-K, K]])
    svc = SVC(kernel="precomputed", C=C / 2, tol=1e-6, cache_size=500).fit(mirrored, np.concatenate([s, -s]))
    assert abs(svc.intercept_[0]) < 1e-4
    return mirrored[: len(K), svc.support_] @ svc.dual_coef_[0]


def test_agrees_with_libsvm_on_digits():
    digits = load("digits", split="train")
    X, Y = digits.X[:400], digits.Y[:400]
    gamma = 1 / (64 * X.var())
    model = M3LClassifier(C=2.5, kernel="rbf", fit_intercept=False, tol=1e-8).fit(X, Y)
    assert model._kernel_function.gamma == pytest.approx(gamma)
    scores = model.decision_function(X)
    for label in range(Y.shape[1]):
        expected = libsvm_without_bias(rbf_kernel(X, gamma=gamma), 2 * Y[:, label] - 1, 5.0)
        assert_allclose(scores[:, label], expected, atol=1e-3)
    assert np.abs(scores).max() > 1


def test_agrees_with_libsvm_on_yeast(data_home):
    yeast = load("yeast", split="train", data_home=data_home)
    X = np.asarray(yeast.X.toarray() if sp.issparse(yeast.X) else yeast.X)[:700]
    Y = np.asarray(yeast.Y.toarray() if sp.issparse(yeast.Y) else yeast.Y)[:700]
    K = polynomial_kernel(X, degree=3, gamma=0.5, coef0=1.0)
    model = M3LClassifier(C=0.25, kernel="poly", gamma=0.5, fit_intercept=False, tol=1e-7, n_jobs=2).fit(X, Y)
    scores = model.decision_function(X)
    for label in (0, 5, 13):
        assert_allclose(scores[:, label], libsvm_without_bias(K, 2 * Y[:, label] - 1, 0.5), atol=2e-3)


@pytest.mark.parametrize("name", ["rbf", "poly", "callable"])
def test_precomputed_is_the_same_fit(data, name):
    X, Y = data
    function, options = KERNELS[name]
    direct = M3LClassifier(label_correlation="train", **options).fit(X, Y)
    given = M3LClassifier(label_correlation="train", kernel="precomputed").fit(function(X, X), Y)
    assert_allclose(given.objective_, direct.objective_, rtol=1e-9)
    new = X[:20] + 0.1
    assert_allclose(given.decision_function(function(new, X)), direct.decision_function(new), rtol=1e-6, atol=1e-9)
    assert given.support_vectors_ is None
    assert given.n_features_in_ == 60


@pytest.mark.parametrize("name", KERNELS)
def test_dense_and_sparse_features_agree(data, name):
    X, Y = data
    X = np.where(np.abs(X) > 0.5, X, 0.0)
    options = KERNELS[name][1]
    if name == "callable":
        options = {"kernel": lambda A, B: rbf_kernel(A, B, gamma=0.1)}
    dense = M3LClassifier(tol=1e-7, **options).fit(X, Y)
    sparse = M3LClassifier(tol=1e-7, **options).fit(sp.csr_matrix(X), Y)
    assert_allclose(sparse.decision_function(sp.csr_array(X)), dense.decision_function(X), atol=1e-3)
    assert sp.issparse(sparse.support_vectors_)


def test_linear_kernel_by_either_road(data):
    X, Y = data
    R = np.eye(5) + 0.3
    primal = M3LClassifier(C=0.2, label_correlation=R, tol=1e-9, random_state=0).fit(X, Y)
    dual = M3LClassifier(C=0.2, label_correlation=R, tol=1e-9, solver="smo", max_iter=10_000).fit(X, Y)
    paper = M3LClassifier(C=0.2, label_correlation=R, tol=1e-9, solver="dcd", max_iter=50_000, random_state=0).fit(X, Y)
    for other in (dual, paper):
        assert_allclose(other.objective_, primal.objective_, rtol=1e-8)
        assert_allclose(other.coef_, primal.coef_, atol=1e-3)
        assert_allclose(other.intercept_, primal.intercept_, atol=1e-3)
    assert dual.dual_coef_.shape == (5, len(dual.support_))


def test_support_rows_are_all_that_prediction_needs(data):
    X, Y = data
    model = M3LClassifier(kernel="rbf", gamma=0.3, C=5.0, tol=1e-6).fit(X, Y)
    assert 0 < len(model.support_) <= 60
    assert_array_equal(model.support_vectors_, X[model.support_])
    by_hand = rbf_kernel(X, X[model.support_], gamma=0.3) @ model.dual_coef_.T + model.intercept_
    assert_allclose(model.decision_function(X), by_hand, rtol=1e-12)
    easy = M3LClassifier(kernel="rbf", gamma=0.05, C=5.0).fit(X, (X[:, :1] > 0).astype(int))
    assert len(easy.support_) < 60


def test_prediction_in_blocks(data, monkeypatch):
    X, Y = data
    model = M3LClassifier(kernel="rbf").fit(X, Y)
    whole = model.decision_function(X)
    monkeypatch.setattr("comargin.core.kernel_functions._BLOCK_SIZE", 7 * len(model.support_))
    assert_allclose(model.decision_function(X), whole, rtol=1e-12)


@pytest.mark.usefixtures("threaded_blas")
def test_same_result_for_any_n_jobs_and_cache(rng):
    X = rng.normal(size=(300, 5))
    Y = (rng.random((300, 12)) < 0.3).astype(int)
    for cache_size in (1000, 0.1):
        one, two = (
            M3LClassifier(kernel="rbf", C=2.0, cache_size=cache_size, n_jobs=n_jobs).fit(X, Y) for n_jobs in (1, 2)
        )
        assert_array_equal(one.dual_coef_, two.dual_coef_)
    whole = M3LClassifier(kernel="rbf", C=2.0, tol=1e-7).fit(X, Y)
    part = M3LClassifier(kernel="rbf", C=2.0, tol=1e-7, cache_size=0.1).fit(X, Y)
    assert_allclose(part.decision_function(X), whole.decision_function(X), atol=2e-3)


def test_switching_kernels_leaves_nothing_behind(data):
    X, Y = data
    model = M3LClassifier().fit(X, Y)
    model.set_params(kernel="rbf").fit(X, Y)
    assert not hasattr(model, "coef_")
    assert_array_equal(model.predict(X), M3LClassifier(kernel="rbf").fit(X, Y).predict(X))
    model.set_params(kernel="linear").fit(X, Y)
    assert not hasattr(model, "support_")


def test_warm_start_along_C(data):
    X, Y = data
    model = M3LClassifier(kernel="rbf", C=1.0, warm_start=True, tol=1e-6).fit(X, Y)
    assert model.fit(X, Y).n_iter_ == 0
    model.set_params(C=1.1).fit(X, Y)
    cold = M3LClassifier(kernel="rbf", C=1.1, tol=1e-6).fit(X, Y)
    assert_allclose(model.objective_, cold.objective_, rtol=2e-6)
    assert model.history_[0].gap < 0.5 * cold.history_[0].gap


def test_grid_search_over_gamma_and_precomputed_folds(data):
    X, Y = data
    search = GridSearchCV(M3LClassifier(kernel="rbf"), {"gamma": [0.01, 0.3]}, cv=3, scoring="f1_micro").fit(X, Y)
    assert len(set(search.cv_results_["mean_test_score"])) == 2
    # scikit-learn cuts rows and columns of a kernel matrix when the estimator says it is one
    pairwise = GridSearchCV(M3LClassifier(kernel="precomputed"), {"C": [1.0]}, cv=3, scoring="f1_micro")
    direct = GridSearchCV(M3LClassifier(kernel="rbf", gamma=0.3), {"C": [1.0]}, cv=3, scoring="f1_micro").fit(X, Y)
    assert pairwise.fit(rbf_kernel(X, gamma=0.3), Y).best_score_ == pytest.approx(direct.best_score_)


def test_pickle_and_clone(data):
    X, Y = data
    model = M3LClassifier(kernel="rbf").fit(X, Y)
    assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), model.decision_function(X))
    with pytest.raises(NotFittedError):
        clone(model).predict(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kernel": "sigmoid"}, "kernel"),
        ({"kernel": "rbf", "gamma": 0.0}, "gamma"),
        ({"kernel": "rbf", "gamma": "wide"}, "gamma"),
        ({"kernel": "poly", "degree": 0}, "degree"),
        ({"kernel": "poly", "degree": 2.5}, "degree"),
        ({"kernel": "poly", "coef0": -1.0}, "coef0"),
        ({"kernel": "rbf", "cache_size": 0}, "cache_size"),
        ({"kernel": "rbf", "solver": "newton"}, "solver"),
        ({"kernel": "rbf", "solver": "dcd"}, 'solver="dcd" needs kernel="linear"'),
        ({"kernel": "precomputed"}, "square kernel matrix of the training rows, got 60 x 4"),
        ({"kernel": lambda A, B: np.ones(3)}, "kernel must return one value per pair of rows"),
        ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "kernel returned NaN"),
        ({"kernel": lambda A, B: -(A @ B.T)}, "kernel must be positive semi-definite; 60 of its rows"),
    ],
)
def test_bad_kernels_are_named(data, options, message):
    X, Y = data
    model = M3LClassifier(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert not hasattr(model, "classes_")


def test_bad_kernel_matrices_are_named(data):
    X, Y = data
    K = rbf_kernel(X)
    skew = K.copy()
    skew[3, 7] += 0.25
    with pytest.raises(ValueError, match=r"symmetric; entries \((3, 7|7, 3)\) and \((7, 3|3, 7)\) differ by 0.25"):
        M3LClassifier(kernel="precomputed").fit(skew, Y)
    with pytest.raises(ValueError, match="positive semi-definite; 60 of its rows have the eigenvalue -"):
        M3LClassifier(kernel="precomputed").fit(K - 0.5 * np.eye(60), Y)
    with pytest.raises(ValueError, match=r"kernel must be symmetric; entries \(\d+, \d+\) and \(\d+, \d+\) differ by"):
        M3LClassifier(kernel=lambda A, B: A @ np.triu(np.ones((A.shape[1],) * 2)) @ B.T).fit(X, Y)
    with pytest.raises(ValueError, match="takes a dense X"):
        M3LClassifier(kernel="precomputed").fit(sp.csr_array(K), Y)
    model = M3LClassifier(kernel="precomputed").fit(K, Y)
    with pytest.raises(ValueError, match="59 features, but M3LClassifier is expecting 60"):
        model.predict(K[:, :-1])


def exact_gap(model, K, Y, C):
    """Relative duality gap from the kernel matrix alone."""
    S = 2.0 * Y - 1.0
    A = np.zeros(Y.shape)
    A[model.support_] = 0.5 * S[model.support_] * model.dual_coef_.T
    F = 2.0 * K @ (S * A)
    quadratic = np.sum(S * A * F)
    primal = quadratic + 2.0 * C * np.maximum(0.0, 1.0 - S * F).sum()
    return 1.0 - (2.0 * A.sum() - quadratic) / primal


@pytest.mark.parametrize("offset", [0.0, 1e5, 1e9])
def test_rows_far_from_zero(data, offset):
    """Distances do not change with the origin; squared lengths would lose all their digits."""
    X, Y = data
    shifted = X + offset
    near = shifted - shifted.mean(axis=0)
    distance = ((near[:, None] - near) ** 2).sum(axis=-1)
    model = M3LClassifier(kernel="rbf", gamma=0.3, fit_intercept=False, tol=1e-6).fit(shifted, Y)
    gap = exact_gap(model, np.exp(-0.3 * distance), Y, 1.0)
    assert gap == pytest.approx(model.duality_gap_ / model.objective_, abs=1e-7)
    one_by_one = np.vstack([model.decision_function(row[None]) for row in shifted])
    assert_allclose(one_by_one, model.decision_function(shifted), atol=1e-6)


@pytest.mark.parametrize("options", [{"kernel": "rbf"}, {"kernel": "poly"}, {"kernel": "linear", "solver": "smo"}])
def test_no_support_rows_score_zero(data, options):
    X, Y = data
    model = M3LClassifier(callback=lambda point: True, **options).fit(X, Y)
    assert len(model.support_) == 0
    assert_array_equal(model.decision_function(X), np.zeros(Y.shape))
    assert not model.predict(X).any()


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_kernels_of_any_size(data, scale):
    X, Y = data
    K = rbf_kernel(X, gamma=0.3)
    plain = M3LClassifier(C=1.0, kernel="precomputed", fit_intercept=False, tol=1e-6).fit(K, Y)
    scaled = M3LClassifier(C=1.0 / scale, kernel="precomputed", fit_intercept=False, tol=1e-6).fit(scale * K, Y)
    assert_allclose(scaled.decision_function(scale * K), plain.decision_function(K), atol=1e-4)
    high = M3LClassifier(kernel="poly", gamma=1.0, degree=40, C=1e-20, tol=1e-2, max_iter=50)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isfinite(high.fit(X, Y).decision_function(X)).all()


def test_few_rows_in_memory_and_coupled_labels(rng):
    X = rng.normal(size=(1200, 10))
    Y = (X[:, :6] + rng.normal(size=(1200, 6)) > 0.8).astype(int)
    R = np.eye(6) + 0.4
    whole, part = (M3LClassifier(kernel="rbf", label_correlation=R, cache_size=c).fit(X, Y) for c in (1000, 0.1))
    assert_allclose(part.objective_, whole.objective_, rtol=1e-3)
    two = M3LClassifier(kernel="rbf", label_correlation=R, cache_size=0.1, n_jobs=2).fit(X, Y)
    assert_array_equal(part.dual_coef_, two.dual_coef_)
