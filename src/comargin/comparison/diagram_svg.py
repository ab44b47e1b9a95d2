"""The critical-difference diagram as an SVG file, written without plotly or a browser."""

from __future__ import annotations

from collections.abc import Sequence

from ..report.positions import text_width
from ..report.svg import element, picture, text
from ..report.theme import BLUE, FAINT_INK, INK
from ._diagram import _caption, _title
from ._statistics import CriticalDifference

# Pixels: of the line of ranks, of a line of text, between two bars, above the line of ranks.
_AXIS, _LINE, _GROUP, _TOP = 520.0, 24.0, 14.0, 150.0
_FONT_SIZE = 12.0
_SIDE = 24.0


def diagram_svg(found: CriticalDifference, measure: str, over: str) -> str:
    """The content of an .svg file with the same picture as `diagram_figure`."""
    n_models = len(found.models)
    n_left = (n_models + 1) // 2
    labels = [f"{name} ({rank:.2f})" for name, rank in zip(found.models, found.ranks, strict=True)]
    widths = [text_width(label, _FONT_SIZE) for label in labels]
    left = _SIDE + max(widths[:n_left]) + 16.0
    right = _SIDE + max(widths[n_left:]) + 16.0
    unit = _AXIS / (n_models - 1)

    def x_of(rank: float) -> float:
        return left + unit * (rank - 1.0)

    names_top = _TOP + _GROUP * (len(found.groups) + 1) + 6.0
    drawn = []
    for k, (label, rank) in enumerate(zip(labels, found.ranks, strict=True)):
        is_left = k < n_left
        # The ends of the order hang highest on their side, so that no lines cross.
        y = names_top + _LINE * ((k if is_left else n_models - 1 - k) + 0.5)
        x, end = x_of(float(rank)), x_of(1.0) - 10.0 if is_left else x_of(n_models) + 10.0
        drawn.append(_path([(x, _TOP), (x, y), (end, y)], FAINT_INK, 1.0))
        aside, anchor = (-6.0, "end") if is_left else (6.0, "start")
        drawn.append(text(end + aside, y + 4.0, label, text_anchor=anchor))
    for level, (first, last) in enumerate(found.groups):
        y = _TOP + _GROUP * (level + 1)
        ends = [(x_of(float(found.ranks[first])) - 5.0, y), (x_of(float(found.ranks[last])) + 5.0, y)]
        drawn.append(_path(ends, BLUE, 5.0))
    drawn += _scale(_TOP, [(x_of(rank), str(rank)) for rank in range(1, n_models + 1)])
    drawn += [element("circle", cx=x_of(float(rank)), cy=_TOP, r=3.5, fill=INK) for rank in found.ranks]
    ruler = [x_of(1.0), x_of(1.0 + found.difference)]
    drawn += _scale(_TOP - 46.0, [(ruler[0], ""), (ruler[1], "")])
    shown = f"critical difference {found.difference:.2f}"
    drawn.append(text(ruler[0], _TOP - 58.0, shown))
    title, caption = _title(found, measure, over), _caption(found)
    # The ruler, and the lines above it, may be longer than the line of ranks.
    needed = max(
        left + _AXIS + right, ruler[1] + _SIDE, 48.0 + text_width(title, 16.0), 48.0 + text_width(caption, _FONT_SIZE)
    )
    return picture(needed, names_top + _LINE * n_left + _SIDE, title, caption, drawn)


def _scale(y: float, marks: Sequence[tuple[float, str]]) -> list[str]:
    """A line from the first mark to the last, a tick and its name at each."""
    drawn = [_path([(marks[0][0], y), (marks[-1][0], y)], INK, 1.5)]
    for x, name in marks:
        drawn.append(_path([(x, y), (x, y - 6.0)], INK, 1.5))
        if name:
            drawn.append(text(x, y - 12.0, name, text_anchor="middle"))
    return drawn


def _path(points: Sequence[tuple[float, float]], color: str, width: float) -> str:
    corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return element("polyline", points=corners, fill="none", stroke=color, stroke_width=width)
