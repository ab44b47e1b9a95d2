"""Model files: `save`, `load` and `inspect`, safe for files from anywhere.

A ``.cmg`` file is a zip file of plain arrays and one JSON document; see ``docs/model_files.md``.
"""

from __future__ import annotations

from ._archive import ModelFileError
from ._files import check_saveable, inspect, load, load_meta, save

__all__ = ["ModelFileError", "check_saveable", "inspect", "load", "load_meta", "save"]
