"""Promises: coverage on simulated rows, formulas, curves, refusals, and the words."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from tests.decisions.naive_promise import draw, losses_of

from comargin.decisions import Guarantee, RiskController, check_confidence, parse_guarantee

MEASURES = ("recall >= 0.8", "precision >= 0.6", "false tags per row <= 0.8")


# -- All cuts ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["recall >= 0.8", "false tags per row <= 0.8"])
def test_expectation_is_the_formula(rng, text):
    p, Y = draw(rng, 150)
    (guarantee,) = parse_guarantee(text)
    cut = RiskController(text, confidence=None).fit(p, Y).cuts_[0]
    top = 1.0 if guarantee.measure == "recall" else 5.0

    def inflated(cut):
        loss = losses_of(guarantee.measure, cut < p, Y.astype(bool))
        loss = loss[~np.isnan(loss)]
        return (loss.sum() + top) / (len(loss) + 1)

    every = np.unique(p)
    riskier = every[every > cut][0] if guarantee.measure == "recall" else every[every < cut][-2]
    assert inflated(cut) <= guarantee.limit < inflated(riskier)


@pytest.mark.parametrize("text", MEASURES)
@pytest.mark.parametrize("confidence", [0.9, None])
def test_curve_shows_risk_bound_and_price(rng, text, confidence):
    p, Y = draw(rng, 700)
    if confidence is None and text.startswith("precision"):
        return
    fitted = RiskController(text, confidence).fit(p, Y)
    (curve,) = fitted.risk_curves_
    assert np.all(np.diff(curve.cuts) > 0)
    assert np.all(np.diff(curve.tags_per_row) <= 0)
    at = int(np.argmin(np.abs(curve.cuts - fitted.cuts_[0])))
    assert curve.cuts[at] == fitted.cuts_[0]
    assert_allclose(curve.tags_per_row[at], fitted.tags_per_row_)
    assert_allclose(fitted.predict(p).sum() / len(p), fitted.tags_per_row_)
    (guarantee,) = fitted.guarantees_
    sign = -1.0 if guarantee.measure == "false tags per row" else 1.0
    vouched = sign * (curve.bound - guarantee.target) >= -1e-9
    inside = (curve.allowed[0] <= curve.cuts) & (curve.cuts <= curve.allowed[1])
    assert np.all(vouched[inside])
    assert not vouched.all()
    assert np.nanmin(sign * (curve.value - curve.bound)) >= (-1e-9 if confidence else -0.02)
    if guarantee.measure != "precision":  # a pilot chose some of its rows
        for k in (3, 30, at):
            loss = losses_of(guarantee.measure, curve.cuts[k] < p, Y.astype(bool))
            expected = np.nanmean(loss) if sign < 0 else 1.0 - np.nanmean(loss)
            assert_allclose(curve.value[k], expected, atol=1e-12)


# -- The promise -------------------------------------------------------------------------------------------------------


@pytest.mark.compiled
@pytest.mark.parametrize("text", [*MEASURES, "recall of 0 >= 0.8", "precision of 0 >= 0.5"])
def test_promise_is_broken_in_few_draws_and_costs_little(rng, text):
    """Risk over 40000 rows stands for the expectation; 400 draws of 300 rows."""
    p_new, Y_new = draw(rng, 40_000)
    on_new = Y_new.astype(bool)
    (guarantee,) = parse_guarantee(text)
    own = slice(None) if guarantee.label is None else [guarantee.label]
    excess, spread = [], []
    for _ in range(400):
        p, Y = draw(rng, 300)
        try:
            fitted = RiskController(text).fit(p, Y)
        except ValueError:
            continue
        loss = losses_of(guarantee.measure, fitted.predict(p_new)[:, own].astype(bool), on_new[:, own])
        excess.append(guarantee.limit - np.nanmean(loss))
        spread.append(np.nanstd(loss) / np.sqrt(300 * np.mean(~np.isnan(loss))))
    assert len(excess) > 360
    broken = np.mean(np.array(excess) < 0.0)
    assert broken <= 0.1 + 3.0 * np.sqrt(0.1 * 0.9 / 400)
    # 1.28 would be the excess of a test that knows the distribution.
    assert np.mean(excess) <= 2.2 * np.mean(spread)


@pytest.mark.compiled
@pytest.mark.parametrize("text", ["recall >= 0.8", "false tags per row <= 0.8"])
def test_expectation_is_kept_on_average(rng, text):
    p_new, Y_new = draw(rng, 20_000)
    (guarantee,) = parse_guarantee(text)
    risk = []
    for _ in range(400):
        fitted = RiskController(text, confidence=None).fit(*draw(rng, 60))
        risk.append(np.nanmean(losses_of(guarantee.measure, fitted.predict(p_new).astype(bool), Y_new.astype(bool))))
    assert np.mean(risk) <= guarantee.limit + 3.0 * np.std(risk) / 20.0 + 0.01
    assert np.mean(risk) >= guarantee.limit - 0.15 * guarantee.limit


def test_several_promises_share_the_error(rng):
    p, Y = draw(rng, 3000)
    one = RiskController("recall >= 0.9").fit(p, Y)
    half = RiskController("recall >= 0.9", confidence=0.95).fit(p, Y)
    both = RiskController("recall >= 0.9 and precision >= 0.2").fit(p, Y)
    assert_array_equal(both.cuts_, half.cuts_)
    assert both.cuts_[0] < one.cuts_[0]
    assert "all of this holds together" in both.statement_
    own = RiskController("recall >= 0.8 and recall of 2 >= 0.95").fit(p, Y)
    assert own.cuts_[2] < own.cuts_[0] == own.cuts_[1]
    only = RiskController("precision of 2 >= 0.7").fit(p, Y)
    assert_array_equal(only.cuts_ == 0.5, [True, True, False, True, True])
    with pytest.raises(ValueError, match=r"no cut keeps 'recall >= 0\.95' and 'precision >= 0\.8' together"):
        RiskController("recall >= 0.95 and precision >= 0.8").fit(p, Y)
    # A label with a promise of its own does not break the one about all labels.
    tight = RiskController("false tags per row <= 0.5 and false tags per row of 1 <= 0.4").fit(p, Y)
    assert tight.cuts_[1] == tight.cuts_[0]


def test_dense_sparse_weights_names_and_clone(rng):
    p, Y = draw(rng, 400)
    names = ["sky", "sea", "rock and roll", "a of b", "x"]
    fitted = RiskController("recall of rock and roll >= 0.8 and precision >= 0.5", label_names=names).fit(p, Y)
    assert [g.label for g in fitted.guarantees_] == [2, None]
    again = clone(fitted).fit(p, sp.csr_matrix(Y), sample_weight=np.full(400, 2.0))
    assert_array_equal(again.cuts_, fitted.cuts_)
    assert "rock and roll" in fitted.statement_
    weight = np.ones(400)
    for value in (0.0, 2.0):
        weight[3] = value
        with pytest.raises(ValueError, match="sample_weight must be None or equal"):
            RiskController("recall >= 0.8").fit(p, Y, weight)
    with pytest.raises(ValueError, match="3 labels, the controller was fitted with 5"):
        fitted.predict(p[:, :3])


# -- Refusals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "confidence", "needed"),
    [
        ("recall >= 0.9", 0.9, 22),
        ("recall >= 0.9", None, 9),
        ("recall of 0 >= 0.9", 0.99, 44),
        ("recall >= 0.5", 0.99, 8),  # 0.5^7 < 0.01, but the bets need one row more
        ("precision >= 0.8", 0.9, 12),
        ("false tags per row <= 0.5", 0.9, 13),
        ("false tags per row <= 0.5", None, 5),
    ],
)
def test_too_few_rows_are_refused_with_the_number_needed(text, confidence, needed):
    """Rows without a mistake: the number said is enough, and one less is not."""
    Y = np.tile([1, 0, 0], (needed, 1))
    p = np.where(Y == 1, 0.9, 0.1)
    fitted = RiskController(text, confidence).fit(p, Y)
    assert_array_equal(fitted.predict(p)[:, 0], 1)
    with pytest.raises(ValueError, match=rf"^guarantee: {needed - 1} calibration rows.*needs at least {needed}\.$"):
        RiskController(text, confidence).fit(p[1:], Y[1:])
    RiskController(text, confidence).check(needed, 3)
    with pytest.raises(ValueError, match=rf"^guarantee: {needed - 1} calibration rows.*needs at least {needed}\.$"):
        RiskController(text, confidence).check(needed - 1, 3)


def test_what_is_promised_is_measured(rng):
    """By the definitions, in plain loops."""
    p, Y = draw(rng, 300)
    on = p > 0.6
    promises = (
        "recall >= 0.5",
        "precision >= 0.1",
        "false tags per row <= 4",
        "recall of 1 >= 0.1",
        "precision of 2 >= 0.1",
    )
    for text in promises:
        controller = RiskController(text, confidence=0.5).fit(p, Y)
        (guarantee,) = controller.guarantees_
        own = slice(None) if guarantee.label is None else [guarantee.label]
        loss = losses_of(guarantee.measure, on[:, own], Y[:, own].astype(bool))
        expected = np.nanmean(loss) if guarantee.measure.startswith("false") else 1.0 - np.nanmean(loss)
        assert controller.measured(Y, on.astype(int)) == {text: pytest.approx(expected)}


def test_cuts_keep_away_from_probabilities(rng):
    """Rounding of scores, which depends on how many rows are scored together, changes no label set."""
    p, Y = draw(rng, 400)
    p = p.round(2)
    for text in MEASURES:
        controller = RiskController(text).fit(p, Y)
        for moved in (p * (1.0 - 1e-12), p * (1.0 + 1e-12)):
            assert_array_equal(controller.predict(moved), controller.predict(p))


def test_three_rows_are_refused_in_one_sentence():
    with pytest.raises(ValueError) as error:
        RiskController("recall >= 0.9").fit(np.full((3, 2), 0.5), np.ones((3, 2)))
    assert str(error.value) == (
        "guarantee: 3 calibration rows with a true label cannot keep 'recall >= 0.9' at confidence 0.9: it needs at "
        "least 22."
    )
    with pytest.raises(ValueError, match=r"0 calibration rows with that label cannot keep 'recall of 1 >= 0\.9'"):
        RiskController("recall of 1 >= 0.9").fit(np.full((30, 2), 0.5), np.tile([1, 0], (30, 1)))


def test_scores_that_say_nothing_cannot_be_precise(rng):
    p, Y = rng.random((500, 4)), rng.random((500, 4)) < 0.3
    with pytest.raises(ValueError, match=r"precision is 0\.\d+ at the most promising cut; more rows .* would not help"):
        RiskController("precision >= 0.8").fit(p, Y)


def test_labels_that_never_vary():
    p, on = np.full((60, 2), 0.3), np.ones((60, 2))
    with pytest.raises(ValueError, match="precision is 0 at the most promising cut"):
        RiskController("precision >= 0.5").fit(p, 0 * on)
    assert_array_equal(RiskController("precision >= 0.5").fit(p, on).cuts_, -np.inf)
    assert RiskController("recall >= 0.5").fit(p, on).tags_per_row_ == 2.0
    assert RiskController("false tags per row <= 0.5").fit(p, 0 * on).tags_per_row_ == 0.0
    assert_array_equal(RiskController("false tags per row <= 0.5").fit(p, on).cuts_, -np.inf)


def test_the_number_of_rows_that_would_do_does():
    """One of 20 rows is wrong."""
    Y = np.tile([1] * 19 + [0], 100)[:, None]
    p = np.full(Y.shape, 0.5)
    with pytest.raises(ValueError, match=r"precision is 0\.9\d* at .*; about \d+ rows like these would do") as error:
        RiskController("precision >= 0.9", confidence=0.999).fit(p[:100], Y[:100])
    enough = int(str(error.value).split("about ")[1].split()[0])
    assert 150 < enough < 1000
    RiskController("precision >= 0.9", confidence=0.999).fit(p[: 2 * enough], Y[: 2 * enough])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("recal >= 0.9", "guarantee: unknown measure 'recal'; did you mean 'recall'"),
        ("recall <= 0.9", 'guarantee: say "recall >= ..."'),
        ("false tags per row >= 1", 'guarantee: say "false tags per row <= ..."'),
        ("recall >= 1.2", "between 0 and 1"),
        ("recall >= 90%", "not a number"),
        ("false tags per row <= 0", "positive"),
        ("recall", "must read like"),
        ("", "must read like"),
        ("recall >= 0.9 or so", "must read like"),
        (0.9, "must be a text"),
        ("recall of sports >= 0.9", "no names here, give the number of 'sports'"),
    ],
)
def test_texts_that_are_refused(text, message):
    with pytest.raises(ValueError, match=message):
        parse_guarantee(text)


def test_texts_and_labels(rng):
    assert parse_guarantee("Recall>=0.9 and false  tags per row of 3 ≤ 1") == (
        Guarantee("recall", 0.9),
        Guarantee("false tags per row", 1.0, 3),
    )
    (one,) = parse_guarantee("recall of rock and roll >= 0.9", ["rock", "rock and roll"])
    assert (one.label, str(one)) == (1, "recall of rock and roll >= 0.9")
    with pytest.raises(ValueError, match="guarantee: there is no label 'sport'; did you mean 'sports'"):
        parse_guarantee("recall of sport >= 0.9", ["sports", "news"])
    p, Y = draw(rng, 50)
    for guarantee, message in [
        ("recall of 5 >= 0.9", "is about label 5, but labels are 0 to 4"),
        ("false tags per row <= 5", "always kept by 5 labels"),
        ((), "at least one promise"),
    ]:
        with pytest.raises(ValueError, match=message):
            RiskController(guarantee).fit(p, Y)
    with pytest.raises(ValueError, match="one name per label"):
        RiskController("recall >= 0.5", label_names=["a"]).fit(p, Y)
    with pytest.raises(ValueError, match="not monotone"):
        RiskController("precision >= 0.5", confidence=None).fit(p, Y)


@pytest.mark.parametrize("confidence", [0.0, 1.0, 90, "0.9", True, np.nan])
def test_confidence_is_checked(confidence):
    with pytest.raises(ValueError, match="confidence must be a number between 0 and 1"):
        check_confidence(confidence)
    check_confidence(None)
