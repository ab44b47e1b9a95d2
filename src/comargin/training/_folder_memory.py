"""A search that keeps what it measures, and the states of its fits, in a folder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from sklearn.pipeline import Pipeline

from ..estimators._search_memory import Cell, SearchMemory
from ._building import LEARNER, learner_of
from ._checkpoint import CheckpointFolder, KeptFit
from ._kept_fits import fit_with_checkpoints, kept_path

EVERY = 60.0  # seconds between two states


def fit_kept(
    estimator: Any, X: Any, Y: Any, kept: KeptFit, *, should_stop: Callable[[], bool] | None = None, keep_end: bool
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
    keep_end : bool
        Whether the fitted learner is kept too.

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

    def recall(self, cell: Cell) -> tuple[float, bool] | None:
        return self._measured.get(_in_folder(cell))

    def note(self, cell: Cell, measured: float, converged: bool) -> None:
        self._folder.add_measured(_in_folder(cell), measured, converged)
        self._folder.fit_of_search(*_in_folder(cell)).learner = None

    def fit(self, cell: Cell, model: Any, X: Any, y: Any, params: dict[str, Any]) -> Any:
        if params:
            raise ValueError(f"a search that is kept has no weights, got {', '.join(params)}")
        return fit_kept(model, X, y, self._folder.fit_of_search(*_in_folder(cell)), keep_end=False)

    @contextlib.contextmanager
    def path(self, name: str, fold: int, learner: Any) -> Iterator[Any]:
        with kept_path(learner, self._folder.fit_of_search(_short(name), fold), EVERY) as start:
            yield start


def _short(name: str) -> str:
    """The learner's name of a parameter, without the step it belongs to."""
    return name.removeprefix(f"{LEARNER}__")


def _in_folder(cell: Cell) -> Cell:
    return cell._replace(name=_short(cell.name))
