"""Folders that survive any end of the process, and fits in slices that end where one fit does."""

import json
import math
import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import comargin
from comargin.data import make_cgm_toy
from comargin.persistence import ModelFileError
from comargin.solvers import Checkpoint
from comargin.thresholds import GlobalCut
from comargin.training import _kept_fits
from comargin.training._checkpoint import CheckpointFolder, KeptFit, clear_checkpoint
from comargin.training._kept_fits import fit_with_checkpoints

rng = np.random.default_rng(5)
X = rng.normal(size=(160, 6))
Y = (X @ rng.normal(size=(6, 4)) + 0.3 * rng.normal(size=(160, 4)) > 0.4).astype(int)

TOY = make_cgm_toy(160, seed=0)  # its cliques are plain: generation finds them in one order

LEARNERS = {
    "m3l": comargin.M3LClassifier(tol=1e-5, random_state=0),
    "m3l, labels together": comargin.M3LClassifier(tol=1e-5, random_state=0, label_correlation="train"),
    "m3l rbf": comargin.M3LClassifier(kernel="rbf", C=5.0, tol=1e-5, random_state=0),
    "m3l smo": comargin.M3LClassifier(kernel="rbf", C=5.0, tol=1e-4, solver="smo"),
    "m3l dcd": comargin.M3LClassifier(C=0.1, tol=1e-3, solver="dcd", random_state=0),
    "cgm": comargin.CGMClassifier(alpha=1e-2, tol=1e-4, random_state=0, max_cliques=4, round_tol=0.0),
    "cgm, rounds taken back": comargin.CGMClassifier(alpha=1e-2, tol=1e-4, random_state=0, round_tol=0.9),
    "structured": comargin.StructuredSVMClassifier(alpha=1e-2, tol=1e-4, random_state=0),
    "structured, a label alone": comargin.StructuredSVMClassifier(
        alpha=1e-2, tol=1e-4, random_state=0, graph=[(0, 1), (1, 3)]
    ),
    "rank-cvm": comargin.RankCVMClassifier(C=50.0, tol=1e-6, random_state=0),
    "rank-svm": comargin.RankSVMClassifier(C=5.0, tol=1e-4, random_state=0),
    "lsg21": comargin.LSG21Classifier(alpha=0.3, tol=1e-8),
    "lsg21 irls": comargin.LSG21Classifier(alpha=5.0, tol=1e-4, solver="irls"),
    "prbr": comargin.PrBRClassifier(C=1.0, tol=1e-4, random_state=0),
    "prml": comargin.PrMLClassifier(C=1.0, rank=3, tol=1e-4, random_state=0),
    "prml, many starts": comargin.PrMLClassifier(C=1.0, rank=2, tol=1e-3, n_init=3, random_state=0),
}


def data_of(name):
    return (TOY.X, TOY.Y) if name.startswith("cgm") else (X, Y)


@pytest.fixture
def folder(tmp_path):
    return CheckpointFolder(tmp_path / "run", "a1b2")


@pytest.fixture
def short_slices(monkeypatch):
    """At first slices end with the first certificate after which something was done."""
    monkeypatch.setattr(_kept_fits, "_WORTHWHILE", 0.0)
    return 1e-4


class Saves:
    """Counts what a folder is given."""

    def __init__(self, monkeypatch):
        self.learners = []
        original = KeptFit.learner

        def counted(kept, model):
            self.learners.append((getattr(model, "n_iter_", 0), list(getattr(model, "cliques_", ()))))
            original.fset(kept, model)

        monkeypatch.setattr(KeptFit, "learner", property(original.fget, counted))


def test_what_was_found_comes_back(tmp_path):
    values = {"C": np.float64(0.1), "rank": np.int64(3), "n": (1, 2), "on": np.True_, "none": None, "word": "é"}
    folder = CheckpointFolder(tmp_path / "a" / "b", "a1b2")
    for name, value in values.items():
        folder.add_found(name, value)
    folder.add_found("measures", {"f1": 1 / 3, "nothing": math.nan, "list": [1, (2,)]})
    again = CheckpointFolder(tmp_path / "a" / "b", "a1b2")
    measures = again.found.pop("measures")
    assert {name: again.found[name] for name in values} == values
    assert type(again.found["C"]) is float
    assert measures["f1"] == 1 / 3
    assert math.isnan(measures["nothing"])
    assert measures["list"] == [1, (2,)]
    again.found["C"] = 3.0  # a copy
    assert again.found["C"] == 0.1


@pytest.mark.parametrize("value", [np.eye(2), LogisticRegression(), {1: 2}, {"__tuple__": 1}, print])
def test_what_cannot_be_kept(folder, value):
    folder.add_found("C", 1.0)
    with pytest.raises(TypeError, match=r"label_correlation: a value of type .* cannot be kept in a checkpoint"):
        folder.add_found("label_correlation", value)
    assert folder.found == {"C": 1.0}


def test_rules_and_learners(folder):
    assert folder.rule is None
    assert folder.last_fit.learner is None
    rule = GlobalCut().fit(rng.normal(size=Y.shape), Y)
    folder.rule, folder.last_fit.learner = rule, comargin.M3LClassifier().fit(X, Y)
    again = CheckpointFolder(folder.path, "a1b2")
    assert again.rule.cut_ == rule.cut_
    assert np.array_equal(again.last_fit.learner.coef_, folder.last_fit.learner.coef_)
    again.rule = None
    assert CheckpointFolder(folder.path, "a1b2").rule is None
    (folder.path / "learner.cmg").write_bytes(b"PK")
    with pytest.raises(ModelFileError, match=r"learner\.cmg"):
        _ = folder.last_fit.learner


def test_another_run_is_refused(folder):
    folder.add_found("C", 1.0)
    with pytest.raises(
        ValueError, match=r"run is of another training run \(other data, settings or version\); name another"
    ):
        CheckpointFolder(folder.path, "ffff")
    assert CheckpointFolder(folder.path, "a1b2").found == {"C": 1.0}


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"format": 2}', '{"format": 2, "identity": "a1b2", "found": 3}'])
def test_a_file_that_is_no_checkpoint(tmp_path, text):
    (tmp_path / "checkpoint.json").write_text(text)
    with pytest.raises(ValueError, match=r"checkpoint\.json is no checkpoint of a training; name another folder"):
        CheckpointFolder(tmp_path, "a1b2")
    assert (tmp_path / "checkpoint.json").read_text() == text


def test_folders_that_are_none(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="is a file, not a folder"):
        CheckpointFolder(tmp_path / "file", "a1b2")
    (tmp_path / "learner.cmg").write_text("mine")
    with pytest.raises(ValueError, match=r"has a learner\.cmg but no checkpoint\.json"):
        CheckpointFolder(tmp_path, "a1b2")
    assert (tmp_path / "learner.cmg").read_text() == "mine"


def test_only_its_own_files_are_removed(folder):
    others = {"notes.txt", "tagger.cmg", ".hidden.part", "0123456789abcdef.part"}
    for name in others:
        (folder.path / name).write_text("mine")
    left = folder.path / ".0123456789abcdef.part"
    left.write_text("half a file")
    folder.rule, folder.last_fit.learner = GlobalCut(), comargin.M3LClassifier()
    with CheckpointFolder(folder.path, "a1b2").in_use():
        assert not left.exists()
    clear_checkpoint(folder.path)
    assert {file.name for file in folder.path.iterdir()} == others
    assert CheckpointFolder(folder.path, "another").found == {}


WRITER = """
import sys
import numpy as np
import comargin
from comargin.thresholds import GlobalCut
from comargin.training._checkpoint import CheckpointFolder, clear_checkpoint
X, Y = np.random.default_rng(0).normal(size=(300, 200)), np.eye(3, dtype=int)[np.arange(300) % 3]
learner = comargin.M3LClassifier(max_iter=1, tol=1.0, warm_start=True).fit(X, Y)
rule = GlobalCut().fit(X[:, :3], Y)
folder = CheckpointFolder(sys.argv[1], "a1b2")
sys.stdout.write("begun\\n")
sys.stdout.flush()
for k in range(10**9):
    folder.add_found("C", k)
    folder.rule = rule
    folder.last_fit.learner = learner
    if k % 7 == 6:
        clear_checkpoint(folder.path)
        folder = CheckpointFolder(sys.argv[1], "a1b2")
"""


def test_killed_at_any_moment(tmp_path):
    for moment in (0.05, 0.07, 0.11):
        process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout.readline() == "begun\n"
            time.sleep(moment)
        finally:
            process.kill()
            process.communicate()
        folder = CheckpointFolder(tmp_path, "a1b2")
        with folder.in_use():
            pass
        assert folder.last_fit.learner is None or folder.last_fit.learner.coef_.shape == (3, 200)
        assert folder.rule is None or folder.rule.n_labels_ == 3
        assert set(folder.found) <= {"C"}
        assert {file.name for file in tmp_path.iterdir()} <= {"checkpoint.json", "learner.cmg", "rule.cmg"}


@pytest.mark.parametrize("name", LEARNERS)
def test_slices_end_where_one_fit_does(name, folder, short_slices, monkeypatch):
    data = data_of(name)
    saves, seen = Saves(monkeypatch), []
    learner = clone(LEARNERS[name]).set_params(callback=seen.append)
    one = clone(LEARNERS[name]).fit(*data)
    assert fit_with_checkpoints(learner, *data, kept=folder.last_fit, every=short_slices) is learner
    assert learner.objective_ == pytest.approx(one.objective_, rel=1.5 * one.tol, abs=0.0)
    assert learner.duality_gap_ <= 1.01 * learner.tol * learner.objective_
    assert len(saves.learners) > 1 or len(one.history_) <= 2
    assert learner.get_params() == {**clone(LEARNERS[name]).get_params(), "callback": learner.callback}
    assert not hasattr(learner, "_dual_start")
    assert vars(learner).keys() == vars(one).keys()
    # One history: of the last moment, and what the caller's callback was told.
    assert learner.n_iter_ == learner.history_[-1].n_iter
    assert (learner.history_[-1].primal, learner.history_[-1].dual) == (learner.objective_, learner.dual_objective_)
    numbers, seconds = ([point[k] for point in learner.history_] for k in (0, 1))
    assert numbers == sorted(numbers)
    assert seconds == sorted(seconds)
    assert set(learner.history_) <= set(seen)
    if name.startswith("cgm"):
        assert learner.cliques_ == one.cliques_
        assert [each.n_cliques for each in learner.rounds_] == [each.n_cliques for each in one.rounds_]
        assert all(a[1] == b[1][: len(a[1])] for a, b in zip(saves.learners, saves.learners[1:], strict=False)) or (
            learner.round_tol > 0.0
        )
    if name.startswith("prml") or learner._shows_states:
        assert learner.objective_ == one.objective_
        assert np.array_equal(learner.decision_function(data[0]), one.decision_function(data[0]))


@pytest.mark.parametrize("name", LEARNERS)
def test_a_fit_goes_on_in_another_process(name, folder, short_slices, monkeypatch):
    """Another learner, that knows only the folder."""
    data = data_of(name)
    saves = Saves(monkeypatch)

    n_saves = 2 if LEARNERS[name]._shows_states else 1  # the first state shown is that before the first step

    def fail(point):
        if len(saves.learners) == n_saves:
            raise KeyboardInterrupt

    begun = clone(LEARNERS[name]).set_params(callback=fail)
    with pytest.raises(KeyboardInterrupt):
        fit_with_checkpoints(begun, *data, kept=folder.last_fit, every=short_slices)
    n_iter, cliques = saves.learners[-1]
    assert begun.callback is fail
    assert not begun.warm_start
    assert not hasattr(begun, "_dual_start")
    first = []
    learner = clone(LEARNERS[name]).set_params(callback=lambda point: first.append(point))
    fit_with_checkpoints(learner, *data, kept=CheckpointFolder(folder.path, "a1b2").last_fit)
    one = clone(LEARNERS[name]).fit(*data)
    assert learner.objective_ == pytest.approx(one.objective_, rel=1.5 * one.tol, abs=0.0)
    if learner._shows_states:
        assert first[0].gap < one.history_[0].gap
    elif name != "prml, many starts":  # of these the best is told, which need not be the last
        assert first[0].n_iter >= n_iter
    if name == "cgm":
        assert learner.cliques_[: len(cliques)] == cliques


KILLED = """
import os, sys
sys.path[:0] = sys.argv[2:]
from test_checkpoint import LEARNERS, clone, data_of, CheckpointFolder, _kept_fits, fit_with_checkpoints
_kept_fits._WORTHWHILE = 0.0
for name, moment in (("m3l", 9), ("cgm", 25)):
    folder = CheckpointFolder(os.path.join(sys.argv[1], name), "a1b2")
    begun = folder.last_fit.learner
    def callback(point, begun=begun, moment=moment):
        if begun is None and point.n_iter > moment:
            os.kill(os.getpid(), 9)
    learner = clone(LEARNERS[name]).set_params(callback=callback)
    fit_with_checkpoints(learner, *data_of(name), kept=folder.last_fit, every=1e-9)
    assert begun is None or name != "cgm" or learner.n_iter_ >= begun.n_iter_ > 0
    sys.stdout.write(f"{name} {learner.objective_!r}\\n")
"""


def test_killed_and_started_again(tmp_path):
    command = [sys.executable, "-c", KILLED, str(tmp_path), os.path.dirname(__file__)]
    codes, output = [], ""
    for _ in range(4):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        codes.append(done.returncode)
        output = done.stdout + done.stderr
        if done.returncode != -9:
            break
    assert codes == [-9, -9, 0], output
    for line in output.splitlines():
        name, objective = line.split(" ")
        one = clone(LEARNERS[name]).fit(*data_of(name))
        assert float(objective) == pytest.approx(one.objective_, rel=1.5 * one.tol, abs=0.0)


@pytest.mark.parametrize("name", ["m3l", "structured", "m3l smo"])
def test_max_iter_counts_all_slices(name, folder, short_slices, monkeypatch):
    saves = Saves(monkeypatch)
    learner = clone(LEARNERS[name]).set_params(tol=0.0, max_iter=17)
    with pytest.warns(ConvergenceWarning) as one:
        clone(learner).fit(X, Y)
    with pytest.warns(ConvergenceWarning) as caught:
        fit_with_checkpoints(learner, X, Y, kept=folder.last_fit, every=short_slices)
    assert learner.n_iter_ == 17
    assert learner.max_iter == 17
    assert len(saves.learners) > 1
    assert len(caught) == len(one) == 1
    assert "stopped after 17 iterations (max_iter=17)" in str(caught[0].message)
    assert caught[0].filename == one[0].filename == __file__
    if learner._shows_states:
        return
    # Nothing is left to do, and the same is said.
    again = clone(learner)
    with pytest.warns(ConvergenceWarning, match="stopped after 17 iterations"):
        fit_with_checkpoints(again, X, Y, kept=CheckpointFolder(folder.path, "a1b2").last_fit)
    assert again.objective_ == learner.objective_


def test_max_iter_of_every_round(folder, short_slices):
    learner = clone(LEARNERS["cgm"]).set_params(tol=1e-9, max_iter=12, max_cliques=2)
    with pytest.warns(ConvergenceWarning, match=r"\(max_iter=12 in each round\)") as caught:
        fit_with_checkpoints(learner, TOY.X, TOY.Y, kept=folder.last_fit, every=short_slices)
    assert len(caught) == 1
    assert len(learner.cliques_) == 2
    with pytest.warns(ConvergenceWarning):
        one = clone(learner).fit(TOY.X, TOY.Y)
    assert learner.n_iter_ <= 1.5 * one.n_iter_


def test_other_warnings_are_told_once(folder, short_slices, monkeypatch):
    saves, noise = Saves(monkeypatch), np.random.default_rng(0).integers(0, 2, Y.shape)
    learner = comargin.PrMLClassifier(C=0.1, rank=2, n_init=3, random_state=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fit_with_checkpoints(learner, X, noise, kept=folder.last_fit, every=short_slices)
    assert len(saves.learners) > 1
    assert sum("all predictors are zero" in str(each.message) for each in caught) == 1


@pytest.mark.parametrize("name", ["m3l", "cgm", "prml", "lsg21 irls"])
def test_stopped_by_request_and_gone_on(name, folder, short_slices):
    data = data_of(name)
    asked = []
    learner = clone(LEARNERS[name])
    fit_with_checkpoints(learner, *data, kept=folder.last_fit, should_stop=lambda: asked.append(1) or len(asked) == 2)
    assert len(asked) == 2
    assert len(learner.history_) == 2
    assert learner.predict(data[0]).shape == data[1].shape
    assert not learner.warm_start
    fit_with_checkpoints(learner, *data, kept=CheckpointFolder(folder.path, "a1b2").last_fit)
    one = clone(LEARNERS[name]).fit(*data)
    assert learner.objective_ == pytest.approx(one.objective_, rel=1.5 * one.tol, abs=0.0)
    assert learner.history_[0].n_iter == one.history_[0].n_iter


def test_the_callers_callback_stops(folder, short_slices):
    whole = comargin.StructuredSVMClassifier(alpha=1e-4, tol=1e-4, random_state=0).fit(X, Y)
    learner = clone(whole).set_params(callback=lambda point: point.n_iter >= 10)
    fit_with_checkpoints(learner, X, Y, kept=folder.last_fit, every=short_slices)
    assert 10 <= learner.n_iter_ < whole.n_iter_


def test_a_warm_start_of_the_caller_stays_one(folder):
    learner = clone(LEARNERS["m3l"]).set_params(warm_start=True, C=0.99).fit(X, Y)
    learner.set_params(C=1.0)
    fit_with_checkpoints(learner, X, Y, kept=folder.last_fit)
    assert learner.warm_start
    assert learner.history_[0].gap < clone(LEARNERS["m3l"]).fit(X, Y).history_[0].gap
    assert learner.fit(X, Y).n_iter_ == 0


def test_slow_slices_become_longer(folder, monkeypatch):
    """With slices that end after one step, this fit would take more steps than one fit may."""
    monkeypatch.setattr(_kept_fits, "_WORTHWHILE", 0.0)
    saves = Saves(monkeypatch)
    learner = comargin.StructuredSVMClassifier(alpha=1e-4, tol=1e-4, random_state=0)
    fit_with_checkpoints(learner, X, Y, kept=folder.last_fit, every=1e-5)
    one = clone(learner).fit(X, Y)
    assert learner.objective_ == pytest.approx(one.objective_, rel=1.5e-4)
    assert 1 < len(saves.learners) < 60


@pytest.mark.parametrize(
    "model",
    [OneVsRestClassifier(LogisticRegression()), comargin.M3LClassifierCV(Cs=[0.1, 1.0], cv=2, random_state=0)],
)
def test_others_are_fitted_in_one(model, folder):
    fitted = fit_with_checkpoints(clone(model), X, Y, kept=folder.last_fit, every=1e-9)
    assert np.array_equal(fitted.predict(X), clone(model).fit(X, Y).predict(X))
    assert json.loads((folder.path / "checkpoint.json").read_text())["found"] == {}
    assert folder.last_fit.learner is None


# Fitted in the test, not when the file is read: by every worker, that would be.
@pytest.mark.parametrize(
    "other",
    [
        lambda: comargin.LSG21Classifier(warm_start=True).fit(X, Y),
        lambda: comargin.M3LClassifier(warm_start=True).fit(X[:80], Y[:80]),
        lambda: comargin.M3LClassifier(warm_start=True).fit(X, Y[:, :2]),
        lambda: comargin.M3LClassifier().fit(X, Y),
        comargin.M3LClassifier,
    ],
    ids=["another learner", "fewer rows", "fewer labels", "no warm start", "not fitted"],
)
def test_the_state_of_another_fit(other, folder):
    folder.last_fit.learner = other()
    with pytest.raises(ValueError, match=r"learner\.cmg holds no state of this fit; delete the folder"):
        fit_with_checkpoints(comargin.M3LClassifier(), X, Y, kept=folder.last_fit)


@pytest.mark.parametrize("every", [0, -1.0, True, "60", math.nan])
def test_every_must_be_positive(folder, every):
    with pytest.raises(ValueError, match="every must be a positive number of seconds"):
        fit_with_checkpoints(comargin.M3LClassifier(), X, Y, kept=folder.last_fit, every=every)


def test_a_slice_ends_where_an_iteration_does():
    """PrML is seen within its iterations too: stopped there it would not go on as if nothing had been."""
    part = _kept_fits._Slice(0.0, [], None, lambda: False)
    assert [part(Checkpoint(n_iter, 0.0, 1.0, 0.0)) for n_iter in (0, 0, 1, 1, 2)] == [False, False, True, False, True]
