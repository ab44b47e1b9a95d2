"""Filling of missing values (NaN after parsing), as `missing=` says."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def fill_missing(X: np.ndarray | sp.csr_array, missing: str) -> np.ndarray | sp.csr_array:
    """Replace NaN in place: by 0, or by the mean of the column's other values (zeros of a sparse column count)."""
    if missing not in ("zero", "mean"):
        return X
    if not sp.issparse(X):
        dense = np.asarray(X)
        _fill(dense, dense, np.nonzero(np.isnan(dense))[1], missing)
        return dense
    matrix = sp.csr_array(X)
    _fill(matrix.data, matrix, matrix.indices[np.isnan(matrix.data)], missing)
    matrix.eliminate_zeros()
    return matrix


def _fill(values: np.ndarray, X: np.ndarray | sp.csr_array, columns: np.ndarray, missing: str) -> None:
    """Fill the NaN of ``values``, the stored numbers of X; ``columns`` says where they stand."""
    gaps = np.isnan(values)
    values[gaps] = 0.0
    if missing == "mean" and columns.size:
        totals = np.asarray(X.sum(axis=0)).ravel()
        known = X.shape[0] - np.bincount(columns, minlength=X.shape[1])
        means = np.divide(totals, known, out=np.zeros(X.shape[1]), where=known > 0)
        values[gaps] = means[columns]
