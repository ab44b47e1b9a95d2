"""The sections of a report."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from .. import metrics
from ..core.wording import counted
from ..graphs import LabelGraph
from ._assessment import Assessment, ConfusedPair, score_histogram
from ._curves import objective_figure, rounds_figure
from ._page import Column, Section, escaped, facts, figure_place, folded, table
from .anatomy import Anatomy, certificate_text, parameters_of, tuned_values, value_text
from .label_figures import graph_with_choice, label_measures_figure, score_figure
from .positions import short_name
from .theme import number, plain

_HEADLINES = (
    "micro_f1",
    "macro_f1",
    "subset_accuracy",
    "hamming_loss",
    "ranking_loss",
    "average_precision",
    "precision_at_1",
)
_NAMES = {"f1": "F1", "auc": "AUC", "ndcg": "nDCG"}
_PAIRS_SHOWN, _EDGES_LISTED, _FEATURES_LISTED = 40, 100, 6
_PACKAGES = ("comargin", "numpy", "scipy", "scikit-learn", "plotly")


def summary_section(assessment: Assessment) -> Section:
    """The most used measures at a glance, all others in a table."""
    tiles = []
    for name in _HEADLINES:
        value = assessment.measures.get(name, np.nan)
        if np.isfinite(value):
            better = "higher is better" if metrics.higher_is_better[name] else "lower is better"
            small = f"<small>{better}</small>"
            tiles.append(f'<div class="tile"><b>{value:.3f}</b><span>{_shown(name)}</span>{small}</div>')
    rows = [
        (_shown(name), value, "higher" if metrics.higher_is_better[name] else "lower", _meaning(name))
        for name, value in assessment.measures.items()
    ]
    columns = (Column("Measure"), Column("Value", "number"), Column("Better"), Column("Meaning"))
    everything = folded(f"All {len(rows)} measures", table(columns, rows))
    return Section("summary", "Measures", f'<div class="tiles">{"".join(tiles)}</div>{everything}')


def graph_section(
    graph: LabelGraph, drawn: LabelGraph, frequencies: np.ndarray | None, source: str, place: Mapping[int, int]
) -> tuple[Section, dict[str, Any]]:
    """The label graph, and what the page must know to show a chosen label in it; ``place`` numbers the choices."""
    number_of = {name: k for k, name in enumerate(graph.label_names)}
    members = [number_of[name] for name in drawn.label_names]
    figure = graph_with_choice(drawn, None if frequencies is None else frequencies[members])
    x, y = np.zeros(len(members)), np.zeros(len(members))
    for trace in figure.data:
        if trace.customdata is not None:
            nodes = list(trace.customdata)
            x[nodes], y[nodes] = trace.x, trace.y
    n_edges, n_drawn = len(graph.edge_weights), len(drawn.edge_weights)
    kept = f"The {n_drawn} strongest of {n_edges} edges are drawn" if n_drawn < n_edges else counted(n_edges, "edge")
    if drawn.n_labels < graph.n_labels:
        kept += f"; {graph.n_labels - drawn.n_labels} labels without one of them are left out"
    look = "Line width: absolute weight; dashed: negative."
    if frequencies is not None:
        look = f"{look} Node size: frequency."
    listed = graph.top_edges(_EDGES_LISTED)
    cells = {name: (place.get(k, -1), name) for name, k in number_of.items()}
    rows = [(cells[edge.source], cells[edge.target], edge.weight) for edge in listed]
    columns = (Column("Label", "label"), Column("Label", "label"), Column("Weight", "number"))
    title = f"The {len(rows)} strongest edges" if len(rows) < n_edges else "All edges"
    body = (
        f'<p class="caption">{escaped(source)} {kept}. {look} Drag to move, use the buttons to zoom.</p>'
        f'<div class="beside">{figure_place("graph", "Label graph")}<div>'
        '<p class="caption" id="graph-choice" aria-live="polite"></p>'
        f"{f'<h3>{title}</h3>' + table(columns, rows, tall=len(rows) > 12) if rows else ''}</div></div>"
    )
    edges = [
        [int(i), int(j), float(number(weight))] for (i, j), weight in zip(drawn.edges, drawn.edge_weights, strict=True)
    ]
    names = [{"full": name, "short": plain(short_name(name))} for name in drawn.label_names]
    labels = [place.get(k, -1) for k in members]
    data = {"labels": labels, "names": names, "x": x.tolist(), "y": y.tolist(), "edges": edges}
    return Section("graph", "Label graph", body, {"graph": figure}), data


def labels_section(assessment: Assessment, order: np.ndarray) -> Section:
    """Precision, recall and F1 of the labels, as a picture and as a table."""
    labels = [assessment.labels[k] for k in order]
    has_auc = "auc" in labels[0]
    columns = [Column("Label", "label"), Column("Rows", "count"), Column("Predicted", "count")]
    columns += [Column(title, "bar") for title in ("Precision", "Recall", "F1")]
    measures = ["precision", "recall", "f1"] + (["auc"] if has_auc else [])
    if has_auc:
        columns.append(Column("AUC", "bar"))
    rows = [
        ((k, label["label"]), label["support"], label["predicted"], *(label[measure] for measure in measures))
        for k, label in enumerate(labels)
    ]
    left_out = len(assessment.labels) - len(labels)
    note = f" The {len(labels)} most frequent of {len(assessment.labels)} labels." if left_out else ""
    body = (
        f'<p class="caption">Rows: how many have the label in truth.{note} Click on a label for its details.</p>'
        f"{figure_place('measures', 'Precision, recall and F1 of the labels')}"
        f"{table(columns, rows, name='label-table', tall=len(rows) > 15)}"
    )
    return Section("labels", "Labels", body, {"measures": label_measures_figure(labels)})


def pairs_section(pairs: Sequence[ConfusedPair], names: Sequence[str], place: Mapping[int, int]) -> Section:
    """Pairs of labels that are taken for each other."""
    columns = (
        Column("Predicted wrongly", "label"),
        Column("Missed in the same row", "label"),
        Column("Rows", "count"),
        Column("Of its misses", "share"),
        Column("Times chance", "number"),
    )
    rows = [
        (*((place.get(k, -1), names[k]) for k in (pair.predicted, pair.missed)), pair.rows, pair.share, pair.lift)
        for pair in pairs[:_PAIRS_SHOWN]
    ]
    body = (
        '<p class="caption">Rows in which the first label was predicted although it is not true, and the second was '
        "missed. Times chance: how often more than if the two errors had nothing to do with each other.</p>"
        f"{table(columns, rows, tall=len(rows) > 15)}"
    )
    return Section("confused", "Confused labels", body)


def features_section(weights: np.ndarray, features: Sequence[str], names: Sequence[str], order: np.ndarray) -> Section:
    """The strongest features of every label."""
    rows = []
    for place, k in enumerate(order):
        strongest = np.argsort(-weights[k], kind="stable")
        up = [j for j in strongest[:_FEATURES_LISTED] if weights[k, j] > 0]
        down = [j for j in strongest[::-1][:_FEATURES_LISTED] if weights[k, j] < 0]
        weighted = ([(features[j], weights[k, j]) for j in chosen] for chosen in (up, down))
        rows.append(((place, names[k]), *weighted))
    columns = (Column("Label", "label"), Column("Speaks for it", "weighted"), Column("Speaks against it", "weighted"))
    body = (
        f'<p class="caption">Features with the greatest weights of a linear model, of {weights.shape[1]}. Weights of '
        "features on different scales cannot be compared.</p>"
        f"{table(columns, rows, name='feature-table', tall=len(rows) > 8)}"
    )
    return Section("features", "Features", body)


def scores_section(assessment: Assessment) -> Section:
    """Scores of all labels together."""
    assert assessment.scores is not None
    histogram = score_histogram(assessment.scores, assessment.Y.toarray().astype(bool), 80)
    body = (
        '<p class="caption">Scores of all labels and rows together: the less the two groups overlap, the better labels '
        f"can be told apart by one cut.</p>{figure_place('all-scores', 'Distribution of all scores')}"
    )
    return Section("scores", "Scores", body, {"all-scores": score_figure(histogram)})


def training_section(anatomy: Anatomy, data_facts: Sequence[tuple[str, str]], meta: Mapping[str, Any]) -> Section:
    """What the model is, how it was trained and how sure that is."""
    parts = []
    certificate = certificate_text(anatomy.classifier)
    if certificate is not None:
        parts.append(f'<p class="statement">{escaped(certificate)}</p>')
    fit = []
    history = getattr(anatomy.classifier, "history_", None)
    if history:
        fit.append(("seconds of the last fit", number(history[-1].seconds)))
    if hasattr(anatomy.classifier, "n_iter_"):
        fit.append(("passes", value_text(anatomy.classifier.n_iter_)))
    tuned = tuned_values(anatomy)
    for title, pairs in (
        ("The fit", fit),
        ("Chosen from data", tuned),
        ("About the training", _flat(meta)),
        ("Rows of this report", data_facts),
    ):
        if pairs:
            parts.append(f"<h3>{title}</h3>{facts(pairs)}")
    parts.append("<h3>Parameters</h3>")
    for layer in anatomy.layers:
        rows = parameters_of(layer)
        changed = ", ".join(f"{name}={text}" for name, text, is_changed in rows if is_changed)
        body = table(
            (Column("Parameter"), Column("Value"), Column("State")),
            [(name, text, "changed" if is_changed else "default") for name, text, is_changed in rows],
        )
        parts.append(folded(f"{type(layer).__name__}({changed})", body))
    software = [("Python", platform.python_version())] + [(name, version(name)) for name in _PACKAGES]
    parts.append(f"<h3>Software that wrote this report</h3>{facts(software)}")
    return Section("training", "Training", "".join(parts))


def convergence_section(anatomy: Anatomy) -> Section | None:
    """Objective and gap over time; None for a model without a history."""
    classifier = anatomy.classifier
    history = [point for point in getattr(classifier, "history_", None) or () if np.isfinite(point.primal)]
    if len(history) < 2:
        return None
    fits = {type(classifier).__name__: history}
    figures = {
        "objective": objective_figure(fits, x="seconds"),
        "gap": objective_figure(fits, x="seconds", show="gap"),
    }
    for figure in figures.values():
        figure.update_layout(height=320, showlegend=False, margin={"l": 64, "r": 16, "t": 16, "b": 52})
    if figures["gap"].layout.yaxis.dtick is not None:  # the picture is low: a tick at each power may be too many
        decades = np.ptp(np.log10([value for value in figures["gap"].data[0].y if value is not None]))
        figures["gap"].update_yaxes(dtick=int(np.ceil(decades / 8)))
    convex = not hasattr(classifier, "lower_bound_")
    dual = (
        "its lower bound, the dual (dotted); the optimum lies between them"
        if convex
        else "the dual of each convex step (dotted); the optimum of that step lies between them"
    )
    body = (
        f'<p class="caption">Left: the objective (solid) and {dual}. Right: their distance relative to the '
        "objective.</p>"
        f'<div class="pair">{figure_place("objective", "Objective over seconds")}'
        f"{figure_place('gap', 'Relative duality gap over seconds')}</div>"
    )
    rounds = getattr(classifier, "rounds_", None)
    if rounds and hasattr(rounds[0], "n_cliques"):
        figures["rounds"] = rounds_figure(rounds)
        figures["rounds"].update_layout(height=300, margin={"l": 64, "r": 16, "t": 36, "b": 52})
        body += f"<h3>Rounds of clique generation</h3>{figure_place('rounds', 'Objective and loss by round')}"
    return Section("convergence", "Convergence", body, figures)


def _flat(meta: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Nested meta data as one list."""
    pairs: list[tuple[str, str]] = []
    for key, value in meta.items():
        name = f"{before}{key}"
        if isinstance(value, Mapping) and value:
            pairs += _flat(value, f"{name}: ")
        else:
            pairs.append((name, value_text(value)))
    return pairs


def _shown(measure: str) -> str:
    """``precision_at_3`` as "Precision at 3"."""
    words = " ".join(_NAMES.get(word, word) for word in measure.split("_"))
    return words if words[:2] == "nD" else words[0].upper() + words[1:]


def _meaning(measure: str) -> str:
    """First line of the documentation of a measure."""
    name, _, depth = measure.rpartition("_at_")
    function = getattr(metrics, f"{name}_at_k" if depth.isdigit() else measure)
    line = function.__doc__.strip().splitlines()[0].replace("`", "")
    return line.replace("the k best", f"the {depth} best").replace("its k best", f"its {depth} best") if name else line
