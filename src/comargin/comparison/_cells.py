"""One cell of a comparison: a model, tuned and fitted on the training part of one split, measured on its test part."""

import json
import platform
import time
import warnings
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning
from threadpoolctl import threadpool_limits

from ..core.row_blocks import take_rows
from ..core.validation import has_scores
from ..core.wording import CONSTANT_LABEL, shortened
from ..decisions import DecisionClassifierCV
from ..decisions.workbench import fit_decider, make_decider
from ..metrics import evaluate, scores_of
from ..metrics.measures import MEASURES, split_depth
from ..training import ModelRecipe
from ..training.building import build, criterion_of, decided_by, search, with_search
from ..training.identity import described, hash_of, json_value
from ._results import Record

_LONGEST_TEXT = 500  # of an error or a warning in the results file


@dataclass(frozen=True)
class Settings:
    """What is done in every training part, the same for all models."""

    tune: bool  # whether the grids are searched
    criterion: str | None  # what parameters are chosen by; None: what suits the model
    inner_folds: int  # folds of a training part, for parameters and for cuts
    thresholds: str | None  # "aim": each measure at its own aim; else the rule of the cuts, or None


@dataclass(frozen=True, eq=False)
class Cell:
    """All that a worker needs to fill one row of the results file."""

    identity: Record  # columns that say which cell it is
    X: Any  # all rows of the data set
    Y: NDArray[Any]  # int64; float64 with NaN where cells are unknown
    train: NDArray[np.intp]  # rows of the split
    test: NDArray[np.intp]
    model: ModelRecipe
    settings: Settings
    seed: int  # of folds and estimators
    measures: tuple[str, ...]


def definition_of(model: ModelRecipe, settings: Settings, data: str, protocol: str, random_state: int) -> str:
    """Hash of everything that determines the results of a model on a data set."""
    grid = [[name, described(values, f"models: {model.name!r}: grid of {name}")] for name, values in model.grid]
    learned = [
        grid if settings.tune else [],
        [criterion_of(model, settings.criterion, settings.thresholds), settings.inner_folds]
        if settings.tune and grid
        else [],
        [rule, settings.inner_folds] if (rule := decided_by(model, settings.thresholds)) else [],
        model.prepare,
    ]
    estimator = with_search(model.estimator, settings.tune)
    return hash_of([described(estimator, f"models: {model.name!r}"), learned, data, protocol, random_state])


def seed_of(random_state: int, split: int) -> int:
    """Seed of a split, the same for all models."""
    return int(np.random.SeedSequence([random_state, split]).generate_state(1)[0])


def unmeasured(cell: Cell, error: str = "") -> Record:
    """The row of a cell that has not run, or whose process died."""
    return {
        **cell.identity,
        "n_train": len(cell.train),
        "n_test": len(cell.test),
        **dict.fromkeys(("tune_seconds", "fit_seconds", "predict_seconds")),
        "parameters": "",
        "warnings": "",
        "error": _one_line(error),
        "versions": versions(),
        **dict.fromkeys(cell.measures),
    }


def run_cell(cell: Cell) -> Record:
    """Fill one row of the results file; an error of the model is part of the row.

    BLAS too uses one thread, so that neither the seconds nor the last digits of the measures depend on what else runs.
    """
    record = unmeasured(cell)
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Rare labels are missing in some training parts; a single label is a column.
        warnings.filterwarnings("ignore", CONSTANT_LABEL, UserWarning)
        warnings.simplefilter("ignore", DataConversionWarning)
        try:
            record |= _measured(cell)
        except Exception as error:  # whatever a model raises is its result here, and the other cells go on
            record["error"] = _one_line(f"{type(error).__name__}: {error}")
    texts = dict.fromkeys(f"{warning.category.__name__}: {warning.message}" for warning in caught)
    record["warnings"] = _one_line("; ".join(texts))
    return record


def _measured(cell: Cell) -> Record:
    X_train, X_test = take_rows(cell.X, cell.train), take_rows(cell.X, cell.test)
    Y_train, Y_test = cell.Y[cell.train], cell.Y[cell.test]
    start = time.perf_counter()
    model, settings = cell.model, cell.settings
    folds, seed = settings.inner_folds, cell.seed
    estimator = with_search(build(model, X_train, seed), settings.tune)
    best: dict[str, Any] = {}
    if settings.tune:
        criterion = criterion_of(model, settings.criterion, settings.thresholds)
        estimator, best = search(estimator, model.grid, X_train, Y_train, criterion=criterion, folds=folds, seed=seed)
    tuned = time.perf_counter()
    decider = make_decider(estimator, decided_by(model, settings.thresholds), folds=folds, seed=seed)
    estimator, _ = fit_decider(decider, X_train, Y_train)
    fitted = time.perf_counter()
    depths = sorted({depth for name in cell.measures if (depth := split_depth(name)[1])})
    if isinstance(estimator, DecisionClassifierCV):
        values, done = _at_own_aims(estimator, X_test, Y_test, depths)
    else:
        values, done = _at_one_cut(estimator, X_test, Y_test, depths)
    return {
        "tune_seconds": tuned - start,
        "fit_seconds": fitted - tuned,
        "predict_seconds": done - fitted,
        "parameters": json.dumps({name: json_value(value) for name, value in best.items()}),
        **{name: float(values[name]) if name in values else None for name in cell.measures},
    }


def _at_one_cut(estimator: Any, X: Any, Y: NDArray[np.int64], depths: list[int]) -> tuple[dict[str, float], float]:
    """All measures, and the time when the labels were there."""
    predicted = estimator.predict(X)
    done = time.perf_counter()
    if predicted.ndim == 1:  # many estimators return one label as a vector
        predicted = predicted[:, None]
    scores = scores_of(estimator, X, n_labels=Y.shape[1]) if has_scores(estimator) else None
    return evaluate(Y, scores, predicted, k=depths), done


def _at_own_aims(
    estimator: DecisionClassifierCV, X: Any, Y: NDArray[np.int64], depths: list[int]
) -> tuple[dict[str, float], float]:
    """All measures, those of label sets at the label sets that are made for them; and the time of the first ones."""
    scores = scores_of(estimator.estimator_, X, n_labels=Y.shape[1])
    predicted, P = estimator.rule_.decide(scores)
    done = time.perf_counter()
    values = evaluate(Y, P, predicted, k=depths, probabilities=P)
    for aim in dict.fromkeys(measure.aim for measure in MEASURES.values() if measure.aim):
        own = evaluate(Y, None, estimator.rule_.predict(scores, aim))
        values |= {name: value for name, value in own.items() if MEASURES[name].aim == aim}
    return values, done


def _one_line(text: str) -> str:
    return shortened(" ".join(text.split()), _LONGEST_TEXT)


@cache
def versions() -> str:
    """Versions of everything that may change a result."""
    packages = ("comargin", "numpy", "scipy", "scikit-learn", "numba")
    return ", ".join([f"python {platform.python_version()}", *(f"{name} {version(name)}" for name in packages)])
