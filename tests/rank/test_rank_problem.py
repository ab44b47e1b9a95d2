"""The ranking problem of Rank-SVM and Rank-CVM against plain loops over pairs and an independent optimum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.rank import naive_rank as naive
from tests.rank import pairwise
from tests.rank import reference_rank as reference

from comargin.rank.problem import RankProblem, core_vector_certificate, rows_with_pairs


def draw(rng, n=11, n_labels=4, C=1.7):
    """A problem with rows of one label and of all but one, and its weights."""
    Y = (rng.random((n, n_labels)) < 0.45).astype(int)
    Y[(Y.sum(axis=1) % n_labels) == 0, 0] ^= 1
    Y[0], Y[-1] = np.eye(n_labels)[-1], 1 - np.eye(n_labels)[0]
    weight = rng.uniform(0.2, 3.0, n)
    return RankProblem.of(Y, weight, C), Y, weight


def gram(rng, n):
    X = rng.normal(size=(n, 3))
    return np.exp(-0.3 * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2)) + 1.0


def implied_x(problem, U):
    """x_imn = C_i max(0, 1 - U_im + U_in) of the listed pairs."""
    return [problem.cost[i] * max(0.0, 1.0 - U[i, m] + U[i, n]) for i, m, n in naive.list_pairs(problem.Y)]


# ---- rows and costs


def test_rows_with_pairs_by_hand():
    Y = np.array([[0, 0, 0], [1, 0, 1], [1, 1, 1], [0, 1, 0], [0, 0, 1], [1, 1, 0]])
    assert_array_equal(rows_with_pairs(Y, np.ones(6)), [1, 3, 4, 5])
    assert_array_equal(rows_with_pairs(Y, np.array([1.0, 0.0, 1.0, 2.0, 1e-300, 0.5])), [3, 4, 5])
    assert_array_equal(rows_with_pairs(np.array([[0], [1]]), np.ones(2)), [])
    assert_array_equal(rows_with_pairs(np.zeros((0, 3)), np.ones(0)), [])


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float64])
def test_every_form_of_the_indicator_is_the_same_problem(dtype, rng):
    problem, Y, weight = draw(rng)
    other = RankProblem.of(np.asfortranarray(Y.astype(dtype)), weight, 1.7)
    assert_array_equal(rows_with_pairs(Y.astype(dtype), weight), np.arange(len(Y)))
    assert_array_equal(other.Y, Y)
    assert other.Y.dtype == np.uint8
    assert other.Y.flags.c_contiguous
    assert_array_equal(other.cost, problem.cost)


def test_costs_and_number_of_pairs_by_hand():
    Y = np.array([[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 1]])
    problem = RankProblem.of(Y, np.array([1.0, 2.0, 0.5]), 6.0)
    assert_allclose(problem.cost, [2.0, 3.0, 1.0], rtol=1e-15)
    assert problem.n_pairs == 3 + 4 + 3
    assert isinstance(problem.n_pairs, int)


def test_number_of_pairs_equals_the_list(rng):
    problem, Y, _ = draw(rng, n=30, n_labels=6)
    assert problem.n_pairs == len(naive.list_pairs(Y)) == len(reference.pairs(Y))


def test_number_of_pairs_does_not_overflow_small_integers():
    Y = np.zeros((3, 600), dtype=np.uint8)
    Y[:, :300] = 1
    problem = RankProblem.of(Y, np.ones(3), 1.0)
    assert problem.n_pairs == 3 * 300 * 300
    assert_allclose(problem.cost, 1.0 / 90000.0, rtol=1e-15)


# ---- sums over pairs


def test_shortfalls_equal_plain_loops(rng):
    problem, Y, _ = draw(rng)
    U = rng.normal(size=Y.shape)
    expected = np.zeros((*Y.shape, 4))
    for i, m, n in naive.list_pairs(Y):
        expected[i, m, n] = max(0.0, 1.0 - U[i, m] + U[i, n])
    assert_allclose(pairwise.shortfalls(problem, U), expected, rtol=1e-14)
    assert 0 < np.count_nonzero(expected) < problem.n_pairs


def test_losses_equal_plain_loops(rng):
    problem, Y, weight = draw(rng)
    F = 2.0 * rng.normal(size=Y.shape)
    hinge = squared = 0.0
    for i, m, n in naive.list_pairs(Y):
        cost = 1.7 * weight[i] / (Y[i].sum() * (4 - Y[i].sum()))
        short = max(0.0, 1.0 - F[i, m] + F[i, n])
        hinge += cost * short
        squared += 0.5 * cost * short**2
    assert_allclose(pairwise.hinge(problem, F), hinge, rtol=1e-13)
    assert_allclose(pairwise.squared_hinge(problem, F), squared, rtol=1e-13)
    assert hinge > 0.1


def test_losses_at_zero_and_of_perfect_scores(rng):
    problem, Y, weight = draw(rng)
    # At F = 0 every pair of a row costs C_i: the sum is C times the weights.
    assert_allclose(pairwise.hinge(problem, np.zeros(Y.shape)), 1.7 * weight.sum(), rtol=1e-13)
    assert_allclose(pairwise.squared_hinge(problem, np.zeros(Y.shape)), 0.5 * 1.7 * weight.sum(), rtol=1e-13)
    assert pairwise.hinge(problem, Y.astype(float)) == 0.0
    assert pairwise.squared_hinge(problem, 1.5 * Y) == 0.0
    assert_array_equal(pairwise.coefficients(problem, 1.0 * Y), np.zeros(Y.shape))
    assert pairwise.lowest_gradient(problem, 1.5 * Y, 1.5 * Y) == 1.5


def test_coefficients_equal_plain_loops(rng):
    problem, Y, _ = draw(rng)
    U = rng.normal(size=Y.shape)
    beta = pairwise.coefficients(problem, U)
    x = implied_x(problem, U)
    assert_allclose(beta, naive.coefficients(Y, x), rtol=1e-12, atol=1e-14)
    # Every pair adds to a relevant label and takes from an irrelevant one.
    assert_allclose(beta.sum(axis=1), 0.0, atol=1e-13)
    assert_allclose(np.sum(beta * Y), sum(x), rtol=1e-13)
    assert_allclose(pairwise.hinge(problem, U), sum(x), rtol=1e-13)
    assert beta[Y == 1].min() >= 0.0
    assert beta[Y == 0].max() <= 0.0


def test_coefficients_are_the_gradient_of_the_squared_hinge(rng):
    problem, Y, _ = draw(rng, n=6)
    U, step = rng.normal(size=Y.shape), 1e-6
    beta = pairwise.coefficients(problem, U)
    for i in range(6):
        for k in range(4):
            E = np.zeros(Y.shape)
            E[i, k] = step
            slope = (pairwise.squared_hinge(problem, U + E) - pairwise.squared_hinge(problem, U - E)) / (2.0 * step)
            assert_allclose(-slope, beta[i, k], rtol=1e-6, atol=1e-7)


def test_lowest_gradient_equals_the_explicit_product(rng):
    problem, Y, _ = draw(rng)
    K, U = gram(rng, len(Y)), rng.normal(size=Y.shape)
    F = K @ pairwise.coefficients(problem, U)
    gradient = reference.theta(K, Y, problem.cost) @ implied_x(problem, U)
    assert_allclose(pairwise.lowest_gradient(problem, F, U), gradient.min(), rtol=1e-12, atol=1e-13)
    # F need not come from U.
    other = rng.normal(size=Y.shape)
    expected = min(other[i, m] - other[i, n] + max(0.0, 1.0 - U[i, m] + U[i, n]) for i, m, n in naive.list_pairs(Y))
    assert_allclose(pairwise.lowest_gradient(problem, other, U), expected, rtol=1e-13)


def test_lowest_gradient_looks_at_pairs_without_weight(rng):
    problem = RankProblem.of(np.array([[1, 0, 0]]), np.ones(1), 1.0)
    U, F = np.array([[5.0, 0.0, 5.5]]), np.array([[0.0, 3.0, 1.0]])
    assert_allclose(implied_x(problem, U), [0.0, 0.75])
    assert pairwise.lowest_gradient(problem, F, U) == -3.0  # of (0, 1), with x = 0; that of (0, 2) is 0.5


# ---- the certificate


def certificate(problem, K, U):
    """As a solver takes it: no list of pairs, only U, beta and F."""
    beta = pairwise.coefficients(problem, U)
    F = K @ beta
    quadratic = np.sum(beta * F) + 2.0 * pairwise.squared_hinge(problem, U)
    return core_vector_certificate(np.sum(beta * problem.Y), quadratic, pairwise.lowest_gradient(problem, F, U))


def test_certificate_equals_the_explicit_quantities(rng):
    problem, Y, _ = draw(rng)
    K, U = gram(rng, len(Y)), rng.normal(size=Y.shape)
    x = np.array(implied_x(problem, U))
    a, Theta = x / x.sum(), reference.theta(K, Y, problem.cost)
    objective, bound = certificate(problem, K, U)
    assert_allclose(objective, 0.5 * a @ Theta @ a, rtol=1e-12)
    assert_allclose(objective - bound, a @ Theta @ a - (Theta @ a).min(), rtol=1e-12)  # (62)


@pytest.mark.parametrize("C", [0.05, 1.0, 30.0])
def test_certificate_encloses_the_optimum(C, rng):
    problem, Y, _ = draw(rng, C=C)
    K = gram(rng, len(Y))
    W, beta, _ = reference.rank_cvm_optimum(K, Y, problem.cost)
    best_U = K @ beta / (2.0 * W)
    for spread in (0.0, 1e-3, 0.1, 1.0, 10.0):
        for _ in range(10):
            U = best_U + spread * rng.normal(size=Y.shape)
            objective, bound = certificate(problem, K, U)
            assert bound <= W * (1.0 + 1e-10)
            assert objective >= W * (1.0 - 1e-10)
    objective, bound = certificate(problem, K, best_U)
    assert_allclose([objective, bound], W, rtol=1e-8)  # and it is tight at u = f
    assert_allclose(pairwise.coefficients(problem, best_U) * 2.0 * W, beta, atol=1e-9 * np.abs(beta).max())


def test_squared_hinge_primal_equals_its_dual_at_the_optimum(rng):
    problem, Y, _ = draw(rng, C=2.0)
    K = gram(rng, len(Y))
    W, beta, _ = reference.rank_cvm_optimum(K, Y, problem.cost)
    scaled = beta / (2.0 * W)
    primal = 0.5 * np.sum(scaled * (K @ scaled)) + pairwise.squared_hinge(problem, K @ scaled)
    assert_allclose(primal, 1.0 / (4.0 * W), rtol=1e-9)


@pytest.mark.parametrize("C", [0.05, 1.0, 30.0])
def test_hinge_is_the_loss_of_rank_svm(C, rng):
    problem, Y, _ = draw(rng, C=C)
    K = gram(rng, len(Y))
    best = reference.rank_svm_optimum(K, Y, problem.cost)
    norms = 0.5 * np.sum(best.beta * (K @ best.beta))
    assert_allclose(norms + pairwise.hinge(problem, best.F), best.objective, rtol=1e-7)
    assert_allclose(np.sum(best.beta * Y) - norms, best.objective, rtol=1e-7)
    for _ in range(20):  # no other weights and biases are better
        beta, bias = best.beta + 0.1 * rng.normal(size=Y.shape), best.bias + 0.1 * rng.normal(size=4)
        other = 0.5 * np.sum(beta * (K @ beta)) + pairwise.hinge(problem, K @ beta + bias)
        assert other >= best.objective * (1.0 - 1e-9)
