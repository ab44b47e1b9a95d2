"""A meta-estimator that learns by cross-validation when a label is on."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from ..rank.label_sets import RankSVMCut
from ._base import CrossFittedClassifier
from ._rules import GlobalCut, PerLabelCut, ProportionalCut, TopK

RULES: dict[str, Callable[[], Any]] = {
    "per-label": PerLabelCut,
    "global": GlobalCut,
    "proportional": ProportionalCut,
    "top-k": TopK,
    "rank-svm": RankSVMCut,
}


def _estimator_has(method: str) -> Callable[[Any], bool]:
    def check(self: Any) -> bool:
        return hasattr(getattr(self, "estimator_", self.estimator), method)

    return check


class ThresholdClassifierCV(CrossFittedClassifier):
    """A classifier whose labels are switched on by a rule learned on out-of-fold scores.

    The estimator is fitted on parts of the data and scores the rows left out; the rule learns from these
    scores and the true labels; then the estimator is fitted on all rows. `predict` applies the rule to the
    scores of that last fit. The multi-label sibling of `sklearn.model_selection.TunedThresholdClassifierCV`.

    Parameters
    ----------
    {estimator}
    rule : str or rule object, default="per-label"
        "per-label" (`PerLabelCut`), "global" (`GlobalCut`), "proportional" (`ProportionalCut`), "top-k"
        (`TopK`), "rank-svm" (`RankSVMCut`), each with its defaults; or an object with ``fit(scores, Y,
        sample_weight)`` and ``predict(scores)``, such as ``PerLabelCut(fbr=0.1)``. It is cloned;
        ``rule__fbr`` sets its parameters.
    {cv} {refit} {n_jobs} {random_state}

    Attributes
    ----------
    {estimator_}
    rule_ : rule object
        The fitted rule.
    thresholds_ : ndarray of shape (n_labels,)
        The cuts, when the rule has one per label.
    {classes_} {n_features_in_} {target_form_}

    Notes
    -----
    `decision_function` and `predict_proba` are those of the estimator, unchanged: rankings, areas under
    curves and probabilities keep their meaning, only `predict` follows the rule. So ``predict`` is not
    ``decision_function > 0``.

    Scores of different folds are put together although they come from different models. Models of the same
    kind on (k - 1)/k of the same rows have scores on nearly the same scale, and a rare label needs the
    positives of all folds together: a cut per fold would rest on one or two. A scorer whose scale depends on
    the fold (e.g. one that standardises its own outputs) needs ``cv`` as a float, or "prefit".

    A label that a training part never (or always) has on cannot be scored by that part. Its held-out scores
    are replaced by the lowest (highest) of the other folds; scikit-learn's warning about such labels is
    silenced within the folds, not in the last fit. Labels constant in all rows given to `fit` stay constant,
    whatever their score.

    ``y`` may also be 1-D with two classes: then the rule moves the cut of the second class. There is nothing
    to switch in a multiclass ``y``, where exactly one class is on: that is an error.

    Examples
    --------
    >>> from sklearn.datasets import make_multilabel_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.multiclass import OneVsRestClassifier
    >>> from comargin.decisions import ThresholdClassifierCV
    >>> X, Y = make_multilabel_classification(n_samples=200, n_classes=4, random_state=0)
    >>> model = ThresholdClassifierCV(OneVsRestClassifier(LogisticRegression(max_iter=1000)))
    >>> model.fit(X, Y).predict(X[:2])
    array([[1, 0, 1, 0],
           [1, 1, 0, 0]])
    >>> model.thresholds_.shape
    (4,)
    """

    rule: Any = "per-label"

    def _new_rule(self, chosen: Any = None) -> Any:
        return make_rule(self.rule)

    @available_if(_estimator_has("decision_function"))
    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Scores of the rows X, as ``estimator_.decision_function`` returns them: unchanged by the rule."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.decision_function(X)

    @available_if(_estimator_has("predict_proba"))
    def predict_proba(self, X: Any) -> Any:
        """Probabilities of the rows X, as ``estimator_.predict_proba`` returns them: unchanged by the rule."""
        check_is_fitted(self, "estimator_")
        return self.estimator_.predict_proba(X)

    @property
    def thresholds_(self) -> NDArray[np.float64]:
        """Cuts of the rule, one per label."""
        return self.rule_.thresholds_


def make_rule(rule: Any) -> Any:
    if isinstance(rule, str) and rule in RULES:
        return RULES[rule]()
    if isinstance(rule, str | type) or not (hasattr(rule, "fit") and hasattr(rule, "predict")):
        raise ValueError(
            f"rule must be one of {', '.join(map(repr, RULES))} or an object with "
            f"fit(scores, Y, sample_weight) and predict(scores); got {rule!r}."
        )
    return clone(rule, safe=False)
