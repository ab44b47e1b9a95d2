"""Signals end a command with one line and the exit code that shells expect, also while it starts."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest
from command import run

from comargin import M3LClassifier
from comargin.persistence import inspect, save
from comargin.training._folder import FolderMemory

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs the signals of POSIX")

# Sends itself a signal when a module begins to be imported.
SENDER = """
import importlib.abc, os, signal, sys
class Sender(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {module!r}:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.{signal})
sys.meta_path.insert(0, Sender())
"""


def run_python(code, **names):
    code = textwrap.dedent(SENDER).format(**names) + textwrap.dedent(code)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("module", ["typer", "comargin.cli._app", "numba.core.types", "comargin.training._train"])
def test_ctrl_c_during_start_up(module):
    code = "import sys; sys.argv = ['comargin', 'warmup']; from comargin.cli import main; main()"
    assert run_python(code, module=module, signal="SIGINT") == (130, "", "Interrupted.\n")


@pytest.mark.parametrize("module", ["comargin.cli._app", "comargin.training._train"])
def test_sigterm_during_start_up(module):
    code = "import sys; sys.argv = ['comargin', 'warmup']; from comargin.cli import main; main()"
    assert run_python(code, module=module, signal="SIGTERM") == (143, "", "Terminated.\n")


def test_sigterm_during_a_training(tmp_path):
    code = """
    import sys
    from comargin.cli import main
    sys.argv = ["comargin", "train", "digits", "-m", "rank-svm", "-o", "t.cmg", "--checkpoint", "c", "-q"]
    main()
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "c" / "checkpoint.json").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.communicate(timeout=120)[1] == "Terminated.\n"
    assert process.returncode == 143
    assert not (tmp_path / "t.cmg").exists()


def test_a_fit_works_after_ctrl_c_while_numba_was_imported():
    code = """
    try:
        from comargin import M3LClassifier
    except KeyboardInterrupt:
        print("interrupted")
    from comargin import M3LClassifier
    print(M3LClassifier(random_state=0).fit([[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]]).predict([[0.0, 1.0]]))
    """
    returncode, out, err = run_python(code, module="numba.core.types", signal="SIGINT")
    assert (returncode, out, err) == (0, "interrupted\n[[0 1]]\n", "")


def test_a_folder_that_is_being_taken_is_in_use(tmp_path, monkeypatch):
    """Another training may begin while the first one writes whose folder it is."""
    first, replace = [], os.replace

    def meanwhile(*names):
        if not first:
            first.append(names)
            with pytest.raises(ValueError, match="is in use by another training"):
                FolderMemory(tmp_path / "state", "a")
        replace(*names)

    monkeypatch.setattr(os, "replace", meanwhile)
    FolderMemory(tmp_path / "state", "a")
    assert first


def test_info_shows_the_hash_and_what_is_inside(tmp_path):
    X, Y = np.eye(3), np.eye(3, dtype=int)
    path = save(M3LClassifier(random_state=0).fit(X, Y), tmp_path / "m.cmg")
    own = inspect(path)["sha256"]
    code, out, err = run("info", path, "--expect-hash", own)
    assert (code, err) == (0, "")
    assert "model: M3LClassifier" in out
    assert f"sha256: {own} (its contents match)" in out
    for command in (("info",), ("predict", path)):
        arguments = (*command, path) if command == ("info",) else (*command, "-")
        code, out, err = run(*arguments, "--expect-hash", "abc")
        assert (code, out) == (1, "")
        assert f"has the SHA-256 {own}, not the expected abc" in err
