"""Descriptions of estimators that are equal in every process, and their hash."""

import hashlib
import inspect
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data import fingerprint

_HEX = 16  # digits kept of a hash: 64 bits, for some thousand cells


def hash_of(description: Any) -> str:
    """Hash of a description made of lists, texts and numbers."""
    return hashlib.sha256(json.dumps(description, sort_keys=True).encode()).hexdigest()[:_HEX]


def described(value: Any, where: str) -> Any:
    """Lists, texts and numbers that describe a value, equal in every process: estimators by class and parameters.

    Raises ValueError, which names the value by ``where``, if another value could have the same description.
    """
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, np.generic):
        return described(value.item(), where)
    if isinstance(value, float):  # 1.0 and 1 are the same parameter
        return int(value) if value.is_integer() else value
    if isinstance(value, list | tuple):
        return [described(item, f"{where}[{k}]") for k, item in enumerate(value)]
    if isinstance(value, dict):
        items = sorted(value.items(), key=lambda item: repr(item[0]))
        return [[repr(key), described(item, f"{where}[{key!r}]")] for key, item in items]
    if isinstance(value, np.ndarray) or sp.issparse(value):
        return ["array", fingerprint(np.atleast_2d(value) if isinstance(value, np.ndarray) else value, [[0]])]
    if isinstance(value, type) or inspect.isroutine(value):
        name = f"{value.__module__}.{value.__qualname__}"
        if "<" in name:  # <lambda>, <locals>
            raise ValueError(_cannot_tell(where, name))
        return name
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if hasattr(value, "get_params"):
        params = value.get_params(deep=False)
        return [kind, [[name, described(params[name], f"{where}.{name}")] for name in sorted(params)]]
    text = repr(value)
    if re.search(r" at 0x[0-9a-fA-F]+", text):
        raise ValueError(_cannot_tell(where, text))
    return [kind, text]


def json_value(value: Any) -> Any:
    """A parameter's value as JSON takes it: plain finite values as they are, others as their repr."""
    if isinstance(value, np.generic):
        value = value.item()
    plain = value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and np.isfinite(value))
    return value if plain else repr(value)


def json_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by name, as JSON takes them."""
    return {name: json_value(value) for name, value in values.items()}


def _cannot_tell(where: str, what: str) -> str:
    return (
        f"{where} is {what}, which cannot be told from another one in a file: give a named function of a module, or an "
        "object with a repr that says what it is"
    )
