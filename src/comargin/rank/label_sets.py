"""Rules that look at all scores of a row: the k highest, or a threshold that depends on them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ._base import ThresholdRule, check_option, dense
from ._curves import BoolArray, FloatArray, best_row_thresholds

# Scores of learners that rank sum to a constant, up to what their solver has left: no direction to learn from.
_DEPENDENT = 1e-4


class TopK(ThresholdRule):
    """The k labels with the highest scores in every row (RCut).

    Parameters
    ----------
    k : int or None, default=None
        How many labels; None learns it.
    measure : {"micro_f1", "hamming_loss"}, default="micro_f1"
        What a learned k is the best for, by its name in `comargin.metrics`; k is between 1 and the number of
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
    >>> from comargin.thresholds import TopK
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
            if isinstance(self.k, bool) or not isinstance(self.k, int | np.integer) or not 1 <= self.k <= n_labels:
                raise ValueError(
                    f"k must be an int from 1 to the number of labels, {n_labels}, or None; got {self.k!r}."
                )
            self.k_ = int(self.k)
            return
        order = _descending(scores, constant)
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(n_labels)[None, :], axis=1)
        row, label = Y.nonzero()
        hits = np.cumsum(np.bincount(place[row, label], weights=weight[row], minlength=n_labels))
        on = weight.sum() * np.arange(1, n_labels + 1)
        value = 2.0 * hits / (on + weight[row].sum()) if self.measure == "micro_f1" else 2.0 * hits - on
        self.k_ = int(np.argmax(value)) + 1

    def _switch(self, scores: FloatArray) -> BoolArray:
        on = np.zeros(scores.shape, dtype=bool)
        np.put_along_axis(on, _descending(scores, self.constant_)[:, : self.k_], True, axis=1)
        return on


class RankSVMCut(ThresholdRule):
    r"""A threshold for every row, linear in its scores: the label-set rule of Rank-SVM.

    The best threshold :math:`t^*_i` of a row has the least Hamming loss in that row, in the middle of the
    best gap between its scores; then least squares fit :math:`t(x) = s \cdot f(x) + s_0`, and a label is on
    when :math:`f_k(x) > t(x)`. Nothing depends on the scale of f.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels,)
        s; of least norm if the scores are linearly dependent (a combination of them varies 10000 times less than
        another), 0 for constant labels.
    intercept_ : float
        :math:`s_0`.

    Notes
    -----
    Of gaps with the same loss the widest is taken, then the highest. For a row without labels (with all
    labels) the threshold lies half its mean gap above the highest (below the lowest) score. Constant labels
    are left out.

    References
    ----------
    A. Elisseeff, J. Weston. A kernel method for multi-labelled classification. NIPS 2001, 681-687.

    J. Xu. Fast multi-label core vector machine. Pattern Recognition 46(3), 2013, 885-898.

    Examples
    --------
    >>> from comargin.thresholds import RankSVMCut
    >>> scores = [[3.0, 1.0, 0.0], [5.0, 4.0, 2.0], [1.0, 2.0, 3.0], [2.0, 0.0, 1.0]]
    >>> Y = [[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]]
    >>> RankSVMCut().fit(scores, Y).predict(scores)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 0, 1],
           [1, 0, 1]])
    """

    def _learn(self, scores: FloatArray, Y: sparse.csr_array, weight: FloatArray, constant: NDArray[np.int_]) -> None:
        varying = np.flatnonzero(constant == -1)
        self.coef_, self.intercept_ = np.zeros(scores.shape[1]), 0.0
        if varying.size == 0:
            return
        f = scores[:, varying]
        best = best_row_thresholds(f, dense(Y[:, varying]))
        # Centred, so that the scale of f does not meet that of a constant column in the rank decision.
        share = weight / weight.sum()
        mean_f, mean_t = share @ f, share @ best
        root = np.sqrt(share)
        coef = np.linalg.lstsq(root[:, None] * (f - mean_f), root * (best - mean_t), rcond=_DEPENDENT)[0]
        self.coef_[varying] = coef
        self.intercept_ = float(mean_t - mean_f @ coef)

    def margins(self, scores: FloatArray) -> FloatArray:
        """Scores minus the threshold of their row; the sign of constant labels is set.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, n_labels)
            Finite scores of the labels `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Positive exactly where `predict` says 1.
        """
        margins = scores - (scores @ self.coef_ + self.intercept_)[:, None]
        never, always = self.constant_ == 0, self.constant_ == 1
        margins[:, never] = -np.abs(margins[:, never])
        margins[:, always] = np.maximum(np.abs(margins[:, always]), np.finfo(np.float64).tiny)
        return margins

    def _switch(self, scores: FloatArray) -> BoolArray:
        return self.margins(scores) > 0.0


def _descending(scores: FloatArray, constant: NDArray[np.int_]) -> NDArray[np.intp]:
    """Labels of each row by falling score; always-on labels first, never-on labels last."""
    keys = np.where(constant == 0, np.inf, np.where(constant == 1, -np.inf, -scores))
    return np.argsort(keys, axis=1, kind="stable")
