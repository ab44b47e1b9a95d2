"""What is certified is what is returned, and scores that are no numbers never become labels."""

import warnings
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import comargin
from comargin import CGMClassifier, M3LClassifier, StructuredSVMClassifier
from comargin.core.loop import Control, average_rounding, run_loop
from comargin.core.result import Checkpoint, Result, Status

HUGE = 100.0 * np.array([[-16075], [98723], [32562], [-31848], [-87751]])
HEAVY = np.array([3e3, 3e4, 1e5, 1e4, 1.0])
LEARNERS = ["M3L", "LSG21", "RankCVM", "RankSVM", "PrML", "PrBR", "StructuredSVM", "CGM"]


def primal(model, X, Y, C, weight):
    scores = X @ model.coef_.T + model.intercept_
    losses = weight[:, None] * np.maximum(0.0, 1.0 - (2 * Y - 1) * scores)
    return 0.5 * (np.sum(model.coef_**2) + np.sum(model.intercept_**2)) + 2.0 * C * losses.sum()


@pytest.mark.parametrize("solver", ["auto", "dcd", "smo"])
@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0])
def test_objective_is_that_of_the_returned_weights(solver, scale):
    X, Y = scale * HUGE, np.ones((5, 1), dtype=int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = M3LClassifier(C=2.0, solver=solver, max_iter=50).fit(X, Y, sample_weight=HEAVY)
    assert model.objective_ == pytest.approx(primal(model, X, Y, 2.0, HEAVY), rel=1e-6)
    assert model.dual_objective_ <= 0.5  # w = 0, b = 1 has this objective


def test_weights_that_miss_the_tolerance_are_not_certified():
    with pytest.warns(ConvergenceWarning, match="scale X"):
        M3LClassifier(C=2.0, solver="smo").fit(HUGE, np.ones((5, 1), dtype=int), sample_weight=HEAVY)


def test_a_result_that_loses_its_certificate_has_stalled():
    found = Result(np.zeros((1, 1)), None, (Checkpoint(3, 0.1, 1.0, 1.0),), 1e-3, Status.CONVERGED)
    assert found.certified_by(1.0005, 1.0, 1e-3).status is Status.CONVERGED
    worse = found.certified_by(2.0, 1.0, 2e-3)
    assert (worse.status, worse.primal, worse.gap) == (Status.STALLED, 2.0, 1.0)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e7])
def test_rounding_of_the_dual_is_bounded(rng, offset):
    X = offset + rng.normal(size=(50, 3))
    A, S = rng.uniform(0, 10, size=(50, 2)), rng.choice([-1.0, 1.0], size=(50, 2))
    V = X.T @ (S * A)
    exact = np.zeros((3, 2), dtype=object)
    for x, b in zip(X, S * A, strict=True):
        exact += np.outer([Fraction(v) for v in x], [Fraction(v) for v in b])
    error = abs(Fraction(float(np.sum(V * V))) - (exact * exact).sum()) / 2
    bound = average_rounding(np.linalg.norm(X, axis=1), A, 1.0, np.sum(V * V, axis=0))
    assert float(error) <= bound
    assert bound <= 1e-10 * np.linalg.norm(X) ** 2 * np.sum(A**2)


def test_the_loop_takes_the_rounding_of_sums_off_the_dual():
    _, history, _ = run_loop(lambda: None, lambda: (1.0, 1.0), Control(1e-3, 5))
    assert 1.0 - 1e-13 < history[-1].dual < 1.0
    assert run_loop(lambda: None, lambda: (1.0, 1.0), Control(0.0, 5))[0] is Status.CONVERGED


@pytest.fixture
def labelled(rng):
    X = rng.normal(size=(40, 3))
    return X, (X[:, :2] + 0.3 * rng.normal(size=(40, 2)) > 0).astype(int)


def one_wild_row(size):
    X = np.zeros((4, 3))
    X[2] = size, -size, size
    return X


@pytest.mark.parametrize("name", LEARNERS)
def test_scores_beyond_all_numbers_are_refused_with_their_row(labelled, name):
    linear = {"kernel": "linear"} if name.startswith("Rank") else {}
    model = getattr(comargin, f"{name}Classifier")(**linear).fit(*labelled)
    model.coef_ = 10.0 * np.sign(model.coef_ + 1e-300)
    if name in ("StructuredSVM", "CGM"):
        model._column_coef = 10.0 * np.sign(model._column_coef + 1e-300)
    for method in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match="row 2 of X has scores that are not finite"):
            method(one_wild_row(1e308))


@pytest.mark.parametrize("learner", [M3LClassifier, StructuredSVMClassifier, CGMClassifier])
def test_kernel_scores_beyond_all_numbers_are_refused(labelled, learner):
    model = learner(kernel="poly").fit(*labelled)
    for method in (model.predict, model.decision_function):
        with pytest.raises(ValueError, match="row 2 of X has scores that are not finite"):
            method(one_wild_row(1e200))


def test_probabilities_of_no_numbers_are_refused(labelled):
    model = comargin.DecisionClassifierCV(M3LClassifier(), cv=3).fit(*labelled)
    model.estimator_.coef_ = np.full_like(model.estimator_.coef_, np.nan)
    for method in (model.predict, model.predict_proba, model.decision_function):
        with pytest.raises(ValueError, match="row 0 of X has scores that are not finite"):
            method(labelled[0])
