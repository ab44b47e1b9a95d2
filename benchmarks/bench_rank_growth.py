"""How the time of Rank-CVM grows with the number of pairs, over the data sets at hand, with the paper's gamma and C.

The power is the slope of log seconds over log pairs by least squares, as the paper fits it (1.85 for its Rank-CVM).
Run: python benchmarks/bench_rank_growth.py
"""

from __future__ import annotations

import numpy as np

from _common import Row, best_of, show
from bench_rank_tables import fitted, train_and_test

TITLE = "Rank-CVM, seconds against pairs"


def main() -> list[Row]:
    rows, pairs, seconds = [], [], []
    for name in ("emotions", "scene", "plant", "genbase", "yeast"):
        X, Y, _, _ = train_and_test(name)
        on = Y.sum(axis=1)
        pairs.append(int(np.sum(on * (Y.shape[1] - on))))
        seconds.append(best_of(5, lambda X=X, Y=Y, name=name: fitted(name, "Rank-CVM", X, Y, n_jobs=2)))
        rows.append({"data": name, "rows": str(len(X)), "pairs": str(pairs[-1]), "seconds": f"{seconds[-1]:.3f}"})
    power = np.polyfit(np.log(pairs), np.log(seconds), 1)[0]
    return [*rows, {"data": "power", "rows": "", "pairs": "", "seconds": f"{power:.2f}"}]


if __name__ == "__main__":
    show(TITLE, main())
