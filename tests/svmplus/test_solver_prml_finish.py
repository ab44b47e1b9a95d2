"""The interior-point method for labels of SVM+ problems: against cvxpy, and on features no penalty suits."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests.svmplus import reference_prml as reference

from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.validation import loop_view
from comargin.m3l.prior import identity_prior
from comargin.svmplus import _finish as finish
from comargin.svmplus import _split, step_solver
from comargin.svmplus._finish import interior_point
from comargin.svmplus.problem import PrivilegedSets, SVMPlusProblem
from comargin.svmplus.step_solver import solve_svm_plus

SCALES = [1e4, 1e6, [1e4, 1e-3, 1.0, 1e2]]


def make_problem(rng, n=40, d=4, n_labels=3, C=1.0):
    X = rng.normal(size=(n, d))
    S = np.where(X @ rng.normal(size=(d, n_labels)) + 0.7 * rng.normal(size=(n, n_labels)) > 0.2, 1, -1).astype(np.int8)
    prior = identity_prior(n_labels)[0]
    return SVMPlusProblem(X, S, np.full(n, C), np.ones((2, n_labels)), prior, 1.0, PrivilegedSets.of(S))


def solve(problem, tol=1e-6, **options):
    return solve_svm_plus(problem, loop_view(problem.X), Control(tol, 200), **options)


@pytest.mark.parametrize("scale", [1.0, 1e-5, 1e5])
def test_interior_point_equals_cvxpy(rng, scale):
    Q, c, G = 0.1 + rng.random(5), rng.random(5), rng.random((30, 5))
    G[:, 3] *= scale
    h = rng.normal(size=30)
    w, multipliers = interior_point(Q, c, G, h)
    x = cp.Variable(5)
    best = cp.Problem(cp.Minimize(0.5 * cp.sum(cp.multiply(Q, x**2)) + c @ x), [G @ x >= h]).solve(solver=cp.CLARABEL)
    assert_allclose(0.5 * Q @ w**2 + c @ w, best, rtol=1e-6)
    assert (G @ w >= h - 1e-7).all()
    assert multipliers.min() >= 0.0
    assert multipliers.max() > 1e-5
    assert_allclose(Q * w + c, G.T @ multipliers, rtol=1e-5, atol=1e-6 * scale)


@pytest.mark.compiled
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_large_features(rng, scale, sparse):
    """The optimum in other units of the features is that of cvxpy in units of 1, with the weights regularised alike."""
    problem = make_problem(rng)
    scaled = problem.X * scale
    result = solve(replace(problem, X=sp.csr_array(scaled) if sparse else scaled))
    problem = replace(problem, X=scaled)
    T = result.privileged.T
    assert result.status is Status.CONVERGED
    assert problem.violation(result.V, T).max() <= 1e-8
    assert_allclose(problem.primal(result.V, T), result.primal, rtol=1e-10)
    assert_allclose(problem.dual(result.dual_coef), result.dual, rtol=1e-7)
    weights, constraints, objective = cp.Variable((4, 3)), [], 0.0
    for label in range(3):
        U, t = reference.privileged_features(problem.S, label, None, True), cp.Variable(3)
        constraints += [cp.multiply(problem.S[:, label], (scaled / scale) @ weights[:, label]) + U @ t >= 1, U @ t >= 0]
        objective += 0.5 * cp.sum_squares(t) + cp.sum(U @ t)
    units = np.broadcast_to(scale, 4)
    objective += 0.5 * cp.sum_squares(cp.multiply(1.0 / units[:, None], weights))
    best = cp.Problem(cp.Minimize(objective), constraints).solve(solver=cp.CLARABEL)
    assert_allclose(result.primal, best, rtol=1e-4)


@pytest.mark.compiled
def test_features_far_from_zero(rng):
    problem = make_problem(rng, C=0.1)
    far = replace(problem, X=np.column_stack([problem.X + 1e4, np.ones(len(problem.X))]))
    assert solve(far).status is Status.CONVERGED


@pytest.mark.compiled
def test_pairs_without_weight(rng):
    """Rows and sets that are out of the problem have no multipliers."""
    problem = make_problem(rng)
    row_cost = rng.random(40)
    row_cost[:5] = 0.0
    problem = replace(problem, X=1e5 * problem.X, row_cost=row_cost)
    result = solve(problem)
    assert result.status is Status.CONVERGED
    assert not result.dual_coef.A[:5].any()
    assert problem.violation(result.V, result.privileged.T).max() <= 1e-7


@pytest.mark.compiled
def test_the_same_for_any_number_of_threads(rng):
    problem = make_problem(rng)
    problem = replace(problem, X=1e5 * problem.X)
    one, three = (solve(problem, n_threads=count) for count in (1, 3))
    assert np.array_equal(one.coef, three.coef)


@pytest.mark.compiled
def test_too_many_weights_are_left_to_the_multipliers(rng, monkeypatch):
    problem = make_problem(rng)
    problem = replace(problem, X=1e5 * problem.X)
    monkeypatch.setattr(finish, "_MOST_FLOPS", 1.0)
    assert solve(problem).status is not Status.CONVERGED


@pytest.mark.compiled
@pytest.mark.parametrize("failure", ["nan", "error", "worse"])
def test_a_failure_changes_nothing(rng, monkeypatch, failure):
    """The method of multipliers goes on from its best."""
    problem = make_problem(rng, C=0.1)

    def fails(Q, c, G, h):
        if failure == "error":
            raise np.linalg.LinAlgError
        value = np.nan if failure == "nan" else 1e3
        return np.full(len(c), value), np.full(len(h), value)

    monkeypatch.setattr(finish, "interior_point", fails)
    monkeypatch.setattr(step_solver, "POLICY", replace(step_solver.POLICY, finish_after=1))
    monkeypatch.setattr(_split, "POLICY", replace(_split.POLICY, most_alone=0))
    result = solve(problem, tol=1e-8)
    assert result.status is Status.CONVERGED
    assert_allclose(result.primal, reference.prbr_optimum(problem.X, problem.S, 0.1, 1.0).objective, rtol=1e-6)
