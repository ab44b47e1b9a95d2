"""Models of other packages, by their entry points."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin

import comargin
from comargin import models
from comargin.data import make_correlated
from comargin.models import ModelRecipe, get_model, known_models, model_names
from comargin.persistence import _registry
from comargin.training import Tagger, train

DATA = make_correlated(90, n_features=4, n_labels=3, seed=0)


class Centroids(ClassifierMixin, BaseEstimator):
    """Scores by the distance to the mean row of every label."""

    def __init__(self, shift=0.0):
        self.shift = shift

    def fit(self, X, Y):
        Y = np.asarray(Y)
        self.centers_ = np.stack([X[Y[:, label] == 1].mean(axis=0) for label in range(Y.shape[1])])
        return self

    def decision_function(self, X):
        return self.shift - np.linalg.norm(X[:, None] - self.centers_, axis=2)

    def predict(self, X):
        return (self.decision_function(X) > 0.0).astype(int)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


CENTROIDS = ModelRecipe(
    "centroids", Centroids(), (("shift", (0.0, 1.0)),), learn_cuts=True, saved={"centers_": "matrix"}
)


@pytest.fixture
def installed(monkeypatch):
    """Install entry points; what they register is gone after the test."""
    monkeypatch.setattr(models, "_REGISTRY", dict(models._REGISTRY))
    monkeypatch.setattr(_registry, "_REGISTERED", dict(_registry._REGISTERED))

    def install(**points):
        found = [SimpleNamespace(name=name, value=f"package:{name}", load=load) for name, load in points.items()]
        monkeypatch.setattr(models, "entry_points", lambda group: found if group == "comargin.models" else [])
        models._load_plugins.cache_clear()

    yield install
    models._load_plugins.cache_clear()


def test_a_model_of_another_package_is_trained_saved_and_loaded(installed, tmp_path):
    installed(centroids=lambda: CENTROIDS, more=lambda: [ModelRecipe("second", Centroids(1.0))])
    assert model_names()[-2:] == ("centroids", "second")
    tagger = train(DATA, "centroids", folds=2)
    assert tagger.facts["searched"].keys() == {"shift"}
    path = tagger.save(tmp_path / "tagger.cmg")
    _registry._REGISTERED.clear()  # another process, which has not trained
    again = Tagger.load(path)
    assert np.array_equal(again.scores(DATA.X), tagger.scores(DATA.X))
    _registry._REGISTERED.clear()
    installed()
    models._REGISTRY.pop("centroids")
    with pytest.raises(comargin.persistence.ModelFileError, match="Centroids"):
        Tagger.load(path)


def test_a_name_of_ours_cannot_be_taken(installed):
    installed(mine=lambda: ModelRecipe("m3l", Centroids()))
    with pytest.raises(ValueError, match=r"entry point 'mine' of comargin\.models has the name of another, 'm3l'"):
        known_models()


def test_what_is_no_model(installed):
    installed(mine=lambda: [3])
    with pytest.raises(TypeError, match=r"entry point 'mine' of comargin\.models gives 3, not a ModelRecipe"):
        get_model("m3l")


def test_a_package_that_cannot_be_imported(installed):
    def load():
        raise ModuleNotFoundError("No module named 'package'")

    installed(mine=load)
    with pytest.raises(ImportError, match=r"entry point 'mine' of comargin\.models, package:mine: No module named"):
        model_names()
