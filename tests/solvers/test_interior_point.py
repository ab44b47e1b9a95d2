"""The interior-point method against cvxpy, on well and badly scaled problems."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests import reference

from comargin.solvers._interior_point import interior_point_on_box


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "d"), [(30, 3), (10, 20), (1, 1), (200, 5)])
def test_matches_cvxpy(rng, n, d):
    M = rng.normal(size=(n, d))
    upper = 0.05 + rng.random(n)
    _, x = interior_point_on_box(M, np.full(n, -1.5), upper)
    assert (x >= 0).all()
    assert (x <= upper).all()
    value = 0.5 * np.sum((M.T @ x) ** 2) - 1.5 * x.sum()
    assert_allclose(value, reference.box_qp_optimum(M, np.full(n, -1.5), upper), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("offset", [100.0, 1000.0])
def test_finds_the_free_variables_of_unscaled_data(rng, offset):
    n, d = 400, 6
    M = np.where(rng.random(n) < 0.4, 2.0, -2.0)[:, None] * (rng.normal(size=(n, d)) + offset)
    upper = np.full(n, 0.5)
    _, x = interior_point_on_box(M, np.full(n, -2.0), upper)
    assert 0 < np.count_nonzero((x > 0) & (x < upper)) <= 3 * d
    dual = 2.0 * x.sum() - 0.5 * np.sum((M.T @ x) ** 2)
    assert dual == pytest.approx(-reference.box_qp_optimum(M, np.full(n, -2.0), upper), rel=1e-4)


def test_very_different_bounds(rng):
    M, upper = rng.normal(size=(50, 4)), np.logspace(-4, 3, 50)
    _, x = interior_point_on_box(M, -np.ones(50), upper)
    value = 0.5 * np.sum((M.T @ x) ** 2) - x.sum()
    assert_allclose(value, reference.box_qp_optimum(M, -np.ones(50), upper), rtol=1e-5)


def test_mixed_linear_term(rng):
    M, linear, upper = rng.normal(size=(80, 6)), rng.normal(size=80), 0.1 + rng.random(80)
    _, x = interior_point_on_box(M, linear, upper)
    value = 0.5 * np.sum((M.T @ x) ** 2) + linear @ x
    assert_allclose(value, reference.box_qp_optimum(M, linear, upper), rtol=1e-6)
