"""Labelings of two sets of labels become labelings of both: by hand, and what must hold for any masses."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from comargin.structured._loops import Known, couple_labelings

PLAIN = getattr(couple_labelings, "py_func", couple_labelings)


@pytest.fixture(params=[couple_labelings, PLAIN], ids=["compiled", "plain"])
def couple(request):
    def run(first, second, first_place, second_place, n_labels):
        n, capacity = len(first.mass), first.mass.shape[1] + second.mass.shape[1]
        out = Known(
            np.zeros((n, capacity, n_labels), np.uint8),
            np.zeros((n, capacity)),
            np.zeros((n, capacity), np.int32),
            np.ones(n, np.int32),
        )
        places = (np.array(place, dtype=np.int64) for place in (first_place, second_place))
        request.param(first, second, *places, out)
        return out

    return run


def known_of(*rows):
    """Rows as lists of (labels, mass); one slot more than needed, that holds what must not be read."""
    capacity, n_labels = 1 + max(len(row) for row in rows), len(rows[0][0][0])
    known = Known(
        np.ones((len(rows), capacity, n_labels), np.uint8),
        np.full((len(rows), capacity), 7.0),
        np.zeros((len(rows), capacity), np.int32),
        np.array([len(row) for row in rows], np.int32),
    )
    for i, row in enumerate(rows):
        for p, (labels, mass) in enumerate(row):
            known.labels[i, p], known.mass[i, p] = labels, mass
    return known


def rows_of(known):
    return [
        [(tuple(known.labels[i, p].tolist()), float(known.mass[i, p])) for p in range(known.count[i])]
        for i in range(len(known.mass))
    ]


def test_masses_are_matched_from_the_true_labelings_on(couple):
    first = known_of([([0], 0.75), ([1], 0.25)])
    second = known_of([([1, 0], 0.5), ([0, 0], 0.375), ([0, 1], 0.125)])
    out = couple(first, second, [1], [0, 2], 3)
    assert rows_of(out) == [[((1, 0, 0), 0.5), ((0, 0, 0), 0.25), ((0, 1, 0), 0.125), ((0, 1, 1), 0.125)]]


def test_the_true_labeling_stays_first_without_mass(couple):
    """Slot 0 is the truth of a row, whether any mass is there or not."""
    first = known_of([([1], 0.0), ([0], 1.0)], [([0], 1.0), ([1], 0.0)])
    second = known_of([([0], 0.5), ([1], 0.5)], [([1], 0.0), ([0], 1.0)])
    out = couple(first, second, [0], [1], 2)
    assert rows_of(out) == [
        [((1, 0), 0.0), ((0, 0), 0.5), ((0, 1), 0.5)],
        [((0, 1), 0.0), ((0, 0), 1.0)],
    ]


def test_a_row_without_mass_has_its_truth_only(couple):
    first, second = known_of([([1], 0.0), ([0], 0.0)]), known_of([([0, 1], 0.0)])
    assert rows_of(couple(first, second, [2], [0, 1], 3)) == [[((0, 1, 1), 0.0)]]


def test_labels_can_be_dropped_and_one_side_empty(couple):
    """How a part is restricted to some of its labels: the first side has no labels, and one labeling of the mass."""
    nothing = Known(np.zeros((1, 1, 0), np.uint8), np.ones((1, 1)), np.zeros((1, 1), np.int32), np.ones(1, np.int32))
    second = known_of([([0, 0, 1], 0.5), ([1, 1, 1], 0.25), ([1, 0, 0], 0.25)])
    out = couple(nothing, second, [], [1, -1, 0], 2)
    assert rows_of(out) == [[((1, 0), 0.5), ((1, 1), 0.25), ((0, 1), 0.25)]]


def test_a_difference_of_rounding_goes_to_the_true_labeling(couple):
    first, second = known_of([([0], 1.0)]), known_of([([1], 0.5), ([0], 0.5 + 1e-16)])
    out = couple(first, second, [0], [1], 2)
    assert out.mass[0, : out.count[0]].sum() == pytest.approx(1.0, abs=1e-15)
    assert out.mass.min() >= 0.0


def random_side(rng, mass, capacity, n_labels):
    n = len(mass)
    count = rng.integers(1, capacity + 1, size=n).astype(np.int32)
    labels = rng.integers(0, 2, size=(n, capacity, n_labels)).astype(np.uint8)
    masses = np.zeros((n, capacity))
    for i in range(n):
        share = rng.random(count[i]) * (rng.random(count[i]) < 0.6)
        share[rng.integers(count[i])] += 0.1
        masses[i, : count[i]] = mass[i] * share / share.sum()
    return Known(labels, masses, np.zeros((n, capacity), np.int32), count)


def marginal(known, labels, y, i):
    """Mass of the labelings of row i whose ``labels`` are y."""
    used = slice(0, known.count[i])
    return known.mass[i, used][np.all(known.labels[i, used][:, labels] == y, axis=1)].sum()


def test_both_sides_keep_their_masses(couple, rng):
    mass = rng.random(30)
    mass[4] = 0.0
    first, second = random_side(rng, mass, 5, 2), random_side(rng, mass, 7, 3)
    first_place, second_place = [3, 0], [1, 4, 2]
    given = [Known(*(array.copy() for array in side)) for side in (first, second)]
    out = couple(first, second, first_place, second_place, 5)
    assert_allclose(out.mass.sum(axis=1), mass, rtol=1e-14)
    assert out.mass.min() >= 0.0
    assert_array_equal(out.labels[:, 0, first_place], first.labels[:, 0])
    assert_array_equal(out.labels[:, 0, second_place], second.labels[:, 0])
    for i in range(30):
        assert 1 <= out.count[i] <= first.count[i] + second.count[i]
        assert not out.mass[i, out.count[i] :].any()
        for side, places in ((first, first_place), (second, second_place)):
            for y in np.unique(side.labels[i], axis=0):
                assert marginal(out, places, y, i) == pytest.approx(marginal(side, slice(None), y, i), abs=1e-14)
    for side, before in zip((first, second), given, strict=True):
        for array, copy in zip(side, before, strict=True):
            assert_array_equal(array, copy)


def test_compiled_and_plain_bodies_are_the_same(rng):
    mass = rng.random(20)
    first, second = random_side(rng, mass, 4, 2), random_side(rng, mass, 3, 2)
    outs = []
    for function in (couple_labelings, PLAIN):
        out = Known(
            np.zeros((20, 7, 4), np.uint8), np.zeros((20, 7)), np.zeros((20, 7), np.int32), np.ones(20, np.int32)
        )
        function(first, second, np.array([0, 1]), np.array([2, 3]), out)
        outs.append(out)
    for compiled, plain in zip(*outs, strict=True):
        assert_array_equal(compiled, plain)
