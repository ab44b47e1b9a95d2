"""The rules: one cut for all labels, one per label, or the k highest scores of a row."""

from abc import abstractmethod

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..core.checks import number, whole_number
from ..core.indicator import split_unknown
from ..core.threshold_rule import BoolArray, FloatArray, ThresholdRule, check_option, dense
from .curves import Curve, balance_f1, best_mean_f1, score_curve


class _CutRule(ThresholdRule):
    """A rule with one cut per label: on when the score is greater than ``thresholds_``."""

    def _learn(self, scores: FloatArray, Y: sparse.csr_array, weight: FloatArray, constant: NDArray[np.int_]) -> None:
        thresholds = np.where(constant == 0, np.inf, -np.inf)
        varying = np.flatnonzero(constant == -1)
        equal = bool((weight == weight[0]).all())
        thresholds[varying] = self._cuts(
            scores[:, varying], sparse.csc_array(Y[:, varying]), float(weight[0]) if equal else weight
        )
        self.thresholds_ = thresholds

    @abstractmethod
    def _cuts(self, scores: FloatArray, Y: sparse.csc_array, weight: FloatArray | float) -> FloatArray | float:
        """Cuts of the labels that are not constant, maybe of none; a float is the weight of every row."""

    def _switch(self, scores: FloatArray) -> BoolArray:
        return scores > self.thresholds_


class GlobalCut(_CutRule):
    """One cut for all labels, the best for a named measure.

    Parameters
    ----------
    measure : {"micro_f1", "macro_f1", "example_f1", "hamming_loss"}, default="micro_f1"
        The measure that chooses the cut, by its name in `comargin.metrics`. F1 of a label or row without positives
        and predictions counts as 0. Constant labels (see `ThresholdRule`) do not enter.

    Attributes
    ----------
    cut_ : float
        The cut; the highest of equally good ones. NaN if every label is constant.
    thresholds_ : ndarray of shape (n_labels,)
        The cut of each label: ``cut_``, or plus (minus) infinity for a label never (always) on.

    Examples
    --------
    >>> from comargin.decisions import GlobalCut
    >>> scores = [[0.9, 0.2], [0.4, 0.1], [0.0, 0.6], [0.2, 0.3]]
    >>> GlobalCut().fit(scores, [[1, 0], [1, 0], [0, 1], [0, 0]]).thresholds_
    array([0.35, 0.35])
    """

    def __init__(self, measure: str = "micro_f1") -> None:
        self.measure = measure

    def _cuts(self, scores: FloatArray, Y: sparse.csc_array, weight: FloatArray | float) -> float:
        check_option("measure", self.measure, ("micro_f1", "macro_f1", "example_f1", "hamming_loss"))
        if scores.size == 0:
            self.cut_ = float("nan")
            return self.cut_
        n_samples, n_labels = scores.shape
        Y, known = split_unknown(Y, "Y")
        if self.measure in ("macro_f1", "example_f1"):
            rows, labels = np.broadcast_to(weight, n_samples), np.ones(n_labels)
            if self.measure == "macro_f1":
                flipped = None if known is None else known.T
                self.cut_ = best_mean_f1(np.ascontiguousarray(scores.T), dense(Y.T), rows, labels, flipped)
            else:
                self.cut_ = best_mean_f1(scores, dense(Y), labels, rows, known)
            return self.cut_
        row, label = Y.nonzero()
        positive = row.astype(np.intp) * n_labels + label
        cell_weight = weight if isinstance(weight, float) else np.repeat(weight, n_labels)
        curve = score_curve(scores.ravel(), positive, cell_weight, None if known is None else known.ravel())
        # Hamming loss = misses + false alarms = positives + on - 2 hits.
        value = curve.f1() if self.measure == "micro_f1" else 2.0 * curve.hits - curve.on
        self.cut_ = float(curve.cuts[np.argmax(value)])
        return self.cut_


class PerLabelCut(_CutRule):
    r"""One F1 cut per label, with a safeguard for rare labels.

    The cut with the best F1 of a rare label is little more than the position of its two or three positives;
    where it is too low, the label is switched on in most rows and drowns the good predictions of the others.
    Two safeguards:

    1. Cuts maximise not the mean of the labels' F1 alone but a balance with micro-F1,
       :math:`(1 - w) \cdot \text{macro-F1} + w \cdot \text{micro-F1}`, in which false alarms have a price for
       all;
    2. each is then shrunk towards the global cut :math:`g` by its number of positives :math:`P_l`,
       :math:`c_l \leftarrow (P_l c_l + m g) / (P_l + m)`.

    Parameters
    ----------
    micro_weight : float, default=0.5
        w. With 0 every label has its own best F1 (macro-F1 is maximal), with 1 micro-F1 is maximal.
    shrinkage : float, default=20.0
        m, the number of positives at which a label's own cut and the global cut have the same say. The global
        cut is the best for micro-F1.
    fbr : float, default=0.0
        A label whose best F1 stays below this value gets the highest score as its cut instead, so it is on
        only for scores higher than all seen (SCutFBR of Yang, 2001). 0 never does.

    Attributes
    ----------
    thresholds_ : ndarray of shape (n_labels,)
        Cut of each label; plus (minus) infinity for a label never (always) on.
    global_cut_ : float
        g. NaN if every label is constant.
    best_f1_ : ndarray of shape (n_labels,)
        The best F1 each label could have on the scores given; NaN for constant labels.

    Notes
    -----
    ``PerLabelCut(micro_weight=0, shrinkage=0)`` is the plain SCut rule. For ``micro_weight`` strictly between
    0 and 1 the choice before shrinking is one that no change of a single cut improves. Of equally good cuts
    of a label the highest is taken. The cost is one sort per label and one of all scores.

    References
    ----------
    Y. Yang. A study of thresholding strategies for text categorization. SIGIR 2001, 137-145.

    R.-E. Fan, C.-J. Lin. A study on threshold selection for multi-label classification. Technical report,
    National Taiwan University, 2007.

    Examples
    --------
    >>> from comargin.decisions import PerLabelCut
    >>> scores = [[0.9, 0.2], [0.4, 0.1], [0.0, 0.6], [0.2, 0.3]]
    >>> Y = [[1, 0], [1, 0], [0, 1], [0, 0]]
    >>> PerLabelCut(micro_weight=0, shrinkage=0).fit(scores, Y).thresholds_
    array([0.3 , 0.45])
    >>> PerLabelCut().fit(scores, Y).thresholds_.round(3)
    array([0.345, 0.355])
    """

    def __init__(self, micro_weight: float = 0.5, shrinkage: float = 20.0, fbr: float = 0.0) -> None:
        self.micro_weight = micro_weight
        self.shrinkage = shrinkage
        self.fbr = fbr

    def _cuts(self, scores: FloatArray, Y: sparse.csc_array, weight: FloatArray | float) -> FloatArray:
        number("micro_weight", self.micro_weight, 0.0, 1.0)
        number("shrinkage", self.shrinkage, 0.0)
        number("fbr", self.fbr, 0.0, 1.0)
        curves = _label_curves(scores, Y, weight)
        best_f1 = np.array([curve.f1().max() for curve in curves])
        trusted = best_f1 >= self.fbr
        kept = [curve for curve, ok in zip(curves, trusted, strict=True) if ok]
        cuts = np.array([curve.cuts[0] for curve in curves])
        self.global_cut_ = GlobalCut()._cuts(scores, Y, weight)
        if kept:
            chosen = balance_f1(kept, float(self.micro_weight))
            own = np.array([curve.cuts[k] for curve, k in zip(kept, chosen, strict=True)])
            positives = np.array([curve.positives for curve in kept])
            share = positives / (positives + self.shrinkage)
            cuts[trusted] = self.global_cut_ + share * (own - self.global_cut_)
        self.best_f1_ = best_f1
        return cuts

    def _learn(self, scores: FloatArray, Y: sparse.csr_array, weight: FloatArray, constant: NDArray[np.int_]) -> None:
        super()._learn(scores, Y, weight, constant)
        best_f1 = np.full(len(constant), np.nan)
        best_f1[constant == -1] = self.best_f1_
        self.best_f1_ = best_f1


class ProportionalCut(_CutRule):
    """One cut per label, so that it is predicted as often as it is true (PCut).

    The cut is chosen on the scores given to `fit`, so each new row is judged alone; the original PCut ranks
    all new rows together.

    Attributes
    ----------
    thresholds_ : ndarray of shape (n_labels,)
        The cut with the predicted count nearest to the true one (tied scores may leave none equal to it), the
        higher of two equally near. Plus (minus) infinity for a label never (always) on.

    Examples
    --------
    >>> from comargin.decisions import ProportionalCut
    >>> scores = [[0.9, 0.2], [0.4, 0.1], [0.0, 0.6], [0.2, 0.3]]
    >>> rule = ProportionalCut().fit(scores, [[0, 0], [1, 1], [0, 1], [1, 0]])
    >>> rule.predict(scores).sum(axis=0)
    array([2, 2])
    """

    def _cuts(self, scores: FloatArray, Y: sparse.csc_array, weight: FloatArray | float) -> FloatArray:
        curves = _label_curves(scores, Y, weight, every_gap=True)
        return np.array([c.cuts[np.argmin(np.abs(c.on - c.positives))] for c in curves])


def _label_curves(
    scores: FloatArray, Y: sparse.csc_array, weight: FloatArray | float, *, every_gap: bool = False
) -> list[Curve]:
    ones, known = split_unknown(Y, "Y")
    Y = sparse.csc_array(ones)
    columns = np.ascontiguousarray(scores.T)
    return [
        score_curve(
            column, Y.indices[Y.indptr[label] : Y.indptr[label + 1]], weight,
            None if known is None else known[:, label], every_gap=every_gap,
        )
        for label, column in enumerate(columns)
    ]  # fmt: skip


class TopK(ThresholdRule):
    """The k labels with the highest scores in every row (RCut).

    Parameters
    ----------
    k : int or None, default=None
        How many labels; None learns it.
    measure : {"micro_f1", "hamming_loss"}, default="micro_f1"
        The measure that chooses k, by its name in `comargin.metrics`; k is between 1 and the number of
        labels.

    Attributes
    ----------
    k_ : int
        Number of labels on in every row; the smallest of equally good ones.

    Notes
    -----
    Of equal scores the first label is taken first. Labels always on in `fit` come before all others, labels
    never on after all others.

    Examples
    --------
    >>> from comargin.decisions import TopK
    >>> scores = [[0.9, 0.2, 0.1], [0.4, 0.1, 0.3]]
    >>> TopK(k=2).fit(scores, [[1, 1, 0], [1, 0, 1]]).predict(scores)
    array([[1, 1, 0],
           [1, 0, 1]])
    """

    def __init__(self, k: int | None = None, measure: str = "micro_f1") -> None:
        self.k = k
        self.measure = measure

    def _learn(self, scores: FloatArray, Y: sparse.csr_array, weight: FloatArray, constant: NDArray[np.int_]) -> None:
        n_labels = scores.shape[1]
        check_option("measure", self.measure, ("micro_f1", "hamming_loss"))
        if self.k is not None:
            self.k_ = whole_number("k", self.k, 1, n_labels)
            return
        order = _descending(scores, constant)
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(n_labels)[None, :], axis=1)
        Y, known = split_unknown(Y, "Y")
        row, label = Y.nonzero()
        hits = np.cumsum(np.bincount(place[row, label], weights=weight[row], minlength=n_labels))
        on = weight.sum() * np.arange(1, n_labels + 1)
        if known is not None:
            seen = np.nonzero(known)
            on = np.cumsum(np.bincount(place[seen], weights=weight[seen[0]], minlength=n_labels))
        value = 2.0 * hits / (on + weight[row].sum()) if self.measure == "micro_f1" else 2.0 * hits - on
        self.k_ = int(np.argmax(value)) + 1

    def _switch(self, scores: FloatArray) -> BoolArray:
        return top_mask(scores, self.constant_, self.k_)


def top_mask(scores: FloatArray, constant: NDArray[np.int_], k: int) -> BoolArray:
    """The k highest labels of every row, in the order of `TopK`."""
    on = np.zeros(scores.shape, dtype=bool)
    np.put_along_axis(on, _descending(scores, constant)[:, :k], True, axis=1)
    return on


def _descending(scores: FloatArray, constant: NDArray[np.int_]) -> NDArray[np.intp]:
    """Labels of each row by falling score; always-on labels first, never-on labels last."""
    keys = np.where(constant == 0, np.inf, np.where(constant == 1, -np.inf, -scores))
    return np.argsort(keys, axis=1, kind="stable")
