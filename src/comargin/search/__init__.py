"""Choosing parameters by cross-validation: `tune`, and paths along C or alpha that start every fit from the last."""

from ._tune_result import TuneResult, TuneStep
from .lsg21_cv import LSG21ClassifierCV
from .m3l_cv import M3LClassifierCV
from .tuning import tune

__all__ = ["LSG21ClassifierCV", "M3LClassifierCV", "TuneResult", "TuneStep", "tune"]
