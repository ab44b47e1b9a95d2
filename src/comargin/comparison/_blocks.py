"""Values of one measure arranged for tests: models that are measured on the same blocks."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._statistics import FloatArray, critical_difference, friedman_test, rank_models, wilcoxon_tests

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
