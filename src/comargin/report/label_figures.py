"""Figures of a report about labels: how well each is found, its cut, its scores, its features, its neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..graphs import LabelGraph
from ._assessment import Histogram, Reliability
from ._label_graph import Figure, label_graph_figure
from .positions import short_name, text_width
from .theme import BLUE, COLORS, FAINT_INK, GRID, HALO, VERMILLION, finite, measured_axis, new_figure, number, plain

if TYPE_CHECKING:
    from ..decisions import RiskCurve

_HIGHLIGHT = COLORS[4]
# Up to so many labels each has a line of its own in the picture of their measures.
_MOST_LINES = 40
# Measure: its name, colour and symbol.
_MEASURES = {
    "precision": ("precision", BLUE, "square"),
    "recall": ("recall", COLORS[2], "diamond"),
    "f1": ("F1", VERMILLION, "circle"),
}
_LEGEND_ABOVE = {"y": 1, "yanchor": "bottom"}
# A picture with more edges or nodes cannot be read.
_EDGES_PER_LABEL, _MOST_EDGES, _MOST_NODES = 1.5, 500, 400


def label_measures_figure(labels: Sequence[dict[str, Any]]) -> Figure:
    """Draw how well each label is found: a line per label, or F1 against support when there are many labels."""
    texts = [_measures_text(label) for label in labels]
    if len(labels) > _MOST_LINES:
        figure = new_figure(
            height=420,
            hovermode="closest",
            xaxis=measured_axis("Rows with the label", type="log", dtick=1),
            yaxis=measured_axis("F1", range=[-0.03, 1.03]),
            margin={"l": 60, "r": 20, "t": 16, "b": 52},
        )
        return figure.add_scatter(
            x=[max(label["support"], 0.7) for label in labels],  # a logarithm has no zero: left of all others
            y=finite([label["f1"] for label in labels]),
            mode="markers",
            marker={"size": 9, "color": BLUE, "opacity": 0.7, "line": {"color": "white", "width": 1}},
            hovertext=texts,
            hoverinfo="text",
            customdata=list(range(len(labels))),
            showlegend=False,
        )
    order = sorted(range(len(labels)), key=lambda k: (np.nan_to_num(labels[k]["f1"], nan=-1.0), -k))
    lines = list(range(len(labels)))
    names = [f"{plain(short_name(str(labels[k]['label'])))}  ({labels[k]['support']})" for k in order]
    without_line: dict[str, Any] = {"showline": False, "ticks": "", "showgrid": False}
    figure = new_figure(
        height=90 + 24 * len(labels),
        hovermode="closest",
        xaxis=measured_axis(range=[0, 1.01]),
        yaxis=measured_axis(tickvals=lines, ticktext=names, range=[-0.7, len(labels) - 0.3], **without_line),
        legend=_LEGEND_ABOVE,
        margin={"l": 20, "r": 20, "t": 36, "b": 36},
    )
    for line, k in enumerate(order):
        values = [labels[k][measure] for measure in _MEASURES if np.isfinite(labels[k][measure])]
        if values:
            ends = {"x0": min(values), "x1": max(values), "y0": line, "y1": line}
            figure.add_shape(type="line", line={"color": GRID, "width": 4}, layer="below", **ends)
    for measure, (name, color, symbol) in _MEASURES.items():
        figure.add_scatter(
            x=finite([labels[k][measure] for k in order]),
            y=lines,
            mode="markers",
            name=name,
            marker={"size": 11, "color": color, "symbol": symbol, "line": {"color": "white", "width": 1}},
            hovertext=[texts[k] for k in order],
            hoverinfo="text",
            customdata=order,
            cliponaxis=False,
        )
    return figure


def cut_figure() -> Figure:
    """Draw empty axes for precision, recall and F1 of one label over its cut; the page adds curves and the cut."""
    figure = new_figure(
        height=320,
        hovermode="x unified",
        xaxis=measured_axis("Cut: the label is on above it", hoverformat=".3g"),
        yaxis=measured_axis(range=[-0.02, 1.04]),
        legend=_LEGEND_ABOVE,
        margin={"l": 44, "r": 16, "t": 40, "b": 52},
    )
    for measure, (name, color, _) in _MEASURES.items():
        line = {"color": color, "width": 3 if measure == "f1" else 1.5}
        figure.add_scatter(x=[], y=[], mode="lines", line=line, name=name, hovertemplate="%{y:.3f}")
    return figure


def score_figure(histogram: Histogram) -> Figure:
    """Draw how scores are distributed, with and without the label."""
    figure = new_figure(
        height=320,
        barmode="overlay",
        bargap=0.04,
        hovermode="x unified",
        xaxis=measured_axis("Score", hoverformat=".3g"),
        yaxis=measured_axis("Share of the rows", tickformat=".0%"),
        legend={**_LEGEND_ABOVE, "traceorder": "reversed"},
        margin={"l": 60, "r": 16, "t": 40, "b": 52},
    )
    width = (histogram.high - histogram.low) / len(histogram.without)
    centers = (histogram.low + width * (np.arange(len(histogram.without)) + 0.5)).tolist()
    groups = (("without the label", histogram.without, FAINT_INK), ("with the label", histogram.with_label, BLUE))
    for name, shares, color in groups:
        marker = {"color": color, "opacity": 0.6, "line": {"width": 0}}
        figure.add_bar(x=centers, y=shares.tolist(), name=name, marker=marker, hovertemplate="%{y:.1%}")
    return figure


def reliability_figure(found: Reliability) -> Figure:
    """Draw how often labels are on against their probability; the diagonal is perfect."""
    figure = new_figure(
        height=380,
        hovermode="closest",
        showlegend=False,
        xaxis=measured_axis("Probability", range=[-0.02, 1.02]),
        yaxis=measured_axis("Share that is on", range=[-0.02, 1.02]),
        margin={"l": 60, "r": 16, "t": 16, "b": 52},
    )
    figure.add_scatter(x=[0, 1], y=[0, 1], mode="lines", line={"color": FAINT_INK, "dash": "dot"}, hoverinfo="skip")
    figure.add_scatter(
        x=found.predicted.tolist(),
        y=found.observed.tolist(),
        mode="lines+markers",
        line={"color": BLUE, "width": 2},
        marker={"size": 9, "color": BLUE},
        customdata=found.sizes.tolist(),
        hovertemplate="probability %{x:.3f}<br>on %{y:.3f}<br>%{customdata} labels of rows<extra></extra>",
    )
    return figure


def promise_figure(curve: RiskCurve) -> Figure:
    """Draw what a promise is about over the cut: measured, vouched for, and promised."""
    figure = new_figure(
        height=340,
        hovermode="x unified",
        xaxis=measured_axis("Cut: labels with a greater probability are on", hoverformat=".3g", range=[-0.02, 1.02]),
        yaxis=measured_axis(curve.guarantee.measure[0].upper() + curve.guarantee.measure[1:], rangemode="tozero"),
        yaxis2=measured_axis("Tags per row", overlaying="y", side="right", showgrid=False, rangemode="tozero"),
        legend=_LEGEND_ABOVE,
        margin={"l": 60, "r": 60, "t": 40, "b": 52},
    )
    shown = {"x": curve.cuts.tolist(), "mode": "lines", "hovertemplate": "%{y:.3f}"}
    price = {"color": FAINT_INK, "width": 1.5, "dash": "dot"}
    figure.add_scatter(y=finite(curve.tags_per_row), name="tags per row", yaxis="y2", line=price, **shown)
    figure.add_scatter(
        y=finite(curve.value), name="on the calibration rows", line={"color": BLUE, "width": 1.5}, **shown
    )
    figure.add_scatter(y=finite(curve.bound), name="vouched for", line={"color": VERMILLION, "width": 3}, **shown)
    figure.add_hline(y=curve.guarantee.target, line={"color": VERMILLION, "width": 1, "dash": "dash"})
    return figure


def feature_figure(names: Sequence[str]) -> Figure:
    """Draw empty axes for the features with the greatest weights of one label, with room for these names."""
    without_line: dict[str, Any] = {"showline": False, "ticks": "", "showgrid": False}
    widest = max((text_width(short_name(name), 12.0) for name in names), default=60.0)
    figure = new_figure(
        height=440,
        showlegend=False,
        bargap=0.25,
        xaxis=measured_axis("Weight", zeroline=True, zerolinecolor=FAINT_INK),
        yaxis=measured_axis(tickvals=[], ticktext=[], autorange="reversed", **without_line) | {"automargin": False},
        margin={"l": int(widest) + 16, "r": 16, "t": 32, "b": 52},
    )
    return figure.add_bar(x=[], y=[], orientation="h", marker={"color": []}, hovertext=[], hoverinfo="text")


def strongest_part(graph: LabelGraph, limit: int | None = None, most_nodes: int = _MOST_NODES) -> LabelGraph:
    """The ``limit`` strongest edges (None: as many as a picture can show); of many labels only those they join."""
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
    figure = label_graph_figure(graph, frequencies=frequencies)
    n_edges = sum(trace.customdata is None for trace in figure.data)  # traces of edges come first
    common = {"x": [], "y": [], "hoverinfo": "skip", "showlegend": False}
    figure.add_scatter(mode="lines", line={"color": _HIGHLIGHT, "width": 3}, meta="chosen-edges", **common)
    figure.add_scatter(
        mode="markers+text",
        marker={"symbol": "circle-open", "color": _HIGHLIGHT, "size": 24, "line": {"width": 3}},
        textposition="top center",
        textfont={"size": 12, "shadow": HALO},
        meta="chosen-nodes",
        cliponaxis=False,
        **common,
    )
    *drawn, chosen_edges, chosen_nodes = figure.data
    figure.data = (*drawn[:n_edges], chosen_edges, *drawn[n_edges:], chosen_nodes)
    return figure.update_layout(margin_t=32, height=figure.layout.height - figure.layout.margin.t + 32)


def _measures_text(label: dict[str, Any]) -> str:
    shown = [f"<b>{plain(label['label'])}</b>", f"{label['support']} rows have it, {label['predicted']} predicted"]
    shown += [f"{name} {number(label[measure])}" for measure, (name, _, _) in _MEASURES.items()]
    return "<br>".join(shown)
