"""Identities of the M3L problem that need no solver."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests.m3l import naive
from tests.m3l.priors import PRIORS, make_prior

from comargin.m3l.prior import split_prior
from comargin.m3l.problem import M3LProblem


def make_problem(rng, n=30, d=6, n_labels=4, sparse=False, prior="dense", targets=False):
    dense = rng.normal(size=(n, d))
    S = np.where(rng.random((n, n_labels)) < 0.4, 1, -1).astype(np.int8)
    X = sp.csr_array(dense) if sparse else dense
    T = 0.2 + rng.random((n, n_labels)) if targets else np.empty((0, 0))
    R = split_prior(make_prior(prior, n_labels, rng), n_labels)
    return M3LProblem(X, S, 0.2 + rng.random(n), 0.5 + rng.random((2, n_labels)), R, T)


def dense_R(problem):
    return problem.apply_prior(np.eye(problem.S.shape[1]))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("targets", [False, True])
def test_weak_duality(rng, sparse, prior, targets):
    problem = make_problem(rng, sparse=sparse, prior=prior, targets=targets)
    for _ in range(20):
        A = problem.upper() * rng.random(problem.S.shape)
        V = rng.normal(size=(problem.X.shape[1], problem.S.shape[1]))
        assert naive.primal(problem, V) - naive.dual(problem, A) >= 0.0


@pytest.mark.parametrize("targets", [False, True])
def test_objectives_by_literal_loops(rng, targets):
    problem = make_problem(rng, n=7, d=3, n_labels=3, targets=targets)
    A, V, R = problem.upper() * rng.random((7, 3)), rng.normal(size=(3, 3)), dense_R(problem)
    Z = 2 * V @ R
    hinge = quad = linear = 0.0
    for i in range(7):
        for k in range(3):
            weight = problem.row_cost[i] * problem.label_cost[1 if problem.S[i, k] > 0 else 0, k]
            t = problem.targets[i, k] if targets else 1.0
            hinge += weight * max(0.0, t - problem.S[i, k] * float(Z[:, k] @ problem.X[i]))
            linear += t * A[i, k]
            for j in range(7):
                for m in range(3):
                    signs = problem.S[i, k] * problem.S[j, m]
                    quad += R[k, m] * A[i, k] * A[j, m] * signs * float(problem.X[i] @ problem.X[j])
    regulariser = 0.5 * np.trace(Z @ np.linalg.inv(R) @ Z.T)
    assert_allclose(naive.primal(problem, V), regulariser + 2.0 * hinge, rtol=1e-10)
    assert_allclose(naive.dual(problem, A), 2.0 * linear - 2.0 * quad, rtol=1e-10)


def test_dual_gradient_by_finite_differences(rng):
    problem = make_problem(rng, n=8, d=3, n_labels=2)
    A = problem.upper() * (0.25 + 0.5 * rng.random((8, 2)))  # strictly inside: the projected gradient is G itself
    G = naive.kkt_residual(problem, A)
    for i, k in [(0, 0), (3, 1), (7, 0)]:
        step = np.zeros_like(A)
        step[i, k] = 1e-5
        numeric = (naive.dual(problem, A + step) - naive.dual(problem, A - step)) / 2e-5
        assert_allclose(-2.0 * G[i, k], numeric, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("prior", PRIORS)
def test_gap_is_the_sum_of_its_parts(rng, prior):
    problem = make_problem(rng, prior=prior)
    U = problem.upper()
    A = U * np.clip(1.5 * rng.random(U.shape) - 0.25, 0.0, 1.0)
    V = naive.dual_average(problem, A)
    G = problem.S * (problem.X @ problem.weights(A)) - 1.0
    parts = 2.0 * np.where(G >= 0, A * G, (A - U) * G)
    assert (parts >= 0).all()
    assert_allclose(naive.primal(problem, V) - naive.dual(problem, A), parts.sum(), rtol=1e-11)
