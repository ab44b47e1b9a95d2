"""A label graph as an SVG file: the picture of `label_graph_figure`, written without plotly or a browser."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.wording import counted
from ..graphs import LabelGraph
from ._label_graph import MARGINS, WIDEST_PICTURE, edge_looks, node_sizes, summary
from .positions import Plane, place_labels
from .svg import element, picture, text, tooltip
from .theme import BLUE, EDGE, FAINT_INK, GRID, VERMILLION, number

_Look = dict[str, Any]
_FILLED: _Look = {"fill": BLUE, "stroke": "white", "stroke_width": 1.5}
_HOLLOW: _Look = {"fill": "white", "stroke": VERMILLION, "stroke_width": 2}
_NEGATIVE: _Look = {"stroke": VERMILLION, "stroke_dasharray": "7 5"}
_POSITIVE: _Look = {"stroke": EDGE}
_ANCHORS = {"left": "end", "center": "middle", "right": "start"}  # side of the node: which point of the text is there


def label_graph_svg(
    graph: LabelGraph, *, frequencies: ArrayLike | None = None, title: str | None = None, seed: int = 0
) -> str:
    """Draw a label graph as SVG: a picture for papers and pages that needs neither plotly nor a browser to be made.

    It looks as `label_graph_figure` does: line widths are absolute weights, negative ones are dashed and in another
    colour, labels without an edge stand apart in rows below. With more than 40 labels a name is shown where there is
    room; a browser shows the rest when the mouse rests on a circle or a line.

    Parameters
    ----------
    graph : LabelGraph
        The graph; one with very many edges is clearer cut down to its strongest ones first.
    frequencies : array-like of shape (n_labels,) or None, default=None
        Fraction of the rows with each label, in [0, 1]; circles grow with it. Equal sizes when None.
    title : str or None, default=None
        Title of the picture.
    seed : int, default=0
        Where the search for positions starts.

    Examples
    --------
    >>> from comargin.graphs import LabelGraph
    >>> graph = LabelGraph.from_edges([(0, 1), (1, 2)], [0.8, 0.3], label_names=["sea", "beach", "city"])
    >>> svg = label_graph_svg(graph, frequencies=[0.5, 0.4, 0.1], title="Beaches")
    >>> svg.count("<circle"), svg.count("<line")
    (3, 2)
    """
    if not isinstance(graph, LabelGraph):
        raise ValueError(f"graph must be a LabelGraph, got a {type(graph).__name__}")
    shares, sizes = node_sizes(frequencies, graph.n_labels)
    plane = place_labels(graph.edges, graph.label_names, sizes, WIDEST_PICTURE, seed)
    # Pixels of the picture grow downwards, those of the plane upwards.
    points = np.column_stack([MARGINS["l"] + plane.points[:, 0], MARGINS["t"] + plane.height - plane.points[:, 1]])
    caption = f"{summary(graph)}. Line width: weight{'' if shares is None else '. Node size: frequency'}."
    drawn = [
        *_isolated_heading(plane),
        *_edges(graph, points),
        *_nodes(graph, points, sizes, shares),
        *_names(plane, points, sizes),
        *_legend(graph, MARGINS["t"] + plane.height + 24.0),
    ]
    width = plane.width + MARGINS["l"] + MARGINS["r"]
    height = plane.height + MARGINS["t"] + MARGINS["b"]
    return picture(width, height, "Label graph" if title is None else title, caption, drawn)


def _edges(graph: LabelGraph, points: np.ndarray) -> list[str]:
    """Lines, the weak ones below."""
    edges, weights, names = graph.edges, graph.edge_weights, graph.label_names
    if not len(weights):
        return []
    widths, opacities = edge_looks(graph)
    lines = []
    for e in np.argsort(np.abs(weights), kind="stable"):
        i, j = edges[e]
        (x1, y1), (x2, y2) = points[i], points[j]
        look = _NEGATIVE if weights[e] < 0 else _POSITIVE
        hover = tooltip(f"{names[i]} - {names[j]}: {number(weights[e])}")
        ends = {"x1": x1, "y1": y1, "x2": x2, "y2": y2}
        lines.append(element("line", hover, **ends, **look, stroke_width=widths[e], opacity=opacities[e]))
    return lines


def _nodes(graph: LabelGraph, points: np.ndarray, sizes: np.ndarray, shares: np.ndarray | None) -> list[str]:
    degree = np.bincount(graph.edges.ravel(), minlength=graph.n_labels)
    circles = []
    for k, name in enumerate(graph.label_names):
        lines = [name, *([] if shares is None else [f"frequency {number(shares[k])}"])]
        lines.append(counted(int(degree[k]), "edge") if degree[k] else "no edge")
        (x, y), look = points[k], _FILLED if degree[k] else _HOLLOW
        circles.append(element("circle", tooltip("\n".join(lines)), cx=x, cy=y, r=sizes[k] / 2, **look))
    return circles


def _names(plane: Plane, points: np.ndarray, sizes: np.ndarray) -> list[str]:
    """Names on their sides, with a halo that keeps them readable over lines."""
    font_size, texts = plane.font_size, []
    for name, side, (x, y), size in zip(plane.names, plane.sides, points, sizes, strict=True):
        if not side:
            continue
        row, column = side.split()
        gap = size / 2 / 0.8 + 1.0  # as in `place_labels`
        # A text stands on its baseline; its letters reach up by about 0.8 of the font size and down by 0.25.
        down = {"top": -gap - 0.3 * font_size, "middle": 0.35 * font_size, "bottom": gap + 0.95 * font_size}[row]
        aside = {"left": -gap, "center": 0.0, "right": gap}[column]
        look = {"font_size": font_size, "paint_order": "stroke", "stroke": "white", "stroke_width": 3}
        texts.append(text(x + aside, y + down, name, text_anchor=_ANCHORS[column], stroke_linejoin="round", **look))
    return texts


def _isolated_heading(plane: Plane) -> list[str]:
    if not plane.rows_top:
        return []
    left, y = MARGINS["l"], MARGINS["t"] + plane.height - plane.rows_top
    drawn = [text(left, y + 16.0, "Isolated labels", font_size=11, fill=FAINT_INK)]
    if plane.in_core.any():
        ends: dict[str, Any] = {"x1": left, "x2": left + plane.width, "y1": y, "y2": y}
        drawn.insert(0, element("line", **ends, stroke=GRID, stroke_width=1))
    return drawn


def _legend(graph: LabelGraph, y: float) -> list[str]:
    """Meaning of the looks, when there is more than one."""
    has_isolated, has_negative = bool(graph.isolated), bool((graph.edge_weights < 0).any())
    if not (has_isolated and len(graph.edge_weights)) and not has_negative:
        return []
    entries = [("label", _FILLED), *([("isolated label", _HOLLOW)] if has_isolated else [])]
    drawn, x = [], float(MARGINS["l"])
    for name, look in entries:
        drawn += [element("circle", cx=x + 7, cy=y, r=6, **look), text(x + 20, y + 4, name)]
        x += 40 + 7 * len(name)
    if has_negative:
        ends: dict[str, Any] = {"x1": x, "x2": x + 28, "y1": y, "y2": y}
        drawn += [element("line", **ends, **_NEGATIVE, stroke_width=3), text(x + 36, y + 4, "negative weight")]
    return drawn
