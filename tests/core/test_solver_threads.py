"""Worker threads and BLAS's own: what was set before a fit is set after it, however fits overlap."""

import os
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

from comargin import M3LClassifier, PrBRClassifier, RankCVMClassifier, StructuredSVMClassifier
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


def test_blas_is_limited_in_every_thread_until_the_last_fit_ends():
    before = blas_threads()
    seen, left = [], threading.Event()

    def long_fit():
        with worker_threads(1):
            seen.append(blas_threads())
            left.wait(timeout=30)
            seen.append(blas_threads())

    with worker_threads(1):
        user = threading.Thread(target=long_fit)
        user.start()
        while not seen:
            left.wait(timeout=0.01)
    assert {n for counts in (*seen, blas_threads()) for n in counts} == {1}  # the other fit goes on
    left.set()
    user.join()
    assert set(seen[-1]) == {1}
    assert blas_threads() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_process_forked_during_a_fit_has_its_own_limit():
    before = blas_threads()
    with worker_threads(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking with threads
        child = os.fork()
        if not child:
            os._exit(0 if blas_threads() == before else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_fits_are_equal_in_any_thread(rng):
    X = rng.normal(size=(300, 60))
    Y = (X[:, :8] + rng.normal(size=(300, 8)) > 0).astype(int)
    models = [
        M3LClassifier(kernel="rbf"),
        M3LClassifier(label_correlation="train", random_state=0),
        M3LClassifier(solver="smo", max_iter=5),
        StructuredSVMClassifier(random_state=0),
        RankCVMClassifier(kernel="linear", random_state=0),
        PrBRClassifier(max_iter=5, random_state=0),
    ]

    def fitted(model):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return clone(model).fit(X, Y).decision_function(X)

    here = [fitted(model) for model in models]
    with ThreadPoolExecutor(1) as executor:
        there = list(executor.map(fitted, models))
    for model, ours, theirs in zip(models, here, there, strict=True):
        np.testing.assert_array_equal(ours, theirs, err_msg=str(model))


def test_restored_after_an_error():
    before = blas_threads()
    with pytest.raises(RuntimeError, match="inside"), worker_threads(1):
        raise RuntimeError("inside")
    assert blas_threads() == before
