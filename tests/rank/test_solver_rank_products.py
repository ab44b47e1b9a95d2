"""Products with the kernel matrix against the matrix itself, for any storage and any memory."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from comargin.core.gram import Gram
from comargin.rank import _products as module
from comargin.rank._products import GramProducts, LinearProducts

MEMORIES = ["nothing", "half in float32", "float32", "half in float64", "all"]


@pytest.fixture
def pool():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_ROWS", 4)


def rows_of(rng, n=11, d=3):
    return rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)


class Counted:
    """A Gram that counts how often each of its blocks is computed."""

    def __init__(self, K, constant=0.0):
        self.K, self.blocks = K, []
        self.gram = Gram(self.function, np.diag(K) + constant, constant)

    def function(self, rows, columns):
        self.blocks.append(rows.start)
        return self.K[rows][:, columns]


def megabytes(n, memory):
    """Room for K in float32 is 4 n^2 bytes, in float64 twice that more; blocks of 4 rows count as whole ones."""
    n = 4 * -(-n // 4)
    n_bytes = {"nothing": 0, "half in float32": 2, "float32": 4, "half in float64": 8, "all": 12}[memory]
    return n_bytes * n * n / 2**20


def linear(X, storage, constant, pool):
    products = LinearProducts(X if storage == "dense" else sp.csr_array(X), constant)
    products.open(pool)
    return products


@pytest.mark.parametrize("constant", [0.0, 1.0])
@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("n", "d", "n_labels"), [(11, 3, 4), (1, 1, 2), (4, 7, 3), (5, 2, 1)])
def test_linear_products(storage, constant, n, d, n_labels, pool, rng):
    X = rows_of(rng, n, d)
    K, V = X @ X.T + constant, rng.normal(size=(n, n_labels))
    products = linear(X, storage, constant, pool)
    assert [(rows.start, rows.stop) for rows in products.blocks] == [(b, min(b + 4, n)) for b in range(0, n, 4)]
    assert_allclose(products.times(V), K @ V, atol=1e-13)
    assert_allclose(products.roughly(V), K @ V, atol=1e-13)
    assert products.times(V).flags.c_contiguous
    assert_allclose(products.weights(V), X.T @ V, atol=1e-13)


@pytest.mark.parametrize("constant", [0.0, 1.0])
@pytest.mark.parametrize("kind", ["dense", "csr", *MEMORIES])
def test_scores_follow_the_coefficients(kind, constant, pool, rng):
    X = rows_of(rng)
    K = X @ X.T + constant
    if kind in MEMORIES:
        products = GramProducts(Counted(X @ X.T, constant).gram, megabytes(len(X), kind))
        products.open(pool)
    else:
        products = linear(X, kind, constant, pool)
    beta = rng.normal(size=(len(X), 3))
    products.start(beta)
    for _ in range(2):
        for k in rng.permutation(len(products.blocks)):
            rows = products.blocks[k]
            assert_allclose(products.scores(rows), (K @ beta)[rows], atol=1e-12)
            assert_allclose(products.gram(rows), K[rows, rows], atol=1e-13)
            assert products.scores(rows).flags.c_contiguous
            assert products.gram(rows).flags.c_contiguous
            delta = rng.normal(size=(rows.stop - rows.start, 3))
            beta[rows] += delta  # as the solver does: in place
            products.add(rows, delta)
    other = rng.normal(size=beta.shape)
    products.start(other)
    assert_allclose(products.scores(products.blocks[-1]), (K @ other)[products.blocks[-1]], atol=1e-13)
    assert_allclose(products.times(beta), K @ beta, atol=1e-12)


@pytest.mark.parametrize("memory", MEMORIES)
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30])
def test_gram_products(memory, scale, pool, rng):
    X = rows_of(rng)
    K, V = scale * (X @ X.T), rng.normal(size=(11, 4))
    products = GramProducts(Counted(K).gram, megabytes(11, memory))
    products.open(pool)
    size = np.abs(K).max() * np.abs(V).sum(axis=0).max()
    for _ in range(2):
        assert_allclose(products.times(V), K @ V, rtol=0, atol=1e-15 * size)
        assert_allclose(products.roughly(V), K @ V, rtol=0, atol=1e-6 * size)
        exact = np.abs(products.roughly(V) - K @ V).max() <= 1e-15 * size
        assert exact == (memory == "nothing")


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_kernel_values_beyond_the_range_of_float32(scale, pool, rng):
    X = rows_of(rng)
    K, V = scale * (X @ X.T), rng.normal(size=(11, 4))
    products = GramProducts(Counted(K).gram, 1.0)
    products.open(pool)
    products.times(V)
    assert_allclose(products.roughly(V), K @ V, rtol=0, atol=1e-6 * np.abs(K).max() * np.abs(V).sum(axis=0).max())


@pytest.mark.parametrize("memory", MEMORIES)
def test_what_is_kept_is_not_computed_again(memory, pool, rng):
    X = rows_of(rng, 12)
    counted, V = Counted(X @ X.T), rng.normal(size=(12, 2))
    products = GramProducts(counted.gram, megabytes(12, memory))
    products.open(pool)
    products.times(V)
    assert sorted(counted.blocks) == [0, 4, 8]
    counted.blocks.clear()
    products.times(V)
    n_exact, n_rough = (
        {"half in float64": 1, "all": 3}.get(memory, 0),
        {"nothing": 0, "half in float32": 1}.get(memory, 3),
    )
    assert sorted(counted.blocks) == [0, 4, 8][n_exact:]
    counted.blocks.clear()
    products.roughly(V)
    assert sorted(counted.blocks) == [0, 4, 8][n_rough:]


def test_kernel_of_zeros(pool):
    products = GramProducts(Counted(np.zeros((3, 3))).gram, 1.0)
    products.open(pool)
    products.times(np.ones((3, 2)))
    assert_array_equal(products.roughly(np.ones((3, 2))), 0.0)


@pytest.mark.parametrize("kind", ["dense", "csr", "gram"])
@pytest.mark.usefixtures("threaded_blas")
def test_threads_do_not_change_a_bit(kind, rng):
    X, V, results = rows_of(rng, 30, 5), rng.normal(size=(30, 3)), []
    for n_threads in (1, 2):
        with ThreadPoolExecutor(n_threads) as pool:
            if kind == "gram":
                products = GramProducts(Counted(X @ X.T).gram, 1.0)
                products.open(pool)
            else:
                products = linear(X, kind, 1.0, pool)
            results.append((products.times(V), products.roughly(V)))
    assert_array_equal(*results)
