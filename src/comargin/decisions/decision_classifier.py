"""Probabilities, label sets for a named measure, and a promise about them: all from one cross-fit."""

from collections.abc import Mapping
from copy import copy
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state, get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from ..core.row_blocks import take_rows
from ..core.threshold_rule import FloatArray, read_scores_and_labels
from ..core.validation import is_estimator
from ._base import CrossFittedClassifier, names_of_columns, read_target
from .aims import AimRule
from .calibration import LabelCalibrator
from .cross_fit import one_per_row
from .guarantees import RiskController, check_confidence

CERTIFIED_SHARE = 0.3


def split_off(
    promise: RiskController, shape: tuple[int, int], seed: Any, share: float = CERTIFIED_SHARE
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to learn from, and rows drawn at random that certify a promise; raises if it cannot be kept by so few.

    ``shape`` is that of the indicator, ``seed`` draws the rows (None: the same ones in every call), ``share`` of them
    certify. Both lists rise.
    """
    mixed = check_random_state(0 if seed is None else seed).permutation(shape[0])
    n_certifying = round(share * shape[0])
    promise.check(n_certifying, shape[1])
    return np.sort(mixed[n_certifying:]), np.sort(mixed[:n_certifying])


class LabelDecisions(BaseEstimator):
    """What held-out scores say: probabilities, and the best label sets for every aim.

    A `LabelCalibrator` makes probabilities of scores, and an `AimRule` label sets of probabilities, which it improves
    by the label sets that occur.

    Parameters
    ----------
    aim : str or array-like, default="micro_f1"
        What label sets are made for, as in `AimRule`.
    log_odds : bool, default=False
        Whether scores are calibrated log odds already, as those of a blend are.

    Attributes
    ----------
    n_labels_ : int
        Number of labels.
    calibrator_ : LabelCalibrator
        From scores to probabilities.
    sets_for_ : AimRule
        From these probabilities to better ones, and to the label sets of every aim.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin.decisions import LabelDecisions
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.normal(size=(200, 3))
    >>> Y = (scores + rng.normal(size=(200, 3)) > 0.5).astype(int)
    >>> LabelDecisions().fit(scores, Y).predict([[2.0, 0.0, -1.0]], aim="hamming_loss")
    array([[1, 0, 0]])
    """

    def __init__(self, aim: Any = "micro_f1", *, log_odds: bool = False) -> None:
        self.aim = aim
        self.log_odds = log_odds

    def fit(self, scores: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Learn from scores and true labels of rows that the scorer has not learned from.

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
            The fitted decisions.
        """
        scores, Y, weight = read_scores_and_labels(scores, Y, sample_weight)
        calibrator = LabelCalibrator()
        self.calibrator_ = calibrator.of_log_odds(Y.shape[1]) if self.log_odds else calibrator.fit(scores, Y, weight)
        self.sets_for_ = AimRule(self.aim).fit(self.calibrator_.probabilities(scores), Y, weight)
        self.n_labels_ = Y.shape[1]
        return self

    def predict(self, scores: Any, aim: Any = None) -> NDArray[np.int64]:
        """Label sets.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_labels)
            Finite scores of the labels `fit` saw.
        aim : str, array-like or None, default=None
            The measure that counts; None: the parameter ``aim``.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1 where a label is on, 0 elsewhere.
        """
        return self.decide(scores, aim)[0]

    def decide(self, scores: Any, aim: Any = None) -> tuple[NDArray[np.int64], FloatArray]:
        """Label sets and the probabilities that they come from: what `predict` and `probabilities` return."""
        check_is_fitted(self)
        return self.sets_for_.decide(self.calibrator_.probabilities(scores), self.aim if aim is None else aim)

    def probabilities(self, scores: Any) -> FloatArray:
        """Probabilities of the labels.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_labels)
            Finite scores of the labels `fit` saw.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Neither 0 nor 1.
        """
        check_is_fitted(self)
        return self.sets_for_.sets_.marginals(self.calibrator_.probabilities(scores))


class DecisionClassifierCV(CrossFittedClassifier):
    """A classifier with probabilities whose label sets are the best for a named measure, or keep a promise.

    The estimator is fitted on parts of the data and scores the rows left out. From these scores and the true labels
    come, at once, calibrated probabilities and a rule for every aim; then the estimator is fitted on all rows.
    `predict` takes another aim without learning anew. A guarantee is certified on rows that are set aside before.

    Parameters
    ----------
    {estimator}
    aim : str or array-like of shape (2,) or (n_labels, 2), default="micro_f1"
        The measure that label sets are made for: "hamming_loss", "subset_accuracy", "micro_f1", "macro_f1",
        "example_f1", "ranking" or "precision_at_3" (any number of places), as in `AimRule`; or costs of a false tag and
        of a missed tag, for all labels or for each.
    guarantee : str, Guarantee, tuple of Guarantee or None, default=None
        A promise that label sets keep, such as "recall >= 0.9", "precision >= 0.8" or "false tags per row <= 1", for
        all labels or for one ("recall of sports >= 0.9", by its column name or number), or several joined by " and ".
        See `RiskController` for what exactly is promised. `fit` then takes no ``sample_weight``: a row of weight 2 is
        not two independent rows.
    confidence : float or None, default=0.9
        Probability with which the promise holds, over the rows that certify it; None promises it in expectation only.
    certified_share : float, default=0.3
        Share of the rows that certify a guarantee. They are drawn at random, and nothing else is learned from them.
    {cv} {refit} {n_jobs} {random_state}
        It also draws the rows that certify a guarantee (None: the same ones in every fit).

    Attributes
    ----------
    {estimator_}
    rule_ : LabelDecisions
        What was learned from the held-out scores.
    promise_ : RiskController or None
        The cuts that keep the guarantee; its ``statement_`` says what is promised and under which assumption.
    {classes_} {n_features_in_} {target_form_}

    Notes
    -----
    Scores of different folds are put together although they come from different models, as `ThresholdClassifierCV`
    explains. The promise of a guarantee does not rest on that: its rows are scored by the very model that predicts.
    With ``cv="prefit"`` the rows given to `fit` make the probabilities and certify; the estimator must know neither.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from comargin import M3LClassifier
    >>> from comargin.decisions import DecisionClassifierCV
    >>> X, Y = make_multilabel_classification(n_samples=300, n_classes=4, random_state=0)
    >>> model = DecisionClassifierCV(M3LClassifier(loss="logistic", random_state=0), aim="example_f1").fit(X, Y)
    >>> model.predict_proba(X[:2]).round(1)
    array([[0.9, 0. , 0.3, 0. ],
           [0.2, 0.4, 0.1, 0.1]])
    >>> model.predict(X[:2], aim="subset_accuracy")
    array([[1, 0, 0, 0],
           [0, 0, 0, 0]])
    """

    aim: Any = "micro_f1"
    guarantee: Any = None
    confidence: float | None = 0.9
    certified_share: float = CERTIFIED_SHARE
    cv: Any = 3

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        fit_params: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> Any:
        """As in the base; with a guarantee the rows that certify it are set aside before."""
        if self.guarantee is None:
            return super()._fit(X, y, sample_weight, groups, fit_params, **options)
        self._check_parameters()
        if sample_weight is not None:
            raise ValueError(
                "sample_weight must be None with a guarantee: a row of weight 2 is not two independent rows."
            )
        if not (isinstance(self.cv, int | float | np.number | str) or hasattr(self.cv, "split")):
            raise ValueError(
                "cv must not be index pairs with a guarantee, which sets rows aside before they are split."
            )
        names = names_of_columns(y)
        X, y, groups = indexable(X, y, groups)
        shape = read_target(y, type(self).__name__)[0].shape
        promise = RiskController(self.guarantee, self.confidence, names)
        learned, certifying = split_off(promise, shape, self.random_state, self.certified_share)
        pairwise = get_tags(self.estimator).input_tags.pairwise if is_estimator(self.estimator) else False
        columns = learned if pairwise and self.cv != "prefit" else None
        certified = copy(self).set_params(guarantee=None)
        found = certified._fit(
            take_rows(X, learned, columns),
            take_rows(y, learned),
            None,
            None if groups is None else take_rows(groups, learned),
            {
                name: take_rows(value, learned) if one_per_row(value, shape[0]) else value
                for name, value in fit_params.items()
            },
            **options,
        )
        certified.set_params(guarantee=self.guarantee).certify(
            take_rows(X, certifying, columns), take_rows(y, certifying)
        )
        self.__dict__.update(vars(certified))
        return found

    def certify(self, X: Any, y: Any) -> Self:
        """Find the cuts that keep the guarantee, on rows that nothing was learned from.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows, drawn as those to be predicted will be.
        y : array-like or sparse matrix of shape (n_samples, n_labels), or array-like of shape (n_samples,)
            Their labels, in the form that `fit` had.

        Returns
        -------
        self : object
            The classifier, whose label sets keep the promise from now on.
        """
        check_is_fitted(self, "estimator_")
        if self.guarantee is None:
            raise ValueError('guarantee must be set before certify, e.g. set_params(guarantee="recall >= 0.9").')
        Y = np.asarray(y)[:, None] == self.classes_[1] if self.target_form_ == "classes" else y
        promise = RiskController(self.guarantee, self.confidence, names_of_columns(y))
        self.promise_: RiskController | None = promise.fit(self.decide(X, "ranking")[1], Y)
        return self

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.guarantee is not None:
            check_confidence(self.confidence)
            share = self.certified_share
            if not isinstance(share, float | np.floating) or not 0.0 < share < 1.0:
                raise ValueError(f"certified_share must be a share of the rows between 0 and 1; got {share!r}.")

    def _new_rule(self, chosen: Any = None) -> LabelDecisions:
        return LabelDecisions(self.aim)

    def _become(self, estimator: Any, rule: Any, classes: NDArray[Any], y: Any) -> Self:
        self.promise_ = None
        return super()._become(estimator, rule, classes, y)

    def predict(self, X: Any, aim: Any = None) -> NDArray[Any] | sparse.csr_array:
        """Label sets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        aim : str, array-like or None, default=None
            The measure that counts; None keeps the guarantee if there is one, or else serves the parameter ``aim``.

        Returns
        -------
        ndarray or csr_array of shape (n_samples, n_labels), or ndarray of shape (n_samples,)
            A {0, 1} indicator, sparse when ``y`` was sparse; classes when ``y`` was 1-D.
        """
        return self._as_given(self.decide(X, aim)[0])

    def predict_proba(self, X: Any) -> FloatArray:
        """Calibrated probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or (n_samples, 2)
            Probability that each label is on, neither 0 nor 1; of both classes when ``y`` was 1-D.
        """
        scores = self._scores(X)
        P = self.rule_.probabilities(scores)
        return np.hstack([1.0 - P, P]) if self.target_form_ == "classes" else P

    def decision_function(self, X: Any) -> FloatArray:
        """Log odds of the probabilities.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or (n_samples,)
            Higher for labels more likely on, and comparable between labels; of the second class when ``y`` was 1-D.
        """
        scores = self._scores(X)
        odds = logit(self.rule_.probabilities(scores))
        return odds[:, 0] if self.target_form_ == "classes" else odds

    def decide(self, X: Any, aim: Any = None) -> tuple[NDArray[np.int64], FloatArray]:
        """Label sets and probabilities of rows, from one pass over them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        aim : str, array-like or None, default=None
            As in `predict`.

        Returns
        -------
        labels : ndarray of shape (n_samples, n_labels)
            A {0, 1} indicator; one column when ``y`` was 1-D.
        probabilities : ndarray of shape (n_samples, n_labels)
            Probability that each label is on.
        """
        scores = self._scores(X)
        on, P = self.rule_.decide(scores, aim)
        return on if aim is not None or self.promise_ is None else self.promise_.predict(P), P
