"""Checks of the files that commands write, made before any work."""

from __future__ import annotations

import tempfile
from pathlib import Path


def check_target(flag: str, target: Path, example: str) -> None:
    """Refuse a file that could not be written at the end."""
    if target.is_dir():
        raise ValueError(f"{flag} {target} is a folder; name the file to write, such as {target / example}")
    if target.exists() and not target.is_file():
        raise ValueError(f"{flag} {target} is a device or a pipe; name a file")
    folder = next(parent for parent in target.absolute().parents if parent.exists())
    try:
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(f"{flag} {target}: nothing can be written into {folder} ({error.strerror})") from error
