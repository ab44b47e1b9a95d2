"""Codecs: objects are written and read by constructor parameters and named attributes, each of a known kind."""

import inspect
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline

from ..graphs import LabelGraph
from ._kinds import FLAG, NOTHING, REALS, TEXT, TEXTS, Kind, any_of, check_sizes, choice, inside, instance, list_of
from ._values import Node, Reader, Writer

_SETTINGS = {"_sklearn_output_config": "set_output", "_metadata_request": "metadata requests"}


def _signature(cls: type) -> dict[str, Any]:
    """Parameters of a constructor and their defaults."""
    every = inspect.signature(cls.__init__).parameters.values()  # type: ignore[misc]
    return {p.name: p.default for p in every if p.name != "self" and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}


def _part(node: dict[str, Node], name: str, where: str) -> dict[str, Node]:
    part = node[name]
    if not isinstance(part, dict):
        raise ValueError(f"{where}: {name} is no object")
    return part


def _read_fields(nodes: dict[str, Node], kinds: Mapping[str, Kind], reader: Reader, where: str) -> dict[str, Any]:
    values = {name: reader.value(nodes[name], inside(where, name)) for name in kinds}
    for name, kind in kinds.items():
        kind.check(values[name], inside(where, name))
    check_sizes(values, kinds, where, {})
    return values


@dataclass(frozen=True)
class _Named:
    """What a codec writes, and the name it has in files."""

    cls: type
    alias: str = field(default="", kw_only=True)  # if the name is not that of the class

    @property
    def name(self) -> str:
        return self.alias or self.cls.__name__.lstrip("_")


@dataclass(frozen=True)
class RecordCodec(_Named):
    """Objects that are nothing but their fields, all given to the constructor."""

    fields: Mapping[str, Kind]
    check: Callable[[Any, str], None] = lambda obj, where: None  # raises ValueError when fields do not fit together

    def write(self, obj: Any, writer: Writer, where: str) -> dict[str, Node]:
        return {"fields": {name: writer.value(getattr(obj, name), inside(where, name)) for name in self.fields}}

    def read(self, node: dict[str, Node], reader: Reader, where: str) -> Any:
        found = _part(node, "fields", where)
        if found.keys() != self.fields.keys():
            raise ValueError(f"{where}: the fields of a {self.name} are {', '.join(self.fields)}")
        obj = self.cls(**_read_fields(found, self.fields, reader, where))
        self.check(obj, where)
        return obj


@dataclass(frozen=True)
class PackedCodec(_Named):
    """Objects that are taken apart into other fields than their own, which stand beside the name of the class."""

    fields: Mapping[str, Kind]
    split: Callable[[Any], dict[str, Any]]
    join: Callable[[dict[str, Any], Reader, str], Any]  # raises ValueError when fields do not fit together

    def write(self, obj: Any, writer: Writer, where: str) -> dict[str, Node]:
        return {name: writer.value(value, inside(where, name)) for name, value in self.split(obj).items()}

    def read(self, node: dict[str, Node], reader: Reader, where: str) -> Any:
        return self.join(_read_fields(node, self.fields, reader, where), reader, where)


@dataclass(frozen=True)
class EstimatorCodec(_Named):
    """Estimators: parameters of the constructor, and fitted attributes by name."""

    fitted: Mapping[str, Kind] = field(default_factory=dict)
    rebuilt: frozenset[str] = frozenset()  # attributes that are not saved: the constructor or `rebuild` makes them
    allowed: Mapping[str, Kind] = field(default_factory=dict)  # parameters that are not free
    sizes: Callable[[Any], dict[str, int]] = lambda obj: {}  # sizes that no attribute has as its shape
    check: Callable[[Any, str], None] = lambda obj, where: None  # raises ValueError when attributes do not fit together
    rebuild: Callable[[Any, Reader], None] = lambda obj, reader: None  # completes an estimator that was read
    foreign: bool = False  # a class of another package, whose other private names are left alone

    def write(self, obj: Any, writer: Writer, where: str) -> dict[str, Node]:
        _refuse_settings(obj, where or self.name)
        params = obj.get_params(deep=False)
        nodes = self.write_params(params, writer, where)
        values = self.split(obj, params, where)
        for name, value in values.items():
            _refuse(self.fitted[name], value, inside(where, name))
        if values:
            self._check_all(obj, values, where)
        return {**nodes, "state": {name: writer.value(value, inside(where, name)) for name, value in values.items()}}

    def split(self, obj: Any, params: dict[str, Any], where: str) -> dict[str, Any]:
        """Fitted attributes; TypeError for others that are neither parameters nor made when the model is read."""
        values = {}
        for name, value in vars(obj).items():
            if name in self.fitted:
                values[name] = value
            elif name not in params and name not in self.rebuilt and not (self.foreign and name.startswith("_")):
                raise TypeError(f"{inside(where, name)}: {self.name} has no such attribute, it cannot be saved")
        return values

    def join(self, obj: Any, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if not isinstance(getattr(self.cls, name, None), property):  # computed in other versions of the class
                setattr(obj, name, value)

    def write_params(self, params: dict[str, Any], writer: Writer, where: str) -> dict[str, Node]:
        defaults = _signature(self.cls)
        nodes: dict[str, dict[str, Node]] = {"params": {}, "defaults": {}}
        for name, value in params.items():
            path = inside(where, name)
            default = defaults[name]
            plain = type(value) is type(default) and isinstance(value, bool | int | float | str | tuple)
            group = "defaults" if value is default or (plain and value == default) else "params"
            nodes[group][name] = writer.value(value, path)
            if name in self.allowed:
                _refuse(self.allowed[name], value, path)
        return nodes

    def read(self, node: dict[str, Node], reader: Reader, where: str) -> Any:
        obj = self.cls(**self.read_params(node, reader, where))
        values = {}
        for name, value in _part(node, "state", where).items():
            path = inside(where, name)
            if name not in self.fitted:
                raise ValueError(f"{path[:200]}: {self.name} has no such attribute")
            values[name] = reader.value(value, path)
            self.fitted[name].check(values[name], path)
        if values:
            self.join(obj, values)
            self._check_all(obj, values, where)
            self.rebuild(obj, reader)
        return obj

    def _check_all(self, obj: Any, values: dict[str, Any], where: str) -> None:
        found = values | {name: getattr(obj, name) for name in self.fitted if hasattr(obj, name)}
        check_sizes(found, self.fitted, where, self.sizes(obj))
        self.check(obj, where)

    def read_params(self, node: dict[str, Node], reader: Reader, where: str) -> dict[str, Any]:
        """Parameters for the constructor; one that is gone from the class may be missing if it had its default."""
        known = _signature(self.cls)
        given, defaults = _part(node, "params", where), _part(node, "defaults", where)
        for name in given:
            if name not in known or name in defaults:
                raise ValueError(f"{where}: {self.name} has no parameter {name[:80]!r} in the installed version")
        both = {**given, **{name: value for name, value in defaults.items() if name in known}}
        params = {name: reader.value(value, inside(where, name)) for name, value in both.items()}
        for name, kind in self.allowed.items():
            if name in params:
                kind.check(params[name], inside(where, name))
        return params


def _refuse_settings(obj: Any, where: str) -> None:
    """Raise TypeError for what `set_output` and `set_fit_request` have set, which scikit-learn keeps privately."""
    for name, setting in _SETTINGS.items():
        if name in vars(obj):
            raise TypeError(f"{where}: {setting} cannot be saved")


def _refuse(kind: Kind, value: Any, where: str) -> None:
    """Validate on save with the loader's rules."""
    try:
        kind.check(value, where)
    except ValueError as error:
        raise TypeError(f"{error}; it cannot be saved") from error


TEXT_PARAMETERS = {
    "input": choice("content"),  # the others make a file or a file name of every text
    "analyzer": choice("word", "char", "char_wb"),
    "tokenizer": NOTHING,
    "preprocessor": NOTHING,
}

_TERMS = {"terms": list_of(TEXT).shaped("terms"), "fixed": FLAG, "idf": any_of(NOTHING, REALS).shaped("terms")}


@dataclass(frozen=True)
class VectorizerCodec(EstimatorCodec):
    """CountVectorizer and TfidfVectorizer: terms in the order of their columns, and ``idf_``.

    Reading uses public names alone: it fits with these terms as the vocabulary, and then resets that parameter.
    """

    allowed: Mapping[str, Kind] = field(default_factory=lambda: TEXT_PARAMETERS)
    fitted: Mapping[str, Kind] = field(default_factory=lambda: _TERMS)
    foreign: bool = True

    def split(self, obj: Any, params: dict[str, Any], where: str) -> dict[str, Any]:
        """Terms, whether they were given as a parameter, and their weights."""
        vocabulary = getattr(obj, "vocabulary_", None)
        if vocabulary is None:
            return {}
        terms = sorted(vocabulary, key=vocabulary.__getitem__)
        if [vocabulary[term] for term in terms] != list(range(len(terms))):
            raise TypeError(f"{inside(where, 'vocabulary_')}: columns are missing")
        return {"terms": terms, "fixed": bool(obj.fixed_vocabulary_), "idf": getattr(obj, "idf_", None)}

    def join(self, obj: Any, values: dict[str, Any]) -> None:
        """Fit with these terms as the vocabulary."""
        given = obj.vocabulary
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # that the text is empty
            obj.set_params(vocabulary=values["terms"]).fit([""])
        obj.set_params(vocabulary=given)
        if values["idf"] is not None:
            obj.idf_ = values["idf"]
        obj.fixed_vocabulary_ = values["fixed"]


class PipelineCodec:
    """scikit-learn's Pipeline; its cache is not saved, as it reads pickles."""

    name = "Pipeline"
    cls = Pipeline

    def write(self, obj: Pipeline, writer: Writer, where: str) -> dict[str, Node]:
        if obj.memory is not None:
            raise TypeError(f"{inside(where, 'memory')}: a cache cannot be saved: set_params(memory=None) first")
        _refuse_settings(obj, where or self.name)
        steps = [writer.value(step, inside(where, f"steps[{k}]")) for k, (_, step) in enumerate(obj.steps)]
        names = writer.value([name for name, _ in obj.steps], inside(where, "steps"))
        rest = ("transform_input", "verbose")
        more = {name: writer.value(getattr(obj, name, None), inside(where, name)) for name in rest}
        return {"names": names, "steps": steps, **more}

    def read(self, node: dict[str, Node], reader: Reader, where: str) -> Pipeline:
        names = reader.value(node["names"], inside(where, "steps"))
        if type(names) is not list or not isinstance(node["steps"], list) or len(names) != len(node["steps"]):
            raise ValueError(f"{inside(where, 'steps')}: names and steps do not agree")
        steps = [reader.value(step, inside(where, f"steps[{k}]")) for k, step in enumerate(node["steps"])]
        TEXTS.check(tuple(names), inside(where, "steps"))
        for k, step in enumerate(steps):
            if step is not None and step != "passthrough" and not hasattr(step, "fit"):
                raise ValueError(f"{inside(where, f'steps[{k}]')}: is no estimator")
        rest = {name: reader.value(node[name], inside(where, name)) for name in ("transform_input", "verbose")}
        FLAG.check(rest["verbose"], inside(where, "verbose"))
        return Pipeline(list(zip(names, steps, strict=True)), **rest)


def _join_graph(fields: dict[str, Any], reader: Reader, where: str) -> LabelGraph:
    if len(set(fields["label_names"])) != len(fields["label_names"]):
        raise ValueError(f"{inside(where, 'label_names')}: a name comes twice")
    return LabelGraph(**fields)  # whose constructor checks the weights


GRAPH_CODEC = PackedCodec(
    LabelGraph,
    {"weights": instance(sp.csr_array), "label_names": TEXTS},
    lambda graph: {"weights": graph.weights, "label_names": graph.label_names},
    _join_graph,
)
