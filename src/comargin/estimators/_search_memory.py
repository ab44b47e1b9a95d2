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
    def path(self, name: str, fold: int, learner: Any) -> Iterator[Any]:
        """Around the fits of one fold for all values that are not known, each started from the one before.

        Parameters
        ----------
        name : str
            The parameter.
        fold : int
            The fold.
        learner : MultilabelClassifier
            It is fitted with one value after the other.

        Yields
        ------
        object or None
            What the first fit starts from.
        """
        yield None
