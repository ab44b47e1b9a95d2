"""The kernel matrix K of the training rows, by blocks: never held as a whole here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Gram:
    """K + constant, where K_ij = k(x_i, x_j).

    Attributes
    ----------
    function : callable
        ``function(rows, columns)`` gives K[rows][:, columns]; both are int arrays or slices.
    diagonal : ndarray of shape (n_samples,)
        Diagonal of K + constant, not negative.
    constant : float
        1 with an intercept, the product of two constant features; else 0.
    """

    function: Callable[[np.ndarray | slice, np.ndarray | slice], np.ndarray]
    diagonal: np.ndarray
    constant: float = 0.0

    @property
    def n_samples(self) -> int:
        """Rows of K."""
        return len(self.diagonal)

    def block(self, rows: np.ndarray | slice, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """(K + constant)[rows][:, columns] as float64.

        Parameters
        ----------
        rows, columns : int ndarray or slice
            Which part.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
            Not to be changed.
        """
        block = self.function(rows, columns)
        return block + self.constant if self.constant else block
