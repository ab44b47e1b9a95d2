"""Every measure as a scorer for `GridSearchCV` and `cross_val_score`, and the scores of any classifier."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from ..core.indicator import refuse_label_sets
from ..core.wording import did_you_mean
from ._input import Weights, check_predicted, check_scores, check_true
from ._top_k import check_k, check_propensities
from .measures import MEASURES, Kind, at_depths, split_depth, values_of

_DEPTHS = (1, 3, 5)
_PROPENSITY_AT = "propensity_scored_precision_at_"


def _names(*kinds: Kind) -> tuple[str, ...]:
    """Names of the measures of some kinds, at the usual depths."""
    chosen = [name for name, measure in MEASURES.items() if measure.kind in kinds]
    return tuple(at for name in chosen for at in at_depths(name, _DEPTHS))


_SCORED = _names(Kind.SETS, Kind.RANKING, Kind.TOP)


def _unknown(name: Any) -> KeyError:
    """The error for an unknown name; its parts may be in another order, as in ``f1_micro``."""
    if str(name).startswith(_PROPENSITY_AT):
        return KeyError(f"{name!r} depends on the propensities: use propensity_scorer(k, propensities)")
    advice = did_you_mean(str(name), _SCORED, lambda text: "_".join(sorted(text.split("_"))))
    return KeyError(f"no measure is named {name!r}; {advice}")


Value = TypeVar("Value")


class _ByMeasure(Mapping[str, Value]):
    """A read-only table by the names of the measures; lists the depths 1, 3 and 5, knows all of them."""

    def __init__(self, names: tuple[str, ...], value_of: Callable[[str], Value]) -> None:
        self._names = names
        self._value_of = value_of

    def __getitem__(self, name: str) -> Value:
        stem, depth = split_depth(name)
        if name in self._names or (depth and f"{stem[:-1]}{_DEPTHS[0]}" in self._names):
            return self._value_of(name)
        raise _unknown(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return repr(dict(self))


#: Whether greater values of a measure are better, by name (of any depth: ``higher_is_better["ndcg_at_7"]``).
higher_is_better: Mapping[str, bool] = _ByMeasure(
    _names(*Kind), lambda name: not MEASURES[split_depth(name)[0]].lower_is_better
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
            scores = _positive_columns(probabilities, _classes_of_labels(estimator))
        else:
            scores = np.asarray(probabilities)
            if n_labels == 1 and scores.ndim == 2 and scores.shape[1] == 2:
                scores = scores[:, 1]
    else:
        name = type(estimator).__name__
        raise TypeError(f"estimator must have decision_function or predict_proba, {name} has neither.")
    if scores.ndim == 1:
        scores = scores[:, None]
    if n_labels is not None and scores.shape[1:] != (n_labels,):
        raise ValueError(
            f"estimator gives scores of shape {scores.shape}, where n_labels={n_labels} columns are expected."
        )
    return scores


def _classes_of_labels(estimator: Any) -> Any:
    """Classes of every label, of the estimator itself or of the one it wraps; None if it has none."""
    classes = getattr(estimator, "classes_", None)
    # A wrapper such as ThresholdClassifierCV numbers the labels, and returns the probabilities of the wrapped one.
    if classes is not None and np.ndim(classes[0]) == 0 and hasattr(estimator, "estimator_"):
        return _classes_of_labels(estimator.estimator_)
    return classes


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


def _two_classes(estimator: Any, y: Any) -> NDArray[Any] | None:
    """Classes of a binary estimator that is scored with a 1-D ``y``; None if ``y`` is no such vector."""
    refuse_label_sets(y, "y")
    if sparse.issparse(y) or np.ndim(y) != 1:
        return None
    classes = np.asarray(getattr(estimator, "classes_", ()))
    if classes.shape != (2,) or not np.isin(y, classes).all():
        raise ValueError(
            "y must be a label indicator of shape (n_samples, n_labels), or 1-D with the two classes the estimator "
            f"was fitted with; got 1-D y, and {type(estimator).__name__} knows the classes {classes.tolist()}."
        )
    return classes


@dataclass(frozen=True)
class MeasureScorer:
    """A measure as scikit-learn's ``scoring=``: greater is better, so the values of losses are negated.

    Measures of label sets call `predict` of the estimator, measures of scores `scores_of`.

    Parameters
    ----------
    name : str
        Name of the measure, a key of `scorers`.
    propensities : tuple of float or None, default=None
        Those of `propensity_scorer`; a tuple, so that scorers can be compared and hashed.

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
    propensities: tuple[float, ...] | None = field(default=None, repr=False)

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Weights = None) -> float:
        """Score a fitted estimator on the rows X: the measure, negated if it is a loss.

        ``y`` is the true indicator, or the classes of a binary estimator, with ``classes_[1]`` as the one label.
        """
        name, depth = split_depth(self.name)
        measure = MEASURES.get(name)
        if measure is None or (measure.kind is Kind.TOP_PROPENSITIES) != (self.propensities is not None):
            raise _unknown(self.name)
        classes = _two_classes(estimator, y)
        truth = check_true(y if classes is None else (np.asarray(y) == classes[1])[:, None], "y")
        n_labels = truth.shape[1]
        given: dict[str, Any] = {"depths": [depth] if depth else []}
        if measure.kind is Kind.SETS:
            predicted = estimator.predict(X)
            if classes is not None:
                predicted = predicted == classes[1]
            if n_labels == 1 and predicted.ndim == 1:  # many estimators take a column, and return a vector
                predicted = predicted[:, None]
            given["Y_pred"] = check_predicted(predicted, truth)
        else:
            given["scores"] = check_scores(scores_of(estimator, X, n_labels=n_labels), truth)
        if self.propensities is not None:
            given["propensities"] = check_propensities(self.propensities, n_labels)
        value = values_of({name: measure}, truth, truth.weight(sample_weight), **given)[self.name]
        return -value if measure.lower_is_better else value


def propensity_scorer(k: int, propensities: ArrayLike) -> MeasureScorer:
    """A scorer of propensity-scored precision at k, which `scorers` cannot list: it needs the propensities.

    Parameters
    ----------
    k : int
        Number of labels taken of each row, positive.
    propensities : array-like of shape (n_labels,)
        Chance in (0, 1] that a relevant label was recorded; `label_propensities` of the whole training set. They
        stay the same in all folds of a cross-validation.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from comargin.metrics import label_propensities, propensity_scorer
    >>> X, Y = make_multilabel_classification(n_samples=50, n_classes=4, random_state=0)
    >>> scorer = propensity_scorer(3, label_propensities(Y))
    >>> cross_val_score(KNeighborsClassifier(), X, Y, scoring=scorer, cv=2).shape
    (2,)
    """
    values = check_propensities(propensities, np.size(propensities))
    return MeasureScorer(f"{_PROPENSITY_AT}{check_k(k)}", tuple(values.tolist()))


class Scorers(_ByMeasure[MeasureScorer]):
    """Every measure of `evaluate` as a scorer: ``GridSearchCV(..., scoring=scorers["ranking_loss"])``.

    **Scorers of losses return negated values**, because scikit-learn maximises: ``scorers["hamming_loss"]``,
    ``["one_error"]``, ``["coverage"]`` and ``["ranking_loss"]`` are at most 0, and 0 is the best. Turn the sign
    of ``mean_test_score`` to get the loss; `higher_is_better` is False for losses.

    A read-only mapping by name. It lists the measures at k for k = 1, 3, 5 and knows all k
    (``scorers["ndcg_at_10"]``); ``scoring=dict(scorers)`` takes all that are listed. For propensity-scored
    precision see `propensity_scorer`. ``y`` is an indicator, or 1-D with the two classes of a binary estimator.

    Examples
    --------
    >>> from comargin.metrics import scorers
    >>> scorers["micro_f1"]
    MeasureScorer(name='micro_f1')
    >>> scorers["f1_micro"]
    Traceback (most recent call last):
    ...
    KeyError: "no measure is named 'f1_micro'; did you mean 'micro_f1' or 'macro_f1'?"
    """


#: Every measure as a scorer, by name; **those of losses are negated**. See `Scorers`.
scorers = Scorers(_SCORED, MeasureScorer)
