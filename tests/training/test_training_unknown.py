"""Partly unknown labels on the way from rows to a tagger: every model learns from the cells that are known."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier

from comargin import AutoClassifier, metrics
from comargin.baselines import ChainEnsemble, KnownLabelsClassifier
from comargin.comparison import compare
from comargin.data import Dataset
from comargin.models import for_unknown_labels, get_model
from comargin.training import Tagger, train


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(160, 4))
    complete = (X @ rng.normal(size=(4, 3)) > 0.3).astype(float)
    return X, complete, np.where(rng.random(complete.shape) < 0.4, np.nan, complete)


@pytest.fixture
def dataset(rows):
    X, _, Y = rows
    return Dataset(X, Y, tuple("abcd"), ("r", "s", "t"), "hidden")


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.ma.masked_invalid])
def test_every_label_is_learned_from_the_rows_that_know_it(rows, rng, form):
    X, _, Y = rows
    Y[:, 2] = np.where(np.isnan(Y[:, 2]), np.nan, 1.0)
    weight = rng.random(len(X)) + 0.5
    model = KnownLabelsClassifier(LogisticRegression()).fit(X, form(Y), sample_weight=weight)
    for label in range(2):
        known = ~np.isnan(Y[:, label])
        alone = LogisticRegression().fit(X[known], Y[known, label], weight[known])
        assert_allclose(model.decision_function(X)[:, label], alone.decision_function(X))
        assert_allclose(model.predict_proba(X)[:, label], alone.predict_proba(X)[:, 1])
        assert_array_equal(model.predict(X)[:, label], alone.predict(X))
    assert model.estimators_[2] is None
    assert model.predict(X)[:, 2].all()


def test_with_known_labels_it_is_one_vs_rest(rows):
    X, complete, _ = rows
    expected = OneVsRestClassifier(LogisticRegression()).fit(X, complete).decision_function(X)
    assert_allclose(KnownLabelsClassifier(LogisticRegression()).fit(X, complete).decision_function(X), expected)


def test_it_is_cloned_and_refuses_wrong_rows(rows):
    X, _, Y = rows
    model = clone(KnownLabelsClassifier(RandomForestClassifier(3, random_state=0))).fit(X, Y)
    assert not hasattr(model, "decision_function")
    assert set(np.unique(model.predict(X))) == {0, 1}
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X[:5], Y)
    with pytest.raises(ValueError, match="estimator must be"):
        KnownLabelsClassifier("forest").fit(X, Y)
    with pytest.raises(ValueError, match="KnownLabelsClassifier"):
        ChainEnsemble(LogisticRegression()).fit(X, Y)


def test_recipes_of_scikit_learn_are_wrapped_and_no_others():
    for name in ("m3l", "chain", "auto", "lsg21"):
        assert for_unknown_labels(get_model(name)) is get_model(name)
    for name in ("ovr", "ovr-svm", "forest", "knn"):
        recipe = for_unknown_labels(get_model(name))
        assert isinstance(recipe.estimator, KnownLabelsClassifier)
        assert all(parameter in recipe.estimator.get_params() for parameter, _ in recipe.grid)
    assert isinstance(for_unknown_labels(get_model("knn")).estimator.estimator, KNeighborsClassifier)


@pytest.mark.parametrize(("model", "params"), [("m3l", {"C": 1.0}), ("ovr", {"C": 1.0}), ("knn", None), ("lsg21", {})])
def test_train_learns_from_known_cells(dataset, rows, tmp_path, model, params):
    tagger = train(dataset, model, params=params, tune=model == "knn")
    on = tagger.predict(dataset.X).toarray()
    assert metrics.micro_f1(rows[1], on) > 0.75
    tagger.save(tmp_path / "tagger.cmg")
    again = Tagger.load(tmp_path / "tagger.cmg")
    assert_array_equal(again.predict(dataset.X).toarray(), on)


def test_nothing_known_is_an_error(dataset):
    with pytest.raises(ValueError, match="no known label"):
        train(replace(dataset, Y=np.full_like(dataset.Y, np.nan)), "m3l")


def test_train_goes_on_and_promises(dataset, tmp_path):
    settings = {"params": {"C": 1.0}, "guarantee": "recall >= 0.6", "checkpoint": tmp_path / "state"}
    tagger = train(dataset, "m3l", **settings)
    assert "whose truth is known" in tagger.facts["guarantee"]
    again = train(dataset, "m3l", **settings)
    assert_array_equal(again.predict(dataset.X).toarray(), tagger.predict(dataset.X).toarray())


def test_auto_blends_what_learned_from_known_cells(rows):
    X, complete, Y = rows
    model = AutoClassifier(["m3l", "knn"], tune=False, random_state=0).fit(X, Y)
    assert [trial.model for trial in model.trials_] == ["m3l", "knn"]
    assert metrics.micro_f1(complete, model.predict(X)) > 0.75


def test_compare_measures_known_cells(dataset):
    found = compare(dataset, ["m3l", "ovr", "chain"], folds=2, tune=False, measures=["micro_f1", "average_precision"])
    rows = {row["model"]: row for row in found.cells}
    assert "NaN" in rows["chain"]["error"]
    for name in ("m3l", "ovr"):
        assert rows[name]["error"] == ""
        assert rows[name]["micro_f1"] > 0.7
