"""What a search by cross-validation remembers, so that it can be interrupted and go on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple


class Cell(NamedTuple):
    """One value of one parameter in one fold."""

    name: str
    fold: int
    position: int  # of the value


class PathStart:
    """Where fits along a parameter begin: after so many values, from such a state.

    Attributes
    ----------
    n_done : int
        How many values need no fit, as `SearchMemory.recall` knows them.
    start : object or None
        What the next fit starts from.
    """

    def __init__(self, n_done: int = 0, start: Any = None) -> None:
        self.n_done, self.start = n_done, start

    def solved(self, cell: Cell, solution: Any) -> None:
        """Take the state that the next value starts from, when a cell is measured.

        Parameters
        ----------
        cell : Cell
            Which one.
        solution : object
            ``dual_coef`` of its result.
        """


class SearchMemory:
    """Remembers nothing: every cell is fitted, in one go.

    Who keeps what a search has found derives from it. Methods are called from the threads of the search.
    """

    def recall(self, cell: Cell) -> tuple[float, bool] | None:
        """What was measured before: the criterion, and whether the fit converged.

        Parameters
        ----------
        cell : Cell
            Which one.

        Returns
        -------
        (float, bool) or None
            None: it is to be fitted.
        """
        return None

    def note(self, cell: Cell, measured: float, converged: bool) -> None:
        """Take what was measured.

        Parameters
        ----------
        cell : Cell
            Which one.
        measured : float
            The criterion.
        converged : bool
            Whether the fit met its tolerance.
        """

    def fit(self, cell: Cell, model: Any, X: Any, y: Any, params: dict[str, Any]) -> Any:
        """Fit the model of a cell.

        Parameters
        ----------
        cell : Cell
            Which one.
        model : estimator
            Not fitted.
        X, y : array-like
            Training rows of the fold.
        params : dict
            Of ``fit``.

        Returns
        -------
        estimator
            Fitted.
        """
        return model.fit(X, y, **params)

    @contextlib.contextmanager
    def path(self, cells: list[Cell], values: list[float], learner: Any, shape: tuple[int, ...]) -> Iterator[PathStart]:
        """Around the fits of one fold for all values of a parameter, each started from the one before.

        Parameters
        ----------
        cells : list of Cell
            In the order of the fits.
        values : list of float
            Their values.
        learner : MultilabelClassifier
            It is fitted with one value after the other.
        shape : (int, int)
            Rows and labels it is fitted on.

        Yields
        ------
        PathStart
            Where to begin.
        """
        yield PathStart()
