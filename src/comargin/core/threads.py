"""Worker threads over loops that release the GIL, with BLAS limited to one thread per worker."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

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


def one_blas_thread() -> contextlib.AbstractContextManager[Any]:
    """Limit BLAS to one thread if this is the main thread.

    The limit belongs to the process. Fits that overlap in several threads of the caller would restore each other's
    limits in the wrong order; only the main thread cannot overlap with itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return contextlib.nullcontext()
    return _controller().limit(limits=1, user_api="blas")


def blas_threads_for(size: int) -> contextlib.AbstractContextManager[Any]:
    """Limit BLAS to one thread, as `one_blas_thread`, if a system has too few rows to profit from more."""
    return one_blas_thread() if size < _THREADS_FROM else contextlib.nullcontext()


@cache
def _controller() -> ThreadpoolController:
    """Cached, because finding the loaded libraries takes milliseconds."""
    return ThreadpoolController()
