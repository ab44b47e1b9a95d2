"""Rank-CVM by passes and Newton steps: independent optimum, certificate, starts, kernel storage, threads, endings."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.rank import naive_rank as naive
from tests.rank import reference_rank as reference

from comargin.core.gram import Gram
from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.threads import worker_threads
from comargin.rank import _products as products_module
from comargin.rank._products import GramProducts, LinearProducts
from comargin.rank.cvm_solver import POLICY, CoreVectors, solve_rank_cvm
from comargin.rank.problem import RankProblem

SMALL_BLOCKS = 5


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(products_module, "BLOCK_ROWS", SMALL_BLOCKS)


def prior_for_loops(X, kernel):
    if kernel == "linear":
        return X @ X.T
    if kernel == "poly":
        return (0.5 * X @ X.T + 1.0) ** 2
    return np.exp(-0.5 * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))


class Instance:
    """Noisy labels; copies of a row that agree and that disagree; K includes the 1 of the biases."""

    def __init__(self, kernel, C=1.0, n=12, n_labels=4, seed=0, copies=True, scale=1.0):
        rng = np.random.default_rng(seed)
        self.kernel, self.X = kernel, rng.normal(size=(n, 3))
        Y = self.X @ rng.normal(size=(3, n_labels)) + rng.normal(size=(n, n_labels)) > 0
        Y[(Y.sum(axis=1) % n_labels) == 0, 0] ^= True
        if copies and n > 5:
            self.X[3], Y[3] = self.X[2], ~Y[2]
            self.X[5], Y[5] = self.X[4], Y[4]
        self.X *= scale
        self.K = prior_for_loops(self.X, kernel) + 1.0
        self.problem = RankProblem.of(Y, rng.uniform(0.2, 5.0, n), C)

    def products(self, storage="gram", megabytes=1.0):
        if storage == "gram":
            return GramProducts(Gram(lambda i, j: self.K[i][:, j] - 1.0, np.diag(self.K).copy(), 1.0), megabytes)
        return LinearProducts(self.X if storage == "dense" else sp.csr_array(self.X), 1.0)

    def best(self):
        return reference.rank_cvm_optimum(self.K, self.problem.Y, self.problem.cost)

    def x(self, U):
        return np.array([self.problem.cost[i] * max(0.0, 1.0 - U[i, m] + U[i, n]) for i, m, n in self.pairs()])

    def pairs(self):
        return naive.list_pairs(self.problem.Y)


def solve(instance, tol=1e-10, max_iter=300, storage=None, megabytes=1.0, n_threads=1, callback=None, **options):
    if storage is None:
        storage = "dense" if instance.kernel == "linear" else "gram"
    products = instance.products(storage, megabytes)
    with worker_threads(n_threads) as pool:
        products.open(pool)
        return solve_rank_cvm(instance.problem, products, Control(tol, max_iter, callback=callback), **options)


def with_passes(passes):
    """The policy with a number of passes before Newton steps; as it is for None."""
    return POLICY if passes is None else replace(POLICY, passes=passes)


def check(instance, result, best=None, tol=1e-10):
    """Converged to the optimum, and what the result says of itself is so."""
    best = best or instance.best()
    assert result.status is Status.CONVERGED
    assert result.gap <= tol * result.primal
    assert result.tol_abs == tol * result.primal
    assert_allclose(result.primal, best.W, rtol=1e-8)
    scores = instance.K @ best.beta
    assert_allclose(instance.K @ result.coef.T, scores, rtol=0, atol=1e-6 * np.abs(scores).max())
    check_result(instance, result)


def check_result(instance, result):
    x = instance.x(result.dual_coef)
    a = x / x.sum()
    assert_allclose(result.coef.T, naive.coefficients(instance.problem.Y, a), atol=1e-10 * a.max())
    assert np.abs(result.coef.sum(axis=0)).max() <= 1e-10 * a.max()
    assert_allclose(sum(result.coef.T[instance.problem.Y == 1]), 1.0, rtol=1e-10)
    Theta = reference.theta(instance.K, instance.problem.Y, instance.problem.cost)
    assert_allclose(result.primal, 0.5 * a @ Theta @ a, rtol=1e-9)
    assert_allclose(result.dual, (Theta @ a).min() - 0.5 * a @ Theta @ a, rtol=1e-8, atol=1e-8 * result.primal)


@cache
def shared(kernel, C=1.0):
    instance = Instance(kernel, C)
    return instance, instance.best()


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("C", [1e-3, 0.1, 1.0, 10.0, 100.0])
def test_optimum(kernel, C):
    instance, best = shared(kernel, C)
    check(instance, solve(instance), best)


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("C", [1e3, 1e4])
def test_optimum_of_large_costs(kernel, C):
    instance = Instance(kernel, C, copies=False)
    check(instance, solve(instance))


@pytest.mark.parametrize(
    ("kernel", "passes"), [("linear", None), ("rbf", None), ("rbf", 1), ("linear", 0), ("poly", 20)]
)
def test_any_number_of_passes(kernel, passes, monkeypatch):
    monkeypatch.setattr("comargin.rank.cvm_solver.POLICY", with_passes(passes))
    instance, best = shared(kernel, 0.1)
    check(instance, solve(instance, newton=passes is not None, max_iter=2000), best)


def test_the_policy_says_how_many_passes_there_are(monkeypatch):
    counted = []
    one_pass = CoreVectors.one_pass
    monkeypatch.setattr(CoreVectors, "one_pass", lambda self: counted.append(1) or one_pass(self))
    for passes in (2, 7):
        counted.clear()
        monkeypatch.setattr("comargin.rank.cvm_solver.POLICY", with_passes(passes))
        solve(shared("rbf", 0.1)[0])
        assert len(counted) == passes


def test_passes_alone_take_no_newton_steps(monkeypatch):
    def newton(self):
        raise AssertionError("a Newton step")

    monkeypatch.setattr(CoreVectors, "newton", newton)
    instance, best = shared("rbf", 0.1)
    check(instance, solve(instance, newton=False, max_iter=2000), best)
    with pytest.raises(AssertionError, match="a Newton step"):
        solve(instance)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_linear_storages(storage):
    instance, best = shared("linear")
    check(instance, solve(instance, storage=storage), best)


@pytest.mark.parametrize("blocks", [0, 1, 2, 5, 9])
def test_any_memory_for_the_kernel(blocks):
    """Room for so many blocks of 5 rows in float32; 12 rows are three, and twice that in float64."""
    instance, best = shared("rbf", 10.0)
    megabytes = blocks * 4 * 12 * SMALL_BLOCKS / 2**20
    check(instance, solve(instance, megabytes=megabytes), best)


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("passes", [5, None, 0])
def test_certificate_holds_at_every_checkpoint(kernel, passes, monkeypatch):
    monkeypatch.setattr("comargin.rank.cvm_solver.POLICY", with_passes(passes))
    instance, best = shared(kernel, 10.0)
    points = []
    result = solve(instance, newton=passes is not None, max_iter=60, callback=points.append)
    assert tuple(points) == result.history
    assert len(points) >= 3
    assert all(point.dual <= best.W * (1 + 1e-10) for point in points)
    assert all(point.primal >= best.W * (1 - 1e-10) for point in points)


@pytest.mark.parametrize("other", [0.01, 100.0])
def test_start_of_another_cost(other):
    instance, best = shared("rbf", 1.0)
    start = solve(shared("rbf", other)[0]).dual_coef
    before = start.copy()
    check(instance, solve(instance, start=start), best)
    assert_array_equal(start, before)


def test_start_at_the_optimum_ends_at_once():
    instance, best = shared("rbf", 1.0)
    result = solve(instance, start=solve(instance).dual_coef)
    assert result.n_iter == 0
    check(instance, result, best)


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("n_labels", [2, 5])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_few_rows(n, n_labels, kernel):
    instance = Instance(kernel, 2.0, n=n, n_labels=n_labels)
    check(instance, solve(instance))


def test_one_pair_by_hand():
    instance = Instance("rbf", n=1, n_labels=2)
    result = solve(instance)
    # W = 1/2 Theta = K + 1 / (2 C_i), and K + 1 = 2.
    assert_allclose(result.primal, 2.0 + 0.5 / instance.problem.cost[0], rtol=1e-14)
    assert_allclose(np.sort(result.coef.ravel()), [-1.0, 1.0], rtol=1e-14)


def test_a_row_twice_is_a_row_of_twice_the_weight():
    instance = Instance("linear", copies=False)
    doubled = Instance("linear", copies=False)
    again = np.append(np.arange(12), 4)
    instance.X, instance.K = instance.X[again], instance.K[np.ix_(again, again)]
    instance.problem = RankProblem(instance.problem.Y[again], instance.problem.cost[again])
    doubled.problem.cost[4] *= 2.0
    assert_allclose(solve(instance).primal, solve(doubled).primal, rtol=1e-9)


def test_all_rows_the_same():
    instance = Instance("linear", 1.0)
    instance.X[:] = instance.X[0]
    instance.K[:] = instance.K[0, 0]
    check(instance, solve(instance))


def test_rows_of_zeros():
    """K = 1: only biases, the same for every row."""
    instance = Instance("linear", scale=0.0)
    result = solve(instance)
    check(instance, result)
    scores = instance.K @ result.coef.T
    assert_allclose(scores, scores[:1] + np.zeros_like(scores), atol=1e-14)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e2])
@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_scales_of_features(scale, kernel):
    """Of X: with C to match, K C is the same, up to the 1 of the biases."""
    if kernel == "poly" and scale > 1.0:
        scale = 3.0
    instance = Instance(kernel, scale=scale, C=1.0 / max(scale, 1.0) ** (2 if kernel == "linear" else 4))
    check(instance, solve(instance))


@pytest.mark.parametrize("storage", ["dense", "csr", "gram"])
@pytest.mark.usefixtures("threaded_blas")
def test_threads_do_not_change_a_bit(storage):
    instance = shared("linear")[0]
    one, two = (solve(instance, tol=1e-6, storage=storage, n_threads=n) for n in (1, 2))
    assert_array_equal(one.coef, two.coef)
    assert_array_equal(one.dual_coef, two.dual_coef)
    assert [point[2:] for point in one.history] == [point[2:] for point in two.history]


def test_seed_fixes_the_result():
    instance = shared("rbf")[0]
    one, same, other = (solve(instance, tol=1e-3, max_iter=3, seed=seed) for seed in (1, 1, 2))
    assert_array_equal(one.coef, same.coef)
    assert np.abs(one.coef - other.coef).max() > 0.0


def test_callback_stops():
    instance = shared("rbf")[0]
    result = solve(instance, callback=lambda point: point.n_iter >= 2)
    assert (result.status, result.n_iter) == (Status.STOPPED, 2)
    check_result(instance, result)


def test_iteration_limit():
    instance = shared("rbf")[0]
    result = solve(instance, tol=1e-13, max_iter=3)
    assert (result.status, result.n_iter) == (Status.MAX_ITER, 3)
    assert result.gap > result.tol_abs
    check_result(instance, result)


@pytest.mark.parametrize("newton", [True, False])
def test_no_tolerance_ends_at_rounding(newton):
    instance, best = shared("rbf", 1.0)
    result = solve(instance, tol=0.0, newton=newton, max_iter=5000)
    assert result.status in (Status.CONVERGED, Status.STALLED)
    assert result.gap <= 1e-11 * result.primal
    assert_allclose(result.primal, best.W, rtol=1e-11)


def test_tolerance_is_met_not_exceeded():
    instance, best = shared("rbf", 10.0)
    loose, tight = (solve(instance, tol=tol) for tol in (1e-2, 1e-8))
    assert 1e-8 * loose.primal < loose.gap <= 1e-2 * loose.primal
    assert tight.n_iter > loose.n_iter
    assert_allclose(loose.primal, best.W, rtol=1e-2)


# ---- ends and edges


@pytest.mark.parametrize("options", [{"max_iter": 0}, {"callback": lambda point: True}])
def test_stop_before_the_first_pass(options):
    result = solve(shared("rbf")[0], **options)
    assert np.isfinite(result.coef).all()


@pytest.mark.parametrize(
    ("C", "tol", "seed"), [(177.0, 1e-10, 13), (20.0, 1e-10, 10), (200.0, 1e-3, 331), (2000.0, 1e-3, 524)]
)
def test_singular_kernel_matrix(C, tol, seed):
    instance = Instance("linear", C, n=8, n_labels=2, seed=seed)
    assert solve(instance, tol=tol, storage="gram").status is Status.CONVERGED


@pytest.mark.parametrize("seed", [1, 2])
def test_singular_kernel_matrix_to_a_small_gap(seed):
    instance = Instance("linear", 177.0, n=8, n_labels=2, seed=seed)
    check(instance, solve(instance, storage="gram"))
