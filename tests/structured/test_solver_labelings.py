"""Dual points of structured SVMs: connected parts, starts from other graphs, other masses and other truths."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.structured.reference_structured import all_labelings, structured_dual

from comargin.structured.cliques import CliqueSet
from comargin.structured.labelings import FIRST_CAPACITY, Known, StructuredDual, flips, parts_of, with_room
from comargin.structured.problem import StructuredProblem


def problem_of(rng, cliques, n=12, n_features=3, mass=None, Y=None):
    Y = rng.integers(0, 2, size=(n, cliques.n_labels)).astype(np.uint8) if Y is None else Y
    X = np.column_stack([rng.normal(size=(n, n_features)), np.ones(n)])
    mass = np.full(n, 1.0 / n) if mass is None else mass
    return StructuredProblem(X, Y, mass, np.ones(Y.shape), cliques, 0.1)


def random_dual(rng, problem, capacity=4, weights=False):
    """Masses on labelings that are all different, the true one first."""
    cliques = problem.cliques
    parts = tuple(parts_of(cliques))
    known = []
    for labels in parts:
        labelings = all_labelings(len(labels)).astype(np.uint8)
        n = len(problem.Y)
        most = min(capacity, len(labelings))
        part = Known(
            np.zeros((n, capacity, len(labels)), np.uint8),
            np.zeros((n, capacity)),
            np.zeros((n, capacity), np.int32),
            rng.integers(1, most + 1, size=n).astype(np.int32),
        )
        for i, truth in enumerate(problem.Y[:, labels]):
            used = part.count[i]
            others = rng.permutation([y for y in labelings if (y != truth).any()])
            part.labels[i, :used] = [truth, *others[: used - 1]]
            share = rng.random(used)
            part.mass[i, :used] = problem.mass[i] * share / share.sum()
        known.append(part)
    W = rng.normal(size=(problem.X.shape[1], cliques.n_columns)) if weights else None
    return StructuredDual(cliques, parts, tuple(known), W, np.full(cliques.n_groups, 1.0 / max(cliques.n_groups, 1)))


def on_mass(dual, label):
    """Mass of the labelings of every row that have a label on."""
    (part,) = (p for p, labels in enumerate(dual.parts) if label in labels)
    known, k = dual.known[part], dual.parts[part].index(label)
    return np.array([sum(known.mass[i, :c] * known.labels[i, :c, k]) for i, c in enumerate(known.count)])


def check(dual, problem):
    """A feasible dual point of the problem, with the true labelings first."""
    assert dual.cliques is problem.cliques
    assert dual.parts == tuple(parts_of(problem.cliques))
    assert dual.shape == problem.Y.shape
    for labels, known in zip(dual.parts, dual.known, strict=True):
        assert_array_equal(known.labels[:, 0], problem.Y[:, labels])
        assert known.mass.min() >= 0.0
        assert_allclose(known.mass.sum(axis=1), problem.mass, rtol=1e-13, atol=0.0)
        for i, used in enumerate(known.count):
            assert 1 <= used <= known.mass.shape[1]
            assert not known.mass[i, used:].any()
    assert_allclose(dual.group_weights.sum(), 1.0 if problem.cliques.cliques else 0.0)
    assert len(dual.group_weights) == problem.cliques.n_groups


CHAIN = CliqueSet(5, ((0, 1), (1, 2)), (0, 0))
OTHERS = {
    "none": CliqueSet(5),
    "the same": CHAIN,
    "more": CliqueSet(5, ((0, 1), (1, 2), (2, 3)), (0, 0, 1)),
    "all joined": CliqueSet(5, ((3, 4), (0, 4), (1, 4), (2, 4)), (0, 1, 1, 0)),
    "another": CliqueSet(5, ((1, 3), (0, 2, 4)), (0, 0)),
}


@pytest.mark.parametrize("n_labels", [1, 2, 7])
def test_parts_against_reachability(n_labels, rng):
    pairs_and_triples = [c for order in (2, 3) for c in itertools.combinations(range(n_labels), order)]
    for n_cliques in range(min(len(pairs_and_triples), 6) + 1):
        chosen = rng.permutation(len(pairs_and_triples))[:n_cliques]
        cliques = tuple(pairs_and_triples[c] for c in chosen)
        reached = np.eye(n_labels, dtype=bool)
        for _ in range(n_labels):  # everything within one step more
            for clique in cliques:
                reached[:, clique] |= reached[:, clique].any(axis=1, keepdims=True)
        expected = list(dict.fromkeys(tuple(np.flatnonzero(row).tolist()) for row in reached))
        assert parts_of(CliqueSet(n_labels, cliques, (0,) * n_cliques)) == expected


def test_all_mass_on_the_truth(rng):
    mass = np.r_[0.0, rng.random(11)]
    problem = problem_of(rng, CHAIN, mass=mass / mass.sum())
    dual = StructuredDual.true(problem)
    check(dual, problem)
    assert dual.weights is None
    assert all((known.count == 1).all() and known.mass.shape[1] == FIRST_CAPACITY for known in dual.known)


def test_one_label_right_and_wrong(rng):
    truth, mass = rng.integers(0, 2, size=(6, 1)).astype(np.uint8), rng.random(6)
    wrong = mass * rng.random(6)
    known = flips(truth, mass, wrong)
    assert_array_equal(known.labels[:, :, 0], np.column_stack([truth, 1 - truth]))
    assert_array_equal(known.mass, np.column_stack([mass - wrong, wrong]))
    assert_array_equal(known.count, 2)


def test_more_room_changes_nothing_else(rng):
    problem = problem_of(rng, CHAIN)
    known = random_dual(rng, problem).known[0]
    known.age[:] = rng.integers(0, 5, size=known.age.shape)
    wide = with_room(known, 9)
    for array, before in zip(wide[:3], known[:3], strict=True):
        assert array.shape[1] == 9
        assert_array_equal(array[:, :4], before)
        assert not array[:, 4:].any()
    assert_array_equal(wide.count, known.count)
    wide.mass[:] = wide.count[:] = 0  # a copy
    assert known.mass.any()
    assert known.count.all()


@pytest.mark.parametrize("new", OTHERS)
@pytest.mark.parametrize("old", OTHERS)
def test_another_graph_keeps_the_mass_of_every_label(old, new, rng):
    before = problem_of(rng, OTHERS[old])
    after = problem_of(rng, OTHERS[new], Y=before.Y)
    given = random_dual(rng, before)
    copies = [Known(*(array.copy() for array in known)) for known in given.known]
    start = given.start_of(after)
    check(start, after)
    for label in range(5):
        assert_allclose(on_mass(start, label), on_mass(given, label), atol=1e-15)
    for known, copy in zip(given.known, copies, strict=True):
        for array, expected in zip(known, copy, strict=True):
            assert_array_equal(array, expected)


def test_parts_that_stay_keep_their_joint_masses(rng):
    """With labels 3 and 4 joined, the dual of the chain has the value it had: neither its V nor its losses change."""
    before = problem_of(rng, CHAIN)
    given = random_dual(rng, before)
    joined = CliqueSet(5, (*CHAIN.cliques, (3, 4)), (0, 0, 0))
    start = given.start_of(problem_of(rng, joined, Y=before.Y))
    assert start.parts == ((0, 1, 2), (3, 4))
    labelings = all_labelings(5)
    duals = []
    for dual in (given, start):
        explicit = np.repeat(before.mass[:, None], 32, axis=1)
        for labels, known in zip(dual.parts, dual.known, strict=True):
            for i, used in enumerate(known.count):
                share = np.zeros(32)
                for y, m in zip(known.labels[i, :used], known.mass[i, :used], strict=True):
                    share[np.all(labelings[:, labels] == y, axis=1)] += m / before.mass[i]
                explicit[i] *= share
        duals.append(structured_dual(before.X[:, :-1], before.Y, CHAIN.cliques, None, 0.1, explicit))
    assert abs(duals[0]) > 1e-3
    assert_allclose(duals[1], duals[0], rtol=1e-12)


def test_masses_keep_their_proportions(rng):
    before = problem_of(rng, CHAIN)
    given = random_dual(rng, before)
    mass = rng.random(12)
    after = problem_of(rng, CHAIN, mass=mass / mass.sum(), Y=before.Y)
    start = given.start_of(after)
    check(start, after)
    for label in range(5):
        assert_allclose(on_mass(start, label) / after.mass, on_mass(given, label) / before.mass, rtol=1e-12)


@pytest.mark.parametrize("new", ["the same", "all joined", "none"])
def test_rows_with_another_truth_begin_anew(new, rng):
    before = problem_of(rng, CHAIN)
    given = random_dual(rng, before)
    Y = before.Y.copy()
    Y[2, 1] ^= 1
    Y[7] = 1 - Y[7]
    after = problem_of(rng, OTHERS[new], Y=Y)
    start = given.start_of(after)
    check(start, after)
    for labels, known in zip(start.parts, start.known, strict=True):
        assert known.count[7] == 1
        assert known.count[2] == 1 or 1 not in labels
    (with_label_1,) = (labels for labels in start.parts if 1 in labels)
    for label in range(5):
        same = np.setdiff1d(np.arange(12), [2, 7] if label in with_label_1 else [7])
        assert_allclose(on_mass(start, label)[same], on_mass(given, label)[same], atol=1e-15)
        assert_allclose(on_mass(start, label)[7], Y[7, label] / 12, rtol=1e-14)


@pytest.mark.parametrize("new", ["the same", "all joined", "none"])
def test_rows_lose_their_mass_and_get_it_back(new, rng):
    mass = np.r_[0.0, np.full(11, 1.0 / 11)]
    before = problem_of(rng, CHAIN, mass=mass)
    given = random_dual(rng, before)
    after = problem_of(rng, OTHERS[new], mass=mass[::-1].copy(), Y=before.Y)
    start = given.start_of(after)
    check(start, after)  # row 0 on its truth, row 11 without mass
    for label in range(5):
        assert_allclose(on_mass(start, label)[0], before.Y[0, label] / 11, rtol=1e-14)
    check(start.start_of(before := problem_of(rng, CHAIN, mass=mass, Y=before.Y)), before)


def test_weights_are_kept_where_the_new_cliques_begin_with_the_old(rng):
    before = problem_of(rng, CHAIN)
    given = random_dual(rng, before, weights=True)
    more = given.start_of(problem_of(rng, OTHERS["more"], Y=before.Y))
    assert_array_equal(more.weights[:, : CHAIN.n_columns], given.weights)
    assert not more.weights[:, CHAIN.n_columns :].any()
    assert_allclose(more.group_weights, [0.5, 0.5])
    for name in ("none", "all joined", "another"):
        assert given.start_of(problem_of(rng, OTHERS[name], Y=before.Y)).weights is None
    regrouped = CliqueSet(5, CHAIN.cliques, (0, 1))
    assert given.start_of(problem_of(rng, regrouped, Y=before.Y)).weights is None
    more.weights[:] = 0.0
    assert given.weights.any()


def test_weights_of_groups_make_room_for_new_groups(rng):
    old = CliqueSet(4, ((0, 1), (1, 2)), (0, 1))
    before = problem_of(rng, old)
    given = random_dual(rng, before, weights=True)
    given.group_weights[:] = [1.0, 0.0]
    new = CliqueSet(4, ((0, 1), (1, 2), (2, 3), (0, 3)), (0, 1, 2, 3))
    assert_allclose(given.start_of(problem_of(rng, new, Y=before.Y)).group_weights, [0.5, 0.0, 0.25, 0.25])
