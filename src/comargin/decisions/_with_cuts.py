"""The fit of a model with what decides on its labels, for training and comparisons."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.memory import Memory, fit_clone, silent_clone
from ..metrics import evaluate
from ._base import CrossFittedClassifier, read_target
from ._classifier import ThresholdClassifierCV
from ._cross_fit import cross_fit
from .decision_classifier import DecisionClassifierCV, LabelDecisions

BY_AIM = "aim"  # in place of the name of a rule


def make_decider(
    estimator: Any,
    thresholds: str | None,
    *,
    folds: int,
    seed: int,
    aim: Any = "micro_f1",
) -> Any:
    """What fits an estimator together with the decisions on its labels.

    Parameters
    ----------
    estimator : estimator
        Not fitted.
    thresholds : str or None
        "aim", a name of `RULES`, or None, which leaves the estimator its own cut.
    folds : int
        Number of folds for the scores that decisions are learned from.
    seed : int
        Shuffles the rows before they are split.
    aim : str or array-like, default="micro_f1"
        That of `DecisionClassifierCV`; for thresholds="aim" only.

    Returns
    -------
    estimator
        A `DecisionClassifierCV`, a `ThresholdClassifierCV` or the estimator itself, for `fit_with_cuts`.

    Examples
    --------
    >>> from comargin import M3LClassifier
    >>> from comargin.decisions import make_decider
    >>> make_decider(M3LClassifier(), "global", folds=5, seed=0).rule
    'global'
    """
    if thresholds is None:
        return estimator
    if thresholds == BY_AIM:
        return DecisionClassifierCV(estimator, aim=aim, cv=folds, random_state=seed)
    return ThresholdClassifierCV(estimator, rule=thresholds, cv=folds, random_state=seed)


def fit_with_cuts(
    classifier: Any,
    X: Any,
    Y: Any,
    *,
    folds: Any = None,
    memory: Memory | None = None,
    should_stop: Callable[[], bool] | None = None,
    show: Callable[[str], None] = lambda text: None,
) -> tuple[Any, dict[str, float | None] | None]:
    """Learn from out-of-fold scores when a label is on, then fit all rows.

    Parameters
    ----------
    classifier : estimator
        What `make_decider` returns; it is fitted. Any other estimator is cloned and fitted alone.
    X : array-like, sparse matrix or list of str
        Rows.
    Y : ndarray or csr_array of shape (n_samples, n_labels)
        Indicator.
    folds : list of (train, test) or None, default=None
        Rows of the folds; None splits them as the ``cv`` of the classifier says.
    memory : Memory or None, default=None
        Results of an interrupted call with the same arguments.
    should_stop : callable or None, default=None
        Called during the last fit of a learner of this library; a true return value ends it at its current iterate.
    show : callable
        Called with a text after every fold.

    Returns
    -------
    fitted : estimator
        The fitted classifier.
    measures : dict or None
        All measures on the scores that decisions were learned from; None for a measure that is not defined, and for an
        estimator that is fitted alone.

    Examples
    --------
    >>> from comargin import M3LClassifier
    >>> from comargin.data import make_correlated
    >>> from comargin.decisions import fit_with_cuts, make_decider
    >>> data = make_correlated(80, n_features=5, n_labels=3, seed=0)
    >>> decider = make_decider(M3LClassifier(random_state=0), "per-label", folds=3, seed=0)
    >>> model, measures = fit_with_cuts(decider, data.X, data.Y)
    >>> model
    ThresholdClassifierCV(cv=3, estimator=M3LClassifier(random_state=0),
                          random_state=0)
    """
    memory = memory or Memory()
    decides = isinstance(classifier, CrossFittedClassifier)
    rule = measures = None
    if decides:
        rule, measures = _learned_rule(classifier, X, Y, folds, memory, show)
    estimator = classifier.estimator if decides else classifier
    fitted = fit_clone(estimator, X, Y, memory, "fit", should_stop=should_stop)
    return classifier._become(fitted, rule, np.arange(Y.shape[1]), Y) if decides else fitted, measures


def _learned_rule(
    classifier: CrossFittedClassifier, X: Any, Y: Any, folds: Any, memory: Memory,
    show: Callable[[str], None],
) -> tuple[Any, dict[str, float | None]]:  # fmt: skip
    """The rule and its measures on the scores it was learned from; from the checkpoint if present."""
    classifier._check_parameters()
    rule = classifier._new_rule()
    kept = memory.recall("rule")
    if kept is not None:
        right = isinstance(kept, tuple) and len(kept) == 2 and isinstance(kept[1], dict)
        if not (right and isinstance(kept[0], type(rule)) and getattr(kept[0], "n_labels_", 0) == Y.shape[1]):
            raise ValueError("the checkpoint has cuts of another training; delete its folder")
        return kept
    indicator, y, _ = read_target(Y, type(classifier).__name__)
    folds = classifier._splits(X, y, None) if folds is None else folds
    alone = silent_clone(classifier.estimator)
    _, scores, rows = cross_fit(alone, X, y, indicator, folds, {}, classifier.n_jobs, memory, show)
    rule.fit(scores, indicator[rows])
    probabilities = None
    if isinstance(rule, LabelDecisions):
        on, probabilities = rule.decide(scores)
        scores = probabilities
    else:
        on = rule.predict(scores)
    found = evaluate(indicator[rows], scores, on, probabilities=probabilities)
    measures = {name: float(value) if np.isfinite(value) else None for name, value in found.items()}
    memory.keep("rule", (rule, measures))
    memory.forget("cuts")
    return rule, measures
