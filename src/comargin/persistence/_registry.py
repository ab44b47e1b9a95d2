"""The closed table of classes that model files may hold: nothing else is written, nothing else is made of a file."""

from __future__ import annotations

from ._learners import CODECS as OURS
from ._sklearn import CODECS as SCIKIT_LEARN
from ._values import Codec

_BY_CLASS: dict[type, Codec] = {codec.cls: codec for codec in (*OURS, *SCIKIT_LEARN)}
_BY_NAME: dict[str, Codec] = {codec.name: codec for codec in (*OURS, *SCIKIT_LEARN)}


def codec_of(cls: type) -> Codec | None:
    """Return the codec of exactly this class, not of a parent: a subclass may compute something else."""
    return _BY_CLASS.get(cls)


def codec_named(name: str) -> Codec | None:
    """Return the codec of a name in a file."""
    return _BY_NAME.get(name)
