"""Label graphs as figures: one graph, or several side by side with every label in the same place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.wording import counted
from ..graphs import LabelGraph
from .positions import Plane, place_labels, place_names, short_name
from .theme import (
    BLUE,
    EDGE,
    FAINT_INK,
    GRID,
    HALO,
    VERMILLION,
    axis_ids,
    graph_objects,
    named,
    new_figure,
    number,
    plain,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_PANELS_PER_ROW = 3
_FIGURE_WIDTH = 1500.0
_PANEL_GAP, _PANEL_TITLE = 40.0, 34.0
_MARGINS = {"l": 24, "r": 24, "t": 76, "b": 48}
# A line has one width, so edges are drawn in classes; half a pixel between classes cannot be seen.
_THINNEST, _WIDEST, _WIDTH_STEP = 1.0, 8.0, 0.5
_SMALLEST_NODE, _LARGEST_NODE, _EQUAL_NODE = 10.0, 38.0, 18.0
_NEIGHBOURS_IN_HOVER = 6


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
    there is room, and hovering over a node or an edge tells the rest.

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
    shares = None if frequencies is None else _check_frequencies(frequencies, first.n_labels)
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or not 0 <= seed < 2**31:
        raise ValueError(f"seed must be an integer in 0..{2**31 - 1}, got {seed!r}")
    go = graph_objects()

    crowding = float(np.clip(np.sqrt(30.0 / first.n_labels), 0.4, 1.0))
    font_size = 12.0 if first.n_labels <= 60 else 10.0
    sizes = crowding * _node_sizes(shares, first.n_labels)
    names = [short_name(name) for name in first.label_names]
    edges = np.unique(np.concatenate([graph.edges for graph in panels.values()]), axis=0)
    columns = min(len(panels), _PANELS_PER_ROW)
    widest = (_FIGURE_WIDTH - (columns - 1) * _PANEL_GAP) / columns if columns > 1 else 1000.0
    plane = place_labels(edges, names, widest, font_size, int(seed))
    sides = place_names(plane, names, edges, sizes, font_size)

    caption = "Line width: weight" if shares is None else "Line width: weight. Node size: frequency"
    if len(panels) == 1:
        caption = f"{_summary(first)}. {caption}"
    if title is None:
        title = "Label graph" if len(panels) == 1 else "Label graphs"
    figure = new_figure(title, f"{caption}.")
    _add_panels(figure, panels, plane, columns)
    in_legend: set[str | None] = set()
    for k, graph in enumerate(panels.values(), start=1):
        traces = [
            *_edge_traces(go, graph, plane, crowding),
            *_node_traces(go, graph, plane, sizes, names, sides, shares, font_size),
        ]
        x_id, y_id = axis_ids(k)
        for trace in traces:
            first_of_its_kind = trace.name is not None and trace.name not in in_legend
            trace.update(xaxis=x_id, yaxis=y_id, showlegend=first_of_its_kind)
            in_legend.add(trace.name)
            figure.add_trace(trace)
    figure.update_layout(showlegend=len(in_legend - {None}) > 1)
    return figure


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


def _check_frequencies(frequencies: Any, n_labels: int) -> np.ndarray:
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
    return shares


def _node_sizes(shares: np.ndarray | None, n_labels: int) -> np.ndarray:
    """Diameters: the square root makes areas follow frequencies; a label that never occurs is still seen."""
    if shares is None:
        return np.full(n_labels, _EQUAL_NODE)
    largest = shares.max()
    relative = np.sqrt(shares / largest) if largest > 0 else np.zeros(n_labels)
    return np.asarray(_SMALLEST_NODE + (_LARGEST_NODE - _SMALLEST_NODE) * relative)


def _add_panels(figure: Any, panels: dict[str, LabelGraph], plane: Plane, columns: int) -> None:
    """Axes whose unit is one pixel, a title over each panel, a heading over the labels without edges."""
    n_rows = -(-len(panels) // columns)
    title_height = _PANEL_TITLE if len(panels) > 1 or "" not in panels else 0.0
    inner_width = columns * plane.width + (columns - 1) * _PANEL_GAP
    inner_height = n_rows * (plane.height + title_height)
    figure.update_layout(
        width=round(inner_width + _MARGINS["l"] + _MARGINS["r"]),
        height=round(inner_height + _MARGINS["t"] + _MARGINS["b"]),
        margin=_MARGINS,
        hovermode="closest",
        dragmode="pan",
    )
    figure.update_layout(legend_y=-8.0 / inner_height)
    hidden = {"visible": False, "fixedrange": False}
    for k, (name, graph) in enumerate(panels.items(), start=1):
        x_id, y_id = axis_ids(k)
        row, column = divmod(k - 1, columns)
        left = column * (plane.width + _PANEL_GAP)
        top = inner_height - row * (plane.height + title_height) - title_height
        x, y = {**hidden, "range": [0, plane.width]}, {**hidden, "range": [0, plane.height]}
        x["domain"] = [left / inner_width, (left + plane.width) / inner_width]
        y["domain"] = [max(top - plane.height, 0.0) / inner_height, top / inner_height]
        x["anchor"], y["anchor"] = y_id, x_id
        if k == 1:
            y["scaleanchor"] = "x"
        else:  # moving or zooming one panel moves all
            x["matches"], y["matches"] = "x", "y"
        figure.update_layout({f"xaxis{k}": x, f"yaxis{k}": y})
        place = {"xref": f"{x_id} domain", "yref": f"{y_id} domain", "showarrow": False, "xanchor": "left", "x": 0}
        if title_height:
            heading = f"<b>{plain(name)}</b>  {_summary(graph)}"
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


def _summary(graph: LabelGraph) -> str:
    parts = [counted(len(graph.edges), "edge")]
    if graph.isolated:
        parts.append(counted(len(graph.isolated), "isolated label"))
    return ", ".join(parts)


def _edge_traces(go: Any, graph: LabelGraph, plane: Plane, crowding: float) -> list[Any]:
    """Lines by sign and width class, thin ones below, and an unseen trace that carries the hover texts."""
    edges, weights = graph.edges, graph.edge_weights
    if not len(edges):
        return []
    relative = np.abs(weights) / np.abs(weights).max()
    widths = _THINNEST + (_WIDEST * crowding - _THINNEST) * relative
    classes = np.round(widths / _WIDTH_STEP) * _WIDTH_STEP
    start, end = plane.points[edges[:, 0]], plane.points[edges[:, 1]]
    fading = min(1.0, max(0.25, float(np.sqrt(200.0 / len(edges)))))  # weak edges must not hide the strong ones
    traces = []
    for width in np.unique(classes):
        for negative in (False, True):
            chosen = (classes == width) & ((weights < 0) == negative)
            if not chosen.any():
                continue
            broken = np.full((np.count_nonzero(chosen), 3, 2), np.nan)  # a gap after each edge
            broken[:, 0], broken[:, 1] = start[chosen], end[chosen]
            traces.append(
                go.Scatter(
                    x=_with_gaps(broken[..., 0]),
                    y=_with_gaps(broken[..., 1]),
                    mode="lines",
                    line={
                        "width": float(width),
                        "color": VERMILLION if negative else EDGE,
                        "dash": "dash" if negative else "solid",
                    },
                    opacity=fading * (0.45 + 0.45 * float(relative[chosen].max())),
                    name="negative weight" if negative else None,
                    legendgroup="negative weight" if negative else None,
                    hoverinfo="skip",
                    connectgaps=False,
                )
            )
    names = graph.label_names
    texts = [
        f"<b>{plain(names[i])} - {plain(names[j])}</b><br>weight {number(weight)}"
        for (i, j), weight in zip(edges, weights, strict=True)
    ]
    # Two points per edge, off the middle: edges that cross in their middles keep their own.
    anchors = np.concatenate([(2 * start + end) / 3, (start + 2 * end) / 3])
    traces.append(
        go.Scatter(
            x=anchors[:, 0].tolist(),
            y=anchors[:, 1].tolist(),
            mode="markers",
            marker={"size": 10, "opacity": 0, "color": EDGE},
            hovertext=texts * 2,
            hoverinfo="text",
        )
    )
    return traces


def _with_gaps(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values.ravel()]


def _node_traces(
    go: Any,
    graph: LabelGraph,
    plane: Plane,
    sizes: np.ndarray,
    names: list[str],
    sides: list[str],
    shares: np.ndarray | None,
    font_size: float,
) -> list[Any]:
    """Labels with an edge in this graph, and those without."""
    texts = _node_texts(graph, shares)
    has_edge = np.zeros(graph.n_labels, dtype=bool)
    has_edge[graph.edges.ravel()] = True
    looks = (
        ("label", has_edge, {"color": BLUE, "line": {"color": "white", "width": 1.5}}),
        ("isolated label", ~has_edge, {"color": "white", "line": {"color": VERMILLION, "width": 2}}),
    )
    traces = []
    for legend, chosen, marker in looks:
        members = np.flatnonzero(chosen)
        if not members.size:
            continue
        traces.append(
            go.Scatter(
                x=plane.points[members, 0].tolist(),
                y=plane.points[members, 1].tolist(),
                mode="markers+text",
                marker={**marker, "size": sizes[members].tolist(), "opacity": 1},
                text=[plain(names[k]) if sides[k] else "" for k in members],
                textposition=[sides[k] or "top center" for k in members],
                # A halo keeps names readable over edges.
                textfont={"size": font_size, "shadow": HALO},
                hovertext=[texts[k] for k in members],
                hoverinfo="text",
                customdata=members.tolist(),
                name=legend,
                legendgroup=legend,
                cliponaxis=False,
            )
        )
    return traces


def _node_texts(graph: LabelGraph, shares: np.ndarray | None) -> list[str]:
    """What hovering over each label tells: name, frequency, strongest neighbours."""
    neighbours: list[list[str]] = [[] for _ in range(graph.n_labels)]
    number_of = {name: k for k, name in enumerate(graph.label_names)}
    for edge in graph.top_edges():
        for one, other in ((edge.source, edge.target), (edge.target, edge.source)):
            neighbours[number_of[one]].append(f"{plain(other)} {number(edge.weight)}")
    texts = []
    for k, name in enumerate(graph.label_names):
        lines = [f"<b>{plain(name)}</b>"]
        if shares is not None:
            lines.append(f"frequency {number(shares[k])}")
        lines.append(counted(len(neighbours[k]), "edge") if neighbours[k] else "no edge")
        lines += neighbours[k][:_NEIGHBOURS_IN_HOVER]
        if len(neighbours[k]) > _NEIGHBOURS_IN_HOVER:
            lines.append(f"and {len(neighbours[k]) - _NEIGHBOURS_IN_HOVER} more")
        texts.append("<br>".join(lines))
    return texts
