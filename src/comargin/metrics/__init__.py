"""Measures of multi-label predictions, and the same measures as scorers.

Three kinds: measures of predicted label sets take ``(Y_true, Y_pred)``, measures of rankings ``(Y_true, scores)``,
measures of probabilities ``(Y_true, probabilities)``; the last are no scorers. Y and predictions are {0, 1} indicators,
dense or sparse. `evaluate` gives all that apply at once.

- _sets.py, _ranking.py, _top_k.py, _probabilities.py: the measures by what they take. _input.py: their arguments.
- measures.py: the table of all. _evaluate.py: `evaluate` and `per_label`. _scorers.py: `scorers`.

**A scorer of a loss returns the negated loss**: ``scorers["hamming_loss"]``, ``["one_error"]``, ``["coverage"]``
and ``["ranking_loss"]`` are 0 at best, because ``scoring=`` of scikit-learn is maximised. The functions of the
same names, and `evaluate`, return the loss itself.

Each function states what it does with ties, with rows without labels, with 0/0 and with a k beyond the number of
labels; ``docs/measures.md`` has these conventions in one place. A measure that is not defined on the data at all is
nan. No measure warns.

scikit-learn's functions are the tests' reference and are not called: they read a single label column as two
classes, refuse infinite scores, share no counts, and are slower (up to 60 times) where the values agree.
"""

from ._evaluate import evaluate, per_label
from ._probabilities import brier_score, calibration_error, calibration_error_at_k, log_loss
from ._ranking import average_precision, coverage, macro_auc, micro_auc, one_error, ranking_loss
from ._scorers import MeasureScorer, Scorers, higher_is_better, propensity_scorer, scorers, scores_of
from ._sets import (
    example_f1,
    example_precision,
    example_recall,
    hamming_loss,
    macro_f1,
    macro_f1_of_averages,
    macro_precision,
    macro_recall,
    micro_f1,
    micro_precision,
    micro_recall,
    subset_accuracy,
)
from ._top_k import label_propensities, ndcg_at_k, precision_at_k, propensity_scored_precision_at_k, recall_at_k

__all__ = [
    "MeasureScorer",
    "Scorers",
    "average_precision",
    "brier_score",
    "calibration_error",
    "calibration_error_at_k",
    "coverage",
    "evaluate",
    "example_f1",
    "example_precision",
    "example_recall",
    "hamming_loss",
    "higher_is_better",
    "label_propensities",
    "log_loss",
    "macro_auc",
    "macro_f1",
    "macro_f1_of_averages",
    "macro_precision",
    "macro_recall",
    "micro_auc",
    "micro_f1",
    "micro_precision",
    "micro_recall",
    "ndcg_at_k",
    "one_error",
    "per_label",
    "precision_at_k",
    "propensity_scored_precision_at_k",
    "propensity_scorer",
    "ranking_loss",
    "recall_at_k",
    "scorers",
    "scores_of",
    "subset_accuracy",
]
