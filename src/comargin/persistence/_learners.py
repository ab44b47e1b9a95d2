"""Our own classes: which attributes they have, and what must fit together before anything is computed with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._validation import Targets
from ..estimators import (
    CGMClassifier,
    LSG21Classifier,
    LSG21ClassifierCV,
    M3LClassifier,
    M3LClassifierCV,
    PrBRClassifier,
    PrMLClassifier,
    RankCVMClassifier,
    RankSVMClassifier,
    StructuredClassifier,
    StructuredSVMClassifier,
    ZeroShotClassifier,
)
from ..estimators._kernels import KernelFunction, KernelMultilabelClassifier
from ..estimators._path_cv import PathSearch
from ..estimators._rank import RankClassifier
from ..graphs import LabelGraph
from ..inference._engine import LARGEST_WIDTH
from ..model_selection import MultilabelStratifiedKFold, MultilabelStratifiedShuffleSplit
from ..problems.cliques import CliqueSet, check_cliques
from ..solvers import Checkpoint
from ..solvers._generation import Round, StoppedGeneration
from ..solvers._labelings import StructuredDual
from ..solvers.lsg21 import LSG21Start
from ..thresholds import GlobalCut, PerLabelCut, ProportionalCut, RankSVMCut, ThresholdClassifierCV, TopK
from ._codecs import EstimatorCodec, GraphCodec, RecordCodec
from ._kinds import (
    ANYTHING,
    CLASSES,
    COUNT,
    FLAG,
    FLAGS_MATRIX,
    LOOSE_MATRIX,
    LOOSE_VECTOR,
    MATRIX,
    NAMES,
    NOTHING,
    NUMBER,
    ROWS,
    TEXTS,
    VECTOR,
    Kind,
    any_of,
    check_shape,
    choice,
    inside,
    instance,
    integers,
    list_of,
)
from ._starts import CLIQUE, PrBRStart, PrMLStart, RankStart, check_start
from ._starts import CODECS as STARTS
from ._values import Codec, Reader

# Of the plan of an elimination, for every state of its widest table.
_STATE_BYTES = 16

_INDICES = integers(1, least=0)
_RULES = (GlobalCut, PerLabelCut, ProportionalCut, TopK, RankSVMCut)
_ESTIMATOR = Kind("a classifier", lambda value: hasattr(value, "fit") and hasattr(value, "predict"))

_FITTED: dict[str, Kind] = {
    "n_features_in_": COUNT,
    "feature_names_in_": NAMES,
    "classes_": CLASSES,
    "_targets": instance(Targets),
    **dict.fromkeys(("objective_", "dual_objective_", "duality_gap_"), NUMBER),
    "history_": list_of(instance(Checkpoint)),
    "n_iter_": COUNT,
    "_own_attributes": TEXTS,
}
_LINEAR: dict[str, Kind] = {"coef_": MATRIX, "intercept_": VECTOR}
_KERNEL: dict[str, Kind] = {
    **_LINEAR,
    "support_": _INDICES,
    "support_vectors_": any_of(NOTHING, ROWS),
    "dual_coef_": MATRIX,
    "_kernel_function": instance(KernelFunction),
}
_RANK: dict[str, Kind] = {
    **_KERNEL,
    "n_support_": COUNT,
    "n_skipped_": COUNT,
    "threshold_": instance(RankSVMCut),
    "_dual_start": instance(RankStart),
}
_STRUCTURED: dict[str, Kind] = {
    **_LINEAR,
    "cliques_": list_of(CLIQUE),
    "clique_coef_": list_of(MATRIX),
    "clique_intercept_": list_of(VECTOR),
    "clique_norms_": VECTOR,
    "label_graph_": instance(LabelGraph),
}
_LSG21: dict[str, Kind] = {
    **_LINEAR,
    "selected_features_": list_of(_INDICES),
    "shared_features_": instance(dict),
    "label_graph_": instance(LabelGraph),
}
_SEARCH: dict[str, Kind] = {
    "scores_": LOOSE_MATRIX,
    "best_index_": COUNT,
    "best_score_": NUMBER,
    "converged_": FLAGS_MATRIX,
}
_PRIVILEGED: dict[str, Kind] = {**_LINEAR, "privileged_coef_": MATRIX}


def _check_targets(targets: Targets, where: str) -> None:
    n_classes = len(targets.classes)
    right = {"indicator": n_classes > 0, "multiclass": n_classes > 2, "binary": n_classes == 2}
    if not right.get(targets.kind, n_classes == 1):
        raise ValueError(f"{where}: {n_classes} classes of a {targets.kind} y")


def _check_kernel_function(function: KernelFunction, where: str) -> None:
    if function.kernel in ("rbf", "poly") and not np.isfinite([function.gamma, function.degree, function.coef0]).all():
        raise ValueError(f"{where}: parameters of a kernel must be finite")


def _check_learner(model: Any, where: str) -> None:
    """Shapes that prediction relies on, and those of a warm start."""
    if not hasattr(model, "_targets") and hasattr(model, "_dual_start"):
        # The state of a fit that has not ended; the fit that goes on compares it with its rows.
        check_start(model, model._dual_start.shape[1], where)
        return
    targets = model._targets
    n_labels = len(targets.classes) if targets.kind in ("indicator", "multiclass") else 1
    if hasattr(model, "feature_names_in_"):
        check_shape(inside(where, "feature_names_in_"), model.feature_names_in_, model.n_features_in_)
    missing = [name for name in model._own_attributes if name not in vars(model) and name not in _REBUILT]
    if missing:
        raise ValueError(f"{where}: has no {missing[0][:80]}")
    if isinstance(model, PathSearch) and not hasattr(model, "intercept_"):
        return  # refit=False: scores of the folds, and no model
    check_shape(inside(where, "intercept_"), model.intercept_, n_labels)
    if hasattr(model, "coef_") or not isinstance(model, KernelMultilabelClassifier):
        check_shape(inside(where, "coef_"), model.coef_, n_labels, model.n_features_in_)
    if hasattr(model, "support_"):
        _check_support(model, n_labels, where)
    if isinstance(model, StructuredClassifier):
        _check_structured(model, n_labels, where)
    if hasattr(model, "threshold_") and model.threshold_.n_labels_ != n_labels:
        raise ValueError(f"{inside(where, 'threshold_')}: is of another number of labels")
    check_start(model, 2 if targets.kind == "binary" and isinstance(model, RankClassifier) else n_labels, where)


def _check_support(model: Any, n_labels: int, where: str) -> None:
    n_features, n_support = model.n_features_in_, len(model.support_)
    check_shape(inside(where, "dual_coef_"), model.dual_coef_, n_labels, n_support)
    precomputed = model._kernel_function.kernel == "precomputed"
    if precomputed != (model.support_vectors_ is None):
        raise ValueError(f"{inside(where, 'support_vectors_')}: rows belong to every kernel but a precomputed one")
    if not precomputed:
        check_shape(inside(where, "support_vectors_"), model.support_vectors_, n_support, n_features)
    elif n_support and model.support_.max() >= n_features:
        raise ValueError(f"{inside(where, 'support_')}: a row beyond the {n_features} training rows")
    if model._kernel_function.center is not None:
        check_shape(inside(where, "_kernel_function.center"), model._kernel_function.center, n_features)


def _check_structured(model: Any, n_labels: int, where: str) -> None:
    if list(check_cliques(model.cliques_, n_labels, inside(where, "cliques_"))) != model.cliques_:
        raise ValueError(f"{inside(where, 'cliques_')}: labels of a clique must rise")
    check_shape(inside(where, "clique_norms_"), model.clique_norms_, len(model.cliques_))
    tables = zip(model.cliques_, model.clique_coef_, model.clique_intercept_, strict=True)
    for clique, coef, intercept in tables:
        check_shape(inside(where, "clique_coef_"), coef, 1 << len(clique), model.n_features_in_)
        check_shape(inside(where, "clique_intercept_"), intercept, 1 << len(clique))
    if model.label_graph_.n_labels != n_labels:
        raise ValueError(f"{inside(where, 'label_graph_')}: is of another number of labels")


def _rebuild_structured(model: Any, reader: Reader) -> None:
    """The weights that prediction uses, in one matrix, and inference on the cliques that have any."""
    n_labels, used = len(model.coef_), np.flatnonzero(model.clique_norms_)
    model._column_coef = np.concatenate([model.coef_, *(model.clique_coef_[c] for c in used)])
    model._column_intercept = np.concatenate([model.intercept_, *(model.clique_intercept_[c] for c in used)])
    cliques = tuple(model.cliques_[c] for c in used)
    model._inference_engine = model._engine(CliqueSet(n_labels, cliques, (0,) * len(used)))
    # Few weights can make a wide graph, whose plan of elimination is large.
    reader.take(_STATE_BYTES << min(model._inference_engine.width, LARGEST_WIDTH))


def _check_rule(rule: Any, where: str) -> None:
    check_shape(inside(where, "constant_"), rule.constant_, rule.n_labels_)
    if isinstance(rule, TopK):
        if not 1 <= rule.k_ <= rule.n_labels_:
            raise ValueError(f"{inside(where, 'k_')}: must be from 1 to {rule.n_labels_}")
    else:
        cuts = rule.coef_ if isinstance(rule, RankSVMCut) else rule.thresholds_
        check_shape(inside(where, "cuts"), cuts, rule.n_labels_)


def _check_threshold_classifier(model: Any, where: str) -> None:
    n_labels = 1 if model.target_form_ == "classes" else len(model.classes_)
    if model.rule_.n_labels_ != n_labels or (model.target_form_ == "classes" and len(model.classes_) != 2):
        raise ValueError(f"{inside(where, 'rule_')}: is of another number of labels")
    _ESTIMATOR.check(model.estimator_, inside(where, "estimator_"))


def _check_zero_shot(model: Any, where: str) -> None:
    n_classes, n_labels = model.signatures_.shape
    for name in ("classes_", "class_prior_", "score_mean_", "score_scale_"):
        check_shape(inside(where, name), getattr(model, name), n_classes)
    check_shape(inside(where, "constant_attributes_"), model.constant_attributes_, n_labels)
    _ESTIMATOR.check(model.estimator_, inside(where, "estimator_"))


_REBUILT = frozenset({"_column_coef", "_column_intercept", "_inference_engine"})


def _learner(cls: type, fitted: dict[str, Kind], **more: Any) -> EstimatorCodec:
    return EstimatorCodec(cls.__name__, cls, {**_FITTED, **fitted}, check=_check_learner, **more)


def _structured(cls: type, fitted: dict[str, Kind]) -> EstimatorCodec:
    return _learner(cls, {**_STRUCTURED, **fitted}, rebuilt=_REBUILT, rebuild=_rebuild_structured)


def _rule(cls: type, **fitted: Kind) -> EstimatorCodec:
    common = {"n_labels_": COUNT, "constant_": integers(1, least=-1)}
    return EstimatorCodec(cls.__name__, cls, {**common, **fitted}, check=_check_rule)


CODECS: tuple[Codec, ...] = (
    _learner(M3LClassifier, {**_KERNEL, "_dual_start": MATRIX}),
    _learner(M3LClassifierCV, {**_KERNEL, **_SEARCH, "C_": NUMBER, "Cs_": VECTOR}),
    _structured(
        CGMClassifier,
        {"rounds_": list_of(instance(Round)), "_dual_start": instance(StructuredDual, StoppedGeneration)},
    ),
    _structured(StructuredSVMClassifier, {"_dual_start": instance(StructuredDual)}),
    _learner(RankCVMClassifier, _RANK),
    _learner(RankSVMClassifier, _RANK),
    _learner(LSG21Classifier, {**_LSG21, "_dual_start": instance(LSG21Start)}),
    _learner(LSG21ClassifierCV, {**_LSG21, **_SEARCH, "alpha_": NUMBER, "alphas_": VECTOR, "alpha_max_": NUMBER}),
    _learner(PrBRClassifier, {**_PRIVILEGED, "_dual_start": instance(PrBRStart)}),
    _learner(
        PrMLClassifier,
        {
            **_PRIVILEGED,
            "dictionary_": MATRIX,
            "dictionary_intercept_": VECTOR,
            "codes_": MATRIX,
            "lower_bound_": NUMBER,
            "_dual_start": instance(PrMLStart),
        },
    ),
    _rule(GlobalCut, thresholds_=LOOSE_VECTOR, cut_=NUMBER),
    _rule(PerLabelCut, thresholds_=LOOSE_VECTOR, global_cut_=NUMBER, best_f1_=LOOSE_VECTOR),
    _rule(ProportionalCut, thresholds_=LOOSE_VECTOR),
    _rule(TopK, k_=COUNT),
    _rule(RankSVMCut, coef_=VECTOR, intercept_=NUMBER),
    EstimatorCodec(
        "ThresholdClassifierCV",
        ThresholdClassifierCV,
        {
            "estimator_": ANYTHING,
            "rule_": instance(*_RULES),
            "classes_": CLASSES,
            "target_form_": choice("classes", "sparse", "dense"),
        },
        check=_check_threshold_classifier,
    ),
    EstimatorCodec(
        "ZeroShotClassifier",
        ZeroShotClassifier,
        {
            "estimator_": ANYTHING,
            "label_correlation_": any_of(NOTHING, MATRIX),
            "classes_": CLASSES,
            "signatures_": integers(2, least=0),
            "class_prior_": VECTOR,
            "constant_attributes_": integers(1, least=0),
            "score_mean_": VECTOR,
            "score_scale_": VECTOR,
        },
        check=_check_zero_shot,
    ),
    RecordCodec(
        "Targets",
        Targets,
        {
            "kind": choice("indicator", "binary", "multiclass", "constant"),
            "classes": CLASSES,
            "sparse": FLAG,
            "names": TEXTS,
        },
        _check_targets,
    ),
    RecordCodec(
        "KernelFunction",
        KernelFunction,
        {
            "kernel": choice("linear", "rbf", "poly", "precomputed"),
            **dict.fromkeys(("gamma", "degree", "coef0"), NUMBER),
            "center": any_of(NOTHING, VECTOR),
        },
        _check_kernel_function,
    ),
    *STARTS,
    RecordCodec(
        "MultilabelStratifiedKFold",
        MultilabelStratifiedKFold,
        {"n_splits": COUNT, "shuffle": FLAG, "random_state": ANYTHING},
    ),
    RecordCodec(
        "MultilabelStratifiedShuffleSplit",
        MultilabelStratifiedShuffleSplit,
        dict.fromkeys(("n_splits", "test_size", "train_size", "random_state"), ANYTHING),
    ),
    GraphCodec(),
)
