"""One cross-fit for probabilities, aims and guarantees; scikit-learn's checks; bad input."""

import contextlib

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from comargin import M3LClassifier, StructuredSVMClassifier
from comargin.decisions import (
    AIMS,
    DecisionClassifierCV,
    LabelDecisions,
    RiskController,
    ThresholdClassifierCV,
)
from comargin.decisions.decision_classifier import split_off
from comargin.metrics import brier_score, evaluate, log_loss

# What each aim is made for, and whether higher is better.
MEASURE_OF = {
    "hamming_loss": ("hamming_loss", -1),
    "subset_accuracy": ("subset_accuracy", 1),
    "micro_f1": ("micro_f1", 1),
    "macro_f1": ("macro_f1", 1),
    "example_f1": ("example_f1", 1),
}


def linear():
    return OneVsRestClassifier(LinearSVC(random_state=0))


def draw(rng, n=600, n_features=6, n_labels=5, noise=1.0):
    """Labels of which one in three rows has some, the third a copy of the second."""
    X = rng.normal(size=(n, n_features))
    scores = X @ rng.normal(size=(n_features, n_labels)) + noise * rng.normal(size=(n, n_labels)) - 1.5
    scores[:, 2] = scores[:, 1]
    return X, (scores > 0.0).astype(int)


@pytest.fixture
def data(rng):
    return draw(rng)


@parametrize_with_checks([DecisionClassifierCV(LogisticRegression(), aim="hamming_loss")])
def test_sklearn_checks(estimator, check):
    check(estimator)


def test_probabilities_are_those_of_the_rows(data):
    X, Y = data
    half = len(X) // 2
    model = DecisionClassifierCV(linear(), random_state=0).fit(X[:half], Y[:half])
    P = model.predict_proba(X[half:])
    assert P.shape == Y[half:].shape
    assert 0.0 < P.min() < P.max() < 1.0
    raw = expit(model.estimator_.decision_function(X[half:]))
    assert brier_score(Y[half:], P) < brier_score(Y[half:], raw)
    assert log_loss(Y[half:], P) < log_loss(Y[half:], raw)
    assert_allclose(model.decision_function(X[half:]), logit(P))
    assert_allclose(P.mean(axis=0), Y[half:].mean(axis=0), atol=0.08)


@pytest.mark.parametrize("aim", [*AIMS, "precision_at_2", [1.0, 3.0]], ids=str)
def test_another_aim_takes_no_training(aim, data):
    X, Y = data
    model = DecisionClassifierCV(linear(), random_state=0).fit(X, Y)
    assert_array_equal(
        model.predict(X, aim), DecisionClassifierCV(linear(), aim=aim, random_state=0).fit(X, Y).predict(X)
    )
    labels, P = model.decide(X, aim)
    assert_array_equal(labels, model.predict(X, aim))
    assert_array_equal(P, model.predict_proba(X))
    if aim == [1.0, 3.0]:
        assert_array_equal(labels, P >= 0.25)
    if aim == "precision_at_2":
        assert np.all(labels.sum(axis=1) == 2)


def test_every_measure_is_best_served_by_its_own_aim():
    """Means over draws, at frequent and rare labels that hardly can be told: there the aims differ."""
    values = {aim: {name: 0.0 for name, _ in MEASURE_OF.values()} for aim in MEASURE_OF}
    for draws in range(6):
        rng = np.random.default_rng(draws)
        X = rng.normal(size=(1500, 6))
        Y = (X @ rng.normal(size=(6, 8)) + 3.0 * rng.normal(size=(1500, 8)) > np.linspace(-1.0, 7.0, 8)).astype(int)
        model = DecisionClassifierCV(linear(), random_state=0).fit(X[:750], Y[:750])
        for aim, found in values.items():
            measures = evaluate(Y[750:], None, model.predict(X[750:], aim))
            for name in found:
                found[name] += measures[name] / 6
    for aim, (name, sign) in MEASURE_OF.items():
        own = sign * values[aim][name]
        assert all(own >= sign * values[other][name] - 0.002 for other in MEASURE_OF), (aim, name)
        assert sum(own > sign * values[other][name] + 0.01 for other in MEASURE_OF) >= 2, (aim, name)


def test_a_guarantee_is_certified_by_rows_that_nothing_else_has_seen(data, monkeypatch):
    X, Y = data
    seen = {}

    class Spy(LinearSVC):
        def fit(self, X, y, sample_weight=None):
            seen.setdefault("fits", []).append(X)
            return super().fit(X, y, sample_weight)

    def fit(self, P, Y, sample_weight=None, fit=RiskController.fit):
        seen["certified"] = (P, Y.toarray() if sp.issparse(Y) else Y)
        return fit(self, P, Y, sample_weight)

    monkeypatch.setattr(RiskController, "fit", fit)
    model = DecisionClassifierCV(OneVsRestClassifier(Spy(random_state=0)), guarantee="recall >= 0.8", random_state=0)
    model.fit(X, Y)
    learned, certifying = split_off(RiskController("recall >= 0.8"), Y.shape, 0)
    assert_array_equal(np.sort(np.concatenate([learned, certifying])), np.arange(len(X)))
    assert_array_equal(seen["certified"][1], Y[certifying])
    assert_array_equal(seen["certified"][0], model.predict_proba(X[certifying]))
    rows = {tuple(row) for row in X[learned]}
    assert all(tuple(row) in rows for fitted in seen["fits"] for row in fitted)
    assert_array_equal(seen["fits"][-1], X[learned])
    plain = DecisionClassifierCV(OneVsRestClassifier(Spy(random_state=0)), random_state=0).fit(X[learned], Y[learned])
    assert_array_equal(model.predict_proba(X), plain.predict_proba(X))  # nor do probabilities know them
    assert plain.promise_ is None
    assert model.predict(X).sum() > plain.predict(X).sum()
    assert_array_equal(model.predict(X, "hamming_loss"), model.predict_proba(X) >= 0.5)
    by_hand = plain.set_params(guarantee="recall >= 0.8").certify(X[certifying], Y[certifying])
    assert_array_equal(by_hand.predict(X), model.predict(X))


@pytest.mark.parametrize("C", [1e-3, 1.0])
@pytest.mark.parametrize(("promise", "target"), [("recall >= 0.8", 0.8), ("precision >= 0.6", 0.6)])
def test_guarantees_hold_in_as_many_draws_as_they_say(promise, target, C):
    """Measured on many new rows: below the target in at most a tenth of the draws, and not far above.

    With a small C scores grow with the number of rows, so that cuts for the models of the folds would fail. A promise
    that is refused is not broken.
    """
    found = []
    for draws in range(60):
        X, Y = draw(np.random.default_rng(draws), n=3000, noise=1.0)
        learner = M3LClassifier(C, loss="logistic", random_state=0)
        model = DecisionClassifierCV(learner, guarantee=promise, random_state=0)
        with contextlib.suppress(ValueError):
            on = model.fit(X[:600], Y[:600]).predict(X[600:])
            found.append(model.promise_.measured(Y[600:], on)[promise])
    assert len(found) >= 50
    assert np.sum(np.array(found) < target) <= 6 + 3 * np.sqrt(60 * 0.1 * 0.9)
    assert np.mean(found) < target + 0.13


def test_names_of_columns_are_labels_of_guarantees(data):
    pd = pytest.importorskip("pandas")
    X, Y = data
    frame = pd.DataFrame(Y, columns=["red", "green", "copy", "blue", "white"])
    model = DecisionClassifierCV(linear(), guarantee="recall of blue >= 0.6", random_state=0).fit(X, frame)
    assert "blue" in model.promise_.statement_
    assert_array_equal(
        model.predict(X),
        DecisionClassifierCV(linear(), guarantee="recall of 3 >= 0.6", random_state=0).fit(X, Y).predict(X),
    )
    with pytest.raises(ValueError, match="guarantee: there is no label 'pink'"):
        DecisionClassifierCV(linear(), guarantee="recall of pink >= 0.6").fit(X, frame)


def test_callbacks_see_the_last_fit_only(data):
    seen, alone = [], []
    DecisionClassifierCV(M3LClassifier(random_state=0, callback=seen.append)).fit(*data)
    M3LClassifier(random_state=0, callback=alone.append).fit(*data)
    assert [point.primal for point in seen] == [point.primal for point in alone]


def test_a_promise_that_fails_leaves_the_fit_before(data):
    X, Y = data
    model = DecisionClassifierCV(linear(), random_state=0).fit(X, Y)
    expected = model.predict_proba(X)
    with pytest.raises(ValueError, match="cannot keep"):
        model.set_params(guarantee="precision >= 0.999").fit(X, Y)
    assert_array_equal(model.predict_proba(X), expected)
    assert model.promise_ is None


def test_nothing_depends_on_n_jobs(data):
    X, Y = data
    one, two = (DecisionClassifierCV(linear(), n_jobs=n, random_state=0).fit(X, Y) for n in (1, 2))
    assert_array_equal(one.predict_proba(X), two.predict_proba(X))
    promised = [DecisionClassifierCV(linear(), guarantee="recall >= 0.7").fit(X, Y).predict(X) for _ in range(2)]
    assert_array_equal(*promised)  # without a seed, too


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix])
def test_sparse_labels_rare_and_constant_ones(form, data, rng):
    X, Y = data
    Y = np.hstack([Y, np.zeros((len(Y), 2), int), np.ones((len(Y), 1), int)])
    Y[7, 5] = 1  # in one fold only
    with pytest.warns(UserWarning, match="present in all training examples"):
        model = DecisionClassifierCV(linear(), random_state=0).fit(X, form(Y))
    P = model.predict_proba(X)
    assert_allclose(P[:, 6], 0.5 / (len(X) + 1.0), rtol=0.5)  # its smoothed rate
    assert_allclose(1.0 - P[:, 7], 0.5 / (len(X) + 1.0), rtol=0.5)
    for aim in AIMS:
        on = model.predict(X, aim)
        assert sp.issparse(on)
        assert on[:, [6]].nnz == 0
        assert on[:, [7]].nnz == len(X)


def test_a_thousand_labels(rng):
    X = rng.normal(size=(400, 20))
    Y = sp.csr_array((X @ rng.normal(size=(20, 1000)) > 9.0).astype(int))
    model = DecisionClassifierCV(M3LClassifier(0.01, loss="logistic", tol=0.1), random_state=0).fit(X, Y)
    assert model.predict_proba(X).shape == (400, 1000)
    for aim in AIMS:
        assert model.predict(X, aim).shape == Y.shape


@pytest.mark.parametrize(
    "estimator",
    [
        RandomForestClassifier(20, random_state=0),
        StructuredSVMClassifier(alpha=1.0, tol=0.1),
        M3LClassifier(loss="logistic"),
    ],
    ids=lambda estimator: type(estimator).__name__,
)
def test_any_classifier_with_scores(estimator, data):
    X, Y = data
    model = DecisionClassifierCV(estimator, random_state=0).fit(X[:300], Y[:300])
    constant = np.full_like(Y[300:], 1.0, dtype=float) * Y[:300].mean(axis=0)
    assert log_loss(Y[300:], model.predict_proba(X[300:])) < 0.8 * log_loss(Y[300:], constant)


def test_classes_of_a_vector(data):
    X, Y = data
    names = np.array(["no", "yes"])[Y[:, 0]]
    model = DecisionClassifierCV(LogisticRegression(), random_state=0).fit(X, names)
    P = model.predict_proba(X)
    assert P.shape == (len(X), 2)
    assert_allclose(P.sum(axis=1), 1.0)
    assert_array_equal(model.predict(X, "hamming_loss"), np.array(["no", "yes"])[(P[:, 1] >= 0.5).astype(int)])
    search = GridSearchCV(model, {"estimator__C": [1e-4, 1.0]}, scoring="neg_log_loss", cv=2).fit(X, names)
    assert search.best_params_ == {"estimator__C": 1.0}


def test_one_model_for_scores_and_predictions(data):
    X, Y = data
    fitted = linear().fit(X[:200], Y[:200])
    model = DecisionClassifierCV(fitted, cv="prefit").fit(X[200:], Y[200:])
    assert model.estimator_ is fitted
    by_hand = LabelDecisions().fit(fitted.decision_function(X[200:]), Y[200:])
    assert_array_equal(model.predict_proba(X), by_hand.probabilities(fitted.decision_function(X)))
    once = DecisionClassifierCV(linear(), cv=0.3, refit=False, random_state=1).fit(X, Y)
    assert once.estimator_.n_features_in_ == X.shape[1]


def test_weights_count_as_repetitions(data):
    X, Y = data
    fitted = linear().fit(X[:200], Y[:200])
    weight = np.tile([0, 1, 2, 3], 100)
    weighted = DecisionClassifierCV(fitted, cv="prefit").fit(X[200:], Y[200:], sample_weight=weight)
    rows = np.repeat(np.arange(200, 600), weight)
    repeated = DecisionClassifierCV(fitted, cv="prefit").fit(X[rows], Y[rows])
    assert_allclose(weighted.predict_proba(X), repeated.predict_proba(X), rtol=1e-5)
    for aim in ("hamming_loss", "micro_f1", "macro_f1", "example_f1"):
        assert_array_equal(weighted.predict(X, aim), repeated.predict(X, aim))


def test_decisions_are_a_rule(data):
    X, Y = data
    as_rule = ThresholdClassifierCV(linear(), rule=LabelDecisions("example_f1"), cv=3, random_state=0).fit(X, Y)
    assert_array_equal(
        as_rule.predict(X), DecisionClassifierCV(linear(), aim="example_f1", random_state=0).fit(X, Y).predict(X)
    )


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"aim": "micro-f1"}, r"aim must be .*micro_f1"),
        ({"aim": [[1.0, 2.0]] * 3}, r"aim must have shape .*\(5, 2\)"),
        ({"aim": [-1.0, 2.0]}, "aim must have costs"),
        ({"guarantee": "recal >= 0.9"}, "guarantee: .*recall"),
        ({"guarantee": ["recall >= 0.9", "precision >= 2"]}, "guarantee: the target for precision must be between"),
        ({"guarantee": "recall of 9 >= 0.9"}, "guarantee: .*9"),
        ({"guarantee": "recall >= 0.9", "certified_share": 2}, "certified_share must"),
        ({"guarantee": "recall >= 0.9", "cv": [([0], [1])]}, "cv must not be index pairs"),
        ({"guarantee": "recall >= 0.9", "confidence": 1.5}, "confidence must"),
        ({"cv": None}, "cv must"),
        ({"refit": 2}, "refit must"),
        ({"random_state": "a"}, "random_state must"),
        ({"estimator": LinearSVC}, "estimator must"),
    ],
    ids=str,
)
def test_bad_parameters_are_named(params, message, data):
    model = DecisionClassifierCV(linear()).set_params(**params)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*data)
    with pytest.raises(NotFittedError):
        model.predict(data[0])


def test_a_promise_that_cannot_be_kept_is_refused(data):
    X, Y = data
    model = DecisionClassifierCV(linear(), guarantee="recall >= 0.9", cv=2)
    with pytest.raises(ValueError, match=r"guarantee: 12 calibration rows cannot keep 'recall >= 0.9': .* least 22"):
        model.fit(X[:40], Y[:40])
    with pytest.raises(NotFittedError):
        model.predict(X)
    rows = np.flatnonzero(Y.any(axis=1))
    hopeless = DecisionClassifierCV(linear(), guarantee="precision >= 0.999", random_state=0)
    with pytest.raises(ValueError, match=r"guarantee: .* cannot keep 'precision >= 0.999'"):
        hopeless.fit(X[rows], Y[rows])
    with pytest.raises(NotFittedError):
        hopeless.predict(X)
    with pytest.raises(ValueError, match="sample_weight must be None with a guarantee"):
        model.fit(X, Y, sample_weight=np.ones(len(X)))
    model = DecisionClassifierCV(linear()).fit(X, Y)
    with pytest.raises(ValueError, match="aim must be"):
        model.predict(X, "accuracy")
    with pytest.raises(ValueError, match="guarantee must be set before certify"):
        model.certify(X, Y)
