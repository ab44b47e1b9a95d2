"""CPU times of the same fits by two versions of the sources, taken in turns on one machine.

Every version runs in a process of its own; of each fit the least of several CPU times counts, so that other work on the
machine matters little and meets both alike. A ratio above 1 says that the sources of this folder are faster.
Run: python benchmarks/before_after.py OTHER/src [PART_OF_A_NAME ...]
"""

from __future__ import annotations

import multiprocessing as mp
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SRC = Path(__file__).resolve().parents[1] / "src"
REPEATS = 5
ENOUGH_SECONDS = 60.0  # a pair of versions is repeated as long as this is not spent


def fits() -> dict[str, Callable[[], Any]]:
    """Fits by name; data are loaded and scaled once."""
    from sklearn.preprocessing import StandardScaler

    import comargin as cm
    from comargin.data import load, make_text_like

    def dense(name: str) -> tuple[Any, Any]:
        data = load(name)
        return StandardScaler().fit_transform(data.X), data.Y if not hasattr(data.Y, "toarray") else data.Y.toarray()

    text = make_text_like(23149, 47236, 103, 76, seed=0)
    bibtex, yeast, scene, emotions = load("bibtex"), dense("yeast"), dense("scene"), dense("emotions")
    sparse = (text.X, text.Y.toarray()), (bibtex.X, bibtex.Y.toarray() if hasattr(bibtex.Y, "toarray") else bibtex.Y)
    bare = {"fit_intercept": False, "random_state": 0}
    rbf = {"kernel": "rbf", "random_state": 0}
    half = sparse[1][0][::2], sparse[1][1][::2]
    work = {
        "m3l text, 1 thread": (cm.M3LClassifier(0.5, n_jobs=1, **bare), sparse[0]),
        "m3l text, 2 threads": (cm.M3LClassifier(0.5, n_jobs=2, **bare), sparse[0]),
        "m3l bibtex": (cm.M3LClassifier(0.1, n_jobs=1, **bare), sparse[1]),
        "m3l bibtex, R": (cm.M3LClassifier(0.1, label_correlation="train", tol=1e-2, n_jobs=1, **bare), sparse[1]),
        "m3l rbf yeast": (cm.M3LClassifier(1.0, n_jobs=1, **rbf), yeast),
        "m3l rbf yeast, R": (cm.M3LClassifier(1.0, label_correlation="train", n_jobs=1, **rbf), yeast),
        "rank-cvm yeast": (cm.RankCVMClassifier(1.0, n_jobs=1), yeast),
        "rank-svm emotions": (cm.RankSVMClassifier(1.0, n_jobs=1), emotions),
        "lsg21 scene, alpha 10": (cm.LSG21Classifier(10.0), scene),
        "lsg21 scene, alpha 1": (cm.LSG21Classifier(1.0), scene),
        "lsg21 scene, alpha 0.1": (cm.LSG21Classifier(0.1), scene),
        "structured tree emotions": (cm.StructuredSVMClassifier(0.1, random_state=0), emotions),
        "structured tree scene": (cm.StructuredSVMClassifier(0.1, random_state=0), scene),
        "cgm emotions": (cm.CGMClassifier(0.1, max_cliques=10, random_state=0), emotions),
        "cgm scene": (cm.CGMClassifier(0.1, max_cliques=10, random_state=0), scene),
        "prml yeast": (cm.PrMLClassifier(0.1, random_state=0), yeast),
        "prbr half of bibtex": (cm.PrBRClassifier(1.0, random_state=0), half),
    }
    return {name: lambda learner=learner, data=data: learner.fit(*data) for name, (learner, data) in work.items()}


def serve(pipe: Connection, src: str, parts: list[str]) -> None:
    """Time the fits that the other end of the pipe asks for."""
    sys.path.insert(0, src)
    import comargin

    assert str(Path(comargin.__file__).parents[1]) == src, comargin.__file__
    chosen = {name: fit for name, fit in fits().items() if not parts or any(part in name for part in parts)}
    pipe.send(list(chosen))
    while (name := pipe.recv()) is not None:
        began = time.process_time()
        learner = chosen[name]()
        pipe.send((time.process_time() - began, learner.n_iter_))


def main() -> None:
    other, parts = str(Path(sys.argv[1]).resolve()), sys.argv[2:]
    spawn, ends = mp.get_context("spawn"), []
    for src in (other, str(SRC)):
        end, far = spawn.Pipe()
        spawn.Process(target=serve, args=(far, src, parts)).start()  # not a daemon: those may have one job only
        ends.append(end)
    names, _ = (end.recv() for end in ends)
    print(f"{'fit':<28}{'before':>10}{'now':>10}{'ratio':>8}  iterations")
    for name in names:
        seconds: list[list[float]] = [[], []]
        iterations = [0, 0]
        began = time.perf_counter()
        for turn in range(REPEATS + 1):
            for version, end in enumerate(ends):
                end.send(name)
                spent, iterations[version] = end.recv()
                seconds[version].append(spent)
            if turn > 0 and time.perf_counter() - began > ENOUGH_SECONDS:
                break
        before, now = (min(times[1:]) for times in seconds)  # the first fit may compile
        print(
            f"{name:<28}{before:>10.3f}{now:>10.3f}{before / now:>8.2f}  {iterations[0]} / {iterations[1]}", flush=True
        )
    for end in ends:
        end.send(None)


if __name__ == "__main__":
    main()
