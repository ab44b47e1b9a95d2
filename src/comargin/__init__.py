"""comargin: multi-label classification that learns with the structure between labels.

Importing this package is cheap: the names below are loaded on first use, so neither Numba nor
scikit-learn is imported before it is needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import (
        comparison,
        core,
        data,
        decisions,
        graphs,
        inference,
        metrics,
        model_selection,
        persistence,
        report,
        training,
    )
    from .lsg21 import LSG21Classifier
    from .m3l import M3LClassifier, ZeroShotClassifier
    from .persistence import load, save
    from .rank import RankCVMClassifier, RankSVMClassifier
    from .search import LSG21ClassifierCV, M3LClassifierCV, TuneResult, tune
    from .structured import CGMClassifier, StructuredSVMClassifier
    from .svmplus import PrBRClassifier, PrMLClassifier
    from .training import warmup

_SUBMODULES = (
    "comparison",
    "core",
    "data",
    "decisions",
    "graphs",
    "inference",
    "metrics",
    "model_selection",
    "persistence",
    "report",
    "thresholds",
    "training",
)
_HOMES = {
    "CGMClassifier": "structured",
    "LSG21Classifier": "lsg21",
    "LSG21ClassifierCV": "search",
    "M3LClassifier": "m3l",
    "M3LClassifierCV": "search",
    "PrBRClassifier": "svmplus",
    "PrMLClassifier": "svmplus",
    "RankCVMClassifier": "rank",
    "RankSVMClassifier": "rank",
    "StructuredSVMClassifier": "structured",
    "TuneResult": "search",
    "ZeroShotClassifier": "m3l",
    "load": "persistence",
    "save": "persistence",
    "tune": "search",
    "warmup": "training",
}

__all__ = [
    "CGMClassifier",
    "LSG21Classifier",
    "LSG21ClassifierCV",
    "M3LClassifier",
    "M3LClassifierCV",
    "PrBRClassifier",
    "PrMLClassifier",
    "RankCVMClassifier",
    "RankSVMClassifier",
    "StructuredSVMClassifier",
    "TuneResult",
    "ZeroShotClassifier",
    "comparison",
    "core",
    "data",
    "decisions",
    "graphs",
    "inference",
    "load",
    "metrics",
    "model_selection",
    "persistence",
    "report",
    "save",
    "training",
    "tune",
    "warmup",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _HOMES:
        return getattr(importlib.import_module(f".{_HOMES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
