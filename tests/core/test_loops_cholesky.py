"""Cholesky factors and triangular solves against NumPy, for every order of memory."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import LinAlgError

from comargin.core.cholesky import cholesky, solve_factored, solve_lower, solve_upper

ORDERS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "strided": lambda M: (
        np.repeat(np.repeat(M, 2, axis=0), 3, axis=1)[::2, ::3] if M.ndim == 2 else np.repeat(M, 2)[::2]
    ),
    "backwards": lambda M: np.ascontiguousarray(M[::-1])[::-1],
}


def definite(rng, m):
    half = rng.normal(size=(m, m + 3))
    return half @ half.T + 0.1 * np.eye(m)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("m", [1, 2, 7, 65])
def test_factor_is_that_of_numpy(rng, m, order):
    M = definite(rng, m)
    given = ORDERS[order](M)
    assert_array_equal(given, M)
    assert_allclose(np.tril(cholesky(given)), np.linalg.cholesky(M), rtol=1e-9, atol=1e-12)
    assert_array_equal(given, M)  # it is not overwritten


def test_only_the_lower_triangle_is_read(rng):
    M = definite(rng, 6)
    spoiled = M + np.triu(np.full((6, 6), np.nan), 1)
    assert_allclose(np.tril(cholesky(spoiled)), np.linalg.cholesky(M), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.int8])
def test_other_types(dtype):
    M = np.array([[4, 2], [2, 5]], dtype=dtype)
    assert_array_equal(np.tril(cholesky(M)), [[2.0, 0.0], [1.0, 2.0]])
    assert_array_equal(solve_lower(cholesky(M), np.array([2, 5], dtype=dtype)), [1.0, 2.0])


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(5,), (5, 1), (5, 4), (5, 90)])
def test_solves_are_those_of_numpy(rng, shape, order):
    M, right = definite(rng, 5), rng.normal(size=shape)
    given = ORDERS[order](right)
    assert_array_equal(given, right)
    L = cholesky(M)
    lower = np.tril(L)
    for solve, matrix in ((solve_lower, lower), (solve_upper, lower.T), (solve_factored, M)):
        found = solve(L, given)
        assert found.shape == shape
        assert_allclose(found, np.linalg.solve(matrix, right), rtol=1e-8, atol=1e-10)
        assert not np.shares_memory(found, given)
    assert_array_equal(given, right)


def test_what_is_above_the_factor_is_of_no_importance(rng):
    M, right = definite(rng, 5), rng.normal(size=(5, 2))
    spoiled = np.tril(cholesky(M)) + np.triu(np.full((5, 5), np.nan), 1)
    assert_allclose(solve_factored(spoiled, right), np.linalg.solve(M, right), rtol=1e-8)


def test_nothing_to_solve():
    L = cholesky(np.empty((0, 0)))
    assert L.shape == (0, 0)
    for solve in (solve_lower, solve_upper, solve_factored):
        assert solve(L, np.empty(0)).shape == (0,)
        assert solve(L, np.empty((0, 3))).shape == (0, 3)
        assert solve(np.eye(4), np.empty((4, 0))).shape == (4, 0)


@pytest.mark.parametrize("rank", [1, 3, 5])
def test_singular_matrices_get_a_small_ridge(rng, rank):
    """Rounding makes some of them slightly indefinite: the factor is that of a matrix next to it."""
    for _ in range(20):
        half = rng.normal(size=(6, rank))
        M = half @ half.T
        lower = np.tril(cholesky(M))
        assert np.isfinite(lower).all()
        assert_allclose(lower @ lower.T, M, atol=2e-8 * M.diagonal().max())


def test_slightly_indefinite_is_taken_and_indefinite_is_not():
    M = np.array([[1.0, 1.0], [1.0, 1.0 - 1e-11]])
    with pytest.raises(np.linalg.LinAlgError):
        np.linalg.cholesky(M)
    assert_allclose(np.tril(cholesky(M)), [[1.0, 0.0], [1.0, 0.0]], atol=1e-4)
    M[1, 1] = 1.0 - 1e-6
    with pytest.raises(LinAlgError, match="not positive definite: scale the features"):
        cholesky(M)


@pytest.mark.parametrize("M", [[[-1.0]], [[0.0]], [[1.0, 2.0], [2.0, 1.0]]], ids=str)
def test_no_factor_is_an_error(M):
    with pytest.raises(LinAlgError, match="not positive definite"):
        cholesky(np.array(M))


def test_threads_do_not_disturb_each_other(rng):
    Ms, rights = [definite(rng, 60) for _ in range(24)], [rng.normal(size=(60, 3)) for _ in range(24)]

    def solve(M, right):
        return solve_factored(cholesky(M), right)

    expected = [solve(M, right) for M, right in zip(Ms, rights, strict=True)]
    with ThreadPoolExecutor(4) as pool:
        for found, known in zip(pool.map(solve, Ms, rights), expected, strict=True):
            assert_array_equal(found, known)
