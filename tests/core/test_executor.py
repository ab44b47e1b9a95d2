"""Lists of tasks: the same results wherever they run, errors that reach the caller, lost processes."""

import os
import signal
import threading

import pytest
from sklearn import config_context, get_config

from comargin.core.executor import Processes, Task, Threads, run

EXECUTORS = [lambda: Threads(1), lambda: Threads(3), lambda: Processes(1), lambda: Processes(2)]


def square(number):
    return number * number


def fail(number):
    raise ZeroDivisionError(f"task {number}")


def end_this_process():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_results_are_in_the_order_of_the_tasks(executor):
    seen = []
    tasks = [Task(square, (k,)) for k in range(7)]
    assert run(tasks, executor(), seen.append) == [k * k for k in range(7)]
    assert sorted(seen) == [k * k for k in range(7)]
    assert run([], executor()) == []


@pytest.mark.parametrize("executor", EXECUTORS)
def test_an_error_reaches_the_caller(executor):
    tasks = [Task(square, (1,)), Task(fail, (2,)), *(Task(square, (k,)) for k in range(20))]
    with pytest.raises(ZeroDivisionError, match="task 2"):
        run(tasks, executor())


def test_threads_begin_no_task_after_an_error():
    begun = []

    def begin(number):
        begun.append(number)
        fail(number)

    executor = Threads(2)
    with pytest.raises(ZeroDivisionError):
        run([Task(begin, (k,)) for k in range(50)], executor)
    assert executor.should_stop()
    assert len(begun) <= 2


def test_threads_have_the_settings_of_scikit_learn():
    with config_context(assume_finite=True):
        found = run([Task(lambda: (get_config()["assume_finite"], threading.get_ident()), ())] * 4, Threads(2))
    assert all(assumes for assumes, _ in found)


def test_a_lost_process():
    tasks = [Task(square, (3,)), Task(end_this_process, ())]
    with pytest.raises(RuntimeError, match="a worker process was ended from outside"):
        run(tasks, Processes(2, "loky"))
    found = run(tasks, Processes(2, "loky"), lost=lambda task, reason: (task.function.__name__, bool(reason)))
    assert found == [9, ("end_this_process", True)]
