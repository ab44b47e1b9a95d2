"""Iterations of one label with split slacks, and their certificate, against literal loops and dense NumPy."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from comargin.kernels._prml_label import (
    LabelSplit,
    SlackPrices,
    SplitInverse,
    SplitSets,
    prml_label_certificate,
    prml_raise,
    prml_split_label,
)
from comargin.kernels._random import random_state_array, shuffle
from comargin.kernels._rows import CSR

N_ROWS, N_FEATURES, N_LABELS, N_SETS = 14, 4, 3, 5
RELAX, GAMMA2, R_LABEL, OWN = 1.5, 0.3, 0.7, 1
SIGNS = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, -1], [-1, -1, 1], [-1, -1, -1]])


def csr(M):
    M = sp.csr_array(M)
    return CSR(M.data, M.indices.astype(np.int32), M.indptr.astype(np.int32))


def make(rng):
    """Rows, the variables of one label in the middle of its iterations, the label sets, and its privileged features."""
    X = rng.normal(size=(N_ROWS, N_FEATURES)) * (rng.random((N_ROWS, N_FEATURES)) < 0.8)
    X[3] = 0.0
    row_set = np.concatenate([np.arange(N_SETS), rng.integers(0, N_SETS, N_ROWS - N_SETS)])
    signs = np.where(rng.random(N_ROWS) < 0.5, 1, -1).astype(np.int8)
    on = sp.csr_array((SIGNS > 0).astype(float))
    U = SIGNS.astype(float)
    U[:, OWN] = 1.0
    T, rho = rng.normal(size=N_LABELS), 0.5 + rng.random(N_SETS)
    A = np.maximum(rng.normal(size=N_ROWS), 0.0)
    totals = np.bincount(row_set, weights=A, minlength=N_SETS)
    one = LabelSplit(A, signs, X.T @ (signs * A), T, U @ T, rng.random(N_SETS), 2.0 * rng.random(N_SETS), totals)
    return X, one, SplitSets((X**2).sum(axis=1), row_set, rho, on.indptr, on.indices), U


def inverse_of(rho, U):
    """The inverse as the difference of two matrices, the second of rank 2."""
    inverse = np.linalg.inv(GAMMA2 * np.eye(N_LABELS) + U.T @ (rho[:, None] * U))
    pair, small = np.array([[1.0, -2.0, 0.5], [0.0, 1.0, 3.0]]), np.array([[0.4, 0.1], [0.1, -0.3]])
    return SplitInverse(inverse + pair.T @ small @ pair, pair, small)


def literal_iterations(X, one, sets, U, state, rows, count, sweeps):
    """Each variable is minimised by a root finder, with everything computed anew; T by least squares."""
    A, T, slack, beta, rho = one.A.copy(), one.T.copy(), one.slack.copy(), one.beta.copy(), sets.rho
    rows = rows.copy()
    H = GAMMA2 * np.eye(N_LABELS) + U.T @ np.diag(rho) @ U
    for _ in range(count):
        offset = slack - beta / rho
        for _ in range(sweeps):
            shuffle(state, rows, len(rows))
            for i in rows:

                def gradient(a, i=i, offset=offset):
                    moved = A.copy()
                    moved[i] = a
                    total = moved[sets.row_set == sets.row_set[i]].sum()
                    score = R_LABEL * X[i] @ (X.T @ (one.signs * moved))
                    g = sets.row_set[i]
                    return one.signs[i] * score - 1.0 + max(offset[g] + total / rho[g], 0.0)

                A[i] = 0.0 if gradient(0.0) >= 0.0 else brentq(gradient, 0.0, 1e6, xtol=1e-14, rtol=1e-14)
        totals = np.bincount(sets.row_set, weights=A, minlength=N_SETS)
        xi = RELAX * np.maximum(offset + totals / rho, 0.0) + (1.0 - RELAX) * slack
        T = np.linalg.solve(H, U.T @ (beta - one.cost + rho * xi))
        slack = U @ T
        beta = beta + rho * (xi - slack)
    return A, T, slack, beta


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize(("left_out", "sweeps"), [([], 1), ([], 3), ([2, 5], 2)])
def test_iterations_equal_literal_ones(storage, left_out, sweeps, rng):
    X, one, sets, U = make(rng)
    rows = np.setdiff1d(np.arange(N_ROWS), left_out).astype(np.int32)
    expected = literal_iterations(X, one, sets, U, random_state_array(3), rows, 3, sweeps)
    view = X if storage == "dense" else csr(X)
    inverse = inverse_of(sets.rho, U)
    prml_split_label(view, R_LABEL, OWN, one, sets, inverse, random_state_array(3), rows, 3, sweeps, RELAX)
    assert np.linalg.norm(expected[0]) > 0.1
    for found, wanted in zip((one.A, one.T, one.slack, one.beta), expected, strict=True):
        assert_allclose(found, wanted, rtol=1e-7, atol=1e-8)
    assert_allclose(one.v, X.T @ (one.signs * one.A), rtol=1e-9, atol=1e-10)
    assert_allclose(one.totals, np.bincount(sets.row_set, weights=one.A, minlength=N_SETS), rtol=1e-9, atol=1e-12)


def prices_of(one, U, used):
    price = SIGNS.T.clip(min=0.0) @ one.cost
    price[(used == 0.0) | (np.arange(N_LABELS) == OWN)] = np.inf
    return SlackPrices(used, used * (U.T @ one.cost), np.eye(N_LABELS)[OWN], price)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("masked", [False, True])
def test_certificate(storage, masked, rng):
    """Both objectives are those of the points they are said to be of, the primal one is feasible, rows are complete."""
    X, one, sets, U = make(rng)
    used = np.array([0.0, 1.0, 1.0]) if masked else np.ones(N_LABELS)
    one.T[:] *= used
    one.slack[:] = U @ one.T
    one.v[:], one.totals[:] = np.nan, np.nan
    rows, T = np.full(N_ROWS, -1, dtype=np.int32), np.full(N_LABELS, np.nan)
    view, shares, prices = X if storage == "dense" else csr(X), np.array([0.0, 0.05, 0.1]), prices_of(one, U, used)
    V = X.T @ (one.signs * one.A)
    margins = one.signs * (R_LABEL * X @ V)
    gradient = margins - 1.0 + np.maximum(one.slack, 0.0)[sets.row_set]
    keep = np.median(gradient[one.A <= 0.0])
    n_rows, dual, primal, scale = prml_label_certificate(
        view, R_LABEL, GAMMA2, OWN, one, sets, prices, keep, shares, rows, T
    )
    assert_allclose(one.v, V, rtol=1e-12, atol=1e-14)
    totals = np.bincount(sets.row_set, weights=one.A, minlength=N_SETS)
    assert_allclose(one.totals, totals, rtol=1e-12)
    of_dual = used * (U.T @ (np.maximum(one.beta, totals) - one.cost)) / GAMMA2
    expected = one.A.sum() - 0.5 * R_LABEL * V @ V - 0.5 * GAMMA2 * of_dual @ of_dual
    assert_allclose(dual, expected, rtol=1e-10)
    slack = U @ T
    assert (scale * margins + slack[sets.row_set] >= 1.0 - 1e-12).all()
    assert (slack >= -1e-12).all()
    assert not T[used == 0.0].any()
    expected = 0.5 * scale**2 * R_LABEL * V @ V + 0.5 * GAMMA2 * T @ T + one.cost @ slack
    assert_allclose(primal, expected, rtol=1e-10)
    assert np.count_nonzero(one.A) < n_rows < N_ROWS
    assert set(np.flatnonzero((one.A > 0.0) | (gradient < keep - 1e-9))) <= set(rows[:n_rows])
    assert (gradient[rows[:n_rows]][one.A[rows[:n_rows]] <= 0.0] <= keep + 1e-9).all()


def test_certificate_takes_the_best_scale(rng):
    X, one, sets, U = make(rng)
    prices, T, rows = prices_of(one, U, np.ones(N_LABELS)), np.empty(N_LABELS), np.empty(N_ROWS, dtype=np.int32)
    shares = np.array([0.0, 0.02, 0.05, 0.1])

    def primal(some):
        return prml_label_certificate(X, R_LABEL, GAMMA2, OWN, one, sets, prices, 0.2, some, rows, T)[2]

    alone = [primal(shares[k : k + 1]) for k in range(len(shares))]
    assert len(set(alone)) > 1
    assert primal(shares) == min(alone)


def test_slacks_are_raised_where_few_rows_pay():
    """Sets {0, 2}, {0}, {} and a price of label 0 below that of label 2."""
    on = sp.csr_array(np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]))
    U = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, -1.0], [-1.0, 1.0, -1.0]])
    lift, price = np.eye(3)[[OWN]], np.array([[1.0, np.inf, 2.0]])

    def raised(*missing, price=price):
        change = np.full((1, 3), np.nan)
        prml_raise(np.array([missing]), np.array([OWN]), on.indptr, on.indices, lift, price, change)
        return U @ change[0]

    assert_allclose(raised(0.3, -1.0, -1.0), [0.3, 0.3, 0.0], atol=1e-15)
    assert_allclose(raised(-1.0, 0.5, 0.2), [0.5, 0.5, 0.2], atol=1e-15)
    assert_allclose(raised(-1.0, -2.0, -0.1), 0.0, atol=1e-15)
    # Label 2 is the cheaper one: it gives the first set what label 0 has not given, and no other.
    other = np.array([[3.0, np.inf, 2.0]])
    assert_allclose(raised(0.3, -1.0, -1.0, price=other), [0.3, 0.0, 0.0], atol=1e-15)
    # No label can be raised alone: the constant is.
    assert_allclose(raised(0.3, 0.1, -1.0, price=np.full((1, 3), np.inf)), 0.3, atol=1e-15)


@pytest.mark.parametrize("n_labels", [1, 4, 9])
def test_nothing_is_missing_after_a_raise(n_labels, rng):
    signs = np.unique(np.where(rng.random((30, n_labels)) < 0.4, 1, -1), axis=0)
    on, labels = sp.csr_array((signs > 0).astype(float)), np.arange(n_labels)
    missing, price = rng.normal(size=(n_labels, len(signs))), rng.random((n_labels, n_labels))
    price[labels, labels] = np.inf
    price[rng.random(price.shape) < 0.2] = np.inf
    change = np.full((n_labels, n_labels), np.nan)
    prml_raise(missing, labels, on.indptr, on.indices, np.eye(n_labels), price, change)
    for label in labels:
        U = signs.astype(float)
        U[:, label] = 1.0
        assert (U @ change[label] >= missing[label] - 1e-13).all()
        assert (U @ change[label] >= -1e-13).all()
        unused = np.isinf(price[label]) & (labels != label)
        assert not change[label][unused].any()
