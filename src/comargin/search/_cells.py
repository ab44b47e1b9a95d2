"""The tasks of a search: one value on one fold, or all values on one fold along a path.

Results are stored under ``<key of the search>/<fold>/<position of the value>``.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from ..core.estimator import MultilabelClassifier
from ..core.memory import Memory, fit_and_keep
from ..core.result import FitState
from ..core.row_blocks import take_rows
from ..core.validation import validate_training
from ._tune_result import text_of
from .path import UNCONVERGED, Folds, Progress, fit_path
from .tune_input import Criterion


@dataclass(frozen=True)
class Rows:
    """The rows of a search, and its folds."""

    X: Any
    y: Any
    weight: np.ndarray | None
    folds: Folds

    def fold(self, fold: int, model: Any) -> tuple[Any, Any, Any, Any]:
        """X to train on and to test, y to train on and to test."""
        train, test = self.folds[fold]
        columns = train if get_tags(model).input_tags.pairwise else None
        X_train, X_test = (take_rows(self.X, rows, columns) for rows in (train, test))
        return X_train, X_test, self.y[train], self.y[test]

    def weights(self, fold: int) -> tuple[Any, Any]:
        """Weights of the rows to train on and to test; None without weights."""
        train, test = self.folds[fold]
        return (None, None) if self.weight is None else (self.weight[train], self.weight[test])


@dataclass(frozen=True)
class SearchStep:
    """All values of one parameter, with everything its tasks need."""

    base: Any
    name: str
    values: tuple[Any, ...]
    rows: Rows
    criterion: Criterion
    memory: Memory
    should_stop: Callable[[], bool]
    show: Progress
    noted: threading.local
    root: str  # what the keys of its results begin with

    def key(self, fold: int, k: int | None = None) -> str:
        """Key of one fold, or of one value in it."""
        return f"{self.root}/{fold}" if k is None else f"{self.root}/{fold}/{k}"

    def recall(self, fold: int, k: int) -> tuple[float, bool] | None:
        """The stored criterion and convergence of a value, or None."""
        kept = self.memory.recall(self.key(fold, k))
        if kept is None:
            return None
        if not (isinstance(kept, tuple) and [type(each) for each in kept] == [float, bool]):
            raise ValueError(f"the checkpoint of {self.key(fold, k)} holds {kept!r:.80}; delete its folder")
        return kept

    def measured(self, fold: int, k: int, model: Any, X_test: Any, y_test: Any, converged: bool) -> tuple[float, bool]:
        """Measure a fitted model and store the result."""
        value = float(self.criterion.of(model, X_test, y_test, self.rows.weights(fold)[1]))
        self.memory.keep(self.key(fold, k), (value, bool(converged)))
        self.report(fold, k, value)
        return value, converged

    def report(self, fold: int, k: int, value: float, more: str = "") -> None:
        """Report one cell."""
        tried = f"{self.name.rpartition('__')[2]} {text_of(self.values[k])}"
        self.show(f"fold {fold + 1}  {tried}  {self.criterion.name} {value:.4g}{more}")


Cell = tuple[int, int, float, bool]  # fold, position of the value, criterion, whether the fit converged
Cells = list[Cell]


def _known_cell(step: SearchStep, fold: int, k: int, known: tuple[float, bool]) -> Cell:
    """Report a stored result."""
    step.report(fold, k, known[0], " (known)")
    return fold, k, *known


def measure_value(step: SearchStep, fold: int, k: int) -> Cells:
    """One value on one fold."""
    known = step.recall(fold, k)
    if known is not None:
        return [_known_cell(step, fold, k, known)]
    model = _silent(with_parameters(step.base, {step.name: step.values[k]}), step.should_stop)
    X_train, X_test, y_train, y_test = step.rows.fold(fold, model)
    params = weight_params(model, step.rows.weights(fold)[0])
    step.noted.messages = []
    if params or type(step.memory) is Memory:
        model.fit(X_train, y_train, **params)
    else:
        model = fit_and_keep(model, X_train, y_train, step.memory, step.key(fold, k))
    converged = not step.noted.messages
    del step.noted.messages
    if step.should_stop():
        return []
    return [(fold, k, *step.measured(fold, k, model, X_test, y_test, converged))]


def measure_path(step: SearchStep, fold: int) -> Cells:
    """All values on one fold, each fit started from the solution of the one before.

    An interrupted path resumes after the last value whose solution is stored, not after the last one that was measured,
    so that every fit has the same start as without an interruption.
    """
    every = range(len(step.values))
    known = [step.recall(fold, k) for k in every]
    if all(each is not None for each in known):
        return [_known_cell(step, fold, k, each) for k, each in enumerate(known) if each is not None]
    whole = _silent(clone(step.base), step.should_stop)
    X_train, X_test, y_train, y_test = step.rows.fold(fold, whole)
    head, learner = parts_of(whole)
    X_learner = X_test
    if head is not None:
        X_train = head.fit_transform(X_train, y_train)
        X_learner = head.transform(X_test)
        whole = Pipeline([*head.steps, whole.steps[-1]])
    learner._validate_params()
    weight = step.rows.weights(fold)[0]
    data = validate_training(learner, X_train, y_train, weight, add_intercept=learner._appends_constant())
    order = sorted(every, key=step.values.__getitem__, reverse=not learner._path_ascends)
    n_done, state = _path_state(step, fold, order, learner, data.Y.shape)
    if any(known[k] is None for k in order[:n_done]):
        raise ValueError(
            f"the checkpoint of {step.key(fold)} has a solution of a value that was not measured; delete it"
        )
    cells = [_known_cell(step, fold, k, each) for k in order[:n_done] if (each := known[k]) is not None]
    clock = step.key(fold)
    seen = (whole, X_test) if step.criterion.sees_all else (learner, X_learner)
    left = order[n_done:]

    def keep(k: int, shown: Callable[[], FitState]) -> None:
        step.memory.keep_state(step.key(fold, k), shown, clock=clock)

    fits = fit_path(learner, data, [step.values[k] for k in left], state, lambda place, shown: keep(left[place], shown))
    for k, result in zip(left, fits, strict=True):
        if step.should_stop():
            return cells
        cells.append((fold, k, *step.measured(fold, k, *seen, y_test, result.status not in UNCONVERGED)))
        solution = f"{step.key(fold, k)}/solution"
        if step.memory.keep_state(solution, partial(FitState, result.dual_coef), clock=clock):
            for earlier in order[: order.index(k)]:
                step.memory.forget(f"{step.key(fold, earlier)}/solution")
    return cells


def _path_state(
    step: SearchStep, fold: int, order: list[int], learner: Any, shape: tuple[int, ...]
) -> tuple[int, FitState | None]:
    """How many values of a path are done, and the start of the next one."""
    n_done, state = 0, None
    for place, k in enumerate(order):
        solution = step.memory.recall_state(f"{step.key(fold, k)}/solution", learner, shape)
        if solution is not None:
            n_done, state = place + 1, solution
    if n_done < len(order):
        begun = step.memory.recall_state(step.key(fold, order[n_done]), learner, shape)
        state = state if begun is None else begun
    return n_done, state


def parts_of(estimator: Any) -> tuple[Pipeline | None, Any]:
    """The transformers of a Pipeline (or None) and its last step, the learner."""
    if type(estimator) is not Pipeline:
        return None, estimator
    return estimator[:-1] if len(estimator.steps) > 1 else None, estimator.steps[-1][1]


def with_parameters(estimator: Any, params: dict[str, Any]) -> Any:
    """A clone with other parameters; values that are estimators are cloned too."""
    return clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in params.items()})


def _silent(model: Any, should_stop: Callable[[], bool]) -> Any:
    """Silence this library's learners, which run in threads, and let them stop after Ctrl-C."""
    for part in (model, *model.get_params(deep=True).values()):
        if isinstance(part, MultilabelClassifier):
            part.set_params(verbose=0, callback=lambda point: should_stop())
    return model


def weight_params(estimator: Any, weight: np.ndarray | None) -> dict[str, np.ndarray]:
    """Weights as keyword arguments of ``fit``: a Pipeline passes on those prefixed by the name of a step."""
    if weight is None:
        return {}
    prefix = ""
    if not get_config()["enable_metadata_routing"]:
        while isinstance(estimator, Pipeline):
            name, estimator = estimator.steps[-1]
            prefix += f"{name}__"
        signature = inspect.signature(estimator.fit).parameters.values()
        if not any(p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in signature):
            raise ValueError(f"sample_weight: {type(estimator).__name__}.fit takes none; pass None")
    return {f"{prefix}sample_weight": weight}
