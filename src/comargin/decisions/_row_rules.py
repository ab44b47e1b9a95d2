"""The rule that takes the k highest scores of every row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..core.threshold_rule import BoolArray, FloatArray, ThresholdRule, check_option


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


def _descending(scores: FloatArray, constant: NDArray[np.int_]) -> NDArray[np.intp]:
    """Labels of each row by falling score; always-on labels first, never-on labels last."""
    keys = np.where(constant == 0, np.inf, np.where(constant == 1, -np.inf, -scores))
    return np.argsort(keys, axis=1, kind="stable")
