"""The default, `AutoClassifier`, on the standard splits beside the best published values: docs/which_model.md.

The published value is the best of 26 methods by the rows it was measured on, so it promises a little more than any one
of them keeps: J. Bogatinovski, L. Todorovski, S. Dzeroski, D. Kocev. Comprehensive comparative study of multi-label
classification methods. Expert Systems with Applications 203, 2022. One fit a set; every measure at its own aim. cal500
has no standard split: two thirds of its rows are drawn to learn from.

Needs COMARGIN_DATA; sets that are not there are left out. Run: python benchmarks/bench_published.py [set ...]
(minutes without names; bibtex, corel5k and delicious, which take longer, by name)
"""

from __future__ import annotations

import argparse
import time
from typing import Any

from _common import Row, show
from comargin import AutoClassifier
from comargin.data import list_datasets, load
from comargin.metrics import evaluate, higher_is_better
from comargin.metrics.measures import MEASURES
from comargin.model_selection import MultilabelStratifiedShuffleSplit

TITLE = "auto on the standard splits, beside the best published value"
PUBLISHED = {
    "flags": {"micro_f1": 0.777},
    "emotions": {"hamming_loss": 0.170, "micro_f1": 0.719},
    "scene": {"hamming_loss": 0.077, "subset_accuracy": 0.711, "micro_f1": 0.792, "ranking_loss": 0.062},
    "yeast": {"micro_f1": 0.682, "ranking_loss": 0.161},
    "genbase": {"micro_f1": 0.986},
    "medical": {"micro_f1": 0.813},
    "enron": {"micro_f1": 0.605},
    "cal500": {"micro_f1": 0.483},
    "bibtex": {"micro_f1": 0.457},
    "corel5k": {"micro_f1": 0.257},
    "tmc2007-500": {"micro_f1": 0.792},
    "delicious": {"micro_f1": 0.369},
}
LONG = ("bibtex", "corel5k", "delicious")
WITHOUT_SPLIT = ("cal500",)


def parts(name: str) -> tuple[Any, Any, Any, Any]:
    """X and Y to learn from, X and Y to measure on."""
    if name in WITHOUT_SPLIT:
        data = load(name)
        splitter = MultilabelStratifiedShuffleSplit(1, test_size=1 / 3, random_state=0)
        learned, measured = next(splitter.split(data.Y, data.Y))
        return data.X[learned], data.Y[learned], data.X[measured], data.Y[measured]
    train, test = load(name, "train"), load(name, "test")
    return train.X, train.Y, test.X, test.Y


def of_one_set(name: str, budget: str | None) -> list[Row]:
    X, Y, X_test, Y_test = parts(name)
    began = time.perf_counter()
    model = AutoClassifier(budget=budget, random_state=0).fit(X, Y)
    seconds = time.perf_counter() - began
    members = ", ".join(f"{name} {share:.2f}" for (name, _), share in zip(model.members_, model.weights_, strict=True))
    rows = []
    for measure, published in PUBLISHED[name].items():
        on, P = model.decide(X_test, MEASURES[measure].aim or "micro_f1")
        ours = evaluate(Y_test, P, on)[measure]
        ahead = ours - published if higher_is_better[measure] else published - ours
        rows.append(
            {
                "set": name, "measure": measure,
                "`auto`": f"{ours:.3f}", "published": f"{published:.3f}",
                "outcome": "met" if round(ahead, 3) >= 0.0 else f"missed by {-ahead:.3f}",
                "members": members, "seconds": f"{seconds:.0f}",
            }
        )  # fmt: skip
    return rows


def main(sets: tuple[str, ...] = (), budget: str | None = None) -> list[Row]:
    here = {info.name for info in list_datasets() if info.where not in (None, "OpenML")}
    rows: list[Row] = []
    for name in sets or tuple(name for name in PUBLISHED if name not in LONG):
        if name in here:
            rows += of_one_set(name, budget)
            print(rows[-1]["set"], rows[-1]["members"], flush=True)
    return rows or [{"set": "none found: set COMARGIN_DATA"}]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="set")
    parser.add_argument("--budget", help='as in `AutoClassifier`, e.g. "30 fits"')
    given = parser.parse_args()
    show(TITLE, main(tuple(given.sets), given.budget))
