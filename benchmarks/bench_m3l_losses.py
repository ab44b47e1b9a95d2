"""Logistic and squared hinge loss of linear M3L against scikit-learn's one-vs-rest on the same objective.

LogisticRegression is run with each of its solvers that fits, LinearSVC with its own; each at several tolerances. The
fastest run whose objective is within the wanted relative gap of ours (certified) is taken; a solver is given up where
one label shows that it is slower than another. Run: python benchmarks/bench_m3l_losses.py
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import LinearSVC

from _common import Row, best_of, compared, show
from comargin import M3LClassifier
from comargin.data import load, make_text_like

TITLE = "M3L, linear, smooth losses"
GAP = 1e-3
# Each solver from loose to tight: its tolerances are of gradients, each in its own measure.
TOLERANCES = {
    "lbfgs": (1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6),
    "newton-cg": (1e-3, 1e-4, 1e-5, 1e-6),
    "liblinear": (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3),
}
Matrix = np.ndarray | sp.csr_array


def objective(X: Matrix, Y: np.ndarray, coef: np.ndarray, C: float, loss: str) -> float:
    margin = (2.0 * Y - 1.0) * (X @ coef.T)
    losses = np.logaddexp(0.0, -margin) if loss == "logistic" else np.maximum(0.0, 1.0 - margin) ** 2
    return 0.5 * float(np.sum(coef**2)) + 2.0 * C * float(losses.sum())


def ours(X: Matrix, Y: np.ndarray, C: float, loss: str, n_jobs: int) -> M3LClassifier:
    model = M3LClassifier(C=C, loss=loss, fit_intercept=False, tol=GAP, n_jobs=n_jobs, random_state=0)
    return model.fit(X, Y)


def first_good(make: Callable[[float], Any], tolerances: tuple[float, ...], X: Any, Y: np.ndarray, C: float, loss: str,
               lower: float) -> tuple[float, float, float]:  # fmt: skip
    """Seconds, tolerance and relative distance from the bound: the loosest run within the gap, or the tightest."""
    for tol in tolerances:
        model = make(tol)
        start = time.perf_counter()
        model.fit(X, Y)
        seconds = time.perf_counter() - start
        distance = objective(X, Y, np.vstack([one.coef_ for one in model.estimators_]), C, loss) / lower - 1.0
        if distance <= GAP:
            return min(seconds, best_of(1, lambda model=model: model.fit(X, Y))), tol, distance
    return seconds, tol, distance


def peers(X: Any, Y: np.ndarray, C: float, loss: str, n_jobs: int, lower: float) -> tuple[str, float, float, float]:
    """The fastest peer: its name, seconds, tolerance and distance."""
    common: dict[str, Any] = {"C": 2.0 * C, "fit_intercept": False, "max_iter": 10_000}
    if loss == "squared_hinge":
        dual = "auto"
        makes = {"LinearSVC": (lambda tol: LinearSVC(dual=dual, tol=tol, **common), (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3))}
    else:
        makes = {
            f"LogisticRegression, {solver}": (
                lambda tol, solver=solver: LogisticRegression(solver=solver, tol=tol, **common),
                tolerances,
            )
            for solver, tolerances in TOLERANCES.items()
        }
    few = np.argsort(-Y.sum(axis=0), kind="stable")[:: max(Y.shape[1] // 5, 1)][:5]  # to see which solver is fastest
    model = ours(X, Y[:, few], C, loss, 1)
    times = {
        name: first_good(lambda tol, make=make: OneVsRestClassifier(make(tol)), tolerances, X, Y[:, few], C, loss,
                         model.dual_objective_)
        for name, (make, tolerances) in makes.items()
    }  # fmt: skip
    reached = {name: found for name, found in times.items() if found[2] <= GAP} or times
    best = min(reached, key=lambda name: reached[name][0])
    make, tolerances = makes[best]
    from_here = tolerances[tolerances.index(reached[best][1]) :]
    found = first_good(lambda tol: OneVsRestClassifier(make(tol), n_jobs=n_jobs), from_here, X, Y, C, loss, lower)
    return best, *found


def rows_of(work: str, X: Matrix, Y: np.ndarray, C: float, loss: str) -> list[Row]:
    """Our one and two threads against the peer's one job, and two against two."""
    X_peer = sp.csr_matrix(X) if sp.issparse(X) else X
    model = ours(X, Y, C, loss, 1)
    seconds = {jobs: best_of(3, lambda jobs=jobs: ours(X, Y, C, loss, jobs)) for jobs in (1, 2)}
    rows = []
    for their_jobs, our_jobs in ((1, (1, 2)), (2, (2,))):
        name, theirs, tol, distance = peers(X_peer, Y, C, loss, their_jobs, model.dual_objective_)
        for jobs in our_jobs:
            details = {"peer_distance": distance, "peer_tol": tol, "our_gap": model.duality_gap_ / model.objective_}
            what = f"{work}, {loss}, n_jobs={jobs}"
            rows.append(compared(what, seconds[jobs], f"{name}, n_jobs={their_jobs}", theirs, **details))
    return rows


def main() -> list[Row]:
    text = make_text_like(23149, 47236, 103, 76, seed=0)
    sets: list[tuple[str, Matrix, np.ndarray, float]] = [
        ("text-like 23149 x 47236, 103 labels", text.X, text.Y.toarray(), 0.5)
    ]
    for name, C in (("bibtex", 0.05), ("delicious", 0.05), ("mediamill_small", 0.5)):
        data = load(name)
        Y = data.Y.toarray() if sp.issparse(data.Y) else np.asarray(data.Y)
        sets.append((name, data.X, Y, C))
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        warnings.simplefilter("ignore", UserWarning)  # labels without positives
        for name, X, Y, C in sets:
            Y = Y[:, (Y.any(axis=0)) & (~Y.all(axis=0))]
            for loss in ("logistic", "squared_hinge"):
                ours(X[:50], Y[:50], C, loss, 1)  # compile
                rows += rows_of(name, X, Y, C, loss)
    return rows


if __name__ == "__main__":
    show(TITLE, main())
