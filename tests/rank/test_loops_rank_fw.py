"""Frank-Wolfe steps of Rank-CVM against the textbook with the whole Theta; the search against a look at all pairs."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from comargin.rank import _loops_fw as _rank_fw
from comargin.rank._loops_fw import (
    FrankWolfe,
    FullRows,
    PairGroups,
    lowest_of_group,
    rank_fw_bounds,
    rank_fw_coefficients,
    rank_fw_steps,
)


class Instance:
    """A small problem with its literal Theta over the pairs in the order (m, n, i)."""

    def __init__(self, rng, n=12, n_labels=4, kernel="rbf", cached=None):
        X = rng.normal(size=(n, 3))
        squares = ((X[:, None] - X) ** 2).sum(axis=-1)
        # Rows of a linear kernel have entries of either sign.
        self.K = np.exp(-0.3 * squares) + 1.0 if kernel == "rbf" else X @ X.T + 1.0
        Y = rng.random((n, n_labels)) < 0.45
        Y[:, 0], Y[:, -1] = True, False  # a row without a pair does not occur
        self.Y = Y
        self.cost = 0.2 + rng.random(n)
        self.pairs = [
            (i, m, k)
            for m in range(n_labels)
            for k in range(n_labels)
            for i in range(n)
            if m != k and Y[i, m] and not Y[i, k]
        ]
        i, m, k = np.array(self.pairs).T
        H = np.zeros((len(i), n_labels))
        H[np.arange(len(i)), m], H[np.arange(len(i)), k] = 1.0, -1.0
        self.H, self.i = H, i
        self.Theta = (H @ H.T) * self.K[np.ix_(i, i)] + np.diag(1.0 / self.cost[i])
        begin = np.empty((n_labels, n_labels + 1), dtype=np.int64)
        for a in range(n_labels):
            for b in range(n_labels + 1):
                begin[a, b] = sum((p[1], p[2]) < (a, b) for p in self.pairs)
        self.groups = PairGroups(i.astype(np.uint32), begin, self.cost)
        cached = np.arange(n) if cached is None else np.asarray(cached)
        slot = np.full(n, -1, dtype=np.int32)
        slot[cached] = np.arange(len(cached))
        off = np.where(np.eye(n, dtype=bool), -np.inf, self.K)
        diagonal = np.diag(self.K).copy()
        self.rows = FullRows(
            self.K[cached], slot, np.zeros(n, dtype=np.int64), diagonal, self.K.min(axis=1), off.max(axis=1)
        )

    def a(self, state):
        return state.c * self.cost[self.i]

    def state(self, a):
        n_labels = self.Y.shape[1]
        beta = np.zeros(self.Y.shape)
        np.add.at(beta, self.i, a[:, None] * self.H)
        state = FrankWolfe(
            a / self.cost[self.i],
            np.ascontiguousarray((self.K @ beta).T),
            np.empty((n_labels, n_labels)),
            np.zeros((n_labels, n_labels), dtype=np.bool_),
            np.empty(n_labels),
        )
        rank_fw_bounds(self.groups, state)
        return state

    def start(self):
        """Eqs. (55), (56), and W."""
        first = int(np.argmin(2.0 * np.diag(self.K) + 1.0 / self.cost))
        a = np.zeros(len(self.i))
        a[np.flatnonzero(self.i == first)[0]] = 1.0
        return a, 0.5 * a @ self.Theta @ a


def naive_frank_wolfe(Theta, a, n_steps):
    """The textbook: full gradient, full line search, nothing recursive; also the gaps before every step."""
    gaps = []
    for _ in range(n_steps):
        g = Theta @ a
        d = -a
        d[np.argmin(g)] += 1.0
        gaps.append(-g @ d)
        a = a + min(-(g @ d) / (d @ Theta @ d), 1.0) * d
    return a, gaps


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("n_labels", [2, 4, 7])
def test_steps_equal_the_textbook(rng, kernel, n_labels):
    instance = Instance(rng, kernel=kernel, n_labels=n_labels)
    a, W = instance.start()
    state = instance.state(a)
    for n_steps in (1, 2, 27, 70):  # the factor is applied at the end of every call
        expected, gaps = naive_frank_wolfe(instance.Theta, a, n_steps)
        W, gap, done, missing = rank_fw_steps(instance.rows, instance.groups, state, W, 0, n_steps)
        a = instance.a(state)
        assert (done, missing) == (n_steps, -1)
        assert_allclose(a, expected, atol=1e-12)
        assert_allclose(W, 0.5 * expected @ instance.Theta @ expected, rtol=1e-11)
        assert_allclose(gap, gaps[-1], rtol=1e-6)
        beta = np.zeros(instance.Y.shape)
        np.add.at(beta, instance.i, a[:, None] * instance.H)
        assert_allclose(state.f, (instance.K @ beta).T, atol=1e-12)
    assert np.count_nonzero(a) > min(n_labels, 5)
    assert_allclose(a.sum(), 1.0)


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_bounds_hold_after_any_number_of_steps(rng, kernel):
    instance = Instance(rng, kernel=kernel, n_labels=5)
    a, W = instance.start()
    state = instance.state(a)
    begin = instance.groups.begin
    for _ in range(60):
        W, _, _, _ = rank_fw_steps(instance.rows, instance.groups, state, W, 0, 1)
        g = instance.Theta @ instance.a(state)
        for m in range(5):
            for k in range(5):
                group = g[begin[m, k] : begin[m, k + 1]]
                lowest = group.min() if group.size else np.inf
                assert state.low[m, k] <= lowest + 1e-12
                if state.exact[m, k]:
                    assert_allclose(state.low[m, k], lowest, atol=1e-12)
        assert np.all(state.low_of <= state.low.min(axis=1) + 1e-12)
    assert not state.exact.all()  # or the bounds would have had no work


def test_bounds_and_coefficients_of_any_point(rng):
    instance = Instance(rng, n_labels=5)
    a = rng.random(len(instance.i)) * (rng.random(len(instance.i)) < 0.5)
    state = instance.state(a)
    assert_allclose(rank_fw_bounds(instance.groups, state), (instance.Theta @ a).min())
    assert state.exact.all()
    beta = np.full(instance.Y.shape, np.nan)
    total, squares = rank_fw_coefficients(instance.groups, state.c, beta)
    expected = np.zeros(beta.shape)
    for (i, m, k), value in zip(instance.pairs, a, strict=True):
        expected[i, m] += value
        expected[i, k] -= value
    assert_allclose(beta, expected, atol=1e-14)
    assert_allclose(total, a.sum())
    assert_allclose(squares + np.sum(beta * (instance.K @ beta)), a @ instance.Theta @ a)


def test_an_empty_group_has_no_lowest_gradient():
    nothing = np.empty(0)
    assert lowest_of_group(nothing.astype(np.uint32), nothing, np.ones(3), np.ones(3)) == np.inf


def test_stops_at_a_row_that_is_not_in_memory_and_goes_on_when_it_is():
    whole, part = (Instance(np.random.default_rng(3), cached=cached) for cached in (None, [0, 1, 2, 3, 4, 5]))
    a, W = whole.start()
    complete, state = whole.state(a), whole.state(a)
    rank_fw_steps(whole.rows, whole.groups, complete, W, 0, 40)
    rows, clock, held = part.rows, 0, 0
    while clock < 40:
        W, _, done, missing = rank_fw_steps(rows, part.groups, state, W, clock, 40 - clock)
        clock += done
        if missing >= 0:
            assert rows.slot[missing] < 0
            held += 1
            rows.rows[0] = part.K[missing]  # the only place that changes
            rows.slot[rows.slot == 0] = -1
            rows.slot[missing] = 0
    assert held > 1
    assert rows.stamp.max() == 39
    assert_allclose(state.c, complete.c, atol=1e-13)


def test_no_step_without_a_gap():
    # One pair is the optimum.
    groups = PairGroups(np.zeros(1, dtype=np.uint32), np.array([[0, 0, 1], [1, 1, 1]]), np.ones(1))
    one = np.ones(1)
    rows = FullRows(np.array([[2.0]]), np.zeros(1, dtype=np.int32), np.zeros(1, dtype=np.int64), 2 * one, 2 * one, one)
    low = np.empty((2, 2))
    state = FrankWolfe(np.ones(1), np.array([[2.0], [-2.0]]), low, np.zeros((2, 2), dtype=np.bool_), np.empty(2))
    assert rank_fw_bounds(groups, state) == 5.0
    assert rank_fw_steps(rows, groups, state, 2.5, 0, 10) == (2.5, 0.0, 0, -1)
    assert_array_equal(state.c, [1.0])


def test_compiled_equals_plain(rng, monkeypatch):
    instance = Instance(rng, n_labels=5, kernel="linear")
    a, W = instance.start()
    compiled, plain = instance.state(a), instance.state(a)
    found = rank_fw_steps(instance.rows, instance.groups, compiled, W, 0, 50)
    for name in ("lowest_of_group", "rank_fw_bounds", "_lowest_pair", "_move", "_move_bounds", "rank_fw_steps"):
        function = getattr(_rank_fw, name)
        monkeypatch.setattr(_rank_fw, name, getattr(function, "py_func", function))
    _rank_fw.rank_fw_bounds(instance.groups, plain)
    expected = _rank_fw.rank_fw_steps(instance.rows, instance.groups, plain, W, 0, 50)
    assert_allclose(found, expected, rtol=1e-9)
    assert_allclose(compiled.c, plain.c, atol=1e-13)
    assert_allclose(compiled.f, plain.f, atol=1e-13)
