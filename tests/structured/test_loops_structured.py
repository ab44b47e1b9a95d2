"""Pairwise steps on blocks of rows: the dual from scratch before and after, and what is promised of the state."""

from typing import NamedTuple

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.structured.reference_structured import all_labelings, features, label_products, state_signs
from tests.structured.reference_structured import solve as solve_cvxpy

from comargin.structured._loops import (
    Known,
    columns_of_moments,
    meet_labelings,
    structured_block,
    structured_coefficients,
    weights_of_moments,
)
from comargin.structured.cliques import CliqueSet
from comargin.structured.labelings import layout_of

OLDEST = 3
GRAPHS = {
    "one label": CliqueSet(1),
    "nodes": CliqueSet(3),
    "tree": CliqueSet(3, ((0, 1), (1, 2)), (0, 0)),
    "triple": CliqueSet(4, ((2, 0, 3), (1, 3), (0, 1)), (0, 1, 1)),
}


class State(NamedTuple):
    """Everything a block step sees, and X, which it does not."""

    X: np.ndarray
    truth: np.ndarray
    cost: np.ndarray
    cliques: CliqueSet
    known: Known
    scale: np.ndarray
    mass: np.ndarray


def make(rng, graph, n=7, d=4, capacity=6):
    """Rows that know one up to ``capacity`` labelings: row 1 its true one only, row 2 all it can; row 3 has no mass."""
    cliques = GRAPHS[graph]
    n_labels = cliques.n_labels
    labelings = all_labelings(n_labels).astype(np.uint8)
    X = rng.normal(size=(n, d))
    truth = labelings[rng.integers(len(labelings), size=n)]
    mass = 0.2 + rng.random(n)
    mass[3] = 0.0
    labels = rng.integers(0, 2, size=(n, capacity, n_labels)).astype(np.uint8)  # slots not in use hold anything
    masses, age = np.zeros((n, capacity)), np.zeros((n, capacity), dtype=np.int32)
    most = min(capacity, len(labelings))
    count = rng.integers(1, most + 1, size=n).astype(np.int32)
    count[1], count[2] = 1, most
    for i in range(n):
        others = rng.permutation([y for y in labelings if (y != truth[i]).any()])
        labels[i, 0] = truth[i]
        labels[i, 1 : count[i]] = others[: count[i] - 1]
        share = rng.random(count[i]) * (rng.random(count[i]) < 0.6)
        share[0] += 0.1
        share[-1] += 0.1 * (i == 2)
        masses[i, : count[i]] = mass[i] * share / share.sum()
        age[i, 1 : count[i]] = np.where(masses[i, 1 : count[i]] > 0.0, 0, rng.integers(0, OLDEST, count[i] - 1))
    scale = 0.2 + rng.random(cliques.n_columns)
    return State(
        X, truth, rng.normal(0.6, 0.6, size=(n, n_labels)), cliques, Known(labels, masses, age, count), scale, mass
    )


def copy(known):
    return Known(*(array.copy() for array in known))


def losses(state, i):
    """Delta of the labelings in use of a row, by loops."""
    return np.array(
        [
            sum(state.cost[i, k] for k, t in enumerate(state.truth[i]) if t != state.known.labels[i, p, k])
            for p in range(state.known.count[i])
        ]
    )


def coefficients(state, i):
    """q_i from whole joint features."""
    used = slice(0, state.known.count[i])
    psi = features(state.cliques, state.known.labels[i, used])
    true = features(state.cliques, state.truth[i : i + 1])
    return state.known.mass[i, used] @ (true - psi)


def average(state):
    return sum(np.outer(state.X[i], coefficients(state, i)) for i in range(len(state.X)))


def dual(state):
    """D from scratch."""
    linear = sum(state.known.mass[i, : state.known.count[i]] @ losses(state, i) for i in range(len(state.X)))
    return linear - 0.5 * np.sum(state.scale * np.sum(average(state) ** 2, axis=0))


def signs(cliques):
    return state_signs(cliques.n_labels, cliques.cliques, cliques.subsets)


def coefficient_moments(state, i):
    """q_i of sets of labels, from products of labels."""
    used, subsets = slice(0, state.known.count[i]), state.cliques.subsets
    true = label_products(state.truth[i : i + 1], subsets)
    return state.known.mass[i, used] @ (true - label_products(state.known.labels[i, used], subsets))


def potentials(state, rows):
    """X_rows times the moments."""
    moments = sum(np.outer(state.X[i], coefficient_moments(state, i)) for i in range(len(state.X)))
    return np.ascontiguousarray(state.X[rows] @ moments)


def run(state, rows, found, function=structured_block, oldest=OLDEST):
    """One call; returns theta, delta and parts, in columns."""
    rows = np.asarray(rows, dtype=np.int64)
    given = potentials(state, rows)
    gram = np.ascontiguousarray(state.X[rows] @ state.X[rows].T)
    delta, parts = np.full_like(given, np.nan), np.zeros(3)
    function(
        rows,
        state.truth,
        state.cost,
        layout_of(state.cliques),
        state.known,
        np.ascontiguousarray(found, dtype=np.uint8),
        oldest,
        given,
        gram,
        state.scale,
        delta,
        parts,
    )
    E = signs(state.cliques)
    return given @ E.T * state.scale, delta @ E.T, parts


def in_use(known, i):
    """Labelings of a row with mass and age."""
    return {tuple(known.labels[i, p].tolist()): (known.mass[i, p], known.age[i, p]) for p in range(known.count[i])}


def check_known(state):
    """What holds after every call."""
    labels, mass, _, count = state.known
    assert_array_equal(labels[:, 0], state.truth)
    assert mass.min() >= 0.0
    assert_allclose(mass.sum(axis=1), state.mass, rtol=1e-13)
    for i in range(len(mass)):
        assert 1 <= count[i] <= labels.shape[1]
        assert not mass[i, count[i] :].any()
        assert all(0 <= age <= OLDEST for _, age in in_use(state.known, i).values())
        assert len(in_use(state.known, i)) == count[i]


@pytest.mark.parametrize("graph", GRAPHS)
def test_a_call_raises_the_dual_by_what_it_says(graph, rng):
    state = make(rng, graph)
    rows = rng.permutation(7)[:5]
    raised = 0.0
    for _ in range(4):
        before, V, untouched = dual(state), average(state), copy(state.known)
        found = rng.integers(0, 2, size=(5, state.cliques.n_labels))
        _, delta, parts = run(state, rows, found)
        check_known(state)
        assert -1e-14 <= parts[1] <= parts[0] + 1e-14  # no raise exceeds the gap
        assert_allclose(dual(state) - before, parts[1], rtol=1e-9, atol=1e-12)
        assert_allclose(average(state), V + state.X[rows].T @ delta, atol=1e-12)
        others = np.setdiff1d(np.arange(7), rows)
        for after, given in zip(state.known, untouched, strict=True):
            assert_array_equal(after[others], given[others])
        raised += parts[1]
    assert raised > 1e-3


@pytest.mark.parametrize("graph", GRAPHS)
def test_compiled_and_plain_bodies_are_the_same(graph, rng):
    state = make(rng, graph)
    plain = state._replace(known=copy(state.known))
    rows = np.array([6, 2, 0, 3, 1])
    for _ in range(5):
        found = rng.integers(0, 2, size=(5, state.cliques.n_labels))
        compiled_output = run(state, rows, found)
        plain_output = run(plain, rows, found, getattr(structured_block, "py_func", structured_block))
        for a, b in zip(compiled_output + state.known, plain_output + plain.known, strict=True):
            assert_allclose(a, b, rtol=1e-10, atol=1e-13)


def test_steps_that_cancel_and_scores_that_tie(rng):
    """Small whole numbers everywhere: mass comes back to where it was exactly, and goes away again."""
    cliques = CliqueSet(2, ((0, 1),), (0,))
    labelings = all_labelings(2).astype(np.uint8)
    for _ in range(300):
        X, truth = rng.integers(0, 3, size=(2, 1)).astype(float), rng.integers(0, 2, size=(2, 2)).astype(np.uint8)
        labels = np.array([sorted(labelings, key=lambda y, t=t: ((y != t).any(), rng.random())) for t in truth])
        mass = rng.integers(0, 3, size=(2, 4)) / 4.0
        known = Known(labels, mass, np.zeros((2, 4), np.int32), np.full(2, 4, np.int32))
        cost = rng.integers(0, 5, size=(2, 2)).astype(float)
        state = State(X, truth, cost, cliques, known, rng.integers(0, 3, size=6).astype(float), mass.sum(axis=1))
        before, V = dual(state), average(state)
        _, delta, parts = run(state, [0, 1], truth)
        check_known(state)
        assert_allclose(dual(state) - before, parts[1], atol=1e-10)
        assert_allclose(average(state), V + X.T @ delta, atol=1e-12)


def test_the_gap_on_known_labelings(rng):
    """parts[0] = sum_i m_i max_p s_ip - sum_p a_ip s_ip, at the weights of the start when rows are orthogonal."""
    state = make(rng, "triple", n=7, d=7)
    state = state._replace(X=np.diag(0.5 + rng.random(7)))
    theta = state.X @ average(state) * state.scale
    gap = 0.0
    for i in range(7):
        psi = features(state.cliques, state.known.labels[i, : state.known.count[i]])
        scores = losses(state, i) + psi @ theta[i]
        gap += state.mass[i] * scores.max() - state.known.mass[i, : len(scores)] @ scores
    parts = run(state, np.arange(7), state.truth)[2]
    assert gap > 0.1
    assert_allclose(parts[0], gap, rtol=1e-11)


@pytest.mark.parametrize("graph", ["nodes", "triple"])
def test_two_labelings_divide_beyond_the_best_division(graph, rng):
    """The only step there is, half as long again as the best, against the parabola through three values of D."""
    state = make(rng, graph)
    state.known.count[:] = 1
    state.known.mass[:] = 0.0
    state.known.mass[:, 0] = state.mass
    divided = 0
    for i in (0, 2, 4, 5, 6):
        other = 1 - state.truth[i]
        state.known.labels[i, 1], state.known.count[i] = other, 2
        values = []
        for share in (0.0, 0.5, 1.0):
            state.known.mass[i, :2] = state.mass[i] * np.array([1.0 - share, share])
            values.append(dual(state))
        curvature = -4.0 * (values[2] - 2.0 * values[1] + values[0])
        slope = 4.0 * values[1] - 3.0 * values[0] - values[2]
        start = rng.random()
        share = min(max(start + 1.5 * (slope / curvature - start), 0.0), 1.0)
        divided += 0.0 < share < 1.0
        state.known.mass[i, :2] = state.mass[i] * np.array([1.0 - start, start])
        run(state, [i], other[None])
        assert_allclose(state.known.mass[i, :2], state.mass[i] * np.array([1.0 - share, share]), atol=1e-9)
    assert divided >= 1


@pytest.mark.parametrize(("mass", "moved"), [(1.0, 0.75), (0.6, 0.6), (0.25, 0.25)])
def test_one_step_by_hand(mass, moved):
    """One label that is off, x = (1), cost 1, scale 2: violation 1, curvature 2, best step 1/2, 3/2 of it is done."""
    known = Known(
        np.zeros((1, 2, 1), np.uint8), np.array([[mass, 0.0]]), np.zeros((1, 2), np.int32), np.ones(1, np.int32)
    )
    state = State(
        np.ones((1, 1)),
        np.zeros((1, 1), np.uint8),
        np.ones((1, 1)),
        CliqueSet(1),
        known,
        np.array([2.0]),
        np.array([mass]),
    )
    _, delta, parts = run(state, [0], [[1]])
    assert_allclose(known.mass, [[mass - moved, moved]])
    assert_allclose(delta, [[-moved]])
    assert_allclose(parts, [mass, moved * (1.0 - moved), 0.0])


@pytest.mark.parametrize("graph", ["nodes", "triple"])
def test_calls_end_at_the_optimum_of_what_is_known(graph, rng):
    state = make(rng, graph, n=5, d=3, capacity=4)
    for _ in range(1000):
        parts = run(state, np.arange(5), state.truth, oldest=10**6)[2]
        if parts[0] < 1e-8:
            break
    labels, _, _, count = state.known
    shares = [cp.Variable(int(n), nonneg=True) for n in count]
    linear, V = 0.0, 0.0
    for i, share in enumerate(shares):
        differences = features(state.cliques, state.truth[[i]]) - features(state.cliques, labels[i, : count[i]])
        linear += losses(state, i) @ share
        V += cp.reshape(state.X[i], (3, 1), order="C") @ cp.reshape(share @ differences, (1, -1), order="C")
    squares = cp.sum_squares(V @ np.diag(np.sqrt(state.scale)))
    model = cp.Problem(
        cp.Maximize(linear - 0.5 * squares), [cp.sum(share) == m for share, m in zip(shares, state.mass, strict=True)]
    )
    solve_cvxpy(model)
    assert_allclose(dual(state), model.value, rtol=2e-7)


@pytest.mark.parametrize("graph", ["one label", "triple"])
def test_a_row_without_mass_meets_but_does_not_move(graph, rng):
    state = make(rng, graph)
    state.known.count[3] = 1
    other = 1 - state.truth[[3]]
    theta = potentials(state, [3]) @ signs(state.cliques).T * state.scale
    after, delta, parts = run(state, [3], other)
    assert_array_equal(state.known.mass[3], 0.0)
    assert_array_equal(delta, 0.0)
    assert_array_equal(parts, 0.0)
    assert_allclose(after, theta, rtol=0)
    assert state.known.count[3] == 2
    assert_array_equal(state.known.labels[3, 1], other[0])


def test_an_empty_row_gives_its_mass_to_the_costliest_labeling(rng):
    state = make(rng, "triple")
    state.X[2] = 0.0
    costliest = np.argmax(losses(state, 2))
    before = dual(state)
    theta, _, parts = run(state, [4, 2], state.truth[[4, 2]])
    assert state.known.mass[2, costliest] == pytest.approx(state.mass[2], rel=1e-14)
    assert np.count_nonzero(state.known.mass[2]) == 1
    assert_allclose(dual(state) - before, parts[1], rtol=1e-9)
    assert_array_equal(theta[1], 0.0)


@pytest.mark.parametrize("graph", ["tree", "triple"])
def test_columns_of_scale_zero_have_no_say(graph, rng):
    """A dropped group: its columns of theta stay zero, the dual still rises by what is said."""
    state = make(rng, graph)
    state.scale[state.cliques.n_labels :] = 0.0
    for k in range(3):
        before, V = dual(state), average(state)
        theta, delta, parts = run(state, np.arange(7), 1 - state.truth)
        assert not theta[:, state.cliques.n_labels :].any()
        assert_allclose(dual(state) - before, parts[1], rtol=1e-9, atol=1e-12)
        assert_allclose(average(state), V + state.X.T @ delta, atol=1e-12)  # V follows in all columns
        assert k > 0 or delta[:, state.cliques.n_labels :].any()


def test_the_true_labeling_alone_is_left_alone(rng):
    state = make(rng, "tree")
    given = copy(state.known)
    _, delta, parts = run(state, [1], state.truth[[1]])
    for after, before in zip(state.known, given, strict=True):
        assert_array_equal(after, before)
    assert not delta.any()
    assert not parts.any()


def test_what_does_not_fit_is_counted_and_nothing_is_lost(rng):
    """Rows 0 and 4 are full of labelings with mass; row 5 has a useless one to give up."""
    state = make(rng, "triple", capacity=3)
    labelings = all_labelings(4).astype(np.uint8)
    new = []
    for i in (0, 4, 5):
        others = [y for y in labelings if (y != state.truth[i]).any()]
        state.known.labels[i, 1:3], state.known.count[i] = others[:2], 3
        state.known.mass[i] = state.mass[i] / 3.0
        state.known.age[i] = 0
        new.append(others[5])
    state.known.mass[5] = state.mass[5] * np.array([0.5, 0.0, 0.5])
    kept = {i: set(in_use(state.known, i)) for i in (0, 4)}
    useful = tuple(state.known.labels[5, 2].tolist())
    before = dual(state)
    parts = run(state, [0, 4, 5], new)[2]
    assert parts[2] == 2.0
    assert all(set(in_use(state.known, i)) == kept[i] for i in kept)
    assert set(in_use(state.known, 5)) == {tuple(state.truth[5].tolist()), tuple(new[2].tolist()), useful}
    check_known(state)
    assert_allclose(dual(state) - before, parts[1], rtol=1e-9)


@pytest.mark.parametrize("capacity", [1, 2, 4, 9])
def test_meeting_labelings_step_by_step(capacity, rng):
    """Ages, forgetting and replacing, against the rules in words."""
    state = make(rng, "triple", n=4, capacity=capacity)
    known, n_refused, n_forgotten, n_replaced = state.known, 0, 0, 0
    rows = np.array([2, 0])
    for _ in range(60):
        # Some labelings gain mass, others lose it, as block steps would have it.
        for i in rows:
            share = rng.random(known.count[i]) * (rng.random(known.count[i]) < 0.4)
            share[0] += 0.1
            known.mass[i, : known.count[i]] = state.mass[i] * share / share.sum()
        before = [in_use(known, i) for i in rows]
        found = rng.integers(0, 2, size=(2, 4)).astype(np.uint8)
        refused = meet_labelings(rows, found, known, OLDEST)
        check_known(state)
        expected_refused = 0
        for i, old, labeling in zip(rows, before, found, strict=True):
            truth = tuple(state.truth[i].tolist())
            aged = {y: (m, 0 if m > 0.0 or y == truth else age + 1) for y, (m, age) in old.items()}
            kept = {y: (m, age) for y, (m, age) in aged.items() if age <= OLDEST}
            n_forgotten += len(aged) - len(kept)
            after, y = in_use(known, i), tuple(labeling.tolist())
            if y in kept:
                assert after == kept
            elif len(kept) < capacity:
                assert after == kept | {y: (0.0, 0)}
            elif useless := {z: age for z, (m, age) in kept.items() if m <= 0.0 and z != truth}:
                (lost,) = set(kept) - set(after)
                assert useless[lost] == max(useless.values())
                assert after == {z: kept[z] for z in kept if z != lost} | {y: (0.0, 0)}
                n_replaced += 1
            else:
                assert after == kept
                expected_refused += 1
        assert refused == expected_refused
        n_refused += refused
    assert n_refused > 0 or capacity == 9
    assert n_forgotten > 0 or capacity < 4
    assert n_replaced > 0 or capacity in (1, 9)


@pytest.mark.parametrize("graph", GRAPHS)
def test_coefficients_by_whole_features(graph, rng):
    state = make(rng, graph)
    for i in range(7):  # a slot that is not in use counts for nothing, whatever it holds
        state.known.mass[i, state.known.count[i] :] = 5.0
    rows = np.array([5, 1, 3, 2])
    out = np.full((4, len(state.cliques.subsets)), np.nan)
    linear = structured_coefficients(rows, state.truth, state.cost, layout_of(state.cliques), state.known, out)
    assert np.abs(out).max() > 0.0
    assert_allclose(out @ signs(state.cliques).T, [coefficients(state, i) for i in rows], atol=1e-14)
    expected = sum(state.known.mass[i, : state.known.count[i]] @ losses(state, i) for i in rows)
    assert_allclose(linear, expected, rtol=1e-13)


@pytest.mark.parametrize("graph", GRAPHS)
def test_columns_and_weights_of_moments(graph, rng):
    cliques = GRAPHS[graph]
    E, layout = signs(cliques), layout_of(cliques)
    moments, W = rng.normal(size=(4, E.shape[1])), rng.normal(size=(5, E.shape[0]))
    for function in (columns_of_moments, getattr(columns_of_moments, "py_func", columns_of_moments)):
        V = np.full((4, E.shape[0]), np.nan)
        function(moments, layout, V)
        assert_allclose(V, moments @ E.T, atol=1e-14)
    for function in (weights_of_moments, getattr(weights_of_moments, "py_func", weights_of_moments)):
        out = np.full((5, E.shape[1]), np.nan)
        function(W, layout, out)
        assert_allclose(out, W @ E, atol=1e-14)
