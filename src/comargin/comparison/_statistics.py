"""Tests of several models on several data sets: average ranks, Friedman, Nemenyi, Wilcoxon (Demsar, 2006)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

_DIGITS = 12  # values that differ in later digits are equal: rounding alone does that

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class FriedmanTest:
    """Whether the models differ at all.

    Attributes
    ----------
    chi2, p_value : float
        Friedman's statistic, corrected for ties, and its p-value; chi-squared with ``n_models - 1`` degrees of freedom.
    f, f_p_value : float
        Iman and Davenport's statistic, less conservative, and its p-value; F with ``n_models - 1`` and
        ``(n_models - 1) (n_blocks - 1)`` degrees of freedom. When all blocks agree, F is infinite, and the p-value is
        the share of all orders of the models that agree so.
    n_models, n_blocks : int
        Numbers of models, and of data sets (or splits).
    """

    chi2: float
    p_value: float
    f: float
    f_p_value: float
    n_models: int
    n_blocks: int


@dataclass(frozen=True)
class PairTest:
    """Wilcoxon's signed-rank test of two models.

    Attributes
    ----------
    first, second : str
        The models.
    wins, losses, ties : int
        Blocks on which the first is better, worse, equal.
    p_value, p_holm : float
        Two-sided, a difference of zero counts half for either side; and corrected by Holm's method for all pairs.
    """

    first: str
    second: str
    wins: int
    losses: int
    ties: int
    p_value: float
    p_holm: float


@dataclass(frozen=True, eq=False)
class CriticalDifference:
    """Average ranks, and by how much two of them must differ (Nemenyi's test).

    Attributes
    ----------
    models : tuple of str
        By average rank, the best first.
    ranks : ndarray of shape (n_models,)
        Their average ranks, 1 is the best.
    difference, alpha : float
        The critical difference at the level alpha.
    n_blocks : int
        Data sets (or splits) ranked.
    groups : tuple of (int, int)
        Longest runs of models, first and last as positions in ``models``, no two of which differ significantly.
    """

    models: tuple[str, ...]
    ranks: FloatArray
    difference: float
    alpha: float
    n_blocks: int
    groups: tuple[tuple[int, int], ...]


def rank_models(values: Any, higher_is_better: bool) -> FloatArray:
    """Rank the models of every block, 1 is the best; equal ones share the mean of their ranks.

    Parameters
    ----------
    values : array-like of shape (n_blocks, n_models)
        One measure, without nan.
    higher_is_better : bool
        Which way it points.

    Examples
    --------
    >>> rank_models([[0.7, 0.9, 0.7]], higher_is_better=True)
    array([[2.5, 1. , 2.5]])
    """
    from scipy.stats import rankdata

    rounded = np.round(_checked(values), _DIGITS)
    return np.asarray(rankdata(-rounded if higher_is_better else rounded, axis=1), dtype=np.float64)


def friedman_test(values: Any) -> FriedmanTest:
    """Test whether at least three models differ on several blocks.

    Parameters
    ----------
    values : array-like of shape (n_blocks, n_models)
        One measure, or ranks; its direction does not matter.

    Examples
    --------
    >>> found = friedman_test([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4], [0.9, 0.5, 0.7]])  # ranks 1 2 3, 1 2 3, 1 3 2
    >>> round(found.chi2, 6), round(found.p_value, 6)
    (4.666667, 0.096972)
    """
    from scipy.stats import chi2 as chi2_distribution
    from scipy.stats import f as f_distribution
    from scipy.stats import friedmanchisquare

    table = np.round(_checked(values), _DIGITS)
    n_blocks, n_models = table.shape
    if n_models < 3 or n_blocks < 2:
        raise ValueError(
            f"values must be of at least 3 models on at least 2 blocks for Friedman's test, got {n_models} models on "
            f"{n_blocks} blocks"
        )
    if (table == table[:, :1]).all():  # 0/0 in the correction for ties: nothing differs
        return FriedmanTest(0.0, 1.0, 0.0, 1.0, n_models, n_blocks)
    chi2 = float(friedmanchisquare(*table.T).statistic)
    rest = n_blocks * (n_models - 1) - chi2
    degrees = n_models - 1
    if rest <= 1e-9 * n_blocks:  # 0 up to rounding: all blocks agree, which by chance happens as often as this
        orders = factorial(n_models) / prod(factorial(n) for n in np.unique(table[0], return_counts=True)[1].tolist())
        f, f_p_value = np.inf, orders ** (1.0 - n_blocks)
    else:
        f = (n_blocks - 1) * chi2 / rest
        f_p_value = float(f_distribution.sf(f, degrees, degrees * (n_blocks - 1)))
    return FriedmanTest(chi2, float(chi2_distribution.sf(chi2, degrees)), float(f), f_p_value, n_models, n_blocks)


def critical_difference(ranks: Any, models: Sequence[str], alpha: float = 0.05) -> CriticalDifference:
    r"""Nemenyi's test: average ranks that differ by less than the critical difference are not told apart.

    .. math:: CD = q_\alpha \sqrt{k (k + 1) / (6 N)}

    for k models on N blocks, where :math:`q_\alpha` is the studentised range over the square root of two.

    Parameters
    ----------
    ranks : array-like of shape (n_blocks, n_models)
        Ranks of every block, as `rank_models` gives them.
    models : sequence of str
        Names of the columns.
    alpha : float, default=0.05
        Level of the test, between 0 and 1.

    Examples
    --------
    >>> found = critical_difference([[1, 2, 3], [1, 2, 3], [2, 1, 3], [1, 3, 2]], ["a", "b", "c"])
    >>> found.models, found.ranks, round(found.difference, 3)
    (('a', 'b', 'c'), array([1.25, 2.  , 2.75]), 1.657)
    >>> found.groups
    ((0, 2),)
    """
    from scipy.stats import studentized_range

    table = _checked(ranks)
    n_blocks, n_models = table.shape
    if len(models) != n_models or n_models < 2:
        raise ValueError(f"models must name the {n_models} columns of ranks, at least 2; got {list(models)}")
    if not 0.0 < alpha < 1.0:
        raise ValueError(f"alpha must be between 0 and 1, got {alpha!r}")
    quantile = studentized_range.isf(alpha, n_models, np.inf) / np.sqrt(2.0)
    difference = float(quantile * np.sqrt(n_models * (n_models + 1) / (6.0 * n_blocks)))
    means = table.mean(axis=0)
    order = np.argsort(means, kind="stable")
    return CriticalDifference(
        tuple(models[k] for k in order), means[order], difference, alpha, n_blocks, _runs(means[order], difference)
    )


def _runs(ranks: FloatArray, difference: float) -> tuple[tuple[int, int], ...]:
    """Longest runs of sorted ranks whose ends differ by at most the critical difference."""
    runs: list[tuple[int, int]] = []
    for first, rank in enumerate(ranks):
        last = int(np.searchsorted(ranks, rank + difference, side="right")) - 1
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return tuple(runs)


def wilcoxon_tests(values: Any, models: Sequence[str], higher_is_better: bool) -> list[PairTest]:
    """Wilcoxon's signed-rank test of every pair of models.

    Parameters
    ----------
    values : array-like of shape (n_blocks, n_models)
        One measure, without nan.
    models : sequence of str
        Names of the columns.
    higher_is_better : bool
        Which way the measure points.

    Examples
    --------
    >>> tests = wilcoxon_tests([[0.9, 0.8], [0.8, 0.6], [0.7, 0.4], [0.6, 0.2], [0.5, 0.0]], ["a", "b"], True)
    >>> tests[0].wins, tests[0].p_value  # all five signs agree: 2 / 2^5
    (5, 0.0625)
    """
    from scipy.stats import wilcoxon

    table = _checked(values)
    if len(models) != table.shape[1]:
        raise ValueError(f"models must name the {table.shape[1]} columns of values, got {list(models)}")
    sign = 1.0 if higher_is_better else -1.0
    pairs = list(combinations(range(len(models)), 2))
    gains = [np.round(sign * (table[:, a] - table[:, b]), _DIGITS) for a, b in pairs]
    p_values = [float(wilcoxon(gain, zero_method="zsplit").pvalue) if gain.any() else 1.0 for gain in gains]
    return [
        PairTest(
            models[a],
            models[b],
            int(np.count_nonzero(gain > 0)),
            int(np.count_nonzero(gain < 0)),
            int(np.count_nonzero(gain == 0)),
            p_value,
            float(p_holm),
        )
        for (a, b), gain, p_value, p_holm in zip(pairs, gains, p_values, _holm(p_values), strict=True)
    ]


def _holm(p_values: list[float]) -> FloatArray:
    """Holm's step-down correction: the k-th smallest of m is multiplied by m - k + 1, and none falls below the last."""
    order = np.argsort(p_values, kind="stable")
    stepped = np.arange(len(p_values), 0, -1) * np.asarray(p_values)[order]
    corrected = np.empty(len(p_values))
    corrected[order] = np.maximum.accumulate(np.minimum(stepped, 1.0))
    return corrected


def _checked(values: Any) -> FloatArray:
    table = np.asarray(values, dtype=np.float64)
    if table.ndim != 2 or 0 in table.shape or not np.isfinite(table).all():
        raise ValueError(f"values must be finite, of shape (n_blocks, n_models); got shape {table.shape}")
    return table


_SPLIT_CAVEAT = (
    "Splits of one data set share training rows, so these p-values are too small, and they speak of this data set only."
)


@dataclass(frozen=True, eq=False)
class Blocks:
    """Values of one measure, arranged for ranks and tests.

    Attributes
    ----------
    values : ndarray of shape (n_blocks, n_models)
        Means of data sets; values of splits when there is one data set.
    models : tuple of str
        Columns.
    names : tuple of str
        Rows: data sets, or "split 0" and so on.
    over : {"data sets", "splits"}
        Meaning of the rows.
    higher_is_better : bool
        Which way the measure points.
    left_out : tuple of str
        Models and data sets (splits) that are missing because cells failed or the measure is not defined.
    """

    values: FloatArray
    models: tuple[str, ...]
    names: tuple[str, ...]
    over: str
    higher_is_better: bool
    left_out: tuple[str, ...]

    @property
    def ranks(self) -> FloatArray:
        """Ranks of the models in every block, 1 is the best."""
        return rank_models(self.values, self.higher_is_better)

    @property
    def caveat(self) -> str:
        """Warning about p-values over splits; empty over data sets."""
        return _SPLIT_CAVEAT if self.over == "splits" and self.testable else ""

    @property
    def testable(self) -> bool:
        """Whether there are two models on two blocks."""
        return len(self.models) >= 2 and len(self.names) >= 2


def make_blocks(
    values: FloatArray, datasets: tuple[str, ...], models: tuple[str, ...], higher_is_better: bool
) -> Blocks:
    """Keep the models with any complete block, and the blocks (data sets; splits if there is one) that all share."""
    finite: NDArray[np.bool_] = np.isfinite(values)
    if len(datasets) > 1:
        over, names = "data sets", list(datasets)
        # Where no model has a value, the measure is not defined on that split.
        defined = np.expand_dims(finite.any(axis=1), 1)
        complete = (finite | ~defined).all(axis=2) & defined.any(axis=2)
        means = np.where(finite, values, 0.0).sum(axis=2) / np.maximum(defined.sum(axis=2), 1)
        table = np.where(complete, means, np.nan)
    else:
        over, names = "splits", [f"split {k}" for k in range(values.shape[2])]
        table = values[0].T
    known: NDArray[np.bool_] = np.isfinite(table)
    columns = np.flatnonzero(known.any(axis=0))
    rows = np.flatnonzero(known[:, columns].all(axis=1)) if columns.size else columns
    kept_models, kept_names = tuple(models[k] for k in columns), tuple(names[k] for k in rows)
    left_out = [name for name in models if name not in kept_models] + [name for name in names if name not in kept_names]
    return Blocks(table[np.ix_(rows, columns)], kept_models, kept_names, over, higher_is_better, tuple(left_out))


def summary_of(blocks: Blocks, alpha: float) -> str:
    """Average ranks, the three tests and what was left out, in sentences."""
    lacking = [f"Left out: {', '.join(blocks.left_out)}."] if blocks.left_out else []
    if not blocks.testable:
        return " ".join([f"No tests: they need two models on two {blocks.over}.", *lacking])
    found = critical_difference(blocks.ranks, blocks.models, alpha)
    means = ", ".join(f"{name} {rank:.2f}" for name, rank in zip(found.models, found.ranks, strict=True))
    lines = [f"Average ranks over {len(blocks.names)} {blocks.over}: {means}."]
    if len(blocks.models) > 2:
        test = friedman_test(blocks.values)
        lines.append(
            f"Friedman: chi2 = {test.chi2:.3g}, p = {test.p_value:.2g}; Iman-Davenport: F = {test.f:.3g}, "
            f"p = {test.f_p_value:.2g}."
        )
    lines.append(f"Nemenyi, level {alpha:g}: average ranks must differ by {found.difference:.2f}.")
    differing = [
        f"{pair.first} and {pair.second} ({pair.wins}:{pair.losses}, p = {pair.p_holm:.2g})"
        for pair in wilcoxon_tests(blocks.values, blocks.models, blocks.higher_is_better)
        if pair.p_holm < alpha
    ]
    lines.append(f"Wilcoxon with Holm: {'; '.join(differing) if differing else 'no pair differs'}.")
    return " ".join(lines + lacking)
