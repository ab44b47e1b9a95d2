"""From labelled rows to a tagger."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone

from .. import __version__
from .._indicator import check_indicator
from ..data import Dataset, fingerprint
from ..estimators import MultilabelClassifier
from ..estimators._path import Progress
from ..metrics import evaluate
from ..thresholds import ThresholdClassifierCV, ThresholdRule
from ..thresholds._classifier import RULES
from ._building import build, learner_of, search
from ._checkpoint import CheckpointFolder
from ._folder_memory import FolderMemory, fit_kept
from ._identity import described, identity_of
from ._parameters import searched, with_parameters
from ._recipes import ModelRecipe, checked_criterion, checked_models, criterion_of
from ._tagger import Tagger

DEFAULT_MODEL = "m3l"
DEFAULT_RULE = "per-label"
_MEASURES = "measures on held-out folds"


def train(
    dataset: Dataset,
    model: str | ModelRecipe = DEFAULT_MODEL,
    *,
    params: Mapping[str, Any] | None = None,
    tune: bool = True,
    grid: Mapping[str, Sequence[Any]] | None = None,
    criterion: str | None = None,
    folds: int = 3,
    thresholds: str | None = DEFAULT_RULE,
    n_jobs: int | None = None,
    random_state: int = 0,
    verbose: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    should_stop: Callable[[], bool] | None = None,
    reading: Mapping[str, str] | None = None,
) -> Tagger:
    """Train a tagger: make features ready, search parameters, learn when a label is on, fit all rows.

    Texts, and sparse features without negative values, become TF-IDF; dense features are standardised. Parameters are
    searched one after the other, as `comargin.tune` does, with ten times the learner's ``tol``. Labels are switched on
    by a rule that is learned on out-of-fold scores, except for models whose label sets are more than cuts of scores.

    Parameters
    ----------
    dataset : Dataset
        Rows to learn from.
    model : str or ModelRecipe, default="m3l"
        A name of `model_names`, or a recipe.
    params : mapping or None, default=None
        Values of parameters, by the learner's names, or with the step before them, such as ``tfidf__min_df``. They are
        not searched.
    tune : bool, default=True
        Whether the other parameters of the model's grid are searched.
    grid : mapping or None, default=None
        Parameters of the learner and values to try, in place of the model's own.
    criterion : str or None, default=None
        Measure of `comargin.metrics.scorers` that parameters are chosen by, on held-out rows, or "ranking+hamming", the
        mean of ranking loss and Hamming loss. None: average precision, or micro-F1 for a model that
        has no rule.
    folds : int, default=3
        Parts the rows are split in, for parameters and for the rule.
    thresholds : str or None, default="per-label"
        Rule of `comargin.thresholds.ThresholdClassifierCV`; None leaves every model its own cut.
    n_jobs : int or None, default=None
        Threads. The tagger is the same for any number.
    random_state : int, default=0
        Seed of everything.
    verbose : int, default=0
        1 shows progress on standard error.
    checkpoint : path or None, default=None
        A folder for the state of a long training: what the search has measured so far, scores of every fold, and every
        minute the state of the fits that are running. The same call with the same folder goes on from there.
        `clear_checkpoint` empties it.
    should_stop : callable or None, default=None
        Asked before and during the last fit; a true answer during it ends it with what is there. Learners of
        scikit-learn do not ask.
    reading : mapping or None, default=None
        How new files are to be read; see `Tagger`.

    Returns
    -------
    Tagger
        The fitted model with all names. ``facts`` tells how it came to be.

    Examples
    --------
    >>> from comargin.data import make_correlated
    >>> from comargin.training import train
    >>> data = make_correlated(120, n_features=5, n_labels=3, seed=0)
    >>> tagger = train(data, "m3l", params={"C": 1.0})
    >>> tagger
    Tagger(ThresholdClassifierCV: 5 features, 3 labels)
    >>> tagger.predict(data.X).shape
    (120, 3)
    """
    began = time.perf_counter()
    (recipe,) = checked_models(model)
    X, Y = _checked_rows(dataset)
    for name, value, least in (("folds", folds, 2), ("random_state", random_state, 0)):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise ValueError(f"{name} must be an int of at least {least}, got {value!r}")
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: a number of threads, or -1 for all cores")
    if folds > Y.shape[0]:
        raise ValueError(f"folds={folds}, but there are only {Y.shape[0]} rows")
    if thresholds is not None and thresholds not in RULES:
        raise ValueError(f"thresholds must be None or one of {', '.join(map(repr, RULES))}; got {thresholds!r}")
    rule_name = thresholds if recipe.learn_cuts else None
    checked_criterion(criterion)
    criterion = criterion_of(recipe, criterion, rule_name)
    fixed = dict(params or {})
    estimator = with_parameters(build(recipe, X, int(random_state)), fixed, "params")
    if Y.shape[1] == 1 and not isinstance(learner_of(estimator), MultilabelClassifier):
        raise ValueError(f"model={recipe.name!r} needs at least two labels, the data has one; m3l takes one")
    to_search = searched(estimator, recipe.grid, grid, fixed) if tune or grid is not None else ()

    print_of_data = fingerprint(X, Y)
    folder = None
    if checkpoint is not None:
        searches = [[name, described(values, f"grid: {name}")] for name, values in to_search]
        settings = [__version__, criterion, int(folds), rule_name, int(random_state), searches]
        folder = CheckpointFolder(checkpoint, identity_of(estimator, print_of_data, settings))
    with contextlib.nullcontext() if folder is None else folder.in_use():
        estimator, best = search(
            estimator,
            to_search,
            X,
            Y,
            criterion=criterion,
            folds=int(folds),
            seed=int(random_state),
            n_jobs=n_jobs,
            verbose=verbose,
            known=None if folder is None else folder.found,
            found=None if folder is None else folder.add_found,
            memory=None if folder is None else FolderMemory(folder),
        )
        tuned_seconds = time.perf_counter() - began
        classifier = rule = measures = None
        if rule_name is not None:
            classifier = ThresholdClassifierCV(estimator, rule=rule_name, cv=int(folds), random_state=int(random_state))
            rule, measures = _learned_cuts(classifier, X, Y, n_jobs, verbose, folder)
        last = _fit_last(estimator, X, Y, n_jobs, verbose, folder, should_stop)
    fitted = last if classifier is None else classifier._adopt(last, rule, np.arange(Y.shape[1]), Y)
    learner = learner_of(last)
    n_features = None if isinstance(X, list) else X.shape[1]
    facts = {
        "model": recipe.name,
        "estimator": type(learner).__name__,
        "parameters": {name: _told(value) for name, value in learner.get_params(deep=False).items()},
        "searched": {name: _told(value) for name, value in best.items()},
        "criterion": criterion if to_search else None,
        "folds": int(folds),
        "thresholds": rule_name,
        "fold_measures": measures,
        "random_state": int(random_state),
        "data": {
            "name": dataset.name,
            "rows": Y.shape[0],
            "features": "texts" if n_features is None else n_features,
            "labels": Y.shape[1],
            "fingerprint": print_of_data,
        },
        "seconds": {"search": round(tuned_seconds, 3), "all": round(time.perf_counter() - began, 3)},
        **_certificate(learner),
        "comargin": __version__,
    }
    return Tagger(fitted, dataset.label_names, n_features, dataset.feature_names, dict(reading or {}), facts)


def _checked_rows(dataset: Any) -> tuple[Any, Any]:
    """Features or texts, and an indicator in a type that all of scikit-learn's classifiers take."""
    if not isinstance(dataset, Dataset):
        raise ValueError(f"dataset must be a Dataset, got a {type(dataset).__name__}")
    Y = check_indicator(dataset.Y, "dataset.Y").astype(np.int64)
    if Y.shape[0] < 2 or Y.shape[1] == 0:
        raise ValueError(f"dataset must have at least two rows and one label, got {Y.shape[0]} and {Y.shape[1]}")
    return dataset.X, Y if sp.issparse(dataset.Y) else Y.toarray()


def _learned_cuts(
    classifier: ThresholdClassifierCV, X: Any, Y: Any, n_jobs: int | None, verbose: int, folder: CheckpointFolder | None
) -> tuple[Any, dict[str, float | None]]:
    """The rule, and the measures of the rows it was learned on when they were left out; what is kept is not learned.

    A measure that is not defined is None.
    """
    if folder is not None:
        rule, measures = folder.rule, folder.found.get(_MEASURES)
        if rule is not None and measures is not None:
            is_rule = isinstance(rule, ThresholdRule) and getattr(rule, "n_labels_", 0) == Y.shape[1]
            if not (is_rule and isinstance(measures, dict)):
                raise ValueError(f"{folder.path} has cuts that are none of this training; delete the folder")
            return rule, measures
    threaded = clone(classifier).set_params(estimator=_with_threads(classifier.estimator, n_jobs, verbose))
    show = Progress(verbose, int(classifier.cv), "cuts")

    def scores_of_fold(fold: int, n_rows: int, fit_and_score: Callable[..., tuple[Any, np.ndarray]]) -> np.ndarray:
        if folder is None:
            _, scores = fit_and_score()
            show("fold scored")
            return scores
        kept = folder.scores(fold, (n_rows, Y.shape[1]))
        if kept is not None:
            show("fold scored before")
            return kept
        under_way = folder.fit_of_cuts(fold)
        _, scores = fit_and_score(fit=lambda model, X, y, _: fit_kept(clone(model), X, y, under_way))
        folder.keep_scores(fold, scores)
        show("fold scored")
        return scores

    rule, scores, rows = threaded._learn_rule(X, Y, scores_of_fold)
    found = evaluate(Y[rows], scores, rule.predict(scores))
    measures = {name: float(value) if np.isfinite(value) else None for name, value in found.items()}
    if folder is not None:
        folder.add_found(_MEASURES, measures)
        folder.rule = rule
    return rule, measures


def _with_threads(estimator: Any, n_jobs: int | None, verbose: int) -> Any:
    """A clone whose learner tells how far it is, and has so many threads, unless the user has said how many."""
    changed = clone(estimator)
    learner = learner_of(changed)
    if isinstance(learner, MultilabelClassifier):
        learner.set_params(verbose=verbose, n_jobs=n_jobs if learner.n_jobs is None else learner.n_jobs)
    return changed


def _fit_last(
    estimator: Any,
    X: Any,
    Y: Any,
    n_jobs: int | None,
    verbose: int,
    folder: CheckpointFolder | None,
    should_stop: Callable[[], bool] | None,
) -> Any:
    """Fit all rows; a learner of ours can be stopped, and goes on from the state in the folder."""
    own = learner_of(estimator).get_params(deep=False)
    estimator = _with_threads(estimator, n_jobs, verbose)
    learner = learner_of(estimator)
    if not isinstance(learner, MultilabelClassifier):
        return estimator.fit(X, Y)
    if should_stop is not None:
        should_stop()  # from here on it is asked, and a fit stops at its first certificate at the earliest
    if folder is not None:
        fitted = fit_kept(estimator, X, Y, folder.last_fit, should_stop=should_stop, keep_end=True)
    else:
        if should_stop is not None:
            learner.set_params(callback=lambda point: should_stop())
        fitted = estimator.fit(X, Y)
    learner_of(fitted).set_params(**{name: own[name] for name in ("verbose", "callback", "n_jobs")})
    return fitted


def _told(value: Any) -> Any:
    """A parameter as JSON takes it."""
    if isinstance(value, np.generic):
        value = value.item()
    plain = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value))
    return value if plain else repr(value)


def _certificate(learner: Any) -> dict[str, float]:
    """Objective and gap of learners that have them; a lower bound where the gap is that of a convex step only."""
    names = ("objective", "dual_objective", "duality_gap", "lower_bound")
    found = {name: getattr(learner, f"{name}_", np.nan) for name in names}
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}
