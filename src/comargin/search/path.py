"""What searches by cross-validation share: folds, a path, the choice, progress."""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.metrics import get_scorer
from sklearn.model_selection import check_cv

from ..core.estimator import MultilabelClassifier
from ..core.result import FitState, Result, Status
from ..core.validation import TrainingData
from ..metrics import scorers
from ..model_selection import MultilabelStratifiedKFold

Folds = list[tuple[np.ndarray, np.ndarray]]

# A solver that was stopped by a callback, or met its tolerance, did what was asked for.
UNCONVERGED = (Status.MAX_ITER, Status.STALLED)
# Scores that differ by rounding alone are equal.
_TIE = 1e-12


def folds_of(cv: Any, X: Any, y: Any, random_state: Any = None) -> Folds:
    """Rows to train on and rows to test, for every fold.

    Parameters
    ----------
    cv : int, splitter or iterable of (train, test)
        An integer means so many folds of `MultilabelStratifiedKFold`, also for a 1-D y.
    X, y : array-like or sparse matrix
        What is split.
    random_state : int, RandomState instance or None
        Shuffles the rows before an integer ``cv`` splits them; None does not shuffle.

    Returns
    -------
    list of (ndarray, ndarray)
        Row indices.
    """
    if isinstance(cv, Integral):
        cv = MultilabelStratifiedKFold(int(cv), shuffle=random_state is not None, random_state=random_state)
    folds = [(np.asarray(train), np.asarray(test)) for train, test in check_cv(cv).split(X, y)]
    if not folds or not all(len(train) and len(test) for train, test in folds):
        raise ValueError("cv must give at least one split, each with rows to train on and rows to test")
    return folds


def has_path(model: Any) -> bool:
    """Whether `fit_path` does what ``fit`` of the model would do for every value.

    Parameters
    ----------
    model : estimator
        Any.

    Returns
    -------
    bool
        True for learners with ``_prepare``, unless a subclass has another ``fit`` or ``_solve`` around it.
    """
    kind = type(model)
    if not (isinstance(model, MultilabelClassifier) and hasattr(kind, "_prepare")):
        return False
    solves, prepares = (next(c for c in kind.__mro__ if name in vars(c)) for name in ("_solve", "_prepare"))
    return issubclass(prepares, solves) and kind.fit is MultilabelClassifier.fit


def fit_path(
    model: Any,
    data: TrainingData,
    values: Iterable[float],
    state: FitState | None = None,
    keep: Callable[[int, Callable[[], FitState]], object] | None = None,
) -> Iterator[Result]:
    """Fit one learner for several values of a parameter, each fit started from the solution of the one before.

    What does not depend on it, such as rows of the kernel matrix, is computed once.

    Parameters
    ----------
    model : MultilabelClassifier
        With the method ``_prepare``; it becomes fitted with each value of its ``_path_parameter`` in turn.
    data : TrainingData
        What to learn from.
    values : iterable of float
        In the order ``_path_ascends`` tells a start is close to the solution, and feasible.
    state : FitState or None
        What the first fit starts from: the solution of a value before it in this order, or a state of its own.
    keep : callable or None
        Called at every certificate with the place of the value and a function that returns the state.

    Yields
    ------
    Result
        Of each value, when ``model`` is fitted with it.
    """
    model._targets, model.classes_ = data.targets, data.targets.classes
    solve = model._prepare(data)
    start, before = (None, ()) if state is None else state
    for place, value in enumerate(values):
        model.set_params(**{model._path_parameter: value})
        control = replace(model._control(), before=before, keep=None if keep is None else partial(keep, place))
        result, attributes = solve(value, start, control)
        model._adopt(result, attributes)
        start, before = result.dual_coef, ()
        yield result


def scorer_named(name: str, argument: str) -> Callable[..., float]:
    """The scorer a name stands for, ours before scikit-learn's.

    Parameters
    ----------
    name : str
        A key of `comargin.metrics.scorers`, or a name that scikit-learn knows.
    argument : str
        Name of the argument for the error message.

    Returns
    -------
    callable
        ``scorer(model, X, y)``, greater is better.
    """
    try:
        return scorers[name]
    except KeyError as not_ours:
        try:
            return get_scorer(name)
        except ValueError:
            raise ValueError(f"{argument}: {not_ours.args[0]}; nor is it a scorer of scikit-learn") from None


def takes_weight(scorer: Callable[..., float]) -> bool:
    """Whether a scorer has the argument ``sample_weight``.

    Parameters
    ----------
    scorer : callable
        ``scorer(model, X, y)``.

    Returns
    -------
    bool
        Whether weights of the rows may be passed.
    """
    return "sample_weight" in inspect.signature(scorer).parameters


def best_of(scores: np.ndarray, what: str) -> tuple[int, np.ndarray]:
    """The best of several values, by the mean over the folds.

    Parameters
    ----------
    scores : ndarray of shape (n_folds, n_values)
        Greater is better. A fold with a score that is not finite is left out.
    what : str
        What the scores are, for the error message.

    Returns
    -------
    index : int
        The first of the best.
    mean : ndarray of shape (n_values,)
        Means over the folds.
    """
    defined = np.isfinite(scores).all(axis=1)
    if not defined.any():
        raise ValueError(f"{what} is not finite in any fold: choose another measure or cv")
    mean = scores[defined].mean(axis=0)
    return int(np.argmax(mean >= mean.max() - _TIE * abs(mean.max()))), mean


class Progress:
    """Tells on stderr that one more fit is done: a bar on a terminal, lines elsewhere, nothing when silent."""

    def __init__(self, verbose: int, total: int, title: str) -> None:
        self.verbose, self.total, self.title = verbose, total, title
        self.done, self.began, self.lock = 0, time.perf_counter(), threading.Lock()

    def __call__(self, text: str) -> None:
        if not self.verbose:
            return
        with self.lock:  # folds tell from their threads
            self.done += 1
            head, seconds = f"{self.title}: {self.done}/{self.total}", time.perf_counter() - self.began
            if sys.stderr.isatty():
                bar = "#" * round(20 * self.done / self.total)
                end = "\n" if self.done == self.total else ""
                sys.stderr.write(f"\r\x1b[K{head} [{bar:20}] {text}  {seconds:.1f} s{end}")
            else:
                sys.stderr.write(f"{head}  {text}  {seconds:.1f} s\n")
            sys.stderr.flush()
