"""Our own classes: which attributes they have, and what must fit together before anything is computed with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.multioutput import ClassifierChain

from ..baselines import ChainEnsemble
from ..core.kernel_functions import KernelFunction, KernelMultilabelClassifier
from ..core.result import Checkpoint
from ..core.validation import Targets
from ..decisions import GlobalCut, PerLabelCut, ProportionalCut, RankSVMCut, ThresholdClassifierCV, TopK
from ..graphs import LabelGraph
from ..inference.engine import LARGEST_WIDTH
from ..lsg21 import LSG21Classifier
from ..lsg21.solver import LSG21Start
from ..m3l import M3LClassifier, ZeroShotClassifier
from ..model_selection import MultilabelStratifiedKFold, MultilabelStratifiedShuffleSplit
from ..rank import RankCVMClassifier, RankSVMClassifier
from ..rank.classifier import RankClassifier
from ..search import LSG21ClassifierCV, M3LClassifierCV
from ..search.path_cv import PathSearch
from ..structured import CGMClassifier, StructuredSVMClassifier
from ..structured.classifier import StructuredClassifier
from ..structured.cliques import CliqueSet, check_cliques
from ..structured.generation import Round, StoppedGeneration
from ..structured.labelings import StructuredDual
from ..svmplus import PrBRClassifier, PrMLClassifier
from . import _kinds as kinds
from ._codecs import EstimatorCodec, GraphCodec, RecordCodec
from ._kinds import COUNT, MATRIX, NUMBER, VECTOR, Kind, check_shape, check_shapes, inside, instance, list_of
from ._starts import CLIQUE, PrBRStart, PrMLStart, RankStart, check_start
from ._starts import CODECS as STARTS
from ._values import Codec, Reader

# Of the plan of an elimination, for every state of its widest table.
_STATE_BYTES = 16

_INDICES = kinds.integers(1, least=0)
_RULES = (GlobalCut, PerLabelCut, ProportionalCut, TopK, RankSVMCut)

_FITTED: dict[str, Kind] = {
    "n_features_in_": COUNT,
    "feature_names_in_": kinds.NAMES,
    "classes_": kinds.CLASSES,
    "_targets": instance(Targets),
    **dict.fromkeys(("objective_", "dual_objective_", "duality_gap_"), NUMBER),
    "history_": list_of(instance(Checkpoint)),
    "n_iter_": COUNT,
    "_own_attributes": kinds.TEXTS,
}
# What every learner's fit sets; states of warm starts that are matrices.
LEARNER_STATE: dict[str, Kind] = {**_FITTED, "_dual_start": MATRIX}
_LINEAR: dict[str, Kind] = {"coef_": MATRIX, "intercept_": VECTOR}
_KERNEL: dict[str, Kind] = {
    **_LINEAR,
    "support_": _INDICES,
    "support_vectors_": kinds.any_of(kinds.NOTHING, kinds.ROWS),
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
    "scores_": kinds.LOOSE_MATRIX,
    "best_index_": COUNT,
    "best_score_": NUMBER,
    "converged_": kinds.FLAGS_MATRIX,
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
    if not hasattr(model, "_targets"):
        raise ValueError(f"{where}: has no targets")
    targets = model._targets
    n_labels = len(targets.classes) if targets.kind in ("indicator", "multiclass") else 1
    if hasattr(model, "feature_names_in_"):
        check_shapes(model, where, {"feature_names_in_": (model.n_features_in_,)})
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
    n_columns = 2 if targets.kind == "binary" and isinstance(model, RankClassifier) else n_labels
    check_start(model, getattr(model, "_dual_start", None), n_columns, inside(where, "_dual_start"))


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


def _check_zero_shot(model: Any, where: str) -> None:
    n_classes, n_labels = model.signatures_.shape
    by_class = dict.fromkeys(("classes_", "class_prior_", "score_mean_", "score_scale_"), (n_classes,))
    check_shapes(model, where, {**by_class, "constant_attributes_": (n_labels,)})


def _check_chains(model: Any, where: str) -> None:
    n_labels, varying = len(model.classes_), model.varying_
    check_shape(inside(where, "constant_"), model.constant_, n_labels)
    if len(varying) and (varying.max() >= n_labels or (np.diff(varying) <= 0).any()):
        raise ValueError(f"{inside(where, 'varying_')}: labels must rise, and be below {n_labels}")
    if any(len(chain.classes_) != len(varying) for chain in model.chains_) or bool(model.chains_) != bool(len(varying)):
        raise ValueError(f"{inside(where, 'chains_')}: are of another number of labels")


_REBUILT = frozenset({"_column_coef", "_column_intercept", "_inference_engine"})


def _learner(cls: type, fitted: dict[str, Kind], **more: Any) -> EstimatorCodec:
    return EstimatorCodec(cls.__name__, cls, {**_FITTED, **fitted}, check=_check_learner, **more)


def _structured(cls: type, fitted: dict[str, Kind]) -> EstimatorCodec:
    return _learner(cls, {**_STRUCTURED, **fitted}, rebuilt=_REBUILT, rebuild=_rebuild_structured)


def _rule(cls: type, **fitted: Kind) -> EstimatorCodec:
    common = {"n_labels_": COUNT, "constant_": kinds.integers(1, least=-1)}
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
    _rule(GlobalCut, thresholds_=kinds.LOOSE_VECTOR, cut_=NUMBER),
    _rule(PerLabelCut, thresholds_=kinds.LOOSE_VECTOR, global_cut_=NUMBER, best_f1_=kinds.LOOSE_VECTOR),
    _rule(ProportionalCut, thresholds_=kinds.LOOSE_VECTOR),
    _rule(TopK, k_=COUNT),
    _rule(RankSVMCut, coef_=VECTOR, intercept_=NUMBER),
    EstimatorCodec(
        "ThresholdClassifierCV",
        ThresholdClassifierCV,
        {
            "estimator_": kinds.CLASSIFIER,
            "rule_": instance(*_RULES),
            "classes_": kinds.CLASSES,
            "target_form_": kinds.choice("classes", "sparse", "dense"),
        },
        check=_check_threshold_classifier,
    ),
    EstimatorCodec(
        "ZeroShotClassifier",
        ZeroShotClassifier,
        {
            "estimator_": kinds.CLASSIFIER,
            "label_correlation_": kinds.any_of(kinds.NOTHING, MATRIX),
            "classes_": kinds.CLASSES,
            "signatures_": kinds.integers(2, least=0),
            "class_prior_": VECTOR,
            "constant_attributes_": kinds.integers(1, least=0),
            "score_mean_": VECTOR,
            "score_scale_": VECTOR,
        },
        check=_check_zero_shot,
    ),
    EstimatorCodec(
        "ChainEnsemble",
        ChainEnsemble,
        {
            "chains_": list_of(instance(ClassifierChain)),
            "varying_": _INDICES,
            "constant_": _INDICES,
            "classes_": kinds.CLASSES,
        },
        check=_check_chains,
    ),
    RecordCodec(
        "Targets",
        Targets,
        {
            "kind": kinds.choice("indicator", "binary", "multiclass", "constant"),
            "classes": kinds.CLASSES,
            "sparse": kinds.FLAG,
            "names": kinds.TEXTS,
        },
        _check_targets,
    ),
    RecordCodec(
        "KernelFunction",
        KernelFunction,
        {
            "kernel": kinds.choice("linear", "rbf", "poly", "precomputed"),
            **dict.fromkeys(("gamma", "degree", "coef0"), NUMBER),
            "center": kinds.any_of(kinds.NOTHING, VECTOR),
        },
        _check_kernel_function,
    ),
    *STARTS,
    RecordCodec(
        "MultilabelStratifiedKFold",
        MultilabelStratifiedKFold,
        {"n_splits": COUNT, "shuffle": kinds.FLAG, "random_state": kinds.ANYTHING},
    ),
    RecordCodec(
        "MultilabelStratifiedShuffleSplit",
        MultilabelStratifiedShuffleSplit,
        dict.fromkeys(("n_splits", "test_size", "train_size", "random_state"), kinds.ANYTHING),
    ),
    GraphCodec(),
)
