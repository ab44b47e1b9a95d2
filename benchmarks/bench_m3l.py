"""Linear M3L against one-vs-rest LIBLINEAR on the same objective, against the paper's own scheme, and against itself.

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

from _common import Row, best_of, cold_seconds, compared, show
from comargin import M3LClassifier
from comargin.data import load, make_text_like

TITLE = "M3L, linear"
GAP = 1e-3

COLD = """
from comargin.data import make_text_like
text = make_text_like(23149, 47236, 103, 76, seed=0)
X, Y = text.X, text.Y.toarray()
start = time.perf_counter()
M3LClassifier(C=0.5, fit_intercept=False, n_jobs=2, random_state=0).fit(X, Y)
"""


def objective(X: np.ndarray | sp.csr_array, Y: np.ndarray, coef: np.ndarray, C: float) -> float:
    margin = (2.0 * Y - 1.0) * (X @ coef.T)
    return 0.5 * float(np.sum(coef**2)) + 2.0 * C * float(np.maximum(0.0, 1.0 - margin).sum())


def ours(X: np.ndarray | sp.csr_array, Y: np.ndarray, C: float, n_jobs: int, **options: object) -> M3LClassifier:
    options = {"tol": GAP} | options
    return M3LClassifier(C=C, fit_intercept=False, n_jobs=n_jobs, random_state=0, **options).fit(X, Y)


def liblinear(
    X: np.ndarray | sp.csr_matrix, Y: np.ndarray, C: float, n_jobs: int, lower: float, gap: float = GAP
) -> tuple[float, float, float]:
    """Seconds, tolerance and relative distance from the lower bound: the loosest run within ``gap``, or the tightest.

    LIBLINEAR's cost is C' = 2 C.
    """
    for tol in (1.0, 0.3, 0.1, 0.03, 0.01, 3e-3, 1e-3):
        svm = LinearSVC(loss="hinge", C=2 * C, fit_intercept=False, tol=tol, random_state=0)
        model = OneVsRestClassifier(svm, n_jobs=n_jobs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            start = time.perf_counter()
            model.fit(X, Y)
            seconds = time.perf_counter() - start
            coef = np.vstack([one.coef_ for one in model.estimators_])
            distance = objective(X, Y, coef, C) / lower - 1.0
            if distance <= gap:
                return min(seconds, best_of(2, lambda model=model: model.fit(X, Y))), tol, distance
    return seconds, tol, distance


def against_liblinear(work: str, X: np.ndarray | sp.csr_array, Y: np.ndarray, C: float, pairs: list) -> list[Row]:
    """One row for every (our n_jobs, their n_jobs)."""
    X_peer = sp.csr_matrix(X) if sp.issparse(X) else X
    model = ours(X, Y, C, 1)
    our_seconds = {jobs: best_of(5, lambda jobs=jobs: ours(X, Y, C, jobs)) for jobs in {a for a, _ in pairs}}
    theirs = {jobs: liblinear(X_peer, Y, C, jobs, model.dual_objective_) for jobs in {b for _, b in pairs}}
    rows = []
    for a, b in pairs:
        seconds, tol, distance = theirs[b]
        details = {
            "our_gap": model.duality_gap_ / model.objective_,
            "peer_distance": distance,
            "peer_tol": tol,
        }
        rows.append(compared(f"{work}, n_jobs={a}", our_seconds[a], f"LIBLINEAR, n_jobs={b}", seconds, **details))
    return rows


def dense_correlation(Y: np.ndarray) -> np.ndarray:
    S = 2.0 * Y - 1.0
    return 0.5 * np.eye(Y.shape[1]) + S.T @ S / (2.0 * len(S))


def main() -> list[Row]:
    text = make_text_like(23149, 47236, 103, 76, seed=0)
    X, Y = text.X, text.Y.toarray()
    R = dense_correlation(Y)
    for prior in (None, R):
        ours(X[:50], Y[:50], 0.5, 1, label_correlation=prior)  # compile
    name = "text-like 23149 x 47236, 103 labels"
    rows = against_liblinear(f"{name}, R = I, gap 1e-3", X, Y, 0.5, [(1, 1), (2, 1), (2, 2)])
    rows[0]["cold_s"] = cold_seconds(COLD)

    for jobs in (1, 2):
        independent = best_of(5, lambda jobs=jobs: ours(X, Y, 0.5, jobs, tol=1e-2))
        dense = best_of(3, lambda jobs=jobs: ours(X, Y, 0.5, jobs, tol=1e-2, label_correlation=R))
        rows.append(compared(f"{name}, dense R, gap 1e-2, n_jobs={jobs}", dense, "our own R = I", independent))
    for label, prior in (("R = I", None), ("dense R", R)):
        default = best_of(3, lambda prior=prior: ours(X, Y, 0.5, 1, tol=1e-2, label_correlation=prior))
        paper = best_of(1, lambda prior=prior: ours(X, Y, 0.5, 1, tol=1e-2, label_correlation=prior, solver="dcd"))
        rows.append(compared(f"{name}, {label}, gap 1e-2, n_jobs=1", default, 'solver="dcd"', paper))

    seconds = {}
    for n_labels in (25, 50, 100, 200, 400):
        part = make_text_like(5000, 20000, n_labels, 60, seed=0)
        labels = part.Y.toarray()
        prior = dense_correlation(labels)
        ours(part.X[:50], labels[:50], 0.5, 1, label_correlation=prior)
        seconds[n_labels] = best_of(
            3,
            lambda part=part, labels=labels, prior=prior: ours(
                part.X, labels, 0.5, 1, tol=1e-2, label_correlation=prior
            ),
        )
    exponent = np.polyfit(np.log(list(seconds)), np.log(list(seconds.values())), 1)[0]
    rows.append(
        compared(
            f"dense R, 400 labels (text-like 5000 x 20000; fitted: L^{exponent:.2f})",
            seconds[400],
            "25 labels, times 16^1.3",
            seconds[25] * 16**1.3,
            seconds_by_labels=seconds,
        )
    )

    bibtex = load("bibtex", split="train")
    rows += against_liblinear("bibtex, C' = 0.1", bibtex.X, bibtex.Y.toarray(), 0.05, [(2, 2)])

    rng = np.random.default_rng(0)
    offset = rng.normal(size=(2000, 10)) + 100.0
    labels = (offset @ rng.normal(size=(10, 8)) > 0).astype(np.int8)
    labels = np.where(rng.random(labels.shape) < 0.1, 1 - labels, labels)
    rows += against_liblinear("dense 2000 x 10 around 100, 8 labels", offset, labels, 0.5, [(1, 1), (2, 2)])
    return rows


if __name__ == "__main__":
    show(TITLE, main())
