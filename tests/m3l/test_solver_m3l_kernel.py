"""The kernel M3L solver: independent optimum, certificate, any cache size, threads, starts, the paper's scheme."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.m3l import naive, reference
from tests.m3l.priors import PRIORS, make_prior

from comargin.core import gram as _gram_cache
from comargin.core.gram import Gram, GramCache
from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.m3l.kernel_solver import solve_m3l_kernel
from comargin.m3l.prior import split_prior
from comargin.m3l.problem import M3LKernelProblem, M3LProblem

NO_TARGETS = np.empty((0, 0))


def gram_of(K):
    return Gram(lambda rows, columns: K[rows][:, columns], np.diag(K).copy())


def make_problem(rng, n=40, n_labels=6, prior="identity", targets=False, gamma=0.2):
    X = rng.normal(size=(n, 4))
    K = np.exp(-gamma * ((X[:, None] - X) ** 2).sum(axis=-1))
    K[0] = K[:, 0] = 0.0  # a row without features
    S = np.where(np.sin(2 * X @ rng.normal(size=(4, n_labels))) + 0.5 * rng.normal(size=(n, n_labels)) > 0, 1, -1)
    S[:, 0] = -1  # a label without positives
    row_cost = 0.1 + rng.random(n)
    row_cost[5] = 0.0
    problem = M3LKernelProblem(
        gram_of(K),
        S.astype(np.int8),
        row_cost,
        0.5 + rng.random((2, n_labels)),
        split_prior(make_prior(prior, n_labels, rng), n_labels),
        0.2 + rng.random(S.shape) if targets else NO_TARGETS,
    )
    return K, problem


def solve(problem, tol=1e-9, max_iter=5000, megabytes=10.0, **options):
    return solve_m3l_kernel(problem, GramCache(problem.X, megabytes), Control(tol, max_iter), **options)


def features_of(K):
    """X with X X^T = K."""
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0))


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("targets", [False, True])
@pytest.mark.parametrize("scheme", ["pairs", "smo"])
def test_matches_cvxpy(rng, prior, targets, scheme):
    K, problem = make_problem(rng, prior=prior, targets=targets)
    X = features_of(K)
    R = problem.apply_prior(np.eye(6))
    optimum, Z = reference.m3l_optimum(X, problem.S, problem.upper(), R, problem.targets if targets else 1.0)
    result = solve(problem, scheme=scheme)
    assert result.status is Status.CONVERGED
    assert np.abs(result.coef).max() > 1e-3
    assert_allclose(result.primal, optimum, rtol=1e-7)
    assert_allclose(K @ result.coef.T, X @ Z, rtol=1e-3, atol=2e-4)


def test_problem_is_the_linear_one_on_its_features(rng):
    K, problem = make_problem(rng, prior="dense", targets=True)
    X = features_of(K)
    rest = (problem.S, problem.row_cost, problem.label_cost, problem.prior, problem.targets)
    linear = M3LProblem(X, *rest)
    A = rng.random(problem.S.shape) * problem.upper()
    assert_allclose(problem.scores(A), X @ linear.weights(A), atol=1e-12)
    sums, linear_sums = problem.sums(A, problem.scores(A)), naive.sums(linear, A)
    assert_allclose(sums.primal, naive.primal(linear, naive.dual_average(linear, A)))
    assert_allclose(sums, linear_sums)
    assert_allclose(naive.kkt_residual(problem, A, problem.scores(A)), naive.kkt_residual(linear, A), atol=1e-12)
    assert sums.primal > sums.dual


@pytest.mark.compiled
@pytest.mark.parametrize("tol", [1e-2, 1e-5, 1e-10])
@pytest.mark.parametrize("prior", PRIORS)
def test_certificate(rng, tol, prior):
    K, problem = make_problem(rng, n=150, prior=prior)
    result = solve(problem, tol=tol)
    A = result.dual_coef
    assert np.all((A >= 0) & (A <= problem.upper()))
    assert_allclose(result.coef.T, problem.coefficients(A), rtol=1e-12)
    sums = problem.sums(A, problem.scores(A))
    assert_allclose(result.primal, sums.primal, rtol=1e-11)
    assert_allclose(result.dual, sums.dual, rtol=1e-11)
    assert -1e-12 * result.primal <= result.gap <= tol * result.primal
    duals = [c.dual for c in result.history]
    assert all(b >= a - 1e-12 * abs(a) for a, b in itertools.pairwise(duals))
    if tol <= 1e-10:
        can_move = (np.diag(problem.apply_prior(np.eye(6))) > 0) & (np.diag(K) * problem.row_cost > 0)[:, None]
        assert np.abs(naive.kkt_residual(problem, A, problem.scores(A))[can_move]).max() < 1e-4


@pytest.mark.compiled
@pytest.mark.parametrize("n_rows", [16, 60, 149, 150, 450])  # 450: room for double precision too
@pytest.mark.parametrize("prior", ["identity", "dense", "components"])
@pytest.mark.parametrize("scheme", ["pairs", "smo"])
def test_any_number_of_rows_in_memory_reaches_the_optimum(rng, n_rows, prior, scheme, monkeypatch):
    monkeypatch.setattr(_gram_cache, "FEWEST_ROWS", 2)
    _, problem = make_problem(rng, n=150, prior=prior)
    expected = solve(problem, tol=1e-7)
    result = solve(problem, tol=1e-6, megabytes=n_rows * 150 * 4 / 2**20 * 1.001, scheme=scheme, max_iter=100_000)
    assert result.status is Status.CONVERGED
    assert_allclose(result.primal, expected.primal, rtol=1e-6)


@pytest.mark.compiled
@pytest.mark.parametrize("megabytes", [0.04, 10.0])
@pytest.mark.parametrize("prior", ["identity", "components"])
@pytest.mark.usefixtures("threaded_blas")
def test_same_bits_for_any_number_of_threads(rng, megabytes, prior):
    _, problem = make_problem(rng, n=150, n_labels=9, prior=prior)
    one, two, four = (solve(problem, tol=1e-4, megabytes=megabytes, n_threads=t) for t in (1, 2, 4))
    assert_array_equal(one.dual_coef, two.dual_coef)
    assert_array_equal(one.dual_coef, four.dual_coef)


def test_start_at_the_optimum_has_nothing_to_do_and_any_start_ends_there(rng):
    _, problem = make_problem(rng, n=100, prior="dense")
    best = solve(problem, tol=1e-8)
    again = solve(problem, tol=1e-6, start=best.dual_coef)
    assert again.n_iter == 0
    assert_array_equal(again.dual_coef, best.dual_coef)
    wild = 10.0 * rng.normal(size=problem.S.shape)  # clipped into the box
    assert_allclose(solve(problem, tol=1e-8, start=wild).primal, best.primal, rtol=1e-7)


def test_parallel_and_contradicting_rows(rng):
    X = rng.normal(size=(10, 2))
    X = np.vstack([X, X, 2 * X])
    S = np.where(rng.random((30, 3)) < 0.5, 1, -1).astype(np.int8)
    S[10:20] = -S[:10]
    K = X @ X.T
    prior = split_prior(np.eye(3), 3)
    problem = M3LKernelProblem(gram_of(K), S, np.ones(30), np.ones((2, 3)), prior, NO_TARGETS)
    optimum, _ = reference.m3l_optimum(X, S, np.ones(S.shape))
    assert_allclose(solve(problem, tol=1e-8, max_iter=20_000).primal, optimum, rtol=1e-6)


class TestGramCache:
    @pytest.fixture(autouse=True)
    def few_rows(self, monkeypatch):
        monkeypatch.setattr(_gram_cache, "FEWEST_ROWS", 2)

    def test_least_recently_used_rows_make_room(self, rng):
        K = rng.normal(size=(20, 20))
        cache = GramCache(gram_of(K @ K.T), 4 * 20 * 4.1 / 2**20)
        assert cache.capacity == 4
        with ThreadPoolExecutor(2) as pool:
            cache.fetch([np.array([3, 5]), np.array([7, 3]), np.array([9])], pool)
            assert self.rows_of(cache, K) == {3, 5, 7, 9}
            cache.rows.stamp[[5, 9]] = 10
            cache.clock = 10
            cache.fetch([np.array([1, 2, 4])], pool)  # half of the memory at most
            assert self.rows_of(cache, K) == {1, 2, 5, 9}

    def test_the_first_wishes_come_first(self, rng):
        K = rng.normal(size=(20, 20))
        cache = GramCache(gram_of(K @ K.T), 3 * 20 * 4.1 / 2**20)
        with ThreadPoolExecutor(1) as pool:
            cache.fetch([np.array([1, 2]), np.array([3, 4]), np.array([5, 6])], pool)
        assert self.rows_of(cache, K) == {1, 3, 5}

    def test_at_least_two_and_at_most_all_rows(self, rng):
        gram = gram_of(np.eye(50))
        assert GramCache(gram, 1e-9).capacity == 2
        assert not GramCache(gram, 1e-9).holds_all
        assert GramCache(gram, 1e4).capacity == 50
        assert GramCache(gram, 1e4).holds_all

    def test_all_rows_are_exact_when_they_fit(self, rng):
        K = rng.normal(size=(20, 20))
        K = K @ K.T
        for megabytes, exact in ((12 * 400.1 / 2**20, True), (11 * 400.1 / 2**20, False)):
            cache = GramCache(gram_of(K), megabytes)
            assert cache.holds_all
            assert cache.exact is None
            with ThreadPoolExecutor(2) as pool:
                cache.fetch([np.arange(20)], pool)
            assert (cache.exact is not None) == exact
            if exact:
                assert_array_equal(cache.exact, K)

    @staticmethod
    def rows_of(cache, K):
        held = np.flatnonzero(cache.rows.slot >= 0)
        assert_array_equal(cache.rows.cached, cache.rows.slot >= 0)
        assert_allclose(cache.scale * cache.rows.rows[cache.rows.slot[held]], (K @ K.T)[held], rtol=1e-5, atol=1e-5)
        return set(held.tolist())


def test_bounds_scaled_with_C(rng):
    _, problem = make_problem(rng, n=60)
    small, large = (solve(replace(problem, row_cost=C * problem.row_cost)) for C in (0.1, 1.0))
    assert small.primal < large.primal
    assert small.dual_coef.max() < large.dual_coef.max()
