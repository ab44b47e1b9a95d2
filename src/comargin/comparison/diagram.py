"""The critical-difference diagram of Demsar (2006): as text, as a figure, and as SVG without plotly or a browser."""

from typing import NamedTuple

from ..report.positions import text_width
from ..report.svg import element, picture, text
from ..report.theme import BLUE, FAINT_INK, INK, Figure, new_figure, number, plain
from ._statistics import CriticalDifference

# Pixels: of the line of ranks, of a line of text, between two bars, above the line of ranks and below everything.
_AXIS, _LINE, _GROUP, _TOP, _BOTTOM = 520.0, 24.0, 14.0, 150.0, 24.0
_FONT_SIZE, _TITLE_SIZE = 12.0, 16.0
_ANCHORS = {"start": "left", "middle": "center", "end": "right"}  # of SVG and of plotly

Point = tuple[float, float]  # average rank, and pixels above the line of ranks


class _Line(NamedTuple):
    points: list[Point]
    color: str
    width: float


class _Word(NamedTuple):
    place: Point  # of the end that the anchor names, on the base line
    content: str
    anchor: str


class _Layout(NamedTuple):
    """What both pictures draw."""

    title: str
    caption: str
    lines: list[_Line]
    words: list[_Word]
    left: float  # pixels beside the line of ranks
    right: float
    depth: float  # pixels below it
    unit: float  # pixels between two ranks

    @property
    def width(self) -> float:
        """Pixels of the whole picture: the ruler, title and caption may be longer than the line of ranks."""
        reach = max(x for line in self.lines for x, _ in line.points)
        said = max(text_width(self.title, _TITLE_SIZE), text_width(self.caption, _FONT_SIZE))
        return max(self.left + _AXIS + self.right, self.left + self.unit * (reach - 1.0) + _BOTTOM, 48.0 + said)


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
    layout = _laid_out(found, measure, over)
    figure = new_figure(layout.title, layout.caption)
    for line in layout.lines:
        ranks, heights = zip(*line.points, strict=True)
        look = {"color": line.color, "width": line.width}
        figure.add_scatter(x=ranks, y=heights, line=look, mode="lines", hoverinfo="skip")
    for (x, y), content, anchor in layout.words:
        figure.add_annotation(
            x=x, y=y, text=plain(content), xanchor=_ANCHORS[anchor], yanchor="bottom", yshift=-6, showarrow=False
        )
    names = [
        f"<b>{plain(name)}</b><br>average rank {number(float(rank))}"
        for name, rank in zip(found.models, found.ranks, strict=True)
    ]
    on_line, look = [0.0] * len(names), {"color": INK, "size": 7}
    figure.add_scatter(x=found.ranks, y=on_line, mode="markers", marker=look, hovertext=names, hoverinfo="text")
    ends = [1.0 - layout.left / layout.unit, 1.0 + (layout.width - layout.left) / layout.unit]
    figure.update_layout(
        width=int(layout.width),
        height=int(_TOP + layout.depth + _BOTTOM),
        margin={"l": 0, "r": 0, "t": 60, "b": 0},
        xaxis={"visible": False, "range": ends, "fixedrange": True},
        yaxis={"visible": False, "range": [-layout.depth - _BOTTOM, _TOP - 60.0], "fixedrange": True},
        showlegend=False,
    )
    return figure


def diagram_svg(found: CriticalDifference, measure: str, over: str) -> str:
    """The content of an .svg file with the same picture as `diagram_figure`."""
    layout = _laid_out(found, measure, over)

    def place(point: Point) -> Point:
        return layout.left + layout.unit * (point[0] - 1.0), _TOP - point[1]

    drawn = []
    for line in layout.lines:
        corners = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, line.points))
        drawn.append(element("polyline", points=corners, fill="none", stroke=line.color, stroke_width=line.width))
    drawn += [text(*place(word.place), word.content, text_anchor=word.anchor) for word in layout.words]
    for rank in found.ranks:
        x, y = place((float(rank), 0.0))
        drawn.append(element("circle", cx=x, cy=y, r=3.5, fill=INK))
    return picture(layout.width, _TOP + layout.depth + _BOTTOM, layout.title, layout.caption, drawn)


def _laid_out(found: CriticalDifference, measure: str, over: str) -> _Layout:
    n_models = len(found.models)
    n_left = (n_models + 1) // 2
    unit = _AXIS / (n_models - 1)
    names_top = _GROUP * (len(found.groups) + 1) + 6.0
    labels = [f"{name} ({rank:.2f})" for name, rank in zip(found.models, found.ranks, strict=True)]
    widths = [text_width(label, _FONT_SIZE) for label in labels]
    lines, words = [], []
    for k, (label, rank) in enumerate(zip(labels, found.ranks.tolist(), strict=True)):
        is_left = k < n_left
        # The ends of the order hang highest on their side, so that no lines cross.
        y = -names_top - _LINE * ((k if is_left else n_models - 1 - k) + 0.5)
        end, aside, anchor = (1.0, -1.0, "end") if is_left else (float(n_models), 1.0, "start")
        lines.append(_Line([(rank, 0.0), (rank, y), (end + aside * 10.0 / unit, y)], FAINT_INK, 1.0))
        words.append(_Word((end + aside * 16.0 / unit, y - 4.0), label, anchor))
    for level, (first, last) in enumerate(found.groups):
        y, beyond = -_GROUP * (level + 1), 5.0 / unit
        bar = [(float(found.ranks[first]) - beyond, y), (float(found.ranks[last]) + beyond, y)]
        lines.append(_Line(bar, BLUE, 5.0))
    for y, ticks in ((0.0, [float(rank) for rank in range(1, n_models + 1)]), (46.0, [1.0, 1.0 + found.difference])):
        lines.append(_Line([(ticks[0], y), (ticks[-1], y)], INK, 1.5))
        lines += [_Line([(tick, y), (tick, y + 6.0)], INK, 1.5) for tick in ticks]
    words += [_Word((float(rank), 12.0), str(rank), "middle") for rank in range(1, n_models + 1)]
    words.append(_Word((1.0, 58.0), f"critical difference {found.difference:.2f}", "start"))
    left, right = (40.0 + max(side) for side in (widths[:n_left], widths[n_left:]))
    title, caption = _title(found, measure, over), _caption(found)
    return _Layout(title, caption, lines, words, left, right, names_top + _LINE * n_left, unit)


def _title(found: CriticalDifference, measure: str, over: str) -> str:
    return f"Average ranks of {len(found.models)} models on {found.n_blocks} {over}: {measure}"


def _caption(found: CriticalDifference) -> str:
    return f"1 is the best. Models with a common bar are not told apart (Nemenyi, level {found.alpha:g})."
