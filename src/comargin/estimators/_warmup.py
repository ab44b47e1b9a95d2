"""Compile everything ahead of time."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp


def warmup() -> None:
    """Compile the kernels of every estimator, for dense and sparse features, on tiny data.

    The first fit after an installation or upgrade compiles its loops (some seconds) and stores them on disk; call this
    once, e.g. when an image is built, to have that done. ``NUMBA_CACHE_DIR`` must be writable if it is set.

    Examples
    --------
    >>> import comargin
    >>> comargin.warmup()
    """
    from .m3l import M3LClassifier

    X = np.array([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0], [0.0, 0.5]])
    Y = np.array([[1, 0], [0, 1], [1, 1], [0, 0]])
    for features in (X, sp.csr_array(X)):
        M3LClassifier(random_state=0).fit(features, Y)
