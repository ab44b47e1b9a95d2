"""Numbers of a report against the same ones by plain loops."""

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier

from comargin.core.indicator import check_indicator
from comargin.decisions import ThresholdClassifierCV, TopK
from comargin.metrics import evaluate
from comargin.report._assessment import assess, confused_pairs, cut_curve, reliability, score_histogram
from comargin.report.anatomy import take_apart

NAMES = ["a", "b", "c"]


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(80, 5))
    return X, (X[:, :3] + rng.normal(size=(80, 3)) > 0.3).astype(int)


def test_one_prediction_gives_all_measures(rows):
    X, Y = rows
    model = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
    found = assess(take_apart(model), X, Y, NAMES)
    P = model.predict_proba(X)
    assert found.measures == evaluate(Y, model.decision_function(X), model.predict(X), probabilities=P)
    np.testing.assert_array_equal(found.probabilities, P)
    assert [label["label"] for label in found.labels] == NAMES
    assert found.cuts.tolist() == [0, 0, 0]
    np.testing.assert_array_equal(found.scores, model.decision_function(X))


def test_reliability_counts_what_is_on():
    Y = sp.csr_array([[1, 0], [1, 1], [0, 0]])
    found = reliability(Y, np.array([[0.95, 0.12], [0.91, 0.18], [1.0, 0.11]]))
    np.testing.assert_allclose(found.predicted, [0.41 / 3, 2.86 / 3])
    np.testing.assert_allclose(found.observed, [1 / 3, 2 / 3])
    assert found.sizes.tolist() == [3, 3]


def test_a_cut_is_drawn_only_where_it_gives_the_predictions(rows):
    X, Y = rows
    learned = ThresholdClassifierCV(OneVsRestClassifier(LogisticRegression()), cv=2).fit(X, Y)
    np.testing.assert_array_equal(assess(take_apart(learned), X, Y, NAMES).cuts, learned.thresholds_)
    top = ThresholdClassifierCV(OneVsRestClassifier(LogisticRegression()), rule=TopK(k=1), cv=2).fit(X, Y)
    assert np.isnan(assess(take_apart(top), X, Y, NAMES).cuts).all()


def test_a_label_never_on_has_an_infinite_cut_which_is_not_drawn(rows):
    X, Y = rows
    Y[:, 1] = 0
    with pytest.warns(UserWarning, match="Label not 1 is present in all"):
        model = ThresholdClassifierCV(OneVsRestClassifier(LogisticRegression()), cv=2).fit(X, Y)
    assert np.isinf(model.thresholds_[1])
    found = assess(take_apart(model), X, Y, NAMES)
    assert np.isnan(found.cuts).tolist() == [False, True, False]


def test_models_without_scores_are_measured_by_their_label_sets(rows):
    class Fixed:
        def predict(self, X):
            return np.ones((len(X), 3), dtype=int)

    X, Y = rows
    found = assess(take_apart(Fixed()), X, Y, NAMES)
    assert found.scores is None
    assert "micro_f1" in found.measures
    assert "ranking_loss" not in found.measures


def test_lists_of_probabilities_and_infinite_scores(rows):
    X, Y = rows
    forest = MultiOutputClassifier(KNeighborsClassifier(3)).fit(X, Y)
    assert assess(take_apart(forest), X, Y, NAMES).cuts.tolist() == [0.5, 0.5, 0.5]

    class Infinite:
        def decision_function(self, X):
            return np.where(Y > 0, np.inf, -np.inf)

        def predict(self, X):
            return Y

    found = assess(take_apart(Infinite()), X, Y, NAMES)
    assert found.scores is None  # nothing can be drawn
    assert found.measures["ranking_loss"] == 0.0


def test_other_shapes_are_refused(rows):
    X, Y = rows
    model = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
    with pytest.raises(ValueError, match=r"must predict an indicator of shape \(80, 2\), got shape \(80, 3\)"):
        assess(take_apart(model), X, Y[:, :2], NAMES[:2])


def test_every_point_of_a_curve_is_what_its_cut_gives(rng):
    scores = np.round(rng.normal(size=300), 1)  # with ties
    on = scores + rng.normal(size=300) > 0.8
    curve = cut_curve(scores, np.flatnonzero(on), 40)
    assert 20 <= len(curve.cuts) <= 41
    assert (np.diff(curve.cuts) < 0).all()
    for cut, precision, recall, f1 in zip(*curve, strict=True):
        predicted = scores > cut
        hits = np.count_nonzero(predicted & on)
        np.testing.assert_allclose(recall, hits / on.sum())
        np.testing.assert_allclose(f1, 2 * hits / (predicted.sum() + on.sum()))
        if predicted.any():
            np.testing.assert_allclose(precision, hits / predicted.sum())
        else:
            assert np.isnan(precision)
    best = max(2 * (on & (scores > c)).sum() / ((scores > c).sum() + on.sum()) for c in np.unique(scores) - 0.05)
    np.testing.assert_allclose(curve.f1.max(), best)
    assert curve.recall[-1] == 1.0
    assert cut_curve(scores, np.array([], dtype=int), 40) is None


def test_histograms_are_shares_of_each_group():
    histogram = score_histogram(np.array([0.0, 1.0, 2.0, 4.0]), np.array([False, False, True, True]), 4)
    assert (histogram.low, histogram.high) == (0.0, 4.0)
    assert histogram.without.tolist() == [0.5, 0.5, 0, 0]
    assert histogram.with_label.tolist() == [0, 0, 0.5, 0.5]
    constant = score_histogram(np.ones(3), np.zeros(3, dtype=bool), 2)
    assert constant.low < 1.0 < constant.high
    assert constant.with_label.tolist() == [0, 0]
    assert constant.without.sum() == 1.0


def test_scores_that_differ_by_rounding_have_a_histogram():
    scores = np.array([-1.0, np.nextafter(-1.0, 0.0)])
    histogram = score_histogram(scores, np.array([True, False]), 30)
    assert histogram.low < -1.0 < histogram.high
    assert histogram.with_label.sum() == histogram.without.sum() == 1.0


def test_confused_pairs_are_those_of_plain_loops(rng):
    Y, Y_pred = (rng.random((50, 5)) < 0.4).astype(int), (rng.random((50, 5)) < 0.4).astype(int)
    wrong, missed = (Y_pred == 1) & (Y == 0), (Y_pred == 0) & (Y == 1)
    expected = {(a, b): int((wrong[:, a] & missed[:, b]).sum()) for a in range(5) for b in range(5) if a != b}
    expected = {pair: rows for pair, rows in expected.items() if rows}
    pairs = confused_pairs(check_indicator(Y, "Y"), check_indicator(Y_pred, "Y_pred"), 1000)
    assert {(pair.predicted, pair.missed): pair.rows for pair in pairs} == expected
    assert [pair.rows for pair in pairs] == sorted(expected.values(), reverse=True)
    for pair in pairs:
        of_wrong, of_missed = wrong[:, pair.predicted].sum(), missed[:, pair.missed].sum()
        np.testing.assert_allclose(pair.share, pair.rows / of_missed)
        np.testing.assert_allclose(pair.lift, pair.rows / (of_wrong * of_missed / 50))
    assert confused_pairs(check_indicator(Y, "Y"), check_indicator(Y_pred, "Y_pred"), 3) == pairs[:3]
    assert confused_pairs(check_indicator(Y, "Y"), check_indicator(Y, "Y"), 3) == []
