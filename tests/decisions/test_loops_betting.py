"""The bets in plain Python, their error and their order; the walk, and one test after the other at every cut."""

import numpy as np
import pytest
from tests.decisions.naive_promise import draw, losses_of, naive_wins

from comargin.decisions import RiskController, parse_guarantee
from comargin.decisions import _cut_tests as promise
from comargin.decisions._loops_betting import wins


def test_bets_are_those_of_the_formula(rng):
    outcomes = []
    for _ in range(200):
        n, alpha, top = int(rng.integers(5, 80)), 0.3, float(rng.choice([1.0, 4.0]))
        loss = np.where(rng.random(n) < 0.1, -1.0, rng.beta(0.3, 1.5, n) * top)
        spread = 0.3 * np.sqrt(np.arange(n, 0, -1)) * (0.5 + rng.random())
        outcomes.append(wins(loss, alpha, top, spread, promise._BELL, 0.2))
        assert outcomes[-1] == naive_wins(loss, alpha, top, spread, 0.2)
    assert 0.1 < np.mean(outcomes) < 0.9


def test_lower_losses_and_higher_limits_never_lose(rng):
    changed = 0
    for _ in range(2000):
        n = int(rng.integers(5, 60))
        loss, spread = rng.beta(0.3, 1.2, n), 0.4 * np.sqrt(np.arange(n, 0, -1)) * (0.2 + rng.random(n))
        alpha = float(rng.uniform(0.1, 0.5))
        before = wins(loss, alpha, 1.0, spread, promise._BELL, 0.1)
        after = wins(loss * rng.random(n) ** 0.3, alpha, 1.0, spread, promise._BELL, 0.1)
        higher = wins(loss, alpha + 0.1, 1.0, spread, promise._BELL, 0.1)
        assert (after and higher) or not before
        changed += after != before
    assert changed > 50


@pytest.mark.compiled
@pytest.mark.parametrize("kind", ["all or nothing", "thirds", "smooth", "rare and large"])
@pytest.mark.parametrize("n", [40, 400])
def test_bets_err_at_the_level_and_are_sharp(rng, kind, n):
    """At the limit they win in at most delta of the draws; 2.5 standard errors below it in most."""

    def share(mean, sd_at):
        won, spread = 0, sd_at * np.sqrt(np.arange(n, 0, -1))
        for _ in range(3000):
            if kind == "all or nothing":
                loss = (rng.random(n) < mean).astype(float)
            elif kind == "thirds":
                loss = rng.binomial(3, mean, n) / 3.0
            elif kind == "smooth":
                loss = rng.beta(4.0 * mean, 4.0 * (1.0 - mean), n)
            else:
                loss = 8.0 * (rng.random(n) < mean / 8.0)
            won += wins(loss, 0.2, 8.0 if kind == "rare and large" else 1.0, spread, promise._BELL, 0.1)
        return won / 3000

    variance = {"all or nothing": 0.16, "thirds": 0.16 / 3, "smooth": 0.16 / 5, "rare and large": 8 * 0.2 - 0.04}[kind]
    sd = np.sqrt(variance)
    assert share(0.2, sd) <= 0.1 + 3.0 * np.sqrt(0.1 * 0.9 / 3000)
    assert share(0.2, 0.1 * sd) <= 0.1 + 3.0 * np.sqrt(0.1 * 0.9 / 3000)  # whatever the spread says
    if kind != "rare and large":
        assert share(0.2 - 2.5 * sd / np.sqrt(n), sd) >= 0.7


@pytest.mark.parametrize(
    "text",
    ["recall >= 0.8", "precision >= 0.6", "false tags per row <= 0.8", "recall of 1 >= 0.7", "precision of 1 >= 0.6"],
)
@pytest.mark.parametrize("rounded", [False, True])
def test_every_cut_is_tested_in_turn(rng, text, rounded):
    """The walk by stretches stops at the cut at which one test after the other stops."""
    for _ in range(3):
        p, Y = draw(rng, 300)
        p = p.round(1) if rounded else p
        true = Y.astype(bool)
        order = np.random.default_rng(0).permutation(len(p))
        (guarantee,) = parse_guarantee(text)
        own = slice(None) if guarantee.label is None else [guarantee.label]
        P, true = p[order][:, own], true[order][:, own]
        tests = promise.run_tests(
            promise.losses_along_cuts(guarantee.measure, guarantee.limit, p[:, own], Y.astype(bool)[:, own], order), 0.1
        )
        if guarantee.measure == "recall":
            P, true = P[true.any(axis=1)], true[true.any(axis=1)]
        elif guarantee.measure == "precision":
            P, true = P[len(P) // 8 :], true[len(P) // 8 :]
        low, high = tests.allowed()
        rising = guarantee.measure == "recall"
        cuts = np.unique(P) if rising else np.unique(P)[::-1]
        cuts = cuts[cuts <= high] if guarantee.measure == "precision" else cuts
        passed = []
        for cut in cuts:
            loss = losses_of(guarantee.measure, cut < P, true)
            top = float(P.shape[1]) if guarantee.measure.startswith("false") else 1.0
            if not naive_wins(np.nan_to_num(loss, nan=-1.0), guarantee.limit, top, tests.spread, 0.1):
                break
            passed.append(cut)
        assert 0 < len(passed) < len(cuts)
        if rising:  # the next cut is the first that fails; every cut below it passes
            np.testing.assert_array_equal(high < P, cuts[len(passed)] <= P)
        else:
            np.testing.assert_array_equal(low < P, passed[-1] < P)
        fitted = RiskController(text).fit(p, Y)
        assert fitted.risk_curves_[0].allowed == (low, high)
        assert fitted.cuts_[1] == (high if rising else low)
