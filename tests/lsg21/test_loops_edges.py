"""The penalty of a row on a label graph: its proximal map, dual bound, steps and derivatives, against plain NumPy."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.lsg21 import reference_lsg21 as reference

from comargin.lsg21._loops_edges import (
    conjugate_directions,
    conjugate_steps,
    edge_curvature,
    edge_curvature_diagonal,
    edge_descent,
    edge_excess,
    edge_penalty,
    edge_slope,
    edge_weights,
    row_penalty,
)
from comargin.lsg21._loops_prox import least_left_over, left_over, shrink_row
from comargin.lsg21.problem import EdgePenalty
from comargin.lsg21.solver import as_edges, scratch_for

EXACT = 1e-12
KINDS = ["none", "chain", "star", "complete", "equal", "random", "two parts", "wild"]


def affinity(kind, n_labels, rng, own=0.5):
    """A symmetric A; ``own`` is the share of labels with a self edge."""
    A, all_pairs = np.zeros((n_labels, n_labels)), rng.uniform(0.1, 1.0, (n_labels, n_labels))
    if kind == "chain":
        A[np.arange(n_labels - 1), np.arange(1, n_labels)] = rng.uniform(0.1, 1.0, n_labels - 1)
    elif kind == "star":
        A[0] = all_pairs[0]
    elif kind == "complete":
        A = all_pairs
    elif kind == "equal":
        A = np.ones_like(A)
    elif kind == "random":
        A = all_pairs * (rng.random(A.shape) < 0.3)
    elif kind == "two parts":
        half = n_labels // 2
        A[:half, :half], A[half:, half:] = all_pairs[:half, :half], all_pairs[half:, half:]
    elif kind == "wild":
        A = 10.0 ** rng.uniform(-8.0, 2.0, A.shape) * (rng.random(A.shape) < 0.5)
    A = np.maximum(A, A.T)
    np.fill_diagonal(A, rng.uniform(0.1, 1.0, n_labels) * (rng.random(n_labels) < own))
    return A


def loops(A):
    """What the loops take for A, with self edges."""
    penalty = EdgePenalty.from_affinity(sp.csr_array(A), self_edges=True)
    edges = as_edges(penalty)
    return penalty, edges, scratch_for(edges)


def shrunk(h, alpha, A, w=None, scale=1.0, accuracy=EXACT):
    """prox_{alpha Omega}(h) by the loop, with signs."""
    _, edges, scratch = loops(A)
    shrink_row(h, np.zeros_like(h) if w is None else w, scale, alpha, edges, scratch, accuracy)
    return np.copysign(scratch.left, h) * (scratch.left > 0.0)


def shrunk_by_projection(h, alpha, A, n_steps=1500):
    """The same by accelerated projection of all parts at once, and the duality gap that is left."""
    penalty, _, _ = loops(A)
    n_labels = len(h)
    labels = np.concatenate([penalty.first, penalty.second])
    radius = alpha * penalty.weight
    parts, before, t = np.zeros((2, radius.size)), np.zeros((2, radius.size)), 1.0
    own = np.clip(h, -alpha * penalty.own, alpha * penalty.own)  # taken first, for good: it only shortens what is left
    v = h - own
    step = 1.0 / max(np.bincount(labels, minlength=1).max(initial=1), 1)
    best = (math.inf, v)

    def rest(parts):
        return v - np.bincount(labels, weights=parts.ravel(), minlength=n_labels)

    for k in range(n_steps):
        t_next = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * t * t))
        moved = parts + (t - 1.0) / t_next * (parts - before)
        u = rest(moved)
        moved = moved + step * np.stack([u[penalty.first], u[penalty.second]])
        lengths = np.hypot(*moved)
        before, t = parts, t_next
        parts = moved * np.minimum(1.0, radius / np.maximum(lengths, 1e-300))
        if k % 50 == 49 or k == n_steps - 1:
            u = rest(parts)
            value = 0.5 * (u - h) @ (u - h) + alpha * (row_norm(u, penalty))
            gap = value - 0.5 * (h @ h - u @ u)
            best = min(best, (gap, u), key=lambda pair: pair[0])
            if gap <= 1e-12 * (h @ h):
                break
    return best[1], max(best[0], 0.0)


def row_norm(w, penalty):
    """Omega of one row, from the list of edges."""
    return float(np.abs(w) @ penalty.own + np.hypot(w[penalty.first], w[penalty.second]) @ penalty.weight)


def targets(kind, n_labels, rng):
    h = rng.normal(size=n_labels)
    if kind == "ties":
        h = rng.choice([-1.0, 1.0], n_labels)
    elif kind == "some zero":
        h[rng.random(n_labels) < 0.5] = 0.0
    elif kind == "spread":
        h *= 10.0 ** rng.uniform(-6.0, 3.0, n_labels)
    return h


# ---- the proximal map


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("own", [0.0, 0.7])
def test_prox_of_a_row_is_that_of_the_reference(kind, own, rng):
    for n_labels in (1, 2, 6):
        A, h = affinity(kind, n_labels, rng, own), targets("plain", n_labels, rng)
        alpha = 0.4 / max(A.sum(axis=0).max(), 1e-300)
        assert_allclose(shrunk(h, alpha, A), reference.prox(h, alpha, A), atol=2e-7, err_msg=str(n_labels))


@pytest.mark.parametrize("kind", ["chain", "star", "complete", "random", "wild"])
@pytest.mark.parametrize("n_labels", [5, 100])
@pytest.mark.compiled
def test_prox_of_many_labels_is_that_of_projections(kind, n_labels, rng):
    A = affinity(kind, n_labels, rng)
    for form in ("plain", "ties", "some zero", "spread"):
        h = targets(form, n_labels, rng)
        longest = np.abs(h).max()
        for share in (1e-6, 0.1, 0.5):
            alpha = share * longest / max(loops(A)[0].total.max(), 1e-300)
            expected, gap = shrunk_by_projection(h, alpha, A)
            # The proximal map is 1-strongly convex: ||u - expected||^2 <= 2 gap.
            away = np.linalg.norm(shrunk(h, alpha, A) - expected)
            assert away <= math.sqrt(2.0 * gap) + 2e-8 * longest, (form, share)
            assert gap <= 1e-5 * longest**2, (form, share)


def test_one_edge_by_hand():
    # (|h| - alpha own) as a vector shrinks by alpha 2 a.
    h, A = np.array([3.0, -4.0]), np.array([[0.0, 0.5], [0.5, 0.0]])
    assert_allclose(shrunk(h, 2.0, A), h * (1.0 - 2.0 / 5.0), rtol=1e-12)
    assert_array_equal(shrunk(h, 5.0, A), 0.0)
    A[0, 0] = 0.25
    left = np.array([3.0 - 2.0 * math.sqrt(2.0) * 0.25, -4.0])
    assert_allclose(shrunk(h, 2.0, A), left * (1.0 - 2.0 / np.linalg.norm(left)), rtol=1e-12)


@pytest.mark.parametrize("n_labels", [3, 20, pytest.param(80, marks=pytest.mark.compiled)])
def test_equal_targets_by_hand(n_labels):
    # All edges are as long as each other: an entry pays alpha 2 / sqrt(2) for each of its edges, sqrt(2) for itself.
    h, A = np.full(n_labels, -5.0), np.ones((n_labels, n_labels))
    alpha = 1.0 / n_labels
    expected = -(5.0 - alpha * math.sqrt(2.0) * n_labels)
    assert_allclose(shrunk(h, alpha, A), np.full(n_labels, expected), rtol=1e-10)
    assert_array_equal(shrunk(h, 1.001 * 5.0 / (math.sqrt(2.0) * n_labels), A), 0.0)


@pytest.mark.parametrize("n_labels", [3, 20, pytest.param(80, marks=pytest.mark.compiled)])
def test_zero_exactly_close_to_the_dual_norm(n_labels):
    norm = 5.0 / (math.sqrt(2.0) * n_labels)
    assert_array_equal(shrunk(np.full(n_labels, 5.0), (1.0 + 1e-6) * norm, np.ones((n_labels, n_labels))), 0.0)


def test_edges_to_a_label_that_is_zero_are_soft_thresholds():
    A = np.zeros((4, 4))
    A[0, 1:] = A[1:, 0] = [0.5, 1.0, 1.5]
    A[0, 0] = 10.0
    h = np.array([7.0, 3.0, -1.0, -4.0])
    assert_allclose(shrunk(h, 1.0, A), [0.0, 2.0, 0.0, -1.0], rtol=1e-14)


@pytest.mark.parametrize("n_labels", [1, 5, 90])
@pytest.mark.parametrize("kind", ["complete", "chain", "none"])
def test_zero_targets_stay_zero(n_labels, kind, rng):
    A = affinity(kind, n_labels, rng)
    assert_array_equal(shrunk(np.zeros(n_labels), 0.7, A), 0.0)
    assert_array_equal(shrunk(np.zeros(n_labels), 0.7, A, w=rng.normal(size=n_labels)), 0.0)


def test_without_a_penalty_nothing_is_taken(rng):
    h = rng.normal(size=6)
    assert_array_equal(shrunk(h, 3.0, np.zeros((6, 6))), h)
    assert_allclose(shrunk(h, 1e-200, affinity("complete", 6, rng)), h, rtol=1e-12)


@pytest.mark.parametrize("kind", ["chain", "star", "complete", "random"])
@pytest.mark.parametrize("n_labels", [2, 7, 70])
@pytest.mark.compiled
def test_zero_exactly_from_the_dual_norm_on(kind, n_labels, rng):
    A, h = affinity(kind, n_labels, rng), rng.normal(size=n_labels)
    A[0, 1] = A[1, 0] = 0.5  # at least one edge
    some = loops(A)[0].total > 0.0
    h[~some] = 0.0
    if n_labels <= 7:
        norm = reference.dual_norm(h, A)
    else:  # bisection, with the independent proximal map
        low, high = 0.0, np.abs(h).max() / loops(A)[0].total[some].min()
        for _ in range(25):
            middle = 0.5 * (low + high)
            u, _ = shrunk_by_projection(h, middle, A, n_steps=400)
            low, high = (low, middle) if np.abs(u).max() < 1e-3 else (middle, high)
        norm = high
    assert not shrunk(h, 1.02 * norm, A).any()
    assert shrunk(h, 0.98 * norm, A).any()


@pytest.mark.parametrize("kind", ["complete", "star", "random"])
@pytest.mark.parametrize("n_labels", [4, 10, pytest.param(70, marks=pytest.mark.compiled)])
def test_the_start_does_not_matter(kind, n_labels, rng):
    A, h = affinity(kind, n_labels, rng), rng.normal(size=n_labels)
    alpha = 0.2 / loops(A)[0].total.max()
    expected = shrunk(h, alpha, A)
    assert expected.any()
    for w in (expected, -h, 1e6 * rng.normal(size=n_labels), np.where(rng.random(n_labels) < 0.5, h, 0.0), 1e-12 * h):
        for scale in (1.0, 1e-3, 1e3):
            assert_allclose(shrunk(h, alpha, A, w, scale), expected, atol=1e-9)


def test_proximal_map_in_other_units(rng):
    A, h = affinity("complete", 9, rng), rng.normal(size=9)
    expected = shrunk(h, 0.05, A)
    assert expected.any()
    for unit in (1e-80, 1e-8, 1e8, 1e80):
        assert_allclose(shrunk(unit * h, unit * 0.05, A) / unit, expected, rtol=1e-9, atol=1e-12)


def test_coarse_steps_are_near(rng):
    for kind in ("complete", "star", "random"):
        A, h = affinity(kind, 12, rng), rng.normal(size=12)
        alpha = 0.3 / loops(A)[0].total.max()
        coarse, exact = shrunk(h, alpha, A, accuracy=1e-4), shrunk(h, alpha, A)
        assert np.abs(coarse - exact).max() <= 3e-3 * np.abs(h).max()


# ---- the bound on the dual norm


def excess_of(H, W, alpha, A):
    penalty, edges, scratch = loops(A)
    return edge_excess(H, W, alpha, edges, penalty.total, scratch, EXACT)


def rows_and_weights(n_labels, rng):
    """Slopes with weights of any pattern: none, some, all; signs with and against them."""
    H = 3.0 * rng.normal(size=(8, n_labels))
    W = rng.normal(size=H.shape) * (rng.random(H.shape) < np.linspace(0.0, 1.0, 8)[:, None])
    W[2], W[4] = 0.3 * H[2], -1e-9 * H[4]
    H[6, 0] = 0.0
    return H, W


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "none"])
def test_excess_is_a_bound_of_the_dual_norm(kind, rng):
    A = affinity(kind, 5, rng)
    A[np.diag_indices(5)] += 0.1  # every label is penalised
    H, W = rows_and_weights(5, rng)
    norms = np.array([reference.dual_norm(g, A) for g in H])
    for share in (0.01, 0.3, 0.9, 0.999, 1.001, 1.1, 3.0):
        for alpha in share * np.quantile(norms, [0.0, 0.5, 1.0], method="nearest"):
            excess = excess_of(H, W, alpha, A)
            assert (excess >= 0.0).all()
            assert (norms <= alpha * (1.0 + excess) * (1.0 + 1e-6)).all()
            # Without weights the bound is tight: nothing is left where the edges can take all.
            plain = excess_of(H, np.zeros_like(W), alpha, A)
            assert (plain[norms <= 0.999 * alpha] <= 1e-9).all()


@pytest.mark.parametrize("kind", ["complete", "star", "chain", "random", "wild"])
@pytest.mark.parametrize("n_labels", [3, 30, 80])
@pytest.mark.compiled
def test_excess_bounds_every_direction(kind, n_labels, rng):
    """<g, v> <= alpha (1 + excess) Omega(v) for all v, those that come near it among them."""
    A = affinity(kind, n_labels, rng)
    A[np.diag_indices(n_labels)] += 0.01
    penalty = loops(A)[0]
    H, W = rows_and_weights(n_labels, rng)
    for share in (1e-3, 0.1, 0.5, 1.0):
        alpha = share * np.abs(H).max() / penalty.total.min()
        excess = excess_of(H, W, alpha, A)
        for g, bound in zip(H, excess, strict=True):
            near = [shrunk(g, part * alpha, A) for part in (0.1, 0.5, 0.9, 1.0, 1.0 + bound)]
            for v in (*near, g, *np.eye(n_labels), *rng.normal(size=(5, n_labels))):
                assert abs(g @ v) <= alpha * (1.0 + bound) * row_norm(v, penalty) * (1.0 + 1e-12)


def test_excess_is_zero_at_an_optimum(rng):
    """g = alpha times a subgradient of Omega at w: the bound is tight there."""
    A = affinity("complete", 6, rng, own=1.0)
    _, edges, _ = loops(A)
    W = rng.normal(size=(3, 6))
    G = np.empty_like(W)
    edge_slope(W, edges, G)
    assert excess_of(0.7 * G, W, 0.7, A).max() <= 1e-14
    assert excess_of(1.4 * G, W, 0.7, A).min() > 0.1
    # and without weights, from the dual norm on
    for g in G:
        norm = reference.dual_norm(g, A)
        assert excess_of(g[None], np.zeros((1, 6)), norm * (1.0 + 1e-6), A)[0] <= 1e-6
        assert excess_of(g[None], np.zeros((1, 6)), 0.9 * norm, A)[0] > 0.01


def test_excess_is_tight_and_a_bound_for_weights_that_point_anywhere(rng):
    """The largest of several features is known as well as without their weights, next to nothing as these may be."""
    for size in (1.0, 1e-9, 1e-160, 1e-310):
        A = affinity("complete", 5, rng, own=1.0)
        H, W = 3.0 * rng.normal(size=(6, 5)), size * rng.normal(size=(6, 5)) * (rng.random((6, 5)) < 0.8)
        alpha = 0.5 * max(reference.dual_norm(h, A) for h in H)
        largest = max(reference.dual_norm(h, A) for h in H) / alpha
        for weights in (W, np.zeros_like(W)):
            bound = 1.0 + excess_of(H, weights, alpha, A).max()
            assert largest * (1.0 - 1e-6) <= bound <= 1.5 * largest


def test_what_is_left_by_hand():
    # The own edge takes 1 sqrt(2) of each label; the part of the edge points along w, not along h.
    A = np.array([[1.0, 0.5], [0.5, 1.0]])
    _, edges, scratch = loops(A)
    h, w = np.array([5.0, -3.0]), np.array([3.0, 4.0])
    left_over(h, w, 1.0, edges, scratch, EXACT)
    left = np.array([5.0 - math.sqrt(2.0) - 0.6, 3.0 - math.sqrt(2.0) + 0.8])
    assert_allclose(scratch.left, left, rtol=1e-14)


@pytest.mark.parametrize("n_labels", [5, 100])
def test_the_least_that_is_left(n_labels, rng):
    """It is the proximal map, whatever the start; or anything below what is enough, of parts that are no longer."""
    A = affinity("complete", n_labels, rng)
    penalty, edges, scratch = loops(A)
    for w in (np.zeros(n_labels), rng.normal(size=n_labels)):
        h = 3.0 * n_labels * rng.normal(size=n_labels)
        least_left_over(h, w, 0.1, 1.0, edges, scratch, EXACT, 0.0)
        least = np.copysign(scratch.left, h)
        assert np.abs(least).max() > 0.1
        assert_allclose(least, shrunk(h, 1.0, A), atol=1e-8)
        for factor in (1.0 + 1e-6, 1.5, 5.0):
            enough = factor * np.abs(least).max()
            least_left_over(h, w, 0.1, 1.0, edges, scratch, EXACT, enough)
            left = np.copysign(1.0, h) * scratch.left
            assert np.abs(left).max() < enough
            for v in (h, least, *rng.normal(size=(20, n_labels))):  # h - left is in the dual ball
                assert abs((h - left) @ v) <= row_norm(v, penalty) * (1.0 + 1e-12)


# ---- passes over the features


def least_squares(rng, n=15, d=6, n_labels=5, kind="random"):
    X, Y = rng.normal(size=(n, d)), (rng.random((n, n_labels)) < 0.4).astype(float)
    return X, Y, affinity(kind, n_labels, rng)


def value(X, Y, W, alpha, A):
    return float(np.sum((X @ W - Y) ** 2)) + alpha * row_penalties(W, A)


def row_penalties(W, A):
    return sum(row_norm(w, loops(A)[0]) for w in W)


@pytest.mark.parametrize("kind", ["random", "complete", "none"])
@pytest.mark.parametrize("start", ["zero", "sparse", "dense"])
def test_a_pass_lowers_the_objective_by_what_it_says(kind, start, rng):
    for n, n_labels in ((15, 5), (4, 3), (15, 1)):
        X, Y, A = least_squares(rng, n=n, n_labels=n_labels, kind=kind)
        _, edges, scratch = loops(A)
        W = rng.normal(size=(6, n_labels)) * (
            rng.random((6, n_labels)) < {"zero": 0.0, "sparse": 0.3, "dense": 1.0}[start]
        )
        gram, slope = X.T @ X, X.T @ (X @ W - Y)
        for features in (range(6), [4, 1], [3, 3], []):
            before = value(X, Y, W, 0.8, A)
            order = np.array(features, dtype=np.int32)
            fell = edge_descent(gram, slope, W, 0.8, edges, order, scratch, EXACT)
            after = value(X, Y, W, 0.8, A)
            assert fell >= -1e-13 * before
            assert_allclose(before - after, fell, atol=1e-12 * before)
            assert_allclose(slope, X.T @ (X @ W - Y), atol=1e-11)


def test_a_step_is_the_best_row(rng):
    X, Y, A = least_squares(rng, kind="complete")
    _, edges, scratch = loops(A)
    W = rng.normal(size=(6, 5))
    gram, slope = X.T @ X, X.T @ (X @ W - Y)
    for f in range(6):
        alone = Y - X @ W + np.outer(X[:, f], W[f])
        expected = reference.prox(X[:, f] @ alone / gram[f, f], 0.3 / (2.0 * gram[f, f]), A)
        edge_descent(gram, slope, W, 0.3, edges, np.array([f], dtype=np.int32), scratch, EXACT)
        assert_allclose(W[f], expected, atol=1e-7)


def test_coarse_passes_do_not_raise_the_objective_by_more_than_their_accuracy(rng):
    X, Y, A = least_squares(rng, n=30, kind="complete")
    _, edges, scratch = loops(A)
    W, gram = np.zeros((6, 5)), X.T @ X
    slope, order = -X.T @ Y, np.arange(6, dtype=np.int32)
    for _ in range(300):
        edge_descent(gram, slope, W, 0.3, edges, order, scratch, EXACT)
    best = value(X, Y, W, 0.3, A)
    fell = edge_descent(gram, slope, W, 0.3, edges, order, scratch, 1e-4)
    assert_allclose(value(X, Y, W, 0.3, A), best - fell, rtol=1e-12)
    assert fell >= -1e-4 * best


def test_features_without_length_are_left_alone(rng):
    X, Y, A = least_squares(rng)
    X[:, 2] = 0.0
    _, edges, scratch = loops(A)
    W = np.zeros((6, 5))
    W[2, 1] = 7.0
    slope = X.T @ (X @ W - Y)
    edge_descent(X.T @ X, slope, W, 0.1, edges, np.arange(6, dtype=np.int32), scratch, EXACT)
    assert_array_equal(W[2], [0.0, 7.0, 0.0, 0.0, 0.0])
    assert W[0].any()


# ---- derivatives


@pytest.mark.parametrize("kind", ["none", "chain", "complete", "random"])
def test_penalty_of_a_row(kind, rng):
    A = affinity(kind, 7, rng)
    _, edges, _ = loops(A)
    for w in (rng.normal(size=7), np.zeros(7), np.eye(7)[2], rng.normal(size=7) * (rng.random(7) < 0.5)):
        assert_allclose(row_penalty(w, edges), reference.penalty(w[None], A), rtol=1e-13)


@pytest.mark.parametrize("kind", ["none", "chain", "complete", "random"])
def test_derivatives_are_finite_differences(kind, rng):
    A = affinity(kind, 6, rng)
    _, edges, _ = loops(A)
    W = rng.normal(size=(4, 6)) * (rng.random((4, 6)) < 0.7)
    W[1] = 0.0
    V = np.where(W != 0.0, rng.normal(size=W.shape), 0.0)
    slope, ahead, behind, curvature, diagonal = (np.full_like(W, np.nan) for _ in range(5))
    edge_slope(W, edges, slope)
    assert_array_equal(slope[W == 0.0], 0.0)
    t = 1e-6
    by_value = (row_penalties(W + t * V, A) - row_penalties(W - t * V, A)) / (2.0 * t)
    assert_allclose(np.vdot(slope, V), by_value, rtol=1e-7, atol=1e-8)
    edge_slope(W + t * V, edges, ahead)
    edge_slope(W - t * V, edges, behind)
    edge_curvature(W, V, edges, curvature)
    assert_allclose(curvature, (ahead - behind) / (2.0 * t), atol=1e-6)
    edge_curvature_diagonal(W, edges, diagonal)
    for f, i in zip(*np.nonzero(W), strict=True):
        unit = np.zeros_like(W)
        unit[f, i] = 1.0
        edge_curvature(W, unit, edges, curvature)
        assert_allclose(curvature[f, i], diagonal[f, i], rtol=1e-13)
        assert not np.delete(curvature, f, axis=0).any()
    edge_curvature(W, W, edges, curvature)
    assert_allclose(curvature, 0.0, atol=1e-13)  # Omega is linear along its argument


@pytest.mark.parametrize("kind", ["none", "chain", "complete", "random"])
def test_squares_of_reweighting_touch_the_penalty_from_above(kind, rng):
    A = affinity(kind, 6, rng, own=1.0)
    _, edges, _ = loops(A)
    W = rng.normal(size=(4, 6)) * (rng.random((4, 6)) < 0.7)
    W[1] = 0.0
    weights, slope = np.full(W.T.shape, np.nan), np.empty_like(W)
    edge_weights(np.ascontiguousarray(W.T), 2.0, edges, weights)
    weights = 0.5 * weights.T
    assert_array_equal(weights == 0.0, W == 0.0)
    edge_slope(W, edges, slope)
    assert_allclose(weights * W, slope, atol=1e-12)
    assert_allclose(edge_penalty(W, edges), row_penalties(W, A), rtol=1e-13)
    for size in (1e-3, 0.1, 1.0, 10.0):
        V = W + size * np.where(W != 0.0, rng.normal(size=W.shape), 0.0)
        above = edge_penalty(W, edges) + 0.5 * float(np.sum(weights * (V**2 - W**2)))
        assert edge_penalty(V, edges) <= above * (1.0 + 1e-12)


def test_weights_next_to_nothing_do_not_move():
    _, edges, _ = loops(np.array([[1.0, 0.5], [0.5, 1.0]]))
    weights = np.empty((2, 1))
    edge_weights(np.array([[1e-320], [1.0]]), 1.0, edges, weights)
    assert weights[0, 0] == 0.0 < weights[1, 0] < np.inf


@pytest.mark.parametrize("touch", [False, True])
def test_conjugate_steps_solve_the_system_of_every_label(touch, rng):
    """With squares that stay, exactly; with squares that touch anew after every step the penalised objective falls."""
    X, Y, A = least_squares(rng)
    _, edges, _ = loops(A)
    alpha, gram, root = 0.5, X.T @ X, np.sqrt(np.sum(X**2, axis=0))
    W = rng.normal(size=(5, 6)) * (rng.random((5, 6)) < 0.7)
    W[4] = 0.0  # a label that does not move
    start, free, weights = W.copy(), W != 0.0, np.empty_like(W)
    edge_weights(W, alpha, edges, weights)
    held = weights.copy()
    slope, residual, conjugate, scaled = (W @ X.T - Y.T) @ X, np.zeros_like(W), np.zeros_like(W), np.zeros_like(W)
    state = (W, slope, residual, conjugate, np.zeros(5), scaled, np.empty_like(W))
    conjugate_directions(weights, root, *state)

    def majoriser(W):
        return float(np.sum((W @ X.T - Y.T) ** 2) + 0.5 * np.sum(held * W**2))

    values, held_for = [majoriser(W)], 0 if touch else 2
    for _ in range(8):
        before, touched, squares = value(X, Y, W.T, alpha, A), W.copy(), weights.copy()
        assert_allclose(scaled, root * conjugate, rtol=1e-14)
        fell = conjugate_steps(gram / np.outer(root, root), weights, root, alpha, edges, held_for, 1, *state)
        values.append(majoriser(W))
        assert_allclose(slope, (W @ X.T - Y.T) @ X, atol=1e-10)
        if touch:
            assert before - value(X, Y, W.T, alpha, A) >= fell * (1.0 - 1e-9) - 1e-12 * before
            change = 0.5 * np.sum(squares * (W**2 - touched**2))
            assert_allclose(np.sum((touched @ X.T - Y.T) ** 2) - np.sum((W @ X.T - Y.T) ** 2) - change, fell, rtol=1e-6)
        else:
            assert_array_equal(weights, held)
            assert_allclose(fell, values[-2] - values[-1], rtol=1e-9, atol=1e-12 * values[0])
    assert_array_equal(W[~free], start[~free])
    assert (W[free] != start[free]).all()
    if touch:
        return
    for i in range(4):
        rows = free[i]
        rest = X[:, rows].T @ (Y[:, i] - X[:, ~rows] @ W[i, ~rows])
        system = gram[np.ix_(rows, rows)] + np.diag(0.5 * held[i, rows])
        assert_allclose(W[i, rows], np.linalg.solve(system, rest), rtol=1e-8, atol=1e-10)


def test_conjugate_steps_together_are_those_one_by_one_and_squares_are_held_for_as_long_as_asked(rng):
    X, Y, A = least_squares(rng)
    _, edges, _ = loops(A)
    alpha, root = 0.5, np.sqrt(np.sum(X**2, axis=0))
    system, W = X.T @ X / np.outer(root, root), rng.normal(size=(5, 6))
    ends = []
    for counts in ((5,), (1, 1, 1, 1, 1), (2, 3)):
        new, weights = W.copy(), np.empty_like(W)
        edge_weights(new, alpha, edges, weights)
        held = weights.copy()
        state = (new, (W @ X.T - Y.T) @ X, *(np.zeros_like(W) for _ in range(2)), np.zeros(5))
        state += (np.empty_like(W), np.empty_like(W))
        conjugate_directions(weights, root, *state)
        fell, done = 0.0, 0
        for count in counts:
            fell += conjugate_steps(system, weights, root, alpha, edges, 3 - done, count, *state)
            done += count
            assert (done < 3) == np.array_equal(weights, held)
        ends.append((new, fell))
    for new, fell in ends[1:]:
        assert_allclose(new, ends[0][0], rtol=1e-12)
        assert_allclose(fell, ends[0][1], rtol=1e-12)
