"""The constant feature whose weight is the intercept."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.linear_model import LogisticRegression

from comargin import M3LClassifier, M3LClassifierCV

LOGISTIC = {"loss": "logistic", "tol": 1e-11, "random_state": 0}


@pytest.fixture
def data(rng):
    """Rows far longer than 1, and rare labels."""
    X = 5.0 * rng.normal(size=(120, 6))
    return X, (X[:, :3] + rng.normal(size=(120, 3)) > 6.0).astype(int)


@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_the_scaling_is_the_value_of_a_feature(data, as_given):
    X, Y = data
    model = M3LClassifier(0.01, intercept_scaling=3.0, **LOGISTIC).fit(as_given(X), Y)
    wide = np.column_stack([X, np.full(len(X), 3.0)])
    by_hand = M3LClassifier(0.01, fit_intercept=False, **LOGISTIC).fit(wide, Y)
    assert_allclose(model.coef_, by_hand.coef_[:, :-1], atol=1e-5)
    assert_allclose(model.intercept_, 3.0 * by_hand.coef_[:, -1], atol=1e-5)
    assert_allclose(model.decision_function(as_given(X)), by_hand.decision_function(wide), atol=1e-4)
    assert (model.intercept_ < -0.5).all()


@pytest.mark.parametrize("scaling", [1.0, 3.0, "auto"])
@pytest.mark.parametrize("loss", ["hinge", "logistic"])
def test_kernels_have_the_same_intercept(data, scaling, loss):
    X, Y = data
    options = {"C": 0.01, "intercept_scaling": scaling, "loss": loss, "tol": 1e-9, "random_state": 0}
    weight = np.linspace(0.5, 2.0, len(X))
    linear = M3LClassifier(**options).fit(X, Y, weight)
    kernel = M3LClassifier(kernel="precomputed", **options).fit(X @ X.T, Y, weight)
    assert_allclose(kernel.objective_, linear.objective_, rtol=1e-7)
    assert_allclose(kernel.decision_function(X @ X.T), linear.decision_function(X), atol=1e-3)
    assert_allclose(kernel.intercept_, linear.intercept_, atol=1e-3)


def test_an_automatic_scaling_makes_units_of_features_indifferent(data):
    X, Y = data
    model = M3LClassifier(0.01, intercept_scaling="auto", **LOGISTIC).fit(X, Y)
    scaled = M3LClassifier(0.0001, intercept_scaling="auto", **LOGISTIC).fit(10.0 * X, Y)
    assert_allclose(scaled.decision_function(10.0 * X), model.decision_function(X), atol=1e-5)
    assert_allclose(scaled.intercept_, model.intercept_, atol=1e-5)


def test_an_automatic_scaling_of_empty_rows_is_one():
    Y = [[1], [1], [0], [1]]
    models = [M3LClassifier(intercept_scaling=one, **LOGISTIC).fit(np.zeros((4, 2)), Y) for one in ("auto", 1.0)]
    assert models[0].intercept_[0] == models[1].intercept_[0] > 0.0


def test_a_large_scaling_leaves_intercepts_free(data):
    X, Y = data
    free = np.array([LogisticRegression(C=0.002, tol=1e-9, max_iter=1000).fit(X, y).intercept_[0] for y in Y.T])
    models = [M3LClassifier(0.001, intercept_scaling=one, **LOGISTIC).fit(X, Y) for one in (1.0, "auto", 1000.0)]
    held_back, lengthy, nearly_free = (np.abs(model.intercept_ / free - 1.0).max() for model in models)
    assert held_back > 2.0 * lengthy > 0.1
    assert nearly_free < 1e-3


def test_without_an_intercept_the_scaling_has_no_effect(data):
    models = [
        M3LClassifier(fit_intercept=False, intercept_scaling=one, random_state=0).fit(*data) for one in (1.0, "auto")
    ]
    assert_allclose(models[0].coef_, models[1].coef_, rtol=0.0, atol=0.0)
    assert not models[1].intercept_.any()


def test_a_search_passes_the_scaling_on(data):
    options = {"loss": "logistic", "intercept_scaling": "auto", "random_state": 0}
    found = M3LClassifierCV([0.001, 0.01], **options).fit(*data)
    alone = M3LClassifier(found.C_, **options).fit(*data)
    assert_allclose(found.intercept_, alone.intercept_, rtol=1e-12)
    plain, scaled = (
        M3LClassifierCV(3, loss="logistic", intercept_scaling=one, random_state=0) for one in (1.0, "auto")
    )
    assert_allclose(plain.fit(*data).Cs_, scaled.fit(*data).Cs_)


@pytest.mark.parametrize("value", [0.0, -1.0, "scale", None])
def test_other_scalings_are_refused(data, value):
    with pytest.raises(ValueError, match="intercept_scaling"):
        M3LClassifier(intercept_scaling=value).fit(*data)
