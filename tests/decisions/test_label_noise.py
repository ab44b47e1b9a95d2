"""Which labels are probably wrong: the parts by their definitions, planted errors, memory, and bad input."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit

from comargin.decisions import find_label_issues, label_noise


def dependent_labels(n, seed=0):
    """Three copies of each of two hidden labels, seen dimly: probabilities that are right, and true labels."""
    rng = np.random.default_rng(seed)
    p = expit(rng.normal(size=(n, 2)))
    hidden = rng.random((n, 2)) < p
    return np.repeat(p, 3, axis=1), np.repeat(hidden, 3, axis=1).astype(int), rng


def precision(found, wrong):
    return wrong[found.rows, found.labels].mean()


def by_self_confidence(P, Y, wrong):
    order = np.argsort(np.where(Y == 1, P, 1.0 - P), axis=None, kind="stable")
    return wrong.ravel()[order[: wrong.sum()]].mean()


def test_single_errors_are_found_by_the_other_labels():
    P, true, rng = dependent_labels(500)
    wrong = rng.random(true.shape) < 0.05
    Y = np.where(wrong, 1 - true, true)
    found = find_label_issues(P, Y, int(wrong.sum()))
    assert precision(found, wrong) > 0.85
    assert by_self_confidence(P, Y, wrong) < 0.3
    assert_array_equal(found.given, Y[found.rows, found.labels] == 1)
    assert_array_equal(found.probabilities, P[found.rows, found.labels])
    assert len(found.pairs) == 0
    assert_array_equal(found.partners, -1)


def with_exchanges(n=1500, seed=1):
    """Independent labels with clear probabilities; label 1 is given in place of 0 in a tenth of the rows of 0."""
    rng = np.random.default_rng(seed)
    p = expit(3.0 * rng.normal(size=(n, 5)))
    true = (rng.random(p.shape) < p).astype(int)
    rows = np.flatnonzero((true[:, 0] == 1) & (true[:, 1] == 0))[::5]
    Y = true.copy()
    Y[rows, 0], Y[rows, 1] = 0, 1
    return p, Y, Y != true


def test_exchanged_labels_are_found_by_their_pair():
    P, Y, wrong = with_exchanges()
    found = find_label_issues(P, Y, int(wrong.sum()))
    assert found.pairs.tolist() == [[0, 1]]
    assert found.observed[0] > 2.0 * found.expected[0]
    assert precision(found, wrong) > by_self_confidence(P, Y, wrong) + 0.2
    exchanged = wrong[found.rows, found.labels]
    assert_array_equal(found.partners[exchanged], 1 - found.labels[exchanged])


def test_clean_independent_labels_have_no_pairs_and_little_noise():
    rng = np.random.default_rng(2)
    p = expit(4.0 * rng.normal(size=(2000, 6)))
    found = find_label_issues(p, rng.random(p.shape) < p, 5)
    assert len(found.pairs) == 0
    assert max(found.wrong_rate.max(), found.missing_rate.max()) < 0.1


def test_rates_are_those_that_were_planted():
    rng = np.random.default_rng(3)
    true = rng.random((4000, 2)) < 0.4
    P = np.where(true, 0.9, 0.1)
    Y = np.where(true, rng.random(true.shape) >= [0.2, 0.0], rng.random(true.shape) < [0.0, 0.1])
    found = find_label_issues(P, Y, 1)
    assert_array_equal(found.positives, Y.sum(axis=0))
    assert_allclose(found.wrong_rate, [(Y & ~true)[:, k].sum() / Y[:, k].sum() for k in range(2)])
    assert_allclose(found.missing_rate, [(~Y & true)[:, k].sum() / (~Y[:, k]).sum() for k in range(2)])
    assert found.missing_rate[0] > 0.1
    assert found.wrong_rate[1] > 0.1


def test_margins_are_those_of_fits_without_the_row():
    rng = np.random.default_rng(4)
    features = np.column_stack([rng.normal(size=(60, 2)), np.ones(60), rng.normal(size=60)])
    z = (rng.random(60) < expit(features @ [1.0, -1.0, 0.3, 1.0])).astype(float)
    prior = np.array([3.0, 3.0, 1.0, 1.0])

    def weights_of(rows):
        def loss(w):
            eta = features[rows] @ w
            return np.sum(np.logaddexp(0.0, eta) - z[rows] * eta) + 0.5 * prior @ (w - [0.0, 0.0, 0.0, 1.0]) ** 2

        return minimize(loss, np.zeros(4), tol=1e-10).x

    rows = np.arange(60)
    found = label_noise._margins_without_row(features, z)
    exact = np.array([features[row] @ weights_of(np.delete(rows, row)) for row in rows])
    with_row = features @ weights_of(rows)
    # To first order: the correction leaves less than a tenth of the error of doing nothing.
    assert np.abs(found - exact).max() < 0.1 * np.abs(with_row - exact).max()


def test_separable_labels_keep_finite_margins():
    P = np.full((40, 2), 0.5)
    P[:20, 0], P[20:, 0] = 1.0, 0.0
    Y = np.zeros((40, 2), dtype=int)
    Y[:20, 0] = 1  # label 1 is never on
    found = find_label_issues(P, Y, 80)
    assert np.isfinite(found.scores).all()
    assert ((found.scores > 0.0) & (found.scores < 1.0)).all()


def test_moments_are_sums_over_rows():
    P, Y, _ = with_exchanges(200)
    _, observed, expected = label_noise._moments(P, sp.csr_array(Y))
    for a, b in ((0, 1), (1, 0), (2, 4)):
        assert_allclose(observed[a, b], sum((1 - y[a]) * p[a] * y[b] * (1 - p[b]) for p, y in zip(P, Y, strict=True)))
        assert_allclose(expected[a, b], sum(p[a] * (1 - p[a]) * p[b] * (1 - p[b]) for p in P))


def same(one, other, *, exact=True):
    for a, b in zip(one, other, strict=True):
        if exact or a.dtype.kind != "f":
            assert_array_equal(a, b)
        else:
            assert_allclose(a, b, rtol=1e-9)


def test_form_of_the_input_does_not_matter():
    P, Y, _ = with_exchanges()
    same(find_label_issues(P, Y, 50), find_label_issues(np.asfortranarray(P), sp.csr_array(Y), 50))
    same(find_label_issues(P, Y, 50), find_label_issues(P, Y.astype(bool), 50))


def test_blocks_of_rows_do_not_matter(monkeypatch):
    P, Y, _ = with_exchanges()
    whole = find_label_issues(P, Y, 50)
    monkeypatch.setattr(label_noise, "POLICY", replace(label_noise.POLICY, cells_at_once=35))
    same(whole, find_label_issues(P, Y, 50), exact=False)


@pytest.mark.parametrize("most", [1, 7, 300])
def test_fewer_cells_are_the_first_of_more(most):
    P, Y, _ = with_exchanges(300)
    everything, found = find_label_issues(P, Y, 10**6), find_label_issues(P, Y, most)
    assert len(everything.rows) == P.size
    assert len(set(zip(everything.rows.tolist(), everything.labels.tolist(), strict=True))) == P.size
    assert (np.diff(everything.scores) <= 0.0).all()
    same(found[:6], [values[:most] for values in everything[:6]])


def test_equal_cells_are_in_order_of_rows():
    found = find_label_issues(np.full((30, 3), 0.5), np.eye(3, dtype=int)[np.arange(30) % 3], 5)
    assert_array_equal(found.rows, np.sort(found.rows))


def test_memory_is_bounded_by_blocks_and_columns():
    rng = np.random.default_rng(0)
    P = np.asfortranarray(rng.random((20_000, 100), dtype=np.float32) ** 8)
    Y = sp.csr_array(rng.random(P.shape) < 0.02)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(label_noise, "POLICY", replace(label_noise.POLICY, cells_at_once=200_000))
        find_label_issues(P[:100], Y[:100], 10)
        tracemalloc.start()
        find_label_issues(P, Y, 1000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 1.5 * P.nbytes  # 8 MB; a copy as doubles would be twice this


@pytest.mark.parametrize(
    ("P", "Y", "most", "message"),
    [
        ([0.5, 0.5], [[0], [1]], 1, "probabilities must be a dense array"),
        (np.zeros((0, 2)), np.zeros((0, 2)), 1, "at least one row and one label"),
        ([[0.5], [1.5]], [[0], [1]], 1, "probabilities must be from 0 to 1; got values from 0.5 to 1.5"),
        ([[0.5], [np.nan]], [[0], [1]], 1, "probabilities must be from 0 to 1"),
        ([[0.5], [0.5]], [[0, 1], [1, 0]], 1, r"Y must have the shape of probabilities, \(2, 1\)"),
        ([[0.5], [0.5]], [[0], [2]], 1, "Y must"),
        ([[0.5], [0.5]], [[0], [1]], 0, "most must"),
    ],
)
def test_bad_input(P, Y, most, message):
    with pytest.raises(ValueError, match=message):
        find_label_issues(P, np.asarray(Y), most)
