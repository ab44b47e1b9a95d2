"""Run all cells of a comparison in processes, and record every finished one."""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from ..core.checks import whole_number
from ..core.executor import Processes, Task, run
from ..core.indicator import check_labels
from ..data import Dataset, fingerprint, load
from ..metrics import scorers
from ..model_selection import MultilabelStratifiedKFold, MultilabelStratifiedShuffleSplit
from ..models import check_names, checked_models, for_unknown_labels
from ..training import ModelRecipe
from ..training.building import check_criterion, check_rule
from ..training.identity import hash_of
from ._cells import Cell, Settings, definition_of, run_cell, seed_of, unmeasured
from ._comparison import DEFAULT_MEASURES, Comparison
from ._results import Record, ResultsFile

_DEFAULT_FOLDS = 5


@dataclass(frozen=True)
class CellDone:
    """One finished cell, as `compare` passes it to its callback.

    Attributes
    ----------
    cell : dict
        The row of the results file.
    done, total : int
        Cells that are finished, this one included, and all cells.
    kept : bool
        Whether it was finished by an earlier run.
    """

    cell: Record
    done: int
    total: int
    kept: bool


def compare(
    datasets: Any,
    models: Any,
    *,
    folds: int | None = None,
    repeats: int | None = None,
    test_size: float = 0.5,
    measures: Sequence[str] = DEFAULT_MEASURES,
    tune: bool = True,
    criterion: str | None = None,
    inner_folds: int = 3,
    thresholds: str | None = "aim",
    n_jobs: int = 1,
    results: str | os.PathLike[str] | None = None,
    retry_failed: bool = False,
    random_state: int = 0,
    callback: Callable[[CellDone], object] | None = None,
) -> Comparison:
    """Compare models on data sets by cross-validation or repeated hold-out, with everything chosen inside.

    Every model sees the same splits. In each training part its parameters are searched on inner folds, its cuts are
    learned on inner folds, and it is fitted; the test part is only measured. scikit-learn's models are treated as ours
    are.

    Parameters
    ----------
    datasets : str, Dataset, or sequence of these
        Names for `comargin.data.load`, or data sets, with distinct names.
    models : str, ModelRecipe, (str, estimator), or sequence of these
        Names of `model_names`; or models with a grid of their own; or estimators that are fitted as they are.
    folds : int or None, default=None
        k-fold cross-validation with `MultilabelStratifiedKFold`. Five folds if ``repeats`` is None too.
    repeats : int or None, default=None
        Instead of folds, so many random splits by `MultilabelStratifiedShuffleSplit`.
    test_size : float, default=0.5
        Share of the rows to test with ``repeats``.
    measures : sequence of str
        Measures in the tables; names of `comargin.metrics.evaluate`, which are all recorded.
    tune : bool, default=True
        Search the grids; False fits every model with its default parameters.
    criterion : str or None, default=None
        Measure that parameters are chosen by on the inner folds, or "ranking+hamming", the mean of ranking loss and
        Hamming loss. None: average precision for models whose scores are cut by a rule, micro-F1 for others.
    inner_folds : int, default=3
        Folds of each training part, for parameters and for cuts.
    thresholds : str or None, default="aim"
        "aim" gives every model calibrated probabilities by inner folds, and measures it by each measure at the label
        sets that are made for that measure (`comargin.decisions.DecisionClassifierCV`). A rule of
        `comargin.decisions.ThresholdClassifierCV` for the models that cut scores; None leaves every model its own cuts.
    n_jobs : int, default=1
        Processes. The results, seconds aside, are the same for any number.
    results : path or None, default=None
        A .csv or .parquet file with one row per cell, written as cells finish. Cells that are in it already are not
        run again if they have the same data, model, grid, settings and seed.
    retry_failed : bool, default=False
        Whether cells that ended with an error in an earlier run are run again.
    random_state : int, default=0
        Seed of splits, inner folds and estimators.
    callback : callable or None, default=None
        Called with a `CellDone` after every cell.

    Returns
    -------
    Comparison
        All cells, tables and tests. Cells that failed have an ``error``.

    Notes
    -----
    A results file may hold cells of several definitions; a comparison consists of those of its own. Code is no part of
    a definition: versions are recorded beside every cell, and the comparison says when they differ.

    Examples
    --------
    >>> from comargin.comparison import compare
    >>> from comargin.data import make_correlated
    >>> data = make_correlated(80, n_features=5, n_labels=3, seed=0)
    >>> found = compare(data, ["ovr", "knn"], folds=2, measures=["micro_f1"], tune=False)
    >>> len(found.cells), found.failed
    (4, [])
    >>> found.table("micro_f1").mean.shape
    (1, 2)
    """
    compared = checked_models(models)
    chosen = _checked_measures(measures)
    whole_number("random_state", random_state, 0)
    protocol = _checked_protocol(folds, repeats, test_size, int(random_state))
    whole_number("inner_folds", inner_folds, 2)
    for name, flag in (("tune", tune), ("retry_failed", retry_failed)):
        if not isinstance(flag, bool | np.bool_):
            raise ValueError(f"{name} must be True or False, got {flag!r}")
    if isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0:
        raise ValueError(f"n_jobs must be a number of processes, or -1 for all cores; got {n_jobs!r}")
    check_rule(thresholds)
    check_criterion(criterion)
    settings = Settings(bool(tune), criterion, int(inner_folds), thresholds)
    loaded = _checked_datasets(datasets)

    recorded = tuple(dict.fromkeys([*scorers, *chosen]))
    file = None if results is None else ResultsFile(results, recorded)
    before: dict[str, Record] = {}
    if file is not None:
        recorded = file.measures
        before = {record["cell"]: record for record in file.records}
    cells = list(_cells(loaded, compared, settings, protocol, int(random_state), recorded, file is not None))
    found: dict[str, Record] = {}

    def finish(record: Record, *, kept: bool) -> None:
        found[record["cell"]] = record
        if callback is not None:
            callback(CellDone(record, len(found), len(cells), kept=kept))

    todo: list[Cell] = []
    for cell in cells:
        record = before.get(cell.identity["cell"])
        if record is None or (record["error"] and retry_failed):
            todo.append(cell)
        else:
            finish(record, kept=True)

    def done(record: Record) -> None:
        if file is not None:
            file.append(record)
        finish(record, kept=False)

    tasks = [Task(run_cell, (cell,)) for cell in todo]
    run(tasks, Processes(int(n_jobs), "loky"), done, lambda task, reason: unmeasured(task.arguments[0], reason))
    names = tuple(data.name for data in loaded)
    in_order = [found[cell.identity["cell"]] for cell in cells]
    return Comparison(in_order, names, tuple(model.name for model in compared), chosen)


class _Protocol(NamedTuple):
    """How rows are split; ``text`` says it in the results file."""

    text: str
    splitter: Any


def _cells(
    datasets: list[Dataset],
    models: list[ModelRecipe],
    settings: Settings,
    protocol: _Protocol,
    random_state: int,
    measures: tuple[str, ...],
    is_recorded: bool,
) -> Iterator[Cell]:
    """All cells: data set by data set, split by split, model by model."""
    for dataset in datasets:
        # Not int8: scikit-learn's LabelBinarizer mixes up the labels of an int8 y with more than 128 labels.
        Y = check_labels(dataset.Y, f"datasets: Y of {dataset.name!r}").toarray()
        suited = models
        if Y.dtype.kind == "f":  # NaN in unknown cells
            suited = list(map(for_unknown_labels, models))
        else:
            Y = Y.astype(np.int64)
        data = fingerprint(dataset.X, Y)
        definitions = [
            # Without a file nothing outlives this call, and names are enough.
            definition_of(model, settings, data, protocol.text, random_state) if is_recorded else model.name
            for model in suited
        ]
        for split, (train, test) in enumerate(protocol.splitter.split(Y, Y)):
            for model, definition in zip(suited, definitions, strict=True):
                identity = {
                    "cell": hash_of([dataset.name, model.name, definition, split]),
                    "dataset": dataset.name,
                    "model": model.name,
                    "split": split,
                    "protocol": protocol.text,
                    "seed": random_state,
                    "data": data,
                    "definition": definition,
                }
                seed = seed_of(random_state, split)
                yield Cell(identity, dataset.X, Y, train, test, model, settings, seed, measures)


def _checked_datasets(datasets: Any) -> list[Dataset]:
    if isinstance(datasets, str | Dataset):
        datasets = [datasets]
    if not isinstance(datasets, Iterable):
        raise ValueError(f"datasets must be names or Datasets, got {datasets!r}")
    loaded = []
    for dataset in datasets:
        if not isinstance(dataset, str | Dataset):
            raise ValueError(f"datasets must hold names or Datasets, got a {type(dataset).__name__}")
        loaded.append(load(dataset) if isinstance(dataset, str) else dataset)
    check_names([dataset.name for dataset in loaded], "datasets")
    return loaded


def _checked_measures(measures: Any) -> tuple[str, ...]:
    names = (measures,) if isinstance(measures, str) else tuple(measures)
    if not names:
        raise ValueError("measures must name at least one measure")
    for name in names:
        try:
            scorers[name]
        except KeyError as error:
            raise ValueError(f"measures: {error.args[0]}") from None
    return tuple(dict.fromkeys(names))


def _checked_protocol(folds: Any, repeats: Any, test_size: Any, seed: int) -> _Protocol:
    if folds is not None and repeats is not None:
        raise ValueError(f"folds and repeats exclude each other, got folds={folds!r} and repeats={repeats!r}")
    if repeats is None:
        n_folds = _DEFAULT_FOLDS if folds is None else folds
        whole_number("folds", n_folds, 2)
        return _Protocol(f"{n_folds} folds", MultilabelStratifiedKFold(int(n_folds), shuffle=True, random_state=seed))
    whole_number("repeats", repeats, 1)
    if isinstance(test_size, bool) or not isinstance(test_size, Real) or not 0.0 < float(test_size) < 1.0:
        raise ValueError(f"test_size must be a share of the rows between 0 and 1, got {test_size!r}")
    splitter = MultilabelStratifiedShuffleSplit(int(repeats), test_size=float(test_size), random_state=seed)
    # Without the number of repeats: the first splits of a longer run are those of a shorter one.
    return _Protocol(f"hold-out of {float(test_size)!r}", splitter)
