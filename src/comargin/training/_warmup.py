"""Compile everything ahead of time."""

import sys
from collections.abc import Callable, Iterator

import numpy as np
import scipy.sparse as sp

_PACKAGE = f"{__name__.split('.')[0]}."


def warmup(callback: Callable[[str, int, int], object] | None = None) -> int:
    """Compile the loops of every estimator, for dense and sparse features, on tiny data.

    The first fit after an installation or upgrade compiles its loops (some seconds) and stores them on disk; call this
    once, e.g. when an image is built, to have that done. ``NUMBA_CACHE_DIR`` must be writable if it is set.

    Parameters
    ----------
    callback : callable or None, default=None
        Called before each step with a text that names it, the number of steps done, and the number of all steps.

    Returns
    -------
    n_compiled : int
        How many loops were compiled; 0 when all were there already.

    Examples
    --------
    >>> import comargin
    >>> n_compiled = comargin.warmup()
    """
    before = _n_compiled()
    steps = list(_steps())
    for done, (what, run) in enumerate(steps):
        if callback is not None:
            callback(what, done, len(steps))
        run()
    return _n_compiled() - before


def _n_compiled() -> int:
    """Loops that this process has compiled, rather than taken from disk."""
    loops = {
        loop
        for name, module in list(sys.modules.items())
        if name.startswith(_PACKAGE)
        for loop in vars(module).values()
        if hasattr(loop, "stats")  # plain functions with NUMBA_DISABLE_JIT=1
    }
    return sum(sum(loop.stats.cache_misses.values()) for loop in loops)


def _steps() -> Iterator[tuple[str, Callable[[], object]]]:
    """Names of the steps, and the fits that compile their loops."""
    from ..m3l import M3LClassifier
    from ..rank import RankCVMClassifier, RankSVMClassifier
    from ..search import LSG21ClassifierCV
    from ..structured import CGMClassifier, StructuredSVMClassifier
    from ..svmplus import PrBRClassifier, PrMLClassifier

    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(40, 3)), rng.integers(0, 2, size=(40, 30))
    easy = (X > 0.0).astype(int)  # with random labels PrBR and PrML stop at zero weights
    chain = sp.diags_array([0.4, 1.0, 0.4], offsets=[-1, 0, 1], shape=(30, 30))  # stays sparse

    def m3l(features: np.ndarray | sp.csr_array) -> None:
        for prior in (None, np.eye(30) + 0.1, np.ones((30, 30)), chain):  # diagonal, dense, low rank, sparse
            for tol in (0.1, 1e-6):  # single precision, and double
                M3LClassifier(label_correlation=prior, tol=tol, random_state=0).fit(features[:8], Y[:8])

    def m3l_rbf() -> None:
        for prior in (None, chain):
            M3LClassifier(kernel="rbf", label_correlation=prior, tol=0.1).fit(X, Y)

    def rank_cvm() -> None:
        for solver, tol in (("auto", 1e-8), ("fw", 0.5)):
            RankCVMClassifier(C=10.0, solver=solver, tol=tol, random_state=0).fit(X, Y[:, :3])

    def prbr(features: np.ndarray | sp.csr_array) -> None:
        for n_rows in (40, 4):  # systems of features, and of rows
            PrBRClassifier(C=100.0, tol=1e-8, random_state=0).fit(features[:n_rows], easy[:n_rows])
        PrMLClassifier(rank=2, tol=0.1, random_state=0).fit(features, easy)

    # A small alpha needs Newton steps too; all pairs of 15 labels need search instead of elimination.
    cgm = CGMClassifier(alpha=1e-4, max_cliques=2, random_state=0)
    all_pairs = StructuredSVMClassifier(alpha=1.0, graph="full", tol=0.5, random_state=0)
    sparse = sp.csr_array(X)
    yield "M3L, dense features", lambda: m3l(X)
    yield "M3L, sparse features", lambda: m3l(sparse)
    yield "M3L, kernels", m3l_rbf
    yield "CGM", lambda: cgm.fit(X, Y[:, :3]).decision_function(X)
    yield "structured SVM", lambda: all_pairs.fit(X, Y[:, :15]).decision_function(X)
    # The loops over pairs see scores only, and those over edges products of features only.
    yield "Rank-CVM", rank_cvm
    yield "Rank-SVM", lambda: RankSVMClassifier(tol=0.1).fit(X, Y[:, :3])
    yield "LSG21", lambda: LSG21ClassifierCV(alphas=[0.1, 1.0], cv=2, tol=1e-8).fit(X, Y[:, :3])
    yield "PrBR and PrML, dense features", lambda: prbr(X)
    yield "PrBR and PrML, sparse features", lambda: prbr(sparse)
