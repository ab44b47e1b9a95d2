"""Our own classes: their attributes, and the checks that these fit together before anything uses them."""

from typing import Any

import numpy as np
from sklearn.multioutput import ClassifierChain

from ..baselines import ChainEnsemble, KnownLabelsClassifier
from ..core.kernel_functions import KernelFunction
from ..core.result import Checkpoint
from ..core.validation import Targets
from ..graphs import LabelGraph
from ..inference.engine import LARGEST_WIDTH
from ..lsg21 import LSG21Classifier
from ..lsg21.solver import LSG21Start
from ..m3l import M3LClassifier, ZeroShotClassifier
from ..model_selection import MultilabelStratifiedKFold, MultilabelStratifiedShuffleSplit
from ..rank import RankCVMClassifier, RankSVMClassifier
from ..rank.classifier import RankClassifier
from ..rank.label_sets import RankSVMCut
from ..search import LSG21ClassifierCV, M3LClassifierCV
from ..search.path_cv import PathSearch
from ..structured import CGMClassifier, StructuredSVMClassifier
from ..structured.cgm_solver import Round, StoppedGeneration
from ..structured.classifier import StructuredClassifier
from ..structured.cliques import CliqueSet, check_cliques
from ..structured.labelings import StructuredDual
from ..svmplus import PrBRClassifier, PrMLClassifier
from . import _kinds as kinds
from ._codecs import GRAPH_CODEC, EstimatorCodec, RecordCodec
from ._kinds import COUNT, INDICES, MATRIX, NUMBER, VECTOR, Kind, check_shape, inside, instance, list_of
from ._starts import CLIQUE, PrBRStart, PrMLStart, RankStart, check_start
from ._starts import CODECS as STARTS
from ._values import Codec, Reader

# Bytes of the plan of an elimination, for every state of its widest table.
_STATE_BYTES = 16

# `_rebuild_structured` makes them.
_REBUILT = frozenset({"_column_coef", "_column_intercept", "_inference_engine"})

_FITTED: dict[str, Kind] = {
    "n_features_in_": COUNT.shaped("features"),
    "feature_names_in_": kinds.NAMES.shaped("features", optional=True),
    "classes_": kinds.CLASSES,
    "_targets": instance(Targets),
    **dict.fromkeys(("objective_", "dual_objective_", "duality_gap_"), NUMBER),
    "history_": list_of(instance(Checkpoint)),
    "n_iter_": COUNT,
    "_own_attributes": kinds.TEXTS,
}
# What every learner's fit sets; states of warm starts that are matrices.
LEARNER_STATE: dict[str, Kind] = {**_FITTED, "_dual_start": MATRIX}
# Searches with refit=False have none of them, and kernels no weights: `_check_learner` looks for what is missing.
_LINEAR: dict[str, Kind] = {
    "coef_": MATRIX.shaped("labels", "features", optional=True),
    "intercept_": VECTOR.shaped("labels", optional=True),
}
_KERNEL: dict[str, Kind] = {
    **_LINEAR,
    "support_": INDICES.shaped("support", optional=True),
    "support_vectors_": kinds.any_of(kinds.NOTHING, kinds.ROWS).shaped("support", "features", optional=True),
    "dual_coef_": MATRIX.shaped("labels", "support", optional=True),
    "_kernel_function": instance(KernelFunction),
}
_RANK: dict[str, Kind] = {
    **_KERNEL,
    "n_support_": COUNT,
    "n_skipped_": COUNT,
    "threshold_": instance(RankSVMCut).shaped("labels", optional=True),
    "_dual_start": instance(RankStart),
}
_STRUCTURED: dict[str, Kind] = {
    **_KERNEL,
    "cliques_": list_of(CLIQUE).shaped("cliques"),
    "clique_coef_": list_of(MATRIX).shaped("cliques", optional=True),
    "clique_dual_coef_": list_of(MATRIX).shaped("cliques", optional=True),
    "kernel_residual_": NUMBER,
    "clique_intercept_": list_of(VECTOR).shaped("cliques"),
    "clique_norms_": VECTOR.shaped("cliques"),
    "label_graph_": instance(LabelGraph).shaped("labels"),
}
_LSG21: dict[str, Kind] = {
    **_LINEAR,
    "selected_features_": list_of(INDICES),
    "shared_features_": instance(dict),
    "label_graph_": instance(LabelGraph).shaped("labels", optional=True),
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


def _learner_sizes(model: Any) -> dict[str, int]:
    targets = model._targets
    return {"labels": len(targets.classes) if targets.kind in ("indicator", "multiclass") else 1}


def _check_learner(model: Any, where: str) -> None:
    """What prediction relies on beside the sizes of arrays, and the state of a warm start."""
    n_labels = _learner_sizes(model)["labels"]
    needed = [name for name in model._own_attributes if name not in _REBUILT]
    if not isinstance(model, PathSearch) or hasattr(model, "intercept_"):  # refit=False: scores of the folds, no model
        needed += ["intercept_", "support_" if hasattr(model, "_kernel_function") else "coef_"]
    if hasattr(model, "support_"):
        needed += ["dual_coef_", "support_vectors_", "_kernel_function"]
    missing = [name for name in needed if not hasattr(model, name)]
    if missing:
        raise ValueError(f"{where}: has no {missing[0][:80]}")
    if hasattr(model, "support_"):
        _check_support(model, where)
    if isinstance(model, StructuredClassifier):
        _check_structured(model, n_labels, where)
    n_columns = 2 if model._targets.kind == "binary" and isinstance(model, RankClassifier) else n_labels
    sizes = {"labels": n_columns, "features": model.n_features_in_}
    check_start(getattr(model, "_dual_start", None), inside(where, "_dual_start"), sizes)


def _check_support(model: Any, where: str) -> None:
    n_features, function = model.n_features_in_, model._kernel_function
    precomputed = function.kernel == "precomputed"
    if precomputed != (model.support_vectors_ is None):
        raise ValueError(f"{inside(where, 'support_vectors_')}: rows belong to every kernel but a precomputed one")
    if precomputed and len(model.support_) and model.support_.max() >= n_features:
        raise ValueError(f"{inside(where, 'support_')}: a row beyond the {n_features} training rows")
    if function.center is not None:
        check_shape(inside(where, "_kernel_function.center"), function.center.shape, n_features)


def _check_structured(model: Any, n_labels: int, where: str) -> None:
    if list(check_cliques(model.cliques_, n_labels, inside(where, "cliques_"))) != model.cliques_:
        raise ValueError(f"{inside(where, 'cliques_')}: labels of a clique must rise")
    name, n_weights = "clique_coef_", model.n_features_in_
    if hasattr(model, "support_"):
        name, n_weights = "clique_dual_coef_", len(model.support_)
    for clique, coef, intercept in zip(model.cliques_, getattr(model, name), model.clique_intercept_, strict=True):
        check_shape(inside(where, name), coef.shape, 1 << len(clique), n_weights)
        check_shape(inside(where, "clique_intercept_"), intercept.shape, 1 << len(clique))


def _rebuild_structured(model: Any, reader: Reader) -> None:
    """Stack the weights that prediction uses, and prepare inference on the cliques with weights."""
    dual, used = "dual_" if hasattr(model, "support_") else "", np.flatnonzero(model.clique_norms_)
    coef, clique_coef = getattr(model, f"{dual}coef_"), getattr(model, f"clique_{dual}coef_")
    n_labels = len(coef)
    model._column_coef = np.concatenate([coef, *(clique_coef[c] for c in used)])
    model._column_intercept = np.concatenate([model.intercept_, *(model.clique_intercept_[c] for c in used)])
    cliques = tuple(model.cliques_[c] for c in used)
    model._inference_engine = model._engine(CliqueSet(n_labels, cliques, (0,) * len(used)))
    # Few weights can make a wide graph, whose plan of elimination is large.
    reader.take(_STATE_BYTES << min(model._inference_engine.width, LARGEST_WIDTH))


def _check_known_labels(model: Any, where: str) -> None:
    if (model.constant_ > 1).any():
        raise ValueError(f"{inside(where, 'constant_')}: a label is 0 or 1")


def _check_chains(model: Any, where: str) -> None:
    n_labels, varying = len(model.classes_), model.varying_
    if len(varying) and (varying.max() >= n_labels or (np.diff(varying) <= 0).any()):
        raise ValueError(f"{inside(where, 'varying_')}: labels must rise, and be below {n_labels}")
    if any(len(chain.classes_) != len(varying) for chain in model.chains_) or bool(model.chains_) != bool(len(varying)):
        raise ValueError(f"{inside(where, 'chains_')}: are of another number of labels")


def _learner(cls: type, fitted: dict[str, Kind], **more: Any) -> EstimatorCodec:
    return EstimatorCodec(cls, {**_FITTED, **fitted}, sizes=_learner_sizes, check=_check_learner, **more)


def _structured(cls: type, fitted: dict[str, Kind]) -> EstimatorCodec:
    return _learner(cls, {**_STRUCTURED, **fitted}, rebuilt=_REBUILT, rebuild=_rebuild_structured)


CODECS: tuple[Codec, ...] = (
    _learner(M3LClassifier, {**_KERNEL, "_dual_start": MATRIX}),
    _learner(M3LClassifierCV, {**_KERNEL, **_SEARCH, "C_": NUMBER, "Cs_": VECTOR}),
    _structured(
        CGMClassifier, {"rounds_": list_of(instance(Round)), "_dual_start": instance(StructuredDual, StoppedGeneration)}
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
    EstimatorCodec(
        ZeroShotClassifier,
        {
            "estimator_": kinds.CLASSIFIER,
            "label_correlation_": kinds.any_of(kinds.NOTHING, MATRIX),
            "signatures_": kinds.integers(2).shaped("classes", "labels"),
            "classes_": kinds.CLASSES.shaped("classes"),
            "constant_attributes_": INDICES.shaped("labels"),
            **dict.fromkeys(("class_prior_", "score_mean_", "score_scale_"), VECTOR.shaped("classes")),
        },
    ),
    EstimatorCodec(
        ChainEnsemble,
        {
            "chains_": list_of(instance(ClassifierChain)),
            "varying_": INDICES,
            "classes_": kinds.CLASSES.shaped("labels"),
            "constant_": INDICES.shaped("labels"),
        },
        check=_check_chains,
    ),
    EstimatorCodec(
        KnownLabelsClassifier,
        {
            "estimators_": list_of(kinds.any_of(kinds.NOTHING, kinds.CLASSIFIER)).shaped("labels"),
            "constant_": INDICES.shaped("labels"),
            "classes_": kinds.CLASSES.shaped("labels"),
        },
        check=_check_known_labels,
    ),
    RecordCodec(
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
        MultilabelStratifiedKFold,
        {"n_splits": COUNT, "shuffle": kinds.FLAG, "random_state": kinds.ANYTHING},
    ),
    RecordCodec(
        MultilabelStratifiedShuffleSplit,
        dict.fromkeys(("n_splits", "test_size", "train_size", "random_state"), kinds.ANYTHING),
    ),
    GRAPH_CODEC,
)
