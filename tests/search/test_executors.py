"""Searches, cross-fits, trainings and comparisons give the same wherever their tasks run."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from comargin import DecisionClassifierCV, M3LClassifier, M3LClassifierCV, RankCVMClassifier, tune
from comargin.comparison import compare
from comargin.core.executor import Processes, Threads, using
from comargin.data import make_correlated
from comargin.decisions.workbench import fit_decider, make_decider
from comargin.training import _folder, train
from comargin.training._folder import FolderMemory

DATA = make_correlated(90, n_features=5, n_labels=3, seed=0)
EXECUTORS = {"this thread": Threads(1), "threads": Threads(2), "processes": Processes(2)}


class Backwards:
    """An executor of a user: the last task first."""

    def __init__(self):
        self.n_tasks = 0

    def results(self, tasks):
        for k in reversed(range(len(tasks))):
            self.n_tasks += 1
            yield from ((k, result) for result in tasks[k].results())


def search(model, grid, executor, memory=None):
    options = {"criterion": "micro_f1", "cv": 3, "random_state": 0, "verbose": 1, "refit": False}
    with using(executor):
        return tune(model, DATA.X, DATA.Y, grid, memory=memory, **options)


def scores_of_all_cells():
    return [cell["micro_f1"] for cell in compare(DATA, ["m3l", "knn"], folds=2, inner_folds=2).cells]


@pytest.mark.parametrize(
    ("work", "n_tasks"),
    [
        (lambda: tune(M3LClassifier(random_state=0), DATA.X, DATA.Y, {"C": [0.1, 1.0]}).steps[0].fold_values, 3),
        (lambda: M3LClassifierCV([0.1, 1.0], cv=4, random_state=0).fit(DATA.X, DATA.Y).scores_, 4),
        (lambda: DecisionClassifierCV(M3LClassifier(random_state=0)).fit(DATA.X, DATA.Y).predict_proba(DATA.X), 3),
        (lambda: train(DATA, "m3l").probabilities(DATA.X), 3 + 6 + 3),  # paths along C, pairs of priors, cross-fit
        (scores_of_all_cells, 4),  # what a cell searches is its own matter
    ],
    ids=["tune", "path", "decisions", "train", "compare"],
)
def test_an_executor_of_ones_own(work, n_tasks):
    executor, expected = Backwards(), work()
    with using(executor):
        found = work()
    assert_array_equal(found, expected)
    assert executor.n_tasks == n_tasks
    work()
    assert executor.n_tasks == n_tasks  # and not after the block


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


def test_a_path_of_an_estimator_is_the_same_in_processes():
    model = M3LClassifierCV([0.1, 1.0, 10.0], cv=3, random_state=0, n_jobs=2)
    expected = model.fit(DATA.X, DATA.Y).scores_
    with using(Processes(2)):
        assert_array_equal(model.fit(DATA.X, DATA.Y).scores_, expected)


@pytest.mark.parametrize("thresholds", ["aim", "per-label"])
def test_cuts_are_the_same_everywhere(thresholds):
    fits = []
    for executor in EXECUTORS.values():
        with using(executor):
            decider = make_decider(M3LClassifier(random_state=0), thresholds, folds=3, seed=0)
            fits.append(fit_decider(decider, DATA.X, DATA.Y))
    for model, measures in fits[1:]:
        assert_array_equal(model.predict(DATA.X), fits[0][0].predict(DATA.X))
        assert measures == fits[0][1]


def test_a_memory_can_be_sent_away(tmp_path):
    memory = FolderMemory(tmp_path, "a1b2")
    memory.keep("cuts/0", np.ones((2, 2)))
    assert_array_equal(pickle.loads(pickle.dumps(memory)).recall("cuts/0"), np.ones((2, 2)))
