"""How often a promise is broken and what it costs, against MAPIE's multi-label risk control.

Scores come once per set from a linear M3L with logistic loss, cross-fitted on two folds. Then, many times, rows are
drawn to calibrate, in two ways:

- with replacement: half as many rows as there are. All rows are the distribution, so the expected risk of a new row is
  known exactly and a promise is broken if it misses the target. This is what is promised.
- halves: the other half stands for new rows. Its own risk is noisy, so it misses the target more often than delta even
  where the promise is kept.

Excess is the target missed on the safe side, in the mean over draws with replacement. Rows without a label are left
out, which MAPIE refuses. MAPIE counts a row without a predicted label as one of precision 0, and is measured by that.
It runs in the environment whose Python COMARGIN_MAPIE names; without it there are only our rows. COMARGIN_DRAWS sets
the number of draws (1000), of which MAPIE's slowest bound gets a tenth.
Run: python benchmarks/bench_guarantees.py
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.preprocessing import StandardScaler

from _common import Row, show
from comargin import M3LClassifier
from comargin.data import list_datasets, load
from comargin.decisions import RiskController
from comargin.model_selection import MultilabelStratifiedKFold

TITLE = "Guarantees at confidence 0.9: share of broken promises, and excess over the target"
DELTA = 0.1
SETS = ("yeast", "scene", "medical", "enron")
PROMISES = (("recall", 0.9), ("precision", 0.6), ("false tags per row", 1.0))
DRAWS = int(os.environ.get("COMARGIN_DRAWS", "1000"))


def held_out_probabilities(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Of the rows of a set that have a label."""
    data = load(name)
    X, Y = data.X, data.Y.toarray() if sp.issparse(data.Y) else np.asarray(data.Y)
    scores = np.empty(Y.shape)
    for train, held_out in MultilabelStratifiedKFold(2, shuffle=True, random_state=0).split(X, Y):
        A, B = X[train], X[held_out]
        if not sp.issparse(X):
            scaler = StandardScaler().fit(A)
            A, B = scaler.transform(A), scaler.transform(B)
        model = M3LClassifier(C=0.1, loss="logistic", random_state=0).fit(A, Y[train])
        scores[held_out] = model.decision_function(B)
    tagged = Y.any(axis=1)
    return expit(scores)[tagged], Y[tagged].astype(bool)


def loss_curve(p: np.ndarray, true: np.ndarray, measure: str, cuts: np.ndarray, empty: float) -> np.ndarray:
    """Losses (n_cuts, n_rows); ``empty`` is the loss of precision in a row without a predicted label."""
    losses = np.empty((len(cuts), len(p)), dtype=np.float32)
    for k, cut in enumerate(cuts):
        on = p > cut
        hits, n_on = (on & true).sum(axis=1), on.sum(axis=1)
        if measure == "recall":
            losses[k] = 1.0 - hits / true.sum(axis=1)
        elif measure == "precision":
            losses[k] = np.where(n_on > 0, 1.0 - hits / np.maximum(n_on, 1), empty)
        else:
            losses[k] = n_on - hits
    return losses


def our_cuts(p: np.ndarray, true: np.ndarray, text: str, draws: np.ndarray) -> np.ndarray:
    cuts = []
    for rows in draws:
        try:
            cuts.append(RiskController(text, 1.0 - DELTA).fit(p[rows], true[rows]).cuts_[0])
        except ValueError:
            cuts.append(np.nan)
    return np.array(cuts)


def mapie_cuts(p: np.ndarray, true: np.ndarray, measure: str, target: float, draws: np.ndarray) -> dict:
    """Cuts by method; empty where MAPIE is not there or has no such promise."""
    python = os.environ.get("COMARGIN_MAPIE")
    if python is None or measure.startswith("false"):
        return {}
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder, "given.npz"), Path(folder, "found.npz")
        np.savez(
            given, p=p, Y=true.astype(int), draws=draws, target=target, risk=measure, delta=DELTA,
            most_wsr=max(DRAWS // 10, 1),
        )  # fmt: skip
        script = Path(__file__).with_name("_mapie_cuts.py")
        clean = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        subprocess.run([python, script, given, found], check=True, env=clean)
        return dict(np.load(found))


def measured(p: np.ndarray, true: np.ndarray, measure: str, target: float, empty: float, halves: np.ndarray,
             cuts: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:  # fmt: skip
    """Shares and excess of the cuts of the draws with replacement, and of those of halves."""
    limit = target if measure.startswith("false") else 1.0 - target
    both = np.concatenate(cuts)
    found, place = np.unique(both[~np.isnan(both)], return_inverse=True)
    losses = loss_curve(p, true, measure, found, empty)
    index = np.full(len(both), -1)
    index[~np.isnan(both)] = place
    drawn, of_halves = index[: len(cuts[0])], index[len(cuts[0]) :]
    excess = limit - np.nanmean(losses, axis=1)[drawn[drawn >= 0]]
    missed = 0
    for half, k in zip(halves, of_halves, strict=True):
        if k >= 0:
            other = np.ones(len(p), dtype=bool)
            other[half] = False
            missed += np.nanmean(losses[k, other]) > limit
    return {
        "broken": float(np.sum(excess < 0.0)) / len(drawn),
        "missed": missed / len(of_halves),
        "refused": float(np.mean(index < 0)),
        "excess": float(excess.mean()) if excess.size else float("nan"),
    }


def allowed(n_draws: int) -> float:
    """Delta, plus three standard errors of the share of so many draws."""
    return DELTA + 3.0 * float(np.sqrt(DELTA * (1.0 - DELTA) / n_draws))


def one_promise(p: np.ndarray, true: np.ndarray, measure: str, target: float, text: str) -> list[dict]:
    rng = np.random.default_rng(0)
    size = len(p) // 2
    halves = np.array([rng.permutation(len(p))[:size] for _ in range(DRAWS)])
    draws = rng.integers(len(p), size=(DRAWS, size)), halves
    runs = {"comargin": [our_cuts(p, true, text, one) for one in draws]}
    theirs = [mapie_cuts(p, true, measure, target, one) for one in draws]
    runs |= {f"MAPIE, {method}": [one[method] for one in theirs] for method in theirs[0]}
    return [
        {"who": who, "draws": len(cuts[0])}
        | measured(p, true, measure, target, np.nan if who == "comargin" else 1.0, halves[: len(cuts[1])], tuple(cuts))
        for who, cuts in runs.items()
    ]


def best_rival(runs: list[dict]) -> float:
    """The least excess of MAPIE's methods that keep the promise; NaN if there is none."""
    good = [run["excess"] for run in runs[1:] if run["broken"] <= allowed(run["draws"]) and run["refused"] < 0.5]
    return min(good, default=float("nan"))


def main() -> list[Row]:
    here = {info.name for info in list_datasets() if info.where not in (None, "OpenML")}
    rows: list[Row] = []
    pairs = []
    for name in SETS:
        if name not in here:
            continue
        p, true = held_out_probabilities(name)
        for measure, target in PROMISES:
            text = f"{measure} {'<=' if measure.startswith('false') else '>='} {target:g}"
            runs = one_promise(p, true, measure, target, text)
            rival = best_rival(runs)
            for run in runs:
                ratio = run["excess"] / rival if run["who"] == "comargin" else float("nan")
                rows.append({
                    "work": f"{name}, {text}",
                    "by": run["who"],
                    "draws": str(run["draws"]),
                    "broken": f"{run['broken']:.1%}",
                    "allowed": f"{allowed(run['draws']):.1%}",
                    "other half misses": f"{run['missed']:.1%}",
                    "refused": f"{run['refused']:.1%}",
                    "excess": f"{run['excess']:.4f}",
                    "of MAPIE's best": "" if np.isnan(ratio) else f"{ratio:.2f}",
                })  # fmt: skip
            if not np.isnan(rival):
                pairs.append((runs[0]["excess"], rival))
    if pairs:
        ours, theirs = np.mean(pairs, axis=0)
        rows.append(dict.fromkeys(rows[0], "") | {
            "work": "mean where MAPIE keeps the promise", "by": "comargin", "excess": f"{ours:.4f}",
            "of MAPIE's best": f"{ours / theirs:.2f}",
        })  # fmt: skip
    if os.environ.get("COMARGIN_MAPIE") is None:
        print("COMARGIN_MAPIE does not name a Python with MAPIE 1: it is left out", file=sys.stderr)
    return rows or [{"work": "no published set found: set COMARGIN_DATA"}]


if __name__ == "__main__":
    show(TITLE, main())
