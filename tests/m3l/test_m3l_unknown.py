"""M3L with unknown labels: cells of Y that count for nothing, in the objective and in its certificate."""

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics.pairwise import rbf_kernel

from comargin import M3LClassifier
from comargin.graphs import smoothed_correlation

LOSSES = {
    "hinge": lambda u: cp.pos(1.0 - u),
    "squared_hinge": lambda u: cp.square(cp.pos(1.0 - u)),
    "logistic": lambda u: cp.logistic(-u),
}


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(40, 5))
    Y = (X @ rng.normal(size=(5, 4)) + rng.normal(size=(40, 4)) > 0).astype(float)
    Y[rng.random(Y.shape) < 0.4] = np.nan
    Y[:, 3], Y[7] = np.nan, np.nan  # a label and a row that nobody looked at
    return X, Y


def optimum(K, Y, C, R, loss, sample_weight):
    """Minimum over the scores F = K^1/2 W R^1/2 of the known cells."""
    values, vectors = np.linalg.eigh(K)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    W = cp.Variable((len(K), len(R)))
    known = ~np.isnan(Y)
    S = np.where(known, 2.0 * Y - 1.0, 1.0)
    losses = loss(cp.multiply(S, root @ W @ np.linalg.cholesky(R).T))
    cost = C * sample_weight[:, None] * known
    objective = 0.5 * cp.sum_squares(W) + 2.0 * cp.sum(cp.multiply(cost, losses))
    return cp.Problem(cp.Minimize(objective)).solve(solver=cp.CLARABEL)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("coupled", [False, True])
def test_the_certified_optimum_is_that_of_the_known_cells(rows, rng, loss, kernel, coupled):
    X, Y = rows
    weight = 0.5 + rng.random(len(X))
    R = 0.4 * np.eye(4) + 0.6 if coupled else np.eye(4)
    K = X @ X.T + 1.0 if kernel == "linear" else rbf_kernel(X, gamma=0.3) + 1.0
    model = M3LClassifier(0.7, kernel=kernel, gamma=0.3, loss=loss, label_correlation=R, tol=1e-8, random_state=0)
    model.fit(X, Y, sample_weight=weight)
    expected = optimum(K, Y, 0.7, R, LOSSES[loss], weight)
    assert_allclose([model.objective_, model.dual_objective_], expected, rtol=1e-6)
    assert np.abs(model.decision_function(X)[:, :3]).max() > 0.1
    assert set(np.unique(model.predict(X))) == {0, 1}


@pytest.mark.parametrize("options", [{}, {"solver": "dcd"}, {"solver": "smo", "kernel": "rbf"}, {"kernel": "rbf"}])
def test_an_independent_label_learns_from_its_own_rows(rows, options):
    X, Y = rows
    both = M3LClassifier(1.0, tol=1e-9, max_iter=20_000, random_state=0, gamma=0.3, **options)
    scores = both.fit(X, Y).decision_function(X)
    for label in range(3):
        known = ~np.isnan(Y[:, label])
        alone = M3LClassifier(1.0, tol=1e-9, max_iter=20_000, random_state=0, gamma=0.3, **options)
        alone.fit(X[known], Y[known][:, [label]])
        assert_allclose(scores[:, label], alone.decision_function(X)[:, 0], atol=1e-3)
    assert_array_equal(scores[:, 3], 0.0)


def test_every_form_of_unknown_gives_the_same_model(rows):
    pd = pytest.importorskip("pandas")
    X, Y = rows
    missing = np.isnan(Y)
    stored = sp.coo_array(np.where(missing, 2.0, Y))
    stored.data[stored.data == 2.0] = np.nan
    forms = {
        "sparse": stored.tocsr(),
        "masked": np.ma.MaskedArray(np.where(missing, 1, Y).astype(int), missing),
        "objects": np.where(missing, None, Y),
        "list": [[None if np.isnan(value) else int(value) for value in row] for row in Y],
        "DataFrame": pd.DataFrame(Y, columns=list("abcd")),
        "nullable": pd.DataFrame(Y, columns=list("abcd")).astype("Int64"),
    }
    expected = M3LClassifier(random_state=0, label_correlation="train").fit(X, Y)
    for name, form in forms.items():
        model = M3LClassifier(random_state=0, label_correlation="train").fit(X, form)
        assert_array_equal(model.coef_, expected.coef_, err_msg=name)
        predicted = model.predict(X)
        assert sp.issparse(predicted) == (name == "sparse")
        assert predicted.dtype == np.int64
    assert_array_equal(missing, np.isnan(Y))


def test_class_weights_are_balanced_over_known_cells(rows):
    X, Y = rows
    both = M3LClassifier(class_weight="balanced", tol=1e-8, random_state=0).fit(X, Y[:, :2])
    known = ~np.isnan(Y[:, 0])
    alone = M3LClassifier(class_weight="balanced", tol=1e-8, random_state=0).fit(X[known], Y[known][:, [0]])
    assert_allclose(both.coef_[0], alone.coef_[0], atol=1e-4)


def test_correlated_loss_and_correlation_of_known_cells(rows):
    X, Y = rows
    R = smoothed_correlation(Y).to_array()
    assert_array_equal(R[3], [0, 0, 0, 1])
    assert np.linalg.eigvalsh(R).min() > 0.0
    complete = np.nan_to_num(Y[:, :3])
    assert_allclose(smoothed_correlation(np.where(np.ones_like(complete), complete, 0)).to_array()[0, 0], 1.0)
    model = M3LClassifier(loss="correlated", label_correlation=0.8 * np.eye(4) + 0.05, tol=1e-7, random_state=0)
    model.fit(X, Y)
    assert model.duality_gap_ <= 1e-7 * model.objective_


def test_unknown_classes_of_a_one_dimensional_y_are_refused(rows):
    X, Y = rows
    with pytest.raises(ValueError, match="NaN"):
        M3LClassifier().fit(X, Y[:, 0])
    with pytest.raises(ValueError, match=r"unknown cells .* column of classes"):
        M3LClassifier().fit(X, 2.0 * Y[:, [0]])
