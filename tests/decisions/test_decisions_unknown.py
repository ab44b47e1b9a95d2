"""Decisions from partly unknown labels: cells that are NaN count nowhere."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from comargin import M3LClassifier, metrics
from comargin.core.indicator import check_labels
from comargin.decisions import (
    AimRule,
    BlendedClassifier,
    DecisionClassifierCV,
    GlobalCut,
    LabelCalibrator,
    PerLabelCut,
    ProportionalCut,
    RiskController,
    SetCalibrator,
    StackedStructureClassifier,
    ThresholdClassifierCV,
    TopK,
)
from comargin.decisions.blending import blend_weights, row_losses


@pytest.fixture
def cells(rng):
    """Scores, labels with unknown cells, a label and a row that nobody looked at, and weights of rows."""
    scores = rng.normal(size=(120, 5))
    Y = (scores + rng.normal(size=scores.shape) > 0.3).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[:, 4], Y[7] = np.nan, np.nan
    return scores, Y, rng.integers(1, 4, len(Y)).astype(float)


PER_LABEL = [PerLabelCut(micro_weight=0.0, shrinkage=0.0), ProportionalCut()]
MEASURES = ("micro_f1", "macro_f1", "example_f1", "hamming_loss")
RULES = [*PER_LABEL, PerLabelCut(), *map(GlobalCut, MEASURES)]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_what_is_said_of_unknown_cells_does_not_move_a_cut(cells, rng, rule, weighted):
    scores, Y, weight = cells
    weight = weight if weighted else None
    other = np.where(np.isnan(Y), 10.0 * rng.normal(size=Y.shape), scores)
    cuts = [rule.fit(each, Y, weight).thresholds_.copy() for each in (scores, other)]
    assert_array_equal(*cuts)
    assert_array_equal(rule.fit(scores, sp.csr_array(Y), weight).thresholds_, cuts[0])
    assert np.isfinite(cuts[0][:4]).all()
    assert cuts[0][4] == np.inf  # nobody saw this label
    assert np.any(cuts[0] != rule.fit(scores, np.nan_to_num(Y), weight).thresholds_)


@pytest.mark.parametrize("rule", PER_LABEL, ids=str)
def test_a_label_alone_has_the_cut_of_its_known_rows(cells, rule):
    scores, Y, weight = cells
    cuts = rule.fit(scores, Y, weight).thresholds_.copy()
    for label in range(4):
        known = ~np.isnan(Y[:, label])
        own = rule.fit(scores[known, label, None], Y[known, label, None], weight[known])
        assert_allclose(cuts[label], own.thresholds_[0], rtol=1e-12)


@pytest.mark.parametrize("measure", MEASURES)
def test_a_global_cut_is_the_best_for_the_measure_of_known_cells(cells, measure):
    scores, Y, weight = (cells[0][:, :4], cells[1][:, :4], cells[2])
    cut = GlobalCut(measure).fit(scores, Y, weight).cut_
    sign = 1.0 if metrics.higher_is_better[measure] else -1.0

    def value(t):
        return sign * getattr(metrics, measure)(Y, (scores > t).astype(int), sample_weight=weight)

    best = max(map(value, np.unique(scores)))
    assert_allclose(value(cut), best, rtol=1e-12)
    assert value(cut) > value(-np.inf)


def test_top_k_counts_the_known_labels_of_its_places(cells):
    scores, Y, weight = cells
    rule = TopK().fit(scores, Y, weight)
    places = [TopK(k).fit(scores, Y).predict(scores) for k in range(1, 6)]
    values = [metrics.micro_f1(Y, on, sample_weight=weight) for on in places]
    assert rule.k_ == 1 + int(np.argmax(values))


def test_the_calibrator_counts_known_cells(cells, rng):
    scores, Y, weight = cells
    other = np.where(np.isnan(Y), 10.0 * rng.normal(size=Y.shape), scores)
    found = [LabelCalibrator().fit(each, Y, weight).probabilities(scores) for each in (scores, other)]
    assert_array_equal(*found)
    negative = LabelCalibrator().fit(scores, np.nan_to_num(Y), weight).probabilities(scores)
    known = ~np.isnan(Y)
    for label in range(4):
        rows = known[:, label]
        assert_allclose(found[0][rows, label].mean(), Y[rows, label].mean(), atol=0.04)
        assert negative[rows, label].mean() < Y[rows, label].mean() - 0.1
    alone = Y[:, :1].copy()  # one label: nothing is shared, so that its rows are all that there is
    rows = known[:, 0]
    one = LabelCalibrator().fit(scores[:, :1], alone, weight)
    own = LabelCalibrator().fit(scores[rows, :1], alone[rows], weight[rows])
    assert_allclose(one.probabilities(scores[:, :1]), own.probabilities(scores[:, :1]), rtol=1e-9)


def test_a_set_is_known_where_all_its_labels_are(rng):
    Y = np.repeat([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], 50, axis=0)
    P = np.where(Y == 1, 0.6, 0.4)
    hidden = np.vstack([Y, np.where(rng.random((30, 3)) < 0.5, np.nan, 1.0)])
    hidden[100:, 0] = np.nan
    whole, partial = SetCalibrator().fit(P, Y), SetCalibrator().fit(np.vstack([P, P[:30]]), hidden)
    assert_array_equal(whole.marginals(P), partial.marginals(P))
    assert partial.known_share_ > 0.5
    none = SetCalibrator().fit(np.vstack([P, P[:30]])[100:], hidden[100:])
    assert_array_equal(none.marginals(P), P)
    assert_array_equal(none.likeliest(P), P >= 0.5)


def test_aims_take_unknown_cells(cells):
    scores, Y, _ = cells
    P = LabelCalibrator().fit(scores, Y).probabilities(scores)
    rule, negative = AimRule().fit(P, Y), AimRule().fit(P, np.nan_to_num(Y))
    assert metrics.micro_f1(Y, rule.predict(P)) > metrics.micro_f1(Y, np.ones_like(Y, dtype=int))
    assert np.any(rule.micro_cuts_ != negative.micro_cuts_)
    assert not rule.predict(P)[:, 4].any()


@pytest.mark.parametrize("promise", ["recall >= 0.7", "false tags per row <= 0.4", "recall of 1 >= 0.7"])
def test_a_promise_in_expectation_is_that_of_the_known_cells(cells, promise):
    scores, Y, _ = cells
    p = 1.0 / (1.0 + np.exp(-scores))
    found = RiskController(promise, confidence=None).fit(p, Y)
    known = ~np.isnan(Y)
    own = slice(1, 2) if "of" in promise.split() else slice(None)
    on, true, seen = found.predict(p)[:, own] == 1, Y[:, own] == 1, known[:, own]
    rows = true.any(axis=1) if promise.startswith("recall") else seen.any(axis=1)
    if promise.startswith("recall"):
        loss = 1.0 - (on & true)[rows].sum(axis=1) / true[rows].sum(axis=1)
        limit, top = 0.3, 1.0
    else:
        loss, limit, top = (on & seen & ~true)[rows].sum(axis=1), 0.4, Y.shape[1]
    inflated = (loss.sum() + top) / (rows.sum() + 1)
    assert limit - 0.05 < inflated <= limit
    value = found.measured(Y, found.predict(p))
    expected = loss.mean() if "false" in promise else 1.0 - loss.mean()
    assert_allclose(next(iter(value.values())), expected)
    assert "known" in found.statement_
    assert "known" not in RiskController(promise, confidence=None).fit(p, np.nan_to_num(Y)).statement_


@pytest.mark.parametrize("promise", ["recall >= 0.8", "precision >= 0.5", "false tags per row <= 0.5"])
def test_a_promise_is_kept_on_known_cells_of_new_rows(rng, promise):
    def draw(n):
        p = rng.random((n, 4))
        Y = (rng.random(p.shape) < p).astype(float)
        return p, np.where(rng.random(p.shape) < 0.5, np.nan, Y)

    new = draw(20000)
    broken = 0
    for _ in range(20):
        found = RiskController(promise).fit(*draw(600))
        (value,) = found.measured(new[1], found.predict(new[0])).values()
        ((guarantee),) = found.guarantees_
        broken += value > guarantee.target if "false" in promise else value < guarantee.target
    assert broken <= 5  # two of twenty are allowed in the mean; six or more have a chance of 1 %


def test_blends_count_known_cells(cells, rng):
    scores, Y, weight = cells
    labels, known = check_labels(Y, "Y"), ~np.isnan(Y)
    losses = np.where(known, np.logaddexp(0.0, scores) - np.nan_to_num(Y) * scores, 0.0)
    assert_allclose(row_losses(scores, labels), losses.sum(axis=1), atol=1e-12)
    other = rng.normal(size=scores.shape)
    share = blend_weights([scores, other], labels, weight)
    replaced = [np.where(known, each, 7.0) for each in (scores, other)]
    assert_allclose(blend_weights(replaced, labels, weight), share, atol=1e-9)
    assert share[0] > 0.5


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(150, 4))
    Y = (X @ rng.normal(size=(4, 4)) > 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[:50, 3] = np.nan
    return X, Y


LEARNER = M3LClassifier(loss="logistic", random_state=0)


@pytest.mark.parametrize(
    "model",
    [
        DecisionClassifierCV(LEARNER, random_state=0),
        DecisionClassifierCV(LEARNER, guarantee="recall >= 0.6", random_state=0),
        ThresholdClassifierCV(LEARNER, random_state=0),
        ThresholdClassifierCV(LEARNER, rule="rank-svm", random_state=0),
        BlendedClassifier([("a", LEARNER), ("b", M3LClassifier(random_state=0))]),
    ],
    ids=["decision", "promise", "threshold", "rank-svm", "blend"],
)
def test_cross_fitted_classifiers_learn_from_known_cells(rows, model):
    X, Y = rows
    on = model.fit(X, Y).predict(X)
    assert set(np.unique(on)) == {0, 1}
    assert metrics.micro_f1(Y, on) > 0.75
    as_sparse = model.fit(X, sp.csr_array(Y)).predict(X)
    assert_array_equal(as_sparse.toarray() if sp.issparse(as_sparse) else as_sparse, on)
    masked = model.fit(X, np.ma.masked_invalid(Y)).predict(X)
    assert_array_equal(masked, on)


def test_a_label_that_a_part_does_not_know_is_decided_by_the_others(rows):
    X, Y = rows
    splits = [(np.arange(50), np.arange(50, 150)), (np.arange(50, 150), np.arange(50))]  # the first lacks label 3
    model = DecisionClassifierCV(LEARNER, cv=splits).fit(X, Y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_no_known_cell_and_structure_are_refused(rows):
    X, Y = rows
    with pytest.raises(ValueError, match="Y has no known cell"):
        GlobalCut().fit(X, np.full_like(Y, np.nan))
    with pytest.raises(ValueError, match="unknown cells"):
        StackedStructureClassifier([LEARNER], cv=2).fit(X, Y)
    with pytest.raises(ValueError, match="entries in"):
        DecisionClassifierCV(LEARNER).fit(X, np.where(np.isnan(Y), np.nan, 2.0))
