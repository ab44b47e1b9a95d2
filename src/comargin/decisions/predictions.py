"""Label sets and scores of any fitted classifier, from one pass over the rows where it can be."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit
from sklearn.pipeline import Pipeline

from ..core.validation import has_scores
from ..metrics import scores_of
from ._classifier import ThresholdClassifierCV
from .decision_classifier import DecisionClassifierCV


class Predictions(NamedTuple):
    labels: Any  # (n_samples, n_labels), dense or sparse
    scores: np.ndarray | None  # None for a model that has none
    probabilities: np.ndarray | None  # calibrated ones, which the labels come from; None for other models


def predictions(model: Any, X: Any, n_labels: int, aim: Any = None) -> Predictions:
    """What a model says of rows; ``aim`` is for a model with calibrated probabilities, as in its ``predict``."""
    if isinstance(model, Pipeline):
        return predictions(model[-1], model[:-1].transform(X) if len(model) > 1 else X, n_labels, aim)
    if isinstance(model, DecisionClassifierCV):
        labels, P = model.decide(X, aim)
        return Predictions(labels, logit(P), P)
    if isinstance(model, ThresholdClassifierCV) and model.target_form_ != "classes":
        scores = scores_of(model.estimator_, X, n_labels=n_labels)
        return Predictions(model.rule_.predict(scores), scores, None)
    labels = model.predict(X)
    labels = labels[:, None] if np.ndim(labels) == 1 else labels
    if labels.shape[1] != n_labels:
        raise ValueError(
            f"model must predict an indicator of shape {(labels.shape[0], n_labels)}, got shape {labels.shape}"
        )
    return Predictions(labels, scores_of(model, X, n_labels=n_labels) if has_scores(model) else None, None)
