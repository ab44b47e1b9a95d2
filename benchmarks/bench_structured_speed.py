"""Structured SVMs where they are hard to solve: few rows, small alpha, kernels, many labels; to a gap of 1e-2.

CPU seconds, which other work on the machine changes less than wall time; the first fit compiles and is not counted.
``bench_cgm.py`` has bibtex with 100 edges.
Run: python benchmarks/bench_structured_speed.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from _common import Row, show
from comargin import CGMClassifier, StructuredSVMClassifier
from comargin.data import load

TITLE = "Structured SVMs, gap 1e-2"
ALPHAS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)


def generated(n_labels: int = 19, n_samples: int = 322, n_features: int = 260) -> tuple[np.ndarray, np.ndarray]:
    """Nearly separable rows with rare labels that depend on each other, features standardised."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(n_samples, 30))
    X = hidden @ rng.normal(size=(30, n_features)) + rng.normal(size=(n_samples, n_features))
    scores = hidden @ rng.normal(size=(30, n_labels)) * 0.4
    scores += rng.normal(size=(n_samples, 3)) @ rng.normal(size=(3, n_labels)) + rng.normal(size=scores.shape)
    cuts = np.quantile(scores, 1.0 - np.linspace(0.02, 0.1, n_labels), axis=0).diagonal()
    return StandardScaler().fit_transform(X), (scores > cuts).astype(int)


def rows_of(name: str, n_samples: int) -> tuple[np.ndarray, np.ndarray]:
    """Some rows of a dense data set, standardised."""
    data = load(name)
    rows = np.random.default_rng(0).permutation(len(data.Y))[:n_samples]
    return StandardScaler().fit_transform(np.asarray(data.X)[rows]), np.asarray(data.Y)[rows]


def measured(work: str, model: Any, X: Any, Y: Any) -> Row:
    """Cost and certificate of one fit."""
    start = time.process_time()
    model.set_params(tol=1e-2, random_state=0).fit(X, Y)
    seconds = time.process_time() - start
    return {
        "work": work,
        "CPU seconds": f"{seconds:.2f}",
        "passes": str(model.n_iter_),
        "gap": f"{model.duality_gap_ / model.objective_:.4f}",
    }


def main() -> list[Row]:
    X, Y = generated()
    StructuredSVMClassifier(1e-2, tol=0.1).fit(X[:100, :30], Y[:100])
    rows = [measured(f"tree 322 x 260, 19 labels, alpha {a:g}", StructuredSVMClassifier(a), X, Y) for a in ALPHAS]
    for n_labels in (5, 10, 20, 50):
        X, Y = generated(n_labels)
        rows.append(measured(f"tree 322 x 260, {n_labels} labels, alpha 0.01", StructuredSVMClassifier(1e-2), X, Y))
    X, Y = rows_of("scene", 1600)
    cgm = CGMClassifier(1e-4, kernel="rbf", cliques_per_round=15, max_cliques=15, round_tol=0.0)
    rows.append(measured("CGM rbf, scene 1600 rows, 15 edges, alpha 1e-4", cgm, X, Y))
    X, Y = rows_of("yeast", 1600)
    for alpha in (1e-2, 1e-3, 1e-4):
        tree = StructuredSVMClassifier(alpha, kernel="rbf")
        rows.append(measured(f"tree rbf, yeast 1600 rows, alpha {alpha:g}", tree, X, Y))
    return rows


if __name__ == "__main__":
    show(TITLE, main())
