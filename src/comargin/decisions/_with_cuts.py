"""The fit of a model with a threshold rule, for training and comparisons."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.executor import Executor, Threads
from ..core.memory import Memory, silent_clone
from ..core.threshold_rule import ThresholdRule
from ..metrics import evaluate
from ._classifier import ThresholdClassifierCV, make_rule, read_target
from ._cross_fit import cross_fit, fit_clone


def fit_with_cuts(
    estimator: Any,
    X: Any,
    Y: Any,
    rule: str | None,
    *,
    folds: int,
    seed: int,
    executor: Executor | None = None,
    memory: Memory | None = None,
    should_stop: Callable[[], bool] | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> tuple[Any, dict[str, float | None] | None]:
    """Learn a rule on out-of-fold scores, then fit all rows.

    Parameters
    ----------
    estimator : estimator
        Not fitted; cloned.
    X : array-like, sparse matrix or list of str
        Rows.
    Y : ndarray or csr_array of shape (n_samples, n_labels)
        Indicator.
    rule : str or None
        A name of `RULES`; None fits the estimator alone.
    folds : int
        Number of folds for the scores that the rule learns from.
    seed : int
        Shuffles the rows before they are split.
    executor : Executor or None, default=None
        Where the folds are fitted; None fits one after the other, here.
    memory : Memory or None, default=None
        Results of an interrupted call with the same arguments.
    should_stop : callable or None, default=None
        Called during the last fit of a learner of this library; a true return value ends it at its current iterate.
    show : callable
        Called with a text after every fold.

    Returns
    -------
    fitted : estimator
        A `ThresholdClassifierCV`, or the estimator if ``rule`` is None.
    measures : dict or None
        All measures of the rule on the scores it was learned from; None for a measure that is not defined.

    Examples
    --------
    >>> from comargin import M3LClassifier
    >>> from comargin.data import make_correlated
    >>> from comargin.decisions import fit_with_cuts
    >>> data = make_correlated(80, n_features=5, n_labels=3, seed=0)
    >>> model, measures = fit_with_cuts(M3LClassifier(random_state=0), data.X, data.Y, "per-label", folds=3, seed=0)
    >>> model
    ThresholdClassifierCV(cv=3, estimator=M3LClassifier(random_state=0),
                          random_state=0)
    """
    memory = memory or Memory()
    classifier = ThresholdClassifierCV(estimator, rule=rule, cv=folds, random_state=seed)
    learned, measures = None, None
    if rule is not None:
        learned, measures = _learned_cuts(classifier, X, Y, executor or Threads(1), memory, show)
    if should_stop is not None:
        should_stop()  # from here on, a wish to stop ends the fit and nothing else
    fitted = fit_clone(estimator, X, Y, memory, "fit", should_stop=should_stop)
    return fitted if rule is None else classifier._become(fitted, learned, np.arange(Y.shape[1]), Y), measures


def _learned_cuts(
    classifier: ThresholdClassifierCV,
    X: Any,
    Y: Any,
    executor: Executor,
    memory: Memory,
    show: Callable[[str], None],
) -> tuple[Any, dict[str, float | None]]:
    """The rule and its measures on the scores it was learned from; from the checkpoint if present."""
    kept = memory.recall("rule")
    if kept is not None:
        right = isinstance(kept, tuple) and len(kept) == 2 and isinstance(kept[1], dict)
        if not (right and isinstance(kept[0], ThresholdRule) and getattr(kept[0], "n_labels_", 0) == Y.shape[1]):
            raise ValueError("the checkpoint has cuts of another training; delete its folder")
        return kept
    classifier._check_parameters()
    indicator, y, _ = read_target(Y)
    splits = classifier._splits(X, y, None)
    _, scores, rows = cross_fit(silent_clone(classifier.estimator), X, y, indicator, splits, {}, executor, memory, show)
    rule = make_rule(classifier.rule).fit(scores, indicator[rows])
    found = evaluate(indicator[rows], scores, rule.predict(scores))
    measures = {name: float(value) if np.isfinite(value) else None for name, value in found.items()}
    memory.keep("rule", (rule, measures))
    memory.forget("cuts")
    return rule, measures
