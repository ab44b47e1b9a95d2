r"""Better probabilities and the likeliest label set, from the label sets that occur.

Labels do not occur independently: of the 2^L sets some hundred occur, a few of them often. With p the probabilities of
the labels of a row x, the known sets s, those of the rows that were learned from, have

.. math:: q(s \mid x) = \frac{u_s(x)}{\sum_t u_t(x)}, \qquad
    u_s(x) = \Big(\frac{\operatorname{count}(s)}{1 + \operatorname{expected}(s)}\Big)^a
    \prod_l \big(p_l^{s_l} (1 - p_l)^{1 - s_l}\big)^b

and any set, known or new, has the probability

.. math:: P(s \mid x) = v\, q(s \mid x) + (1 - v) \prod_l p_l^{s_l} (1 - p_l)^{1 - s_l}

where expected(s) is the number of rows that would have the set s if labels were independent, the sum of the last
product over the rows, and 1 - v is the chance that the set of a row is new. (With count(s) alone the rates of the
labels, which the p_l know, would count twice: the likeliest set is then too often that of no label.)

The three numbers a, b and v minimise the log loss of the true sets, each row's own count left out of count(s): a set
that occurs once is new to its row.

The improved probability of a label is (1 - t) p_l + t q_l with q_l its marginal in q and t, at most v, by the log loss
of the labels, with the same counts: what is best for whole sets may be too much for single labels. Where sets hardly
repeat, v and t are near 0 and the probabilities stay what they were.
"""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.special import expit, log_expit, logit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core.indicator import split_unknown
from ..core.row_blocks import row_blocks
from ..core.threshold_rule import FloatArray, check_scores, read_scores_and_labels


@dataclass(frozen=True)
class SetPolicy:
    """Tuned numbers, chosen on six sets (emotions, flags, enron, tmc2007-500, corel5k, cal500)."""

    start: tuple[float, float, float] = (1.0, 0.8, -1.0)  # a, b and logit v of few rows
    prior: float = 2.0  # weight of the squared distance to the start: 1 to 20 differ by 0.02 in log loss on 97 rows
    least_share: float = 1e-3  # v and t below it are 0
    most_sets: int = 8192  # the most frequent ones; bounds the cost of a row
    fitted_cells: int = 2_000_000  # most rows times sets, and times labels, that the numbers are fitted to
    cells_at_once: int = 4_000_000  # bounds temporaries


POLICY = SetPolicy()
_BOUNDS = ((0.0, 4.0), (0.0, 4.0), (-20.0, 20.0))
_NEAREST = 1e-12  # to 0 and to 1


class SetCalibrator(BaseEstimator):
    """Probabilities and label sets that follow the label sets that occur.

    Attributes
    ----------
    sets_ : csr_array of shape (n_sets, n_labels)
        The known label sets, the most frequent first; none where they say nothing.
    log_lifts_ : ndarray of shape (n_sets,)
        Logarithm of how many times more often each set occurs than it would if labels were independent.
    lift_power_, probability_power_ : float
        a and b of the equations in `comargin.decisions.set_calibration`.
    known_share_ : float
        v, the chance that the label set of a row is a known one.
    marginal_share_ : float
        t, the say of the known sets in the probabilities of single labels.

    Notes
    -----
    The probabilities should come from rows that the scorer was not fitted on. The cost of a row is proportional to the
    number of labels in all known sets.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.decisions import SetCalibrator
    >>> Y = np.repeat([[1, 1, 0], [0, 0, 1]], 50, axis=0)
    >>> P = np.where(Y == 1, 0.6, 0.4)
    >>> calibrator = SetCalibrator().fit(P, Y)
    >>> calibrator.marginals([[0.6, 0.6, 0.4]]).round(1)
    array([[0.9, 0.9, 0.1]])
    >>> calibrator.likeliest([[0.45, 0.9, 0.1]])
    array([[1, 1, 0]])
    """

    def fit(self, probabilities: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Learn from probabilities and true labels.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples, n_labels)
            Calibrated probabilities of every label.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            True labels, 0 or 1. Rows with unknown cells (NaN) do not count: their sets are not known.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the rows; a weight of 2 counts as the row given twice.

        Returns
        -------
        self : object
            The fitted calibrator.
        """
        p, Y, weight = read_scores_and_labels(check_probabilities(probabilities), Y, sample_weight, "probabilities")
        Y, known = split_unknown(Y, "Y")
        if known is not None:
            whole = known.all(axis=1)
            p, Y, weight = p[whole], Y[whole], weight[whole]
        sets, counts, own = _known_sets(Y, weight, POLICY.most_sets)
        # A row that weighs 2 stands for two rows, of which each knows the other.
        left = np.where(own >= 0, counts[own] - np.minimum(weight, 1.0), 0.0)
        numbers, log_lifts = (*POLICY.start[:2], 0.0, 0.0), np.log(counts)
        if left.max(initial=0.0) > _NEAREST:
            rows = slice(None, None, -(-len(weight) * max(p.shape[1], len(counts)) // POLICY.fitted_cells))
            M = log_likelihoods(p[rows], sets)
            log_expected = np.log1p(weight[rows] @ np.exp(M) * (weight.sum() / weight[rows].sum()))
            log_lifts -= log_expected
            log_left = np.log(np.where(left > _NEAREST, left, np.nan))[rows] - log_expected[own[rows]]
            numbers = _fitted_numbers(p[rows], Y[rows], sets, M, log_lifts, own[rows], log_left, weight[rows])
        used = slice(None) if numbers[2] >= POLICY.least_share else slice(0)
        self.sets_, self.log_lifts_ = sets[used], log_lifts[used]
        self.lift_power_, self.probability_power_ = numbers[:2]
        self.known_share_, self.marginal_share_ = (x if x >= POLICY.least_share else 0.0 for x in numbers[2:])
        return self

    def marginals(self, probabilities: Any) -> FloatArray:
        """Improved probabilities of single labels.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples, n_labels)
            Calibrated probabilities of the labels `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Probability that each label is on, neither 0 nor 1.
        """
        p = self._checked(probabilities)
        if self.marginal_share_ == 0.0:
            return p
        marginals = p.copy()
        # Known sets say nothing of a label that all of them have, or none.
        varying = np.flatnonzero(np.bincount(self.sets_.indices, minlength=p.shape[1]) % len(self.log_lifts_))
        for rows, log_q, _ in self._blocks(p):
            known = (self.sets_.T @ np.exp(log_q).T).T
            marginals[rows, varying] += self.marginal_share_ * (known - p[rows])[:, varying]
        return np.clip(marginals, _NEAREST, 1.0 - _NEAREST)

    def likeliest(self, probabilities: Any) -> NDArray[np.int64]:
        """The likeliest label set of every row: a known one, or that of the labels with a probability from 1/2 on.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples, n_labels)
            Calibrated probabilities of the labels `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1 where a label is on, 0 elsewhere.
        """
        p = self._checked(probabilities)
        on = p >= 0.5
        if self.known_share_ > 0.0:
            mode = np.log1p(-self.known_share_) + np.log(np.maximum(p, 1.0 - p)).sum(axis=1)
            for rows, log_q, log_independent in self._blocks(p):
                joint = np.logaddexp(np.log(self.known_share_) + log_q, np.log1p(-self.known_share_) + log_independent)
                best = np.argmax(joint, axis=1)
                taken = np.flatnonzero(joint[np.arange(len(best)), best] >= mode[rows])
                on[rows][taken] = self.sets_[best[taken]].toarray() == 1
        return on.astype(np.int64)

    def _checked(self, probabilities: Any) -> FloatArray:
        check_is_fitted(self)
        return check_probabilities(probabilities, self.sets_.shape[1])

    def _blocks(self, p: FloatArray) -> Any:
        """Rows with log q and the logarithms of the independent probabilities of the known sets."""
        n_sets = len(self.log_lifts_)
        for rows in row_blocks(len(p), max(POLICY.cells_at_once // max(n_sets, 1), 1)):
            log_independent = log_likelihoods(p[rows], self.sets_)
            log_u = self.lift_power_ * self.log_lifts_ + self.probability_power_ * log_independent
            log_u -= log_u.max(axis=1, keepdims=True)
            log_u -= np.log(np.exp(log_u).sum(axis=1, keepdims=True))  # 20 times faster than SciPy's logsumexp
            yield rows, log_u, log_independent


def check_probabilities(probabilities: Any, n_labels: int | None = None) -> FloatArray:
    """Probabilities as a float array of two dimensions, moved off 0 and 1."""
    p = check_scores(probabilities, "probabilities", n_labels, "calibrator")
    if p.size and not (p.min() >= 0.0 and p.max() <= 1.0):
        raise ValueError(f"probabilities must be from 0 to 1; got values from {p.min():g} to {p.max():g}.")
    return np.clip(p, _NEAREST, 1.0 - _NEAREST)


def log_likelihoods(p: FloatArray, sets: sparse.csr_array) -> FloatArray:
    """Logarithm of the probability of every set (n_samples, n_sets), the labels independent."""
    return np.log1p(-p).sum(axis=1)[:, None] + (sets @ logit(p).T).T


def _log_likelihood(p: FloatArray, Y: sparse.csr_array) -> FloatArray:
    """Logarithm of the probability of each row's own set, the labels independent."""
    return np.log1p(-p).sum(axis=1) + np.asarray(Y.multiply(logit(p)).sum(axis=1)).ravel()


def _known_sets(
    Y: sparse.csr_array, weight: FloatArray, most: int
) -> tuple[sparse.csr_array, FloatArray, NDArray[np.intp]]:
    """The most frequent sets, their weights, and the set of every row (-1: not among them)."""
    number: dict[bytes, int] = {}
    of_row = np.empty(Y.shape[0], dtype=np.intp)
    for row, (begin, end) in enumerate(zip(Y.indptr[:-1], Y.indptr[1:], strict=True)):
        of_row[row] = number.setdefault(Y.indices[begin:end].tobytes(), len(number))
    counts = np.bincount(of_row, weights=weight).astype(np.float64)
    kept = np.argsort(-counts, kind="stable")[:most]
    place = np.full(len(counts), -1)
    place[kept] = np.arange(len(kept))
    first = np.unique(of_row, return_index=True)[1]
    return sparse.csr_array(Y[first[kept]], dtype=np.float64), counts[kept], place[of_row]


def _fitted_numbers(
    p: FloatArray,
    Y: sparse.csr_array,
    sets: sparse.csr_array,
    M: FloatArray,
    log_lifts: FloatArray,
    own: NDArray[np.intp],
    log_left: FloatArray,
    weight: FloatArray,
) -> tuple[float, float, float, float]:
    """a, b and v by the log loss of each row's set, t by that of its labels.

    ``M`` is the logarithm of the independent probability of each set; ``log_left`` is that of the lift of each row's
    set without the row, NaN if no other row has it.
    """
    independent = _log_likelihood(p, Y)
    mine = np.flatnonzero(own >= 0)
    place = (mine, own[mine])
    known = ~np.isnan(log_left[mine])
    log_left = np.where(known, log_left[mine], 0.0)
    start, total = np.array(POLICY.start), weight.sum()

    def known_sets(a: float, b: float) -> tuple[FloatArray, FloatArray]:
        """Return q (n_samples, n_sets), and log q of the own sets."""
        log_u = a * log_lifts + b * M
        log_u[place] = own_u = np.where(known, a * log_left + b * M[place], -np.inf)
        top = log_u.max(axis=1, initial=-1e300)
        q = np.exp(log_u - top[:, None])
        norm = q.sum(axis=1)
        norm[norm == 0.0] = 1.0  # no set but the row's own, once
        return q / norm[:, None], own_u - (top + np.log(norm))[mine]

    def loss(theta: FloatArray) -> tuple[float, FloatArray]:
        a, b, c = theta
        q, log_q = known_sets(a, b)
        mean_lift = q @ log_lifts
        mean_lift[mine] += q[place] * (log_left - log_lifts[place[1]])
        log_known = np.full(len(M), -np.inf)
        log_known[mine] = log_q + log_expit(c)
        log_p = np.logaddexp(log_known, independent + log_expit(-c))
        by_known = weight * np.exp(log_known - log_p)
        slope = np.array(
            [
                by_known[mine] @ log_left - by_known @ mean_lift,
                by_known[mine] @ M[place] - by_known @ np.vecdot(q, M),
                by_known.sum() - total * expit(c),
            ]
        )
        distance = theta - start
        objective = 0.5 * POLICY.prior * distance @ distance - weight @ log_p
        return objective / total, (POLICY.prior * distance - slope) / total

    a, b, c = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=_BOUNDS, options={"ftol": 1e-10}).x
    right = np.where(Y.toarray(), p, 1.0 - p)  # probability of what is true
    marginal = (sets.T @ known_sets(a, b)[0].T).T
    gain = np.where(Y.toarray(), marginal, 1.0 - marginal) - right
    share = minimize_scalar(lambda t: -float(weight @ np.log(right + t * gain).sum(axis=1)), bounds=(0.0, expit(c)))
    return float(a), float(b), float(expit(c)), float(share.x)
