"""An ensemble of classifier chains, which scikit-learn leaves to its users."""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.multioutput import ClassifierChain
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core.checks import whole_number
from ..core.indicator import check_indicator, split_unknown


class ChainEnsemble(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Classifier chains in several random orders of the labels, their probabilities averaged.

    A chain learns one label after the other and gives each classifier the labels before it as features (Read et al.,
    2011). Labels that are constant in the training rows stand outside the chains and stay constant.

    Parameters
    ----------
    estimator : estimator object
        A binary classifier with ``predict_proba``; it is cloned.
    n_chains : int, default=10
        Number of orders.
    random_state : int, RandomState instance or None, default=None
        Draws the orders, and seeds the chains.

    Attributes
    ----------
    chains_ : list of ClassifierChain
        The fitted chains; empty when all labels are constant.
    varying_ : ndarray of int
        Labels in the chains.
    constant_ : ndarray of shape (n_labels,)
        Value of the labels outside them; 0 for those inside.
    classes_ : ndarray of shape (n_labels,)
        Labels 0..L-1.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, Y = make_multilabel_classification(n_samples=60, n_classes=3, random_state=0)
    >>> model = ChainEnsemble(LogisticRegression(max_iter=1000), n_chains=3, random_state=0).fit(X, Y)
    >>> model.predict_proba(X).shape
    (60, 3)
    """

    def __init__(self, estimator: Any, n_chains: int = 10, random_state: Any = None) -> None:
        self.estimator = estimator
        self.n_chains = n_chains
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        """Fit all chains.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : array-like or sparse matrix of shape (n_samples, n_labels)
            Indicator with entries in {0, 1}.

        Returns
        -------
        self : object
            The fitted ensemble.
        """
        whole_number("n_chains", self.n_chains, 1)
        if split_unknown(y, "y")[1] is not None:
            raise ValueError(
                "y has unknown cells (NaN): a chain needs all labels of a row as features; take "
                "KnownLabelsClassifier(estimator), which learns every label from the rows that know it"
            )
        Y = check_indicator(y, "y").toarray().astype(np.int64)
        varying = np.flatnonzero(Y.min(axis=0) < Y.max(axis=0))
        seeds = check_random_state(self.random_state).randint(2**31, size=self.n_chains)
        chains = []
        if varying.size:
            for seed in seeds:
                # By position: base_estimator became estimator in scikit-learn 1.7.
                chain = ClassifierChain(clone(self.estimator), order="random", random_state=int(seed))
                chains.append(chain.fit(X, Y[:, varying]))
        constant = Y[0].copy()
        constant[varying] = 0
        self.chains_, self.varying_, self.constant_ = chains, varying, constant
        self.classes_ = np.arange(Y.shape[1])
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Mean probability of every label over the chains.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Between 0 and 1.
        """
        check_is_fitted(self, "chains_")
        n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
        probabilities = np.tile(self.constant_.astype(np.float64), (n_rows, 1))
        if self.chains_:
            probabilities[:, self.varying_] = np.mean([chain.predict_proba(X) for chain in self.chains_], axis=0)
        return probabilities

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Labels that are more probable than not.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels)
            Indicator with entries in {0, 1}.
        """
        return (self.predict_proba(X) > 0.5).astype(np.int64)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        tags.input_tags.sparse = True
        return tags
