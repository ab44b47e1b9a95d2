"""Trainings that are interrupted in their search, or while cuts are learned, go on from what the folder has."""

import json
import signal
import subprocess
import sys

import numpy as np
import pytest
from sklearn.base import clone

import comargin
from comargin.data import make_correlated
from comargin.estimators import _tuning
from comargin.estimators._search_memory import Cell
from comargin.thresholds import _classifier
from comargin.training import _folder_memory, clear_checkpoint, get_model, train
from comargin.training._checkpoint import CheckpointFolder

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
    """End the search after so many cells."""
    original, cells = _folder_memory.FolderMemory.note, []

    def note(memory, cell, measured, converged):
        original(memory, cell, measured, converged)
        cells.append(cell)
        if len(cells) == n_cells:
            raise KilledError

    monkeypatch.setattr(_folder_memory.FolderMemory, "note", note)
    return cells


@pytest.mark.parametrize("model", GRIDS)
def test_cells_that_were_measured_are_not_fitted_again(model, tmp_path, monkeypatch):
    arguments = {"model": model, "grid": GRIDS[model], "folds": 2, "params": {"n_jobs": 1} if model != "ovr" else {}}
    whole = train(DATA, **arguments)
    n_cells = 2 * sum(len(values) for values in GRIDS[model].values())
    with monkeypatch.context() as patched:
        first = interrupt_after(patched, n_cells - 2)
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    known = json.loads((tmp_path / "checkpoint.json").read_text())
    assert len(known["measured"]) == len([cell for cell in first if cell.name == first[-1].name])
    with monkeypatch.context() as patched:
        second = interrupt_after(patched, 10**6)
        resumed = train(DATA, **arguments, checkpoint=tmp_path)
    in_the_last_fold = [cell for cell in first if (cell.name, cell.fold) == (first[-1].name, first[-1].fold)]
    if model in ("m3l", "lsg21", "rank-cvm"):  # a path begins again where its last solution is kept: here nowhere
        is_whole = len(in_the_last_fold) == len(GRIDS[model][first[-1].name.rpartition("__")[2]])
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


@pytest.mark.parametrize(("model", "file"), [("m3l", "search-C-1.cmg"), ("lsg21", "search-alpha-1.cmg")])
def test_a_path_goes_on_from_the_solution_that_was_kept(model, file, tmp_path, monkeypatch):
    arguments = {"model": model, "grid": GRIDS[model], "folds": 2}
    whole = train(DATA, **arguments)
    monkeypatch.setattr(_folder_memory, "EVERY", 1e-9)
    monkeypatch.setattr("comargin.training._kept_fits._WORTHWHILE", 0.0)
    with monkeypatch.context() as patched:
        interrupt_after(patched, 5)  # the second value of the second fold
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    assert (tmp_path / file).exists()
    starts, original = [], _tuning.fit_path

    def spy(learner, data, values, start):
        starts.append(start)
        return original(learner, data, values, start)

    monkeypatch.setattr(_tuning, "fit_path", spy)
    resumed = train(DATA, **arguments, checkpoint=tmp_path)
    assert [start is None for start in starts] == [False]
    assert not list(tmp_path.glob("search-*"))
    assert resumed.facts["searched"] == whole.facts["searched"]
    assert resumed.facts["objective"] == whole.facts["objective"]


@pytest.mark.parametrize("model", ["prbr", "prml", "cgm"])
def test_a_fit_of_the_search_goes_on(model, tmp_path, monkeypatch):
    """Its state is there after an end in the middle of it, and gone when it is measured."""
    tol = 1e-3 if model == "prml" else 1e-6
    arguments = {"model": model, "grid": GRIDS[model], "folds": 2, "params": {"tol": tol}}
    monkeypatch.setattr(_folder_memory, "EVERY", 1e-9)
    monkeypatch.setattr("comargin.training._kept_fits._WORTHWHILE", 0.0)
    name = next(iter(GRIDS[model]))
    file = tmp_path / f"search-{name}-0-0.cmg"

    def fail_when_kept(point):
        if file.exists():
            raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(_tuning, "_silent", lambda model, stop: set_callback(model, fail_when_kept))
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    assert file.exists()
    fits = []
    original = _folder_memory.fit_with_checkpoints

    def spy(learner, *rest, kept, **options):
        begun = kept.learner is not None
        fitted = original(learner, *rest, kept=kept, **options)
        fits.append((kept.path.name, begun))
        return fitted

    monkeypatch.setattr(_folder_memory, "fit_with_checkpoints", spy)
    resumed = train(DATA, **arguments, checkpoint=tmp_path)
    assert (file.name, True) in fits
    assert sum(begun for _, begun in fits) == 1
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
    original, folds = _classifier.fit_and_score, []

    def fail_at_the_third(*rest, **options):
        folds.append(1)
        if len(folds) == 3:
            raise KilledError
        return original(*rest, **options)

    monkeypatch.setattr(_classifier, "fit_and_score", fail_at_the_third)
    with pytest.raises(KilledError):
        train(DATA, **arguments, checkpoint=tmp_path)
    assert sorted(file.name for file in tmp_path.glob("cuts-*")) == ["cuts-0.npy", "cuts-1.npy"]
    resumed = train(DATA, **arguments, checkpoint=tmp_path)
    assert len(folds) == 4
    assert resumed.facts["fold_measures"] == whole.facts["fold_measures"]
    assert np.array_equal(resumed.predict(DATA.X).toarray(), whole.predict(DATA.X).toarray())
    assert not list(tmp_path.glob("cuts-*"))


def test_scores_that_are_none(tmp_path):
    folder = CheckpointFolder(tmp_path, "a1b2")
    assert folder.scores(0, (2, 3)) is None
    folder.keep_scores(0, np.ones((2, 3)))
    assert np.array_equal(folder.scores(0, (2, 3)), np.ones((2, 3)))
    path = tmp_path / "cuts-0.npy"
    huge = path.read_bytes().replace(b"(2, 3)", b"(99999999999, 3)")
    for data in (b"", b"\x93NUMPY", huge):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=r"cuts-0\.npy does not hold scores; delete the folder"):
            folder.scores(0, (2, 3))
    objects = np.array([[{}]], dtype=object)
    for wrong in (np.ones((3, 3)), np.ones(6), np.ones((2, 3), dtype=np.float32), np.array([["a"] * 3] * 2), objects):
        np.save(path, wrong, allow_pickle=True)
        with pytest.raises(ValueError, match=r"cuts-0\.npy does not hold (the )?scores"):
            folder.scores(0, (2, 3))


def test_what_was_measured_is_kept_until_the_best_is_found(tmp_path):
    folder = CheckpointFolder(tmp_path, "a1b2")
    folder.add_measured(Cell("C", 0, 1), 0.25, True)
    folder.add_measured(Cell("gamma", 1, 0), float("nan"), False)
    folder.fit_of_search("C", 0).learner = comargin.M3LClassifier()
    folder.fit_of_search("C2", 0).learner = comargin.M3LClassifier()
    again = CheckpointFolder(tmp_path, "a1b2")
    assert again.measured[Cell("C", 0, 1)] == (0.25, True)
    assert np.isnan(again.measured[Cell("gamma", 1, 0)][0])
    again.add_found("C", 3.0)
    assert CheckpointFolder(tmp_path, "a1b2").measured.keys() == {Cell("gamma", 1, 0)}
    assert [file.name for file in tmp_path.glob("search-*")] == ["search-C2-0.cmg"]


def test_weights_are_refused():
    memory = _folder_memory.FolderMemory.__new__(_folder_memory.FolderMemory)
    with pytest.raises(ValueError, match="has no weights, got sample_weight"):
        memory.fit(Cell("C", 0, 0), clone(get_model("m3l").estimator), [[0.0]], [[1]], {"sample_weight": [1.0]})


KILLED = """
import os, sys, signal
from comargin.data import make_correlated
from comargin.training import _folder_memory, _kept_fits, train
_folder_memory.EVERY, _kept_fits._WORTHWHILE = 1e-9, 0.0
original, cells = _folder_memory._KeptPath.solved, []
def solved(path, cell, solution):
    original(path, cell, solution)
    print("cell", *cell, flush=True)
    cells.append(cell)
    if len(cells) == 4:
        os.kill(os.getpid(), signal.SIGKILL)
_folder_memory._KeptPath.solved = solved
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
    assert len(json.loads((tmp_path / "checkpoint.json").read_text())["measured"]) == 4
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
        patched.setattr(CheckpointFolder, "add_found", lambda *_: (_ for _ in ()).throw(KilledError))
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=folder)
    return sorted(json.loads((folder / "checkpoint.json").read_text())["measured"])


def test_a_fit_that_has_ended_is_not_fitted_again(tmp_path, monkeypatch):
    arguments = {"model": "cgm", "params": {"alpha": 0.3}, "tune": False}
    first = train(DATA, **arguments, checkpoint=tmp_path)
    monkeypatch.setattr(comargin.CGMClassifier, "fit", lambda *_, **__: pytest.fail("it has ended"))
    again = train(DATA, **arguments, checkpoint=tmp_path)
    assert again.facts["objective"] == first.facts["objective"]
    assert np.array_equal(again.scores(DATA.X), first.scores(DATA.X))
    assert vars(again.model[-1]).keys() == vars(first.model[-1]).keys()


def test_any_value_can_be_chosen(tmp_path):
    grid = {"class_weight": [{0: 1.0, 1: 3.0}, "balanced", None]}
    one = train(DATA, params={"C": 1.0}, grid=grid, checkpoint=tmp_path)
    assert train(DATA, params={"C": 1.0}, grid=grid, checkpoint=tmp_path).facts["searched"] == one.facts["searched"]


@pytest.mark.parametrize("change", ["place", "rule", "measures"])
def test_a_folder_that_was_changed(change, tmp_path):
    arguments = {"grid": {"C": [0.1, 1.0]}}
    train(DATA, **arguments, checkpoint=tmp_path)
    facts = tmp_path / "checkpoint.json"
    known = json.loads(facts.read_text())
    if change == "place":
        known["found"]["C"] = 7
    elif change == "measures":
        known["found"]["measures on held-out folds"] = 5
    else:
        comargin.save(comargin.M3LClassifier(), tmp_path / "rule.cmg")
    facts.write_text(json.dumps(known))
    with pytest.raises(ValueError, match="delete"):
        train(DATA, **arguments, checkpoint=tmp_path)


@pytest.mark.parametrize("model", ["m3l", "rank-cvm", "lsg21"])
def test_a_path_refuses_states_of_other_rows(model, tmp_path, monkeypatch):
    arguments = {"model": model, "grid": GRIDS[model], "folds": 2}
    monkeypatch.setattr(_folder_memory, "EVERY", 1e-9)
    monkeypatch.setattr("comargin.training._kept_fits._WORTHWHILE", 0.0)
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2)
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    name = next(iter(GRIDS[model]))
    file = tmp_path / (f"search-{name}-0-1.cmg" if model == "rank-cvm" else f"search-{name}-0.cmg")
    assert file.exists() == (model != "rank-cvm")  # whose gamma is no path: its next fit is not begun
    learner = clone(get_model(model).estimator).set_params(warm_start=True)
    comargin.save(learner.fit(np.vstack([DATA.X] * 2), np.vstack([DATA.Y] * 2)), file)
    with pytest.raises(ValueError, match=r"search-.*\.cmg holds no state of this fit; delete the folder"):
        train(DATA, **arguments, checkpoint=tmp_path)


def test_a_solution_without_its_measure(tmp_path, monkeypatch):
    arguments = {"grid": GRIDS["m3l"], "folds": 2}
    monkeypatch.setattr(_folder_memory, "EVERY", 1e-9)
    monkeypatch.setattr("comargin.training._kept_fits._WORTHWHILE", 0.0)
    with monkeypatch.context() as patched:
        interrupt_after(patched, 2)
        with pytest.raises(KilledError):
            train(DATA, **arguments, checkpoint=tmp_path)
    facts = tmp_path / "checkpoint.json"
    facts.write_text(json.dumps({**json.loads(facts.read_text()), "measured": []}))
    with pytest.raises(ValueError, match="has a solution of a value that was not measured; delete the folder"):
        train(DATA, **arguments, checkpoint=tmp_path)


def test_one_training_at_a_time(tmp_path):
    folder = CheckpointFolder(tmp_path, "a1b2")
    with (
        folder.in_use(),
        pytest.raises(ValueError, match="is in use by another training"),
        CheckpointFolder(tmp_path, "a1b2").in_use(),
    ):
        pass
    with CheckpointFolder(tmp_path, "a1b2").in_use():
        pass


def test_no_room(tmp_path, monkeypatch):
    folder = CheckpointFolder(tmp_path, "a1b2")

    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.raises(OSError, match=r"cuts-0\.npy cannot be written: No space left on device; make room"):
        folder.keep_scores(0, np.ones((2, 2)))
    assert [file.name for file in tmp_path.iterdir()] == ["checkpoint.json"]
