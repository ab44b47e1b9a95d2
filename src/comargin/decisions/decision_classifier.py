"""Probabilities, label sets for a named measure, and a promise about them: all from one cross-fit."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.special import logit
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core.threshold_rule import FloatArray, read_scores_and_labels
from ._base import CrossFittedClassifier
from .aims import AimRule, check_aim
from .calibration import LabelCalibrator
from .guarantees import RiskController, check_confidence


class LabelDecisions(BaseEstimator):
    """What held-out scores say: probabilities, the best label sets for every aim, and the cut of a guarantee.

    A `LabelCalibrator` makes probabilities of scores, and an `AimRule` label sets of probabilities, which it improves
    by the label sets that occur. The parameters are those of `DecisionClassifierCV`; ``label_names`` are for promises
    about named labels.

    Attributes
    ----------
    n_labels_ : int
        Number of labels.
    calibrator_ : LabelCalibrator
        From scores to probabilities.
    sets_for_ : AimRule
        From these probabilities to better ones, and to the label sets of every aim.
    promise_ : RiskController or None
        The cut that keeps the guarantee.

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

    def __init__(
        self,
        aim: Any = "micro_f1",
        guarantee: Any = None,
        confidence: float | None = 0.9,
        label_names: Any = None,
        random_state: Any = None,
    ) -> None:
        self.aim = aim
        self.guarantee = guarantee
        self.confidence = confidence
        self.label_names = label_names
        self.random_state = random_state

    def fit(self, scores: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Learn from scores and true labels of rows that the scorer has not learned from.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_labels)
            Finite scores, higher for labels more likely on.
        Y : array-like or sparse matrix of shape (n_samples, n_labels)
            True labels, 0 or 1.
        sample_weight : array-like of shape (n_samples,) or None
            Weights of the rows; a weight of 2 counts as the row given twice. A guarantee takes none.

        Returns
        -------
        self : object
            The fitted decisions.
        """
        scores, Y, weight = read_scores_and_labels(scores, Y, sample_weight)
        check_aim(self.aim, Y.shape[1])
        learned = certified = np.arange(len(scores))
        if self.guarantee is not None:
            # What the cut is made of must not have seen the rows that certify it.
            seed = 0 if self.random_state is None else self.random_state
            mixed = check_random_state(seed).permutation(len(scores))
            learned, certified = np.sort(mixed[: len(mixed) // 2]), np.sort(mixed[len(mixed) // 2 :])
        Y_learned, weight_learned = Y[learned], weight[learned]
        self.n_labels_ = Y.shape[1]
        self.calibrator_ = LabelCalibrator().fit(scores[learned], Y_learned, weight_learned)
        self.sets_for_ = AimRule(self.aim).fit(
            self.calibrator_.probabilities(scores[learned]), Y_learned, weight_learned
        )
        self.promise_ = None
        if self.guarantee is not None:
            controller = RiskController(self.guarantee, self.confidence, self.label_names)
            self.promise_ = controller.fit(
                self.probabilities(scores[certified]),
                Y[certified],
                None if sample_weight is None else weight[certified],
            )
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
            Neither 0 nor 1.
        """
        check_is_fitted(self)
        return self.sets_for_.sets_.predict_proba(self.calibrator_.probabilities(scores))

    def predict(self, scores: Any, aim: Any = None) -> NDArray[np.int64]:
        """Label sets.

        Parameters
        ----------
        scores : array-like of shape (n_samples, n_labels)
            Finite scores of the labels `fit` saw.
        aim : str, array-like or None, default=None
            The measure that counts; None keeps the guarantee if there is one, or else serves the parameter ``aim``.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            1 where a label is on, 0 elsewhere.
        """
        return self.decide(scores, aim)[0]

    def decide(self, scores: Any, aim: Any = None) -> tuple[NDArray[np.int64], FloatArray]:
        """Label sets and the probabilities that they come from: what `predict` and `probabilities` return."""
        check_is_fitted(self)
        on, P = self.sets_for_.decide(self.calibrator_.probabilities(scores), aim)
        return on if self.promise_ is None or aim is not None else self.promise_.predict(P), P


class DecisionClassifierCV(CrossFittedClassifier):
    """A classifier with probabilities whose label sets are the best for a named measure, or keep a promise.

    The estimator is fitted on parts of the data and scores the rows left out. From these scores and the true labels
    come, at once, calibrated probabilities, a rule for every aim and the cut of a guarantee; then the estimator is
    fitted on all rows. `predict` takes another aim without learning anew.

    Parameters
    ----------
    {estimator}
    aim : str or array-like of shape (2,) or (n_labels, 2), default="micro_f1"
        The measure that label sets are made for: "hamming_loss", "subset_accuracy", "micro_f1", "macro_f1",
        "example_f1", "ranking" or "precision_at_3" (any number of places), as in `AimRule`; or costs of a false tag and
        of a missed tag, for all labels or for each.
    guarantee : str, Guarantee or None, default=None
        A promise that label sets keep, such as "recall >= 0.9", "precision >= 0.8" or "false tags per row <= 1", for
        all labels or for one ("recall of sports >= 0.9", by its column name or number), or several joined by " and ".
        See `RiskController` for what exactly is promised.
    confidence : float or None, default=0.9
        Probability with which the promise holds, over the rows that certify it; None promises it in expectation only.
    {cv}
        A guarantee is certified by a random half of the rows that are scored; the other half makes the probabilities.
    {refit} {n_jobs} {random_state}
        It also draws that half.

    Attributes
    ----------
    {estimator_}
    rule_ : LabelDecisions
        What was learned from the held-out scores.
    {classes_} {n_features_in_} {target_form_}

    Notes
    -----
    Scores of different folds are put together although they come from different models, as `ThresholdClassifierCV`
    explains. So the promise of a guarantee is one about the models of the folds. It holds for the model that is fitted
    on all rows as far as that one's probabilities are as good as theirs, which more rows rarely make worse. With
    ``cv=0.3, refit=False`` or ``cv="prefit"`` there is one model only, and nothing is assumed but exchangeable rows.

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

    def __init__(
        self,
        estimator: Any,
        *,
        aim: Any = "micro_f1",
        guarantee: Any = None,
        confidence: float | None = 0.9,
        cv: Any = 3,
        refit: bool = True,
        n_jobs: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.aim = aim
        self.guarantee = guarantee
        self.confidence = confidence
        self.cv = cv
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state

    def _new_rule(self, label_names: tuple[str, ...] | None) -> LabelDecisions:
        if self.guarantee is not None:
            check_confidence(self.confidence)
        return LabelDecisions(self.aim, self.guarantee, self.confidence, label_names, self.random_state)

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
        return self.rule_.decide(scores, aim)
