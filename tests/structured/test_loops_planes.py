"""Planes of the restricted problem against dense joint features; the smoothed loss against other projections."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import brentq
from tests.structured.reference_structured import all_labelings, features, label_products, state_signs
from tests.structured.reference_structured import solve as solve_cvxpy

from comargin.structured._loops import Known
from comargin.structured._loops_planes import (
    Planes,
    plane_fill,
    plane_scores,
    plane_sizes,
    plane_sums,
    projection_derivative,
    smoothed_loss,
)
from comargin.structured.cliques import CliqueSet
from comargin.structured.labelings import layout_of

GRAPHS = {
    "one label": CliqueSet(1),
    "nodes": CliqueSet(3),
    "tree": CliqueSet(3, ((0, 1), (1, 2)), (0, 0)),
    "triple": CliqueSet(4, ((2, 0, 3), (1, 3), (0, 1)), (0, 1, 1)),
}


def make(rng, graph, n=6):
    """Some rows of ``n``, one with its true labeling only, and all their planes as dense arrays."""
    cliques = GRAPHS[graph]
    labelings = all_labelings(cliques.n_labels).astype(np.uint8)
    labels = labelings[rng.integers(len(labelings), size=(n, 5))]
    truth = labels[:, 0].copy()
    count = rng.integers(1, 6, size=n).astype(np.int32)
    count[4], count[2] = 1, 5
    known = Known(labels, rng.random((n, 5)), np.zeros((n, 5), dtype=np.int32), count)
    cost = rng.normal(0.5, 1.0, size=truth.shape)
    rows = np.array([2, 4, 0, 5])
    B = [
        label_products(labels[i, : count[i]], cliques.subsets) - label_products(truth[[i]], cliques.subsets)
        for i in rows
    ]
    delta = [
        sum(cost[i, k] for k in range(cliques.n_labels) if labels[i, p, k] != truth[i, k])
        for i in rows
        for p in range(count[i])
    ]
    return cliques, truth, cost, known, rows, B, np.array(delta, dtype=float)


def build(cliques, truth, cost, known, rows, B):
    """Planes and Delta by the kernels."""
    layout = layout_of(cliques)
    begin = np.cumsum([0] + [len(block) for block in B])
    start = np.full(begin[-1] + 1, -1, dtype=np.int64)
    plane_sizes(rows, truth, layout, known, start)
    assert_array_equal(start, np.append(0, np.count_nonzero(np.vstack(B), axis=1)))
    start = np.cumsum(start)
    columns, values = np.full(start[-1], -1, dtype=np.int32), np.full(start[-1], np.nan)
    delta = np.full(begin[-1], np.nan)
    plane_fill(rows, truth, cost, layout, known, start, columns, values, delta)
    return Planes(begin, start, columns, values), delta


@pytest.mark.parametrize("graph", GRAPHS)
def test_planes_are_differences_of_features(graph, rng):
    *given, B, expected = make(rng, graph)
    planes, delta = build(*given, B)
    dense = np.zeros((len(delta), len(given[0].subsets)))
    for p in range(len(delta)):
        for q in range(planes.start[p], planes.start[p + 1]):
            dense[p, planes.columns[q]] += planes.values[q]
    assert np.abs(dense).max() == 1.0
    assert_array_equal(dense, np.vstack(B))
    cliques, truth, _, known, rows = given
    differences = [features(cliques, known.labels[i, : known.count[i]]) - features(cliques, truth[[i]]) for i in rows]
    signs = state_signs(cliques.n_labels, cliques.cliques, cliques.subsets)
    assert_array_equal(dense @ signs.T, np.vstack(differences))
    assert_allclose(delta, expected, rtol=1e-14)


@pytest.mark.parametrize("graph", GRAPHS)
def test_scores_and_sums(graph, rng):
    *given, B, _ = make(rng, graph)
    planes, _ = build(*given, B)
    n_planes, n_moments = planes.begin[-1], len(given[0].subsets)
    theta = rng.normal(size=(4, n_moments))
    scores = np.full(n_planes, np.nan)
    plane_scores(planes, theta, scores)
    assert_allclose(scores, np.concatenate([block @ row for block, row in zip(B, theta, strict=True)]), atol=1e-14)
    a = rng.normal(size=n_planes) * (rng.random(n_planes) < 0.7)
    sums = np.full((4, n_moments), np.nan)
    plane_sums(planes, a, sums)
    parts = np.split(a, planes.begin[1:-1])
    assert_allclose(sums, [part @ block for part, block in zip(parts, B, strict=True)], atol=1e-14)


def test_no_planes(rng):
    planes = Planes(np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int32), np.zeros(0))
    plane_scores(planes, np.zeros((0, 3)), np.zeros(0))
    plane_sums(planes, np.zeros(0), np.zeros((0, 3)))
    nothing = np.zeros(0)
    assert smoothed_loss(planes.begin, nothing, nothing, nothing, 1.0, nothing) == 0.0
    projection_derivative(planes.begin, nothing, nothing)


def ragged(rng, sizes=(1, 4, 2, 7, 3)):
    """Rows of several planes, with a centre on each simplex; some scores tie."""
    begin = np.cumsum((0, *sizes))
    mass = 0.1 + rng.random(len(sizes))
    centre = rng.random(begin[-1]) * (rng.random(begin[-1]) < 0.6)
    for r, (first, last) in enumerate(itertools.pairwise(begin)):
        centre[first] += 0.1
        centre[first:last] *= mass[r] / centre[first:last].sum()
    scores = np.round(rng.normal(size=begin[-1]), 1)
    scores[1:3] = scores[3]
    return begin, mass, centre, scores


def projection(z, mass):
    """Onto the simplex, by a root of the sum in the threshold."""
    threshold = brentq(
        lambda t: np.maximum(z - t, 0.0).sum() - mass, z.min() - 2.0 * mass, z.max(), xtol=1e-15, rtol=1e-15
    )
    return np.maximum(z - threshold, 0.0)


@pytest.mark.parametrize("sigma", [1e-3, 0.3, 10.0, 1e4])
def test_smoothed_loss_projects(sigma, rng):
    begin, mass, centre, scores = ragged(rng)
    a = np.full(begin[-1], np.nan)
    given = centre.copy(), scores.copy()
    value = smoothed_loss(begin, mass, centre, scores, sigma, a)
    assert_array_equal(centre, given[0])
    assert_array_equal(scores, given[1])
    expected = np.concatenate(
        [projection((centre + sigma * scores)[begin[r] : begin[r + 1]], mass[r]) for r in range(len(mass))]
    )
    rounding = 1e-13 * (1.0 + sigma)
    assert a.min() >= 0.0
    assert_allclose(np.add.reduceat(a, begin[:-1]), mass, atol=rounding)
    assert_allclose(a, expected, atol=rounding)
    assert_allclose(value, expected @ scores - np.sum((expected - centre) ** 2) / (2 * sigma), atol=10 * rounding)
    # Between the linear form at the centre and the loss itself, which it becomes as sigma grows.
    loss = mass @ np.maximum.reduceat(scores, begin[:-1])
    assert centre @ scores - rounding <= value <= loss + 10 * rounding
    assert loss - value <= np.sum(mass**2) / sigma + 10 * rounding


def test_smoothed_loss_is_the_maximum(rng):
    """The definition of h itself, given to cvxpy."""
    begin, mass, centre, scores = ragged(rng, sizes=(4, 1, 3))
    a = np.empty(begin[-1])
    value = smoothed_loss(begin, mass, centre, scores, 0.7, a)
    b = cp.Variable(begin[-1], nonneg=True)
    on_simplex = [cp.sum(b[begin[r] : begin[r + 1]]) == mass[r] for r in range(len(mass))]
    model = cp.Problem(cp.Maximize(b @ scores - cp.sum_squares(b - centre) / 1.4), on_simplex)
    solve_cvxpy(model)
    assert_allclose(value, model.value, rtol=1e-7)
    assert_allclose(a, b.value, atol=1e-4)


def test_smoothed_loss_by_hand():
    # Row of mass 1 around (1, 0) with scores (0, 1), sigma = 1/2: P(1, 1/2) = (3/4, 1/4), h = 1/4 - 1/8 = 1/8.
    # Row of mass 2 and one plane: all of it, h = 2 * 3.
    a = np.empty(3)
    value = smoothed_loss(
        np.array([0, 2, 3]), np.array([1.0, 2.0]), np.array([1.0, 0.0, 2.0]), np.array([0.0, 1.0, 3.0]), 0.5, a
    )
    assert_allclose(a, [0.75, 0.25, 2.0])
    assert_allclose(value, 0.125 + 6.0)


def test_gradient_of_the_smoothed_loss_is_its_masses(rng):
    begin, mass, centre, scores = ragged(rng)
    a, scratch = np.empty(begin[-1]), np.empty(begin[-1])
    smoothed_loss(begin, mass, centre, scores, 0.4, a)
    for p in range(begin[-1]):
        values = []
        for step in (1e-6, -1e-6):
            moved = scores.copy()
            moved[p] += step
            values.append(smoothed_loss(begin, mass, centre, moved, 0.4, scratch))
        assert_allclose((values[0] - values[1]) / 2e-6, a[p], atol=2e-6)


def test_derivative_of_the_projection(rng):
    """a(scores + step) - a(scores) = sigma J step, exactly on a piece where the same planes have mass."""
    begin, mass, centre, _ = ragged(rng)
    scores = rng.normal(size=begin[-1])  # no ties: these are at the border of two pieces
    sigma, step = 0.1, 1e-7
    direction = rng.normal(size=begin[-1])
    a, forward, backward = np.empty(begin[-1]), np.empty(begin[-1]), np.empty(begin[-1])
    smoothed_loss(begin, mass, centre, scores, sigma, a)
    smoothed_loss(begin, mass, centre, scores + step * direction, sigma, forward)
    smoothed_loss(begin, mass, centre, scores - step * direction, sigma, backward)
    assert_array_equal(forward > 0.0, a > 0.0)
    change, given = direction.copy(), a.copy()
    projection_derivative(begin, a, change)
    assert_array_equal(a, given)
    assert np.count_nonzero(change) > 4
    assert_allclose(sigma * change, (forward - backward) / (2.0 * step), atol=1e-7)


def test_derivative_by_hand():
    # Mean 3 of the two with mass is taken away; a row with one plane cannot move, a row without mass does not.
    change = np.array([1.0, 100.0, 5.0, 7.0, 2.0, 3.0])
    projection_derivative(np.array([0, 3, 4, 6]), np.array([0.3, 0.0, 0.7, 1.0, 0.0, 0.0]), change)
    assert_array_equal(change, [-2.0, 0.0, 2.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("sigma", [1e8, 1e14])
def test_masses_stay_on_the_simplex_for_a_large_sigma(sigma):
    a = np.empty(2)
    smoothed_loss(np.array([0, 2]), np.array([1e-4]), np.array([1e-4, 0.0]), np.array([5.0, 1.0]), sigma, a)
    assert_allclose(a, [1e-4, 0.0], rtol=1e-6)


def test_compiled_and_plain_bodies_are_the_same(rng):
    begin, mass, centre, scores = ragged(rng)
    results = []
    for functions in (
        (smoothed_loss, projection_derivative),
        [getattr(f, "py_func", f) for f in (smoothed_loss, projection_derivative)],
    ):
        a, change = np.empty(begin[-1]), scores.copy()
        value = functions[0](begin, mass, centre, scores, 0.4, a)
        functions[1](begin, a, change)
        results.append((value, a, change))
    for compiled, plain in zip(*results, strict=True):
        assert_allclose(compiled, plain, rtol=1e-13, atol=1e-15)
