"""scikit-learn's classes that a model may hold, by their parameters and public attributes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import LabelBinarizer, MaxAbsScaler, MinMaxScaler, Normalizer, StandardScaler
from sklearn.svm import LinearSVC

from ._codecs import EstimatorCodec, PipelineCodec, RecordCodec, VectorizerCodec, hashing_codec
from ._kinds import (
    ANYTHING,
    CLASSES,
    COUNT,
    FLAG,
    NAMES,
    NOTHING,
    NUMBER,
    REALS,
    REALS_MATRIX,
    TEXT,
    Kind,
    any_of,
    check_shape,
    inside,
    instance,
    integers,
    list_of,
)
from ._values import Codec

_WHOLE = integers(1, least=0)
_INPUT: dict[str, Kind] = {"n_features_in_": COUNT, "feature_names_in_": NAMES}


def _constant_predictor() -> type:
    """The private class that stands in OneVsRestClassifier for a label that is always on or always off."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that there is such a label
        model = OneVsRestClassifier(DummyClassifier()).fit([[0.0], [1.0]], np.array([[1, 0], [1, 1]]))
    return type(model.estimators_[0])


def _check_names(model: Any, where: str) -> None:
    if hasattr(model, "feature_names_in_"):
        check_shape(inside(where, "feature_names_in_"), model.feature_names_in_, model.n_features_in_)


def _check_scaler(model: Any, where: str) -> None:
    _check_names(model, where)
    for name in ("mean_", "var_", "scale_", "min_", "data_min_", "data_max_", "data_range_", "max_abs_"):
        if getattr(model, name, None) is not None:
            check_shape(inside(where, name), getattr(model, name), model.n_features_in_)


def _check_tfidf(model: Any, where: str) -> None:
    _check_names(model, where)
    if hasattr(model, "idf_"):
        check_shape(inside(where, "idf_"), model.idf_, model.n_features_in_)


def _check_linear(model: Any, where: str) -> None:
    _check_names(model, where)
    n_scores = 1 if len(model.classes_) == 2 else len(model.classes_)
    check_shape(inside(where, "coef_"), model.coef_, n_scores, model.n_features_in_)
    if isinstance(model.intercept_, np.ndarray):
        check_shape(inside(where, "intercept_"), model.intercept_, n_scores)


def _check_one_vs_rest(model: Any, where: str) -> None:
    n_classes = len(model.label_binarizer_.classes_)
    many = model.label_binarizer_.y_type_ in ("multiclass", "multilabel-indicator")
    if len(model.estimators_) != (n_classes if many else 1):
        raise ValueError(f"{inside(where, 'estimators_')}: {len(model.estimators_)} for {n_classes} classes")


def _check_constant(model: Any, where: str) -> None:
    check_shape(inside(where, "y_"), model.y_, 1)


def _codec(cls: type, fitted: dict[str, Kind], check: Any = _check_names) -> EstimatorCodec:
    return EstimatorCodec(cls.__name__.lstrip("_"), cls, {**_INPUT, **fitted}, check=check, foreign=True)


_LINEAR = {
    "classes_": CLASSES,
    "coef_": REALS_MATRIX,
    "intercept_": any_of(REALS, NUMBER),
    "n_iter_": any_of(COUNT, _WHOLE),
}
_SEEN = {"n_samples_seen_": any_of(NUMBER, _WHOLE, REALS)}
_CONSTANT = _constant_predictor()
_BINARY = (LogisticRegression, LinearSVC, _CONSTANT)
_OPTIONAL = any_of(NOTHING, REALS)

CODECS: tuple[Codec, ...] = (
    _codec(StandardScaler, {**_SEEN, **dict.fromkeys(("mean_", "var_", "scale_"), _OPTIONAL)}, _check_scaler),
    _codec(
        MinMaxScaler,
        {**_SEEN, **dict.fromkeys(("min_", "scale_", "data_min_", "data_max_", "data_range_"), REALS)},
        _check_scaler,
    ),
    _codec(MaxAbsScaler, {**_SEEN, "scale_": REALS, "max_abs_": REALS}, _check_scaler),
    _codec(Normalizer, {}),
    _codec(TfidfTransformer, {"idf_": REALS}, _check_tfidf),
    _codec(LogisticRegression, _LINEAR, _check_linear),
    _codec(LinearSVC, _LINEAR, _check_linear),
    _codec(_CONSTANT, {"y_": any_of(_WHOLE, REALS)}, _check_constant),
    _codec(LabelBinarizer, {"classes_": CLASSES, "y_type_": TEXT, "sparse_input_": FLAG}),
    _codec(
        OneVsRestClassifier,
        {
            "classes_": CLASSES,
            "estimators_": list_of(instance(*_BINARY)),
            "label_binarizer_": instance(LabelBinarizer),
        },
        _check_one_vs_rest,
    ),
    VectorizerCodec("CountVectorizer", CountVectorizer),
    VectorizerCodec("TfidfVectorizer", TfidfVectorizer),
    hashing_codec(HashingVectorizer),
    PipelineCodec(),
    RecordCodec("KFold", KFold, dict.fromkeys(("n_splits", "shuffle", "random_state"), ANYTHING)),
    RecordCodec(
        "ShuffleSplit", ShuffleSplit, dict.fromkeys(("n_splits", "test_size", "train_size", "random_state"), ANYTHING)
    ),
)
