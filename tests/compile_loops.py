"""Compile the loops side by side, into the cache of the tests: ``python -m tests.compile_loops``.

Without it every worker of pytest compiles most loops for itself.
"""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from . import conftest  # noqa: F401  names the cache, before Numba loads

# isort: split
from comargin.training import _warmup


def run_step(number):
    list(_warmup._steps())[number][1]()


if __name__ == "__main__":
    with ProcessPoolExecutor(2, get_context("spawn")) as workers:
        list(workers.map(run_step, range(len(list(_warmup._steps())))))
