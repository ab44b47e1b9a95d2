"""Random streams of a seed, and checks of arguments, for the generators."""

import numbers

import numpy as np


def _streams(seed: int, number: int) -> list[np.random.Generator]:
    """Independent random streams of one seed."""
    if isinstance(seed, bool) or not isinstance(seed, numbers.Integral) or seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed!r}")
    return [np.random.default_rng([int(seed), 0, stream]) for stream in range(number)]


def _count(name: str, value: int, least: int = 1, most: int | None = None) -> int:
    allowed = f"at least {least}" if most is None else f"from {least} to {most}"
    ok = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not ok or value < least or (most is not None and value > most):
        raise ValueError(f"{name} must be an integer {allowed}, got {value!r}")
    return int(value)


def _number(name: str, value: float, least: float, most: float) -> float:
    if not isinstance(value, numbers.Real) or isinstance(value, bool) or not least <= value <= most:
        raise ValueError(f"{name} must be a number in [{least:g}, {most:g}], got {value!r}")
    return float(value)


def _names(stem: str, number: int) -> tuple[str, ...]:
    return tuple(f"{stem}_{i}" for i in range(number))
