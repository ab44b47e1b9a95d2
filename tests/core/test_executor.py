"""Lists of tasks: the same results wherever they run, errors that reach the caller, lost processes."""

import os
import signal
import threading
import time

import pytest
from sklearn import config_context, get_config

from comargin.core.executor import Processes, Task, Threads, run, should_stop

EXECUTORS = [lambda: Threads(1), lambda: Threads(3), lambda: Processes(1), lambda: Processes(2)]


def square(number):
    return number * number


def count(number):
    yield from ((number, k) for k in range(number))


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

    with pytest.raises(ZeroDivisionError):
        run([Task(begin, (k,)) for k in range(50)], Threads(2))
    assert len(begun) <= 2


def test_tasks_in_threads_learn_that_another_one_failed():
    ended = []

    def wait_for_the_end():
        run([Task(wait, ()), Task(wait, ())], Threads(2))  # tasks of tasks learn it too

    def wait():
        while not should_stop():
            time.sleep(0.01)
        ended.append(True)

    assert not should_stop()
    with pytest.raises(ZeroDivisionError, match="task 1"):
        run([Task(wait, ()), Task(wait_for_the_end, ()), Task(fail, (1,))], Threads(3))
    assert ended == [True] * 3
    assert not should_stop()


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_task_may_yield_several_results(executor):
    seen = []
    assert run([Task(count, (k,)) for k in (3, 0, 2)], executor(), seen.append) == [
        (3, 0),
        (3, 1),
        (3, 2),
        (2, 0),
        (2, 1),
    ]
    assert sorted(seen) == [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]


def test_results_of_threads_are_there_before_the_task_ends():
    goes_on = threading.Event()

    def yield_two():
        yield 1
        assert goes_on.wait(60)
        yield 2

    assert run([Task(yield_two, ()), Task(square, (3,))], Threads(2), lambda result: goes_on.set()) == [1, 2, 9]


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
