"""The critical-difference diagram of Demsar (2006), as a figure and as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..report.theme import BLUE, FAINT_INK, INK, new_figure, number, plain
from ._statistics import CriticalDifference

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

# Pixels.
_LETTER, _LINE, _GROUP, _TOP, _BOTTOM = 7.5, 24, 14, 150, 30
_AXIS_WIDTH = 520


def diagram_text(found: CriticalDifference, measure: str, over: str) -> str:
    """Lines of text, the best model first; one column of bars for each group that is not told apart."""
    width = max(map(len, found.models))
    lines = [_title(found, measure, over), _caption(found), f"Critical difference {found.difference:.2f}.", ""]
    for k, (name, rank) in enumerate(zip(found.models, found.ranks, strict=True)):
        bars = "".join(" |" if first <= k <= last else "  " for first, last in found.groups)
        lines.append(f"{rank:6.2f}  {name:{width}} {bars}".rstrip())
    return "\n".join(lines)


def diagram_figure(found: CriticalDifference, measure: str, over: str) -> Figure:
    """A line of ranks with the models hung on it; bars join models that do not differ. The y axis counts pixels."""
    n_models = len(found.models)
    n_left = (n_models + 1) // 2
    names_top = -_GROUP * (len(found.groups) + 1) - 6
    depth = -names_top + _LINE * n_left
    figure = new_figure(_title(found, measure, over), _caption(found))
    look = {"mode": "lines", "hoverinfo": "skip", "showlegend": False}
    edges = (0.85, n_models + 0.15)
    for k, (name, rank) in enumerate(zip(found.models, found.ranks, strict=True)):
        is_left = k < n_left
        # The ends of the order hang highest on their side, so that no lines cross.
        y = names_top - _LINE * ((k if is_left else n_models - 1 - k) + 0.5)
        edge = edges[0] if is_left else edges[1]
        figure.add_scatter(x=[rank, rank, edge], y=[0, y, y], line={"color": FAINT_INK, "width": 1}, **look)
        figure.add_annotation(
            x=edge,
            y=y,
            text=f"{plain(name)}  <b>{rank:.2f}</b>" if is_left else f"<b>{rank:.2f}</b>  {plain(name)}",
            xanchor="right" if is_left else "left",
            xshift=-4 if is_left else 4,
            showarrow=False,
        )
    for level, (first, last) in enumerate(found.groups):
        y, ends = -_GROUP * (level + 1), [found.ranks[first] - 0.04, found.ranks[last] + 0.04]
        figure.add_scatter(x=ends, y=[y, y], line={"color": BLUE, "width": 5}, **look)
    figure.add_scatter(
        x=found.ranks,
        y=np.zeros(n_models),
        mode="markers",
        marker={"color": INK, "size": 7},
        hovertext=[
            f"<b>{plain(name)}</b><br>average rank {number(float(rank))}"
            for name, rank in zip(found.models, found.ranks, strict=True)
        ],
        hoverinfo="text",
        showlegend=False,
    )
    ink = {"line": {"color": INK, "width": 1.5}, **look}
    _add_scale(figure, 0, range(1, n_models + 1), ink)
    for rank in range(1, n_models + 1):
        figure.add_annotation(x=rank, y=6, text=str(rank), showarrow=False, yanchor="bottom")
    end = 1 + found.difference
    _add_scale(figure, 46, (1, end), ink)
    text = f"critical difference {found.difference:.2f}"
    figure.add_annotation(x=(1 + end) / 2, y=50, text=text, showarrow=False, yanchor="bottom")
    left, right = (
        20 + _LETTER * (6 + max((len(name) for name in names), default=0))
        for names in (found.models[:n_left], found.models[n_left:])
    )
    figure.update_layout(
        width=int(_AXIS_WIDTH + left + right),
        height=int(_TOP + depth + _BOTTOM),
        margin={"l": int(left), "r": int(right), "t": _TOP - 60, "b": _BOTTOM},
        # The ruler may be longer than the line of ranks.
        xaxis={"visible": False, "range": [edges[0], max(edges[1], 1.15 + found.difference)], "fixedrange": True},
        yaxis={"visible": False, "range": [-depth, 60], "fixedrange": True},
        showlegend=False,
    )
    return figure


def _add_scale(figure: Figure, y: float, marks: Sequence[float], look: dict[str, Any]) -> None:
    """A line from the first mark to the last, and a tick at each."""
    figure.add_scatter(x=[marks[0], marks[-1]], y=[y, y], **look)
    for mark in marks:
        figure.add_scatter(x=[mark, mark], y=[y, y + 6], **look)


def _title(found: CriticalDifference, measure: str, over: str) -> str:
    return f"Average ranks of {len(found.models)} models on {found.n_blocks} {over}: {measure}"


def _caption(found: CriticalDifference) -> str:
    return f"1 is the best. Models with a common bar are not told apart (Nemenyi, level {found.alpha:g})."
