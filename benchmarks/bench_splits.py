"""Stratified folds of 100000 x 100 labels: seconds and label balance, against iterative-stratification.

Run: python benchmarks/bench_splits.py
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from iterstrat.ml_stratifiers import MultilabelStratifiedKFold as PeerKFold
from scipy import sparse
from sklearn.model_selection import KFold

from _common import Row, compared, show
from comargin.model_selection import MultilabelStratifiedKFold, label_imbalance

TITLE = "Stratified folds (imbalance: mean distance from a label's share, in rows)"
N_SPLITS = 5
N_LABELS = 100


def make_labels(kind: str, n_samples: int, seed: int = 0) -> np.ndarray:
    """Label indicators of three shapes, each about 3 to 4 labels a row."""
    rng = np.random.default_rng(seed)
    if kind == "even":
        return (rng.random((n_samples, N_LABELS)) < 0.03).astype(np.int8)
    if kind == "skewed":
        return (rng.random((n_samples, N_LABELS)) < 0.7 / np.arange(1, N_LABELS + 1)).astype(np.int8)
    profile = rng.random((20, N_LABELS)) ** 30
    topic = rng.integers(20, size=(n_samples, 2))
    return (rng.random((n_samples, N_LABELS)) < profile[topic].max(axis=1)).astype(np.int8)


def timed_folds(splitter: Any, Y: Any, repeat: int) -> tuple[float, list[np.ndarray]]:
    seconds = []
    for _ in range(repeat):
        start = time.perf_counter()
        folds = [test for _, test in splitter.split(np.empty(Y.shape[0]), Y)]
        seconds.append(time.perf_counter() - start)
    return min(seconds), folds


def main() -> list[Row]:
    rows = []
    for n_samples in (10_000, 100_000):
        for kind in ("even", "skewed", "topics"):
            Y = make_labels(kind, n_samples)
            thin = sparse.csr_array(Y)
            ours_s, ours = timed_folds(
                MultilabelStratifiedKFold(N_SPLITS, shuffle=True, random_state=0), thin, repeat=3
            )
            # The peer takes dense labels only.
            peer_s, peer = timed_folds(PeerKFold(N_SPLITS, shuffle=True, random_state=0), Y, repeat=1)
            _, plain = timed_folds(KFold(N_SPLITS, shuffle=True, random_state=0), Y, repeat=1)
            rows.append(
                compared(
                    f"{N_SPLITS} folds, {n_samples} x {N_LABELS} {kind}",
                    ours_s,
                    "iterative-stratification",
                    peer_s,
                    ours_imbalance=label_imbalance(thin, ours),
                    peer_imbalance=label_imbalance(thin, peer),
                    kfold_imbalance=label_imbalance(thin, plain),
                    ours_size_range=max(map(len, ours)) - min(map(len, ours)),
                    peer_size_range=max(map(len, peer)) - min(map(len, peer)),
                )
            )
    return rows


if __name__ == "__main__":
    show(TITLE, main())
