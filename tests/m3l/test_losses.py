"""The loss is data: squared hinge, by two numbers, against its definition and an independent solver."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests.m3l.priors import make_prior

from comargin.core.gram import Gram
from comargin.core.gram_cache import GramCache
from comargin.core.interior_point import LabelRows, interior_point_on_box
from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.validation import loop_view
from comargin.m3l._loops_step import coordinate, gap_part, loss_value
from comargin.m3l.dcd_solver import solve_m3l_dcd
from comargin.m3l.kernel_solver import solve_m3l_kernel
from comargin.m3l.losses import HINGE, SQUARED_HINGE
from comargin.m3l.prior import split_prior
from comargin.m3l.problem import M3LKernelProblem, M3LProblem
from comargin.m3l.solver import label_blocks, solve_m3l

LOSSES = {"hinge": HINGE, "squared hinge": SQUARED_HINGE}


def make_problem(rng, prior="dense", n=40, targets=False):
    X = rng.normal(size=(n, 6))
    X[0] = 0.0
    S = np.where(X @ rng.normal(size=(6, 4)) + rng.normal(size=(n, 4)) > 0, 1, -1).astype(np.int8)
    T = 0.2 + rng.random(S.shape) if targets else np.empty((0, 0))
    row_cost = 0.1 + rng.random(n)
    row_cost[1] = 0.0
    R = split_prior(make_prior(prior, 4, rng), 4)
    return M3LProblem(X, S, row_cost, 0.5 + rng.random((2, 4)), R, T, SQUARED_HINGE)


def optimum(problem):
    F = np.linalg.cholesky(problem.apply_prior(np.eye(4)) + 1e-14 * np.eye(4))
    W = cp.Variable((problem.X.shape[1], 4))  # Z = W F^T
    missing = cp.pos(problem.target() - cp.multiply(problem.S, problem.X @ W @ F.T))
    objective = 0.5 * cp.sum_squares(W) + 2.0 * cp.sum(cp.multiply(problem.cost(), cp.square(missing)))
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("name", LOSSES)
def test_numbers_are_the_loss(name, rng):
    loss, u = LOSSES[name], rng.normal(size=50)
    expected = np.maximum(u, 0.0) if name == "hinge" else np.maximum(u, 0.0) ** 2
    assert_allclose(loss.value(u), expected, rtol=1e-14)
    cost, A = 0.1 + rng.random(50), rng.random(50) * 0.1
    conjugate = 0.0 if name == "hinge" else A**2 / (4.0 * cost)
    assert_allclose(loss.gaps(A, cost, u), cost * expected + conjugate - A * u, atol=1e-14)
    for a, c, gap, ui in zip(A, cost, loss.gaps(A, cost, u), u, strict=True):
        steepness, ridge = c / max(loss.curvature, 1e-100), loss.curvature / c
        assert_allclose(gap_part(a, -ui, steepness, loss.bound * c, ridge), gap, atol=1e-14)
        assert_allclose(loss_value(ui, steepness, loss.bound * c, ridge), c * loss.value(ui), atol=1e-14)


def test_the_step_is_the_best_one(rng):
    """Without relaxation no other value has a lower -D / 2 = g a + k (a - old)^2 / 2 + c a^2 / (2 U)."""
    for loss in LOSSES.values():
        for _ in range(20):
            old, cost, k, g = 0.3 * rng.random(), 0.3 + rng.random(), 0.1 + rng.random(), rng.normal()
            new, *_, raised = coordinate(old, g, cost, k, 1.0, -np.inf, np.inf, loss)
            a = np.linspace(0.0, min(loss.bound * cost, 10.0), 2001)

            def value(a, old=old, cost=cost, k=k, g=g, loss=loss):
                return g * (a - old) + 0.5 * k * (a - old) ** 2 + 0.5 * loss.curvature * (a**2 - old**2) / cost

            assert value(new) <= value(a).min() + 1e-12
            assert_allclose(raised, -value(new), atol=1e-12)


@pytest.mark.parametrize("targets", [False, True])
@pytest.mark.parametrize("prior", ["identity", "dense", "low rank"])
def test_squared_hinge_reaches_the_independent_optimum(rng, prior, targets):
    problem = make_problem(rng, prior, targets=targets)
    seeds = range(len(label_blocks(problem.prior)))
    expected = optimum(problem)
    for tol in (1e-3, 1e-9):
        result = solve_m3l(problem, problem.X, Control(tol, 5000), seeds=seeds)
        assert result.status is Status.CONVERGED
        assert_allclose(result.primal, expected, rtol=2 * tol)
        A = result.dual_coef
        assert_allclose(result.primal, problem.primal(problem.dual_average(A)), rtol=1e-11)
        assert_allclose(result.dual, problem.dual(A), rtol=1e-11)
    assert np.abs(problem.kkt_residual(A)).max() < 1e-3
    assert A.max() > problem.cost().max()  # no bound of the hinge


def test_squared_hinge_in_the_papers_schemes(rng):
    problem = make_problem(rng, "dense")
    expected = optimum(problem)
    sparse = replace(problem, X=sp.csr_array(problem.X))
    result = solve_m3l_dcd(sparse, loop_view(sparse.X), Control(1e-8, 5000), seed=0)
    assert_allclose(result.primal, expected, rtol=1e-7)
    K = problem.X @ problem.X.T
    gram = Gram(lambda rows, columns: K[rows][:, columns], np.diag(K).copy())
    fields = (problem.S, problem.row_cost, problem.label_cost, problem.prior, problem.targets, problem.loss)
    for scheme in ("pairs", "smo"):
        kernel = M3LKernelProblem(gram, *fields)
        result = solve_m3l_kernel(kernel, GramCache(gram, 10.0), Control(1e-8, 2000), scheme=scheme)
        assert result.status is Status.CONVERGED
        assert_allclose(result.primal, expected, rtol=1e-6)


@pytest.mark.parametrize("prior", ["identity", "dense"])
def test_badly_scaled_features_are_finished(rng, prior):
    problem = make_problem(rng, prior, n=200)
    problem = replace(problem, X=problem.X + 200.0)
    seeds = range(len(label_blocks(problem.prior)))
    result = solve_m3l(problem, problem.X, Control(1e-6, 300), seeds=seeds)
    assert result.status is Status.CONVERGED


def test_interior_point_with_a_ridge(rng):
    X, S = rng.normal(size=(30, 3)), np.where(rng.random((30, 2)) < 0.5, 1.0, -1.0)
    M = LabelRows(X, S, rng.normal(size=(2, 2)), np.arange(60))
    linear, upper, ridge = -rng.random(60), 0.1 + rng.random(60), rng.random(60)
    dense = np.stack([M.times(M.transposed(row)) for row in np.eye(60)]) + np.diag(ridge)
    x = cp.Variable(60)
    best = cp.Problem(cp.Minimize(0.5 * cp.quad_form(x, cp.psd_wrap(dense)) + linear @ x), [x >= 0, x <= upper])
    inside, _ = interior_point_on_box(M, linear, upper, ridge=ridge)
    assert_allclose(0.5 * inside @ dense @ inside + linear @ inside, best.solve(solver=cp.CLARABEL), rtol=1e-6)
