"""Every measure at every aim of `AimRule`: is the aim of a measure the best for it? A table of quality, not of time.

Two-fold cross-validation on at most 3000 rows of each set, with linear M3L with the logistic loss; dense features are
standardised on the training part. C is the one of three with the least Brier score on out-of-fold scores, which also
calibrate the probabilities and teach the rule. A cell is the measure at its own aim, with "=" where another aim gives
the same value, or "< value aim" where another is better. The last rows count the sets without "<", for those that
chose constants and for all others, and give the largest loss.

Needs COMARGIN_DATA; sets that are not there are left out. Run: python benchmarks/bench_aims.py [set ...]
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import StandardScaler

from _common import Row, show
from comargin import M3LClassifier
from comargin.data import list_datasets, load
from comargin.decisions import AimRule, LabelCalibrator
from comargin.metrics import brier_score, evaluate, higher_is_better, ranking_loss
from comargin.model_selection import MultilabelStratifiedKFold

TITLE = "Each measure at its own aim (M3L, logistic loss, 2 folds)"
CHOOSING = ("emotions", "flags", "enron", "tmc2007-500", "corel5k", "cal500")
REPORTING = (
    "scene", "yeast", "birds", "plant", "image", "genbase", "medical", "mediamill_small", "rcv1subset1", "bibtex",
    "slashdot", "langlog", "digits",
)  # fmt: skip
MEASURES = ("hamming_loss", "subset_accuracy", "micro_f1", "macro_f1", "example_f1")
COSTS = (1.0, 3.0)  # of a false and of a missed tag
AIMS: dict[str, Any] = {**{name: name for name in MEASURES}, "costs 1:3": COSTS, "precision_at_3": "precision_at_3"}
MOST_ROWS = 3000


def out_of_fold(model: M3LClassifier, X: Any, Y: np.ndarray) -> np.ndarray:
    scores = np.empty(Y.shape)
    for train, test in MultilabelStratifiedKFold(3, shuffle=True, random_state=0).split(X, Y):
        scores[test] = model.fit(X[train], Y[train]).decision_function(X[test])
    return scores


def measured(X: Any, Y: np.ndarray, X_test: Any, Y_test: np.ndarray) -> tuple[np.ndarray, list[float]]:
    """Measures (n_aims, n_measures), and the ranking loss before and after the label sets have their say."""
    found = []
    for C in (0.01, 0.1, 1.0):
        model = M3LClassifier(C, loss="logistic", random_state=0)
        scores = out_of_fold(model, X, Y)
        calibrator = LabelCalibrator().fit(scores, Y)
        P = calibrator.probabilities(scores)
        found.append((brier_score(Y, P), C, calibrator, P))
    _, C, calibrator, P = min(found, key=lambda entry: entry[0])
    model = M3LClassifier(C, loss="logistic", random_state=0).fit(X, Y)
    P_test = calibrator.probabilities(model.decision_function(X_test))
    values = []
    for aim in AIMS.values():
        rule = AimRule(aim).fit(P, Y)
        on = rule.predict(P_test)
        result = evaluate(Y_test, Y_pred=on)
        cost = np.mean(COSTS[0] * (on > Y_test) + COSTS[1] * (on < Y_test))
        values.append([*(result[name] for name in MEASURES), cost])
    return np.array(values), [ranking_loss(Y_test, P_test), ranking_loss(Y_test, rule.sets_.marginals(P_test))]


def cross_validated(name: str) -> tuple[np.ndarray, np.ndarray]:
    data = load(name)
    chosen = np.sort(np.random.default_rng(0).permutation(data.Y.shape[0])[:MOST_ROWS])
    X, Y = data.X[chosen], sp.csr_array(data.Y)[chosen].toarray()
    folds = []
    for train, test in MultilabelStratifiedKFold(2, shuffle=True, random_state=0).split(X, Y):
        X_train, X_test = X[train], X[test]
        if not sp.issparse(X):
            scaler = StandardScaler().fit(X_train)
            X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
        folds.append(measured(X_train, Y[train], X_test, Y[test]))
    tables, rankings = zip(*folds, strict=True)
    return np.mean(tables, axis=0), np.mean(rankings, axis=0)


def row_of(name: str, table: np.ndarray, ranking: np.ndarray) -> tuple[Row, dict[str, float]]:
    """The row of a set, and what each measure loses by its own aim."""
    row: Row = {"work": name}
    losses: dict[str, float] = {}
    for column, measure in enumerate([*MEASURES, "costs 1:3"]):
        own = list(AIMS).index(measure)
        gain = table[:, column] * (1.0 if measure in MEASURES and higher_is_better[measure] else -1.0)
        best = int(np.argmax(gain))
        losses[measure] = float(gain[best] - gain[own])
        row[measure] = f"{table[own, column]:.4f}"
        if losses[measure] > 0.0:
            row[measure] += f" < {table[best, column]:.4f} {list(AIMS)[best]}"
        elif np.count_nonzero(gain == gain[own]) > 1:
            row[measure] += " ="
    row["ranking loss"] = f"{ranking[0]:.4f} -> {ranking[1]:.4f}"
    return row, losses


def main(wanted: tuple[str, ...] = (*CHOOSING, *REPORTING)) -> list[Row]:
    here = {info.name for info in list_datasets() if info.where not in (None, "OpenML")}
    rows: list[Row] = []
    losses: dict[str, list[dict[str, float]]] = {"choosing": [], "reporting": []}
    for name in wanted:
        if name in here:
            row, lost = row_of(name, *cross_validated(name))
            rows.append(row)
            losses["choosing" if name in CHOOSING else "reporting"].append(lost)
            print(row, flush=True)
    for kind, sets in losses.items():
        if sets:
            row = {"work": f"own aim is best, {len(sets)} {kind}"}
            for measure in sets[0]:
                lost = [entry[measure] for entry in sets]
                row[measure] = f"{sum(value <= 0.0 for value in lost)}, loses {max(lost):.4f}"
            rows.append(row | {"ranking loss": ""})
    return rows or [{"work": "no published set found: set COMARGIN_DATA"}]


if __name__ == "__main__":
    show(TITLE, main(*([tuple(sys.argv[1:])] if sys.argv[1:] else [])))
