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
        data,
        graphs,
        inference,
        metrics,
        model_selection,
        persistence,
        report,
        thresholds,
        training,
    )
    from .estimators import (
        CGMClassifier,
        LSG21Classifier,
        LSG21ClassifierCV,
        M3LClassifier,
        M3LClassifierCV,
        PrBRClassifier,
        PrMLClassifier,
        RankCVMClassifier,
        RankSVMClassifier,
        StructuredSVMClassifier,
        TuneResult,
        ZeroShotClassifier,
        tune,
        warmup,
    )
    from .persistence import load, save

_SUBMODULES = (
    "comparison",
    "data",
    "graphs",
    "inference",
    "metrics",
    "model_selection",
    "persistence",
    "report",
    "thresholds",
    "training",
)
_ATTRIBUTES = dict.fromkeys(
    (
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
        "tune",
        "warmup",
    ),
    "estimators",
) | {"load": "persistence", "save": "persistence"}

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
    "data",
    "graphs",
    "inference",
    "load",
    "metrics",
    "model_selection",
    "persistence",
    "report",
    "save",
    "thresholds",
    "training",
    "tune",
    "warmup",
    "__version__",
]


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name in _ATTRIBUTES:
        return getattr(importlib.import_module(f".{_ATTRIBUTES[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
