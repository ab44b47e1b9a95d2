"""Compiled loops of SVM+: raised slacks, and a pass against a literal loop."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from comargin.core.random_numbers import random_state_array, shuffle
from comargin.core.rows import CSR
from comargin.svmplus._loops import SplitActive, SplitDual, raise_slacks, split_pass
from comargin.svmplus.problem import PrivilegedSets

N_ROWS, N_FEATURES, N_LABELS, N_SETS = 14, 4, 3, 5


def csr(M):
    M = sp.csr_array(M)
    return CSR(M.data, M.indices.astype(np.int32), M.indptr.astype(np.int32))


def make(rng):
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.8)
    X[3] = 0.0
    row_set = np.concatenate([np.arange(N_SETS), rng.integers(0, N_SETS, N_ROWS - N_SETS)])
    A = np.maximum(rng.normal(size=(N_ROWS, N_LABELS)), 0.0)
    totals = np.zeros((N_SETS, N_LABELS))
    np.add.at(totals, row_set, A)
    S = np.where(rng.random(A.shape) < 0.5, 1, -1).astype(np.int8)
    offset = rng.normal(size=totals.shape) - 0.5
    dual = SplitDual(A, S, (X**2).sum(axis=1), row_set, offset, 0.1 + rng.random(N_SETS), totals)
    return X, dual


def fresh_active():
    return SplitActive(
        np.arange(N_ROWS, dtype=np.int32),
        np.tile(np.arange(N_LABELS, dtype=np.int32), (N_ROWS, 1)),
        np.full(N_ROWS, N_LABELS, dtype=np.int32),
        random_state_array(7),
    )


def literal_pass(X, R, dual, active):
    """Minimise along every variable by a root finder, with everything computed anew."""
    A = dual.A.copy()
    shuffle(active.state, active.rows, N_ROWS)
    for i in active.rows:
        for label in range(N_LABELS):
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
    expected = literal_pass(X, R, dual, fresh_active())
    active = fresh_active()
    split_pass(X if storage == "dense" else csr(X), F, np.array(np.diag(R)), dual, active, N, np.inf)
    assert np.linalg.norm(expected) > 0.1
    assert_allclose(dual.A, expected, rtol=1e-8, atol=1e-9)
    totals = np.zeros_like(dual.totals)
    np.add.at(totals, dual.row_set, dual.A)
    assert_allclose(dual.totals, totals, rtol=1e-9, atol=1e-10)
    assert_allclose(N, X.T @ (dual.S * dual.A) @ (F if coupled else np.eye(N_LABELS)), rtol=1e-9, atol=1e-10)
    assert (active.count == N_LABELS).all()


def test_variables_at_rest_are_left_out(rng):
    X, dual = make(rng)
    dual.offset[:] = 5.0  # slack for everybody: all gradients are positive
    dual.A[:], dual.totals[:] = 0.0, 0.0
    dual.A[2, 1] = dual.totals[dual.row_set[2], 1] = 1.0
    active, N = fresh_active(), np.ascontiguousarray(X.T @ (dual.S * dual.A))
    split_pass(X, np.eye(N_LABELS), np.ones(N_LABELS), dual, active, N, 1.0)
    assert dual.A.sum() == 0.0
    kept = [(i, label) for i in range(N_ROWS) for label in active.labels[i, : active.count[i]]]
    assert kept == [(2, 1)]


def test_slacks_are_raised_where_few_rows_pay(rng):
    """Nothing is missing after a raise; a label that is on in few rows raises the slacks of these alone."""
    sets = PrivilegedSets.of(np.where(rng.random((40, 6)) < 0.3, 1, -1))
    labels = np.arange(6)
    missing = np.maximum(rng.normal(size=(len(sets.sets), 6)), 0.0)
    price = np.ascontiguousarray((sets.on.T @ np.ones((len(sets.sets), 6))).T)
    np.fill_diagonal(price, np.inf)
    change = np.empty((6, 6))
    raise_slacks(np.ascontiguousarray(missing.T), labels, sets.on.indptr, sets.on.indices, np.eye(6), price, change)
    raised = sets.slack(change.T, labels)
    assert (raised >= missing - 1e-12).all()
    assert raised.sum() < len(sets.sets) * missing.max(axis=0).sum()
