"""Labels that are partly unknown, for classifiers that know nothing of them."""

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import check_consistent_length, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..core.indicator import check_labels, check_weight, split_unknown
from ..core.row_blocks import take_rows
from ..core.validation import is_estimator, require_estimator


def _estimator_has(method: str) -> Callable[[Any], bool]:
    return lambda self: hasattr(self.estimator, method)


class KnownLabelsClassifier(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """One clone of a classifier for each label, fitted to the rows in which the label is known.

    It makes a classifier that refuses NaN, such as those of scikit-learn, learn from partly unknown labels. With
    completely known labels it is one-vs-rest.

    Parameters
    ----------
    estimator : estimator object
        A classifier of two classes; it is cloned.

    Attributes
    ----------
    estimators_ : list of estimator or None
        The fitted classifier of every label; None for a label that is the same in all rows in which it is known.
    constant_ : ndarray of shape (n_labels,)
        Value of the labels without a classifier: 0 for a label that no row knows.
    classes_ : ndarray of shape (n_labels,)
        Labels 0..L-1.

    Notes
    -----
    The cost is that of one fit for each label, so a forest, which learns all labels of complete data at once, takes
    about as many times longer as there are labels. Rows are left out label by label, so that ``estimator`` must not
    need a kernel matrix between them.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LogisticRegression
    >>> from comargin.baselines import KnownLabelsClassifier
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> Y = np.array([[0, 1], [0, np.nan], [np.nan, 1], [1, np.nan]])
    >>> KnownLabelsClassifier(LogisticRegression()).fit(X, Y).predict([[0.0], [3.0]])
    array([[0, 1],
           [1, 1]])
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit a clone for every label.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : array-like or sparse matrix of shape (n_samples, n_labels)
            Indicator with entries in {0, 1}, NaN where a label is unknown.
        sample_weight : array-like of shape (n_samples,) or None
            Passed on to the estimator, which must accept it.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        require_estimator(self.estimator, "a scikit-learn classifier, e.g. LogisticRegression()")
        ones, known = split_unknown(check_labels(y, "y"), "y")
        check_consistent_length(X, ones)
        weight = None if sample_weight is None else check_weight(sample_weight, ones.shape[0])
        columns, every = ones.tocsc(), np.arange(ones.shape[0])
        estimators: list[Any] = []
        constant = np.zeros(ones.shape[1], dtype=np.int64)
        for label in range(ones.shape[1]):
            rows = every if known is None else np.flatnonzero(known[:, label])
            target = np.zeros(len(every), dtype=np.int64)
            target[columns.indices[columns.indptr[label] : columns.indptr[label + 1]]] = 1
            target = target[rows]
            if not target.any() or target.all():
                constant[label] = target.any()
                estimators.append(None)
                continue
            params = {} if weight is None else {"sample_weight": weight[rows]}
            own = X if len(rows) == len(every) else take_rows(X, rows)
            estimators.append(clone(self.estimator).fit(own, target, **params))
        self.estimators_, self.constant_, self.classes_ = estimators, constant, np.arange(ones.shape[1])
        return self

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of the classifiers; -1 or 1 for labels without one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Positive for labels that are on.
        """
        return self._columns(X, lambda estimator: estimator.decision_function(X), (-1.0, 1.0))

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities of the classifiers; 0 or 1 for labels without one.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Between 0 and 1.
        """
        return self._columns(X, lambda estimator: estimator.predict_proba(X)[:, 1], (0.0, 1.0))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Labels that the classifiers switch on.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Indicator with entries in {0, 1}.
        """
        return self._columns(X, lambda estimator: estimator.predict(X), (0, 1)).astype(np.int64)

    def _columns(self, X: Any, of: Callable[[Any], Any], constants: tuple[float, float]) -> NDArray[np.float64]:
        check_is_fitted(self)
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        values = np.tile(np.asarray(constants, dtype=np.float64)[self.constant_], (n_rows, 1))
        for label, estimator in enumerate(self.estimators_):
            if estimator is not None:
                values[:, label] = of(estimator)
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        if is_estimator(self.estimator):  # `fit` raises otherwise
            tags.input_tags.sparse = get_tags(self.estimator).input_tags.sparse
        return tags
