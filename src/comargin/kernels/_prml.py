"""Products with the rows of X for all labels of an SVM+ step, and the Gram matrix of chosen rows.

Labels are contiguous in memory, so that every non-zero of a row meets one run of them.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from ._rows import row_axpy, row_dot_label, row_gemv, row_ger


@kernel
def prml_scores(X, Z, out):
    """Write X Z into ``out``.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    Z : ndarray (d, m)
    out : ndarray (n, m), written
    """
    for i in range(out.shape[0]):
        row_gemv(X, i, Z, out[i])


@kernel
def prml_average(X, signed, V):
    """Add X^T ``signed`` to V; rows of zeros cost nothing.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    signed : ndarray (n, m), dual variables with the signs of their labels
    V : ndarray (d, m)
    """
    for i in range(signed.shape[0]):
        any_there = False
        for label in range(signed.shape[1]):
            if signed[i, label] != 0.0:
                any_there = True
                break
        if any_there:
            row_ger(X, i, signed[i], V)


@kernel
def prml_gram(X, n_features, rows, first, gram):
    """Write the products of ``rows[first:]`` with all of ``rows`` into their rows and columns of ``gram``.

    Parameters
    ----------
    X : ndarray (n, d) or CSR
    n_features : int, d
    rows : int ndarray (p,)
    first : int, rows before this one are in ``gram`` already
    gram : ndarray (at least p, at least p), written
    """
    spread = np.zeros((n_features, 1))  # one row of X, dense
    for a in range(first, rows.shape[0]):
        row_axpy(1.0, X, rows[a], spread[:, 0])
        for b in range(a + 1):
            product = row_dot_label(X, rows[b], spread, 0)
            gram[a, b] = product
            gram[b, a] = product
        row_axpy(-1.0, X, rows[a], spread[:, 0])  # back to exact zeros
