"""From scores to probabilities and label sets.

`DecisionClassifierCV` wraps any classifier with scores: one cross-fit gives probabilities, the best label sets for
every measure, and promises. `LabelDecisions` holds its parts together, which stand alone too:

==================  ===========================================================================
`LabelCalibrator`   probabilities from scores, label by label
`SetCalibrator`     better probabilities, from the label sets that occur
`AimRule`           the best label sets for a measure (`AIMS`) or for costs, from probabilities
`RiskController`    the cut that keeps a promise (`Guarantee`, `parse_guarantee`)
==================  ===========================================================================

`ThresholdClassifierCV` wraps any classifier with scores; its rules also stand alone, on a matrix of scores:

==================  ===========================================================================
`GlobalCut`         one cut for all labels, the best for a named measure
`PerLabelCut`       an F1 cut per label with a safeguard for rare labels (the default)
`ProportionalCut`   a cut per label that predicts it as often as it is true (PCut)
`TopK`              the k highest labels of every row (RCut), k given or learned
`RankSVMCut`        a threshold per row, by regression on its scores
==================  ===========================================================================
"""

from ..core.threshold_rule import ThresholdRule
from ..rank.label_sets import RankSVMCut
from ._classifier import RULES, ThresholdClassifierCV
from ._rules import GlobalCut, PerLabelCut, ProportionalCut, TopK
from .aims import AIMS, AimRule
from .calibration import LabelCalibrator
from .decision_classifier import DecisionClassifierCV, LabelDecisions
from .guarantees import Guarantee, RiskController, RiskCurve, check_confidence, parse_guarantee
from .set_calibration import SetCalibrator

__all__ = [
    "AIMS",
    "AimRule",
    "DecisionClassifierCV",
    "GlobalCut",
    "Guarantee",
    "LabelCalibrator",
    "LabelDecisions",
    "PerLabelCut",
    "ProportionalCut",
    "RULES",
    "RankSVMCut",
    "RiskController",
    "RiskCurve",
    "SetCalibrator",
    "ThresholdClassifierCV",
    "ThresholdRule",
    "TopK",
    "check_confidence",
    "parse_guarantee",
]
