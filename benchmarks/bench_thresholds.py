"""What a threshold rule does to micro- and macro-F1 on published sets: a table of quality, not of time.

The base is OneVsRest(LinearSVC) with the C given here; dense features are standardised on the training part. Sets
without a published split take one stratified third as test. Needs COMARGIN_DATA; sets that are not there are left out.
Run: python benchmarks/bench_thresholds.py
"""

from __future__ import annotations

import warnings

import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from _common import Row, show
from comargin.data import list_datasets, load
from comargin.decisions import GlobalCut, PerLabelCut, ThresholdClassifierCV
from comargin.metrics import macro_f1, micro_f1
from comargin.model_selection import MultilabelStratifiedKFold

TITLE = "Threshold rules: micro-F1 / macro-F1 on the test part"
SETS = {
    "enron": 0.01, "yeast": 0.01, "scene": 0.001, "emotions": 0.1, "bibtex": 0.1, "tmc2007-500": 0.1, "corel5k": 1.0,
    "cal500": 0.001, "mediamill_small": 0.01, "rcv1subset1": 0.1, "plant": 0.1, "genbase": 0.1,
}  # fmt: skip
RULES = {
    "cut at 0": None,
    "naive per label": PerLabelCut(micro_weight=0.0, shrinkage=0.0),
    "global": GlobalCut(),
    "per label (default)": PerLabelCut(),
}


def train_and_test(name: str, has_split: bool) -> tuple:
    if has_split:
        train, test = load(name, split="train"), load(name, split="test")
        X, Y, X_test, Y_test = train.X, train.Y, test.X, test.Y
    else:
        data = load(name)
        rows, held_out = next(MultilabelStratifiedKFold(3, shuffle=True, random_state=0).split(data.X, data.Y))
        X, Y, X_test, Y_test = data.X[rows], data.Y[rows], data.X[held_out], data.Y[held_out]
    if not sp.issparse(X):
        scaler = StandardScaler().fit(X)
        X, X_test = scaler.transform(X), scaler.transform(X_test)
    return X, Y, X_test, Y_test


def main() -> list[Row]:
    here = {info.name: info for info in list_datasets() if info.where not in (None, "OpenML")}
    rows = []
    for name, C in SETS.items():
        if name not in here:
            continue
        X, Y, X_test, Y_test = train_and_test(name, here[name].n_train is not None)
        base = OneVsRestClassifier(LinearSVC(C=C, random_state=0))
        row: Row = {"work": f"{name}, C={C:g}"}
        for title, rule in RULES.items():
            model = base if rule is None else ThresholdClassifierCV(base, rule=rule, random_state=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                # scikit-learn's note on labels without positives
                warnings.filterwarnings("ignore", "Label .* is present in", UserWarning)
                predicted = model.fit(X, Y).predict(X_test)
            row[title] = f"{micro_f1(Y_test, predicted):.3f} / {macro_f1(Y_test, predicted):.3f}"
        rows.append(row)
    return rows or [{"work": "no published set found: set COMARGIN_DATA"}]


if __name__ == "__main__":
    show(TITLE, main())
