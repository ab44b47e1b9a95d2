# mypy: ignore-errors
"""The one way a loop is compiled here: cached on disk, without the GIL, never ``parallel`` or ``fastmath=True``.

``inlined`` is for a function with many arguments that inner loops call: a call costs as much as its few operations.

Numba takes the first folder it can write to, and fails at import where there is none. `LoopCache` also reads what lies
in folders that cannot be written to, such as the loops that `comargin warmup` compiled when an image was built; loops
that it neither finds nor can store are compiled in every process, with one remark.
"""

import signal
import threading
import warnings
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path


@contextmanager
def _uninterrupted():
    """Let Ctrl-C wait for the end: a half-imported Numba could not be imported again by this process."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    waiting = []
    signal.signal(signal.SIGINT, lambda *signal_and_frame: waiting.append(signal_and_frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if waiting:
        handler(*waiting[0])


with _uninterrupted():
    from numba import njit, types
    from numba.core.caching import CompileResultCacheImpl, FunctionCache, NullCache
    from numba.extending import get_cython_function_address, overload

__all__ = ["LoopCache", "compiled", "get_cython_function_address", "inlined", "overload", "types"]

_FOLDERS = {"UserProvidedCacheLocator", "InTreeCacheLocator", "UserWideCacheLocator"}
_remarks = []  # at most one for a process


class LoopCache(NullCache):
    """Numba's cache of one function, looked up when the function is first compiled."""

    def __init__(self, function):
        self._function = function

    @cached_property
    def _caches(self):
        """Those that exist: first the one that can be written to, then one that can only be read."""
        found = []
        for kind in (FunctionCache, _ReadOnlyCache):
            try:
                found.append(kind(self._function))
            except RuntimeError:  # no folder
                found.append(NullCache())
        return found

    @property
    def cache_path(self):
        return self._caches[0].cache_path

    def load_overload(self, sig, target_context):
        for cache in self._caches:
            found = cache.load_overload(sig, target_context)
            if found is not None:
                return found
        return None

    def save_overload(self, sig, data):
        writable = self._caches[0]
        try:
            writable.save_overload(sig, data)
            stored = not isinstance(writable, NullCache)
        except OSError:  # the disk is full, or the folder was made read-only
            stored = False
        if not stored and not _remarks:
            _remarks.append(
                "compiled loops cannot be stored, so that every process compiles its own: run `comargin warmup` once "
                "where the package's folder is writable, or set NUMBA_CACHE_DIR to a folder that is"
            )
            warnings.warn(_remarks[0], stacklevel=2)


class _ReadOnly:
    """A folder of Numba's cache that only has to hold an index of the file's loops."""

    def ensure_cache_path(self):
        if not any(Path(self.get_cache_path()).glob(f"{Path(self._py_file).stem}.*.nbi")):
            raise FileNotFoundError(self.get_cache_path())


class _ReadOnlyFolders(CompileResultCacheImpl):
    _locator_classes = tuple(
        type(f"ReadOnly{locator.__name__}", (_ReadOnly, locator), {})
        for locator in CompileResultCacheImpl._locator_classes
        if locator.__name__.lstrip("_") in _FOLDERS
    )


class _ReadOnlyCache(FunctionCache):
    _impl_class = _ReadOnlyFolders


def compiled(function, **options):
    """Compile a loop."""
    loop = njit(nogil=True, **options)(function)
    if hasattr(loop, "_cache"):  # a plain function with NUMBA_DISABLE_JIT=1
        loop._cache = LoopCache(function)
    return loop


def inlined(function):
    """Compile a function that becomes a part of the loops that call it."""
    return compiled(function, forceinline=True)
