"""Base of learners that choose one parameter by cross-validation along a path."""

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import field, replace
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..core.estimator import Interval, MultilabelClassifier
from ..core.executor import Task
from ..core.loop import Control
from ..core.memory import Memory
from ..core.progress import Progress
from ..core.result import Checkpoint, Result, Status
from ..core.validation import TrainingData
from ._fold_tasks import SearchRows, best_of, measure_path, measured
from .tune_input import Criterion, Folds, folds_of, scorer_named


class PathSearch(MultilabelClassifier):
    """A learner that fits every fold for all values of ``_path_parameter`` and all rows with the best.

    A subclass lists this class before the learner in its bases, names the learner in ``_learner`` and writes
    ``_default_values``. Its parameter with the values to try is the learner's with an s.

    Parameters
    ----------
    cv : int, splitter, iterable of (train, test) or None, default=None
        How rows are held out. An integer is the number of folds of
        :class:`~comargin.model_selection.MultilabelStratifiedKFold`, without shuffling, also for a 1-D y; None means 5.
        For a splitter that needs groups pass ``list(splitter.split(X, y, groups))``.
    scoring : str, callable or None, default=None
        The measure that chooses the value. A name of :data:`comargin.metrics.scorers` or, where it has none, of
        scikit-learn's scorers ("average_precision" is in both: it is ours, the ranking of labels in each row); or a
        callable ``scoring(model, X, y)``, greater is better. None is "micro_f1" for an indicator and "accuracy" for a
        1-D y. ``sample_weight`` is passed on to scorers that take it.
    refit : bool, default=True
        Whether to fit all rows with the best value. Without it there are the scores and the best value, but no weights
        and nothing to predict with; the certificate is nan.
    verbose : int, default=0
        1 shows a progress bar over all fits of the folds, then one with the current gap of the last fit.
    callback : callable, default=None
        Called with every ``Checkpoint`` of the last fit; returning True ends it at its current iterate.

    Attributes
    ----------
    scores_ : ndarray of shape (n_folds, n_values)
        Scores of the held-out rows.
    best_index_ : int
        Index of the best value.
    best_score_ : float
        Its mean score over the folds.
    converged_ : bool ndarray of shape (n_folds, n_values)
        Which fits of the path met the tolerance.
    """

    cv: Any = None
    scoring: str | Callable[..., float] | None = None
    refit: bool = True
    path_tol: float | None = None
    warm_start: bool = field(init=False)  # there is no path to continue

    _learner: ClassVar[type[MultilabelClassifier]]
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "cv": ["cv_object"],
        "scoring": [str, callable, None],
        "refit": ["boolean"],
        "path_tol": [None, Interval(Real, 0, None, closed="left")],
    }

    @abstractmethod
    def _default_values(self, data: TrainingData, count: int) -> np.ndarray:
        """``count`` values to try, when a number is given in place of values."""

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Score of the rows by ``scoring``, the measure the value was chosen by.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.
        y : array-like or sparse matrix of shape (n_samples, n_labels), or array-like of shape (n_samples,)
            True labels, in the form y had in ``fit``.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; ``scoring`` must take them.

        Returns
        -------
        float
            Greater is better.
        """
        check_is_fitted(self)
        weight = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(_scorer(self.scoring, self._targets.kind)(self, X, y, **weight))

    def _solve(self, data: TrainingData, start: Any, control: Control) -> tuple[Result, dict[str, Any]]:
        values = self._values(data)
        # Canonical, in the caller's form.
        y = data.targets.decode(data.Y - 0.5) if data.known is None else data.labels
        folds = folds_of(5 if self.cv is None else self.cv, data.X, y)
        rng = check_random_state(self.random_state)
        seed = int(self.random_state if isinstance(self.random_state, Integral) else rng.randint(2**31))
        began = time.perf_counter()
        scores, converged = self._scores_of_path(data, y, values, folds, seed)
        best, mean = best_of(scores, f"scoring={self.scoring!r}")
        choice = {
            f"{self._path_parameter}_": float(values[best]),
            f"{self._path_parameter}s_": values,
            "scores_": scores,
            "best_index_": best,
            "best_score_": float(mean[best]),
            "converged_": converged,
        }
        if self.refit:
            result, attributes = self._model_at(values[best], random_state=seed)._solve(data, None, control)
        else:
            nothing = Checkpoint(0, time.perf_counter() - began, np.nan, np.nan)
            result, attributes = Result(np.empty((0, 0)), np.empty((0, 0)), (nothing,), np.nan, Status.CONVERGED), {}
        if result.status is Status.CONVERGED and not converged.all():
            result = replace(result, status=Status.MAX_ITER)  # one warning, for all fits together
        return result, attributes | choice

    def _values(self, data: TrainingData) -> np.ndarray:
        """Distinct values to try, in the order of the path."""
        name = f"{self._path_parameter}s"
        given = getattr(self, name)
        if isinstance(given, Integral):
            return self._default_values(data, int(given))
        try:
            values = np.unique(np.asarray(given, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise ValueError(f"{name} must hold positive numbers: {error}") from error
        if np.ndim(given) != 1 or values.size == 0 or not (np.isfinite(values).all() and values[0] > 0.0):
            raise ValueError(
                f"{name} must be an integer of at least 2 or a 1-D list of positive numbers, got {given!r}"
            )
        return values if self._path_ascends else values[::-1].copy()

    def _path_tol(self, data: TrainingData) -> float:
        """Tolerance of the fits in the folds: the choice needs less precision than the last fit."""
        return 10.0 * self.tol if self.path_tol is None else self.path_tol

    def _model_at(self, value: float, **changes: Any) -> Any:
        """The plain learner with the parameters of this one."""
        own = {name: getattr(self, name) for name in self._learner().get_params() if name != self._path_parameter}
        return self._learner(**(own | {self._path_parameter: value} | changes))

    def _scores_of_path(
        self, data: TrainingData, y: Any, values: np.ndarray, folds: Folds, seed: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """Score of every fold and value, and which of the fits met the tolerance."""
        model = self._model_at(
            1.0,
            random_state=seed,
            n_jobs=max(1, self._n_threads() // len(folds)),
            tol=self._path_tol(data),
            **({"cache_size": self.cache_size / len(folds)} if hasattr(self, "cache_size") else {}),  # they share it
        )
        criterion = Criterion("score", _scorer(self.scoring, data.targets.kind), True)
        weight = None if (data.sample_weight == 1.0).all() else data.sample_weight
        # Without the constant feature, which every fit appends.
        rows = SearchRows(data.X[:, : self.n_features_in_], y, weight, folds, encoded=(data.Y, data.targets))
        name, show = self._path_parameter, Progress(self.verbose, len(folds) * len(values), type(self).__name__)
        tasks = [
            Task(measure_path, (model, rows, fold, values, criterion, Memory(), f"{fold}"))
            for fold in range(len(folds))
        ]
        return measured(tasks, self.n_jobs, len(folds), name, values, criterion.name, show)

    def _convergence_message(self, result: Result) -> str:
        failed = int(np.count_nonzero(~self.converged_))
        path = ""
        if failed:
            tried = getattr(self, f"{self._path_parameter}s_")
            first = tried[~self.converged_.all(axis=0)][0]
            side = "smallest" if self._path_ascends else "largest"
            path = (
                f"{failed} of the {self.converged_.size} fits of the folds stopped before the tolerance "
                f"(max_iter={self.max_iter}, path_tol={self.path_tol}), the {side} {self._path_parameter} of them is "
                f"{first:g}."
            )
        if not result.gap > result.tol_abs:  # the last fit is fine, or there is none
            return f"{type(self).__name__}: {path} {self._advice}"
        message = super()._convergence_message(result)
        return f"{message} Also, {path}" if path else message

    def _scores(self, X: Any) -> np.ndarray:
        if not hasattr(self, "intercept_"):
            name = self._path_parameter
            raise NotFittedError(
                f"{type(self).__name__} was fitted with refit=False: there are scores_ and {name}_, but no model to "
                f"predict with. Fit with refit=True, or the learner itself with {name}={name}_"
            )
        return self._learner._scores(self, X)


def _scorer(scoring: Any, kind: str) -> Callable[..., float]:
    """The scorer for the parameter ``scoring``; ``kind`` is that of the targets."""
    if scoring is None:
        scoring = "micro_f1" if kind == "indicator" else "accuracy"
    return scorer_named(scoring, "scoring") if isinstance(scoring, str) else scoring
