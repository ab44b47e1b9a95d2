"""Compiled loops where nothing can be written: found if they are there, compiled anew with one remark if not."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import comargin

pytestmark = pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT") == "1", reason="nothing is compiled")

CODE = """
import warnings
import numpy as np
with warnings.catch_warnings(record=True) as remarks:
    warnings.simplefilter("always")
    from comargin.core.random_numbers import next_uint64, random_below, random_state_array
    state = random_state_array(0)
    random_below(state, 5)
    next_uint64(state)
hits = sum(random_below.stats.cache_hits.values()) + sum(next_uint64.stats.cache_hits.values())
print(hits, len(remarks), *(str(remark.message) for remark in remarks))
"""


def run(package, home, *prefix, cache=None):
    names = ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    environment |= {"PYTHONPATH": str(package), "HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1"}
    if cache is not None:
        environment["NUMBA_CACHE_DIR"] = str(cache)
    command = [*prefix, sys.executable, "-c", CODE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=home)
    assert done.returncode == 0, done.stderr
    hits, remarks, *text = done.stdout.split(" ", 2)
    return int(hits), int(remarks), "".join(text).strip()


@pytest.fixture
def image(tmp_path):
    """A copy of the package, an empty home, and a function that makes both read-only."""
    package, home = tmp_path / "site", tmp_path / "home"
    shutil.copytree(Path(comargin.__file__).parent, package / "comargin", ignore=shutil.ignore_patterns("__pycache__"))
    home.mkdir()

    def set_mode(mode):
        for folder in (home, package, *(path for path in package.rglob("*") if path.is_dir())):
            folder.chmod(mode)

    yield package, home, lambda: set_mode(0o555)
    set_mode(0o755)


@pytest.fixture
def as_user():
    """What to put before a command so that permissions bind it."""
    if not hasattr(os, "geteuid"):
        pytest.skip("needs the permissions of POSIX")
    if os.geteuid() != 0:
        return ()
    if shutil.which("setpriv") is None:
        pytest.skip("root may write everywhere; needs setpriv")
    return ("setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner", "--inh-caps", "-all")


def test_without_a_writable_folder_loops_compile_with_one_remark(image, as_user):
    package, home, make_read_only = image
    make_read_only()
    hits, remarks, text = run(package, home, *as_user, cache=home / "cache")
    assert (hits, remarks) == (0, 1)
    assert "comargin warmup" in text


@pytest.mark.parametrize("where", ["beside the package", "NUMBA_CACHE_DIR"])
def test_loops_of_an_image_are_found_and_only_read(image, as_user, where):
    package, home, make_read_only = image
    cache = package / "loops" if where == "NUMBA_CACHE_DIR" else None
    assert run(package, home, cache=cache)[:2] == (0, 0)
    make_read_only()
    assert run(package, home, *as_user, cache=cache) == (2, 0, "")


def test_loops_beside_the_package_are_found_though_the_home_is_writable(image, as_user):
    package, home, make_read_only = image
    run(package, home)
    make_read_only()
    home.chmod(0o755)
    assert run(package, home, *as_user) == (2, 0, "")
    assert not any(home.rglob("*.nbi"))
