"""PrML's alternation: it never rises, its steps are certified, and what it returns is feasible."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.svmplus import naive_prml as naive
from tests.svmplus import reference_prml as reference

from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.validation import loop_view
from comargin.svmplus.prml_solver import PrMLState, solve_prml
from comargin.svmplus.problem import PrivilegedSets, PrMLProblem


def make_problem(rng, n=40, d=6, n_labels=4, C=0.3, gamma1=1.0, gamma2=1.0, sparse=False, intercept=True):
    X = rng.normal(size=(n, d))
    hidden = rng.normal(size=(d, 2)) @ rng.normal(size=(2, n_labels))
    S = np.where(X @ hidden + 0.5 * rng.normal(size=(n, n_labels)) > 0.2, 1, -1).astype(np.int8)
    sets = PrivilegedSets.of(S, intercept=intercept)
    X = sp.csr_array(X) if sparse else X
    return PrMLProblem(X, S, np.full(n, C), np.ones((2, n_labels)), gamma1, gamma2, sets)


def solve(problem, tol=1e-3, rank=3, max_iter=100, seeds=(0,), **options):
    return solve_prml(problem, loop_view(problem.X), Control(tol, max_iter), rank=rank, seeds=seeds, **options)


def broken(problem, result):
    X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
    cost = problem.row_cost[:, None] * np.ones(problem.S.shape)
    F = X @ result.dictionary.T @ result.codes
    return reference.violation(F, problem.S, result.privileged.T, cost, None, problem.privileged.intercept)


@pytest.mark.compiled
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(("C", "gamma1", "gamma2"), [(0.3, 1.0, 1.0), (0.02, 0.5, 0.2), (3.0, 2.0, 1.0)])
def test_feasible_certified_and_never_rising(rng, sparse, C, gamma1, gamma2):
    problem = make_problem(rng, C=C, gamma1=gamma1, gamma2=gamma2, sparse=sparse)
    result = solve(problem, tol=1e-4)
    D, W, T = result.dictionary, result.codes, result.privileged.T
    assert result.status is Status.CONVERGED
    assert broken(problem, result) <= 1e-9
    assert_allclose(result.primal, problem.objective(D, W, T), rtol=1e-11)
    assert_allclose(result.coef, (D.T @ W).T, rtol=1e-12)
    objectives = [point.primal for point in result.history]
    assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(objectives))
    assert 0.0 <= result.gap + 1e-9 * result.primal
    assert result.gap <= result.tol_abs
    assert result.lower_bound <= result.primal * (1 + 1e-9)
    assert result.coef.any()
    assert D.shape == (3, 6)
    assert W.shape == (3, 4)


@pytest.mark.compiled
def test_last_step_by_cvxpy(rng):
    """No (D, T) is better than the one found by more than the gap, for the W returned."""
    problem = make_problem(rng)
    result = solve(problem, tol=1e-5)
    optimum = reference.d_step_optimum(problem.X, problem.S, result.codes, 0.3, 1.0)
    constant = 0.5 * np.sum(result.codes**2)
    assert result.dual - 1e-6 * result.primal <= optimum.objective + constant <= result.primal * (1 + 1e-7)
    w_step = reference.w_step_optimum(problem.X, problem.S, result.dictionary, 0.3, 1.0, 1.0)
    assert_allclose(w_step.objective + 0.5 * np.sum(result.dictionary**2), result.primal, rtol=1e-3)


@pytest.mark.compiled
@pytest.mark.parametrize("tol", [0.03, 0.01, 1e-3])
@pytest.mark.parametrize("C", [0.05, 0.3, 3.0])
def test_converged_means_that_neither_step_can_gain_more(rng, C, tol):
    """At the point returned, by cvxpy; that the privileged weights did not move in the last steps would be no proof."""
    for gamma2 in (0.1, 1.0):
        problem = make_problem(rng, C=C, gamma2=gamma2)
        result = solve(problem, tol=tol, rank=2)
        D, W, T = result.dictionary, result.codes, result.privileged.T
        assert result.status is Status.CONVERGED
        d_step = reference.d_step_optimum(problem.X, problem.S, W, C, gamma2)
        w_step = reference.w_step_optimum(problem.X, problem.S, D, C, 1.0, gamma2)
        for step, constant in ((d_step, 0.5 * np.sum(W**2)), (w_step, 0.5 * np.sum(D**2))):
            gain = result.primal - (step.objective + constant)
            assert gain <= (tol + 1e-6) * result.primal
            # gamma2-strongly convex in T.
            assert 0.5 * gamma2 * np.sum((T - step.Wt) ** 2) <= gain + 1e-5 * result.primal


@pytest.mark.compiled
def test_no_worse_than_the_paper_by_plain_loops(rng):
    problem = make_problem(rng, n=10, d=3, n_labels=3)
    D = rng.normal(size=(2, 3))
    features = naive.privileged_features(problem.S.astype(float))
    cost = np.full(problem.S.shape, 0.3)
    plain = naive.prml(problem.X, problem.S.astype(float), D, cost, 1.0, 1.0, 3, rng, features=features, n_passes=3000)
    result = solve(problem, tol=1e-6, rank=2, start=PrMLState(D))
    assert result.primal <= plain.objective[-1] * (1 + 1e-4)
    once = solve(problem, tol=1e-6, rank=2, start=PrMLState(D), max_iter=1)
    assert once.status is Status.MAX_ITER
    assert once.n_iter == 1


@pytest.mark.compiled
def test_full_rank_is_near_the_global_optimum(rng):
    """With as many rows in D as labels the problem is as good as convex: starts agree, and the bound is close."""
    problem = make_problem(rng, C=0.1)
    one, other = (solve(problem, tol=1e-6, rank=4, seeds=(seed,)) for seed in (0, 1))
    assert_allclose(one.primal, other.primal, rtol=1e-3)
    assert one.primal - one.lower_bound <= 0.2 * one.primal


@pytest.mark.compiled
def test_more_starts_are_no_worse(rng):
    problem = make_problem(rng)
    one, three = solve(problem, seeds=(5,)), solve(problem, seeds=(5, 6, 7))
    assert three.primal <= one.primal
    with pytest.raises(ValueError, match="at least one seed"):
        solve(problem, seeds=())


@pytest.mark.compiled
def test_seeds_and_threads(rng):
    problem = make_problem(rng, sparse=True)
    one, same, threads = solve(problem), solve(problem), solve(problem, n_threads=3)
    for other in (same, threads):
        assert_array_equal(one.coef, other.coef)
        assert_array_equal(one.privileged, other.privileged)


@pytest.mark.compiled
def test_tiny_cost_collapses_honestly(rng):
    """Zero predictors are the global optimum then: the bound proves it."""
    problem = make_problem(rng, C=1e-6)
    result = solve(problem, tol=1e-6)
    assert np.abs(result.coef).max() <= 1e-3
    assert result.primal - result.lower_bound <= 1e-2 * result.primal


@pytest.mark.compiled
@pytest.mark.parametrize("rank", [1, 4, 9])
def test_any_rank(rng, rank):
    problem = make_problem(rng)
    result = solve(problem, rank=rank)
    assert result.dictionary.shape == (rank, 6)
    assert np.linalg.matrix_rank(result.coef, tol=1e-8) <= min(rank, 4)
    assert broken(problem, result) <= 1e-9


@pytest.mark.compiled
def test_literal_form(rng):
    problem = make_problem(rng, n=8, d=12, n_labels=3, intercept=False)
    result = solve(problem, rank=3, tol=1e-4)
    assert broken(problem, result) <= 1e-9
    assert not np.diag(result.privileged).any()
    S = np.array([[1, 1], [-1, -1], [1, -1], [-1, 1]], dtype=np.int8)
    sets = PrivilegedSets.of(S, intercept=False)
    impossible = PrMLProblem(np.ones((4, 1)), S, np.ones(4), np.ones((2, 2)), 1.0, 1.0, sets)
    with pytest.raises(ValueError, match="privileged_intercept=True"):
        solve(impossible, rank=1)


@pytest.mark.compiled
def test_callback_stops(rng):
    problem = make_problem(rng)
    control = Control(1e-9, 100, callback=lambda point: point.n_iter == 2)
    result = solve_prml(problem, problem.X, control, rank=3, seeds=(0, 1))
    assert result.status is Status.STOPPED
    assert result.n_iter == 2
