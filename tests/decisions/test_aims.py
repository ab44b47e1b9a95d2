"""Label sets for a named measure: brute force in expectation, held-out rows, constant labels, weights, bad input."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit
from sklearn.base import clone

from comargin.cli._options import Aim
from comargin.decisions import AIMS, AimRule, DecisionClassifierCV, LabelDecisions, PerLabelCut, SetCalibrator, aims
from comargin.decisions.aims import _best_expected_f1, check_aim
from comargin.metrics import evaluate
from comargin.metrics.measures import MEASURES, Kind, _aim_of
from comargin.search._trials import value_of

COSTS = [1.0, 3.0]
KINDS = [*AIMS, "precision_at_2", COSTS]


def draw(rng, n, n_labels=6):
    """Rows whose labels share a hidden variable, and a probability of each label from a score of its own."""
    hidden = rng.normal(size=(n, 1))
    truth = expit(3 * hidden * np.linspace(-1, 1, n_labels) + rng.normal(size=(n, n_labels)) - 1.2)
    Y = (rng.random(truth.shape) < truth).astype(int)
    return np.clip(truth, 0.02, 0.98), Y


def cost(Y, on, costs=COSTS):
    return np.mean(costs[0] * (on > Y) + costs[1] * (on < Y))


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_own_aim_is_best(rng, kind):
    P, Y = draw(rng, 2000)
    new, truth = draw(rng, 4000)
    value = {}
    for aim in KINDS:
        on = AimRule(aim).fit(P, Y).predict(new)
        found = evaluate(truth, Y_pred=on)
        value[str(aim)] = {
            str(COSTS): -cost(truth, on),
            "hamming_loss": -found["hamming_loss"],
            "ranking": -found["hamming_loss"],
            "precision_at_2": (on & truth).sum(axis=1).mean() if (on.sum(axis=1) == 2).all() else -1.0,
            **{name: found[name] for name in AIMS[1:5]},
        }[str(kind)]
    assert value[str(kind)] >= max(value.values()) - 0.003
    assert value[str(kind)] > np.median(list(value.values())) + 0.01


@pytest.mark.parametrize("aim", KINDS, ids=str)
def test_sets_are_those_of_the_definition(rng, aim):
    P, Y = draw(rng, 400, 4)
    new, _ = draw(rng, 30, 4)
    rule = AimRule(aim).fit(P, Y)
    p, on = rule.sets_.marginals(new), rule.predict(new)
    assert_allclose(p, SetCalibrator().fit(P, Y).marginals(new))
    if aim in ("hamming_loss", "ranking"):
        assert_array_equal(on, p >= 0.5)
    elif aim is COSTS:
        assert_array_equal(on, p >= 0.25)
    elif aim == "precision_at_2":
        assert_array_equal(on.sum(axis=1), 2)
        assert np.all(np.where(on, p, 2.0).min(axis=1) >= np.where(on, -1.0, p).max(axis=1))
    elif aim == "subset_accuracy":
        assert_array_equal(on, rule.sets_.likeliest(new))
    elif aim == "example_f1":
        truths = np.array(list(product([0, 1], repeat=4)))
        chance = np.prod(np.where(truths, p[:, None, :], 1 - p[:, None, :]), axis=2)
        f1 = 2 * truths @ truths.T / np.maximum(truths.sum(axis=1)[:, None] + truths.sum(axis=1), 1)
        expected = chance @ f1
        chosen = on @ [8, 4, 2, 1]
        assert_allclose(expected[np.arange(30), chosen], expected.max(axis=1))
    else:
        assert_array_equal(on, p >= (rule.micro_cuts_ if aim == "micro_f1" else rule.macro_cuts_))
    assert_array_equal(on, AimRule().fit(P, Y).predict(new, aim))


def test_macro_cut_has_the_best_expected_f1(rng):
    p, weight = rng.random((40, 3)) ** 2, rng.integers(1, 4, size=40).astype(float)

    def expected_f1(column, cut):
        on = column >= cut
        return 2 * (weight * column)[on].sum() / (weight[on].sum() + (weight * column).sum())

    for column in p.T:
        value = _best_expected_f1(column[:, None], weight)[0]
        assert_allclose(value, max(expected_f1(column, cut) for cut in column))
        assert_allclose(value, expected_f1(column, value / 2))


def test_micro_cut_is_halfway_between_what_is_expected_and_what_is_shown(rng):
    P, Y = draw(rng, 300, 4)
    rule = AimRule().fit(P, Y)
    p = rule.sets_.marginals(P)
    expected = 0.5 * _best_expected_f1(p.reshape(-1, 1), np.ones(p.size))[0]
    shown = PerLabelCut(micro_weight=1.0).fit(p, Y).thresholds_
    assert_allclose(rule.micro_cuts_, 0.5 * (expected + shown))
    assert np.abs(shown - expected).max() > 0.01


def test_rows_whose_best_label_is_never_on_have_another_one(rng):
    P, Y = draw(rng, 300, 4)
    P[:, 0], Y[:, 0] = 0.9, 0
    on = AimRule("example_f1").fit(P, Y).predict(P)
    assert on[:, 1:].any(axis=1).all()
    assert not on[:, 0].any()


def test_value_of_empty_sets():
    rng = np.random.default_rng(0)
    P = rng.uniform(0.01, 0.3, size=(500, 4))
    Y = (rng.random(P.shape) < P).astype(int)
    assert AimRule("example_f1").fit(P, Y).predict(P).any(axis=1).all()
    assert not AimRule("example_f1", zero_division=1.0).fit(P, Y).predict(P).any(axis=1).all()


@pytest.mark.parametrize("aim", KINDS, ids=str)
def test_constant_labels_weights_and_sparse_labels(rng, aim):
    P, Y = draw(rng, 300, 4)
    Y[:, 0], Y[:, 3] = 0, 1
    rule = AimRule(aim).fit(P, sp.csr_array(Y))
    on = rule.predict(P)
    assert on.dtype == np.int64
    if aim is COSTS:
        assert_array_equal(on, rule.decide(P)[1] >= 0.25)
    else:
        assert not on[:, 0].any()
        assert on[:, 3].all()
    weight = rng.integers(0, 3, size=300)
    weighted = clone(rule).fit(P, Y, weight).predict(P)
    repeated = clone(rule).fit(np.repeat(P, weight, axis=0), np.repeat(Y, weight, axis=0)).predict(P)
    assert (weighted != repeated).mean() < 0.005  # the optimum of the set model is found to its tolerance


def test_costs_of_labels(rng):
    P, Y = draw(rng, 300, 3)
    on, p = AimRule([[1.0, 1.0], [0.0, 2.0], [3.0, 1.0]]).fit(P, Y).decide(P)
    assert_array_equal(on, p >= [0.5, 0.0, 0.75])


@pytest.mark.parametrize(
    ("aim", "message"),
    [
        ("f1_micro", r"aim must be a measure or costs, got 'f1_micro'; did you mean 'micro_f1' or 'macro_f1'\?"),
        ("hamming", r"aim must be a measure or costs, got 'hamming'; did you mean 'hamming_loss'\?"),
        ("precision_at_k", r'aim must have a number of labels, e\.g\. "precision_at_3"; got \'precision_at_k\'\.'),
        ("precision_at_0", "aim must have a number of labels"),
        ("precision_at_7", r"aim must be of at most 4 labels, got 'precision_at_7'\."),
        ([1.0, 2.0, 3.0], r"shape \(2,\) or \(4, 2\), .* got shape \(3,\)"),
        (np.ones((2, 4)), r"got shape \(2, 4\)"),
        ([1.0, -2.0], "finite and not negative"),
        ([1.0, np.nan], "finite and not negative"),
        ([[1, 0], [0, 1], [1, 1], [0, 0]], "a positive cost of every label"),
        (None, "got shape"),
        (["a", "b"], "aim must be a name, or costs: numbers"),
    ],
)
def test_bad_aims(rng, aim, message):
    with pytest.raises(ValueError, match=message):
        check_aim(aim, 4)
    P, Y = draw(rng, 20, 4)
    with pytest.raises(ValueError, match=message):
        AimRule(aim).fit(P, Y)


def test_bad_input(rng):
    P, Y = draw(rng, 20, 4)
    with pytest.raises(ValueError, match="probabilities must be from 0 to 1"):
        AimRule().fit(P + 1, Y)
    with pytest.raises(ValueError, match="probabilities must be from 0 to 1"):
        AimRule().fit(P, Y).predict(-P)
    with pytest.raises(ValueError, match="zero_division must be a finite number from 0 to 1"):
        AimRule(zero_division=2).fit(P, Y)


def test_an_aim_that_nothing_decides_is_an_error(rng, monkeypatch):
    """Not a cut of one half, silently."""
    P, Y = draw(rng, 50)
    rule = AimRule().fit(P, Y)
    monkeypatch.setattr(aims, "AIMS", (*AIMS, "one_error"))
    with pytest.raises(KeyError, match="one_error"):
        rule.predict(P, "one_error")


def test_every_aim_of_a_measure_is_one():
    assert {measure.aim for measure in MEASURES.values()} <= {"", *AIMS}


def test_a_new_measure_is_taken_at_an_aim_that_exists():
    assert [_aim_of(Kind.SETS, name) for name in ("jaccard", "micro_jaccard", "macro_jaccard")] == ["", "", "macro_f1"]


@pytest.mark.parametrize("aim", AIMS)
def test_every_aim_has_a_value_and_is_described(rng, aim):
    P, Y = draw(rng, 50)
    assert 0.0 <= value_of(LabelDecisions(aim).fit(P, Y), P, sp.csr_array(Y)) <= 1.0
    page = Path(__file__).parents[2] / "docs" / "decisions.md"
    for text in (
        page.read_text(encoding="utf-8"),
        Aim.__metadata__[0].help,
        aims.__doc__,
        DecisionClassifierCV.__doc__,
    ):
        assert aim in text
