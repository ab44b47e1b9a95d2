"""Products and Gram matrices of SVM+ steps against NumPy, dense and CSR."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from comargin.kernels._prml import prml_average, prml_gram, prml_scores, prml_signed_gram, prml_signs_gram
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


def test_gram_grows_by_new_rows(rng):
    X = make_rows(rng, 12, 7)[[3, 6, 0, 11, 5]]  # 6 is empty
    gram = np.full((7, 7), np.nan)
    prml_gram(csr(X[:2]), csr(X[:2].T), 0, 2, gram)
    before = gram[:2, :2].copy()
    prml_gram(csr(X), csr(X.T), 2, 5, gram)
    assert_allclose(gram[:5, :5], X @ X.T, rtol=1e-12, atol=1e-14)
    assert_array_equal(gram[:2, :2], before)
    assert np.isnan(gram[5:]).all()
    assert np.isnan(gram[:, 5:]).all()


@pytest.mark.parametrize(("n_sets", "n_labels"), [(9, 5), (1, 1), (4, 12), (30, 2)])
def test_signs_gram(n_sets, n_labels, rng):
    S = np.where(rng.random((n_sets, n_labels)) < 0.3, 1, -1)
    S[0] = -1  # a set without labels
    weight = rng.random(n_sets)
    weight[n_sets // 2 :: 3] = 0.0
    on = sp.csr_array((S > 0).astype(float))
    gram, sums = np.full((n_labels, n_labels), np.nan), np.full(n_labels, np.nan)
    prml_signs_gram(on.indptr, on.indices, weight, gram, sums)
    assert_allclose(gram, (S.T * weight) @ S, rtol=1e-12, atol=1e-13)
    assert_allclose(sums, weight @ S, rtol=1e-12, atol=1e-13)


def test_signs_gram_of_no_weight(rng):
    on = sp.csr_array(np.eye(3))
    gram, sums = np.full((3, 3), np.nan), np.full(3, np.nan)
    prml_signs_gram(on.indptr, on.indices, np.zeros(3), gram, sums)
    assert_array_equal(gram, 0.0)
    assert_array_equal(sums, 0.0)


@pytest.mark.parametrize("places", [[4, 0, 2], [1], [], [3, 3]])
def test_signed_gram(places, rng):
    half = rng.normal(size=(6, 3))
    gram = np.full((8, 8), np.nan)  # only a part of it is known yet
    gram[:6, :6] = half @ half.T
    places = np.array(places, dtype=np.int64)
    signs = np.where(rng.random(len(places)) < 0.5, 1.0, -1.0)
    out = np.full((len(places), len(places)), np.nan)
    prml_signed_gram(gram, places, signs, 0.7, 0.2, out)
    rows = signs[:, None] * half[places]
    expected = 0.7 * rows @ rows.T + 0.2 * np.eye(len(places))
    assert_allclose(np.tril(out), np.tril(expected), rtol=1e-12, atol=1e-14)
