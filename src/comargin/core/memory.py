"""What long work keeps, so that it can be interrupted and go on.

Searches, cuts and trainings are tasks with keys such as ``search/C/0/3``. They ask a `Memory` for the result of a key
before they compute it, and give it the result after; fits show it their states on the way. The class here keeps
nothing; `comargin.training` has one that keeps everything in a folder.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

from sklearn.pipeline import Pipeline

from .estimator import MultilabelClassifier
from .result import FitState


class Kept(NamedTuple):
    """A result as it stands in a file."""

    value: Any


class Memory:
    """Keeps nothing: every result is computed, and every fit begins at its beginning.

    Methods are called from the threads of a search.
    """

    def recall(self, key: str) -> Any:
        """The result of a key, or None if it has to be computed.

        Parameters
        ----------
        key : str
            Names joined by ``/``.

        Returns
        -------
        object or None
            As given to `keep`.
        """
        return None

    def keep(self, key: str, value: Any) -> None:
        """Keep a result; states of the fit that led to it are forgotten.

        Parameters
        ----------
        key : str
            Names joined by ``/``.
        value : object
            Numbers, texts, arrays, lists and dicts of them, or a model that can be saved.
        """

    def forget(self, key: str) -> None:
        """Forget a key and all that begin with it and ``/``.

        Parameters
        ----------
        key : str
            Names joined by ``/``.
        """

    def recall_state(self, key: str, learner: Any, shape: tuple[int, ...]) -> FitState | None:
        """The state of a fit that was interrupted, checked to belong to this one.

        Parameters
        ----------
        key : str
            Of the fit.
        learner : MultilabelClassifier
            What is fitted.
        shape : (int, int)
            Rows and labels it is fitted on.

        Returns
        -------
        FitState or None
            None if there is none.
        """
        return None

    def keep_state(self, key: str, state: Callable[[], FitState], *, clock: str | None = None) -> bool:
        """Keep the state of a running fit, if it is time to.

        Parameters
        ----------
        key : str
            Of the fit.
        state : callable
            Returns the state.
        clock : str or None, default=None
            Keys with the same clock are kept in turns; None: the key has its own.

        Returns
        -------
        bool
            Whether the state was kept.
        """
        return False


def can_go_on(learner: Any) -> bool:
    """Whether the fits of a learner have states.

    Parameters
    ----------
    learner : estimator
        Any.

    Returns
    -------
    bool
        True for learners of this library with warm starts.
    """
    return isinstance(learner, MultilabelClassifier) and "warm_start" in learner.get_params(deep=False)


def fit_and_keep(
    estimator: Any, X: Any, y: Any, memory: Memory, key: str, *, should_stop: Callable[[], bool] | None = None
) -> Any:
    """Fit an estimator, going on from the state that is kept, and keeping states on the way.

    Parameters
    ----------
    estimator : estimator
        A learner, or a Pipeline with one at its end; it becomes fitted. Learners of other libraries have no states.
    X : array-like, sparse matrix or list of str
        Rows.
    y : ndarray or sparse matrix
        Indicator.
    memory : Memory
        Where states are.
    key : str
        Of the fit.
    should_stop : callable or None, default=None
        Asked at every certificate; a true answer ends the fit with what is there.

    Returns
    -------
    estimator
        The same, fitted.
    """
    learner = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not can_go_on(learner):
        return estimator.fit(X, y)
    if learner is not estimator and len(estimator.steps) > 1:
        X = estimator[:-1].fit_transform(X, y)
    state = memory.recall_state(key, learner, y.shape)
    doubts = learner.fit_from_state(
        X, y, state, keep=lambda shown: memory.keep_state(key, shown), should_stop=should_stop
    )
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=2)
    return estimator
