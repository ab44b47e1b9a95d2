"""The table of classes that model files may hold, and `register`, which adds a class to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._values import Codec

_REGISTERED: dict[str, Codec] = {}


def register(
    cls: type, *, fitted: Mapping[str, Any], parameters: Mapping[str, Any] | None = None, name: str | None = None
) -> None:
    """Declare how estimators of a class of yours are saved: which attributes a fit sets, and what each may hold.

    Call it where the class is defined. `save` and `load` then know the class in every process that has imported it; in
    any other, a file that holds one is refused.

    Parameters
    ----------
    cls : type
        The class of the estimator: its constructor takes its parameters by name, and ``get_params`` returns them.
    fitted : mapping of str to kind
        Every attribute that ``fit`` sets, private ones too; `save` refuses an estimator that has others. What
        `comargin.core.MultilabelClassifier` sets itself need not be named.

        A kind is one of the names ``"anything"``, ``"none"``, ``"flag"``, ``"count"``, ``"number"``, ``"text"``,
        ``"texts"`` (a tuple of strings), ``"names"`` (an array of strings), ``"classes"``, ``"integers"`` and
        ``"integer matrix"`` (arrays with one and two dimensions, none negative), ``"vector"`` and ``"matrix"`` (finite
        float64 arrays), ``"loose vector"`` and ``"loose matrix"`` (with NaN and infinities), ``"rows"`` (a matrix or a
        ``csr_array``) and ``"classifier"``; a class, of which exactly the instances belong; a tuple of kinds, any of
        which will do; or ``[kind]`` for lists.
    parameters : mapping of str to kind or None, default=None
        Parameters of the constructor that are restricted. The others may hold anything that can be saved.
    name : str or None, default=None
        Name of the class in files; by default its module and its name. Give one, with a dot, to move the class later.

    Raises
    ------
    ValueError
        For something that is no kind, and for a class or a name that is in the table already.

    Notes
    -----
    `load` calls the constructor with the parameters of the file and sets the attributes, each checked for its kind.
    Nothing else of the class runs, and nothing is imported. Whether shapes agree with each other is up to ``predict``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from sklearn.base import BaseEstimator, ClassifierMixin
    >>> from comargin.persistence import load, register, save
    >>> class MostFrequent(ClassifierMixin, BaseEstimator):
    ...     def __init__(self, least=0.5):
    ...         self.least = least
    ...     def fit(self, X, Y):
    ...         self.share_ = np.mean(Y, axis=0)
    ...         return self
    ...     def predict(self, X):
    ...         return np.tile(self.share_ >= self.least, (len(X), 1)).astype(int)
    >>> register(MostFrequent, fitted={"share_": "vector"}, parameters={"least": "number"}, name="mine.MostFrequent")
    >>> model = MostFrequent().fit([[0], [1]], [[1, 0], [1, 0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(save(model, f"{folder}/frequent.cmg")).predict([[2]])
    array([[1, 0]])
    """
    from ..core.estimator import MultilabelClassifier
    from ._codecs import EstimatorCodec
    from ._kinds import kind_of
    from ._learners import LEARNER_STATE

    if not isinstance(cls, type) or not hasattr(cls, "get_params"):
        raise ValueError(f"cls must be a class of estimators, got {cls!r}")
    name = f"{cls.__module__}.{cls.__qualname__}" if name is None else name
    if "." not in name:
        raise ValueError(f"name must have a dot, such as 'package.Name', got {name!r}")
    known = next((codec for codec in _codecs() if codec.cls is cls), None)
    same_place = name in _REGISTERED and _REGISTERED[name].cls.__qualname__ == cls.__qualname__  # imported again
    if (known is not None and known.name != name) or (name in _REGISTERED and not same_place):
        raise ValueError(f"{cls.__name__} or the name {name!r} is registered already")
    kinds = {key: kind_of(declared) for key, declared in fitted.items()}
    if issubclass(cls, MultilabelClassifier):
        kinds = {**LEARNER_STATE, **kinds}
    allowed = {key: kind_of(declared) for key, declared in (parameters or {}).items()}
    _REGISTERED[name] = EstimatorCodec(cls, kinds, allowed=allowed, alias=name)


@cache
def _table() -> dict[str, Codec]:
    """Codecs of comargin's and scikit-learn's classes, by their names in files."""
    from ._decisions import CODECS as DECISIONS
    from ._learners import CODECS as LEARNERS
    from ._sklearn import CODECS as SCIKIT_LEARN

    return {codec.name: codec for codec in (*LEARNERS, *DECISIONS, *SCIKIT_LEARN)}


def _codecs() -> Iterator[Codec]:
    yield from _REGISTERED.values()
    yield from _table().values()


def codec_of(cls: type) -> Codec | None:
    """Return the codec of exactly this class, not of a parent: a subclass may compute something else."""
    found = next((codec for codec in _codecs() if codec.cls is cls), None)
    return codec_of(cls) if found is None and _register_models() else found


def codec_named(name: str) -> Codec | None:
    """Return the codec of a name in a file."""
    found = _REGISTERED.get(name) or _table().get(name)
    return codec_named(name) if found is None and _register_models() else found


def _register_models() -> bool:
    """Register the classes that declarations of models say how to save; returns whether there were new ones."""
    from ..models import known_models

    known = {codec.cls for codec in _codecs()}
    new = {type(model.estimator): model.saved for model in known_models().values() if model.saved is not None}
    new = {cls: saved for cls, saved in new.items() if cls not in known}
    for cls, saved in new.items():
        register(cls, fitted=saved)
    return bool(new)
