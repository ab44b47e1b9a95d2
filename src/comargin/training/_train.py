"""From labelled rows to a tagger."""

import contextlib
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.multiclass import OneVsRestClassifier

from .. import __version__
from ..baselines import KnownLabelsClassifier
from ..core.checks import whole_number
from ..core.estimator import MultilabelClassifier
from ..core.executor import Threads, chosen_or, using
from ..core.indicator import check_labels, known_share, split_unknown
from ..core.memory import Memory, StopRequest
from ..core.progress import Progress
from ..core.row_blocks import take_rows
from ..core.validation import learner_of
from ..data import Dataset, fingerprint
from ..decisions import RiskController, parse_guarantee
from ..decisions.aims import check_aim
from ..decisions.decision_classifier import split_off
from ..decisions.workbench import BY_AIM, fit_decider, make_decider
from ..model_selection import MultilabelStratifiedKFold
from ..models import ModelRecipe, checked_models, for_unknown_labels, has_missing
from ..search import AutoClassifier
from ..search.budget import parse_budget
from ._folder import FolderMemory
from ._tagger import Tagger
from .building import (
    DEFAULT_AIM,
    build,
    check_rule,
    criterion_of,
    decided_by,
    default_model,
    search,
    searched,
    with_named_parameters,
    with_search,
)
from .identity import described, hash_of, json_values

DEFAULT_CONFIDENCE = 0.9


def takes_sparse_labels(estimator: Any) -> bool:
    """Whether an estimator takes a sparse indicator; forests and neighbours of scikit-learn do not."""
    return isinstance(estimator, MultilabelClassifier | AutoClassifier | OneVsRestClassifier | KnownLabelsClassifier)


def train(
    dataset: Dataset,
    model: str | ModelRecipe | None = None,
    *,
    params: Mapping[str, Any] | None = None,
    tune: bool = True,
    grid: Mapping[str, Sequence[Any]] | None = None,
    criterion: str | None = None,
    folds: int = 3,
    budget: str | float | None = None,
    thresholds: str | None = BY_AIM,
    aim: Any = DEFAULT_AIM,
    guarantee: str | None = None,
    confidence: float = DEFAULT_CONFIDENCE,
    n_jobs: int | None = None,
    random_state: int = 0,
    verbose: int = 0,
    checkpoint: str | os.PathLike[str] | None = None,
    should_stop: Callable[[], bool] | None = None,
    fit_begins: Callable[[bool], object] = lambda asks: None,
    reading: Mapping[str, Any] | None = None,
) -> Tagger:
    """Train a tagger: make features ready, search parameters, learn when a label is on, fit all rows.

    Texts, and sparse features without negative values, become TF-IDF; dense features are standardised. Parameters are
    searched one after the other, as `comargin.tune` does, with ten times the learner's ``tol``. Probabilities, and the
    label sets that are best for a measure, are learned from out-of-fold scores.

    Parameters
    ----------
    dataset : Dataset
        Rows to learn from. Where features are missing (NaN) the mean of their column is learned, and stands for what
        is missing in new rows, too.
    model : str, ModelRecipe or None, default=None
        A name of `model_names`, or a recipe. None: "auto", which tries several models and blends the best
        (`comargin.AutoClassifier`), or "m3l" if there are params, a grid, a criterion or a rule as thresholds, which
        are of one model.
    params : mapping or None, default=None
        Values of parameters, by the learner's names, or with the step before them, such as ``tfidf__min_df``. They are
        not searched.
    tune : bool, default=True
        Whether the other parameters of the model's grid are searched. Without it "auto" tries every model once.
    grid : mapping or None, default=None
        Parameters of the learner and values to try, in place of the model's own.
    criterion : str or None, default=None
        Measure of `comargin.metrics.scorers` that parameters are chosen by, on held-out rows, or "ranking+hamming", the
        mean of ranking loss and Hamming loss. None: average precision, or micro-F1 for a model whose
        labels are more than cuts of scores.
    folds : int, default=3
        Parts the rows are split in, for parameters and for probabilities or rules.
    budget : str, float or None, default=None
        When "auto" ends its search: "5m", a number of seconds, or "20 fits"; as in `comargin.AutoClassifier`.
    thresholds : str or None, default="aim"
        "aim": calibrated probabilities decide on labels (`comargin.decisions.DecisionClassifierCV`). Else a rule of
        `comargin.decisions.ThresholdClassifierCV`, for models whose labels are cuts of scores; None leaves every
        model its own cut.
    aim : str or array-like, default="micro_f1"
        The measure that label sets are made for, with ``thresholds="aim"``; `Tagger.predict` takes another one.
    guarantee : str or None, default=None
        A promise that label sets keep, such as "recall >= 0.9" or "precision of sports >= 0.8"; see
        `comargin.decisions.RiskController`. Three in ten rows, drawn at random, are set aside to certify it.
    confidence : float, default=0.9
        Probability with which the promise holds.
    n_jobs : int or None, default=None
        Threads. The tagger is the same for any number.
    random_state : int, default=0
        Seed of everything.
    verbose : int, default=0
        1 shows progress on standard error.
    checkpoint : path or None, default=None
        A folder for the state of a long training: measures of the search, scores of every fold, and every minute the
        state of the running fits. The same call with the same folder goes on from there; `clear_checkpoint` empties it.
    should_stop : callable or None, default=None
        Asked at every certificate of the last fit; a true answer ends it with the solution so far.
    fit_begins : callable, optional
        With ``should_stop``: called when the last fit begins (each one, of a blend), with whether it will ask. Learners
        of scikit-learn do not.
    reading : mapping or None, default=None
        How new files are to be read; see `Tagger`.

    Returns
    -------
    Tagger
        The fitted model with all names; ``facts`` records how it was trained.

    Examples
    --------
    >>> from comargin.data import make_correlated
    >>> from comargin.training import train
    >>> data = make_correlated(120, n_features=5, n_labels=3, seed=0)
    >>> tagger = train(data, "m3l", params={"C": 1.0})
    >>> tagger
    Tagger(DecisionClassifierCV: 5 features, 3 labels)
    >>> tagger.predict(data.X).shape
    (120, 3)
    """
    began = time.perf_counter()
    by_rule = thresholds != BY_AIM
    (recipe,) = checked_models(default_model(params, grid, criterion, by_rule) if model is None else model)
    X, Y = checked_rows(dataset)
    known = split_unknown(Y, "dataset.Y")[1]
    if known is not None:
        recipe = for_unknown_labels(recipe)
        if not known.any():
            raise ValueError("dataset has no known label: all cells of Y are NaN")
    if sp.issparse(Y) and not takes_sparse_labels(recipe.estimator):
        Y = Y.toarray()
    whole_number("folds", folds, 2)
    whole_number("random_state", random_state)
    folds, seed = int(folds), int(random_state)
    if n_jobs == 0:
        raise ValueError("n_jobs must not be 0: a number of threads, or -1 for all cores")
    if folds > Y.shape[0]:
        raise ValueError(f"folds={folds}, but there are only {Y.shape[0]} rows")
    check_rule(thresholds)
    rule_name = decided_by(recipe, thresholds)
    check_aim(aim, Y.shape[1])
    certifying = None
    if guarantee is not None:
        # Rows that certify a promise are not seen by the search either.
        promise = RiskController(parse_guarantee(guarantee, dataset.label_names), confidence)
        learned, certifying = split_off(promise, Y.shape, seed)
    plain_aim = isinstance(aim, str) and aim == DEFAULT_AIM
    if guarantee is not None and not plain_aim:
        raise ValueError("aim= and guarantee= exclude each other: a promise decides on label sets by itself")
    if guarantee is None and confidence != DEFAULT_CONFIDENCE:
        raise ValueError("confidence= is that of a guarantee=, which is not given")
    if rule_name != BY_AIM and not (guarantee is None and plain_aim):
        raise ValueError(f'aim= and guarantee= need thresholds="aim", and a model with scores; got {thresholds!r}')
    criterion = criterion_of(recipe, criterion, thresholds)
    fixed = dict(params or {})
    estimator = with_named_parameters(build(recipe, X, seed), fixed, "params")
    decides = isinstance(estimator, AutoClassifier)
    if decides:
        estimator = with_search(estimator, tune, budget)
        parse_budget(estimator.budget)
    elif budget is not None:
        raise ValueError(f"budget= is for auto, which chooses between models; the model is {recipe.name!r}")
    if Y.shape[1] == 1 and not (decides or isinstance(learner_of(estimator), MultilabelClassifier)):
        raise ValueError(f"model={recipe.name!r} needs at least two labels, the data has one; m3l takes one")
    to_search = searched(estimator, recipe.grid, grid, fixed) if tune or grid is not None else ()

    data_print, all_X, all_Y = fingerprint(X, Y), X, Y
    if certifying is not None:
        X, Y = take_rows(X, learned), Y[learned]
    splitter = MultilabelStratifiedKFold(folds, shuffle=True, random_state=seed)
    splits = list(splitter.split(X, Y)) if to_search or rule_name else []
    memory = Memory()
    with contextlib.ExitStack() as stack:
        stack.enter_context(using(chosen_or(Threads(n_jobs))))
        if checkpoint is not None:
            searches = [[name, described(values, f"grid: {name}")] for name, values in to_search]
            decisions = [rule_name, described(aim, "aim"), described(guarantee, "guarantee"), confidence]
            settings = [__version__, criterion, folds, decisions, seed, searches]
            memory = FolderMemory(checkpoint, hash_of([described(estimator, "model"), data_print, settings]))
            stack.enter_context(memory.in_use())
        estimator, best = search(
            estimator, to_search, X, Y, criterion=criterion, folds=splits, seed=seed, verbose=verbose, memory=memory
        )
        tuned_seconds = time.perf_counter() - began
        watched = _with_threads(estimator, n_jobs, verbose)
        decider = make_decider(watched, rule_name, folds=splits, seed=seed, aim=aim)
        fitted, measures = fit_decider(
            decider,
            X,
            Y,
            memory=memory,
            stop=None if should_stop is None else StopRequest(should_stop, fit_begins),
            show=Progress(verbose, 0 if decides else folds, recipe.name if decides else "cuts"),
        )
    if rule_name is not None:
        fitted.set_params(cv=folds, **({"n_jobs": estimator.n_jobs} if decides else {"estimator": estimator}))
    learner = learner_of(fitted.estimator_ if rule_name is not None or decides else fitted)
    if isinstance(learner, MultilabelClassifier) and not decides:  # as the user has set them
        learner.set_params(verbose=learner_of(estimator).verbose, n_jobs=learner_of(estimator).n_jobs)
    if certifying is not None:
        fitted.set_params(guarantee=promise.guarantee, confidence=confidence)
        fitted.certify(take_rows(all_X, certifying), all_Y[certifying])
    n_features = None if isinstance(X, list) else X.shape[1]
    facts = {
        "model": recipe.name,
        "estimator": type(learner).__name__,
        "parameters": json_values(learner.get_params(deep=False)),
        "searched": json_values(best),
        "criterion": criterion if to_search else None,
        **(_tried(fitted) if decides else {}),
        "folds": folds,
        "thresholds": rule_name,
        "aim": aim if isinstance(aim, str) else np.asarray(aim).tolist(),
        "guarantee": None if certifying is None else fitted.promise_.statement_,
        "certified_by_rows": 0 if certifying is None else len(certifying),
        "fold_measures": measures,
        "random_state": seed,
        "data": {
            "name": dataset.name,
            "rows": all_Y.shape[0],
            "features": "texts" if n_features is None else n_features,
            "labels": Y.shape[1],
            **({"known": share} if (share := known_share(all_Y)) else {}),
            "fingerprint": data_print,
        },
        "seconds": {"search": round(tuned_seconds, 3), "all": round(time.perf_counter() - began, 3)},
        **_certificate(learner),
        "comargin": __version__,
    }
    return Tagger(fitted, dataset.label_names, n_features, dataset.feature_names, _to_read(reading, all_X), facts)


def _to_read(reading: Mapping[str, Any] | None, X: Any) -> dict[str, Any]:
    """How new files are to be read: missing features are left to the model where it has learned from some."""
    return {**(reading or {}), **({"missing": "nan"} if has_missing(X) else {})}


def checked_rows(dataset: Any) -> tuple[Any, Any]:
    """Features or texts, and an indicator of a type that all classifiers of scikit-learn accept."""
    if not isinstance(dataset, Dataset):
        raise ValueError(f"dataset must be a Dataset, got a {type(dataset).__name__}")
    Y = check_labels(dataset.Y, "dataset.Y")
    Y = Y.astype(np.int64) if Y.dtype.kind != "f" else Y
    if Y.shape[0] < 2 or Y.shape[1] == 0:
        raise ValueError(f"dataset must have at least two rows and one label, got {Y.shape[0]} and {Y.shape[1]}")
    return dataset.X, Y if sp.issparse(dataset.Y) else Y.toarray()


def _with_threads(estimator: Any, n_jobs: int | None, verbose: int) -> Any:
    """A clone whose learner shows its progress, and uses ``n_jobs`` threads unless the user has set a number."""
    changed = clone(estimator)
    learner = learner_of(changed)
    if isinstance(learner, AutoClassifier) and learner.n_jobs is None:
        learner.set_params(n_jobs=n_jobs)
    if isinstance(learner, MultilabelClassifier):
        learner.set_params(verbose=verbose, n_jobs=n_jobs if learner.n_jobs is None else learner.n_jobs)
    return changed


def _tried(fitted: AutoClassifier) -> dict[str, Any]:
    """What was tried, as JSON takes it."""
    trials = [json_values(vars(trial)) | {"parameters": json_values(trial.parameters)} for trial in fitted.trials_]
    return {"trials": trials, "budget": fitted.budget_}


def _certificate(learner: Any) -> dict[str, float]:
    """Objective and gap of learners that have them; a lower bound where the gap is that of a convex step only."""
    names = ("objective", "dual_objective", "duality_gap", "lower_bound")
    found = {name: getattr(learner, f"{name}_", np.nan) for name in names}
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}
