"""Expected label products under the masses of labelings, against plain sums."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from comargin.structured._loops import Known, label_products

PLAIN = getattr(label_products, "py_func", label_products)


def make(rng, n=9, capacity=5, n_labels=4):
    """Rows that know one up to ``capacity`` labelings; row 2 has no mass. Slots that are not in use hold anything."""
    labels = rng.integers(0, 2, size=(n, capacity, n_labels)).astype(np.uint8)
    mass = rng.random((n, capacity)) * (rng.random((n, capacity)) < 0.8)
    mass[2 % n] = 0.0
    count = rng.integers(1, capacity + 1, size=n).astype(np.int32)
    count[0] = capacity
    return Known(labels, mass, np.zeros((n, capacity), np.int32), count)


def products(known, subset, function=label_products):
    out = np.full(len(known.labels), np.nan)
    function(known, np.array(subset, dtype=np.int64), out)
    return out


@pytest.mark.parametrize("function", [label_products, PLAIN], ids=["compiled", "plain"])
def test_every_subset_by_plain_sums(function, rng):
    known = make(rng)
    largest = 0.0
    for size in range(1, 5):
        for subset in itertools.permutations(range(4), size):
            expected = [
                sum(
                    m
                    for y, m in zip(known.labels[i, :used], known.mass[i, :used], strict=True)
                    if y[list(subset)].all()
                )
                for i, used in enumerate(known.count)
            ]
            largest = max(largest, *expected)
            assert_allclose(products(known, subset, function), expected, rtol=1e-14, atol=0.0)
    assert largest > 0.1


def test_by_hand():
    labels = np.array([[[1, 1], [1, 0], [1, 1]], [[0, 1], [1, 1], [1, 1]]], dtype=np.uint8)
    mass = np.array([[0.5, 0.25, 8.0], [0.125, 0.0, 8.0]])
    known = Known(labels, mass, np.zeros((2, 3), np.int32), np.array([2, 2], np.int32))
    assert_array_equal(products(known, [0]), [0.75, 0.0])
    assert_array_equal(products(known, [1]), [0.5, 0.125])
    assert_array_equal(products(known, [1, 0]), [0.5, 0.0])


def test_no_labels_at_all_leave_the_mass_of_the_row(rng):
    known = make(rng)
    expected = [known.mass[i, : known.count[i]].sum() for i in range(9)]
    assert_allclose(products(known, []), expected, rtol=1e-14)
    assert products(known, [])[2] == 0.0


@pytest.mark.parametrize(("n", "capacity", "n_labels"), [(1, 1, 1), (1, 4, 2), (6, 1, 3)])
def test_small_shapes(n, capacity, n_labels, rng):
    known = make(rng, n, capacity, n_labels)
    known.mass[:] = 1.0
    for label in range(n_labels):
        expected = [known.labels[i, : known.count[i], label].sum() for i in range(n)]
        assert_allclose(products(known, [label]), expected)
