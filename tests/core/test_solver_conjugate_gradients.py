"""Conjugate gradients against dense algebra."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from comargin.core.conjugate_gradients import conjugate_gradients


@pytest.mark.parametrize("preconditioned", [False, True])
def test_solves_a_system(rng, preconditioned):
    M = rng.normal(size=(12, 8)) * np.geomspace(1.0, 100.0, 8)
    A, right = np.eye(8) + M.T @ M, rng.normal(size=(8, 3))
    before = right.copy()
    options = {"precondition": lambda V: V / np.diag(A)[:, None]} if preconditioned else {}
    x, n_products, met = conjugate_gradients(lambda V: A @ V, right, 1e-10, 500, **options)
    assert met
    assert 3 <= n_products < 500
    assert_allclose(x, np.linalg.solve(A, right), rtol=1e-6, atol=1e-9)
    assert_array_equal(right, before)


def test_ends_at_the_limit_and_without_curvature(rng):
    A, right = np.diag([1.0, 10.0, 100.0]), np.ones(3)
    x, n_products, met = conjugate_gradients(lambda v: A @ v, right, 1e-12, 2)
    assert (n_products, met) == (2, False)
    assert x @ A @ x / 2 - right @ x < 0.0
    x, n_products, met = conjugate_gradients(lambda v: 0.0 * v, right, 1e-12, 9)
    assert (n_products, met) == (1, False)
    assert not x.any()
    assert conjugate_gradients(lambda v: A @ v, 0.0 * right, 0.1, 9)[1:] == (0, True)
