"""All models beside each other on small dense sets, as `comargin.comparison.compare` does it: docs/which_model.md.

Run: python benchmarks/bench_models.py (some twenty minutes on two cores)
"""

from __future__ import annotations

from _common import Row, show
from comargin.comparison import compare

TITLE = "micro-F1 / rows without any error / ranking loss, three folds"
DATASETS = ("flags", "emotions", "scene", "digits")
MODELS = ("m3l", "m3l-rbf", "ssvm-tree", "cgm", "rank-cvm", "lsg21", "prbr", "ovr", "chain", "forest", "knn")
MEASURES = ("micro_f1", "subset_accuracy", "ranking_loss")


def main() -> list[Row]:
    found = compare(list(DATASETS), list(MODELS), folds=3, measures=MEASURES, n_jobs=2)
    means = [found.table(measure).mean for measure in MEASURES]
    return [
        {"model": f"`{model}`"}
        | {name: " / ".join(f"{mean[i, k]:.3f}" for mean in means) for i, name in enumerate(DATASETS)}
        for k, model in enumerate(MODELS)
    ]


if __name__ == "__main__":
    show(TITLE, main())
