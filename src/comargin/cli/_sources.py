"""The data of a command: a file, or the name of a known set."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ._messages import in_flags
from ._reading import READING_FLAGS

if TYPE_CHECKING:
    from ..data import Dataset

DataHome = Annotated[
    Path | None,
    typer.Option("--data-home", help="Folder of data sets (default: $COMARGIN_DATA, else ~/.cache/comargin)."),
]
Split = Annotated[str, typer.Option(help="all, train or test (known sets).")]
Source = Annotated[str, typer.Argument(metavar="DATA", help="A data file, or the name of a known set.")]


def obtain(source: str, split: str, data_home: Path | None, reading: dict[str, Any]) -> Dataset:
    """Read a file, or load a known set; a folder that is called like one does not hide it."""
    from ..data import list_datasets, load, read

    path = Path(source)
    if path.exists() and not path.is_dir():
        if split != "all":
            raise ValueError("--split is for known sets; a file is read whole")
        with in_flags(READING_FLAGS):
            return read(path, **reading)
    known = {name for info in list_datasets(data_home) for name in (info.name, info.name.lower())}
    if source not in known and source.lower() not in known:
        if path.is_dir():
            raise ValueError(f"{source} is a folder, neither a data file nor a known set")
        if path.suffix != "" or len(path.parts) > 1:
            raise FileNotFoundError(f"there is no file {source}")
    elif reading:
        options = ", ".join(READING_FLAGS[name] for name in reading)
        raise ValueError(f"{source} is not a file, and {options} only says how to read a file")
    with in_flags(READING_FLAGS):
        return load(source, split=split, data_home=data_home)


def published_split(source: str, data_home: Path | None) -> bool:
    """Whether this is the name of a known set that comes with rows to train on and rows to test."""
    from ..data import list_datasets

    path = Path(source)
    if path.exists() and not path.is_dir():
        return False
    return any(  # OpenML has the sets, and not their splits
        info.name.lower() == source.lower() and info.n_train is not None and info.where != "OpenML"
        for info in list_datasets(data_home)
    )
