"""Where PrML begins: balanced pairs, dictionaries, predictors of a few labels, and earlier solutions."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.svmplus import reference_prml as reference

from comargin.core.loop import Control
from comargin.svmplus.problem import PrivilegedSets, PrMLProblem
from comargin.svmplus.start import PrMLState, balanced, first_dictionary, kept_predictors
from comargin.svmplus.step_solver import solve_svm_plus


def make(rng, gamma1=0.5, intercept=True):
    """A problem, and PrBR's solution of it."""
    X = rng.normal(size=(40, 5))
    S = np.where(X[:, :4] + 0.7 * X[:, 1:] + 0.3 * rng.normal(size=(40, 4)) > 0.0, 1, -1).astype(np.int8)
    sets = PrivilegedSets.of(S, intercept=intercept)
    problem = PrMLProblem(X, S, np.ones(40), np.ones((2, 4)), gamma1, 0.8, sets)
    step = problem.step(X, np.ones(4))
    first = solve_svm_plus(step, X, Control(1e-3, 100))
    return problem, first


def broken(problem, D, W, T):
    return reference.violation(problem.X @ D.T @ W, problem.S, T)


@pytest.mark.parametrize("rank", [2, 3, 6])
@pytest.mark.parametrize("gamma1", [0.01, 1.0, 30.0])
def test_balanced_costs_least(rng, rank, gamma1):
    Z = rng.normal(size=(5, 2)) @ rng.normal(size=(2, 4))
    D, W = balanced(Z, rank, gamma1)
    assert D.shape == (rank, 5)
    assert W.shape == (rank, 4)
    assert_allclose(D.T @ W, Z, atol=1e-12)
    cost = 0.5 * np.sum(D**2) + 0.5 * gamma1 * np.sum(W**2)
    assert_allclose(cost, np.sqrt(gamma1) * np.linalg.norm(Z, "nuc"), rtol=1e-10)
    assert_array_equal(D[2:], 0.0)
    for _ in range(10):  # any other pair with this product
        mix = rng.normal(size=(rank, rank))
        other = np.linalg.solve(mix.T, D), mix @ W
        assert_allclose(other[0].T @ other[1], Z, atol=1e-6)
        assert 0.5 * np.sum(other[0] ** 2) + 0.5 * gamma1 * np.sum(other[1] ** 2) >= cost * (1.0 - 1e-9)


def test_balanced_zero():
    D, W = balanced(np.zeros((3, 2)), 2, 1.0)
    assert_array_equal(D, 0.0)
    assert_array_equal(W, 0.0)


@pytest.mark.parametrize("gamma1", [0.01, 1.0, 30.0])
@pytest.mark.parametrize("mixed", [False, True])
def test_first_dictionary_is_scaled_as_in_a_balanced_pair(rng, gamma1, mixed):
    coef = rng.normal(size=(4, 6))
    D, _ = balanced(coef.T, 4, gamma1)
    found = first_dictionary(coef, 4, gamma1, rng, mixed=mixed)
    if mixed:  # in the mean
        draws = [first_dictionary(coef, 4, gamma1, rng, mixed=True) for _ in range(3000)]
        assert_allclose(np.mean([draw.T @ draw for draw in draws], axis=0), D.T @ D, atol=0.1 * np.max(np.abs(D.T @ D)))
    else:
        assert_allclose(found.T @ found, D.T @ D, atol=5e-3 * np.max(np.abs(D.T @ D)))
    assert np.linalg.matrix_rank(first_dictionary(np.zeros((4, 6)), 4, gamma1, rng, mixed=mixed)) == 4


@pytest.mark.compiled
@pytest.mark.parametrize("rank", [1, 2, 4, 7])
@pytest.mark.parametrize("drawn", [False, True])
def test_kept_predictors_are_feasible_and_worth_it(rng, rank, drawn):
    problem, first = make(rng)
    D, W, T = kept_predictors(problem, first.coef, first.privileged, rank, rng, drawn=drawn)
    assert D.shape == (rank, 5)
    assert W.shape == (rank, 4)
    assert broken(problem, D, W, T) <= 1e-9
    nothing = problem.objective(0.0 * D, 0.0 * W, np.eye(4))
    assert problem.objective(D, W, T) < nothing
    Z = D.T @ W
    kept = np.flatnonzero(np.abs(Z).max(axis=0) > 1e-9)
    assert 0 < len(kept) <= rank
    assert_allclose(Z[:, kept], first.coef[kept].T, atol=1e-9)
    for label in set(range(4)) - set(kept):
        assert_array_equal(T[:, label], np.eye(4)[label])
    assert np.abs(D).max(axis=1).min() > 0.0  # no row that would stay empty


@pytest.mark.compiled
def test_kept_predictors_are_those_that_gain_most(rng):
    problem, first = make(rng)
    one = problem.objective(*kept_predictors(problem, first.coef, first.privileged, 1, rng, drawn=False))
    for label in range(4):
        Z, T = np.zeros((5, 4)), np.eye(4)
        Z[:, label], T[:, label] = first.coef[label], first.privileged[label]
        assert one <= problem.objective(*balanced(Z, 1, problem.gamma1), T) * (1.0 + 1e-9)
    drawn = {
        int(np.argmax(np.abs(kept_predictors(problem, first.coef, first.privileged, 1, rng, drawn=True).W)))
        for _ in range(60)
    }
    assert len(drawn) > 1


def test_no_predictor_is_kept_when_none_gains(rng):
    problem, first = make(rng, gamma1=1e8)
    assert kept_predictors(problem, first.coef, first.privileged, 2, rng, drawn=False) is None


@pytest.mark.compiled
def test_earlier_solution_is_used_where_it_is_feasible(rng):
    problem, first = make(rng)
    D, W, T = kept_predictors(problem, first.coef, first.privileged, 2, rng, drawn=False)
    assert PrMLState(D).point(problem) is None
    for part, known in zip(PrMLState(D, W, T.T).point(problem), (D, W, T), strict=True):
        assert_array_equal(part, known)
    assert PrMLState(D, W, 0.99 * T.T).point(problem) is None  # slacks are too small
    assert PrMLState(D, -W, T.T).point(problem) is None
    unused = PrivilegedSets.of(problem.S, np.zeros((4, 4), dtype=bool))
    masked = PrMLProblem(problem.X, problem.S, np.ones(40), np.ones((2, 4)), 0.5, 0.8, unused)
    assert PrMLState(D, W, T.T).point(masked) is None  # weights of labels that are no features any more
    assert PrMLState(D, 0.0 * W, np.eye(4)).point(masked) is not None
