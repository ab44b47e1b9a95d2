"""M3LClassifierCV: the same scores as a search over plain fits, and what is its own."""

import inspect
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.metrics import f1_score, label_ranking_average_precision_score
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, ShuffleSplit

from comargin import M3LClassifier, M3LClassifierCV
from comargin.metrics import scorers
from comargin.model_selection import MultilabelStratifiedKFold

CS = [0.003, 0.03, 0.3, 3.0]
EXACT = {"tol": 1e-8, "max_iter": 200_000, "random_state": 0}


@pytest.fixture
def data(rng):
    X = rng.normal(size=(90, 6))
    Y = (X @ rng.normal(size=(6, 4)) + 1.5 * rng.normal(size=(90, 4)) > 0.7).astype(int)
    Y[3] = 0
    return X, Y


def test_parameters_are_those_of_the_classifier_with_a_path_for_C():
    plain = dict(inspect.signature(M3LClassifier.__init__).parameters)
    path = dict(inspect.signature(M3LClassifierCV.__init__).parameters)
    for name in ("self", "C", "warm_start"):
        del plain[name]
    for name in ("self", "Cs", "cv", "scoring", "refit", "path_tol"):
        del path[name]
    assert list(path) == list(plain)
    assert {n: p.default for n, p in path.items()} == {n: p.default for n, p in plain.items()}
    assert set(M3LClassifierCV._parameter_constraints) == set(M3LClassifierCV().get_params())


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fit_intercept": False, "class_weight": "balanced"},
        {"label_correlation": "train", "loss": "hamming"},
        {"label_correlation": "train", "loss": "logistic"},
        {"loss": "squared_hinge"},
        {"loss": "logistic", "kernel": "rbf", "gamma": 0.1},
        {"label_correlation": 0.7 * np.eye(4) + 0.06, "loss": "correlated"},
        {"kernel": "rbf", "gamma": 0.1},
        {"kernel": "poly", "degree": 2},
        {"solver": "dcd"},
    ],
    ids=lambda o: "-".join(map(str, o)) or "plain",
)
def test_scores_are_those_of_a_grid_search(data, options):
    X, Y = data
    cv = MultilabelStratifiedKFold(3)
    path = M3LClassifierCV(CS, cv=3, path_tol=1e-8, **EXACT, **options).fit(X, Y)
    search = GridSearchCV(M3LClassifier(**EXACT, **options), {"C": CS}, cv=cv, scoring="f1_micro").fit(X, Y)
    results = search.cv_results_
    assert_allclose(path.scores_, [results[f"split{k}_test_score"] for k in range(3)], atol=1e-12)
    assert path.C_ == search.best_params_["C"]
    assert path.best_score_ == pytest.approx(search.best_score_)
    assert path.Cs_[path.best_index_] == path.C_
    assert np.ptp(path.scores_.mean(axis=0)) > 1e-4  # there was something to choose
    assert_array_equal(path.decision_function(X), search.best_estimator_.decision_function(X))
    assert path.converged_.all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_are_scored_by_accuracy(data, n_classes, rng):
    X, _ = data
    # Each class has its own side: one that has none gets the weights 0, and ties with others like it.
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :n_classes] + 0.5 * rng.normal(size=(90, n_classes)), axis=1)]
    path = M3LClassifierCV(CS, cv=3, **EXACT).fit(X, y)
    cv = MultilabelStratifiedKFold(3)
    search = GridSearchCV(M3LClassifier(**EXACT), {"C": CS}, cv=cv, scoring="accuracy").fit(X, y)
    assert_allclose(path.scores_.mean(axis=0), search.cv_results_["mean_test_score"], atol=1e-12)
    assert path.score(X, y) == np.mean(path.predict(X) == y)


def test_precomputed_kernel_takes_the_rows_and_columns_of_a_fold(data):
    X, Y = data
    K = rbf_kernel(X, gamma=0.1)
    given = M3LClassifierCV(3, cv=3, kernel="precomputed", **EXACT).fit(K, Y)
    computed = M3LClassifierCV(3, cv=3, kernel="rbf", gamma=0.1, **EXACT).fit(X, Y)
    assert_array_equal(given.Cs_, computed.Cs_)
    assert_allclose(given.Cs_, [0.025, 0.791, 25.0])  # 0.05, sqrt(2.5) and 50 over K_ii + 1
    assert_allclose(given.scores_, computed.scores_)
    assert_allclose(given.decision_function(K), computed.decision_function(X), atol=1e-4)


@pytest.mark.parametrize(
    ("to_X", "to_Y"),
    [
        (sp.csr_array, np.asarray),
        (sp.csr_matrix, np.asarray),
        (sp.csc_array, np.asarray),
        (np.asarray, sp.csr_array),
        (np.asarray, sp.csr_matrix),
        (sp.csr_array, sp.csr_array),
    ],
)
def test_forms_of_input(data, to_X, to_Y):
    X, Y = data
    expected = M3LClassifierCV(3, cv=3, random_state=0).fit(X, Y)
    model = M3LClassifierCV(3, cv=3, random_state=0).fit(to_X(X), to_Y(Y))
    assert_array_equal(model.Cs_, expected.Cs_)
    assert_allclose(model.scores_, expected.scores_)
    assert sp.issparse(model.predict(X)) == sp.issparse(to_Y(Y))
    for name in ("f1_micro", "micro_f1", "ranking_loss"):  # scorers of both libraries take either form
        again = M3LClassifierCV([0.1, 1.0], cv=2, scoring=name, random_state=0).fit(to_X(X), to_Y(Y))
        assert np.isfinite(again.scores_).all()


def test_default_values_follow_the_length_of_the_rows(data):
    X, Y = data
    model = M3LClassifierCV(4, cv=2, random_state=0).fit(X, Y)
    q = np.mean(np.sum(X**2, axis=1) + 1.0)
    assert_allclose(model.Cs_, [0.05 / q, 0.5 / q, 5.0 / q, 50.0 / q], rtol=5e-3)
    assert len(M3LClassifierCV(cv=2, random_state=0).fit(X, Y).Cs_) == 10
    plain = {"fit_intercept": False, "cv": 2, "random_state": 0}
    once, tenfold = (M3LClassifierCV(4, **plain).fit(s * X, Y) for s in (1.0, 10.0))
    assert_allclose(tenfold.Cs_, once.Cs_ / 100.0, rtol=1e-2)
    assert_allclose(tenfold.scores_, once.scores_, atol=0.02)
    assert_allclose(M3LClassifierCV(2, **plain).fit(0.0 * X, Y).Cs_, [0.05, 50.0])  # rows without length


def test_values_are_ascending_and_distinct(data):
    model = M3LClassifierCV((3.0, 0.1, 3.0, 1), cv=2, random_state=0).fit(*data)
    assert_array_equal(model.Cs_, [0.1, 1.0, 3.0])
    assert model.scores_.shape == (2, 3)


def test_each_fold_continues_from_the_value_before(data, monkeypatch):
    starts = []
    original = M3LClassifier._prepare

    def spy(self, training):
        solve = original(self, training)

        def solve_and_note(C, start, control):
            result = solve(C, start, control)
            starts.append((C, None if start is None else start.max(), result[0].dual_coef.max()))
            return result

        return solve_and_note

    monkeypatch.setattr(M3LClassifier, "_prepare", spy)
    model = M3LClassifierCV([1.0, 0.01, 0.1], cv=2, n_jobs=1, random_state=0).fit(*data)
    assert [C for C, _, _ in starts] == [0.01, 0.1, 1.0] * 2 + [model.C_]
    for k in (0, 3, 6):
        assert starts[k][1] is None  # a fold, or the last fit: nothing to start from
    for k in (1, 2, 4, 5):
        assert starts[k][1] == starts[k - 1][2] > 0.0


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}], ids=["linear", "rbf"])
@pytest.mark.parametrize("Cs", [(0.1, 0.3, 1.0), (1.0, 0.3, 0.1)], ids=["up", "down"])
def test_a_path_is_what_starts_from_copies_give(data, options, Cs):
    X, Y = data
    model = M3LClassifier(random_state=0, tol=1e-2, **options)
    training = model._training_data(X, Y, None)
    along, alone = model._prepare(training), model._prepare(training)
    start = copied = None
    for C in Cs:
        result, _ = along(C, start, model._control())
        expected, _ = alone(C, copied, model._control())
        assert_array_equal(result.dual_coef, expected.dual_coef)
        assert_array_equal(result.coef, expected.coef)
        start, copied = result.dual_coef, expected.dual_coef.copy()


@pytest.mark.parametrize("options", [{}, {"kernel": "rbf"}], ids=["linear", "rbf"])
@pytest.mark.usefixtures("threaded_blas")
def test_same_result_for_any_n_jobs(data, options):
    X, Y = data
    one = M3LClassifierCV(4, n_jobs=1, random_state=3, **options).fit(X, Y)
    for n_jobs in (2, 11, -1):
        more = M3LClassifierCV(4, n_jobs=n_jobs, random_state=3, **options).fit(X, Y)
        assert_array_equal(more.scores_, one.scores_)
        assert_array_equal(more.decision_function(X), one.decision_function(X))


def test_random_state_fixes_everything(data):
    def fit(state):
        return M3LClassifierCV([0.1, 1.0], cv=2, tol=0.3, random_state=state, n_jobs=2).fit(*data).coef_

    assert_array_equal(fit(np.random.RandomState(5)), fit(np.random.RandomState(5)))
    assert not np.array_equal(fit(0), fit(1))


def test_ties_go_to_the_smallest_C(data):
    def nearly_equal(model, X, y):
        return 0.5 + 1e-15 * model.C

    assert M3LClassifierCV(CS, cv=2, scoring=lambda model, X, y: 0.5).fit(*data).C_ == CS[0]
    assert M3LClassifierCV(CS, cv=2, scoring=nearly_equal).fit(*data).C_ == CS[0]
    assert M3LClassifierCV(CS, cv=2, scoring=lambda model, X, y: -0.0).fit(*data).C_ == CS[0]
    assert M3LClassifierCV(CS, cv=2, scoring=lambda model, X, y: -1.0 / model.C).fit(*data).C_ == CS[-1]


def test_scoring_by_name_and_callable(data):
    X, Y = data
    folds = list(MultilabelStratifiedKFold(3).split(X, Y))

    def by_hand(measure, scores_needed):
        values = np.empty((3, 2))
        for k, (train, test) in enumerate(folds):
            for j, C in enumerate((0.03, 1.0)):
                model = M3LClassifier(C=C, **EXACT).fit(X[train], Y[train])
                values[k, j] = measure(Y[test], (model.decision_function if scores_needed else model.predict)(X[test]))
        return values

    def path(scoring):
        return M3LClassifierCV([0.03, 1.0], cv=folds, scoring=scoring, **EXACT).fit(X, Y)

    macro = by_hand(lambda T, P: f1_score(T, P, average="macro", zero_division=0), False)
    assert_allclose(path("f1_macro").scores_, macro)  # a name of scikit-learn
    assert_allclose(path("macro_f1").scores_, macro)  # a name of ours
    assert_allclose(path(scorers["macro_f1"]).scores_, macro)
    default = by_hand(lambda T, P: f1_score(T, P, average="micro"), False)
    assert_allclose(path(None).scores_, default)

    def rows_with_labels(T, scores):
        return label_ranking_average_precision_score(T[T.any(axis=1)], scores[T.any(axis=1)])

    # In both libraries; ours is meant.
    assert_allclose(path("average_precision").scores_, by_hand(rows_with_labels, True))
    model = path("ranking_loss")
    assert (model.scores_ <= 0).all()
    assert model.score(X, Y) == scorers["ranking_loss"](model, X, Y)
    with pytest.raises(ValueError, match=r"scoring: no measure is named 'f2_micro'.*nor is it a scorer of scikit"):
        path("f2_micro")


def test_scoring_sees_a_fitted_classifier_and_held_out_rows(data):
    X, Y = data
    seen = []

    def scoring(model, X_test, Y_test):
        seen.append((type(model), model.C, X_test, Y_test, model.coef_.shape, list(model.classes_)))
        assert model.predict(X_test).shape == Y_test.shape
        return 0.0

    test = np.array([5, 1, 8])
    train = np.setdiff1d(np.arange(len(X)), test)
    M3LClassifierCV([0.1], cv=[(train, test)], scoring=scoring).fit(X, Y)
    kind, C, X_test, Y_test, shape, classes = seen[0]
    assert kind is M3LClassifier
    assert C == 0.1
    assert_array_equal(X_test, X[test])
    assert_array_equal(Y_test, Y[test])
    assert shape == (4, 6)
    assert classes == [0, 1, 2, 3]


def test_weights_count_in_fits_and_scores(data):
    X, Y = data
    n = len(X)
    weight = np.ones(n)
    weight[:30] = 3.0
    order = np.concatenate([np.arange(n), np.arange(30), np.arange(30)])
    group = np.arange(n) % 3
    folds = [(np.flatnonzero(group != k), np.flatnonzero(group == k)) for k in range(3)]
    repeated = [(np.flatnonzero(group[order] != k), np.flatnonzero(group[order] == k)) for k in range(3)]
    weighted = M3LClassifierCV(3, cv=folds, **EXACT).fit(X, Y, sample_weight=weight)
    plain = M3LClassifierCV(3, cv=repeated, **EXACT).fit(X[order], Y[order])
    assert_array_equal(weighted.Cs_, plain.Cs_)
    assert_allclose(weighted.scores_, plain.scores_)
    assert_allclose(weighted.objective_, plain.objective_, rtol=1e-7)
    unweighted_scores = M3LClassifierCV(
        3, cv=folds, scoring=lambda model, X, y: scorers["micro_f1"](model, X, y), **EXACT
    ).fit(X, Y, sample_weight=weight)
    assert not np.allclose(unweighted_scores.scores_, weighted.scores_)
    assert weighted.score(X, Y, sample_weight=weight) == scorers["micro_f1"](weighted, X, Y, sample_weight=weight)


def test_folds_without_a_score_are_left_out(data):
    X, Y = data
    Y[:, 0] = 0
    Y[:5, 0] = 1
    folds = [(np.arange(0, 60), np.arange(60, 90)), (np.arange(30, 90), np.arange(0, 30))]

    def auc_of_first(model, X, y):
        return model.C if y[:, 0].any() else np.nan

    model = M3LClassifierCV(CS, cv=folds, scoring=auc_of_first).fit(X, Y)
    assert np.isnan(model.scores_[0]).all()
    assert model.C_ == model.best_score_ == CS[-1]
    unscored = M3LClassifierCV(CS, cv=folds[:1], scoring=auc_of_first)
    before = dict(vars(unscored))
    with pytest.raises(ValueError, match="is not finite in any fold"):
        unscored.fit(X, Y)
    assert vars(unscored) == before


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"Cs": 1}, "Cs"),
        ({"Cs": True}, "Cs"),
        ({"Cs": []}, "Cs must be an integer of at least 2 or a 1-D list"),
        ({"Cs": [1.0, 0.0]}, "Cs must be"),
        ({"Cs": [1.0, -2.0]}, "Cs must be"),
        ({"Cs": [1.0, np.nan]}, "Cs must be"),
        ({"Cs": [1.0, np.inf]}, "Cs must be"),
        ({"Cs": [[1.0, 2.0]]}, "Cs must be"),
        ({"Cs": ["a", "b"]}, "Cs must hold positive numbers"),
        ({"Cs": "many"}, "Cs"),
        ({"cv": 1}, "cv"),
        ({"cv": "five"}, "cv"),
        ({"cv": 91}, "n_splits=91"),
        ({"scoring": 3}, "scoring"),
        ({"refit": "yes"}, "refit"),
        ({"tol": -1.0}, "tol"),
        ({"class_weight": {2: 1.0}}, r"class_weight must be a dict .* one per label"),
    ],
)
def test_bad_parameters_are_named(data, options, message):
    model = M3LClassifierCV(**options)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert vars(model) == before


@pytest.mark.parametrize("cv", [[], [(np.arange(0), np.arange(5))], [(np.arange(5), np.arange(0))]])
def test_splits_must_have_rows(data, cv):
    with pytest.raises(ValueError, match="cv must give at least one split"):
        M3LClassifierCV([0.1, 1.0], cv=cv).fit(*data)


def test_cv_may_be_a_splitter_or_an_iterable(data):
    X, Y = data
    splitter = ShuffleSplit(3, test_size=0.3, random_state=0)
    one = M3LClassifierCV([0.1, 1.0], cv=splitter, random_state=0).fit(X, Y)
    two = M3LClassifierCV([0.1, 1.0], cv=splitter.split(X, Y), random_state=0).fit(X, Y)
    assert one.scores_.shape == (3, 2)
    assert_array_equal(one.scores_, two.scores_)
    assert M3LClassifierCV([0.1, 1.0], random_state=0).fit(X, Y).scores_.shape == (5, 2)


def test_labels_and_classes_missing_in_a_training_part(data):
    X, Y = data
    Y[:, 0], Y[:, 1] = 0, 1
    Y[7, 0] = 1
    assert np.isfinite(M3LClassifierCV([0.1, 1.0], random_state=0).fit(X, Y).scores_).all()
    y = np.where(Y[:, 2] == 1, "often", "sometimes")
    y[7] = "once"
    model = M3LClassifierCV([0.1, 1.0], random_state=0, class_weight="balanced").fit(X, y)
    assert list(model.classes_) == ["often", "once", "sometimes"]
    assert np.isfinite(model.scores_).all()
    assert M3LClassifierCV([0.1, 1.0], random_state=0).fit(X, Y[:, [2]]).predict(X).shape == (90, 1)


def test_without_refit_there_are_scores_only(data):
    X, Y = data
    model = M3LClassifierCV(CS, cv=3, random_state=0).fit(X, Y)
    C, scores = model.C_, model.scores_
    model.set_params(refit=False).fit(X, Y)
    assert model.C_ == C
    assert_array_equal(model.scores_, scores)
    assert not hasattr(model, "coef_")
    assert np.isnan(model.duality_gap_)
    with pytest.raises(NotFittedError, match="refit=False"):
        model.predict(X)


def test_one_warning_counts_the_fits_that_did_not_converge(data):
    X, Y = data
    with pytest.warns(ConvergenceWarning) as caught:
        model = M3LClassifierCV(CS[1:], cv=3, tol=1e-9, max_iter=1, random_state=0, n_jobs=2).fit(X, Y)
    assert len(caught) == 1
    assert "Also, 9 of the 9 fits of the folds stopped before the tolerance (max_iter=1" in str(caught[0].message)
    assert caught[0].filename == __file__
    assert not model.converged_.any()


def test_path_that_did_not_converge_is_told_when_the_last_fit_did(data):
    X, Y = data

    def smallest_wins(model, X, y):
        return -model.C

    options = {"cv": 2, "scoring": smallest_wins, "random_state": 0, "tol": 1e-4, "max_iter": 5}
    with pytest.warns(ConvergenceWarning) as caught:
        model = M3LClassifierCV([1e-6, 1000.0], **options).fit(X, Y)
    assert len(caught) == 1
    message = str(caught[0].message)
    assert message.startswith("M3LClassifierCV: 2 of the 4 fits of the folds stopped before the tolerance")
    assert "the smallest C of them is 1000." in message
    assert "Increase max_iter" in message
    assert_array_equal(model.converged_, [[True, False]] * 2)
    assert model.duality_gap_ <= 1e-4 * model.objective_


def test_verbose_tells_every_fit(data, capfd):
    M3LClassifierCV([0.1, 1.0], cv=3, random_state=0, verbose=1).fit(*data)
    lines = capfd.readouterr().err.splitlines()
    assert sum("fold" in line for line in lines) == 6
    assert any("fold 3  C 0.1  score 0." in line for line in lines)
    assert "gap" in lines[-1]


def test_callback_belongs_to_the_last_fit(data):
    seen = []
    model = M3LClassifierCV([0.1, 1.0], cv=2, random_state=0, callback=seen.append).fit(*data)
    assert model.history_ == seen


def test_error_in_scoring_reaches_the_caller_and_ends_the_threads(data):
    calls = []

    def scoring(model, X, y):
        calls.append(model.C)
        raise RuntimeError("from the scorer")

    n_threads = threading.active_count()
    model = M3LClassifierCV(np.geomspace(0.01, 1.0, 20), cv=10, scoring=scoring, n_jobs=2)
    with pytest.raises(RuntimeError, match="from the scorer"):
        model.fit(*data)
    assert not hasattr(model, "classes_")
    assert len(calls) <= 2
    assert threading.active_count() == n_threads


def test_pickle_clone_and_refit_on_other_data(data):
    X, Y = data
    model = M3LClassifierCV(3, cv=2, random_state=0).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(clone(model).fit(X, Y).coef_, model.coef_)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.fit(X[:50, :3], Y[:50, :2]).coef_.shape == (2, 3)


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_ends_a_long_path(tmp_path):
    script = tmp_path / "long_path.py"
    script.write_text(
        textwrap.dedent(
            """
            import numpy as np
            from comargin import M3LClassifierCV

            rng = np.random.default_rng(0)
            X = rng.normal(size=(2000, 30))
            Y = (rng.random((2000, 40)) < 0.3).astype(int)

            def scoring(model, X, y):
                print("running", flush=True)
                return 0.0

            Cs = [1e-6, *np.geomspace(10.0, 1000.0, 200)]
            model = M3LClassifierCV(Cs, tol=1e-12, max_iter=10**9, n_jobs=2, random_state=0, scoring=scoring)
            try:
                model.fit(X, Y)
            except KeyboardInterrupt:
                assert not hasattr(model, "classes_") and not hasattr(model, "n_features_in_")
                print("interrupted", flush=True)
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("running")  # from several folds at once
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out.splitlines()[-1] == "interrupted", err
    assert process.returncode == 0
