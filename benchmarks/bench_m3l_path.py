"""Ten values of C along the warm-started path of M3LClassifierCV, in one fold of all rows, against single fits.

The values lie around the middle of the default ones. The peer is four cold fits at the middle C and the default
tolerance; the path is solved to 50 times that tolerance, as M3LClassifierCV does by default for data of this size
(bench_m3l_search tells what that costs).
Run: python benchmarks/bench_m3l_path.py
"""

from __future__ import annotations

from typing import Any

import numpy as np

from _common import Row, best_of, compared, show
from comargin import M3LClassifier, M3LClassifierCV
from comargin.data import load, make_correlated, make_text_like

TITLE = "M3L, path over C"


def path_against_fits(name: str, X: Any, Y: np.ndarray, factor: float | None, **options: object) -> Row:
    """Values of C up to ``factor`` times the middle one and down to as small a part of it, or the default ones."""
    options |= {"random_state": 0}
    fold = [(np.arange(X.shape[0]), np.arange(100))]
    Cs = M3LClassifierCV(10, cv=fold, refit=False, **options).fit(X, Y).Cs_
    middle = float(f"{np.sqrt(Cs[0] * Cs[-1]):.2g}")
    if factor is not None:
        Cs = middle * np.geomspace(1 / factor, factor, 10)
    single = best_of(3, lambda: M3LClassifier(C=middle, **options).fit(X, Y))
    path = best_of(2, lambda: M3LClassifierCV(Cs, cv=fold, refit=False, **options).fit(X, Y))
    which = f"10 values of C, {Cs[0]:.2g} to {Cs[-1]:.2g}" + (" (the default)" if factor is None else "")
    return compared(f"{name}, {which}", path, f"4 fits at C = {middle:g}", 4 * single)


def main() -> list[Row]:
    text, bibtex = make_text_like(23149, 47236, 103, 76, seed=0), load("bibtex", split="train")
    dense = make_correlated(3000, 120, 50, positive_rate=0.1, seed=0)
    rbf = {"kernel": "rbf", "gamma": 1 / 120}
    rows = []
    for name, X, Y, options in (
        ("text-like 23149 x 47236, 103 labels", text.X, text.Y.toarray(), {}),
        ("bibtex", bibtex.X, bibtex.Y.toarray(), {}),
        ("dense 3000 x 120, 50 labels, rbf", dense.X, dense.Y, rbf),
    ):
        M3LClassifier(random_state=0, **options).fit(X[:50], Y[:50])  # compile
        for factor in (8.0, None):
            rows.append(path_against_fits(name, X, Y, factor, **options))
    return rows


if __name__ == "__main__":
    show(TITLE, main())
