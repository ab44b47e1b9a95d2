"""Means and deviations as tables: plain text, Markdown, LaTeX."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.checks import whole_number
from ._statistics import FloatArray

_LATEX_SPECIAL = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {sign: f"\\{sign}" for sign in "&%$#_{}"}
)


@dataclass(frozen=True, eq=False)
class MeasureTable:
    """One measure of all models on all data sets.

    Attributes
    ----------
    measure : str
        Its name.
    higher_is_better : bool
        Which way it points.
    datasets, models : tuple of str
        Rows and columns.
    mean, deviation : ndarray of shape (n_datasets, n_models)
        Mean and standard deviation (with n - 1) over the splits that have a value; nan where there are none.
    counts : int ndarray of shape (n_datasets, n_models)
        Number of these splits.
    complete : bool ndarray of shape (n_datasets, n_models)
        Whether they are all splits on which any model has a value.
    average_ranks : ndarray of shape (n_models,)
        As `Comparison.ranks`; nan for models left out there.
    """

    measure: str
    higher_is_better: bool
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    mean: FloatArray
    deviation: FloatArray
    counts: NDArray[np.int64]
    complete: NDArray[np.bool_]
    average_ranks: FloatArray


class Style(Enum):
    """How tables, and lists of sentences, are written."""

    TEXT = "text"
    MARKDOWN = "markdown"
    LATEX = "latex"

    def plain(self, text: str) -> str:
        """A text with the markup of the format escaped."""
        if self is Style.LATEX:
            return text.translate(_LATEX_SPECIAL)
        if self is Style.MARKDOWN:
            return re.sub(r"[\\|*_`<>\[\]]", r"\\\g<0>", text)
        return text

    def number(self, value: float, spread: float, is_best: bool, is_complete: bool, digits: int) -> str:
        """A mean with its deviation, marked if it is the best or made of fewer splits."""
        if not np.isfinite(value):
            return "-" if self is not Style.LATEX else "--"
        mean = f"{value:.{digits}f}"
        deviation = f"{spread:.{digits}f}" if np.isfinite(spread) else ""
        if self is Style.LATEX:
            mean = rf"\mathbf{{{mean}}}" if is_best else mean
            mark = "" if is_complete else "^{?}"
            return f"${mean}{mark}" + (rf" \pm {deviation}$" if deviation else "$")
        mark = "" if is_complete else "?"
        if self is Style.MARKDOWN:
            mean = f"**{mean}**" if is_best else mean
            return f"{mean}{mark}" + (f" \u00b1 {deviation}" if deviation else "")
        return f"{mean}{' +- ' + deviation if deviation else ''}{mark or ('*' if is_best else ' ')}"

    def listed(self, sentences: Sequence[str]) -> str:
        """Sentences one below the other; comments in LaTeX."""
        if self is Style.LATEX:
            return "\n".join(f"% {sentence}" for sentence in sentences)
        return "\n".join(f"- {self.plain(sentence)}" for sentence in sentences)

    def table(self, caption: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        """A table; the first column is to the left, the others are to the right. Cells are formatted already."""
        if self is Style.LATEX:
            body = [" & ".join(row) + r" \\" for row in rows]
            head = " & ".join(columns) + r" \\"
            rules = [r"\toprule", head, r"\midrule", *body, r"\bottomrule"]
            layout = "l" + "r" * (len(columns) - 1)
            inside = [rf"\begin{{tabular}}{{{layout}}}", *rules, r"\end{tabular}"]
            return "\n".join([r"\begin{table}", r"\centering", rf"\caption{{{caption}}}", *inside, r"\end{table}"])
        widths = [max(map(len, column)) for column in zip(columns, *rows, strict=True)]
        pads = [str.ljust, *[str.rjust] * (len(columns) - 1)]
        aligned = [
            [pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)] for row in (columns, *rows)
        ]
        if self is Style.MARKDOWN:
            rule = ["-" * widths[0], *("-" * (max(width, 2) - 1) + ":" for width in widths[1:])]
            lines = [f"| {' | '.join(row)} |" for row in (aligned[0], rule, *aligned[1:])]
            return "\n".join([caption, "", *lines])
        texts = ["  ".join(row).rstrip() for row in aligned]
        return "\n".join([caption, "", texts[0], "-" * max(map(len, texts)), *texts[1:]])


def column_tables(tables: Sequence[MeasureTable], style: Style, digits: int, protocol: str) -> list[str]:
    """Models below each other; beside each other data sets, a table per measure, or the measures of one data set."""
    whole_number("digits", digits)
    names = [style.plain(name) for name in tables[0].models]
    if len(tables[0].datasets) == 1:
        columns = [_cells(table, 0, style, digits) for table in tables]
        heads = [style.plain(table.measure) for table in tables]
        caption = style.plain(f"{tables[0].datasets[0]}, {protocol}. {_directions(tables)}")
        return [style.table(caption, ["", *heads], list(zip(names, *columns, strict=True)))]
    written = []
    for table in tables:
        columns = [_cells(table, row, style, digits) for row in range(len(table.datasets))]
        ranks = [f"{rank:.2f}" if np.isfinite(rank) else "-" for rank in table.average_ranks]
        heads = [*map(style.plain, table.datasets), "rank"]
        caption = style.plain(f"{table.measure}, {protocol}. {_directions([table])}")
        written.append(style.table(caption, ["", *heads], list(zip(names, *columns, ranks, strict=True))))
    return written


def _cells(table: MeasureTable, row: int, style: Style, digits: int) -> list[str]:
    """Every model on one data set. Means that are shown alike are marked alike."""
    shown = np.round(table.mean[row], digits)
    compared = np.where(table.complete[row], shown, np.nan)
    best: Any = None
    if np.isfinite(compared).any():
        best = np.nanmax(compared) if table.higher_is_better else np.nanmin(compared)
    values = zip(table.mean[row], table.deviation[row], compared == best, table.complete[row], strict=True)
    return [style.number(mean, spread, bool(is_best), bool(whole), digits) for mean, spread, is_best, whole in values]


def _directions(tables: Sequence[MeasureTable]) -> str:
    lower = [table.measure for table in tables if not table.higher_is_better]
    if not lower:
        return "Higher is better."
    if len(lower) == len(tables):
        return "Lower is better."
    return f"Lower is better for {', '.join(lower)}, higher for the others."
