"""What trainings and comparisons need of the classifiers that decide on labels: one by its name, and its fit."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from ..core.memory import Memory, StopRequest, fit_clone
from ..core.threshold_rule import FloatArray
from ..metrics import evaluate
from ._base import CrossFittedClassifier
from ._classifier import ThresholdClassifierCV
from .decision_classifier import DecisionClassifierCV, LabelDecisions

BY_AIM = "aim"  # in place of the name of a rule


def make_decider(estimator: Any, thresholds: str | None, *, folds: Any, seed: int, aim: Any = "micro_f1") -> Any:
    """A `DecisionClassifierCV` for thresholds="aim", a `ThresholdClassifierCV` for a rule; None: the estimator itself.

    An estimator that decides by itself is cloned with these folds, seed and aim. ``folds`` is a number of folds, which
    ``seed`` shuffles, or their rows. ``aim`` is for thresholds="aim" only.
    """
    if thresholds is None:
        return estimator
    if thresholds == BY_AIM and isinstance(estimator, DecisionClassifierCV):
        return clone(estimator).set_params(aim=aim, cv=folds, random_state=seed)
    if thresholds == BY_AIM:
        return DecisionClassifierCV(estimator, aim=aim, cv=folds, random_state=seed)
    return ThresholdClassifierCV(estimator, rule=thresholds, cv=folds, random_state=seed)


def fit_decider(
    decider: Any,
    X: Any,
    Y: Any,
    *,
    memory: Memory | None = None,
    stop: StopRequest | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> tuple[Any, dict[str, float | None] | None]:
    """Fit what `make_decider` returns, or go on with a fit that was interrupted.

    ``memory`` has the results of an interrupted call with the same arguments; ``stop`` may end the last fit of a
    learner of this library at its current iterate; ``show`` is called with a text
    after every fold.

    Returns the fitted classifier and all measures on the scores that decisions were learned from: None for a measure
    that is not defined, and in place of all for an estimator that is fitted alone.
    """
    memory = memory or Memory()
    if not isinstance(decider, CrossFittedClassifier):
        return fit_clone(decider, X, Y, memory, "fit", stop=stop), None
    return decider, decider._fit(X, Y, memory=memory, stop=stop, show=show, measure=_measures)


def _measures(rule: Any, scores: FloatArray, Y: sparse.csr_array) -> dict[str, float | None]:
    if isinstance(rule, LabelDecisions):
        on, P = rule.decide(scores)
        found = evaluate(Y, P, on, probabilities=P)
    else:
        found = evaluate(Y, scores, rule.predict(scores))
    return {name: float(value) if np.isfinite(value) else None for name, value in found.items()}
