"""From scores to probabilities and label sets.

`LabelCalibrator` makes probabilities of scores, and `RiskController` finds cuts on them that keep a promise.
`ThresholdClassifierCV` wraps any classifier with scores; its rules also stand alone, on a matrix of scores:

==================  ===========================================================================
`GlobalCut`         one cut for all labels, the best for a named measure
`PerLabelCut`       an F1 cut per label with a safeguard for rare labels (the default)
`ProportionalCut`   a cut per label that predicts it as often as it is true (PCut)
`TopK`              the k highest labels of every row (RCut), k given or learned
`RankSVMCut`        a threshold per row, by regression on its scores
==================  ===========================================================================
"""

from __future__ import annotations

from ..core.threshold_rule import ThresholdRule
from ..rank.label_sets import RankSVMCut
from ._classifier import RULES, ThresholdClassifierCV
from ._rules import GlobalCut, PerLabelCut, ProportionalCut, TopK
from ._with_cuts import fit_with_cuts
from .calibration import LabelCalibrator
from .guarantees import Guarantee, RiskController, RiskCurve, check_confidence, parse_guarantee

__all__ = [
    "GlobalCut",
    "Guarantee",
    "LabelCalibrator",
    "PerLabelCut",
    "ProportionalCut",
    "RULES",
    "RankSVMCut",
    "RiskController",
    "RiskCurve",
    "ThresholdClassifierCV",
    "ThresholdRule",
    "TopK",
    "check_confidence",
    "fit_with_cuts",
    "parse_guarantee",
]
