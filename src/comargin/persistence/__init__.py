"""Model files: `save`, `load` and `inspect`, safe for files from anywhere; `register` for estimators of your own.

A ``.cmg`` file is a zip file of plain arrays and one JSON document; see ``docs/model_files.md``.

- _files.py: models to files and back. _archive.py: the zip file; sizes are checked before memory is taken.
- _registry.py: which classes a file may hold. _codecs.py: how one is written. _values.py: values to JSON and back.
- _kinds.py: what attributes hold. _learners.py, _decisions.py, _sklearn.py: codecs. _starts.py: kept states.
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
