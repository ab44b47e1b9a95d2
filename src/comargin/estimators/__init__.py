"""scikit-learn estimators: one file per system, the contract they share in ``_base.py``."""

from ._warmup import warmup
from .m3l import M3LClassifier

__all__ = ["M3LClassifier", "warmup"]
