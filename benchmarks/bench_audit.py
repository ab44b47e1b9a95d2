"""Planted label errors among the first n found, n the number planted, against cleanlab's multi-label filter.

Single errors: 5 % of all cells are flipped at random. Exchanged labels: the most frequent label, the third and so on
are replaced by the next most frequent one, in at most a third of their rows, until 5 % of all rows have such an error.
All rank the same out-of-fold probabilities of the same models. "self-confidence" is the ranking that cleanlab gives its
flagged cells, on all cells. Labels with less than ten rows are left out. Means over five plantings.

Our constants were chosen on emotions, flags, enron and cal500. cleanlab runs in the environment whose Python
COMARGIN_CLEANLAB names, or else in this one, if the extra "bench" has brought it.
Run: python benchmarks/bench_audit.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import RandomForestClassifier
from sklearn.preprocessing import StandardScaler

from _common import Row, show
from comargin import M3LClassifier
from comargin.core.memory import Memory
from comargin.data import list_datasets, load
from comargin.decisions import LabelCalibrator, find_label_issues
from comargin.decisions.cross_fit import cross_fit, splits_of

TITLE = "Planted label errors among the first n found"
SETS = ("scene", "yeast", "tmc2007-500")
MOST_ROWS, LEAST_POSITIVES, RATE, PLANTINGS = 4000, 10, 0.05, 5
MODELS = {  # as `comargin audit` has them
    "m3l": M3LClassifier(0.1, loss="logistic", intercept_scaling="auto", random_state=0),
    "forest": RandomForestClassifier(200, min_samples_leaf=2, random_state=0, n_jobs=1),
}


def rows_of(name: str) -> tuple[np.ndarray | sp.csr_array, np.ndarray]:
    data = load(name)
    Y = data.Y.toarray() if sp.issparse(data.Y) else np.asarray(data.Y)
    rows = np.random.default_rng(0).permutation(len(Y))[:MOST_ROWS]
    X, Y = data.X[rows], Y[rows]
    X = X if sp.issparse(X) else StandardScaler().fit_transform(X)
    return X, Y[:, Y.sum(axis=0) >= LEAST_POSITIVES].astype(int)


def flipped(Y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.where(rng.random(Y.shape) < RATE, 1 - Y, Y)


def exchanged(Y: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    wrong, left = Y.copy(), int(RATE * len(Y))
    order = np.argsort(-Y.sum(axis=0), kind="stable")
    for a, b in zip(order[::2], order[1::2], strict=False):
        rows = rng.permutation(np.flatnonzero((Y[:, a] == 1) & (Y[:, b] == 0)))
        rows = rows[: min(int(Y[:, a].sum()) // 3, left)]
        wrong[rows, a], wrong[rows, b] = 0, 1
        left -= len(rows)
    return wrong


def held_out_probabilities(model: str, X: np.ndarray | sp.csr_array, Y: np.ndarray) -> np.ndarray:
    splits = splits_of(5, X, Y, None, 0)
    _, scores, rows = cross_fit(MODELS[model], X, Y, sp.csr_array(Y), splits, {}, 1, Memory())
    P = np.empty(Y.shape)
    P[rows] = LabelCalibrator().fit(scores, Y[rows]).probabilities(scores)
    return P


def cleanlab_order(P: np.ndarray, Y: np.ndarray) -> np.ndarray:
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(given, P=P, Y=Y)
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        script = Path(__file__).with_name("_cleanlab_order.py")
        python = os.environ.get("COMARGIN_CLEANLAB", sys.executable)
        subprocess.run([python, script, given, found], check=True, env=clean)
        return np.load(found)["order"]


def precisions(model: str, X: np.ndarray | sp.csr_array, Y: np.ndarray, true: np.ndarray) -> tuple[float, ...]:
    """Shares of wrong cells among the first n: of comargin, cleanlab and self-confidence; Y is given."""
    P, wrong = held_out_probabilities(model, X, Y), (Y != true).ravel()
    n = int(wrong.sum())
    ours = find_label_issues(P, Y, n)
    confidence = np.where(Y == 1, P, 1.0 - P).ravel()
    orders = (ours.rows * Y.shape[1] + ours.labels, cleanlab_order(P, Y), np.argsort(confidence, kind="stable"))
    return n, *(float(wrong[order[:n]].mean()) for order in orders)


def main() -> list[Row]:
    here = {info.name for info in list_datasets() if info.where not in (None, "OpenML")}
    rows: list[Row] = []
    for name in SETS:
        if name not in here:
            continue
        X, true = rows_of(name)
        for model in MODELS:
            if model == "forest" and sp.issparse(X):
                continue
            for kind, plant in (("single errors", flipped), ("exchanged labels", exchanged)):
                runs = [
                    precisions(model, X, plant(true, np.random.default_rng(seed)), true) for seed in range(PLANTINGS)
                ]
                n, ours, theirs, confidence = np.mean(runs, axis=0)
                rows.append({
                    "work": f"{name}, {kind}", "model": model, "n": f"{n:.0f}", "comargin": f"{ours:.3f}",
                    "cleanlab": f"{theirs:.3f}", "self-confidence": f"{confidence:.3f}",
                })  # fmt: skip
                print(rows[-1], file=sys.stderr)
    return rows or [{"work": "no published set found: set COMARGIN_DATA"}]


if __name__ == "__main__":
    show(TITLE, main())
