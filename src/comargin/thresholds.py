"""An older name of `comargin.decisions`."""

from .decisions import GlobalCut, PerLabelCut, ProportionalCut, RankSVMCut, ThresholdClassifierCV, ThresholdRule, TopK

__all__ = [
    "GlobalCut",
    "PerLabelCut",
    "ProportionalCut",
    "RankSVMCut",
    "ThresholdClassifierCV",
    "ThresholdRule",
    "TopK",
]
