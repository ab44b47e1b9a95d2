"""From scores to probabilities and label sets.

`DecisionClassifierCV` wraps any classifier with scores: one cross-fit gives probabilities, the best label sets for
every measure, and promises. `LabelDecisions` holds its parts together, which stand alone too:

==================  ===========================================================================
`LabelCalibrator`   probabilities from scores, label by label
`SetCalibrator`     better probabilities, from the label sets that occur
`AimRule`           the best label sets for a measure (`AIMS`) or for costs, from probabilities
`RiskController`    the cut that keeps a promise (`Guarantee`, `parse_guarantee`)
==================  ===========================================================================

`StackedStructureClassifier` learns with `ScoreStructure` what labels say about each other beyond what classifiers say.

`find_label_issues` ranks given labels by how probably they are wrong.

`ThresholdClassifierCV` wraps any classifier with scores; its rules also stand alone, on a matrix of scores:

==================  ===========================================================================
`GlobalCut`         one cut for all labels, the best for a named measure
`PerLabelCut`       an F1 cut per label with a safeguard for rare labels (the default)
`ProportionalCut`   a cut per label that predicts it as often as it is true (PCut)
`TopK`              the k highest labels of every row (RCut), k given or learned
`RankSVMCut`        a threshold per row, by regression on its scores
==================  ===========================================================================

=======================  ======================================================================
`_base.py`               the fit of both classifiers: cross-fit, learn the rule, fit all rows
`cross_fit.py`           scores of rows that a model has not learned from
`decision_classifier.py` `DecisionClassifierCV` and `LabelDecisions`
`_classifier.py`         `ThresholdClassifierCV`
`stacked_structure.py`   `StackedStructureClassifier`
`score_structure.py`     `ScoreStructure`: a structured SVM that corrects a blend of scores
`_rules.py`              the rules; `curves.py` has their counts of hits along the cuts
`calibration.py`         `LabelCalibrator`, by the Newton steps of `_loops_sigmoid.py`
`blending.py`            `BlendedClassifier`: several classifiers as one
`set_calibration.py`     `SetCalibrator`
`aims.py`                `AimRule`; `_expected_f1.py`, `_loops_f1.py`: the best set for example-F1
`guarantees.py`          `RiskController`: the cuts that keep promises, and what is said of them
`_parse_guarantee.py`    `Guarantee` and its text
`_cut_tests.py`          which cuts the rows vouch for, by the bets of `_loops_betting.py`
`workbench.py`           a decider by its name and its fit, for `train` and `compare`
`label_noise.py`         `find_label_issues`: which labels of which rows are probably wrong
`predictions.py`         label sets and scores of any model from one pass
=======================  ======================================================================
"""

from ..core.threshold_rule import ThresholdRule
from ..rank.label_sets import RankSVMCut
from ._classifier import RULES, ThresholdClassifierCV
from ._rules import GlobalCut, PerLabelCut, ProportionalCut, TopK
from .aims import AIMS, AimRule
from .blending import BlendedClassifier
from .calibration import LabelCalibrator
from .decision_classifier import DecisionClassifierCV, LabelDecisions
from .guarantees import Guarantee, RiskController, RiskCurve, check_confidence, parse_guarantee
from .label_noise import LabelIssues, find_label_issues
from .score_structure import ScoreStructure
from .set_calibration import SetCalibrator
from .stacked_structure import StackedStructureClassifier

__all__ = [
    "AIMS",
    "AimRule",
    "BlendedClassifier",
    "DecisionClassifierCV",
    "GlobalCut",
    "Guarantee",
    "LabelCalibrator",
    "LabelDecisions",
    "LabelIssues",
    "PerLabelCut",
    "ProportionalCut",
    "RULES",
    "RankSVMCut",
    "RiskController",
    "RiskCurve",
    "ScoreStructure",
    "SetCalibrator",
    "StackedStructureClassifier",
    "ThresholdClassifierCV",
    "ThresholdRule",
    "TopK",
    "check_confidence",
    "find_label_issues",
    "parse_guarantee",
]
