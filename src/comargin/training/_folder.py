"""A folder that keeps what a long training has found, so that it can be killed and go on."""

import contextlib
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from copy import copy
from pathlib import Path
from typing import Any

from ..core.files import AtomicFiles
from ..core.memory import Kept, Memory
from ..core.result import FitState
from ..persistence import check_state, load, save

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

_FORMAT = 4
_FACTS = "checkpoint.json"
_KEY = re.compile(r"(search|best|cuts|rule|fit)(-\w+)*\.cmg")
_STATE = "state"
_PART = re.compile(r"\.[0-9a-f]{16}\.part")  # left by a process that was killed while it wrote
# States are as large as the training data, and the file is our own.
_MAX_SIZE = 1 << 40
EVERY = 60.0  # seconds between two states of a fit
_WORTHWHILE = 4.0  # at least so many times the seconds of a save pass before the next: saving takes a fifth of the time


class FolderMemory(Memory):
    """Keeps every result in a file of its own, and states of running fits every minute.

    A file appears whole or not at all: whenever the process is killed, the folder can be opened again. ``identity`` is
    the hash of all that the training follows from (data, model, parameters, settings); the folder of another training
    is refused. Other files in the folder stay as they are.
    """

    def __init__(self, folder: str | os.PathLike[str], identity: str) -> None:
        self.path, self._within = Path(folder), ""
        self._clocks: dict[str, tuple[float, float]] = {}  # time of the last state, and the seconds it took to save
        if self.path.exists() and not self.path.is_dir():
            raise NotADirectoryError(f"{self.path} is a file, not a folder for checkpoints")
        self.path.mkdir(parents=True, exist_ok=True)
        with self.in_use():  # another training would remove the facts before they have their name
            self._take_or_check(identity)

    def _take_or_check(self, identity: str) -> None:
        """Write whose folder this is, or refuse that of another training."""
        facts = self.path / _FACTS
        if not facts.exists():
            if foreign := _matching(self.path, _KEY):
                raise ValueError(f"{self.path} has a {foreign[0].name} but no {_FACTS}; name another folder")
            with _writing(facts), AtomicFiles() as files:
                stream = files.open(facts)
                json.dump({"format": _FORMAT, "identity": identity}, stream)
                stream.flush()
                os.fsync(stream.fileno())
            return
        try:
            known = json.loads(facts.read_text(encoding="utf-8"))
            same = (known["format"], known["identity"]) == (_FORMAT, identity)
        except (ValueError, LookupError, TypeError, RecursionError, OSError) as error:
            raise ValueError(f"{facts} is no checkpoint of a training; name another folder") from error
        if not same:
            raise ValueError(
                f"{self.path} is of another training run (other data, settings or version); name another folder or "
                "delete it"
            )

    def __getstate__(self) -> dict[str, Any]:
        return {"path": self.path, "_within": self._within, "_clocks": {}}  # the clocks of another process mean nothing

    @contextlib.contextmanager
    def in_use(self) -> Iterator[None]:
        """Lock the folder against other trainings until the block or the process ends; Windows has no such locks."""
        if fcntl is None:
            yield
            return
        handle = os.open(self.path, os.O_RDONLY)
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ValueError(f"{self.path} is in use by another training; wait for it, or name another") from None
            for part in _matching(self.path, _PART):
                part.unlink(missing_ok=True)
            yield
        finally:
            os.close(handle)

    def recall(self, key: str) -> Any:
        kept = self._read(key)
        if not isinstance(kept, Kept | None):
            raise self._refusal(key, "no result")
        return None if kept is None else kept.value

    def keep(self, key: str, value: Any) -> None:
        self._write(key, Kept(value))
        self.forget(f"{key}/{_STATE}")

    def forget(self, key: str) -> None:
        name = self._file(key).stem
        for file in _matching(self.path, _KEY):
            if file.stem == name or file.stem.startswith(f"{name}-"):
                file.unlink(missing_ok=True)

    def part(self, key: str) -> "FolderMemory":
        part = copy(self)
        part._within, part._clocks = f"{self._within}{key}/", {}
        return part

    def recall_state(self, key: str, learner: Any, shape: tuple[int, ...]) -> FitState | None:
        state = self._read(f"{key}/{_STATE}")
        if state is not None:
            try:
                check_state(learner, state, shape)
            except ValueError as error:
                raise self._refusal(f"{key}/{_STATE}", "no state of this fit") from error
        return state

    def keep_state(self, key: str, state: Callable[[], FitState], *, now: bool = False) -> None:
        """Keep a state, once a minute, and less often if saving is slow."""
        began = time.perf_counter()
        last, cost = self._clocks.setdefault(key, (began, 0.0))
        if now or began - last >= max(EVERY, _WORTHWHILE * cost):
            self._write(f"{key}/{_STATE}", state())
            self._clocks[key] = time.perf_counter(), time.perf_counter() - began

    def _refusal(self, key: str, what: str) -> ValueError:
        return ValueError(f"{self._file(key)} holds {what}; delete the folder, or name another one")

    def _file(self, key: str) -> Path:
        return self.path / f"{(self._within + key).replace('/', '-')}.cmg"

    def _read(self, key: str) -> Any:
        path = self._file(key)
        return load(path, max_size=_MAX_SIZE) if path.exists() else None

    def _write(self, key: str, value: Any) -> None:
        with _writing(self._file(key)):
            save(value, self._file(key))


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Name the file that cannot be written, and what to do."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(f"{path} cannot be written: {reason}; make room and run the same training again") from error


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
    ...     tagger = train(make_correlated(60, n_labels=3, seed=0), "m3l", tune=False, checkpoint=Path(name, "state"))
    ...     clear_checkpoint(Path(name, "state"))
    ...     Path(name, "state").exists()
    False
    """
    path = Path(folder)
    # The facts last: `FolderMemory` refuses results without them.
    for file in (*_matching(path, _KEY), *_matching(path, _PART), path / _FACTS):
        file.unlink(missing_ok=True)
    if not any(path.iterdir()):
        path.rmdir()


def _matching(path: Path, name: re.Pattern[str]) -> list[Path]:
    return sorted(file for file in path.iterdir() if name.fullmatch(file.name))
