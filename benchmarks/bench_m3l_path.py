"""Ten values of C along a warm-started path, as M3LClassifierCV fits them in a fold, against single fits.

The peer is four cold fits at the middle C and the default tolerance; the path is solved to ten times that tolerance.
Run: python benchmarks/bench_m3l_path.py
"""

from __future__ import annotations

import numpy as np

from _common import Row, best_of, compared, show
from comargin import M3LClassifier
from comargin.data import load, make_text_like

TITLE = "M3L, path over C"


def main() -> list[Row]:
    text, bibtex = make_text_like(23149, 47236, 103, 76, seed=0), load("bibtex", split="train")
    rows = []
    for name, data, middle in (("text-like 23149 x 47236, 103 labels", text, 0.5), ("bibtex", bibtex, 0.05)):
        X, Y = data.X, data.Y.toarray()
        M3LClassifier(random_state=0).fit(X[:50], Y[:50])  # compile
        single = best_of(3, lambda X=X, Y=Y, middle=middle: M3LClassifier(C=middle, random_state=0).fit(X, Y))
        for factor in (8.0, 100.0):
            Cs = middle * np.geomspace(1 / factor, factor, 10)

            def path(X: object = X, Y: object = Y, Cs: np.ndarray = Cs) -> None:
                model = M3LClassifier(tol=1e-2, random_state=0, warm_start=True)
                for C in Cs:
                    model.set_params(C=C).fit(X, Y)

            rows.append(
                compared(
                    f"{name}, 10 values of C, {Cs[0]:.2g} to {Cs[-1]:.2g}",
                    best_of(2, path),
                    f"4 fits at C = {middle:g}",
                    4 * single,
                )
            )
    return rows


if __name__ == "__main__":
    show(TITLE, main())
