"""From a ranking to a label set, Eq. (2): a threshold for every row, by regression on its scores."""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..core.indicator import split_unknown
from ..core.threshold_rule import BoolArray, FloatArray, ThresholdRule, below_lowest, dense, end_offset, midpoint

# Relative singular value of dependent scores: ranking scores sum to a constant, up to the solver's gap.
_DEPENDENT = 1e-4


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
    are left out. :math:`t^*_i` counts the known labels of a row only; rows without any are left out.

    References
    ----------
    A. Elisseeff, J. Weston. A kernel method for multi-labelled classification. NIPS 2001, 681-687.

    J. Xu. Fast multi-label core vector machine. Pattern Recognition 46(3), 2013, 885-898.

    Examples
    --------
    >>> from comargin.decisions import RankSVMCut
    >>> scores = [[3.0, 1.0, 0.0], [5.0, 4.0, 2.0], [1.0, 2.0, 3.0], [2.0, 0.0, 1.0]]
    >>> Y = [[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]]
    >>> RankSVMCut().fit(scores, Y).predict(scores)
    array([[1, 0, 0],
           [1, 1, 0],
           [0, 0, 1],
           [1, 0, 1]])
    """

    def _learn(self, scores: FloatArray, Y: sparse.csr_array, weight: FloatArray, constant: NDArray[np.int_]) -> None:
        Y, known = split_unknown(Y, "Y")
        known = np.ones(Y.shape, dtype=bool) if known is None else known
        varying = np.flatnonzero(constant == -1)
        self.coef_, self.intercept_ = np.zeros(scores.shape[1]), 0.0
        if varying.size == 0:
            return
        counts = known[:, varying].any(axis=1)
        if not counts.all():
            scores, Y, weight, known = scores[counts], Y[counts], weight[counts], known[counts]
        f = scores[:, varying]
        best = best_row_thresholds(f, dense(Y[:, varying]), known[:, varying])
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


def best_row_thresholds(scores: FloatArray, Y: BoolArray, known: BoolArray) -> FloatArray:
    """Threshold of every row with the least Hamming loss of that row: the middle of the best gap between its scores.

    Among gaps with the same loss the widest is taken, then the highest. The gaps outside the highest and the lowest
    score are as wide as the row's mean gap. Labels that are not ``known`` do not count; some label is in every row.
    """
    n_samples, n_labels = scores.shape
    rows, n_known = np.arange(n_samples), known.sum(axis=1)
    order = np.argsort(np.where(known, -scores, np.inf), axis=1, kind="stable")
    ordered = np.take_along_axis(scores, order, axis=1)
    low = ordered[rows, n_known - 1]
    hits = np.zeros((n_samples, n_labels + 1), dtype=np.int64)
    np.cumsum(np.take_along_axis(Y, order, axis=1), axis=1, out=hits[:, 1:])
    errors = hits[:, -1:] + np.arange(n_labels + 1) - 2 * hits  # misses + false alarms with the j highest on
    offset = end_offset(low, ordered[:, 0], n_known)
    bottom = below_lowest(low, 2.0 * offset)
    ordered = np.where(np.arange(n_labels) < n_known[:, None], ordered, bottom[:, None])  # gaps of no width
    upper = np.column_stack([-below_lowest(-ordered[:, 0], 2.0 * offset), ordered])
    lower = np.column_stack([ordered, bottom])
    width = upper - lower
    errors = np.where(width > 0.0, errors, n_labels + 1)  # tied scores cannot be separated
    best = np.argmax(np.where(errors == errors.min(axis=1, keepdims=True), width, -1.0), axis=1)
    return midpoint(upper[rows, best], lower[rows, best])
