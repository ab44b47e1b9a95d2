"""Projected Newton on a box against an interior-point solver."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.m3l import reference

from comargin.m3l._box_newton import newton_on_box


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("rank", [3, 20])
def test_reaches_the_minimum(rng, rank):
    M = rng.normal(size=(20, rank)) * np.logspace(0, 2, rank)
    Q, c = M @ M.T, rng.normal(size=20) - 1.0
    upper = 0.1 + rng.random(20)
    upper[0] = 0.0
    start = upper * rng.random(20)
    x = newton_on_box(Q, Q @ start + c, start, upper)
    assert (x >= 0).all()
    assert (x <= upper).all()
    value = 0.5 * x @ Q @ x + c @ x
    assert_allclose(value, reference.box_qp_optimum(M, c, upper), rtol=1e-6, atol=1e-8)


def test_never_worse_when_stopped_early(rng):
    M = rng.normal(size=(30, 10))
    Q, c, upper, start = M @ M.T, rng.normal(size=30), np.ones(30), rng.random(30)

    def value(x):
        return 0.5 * x @ Q @ x + c @ x

    values = [value(newton_on_box(Q, Q @ start + c, start, upper, max_flops=f)) for f in (0, 2e4, 1e5, 1e9)]
    assert values[0] == value(start)
    assert all(b <= a + 1e-12 for a, b in itertools.pairwise(values))
    assert values[-1] < values[0] - 1e-3


def test_nothing_to_do():
    x = np.array([0.0, 1.0])
    assert_allclose(newton_on_box(np.eye(2), np.array([1.0, -1.0]), x, np.ones(2)), x)
