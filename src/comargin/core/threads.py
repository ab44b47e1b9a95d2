"""Worker threads over loops that release the GIL, with BLAS limited to one thread per worker."""

import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import LibController, ThreadpoolController

# Below this many rows one BLAS thread is faster than two (measured with two cores).
_THREADS_FROM = 1024


@contextlib.contextmanager
def worker_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of ``count`` threads, with BLAS limited to one thread where that is safe.

    The small dense systems of the solvers are slower with BLAS threads than without, and n_jobs=1 should mean one core.
    """
    with one_blas_thread():
        pool = ThreadPoolExecutor(max_workers=count)
        try:
            yield pool
        finally:
            # After an error or Ctrl-C: drop tasks that have not started, wait for the others.
            pool.shutdown(wait=True, cancel_futures=True)


@contextlib.contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread while any thread of the process is inside.

    The limit belongs to the process: the first fit that enters sets it, and the last one that leaves restores what the
    first one found. So fits are as fast in threads of a web server or an executor as in the main thread, and equal.
    """
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


def blas_threads_for(size: int) -> contextlib.AbstractContextManager[Any]:
    """Limit BLAS to one thread, as `one_blas_thread`, if a system has too few rows to profit from more."""
    return one_blas_thread() if size < _THREADS_FROM else contextlib.nullcontext()


@cache
def _blas_libraries() -> list[LibController]:
    """Cached, because finding the loaded libraries takes milliseconds."""
    return [library for library in ThreadpoolController().lib_controllers if library.user_api == "blas"]


def _set_threads(library: LibController, count: int) -> None:
    # threadpoolctl obeys only the first thread that ever set a limit. Here all threads share one counted limit.
    getattr(library, "_real_set_num_threads", library.set_num_threads)(count)


class _CountedLimit:
    """How many are inside of the limit, and the numbers of threads to restore when the last one leaves."""

    def __init__(self) -> None:
        self._lock, self._inside, self._before = threading.Lock(), 0, list[int]()

    def enter(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._before = [library.get_num_threads() for library in _blas_libraries()]
                for library in _blas_libraries():
                    _set_threads(library, 1)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._restore()

    def forget(self) -> None:
        """In a forked process: the fits of its parent go on elsewhere."""
        self._lock = threading.Lock()
        if self._inside:
            self._inside = 0
            self._restore()

    def _restore(self) -> None:
        for library, count in zip(_blas_libraries(), self._before, strict=True):
            _set_threads(library, count)


_limit = _CountedLimit()
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=_limit.forget)
