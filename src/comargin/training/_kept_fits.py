"""Fits that keep their states in files, and go on from them."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..estimators import MultilabelClassifier
from ..solvers import Checkpoint, Result, Status
from ..solvers._loop import tolerance
from ._checkpoint import KeptFit

# A slice takes at least so many times what it costs to begin and to save it.
_WORTHWHILE = 4.0
# Solvers lose some of their pace with every slice: slices grow when more than so many seem to be needed, up to this
# share of the time spent so far, which is what a kill may cost.
_MOST_SLICES = 10.0
_LARGEST_SHARE = 0.25


def fit_with_checkpoints(
    learner: Any,
    X: Any,
    Y: Any,
    *,
    kept: KeptFit,
    every: float = 60.0,
    should_stop: Callable[[], bool] | None = None,
    keep_end: bool = True,
) -> Any:
    """Fit a learner, and keep its state in a file every so many seconds; go on from the state that is there.

    Most learners show their states while they run, and end exactly where they would without. Structured learners and
    PrML are stopped at a certificate and go on with a warm start, as if it had been one fit: ``max_iter`` counts all
    slices, ``history_`` and ``n_iter_`` go on, and a learner that does not converge warns once.

    Parameters
    ----------
    learner : estimator
        A learner of comargin; others are fitted without states.
    X : array-like or sparse matrix of shape (n_samples, n_features)
        Features.
    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        Indicator.
    kept : KeptFit
        Where the state is kept.
    every : float, default=60.0
        Seconds between two states; more where it takes long to begin, to save or to certify, and up to a quarter of the
        time so far where slices make too little progress.
    should_stop : callable or None, default=None
        Asked at every certificate; a true answer ends the fit with what is there.
    keep_end : bool, default=True
        Whether the fitted learner is kept too; when it is there, nothing is left to do.

    Returns
    -------
    estimator
        ``learner``, fitted.

    Examples
    --------
    >>> import tempfile
    >>> from comargin import M3LClassifier
    >>> from comargin.training._checkpoint import CheckpointFolder
    >>> from comargin.training._kept_fits import fit_with_checkpoints
    >>> with tempfile.TemporaryDirectory() as name:
    ...     kept = CheckpointFolder(name, "a1b2").last_fit
    ...     model = fit_with_checkpoints(M3LClassifier(), [[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]], kept=kept)
    >>> model.predict([[0.9, 0.1]])
    array([[1, 0]])
    """
    if isinstance(every, bool) or not isinstance(every, int | float) or not every > 0.0:
        raise ValueError(f"every must be a positive number of seconds, got {every!r}")
    if not isinstance(learner, MultilabelClassifier) or "warm_start" not in learner.get_params(deep=False):
        return learner.fit(X, Y)
    own = {name: getattr(learner, name) for name in ("callback", "warm_start", "max_iter")}
    saved = state_for(learner, kept, np.shape(Y) if not hasattr(Y, "shape") else Y.shape)
    if saved is not None:
        parameters = learner.get_params(deep=False)
        learner.__dict__.update({name: value for name, value in vars(saved).items() if name not in parameters})
    was_stopped = False

    def asked() -> bool:
        nonlocal was_stopped
        was_stopped = was_stopped or (should_stop is not None and should_stop())
        return was_stopped

    has_ended = saved is not None and kept.has_ended
    try:
        if has_ended:
            told = _doubts(learner)
        elif learner._shows_states:
            told = _fit_and_keep(learner, X, Y, kept, every, asked, own)
        else:
            told = _fit_slices(learner, X, Y, kept, every, asked, own, goes_on=saved is not None)
        if keep_end and not has_ended:
            learner.set_params(**{**own, "callback": None})
            if was_stopped:
                kept.learner = learner
            else:
                kept.keep_ended(learner)
    finally:
        learner.set_params(**own)
        learner.__dict__.pop("_keep", None)
        if not learner.warm_start:
            learner.__dict__.pop("_dual_start", None)
    for warning in told:
        warnings.warn(warning, stacklevel=2)
    return learner


def state_for(learner: Any, kept: KeptFit, shape: tuple[int, ...]) -> Any:
    """The learner that is kept, if there is one, and checked to be of the same fit.

    Parameters
    ----------
    learner : MultilabelClassifier
        What is to be fitted.
    kept : KeptFit
        The file.
    shape : (int, int)
        Rows and labels it is fitted on.

    Returns
    -------
    MultilabelClassifier or None
        With the state that the fit goes on from.
    """
    saved = kept.learner
    if saved is None:
        return None
    start = getattr(saved, "_dual_start", None)
    if type(saved) is not type(learner) or start is None or tuple(start.shape) != tuple(shape):
        raise ValueError(f"{kept.path} holds no state of this fit; delete the folder, or name another one")
    return saved


class Keeper:
    """Saves states that a running fit shows, as seldom as asked for, and seldom enough to be worth it.

    Parameters
    ----------
    learner : MultilabelClassifier
        What is fitted.
    kept : callable
        Returns the KeptFit that a state goes to, as ``Keeper`` is called.
    every : float
        Seconds between two states.
    """

    def __init__(self, learner: Any, kept: Callable[[], KeptFit], every: float) -> None:
        self.learner, self.kept, self.every = learner, kept, every
        self.saved_at, self.cost = time.perf_counter(), 0.0

    def is_due(self) -> bool:
        """Whether it is time to save.

        Returns
        -------
        bool
            True when the last save was long ago.
        """
        return time.perf_counter() - self.saved_at >= max(self.every, _WORTHWHILE * self.cost)

    def save(self, kept: KeptFit, state: Any) -> None:
        """Save a state of the learner with the parameters it has now.

        Parameters
        ----------
        kept : KeptFit
            Where to.
        state : object
            What a warm start goes on from.
        """
        began = time.perf_counter()
        unfitted = clone(self.learner).set_params(callback=None)
        unfitted._dual_start = state
        kept.learner = unfitted
        self.saved_at = time.perf_counter()
        self.cost = self.saved_at - began

    def __call__(self, state: Callable[[], Any]) -> None:
        if self.is_due():
            self.save(self.kept(), state())


def _doubts(learner: Any) -> list[Warning]:
    """The warning of a fit that has ended, if it did not converge."""
    if learner.duality_gap_ <= tolerance(learner.tol, learner.objective_) or getattr(learner, "_resumes", False):
        return []
    return [ConvergenceWarning(_message(learner, learner.max_iter))]


def _fit_and_listen(learner: Any, X: Any, Y: Any) -> list[Warning]:
    """Fit, and return the warnings instead of giving them."""
    told: list[Warning] = []
    learner._told = told
    try:
        learner.fit(X, Y)
    finally:
        learner.__dict__.pop("_told", None)
    return told


def _fit_and_keep(
    learner: Any,
    X: Any,
    Y: Any,
    kept: KeptFit,
    every: float,
    should_stop: Callable[[], bool],
    own: dict[str, Any],
) -> list[Warning]:
    """One fit, whose states are saved on the way; returns its warnings."""

    def callback(point: Checkpoint) -> bool:
        stopped = own["callback"] is not None and bool(own["callback"](point))
        return stopped or should_stop()

    learner._keep = Keeper(learner, lambda: kept, every)
    learner.set_params(callback=callback, warm_start=True)
    told = _fit_and_listen(learner, X, Y)
    del learner._keep
    return told


def _fit_slices(
    learner: Any,
    X: Any,
    Y: Any,
    kept: KeptFit,
    every: float,
    should_stop: Callable[[], bool],
    own: dict[str, Any],
    *,
    goes_on: bool,
) -> list[Warning]:
    """Slices until the fit ends; returns the warnings of the last one."""
    resumes = getattr(learner, "_resumes", False)
    length, cost, last = every, 0.0, None
    while True:
        before: list[Checkpoint] = list(learner.history_) if goes_on else []
        n_left = own["max_iter"]
        if before and not resumes:
            n_left -= before[-1].n_iter - before[0].n_iter
            if n_left < 1:
                return [ConvergenceWarning(_message(learner, own["max_iter"]))]
        part = _Slice(max(length, _WORTHWHILE * cost), [] if resumes else before, own["callback"], should_stop)
        learner.set_params(callback=part, warm_start=True, max_iter=n_left)
        told = _fit_and_listen(learner, X, Y)
        if not resumes:
            learner.history_ = [*before[:-1], *(part.moved(point) for point in learner.history_)]
            learner.n_iter_ = learner.history_[-1].n_iter
        learner.set_params(**{**own, "callback": None})
        if part.is_due:
            kept.learner = learner
        cost = part.setup + time.perf_counter() - part.now
        goes_on = True
        if not part.is_due:
            break
        gap, cliques = learner.duality_gap_, getattr(learner, "cliques_", None)
        exact = resumes and cliques is None  # PrML: nothing is lost
        if last is not None and cliques == last[1] and not exact:
            gained = math.log(last[0] / gap) if 0.0 < gap < last[0] else 0.0
            to_gain = math.log(max(gap, 1e-300) / max(tolerance(learner.tol, learner.objective_), 1e-300))
            if to_gain > _MOST_SLICES * gained:
                length = max(length, min(2.0 * length, _LARGEST_SHARE * learner.history_[-1].seconds))
        last = gap, cliques
    if resumes:
        return told
    whole = ConvergenceWarning(_message(learner, own["max_iter"]))  # the limit of the whole fit, not of its last slice
    return [whole if isinstance(each, ConvergenceWarning) else each for each in told]


class _Slice:
    """The callback of one slice: stops the solver when its time is over and it has just ended an iteration."""

    def __init__(
        self,
        length: float,
        before: list[Checkpoint],
        callback: Callable[[Checkpoint], object] | None,
        should_stop: Callable[[], bool],
    ) -> None:
        self.length, self.callback, self.should_stop = length, callback, should_stop
        self.last = before[-1] if before else None
        self.began = self.now = time.perf_counter()  # when it began, and its last checkpoint
        self.setup = 0.0
        self.first: Checkpoint | None = None
        self.n_seen = 0  # iterations at the last checkpoint; PrML shows some within the next
        self.is_due = False

    def __call__(self, point: Checkpoint) -> bool:
        now = self.now = time.perf_counter()
        if self.first is None:  # what came before is the price of a slice, and does not count
            self.first, self.setup, self.began, self.n_seen = point, now - self.began, now, point.n_iter
        stopped = self.callback is not None and bool(self.callback(self.moved(point)))
        stopped = stopped or self.should_stop()
        self.is_due = not stopped and now - self.began >= self.length and point.n_iter > self.n_seen
        self.n_seen = point.n_iter
        return stopped or self.is_due

    def moved(self, point: Checkpoint) -> Checkpoint:
        """A checkpoint of this slice as one of the whole fit."""
        if self.last is None or self.first is None:
            return point
        n_iter = self.last.n_iter + point.n_iter - self.first.n_iter
        return point._replace(n_iter=n_iter, seconds=self.last.seconds + point.seconds)


def _message(learner: Any, max_iter: int) -> str:
    """The convergence warning of the whole fit."""
    history: list[Checkpoint] = learner.history_
    n_iter = history[-1].n_iter - history[0].n_iter
    status = Status.MAX_ITER if n_iter >= max_iter else Status.STALLED
    tol_abs = tolerance(learner.tol, learner.objective_)
    result = Result(np.empty((0, 0)), learner._dual_start, tuple(history), tol_abs, status)
    return str(learner._convergence_message(result))
