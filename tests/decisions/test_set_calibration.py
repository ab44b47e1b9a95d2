"""Probabilities from the label sets that occur: a literal version, known distributions, weights, and new sets only."""

from collections import Counter

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import check_grad, minimize, minimize_scalar
from scipy.special import expit, logit

from comargin.decisions import SetCalibrator, set_calibration

SETS = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 1, 1, 1], [0, 0, 0, 0], [1, 0, 0, 1]])


def draw(rng, n, sets=SETS, noise=1.5):
    """Rows with few label sets, and the exact marginals given one noisy score a label."""
    Y = sets[rng.choice(len(sets), n, p=np.arange(len(sets), 0, -1) / 15)]
    scores = (2 * Y - 1) + noise * rng.normal(size=Y.shape)
    return expit(2 * scores / noise**2 + logit(Y.mean(axis=0))), Y


def independent(p, s):
    return np.prod(np.where(s, p, 1 - p))


def lifts(counts, P, weight):
    """How many times more often each set occurs than it would if labels were independent."""
    return {s: n / (1 + sum(w * independent(p, s) for p, w in zip(P, weight, strict=True))) for s, n in counts.items()}


def literal(p, lift, a, b, v):
    """P(s | x) of every set, by the equation; the improved probabilities are the marginals with t in place of v."""
    sets = [tuple(map(int, np.binary_repr(k, len(p)))) for k in range(2 ** len(p))]
    u = {s: lift[s] ** a * independent(p, s) ** b for s in lift}
    total = sum(u.values())
    return {s: v * (u.get(s, 0.0) / total) + (1 - v) * independent(p, s) for s in sets}


def test_marginals_and_sets_are_those_of_the_equation(rng):
    P, Y = draw(rng, 60)
    calibrator = SetCalibrator().fit(P, Y)
    assert 0.5 < calibrator.known_share_ < 1.0
    lift = lifts(Counter(map(tuple, Y.tolist())), P, np.ones(60))
    new, _ = draw(rng, 20)
    got, best = calibrator.marginals(new), calibrator.likeliest(new)
    assert 0.5 < calibrator.marginal_share_ <= calibrator.known_share_
    powers = (calibrator.lift_power_, calibrator.probability_power_)
    for row in range(20):
        joint = literal(new[row], lift, *powers, calibrator.known_share_)
        mixed = literal(new[row], lift, *powers, calibrator.marginal_share_)
        assert_allclose(sum(joint.values()), 1.0)
        assert_allclose(got[row], sum(value * np.array(s) for s, value in mixed.items()))
        assert_allclose(joint[tuple(best[row].tolist())], max(joint.values()))
    assert best.dtype == np.int64
    assert (best != (new >= 0.5)).any()


def test_numbers_are_the_optimum_of_the_leave_one_out_loss(rng):
    P, Y = draw(rng, 40)
    weight = rng.integers(1, 3, size=40).astype(float)
    counts = Counter()
    for s, w in zip(map(tuple, Y.tolist()), weight, strict=True):
        counts[s] += w
    start, prior = np.array(set_calibration.POLICY.start), set_calibration.POLICY.prior

    def loss(theta):
        value = prior / 2 * np.sum((theta - start) ** 2)
        for p, y, w in zip(P, Y, weight, strict=True):
            others = counts - Counter({tuple(y.tolist()): 1.0})  # a Counter drops what is left with 0
            value -= w * np.log(
                literal(p, lifts(others, P, weight), theta[0], theta[1], expit(theta[2]))[tuple(y.tolist())]
            )
        return value / weight.sum()

    best = minimize(loss, start, bounds=set_calibration._BOUNDS, tol=1e-12)
    calibrator = SetCalibrator().fit(P, Y, weight)
    got = [calibrator.lift_power_, calibrator.probability_power_, logit(calibrator.known_share_)]
    assert_allclose(loss(np.array(got)), best.fun, rtol=1e-7)
    assert_allclose(got, best.x, atol=0.01)

    def marginal_loss(share):
        value = 0.0
        for p, y, w in zip(P, Y, weight, strict=True):
            others = counts - Counter({tuple(y.tolist()): 1.0})
            mixed = sum(x * np.array(s) for s, x in literal(p, lifts(others, P, weight), got[0], got[1], share).items())
            value -= w * np.log(np.where(y, mixed, 1 - mixed)).sum()
        return value

    best = minimize_scalar(marginal_loss, bounds=(0, calibrator.known_share_))
    assert_allclose(marginal_loss(calibrator.marginal_share_), best.fun, rtol=1e-6)


def test_gradient(rng, monkeypatch):
    P, Y = draw(rng, 30)
    caught = []
    monkeypatch.setattr(
        set_calibration,
        "minimize",
        lambda loss, start, **options: caught.append(loss) or minimize(loss, start, jac=True),
    )
    SetCalibrator().fit(P, Y, rng.integers(1, 3, size=30))
    for theta in rng.normal([0.5, 0.7, 0.0], 0.2, size=(3, 3)):
        assert check_grad(lambda t: caught[0](t)[0], lambda t: caught[0](t)[1], theta) < 1e-5


def test_dependent_labels_gain(rng):
    P, Y = draw(rng, 1000)
    new, truth = draw(rng, 2000)
    calibrator = SetCalibrator().fit(P, sp.csr_array(Y))
    improved = calibrator.marginals(new)
    assert np.square(improved - truth).mean() < 0.85 * np.square(new - truth).mean()
    right = (calibrator.likeliest(new) == truth).all(axis=1).mean()
    assert right > ((new >= 0.5) == truth).all(axis=1).mean() + 0.1


def test_sets_that_never_repeat_change_nothing(rng):
    P = rng.uniform(0.1, 0.9, size=(60, 40))
    Y = (rng.random(P.shape) < P).astype(int)
    calibrator = SetCalibrator().fit(P, Y)
    assert calibrator.known_share_ == 0.0
    assert calibrator.sets_.shape == (0, 40)
    assert_allclose(calibrator.marginals(P), P)
    assert_array_equal(calibrator.likeliest(P), P >= 0.5)


def test_independent_labels_lose_little(rng):
    P = rng.uniform(0.02, 0.98, size=(3000, 4))
    Y = (rng.random(P.shape) < P).astype(int)
    assert np.abs(SetCalibrator().fit(P, Y).marginals(P) - P).mean() < 0.01


def test_weights_are_repeated_rows(rng):
    P, Y = draw(rng, 50)
    weight = rng.integers(0, 4, size=50)
    weighted = SetCalibrator().fit(P, Y, weight)
    repeated = SetCalibrator().fit(np.repeat(P, weight, axis=0), np.repeat(Y, weight, axis=0))
    assert_allclose(weighted.marginals(P), repeated.marginals(P), rtol=1e-5)


def test_blocks_and_fewer_fitted_rows(rng, monkeypatch):
    P, Y = draw(rng, 300)
    whole = SetCalibrator().fit(P, Y)
    expected, sets = whole.marginals(P), whole.likeliest(P)
    small = set_calibration.SetPolicy(cells_at_once=7, fitted_cells=300, most_sets=4)
    monkeypatch.setattr(set_calibration, "POLICY", small)
    assert_allclose(whole.marginals(P), expected)
    assert_array_equal(whole.likeliest(P), sets)
    part = SetCalibrator().fit(P, Y)
    assert part.sets_.shape == (4, 4)
    assert 0.5 < part.known_share_ < 1.0


def test_certain_and_constant_labels(rng):
    P, Y = draw(rng, 100)
    P, Y = np.column_stack([P, np.zeros(100), np.ones(100)]), np.column_stack([Y, np.zeros(100), np.ones(100)])
    calibrator = SetCalibrator().fit(P, Y)
    improved = calibrator.marginals(P)
    assert 0.0 < improved.min() < improved.max() < 1.0
    one = SetCalibrator().fit([[0.3]], [[1]])
    assert_allclose(one.marginals([[0.3]]), [[0.3]])


def test_bad_input(rng):
    P, Y = draw(rng, 20)
    with pytest.raises(ValueError, match=r"probabilities must be from 0 to 1; got values from -0\.5 to 2"):
        SetCalibrator().fit([[-0.5, 2.0]], [[0, 1]])
    with pytest.raises(ValueError, match="Y must have the shape of probabilities"):
        SetCalibrator().fit(P, Y[:, :2])
    with pytest.raises(ValueError, match="probabilities must be finite"):
        SetCalibrator().fit(np.full((2, 2), np.nan), [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="probabilities has 2 labels, the calibrator was fitted with 4"):
        SetCalibrator().fit(P, Y).marginals(P[:, :2])
