"""A hash of features and labels, by which a data set is recognised."""

import hashlib
from typing import Any

import numpy as np
import scipy.sparse as sp

_HEX = 16  # digits kept of a hash: 64 bits
# Rows of a block: so many cells, and not less than so many rows.
_CELLS, _LEAST_ROWS = 1 << 20, 64


def fingerprint(X: Any, Y: Any) -> str:
    """Hash of features and labels.

    Numbers that are equal give the same digits, whether they are stored dense or sparse, in whatever integer type.

    Parameters
    ----------
    X : ndarray, sparse matrix or list of str
        Features or texts.
    Y : ndarray or sparse matrix
        Label indicator.

    Examples
    --------
    >>> from comargin.data import fingerprint
    >>> fingerprint([[1.0, 0.0]], [[1, 0]]) == fingerprint([[1.0, 0.0]], [[True, False]])
    True
    """
    digest = hashlib.sha256()
    for part in (X, Y):
        if isinstance(part, list) and part and isinstance(part[0], str):
            for text in part:
                data = text.encode("utf-8", "surrogatepass")
                digest.update(len(data).to_bytes(8, "little") + data)
            continue
        matrix = sp.csr_array(part) if sp.issparse(part) else np.asarray(part, dtype=np.float64)
        digest.update(np.array(matrix.shape, dtype=np.int64).tobytes())
        # In blocks of rows, as all of it as a sparse matrix is several times the size of dense features.
        height = max(_LEAST_ROWS, _CELLS // max(matrix.shape[1], 1))
        for first in range(0, matrix.shape[0], height):
            block = sp.csr_array(matrix[first : first + height]).astype(np.float64)
            block.sum_duplicates()
            block.eliminate_zeros()
            for values, kind in ((block.indptr, np.int64), (block.indices, np.int64), (block.data, np.float64)):
                digest.update(np.ascontiguousarray(values, dtype=kind).data)
    return digest.hexdigest()[:_HEX]
