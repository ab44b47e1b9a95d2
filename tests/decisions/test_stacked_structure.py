"""Structure on top of other classifiers: what it becomes for large alpha, what it learns, scikit-learn's checks."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from scipy.special import logit
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

from comargin import M3LClassifier, StackedStructureClassifier
from comargin.decisions import LabelCalibrator, ScoreStructure
from comargin.decisions import score_structure as module
from comargin.decisions.score_structure import _blend, _hinge_scale
from comargin.model_selection import MultilabelStratifiedKFold


def members():
    return [OneVsRestClassifier(LogisticRegression(C=0.3)), RandomForestClassifier(15, random_state=0)]


def draw(rng, n=300, n_labels=4):
    """Labels 0 and 1 follow X, label 2 is mostly the opposite of label 0, and label 3 is noise."""
    X = rng.normal(size=(n, 5))
    Y = (X[:, :n_labels] + 1.2 * rng.normal(size=(n, n_labels)) > 0.3).astype(int)
    Y[:, 2] = np.where(rng.random(n) < 0.95, 1 - Y[:, 0], Y[:, 2])
    Y[:, 3] = rng.random(n) < 0.3
    return X, Y


def scores_of(rng, Y, noise=(1.0, 2.0)):
    """Scores that know each label by itself."""
    return [2.0 * Y - 1.0 + each * rng.normal(size=Y.shape) for each in noise]


@pytest.fixture
def data(rng):
    return draw(rng)


@parametrize_with_checks([StackedStructureClassifier([LogisticRegression()], cv=2)])
def test_sklearn_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize("graph", ["learned", "tree", "none", [(0, 2)]])
def test_a_large_alpha_is_the_blend(graph, rng):
    _, Y = draw(rng)
    scores = scores_of(rng, Y)
    blend = ScoreStructure(graph, np.inf).fit(scores, Y)
    model = ScoreStructure(graph, 1e7).fit(scores, Y)
    odds = [logit(c.probabilities(s)).clip(-6, 6) for c, s in zip(blend.calibrators_, scores, strict=True)]
    by_hand = np.tensordot(blend.blend_, odds, 1)
    assert_array_equal(blend.predict(scores), by_hand > 0)
    assert_array_equal(model.predict(scores), blend.predict(scores))
    assert_allclose(blend.decision_values(scores), blend.offset_scale_ * by_hand)
    assert_allclose(model.decision_values(scores), blend.decision_values(scores), atol=1e-3)
    assert_allclose(model.certificate[0], blend.certificate[0], rtol=1e-4)


def test_what_the_correction_learns(rng):
    """Of all pairs, the one that copies a label has an edge, and more rows are right than without."""
    _, Y = draw(rng, 800)
    scores = scores_of(rng, Y)
    blend = ScoreStructure("learned", np.inf).fit(scores[:1] + scores[1:], Y)
    model = ScoreStructure("learned").fit(scores, Y)
    assert np.isfinite(model.alpha_)
    weights = model.label_graph_.to_array()
    assert np.unravel_index(np.argmax(weights), weights.shape) == (0, 2)
    exact = [np.mean((each.predict(scores) == Y).all(axis=1)) for each in (model, blend)]
    assert exact[0] > exact[1] + 0.03
    chosen = model.tried_[model.tried_[:, 0] == model.alpha_][0]
    assert chosen[1] >= 2.0 * chosen[2]
    assert chosen[3] >= 0.0
    primal, dual = model.certificate
    assert 0.0 <= primal - dual <= 1e-3 * primal
    assert primal < model.base_loss_
    assert not blend.label_graph_.to_array().any()


def test_labels_that_say_nothing_leave_the_blend(rng):
    kept = []
    for _ in range(6):
        Y = (rng.random((60, 5)) < 0.3).astype(int)
        model = ScoreStructure().fit([rng.normal(size=Y.shape)], Y)
        kept.append(model.alpha_ == np.inf)
        assert (model.structure_ is None) == kept[-1]
        if kept[-1]:
            assert not model.label_graph_.to_array().any()
            assert len(model.tried_) == module.POLICY.patience
            assert model.certificate == (model.base_loss_, model.base_loss_)
    assert sum(kept) >= 5


def test_the_blend_by_log_loss_on_a_grid(rng):
    Y = (rng.random((400, 3)) < 0.4).astype(int)
    odds = np.stack(scores_of(rng, Y, (1.0, 1.5)))
    weight = rng.random(400)
    shares = np.linspace(0.0, 1.0, 1001)

    def loss(u):
        return weight @ np.logaddexp(0.0, -(2 * Y - 1) * (u * odds[0] + (1 - u) * odds[1])).sum(axis=1)

    best = shares[np.argmin([loss(u) for u in shares])]
    assert_allclose(_blend(odds, Y, weight), [best, 1 - best], atol=2e-3)
    assert_allclose(_blend(odds[:1], Y, weight), [1.0])
    useless = np.stack([odds[0], -odds[0]])
    assert_allclose(_blend(useless, Y, weight), [1.0, 0.0], atol=1e-6)


def test_the_scale_of_the_least_hinge_loss(rng):
    margins, weight = rng.normal(0.7, 1.0, size=(50, 3)), rng.random(50)

    def loss(s):
        return weight @ np.maximum(1.0 - s * margins, 0.0).sum(axis=1)

    best = minimize_scalar(loss, bounds=(0.0, 20.0), method="bounded", options={"xatol": 1e-9}).x
    assert_allclose(_hinge_scale(margins, weight), best, rtol=1e-4)
    assert loss(_hinge_scale(margins, weight)) <= loss(best) + 1e-12
    assert _hinge_scale(-np.ones((3, 1)), np.ones(3)) == 1.0  # never right


def test_rare_labels_say_less(rng):
    Y = (rng.random((400, 3)) < [0.5, 0.05, 0.0]).astype(int)
    scores = scores_of(rng, Y, (1.0,))
    model = ScoreStructure("none", 1.0).fit(scores, Y)
    odds = logit(model.calibrators_[0].probabilities(scores[0])).clip(-6, 6)
    few = Y.sum(axis=0)
    assert_allclose((model.factor_ * odds.std(axis=0))[:2] ** 2, (few / (few + 20.0))[:2])
    assert model.factor_[2] == 0.0


def test_the_parts_are_those_of_a_cross_fit(data):
    """The rule learns from scores of rows left out; the classifiers that predict know all rows."""
    X, Y = data
    model = StackedStructureClassifier(members(), graph="tree", alpha=0.1, cv=3, random_state=None).fit(X, Y)
    held_out = [np.empty(Y.shape) for _ in members()]
    for train, test in MultilabelStratifiedKFold(3).split(X, Y):
        for scores, estimator in zip(held_out, members(), strict=True):
            fitted = estimator.fit(X[train], Y[train])
            scores[test] = _scores(fitted, X[test])
    order = np.concatenate([test for _, test in MultilabelStratifiedKFold(3).split(X, Y)])
    rule = ScoreStructure("tree", 0.1).fit(
        [scores[order] for scores in held_out], Y[order], parts=np.repeat(range(3), 100)
    )
    assert_allclose(model.rule_.blend_, rule.blend_)
    assert_allclose(model.objective_, rule.certificate[0], rtol=2e-3)
    by_hand = LabelCalibrator().fit(held_out[0][order], Y[order])
    assert_allclose(model.rule_.calibrators_[0].slope_, by_hand.slope_)
    full = [_scores(estimator.fit(X, Y), X) for estimator in members()]
    assert_array_equal(model.predict(X), model.rule_.predict(full))
    assert_allclose(model.decision_function(X), model.rule_.decision_values(full))
    P = model.predict_proba(X)
    assert 0.0 < P.min() < P.max() < 1.0
    assert_array_equal(model.predict(X, aim="precision_at_2").sum(axis=1), 2)
    assert 0.0 <= model.duality_gap_ <= 1e-3 * model.objective_
    assert model.n_features_in_ == 5
    assert (model.alpha_, model.label_graph_.n_labels) == (0.1, 4)


def _scores(fitted, X):
    if hasattr(fitted, "decision_function"):
        return fitted.decision_function(X)
    return np.column_stack([p[:, 1] for p in fitted.predict_proba(X)])


def test_jobs_forms_of_y_weights_and_clones(data):
    X, Y = data
    options = {"graph": "tree", "alpha": 0.3, "cv": 2, "random_state": 0}
    model = StackedStructureClassifier(members(), **options).fit(X, Y)
    jobs = clone(model).set_params(n_jobs=2).fit(X, Y)
    assert_array_equal(jobs.decision_function(X), model.decision_function(X))
    sparse = clone(model).set_params(estimators=[M3LClassifier(random_state=0)]).fit(sp.csr_array(X), sp.csr_array(Y))
    assert sp.issparse(sparse.predict(X))
    weighted = clone(model).set_params(estimators=[M3LClassifier(random_state=0)]).fit(X, Y, np.ones(len(X)))
    plain = clone(model).set_params(estimators=[M3LClassifier(random_state=0)]).fit(X, Y)
    assert_allclose(weighted.decision_function(X), plain.decision_function(X))
    y = np.where(Y[:, 0] == 1, "yes", "no")
    binary = StackedStructureClassifier([LogisticRegression(), RandomForestClassifier(10, random_state=0)], cv=2)
    assert np.mean(binary.fit(X, y).predict(X) == y) > 0.7
    assert binary.predict_proba(X).shape == (len(X), 2)


def test_a_label_without_positives(data):
    X, Y = data
    Y[:, 3] = 0
    model = StackedStructureClassifier([M3LClassifier(random_state=0)], alpha=0.1, cv=2).fit(X, Y)
    assert not model.predict(X)[:, 3].any()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimators": []}, "estimators must be a list"),
        ({"estimators": [LogisticRegression]}, "pass an instance"),
        ({"alpha": 0.0}, "alpha must be"),
        ({"alpha": "tuned"}, "alpha must be"),
        ({"graph": "trees"}, "graph"),
        ({"cv": "prefit"}, "cv must be"),
        ({"random_state": "x"}, "random_state"),
    ],
)
def test_bad_parameters(changes, message, data):
    model = StackedStructureClassifier([M3LClassifier(random_state=0)], cv=2, alpha=1.0).set_params(**changes)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert not hasattr(model, "estimators_")
