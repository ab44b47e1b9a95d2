"""Blocks of rows, and the squared lengths of rows."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def row_blocks(n_rows: int, size: int = 65536) -> list[slice]:
    """Consecutive slices of at most ``size`` rows that cover all of them, so that temporary arrays stay small."""
    return [slice(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]


def squared_lengths(X: np.ndarray | sp.csr_array) -> np.ndarray:
    """||x_i||^2 of every row."""
    return np.vecdot(X, X) if isinstance(X, np.ndarray) else np.asarray(X.multiply(X).sum(axis=1)).ravel()
