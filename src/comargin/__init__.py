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
    from .core import Explanation, explain
    from .decisions import DecisionClassifierCV, StackedStructureClassifier
    from .lsg21 import LSG21Classifier
    from .m3l import M3LClassifier, ZeroShotClassifier
    from .persistence import load, save
    from .rank import RankCVMClassifier, RankSVMClassifier
    from .search import AutoClassifier, LSG21ClassifierCV, M3LClassifierCV, TuneResult, tune
    from .structured import CGMClassifier, StructuredSVMClassifier
    from .svmplus import PrBRClassifier, PrMLClassifier
    from .training import Audit, Tagger, audit, warmup

_HOMES = {
    "core": ("Explanation", "explain"),
    "decisions": ("DecisionClassifierCV", "StackedStructureClassifier"),
    "lsg21": ("LSG21Classifier",),
    "m3l": ("M3LClassifier", "ZeroShotClassifier"),
    "persistence": ("load", "save"),
    "rank": ("RankCVMClassifier", "RankSVMClassifier"),
    "search": ("AutoClassifier", "LSG21ClassifierCV", "M3LClassifierCV", "TuneResult", "tune"),
    "structured": ("CGMClassifier", "StructuredSVMClassifier"),
    "svmplus": ("PrBRClassifier", "PrMLClassifier"),
    "training": ("Audit", "Tagger", "audit", "warmup"),
}

__all__ = [
    "Audit",
    "AutoClassifier",
    "CGMClassifier",
    "DecisionClassifierCV",
    "Explanation",
    "LSG21Classifier",
    "LSG21ClassifierCV",
    "M3LClassifier",
    "M3LClassifierCV",
    "PrBRClassifier",
    "PrMLClassifier",
    "RankCVMClassifier",
    "RankSVMClassifier",
    "StackedStructureClassifier",
    "StructuredSVMClassifier",
    "Tagger",
    "TuneResult",
    "ZeroShotClassifier",
    "audit",
    "comparison",
    "core",
    "data",
    "decisions",
    "explain",
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
    for home, names in _HOMES.items():
        if name in names:
            return getattr(importlib.import_module(f".{home}", __name__), name)
    if name in __all__:  # a module
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
