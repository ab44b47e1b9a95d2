"""The contract of every learner.

A learner derives from ``MultilabelClassifier`` (or ``LinearMultilabelClassifier``) and writes ``_solve``, which takes
canonical ``TrainingData`` and returns a solver's ``Result`` and the learner's own fitted attributes. The rest is here:
parameter checks, validation, the certificate, warm starts, the convergence warning, prediction in the caller's form.

Private scikit-learn names are imported in this file only.
"""

import warnings
from abc import abstractmethod
from collections import ChainMap
from collections.abc import Callable
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClassifierMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_is_fitted

from .checks import finite_scores
from .docstrings import complete_docstring
from .explanation import Explanation, ExplanationMixin, linear_explanations
from .loop import Control
from .parameters import DeclaredParameters
from .result import Checkpoint, FitState, Result, Status
from .validation import TrainingData, label_weights, validate_features, validate_training, with_constant

__all__ = ["Interval", "LinearMultilabelClassifier", "MultilabelClassifier", "StrOptions", "checks_parameters"]

# Decorator of ``fit``: parameters are checked first.
checks_parameters = _fit_context(prefer_skip_nested_validation=True)


class MultilabelClassifier(DeclaredParameters, ExplanationMixin, ClassifierMixin, BaseEstimator):
    """Base of all learners.

    Parameters are declared as annotated attributes with their defaults, ``alpha: float = 1.0``, and ``__init__`` is
    made from them as in a dataclass. A subclass has those of its bases, all below but for the first two, and declares
    its own in the same way.

    It gives the constraints of its own parameters in ``_parameter_constraints``, and writes ``_solve`` and ``_scores``.
    A line ``{tol} {verbose}`` in its docstring stands for what the docstrings of its bases, this one or one in between,
    say about these names.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Append a constant-1 feature (its weights are regularised like the others), reported as ``intercept_``.
    class_weight : None, "balanced", dict or list of dict, default=None
        For an indicator Y: ``{0: w, 1: w}`` weighs negatives and positives of every label, a list has one such dict
        per label; "balanced" gives both sides of every label the same total weight. For a 1-D y: weights of the
        classes, as in scikit-learn.
    tol : float, default=1e-3
        Relative tolerance: stop when the duality gap is at most ``tol`` times the objective.
    max_iter : int, default=1000
        Most iterations; a ``ConvergenceWarning`` says when they do not suffice.
    n_jobs : int, default=None
        Threads. The result is the same for any number.
    random_state : int, RandomState instance or None, default=None
        Fixes the order in which rows are visited.
    verbose : int, default=0
        1 shows a progress bar with the current gap.
    callback : callable, default=None
        Called with every ``Checkpoint(n_iter, seconds, primal, dual)``; returning True ends the fit at this point.
    warm_start : bool, default=False
        Start from the solution of the fit before (same rows and labels, e.g. another ``C``).

    Attributes
    ----------
    objective_, dual_objective_, duality_gap_ : float
        The certificate: the optimum lies between the dual and the primal objective.
    history_ : list of Checkpoint
        Certified moments of the fit.
    n_iter_ : int
        Iterations done.
    classes_ : ndarray
        Labels (0..L-1) of an indicator Y, or the classes of a 1-D y.
    n_features_in_ : int
        Features seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, when X had string column names.
    """

    tol: float = 1e-3
    max_iter: int = 1000
    n_jobs: int | None = None
    random_state: int | np.random.RandomState | None = None
    verbose: int = 0
    callback: Callable[[Checkpoint], object] | None = None
    warm_start: bool = False

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "fit_intercept": ["boolean"],
        "class_weight": [None, StrOptions({"balanced"}), dict, list],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [None, Integral],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
        "callback": [None, callable],
        "warm_start": ["boolean"],
    }

    # The unit of max_iter, and the advice, in the convergence warning.
    _per: ClassVar[str] = ""
    _advice: ClassVar[str] = "Increase max_iter or tol, or scale X."
    # For learners with ``_prepare``: the parameter of a warm-started path, and whether the path ascends.
    _path_parameter: ClassVar[str] = "C"
    _path_ascends: ClassVar[bool] = True
    _takes_unknown: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        complete_docstring(cls)
        constraints = ChainMap(*(vars(base).get("_parameter_constraints", {}) for base in cls.__mro__))
        # A base may have constraints of what its subclasses take as parameters.
        names = [*cls._get_param_names(), *vars(cls).get("_parameter_constraints", ())]
        cls._parameter_constraints = {name: constraints[name] for name in names if name in constraints}

    def _solve(self, data: TrainingData, start: Any, control: Control) -> tuple[Result, dict[str, Any]]:
        """Learn from canonical data.

        A learner writes this; or ``_prepare``, which does with the data what no value of ``_path_parameter`` changes,
        and returns a function of the value, ``start`` and ``control``.

        Parameters
        ----------
        data : TrainingData
            Canonical features, indicator and weights.
        start : object with a shape, or None
            ``dual_coef`` of the previous fit in a warm start, or the solution of a resumed state; its shape is that of
            Y.
        control : Control
            Tolerance, limits, progress and state keeping of the solver; warnings for the caller go to its ``warnings``.

        Returns
        -------
        result : Result
            Solution and certificate.
        attributes : dict
            Fitted attributes of the learner itself, e.g. ``coef_``.
        """
        return self._prepare(data)(getattr(self, self._path_parameter), start, control)

    @abstractmethod
    def _scores(self, X: Any) -> np.ndarray:
        """Decision values of shape (n_samples, n_labels) for the X of ``predict``."""

    @checks_parameters
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from labelled rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features, dense or CSR.
        y : array-like or sparse matrix of shape (n_samples, n_labels), or array-like of shape (n_samples,)
            Indicator with entries in {0, 1}, NaN where it is unknown whether a label is on, or 1-D binary or multiclass
            targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights of the rows; one for every row if None.

        Returns
        -------
        self : object
            The fitted estimator. When fitting fails or is interrupted, the estimator is as it was before.
        """
        for warning in self._fit(X, y, sample_weight, self._control()):
            warnings.warn(warning, stacklevel=3)  # the caller of fit, past scikit-learn's context
        return self

    def fit_from_state(
        self,
        X: Any,
        y: Any,
        state: FitState | None,
        *,
        keep: Callable[[Callable[[], FitState]], object] | None = None,
        should_stop: Callable[[], bool] | None = None,
    ) -> list[Warning]:
        """Fit like `fit`, resuming from a state of the same fit and offering states on the way.

        A resumed fit counts iterations and seconds from its state and ends at the same tolerance.

        Parameters
        ----------
        X, y : array-like
            As in `fit`.
        state : FitState or None
            State to resume from; None starts anew.
        keep : callable or None, default=None
            Called at every certificate with a function that returns the state.
        should_stop : callable or None, default=None
            Called at every certificate; a true return value ends the fit at its current iterate, as ``callback`` does.

        Returns
        -------
        list of Warning
            The warnings that `fit` would have raised.
        """
        self._validate_params()
        control = self._control()
        if should_stop is not None:
            callback = self.callback

            def seen(point: Checkpoint) -> bool:
                stopped = callback is not None and bool(callback(point))  # called at every checkpoint
                return should_stop() or stopped

            control = replace(control, callback=seen)
        before = () if state is None else state.history
        return self._fit(X, y, None, replace(control, keep=keep, before=before), state)

    def _fit(
        self, X: Any, y: Any, sample_weight: Any, control: Control, state: FitState | None = None, **more: Any
    ) -> list[Warning]:
        """Fit, and return the warnings for the caller; ``more`` goes to ``_solve`` of a learner that takes it."""
        before = dict(vars(self))
        try:
            previous = getattr(self, "_dual_start", None) if self.warm_start else None
            previous = previous if state is None else state.solution
            data = self._training_data(X, y, sample_weight)
            if previous is not None and previous.shape != data.Y.shape:
                raise ValueError(
                    f"warm_start=True continues on the same rows and labels: the fit before had {previous.shape[0]} "
                    f"rows and {previous.shape[1]} labels, X and y now have {data.Y.shape[0]} and {data.Y.shape[1]}. "
                    "Pass the same rows, or clone the estimator"
                )
            result, attributes = self._solve(data, previous, control, **more)
            self.classes_ = data.targets.classes
            self._targets = data.targets
            self._adopt(result, attributes)
            if self.warm_start:
                self._dual_start = result.dual_coef
            else:
                self.__dict__.pop("_dual_start", None)
        except BaseException:  # the estimator stays as it was
            self.__dict__ = before
            raise
        if result.status.falls_short:
            return [*control.warnings, ConvergenceWarning(self._convergence_message(result))]
        return control.warnings

    def _adopt(self, result: Result, attributes: dict[str, Any]) -> None:
        """Set the certificate of a solver's result and the learner's own attributes."""
        self.objective_ = result.primal
        self.dual_objective_ = result.dual
        self.duality_gap_ = result.gap
        self.history_ = list(result.history)
        self.n_iter_ = result.n_iter
        for name in getattr(self, "_own_attributes", ()):  # an earlier kernel may have had others
            delattr(self, name)
        self._own_attributes = tuple(attributes)
        for name, value in attributes.items():
            setattr(self, name, value)

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of every label; positive means on.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray of shape (n_samples, n_labels), or (n_samples,) for a 1-D y of at most two classes
            Decision values.
        """
        check_is_fitted(self)
        scores = self._certain(self._scores, X)
        return scores[:, 0] if self._targets.kind in ("binary", "constant") else scores

    def predict(self, X: Any) -> np.ndarray | sp.csr_array:
        """Labels of every row, in the form y had in ``fit``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ndarray or csr_array
            Indicator in {0, 1} (CSR when y was sparse), or one class per row.
        """
        check_is_fitted(self)
        return self._targets.decode(self._certain(self._deciding_scores, X))

    def _certain(self, scores_of: Callable[..., np.ndarray], *arguments: Any) -> np.ndarray:
        """Scores, all of them finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            return finite_scores(scores_of(*arguments), self)

    def _deciding_scores(self, X: Any) -> np.ndarray:
        """What `predict` decides by: labels are on where it is positive, a multiclass y takes the largest."""
        return self._scores(X)

    def _training_data(self, X: Any, y: Any, sample_weight: Any) -> TrainingData:
        """The arguments of ``fit``, checked, with the constant feature."""
        data = validate_training(self, X, y, sample_weight)
        if data.known is not None and not self._takes_unknown:
            raise ValueError(
                f"{type(self).__name__} takes no unknown labels, and y has {np.count_nonzero(~data.known)} (NaN)"
            )
        return replace(data, X=with_constant(data.X, self._constant_feature(data)))

    def _constant_feature(self, data: TrainingData) -> float:
        """The value of the constant feature that ``fit`` appends to the rows, 0 for none."""
        return float(getattr(self, "fit_intercept", False))

    def _control(self) -> Control:
        return Control(self.tol, self.max_iter, int(self.verbose), self.callback, type(self).__name__)

    def _n_threads(self) -> int:
        return effective_n_jobs(self.n_jobs)

    def _weights(self, data: TrainingData) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the rows (n,) and of the two sides of every label (2, L), with ``class_weight``."""
        if data.targets.kind == "indicator":
            return data.sample_weight, label_weights(self.class_weight, data.signs, data.sample_weight)
        one_sided = np.ones((2, data.Y.shape[1]))
        if self.class_weight is None:
            return data.sample_weight, one_sided
        y = data.targets.decode(data.Y - 0.5)
        return data.sample_weight * compute_sample_weight(self.class_weight, y), one_sided

    def _seeds(self, count: int) -> list[int]:
        """One seed per independent block, drawn before any work, so that results do not depend on the threads."""
        rng = check_random_state(self.random_state)
        return [int(s) for s in rng.randint(0, np.iinfo(np.int64).max, size=count, dtype=np.int64)]

    def _convergence_message(self, result: Result) -> str:
        advice = self._advice
        if result.status is Status.STALLED:  # more iterations would not help
            advice = advice.replace("max_iter or tol", "tol")
        return (
            f"{type(self).__name__} stopped after {result.n_iter} iterations (max_iter={self.max_iter}{self._per}): "
            f"duality gap {result.gap:.1e} > tolerance {result.tol_abs:.1e} (tol={self.tol:g} times the objective "
            f"{result.primal:.4g}); {result.status.value}. {advice}"
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_targets")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        tags.target_tags.multi_output = True
        return tags


class LinearMultilabelClassifier(MultilabelClassifier):
    """Base of learners whose scores are linear.

    Attributes
    ----------
    coef_ : ndarray of shape (n_labels, n_features)
        Weights.
    intercept_ : ndarray of shape (n_labels,)
        Weights of the constant feature; zero without intercept.
    """

    fit_intercept: bool = True

    def _linear_attributes(self, coef: np.ndarray, constant: float = 1.0) -> dict[str, np.ndarray]:
        """``coef_`` and ``intercept_`` from the weights (n_labels, n_features [+ 1]) of a solver."""
        if self.fit_intercept:
            weights = coef[:, :-1]
            # Fortran order, as some solvers return it, is the fastest for products with X.
            weights = weights if weights.flags.f_contiguous else np.ascontiguousarray(weights)
            return {"coef_": weights, "intercept_": constant * coef[:, -1]}
        return {"coef_": coef, "intercept_": np.zeros(coef.shape[0])}

    def _scores(self, X: Any) -> np.ndarray:
        X = validate_features(self, X)
        return np.asarray(X @ self.coef_.T) + self.intercept_

    def _explanations(self, X: Any, asked: list[np.ndarray], top: int, names: Any) -> list[list[Explanation]]:
        return linear_explanations(validate_features(self, X), self.coef_, self.intercept_, asked, top, names)
