"""Model files: `save`, `load` and `inspect`, safe for files from anywhere; `register` for estimators of your own.

A ``.cmg`` file is a zip file of plain arrays and one JSON document; see ``docs/model_files.md``.
"""

from ._archive import ModelFileError
from ._files import DEFAULT_MAX_SIZE, check_saveable, check_state, inspect, load, load_meta, save
from ._registry import register

__all__ = [
    "DEFAULT_MAX_SIZE",
    "ModelFileError",
    "check_saveable",
    "check_state",
    "inspect",
    "load",
    "load_meta",
    "register",
    "save",
]
