"""`comargin compare`: tables, tests and diagrams from data files, and what is left when it is stopped."""

import csv
import json
import os
import signal
import subprocess
import time
import xml.etree.ElementTree as ElementTree

import pytest
from command import COMMAND, code_of, run
from sklearn.dummy import DummyClassifier

from comargin.data import make_correlated, write
from comargin.models import _REGISTRY
from comargin.training import ModelRecipe, register_model


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two data files in the current folder, called one.csv and two.csv."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate(("one", "two")):
        write(make_correlated(60, n_features=4, n_labels=3, seed=seed), tmp_path / f"{name}.csv")
    return tmp_path


class Broken(DummyClassifier):
    """Fails in every training part."""

    def fit(self, X, y, sample_weight=None):
        raise RuntimeError("out of luck")


@pytest.fixture
def broken(monkeypatch):
    """A model called broken that always fails."""
    monkeypatch.setattr("comargin.models._REGISTRY", dict(_REGISTRY))
    register_model(ModelRecipe("broken", Broken()))


QUICK = ("--models", "ovr,knn,m3l", "--folds", "2", "--no-tune", "--jobs", "1")


def cells_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_comparison_prints_tables_tests_and_diagram(files):
    code, out, err = run("compare", "one.csv", *QUICK)
    assert code == 0, err
    assert out.startswith("one, 2 folds.")
    heads = out.splitlines()[2].split()
    assert heads == ["hamming_loss", "subset_accuracy", "micro_f1", "macro_f1", "ranking_loss", "average_precision"]
    assert [line.split()[0] for line in out.splitlines()[4:7]] == ["ovr", "knn", "m3l"]
    assert "Friedman: chi2" in out
    assert "Wilcoxon" in out
    assert "Average ranks of 3 models on 2 splits of one: micro_f1" in out
    assert "6/6 one, split 1, m3l:" in err
    assert err.splitlines()[-1] == "comargin-compare.csv: 6 cells"
    assert len(cells_of(files / "comargin-compare.csv")) == 6


def test_the_same_command_goes_on(files):
    assert run("compare", "one.csv", *QUICK)[0] == 0
    before = (files / "comargin-compare.csv").read_text()
    lines = before.splitlines(keepends=True)
    (files / "comargin-compare.csv").write_text("".join(lines[:3]) + lines[3][:40])  # killed while it wrote
    code, out, err = run("compare", "one.csv", *QUICK)
    assert code == 0, err
    assert "comargin-compare.csv: 6 cells, 2 of them finished before" in err
    assert err.count("one, split") == 4  # only what was run
    assert len(cells_of(files / "comargin-compare.csv")) == 6
    # All is there: nothing is run again, and the output is the same.
    code, again, err = run("compare", "one.csv", *QUICK)
    assert code == 0
    assert err == "comargin-compare.csv: 6 cells, 6 of them finished before\n"
    assert again == out


def test_json_has_what_the_text_says(files):
    code, out, err = run("compare", "one.csv", "two.csv", *QUICK, "--json", "-q", "--measures", "micro_f1,ranking_loss")
    assert (code, err) == (0, "")
    found = json.loads(out)
    assert found["datasets"] == ["one", "two"]
    assert found["models"] == ["ovr", "knn", "m3l"]
    assert list(found["measures"]) == ["micro_f1", "ranking_loss"]
    table = found["measures"]["micro_f1"]
    cells = [c for c in cells_of(files / "comargin-compare.csv") if (c["dataset"], c["model"]) == ("two", "knn")]
    mean = sum(float(cell["micro_f1"]) for cell in cells) / 2
    assert table["datasets"]["two"]["knn"]["mean"] == pytest.approx(mean)
    assert table["datasets"]["two"]["knn"]["splits"] == 2
    assert sum(table["average_ranks"].values()) == pytest.approx(6.0)
    assert table["ranked_over"] == {"what": "data sets", "number": 2, "left_out": []}
    assert len(table["tests"]["wilcoxon"]) == 3
    assert 0.0 <= table["tests"]["friedman"]["p_value"] <= 1.0
    assert found["failed"] == []


def test_latex_and_markdown(files):
    code, out, _ = run("compare", "one.csv", *QUICK, "--markdown", "-q")
    assert code == 0
    assert "| knn" in out
    assert "**" in out
    code, out, _ = run("compare", "one.csv", *QUICK, "--latex", "-q")
    assert code == 0
    assert out.count(r"\begin{tabular}") == out.count(r"\end{tabular}") == 1


@pytest.mark.parametrize("suffix", ["svg", "html"])
def test_the_diagram_as_a_file(files, suffix):
    code, _, err = run("compare", "one.csv", *QUICK, "--cd", f"cd.{suffix}", "--rank-by", "ranking_loss")
    assert code == 0, err
    assert f"cd.{suffix}: critical-difference diagram of ranking_loss" in err
    content = (files / f"cd.{suffix}").read_text()
    assert "Average ranks of 3 models on 2 splits of one: ranking_loss" in content
    if suffix == "svg":
        texts = [node.text for node in ElementTree.fromstring(content).iter("{http://www.w3.org/2000/svg}text")]
        assert [text.split()[0] for text in texts if text.startswith(("ovr", "knn", "m3l"))].count("knn") == 1
        assert any(text.startswith("critical difference") for text in texts)


def test_files_of_the_same_name_are_told_apart(files):
    (files / "more").mkdir()
    (files / "two.csv").rename(files / "more" / "one.csv")
    code, out, err = run("compare", "one.csv", "more/one.csv", "--models", "knn", "--no-tune", "--jobs", "1", "-q")
    assert code == 0, err
    assert "more/one.csv" in out


def test_files_and_known_sets_mix(files):
    (files / "one.tsv").write_text((files / "one.csv").read_text().replace(",", ";"))
    arguments = ("one.tsv", "digits", "--models", "knn", "--folds", "2", "--no-tune", "--jobs", "1", "-q")
    code, out, err = run("compare", *arguments, "--delimiter", ";", "--measures", "micro_f1")
    assert code == 0, err
    assert out.splitlines()[2].split() == ["one", "digits", "rank"]


def test_repeats_instead_of_folds(files):
    arguments = ("--models", "knn", "--repeats", "3", "--test-size", "0.3", "--no-tune", "--jobs", "1", "-q")
    code, out, err = run("compare", "one.csv", *arguments)
    assert code == 0, err
    assert out.startswith("one, hold-out of 0.3.")
    assert {cell["n_test"] for cell in cells_of(files / "comargin-compare.csv")} == {"18"}
    assert "No tests" in out  # of a single model


def test_a_narrow_screen_gets_more_tables(files, monkeypatch):
    from comargin.cli import _compare
    from comargin.comparison import compare
    from comargin.data import read

    found = compare(read("one.csv"), ["ovr", "knn"], folds=2, tune=False)
    parts = _compare._fitting(found, 60)
    assert [measure for part in parts for measure in part] == list(found.measures)
    assert len(parts) > 1
    for part in parts:
        table = found.to_text(part).rpartition("\n\n")[0].split("\n\n", 1)[1]
        assert max(map(len, table.splitlines())) <= 60
    assert _compare._fitting(found, 200) == [list(found.measures)]
    assert _compare._fitting(found, 1) == [[measure] for measure in found.measures]


def test_failed_cells_are_told_and_others_go_on(files, broken):
    arguments = ("one.csv", "--models", "broken,knn", "--folds", "2", "--no-tune", "--jobs", "1")
    code, out, err = run("compare", *arguments)
    assert code == 0, err
    assert out.count("broken failed on one, split") == 2
    assert "RuntimeError: out of luck" in out
    assert "2 of 4 cells failed; --retry-failed runs them again" in err
    assert run("compare", *arguments)[2].count("failed: RuntimeError") == 2
    assert len(cells_of(files / "comargin-compare.csv")) == 4
    assert run("compare", *arguments, "--retry-failed")[0] == 0
    assert len(cells_of(files / "comargin-compare.csv")) == 6
    code, _, err = run("compare", "one.csv", "--models", "broken", "--folds", "2", "--jobs", "1", "-q")
    assert code == code_of(err)
    assert "all cells failed, the first with RuntimeError: out of luck" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one.csv", "--models", "m3l,rank-cmv"], "--models: there is no model 'rank-cmv'; did you mean 'rank-cvm'"),
        (["one.csv", "--models", "knn,knn"], "--models must have distinct names"),
        (["one.csv", "--models", ","], "--models must name at least one"),
        (["one.csv", "--measures", "mikro_f1"], "--measures: "),
        (["one.csv", "--rank-by", "mikro_f1"], "--rank-by: "),
        (["one.csv", "--folds", "3", "--repeats", "2"], "--folds and --repeats exclude each other"),
        (["one.csv", "--test-size", "0.3"], "--test-size is for --repeats"),
        (["one.csv", "--repeats", "2", "--test-size", "3"], "--test-size must be a share"),
        (["one.csv", "--latex", "--json"], "exclude each other"),
        (["one.csv", "--thresholds", "best"], "--thresholds must be None or one of"),
        (["one.csv", "--criterion", "best"], "--criterion"),
        (["one.csv", "--jobs", "0"], "--jobs must be a number of processes"),
        (["one.csv", "--results", "cells.txt"], "--results must end in .csv or .parquet"),
        (["one.csv", "--results", "two.csv"], "--results: two.csv is no results file"),
        (["one.csv", "--cd", "cd.png"], "--cd must end in .svg or .html"),
        (["one.csv", "one.csv"], "one.csv is given twice"),
        (["three.csv"], "there is no file three.csv"),
        (["digts"], "did you mean digits"),
        (["digits", "--sep", ";"], "--sep only says how to read a file"),
    ],
)
def test_mistakes_end_in_one_line(files, arguments, message):
    code, out, err = run("compare", *arguments)
    assert code == code_of(err)
    assert message in err
    assert out == ""
    assert err.count("\n") == 1
    assert sorted(path.name for path in files.iterdir()) == ["one.csv", "two.csv"]


def test_a_diagram_needs_blocks(files):
    code, _, err = run("compare", "one.csv", "--models", "knn", "--no-tune", "-j", "1", "-q", "--cd", "cd.svg")
    assert code == code_of(err)
    assert "--cd: the diagram needs two models on two splits" in err


def test_models_are_listed_without_data():
    code, out, _ = run("compare", "--list-models")
    assert code == 0
    assert any(line.split()[:2] == ["forest", "scikit-learn:"] for line in out.splitlines())


def test_no_data_is_a_usage_error():
    code, out, err = run("compare")
    assert code == 2
    assert out == ""
    assert "DATA" in err


def test_ctrl_c_keeps_what_is_finished(files):
    write(make_correlated(3000, n_features=30, n_labels=10, seed=0), files / "long.csv")
    command = [str(COMMAND), "compare", "long.csv", "--models", "knn,forest", "--folds", "5", "--jobs", "1"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "NO_COLOR": "1"}
    )
    end = time.monotonic() + 60
    results = files / "comargin-compare.csv"
    while not (results.exists() and cells_of(results)) and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == (
        "Stopped. Finished cells are kept in comargin-compare.csv; the same command goes on."
    )
    assert "Traceback" not in err
    assert 1 <= len(cells_of(results)) < 10
