"""A search that keeps what it measures, and the states of its fits, in a folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from sklearn.pipeline import Pipeline

from ..estimators._search_memory import Cell, PathStart, SearchMemory
from ._building import LEARNER, learner_of
from ._checkpoint import CheckpointFolder, KeptFit
from ._kept_fits import Keeper, fit_with_checkpoints, state_for

EVERY = 60.0  # seconds between two states


def fit_kept(
    estimator: Any,
    X: Any,
    Y: Any,
    kept: KeptFit,
    *,
    should_stop: Callable[[], bool] | None = None,
    keep_end: bool = False,
) -> Any:
    """Fit an estimator whose learner keeps its state every minute, and goes on from the one that is there.

    Parameters
    ----------
    estimator : estimator
        A learner, or a Pipeline with one at its end.
    X : ndarray, sparse matrix or list of str
        Features or texts.
    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        Indicator.
    kept : KeptFit
        The state.
    should_stop : callable or None, default=None
        Asked at every certificate; a true answer ends the fit with what is there.
    keep_end : bool, default=False
        Whether the fitted learner is kept too; when it is there, only what stands before it is fitted.

    Returns
    -------
    estimator
        Fitted.
    """
    learner = learner_of(estimator)
    features = X if learner is estimator else estimator[:-1].fit_transform(X, Y)
    learner = fit_with_checkpoints(
        learner, features, Y, kept=kept, every=EVERY, should_stop=should_stop, keep_end=keep_end
    )
    if not isinstance(estimator, Pipeline):
        return learner
    return Pipeline([*estimator.steps[:-1], (estimator.steps[-1][0], learner)])


class FolderMemory(SearchMemory):
    """Keeps every cell of a search in a checkpoint folder as soon as it is measured, and fits under way every minute.

    Parameters
    ----------
    folder : CheckpointFolder
        Where.
    """

    def __init__(self, folder: CheckpointFolder) -> None:
        self._folder = folder
        self._measured = folder.measured
        self._paths: set[tuple[str, int]] = set()

    def recall(self, cell: Cell) -> tuple[float, bool] | None:
        return self._measured.get(_in_folder(cell))

    def note(self, cell: Cell, measured: float, converged: bool) -> None:
        kept = _in_folder(cell)
        self._folder.add_measured(kept, measured, converged)
        if (kept.name, kept.fold) not in self._paths:  # which remove states when a solution takes their place
            self._folder.fit_of_search(*kept).learner = None

    def fit(self, cell: Cell, model: Any, X: Any, y: Any, params: dict[str, Any]) -> Any:
        if params:
            raise ValueError(f"a search that is kept has no weights, got {', '.join(params)}")
        return fit_kept(model, X, y, self._folder.fit_of_search(*_in_folder(cell)))

    @contextlib.contextmanager
    def path(self, cells: list[Cell], values: list[float], learner: Any, shape: tuple[int, ...]) -> Iterator[PathStart]:
        kept = [_in_folder(cell) for cell in cells]
        self._paths.add((kept[0].name, kept[0].fold))
        path = _KeptPath(self._folder, kept, values, learner, shape)
        if any(cell not in self._measured for cell in kept[: path.n_done]):  # they are kept before the solution is
            raise ValueError(f"{self._folder.path} has a solution of a value that was not measured; delete the folder")
        learner._keep = path.keeper
        try:
            yield path
        finally:
            del learner._keep


class _KeptPath(PathStart):
    """Fits along a parameter that keep the solution of a value at its end, and states on the way to it.

    They go on after the last value whose solution is kept, not after the last one that was measured: so every fit
    starts from where it does without an interruption, and measures the same. Only a fit that was under way for long
    goes on from a state of its own, within its tolerance.
    """

    def __init__(
        self, folder: CheckpointFolder, cells: list[Cell], values: list[float], learner: Any, shape: tuple[int, ...]
    ) -> None:
        self._folder, self._cells, self._values = folder, cells, values
        self._learner, self._solution = learner, folder.fit_of_search(cells[0].name, cells[0].fold)
        solved = state_for(learner, self._solution, shape)
        super().__init__()
        if solved is not None:
            self.n_done, self.start = values.index(self._value_of(solved)) + 1, solved._dual_start
        if self.n_done < len(cells):
            begun = state_for(learner, folder.fit_of_search(*cells[self.n_done]), shape)
            self.start = self.start if begun is None else begun._dual_start
        self.keeper = Keeper(learner, self._fit_under_way, EVERY)
        self._solved_at = self.keeper.saved_at

    def _value_of(self, learner: Any) -> float:
        value: float = getattr(learner, learner._path_parameter)
        if value not in self._values:
            raise ValueError(f"{self._solution.path} is of another value; delete the folder, or name another one")
        return value

    def _fit_under_way(self) -> KeptFit:
        return self._folder.fit_of_search(*self._cells[self._values.index(self._value_of(self._learner))])

    def solved(self, cell: Cell, solution: Any) -> None:
        now = time.perf_counter()
        if now - self._solved_at < EVERY and not self.keeper.is_due():
            return
        self.keeper.save(self._solution, solution)
        self._solved_at = self.keeper.saved_at
        self._folder.fit_of_search(*_in_folder(cell)).learner = None


def _short(name: str) -> str:
    """The learner's name of a parameter, without the step it belongs to."""
    return name.removeprefix(f"{LEARNER}__")


def _in_folder(cell: Cell) -> Cell:
    return cell._replace(name=_short(cell.name))
