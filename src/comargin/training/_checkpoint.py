"""Long trainings that survive: what was found so far in a folder, and fits that go on from their state."""

from __future__ import annotations

import json
import math
import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from ..data._source import AtomicFiles
from ..estimators import MultilabelClassifier
from ..persistence import load, save
from ..solvers import Checkpoint, Result, Status
from ..solvers._loop import tolerance

_FORMAT = 1
_FACTS, _RULE, _LEARNER = "checkpoint.json", "rule.cmg", "learner.cmg"
_PART = re.compile(r"\.[0-9a-f]{16}\.part")  # left by a process that was killed while it wrote
_TUPLE = "__tuple__"
# States are as large as the training data, and the file is our own.
_MAX_SIZE = 1 << 40
# A slice takes at least so many times what it costs to begin and to save it.
_WORTHWHILE = 4.0
# Solvers lose some of their pace with every slice: slices grow when more than so many seem to be needed, up to this
# share of the time spent so far, which is what a kill may cost.
_MOST_SLICES = 10.0
_LARGEST_SHARE = 0.25


class CheckpointFolder:
    """A folder that keeps what a training has found, so that the same training can go on from there.

    Every file appears whole or not at all: whenever the process is killed, the folder can be opened again.

    Parameters
    ----------
    folder : str or path-like
        Created if it does not exist. Other files in it are left alone.
    identity : str
        Hash of all that the training follows from: data, model, parameters, settings. A folder of another one is
        refused.

    Examples
    --------
    >>> import tempfile
    >>> from comargin.training._checkpoint import CheckpointFolder
    >>> with tempfile.TemporaryDirectory() as name:
    ...     CheckpointFolder(name, "a1b2").add_found("C", 0.5)
    ...     CheckpointFolder(name, "a1b2").found
    {'C': 0.5}
    """

    def __init__(self, folder: str | os.PathLike[str], identity: str) -> None:
        self.path = Path(folder)
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file, not a folder for checkpoints")
        self.path.mkdir(parents=True, exist_ok=True)
        self._identity = identity
        self._found: dict[str, Any] = {}
        facts = self.path / _FACTS
        if not facts.exists():
            strange = [name for name in (_RULE, _LEARNER) if (self.path / name).exists()]
            if strange:
                raise ValueError(f"{self.path} has a {strange[0]} but no {_FACTS}; name another folder")
            self._write()
            return
        try:
            known = json.loads(facts.read_text(encoding="utf-8"))
            same = (known["format"], known["identity"]) == (_FORMAT, identity)
            self._found = {name: _restored(value) for name, value in known["found"].items()}
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise ValueError(f"{facts} is no checkpoint of a training; name another folder") from error
        if not same:
            raise ValueError(
                f"{self.path} is of another training run (other data or settings); name another folder or delete it"
            )
        _remove_parts(self.path)

    @property
    def found(self) -> dict[str, Any]:
        """Best parameters and other results, by name; assigning a dict replaces them all."""
        return dict(self._found)

    @found.setter
    def found(self, found: dict[str, Any]) -> None:
        before, self._found = self._found, {name: _restored(_plain(value, name)) for name, value in found.items()}
        try:
            self._write()
        except BaseException:
            self._found = before
            raise

    def add_found(self, name: str, value: Any) -> None:
        """Keep one more result.

        Parameters
        ----------
        name : str
            Of a parameter, for example.
        value : object
            A string, number, boolean or None, or a tuple, list or dict of these.
        """
        self.found = {**self._found, name: value}

    @property
    def rule(self) -> Any:
        """The fitted threshold rule, or None; assigning one writes it."""
        return self._model(_RULE)

    @rule.setter
    def rule(self, rule: Any) -> None:
        self._set_model(_RULE, rule)

    @property
    def learner(self) -> Any:
        """The learner with the state that its fit goes on from, or None; assigning one writes it."""
        return self._model(_LEARNER)

    @learner.setter
    def learner(self, learner: Any) -> None:
        self._set_model(_LEARNER, learner)

    def _model(self, name: str) -> Any:
        path = self.path / name
        return load(path, max_size=_MAX_SIZE) if path.exists() else None

    def _set_model(self, name: str, model: Any) -> None:
        if model is None:
            (self.path / name).unlink(missing_ok=True)
        else:
            save(model, self.path / name)

    def _write(self) -> None:
        found = {name: _plain(value, name) for name, value in self._found.items()}
        with AtomicFiles() as files:
            stream = files.open(self.path / _FACTS)
            json.dump({"format": _FORMAT, "identity": self._identity, "found": found}, stream)
            stream.flush()
            os.fsync(stream.fileno())


def clear_checkpoint(folder: str | os.PathLike[str]) -> None:
    """Remove what a training has kept in a folder, once its tagger is saved.

    Parameters
    ----------
    folder : str or path-like
        As given to `train`. Other files in it stay, and so does it, unless it is empty.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from comargin.data import make_correlated
    >>> from comargin.training import clear_checkpoint, train
    >>> with tempfile.TemporaryDirectory() as name:
    ...     tagger = train(make_correlated(60, n_labels=3, seed=0), tune=False, checkpoint=Path(name, "state"))
    ...     clear_checkpoint(Path(name, "state"))
    ...     Path(name, "state").exists()
    False
    """
    path = Path(folder)
    for name in (_LEARNER, _RULE, _FACTS):  # the facts last: without them the others belong to nobody
        (path / name).unlink(missing_ok=True)
    _remove_parts(path)
    if not any(path.iterdir()):
        path.rmdir()


def _remove_parts(path: Path) -> None:
    for file in path.iterdir():
        if _PART.fullmatch(file.name):
            file.unlink(missing_ok=True)


def _plain(value: Any, where: str) -> Any:
    """A value as JSON takes it; tuples stay apart from lists."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {_TUPLE: [_plain(item, where) for item in value]}
    if isinstance(value, list):
        return [_plain(item, where) for item in value]
    if isinstance(value, dict) and all(type(key) is str and key != _TUPLE for key in value):
        return {key: _plain(item, where) for key, item in value.items()}
    raise TypeError(
        f"{where}: a value of type {type(value).__name__} cannot be kept in a checkpoint; strings, numbers, booleans, "
        "None, and tuples, lists and dicts of these can"
    )


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {_TUPLE}:
            return tuple(_restored(item) for item in value[_TUPLE])
        return {key: _restored(item) for key, item in value.items()}
    return value


def fit_with_checkpoints(
    learner: Any,
    X: Any,
    Y: Any,
    *,
    folder: CheckpointFolder,
    every: float = 60.0,
    should_stop: Callable[[], bool] | None = None,
) -> Any:
    """Fit a learner, and keep its state in a folder every so many seconds; go on from the state that is there.

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
    folder : CheckpointFolder
        Where the state is kept.
    every : float, default=60.0
        Seconds between two states; more where it takes long to begin, to save or to certify, and up to a quarter of the
        time so far where slices make too little progress.
    should_stop : callable or None, default=None
        Asked at every certificate; a true answer ends the fit with what is there, and leaves its state in the folder.

    Returns
    -------
    estimator
        ``learner``, fitted.

    Examples
    --------
    >>> import tempfile
    >>> from comargin import M3LClassifier
    >>> from comargin.training._checkpoint import CheckpointFolder, fit_with_checkpoints
    >>> with tempfile.TemporaryDirectory() as name:
    ...     model = fit_with_checkpoints(
    ...         M3LClassifier(), [[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]], folder=CheckpointFolder(name, "a1b2")
    ...     )
    >>> model.predict([[0.9, 0.1]])
    array([[1, 0]])
    """
    if isinstance(every, bool) or not isinstance(every, int | float) or not every > 0.0:
        raise ValueError(f"every must be a positive number of seconds, got {every!r}")
    if not isinstance(learner, MultilabelClassifier) or "warm_start" not in learner.get_params(deep=False):
        return learner.fit(X, Y)
    own = {name: getattr(learner, name) for name in ("callback", "warm_start", "max_iter")}
    saved = folder.learner
    if saved is not None:
        if type(saved) is not type(learner):
            raise ValueError(f"{folder.path} holds the state of a {type(saved).__name__}, not {type(learner).__name__}")
        parameters = learner.get_params(deep=False)
        learner.__dict__.update({name: value for name, value in vars(saved).items() if name not in parameters})
    try:
        if learner._shows_states:
            told = _fit_and_keep(learner, X, Y, folder, every, should_stop, own)
        else:
            told = _fit_slices(learner, X, Y, folder, every, should_stop, own, goes_on=saved is not None)
    finally:
        learner.set_params(**own)
        learner.__dict__.pop("_keep", None)
        if not learner.warm_start:
            learner.__dict__.pop("_dual_start", None)
    for warning in told:
        warnings.warn(warning, stacklevel=2)
    return learner


def _fit_and_keep(
    learner: Any,
    X: Any,
    Y: Any,
    folder: CheckpointFolder,
    every: float,
    should_stop: Callable[[], bool] | None,
    own: dict[str, Any],
) -> list[Warning]:
    """One fit, whose states are saved on the way; returns its warnings."""
    unfitted = clone(learner).set_params(callback=None)
    saved_at, cost = time.perf_counter(), 0.0

    def keep(state: Callable[[], Any]) -> None:
        nonlocal saved_at, cost
        began = time.perf_counter()
        if began - saved_at < max(every, _WORTHWHILE * cost):
            return
        unfitted._dual_start = state()
        folder.learner = unfitted
        saved_at = time.perf_counter()
        cost = saved_at - began

    def callback(point: Checkpoint) -> bool:
        stopped = own["callback"] is not None and bool(own["callback"](point))
        return stopped or (should_stop is not None and should_stop())

    learner._keep = keep
    learner.set_params(callback=callback, warm_start=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        learner.fit(X, Y)
    del learner._keep
    learner.set_params(**{**own, "callback": None})
    folder.learner = learner
    return [_as_warning(each) for each in caught]


def _fit_slices(
    learner: Any,
    X: Any,
    Y: Any,
    folder: CheckpointFolder,
    every: float,
    should_stop: Callable[[], bool] | None,
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
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            learner.fit(X, Y)
        if not resumes:
            learner.history_ = [*before[:-1], *(part.moved(point) for point in learner.history_)]
            learner.n_iter_ = learner.history_[-1].n_iter
        learner.set_params(**{**own, "callback": None})
        folder.learner = learner
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
    told: list[Warning] = []
    for each in caught:
        warning = _as_warning(each)
        if isinstance(warning, ConvergenceWarning) and not resumes:
            warning = ConvergenceWarning(_message(learner, own["max_iter"]))
        told.append(warning)
    return told


def _as_warning(caught: warnings.WarningMessage) -> Warning:
    return caught.message if isinstance(caught.message, Warning) else caught.category(caught.message)


class _Slice:
    """The callback of one slice: stops the solver when its time is over and it has done something."""

    def __init__(
        self,
        length: float,
        before: list[Checkpoint],
        callback: Callable[[Checkpoint], object] | None,
        should_stop: Callable[[], bool] | None,
    ) -> None:
        self.length, self.callback, self.should_stop = length, callback, should_stop
        self.last = before[-1] if before else None
        self.began = self.now = time.perf_counter()  # when it began, and its last checkpoint
        self.setup = 0.0
        self.first: Checkpoint | None = None
        self.is_due = False

    def __call__(self, point: Checkpoint) -> bool:
        now = self.now = time.perf_counter()
        if self.first is None:  # what came before is the price of a slice, and does not count
            self.first, self.setup, self.began = point, now - self.began, now
        stopped = self.callback is not None and bool(self.callback(self.moved(point)))
        stopped = stopped or (self.should_stop is not None and self.should_stop())
        self.is_due = not stopped and now - self.began >= self.length and point.n_iter != self.first.n_iter
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
