"""The M3L epochs against literal loops: the same rows in the same order give the same dual variables."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests.m3l import naive

from comargin.core.random_numbers import random_state_array
from comargin.core.rows import CSR
from comargin.m3l._loops import (
    RELAXATION,
    Active,
    Dual,
    m3l_coupled_epoch,
    m3l_diagonal_epoch,
    m3l_signed_sum,
    m3l_sums,
)


def csr(M):
    M = sp.csr_array(M)
    return CSR(M.data, M.indices.astype(np.int32), M.indptr.astype(np.int32))


def make(rng, n, d, n_labels, targets):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    X[n // 2] = 0.0
    S = np.where(rng.random((n, n_labels)) < 0.4, 1, -1).astype(np.int8)
    T = 0.2 + rng.random((n, n_labels)) if targets else np.empty((0, 0))
    sqnorm = (X**2).sum(axis=1)
    return X, Dual(np.zeros((n, n_labels)), S, T, 0.5 + rng.random(n), 0.5 + rng.random((2, n_labels)), sqnorm)


def fresh_active(n, n_labels):
    active = Active(
        np.arange(n, dtype=np.int32),
        np.tile(np.arange(n_labels, dtype=np.int32), (n, 1)),
        np.full(n + 1, n_labels, dtype=np.int32),
        np.empty((2, n_labels)),
        random_state_array(3),
    )
    active.count[-1] = n
    return active


def upper(dual):
    return dual.row_cost[:, None] * np.where(dual.S > 0, dual.label_cost[1], dual.label_cost[0])


def dual_value(X, dual):
    V = X.T @ (dual.S * dual.A)
    return 2.0 * dual.A.sum() - 2.0 * float(np.sum(V * V))


SIZES = [(12, 5, 3), (1, 2, 1), (9, 3, 7)]


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("form", ["diagonal", "dense", "sparse", "factor"])
@pytest.mark.parametrize(("n", "d", "n_labels"), SIZES)
@pytest.mark.parametrize("targets", [False, True])
def test_epochs_equal_literal_loops(storage, form, n, d, n_labels, targets, rng):
    X, dual = make(rng, n, d, n_labels, targets)
    F = rng.normal(size=(n_labels, 2))
    R = np.diag(0.5 + rng.random(n_labels)) if form == "diagonal" else F @ F.T
    diagonal = np.array(np.diag(R))
    view = X if storage == "dense" else csr(X)
    active, parts = fresh_active(n, n_labels), np.empty((2, n_labels))
    dual.A[n // 2] = upper(dual)[n // 2]  # an empty row pays its loss from the start
    state = np.zeros((d, 2 if form == "factor" else n_labels))
    for _ in range(4):
        active.bounds[0], active.bounds[1] = -np.inf, np.inf  # no shrinking
        active.count[:-1], active.count[-1] = n_labels, n
        if form == "diagonal":
            m3l_diagonal_epoch(view, diagonal, dual, active, state, parts)
        elif form == "factor":
            m3l_coupled_epoch(view, F, True, diagonal, dual, active, state, parts)
        else:
            m3l_coupled_epoch(view, R if form == "dense" else csr(R), False, diagonal, dual, active, state, parts)
    words = random_state_array(3)
    expected = naive.m3l_epochs(X, dual.S, upper(dual), R, dual.targets, 4, words, form != "diagonal", RELAXATION)
    assert np.linalg.norm(expected) > 1e-3
    assert_allclose(dual.A, expected, rtol=1e-8, atol=1e-11)
    V = X.T @ (dual.S * dual.A)
    assert_allclose(state, 2.0 * V @ (F if form == "factor" else R), rtol=1e-8, atol=1e-11)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("targets", [False, True])
def test_sums_and_average(storage, targets, rng):
    X, dual = make(rng, 2500, 4, 3, targets)
    view = X if storage == "dense" else csr(X)
    dual.A[:] = upper(dual) * np.maximum(rng.random(dual.A.shape) - 0.5, 0.0)
    V, Z, sums = np.zeros((4, 3)), rng.normal(size=(4, 3)), np.empty((2, 3))
    m3l_signed_sum(view, dual, V)
    m3l_sums(view, dual, Z, sums)
    T = dual.targets if targets else 1.0
    assert_allclose(V, X.T @ (dual.S * dual.A), rtol=1e-11, atol=1e-11)
    assert_allclose(sums[0], (upper(dual) * np.maximum(T - dual.S * (X @ Z), 0)).sum(axis=0), rtol=1e-12)
    assert_allclose(sums[1], (T * dual.A).sum(axis=0), rtol=1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_shrinking_shrinks_and_loses_nothing(storage, rng):
    """Rows leave the active part, others keep a list of few labels. What left too early comes back by the solver's
    certificate, which is tested there."""
    X, dual = make(rng, 200, 5, 40, False)
    dual.S[:] = np.where(X @ rng.normal(size=(5, 40)) > 0.0, 1, -1)  # can be learned: most variables come to rest
    active, parts, Z = fresh_active(200, 40), np.empty((2, 40)), np.zeros((5, 40))
    active.bounds[0], active.bounds[1] = -np.inf, np.inf
    modes = set()
    for _ in range(60):
        before = dual_value(X, dual)
        m3l_diagonal_epoch(X if storage == "dense" else csr(X), np.ones(40), dual, active, Z, parts)
        assert_allclose(parts[1].sum(), dual_value(X, dual) - before, rtol=1e-6, atol=1e-9)
        n_rows = active.count[-1]
        assert sorted(active.rows) == list(range(200))
        assert all(active.count[i] == 0 for i in active.rows[n_rows:])
        for i in active.rows[:n_rows]:
            some = active.labels[i, : active.count[i]]
            assert active.count[i] == 40 or (0 < active.count[i] < 5 and len(set(some)) == len(some))
            modes.add("all" if active.count[i] == 40 else "few")
        modes |= {"none"} if n_rows < 200 else set()
    assert modes == {"all", "few", "none"}
    assert_allclose(Z, 2.0 * X.T @ (dual.S * dual.A), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("form", ["diagonal", "dense"])
def test_single_precision_and_padding(storage, form, rng):
    """The same steps as in double precision, up to rounding; the columns that fill a cache line stay zero."""
    X, dual = make(rng, 30, 6, 5, True)
    dual.A[15] = upper(dual)[15]
    M = rng.normal(size=(5, 5))
    R = np.diag(0.5 + rng.random(5)) if form == "diagonal" else np.eye(5) + M @ M.T / 5
    diagonal = np.array(np.diag(R))
    results = []
    for dtype, width in ((np.float64, 5), (np.float32, 16)):
        state = dual._replace(A=dual.A.copy())
        active, parts, Z = fresh_active(30, 5), np.empty((2, 5)), np.zeros((6, width), dtype=dtype)
        for _ in range(3):
            active.bounds[0], active.bounds[1] = -np.inf, np.inf
            if form == "diagonal":
                m3l_diagonal_epoch(X if storage == "dense" else csr(X), diagonal, state, active, Z, parts)
            else:
                m3l_coupled_epoch(
                    X if storage == "dense" else csr(X), R.astype(dtype), False, diagonal, state, active, Z, parts
                )
        assert not Z[:, 5:].any()
        assert_allclose(Z[:, :5], 2.0 * X.T @ (state.S * state.A) @ R, rtol=1e-4, atol=1e-4)
        results.append(state.A)
    assert_allclose(*results, atol=1e-4)
    assert not np.array_equal(*results)
