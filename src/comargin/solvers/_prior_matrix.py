"""Parts of R as the compiled loops take them."""

from __future__ import annotations

import numpy as np

from ..kernels._rows import CSR
from ..problems.label_prior import PriorPart


def kernel_matrix(part: PriorPart) -> np.ndarray | CSR:
    """The stored matrix of a part as the kernels take it.

    Parameters
    ----------
    part : PriorPart
        Of any form.

    Returns
    -------
    ndarray or CSR
        C-contiguous, or CSR with int32 indices.
    """
    R = part.matrix
    if isinstance(R, np.ndarray):
        return np.ascontiguousarray(R)
    return CSR(R.data, R.indices.astype(np.int32), R.indptr.astype(np.int32))
