"""`DecisionClassifierCV` against raw sigmoids and scikit-learn's CalibratedClassifierCV label by label.

Both sides have the same learner: linear M3L with R = I is one-vs-rest LinearSVC (hinge) or LogisticRegression
(liblinear, which regularises its intercept too) with twice the C. A raw sigmoid is 1 / (1 + exp(-score)).
CalibratedClassifierCV runs in a loop over the labels with three folds, by each of its methods (sigmoid, isotonic; one
calibrated model, or an ensemble of three); the one with the best Brier score *on the test rows* is taken, which
flatters it. Labels that it cannot take, with fewer than three positives, get their rate. Calibration errors are per
label, in ten bins of equal mass. The error that remains by chance is that of labels drawn with our probabilities, for
which these are perfect. Two folds; no constant was chosen on these sets. On delicious the loop runs on 40 labels, its
time is scaled up; times are CPU seconds.

Needs COMARGIN_DATA. Run: python benchmarks/bench_calibration.py
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.special import expit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from _common import Row, show
from comargin import M3LClassifier
from comargin.data import load
from comargin.decisions import DecisionClassifierCV
from comargin.metrics import brier_score, calibration_error
from comargin.model_selection import MultilabelStratifiedKFold

TITLE = "Calibration: raw sigmoid / CalibratedClassifierCV at its best / ours"
SETS = {"scene": 0.1, "yeast": 0.1, "medical": 1.0, "slashdot": 1.0, "plant": 0.1, "rcv1subset1": 1.0}
WAYS = [(method, ensemble) for method in ("sigmoid", "isotonic") for ensemble in (False, True)]
FEWEST = 3  # rows with and without a label that three folds need
SOME_LABELS = 40  # of delicious
DRAWS = 20  # of labels from probabilities


def peer(loss: str, C: float) -> Any:
    if loss == "hinge":
        return LinearSVC(C=2.0 * C, loss="hinge", max_iter=100_000, random_state=0)
    return LogisticRegression(C=2.0 * C, solver="liblinear", random_state=0)


def one_by_one(loss: str, C: float, X: Any, Y: np.ndarray, X_test: Any, way: tuple[str, bool]) -> np.ndarray:
    """Probabilities of the loop."""
    P = np.broadcast_to((Y.sum(axis=0) + 0.5) / (len(Y) + 1.0), (X_test.shape[0], Y.shape[1])).copy()
    for label in np.flatnonzero(np.minimum(Y.sum(axis=0), len(Y) - Y.sum(axis=0)) >= FEWEST):
        model = CalibratedClassifierCV(peer(loss, C), method=way[0], ensemble=way[1], cv=3)
        P[:, label] = model.fit(X, Y[:, label]).predict_proba(X_test)[:, 1]
    return P


def error_by_chance(P: np.ndarray) -> float:
    """The mean calibration error of perfect probabilities."""
    rng = np.random.default_rng(0)
    return float(np.mean([calibration_error((rng.random(P.shape) < P).astype(int), P) for _ in range(DRAWS)]))


def measured(loss: str, C: float, X: Any, Y: np.ndarray, X_test: Any, Y_test: np.ndarray) -> np.ndarray:
    """Calibration error and Brier score (3 methods, 2), the loop at its best of four; last the error by chance."""
    model = DecisionClassifierCV(M3LClassifier(C, loss=loss, random_state=0), random_state=0).fit(X, Y)
    raw = expit(model.estimator_.decision_function(X_test))
    loops = [one_by_one(loss, C, X, Y, X_test, way) for way in WAYS]
    theirs = min(loops, key=lambda P: brier_score(Y_test, P))
    found = (raw, theirs, model.predict_proba(X_test))
    values = [[calibration_error(Y_test, P), brier_score(Y_test, P)] for P in found]
    return np.array([*values, [error_by_chance(found[-1])] * 2])


def cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def fit_parts(model: Any, folds: Any, X: Any, Y: np.ndarray) -> None:
    """What both sides need of the learner: a fit of each training part, with its scores, and one of all rows."""
    for train, test in folds.split(X, Y):
        model.fit(X[train], Y[train]).decision_function(X[test])
    model.fit(X, Y)


def times_of_delicious() -> list[Row]:
    data, C = load("delicious"), 0.05
    X, Y = data.X[:12920], sp.csr_array(data.Y)[:12920].toarray()
    learner = M3LClassifier(C, loss="logistic", random_state=0)
    ours = cpu_seconds(lambda: DecisionClassifierCV(learner, random_state=0).fit(X, Y))
    our_fits = cpu_seconds(lambda: fit_parts(learner, KFold(3), X, Y))
    some = np.argsort(-Y.sum(axis=0), kind="stable")[:: Y.shape[1] // SOME_LABELS][:SOME_LABELS]
    X, scale = sp.csr_matrix(X), Y.shape[1] / len(some)
    theirs = scale * cpu_seconds(lambda: one_by_one("logistic", C, X, Y[:, some], X[:1], ("sigmoid", False)))
    folds = StratifiedKFold(3)
    their_fits = scale * cpu_seconds(lambda: [fit_parts(peer("logistic", C), folds, X, Y[:, one]) for one in some])
    return [
        {
            "work": f"delicious, logistic, {what}",
            **dict.fromkeys(("calibration error", "of raw", "by chance", "of raw by chance"), ""),
            "Brier score": f"- / {loop:.0f} / {own:.1f}",
            "ratio to the loop": f"{loop / own:.1f} times faster",
        }
        for what, loop, own in (
            ("seconds", theirs, ours),
            ("seconds without fits of the learner", theirs - their_fits, ours - our_fits),
        )
    ]


def main() -> list[Row]:
    rows = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rare labels in the loop
        for name, C in SETS.items():
            data = load(name)
            Y = sp.csr_array(data.Y).toarray()
            for loss in ("hinge", "logistic"):
                folds = []
                for train, test in MultilabelStratifiedKFold(2, shuffle=True, random_state=0).split(data.X, Y):
                    X_train, X_test = data.X[train], data.X[test]
                    if not sp.issparse(data.X):
                        scaler = StandardScaler().fit(X_train)
                        X_train, X_test = scaler.transform(X_train), scaler.transform(X_test)
                    folds.append(measured(loss, C, X_train, Y[train], X_test, Y[test]))
                (raw, raw_brier), (loop, loop_brier), (own, own_brier), (chance, _) = np.mean(folds, axis=0)
                rows.append(
                    {
                        "work": f"{name}, {loss}",
                        "calibration error": f"{raw:.4f} / {loop:.4f} / {own:.4f}",
                        "of raw": f"{own / raw:.2f}",
                        "by chance": f"{chance:.4f}",
                        "of raw by chance": f"{chance / raw:.2f}",
                        "Brier score": f"{raw_brier:.4f} / {loop_brier:.4f} / {own_brier:.4f}",
                        "ratio to the loop": f"{own_brier / loop_brier:.3f}",
                    }
                )
                print(rows[-1], flush=True)
        rows += times_of_delicious()
    return rows


if __name__ == "__main__":
    show(TITLE, main())
