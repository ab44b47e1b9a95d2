"""What a user waits for before anything is learned: imports, the first fit ever, the first fit of a process.

Run: python benchmarks/bench_start.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile

from _common import Row, best_of, show

TITLE = "Start: each row a fresh process"

FIT = """
import time, numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(500, 20)); Y = (rng.random((500, 5)) < 0.3).astype(int)
from {module} import {name}
model = {create}
model.fit(X, Y)
"""
OURS = FIT.format(module="comargin", name="M3LClassifier", create="M3LClassifier(random_state=0)")
PEER = FIT.format(
    module="sklearn.svm",
    name="LinearSVC",
    create="__import__('sklearn.multiclass').multiclass.OneVsRestClassifier(LinearSVC(loss='hinge', max_iter=10**5))",
)


def process(code: str, cache: str) -> None:
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment, stdout=subprocess.DEVNULL)


def main() -> list[Row]:
    rows = []
    with tempfile.TemporaryDirectory() as cache:
        bare = best_of(5, lambda: process("import numpy", cache))
        peer = best_of(3, lambda: process(PEER, cache))
        timings = {
            "import comargin": (best_of(5, lambda: process("import comargin", cache)), "import numpy", bare),
            "comargin --help": (
                best_of(
                    5, lambda: process("import sys; sys.argv=['comargin','--help']; import comargin.__main__", cache)
                ),
                "import numpy",
                bare,
            ),
            "first fit ever (compiles)": (best_of(1, lambda: process(OURS, cache)), "LinearSVC process", peer),
            "first fit of a process": (best_of(3, lambda: process(OURS, cache)), "LinearSVC process", peer),
        }
        for work, (ours_s, name, peer_s) in timings.items():
            rows.append({"work": work, "ours_s": ours_s, "peer": name, "peer_s": peer_s, "ratio": peer_s / ours_s})
    return rows


if __name__ == "__main__":
    show(TITLE, main())
