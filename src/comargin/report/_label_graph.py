"""Label graphs as figures: one graph, or several side by side with every label in the same place."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.wording import counted
from ..graphs import LabelGraph
from .positions import Plane, place_labels
from .theme import (
    BLUE,
    EDGE,
    FAINT_INK,
    GRID,
    HALO,
    VERMILLION,
    Figure,
    axis_ids,
    finite,
    graph_objects,
    named,
    new_figure,
    number,
    plain,
)

_PANELS_PER_ROW = 3
_FIGURE_WIDTH = 1500.0
_PANEL_GAP, _PANEL_TITLE = 40.0, 34.0
# A line has one width, so edges are drawn in classes; half a pixel between classes cannot be seen.
_THINNEST, _WIDEST, _WIDTH_STEP = 1.0, 8.0, 0.5
_SMALLEST_NODE, _LARGEST_NODE, _EQUAL_NODE = 10.0, 38.0, 18.0
_NEIGHBOURS_IN_HOVER = 6
MARGINS = {"l": 24, "r": 24, "t": 76, "b": 48}
WIDEST_PICTURE = 1000.0


def label_graph_figure(
    graphs: LabelGraph | Mapping[str, LabelGraph],
    *,
    frequencies: ArrayLike | None = None,
    title: str | None = None,
    seed: int = 0,
) -> Figure:
    """Draw a label graph, or several side by side.

    Labels with an edge are filled circles, joined by lines as wide as the absolute weights (relative to the
    strongest edge of the same graph; negative ones dashed and in another colour). Labels without an edge are
    hollow circles; those without an edge in any of the graphs stand apart in rows below. Every label has the
    same place in all panels, so graphs can be compared by eye. With more than 40 labels a name is shown where
    there is room, and hovering over a node or an edge shows the rest.

    Parameters
    ----------
    graphs : LabelGraph or mapping of str to LabelGraph
        One graph, or graphs of the same labels with their titles.
    frequencies : array-like of shape (n_labels,) or None, default=None
        Fraction of the rows with each label, in [0, 1], e.g. ``Y.mean(axis=0)``; the size of a node grows with
        it. Equal sizes when None.
    title : str or None, default=None
        Title of the figure.
    seed : int, default=0
        Where the search for positions starts: another seed gives another picture of the same graph.

    Notes
    -----
    Positions come from the edges of all graphs together, without their weights: distances in the plane follow
    the number of edges between two labels (Kamada and Kawai's method; a spring model with more than 300 labels
    that have edges).

    Examples
    --------
    >>> from comargin.graphs import LabelGraph, chow_liu_tree
    >>> names = ["sea", "beach", "sky", "city"]
    >>> tree = chow_liu_tree([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 1]], label_names=names)
    >>> learned = LabelGraph.from_edges([(0, 1)], [0.8], label_names=names)
    >>> figure = label_graph_figure({"Chow-Liu tree": tree, "learned": learned}, frequencies=[0.5, 0.5, 0.5, 0.5])
    >>> figure.layout.title.text
    'Label graphs'
    """
    panels = _check_graphs(graphs)
    first = next(iter(panels.values()))
    shares, sizes = node_sizes(frequencies, first.n_labels)
    edges = np.unique(np.concatenate([graph.edges for graph in panels.values()]), axis=0)
    columns = min(len(panels), _PANELS_PER_ROW)
    widest = (_FIGURE_WIDTH - (columns - 1) * _PANEL_GAP) / columns if columns > 1 else WIDEST_PICTURE
    graph_objects()  # fails without plotly before the positions are computed
    plane = place_labels(edges, first.label_names, sizes, widest, seed)

    caption = f"Line width: weight{'' if shares is None else '. Node size: frequency'}."
    if len(panels) == 1:
        caption = f"{summary(first)}. {caption}"
    default = "Label graph" if len(panels) == 1 else "Label graphs"
    figure = new_figure(default if title is None else title, caption)
    _add_panels(figure, panels, plane, columns)
    in_legend = {None}
    for k, graph in enumerate(panels.values(), start=1):
        x_id, y_id = axis_ids(k)
        for trace in (*_edge_traces(graph, plane), *_node_traces(graph, plane, sizes, shares)):
            name = trace.get("name")
            is_new = name not in in_legend
            figure.add_scatter(**trace, legendgroup=name, xaxis=x_id, yaxis=y_id, showlegend=is_new)
            in_legend.add(name)
    return figure.update_layout(showlegend=len(in_legend) > 2)  # None, and at least two looks


def _check_graphs(graphs: Any) -> dict[str, LabelGraph]:
    if isinstance(graphs, LabelGraph):
        return {"": graphs}
    panels = named(graphs, "graphs", "LabelGraph (or one LabelGraph)")
    first_name, first = next(iter(panels.items()))
    for name, graph in panels.items():
        if not isinstance(graph, LabelGraph):
            raise ValueError(f"graphs[{name!r}] must be a LabelGraph, got a {type(graph).__name__}")
        if graph.label_names != first.label_names:
            raise ValueError(
                f"graphs must have the same labels in the same order: graphs[{name!r}] has "
                f"{_some_names(graph)}, graphs[{first_name!r}] has {_some_names(first)}"
            )
    return panels


def _some_names(graph: LabelGraph) -> str:
    shown = ", ".join(graph.label_names[:4])
    return f"{counted(graph.n_labels, 'label')} ({shown}{', ...' if graph.n_labels > 4 else ''})"


def node_sizes(frequencies: Any, n_labels: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Checked frequencies, and diameters whose squares grow with them; a label that never occurs is still visible."""
    crowding = _crowding(n_labels)
    if frequencies is None:
        return None, crowding * np.full(n_labels, _EQUAL_NODE)
    shares = np.asarray(frequencies)
    if shares.shape == (1, n_labels):  # the mean of a sparse matrix
        shares = shares[0]
    if shares.shape != (n_labels,) or shares.dtype.kind not in "biuf":
        raise ValueError(
            f"frequencies must be {n_labels} numbers, one per label, e.g. Y.mean(axis=0), "
            f"got shape {shares.shape}, dtype {shares.dtype}"
        )
    shares = np.asarray(shares, dtype=np.float64)
    outside = ~((shares >= 0) & (shares <= 1))
    if outside.any():
        raise ValueError(
            f"frequencies must lie in [0, 1], got {shares[outside][0]:g}; divide counts by the number of rows"
        )
    relative = np.sqrt(shares / (shares.max() or 1.0))
    return shares, crowding * (_SMALLEST_NODE + (_LARGEST_NODE - _SMALLEST_NODE) * relative)


def edge_looks(graph: LabelGraph) -> tuple[np.ndarray, np.ndarray]:
    """Width and opacity of every edge; where there are many, they fade so that weak ones do not hide strong ones."""
    relative = np.abs(graph.edge_weights) / np.abs(graph.edge_weights).max()
    fading = min(1.0, max(0.25, float(np.sqrt(200.0 / len(relative)))))
    widths = _THINNEST + (_WIDEST * _crowding(graph.n_labels) - _THINNEST) * relative
    return widths, fading * (0.45 + 0.45 * relative)


def _crowding(n_labels: int) -> float:
    """Factor that shrinks nodes and edges of graphs with many labels."""
    return float(np.clip(np.sqrt(30.0 / n_labels), 0.4, 1.0))


def _add_panels(figure: Any, panels: dict[str, LabelGraph], plane: Plane, columns: int) -> None:
    """Axes whose unit is one pixel, a title over each panel, a heading over the labels without edges."""
    n_rows = -(-len(panels) // columns)
    title_height = _PANEL_TITLE if len(panels) > 1 or "" not in panels else 0.0
    inner_width = columns * plane.width + (columns - 1) * _PANEL_GAP
    inner_height = n_rows * (plane.height + title_height)
    figure.update_layout(
        width=round(inner_width + MARGINS["l"] + MARGINS["r"]),
        height=round(inner_height + MARGINS["t"] + MARGINS["b"]),
        margin=MARGINS,
        hovermode="closest",
        dragmode="pan",
        legend_y=-8.0 / inner_height,
    )
    hidden = {"visible": False, "fixedrange": False}
    for k, (name, graph) in enumerate(panels.items(), start=1):
        x_id, y_id = axis_ids(k)
        row, column = divmod(k - 1, columns)
        left = column * (plane.width + _PANEL_GAP)
        top = inner_height - row * (plane.height + title_height) - title_height
        x_domain = [left / inner_width, (left + plane.width) / inner_width]
        y_domain = [max(top - plane.height, 0.0) / inner_height, top / inner_height]
        x = {**hidden, "range": [0, plane.width], "domain": x_domain, "anchor": y_id}
        y = {**hidden, "range": [0, plane.height], "domain": y_domain, "anchor": x_id}
        # Moving or zooming one panel moves all.
        x, y = (x, y | {"scaleanchor": "x"}) if k == 1 else (x | {"matches": "x"}, y | {"matches": "y"})
        figure.update_layout({f"xaxis{k}": x, f"yaxis{k}": y})
        place = {"xref": f"{x_id} domain", "yref": f"{y_id} domain", "showarrow": False, "xanchor": "left", "x": 0}
        if title_height:
            heading = f"<b>{plain(name)}</b>  {summary(graph)}"
            figure.add_annotation(text=heading, y=1, yanchor="bottom", yshift=6, font={"size": 14}, **place)
        if plane.rows_top:
            where = {"xref": x_id, "yref": y_id, "x0": 0, "x1": plane.width}
            if plane.in_core.any():
                line = {"color": GRID, "width": 1}
                figure.add_shape(type="line", y0=plane.rows_top, y1=plane.rows_top, line=line, layer="below", **where)
            text = "Isolated labels" if len(panels) == 1 else "Isolated in every graph"
            place |= {"xref": x_id, "yref": y_id}
            font = {"size": 11, "color": FAINT_INK}
            figure.add_annotation(text=text, y=plane.rows_top - 4, yanchor="top", font=font, **place)


def summary(graph: LabelGraph) -> str:
    """Number of edges, and of labels without one."""
    isolated = f", {counted(len(graph.isolated), 'isolated label')}" if graph.isolated else ""
    return counted(len(graph.edges), "edge") + isolated


def _edge_traces(graph: LabelGraph, plane: Plane) -> list[dict[str, Any]]:
    """Lines by sign and width class, thin ones below, and an invisible trace that carries the hover texts."""
    edges, weights, names = graph.edges, graph.edge_weights, graph.label_names
    if not len(edges):
        return []
    widths, opacities = edge_looks(graph)
    classes = np.round(widths / _WIDTH_STEP) * _WIDTH_STEP
    start, end = plane.points[edges[:, 0]], plane.points[edges[:, 1]]
    broken = np.stack([start, end, np.full(start.shape, np.nan)], axis=1)  # a gap after each edge
    traces: list[dict[str, Any]] = []
    for width in np.unique(classes):
        for negative in (False, True):
            chosen = (classes == width) & ((weights < 0) == negative)
            if chosen.any():
                color, dash = (VERMILLION, "dash") if negative else (EDGE, "solid")
                trace: dict[str, Any] = {"name": "negative weight"} if negative else {}
                trace |= {"x": finite(broken[chosen, :, 0].ravel()), "y": finite(broken[chosen, :, 1].ravel())}
                trace |= {"mode": "lines", "line": {"width": float(width), "color": color, "dash": dash}}
                trace |= {"opacity": float(opacities[chosen].max()), "hoverinfo": "skip", "connectgaps": False}
                traces.append(trace)
    texts = [
        f"<b>{plain(names[i])} - {plain(names[j])}</b><br>weight {number(weight)}"
        for (i, j), weight in zip(edges, weights, strict=True)
    ]
    # Two points per edge, off the middle: edges that cross in their middles keep their own.
    x, y = np.concatenate([(2 * start + end) / 3, (start + 2 * end) / 3]).T.tolist()
    marker = {"size": 10, "opacity": 0, "color": EDGE}
    traces.append({"x": x, "y": y, "mode": "markers", "marker": marker, "hovertext": texts * 2, "hoverinfo": "text"})
    return traces


def _node_traces(graph: LabelGraph, plane: Plane, sizes: np.ndarray, shares: np.ndarray | None) -> list[dict[str, Any]]:
    """Labels with an edge in this graph, and those without."""
    texts = _node_texts(graph, shares)
    has_edge = np.bincount(graph.edges.ravel(), minlength=graph.n_labels) > 0
    filled = {"color": BLUE, "line": {"color": "white", "width": 1.5}}
    hollow = {"color": "white", "line": {"color": VERMILLION, "width": 2}}
    traces = []
    for name, chosen, marker in (("label", has_edge, filled), ("isolated label", ~has_edge, hollow)):
        members = np.flatnonzero(chosen)
        if members.size:
            x, y = plane.points[members].T.tolist()
            trace = {
                "x": x,
                "y": y,
                "mode": "markers+text",
                "marker": {**marker, "size": sizes[members].tolist(), "opacity": 1},
                "text": [plain(plane.names[k]) if plane.sides[k] else "" for k in members],
                "textposition": [plane.sides[k] or "top center" for k in members],
                "textfont": {"size": plane.font_size, "shadow": HALO},
                "hovertext": [texts[k] for k in members],
                "hoverinfo": "text",
                "customdata": members.tolist(),
                "name": name,
                "cliponaxis": False,
            }
            traces.append(trace)
    return traces


def _node_texts(graph: LabelGraph, shares: np.ndarray | None) -> list[str]:
    """Hover text of each label: name, frequency, strongest neighbours."""
    neighbours: dict[str, list[str]] = {name: [] for name in graph.label_names}
    for edge in graph.top_edges():
        neighbours[edge.source].append(f"{plain(edge.target)} {number(edge.weight)}")
        neighbours[edge.target].append(f"{plain(edge.source)} {number(edge.weight)}")
    texts = []
    for k, (name, others) in enumerate(neighbours.items()):
        lines = [f"<b>{plain(name)}</b>"] + ([] if shares is None else [f"frequency {number(shares[k])}"])
        lines += [counted(len(others), "edge") if others else "no edge", *others[:_NEIGHBOURS_IN_HOVER]]
        if len(others) > _NEIGHBOURS_IN_HOVER:
            lines.append(f"and {len(others) - _NEIGHBOURS_IN_HOVER} more")
        texts.append("<br>".join(lines))
    return texts
