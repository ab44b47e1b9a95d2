"""The compiled row products against their plain bodies, dense and CSR, with empty rows, one row, one label."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from comargin.core import rows as _rows
from comargin.core.compiled import compiled
from comargin.core.rows import CSR, row_axpy, row_axpy_label, row_dot, row_dot_label, row_gemv, row_ger


# Numba compiles a call to an overloaded function only from inside a kernel.
@compiled
def _gemv(X, i, V, out):
    row_gemv(X, i, V, out)


@compiled
def _ger(X, i, delta, V):
    row_ger(X, i, delta, V)


@compiled
def _dot(X, i, w):
    return row_dot(X, i, w)


@compiled
def _dot_label(X, i, V, label):
    return row_dot_label(X, i, V, label)


@compiled
def _axpy(step, X, i, out):
    row_axpy(step, X, i, out)


@compiled
def _axpy_label(step, X, i, V, label):
    row_axpy_label(step, X, i, V, label)


def _views(dense):
    S = sp.csr_array(dense)
    csr = CSR(S.data.astype(np.float64), S.indices.astype(np.int32), S.indptr.astype(np.int32))
    return {"dense": np.ascontiguousarray(dense), "csr": csr}


SHAPES = [(5, 4, 3), (1, 1, 1), (3, 7, 1), (2, 1, 6), (4, 33, 17)]


@pytest.fixture(params=SHAPES, ids=str)
def arrays(request, rng):
    n, d, n_labels = request.param
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.6)
    dense[0] = 0.0  # an empty row
    return dense, rng.normal(size=(d, n_labels))


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_products(arrays, storage, rng):
    dense, V = arrays
    X = _views(dense)[storage]
    for i in range(dense.shape[0]):
        expected = dense[i] @ V
        for gemv in (_gemv, row_gemv):
            out = np.full(V.shape[1], np.nan)
            gemv(X, i, V, out)
            assert_allclose(out, expected, rtol=1e-14, atol=1e-14)
        for dot in (_dot, row_dot):
            assert_allclose(dot(X, i, V[:, 0].copy()), expected[0], rtol=1e-14, atol=1e-14)
        for dot in (_dot_label, row_dot_label):
            for label in range(V.shape[1]):
                assert_allclose(dot(X, i, V, label), expected[label], rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_updates(arrays, storage, rng):
    dense, V = arrays
    X = _views(dense)[storage]
    delta = rng.normal(size=V.shape[1])
    for i in range(dense.shape[0]):
        for ger in (_ger, row_ger):
            W = V.copy()
            ger(X, i, delta, W)
            assert_allclose(W, V + np.outer(dense[i], delta), rtol=1e-14, atol=1e-14)
        for axpy in (_axpy, row_axpy):
            out = np.ones(dense.shape[1])
            axpy(-0.5, X, i, out)
            assert_allclose(out, 1.0 - 0.5 * dense[i], rtol=1e-14, atol=1e-14)
        for axpy in (_axpy_label, row_axpy_label):
            W = V.copy()
            axpy(2.5, X, i, W, 0)
            expected = V.copy()
            expected[:, 0] += 2.5 * dense[i]
            assert_allclose(W, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_not_finite_survives(bad):
    X = np.array([[1.0, bad], [0.0, 0.0]])
    out = np.zeros(2)
    _gemv(X, 0, np.ones((2, 2)), out)
    assert not np.isfinite(out).any()


def test_every_primitive_has_a_compiled_body():
    plain = {n for n in vars(_rows) if n.startswith("row_")}
    here = {"row_gemv", "row_ger", "row_dot", "row_dot_label", "row_axpy_label", "row_axpy"}
    assert plain == here | {"row_collect", "row_spread"}  # these two: test_m3l_dcd_pass.py
    assert all(hasattr(_rows, f"_{n}") for n in plain)
