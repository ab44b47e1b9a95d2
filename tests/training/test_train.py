"""Training: what is prepared, searched, cut and kept, against the same done by hand."""

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.neighbors import RadiusNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import ExtraTreeClassifier

import comargin
from comargin import M3LClassifier, tune
from comargin.data import Dataset, make_correlated
from comargin.decisions import DecisionClassifierCV, ThresholdClassifierCV, cross_fit
from comargin.metrics import evaluate, scores_of
from comargin.persistence import ModelFileError
from comargin.training import ModelRecipe, Tagger, clear_checkpoint, get_model, model_names, train
from comargin.training.building import preparation

DATA = make_correlated(150, n_features=6, n_labels=4, seed=0)
WORDS = ("red wine", "white wine", "rye bread", "white bread", "green tea", "black tea")


def texts(n_rows=60):
    rng = np.random.default_rng(0)
    rows = [" and ".join(rng.choice(WORDS, size=2)) for _ in range(n_rows)]
    Y = np.array([[word in row for word in ("wine", "bread", "tea")] for row in rows]).astype(np.int32)
    return Dataset(rows, sp.csr_array(Y), (), ("wine", "bread", "tea"), "table")


def test_it_is_search_cuts_and_fit_by_hand():
    tagger = train(DATA, "m3l", criterion="ranking_loss", folds=3, random_state=7)
    model = make_pipeline(StandardScaler(), M3LClassifier(loss="logistic", intercept_scaling="auto", random_state=7))
    grid = [(f"m3lclassifier__{name}", values) for name, values in get_model("m3l").grid]
    coarse = clone(model).set_params(m3lclassifier__tol=1e-2)
    best = tune(coarse, DATA.X, DATA.Y, grid, criterion="ranking_loss", cv=3, random_state=7, refit=False).best_params
    assert tagger.facts["searched"] == {name.removeprefix("m3lclassifier__"): v for name, v in best.items()}
    by_hand = DecisionClassifierCV(clone(model).set_params(**best), cv=3, random_state=7).fit(DATA.X, DATA.Y)
    np.testing.assert_array_equal(tagger.scores(DATA.X), by_hand.decision_function(DATA.X))
    np.testing.assert_array_equal(tagger.probabilities(DATA.X), by_hand.predict_proba(DATA.X))
    for aim in (None, "hamming_loss"):
        np.testing.assert_array_equal(tagger.predict(DATA.X, aim).toarray(), by_hand.predict(DATA.X, aim))


def test_a_rule_in_place_of_an_aim():
    tagger = train(DATA, "m3l", tune=False, thresholds="global", random_state=7)
    model = make_pipeline(StandardScaler(), M3LClassifier(loss="logistic", intercept_scaling="auto", random_state=7))
    by_hand = ThresholdClassifierCV(model, rule="global", cv=3, random_state=7).fit(DATA.X, DATA.Y)
    np.testing.assert_array_equal(tagger.predict(DATA.X).toarray(), by_hand.predict(DATA.X))
    assert not tagger.has_probabilities
    for call in (lambda: tagger.predict(DATA.X, "macro_f1"), lambda: tagger.probabilities(DATA.X)):
        with pytest.raises(ValueError, match='no calibrated probabilities; train with thresholds="aim"'):
            call()
    with pytest.raises(ValueError, match=r"aim= and guarantee= need thresholds=.*; got 'global'"):
        train(DATA, thresholds="global", aim="macro_f1")


def test_a_promise_is_one_of_the_facts(tmp_path):
    data = make_correlated(600, n_features=6, n_labels=4, seed=0)
    tagger = train(data, "m3l", tune=False, guarantee="recall of label_1 >= 0.5", confidence=0.8)
    assert "counting label label_1 only" in tagger.facts["guarantee"]
    assert "at least 0.8" in tagger.facts["guarantee"]
    assert tagger.facts["certified_by_rows"] == 180
    tagger.measure(data)
    assert tagger.facts["test_promise"] == tagger.promise.measured(data.Y, tagger.predict(data.X))
    loaded = Tagger.load(tagger.save(tmp_path / "tagger.cmg"))
    for aim in (None, "example_f1", [1.0, 3.0]):
        assert (loaded.predict(data.X, aim) != tagger.predict(data.X, aim)).nnz == 0
    assert (tagger.predict(data.X) != tagger.predict(data.X, [1.0, 3.0])).nnz > 0
    with pytest.raises(ValueError, match="guarantee: there is no label 'sports'"):
        train(data, "m3l", guarantee="recall of sports >= 0.9")
    with pytest.raises(ValueError, match="aim must be a measure or costs, got 'f1'"):
        train(data, "m3l", aim="f1")


def test_measures_of_the_folds_are_those_of_rows_not_learned_from():
    tagger = train(DATA, params={"C": 100.0, "label_correlation": None})
    P = tagger.probabilities(DATA.X)
    seen = evaluate(DATA.Y, P, tagger.predict(DATA.X), probabilities=P)
    told = tagger.facts["fold_measures"]
    assert told.keys() == seen.keys()
    assert told["average_precision"] < seen["average_precision"]


@pytest.mark.parametrize(
    ("X", "kind"),
    [
        (["a b", "c"], TfidfVectorizer),
        (np.ones((2, 2)), StandardScaler),
        (sp.csr_array([[1.0, 0.0]]), TfidfTransformer),
        (sp.csr_array([[-1.0, 0.0]]), None),
        (sp.csr_array((2, 2)), TfidfTransformer),
    ],
)
def test_features_are_made_ready_by_their_kind(X, kind):
    assert [type(step) for _, step in preparation(X)] == ([] if kind is None else [kind])


def test_rare_words_of_many_texts_are_left_out():
    (_, few), (_, many) = preparation(["a"] * 999)[0], preparation(["a"] * 1000)[0]
    assert (few.min_df, many.min_df) == (1, 2)


def test_texts_become_one_model_with_names(tmp_path):
    data = texts()
    tagger = train(data, params={"C": 1.0}, reading={"text": "body"})
    assert isinstance(tagger.model.estimator_, Pipeline)
    loaded = Tagger.load(tagger.save(tmp_path / "tagger.cmg"))
    assert (loaded.label_names, loaded.n_features, loaded.reading) == (data.label_names, None, {"text": "body"})
    assert loaded.facts == tagger.facts
    rows = ["a red wine", "white bread, black tea"]
    assert loaded.predict(rows).toarray().tolist() == [[1, 0, 0], [0, 1, 1]]
    np.testing.assert_array_equal(loaded.scores(rows), tagger.scores(rows))


@pytest.mark.parametrize("name", model_names())
def test_models_say_why_or_that_they_cannot(name):
    """The scores that are explained are those of the model, from which probabilities are made."""
    tagger = train(DATA, name, tune=False, thresholds="per-label")
    if name in ("ovr-rbf", "chain", "forest", "extra-trees", "knn"):
        with pytest.raises(ValueError, match=f"^{tagger.facts['estimator']}.* gives no explanation"):
            tagger.explain(DATA.X)
        return
    Y, scores = tagger.labels_and_scores(DATA.X)
    if name == "auto":  # decides by itself, on the scores of its one member
        scores = scores_of(tagger.model.estimator_, DATA.X)
    found = tagger.explain(DATA.X, top=2)
    assert [[one.label for one in row] for row in found] == [
        [tagger.label_names[k] for k in row] for row in np.split(Y.indices, Y.indptr[1:-1])
    ]
    kinds = {term.kind for row in found for one in row for term in one.contributions}
    rows = {"training_row"} if name in ("m3l-rbf", "rank-cvm", "rank-svm", "cgm-rbf") else {"feature"}
    assert kinds <= (rows if name in ("m3l-rbf", "rank-cvm", "rank-svm") else rows | {"with", "without"})
    if name not in ("cgm", "cgm-rbf", "ssvm-tree"):  # max-marginals, not differences of the best labeling
        told = [one.score for row in found for one in row]
        np.testing.assert_allclose(told, scores[Y.toarray() > 0], rtol=1e-8, atol=1e-10)


def test_words_and_columns_are_explained_by_name():
    tagger = train(texts(), "ovr", tune=False)
    (row,) = tagger.explain(["red wine and green tea"], top=1, labels=["tea", "wine"])
    assert [(one.label, one.contributions[0].name) for one in row] == [("tea", "tea"), ("wine", "wine")]
    with pytest.raises(ValueError, match="labels: there is no label 'win'; the nearest is 'wine'"):
        tagger.explain(["red wine"], labels=["win"])
    named = Dataset(DATA.X, DATA.Y, tuple("abcdef"), DATA.label_names, "named")
    found = train(named, "ovr", tune=False).explain(named.X)
    assert {term.name for row in found for one in row for term in one.contributions} == set("abcdef")


@pytest.mark.parametrize("name", ["forest", "knn"])
def test_models_that_need_dense_labels_get_them(name):
    sparse = replace(DATA, Y=sp.csr_array(DATA.Y))
    found, expected = (train(data, name, tune=False, random_state=0).predict(DATA.X) for data in (sparse, DATA))
    assert (found != expected).nnz == 0


@pytest.mark.parametrize("name", model_names())
def test_every_model_that_can_be_saved_is_trained_and_comes_back(name, tmp_path):
    tagger = train(DATA, name, tune=False)
    loaded = Tagger.load(tagger.save(tmp_path / "tagger.cmg"))
    assert (loaded.predict(DATA.X) != tagger.predict(DATA.X)).nnz == 0
    assert tagger.facts["model"] == name
    assert tagger.facts["thresholds"] == "aim"
    by_rule = train(DATA, name, tune=False, thresholds="per-label")
    assert (by_rule.facts["thresholds"] is None) == (name in ("auto", "cgm", "cgm-rbf", "ssvm-tree"))
    if "duality_gap" in tagger.facts:
        assert tagger.facts["duality_gap"] >= 0.0


def test_the_tagger_is_the_same_for_any_number_of_threads(tmp_path):
    paths = [train(DATA, "m3l", n_jobs=n_jobs).save(tmp_path / f"{n_jobs}.cmg") for n_jobs in (1, 2)]
    facts = [Tagger.load(path).facts | {"seconds": None} for path in paths]
    assert facts[0] == facts[1]
    scores = [Tagger.load(path).scores(DATA.X) for path in paths]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("model", ["m3l", "ovr"])
def test_folds_of_the_cuts_run_side_by_side(model, monkeypatch):
    """Each of two fits waits for the other one; probabilities and measures are those of one thread."""
    first_of_pair, original, threads = threading.Barrier(2, timeout=30), cross_fit.fit_clone, set()

    def fit_together(*arguments, **options):
        threads.add(threading.get_ident())
        first_of_pair.wait()
        return original(*arguments, **options)

    one = train(DATA, model, tune=False, folds=4, n_jobs=1)
    monkeypatch.setattr(cross_fit, "fit_clone", fit_together)  # the last fit has its own name of it
    two = train(DATA, model, tune=False, folds=4, n_jobs=2)
    assert len(threads) == 2
    assert two.facts["fold_measures"] == one.facts["fold_measures"]
    np.testing.assert_array_equal(two.scores(DATA.X), one.scores(DATA.X))


def test_an_error_in_one_fold_ends_the_others(monkeypatch):
    """The first fold is at its first certificate, far from its tolerance, when the second one fails."""
    original, fitted, begun = cross_fit.fit_clone, [], threading.Event()

    def fit_or_fail(estimator, X, y, memory, key, **options):
        if key == "cuts/1":
            assert begun.wait(30)
            raise KeyError(key)
        should_stop = estimator[-1].callback

        def wait_for_the_error(point):
            begun.set()
            for _ in range(300):
                if should_stop(point):
                    return True
                time.sleep(0.1)
            return False

        estimator[-1].callback = wait_for_the_error
        fitted.append(original(estimator, X, y, memory, key, **options))
        return fitted[0]

    monkeypatch.setattr(cross_fit, "fit_clone", fit_or_fail)
    with pytest.raises(KeyError, match="cuts/1"):
        train(DATA, "m3l", tune=False, folds=2, n_jobs=2)
    assert fitted[0][-1].n_iter_ == 0


def test_given_parameters_are_not_searched_and_reach_their_step():
    tagger = train(texts(), params={"C": 0.5, "tfidf__ngram_range": (1, 2)})
    assert list(tagger.facts["searched"]) == ["label_correlation"]
    assert tagger.facts["parameters"]["C"] == 0.5
    assert tagger.model.estimator_[0].ngram_range == (1, 2)
    assert train(DATA, "ovr", params={"C": 0.25}).model.estimator_[-1].estimator.C == 0.25


def test_a_grid_of_ones_own():
    tagger = train(DATA, grid={"C": [0.3]})
    assert tagger.facts["searched"] == {"C": 0.3}
    tagger = train(DATA, "ovr", grid={"C": [0.3, 3.0]}, params={"fit_intercept": False})
    assert tagger.facts["searched"]["estimator__C"] in (0.3, 3.0)


def test_without_search_and_without_cuts():
    tagger = train(DATA, "m3l", tune=False, thresholds=None)
    assert (tagger.facts["searched"], tagger.facts["criterion"], tagger.facts["fold_measures"]) == ({}, None, None)
    np.testing.assert_array_equal(tagger.predict(DATA.X).toarray(), tagger.scores(DATA.X) > 0)


def test_a_recipe_of_ones_own(tmp_path):
    tree = ModelRecipe("tree", ExtraTreeClassifier(), (("max_depth", (1, 3)),), learn_cuts=True)
    tagger = train(DATA, tree)
    assert tagger.facts["searched"]["max_depth"] in (1, 3)
    assert tagger.predict(DATA.X).shape == DATA.Y.shape
    radius = ModelRecipe("radius", RadiusNeighborsClassifier(radius=10.0), (), learn_cuts=True)
    with pytest.raises(TypeError, match="RadiusNeighborsClassifier"):
        train(DATA, radius).save(tmp_path / "radius.cmg")


def test_a_fit_that_is_told_to_stop_gives_what_it_has():
    whole = train(DATA, "m3l", params={"C": 10.0, "tol": 1e-8}, tune=False)
    asked = []

    def stop():
        asked.append(True)
        return len(asked) == 2

    stopped = train(DATA, "m3l", params={"C": 10.0, "tol": 1e-8}, tune=False, should_stop=stop)
    assert len(asked) == 2
    assert stopped.facts["duality_gap"] > whole.facts["duality_gap"]
    assert stopped.model.estimator_[-1].callback is None


def test_the_last_fit_says_whether_it_asks():
    begun = []
    for name in ("m3l", "knn"):
        train(DATA, name, tune=False, should_stop=lambda: False, fit_begins=begun.append)
    assert begun == [True, False]


def test_one_label():
    data = Dataset(DATA.X, DATA.Y[:, :1], DATA.feature_names, DATA.label_names[:1], "one")
    tagger = train(data, "m3l", tune=False)
    assert tagger.predict(data.X).shape == (150, 1)
    assert tagger.scores(data.X).shape == (150, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "m3k"}, "did you mean 'm3l'"),
        ({"params": {"c": 1.0}}, r"params: there is no parameter 'c'; did you mean 'C'\?"),
        ({"params": {"C": -1.0}}, "params: C: .* range"),
        ({"params": {"scale__with_men": True}}, "did you mean 'scale__with_mean'"),
        ({"grid": {"C": [1.0, "a"]}}, "grid: C: .* range"),
        ({"grid": {"C": []}}, "at least one value"),
        ({"grid": {"C": [1.0]}, "params": {"C": 1.0}}, "has a value already"),
        ({"grid": {"scale__with_mean": [True]}}, "no parameter of the learner"),
        ({"criterion": "f1"}, "criterion: no measure is named 'f1'"),
        ({"folds": 1}, "folds must be an int of at least 2"),
        ({"folds": 151}, "only 150 rows"),
        ({"random_state": -1}, "random_state"),
        ({"thresholds": "half"}, "thresholds must be None or one of"),
        ({"dataset": (DATA.X, DATA.Y)}, "dataset must be a Dataset"),
    ],
)
def test_mistakes(arguments, message):
    with pytest.raises(ValueError, match=message):
        train(**{"dataset": DATA, **arguments})


def test_any_saved_classifier_is_a_tagger(tmp_path):
    model = M3LClassifier().fit(DATA.X, DATA.Y)
    tagger = Tagger.load(comargin.save(model, tmp_path / "model.cmg", meta={"label_names": list(DATA.label_names)}))
    assert (tagger.label_names, tagger.n_features) == (DATA.label_names, 6)
    assert Tagger.load(comargin.save(model, tmp_path / "model.cmg")).label_names == ("y0", "y1", "y2", "y3")


@pytest.mark.parametrize(
    "meta",
    [
        {"label_names": ["a"]},
        {"label_names": ["a", "a", "b", "c"]},
        {"label_names": 4},
        {"tagger": {"n_features": "six"}},
        {"tagger": {"n_features": -5}},
        {"tagger": {"n_features": None}},
        {"label_names": ["a", "b", "c", "\ud800"]},
        {"tagger": {"n_features": 6, "feature_names": ["a"]}},
        {"tagger": {"reading": {"text": 1}}},
        {"tagger": {"facts": []}},
        {"tagger": []},
    ],
)
def test_names_that_do_not_fit_are_refused(meta, tmp_path):
    path = comargin.save(M3LClassifier().fit(DATA.X, DATA.Y), tmp_path / "model.cmg", meta=meta)
    with pytest.raises(ModelFileError, match=r"do not belong to the model|is no object"):
        Tagger.load(path)


def test_a_graph_is_no_tagger(tmp_path):
    graph = comargin.graphs.LabelGraph.from_edges([(0, 1)], n_labels=2)
    with pytest.raises(ModelFileError, match="holds a LabelGraph"):
        Tagger.load(comargin.save(graph, tmp_path / "graph.cmg"))


def test_a_training_goes_on_from_its_folder(tmp_path, monkeypatch):
    arguments = {"criterion": "ranking_loss", "grid": {"C": [10.0, 30.0]}, "params": {"tol": 1e-6}}
    whole = train(DATA, **arguments)
    folder = tmp_path / "state"
    stopped = train(DATA, **arguments, checkpoint=folder, should_stop=lambda: True)
    assert stopped.facts["duality_gap"] > 1e-6 * stopped.facts["objective"]
    monkeypatch.setattr("comargin.search.tuning.measured", lambda *_, **__: pytest.fail("parameters are known"))
    monkeypatch.setattr("comargin.decisions._base.cross_fit", lambda *_, **__: pytest.fail("cuts are known"))
    resumed = train(DATA, **arguments, checkpoint=folder)
    assert resumed.facts["searched"] == whole.facts["searched"]
    assert resumed.facts["fold_measures"] == whole.facts["fold_measures"]
    assert resumed.facts["objective"] == pytest.approx(whole.facts["objective"], rel=2e-6)
    assert (resumed.predict(DATA.X) != whole.predict(DATA.X)).nnz == 0
    clear_checkpoint(folder)
    assert not folder.exists()


def test_a_folder_of_another_training_is_refused(tmp_path):
    train(DATA, "m3l", tune=False, checkpoint=tmp_path)
    for other in ({"random_state": 1}, {"params": {"C": 2.0}}, {"folds": 4}, {"model": "prbr"}, {"grid": {"C": [1.0]}}):
        with pytest.raises(ValueError, match="another training run"):
            train(DATA, **{"model": "m3l", "tune": False, "checkpoint": tmp_path} | other)


@pytest.mark.parametrize("kind", ["dense", "sparse", "counts"])
def test_missing_features_travel_with_the_tagger(tmp_path, kind):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    Y = (X[:, :2] > 0).astype(int)
    X[rng.random(X.shape) < 0.2] = np.nan
    X[:, 3] = np.nan  # a column that nobody knows
    new = X[:20].copy()
    if kind != "dense":
        X[rng.random(X.shape) < 0.3] = 0.0
        X[:, 3], X[0, 3] = 0.0, np.nan
        X = sp.csr_array(abs(X) if kind == "counts" else X)
        new = sp.csr_array(abs(new) if kind == "counts" else new)
    tagger = train(Dataset(X, Y, tuple("abcd"), ("x", "y"), "d"), "ovr", tune=False, folds=2)
    assert tagger.reading == {"missing": "nan"}
    again = Tagger.load(tagger.save(tmp_path / "t.cmg"))
    scores = again.scores(new)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(scores, tagger.scores(new))


@pytest.mark.parametrize("thresholds", ["aim", "per-label"])
def test_a_tagger_gives_names_and_takes_no_rows(tmp_path, thresholds):
    data = texts()
    path = train(data, "ovr", tune=False, thresholds=thresholds).save(tmp_path / "t.cmg")
    tagger = comargin.Tagger.load(path)
    rows = ["a red wine", "white bread, black tea"]
    named = [
        [name for name, on in zip(data.label_names, row, strict=True) if on] for row in tagger.predict(rows).toarray()
    ]
    assert tagger.tags(rows) == named
    assert any(named)
    assert tagger.tags([]) == tagger.explain([]) == []
    assert tagger.predict([]).shape == tagger.scores([]).shape == (0, 3)
    assert [found.shape for found in tagger.labels_and_scores([])] == [(0, 3)] * 2
    if thresholds == "aim":
        assert tagger.probabilities([]).shape == (0, 3)
    numbers = train(DATA, "ovr", tune=False, thresholds=thresholds)
    assert numbers.predict(DATA.X[:0]).shape == (0, 4)


def test_a_list_stands_for_a_tuple_where_a_parameter_is_one():
    tagger = train(texts(), "ovr", tune=False, params={"tfidf__ngram_range": [1, 2]})
    assert tagger.model.estimator_["tfidf"].ngram_range == (1, 2)
