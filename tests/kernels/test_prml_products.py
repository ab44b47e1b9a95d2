"""Products and Gram matrices of SVM+ steps against NumPy, dense and CSR."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from comargin.kernels._prml import prml_average, prml_gram, prml_scores
from comargin.kernels._rows import CSR


def csr(M):
    M = sp.csr_array(M)
    return CSR(M.data, M.indices.astype(np.int32), M.indptr.astype(np.int32))


def make_rows(rng, n, d):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    X[n // 2] = 0.0
    return X


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("n", "d", "m"), [(9, 5, 3), (1, 1, 1), (6, 8, 1)])
def test_scores_and_average(storage, n, d, m, rng):
    X = make_rows(rng, n, d)
    view = X if storage == "dense" else csr(X)
    Z, signed = rng.normal(size=(d, m)), rng.normal(size=(n, m))
    signed[0] = 0.0
    out, V = np.full((n, m), np.nan), rng.normal(size=(d, m))
    expected = V + X.T @ signed
    prml_scores(view, Z, out)
    prml_average(view, signed, V)
    assert_allclose(out, X @ Z, rtol=1e-12, atol=1e-14)
    assert_allclose(V, expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_gram_grows_by_new_rows(storage, rng):
    X = make_rows(rng, 12, 7)
    view = X if storage == "dense" else csr(X)
    rows = np.array([3, 6, 0, 11, 5])  # 6 is empty
    gram = np.full((7, 7), np.nan)
    prml_gram(view, 7, rows[:2], 0, gram)
    before = gram[:2, :2].copy()
    prml_gram(view, 7, rows, 2, gram)
    assert_allclose(gram[:5, :5], X[rows] @ X[rows].T, rtol=1e-12, atol=1e-14)
    assert_array_equal(gram[:2, :2], before)
    assert np.isnan(gram[5:]).all()
    assert np.isnan(gram[:, 5:]).all()
