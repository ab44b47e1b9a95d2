"""Worker threads and BLAS's own: what was set before a fit is set after it, however fits overlap."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from threadpoolctl import threadpool_info

from comargin.core.threads import worker_threads

pytestmark = pytest.mark.usefixtures("threaded_blas")


def blas_threads():
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


def test_blas_is_limited_inside_and_restored_after():
    before = blas_threads()
    assert 2 in before  # all but those built for one thread
    with worker_threads(2) as pool:
        assert {n for seen in pool.map(lambda _: blas_threads(), range(2)) for n in seen} == {1}
    assert blas_threads() == before


def test_overlapping_fits_leave_blas_as_it_was():
    before = blas_threads()
    barrier = threading.Barrier(3)

    def fit(number):
        for _ in range(5):
            with worker_threads(1):
                barrier.wait(timeout=30)

    with ThreadPoolExecutor(3) as users:
        list(users.map(fit, range(3)))
    assert blas_threads() == before


def test_restored_after_an_error():
    before = blas_threads()
    with pytest.raises(RuntimeError, match="inside"), worker_threads(1):
        raise RuntimeError("inside")
    assert blas_threads() == before
