"""Classes never seen in training, recognised by their attributes."""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.utils.validation import check_is_fitted

from ..core.checks import finite_scores
from ..core.explanation import Explanation, linear_explanations
from ..core.indicator import check_indicator, refuse_label_sets
from ..core.validation import check_sample_weight, require_estimator
from ..core.wrapper import WrappingClassifier
from ..graphs import correlation_from_classes
from ..metrics import scores_of

_CORRELATIONS = ("auto", "signatures", "estimator")
_DECODINGS = ("standardized", "nearest")
# These fit one label at a time: a correlation of all labels means nothing to their inner estimators.
_PER_LABEL = (OneVsRestClassifier, MultiOutputClassifier, ClassifierChain)


@dataclass(frozen=True)
class Candidates:
    """The candidate classes in the order of their names."""

    names: np.ndarray  # (n_classes,), sorted, distinct
    signatures: np.ndarray  # int64 (n_classes, n_labels) in {0, 1}, rows distinct
    prior: np.ndarray  # (n_classes,), positive, with sum 1


def read_candidates(signatures: Any, class_names: Any, class_prior: Any) -> Candidates:
    """Check the three parameters of ``ZeroShotClassifier`` that describe the candidates; sort the classes by name."""
    refuse_label_sets(signatures, "signatures")
    given = signatures if sp.issparse(signatures) else np.asarray(signatures)
    if given.ndim != 2 or 0 in given.shape:
        raise ValueError(f"signatures must have shape (n_classes, n_labels), at least 1 x 1; got {given.shape}")
    table = check_indicator(given, "signatures").toarray().astype(np.int64)
    names = _read_names(signatures, class_names, table.shape[0])
    _, number = np.unique(table, axis=0, return_inverse=True)
    for a, b in pairwise(np.argsort(number, kind="stable")):
        if number[a] == number[b]:
            raise ValueError(
                f"signatures of the classes {names[a].item()!r} and {names[b].item()!r} are equal, so that nothing can "
                "tell these classes apart: make them one class, or add an attribute"
            )
    prior = _read_prior(class_prior, names)
    by_name = np.argsort(names)
    return Candidates(names[by_name], table[by_name], prior[by_name])


def _read_names(signatures: Any, class_names: Any, n_classes: int) -> np.ndarray:
    if class_names is None:
        class_names = signatures.index if hasattr(signatures, "columns") else np.arange(n_classes)
    if isinstance(class_names, str) or not np.iterable(class_names):
        raise ValueError(f"class_names must be a sequence of {n_classes} names; got {class_names!r}")
    values = list(class_names)
    if len(values) != n_classes:
        raise ValueError(f"class_names has {len(values)} names, but signatures has {n_classes} classes (rows)")
    strings = [isinstance(value, str) for value in values]
    names = np.asarray(values) if all(strings) or not any(strings) else np.empty(0, dtype=object)
    if names.ndim != 1 or names.dtype.kind not in "biufU" or (names != names).any():
        raise ValueError(f"class_names must be all strings or all numbers; got {values!r}")
    distinct, counts = np.unique(names, return_counts=True)
    if len(distinct) < n_classes:
        raise ValueError(f"class_names must be distinct; {distinct[counts > 1][0].item()!r} occurs more than once")
    return names


def _read_prior(class_prior: Any, names: np.ndarray) -> np.ndarray:
    n_classes = len(names)
    if class_prior is None:
        return np.full(n_classes, 1.0 / n_classes)
    if hasattr(class_prior, "items"):  # a dict or a Series, e.g. of value_counts(normalize=True): order means nothing
        given = dict(class_prior.items())
        keys = names.tolist()
        if set(given) != set(keys):
            raise ValueError(f"class_prior must have one entry per class, {keys}; got those of {list(given)}")
        class_prior = [given[key] for key in keys]
    try:
        prior = np.asarray(class_prior, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"class_prior must hold numbers, one per class: {error}") from error
    if prior.shape != (n_classes,):
        raise ValueError(f"class_prior must have shape ({n_classes},), one probability per class; got {prior.shape}")
    if not np.isfinite(prior).all() or prior.min() <= 0:
        worst = int(np.argmin(np.where(np.isfinite(prior), prior, -np.inf)))
        raise ValueError(
            f"class_prior must be positive and finite; that of class {names[worst].item()!r} is {prior[worst]:g}. "
            "Leave classes that cannot occur out of signatures"
        )
    if not np.isclose(prior.sum(), 1.0, rtol=1e-9, atol=0.0):
        raise ValueError(f"class_prior must sum to 1, got {prior.sum():.6g}; divide counts by their sum")
    return prior


def read_attributes(y: Any, signatures: Any, n_labels: int) -> Any:
    """Check the attributes of the training rows; returns an int64 indicator, sparse when y was sparse."""
    if y is None:
        raise ValueError(
            "ZeroShotClassifier requires y to be passed, but the target y is None: give the attributes of every row"
        )
    refuse_label_sets(y, "y")
    given = y if sp.issparse(y) else np.asarray(y)
    if given.ndim != 2:
        raise ValueError(
            "y must be the attributes of every row, an indicator of shape (n_samples, n_labels), not their classes: "
            f"look these up in the signatures of the training classes. Got shape {given.shape}"
        )
    # Not int8: scikit-learn's LabelBinarizer mixes up the labels of an int8 y with more than 128 labels.
    indicator = check_indicator(given, "y").astype(np.int64)
    if indicator.shape[1] != n_labels:
        raise ValueError(
            f"y has {indicator.shape[1]} attributes (columns), signatures has {n_labels}: both need the same, in the "
            "same order"
        )
    for k, (ours, theirs) in enumerate(zip(_column_names(signatures), _column_names(y), strict=False)):
        if ours != theirs:
            raise ValueError(
                f"y and signatures need the same columns in the same order: column {k} is {theirs!r} in y and {ours!r} "
                "in signatures"
            )
    if not sp.issparse(y):
        return indicator.toarray()
    return indicator if isinstance(y, sp.sparray) else sp.csr_matrix(indicator)


def _column_names(table: Any) -> list[str]:
    """Names of the columns of a DataFrame, when they are strings."""
    names = list(getattr(table, "columns", ()))
    return names if all(isinstance(name, str) for name in names) else []


class ZeroShotClassifier(WrappingClassifier):
    r"""Recognise classes without a single training row, from the attributes they are known to have.

    The estimator learns attributes (labels) from rows of other classes. A row is then given the candidate class whose
    signature agrees best with the scores :math:`f_l(x)` of its attributes:

    .. math:: a_c(x) = \frac{1}{L} \sum_{l=1}^{L} s_{cl} f_l(x), \quad s_{cl} \in \{-1, 1\}, \qquad
              \hat c(x) = \arg\max_c \frac{a_c(x) - m_c}{d_c}

    with :math:`m_c` and :math:`d_c` the mean and the standard deviation of :math:`a_c` over the training rows, or 0 and
    1 with ``decoding="nearest"``. Where the estimator can use a correlation R of the labels, as `M3LClassifier` can, it
    is given that of the candidates, :math:`R = \sum_c p_c s_c s_c^\top`.

    Parameters
    ----------
    estimator : estimator object
        A multi-label classifier with ``decision_function`` or ``predict_proba``; a Pipeline too. It is cloned.
    signatures : array-like, sparse matrix or DataFrame of shape (n_classes, n_labels)
        Attributes of the candidate classes in {0, 1}, columns as in the ``y`` of `fit`. No two rows may be equal.
    class_names : sequence of shape (n_classes,) or None, default=None
        Distinct names of the classes, all strings or all numbers. None takes the index of a DataFrame, 0, 1, ...
        otherwise.
    class_prior : array-like of shape (n_classes,), dict, Series or None, default=None
        Probability of each class, positive, with sum 1; uniform when None. A dict or a Series is read by class name. It
        enters R only: scores are margins, to which no log-probability can be added.
    label_correlation : {"auto", "signatures", "estimator"}, default="auto"
        Whether R is set on the estimator. "auto" sets it on every parameter called ``label_correlation`` that is None,
        of the estimator or of what it wraps, as in a Pipeline; without such a parameter the estimator is fitted as it
        is. "signatures" overwrites other values too, and is an error if there is no such parameter. "estimator" leaves
        the estimator as it is: independent labels for ``M3LClassifier()``.
    decoding : {"standardized", "nearest"}, default="standardized"
        How attribute scores become a class. "nearest" takes the largest :math:`a_c`, which is the signature nearest to
        the scores, since all :math:`s_c` have the same length. "standardized" asks instead how far :math:`a_c` is
        above what it is on the training rows, none of which need be of class c, in standard deviations.

    Attributes
    ----------
    estimator_ : estimator object
        The fitted estimator of the attributes.
    classes_ : ndarray of shape (n_classes,)
        Names of the candidate classes, sorted.
    signatures_ : ndarray of shape (n_classes, n_labels)
        Their attributes in {0, 1}, in the order of ``classes_``.
    class_prior_ : ndarray of shape (n_classes,)
        Their probabilities, in the order of ``classes_``.
    label_correlation_ : ndarray of shape (n_labels, n_labels) or None
        R, if it was set on the estimator.
    constant_attributes_ : ndarray of shape (n_labels,)
        The best constant prediction of the attributes, a baseline: on where more than half of the prior has them.
    score_mean_, score_scale_ : ndarray of shape (n_classes,)
        m and d of the rule; a class whose agreement is the same for all training rows has the scale 1.
    n_features_in_ : int
        That of ``estimator_``, where it has one; so are ``feature_names_in_``.

    Notes
    -----
    Standardizing matters when some attribute is on in most training rows: its score is then high for every x, and
    "nearest" gives every row to the class that has it. Attributes common to all candidates do not influence the class.
    Standardizing costs one scoring of the training rows, weighted by ``sample_weight``.

    Of equal scores the first in ``classes_`` wins. Probabilities p are taken as scores 2 p - 1.

    The candidates may include classes that are in the training rows; expect most rows of new classes to go to these.

    References
    ----------
    Hariharan, Vishwanathan, Varma: Efficient max-margin multi-label classification with applications to zero-shot
    learning. Machine Learning 88 (2012), section 7.2, doi:10.1007/s10994-012-5291-x.

    Examples
    --------
    >>> from comargin import M3LClassifier, ZeroShotClassifier
    >>> X = [[9, 0, 8], [8, 1, 9], [0, 9, 1], [1, 8, 0], [1, 1, 9], [0, 0, 8], [0, 1, 0], [1, 0, 1]]
    >>> Y = [[1, 0, 1], [1, 0, 1], [0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]]
    >>> signatures = [[0, 1, 1], [1, 1, 0], [1, 0, 0]]  # striped, winged, large
    >>> model = ZeroShotClassifier(M3LClassifier(), signatures, class_names=["ostrich", "bee", "chipmunk"])
    >>> model.fit(X, Y).predict([[8, 9, 1], [0, 8, 9], [9, 0, 0]])
    array(['bee', 'ostrich', 'chipmunk'], dtype='<U8')
    >>> model.predict_attributes([[9, 0, 0]])
    array([[1, 0, 0]])
    """

    signatures: Any = field(kw_only=False)
    class_names: Any = None
    class_prior: Any = None
    label_correlation: str = "auto"
    decoding: str = "standardized"

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Learn the attributes from rows of other classes.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features), or whatever the estimator takes
            Rows.
        y : array-like or sparse matrix of shape (n_samples, n_labels)
            Attributes of the rows in {0, 1}, columns as in ``signatures``.
        sample_weight : array-like of shape (n_samples,) or None
            Passed on to the estimator, which must accept it.
        **fit_params : dict
            Passed on to the estimator's ``fit``.

        Returns
        -------
        self : object
            The fitted classifier. When fitting fails, it is as it was before.
        """
        what = "a multi-label classifier with decision_function or predict_proba, e.g. M3LClassifier()"
        require_estimator(self.estimator, what, any_of=("decision_function", "predict_proba"))
        for name, allowed in (("label_correlation", _CORRELATIONS), ("decoding", _DECODINGS)):
            value = getattr(self, name)
            if not isinstance(value, str) or value not in allowed:
                raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")
        candidates = read_candidates(self.signatures, self.class_names, self.class_prior)
        y = read_attributes(y, self.signatures, candidates.signatures.shape[1])
        weight = None if sample_weight is None else check_sample_weight(sample_weight, y.shape[0])
        estimator, R = self._with_correlation(candidates)
        estimator.fit(X, y, **self._routed(sample_weight, fit_params))
        n_classes = len(candidates.names)
        mean, scale = np.zeros(n_classes), np.ones(n_classes)
        if self.decoding == "standardized":
            mean, scale = _mean_and_scale(_agreement(estimator, X, candidates.signatures), weight)
        self.estimator_, self.label_correlation_ = estimator, R
        self.classes_, self.signatures_, self.class_prior_ = candidates.names, candidates.signatures, candidates.prior
        self.constant_attributes_ = (candidates.prior @ (2 * candidates.signatures - 1) > 0).astype(np.int64)
        self.score_mean_, self.score_scale_ = mean, scale
        return self

    def decision_function(self, X: Any) -> np.ndarray:
        """Score of every candidate class; the largest is predicted.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes), or (n_samples,) for two classes
            In the order of ``classes_``; of two classes the score of the second minus that of the first.
        """
        scores = self._class_scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """Candidate class of every row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Entries of ``classes_``.
        """
        best = np.argmax(self._class_scores(X), axis=1)  # checks that it is fitted
        return self.classes_[best]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Share of the rows whose class is found.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows of the candidate classes.
        y : array-like of shape (n_samples,)
            Their classes, as in ``classes_``; not their attributes.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.

        Returns
        -------
        float
            Accuracy.
        """
        if sp.issparse(y) or np.ndim(y) != 1:
            raise ValueError(
                f"y must be 1-D, one class name per row; got shape {np.shape(y)}. For attributes compare "
                "predict_attributes(X), e.g. by comargin.metrics.hamming_loss"
            )
        return super().score(X, y, sample_weight)

    def predict_attributes(self, X: Any) -> np.ndarray | sp.csr_array:
        """Attributes of every row, as the estimator predicts them.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray or sparse array of shape (n_samples, n_labels)
            What ``estimator_.predict`` returns, an indicator in {0, 1}. It need not be one of the signatures.
        """
        check_is_fitted(self, "estimator_")
        predicted = self.estimator_.predict(X)
        return predicted[:, None] if predicted.ndim == 1 else predicted

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        return tags

    def _with_correlation(self, candidates: Candidates) -> tuple[Any, np.ndarray | None]:
        """A clone of the estimator, with R where it belongs, and R if it was set."""
        estimator = clone(self.estimator)
        slots = {} if self.label_correlation == "estimator" else _correlation_slots(estimator)
        if self.label_correlation == "auto":
            slots = {name: value for name, value in slots.items() if value is None}
        elif self.label_correlation == "signatures" and not slots:
            raise ValueError(
                'label_correlation="signatures" needs an estimator with a parameter label_correlation, as '
                f'M3LClassifier has; {type(estimator).__name__} has none: use "auto"'
            )
        if not slots:
            return estimator, None
        R = correlation_from_classes(candidates.signatures, candidates.prior).to_array()
        return estimator.set_params(**dict.fromkeys(slots, R)), R

    def _explanations(self, X: Any, asked: list[np.ndarray], top: int, names: Any) -> list[list[Explanation]]:
        # (a_c - m_c) / d_c is linear in the scores of the attributes.
        coef = (2.0 * self.signatures_ - 1.0) / (self.signatures_.shape[1] * self.score_scale_[:, None])
        intercept = -self.score_mean_ / self.score_scale_
        if len(coef) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        scores = _attribute_scores(self.estimator_, X, coef.shape[1])
        return linear_explanations(scores, coef, intercept, asked, top, kind="attribute")

    def _class_scores(self, X: Any) -> np.ndarray:
        check_is_fitted(self, "estimator_")
        return (_agreement(self.estimator_, X, self.signatures_) - self.score_mean_) / self.score_scale_


def _correlation_slots(estimator: Any) -> dict[str, Any]:
    """Parameters called label_correlation of the estimator and of inner estimators that see all labels at once."""
    params = estimator.get_params(deep=True)
    slots = {}
    for name, value in params.items():
        *path, last = name.split("__")
        owners = [estimator, *(params["__".join(path[: k + 1])] for k in range(len(path)))]
        if last == "label_correlation" and not any(isinstance(owner, _PER_LABEL) for owner in owners):
            slots[name] = value
    return slots


def _agreement(estimator: Any, X: Any, signatures: np.ndarray) -> np.ndarray:
    """a_c(x) = 1/L sum_l s_cl f_l(x), of shape (n_samples, n_classes)."""
    n_labels = signatures.shape[1]
    return _attribute_scores(estimator, X, n_labels) @ (2.0 * signatures.T - 1.0) / n_labels


def _attribute_scores(estimator: Any, X: Any, n_labels: int) -> np.ndarray:
    """f_l(x), positive where the attribute is more likely on."""
    scores = np.asarray(scores_of(estimator, X, n_labels=n_labels), dtype=np.float64)
    if not hasattr(estimator, "decision_function"):
        scores = 2.0 * scores - 1.0  # probabilities: on is positive, as it is for margins
    return finite_scores(scores, estimator)


def _mean_and_scale(agreement: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column, 1 for a deviation that is rounding only."""
    mean = np.average(agreement, axis=0, weights=weight)
    scale = np.sqrt(np.average((agreement - mean) ** 2, axis=0, weights=weight))
    rounding = 10 * np.finfo(np.float64).eps * np.abs(agreement).max(axis=0)
    return mean, np.where(scale > rounding, scale, 1.0)
