"""Where independent tasks run: in this thread, in threads, or in processes.

A task is a function of a module and its arguments, all of them plain data that can be pickled. It returns its result,
or yields several. `run` runs a list of tasks; the caller records results as they come. Searches, cross-fits and
comparisons make `Threads` or `Processes` of their ``n_jobs``, unless the caller names another executor::

    with using(MyCluster()):
        train(dataset)

A cluster is one more class with the method of `Executor`.
"""

import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from contextvars import ContextVar
from queue import Empty, SimpleQueue
from threading import Event
from types import GeneratorType
from typing import Any, NamedTuple, Protocol

from joblib import effective_n_jobs
from sklearn import config_context, get_config
from sklearn.utils.parallel import Parallel, delayed

from .threads import worker_threads

_asked: ContextVar[Callable[[], bool]] = ContextVar("_asked", default=lambda: False)


def should_stop(*_: Any) -> bool:
    """Whether the running task is to end early: another one failed, or Ctrl-C was pressed. Also a callback of fits."""
    return _asked.get()()


@contextmanager
def stopping_when(stop: Callable[[], bool]) -> Iterator[None]:
    """Let `should_stop` ask ``stop`` within the block; an executor runs its tasks so."""
    before = _asked.set(stop)
    try:
        yield
    finally:
        _asked.reset(before)


class Task(NamedTuple):
    function: Callable[..., Any]
    arguments: tuple[Any, ...]

    def results(self) -> Iterator[Any]:
        """The result, or the results of a generator as they come."""
        found = self.function(*self.arguments)
        yield from found if isinstance(found, GeneratorType) else (found,)


class Lost(NamedTuple):
    """Replaces the result of a task whose process was killed, usually for its memory."""

    reason: str


class _Ended(NamedTuple):
    """Follows the last result of a task in a thread."""

    error: BaseException | None


class Executor(Protocol):
    """Runs lists of tasks."""

    def results(self, tasks: Sequence[Task]) -> Generator[tuple[int, Any], None, None]:
        """Yield the index of a task with each of its results, as they come; the first error is raised and ends all.

        The result of a task whose process was ended from outside is `Lost`. The caller may close the generator early.
        """


_chosen: ContextVar[Executor | None] = ContextVar("_chosen", default=None)


@contextmanager
def using(executor: Executor | None) -> Iterator[None]:
    """Let every `run` within the block run its tasks there, and not where it would; None: where it would."""
    before = _chosen.get()
    _chosen.set(executor)
    try:
        yield
    finally:
        _chosen.set(before)


def chosen_or(usual: Executor) -> Executor:
    """The executor of the innermost `using`, or else the usual one."""
    return _chosen.get() or usual


def run(
    tasks: Sequence[Task],
    usual: Executor,
    done: Callable[[Any], object] = lambda result: None,
    lost: Callable[[Task, str], Any] | None = None,
) -> list[Any]:
    """Run all tasks and return their results in the order of the tasks; they do not depend on the executor.

    The executor is that of `using`, or else the usual one. Tasks of tasks run where they usually would.
    ``done`` is called in this thread with every result as soon as it is there. ``lost`` makes the result of a task
    whose process was ended from outside, from the task and the reason; without it such a task is an error.
    """
    results: list[list[Any]] = [[] for _ in tasks]
    executor = chosen_or(usual)
    with using(None), closing(executor.results(tasks)) as found:
        for k, result in found:
            if isinstance(result, Lost):
                if lost is None:
                    raise RuntimeError(f"a worker process was ended from outside ({result.reason}); use fewer of them")
                result = lost(tasks[k], result.reason)
            results[k].append(result)
            done(result)
    return [result for of_task in results for result in of_task]


def _one_by_one(tasks: Sequence[Task]) -> Iterator[tuple[int, Any]]:
    for k, task in enumerate(tasks):
        yield from ((k, result) for result in task.results())


class Threads:
    """Worker threads, or this thread for 1: loops that release the GIL run in parallel, and nothing is copied.

    ``n_jobs`` is that of joblib: -1 is all cores, None is joblib's configuration.
    """

    def __init__(self, n_jobs: int | None) -> None:
        self.n_jobs = n_jobs

    def results(self, tasks: Sequence[Task]) -> Generator[tuple[int, Any], None, None]:
        n_threads = min(effective_n_jobs(self.n_jobs), len(tasks))
        if n_threads == 0:
            return
        with worker_threads(n_threads) as pool:
            if n_threads == 1:  # in this thread Ctrl-C also ends fits that never ask `should_stop`
                yield from _one_by_one(tasks)
                return
            found: SimpleQueue[tuple[int, Any]] = SimpleQueue()
            failed = Event()
            outside = _asked.get()  # these tasks may be part of another one
            config = get_config()  # scikit-learn's settings belong to a thread

            def work(k: int, task: Task) -> None:
                error = None
                try:
                    with stopping_when(lambda: failed.is_set() or outside()), config_context(**config):
                        if not failed.is_set():
                            for result in task.results():
                                found.put((k, result))
                except BaseException as raised:
                    failed.set()
                    error = raised
                found.put((k, _Ended(error)))

            try:
                for k, task in enumerate(tasks):
                    pool.submit(work, k, task)
                left = len(tasks)
                while left:
                    try:
                        k, result = found.get(timeout=0.1)  # without a timeout it misses a Ctrl-C just before it
                    except Empty:
                        continue
                    if not isinstance(result, _Ended):
                        yield k, result
                    elif result.error is not None:
                        raise result.error
                    else:
                        left -= 1
            finally:
                failed.set()


class Processes:
    """Processes started by joblib; tasks and results are copied.

    ``n_jobs`` and ``backend`` are those of joblib: 1 is this process, None is joblib's configuration.
    """

    def __init__(self, n_jobs: int | None, backend: str | None = None) -> None:
        self.n_jobs, self.backend = n_jobs, backend

    def results(self, tasks: Sequence[Task]) -> Generator[tuple[int, Any], None, None]:
        """Yield indices and results; those of one task together, when it has ended."""
        if effective_n_jobs(self.n_jobs) == 1:
            yield from _one_by_one(tasks)
            return
        waiting = dict(enumerate(tasks))
        while waiting:
            try:
                with self._running(waiting, self.n_jobs) as finished:
                    for k, results in finished:
                        del waiting[k]
                        yield from ((k, result) for result in results)
            except BrokenProcessPool:
                # A process was killed, and the pool with it. Its task is among the first that wait: run each of these
                # alone, where it has room enough or is lost.
                for k in list(waiting)[: 2 * effective_n_jobs(self.n_jobs)]:
                    yield from ((k, result) for result in self._alone(waiting.pop(k)))

    @contextmanager
    def _running(self, tasks: dict[int, Task], n_jobs: int | None) -> Iterator[Iterator[tuple[int, list[Any]]]]:
        """Yield the results as they finish; leaving the block early drops running and waiting tasks."""
        parallel = Parallel(n_jobs=n_jobs, backend=self.backend, batch_size=1, return_as="generator_unordered")
        finished = parallel(delayed(_all_results)(k, task) for k, task in list(tasks.items()))
        try:
            yield finished
        finally:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", r"\d+ tasks which", UserWarning)
                finished.close()

    def _alone(self, task: Task) -> list[Any]:
        try:
            with self._running({0: task}, 2) as finished:  # one job would run in this process
                ((_, results),) = finished
                return results
        except BrokenProcessPool as error:
            return [Lost(f"{type(error).__name__}: {error}")]


def _all_results(k: int, task: Task) -> tuple[int, list[Any]]:
    return k, list(task.results())
