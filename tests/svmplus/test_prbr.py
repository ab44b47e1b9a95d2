"""PrBRClassifier: what is its own beside the contract of all learners."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests.svmplus import reference_prml as reference

from comargin import PrBRClassifier
from comargin.svmplus.problem import nearest_labels


@pytest.fixture
def data(rng):
    """50 rows, 5 features, 4 labels with noise; a row without labels."""
    X = rng.normal(size=(50, 5))
    Y = (X[:, :4] + 0.7 * X[:, 1:] + 0.2 * rng.normal(size=(50, 4)) > 0.0).astype(int)
    Y[0] = 0
    return X, Y


def with_constant(X):
    return np.column_stack([X, np.ones(len(X))])


def weights_of(model):
    """Z (d + 1, L) with the constant's row last, or Z (d, L)."""
    return np.vstack([model.coef_.T, model.intercept_]) if model.fit_intercept else model.coef_.T


def assert_optimal(model, X, Y, cost=None, mask=None):
    """The model is feasible, has the objective it reports, and is the optimum that cvxpy finds."""
    S = reference.signs(Y)
    H = with_constant(X) if model.fit_intercept else X
    C = model.C * (1.0 if cost is None else cost)
    form = (mask, model.privileged_intercept)
    Z, T = weights_of(model), model.privileged_coef_.T
    assert reference.violation(H @ Z, S, T, C, *form) <= 1e-9
    assert_allclose(reference.step_objective(Z, T, S, C, 1.0, model.gamma2, *form), model.objective_, rtol=1e-9)
    best = reference.prbr_optimum(H, S, C, model.gamma2, *form)
    assert_allclose(model.objective_, best.objective, rtol=1e-6)
    assert model.dual_objective_ <= best.objective * (1.0 + 1e-8)
    assert_allclose(Z, best.weights, atol=1e-3)
    assert_allclose(T, best.Wt, atol=1e-3)


# ---- what goes wrong


@pytest.mark.parametrize("scale", [1e2, 1e3, 1e4, 1e6])
def test_large_features(data, scale):
    X, Y = data
    model = PrBRClassifier(random_state=0).fit(scale * X, Y)
    assert model.duality_gap_ <= 1e-3 * model.objective_


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
def test_warm_start_on_other_label_sets_works_or_says_so(data, rng):
    X, _ = data
    many, few = (rng.random((50, 7)) < 0.4).astype(int), (rng.random((50, 7)) < 0.1).astype(int)
    model = PrBRClassifier(warm_start=True, random_state=0).fit(X, many)
    try:
        model.fit(X, few)
    except ValueError as error:
        assert "warm_start" in str(error)  # noqa: PT017
    else:
        assert_allclose(model.objective_, PrBRClassifier(random_state=0).fit(X, few).objective_, rtol=2e-3)


def test_weights_are_repetitions_also_where_labels_are_equally_near(rng):
    for _ in range(30):
        S, times = 2 * rng.integers(0, 2, (12, 5)) - 1, rng.integers(0, 4, 12)
        assert_array_equal(nearest_labels(S, 2, times.astype(float)), nearest_labels(np.repeat(S, times, axis=0), 2))


@pytest.mark.parametrize("rows", [slice(None), slice(1)])
def test_nothing_learned_is_said(data, rows):
    X, Y = np.zeros_like(data[0][rows]), data[1][rows]
    message = r"PrBRClassifier: all predictors are zero.*Increase C or change gamma2"
    with pytest.warns(UserWarning, match=message) as caught:
        model = PrBRClassifier(fit_intercept=False, random_state=0).fit(X, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert_array_equal(model.coef_, 0.0)


def test_labels_that_never_change_are_learned_by_the_constant(data):
    """Weights of features are zero then, but not the predictors: no warning."""
    model = PrBRClassifier(random_state=0).fit(np.zeros_like(data[0]), np.ones_like(data[1]))
    assert_array_equal(model.coef_, 0.0)
    assert (model.intercept_ > 0.5).all()


# ---- the optimum


@pytest.mark.compiled
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("C", "gamma2"), [(1.0, 1.0), (0.02, 0.3), (30.0, 4.0)])
def test_optimum_is_that_of_cvxpy(data, form, fit_intercept, C, gamma2):
    X, Y = data
    model = PrBRClassifier(C=C, gamma2=gamma2, fit_intercept=fit_intercept, tol=1e-8, random_state=0).fit(form(X), Y)
    assert_optimal(model, X, Y)
    assert np.linalg.norm(model.coef_) > 1e-3
    if not fit_intercept:
        assert_array_equal(model.intercept_, 0.0)
    assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_, atol=1e-13)
    assert_array_equal(model.predict(X), (model.decision_function(X) > 0.0).astype(int))


@pytest.mark.compiled
@pytest.mark.parametrize(
    "class_weight",
    [{1: 3.0}, {0: 0.25}, [{1: 2.0}, {0: 2.0}, {}, {0: 0.5, 1: 5.0}], "balanced", {1: 0.0}],
    ids=str,
)
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_classes_and_rows_are_costs(data, rng, class_weight, weighted):
    X, Y = data
    rows = rng.integers(0, 4, 50) / 2.0 if weighted else np.ones(50)
    if class_weight == "balanced":
        sides = [rows @ (1 - Y), rows @ Y]
        by_label = [{side: rows.sum() / (2.0 * sides[side][i]) for side in (0, 1)} for i in range(4)]
    else:
        by_label = class_weight if isinstance(class_weight, list) else [class_weight] * 4
    cost = np.array([[rows[j] * by_label[i].get(Y[j, i], 1.0) for i in range(4)] for j in range(50)])
    model = PrBRClassifier(C=0.5, class_weight=class_weight, tol=1e-8, random_state=0)
    assert_optimal(model.fit(X, Y, sample_weight=rows if weighted else None), X, Y, cost)


@pytest.mark.compiled
@pytest.mark.parametrize("n_privileged", [0, 1, 2, 3])
def test_only_the_nearest_labels_are_privileged(data, n_privileged):
    X, Y = data
    mask = reference.nearest_labels(reference.signs(Y), n_privileged)
    model = PrBRClassifier(n_privileged=n_privileged, tol=1e-8, random_state=0).fit(X, Y)
    assert_optimal(model, X, Y, mask=mask)
    others = ~np.eye(4, dtype=bool)
    assert_array_equal(model.privileged_coef_[others & ~mask], 0.0)
    assert (np.abs(model.privileged_coef_[others & mask]) > 1e-6).any() == (n_privileged > 0)
    everything = PrBRClassifier(tol=1e-8, random_state=0).fit(X, Y)
    if n_privileged == 3:
        assert_allclose(model.coef_, everything.coef_, atol=1e-6)
    else:  # fewer features to explain the slacks with
        assert model.objective_ > everything.objective_ * (1.0 + 1e-4)


def test_rows_without_weight_have_no_part_in_nearness(data):
    X, Y = data
    Y = Y.copy()
    Y[10:40, 1], Y[10:40, 2], Y[10:40, 3] = Y[10:40, 0], 1 - Y[10:40, 0], 1 - Y[10:40, 0]
    kept = np.ones(50)
    kept[10:40] = 0.0
    options = {"n_privileged": 1, "tol": 1e-8, "random_state": 0}
    weighted = PrBRClassifier(**options).fit(X, Y, sample_weight=kept)
    removed = PrBRClassifier(**options).fit(X[kept > 0], Y[kept > 0])
    assert_array_equal(weighted.privileged_coef_ == 0.0, removed.privileged_coef_ == 0.0)
    assert_allclose(weighted.coef_, removed.coef_, atol=1e-4)
    assert_allclose(weighted.objective_, removed.objective_, rtol=1e-7)


def test_default_tolerance_is_a_certificate(data):
    X, Y = data
    model = PrBRClassifier(random_state=0).fit(X, Y)
    exact = PrBRClassifier(random_state=0, tol=1e-10).fit(X, Y)
    assert model.duality_gap_ <= 1e-3 * model.objective_
    assert model.duality_gap_ == pytest.approx(model.objective_ - model.dual_objective_)
    assert model.dual_objective_ <= exact.objective_ <= model.objective_ * (1.0 + 1e-12)
    assert_allclose(model.objective_, exact.objective_, rtol=1e-3)


def test_history_closes_in_on_the_optimum(data):
    model = PrBRClassifier(random_state=0, tol=1e-10).fit(*data)
    primal, dual = ([getattr(point, name) for point in model.history_] for name in ("primal", "dual"))
    assert len(primal) > 2
    assert_array_equal(np.diff(primal) <= 0.0, True)
    assert_array_equal(np.diff(dual) >= 0.0, True)
    assert (model.objective_, model.dual_objective_) == (primal[-1], dual[-1])
    assert model.n_iter_ == model.history_[-1].n_iter


def test_equal_label_sets_have_the_slack_of_the_worst_of_them(data):
    """What PrBR is: slack is a function of the label set, and costs as much as its worst row needs."""
    X, Y = data
    model = PrBRClassifier(tol=1e-9, n_privileged=0, random_state=0).fit(X, Y)
    hinge = np.maximum(0.0, 1.0 - reference.signs(Y) * model.decision_function(X))
    assert_allclose(np.diag(model.privileged_coef_), hinge.max(axis=0), atol=1e-4)


# ---- the literal form


def overlapping():
    """Labels 0 and 1 change at equal x, and no weights of other labels keep slacks from being negative."""
    return np.array([[0.0], [0.0], [5.0], [5.0]]), np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1]])


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_infeasible_labels_are_named_with_the_cure(form):
    X, Y = overlapping()
    model = PrBRClassifier(privileged_intercept=False)
    with pytest.raises(ValueError, match=r"2 of 3 labels \(0, 1\).*privileged_intercept=True"):
        model.fit(form(X), Y)
    assert vars(model) == vars(PrBRClassifier(privileged_intercept=False))
    best = reference.prbr_optimum(with_constant(X), reference.signs(Y), 1.0, 1.0, privileged_intercept=False)
    assert best.infeasible == (0, 1)
    PrBRClassifier().fit(form(X), Y)


def test_one_label_has_nothing_to_explain_its_slacks_with(data):
    X, Y = np.vstack([data[0], data[0][:1]]), np.vstack([data[1], 1 - data[1][:1]])  # a row with both signs
    with pytest.raises(ValueError, match=r"1 of 1 labels \(0\).*privileged_intercept=True"):
        PrBRClassifier(privileged_intercept=False).fit(X, Y[:, :1])


def test_infeasible_emotions(data_home):
    from comargin.data import load

    if not (data_home / "emotions").is_dir():
        pytest.skip("emotions is not in COMARGIN_DATA")
    train = load("emotions", split="train")
    Y = train.Y.toarray() if sp.issparse(train.Y) else train.Y
    with pytest.raises(ValueError, match=r"labels \(0[,)].*privileged_intercept=True"):
        PrBRClassifier(privileged_intercept=False).fit(train.X, Y)


@pytest.mark.compiled
@pytest.mark.parametrize("case", ["separable", "constant label"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_feasible_literal_form_is_solved(data, case, form):
    X, Y = data
    if case == "separable":
        Y = (X[:, :3] > 0.0).astype(int)
    else:  # a label that is always on is the constant feature of all others
        Y = Y.copy()
        Y[:, 3] = 1
    model = PrBRClassifier(privileged_intercept=False, tol=1e-8, random_state=0).fit(form(X), Y)
    assert_optimal(model, X, Y)
    assert_array_equal(np.diag(model.privileged_coef_), 0.0)


# ---- special data


@pytest.mark.compiled
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_labels_that_never_change(data, fit_intercept):
    X, Y = data
    Y = Y.copy()
    Y[:, 1], Y[:, 2] = 0, 1
    model = PrBRClassifier(fit_intercept=fit_intercept, tol=1e-8, random_state=0).fit(X, Y)
    assert_optimal(model, X, Y)
    if fit_intercept:
        assert not model.predict(X)[:, 1].any()
        assert model.predict(X)[:, 2].all()


@pytest.mark.parametrize("value", [0, 1])
def test_all_labels_of_all_rows_alike(data, value):
    X, Y = data
    model = PrBRClassifier(random_state=0, tol=1e-8).fit(X, np.full_like(Y, value))
    assert_array_equal(model.predict(X), value)
    assert_optimal(model, X, np.full_like(Y, value))


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
@pytest.mark.compiled
@pytest.mark.parametrize(
    ("rows", "features", "labels"),
    [(slice(1), slice(None), slice(None)), (slice(None), slice(1), slice(None)), (slice(None), slice(None), slice(1))],
    ids=["row", "feature", "label"],
)
def test_one_row_or_feature_or_label(data, rows, features, labels):
    X, Y = data[0][rows, features], data[1][rows, labels]
    model = PrBRClassifier(tol=1e-8, random_state=0).fit(X, Y)
    assert model.privileged_coef_.shape == (Y.shape[1], Y.shape[1])
    assert_optimal(model, X, Y)


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
def test_features_that_say_nothing(data):
    """Without features every slack is 1, which the constant explains: P = L (n C + gamma2 / 2)."""
    X, Y = data
    model = PrBRClassifier(fit_intercept=False, n_privileged=0, gamma2=3.0, tol=1e-9).fit(np.zeros_like(X), Y)
    assert_array_equal(model.coef_, 0.0)
    assert_allclose(model.privileged_coef_, np.eye(4), atol=1e-6)
    assert_allclose(model.objective_, 4 * (50 + 1.5), rtol=1e-8)


def test_one_dimensional_targets(data):
    X, Y = data
    binary = PrBRClassifier(random_state=0).fit(X, np.where(Y[:, 0] == 1, "yes", "no"))
    column = PrBRClassifier(random_state=0).fit(X, Y[:, [0]])
    assert_allclose(binary.coef_, column.coef_)
    assert binary.decision_function(X).shape == (50,)
    assert_array_equal(binary.predict(X) == "yes", column.predict(X)[:, 0] == 1)
    classes = Y[:, 0] + Y[:, 1]
    several = PrBRClassifier(random_state=0).fit(X, classes)
    assert several.coef_.shape == (3, 5)
    assert_array_equal(several.predict(X), np.argmax(several.decision_function(X), axis=1))
    assert_allclose(several.coef_, PrBRClassifier(random_state=0).fit(X, np.eye(3, dtype=int)[classes]).coef_)


# ---- parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "C"),
        ({"C": np.nan}, "C"),
        ({"gamma2": 0.0}, "gamma2"),
        ({"gamma2": -1.0}, "gamma2"),
        ({"n_privileged": -1}, "n_privileged"),
        ({"n_privileged": 1.5}, "n_privileged"),
        ({"n_privileged": 4}, "n_privileged must be at most 3, the number of other labels, or None for all"),
        ({"privileged_intercept": "no"}, "privileged_intercept"),
        ({"fit_intercept": "no"}, "fit_intercept"),
        ({"class_weight": "equal"}, "class_weight"),
        ({"class_weight": [{}]}, "class_weight has 1 dicts, but y has 4 labels"),
        ({"class_weight": {1: -1.0}}, "class_weight"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"callback": 3}, "callback"),
    ],
)
def test_bad_parameters_are_named_and_nothing_remains(data, options, message):
    model = PrBRClassifier(**options)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert vars(model) == before


def test_weights_of_zero_everywhere_are_refused(data):
    with pytest.raises(ValueError, match="sample_weight"):
        PrBRClassifier().fit(*data, sample_weight=np.zeros(50))


# ---- while it runs


def test_one_update_is_not_enough_and_says_so(data):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1\).*gap .* > tolerance") as caught:
        model = PrBRClassifier(tol=1e-10, max_iter=1, random_state=0).fit(*data)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.n_iter_ == 1
    # What it has is feasible all the same.
    S, T = reference.signs(data[1]), model.privileged_coef_.T
    assert reference.violation(model.decision_function(data[0]), S, T) <= 1e-9


def test_interrupted_fit_leaves_nothing_behind(data):
    def interrupt(point):
        if point.n_iter > 0:
            raise KeyboardInterrupt

    X, Y = data
    copies = X.copy(), Y.copy()
    model = PrBRClassifier(tol=1e-12, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert vars(model) == vars(PrBRClassifier(tol=1e-12, callback=interrupt))
    assert_array_equal(X, copies[0])
    assert_array_equal(Y, copies[1])
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_callback_sees_every_checkpoint_and_may_stop(data):
    seen = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrBRClassifier(tol=0.0, random_state=0, callback=lambda p: seen.append(p) or len(seen) == 2).fit(*data)
    assert model.history_ == seen
    assert len(seen) == 2


def test_warm_start_continues(data):
    X, Y = data
    model = PrBRClassifier(warm_start=True, tol=1e-7, random_state=0).fit(X, Y)
    first = model.n_iter_
    assert model.fit(X, Y).n_iter_ < first
    assert model.history_[0].gap < 1e-2 * model.objective_
    for change in ({"C": 1.1}, {"gamma2": 2.0}, {"n_privileged": 2}, {"class_weight": {1: 2.0}}):
        model.set_params(**change).fit(X, Y)
        cold = PrBRClassifier(**model.get_params()).fit(X, Y)
        assert_allclose(model.objective_, cold.objective_, rtol=3e-7)
    with pytest.raises(ValueError, match="same rows"):
        model.fit(X[:40], Y[:40])
    # The start is dual: other features are welcome.
    assert_allclose(
        model.fit(X[:, :3], Y).objective_, PrBRClassifier(**model.get_params()).fit(X[:, :3], Y).objective_, rtol=3e-7
    )


@pytest.mark.usefixtures("threaded_blas")
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_same_result_every_time_and_for_any_n_jobs(data, form):
    X, Y = form(data[0]), data[1]
    expected = PrBRClassifier(random_state=0).fit(X, Y)
    for n_jobs in (1, 2, 3, -1):
        model = PrBRClassifier(random_state=0, n_jobs=n_jobs).fit(X, Y)
        assert_array_equal(model.coef_, expected.coef_)
        assert_array_equal(model.privileged_coef_, expected.privileged_coef_)
        assert [p.primal for p in model.history_] == [p.primal for p in expected.history_]


def test_order_of_labels_is_of_no_importance(data):
    X, Y = data
    order = [2, 0, 3, 1]
    plain = PrBRClassifier(tol=1e-9, random_state=0).fit(X, Y)
    moved = PrBRClassifier(tol=1e-9, random_state=0).fit(X, Y[:, order])
    assert_allclose(moved.coef_, plain.coef_[order], atol=1e-4)
    assert_allclose(moved.privileged_coef_, plain.privileged_coef_[np.ix_(order, order)], atol=1e-4)
