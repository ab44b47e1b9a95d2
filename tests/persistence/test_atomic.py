"""A file appears whole or not at all, whenever the process is killed."""

import contextlib
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from saved_models import LEARNERS, X, Y, same
from sklearn.base import clone

import comargin
from comargin.persistence import _archive, load, save

ENDLESS = """
import os, sys
import comargin
from comargin.persistence import save
model = comargin.M3LClassifier().fit([[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]])
meta = {"text": os.urandom(3_000_000).hex()}
while True:
    save(model, sys.argv[1], meta=meta)
    sys.stdout.write("saved\\n")
    sys.stdout.flush()
"""


def test_killed_while_saving(tmp_path):
    path = tmp_path / "model.cmg"
    process = subprocess.Popen([sys.executable, "-c", ENDLESS, str(path)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "saved\n"
        deadline = time.monotonic() + 30.0
        while not any(has_bytes(part) for part in tmp_path.glob(".*.part")):
            assert time.monotonic() < deadline, "no file was seen while it is written"
    finally:
        process.kill()
        process.communicate()
    assert load(path).predict([[0.9, 0.1]]).tolist() == [[1, 0]]


def has_bytes(part):
    with contextlib.suppress(FileNotFoundError):  # it has its name by now
        return part.stat().st_size > 0
    return False


@pytest.mark.parametrize("step", ["_write_member", "_npy"])
def test_an_error_half_way_leaves_the_old_file(step, tmp_path, monkeypatch):
    path = save(comargin.M3LClassifier(C=3.0), tmp_path / "model.cmg")
    before = path.read_bytes()
    calls = []
    whole = getattr(_archive, step)

    def fail_later(*args):
        calls.append(args)
        if len(calls) > 2:
            raise OSError("no space left on device")
        return whole(*args)

    monkeypatch.setattr(_archive, step, fail_later)
    with pytest.raises(OSError, match="no space left"):
        save(clone(LEARNERS["m3l"]).fit(X, Y), path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["model.cmg"]


def test_on_disk_before_it_has_its_name(tmp_path, monkeypatch):
    order = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (order.append("fsync"), sync(fd))[1])
    monkeypatch.setattr(os, "replace", lambda a, b: (order.append("replace"), replace(a, b))[1])
    save(comargin.M3LClassifier(), tmp_path / "model.cmg")
    assert order == ["fsync", "replace", "fsync"]


def test_permissions_are_those_of_any_new_file(tmp_path):
    other = tmp_path / "other"
    other.write_text("x")
    path = save(comargin.M3LClassifier(), tmp_path / "model.cmg")
    assert path.stat().st_mode == other.stat().st_mode


def test_saving_over_what_is_loaded(tmp_path):
    model = clone(LEARNERS["m3l"]).fit(X, Y)
    path = save(model, tmp_path / "model.cmg")
    loaded = load(path)
    save(comargin.M3LClassifier(), path)
    assert same(loaded.decision_function(X), model.decision_function(X))
    assert np.all(loaded.coef_ == model.coef_)
