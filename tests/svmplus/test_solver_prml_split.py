"""Parts of the passes with split slacks: sums over label sets, and the least squares for T, against dense NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.svmplus import reference_prml as reference

from comargin.svmplus._split import Regression
from comargin.svmplus._system import signs_gram
from comargin.svmplus.problem import PrivilegedSets, nearest_labels


def make_signs(rng, n=25, n_labels=5):
    S = np.where(rng.random((n, n_labels)) < 0.35, 1, -1).astype(np.int8)
    S[0], S[1] = -1, 1
    S[n // 2 :] = S[: n - n // 2]  # label sets repeat
    return S


def features_of(sets, label):
    return reference.privileged_features(sets.sets, label, sets.mask, sets.intercept)


@pytest.mark.parametrize("intercept", [True, False])
def test_signs_gram(rng, intercept):
    sets = PrivilegedSets.of(make_signs(rng), intercept=intercept)
    weight = rng.random(len(sets.sets)) * (rng.random(len(sets.sets)) < 0.7)
    signs = sets.sets.astype(float)
    gram, sums = signs_gram(sets, weight)
    assert_allclose(gram, signs.T @ np.diag(weight) @ signs, atol=1e-12)
    assert_allclose(sums, signs.T @ weight, atol=1e-12)


@pytest.mark.parametrize("n_labels", [1, 2, 5, 9])
@pytest.mark.parametrize("gamma2", [1e-3, 0.7, 50.0])
@pytest.mark.parametrize("form", ["shared", "masked", "literal"])
def test_regression_equals_dense_solves(rng, n_labels, gamma2, form):
    S = make_signs(rng, n_labels=n_labels)
    S[:, -1] = 1  # the constant once more
    mask = nearest_labels(S, n_labels // 2) if form == "masked" else None
    sets = PrivilegedSets.of(S, mask, intercept=form != "literal")
    rho = 0.1 + rng.random(len(sets.sets))
    regression = Regression(sets, gamma2, rho)
    assert regression.is_shared == (form == "shared")
    right = rng.normal(size=(n_labels, n_labels)) * sets.used
    T = regression.solve(right, np.arange(n_labels))
    for label in range(n_labels):
        columns = np.flatnonzero(sets.used[:, label])
        U = features_of(sets, label)[:, columns]
        H = gamma2 * np.eye(len(columns)) + U.T @ np.diag(rho) @ U
        expected = np.zeros(n_labels)
        expected[columns] = np.linalg.solve(H, right[columns, label])
        assert_allclose(T[:, label], expected, rtol=1e-7, atol=1e-9 * (1.0 + np.abs(expected).max()))
    some = np.arange(0, n_labels, 2)
    assert_allclose(regression.solve(right[:, some], some), T[:, some], rtol=1e-12, atol=1e-14)
    assert_array_equal(T[sets.used == 0.0], 0.0)


def test_shared_and_own_factors_agree(rng):
    """A mask of all labels is no mask: the second form solves what the first does."""
    S = make_signs(rng, n_labels=6)
    rho = 0.1 + rng.random(len(PrivilegedSets.of(S).sets))
    everything = PrivilegedSets.of(S, np.ones((6, 6), dtype=bool))
    right, labels = rng.normal(size=(6, 6)), np.arange(6)
    shared, own = (Regression(sets, 0.3, rho) for sets in (PrivilegedSets.of(S), everything))
    assert (shared.is_shared, own.is_shared) == (True, False)
    assert_allclose(shared.solve(right, labels), own.solve(right[:, labels], labels), rtol=1e-9, atol=1e-11)
