"""Writes the golden files and what their models predict: ``python make_golden.py FOLDER``.

Run once for a format. Files of an old version are never written again: they stand for those that users have.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

import comargin
from comargin.decisions import ThresholdClassifierCV
from comargin.persistence import save

TEXTS = ["sea and sky", "the city at night", "sky over the city", "sea", "night sky and sea", "city sea"] * 4
TAGS = [[1, 0, 1], [0, 1, 0], [1, 1, 1], [1, 0, 0], [1, 0, 1], [0, 1, 0]] * 4
NEW_TEXTS = ["sky and sea", "a city by the sea at night", "", "over and over"]
ROWS = np.array([[k % 2, k % 3, k % 5] for k in range(24)], dtype=float)
MARKS = np.column_stack([ROWS[:, 0] > 0, ROWS[:, 1] > 1, ROWS[:, 2] > 2]).astype(int)
NEW_ROWS = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.0, 2.0, 4.0], [1.0, 2.0, 4.0]])


def tagger():
    """Texts, cliques, a label graph, rounds, cuts."""
    learner = comargin.CGMClassifier(alpha=0.05, random_state=0, class_weight={0: 1.0, 1: 2.0})
    pipeline = make_pipeline(TfidfVectorizer(ngram_range=(1, 2), stop_words=["the", "at"]), learner)
    return ThresholdClassifierCV(pipeline, cv=2, random_state=0).fit(TEXTS, TAGS), NEW_TEXTS


def kernel():
    """Sparse support vectors, a kernel, a rule inside a learner, the state of a warm start."""
    learner = comargin.RankSVMClassifier(C=10.0, gamma=0.5, warm_start=True, random_state=0)
    return make_pipeline(MaxAbsScaler(), learner).fit(sp.csr_array(ROWS), MARKS), NEW_ROWS


def one_vs_rest():
    """scikit-learn's classifiers, one of them for a label that is never on."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression()))
        return model.fit(ROWS, np.column_stack([MARKS, np.zeros(24, int)])), NEW_ROWS


GOLDEN = {"golden-0.1": tagger, "golden-0.1-kernel": kernel, "golden-0.1-ovr": one_vs_rest}


def main(folder):
    for name, make in GOLDEN.items():
        model, new = make()
        save(model, folder / f"{name}.cmg", meta={"labels": ["sea", "city", "sky"], "rows": 24})
        expected = {"scores": model.decision_function(new).tolist(), "labels": model.predict(new).tolist()}
        (folder / f"{name}.json").write_text(json.dumps(expected) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
