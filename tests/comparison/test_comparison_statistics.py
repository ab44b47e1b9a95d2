"""Ranks and tests against numbers derived by hand, and against the worked example of Demsar (2006)."""

from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from comargin.comparison import critical_difference, friedman_test, rank_models, wilcoxon_tests

# Demsar (2006), Table 6: ranks of C4.5, C4.5+m, C4.5+cf and C4.5+m+cf on fourteen data sets.
DEMSAR = np.array(
    [
        [4, 3, 2, 1],
        [1, 2, 3, 4],
        [4, 1, 2, 3],
        [4, 1, 3, 2],
        [4, 2, 3, 1],
        [1, 2.5, 4, 2.5],
        [3, 2, 4, 1],
        [2.5, 2.5, 4, 1],
        [4, 3, 2, 1],
        [2.5, 2.5, 2.5, 2.5],
        [4, 2.5, 1, 2.5],
        [3, 2, 4, 1],
        [4, 1, 2, 3],
        [3, 1, 4, 2],
    ]
)
NAMES = ["C4.5", "C4.5+m", "C4.5+cf", "C4.5+m+cf"]


@pytest.mark.parametrize("higher", [True, False])
def test_ranks_follow_the_direction_and_average_ties(higher):
    values = np.array([[0.1, 0.3, 0.2], [0.5, 0.5, 0.2], [0.4, 0.4, 0.4]])
    expected = np.array([[3, 1, 2], [1.5, 1.5, 3], [2, 2, 2]]) if higher else [[1, 3, 2], [2.5, 2.5, 1], [2, 2, 2]]
    assert_allclose(rank_models(values, higher), expected)


def test_rounding_errors_are_ties():
    assert_allclose(rank_models([[0.1 + 0.2, 0.3]], True), [[1.5, 1.5]])


def test_friedman_on_demsars_example():
    # The paper prints 9.28 and F = 3.69, without the correction for ties; that is 1 - sum(t^3 - t) / (N k (k^2 - 1)).
    correction = 1 - (3 * (2**3 - 2) + (4**3 - 4)) / (14 * 4 * 15)
    found = friedman_test(DEMSAR)
    assert_allclose(found.chi2 * correction, 9.28, atol=0.01)
    assert_allclose(found.f, 13 * found.chi2 / (14 * 3 - found.chi2))
    assert (found.n_models, found.n_blocks) == (4, 14)
    assert found.f_p_value < found.p_value < 0.05


def test_friedman_by_hand():
    # Ranks 1 2 3, 1 2 3, 1 3 2: sums 3, 7, 8; 12 / (3 * 3 * 4) * (9 + 49 + 64) - 3 * 3 * 4 = 14/3.
    found = friedman_test([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4], [0.9, 0.5, 0.7]])
    assert_allclose(found.chi2, 14 / 3)
    assert_allclose(found.p_value, np.exp(-14 / 6))  # two degrees of freedom
    assert_allclose(found.f, 2 * (14 / 3) / (6 - 14 / 3))


def test_friedman_at_its_ends():
    agree = friedman_test([[1, 2, 3], [1, 2, 3], [1, 2, 3]])
    assert agree.f == np.inf
    assert_allclose(agree.f_p_value, 1 / 36)  # two of three orders must be the first one, of six
    assert_allclose(friedman_test([[1, 2, 2], [3, 4, 4]]).f_p_value, 1 / 3)  # one of three places for the better one
    equal = friedman_test(np.ones((4, 3)))
    assert (equal.chi2, equal.p_value, equal.f_p_value) == (0.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="at least 3 models"):
        friedman_test([[1, 2], [2, 1]])


@pytest.mark.parametrize(("alpha", "printed"), [(0.05, 1.25), (0.10, 1.12)])
def test_critical_difference_on_demsars_example(alpha, printed):
    found = critical_difference(DEMSAR, NAMES, alpha)
    assert_allclose(found.difference, printed, atol=0.005)
    assert found.models == ("C4.5+m+cf", "C4.5+m", "C4.5+cf", "C4.5")
    assert_allclose(found.ranks, [1.964, 2.000, 2.893, 3.143], atol=0.001)
    # At 0.10 the paper tells C4.5 from both C4.5+m and C4.5+m+cf; at 0.05 nothing is told apart.
    assert found.groups == (((0, 3),) if alpha == 0.05 else ((0, 2), (2, 3)))


# Demsar (2006), Table 5 (a): critical values of the two-tailed Nemenyi test at 0.05, for 2 to 10 models.
@pytest.mark.parametrize(
    ("n_models", "q"),
    [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)],
)
def test_nemenyi_quantiles_are_the_printed_ones(n_models, q):
    ranks = np.tile(np.arange(1.0, n_models + 1), (5, 1))
    found = critical_difference(ranks, [str(k) for k in range(n_models)])
    assert_allclose(found.difference / np.sqrt(n_models * (n_models + 1) / 30), q, atol=0.0015)


def test_groups_are_the_longest_runs():
    ranks = np.array([[1, 2, 3, 4, 5]] * 40)
    names = list("abcde")
    found = critical_difference(ranks, names)
    assert 0.5 < found.difference < 1
    assert found.groups == ()
    wide = critical_difference(ranks[:6], names)  # 2.49: three in a row
    assert 2 < wide.difference < 3
    assert wide.groups == ((0, 2), (1, 3), (2, 4))


def brute_wilcoxon(differences):
    """Two-sided p-value by going through all signs; differences are distinct and not zero."""
    ranks = np.argsort(np.argsort(np.abs(differences))) + 1
    observed = ranks[differences > 0].sum()
    middle = ranks.sum() / 2
    sums = np.array([ranks[np.array(signs)].sum() for signs in product([False, True], repeat=len(ranks))])
    return np.mean(np.abs(sums - middle) >= abs(observed - middle) - 1e-9)


def test_wilcoxon_against_all_signs(rng):
    values = rng.normal(loc=[0.0, 0.5, 1.5], size=(8, 3))
    found = {(pair.first, pair.second): pair for pair in wilcoxon_tests(values, list("abc"), True)}
    assert list(found) == [("a", "b"), ("a", "c"), ("b", "c")]
    for (first, second), pair in found.items():
        gain = values[:, "abc".index(first)] - values[:, "abc".index(second)]
        assert_allclose(pair.p_value, brute_wilcoxon(gain))
        assert (pair.wins, pair.losses, pair.ties) == ((gain > 0).sum(), (gain < 0).sum(), 0)


def test_holm_steps_down():
    from comargin.comparison._statistics import _holm

    assert_allclose(_holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    assert_allclose(_holm([0.5, 0.9]), [1.0, 1.0])


def test_wilcoxon_of_equal_models_and_of_losses():
    same = wilcoxon_tests([[0.1, 0.1], [0.2, 0.2]], ["a", "b"], True)[0]
    assert (same.ties, same.p_value) == (2, 1.0)
    losses = wilcoxon_tests([[0.1, 0.3], [0.2, 0.3]], ["a", "b"], higher_is_better=False)[0]
    assert (losses.wins, losses.losses) == (2, 0)


@pytest.mark.parametrize("bad", [[1.0, 2.0], [[1.0, np.nan]], np.empty((0, 2))])
def test_bad_values_are_refused(bad):
    with pytest.raises(ValueError, match="values must be finite"):
        rank_models(bad, True)


@pytest.mark.parametrize(("change", "message"), [({"alpha": 1.0}, "alpha"), ({"models": ["a"]}, "models")])
def test_bad_arguments_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        critical_difference(**({"ranks": [[1, 2], [1, 2]], "models": ["a", "b"]} | change))
