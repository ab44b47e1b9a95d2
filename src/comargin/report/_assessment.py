"""A model on labelled rows: measures, and for each label its curve over the cut, its scores and its confusions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from ..core.indicator import check_indicator, check_labels, split_unknown
from ..metrics import evaluate, per_label
from .anatomy import Anatomy, cuts_of


class CutCurve(NamedTuple):
    """Precision, recall and F1 of one label at decreasing cuts; precision is nan where nothing is on."""

    cuts: np.ndarray
    precision: np.ndarray
    recall: np.ndarray
    f1: np.ndarray


class Histogram(NamedTuple):
    """Scores of rows with and without a label: shares of each of the two groups in equal bins from low to high."""

    low: float
    high: float
    with_label: np.ndarray
    without: np.ndarray


class Reliability(NamedTuple):
    """Probabilities of all labels and rows together, in bins of equal width: none of them is empty."""

    predicted: np.ndarray  # mean probability of a bin
    observed: np.ndarray  # share that is on
    sizes: np.ndarray  # labels of rows


class ConfusedPair(NamedTuple):
    """Rows where one label was predicted wrongly and another was missed."""

    predicted: int
    missed: int
    rows: int  # where both happened
    share: float  # of all misses of the missed label
    lift: float  # times as often as if the two errors were independent


@dataclass(frozen=True, eq=False)
class Assessment:
    """Predictions, scores and measures of a model on labelled rows."""

    Y: sp.csr_array  # 0 in unknown cells
    Y_pred: sp.csr_array
    known: np.ndarray  # bool (n_samples, n_labels)
    scores: np.ndarray | None  # None when the model has none, or some that are not finite
    probabilities: np.ndarray | None  # None when the model has none
    measures: dict[str, float]  # of `comargin.metrics.evaluate`
    labels: list[dict[str, Any]]  # of `comargin.metrics.per_label`
    cuts: np.ndarray  # (n_labels,), where scores above them are exactly the predictions; nan where there is no such cut


def assess(anatomy: Anatomy, X: Any, Y: Any, label_names: Sequence[str]) -> Assessment:
    """Predict the rows once, and measure."""
    from ..decisions.predictions import predictions

    model = anatomy.model
    truth = check_labels(Y, "dataset.Y")
    Y, known = split_unknown(truth, "dataset.Y")
    known = np.ones(Y.shape, dtype=bool) if known is None else known
    found = predictions(model, X, Y.shape[1])
    Y_pred = check_indicator(found.labels, "model.predict(X)")
    scores = None if found.scores is None else np.asarray(found.scores, dtype=np.float64)
    probabilities = _probabilities(model, X, Y.shape) if found.probabilities is None else found.probabilities
    measures = evaluate(truth, scores, Y_pred, probabilities=probabilities)
    labels = per_label(truth, Y_pred, label_names, scores)
    if scores is None or not np.isfinite(scores).all():
        return Assessment(Y, Y_pred, known, None, probabilities, measures, labels, np.full(Y.shape[1], np.nan))
    stated = cuts_of(anatomy, Y.shape[1])
    # A rule over the whole row (the k highest labels, or labels decided together) has no cut to draw.
    is_used = ((scores > stated) == Y_pred.toarray().astype(bool)).all(axis=0) & np.isfinite(stated)
    return Assessment(Y, Y_pred, known, scores, probabilities, measures, labels, np.where(is_used, stated, np.nan))


def _probabilities(model: Any, X: Any, shape: tuple[int, ...]) -> np.ndarray | None:
    """Probabilities of a model whose ``predict_proba`` has a column for every label; some have a list of arrays."""
    P = model.predict_proba(X) if hasattr(model, "predict_proba") else None
    return P if isinstance(P, np.ndarray) and P.shape == shape else None


def reliability(
    Y: sp.csr_array, probabilities: np.ndarray, known: np.ndarray | None = None, n_bins: int = 10
) -> Reliability:
    """How often labels of a probability are on, in the known cells; None: all are."""
    cells = slice(None) if known is None else known.ravel()
    P = probabilities.ravel()[cells]
    bins = np.minimum((P * n_bins).astype(np.intp), n_bins - 1)
    count = np.bincount(bins, minlength=n_bins)
    kept = np.flatnonzero(count)
    predicted = np.bincount(bins, P, n_bins)[kept] / count[kept]
    observed = np.bincount(bins, Y.toarray().ravel()[cells], n_bins)[kept] / count[kept]
    return Reliability(predicted, observed, count[kept])


def cut_curve(
    scores: np.ndarray, positive: np.ndarray, n_points: int, known: np.ndarray | None = None
) -> CutCurve | None:
    """Precision, recall and F1 of a label over its cut, thinned out; None for a label without positives.

    Rows that are not ``known`` are left out; None: all are.
    """
    from ..decisions.curves import score_curve

    if not len(positive):
        return None
    curve = score_curve(scores, positive, 1.0, known, every_gap=True)
    f1 = curve.f1()
    precision = np.divide(curve.hits, curve.on, out=np.full(len(f1), np.nan), where=curve.on > 0)
    # Half of the points evenly by rank, half evenly by score, to show both the crowded part and the tails.
    by_rank = np.linspace(0, len(f1) - 1, n_points // 2).round().astype(np.intp)
    by_cut = np.searchsorted(-curve.cuts, -np.linspace(curve.cuts[0], curve.cuts[-1], n_points // 2))
    kept = np.unique(np.concatenate([by_rank, np.clip(by_cut, 0, len(f1) - 1), [int(np.argmax(f1))]]))
    return CutCurve(curve.cuts[kept], precision[kept], curve.hits[kept] / curve.positives, f1[kept])


def score_histogram(scores: np.ndarray, is_on: np.ndarray, n_bins: int, known: np.ndarray | bool = True) -> Histogram:
    """Distribution of scores with and without a label, each with sum 1 (or 0 where there is none known)."""
    low, high = float(scores.min()), float(scores.max())
    largest = max(abs(low), abs(high))
    if high - low <= 1e-6 * largest:  # constant but for rounding: bins would be narrower than numbers are apart
        margin = 0.5 * max(largest, 1.0)
        low, high = low - margin, high + margin
    groups = [np.histogram(scores[chosen], bins=n_bins, range=(low, high))[0] for chosen in (is_on, ~is_on & known)]
    with_label, without = (counts / max(counts.sum(), 1) for counts in groups)
    return Histogram(low, high, with_label, without)


def confused_pairs(Y: sp.csr_array, Y_pred: sp.csr_array, limit: int) -> list[ConfusedPair]:
    """Pairs of labels that are taken for each other most often: one predicted wrongly where the other is missed."""
    hits = Y.multiply(Y_pred)
    wrong, missed = sp.csr_array(Y_pred - hits, dtype=np.int64), sp.csr_array(Y - hits, dtype=np.int64)
    together = sp.coo_array(sp.csr_array(wrong.T @ missed))
    together.eliminate_zeros()
    n_wrong, n_missed = (np.asarray(errors.sum(axis=0)).ravel() for errors in (wrong, missed))
    order = np.lexsort((together.col, together.row, -together.data))[:limit]
    predicted, missing, rows = together.row[order], together.col[order], together.data[order]
    share, lift = rows / n_missed[missing], rows * Y.shape[0] / (n_wrong[predicted] * n_missed[missing])
    columns = (predicted.tolist(), missing.tolist(), rows.tolist(), share.tolist(), lift.tolist())
    return [ConfusedPair(*pair) for pair in zip(*columns, strict=True)]
