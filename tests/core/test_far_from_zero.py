"""Features far from zero: centred where the problem allows it, or an error that says what to do."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp

from comargin import CGMClassifier, M3LClassifier, PrBRClassifier, RankSVMClassifier
from comargin.core.kernel_functions import scale_gamma


@pytest.fixture
def labelled(rng):
    X = rng.normal(size=(60, 4))
    return X, (X[:, :3] + 0.3 * rng.normal(size=(60, 3)) > 0).astype(int)


@pytest.mark.parametrize("gamma", [0.5, "scale"])
def test_rbf_of_sparse_rows_is_that_of_dense_ones(labelled, gamma):
    X, Y = labelled
    far = X + 1e8
    dense = M3LClassifier(kernel="rbf", gamma=gamma).fit(far, Y)
    sparse = M3LClassifier(kernel="rbf", gamma=gamma).fit(sp.csr_array(far), Y)
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=1e-6)
    scores = dense.decision_function(far)
    np.testing.assert_allclose(sparse.decision_function(sp.csr_array(far)), scores, rtol=1e-6, atol=1e-6)
    assert np.mean(sparse.predict(far) != Y) < 0.1


def test_sparse_rows_near_zero_stay_sparse(labelled):
    X, Y = labelled
    assert M3LClassifier(kernel="rbf").fit(sp.csr_array(X), Y)._kernel_function.center is None


@pytest.mark.parametrize("offset", [0.0, 1e8])
def test_the_scale_of_sparse_rows_keeps_its_digits(labelled, offset):
    X = labelled[0] + offset
    X[::2] *= X[::2] > offset
    assert scale_gamma(sp.csr_array(X)) == pytest.approx(scale_gamma(X), rel=1e-9)
    Z = labelled[0] + offset
    assert scale_gamma(sp.csr_array(Z)) == pytest.approx(scale_gamma(Z), rel=1e-6)


@pytest.mark.parametrize("offset", [1e4, 1e7])
def test_free_biases_absorb_the_offset(labelled, offset):
    X, Y = labelled
    near = RankSVMClassifier(kernel="linear").fit(X, Y)
    far = RankSVMClassifier(kernel="linear").fit(X + offset, Y)  # warns, and pytest fails, if it does not converge
    assert far.objective_ == pytest.approx(near.objective_, rel=2e-3)
    np.testing.assert_allclose(far.coef_, near.coef_, atol=0.05 * np.abs(near.coef_).max())
    np.testing.assert_allclose(far.rank_scores(X + offset), near.rank_scores(X), atol=0.1)


def test_a_literal_form_without_a_point_says_what_to_do():
    with pytest.raises(ValueError, match=r"scale the features, or use privileged_intercept=True"):
        PrBRClassifier(privileged_intercept=False).fit([[0.0], [2e-11]], [[0, 0, 0, 0], [1, 1, 1, 1]])


@pytest.mark.parametrize("as_given", [np.asarray, sp.csr_array])
def test_cgm_names_unscaled_features_before_the_fit(labelled, as_given):
    X, Y = (np.repeat(rows, 2000 // labelled[1].size + 1, axis=0) for rows in labelled)  # few rows are soon done
    X = X * [1.0, 1000.0, 1.0, 500.0]
    moments = []
    model = CGMClassifier(alpha=1.0, max_rounds=0, callback=lambda point: moments.append("fit") or True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = lambda message, *place: moments.append(str(message))
        model.fit(as_given(X), Y)
    assert "2 features are not scaled" in moments[0]
    assert "1 (" in moments[0]
    assert "StandardScaler" in moments[0]
    assert "fit" in moments[1:]
