"""Rows of matrices: blocks of them, their squared lengths, and some of them."""

from typing import Any

import numpy as np
import scipy.sparse as sp


def row_blocks(n_rows: int, size: int = 65536) -> list[slice]:
    """Consecutive slices of at most ``size`` rows that cover all of them, so that temporary arrays stay small."""
    return [slice(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]


def squared_lengths(X: np.ndarray | sp.csr_array) -> np.ndarray:
    """||x_i||^2 of every row."""
    return np.vecdot(X, X) if isinstance(X, np.ndarray) else np.asarray(X.multiply(X).sum(axis=1)).ravel()


def take_rows(values: Any, rows: np.ndarray, columns: np.ndarray | None = None) -> Any:
    """Rows of an array, a DataFrame or a list; ``columns`` too, for a matrix between rows."""
    if columns is not None:
        values = values if sp.issparse(values) else np.asarray(values)
        return values[rows][:, columns]
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return values[rows] if hasattr(values, "shape") else [values[i] for i in rows]
