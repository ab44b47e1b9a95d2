"""The section about one label; the script of the page fills it for the label that is chosen."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._assessment import Assessment, ConfusedPair, Histogram, cut_curve, score_histogram
from ._page import Section, figure_place
from .label_figures import cut_figure, feature_figure, score_figure
from .positions import short_name
from .theme import number, plain

_FEATURES, _PAIRS, _BINS = 10, 5, 30
# Points of a curve: fewer when there are many labels, so that the page does not grow too large.
_POINTS, _POINTS_OF_MANY, _MANY_LABELS = 80, 40, 200


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
        detail: dict[str, Any] = {"name": names[k], "facts": _facts(assessment, int(k))}
        if assessment.scores is not None:
            scores = np.ascontiguousarray(assessment.scores[:, k])
            positive = Y.indices[Y.indptr[k] : Y.indptr[k + 1]]
            curve = cut_curve(scores, positive, n_points)
            detail["curve"] = None if curve is None else [_short(values) for values in curve]
            histogram = score_histogram(scores, np.isin(np.arange(len(scores)), positive), _BINS)
            ends = _short([histogram.low, histogram.high])
            detail["histogram"] = [*ends, _short(histogram.without), _short(histogram.with_label)]
            detail["cut"] = None if np.isnan(assessment.cuts[k]) else float(assessment.cuts[k])
        if weights is not None:
            shown = np.concatenate(strongest_features(weights[k], _FEATURES))
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


def _facts(assessment: Assessment, k: int) -> list[list[str]]:
    label = assessment.labels[k]
    facts = [
        ["rows with it", f"{label['support']} ({100 * label['support'] / assessment.Y.shape[0]:.3g} %)"],
        ["predicted for", f"{label['predicted']} rows"],
    ]
    for measure, name in (("precision", "precision"), ("recall", "recall"), ("f1", "F1"), ("auc", "AUC")):
        if measure in label:
            facts.append([name, f"{label[measure]:.3f}" if np.isfinite(label[measure]) else "not defined"])
    if assessment.scores is not None:
        cut = assessment.cuts[k]
        facts.append(["on above", "no fixed cut" if np.isnan(cut) else number(cut)])
    return facts


def strongest_features(weights: np.ndarray, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """Up to ``limit`` features with positive and with negative weights, both from the highest to the lowest weight."""
    order = np.argsort(-weights, kind="stable")
    up, down = order[:limit], order[-limit:]
    return up[weights[up] > 0], down[weights[down] < 0]


def _short(values: Any) -> list[float | None]:
    """Round to four digits, enough for a picture, which keeps the page small."""
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]
