"""Search of parameters one after the other, by cross-validation: the lazy procedure of the Rank-CVM paper."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import indexable

from ..core.executor import Task
from ..core.memory import Memory
from ..core.path import has_path
from ..core.progress import Progress
from ..core.validation import check_sample_weight, check_seed, indexable_targets, require_estimator
from ..core.wording import CONSTANT_LABEL
from ._fold_tasks import (
    FoldScore,
    SearchRows,
    best_of,
    convergence_messages,
    measure_path,
    measure_value,
    measured,
    parts_of,
    weight_params,
)
from ._tune_result import TuneResult, TuneStep
from .tune_input import DEFAULT_CRITERION, Criterion, check_flags, checked_criterion, checked_cv, checked_grid, folds_of


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
    memory: Memory | None = None,
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
        The measure on held-out rows that chooses the value. "ranking+hamming" is (ranking loss + Hamming loss) / 2, the
        paper's (77), smaller is better; it stands for "error_rate", the share of wrong rows, when y is 1-D, and for
        "hamming_loss" when there is one label. Or a name of :data:`comargin.metrics.scorers`, which is then the
        measure itself in its own direction; or a name of scikit-learn's scorers, or a callable ``criterion(model, X,
        y)``, greater is better.
    cv : int, splitter or iterable of (train, test), default=3
        How rows are held out, in the same way for all parameters. An integer is the number of folds of
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
    memory : Memory or None, default=None
        What an interrupted search with the same arguments has found. It keeps the criterion of every fold and value
        under ``search/<name>/<fold>/<value>``, and all of a parameter, when it is searched, under ``best/<name>``; the
        name has its place in the grid if it comes again. None keeps nothing.

    Returns
    -------
    TuneResult
        Best parameters, the criterion of all values, and the fitted estimator.

    Notes
    -----
    The best value of one parameter depends on the others: begin with the one that matters most (a kernel's gamma), let
    the values of a later one include the value it starts from, and add another round where they do not.

    Learners of this library that can (M3L, Rank-CVM, Rank-SVM, LSG21; also as the last step of a Pipeline) are fitted
    for all values of C, or of alpha for LSG21, in one go, whatever their order: from the strongest regularisation to
    the weakest, each fit started from the solution of the one before, with the kernel matrix computed once and the
    Pipeline's other steps fitted once per fold. A start changes a solution within ``tol`` only. All other fits are
    made one by one.

    In the folds learners of this library are silent, and their ``callback`` is called in the last fit only. One
    ``ConvergenceWarning`` counts the fits that do not converge. Memory: every thread holds the data of one fit, for
    kernels up to ``cache_size``.

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
    require_estimator(estimator, "a scikit-learn classifier")
    grid = checked_grid(grid, estimator)
    check_flags(refit, verbose)
    y_rows = indexable_targets(y, "tune")[0]
    X, y_rows = indexable(X, y_rows)
    n_samples = y_rows.shape[0]
    weight = None if sample_weight is None else check_sample_weight(sample_weight, n_samples)
    measure = checked_criterion(criterion, y_rows)
    rows = SearchRows(X, y_rows, weight, folds_of(checked_cv(cv, n_samples), X, y_rows, check_seed(random_state)))
    show = Progress(int(verbose), len(rows.folds) * sum(len(values) for _, values in grid), "tune")
    shorts = [name.rpartition("__")[2] for name, _ in grid]

    memory = memory or Memory()
    best: dict[str, Any] = {}
    steps: list[TuneStep] = []
    sign = 1.0 if measure.greater_is_better else -1.0
    with warnings.catch_warnings():
        # Rare labels are missing in some folds.
        warnings.filterwarnings("ignore", CONSTANT_LABEL, UserWarning)
        for place, (name, values) in enumerate(grid):
            key = shorts[place] if shorts.count(shorts[place]) == 1 else f"{shorts[place]}_{place}"
            base = with_parameters(estimator, best)
            table, converged = _searched(base, name, values, rows, measure, n_jobs, memory, key, show)
            index, mean = best_of(sign * table, f"criterion {measure.name!r} of {name}")
            steps.append(TuneStep(name, values, table, sign * mean, index, converged))
            best[name] = values[index]
    fitted: Any = None
    messages: list[str] = []
    if refit:
        with convergence_messages() as messages:
            fitted = with_parameters(estimator, best)
            fitted.fit(X, y, **weight_params(fitted, weight))
    _warn_of_unconverged(steps, messages)
    score = float(steps[-1].mean[steps[-1].best_index])
    return TuneResult(best, score, measure.name, measure.greater_is_better, tuple(steps), fitted)


def _searched(
    base: Any,
    name: str,
    values: tuple[Any, ...],
    rows: SearchRows,
    criterion: Criterion,
    n_jobs: int | None,
    memory: Memory,
    key: str,
    show: Progress,
) -> tuple[np.ndarray, np.ndarray]:
    """The criterion of all values of one parameter on all folds, and which fits converged."""
    shape = n_folds, n_values = len(rows.folds), len(values)
    root, kept = f"search/{key}", memory.recall(f"best/{key}")
    if kept is not None:
        parts = kept if isinstance(kept, tuple) else (kept,)
        forms = [(getattr(part, "shape", None), getattr(part, "dtype", None)) for part in parts]
        if forms != [(shape, np.float64), (shape, np.bool_)]:
            raise ValueError(f"the checkpoint of best/{key} holds {kept!r:.80}; delete its folder")
        memory.forget(root)
        show.total -= n_folds * n_values
        return kept
    places = [(fold, k) for k in range(n_values) for fold in range(n_folds)]
    known = {place: score for place in places if (score := _recalled(memory, root, *place)) is not None}
    if _has_path(base, name, values, rows.weight is not None):
        begun = sorted({fold for fold, k in places if (fold, k) not in known})
        known = {place: score for place, score in known.items() if place[0] not in begun}  # the others come again
        tasks = [Task(measure_path, (base, rows, fold, values, criterion, memory, f"{root}/{fold}")) for fold in begun]
    else:
        models = [with_parameters(base, {name: value}) for value in values]
        tasks = [
            Task(measure_value, (models[k], rows, fold, k, criterion, memory, f"{root}/{fold}/{k}"))
            for fold, k in places
            if (fold, k) not in known
        ]

    def keep(score: FoldScore) -> None:
        memory.keep(f"{root}/{score.fold}/{score.k}", (score.value, score.converged))

    short = name.rpartition("__")[2]
    found = measured(tasks, n_jobs, n_folds, short, values, criterion.name, show, known=known.values(), keep=keep)
    memory.keep(f"best/{key}", found)
    memory.forget(root)
    return found


def _recalled(memory: Memory, root: str, fold: int, k: int) -> FoldScore | None:
    """The stored score of a fold and a value, or None."""
    kept = memory.recall(f"{root}/{fold}/{k}")
    if kept is None:
        return None
    if not (isinstance(kept, tuple) and [type(each) for each in kept] == [float, bool]):
        raise ValueError(f"the checkpoint of {root}/{fold}/{k} holds {kept!r:.80}; delete its folder")
    return FoldScore(fold, k, *kept)


def _has_path(base: Any, name: str, values: tuple[Any, ...], weighted: bool) -> bool:
    """Whether all values are fitted along one path."""
    learner = parts_of(base)[1]
    prefix = f"{base.steps[-1][0]}__" if learner is not base else ""
    numbers = all(isinstance(v, Real) and not isinstance(v, bool) and 0.0 < float(v) < np.inf for v in values)
    # With metadata routing a weight may be meant for other steps too.
    routed = weighted and get_config()["enable_metadata_routing"]
    return numbers and not routed and has_path(learner) and name == f"{prefix}{learner._path_parameter}"


def with_parameters(estimator: Any, params: dict[str, Any]) -> Any:
    """A clone with other parameters; values that are estimators are cloned too."""
    return clone(estimator).set_params(**{name: clone(value, safe=False) for name, value in params.items()})


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
        warnings.warn(f"tune: {' '.join(sentences)}", ConvergenceWarning, stacklevel=3)
