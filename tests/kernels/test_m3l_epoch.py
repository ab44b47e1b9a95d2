"""The M3L epoch against literal loops: the same rows in the same order give the same dual variables."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests import naive

from comargin.kernels._m3l import m3l_identity_epoch
from comargin.kernels._random import random_state_array
from comargin.kernels._rows import CSR


def _run(X, dense, S, row_upper, label_upper, n_epochs, seed):
    n, n_labels = S.shape
    A, V = np.zeros(S.shape), np.zeros((dense.shape[1], n_labels))
    rows = np.arange(n, dtype=np.int32)
    labels = np.tile(np.arange(n_labels, dtype=np.int32), (n, 1))
    n_active = np.full(n + 1, n_labels, dtype=np.int32)
    n_active[-1] = n
    state, estimate = random_state_array(seed), np.empty(n_labels)
    for _ in range(n_epochs):
        bounds = np.array([[-np.inf], [np.inf]]).repeat(n_labels, axis=1)  # no shrinking
        m3l_identity_epoch(
            X, S, (dense**2).sum(axis=1), row_upper, label_upper, A, V,
            rows, labels, n_active, bounds, state, estimate,
        )  # fmt: skip
    return A, V


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("n", "d", "n_labels"), [(12, 5, 3), (1, 2, 1), (9, 3, 7)])
def test_epochs_equal_literal_loops(storage, n, d, n_labels, rng):
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    dense[n // 2] = 0.0
    S = np.where(rng.random((n, n_labels)) < 0.4, 1, -1).astype(np.int8)
    row_upper, label_upper = 0.5 + rng.random(n), 0.5 + rng.random((2, n_labels))
    U = row_upper[:, None] * np.where(S > 0, label_upper[1], label_upper[0])
    M = sp.csr_array(dense)
    X = dense if storage == "dense" else CSR(M.data, M.indices.astype(np.int32), M.indptr.astype(np.int32))
    A, V = _run(X, dense, S, row_upper, label_upper, 4, seed=3)
    assert np.linalg.norm(A) > 1e-3
    assert_allclose(A, naive.m3l_epochs(dense, S, U, 4, random_state_array(3)), rtol=1e-9, atol=1e-12)
    assert_allclose(V, dense.T @ (S * A), rtol=1e-9, atol=1e-12)
