"""What `missing=` says about values that are not there (NaN after parsing)."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def fill_missing(X: np.ndarray | sp.csr_array, missing: str) -> np.ndarray | sp.csr_array:
    """Replace NaN as asked.

    Parameters
    ----------
    X : ndarray or csr_array of shape (n_samples, n_features)
        Features, float64; changed in place.
    missing : {"error", "nan", "zero", "mean"}
        "mean" is the mean of the column's other values (the zeros of a sparse column count), 0 when there
        are none. "error" has been dealt with by the parser.

    Returns
    -------
    ndarray or csr_array
        X without NaN, unless they were asked for.
    """
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
