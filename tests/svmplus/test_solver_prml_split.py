"""Parts of the passes with split slacks against dense NumPy: sums over label sets, the least squares for T; rounds."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.svmplus import reference_prml as reference

from comargin.core.validation import loop_view
from comargin.m3l.prior import identity_prior
from comargin.svmplus import _split, _system
from comargin.svmplus._split import Regression, Splitting
from comargin.svmplus._step import StepBlock
from comargin.svmplus._system import Features, signs_gram
from comargin.svmplus.problem import PrivilegedSets, SlackDual, SVMPlusProblem, nearest_labels


def make_signs(rng, n=25, n_labels=5):
    S = rng.choice(np.array([-1, 0, 1], dtype=np.int8), p=[0.55, 0.1, 0.35], size=(n, n_labels))
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


@pytest.mark.parametrize("form", ["dense", "kept", "too large to keep"])
def test_signed_gram(rng, monkeypatch, form):
    X = rng.normal(size=(25, 7)) * (rng.random((25, 7)) < 0.5)
    stored = X if form == "dense" else sp.csr_array(X)
    if form == "too large to keep":
        monkeypatch.setattr(_system, "_MOST_GRAM_ROWS", 20)
    features = Features(stored, loop_view(stored))
    assert (features.products is not None) == (form == "kept")
    rows, signs = np.flatnonzero(rng.random(25) < 0.6), rng.normal(size=25)
    signed = signs[rows, None] * X[rows]
    expected = signed @ signed.T + 0.3 * np.eye(len(rows))
    assert_allclose(np.tril(features.gram(rows, signs[rows], 0.3)), np.tril(expected), atol=1e-12)
    sparse = np.where(rng.random((25, 2)) < 0.4, rng.normal(size=(25, 2)), 0.0)
    assert_allclose(features.average(sparse), X.T @ sparse, atol=1e-12)
    assert_array_equal(features.average(np.zeros((25, 2))), np.zeros((7, 2)))


def first_round(rng, monkeypatch, fall):
    """Gaps of single labels before and after a round of passes, and the labels that go on."""
    S = make_signs(rng, n_labels=4)
    X = rng.normal(size=(25, 12))
    sets = PrivilegedSets.of(S)
    problem = SVMPlusProblem(X, S, np.full(25, 0.5), np.ones((2, 4)), identity_prior(4)[0], 1.0, sets)
    start, features = SlackDual(np.zeros(S.shape), problem.set_cost), Features(X, X)
    alone = [problem.part(np.array([label])) for label in range(4)]
    blocks = [StepBlock(part, features, 1e-12, start.of(part.labels)) for part in alone]
    monkeypatch.setattr(_split, "POLICY", replace(_split.POLICY, fall=fall))
    splitting, before = Splitting(problem, blocks, start, 0), np.array([block.best.gap for block in blocks])
    splitting.advance(map, lambda: None)
    left = [label for passes in splitting.passes for label in passes.problem.labels]
    assert splitting.exhausted == (not left)
    return before, np.array([block.best.gap for block in blocks]), left


@pytest.mark.compiled
def test_single_labels_leave_the_passes_by_their_own_gap(monkeypatch):
    before, after, left = first_round(np.random.default_rng(5), monkeypatch, 0.0)
    assert left == [0, 1, 2, 3]
    falls, together = before / after, before.sum() / after.sum()
    assert falls.min() < together < falls.max()
    *_, left = first_round(np.random.default_rng(5), monkeypatch, 0.99 * together)  # all of them together gain enough
    assert left == [0, 1, 2, 3]
    fall = 0.5 * (together + falls.max())
    *_, left = first_round(np.random.default_rng(5), monkeypatch, fall)
    assert_array_equal(left, np.flatnonzero(falls >= fall))
    *_, left = first_round(np.random.default_rng(5), monkeypatch, 1.01 * falls.max())
    assert left == []


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
