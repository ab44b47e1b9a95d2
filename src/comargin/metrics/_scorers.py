"""Every measure as a scorer for `GridSearchCV` and `cross_val_score`, and the scores of any classifier."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import _ranking, _sets, _top_k

_DEPTHS = (1, 3, 5)

_SET_MEASURES: dict[str, Callable[..., float]] = {
    function.__name__: function
    for function in (
        _sets.hamming_loss,
        _sets.subset_accuracy,
        _sets.example_precision,
        _sets.example_recall,
        _sets.example_f1,
        _sets.micro_precision,
        _sets.micro_recall,
        _sets.micro_f1,
        _sets.macro_precision,
        _sets.macro_recall,
        _sets.macro_f1,
        _sets.macro_f1_of_averages,
    )
}
_SCORE_MEASURES: dict[str, Callable[..., float]] = {
    "one_error": _ranking.one_error,
    "coverage": _ranking.coverage,
    "ranking_loss": _ranking.ranking_loss,
    "average_precision": _ranking.average_precision,
    "macro_auc": _ranking.macro_auc,
    "micro_auc": _ranking.micro_auc,
    **{f"precision_at_{k}": partial(_top_k.precision_at_k, k=k) for k in _DEPTHS},
    **{f"recall_at_{k}": partial(_top_k.recall_at_k, k=k) for k in _DEPTHS},
    **{f"ndcg_at_{k}": partial(_top_k.ndcg_at_k, k=k) for k in _DEPTHS},
}
_LOSSES = frozenset({"hamming_loss", "one_error", "coverage", "ranking_loss"})

#: Which way each measure of `evaluate` points, by name.
higher_is_better: Mapping[str, bool] = MappingProxyType(
    {
        name: name not in _LOSSES
        for name in (
            *_SET_MEASURES,
            *_SCORE_MEASURES,
            *(f"propensity_scored_precision_at_{k}" for k in _DEPTHS),
        )
    }
)


def scores_of(estimator: Any, X: Any, *, n_labels: int | None = None) -> NDArray[np.floating[Any]]:
    """Scores of a fitted classifier as one matrix with a column per label, whatever its interface.

    `decision_function` is used if the estimator has it, else `predict_proba`. Both may return a matrix, as
    `OneVsRestClassifier` does; a `predict_proba` that returns one matrix per label, as random forests,
    nearest neighbours and `MultiOutputClassifier` do, gives the probability of class 1 of each label (0 or 1
    throughout for a label whose training data had one class only).

    Parameters
    ----------
    estimator : estimator
        A fitted classifier, also inside a `Pipeline` or a search.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Rows to score.
    n_labels : int, default=None
        Expected number of columns; another number is an error. Pass 1 for a binary classifier without
        `decision_function`: only then can its two columns of `predict_proba` be told from two labels.

    Returns
    -------
    ndarray of shape (n_samples, n_labels)
        Higher means more relevant. A vector of scores, as of a binary classifier, becomes one column.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from comargin.metrics import scores_of
    >>> X, Y = make_multilabel_classification(n_samples=50, n_classes=4, random_state=0)
    >>> scores_of(RandomForestClassifier(n_estimators=5, random_state=0).fit(X, Y), X).shape
    (50, 4)
    """
    if hasattr(estimator, "decision_function"):
        scores = np.asarray(estimator.decision_function(X))
    elif hasattr(estimator, "predict_proba"):
        probabilities = estimator.predict_proba(X)
        if isinstance(probabilities, (list, tuple)):
            scores = _positive_columns(probabilities, getattr(estimator, "classes_", None))
        else:
            scores = np.asarray(probabilities)
            if n_labels == 1 and scores.ndim == 2 and scores.shape[1] == 2:
                scores = scores[:, 1]
    else:
        raise TypeError(
            f"estimator must have decision_function or predict_proba, {type(estimator).__name__} has neither."
        )
    if scores.ndim == 1:
        scores = scores[:, None]
    if n_labels is not None and scores.shape[1:] != (n_labels,):
        raise ValueError(
            f"estimator gives scores of shape {scores.shape}, where n_labels={n_labels} columns are expected."
        )
    return scores


def _positive_columns(probabilities: Any, classes: Any) -> NDArray[np.float64]:
    """Probability of class 1 from one (n_samples, n_classes) matrix per label."""
    columns = []
    for label, matrix in enumerate(probabilities):
        matrix = np.asarray(matrix)
        known = np.asarray([0, 1] if classes is None else classes[label])
        if not np.isin(known, [0, 1]).all() or matrix.shape[1] != len(known):
            raise ValueError(
                f"estimator gives {matrix.shape[1]} probabilities for label {label}, with classes "
                f"{known.tolist()}; labels must be 0 and 1."
            )
        positive = np.flatnonzero(known == 1)
        columns.append(matrix[:, positive[0]] if len(positive) else np.zeros(len(matrix)))
    return np.column_stack(columns)


@dataclass(frozen=True)
class MeasureScorer:
    """A measure as scikit-learn's ``scoring=``: greater is better, so losses are negated.

    Measures of label sets call `predict` of the estimator, measures of scores `scores_of`.

    Parameters
    ----------
    name : str
        Name of the measure, a key of `scorers`.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from comargin.metrics import scorers
    >>> X, Y = make_multilabel_classification(n_samples=50, n_classes=4, random_state=0)
    >>> scorers["one_error"](KNeighborsClassifier(n_neighbors=50).fit(X, Y), X, Y) < 0
    True
    """

    name: str

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Score a fitted estimator.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier.
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to predict.
        y : array-like or sparse matrix of shape (n_samples, n_labels)
            True {0, 1} label indicator.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        float
            The measure, negated if it is a loss.
        """
        if self.name in _SET_MEASURES:
            value = _SET_MEASURES[self.name](y, estimator.predict(X), sample_weight=sample_weight)
        else:
            value = _SCORE_MEASURES[self.name](y, scores_of(estimator, X), sample_weight=sample_weight)
        return value if higher_is_better[self.name] else -value


#: Every measure as a scorer: ``GridSearchCV(..., scoring=scorers["ranking_loss"])``.
scorers: Mapping[str, MeasureScorer] = MappingProxyType(
    {name: MeasureScorer(name) for name in (*_SET_MEASURES, *_SCORE_MEASURES)}
)
