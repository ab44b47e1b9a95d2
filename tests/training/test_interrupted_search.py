"""Trainings that are interrupted in their search, or while cuts are learned, go on from what the folder has."""

import dataclasses
import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.tree import ExtraTreeClassifier

import comargin
from comargin.core import memory
from comargin.core.memory import Kept
from comargin.data import make_correlated
from comargin.decisions import cross_fit
from comargin.search import _fold_tasks
from comargin.training import ModelRecipe, _folder, clear_checkpoint, train
from comargin.training._folder import FolderMemory

DATA = make_correlated(150, n_features=6, n_labels=4, seed=3)

# One learner of each kind: along a path upwards, downwards, with kernels, value by value with states that are shown,
# stopped and gone on, and a foreign one.
GRIDS = {
    "m3l": {"C": [0.1, 10.0, 1.0]},
    "lsg21": {"alpha": [0.1, 3.0, 0.5]},
    "rank-cvm": {"gamma": [0.05, 0.5], "C": [0.1, 10.0]},
    "prbr": {"C": [0.1, 1.0], "gamma2": [0.1, 1.0]},
    "prml": {"C": [0.1, 1.0]},
    "cgm": {"alpha": [1.0, 0.1]},
    "ovr": {"estimator__C": [0.1, 1.0]},
}


class KilledError(Exception):
    """Ends a training, like a kill."""


def interrupt_after(monkeypatch, n_cells):
    """End the search after so many cells; the list has the keys of those that were fitted."""
    original, cells = FolderMemory.keep, []

    def keep(memory, key, value):
        original(memory, key, value)
        if key.startswith("search/"):
            cells.append(key)
            if len(cells) == n_cells:
                raise KilledError

    monkeypatch.setattr(FolderMemory, "keep", keep)
    return cells


def name_of(cell):
    return cell.split("/")[1]


@pytest.fixture
def every_state(monkeypatch):
    monkeypatch.setattr(_folder, "EVERY", 0.0)
    monkeypatch.setattr(_folder, "_WORTHWHILE", 0.0)


@pytest.mark.parametrize("model", GRIDS)
def test_cells_that_were_measured_are_not_fitted_again(model, tmp_path, monkeypatch):
    arguments = {"model": model, "grid": GRIDS[model], "folds": 2, "params": {"n_jobs": 1} if model != "ovr" else {}}
    whole = train(DATA, **arguments)
    n_cells = 2 * sum(len(values) for values in GRIDS[model].values())
    with monkeypatch.context() as patched:
        first = interrupt_after(patched, n_cells - 2)
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    known = list(tmp_path.glob(f"search-{name_of(first[-1])}-*.cmg"))
    assert len(known) == len([cell for cell in first if name_of(cell) == name_of(first[-1])])
    with monkeypatch.context() as patched:
        second = interrupt_after(patched, 10**6)
        resumed = train(DATA, **arguments, checkpoint=tmp_path)
    in_the_last_fold = [cell for cell in first if cell.split("/")[:3] == first[-1].split("/")[:3]]
    if model in ("m3l", "lsg21", "rank-cvm"):  # a path begins again where its last solution is kept: here nowhere
        is_whole = len(in_the_last_fold) == len(GRIDS[model][name_of(first[-1])])
        assert set(first) & set(second) == (set() if is_whole else set(in_the_last_fold))
    else:
        assert not set(first) & set(second)
    assert len(set(first) | set(second)) == n_cells
    assert resumed.facts["searched"] == whole.facts["searched"]
    assert resumed.facts["objective"] == whole.facts["objective"] if model != "ovr" else True
    assert resumed.facts["fold_measures"] == whole.facts["fold_measures"]
    assert np.array_equal(resumed.scores(DATA.X), whole.scores(DATA.X))
    clear_checkpoint(tmp_path / ".")
    assert not tmp_path.exists()


@pytest.mark.parametrize("model", ["m3l", "lsg21"])
def test_a_path_goes_on_from_the_solution_that_was_kept(model, tmp_path, monkeypatch, every_state):
    arguments = {"model": model, "grid": GRIDS[model], "folds": 2}
    whole = train(DATA, **arguments)
    with monkeypatch.context() as patched:
        interrupt_after(patched, 5)  # the second value of the second fold
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    assert len(list(tmp_path.glob("search-*-1-state.cmg"))) == 1
    starts, original = [], _fold_tasks.fit_path

    def spy(learner, data, values, state, keep):
        starts.append(state)
        return original(learner, data, values, state, keep)

    monkeypatch.setattr(_fold_tasks, "fit_path", spy)
    resumed = train(DATA, **arguments, checkpoint=tmp_path)
    assert [state is None for state in starts] == [False]
    assert not list(tmp_path.glob("search-*"))
    assert resumed.facts["searched"] == whole.facts["searched"]
    assert resumed.facts["objective"] == whole.facts["objective"]


@pytest.mark.parametrize("model", ["prbr", "prml", "cgm"])
def test_a_fit_of_the_search_goes_on(model, tmp_path, monkeypatch, every_state):
    """Its state is there after an end in the middle of it, and gone when it is measured."""
    tol = 1e-3 if model == "prml" else 1e-6
    arguments = {"model": model, "grid": GRIDS[model], "folds": 2, "params": {"tol": tol}}
    name = next(iter(GRIDS[model]))
    file = tmp_path / f"search-{name}-0-0-state.cmg"

    def fail_when_kept(point):
        if file.exists():
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(_fold_tasks, "silent_clone", lambda model: set_callback(model, fail_when_kept))
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    assert file.exists()
    begun, original = [], FolderMemory.recall_state

    def spy(memory, key, learner, shape):
        state = original(memory, key, learner, shape)
        begun.extend([key] if state is not None else [])
        return state

    monkeypatch.setattr(FolderMemory, "recall_state", spy)
    resumed = train(DATA, **arguments, checkpoint=tmp_path)
    assert begun == [f"search/{name}/0/0"]
    assert not list(tmp_path.glob("search-*"))
    whole = train(DATA, **arguments)
    assert resumed.facts["searched"] == whole.facts["searched"]
    assert resumed.facts["objective"] == pytest.approx(whole.facts["objective"], rel=2 * tol)


def set_callback(model, callback):
    learner = model[-1] if hasattr(model, "steps") else model
    learner.set_params(verbose=0, callback=callback)
    return model


def test_folds_that_were_scored_are_not_fitted_again(tmp_path, monkeypatch):
    arguments = {"params": {"C": 1.0}, "folds": 3}
    whole = train(DATA, **arguments)
    original, folds = memory.fit_and_keep, []

    def fail_at_the_third(*rest, **options):
        folds.extend([1] if rest[-1].startswith("cuts") else [])  # not the last fit
        if len(folds) == 3:
            raise KilledError
        return original(*rest, **options)

    monkeypatch.setattr(memory, "fit_and_keep", fail_at_the_third)
    with pytest.raises(KilledError):
        train(DATA, **arguments, checkpoint=tmp_path)
    assert sorted(file.name for file in tmp_path.glob("cuts-*")) == ["cuts-0.cmg", "cuts-1.cmg"]
    resumed = train(DATA, **arguments, checkpoint=tmp_path)
    assert len(folds) == 4
    assert resumed.facts["fold_measures"] == whole.facts["fold_measures"]
    assert np.array_equal(resumed.predict(DATA.X).toarray(), whole.predict(DATA.X).toarray())
    assert not list(tmp_path.glob("cuts-*"))


@pytest.mark.parametrize("wrong", [np.ones((3, 4)), np.ones((75, 4), dtype=np.float32), [1.0], {"a": 1}])
def test_scores_that_are_none(wrong, tmp_path, monkeypatch):
    arguments = {"params": {"C": 1.0}, "folds": 2}
    with monkeypatch.context() as patched:
        patched.setattr(cross_fit, "score_matrix", lambda *_: (_ for _ in ()).throw(KilledError))
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    folder = FolderMemory(tmp_path, json.loads((tmp_path / "checkpoint.json").read_text())["identity"])
    folder.keep("cuts/0", wrong)
    with pytest.raises(ValueError, match="cuts/0 holds no scores of 75 rows and 4 labels"):
        train(DATA, **arguments, checkpoint=tmp_path)


KILLED = """
import os, sys, signal
from comargin.data import make_correlated
from comargin.training import _folder, train
_folder.EVERY = _folder._WORTHWHILE = 0.0
original, cells = _folder.FolderMemory.keep_state, []
def keep_state(memory, key, state, *, now=False):
    original(memory, key, state)
    if not state().history:  # a solution
        print("cell", key, len(state().measured), flush=True)
        cells.append(key)
        if len(cells) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
_folder.FolderMemory.keep_state = keep_state
data = make_correlated(150, n_features=6, n_labels=4, seed=3)
tagger = train(data, grid={"C": [0.1, 1.0, 10.0]}, folds=3, checkpoint=sys.argv[1])
print("C", tagger.facts["searched"]["C"], tagger.facts["objective"])
"""


def test_killed_again_and_again(tmp_path):
    """Every process lives for four cells, and the training comes to its end."""
    printed, codes = [], []
    for _ in range(5):
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(tmp_path)], capture_output=True, text=True, check=False, timeout=120
        )
        codes.append(done.returncode)
        printed += done.stdout.splitlines()
        if done.returncode == 0:
            break
    assert codes == [-signal.SIGKILL] * 2 + [0], done.stderr
    cells = [line for line in printed if line.startswith("cell")]
    assert len(cells) == len(set(cells)) == 9
    whole = train(DATA, grid={"C": [0.1, 1.0, 10.0]}, folds=3)
    assert printed[-1].split()[1] == str(whole.facts["searched"]["C"])
    assert float(printed[-1].split()[2]) == whole.facts["objective"]


def test_killed_between_the_last_cell_and_the_choice(tmp_path, monkeypatch):
    arguments = {"grid": {"C": [0.1, 1.0]}, "folds": 2}
    with monkeypatch.context() as patched:
        interrupt_after(patched, 4)
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    assert len(list(tmp_path.glob("search-C-*.cmg"))) == 4
    for n_jobs in (1, 2):
        resumed = train(DATA, **arguments, checkpoint=tmp_path, n_jobs=n_jobs)
        assert resumed.facts["searched"] == train(DATA, **arguments).facts["searched"]


def test_near_values_are_chosen_as_without_an_end(tmp_path, monkeypatch):
    """Wherever it ends: every fit starts from the solution before it, and measures the same to the last digit."""
    arguments = {"grid": {"C": [0.3, 0.35, 0.4, 0.45]}, "folds": 2, "params": {"label_correlation": None}}
    whole = train(DATA, **arguments)
    expected = measures_of(arguments, tmp_path / "whole", monkeypatch)
    for n_cells in (2, 5, 7):
        with monkeypatch.context() as patched:
            interrupt_after(patched, n_cells)
            with pytest.raises(KilledError):
                train(DATA, **arguments, checkpoint=tmp_path / str(n_cells))
        assert measures_of(arguments, tmp_path / str(n_cells), monkeypatch) == expected
        resumed = train(DATA, **arguments, checkpoint=tmp_path / str(n_cells))
        assert resumed.facts["searched"] == whole.facts["searched"]
        assert resumed.facts["objective"] == whole.facts["objective"]


def measures_of(arguments, folder, monkeypatch):
    """What a whole search has measured, in a folder of its own."""
    with monkeypatch.context() as patched:
        patched.setattr(FolderMemory, "forget", lambda *_: (_ for _ in ()).throw(KilledError))
        patched.setattr(FolderMemory, "keep", lambda memory, key, value: memory._write(key, Kept(value)))
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=folder)
    (folder / "best-C.cmg").unlink()
    return {file.name: comargin.load(file).value for file in folder.glob("search-*.cmg")}


def test_any_value_can_be_chosen(tmp_path):
    grid = {"class_weight": [{0: 1.0, 1: 3.0}, "balanced", None]}
    one = train(DATA, params={"C": 1.0}, grid=grid, checkpoint=tmp_path)
    assert train(DATA, params={"C": 1.0}, grid=grid, checkpoint=tmp_path).facts["searched"] == one.facts["searched"]


@pytest.mark.parametrize(
    ("key", "value"), [("best/C", 7), ("best/C", 0.0), ("rule", (1, {})), ("rule", 5), ("search/C/0/1", (1, 2))]
)
def test_a_folder_that_was_changed(key, value, tmp_path):
    arguments = {"grid": {"C": [0.1, 1.0]}}
    train(DATA, **arguments, checkpoint=tmp_path)
    folder = FolderMemory(tmp_path, json.loads((tmp_path / "checkpoint.json").read_text())["identity"])
    if key.startswith("search"):
        folder.forget("best")
    folder.keep(key, value)
    with pytest.raises(ValueError, match="delete"):
        train(DATA, **arguments, checkpoint=tmp_path)


@pytest.mark.parametrize("model", ["m3l", "rank-cvm", "lsg21"])
def test_a_path_refuses_states_of_other_rows(model, tmp_path, monkeypatch, every_state):
    arguments = {"model": model, "grid": {"C": [0.1, 1.0, 10.0]} if model == "rank-cvm" else GRIDS[model], "folds": 2}
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2)
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    (file,) = tmp_path.glob("search-*-0-state.cmg")
    state = comargin.load(file)
    shape = {"shape": (300, 4)}
    doubled = {
        "m3l": lambda: np.vstack([state.solution] * 2),
        "rank-cvm": lambda: dataclasses.replace(state.solution, **shape),
        "lsg21": lambda: state.solution._replace(**shape),
    }[model]()
    comargin.save(state._replace(solution=doubled), file)
    with pytest.raises(ValueError, match=r"search-.*\.cmg holds no state of this fit; delete the folder"):
        train(DATA, **arguments, checkpoint=tmp_path)


def test_a_solution_is_kept_with_its_measures(tmp_path, monkeypatch, every_state):
    """A process that ends before the caller has recorded what a task in another one has measured loses nothing."""
    arguments = {"grid": GRIDS["m3l"], "folds": 2}
    whole = train(DATA, **arguments)
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2)
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    (tmp_path / "search-C-0-0.cmg").unlink()  # of the smallest value, the first of the path
    fits, original = [], _fold_tasks.fit_path
    monkeypatch.setattr(_fold_tasks, "fit_path", lambda *rest: fits.append(rest[2]) or original(*rest))
    resumed = train(DATA, **arguments, checkpoint=tmp_path)
    assert fits == [[10.0], [0.1, 1.0, 10.0]]
    assert resumed.facts["searched"] == whole.facts["searched"]
    assert resumed.facts["objective"] == whole.facts["objective"]


def test_a_parameter_that_is_searched_twice(tmp_path):
    """The second search of a name has results of its own, in another place of the folder."""
    grid = (("max_depth", (1, 6)), ("min_samples_leaf", (1, 30)), ("max_depth", (6, 1)))
    tree = ModelRecipe("tree", ExtraTreeClassifier(), grid, learn_cuts=False)
    whole = train(DATA, tree)
    kept = train(DATA, tree, checkpoint=tmp_path)
    assert kept.facts["searched"] == whole.facts["searched"]
    assert {file.stem for file in tmp_path.glob("best-*")} == {
        "best-max_depth_0",
        "best-min_samples_leaf",
        "best-max_depth_2",
    }


def test_results_of_a_search_that_has_ended_are_not_used(tmp_path, monkeypatch):
    """As after a kill between its best value and the end of its results."""
    arguments = {"model": "m3l", "grid": {"C": [0.1, 1.0]}, "folds": 2, "thresholds": None}
    with monkeypatch.context() as patched:
        patched.setattr(_folder.FolderMemory, "forget", lambda self, key: None)
        train(DATA, **arguments, checkpoint=tmp_path)
    assert list(tmp_path.glob("search-C-*"))
    train(DATA, **arguments, checkpoint=tmp_path)
    assert not list(tmp_path.glob("search-C-*"))
