"""The arguments of a search: the criterion, the grid, the folds."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import get_scorer, zero_one_loss
from sklearn.model_selection import check_cv

from ..core.estimator import MultilabelClassifier
from ..core.validation import learner_of
from ..metrics import MeasureScorer, higher_is_better, scorers
from ..model_selection import MultilabelStratifiedKFold

DEFAULT_CRITERION = "ranking+hamming"
Folds = list[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True)
class Criterion:
    """A measure of a fitted model on held-out rows: ``sign`` times its scorer."""

    name: str
    scorer: Callable[..., float]
    greater_is_better: bool
    sign: float = 1.0
    sees_all: bool = False  # a user's function may look at every part of a Pipeline

    def of(self, model: Any, X: Any, y: Any, weight: np.ndarray | None) -> float:
        weighted = {}
        if weight is not None and "sample_weight" in inspect.signature(self.scorer).parameters:
            weighted["sample_weight"] = weight
        return self.sign * float(self.scorer(model, X, y, **weighted))


def _ranking_and_hamming(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """(77): the mean of ranking loss and Hamming loss."""
    negated = (scorers[name](model, X, y, sample_weight=sample_weight) for name in ("ranking_loss", "hamming_loss"))
    return -sum(negated) / 2.0


def _error_rate(model: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    return float(zero_one_loss(y, model.predict(X), sample_weight=sample_weight))


def checked_criterion(criterion: Any, y: Any) -> Criterion:
    """The measure for a name or a callable, given the form of y."""
    if callable(criterion):
        return Criterion(getattr(criterion, "__name__", repr(criterion)), criterion, True, sees_all=True)
    if not isinstance(criterion, str):
        raise ValueError(f"criterion must be the name of a measure or a callable(model, X, y), got {criterion!r}")
    if criterion == DEFAULT_CRITERION and y.ndim == 1:
        criterion = "error_rate"
    elif criterion == DEFAULT_CRITERION and y.shape[1] == 1:  # no pairs of labels to rank
        criterion = "hamming_loss"
    if criterion == DEFAULT_CRITERION:
        return Criterion(criterion, _ranking_and_hamming, False)
    if criterion == "error_rate":
        return Criterion(criterion, _error_rate, False)
    scorer = scorer_named(criterion, "criterion")
    greater = not isinstance(scorer, MeasureScorer) or higher_is_better[criterion]
    return Criterion(criterion, scorer, greater, 1.0 if greater else -1.0)  # scorers of losses negate them


def checked_grid(grid: Any, estimator: Any) -> list[tuple[str, tuple[Any, ...]]]:
    """Names and values of the grid, in order."""
    pairs = list(grid.items()) if isinstance(grid, Mapping) else grid
    if isinstance(pairs, str) or not isinstance(pairs, Sequence) or len(pairs) == 0:
        raise ValueError(f"grid must map names to values, or be a list of (name, values), not empty; got {grid!r}")
    steps: list[tuple[str, tuple[Any, ...]]] = []
    model = clone(estimator)
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(f"grid must hold pairs of a name and a list of values, got {pair!r}")
        name, values = pair
        is_list = isinstance(values, Sequence) and not isinstance(values, str | bytes)
        if not (is_list or (isinstance(values, np.ndarray) and values.ndim == 1)) or len(values) == 0:
            raise ValueError(f"grid: the values of {name} must be a list of at least one value, got {values!r}")
        tried = tuple(values.tolist() if isinstance(values, np.ndarray) else values)
        try:  # in order: a step may replace the estimator of a later name
            for value in reversed(tried):  # check all before hours are spent; the first one stays
                model.set_params(**{name: clone(value, safe=False)})
                last = learner_of(model)
                if isinstance(last, MultilabelClassifier):
                    last._validate_params()
        except ValueError as error:
            raise ValueError(f"grid: {error}") from error
        steps.append((name, tried))
    return steps


def scorer_named(name: str, argument: str) -> Callable[..., float]:
    """The scorer of a name, ours before scikit-learn's; ``argument`` is for the error message."""
    try:
        return scorers[name]
    except KeyError as not_ours:
        try:
            return get_scorer(name)
        except ValueError:
            raise ValueError(f"{argument}: {not_ours.args[0]}; nor is it a scorer of scikit-learn") from None


def folds_of(cv: Any, X: Any, y: Any, random_state: Any = None) -> Folds:
    """Indices of the rows to train on and to test, for every fold.

    An integer ``cv`` means that many folds of `MultilabelStratifiedKFold`, also for a 1-D y, shuffled if there is a
    ``random_state``.
    """
    if isinstance(cv, Integral):
        cv = MultilabelStratifiedKFold(int(cv), shuffle=random_state is not None, random_state=random_state)
    folds = [(np.asarray(train), np.asarray(test)) for train, test in check_cv(cv).split(X, y)]
    if not folds or not all(len(train) and len(test) for train, test in folds):
        raise ValueError("cv must give at least one split, each with rows to train on and rows to test")
    return folds


def checked_cv(cv: Any, n_samples: int) -> Any:
    """Return ``cv``, unless it is an invalid number of folds."""
    if isinstance(cv, bool | np.bool_) or cv is None or (isinstance(cv, Integral) and not 2 <= int(cv) <= n_samples):
        raise ValueError(
            f"cv must be a number of folds from 2 to the number of rows, {n_samples}, a splitter or an iterable of "
            f"(train, test); got {cv!r}"
        )
    return cv


def check_flags(refit: Any, verbose: Any) -> None:
    """Raise unless these are valid flags."""
    if not isinstance(refit, bool | np.bool_):
        raise ValueError(f"refit must be True or False, got {refit!r}")
    if not isinstance(verbose, bool | np.bool_ | Integral) or int(verbose) < 0:
        raise ValueError(f"verbose must be True, False or an int of at least 0, got {verbose!r}")
