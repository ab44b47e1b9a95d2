"""Searches for the best cut on sorted scores, shared by all rules.

A label is on when its score is *greater* than the cut. Candidate cuts are the midpoints between two different
neighbouring scores, so tied scores are never separated, and the two ends. An end below the lowest score lies
half a mean gap under it: the offset follows the scale of the scores, which may be 1e-3 or 1e3.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.threshold_rule import BoolArray, FloatArray, below_lowest, end_offset, midpoint


class Curve(NamedTuple):
    """Candidate cuts of one list of scores, strictly decreasing, and what each switches on.

    ``cuts[0]`` is the highest score, which switches nothing on. ``hits`` and ``on`` are the weights of the positives,
    and of all entries, above each cut; ``positives`` is the weight of all positives.
    """

    cuts: FloatArray
    hits: FloatArray
    on: FloatArray
    positives: float

    def f1(self) -> FloatArray:
        """F1 = 2 TP / (predicted + actual positives) at every candidate."""
        return 2.0 * self.hits / (self.on + self.positives)


def score_curve(
    scores: FloatArray, positive: NDArray[np.integer[Any]], weight: FloatArray | float,
    known: BoolArray | None = None, *, every_gap: bool = False,
) -> Curve:  # fmt: skip
    """Candidate cuts of the finite ``scores`` (n,), of which the entries ``positive`` (at least one) are on in truth.

    Entries that are not ``known`` are left out; None: all are.
    ``weight`` is positive, one per entry or one for all; the result is exact for integer weights. ``every_gap`` also
    keeps candidates whose next higher score has no positive: they never maximise F1 or minimise the Hamming loss,
    because lowering a cut over negatives alone only adds errors.
    """
    if known is not None:
        positive, scores = np.cumsum(known)[positive] - 1, scores[known]
        weight = weight if isinstance(weight, float) else weight[known]
    n = len(scores)
    if isinstance(weight, float):
        ordered, hit_weight = np.sort(scores), np.full(len(positive), weight)
        before = weight * np.arange(n + 1.0)
    else:
        order = np.argsort(scores)
        ordered, hit_weight = scores[order], weight[positive]
        before = np.append(0.0, np.cumsum(weight[order]))
    # Levels: the scores just above the candidates, ascending; the entries on are those from `first` upwards.
    levels, level = np.unique(scores[positive], return_inverse=True)
    level_hits = np.bincount(level, weights=hit_weight).astype(np.float64)
    if every_gap:
        all_levels = ordered[np.append(True, ordered[1:] > ordered[:-1])]
        all_hits = np.zeros(len(all_levels))
        all_hits[np.searchsorted(all_levels, levels)] = level_hits
        levels, level_hits = all_levels, all_hits
    first = np.searchsorted(ordered, levels)
    cuts = midpoint(levels, ordered[first - 1])
    if first[0] == 0:
        n_different = 1 + int(np.count_nonzero(ordered[1:] > ordered[:-1]))
        cuts[0] = below_lowest(ordered[0], end_offset(ordered[0], ordered[-1], n_different))
    hits, on = np.cumsum(level_hits[::-1]), (before[-1] - before[first])[::-1]
    return Curve(np.append(ordered[-1], cuts[::-1]), np.append(0.0, hits), np.append(0.0, on), float(hits[-1]))


def best_mean_f1(
    scores: FloatArray, Y: BoolArray, entry_weight: FloatArray, group_weight: FloatArray, known: BoolArray | None = None
) -> float:
    """The highest of the cuts for all entries with the best weighted mean of the F1 of groups.

    ``scores`` and ``Y`` have the shape (n_groups, n_entries); a group is a label for macro-F1, a row of the data for
    example-F1. The weights are positive; entries that are not ``known`` have no say. F1 without positives and
    predictions is 0.

    Going down the sorted scores, each entry changes the F1 of its own group only; the total is the running sum of these
    changes.
    """
    order = np.argsort(-scores, axis=1)
    weight = entry_weight[order]
    if known is not None:
        weight = np.where(np.take_along_axis(known, order, axis=1), weight, 0.0)
    hits = np.cumsum(np.where(np.take_along_axis(Y, order, axis=1), weight, 0.0), axis=1)
    size = np.cumsum(weight, axis=1) + hits[:, -1:]
    f1 = 2.0 * np.divide(hits, size, out=np.zeros_like(hits), where=size > 0.0)
    change = np.empty_like(f1)
    np.put_along_axis(change, order, group_weight[:, None] * np.diff(f1, axis=1, prepend=0.0), axis=1)
    order = np.argsort(-scores, axis=None)
    if known is not None:
        order = order[known.ravel()[order]]
    ordered = scores.ravel()[order]
    last = np.flatnonzero(np.append(ordered[1:] < ordered[:-1], True))  # last entry of each group of ties
    best = int(np.argmax(np.append(0.0, np.cumsum(change.ravel()[order])[last])))
    if best == 0:
        return float(ordered[0])
    if best == len(last):
        return float(below_lowest(ordered[-1], end_offset(ordered[-1], ordered[0], len(last))))
    return float(midpoint(ordered[last[best - 1]], ordered[last[best]]))


def balance_f1(curves: list[Curve], micro_weight: float) -> NDArray[np.intp]:
    r"""Choose one candidate of every label for a balance of macro- and micro-F1.

    .. math:: G = (1 - w) \frac1L \sum_l F_l + w \frac{2 \sum_l TP_l}{\sum_l (on_l + P_l)}

    ``micro_weight`` is w; each curve has a positive. Returns the index of the chosen candidate of every curve.

    Start at each label's best F1, then move one label after the other to its best candidate while the others stay,
    until none moves. G rises with every move, so this ends, where no single cut can be improved. That is the global
    optimum for w = 0, and for w = 1 too: if no label alone can raise micro-F1 = F, each maximises 2 TP_l - F on_l,
    hence their sum is at its maximum, F times the positives, and no choice of cuts exceeds F.
    """
    chosen = np.array([int(np.argmax(curve.f1())) for curve in curves], dtype=np.intp)
    if micro_weight == 0.0:
        return chosen
    hits = sum(float(curve.hits[k]) for curve, k in zip(curves, chosen, strict=True))
    size = sum(float(curve.on[k]) + curve.positives for curve, k in zip(curves, chosen, strict=True))
    macro_weight = (1.0 - micro_weight) / len(curves)
    moved = True
    while moved:
        moved = False
        for label, curve in enumerate(curves):
            now = chosen[label]
            other_hits, other_size = hits - curve.hits[now], size - curve.on[now]
            gain = macro_weight * curve.f1() + micro_weight * 2.0 * (other_hits + curve.hits) / (other_size + curve.on)
            best = int(np.argmax(gain))
            # A move must gain more than rounding, or two candidates could take turns for ever.
            if gain[best] > gain[now] + 1e-12:
                chosen[label], moved = best, True
                hits, size = other_hits + curve.hits[best], other_size + curve.on[best]
    return chosen
