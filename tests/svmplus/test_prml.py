"""PrMLClassifier: what is its own beside the contract of all learners and PrBRClassifier."""

import math
import time
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from tests.svmplus import reference_prml as reference
from threadpoolctl import threadpool_limits

from comargin import PrMLClassifier
from comargin.core import loop as _loop
from comargin.data import load
from comargin.svmplus import _alternation as _prml_alternation


@pytest.fixture
def data(rng):
    """50 rows, 5 features, 4 labels with noise; a row without labels."""
    X = rng.normal(size=(50, 5))
    Y = (X[:, :4] + 0.7 * X[:, 1:] + 0.2 * rng.normal(size=(50, 4)) > 0.0).astype(int)
    Y[0] = 0
    return X, Y


def with_constant(X):
    return np.column_stack([X, np.ones(len(X))])


def assert_consistent(model, X, Y, cost=None, mask=None):
    """The fitted parts belong together: one feasible point of (5), with the objective and bounds that are reported."""
    S = reference.signs(Y)
    C = model.C * (1.0 if cost is None else cost)
    form = (mask, model.privileged_intercept)
    assert_allclose(model.codes_.T @ model.dictionary_, model.coef_, rtol=1e-10, atol=1e-13)
    assert_allclose(model.codes_.T @ model.dictionary_intercept_, model.intercept_, rtol=1e-10, atol=1e-13)
    D = np.column_stack([model.dictionary_, model.dictionary_intercept_])
    T = model.privileged_coef_.T
    value = reference.prml_objective(D, model.codes_, T, S, C, model.gamma1, model.gamma2, *form)
    assert_allclose(model.objective_, value, rtol=1e-9)
    scores = X @ model.coef_.T + model.intercept_
    assert_allclose(model.decision_function(X), scores, atol=1e-12)
    assert reference.violation(scores, S, T, C, *form) <= 1e-9
    primal = np.array([point.primal for point in model.history_])
    assert_array_equal(np.diff(primal) <= 1e-12 * primal[:-1], True)
    assert model.objective_ == primal[-1]
    assert model.n_iter_ == len(primal)
    assert model.lower_bound_ <= model.objective_ * (1.0 + 1e-12)
    assert model.dual_objective_ <= model.objective_ * (1.0 + 1e-12)


# ---- what goes wrong


def overlapping(seed):
    """50 rows, 5 features, 4 labels, of which some can be learned."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(50, 5))
    return X, (X[:, :4] + 0.7 * X[:, 1:] + 0.2 * rng.normal(size=(50, 4)) > 0.0).astype(int)


def test_rank_one_learns_a_label_that_can_be_learned():
    X, Y = overlapping(3)
    nothing = 4 * (50 + 0.5)  # slacks of 1
    best_of_four = PrMLClassifier(rank=1, n_init=4, random_state=0).fit(X, Y)
    assert best_of_four.objective_ < 0.81 * nothing
    assert PrMLClassifier(rank=1, random_state=0).fit(X, Y).objective_ < 0.81 * nothing


@pytest.mark.compiled
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("rank", [1, 2])
def test_low_rank_is_no_worse_than_its_best_labels_alone(seed, rank):
    """Labels that share nothing: predictors for as many of them as the rank allows, and slacks of 1 for the others."""
    X, Y = overlapping(seed)
    S, H = reference.signs(Y), with_constant(X)
    saved = []
    for label in range(4):
        one, _ = reference.nuclear_optimum(H, S[:, [label]], 1.0, 1.0, 1.0)
        saved.append(50.5 - one)  # without the help of other labels' signs
    alone = 4 * 50.5 - sum(sorted(saved)[-rank:])
    model = PrMLClassifier(rank=rank, random_state=0).fit(X, Y)
    assert model.objective_ <= alone * (1.0 + 1e-3)
    assert_consistent(model, X, Y)


@pytest.mark.parametrize(
    ("options", "scale"), [({"gamma1": 1e8}, 1.0), ({"C": 1e-7}, 1.0), ({"fit_intercept": False}, 0.0)], ids=str
)
def test_nothing_learned_is_said(data, options, scale):
    X, Y = data
    message = r"PrMLClassifier: all predictors are zero.*Increase C, decrease gamma1, or change gamma2"
    with pytest.warns(UserWarning, match=message) as caught:
        model = PrMLClassifier(**options, random_state=0).fit(scale * X, Y)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert_allclose(model.decision_function(scale * X), 0.0, atol=1e-6)


def test_labels_that_never_change_are_learned_by_the_constant(data):
    """Weights of features are zero then, but not the predictors: no warning."""
    model = PrMLClassifier(random_state=0).fit(data[0], np.zeros_like(data[1]))
    assert_allclose(model.coef_, 0.0, atol=1e-9)
    assert (model.intercept_ < -0.5).all()


@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("options", [{}, {"C": 0.1, "gamma1": 0.3}, {"n_privileged": 1}], ids=str)
def test_warm_start_from_its_own_solution_is_no_worse(data, rank, options):
    X, Y = data
    model = PrMLClassifier(warm_start=True, tol=1e-4, rank=rank, random_state=0, **options).fit(X, Y)
    before = model.objective_
    for _ in range(3):
        model.fit(X, Y)
        assert model.history_[0].primal <= before
        assert model.n_iter_ <= 2
        before = model.objective_
    mask = None if "n_privileged" not in options else reference.nearest_labels(reference.signs(Y), 1)
    assert_consistent(model, X, Y, mask=mask)


def test_warm_start_with_other_parameters_begins_with_what_is_known(data):
    """D, W and T satisfy the constraints whatever C and the gammas are: no objective is above theirs."""
    X, Y = data
    model = PrMLClassifier(warm_start=True, random_state=0).fit(X, Y)
    for options in ({"C": 3.0}, {"gamma1": 0.2}, {"gamma2": 5.0}):
        D = np.column_stack([model.dictionary_, model.dictionary_intercept_])
        W, T = model.codes_, model.privileged_coef_.T
        model.set_params(**options)
        known = reference.prml_objective(D, W, T, reference.signs(Y), model.C, model.gamma1, model.gamma2)
        model.fit(X, Y)
        assert model.history_[0].primal <= known * (1.0 + 1e-12)
        assert_consistent(model, X, Y)


@pytest.mark.parametrize("change", ["X", "Y", "fewer privileged", "weights"])
def test_warm_start_from_a_point_that_is_not_feasible(data, rng, change):
    X, Y = data
    model = PrMLClassifier(warm_start=True, random_state=0)
    rows = np.where(np.arange(50) < 25, 0.0, 1.0)
    model.fit(X, Y, sample_weight=rows if change == "weights" else None)
    mask = None
    if change == "X":
        X = X + rng.normal(size=X.shape)
    elif change == "Y":
        Y = (rng.random(Y.shape) < 0.3).astype(int)
    elif change == "fewer privileged":
        model.set_params(n_privileged=1)
        mask = reference.nearest_labels(reference.signs(Y), 1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*all predictors are zero")
        assert_consistent(model.fit(X, Y), X, Y, mask=mask)


def test_warm_start_is_the_first_of_several_starts(data):
    X, Y = data
    model = PrMLClassifier(rank=2, warm_start=True, random_state=0).fit(X, Y)
    begun = []
    model.set_params(n_init=3, callback=lambda p: begun.append(p.primal) if p.n_iter == 1 else None).fit(X, Y)
    assert len(begun) == 3
    assert len(set(begun)) > 1


def test_fraction_that_is_a_whole_number(rng):
    X, Y = rng.normal(size=(30, 3)), (rng.random((30, 25)) < 0.3).astype(int)
    assert PrMLClassifier(rank=0.28, tol=0.1, random_state=0).fit(X, Y).dictionary_.shape == (7, 3)


# ---- the solution


@pytest.mark.compiled
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("C", "gamma1", "gamma2"), [(1.0, 1.0, 1.0), (0.3, 0.1, 0.3), (10.0, 3.0, 2.0)])
def test_parts_belong_together(data, form, fit_intercept, C, gamma1, gamma2):
    X, Y = data
    options = {"C": C, "gamma1": gamma1, "gamma2": gamma2, "fit_intercept": fit_intercept}
    model = PrMLClassifier(**options, tol=1e-4, random_state=0).fit(form(X), Y)
    assert_consistent(model, X, Y)
    assert np.linalg.norm(model.coef_) > 1e-3
    assert model.duality_gap_ <= 1e-4 * model.objective_
    assert model.dictionary_.shape == (4, 5)
    assert model.codes_.shape == (4, 4)
    assert_array_equal(model.predict(X), (model.decision_function(X) > 0.0).astype(int))
    if not fit_intercept:
        assert_array_equal(model.intercept_, 0.0)
        assert_array_equal(model.dictionary_intercept_, 0.0)


@pytest.mark.compiled
def test_each_step_is_at_its_optimum(data):
    """Neither (D, T) with W held nor (W, T) with D held can gain, as cvxpy sees it."""
    X, Y = data
    model = PrMLClassifier(gamma1=0.7, tol=1e-4, random_state=0).fit(X, Y)
    S, H = reference.signs(Y), with_constant(X)
    D = np.column_stack([model.dictionary_, model.dictionary_intercept_])
    d_step = reference.d_step_optimum(H, S, model.codes_, 1.0, 1.0).objective + 0.35 * np.sum(model.codes_**2)
    w_step = reference.w_step_optimum(H, S, D, 1.0, 0.7, 1.0).objective + 0.5 * np.sum(D**2)
    assert_allclose(model.objective_, d_step, rtol=1e-4)
    assert_allclose(model.objective_, w_step, rtol=1e-3)
    # A balanced pair: of all with the same Z it costs least, sqrt(gamma1) times the sum of Z's singular values.
    nuclear = math.sqrt(0.7) * np.linalg.norm(D.T @ model.codes_, "nuc")
    assert_allclose(0.5 * np.sum(D**2) + 0.35 * np.sum(model.codes_**2), nuclear, rtol=1e-2)


@pytest.mark.compiled
def test_bounded_by_the_global_optimum_of_any_rank(data):
    X, Y = data
    model = PrMLClassifier(rank=1.0, random_state=0).fit(X, Y)
    best, _ = reference.nuclear_optimum(with_constant(X), reference.signs(Y), 1.0, 1.0, 1.0)
    assert model.lower_bound_ <= best * (1.0 + 1e-5)
    assert model.objective_ >= best * (1.0 - 1e-5)
    assert model.lower_bound_ > 0.0
    # Of full rank the alternation mostly gets there; it need not, as (5) is not convex.
    assert model.objective_ <= 1.1 * best


@pytest.mark.compiled
@pytest.mark.parametrize("class_weight", [{1: 3.0}, [{1: 2.0}, {0: 2.0}, {}, {0: 0.5, 1: 5.0}], {1: 0.0}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_weights_of_classes_and_rows_are_costs(data, rng, class_weight, weighted):
    X, Y = data
    rows = rng.integers(0, 4, 50) / 2.0 if weighted else np.ones(50)
    by_label = class_weight if isinstance(class_weight, list) else [class_weight] * 4
    cost = np.array([[rows[j] * by_label[i].get(Y[j, i], 1.0) for i in range(4)] for j in range(50)])
    model = PrMLClassifier(C=0.5, class_weight=class_weight, random_state=0)
    assert_consistent(model.fit(X, Y, sample_weight=rows if weighted else None), X, Y, cost)


@pytest.mark.parametrize("n_privileged", [0, 1, 2, 3])
def test_only_the_nearest_labels_are_privileged(data, n_privileged):
    X, Y = data
    mask = reference.nearest_labels(reference.signs(Y), n_privileged)
    model = PrMLClassifier(n_privileged=n_privileged, random_state=0).fit(X, Y)
    assert_consistent(model, X, Y, mask=mask)
    others = ~np.eye(4, dtype=bool)
    assert_array_equal(model.privileged_coef_[others & ~mask], 0.0)
    assert (np.abs(model.privileged_coef_[others & mask]) > 1e-6).any() == (n_privileged > 0)


# ---- rank and starts


@pytest.mark.parametrize(
    ("rank", "rows"),
    [
        (1, 1),
        (2, 2),
        (9, 9),
        (np.int64(3), 3),
        (0.5, 2),
        (0.51, 3),
        (0.9, 4),
        (0.01, 1),
        (1.0, 4),
        (np.float32(0.5), 2),
    ],
)
def test_rank_is_a_number_or_a_fraction_of_the_labels(data, rank, rows):
    X, Y = data
    model = PrMLClassifier(rank=rank, random_state=0).fit(X, Y)
    assert model.dictionary_.shape == (rows, 5)
    assert model.dictionary_intercept_.shape == (rows,)
    assert model.codes_.shape == (rows, 4)
    assert np.linalg.matrix_rank(model.coef_, tol=1e-8) <= rows
    assert_consistent(model, X, Y)


def test_more_rank_than_labels_is_of_no_use(data):
    X, Y = data
    full, more = (PrMLClassifier(rank=rank, random_state=0).fit(X, Y) for rank in (4, 9))
    assert_allclose(more.objective_, full.objective_, rtol=0.02)


def test_n_init_keeps_the_best(data):
    X, Y = data
    one = PrMLClassifier(rank=2, random_state=3).fit(X, Y)
    several = PrMLClassifier(rank=2, n_init=5, random_state=3).fit(X, Y)
    assert several.objective_ <= one.objective_
    assert_consistent(several, X, Y)
    finals = []

    def last_of_each_start(point):
        if point.n_iter == 1:
            finals.append(point.primal)
        finals[-1] = point.primal

    watched = PrMLClassifier(rank=2, n_init=5, random_state=3, callback=last_of_each_start).fit(X, Y)
    assert len(finals) == 5
    assert len(set(finals)) > 1  # the starts differ
    assert watched.objective_ == min(finals) == several.objective_


@pytest.mark.usefixtures("threaded_blas")
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_same_result_every_time_and_for_any_n_jobs(data, form):
    X, Y = form(data[0]), data[1]
    options = {"rank": 3, "tol": 0.01, "n_init": 2, "random_state": 1}
    expected = PrMLClassifier(**options).fit(X, Y)
    for n_jobs in (1, 2):
        model = PrMLClassifier(**options, n_jobs=n_jobs).fit(X, Y)
        assert_array_equal(model.coef_, expected.coef_)
        assert_array_equal(model.dictionary_, expected.dictionary_)
        assert_array_equal(model.privileged_coef_, expected.privileged_coef_)
        assert [p.primal for p in model.history_] == [p.primal for p in expected.history_]
    other = PrMLClassifier(**(options | {"random_state": 2})).fit(X, Y)
    assert not np.array_equal(other.coef_, expected.coef_)


# ---- the literal form


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_infeasible_labels_are_named_with_the_cure(form):
    X, Y = np.array([[0.0], [0.0], [5.0], [5.0]]), np.array([[1, 0, 0], [0, 1, 0], [1, 0, 1], [0, 1, 1]])
    model = PrMLClassifier(privileged_intercept=False)
    with pytest.raises(ValueError, match=r"2 of 3 labels \(0, 1\).*privileged_intercept=True"):
        model.fit(form(X), Y)
    assert vars(model) == vars(PrMLClassifier(privileged_intercept=False))
    PrMLClassifier().fit(form(X), Y)


def test_infeasible_emotions(data_home):
    from comargin.data import load

    if not (data_home / "emotions").is_dir():
        pytest.skip("emotions is not in COMARGIN_DATA")
    train = load("emotions", split="train")
    Y = train.Y.toarray() if sp.issparse(train.Y) else train.Y
    with pytest.raises(ValueError, match=r"labels \(0[,)].*privileged_intercept=True"):
        PrMLClassifier(privileged_intercept=False).fit(train.X, Y)


@pytest.mark.compiled
@pytest.mark.parametrize("case", ["separable", "constant label"])
def test_feasible_literal_form_is_solved(data, case):
    X, Y = data
    if case == "separable":
        Y = (X[:, :3] > 0.0).astype(int)
    else:  # a label that is always on is the constant feature of all others
        Y = Y.copy()
        Y[:, 3] = 1
    model = PrMLClassifier(rank=1.0, privileged_intercept=False, random_state=0).fit(X, Y)
    assert_consistent(model, X, Y)
    assert_array_equal(np.diag(model.privileged_coef_), 0.0)
    assert np.linalg.norm(model.coef_) > 1e-2


@pytest.mark.compiled
def test_literal_form_of_low_rank(data):
    """A label without slack gets its predictor, also when singular vectors do not have it; two are too many for 1."""
    X, Y = data
    constant = np.column_stack([Y, np.ones(50, dtype=int)])  # it has no slack itself, but gives some to all others
    model = PrMLClassifier(rank=1, privileged_intercept=False, random_state=0).fit(X, constant)
    assert_consistent(model, X, constant)
    assert model.predict(X)[:, 4].all()
    separable = (X[:, :3] > 0.0).astype(int)
    with pytest.raises(
        ValueError, match=r"rank 1 .* 3 of 3 labels \(0, 1, 2\).*privileged_intercept=True.*larger rank"
    ):
        PrMLClassifier(rank=1, privileged_intercept=False, random_state=0).fit(X, separable)


def test_literal_form_with_tiny_features(data):
    """Whether a label is feasible does not depend on the unit of the features."""
    X, Y = data[0], (data[0][:, :3] > 0.0).astype(int)
    model = PrMLClassifier(rank=1.0, privileged_intercept=False, fit_intercept=False, random_state=0)
    assert_consistent(model.fit(1e-4 * X, Y), 1e-4 * X, Y)


# ---- special data


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_labels_that_never_change(data, fit_intercept):
    X, Y = data
    Y = Y.copy()
    Y[:, 1], Y[:, 2] = 0, 1
    model = PrMLClassifier(fit_intercept=fit_intercept, random_state=0).fit(X, Y)
    assert_consistent(model, X, Y)
    if fit_intercept:
        assert not model.predict(X)[:, 1].any()
        assert model.predict(X)[:, 2].all()


@pytest.mark.parametrize("value", [0, 1])
@pytest.mark.parametrize("C", [1e-4, 1.0, 100.0])
def test_all_labels_of_all_rows_alike(data, value, C):
    X, Y = data
    Y = np.full_like(Y, value)
    model = PrMLClassifier(C=C, random_state=0).fit(X, Y)
    assert_consistent(model, X, Y)
    if C >= 1.0:
        assert_array_equal(model.predict(X), Y)


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
@pytest.mark.parametrize(
    ("rows", "features", "labels"),
    [(slice(1), slice(None), slice(None)), (slice(None), slice(1), slice(None)), (slice(None), slice(None), slice(1))],
    ids=["row", "feature", "label"],
)
def test_one_row_or_feature_or_label(data, rows, features, labels):
    X, Y = data[0][rows, features], data[1][rows, labels]
    assert_consistent(PrMLClassifier(random_state=0).fit(X, Y), X, Y)


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
def test_features_that_say_nothing(data):
    X, Y = data
    model = PrMLClassifier(fit_intercept=False, n_privileged=0, gamma2=3.0).fit(np.zeros_like(X), Y)
    assert_array_equal(model.coef_, 0.0)
    assert_allclose(model.objective_, 4 * (50 + 1.5), rtol=1e-3)
    assert_consistent(model, np.zeros_like(X), Y, mask=np.zeros((4, 4), dtype=bool))


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
def test_nothing_worth_learning_is_zero(data):
    """gamma1 so large that every predictor costs more than it saves: slacks of 1, and the bound is tight."""
    X, Y = data
    model = PrMLClassifier(gamma1=1e8, n_privileged=0, tol=1e-6, random_state=0).fit(X, Y)
    assert_allclose(model.coef_, 0.0, atol=1e-6)
    assert_allclose(model.objective_, 4 * (50 + 0.5), rtol=1e-5)
    assert_consistent(model, X, Y, mask=np.zeros((4, 4), dtype=bool))


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
def test_one_dimensional_targets(data):
    X, Y = data
    binary = PrMLClassifier(random_state=0).fit(X, np.where(Y[:, 0] == 1, "yes", "no"))
    column = PrMLClassifier(random_state=0).fit(X, Y[:, [0]])
    assert_allclose(binary.coef_, column.coef_)
    assert binary.decision_function(X).shape == (50,)
    assert_array_equal(binary.predict(X) == "yes", column.predict(X)[:, 0] == 1)
    classes = Y[:, 0] + Y[:, 1]
    several = PrMLClassifier(random_state=0).fit(X, classes)
    assert several.coef_.shape == (3, 5)
    assert several.dictionary_.shape == (3, 5)
    assert_array_equal(several.predict(X), np.argmax(several.decision_function(X), axis=1))


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
@pytest.mark.parametrize("scale", [1e-4, 1e4])
def test_scaled_features(data, scale):
    X, Y = scale * data[0], data[1]
    assert_consistent(PrMLClassifier(random_state=0).fit(X, Y), X, Y)


# ---- parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"C": 0.0}, "C"),
        ({"gamma1": 0.0}, "gamma1"),
        ({"gamma1": np.nan}, "gamma1"),
        ({"gamma2": -1.0}, "gamma2"),
        ({"rank": 0}, "rank"),
        ({"rank": 0.0}, "rank"),
        ({"rank": 1.5}, "rank"),
        ({"rank": -2}, "rank"),
        ({"rank": "half"}, "rank"),
        ({"n_init": 0}, "n_init"),
        ({"n_init": 2.0}, "n_init"),
        ({"n_privileged": 4}, "n_privileged must be at most 3, the number of other labels, or None for all"),
        ({"n_privileged": -1}, "n_privileged"),
        ({"privileged_intercept": "no"}, "privileged_intercept"),
        ({"class_weight": [{}]}, "class_weight has 1 dicts, but y has 4 labels"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"callback": 3}, "callback"),
    ],
)
def test_bad_parameters_are_named_and_nothing_remains(data, options, message):
    model = PrMLClassifier(**options)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert vars(model) == before


# ---- while it runs


def test_one_alternation_is_not_enough_and_says_so(data):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1\).*gap .* > tolerance") as caught:
        model = PrMLClassifier(tol=1e-9, max_iter=1, random_state=0).fit(*data)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.n_iter_ == 1
    assert_consistent(model, *data)


def test_no_change_at_full_precision_is_the_end(monkeypatch):
    """Without the floor that lets a gap of rounding count as met, below zero as it may be."""
    monkeypatch.setattr(_loop, "ROUNDING", 0.0)
    monkeypatch.setattr(_prml_alternation, "tolerance", lambda tol, primal: -1e-12 * abs(primal))
    with pytest.warns(ConvergenceWarning, match=r"no step changes the objective any more\. Increase tol, or scale X"):
        model = PrMLClassifier(tol=0.0, random_state=0).fit(*overlapping(0))
    assert model.n_iter_ < 40
    assert abs(model.duality_gap_) <= 1e-10 * model.objective_


def test_seconds_are_those_of_the_whole_fit(data):
    """The start from PrBR counts."""
    begin = time.perf_counter()
    model = PrMLClassifier(n_init=2, random_state=0).fit(*data)
    elapsed = time.perf_counter() - begin
    seconds = [point.seconds for point in model.history_]
    assert seconds == sorted(seconds)
    assert 0.0 < seconds[-1] <= elapsed


def test_interrupted_fit_leaves_nothing_behind(data):
    def interrupt(point):
        if point.n_iter > 1:
            raise KeyboardInterrupt

    X, Y = data
    copies = X.copy(), Y.copy()
    model = PrMLClassifier(tol=1e-9, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert vars(model) == vars(PrMLClassifier(tol=1e-9, callback=interrupt))
    assert_array_equal(X, copies[0])
    assert_array_equal(Y, copies[1])
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("n_init", [1, 3])
def test_callback_sees_every_checkpoint_and_may_stop(data, n_init):
    seen = []
    options = {"n_init": n_init, "tol": 0.0, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PrMLClassifier(**options, callback=lambda p: seen.append(p) or len(seen) == 2).fit(*data)
    assert model.history_ == seen
    assert len(seen) == 2
    assert_consistent(model, *data)


@pytest.mark.compiled
def test_callback_may_stop_within_an_alternation(data, monkeypatch):
    """It is called every few seconds, whatever a step takes; here always."""
    monkeypatch.setattr(_prml_alternation, "POLICY", replace(_prml_alternation.POLICY, seconds=0.0))
    X, Y = data
    seen = []
    PrMLClassifier(rank=2, random_state=0, callback=seen.append).fit(X, Y)
    within = [k for k, point in enumerate(seen, 1) if point.n_iter == 1][1:]
    assert len(within) > 2
    for number in (within[0], within[-1]):
        calls = []
        model = PrMLClassifier(rank=2, random_state=0, warm_start=True)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.set_params(callback=lambda p, calls=calls, n=number: calls.append(p) or len(calls) == n).fit(X, Y)
        assert len(calls) == number
        assert model.n_iter_ == 1
        assert len(model.history_) == 2
        assert model.history_[1].primal <= model.history_[0].primal
        assert model.objective_ <= calls[-1].primal * (1.0 + 1e-12)
        D = np.column_stack([model.dictionary_, model.dictionary_intercept_])
        T = model.privileged_coef_.T
        S, C = reference.signs(Y), 1.0
        assert_allclose(reference.prml_objective(D, model.codes_, T, S, C, 1.0, 1.0), model.objective_, rtol=1e-9)
        assert reference.violation(model.decision_function(X), S, T, C) <= 1e-9
        stopped_at = model.objective_
        model.set_params(callback=None).fit(X, Y)
        assert model.objective_ <= stopped_at * (1.0 + 1e-12)
        assert [point.n_iter for point in model.history_[:3]] == [1, 1, 2]


def test_warm_start_continues_with_the_dictionary(data):
    X, Y = data
    model = PrMLClassifier(warm_start=True, random_state=0).fit(X, Y)
    model.set_params(C=1.2).fit(X, Y)
    assert_consistent(model, X, Y)
    cold = PrMLClassifier(C=1.2, random_state=0).fit(X, Y)
    assert model.objective_ <= 1.02 * cold.objective_  # each ends in a local optimum, this one may be better
    with pytest.raises(ValueError, match=r"same rank and features: .*\(4, 6\), now it would be \(4, 4\)"):
        model.fit(X[:, :3], Y)
    with pytest.raises(ValueError, match=r"same rank and features: .*\(4, 6\), now it would be \(2, 6\)"):
        model.set_params(rank=2).fit(X, Y)
    with pytest.raises(ValueError, match="same rows"):
        model.fit(X[:40], Y[:40])
    assert_array_equal(model.predict(X), (X @ model.coef_.T + model.intercept_ > 0.0).astype(int))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_threads_of_blas_change_nothing():
    """Rounding would decide between local optima; from about these many rows on, products are made in threads."""
    digits = load("digits")
    fitted = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads, user_api="blas"):
            fitted.append(PrMLClassifier(0.05, max_iter=2, random_state=0).fit(digits.X / 16.0, digits.Y))
    assert_array_equal(fitted[0].coef_, fitted[1].coef_)
    assert_array_equal(fitted[0].privileged_coef_, fitted[1].privileged_coef_)
