"""What decides on labels: rules, calibrators, promises, and the classifiers that hold them."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..decisions import (
    AimRule,
    BlendedClassifier,
    DecisionClassifierCV,
    GlobalCut,
    Guarantee,
    LabelCalibrator,
    LabelDecisions,
    PerLabelCut,
    ProportionalCut,
    RankSVMCut,
    RiskController,
    RiskCurve,
    ScoreStructure,
    SetCalibrator,
    StackedStructureClassifier,
    ThresholdClassifierCV,
    TopK,
)
from ..search import AutoClassifier, Trial
from ..structured import CGMClassifier, StructuredSVMClassifier
from . import _kinds as kinds
from ._codecs import EstimatorCodec, RecordCodec
from ._kinds import COUNT, NUMBER, VECTOR, Kind, check_shape, inside, instance, list_of
from ._values import Codec

_ROUNDING = 1e-9
_BY_LABEL = kinds.LOOSE_VECTOR.shaped("labels")
_COMMON: dict[str, Kind] = {
    "n_labels_": COUNT.shaped("labels"),
    "constant_": kinds.integers(1, least=-1).shaped("labels"),
}
_CLASSIFIER: dict[str, Kind] = {
    "estimator_": kinds.CLASSIFIER,
    "classes_": kinds.CLASSES,
    "target_form_": kinds.choice("classes", "sparse", "dense"),
}
_DECISION_CLASSIFIER: dict[str, Kind] = {
    **_CLASSIFIER,
    "rule_": instance(LabelDecisions).shaped("labels"),
    "promise_": kinds.any_of(kinds.NOTHING, instance(RiskController)).shaped("labels"),
}


def _check_top_k(rule: Any, where: str) -> None:
    if not 1 <= rule.k_ <= rule.n_labels_:
        raise ValueError(f"{inside(where, 'k_')}: must be from 1 to {rule.n_labels_}")


def _labels_of(model: Any) -> dict[str, int]:
    return {"labels": 1 if model.target_form_ == "classes" else len(model.classes_)}


def _check_classifier(model: Any, where: str) -> None:
    if model.target_form_ == "classes" and len(model.classes_) != 2:
        raise ValueError(f"{inside(where, 'classes_')}: must be two")


def _check_blend(blend: Any, where: str) -> None:
    """As many names as members, weights that sum to one, and calibrators of the same labels."""
    if not isinstance(blend.members, list) or len(blend.members) != len(blend.members_) or not blend.members:
        raise ValueError(f"{inside(where, 'members')}: are not those of members_")
    if any(not (isinstance(pair, tuple) and len(pair) == 2 and type(pair[0]) is str) for pair in blend.members):
        raise ValueError(f"{inside(where, 'members')}: must be pairs of a name and a classifier")
    if blend.weights_.min() < 0.0 or abs(blend.weights_.sum() - 1.0) > _ROUNDING:
        raise ValueError(f"{inside(where, 'weights_')}: must not be negative, and sum to one")
    sizes = {len(calibrator.slope_) for calibrator in blend.calibrators_}
    if sizes not in ({len(blend.classes_)}, {1}):
        raise ValueError(f"{inside(where, 'calibrators_')}: are of other numbers of labels")


def _check_auto(model: Any, where: str) -> None:
    _check_classifier(model, where)
    if not any(trial.weight for trial in model.trials_):
        raise ValueError(f"{inside(where, 'trials_')}: none has a weight")


def _check_controller(controller: Any, where: str) -> None:
    if np.isnan(controller.cuts_).any():
        raise ValueError(f"{inside(where, 'cuts_')}: must be numbers")
    labels = [g.label for g in controller.guarantees_ if g.label is not None]
    if labels and max(labels) >= len(controller.cuts_):
        raise ValueError(f"{inside(where, 'guarantees_')}: a label beyond the {len(controller.cuts_)}")


def _check_sets(calibrator: Any, where: str) -> None:
    """Sets of zeros and ones, and shares that mix probabilities with probabilities."""
    sets, known, marginal = calibrator.sets_, calibrator.known_share_, calibrator.marginal_share_
    if not (sets.data == 1.0).all() or not sets.has_canonical_format:
        raise ValueError(f"{inside(where, 'sets_')}: must be sets of labels")
    if not 0.0 <= marginal <= known < 1.0 or (known > 0.0 and not sets.shape[0]):
        raise ValueError(f"{inside(where, 'known_share_')}: shares must be from 0 to 1, and 0 without sets")
    if not np.isfinite([calibrator.lift_power_, calibrator.probability_power_]).all():
        raise ValueError(f"{inside(where, 'lift_power_')}: powers must be finite")


def _check_calibrator(calibrator: Any, where: str) -> None:
    """Every label with a share of its steps has some, and they are where ``first_`` says."""
    first, n_labels = calibrator.first_, len(calibrator.slope_)
    check_shape(inside(where, "first_"), first.shape, n_labels + 1)
    steps = np.diff(first)
    if first[0] != 0 or first[-1] != len(calibrator.knots_) or (steps < 0).any():
        raise ValueError(f"{inside(where, 'first_')}: must rise from 0 to the number of knots")
    for name, values in (("share_", calibrator.share_), ("values_", calibrator.values_)):
        if values.size and (values.min() < 0.0 or values.max() > 1.0):
            raise ValueError(f"{inside(where, name)}: must be from 0 to 1")
    if (steps[calibrator.share_ != 0.0] == 0).any():
        raise ValueError(f"{inside(where, 'share_')}: is not 0 for a label without knots")


def _check_structure(rule: Any, where: str) -> None:
    """All parts are of the same labels, and the correction is one of the log odds of all classifiers."""
    n_labels, n_columns = rule.n_labels_, rule.n_labels_ * len(rule.calibrators_)
    for calibrator in rule.calibrators_:
        check_shape(inside(where, "calibrators_"), calibrator.slope_.shape, n_labels)
    check_shape(inside(where, "center_"), rule.center_.shape, n_columns)
    check_shape(inside(where, "tried_"), rule.tried_.shape, len(rule.tried_), 4)
    learned = rule.structure_
    if learned is not None and (learned.n_features_in_, len(learned.classes_)) != (n_columns, n_labels):
        raise ValueError(f"{inside(where, 'structure_')}: is of other features or labels")
    if (rule.structure_ is None) != np.isposinf(rule.alpha_):
        raise ValueError(f"{inside(where, 'alpha_')}: is inf exactly without a correction")


def _check_stack(model: Any, where: str) -> None:
    _check_classifier(model, where)
    if len(model.estimators_) != len(model.rule_.calibrators_):
        raise ValueError(f"{inside(where, 'estimators_')}: must be {len(model.rule_.calibrators_)}")


_RULES = (GlobalCut, PerLabelCut, ProportionalCut, TopK, RankSVMCut, AimRule, LabelDecisions)
CODECS: tuple[Codec, ...] = (
    EstimatorCodec(GlobalCut, {**_COMMON, "thresholds_": _BY_LABEL, "cut_": NUMBER}),
    EstimatorCodec(
        PerLabelCut, {**_COMMON, "thresholds_": _BY_LABEL, "global_cut_": NUMBER, "best_f1_": kinds.LOOSE_VECTOR}
    ),
    EstimatorCodec(ProportionalCut, {**_COMMON, "thresholds_": _BY_LABEL}),
    EstimatorCodec(TopK, {**_COMMON, "k_": COUNT}, check=_check_top_k),
    EstimatorCodec(RankSVMCut, {**_COMMON, "coef_": VECTOR.shaped("labels"), "intercept_": NUMBER}),
    EstimatorCodec(
        LabelCalibrator,
        {
            **dict.fromkeys(("slope_", "offset_", "share_"), VECTOR.shaped("labels")),
            **dict.fromkeys(("knots_", "values_"), VECTOR.shaped("knots")),
            "first_": kinds.INDICES,
        },
        check=_check_calibrator,
    ),
    EstimatorCodec(
        SetCalibrator,
        {
            "sets_": kinds.csr(sp.csr_array).shaped("sets", "labels"),
            "log_lifts_": VECTOR.shaped("sets"),
            **dict.fromkeys(("lift_power_", "probability_power_", "known_share_", "marginal_share_"), NUMBER),
        },
        check=_check_sets,
    ),
    EstimatorCodec(
        AimRule,
        {
            **_COMMON,
            "sets_": instance(SetCalibrator).shaped("sets", "labels"),
            **dict.fromkeys(("micro_cuts_", "macro_cuts_"), VECTOR.shaped("labels")),
        },
    ),
    RecordCodec(
        Guarantee,
        {
            "measure": kinds.choice("recall", "precision", "false tags per row"),
            "target": NUMBER,
            "label": kinds.any_of(kinds.NOTHING, COUNT),
            "name": kinds.any_of(kinds.NOTHING, kinds.TEXT),
        },
    ),
    RecordCodec(
        RiskCurve,
        {
            "guarantee": instance(Guarantee),
            **dict.fromkeys(("cuts", "value", "bound", "tags_per_row"), kinds.LOOSE_VECTOR.shaped("cuts")),
            "allowed": list_of(NUMBER, tuple),
            "cut": NUMBER,
        },
    ),
    EstimatorCodec(
        RiskController,
        {
            "cuts_": _BY_LABEL,
            "guarantees_": list_of(instance(Guarantee), tuple),
            "risk_curves_": list_of(instance(RiskCurve), tuple),
            "tags_per_row_": NUMBER,
            "statement_": kinds.TEXT,
        },
        check=_check_controller,
    ),
    EstimatorCodec(
        LabelDecisions,
        {
            "n_labels_": COUNT.shaped("labels"),
            "calibrator_": instance(LabelCalibrator).shaped("labels"),
            "sets_for_": instance(AimRule).shaped("labels"),
        },
    ),
    EstimatorCodec(
        ScoreStructure,
        {
            "n_labels_": COUNT.shaped("labels"),
            "calibrators_": list_of(instance(LabelCalibrator)).shaped("classifiers"),
            "blend_": VECTOR.shaped("classifiers"),
            "offset_scale_": NUMBER,
            **dict.fromkeys(("center_", "factor_"), VECTOR.shaped("columns")),
            "alpha_": NUMBER,
            "tried_": kinds.MATRIX,
            "structure_": kinds.any_of(kinds.NOTHING, instance(StructuredSVMClassifier, CGMClassifier)),
            "base_loss_": NUMBER,
            "decisions_": instance(LabelDecisions).shaped("labels"),
        },
        check=_check_structure,
    ),
    EstimatorCodec(
        StackedStructureClassifier,
        {
            **{name: kind for name, kind in _CLASSIFIER.items() if name != "estimator_"},
            "estimators_": list_of(kinds.CLASSIFIER),
            "rule_": instance(ScoreStructure).shaped("labels"),
        },
        sizes=_labels_of,
        check=_check_stack,
    ),
    EstimatorCodec(
        ThresholdClassifierCV,
        {**_CLASSIFIER, "rule_": instance(*_RULES).shaped("labels")},
        sizes=_labels_of,
        check=_check_classifier,
    ),
    EstimatorCodec(DecisionClassifierCV, _DECISION_CLASSIFIER, sizes=_labels_of, check=_check_classifier),
    RecordCodec(
        Trial,
        {
            "model": kinds.TEXT,
            "parameters": instance(dict),
            "rows": COUNT,
            **dict.fromkeys(("log_loss", "value", "seconds", "weight"), NUMBER),
        },
    ),
    EstimatorCodec(
        AutoClassifier,
        {**_DECISION_CLASSIFIER, "trials_": list_of(instance(Trial)), "budget_": kinds.TEXT},
        sizes=_labels_of,
        check=_check_auto,
    ),
    EstimatorCodec(
        BlendedClassifier,
        {
            "members_": list_of(kinds.CLASSIFIER).shaped("members"),
            "weights_": VECTOR.shaped("members"),
            "calibrators_": list_of(instance(LabelCalibrator)).shaped("members"),
            "classes_": kinds.CLASSES,
        },
        check=_check_blend,
    ),
)
