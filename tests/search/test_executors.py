"""Searches and cuts give the same wherever their tasks run; for comparisons see ``tests/comparison``."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from comargin import M3LClassifier, M3LClassifierCV, RankCVMClassifier
from comargin.core.executor import Processes, Threads
from comargin.core.memory import Memory
from comargin.data import make_correlated
from comargin.decisions import fit_with_cuts, make_decider
from comargin.search import path_cv
from comargin.search.tuning import tune_with_memory
from comargin.training import _folder
from comargin.training._folder import FolderMemory

DATA = make_correlated(90, n_features=5, n_labels=3, seed=0)
EXECUTORS = {"this thread": Threads(1), "threads": Threads(2), "processes": Processes(2)}


def search(model, grid, executor, memory=None):
    options = {"criterion": "micro_f1", "cv": 3, "random_state": 0, "verbose": 1, "refit": False}
    return tune_with_memory(model, DATA.X, DATA.Y, grid, executor=executor, memory=memory or Memory(), **options)


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (M3LClassifier(random_state=0), {"C": [0.1, 10.0, 1.0], "label_correlation": [None, "train"]}),
        (make_pipeline(StandardScaler(), RankCVMClassifier(random_state=0)), {"rankcvmclassifier__C": [0.1, 1.0]}),
        (OneVsRestClassifier(LogisticRegression()), {"estimator__max_iter": [1, 100]}),
    ],
    ids=["path and values", "path in a pipeline", "foreign"],
)
def test_a_search_is_the_same_everywhere(model, grid, capfd):
    found, lines = [], []
    for executor in EXECUTORS.values():
        if isinstance(model, OneVsRestClassifier):
            with pytest.warns(ConvergenceWarning, match="3 of the 6 fits of the folds did not converge"):
                found.append(search(model, grid, executor))
        else:
            found.append(search(model, grid, executor))
        lines.append(len([line for line in capfd.readouterr().err.splitlines() if line.startswith("tune: ")]))
    assert lines == [3 * sum(map(len, grid.values()))] * 3
    for other in found[1:]:
        assert other.best_params == found[0].best_params
        for step, expected in zip(other.steps, found[0].steps, strict=True):
            assert_array_equal(step.fold_values, expected.fold_values)
            assert_array_equal(step.converged, expected.converged)


def test_an_interrupted_search_goes_on_in_processes(tmp_path, monkeypatch):
    """The states of its fits are kept by the processes, its cells here."""
    monkeypatch.setattr(_folder, "EVERY", 0.0)
    grid = {"C": [0.1, 1.0, 10.0]}
    model = M3LClassifier(random_state=0, tol=1e-6)
    memory = FolderMemory(tmp_path, "a1b2")
    keep = memory.keep

    def end(key, value):
        keep(key, value)
        raise KeyboardInterrupt

    memory.keep = end
    with pytest.raises(KeyboardInterrupt):
        search(model, grid, Threads(1), memory)
    assert (tmp_path / "search-C-0-state.cmg").exists()
    resumed = search(model, grid, Processes(2), FolderMemory(tmp_path, "a1b2"))
    assert_array_equal(resumed.steps[0].fold_values, search(model, grid, Threads(1)).steps[0].fold_values)
    assert [file.name for file in tmp_path.glob("*.cmg")] == ["best-C.cmg"]


def test_a_path_of_an_estimator_is_the_same_in_processes(monkeypatch):
    model = M3LClassifierCV([0.1, 1.0, 10.0], cv=3, random_state=0, n_jobs=2)
    expected = model.fit(DATA.X, DATA.Y).scores_
    monkeypatch.setattr(path_cv, "Threads", Processes)
    assert_array_equal(model.fit(DATA.X, DATA.Y).scores_, expected)


def test_cuts_are_the_same_everywhere():
    fits = [
        fit_with_cuts(
            make_decider(M3LClassifier(random_state=0), "per-label", folds=3, seed=0), DATA.X, DATA.Y, executor=executor
        )
        for executor in EXECUTORS.values()
    ]
    for model, measures in fits[1:]:
        assert_array_equal(model.thresholds_, fits[0][0].thresholds_)
        assert measures == fits[0][1]


def test_a_memory_can_be_sent_away(tmp_path):
    memory = FolderMemory(tmp_path, "a1b2")
    memory.keep("cuts/0", np.ones((2, 2)))
    assert_array_equal(pickle.loads(pickle.dumps(memory)).recall("cuts/0"), np.ones((2, 2)))
