"""LSG21ClassifierCV: the same scores as a search over plain fits, and what is its own; and `tune` along alpha."""

import inspect
import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.lsg21 import reference_lsg21 as reference

from comargin import LSG21Classifier, LSG21ClassifierCV, tune
from comargin.core import path as _path
from comargin.graphs import cosine_affinity
from comargin.lsg21.solver import solve_lsg21
from comargin.metrics import scorers
from comargin.model_selection import MultilabelStratifiedKFold

ALPHAS = [0.3, 10.0, 1.0, 3.0]
EXACT = {"tol": 1e-9}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(80, 7))
    Y = (X[:, [0, 0, 1, 2]] + X[:, [1, 2, 2, 0]] + 1.5 * rng.normal(size=(80, 4)) > 0.3).astype(int)
    Y[3] = 0
    return X, Y


def test_parameters_are_those_of_the_classifier_with_a_path_for_alpha():
    plain = dict(inspect.signature(LSG21Classifier.__init__).parameters)
    path = dict(inspect.signature(LSG21ClassifierCV.__init__).parameters)
    for name in ("self", "alpha", "warm_start"):
        del plain[name]
    for name in ("self", "alphas", "alpha_ratio", "cv", "scoring", "refit", "path_tol"):
        del path[name]
    assert list(path) == list(plain)
    assert {n: p.default for n, p in path.items()} == {n: p.default for n, p in plain.items()}
    assert set(LSG21ClassifierCV._parameter_constraints) == set(LSG21ClassifierCV().get_params())


def test_labels_that_never_change_with_weights(data):
    X, Y = data
    for seed in range(2):
        weight = np.random.default_rng(seed).uniform(0.1, 1.0, 80)
        model = LSG21ClassifierCV(alphas=2, cv=2).fit(X, np.ones_like(Y), sample_weight=weight)
        assert model.alpha_max_ == 0.0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fit_intercept": False},
        {"self_edges": False, "edge_threshold": 0.0},
        {"affinity": np.ones((4, 4))},
        {"edge_threshold": 0.5},
    ],
    ids=lambda o: "-".join(map(str, o)) or "plain",
)
def test_scores_are_those_of_separate_fits(data, options):
    X, Y = data
    path = LSG21ClassifierCV(ALPHAS, cv=3, path_tol=1e-9, **EXACT, **options).fit(X, Y)
    assert_array_equal(path.alphas_, [10.0, 3.0, 1.0, 0.3])
    expected = np.empty((3, 4))
    for fold, (train, test) in enumerate(MultilabelStratifiedKFold(3).split(X, Y)):
        for k, alpha in enumerate(path.alphas_):
            model = clone(LSG21Classifier(alpha, **EXACT, **options)).fit(X[train], Y[train])
            expected[fold, k] = f1_score(Y[test], model.predict(X[test]), average="micro")
    assert_allclose(path.scores_, expected, atol=1e-12)
    assert np.ptp(expected.mean(axis=0)) > 1e-4  # there was something to choose
    best = int(np.argmax(expected.mean(axis=0)))
    assert path.best_index_ == best
    assert path.alpha_ == path.alphas_[best]
    assert path.best_score_ == pytest.approx(expected.mean(axis=0)[best])
    assert path.converged_.all()
    last = LSG21Classifier(path.alpha_, **EXACT, **options).fit(X, Y)
    for name in ("coef_", "intercept_"):
        assert_array_equal(getattr(path, name), getattr(last, name))
    assert path.objective_ == last.objective_
    assert path.duality_gap_ == last.duality_gap_
    assert_array_equal(path.predict(X), last.predict(X))
    assert_array_equal(path.decision_function(X), last.decision_function(X))
    assert [s.tolist() for s in path.selected_features_] == [s.tolist() for s in last.selected_features_]
    assert list(path.shared_features_) == list(last.shared_features_)
    assert_array_equal(path.sparse_coef_.toarray(), last.coef_)


@pytest.mark.parametrize("self_edges", [True, False])
def test_default_values_go_down_from_where_weights_begin(data, self_edges):
    X, Y = data
    model = LSG21ClassifierCV(alphas=6, alpha_ratio=0.01, cv=2, self_edges=self_edges).fit(X, Y)
    expected = reference.alpha_max(X, Y, cosine_affinity(Y).to_array(), self_edges=self_edges)
    assert model.alpha_max_ == pytest.approx(expected, rel=1e-6)
    assert_allclose(model.alphas_, model.alpha_max_ * 0.01 ** (np.arange(6) / 5), rtol=1e-12)
    assert not LSG21Classifier(model.alpha_max_, self_edges=self_edges).fit(X, Y).coef_.any()
    assert LSG21Classifier(0.95 * model.alpha_max_, self_edges=self_edges).fit(X, Y).coef_.any()
    assert len(LSG21ClassifierCV(cv=2).fit(X, Y).alphas_) == 20


def test_largest_alpha_is_there_for_given_values_too(data):
    model = LSG21ClassifierCV([2.0, 1.0, 1.0], cv=2).fit(*data)
    assert_array_equal(model.alphas_, [2.0, 1.0])
    assert model.alpha_max_ == LSG21ClassifierCV(2, cv=2).fit(*data).alpha_max_


def test_each_fold_continues_from_the_alpha_before(data, monkeypatch):
    X, Y = data
    starts = []

    def spy(problem, alpha, control, *, start, gram):
        starts.append((problem.X.shape[0], start is None))
        return solve_lsg21(problem, alpha, control, start=start, gram=gram)

    monkeypatch.setattr("comargin.lsg21.classifier.solve_lsg21", spy)
    LSG21ClassifierCV(ALPHAS, cv=2, n_jobs=1).fit(X, Y)
    assert [cold for _, cold in starts] == [True, False, False, False] * 2 + [True]
    assert starts[-1][0] == 80


@pytest.mark.usefixtures("threaded_blas")
def test_same_result_for_any_n_jobs(data):
    one = LSG21ClassifierCV(6, cv=3, n_jobs=1).fit(*data)
    for n_jobs in (2, 3, -1):
        model = LSG21ClassifierCV(6, cv=3, n_jobs=n_jobs).fit(*data)
        assert_array_equal(model.scores_, one.scores_)
        assert_array_equal(model.coef_, one.coef_)


def test_ties_go_to_the_largest_alpha(data):
    X, Y = data
    model = LSG21ClassifierCV([1.0, 2.0, 4.0], cv=2, scoring=lambda model, X, y: 1.0).fit(X, Y)
    assert model.alpha_ == 4.0
    assert model.best_index_ == 0


@pytest.mark.parametrize("scoring", ["average_precision", "macro_f1", "f1_macro"])
def test_scoring_by_name(data, scoring):
    X, Y = data
    model = LSG21ClassifierCV([1.0, 4.0], cv=KFold(2), scoring=scoring).fit(X, Y)
    train, test = next(KFold(2).split(X))
    plain = LSG21Classifier(4.0, tol=1e-5).fit(X[train], Y[train])
    if scoring in scorers:
        expected = scorers[scoring](plain, X[test], Y[test])
    else:
        expected = f1_score(Y[test], plain.predict(X[test]), average="macro")
    assert model.scores_[0, 0] == pytest.approx(expected, abs=0.02)
    assert model.score(X, Y) == pytest.approx(
        scorers[scoring](model, X, Y) if scoring in scorers else f1_score(Y, model.predict(X), average="macro")
    )


def test_without_refit_there_are_scores_only(data):
    X, Y = data
    model = LSG21ClassifierCV(ALPHAS, cv=2, refit=False).fit(X, Y)
    full = LSG21ClassifierCV(ALPHAS, cv=2).fit(X, Y)
    assert_array_equal(model.scores_, full.scores_)
    assert (model.alpha_, model.alpha_max_) == (full.alpha_, full.alpha_max_)
    assert np.isnan(model.objective_)
    assert not hasattr(model, "coef_")
    assert not hasattr(model, "_largest")
    with pytest.raises(NotFittedError, match="refit=False: there are scores_ and alpha_"):
        model.predict(X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alphas": 1}, "alphas"),
        ({"alphas": []}, "alphas must be"),
        ({"alphas": [1.0, 0.0]}, "alphas must be"),
        ({"alphas": [1.0, -2.0]}, "alphas must be"),
        ({"alphas": [1.0, np.inf]}, "alphas must be"),
        ({"alphas": [[1.0, 2.0]]}, "alphas must be"),
        ({"alphas": ["a"]}, "alphas must hold"),
        ({"alphas": None}, "alphas"),
        ({"alpha_ratio": 0.0}, "alpha_ratio"),
        ({"alpha_ratio": 1.0}, "alpha_ratio"),
        ({"scoring": "f2"}, "scoring"),
        ({"path_tol": -1.0}, "path_tol"),
        ({"affinity": np.eye(3)}, "affinity must be of shape"),
        ({"cv": 1}, "n_splits|cv"),
    ],
)
def test_bad_parameters_are_named_and_nothing_remains(data, options, message):
    model = LSG21ClassifierCV(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert set(vars(model)) == set(vars(LSG21ClassifierCV()))


def test_interrupted_search_leaves_nothing_behind(data):
    def interrupt(model, X, y):
        raise KeyboardInterrupt

    model = LSG21ClassifierCV(ALPHAS, cv=2, scoring=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert set(vars(model)) == set(vars(LSG21ClassifierCV()))


def test_weights_are_repetitions(data, rng):
    X, Y = data
    times = rng.integers(0, 3, 80)
    rows = np.repeat(np.arange(80), times)
    fold = rng.integers(0, 2, 80)
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(2)]
    repeated = [(np.flatnonzero(fold[rows] != k), np.flatnonzero(fold[rows] == k)) for k in range(2)]
    options = {"alphas": ALPHAS, "tol": 1e-10, "path_tol": 1e-10}
    one = LSG21ClassifierCV(cv=folds, **options).fit(X, Y, sample_weight=times)
    two = LSG21ClassifierCV(cv=repeated, **options).fit(X[rows], Y[rows])
    assert_allclose(one.scores_, two.scores_, atol=1e-12)
    assert one.alpha_ == two.alpha_
    assert_allclose(one.alpha_max_, two.alpha_max_, rtol=1e-9)
    assert_allclose(one.coef_, two.coef_, atol=1e-6)


@pytest.mark.parametrize("to_X", [sp.csr_array, sp.csr_matrix, np.asfortranarray])
def test_forms_of_input(data, to_X):
    X, Y = data
    expected = LSG21ClassifierCV(ALPHAS, cv=2, tol=1e-9, path_tol=1e-9).fit(X, Y)
    model = LSG21ClassifierCV(ALPHAS, cv=2, tol=1e-9, path_tol=1e-9).fit(to_X(X), sp.csr_array(Y))
    assert_allclose(model.scores_, expected.scores_, atol=1e-12)
    assert_allclose(model.coef_, expected.coef_, atol=1e-5)
    assert sp.issparse(model.predict(to_X(X)))


def test_classes_are_scored_by_accuracy(data):
    X, Y = data
    y = np.array(["a", "b", "c"])[Y[:, 0] + Y[:, 1]]
    model = LSG21ClassifierCV([1.0, 5.0], cv=2).fit(X, y)
    assert model.score(X, y) == np.mean(model.predict(X) == y)
    assert model.scores_.min() >= 0.2


def test_labels_that_never_change_get_any_values(data):
    X, Y = data
    model = LSG21ClassifierCV(alphas=4).fit(X, np.zeros_like(Y))
    assert model.alpha_max_ == 0.0
    assert (model.alphas_ > 0.0).all()
    assert not model.predict(X).any()


def test_labels_missing_in_a_training_part(data):
    X, Y = data
    Y[:, 3] = 0
    Y[5, 3] = 1  # alone: some fold trains without it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LSG21ClassifierCV(ALPHAS, cv=KFold(4)).fit(X, Y)
    assert np.isfinite(model.scores_).all()


def test_one_warning_counts_the_fits_that_did_not_converge(data):
    with pytest.warns(ConvergenceWarning, match=r"fits of the folds stopped before the tolerance") as caught:
        model = LSG21ClassifierCV([0.1, 0.05], cv=2, tol=1e-12, path_tol=1e-12, max_iter=1).fit(*data)
    assert len(caught) == 1
    assert not model.converged_.all()


def test_pickle_and_clone(data):
    X, Y = data
    model = LSG21ClassifierCV(ALPHAS, cv=2).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(clone(model).fit(X, Y).coef_, model.coef_)


# ---- tune


@pytest.mark.parametrize("scaled", [False, True])
def test_tune_takes_the_path_and_equals_separate_fits(data, monkeypatch, scaled):
    X, Y = data
    model = LSG21Classifier(**EXACT)
    name = "alpha"
    if scaled:
        model, name = make_pipeline(StandardScaler(), model), "lsg21classifier__alpha"
    paths = []
    original = _path.fit_path

    def spy(learner, rows, values, state, keep):
        assert state is None
        values = list(values)
        paths.append(values)
        return original(learner, rows, values)

    monkeypatch.setattr("comargin.search._fold_tasks.fit_path", spy)
    found = tune(model, X, Y, {name: ALPHAS}, cv=MultilabelStratifiedKFold(3), criterion="f1_micro")
    assert paths == [[10.0, 3.0, 1.0, 0.3]] * 3  # from the largest down, once for every fold
    expected = np.empty((3, 4))
    for fold, (train, test) in enumerate(MultilabelStratifiedKFold(3).split(X, Y)):
        for k, alpha in enumerate(ALPHAS):
            one = clone(model).set_params(**{name: alpha}).fit(X[train], Y[train])
            expected[fold, k] = f1_score(Y[test], one.predict(X[test]), average="micro")
    assert_allclose(found.steps[0].fold_values, expected, atol=1e-12)
    assert found.best_params[name] == ALPHAS[int(np.argmax(expected.mean(axis=0)))]
    assert found.best_score == pytest.approx(expected.mean(axis=0).max(), abs=1e-12)
