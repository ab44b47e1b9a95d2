"""PrBR beside M3L without correlation on the same data, and PrML's times: half of the rows, C = 0.01, 0.1 and 1.

M3L at C / 2 is the same problem with free slacks, and its multipliers are at most C. Those of PrBR are not bounded: the
largest of a label is 1.6 to 57 times C in the median. So PrBR stands beside M3L at the cost where multipliers may be as
large as that, too.
Run: python benchmarks/bench_prml.py
"""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from _common import Row, best_of, compared, show
from comargin import M3LClassifier, PrBRClassifier, PrMLClassifier
from comargin.data import load

TITLE = "PrBR and PrML, seconds to a relative gap of 1e-3"


def half(name: str) -> tuple[np.ndarray | sp.csr_array, np.ndarray]:
    """Half of the rows of a set, dense features standardised."""
    data = load(name)
    rows = np.random.default_rng(0).permutation(data.X.shape[0])[: data.X.shape[0] // 2]
    X, Y = data.X[rows], data.Y[rows]
    return (X if sp.issparse(X) else StandardScaler().fit_transform(X)), Y


def largest_multiplier(C: float, X: np.ndarray | sp.csr_array, Y: np.ndarray) -> float:
    """The largest multiplier of a margin in PrBR's solution: its median over the labels."""
    model = PrBRClassifier(C, random_state=0, n_jobs=2, warm_start=True).fit(X, Y)  # which keeps them
    return float(np.median(model._dual_start.dual.A.max(axis=0)))


def main() -> list[Row]:
    rows = []
    for name in ("yeast", "enron", "bibtex"):
        X, Y = half(name)
        for C in (0.01, 0.1, 1.0):
            prbr = PrBRClassifier(C, random_state=0, n_jobs=2)
            m3l = M3LClassifier(C / 2, random_state=0, n_jobs=2)
            work = f"PrBR, half of {name}, C = {C:g}, gap 1e-3, n_jobs=2"
            as_large = 0.5 * largest_multiplier(C, X, Y)
            m3l_there = M3LClassifier(as_large, random_state=0, n_jobs=2)
            seconds = [best_of(3, lambda model=model, X=X, Y=Y: model.fit(X, Y)) for model in (prbr, m3l, m3l_there)]
            rows.append(compared(work, seconds[0], "three M3L fits, R = I", 3.0 * seconds[1]))
            peer = f"three M3L fits with multipliers as large as its median label's, C = {as_large:.2g}"
            rows.append(compared(work, seconds[0], peer, 3.0 * seconds[2]))
        prml = PrMLClassifier(0.01, random_state=0, n_jobs=2)
        limit = {"yeast": 10.0, "enron": 60.0, "bibtex": 300.0}[name]
        work = f"PrML, half of {name}, C = 0.01, k = 0.9 L, tol 1e-3, n_jobs=2"
        rows.append(compared(work, best_of(1, lambda model=prml, X=X, Y=Y: model.fit(X, Y)), "the time allowed", limit))
    return rows


if __name__ == "__main__":
    show(TITLE, main())
