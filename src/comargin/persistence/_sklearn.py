"""scikit-learn's classes that a model may hold, by their parameters and public attributes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import LabelBinarizer, MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from . import _kinds as kinds
from ._codecs import EstimatorCodec, PipelineCodec, RecordCodec, VectorizerCodec, hashing_codec
from ._kinds import CLASSES, COUNT, NUMBER, REALS, Kind, any_of, check_shapes, choice, inside, instance, list_of
from ._trees import TREE, TreeCodec, check_trees
from ._values import Codec, Reader

_WHOLE = kinds.integers(1, least=0)
_INPUT: dict[str, Kind] = {"n_features_in_": COUNT, "feature_names_in_": kinds.NAMES}


def _constant_predictor() -> type:
    """The private class that stands in OneVsRestClassifier for a label that is always on or always off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is such a label
        model = OneVsRestClassifier(DummyClassifier()).fit([[0.0], [1.0]], np.array([[1, 0], [1, 1]]))
    return type(model.estimators_[0])


def _check_names(model: Any, where: str) -> None:
    if hasattr(model, "feature_names_in_"):
        check_shapes(model, where, {"feature_names_in_": (model.n_features_in_,)})


_BY_FEATURE = ("mean_", "var_", "scale_", "min_", "data_min_", "data_max_", "data_range_", "max_abs_", "idf_")


def _check_scaler(model: Any, where: str) -> None:
    _check_names(model, where)
    found = [name for name in _BY_FEATURE if getattr(model, name, None) is not None]
    check_shapes(model, where, dict.fromkeys(found, (model.n_features_in_,)))


def _check_linear(model: Any, where: str) -> None:
    _check_names(model, where)
    n_scores = 1 if len(model.classes_) == 2 else len(model.classes_)
    shapes: dict[str, tuple[int, ...]] = {"coef_": (n_scores, model.n_features_in_)}
    if isinstance(model.intercept_, np.ndarray):
        shapes["intercept_"] = (n_scores,)
    check_shapes(model, where, shapes)


def _check_one_vs_rest(model: Any, where: str) -> None:
    n_classes = len(model.label_binarizer_.classes_)
    many = model.label_binarizer_.y_type_ in ("multiclass", "multilabel-indicator")
    if len(model.estimators_) != (n_classes if many else 1):
        raise ValueError(f"{inside(where, 'estimators_')}: {len(model.estimators_)} for {n_classes} classes")


def _check_constant(model: Any, where: str) -> None:
    check_shapes(model, where, {"y_": (1,)})


def _check_outputs(model: Any, where: str) -> None:
    _check_names(model, where)
    if len(model.estimators_) != len(model.classes_):
        raise ValueError(f"{inside(where, 'estimators_')}: one is needed for each of {len(model.classes_)} labels")


def _check_chain(model: Any, where: str) -> None:
    _check_outputs(model, where)
    if sorted(model.order_) != list(range(len(model.classes_))):
        raise ValueError(f"{inside(where, 'order_')}: is no order of {len(model.classes_)} labels")


def _check_svc(model: Any, where: str) -> None:
    """The shapes that LIBSVM relies on: it gets the arrays as they are."""
    _check_names(model, where)
    n_classes, n_support, n_rows = len(model.classes_), len(model.support_), model.shape_fit_[0]
    n_pairs = n_classes * (n_classes - 1) // 2
    shapes = {
        "support_vectors_": (n_support, model.n_features_in_),
        "dual_coef_": (n_classes - 1, n_support),
        "intercept_": (n_pairs,),
        "class_weight_": (n_classes,),
        "_n_support": (n_classes,),
        "_probA": (n_pairs if model._probA.size else 0,),
        "_probB": model._probA.shape,
    }
    check_shapes(model, where, shapes)
    if n_classes < 2 or int(model._n_support.sum(dtype=np.int64)) != n_support:
        raise ValueError(f"{inside(where, '_n_support')}: does not add up to {n_support} support vectors")
    if n_support and int(model.support_.max()) >= n_rows:
        raise ValueError(f"{inside(where, 'support_')}: a row beyond the {n_rows} training rows")
    sparse = sp.issparse(model.support_vectors_)
    n_numbers = len(model.dual_coef_.data) if sparse else model.dual_coef_.size
    if sp.issparse(model.dual_coef_) != sparse or n_numbers != (n_classes - 1) * n_support:
        raise ValueError(f"{inside(where, 'dual_coef_')}: a number is needed for every support vector")


def _rebuild_svc(model: Any, reader: Reader) -> None:
    """What prediction reads under private names: of two classes, the signs are those of LIBSVM."""
    sign = -1.0 if len(model.classes_) == 2 else 1.0
    model._sparse = sp.issparse(model.support_vectors_)
    model._dual_coef_, model._intercept_ = sign * model.dual_coef_, sign * model.intercept_
    model._effective_probability = model._probA.size > 0


def _check_neighbors(model: Any, where: str) -> None:
    _check_names(model, where)
    check_shapes(model, where, {"_fit_X": (len(model._y), model.n_features_in_)})
    several = isinstance(model.classes_, list)
    columns, classes = (model._y.T, model.classes_) if several else (model._y[None], [model.classes_])
    if model._y.ndim != 1 + several or len(columns) != len(classes):
        raise ValueError(f"{inside(where, '_y')}: does not fit the classes")
    for column, each in zip(columns, classes, strict=True):
        if not np.array_equal(np.unique(column), np.arange(len(each))):
            raise ValueError(f"{inside(where, '_y')}: every class, and no other, must have a row")


def _rebuild_neighbors(model: Any, reader: Reader) -> None:
    """A fit to the rows of the file, which is deterministic, makes the index of the rows."""
    rows, codes, classes = model._fit_X, model._y, model.classes_
    reader.take(4 * (rows.data if sp.issparse(rows) else rows).nbytes)
    names = getattr(model, "feature_names_in_", None)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model.fit(rows, codes)
    model.classes_ = classes
    if names is not None:
        model.feature_names_in_ = names


def _codec(cls: type, fitted: dict[str, Kind], check: Any = _check_names, **more: Any) -> EstimatorCodec:
    return EstimatorCodec(cls.__name__.lstrip("_"), cls, {**_INPUT, **fitted}, check=check, foreign=True, **more)


def _array(dtype: type, ndim: int = 1) -> Kind:
    def accepts(value: Any) -> bool:
        right = isinstance(value, np.ndarray) and value.dtype == dtype and value.ndim == ndim
        return right and (not value.size or bool(np.isfinite(value).all() and (dtype is float or value.min() >= 0)))

    return Kind(f"a {np.dtype(dtype)} array with {ndim} dimension(s)", accepts)


_LINEAR = {
    "classes_": CLASSES,
    "coef_": kinds.REALS_MATRIX,
    "intercept_": any_of(REALS, NUMBER),
    "n_iter_": any_of(COUNT, _WHOLE),
}
_SEEN = {"n_samples_seen_": any_of(NUMBER, _WHOLE, REALS)}
_CONSTANT = _constant_predictor()
_OPTIONAL = any_of(kinds.NOTHING, REALS)
_SPARSE = Kind(
    "a finite CSR matrix of float64",
    lambda value: (
        sp.issparse(value)
        and value.format == "csr"
        and value.dtype == np.float64
        and bool(np.isfinite(value.data).all())
    ),
)
_NUMERIC_ROWS = Kind(
    "rows of numbers",
    lambda value: (
        (isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "biuf")
        or (sp.issparse(value) and value.format == "csr")
    ),
)
_DENSE_OR_SPARSE = any_of(kinds.MATRIX, _SPARSE)
_SEVERAL_CLASSES = any_of(CLASSES, list_of(CLASSES))
_INT32 = _array(np.int32)
# Threads of a prediction.
_JOBS = any_of(kinds.NOTHING, Kind("from -1024 to 1024", lambda value: type(value) is int and abs(value) <= 1024))
_TREE = {
    "n_outputs_": COUNT,
    "classes_": _SEVERAL_CLASSES,
    "n_classes_": any_of(COUNT, _WHOLE, list_of(COUNT)),
}
_BAGS = {
    "_n_samples": COUNT,
    "_n_samples_bootstrap": any_of(kinds.NOTHING, COUNT),
    "_sample_weight": _OPTIONAL,
    "oob_score_": NUMBER,
    "oob_decision_function_": any_of(kinds.LOOSE_MATRIX, kinds.floats(3, finite=False)),
}
_ESTIMATORS = list_of(kinds.CLASSIFIER)


def _tree(cls: type) -> EstimatorCodec:
    return _codec(cls, {**_TREE, "max_features_": COUNT, "tree_": instance(TREE)}, check_trees)


def _forest(cls: type, tree: type) -> EstimatorCodec:
    def rebuild(model: Any, reader: Reader) -> None:
        model.estimator_ = model.estimator

    return _codec(
        cls,
        {**_TREE, **_BAGS, "estimators_": list_of(instance(tree))},
        check_trees,
        rebuilt=frozenset({"estimator", "estimator_params", "estimator_"}),
        rebuild=rebuild,
        allowed={"n_jobs": _JOBS},
    )


CODECS: tuple[Codec, ...] = (
    _codec(StandardScaler, {**_SEEN, **dict.fromkeys(("mean_", "var_", "scale_"), _OPTIONAL)}, _check_scaler),
    _codec(
        MinMaxScaler,
        {**_SEEN, **dict.fromkeys(("min_", "scale_", "data_min_", "data_max_", "data_range_"), REALS)},
        _check_scaler,
    ),
    _codec(MaxAbsScaler, {**_SEEN, "scale_": REALS, "max_abs_": REALS}, _check_scaler),
    _codec(Normalizer, {}),
    _codec(TfidfTransformer, {"idf_": REALS}, _check_scaler),
    _codec(LogisticRegression, _LINEAR, _check_linear),
    _codec(LinearSVC, _LINEAR, _check_linear),
    _codec(_CONSTANT, {"y_": any_of(_WHOLE, REALS)}, _check_constant),
    _codec(LabelBinarizer, {"classes_": CLASSES, "y_type_": kinds.TEXT, "sparse_input_": kinds.FLAG}),
    _codec(
        OneVsRestClassifier,
        {
            "classes_": CLASSES,
            "estimators_": _ESTIMATORS,
            "label_binarizer_": instance(LabelBinarizer),
        },
        _check_one_vs_rest,
    ),
    _codec(
        ClassifierChain,
        {
            "classes_": list_of(CLASSES),
            "estimators_": _ESTIMATORS,
            "order_": any_of(_WHOLE, list_of(COUNT)),
            "chain_method_": choice("predict", "predict_proba", "predict_log_proba", "decision_function"),
        },
        _check_chain,
    ),
    _codec(MultiOutputClassifier, {"classes_": list_of(CLASSES), "estimators_": _ESTIMATORS}, _check_outputs),
    _codec(
        SVC,
        {
            "classes_": CLASSES,
            "class_weight_": kinds.VECTOR,
            "support_": _INT32,
            "support_vectors_": _DENSE_OR_SPARSE,
            "dual_coef_": _DENSE_OR_SPARSE,
            **dict.fromkeys(("intercept_", "_probA", "_probB"), kinds.VECTOR),
            **dict.fromkeys(("_n_support", "n_iter_", "_num_iter"), _INT32),
            "_gamma": NUMBER,
            "fit_status_": COUNT,
            "shape_fit_": list_of(COUNT, tuple),
        },
        _check_svc,
        rebuilt=frozenset({"nu", "epsilon"}),
        rebuild=_rebuild_svc,
        # The rows of a precomputed kernel are indices of another matrix.
        allowed={"kernel": choice("linear", "poly", "rbf", "sigmoid")},
    ),
    _codec(
        KNeighborsClassifier,
        {"classes_": _SEVERAL_CLASSES, "_fit_X": _NUMERIC_ROWS, "_y": any_of(_WHOLE, kinds.integers(2, least=0))},
        _check_neighbors,
        rebuilt=frozenset({"radius", "outputs_2d_", "effective_metric_", "effective_metric_params_", "n_samples_fit_"}),
        rebuild=_rebuild_neighbors,
        allowed={"n_jobs": _JOBS},
    ),
    TreeCodec(),
    _tree(DecisionTreeClassifier),
    _tree(ExtraTreeClassifier),
    _forest(RandomForestClassifier, DecisionTreeClassifier),
    _forest(ExtraTreesClassifier, ExtraTreeClassifier),
    VectorizerCodec("CountVectorizer", CountVectorizer),
    VectorizerCodec("TfidfVectorizer", TfidfVectorizer),
    hashing_codec(HashingVectorizer),
    PipelineCodec(),
    RecordCodec("KFold", KFold, dict.fromkeys(("n_splits", "shuffle", "random_state"), kinds.ANYTHING)),
    RecordCodec(
        "ShuffleSplit",
        ShuffleSplit,
        dict.fromkeys(("n_splits", "test_size", "train_size", "random_state"), kinds.ANYTHING),
    ),
)
