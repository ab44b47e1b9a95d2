"""RankCVMClassifier and RankSVMClassifier: optima of cvxpy, label sets, weights, forms of data, stopping, errors."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import label_ranking_loss
from sklearn.metrics.pairwise import laplacian_kernel, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from tests.rank import naive_rank, reference_rank

from comargin import RankCVMClassifier, RankSVMClassifier
from comargin.decisions import GlobalCut, ThresholdClassifierCV
from comargin.metrics import scorers

# How exactly each is solved where answers are compared.
LEARNERS = {RankCVMClassifier: {"tol": 1e-10}, RankSVMClassifier: {"tol": 1e-8}}
KERNELS = {
    "linear": (lambda A, B: np.asarray(A @ B.T), {"kernel": "linear"}),
    "rbf": (lambda A, B: rbf_kernel(A, B, gamma=0.2), {"kernel": "rbf", "gamma": 0.2}),
    "poly": (
        lambda A, B: polynomial_kernel(A, B, degree=2, gamma=0.3, coef0=0.5),
        {"kernel": "poly", "degree": 2, "gamma": 0.3, "coef0": 0.5},
    ),
    "precomputed": (lambda A, B: rbf_kernel(A, B, gamma=0.4), {"kernel": "precomputed"}),
    "callable": (laplacian_kernel, {"kernel": laplacian_kernel}),
}


@pytest.fixture(params=LEARNERS, ids=lambda cls: cls.__name__)
def learner(request):
    return request.param


@pytest.fixture
def data(rng):
    X = rng.normal(size=(30, 4))
    X[np.abs(X) < 0.3] = 0.0
    Y = (X @ rng.normal(size=(4, 4)) + np.sin(2 * X) + 0.6 * rng.normal(size=(30, 4)) > 0.3).astype(int)
    Y[3], Y[4] = 0, 1  # nothing to rank
    return X, Y


@pytest.fixture
def more_data(rng):
    X = rng.normal(size=(150, 6))
    Y = (X @ rng.normal(size=(6, 5)) + 0.8 * rng.normal(size=(150, 5)) > 0.4).astype(int)
    return X, Y


def cost_of(Y, weight, C):
    """C_i; of rows without pairs any number will do."""
    on = Y.sum(axis=1)
    return C * weight / np.maximum(on * (Y.shape[1] - on), 1)


def without_pairs(Y):
    return int(np.sum(Y.all(axis=1) | ~Y.any(axis=1)))


def largest(values):
    return np.abs(values).max()


def forms_of(name, X):
    """X as the learner takes it, in several forms."""
    if name == "precomputed":
        return [KERNELS[name][0](X, X)]
    # laplacian_kernel of sparse rows is not exact enough
    return [X] if name == "callable" else [X, sp.csr_array(X), sp.csr_matrix(X)]


@pytest.mark.parametrize("C", [0.3, 20.0])
@pytest.mark.parametrize("name", KERNELS)
def test_rank_cvm_matches_cvxpy(data, rng, name, C):
    X, Y = data
    function, options = KERNELS[name]
    weight = 0.5 + rng.random(30)
    K = function(X, X) + 1.0
    optimum = reference_rank.rank_cvm_optimum(K, Y, cost_of(Y, weight, C))
    scores = K @ optimum.beta
    for features in forms_of(name, X):
        model = RankCVMClassifier(C=C, tol=1e-10, random_state=0, **options).fit(features, Y, sample_weight=weight)
        assert_allclose(model.objective_, optimum.W, rtol=1e-8)
        assert model.dual_objective_ <= optimum.W * (1 + 1e-12)
        assert_allclose(model.rank_scores(features), scores, atol=1e-6 * largest(scores))
        assert_allclose(model.intercept_, optimum.beta.sum(axis=0), atol=1e-6 * largest(optimum.beta.sum(axis=0)))
        assert_allclose(model.rank_scores(features).sum(axis=1), 0.0, atol=1e-9 * largest(scores))
        assert model.n_skipped_ == without_pairs(Y) >= 2


@pytest.mark.parametrize("C", [0.1, 2.0])
@pytest.mark.parametrize("name", KERNELS)
def test_rank_svm_matches_cvxpy(data, rng, name, C):
    X, Y = data
    function, options = KERNELS[name]
    weight = 0.5 + rng.random(30)
    K, cost = function(X, X), cost_of(Y, weight, C)
    optimum = reference_rank.rank_svm_optimum(K, Y, cost)
    pairs = reference_rank.pairs(Y)
    for features in forms_of(name, X):
        model = RankSVMClassifier(C=C, tol=1e-7, **options).fit(features, Y, sample_weight=weight)
        assert_allclose(model.objective_, optimum.objective, rtol=1e-6)
        assert model.dual_objective_ <= optimum.objective * (1 + 1e-8)
        F = model.rank_scores(features)
        # The certificate is that of the returned model: (18) from its coefficients and scores alone.
        beta = np.zeros(Y.shape)
        beta[model.support_] = model.dual_coef_.T
        short = np.maximum(0.0, 1.0 - F[pairs[:, 0], pairs[:, 1]] + F[pairs[:, 0], pairs[:, 2]])
        assert_allclose(0.5 * np.sum(beta * (K @ beta)) + cost[pairs[:, 0]] @ short, model.objective_, rtol=1e-9)
        # 1/2 |w - w*|^2 is at most the gap, and so scores without biases are close.
        within = np.sqrt(2.0 * np.diag(K).max() * (model.duality_gap_ + 1e-8 * optimum.objective))
        assert_allclose(F - model.intercept_, optimum.F - optimum.bias, atol=2.0 * within)
        assert model.intercept_.mean() == pytest.approx(0.0, abs=1e-9 * largest(F))
        assert model.n_skipped_ == without_pairs(Y)


def test_biases_that_are_unique_match_cvxpy(rng):
    """Many noisy rows: pairs of all labels lie strictly between their bounds."""
    X = rng.normal(size=(40, 3))
    Y = (X @ rng.normal(size=(3, 3)) + [0.8, 0.0, -0.8] + rng.normal(size=(40, 3)) > 0.0).astype(int)
    optimum = reference_rank.rank_svm_optimum(X @ X.T, Y, cost_of(Y, np.ones(40), 1.0))
    model = RankSVMClassifier(kernel="linear", tol=1e-8).fit(X, Y)
    assert_allclose(model.intercept_, optimum.bias, atol=1e-3)
    assert largest(model.intercept_) > 0.1


@pytest.mark.parametrize("name", ["linear", "rbf"])
def test_other_solvers_agree(data, name):
    X, Y = data
    options = KERNELS[name][1] | {"random_state": 0}
    auto = RankCVMClassifier(tol=1e-10, **options).fit(X, Y)
    passes = RankCVMClassifier(solver="cd", tol=1e-9, max_iter=100_000, **options).fit(X, Y)
    assert_allclose(passes.objective_, auto.objective_, rtol=1e-8)
    assert_allclose(passes.rank_scores(X), auto.rank_scores(X), atol=1e-5 * largest(auto.dual_coef_))
    paper = RankCVMClassifier(solver="fw", tol=1e-2, max_iter=10_000, **options).fit(X, Y)
    assert auto.dual_objective_ <= paper.objective_ <= auto.objective_ * (1 + 1e-2)
    assert paper.dual_objective_ <= auto.objective_
    scores = auto.rank_scores(X)
    assert_allclose(paper.rank_scores(X), scores, atol=0.1 * largest(scores))
    assert auto.n_iter_ < passes.n_iter_ < paper.n_iter_


def test_linear_kernel_by_either_road(data, learner):
    X, Y = data
    new = X[:10] + 0.1
    linear = learner(kernel="linear", random_state=0, **LEARNERS[learner]).fit(X, Y)
    given = learner(kernel="precomputed", random_state=0, **LEARNERS[learner]).fit(X @ X.T, Y)
    assert_allclose(linear.rank_scores(new), new @ linear.coef_.T + linear.intercept_, rtol=1e-12)
    assert linear.coef_.shape == (4, 4)
    assert largest(linear.coef_) > 1e-3
    assert_allclose(linear.objective_, given.objective_, rtol=1e-7)
    tolerance = {RankCVMClassifier: 1e-8, RankSVMClassifier: 1e-3}[learner]
    assert_allclose(given.rank_scores(new @ X.T), linear.rank_scores(new), atol=tolerance * largest(linear.coef_))
    assert not hasattr(given, "coef_")
    assert given.support_vectors_ is None
    assert_allclose(linear.coef_, linear.dual_coef_ @ X[linear.support_], rtol=1e-12)


@pytest.mark.parametrize("constant", [False, True])
def test_label_sets_are_those_of_the_plain_rule(more_data, learner, constant):
    X, Y = more_data
    if constant and learner is RankSVMClassifier:
        pytest.skip("scores of the other labels are linearly dependent up to the solver's tolerance")
    if constant:
        Y[:, 1], Y[:, 3] = 0, 1
    weight = 1.0 + np.arange(150) % 3
    model = learner(random_state=0).fit(X, Y, sample_weight=weight)
    new = np.vstack([X, 1.5 * X[::-1] + 0.2])
    scores, predicted = model.rank_scores(new), model.predict(new)
    assert_array_equal(predicted, model.threshold_.predict(scores))
    varying = [0, 2, 4] if constant else [0, 1, 2, 3, 4]
    rule = naive_rank.threshold_rule(scores[:150, varying], Y[:, varying], weight)
    assert_array_equal(predicted[:, varying], naive_rank.label_sets(scores[:, varying], *rule))
    assert 0.1 < predicted[:, varying].mean() < 0.9
    if constant:
        assert not predicted[:, 1].any()
        assert predicted[:, 3].all()


def test_weight_two_is_the_row_twice_and_zero_is_none(data, learner):
    X, Y = data
    options = {"gamma": 0.3, "random_state": 0} | LEARNERS[learner]
    weight = np.where(np.arange(30) < 8, 2.0, np.where(np.arange(30) < 25, 1.0, 0.0))
    weighted = learner(**options).fit(X, Y, sample_weight=weight)
    rows = np.repeat(np.arange(30), weight.astype(int))
    repeated = learner(**options).fit(X[rows], Y[rows])
    assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-7)
    scores = repeated.rank_scores(X)
    tolerance = {RankCVMClassifier: 1e-7, RankSVMClassifier: 1e-3}[learner]
    assert_allclose(weighted.rank_scores(X), scores, atol=tolerance * largest(scores))
    assert_array_equal(weighted.predict(X), repeated.predict(X))
    assert weighted.n_skipped_ == without_pairs(Y[weight > 0])
    assert weighted.support_.max() < 25
    plain = learner(**options).fit(X, Y)
    assert not np.allclose(plain.rank_scores(X), scores, atol=10 * tolerance * largest(scores))


def test_rows_without_pairs_change_the_threshold_only(data, learner):
    X, Y = data
    ranked = Y.any(axis=1) & ~Y.all(axis=1)
    options = {"gamma": 0.3, "random_state": 0} | LEARNERS[learner]
    model, fewer = learner(**options).fit(X, Y), learner(**options).fit(X[ranked], Y[ranked])
    assert_allclose(model.rank_scores(X), fewer.rank_scores(X), atol=1e-3 * largest(fewer.dual_coef_))
    assert (model.n_skipped_, fewer.n_skipped_) == (30 - ranked.sum(), 0)
    assert ranked[model.support_].all()
    assert model.threshold_.intercept_ != pytest.approx(fewer.threshold_.intercept_)


@pytest.mark.parametrize(
    "y",
    [
        np.zeros((30, 4), dtype=int),
        np.ones((30, 4), dtype=int),
        np.repeat([[1, 1], [0, 0]], 15, axis=0),
        (np.arange(30) % 2)[:, None],  # an indicator of one label
        sp.csr_array((30, 4)),
        np.full(30, "a"),
    ],
    ids=["none on", "all on", "none or all", "one label", "sparse", "one class"],
)
def test_no_row_with_a_pair_is_an_error(data, learner, y):
    model = learner()
    with pytest.raises(ValueError, match="rows of positive weight where some label is on and another is off"):
        model.fit(data[0], y)
    assert vars(model) == vars(learner())


def test_no_row_of_positive_weight_with_a_pair_is_an_error(data, learner):
    X, Y = data
    with pytest.raises(ValueError, match="and no such row"):
        learner().fit(X, Y, sample_weight=(np.arange(30) == 3).astype(float))


def test_two_classes_are_two_labels(data, learner):
    X, _ = data
    y = np.where(X[:, 0] + 0.5 * X[:, 1] > 0.1, "yes", "no")
    options = {"gamma": 0.3, "random_state": 0} | LEARNERS[learner]
    model = learner(**options).fit(X, y)
    labels = learner(**options).fit(X, np.column_stack([y == "no", y == "yes"]))
    scores = labels.rank_scores(X)
    assert_allclose(model.rank_scores(X), scores[:, 1] - scores[:, 0], rtol=1e-9, atol=1e-12)
    assert model.rank_scores(X).shape == (30,)
    assert list(model.classes_) == ["no", "yes"]
    assert_array_equal(model.predict(X), np.where(model.rank_scores(X) > 0, "yes", "no"))
    assert np.mean(model.predict(X) == y) > 0.8
    assert not hasattr(model, "threshold_")
    assert model.n_skipped_ == 0
    assert_array_equal(learner(**options).fit(X, y == "yes").predict(X), model.predict(X) == "yes")


def test_classes_are_labels_of_which_one_is_on(more_data, learner):
    X, _ = more_data
    y = np.array(["c", "a", "b"])[np.argmax(X[:, :3], axis=1)]
    options = {"gamma": 0.1, "random_state": 0} | LEARNERS[learner]
    model = learner(**options).fit(X, y)
    labels = learner(**options).fit(X, (y[:, None] == ["a", "b", "c"]).astype(int))
    assert_allclose(model.rank_scores(X), labels.rank_scores(X), rtol=1e-9, atol=1e-12)
    assert_array_equal(model.predict(X), np.array(["a", "b", "c"])[np.argmax(model.rank_scores(X), axis=1)])
    assert np.mean(model.predict(X) == y) > 0.8


def test_two_classes_of_rank_svm_are_a_support_vector_machine(data):
    """f_1 - f_0 = 2 (w.x + b) with 1/2 |w_0|^2 + 1/2 |w_1|^2 = |w|^2: an SVM of twice the kernel."""
    from sklearn.svm import SVC

    X, _ = data
    y = (X[:, 0] + 0.5 * X[:, 1] + 0.3 * X[:, 2] ** 2 > 0.3).astype(int)
    model = RankSVMClassifier(gamma=0.3, C=2.0, tol=1e-8).fit(X, y)
    K = rbf_kernel(X, gamma=0.3)
    svc = SVC(kernel="precomputed", C=2.0, tol=1e-8).fit(2.0 * K, y)
    assert_allclose(model.rank_scores(X), svc.decision_function(2.0 * K), atol=2e-3)


@pytest.mark.parametrize("to_Y", [sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_array])
def test_sparse_labels_give_sparse_predictions(data, learner, to_Y):
    X, Y = data
    sparse = sp.csr_array(Y)
    sparse = sp.csr_array(
        (np.append(sparse.data, 0), np.append(sparse.indices, 0), np.append(sparse.indptr[:-1], sparse.nnz + 1)),
        shape=Y.shape,
    )  # with a stored zero
    model, dense = (learner(random_state=0).fit(X, labels) for labels in (to_Y(sparse), Y))
    predicted = model.predict(X)
    assert isinstance(predicted, sp.csr_array)
    assert_array_equal(predicted.toarray(), dense.predict(X))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_single_precision_and_integers(data, learner, kernel):
    X, Y = data
    X = np.round(4 * X)
    expected = learner(kernel=kernel, random_state=0).fit(X, Y)
    for dtype in (np.float32, np.int64, np.int8):
        model = learner(kernel=kernel, random_state=0).fit(X.astype(dtype), Y)
        assert_array_equal(model.rank_scores(X), expected.rank_scores(X))
    sparse = learner(kernel=kernel, random_state=0).fit(sp.csr_array(X.astype(np.float32)), Y)
    assert sp.issparse(sparse.support_vectors_)
    assert sparse.objective_ == pytest.approx(expected.objective_, rel=3e-3)


@pytest.mark.parametrize("options", [{"kernel": "rbf"}, {"kernel": "linear"}, {"kernel": "rbf", "solver": "fw"}])
@pytest.mark.usefixtures("threaded_blas")
def test_same_result_for_any_n_jobs_and_random_state_fixes_it(rng, learner, options):
    X = rng.normal(size=(600, 5))  # several blocks of rows
    Y = (X[:, :4] + rng.normal(size=(600, 4)) > 0.5).astype(int)
    if learner is RankSVMClassifier and "solver" in options:
        pytest.skip("has one solver")
    options = options | {"tol": 0.1, "max_iter": 10_000}
    one = learner(random_state=0, n_jobs=1, **options).fit(X, Y)
    for n_jobs in (2, 3):
        more = learner(random_state=0, n_jobs=n_jobs, **options).fit(X, Y)
        assert_array_equal(more.dual_coef_, one.dual_coef_)
        assert_array_equal(more.intercept_, one.intercept_)
        assert [point[2:] for point in more.history_] == [point[2:] for point in one.history_]
    other = learner(random_state=1, **options).fit(X, Y)
    drawn = learner is RankCVMClassifier  # of equal pairs Frank-Wolfe takes the one that comes first
    assert np.array_equal(other.rank_scores(X), one.rank_scores(X)) != drawn


@pytest.mark.parametrize("cache_size", [1e-3, 1.5, 4.0])
def test_memory_for_the_kernel_changes_no_answer(rng, learner, cache_size):
    """600 rows: nothing fits; a block in single precision; all of it, and some in double precision."""
    X = rng.normal(size=(600, 4))
    Y = (np.sin(2 * X[:, :3]) + 0.3 * rng.normal(size=(600, 3)) > 0.3).astype(int)
    whole, part = (learner(random_state=0, tol=1e-5, cache_size=size).fit(X, Y) for size in (1000, cache_size))
    assert part.objective_ == pytest.approx(whole.objective_, rel=1e-5)
    scores = whole.rank_scores(X)
    assert_allclose(part.rank_scores(X), scores, atol=0.01 * largest(scores))


@pytest.mark.parametrize("scale", [1e-9, 1e-3, 1e3, 1e9])
def test_scaled_rows_with_a_scaled_gamma(data, learner, scale):
    X, Y = data
    for kernel in ("rbf", "poly"):
        options = {"kernel": kernel, "random_state": 0} | LEARNERS[learner]
        plain = learner(gamma=0.3, **options).fit(X, Y)
        scaled = learner(gamma=0.3 / scale**2, **options).fit(scale * X, Y)
        assert_allclose(scaled.objective_, plain.objective_, rtol=1e-7)
        scores = plain.rank_scores(X)
        assert_allclose(scaled.rank_scores(scale * X), scores, atol=1e-3 * largest(scores))
        by_rule = learner(gamma="scale", **options).fit(X, Y), learner(gamma="scale", **options).fit(scale * X, Y)
        assert_allclose(by_rule[0].objective_, by_rule[1].objective_, rtol=1e-7)


def test_support_rows_are_all_that_prediction_needs(more_data, learner):
    X, Y = more_data
    model = learner(gamma=0.3, random_state=0).fit(X, Y)
    assert model.n_support_ == len(model.support_) == model.dual_coef_.shape[1]
    assert_array_equal(model.support_, np.unique(model.support_))
    assert_array_equal(model.support_vectors_, X[model.support_])
    by_hand = rbf_kernel(X, X[model.support_], gamma=0.3) @ model.dual_coef_.T + model.intercept_
    assert_allclose(model.rank_scores(X), by_hand, rtol=1e-9, atol=1e-12)
    assert_allclose(model.dual_coef_.sum(axis=0), 0.0, atol=1e-9 * largest(model.dual_coef_))
    easy = learner(gamma=0.02, C=100.0, random_state=0).fit(*two_clusters(X))
    assert 0 < np.sum(np.abs(easy.dual_coef_).max(axis=0) > 1e-6 * largest(easy.dual_coef_)) < 75


def two_clusters(X):
    """Far apart, each with its label: few rows suffice."""
    side = np.sign(X[:, :1])
    return 3.0 * side + 0.5 * X, np.hstack([side > 0, side < 0])


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_few_support_rows(more_data, C):
    model = RankCVMClassifier(gamma=0.02, C=C, random_state=0).fit(*two_clusters(more_data[0]))
    assert 0 < model.n_support_ < 100


def test_more_features_than_rows(rng, learner):
    X = rng.normal(size=(25, 400))
    Y = (X[:, :4] > 0).astype(int)
    for features in (X, sp.csr_array(np.where(np.abs(X) > 1.5, X, 0.0))):
        model = learner(kernel="linear", random_state=0, tol=1e-6).fit(features, Y)
        assert model.coef_.shape == (4, 400)
        assert label_ranking_loss(Y, model.decision_function(features)) == 0.0


@pytest.mark.parametrize("to_X", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_features_that_say_nothing(data, learner, kernel, to_X):
    """Then biases rank the labels, the same way in every row."""
    X, Y = data
    model = learner(kernel=kernel, random_state=0, tol=1e-6).fit(to_X(0.0 * X), Y)
    scores = model.rank_scores(to_X(0.0 * X))
    assert_array_equal(scores, np.tile(scores[0], (30, 1)))
    ranked = Y.any(axis=1) & ~Y.all(axis=1)
    share = (Y[ranked] / Y[ranked].sum(axis=1, keepdims=True)).sum(axis=0)
    assert scores[0, np.argmax(share)] > scores[0].max() - 1e-4  # Rank-SVM may leave the first two equal
    assert np.ptp(scores[0]) > 1e-3
    assert np.isfinite(model.threshold_.intercept_)


def test_one_row_and_equal_rows(data, learner):
    X, _ = data
    for kernel in ("linear", "rbf"):
        model = learner(kernel=kernel).fit(X[:1], [[0, 1, 1]])
        assert_array_equal(model.predict(X[:1]), [[0, 1, 1]])
        assert (model.rank_scores(X[:1])[0, 1:] > model.rank_scores(X[:1])[0, 0]).all()
        same = learner(kernel=kernel, random_state=0).fit(np.tile(X[:1], (4, 1)), [[0, 1, 1]] * 4)
        assert_array_equal(same.predict(X[:1]), [[0, 1, 1]])


def test_all_rows_alike_need_no_weights(data):
    X, _ = data
    model = RankSVMClassifier().fit(X, np.tile([1, 0, 0], (30, 1)))
    assert (model.objective_, model.duality_gap_, model.n_support_) == (0.0, 0.0, 0)
    assert_array_equal(model.predict(X), np.tile([1, 0, 0], (30, 1)))


def test_names_of_features(data, learner):
    pandas = pytest.importorskip("pandas")
    X, Y = data
    frame = pandas.DataFrame(X, columns=list("abcd"))
    model = learner(random_state=0).fit(frame, pandas.DataFrame(Y, columns=list("pqrs")))
    assert list(model.feature_names_in_) == list("abcd")
    assert_array_equal(model.predict(frame), learner(random_state=0).fit(X, Y).predict(X))
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[list("dcba")])


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_warm_start_along_C(more_data, learner, kernel):
    X, Y = more_data
    tol, tolerance = {RankCVMClassifier: (1e-7, 5e-3), RankSVMClassifier: (1e-5, 5e-2)}[learner]
    options = {"kernel": kernel, "random_state": 0, "tol": tol}
    warm, total = learner(warm_start=True, **options), {"warm": 0, "cold": 0}
    for C in (1.0, 1.3, 1.7):
        warm.set_params(C=C).fit(X, Y)
        cold = learner(C=C, **options).fit(X, Y)
        assert_allclose(warm.objective_, cold.objective_, rtol=2 * tol)
        scores = cold.rank_scores(X)
        assert_allclose(warm.rank_scores(X), scores, atol=tolerance * largest(scores))
        total["warm"] += warm.n_iter_ if C > 1.0 else 0
        total["cold"] += cold.n_iter_ if C > 1.0 else 0
    assert 0 < total["warm"] < total["cold"]


def test_warm_start_at_the_optimum_has_nothing_to_do(more_data, learner):
    model = learner(warm_start=True, random_state=0).fit(*more_data)
    assert model.n_iter_ > 0
    assert model.fit(*more_data).n_iter_ == 0


def test_warm_start_on_other_pairs_is_an_error(data):
    X, Y = data
    model = RankSVMClassifier(warm_start=True).fit(X, Y)
    other = Y.copy()
    other[3, 0] = 1
    before = dict(vars(model))
    with pytest.raises(ValueError, match=r"warm_start=True continues on the same rows of positive weight .* pairs"):
        model.fit(X, other)
    with pytest.raises(ValueError, match="warm_start=True continues on the same rows of positive weight"):
        model.fit(X, Y, sample_weight=(np.arange(30) > 9).astype(float))
    assert vars(model) == before
    assert clone(model).fit(X, other).n_skipped_ == model.n_skipped_ - 1


def test_frank_wolfe_has_no_warm_start(data):
    X, Y = data
    model = RankCVMClassifier(solver="fw", tol=0.1, warm_start=True, random_state=0).fit(X, Y)
    first = model.dual_coef_
    assert_array_equal(model.fit(X, Y).dual_coef_, first)
    model.set_params(solver="auto", tol=1e-8).fit(X, Y)
    cold = RankCVMClassifier(tol=1e-8, random_state=0).fit(X, Y)
    assert_allclose(model.objective_, cold.objective_, rtol=2e-8)


def test_pickle_and_clone(data, learner):
    X, Y = data
    for options in ({"kernel": "rbf"}, {"kernel": "linear", "warm_start": True}):
        model = learner(random_state=0, **options).fit(X, Y)
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.rank_scores(X), model.rank_scores(X))
        assert_array_equal(again.predict(X), model.predict(X))
        assert_array_equal(again.fit(X, Y).predict(X), model.predict(X))
        with pytest.raises(NotFittedError):
            clone(model).predict(X)
        assert_array_equal(clone(model).fit(X, Y).dual_coef_, model.dual_coef_)


def test_switching_kernels_leaves_nothing_behind(data, learner):
    X, Y = data
    model = learner(kernel="linear", random_state=0).fit(X, Y)
    model.set_params(kernel="rbf").fit(X, Y)
    assert not hasattr(model, "coef_")
    assert_array_equal(model.predict(X), learner(kernel="rbf", random_state=0).fit(X, Y).predict(X))
    model.fit(X, Y[:, 0])
    assert not hasattr(model, "threshold_")


def test_callback_sees_every_checkpoint_and_may_stop(data, learner):
    X, Y = data
    seen = []
    model = learner(random_state=0, callback=seen.append).fit(X, Y)
    assert model.history_ == seen
    assert seen[-1].gap <= 1e-3 * seen[-1].primal
    seen.clear()
    stopped = learner(random_state=0, tol=0.0, callback=lambda point: seen.append(point) or len(seen) == 3)
    stopped.fit(X, Y)
    assert len(stopped.history_) == 3
    assert stopped.duality_gap_ > 0.0
    assert stopped.predict(X).shape == Y.shape


@pytest.mark.parametrize("options", [{}, {"solver": "cd"}, {"solver": "fw"}, {"kernel": "linear"}])
def test_one_iteration_warns_once_with_the_gap(data, learner, options):
    X, Y = data
    if learner is RankSVMClassifier and "solver" in options:
        pytest.skip("has one solver")
    with pytest.warns(ConvergenceWarning) as caught:
        model = learner(random_state=0, tol=1e-9, max_iter=1, **options).fit(X, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    message = str(caught[0].message)
    assert message.startswith(f"{learner.__name__} stopped after 1 iterations (max_iter=1): duality gap ")
    assert f"duality gap {model.duality_gap_:.1e} > tolerance {1e-9 * model.objective_:.1e}" in message
    assert "Increase max_iter or tol, scale X, or lower C." in message
    assert np.isfinite(model.rank_scores(X)).all()


def test_interrupted_fit_leaves_the_model_as_it_was(data, learner):
    X, Y = data
    model = learner(random_state=0).fit(X, Y)

    def interrupt(point):
        raise KeyboardInterrupt

    for interrupted in (model, learner()):
        interrupted.set_params(callback=interrupt, C=3.0)
        before = dict(vars(interrupted))
        with pytest.raises(KeyboardInterrupt):
            interrupted.fit(X[:20], Y[:20])
        assert vars(interrupted) == before
    assert model.predict(X).shape == Y.shape


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize("name", ["RankCVMClassifier", "RankSVMClassifier"])
def test_ctrl_c_ends_a_long_fit(tmp_path, name):
    script = tmp_path / "long_fit.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import numpy as np
            from comargin import {name}

            rng = np.random.default_rng(0)
            X = rng.normal(size=(1500, 10))
            Y = (rng.random((1500, 30)) < 0.3).astype(int)
            copies = X.copy(), Y.copy()
            model = {name}(C=100.0, tol=0.0, max_iter=10**9, n_jobs=2, random_state=0)
            model.set_params(callback=lambda point: print("running", flush=True))
            try:
                model.fit(X, Y)
            except KeyboardInterrupt:
                assert (X == copies[0]).all() and (Y == copies[1]).all()
                assert not hasattr(model, "classes_") and not hasattr(model, "n_features_in_")
                print("interrupted", flush=True)
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "running"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out.splitlines()[-1] == "interrupted", err
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "'C' parameter"),
        ({"C": -1.0}, "'C' parameter"),
        ({"C": "big"}, "'C' parameter"),
        ({"C": np.nan}, "'C' parameter"),
        ({"tol": -1.0}, "'tol' parameter"),
        ({"max_iter": 0}, "'max_iter' parameter"),
        ({"max_iter": 2.5}, "'max_iter' parameter"),
        ({"kernel": "sigmoid"}, "'kernel' parameter"),
        ({"gamma": 0.0}, "'gamma' parameter"),
        ({"gamma": "wide"}, "'gamma' parameter"),
        ({"kernel": "poly", "degree": 0}, "'degree' parameter"),
        ({"kernel": "poly", "coef0": -1.0}, "'coef0' parameter"),
        ({"cache_size": 0}, "'cache_size' parameter"),
        ({"callback": 3}, "'callback' parameter"),
        ({"warm_start": "yes"}, "'warm_start' parameter"),
        ({"n_jobs": 1.5}, "'n_jobs' parameter"),
        ({"random_state": "x"}, "'random_state' parameter"),
        ({"kernel": "precomputed"}, "square kernel matrix of the training rows, got 30 x 4"),
        ({"kernel": lambda A, B: np.ones(3)}, "kernel must return one value per pair of rows"),
        ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, "kernel returned NaN"),
        ({"kernel": lambda A, B: -(A @ B.T)}, "kernel must be positive semi-definite"),
    ],
)
def test_bad_parameters_are_named(data, learner, options, message):
    model = learner(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert not hasattr(model, "classes_")


def test_solver_is_named_and_rank_svm_has_none(data):
    with pytest.raises(ValueError, match="'solver' parameter of RankCVMClassifier must be"):
        RankCVMClassifier(solver="smo").fit(*data)
    assert "solver" not in RankSVMClassifier().get_params()


def test_bad_kernel_matrices_are_named(data, learner):
    X, Y = data
    K = rbf_kernel(X)
    skew = K.copy()
    skew[3, 7] += 0.25
    with pytest.raises(ValueError, match=r"symmetric; entries \((3, 7|7, 3)\)"):
        learner(kernel="precomputed").fit(skew, Y)
    with pytest.raises(ValueError, match="positive semi-definite"):
        learner(kernel="precomputed").fit(K - 0.5 * np.eye(30), Y)
    with pytest.raises(ValueError, match="29 features, but"):
        learner(kernel="precomputed").fit(K, Y).predict(K[:, :-1])


def test_another_rule_for_label_sets(more_data, learner):
    X, Y = more_data
    model = ThresholdClassifierCV(learner(gamma=0.1, random_state=0), rule=GlobalCut(), cv=3).fit(X, Y)
    predicted = model.predict(X)
    assert predicted.shape == Y.shape
    assert np.mean(predicted == Y) > 0.75


def test_grid_search_pipeline_and_scores(more_data, learner):
    X, Y = more_data
    model = make_pipeline(MinMaxScaler(), learner(random_state=0))
    grid = {f"{learner.__name__.lower()}__gamma": [0.01, 1.0, 50.0]}
    search = GridSearchCV(model, grid, cv=3, scoring=scorers["ranking_loss"]).fit(X, Y)
    assert len(set(search.cv_results_["mean_test_score"])) == 3
    assert search.best_params_ != {next(iter(grid)): 50.0}
    scores = cross_val_score(make_pipeline(StandardScaler(), learner(random_state=0)), X, Y, cv=3,
                             scoring=scorers["ranking_loss"])  # fmt: skip
    by_hand = []
    for test in np.array_split(np.arange(150), 3):
        train = np.setdiff1d(np.arange(150), test)
        fitted = make_pipeline(StandardScaler(), learner(random_state=0)).fit(X[train], Y[train])
        rows = test[Y[test].any(axis=1) & ~Y[test].all(axis=1)]
        by_hand.append(-label_ranking_loss(Y[rows], fitted.decision_function(X[rows])))
    assert_allclose(scores, by_hand)
    assert -0.2 < scores.mean() < 0.0
    # scikit-learn cuts rows and columns of a kernel matrix when the estimator says it is one
    pairwise = cross_val_score(learner(kernel="precomputed", random_state=0), rbf_kernel(X, gamma=0.1), Y, cv=3,
                               scoring=scorers["ranking_loss"])  # fmt: skip
    direct = cross_val_score(learner(gamma=0.1, random_state=0), X, Y, cv=3, scoring=scorers["ranking_loss"])
    assert_allclose(pairwise, direct, atol=5e-3)


def test_constant_labels_of_rank_svm(more_data):
    X, Y = more_data
    Y[:, 1], Y[:, 3] = 0, 1
    predicted = RankSVMClassifier().fit(X, Y).predict(X)
    assert not predicted[:, 1].any()
    assert predicted[:, 3].all()
    assert np.mean(predicted == Y) > 0.8


@pytest.mark.parametrize("solver", ["auto", "cd"])
def test_stop_at_the_first_checkpoint(data, solver):
    X, Y = data
    model = RankCVMClassifier(callback=lambda point: True, solver=solver).fit(X, Y)
    assert np.isfinite(model.decision_function(X)).all()


def test_warm_start_without_a_random_state(data):
    X, Y = data
    model = RankCVMClassifier(warm_start=True, tol=1e-6).fit(X, Y)
    assert model.fit(X, Y).n_iter_ == 0


@pytest.mark.parametrize("change", ["labels", "weights"])
def test_rank_cvm_warm_start_on_other_rows_with_pairs(data, change):
    X, Y = data
    model = RankCVMClassifier(warm_start=True, random_state=0).fit(X, Y)
    weight = (np.arange(30) > 9).astype(float) if change == "weights" else None
    if change == "labels":
        Y = Y.copy()
        Y[3, 0] = 1
    warm = model.fit(X, Y, sample_weight=weight)
    cold = RankCVMClassifier(random_state=0).fit(X, Y, sample_weight=weight)
    assert_allclose(warm.objective_, cold.objective_, rtol=2e-3)
    assert warm.duality_gap_ <= warm.tol * warm.objective_


def test_few_support_rows_of_rank_svm(more_data):
    X, y = two_clusters(more_data[0])
    for C in (1.0, 10.0, 100.0):
        assert 0 < RankSVMClassifier(gamma=0.02, C=C).fit(X, y).n_support_ < 75


def test_label_sets_do_not_follow_the_tolerance_of_the_solver(rng):
    X = rng.normal(size=(150, 6))
    Y = (X @ rng.normal(size=(6, 5)) + 0.8 * rng.normal(size=(150, 5)) > 0.4).astype(int)
    Y[:, 1], Y[:, 3] = 0, 1
    models = [RankSVMClassifier(tol=tol).fit(X, Y) for tol in (1e-3, 1e-7)]
    assert max(largest(model.threshold_.coef_) for model in models) < 100.0
    new = rng.normal(size=(150, 6))
    assert np.mean(models[0].predict(new) != models[1].predict(new)) < 0.02


@pytest.mark.parametrize("scale", [1e-6, 1e3])
def test_rank_svm_of_features_of_any_size(scale):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6))
    Y = (X @ rng.normal(size=(6, 5)) + 0.8 * rng.normal(size=(60, 5)) > 0.4).astype(int)
    RankSVMClassifier(kernel="linear").fit(scale * X, Y)


@pytest.mark.parametrize("options", [{"kernel": "linear"}, {"C": 1e20}], ids=["features", "cost"])
def test_rank_cvm_beyond_all_digits(rng, options):
    X = rng.normal(size=(60, 6)) * (1e8 if "kernel" in options else 1.0)
    Y = (X @ rng.normal(size=(6, 5)) + 0.8 * largest(X) * rng.normal(size=(60, 5)) > 0.0).astype(int)
    model, message = RankCVMClassifier(random_state=0, max_iter=100, **options), "scale the features"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        try:
            model.fit(X, Y)
        except FloatingPointError as error:
            message = str(error)
    assert "scale the features" in message
    assert not hasattr(model, "classes_") or np.isfinite(model.decision_function(X)).all()


@pytest.mark.parametrize("C", [1e4, 1e6, 1e8])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_large_costs(rng, learner, kernel, C):
    X = rng.normal(size=(25, 4))
    Y = (X @ rng.normal(size=(4, 4)) + rng.normal(size=(25, 4)) > 0).astype(int)
    model = learner(kernel=kernel, C=C, random_state=0).fit(X, Y)
    assert model.duality_gap_ <= model.tol * model.objective_
    if kernel == "rbf":  # separable: larger costs change nothing any more
        assert label_ranking_loss(Y[n_pairs(Y) > 0], model.rank_scores(X)[n_pairs(Y) > 0]) == 0.0


def n_pairs(Y):
    return Y.sum(axis=1) * (Y.shape[1] - Y.sum(axis=1))


def test_many_labels_that_are_never_on(rng, learner):
    X, Y = rng.normal(size=(40, 6)), (rng.random((40, 150)) < 0.02).astype(int)
    Y[:, 7] = 1
    model = learner(random_state=0).fit(X, Y)
    assert model.duality_gap_ <= model.tol * model.objective_
    scores, never = model.rank_scores(X), ~Y.any(axis=0)
    assert never.sum() > 20
    if learner is RankSVMClassifier:  # the margin of every pair of a one-sided label, and no weights
        assert scores[:, never].max() + 1.0 <= scores[:, ~never].min() + 1e-9
        assert scores[:, 7].min() - 1.0 >= np.delete(scores, 7, axis=1).max() - 1e-9
        assert_allclose(scores[:, never], np.broadcast_to(scores[0, never], scores[:, never].shape), atol=1e-12)


def test_biases_alone_rank_all_labels():
    X, Y = np.arange(6.0)[:, None], np.tile([[1, 1, 0], [1, 0, 0]], (3, 1))
    model = RankSVMClassifier().fit(X, Y)
    assert model.objective_ == model.dual_objective_ == 0.0
    assert (np.diff(model.rank_scores(X), axis=1) <= -1.0 + 1e-12).all()
    assert model.n_support_ == 0


def test_tiny_costs(data, learner):
    model = learner(C=1e-200, random_state=0).fit(*data)
    assert np.isfinite(model.decision_function(data[0])).all()
