"""The result of `compare`: all cells, with tables, ranks and tests of the models."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core.wording import did_you_mean
from ..metrics import higher_is_better
from ..report.theme import Figure
from ._results import FIXED, Record, read_results
from ._statistics import (
    Blocks,
    CriticalDifference,
    FloatArray,
    FriedmanTest,
    PairTest,
    critical_difference,
    friedman_test,
    make_blocks,
    summary_of,
    wilcoxon_tests,
)
from ._tables import MeasureTable, Style, column_tables
from .diagram import diagram_figure, diagram_text

DEFAULT_MEASURES = ("hamming_loss", "subset_accuracy", "micro_f1", "macro_f1", "ranking_loss", "average_precision")
SECONDS = ("tune_seconds", "fit_seconds", "predict_seconds")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Models measured on the same splits of the same data sets.

    Methods take a ``measure``: one that was recorded, or "tune_seconds", "fit_seconds" or "predict_seconds". Tests take
    their level ``alpha``.

    Attributes
    ----------
    cells : list of dict
        One for each data set, split and model, in this order: the rows of the results file.
        ``pandas.DataFrame(comparison.cells)`` makes a table of it.
    datasets, models : tuple of str
        What was compared, in the order given.
    measures : tuple of str
        Measures in tables and texts; methods take every measure that was recorded.

    Examples
    --------
    >>> from dataclasses import replace
    >>> from comargin.comparison import compare
    >>> from comargin.data import make_correlated
    >>> data = [make_correlated(60, n_features=4, n_labels=3, seed=seed) for seed in (0, 1)]
    >>> data = [replace(one, name=f"toy {k}") for k, one in enumerate(data)]
    >>> found = compare(data, ["ovr", "knn"], folds=2, measures=["micro_f1"], tune=False)
    >>> found.table("micro_f1").datasets
    ('toy 0', 'toy 1')
    >>> sorted(found.ranks("micro_f1")) == ["knn", "ovr"]
    True
    """

    cells: list[Record]
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    measures: tuple[str, ...]

    @classmethod
    def read(cls, path: str | os.PathLike[str], measures: Sequence[str] | None = None) -> "Comparison":
        """Read the cells of a results file of `compare`, finished or not; of a cell that was run again, the last row.

        The file must hold one definition of every model, and the same splits for all. Data sets and models are sorted
        by name. Tables show ``measures``; None means the usual ones.
        """
        recorded, records = read_results(path)
        latest = {record["cell"]: record for record in records}
        if not latest:
            raise ValueError(f"results: {path} holds no finished cell")
        cells = list(latest.values())
        for column, same_for, what in (
            ("data", ("dataset",), "versions of the data set"),
            ("protocol", ("dataset",), "ways to split the data set"),
            ("seed", ("dataset",), "seeds for the data set"),
            ("definition", ("dataset", "model"), "definitions (parameters, grids or settings) of"),
        ):
            _check_one(cells, column, same_for, what, path)
        chosen = tuple(measures) if measures is not None else tuple(m for m in DEFAULT_MEASURES if m in recorded)
        # Sorted, as the order of the file is that in which processes finished, another one in every run.
        datasets, models = (tuple(sorted({cell[name] for cell in cells})) for name in ("dataset", "model"))
        order = sorted(cells, key=lambda c: (datasets.index(c["dataset"]), c["split"], models.index(c["model"])))
        return cls(order, datasets, models, chosen)

    @property
    def failed(self) -> list[Record]:
        """Cells that ended with an error."""
        return [cell for cell in self.cells if cell["error"]]

    def values(self, measure: str) -> FloatArray:
        """One measure as an array of shape (n_datasets, n_models, n_splits).

        It is nan where a cell failed or is missing, or the measure is not defined.
        """
        recorded = [*SECONDS, *(name for name in self.cells[0] if name not in FIXED)]
        if measure not in recorded:
            raise ValueError(f"measure {measure!r} was not recorded; {did_you_mean(str(measure), recorded)}")
        n_splits = 1 + max(cell["split"] for cell in self.cells)
        found = np.full((len(self.datasets), len(self.models), n_splits), np.nan)
        for cell in self.cells:
            if cell[measure] is not None:
                row, column = self.datasets.index(cell["dataset"]), self.models.index(cell["model"])
                found[row, column, cell["split"]] = cell[measure]
        return found

    def table(self, measure: str) -> MeasureTable:
        """Mean and standard deviation over the splits for every data set and model, with the average ranks."""
        values = np.ma.masked_invalid(self.values(measure))
        counts = values.count(axis=2)
        # Where no model has a value, the measure is not defined on that split.
        n_defined = (~np.ma.getmaskarray(values)).any(axis=1).sum(axis=1)
        ranks = self.ranks(measure)
        return MeasureTable(
            measure,
            _higher(measure),
            self.datasets,
            self.models,
            np.ma.filled(values.mean(axis=2), np.nan),
            np.ma.filled(values.std(axis=2, ddof=1), np.nan),
            counts,
            counts == n_defined[:, None],
            np.array([ranks.get(name, np.nan) for name in self.models]),
        )

    def blocks(self, measure: str) -> Blocks:
        """Values of a measure, arranged for ranks and tests.

        The blocks are the data sets on which every model has all its splits; with one data set, the splits on which
        every model has a value. A model that has none at all is left out first.
        """
        return make_blocks(self.values(measure), self.datasets, self.models, _higher(measure))

    def ranks(self, measure: str) -> dict[str, float]:
        """Average rank of every model over the blocks, 1 is the best, ties averaged; empty without a common block."""
        blocks = self.blocks(measure)
        if not blocks.names:
            return {}
        return dict(zip(blocks.models, blocks.ranks.mean(axis=0).tolist(), strict=True))

    def friedman(self, measure: str) -> FriedmanTest:
        """Friedman's test whether the models differ at all; it needs at least three models and two blocks."""
        return friedman_test(self._blocks_of_test(measure).values)

    def wilcoxon(self, measure: str) -> list[PairTest]:
        """Wilcoxon's signed-rank tests of all pairs, with p-values as they are and corrected for all pairs."""
        blocks = self._blocks_of_test(measure)
        return wilcoxon_tests(blocks.values, blocks.models, blocks.higher_is_better)

    def critical_difference(self, measure: str, alpha: float = 0.05) -> CriticalDifference:
        """Nemenyi's test of all pairs: average ranks, and by how much two of them must differ."""
        blocks = self._blocks_of_test(measure)
        return critical_difference(blocks.ranks, blocks.models, alpha)

    def critical_difference_figure(self, measure: str, alpha: float = 0.05) -> Figure:
        """The critical-difference diagram of Demsar (2006), for `comargin.report.save_figure`."""
        found = self.critical_difference(measure, alpha)
        return diagram_figure(found, measure, self.over(measure))

    def critical_difference_text(self, measure: str, alpha: float = 0.05) -> str:
        """The same diagram as text: a line per model, the best first.

        Models that are joined by a column of bars do not differ significantly.
        """
        return diagram_text(self.critical_difference(measure, alpha), measure, self.over(measure))

    def summary(self, measure: str, alpha: float = 0.05) -> str:
        """Results of the tests of a measure, in sentences.

        Average ranks, Friedman's test, Nemenyi's critical difference, the pairs that differ by Wilcoxon's test after
        Holm's correction; what was left out, and the caveat when all blocks are of one data set.
        """
        blocks = self.blocks(measure)
        return f"{summary_of(blocks, alpha)} {blocks.caveat}".strip()

    def notes(self) -> list[str]:
        """Failures, missing cells, warnings, and versions that differ, a sentence each."""
        found = [
            f"{cell['model']} failed on {cell['dataset']}, split {cell['split']}: {cell['error']}"
            for cell in self.failed
        ]
        splits = {(cell["dataset"], cell["split"]) for cell in self.cells}
        missing = len(splits) * len(self.models) - len(self.cells)
        if missing:
            found.append(f"{missing} cells are missing.")
        warned = [cell for cell in self.cells if cell["warnings"]]
        if warned:
            models = ", ".join(dict.fromkeys(cell["model"] for cell in warned))
            found.append(f"{len(warned)} cells ended with warnings ({models}); see the column warnings.")
        versions = list(dict.fromkeys(cell["versions"] for cell in self.cells))
        if len(versions) > 1:
            found.append(f"Cells were made with different versions: {'; '.join(versions)}.")
        return found

    def to_text(self, measures: Sequence[str] | None = None, *, digits: int = 3) -> str:
        """Tables of the measures (None: ``measures``), tests and notes for a terminal.

        A star marks the best of each column, a question mark a mean over fewer splits than others have.
        """
        return self._document(Style.TEXT, measures, digits)

    def to_markdown(self, measures: Sequence[str] | None = None, *, digits: int = 3) -> str:
        """The same in Markdown, with the best of each column in bold."""
        return self._document(Style.MARKDOWN, measures, digits)

    def to_latex(self, measures: Sequence[str] | None = None, *, digits: int = 3) -> str:
        """The tables as LaTeX with booktabs rules, the best of each column in bold; tests and notes as comments."""
        return self._document(Style.LATEX, measures, digits)

    def __str__(self) -> str:
        return self.to_text()

    def _document(self, style: Style, measures: Sequence[str] | None, digits: int) -> str:
        shown = self.measures if measures is None else tuple(measures)
        protocol = ", ".join(dict.fromkeys(cell["protocol"] for cell in self.cells))
        parts = column_tables([self.table(name) for name in shown], style, digits, protocol)
        blocks = {name: self.blocks(name) for name in shown}
        said = [f"{name}: {summary_of(one, 0.05)}" for name, one in blocks.items()]
        caveats = dict.fromkeys(one.caveat for one in blocks.values() if one.caveat)
        parts.append(style.listed([*said, *caveats, *self.notes()]))
        return "\n\n".join(parts) + "\n"

    def over(self, measure: str) -> str:
        """What ranks are averages over: "data sets", or the splits of the only one."""
        blocks = self.blocks(measure)
        return blocks.over if len(self.datasets) > 1 else f"splits of {self.datasets[0]}"

    def _blocks_of_test(self, measure: str) -> Blocks:
        blocks = self.blocks(measure)
        if not blocks.testable:
            lacking = f"; left out: {', '.join(blocks.left_out)}" if blocks.left_out else ""
            raise ValueError(
                f"measure {measure!r}: tests need at least two models on two {blocks.over}, there are "
                f"{len(blocks.models)} models on {len(blocks.names)} {blocks.over}{lacking}"
            )
        return blocks


def _higher(measure: str) -> bool:
    return measure not in SECONDS and higher_is_better[measure]


def _check_one(cells: list[Record], column: str, same_for: tuple[str, ...], what: str, path: Any) -> None:
    seen: dict[tuple[str, ...], Any] = {}
    for cell in cells:
        key = tuple(cell[name] for name in same_for)
        if seen.setdefault(key, cell[column]) != cell[column]:
            raise ValueError(
                f"results: {path} holds two {what} {' / '.join(key)} (column {column}: {seen[key]!r} and "
                f"{cell[column]!r}), which are no comparison: call compare() with the one you mean, or use another file"
            )
