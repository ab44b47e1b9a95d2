"""LSG21: our solver against the paper's reweighting, both until the objective is within 1e-5 of the optimum.

Also beside scikit-learn's MultiTaskLasso with as many features in use: another penalty (one group per feature for all
labels), so its time is a scale, not a race. The generated features have 40 common factors; weights are sparse.
Run: python benchmarks/bench_lsg21.py
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import MultiTaskLasso
from sklearn.preprocessing import StandardScaler

from _common import Row, best_of, compared, show
from comargin import LSG21Classifier
from comargin.core.result import Checkpoint
from comargin.core.validation import validate_training
from comargin.data import load
from comargin.lsg21.classifier import largest_alpha

TITLE = "LSG21, seconds until the objective is within 1e-5 of the optimum"
WITHIN = 1e-5


def scene() -> tuple[np.ndarray, np.ndarray]:
    parts = [load("scene", split=split) for split in ("train", "test")]
    X = StandardScaler().fit_transform(np.vstack([part.X for part in parts]))
    return X, np.vstack([part.Y for part in parts])


def generated(n_samples: int = 8000, n_features: int = 512, n_labels: int = 20) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(n_samples, 40))
    X = 0.5 * factors @ rng.normal(size=(40, n_features)) + rng.normal(size=(n_samples, n_features))
    W = np.where(rng.random((n_features, n_labels)) < 0.06, rng.normal(size=(n_features, n_labels)), 0.0)
    W = W @ (np.eye(n_labels) + 0.5 * (rng.random((n_labels, n_labels)) < 0.2))  # labels share features
    scores = X @ W
    noise = rng.normal(size=scores.shape)
    return X, (scores / scores.std(axis=0) + noise > 0.8).astype(int)


def steps_needed(X: np.ndarray, Y: np.ndarray, alpha: float, target: float, solver: str) -> int:
    """The fewest steps after which the objective is at most ``target``."""

    def fitted(steps: int, callback: Callable[[Checkpoint], bool] | None = None) -> LSG21Classifier:
        return LSG21Classifier(alpha, solver=solver, tol=0.0, max_iter=steps, callback=callback).fit(X, Y)

    points = fitted(1000, lambda point: point.primal <= target).history_  # the last one is the first that is there
    low, high = points[-2].n_iter, points[-1].n_iter
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fitted(middle).objective_ <= target else (middle, high)
    return high


def lasso_with(X: np.ndarray, Y: np.ndarray, n_used: int) -> MultiTaskLasso:
    """MultiTaskLasso with about as many features in use."""
    low, high = -4.0, 0.0  # log10 of alpha
    model = MultiTaskLasso(tol=1e-2, warm_start=True)
    for _ in range(8):
        model.set_params(alpha=10.0 ** ((low + high) / 2)).fit(X, Y)
        used = int(np.count_nonzero(model.coef_.any(axis=0)))
        if used == n_used:
            break
        low, high = ((low + high) / 2, high) if used > n_used else (low, (low + high) / 2)
    return MultiTaskLasso(alpha=model.alpha, tol=1e-6)


def measured(name: str, X: np.ndarray, Y: np.ndarray, fraction: float) -> list[Row]:
    """Both comparisons at one alpha."""
    learner = LSG21Classifier()
    alpha = fraction * largest_alpha(learner, validate_training(learner, X, Y))
    best = LSG21Classifier(alpha, tol=1e-8).fit(X, Y)
    models = {}
    for solver in ("auto", "irls"):
        steps = steps_needed(X, Y, alpha, (1.0 + WITHIN) * best.objective_, solver)
        models[solver] = LSG21Classifier(alpha, solver=solver, tol=0.0, max_iter=steps)
    # In turns: both see the machine in the same moods.
    turns = [{name: best_of(5, lambda m=model: m.fit(X, Y)) for name, model in models.items()} for _ in range(4)]
    seconds = {name: min(turn[name] for turn in turns) for name in models}
    certified = best_of(5, lambda: LSG21Classifier(alpha).fit(X, Y))
    used = int(np.count_nonzero(best.coef_.any(axis=0)))
    lasso = lasso_with(X, Y, used)
    lasso_s = best_of(1, lambda: lasso.fit(X, Y))
    work = f"LSG21, {name}, alpha = {fraction:g} alpha_max"
    return [
        compared(f"{work}, objective within 1e-5", seconds["auto"], 'solver="irls"', seconds["irls"]),
        compared(f"{work}, certified to 1e-6", certified, f"MultiTaskLasso, {used} features too, tol=1e-6", lasso_s),
    ]


def main() -> list[Row]:
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # steps are counted on purpose
        for name, (X, Y) in (
            ("scene 2407 x 294, 6 labels", scene()),
            ("generated 8000 x 512, 20 labels", generated()),
        ):
            for fraction in (0.1, 0.05, 0.01):
                rows += measured(name, X, Y, fraction)
    return rows


if __name__ == "__main__":
    show(TITLE, main())
