"""Sets with the greatest expected F1: every set and every truth tried, and the sizes that are left out."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from comargin.decisions._expected_f1 import best_expected_f1


def expected_f1(p, on, empty_value):
    total = 0.0
    for truth in product([0, 1], repeat=len(p)):
        truth = np.array(truth)
        size = truth.sum() + on.sum()
        f1 = 2 * (truth @ on) / size if size else empty_value
        total += f1 * np.prod(np.where(truth == 1, p, 1 - p))
    return total


@pytest.mark.parametrize("n_labels", [1, 2, 4, 6])
@pytest.mark.parametrize("empty_value", [0.0, 1.0])
def test_best_of_all_sets(rng, n_labels, empty_value):
    P = rng.random((12, n_labels)) ** rng.choice([0.5, 1.0, 4.0], size=(12, 1))
    P[0], P[1] = 1e-12, 1 - 1e-12
    on, values = best_expected_f1(P, empty_value)
    for p, chosen, value in zip(P, on, values, strict=True):
        every = [expected_f1(p, np.array(s), empty_value) for s in product([0, 1], repeat=n_labels)]
        assert_allclose(value, max(every))
        assert_allclose(expected_f1(p, chosen.astype(int), empty_value), max(every))
    if n_labels > 1:
        assert len(set(on.sum(axis=1))) > 1


def literal_value(p, k):
    """F(k) from the distributions of the hits and of the other labels, nothing left out."""
    a, b = np.ones(1), np.ones(1)
    for q in p[:k]:
        a = np.convolve(a, [1 - q, q])
    for q in p[k:]:
        b = np.convolve(b, [1 - q, q])
    hits, others = np.arange(len(a))[:, None], np.arange(len(b))
    return a @ (2 * hits / (k + hits + others)) @ b


def test_many_labels(rng):
    P = np.sort(rng.beta(0.2, [[0.5], [3.0], [20.0]], size=(3, 60)), axis=1)[:, ::-1]
    on, values = best_expected_f1(P, 0.0)
    for p, chosen, value in zip(P, on, values, strict=True):
        every = [literal_value(p, k) for k in range(1, 61)]
        assert_allclose(value, max(every))
        assert chosen.sum() == 1 + np.argmax(every)
