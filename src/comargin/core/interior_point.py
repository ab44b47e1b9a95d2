"""How far an interior-point method may go."""

import numpy as np


def longest_step(*pairs: tuple[np.ndarray, np.ndarray]) -> float:
    """Longest step, at most 1, that keeps every value non-negative; ``pairs`` of values and their changes."""
    length = 1.0
    for value, change in pairs:
        shrinking = change < 0.0
        if shrinking.any():
            length = min(length, float(np.min(-value[shrinking] / change[shrinking])))
    return length
