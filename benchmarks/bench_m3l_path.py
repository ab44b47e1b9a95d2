"""Ten values of C along the warm-started path of M3LClassifierCV, in one fold of all rows, against single fits.

The peer is four cold fits at the middle C and the default tolerance; the path is solved to 50 times that tolerance, as
M3LClassifierCV does by default for data of this size (bench_m3l_search tells what that costs).
Run: python benchmarks/bench_m3l_path.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from _common import Row, best_of, compared, show
from comargin import M3LClassifier, M3LClassifierCV
from comargin.data import load, make_correlated, make_text_like

TITLE = "M3L, path over C"


def path_against_fits(name: str, X: Any, Y: np.ndarray, middle: float, factor: float, **options: object) -> Row:
    options |= {"random_state": 0}
    single = best_of(3, lambda: M3LClassifier(C=middle, **options).fit(X, Y))
    Cs = middle * np.geomspace(1 / factor, factor, 10)
    fold = [(np.arange(X.shape[0]), np.arange(100))]
    path = best_of(2, lambda: M3LClassifierCV(Cs, cv=fold, refit=False, **options).fit(X, Y))
    work = f"{name}, 10 values of C, {Cs[0]:.2g} to {Cs[-1]:.2g}"
    return compared(work, path, f"4 fits at C = {middle:g}", 4 * single)


def main() -> list[Row]:
    text, bibtex = make_text_like(23149, 47236, 103, 76, seed=0), load("bibtex", split="train")
    dense = make_correlated(3000, 120, 50, positive_rate=0.1, seed=0)
    rows = []
    for name, data, middle in (("text-like 23149 x 47236, 103 labels", text, 0.5), ("bibtex", bibtex, 0.05)):
        M3LClassifier(random_state=0).fit(data.X[:50], data.Y[:50])  # compile
        for factor in (8.0, 100.0):
            rows.append(path_against_fits(name, data.X, data.Y.toarray(), middle, factor))
    rbf = {"kernel": "rbf", "gamma": 1 / 120}
    M3LClassifier(**rbf).fit(dense.X[:50], dense.Y[:50])
    for factor in (8.0, 100.0):
        rows.append(path_against_fits("dense 3000 x 120, 50 labels, rbf", dense.X, dense.Y, 0.5, factor, **rbf))
    return rows


if __name__ == "__main__":
    show(TITLE, main())
