"""tune: the same numbers as loops over plain fits, in any direction, form of data and number of threads."""

import os
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
from sklearn import config_context, get_config
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, hamming_loss, label_ranking_loss
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC, LinearSVC

from comargin import M3LClassifier, RankCVMClassifier, RankSVMClassifier, tune
from comargin.core.path import has_path
from comargin.metrics import scorers
from comargin.model_selection import MultilabelStratifiedKFold

EXACT = {"tol": 1e-8, "max_iter": 200_000, "random_state": 0}
GAMMAS = [1.0, 0.1, 0.01]
CS = [10.0, 0.1, 1.0]  # neither ascending nor descending


@pytest.fixture
def data(rng):
    X = rng.normal(size=(75, 5))
    Y = (X @ rng.normal(size=(5, 4)) + X[:, :4] * X[:, 1:] + 0.5 * rng.normal(size=(75, 4)) > 0.6).astype(int)
    Y[3], Y[4] = 0, 1  # no pairs to rank
    return X, Y


def criterion_77(model, X, Y, weight=None):
    """(77) by scikit-learn, which counts rows without pairs as 0."""
    pairs = Y.any(axis=1) & ~Y.all(axis=1)
    weight = np.ones(len(Y)) if weight is None else weight
    ranking = label_ranking_loss(Y[pairs], model.decision_function(X[pairs]), sample_weight=weight[pairs])
    return (ranking + hamming_loss(Y, model.predict(X), sample_weight=weight)) / 2


def by_hand(estimator, X, Y, grid, measure, folds, better=min, pairwise=False):
    """The lazy search as a loop: values of each step (n_folds, n_values), and the best parameters."""
    best, tables = {}, []
    for name, values in grid:
        table = np.empty((len(folds), len(values)))
        for k, (train, test) in enumerate(folds):
            X_train = X[np.ix_(train, train)] if pairwise else X[train]
            X_test = X[np.ix_(test, train)] if pairwise else X[test]
            for j, value in enumerate(values):
                model = clone(estimator).set_params(**(best | {name: value})).fit(X_train, Y[train])
                table[k, j] = measure(model, X_test, Y[test])
        means = list(table.mean(axis=0))
        best[name] = values[means.index(better(means))]
        tables.append(table)
    return tables, best


def assert_same_search(result, tables, best):
    assert result.best_params == best
    assert len(result.steps) == len(tables)
    for step, table in zip(result.steps, tables, strict=True):
        assert_allclose(step.fold_values, table, atol=1e-12)
        assert_allclose(step.mean, table.mean(axis=0), atol=1e-12)
        assert np.ptp(step.mean) > 1e-3  # there was something to choose
        assert step.best_value == best[step.name]
    assert result.best_score == result.steps[-1].mean[result.steps[-1].best_index]


def test_m3l_is_searched_as_by_hand(data):
    X, Y = data
    model = M3LClassifier(kernel="rbf", **EXACT)
    grid = {"gamma": GAMMAS, "C": CS}
    result = tune(model, X, Y, grid)
    folds = list(MultilabelStratifiedKFold(3).split(X, Y))
    assert_same_search(result, *by_hand(model, X, Y, grid.items(), criterion_77, folds))
    assert result.criterion == "ranking+hamming"
    assert not result.greater_is_better
    assert result.best_score == min(result.steps[1].mean)
    last = clone(model).set_params(**result.best_params).fit(X, Y)
    assert_array_equal(result.best_estimator.decision_function(X), last.decision_function(X))
    assert not hasattr(model, "classes_")
    assert model.gamma == "scale"  # the estimator is as it was


def test_one_vs_rest_is_searched_as_by_a_grid_search(data):
    X, Y = data
    model = OneVsRestClassifier(SVC(gamma=0.1))
    folds = list(MultilabelStratifiedKFold(3).split(X, Y))
    result = tune(model, X, Y, {"estimator__C": CS}, criterion="f1_micro")
    search = GridSearchCV(model, {"estimator__C": CS}, cv=folds, scoring="f1_micro").fit(X, Y)
    assert_allclose(result.steps[0].mean, search.cv_results_["mean_test_score"])
    assert result.best_params == search.best_params_
    assert result.best_score == pytest.approx(search.best_score_)
    assert result.greater_is_better
    assert_array_equal(result.best_estimator.predict(X), search.best_estimator_.predict(X))
    grid = [("estimator__gamma", GAMMAS), ("estimator__C", CS)]
    assert_same_search(tune(model, X, Y, grid), *by_hand(model, X, Y, grid, criterion_77, folds))


@pytest.mark.parametrize("memory", [False, True])
def test_pipeline_is_searched_as_by_hand(data, memory, tmp_path):
    X, Y = data
    X = X * [1.0, 10.0, 1.0, 0.1, 1.0]
    learner = M3LClassifier(kernel="rbf", **EXACT)
    model = make_pipeline(StandardScaler(), MinMaxScaler(), learner, memory=str(tmp_path) if memory else None)
    grid = [("m3lclassifier__gamma", GAMMAS), ("m3lclassifier__C", CS)]
    folds = list(MultilabelStratifiedKFold(3).split(X, Y))
    result = tune(model, X, Y, grid)
    assert_same_search(result, *by_hand(model, X, Y, grid, criterion_77, folds))
    assert result.best_estimator.predict(X).shape == Y.shape

    seen = []

    def by_user(pipeline, X_test, Y_test):
        seen.append((type(pipeline), [name for name, _ in pipeline.steps], pipeline[-1].C))
        assert X_test[:, 1].std() > 5.0  # not transformed
        return -criterion_77(pipeline, X_test, Y_test)

    path = tune(clone(model), X, Y, [("m3lclassifier__C", CS)], criterion=by_user, refit=False)
    tables, best = by_hand(model, X, Y, [("m3lclassifier__C", CS)], criterion_77, folds)
    assert_same_search(path, [-tables[0]], best)
    assert path.criterion == "by_user"
    assert seen == [(Pipeline, ["standardscaler", "minmaxscaler", "m3lclassifier"], C) for C in sorted(CS)] * 3


class CountingScaler(TransformerMixin, BaseEstimator):
    fits, transforms = 0, 0

    def fit(self, X, y=None):
        type(self).fits += 1
        return self

    def transform(self, X):
        type(self).transforms += 1
        return np.asarray(X)

    def __sklearn_is_fitted__(self):
        return True


def test_pipeline_is_transformed_once_for_all_C(data):
    model = Pipeline([("scale", CountingScaler()), ("learn", M3LClassifier(random_state=0))])
    CountingScaler.fits = CountingScaler.transforms = 0
    tune(model, *data, {"learn__C": CS}, refit=False)
    assert (CountingScaler.fits, CountingScaler.transforms) == (3, 6)  # training and test rows of three folds
    tune(model, *data, {"learn__fit_intercept": [True, False]}, refit=False)
    assert CountingScaler.fits == 3 + 6
    alone = Pipeline([("learn", M3LClassifier(**EXACT))])
    assert_array_equal(
        tune(alone, *data, {"learn__C": CS}).steps[0].fold_values,
        tune(M3LClassifier(**EXACT), *data, {"C": CS}).steps[0].fold_values,
    )


def test_kernel_is_computed_once_for_all_C(data):
    X, Y = data
    computed = []

    def kernel(A, B):
        computed.append((len(A), len(B)))
        return rbf_kernel(A, B, gamma=0.1)

    model = M3LClassifier(kernel=kernel, solver="smo", tol=1e-4)

    def training_values(values):
        computed.clear()
        tune(model, X, Y, {"C": values}, refit=False)
        return sum(a * b for a, b in computed if a == b == 50)  # no test part has 50 rows

    assert training_values([1.0]) > 0
    assert training_values([0.3, 1.0, 3.0, 10.0]) == training_values([1.0])


RANK_LEARNERS = [
    RankCVMClassifier(tol=1e-9, random_state=0),
    RankSVMClassifier(tol=1e-7),
]


@pytest.mark.parametrize("model", RANK_LEARNERS, ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("scaled", [False, True])
def test_rank_learners_are_searched_as_by_hand(data, model, scaled):
    X, Y = data
    prefix = f"{type(model).__name__.lower()}__" if scaled else ""
    model = make_pipeline(MinMaxScaler(), model) if scaled else model
    grid = [(f"{prefix}gamma", GAMMAS), (f"{prefix}C", CS)]
    result = tune(model, X, Y, grid)
    folds = list(MultilabelStratifiedKFold(3).split(X, Y))
    assert_same_search(result, *by_hand(model, X, Y, grid, criterion_77, folds))
    last = clone(model).set_params(**result.best_params).fit(X, Y)
    assert_array_equal(result.best_estimator.predict(X), last.predict(X))


@pytest.mark.parametrize("kind", [RankCVMClassifier, RankSVMClassifier])
def test_rank_learners_compute_the_kernel_once_for_all_C(data, kind):
    X, Y = data
    ranked = Y.any(axis=1) & ~Y.all(axis=1)
    trained_on = [int(ranked[train].sum()) for train, _ in MultilabelStratifiedKFold(3).split(X, Y)]
    assert max(trained_on) < 50  # of 50 rows: kernel values of so many rows belong to the solver
    computed = []

    def kernel(A, B):
        computed.append((len(A), len(B)))
        return rbf_kernel(A, B, gamma=0.1)

    def solver_values(values, **options):
        computed.clear()
        tune(kind(kernel=kernel, random_state=0, **options), X, Y, {"C": values}, refit=False)
        return sum(a * b for a, b in computed if a == b and a in trained_on)

    assert solver_values([1.0]) == sum(n**2 for n in trained_on)
    assert solver_values([0.3, 1.0, 3.0, 10.0]) == solver_values([1.0])
    assert solver_values([1.0], cache_size=1e-6) > 3 * solver_values([1.0])  # what does not fit is computed again


@pytest.mark.parametrize("model", RANK_LEARNERS, ids=lambda model: type(model).__name__)
def test_rank_learners_continue_from_the_smaller_C(data, monkeypatch, model):
    X, Y = data
    kind, seen = type(model), []
    original = kind._prepare

    def spy(self, training):
        solve = original(self, training)

        def solve_and_note(C, start, control):
            result, attributes = solve(C, start, control)
            seen.append((C, start, result))
            return result, attributes

        return solve_and_note

    monkeypatch.setattr(kind, "_prepare", spy)
    values = [0.8, 1.25, 1.0]
    tune(model, X, Y, {"C": values}, refit=False)
    assert [C for C, _, _ in seen] == sorted(values) * 3
    for k, (_, start, _) in enumerate(seen):
        assert start is (None if k % 3 == 0 else seen[k - 1][2].dual_coef)
    n_warm = sum(result.n_iter for _, start, result in seen if start is not None)
    warm = [result.primal for _, _, result in seen]
    seen.clear()
    cold, n_cold = [], 0
    for train, _ in MultilabelStratifiedKFold(3).split(X, Y):
        for C in sorted(values):
            fitted = clone(model).set_params(C=C).fit(X[train], Y[train])
            cold.append(fitted.objective_)
            n_cold += fitted.n_iter_ if C > min(values) else 0
    assert_allclose(warm, cold, rtol=2 * model.tol)
    assert n_warm < n_cold


def test_search_of_the_paper_on_data_like_emotions(rng):
    """Gamma from 4 to 2^-10 at C = 1, then C from 256 to 1/2."""
    X = rng.random((391, 72))
    Y = ((X - 0.5) @ rng.normal(size=(72, 6)) + rng.normal(size=(391, 6)) > 1.0).astype(int)
    gammas, costs = [2.0**k for k in range(2, -11, -1)], [2.0**k for k in range(8, -2, -1)]
    model = RankCVMClassifier(random_state=0)
    result = tune(model, X, Y, {"gamma": gammas, "C": costs}, n_jobs=2)
    assert [step.fold_values.shape for step in result.steps] == [(3, 13), (3, 10)]
    assert all(step.converged.all() for step in result.steps)
    assert result.criterion == "ranking+hamming"
    assert result.best_params["gamma"] < 1.0  # distances are about 3.5: wider kernels only
    assert result.best_score <= result.steps[0].mean[gammas.index(result.best_params["gamma"])] + 1e-3
    assert result.best_score < 0.8 * result.steps[0].mean.max()
    fitted = result.best_estimator
    assert (fitted.gamma, fitted.C) == (result.best_params["gamma"], result.best_params["C"])
    assert label_ranking_loss(Y, fitted.decision_function(X)) < 0.2


def test_rank_learners_count_what_did_not_converge(data):
    for model in (RankCVMClassifier(tol=1e-9, max_iter=1, random_state=0), RankSVMClassifier(tol=1e-9, max_iter=1)):
        with pytest.warns(ConvergenceWarning) as caught:
            tune(model, *data, {"gamma": [0.1, 1.0], "C": [1.0, 10.0]}, n_jobs=2)
        assert len(caught) == 1
        assert str(caught[0].message).startswith("tune: 12 of the 12 fits of the folds did not converge")


def test_each_fold_continues_from_the_smaller_C(data, monkeypatch):
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
    tune(M3LClassifier(random_state=0), *data, {"C": CS}, refit=False)
    assert [C for C, _, _ in starts] == sorted(CS) * 3
    for k, (_, start, _) in enumerate(starts):
        assert start is None if k % 3 == 0 else start == starts[k - 1][2] > 0.0


def test_learners_around_another_fit_have_no_path():
    class OtherFit(M3LClassifier):
        def fit(self, X, y, sample_weight=None):
            return super().fit(np.asarray(X)[:, ::-1], y)

    class OtherSolve(M3LClassifier):
        def _solve(self, data, start, control):
            return super()._solve(data, None, control)

    class OtherPrepare(M3LClassifier):
        def _prepare(self, data):
            return super()._prepare(data)

    for kind in (M3LClassifier, OtherPrepare, RankCVMClassifier, RankSVMClassifier):
        assert has_path(kind())
    assert [has_path(kind()) for kind in (OtherFit, OtherSolve, LinearSVC)] == [False, False, False]


def test_precomputed_kernel_takes_the_rows_and_columns_of_a_fold(data):
    X, Y = data
    K = rbf_kernel(X, gamma=0.1)
    folds = list(MultilabelStratifiedKFold(3).split(X, Y))
    for model, name in (
        (M3LClassifier(kernel="precomputed", **EXACT), "C"),
        (OneVsRestClassifier(SVC(kernel="precomputed")), "estimator__C"),
    ):
        given = tune(model, K, Y, {name: CS})
        assert_same_search(given, *by_hand(model, K, Y, [(name, CS)], criterion_77, folds, pairwise=True))
        assert_array_equal(tune(model, K.tolist(), Y, {name: CS}).steps[0].mean, given.steps[0].mean)
    computed = tune(M3LClassifier(kernel="rbf", gamma=0.1, **EXACT), X, Y, {"C": CS})
    given = tune(M3LClassifier(kernel="precomputed", **EXACT), K, Y, {"C": CS})
    assert_allclose(given.steps[0].fold_values, computed.steps[0].fold_values)


def test_weights_count_in_fits_and_criterion(data):
    X, Y = data
    weight = np.where(np.arange(75) < 30, 3.0, 1.0)
    order = np.concatenate([np.arange(75), np.arange(30), np.arange(30)])
    group = np.arange(75) % 3
    folds = [(np.flatnonzero(group != k), np.flatnonzero(group == k)) for k in range(3)]
    repeated = [(np.flatnonzero(group[order] != k), np.flatnonzero(group[order] == k)) for k in range(3)]
    learner = M3LClassifier(kernel="rbf", gamma=0.1, **EXACT)
    for model, prefix in ((learner, ""), (make_pipeline(MinMaxScaler(), learner), "m3lclassifier__")):
        grid = {f"{prefix}gamma": GAMMAS, f"{prefix}C": CS}
        weighted = tune(model, X, Y, grid, cv=folds, sample_weight=weight)
        plain = tune(model, X[order], Y[order], grid, cv=repeated)
        for one, other in zip(weighted.steps, plain.steps, strict=True):
            assert_allclose(one.fold_values, other.fold_values, atol=1e-12)
        objectives = [r.best_estimator[-1] if prefix else r.best_estimator for r in (weighted, plain)]
        assert_allclose(objectives[0].objective_, objectives[1].objective_, rtol=1e-6)
        unweighted = tune(model, X, Y, grid, cv=folds)
        assert not np.allclose(unweighted.steps[0].fold_values, weighted.steps[0].fold_values)

    def measure_without_weights(model, X, y):
        return -criterion_77(model, X, y)

    other = tune(learner, X, Y, {"C": CS}, cv=folds, sample_weight=weight, criterion=measure_without_weights)
    assert not np.allclose(-other.steps[0].fold_values, tune(learner, X, Y, {"C": CS}, cv=folds).steps[0].fold_values)
    with pytest.raises(ValueError, match=r"sample_weight: KNeighborsClassifier\.fit takes none"):
        tune(KNeighborsClassifier(), X, Y, {"n_neighbors": [1, 3]}, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight"):
        tune(learner, X, Y, {"C": CS}, sample_weight=weight[:5])


def test_criteria_have_a_direction(data):
    X, Y = data
    folds = list(MultilabelStratifiedKFold(3).split(X, Y))
    model = M3LClassifier(kernel="rbf", gamma=0.1, **EXACT)

    def search(criterion):
        return tune(model, X, Y, {"C": CS}, criterion=criterion, refit=False)

    losses, best = by_hand(model, X, Y, [("C", CS)], lambda m, A, B: hamming_loss(B, m.predict(A)), folds)
    for criterion, sign in (("hamming_loss", 1.0), (scorers["hamming_loss"], -1.0)):  # a callable: greater is better
        result = search(criterion)
        assert_allclose(result.steps[0].fold_values, sign * losses[0])
        assert result.best_params == best
        assert result.greater_is_better == (sign < 0.0)
    assert "MeasureScorer" in result.criterion
    exact, best = by_hand(
        model, X, Y, [("C", CS)], lambda m, A, B: f1_score(B, m.predict(A), average="micro"), folds, better=max
    )
    for criterion in ("micro_f1", "f1_micro", scorers["micro_f1"]):
        result = search(criterion)
        assert_allclose(result.steps[0].fold_values, exact[0])
        assert result.best_params == best
        assert result.greater_is_better
    wrong, best = by_hand(
        model, X, Y, [("C", CS)], lambda m, A, B: 1.0 - accuracy_score(B, m.predict(A)), folds, better=min
    )
    result = search("error_rate")
    assert_allclose(result.steps[0].fold_values, wrong[0])
    assert not result.greater_is_better
    with pytest.raises(ValueError, match=r"criterion: no measure is named 'f2_micro'.*nor is it a scorer of scikit"):
        search("f2_micro")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_are_searched_by_the_error_rate(data, rng, n_classes):
    X, _ = data
    y = np.array(["a", "b", "c"])[np.argmax(X[:, :n_classes] + 0.7 * rng.normal(size=(75, n_classes)), axis=1)]
    folds = list(MultilabelStratifiedKFold(3).split(X, y))
    grid = [("gamma", GAMMAS), ("C", CS)]
    model = M3LClassifier(kernel="rbf", **EXACT)
    result = tune(model, X, y, grid)
    assert_same_search(result, *by_hand(model, X, y, grid, lambda m, A, b: np.mean(m.predict(A) != b), folds))
    assert result.criterion == "error_rate"
    assert not result.greater_is_better
    knn = tune(KNeighborsClassifier(), X, list(y), {"n_neighbors": range(1, 8, 3)})
    assert_same_search(
        knn,
        *by_hand(
            KNeighborsClassifier(),
            X,
            y,
            [("n_neighbors", [1, 4, 7])],
            lambda m, A, b: np.mean(m.predict(A) != b),
            folds,
        ),
    )


def test_one_label_is_searched_by_its_errors(data):
    X, Y = data
    folds = list(MultilabelStratifiedKFold(3).split(X, Y))
    result = tune(M3LClassifier(**EXACT), X, Y[:, [0]], {"C": CS}, cv=folds)
    assert result.criterion == "hamming_loss"
    flat = tune(M3LClassifier(**EXACT), X, Y[:, 0], {"C": CS}, cv=folds)
    assert_allclose(result.steps[0].fold_values, flat.steps[0].fold_values)


def test_ties_go_to_the_first_value_of_the_list(data):
    def first_of(criterion):
        return tune(M3LClassifier(), *data, {"C": CS}, criterion=criterion, refit=False).best_params["C"]

    assert first_of(lambda model, X, y: 0.5) == CS[0]
    assert first_of(lambda model, X, y: -0.5 + 1e-16 * model.C) == CS[0]
    assert first_of(lambda model, X, y: min(model.C, 1.0)) == 10.0
    assert first_of(lambda model, X, y: -max(model.C, 1.0)) == 0.1  # 0.1 comes before 1
    assert tune(M3LClassifier(), *data, {"C": [1.0, 1, 1.0]}, refit=False).steps[0].best_index == 0


def test_a_name_may_come_again(data):
    X, Y = data
    model = M3LClassifier(kernel="rbf", C=1e-3, **EXACT)
    grid = [("gamma", GAMMAS), ("C", CS), ("gamma", GAMMAS)]
    result = tune(model, X, Y, grid)
    tables, best = by_hand(model, X, Y, grid, criterion_77, list(MultilabelStratifiedKFold(3).split(X, Y)))
    assert [step.name for step in result.steps] == ["gamma", "C", "gamma"]
    for step, table in zip(result.steps, tables, strict=True):
        assert_allclose(step.fold_values, table, atol=1e-12)
    assert not np.allclose(tables[0], tables[2])
    assert result.best_params == best
    assert list(result.best_params) == ["gamma", "C"]


def test_values_may_be_arrays_of_numpy_or_estimators(data):
    X, Y = data
    result = tune(M3LClassifier(), X, Y, {"C": np.array([0.1, 1.0])}, refit=False)
    assert all(type(value) is float for value in result.steps[0].values)
    choices = [LinearSVC(C=0.01), LogisticRegression(C=10.0)]
    swapped = tune(OneVsRestClassifier(SVC()), X, Y, [("estimator", choices), ("estimator__C", [0.1, 1.0])])
    assert not any(hasattr(choice, "coef_") for choice in choices)
    assert [choice.C for choice in choices] == [0.01, 10.0]
    assert type(swapped.best_estimator.estimator) in (LinearSVC, LogisticRegression)
    assert swapped.best_estimator.estimator.C in (0.1, 1.0)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (M3LClassifier(kernel="rbf", random_state=3), {"gamma": GAMMAS, "C": CS}),
        (M3LClassifier(random_state=np.random.RandomState(3), tol=0.3), {"fit_intercept": [True, False], "C": CS}),
        (OneVsRestClassifier(LinearSVC(random_state=0)), {"estimator__C": CS}),
        (RankCVMClassifier(random_state=3), {"gamma": GAMMAS, "C": CS}),
        (RankSVMClassifier(), {"gamma": GAMMAS, "C": CS}),
    ],
    ids=["kernel", "linear", "one-vs-rest", "rank-cvm", "rank-svm"],
)
@pytest.mark.usefixtures("threaded_blas")
def test_same_result_for_any_n_jobs(data, model, grid):
    X, Y = data
    one = tune(model, X, Y, grid, n_jobs=1)
    for n_jobs in (7, None, -1):
        more = tune(model, X, Y, grid, n_jobs=n_jobs)
        for step, same in zip(one.steps, more.steps, strict=True):
            assert_array_equal(step.fold_values, same.fold_values)
        assert one.best_params == more.best_params
        assert_array_equal(one.best_estimator.decision_function(X), more.best_estimator.decision_function(X))


@pytest.mark.parametrize("to_X", [sp.csr_array, sp.csr_matrix, sp.coo_array, np.ndarray.tolist])
def test_forms_of_X(data, to_X):
    X, Y = data
    grid = {"fit_intercept": [True, False], "C": [0.1, 1.0]}
    result, expected = (tune(M3LClassifier(random_state=0), rows, Y, grid) for rows in (to_X(X), X))
    assert_allclose([step.mean for step in result.steps], [step.mean for step in expected.steps])


@pytest.mark.parametrize("criterion", ["ranking+hamming", "error_rate", "f1_micro"])
def test_forms_of_Y(data, criterion):
    X, Y = data
    grid = {"fit_intercept": [True, False], "C": [0.1, 1.0]}
    expected = tune(M3LClassifier(random_state=0), X, Y, grid, criterion=criterion)
    for labels in (sp.csr_array(Y), sp.csr_matrix(Y), sp.coo_array(Y), Y.tolist(), Y == 1):
        result = tune(M3LClassifier(random_state=0), X, labels, grid, criterion=criterion)
        assert_allclose([step.mean for step in result.steps], [step.mean for step in expected.steps])
        assert sp.issparse(result.best_estimator.predict(X)) == sp.issparse(labels)


def test_frames_keep_their_names(data):
    pandas = pytest.importorskip("pandas")
    X, Y = data
    frame = pandas.DataFrame(X, columns=list("abcde"), index=np.arange(75)[::-1])
    labels = pandas.DataFrame(Y, columns=list("pqrs"))
    model = make_pipeline(MinMaxScaler().set_output(transform="pandas"), M3LClassifier(**EXACT))
    result = tune(model, frame, labels, {"m3lclassifier__C": CS})
    assert list(result.best_estimator[-1].feature_names_in_) == list("abcde")
    plain = tune(model, X, Y, {"m3lclassifier__C": CS})
    assert_allclose(result.steps[0].fold_values, plain.steps[0].fold_values)


def test_folds_are_shuffled_by_random_state(data):
    X, Y = data
    model = M3LClassifier(random_state=0)

    def search(**options):
        return tune(model, X, Y, {"C": [0.1, 1.0], "fit_intercept": [True]}, refit=False, **options).steps[0].mean

    assert_array_equal(search(random_state=1), search(random_state=1))
    assert not np.array_equal(search(random_state=1), search())
    shuffled = MultilabelStratifiedKFold(3, shuffle=True, random_state=1)
    assert_array_equal(search(random_state=1), search(cv=shuffled))
    assert_array_equal(search(random_state=np.random.RandomState(1)), search(cv=shuffled))
    splitter = ShuffleSplit(2, test_size=0.3, random_state=0)
    assert_array_equal(search(cv=splitter), search(cv=splitter.split(X, Y)))
    # The same folds for all parameters, also when a splitter draws new ones each time.
    drawn = ShuffleSplit(2, test_size=0.3, random_state=np.random.RandomState(0))
    twice = tune(model, X, Y, [("C", [1.0]), ("C", [1.0])], cv=drawn, refit=False)
    assert_array_equal(twice.steps[0].fold_values, twice.steps[1].fold_values)


def test_folds_without_a_value_are_left_out(data):
    X, Y = data
    folds = [(np.arange(0, 50), np.arange(50, 75)), (np.arange(25, 75), np.arange(0, 25))]

    def of_first_rows(model, X_test, Y_test):
        return model.C if (X_test[0] == X[0]).all() else np.nan

    result = tune(M3LClassifier(), X, Y, {"C": CS}, cv=folds, criterion=of_first_rows)
    assert np.isnan(result.steps[0].fold_values[0]).all()
    assert_array_equal(result.steps[0].mean, CS)
    assert result.best_score == max(CS)
    assert "nan" not in result.table()
    with pytest.raises(ValueError, match="criterion 'of_first_rows' of C is not finite in any fold"):
        tune(M3LClassifier(), X, Y, {"C": CS}, cv=folds[:1], criterion=of_first_rows)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"estimator": M3LClassifier}, r"estimator must be .* pass an instance, M3LClassifier\(\)"),
        ({"estimator": "svm"}, "estimator must be"),
        ({"grid": {}}, "grid must map names to values"),
        ({"grid": []}, "grid must map names to values"),
        ({"grid": "C"}, "grid must map names to values"),
        ({"grid": 3}, "grid must map names to values"),
        ({"grid": [("C", [1.0], 2)]}, "grid must hold pairs"),
        ({"grid": ["C"]}, "grid must hold pairs"),
        ({"grid": {1: [1.0]}}, "grid must hold pairs"),
        ({"grid": {"C": []}}, "grid: the values of C must be a list of at least one value"),
        ({"grid": {"C": 1.0}}, "grid: the values of C must be a list"),
        ({"grid": {"kernel": "rbf"}}, "grid: the values of kernel must be a list"),
        ({"grid": {"C": np.ones((2, 2))}}, "grid: the values of C must be a list"),
        ({"grid": {"gama": [1.0]}}, "grid: Invalid parameter 'gama'"),
        ({"grid": {"C": [1.0, -1.0]}}, "'C' parameter of M3LClassifier must be"),
        ({"grid": {"C": [1.0, "a"]}}, "'C' parameter of M3LClassifier must be"),
        ({"grid": {"C": [1.0, np.nan]}}, "'C' parameter of M3LClassifier must be"),
        ({"estimator": M3LClassifier(kernel="cubic")}, "'kernel' parameter of M3LClassifier must be"),
        ({"criterion": 3}, "criterion must be"),
        ({"criterion": None}, "criterion must be"),
        ({"cv": 1}, "cv must be a number of folds from 2"),
        ({"cv": 76}, "cv must be a number of folds from 2 to the number of rows, 75"),
        ({"cv": True}, "cv must be"),
        ({"cv": None}, "cv must be"),
        ({"cv": "five"}, "cv"),
        ({"cv": []}, "cv must give at least one split"),
        ({"random_state": "x"}, "random_state must be"),
        ({"refit": "yes"}, "refit must be"),
        ({"verbose": "yes"}, "verbose must be"),
        ({"n_jobs": 0}, "n_jobs"),
        ({"y": None}, "y must be"),
        ({"y": [[0, 1], [1]]}, "y has rows of different lengths"),
        ({"y": np.full((75, 2), 2)}, "y must be a label indicator"),
        ({"y": np.zeros((75, 0))}, "y"),
        ({"y": np.linspace(0.0, 1.0, 75)}, "Unknown label type"),
        ({"y": np.zeros((10, 2))}, "inconsistent numbers of samples"),
    ],
)
def test_bad_arguments_are_named(data, changes, message):
    X, Y = data
    arguments = {"estimator": M3LClassifier(), "X": X, "y": Y, "grid": {"C": [1.0]}} | changes
    with pytest.raises(ValueError, match=message):
        tune(**arguments)


def test_without_refit_there_is_no_estimator(data):
    result = tune(M3LClassifier(), *data, {"C": CS}, refit=False)
    assert result.best_estimator is None


def test_one_warning_counts_the_fits_that_did_not_converge(data):
    X, Y = data
    model = M3LClassifier(tol=1e-9, max_iter=1, random_state=0, C=0.5)
    grid = {"fit_intercept": [True, False], "C": [1.0, 10.0]}
    for n_jobs in (1, 2):
        with pytest.warns(ConvergenceWarning) as caught:
            result = tune(model, X, Y, grid, n_jobs=n_jobs)
        assert len(caught) == 1
        message = str(caught[0].message)
        expected = "tune: 12 of the 12 fits of the folds did not converge (fit_intercept: True, False; C: 1, 10)."
        assert message.startswith(expected)
        assert "The last fit: M3LClassifier stopped after 1 iterations" in message
        assert caught[0].filename == __file__
        assert not any(step.converged.any() for step in result.steps)
    svm = OneVsRestClassifier(LinearSVC(random_state=0))
    with pytest.warns(ConvergenceWarning) as caught:
        result = tune(svm, X, Y, {"estimator__max_iter": [2, 10_000]}, refit=False, n_jobs=2)
    assert len(caught) == 1  # LinearSVC warns for every label
    assert "tune: 3 of the 6 fits of the folds did not converge (estimator__max_iter: 2)." in str(caught[0].message)
    assert "Increase their max_iter" in str(caught[0].message)
    assert_array_equal(result.steps[0].converged, [[False, True]] * 3)


def test_other_warnings_reach_the_caller_and_rare_labels_are_no_news(data):
    X, Y = data
    Y[:, 1] = 0
    Y[5, 1] = 1
    before = warnings.showwarning
    tune(OneVsRestClassifier(LinearSVC(random_state=0)), X, Y, {"estimator__C": [0.1, 1.0]})

    class Warns(M3LClassifier):
        def fit(self, X, y, sample_weight=None):
            warnings.warn("look here", UserWarning, stacklevel=2)
            return super().fit(X, y, sample_weight)

    with pytest.warns(UserWarning, match="look here"):
        tune(Warns(), X, Y, {"C": [1.0]})
    Y[5, 1] = 0
    with pytest.warns(UserWarning, match="present in all training examples"):  # in the last fit it is news
        tune(OneVsRestClassifier(LinearSVC(random_state=0)), X, Y, {"estimator__C": [0.1, 1.0]})
    assert warnings.showwarning is before


def test_verbose_tells_every_fit(data, capfd):
    model = M3LClassifier(kernel="rbf", verbose=1, random_state=0)
    tune(model, *data, {"gamma": [0.5, 0.125], "C": [1.0, 0.25]}, verbose=1, n_jobs=2, refit=False)
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 12  # and none from the learner, which would talk from several threads
    assert [line.split()[1] for line in lines] == [f"{k}/12" for k in range(1, 13)]
    assert all(line.startswith("tune: ") and "  ranking+hamming 0." in line for line in lines)
    assert sum("  gamma 0.125  " in line for line in lines[:6]) == 3
    assert sum("fold 3  C 0.25  " in line for line in lines[6:]) == 1
    tune(model.set_params(verbose=0), *data, {"C": [1.0]})
    assert capfd.readouterr().err == ""


def test_callback_belongs_to_the_last_fit(data):
    seen = []
    result = tune(M3LClassifier(callback=seen.append), *data, {"fit_intercept": [True], "C": [0.1, 1.0]})
    assert result.best_estimator.history_ == seen


def test_result_is_readable(data):
    model = M3LClassifier(kernel="rbf", random_state=0)
    result = tune(model, *data, {"gamma": [4.0, 0.1], "C": [1e-4, 1.0]})
    lines = str(result).splitlines()
    assert lines[0] == "ranking+hamming (smaller is better), 3 folds"
    assert sum(line.startswith("* ") for line in lines) == 2
    gamma = next(line for line in lines if line.startswith("* 0.1"))
    assert gamma.split()[2] == f"{result.steps[0].mean[1]:.5f}"
    assert gamma.split()[3] == f"{result.steps[0].fold_values[:, 1].std():.5f}"
    assert lines[-1] == f"best: gamma=0.1, C=1, ranking+hamming {result.best_score:.5g}"
    assert repr(result).startswith("TuneResult(best_params={'gamma': 0.1, 'C': 1.0}, best_score=0.")
    assert "greater_is_better=False" in repr(result)
    assert len(repr(result)) < 200
    with pytest.raises(AttributeError):
        result.best_score = 0.0
    by_name = tune(model, *data, {"kernel": ["linear", rbf_kernel]}, criterion="micro_f1", refit=False)
    assert "rbf_kernel" in by_name.table()
    assert "micro_f1 (greater is better)" in by_name.table()


class Fails(ClassifierMixin, BaseEstimator):
    fits = 0

    def __init__(self, depth=1):
        self.depth = depth

    def fit(self, X, y):
        type(self).fits += 1
        raise RuntimeError(f"from the fit, {get_config()['assume_finite']}")


def test_error_in_a_fit_reaches_the_caller_and_ends_the_threads(data):
    n_threads = threading.active_count()
    for n_jobs in (1, 2):
        Fails.fits = 0
        # Settings of scikit-learn belong to a thread; they are passed on.
        with config_context(assume_finite=True), pytest.raises(RuntimeError, match="from the fit, True"):
            tune(Fails(), *data, {"depth": list(range(30))}, n_jobs=n_jobs)
        assert Fails.fits <= 2
        assert threading.active_count() == n_threads


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
@pytest.mark.parametrize(("values", "n_jobs"), [("C", 1), ("C", 2), ("max_iter", 2)])
def test_ctrl_c_ends_a_long_search(tmp_path, values, n_jobs):
    script = tmp_path / "long_search.py"
    script.write_text(
        textwrap.dedent(
            f"""
            import numpy as np
            from comargin import M3LClassifier, tune

            rng = np.random.default_rng(0)
            X = rng.normal(size=(2000, 30))
            Y = (rng.random((2000, 40)) < 0.3).astype(int)
            # The first value is done at once, the others take very long: as a path, and one by one.
            grid = {{"C": [1e-6, *np.geomspace(10.0, 1000.0, 200)], "max_iter": [1, 10**9]}}

            def criterion(model, X, y):
                print("running", flush=True)
                return 0.0

            model = M3LClassifier(C=100.0, tol=1e-12, max_iter=10**9, random_state=0)
            try:
                tune(model, X, Y, {{{values!r}: grid[{values!r}]}}, criterion=criterion, n_jobs={n_jobs})
            except KeyboardInterrupt:
                print("interrupted", flush=True)
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().startswith("running")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out.splitlines()[-1] == "interrupted", err
    assert process.returncode == 0


def test_every_value_is_looked_at_before_the_first_fit(rng):
    def kernel(A, B):
        raise AssertionError("fitted")

    X, Y = rng.normal(size=(30, 3)), rng.integers(0, 2, size=(30, 3))
    with pytest.raises(ValueError, match=r"grid: .*'kernel'.*'rfb'"):
        tune(RankCVMClassifier(), X, Y, {"kernel": [kernel, "rfb"]})
    with pytest.raises(ValueError, match=r"grid: .*'gamma'.*-1"):
        tune(make_pipeline(RankCVMClassifier(kernel=kernel)), X, Y, {"rankcvmclassifier__gamma": [1.0, -1.0]})
