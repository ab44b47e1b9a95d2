"""Pair steps against literal loops: the 2-D problem, the search for a maximum, rounds of the paper's algorithm."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.m3l import naive_kernel

from comargin.core.gram import GramRows
from comargin.core.rows import CSR
from comargin.m3l._loops_pairs import LANES, SignedDual, argmax_abs, m3l_pair_visits, pair_minimum


def test_pair_minimum_equals_every_face_tried(rng):
    for _ in range(300):
        M = rng.normal(size=(2, 2))
        Q = M @ M.T + 0.05 * np.eye(2)
        g = rng.normal(size=2) * 3.0
        low = -rng.random(2) * (rng.random(2) < 0.7)
        high = rng.random(2) * (rng.random(2) < 0.7)
        found = pair_minimum(Q[0, 0], Q[0, 1], Q[1, 1], g[0], g[1], low[0], high[0], low[1], high[1])
        assert_allclose(found, naive_kernel.box_minimum_2d(Q, g, low, high), atol=1e-10)


def test_argmax_abs(rng):
    lanes = np.empty(LANES, dtype=np.float32)
    for n in (1, 2, LANES - 1, LANES, LANES + 1, 3 * LANES + 7):
        values = np.zeros(-(-n // LANES) * LANES, dtype=np.float32)
        assert argmax_abs(values, lanes) == -1
        values[:n] = rng.normal(size=n)
        assert argmax_abs(values, lanes) == np.argmax(np.abs(values))
        values[n - 1] = -100.0
        assert argmax_abs(values, lanes) == n - 1


def make(rng, n=30, n_labels=4, targets=False, cached=None):
    X = rng.normal(size=(n, 3))
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=-1)).astype(np.float32)
    K = (K * np.sqrt(np.outer(1 + np.arange(n) / n, 1 + np.arange(n) / n))).astype(np.float32)
    S = np.where(rng.random((n, n_labels)) < 0.4, 1, -1)
    U = 0.2 + rng.random((n, n_labels))
    U[3, 0] = 0.0
    T = 0.5 + rng.random((n, n_labels)) if targets else np.ones((n, n_labels))
    cached = np.arange(n) if cached is None else cached
    slot = np.full(n, -1, dtype=np.int32)
    slot[cached] = np.arange(len(cached))
    diagonal = np.diag(K).astype(float)
    gram = GramRows(
        np.ascontiguousarray(K[cached]),
        slot,
        (slot >= 0).astype(np.float32),
        diagonal,
        (1 / np.sqrt(diagonal)).astype(np.float32),
        np.zeros(n, dtype=np.int64),
    )
    edge = np.ascontiguousarray((S * U).T)
    side = -np.sign(edge).astype(np.float32)
    side[edge == 0] = np.nan
    state = SignedDual(
        np.zeros(edge.shape),
        edge,
        np.ascontiguousarray(-(S * T).T, dtype=float),
        side,
        np.zeros(n_labels),
        np.zeros(n_labels, dtype=np.uint8),
        np.zeros(1, dtype=np.int64),
    )
    M = rng.normal(size=(n_labels, n_labels))
    R = 0.5 * np.eye(n_labels) + M @ M.T / n_labels
    return K.astype(float), S, U, T, R, gram, state


def gradient(K, R, S, T, state):
    return 2.0 * R @ state.beta @ K - (S * T).T


@pytest.mark.parametrize("targets", [False, True])
def test_visits_equal_algorithm_1(rng, targets):
    K, S, U, T, R, gram, state = make(rng, targets=targets)
    m3l_pair_visits(gram, 1.0, 1, R, np.diag(R).copy(), state, 4, 0.0, 5)
    expected = naive_kernel.smo(K, S, U, R, T, n_visits=5, steps_per_visit=4)
    assert np.abs(expected).max() > 0.1
    assert_allclose(state.beta.T, S * expected, atol=1e-6)
    assert_allclose(state.h, gradient(K, R, S, T, state), atol=1e-9)
    assert state.steps[0] == 20


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_visits_keeps_its_invariants_and_lowers_the_objective(rng, storage):
    K, S, _, T, R, gram, state = make(rng, targets=True)
    if storage == "csr":
        R = 0.5 * np.eye(4)
        R[0, 2] = R[2, 0] = 0.3
        form = CSR(np.array([0.5, 0.3, 0.5, 0.3, 0.5, 0.5]), np.int32([0, 2, 1, 0, 2, 3]), np.int32([0, 2, 3, 5, 6]))
    else:
        form = R
    values = []
    for clock in range(1, 6):
        m3l_pair_visits(gram, 1.0, clock, form, np.diag(R).copy(), state, 8, 0.1, 3)
        h = gradient(K, R, S, T, state)
        assert_allclose(state.h, h, atol=1e-9)
        values.append(0.5 * np.sum(state.beta * (h - (S * T).T)))
        low, high = np.minimum(state.edge, 0), np.maximum(state.edge, 0)
        assert np.all((state.beta >= low) & (state.beta <= high))
        expected_side = np.where(
            state.edge == 0, np.nan, np.where(state.beta <= low, -1, np.where(state.beta >= high, 1, 0))
        )
        np.testing.assert_array_equal(state.side, expected_side)
    assert np.all(np.diff(values) < 0)
    assert gram.stamp.max() == 5


def test_visits_works_with_what_is_in_memory_and_says_what_it_misses(rng):
    K, S, _, T, R, gram, state = make(rng, cached=np.array([4, 7, 20]))
    m3l_pair_visits(gram, 1.0, 1, R, np.diag(R).copy(), state, 1000, 0.0, 20)
    assert state.missed.all()
    assert_allclose(state.h, gradient(K, R, S, T, state), atol=1e-9)
    moved = np.flatnonzero(state.beta.any(axis=0))
    assert moved.size
    assert set(moved) <= {4, 7, 20}
    assert set(np.flatnonzero(gram.stamp)) == set(moved)


def test_visit_ends_when_the_gap_is_allowed(rng):
    K, S, _, T, R, gram, state = make(rng)
    state.allowed[:] = np.inf
    m3l_pair_visits(gram, 1.0, 1, R, np.diag(R).copy(), state, 1000, 0.0, 20)
    assert state.steps[0] == 0
    state.allowed[:] = 0.0
    for _ in range(6):
        m3l_pair_visits(gram, 1.0, 1, R, np.diag(R).copy(), state, 20, 0.0, 20)
    beta, edge, h = state.beta, state.edge, gradient(K, R, S, T, state)
    assert 2 * np.maximum(beta * h, (beta - edge) * h).sum() < 1e-6
