"""Promises by their definitions: rows to try them on, losses of label sets, and the bets in plain Python."""

import numpy as np

from comargin.decisions import _cut_tests as promise


def draw(rng, n, n_labels=5):
    """Rows of which some have no label, with probabilities that are right."""
    p = 1.0 / (1.0 + np.exp(1.0 + rng.normal(size=(n, 1)) - 2.0 * rng.normal(size=(n, n_labels))))
    return p, (rng.random(p.shape) < p).astype(int)


def losses_of(measure, on, true):
    """Loss of every row by its definition; NaN where the row does not count."""
    hits, n_on, n_true = (on & true).sum(axis=1), on.sum(axis=1), true.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "recall": (n_true - hits) / n_true,
            "precision": (n_on - hits) / n_on,
            "false tags per row": (n_on - hits).astype(float),
        }[measure]


def naive_wins(loss, alpha, top, spread, delta):
    w = 0.9 * delta
    for one, s in zip(loss, spread, strict=True):
        if one < 0.0:
            continue
        height = np.interp(w, promise._GRID, promise._BELL)
        w += min(height / s, w / (top - alpha), (1.0 - w) / alpha) * (alpha - one)
        if w >= 0.9:
            return True
    return False
