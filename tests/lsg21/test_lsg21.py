"""LSG21Classifier: what is its own beside the contract of all learners."""

import itertools
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LinearRegression
from tests.lsg21 import reference_lsg21 as reference

from comargin import LSG21Classifier
from comargin.graphs import LabelGraph, cosine_affinity


@pytest.fixture
def data(rng):
    """60 rows, 9 features, 4 labels that share some of the first three features."""
    X = rng.normal(size=(60, 9)) + 0.3
    Y = (X[:, [0, 0, 1, 2]] + X[:, [1, 2, 2, 0]] + 0.5 * rng.normal(size=(60, 4)) > 0.6).astype(int)
    return X, Y


# ---- what went wrong once


def test_a_label_is_on_where_its_value_reaches_one_half(data):
    X, Y = data
    Y[:30, 0], Y[30:, 0] = 1, 0
    model = LSG21Classifier(alpha=1e6).fit(X, Y)
    assert model.intercept_[0] == 0.5
    assert model.predict(X)[:, 0].all()


def test_one_warning_when_nothing_is_penalised_and_X_fits_exactly(data):
    X, Y = data
    with pytest.warns(UserWarning, match="least norm") as caught:
        LSG21Classifier(alpha=0.0).fit(X[:6], Y[:6])
    assert len(caught) == 1


def test_extreme_units_work_or_are_refused_by_name(data):
    X, Y = data
    scale = 1e120  # X up to 1e150 is accepted
    try:
        model = LSG21Classifier(alpha=scale).fit(scale * X, Y)
    except (ValueError, FloatingPointError):
        return
    assert_allclose(scale * model.coef_, LSG21Classifier().fit(X, Y).coef_, atol=1e-4)


# ---- the optimum


@pytest.mark.parametrize("self_edges", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("threshold", [0.1, 0.6])
def test_default_affinity_is_the_cosine_of_the_papers(data, self_edges, fit_intercept, threshold):
    X, Y = data
    options = {"self_edges": self_edges, "fit_intercept": fit_intercept}
    A = cosine_affinity(Y, threshold).to_array()
    assert (A > 0.0).sum() > 4  # some edges
    model = LSG21Classifier(alpha=2.0, edge_threshold=threshold, tol=1e-9, **options).fit(X, Y)
    best = reference.lsg21_optimum(X, Y, A, 2.0, **options)
    assert_allclose(model.objective_, best.objective, rtol=1e-8)
    assert_allclose(model.coef_, best.W.T, atol=1e-5)
    assert_allclose(model.intercept_, best.b, atol=1e-5)
    assert_array_equal(model.label_graph_.to_array(), A)
    assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_ - 0.5, atol=1e-14)
    assert_array_equal(model.predict(X), (X @ best.W + best.b >= 0.5).astype(int))
    assert (model.coef_ == 0.0).any() or not self_edges


def test_default_tolerance_is_a_certificate_of_one_in_a_million(data):
    X, Y = data
    model = LSG21Classifier(alpha=5.0).fit(X, Y)
    exact = LSG21Classifier(alpha=5.0, tol=1e-12).fit(X, Y)
    assert model.duality_gap_ <= 1e-6 * model.objective_
    assert_allclose(model.objective_, exact.objective_, rtol=1e-6)
    assert model.dual_objective_ <= exact.objective_ * (1.0 + 1e-12)


AFFINITIES = {
    "array": np.asarray,
    "list": lambda A: A.tolist(),
    "csr_array": sp.csr_array,
    "csr_matrix": sp.csr_matrix,
    "csc_array": sp.csc_array,
    "int": lambda A: A,
    "LabelGraph": LabelGraph,
    "named graph": lambda A: LabelGraph(A, ["a", "b", "c", "d"]),
}


@pytest.mark.parametrize("form", AFFINITIES)
def test_affinity_of_the_user(data, form):
    X, Y = data
    A = np.array([[1, 2, 0, 0], [2, 1, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
    given = AFFINITIES[form](A if form == "int" else A.astype(float))
    model = LSG21Classifier(alpha=2.0, affinity=given, tol=1e-10).fit(X, Y)
    best = reference.lsg21_optimum(X, Y, A, 2.0)
    assert_allclose(model.objective_, best.objective, rtol=1e-8)
    assert isinstance(model.label_graph_, LabelGraph)
    assert_array_equal(model.label_graph_.to_array(), A)
    assert list(model.shared_features_) == [(0, 1), (1, 2)]
    if form == "named graph":
        assert model.label_graph_.label_names == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("affinity", "message"),
    [
        ("cosin", "affinity"),
        (np.triu(np.ones((4, 4))), "affinity must be a symmetric matrix"),
        (-np.eye(4), "affinity must not be negative"),
        (np.full((4, 4), -0.5), "affinity must not be negative"),
        (np.eye(3), r"affinity must be of shape \(4, 4\), got \(3, 3\)"),
        (LabelGraph(np.eye(5)), r"affinity must be of shape \(4, 4\)"),
        (np.ones((4, 3)), "affinity must be"),
        (np.ones(4), "affinity must be"),
        (np.full((4, 4), np.nan), "affinity must be"),
        (np.full((4, 4), np.inf), "affinity must be"),
        ([["a"] * 4] * 4, "affinity must be"),
        (None, "affinity"),
        (3.0, "affinity"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_bad_affinities_are_named_and_nothing_remains(data, affinity, message):
    model = LSG21Classifier(affinity=affinity)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert set(vars(model)) == set(vars(LSG21Classifier()))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": -1.0}, "alpha"),
        ({"alpha": np.nan}, "alpha"),
        ({"alpha": np.inf}, "alpha"),
        ({"alpha": "much"}, "alpha"),
        ({"edge_threshold": 1.5}, "edge_threshold"),
        ({"edge_threshold": -0.1}, "edge_threshold"),
        ({"self_edges": 2}, "self_edges"),
        ({"solver": "newton"}, "solver"),
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"fit_intercept": "yes"}, "fit_intercept"),
    ],
)
def test_bad_parameters_are_named(data, options, message):
    with pytest.raises(ValueError, match=message):
        LSG21Classifier(**options).fit(*data)


# ---- features that are used


@pytest.mark.parametrize("alpha", [0.0, 1.0, 4.0, 1e6])
def test_selected_and_shared_features_by_brute_force(data, alpha):
    X, Y = data
    model = LSG21Classifier(alpha=alpha, edge_threshold=0.3).fit(X, Y)
    for label in range(4):
        used = [f for f in range(9) if model.coef_[label, f] != 0.0]
        assert model.selected_features_[label].tolist() == used
    A = model.label_graph_.to_array()
    edges = [(i, j) for i, j in itertools.combinations(range(4), 2) if A[i, j] > 0.0]
    assert sorted(model.shared_features_) == edges
    for i, j in edges:
        both = [f for f in range(9) if model.coef_[i, f] != 0.0 and model.coef_[j, f] != 0.0]
        assert model.shared_features_[i, j].tolist() == both
    sparse = model.sparse_coef_
    assert isinstance(sparse, sp.csr_array)
    assert_array_equal(sparse.toarray(), model.coef_)
    assert sparse.nnz == np.count_nonzero(model.coef_)
    assert (sparse.nnz == 36) == (alpha == 0.0)
    assert (sparse.nnz == 0) == (alpha == 1e6)


def test_sparse_weights_of_an_unfitted_model():
    with pytest.raises((NotFittedError, AttributeError)):
        _ = LSG21Classifier().sparse_coef_


# ---- labels without a penalty


def test_isolated_label_without_self_edges_is_least_squares(data):
    X, Y = data
    A = np.zeros((4, 4))
    A[0, 1] = A[1, 0] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # 60 rows determine 9 weights
        model = LSG21Classifier(alpha=3.0, affinity=A, self_edges=False).fit(X, Y)
    expected = LinearRegression().fit(X, Y[:, 2:])
    assert_allclose(model.coef_[2:], expected.coef_, rtol=1e-8)
    assert_allclose(model.intercept_[2:], expected.intercept_, rtol=1e-8)
    assert (model.coef_[:2] == 0.0).any()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("solver", ["auto", "irls"])
def test_isolated_label_with_few_rows_is_of_least_norm_with_a_warning(data, form, solver):
    X, Y = data[0][:7], data[1][:7].copy()
    Y[0], Y[1] = 0, 1
    A = np.zeros((4, 4))
    A[0, 1] = A[1, 0] = 1.0
    with pytest.warns(UserWarning, match=r"labels 2, 3 have no edges.*least norm.*self_edges=True") as caught:
        model = LSG21Classifier(alpha=0.3, affinity=A, self_edges=False, solver=solver, tol=1e-4).fit(form(X), Y)
    assert [warning.filename for warning in caught] == [__file__]
    centred = X - X.mean(axis=0)
    expected = np.linalg.pinv(centred) @ (Y[:, 2:] - Y[:, 2:].mean(axis=0))
    assert_allclose(model.coef_[2:], expected.T, atol=1e-8)
    assert_allclose(model.decision_function(X)[:, 2:] + 0.5, Y[:, 2:], atol=1e-8)


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_doubled_features_without_a_penalty_are_told_of(data, form):
    X, Y = data
    doubled = np.column_stack([X, X[:, :2]])
    with pytest.warns(UserWarning, match=r"labels 0, 1, 2, 3 with alpha=0 are not penalised.*Use a positive alpha"):
        model = LSG21Classifier(alpha=0.0).fit(form(doubled), Y)
    assert_allclose(model.coef_[:, :2], model.coef_[:, -2:], atol=1e-8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LSG21Classifier(alpha=0.0).fit(form(X), Y)


def test_no_warning_for_isolated_labels_that_never_change(data):
    X, Y = data[0][:7], data[1][:7].copy()
    Y[:, 2], Y[:, 3] = 0, 1
    A = np.zeros((4, 4))
    A[0, 1] = A[1, 0] = 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = LSG21Classifier(alpha=3.0, affinity=A, self_edges=False).fit(X, Y)
    assert_array_equal(model.coef_[2:], 0.0)
    assert_array_equal(model.predict(X)[:, 2:], Y[:, 2:])


def test_without_alpha_it_is_linear_regression(data):
    X, Y = data
    model, expected = LSG21Classifier(alpha=0.0).fit(X, Y), LinearRegression().fit(X, Y)
    assert_allclose(model.coef_, expected.coef_, rtol=1e-8)
    assert_allclose(model.intercept_, expected.intercept_, rtol=1e-8)
    residual = Y - expected.predict(X)
    assert_allclose(model.objective_, np.sum(residual**2), rtol=1e-12)
    assert model.duality_gap_ <= 1e-12 * model.objective_


# ---- rows, forms, units


@pytest.mark.parametrize("affinity", ["cosine", "given"])
def test_weights_are_repetitions_and_zero_is_removal(data, affinity, rng):
    X, Y = data
    affinity = affinity if affinity == "cosine" else np.ones((4, 4))
    times = rng.integers(0, 4, 60)
    options = {"alpha": 4.0, "affinity": affinity, "tol": 1e-11}
    weighted = LSG21Classifier(**options).fit(X, Y, sample_weight=times)
    repeated = LSG21Classifier(**options).fit(np.repeat(X, times, axis=0), np.repeat(Y, times, axis=0))
    assert_allclose(weighted.coef_, repeated.coef_, atol=1e-6)
    assert_allclose(weighted.intercept_, repeated.intercept_, atol=1e-6)
    assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-10)
    assert_allclose(weighted.label_graph_.to_array(), repeated.label_graph_.to_array(), atol=1e-12)


def test_weights_of_zero_everywhere_are_refused(data):
    with pytest.raises(ValueError, match="sample_weight"):
        LSG21Classifier().fit(*data, sample_weight=np.zeros(60))


@pytest.mark.parametrize("targets", [0, 1])
@pytest.mark.parametrize("solver", ["auto", "irls"])
@pytest.mark.parametrize("self_edges", [True, False])
def test_labels_that_never_change(data, targets, solver, self_edges):
    X, Y = data
    model = LSG21Classifier(solver=solver, self_edges=self_edges).fit(X, np.full_like(Y, targets))
    assert_allclose(model.coef_, 0.0, atol=1e-12)
    assert_array_equal(model.predict(X), np.full_like(Y, targets))
    assert model.objective_ == pytest.approx(0.0, abs=1e-20)


def test_single_precision_and_named_features(data):
    pd = pytest.importorskip("pandas")
    X, Y = data
    X = X.astype(np.float32)
    expected = LSG21Classifier(tol=1e-10).fit(X.astype(float), Y)
    single = LSG21Classifier(tol=1e-10).fit(X, Y)
    assert_allclose(single.coef_, expected.coef_, atol=1e-6)
    assert single.coef_.dtype == np.float64
    names = [f"f{k}" for k in range(9)]
    named = LSG21Classifier(tol=1e-10).fit(pd.DataFrame(X, columns=names), Y)
    assert named.feature_names_in_.tolist() == names
    assert_allclose(named.coef_, expected.coef_, atol=1e-6)
    with pytest.raises(ValueError, match="feature names"):
        named.predict(pd.DataFrame(X, columns=names[::-1]))


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_units_of_X_are_units_of_alpha(data, scale):
    X, Y = data
    plain = LSG21Classifier(alpha=3.0, tol=1e-9).fit(X, Y)
    scaled = LSG21Classifier(alpha=scale * 3.0, tol=1e-9).fit(scale * X, Y)
    assert_allclose(scale * scaled.coef_, plain.coef_, atol=1e-6)
    assert_array_equal(scaled.predict(scale * X), plain.predict(X))


def test_badly_scaled_features_end_with_a_certificate(data):
    X, Y = data
    model = LSG21Classifier(alpha=1e-3).fit(X * 10.0 ** np.linspace(-6.0, 6.0, 9), Y)
    assert model.duality_gap_ <= 1e-6 * model.objective_


def test_one_dimensional_targets(data):
    X, Y = data
    binary = LSG21Classifier().fit(X, np.where(Y[:, 0] == 1, "yes", "no"))
    column = LSG21Classifier().fit(X, Y[:, [0]])
    assert_allclose(binary.coef_, column.coef_)
    assert_array_equal(binary.predict(X) == "yes", column.predict(X)[:, 0] == 1)
    classes = Y[:, 0] + Y[:, 1]
    several = LSG21Classifier().fit(X, classes)
    assert several.coef_.shape == (3, 9)
    assert_array_equal(several.predict(X), np.argmax(several.decision_function(X), axis=1))
    # Classes never come together: the cosine has no edges, and every class is a lasso of its own.
    assert several.shared_features_ == {}


def test_one_row_and_one_feature(data):
    X, Y = data
    one = LSG21Classifier().fit(X[:1], Y[:1])
    assert_array_equal(one.predict(X), np.tile(Y[:1], (60, 1)))
    assert LSG21Classifier().fit(X[:, :1], Y).coef_.shape == (4, 1)


# ---- while it runs


def test_irls_is_the_same_model(data):
    X, Y = data
    exact = LSG21Classifier(alpha=5.0, tol=1e-9).fit(X, Y)
    irls = LSG21Classifier(alpha=5.0, solver="irls", tol=1e-4, max_iter=5000).fit(X, Y)
    assert_allclose(irls.objective_, exact.objective_, rtol=1e-4)
    assert irls.objective_ >= exact.objective_ * (1.0 - 1e-9)
    assert_allclose(irls.decision_function(X), exact.decision_function(X), atol=0.02)
    assert irls.n_iter_ > exact.n_iter_


@pytest.mark.parametrize("solver", ["auto", "irls"])
def test_one_step_is_not_enough_and_says_so(data, solver):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=1\).*gap .* > tolerance") as caught:
        model = LSG21Classifier(alpha=0.1, tol=1e-10, max_iter=1, solver=solver).fit(*data)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert model.n_iter_ == 1
    assert model.duality_gap_ > 0.0


@pytest.mark.parametrize("solver", ["auto", "irls"])
def test_interrupted_fit_leaves_nothing_behind(data, solver):
    def interrupt(point):
        if point.n_iter > 0:
            raise KeyboardInterrupt

    X, Y = data
    copies = X.copy(), Y.copy()
    model = LSG21Classifier(alpha=0.1, tol=1e-12, solver=solver, callback=interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y)
    assert vars(model) == vars(LSG21Classifier(alpha=0.1, tol=1e-12, solver=solver, callback=interrupt))
    assert_array_equal(X, copies[0])
    assert_array_equal(Y, copies[1])
    with pytest.raises(NotFittedError):
        model.predict(X)


@pytest.mark.parametrize("solver", ["auto", "irls"])
def test_callback_sees_every_checkpoint_and_may_stop(data, solver):
    seen = []
    stop = LSG21Classifier(alpha=0.1, tol=0.0, solver=solver, callback=lambda p: seen.append(p) or len(seen) == 2)
    model = stop.fit(*data)
    assert model.history_ == seen
    assert len(seen) == 2


def test_warm_start_continues(data):
    X, Y = data
    model = LSG21Classifier(alpha=6.0, warm_start=True).fit(X, Y)
    first = model.n_iter_
    assert first > 0
    weights = model.coef_.copy()
    assert model.fit(X, Y).n_iter_ == 0
    assert_array_equal(model.coef_, weights)
    model.set_params(alpha=5.0).fit(X, Y)
    cold = LSG21Classifier(alpha=5.0).fit(X, Y)
    assert model.n_iter_ <= cold.n_iter_
    assert_allclose(model.objective_, cold.objective_, rtol=2e-6)
    with pytest.raises(ValueError, match=r"same features: the fit before had 9, X now has 8"):
        model.fit(X[:, :8], Y)
    with pytest.raises(ValueError, match="same rows"):
        model.fit(X[:50], Y[:50])


def test_same_result_every_time_and_for_any_n_jobs(data):
    expected = LSG21Classifier(alpha=0.5).fit(*data)
    for options in ({}, {"n_jobs": 2}, {"n_jobs": -1}, {"random_state": 3}):
        model = LSG21Classifier(alpha=0.5, **options).fit(*data)
        assert_array_equal(model.coef_, expected.coef_)
        assert model.n_iter_ == expected.n_iter_


def test_columns_and_weights_that_single_precision_cannot_hold(rng):
    X = rng.normal(size=(80, 10))
    Y = (X[:, :4] + 0.5 * X[:, 1:5] + rng.normal(size=(80, 4)) > 0).astype(int)
    small = X.copy()
    small[:, -1] *= 1e-40
    without = LSG21Classifier(alpha=1.0).fit(X[:, :-1], Y)
    model = LSG21Classifier(alpha=1.0).fit(small, Y)
    assert_allclose(model.objective_, without.objective_, rtol=2e-6)
    assert_allclose(model.coef_[:, :-1], without.coef_, atol=1e-3)
    plain = LSG21Classifier(alpha=1.0).fit(X, Y)
    for unit in (1e-80, 1e80):
        weighted = LSG21Classifier(alpha=unit).fit(X, Y, sample_weight=np.full(80, unit))
        assert_allclose(weighted.objective_ / unit, plain.objective_, rtol=2e-6)
        assert weighted.duality_gap_ <= 1e-6 * weighted.objective_


def test_unpenalised_labels_that_no_step_improves_are_told_of(rng):
    """Rows of very different weights are beyond iterative least squares: a warning, not an error."""
    X, Y = sp.csr_array(rng.normal(size=(120, 90))), (rng.random((120, 3)) < 0.5).astype(int)
    weight = 10.0 ** rng.uniform(-6, 6, 120)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = LSG21Classifier(alpha=0.0).fit(X, Y, sample_weight=weight)
    converged = model.duality_gap_ <= 1e-6 * model.objective_
    assert converged or any(issubclass(one.category, ConvergenceWarning) for one in told)
