"""scikit-learn's classes that a model may hold, by their parameters and public attributes."""

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import LabelBinarizer, MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from ..core.imputer import MeanImputer
from . import _kinds as kinds
from ._codecs import TEXT_PARAMETERS, EstimatorCodec, PackedCodec, PipelineCodec, RecordCodec, VectorizerCodec
from ._kinds import CLASSES, COUNT, INDICES, NUMBER, REALS, VECTOR, Kind, any_of, choice, inside, instance, list_of
from ._values import Codec, Reader

# Trees: their nodes are two plain matrices, checked to be a tree, as scikit-learn's loops do not look at bounds.
_SAMPLE = DecisionTreeClassifier().fit([[0.0]], [0]).tree_
TREE = type(_SAMPLE)
_NODE = _SAMPLE.__getstate__()["nodes"].dtype
_WHOLE = ("left_child", "right_child", "feature", "n_node_samples", "missing_go_to_left")
_REAL = ("threshold", "impurity", "weighted_n_node_samples")
_LEAF, _NO_FEATURE = -1, -2
_POSITIVE = Kind("a whole number from 1 to 2^31 - 1", lambda value: type(value) is int and 1 <= value < 1 << 31)
_TREE_FIELDS: dict[str, Kind] = {
    "n_features": _POSITIVE,
    "n_classes": kinds.integers(1, least=1).shaped("outputs"),
    "whole": kinds.integers(2, least=_NO_FEATURE).shaped(len(_WHOLE), "nodes"),
    "real": kinds.floats(2, finite=False).shaped(len(_REAL), "nodes"),
    "values": kinds.floats(3).shaped("nodes", "outputs", "classes"),
}


def _split_tree(tree: Any) -> dict[str, Any]:
    state = tree.__getstate__()
    nodes = state["nodes"]
    return {
        "n_features": int(tree.n_features),
        "n_classes": np.array(tree.n_classes),
        "whole": np.stack([nodes[name].astype(np.int64) for name in _WHOLE]),
        "real": np.stack([nodes[name] for name in _REAL]),
        "values": state["values"],
    }


def _join_tree(fields: dict[str, Any], reader: Reader, where: str) -> Any:
    if set(_NODE.names) != {*_WHOLE, *_REAL}:
        raise ValueError(f"{where}: trees of the installed scikit-learn have other nodes")
    n_classes, whole, real, values = (fields[name] for name in ("n_classes", "whole", "real", "values"))
    if values.shape[2] != n_classes.max(initial=0):
        raise ValueError(f"{inside(where, 'values')}: expected {n_classes.max(initial=0)} classes")
    if whole[-2:].min(initial=0) < 0:
        raise ValueError(f"{where}: negative numbers")
    # Thresholds are infinite where missing values alone go to one side.
    if np.isnan(real[0]).any() or not kinds.MATRIX.accepts(real[1:]) or whole[-1].max(initial=0) > 1:
        raise ValueError(f"{where}: nodes that are no numbers")
    max_depth = _tree_depth(whole[0], whole[1], whole[2], fields["n_features"], where)
    n_nodes = real.shape[1]
    reader.take(n_nodes * _NODE.itemsize + values.nbytes)
    nodes = np.zeros(n_nodes, _NODE)
    for name, column in zip((*_WHOLE, *_REAL), (*whole, *real), strict=True):
        nodes[name] = column
    tree = TREE(fields["n_features"], n_classes.astype(np.intp), len(n_classes))
    values = np.ascontiguousarray(values)
    tree.__setstate__({"max_depth": max_depth, "node_count": n_nodes, "nodes": nodes, "values": values})
    return tree


# A leaf has the children -1 and the feature -2; other nodes stand before their children.
TREE_CODEC = PackedCodec(TREE, _TREE_FIELDS, _split_tree, _join_tree)


def _tree_depth(left: np.ndarray, right: np.ndarray, feature: np.ndarray, n_features: int, where: str) -> int:
    """Depth of a tree; every node but the first must be the child of exactly one node before it."""
    n_nodes, inner = len(left), np.flatnonzero(left != _LEAF)
    children = np.stack([left[inner], right[inner]])
    if n_nodes == 0 or not np.array_equal(np.sort(children, axis=None), np.arange(1, n_nodes)):
        raise ValueError(f"{where}: children that make no tree")
    leaves = np.delete(np.arange(n_nodes), inner)
    tested = feature[inner]
    if (children <= inner).any() or (right[leaves] != _LEAF).any() or (feature[leaves] != _NO_FEATURE).any():
        raise ValueError(f"{where}: nodes that are no tree")
    if len(inner) and not 0 <= tested.min() <= tested.max() < n_features:
        raise ValueError(f"{where}: a feature beyond the {n_features} that there are")
    depth, level = 0, np.zeros(1, np.int64)
    while (level := level[left[level] != _LEAF]).size:
        depth, level = depth + 1, np.concatenate([left[level], right[level]])
    return depth


def _check_trees(model: Any, where: str) -> None:
    """Raise ValueError when a tree does not belong to its classifier or forest, which hands it rows unseen."""
    several = isinstance(model.classes_, list)
    n_classes = [len(classes) for classes in model.classes_] if several else [len(model.classes_)]
    if model.n_outputs_ != len(n_classes) or np.atleast_1d(model.n_classes_).tolist() != n_classes:
        raise ValueError(f"{inside(where, 'n_classes_')}: does not fit the classes")
    if several != (model.n_outputs_ > 1):
        raise ValueError(f"{inside(where, 'classes_')}: lists are for several outputs")
    trees = [each.tree_ for each in getattr(model, "estimators_", [model])]
    for k, tree in enumerate(trees):
        if tree.n_features != model.n_features_in_ or list(tree.n_classes) != n_classes:
            raise ValueError(f"{where}: tree {k} is of other features or classes")
    if not trees:
        raise ValueError(f"{where}: a forest without trees")


_N_FEATURES = COUNT.shaped("features")  # what the loops of these classes rely on
_INPUT: dict[str, Kind] = {
    "n_features_in_": COUNT.shaped("features", optional=True),
    "feature_names_in_": kinds.NAMES.shaped("features", optional=True),
}


def _constant_predictor() -> type:
    """The private class that OneVsRestClassifier uses for a label that is always on or always off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is such a label
        model = OneVsRestClassifier(DummyClassifier()).fit([[0.0], [1.0]], np.array([[1, 0], [1, 1]]))
    return type(model.estimators_[0])


def _linear_sizes(model: Any) -> dict[str, int]:
    return {"scores": 1 if len(model.classes_) == 2 else len(model.classes_)}


def _check_one_vs_rest(model: Any, where: str) -> None:
    n_classes = len(model.label_binarizer_.classes_)
    many = model.label_binarizer_.y_type_ in ("multiclass", "multilabel-indicator")
    if len(model.estimators_) != (n_classes if many else 1):
        raise ValueError(f"{inside(where, 'estimators_')}: {len(model.estimators_)} for {n_classes} classes")


def _check_chain(model: Any, where: str) -> None:
    if sorted(model.order_) != list(range(len(model.classes_))):
        raise ValueError(f"{inside(where, 'order_')}: is no order of {len(model.classes_)} labels")


def _svc_sizes(model: Any) -> dict[str, int]:
    n_classes = len(model.classes_)
    n_pairs = n_classes * (n_classes - 1) // 2
    return {"pairs": n_pairs, "others": n_classes - 1, "calibrated": n_pairs if model._probA.size else 0}


def _check_svc(model: Any, where: str) -> None:
    """What LIBSVM relies on beside the shapes: it gets the arrays as they are."""
    n_classes, n_support, n_rows = len(model.classes_), len(model.support_), model.shape_fit_[0]
    if n_classes < 2 or int(model._n_support.sum(dtype=np.int64)) != n_support:
        raise ValueError(f"{inside(where, '_n_support')}: does not add up to {n_support} support vectors")
    if n_support and int(model.support_.max()) >= n_rows:
        raise ValueError(f"{inside(where, 'support_')}: a row beyond the {n_rows} training rows")
    sparse = sp.issparse(model.support_vectors_)
    n_numbers = len(model.dual_coef_.data) if sparse else model.dual_coef_.size
    if sp.issparse(model.dual_coef_) != sparse or n_numbers != (n_classes - 1) * n_support:
        raise ValueError(f"{inside(where, 'dual_coef_')}: a number is needed for every support vector")


def _rebuild_svc(model: Any, reader: Reader) -> None:
    """Set the private attributes that prediction reads; with two classes LIBSVM has the opposite signs."""
    sign = -1.0 if len(model.classes_) == 2 else 1.0
    model._sparse = sp.issparse(model.support_vectors_)
    model._dual_coef_, model._intercept_ = sign * model.dual_coef_, sign * model.intercept_
    model._effective_probability = model._probA.size > 0


def _check_neighbors(model: Any, where: str) -> None:
    if len(model._y) != model._fit_X.shape[0]:
        raise ValueError(f"{inside(where, '_y')}: does not fit the rows")
    several = isinstance(model.classes_, list)
    columns, classes = (model._y.T, model.classes_) if several else (model._y[None], [model.classes_])
    if model._y.ndim != 1 + several or len(columns) != len(classes):
        raise ValueError(f"{inside(where, '_y')}: does not fit the classes")
    for column, each in zip(columns, classes, strict=True):
        if not np.array_equal(np.unique(column), np.arange(len(each))):
            raise ValueError(f"{inside(where, '_y')}: every class, and no other, must have a row")


def _rebuild_neighbors(model: Any, reader: Reader) -> None:
    """Fit to the rows of the file again, which is deterministic and builds their index."""
    rows, codes, classes = model._fit_X, model._y, model.classes_
    reader.take(4 * (rows.data if sp.issparse(rows) else rows).nbytes)
    names = getattr(model, "feature_names_in_", None)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        model.fit(rows, codes)
    model.classes_ = classes
    if names is not None:
        model.feature_names_in_ = names


def _rebuild_imputer(model: Any, reader: Reader) -> None:
    """Set the private attributes that `transform` reads: features are float64 here, and no indicator is added."""
    model._fit_dtype = model._fill_dtype = np.dtype(np.float64)
    model.indicator_ = None


def _codec(cls: type, fitted: dict[str, Kind], check: Any = lambda model, where: None, **more: Any) -> EstimatorCodec:
    return EstimatorCodec(cls, {**_INPUT, **fitted}, check=check, foreign=True, **more)


_BY_FEATURE = REALS.shaped("features")
_LINEAR = {
    "n_features_in_": _N_FEATURES,
    "classes_": CLASSES,
    "coef_": kinds.REALS_MATRIX.shaped("scores", "features"),
    "intercept_": any_of(REALS, NUMBER).shaped("scores"),
    "n_iter_": any_of(COUNT, INDICES),
}
_SCALER = {"n_features_in_": _N_FEATURES, "n_samples_seen_": any_of(NUMBER, INDICES, REALS)}
_NAN = Kind("NaN", lambda value: isinstance(value, float) and value != value)
_OFF = Kind("false", lambda value: value is False)
_CONSTANT = _constant_predictor()
_NUMERIC_ROWS = Kind(
    "rows of numbers",
    lambda value: (
        (isinstance(value, np.ndarray) and value.ndim == 2 and value.dtype.kind in "biuf")
        or (sp.issparse(value) and value.format == "csr")
    ),
)
_DENSE_OR_SPARSE = any_of(kinds.MATRIX, kinds.csr(sp.csr_array, sp.csr_matrix))
_SEVERAL_CLASSES = any_of(CLASSES, list_of(CLASSES))
_INT32 = kinds.integers(1, dtype=np.int32)
# Threads of a prediction.
_JOBS = any_of(kinds.NOTHING, Kind("from -1024 to 1024", lambda value: type(value) is int and abs(value) <= 1024))
_TREE = {"n_outputs_": COUNT, "classes_": _SEVERAL_CLASSES, "n_classes_": any_of(COUNT, INDICES, list_of(COUNT))}
_BAGS = {
    "_n_samples": COUNT,
    "_n_samples_bootstrap": any_of(kinds.NOTHING, COUNT),
    "_sample_weight": any_of(kinds.NOTHING, REALS),
    "oob_score_": NUMBER,
    "oob_decision_function_": any_of(kinds.LOOSE_MATRIX, kinds.floats(3, finite=False)),
}
_ESTIMATORS = list_of(kinds.CLASSIFIER)


def _tree(cls: type) -> EstimatorCodec:
    return _codec(cls, {**_TREE, "max_features_": COUNT, "tree_": instance(TREE)}, _check_trees)


def _forest(cls: type, tree: type) -> EstimatorCodec:
    return _codec(
        cls,
        {**_TREE, **_BAGS, "estimators_": list_of(instance(tree))},
        _check_trees,
        rebuilt=frozenset({"estimator", "estimator_params", "estimator_"}),
        rebuild=lambda model, reader: setattr(model, "estimator_", model.estimator),
        allowed={"n_jobs": _JOBS},
    )


def _imputer(cls: type) -> EstimatorCodec:
    return _codec(
        cls,
        {"n_features_in_": _N_FEATURES, "statistics_": _BY_FEATURE},
        rebuilt=frozenset({"indicator_"}),
        rebuild=_rebuild_imputer,
        allowed={"add_indicator": _OFF, "missing_values": _NAN, "strategy": choice("mean", "median")},
    )


CODECS: tuple[Codec, ...] = (
    _codec(
        StandardScaler,
        {**_SCALER, **dict.fromkeys(("mean_", "var_", "scale_"), any_of(kinds.NOTHING, REALS).shaped("features"))},
    ),
    _codec(
        MinMaxScaler,
        {**_SCALER, **dict.fromkeys(("min_", "scale_", "data_min_", "data_max_", "data_range_"), _BY_FEATURE)},
    ),
    _codec(MaxAbsScaler, {**_SCALER, "scale_": _BY_FEATURE, "max_abs_": _BY_FEATURE}),
    _codec(Normalizer, {}),
    _imputer(SimpleImputer),
    _imputer(MeanImputer),
    _codec(TfidfTransformer, {"n_features_in_": _N_FEATURES, "idf_": REALS.shaped("features", optional=True)}),
    _codec(LogisticRegression, _LINEAR, sizes=_linear_sizes),
    _codec(LinearSVC, _LINEAR, sizes=_linear_sizes),
    _codec(_CONSTANT, {"y_": any_of(INDICES, REALS).shaped(1)}),
    _codec(LabelBinarizer, {"classes_": CLASSES, "y_type_": kinds.TEXT, "sparse_input_": kinds.FLAG}),
    _codec(
        OneVsRestClassifier,
        {"classes_": CLASSES, "estimators_": _ESTIMATORS, "label_binarizer_": instance(LabelBinarizer)},
        _check_one_vs_rest,
    ),
    _codec(
        ClassifierChain,
        {
            "classes_": list_of(CLASSES).shaped("labels"),
            "estimators_": _ESTIMATORS.shaped("labels"),
            "order_": any_of(INDICES, list_of(COUNT)).shaped("labels"),
            "chain_method_": choice("predict", "predict_proba", "predict_log_proba", "decision_function"),
        },
        _check_chain,
    ),
    _codec(
        MultiOutputClassifier,
        {"classes_": list_of(CLASSES).shaped("labels"), "estimators_": _ESTIMATORS.shaped("labels")},
    ),
    _codec(
        SVC,
        {
            "n_features_in_": _N_FEATURES,
            "classes_": CLASSES.shaped("classes"),
            "class_weight_": VECTOR.shaped("classes"),
            "support_": _INT32.shaped("support"),
            "support_vectors_": _DENSE_OR_SPARSE.shaped("support", "features"),
            "dual_coef_": _DENSE_OR_SPARSE.shaped("others", "support"),
            "intercept_": VECTOR.shaped("pairs"),
            **dict.fromkeys(("_probA", "_probB"), VECTOR.shaped("calibrated")),
            "_n_support": _INT32.shaped("classes"),
            **dict.fromkeys(("n_iter_", "_num_iter"), _INT32),
            "_gamma": NUMBER,
            "fit_status_": COUNT,
            "shape_fit_": list_of(COUNT, tuple),
        },
        _check_svc,
        sizes=_svc_sizes,
        rebuilt=frozenset({"nu", "epsilon"}),
        rebuild=_rebuild_svc,
        # The rows of a precomputed kernel are indices of another matrix.
        allowed={"kernel": choice("linear", "poly", "rbf", "sigmoid")},
    ),
    _codec(
        KNeighborsClassifier,
        {
            "n_features_in_": _N_FEATURES,
            "classes_": _SEVERAL_CLASSES,
            "_fit_X": _NUMERIC_ROWS.shaped("rows", "features"),
            "_y": any_of(INDICES, kinds.integers(2)),
        },
        _check_neighbors,
        rebuilt=frozenset({"radius", "outputs_2d_", "effective_metric_", "effective_metric_params_", "n_samples_fit_"}),
        rebuild=_rebuild_neighbors,
        allowed={"n_jobs": _JOBS},
    ),
    TREE_CODEC,
    _tree(DecisionTreeClassifier),
    _tree(ExtraTreeClassifier),
    _forest(RandomForestClassifier, DecisionTreeClassifier),
    _forest(ExtraTreesClassifier, ExtraTreeClassifier),
    VectorizerCodec(CountVectorizer),
    VectorizerCodec(TfidfVectorizer),
    EstimatorCodec(HashingVectorizer, allowed={**TEXT_PARAMETERS, "n_features": _POSITIVE}, foreign=True),
    PipelineCodec(),
    RecordCodec(KFold, dict.fromkeys(("n_splits", "shuffle", "random_state"), kinds.ANYTHING)),
    RecordCodec(
        ShuffleSplit,
        dict.fromkeys(("n_splits", "test_size", "train_size", "random_state"), kinds.ANYTHING),
    ),
)
