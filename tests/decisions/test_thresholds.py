"""Rules against brute force and scikit-learn's measures; the meta-estimator against fold loops by hand."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.metrics import f1_score, hamming_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, RepeatedKFold, cross_val_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from comargin.decisions import GlobalCut, PerLabelCut, ProportionalCut, RankSVMCut, ThresholdClassifierCV, TopK
from comargin.decisions.curves import score_curve
from comargin.metrics import scorers
from comargin.model_selection import MultilabelStratifiedKFold
from comargin.rank.label_sets import best_row_thresholds

ALL_RULES = [
    GlobalCut(),
    GlobalCut("hamming_loss"),
    GlobalCut("macro_f1"),
    GlobalCut("example_f1"),
    PerLabelCut(),
    PerLabelCut(micro_weight=0.0, shrinkage=0.0, fbr=0.3),
    ProportionalCut(),
    TopK(),
    TopK(2),
    RankSVMCut(),
]
MEASURES = {
    "micro_f1": lambda Y, P: f1_score(Y, P, average="micro", zero_division=0),
    "macro_f1": lambda Y, P: f1_score(Y, P, average="macro", zero_division=0),
    "example_f1": lambda Y, P: f1_score(Y, P, average="samples", zero_division=0),
    "hamming_loss": lambda Y, P: -hamming_loss(Y, P),
}


def draw(rng, n=12, n_labels=3, digits=1):
    """Scores with many ties that carry some signal, and labels none of which is constant."""
    Y = (rng.random((n, n_labels)) < rng.uniform(0.2, 0.7, n_labels)).astype(int)
    Y[0], Y[1] = 1, 0
    return np.round(rng.normal(size=Y.shape) + Y, digits), Y


def all_cuts(scores):
    """Every distinguishable cut, highest first, written without sorting tricks."""
    values = sorted(set(np.ravel(scores).tolist()), reverse=True)
    return [values[0], *((a + b) / 2 for a, b in itertools.pairwise(values)), values[-1] - 1.0]


# ---------------------------------------------------------------- rules against brute force


@pytest.mark.parametrize("measure", list(MEASURES))
@pytest.mark.parametrize("seed", range(8))
def test_global_cut_is_the_best_and_the_highest(measure, seed):
    scores, Y = draw(np.random.default_rng(seed))
    rule = GlobalCut(measure).fit(scores, Y)
    values = {cut: MEASURES[measure](Y, (scores > cut).astype(int)) for cut in all_cuts(scores)}
    best = max(values.values())
    assert_allclose(MEASURES[measure](Y, rule.predict(scores)), best, rtol=1e-12)
    highest = next(cut for cut, value in values.items() if value > best - 1e-12)
    assert_array_equal(rule.predict(scores), scores > highest)
    assert_array_equal(rule.thresholds_, rule.cut_)


@pytest.mark.parametrize("seed", range(8))
def test_plain_per_label_cut_has_the_best_f1_of_every_label(seed):
    scores, Y = draw(np.random.default_rng(seed))
    rule = PerLabelCut(micro_weight=0.0, shrinkage=0.0).fit(scores, Y)
    for label in range(Y.shape[1]):
        values = {c: f1_score(Y[:, label], scores[:, label] > c) for c in all_cuts(scores[:, label])}
        best = max(values.values())
        assert rule.best_f1_[label] == pytest.approx(best, rel=1e-12)
        highest = next(cut for cut, value in values.items() if value > best - 1e-12)
        assert_array_equal(scores[:, label] > rule.thresholds_[label], scores[:, label] > highest)
        if rule.thresholds_[label] > scores[:, label].min():
            assert rule.thresholds_[label] == pytest.approx(highest)


@pytest.mark.parametrize("seed", range(6))
def test_full_micro_weight_finds_the_best_micro_f1_of_all_cuts_together(seed):
    scores, Y = draw(np.random.default_rng(seed), n=7)
    rule = PerLabelCut(micro_weight=1.0, shrinkage=0.0).fit(scores, Y)
    candidates = [all_cuts(scores[:, label]) for label in range(3)]
    on = scores > np.array(list(itertools.product(*candidates)))[:, None]  # of every combination of cuts
    best = max(2 * np.sum(on & (Y == 1), axis=(1, 2)) / (np.sum(on, axis=(1, 2)) + Y.sum()))
    assert MEASURES["micro_f1"](Y, rule.predict(scores)) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("seed", range(6))
def test_balanced_cuts_cannot_be_improved_one_at_a_time(seed):
    scores, Y = draw(np.random.default_rng(seed), n=15)

    def balance(cuts):
        P = (scores > cuts).astype(int)
        return 0.6 * MEASURES["macro_f1"](Y, P) + 0.4 * MEASURES["micro_f1"](Y, P)

    cuts = PerLabelCut(micro_weight=0.4, shrinkage=0.0).fit(scores, Y).thresholds_
    for label in range(3):
        for cut in all_cuts(scores[:, label]):
            changed = cuts.copy()
            changed[label] = cut
            assert balance(changed) <= balance(cuts) + 1e-11


def test_shrinkage_draws_rare_labels_to_the_global_cut(rng):
    scores, Y = draw(rng, n=200, n_labels=4, digits=3)
    Y[:, 0] = 0
    Y[:4, 0] = 1
    own = PerLabelCut(shrinkage=0.0).fit(scores, Y).thresholds_
    rule = PerLabelCut(shrinkage=20.0).fit(scores, Y)
    positives = Y.sum(axis=0)
    g = GlobalCut().fit(scores, Y).cut_
    assert rule.global_cut_ == g
    assert_allclose(rule.thresholds_, (positives * own + 20.0 * g) / (positives + 20.0), rtol=1e-12)


def test_fbr_cuts_a_hopeless_label_at_its_highest_score():
    scores = np.array([[9.0, 1], [8, 2], [7, 3], [6, 4], [5, 5], [4, 6]])
    Y = np.array([[1, 1], [1, 0], [1, 0], [0, 0], [0, 0], [0, 0]])
    rule = PerLabelCut(micro_weight=0.0, shrinkage=0.0, fbr=0.5).fit(scores, Y)
    assert_allclose(rule.best_f1_, [1.0, 2 / 7])
    assert_allclose(rule.thresholds_, [6.5, 6.0])
    assert_array_equal(rule.predict([[6.6, 6.1], [6.4, 6.0]]), [[1, 1], [0, 0]])


@pytest.mark.parametrize("seed", range(8))
def test_proportional_cut_predicts_the_nearest_reachable_count(seed):
    scores, Y = draw(np.random.default_rng(seed))
    on = ProportionalCut().fit(scores, Y).predict(scores).sum(axis=0)
    for label in range(3):
        reachable = [int((scores[:, label] > cut).sum()) for cut in all_cuts(scores[:, label])]
        true = Y[:, label].sum()
        assert on[label] == min(reachable, key=lambda count: (abs(count - true), count))


@pytest.mark.parametrize("measure", ["micro_f1", "hamming_loss"])
@pytest.mark.parametrize("seed", range(6))
def test_learned_k_is_the_best_and_the_smallest(measure, seed):
    scores, Y = draw(np.random.default_rng(seed), n_labels=5)
    values = [MEASURES[measure](Y, TopK(k).fit(scores, Y).predict(scores)) for k in range(1, 6)]
    assert TopK(measure=measure).fit(scores, Y).k_ == 1 + next(
        k for k, value in enumerate(values) if value > max(values) - 1e-12
    )


def test_top_k_takes_the_first_of_equal_scores_and_puts_constant_labels_at_the_ends():
    Y = [[1, 0, 1, 1], [0, 1, 1, 0], [1, 0, 1, 0]]
    rule = TopK(2).fit(np.zeros((3, 4)), Y)  # label 2 is always on
    assert_array_equal(rule.predict([[3.0, 3, -9, 3], [1, 2, 0, 2]]), [[1, 0, 1, 0], [0, 1, 1, 0]])
    never = TopK(2).fit(np.zeros((2, 3)), [[0, 1, 0], [0, 0, 1]])
    assert_array_equal(never.predict([[9.0, 1, 0]]), [[0, 1, 1]])
    assert_array_equal(clone(never).set_params(k=3).fit(np.zeros((2, 3)), [[0, 1, 0], [0, 0, 1]])
                       .predict([[9.0, 1, 0]]), [[1, 1, 1]])  # fmt: skip


@pytest.mark.parametrize("seed", range(10))
def test_row_thresholds_have_the_least_hamming_loss_in_the_middle_of_the_widest_gap(seed):
    rng = np.random.default_rng(seed)
    scores, Y = draw(rng, n=20, n_labels=5)
    scores = np.round(8 * scores) / 8  # binary fractions: equal widths are equal in floating point too
    for f, y, t in zip(
        scores, Y, best_row_thresholds(scores, Y.astype(bool), np.ones(Y.shape, dtype=bool)), strict=True
    ):
        values = sorted(set(f.tolist()))
        half = (values[-1] - values[0]) / (len(f) - 1) / 2
        gaps = [
            (values[0] - 2 * half, values[0]),
            *itertools.pairwise(values),
            (values[-1], values[-1] + 2 * half),
        ]
        ranked = [(int(((f > (a + b) / 2) != y).sum()), a - b, -a) for a, b in gaps]
        a, b = gaps[ranked.index(min(ranked))]
        assert t == pytest.approx((a + b) / 2)


def test_row_thresholds_by_hand():
    f = np.array([[4.0, 2.0, 1.0], [4.0, 2.0, 0.0], [4.0, 2.0, 0.0], [3.0, 3.0, 3.0], [0.0, 0.0, 0.0]])
    Y = np.array([[1, 0, 0], [0, 0, 0], [1, 1, 1], [1, 1, 0], [0, 0, 1]], dtype=bool)
    assert_allclose(best_row_thresholds(f, Y, np.ones(Y.shape, dtype=bool)), [3.0, 5.0, -1.0, 1.5, 0.5])


def test_rank_svm_rule_is_a_linear_regression_on_the_scores(rng):
    scores, Y = draw(rng, n=60, n_labels=4, digits=6)
    weight = rng.integers(0, 3, 60).astype(float)
    rule = RankSVMCut().fit(scores, Y, sample_weight=weight)
    peer = LinearRegression().fit(
        scores, best_row_thresholds(scores, Y.astype(bool), np.ones(Y.shape, dtype=bool)), sample_weight=weight
    )
    assert_allclose(rule.coef_, peer.coef_, rtol=1e-9)
    assert_allclose(rule.intercept_, peer.intercept_, rtol=1e-9)
    assert_array_equal(rule.predict(scores), scores > peer.predict(scores)[:, None])


def test_rank_svm_rule_takes_dependent_scores(rng):
    scores, Y = draw(rng, n=50, n_labels=4, digits=6)
    scores -= scores.mean(axis=1, keepdims=True)  # every row sums to zero, as the scores of Rank-SVM do
    rule = RankSVMCut().fit(scores, Y)
    assert np.linalg.norm(rule.coef_) < 10
    assert abs(rule.coef_.sum()) < 1e-10  # least norm
    assert 0 < rule.predict(scores).mean() < 1


# ---------------------------------------------------------------- what all rules have in common


@pytest.mark.parametrize("rule", ALL_RULES, ids=repr)
@pytest.mark.parametrize("scale", [2.0**-40, 2.0**-10, 2.0**30])
def test_rules_do_not_depend_on_the_scale_of_the_scores(rule, scale, rng):
    scores, Y = draw(rng, n=40, n_labels=4, digits=4)
    expected = clone(rule).fit(scores, Y).predict(scores)
    assert_array_equal(clone(rule).fit(scale * scores, Y).predict(scale * scores), expected)


@pytest.mark.parametrize("rule", ALL_RULES, ids=repr)
def test_every_form_of_y_gives_the_same_rule(rule, rng):
    scores, Y = draw(rng, n=40, n_labels=4)
    expected = clone(rule).fit(scores, Y).predict(scores)
    explicit = sp.coo_array((Y.ravel(), (np.repeat(np.arange(40), 4), np.tile(np.arange(4), 40))), shape=Y.shape)
    assert explicit.nnz > Y.sum()  # holds explicit zeros
    forms = [Y.astype(bool), Y.astype(np.float32), Y.astype(np.int8), Y.tolist(), sp.csr_array(Y),
             sp.csc_matrix(Y), sp.lil_array(Y), explicit]  # fmt: skip
    for form in forms:
        assert_array_equal(clone(rule).fit(scores, form).predict(scores), expected)
    assert_array_equal(clone(rule).fit(np.asfortranarray(scores), Y).predict(scores), expected)
    assert expected.dtype == np.int64


@pytest.mark.parametrize("rule", ALL_RULES, ids=repr)
@pytest.mark.parametrize("seed", range(3))
def test_weights_count_as_repetitions(rule, seed):
    rng = np.random.default_rng(seed)
    scores, Y = draw(rng, n=40, n_labels=4)
    weight = rng.integers(0, 4, 40)
    repeated = clone(rule).fit(np.repeat(scores, weight, axis=0), np.repeat(Y, weight, axis=0))
    weighted = clone(rule).fit(scores, Y, sample_weight=weight)
    for name in ("thresholds_", "k_", "coef_"):
        if hasattr(repeated, name):
            assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-9)
    assert_array_equal(weighted.predict(scores), repeated.predict(scores))


@pytest.mark.parametrize("rule", ALL_RULES, ids=repr)
def test_constant_labels_stay_constant(rule, rng):
    scores, Y = draw(rng, n=40, n_labels=5)
    Y[:, 1], Y[:, 3] = 0, 1
    scores[:, 1], scores[:, 3] = 50.0, -50.0  # the scores say the opposite
    P = clone(rule).fit(scores, Y).predict(scores)
    assert_array_equal(P[:, 1], 0)
    assert_array_equal(P[:, 3], 1)
    varying = [0, 2, 4]
    if not isinstance(rule, TopK):  # the other labels are decided as if the constant ones were not there
        alone = clone(rule).fit(scores[:, varying], Y[:, varying]).predict(scores[:, varying])
        assert_array_equal(P[:, varying], alone)


@pytest.mark.parametrize("rule", [r for r in ALL_RULES if repr(r) != "TopK(k=2)"], ids=repr)
@pytest.mark.parametrize("value", [0, 1])
def test_one_row_and_only_constant_labels(rule, value):
    P = clone(rule).fit([[0.3]], [[value]]).predict([[0.1], [5.0]])
    assert_array_equal(P, 1 if isinstance(rule, TopK) else value)
    P = clone(rule).fit([[0.3, 0.3]] * 3, [[1, 0]] * 3).predict([[0.0, 9.0]])
    assert_array_equal(P, [[1, 0]])


@pytest.mark.parametrize("rule", ALL_RULES, ids=repr)
def test_all_scores_equal(rule):
    Y = np.array([[1, 0, 1], [0, 1, 1], [1, 1, 0], [0, 0, 0]])
    P = clone(rule).fit(np.full((4, 3), 7.0), Y).predict(np.full((4, 3), 7.0))
    assert_array_equal(P, np.broadcast_to(P[0], P.shape))  # nothing can tell the rows apart


@pytest.mark.parametrize("rule", ALL_RULES, ids=repr)
def test_bad_input_is_named(rule):
    scores, Y = draw(np.random.default_rng(0))
    with pytest.raises(NotFittedError):
        clone(rule).predict(scores)
    with pytest.raises(ValueError, match="scores must be finite"):
        clone(rule).fit(np.where(scores > 1, np.nan, scores), Y)
    with pytest.raises(ValueError, match="scores must be a dense array"):
        clone(rule).fit(scores[:, 0], Y[:, 0])
    with pytest.raises(ValueError, match="Y must have the shape of scores"):
        clone(rule).fit(scores, Y[:, :2])
    with pytest.raises(ValueError, match="Y must be a label indicator"):
        clone(rule).fit(scores, 2 * Y)
    with pytest.raises(ValueError, match="at least one row"):
        clone(rule).fit(scores[:0], Y[:0])
    with pytest.raises(ValueError, match="sample_weight"):
        clone(rule).fit(scores, Y, sample_weight=np.zeros(len(Y)))
    with pytest.raises(ValueError, match="scores has 2 labels, the rule was fitted with 3"):
        clone(rule).fit(scores, Y).predict(scores[:, :2])


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (GlobalCut("f2"), "measure must be one of 'micro_f1'"),
        (GlobalCut("micro-f1"), "measure must be one of 'micro_f1', 'macro_f1', 'example_f1', 'hamming_loss'"),
        (TopK(measure="hamming"), "measure must be one of 'micro_f1', 'hamming_loss'"),
        (TopK(measure="macro_f1"), "measure must be one of"),
        (TopK(4), "k must be an int from 1 to 3"),
        (TopK(0), "k must be an int"),
        (TopK(1.0), "k must be an int"),
        (PerLabelCut(micro_weight=1.5), "micro_weight must be a finite number from 0 to 1"),
        (PerLabelCut(shrinkage=-1), "shrinkage must be a finite number 0 or greater"),
        (PerLabelCut(shrinkage=np.inf), "shrinkage must be a finite number"),
        (PerLabelCut(fbr="high"), "fbr must be a finite number"),
    ],
)
def test_bad_parameters_are_named(rule, message):
    with pytest.raises(ValueError, match=message):
        rule.fit(*draw(np.random.default_rng(0)))


def test_a_cut_separates_neighbouring_floats():
    for value in (1.0, -1.0, 1e-308, 1e300, 5e-324, 3.0):
        high = np.nextafter(value, np.inf)
        scores = np.array([[high], [value]])
        for rule in (GlobalCut(), PerLabelCut(), ProportionalCut()):
            assert_array_equal(clone(rule).fit(scores, [[1], [0]]).predict(scores), [[1], [0]])
    huge = np.array([[1.7e308], [-1.7e308]])
    assert_array_equal(GlobalCut().fit(huge, [[1], [0]]).predict(huge), [[1], [0]])


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.integers(-3, 3), st.booleans(), st.integers(1, 3)), min_size=1, max_size=12),
    st.booleans(),
    st.booleans(),
)
def test_curves_count_what_is_above_each_cut(entries, every_gap, weighted):
    scores = np.array([s / 4 for s, _, _ in entries])
    y = np.array([p for _, p, _ in entries])
    w = np.array([float(w) if weighted else 2.0 for _, _, w in entries])
    if not y.any():
        return
    curve = score_curve(scores, np.flatnonzero(y), w if weighted else 2.0, every_gap=every_gap)
    assert np.all(np.diff(curve.cuts) < 0)
    for cut, hits, on in zip(curve.cuts, curve.hits, curve.on, strict=True):
        assert (hits, on) == (w[(scores > cut) & y].sum(), w[scores > cut].sum())
    levels = scores if every_gap else scores[y]
    assert len(curve.cuts) == len(set(levels.tolist())) + 1


# ---------------------------------------------------------------- the meta-estimator

EXPECTED_FAILURES = {
    "check_classifiers_train": "compares predict with decision_function > 0; moving that cut is the purpose "
    "(scikit-learn's TunedThresholdClassifierCV is exempt too)",
}
ONE_VS_REST_FAILURES = EXPECTED_FAILURES | {
    "check_classifier_multioutput": "compares predict with decision_function > 0",
    **dict.fromkeys(
        (
            "check_sample_weights_pandas_series",
            "check_sample_weights_not_an_array",
            "check_sample_weights_list",
            "check_sample_weights_shape",
            "check_sample_weights_not_overwritten",
            "check_sample_weight_equivalence_on_dense_data",
            "check_sample_weight_equivalence_on_sparse_data",
            "check_classifiers_one_label_sample_weights",
        ),
        "OneVsRestClassifier takes sample_weight only with metadata routing, which is tested below",
    ),
}


def expected_failures(estimator):
    one_vs_rest = isinstance(estimator.estimator, OneVsRestClassifier)
    return ONE_VS_REST_FAILURES if one_vs_rest else EXPECTED_FAILURES


@parametrize_with_checks(
    [
        ThresholdClassifierCV(LogisticRegression()),
        ThresholdClassifierCV(OneVsRestClassifier(LogisticRegression())),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_sklearn_checks(estimator, check):
    check(estimator)


def linear(C=1.0):
    return OneVsRestClassifier(LogisticRegression(C=C, max_iter=2000))


@pytest.fixture(scope="module")
def data():
    X, Y = make_multilabel_classification(n_samples=160, n_features=12, n_classes=5, n_labels=2, random_state=3)
    return StandardScaler().fit_transform(X), Y


@pytest.mark.parametrize("rule", ALL_RULES, ids=repr)
def test_rule_learns_from_out_of_fold_scores(rule, data):
    X, Y = data
    model = ThresholdClassifierCV(linear(), rule=rule, cv=4).fit(X, Y)
    scores = np.empty(Y.shape)
    for train, test in MultilabelStratifiedKFold(4).split(X, Y):
        scores[test] = linear().fit(X[train], Y[train]).decision_function(X[test])
    full = linear().fit(X, Y)
    expected = clone(rule).fit(scores, Y).predict(full.decision_function(X))
    assert_array_equal(model.predict(X), expected)
    assert not np.array_equal(expected, full.predict(X))  # the rule changes predictions
    assert_allclose(model.decision_function(X), full.decision_function(X))
    assert_allclose(model.predict_proba(X), full.predict_proba(X))
    assert_array_equal(model.classes_, np.arange(5))
    assert model.n_features_in_ == 12
    assert not hasattr(rule, "n_labels_")  # the rule given is cloned


@pytest.mark.parametrize("name", ["per-label", "global", "proportional", "top-k", "rank-svm"])
def test_rules_by_name(name, data):
    X, Y = data
    model = ThresholdClassifierCV(linear(), rule=name, cv=3).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    assert hasattr(model, "thresholds_") == (name not in ("top-k", "rank-svm"))


@pytest.mark.parametrize("container", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.lil_matrix])
def test_sparse_y_gives_sparse_predictions(container, data):
    X, Y = data
    dense = ThresholdClassifierCV(linear(), cv=3).fit(X, Y)
    model = ThresholdClassifierCV(linear(), cv=3).fit(sp.csr_array(X), container(Y))
    P = model.predict(sp.csr_array(X))
    assert isinstance(P, sp.csr_array)
    assert P.nnz == P.sum()
    assert_allclose(model.thresholds_, dense.thresholds_, rtol=1e-5)
    assert_array_equal(P.toarray(), dense.predict(X))


def test_prefit_learns_the_rule_only(data):
    X, Y = data
    fitted = linear().fit(X[:80], Y[:80])
    model = ThresholdClassifierCV(fitted, rule="global", cv="prefit").fit(X[80:], Y[80:])
    assert model.estimator_ is fitted
    expected = GlobalCut().fit(fitted.decision_function(X[80:]), Y[80:])
    assert_array_equal(model.thresholds_, expected.thresholds_)
    with pytest.raises(NotFittedError):
        ThresholdClassifierCV(linear(), cv="prefit").fit(X, Y)


def test_one_held_out_part_with_and_without_refit(data):
    X, Y = data
    kept = ThresholdClassifierCV(linear(), cv=0.25, refit=False, random_state=0).fit(X, Y)
    refitted = ThresholdClassifierCV(linear(), cv=0.25, random_state=0).fit(X, Y)
    assert_array_equal(kept.thresholds_, refitted.thresholds_)
    assert not np.allclose(kept.decision_function(X), refitted.decision_function(X))
    assert_allclose(refitted.decision_function(X), linear().fit(X, Y).decision_function(X))
    with pytest.raises(ValueError, match="refit=False needs a cv with one split"):
        ThresholdClassifierCV(linear(), cv=3, refit=False).fit(X, Y)


def test_splitters_that_repeat_rows_or_leave_some_out(data):
    X, Y = data
    splitter = RepeatedKFold(n_splits=3, n_repeats=2, random_state=0)
    scores, rows = [], []
    for train, test in splitter.split(X):
        scores.append(linear().fit(X[train], Y[train]).decision_function(X[test]))
        rows.append(test)
    expected = PerLabelCut().fit(np.vstack(scores), Y[np.concatenate(rows)]).thresholds_
    assert_allclose(ThresholdClassifierCV(linear(), cv=splitter).fit(X, Y).thresholds_, expected)
    half = [(np.arange(80), np.arange(100, 160))]
    held_out = linear().fit(X[:80], Y[:80]).decision_function(X[100:])
    assert_allclose(
        ThresholdClassifierCV(linear(), cv=half).fit(X, Y).thresholds_,
        PerLabelCut().fit(held_out, Y[100:]).thresholds_,
    )


def test_groups_reach_the_splitter(data):
    X, Y = data
    groups = np.arange(len(X)) % 7
    grouped = ThresholdClassifierCV(linear(), cv=GroupKFold(3)).fit(X, Y, groups=groups)
    by_hand = ThresholdClassifierCV(linear(), cv=list(GroupKFold(3).split(X, Y, groups))).fit(X, Y)
    assert_array_equal(grouped.thresholds_, by_hand.thresholds_)


def test_result_depends_on_random_state_alone(data):
    X, Y = data
    first = ThresholdClassifierCV(linear(), random_state=1).fit(X, Y).thresholds_
    assert_array_equal(ThresholdClassifierCV(linear(), random_state=1, n_jobs=2).fit(X, Y).thresholds_, first)
    assert not np.array_equal(ThresholdClassifierCV(linear(), random_state=2).fit(X, Y).thresholds_, first)
    plain = [ThresholdClassifierCV(linear()).fit(X, Y).thresholds_ for _ in range(2)]
    assert_array_equal(*plain)


def test_pipelines_and_grid_search(data):
    X, Y = data
    inside = make_pipeline(StandardScaler(), ThresholdClassifierCV(linear(), cv=3)).fit(X, Y)
    outside = ThresholdClassifierCV(make_pipeline(StandardScaler(), linear()), cv=3).fit(X, Y)
    assert inside.predict(X).shape == outside.predict(X).shape == Y.shape
    search = GridSearchCV(
        ThresholdClassifierCV(linear(), rule=PerLabelCut(), cv=3),
        {"estimator__estimator__C": [0.01, 1.0], "rule__micro_weight": [0.0, 1.0]},
        scoring="f1_macro",
        cv=KFold(3),
        error_score="raise",
    ).fit(X, Y)
    assert len(set(search.cv_results_["mean_test_score"])) == 4
    rules = GridSearchCV(ThresholdClassifierCV(linear(), cv=3), {"rule": ["global", TopK(2)]}, scoring="f1_micro")
    assert rules.fit(X, Y).best_estimator_.predict(X).shape == Y.shape
    assert np.isfinite(cross_val_score(search.best_estimator_, X, Y, scoring="f1_micro", cv=3)).all()


def test_estimators_without_decision_function(data):
    X, Y = data
    forest = RandomForestClassifier(20, max_depth=4, random_state=0)
    model = ThresholdClassifierCV(forest, rule="global", cv=3).fit(X, Y)
    assert not hasattr(model, "decision_function")
    assert len(model.predict_proba(X)) == 5
    assert 0 < model.thresholds_[0] < 1
    ridge = ThresholdClassifierCV(RidgeClassifier(), cv=3).fit(X, Y)
    assert not hasattr(ridge, "predict_proba")


def test_binary_classes(data):
    X, Y = data
    names = np.array(["no", "yes"])[Y[:, 0]]
    for base in (LogisticRegression(), RandomForestClassifier(20, max_depth=3, random_state=0)):
        model = ThresholdClassifierCV(base, rule=PerLabelCut(0.0, 0.0), cv=3).fit(X, names)
        full = clone(base).fit(X, names)
        score = full.predict_proba(X)[:, 1]
        if hasattr(base, "decision_function"):
            score = full.decision_function(X)
        assert_array_equal(model.predict(X), np.where(score > model.thresholds_[0], "yes", "no"))
        assert_array_equal(model.classes_, ["no", "yes"])
    assert model.score(X, names) > 0.5


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_one_label_as_a_column(form, data):
    X, Y = data
    model = ThresholdClassifierCV(SingleColumn(), cv=3).fit(X, form(Y[:, :1]))
    assert model.predict(X).shape == (len(X), 1)


class SingleColumn(ClassifierMixin, BaseEstimator):
    """Takes an (n, 1) indicator and scores it in a column."""

    def fit(self, X, y):
        y = y.toarray() if sp.issparse(y) else y
        self.coef_ = np.linalg.lstsq(X, y - 0.5, rcond=None)[0]
        return self

    def decision_function(self, X):
        return X @ self.coef_


def test_rare_and_constant_labels(data):
    X, Y = data
    Y = Y.copy()
    Y[:, 1] = 0
    Y[:, 2] = 1
    Y[:, 3] = 0
    Y[7, 3] = 1  # one positive: the part trained without it cannot score it
    with pytest.warns(UserWarning, match="present in all training examples") as caught:
        model = ThresholdClassifierCV(linear(), rule=GlobalCut()).fit(X, Y)
    assert len(caught) == 2  # of the last fit; those of the folds are silenced
    P = model.predict(X)
    assert_array_equal(P[:, 1], 0)
    assert_array_equal(P[:, 2], 1)
    assert_array_equal(model.thresholds_[[1, 2]], [np.inf, -np.inf])
    # The blind fold would score label 3 with 0 everywhere, above all others; it must not move the cut.
    without = [0, 4]
    with pytest.warns(UserWarning, match="present in all"):
        folds = ThresholdClassifierCV(linear(), rule=GlobalCut(), cv=MultilabelStratifiedKFold(5)).fit(X, Y)
    assert folds.thresholds_[3] == folds.thresholds_[0]
    scores = np.empty((len(X), 2))
    for train, test in MultilabelStratifiedKFold(5).split(X, Y):
        scores[test] = linear().fit(X[train], Y[train][:, without]).decision_function(X[test])
    assert_allclose(model.thresholds_[0], GlobalCut().fit(scores, Y[:, without]).cut_, atol=0.05)
    assert P[:, 3].mean() < 0.5


def test_rows_without_labels(data):
    X, Y = data
    Y = np.where(np.arange(len(Y))[:, None] % 3 == 0, 0, Y)
    for rule in ("per-label", "rank-svm", "top-k"):
        assert ThresholdClassifierCV(linear(), rule=rule, cv=3).fit(X, Y).predict(X).any()


def test_int8_labels_beyond_128():
    """scikit-learn's LabelBinarizer returns wrong labels for an int8 indicator with more than 128 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = (X @ rng.normal(size=(4, 140)) > 0).astype(np.int8)
    base = OneVsRestClassifier(RidgeClassifier())
    model = ThresholdClassifierCV(base, cv=2).fit(X, Y)
    assert (model.predict(X) == Y).mean() > 0.85
    assert (ThresholdClassifierCV(base, cv=2).fit(X, sp.csr_array(Y)).predict(X).toarray() == Y).mean() > 0.85


def test_sample_weight_reaches_estimator_and_rule(data):
    X, Y = data
    y = Y[:, 0]
    weight = np.where(y == 1, 5.0, np.arange(len(y)) % 3 + 1.0)
    model = ThresholdClassifierCV(LogisticRegression(), rule="global", cv=KFold(3)).fit(X, y, sample_weight=weight)
    scores = np.empty(len(y))
    for train, test in KFold(3).split(X):
        fold = LogisticRegression().fit(X[train], y[train], sample_weight=weight[train])
        scores[test] = fold.decision_function(X[test])
    expected = GlobalCut().fit(scores[:, None], y[:, None], sample_weight=weight)
    assert_allclose(model.thresholds_, expected.thresholds_)
    assert not np.allclose(model.thresholds_, GlobalCut().fit(scores[:, None], y[:, None]).thresholds_)
    full = LogisticRegression().fit(X, y, sample_weight=weight)
    assert_allclose(model.decision_function(X), full.decision_function(X))
    with pytest.raises(ValueError, match="metadata_routing"):
        ThresholdClassifierCV(linear(), cv=3).fit(X, Y, sample_weight=weight)


def test_metadata_routing(data):
    X, Y = data
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    with config_context(enable_metadata_routing=True):
        base = OneVsRestClassifier(LogisticRegression().set_fit_request(sample_weight=True))
        model = ThresholdClassifierCV(base, cv=3).fit(X, Y, sample_weight=weight)
        expected = clone(base).fit(X, Y, sample_weight=weight)
        assert_allclose(model.decision_function(X), expected.decision_function(X))
    assert not np.allclose(expected.decision_function(X), linear().fit(X, Y).decision_function(X))


def test_other_fit_parameters_are_split_with_the_rows(data):
    X, Y = data

    class Recorder(RidgeClassifier):
        def fit(self, X, y, tags=None, mode=None):
            assert len(tags) == len(X)
            assert_array_equal(np.asarray(tags, dtype=float), X[:, 0])
            assert mode == "fast"
            return super().fit(X, y)

    ThresholdClassifierCV(Recorder(), cv=3).fit(X, Y, tags=X[:, 0].tolist(), mode="fast")


def test_texts_and_data_frames(data):
    X, Y = data
    words = np.array(["ant", "bee", "cat", "dog", "elk"])
    texts = [" ".join(["fox", *words[row == 1]]) for row in Y]
    base = make_pipeline(CountVectorizer(), OneVsRestClassifier(MultinomialNB()))
    model = ThresholdClassifierCV(base, cv=3).fit(texts, Y)
    assert (model.predict(texts) == Y).mean() > 0.8
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(12)], index=np.arange(len(X))[::-1])
    model = ThresholdClassifierCV(RidgeClassifier(), cv=3).fit(frame, pd.DataFrame(Y))
    assert_array_equal(model.feature_names_in_, frame.columns)
    assert_array_equal(model.predict(frame), ThresholdClassifierCV(RidgeClassifier(), cv=3).fit(X, Y).predict(X))


def test_precomputed_kernel(data):
    X, Y = data
    kernel = OneVsRestClassifier(SVC(kernel="precomputed"))
    direct = OneVsRestClassifier(SVC(kernel="linear"))
    K = X @ X.T
    assert_allclose(
        ThresholdClassifierCV(kernel, cv=3).fit(K, Y).thresholds_,
        ThresholdClassifierCV(direct, cv=3).fit(X, Y).thresholds_,
        rtol=1e-6,
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"rule": "best"}, "rule must be one of 'per-label', 'global'"),
        ({"rule": GlobalCut}, "rule must be one of"),
        ({"rule": None}, "rule must be one of"),
        ({"rule": TopK(9)}, "k must be an int from 1 to 5"),
        ({"cv": "all"}, "cv must be an int"),
        ({"cv": None}, "cv must be an int"),
        ({"cv": 1.5}, "cv as a float is the share"),
    ],
)
def test_bad_parameters_of_the_classifier_are_named(params, message, data):
    model = ThresholdClassifierCV(linear(), **params)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert not hasattr(model, "estimator_")


def test_measures_have_the_names_of_the_metrics():
    assert set(MEASURES) <= set(scorers)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"estimator": None}, "estimator must be a scikit-learn classifier .* got None"),
        ({"estimator": "svm"}, "estimator must be a scikit-learn classifier .* got 'svm'"),
        ({"estimator": RidgeClassifier}, r"estimator must be .* pass an instance, RidgeClassifier\(\)"),
        ({"refit": "x"}, "refit must be True or False; got 'x'"),
        ({"refit": None}, "refit must be True or False"),
        ({"random_state": "x"}, "random_state must be an int, .* got 'x'"),
        ({"random_state": 1.5}, "random_state must be an int"),
        ({"random_state": "x", "cv": KFold(3)}, "random_state must be an int"),
    ],
)
def test_parameters_are_checked_in_fit_and_not_before(params, message, data):
    model = ThresholdClassifierCV(**{"estimator": linear(), **params})
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert repr(model).startswith("ThresholdClassifierCV(")
    assert is_classifier(model)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    with pytest.raises(ValueError, match=message):
        GridSearchCV(model, {"n_jobs": [None, 1]}, error_score="raise", cv=2).fit(*data)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize(
    "base", [LogisticRegression(), make_pipeline(StandardScaler(), LinearSVC())], ids=["plain", "pipeline"]
)
def test_estimators_of_a_vector_y_are_to_be_wrapped(base, form, data):
    X, Y = data
    name = type(base).__name__
    with pytest.raises(ValueError, match=f"estimator {name} .* 1-D y only.*OneVsRestClassifier.*own error") as caught:
        ThresholdClassifierCV(base, cv=2).fit(X, form(Y))
    assert isinstance(caught.value.__cause__, TypeError | ValueError)
    with pytest.raises(ValueError, match=r"^Input X contains NaN"):  # not a question of y
        ThresholdClassifierCV(linear(), cv=2).fit(np.full_like(X, np.nan), Y)


def test_bad_targets_are_named(data):
    X, Y = data
    model = ThresholdClassifierCV(linear(), cv=3)
    with pytest.raises(ValueError, match="y must be a label indicator"):
        model.fit(X, 2 * Y)
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        model.fit(X, Y.sum(axis=1))
    with pytest.raises(ValueError, match="one class only"):
        model.fit(X, np.ones(len(X)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X, Y[:-1])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_safeguard_on_enron(data_home):
    """The plain F1 cut of each label ruins micro-F1 on enron; the default gains on both measures."""
    from comargin.data import load

    if not (data_home / "enron").is_dir():
        pytest.skip("enron is not in COMARGIN_DATA")
    train, test = load("enron", split="train"), load("enron", split="test")
    Y, truth = (part.Y.toarray() if sp.issparse(part.Y) else part.Y for part in (train, test))

    class Remembers(PerLabelCut):  # the default rule; keeps the out-of-fold scores for the rule without guards
        def fit(self, scores, Y, sample_weight=None):
            self.seen_ = scores, Y
            return super().fit(scores, Y, sample_weight)

    assert type(ThresholdClassifierCV(LinearSVC()).fit([[0.0], [1.0]] * 10, [0, 1] * 10).rule_) is PerLabelCut
    base = OneVsRestClassifier(LinearSVC(C=0.01, random_state=0))
    with pytest.warns(UserWarning, match="present in all"):  # one label has no positive in the training part
        tuned = ThresholdClassifierCV(base, rule=Remembers()).fit(train.X, Y)
    naive = PerLabelCut(0.0, 0.0).fit(*tuned.rule_.seen_)

    def micro_macro(P):
        return np.array([MEASURES["micro_f1"](truth, P), MEASURES["macro_f1"](truth, P)])

    assert micro_macro(naive.predict(tuned.decision_function(test.X)))[0] < 0.4
    plain = tuned.estimator_.predict(test.X)
    assert np.all(micro_macro(tuned.predict(test.X)) - micro_macro(plain) > [0.03, 0.05])
