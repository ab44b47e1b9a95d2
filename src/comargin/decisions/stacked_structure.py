"""A meta-estimator that learns the structure of labels on top of any classifiers with scores."""

from dataclasses import field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags, indexable
from sklearn.utils.validation import check_is_fitted

from ..core.executor import Processes, Task, run
from ..core.indicator import check_weight
from ..core.memory import Memory, fit_clone, silent_clone
from ..core.parameters import DeclaredParameters
from ..core.threshold_rule import FloatArray
from ..core.validation import check_seed, is_estimator, require_estimator
from ..graphs import LabelGraph
from ._base import read_target
from .cross_fit import cross_fit, score_matrix, splits_of
from .score_structure import ScoreStructure, check_alpha


class StackedStructureClassifier(DeclaredParameters, ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """A structured SVM on top of other classifiers: what labels say about each other beyond what these say.

    The classifiers are fitted on parts of the data and score the rows left out. The log odds of their calibrated
    scores, blended, are fixed offsets of the labels; what is learned is a correction of them and the edges between
    labels. With a large ``alpha`` nothing is corrected, and the blend alone decides; ``alpha="auto"`` keeps it unless
    held-out rows speak for a correction. Then the classifiers are fitted on all rows.

    Parameters
    ----------
    estimators : list of estimator objects
        Classifiers with ``decision_function`` or ``predict_proba``, pipelines too. One that takes a 1-D y only goes
        inside a `OneVsRestClassifier`.
    graph : {"learned", "tree", "none", "full"}, LabelGraph or sequence of cliques, default="learned"
        "learned" is the graph of `CGMClassifier`, the others are as in `StructuredSVMClassifier`.
    alpha : "auto" or float, default="auto"
        Strength of the regulariser of the correction; ``numpy.inf`` is the blend of the classifiers, uncorrected.
        "auto" tries some values on folds and takes the one with most rows whose labels are all right, but the blend
        where that is within two standard errors, or has a lower Hamming loss.
    cv : int, float, splitter or iterable, default=5
        Where the scores come from, as in `DecisionClassifierCV`.
    tol : float, default=1e-3
        Relative tolerance of the structured SVM: the duality gap is at most ``tol`` times the objective.
    n_jobs : int or None, default=None
        Folds, and then classifiers, fitted at the same time. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows before an int or float ``cv`` splits them, and fixes the order of rows in the structured SVM.
        With None and an int the folds depend on the data alone. It is not passed to the classifiers.

    Attributes
    ----------
    estimators_ : list of estimator objects
        The classifiers, fitted on all rows.
    rule_ : ScoreStructure
        What was learned from the held-out scores.
    alpha_ : float
        The strength that was given or chosen, ``inf`` where the blend is kept.
    blend_ : ndarray of shape (n_estimators,)
        Weights of the log odds in the blend; they sum to one.
    label_graph_ : LabelGraph
        Pairs of labels, weighted by the length of their weights: what labels say about each other beyond what the
        classifiers say. No edges where the blend is kept.
    objective_, dual_objective_, duality_gap_ : float
        The certificate of the structured SVM. With ``alpha_ = inf`` there is nothing to learn: the loss of the blend.
    classes_ : ndarray of shape (n_labels,)
        Labels 0..L-1, or the two classes of a 1-D y.
    n_features_in_ : int
        That of the first classifier, where it has one; so are ``feature_names_in_``.
    target_form_ : str
        What ``y`` was and `predict` returns: "dense" or "sparse" indicator, or "classes".

    Notes
    -----
    `predict` gives the best labels together. With an aim it takes those that `AimRule` makes of calibrated
    max-marginals, as `DecisionClassifierCV` does. On label sets that occur often this rule alone, on the blend, is as
    good as the correction or better: the correction shows the label graph, it is seldom needed for the best label sets.

    The correction is tried on the parts of ``cv`` that the scores come from. Beside the fits of the classifiers it
    costs up to 26 structured SVMs (``cv=5``) with as many features as there are classifiers times labels.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from comargin import M3LClassifier, StackedStructureClassifier
    >>> X, Y = make_multilabel_classification(n_samples=300, n_classes=4, random_state=0)
    >>> members = [RandomForestClassifier(20, random_state=0), M3LClassifier(loss="logistic", random_state=0)]
    >>> model = StackedStructureClassifier(members, graph="tree", alpha=0.1, random_state=0).fit(X, Y)
    >>> model.predict(X[:2])
    array([[1, 0, 1, 0],
           [0, 0, 0, 0]])
    >>> model.label_graph_.n_labels, bool(model.duality_gap_ <= 1e-3 * model.objective_)
    (4, True)
    """

    estimators: Any = field(kw_only=False)
    graph: Any = "learned"
    alpha: Any = "auto"
    cv: Any = 5
    tol: float = 1e-3
    n_jobs: int | None = None
    random_state: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the classifiers and learn the structure.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or whatever the classifiers take
            Rows.
        y : array-like or sparse matrix of shape (n_samples, n_labels), or array-like of shape (n_samples,)
            A {0, 1} indicator, or two classes.
        sample_weight : array-like of shape (n_samples,) or None
            Passed on to the classifiers, which must accept it, and to the structured SVM.
        groups : array-like of shape (n_samples,) or None
            Passed on to the splitter.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._check_parameters()
        Y, y, classes = read_target(y, type(self).__name__)
        if sample_weight is not None:
            sample_weight = check_weight(sample_weight, Y.shape[0])
        X, y, sample_weight, groups = indexable(X, y, sample_weight, groups)
        params = {} if sample_weight is None else {"sample_weight": sample_weight}
        splits = splits_of(self.cv, X, y, groups, self.random_state)
        scores: list[FloatArray] = []
        for estimator in self.estimators:
            _, held_out, rows = cross_fit(silent_clone(estimator), X, y, Y, splits, params, self.n_jobs, Memory())
            scores.append(held_out)
        weight = None if sample_weight is None else np.asarray(sample_weight)[rows]
        parts = np.repeat(np.arange(len(splits)), [len(test) for _, test in splits])
        options = {"tol": self.tol, "n_jobs": self.n_jobs, "random_state": self.random_state}
        rule = ScoreStructure(self.graph, self.alpha, **options).fit(scores, Y[rows], weight, parts)
        tasks = [Task(_fit_all, (estimator, X, y, params)) for estimator in self.estimators]
        self.estimators_ = run(tasks, Processes(self.n_jobs))
        self.rule_, self.classes_ = rule, classes
        self.target_form_ = "classes" if y.ndim == 1 else "sparse" if sparse.issparse(y) else "dense"
        return self

    def predict(self, X: Any, aim: Any = None) -> NDArray[Any] | sparse.csr_array:
        """Label sets.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        aim : str, array-like or None, default=None
            A measure as in `AimRule`; None takes the best labels together.

        Returns
        -------
        ndarray or csr_array of shape (n_samples, n_labels), or ndarray of shape (n_samples,)
            A {0, 1} indicator, sparse when ``y`` was sparse; classes when ``y`` was 1-D.
        """
        scores = self._scores(X)
        if aim is None:
            on = self.rule_.predict(scores)
        else:
            on = self.rule_.decisions_.predict(self.rule_.decision_values(scores), aim)
        if self.target_form_ == "classes":
            return self.classes_[on[:, 0]]
        return sparse.csr_array(on) if self.target_form_ == "sparse" else on

    def decision_function(self, X: Any) -> FloatArray:
        """Max-marginals: the score of the best labels with a label on minus that of the best with it off.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or (n_samples,)
            Positive for labels that are on; of the second class when ``y`` was 1-D.
        """
        scores = self._scores(X)
        values = self.rule_.decision_values(scores)
        return values[:, 0] if self.target_form_ == "classes" else values

    def predict_proba(self, X: Any) -> FloatArray:
        """Probabilities, from max-marginals calibrated on held-out rows.

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
        P = self.rule_.decisions_.probabilities(self.rule_.decision_values(scores))
        return np.hstack([1.0 - P, P]) if self.target_form_ == "classes" else P

    @property
    def n_features_in_(self) -> int:
        """Number of features the first classifier was fitted with."""
        return self.estimators_[0].n_features_in_

    @property
    def feature_names_in_(self) -> NDArray[Any]:
        """Feature names the first classifier was fitted with."""
        return self.estimators_[0].feature_names_in_

    @property
    def alpha_(self) -> float:
        """The strength of the regulariser."""
        return self.rule_.alpha_

    @property
    def blend_(self) -> FloatArray:
        """Weights of the classifiers."""
        return self.rule_.blend_

    @property
    def label_graph_(self) -> LabelGraph:
        """The graph of the correction."""
        return self.rule_.label_graph_

    @property
    def objective_(self) -> float:
        """Primal objective of the structured SVM."""
        return self.rule_.certificate[0]

    @property
    def dual_objective_(self) -> float:
        """Dual objective of the structured SVM."""
        return self.rule_.certificate[1]

    @property
    def duality_gap_(self) -> float:
        """Their difference, which bounds the error of the objective."""
        return self.objective_ - self.dual_objective_

    def _scores(self, X: Any) -> list[FloatArray]:
        """Scores of the fitted classifiers."""
        check_is_fitted(self, "estimators_")
        n_labels = 1 if self.target_form_ == "classes" else len(self.classes_)
        return [score_matrix(estimator, X, n_labels) for estimator in self.estimators_]

    def _check_parameters(self) -> None:
        if not isinstance(self.estimators, list | tuple) or not self.estimators:
            raise ValueError(f"estimators must be a list of classifiers, at least one; got {self.estimators!r}.")
        example = "OneVsRestClassifier(LogisticRegression())"
        for estimator in self.estimators:
            require_estimator(estimator, f"a scikit-learn classifier with scores, e.g. {example}")
        check_alpha(self.alpha)
        check_seed(self.random_state)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "estimators_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        members = self.estimators if isinstance(self.estimators, list | tuple) else []
        inner = [get_tags(estimator) for estimator in members if is_estimator(estimator)]
        if inner:
            tags.input_tags = inner[0].input_tags
            tags.input_tags.sparse = all(each.input_tags.sparse for each in inner)
            several = [each.classifier_tags is not None and each.classifier_tags.multi_label for each in inner]
            tags.classifier_tags.multi_label = all(several)
            tags.target_tags.multi_output = all(each.target_tags.multi_output for each in inner)
        return tags


def _fit_all(estimator: Any, X: Any, y: Any, params: dict[str, Any]) -> Any:
    return fit_clone(estimator, X, y, Memory(), "fit", params=params)
