"""The interior-point method against cvxpy, on well and badly scaled problems."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.m3l import reference

from comargin.m3l._interior_point import LabelRows, interior_point_on_box


def one_label(M):
    return LabelRows(M, np.ones((len(M), 1)), np.ones((1, 1)), np.arange(len(M)))


def coupled(rng, n=12, d=3, n_labels=4, rank=2):
    """Some variables of several labels, and the rows of M that they stand for."""
    X, F = rng.normal(size=(n, d)), rng.normal(size=(n_labels, rank))
    S = np.where(rng.random((n, n_labels)) < 0.5, 1, -1).astype(np.int8)
    chosen = np.sort(rng.choice(n * n_labels, size=n * n_labels // 2, replace=False))
    M = S[:, :, None, None] * X[:, None, :, None] * F[None, :, None, :]
    return LabelRows(X, S, F, chosen), M.reshape(n * n_labels, d * rank)[chosen]


@pytest.mark.parametrize("shape", [{}, {"rank": 4}, {"n_labels": 1, "rank": 1}, {"n": 2, "d": 5}])
@pytest.mark.parametrize("fails", [False, True])
def test_rows_of_labels_are_those_of_the_matrix(rng, shape, fails, monkeypatch):
    """Also the way through triangles of the labels, taken when the sums cannot be factorised."""
    rows, M = coupled(rng, **shape)
    x, w = rng.normal(size=len(M)), rng.normal(size=M.shape[1])
    assert_allclose(rows.transposed(x), M.T @ x, atol=1e-12)
    assert_allclose(rows.times(w), M @ w, atol=1e-12)
    if fails:
        monkeypatch.setattr("comargin.m3l._interior_point.dpotrf", lambda normal: (normal, 1))
    weights = rng.random(len(M))
    T = np.triu(rows.triangle(weights))
    assert_allclose(T.T @ T, np.eye(M.shape[1]) + M.T @ (weights[:, None] * M), atol=1e-12)


def test_labels_that_depend_on_each_other(rng):
    rows, M = coupled(rng, n=40, d=4, n_labels=5, rank=3)
    linear, upper = -1.0 - rng.random(len(M)), 0.1 + rng.random(len(M))
    x, _ = interior_point_on_box(rows, linear, upper)
    value = 0.5 * np.sum((M.T @ x) ** 2) + linear @ x
    assert_allclose(value, reference.box_qp_optimum(M, linear, upper), rtol=1e-6)


def gap_at(M, linear, upper, x):
    gradient = M @ (M.T @ x) + linear
    return x @ np.maximum(gradient, 0.0) - (upper - x) @ np.minimum(gradient, 0.0)


@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_stops_at_the_gap_that_is_asked_for(rng, offset):
    M = np.where(rng.random(200) < 0.4, 2.0, -2.0)[:, None] * (rng.normal(size=(200, 4)) + offset)
    linear, upper = np.full(200, -2.0), np.full(200, 0.5)
    optimum = reference.box_qp_optimum(M, linear, upper)
    gaps = []
    for gap in (10.0, 0.1, 1e-6):
        x, _ = interior_point_on_box(one_label(M), linear, upper, gap=gap)
        gaps.append(gap_at(M, linear, upper, x))
        assert gaps[-1] <= gap
        assert 0.5 * np.sum((M.T @ x) ** 2) + linear @ x - optimum <= gap + 1e-6 * abs(optimum)
    assert gaps[0] > 10 * gaps[1] > 100 * gaps[2]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("n", "d"), [(30, 3), (10, 20), (1, 1), (200, 5)])
def test_matches_cvxpy(rng, n, d):
    M = rng.normal(size=(n, d))
    upper = 0.05 + rng.random(n)
    _, x = interior_point_on_box(one_label(M), np.full(n, -1.5), upper)
    assert (x >= 0).all()
    assert (x <= upper).all()
    value = 0.5 * np.sum((M.T @ x) ** 2) - 1.5 * x.sum()
    assert_allclose(value, reference.box_qp_optimum(M, np.full(n, -1.5), upper), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("offset", [100.0, 1000.0])
def test_finds_the_free_variables_of_unscaled_data(rng, offset):
    n, d = 400, 6
    M = np.where(rng.random(n) < 0.4, 2.0, -2.0)[:, None] * (rng.normal(size=(n, d)) + offset)
    upper = np.full(n, 0.5)
    _, x = interior_point_on_box(one_label(M), np.full(n, -2.0), upper)
    assert 0 < np.count_nonzero((x > 0) & (x < upper)) <= 3 * d
    dual = 2.0 * x.sum() - 0.5 * np.sum((M.T @ x) ** 2)
    assert dual == pytest.approx(-reference.box_qp_optimum(M, np.full(n, -2.0), upper), rel=1e-4)


def test_very_different_bounds(rng):
    M, upper = rng.normal(size=(50, 4)), np.logspace(-4, 3, 50)
    _, x = interior_point_on_box(one_label(M), -np.ones(50), upper)
    value = 0.5 * np.sum((M.T @ x) ** 2) - x.sum()
    assert_allclose(value, reference.box_qp_optimum(M, -np.ones(50), upper), rtol=1e-5)


def test_mixed_linear_term(rng):
    M, linear, upper = rng.normal(size=(80, 6)), rng.normal(size=80), 0.1 + rng.random(80)
    _, x = interior_point_on_box(one_label(M), linear, upper)
    value = 0.5 * np.sum((M.T @ x) ** 2) + linear @ x
    assert_allclose(value, reference.box_qp_optimum(M, linear, upper), rtol=1e-6)
