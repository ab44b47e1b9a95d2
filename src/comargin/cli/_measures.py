"""Tables of measures, as several commands print them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.table import Table


def better(measure: str) -> str:
    """Which values of a measure are the better ones: "higher" or "lower"."""
    from ..metrics import higher_is_better

    return "higher" if higher_is_better[measure] else "lower"


def measures_table(values: Mapping[str, float]) -> Table:
    """Make a table of what `comargin.metrics.evaluate` returns: measure, value, and which values are better."""
    from rich.text import Text

    table = _table("measure", "value", "better")
    table.columns[2].justify = "left"
    for name, value in values.items():
        table.add_row(Text(name), shown(value), better(name))
    return table


def labels_table(labels: Sequence[Mapping[str, Any]]) -> Table:
    """Make a table of what `comargin.metrics.per_label` returns, one row per label."""
    from rich.text import Text

    headings = {"f1": "F1", "auc": "AUC"}
    table = _table(*(headings.get(name, name) for name in (labels[0] if labels else ("label",))))
    for label in labels:
        table.add_row(Text(str(label["label"])), *(shown(value) for name, value in label.items() if name != "label"))
    return table


def shown(value: float) -> str:
    """Format a count as it is, a measure with four digits, and what is not defined as a dash."""
    if isinstance(value, int):
        return str(value)
    return f"{value:.4f}" if value == value else "-"


def _table(first: str, *headings: str) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(first, *headings, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for column in table.columns[1:]:
        column.justify, column.no_wrap = "right", True
    return table
