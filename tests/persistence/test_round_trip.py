import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from saved_models import LEARNERS, TAGS, TEXTS, VECTORIZERS, X, Y, same, tagger
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import comargin
from comargin.decisions import ThresholdClassifierCV
from comargin.graphs import LabelGraph
from comargin.persistence import inspect, load, load_meta, save


def round_trip(model, folder):
    return load(save(model, folder / "model.cmg"))


def assert_same_model(model, loaded, X):
    methods = [name for name in ("decision_function", "predict_proba", "predict") if hasattr(model, name)]
    assert "predict" in methods
    for method in methods:
        expected, found = getattr(model, method)(X), getattr(loaded, method)(X)
        assert type(found) is type(expected)
        assert same(found, expected)
    assert same(loaded.get_params(deep=False), model.get_params(deep=False))
    clone(loaded)


@pytest.mark.parametrize("name", LEARNERS)
def test_models_come_back_to_the_last_bit(name, tmp_path):
    model = clone(LEARNERS[name]).fit(X, Y)
    loaded = round_trip(model, tmp_path)
    if name == "m3l cv, no model":
        assert same(loaded.scores_, model.scores_)
        assert np.isnan(loaded.objective_)
    else:
        assert_same_model(model, loaded, X[::-1].copy())
    assert vars(model).keys() == vars(loaded).keys()
    for attribute, value in vars(model).items():
        if attribute != "_inference_engine":
            assert same(vars(loaded)[attribute], value), attribute


@pytest.mark.parametrize("name", LEARNERS)
def test_unfitted_models_stay_unfitted(name, tmp_path):
    model = clone(LEARNERS[name])
    loaded = round_trip(model, tmp_path)
    assert same(vars(loaded), vars(model))


WARM = ["m3l", "m3l rbf", "rank-cvm", "rank-svm", "lsg21", "prbr", "prml", "cgm", "structured", "structured, a clique"]


@pytest.mark.parametrize("name", WARM)
def test_a_warm_start_goes_on_after_loading(name, tmp_path):
    model = clone(LEARNERS[name]).set_params(warm_start=True).fit(X, Y)
    loaded = round_trip(model, tmp_path)
    assert same(vars(loaded)["_dual_start"], vars(model)["_dual_start"])
    cold = clone(model)
    parameter = "alpha" if "alpha" in model.get_params() else "C"
    for learner in (model, loaded, cold):
        learner.set_params(**{parameter: 0.2, "tol": 1e-4 if name == "prml" else 1e-6}).fit(X, Y)
    weights = "coef_" if hasattr(model, "coef_") else "dual_coef_"
    assert same(getattr(loaded, weights), getattr(model, weights))
    assert loaded.n_iter_ == model.n_iter_
    assert loaded.history_[0].primal != cold.history_[0].primal


STOPPED = {
    "prml": comargin.PrMLClassifier(C=1.0, rank=2, random_state=0, tol=1e-5, warm_start=True),
    "prml, many starts": comargin.PrMLClassifier(C=1.0, rank=2, random_state=0, tol=1e-3, n_init=3, warm_start=True),
    "cgm": comargin.CGMClassifier(alpha=1e-2, random_state=0, tol=1e-4, warm_start=True, round_tol=0.0),
    "cgm, rounds taken back": comargin.CGMClassifier(alpha=1e-2, random_state=0, warm_start=True, round_tol=1.0),
}


@pytest.mark.parametrize("name", STOPPED)
@pytest.mark.parametrize("share", [0.01, 0.5, 0.95])
def test_a_fit_that_was_stopped_goes_on_after_loading(name, share, tmp_path):
    whole, seen, again = [], [], []
    full = clone(STOPPED[name]).set_params(callback=whole.append).fit(X, Y)
    n_calls = 1 + int(share * len(whole))

    def stop(point):
        seen.append(point)
        return len(seen) == n_calls

    model = clone(STOPPED[name]).set_params(callback=stop).fit(X, Y).set_params(callback=None)
    loaded = round_trip(model, tmp_path)
    assert same(vars(loaded)["_dual_start"], vars(model)["_dual_start"])
    loaded.set_params(callback=again.append).fit(X, Y)
    assert loaded.objective_ == pytest.approx(full.objective_, rel=2.0 * full.tol)
    assert loaded.n_iter_ <= 1.5 * full.n_iter_ + 10
    assert loaded.history_[-1].n_iter == loaded.n_iter_
    seconds = [point.seconds for point in loaded.history_]
    assert seconds == sorted(seconds)
    if name.startswith("prml"):  # bit by bit: the same alternations
        assert [point[2:] for point in seen + again] == [point[2:] for point in whole]
        assert [point[2:] for point in loaded.history_] == [point[2:] for point in full.history_]
        assert same(loaded.coef_, full.coef_)
    else:
        assert loaded.cliques_ == full.cliques_
        assert [each.n_cliques for each in loaded.rounds_] == [each.n_cliques for each in full.rounds_]
        assert sum(each.n_iter for each in loaded.rounds_) == loaded.n_iter_
    # What is finished is no fit that goes on.
    assert type(loaded._dual_start).__name__ != "StoppedGeneration"
    assert getattr(getattr(loaded._dual_start, "point", None), "stopped", None) is None


@pytest.mark.parametrize("name", VECTORIZERS)
def test_texts_to_tags(name, tmp_path):
    model = tagger(VECTORIZERS[name]).fit(TEXTS, TAGS)
    loaded = round_trip(model, tmp_path)
    new = ["sky and sea at night", "", "over the city", "nothing known"]
    assert_same_model(model, loaded, new)
    before, after = model.estimator_[0], loaded.estimator_[0]
    assert same(after.get_params(), before.get_params())
    assert same(after.transform(new), before.transform(new))
    if hasattr(before, "vocabulary_"):
        assert after.vocabulary_ == before.vocabulary_
        assert after.fixed_vocabulary_ == before.fixed_vocabulary_
        assert same(after.get_feature_names_out(), before.get_feature_names_out())
    assert same(loaded.fit(TEXTS, TAGS).predict(new), model.predict(new))


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
@pytest.mark.parametrize("learner", [comargin.M3LClassifier, comargin.RankSVMClassifier])
def test_sparse_rows_and_labels(kernel, learner, tmp_path):
    rows = sp.csr_array(np.where(np.abs(X) > 0.5, X, 0.0))
    model = learner(kernel=kernel).fit(rows, sp.csr_array(Y))
    assert_same_model(model, round_trip(model, tmp_path), rows)


def test_a_precomputed_kernel(tmp_path):
    model = comargin.M3LClassifier(kernel="precomputed").fit(X @ X.T, Y)
    loaded = round_trip(model, tmp_path)
    assert_same_model(model, loaded, X[:5] @ X.T)
    assert loaded.support_vectors_ is None


@pytest.mark.parametrize(
    "y", [np.array(["no", "yes"])[Y[:, 0]], np.array(["a", "b", "c"], dtype=object)[Y.sum(axis=1) % 3], np.ones(40)]
)
@pytest.mark.parametrize("learner", [comargin.M3LClassifier(), comargin.StructuredSVMClassifier(alpha=0.1)])
def test_one_dimensional_targets(y, learner, tmp_path):
    model = clone(learner).fit(X, y)
    assert_same_model(model, round_trip(model, tmp_path), X)


def test_a_binary_ranking_with_warm_start(tmp_path):
    model = comargin.RankCVMClassifier(warm_start=True, random_state=0).fit(X, Y[:, 0])
    loaded = round_trip(model, tmp_path)
    assert_same_model(model, loaded, X)
    assert same(loaded.set_params(C=2.0).fit(X, Y[:, 0]).dual_coef_, model.set_params(C=2.0).fit(X, Y[:, 0]).dual_coef_)


def test_names_of_features_and_labels(tmp_path):
    frame = pd.DataFrame(X, columns=["wide", "high", "deep", "tief é"])
    labels = pd.DataFrame(Y, columns=["x", "y", "z"])
    model = comargin.StructuredSVMClassifier(alpha=0.1).fit(frame, labels)
    loaded = round_trip(model, tmp_path)
    assert_same_model(model, loaded, frame)
    assert same(loaded.feature_names_in_, model.feature_names_in_)
    assert loaded.label_graph_.label_names == ("x", "y", "z")
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(frame[["high", "wide", "deep", "tief é"]])


def test_labels_that_are_always_on_or_off(tmp_path):
    constant = np.column_stack([Y, np.ones(40, int), np.zeros(40, int)])
    with pytest.warns(UserWarning, match="present in all training"):
        model = OneVsRestClassifier(LogisticRegression()).fit(X, constant)
    loaded = round_trip(model, tmp_path)
    assert_same_model(model, loaded, X)
    assert same(loaded.predict_proba(X), model.predict_proba(X))
    wrapped = ThresholdClassifierCV(model, cv="prefit").fit(X, constant)
    assert_same_model(wrapped, round_trip(wrapped, tmp_path), X)


def test_the_best_estimator_of_a_search(tmp_path):
    found = comargin.tune(
        comargin.RankCVMClassifier(random_state=0), X, Y, {"gamma": [0.1, 1.0], "C": [1.0, 2.0]}, cv=2
    )
    assert_same_model(found.best_estimator, round_trip(found.best_estimator, tmp_path), X)


def test_many_labels_and_cliques_are_arrays(tmp_path):
    # Long lists must not become long JSON, nor many members.
    labels = (rng := np.random.default_rng(0)).random((60, 30)) < 0.3
    model = comargin.LSG21Classifier(alpha=0.01, edge_threshold=0.0).fit(rng.normal(size=(60, 12)), labels.astype(int))
    assert len(model.shared_features_) > 100
    path = save(model, tmp_path / "model.cmg")
    assert inspect(path)["n_arrays"] < 30
    assert same(vars(load(path)), vars(model))


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.csc_array, sp.csc_matrix])
def test_sparse_parameters(form, tmp_path):
    R = form(np.eye(3) + 0.1)
    R.data, R.indices = np.append(R.data, 7.0), np.append(R.indices, 99).astype(R.indices.dtype)  # room at the end
    loaded = round_trip(comargin.M3LClassifier(label_correlation=R), tmp_path).label_correlation
    assert type(loaded) is form
    assert same(loaded.toarray(), R.toarray())
    assert loaded.nnz == len(loaded.data) == 9


def test_graphs(tmp_path):
    graph = LabelGraph([[1, 0.2, 0], [0.2, 1, -0.7], [0, -0.7, 1]], ["sea", "sky", "\ud800 odd \U0001f600"])
    loaded = round_trip(graph, tmp_path)
    assert same(loaded.weights, graph.weights)
    assert loaded.label_names == graph.label_names


def test_meta_and_inspect(tmp_path):
    meta = {"labels": ["a", "ü"], "rows": 40, "share": 0.25, "nothing": None, "nested": {"list": [True, [], {}]}}
    path = save(tagger(VECTORIZERS["tfidf"]).fit(TEXTS, TAGS), tmp_path / "deep" / "folder" / "m.cmg", meta=meta)
    assert load_meta(path) == meta
    facts = inspect(path)
    assert facts["meta"] == meta
    assert facts["comargin"] == comargin.__version__
    assert set(facts["versions"]) == {"numpy", "scipy", "scikit-learn"}
    assert facts["file_size"] == path.stat().st_size
    tree = facts["model"]
    assert tree["class"] == "ThresholdClassifierCV"
    pipeline = tree["parts"]["estimator_"]
    assert [part["class"] for part in pipeline["parts"].values()] == ["TfidfVectorizer", "M3LClassifier"]
    assert load_meta(save(LEARNERS["m3l"], path)) is None


def test_the_same_model_gives_the_same_bytes(tmp_path):
    model = clone(LEARNERS["m3l"]).fit(X, Y)
    first = save(model, tmp_path / "a.cmg").read_bytes()
    assert save(load(tmp_path / "a.cmg"), tmp_path / "b.cmg").read_bytes() == first


def test_arrays_are_npy_files(tmp_path):
    import zipfile

    model = clone(LEARNERS["m3l smo"]).fit(X, Y)
    with zipfile.ZipFile(save(model, tmp_path / "a.cmg")) as archive:
        arrays = [np.load(archive.open(name), allow_pickle=False) for name in archive.namelist() if "npy" in name]
    assert any(same(np.asarray(array), np.asarray(model.coef_)) for array in arrays)


def test_large_sparse_weights_are_packed(tmp_path):
    model = comargin.M3LClassifier().fit(X, Y)
    model.coef_ = np.zeros((3, 100_000))
    model.coef_[:, ::1000] = 1.0
    model.n_features_in_ = 100_000
    path = save(model, tmp_path / "m.cmg")
    assert path.stat().st_size < 100_000
    assert same(load(path).coef_, model.coef_)
