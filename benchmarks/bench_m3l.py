"""M3L (R = I) against one-vs-rest LIBLINEAR on the same objective: text-like data, and badly scaled data.

scikit-learn's tolerance is not a gap: it is run at several tolerances and the first whose objective is within the
wanted relative gap of ours (certified) is taken.
Run: python benchmarks/bench_m3l.py
"""

from __future__ import annotations

import time
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from _common import Row, best_of, compared, show
from comargin import M3LClassifier
from comargin.data import make_text_like

TITLE = "M3L with independent labels against OneVsRest(LinearSVC hinge)"
GAP = 1e-3
C = 0.5  # LIBLINEAR's C' = 2 C = 1


def objective(X: np.ndarray | sp.csr_array, Y: np.ndarray, coef: np.ndarray) -> float:
    margin = (2.0 * Y - 1.0) * (X @ coef.T)
    return 0.5 * float(np.sum(coef**2)) + 2.0 * C * float(np.maximum(0.0, 1.0 - margin).sum())


def ours(X: np.ndarray | sp.csr_array, Y: np.ndarray, n_jobs: int) -> M3LClassifier:
    return M3LClassifier(C=C, fit_intercept=False, tol=GAP, n_jobs=n_jobs, random_state=0).fit(X, Y)


def liblinear(X: np.ndarray | sp.csr_array, Y: np.ndarray, n_jobs: int, lower: float) -> tuple[float, float, float]:
    """Seconds, tolerance and relative distance from the lower bound: the loosest run within GAP, or the tightest."""
    for tol in (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3):
        svm = LinearSVC(loss="hinge", C=2 * C, fit_intercept=False, tol=tol, random_state=0)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = OneVsRestClassifier(svm, n_jobs=n_jobs).fit(X, Y)
        seconds = time.perf_counter() - start
        coef = np.vstack([one.coef_ for one in model.estimators_])
        distance = objective(X, Y, coef) / lower - 1.0
        if distance <= GAP:
            break
    return seconds, tol, distance


def main() -> list[Row]:
    text = make_text_like(23149, 47236, 103, 76, seed=0)
    rng = np.random.default_rng(0)
    offset = rng.normal(size=(2000, 10)) + 100.0
    labels = (offset @ rng.normal(size=(10, 8)) > 0).astype(np.int8)
    labels = np.where(rng.random(labels.shape) < 0.1, 1 - labels, labels)
    rows = []
    for work, X, Y in (
        ("text-like 23149 x 47236, 103 labels", text.X, text.Y.toarray()),
        ("dense 2000 x 10 around 100, 8 labels", offset, labels),
    ):
        X_peer = sp.csr_matrix(X) if sp.issparse(X) else X
        ours(X[:50], Y[:50], 1)  # compile
        for n_jobs in (1, 2):
            model = ours(X, Y, n_jobs)
            seconds = best_of(3, lambda X=X, Y=Y, n_jobs=n_jobs: ours(X, Y, n_jobs))
            peer_s, tol, distance = liblinear(X_peer, Y, n_jobs, model.dual_objective_)
            rows.append(
                compared(
                    f"{work}, n_jobs={n_jobs}",
                    seconds,
                    "LIBLINEAR",
                    peer_s,
                    our_gap=model.duality_gap_ / model.objective_,
                    peer_distance=distance,
                    peer_tol=tol,
                )
            )
    return rows


if __name__ == "__main__":
    show(TITLE, main())
