r"""Promises about tags: "recall >= 0.9" with confidence, from probabilities and true labels of rows not trained on.

What is promised. Let rows be drawn independently from one distribution. For a cut t (a label is on where its
probability is greater than t) the risk R(t) is the expectation over a new row of a loss, which `_cut_tests.py` defines.
"of NAME" restricts all of it to one label; recall and precision are then the usual ones of that label. With confidence
:math:`1 - \delta`, the cut that `RiskController` finds keeps the promise with probability at least :math:`1 - \delta`
over the draw of the calibration rows. With ``confidence=None`` the promise holds in expectation: on average over
calibration rows and new row, which needs exchangeable rows only. Several promises share :math:`\delta` equally, so
that all of them are kept together (Bonferroni).

How. Cuts are tested one after the other, from the safe end until the first test fails, each at level :math:`\delta`: a
bad cut is chosen only if the test of the first bad cut errs (a fixed sequence of Learn-then-Test; for recall and false
tags, which are monotone, the upper confidence bound of risk-controlling prediction sets). All cuts are visited, since
losses change only at the calibration rows' probabilities. Precision has no safe end, so one eighth of the rows chooses
where its tests begin, and the others test. The tests are bets (`_loops_betting.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..core.indicator import check_indicator, split_unknown
from ..core.threshold_rule import FloatArray, check_scores, read_scores_and_labels
from ..core.wording import counted
from ._cut_tests import CutTests, Events, fewest_rows, losses_along_cuts, run_tests
from ._parse_guarantee import Guarantee, check_confidence, parse_guarantee

_MEANINGS = {
    "recall": "the share of a row's true labels that are on, in the mean over rows with a true label, is at least",
    "precision": "the share of a row's labels on that are true, in the mean over rows with a label on, is at least",
    "false tags per row": "the number of a row's labels on that are not true is on average at most",
}
_CURVE = 60  # cuts of a curve

__all__ = ["Guarantee", "RiskController", "RiskCurve", "check_confidence", "parse_guarantee"]


@dataclass(frozen=True)
class RiskCurve:
    """Risk of one promise along the cuts, for a picture.

    Parameters
    ----------
    guarantee : Guarantee
        The promise.
    cuts : ndarray of shape (n_cuts,)
        Cuts, rising.
    value : ndarray of shape (n_cuts,)
        Its measure on the calibration rows: recall, precision (NaN where no label is on) or false tags per row.
    bound : ndarray of shape (n_cuts,)
        What is vouched for at each single cut: the lower bound of recall and precision, the upper of false tags.
    tags_per_row : ndarray of shape (n_cuts,)
        Labels on per row, of those that the promise is about.
    allowed : tuple of (float, float)
        The lowest and the highest cut that keep the promise.
    cut : float
        The one that was chosen.
    """

    guarantee: Guarantee
    cuts: FloatArray
    value: FloatArray
    bound: FloatArray
    tags_per_row: FloatArray
    allowed: tuple[float, float]
    cut: float


class RiskController(BaseEstimator):
    """Cuts on probabilities that keep promises about tags.

    One cut serves all labels; a label with a promise of its own has its own cut. Of the cuts that keep the promises the
    one with the fewest labels on is taken if recall is promised, else the one with the most.

    Parameters
    ----------
    guarantee : str or Guarantee or tuple of Guarantee
        The promises; a text is read by `parse_guarantee`.
    confidence : float or None, default=0.9
        Probability with which all promises are kept together, over the draw of the calibration rows. None promises in
        expectation, for recall and false tags only.
    label_names : sequence of str or None, default=None
        Names of the labels, for promises about named ones.

    Attributes
    ----------
    cuts_ : ndarray of shape (n_labels,)
        A label is on where its probability is greater than its cut. 0.5 for labels that no promise is about.
    guarantees_ : tuple of Guarantee
        The promises.
    risk_curves_ : tuple of RiskCurve
        One for each promise.
    tags_per_row_ : float
        Labels on per calibration row: the price.
    statement_ : str
        What is promised and under which assumption.

    Notes
    -----
    Rows must be independent draws, which the scorer was not trained on. They are tested in one fixed shuffled order.
    Rows that cannot keep a promise raise a ValueError that says how many would be needed.

    References
    ----------
    S. Bates, A. Angelopoulos, L. Lei, J. Malik, M. Jordan. Distribution-free, risk-controlling prediction sets. Journal
    of the ACM 68, 2021.

    A. Angelopoulos, S. Bates, E. Candes, M. Jordan, L. Lei. Learn then test: calibrating predictive algorithms to
    achieve risk control. Annals of Applied Statistics 19, 2025.

    A. Angelopoulos, S. Bates, A. Fisch, L. Lei, T. Schuster. Conformal risk control. ICLR 2024.

    I. Waudby-Smith, A. Ramdas. Estimating means of bounded random variables by betting. Journal of the Royal
    Statistical Society B 86, 2024.

    V. Voracek, F. Orabona. STaR-Bets: sequential target-recalculating bets for tighter confidence intervals. NeurIPS
    2025.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.decisions import RiskController
    >>> rng = np.random.default_rng(0)
    >>> p = rng.random((500, 4))
    >>> controller = RiskController("recall >= 0.9").fit(p, rng.random(p.shape) < p)
    >>> new = rng.random((10000, 4))
    >>> true = rng.random(new.shape) < new
    >>> tagged = true.any(axis=1)
    >>> recall = (controller.predict(new) * true).sum(axis=1)[tagged] / true.sum(axis=1)[tagged]
    >>> bool(recall.mean() >= 0.9)
    True
    """

    def __init__(
        self,
        guarantee: str | Guarantee | tuple[Guarantee, ...],
        confidence: float | None = 0.9,
        label_names: Sequence[str] | None = None,
    ) -> None:
        self.guarantee = guarantee
        self.confidence = confidence
        self.label_names = label_names

    def fit(self, probabilities: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Find the cuts.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples, n_labels)
            Finite scores, by which one cut is fair to all labels; of rows that the scorer was not trained on.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            True labels, 0 or 1. Unknown cells (NaN) do not count, and the promise then says so.
        sample_weight : array-like of shape (n_samples,) or None
            None, or equal for all rows: a row of weight 2 is not two independent rows.

        Returns
        -------
        self : object
            The fitted controller.
        """
        check_confidence(self.confidence)
        P, Y, _ = read_scores_and_labels(probabilities, Y, sample_weight)
        if sample_weight is not None and np.ptp(sample_weight):
            raise ValueError(
                "sample_weight must be None or equal for all rows: a promise counts independent rows, and a row of "
                "weight 2 is not two of them. Fit it on rows drawn as new rows will be."
            )
        n_labels = P.shape[1]
        guarantees = self._guarantees(n_labels)
        level = self._level(len(guarantees))
        indicator, known = split_unknown(Y, "Y")
        true = indicator.toarray().astype(bool)
        order = np.random.default_rng(0).permutation(len(P))
        tests = []
        for guarantee in guarantees:
            own = slice(None) if guarantee.label is None else slice(guarantee.label, guarantee.label + 1)
            seen = None if known is None else known[:, own]
            events = losses_along_cuts(guarantee.measure, guarantee.limit, P[:, own], true[:, own], order, seen)
            tests.append(_tested(guarantee, events, level, self.confidence, len(guarantees)))
        self.cuts_, common = _choose_cuts(guarantees, tests, n_labels)
        self.guarantees_ = guarantees
        chosen = [common if g.label is None else float(self.cuts_[g.label]) for g in guarantees]
        self.risk_curves_ = tuple(map(_curve, guarantees, tests, chosen, [P] * len(tests)))
        self.tags_per_row_ = float((self.cuts_ < P).sum() / len(P))
        self.statement_ = _statement(guarantees, self.confidence, len(P))
        if known is not None:
            self.statement_ += " Only labels whose truth is known count, in calibration rows as in new ones."
        return self

    def predict(self, probabilities: Any) -> NDArray[np.int64]:
        """Label sets under the promises.

        Parameters
        ----------
        probabilities : array-like of shape (n_samples, n_labels)
            Of the labels `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1 where a label is on, 0 elsewhere.
        """
        check_is_fitted(self)
        P = check_scores(probabilities, "probabilities", len(self.cuts_), "controller")
        return (self.cuts_ < P).astype(np.int64)

    def check(self, n_samples: int, n_labels: int) -> None:
        """Raise ValueError if the promises are wrong, or so many rows cannot keep them whatever the labels are.

        Parameters
        ----------
        n_samples : int
            Rows that `fit` will have.
        n_labels : int
            Number of labels.
        """
        check_confidence(self.confidence)
        for guarantee in (guarantees := self._guarantees(n_labels)):
            none = np.zeros((0, n_labels if guarantee.label is None else 1))
            events = losses_along_cuts(guarantee.measure, guarantee.limit, none, none > 0, np.arange(0))
            needed = fewest_rows(events, self._level(len(guarantees)))
            if n_samples < needed:
                raise ValueError(
                    f"guarantee: {counted(n_samples, 'calibration row')} cannot keep {str(guarantee)!r}: it needs at "
                    f"least {needed}."
                )

    @property
    def text(self) -> str:
        """The promises in short."""
        return " and ".join(map(str, self.guarantees_))

    def measured(self, Y: Any, Y_pred: Any) -> dict[str, float]:
        """What is promised, measured on label sets.

        Parameters
        ----------
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            True labels, 0 or 1; cells that are NaN are unknown and count nowhere.
        Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
            Label sets, such as those of `predict`.

        Returns
        -------
        dict of str to float
            Value of the measure of every promise; NaN where no row counts.
        """
        Y, known = split_unknown(Y, "Y")
        true, on = (check_indicator(one, name).toarray() for one, name in ((Y, "Y"), (Y_pred, "Y_pred")))
        known = np.ones(true.shape, dtype=bool) if known is None else known
        return {str(g): _measured(g, true, on, known) for g in self.guarantees_}

    def _level(self, shares: int) -> float | None:
        return None if self.confidence is None else (1.0 - self.confidence) / shares

    def _guarantees(self, n_labels: int) -> tuple[Guarantee, ...]:
        names = self.label_names
        if names is not None and len(names) != n_labels:
            raise ValueError(f"label_names must have one name per label: got {len(names)} for {n_labels} labels.")
        given = (self.guarantee,) if isinstance(self.guarantee, str | Guarantee) else tuple(self.guarantee)
        guarantees = tuple(
            g for one in given for g in ((one,) if isinstance(one, Guarantee) else parse_guarantee(one, names))
        )
        if not guarantees:
            raise ValueError("guarantee must hold at least one promise.")
        for g in guarantees:
            if g.label is not None and not 0 <= g.label < n_labels:
                raise ValueError(f"guarantee: {str(g)!r} is about label {g.label}, but labels are 0 to {n_labels - 1}.")
            labels = n_labels if g.label is None else 1
            if g.measure == "false tags per row" and g.target >= labels:
                raise ValueError(
                    f"guarantee: {str(g)!r} is always kept by {counted(labels, 'label')}: the target must be smaller."
                )
            if g.measure == "precision" and self.confidence is None:
                raise ValueError(
                    "confidence must be a number for a promise about precision, which is not monotone in the cut; "
                    "got None."
                )
        return guarantees


def _measured(guarantee: Guarantee, true: NDArray[Any], on: NDArray[Any], known: NDArray[np.bool_]) -> float:
    if guarantee.label is not None:
        true, on, known = (cells[:, [guarantee.label]] for cells in (true, on, known))
    counts = known.any(axis=1)
    hits, n_on = (true * on)[counts].sum(axis=1), (on * known)[counts].sum(axis=1)
    if guarantee.measure == "false tags per row":
        return float((n_on - hits).mean()) if counts.any() else float("nan")
    of = true[counts].sum(axis=1) if guarantee.measure == "recall" else n_on
    return float((hits[of > 0] / of[of > 0]).mean()) if of.any() else float("nan")


def _tested(
    guarantee: Guarantee, events: Events, level: float | None, confidence: float | None, shares: int
) -> CutTests:
    """The tests of one promise; raises if it cannot be kept."""
    how = "in expectation" if confidence is None else f"at confidence {confidence:.12g}"
    if shares > 1 and confidence is not None:
        how += f" shared by {shares} promises"
    rows = counted(events.n_rows, "calibration row")
    if guarantee.measure == "recall":
        rows += " with a true label" if guarantee.label is None else " with that label"
    needed = fewest_rows(events, level)
    if events.n_rows < needed:
        raise ValueError(f"guarantee: {rows} cannot keep {str(guarantee)!r} {how}: it needs at least {needed}.")
    test = run_tests(events, level)
    if test.last >= 0:
        return test
    loss = test.events.losses(test.start)
    enough = test.rows_that_would_do()
    advice = "more rows like these would not help" if enough is None else f"about {enough} rows like these would do"
    raise ValueError(
        f"guarantee: {rows} cannot keep {str(guarantee)!r} {how}: precision is {1.0 - loss[loss >= 0.0].mean():.3g} at "
        f"the most promising cut; {advice}."
    )


def _choose_cuts(guarantees: tuple[Guarantee, ...], tests: list[CutTests], n_labels: int) -> tuple[FloatArray, float]:
    """Cuts of all labels that every promise allows, and the one of the labels without a promise of their own.

    A promise about all labels together holds with other cuts of single labels too, if these are lower (recall) or
    higher (false tags); with precision all cuts must be equal.
    """
    cut, cuts = 0.5, np.full(n_labels, 0.5)
    common = [(g, test.allowed()) for g, test in zip(guarantees, tests, strict=True) if g.label is None]
    low, high = -np.inf, np.inf  # of a label with a cut of its own
    if common:
        cut = _one_of([g for g, _ in common], [allowed for _, allowed in common])
        cuts[:] = cut
        for g, (lowest, highest) in common:
            if g.measure == "precision":
                lowest = highest = cut
            low, high = max(low, lowest), min(high, highest)
    for label in sorted({g.label for g in guarantees if g.label is not None}):
        own = [(g, test.allowed()) for g, test in zip(guarantees, tests, strict=True) if g.label == label]
        cuts[label] = _one_of(
            [*(g for g, _ in own), *(g for g, _ in common)], [*(allowed for _, allowed in own), (low, high)]
        )
    return cuts, cut


def _one_of(guarantees: list[Guarantee], allowed: list[tuple[float, float]]) -> float:
    """A cut in all intervals: the highest if a recall bounds it, else the lowest."""
    low, high = max(low for low, _ in allowed), min(high for _, high in allowed)
    if low > high:
        promises = " and ".join(repr(str(g)) for g in guarantees)
        raise ValueError(
            f"guarantee: no cut keeps {promises} together on these calibration rows: lower one of the targets."
        )
    return high if any(g.measure == "recall" for g in guarantees) else low


def _curve(guarantee: Guarantee, test: CutTests, chosen: float, probabilities: FloatArray) -> RiskCurve:
    events = test.events
    along = np.linspace(0, len(events.ends) - 1, _CURVE).astype(np.int64)
    places = np.unique([*along, test.start, test.last])
    mean, bound = test.curve(places)
    cuts = np.array([events.cut(int(place)) for place in places])
    own = probabilities if guarantee.label is None else probabilities[:, [guarantee.label]]
    on = own.size - np.searchsorted(np.sort(own, axis=None), cuts, side="right")
    if guarantee.measure != "false tags per row":
        mean, bound = 1.0 - mean, 1.0 - bound
    if events.grows:
        mean = np.where(places == 0, np.nan, mean)
    rising = np.argsort(cuts, kind="stable")
    per_row = on[rising] / len(probabilities)
    return RiskCurve(guarantee, cuts[rising], mean[rising], bound[rising], per_row, test.allowed(), chosen)


def _statement(guarantees: tuple[Guarantee, ...], confidence: float | None, n_rows: int) -> str:
    promises = "; ".join(
        f"{_MEANINGS[g.measure]} {g.target:g}"
        + ("" if g.label is None else f" (counting label {g.label if g.name is None else g.name} only)")
        for g in guarantees
    )
    if confidence is None:
        return (
            f"On average over draws of the {n_rows} calibration rows and of new rows, exchangeable with each other and "
            f"not trained on: {promises}."
        )
    together = "all of this holds together" if len(guarantees) > 1 else "this holds"
    return (
        f"With probability at least {confidence:.12g} over the draw of the {n_rows} calibration rows, {together} for "
        f"new rows, if all rows are drawn independently from one distribution and were not trained on: {promises}."
    )
