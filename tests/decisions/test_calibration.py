"""Probabilities from scores: the optimum by a general solver, known sigmoids, rare labels, order, and bad input."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from comargin.decisions import LabelCalibrator, calibration


def draw(rng, n, slopes, offsets):
    scores = rng.normal(size=(n, len(slopes)))
    truth = expit(np.asarray(slopes) * scores + offsets)
    return scores, truth, (rng.random(truth.shape) < truth).astype(int)


def test_own_sigmoids_are_the_optimum(rng):
    T, _, on = draw(rng, 60, [1.0, 3.0, 0.5], [0.0, -2.0, 0.5])
    weight, rate, common = 0.5 + rng.random(60), rng.normal(size=3), np.array([1.5, -0.2, 0.7])
    policy = calibration.POLICY
    for k in range(3):
        t, y = np.ascontiguousarray(T[:, k]), np.ascontiguousarray(on[:, k])
        a, b = calibration._own_sigmoid(t, y, weight, rate[k], common)

        def objective(ab, k=k):
            eta = ab[0] * T[:, k] + ab[1]
            prior = policy.slope * (ab[0] / 1.5 - 1.0) ** 2 + policy.offset * (ab[1] + 0.2 - 0.7 * rate[k]) ** 2
            return weight @ (np.log1p(np.exp(eta)) - on[:, k] * eta) + 0.5 * prior

        best = minimize(objective, [1.0, 0.0], tol=1e-12)
        assert_allclose(objective([a, b]), best.fun, rtol=1e-8)
        assert_allclose([a, b], best.x, atol=1e-4)


def test_steps_are_those_of_scikit_learn(rng):
    s, weight = rng.integers(0, 30, 200) / 7.0, rng.integers(0, 3, 200).astype(float)
    y = (rng.random(200) < s / 5.0).astype(float)
    knots, values = calibration._steps(s, y, weight)
    theirs = IsotonicRegression(out_of_bounds="clip").fit(s, y, weight)
    at = np.linspace(-1.0, 5.0, 500)
    assert_allclose(np.interp(at, knots, values), theirs.predict(at), atol=1e-12)
    assert len(knots) <= len(theirs.X_thresholds_) < 30


def test_known_probabilities_are_found(rng):
    scores, truth, Y = draw(rng, 20_000, [2.0, 4.0, 1.0], [0.0, -3.0, 1.0])
    calibrator = LabelCalibrator().fit(scores, sp.csr_array(Y))
    new, expected, _ = draw(rng, 1000, [2.0, 4.0, 1.0], [0.0, -3.0, 1.0])
    assert np.abs(calibrator.probabilities(new) - expected).mean() < 0.02
    assert np.all(calibrator.share_ > 0.9)
    # A shape that no sigmoid has: its steps are found.
    steps = np.where(scores > 0.5, 0.9, np.where(scores > -0.5, 0.5, 0.1))
    p = LabelCalibrator().fit(scores, rng.random(steps.shape) < steps).probabilities(scores)
    assert np.abs(p - steps).mean() < 0.03
    assert np.abs(p - truth).mean() > 0.05


def test_rare_labels_borrow_from_the_others(rng):
    """With two positives a label's own curve says next to nothing; the common one is right."""
    slopes, offsets = np.full(41, 3.0), np.append(np.full(40, -3.0), -6.0)
    scores, _, Y = draw(rng, 400, slopes, offsets)
    Y[:, 40] = 0
    Y[np.argsort(scores[:, 40])[-2:], 40] = 1  # whatever separates them is likelier than the truth
    calibrator = LabelCalibrator().fit(scores, Y)
    assert abs(calibrator.slope_[40] - 3.0) < 1.0
    assert calibrator.share_[40] < 0.02
    alone = replace(calibration.POLICY, slope=1e-9, offset=1e-9)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(calibration, "POLICY", alone)
        free = LabelCalibrator().fit(scores, Y)
    assert abs(free.slope_[40] - 3.0) > abs(calibrator.slope_[40] - 3.0)


def test_order_stays_and_no_probability_is_certain(rng):
    scores, _, Y = draw(rng, 300, [3.0, -2.0, 5.0], [-2.0, 0.0, 1.0])  # the second label's scores say the contrary
    p = LabelCalibrator().fit(scores, Y).probabilities(scores)
    for label in range(3):
        order = np.argsort(scores[:, label])
        assert np.all(np.diff(p[order, label]) > 0.0)
    far = LabelCalibrator().fit(scores, Y).probabilities([[1e9] * 3, [-1e9] * 3])
    assert 0.0 < far.min() < far.max() < 1.0


def test_constant_labels_have_their_smoothed_rate(rng):
    scores, _, Y = draw(rng, 99, [3.0, 3.0, 3.0], [0.0, 0.0, 0.0])
    Y[:, 0], Y[:, 2] = 0, 1
    p = LabelCalibrator().fit(scores, Y).probabilities(scores)
    assert_allclose(p[:, [0, 2]], np.broadcast_to([0.005, 0.995], (99, 2)))
    assert np.ptp(p[:, 1]) > 0.5
    nothing = LabelCalibrator().fit(scores[:, :1], Y[:, :1])
    assert_allclose(nothing.probabilities(scores[:, :1]), 0.005)
    same = LabelCalibrator().fit(np.ones((4, 2)), [[0, 1], [1, 1], [0, 0], [0, 0]])  # scores that say nothing
    assert_allclose(same.probabilities(np.ones((1, 2))), [[0.25, 0.5]], atol=0.05)


def test_weights_are_repetitions_and_labels_do_not_wait_for_each_other(rng, monkeypatch):
    scores, _, Y = draw(rng, 200, [2.0, 3.0, 1.0], [0.0, -1.0, 1.0])
    times = rng.integers(0, 4, 200)
    weighted = LabelCalibrator().fit(scores, Y, sample_weight=times)
    repeated = LabelCalibrator().fit(np.repeat(scores, times, axis=0), np.repeat(Y, times, axis=0))
    assert_allclose(weighted.probabilities(scores), repeated.probabilities(scores), atol=1e-6)
    monkeypatch.setattr(calibration, "POLICY", replace(calibration.POLICY, cells_at_once=200))
    one_by_one = LabelCalibrator().fit(scores, Y, sample_weight=times)
    assert_allclose(one_by_one.probabilities(scores), weighted.probabilities(scores), atol=1e-6)
    order = [2, 0, 1]
    mixed = LabelCalibrator().fit(scores[:, order], Y[:, order], sample_weight=times)
    assert_allclose(mixed.probabilities(scores[:, order]), weighted.probabilities(scores)[:, order], atol=1e-6)


def test_scores_in_other_units_give_the_same(rng):
    scores, _, Y = draw(rng, 200, [2.0, 3.0], [0.0, -1.0])
    p = LabelCalibrator().fit(scores, Y).probabilities(scores)
    for scale, shift in ((1e-6, 0.0), (1e6, -3e6)):
        moved = scores * scale + shift
        assert_allclose(LabelCalibrator().fit(moved, Y).probabilities(moved), p, atol=1e-6)


def test_bad_input_is_named(rng):
    scores, _, Y = draw(rng, 20, [1.0, 1.0], [0.0, 0.0])
    calibrator = LabelCalibrator().fit(scores, Y)
    with pytest.raises(ValueError, match="scores has 1 labels, the calibrator was fitted with 2"):
        calibrator.probabilities(scores[:, :1])
    with pytest.raises(ValueError, match="scores must be finite"):
        LabelCalibrator().fit(np.full((3, 1), np.nan), [[0], [1], [0]])
    with pytest.raises(ValueError, match="Y must have the shape of scores"):
        LabelCalibrator().fit(scores, Y[:, :1])
    again = LabelCalibrator().fit(scores, Y)
    assert_array_equal(again.probabilities(scores), calibrator.probabilities(scores))
