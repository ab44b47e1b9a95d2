"""Where independent tasks run: in this thread, in threads, or in processes.

A task is a function and its arguments; it returns its result and has no other effect. `run` takes a list of tasks and
an executor. A cluster is one more class with the methods of `Executor`.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from typing import Any, NamedTuple, Protocol

from joblib import effective_n_jobs
from sklearn import config_context, get_config
from sklearn.utils.parallel import Parallel, delayed

from .threads import worker_threads


class Task(NamedTuple):
    """A function and its arguments."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def __call__(self) -> Any:
        return self.function(*self.arguments)


class Lost(NamedTuple):
    """Replaces the result of a task whose process was killed, usually for its memory."""

    reason: str


_SKIPPED = object()  # replaces the result of a task that did not begin


class Executor(Protocol):
    """Runs tasks. One object serves one list of tasks."""

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield the index of each task and its result, as they finish; the first error is raised and ends all."""

    def should_stop(self) -> bool:
        """Whether another task failed or Ctrl-C was pressed; tasks may ask, and end early."""


def run(
    tasks: Sequence[Task],
    executor: Executor,
    done: Callable[[Any], object] | None = None,
    lost: Callable[[Task, str], Any] | None = None,
) -> list[Any]:
    """Run all tasks and return their results in the order of the tasks; they do not depend on the executor.

    ``done`` is called with every result as soon as it is there. ``lost`` makes the result of a task whose process was
    ended from outside, from the task and the reason; without it such a task is an error.
    """
    results: list[Any] = [None] * len(tasks)
    with closing(executor.results(tasks)) as finished:  # type: ignore[type-var]
        for k, result in finished:
            if isinstance(result, Lost):
                if lost is None:
                    raise RuntimeError(f"a worker process was ended from outside ({result.reason}); use fewer of them")
                result = lost(tasks[k], result.reason)
            results[k] = result
            if done is not None:
                done(result)
    return results


class Threads:
    """Worker threads, or this thread for 1: loops that release the GIL run in parallel, and nothing is copied."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self._stop = threading.Event()

    def should_stop(self) -> bool:
        """Whether another task failed or Ctrl-C was pressed."""
        return self._stop.is_set()

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield indices and results as they finish."""
        if not tasks:
            return
        config = get_config()  # scikit-learn's settings belong to a thread

        def work(task: Task) -> Any:
            if self._stop.is_set():  # another task has failed
                return _SKIPPED
            try:
                with config_context(**config):
                    return task()
            except BaseException:
                self._stop.set()
                raise

        n_threads = min(self.n_threads, len(tasks))
        with worker_threads(n_threads) as pool:
            if n_threads == 1:  # in this thread Ctrl-C also ends fits that never ask `should_stop`
                for k, task in enumerate(tasks):
                    yield k, work(task)
                return
            try:
                number = {pool.submit(work, task): k for k, task in enumerate(tasks)}
                left = set(number)
                while left:
                    # A wait without timeout misses a Ctrl-C just before it.
                    finished, left = wait(left, timeout=0.1, return_when=FIRST_COMPLETED)
                    for future in sorted(finished, key=number.__getitem__):
                        result = future.result()
                        if result is not _SKIPPED:
                            yield number[future], result
            finally:
                self._stop.set()


class Processes:
    """Processes started by joblib; tasks and results are copied.

    ``n_jobs`` and ``backend`` are those of joblib: 1 is this process, None is joblib's configuration.
    """

    def __init__(self, n_jobs: int | None, backend: str | None = None) -> None:
        self.n_jobs, self.backend = n_jobs, backend

    def should_stop(self) -> bool:
        """Always False: processes are stopped from outside."""
        return False

    def results(self, tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
        """Yield indices and results as they finish."""
        if effective_n_jobs(self.n_jobs) == 1:
            yield from ((k, task()) for k, task in enumerate(tasks))
            return
        waiting = dict(enumerate(tasks))
        while waiting:
            try:
                with self._running(waiting, self.n_jobs) as finished:
                    for k, result in finished:
                        del waiting[k]
                        yield k, result
            except BrokenProcessPool:
                # A process was killed, and the pool with it. Its task is among the first that wait: run each of these
                # alone, where it has room enough or is lost.
                for k in list(waiting)[: 2 * effective_n_jobs(self.n_jobs)]:
                    yield k, self._alone(waiting.pop(k))

    @contextmanager
    def _running(self, tasks: dict[int, Task], n_jobs: int | None) -> Iterator[Iterator[tuple[int, Any]]]:
        """Yield the results as they finish; leaving the block early drops running and waiting tasks."""
        parallel = Parallel(n_jobs=n_jobs, backend=self.backend, batch_size=1, return_as="generator_unordered")
        finished = parallel(delayed(_numbered)(k, task) for k, task in list(tasks.items()))
        try:
            yield finished
        finally:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", r"\d+ tasks which", UserWarning)
                finished.close()

    def _alone(self, task: Task) -> Any:
        try:
            with self._running({0: task}, 2) as finished:  # one job would run in this process
                ((_, result),) = finished
                return result
        except BrokenProcessPool as error:
            return Lost(f"{type(error).__name__}: {error}")


def _numbered(k: int, task: Task) -> tuple[int, Any]:
    return k, task()
