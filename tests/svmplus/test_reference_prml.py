"""The references of PrBR and PrML agree with each other, with plain loops, with plain SVMs and with numbers by hand."""

import math

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import LinearSVC
from tests.m3l.reference import m3l_optimum
from tests.svmplus import naive_prml as naive
from tests.svmplus import reference_prml as reference

GAMMA_1, GAMMA_2 = 2.0, 0.5


def instance(rng, n=10, d=6, n_labels=3):
    """Nearly linear labels, both signs in every column; X with the constant feature."""
    X = np.column_stack([rng.normal(size=(n, d)), np.ones(n)])
    scores = X[:, :3] @ rng.normal(size=(3, n_labels)) + 0.3 * rng.normal(size=(n, n_labels))
    return X, reference.signs(scores > np.median(scores, axis=0))


def unequal_costs(rng, S, C=0.1):
    return C * rng.uniform(0.5, 2.0, S.shape)


# ---- privileged features and (5)


def test_privileged_features_by_hand():
    S = np.array([[1, -1, 1], [-1, -1, 1]])
    assert_array_equal(reference.privileged_features(S, 1), [[1, 1, 1], [-1, 1, 1]])
    assert_array_equal(reference.privileged_features(S, 0, privileged_intercept=False), [[0, -1, 1], [0, -1, 1]])
    mask = np.array([[0, 0, 1], [1, 0, 0], [0, 0, 0]], dtype=bool)
    assert_array_equal(reference.privileged_features(S, 0, mask), [[1, 0, 1], [1, 0, 1]])
    assert_array_equal(reference.privileged_features(S, 1, mask, privileged_intercept=False), [[1, 0, 0], [-1, 0, 0]])
    assert_array_equal(reference.privileged_features(S, 2, mask), [[0, 0, 1], [0, 0, 1]])
    assert_array_equal(reference.signs([[0, 1], [True, False]]), [[-1, 1], [1, -1]])


def test_nearest_labels_by_hand():
    # Distances 0-1: 1, 0-2: 3, 1-2: 2, and label 3 is at 1 from 0 and at 0 from 1.
    S = reference.signs(np.array([[1, 1, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]]))
    F, T = False, True
    assert_array_equal(reference.nearest_labels(S, 1), [[F, T, F, F], [F, F, F, T], [F, T, F, F], [F, T, F, F]])
    assert_array_equal(reference.nearest_labels(S, 0), np.zeros((4, 4), dtype=bool))
    assert_array_equal(reference.nearest_labels(S, 3), ~np.eye(4, dtype=bool))
    assert_array_equal(reference.nearest_labels(S, 9), ~np.eye(4, dtype=bool))
    assert_array_equal(reference.nearest_labels(S, 2).sum(axis=1), 2)


@pytest.mark.parametrize("privileged_intercept", [True, False])
def test_features_and_objective_equal_plain_loops(privileged_intercept, rng):
    _, S = instance(rng, n_labels=4)
    mask = reference.nearest_labels(S, 2)
    C, D, W, Wt = unequal_costs(rng, S), rng.normal(size=(2, 7)), rng.normal(size=(2, 4)), rng.normal(size=(4, 4))
    features = naive.privileged_features(S, privileged_intercept, mask)
    for i in range(4):
        assert_array_equal(features[i], reference.privileged_features(S, i, mask, privileged_intercept))
    value = reference.prml_objective(D, W, Wt, S, C, GAMMA_1, GAMMA_2, mask, privileged_intercept)
    assert_allclose(value, naive.objective(D, W, Wt, S, features, C, GAMMA_1, GAMMA_2), rtol=1e-12)


def test_objective_and_violation_by_hand():
    S, Wt = np.array([[1.0, -1.0], [1.0, 1.0]]), np.array([[0.5, 0.25], [-0.25, 1.0]])
    # Columns are labels: xi_00 = 0.5 * 1 + -0.25 * -1, xi_01 = 0.25 * 1 + 1 * 1, and so on.
    xi = np.array([[0.75, 1.25], [0.25, 1.25]])
    assert_allclose(reference.slack(S, Wt), xi, rtol=1e-15)
    D, W = np.array([[2.0]]), np.array([[1.0, -3.0]])
    C = np.array([[1.0, 2.0], [3.0, 0.0]])
    expected = 2.0 + 0.5 * 4.0 * 10.0 + 0.5 * 8.0 * 1.375 + (0.75 + 2.5 + 0.75)
    assert_allclose(reference.prml_objective(D, W, Wt, S, C, 4.0, 8.0), expected, rtol=1e-15)
    F = np.array([[0.25, 0.25], [0.0, -9.0]])
    assert reference.violation(F, S, Wt) == pytest.approx(8.75)  # 1 - 1.25 + 9
    assert reference.violation(F, S, Wt, C) == pytest.approx(0.75)  # without that one: 1 - 0.25 - 0
    F = np.array([[1.0, 0.0], [2.0, 0.5]])
    assert reference.violation(F, S, Wt) == pytest.approx(-0.25)  # feasible; nearest: xi_01 = 1.25 needs 1, xi_10 > 0
    assert reference.violation(F, S, -Wt) == pytest.approx(2.25)


# ---- by hand


@pytest.mark.parametrize("C", [0.01, 0.1, 1.0, 10.0])
def test_one_row_and_one_label_by_hand(C):
    # w = a s x and v = (a + b - C) / g2 with q = x.x: a = 1 / q and v = 0 while that is at most C, else a q + v = 1.
    x, gamma2 = np.array([[1.0, -2.0]]), 3.0
    q = 5.0
    a = 1.0 / q if 1.0 / q <= C else (1.0 + C / gamma2) / (q + 1.0 / gamma2)
    v = max(a - C, 0.0) / gamma2
    best = reference.prbr_optimum(x, np.array([[-1.0]]), C, gamma2)
    assert_allclose(best.weights[:, 0], -a * x[0], atol=1e-8)
    assert_allclose(best.Wt, [[v]], atol=1e-8)
    assert_allclose(best.objective, 0.5 * a * a * q + 0.5 * gamma2 * v * v + C * v, rtol=1e-9)
    assert_allclose(best.A, [[a]], atol=1e-7)
    assert (v > 0.01) == (C < 0.2)


def test_rows_that_contradict_each_other_by_hand():
    # x_1 = x_2, label 0 is + and -. With label 1 the same on both: xi >= 1 + |w|, so w = 0 and xi = 1.
    X, S = np.ones((2, 1)), np.array([[1.0, 1.0], [-1.0, 1.0]])
    T, c = reference.privileged_features(S, 0, privileged_intercept=False), np.full(2, 0.7)
    w, wt, alpha, _ = reference.svm_plus(X, S[:, 0], T, c, 1.0, GAMMA_2)
    assert_allclose(w, [0.0], atol=1e-8)
    assert_allclose(wt, [0.0, 1.0], atol=1e-8)
    assert_allclose(alpha[0], alpha[1], atol=1e-7)
    # With the constant as well, both share: wt = (1/2, 1/2).
    w, wt, *_ = reference.svm_plus(X, S[:, 0], reference.privileged_features(S, 0), c, 1.0, GAMMA_2)
    assert_allclose([*w, *wt], [0.0, 0.5, 0.5], atol=1e-7)


@pytest.mark.parametrize("step", ["PrBR", "W", "D"])
def test_infeasible_by_hand(step):
    # Label 0 contradicts itself, and the other label is + and -: xi and -xi are both at least 0, so no slack at all.
    # Label 1 has the same x and label 0 as its only comment.
    X, S = np.ones((2, 1)), np.array([[1.0, 1.0], [-1.0, -1.0]])
    run = {
        "PrBR": lambda **options: reference.prbr_optimum(X, S, 1.0, GAMMA_2, **options),
        "W": lambda **options: reference.w_step_optimum(X, S, np.eye(1), 1.0, 1.0, GAMMA_2, **options),
        "D": lambda **options: reference.d_step_optimum(X, S, np.ones((1, 2)), 1.0, GAMMA_2, **options),
    }[step]
    best = run(privileged_intercept=False)
    assert best.objective == best.dual == math.inf
    assert best.infeasible == (0, 1)
    assert np.all(np.isnan(best.weights))
    assert np.all(np.isnan(best.Wt))
    # The constant cures it: 2 (g2 / 2 + 2 C), as w = 0 and xi = 1.
    best = run(privileged_intercept=True)
    assert_allclose(best.objective, GAMMA_2 + 4.0, rtol=1e-9)
    assert_allclose(best.Wt, np.eye(2), atol=1e-7)
    assert best.infeasible == ()


def test_one_infeasible_label_is_named():
    # Label 2 is always on: a comment for labels 0 and 1 that raises all slack, and one it lacks itself.
    X = np.array([[1.0], [1.0], [-1.0], [-1.0]])
    S = np.array([[1.0, 1.0, 1.0], [-1.0, -1.0, 1.0], [1.0, -1.0, 1.0], [-1.0, 1.0, 1.0]])
    best = reference.prbr_optimum(X, S, 1.0, GAMMA_2, privileged_intercept=False)
    assert best.infeasible == (2,)
    assert best.objective == math.inf
    assert_allclose(best.Wt[2, :2], 1.0, atol=1e-7)
    assert np.all(np.isnan(best.Wt[:, 2]))
    # Without comments label 2 is a hard-margin SVM on x = +-1, both positive: a constant feature makes it feasible.
    X = np.column_stack([X, np.ones(4)])
    best = reference.prbr_optimum(X, S, 1.0, GAMMA_2, mask=np.eye(3)[[2, 2, 2]] > 0, privileged_intercept=False)
    assert best.infeasible == ()
    assert_allclose(best.weights[:, 2], [0.0, 1.0], atol=1e-7)
    assert_allclose(best.Wt[:, 2], 0.0, atol=1e-12)


def test_descent_diverges_where_the_problem_is_infeasible(rng):
    X, S = np.ones((2, 1)), np.array([[1.0, 1.0], [-1.0, -1.0]])
    yt = naive.privileged_features(S, privileged_intercept=False)[0]
    run = naive.label_descent(X, S[:, 0], yt, np.ones(2), 1.0, GAMMA_2, 2000, rng)
    assert np.all(np.diff(run.dual) >= -1e-9)
    assert run.dual[1999] > 1.5 * run.dual[999] > 100.0
    # The direction it takes is Farkas' certificate: sum a s x = 0, sum (a + b) yt = 0, sum a > 0.
    total = run.alpha.sum()
    assert abs((run.alpha * S[:, 0]) @ X) < 0.02 * total
    assert np.abs((run.alpha + run.beta) @ yt).max() < 0.02 * total


# ---- against plain SVMs


def test_a_slack_of_its_own_for_every_row_is_a_plain_svm(rng):
    # T = I: xi_j = wt_j. Then g2/2 xi^2 + c xi is the hinge for g2 = 0 and the squared hinge for c = 0.
    X, S = instance(rng, n=14, d=3)
    s, C = S[:, 0], 0.8
    w, *_ = reference.svm_plus(X, s, np.eye(14), np.full(14, C), 1.0, 1e-7)
    value, Z = m3l_optimum(X, s[:, None], np.full((14, 1), C / 2.0))
    assert_allclose(0.5 * w @ w + C * np.maximum(1.0 - s * (X @ w), 0.0).sum(), value, rtol=1e-6)
    assert_allclose(w, Z[:, 0], atol=1e-3)
    w, *_ = reference.svm_plus(X, s, np.eye(14), np.full(14, 1e-9), 1.0, 2.0 * C)
    svm = LinearSVC(loss="squared_hinge", C=C, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(X, s)
    assert_allclose(w, svm.coef_[0], atol=1e-6)
    assert np.linalg.norm(w) > 0.1


def test_separable_labels_and_large_costs_need_no_slack(rng):
    X, S = instance(rng, n=6, d=8)
    best = reference.prbr_optimum(X, S, 1e3, GAMMA_2)
    for i in range(3):
        value, z = m3l_optimum(X, S[:, [i]], np.full((6, 1), 1e3))
        assert_allclose(best.weights[:, i], z[:, 0], atol=1e-6)
        assert_allclose(0.5 * np.sum(best.weights[:, i] ** 2), value, rtol=1e-7)
    assert_allclose(best.Wt, 0.0, atol=1e-7)


# ---- the steps and plain loops


@pytest.mark.parametrize("privileged_intercept", [True, False])
@pytest.mark.parametrize("n_privileged", [None, 1])
def test_descent_finds_the_optimum_of_every_label(privileged_intercept, n_privileged, rng):
    X, S = instance(rng, n=7, d=9)
    D, C = np.eye(9, 10) + 0.2 * rng.normal(size=(9, 10)), unequal_costs(rng, S, 0.3)
    C[4, 1] = 0.0
    mask = None if n_privileged is None else reference.nearest_labels(S, n_privileged)
    best = reference.w_step_optimum(X, S, D, C, GAMMA_1, GAMMA_2, mask, privileged_intercept)
    assert best.infeasible == ()
    features = naive.privileged_features(S, privileged_intercept, mask)
    value = 0.0
    for i in range(3):
        run = naive.label_descent(X @ D.T, S[:, i], features[i], C[:, i], GAMMA_1, GAMMA_2, 400, rng, 1e-7)
        assert np.all(np.diff(run.dual) >= -1e-12 * abs(run.dual[-1]))
        assert run.alpha.min() >= 0.0
        assert run.beta.min() >= 0.0
        value += run.dual[-1]
        if run.change <= 1e-7:
            assert_allclose(run.weights, best.weights[:, i], atol=1e-5)
            assert_allclose(run.privileged, best.Wt[:, i], atol=1e-5)
    assert best.objective * (1.0 - 2e-2) < value < best.objective * (1.0 + 1e-9)
    assert np.linalg.norm(best.weights) > 0.1


def test_descent_finds_the_optimum_of_prbr(rng):
    X, S = instance(rng)
    C = unequal_costs(rng, S)
    best = reference.prbr_optimum(X, S, C, GAMMA_2)
    features = naive.privileged_features(S)
    for i in range(3):
        run = naive.label_descent(X, S[:, i], features[i], C[:, i], 1.0, GAMMA_2, 5000, rng, 1e-8)
        assert run.change <= 1e-8
        assert_allclose(run.weights, best.weights[:, i], atol=1e-6)
        assert_allclose(run.privileged, best.Wt[:, i], atol=1e-6)
        own = 0.5 * np.sum(best.weights[:, i] ** 2) + 0.5 * GAMMA_2 * np.sum(best.Wt[:, i] ** 2)
        assert_allclose(run.dual[-1], own + C[:, i] @ reference.slack(S, best.Wt)[:, i], rtol=1e-8)
    assert np.linalg.norm(best.weights, axis=0).min() > 0.05
    assert np.abs(best.Wt).max() > 0.05


@pytest.mark.parametrize("privileged_intercept", [True, False])
def test_descent_approaches_the_optimum_of_the_dictionary(privileged_intercept, rng):
    X, S = instance(rng, n=7, d=8)
    W, C = np.eye(3) + 0.3 * rng.normal(size=(3, 3)), unequal_costs(rng, S)
    C[2, 0] = 0.0
    best = reference.d_step_optimum(X, S, W, C, GAMMA_2, None, privileged_intercept)
    features = naive.privileged_features(S, privileged_intercept)
    run = naive.dictionary_descent(X, S, W, features, C, GAMMA_2, 300, rng, 1e-6)
    assert np.all(np.diff(run.dual) >= -1e-12 * abs(run.dual[-1]))
    assert best.objective * (1.0 - 2e-2) < run.dual[-1] < best.objective * (1.0 + 1e-9)
    # 1/2 ||D - D*||^2 + g2/2 ||Wt - Wt*||^2 is at most what the dual still lacks.
    distance = 0.5 * np.sum((run.weights - best.weights) ** 2) + 0.5 * GAMMA_2 * np.sum((run.privileged - best.Wt) ** 2)
    assert distance <= best.objective - run.dual[-1] + 1e-7 * best.objective
    assert np.linalg.norm(best.weights) > 0.1


def test_steps_reduce_to_prbr(rng):
    X, S = instance(rng)
    C, mask = unequal_costs(rng, S), reference.nearest_labels(S, 1)
    best = reference.prbr_optimum(X, S, C, GAMMA_2, mask)
    by_w = reference.w_step_optimum(X, S, np.eye(7), C, 1.0, GAMMA_2, mask)
    by_d = reference.d_step_optimum(X, S, np.eye(3), C, GAMMA_2, mask)
    assert_allclose([by_w.objective, by_d.objective], best.objective, rtol=1e-8)
    assert_allclose(by_w.weights, best.weights, atol=1e-6)
    assert_allclose(by_d.weights.T, best.weights, atol=1e-6)
    assert_allclose(by_d.Wt, best.Wt, atol=1e-6)
    # (7): dividing by gamma1 changes nothing but the scale.
    D = rng.normal(size=(4, 7))
    one = reference.w_step_optimum(X, S, D, C, GAMMA_1, GAMMA_2, mask)
    two = reference.w_step_optimum(X, S, D, C / GAMMA_1, 1.0, GAMMA_2 / GAMMA_1, mask)
    assert_allclose(one.objective, GAMMA_1 * two.objective, rtol=1e-8)
    assert_allclose(one.weights, two.weights, atol=1e-6)


@pytest.mark.parametrize("step", ["W", "D"])
def test_facts_about_the_optimum(step, rng):
    X, S = instance(rng)
    C, other = unequal_costs(rng, S), rng.normal(size=(4, 7 if step == "W" else 3))
    if step == "W":
        best = reference.w_step_optimum(X, S, other, C, GAMMA_1, GAMMA_2)
        D, W = other, best.weights
        assert_allclose(W, D @ X.T @ (S * best.A) / GAMMA_1, atol=1e-6)  # (8)
        rest = 0.5 * np.sum(D**2)
    else:
        best = reference.d_step_optimum(X, S, other, C, GAMMA_2)
        D, W = best.weights, other
        assert_allclose(D, W @ (S * best.A).T @ X, atol=1e-6)  # (12)
        rest = 0.5 * GAMMA_1 * np.sum(W**2)
    whole = reference.prml_objective(D, W, best.Wt, S, C, GAMMA_1, GAMMA_2)
    assert_allclose(whole, best.objective + rest, rtol=1e-12)
    assert_allclose(best.Wt, reference.privileged_weights(best.A, best.B, S, C, GAMMA_2), atol=1e-6)  # (9), (13)
    F, xi = X @ D.T @ W, reference.slack(S, best.Wt)
    assert reference.violation(F, S, best.Wt) < 1e-8
    assert_allclose(best.A * (S * F - 1.0 + xi), 0.0, atol=1e-6)
    assert_allclose(best.B * xi, 0.0, atol=1e-6)
    assert best.A.max() > 1e-2


def test_costs_are_repeated_rows(rng):
    X, S = instance(rng)
    C, W = np.full(S.shape, 0.2), rng.normal(size=(2, 3))
    C[3], C[5] = 0.4, 0.0
    rows = np.append(np.delete(np.arange(10), 5), 3)
    for one, two in (
        (reference.prbr_optimum(X, S, C, GAMMA_2), reference.prbr_optimum(X[rows], S[rows], 0.2, GAMMA_2)),
        (reference.d_step_optimum(X, S, W, C, GAMMA_2), reference.d_step_optimum(X[rows], S[rows], W, 0.2, GAMMA_2)),
    ):
        assert_allclose(one.objective, two.objective, rtol=1e-8)
        assert_allclose(one.weights, two.weights, atol=1e-6)
        assert_allclose(one.Wt, two.Wt, atol=1e-6)
        assert_array_equal(one.A[5], 0.0)


def test_label_of_one_sign_and_rows_of_zeros(rng):
    X, S = instance(rng)
    S[:, 1], X[0] = -1.0, 0.0
    best = reference.prbr_optimum(X, S, 0.2, GAMMA_2)
    assert best.infeasible == ()
    assert np.all(reference.slack(S, best.Wt)[0] >= 1.0 - 1e-8)  # margin 0: all of 1 is slack


# ---- the alternation


def test_alternation_never_rises_and_stays_above_the_bound(rng):
    X, S = instance(rng, n=6, d=5)
    C = np.full(S.shape, 0.5)
    features = naive.privileged_features(S)
    D = np.eye(3, 6) + 0.2 * rng.normal(size=(3, 6))
    run = naive.prml(X, S, D, C, 0.5, GAMMA_2, 2, rng, features=features, n_passes=800, tol=1e-5)
    bound, _ = reference.nuclear_optimum(X, S, C, 0.5, GAMMA_2)
    values = []
    for _ in range(2):
        step = reference.w_step_optimum(X, S, D, C, 0.5, GAMMA_2)
        values.append(step.objective + 0.5 * np.sum(D**2))
        W = step.weights
        step = reference.d_step_optimum(X, S, W, C, GAMMA_2)
        values.append(step.objective + 0.25 * np.sum(W**2))
        D = step.weights
    assert np.all(np.diff(values) <= 1e-8 * values[0])
    assert values[-1] < 0.99 * values[0]
    assert values[-1] >= bound * (1.0 - 1e-7)
    assert_allclose(run.objective, values, rtol=1e-2)
    assert np.linalg.norm(D.T @ W) > 0.1


def test_factors_of_the_global_optimum_attain_it(rng):
    X, S = instance(rng, n=6, d=5)
    gamma1, C = 0.5, 1.0
    bound, Z = reference.nuclear_optimum(X, S, C, gamma1, GAMMA_2)
    U, sigma, V = np.linalg.svd(Z, full_matrices=False)
    D, W = gamma1**0.25 * np.sqrt(sigma)[:, None] * U.T, gamma1**-0.25 * np.sqrt(sigma)[:, None] * V
    assert_allclose(D.T @ W, Z, atol=1e-10)
    regularisers = 0.5 * np.sum(D**2) + 0.5 * gamma1 * np.sum(W**2)
    assert_allclose(regularisers, math.sqrt(gamma1) * sigma.sum(), rtol=1e-10)
    # Neither step can improve on it.
    by_w = reference.w_step_optimum(X, S, D, C, gamma1, GAMMA_2)
    by_d = reference.d_step_optimum(X, S, W, C, GAMMA_2)
    assert_allclose(by_w.objective + 0.5 * np.sum(D**2), bound, rtol=1e-5)
    assert_allclose(by_d.objective + 0.5 * gamma1 * np.sum(W**2), bound, rtol=1e-5)
    assert sigma[0] > 0.1
