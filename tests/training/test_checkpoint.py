"""Folders that survive any end of the process, and fits that go on from their states to where one fit ends."""

import math
import os
import subprocess
import sys
import time

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

import comargin
from comargin.core.memory import Memory, StopRequest, fit_and_keep
from comargin.core.result import FitState
from comargin.data import make_cgm_toy
from comargin.decisions import GlobalCut
from comargin.persistence import ModelFileError, save
from comargin.training import _folder, clear_checkpoint
from comargin.training._folder import FolderMemory

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
    return FolderMemory(tmp_path / "run", "a1b2")


@pytest.fixture
def every_state(monkeypatch):
    """States are kept at every certificate."""
    monkeypatch.setattr(_folder, "EVERY", 0.0)
    monkeypatch.setattr(_folder, "_WORTHWHILE", 0.0)


class AllStates(Memory):
    """Keeps all states of a fit, in memory; a fit begins with the one it is given."""

    def __init__(self, first=None):
        self.states, self.first = [], first

    def recall_state(self, key, learner, shape):
        return self.first

    def keep_state(self, key, state, *, now=False):
        self.states.append(state())


def test_what_was_kept_comes_back(tmp_path):
    values = {
        "best/C": 3,
        "search/C/0/1": (0.25, True),
        "cuts/0": np.arange(6.0).reshape(2, 3),
        "rule": (GlobalCut().fit(rng.normal(size=Y.shape), Y), {"f1": 1 / 3, "nothing": None, "nan": math.nan}),
    }
    folder = FolderMemory(tmp_path / "a" / "b", "a1b2")
    assert folder.recall("best/C") is None
    for key, value in values.items():
        folder.keep(key, value)
    again = FolderMemory(tmp_path / "a" / "b", "a1b2")
    assert again.recall("best/C") == 3
    assert again.recall("search/C/0/1") == (0.25, True)
    assert np.array_equal(again.recall("cuts/0"), values["cuts/0"])
    rule, measures = again.recall("rule")
    assert rule.cut_ == values["rule"][0].cut_
    assert measures["f1"] == 1 / 3
    assert math.isnan(measures["nan"])


def test_what_is_forgotten(folder):
    for key in ("search/C/0/1", "search/C/1", "search/C2/0", "best/C"):
        folder.keep(key, 1.0)
    folder.forget("search/C")
    names = {file.name for file in folder.path.glob("*.cmg")}
    assert names == {"search-C2-0.cmg", "best-C.cmg"}


@pytest.mark.parametrize("value", [LogisticRegression, print, object()])
def test_what_cannot_be_kept(folder, value):
    folder.keep("best/C", 1)
    with pytest.raises(TypeError, match="cannot be saved"):
        folder.keep("best/gamma", value)
    assert folder.recall("best/C") == 1
    assert folder.recall("best/gamma") is None


def test_broken_and_foreign_files(folder):
    (folder.path / "rule.cmg").write_bytes(b"PK")
    with pytest.raises(ModelFileError, match=r"rule\.cmg"):
        folder.recall("rule")
    save(comargin.M3LClassifier(), folder.path / "rule.cmg")
    with pytest.raises(ValueError, match=r"rule\.cmg holds no result; delete the folder"):
        folder.recall("rule")


def test_another_run_is_refused(folder):
    folder.keep("best/C", 1)
    with pytest.raises(
        ValueError, match=r"run is of another training run \(other data, settings or version\); name another"
    ):
        FolderMemory(folder.path, "ffff")
    assert FolderMemory(folder.path, "a1b2").recall("best/C") == 1


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"format": 2}', '{"identity": "a1b2"}'])
def test_a_file_that_is_no_checkpoint(tmp_path, text):
    (tmp_path / "checkpoint.json").write_text(text)
    with pytest.raises(ValueError, match=r"checkpoint\.json is no checkpoint of a training; name another folder"):
        FolderMemory(tmp_path, "a1b2")
    assert (tmp_path / "checkpoint.json").read_text() == text


def test_folders_that_are_none(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="is a file, not a folder"):
        FolderMemory(tmp_path / "file", "a1b2")
    (tmp_path / "rule.cmg").write_text("mine")
    with pytest.raises(ValueError, match=r"has a rule\.cmg but no checkpoint\.json"):
        FolderMemory(tmp_path, "a1b2")
    assert (tmp_path / "rule.cmg").read_text() == "mine"


def test_only_its_own_files_are_removed(folder):
    others = {"notes.txt", "tagger.cmg", ".hidden.part", "0123456789abcdef.part"}
    for name in others:
        (folder.path / name).write_text("mine")
    left = folder.path / ".0123456789abcdef.part"
    left.write_text("half a file")
    folder.keep("rule", 1)
    folder.keep("search/C/0/1", 2)
    with FolderMemory(folder.path, "a1b2").in_use():
        assert not left.exists()
    clear_checkpoint(folder.path)
    assert {file.name for file in folder.path.iterdir()} == others
    assert FolderMemory(folder.path, "another").recall("rule") is None


def test_one_training_at_a_time(tmp_path):
    folder = FolderMemory(tmp_path, "a1b2")
    with (
        folder.in_use(),
        pytest.raises(ValueError, match="is in use by another training"),
        FolderMemory(tmp_path, "a1b2").in_use(),
    ):
        pass
    with FolderMemory(tmp_path, "a1b2").in_use():
        pass


def test_no_room(folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_folder, "save", full)
    with pytest.raises(OSError, match=r"cuts-0\.cmg cannot be written: No space left on device; make room"):
        folder.keep("cuts/0", np.ones((2, 2)))
    assert [file.name for file in folder.path.iterdir()] == ["checkpoint.json"]


WRITER = """
import sys
import numpy as np
from comargin.core.result import FitState
from comargin.training._folder import FolderMemory, clear_checkpoint
folder = FolderMemory(sys.argv[1], "a1b2")
sys.stdout.write("begun\\n")
sys.stdout.flush()
for k in range(10**9):
    folder.keep("best/C", k)
    folder.keep("cuts/0", np.ones((300, 200)))
    if k % 7 == 6:
        clear_checkpoint(folder.path)
        folder = FolderMemory(sys.argv[1], "a1b2")
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
        folder = FolderMemory(tmp_path, "a1b2")
        with folder.in_use():
            pass
        scores = folder.recall("cuts/0")
        assert scores is None or scores.shape == (300, 200)
        assert {file.name for file in tmp_path.iterdir()} <= {"checkpoint.json", "best-C.cmg", "cuts-0.cmg"}


@pytest.mark.parametrize("name", LEARNERS)
def test_states_change_nothing_and_every_one_leads_to_the_end(name):
    X, Y = data_of(name)
    one, seen = clone(LEARNERS[name]).fit(X, Y), []
    memory = AllStates()
    learner = clone(LEARNERS[name]).set_params(callback=seen.append)
    assert fit_and_keep(learner, X, Y, memory, "fit") is learner
    assert learner.objective_ == one.objective_
    assert np.array_equal(learner.decision_function(X), one.decision_function(X))
    assert vars(learner).keys() == vars(one).keys()
    assert learner.get_params() == {**one.get_params(), "callback": learner.callback}
    assert set(learner.history_) <= set(seen)
    assert len(memory.states) >= min(2, len(one.history_))
    # The first state is that before the first step; one in the middle, and the last.
    for state in {id(state): state for state in (memory.states[len(memory.states) // 2], memory.states[-1])}.values():
        assert state.solution.shape == Y.shape
        again = fit_and_keep(clone(LEARNERS[name]), X, Y, AllStates(state), "fit")
        assert again.objective_ == pytest.approx(one.objective_, rel=1.5 * one.tol, abs=0.0)
        assert again.duality_gap_ <= 1.01 * again.tol * again.objective_
        assert vars(again).keys() == vars(one).keys()
        # One history, from the first moment of the first fit to the last of this one.
        assert again.n_iter_ == again.history_[-1].n_iter
        assert again.history_[0].n_iter == one.history_[0].n_iter
        for k in (0, 1):
            numbers = [point[k] for point in again.history_]
            assert numbers == sorted(numbers)
        if name.startswith("cgm"):
            assert again.cliques_ == one.cliques_
            assert [each.n_cliques for each in again.rounds_] == [each.n_cliques for each in one.rounds_]


@pytest.mark.parametrize("name", ["m3l", "cgm", "prml", "prbr", "lsg21", "rank-cvm", "rank-svm", "structured"])
def test_a_fit_goes_on_in_another_process(name, folder, every_state):
    """Another learner, that knows only the folder."""
    X, Y = data_of(name)

    def fail(point):
        if (folder.path / "fit-state.cmg").exists() and point.n_iter > 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fit_and_keep(clone(LEARNERS[name]).set_params(callback=fail), X, Y, folder, "fit")
    first = []
    learner = clone(LEARNERS[name]).set_params(callback=lambda point: first.append(point))
    fit_and_keep(learner, X, Y, FolderMemory(folder.path, "a1b2"), "fit")
    one = clone(LEARNERS[name]).fit(X, Y)
    assert learner.objective_ == pytest.approx(one.objective_, rel=1.5 * one.tol, abs=0.0)
    assert first[0].gap < one.history_[0].gap or first[0].n_iter > 0


KILLED = """
import os, sys
sys.path[:0] = sys.argv[2:]
from test_checkpoint import LEARNERS, clone, data_of, FolderMemory, _folder, fit_and_keep
_folder.EVERY = _folder._WORTHWHILE = 0.0
for name, moment in (("m3l", 9), ("cgm", 25)):
    folder = FolderMemory(os.path.join(sys.argv[1], name), "a1b2")
    begun = (folder.path / "fit-state.cmg").exists()
    def callback(point, begun=begun, moment=moment):
        if not begun and point.n_iter > moment:
            os.kill(os.getpid(), 9)
    learner = clone(LEARNERS[name]).set_params(callback=callback)
    fit_and_keep(learner, *data_of(name), folder, "fit")
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
def test_max_iter_counts_all_parts(name):
    learner = clone(LEARNERS[name]).set_params(tol=0.0, max_iter=17)
    with pytest.warns(ConvergenceWarning) as one:
        clone(learner).fit(X, Y)
    memory = AllStates()
    with pytest.warns(ConvergenceWarning) as caught:
        fit_and_keep(clone(learner), X, Y, memory, "fit")
    with pytest.warns(ConvergenceWarning) as again:
        fit_and_keep(learner, X, Y, AllStates(memory.states[-2]), "fit")
    assert learner.n_iter_ == 17
    assert len(caught) == len(one) == len(again) == 1
    assert "stopped after 17 iterations (max_iter=17)" in str(again[0].message)
    assert caught[0].filename == one[0].filename == __file__


def test_max_iter_with_labels_that_are_solved_before():
    """Iterations of the labels alone count once, also in a resumed fit."""
    learner = clone(LEARNERS["structured, a label alone"]).set_params(tol=0.0, max_iter=17)
    memory = AllStates()
    with pytest.warns(ConvergenceWarning):
        whole = fit_and_keep(clone(learner), X, Y, memory, "fit")
    with pytest.warns(ConvergenceWarning):
        fit_and_keep(learner, X, Y, AllStates(memory.states[-2]), "fit")
    assert learner.n_iter_ == whole.n_iter_ > 17
    assert learner.objective_ == pytest.approx(whole.objective_, rel=0.05)


def test_max_iter_of_every_round():
    learner = clone(LEARNERS["cgm"]).set_params(tol=1e-9, max_iter=12, max_cliques=2)
    memory = AllStates()
    with pytest.warns(ConvergenceWarning):
        one = fit_and_keep(clone(learner), TOY.X, TOY.Y, memory, "fit")
    with pytest.warns(ConvergenceWarning, match=r"\(max_iter=12 in each round\)") as caught:
        fit_and_keep(learner, TOY.X, TOY.Y, AllStates(memory.states[len(memory.states) // 2]), "fit")
    assert len(caught) == 1
    assert learner.cliques_ == one.cliques_
    assert learner.n_iter_ <= 1.1 * one.n_iter_


def test_a_warm_start_of_the_caller_stays_one():
    learner = clone(LEARNERS["m3l"]).set_params(warm_start=True, C=0.99).fit(X, Y)
    fit_and_keep(learner.set_params(C=1.0), X, Y, AllStates(), "fit")
    assert learner.warm_start
    assert learner.history_[0].gap < clone(LEARNERS["m3l"]).fit(X, Y).history_[0].gap
    assert learner.fit(X, Y).n_iter_ == 0


def test_a_fit_without_states_begins_again():
    learner = comargin.RankCVMClassifier(C=50.0, tol=1e-2, solver="fw", random_state=0)
    memory = AllStates()
    fit_and_keep(learner, X, Y, memory, "fit")
    assert memory.states == []


def test_a_stopped_fit_keeps_its_state_at_once(folder):
    """Before the first minute is over."""
    stopped = fit_and_keep(clone(LEARNERS["m3l"]), X, Y, folder, "fit", stop=StopRequest(lambda: True))
    state = FolderMemory(folder.path, "a1b2").recall_state("fit", LEARNERS["m3l"], Y.shape)
    assert state.history[-1].primal == stopped.objective_


def test_a_fit_of_ones_own_is_called(folder):
    class More(comargin.M3LClassifier):
        def fit(self, X, y, sample_weight=None):
            self.more_ = True
            return super().fit(X, y, sample_weight)

    assert fit_and_keep(More(random_state=0), X, Y, folder, "fit").more_


def test_other_warnings_are_given_once(folder, every_state):
    noise = np.random.default_rng(0).integers(0, 2, Y.shape)
    learner = comargin.PrMLClassifier(C=0.1, rank=2, n_init=3, random_state=0)
    with pytest.warns(UserWarning, match="all predictors are zero") as caught:
        fit_and_keep(learner, X, noise, folder, "fit")
    assert sum("all predictors are zero" in str(each.message) for each in caught) == 1


@pytest.mark.parametrize("name", ["m3l", "cgm", "prml", "lsg21 irls"])
def test_stopped_by_request_and_gone_on(name, folder, every_state):
    data = data_of(name)
    asked = []
    learner = clone(LEARNERS[name])
    fit_and_keep(learner, *data, folder, "fit", stop=StopRequest(lambda: asked.append(1) or len(asked) == 2))
    assert len(asked) == 2
    assert len(learner.history_) == 2
    assert learner.predict(data[0]).shape == data[1].shape
    again = fit_and_keep(clone(LEARNERS[name]), *data, FolderMemory(folder.path, "a1b2"), "fit")
    one = clone(LEARNERS[name]).fit(*data)
    assert again.objective_ == pytest.approx(one.objective_, rel=1.5 * one.tol, abs=0.0)
    assert again.history_[0].n_iter == one.history_[0].n_iter


def test_the_callers_callback_stops():
    whole = comargin.StructuredSVMClassifier(alpha=1e-4, tol=1e-4, random_state=0).fit(X, Y)
    learner = clone(whole).set_params(callback=lambda point: point.n_iter >= 10)
    fit_and_keep(learner, X, Y, AllStates(), "fit")
    assert 10 <= learner.n_iter_ < whole.n_iter_


@pytest.mark.parametrize(
    "model",
    [OneVsRestClassifier(LogisticRegression()), comargin.M3LClassifierCV(Cs=[0.1, 1.0], cv=2, random_state=0)],
)
def test_others_are_fitted_in_one(model, folder, every_state):
    fitted = fit_and_keep(clone(model), X, Y, folder, "fit")
    assert np.array_equal(fitted.predict(X), clone(model).fit(X, Y).predict(X))
    assert [file.name for file in folder.path.iterdir()] == ["checkpoint.json"]


@pytest.mark.parametrize(
    "state",
    [
        lambda: FitState(comargin.LSG21Classifier(warm_start=True).fit(X, Y)._dual_start),
        lambda: FitState(np.zeros((80, 4))),
        lambda: FitState(np.zeros((160, 2))),
        lambda: comargin.M3LClassifier().fit(X, Y),
    ],
    ids=["another learner", "fewer rows", "fewer labels", "a learner"],
)
def test_the_state_of_another_fit(state, folder):
    save(state(), folder.path / "fit-state.cmg")
    with pytest.raises(ValueError, match=r"fit-state\.cmg holds no state of this fit; delete the folder"):
        fit_and_keep(comargin.M3LClassifier(), X, Y, folder, "fit")
