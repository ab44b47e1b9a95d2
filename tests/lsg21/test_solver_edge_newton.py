"""Newton steps on the weights that are not zero, against dense linear algebra."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from comargin.lsg21 import _edge_newton
from comargin.lsg21._edge_newton import RidgedNewton, _Hessian
from comargin.lsg21.problem import EdgePenalty
from comargin.lsg21.solver import as_edges


def instance(rng, n=30, d=5, n_labels=4, density=1.0):
    """Data, weights that are zero in places, and a graph without the edge (0, 1)."""
    X, Y = rng.normal(size=(n, d)), (rng.random((n, n_labels)) < 0.4).astype(float)
    A = rng.uniform(0.2, 1.0, (n_labels, n_labels))
    A = 0.5 * (A + A.T)
    A[0, 1] = A[1, 0] = 0.0
    penalty = EdgePenalty.from_affinity(sp.csr_array(A), self_edges=True)
    W = rng.normal(size=(d, n_labels)) * (rng.random((d, n_labels)) < density)
    return X, Y, penalty, W


def value(X, Y, W, alpha, penalty):
    return float(np.sum((X @ W - Y) ** 2)) + alpha * penalty.value(W)


def gradient(X, Y, W, alpha, penalty):
    """Of the objective, on the weights that are not zero."""
    G = 2.0 * X.T @ (X @ W - Y) + alpha * penalty.own * np.sign(W)
    for i, j, omega in zip(penalty.first, penalty.second, penalty.weight, strict=True):
        length = np.maximum(np.hypot(W[:, i], W[:, j]), 1e-300)
        G[:, i] += alpha * omega * W[:, i] / length
        G[:, j] += alpha * omega * W[:, j] / length
    return np.where(W != 0.0, G, 0.0)


def dense_hessian(X, Y, W, alpha, penalty, t=1e-6):
    """By central differences of the gradient, weights that are not zero one after the other."""
    on = np.argwhere(W != 0.0)
    columns = []
    for f, i in on:
        step = np.zeros_like(W)
        step[f, i] = t * abs(W[f, i])
        ahead, behind = (gradient(X, Y, W + sign * step, alpha, penalty) for sign in (1, -1))
        columns.append(((ahead - behind) / (2.0 * step[f, i]))[W != 0.0])
    return np.column_stack(columns)


@pytest.fixture(params=["by label", "diagonal"])
def exact(request, monkeypatch):
    """Conjugate gradients to the end, for each way to keep the second derivatives."""
    policy = replace(_edge_newton.POLICY, cg_tol=1e-13, cg_max=2000)
    if request.param == "diagonal":
        policy = replace(policy, systems_up_to=0)
    monkeypatch.setattr(_edge_newton, "POLICY", policy)
    return request.param


@pytest.mark.parametrize("density", [1.0, 0.4])
def test_direction_is_that_of_dense_algebra(exact, density, rng):
    X, Y, penalty, W = instance(rng, density=density)
    W[0, 0] = 1.0
    G = gradient(X, Y, W, 0.7, penalty)
    hessian = _Hessian(X.T @ X, W, 0.7, as_edges(penalty), 0.0, factorise=True)
    assert (hessian.systems is None) == (exact == "diagonal")
    H = dense_hessian(X, Y, W, 0.7, penalty)
    product = np.zeros_like(W)
    product[W != 0.0] = H @ G[W != 0.0]
    assert_allclose(hessian.product(G), product, rtol=1e-5, atol=1e-5)
    expected = np.zeros_like(W)
    expected[W != 0.0] = -np.linalg.solve(H, G[W != 0.0])
    direction, solved = hessian.direction(G)
    assert solved
    assert_allclose(direction, expected, rtol=1e-4, atol=1e-6 * np.abs(expected).max())


def test_preconditioner_is_the_inverse_where_no_edge_joins_labels(exact, rng):
    X, _, _, W = instance(rng)
    alone = EdgePenalty.from_affinity(sp.csr_array(np.eye(4)), self_edges=True)
    hessian = _Hessian(X.T @ X, W, 0.7, as_edges(alone), 0.0, factorise=True)
    if exact != "diagonal":
        V = rng.normal(size=W.shape)
        assert_allclose(hessian.precondition(hessian.product(V)), V, rtol=1e-9)


def test_features_of_length_zero_stay_out_of_the_direction(exact, rng):
    X, Y, penalty, W = instance(rng)
    X[:, 1], W[1] = 0.0, 0.0
    G = gradient(X, Y, W, 0.7, penalty)
    direction, solved = _Hessian(X.T @ X, W, 0.7, as_edges(penalty), 1e-6, factorise=False).direction(G)
    assert solved
    assert_array_equal(direction[1], 0.0)
    assert direction.any()


@pytest.mark.parametrize("density", [1.0, 0.5, 0.1])
@pytest.mark.parametrize("n", [30, 6])
def test_a_step_lowers_the_objective_by_what_it_says(density, n, rng):
    for alpha in (0.01, 0.5, 5.0):
        X, Y, penalty, W = instance(rng, n=n, d=5, density=density)
        newton, gram, slope = RidgedNewton(as_edges(penalty)), X.T @ X, X.T @ (X @ W - Y)
        for _ in range(8):
            before, zero = value(X, Y, W, alpha, penalty), W == 0.0
            fell = newton.step(gram, slope, W, alpha)
            assert fell >= 0.0
            assert_allclose(before - value(X, Y, W, alpha, penalty), fell, atol=1e-12 * before)
            assert_allclose(slope, X.T @ (X @ W - Y), atol=1e-10)
            assert not W[zero].any()


def test_steps_converge_quadratically(rng, exact):
    X, Y, penalty, _ = instance(rng, n=60)
    Y = X @ (1.0 + rng.random((5, 4)))  # weights far from zero
    W, newton, gram = np.ones((5, 4)), RidgedNewton(as_edges(penalty)), X.T @ X
    slope = X.T @ (X @ W - Y)
    sizes = [np.abs(gradient(X, Y, W, 0.5, penalty)).max()]
    for _ in range(6):
        newton.step(gram, slope, W, 0.5)
        sizes.append(np.abs(gradient(X, Y, W, 0.5, penalty)).max())
    assert (W > 0.0).all()
    assert sizes[2] <= 1e-4 * sizes[0]
    assert sizes[-1] <= 1e-8 * sizes[0]


def test_few_weights_are_pushed_as_all_are(rng, monkeypatch):
    X, Y, penalty, W = instance(rng, d=8, density=0.2)
    edges, gram = as_edges(penalty), X.T @ X
    found = []
    for sparse_below in (0.0, 2.0):
        monkeypatch.setattr(_edge_newton, "POLICY", replace(_edge_newton.POLICY, sparse_below=sparse_below))
        V, slope = W.copy(), X.T @ (X @ W - Y)
        RidgedNewton(edges).step(gram, slope, V, 0.5)
        found.append((V, slope))
    assert_allclose(found[0][0], found[1][0], rtol=1e-12)
    assert_allclose(found[0][1], found[1][1], atol=1e-11)
    assert not np.array_equal(found[0][0], W)


def test_nothing_to_do_without_weights(rng):
    X, Y, penalty, W = instance(rng)
    W[:] = 0.0
    slope = -X.T @ Y
    kept = slope.copy()
    assert RidgedNewton(as_edges(penalty)).step(X.T @ X, slope, W, 0.5) == 0.0
    assert_array_equal(W, 0.0)
    assert_array_equal(slope, kept)


def test_at_the_optimum_a_step_changes_nothing_that_counts(rng):
    X, Y, penalty, W = instance(rng, n=60)
    newton, gram, slope = RidgedNewton(as_edges(penalty)), X.T @ X, X.T @ (X @ W - Y)
    for _ in range(40):
        newton.step(gram, slope, W, 0.5)
    before = W.copy()
    newton.step(gram, slope, W, 0.5)
    assert_allclose(W, before, atol=1e-8)


def test_dependent_features_are_no_harm():
    """Fewer rows than weights of a label, and no curvature of the penalty: one label alone."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        X, Y = rng.normal(size=(8, 15)), (rng.random((8, 1)) < 0.5).astype(float)
        penalty = EdgePenalty.from_affinity(sp.csr_array([[1.0]]), self_edges=True)
        W = 0.1 * rng.normal(size=(15, 1))
        newton, gram, slope = RidgedNewton(as_edges(penalty)), X.T @ X, X.T @ (X @ W - Y)
        for _ in range(5):
            before = value(X, Y, W, 0.01, penalty)
            fell = newton.step(gram, slope, W, 0.01)
            assert fell <= before
            assert value(X, Y, W, 0.01, penalty) <= before * (1.0 + 1e-12)


def test_factors_are_made_where_they_are_cheap_or_the_diagonal_was_not_enough(rng, monkeypatch):
    X, Y, penalty, W = instance(rng)
    edges, gram = as_edges(penalty), X.T @ X
    assert _Hessian(gram, W, 0.5, edges, 0.0, factorise=False).systems is not None
    policy = replace(_edge_newton.POLICY, products_saved=0)
    monkeypatch.setattr(_edge_newton, "POLICY", policy)
    assert _Hessian(gram, W, 0.5, edges, 0.0, factorise=False).systems is None
    assert _Hessian(gram, W, 0.5, edges, 0.0, factorise=True).systems is not None
    for most, factorise in ((30, False), (1, True)):
        monkeypatch.setattr(_edge_newton, "POLICY", replace(policy, cg_max=most))
        newton = RidgedNewton(edges)
        newton.step(gram, X.T @ (X @ W - Y), W.copy(), 0.5)
        assert newton.factorise == factorise
