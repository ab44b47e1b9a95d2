"""The sections of a report."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.wording import counted
from ..graphs import LabelGraph
from ..metrics.measures import MEASURES, split_depth
from ._assessment import Assessment, ConfusedPair, Histogram, cut_curve, reliability, score_histogram
from ._curves import objective_figure, rounds_figure
from ._page import Section, escaped, facts, figure_place, folded, table
from .anatomy import Anatomy, certificate_text, parameters_of, tuned_values, value_text
from .label_figures import (
    cut_figure,
    feature_figure,
    graph_with_choice,
    label_measures_figure,
    promise_figure,
    reliability_figure,
    score_figure,
)
from .positions import short_name
from .theme import number, plain

if TYPE_CHECKING:
    from ..core.explanation import Explanation
    from ..decisions import RiskController

_HEADLINES = (
    *("micro_f1", "macro_f1", "subset_accuracy", "hamming_loss", "ranking_loss", "average_precision"),
    "precision_at_1",
)
_NAMES = {"f1": "F1", "auc": "AUC", "ndcg": "nDCG"}
_PAIRS_SHOWN, _EDGES_LISTED, _FEATURES_LISTED, _EXPLAINED = 40, 100, 6, 40
_FEATURES, _PAIRS, _BINS = 10, 5, 30  # of one label
# Points of a curve: fewer when there are many labels, so that the page does not grow too large.
_POINTS, _POINTS_OF_MANY, _MANY_LABELS = 80, 40, 200
_PACKAGES = ("comargin", "numpy", "scipy", "scikit-learn", "plotly")


def summary_section(assessment: Assessment) -> Section:
    """The most used measures at a glance, all others in a table."""
    rows, tiles = [], {}
    for name, value in assessment.measures.items():
        better = "lower" if MEASURES[split_depth(name)[0]].lower_is_better else "higher"
        rows.append((_shown(name), value, better, _meaning(name)))
        if np.isfinite(value):
            small = f"<small>{better} is better</small>"
            tiles[name] = f'<div class="tile"><b>{value:.3f}</b><span>{_shown(name)}</span>{small}</div>'
    columns = (("Measure", "text"), ("Value", "number"), ("Better", "text"), ("Meaning", "text"))
    everything = folded(f"All {len(rows)} measures", table(columns, rows))
    headlines = "".join(tiles.get(name, "") for name in _HEADLINES)
    return Section("summary", "Measures", f'<div class="tiles">{headlines}</div>{everything}')


def graph_section(
    graph: LabelGraph, drawn: LabelGraph, frequencies: np.ndarray | None, source: str, place: Mapping[int, int]
) -> tuple[Section, dict[str, Any]]:
    """The label graph, and the data to show a chosen label in it; ``place`` numbers the choices."""
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
    look = f"Line width: absolute weight; dashed: negative.{'' if frequencies is None else ' Node size: frequency.'}"
    cells = {name: (place.get(k, -1), name) for name, k in number_of.items()}
    rows = [(cells[edge.source], cells[edge.target], edge.weight) for edge in graph.top_edges(_EDGES_LISTED)]
    columns = (("Label", "label"), ("Label", "label"), ("Weight", "number"))
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
    titles = {"precision": "Precision", "recall": "Recall", "f1": "F1", "auc": "AUC"}
    measures = [measure for measure in titles if measure in labels[0]]
    columns = [("Label", "label"), ("Rows", "count"), ("Predicted", "count")]
    columns += [(titles[measure], "bar") for measure in measures]
    rows = [
        ((k, label["label"]), label["support"], label["predicted"], *(label[measure] for measure in measures))
        for k, label in enumerate(labels)
    ]
    n_all = len(assessment.labels)
    note = f" The {len(labels)} most frequent of {n_all} labels." if len(labels) < n_all else ""
    body = (
        f'<p class="caption">Rows: how many have the label in truth.{note} Click on a label for its details.</p>'
        f"{figure_place('measures', 'Precision, recall and F1 of the labels')}"
        f"{table(columns, rows, name='label-table', tall=len(rows) > 15)}"
    )
    return Section("labels", "Labels", body, {"measures": label_measures_figure(labels)})


def one_label_section(
    assessment: Assessment,
    names: Sequence[str],
    order: np.ndarray,
    pairs: Sequence[ConfusedPair],
    weights: np.ndarray | None,
    features: Sequence[str],
) -> tuple[Section, list[dict[str, Any]], int]:
    """The section about one label, its contents for each label, and the label to begin with."""
    n_points = _POINTS if len(order) <= _MANY_LABELS else _POINTS_OF_MANY
    Y = assessment.Y.tocsc()
    wrong_where_missed: list[list[Any]] = [[] for _ in names]
    missed_where_wrong: list[list[Any]] = [[] for _ in names]
    for pair in pairs:
        wrong_where_missed[pair.missed].append([names[pair.predicted], pair.rows])
        missed_where_wrong[pair.predicted].append([names[pair.missed], pair.rows])
    details = []
    for k in order:
        detail: dict[str, Any] = {"name": names[k], "facts": _label_facts(assessment, int(k))}
        if assessment.scores is not None:
            scores = np.ascontiguousarray(assessment.scores[:, k])
            positive = Y.indices[Y.indptr[k] : Y.indptr[k + 1]]
            known = assessment.known[:, k]
            curve = cut_curve(scores, positive, n_points, known)
            detail["curve"] = None if curve is None else [_short(values) for values in curve]
            is_on = np.isin(np.arange(len(scores)), positive)
            histogram = score_histogram(scores, is_on, _BINS, known)
            ends = _short([histogram.low, histogram.high])
            detail["histogram"] = [*ends, _short(histogram.without), _short(histogram.with_label)]
            detail["cut"] = None if np.isnan(assessment.cuts[k]) else float(assessment.cuts[k])
        if weights is not None:
            shown = np.concatenate(_strongest_features(weights[k], _FEATURES))
            detail["features"] = {
                "names": [plain(features[j]) for j in shown],
                "shorts": [plain(short_name(features[j])) for j in shown],
                "weights": _short(weights[k, shown]),
            }
        # The pairs come by decreasing frequency: the first few of a label are its most frequent.
        detail["takenInstead"], detail["takenFor"] = wrong_where_missed[k][:_PAIRS], missed_where_wrong[k][:_PAIRS]
        details.append(detail)
    first = int(np.argmax([assessment.labels[k]["support"] for k in order]))
    figures, body = {}, ""
    if assessment.scores is not None:
        figures["cut"] = cut_figure()
        figures["scores"] = score_figure(Histogram(0.0, 1.0, np.zeros(_BINS), np.zeros(_BINS)))
        body += (
            f'<div class="pair"><div><h3>What another cut would give</h3>{figure_place("cut", "Measures over the cut")}'
            f"</div><div><h3>Its scores</h3>{figure_place('scores', 'Scores with and without the label')}</div></div>"
        )
    confusions = (
        '<div><h3>Predicted wrongly where it is missed</h3><ol class="pairs" id="taken-instead"></ol>'
        '<h3>Missed where it is predicted wrongly</h3><ol class="pairs" id="taken-for"></ol></div>'
    )
    if weights is not None:
        figures["features"] = feature_figure([name for detail in details for name in detail["features"]["shorts"]])
        picture = figure_place("features", "Weights of the strongest features")
        body += f'<div class="pair"><div><h3>Its strongest features</h3>{picture}</div>{confusions}</div>'
    else:
        body += confusions
    head = (
        '<p class="caption">Choose a label above, or click on one in the graph, a picture or a table.</p>'
        '<h3 id="label-name" class="chosen-name"></h3><dl class="facts" id="label-facts"></dl>'
    )
    return Section("one-label", "One label", head + body, figures), details, first


def pairs_section(pairs: Sequence[ConfusedPair], names: Sequence[str], place: Mapping[int, int]) -> Section:
    """Pairs of labels that are taken for each other."""
    columns = (
        ("Predicted wrongly", "label"),
        ("Missed in the same row", "label"),
        ("Rows", "count"),
        ("Of its misses", "share"),
        ("Times chance", "number"),
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


def explanations_section(
    explained: Mapping[int, list[Explanation]], assessment: Assessment, names: Sequence[str], place: Mapping[int, int]
) -> Section:
    """Why some rows have their tags; ``explained`` by the numbers of the rows."""
    begin = (("Row", "count"), ("Label", "label"), ("True", "text"), ("Score", "number"))
    sides = (("Speaks for it", "weighted"), ("Speaks against it", "weighted"))
    columns = (*begin, *sides, ("All others", "number"), ("Intercept", "number"))
    rows = []
    for row, explanations in explained.items():
        for one in explanations:
            k = int(one.label)
            terms = [(short_name(term.text), term.value) for term in one.with_names(names).contributions]
            signs = [[term for term in terms if (term[1] > 0) == positive] for positive in (True, False)]
            is_true = "yes" if assessment.Y[row, k] else "no" if assessment.known[row, k] else "unknown"
            rows.append((row, (place.get(k, -1), names[k]), is_true, one.score, *signs, one.others, one.intercept))
    body = (
        f'<p class="caption">The tags of the first {counted(len(explained), "row")} that have some. A score is the sum '
        "of what speaks for the label and against it, of all others and of the intercept, before any cut; rows are "
        f"numbered from 0.</p>{table(columns, rows[:_EXPLAINED], tall=len(rows) > 8)}"
    )
    return Section("why", "Why these tags", body)


def features_section(weights: np.ndarray, features: Sequence[str], names: Sequence[str], order: np.ndarray) -> Section:
    """The strongest features of every label."""
    rows = []
    for place, k in enumerate(order):
        up, down = _strongest_features(weights[k], _FEATURES_LISTED)
        weighted = ([(features[j], weights[k, j]) for j in chosen] for chosen in (up, down[::-1]))
        rows.append(((place, names[k]), *weighted))
    columns = (("Label", "label"), ("Speaks for it", "weighted"), ("Speaks against it", "weighted"))
    body = (
        f'<p class="caption">Features with the greatest weights of a linear model, of {weights.shape[1]}. Weights of '
        "features on different scales cannot be compared.</p>"
        f"{table(columns, rows, name='feature-table', tall=len(rows) > 8)}"
    )
    return Section("features", "Features", body)


def scores_section(assessment: Assessment) -> Section:
    """Scores of all labels together."""
    assert assessment.scores is not None
    histogram = score_histogram(assessment.scores, assessment.Y.toarray().astype(bool), 80, assessment.known)
    body = (
        '<p class="caption">Scores of all labels and rows together: the less the two groups overlap, the better labels '
        f"can be told apart by one cut.</p>{figure_place('all-scores', 'Distribution of all scores')}"
    )
    return Section("scores", "Scores", body, {"all-scores": score_figure(histogram)})


def probabilities_section(assessment: Assessment) -> Section:
    """How far probabilities can be taken at their word."""
    assert assessment.probabilities is not None
    error = assessment.measures["calibration_error"]
    body = (
        '<p class="caption">Probabilities of all labels and rows together, in ten bins: of the labels with a '
        f"probability of 0.3, three in ten should be on. Label by label they are off by {error:.3f} on average.</p>"
        f"{figure_place('reliability', 'Share of labels that are on, over their probability')}"
    )
    figure = reliability_figure(reliability(assessment.Y, assessment.probabilities, assessment.known))
    return Section("probabilities", "Probabilities", body, {"reliability": figure})


def promise_section(promise: RiskController) -> Section:
    """What is promised, the cut that keeps it, and its price."""
    figures, pictures = {}, []
    for k, curve in enumerate(promise.risk_curves_):
        g = curve.guarantee
        figures[f"promise-{k}"] = promise_figure(curve).add_vline(x=float(np.clip(curve.cut, 0.0, 1.0)), line_width=1)
        head = f"<h3>{escaped(str(g))}: on above {number(curve.cut)}</h3>"
        pictures.append(head + figure_place(f"promise-{k}", f"Risk curve of {g}"))
    price = f"On the rows that certify it, {promise.tags_per_row_:.2f} labels per row are on."
    body = f'<p class="statement">{escaped(promise.statement_)} {price}</p>{"".join(pictures)}'
    return Section("promise", "Promise", body, figures)


def training_section(anatomy: Anatomy, data_facts: Sequence[tuple[str, str]], meta: Mapping[str, Any]) -> Section:
    """Certificate, training and parameters of the model."""
    certificate = certificate_text(anatomy.classifier)
    parts = [] if certificate is None else [f'<p class="statement">{escaped(certificate)}</p>']
    fit = []
    history = getattr(anatomy.classifier, "history_", None)
    if history:
        fit.append(("seconds of the last fit", number(history[-1].seconds)))
    if hasattr(anatomy.classifier, "n_iter_"):
        fit.append(("passes", value_text(anatomy.classifier.n_iter_)))
    for title, pairs in (
        ("The fit", fit),
        ("Chosen from data", tuned_values(anatomy)),
        ("About the training", _flat(meta)),
        ("Rows of this report", data_facts),
    ):
        if pairs:
            parts.append(f"<h3>{title}</h3>{facts(pairs)}")
    parts.append("<h3>Parameters</h3>")
    for layer in anatomy.layers:
        rows = parameters_of(layer)
        changed = ", ".join(f"{name}={text}" for name, text, is_changed in rows if is_changed)
        states = [(name, text, "changed" if is_changed else "default") for name, text, is_changed in rows]
        columns = (("Parameter", "text"), ("Value", "text"), ("State", "text"))
        parts.append(folded(f"{type(layer).__name__}({changed})", table(columns, states)))
    software = [("Python", platform.python_version())] + [(name, version(name)) for name in _PACKAGES]
    parts.append(f"<h3>Software that wrote this report</h3>{facts(software)}")
    return Section("training", "Training", "".join(parts))


def members_section(anatomy: Anatomy) -> Section | None:
    """The members of a blend with what each contributes, and what else was tried; None for a model without trials."""
    trials = anatomy.first("trials_")
    if not trials:
        return None
    columns = (
        *(("Model", "text"), ("Parameters", "text"), ("Rows", "count"), ("Value of the aim", "number")),
        *(("Log loss", "number"), ("Seconds", "number"), ("Weight", "bar")),
    )
    rows = [
        (trial.model, trial.text, trial.rows, trial.value, trial.log_loss, trial.seconds, trial.weight)
        for trial in sorted(trials, key=lambda trial: (-trial.weight, trial.log_loss))
    ]
    n_members = sum(trial.weight > 0.0 for trial in trials)
    body = (
        f'<p class="caption">{counted(n_members, "model")} of {counted(len(trials), "trial")}, on rows left out. '
        "The weight is the share of a member's log odds in those of the whole. A member stays only if the blend "
        "without it is worse by more than a standard error of the log loss.</p>"
        f"{table(columns, rows[:n_members])}{folded('All trials', table(columns, rows))}"
    )
    return Section("members", "Members", body)


def convergence_section(anatomy: Anatomy) -> Section | None:
    """Objective and gap over time; None for a model without a history."""
    classifier = anatomy.classifier
    history = [point for point in getattr(classifier, "history_", None) or () if np.isfinite(point.primal)]
    if len(history) < 2:
        return None
    fit = {type(classifier).__name__: history}
    figures = {show: objective_figure(fit, x="seconds", show=show) for show in ("objective", "gap")}
    for figure in figures.values():
        figure.update_layout(height=320, showlegend=False, margin={"l": 64, "r": 16, "t": 16, "b": 52})
    if figures["gap"].layout.yaxis.dtick is not None:  # the picture is low: a tick at each power may be too many
        decades = np.ptp(np.log10([value for value in figures["gap"].data[0].y if value is not None]))
        figures["gap"].update_yaxes(dtick=int(np.ceil(decades / 8)))
    dual = "its lower bound, the dual (dotted); the optimum lies between them"
    if hasattr(classifier, "lower_bound_"):  # convex only step by step
        dual = "the dual of each convex step (dotted); the optimum of that step lies between them"
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
    """One sentence on a measure."""
    name, depth = split_depth(measure)
    return MEASURES[name].meaning.format(k=depth)


def _label_facts(assessment: Assessment, k: int) -> list[list[str]]:
    label, n_known = assessment.labels[k], int(assessment.known[:, k].sum())
    facts = [
        ["rows with it", f"{label['support']} ({100 * label['support'] / max(n_known, 1):.3g} %)"],
        *([] if n_known == assessment.Y.shape[0] else [["rows that know it", str(n_known)]]),
        ["predicted for", f"{label['predicted']} rows"],
    ]
    for measure, name in (("precision", "precision"), ("recall", "recall"), ("f1", "F1"), ("auc", "AUC")):
        if measure in label:
            facts.append([name, f"{label[measure]:.3f}" if np.isfinite(label[measure]) else "not defined"])
    if assessment.scores is not None:
        cut = assessment.cuts[k]
        facts.append(["on above", "no fixed cut" if np.isnan(cut) else number(cut)])
    return facts


def _strongest_features(weights: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to ``limit`` features with positive and with negative weights, both from the highest to the lowest weight."""
    order = np.argsort(-weights, kind="stable")
    up, down = order[:limit], order[-limit:]
    return up[weights[up] > 0], down[weights[down] < 0]


def _short(values: Any) -> list[float | None]:
    """Round to four digits, enough for a picture, which keeps the page small."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]
