"""The kernel matrix K of the training rows, computed block by block."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Gram:
    """K + constant, where K_ij = k(x_i, x_j).

    ``function(rows, columns)`` computes K[rows][:, columns] for int arrays or slices. ``diagonal`` is the non-negative
    diagonal of K + constant. ``constant`` is 1 with an intercept (the product of two constant features), else 0.
    """

    function: Callable[[np.ndarray | slice, np.ndarray | slice], np.ndarray]
    diagonal: np.ndarray
    constant: float = 0.0

    @property
    def n_samples(self) -> int:
        return len(self.diagonal)

    def block(self, rows: np.ndarray | slice, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """(K + constant)[rows][:, columns] in float64; read-only for the caller."""
        block = self.function(rows, columns)
        return block + self.constant if self.constant else block
