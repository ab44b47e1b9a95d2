"""The parts that searches by cross-validation share: folds, a path, the choice, progress."""

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

# The other two mean that the tolerance was met, or that a callback stopped the solver.
UNCONVERGED = (Status.MAX_ITER, Status.STALLED)
# Relative difference of two scores that is rounding.
_TIE = 1e-12


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


def has_path(model: Any) -> bool:
    """Whether `fit_path` fits the model as its ``fit`` would for every value.

    True for learners with ``_prepare``, unless a subclass wraps it in another ``fit`` or ``_solve``.
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

    Parts that do not depend on the value, such as rows of the kernel matrix, are computed once. Yields the result of
    each value while ``model`` is fitted with it. The values are in the order of ``_path_ascends``, in which a start is
    close to the next solution, and feasible. ``state`` is the solution of an earlier value, or a state of the first
    one. ``keep`` is called at every certificate with the index of the value and a function that returns the state.
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
    """The scorer of a name, ours before scikit-learn's; ``argument`` is for the error message."""
    try:
        return scorers[name]
    except KeyError as not_ours:
        try:
            return get_scorer(name)
        except ValueError:
            raise ValueError(f"{argument}: {not_ours.args[0]}; nor is it a scorer of scikit-learn") from None


def takes_weight(scorer: Callable[..., float]) -> bool:
    """Whether a scorer has the argument ``sample_weight``."""
    return "sample_weight" in inspect.signature(scorer).parameters


def best_of(scores: np.ndarray, what: str) -> tuple[int, np.ndarray]:
    """Index of the first best value, and the means over the folds, of scores (n_folds, n_values); greater is better.

    Folds with a score that is not finite are left out. ``what`` names the scores in the error message.
    """
    defined = np.isfinite(scores).all(axis=1)
    if not defined.any():
        raise ValueError(f"{what} is not finite in any fold: choose another measure or cv")
    mean = scores[defined].mean(axis=0)
    return int(np.argmax(mean >= mean.max() - _TIE * abs(mean.max()))), mean


class Progress:
    """Reports every finished fit on stderr: a bar on a terminal, lines elsewhere, nothing if not verbose."""

    def __init__(self, verbose: int, total: int, title: str) -> None:
        self.verbose, self.total, self.title = verbose, total, title
        self.done, self.began, self.lock = 0, time.perf_counter(), threading.Lock()

    def __call__(self, text: str) -> None:
        if not self.verbose:
            return
        with self.lock:  # folds report from their threads
            self.done += 1
            head, seconds = f"{self.title}: {self.done}/{self.total}", time.perf_counter() - self.began
            if sys.stderr.isatty():
                bar = "#" * round(20 * self.done / self.total)
                end = "\n" if self.done == self.total else ""
                sys.stderr.write(f"\r\x1b[K{head} [{bar:20}] {text}  {seconds:.1f} s{end}")
            else:
                sys.stderr.write(f"{head}  {text}  {seconds:.1f} s\n")
            sys.stderr.flush()
