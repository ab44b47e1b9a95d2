"""Products of rows, in one part and in many, against NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from comargin.core import row_products as module
from comargin.core.row_products import RowProducts
from comargin.core.threads import worker_threads

SHAPES = [(17, 11, 5), (1, 4, 3), (2, 1, 1), (9, 6, 1)]


def matrix(rng, n, d):
    """Half of it zero; the first, a middle and the last row are empty where there is more than one."""
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.5)
    if n > 2:
        X[[0, n // 2, n - 1]] = 0.0
    return X


@pytest.fixture(params=["one part", "many parts"])
def pool(request, monkeypatch):
    """With the sizes of the library small products are done at once; with these all of them are divided."""
    if request.param == "many parts":
        monkeypatch.setattr(module, "_WORTH_A_THREAD", 1)
        monkeypatch.setattr(module, "_ROWS", 3)
        monkeypatch.setattr(module, "_COLUMNS", 2)
    with worker_threads(2) as threads:
        yield threads


def products_of(X, storage, pool):
    return RowProducts(sp.csr_array(X) if storage == "csr" else X, pool)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("n", "d", "n_columns"), SHAPES)
def test_forward_and_backward(n, d, n_columns, storage, pool, rng):
    X, W, Q = matrix(rng, n, d), rng.normal(size=(d, n_columns)), rng.normal(size=(n, n_columns))
    products = products_of(X, storage, pool)
    assert products.n_rows == n
    for order in "CF":
        forward = products.forward(np.asarray(W, order=order))
        assert forward.flags.c_contiguous
        assert forward.shape == (n, n_columns)
        assert_allclose(forward, X @ W, atol=1e-13)
        backward = products.backward(np.asarray(Q, order=order))
        assert backward.shape == (d, n_columns)
        assert_allclose(backward, X.T @ Q, atol=1e-13)
    assert products.zeros(n_columns).shape == (d, n_columns)
    assert not products.zeros(n_columns).any()


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("rows", [slice(0, 17), slice(3, 12), slice(8, 9), slice(16, 17), slice(5, 5)])
def test_consecutive_rows(rows, storage, pool, rng):
    X, W = matrix(rng, 17, 11), rng.normal(size=(11, 4))
    Q = rng.normal(size=(rows.stop - rows.start, 4))
    products = products_of(X, storage, pool)
    part = products.part(rows)
    assert isinstance(part, np.ndarray if storage == "dense" else sp.csr_array)
    assert_array_equal(part if storage == "dense" else part.toarray(), X[rows])
    if rows.stop > rows.start and X[rows].any():
        values, all_values = (part, products.X) if storage == "dense" else (part.data, products.X.data)
        assert np.shares_memory(values, all_values)
    forward = products.forward(W, rows)
    assert forward.flags.c_contiguous
    assert_allclose(forward, X[rows] @ W, atol=1e-13)
    V = rng.normal(size=(11, 4))
    for order in "CF":
        changed = np.array(V, order=order)
        products.add(rows, Q, changed)
        assert_allclose(changed, V + X[rows].T @ Q, atol=1e-13)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("rows", [[0, 2, 3, 16], [5], [], list(range(17))])
def test_chosen_rows(rows, storage, pool, rng):
    X, W = matrix(rng, 17, 11), rng.normal(size=(11, 4))
    rows, Q = np.array(rows, dtype=np.int64), rng.normal(size=(len(rows), 4))
    products = products_of(X, storage, pool)
    taken = products.take(rows)
    assert (taken is products) == (len(rows) == 17)
    assert taken.n_rows == len(rows)
    assert_allclose(taken.forward(W), X[rows] @ W, atol=1e-13)
    assert_allclose(taken.backward(Q), X[rows].T @ Q, atol=1e-13)
    assert_allclose(taken.forward(W, slice(0, len(rows) // 2)), X[rows[: len(rows) // 2]] @ W, atol=1e-13)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.usefixtures("threaded_blas")
def test_the_number_of_threads_changes_no_bit(storage, monkeypatch, rng):
    monkeypatch.setattr(module, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(module, "_ROWS", 7)
    monkeypatch.setattr(module, "_COLUMNS", 5)
    X, W, Q = matrix(rng, 60, 40), rng.normal(size=(40, 6)), rng.normal(size=(60, 6))
    results = []
    for n_threads in (1, 2, 5):
        with worker_threads(n_threads) as threads:
            products = products_of(X, storage, threads)
            results.append((products.forward(W), products.backward(Q)))
    for forward, backward in results[1:]:
        assert_array_equal(forward, results[0][0])
        assert_array_equal(backward, results[0][1])


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_large_products_are_divided_and_small_ones_are_not(storage, monkeypatch, rng):
    """What the fixture above stands on: the parts that threads get cover everything once."""

    class Counting:
        def __init__(self):
            self.parts = []

        def map(self, function, parts):
            self.parts.append(list(parts))
            return map(function, self.parts[-1])

    X, W, Q = matrix(rng, 10, 7), rng.normal(size=(7, 2)), rng.normal(size=(10, 2))
    counting = Counting()
    products = products_of(X, storage, counting)
    products.forward(W)
    products.backward(Q)
    assert counting.parts == []
    monkeypatch.setattr(module, "_WORTH_A_THREAD", 1)
    monkeypatch.setattr(module, "_ROWS", 4)
    monkeypatch.setattr(module, "_COLUMNS", 3)
    assert_allclose(products.forward(W), X @ W, atol=1e-13)
    assert_allclose(products.backward(Q), X.T @ Q, atol=1e-13)
    expected = [[slice(0, 4), slice(4, 8), slice(8, 10)]]
    # Sums over CSR rows would have to be added up: they are not divided.
    expected += [[slice(0, 1), slice(1, 2)]] if storage == "dense" else []
    assert counting.parts == expected


def test_zeros_have_the_order_that_suits_the_storage(rng):
    X = matrix(rng, 5, 4)
    assert products_of(X, "dense", None).zeros(3).flags.f_contiguous
    assert products_of(X, "csr", None).zeros(3).flags.c_contiguous


def test_explicit_zeros_and_unsorted_indices(pool, rng):
    X = sp.csr_array((np.array([2.0, 0.0, 1.0, 3.0]), np.array([3, 0, 1, 0]), np.array([0, 2, 2, 4])), shape=(3, 4))
    dense = np.array([[0.0, 0, 0, 2], [0, 0, 0, 0], [3, 1, 0, 0]])
    W, Q = rng.normal(size=(4, 2)), rng.normal(size=(3, 2))
    products = RowProducts(X, pool)
    assert_allclose(products.forward(W), dense @ W, atol=1e-14)
    assert_allclose(products.backward(Q), dense.T @ Q, atol=1e-14)
    assert_allclose(products.forward(W, slice(1, 3)), dense[1:] @ W, atol=1e-14)
