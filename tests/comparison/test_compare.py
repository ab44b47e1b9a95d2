"""Cells: what is fitted on what, resumed, in processes, with errors."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

from comargin import M3LClassifier, training
from comargin.comparison import CellDone, Comparison, _cells, compare
from comargin.comparison._cells import seed_of
from comargin.comparison._compare import _checked_protocol
from comargin.data import Dataset, fingerprint, make_correlated
from comargin.decisions import DecisionClassifierCV
from comargin.metrics import evaluate, scorers
from comargin.model_selection import MultilabelStratifiedKFold
from comargin.training import ChainEnsemble, ModelRecipe, model_names

DUMMY = ("dummy", DummyClassifier(strategy="prior"))
TREE = ModelRecipe("tree", DecisionTreeClassifier(), (("max_depth", (1, 3)),), learn_cuts=True)
SECONDS = ("tune_seconds", "fit_seconds", "predict_seconds")


class Breaks(ClassifierMixin, BaseEstimator):
    """Raises when the first row it gets is small."""

    def __init__(self, always=False):
        self.always = always

    def fit(self, X, y):
        if self.always or X[0, 0] < 0:
            raise RuntimeError('no luck\nwith these, "rows"')
        self.n_labels_ = y.shape[1]
        return self

    def predict(self, X):
        return np.zeros((len(X), self.n_labels_), dtype=int)


class Dies(DummyClassifier):
    """Its process is ended as the system does when memory is short."""

    def fit(self, X, y):
        os.kill(os.getpid(), signal.SIGKILL)


class Counts(DummyClassifier):
    """Writes down what it is given."""

    seen: list = []  # noqa: RUF012 - filled by the tests of this process

    def fit(self, X, y):
        Counts.seen.append(np.array(X))
        return super().fit(X, y)


def without_seconds(cells):
    return [{name: value for name, value in cell.items() if name not in SECONDS} for cell in cells]


def same(first, second):
    """Equal cells in any order, nan included."""
    first, second = (sorted(map(json.dumps, without_seconds(cells))) for cells in (first, second))
    return first == second


def test_a_cell_is_the_plain_procedure(toys):
    data = toys[0]
    found = compare(data, [("knn", KNeighborsClassifier(3))], folds=3, random_state=5)
    splits = list(MultilabelStratifiedKFold(3, shuffle=True, random_state=5).split(data.X, data.Y))
    for cell, (train, test) in zip(found.cells, splits, strict=True):
        model = KNeighborsClassifier(3).fit(data.X[train], data.Y[train])
        scores = np.column_stack([p[:, 1] for p in model.predict_proba(data.X[test])])
        expected = evaluate(data.Y[test], scores, model.predict(data.X[test]))
        assert set(expected) == set(scorers)
        for name, value in expected.items():
            assert_allclose(cell[name], value, err_msg=name)
        assert (cell["n_train"], cell["n_test"]) == (len(train), len(test))
        assert min(cell[name] for name in SECONDS) >= 0.0
        assert not cell["error"]


def test_every_measure_is_taken_at_its_own_aim(toys):
    data = replace(toys[0], X=np.vstack([toys[0].X] * 3), Y=np.vstack([toys[0].Y] * 3))
    model = ModelRecipe("svm", OneVsRestClassifier(LinearSVC(random_state=0)), prepare=False)
    (cell, _) = compare(data, model, folds=2, inner_folds=3, random_state=5).cells
    ((train, test), _) = MultilabelStratifiedKFold(2, shuffle=True, random_state=5).split(data.X, data.Y)
    seed = seed_of(5, 0)
    by_hand = DecisionClassifierCV(clone(model.estimator), cv=3, random_state=seed).fit(data.X[train], data.Y[train])
    P = by_hand.predict_proba(data.X[test])
    aims = {
        "hamming_loss": "hamming_loss",
        "macro_recall": "macro_f1",
        "example_f1": "example_f1",
        "micro_f1": "micro_f1",
    }
    for name, aim in aims.items():
        expected = evaluate(data.Y[test], P, by_hand.predict(data.X[test], aim), probabilities=P)
        assert_allclose(cell[name], expected[name], err_msg=name)
        assert_allclose(cell["ranking_loss"], expected["ranking_loss"])
    by_rule = compare(data, model, folds=2, random_state=5, thresholds="per-label").cells[0]
    assert by_rule["hamming_loss"] != cell["hamming_loss"]


def test_nothing_but_the_training_part_is_seen(toys):
    data = toys[0]
    Counts.seen.clear()
    model = ModelRecipe("counts", Counts(strategy="prior"), (("random_state", (1, 2)),), True, prepare=False)
    compare(data, model, folds=3, inner_folds=2)
    splits = list(MultilabelStratifiedKFold(3, shuffle=True, random_state=0).split(data.X, data.Y))
    # For each split: two values on two folds, the cuts on two folds, all training rows.
    assert len(Counts.seen) == 3 * (4 + 2 + 1)
    for k, (train, _) in enumerate(splits):
        rows = {tuple(row) for row in data.X[train]}
        fits = Counts.seen[7 * k : 7 * (k + 1)]
        assert all(tuple(row) in rows for fit in fits for row in fit)
        assert [len(fit) == len(train) for fit in fits] == [False] * 6 + [True]


def test_parameters_are_chosen_inside_and_written_down(toys):
    found = compare(toys[0], TREE, folds=2)
    for cell in found.cells:
        assert json.loads(cell["parameters"])["max_depth"] in (1, 3)
    plain = compare(toys[0], TREE, folds=2, tune=False)
    assert [cell["parameters"] for cell in plain.cells] == ["{}", "{}"]


@pytest.mark.parametrize(("takes_aim", "criterion"), [(False, "micro_f1"), (True, "average_precision")])
def test_parameters_are_chosen_as_in_training(takes_aim, criterion, toys, monkeypatch):
    """Label sets that nothing decides on later are judged by themselves."""
    model = ModelRecipe("own cuts", M3LClassifier(), (("C", (0.1, 1.0)),), learn_cuts=True, takes_aim=takes_aim)
    used = []
    monkeypatch.setattr(_cells, "search", lambda *rest, **options: used.append(options["criterion"]) or (rest[0], {}))
    compare(toys[0], model, folds=2)
    assert used == [criterion] * 2
    assert training.train(toys[0], model).facts["criterion"] == criterion


def test_cuts_change_label_sets_and_no_ranking(toys):
    cut, natural = (
        compare(toys[1], "ovr", folds=2, tune=False, thresholds=rule).cells for rule in ("proportional", None)
    )
    assert [cell["ranking_loss"] for cell in cut] == [cell["ranking_loss"] for cell in natural]
    assert [cell["micro_f1"] for cell in cut] != [cell["micro_f1"] for cell in natural]


def test_dense_features_are_scaled_on_the_training_part_only(toys):
    Counts.seen.clear()
    compare(toys[0], ModelRecipe("counts", Counts(strategy="prior")), repeats=1, test_size=0.25, thresholds=None)
    (seen,) = Counts.seen
    assert len(seen) == 45
    assert_allclose(seen.mean(axis=0), 0.0, atol=1e-12)
    assert_allclose(seen.std(axis=0), 1.0)


def test_sparse_features_are_as_they_are(toys):
    Counts.seen.clear()
    data = replace(toys[0], X=sparse.csr_array(toys[0].X), Y=sparse.csr_array(toys[0].Y))
    found = compare(data, ["ovr-svm", "knn", ("chain", ChainEnsemble(LogisticRegression(), 2))], repeats=1, tune=False)
    assert found.failed == []
    assert fingerprint(data.X, data.Y) == fingerprint(toys[0].X, toys[0].Y)


def test_texts_go_through_tf_idf():
    texts = ["red sun", "blue sea", "red sea", "green hill"] * 10
    Y = np.array([[1, 0], [0, 1], [1, 1], [0, 0]] * 10)
    data = Dataset(texts, Y, (), ("red", "sea"), "texts")
    own = make_pipeline(TfidfVectorizer(), RidgeClassifier())
    found = compare(data, ["m3l", ("own", own)], folds=2, measures="micro_f1")
    assert found.failed == []
    assert_allclose(found.table("micro_f1").mean, 1.0)


@pytest.mark.compiled
def test_labels_that_folds_do_not_have(rare):
    names = ["m3l", "rank-cvm", "lsg21", "prbr", "ovr", "ovr-svm", "ovr-rbf", "knn"]
    quick = ModelRecipe("forest 2", RandomForestClassifier(n_estimators=3), (("max_depth", (1, 2)),), True)
    chain = ModelRecipe("chain 2", ChainEnsemble(LogisticRegression(), 2), learn_cuts=True)
    found = compare(rare, [*names, quick, chain], folds=2, tune=False, inner_folds=2)
    tuned = compare(rare, ["ovr", "knn", quick], folds=2, inner_folds=2)
    for comparison in (found, tuned):
        assert comparison.failed == []
        assert all(np.isfinite(cell["micro_f1"]) for cell in comparison.cells)


def test_one_label_works(toys):
    data = replace(toys[0], Y=toys[0].Y[:, :1])
    chain = ("chain", ChainEnsemble(LogisticRegression(), 2))
    found = compare(data, ["ovr", "knn", chain, TREE, ("own", DecisionTreeClassifier())], folds=2, inner_folds=2)
    assert found.failed == []
    assert len({cell["n_test"] for cell in found.cells}) == 1


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_finished_cells_are_kept(toys, tmp_path, suffix):
    file = tmp_path / "new" / f"results.{suffix}"
    told = []
    first = compare(toys[:2], [DUMMY, TREE], folds=2, results=file, callback=told.append)
    assert [(done.done, done.total, done.kept) for done in told] == [(k, 8, False) for k in range(1, 9)]
    assert isinstance(told[0], CellDone)
    told.clear()
    Counts.seen.clear()
    more = [DUMMY, TREE, ("counts", Counts(strategy="prior"))]
    second = compare(toys[:2], more, folds=2, results=file, callback=told.append)
    assert [done.kept for done in told] == [True] * 8 + [False] * 4
    assert len(Counts.seen) == 4
    assert same(first.cells, [cell for cell in second.cells if cell["model"] != "counts"])
    # The seconds too are those of the first run.
    assert [c["fit_seconds"] for c in first.cells] == [c["fit_seconds"] for c in second.cells if c["model"] != "counts"]
    read = Comparison.read(file)
    assert same(read.cells, second.cells)
    assert (read.datasets, read.models) == (("toy 0", "toy 1"), ("counts", "dummy", "tree"))


def changed(data):
    X = data.X.copy()
    X[0, 0] += 1e-9
    return replace(data, X=X)


@pytest.mark.parametrize(
    "change",
    [
        {"random_state": 1},
        {"folds": 3},
        {"folds": None, "repeats": 2},
        {"criterion": "micro_f1"},
        {"inner_folds": 2},
        {"thresholds": "global"},
        {"tune": False},
        {"models": replace(TREE, grid=(("max_depth", (1, 4)),))},
        {"models": replace(TREE, estimator=DecisionTreeClassifier(min_samples_leaf=2))},
        {"models": replace(TREE, prepare=False)},
        {"datasets": "other"},
    ],
)
def test_another_definition_is_another_cell(toys, tmp_path, change):
    file = tmp_path / "results.csv"
    arguments = {"datasets": toys[0], "models": TREE, "folds": 2, "results": file}
    compare(**arguments)
    if change == {"datasets": "other"}:
        change = {"datasets": changed(toys[0])}
    told = []
    found = compare(**(arguments | change), callback=told.append)
    assert not any(done.kept for done in told)
    fresh = compare(**(arguments | change | {"results": None}))
    assert [c["micro_f1"] for c in found.cells] == [c["micro_f1"] for c in fresh.cells]
    with pytest.raises(ValueError, match=r"holds two (definitions|versions|ways|seeds)"):
        Comparison.read(file)
    # The first definition is still there.
    told.clear()
    compare(**arguments, callback=told.append)
    assert all(done.kept for done in told)


def test_more_repeats_continue(toys, tmp_path):
    file, told = tmp_path / "results.csv", []
    compare(toys[0], DUMMY, repeats=2, results=file)
    compare(toys[0], DUMMY, repeats=4, results=file, callback=told.append)
    assert [done.kept for done in told] == [True, True, False, False]
    assert len(Comparison.read(file).cells) == 4
    same_splits = compare(toys[0], DUMMY, repeats=4)
    assert [done.cell["hamming_loss"] for done in told] == [cell["hamming_loss"] for cell in same_splits.cells]


def test_what_is_not_used_is_no_part_of_a_definition(toys, tmp_path):
    file, told = tmp_path / "results.csv", []
    compare(toys[0], DUMMY, folds=2, results=file)
    arguments = {"folds": 2, "results": file, "criterion": "micro_f1", "measures": ["coverage"], "thresholds": None}
    compare(toys[0], DUMMY, **arguments, callback=told.append)
    assert all(done.kept for done in told)


def test_an_error_is_a_result_and_the_others_go_on(toys, tmp_path):
    file = tmp_path / "results.csv"
    models = [DUMMY, ("breaks", Breaks(always=True))]
    found = compare(toys[0], models, folds=2, results=file)
    assert [cell["model"] for cell in found.failed] == ["breaks", "breaks"]
    assert found.failed[0]["error"] == 'RuntimeError: no luck with these, "rows"'
    assert found.failed[0]["micro_f1"] is None
    assert "breaks failed on toy 0, split 0: RuntimeError" in found.to_text()
    told = []
    compare(toys[0], models, folds=2, results=file, callback=told.append)
    assert all(done.kept for done in told)
    told.clear()
    compare(toys[0], models, folds=2, results=file, retry_failed=True, callback=told.append)
    assert [(done.cell["model"], done.kept) for done in told][-2:] == [("breaks", False), ("breaks", False)]
    assert len(Comparison.read(file).cells) == 4


def test_a_model_without_scores_has_label_sets_only(toys):
    data = replace(toys[0], X=np.abs(toys[0].X))
    (cell, _) = compare(data, [("breaks", Breaks())], folds=2).cells
    assert cell["ranking_loss"] is None
    assert 0 < cell["hamming_loss"] < 1


def test_results_do_not_depend_on_the_number_of_processes(toys, tmp_path):
    forest = ModelRecipe("forest", RandomForestClassifier(n_estimators=3), (("max_depth", (1, 3)),), True)
    models = [forest, ("chain", ChainEnsemble(LogisticRegression(), 2)), ("breaks", Breaks(always=True))]
    arguments = {"folds": 2, "inner_folds": 2, "results": tmp_path / "results.csv"}
    two = compare(toys[0], models, n_jobs=2, **arguments)
    assert [cell["model"] for cell in two.failed] == ["breaks", "breaks"]
    assert same(two.cells, Comparison.read(tmp_path / "results.csv").cells)
    one = compare(toys[0], models, **(arguments | {"results": tmp_path / "other.csv"}))
    assert same(one.cells, two.cells)
    other = compare(toys[0], models, folds=2, inner_folds=2, random_state=1)
    assert [cell["coverage"] for cell in one.cells] != [cell["coverage"] for cell in other.cells]


def test_a_process_that_is_killed_is_a_failed_cell(toys):
    found = compare(toys[0], [("dies", Dies()), DUMMY], repeats=1, n_jobs=2)
    assert [cell["error"].split(":")[0] for cell in found.cells] == ["TerminatedWorkerError", ""]
    assert found.cells[1]["micro_f1"] >= 0


def test_splits_have_seeds_of_their_own():
    assert len({seed_of(0, split) for split in range(50)} | {seed_of(1, split) for split in range(50)}) == 100


def test_warnings_are_recorded(toys):
    hasty = OneVsRestClassifier(LogisticRegression(max_iter=1))
    found = compare(toys[0], [("hasty", hasty)], folds=2)
    assert found.failed == []
    assert found.cells[0]["warnings"].startswith("ConvergenceWarning: ")
    assert any("2 cells ended with warnings (hasty)" in note for note in found.notes())


SCRIPT = """
import sys, time
from comargin.comparison import compare
from comargin.data import make_correlated
from sklearn.dummy import DummyClassifier

def tell(done):
    print(done.done, flush=True)
    time.sleep(0.3)

data = make_correlated(40, n_features=3, n_labels=2, seed=0)
compare(data, [("dummy", DummyClassifier(strategy="prior"))], folds=8, results=sys.argv[1], callback=tell)
"""


def test_a_killed_run_goes_on(tmp_path):
    file = tmp_path / "results.csv"
    with subprocess.Popen([sys.executable, "-c", SCRIPT, str(file)], stdout=subprocess.PIPE, text=True) as process:
        for _ in range(3):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
    with file.open("ab") as end:
        end.write(b"half,a li")
    written = len(Comparison.read(file).cells)
    assert 3 <= written < 8
    told = []
    data = make_correlated(40, n_features=3, n_labels=2, seed=0)
    compare(data, [DUMMY], folds=8, results=file, callback=told.append)
    assert [done.kept for done in told] == [True] * written + [False] * (8 - written)
    assert len(Comparison.read(file).cells) == 8
    assert file.read_text().count("\n") == 9


def test_an_exception_of_the_callback_ends_the_run(toys, tmp_path):
    file = tmp_path / "results.csv"

    def stop(done):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(toys[0], DUMMY, folds=2, results=file, callback=stop)
    assert len(Comparison.read(file).cells) == 1


def module_level(X, Y):
    return X @ Y.T


def test_what_cannot_be_told_apart_is_refused_in_a_file(toys, tmp_path):
    from comargin import M3LClassifier

    file = tmp_path / "results.csv"
    anonymous = ("own", M3LClassifier(kernel=lambda X, Y: X @ Y.T))
    with pytest.raises(ValueError, match=r"'own'\.kernel is .*<lambda>.*named function"):
        compare(toys[0], [anonymous], folds=2, results=file)
    named = ("own", M3LClassifier(kernel=module_level))
    assert compare(toys[0], [named], folds=2, results=file, tune=False).failed == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"models": ["m3l", "rank-cmv"]}, "did you mean 'rank-cvm' or 'rank-svm'"),
        ({"models": []}, "models must hold at least one"),
        ({"models": ["knn", "knn"]}, "models must have distinct names; 'knn'"),
        ({"models": [("a", KNeighborsClassifier)]}, "'a' must be an instance"),
        ({"models": [3]}, "models must hold names"),
        ({"models": [("two\nlines", KNeighborsClassifier())]}, "names that can be printed"),
        ({"models": ModelRecipe("k", KNeighborsClassifier(), (("neighbours", (1,)),))}, "did you mean 'n_neighbors'"),
        ({"datasets": []}, "datasets must hold at least one"),
        ({"datasets": [3]}, "datasets must hold names or Datasets, got a int"),
        ({"datasets": "digitz"}, "digits"),
        ({"measures": ["f1_micro"]}, "measures: .*did you mean 'micro_f1'"),
        ({"measures": []}, "at least one measure"),
        ({"folds": 1}, "folds must be an int of at least 2, got 1"),
        ({"folds": 2, "repeats": 2}, "exclude each other"),
        ({"repeats": 0, "folds": None}, "repeats must be"),
        ({"repeats": 2, "folds": None, "test_size": 1.0}, "test_size must be a share"),
        ({"random_state": None}, "random_state must be an int"),
        ({"inner_folds": 1}, "inner_folds must be"),
        ({"n_jobs": 0}, "n_jobs must be"),
        ({"tune": "yes"}, "tune must be True or False"),
        ({"thresholds": "pre-label"}, "thresholds must be None or one of"),
        ({"criterion": "f1_micor"}, "criterion: no measure"),
        ({"criterion": len}, "criterion must be the name"),
        ({"results": "table.xlsx"}, r"results must end in \.csv or \.parquet"),
    ],
)
def test_bad_arguments_are_named(toys, change, message):
    with pytest.raises(ValueError, match=message):
        compare(**({"datasets": toys[0], "models": DUMMY, "folds": 2} | change))


def test_two_data_sets_of_one_name(toys):
    with pytest.raises(ValueError, match="datasets must have distinct names; 'toy 0'"):
        compare([toys[0], toys[0]], DUMMY)


def test_five_folds_are_the_default():
    assert _checked_protocol(None, None, 0.5, 0).splitter.n_splits == 5


def test_chains_average_over_orders(toys):
    data = toys[0]
    model = ChainEnsemble(LogisticRegression(), n_chains=4, random_state=0).fit(data.X, data.Y)
    mean = np.mean([chain.predict_proba(data.X) for chain in model.chains_], axis=0)
    assert_allclose(model.predict_proba(data.X), mean)
    assert len({tuple(chain.order_) for chain in model.chains_}) > 1
    constant = np.zeros((60, 2), dtype=int)
    constant[:, 1] = 1
    assert_allclose(model.fit(data.X, constant).predict(data.X), constant)
    with pytest.raises(ValueError, match="n_chains"):
        ChainEnsemble(LogisticRegression(), n_chains=0).fit(data.X, data.Y)


def test_the_guide_runs(capsys):
    guide = (Path(__file__).resolve().parents[2] / "docs" / "compare.md").read_text(encoding="utf-8")
    whole, own = re.findall(r"```python\n(.*?)```", guide, flags=re.DOTALL)
    compile(whole, "compare.md", "exec")
    exec(compile(own, "compare.md", "exec"), {})
    out = capsys.readouterr().out
    assert "stump" in out
    assert "Average ranks of 3 models on 3 splits" in out
    names = re.findall(r"`([\w-]+)`", "".join(line.split("|")[1] for line in guide.splitlines() if "| yes" in line))
    assert {*names, "auto", "cgm", "cgm-rbf", "ssvm-tree"} == set(model_names()) - {"tree"}
