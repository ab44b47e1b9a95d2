"""The default, `AutoClassifier`, against every model alone: a table of quality.

For each of six measures, each at its own aim, the mean rank of every model over the sets, apart for those that chose
constants and all others; then "auto" minus the best of the others for every set, with the seconds of both. Everything
is tuned inside the training parts.

Finished cells are kept in the results file, and another run with the same folds goes on from there. Boosting is left
out beyond 60 labels. Needs COMARGIN_DATA; sets that are not there are left out.

Run: python benchmarks/bench_auto.py [--folds 2] [--results auto.csv] [--models auto,forest,...] [set ...]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from _common import Row, show
from comargin.comparison import Comparison, compare
from comargin.data import list_datasets, load
from comargin.metrics import higher_is_better
from comargin.models import ModelRecipe, get_model

TITLE = "auto against single models: mean ranks, and where it is behind"
CHOOSING = ("emotions", "flags", "enron", "tmc2007-500", "corel5k", "cal500")
REPORTING = (
    "scene", "yeast", "plant", "genbase", "medical", "mediamill_small", "rcv1subset1", "bibtex", "slashdot", "langlog",
)  # fmt: skip
MODELS = (
    "auto", "m3l", "m3l-rbf", "rank-cvm", "ssvm-tree", "cgm", "lsg21", "forest", "extra-trees", "ovr", "ovr-rbf",
    "chain", "knn", "boosting",
)  # fmt: skip
FORESTS = ("forest", "extra-trees")
MEASURES = ("hamming_loss", "subset_accuracy", "micro_f1", "macro_f1", "ranking_loss", "average_precision")
MOST_ROWS = 20_000
MOST_BOOSTED = 60  # labels


def as_dense(X: Any) -> np.ndarray:
    return X.toarray() if sp.issparse(X) else X


def boosting() -> ModelRecipe:
    """Gradient boosting per label: LightGBM where it is installed, else scikit-learn's."""
    try:
        from lightgbm import LGBMClassifier

        booster = LGBMClassifier(n_jobs=1, verbose=-1)
    except ImportError:
        booster = HistGradientBoostingClassifier()
    per_label = ModelRecipe("boosting", OneVsRestClassifier(booster), (("estimator__learning_rate", (0.03, 0.1)),))
    return on_dense(per_label)


def on_dense(model: ModelRecipe) -> ModelRecipe:
    """The model on features that are made dense: random forests are much slower on sparse ones."""
    learner = make_pipeline(FunctionTransformer(as_dense, accept_sparse=True), model.estimator)
    name = type(model.estimator).__name__.lower()
    grid = tuple((f"{name}__{parameter}", values) for parameter, values in model.grid)
    return replace(model, estimator=learner, grid=grid, learn_cuts=True)


def values_of(found: Comparison, measure: str) -> np.ndarray:
    """Means (n_sets, n_models), greater is better; nan where a model has none."""
    mean = np.asarray(found.table(measure).mean)
    return mean if higher_is_better[measure] else -mean


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks in each set from 1; equal values share theirs, a missing one is the last."""
    filled = np.where(np.isnan(values), -np.inf, values)
    above = (filled[:, None, :] > filled[:, :, None]).sum(axis=2)
    same = (filled[:, None, :] == filled[:, :, None]).sum(axis=2)
    return above + (same + 1) / 2


def summary(results: list[Comparison]) -> list[Row]:
    models = max((found.models for found in results), key=len)
    names = [found.datasets[0] for found in results]
    rows: list[Row] = []
    tables = {}
    for measure in MEASURES:
        table = np.full((len(results), len(models)), np.nan)
        for k, found in enumerate(results):
            table[k, [models.index(model) for model in found.models]] = values_of(found, measure)[0]
        tables[measure] = table
    for kind in ("choosing", "reporting"):
        chosen = [k for k, name in enumerate(names) if (name in CHOOSING) == (kind == "choosing")]
        for m, model in enumerate(models if chosen else ()):
            row: Row = {"work": f"mean rank, {len(chosen)} {kind}: {model}"}
            rows.append(row | {measure: f"{ranks(tables[measure][chosen])[:, m].mean():.2f}" for measure in MEASURES})
    own = models.index("auto")
    others = [m for m in range(len(models)) if m != own]
    for k, found in enumerate(results):
        row = {"work": f"auto - best other: {names[k]}"}
        for measure in MEASURES:
            table = tables[measure][k]
            best = max(others, key=lambda m: -np.inf if np.isnan(table[m]) else table[m])
            row[measure] = f"{table[own] - table[best]:+.4f} {models[best]}"
        rows.append(row | {"seconds": seconds_of(found, tables["micro_f1"][k], models)})
    return [row if "seconds" in row else row | {"seconds": ""} for row in rows]


def seconds_of(found: Comparison, values: np.ndarray, models: tuple[str, ...]) -> str:
    """Seconds to tune and fit, and those of the best other model by micro-F1."""
    spent = dict(
        zip(found.models, (found.table("tune_seconds").mean + found.table("fit_seconds").mean)[0], strict=True)
    )
    best = max((m for m in found.models if m != "auto"), key=lambda m: np.nan_to_num(values[models.index(m)], nan=-1.0))
    return f"{spent['auto']:.0f} / {spent[best]:.0f} {best}"


def main(
    sets: tuple[str, ...] = (), models: tuple[str, ...] = MODELS, folds: int = 2, results: str | None = None
) -> list[Row]:
    # Given, not registered: the candidates of auto stay as they are.
    rivals = {"boosting": boosting()} | {model: on_dense(get_model(model)) for model in FORESTS}
    here = {info.name for info in list_datasets() if info.where not in (None, "OpenML")}
    found = []
    for name in sets or (*CHOOSING, *REPORTING):
        if name not in here:
            continue
        data = load(name)
        if data.Y.shape[0] > MOST_ROWS:
            continue
        names = [model for model in models if model != "boosting" or data.Y.shape[1] <= MOST_BOOSTED]
        wanted = [rivals.get(model, model) for model in names]
        found.append(compare(name, wanted, folds=folds, measures=MEASURES, results=results and f"{name}-{results}"))
        print(found[-1], flush=True)
    return summary(found) if found else [{"work": "no published set found: set COMARGIN_DATA"}]


def listed(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*")
    parser.add_argument("--models", type=listed, default=MODELS)
    parser.add_argument("--folds", type=int, default=2)
    parser.add_argument("--results", help="name of the results files, which begin with that of the set")
    given = parser.parse_args()
    show(TITLE, main(tuple(given.sets), given.models, given.folds, given.results))
