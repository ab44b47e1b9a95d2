"""Labels, scores and probabilities of any model from one pass."""

import pytest
from numpy.testing import assert_array_equal
from sklearn.dummy import DummyClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from comargin import M3LClassifier
from comargin.data import make_correlated
from comargin.decisions.predictions import predictions
from comargin.decisions.workbench import make_decider

DATA = make_correlated(90, n_features=5, n_labels=3, seed=0)


@pytest.mark.parametrize("thresholds", ["aim", "per-label"])
def test_a_model_that_decides_by_scores_is_asked_once(thresholds, monkeypatch):
    model = make_decider(M3LClassifier(random_state=0), thresholds, folds=3, seed=0).fit(DATA.X, DATA.Y)
    plain = (model.predict(DATA.X), model.decision_function(DATA.X))
    passes, original = [], M3LClassifier.decision_function
    monkeypatch.setattr(M3LClassifier, "decision_function", lambda self, X: passes.append(1) or original(self, X))
    for wrapped in (model, Pipeline([("model", model)])):
        passes.clear()
        found = predictions(wrapped, DATA.X, 3)
        assert len(passes) == 1
        assert_array_equal(found.labels, plain[0])
        assert_array_equal(found.scores, plain[1])
        assert (found.probabilities is not None) == (thresholds == "aim")


def test_other_models_have_what_they_have():
    found = predictions(LinearSVC(random_state=0).fit(DATA.X, DATA.Y[:, 0]), DATA.X, 1)
    assert found.labels.shape == found.scores.shape == (90, 1)
    assert found.probabilities is None

    class Plain(DummyClassifier):
        predict_proba = property()  # an AttributeError: there is none

    assert predictions(Plain().fit(DATA.X, DATA.Y), DATA.X, 3).scores is None
    with pytest.raises(ValueError, match=r"must predict an indicator of shape \(90, 2\), got shape \(90, 3\)"):
        predictions(Plain().fit(DATA.X, DATA.Y), DATA.X, 2)
