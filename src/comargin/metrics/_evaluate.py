"""All measures of one prediction at once, and a table by label."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._input import Weights, check_predicted, check_probabilities, check_scores, check_true
from ._ranking import label_auc
from ._sets import FORMULAS, count_sets
from ._top_k import check_k, check_propensities
from .measures import MEASURES, values_of


def evaluate(
    Y: Any,
    scores: Any = None,
    Y_pred: Any = None,
    *,
    k: int | Sequence[int] = (1, 3, 5),
    propensities: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
    sample_weight: Weights = None,
) -> dict[str, float]:
    """All measures that apply, in a fixed order, sharing the work between them.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator; cells that are NaN are unknown and count nowhere.
    scores : array-like or sparse matrix of shape (n_samples, n_labels), default=None
        Score of each label, for the ranking measures. Sparse scores give the measures at k only.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels), default=None
        Predicted {0, 1} label indicator, for the measures of label sets.
    k : int or sequence of int, default=(1, 3, 5)
        Depths of the measures at k. Beyond n_labels all labels are taken, and precision still divides by k.
    propensities : array-like of shape (n_labels,), default=None
        Also give propensity-scored precision; see `label_propensities`.
    probabilities : array-like of shape (n_samples, n_labels), default=None
        Probability of each label, for the Brier score, the log loss and the calibration errors.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    dict of str to float
        Each value equals that of the function of the same name with its defaults (`precision_at_3` is
        ``precision_at_k(..., k=3)``). A measure that is not defined on this data, e.g. `one_error` when no
        row has a label, is nan. `higher_is_better` gives the direction of each.

    Examples
    --------
    >>> from comargin.metrics import evaluate
    >>> Y, scores = [[1, 0, 0], [0, 1, 1]], [[0.9, 0.2, 0.1], [0.5, 0.4, 0.3]]
    >>> for name, value in evaluate(Y, scores, k=[1]).items():
    ...     print(f"{name:17s} {value:.3f}")
    one_error         0.500
    coverage          1.000
    ranking_loss      0.500
    average_precision 0.792
    macro_auc         1.000
    micro_auc         0.778
    precision_at_1    0.500
    recall_at_1       0.500
    ndcg_at_1         0.500
    """
    if scores is None and Y_pred is None and probabilities is None:
        raise ValueError("scores or Y_pred must be given, or both, or probabilities.")
    truth = check_true(Y, "Y")
    if Y_pred is not None:
        Y_pred = check_predicted(Y_pred, truth, "Y")
    if scores is not None:
        scores = check_scores(scores, truth, accept_sparse=True, true_name="Y")
    if probabilities is not None:
        probabilities = check_probabilities(probabilities, truth, "Y")
    return values_of(
        MEASURES,
        truth,
        truth.weight(sample_weight),
        Y_pred=Y_pred,
        scores=scores,
        probabilities=probabilities,
        depths=[check_k(depth) for depth in (k if isinstance(k, Iterable) else [k])],
        propensities=None if propensities is None else check_propensities(propensities, truth.shape[1]),
    )


def per_label(
    Y: Any, Y_pred: Any, label_names: Sequence[str] | None = None, scores: Any = None
) -> list[dict[str, Any]]:
    """Precision, recall and F1 of every label, and its AUC when scores are given.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        True {0, 1} label indicator; cells that are NaN are unknown and count nowhere.
    Y_pred : array-like or sparse matrix of shape (n_samples, n_labels)
        Predicted {0, 1} label indicator.
    label_names : sequence of str, default=None
        Names of the labels; their numbers by default.
    scores : array-like of shape (n_samples, n_labels), default=None
        Score of each label.

    Returns
    -------
    list of dict
        One per label, in the order of the columns, with keys label, support (rows that have it), predicted
        (rows it is predicted for), known (rows where it is known, if it is not in all), precision, recall, f1
        and, with scores, auc. 0/0 is nan here, so
        that a label without positives cannot be taken for one that is always missed.
        ``pandas.DataFrame(per_label(...))`` makes a table of it.

    Examples
    --------
    >>> from comargin.metrics import per_label
    >>> per_label([[1, 0], [1, 1]], [[1, 0], [0, 1]], ["sun", "sea"])[0]
    {'label': 'sun', 'support': 2, 'predicted': 1, 'precision': 1.0, 'recall': 0.5, 'f1': 0.6666666666666666}
    """
    truth = check_true(Y, "Y")
    Y_pred = check_predicted(Y_pred, truth, "Y")
    n_samples, n_labels = truth.shape
    names = list(range(n_labels)) if label_names is None else list(label_names)
    if len(names) != n_labels:
        raise ValueError(f"label_names must have {n_labels} entries, got {len(names)}.")
    counts = count_sets(truth, Y_pred, np.ones(n_samples)).labels
    columns: dict[str, list[Any]] = {
        "label": names,
        "support": counts.true.astype(int).tolist(),
        "predicted": counts.predicted.astype(int).tolist(),
    }
    if truth.known is not None:
        columns["known"] = np.count_nonzero(truth.known, axis=0).tolist()
    for measure, formula in FORMULAS.items():
        columns[measure] = formula(counts, np.nan).tolist()
    if scores is not None:
        columns["auc"] = label_auc(truth, check_scores(scores, truth, true_name="Y"), None).tolist()
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
