"""What problems, solvers and kernels all need of the rows of a matrix."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def row_blocks(n_rows: int, size: int = 65536) -> list[slice]:
    """Rows in parts, so that temporary arrays stay small.

    Parameters
    ----------
    n_rows : int
        Rows.
    size : int, default=65536
        Most rows of a part.

    Returns
    -------
    list of slice
        Covering all rows.
    """
    return [slice(begin, min(begin + size, n_rows)) for begin in range(0, n_rows, size)]


def squared_lengths(X: np.ndarray | sp.csr_array) -> np.ndarray:
    """||x_i||^2 of every row.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Rows.

    Returns
    -------
    ndarray of shape (n_samples,)
        Not negative.
    """
    return np.vecdot(X, X) if isinstance(X, np.ndarray) else np.asarray(X.multiply(X).sum(axis=1)).ravel()
