"""Checks of numbers: arguments, and scores."""

from numbers import Integral, Real
from typing import Any

import numpy as np


def whole_number(name: str, value: Any, least: int = 0, most: int | None = None) -> int:
    """The value of an argument as an int; ValueError unless it is a whole number within these bounds."""
    is_whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_whole or value < least or (most is not None and value > most):
        allowed = f"of at least {least}" if most is None else f"from {least} to {most}"
        raise ValueError(f"{name} must be an int {allowed}, got {value!r}")
    return int(value)


def number(name: str, value: Any, low: float, high: float = np.inf) -> float:
    """The value of an argument as a float; ValueError unless it is a finite number within these bounds."""
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if not (is_number and low <= value <= high and np.isfinite(value)):
        allowed = f"from {low:g} to {high:g}" if np.isfinite(high) else f"{low:g} or greater"
        raise ValueError(f"{name} must be a finite number {allowed}, got {value!r}")
    return float(value)


def finite_scores(scores: np.ndarray, model: object, first: int = 0) -> np.ndarray:
    """The scores of rows, of which the first has the number ``first``; ValueError with the row if one is not finite."""
    if not np.isfinite(scores).all():
        row = first + int(np.argmin(np.isfinite(scores).all(axis=1)))
        raise ValueError(
            f"row {row} of X has scores that are not finite: its features are too large for {type(model).__name__}, or "
            "the model is damaged; scale X as in training"
        )
    return scores
