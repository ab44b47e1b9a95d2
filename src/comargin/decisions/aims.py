"""From probabilities to the label sets that are best for a named measure.

With p_l the probability of label l in a row, improved by the label sets that occur (`SetCalibrator`), the labels are

====================  =====================================================================================
hamming_loss          those with p_l >= 1/2
costs (f_l, m_l)      those with p_l >= f_l / (f_l + m_l), of a false and a missed tag; constant labels too
subset_accuracy       the likeliest label set, from all sets that occur and the independent mode
example_f1            among the sets of the k likeliest labels that with the greatest expected F1
macro_f1              those with p_l >= F_l / 2, F_l the best F1 that the label has in expectation over all rows
micro_f1              those above the mean of F / 2, F that of all labels together, and a learned cut of the label
precision_at_3        the three with the greatest p_l
ranking               as for hamming_loss; the ranking itself is the order of the p_l
====================  =====================================================================================

The cut F/2 holds for any set of rows: adding an entry of probability p to predictions with the expected F1 = 2 H / D
changes it to 2 (H + p) / (D + 1), which is more if and only if p > H / D = F / 2.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from ..core.checks import number
from ..core.threshold_rule import BoolArray, FloatArray, ThresholdRule
from ..core.wording import did_you_mean
from ..metrics.measures import split_depth
from ._expected_f1 import best_expected_f1
from ._rules import PerLabelCut, top_mask
from .set_calibration import SetCalibrator, check_probabilities

#: The measures an `AimRule` decides for; beside these ``"precision_at_3"``, of any depth, and cost matrices.
AIMS = ("hamming_loss", "subset_accuracy", "micro_f1", "macro_f1", "example_f1", "ranking")


class AimRule(ThresholdRule):
    """Label sets that are best in expectation for a named measure.

    Parameters
    ----------
    aim : str or array-like of shape (2,) or (n_labels, 2), default="micro_f1"
        A measure of `AIMS`, ``"precision_at_3"`` (or another number), or the costs of a false and of a missed tag, the
        same for all labels or one row a label. ``"ranking"`` gives the sets of ``"hamming_loss"``: a ranking is the
        order of `probabilities`, not a set.
    zero_division : float, default=0.0
        What ``"example_f1"`` counts for a row without true and predicted labels, as in `comargin.metrics.example_f1`.
        With 0 every row gets a label, if there are any that are not always off.

    Attributes
    ----------
    sets_ : SetCalibrator
        What improves the probabilities.
    micro_cuts_, macro_cuts_ : ndarray of shape (n_labels,)
        Least improved probability of a label that is on for micro-F1 and for macro-F1.

    Notes
    -----
    The probabilities should be calibrated label by label on rows that the scorer was not fitted on, as by
    `LabelCalibrator`; the rule improves them itself. The cost is that of `SetCalibrator` and a sort of each label
    (macro-F1 and micro-F1) or of each row (example-F1, precision at k).

    References
    ----------
    Z. C. Lipton, C. Elkan, B. Naryanaswamy. Optimal thresholding of classifiers to maximize F1 measure. ECML 2014.

    N. Ye, K. M. A. Chai, W. S. Lee, H. L. Chieu. Optimizing F-measures: a tale of two approaches. ICML 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.decisions import AimRule
    >>> rng = np.random.default_rng(0)
    >>> P = rng.random((300, 4))
    >>> Y = (rng.random(P.shape) < P).astype(int)
    >>> row = [[0.7, 0.4, 0.3, 0.1]]
    >>> AimRule("hamming_loss").fit(P, Y).predict(row)
    array([[1, 0, 0, 0]])
    >>> AimRule("example_f1").fit(P, Y).predict(row)
    array([[1, 1, 0, 0]])
    >>> AimRule().fit(P, Y).predict(row, aim=[1.0, 4.0])
    array([[1, 1, 1, 0]])
    """

    def __init__(self, aim: Any = "micro_f1", *, zero_division: float = 0.0) -> None:
        self.aim = aim
        self.zero_division = zero_division

    def fit(self, probabilities: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Learn the rule.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples, n_labels)
            Probabilities of the labels, calibrated label by label.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            True labels, 0 or 1; cells that are NaN are unknown and count nowhere.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the rows; a weight of 2 counts as the row given twice, 0 as the row left out.

        Returns
        -------
        self : object
            The fitted rule.
        """
        return super().fit(check_probabilities(probabilities), Y, sample_weight)

    def predict(self, probabilities: Any, aim: Any = None) -> NDArray[np.int64]:
        """Apply the rule.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples, n_labels)
            Probabilities of the labels `fit` saw, calibrated label by label.
        aim : str, array-like or None, default=None
            What to decide for, in place of the parameter ``aim``.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1 where a label is on, 0 elsewhere.
        """
        return self.decide(probabilities, aim)[0]

    def decide(self, probabilities: Any, aim: Any = None) -> tuple[NDArray[np.int64], FloatArray]:
        """Label sets, and the improved probabilities that they come from.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples, n_labels)
            Probabilities of the labels `fit` saw, calibrated label by label.
        aim : str, array-like or None, default=None
            As in `predict`.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_labels)
            1 where a label is on, 0 elsewhere.
        probabilities : ndarray of shape (n_samples, n_labels)
            What ``sets_`` makes of the probabilities.
        """
        check_is_fitted(self)
        scores = check_probabilities(probabilities)
        p = self.sets_.marginals(scores)
        kind, value = check_aim(self.aim if aim is None else aim, self.n_labels_)
        off, always = self.constant_ == 0, self.constant_ == 1
        if kind == "precision_at_k":  # the places are filled in any case
            return top_mask(p, self.constant_, value).astype(np.int64), p
        if kind == "costs":  # decide by themselves, also on labels that were constant
            return (p >= value[:, 0] / value.sum(axis=1)).astype(np.int64), p
        if kind == "subset_accuracy":
            on = self.sets_.likeliest(scores) == 1
        elif kind == "example_f1":
            on = best_expected_f1(np.where(off, 0.0, np.where(always, p.max(initial=0.0), p)), self.zero_division)[0]
        else:
            cuts = {"micro_f1": self.micro_cuts_, "macro_f1": self.macro_cuts_, "hamming_loss": 0.5, "ranking": 0.5}
            on = p >= cuts[kind]
        return (on & ~off | always).astype(np.int64), p

    def _learn(self, scores: FloatArray, Y: sparse.csr_array, weight: FloatArray, constant: NDArray[np.int_]) -> None:
        check_aim(self.aim, scores.shape[1])
        number("zero_division", self.zero_division, 0.0, 1.0)
        self.sets_ = SetCalibrator().fit(scores, Y, weight)
        p = self.sets_.marginals(scores)
        self.macro_cuts_ = 0.5 * _best_expected_f1(p, weight)
        # What the probabilities expect and what the labels show: their mean is steadier than either.
        expected = 0.5 * _best_expected_f1(p.reshape(-1, 1), np.repeat(weight, p.shape[1]))[0]
        shown = PerLabelCut(micro_weight=1.0).fit(p, Y, weight).thresholds_
        self.micro_cuts_ = 0.5 * (expected + np.clip(shown, 0.0, 1.0))

    def _switch(self, scores: FloatArray) -> BoolArray:
        return self.decide(scores)[0] == 1


def check_aim(aim: Any, n_labels: int) -> tuple[str, Any]:
    """The kind of an aim as `AimRule` takes it, checked, and its numbers.

    The kind is a name of `AIMS`, "precision_at_k" with the depth k, or "costs" with those of each label, a matrix
    (n_labels, 2).

    >>> check_aim("precision_at_3", 10)
    ('precision_at_k', 3)
    >>> check_aim("f1_micro", 10)
    Traceback (most recent call last):
    ...
    ValueError: aim must be a measure or costs, got 'f1_micro'; did you mean 'micro_f1' or 'macro_f1'?
    """
    if not isinstance(aim, str):
        return "costs", _check_costs(aim, n_labels)
    if aim in AIMS:
        return aim, None
    name, k = split_depth(aim)
    if name == "precision_at_k" and k:
        if k > n_labels:
            raise ValueError(f"aim must be of at most {n_labels} labels, got {aim!r}.")
        return name, k
    if aim.startswith("precision_at"):
        raise ValueError(f'aim must have a number of labels, e.g. "precision_at_3"; got {aim!r}.')
    known = (*AIMS, "precision_at_3")
    near = did_you_mean(aim, known, lambda text: "_".join(sorted(text.split("_"))))
    raise ValueError(f"aim must be a measure or costs, got {aim!r}; {near}")


def _check_costs(aim: Any, n_labels: int) -> FloatArray:
    """Costs (n_labels, 2) of a false and a missed tag."""
    try:
        costs = np.asarray(aim, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"aim must be a name, or costs: numbers of shape (2,) or ({n_labels}, 2); {error}.") from error
    if costs.shape not in ((2,), (n_labels, 2)):
        raise ValueError(
            f"aim must have shape (2,) or ({n_labels}, 2), the cost of a false and of a missed tag for all "
            f"labels or for each; got shape {costs.shape}."
        )
    if not (np.isfinite(costs).all() and (costs >= 0.0).all()):
        raise ValueError("aim must have costs that are finite and not negative.")
    if not costs.any(axis=-1).all():
        raise ValueError("aim must have a positive cost of every label, of a false or of a missed tag.")
    return np.broadcast_to(costs, (n_labels, 2))


def _best_expected_f1(p: FloatArray, weight: FloatArray) -> FloatArray:
    """The best F1 in expectation of every column: the maximum over cuts of 2 H / (predicted + expected).

    Dinkelbach's iteration: the entries above F / 2 are the best for F, and their F1 is the next F, which only rises.
    """
    expected, best = weight @ p, np.zeros(p.shape[1])
    while True:
        on = p >= 0.5 * best
        hits = np.einsum("i,ij,ij->j", weight, p, on)
        f1 = 2.0 * hits / (weight @ on + expected)
        if np.all(f1 <= best):
            return best
        best = np.maximum(f1, best)
