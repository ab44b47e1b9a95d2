"""Half of the cells of Y hidden at random: learning from the known ones against taking unknown labels as negative.

The model m3l with R = I, as `train` fits it: features made ready, C of its grid by three folds and average precision on
the labels that it is given. It learns from all cells, from the known ones, and with 0 in place of the unknown ones; all
are measured on completely labelled test rows. Asked of the known cells: macro-AUC and average precision at least 0.02
above the negatives and within 0.02 of all cells. Seconds are CPU seconds of one fit of bibtex at C = 1 (the lower of
two in turns); asked: masked at most 1.5 times unmasked. The means over three draws of the hidden cells are shown.

Needs COMARGIN_DATA. Run: python benchmarks/bench_unknown.py
"""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp

from _common import Row, show
from comargin import M3LClassifier
from comargin.data import Dataset, load
from comargin.metrics import average_precision, macro_auc
from comargin.training import train

TITLE = "Half of the labels unknown: all cells / known cells / unknown as negative"
SETS = ("yeast", "enron", "bibtex", "tmc2007-500")
MOST_ROWS = 5000  # to learn from; only tmc2007-500 has more
SEEDS = (0, 1, 2)
VALUES = (0.001, 0.01, 0.1, 1.0, 10.0)
TURNS = 2


def parts(name: str) -> tuple[Dataset, Dataset]:
    """Rows to learn from, at most so many, and the published test rows."""
    data = load(name, split="train")
    rows = np.sort(np.random.default_rng(0).permutation(data.X.shape[0])[:MOST_ROWS])
    return replace(data, X=data.X[rows], Y=dense(data.Y)[rows]), load(name, split="test")


def dense(Y: Any) -> np.ndarray:
    return (Y.toarray() if sp.issparse(Y) else Y).astype(np.float64)


def hidden(Y: np.ndarray, seed: int) -> np.ndarray:
    return np.where(np.random.default_rng(seed).random(Y.shape) < 0.5, np.nan, Y)


def measured(data: Dataset, Y: np.ndarray, test: Dataset) -> np.ndarray:
    """Macro-AUC and average precision of a model that learns from Y."""
    tagger = train(replace(data, Y=Y), "m3l", grid={"C": VALUES}, thresholds=None)
    scores = tagger.model.decision_function(test.X)
    return np.array([macro_auc(test.Y, scores), average_precision(test.Y, scores)])


def quality(name: str) -> Row:
    data, test = parts(name)
    every = measured(data, data.Y, test)
    drawn = [hidden(data.Y, seed) for seed in SEEDS]
    known = np.mean([measured(data, Y, test) for Y in drawn], axis=0)
    negative = np.mean([measured(data, np.nan_to_num(Y), test) for Y in drawn], axis=0)
    columns = zip(("macro-AUC", "average precision"), every, known, negative, strict=True)
    return {"work": name} | {
        key: value
        for measure, a, k, n in columns
        for key, value in (
            (measure, f"{a:.3f} / {k:.3f} / {n:.3f}"),
            (f"{measure}: known - negative", f"{k - n:+.3f}"),
            (f"{measure}: known - all", f"{k - a:+.3f}"),
        )
    }


def seconds() -> Row:
    data = load("bibtex", split="train")
    Y = dense(data.Y)
    masked = hidden(Y, 0)
    times = {"all": [], "masked": []}
    for _ in range(TURNS):
        for key, target in (("all", Y), ("masked", masked)):
            start = time.process_time()
            M3LClassifier(1.0, loss="logistic", random_state=0).fit(data.X, target)
            times[key].append(time.process_time() - start)
    whole, part = min(times["all"]), min(times["masked"])
    row = dict.fromkeys(quality_columns(), "")
    return {"work": f"bibtex, seconds: {whole:.1f} unmasked, {part:.1f} masked ({part / whole:.2f} times)"} | row


def quality_columns() -> list[str]:
    endings = ("", ": known - negative", ": known - all")
    return [measure + ending for measure in ("macro-AUC", "average precision") for ending in endings]


def main() -> list[Row]:
    return [*map(quality, SETS), seconds()]


if __name__ == "__main__":
    show(TITLE, main())
