"""The pass with split slacks against a literal loop over the same rows and labels in the same order."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from scipy.optimize import brentq

from comargin.kernels._prml_split import (
    LabelSplit,
    SplitActive,
    SplitDual,
    SplitSets,
    prml_split_label,
    prml_split_pass,
)
from comargin.kernels._random import random_below, random_state_array, shuffle
from comargin.kernels._rows import CSR

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
        order = list(active.labels[i])
        for k in range(N_LABELS):
            chosen = k + random_below(active.state, N_LABELS - k)
            order[k], order[chosen] = order[chosen], order[k]
            label = order[k]
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
def test_pass_equals_literal_loop(storage, rng):
    X, dual = make(rng)
    F = rng.normal(size=(N_LABELS, 2))
    R = F @ F.T
    N = X.T @ (dual.S * dual.A) @ F
    expected = literal_pass(X, R, dual, fresh_active())
    active = fresh_active()
    prml_split_pass(X if storage == "dense" else csr(X), F, np.array(np.diag(R)), dual, active, N, np.inf)
    assert np.linalg.norm(expected) > 0.1
    assert_allclose(dual.A, expected, rtol=1e-8, atol=1e-9)
    totals = np.zeros_like(dual.totals)
    np.add.at(totals, dual.row_set, dual.A)
    assert_allclose(dual.totals, totals, rtol=1e-9, atol=1e-10)
    assert_allclose(N, X.T @ (dual.S * dual.A) @ F, rtol=1e-9, atol=1e-10)
    assert (active.count == N_LABELS).all()


def test_variables_at_rest_are_left_out(rng):
    X, dual = make(rng)
    dual.offset[:] = 5.0  # slack for everybody: all gradients are positive
    dual.A[:], dual.totals[:] = 0.0, 0.0
    dual.A[2, 1] = dual.totals[dual.row_set[2], 1] = 1.0
    active, N = fresh_active(), np.ascontiguousarray(X.T @ (dual.S * dual.A))
    prml_split_pass(X, np.eye(N_LABELS), np.ones(N_LABELS), dual, active, N, 1.0)
    assert dual.A.sum() == 0.0
    kept = [(i, label) for i in range(N_ROWS) for label in active.labels[i, : active.count[i]]]
    assert kept == [(2, 1)]


RELAX, GAMMA2, R_LABEL, OWN = 1.5, 0.3, 0.7, 1


def make_label(rng):
    """Rows, the variables of one label in the middle of its passes, the label sets, and its privileged features."""
    X, dual = make(rng)
    signs = np.array([[1, 1, 1], [1, -1, 1], [-1, 1, -1], [-1, -1, 1], [-1, -1, -1]])
    on = sp.csr_array((signs > 0).astype(float))
    U = signs.astype(float)
    U[:, OWN] = 1.0
    T, rho = rng.normal(size=N_LABELS), 0.5 + rng.random(N_SETS)
    A, S = dual.A[:, OWN].copy(), dual.S[:, OWN].copy()
    z = R_LABEL * (X.T @ (S * A))[:, None]
    one = LabelSplit(A, S, z, T, U @ T, rng.random(N_SETS), 2.0 * rng.random(N_SETS))
    inverse = np.linalg.inv(GAMMA2 * np.eye(N_LABELS) + U.T @ (rho[:, None] * U))
    return X, one, SplitSets(dual.sqnorm, dual.row_set, rho, on.indptr, on.indices), inverse, U


def literal_iterations(X, one, sets, U, state, count):
    """All variables are visited in every pass, each minimised by a root finder; T by least squares."""
    A, T, slack, beta = one.A.copy(), one.T.copy(), one.slack.copy(), one.beta.copy()
    rows, rho = np.arange(N_ROWS, dtype=np.int32), sets.rho
    H = GAMMA2 * np.eye(N_LABELS) + U.T @ np.diag(rho) @ U
    for _ in range(count):
        offset = slack - beta / rho
        shuffle(state, rows, N_ROWS)
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
def test_iterations_of_one_label_equal_literal_ones(storage, rng):
    X, one, sets, inverse, U = make_label(rng)
    expected = literal_iterations(X, one, sets, U, random_state_array(3), 3)
    view = X if storage == "dense" else csr(X)
    prml_split_label(view, R_LABEL, OWN, one, sets, inverse, random_state_array(3), 3, 2, np.inf, RELAX)
    assert np.linalg.norm(expected[0]) > 0.1
    for found, wanted in zip((one.A, one.T, one.slack, one.beta), expected, strict=True):
        assert_allclose(found, wanted, rtol=1e-7, atol=1e-8)
    assert_allclose(one.z[:, 0], R_LABEL * X.T @ (one.signs * one.A), rtol=1e-9, atol=1e-10)


def test_rows_at_rest_are_visited_again_in_time(rng):
    """With every row at zero left out for as long as can be, the iterations have the same limit."""
    X, one, sets, inverse, _ = make_label(rng)
    other = LabelSplit(*(part.copy() for part in one))
    for some, keep in ((one, np.inf), (other, 0.0)):
        prml_split_label(X, R_LABEL, OWN, some, sets, inverse, random_state_array(3), 3000, 5, keep, RELAX)
    assert_allclose(one.z, other.z, atol=1e-6)  # A is not unique
    assert_allclose(one.T, other.T, atol=1e-6)
