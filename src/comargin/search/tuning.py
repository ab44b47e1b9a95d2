"""Search of parameters one after the other, by cross-validation: the lazy procedure of the Rank-CVM paper."""

from __future__ import annotations

import contextlib
import inspect
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import Any, TextIO

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags, indexable

from .._validation import check_sample_weight, validate_training
from ._base import MultilabelClassifier
from ._path import UNCONVERGED, Folds, Progress, best_of, fit_path, folds_of, has_path, run_all
from ._search_memory import Cell, SearchMemory
from ._tune_input import (
    DEFAULT_CRITERION,
    Criterion,
    check_estimator,
    check_flags,
    checked_criterion,
    checked_cv,
    checked_grid,
    checked_state,
    checked_targets,
)
from ._tune_result import TuneResult, TuneStep, text_of


@dataclass(frozen=True)
class _Rows:
    """What all fits of a search are taken from."""

    X: Any
    y: Any
    weight: np.ndarray | None
    folds: Folds

    def fold(self, fold: int, model: Any) -> tuple[Any, Any, Any, Any]:
        """X to train on and to test, y to train on and to test."""
        train, test = self.folds[fold]
        columns = train if get_tags(model).input_tags.pairwise else None
        X_train, X_test = (_take(self.X, rows, columns) for rows in (train, test))
        return X_train, X_test, self.y[train], self.y[test]

    def weights(self, fold: int) -> tuple[Any, Any]:
        """Weights of the rows to train on and to test; None without weights."""
        train, test = self.folds[fold]
        return (None, None) if self.weight is None else (self.weight[train], self.weight[test])


def tune(
    estimator: Any,
    X: Any,
    y: Any,
    grid: Mapping[str, Sequence[Any]] | Sequence[tuple[str, Sequence[Any]]],
    *,
    criterion: str | Callable[..., float] = DEFAULT_CRITERION,
    cv: Any = 3,
    sample_weight: Any = None,
    n_jobs: int | None = None,
    random_state: int | np.random.RandomState | None = None,
    verbose: int = 0,
    refit: bool = True,
) -> TuneResult:
    r"""Search parameters one after the other by cross-validation.

    The first parameter of the grid is searched with all others as the estimator has them, the second with the best
    value of the first, and so on. Two parameters with 13 and 10 values cost 23 fits per fold, where a full grid
    costs 130. This is how the Rank-CVM paper chooses gamma, at C = 1, and then C.

    Parameters
    ----------
    estimator : estimator
        Any scikit-learn classifier, also a Pipeline. It is cloned and stays as it is.
    X : array-like or sparse matrix of shape (n_samples, n_features), or whatever the estimator takes
        Rows; the kernel matrix for an estimator with a precomputed kernel.
    y : array-like or sparse matrix of shape (n_samples, n_labels), or array-like of shape (n_samples,)
        Indicator with entries in {0, 1}, or 1-D classes.
    grid : mapping of str to sequence, or sequence of (str, sequence)
        Parameters and their values, in the order of the search; names as ``set_params`` takes them, e.g.
        ``"rankcvmclassifier__gamma"``. In a list of pairs a name may come again, for another round.
    criterion : str or callable, default="ranking+hamming"
        What the best value is best at, on held-out rows. "ranking+hamming" is (ranking loss + Hamming loss) / 2, the
        paper's (77), smaller is better; it stands for "error_rate", the share of wrong rows, when y is 1-D, and for
        "hamming_loss" when there is one label. Or a name of :data:`comargin.metrics.scorers`, which is then the
        measure itself in its own direction; or a name of scikit-learn's scorers, or a callable ``criterion(model, X,
        y)``, greater is better.
    cv : int, splitter or iterable of (train, test), default=3
        How rows are held out, in the same way for all parameters. An integer means so many folds of
        :class:`~comargin.model_selection.MultilabelStratifiedKFold`, also for a 1-D y. For a splitter that needs
        groups pass ``list(splitter.split(X, y, groups))``.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, for all fits (in a Pipeline for its last step) and for criteria that take them.
    n_jobs : int, default=None
        Threads. The result is the same for any number.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows before an integer ``cv`` splits them; None does not shuffle. Fits have the ``random_state``
        of the estimator.
    verbose : int, default=0
        1 shows a progress bar over all fits of the folds.
    refit : bool, default=True
        Whether to fit all rows with the best parameters.

    Returns
    -------
    TuneResult
        Best parameters, the criterion of all values, and the fitted estimator.

    Notes
    -----
    The best of one parameter depends on where the others stand: begin with the one that matters most (a kernel's
    gamma), let the values of a later one include the value it starts from, and add another round where it does not.

    Learners of this library that can (M3L, Rank-CVM, Rank-SVM; also as the last step of a Pipeline) are fitted for all
    values of C in one go, whatever their order: from the smallest to the largest, each fit started from the solution
    of the one before, with the kernel matrix computed once and the Pipeline's other steps fitted once per fold. A
    start changes a solution within ``tol`` only. All other fits are made one by one.

    In the folds learners of this library are silent, and their ``callback`` is not called: it belongs to the last
    fit. Fits that do not converge are counted, and one ``ConvergenceWarning`` tells how many. Memory: every thread
    holds what one fit needs, for kernels up to ``cache_size``.

    References
    ----------
    J. Xu. Fast multi-label core vector machine. Pattern Recognition 46(3), 2013, section 8.3.
    https://doi.org/10.1016/j.patcog.2012.09.003

    Examples
    --------
    >>> import numpy as np
    >>> from comargin import RankCVMClassifier, tune
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 2))
    >>> Y = (X @ rng.normal(size=(2, 3)) + X[:, :1] * X[:, 1:] > 0.5).astype(int)
    >>> model = RankCVMClassifier(random_state=0)
    >>> result = tune(model, X, Y, {"gamma": [4.0, 0.5, 0.01], "C": [0.1, 1.0, 10.0]})
    >>> result.best_params
    {'gamma': 0.5, 'C': 10.0}
    >>> result.criterion, result.greater_is_better
    ('ranking+hamming', False)
    >>> result.best_estimator.predict(X).shape
    (90, 3)
    """
    return tune_with_memory(
        estimator,
        X,
        y,
        grid,
        criterion=criterion,
        cv=cv,
        sample_weight=sample_weight,
        n_jobs=n_jobs,
        random_state=random_state,
        verbose=verbose,
        refit=refit,
        memory=SearchMemory(),
    )


def tune_with_memory(
    estimator: Any,
    X: Any,
    y: Any,
    grid: Mapping[str, Sequence[Any]] | Sequence[tuple[str, Sequence[Any]]],
    *,
    criterion: str | Callable[..., float],
    cv: Any,
    sample_weight: Any,
    n_jobs: int | None,
    random_state: int | np.random.RandomState | None,
    verbose: int,
    refit: bool,
    memory: SearchMemory,
) -> TuneResult:
    """`tune` for who keeps what is measured on the way.

    Parameters
    ----------
    estimator, X, y, grid, criterion, cv, sample_weight, n_jobs, random_state, verbose, refit : object
        As `tune` has them.
    memory : SearchMemory
        Knows cells that were measured before.

    Returns
    -------
    TuneResult
        As of `tune`.
    """
    check_estimator(estimator)
    steps = checked_grid(grid, estimator)
    check_flags(refit, verbose)
    y_rows = checked_targets(y)
    X, y_rows = indexable(X, y_rows)
    n_samples = y_rows.shape[0]
    weight = None if sample_weight is None else check_sample_weight(sample_weight, n_samples)
    measure = checked_criterion(criterion, y_rows)
    rows = _Rows(X, y_rows, weight, folds_of(checked_cv(cv, n_samples), X, y_rows, checked_state(random_state)))
    n_threads = effective_n_jobs(n_jobs)

    best: dict[str, Any] = {}
    found: list[TuneStep] = []
    n_fits = len(rows.folds) * sum(len(values) for _, values in steps)
    show = Progress(int(verbose), n_fits, "tune")
    fitted: Any = None
    messages: list[str] = []
    with _noted_convergence() as noted:
        with warnings.catch_warnings():
            # Rare labels are missing in some folds, as they must be.
            warnings.filterwarnings("ignore", r"Label (not )?\S+ is present in all training examples", UserWarning)
            for name, values in steps:
                step = _search(_with(estimator, best), name, values, rows, measure, n_threads, show, noted, memory)
                best[name] = step.best_value
                found.append(step)
        if refit:
            noted.messages = messages
            fitted = _with(estimator, best)
            fitted.fit(X, y, **_weight_params(fitted, weight))
            del noted.messages
    _warn_of_unconverged(found, messages)
    last = found[-1]
    score = float(last.mean[last.best_index])
    return TuneResult(best, score, measure.name, measure.greater_is_better, tuple(found), fitted)


def _search(
    base: Any,
    name: str,
    values: tuple[Any, ...],
    rows: _Rows,
    criterion: Criterion,
    n_threads: int,
    show: Progress,
    noted: threading.local,
    memory: SearchMemory,
) -> TuneStep:
    """Try all values of one parameter on all folds."""
    n_folds = len(rows.folds)
    measured, converged = np.full((n_folds, len(values)), np.nan), np.ones((n_folds, len(values)), dtype=bool)
    stop = threading.Event()

    def tell(fold: int, k: int, told: str = "") -> None:
        tried = f"{name.rpartition('__')[2]} {text_of(values[k])}"  # which step it belongs to is no news
        show(f"fold {fold + 1}  {tried}  {criterion.name} {measured[fold, k]:.4g}{told}")

    def note(fold: int, k: int, model: Any, X_test: Any, y_test: Any, did_converge: bool) -> None:
        measured[fold, k] = criterion.of(model, X_test, y_test, rows.weights(fold)[1])
        converged[fold, k] = did_converge
        memory.note(Cell(name, fold, k), float(measured[fold, k]), did_converge)
        tell(fold, k)

    def recall(fold: int, k: int) -> bool:
        recalled = memory.recall(Cell(name, fold, k))
        if recalled is None:
            return False
        measured[fold, k], converged[fold, k] = recalled
        tell(fold, k, " (known)")
        return True

    def run_one(fold: int, k: int) -> None:
        model = _silent(_with(base, {name: values[k]}), stop)
        X_train, X_test, y_train, y_test = rows.fold(fold, model)
        noted.messages = []
        params = _weight_params(model, rows.weights(fold)[0])
        model = memory.fit(Cell(name, fold, k), model, X_train, y_train, params)
        messages = noted.messages
        del noted.messages
        if not stop.is_set():
            note(fold, k, model, X_test, y_test, not messages)

    def run_path(fold: int) -> None:
        whole = _silent(clone(base), stop)
        X_train, X_test, y_train, y_test = rows.fold(fold, whole)
        head, learner = _parts(whole)
        X_learner = X_test
        if head is not None:
            X_train = head.fit_transform(X_train, y_train)
            X_learner = head.transform(X_test)
            whole = Pipeline([*head.steps, whole.steps[-1]])
        learner._validate_params()
        weight = rows.weights(fold)[0]
        data = validate_training(learner, X_train, y_train, weight, add_intercept=learner._appends_constant())
        order = sorted(range(len(values)), key=values.__getitem__, reverse=not learner._path_ascends)
        cells, in_order = [Cell(name, fold, k) for k in order], [values[k] for k in order]
        seen = (whole, X_test) if criterion.sees_all else (learner, X_learner)
        with memory.path(cells, in_order, learner, data.Y.shape) as path:
            done = path.n_done
            for k in order[:done]:
                recall(fold, k)
            for cell, result in zip(cells[done:], fit_path(learner, data, in_order[done:], path.start), strict=True):
                if stop.is_set():
                    return
                note(fold, cell.position, *seen, y_test, result.status not in UNCONVERGED)
                path.solved(cell, result.dual_coef)

    every = range(len(values))
    if _has_path(base, name, values, rows.weight):
        # A fold that was not finished begins again where its last solution is kept, not after its last measure.
        unfinished = [f for f in range(n_folds) if any(memory.recall(Cell(name, f, k)) is None for k in every)]
        for fold in set(range(n_folds)).difference(unfinished):
            for k in every:
                recall(fold, k)
        tasks = [partial(run_path, fold) for fold in unfinished]
    else:
        tasks = [partial(run_one, fold, k) for k in every for fold in range(n_folds) if not recall(fold, k)]
    run_all(tasks, n_threads, stop)
    sign = 1.0 if criterion.greater_is_better else -1.0
    best, mean = best_of(sign * measured, f"criterion {criterion.name!r} of {name}")
    return TuneStep(name, values, measured, sign * mean, best, converged)


def _parts(estimator: Any) -> tuple[Pipeline | None, Any]:
    """The transformers of a Pipeline, None if there are none, and the learner at its end."""
    if type(estimator) is not Pipeline:
        return None, estimator
    return estimator[:-1] if len(estimator.steps) > 1 else None, estimator.steps[-1][1]


def _has_path(base: Any, name: str, values: tuple[Any, ...], weight: np.ndarray | None) -> bool:
    """Whether all values are fitted in one go."""
    learner = _parts(base)[1]
    prefix = f"{base.steps[-1][0]}__" if learner is not base else ""
    numbers = all(isinstance(v, Real) and not isinstance(v, bool) and 0.0 < float(v) < np.inf for v in values)
    # With metadata routing a weight may be meant for other steps too.
    routed = weight is not None and get_config()["enable_metadata_routing"]
    return numbers and not routed and has_path(learner) and name == f"{prefix}{learner._path_parameter}"


def _with(estimator: Any, params: dict[str, Any]) -> Any:
    """A clone with other parameters; values that are estimators are cloned too."""
    return clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in params.items()})


def _silent(model: Any, stop: threading.Event) -> Any:
    """Learners of ours neither talk from threads nor go on after Ctrl-C."""
    for part in (model, *model.get_params(deep=True).values()):
        if isinstance(part, MultilabelClassifier):
            part.set_params(verbose=0, callback=lambda point: stop.is_set())
    return model


def _weight_params(estimator: Any, weight: np.ndarray | None) -> dict[str, np.ndarray]:
    """Weights in the form ``fit`` takes them: a Pipeline passes on what has the name of a step."""
    if weight is None:
        return {}
    prefix = ""
    if not get_config()["enable_metadata_routing"]:
        while isinstance(estimator, Pipeline):
            name, estimator = estimator.steps[-1]
            prefix += f"{name}__"
        signature = inspect.signature(estimator.fit).parameters.values()
        if not any(p.name == "sample_weight" or p.kind is p.VAR_KEYWORD for p in signature):
            raise ValueError(f"sample_weight: {type(estimator).__name__}.fit takes none; pass None")
    return {f"{prefix}sample_weight": weight}


def _take(X: Any, rows: np.ndarray, columns: np.ndarray | None) -> Any:
    """Rows of X, and columns if X is a matrix between rows."""
    if columns is not None:
        X = X if sp.issparse(X) else np.asarray(X)
        return X[rows][:, columns]
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X[rows] if hasattr(X, "shape") else [X[i] for i in rows]


@contextlib.contextmanager
def _noted_convergence() -> Iterator[threading.local]:
    """Collect the ConvergenceWarnings of a fit in ``messages`` of the thread it runs in, while there is such a list.

    The state of `warnings` belongs to the process: it is changed here, once, and not by the threads.
    """
    noted = threading.local()
    with warnings.catch_warnings():
        warnings.simplefilter("always", ConvergenceWarning)
        show = warnings.showwarning

        def note(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, ConvergenceWarning) and hasattr(noted, "messages"):
                noted.messages.append(str(message))
            else:
                show(message, category, filename, lineno, file, line)

        warnings.showwarning = note
        yield noted


def _warn_of_unconverged(steps: list[TuneStep], messages: list[str]) -> None:
    """One warning for all fits together; ``messages`` are those of the last fit."""
    sentences = []
    failed = sum(int(np.count_nonzero(~step.converged)) for step in steps)
    if failed:
        where = "; ".join(step.unconverged_text() for step in steps if not step.converged.all())
        total = sum(step.converged.size for step in steps)
        sentences.append(f"{failed} of the {total} fits of the folds did not converge ({where}).")
        if not messages:
            sentences.append("Increase their max_iter or tol, or scale X.")
    if messages:
        sentences.append(f"The last fit: {messages[0]}")
    if sentences:
        warnings.warn(f"tune: {' '.join(sentences)}", ConvergenceWarning, stacklevel=4)
