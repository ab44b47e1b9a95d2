"""M3LClassifier: label correlations and losses through the estimator."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from tests.m3l import reference
from tests.m3l.priors import PRIORS, make_prior

from comargin import M3LClassifier
from comargin.data import load
from comargin.graphs import LabelGraph, correlation_from_classes, smoothed_correlation
from comargin.m3l import solver as solvers_m3l


@pytest.fixture
def data(rng):
    X = rng.normal(size=(60, 6))
    Y = (X @ rng.normal(size=(6, 5)) + rng.normal(size=(60, 5)) > 0.5).astype(int)
    Y[:, 1] = 0
    return X, Y


@pytest.mark.parametrize("kind", PRIORS)
def test_any_prior_matches_cvxpy(data, kind, rng):
    X, Y = data
    R = make_prior(kind, 5, rng)
    weight = 0.5 + rng.random(60)
    model = M3LClassifier(
        C=0.7, label_correlation=R, tol=1e-9, max_iter=20_000, random_state=0, class_weight={1: 2.0}
    ).fit(X, Y, sample_weight=weight)
    augmented = np.column_stack([X, np.ones(60)])
    S = 2 * Y - 1
    U = 0.7 * weight[:, None] * np.where(Y == 1, 2.0, 1.0)
    optimum, Z = reference.m3l_optimum(augmented, S, U, R.toarray() if sp.issparse(R) else R)
    assert_allclose(model.objective_, optimum, rtol=1e-7)
    assert_allclose(np.column_stack([model.coef_, model.intercept_]).T, Z, rtol=1e-3, atol=5e-4)


def test_correlated_loss_matches_cvxpy(data):
    X, Y = data
    R = 0.7 * np.eye(5) + 0.06
    model = M3LClassifier(
        C=0.5, label_correlation=R, loss="correlated", fit_intercept=False, tol=1e-9, random_state=0, max_iter=20_000
    ).fit(X, Y)
    S = 2 * Y - 1
    optimum, _ = reference.m3l_optimum(X, S, np.full(S.shape, 0.5), R, S * (S @ R))
    assert_allclose(model.objective_, optimum, rtol=1e-7)
    hamming = M3LClassifier(C=0.5, label_correlation=R, fit_intercept=False, random_state=0).fit(X, Y)
    assert not np.allclose(model.coef_, hamming.coef_, rtol=1e-2)


def test_correlated_loss_without_correlation_is_hamming(data):
    X, Y = data
    plain = M3LClassifier(tol=1e-8, random_state=0, max_iter=10_000).fit(X, Y)
    correlated = M3LClassifier(loss="correlated", tol=1e-8, random_state=0, max_iter=10_000).fit(X, Y)
    assert_allclose(correlated.coef_, plain.coef_, rtol=1e-4, atol=1e-5)


def test_forms_of_the_same_prior(data, rng):
    X, Y = data
    R = make_prior("dense", 5, rng)
    expected = M3LClassifier(label_correlation=R, random_state=0).fit(X, Y)
    for form in (R.tolist(), sp.csr_array(R), sp.csc_matrix(R), LabelGraph(R)):
        assert_allclose(
            M3LClassifier(label_correlation=form, random_state=0).fit(X, Y).coef_, expected.coef_, rtol=1e-9
        )


def test_train_is_the_smoothed_correlation(data):
    X, Y = data
    named = M3LClassifier(label_correlation="train", random_state=0).fit(X, Y)
    given = M3LClassifier(label_correlation=smoothed_correlation(Y), random_state=0).fit(X, Y)
    assert_allclose(named.coef_, given.coef_, rtol=1e-9)


def test_weights_live_in_the_range_of_a_singular_prior(data, rng):
    X, Y = data
    signatures = np.array([[0, 1, 1, 0, 1], [1, 1, 0, 0, 1]])
    R = correlation_from_classes(signatures).to_array()
    model = M3LClassifier(label_correlation=R, random_state=0).fit(X, Y)
    s = 2 * signatures - 1
    projected = model.coef_.T @ np.linalg.pinv(s) @ s
    assert_allclose(projected, model.coef_.T, atol=1e-9)
    assert np.linalg.norm(model.coef_) > 1e-2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"label_correlation": np.eye(3)}, r"label_correlation must have shape \(5, 5\)"),
        ({"label_correlation": np.eye(5) + np.eye(5, k=1)}, "label_correlation must be symmetric.*differ by 1"),
        ({"label_correlation": -np.eye(5)}, "label_correlation must be positive semi-definite.*-1"),
        ({"label_correlation": "test"}, "label_correlation"),
        ({"loss": "squared"}, "loss"),
        ({"label_correlation": np.ones((5, 5)), "loss": "correlated"}, "diagonally dominant.*row 0.*exceed.*by 3"),
    ],
)
def test_bad_priors_are_named(data, options, message):
    with pytest.raises(ValueError, match=message):
        M3LClassifier(**options).fit(*data)


def liblinear(X, Y, C):
    options = {"loss": "hinge", "C": C, "fit_intercept": False, "tol": 1e-8, "max_iter": 10**6, "random_state": 0}
    return np.vstack([LinearSVC(**options).fit(X, column).coef_ for column in Y.T])


def one_vs_rest_objective(X, Y, coef, C):
    return 0.5 * np.sum(coef**2) + C * np.maximum(0.0, 1.0 - (2 * Y - 1) * (X @ coef.T)).sum()


SKLEARN = {
    "logistic": lambda C: LogisticRegression(C=C, fit_intercept=False, solver="newton-cg", tol=1e-9, max_iter=1000),
    "squared_hinge": lambda C: LinearSVC(C=C, fit_intercept=False, tol=1e-10, max_iter=10**6, random_state=0),
}


@pytest.mark.parametrize("loss", SKLEARN)
@pytest.mark.parametrize("name", ["digits", "emotions", "enron"])
def test_smooth_losses_agree_with_scikit_learn(data_home, name, loss):
    train = load(name, split="train", data_home=data_home)
    X, Y = train.X, train.Y.toarray() if sp.issparse(train.Y) else train.Y
    X, Y = (sp.csr_matrix(X), Y[:, :20]) if sp.issparse(X) else (StandardScaler().fit_transform(X), Y)
    model = M3LClassifier(C=0.05, loss=loss, fit_intercept=False, tol=1e-12, random_state=0).fit(X, Y)
    coef = np.vstack([SKLEARN[loss](0.1).fit(X, column).coef_ for column in Y.T])
    margin = (2 * Y - 1) * (X @ coef.T)
    losses = np.logaddexp(0.0, -margin) if loss == "logistic" else np.maximum(0.0, 1.0 - margin) ** 2
    assert_allclose(model.objective_, 0.5 * np.sum(coef**2) + 0.1 * losses.sum(), rtol=1e-7)
    assert_allclose(model.coef_, coef, atol=1e-5)
    assert np.abs(coef).max() > 0.1


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_smooth_losses_do_not_depend_on_storage_threads_or_starts(data, loss, kernel):
    X, Y = data
    options = {
        "loss": loss,
        "kernel": kernel,
        "gamma": 0.2,
        "tol": 1e-11,
        "random_state": 0,
        "label_correlation": "train",
    }
    model = M3LClassifier(**options).fit(X, Y)
    threads = M3LClassifier(n_jobs=2, **options).fit(sp.csr_array(X), sp.csr_array(Y))
    assert_allclose(threads.decision_function(X), model.decision_function(X), atol=1e-4)
    assert_allclose(threads.objective_, model.objective_, rtol=1e-9)
    doubled = M3LClassifier(**options | {"label_correlation": None}).fit(np.vstack([X, X]), np.vstack([Y, Y]))
    weighted = M3LClassifier(**options | {"label_correlation": None}).fit(X, Y, sample_weight=np.full(60, 2.0))
    assert_allclose(doubled.objective_, weighted.objective_, rtol=1e-8)
    assert np.all(model.decision_function(X)[:, 1] < 0.0)  # a label without positives
    model.set_params(warm_start=True).fit(X, Y)
    cold = model.n_iter_
    model.fit(X, Y)
    assert model.n_iter_ < cold


def test_logistic_loss_is_not_for_the_papers_schemes(data):
    for solver in ("dcd", "smo"):
        with pytest.raises(ValueError, match=f'loss="logistic" needs solver="auto"; solver="{solver}" takes'):
            M3LClassifier(loss="logistic", solver=solver).fit(*data)


def test_agrees_with_liblinear_on_digits():
    digits = load("digits", split="train")
    X, Y = digits.X / 16.0, digits.Y
    model = M3LClassifier(C=0.01, fit_intercept=False, tol=1e-8, random_state=0).fit(X, Y)
    assert_allclose(model.coef_, liblinear(X, Y, 0.02), atol=1e-4)
    assert np.abs(model.coef_).max() > 0.1


@pytest.mark.parametrize("name", ["bibtex", "enron"])
def test_agrees_with_liblinear_on_published_data(data_home, name):
    train = load(name, split="train", data_home=data_home)
    X, Y = sp.csr_matrix(train.X), train.Y.toarray()[:, :30]
    model = M3LClassifier(C=0.01, fit_intercept=False, tol=1e-7, n_jobs=2, random_state=0).fit(X, Y)
    expected = liblinear(X, Y, 0.02)
    assert_allclose(model.objective_, one_vs_rest_objective(X, Y, expected, 0.02), rtol=1e-6)
    assert_allclose(model.objective_, one_vs_rest_objective(X, Y, model.coef_, 0.02), rtol=1e-9)
    assert_allclose(model.coef_, expected, atol=2e-3)


@pytest.mark.parametrize(("name", "C"), [("emotions", 1.0), ("yeast", 1.0), ("digits", 10.0)])
@pytest.mark.parametrize("prior", [None, "train"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_raw_features_are_solved_to_eight_digits(data_home, name, C, prior, loss):
    """As published, not scaled: passes alone leave gaps of percents."""
    data = load(name, data_home=data_home)
    model = M3LClassifier(C=C, loss=loss, label_correlation=prior, tol=1e-8, random_state=0).fit(data.X, data.Y)
    assert model.duality_gap_ <= 1e-8 * model.objective_
    assert np.abs(model.coef_).max() > 1e-3


@pytest.mark.parametrize("C", [1e12, 1e200])
def test_absurd_costs_end_in_one_warning_or_none(data, C):
    """What overflows on the way is not taken, and numpy does not speak of it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        M3LClassifier(C=C, max_iter=60, random_state=0).fit(*data)
    assert [w.category for w in caught] in ([], [ConvergenceWarning])


@pytest.mark.parametrize(
    ("class_weight", "message"),
    [
        ({0: 1.0, 2: 3.0}, r"class_weight must be a dict \{0: .*for every label, or a list .*one per label; got"),
        ([{0: 1.0}] * 4 + [{"x": 1.0}], r"got \{'x': 1.0\} for label 4"),
        ([{0: 1.0}], "1 dicts, but y has 5 labels"),
        ({1: -1.0}, "non-negative"),
    ],
)
def test_bad_class_weights_are_explained(data, class_weight, message):
    with pytest.raises(ValueError, match=message):
        M3LClassifier(class_weight=class_weight).fit(*data)


@pytest.mark.parametrize("scale", [1e-20, 1e-6, 1e6, 1e40])
@pytest.mark.parametrize("prior", [None, np.eye(5) + 0.2])
def test_features_of_any_size(data, scale, prior):
    """At the default tolerance weights are in single precision, where they fit."""
    X, Y = data
    plain = M3LClassifier(label_correlation=prior, fit_intercept=False, random_state=0).fit(X, Y)
    scaled = M3LClassifier(C=scale**-2, label_correlation=prior, fit_intercept=False, random_state=0).fit(scale * X, Y)
    assert_allclose(scaled.objective_ * scale**2, plain.objective_, rtol=2e-3)
    assert_allclose(scaled.decision_function(scale * X), plain.decision_function(X), atol=0.2)


def test_single_and_double_precision_agree(data, monkeypatch):
    X, Y = data
    made = []
    single_weights = solvers_m3l._lined_up_zeros
    monkeypatch.setattr(solvers_m3l, "_lined_up_zeros", lambda *shape: made.append(shape) or single_weights(*shape))
    for prior in (None, np.eye(5) + 0.2):
        single, double = (
            M3LClassifier(C=0.1, tol=tol, label_correlation=prior, random_state=0).fit(X, Y) for tol in (1e-4, 9.9e-5)
        )
        assert_allclose(single.objective_, double.objective_, rtol=2e-4)
        assert made == [(7, 5)]  # one of the two
        made.clear()
        X1 = np.column_stack([X, np.ones(len(X))])
        Z = np.column_stack([single.coef_, single.intercept_]).T
        R = np.eye(5) if prior is None else prior
        hinge = np.maximum(0.0, 1.0 - (2 * Y - 1) * (X1 @ Z)).sum()
        primal = 0.5 * np.trace(Z @ np.linalg.inv(R) @ Z.T) + 0.2 * hinge
        assert_allclose(single.objective_, primal, rtol=1e-10)  # the certificate is of the weights that are returned


def test_a_start_is_dropped_by_a_fit_without_warm_start(data):
    X, Y = data
    model = M3LClassifier(warm_start=True, random_state=0).fit(X, Y)
    model.set_params(warm_start=False).fit(X[:40], Y[:40])
    model.set_params(warm_start=True).fit(X[:40], Y[:40])
