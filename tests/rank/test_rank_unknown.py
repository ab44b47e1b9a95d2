"""Rank-CVM and Rank-SVM with unknown labels: pairs of known labels, against cvxpy and plain loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel
from tests.rank import naive_rank, reference_rank

from comargin import RankCVMClassifier, RankSVMClassifier
from comargin.decisions import RankSVMCut

BOTH = pytest.mark.parametrize("learner", [RankCVMClassifier, RankSVMClassifier])


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(30, 4))
    Y = (X @ rng.normal(size=(4, 5)) + rng.normal(size=(30, 5)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.35] = np.nan
    Y[:, 3], Y[7] = np.nan, np.nan  # a label and a row that nobody looked at
    return X, Y


def cost_of(Y, weight, C):
    """C_i; infinite for rows without a known pair, which have none."""
    with np.errstate(divide="ignore"):
        return C * weight / (np.nansum(Y == 1, axis=1) * np.nansum(Y == 0, axis=1))


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("solver", ["auto", "cd"])
@pytest.mark.parametrize("C", [0.5, 300.0])
def test_rank_cvm_is_optimal_over_known_pairs(rows, rng, kernel, solver, C):
    X, Y = rows
    weight = 0.5 + rng.random(len(X))
    K = (X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.4)) + 1.0
    best = reference_rank.rank_cvm_optimum(K, Y, cost_of(Y, weight, C))
    model = RankCVMClassifier(C, kernel=kernel, gamma=0.4, solver=solver, tol=1e-7, max_iter=20_000, random_state=0)
    model.fit(X, Y, sample_weight=weight)
    assert model.duality_gap_ <= 1e-7 * model.objective_
    assert model.dual_objective_ <= best.W * (1 + 1e-9)
    assert_allclose(model.objective_, best.W, rtol=1e-7)
    F = K @ best.beta
    assert_allclose(model.rank_scores(X), F, atol=1e-3 * np.abs(F).max())
    assert_array_equal(model.dual_coef_[3], 0.0)


def test_frank_wolfe_takes_the_steps_of_the_known_pairs(rows):
    X, Y = rows
    cost = cost_of(Y, np.ones(len(X)), 2.0)
    K = rbf_kernel(X, gamma=0.4) + 1.0
    model = RankCVMClassifier(2.0, gamma=0.4, solver="fw", tol=1e-2, random_state=0).fit(X, Y)
    best = reference_rank.rank_cvm_optimum(K, Y, cost).W
    assert model.dual_objective_ <= best * (1 + 1e-9)
    assert best * (1 - 1e-9) <= model.objective_ <= best * 1.01
    paper = naive_rank.frank_wolfe(K.tolist(), Y.tolist(), cost.tolist(), len(X) - model.n_skipped_)
    one_round = RankCVMClassifier(2.0, gamma=0.4, solver="fw", max_iter=1, random_state=0, tol=1e-9)
    with pytest.warns(UserWarning, match="stopped after 1"):
        one_round.fit(X, Y)
    assert_allclose(one_round.objective_, paper.W[-1], rtol=1e-10)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [0.5, 20.0])
def test_rank_svm_is_optimal_over_known_pairs(rows, rng, kernel, C):
    X, Y = rows
    weight = 0.5 + rng.random(len(X))
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.4)
    best = reference_rank.rank_svm_optimum(K, Y, cost_of(Y, weight, C))
    model = RankSVMClassifier(C, kernel=kernel, gamma=0.4, tol=1e-7).fit(X, Y, sample_weight=weight)
    assert model.duality_gap_ <= 1e-7 * model.objective_
    assert_allclose([model.objective_, model.dual_objective_], best.objective, rtol=1e-6)
    scores = model.rank_scores(X) - model.intercept_
    assert_allclose(scores, K @ best.beta, atol=1e-2 * np.abs(scores).max())
    assert np.argmin(model.intercept_) == 3  # in no pair, hence below the others


@BOTH
def test_pairs_that_share_no_label_are_learned_apart(rng, learner):
    X = rng.normal(size=(40, 3))
    Y = (X @ rng.normal(size=(3, 4)) + 0.5 * rng.normal(size=(40, 4)) > 0).astype(float)
    sides = [(np.arange(0, 40, 2), [0, 1]), (np.arange(1, 40, 2), [2, 3])]
    for seen, labels in sides:
        Y[np.ix_(seen, [label for label in range(4) if label not in labels])] = np.nan
    model = learner(2.0, kernel="linear", tol=1e-9, random_state=0).fit(X, Y)
    parts = [learner(2.0, kernel="linear", tol=1e-9, random_state=0).fit(X[i], Y[i][:, k]) for i, k in sides]
    if learner is RankSVMClassifier:
        scales = [1.0, 1.0]
        assert_allclose(model.objective_, sum(part.objective_ for part in parts), rtol=1e-7)
    else:  # the best x of max 1.x - 1/2 x.Theta x is a / (2 W)
        scales = [model.objective_ / part.objective_ for part in parts]
        assert_allclose(1.0 / model.objective_, sum(1.0 / part.objective_ for part in parts), rtol=1e-7)
    for (_, labels), part, scale in zip(sides, parts, scales, strict=True):
        assert_allclose(model.coef_[labels], scale * part.coef_, atol=1e-4 * np.abs(model.coef_).max())


@BOTH
def test_rows_without_a_known_pair_are_skipped(rng, learner):
    X = rng.normal(size=(40, 3))
    Y = (X[:, :2] + 0.5 * rng.normal(size=(40, 2)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    ranked = Y.sum(axis=1) == 1.0
    model = learner(kernel="linear", random_state=0).fit(X, Y)
    alone = learner(kernel="linear", random_state=0).fit(X[ranked], Y[ranked])
    assert model.n_skipped_ == np.count_nonzero(~ranked) > 0
    assert alone.n_skipped_ == 0
    assert_allclose(model.coef_, alone.coef_, rtol=1e-9)
    assert np.abs(model.threshold_.coef_ - alone.threshold_.coef_).max() > 1e-6  # which all known labels teach


@BOTH
def test_sparse_rows_give_what_dense_ones_do(rows, learner):
    X, Y = rows
    X = np.where(X > 0.0, X, 0.0)
    for kernel in ("linear", "rbf"):
        dense, sparse = (learner(kernel=kernel, tol=1e-8, random_state=0).fit(form, Y) for form in (X, sp.csr_array(X)))
        assert_allclose(sparse.decision_function(X), dense.decision_function(X), atol=1e-6)


@BOTH
def test_constant_among_known_labels(rows, learner):
    X, Y = rows
    Y[Y[:, 0] == 0, 0] = np.nan
    model = learner(random_state=0).fit(X, Y)
    assert_array_equal(model.threshold_.constant_, [1, -1, -1, 0, -1])
    predicted = model.predict(X)
    assert_array_equal(predicted[:, 0], 1)
    assert_array_equal(predicted[:, 3], 0)
    assert_array_equal(np.unique(predicted[:, [1, 2, 4]]), [0, 1])


@BOTH
def test_no_known_pair_at_all_is_refused(rows, learner):
    X, Y = rows
    with pytest.raises(ValueError, match="ranks labels"):
        learner().fit(X, np.where(Y == 1, np.nan, Y))


@BOTH
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_warm_starts_and_states(rows, learner, kernel):
    X, Y = rows
    model = learner(5.0, kernel=kernel, tol=1e-6, random_state=0, warm_start=True).fit(X, Y)
    scores, n_iter = model.decision_function(X), model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ < n_iter
    assert_allclose(model.decision_function(X), scores, atol=1e-4 * np.abs(scores).max())
    states = []
    stopped = learner(5.0, kernel=kernel, tol=1e-6, random_state=0)
    stopped.fit_from_state(X, Y, None, keep=lambda make: states.append(make()), should_stop=lambda: len(states) > 2)
    assert stopped.duality_gap_ > 1e-6 * stopped.objective_
    stopped.fit_from_state(X, Y, states[-1])
    assert_allclose(stopped.objective_, model.objective_, rtol=1e-5)
    assert stopped.n_iter_ > states[-1].history[-1].n_iter


def test_threshold_of_a_row_counts_its_known_labels(rng):
    scores = rng.normal(size=(60, 4))
    Y = (scores + rng.normal(size=scores.shape) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[:3], Y[3, 1:] = np.nan, np.nan
    weight = rng.integers(0, 3, 60).astype(float)
    rule = RankSVMCut().fit(scores, Y, sample_weight=weight)
    known = ~np.isnan(Y)
    target = [
        naive_rank.row_threshold(list(f[k]), list(y[k])) for f, y, k in zip(scores, Y, known, strict=True) if k.any()
    ]
    counts = known.any(axis=1)
    A = np.column_stack([scores[counts], np.ones(counts.sum())])
    root = np.sqrt(weight[counts])
    expected = np.linalg.lstsq(root[:, None] * A, root * target, rcond=None)[0]
    assert_allclose([*rule.coef_, rule.intercept_], expected, rtol=1e-9)
