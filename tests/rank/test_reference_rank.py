"""The references of Rank-CVM and Rank-SVM agree with each other, with plain loops and with numbers by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.rank import naive_rank as naive
from tests.rank import reference_rank as reference

from comargin.decisions import RankSVMCut

KERNELS = ["linear", "rbf", "poly"]


def gram(X, kernel):
    if kernel == "linear":
        return X @ X.T
    if kernel == "poly":
        return (0.5 * X @ X.T + 1.0) ** 2
    return np.exp(-0.5 * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))


def costs(Y, weight, C):
    """C_i = C weight_i / (|L_i| |N_i|); any number where there is no pair."""
    on = Y.sum(axis=1)
    return C * weight / np.maximum(on * (Y.shape[1] - on), 1)


def instance(rng, kernel, n=12, n_labels=4, C=1.0, weights=None):
    """Noisy linear labels, all but the last row with pairs: one relevant label, all but one, copies of a row that
    disagree and that agree."""
    X = rng.normal(size=(n, 3))
    Y = (X @ rng.normal(size=(3, n_labels)) + rng.normal(size=(n, n_labels)) > 0).astype(int)
    Y[(Y.sum(axis=1) % n_labels) == 0, 0] ^= 1
    Y[0], Y[1] = np.eye(n_labels)[1], 1 - np.eye(n_labels)[0]
    X[3], Y[3] = X[2], 1 - Y[2]
    X[5], Y[5] = X[4], Y[4]
    Y[-1] = 1
    weight = rng.uniform(0.2, 5.0, n) if weights is None else weights
    return gram(X, kernel), Y, costs(Y, weight, C)


def frank_wolfe_gap(Theta, a):
    return a @ Theta @ a - (Theta @ a).min()


# ---- Rank-CVM


def test_pairs_and_theta_equal_plain_loops(rng):
    K, Y, cost = instance(rng, "rbf", n_labels=5)
    P = naive.list_pairs(Y)
    assert [tuple(p) for p in reference.pairs(Y)] == P
    assert len(P) == sum(y.sum() * (5 - y.sum()) for y in Y)
    Theta = [[naive.theta_entry(K, cost, p, q) for q in P] for p in P]
    assert_allclose(reference.theta(K, Y, cost), Theta, rtol=1e-15)
    alpha = rng.random(len(P))
    beta = naive.coefficients(Y, alpha)
    assert_allclose(reference.row_coefficients(Y, alpha), beta, rtol=1e-13, atol=1e-15)
    assert np.abs(beta[:-1]).max(axis=1).min() > 1e-3
    assert_array_equal(beta[-1], 0.0)


def test_one_pair_by_hand():
    # a = 1, W = 1/2 (2 K + 1/C). Rank-SVM satisfies one pair by biases alone.
    K, Y = np.array([[3.0]]), np.array([[0, 1]])
    W, beta, a = reference.rank_cvm_optimum(K, Y, np.array([0.5]))
    assert_allclose([W, *a], [4.0, 1.0], rtol=1e-14)
    assert_allclose(beta, [[-1.0, 1.0]], rtol=1e-14)
    best = reference.rank_svm_optimum(K, Y, np.array([0.5]))
    assert abs(best.objective) < 1e-12
    assert np.abs(best.beta).max() < 1e-12
    assert best.F[0, 1] - best.F[0, 0] > 1.0 - 1e-9
    assert abs(best.F.sum()) < 1e-9


def test_two_rows_by_hand():
    # Two orthogonal rows that disagree: x_1 = x_2 by symmetry and Theta = [[2k + c, -2r], [-2r, 2k + c]] with
    # k = K_11 + 1 and r = K_12 + 1 = 1, so that x = 1 / (2k + c - 2r) and W = 1 / (2 sum x).
    k, C = 4.0, 0.5
    K, Y = np.array([[k, 1.0], [1.0, k]]), np.array([[1, 0], [0, 1]])
    x = 1.0 / (2.0 * k + 1.0 / C - 2.0)
    best = reference.rank_cvm_optimum(K, Y, np.array([C, C]))
    assert_allclose(best.W, 1.0 / (4.0 * x), rtol=1e-13)
    assert_allclose(best.a, [0.5, 0.5], rtol=1e-13)
    # Rank-SVM, K = 3 I: alpha_1 = alpha_2 = t, max 2 t - 1/2 4 * 3 t^2 over t <= C gives t = 1/6 and 1/6.
    svm = reference.rank_svm_optimum(3.0 * np.eye(2), Y, np.array([C, C]))
    assert_allclose([svm.objective, svm.dual], 1.0 / 6.0, rtol=1e-10)
    assert_allclose(svm.alpha, 1.0 / 6.0, rtol=1e-7)
    assert_allclose(svm.F, [[0.5, -0.5], [-0.5, 0.5]], atol=1e-7)
    clipped = reference.rank_svm_optimum(3.0 * np.eye(2), Y, np.array([C, 0.1]))  # t = 0.1 at the bound of one row
    assert_allclose(clipped.objective, 2 * 0.1 - 6 * 0.1**2, rtol=1e-10)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("C", "n_labels"), [(0.1, 3), (1.0, 5), (20.0, 4)])
def test_rank_cvm_is_found_by_coordinate_descent(kernel, C, n_labels, rng):
    K, Y, cost = instance(rng, kernel, n_labels=n_labels, C=C)
    best = reference.rank_cvm_optimum(K + 1.0, Y, cost)
    x = naive.coordinate_descent(K + 1.0, Y, cost, 20_000, tol=1e-10)
    a = x / x.sum()
    Theta = reference.theta(K + 1.0, Y, cost)
    assert best.W > 1e-4
    assert frank_wolfe_gap(Theta, best.a) <= 1e-10 * best.W
    assert_allclose(0.5 * a @ Theta @ a, best.W, rtol=1e-8)
    beta = naive.coefficients(Y, a)
    F, expected = (K + 1.0) @ beta, (K + 1.0) @ best.beta
    assert_allclose(F, expected, atol=1e-6 * np.abs(expected).max())
    assert np.abs(expected).max() > 1e-3


def test_order_of_rows_does_not_change_the_optimum(rng):
    K, Y, cost = instance(rng, "rbf")
    orders = [rng.permutation(len(Y)) for _ in range(200)]
    there, back = (
        naive.coordinate_descent(K + 1.0, Y, cost, 200),
        naive.coordinate_descent(K + 1.0, Y, cost, 200, orders),
    )
    assert_allclose(there, back, atol=1e-10 * there.max())
    one = naive.coordinate_descent(K + 1.0, Y, cost, 1, orders)
    assert np.abs(one - naive.coordinate_descent(K + 1.0, Y, cost, 1)).max() > 1e-3 * there.max()


@pytest.mark.parametrize("kernel", KERNELS)
def test_frank_wolfe_converges_towards_the_optimum(kernel, rng):
    K, Y, cost = instance(rng, kernel, C=0.5)
    best = reference.rank_cvm_optimum(K + 1.0, Y, cost)
    run = naive.frank_wolfe(K + 1.0, Y, cost, 1500)
    Theta, a = reference.theta(K + 1.0, Y, cost), np.array(run.a)
    assert len(run.W) == len(run.gap) == len(run.chosen) == 1501
    assert_allclose(run.W[0], Theta[run.chosen[0], run.chosen[0]] / 2.0, rtol=1e-14)
    assert run.W[0] == pytest.approx(np.diag(Theta).min() / 2.0, rel=1e-14)
    # The recursions are the quantities themselves.
    assert_allclose(a.sum(), 1.0, rtol=1e-12)
    assert a.min() >= 0.0
    assert_allclose(run.W[-1], 0.5 * a @ Theta @ a, rtol=1e-10)
    assert_allclose(run.gap[-1], frank_wolfe_gap(Theta, a), rtol=1e-6)
    assert_allclose(run.beta, naive.coefficients(Y, a), atol=1e-13)
    # It falls, and (44) holds: the gap bounds the distance.
    W, gap = np.array(run.W), np.array(run.gap)
    assert np.all(np.diff(W) <= 1e-15)
    assert np.all(W - best.W <= gap + 1e-14)
    assert best.W <= W[-1] <= 1.02 * best.W
    assert W[-1] - best.W < 0.2 * (W[150] - best.W)


def test_frank_wolfe_stops_at_the_tolerance(rng):
    K, Y, cost = instance(rng, "rbf", C=0.5)
    run = naive.frank_wolfe(K + 1.0, Y, cost, 5000, tol=0.05)
    assert run.gap[-1] <= 0.05 * run.W[-1]
    assert np.all(np.array(run.gap[:-1]) > 0.05 * np.array(run.W[:-1]))
    assert 2 < len(run.W) < 5000


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_facts_about_the_rank_cvm_optimum(kernel, C, rng):
    K, Y, cost = instance(rng, kernel, C=C, n=14)
    W, beta, a = reference.rank_cvm_optimum(K + 1.0, Y, cost)
    P = reference.pairs(Y)
    # rho = 2 W: a pair with a > 0 has f_m - f_n + xi = rho with xi = a / C_i, Eq. (35); all others at least rho.
    f = K @ beta + beta.sum(axis=0)  # b_k = sum_i beta_ki, Eq. (33)
    assert_allclose(f, (K + 1.0) @ beta, rtol=1e-10, atol=1e-14)
    difference = f[P[:, 0], P[:, 1]] - f[P[:, 0], P[:, 2]]
    assert_allclose(a, cost[P[:, 0]] * np.maximum(2.0 * W - difference, 0.0), atol=1e-10 * a.max())
    assert np.any(a > 0.0)
    # In the scale x = a / (2 W) the margin is 1.
    x, u = a / (2.0 * W), f / (2.0 * W)
    for (i, m, n), value in zip(P, x, strict=True):
        assert value == pytest.approx(cost[i] * max(0.0, 1.0 - u[i, m] + u[i, n]), abs=1e-10 * x.max())
    # Both are one problem: sum(x) = x^T Theta x = 1 / (2 W), and the primal of the squared hinge has the dual's value.
    Theta = reference.theta(K + 1.0, Y, cost)
    assert_allclose([x.sum(), x @ Theta @ x], 1.0 / (2.0 * W), rtol=1e-10)
    weights = 0.5 * np.sum((beta / (2.0 * W)) * u)
    short = np.maximum(1.0 - u[P[:, 0], P[:, 1]] + u[P[:, 0], P[:, 2]], 0.0)
    primal = weights + 0.5 * cost[P[:, 0]] @ short**2
    assert_allclose(primal, x.sum() - 0.5 * x @ Theta @ x, rtol=1e-9)
    assert np.abs(f.sum(axis=1)).max() < 1e-12 * np.abs(f).max() * len(f)


def test_a_row_twice_is_a_row_of_twice_the_weight(rng):
    K, Y, cost = instance(rng, "linear", n=9)
    twice = np.append(np.arange(9), 2)
    doubled = cost.copy()
    doubled[2] *= 2.0
    for problem, K_or_more in ((reference.rank_cvm_optimum, K + 1.0), (reference.rank_svm_optimum, K)):
        one = problem(K_or_more, Y, doubled)
        two = problem(K_or_more[np.ix_(twice, twice)], Y[twice], cost[twice])
        assert_allclose(one[0], two[0], rtol=1e-9)
    assert reference.rank_cvm_optimum(K + 1.0, Y, cost).W > 1.001 * reference.rank_cvm_optimum(K + 1.0, Y, doubled).W


def test_rows_without_pairs_change_nothing(rng):
    K, Y, cost = instance(rng, "rbf", n=10)
    Y[-2] = 0
    for problem in (reference.rank_cvm_optimum, reference.rank_svm_optimum):
        whole, part = problem(K + 1.0, Y, cost), problem(K[:8, :8] + 1.0, Y[:8], cost[:8])
        assert_allclose(whole[0], part[0], rtol=1e-10)
        assert_array_equal(whole.beta[8:], 0.0)


@pytest.mark.parametrize("problem", [reference.rank_cvm_optimum, reference.rank_svm_optimum])
def test_no_pair_at_all_is_refused(problem):
    with pytest.raises(ValueError, match="a label on and one off"):
        problem(np.eye(2), np.array([[0, 0], [1, 1]]), np.ones(2))


# ---- Rank-SVM


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize(("C", "n_labels"), [(0.1, 3), (1.0, 5), (20.0, 4)])
def test_rank_svm_is_found_by_the_augmented_lagrangian(kernel, C, n_labels, rng):
    K, Y, cost = instance(rng, kernel, n_labels=n_labels, C=C)
    best = reference.rank_svm_optimum(K, Y, cost)
    found = naive.rank_svm(K, Y, cost, penalty=3.0, tol=1e-8)
    assert best.objective > 1e-2
    assert found.imbalance <= 1e-8 * cost.max()
    assert_allclose([best.dual, found.objective, found.dual], best.objective, rtol=1e-7)
    # w is unique, b and alpha need not be.
    assert_allclose(found.F - found.bias, best.F - best.bias, atol=1e-5 * max(1.0, np.abs(best.F).max()))
    assert_allclose(K @ best.beta, best.F - best.bias, atol=1e-6 * max(1.0, np.abs(best.F).max()))
    assert abs(best.bias.sum()) + abs(found.bias.sum()) < 1e-10 * max(1.0, np.abs(best.bias).max())
    assert np.abs(best.beta).max() > 1e-3


def test_rank_svm_optimality_conditions(rng):
    K, Y, cost = instance(rng, "rbf", C=1.0)
    best = reference.rank_svm_optimum(K, Y, cost)
    slack = np.array([1.0 - best.F[i, m] + best.F[i, n] for i, m, n in reference.pairs(Y)])
    upper = cost[reference.pairs(Y)[:, 0]]
    inside = (best.alpha > 1e-6 * upper) & (best.alpha < (1.0 - 1e-6) * upper)
    assert inside.sum() > 3
    assert np.abs(slack[inside]).max() < 1e-6
    assert slack[best.alpha <= 1e-6 * upper].max() < 1e-6
    assert slack[best.alpha >= (1.0 - 1e-6) * upper].min() > -1e-6
    assert np.abs(best.beta.sum(axis=0)).max() < 1e-12
    assert np.abs(best.beta.sum(axis=1)).max() < 1e-12


def test_biases_are_worth_having(rng):
    # Without H alpha = 0 the optimum of (19) is that of biases fixed at 0: higher.
    K, Y, cost = instance(rng, "rbf")
    best = reference.rank_svm_optimum(K, Y, cost)
    P = reference.pairs(Y)
    fixed = naive.rank_svm(K, Y, cost, penalty=0.0, n_rounds=1, n_sweeps=2000)
    assert_allclose(fixed.objective, fixed.dual, rtol=1e-8)
    assert_array_equal(fixed.bias, 0.0)
    assert fixed.objective > 1.001 * best.objective
    assert len(fixed.alpha) == len(P)


def test_label_that_no_row_has(rng):
    # Its bias can fall for ever: no pair with it has weight, and the others are solved as if it were not there.
    K, Y, cost = instance(rng, "rbf", n=10)
    Y[:, 2] = 0
    Y[Y.sum(axis=1) == 0, 0] = 1
    with_it = reference.rank_svm_optimum(K, Y, cost)
    without = reference.rank_svm_optimum(K, np.delete(Y, 2, axis=1), cost)
    assert_allclose(with_it.objective, without.objective, rtol=1e-8)
    assert np.abs(with_it.beta[:, 2]).max() < 1e-6


# ---- label sets


@pytest.mark.parametrize(
    ("scores", "labels", "expected"),
    [
        ([3.0, 1.0, 0.0], [1, 0, 0], 2.0),
        ([3.0, 1.0, 0.0], [0, 0, 0], 3.75),
        ([3.0, 1.0, 0.0], [1, 1, 1], -0.75),
        ([0.0, 5.0, 1.0, 4.0], [1, 1, 0, 1], 2.5),  # one wrong in (1, 4) and below all: 3 and 5/3 wide
        ([0.0, 4.0, 1.0, 2.0], [1, 1, 0, 1], -2.0 / 3.0),  # one wrong in (1, 2) and below all: 1 and 4/3 wide
        ([2.0, 2.0], [1, 0], 3.0),  # one wrong above and below, as wide: the highest
        ([0.0, 0.0, 0.0], [1, 1, 0], -0.5),
    ],
)
def test_best_threshold_of_a_row_by_hand(scores, labels, expected):
    assert naive.row_threshold(scores, labels) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("dependent", [False, True])
def test_label_sets_equal_the_rule_of_the_package(dependent, rng):
    Y = (rng.random((40, 4)) < 0.4).astype(int)
    Y[0], Y[1] = 0, 1
    F = 1e-3 * (rng.normal(size=(40, 4)) + Y)
    if dependent:
        F -= F.mean(axis=1, keepdims=True)
    weight = rng.uniform(0.5, 2.0, 40)
    s, s_0 = naive.threshold_rule(F, Y, weight)
    rule = RankSVMCut().fit(F, Y, sample_weight=weight)
    assert_allclose(rule.coef_, s, atol=1e-9)
    assert_allclose(rule.intercept_, s_0, atol=1e-12)
    sets = naive.label_sets(F, s, s_0)
    assert_array_equal(rule.predict(F), sets)
    assert 0.0 < np.mean(sets) < 1.0
