"""The examples run, and the learner they build keeps the whole estimator contract."""

import importlib.util
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import comargin.models

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# Registered under its name, so that its classes can be pickled.
_spec = importlib.util.spec_from_file_location("own_learner", EXAMPLES / "own_learner.py")
own_learner = sys.modules["own_learner"] = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(own_learner)


@pytest.mark.parametrize("script", sorted(EXAMPLES.glob("*.py")), ids=lambda p: p.name)
def test_example_runs(script, tmp_path, monkeypatch, capfd):
    """Here, where warnings are errors too: a process would import everything again."""
    monkeypatch.setattr(sys, "argv", [str(script)])
    monkeypatch.setattr("comargin.models._REGISTRY", dict(comargin.models._REGISTRY))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runpy.run_path(str(script), run_name="__main__")
    out, err = capfd.readouterr()
    assert out
    assert not err


def test_example_runs_as_a_user_starts_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / "own_learner.py")],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert not done.stderr


@parametrize_with_checks([own_learner.RidgeLabels()])
def test_a_new_learner_passes_scikit_learns_checks(estimator, check):
    check(estimator)
