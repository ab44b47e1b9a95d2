"""RCV1's full shape: 781265 rows, 47236 features, 103 labels, a relative gap of 1e-2; time and peak memory beyond X.

The peer learns 10 of the 103 labels, spread over all frequencies, and its time is scaled up.
Run: python benchmarks/bench_m3l_big.py
"""

from __future__ import annotations

import resource
import time

import numpy as np
import scipy.sparse as sp

from _common import Row, best_of, compared, show
from bench_m3l import liblinear, ours
from comargin.data import make_text_like

TITLE = "M3L, RCV1's full shape"


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def main() -> list[Row]:
    text = make_text_like(781265, 47236, 103, 76, seed=0)
    X, Y = text.X, text.Y
    ours(X[:50], Y[:50].toarray(), 0.5, 1)  # compile
    before = peak_gigabytes()
    start = time.perf_counter()
    model = ours(X, Y, 0.5, 2, tol=1e-2)
    seconds = time.perf_counter() - start
    memory = peak_gigabytes() - before
    seconds = min(seconds, best_of(2, lambda: ours(X, Y, 0.5, 2, tol=1e-2)))
    by_frequency = np.argsort(np.asarray(Y.sum(axis=0)).ravel())
    some = Y[:, by_frequency[5::10]].toarray()
    lower = ours(X, some, 0.5, 2, tol=1e-2).dual_objective_
    peer, tol, distance = liblinear(sp.csr_matrix(X), some, 0.5, 2, lower, 1e-2)
    return [
        compared(
            "text-like 781265 x 47236, 103 labels, gap 1e-2, n_jobs=2",
            seconds,
            f"LIBLINEAR, n_jobs=2, {some.shape[1]} labels scaled up",
            peer * Y.shape[1] / some.shape[1],
            our_gap=model.duality_gap_ / model.objective_,
            peak_gb_beyond_X=memory,
            peer_distance=distance,
            peer_tol=tol,
        )
    ]


if __name__ == "__main__":
    show(TITLE, main())
