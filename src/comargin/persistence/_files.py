"""Models to files and back."""

import json
import math
import os
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from types import NoneType
from typing import Any

from .. import __version__
from ..core.result import FitState
from ._archive import MAX_DEPTH, Archive, ModelFileError, one_error, write_archive

# This format and all earlier ones stay readable.
FORMAT = 1
DEFAULT_MAX_SIZE = 1 << 32


def save(obj: Any, path: str | os.PathLike[str], *, meta: dict[str, Any] | None = None) -> Path:
    """Write a fitted model to a file that holds numbers and names, and no code.

    Parameters
    ----------
    obj : estimator or LabelGraph
        A learner of comargin, a threshold rule or classifier, a zero-shot classifier; of scikit-learn text vectorizers,
        TfidfTransformer, scalers, Normalizer, LogisticRegression, LinearSVC, SVC, trees and forests,
        KNeighborsClassifier, and Pipeline, OneVsRestClassifier, ClassifierChain and MultiOutputClassifier of them; and
        what `register` has declared.
    path : str or path-like
        The file, ``.cmg`` by custom. It appears whole or not at all: an old one stays until the new one is on disk.
    meta : dict or None, default=None
        More about the model (label names, how it was trained): strings, finite numbers, booleans, None, and lists and
        dicts of them. `load_meta` and `inspect` return it.

    Returns
    -------
    path : pathlib.Path
        The file written.

    Raises
    ------
    TypeError
        For a part that cannot be saved, such as a function as kernel, tokenizer or callback; it names the part.

    Notes
    -----
    A loaded model predicts the same bits, has the same parameters, and can be fitted again. With ``warm_start=True``
    the next ``fit`` goes on from the solution, also after loading; the file then holds the state of the solver too.

    Examples
    --------
    >>> import tempfile
    >>> import comargin
    >>> from comargin.persistence import load, load_meta, save
    >>> model = comargin.M3LClassifier(random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(model, f"{folder}/tagger.cmg", meta={"labels": ["sea", "sky"]})
    ...     load(path).predict([[0.9, 0.1]]), load_meta(path)
    (array([[1, 0]]), {'labels': ['sea', 'sky']})
    """
    if meta is not None:
        if type(meta) is not dict:
            raise TypeError(f"meta must be a dict or None, got {meta!r}")
        _check_meta(meta, "meta", MAX_DEPTH)
    model, arrays = _described(obj)
    versions = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    document = {"format": FORMAT, "comargin": __version__, "versions": versions, "meta": meta, "model": model}
    target = Path(path)
    write_archive(target, document, arrays)
    return target


def check_saveable(obj: Any) -> None:
    """Raise unless `save` can write this model; one that is not fitted yet is checked as it is.

    Parameters
    ----------
    obj : estimator
        Fitted or not.

    Raises
    ------
    TypeError
        It names the part that cannot be saved.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from comargin.persistence import check_saveable
    >>> check_saveable(GaussianNB())
    Traceback (most recent call last):
    ...
    TypeError: a GaussianNB cannot be saved; what can is listed in comargin.persistence.save
    """
    _described(obj)


def check_state(learner: Any, state: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless a state that was loaded belongs to a fit of this learner on such rows.

    Parameters
    ----------
    learner : MultilabelClassifier
        The learner that is to go on from the state.
    state : object
        As `load` returned it.
    shape : (int, int)
        Rows and labels of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> from comargin import M3LClassifier
    >>> from comargin.core import FitState
    >>> from comargin.persistence import check_state
    >>> check_state(M3LClassifier(), FitState(np.zeros((3, 2))), (3, 2))
    """
    from ._registry import codec_of
    from ._starts import check_start

    if not isinstance(state, FitState):
        raise ValueError(f"a state of a fit expected, got a {type(state).__name__}")
    codec: Any = codec_of(type(learner))
    if codec is not None:
        codec.fitted["_dual_start"].check(state.solution, "solution")
    if tuple(state.solution.shape) != tuple(shape):
        raise ValueError(f"the state is of {state.solution.shape} rows and labels, the fit of {shape}")
    check_start(state.solution, "solution", {"labels": shape[1]})


def _described(obj: Any) -> tuple[Any, list[Any]]:
    """JSON of a model, and its arrays."""
    from ._registry import codec_of
    from ._values import Writer

    if codec_of(type(obj)) is None:
        raise TypeError(f"a {type(obj).__name__} cannot be saved; what can is listed in comargin.persistence.save")
    writer = Writer(codec_of)
    return writer.value(obj, ""), writer.arrays


def load(
    path: str | os.PathLike[str],
    *,
    max_size: int = DEFAULT_MAX_SIZE,
    verify: bool = True,
    expect_hash: str | None = None,
) -> Any:
    """Read a model that `save` has written; safe for files from anywhere.

    Parameters
    ----------
    path : str or path-like
        The file.
    max_size : int, default=2**32
        Most bytes of memory for the arrays of the model; a file that declares more is refused before any is taken.
    verify : bool, default=True
        Compare what is read with the SHA-256 that the file has; files of early versions have none.
    expect_hash : str or None, default=None
        The ``sha256`` that `inspect` showed when the file was known to be good; another file is refused.

    Returns
    -------
    obj : estimator or LabelGraph
        As it was saved. A file of ``comargin train`` holds names, too, which the model does not know:
        ``comargin.Tagger.load`` gives both, and ``Tagger.tags`` predicts names.

    Raises
    ------
    ModelFileError
        When the file is broken, incomplete, too large, of a later format, or describes something that is no model. Its
        message has the path and the reason.

    Examples
    --------
    >>> import tempfile
    >>> from comargin.graphs import LabelGraph
    >>> from comargin.persistence import load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(LabelGraph.from_edges([(0, 1)], n_labels=3), f"{folder}/graph.cmg"))
    LabelGraph(3 labels, 1 edge; strongest: label_0 - label_1 1)
    """
    from ._registry import codec_named
    from ._values import Reader

    if isinstance(max_size, bool) or not isinstance(max_size, int) or max_size < 1:
        raise ValueError(f"max_size must be a positive whole number of bytes, got {max_size!r}")
    source = Path(path)
    with Archive(source, max_size, verify=verify or expect_hash is not None) as archive, one_error(source):
        document = _document(archive)
        if expect_hash is not None:
            _check_hash(source, document.get("sha256"), expect_hash)
        reader = Reader(archive, max_size, codec_named)
        if not isinstance(document["model"], dict) or document["model"].get("type") != "object":
            raise ModelFileError(source, "holds no model")
        obj = reader.value(document["model"], "model")
        if reader.n_read != archive.n_arrays:
            raise ModelFileError(source, "has arrays that belong to nothing")
    return obj


def load_meta(path: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return the ``meta`` that was given to `save`; the model itself is not read.

    Parameters
    ----------
    path : str or path-like
        The file.

    Returns
    -------
    meta : dict or None
        As it was saved.

    Examples
    --------
    >>> import tempfile
    >>> from comargin.graphs import LabelGraph
    >>> from comargin.persistence import load_meta, save
    >>> graph = LabelGraph.from_edges([(0, 1)], n_labels=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load_meta(save(graph, f"{folder}/graph.cmg", meta={"rows": 120}))
    {'rows': 120}
    """
    meta: dict[str, Any] | None = inspect(path)["meta"]
    return meta


def inspect(path: str | os.PathLike[str], *, verify: bool = False, expect_hash: str | None = None) -> dict[str, Any]:
    """Describe a model file, as a rule without reading its arrays.

    Parameters
    ----------
    path : str or path-like
        The file.
    verify : bool, default=False
        Read the arrays too, one after the other, and compare their hashes.
    expect_hash : str or None, default=None
        As in `load`.

    Returns
    -------
    facts : dict
        ``format``; ``comargin`` and ``versions``, of the packages it was written with; ``model``, a tree of
        ``{"class": name, "parts": {path: tree}}``; ``meta``; ``file_size``, ``unpacked_size`` (bytes) and ``n_arrays``;
        ``sha256`` of its contents, None for files of early versions.

    Examples
    --------
    >>> import tempfile
    >>> from comargin import M3LClassifier
    >>> from comargin.persistence import inspect, save
    >>> from comargin.decisions import ThresholdClassifierCV
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     facts = inspect(save(ThresholdClassifierCV(M3LClassifier()), f"{folder}/tagger.cmg"))
    >>> facts["format"], facts["model"]
    (1, {'class': 'ThresholdClassifierCV', 'parts': {'estimator': {'class': 'M3LClassifier', 'parts': {}}}})
    """
    source = Path(path)
    with Archive(source, max_size=1 << 62) as archive, one_error(source):
        document = _document(archive)
        if expect_hash is not None:
            _check_hash(source, document.get("sha256"), expect_hash)
        for k in range(archive.n_arrays if verify else 0):
            archive.array(k)
        return {
            **{name: document[name] for name in ("format", "comargin", "versions")},
            "model": next(iter(_tree(document["model"], "").values()), None),
            "meta": document["meta"],
            "file_size": archive.file_size,
            "unpacked_size": archive.unpacked_size,
            "n_arrays": archive.n_arrays,
            "sha256": document.get("sha256"),
        }


def _check_hash(source: Path, own: Any, expected: str) -> None:
    if own != expected.strip().lower():
        has = "has no SHA-256" if own is None else f"has the SHA-256 {str(own)[:64]}"
        raise ModelFileError(source, f"{has}, not the expected {expected[:80]}")


def _document(archive: Archive) -> dict[str, Any]:
    """The JSON of a file, of a format that is known."""
    document = archive.document()
    number = document.get("format") if isinstance(document, dict) else None
    if type(number) is not int or number < 1:
        raise ModelFileError(archive.path, "has no format number")
    if number > FORMAT:
        raise ModelFileError(
            archive.path,
            f"is of format {number}, written by comargin {str(document.get('comargin'))[:40]}; this is {__version__}, "
            f"which reads formats up to {FORMAT}: update comargin",
        )
    if not isinstance(document.get("meta"), dict | None):
        raise ModelFileError(archive.path, "meta is no object")
    lacking = {"comargin", "versions", "meta", "model"} - document.keys()
    if lacking:
        raise ModelFileError(archive.path, f"lacks {sorted(lacking)[0]}")
    return document


def _tree(node: Any, where: str) -> dict[str, Any]:
    """Estimators below a node, by their paths from the estimator above."""
    if isinstance(node, list):
        return _trees((f"{where}[{k}]", item) for k, item in enumerate(node))
    if not isinstance(node, dict):
        return {}
    if node.get("type") != "object" or not ("params" in node or "steps" in node):
        return _tree(node.get("items"), where)
    groups = [node[name] for name in ("params", "defaults", "state") if isinstance(node.get(name), dict)]
    parts = [("steps", node.get("steps")), *(item for group in groups for item in group.items())]
    return {where: {"class": str(node.get("class")), "parts": _trees(parts)}}


def _trees(parts: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {path: tree for where, node in parts for path, tree in _tree(node, where).items()}


def _check_meta(value: Any, where: str, depth: int) -> None:
    """Raise unless a value comes back from JSON as it was."""
    if depth == 0:
        raise ValueError("meta is nested too deeply")
    kind = type(value)
    if kind is list:
        for k, item in enumerate(value):
            _check_meta(item, f"{where}[{k}]", depth - 1)
    elif kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                raise TypeError(f"{where}: keys must be strings, got {key!r}")
            _check_meta(item, f"{where}[{json.dumps(key)}]", depth - 1)
    elif not (
        kind in (NoneType, bool, str)
        or (kind is float and math.isfinite(value))
        or (kind is int and -(1 << 63) <= value < 1 << 63)
    ):
        raise TypeError(
            f"{where}: strings, finite numbers of at most 64 bits, booleans, None, lists and dicts can be saved; "
            f"got {value!r:.80}"
        )
