"""The conversion of user arrays to canonical arrays.

Only this file calls scikit-learn's ``validate_data``. ``loop_view`` gives the compiled loops exactly two forms of X:
C-order float64, or ``CSR`` with float64 data and int32 indices; each further form would compile every loop again.
"""

import warnings
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import DataConversionWarning
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import LabelBinarizer
from sklearn.utils import check_array, check_consistent_length, check_random_state, get_tags
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from .indicator import check_indicator, check_labels, check_weight, dense_indicator, split_unknown
from .rows import CSR

Matrix: TypeAlias = np.ndarray | sp.csr_array

_X_CHECKS = {"accept_sparse": "csr", "dtype": np.float64, "order": "C"}
# Solvers need the squared length of every row, which is finite for 1e8 features of this size.
_LARGEST_FEATURE = 1e150


@dataclass(frozen=True)
class Targets:
    """How the caller's y maps to an indicator, and scores back to the caller's form.

    ``kind`` is "indicator" (2-D {0, 1}), "binary", "multiclass" or "constant" (1-D y with two, more, one class).
    ``classes`` are the labels 0..L-1 of an indicator or the distinct values of a 1-D y. ``sparse`` predictions are CSR.
    ``names`` of the labels are the columns of a DataFrame or the classes of a multiclass y, else empty.
    """

    kind: str
    classes: np.ndarray
    sparse: bool
    names: tuple[str, ...] = ()

    def decode(self, scores: np.ndarray) -> np.ndarray | sp.csr_array:
        """Predictions in the caller's form, from scores of shape (n_samples, n_labels).

        Labels are on where scores are positive; a multiclass y takes the largest score.
        """
        on = scores > 0
        if self.kind == "indicator":
            return sp.csr_array(on, dtype=np.int64) if self.sparse else on.astype(np.int64)
        if self.kind == "multiclass":
            return self.classes[np.argmax(scores, axis=1)]
        if self.kind == "binary":
            return self.classes[on[:, 0].astype(np.intp)]
        return np.full(scores.shape[0], self.classes[0])


@dataclass(frozen=True)
class TrainingData:
    """Canonical, finite and consistent input of a learner.

    X (n_samples, n_features [+ 1]) is float64 in C order or sorted CSR, its last column 1 if the learner appends a
    constant; Y an int8 indicator (n_samples, n_labels), 0 in unknown cells; ``sample_weight`` (n_samples,)
    non-negative; ``targets`` the way back; ``known`` bool (n_samples, n_labels), None if all cells are known.
    """

    X: Matrix
    Y: np.ndarray
    sample_weight: np.ndarray
    targets: Targets
    known: np.ndarray | None = None

    @property
    def signs(self) -> np.ndarray:
        """Int8 (n_samples, n_labels): 1 where a label is on, -1 where it is off, 0 where that is unknown."""
        S = 2 * self.Y - 1
        return S if self.known is None else S * self.known

    @property
    def labels(self) -> np.ndarray:
        """Y as the caller gives it, with NaN in unknown cells."""
        return self.Y if self.known is None else np.where(self.known, self.Y, np.nan)


def validate_training(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> TrainingData:
    """Check and convert the arguments of ``fit``; sets ``n_features_in_`` and ``feature_names_in_``."""
    require_targets(y, type(estimator).__name__)
    X = validate_data(estimator, X, **_X_CHECKS)
    values = X.data if sp.issparse(X) else X
    largest = max(values.max(), -values.min()) if values.size else 0.0
    if largest > _LARGEST_FEATURE:
        raise ValueError(
            f"X has values as large as {largest:.3g}, whose squares overflow: scale the features, so that none "
            f"exceeds {_LARGEST_FEATURE:g} (sklearn.preprocessing.MaxAbsScaler)"
        )
    X = _canonical(X)
    Y, targets, known = encode_targets(y)
    check_consistent_length(X, Y)
    return TrainingData(X, Y, check_sample_weight(sample_weight, X.shape[0]), targets, known)


def validate_features(estimator: Any, X: Any) -> Matrix:
    """Check the X of ``predict`` against the fitted estimator and convert it to canonical form."""
    return _canonical(validate_data(estimator, X, reset=False, **_X_CHECKS))


def _canonical(X: Any) -> Matrix:
    if not sp.issparse(X):
        return X
    largest = np.iinfo(np.int32).max
    if max(X.nnz, *X.shape) > largest:
        raise ValueError(f"X is too large: at most {largest} rows, columns and non-zeros are supported, got {X!r}")
    X = sp.csr_array(X)  # shares the caller's arrays, so it is never changed in place
    if X.indices.dtype != np.int32:
        X = sp.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def with_constant(X: Matrix, value: float) -> Matrix:
    """Canonical X with a constant feature of this value at the end; without one for 0."""
    if value == 0.0:
        return X
    column = np.full((X.shape[0], 1), value)
    if sp.issparse(X):
        return sp.csr_array(sp.hstack([X, column], format="csr"))
    return np.ascontiguousarray(np.hstack([X, column]))


def loop_view(X: Matrix) -> np.ndarray | CSR:
    """Canonical X in one of the two forms that loops are compiled for; no copy if it has that form."""
    if not isinstance(X, np.ndarray):
        return CSR(
            np.ascontiguousarray(X.data, dtype=np.float64),
            np.ascontiguousarray(X.indices, dtype=np.int32),
            np.ascontiguousarray(X.indptr, dtype=np.int32),
        )
    return np.ascontiguousarray(X, dtype=np.float64)


def encode_targets(y: Any) -> tuple[np.ndarray, Targets, np.ndarray | None]:
    """Turn any y the estimators accept into an int8 indicator (n_samples, n_labels), its `Targets`, and what is known.

    y is a 2-D {0, 1} indicator with NaN for unknown cells, or 1-D classes; a column of classes is read as 1-D, with a
    warning. The last is None where all cells are known.
    """
    columns = tuple(str(name) for name in getattr(y, "columns", ()))
    y, known = split_unknown(y, "y")
    if sp.issparse(y):
        Y = _with_labels(check_indicator(y, "y")).toarray()  # int8 before it is dense
        return Y, Targets("indicator", np.arange(Y.shape[1]), sparse=True), known
    y = check_array(y, dtype=None, ensure_2d=False, ensure_min_features=0, input_name="y")
    # One column with values other than 0 and 1 holds classes.
    if y.ndim == 2 and (y.shape[1] != 1 or (y.dtype.kind in "buif" and np.isin(y, (0, 1)).all())):
        Y = np.ascontiguousarray(dense_indicator(_with_labels(y), "y"))
        names = columns if len(set(columns)) == Y.shape[1] else ()
        return Y, Targets("indicator", np.arange(Y.shape[1]), sparse=False, names=names), known
    if known is not None:
        raise ValueError("y has unknown cells (NaN) in a column of classes: leave these rows out")
    if y.ndim == 2:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected: taken as y.ravel()", DataConversionWarning, 2
        )
        y = y.ravel()
    if y.ndim != 1:
        raise ValueError(
            f"y must be an indicator of shape (n_samples, n_labels) or 1-D classes, got {y.ndim} dimensions"
        )
    check_classification_targets(y)
    binarizer = LabelBinarizer().fit(y)
    classes = binarizer.classes_
    if len(classes) == 1:
        return np.ones((len(y), 1), dtype=np.int8), Targets("constant", classes, sparse=False), None
    kind = "binary" if len(classes) == 2 else "multiclass"
    names = tuple(str(name) for name in classes) if kind == "multiclass" else ()
    return binarizer.transform(y).astype(np.int8), Targets(kind, classes, sparse=False, names=names), None


def require_targets(y: Any, caller: str) -> None:
    """Raise if there is no y; the message begins with the words that scikit-learn's checks expect."""
    if y is None:
        raise ValueError(
            f"{caller} requires y to be passed, but the target y is None: y must be an indicator of shape "
            "(n_samples, n_labels) or a 1-D array of classes"
        )


def indexable_targets(y: Any, caller: str) -> tuple[Any, sp.csr_array | None]:
    """Check any y, and return it in a form whose rows can be taken, and its indicator; None for 1-D classes.

    The first is a 1-D array, or an int64 indicator that is sparse if y is; with unknown cells both are float64, NaN
    (stored, if sparse) in these. ``caller`` is for the error message.
    """
    require_targets(y, caller)
    if not sp.issparse(y):
        values = check_array(split_unknown(y, "y")[0], dtype=None, ensure_2d=False, input_name="y")
        if values.ndim == 1:
            check_classification_targets(values)
            return values, None
    Y = _with_labels(check_labels(y, "y"))
    # Not int8: scikit-learn's LabelBinarizer mixes up the labels of an int8 y with more than 128 labels.
    wide = Y.astype(np.int64) if Y.dtype.kind != "f" else Y
    if not sp.issparse(y):
        return wide.toarray(), Y
    return wide if isinstance(y, sp.sparray) else sp.csr_matrix(wide), Y


def _with_labels(Y: Any) -> Any:
    if Y.shape[1] == 0:
        raise ValueError("y has no labels: an indicator needs at least one column")
    return Y


def is_estimator(thing: Any) -> bool:
    """Whether this is an instance of a scikit-learn estimator."""
    return not isinstance(thing, type) and hasattr(thing, "fit") and hasattr(thing, "__sklearn_tags__")


def has_scores(estimator: Any) -> bool:
    """Whether `comargin.metrics.scores_of` takes an estimator."""
    return hasattr(estimator, "decision_function") or hasattr(estimator, "predict_proba")


def learner_of(estimator: Any) -> Any:
    """The last step of a Pipeline, or the estimator itself."""
    return estimator[-1] if isinstance(estimator, Pipeline) else estimator


def fitted_inside(model: Any) -> Any:
    """The fitted model in a pipeline, a search or a wrapper; None for any other, also for an ensemble."""
    if isinstance(model, Pipeline):
        return model[-1]
    if hasattr(model, "best_estimator_"):
        return model.best_estimator_
    return getattr(model, "estimator_", None) if not hasattr(model, "estimators_") else None


def dense_if_needed(X: Any, estimator: Any) -> Any:
    """X, made dense if it is sparse and the estimator takes no sparse rows."""
    return X.toarray() if sp.issparse(X) and not get_tags(estimator).input_tags.sparse else X


def require_estimator(estimator: Any, what: str, any_of: tuple[str, ...] = ("fit",)) -> None:
    """Raise unless `is_estimator` and it has one of these methods; ``what`` describes the expected one."""
    if not is_estimator(estimator) or not any(hasattr(estimator, method) for method in any_of):
        instance = f"an instance, {estimator.__name__}()" if isinstance(estimator, type) else "one"
        raise ValueError(f"estimator must be {what}; pass {instance}, got {estimator!r}.")


def check_seed(random_state: Any) -> Any:
    """Return ``random_state`` if scikit-learn takes it."""
    try:
        check_random_state(random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state must be an int, a RandomState instance or None; got {random_state!r}."
        ) from error
    return random_state


def check_sample_weight(sample_weight: Any, n_samples: int) -> np.ndarray:
    """Weights of the rows as float64: `check_weight`, but a number is the weight of every row."""
    return check_weight(np.full(n_samples, sample_weight) if np.isscalar(sample_weight) else sample_weight, n_samples)


def cell_weights(S: np.ndarray, row_weight: np.ndarray, label_weight: np.ndarray) -> np.ndarray:
    """Weight of every cell: that of its row times that of its side of its label; 0 where the sign is 0, unknown."""
    return row_weight[:, None] * np.where(S > 0, label_weight[1], label_weight[0]) * np.abs(S)


def label_weights(class_weight: Any, S: np.ndarray, sample_weight: np.ndarray) -> np.ndarray:
    """Weights (2, n_labels) of the negatives and the positives of each label, for their signs S, 0 where unknown.

    ``class_weight`` is None, "balanced", a dict ``{0: w, 1: w}`` for every label, or one such dict per label; a missing
    key weighs 1. "balanced" gives both sides of every label the same total weight, n / (2 n_side), counted with
    ``sample_weight``; a label with one side only keeps weight 1.
    """
    n_labels = S.shape[1]
    if class_weight is None:
        return np.ones((2, n_labels))
    if isinstance(class_weight, str):  # "balanced": the estimators' parameter check allows no other
        sides = np.stack([sample_weight @ (S == sign) for sign in (-1, 1)])
        both = sides.min(axis=0) > 0
        return np.where(both, sides.sum(axis=0) / (2.0 * np.where(both, sides, 1.0)), 1.0)
    dicts = [class_weight] * n_labels if isinstance(class_weight, dict) else list(class_weight)
    if len(dicts) != n_labels:
        raise ValueError(f"class_weight has {len(dicts)} dicts, but y has {n_labels} labels: give one dict per label")
    weights = np.ones((2, n_labels))
    for label, one in enumerate(dicts):
        if not isinstance(one, dict) or not set(one) <= {0, 1}:
            raise ValueError(
                "class_weight must be a dict {0: weight of a negative, 1: weight of a positive} that holds for every "
                f"label, or a list of such dicts, one per label; got {one!r}"
                + ("" if isinstance(class_weight, dict) else f" for label {label}")
            )
        for side, value in one.items():
            if not isinstance(value, Real) or not 0 <= float(value) < np.inf:
                raise ValueError(f"class_weight of label {label} must hold non-negative numbers, got {value!r}")
            weights[int(side), label] = value
    return weights
