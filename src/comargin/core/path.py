"""One learner fitted for several values of a parameter, each fit started from the solution of the one before."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from .estimator import MultilabelClassifier
from .result import FitState, Result
from .validation import TrainingData


def has_path(model: Any) -> bool:
    """Whether `fit_path` fits the model as its ``fit`` would for every value.

    True for learners with ``_prepare``, unless a subclass wraps it in another ``fit`` or ``_solve``.
    """
    kind = type(model)
    if not (isinstance(model, MultilabelClassifier) and hasattr(kind, "_prepare")):
        return False
    solves, prepares = (next(c for c in kind.__mro__ if name in vars(c)) for name in ("_solve", "_prepare"))
    return issubclass(prepares, solves) and kind.fit is MultilabelClassifier.fit


def path_data(model: Any, X: Any, y: Any, sample_weight: Any) -> TrainingData:
    """Check the parameters of a learner and its rows, as ``fit`` does, for `fit_path`."""
    model._validate_params()
    return model._training_data(X, y, sample_weight)


def fit_path(
    model: Any,
    data: TrainingData,
    values: Iterable[float],
    state: FitState | None = None,
    keep: Callable[[Callable[[], FitState]], object] | None = None,
) -> Iterator[Result]:
    """Fit one learner for several values of a parameter, each fit started from the solution of the one before.

    Parts that do not depend on the value, such as rows of the kernel matrix, are computed once. Yields the result of
    each value while ``model`` is fitted with it. The values are in the order of ``_path_ascends``, in which a start is
    close to the next solution, and feasible. ``state`` is the solution of an earlier value, or a state of the first
    one. ``keep`` is called at every certificate with a function that returns the state.
    """
    model._targets, model.classes_ = data.targets, data.targets.classes
    solve = model._prepare(data)
    start, before = (None, ()) if state is None else (state.solution, state.history)
    for value in values:
        model.set_params(**{model._path_parameter: value})
        control = replace(model._control(), before=before, keep=keep)
        result, attributes = solve(value, start, control)
        model._adopt(result, attributes)
        start, before = result.dual_coef, ()
        yield result
