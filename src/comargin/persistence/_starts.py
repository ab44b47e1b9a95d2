"""What warm starts continue from: states of solvers; every shape and index that their loops rely on is checked."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ..core.memory import Kept
from ..core.result import Checkpoint, FitState, Status
from ..lsg21.solver import LSG21Start
from ..rank.classifier import RankStart
from ..rank.svm_solver import RankDual
from ..structured.cliques import CliqueSet, check_cliques
from ..structured.generation import Generation, Round, StoppedGeneration
from ..structured.labelings import Known, StructuredDual, no_labelings, parts_of
from ..svmplus.prbr_classifier import PrBRStart
from ..svmplus.prml_classifier import PrMLFitStart as PrMLStart
from ..svmplus.problem import SlackDual
from ..svmplus.start import PrMLFinished, PrMLStopped
from ..svmplus.start import PrMLStart as PrMLPoint
from ._codecs import RecordCodec
from ._kinds import (
    ANYTHING,
    COUNT,
    FLAG,
    MATRIX,
    NOTHING,
    NUMBER,
    VECTOR,
    Kind,
    any_of,
    check_shape,
    choice,
    inside,
    instance,
    list_of,
)
from ._values import Codec, Node, Reader, Writer

CLIQUE = list_of(COUNT, tuple)
_CLIQUES = list_of(CLIQUE, tuple)
_SHAPE = list_of(COUNT, tuple)
_HISTORY = list_of(instance(Checkpoint), tuple)
# Of a mass of the labelings of one row; those of all rows together are 1.
_LARGEST_MASS = 2.0
_SIGMA = Kind("a number from 0 to 1e9", lambda value: type(value) is float and 0.0 <= value <= 1e9)


class StructuredDualCodec:
    """States of structured SVMs: the labelings of all rows and parts one after the other, eight labels to a byte."""

    name = "StructuredDual"
    cls: type = StructuredDual

    def write(self, obj: StructuredDual, writer: Writer, where: str) -> dict[str, Node]:
        """Return the graph, the labelings, and the weights."""
        used = [np.arange(known.mass.shape[1]) < known.count[:, None] for known in obj.known]
        bits = [np.packbits(known.labels[slots], axis=1).ravel() for known, slots in zip(obj.known, used, strict=True)]
        masses = [known.mass[slots] for known, slots in zip(obj.known, used, strict=True)]
        values = {
            "n_labels": obj.cliques.n_labels,
            "cliques": obj.cliques.cliques,
            "groups": obj.cliques.groups,
            "count": np.stack([known.count for known in obj.known]),
            "labels": np.concatenate(bits),
            "mass": np.concatenate(masses),
            "weights": obj.weights,
            "group_weights": obj.group_weights,
            "by_newton": obj.by_newton,
            "sigma": obj.sigma,
        }
        return {name: writer.value(value, inside(where, name)) for name, value in values.items()}

    def read(self, node: dict[str, Node], reader: Reader, where: str) -> StructuredDual:
        """Return the state, checked."""
        return StructuredDual(**self.read_fields(node, reader, where))

    def read_fields(self, node: dict[str, Node], reader: Reader, where: str) -> dict[str, Any]:
        """Fields of a ``StructuredDual``."""

        def field(name: str, kind: Kind) -> Any:
            value = reader.value(node[name], inside(where, name))
            kind.check(value, inside(where, name))
            return value

        weights = field("weights", MATRIX)
        cliques = _clique_set(field("n_labels", COUNT), field("cliques", _CLIQUES), field("groups", CLIQUE), where)
        # The number of columns is bounded by the file from here on.
        n_columns = cliques.n_labels + sum(1 << len(clique) for clique in cliques.cliques)
        if weights.shape[0] == 0 or weights.shape[1] != n_columns or cliques.n_labels == 0:
            raise ValueError(f"{inside(where, 'weights')}: {weights.shape} do not belong to {n_columns} columns")
        group_weights = field("group_weights", VECTOR)
        check_shape(inside(where, "group_weights"), group_weights, cliques.n_groups)
        if len(group_weights) and group_weights.min() < 0.0:
            raise ValueError(f"{inside(where, 'group_weights')}: must not be negative")
        parts = tuple(parts_of(cliques))
        return {
            "cliques": cliques,
            "parts": parts,
            "known": _labelings(node, parts, reader, where),
            "weights": weights,
            "group_weights": group_weights,
            "by_newton": field("by_newton", FLAG),
            "sigma": field("sigma", _SIGMA),
        }


def _clique_set(n_labels: int, cliques: Any, groups: Any, where: str) -> CliqueSet:
    if check_cliques(cliques, n_labels, inside(where, "cliques")) != cliques:
        raise ValueError(f"{inside(where, 'cliques')}: labels of a clique must rise")
    if sorted(set(groups)) != list(range(len(set(groups)))):
        raise ValueError(f"{inside(where, 'groups')}: must be numbered from 0")
    return CliqueSet(int(n_labels), cliques, groups)


def _labelings(
    node: dict[str, Node], parts: tuple[tuple[int, ...], ...], reader: Reader, where: str
) -> tuple[Known, ...]:
    """Labelings of every part; rows without mass anywhere would do, rows without a labeling would not."""
    path = inside(where, "known")
    count, bits, mass = (reader.value(node[name], path) for name in ("count", "labels", "mass"))
    right = all(isinstance(array, np.ndarray) for array in (count, bits, mass))
    if not right or (count.dtype, count.ndim) != (np.int32, 2) or (bits.dtype, bits.ndim) != (np.uint8, 1):
        raise ValueError(f"{path}: numbers of labelings and labels of these types cannot be")
    VECTOR.check(mass, path)
    if len(count) != len(parts) or (count.size and count.min() < 1):
        raise ValueError(f"{path}: every row needs a labeling in each of {len(parts)} parts")
    widths = [(len(labels) + 7) // 8 for labels in parts]
    totals = count.sum(axis=1, dtype=np.int64).tolist()
    if sum(totals) != len(mass) or sum(n * width for n, width in zip(totals, widths, strict=True)) != len(bits):
        raise ValueError(f"{path}: labelings and their number do not agree")
    if len(mass) and not 0.0 <= mass.min() <= mass.max() <= _LARGEST_MASS:
        raise ValueError(f"{path}: masses must be from 0 to 1")
    ends = np.cumsum([0, *totals])
    byte_ends = np.cumsum([0, *(n * width for n, width in zip(totals, widths, strict=True))])
    known = []
    for labels, n_known, masses, part in zip(
        parts, count, (mass[a:b] for a, b in pairwise(ends)), (bits[a:b] for a, b in pairwise(byte_ends)), strict=True
    ):
        n_samples, capacity, n_labels = len(n_known), int(n_known.max(initial=1)), len(labels)
        reader.take(n_samples * capacity * (n_labels + 12) + len(masses) * n_labels)
        slots = np.arange(capacity) < n_known[:, None]
        each = no_labelings((n_samples, n_labels), capacity)
        each.labels[slots] = np.unpackbits(part.reshape(len(masses), -1), axis=1, count=n_labels)
        each.mass[slots], each.count[:] = masses, n_known
        known.append(each)
    return tuple(known)


class StoppedGenerationCodec(StructuredDualCodec):
    """Where a callback stopped clique generation."""

    name = "StoppedGeneration"
    cls: type = StoppedGeneration
    _fields: tuple[tuple[str, Kind], ...] = (
        ("rules", instance(Generation)),
        ("alpha", NUMBER),
        ("final_tol", NUMBER),
        ("tol", NUMBER),
        ("taken_back", FLAG),
        ("first_pass", COUNT),
        ("rounds", list_of(instance(Round), tuple)),
        ("history", _HISTORY),
    )

    def write(self, obj: StructuredDual, writer: Writer, where: str) -> dict[str, Node]:
        """Return the state of the solver, and how far generation got."""
        more = {name: writer.value(getattr(obj, name), inside(where, name)) for name, _ in self._fields}
        return {**super().write(obj, writer, where), **more}

    def read(self, node: dict[str, Node], reader: Reader, where: str) -> StoppedGeneration:
        """Return the state, checked."""
        values = self.read_fields(node, reader, where)
        for name, kind in self._fields:
            values[name] = reader.value(node[name], inside(where, name))
            kind.check(values[name], inside(where, name))
        numbers = [each.n_cliques for each in values["rounds"]]
        if not numbers or numbers != sorted(numbers) or numbers[-1] != len(values["cliques"].cliques):
            raise ValueError(f"{inside(where, 'rounds')}: do not lead to the cliques that there are")
        # Groups are numbered by round: cliques of the first rounds are those of the first groups.
        if list(values["cliques"].groups) != sorted(values["cliques"].groups):
            raise ValueError(f"{inside(where, 'groups')}: must rise from round to round")
        if not values["history"] or values["history"][-1].n_iter < values["first_pass"]:
            raise ValueError(f"{inside(where, 'history')}: does not lead to the round under way")
        return StoppedGeneration(**values)


def check_start(model: Any, start: Any, n_columns: int, where: str) -> None:
    """Raise ValueError when a start does not belong to a model: compiled loops index with its shapes.

    Parameters
    ----------
    model : MultilabelClassifier
        What starts from it.
    start : object or None
        The start.
    n_columns : int
        Columns of the indicator that its solver sees.
    where : str
        Path of the start, for messages.
    """
    if isinstance(start, RankStart | PrBRStart | LSG21Start | PrMLStart) and len(start.shape) != 2:
        raise ValueError(f"{where}: a shape of two dimensions expected")
    if isinstance(start, RankStart) and isinstance(start.dual, tuple):
        U, cost = start.dual
        check_shape(where, U, start.shape[0], n_columns)
        check_shape(where, cost, start.shape[0])
    elif isinstance(start, RankStart) and start.dual is not None:
        check_shape(where, start.dual.bias, n_columns)
    elif isinstance(start, PrBRStart):
        _check_slack_dual(start.dual, start.shape, n_columns, where)
    elif isinstance(start, LSG21Start):
        check_shape(where, start.W, getattr(model, "n_features_in_", len(start.W)), n_columns)
    elif isinstance(start, PrMLStart):
        _check_prml(start, n_columns, where)
    elif isinstance(start, StructuredDual) and start.cliques.n_labels != n_columns:
        raise ValueError(f"{where}: is of another number of labels")


def _check_slack_dual(dual: SlackDual, shape: tuple[int, ...], n_columns: int, where: str) -> None:
    check_shape(where, dual.A, shape[0], n_columns)
    check_shape(where, dual.B, len(dual.B), n_columns)


def _check_prml(start: PrMLStart, n_columns: int, where: str) -> None:
    point, stopped = start.point, start.point.stopped
    solutions: list[Any] = [point]
    if stopped is not None:
        solutions += [] if stopped.best is None else [stopped.best]
        for penalty in (stopped.w_penalty, stopped.d_penalty):
            if penalty is not None:
                check_shape(where, penalty, n_columns)
    for each in solutions:
        check_shape(where, each.dictionary, *point.dictionary.shape)
        check_shape(where, each.codes, len(point.dictionary), n_columns)
        check_shape(where, each.privileged, n_columns, n_columns)
        _check_slack_dual(each.dual, start.shape, n_columns, where)
        check_shape(where, each.dual.B, *solutions[0].dual.B.shape)


def _check_stopped(stopped: PrMLStopped | PrMLFinished, where: str) -> None:
    if not stopped.history:
        raise ValueError(f"{inside(where, 'history')}: is empty")


_PENALTY = any_of(NOTHING, VECTOR)
_SOLUTION: dict[str, Kind] = {
    "dictionary": MATRIX,
    "codes": MATRIX,
    "privileged": MATRIX,
    "dual": instance(SlackDual),
}

_STARTS = any_of(MATRIX, instance(RankStart, PrBRStart, LSG21Start, PrMLStart, StructuredDual, StoppedGeneration))

CODECS: tuple[Codec, ...] = (
    RecordCodec("FitState", FitState, {"solution": _STARTS, "history": _HISTORY}),
    RecordCodec("Kept", Kept, {"value": ANYTHING}),
    RecordCodec("Checkpoint", Checkpoint, {"n_iter": COUNT, **dict.fromkeys(("seconds", "primal", "dual"), NUMBER)}),
    RecordCodec(
        "Round",
        Round,
        {
            "cliques": _CLIQUES,
            "n_cliques": COUNT,
            **dict.fromkeys(("objective", "gap", "improvement", "hamming"), NUMBER),
            "n_iter": COUNT,
            "seconds": NUMBER,
        },
    ),
    RecordCodec(
        "RankStart",
        RankStart,
        {
            "dual": any_of(
                NOTHING,
                instance(RankDual),
                Kind(
                    "a matrix and a vector",
                    lambda v: type(v) is tuple and len(v) == 2 and MATRIX.accepts(v[0]) and VECTOR.accepts(v[1]),
                ),
            ),
            "shape": _SHAPE,
        },
    ),
    RecordCodec("RankDual", RankDual, {"alpha": VECTOR, "bias": VECTOR}),
    RecordCodec("PrBRStart", PrBRStart, {"dual": instance(SlackDual), "shape": _SHAPE}),
    RecordCodec("SlackDual", SlackDual, {"A": MATRIX, "B": MATRIX}),
    RecordCodec("LSG21Start", LSG21Start, {"W": MATRIX, "shape": _SHAPE}),
    RecordCodec("PrMLStart", PrMLStart, {"point": instance(PrMLPoint), "shape": _SHAPE}),
    RecordCodec("PrMLPoint", PrMLPoint, {**_SOLUTION, "stopped": any_of(NOTHING, instance(PrMLStopped))}),
    RecordCodec(
        "PrMLStopped",
        PrMLStopped,
        {
            "number": COUNT,
            "step_tol": NUMBER,
            **dict.fromkeys(("w_penalty", "d_penalty"), _PENALTY),
            "n_idle": COUNT,
            "done": FLAG,
            "history": _HISTORY,
            "best": any_of(NOTHING, instance(PrMLFinished)),
        },
        _check_stopped,
    ),
    RecordCodec(
        "PrMLFinished",
        PrMLFinished,
        {**_SOLUTION, "history": _HISTORY, "status": choice(*(status.name for status in Status))},
        _check_stopped,
    ),
    RecordCodec(
        "Generation",
        Generation,
        {
            **dict.fromkeys(("per_round", "order", "max_rounds"), COUNT),
            "max_cliques": any_of(NOTHING, COUNT),
            "round_tol": NUMBER,
        },
    ),
    StructuredDualCodec(),
    StoppedGenerationCodec(),
)
