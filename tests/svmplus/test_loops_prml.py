"""The compiled loop of SVM+: a pass against a literal loop."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from comargin.core.random_numbers import random_state_array, shuffle
from comargin.core.rows import CSR
from comargin.svmplus._loops import SplitDual, split_pass

N_ROWS, N_FEATURES, N_LABELS, N_SETS = 14, 4, 3, 5


def csr(M):
    M = sp.csr_array(M)
    return CSR(M.data, M.indices.astype(np.int32), M.indptr.astype(np.int32))


def make(rng):
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.8)
    X[3] = 0.0
    row_set = np.concatenate([np.arange(N_SETS), rng.integers(0, N_SETS, N_ROWS - N_SETS)])
    A = np.maximum(rng.normal(size=(N_ROWS, N_LABELS)), 0.0)
    S = np.where(rng.random(A.shape) < 0.5, 1, -1).astype(np.int8)
    S[5, 1] = A[5, 1] = 0  # no constraint
    totals = np.zeros((N_SETS, N_LABELS))
    np.add.at(totals, row_set, A)
    offset = rng.normal(size=totals.shape) - 0.5
    dual = SplitDual(A, S, (X**2).sum(axis=1), row_set, offset, 0.1 + rng.random(N_SETS), totals)
    return X, dual


def fresh_order():
    return np.arange(N_ROWS, dtype=np.int32), random_state_array(7)


def literal_pass(X, R, dual, rows, state):
    """Minimise along every variable by a root finder, with everything computed anew."""
    A = dual.A.copy()
    shuffle(state, rows, N_ROWS)
    for i in rows:
        for label in np.flatnonzero(dual.S[i]):
            g = dual.row_set[i]

            def gradient(a, i=i, label=label, g=g):
                moved = A.copy()
                moved[i, label] = a
                score = X[i] @ (X.T @ (dual.S * moved)) @ R[:, label]
                total = moved[dual.row_set == g, label].sum()
                slack = max(dual.offset[g, label] + dual.inverse[g] * total, 0.0)
                return dual.S[i, label] * score - 1.0 + slack

            A[i, label] = 0.0 if gradient(0.0) >= 0.0 else brentq(gradient, 0.0, 1e6, xtol=1e-14, rtol=1e-14)
    return A


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("coupled", [True, False])
def test_pass_equals_literal_loop(storage, coupled, rng):
    X, dual = make(rng)
    F = rng.normal(size=(N_LABELS, 2)) if coupled else np.empty((0, 0))
    R = F @ F.T if coupled else np.diag(0.5 + rng.random(N_LABELS))
    N = np.ascontiguousarray(X.T @ (dual.S * dual.A) @ (F if coupled else np.eye(N_LABELS)))
    expected = literal_pass(X, R, dual, *fresh_order())
    split_pass(X if storage == "dense" else csr(X), F, np.array(np.diag(R)), dual, *fresh_order(), N)
    assert np.linalg.norm(expected) > 0.1
    assert_allclose(dual.A, expected, rtol=1e-8, atol=1e-9)
    totals = np.zeros_like(dual.totals)
    np.add.at(totals, dual.row_set, dual.A)
    assert_allclose(dual.totals, totals, rtol=1e-9, atol=1e-10)
    assert_allclose(N, X.T @ (dual.S * dual.A) @ (F if coupled else np.eye(N_LABELS)), rtol=1e-9, atol=1e-10)
