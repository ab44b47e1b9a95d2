"""The table of all measures: `evaluate`, `scorers`, `compare` and the reports read it."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from ._input import FloatArray, Truth
from ._probabilities import PROBABILITY_MEASURES, Probabilities, top_calibration_error
from ._ranking import RANKING_MEASURES, Ranking
from ._sets import SET_MEASURES, count_sets, meaning_of
from ._top_k import AT_K_MEASURES, TopLabels, propensity_scored

# What a measure is computed from: label sets, scores, their k highest (with propensities), the same of probabilities.
Kind = Enum("Kind", "SETS RANKING TOP TOP_PROPENSITIES PROBABILITIES TOP_PROBABILITIES")


class Measure(NamedTuple):
    """One measure; ``value`` takes the input of its kind as `values_of` prepares it, and the depth if it has one."""

    kind: Kind
    value: Callable[..., float]
    meaning: str  # a sentence; ``{k}`` is the depth
    lower_is_better: bool
    aim: str  # the aim of `comargin.decisions` whose label sets are meant for it, unless it is micro-F1


_MEANINGS = {
    "hamming_loss": "Fraction of wrong entries of the label indicator.",
    "subset_accuracy": "Fraction of rows whose label set is predicted exactly.",
    "macro_f1_of_averages": "Harmonic mean of macro-averaged precision and macro-averaged recall.",
    "one_error": "Fraction of rows whose top-scored label is not relevant.",
    "coverage": "How many further labels one has to go down each row's ranking to meet all its relevant labels.",
    "ranking_loss": "Mean fraction of pairs (relevant, irrelevant label) of a row that are in the wrong order.",
    "average_precision": "Mean over a row's relevant labels of the precision of its ranking down to that label.",
    "macro_auc": "Mean over labels of the area under the label's ROC curve.",
    "micro_auc": "Area under the ROC curve of all entries of the score matrix pooled into one ranking.",
    "precision_at_k": "Mean fraction of relevant labels among the {k} best-scored ones of each row.",
    "recall_at_k": "Mean fraction of a row's relevant labels that are among its {k} best-scored ones.",
    "ndcg_at_k": "Mean normalised discounted cumulative gain of the {k} best-scored labels of each row.",
    "propensity_scored_precision_at_k": "Precision at {k} in which a hit on a rare label counts more, relative to the "
    "best possible ranking.",
    "brier_score": "Mean squared difference of the probabilities and the truth, over all entries.",
    "log_loss": "Mean negative logarithm of the probability of what is true, over all entries.",
    "calibration_error": "Expected calibration error of each label, averaged over the labels.",
    "calibration_error_at_k": "Expected calibration error of the {k} likeliest labels of each row.",
}
_LOWER_IS_BETTER = {
    "hamming_loss",
    "one_error",
    "coverage",
    "ranking_loss",
    *PROBABILITY_MEASURES,
    "calibration_error_at_k",
}
_TABLES: dict[Kind, Mapping[str, Callable[..., float]]] = {
    Kind.SETS: SET_MEASURES,
    Kind.RANKING: RANKING_MEASURES,
    Kind.TOP: AT_K_MEASURES,
    Kind.TOP_PROPENSITIES: {"propensity_scored_precision_at_k": propensity_scored},
    Kind.PROBABILITIES: PROBABILITY_MEASURES,
    Kind.TOP_PROBABILITIES: {"calibration_error_at_k": top_calibration_error},
}


# Aims of measures of label sets, by name or by the average that a name begins with; that of the others is micro-F1.
_AIM_OF_MEASURE = {
    "hamming_loss": "hamming_loss",
    "subset_accuracy": "subset_accuracy",
    "macro": "macro_f1",
    "example": "example_f1",
}


def _aim_of(kind: Kind, name: str) -> str:
    return (_AIM_OF_MEASURE.get(name) or _AIM_OF_MEASURE.get(name.partition("_")[0], "")) if kind is Kind.SETS else ""


#: Every measure by the name of its function, in the order of `evaluate`; ``precision_at_k`` stands for all depths.
MEASURES: dict[str, Measure] = {
    name: Measure(kind, value, _MEANINGS.get(name) or meaning_of(name), name in _LOWER_IS_BETTER, _aim_of(kind, name))
    for kind, table in _TABLES.items()
    for name, value in table.items()
}


def split_depth(name: object) -> tuple[str, int]:
    """``"ndcg_at_3"`` as ``("ndcg_at_k", 3)``; any other name with depth 0."""
    found = re.fullmatch(r"(\w+_at_)([1-9]\d*)", str(name))
    return (f"{found[1]}k", int(found[2])) if found else (str(name), 0)


def at_depths(name: str, depths: Iterable[int]) -> list[str]:
    """Names of a measure at these depths, or its own if it has none."""
    return [f"{name[:-1]}{depth}" for depth in depths] if name.endswith("_at_k") else [name]


def values_of(
    measures: Mapping[str, Measure],
    truth: Truth,
    weight: FloatArray | None,
    *,
    Y_pred: sparse.csr_array | None = None,
    scores: Any = None,
    probabilities: FloatArray | None = None,
    depths: Sequence[int] = (),
    propensities: FloatArray | None = None,
) -> dict[str, float]:
    """Those of the measures that apply to what is given, which is checked; they share the work.

    ``weight`` is None where all rows count the same: AUC then takes a faster way.
    """
    weights = np.ones(truth.shape[0]) if weight is None else weight
    most, inputs = max(depths, default=0), dict[Kind, Any]()
    if Y_pred is not None:
        inputs[Kind.SETS] = count_sets(truth, Y_pred, weights)
    if scores is not None and not sparse.issparse(scores):
        inputs[Kind.RANKING] = Ranking(truth, scores, weight)
    if scores is not None and depths:
        inputs[Kind.TOP] = TopLabels(truth, scores, weights, most, propensities)
        if propensities is not None:
            inputs[Kind.TOP_PROPENSITIES] = inputs[Kind.TOP]
    if probabilities is not None:
        inputs[Kind.PROBABILITIES] = Probabilities(truth, probabilities, weights)
        if depths:
            inputs[Kind.TOP_PROBABILITIES] = TopLabels(truth, probabilities, weights, most)
    values: dict[str, float] = {}
    for name, measure in measures.items():
        if measure.kind in inputs:
            for at in at_depths(name, depths):
                values[at] = measure.value(inputs[measure.kind], *[depth for depth in split_depth(at)[1:] if depth])
    return values
