"""Base of the classifiers that learn from out-of-fold scores what to make of scores."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils import get_tags, indexable
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from ..core.docstrings import complete_docstring
from ..core.indicator import check_indicator, check_weight
from ..core.memory import Memory, StopRequest, fit_clone, silent_clone
from ..core.validation import check_seed, indexable_targets, is_estimator, require_estimator
from ..core.wrapper import WrappingClassifier
from .cross_fit import cross_fit, score_matrix, splits_of


class CrossFittedClassifier(WrappingClassifier):
    """A classifier that fits an estimator and, on scores of rows left out, a rule for its scores.

    A subclass has the parameters below and writes ``_new_rule``: an object with ``fit(scores, Y, sample_weight)`` and
    ``predict(scores)``.

    Parameters
    ----------
    estimator : estimator object
        Any classifier with ``decision_function`` or ``predict_proba``; a Pipeline too. One that takes a 1-D y only,
        such as `LogisticRegression`, goes inside a `OneVsRestClassifier`. Learners of this library are silent in the
        folds, and their ``callback`` is called in the last fit only.
    cv : int, float, splitter, iterable or "prefit"
        Where the scores come from. An int is the number of folds of `MultilabelStratifiedKFold`, a float the
        share of rows held out once by `MultilabelStratifiedShuffleSplit`; a splitter or an iterable of
        (train, test) index pairs is used as it is (test parts may overlap or leave rows out). "prefit" takes
        a fitted estimator and learns from the rows given to `fit`, which should not be those it was trained on.
    refit : bool, default=True
        Fit the estimator on all rows at the end. False keeps the one fitted on the single training part of
        ``cv``, and is an error if there are several. Without effect for "prefit".
    n_jobs : int or None, default=None
        Folds fitted at the same time. The result does not depend on it.
    random_state : int, RandomState instance or None, default=None
        Shuffles the rows before an int or float ``cv`` splits them. With None and an int the folds depend on
        the data alone. It is not passed to the estimator.

    Attributes
    ----------
    estimator_ : estimator object
        The fitted estimator that gives the scores.
    classes_ : ndarray of shape (n_labels,)
        Labels 0..L-1, or the two classes of a 1-D y.
    n_features_in_ : int
        That of ``estimator_``, where it has one; so are ``feature_names_in_``.
    target_form_ : str
        What ``y`` was and `predict` returns: "dense" or "sparse" indicator, or "classes".
    """

    cv: Any = 5
    refit: bool = True
    n_jobs: int | None = None
    random_state: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        complete_docstring(cls)

    @abstractmethod
    def _new_rule(self, chosen: Any = None) -> Any:
        """What learns from the scores of ``chosen``, not fitted; raises ValueError for parameters that are wrong."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None, **fit_params: Any) -> Self:
        """Fit the estimator and learn the rule.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or whatever the estimator takes
            Rows; a list of texts is fine for a Pipeline that takes it.
        y : array-like or sparse matrix of shape (n_samples, n_labels), or array-like of shape (n_samples,)
            A {0, 1} indicator, NaN in unknown cells, which count nowhere; or two classes. The estimator must take NaN
            (`comargin.baselines.KnownLabelsClassifier` makes it so).
        sample_weight : array-like of shape (n_samples,) or None
            Passed on to the estimator, which must accept it, and to the rule.
        groups : array-like of shape (n_samples,) or None
            Passed on to the splitter.
        **fit_params : dict
            Passed on to the estimator's ``fit``; values with one entry per row are split with the rows.

        Returns
        -------
        self : object
            The fitted classifier.
        """
        self._fit(X, y, sample_weight, groups, fit_params)
        return self

    def _fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        groups: Any = None,
        fit_params: Mapping[str, Any] = MappingProxyType({}),
        *,
        memory: Memory | None = None,
        stop: StopRequest | None = None,
        show: Callable[[str], None] = lambda text: None,
        measure: Callable[[Any, NDArray[np.float64], sparse.csr_array], Any] = lambda rule, scores, Y: {},
    ) -> Any:
        """`fit`, going on from what ``memory`` has; ``stop`` may end the last fit, ``show`` reports each fold.

        Returns what ``measure`` makes of the fitted rule and of the held-out scores and labels.
        """
        self._check_parameters()
        memory, rule = memory or Memory(), self._new_rule()
        Y, y, classes = read_target(y, type(self).__name__)
        if sample_weight is not None:
            check_weight(sample_weight, Y.shape[0])
        X, y, sample_weight, groups = indexable(X, y, sample_weight, groups)
        params = self._routed(sample_weight, dict(fit_params))
        learned = _recalled(memory, type(rule), Y.shape[1])
        estimator = None if learned is None else self._chosen(memory)
        if learned is None:
            estimator, scores, rows = self._held_out(X, y, Y, groups, params, memory, show)
            rule = self._new_rule(estimator)
            rule.fit(scores, Y[rows], sample_weight=None if sample_weight is None else np.asarray(sample_weight)[rows])
            learned = rule, measure(rule, scores, Y[rows])
            memory.keep("rule", learned)
            for done in ("cuts", "search"):
                memory.forget(done)
        if self.refit and not isinstance(self.cv, str):
            estimator = self._last_fit(estimator, X, y, params, memory, stop)
        self._become(estimator, learned[0], classes, y)
        return learned[1]

    def _held_out(
        self, X: Any, y: Any, Y: sparse.csr_array, groups: Any, params: dict[str, Any], memory: Memory,
        show: Callable[[str], None],
    ) -> tuple[Any, NDArray[np.float64], NDArray[np.intp]]:  # fmt: skip
        """What `_last_fit` fits, or the estimator if it is fitted already; held-out scores, and their rows."""
        if isinstance(self.cv, str):
            if self.cv != "prefit":
                raise ValueError(f'cv must be an int, a float, a splitter, an iterable or "prefit"; got {self.cv!r}.')
            check_is_fitted(self.estimator)
            return self.estimator, score_matrix(self.estimator, X, Y.shape[1]), np.arange(Y.shape[0])
        splits = splits_of(self.cv, X, y, groups, self.random_state)
        if not self.refit and len(splits) > 1:
            raise ValueError(f"refit=False needs a cv with one split, e.g. cv=0.2; this one has {len(splits)}.")
        estimator = silent_clone(self.estimator) if self.refit else self.estimator
        fitted, scores, rows = cross_fit(estimator, X, y, Y, splits, params, self.n_jobs, memory, show)
        return self.estimator if self.refit else fitted, scores, rows

    def _chosen(self, memory: Memory) -> Any:
        """What `_last_fit` fits in a fit that goes on after its rule was learned."""
        return self.estimator

    def _last_fit(
        self, chosen: Any, X: Any, y: Any, params: dict[str, Any], memory: Memory,
        stop: StopRequest | None,
    ) -> Any:  # fmt: skip
        """The estimator on all rows."""
        return fit_clone(chosen, X, y, memory, "fit", params=params, stop=stop)

    def _become(self, estimator: Any, rule: Any, classes: NDArray[Any], y: Any) -> Self:
        self.estimator_, self.rule_, self.classes_ = estimator, rule, classes
        self.target_form_ = "classes" if y.ndim == 1 else "sparse" if sparse.issparse(y) else "dense"
        return self

    def predict(self, X: Any) -> NDArray[Any] | sparse.csr_array:
        """Labels that the rule switches on.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or csr_array of shape (n_samples, n_labels), or ndarray of shape (n_samples,)
            A {0, 1} indicator, sparse when ``y`` was sparse; classes when ``y`` was 1-D.
        """
        scores = self._scores(X)
        return self._as_given(self.rule_.predict(scores))

    def _scores(self, X: Any) -> NDArray[np.float64]:
        """Scores of the fitted estimator, one column for a 1-D y."""
        check_is_fitted(self, "estimator_")
        return score_matrix(self.estimator_, X, 1 if self.target_form_ == "classes" else len(self.classes_))

    def _as_given(self, on: NDArray[np.int64]) -> NDArray[Any] | sparse.csr_array:
        """Label sets in the form of y."""
        if self.target_form_ == "classes":
            return self.classes_[on[:, 0]]
        return sparse.csr_array(on) if self.target_form_ == "sparse" else on

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        if is_estimator(self.estimator):  # `fit` raises otherwise
            inner = get_tags(self.estimator)
            tags.classifier_tags.multi_label = inner.classifier_tags is not None and inner.classifier_tags.multi_label
            tags.target_tags.multi_output = inner.target_tags.multi_output
        return tags

    def _check_estimator(self) -> None:
        example = "OneVsRestClassifier(LogisticRegression())"
        what = f"a scikit-learn classifier with decision_function or predict_proba, e.g. {example}"
        require_estimator(self.estimator, what)

    def _check_parameters(self) -> None:
        self._check_estimator()
        if not isinstance(self.refit, bool | np.bool_):
            raise ValueError(f"refit must be True or False; got {self.refit!r}.")
        check_seed(self.random_state)


def _recalled(memory: Memory, kind: type, n_labels: int) -> tuple[Any, Any] | None:
    """A rule of this kind that an interrupted fit has learned, and its measures; None if there is none."""
    kept = memory.recall("rule")
    right = isinstance(kept, tuple) and len(kept) == 2 and isinstance(kept[1], dict)
    if kept is not None and not (right and isinstance(kept[0], kind) and getattr(kept[0], "n_labels_", 0) == n_labels):
        raise ValueError("the checkpoint has cuts of another training; delete its folder")
    return kept


def names_of_columns(y: Any) -> tuple[str, ...] | None:
    """Names of the columns of a DataFrame of labels."""
    return tuple(map(str, y.columns)) if hasattr(y, "columns") and np.ndim(y) == 2 else None


def read_target(y: Any, name: str) -> tuple[sparse.csr_array, Any, NDArray[Any]]:
    """The indicator of ``y`` as of `check_labels`, ``y`` in the form the estimator takes, and the classes."""
    y, Y = indexable_targets(y, name)
    if Y is not None:
        return Y, y, np.arange(Y.shape[1])
    kind = type_of_target(y, input_name="y")
    if kind != "binary":
        raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError("y has one class only: a cut between classes needs two.")
    return check_indicator((y == classes[1])[:, None], "y"), y, classes
