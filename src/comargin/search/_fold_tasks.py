"""The scores of a search, one for each fold and value, and the tasks that measure them.

A task has plain data only, so it runs in any thread or process, and yields its scores. It measures one value on one
fold, or all values on one fold along a path. `measured` runs the tasks and collects the scores.
"""

import contextlib
import inspect
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

from ..core.executor import Task, Threads, run, should_stop
from ..core.memory import Memory, fit_and_keep, silent_clone
from ..core.path import fit_path, path_data
from ..core.progress import Progress
from ..core.result import FitState
from ..core.row_blocks import take_rows
from ..core.validation import Targets
from ._tune_result import text_of
from .tune_input import Criterion, Folds

_TIE = 1e-12  # relative difference of two means that is rounding


class FoldScore(NamedTuple):
    """One value on one fold."""

    fold: int
    k: int  # position of the value
    value: float  # of the criterion on the held-out rows
    converged: bool


class FoldRows(NamedTuple):
    """Rows to train on, or to test."""

    X: Any
    y: Any
    weight: np.ndarray | None


@dataclass(frozen=True)
class SearchRows:
    """The rows of a search, and its folds."""

    X: Any
    y: Any
    weight: np.ndarray | None
    folds: Folds
    encoded: tuple[np.ndarray, Targets] | None = None  # y with the classes of all rows, some of which a fold may miss

    def fold(self, fold: int, model: Any) -> tuple[FoldRows, FoldRows]:
        """The part to train on, and the one to test."""
        train, test = self.folds[fold]
        columns = train if get_tags(model).input_tags.pairwise else None
        of_train, of_test = (
            FoldRows(take_rows(self.X, rows, columns), self.y[rows], None if self.weight is None else self.weight[rows])
            for rows in (train, test)
        )
        return of_train, of_test


def measured(
    tasks: Sequence[Task],
    n_jobs: int | None,
    n_folds: int,
    name: str,
    values: Sequence[Any] | np.ndarray,
    criterion: str,
    show: Progress,
    known: Iterable[FoldScore] = (),
    keep: Callable[[FoldScore], object] = lambda score: None,
) -> tuple[np.ndarray, np.ndarray]:
    """The criterion of all folds and values, and which fits converged: of ``known`` scores, and of those of the tasks.

    ``keep`` is called with every score of a task as soon as it is measured.
    """
    table, converged = np.full((n_folds, len(values)), np.nan), np.ones((n_folds, len(values)), dtype=bool)

    def record(score: FoldScore, note: str = "") -> None:
        table[score.fold, score.k], converged[score.fold, score.k] = score.value, score.converged
        show(f"fold {score.fold + 1}  {name} {text_of(values[score.k])}  {criterion} {score.value:.4g}{note}")

    def done(score: FoldScore) -> None:
        keep(score)
        record(score)

    for score in known:
        record(score, " (known)")
    run(tasks, Threads(n_jobs), done)
    return table, converged


def best_of(scores: np.ndarray, what: str) -> tuple[int, np.ndarray]:
    """Index of the first best value, and the means over the folds, of scores (n_folds, n_values); greater is better.

    Folds with a score that is not finite are left out. ``what`` names the scores in the error message.
    """
    defined = np.isfinite(scores).all(axis=1)
    if not defined.any():
        raise ValueError(f"{what} is not finite in any fold: choose another measure or cv")
    mean = scores[defined].mean(axis=0)
    return int(np.argmax(mean >= mean.max() - _TIE * abs(mean.max()))), mean


def measure_value(
    model: Any, rows: SearchRows, fold: int, k: int, criterion: Criterion, memory: Memory, key: str
) -> Iterator[FoldScore]:
    """One value on one fold; ``key`` is that of the state of its fit."""
    model = silent_clone(model)
    train, test = rows.fold(fold, model)
    with convergence_messages() as messages:
        fit_and_keep(model, train.X, train.y, memory, key, params=weight_params(model, train.weight))
    if not should_stop():
        yield FoldScore(fold, k, criterion.of(model, *test), not messages)


def measure_path(
    model: Any, rows: SearchRows, fold: int, values: Sequence[float], criterion: Criterion, memory: Memory, key: str
) -> Iterator[FoldScore]:
    """All values on one fold, each fit started from the solution of the one before; ``key`` is that of its state.

    The state of a path has what it has measured, and the solution of the last value or the state of the fit under way.
    An interrupted path resumes from it, so that every fit has the same start as without an interruption.
    """
    seen = silent_clone(model)
    train, test = rows.fold(fold, seen)
    head, learner = parts_of(seen)
    if head is not None:
        train = train._replace(X=head.fit_transform(train.X, train.y))
        seen = Pipeline([*head.steps, seen.steps[-1]])
    if not criterion.sees_all:
        seen, test = learner, test if head is None else test._replace(X=head.transform(test.X))
    data = path_data(learner, *train)
    if rows.encoded is not None:
        Y, targets = rows.encoded
        data = replace(data, Y=Y[rows.folds[fold][0]], targets=targets)
    order = sorted(range(len(values)), key=values.__getitem__, reverse=not learner._path_ascends)
    state = memory.recall_state(key, learner, data.Y.shape)
    done = [] if state is None else list(state.measured)
    for k, score in zip(order, done, strict=False):
        yield FoldScore(fold, k, *score)
    left = order[len(done) :]

    def keep(shown: Callable[[], FitState]) -> None:
        memory.keep_state(key, lambda: shown()._replace(measured=tuple(done)))

    for k, result in zip(left, fit_path(learner, data, [values[k] for k in left], state, keep), strict=True):
        if should_stop():
            return
        done.append((criterion.of(seen, *test), not result.status.falls_short))
        keep(lambda solution=result.dual_coef: FitState(solution))  # type: ignore[misc]
        yield FoldScore(fold, k, *done[-1])


def parts_of(estimator: Any) -> tuple[Pipeline | None, Any]:
    """The transformers of a Pipeline (or None) and its last step, the learner."""
    if type(estimator) is not Pipeline:
        return None, estimator
    return estimator[:-1] if len(estimator.steps) > 1 else None, estimator.steps[-1][1]


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


_collected: ContextVar[list[str] | None] = ContextVar("_collected", default=None)
_lock, _shared = threading.Lock(), contextlib.ExitStack()
_n_collecting = 0


@contextlib.contextmanager
def convergence_messages() -> Iterator[list[str]]:
    """Collect the ConvergenceWarnings of this thread.

    The state of `warnings` belongs to the process: the first thread that collects changes it, the last one restores it.
    """
    global _n_collecting
    messages: list[str] = []
    with _lock:
        _n_collecting += 1
        if _n_collecting == 1:
            _shared.enter_context(warnings.catch_warnings())
            warnings.simplefilter("always", ConvergenceWarning)
            warnings.showwarning = partial(_collect, warnings.showwarning)
    before = _collected.set(messages)
    try:
        yield messages
    finally:
        _collected.reset(before)
        with _lock:
            _n_collecting -= 1
            if _n_collecting == 0:
                _shared.close()


def _collect(
    show: Callable[..., object], message: Warning | str, category: type[Warning], *where: Any, **more: Any
) -> None:
    messages = _collected.get()
    if issubclass(category, ConvergenceWarning) and messages is not None:
        messages.append(str(message))
    else:
        show(message, category, *where, **more)
