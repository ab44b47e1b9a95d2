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
    from .cgm import CGMClassifier
    from .lsg21_cv import LSG21ClassifierCV
    from .m3l import M3LClassifier
    from .prbr import PrBRClassifier
    from .prml import PrMLClassifier
    from .rank_cvm import RankCVMClassifier
    from .rank_svm import RankSVMClassifier
    from .structured import StructuredSVMClassifier

    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.integers(0, 2, size=(40, 30))
    chain = sp.diags_array([0.4, 1.0, 0.4], offsets=[-1, 0, 1], shape=(30, 30))  # stays sparse
    priors = (None, np.eye(30) + 0.1, np.ones((30, 30)), chain)  # diagonal, dense, low rank, sparse
    for features in (X, sp.csr_array(X)):
        for prior in priors:
            for tol in (0.1, 1e-8):  # single precision, and double
                M3LClassifier(label_correlation=prior, tol=tol, random_state=0).fit(features, Y)
    for prior in (None, chain):
        M3LClassifier(kernel="rbf", label_correlation=prior, tol=0.1).fit(X, Y)
    # A small alpha needs Newton steps too; all pairs of 15 labels need search instead of elimination.
    CGMClassifier(alpha=1e-4, max_cliques=2, random_state=0).fit(X, Y[:, :3]).decision_function(X)
    StructuredSVMClassifier(alpha=1.0, graph="full", tol=0.5, random_state=0).fit(X, Y[:, :15]).decision_function(X)
    # The loops over pairs see scores only, never features.
    for solver in ("auto", "fw"):
        RankCVMClassifier(C=10.0, solver=solver, tol=0.5 if solver == "fw" else 1e-8, random_state=0).fit(X, Y[:, :3])
    RankSVMClassifier(tol=0.1).fit(X, Y[:, :3])
    # The loops over edges see products of features only.
    LSG21ClassifierCV(alphas=[0.1, 1.0], cv=2, tol=1e-8).fit(X, Y[:, :3])
    easy = (X > 0.0).astype(int)  # labels at random would not be worth learning
    for features in (X, sp.csr_array(X)):
        for n_rows in (40, 4):  # systems of features, and of rows
            PrBRClassifier(C=100.0, tol=1e-8, random_state=0).fit(features[:n_rows], easy[:n_rows])
        PrMLClassifier(rank=2, tol=0.1, random_state=0).fit(features, easy)
