"""Figures of a report about labels: how well each is found, its cut, its scores, its features, its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graphs import LabelGraph
from ._assessment import CutCurve, Histogram
from ._label_graph import label_graph_figure
from .positions import short_name, text_width
from .theme import (
    BLUE,
    COLORS,
    FAINT_INK,
    GRID,
    HALO,
    VERMILLION,
    finite,
    graph_objects,
    measured_axis,
    new_figure,
    number,
    plain,
)

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

GREEN, HIGHLIGHT = COLORS[2], COLORS[4]
# Up to so many labels each has a line of its own in the picture of their measures.
_MOST_LINES = 40
_MEASURES = (("precision", BLUE, "square"), ("recall", GREEN, "diamond"), ("f1", VERMILLION, "circle"))
_MEASURE_NAMES = {"precision": "precision", "recall": "recall", "f1": "F1"}
# A picture with more edges or nodes cannot be read.
_EDGES_PER_LABEL, _MOST_EDGES, MOST_NODES = 1.5, 500, 400


def label_measures_figure(labels: Sequence[dict[str, Any]]) -> Figure:
    """Draw how well each label is found: a line per label, or F1 against support when there are many labels."""
    figure = new_figure()
    figure.update_layout(hovermode="closest")
    texts = [_measures_text(label) for label in labels]
    if len(labels) > _MOST_LINES:
        figure.add_scatter(
            x=[max(label["support"], 0.7) for label in labels],  # a logarithm has no zero: left of all others
            y=finite([label["f1"] for label in labels]),
            mode="markers",
            marker={"size": 9, "color": BLUE, "opacity": 0.7, "line": {"color": "white", "width": 1}},
            hovertext=texts,
            hoverinfo="text",
            customdata=list(range(len(labels))),
            showlegend=False,
        )
        x_axis = {**measured_axis("Rows with the label"), "type": "log", "dtick": 1}
        y_axis = {**measured_axis("F1"), "range": [-0.03, 1.03]}
        figure.update_layout(height=420, xaxis=x_axis, yaxis=y_axis, margin={"l": 60, "r": 20, "t": 16, "b": 52})
        return figure
    order = sorted(range(len(labels)), key=lambda k: (np.nan_to_num(labels[k]["f1"], nan=-1.0), -k))
    lines = list(range(len(labels)))
    for line, k in enumerate(order):
        values = [labels[k][measure] for measure, _, _ in _MEASURES if np.isfinite(labels[k][measure])]
        if values:
            ends = {"x0": min(values), "x1": max(values), "y0": line, "y1": line}
            figure.add_shape(type="line", line={"color": GRID, "width": 4}, layer="below", **ends)
    for measure, color, symbol in _MEASURES:
        figure.add_scatter(
            x=finite([labels[k][measure] for k in order]),
            y=lines,
            mode="markers",
            name=_MEASURE_NAMES[measure],
            marker={"size": 11, "color": color, "symbol": symbol, "line": {"color": "white", "width": 1}},
            hovertext=[texts[k] for k in order],
            hoverinfo="text",
            customdata=order,
            cliponaxis=False,
        )
    names = [f"{plain(short_name(str(labels[k]['label'])))}  ({labels[k]['support']})" for k in order]
    y_axis = {**measured_axis(""), "tickvals": lines, "ticktext": names, "showline": False, "ticks": ""}
    y_axis |= {"range": [-0.7, len(labels) - 0.3], "showgrid": False}
    figure.update_layout(
        height=90 + 24 * len(labels),
        xaxis={**measured_axis(""), "range": [0, 1.01]},
        yaxis=y_axis,
        legend={"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"},
        margin={"l": 20, "r": 20, "t": 36, "b": 36},
    )
    return figure


def cut_figure(curve: CutCurve) -> Figure:
    """Draw precision, recall and F1 of one label over its cut; the cut in use is added by the page."""
    figure = new_figure()
    for measure, color, _ in _MEASURES:
        look = {"color": color, "width": 3 if measure == "f1" else 1.5}
        figure.add_scatter(
            x=finite(curve.cuts),
            y=finite(getattr(curve, measure)),
            mode="lines",
            line=look,
            name=_MEASURE_NAMES[measure],
            hovertemplate="%{y:.3f}",
        )
    figure.update_layout(
        height=320,
        hovermode="x unified",
        xaxis={**measured_axis("Cut: the label is on above it"), "hoverformat": ".3g"},
        yaxis={**measured_axis(""), "range": [-0.02, 1.04]},
        legend={"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom"},
        margin={"l": 44, "r": 16, "t": 40, "b": 52},
    )
    return figure


def score_figure(histogram: Histogram) -> Figure:
    """Draw how scores are distributed, with and without the label."""
    figure = new_figure()
    width = (histogram.high - histogram.low) / len(histogram.without)
    centers = histogram.low + width * (np.arange(len(histogram.without)) + 0.5)
    groups = (("without the label", histogram.without, FAINT_INK), ("with the label", histogram.with_label, BLUE))
    for name, shares, color in groups:
        figure.add_bar(
            x=centers.tolist(),
            y=shares.tolist(),
            name=name,
            marker={"color": color, "opacity": 0.6, "line": {"width": 0}},
            hovertemplate="%{y:.1%}",
        )
    figure.update_layout(
        height=320,
        barmode="overlay",
        bargap=0.04,
        hovermode="x unified",
        xaxis={**measured_axis("Score"), "hoverformat": ".3g"},
        yaxis={**measured_axis("Share of the rows"), "tickformat": ".0%"},
        legend={"orientation": "h", "x": 0, "y": 1, "xanchor": "left", "yanchor": "bottom", "traceorder": "reversed"},
        margin={"l": 60, "r": 16, "t": 40, "b": 52},
    )
    return figure


def feature_figure(names: Sequence[str], weights: Sequence[float], widest_name: float) -> Figure:
    """Draw the features with the greatest weights of one label, with ``widest_name`` pixels for their names."""
    figure = new_figure()
    places = list(range(len(names)))
    figure.add_bar(
        x=list(weights),
        y=places,
        orientation="h",
        marker={"color": [BLUE if weight > 0 else VERMILLION for weight in weights]},
        hovertext=[f"{plain(name)}: {number(weight)}" for name, weight in zip(names, weights, strict=True)],
        hoverinfo="text",
    )
    y_axis = {**measured_axis(""), "tickvals": places, "ticktext": [plain(short_name(name)) for name in names]}
    y_axis |= {"autorange": "reversed", "showgrid": False, "showline": False, "ticks": "", "automargin": False}
    figure.update_layout(
        height=440,
        showlegend=False,
        bargap=0.25,
        xaxis={**measured_axis("Weight"), "zeroline": True, "zerolinecolor": FAINT_INK},
        yaxis=y_axis,
        margin={"l": int(widest_name) + 16, "r": 16, "t": 32, "b": 52},
    )
    return figure


def names_width(names: Sequence[str]) -> float:
    """Pixels that the longest of these names takes beside a bar."""
    return max((text_width(short_name(name), 12.0) for name in names), default=60.0)


def strongest_part(graph: LabelGraph, limit: int | None = None, most_nodes: int = MOST_NODES) -> LabelGraph:
    """The strongest edges (None: as many as can be read in a picture); of many labels only those that they join."""
    weights, edges = graph.edge_weights, graph.edges
    if limit is None:
        limit = int(min(max(_EDGES_PER_LABEL * graph.n_labels, 15), _MOST_EDGES))
    kept = np.sort(np.argsort(-np.abs(weights), kind="stable")[:limit])
    labels = np.arange(graph.n_labels)
    if graph.n_labels > most_nodes and kept.size:
        labels = np.unique(edges[kept])
    elif len(kept) == len(weights):
        return graph
    names = [graph.label_names[k] for k in labels]
    return LabelGraph.from_edges(np.searchsorted(labels, edges[kept]), weights[kept], label_names=names)


def graph_with_choice(graph: LabelGraph, frequencies: np.ndarray | None) -> Figure:
    """The label graph with two more traces, empty at first, in which the page shows a chosen label."""
    go = graph_objects()
    drawn = label_graph_figure(graph, frequencies=frequencies)
    nodes = [trace for trace in drawn.data if trace.customdata is not None]
    edges = [trace for trace in drawn.data if trace.customdata is None]
    common = {"x": [], "y": [], "hoverinfo": "skip", "showlegend": False}
    chosen_edges = go.Scatter(mode="lines", line={"color": HIGHLIGHT, "width": 3}, meta="chosen-edges", **common)
    chosen_nodes = go.Scatter(
        mode="markers+text",
        marker={"symbol": "circle-open", "color": HIGHLIGHT, "size": 24, "line": {"width": 3}},
        textposition="top center",
        textfont={"size": 12, "shadow": HALO},
        meta="chosen-nodes",
        cliponaxis=False,
        **common,
    )
    figure = go.Figure([*edges, chosen_edges, *nodes, chosen_nodes], drawn.layout)
    figure.update_layout(margin={**drawn.layout.margin.to_plotly_json(), "t": 32})
    figure.update_layout(height=drawn.layout.height - drawn.layout.margin.t + 32)
    return figure


def _measures_text(label: dict[str, Any]) -> str:
    shown = [f"<b>{plain(label['label'])}</b>", f"{label['support']} rows have it, {label['predicted']} predicted"]
    shown += [f"{_MEASURE_NAMES[measure]} {number(label[measure])}" for measure, _, _ in _MEASURES]
    return "<br>".join(shown)
