"""Worker threads over kernels without the GIL: as many as were asked for, and no hidden ones in BLAS."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

# Smaller systems are factorised, and multiplied, sooner by one thread than by several that wait for each other
# (measured with two).
_THREADS_FROM = 1024


@contextlib.contextmanager
def worker_threads(count: int) -> Iterator[ThreadPoolExecutor]:
    """Yield a pool of threads, with BLAS held to one thread per worker where that is safe.

    The small dense systems of the solvers are slower with BLAS threads than without, and n_jobs=1 should mean one core.

    Parameters
    ----------
    count : int
        Workers.

    Yields
    ------
    ThreadPoolExecutor
        Ended, with all work done or dropped, when the block ends.
    """
    with one_blas_thread():
        pool = ThreadPoolExecutor(max_workers=count)
        try:
            yield pool
        finally:
            # After an error or Ctrl-C: drop what has not started, wait for what has.
            pool.shutdown(wait=True, cancel_futures=True)


def one_blas_thread() -> contextlib.AbstractContextManager[Any]:
    """Hold BLAS to one thread, when this is the main thread.

    The limit belongs to the process. Fits that overlap in several threads of the caller would restore each other's
    limits in the wrong order; only the main thread cannot overlap with itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return contextlib.nullcontext()
    return _controller().limit(limits=1, user_api="blas")


def blas_threads_for(size: int) -> contextlib.AbstractContextManager[Any]:
    """Hold BLAS to one thread, in the main thread, for work with systems of fewer rows than pay for several threads.

    Parameters
    ----------
    size : int
        Rows of a system.

    Returns
    -------
    context manager
        For the time of the work.
    """
    return one_blas_thread() if size < _THREADS_FROM else contextlib.nullcontext()


@cache
def _controller() -> ThreadpoolController:
    """Finding the loaded libraries takes milliseconds: once per process."""
    return ThreadpoolController()
