"""The one check of a {0, 1} label indicator, for every part that takes Y without fitting an estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def check_indicator(Y: Any, name: str) -> sp.csr_array:
    """Check a {0, 1} label indicator and return it as canonical CSR.

    Parameters
    ----------
    Y : array-like or sparse matrix of shape (n_samples, n_labels)
        Values 0 and 1 of any dtype; stored zeros are dropped.
    name : str
        Name of the argument for the error message.

    Returns
    -------
    csr_array of int8
        Sorted indices, no duplicates, only ones stored. The input is never changed.
    """
    if sp.issparse(Y):
        if Y.ndim != 2:
            raise ValueError(f"{name} must be a label indicator of shape (n_samples, n_labels), got shape {Y.shape}")
        Y = sp.csr_array(Y)
        if not (Y.has_canonical_format and Y.data.all()):
            Y = Y.copy()
            Y.sum_duplicates()
            Y.eliminate_zeros()
        if not np.all(Y.data == 1):
            raise _not_binary(name, Y.data[Y.data != 1][0])
        return sp.csr_array((np.ones(Y.nnz, dtype=np.int8), Y.indices, Y.indptr), shape=Y.shape)
    Y = np.asarray(Y)
    if Y.ndim != 2:
        raise ValueError(f"{name} must be a label indicator of shape (n_samples, n_labels), got shape {Y.shape}")
    if Y.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a label indicator with entries in {{0, 1}}, got dtype {Y.dtype}")
    ones = Y == 1
    bad = ~ones & (Y != 0)
    if bad.any():
        raise _not_binary(name, Y[bad][0])
    return sp.csr_array(ones.view(np.int8))


def _not_binary(name: str, value: Any) -> ValueError:
    return ValueError(f"{name} must be a label indicator with entries in {{0, 1}}, got {value}")
