"""Pairs with variables in a box against loops over all pairs; the smoothed hinge against its definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.rank import naive_rank as naive

from comargin.rank import _loops_svm as _rank_svm

NAMES = [name for name, value in vars(_rank_svm).items() if callable(value) and name != "kernel"]


@pytest.fixture(params=["compiled", "plain"], autouse=True)
def flavour(request, monkeypatch):
    """Every function of the module compiled, or none."""
    if request.param == "plain":
        for name in NAMES:
            function = getattr(_rank_svm, name)
            monkeypatch.setattr(_rank_svm, name, getattr(function, "py_func", function))


class Pairs:
    """Rows of which one has one relevant label and one all but one; every second one has unknown labels."""

    def __init__(self, rng, n=6, n_labels=5):
        self.Y = rng.random((n, n_labels)) < 0.5
        self.Y[:, 0], self.Y[:, -1] = True, False
        self.Y[0, 1:], self.Y[-1, :-1] = False, True
        side = np.where(self.Y, 0, 1)
        side[1::2, 1 : n_labels // 2] = 2
        side = rng.permuted(side, axis=1)
        self.Y = np.where(side == 2, np.nan, side == 0)
        self.F = rng.normal(size=(n, n_labels))
        self.cost = 0.2 + rng.random(n)
        counts = (side == 0).sum(axis=1), (side < 2).sum(axis=1)
        begin = np.concatenate([[0], np.cumsum(counts[0] * (counts[1] - counts[0]))])
        order = np.argsort(side, axis=1, kind="stable")
        self.pairs = (*(each.astype(np.int32) for each in (order, *counts)), begin)
        self.P = naive.list_pairs(self.Y)  # labels of equal rank stand in their order: the order of the kernels
        self.top = np.array([self.cost[i] for i, _, _ in self.P])
        self.x = self.top * np.clip(rng.normal(0.5, 0.6, len(self.P)), 0.0, 1.0)
        self.x[:2] = 0.0, self.top[1]

    def short(self, F):
        return np.array([1.0 - F[i, m] + F[i, n] for i, m, n in self.P])

    def terms(self, F, length, centre):
        x, beta = np.full(len(self.P), np.nan), np.full(F.shape, np.nan)
        excess = _rank_svm.rank_svm_terms(F, *self.pairs, self.cost, length, centre, x, beta)
        return excess, x, beta

    def smoothed(self, F, length, centre):
        """Max over the box of x s - (x - a)^2 / (2 t), at the best of a fine grid and the closed form."""
        s, t = self.short(F), length * self.top
        x = np.clip(centre + t * s, 0.0, self.top)
        value = x * s - (x - centre) ** 2 / (2 * t)
        grid = np.linspace(0.0, 1.0, 1001)[:, None] * self.top
        assert np.all(value >= (grid * s - (grid - centre) ** 2 / (2 * t)).max(axis=0) - 1e-14)
        return value.sum(), x


@pytest.mark.parametrize("n_labels", [2, 5, 8])
@pytest.mark.parametrize("length", [0.01, 1.0, 1e6])
def test_terms_are_maximisers_in_the_box(n_labels, length, rng):
    pairs = Pairs(rng, n_labels=n_labels)
    excess, x, beta = pairs.terms(pairs.F, length, pairs.x)
    _, expected = pairs.smoothed(pairs.F, length, pairs.x)
    assert_allclose(x, expected, rtol=1e-13, atol=1e-15)
    assert np.all((x >= 0.0) & (x <= pairs.top))
    assert_allclose(beta, naive.coefficients(pairs.Y, x), atol=1e-13)
    short = pairs.short(pairs.F)
    assert_allclose(excess, np.sum(pairs.top * np.maximum(short, 0.0) - x * short), rtol=1e-12, atol=1e-13)
    assert excess >= 0.0


@pytest.mark.parametrize("length", [0.05, 2.0])
def test_beta_is_minus_the_gradient_and_curvature_that_of_beta(length, rng):
    pairs = Pairs(rng)
    _, x, beta = pairs.terms(pairs.F, length, pairs.x)
    V, h = rng.normal(size=pairs.F.shape), 1e-6
    ahead, behind = pairs.F + h * V, pairs.F - h * V
    slope = (pairs.smoothed(ahead, length, pairs.x)[0] - pairs.smoothed(behind, length, pairs.x)[0]) / (2 * h)
    assert_allclose(slope, -np.sum(beta * V), rtol=1e-6)
    out = np.full(V.shape, np.nan)
    _rank_svm.rank_svm_curvature(V, *pairs.pairs, pairs.cost, length, x, out)
    change = pairs.terms(ahead, length, pairs.x)[2] - pairs.terms(behind, length, pairs.x)[2]
    assert_allclose(out, -change / (2 * h), atol=1e-7)
    assert np.abs(out).max() > 1e-2


def test_curvature_is_a_laplacian_of_the_variables_inside(rng):
    pairs = Pairs(rng, n=4)
    size = pairs.F.size
    D = np.empty((size, size))
    for column, unit in zip(D.T, np.eye(size), strict=True):
        out = np.empty(pairs.F.shape)
        _rank_svm.rank_svm_curvature(unit.reshape(pairs.F.shape), *pairs.pairs, pairs.cost, 3.0, pairs.x, out)
        column[:] = out.ravel()
    expected = np.zeros((size, size))
    for (i, m, n), x, top in zip(pairs.P, pairs.x, pairs.top, strict=True):
        h = np.zeros(pairs.F.shape)
        h[i, m], h[i, n] = 1.0, -1.0
        expected += 3.0 * top * (0.0 < x < top) * np.outer(h, h)
    assert_allclose(D, expected, atol=1e-13)
    assert np.linalg.eigvalsh(D).min() > -1e-12


def test_coefficients_and_hinge(rng):
    pairs = Pairs(rng)
    beta = np.full(pairs.Y.shape, np.nan)
    _rank_svm.rank_svm_coefficients(pairs.x, *pairs.pairs, beta)
    assert_allclose(beta, naive.coefficients(pairs.Y, pairs.x), atol=1e-14)
    assert_allclose(beta.sum(axis=1), 0.0, atol=1e-14)
    expected = np.sum(pairs.top * np.maximum(pairs.short(pairs.F), 0.0))
    assert_allclose(_rank_svm.rank_hinge(pairs.F, *pairs.pairs[:-1], pairs.cost), expected, rtol=1e-13)
    apart = 100.0 * np.nan_to_num(pairs.Y, nan=7.0)
    assert _rank_svm.rank_hinge(apart, *pairs.pairs[:-1], pairs.cost) == 0.0


def test_shift_moves_by_parts_of_the_room_and_keeps_bounds(rng):
    pairs = Pairs(rng)
    n_labels = pairs.Y.shape[1]
    room = np.full((n_labels, n_labels), np.nan)
    _rank_svm.rank_svm_room(pairs.x, *pairs.pairs, pairs.cost, room)
    expected = np.zeros((n_labels, n_labels))
    for (_, m, n), x, top in zip(pairs.P, pairs.x, pairs.top, strict=True):
        expected[m, n] += min(x, top - x)
    assert_allclose(room, expected, atol=1e-14)
    before = naive.coefficients(pairs.Y, pairs.x).sum(axis=0)
    part = rng.uniform(-1.0, 1.0, size=(n_labels, n_labels))
    x = pairs.x.copy()
    _rank_svm.rank_svm_shift(x, *pairs.pairs, pairs.cost, part)
    moved = [part[m, n] * min(v, top - v) for (_, m, n), v, top in zip(pairs.P, pairs.x, pairs.top, strict=True)]
    assert_allclose(x, pairs.x + moved, atol=1e-15)
    # A flow part * room between labels changes their sums by its divergence.
    flow = part * room
    after = naive.coefficients(pairs.Y, x).sum(axis=0)
    assert_allclose(after - before, flow.sum(axis=1) - flow.sum(axis=0), atol=1e-13)
    for extreme in (-1.0, 1.0):
        y = pairs.x.copy()
        _rank_svm.rank_svm_shift(y, *pairs.pairs, pairs.cost, np.full((n_labels, n_labels), extreme))
        assert np.all((y >= 0.0) & (y <= pairs.top))
        at_bound = (pairs.x == 0.0) | (pairs.x == pairs.top)
        assert at_bound.sum() >= 2
        assert_array_equal(y[at_bound], pairs.x[at_bound])


def test_compiled_equals_plain(monkeypatch):
    results = []
    for plain in (False, True):
        for name in NAMES if plain else ():
            function = getattr(_rank_svm, name)
            monkeypatch.setattr(_rank_svm, name, getattr(function, "py_func", function))
        pairs = Pairs(np.random.default_rng(3), n_labels=6)
        excess, x, beta = pairs.terms(pairs.F, 0.7, pairs.x)
        out, room = np.empty(beta.shape), np.empty((6, 6))
        _rank_svm.rank_svm_curvature(pairs.F, *pairs.pairs, pairs.cost, 0.7, x, out)
        _rank_svm.rank_svm_room(x, *pairs.pairs, pairs.cost, room)
        _rank_svm.rank_svm_shift(x, *pairs.pairs, pairs.cost, 0.1 * (room - room.T).clip(-1.0, 1.0))
        again = np.empty(beta.shape)
        _rank_svm.rank_svm_coefficients(x, *pairs.pairs, again)
        hinge = _rank_svm.rank_hinge(pairs.F, *pairs.pairs[:-1], pairs.cost)
        results.append([excess, x, beta, out, room, again, hinge])
    for compiled, plain in zip(*results, strict=True):
        assert_allclose(compiled, plain, rtol=1e-12, atol=1e-14)
