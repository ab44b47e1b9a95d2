"""Newton steps: the linear system against a dense solve, quadratics in one step, descent on losses with kinks."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.rank import pairwise

from comargin.rank import _newton as module
from comargin.rank._newton import newton_step
from comargin.rank.cvm_solver import SquaredHinge
from comargin.rank.problem import RankProblem


def dense(K, noise=0.0):
    """The product with K, with a relative error like that of float32."""
    return lambda V: (K @ V) * (1.0 + noise * np.cos(np.arange(V.size)).reshape(V.shape))


class Quadratic:
    """1/2 |A (f - t)|^2 for a matrix A that mixes all scores of a row."""

    def __init__(self, rng, shape):
        n, n_labels = shape
        A = rng.normal(size=(n, n_labels, n_labels))
        self.D, self.target = A @ A.transpose(0, 2, 1), rng.normal(size=shape)

    def curvature(self, V):
        return np.einsum("ikl,il->ik", self.D, V)

    def evaluate(self, F):
        self.beta = -self.curvature(F - self.target)

    def value(self, F):
        return 0.5 * np.sum((F - self.target) * self.curvature(F - self.target))


def step(loss, K, coef, gain=0.0, noise=0.0):
    F = K @ coef
    loss.evaluate(F)
    residual = coef - loss.beta
    return newton_step(loss, dense(K, noise), coef, F, residual, K @ residual, gain)


def kernel(rng, n, rank=None):
    X = rng.normal(size=(n, rank or n + 2))
    return X @ X.T


@pytest.mark.parametrize("rank", [None, 2])
def test_direction_solves_the_newton_system(rank, rng):
    n, n_labels = 7, 3
    K, loss = kernel(rng, n, rank), Quadratic(rng, (n, n_labels))
    residual = rng.normal(size=(n, n_labels))
    d, Kd = module._conjugate_gradients(loss.curvature, dense(K), -residual, -K @ residual, 1e-12)
    KI = np.kron(K, np.eye(n_labels))
    D = np.zeros((n * n_labels, n * n_labels))
    for i in range(n):
        D[i * n_labels : (i + 1) * n_labels, i * n_labels : (i + 1) * n_labels] = loss.D[i]
    expected = np.linalg.solve(np.eye(len(D)) + D @ KI, -residual.ravel()).reshape(n, n_labels)
    assert_allclose(Kd, K @ expected, atol=1e-9 * np.abs(K @ expected).max())
    assert_allclose(Kd, K @ d, atol=1e-9 * np.abs(Kd).max())
    loose, _ = module._conjugate_gradients(loss.curvature, dense(K), -residual, -K @ residual, 0.5)
    system = residual + loose + loss.curvature(K @ loose)
    assert np.vdot(system, K @ system) <= 0.25 * np.vdot(residual, K @ residual) * (1 + 1e-9)


def test_a_quadratic_needs_one_exact_step(rng, monkeypatch):
    monkeypatch.setattr(module, "POLICY", replace(module.POLICY, cg_tolerances=(1e-12, 0.5)))
    n, n_labels = 6, 3
    K, loss = kernel(rng, n), Quadratic(rng, (n, n_labels))
    coef = step(loss, K, rng.normal(size=(n, n_labels)))
    loss.evaluate(K @ coef)
    assert np.abs(loss.target).max() > 0.1
    assert_allclose(K @ coef, K @ loss.beta, atol=1e-7 * np.abs(K @ loss.beta).max())


@pytest.mark.parametrize(("gain", "noise"), [(0.0, 0.0), (0.3, 0.0), (np.inf, 0.0), (0.3, 1e-7)])
def test_loose_steps_converge_on_a_quadratic(gain, noise, rng):
    n, n_labels = 6, 3
    K, loss = kernel(rng, n), Quadratic(rng, (n, n_labels))
    coef, lengths = np.zeros((n, n_labels)), []
    for _ in range(60):
        coef = step(loss, K, coef, gain, noise)
        loss.evaluate(K @ coef)
        lengths.append(np.sqrt(np.sum((coef - loss.beta) * (K @ (coef - loss.beta)))))
    assert lengths[-1] < 1e-8 * lengths[0]


@pytest.mark.parametrize("C", [0.1, 10.0, 1e4])
def test_squared_hinge_falls_to_its_minimum(C, rng):
    n, n_labels = 15, 4
    Y = rng.random((n, n_labels)) < 0.5
    Y[:, 0], Y[:, 1] = True, False
    K = kernel(rng, n, 3) + 1.0
    problem = RankProblem.of(Y, np.ones(n), C)
    loss, coef = SquaredHinge(problem), np.zeros((n, n_labels))

    def value(coef):
        return 0.5 * np.sum(coef * (K @ coef)) + pairwise.squared_hinge(problem, K @ coef)

    values = [value(coef)]
    for _ in range(40):
        coef = step(loss, K, coef, 0.0)
        values.append(value(coef))
        loss.evaluate(K @ coef)
        if np.abs(K @ (coef - loss.beta)).max() < 1e-7 * np.abs(K @ coef).max():
            break
    assert len(values) < 40
    assert np.all(np.diff(values) <= 1e-12 * values[0])
    # beta is a dual point: half of its sum is no more than the minimum when it is the optimum.
    assert values[-1] < 0.9 * values[0]
    dual = loss.total - 0.5 * (np.sum(loss.beta * (K @ loss.beta)) + loss.squares)
    assert_allclose(values[-1], dual, rtol=1e-5)


def test_line_search_shortens_steps_that_go_too_far(rng):
    """A loss whose curvature is understated by a factor: the Newton direction is too long by it."""
    n, n_labels = 5, 2
    K, loss = kernel(rng, n), Quadratic(rng, (n, n_labels))
    true = loss.curvature

    class Understated(Quadratic):
        def __init__(self):
            self.D, self.target = loss.D, loss.target

        def curvature(self, V):
            return 1e-3 * true(V)

        def evaluate(self, F):
            self.beta = -true(F - self.target)

    coef = rng.normal(size=(n, n_labels))
    before = 0.5 * np.sum(coef * (K @ coef)) + loss.value(K @ coef)
    new = step(Understated(), K, coef)
    assert 0.5 * np.sum(new * (K @ new)) + loss.value(K @ new) < before


def test_no_step_from_the_minimum():
    K, coef = np.eye(2), np.zeros((2, 2))

    class Nothing:
        beta = np.zeros((2, 2))

        def evaluate(self, F):
            pass

        def curvature(self, V):
            return V

    new = newton_step(Nothing(), dense(K), coef, coef, coef, coef, 1.0)
    assert_allclose(new, coef, atol=0)
