"""Identities of the M3L problem that need no solver."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from comargin.problems import M3LProblem


def make_problem(rng, n=30, d=6, n_labels=4, sparse=False):
    dense = rng.normal(size=(n, d))
    S = np.where(rng.random((n, n_labels)) < 0.4, 1, -1).astype(np.int8)
    X = sp.csr_array(dense) if sparse else dense
    return M3LProblem(X, S, 0.2 + rng.random(n), 0.5 + rng.random((2, n_labels)))


@pytest.mark.parametrize("sparse", [False, True])
def test_weak_duality(rng, sparse):
    problem = make_problem(rng, sparse=sparse)
    for _ in range(50):
        A = problem.upper() * rng.random(problem.S.shape)
        Z = rng.normal(size=(problem.X.shape[1], problem.S.shape[1]))
        assert problem.gap(Z, A) >= 0.0


def test_objectives_by_literal_loops(rng):
    problem = make_problem(rng, n=7, d=3, n_labels=2)
    A, Z = problem.upper() * rng.random((7, 2)), rng.normal(size=(3, 2))
    hinge = quad = 0.0
    for i in range(7):
        for k in range(2):
            weight = problem.row_upper[i] * problem.label_upper[1 if problem.S[i, k] > 0 else 0, k]
            hinge += weight * max(0.0, 1.0 - problem.S[i, k] * float(Z[:, k] @ problem.X[i]))
            for j in range(7):
                quad += A[i, k] * A[j, k] * problem.S[i, k] * problem.S[j, k] * float(problem.X[i] @ problem.X[j])
    assert_allclose(problem.primal(Z), 0.5 * np.sum(Z**2) + 2.0 * hinge, rtol=1e-12)
    assert_allclose(problem.dual(A), 2.0 * A.sum() - 2.0 * quad, rtol=1e-12)


def test_dual_gradient_by_finite_differences(rng):
    problem = make_problem(rng, n=8, d=3, n_labels=2)
    A = problem.upper() * (0.25 + 0.5 * rng.random((8, 2)))  # strictly inside: the projected gradient is G itself
    G = problem.kkt_residual(A)
    for i, k in [(0, 0), (3, 1), (7, 0)]:
        step = np.zeros_like(A)
        step[i, k] = 1e-5
        numeric = (problem.dual(A + step) - problem.dual(A - step)) / 2e-5
        assert_allclose(-2.0 * G[i, k], numeric, rtol=1e-6, atol=1e-8)


def test_gap_is_the_sum_of_its_parts(rng):
    problem = make_problem(rng)
    U = problem.upper()
    A = U * np.clip(1.5 * rng.random(U.shape) - 0.25, 0.0, 1.0)
    Z = problem.primal_from_dual(A)
    G = problem.S * (problem.X @ Z) - 1.0
    parts = 2.0 * np.where(G >= 0, A * G, (A - U) * G)
    assert (parts >= 0).all()
    assert_allclose(problem.gap(Z, A), parts.sum(), rtol=1e-12)


def test_row_blocks_do_not_change_the_value(rng, monkeypatch):
    problem = make_problem(rng, sparse=True)
    A = problem.upper() * rng.random(problem.S.shape)
    whole = problem.primal_from_dual(A), problem.primal(problem.primal_from_dual(A))
    monkeypatch.setattr("comargin.problems.m3l._ROWS_AT_ONCE", 7)
    assert_allclose(problem.primal_from_dual(A), whole[0], rtol=1e-12)
    assert_allclose(problem.primal(whole[0]), whole[1], rtol=1e-12)
