"""The loss is data: squared hinge and logistic loss against their definitions and an independent solver."""

from dataclasses import replace

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel
from tests.m3l import naive
from tests.m3l.priors import make_prior

from comargin.core.estimator import StrOptions
from comargin.core.gram import Gram, GramCache
from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.validation import loop_view
from comargin.m3l import M3LClassifier, _newton
from comargin.m3l._interior_point import LabelRows, interior_point_on_box
from comargin.m3l._loops_step import coordinate, gap_part, loss_conjugate, loss_value
from comargin.m3l.classifier import _LOSSES
from comargin.m3l.dcd_solver import solve_m3l_dcd
from comargin.m3l.kernel_solver import solve_m3l_kernel, solve_m3l_kernel_by_newton
from comargin.m3l.losses import HINGE, LOGISTIC, SQUARED_HINGE, Loss
from comargin.m3l.prior import split_prior
from comargin.m3l.problem import M3LKernelProblem, M3LProblem
from comargin.m3l.solver import label_blocks, solve_m3l

# A loss as a user would add it: quadratic up to u = 1/2, then linear.
HUBER_HINGE = Loss(curvature=0.5, bound=1.0)
LOSSES = {"hinge": HINGE, "squared hinge": SQUARED_HINGE, "logistic": LOGISTIC, "huber": HUBER_HINGE}
SMOOTH = {name: loss for name, loss in LOSSES.items() if loss.is_smooth}
DEFINITIONS = {
    "hinge": lambda u: np.maximum(u, 0.0),
    "squared hinge": lambda u: np.maximum(u, 0.0) ** 2,
    "logistic": lambda u: np.log(1.0 + np.exp(u)),
    "huber": lambda u: np.where(u <= 0.5, np.maximum(u, 0.0) ** 2, u - 0.25),
}
CVXPY = {
    HINGE: cp.pos,
    SQUARED_HINGE: lambda u: cp.square(cp.pos(u)),
    LOGISTIC: cp.logistic,
    # cvxpy's huber(x, m) is x^2 up to m and m (2 |x| - m) beyond.
    HUBER_HINGE: lambda u: cp.huber(cp.pos(u), 0.5),
}


def make_problem(rng, loss=SQUARED_HINGE, prior="dense", n=40, targets=False):
    X = rng.normal(size=(n, 6))
    X[0] = 0.0
    S = np.where(X @ rng.normal(size=(6, 4)) + rng.normal(size=(n, 4)) > 0, 1, -1).astype(np.int8)
    T = 0.2 + rng.random(S.shape) if targets else np.empty((0, 0))
    row_cost = 0.1 + rng.random(n)
    row_cost[1] = 0.0
    R = split_prior(make_prior(prior, 4, rng), 4)
    return M3LProblem(X, S, row_cost, 0.5 + rng.random((2, 4)), R, T, loss)


def optimum(problem):
    F = np.linalg.cholesky(problem.apply_prior(np.eye(4)) + 1e-14 * np.eye(4))
    W = cp.Variable((problem.X.shape[1], 4))  # Z = W F^T
    missing = problem.target() - cp.multiply(problem.S, problem.X @ W @ F.T)
    objective = 0.5 * cp.sum_squares(W) + 2.0 * cp.sum(cp.multiply(problem.cost(), CVXPY[problem.loss](missing)))
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("name", LOSSES)
def test_numbers_are_the_loss(name, rng):
    loss, u = LOSSES[name], rng.normal(size=50)
    expected = DEFINITIONS[name](u)
    assert_allclose(loss.value(u), expected, rtol=1e-14)
    assert_allclose(loss.slope(u), (DEFINITIONS[name](u + 1e-6) - DEFINITIONS[name](u - 1e-6)) / 2e-6, atol=1e-7)
    cost, A = 0.1 + rng.random(50), rng.random(50) * 0.1
    s = A / cost
    conjugate = {
        "hinge": 0.0,
        "squared hinge": A**2 / (4.0 * cost),
        "logistic": cost * (s * np.log(s) + (1.0 - s) * np.log(1.0 - s)),
        "huber": A**2 / (4.0 * cost),
    }[name]
    gaps = loss.gaps(A, cost, u)
    assert_allclose(gaps, cost * expected + conjugate - A * u, atol=1e-14)
    assert gaps.min() >= 0.0
    assert_allclose(loss.gaps(cost * loss.slope(u), cost, u), 0.0, atol=1e-14)  # Fenchel and Young, with equality
    for a, c, gap, ui in zip(A, cost, gaps, u, strict=True):
        assert_allclose(loss_value(ui, c, loss), c * loss.value(ui), atol=1e-14)
        assert_allclose(loss_conjugate(a, c, loss), loss.conjugate(np.array([a]), np.array([c]))[0], atol=1e-14)
        if loss.is_quadratic:
            steepness, ridge = c / max(loss.curvature, 1e-100), loss.curvature / c
            assert_allclose(gap_part(a, -ui, steepness, loss.bound * c, ridge), gap, atol=1e-14)


@pytest.mark.parametrize("name", SMOOTH)
def test_second_derivative(name, rng):
    loss, u = SMOOTH[name], rng.normal(size=50)
    assert_allclose(loss.second(u), (loss.slope(u + 1e-5) - loss.slope(u - 1e-5)) / 2e-5, atol=1e-8)


def test_logistic_loss_far_out():
    """No overflow, and the ends of the conjugate are its limits."""
    u = np.array([-800.0, 0.0, 800.0])
    assert_allclose(LOGISTIC.value(u), [0.0, np.log(2.0), 800.0])
    assert_allclose(LOGISTIC.conjugate(np.array([0.0, 2.0, 1.0]), np.array([2.0, 2.0, 0.0])), 0.0)
    for g in (-800.0, 0.0, 800.0):
        for a in (0.0, 1.0, 2.0):
            assert np.isfinite(coordinate(a, g, 2.0, 3.0, 1.0, -np.inf, np.inf, LOGISTIC)).all()
    assert loss_conjugate(0.0, 2.0, LOGISTIC) == loss_conjugate(2.0, 2.0, LOGISTIC) == 0.0


def test_logistic_steps_raise_the_dual(rng):
    """Steps stay within the bounds and never lower the dual; gap and raise are right for small steps."""
    n_small = 0
    for _ in range(200):
        cost, k, g = 10.0 ** rng.uniform(-2, 2), 10.0 ** rng.uniform(-2, 3), 5.0 * rng.normal()
        old = cost * rng.random()
        if rng.random() < 0.5:  # near the best variable for the weights
            old = cost / (1.0 + np.exp(g + 0.2 * rng.normal()))
        new, slope, gap, raised = coordinate(old, g, cost, k, 1.0, -np.inf, np.inf, LOGISTIC)

        def value(a, old=old, cost=cost, k=k, g=g):
            return g * (a - old) + 0.5 * k * (a - old) ** 2 + loss_conjugate(a, cost, LOGISTIC)

        assert 0.0 < new < cost
        assert value(new) <= value(old) + 1e-12 * abs(value(old))
        assert_allclose(slope, old / cost - 1.0 / (1.0 + np.exp(g)), atol=1e-14)
        assert gap >= 0.0
        share = old / cost
        if abs(slope) < 0.1 * min(share, 1.0 - share):
            n_small += 1
            exact = LOGISTIC.gaps(np.array([old]), np.array([cost]), np.array([-g]))[0]
            assert_allclose(gap, exact, rtol=0.2)
            assert_allclose(raised, value(old) - value(new), rtol=0.2, atol=1e-12)
    assert n_small > 20


def test_the_step_is_the_best_one(rng):
    """Without relaxation no other value has a lower -D / 2 = g a + k (a - old)^2 / 2 + c a^2 / (2 U)."""
    for loss in (HINGE, SQUARED_HINGE, HUBER_HINGE):
        for _ in range(20):
            old, cost, k, g = 0.3 * rng.random(), 0.3 + rng.random(), 0.1 + rng.random(), rng.normal()
            new, *_, raised = coordinate(old, g, cost, k, 1.0, -np.inf, np.inf, loss)
            a = np.linspace(0.0, min(loss.bound * cost, 10.0), 2001)

            def value(a, old=old, cost=cost, k=k, g=g, loss=loss):
                return g * (a - old) + 0.5 * k * (a - old) ** 2 + 0.5 * loss.curvature * (a**2 - old**2) / cost

            assert value(new) <= value(a).min() + 1e-12
            assert_allclose(raised, -value(new), atol=1e-12)


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("targets", [False, True])
@pytest.mark.parametrize("prior", ["identity", "diagonal", "dense", "sparse", "low rank"])
def test_smooth_losses_reach_the_independent_optimum(rng, name, prior, targets):
    problem = make_problem(rng, SMOOTH[name], prior, targets=targets)
    seeds = range(len(label_blocks(problem.prior)))
    expected = optimum(problem)
    for tol in (1e-3, 1e-12):
        result = solve_m3l(problem, problem.X, Control(tol, 5000), seeds=seeds)
        assert result.status is Status.CONVERGED
        assert_allclose(result.primal, expected, rtol=2 * max(tol, 1e-7 if name == "logistic" else 1e-9))
        A = result.dual_coef
        assert A.min() >= 0.0
        assert np.all(problem.upper() >= A)
        assert_allclose(result.dual, naive.dual(problem, A), rtol=1e-11)
    # Newton steps certify their own weights, whose primal is not quite that of A.
    assert_allclose(result.primal, naive.sums(problem, A).primal, rtol=1e-9)
    assert np.abs(naive.kkt_residual(problem, A)).max() < 1e-3
    if name == "squared hinge":
        assert A.max() > problem.cost().max()  # no bound of the hinge


@pytest.mark.parametrize("loss", [SQUARED_HINGE, HUBER_HINGE])
def test_quadratic_losses_in_the_papers_schemes(rng, loss):
    problem = make_problem(rng, loss)
    expected = optimum(problem)
    sparse = replace(problem, X=sp.csr_array(problem.X))
    result = solve_m3l_dcd(sparse, loop_view(sparse.X), Control(1e-8, 5000), seed=0)
    assert_allclose(result.primal, expected, rtol=1e-7)
    for scheme in ("pairs", "smo"):
        kernel, cache = as_kernel_problem(problem)
        result = solve_m3l_kernel(kernel, cache, Control(1e-8, 2000), scheme=scheme)
        assert result.status is Status.CONVERGED
        assert_allclose(result.primal, expected, rtol=1e-6)


@pytest.mark.parametrize("scheme", ["pairs", "smo"])
def test_squared_hinge_of_rows_without_a_partner(rng, scheme):
    """Rows of one feature are parallel: every step is that of one variable, which has no upper bound."""
    problem = make_problem(rng, prior="identity")
    problem = replace(problem, X=0.1 + rng.random((40, 1)))
    kernel, cache = as_kernel_problem(problem)
    result = solve_m3l_kernel(kernel, cache, Control(1e-6, 100), scheme=scheme)
    assert_allclose(result.primal, optimum(problem), rtol=1e-5)


def as_kernel_problem(problem, megabytes=10.0):
    K = problem.X @ problem.X.T
    gram = Gram(lambda rows, columns: K[rows][:, columns], np.diag(K).copy())
    fields = (problem.S, problem.row_cost, problem.label_cost, problem.prior, problem.targets, problem.loss)
    return M3LKernelProblem(gram, *fields), GramCache(gram, megabytes)


@pytest.mark.parametrize("megabytes", [10.0, 1e-6])  # all of K in memory, or none
@pytest.mark.parametrize("prior", ["identity", "diagonal", "dense", "low rank"])
def test_logistic_loss_with_a_kernel(rng, prior, megabytes):
    problem = make_problem(rng, LOGISTIC, prior, n=80)
    kernel, cache = as_kernel_problem(problem, megabytes)
    expected = optimum(problem)
    for tol in (1e-3, 1e-9):
        result = solve_m3l_kernel_by_newton(kernel, cache, Control(tol, 100), n_threads=2)
        assert result.status is Status.CONVERGED
        assert_allclose(result.primal, expected, rtol=2 * max(tol, 1e-7))
        F = problem.X @ problem.X.T @ result.coef.T
        A = problem.cost() * LOGISTIC.slope(problem.target() - problem.S * F)  # the dual variables of the certificate
        assert_allclose(result.dual, kernel.sums(A, kernel.scores(A)).dual, rtol=1e-10)
    # The scores of the weights returned have the primal objective that is certified.
    K = problem.X @ problem.X.T
    quadratic = 0.5 * np.einsum(
        "il,ij,jk,kl->", result.coef.T, K, result.coef.T, np.linalg.pinv(kernel.apply_prior(np.eye(4)), rcond=1e-9)
    )
    losses = kernel.losses(K @ result.coef.T).sum()
    assert_allclose(quadratic + 2.0 * losses, result.primal, rtol=1e-9)
    again = solve_m3l_kernel_by_newton(kernel, cache, Control(1e-8, 100), start=result.dual_coef)
    assert again.n_iter <= 1


@pytest.mark.parametrize("name", SMOOTH)
@pytest.mark.parametrize("prior", ["identity", "dense"])
def test_badly_scaled_features_are_finished(rng, name, prior):
    problem = make_problem(rng, SMOOTH[name], prior, n=200)
    problem = replace(problem, X=problem.X + 200.0)
    seeds = range(len(label_blocks(problem.prior)))
    result = solve_m3l(problem, problem.X, Control(1e-6, 300), seeds=seeds)
    assert result.status is Status.CONVERGED
    # The weights returned have the primal objective that is certified.
    assert_allclose(result.primal, certified_primal(problem, result.coef), rtol=1e-9)


@pytest.mark.parametrize("prior", ["identity", "dense"])
def test_a_bound_is_a_factor_of_the_cost_of_the_hinge(rng, prior):
    """Badly scaled, so that interior-point and Newton steps on the dual finish both."""
    problem = replace(make_problem(rng, prior=prior, n=200), loss=Loss(curvature=0.0, bound=3.0))
    problem = replace(problem, X=problem.X + 200.0)
    same = replace(problem, row_cost=3.0 * problem.row_cost, loss=HINGE)
    seeds = range(len(label_blocks(problem.prior)))
    steep, plain = (solve_m3l(one, one.X, Control(1e-8, 100), seeds=seeds) for one in (problem, same))
    assert steep.status is plain.status is Status.CONVERGED
    assert plain.n_iter < 100
    assert_allclose(steep.primal, plain.primal, rtol=2e-8)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_a_loss_is_one_tuple_and_one_name(rng, monkeypatch, kernel):
    monkeypatch.setitem(_LOSSES, "huber", HUBER_HINGE)
    constraint = StrOptions({*_LOSSES})
    monkeypatch.setitem(M3LClassifier._parameter_constraints, "loss", [constraint])
    problem = make_problem(rng, HUBER_HINGE, "identity")
    X, Y = problem.X, (problem.S > 0).astype(int)
    model = M3LClassifier(C=0.3, kernel=kernel, gamma=0.1, loss="huber", tol=1e-8, fit_intercept=False).fit(X, Y)
    K = X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.1)
    rows = np.linalg.cholesky(K + 1e-12 * np.eye(len(K)))
    plain = M3LProblem(rows, problem.S, np.full(40, 0.3), np.ones((2, 4)), problem.prior, np.empty((0, 0)), HUBER_HINGE)
    assert_allclose(model.objective_, optimum(plain), rtol=1e-6)


def test_many_features_are_preconditioned_by_their_diagonal(rng, monkeypatch):
    monkeypatch.setattr(_newton, "POLICY", replace(_newton.POLICY, factorised_features=3))
    for prior in ("identity", "dense"):
        problem = make_problem(rng, LOGISTIC, prior, n=200)
        problem = replace(problem, X=sp.csr_array(problem.X * 10.0 ** np.arange(-1, 5)))
        result = solve_m3l(
            problem, loop_view(problem.X), Control(1e-6, 300), seeds=range(len(label_blocks(problem.prior)))
        )
        assert result.status is Status.CONVERGED
        assert result.n_iter > 20  # beyond the passes


def test_interior_point_reaches_the_independent_optimum(rng):
    X, S = rng.normal(size=(30, 3)), np.where(rng.random((30, 2)) < 0.5, 1.0, -1.0)
    M = LabelRows(X, S, rng.normal(size=(2, 2)), np.arange(60))
    linear, upper = -rng.random(60), 0.1 + rng.random(60)
    dense = np.stack([M.times(M.transposed(row)) for row in np.eye(60)])
    x = cp.Variable(60)
    best = cp.Problem(cp.Minimize(0.5 * cp.quad_form(x, cp.psd_wrap(dense)) + linear @ x), [x >= 0, x <= upper])
    inside, _ = interior_point_on_box(M, linear, upper)
    assert_allclose(0.5 * inside @ dense @ inside + linear @ inside, best.solve(solver=cp.CLARABEL), rtol=1e-6)


def test_newton_steps_are_shown_one_by_one_and_may_end_early(rng):
    problem = replace(make_problem(rng, LOGISTIC, "dense", n=200), row_cost=np.full(200, 10.0))
    problem = replace(problem, X=problem.X * 10.0 ** np.arange(6) + 50.0)
    seeds = range(len(label_blocks(problem.prior)))
    whole = solve_m3l(problem, problem.X, Control(1e-9, 300), seeds=seeds)
    steps = [point.n_iter for point in whole.history]
    assert steps[2:] == list(range(21, steps[-1] + 1))
    assert len(steps) > 6
    assert np.all(np.diff([point.dual for point in whole.history]) >= 0.0)
    ended = solve_m3l(problem, problem.X, Control(1e-9, 300, callback=lambda point: point.n_iter == 23), seeds=seeds)
    assert ended.status is Status.STOPPED
    assert ended.n_iter == 23
    assert ended.dual <= whole.primal
    assert_allclose(ended.primal, certified_primal(problem, ended.coef), rtol=1e-9)


def certified_primal(problem, coef):
    R = problem.apply_prior(np.eye(4))
    return 0.5 * np.trace(coef.T @ np.linalg.solve(R, coef)) + 2.0 * problem.losses(problem.X @ coef.T).sum()


def test_an_ended_fit_with_a_kernel_goes_on_where_it_was(rng):
    problem = replace(make_problem(rng, LOGISTIC, n=80), row_cost=np.full(80, 1e3))
    kernel, cache = as_kernel_problem(problem)
    ended = solve_m3l_kernel_by_newton(kernel, cache, Control(1e-9, 4))
    more = solve_m3l_kernel_by_newton(kernel, cache, Control(1e-9, 100), start=ended.dual_coef)
    assert ended.status is Status.MAX_ITER
    assert_allclose(more.history[0][2:], ended.history[-1][2:], rtol=1e-10)
    assert more.status is Status.CONVERGED
