r"""From scores to probabilities, label by label, with a say of all labels where one has few positives.

The probability of label l at the score s is a mixture of a sigmoid and an isotonic step function,

.. math:: p_l(s) = (1 - w_l)\, \sigma(a_l s + b_l) + w_l\, g_l(s), \qquad w_l = \frac{m_l}{m_l + M}

with m_l the positives or the negatives of the label, whichever are fewer. Few positives get the smooth curve of two
numbers; many get the shape that they show. The sigmoid rises strictly, so that the order of scores stays, and no
probability is 0 or 1.

Slope and offset maximise the likelihood with a Gaussian prior around those of all labels together,

.. math:: \min_{a, b} \sum_i \log(1 + e^{\eta_i}) - y_i \eta_i + \frac{\kappa_a}2 (a / a_0 - 1)^2
    + \frac{\kappa_b}2 (b - b_0 - c_0 \operatorname{logit} r_l)^2, \qquad \eta_i = a s_i + b

where r_l is the smoothed rate of the label and (a_0, b_0, c_0) fit all labels at once. A label with two positives is
so given the sigmoid that labels of its rate have. Labels that are never (always) on get their smoothed rate.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from scipy.special import expit, logit
from sklearn.base import BaseEstimator
from sklearn.isotonic import isotonic_regression
from sklearn.utils.validation import check_is_fitted

from ..core.indicator import split_unknown
from ..core.row_blocks import row_blocks
from ..core.threshold_rule import FloatArray, check_scores, read_scores_and_labels
from ._loops_sigmoid import fit_sigmoid


@dataclass(frozen=True)
class CalibrationPolicy:
    """Tuned numbers, chosen on five sets (emotions, flags, enron, tmc2007-500, cal500) for three kinds of scores."""

    slope: float = 10.0  # kappa_a: from 10 to 30 the Brier score hardly changes; without it rare labels lose
    offset: float = 5.0  # kappa_b: the same from 1 to 20
    isotonic_from: float = 100.0  # M: 30 follows noise on a few hundred rows, 300 smooths what 4000 rows show
    pooled_cells: int = 1_000_000  # most rows times labels that the common sigmoid is fitted to
    cells_at_once: int = 4_000_000  # bounds temporaries


POLICY = CalibrationPolicy()
_ENOUGH = 1e-9  # slope of the objective, relative to the number of cells, at which the common sigmoid is found
_LEAST_SLOPE = 0.02  # of the common one: a label whose scores say nothing, or the contrary, keeps their order
_NEAREST = 1e-12  # to 0 and to 1


class LabelCalibrator(BaseEstimator):
    """Calibrated probabilities of labels from their scores.

    Attributes
    ----------
    slope_, offset_ : ndarray of shape (n_labels,)
        The sigmoid of every label, in the units of its scores.
    share_ : ndarray of shape (n_labels,)
        Share of the isotonic function.
    knots_, values_ : ndarray of shape (n_knots,)
        Isotonic functions of all labels, one after the other: scores and probabilities, linear between.
    first_ : int ndarray of shape (n_labels + 1,)
        Where the knots of each label begin.

    Notes
    -----
    Scores should come from rows that the scorer was not fitted on. The cost is some passes over the scores and a sort
    for every label.

    References
    ----------
    J. Platt. Probabilistic outputs for support vector machines. Advances in Large Margin Classifiers, 1999.

    B. Zadrozny, C. Elkan. Transforming classifier scores into accurate multiclass probability estimates. KDD 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.decisions import LabelCalibrator
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(1000, 2))
    >>> Y = (rng.random((1000, 2)) < 1 / (1 + np.exp(-3 * scores - 1))).astype(int)
    >>> LabelCalibrator().fit(scores, Y).probabilities([[-2.0, 0.0], [0.0, 1.0]]).round(1)
    array([[0. , 0.8],
           [0.8, 1. ]])
    """

    def fit(self, scores: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Learn from scores and true labels.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_labels)
            Finite scores, higher for labels more likely on.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            True labels, 0 or 1; cells that are NaN are unknown and count nowhere.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the rows; a weight of 2 counts as the row given twice.

        Returns
        -------
        self : object
            The fitted calibrator.
        """
        scores, Y, weight = read_scores_and_labels(scores, Y, sample_weight)
        ones, known = split_unknown(Y, "Y")
        n_labels, columns = scores.shape[1], sparse.csc_array(ones)
        positives = np.asarray(columns.T @ weight)
        total = float(weight.sum()) if known is None else weight @ known
        rate = logit((positives + 0.5) / (total + 1.0))
        n_known = len(weight) if known is None else np.maximum(np.count_nonzero(known, axis=0), 1)
        varying = np.flatnonzero(np.diff(columns.indptr) % n_known)
        self.slope_, self.offset_, self.share_ = np.zeros(n_labels), rate.copy(), np.zeros(n_labels)
        steps, n_knots = [], np.zeros(n_labels, dtype=np.int64)
        if varying.size:
            few = np.minimum(positives, total - positives)[varying]
            self.share_[varying] = few / (few + POLICY.isotonic_from)
            there = None if known is None else known[:, varying]
            centre = _mean(scores[:, varying], weight, there)
            scale = float(np.sqrt(_mean(np.square(scores[:, varying] - centre), weight, there))) or 1.0
            rows = slice(None, None, -(-scores.shape[0] * varying.size // POLICY.pooled_cells))
            common = _common_sigmoid(
                (scores[rows][:, varying] - centre) / scale, columns[:, varying][rows].toarray(), weight[rows],
                rate[varying], None if there is None else there[rows],
            )  # fmt: skip
            for part in row_blocks(varying.size, max(POLICY.cells_at_once // scores.shape[0], 1)):
                labels = varying[part]
                T = np.ascontiguousarray(scores[:, labels].T)
                on = np.ascontiguousarray(columns[:, labels].toarray().T)
                for label, t, y in zip(labels, T, on, strict=True):
                    own = weight
                    if known is not None:
                        t, y, own = t[known[:, label]], y[known[:, label]], weight[known[:, label]]
                    a, b = _own_sigmoid((t - centre) / scale, y, own, rate[label], common)
                    self.slope_[label], self.offset_[label] = a / scale, b - a * centre / scale
                    steps.append(_steps(t, y, own))
                    n_knots[label] = len(steps[-1][0])
        self.knots_, self.values_ = (np.concatenate(parts) for parts in zip(*steps, (np.empty(0),) * 2, strict=True))
        self.first_ = np.concatenate([[0], np.cumsum(n_knots)])
        return self

    def of_log_odds(self, n_labels: int) -> Self:
        """The calibrator that takes scores for log odds, with nothing to learn."""
        self.slope_, self.offset_, self.share_ = np.ones(n_labels), np.zeros(n_labels), np.zeros(n_labels)
        self.knots_ = self.values_ = np.empty(0)
        self.first_ = np.zeros(n_labels + 1, dtype=np.int64)
        return self

    def probabilities(self, scores: Any) -> FloatArray:
        """Probabilities of the labels.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_labels)
            Finite scores of the labels `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Probability that each label is on, neither 0 nor 1.
        """
        check_is_fitted(self)
        scores = check_scores(scores, n_labels=len(self.slope_), of="calibrator")
        p = expit(self.slope_ * scores + self.offset_)
        for label in np.flatnonzero(self.share_):
            own = slice(self.first_[label], self.first_[label + 1])
            step = np.interp(scores[:, label], self.knots_[own], self.values_[own])
            p[:, label] += self.share_[label] * (step - p[:, label])
        return np.clip(p, _NEAREST, 1.0 - _NEAREST)


def _mean(values: FloatArray, weight: FloatArray, known: np.ndarray | None) -> float:
    """Weighted mean over the known cells."""
    if known is None:
        return float(weight @ values.mean(axis=1)) / float(weight.sum())
    return float(weight @ (values * known).sum(axis=1)) / float(weight @ known.sum(axis=1))


def _common_sigmoid(
    T: FloatArray, on: np.ndarray, weight: FloatArray, rate: FloatArray, known: np.ndarray | None
) -> FloatArray:
    """a_0, b_0 and c_0, with a weak prior around 1, 0 and 1."""
    features = np.stack([T, np.ones(T.shape), np.broadcast_to(rate, T.shape)])
    if known is not None:  # the known cells, as if of one label
        features, on, weight = features[:, known][..., None], on[known][:, None], weight[np.nonzero(known)[0]]
    prior, total = np.array([1.0, 0.0, 1.0]), weight.sum() * on.shape[1]

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        eta, distance = np.tensordot(theta, features, 1), theta - prior
        losses = weight @ (np.logaddexp(0.0, eta) - on * eta).sum(axis=1)
        slope = np.tensordot(features, weight[:, None] * (expit(eta) - on), 2)
        return (losses + 0.5 * distance @ distance) / total, (slope + distance) / total

    theta = minimize(loss, prior, jac=True, method="BFGS", options={"gtol": _ENOUGH}).x
    theta[0] = max(theta[0], _LEAST_SLOPE)
    return theta


def _own_sigmoid(
    t: FloatArray, on: np.ndarray, weight: FloatArray, rate: float, common: FloatArray
) -> tuple[float, float]:
    """Slope and offset of a label, which rise."""
    a_0, b_0 = common[0], common[1] + common[2] * rate
    a, b = fit_sigmoid(t, on, weight, a_0, b_0, POLICY.slope / a_0**2, POLICY.offset)
    return max(a, _LEAST_SLOPE * a_0), b


def _steps(s: FloatArray, on: np.ndarray, weight: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Scores and values of the isotonic function closest to a label; linear between them."""
    order = np.argsort(s, kind="stable")
    s, weight = s[order], weight[order]
    first = np.flatnonzero(np.diff(s, prepend=-np.inf) > 0.0)  # of rows with equal scores, which share their mean
    s, mass = s[first], np.add.reduceat(weight, first)
    keep = mass > 0.0
    means = np.add.reduceat(weight * on[order], first)[keep] / mass[keep]
    s, values = s[keep], isotonic_regression(means, sample_weight=mass[keep])
    inside = np.zeros(len(s), dtype=bool)  # of a run of equal values only the ends are knots
    inside[1:-1] = (values[1:-1] == values[:-2]) & (values[1:-1] == values[2:])
    return s[~inside], values[~inside]
