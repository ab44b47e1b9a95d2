"""Where long work keeps its results and the states of its fits, so that it can be interrupted and go on.

Searches, cuts and trainings have keys such as ``search/C/0/3``: names joined by ``/``. Who runs their tasks asks a
`Memory` which results are known, and hands it the others as they come; only fits, inside of tasks, read and keep their
own states. The class here keeps nothing; `comargin.training` has one that keeps everything in a folder.
"""

import warnings
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from sklearn.base import clone
from sklearn.utils import get_tags

from .estimator import MultilabelClassifier
from .executor import should_stop as task_should_stop
from .result import FitState
from .validation import learner_of


class Kept(NamedTuple):
    """A result in a file: the kind of the file says that it is none of the other things kept there."""

    value: Any


class StopRequest(NamedTuple):
    """How someone outside may end the last fit of a training early."""

    wanted: Callable[[], bool]  # asked at every certificate of the fit; true ends it with the solution it has
    fit_begins: Callable[[bool], object] = lambda asks: None  # called before a fit, with whether it will ask


class Memory:
    """Keeps nothing: every result is computed, and every fit begins at its beginning.

    It goes with the tasks of a search into other threads and processes, so it can be pickled.
    """

    def recall(self, key: str) -> Any:
        """The result of a key as given to `keep`, or None if it has to be computed."""
        return None

    def keep(self, key: str, value: Any) -> None:
        """Keep a result, and forget the states of the fit that led to it.

        A result is made of numbers, texts, arrays, lists and dicts of them, or models that can be saved.
        """

    def forget(self, key: str) -> None:
        """Forget a key and all that begin with it and ``/``."""

    def part(self, key: str) -> "Memory":
        """A memory of the same place, all of whose keys begin with ``key`` and ``/``."""
        return self

    def recall_state(self, key: str, learner: Any, shape: tuple[int, ...]) -> FitState | None:
        """The state of a fit that was interrupted, checked to belong to this learner on ``shape`` rows and labels."""
        return None

    def keep_state(self, key: str, state: Callable[[], FitState], *, now: bool = False) -> None:
        """Keep the state of a running fit, if it is time to or has to be now."""


def can_go_on(learner: Any) -> bool:
    """Whether the fits of a learner have states: true for learners of this library with warm starts.

    A subclass with a ``fit`` of its own has none, as that has to be called.
    """
    is_ours = isinstance(learner, MultilabelClassifier) and type(learner).fit is MultilabelClassifier.fit
    return is_ours and "warm_start" in learner.get_params(deep=False)


def silent_clone(model: Any) -> Any:
    """A clone in which this library's learners are silent, as they run side by side, and stop when their task does."""
    model = clone(model)
    for part in (model, *model.get_params(deep=True).values()):
        if isinstance(part, MultilabelClassifier):
            part.set_params(verbose=0, callback=task_should_stop)
    return model


def fit_and_keep(
    estimator: Any,
    X: Any,
    y: Any,
    memory: Memory,
    key: str,
    *,
    params: Mapping[str, Any] = MappingProxyType({}),
    stop: StopRequest | None = None,
) -> Any:
    """Fit an estimator in place and return it: go on from the kept state, and keep states on the way.

    The estimator is a learner, or a Pipeline with one at its end; learners of other libraries, and fits with other
    ``params`` than X and y, have no states and cannot be ended by ``stop``.
    """
    learner = learner_of(estimator)
    is_plain = type(memory) is Memory and stop is None
    has_states = not params and can_go_on(learner)
    if stop is not None:
        stop.fit_begins(has_states)
    if is_plain or not has_states:
        return estimator.fit(X, y, **params)
    if learner is not estimator and len(estimator.steps) > 1:
        X = estimator[:-1].fit_transform(X, y)
    state = memory.recall_state(key, learner, y.shape)
    last: list[Callable[[], FitState]] = []

    def keep(shown: Callable[[], FitState]) -> None:
        last[:] = [shown]
        memory.keep_state(key, shown)

    def stops() -> bool:
        stopped = stop is not None and stop.wanted()
        if stopped and last:  # the same call goes on from here
            memory.keep_state(key, last[0], now=True)
        return stopped

    doubts = learner.fit_from_state(X, y, state, keep=keep, should_stop=stops)
    for doubt in doubts:
        warnings.warn(doubt, stacklevel=2)
    return estimator


def fit_clone(
    estimator: Any,
    X: Any,
    y: Any,
    memory: Memory,
    key: str,
    *,
    stop: StopRequest | None = None,
    **options: Any,
) -> Any:
    """Fit a clone by `fit_and_keep`; if a 2-D y may be the reason of an error, add the way around it to the message."""
    try:
        return fit_and_keep(clone(estimator), X, y, memory, key, stop=stop, **options)
    except (TypeError, ValueError) as error:
        tags = get_tags(estimator)
        if y.ndim == 1 or tags.target_tags.multi_output or (tags.classifier_tags and tags.classifier_tags.multi_label):
            raise
        raise ValueError(
            f"estimator {type(estimator).__name__} failed on the 2-D y; its scikit-learn tags say that it takes a "
            f"1-D y only. If so, wrap it in sklearn.multiclass.OneVsRestClassifier. Its own error: {error}"
        ) from error
