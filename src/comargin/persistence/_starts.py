"""States of solvers, which warm starts and interrupted fits continue from.

Compiled loops index with them: the kinds of their fields name every size, and `check_start` compares the sizes.
"""

from typing import Any

import numpy as np

from ..core.memory import Kept
from ..core.result import Checkpoint, FitState, Status
from ..lsg21.solver import LSG21Start
from ..rank.classifier import RankStart
from ..rank.svm_solver import RankDual
from ..structured.cgm_solver import Generation, Round, StoppedGeneration
from ..structured.cliques import CliqueSet, check_cliques
from ..structured.labelings import Known, StructuredDual, no_labelings, parts_of
from ..svmplus.prbr_classifier import PrBRStart
from ..svmplus.prml_classifier import PrMLStart
from ..svmplus.problem import SlackDual
from ..svmplus.start import PrMLFinished, PrMLState, PrMLStopped
from . import _kinds as kinds
from ._codecs import PackedCodec, RecordCodec
from ._kinds import COUNT, FLAG, MATRIX, NOTHING, NUMBER, VECTOR, Kind, inside, instance
from ._values import Codec, Reader

CLIQUE = kinds.list_of(COUNT, tuple)
_CLIQUES = kinds.list_of(CLIQUE, tuple)
_SHAPE = Kind("two whole numbers", lambda value: kinds.list_of(COUNT, tuple).accepts(value) and len(value) == 2)
_HISTORY = kinds.list_of(instance(Checkpoint), tuple)
_MEASURED = kinds.list_of(
    Kind("a measure and a flag", lambda value: type(value) is tuple and list(map(type, value)) == [float, bool]), tuple
)
_BEGUN_HISTORY = Kind("a history that is not empty", lambda value: _HISTORY.accepts(value) and len(value) > 0)
# Largest mass of one labeling of a row: those of all its labelings add up to 1.
_LARGEST_MASS = 2.0


_DUAL_FIELDS: dict[str, Kind] = {
    "n_labels": COUNT,
    "cliques": _CLIQUES,
    "groups": CLIQUE,
    "count": kinds.integers(2, least=1, dtype=np.int32),  # every row needs a labeling in every part
    "labels": kinds.integers(1, dtype=np.uint8),
    "mass": VECTOR,
    "weights": MATRIX,
    "group_weights": VECTOR,
    "by_newton": FLAG,
    "sigma": Kind("a number from 0 to 1e9", lambda value: type(value) is float and 0.0 <= value <= 1e9),
}
_GENERATION_FIELDS: dict[str, Kind] = {
    "rules": instance(Generation),
    **dict.fromkeys(("alpha", "final_tol", "tol"), NUMBER),
    "taken_back": FLAG,
    "first_pass": COUNT,
    "rounds": kinds.list_of(instance(Round), tuple),
    "history": _HISTORY,
}


def _split_dual(dual: StructuredDual) -> dict[str, Any]:
    """Fields of a structured SVM's state: labelings of all rows and parts one after the other, eight labels a byte."""
    used = [np.arange(known.mass.shape[1]) < known.count[:, None] for known in dual.known]
    bits = [np.packbits(known.labels[slots], axis=1).ravel() for known, slots in zip(dual.known, used, strict=True)]
    masses = [known.mass[slots] for known, slots in zip(dual.known, used, strict=True)]
    return {
        "n_labels": dual.cliques.n_labels,
        "cliques": dual.cliques.cliques,
        "groups": dual.cliques.groups,
        "count": np.stack([known.count for known in dual.known]),
        "labels": np.concatenate(bits),
        "mass": np.concatenate(masses),
        **{name: getattr(dual, name) for name in ("weights", "group_weights", "by_newton", "sigma")},
    }


def _dual_values(fields: dict[str, Any], reader: Reader, where: str) -> dict[str, Any]:
    """Arguments of a ``StructuredDual``, checked to fit together."""
    n_labels, cliques, groups = fields["n_labels"], fields["cliques"], fields["groups"]
    weights, group_weights = fields["weights"], fields["group_weights"]
    if check_cliques(cliques, n_labels, inside(where, "cliques")) != cliques:
        raise ValueError(f"{inside(where, 'cliques')}: labels of a clique must rise")
    if sorted(set(groups)) != list(range(len(set(groups)))):
        raise ValueError(f"{inside(where, 'groups')}: must be numbered from 0")
    clique_set = CliqueSet(int(n_labels), cliques, groups)
    n_columns = n_labels + sum(1 << len(clique) for clique in cliques)
    # From here on the array of weights bounds the number of columns.
    if weights.shape[0] == 0 or weights.shape[1] != n_columns or n_labels == 0:
        raise ValueError(f"{inside(where, 'weights')}: {weights.shape} do not belong to {n_columns} columns")
    kinds.check_shape(inside(where, "group_weights"), group_weights.shape, clique_set.n_groups)
    if len(group_weights) and group_weights.min() < 0.0:
        raise ValueError(f"{inside(where, 'group_weights')}: must not be negative")
    parts = tuple(parts_of(clique_set))
    return {
        "cliques": clique_set,
        "parts": parts,
        "known": _labelings(fields, parts, reader, inside(where, "known")),
        **{name: fields[name] for name in ("weights", "group_weights", "by_newton", "sigma")},
    }


def _labelings(
    fields: dict[str, Any], parts: tuple[tuple[int, ...], ...], reader: Reader, where: str
) -> tuple[Known, ...]:
    """Labelings of every part."""
    count, bits, mass = fields["count"], fields["labels"], fields["mass"]
    if len(count) != len(parts):
        raise ValueError(f"{where}: every row needs a labeling in each of {len(parts)} parts")
    widths = [(len(labels) + 7) // 8 for labels in parts]
    ends = np.cumsum([0, *count.sum(axis=1, dtype=np.int64).tolist()])
    byte_ends = np.cumsum([0, *(n * width for n, width in zip(np.diff(ends).tolist(), widths, strict=True))])
    if ends[-1] != len(mass) or byte_ends[-1] != len(bits):
        raise ValueError(f"{where}: labelings and their number do not agree")
    if len(mass) and not 0.0 <= mass.min() <= mass.max() <= _LARGEST_MASS:
        raise ValueError(f"{where}: masses must be from 0 to 1")
    known = []
    for k, labels in enumerate(parts):
        masses, packed = mass[ends[k] : ends[k + 1]], bits[byte_ends[k] : byte_ends[k + 1]]
        n_samples, capacity, n_labels = count.shape[1], int(count[k].max(initial=1)), len(labels)
        reader.take(n_samples * capacity * (n_labels + 12) + len(masses) * n_labels)
        slots = np.arange(capacity) < count[k][:, None]
        each = no_labelings((n_samples, n_labels), capacity)
        each.labels[slots] = np.unpackbits(packed.reshape(len(masses), -1), axis=1, count=n_labels)
        each.mass[slots], each.count[:] = masses, count[k]
        known.append(each)
    return tuple(known)


def _join_generation(fields: dict[str, Any], reader: Reader, where: str) -> StoppedGeneration:
    numbers = [each.n_cliques for each in fields["rounds"]]
    if not numbers or numbers != sorted(numbers) or numbers[-1] != len(fields["cliques"]):
        raise ValueError(f"{inside(where, 'rounds')}: do not lead to the cliques that there are")
    # Groups are numbered by round: cliques of the first rounds are those of the first groups.
    if list(fields["groups"]) != sorted(fields["groups"]):
        raise ValueError(f"{inside(where, 'groups')}: must rise from round to round")
    if not fields["history"] or fields["history"][-1].n_iter < fields["first_pass"]:
        raise ValueError(f"{inside(where, 'history')}: does not lead to the round under way")
    values = {name: fields[name] for name in _GENERATION_FIELDS}
    return StoppedGeneration(**_dual_values(fields, reader, where), **values)


def check_start(start: Any, where: str, sizes: dict[str, int]) -> None:
    """Raise ValueError unless a state of a solver has these sizes: compiled loops index with its shapes.

    ``sizes["labels"]`` counts the columns of the indicator that the solver sees; ``"features"`` may be unknown.
    """
    if isinstance(start, StructuredDual):
        kinds.check_shape(where, (start.cliques.n_labels,), sizes["labels"])
        return
    if isinstance(start, RankStart | PrBRStart | LSG21Start | PrMLStart):
        sizes = {**sizes, "rows": start.shape[0]}
    if isinstance(start, RankStart) and isinstance(start.dual, tuple):
        kinds.check_shape(where, start.dual[0].shape, sizes["rows"], sizes["labels"])
        kinds.check_shape(where, start.dual[1].shape, sizes["rows"])
    _check_record(start, where, sizes)


def _check_record(record: Any, where: str, sizes: dict[str, int]) -> None:
    """Compare the sizes of a record, and of the records in its fields."""
    fields = _RECORDS.get(type(record), {})
    values = {name: getattr(record, name) for name in fields}
    kinds.check_sizes(values, fields, where, sizes)
    for name, value in values.items():
        _check_record(value, inside(where, name), sizes)


_SOLUTION: dict[str, Kind] = {
    "dictionary": MATRIX.shaped("rank", "features and constant"),
    "codes": MATRIX.shaped("rank", "labels"),
    "privileged": MATRIX.shaped("labels", "labels"),
    "dual": instance(SlackDual),
}
_PAIR = Kind(
    "a matrix and a vector",
    lambda value: type(value) is tuple and len(value) == 2 and MATRIX.accepts(value[0]) and VECTOR.accepts(value[1]),
)
_STARTS = kinds.any_of(MATRIX, instance(RankStart, PrBRStart, LSG21Start, PrMLStart, StructuredDual, StoppedGeneration))

_RECORD_CODECS = (
    RecordCodec(FitState, {"solution": _STARTS, "history": _HISTORY, "measured": _MEASURED}),
    RecordCodec(Kept, {"value": kinds.ANYTHING}),
    RecordCodec(Checkpoint, {"n_iter": COUNT, **dict.fromkeys(("seconds", "primal", "dual"), NUMBER)}),
    RecordCodec(
        Round,
        {
            "cliques": _CLIQUES,
            "n_cliques": COUNT,
            **dict.fromkeys(("objective", "gap", "improvement", "hamming"), NUMBER),
            "n_iter": COUNT,
            "seconds": NUMBER,
        },
    ),
    RecordCodec(RankStart, {"dual": kinds.any_of(NOTHING, instance(RankDual), _PAIR), "shape": _SHAPE}),
    RecordCodec(RankDual, {"alpha": VECTOR, "bias": VECTOR.shaped("labels")}),
    RecordCodec(PrBRStart, {"dual": instance(SlackDual), "shape": _SHAPE}),
    RecordCodec(SlackDual, {"A": MATRIX.shaped("rows", "labels"), "B": MATRIX.shaped("sets", "labels")}),
    RecordCodec(LSG21Start, {"W": MATRIX.shaped("features", "labels"), "shape": _SHAPE}),
    RecordCodec(PrMLStart, {"point": instance(PrMLState), "shape": _SHAPE}),
    RecordCodec(PrMLState, {**_SOLUTION, "stopped": kinds.any_of(NOTHING, instance(PrMLStopped))}, alias="PrMLPoint"),
    RecordCodec(
        PrMLStopped,
        {
            "number": COUNT,
            "step_tol": NUMBER,
            "n_idle": COUNT,
            "done": FLAG,
            "history": _BEGUN_HISTORY,
            "best": kinds.any_of(NOTHING, instance(PrMLFinished)),
        },
    ),
    RecordCodec(
        PrMLFinished,
        {**_SOLUTION, "history": _BEGUN_HISTORY, "status": kinds.choice(*(status.name for status in Status))},
    ),
    RecordCodec(
        Generation,
        {
            **dict.fromkeys(("per_round", "order", "max_rounds"), COUNT),
            "max_cliques": kinds.any_of(NOTHING, COUNT),
            "round_tol": NUMBER,
        },
    ),
)
_RECORDS = {codec.cls: codec.fields for codec in _RECORD_CODECS}
CODECS: tuple[Codec, ...] = (
    *_RECORD_CODECS,
    PackedCodec(StructuredDual, _DUAL_FIELDS, _split_dual, lambda *read: StructuredDual(**_dual_values(*read))),
    PackedCodec(
        StoppedGeneration,
        {**_DUAL_FIELDS, **_GENERATION_FIELDS},
        lambda stopped: {**_split_dual(stopped), **{name: getattr(stopped, name) for name in _GENERATION_FIELDS}},
        _join_generation,
    ),
)
