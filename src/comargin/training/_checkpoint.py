"""A folder that keeps what a long training has found, so that it can be killed and go on."""

from __future__ import annotations

import contextlib
import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from ..data._source import AtomicFiles
from ..estimators._search_memory import Cell
from ..persistence import load, load_meta, save

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FORMAT = 2
_FACTS, _RULE, _LEARNER = "checkpoint.json", "rule.cmg", "learner.cmg"
# Fits of the search in a fold, for one value or along all; fits that cuts are learned from; the scores of their rows.
_FOLD_FILE = re.compile(r"search-\w+(-\d+){1,2}\.cmg|cuts-\d+\.(cmg|npy)")
_PART = re.compile(r"\.[0-9a-f]{16}\.part")  # left by a process that was killed while it wrote
_TUPLE = "__tuple__"
_ENDED = "ended"
# States are as large as the training data, and the file is our own.
_MAX_SIZE = 1 << 40


class KeptFit:
    """The file of one fit: its learner with the state that it goes on from.

    Parameters
    ----------
    path : Path
        Of the file, which need not exist.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def learner(self) -> Any:
        """The learner, or None; assigning one writes it, None removes it."""
        return load(self.path, max_size=_MAX_SIZE) if self.path.exists() else None

    @learner.setter
    def learner(self, learner: Any) -> None:
        if learner is None:
            self.path.unlink(missing_ok=True)
            return
        self._save(learner, None)

    @property
    def has_ended(self) -> bool:
        """Whether the learner was kept at the end of its fit."""
        return self.path.exists() and (load_meta(self.path) or {}).get(_ENDED) is True

    def keep_ended(self, learner: Any) -> None:
        """Keep a learner whose fit has come to its end.

        Parameters
        ----------
        learner : MultilabelClassifier
            Fitted.
        """
        self._save(learner, {_ENDED: True})

    def _save(self, learner: Any, meta: dict[str, Any] | None) -> None:
        with _writing(self.path):
            save(learner, self.path, meta=meta)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say which file it was, and what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"{path} cannot be written: {reason}; make room and run the same training again") from error


class CheckpointFolder:
    """A folder that keeps what a training has found, so that the same training can go on from there.

    Every file appears whole or not at all: whenever the process is killed, the folder can be opened again. Threads may
    share one object.

    Parameters
    ----------
    folder : str or path-like
        Created if it does not exist. Other files in it are left alone.
    identity : str
        Hash of all that the training follows from: data, model, parameters, settings. A folder of another one is
        refused.

    Examples
    --------
    >>> import tempfile
    >>> from comargin.training._checkpoint import CheckpointFolder
    >>> with tempfile.TemporaryDirectory() as name:
    ...     CheckpointFolder(name, "a1b2").add_found("C", 0.5)
    ...     CheckpointFolder(name, "a1b2").found
    {'C': 0.5}
    """

    def __init__(self, folder: str | os.PathLike[str], identity: str) -> None:
        self.path = Path(folder)
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file, not a folder for checkpoints")
        self.path.mkdir(parents=True, exist_ok=True)
        self._identity = identity
        self._found: dict[str, Any] = {}
        self._measured: dict[Cell, tuple[float, bool]] = {}
        self._lock = threading.Lock()
        facts = self.path / _FACTS
        if not facts.exists():
            strange = _state_files(self.path)
            if strange:
                raise ValueError(f"{self.path} has a {strange[0].name} but no {_FACTS}; name another folder")
            self._write(self._found, self._measured)
            return
        try:
            known = json.loads(facts.read_text(encoding="utf-8"))
            same = (known["format"], known["identity"]) == (_FORMAT, identity)
            if same:
                self._found = {name: _restored(value) for name, value in known["found"].items()}
                self._measured = {
                    Cell(str(name), int(fold), int(position)): (float(value), bool(converged))
                    for name, fold, position, value, converged in known["measured"]
                }
        except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError, OSError) as error:
            raise ValueError(f"{facts} is no checkpoint of a training; name another folder") from error
        if not same:
            raise ValueError(
                f"{self.path} is of another training run (other data, settings or version); name another folder or "
                "delete it"
            )

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Keep other trainings out of the folder, until the block or the process ends.

        Windows has no such locks: there nobody is kept out.
        """
        if fcntl is None:
            yield
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{self.path} is in use by another training; wait for it, or name another") from None
            for part in _parts(self.path):
                part.unlink(missing_ok=True)
            yield
        finally:
            os.close(handle)

    @property
    def found(self) -> dict[str, Any]:
        """Best parameters and other results, by name."""
        return dict(self._found)

    def add_found(self, name: str, value: Any) -> None:
        """Keep one more result. What the search for it has kept is no longer needed, and removed.

        Parameters
        ----------
        name : str
            Of a parameter, for example.
        value : object
            A string, number, boolean or None, or a tuple, list or dict of these.
        """
        with self._lock:
            found = {**self._found, name: _restored(_plain(value, name))}
            measured = {cell: kept for cell, kept in self._measured.items() if cell.name != name}
            self._write(found, measured)
            self._found, self._measured = found, measured
        for file in _state_files(self.path):
            if re.fullmatch(rf"search-{re.escape(name)}(-\d+)+\.cmg", file.name):
                file.unlink(missing_ok=True)

    @property
    def measured(self) -> dict[Cell, tuple[float, bool]]:
        """What the search under way has measured, and whether the fits converged."""
        return dict(self._measured)

    def add_measured(self, cell: Cell, value: float, converged: bool) -> None:
        """Keep what one fit of a search came to.

        Parameters
        ----------
        cell : Cell
            Which one.
        value : float
            What was measured on rows left out.
        converged : bool
            Whether the fit met its tolerance.
        """
        with self._lock:
            measured = {**self._measured, cell: (value, converged)}
            self._write(self._found, measured)
            self._measured = measured

    @property
    def rule(self) -> Any:
        """The fitted threshold rule, or None; assigning one writes it, and removes the scores it was learned from."""
        return KeptFit(self.path / _RULE).learner

    @rule.setter
    def rule(self, rule: Any) -> None:
        KeptFit(self.path / _RULE).learner = rule
        for file in _state_files(self.path):
            if file.name.startswith("cuts-"):
                file.unlink(missing_ok=True)

    @property
    def last_fit(self) -> KeptFit:
        """The fit of all rows."""
        return KeptFit(self.path / _LEARNER)

    def fit_of_search(self, name: str, fold: int, position: int | None = None) -> KeptFit:
        """A fit of the search.

        Parameters
        ----------
        name : str
            The parameter that is searched.
        fold : int
            The fold.
        position : int or None
            Which of its values; None: one value after the other, each started from the one before.

        Returns
        -------
        KeptFit
            Its file.
        """
        place = f"{fold}" if position is None else f"{fold}-{position}"
        return KeptFit(self.path / f"search-{name}-{place}.cmg")

    def fit_of_cuts(self, fold: int) -> KeptFit:
        """A fit whose scores cuts are learned from.

        Parameters
        ----------
        fold : int
            Of the rows left out.

        Returns
        -------
        KeptFit
            Its file.
        """
        return KeptFit(self.path / f"cuts-{fold}.cmg")

    def scores(self, fold: int, shape: tuple[int, int]) -> np.ndarray | None:
        """Scores of the rows left out that were kept.

        Parameters
        ----------
        fold : int
            Of these rows.
        shape : (int, int)
            Their number, and that of the labels.

        Returns
        -------
        ndarray of shape (n_rows, n_labels) or None
            None: there are none yet.
        """
        path = self.path / f"cuts-{fold}.npy"
        if not path.exists():
            return None
        try:
            kept = np.load(path, mmap_mode="r", allow_pickle=False)  # nothing is read before its size is known
            fits = isinstance(kept, np.ndarray) and kept.dtype == np.float64 and kept.shape == shape
        except (ValueError, OSError, EOFError) as error:
            raise ValueError(f"{path} does not hold scores; delete the folder") from error
        if not fits:
            raise ValueError(
                f"{path} does not hold the scores of {shape[0]} rows and {shape[1]} labels; delete the folder"
            )
        return np.array(kept)

    def keep_scores(self, fold: int, scores: np.ndarray) -> None:
        """Keep scores of rows left out; the fit they come from is no longer needed, and removed.

        Parameters
        ----------
        fold : int
            Of these rows.
        scores : ndarray of shape (n_rows, n_labels)
            What to keep.
        """
        path = self.path / f"cuts-{fold}.npy"
        with _writing(path), AtomicFiles() as files, files.reserve(path).open("wb") as stream:
            np.save(stream, np.ascontiguousarray(scores, dtype=np.float64), allow_pickle=False)
            stream.flush()
            os.fsync(stream.fileno())
        self.fit_of_cuts(fold).learner = None

    def _write(self, found: dict[str, Any], measured: dict[Cell, tuple[float, bool]]) -> None:
        facts = {
            "format": _FORMAT,
            "identity": self._identity,
            "found": {name: _plain(value, name) for name, value in found.items()},
            "measured": [[*cell, *kept] for cell, kept in measured.items()],
        }
        with _writing(self.path / _FACTS), AtomicFiles() as files:
            stream = files.open(self.path / _FACTS)
            json.dump(facts, stream)
            stream.flush()
            os.fsync(stream.fileno())


def clear_checkpoint(folder: str | os.PathLike[str]) -> None:
    """Remove what a training has kept in a folder, once its tagger is saved.

    Parameters
    ----------
    folder : str or path-like
        As given to `train`. Other files in it stay, and so does it, unless it is empty.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from comargin.data import make_correlated
    >>> from comargin.training import clear_checkpoint, train
    >>> with tempfile.TemporaryDirectory() as name:
    ...     tagger = train(make_correlated(60, n_labels=3, seed=0), tune=False, checkpoint=Path(name, "state"))
    ...     clear_checkpoint(Path(name, "state"))
    ...     Path(name, "state").exists()
    False
    """
    path = Path(folder)
    # The facts last: without them the others belong to nobody.
    for file in (*_state_files(path), *_parts(path), path / _FACTS):
        file.unlink(missing_ok=True)
    if not any(path.iterdir()):
        path.rmdir()


def _state_files(path: Path) -> list[Path]:
    """Files of a training beside its facts."""
    names = sorted(file.name for file in path.iterdir())
    return [path / name for name in names if name in (_RULE, _LEARNER) or _FOLD_FILE.fullmatch(name)]


def _parts(path: Path) -> list[Path]:
    return [file for file in path.iterdir() if _PART.fullmatch(file.name)]


def _plain(value: Any, where: str) -> Any:
    """A value as JSON takes it; tuples stay apart from lists."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, tuple):
        return {_TUPLE: [_plain(item, where) for item in value]}
    if isinstance(value, list):
        return [_plain(item, where) for item in value]
    if isinstance(value, dict) and all(type(key) is str and key != _TUPLE for key in value):
        return {key: _plain(item, where) for key, item in value.items()}
    raise TypeError(
        f"{where}: a value of type {type(value).__name__} cannot be kept in a checkpoint; strings, numbers, booleans, "
        "None, and tuples, lists and dicts of these can"
    )


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if isinstance(value, dict):
        if value.keys() == {_TUPLE}:
            return tuple(_restored(item) for item in value[_TUPLE])
        return {key: _restored(item) for key, item in value.items()}
    return value
