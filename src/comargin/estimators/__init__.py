"""scikit-learn estimators: one file per system, the contract they share in ``_base.py``.

The base classes are public for learners of your own: see ``docs/own_learner.md``.
"""

from ._base import Interval, LinearMultilabelClassifier, MultilabelClassifier, StrOptions
from ._tune_result import TuneResult, TuneStep
from ._tuning import tune
from ._warmup import warmup
from .cgm import CGMClassifier
from .lsg21 import LSG21Classifier
from .lsg21_cv import LSG21ClassifierCV
from .m3l import M3LClassifier
from .m3l_cv import M3LClassifierCV
from .prbr import PrBRClassifier
from .prml import PrMLClassifier
from .rank_cvm import RankCVMClassifier
from .rank_svm import RankSVMClassifier
from .structured import StructuredClassifier, StructuredSVMClassifier
from .zero_shot import ZeroShotClassifier

__all__ = [
    "CGMClassifier",
    "Interval",
    "LSG21Classifier",
    "LSG21ClassifierCV",
    "LinearMultilabelClassifier",
    "M3LClassifier",
    "M3LClassifierCV",
    "MultilabelClassifier",
    "PrBRClassifier",
    "PrMLClassifier",
    "RankCVMClassifier",
    "RankSVMClassifier",
    "StrOptions",
    "StructuredClassifier",
    "StructuredSVMClassifier",
    "TuneResult",
    "TuneStep",
    "ZeroShotClassifier",
    "tune",
    "warmup",
]
