"""Measures of probabilities: those of scikit-learn, literal bins, weights, known distributions, bad input."""

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.metrics as skm
from numpy.testing import assert_allclose

from comargin import metrics

MEASURES = (
    metrics.brier_score,
    metrics.log_loss,
    metrics.calibration_error,
    lambda Y, P, **options: metrics.calibration_error_at_k(Y, P, k=2, **options),
)


@pytest.fixture
def data(rng):
    P = rng.beta(0.4, 1.5, size=(300, 5)).round(2)
    return (rng.random(P.shape) < P**1.3).astype(int), P


@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scikit_learn(data, rng, weighted):
    Y, P = data
    weight = rng.random(300) if weighted else None
    brier = [skm.brier_score_loss(y, p, sample_weight=weight) for y, p in zip(Y.T, P.T, strict=True)]
    loss = [skm.log_loss(y, p, sample_weight=weight, labels=[0, 1]) for y, p in zip(Y.T, P.T, strict=True)]
    assert_allclose(metrics.brier_score(Y, P, sample_weight=weight), np.mean(brier))
    assert_allclose(metrics.log_loss(sp.csr_array(Y), P, sample_weight=weight), np.mean(loss))


def literal_error(y, p, n_bins):
    """Rows one after the other; of equal mass where no probabilities are equal."""
    order = np.argsort(p)
    return sum(abs(np.sum(p[part] - y[part])) for part in np.array_split(order, n_bins)) / len(p)


def test_calibration_errors_match_literal_bins(rng):
    P = rng.permutation(300 * 4).reshape(300, 4) / 1200
    Y = (rng.random(P.shape) < P**2).astype(int)
    for n_bins in (1, 5, 10):
        expected = np.mean([literal_error(y, p, n_bins) for y, p in zip(Y.T, P.T, strict=True)])
        assert_allclose(metrics.calibration_error(Y, P, n_bins=n_bins), expected)
        top = np.argsort(-P, axis=1)[:, :2]
        chosen, on = (np.take_along_axis(values, top, axis=1).ravel() for values in (P, Y))
        assert_allclose(metrics.calibration_error_at_k(Y, P, k=2, n_bins=n_bins), literal_error(on, chosen, n_bins))
    assert_allclose(metrics.calibration_error_at_k(Y, P, k=9), literal_error(Y.ravel(), P.ravel(), 10))  # all labels


def test_true_probabilities_have_a_small_error(rng):
    P = rng.beta(0.5, 2.0, size=(20_000, 3))
    Y = (rng.random(P.shape) < P).astype(int)
    for measure in (metrics.calibration_error, MEASURES[3]):
        assert measure(Y, P) < 0.01 < measure(Y, np.sqrt(P))
    assert_allclose(metrics.calibration_error(Y, np.sqrt(P)), (np.sqrt(P) - P).mean(), atol=0.01)


def test_equal_probabilities_are_one_bin(rng):
    Y = (rng.random((100, 2)) < 0.3).astype(int)
    P = np.full(Y.shape, 0.5)
    assert_allclose(metrics.calibration_error(Y, P), np.abs(Y.mean(axis=0) - 0.5).mean())
    assert_allclose(metrics.calibration_error(Y, P), metrics.calibration_error(rng.permutation(Y), P))


def test_integer_weights_are_repetitions(data, rng):
    Y, P = data
    weight = rng.integers(0, 4, size=len(Y))
    for measure in MEASURES:
        repeated = measure(np.repeat(Y, weight, axis=0), np.repeat(P, weight, axis=0))
        assert_allclose(measure(Y, P, sample_weight=weight), repeated)


def test_blocks_do_not_change_the_result(data, monkeypatch):
    Y, P = data
    expected = metrics.brier_score(Y, P)
    monkeypatch.setattr(metrics._probabilities, "BLOCK_ELEMENTS", 12)
    assert_allclose(metrics.brier_score(Y, P), expected)


def test_evaluate_equals_the_single_functions(data):
    Y, P = data
    found = metrics.evaluate(Y, probabilities=P, k=[2, 3])
    assert found == {
        "brier_score": metrics.brier_score(Y, P),
        "log_loss": metrics.log_loss(Y, P),
        "calibration_error": metrics.calibration_error(Y, P),
        "calibration_error_at_2": metrics.calibration_error_at_k(Y, P, k=2),
        "calibration_error_at_3": metrics.calibration_error_at_k(Y, P, k=3),
    }
    assert not any(metrics.higher_is_better[name] for name in found)
    assert not metrics.higher_is_better["calibration_error_at_7"]
    assert list(metrics.evaluate(Y, P, probabilities=P, k=2))[-4:] == list(found)[:4]


def test_certain_and_wrong_is_finite():
    assert_allclose(metrics.log_loss([[1, 0]], [[0.0, 0.0]]), -np.log(np.finfo(float).eps) / 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.brier_score([[1, 0]], [[1.0, 1.5]]), "probabilities must be from 0 to 1, got .* 1 to 1.5"),
        (lambda: metrics.brier_score([[1, 0]], [[0.1, np.nan]]), "probabilities must be from 0 to 1"),
        (lambda: metrics.log_loss([[1, 0]], [[0.5]]), "probabilities must have the shape of Y_true"),
        (lambda: metrics.log_loss([[1, 0]], [["a", "b"]]), "probabilities must hold numbers"),
        (lambda: metrics.log_loss([[1, 0]], sp.csr_array([[0.5, 0.1]])), "probabilities must be dense"),
        (
            lambda: metrics.calibration_error([[1, 0]], [[0.5, 0.1]], n_bins=0),
            "n_bins must be an int of at least 1",
        ),
        (lambda: metrics.calibration_error_at_k([[1, 0]], [[0.5, 0.1]], k=0), "k must be an int of at least 1"),
        (lambda: metrics.evaluate([[1, 0]], probabilities=[[0.5]]), "probabilities must have the shape of Y,"),
    ],
)
def test_bad_input_names_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()
