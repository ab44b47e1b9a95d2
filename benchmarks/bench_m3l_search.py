"""How exactly the folds of M3LClassifierCV must be solved: the C that a coarse search chooses, judged by a fine one.

Default values of C, five folds of the training rows, micro-F1. A search to a relative gap of 1e-3 gives the scores that
count; "lost" is how much lower the C chosen at a coarser gap stands there, "fold sd" the standard deviation of the best
score over the folds.
Run: python benchmarks/bench_m3l_search.py
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp

from _common import Row, show
from comargin import M3LClassifierCV
from comargin.data import load

TITLE = "M3L, tolerance of the search"
SETS = ("bibtex", "digits", "emotions", "enron", "flags", "scene", "yeast")
FINE, COARSE = 1e-3, (1e-2, 5e-2, 1e-1)


def search(name: str, path_tol: float) -> tuple[M3LClassifierCV, float]:
    """A fitted search, and its seconds."""
    data = load(name, split="train")
    Y = data.Y.toarray() if sp.issparse(data.Y) else np.asarray(data.Y)
    start = time.perf_counter()
    model = M3LClassifierCV(cv=5, refit=False, path_tol=path_tol, random_state=0).fit(data.X, Y)
    return model, time.perf_counter() - start


def main() -> list[Row]:
    rows: list[Row] = []
    for name in SETS:
        search(name, 1e-1)  # compile
        fine, seconds = search(name, FINE)
        scores = fine.scores_.mean(axis=0)
        row: Row = {
            "data": name,
            "fold sd": f"{fine.scores_[:, fine.best_index_].std():.4f}",
            f"seconds to {FINE:g}": f"{seconds:.1f}",
        }
        for path_tol in COARSE:
            model, seconds = search(name, path_tol)
            lost = scores[fine.best_index_] - scores[model.best_index_]
            row |= {f"to {path_tol:g}": f"{seconds:.1f}", f"lost at {path_tol:g}": f"{lost:.4f}"}
        rows.append(row)
    return rows


if __name__ == "__main__":
    show(TITLE, main())
