"""Passes along labels against literal loops: the same random choices give the same variables and active sets."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.m3l import naive

from comargin.core.compiled import compiled
from comargin.core.random_numbers import random_state_array
from comargin.core.rows import CSR, row_collect, row_spread
from comargin.m3l._loops import Dual
from comargin.m3l._loops_dcd import LabelActive, m3l_dcd_pass


def csr(M):
    M = sp.csr_array(M)
    return CSR(M.data, M.indices.astype(np.int32), M.indptr.astype(np.int32))


def make(rng, n, d, n_labels, targets):
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    X[n // 2] = 0.0
    S = np.where(rng.random((n, n_labels)) < 0.4, 1, -1).astype(np.int8)
    T = 0.2 + rng.random((n, n_labels)) if targets else np.empty((0, 0))
    row_cost = 0.5 + rng.random(n)
    row_cost[-1] = 0.0  # a row without weight
    dual = Dual(np.zeros((n, n_labels)), S, T, row_cost, 0.5 + rng.random((2, n_labels)), (X**2).sum(axis=1))
    U = row_cost[:, None] * np.where(S > 0, dual.label_cost[1], dual.label_cost[0])
    return X, dual, U


def fresh_active(n, n_labels):
    return LabelActive(
        np.tile(np.arange(n, dtype=np.int32), (n_labels, 1)),
        np.full(n_labels, n, dtype=np.int32),
        np.array([[-np.inf], [np.inf]]) * np.ones(n_labels),
        np.empty((2, n_labels)),
        random_state_array(3),
    )


def make_R(kind, n_labels, rng):
    F = rng.normal(size=(n_labels, 2))
    R = F @ F.T  # singular from three labels on
    if kind == "diagonal":
        R = np.diag(np.diag(R))
    if kind == "zero label":
        R[-1] = R[:, -1] = 0.0
    return R


def run_pass(view, R, storage, dual, active, Z, run_length):
    coupled = np.count_nonzero(R - np.diag(np.diag(R)), axis=1) > 0
    matrix = R if storage == "dense" else csr(R)
    return m3l_dcd_pass(view, matrix, np.array(np.diag(R)), coupled, dual, active, Z, run_length)


def empty_weights(d, n_labels, storage):
    return np.zeros((d, n_labels), order="C" if storage == "dense" else "F")


SIZES = [(9, 5, 3), (1, 2, 1), (2, 1, 2), (5, 3, 7)]


@pytest.mark.parametrize("X_storage", ["dense", "csr"])
@pytest.mark.parametrize("R_storage", ["dense", "csr"])
@pytest.mark.parametrize("kind", ["full", "diagonal", "zero label"])
@pytest.mark.parametrize(("n", "d", "n_labels"), SIZES)
@pytest.mark.parametrize("targets", [False, True])
def test_passes_equal_literal_loops(X_storage, R_storage, kind, n, d, n_labels, targets, rng):
    X, dual, U = make(rng, n, d, n_labels, targets)
    R = make_R(kind, n_labels, rng)
    active, Z = fresh_active(n, n_labels), empty_weights(d, n_labels, R_storage)
    A, rows = np.zeros((n, n_labels)), [naive.LabelRows(n) for _ in range(n_labels)]
    generator = naive.Xoshiro(random_state_array(3))
    for run_length, bound in [(1, np.inf), (n_labels, np.inf), (2, 0.3), (n_labels, 0.1)]:
        active.bounds[0], active.bounds[1] = -bound, bound  # the later passes shrink
        n_active, before = active.count.sum(), dual.A.copy()
        gap, n_moved = run_pass(X if X_storage == "dense" else csr(X), R, R_storage, dual, active, Z, run_length)
        found, expected_gap = naive.m3l_label_pass(
            A, rows, [[-bound, bound]] * n_labels, X, dual.S, U, R, dual.targets, run_length, generator
        )
        assert_allclose(dual.A, A, rtol=1e-8, atol=1e-11)
        assert_allclose(active.found.T, found, rtol=1e-8, atol=1e-11)
        assert_allclose(gap, expected_gap, rtol=1e-8, atol=1e-11)
        # A variable at its optimum may move by rounding.
        assert np.count_nonzero(np.abs(dual.A - before) > 1e-12) <= n_moved <= n_active
        for label in range(n_labels):
            assert_array_equal(active.rows[label, : active.count[label]], rows[label].kept)
            assert_array_equal(active.rows[label, active.count[label] :], rows[label].left)
        assert_allclose(Z, 2.0 * X.T @ (dual.S * dual.A) @ R, rtol=1e-8, atol=1e-11)
    if n > 2:
        assert np.linalg.norm(A) > 1e-3
        assert sum(len(r.left) for r in rows) > 0


@pytest.mark.parametrize("run_length", [1, 4, 100])
def test_every_active_variable_is_visited_once(run_length, rng):
    """With bounds that shrink nothing the lists stay permutations, and a start at -t for all moves every variable."""
    X, dual, _ = make(rng, 30, 40, 4, False)
    dual.row_cost[:] = 1e-6  # so small that the first visit goes to the upper bound, and stays
    active, Z = fresh_active(30, 4), empty_weights(40, 4, "dense")
    _, n_moved = run_pass(X, np.eye(4) + 1.0, "dense", dual, active, Z, run_length)
    assert n_moved == 30 * 4
    assert all(sorted(r) == list(range(30)) for r in active.rows)
    assert (active.count == 30).all()


def test_nothing_active_does_nothing(rng):
    X, dual, _ = make(rng, 6, 3, 2, False)
    active, Z = fresh_active(6, 2), empty_weights(3, 2, "dense")
    active.count[:] = 0
    assert run_pass(X, np.ones((2, 2)), "dense", dual, active, Z, 2) == (0.0, 0)
    assert not dual.A.any()
    assert_array_equal(active.found, [[np.inf] * 2, [-np.inf] * 2])


@compiled
def collect(step, X, rows, total, marked, features):
    n_features = 0
    for i in rows:
        n_features = row_collect(step, X, i, total, marked, features, n_features)
    return n_features


@compiled
def spread_over(R, label, total, features, n_features, Z):
    row_spread(R, label, total, features, n_features, Z)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_collected_rows(storage, rng):
    X = rng.normal(size=(6, 9)) * (rng.random((6, 9)) < 0.3)
    X[2] = 0.0
    view = X if storage == "dense" else csr(X)
    rows = np.array([4, 2, 0])
    for function in (collect, getattr(collect, "py_func", collect)):
        total, marked, features = np.zeros(9), np.zeros(9, dtype=bool), np.empty(9, dtype=np.int32)
        n_features = function(0.5, view, rows, total, marked, features)
        assert_allclose(total, 0.5 * X[rows].sum(axis=0), rtol=1e-13)
        listed = features[:n_features]
        expected = np.arange(9) if storage == "dense" else np.flatnonzero(X[rows].any(axis=0))
        assert_array_equal(np.sort(listed), expected)
        assert_array_equal(np.flatnonzero(marked), expected)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("listed", [[], [3], [5, 0, 2], [4, 2, 0, 1, 5, 3]])
def test_spread(storage, listed, rng):
    R = rng.normal(size=(4, 4)) * (rng.random((4, 4)) < 0.6)
    total = rng.normal(size=6)
    features = np.zeros(6, dtype=np.int32)
    features[: len(listed)] = listed
    Z = np.asarray(rng.normal(size=(6, 4)), order="C" if storage == "dense" else "F")
    expected = Z.copy()
    for j in listed:
        for k in (0, 1, 3):
            expected[j, k] += 2.0 * R[2, k] * total[j]
    for function in (spread_over, getattr(spread_over, "py_func", spread_over)):
        result = Z.copy(order="K")
        function(R if storage == "dense" else csr(R), 2, total, features, len(listed), result)
        assert_allclose(result, expected, rtol=1e-13)
