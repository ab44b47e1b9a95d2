"""Five-fold cross-validation of structured SVMs on scene, alpha chosen by validation inside every training part.

Train and test are joined; features are standardised on the training rows; alpha is the one of the highest micro-F1 on a
quarter of the training part. The times are of everything, the choice of alpha included.
Run: python benchmarks/bench_scene.py
"""

from __future__ import annotations

import time

import numpy as np
from sklearn.metrics import f1_score, hamming_loss
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from _common import Row, show
from comargin import CGMClassifier, StructuredSVMClassifier
from comargin.data import load
from comargin.model_selection import MultilabelStratifiedKFold

TITLE = "scene, 5 folds"
ALPHAS = (2.0, 1.0, 0.5, 0.25)
METHODS = {
    "no edges": lambda alpha: StructuredSVMClassifier(alpha=alpha, graph="none", n_jobs=2, random_state=0),
    "Chow-Liu tree": lambda alpha: StructuredSVMClassifier(alpha=alpha, graph="tree", n_jobs=2, random_state=0),
    "all pairs": lambda alpha: StructuredSVMClassifier(alpha=alpha, graph="full", n_jobs=2, random_state=0),
    "CGM": lambda alpha: CGMClassifier(alpha=alpha, cliques_per_round=2, n_jobs=2, random_state=0),
}


def chosen_model(method: str, X: np.ndarray, Y: np.ndarray) -> Pipeline:
    """Fitted with the alpha that is best on a quarter of the rows."""
    fit, check = next(MultilabelStratifiedKFold(4, shuffle=True, random_state=1).split(X, Y))

    def score(alpha: float) -> float:
        model = make_pipeline(StandardScaler(), METHODS[method](alpha)).fit(X[fit], Y[fit])
        return f1_score(Y[check], model.predict(X[check]), average="micro")

    return make_pipeline(StandardScaler(), METHODS[method](max(ALPHAS, key=score))).fit(X, Y)


def cross_validated(method: str) -> Row:
    parts = [load("scene", split=split) for split in ("train", "test")]
    X, Y = np.vstack([part.X for part in parts]), np.vstack([part.Y for part in parts])
    start, measures = time.perf_counter(), []
    for train, test in MultilabelStratifiedKFold(5, shuffle=True, random_state=0).split(X, Y):
        predicted = chosen_model(method, X[train], Y[train]).predict(X[test])
        measures.append(
            (
                hamming_loss(Y[test], predicted),
                f1_score(Y[test], predicted, average="macro"),
                f1_score(Y[test], predicted, average="micro"),
            )
        )
    seconds = time.perf_counter() - start
    hamming, macro, micro = np.mean(measures, axis=0)
    return {
        "method": method,
        "Hamming loss": f"{hamming:.3f}",
        "macro-F1": f"{macro:.3f}",
        "micro-F1": f"{micro:.3f}",
        "seconds": f"{seconds:.0f}",
    }


def main() -> list[Row]:
    return [cross_validated(method) for method in METHODS]


if __name__ == "__main__":
    show(TITLE, main())
