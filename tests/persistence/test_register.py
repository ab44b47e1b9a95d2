"""Estimators of other packages are saved by a declaration."""

import numpy as np
import pytest
from saved_models import X, Y, read_members, same, write_members
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.multiclass import OneVsRestClassifier

import comargin
from comargin.decisions import ThresholdClassifierCV
from comargin.persistence import ModelFileError, _registry, load, register, save
from comargin.persistence._kinds import kind_of


class Centroids(ClassifierMixin, BaseEstimator):
    def __init__(self, scale=1.0, note=None):
        self.scale = scale
        self.note = note

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        self.centers_ = np.stack([X[y == each].mean(axis=0) for each in self.classes_])
        self.n_features_in_ = X.shape[1]
        self._sizes = [int((y == each).sum()) for each in self.classes_]
        return self

    def decision_function(self, X):
        distances = ((X[:, None] - self.centers_) ** 2).sum(axis=2) * self.scale
        return distances[:, 0] - distances[:, 1]

    def predict(self, X):
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


FITTED = {"classes_": "classes", "centers_": "matrix", "n_features_in_": "count", "_sizes": ["count"]}


@pytest.fixture
def registered(monkeypatch):
    monkeypatch.setattr(_registry, "_REGISTERED", {})
    register(Centroids, fitted=FITTED, parameters={"scale": "number", "note": ("none", "text")})


def test_a_table_of_label_sets_has_a_kind():
    kind = kind_of("integer matrix")
    assert kind.accepts(np.eye(3, dtype=np.int64))
    assert not any(map(kind.accepts, (np.eye(3), np.arange(3), -np.eye(3, dtype=int))))


@pytest.mark.usefixtures("registered")
def test_alone_and_inside_others(tmp_path):
    alone = Centroids(scale=2.0).fit(X, Y[:, 0])
    loaded = load(save(alone, tmp_path / "m.cmg"))
    assert same(vars(loaded), vars(alone))
    tagger = ThresholdClassifierCV(OneVsRestClassifier(Centroids()), cv=2).fit(X, Y)
    assert same(load(save(tagger, tmp_path / "m.cmg")).predict(X), tagger.predict(X))
    name = f"{__name__}.Centroids"
    assert read_members(save(alone, tmp_path / "m.cmg"))[0]["model"]["class"] == name


def test_a_class_that_is_not_registered_here(registered, tmp_path, monkeypatch):
    path = save(Centroids().fit(X, Y[:, 0]), tmp_path / "m.cmg")
    monkeypatch.setattr(_registry, "_REGISTERED", {})
    with pytest.raises(ModelFileError, match=r"Centroids' is no class that is read here"):
        load(path)
    with pytest.raises(TypeError, match="a Centroids cannot be saved"):
        save(Centroids(), path)


@pytest.mark.usefixtures("registered")
def test_what_was_not_declared(tmp_path):
    path = tmp_path / "m.cmg"
    model = Centroids().fit(X, Y[:, 0])
    model.extra_ = 3
    with pytest.raises(TypeError, match=r"extra_: .*Centroids has no such attribute"):
        save(model, path)
    with pytest.raises(TypeError, match="note: expected None or a str"):
        save(Centroids(note=3), path)
    document, members = read_members(save(Centroids().fit(X, Y[:, 0]), path))
    for name, value in (("n_features_in_", -1), ("centers_", 3), ("_sizes", "x"), ("predict", 1), ("scale", 1)):
        changed = {**document, "model": {**document["model"], "state": {**document["model"]["state"], name: value}}}
        with pytest.raises(ModelFileError, match=name):
            load(write_members(path, changed, members))
    document["model"]["defaults"]["scale"] = "1"
    with pytest.raises(ModelFileError, match="scale: expected a number"):
        load(write_members(path, document, members))


@pytest.mark.usefixtures("registered")
def test_registered_twice_or_wrongly():
    register(Centroids, fitted=FITTED)  # as a module that is read again does
    for cls, more, message in (
        (Centroids, {"name": "other.Name"}, "registered already"),
        (comargin.M3LClassifier, {}, "registered already"),
        (type("Centre", (Centroids,), {}), {"name": f"{__name__}.Centroids"}, "registered already"),
        (type("Centre", (Centroids,), {}), {"name": "M3LClassifier"}, "name must have a dot"),
        (Centroids(), {}, "cls must be a class of estimators"),
        (dict, {}, "cls must be a class of estimators"),
        (Centroids, {"fitted": {"centers_": "matrices"}}, "'matrices' is no kind: use anything, none"),
        (Centroids, {"fitted": {"centers_": []}}, r"\[\] is no kind"),
    ):
        with pytest.raises(ValueError, match=message):
            register(cls, **{"fitted": {}, **more})
