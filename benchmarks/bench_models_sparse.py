"""Models beside each other on enron, 1702 texts with 53 labels, most of them rare: docs/which_model.md.

Run: python benchmarks/bench_models_sparse.py (some minutes on two cores)
"""

from __future__ import annotations

from _common import Row, show
from comargin.comparison import compare

TITLE = "enron, two folds"
MODELS = ("m3l", "m3l-rbf", "rank-cvm", "ovr", "ovr-svm", "forest", "knn")
MEASURES = {"micro_f1": "micro-F1", "macro_f1": "macro-F1", "ranking_loss": "ranking loss", "average_precision": "AP"}


def main() -> list[Row]:
    found = compare("enron", list(MODELS), folds=2, measures=list(MEASURES), n_jobs=2)
    means = {heading: found.table(measure).mean for measure, heading in MEASURES.items()}
    return [
        {"model": f"`{model}`"} | {heading: f"{mean[0, k]:.3f}" for heading, mean in means.items()}
        for k, model in enumerate(MODELS)
    ]


if __name__ == "__main__":
    show(TITLE, main())
