"""Fixtures of the whole suite, and the guard against stale compiled code."""

import hashlib
import os
import signal
import tempfile
from pathlib import Path

# Numba does not notice an edited helper in another file: key the cache on all files with compiled code, wherever they
# lie, before numba loads.
_SOURCES = Path(__file__).resolve().parents[1] / "src" / "comargin"
_TEXTS = [path.read_bytes() for path in sorted(_SOURCES.rglob("*.py"))]
_LOOPS = [text for text in _TEXTS if b"numba" in text or b"@compiled" in text]
_digest = hashlib.sha256(b"".join(_LOOPS)).hexdigest()[:12]
_flavour = "bounds" if os.environ.get("NUMBA_BOUNDSCHECK") == "1" else "plain"
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(tempfile.gettempdir()) / f"comargin-numba-{_digest}-{_flavour}"))

# Workers side by side: threads of BLAS beyond one per worker wait for each other, ten times as long in places.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

# A job in the background may be started with Ctrl-C ignored, and so would be the processes that tests send it to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import numpy as np  # noqa: E402
import pytest  # noqa: E402


@pytest.fixture(params=range(int(os.environ.get("COMARGIN_SEEDS", "1"))))
def seed(request):
    """Seed of ``rng``; COMARGIN_SEEDS=5 runs every random test five times."""
    return request.param


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


@pytest.fixture
def threaded_blas():
    """BLAS with two threads, as a user has it, also in a worker: for tests that threads change nothing."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(2, user_api="blas"):
        yield


@pytest.fixture(scope="session")
def data_home():
    """Folder with the published data sets; tests that need it skip without it."""
    home = os.environ.get("COMARGIN_DATA")
    if not home:
        pytest.skip("COMARGIN_DATA is not set: no published data sets here")
    return Path(home)


def pytest_collection_modifyitems(config, items):
    """Leave slow reproductions to `make test-paper` unless a marker expression asks for them; and loops, uncompiled."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        too_long = pytest.mark.skip(reason="takes too long as plain Python")
        for item in items:
            if "compiled" in item.keywords:
                item.add_marker(too_long)
    if config.option.markexpr:
        return
    skip = pytest.mark.skip(reason="slow: run by make test-paper")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def specialisation_budget():
    """No loop is compiled for more than three forms of X (dense, read-only, CSR), times two of R or of precisions."""
    yield
    import sys
    from inspect import signature

    for name, module in list(sys.modules.items()):
        if name.startswith("comargin."):
            for kernel in vars(module).values():
                signatures = getattr(kernel, "signatures", None)
                if isinstance(signatures, list):
                    allowed = 6 if {"R", "Z"} & set(signature(kernel.py_func).parameters) else 3
                    assert len(signatures) <= allowed, f"{name}: {kernel} was compiled for {signatures}"


def pytest_configure(config):
    """Without compilation 64-bit integers are NumPy scalars, which warn when they wrap around as they should."""
    if os.environ.get("NUMBA_DISABLE_JIT") == "1":
        config.addinivalue_line("filterwarnings", "ignore:overflow encountered in scalar:RuntimeWarning")
