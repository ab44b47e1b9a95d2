"""comargin train: what a user types, and what comes of it."""

import csv
import json
import os
import signal
import subprocess
import time
from dataclasses import replace

import numpy as np
import pytest
from command import COMMAND, code_of, run, run_process
from sklearn.neighbors import KNeighborsClassifier

from comargin import models
from comargin.cli import _train as cli_train
from comargin.data import make_correlated, read, write
from comargin.model_selection import MultilabelStratifiedShuffleSplit
from comargin.training import Tagger, get_model
from comargin.training import train as train_tagger

TAGS = ("wine", "bread", "tea")
WORDS = ("red wine", "white wine", "rye bread", "white bread", "green tea", "black tea")


@pytest.fixture
def posts(tmp_path):
    """A CSV file of texts with tags."""
    rng = np.random.default_rng(0)
    with open(tmp_path / "posts.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["body", "tags"])
        for _ in range(80):
            text = " and ".join(rng.choice(WORDS, size=2))
            table.writerow([text, "|".join(tag for tag in TAGS if tag in text)])
    return tmp_path / "posts.csv"


@pytest.fixture
def table(tmp_path):
    write(make_correlated(150, n_features=6, n_labels=4, seed=0), tmp_path / "table.csv")
    return tmp_path / "table.csv"


def train(*arguments, **environment):
    code, out, err = run("train", *arguments, **environment)
    assert code == 0, err
    return out, err


def test_texts_with_tags(posts, tmp_path):
    reading = ("--text", "body", "--labels", "tags", "--sep", "|")
    out, err = train(posts, *reading, "-m", "m3l", "-o", tmp_path / "tagger.cmg")
    assert "held-out folds" in out
    assert "micro_f1" in out
    assert "tagger.cmg: " in out
    assert "80 rows, 3 labels" in err
    assert "tune: " in err
    assert "gap" in err
    assert "chosen by average_precision on 3 folds: C = " in err
    tagger = Tagger.load(tmp_path / "tagger.cmg")
    assert tagger.reading == {"text": "body", "labels": "tags", "sep": "|"}
    assert sorted(tagger.label_names) == sorted(TAGS)
    code, out, _ = run("predict", tmp_path / "tagger.cmg", posts)
    assert code == 0
    assert out.splitlines()[0] == "row,labels"
    code, out, _ = run("evaluate", tmp_path / "tagger.cmg", posts, "--json")
    assert json.loads(out)["measures"]["micro_f1"] > 0.9


def test_without_a_model_several_are_tried(table, tmp_path):
    arguments = (table, "--aim", "subset_accuracy", "--budget", "6 fits")
    _, err = train(*arguments, "-o", tmp_path / "a.cmg")
    assert "model auto" in err
    assert "auto: 3  knn  n_neighbors = 5  150 rows, log loss" in err
    assert "tries 5 models on" in err
    assert "expects to take about" in err
    assert "member  weight  parameters" in " ".join(err.split("\n")).replace("   ", "  ")
    assert "tried 2 choices in" in err
    assert '--budget "6 fits" repeats it' in err
    out, err = train(*arguments, "--json", "--quiet", "-o", tmp_path / "b.cmg")
    assert err == ""
    assert [trial["model"] for trial in json.loads(out)["trials"]] == ["m3l", "knn"]


def test_a_holdout_is_not_learned_from(table, tmp_path):
    out, _ = train(table, "--holdout", "0.2", "--json", "-o", tmp_path / "t.cmg", "-p", "C=1", "--no-tune")
    found = json.loads(out)
    assert (found["data"]["rows"], found["test_data"]["rows"]) == (120, 30)
    assert found["test_measures"].keys() >= {"micro_f1", "precision_at_1"}
    assert found["parameters"]["C"] == 1
    tagger = Tagger.load(tmp_path / "t.cmg")
    assert tagger.facts["test_measures"] == found["test_measures"]
    data = read(table)
    ((kept, _),) = MultilabelStratifiedShuffleSplit(1, test_size=0.2, random_state=0).split(data.Y, data.Y)
    part = replace(data, X=data.X[kept], Y=data.Y[kept])
    by_hand = train_tagger(part, params={"C": 1}, tune=False)
    np.testing.assert_array_equal(tagger.scores(data.X), by_hand.scores(data.X))


def test_a_test_file(posts, tmp_path):
    lines = posts.read_text(encoding="utf-8").splitlines()
    test = tmp_path / "test.csv"
    test.write_text("\n".join([*lines[:20], "some jam,jam"]), encoding="utf-8")
    reading = ("--text", "body", "--labels", "tags", "--sep", "|")
    out, err = train(posts, *reading, "--test", test, "-p", "C=1", "--no-tune", "-o", tmp_path / "t.cmg")
    assert "20 test rows" in out
    assert "test: 1 label in 1 row left out of the measures, as the tagger does not know it: jam" in err


def test_a_known_set_is_measured_on_its_test_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    out, err = train("digits", "--no-tune", "--quiet")
    assert "450 test rows" in out
    assert err == ""
    assert (tmp_path / "digits.cmg").exists()


def test_models_and_typed_parameters(table, tmp_path):
    out, _ = train(table, "-m", "lsg21", "-p", "alpha=2", "-p", "self_edges=false", "--json", "-o", tmp_path / "t.cmg")
    parameters = json.loads(out)["parameters"]
    assert (parameters["alpha"], parameters["self_edges"]) == (2, False)
    out, _ = train(
        table, "--grid", "C=0.1,1", "--grid", "label_correlation=none,train", "--json", "-o", tmp_path / "t.cmg"
    )
    assert json.loads(out)["searched"].keys() == {"C", "label_correlation"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--budget", "soon"], "Error: --budget must be a time such as"),
        (
            ["-m", "ovr", "--budget", "5m"],
            "Error: --budget is for auto, which chooses between models; the model is 'ovr'",
        ),
        (["-m", "m3k"], "Error: --model: there is no model 'm3k'; did you mean 'm3l'?"),
        (["-p", "c=1"], "Error: --param: there is no parameter 'c'; did you mean 'C'?"),
        (["-p", "C"], "Error: --param C: write NAME=VALUE, such as C=0.1"),
        (["-p", "C=much"], "Error: --param: C: The 'C' parameter of M3LClassifier must be"),
        (["--grid", "C=1,x"], "Error: --grid: C: The 'C' parameter"),
        (["--criterion", "micro_f"], "Error: --criterion: no measure is named 'micro_f'; did you mean 'micro_f1'"),
        (["--thresholds", "half"], "Error: --thresholds must be"),
        (["--holdout", "2"], "Error: --holdout must be a share of the rows between 0 and 1, got 2"),
        (["--holdout", "0.2", "--test", "x.csv"], "Error: --test and --holdout exclude each other"),
        (["--test", "nothing.csv"], "Error: --test: there is no file nothing.csv"),
        (["--split", "train"], "Error: --split is for known sets"),
        (["-o", "table.csv/t.cmg"], "Error: --output table.csv/t.cmg: nothing can be written into"),
        (["--jobs", "0"], "Error: --jobs must not be 0: a number of threads, or -1 for all cores"),
        (["-o", "."], "Error: --output . is a folder"),
        (["--labels", "label:label_0,label:lable_1"], "the nearest is 'label:label_1'"),
    ],
)
def test_mistakes_are_one_line_and_leave_nothing(table, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    code, out, err = run("train", table, *arguments, "--quiet")
    assert (code, out) == (code_of(err), "")
    assert message in err
    assert len(err.splitlines()) == 1
    assert sorted(tmp_path.iterdir()) == before


def test_labels_that_look_like_whole_texts_are_doubted(tmp_path):
    source = tmp_path / "posts.csv"
    source.write_text(
        "text,labels\n" + "".join(f"word{i % 3} again,label {i}\n" for i in range(12)) + "one,common\n" * 9
    )
    options = ("--text", "text", "-p", "C=1", "--no-tune", "-o", tmp_path / "t.cmg")
    _, err = train(source, "--labels", "labels", *options)
    assert "12 of 13 labels have one row only: is --labels the right column?" in err


def test_no_doubt_about_common_labels(posts, tmp_path):
    _, err = train(
        posts, "--text", "body", "--labels", "tags", "--sep", "|", "-p", "C=1", "--no-tune", "-o", tmp_path / "t.cmg"
    )
    assert "one row only" not in err


def test_folders_of_the_output_are_made(table, tmp_path):
    train(table, "-p", "C=1", "--no-tune", "-o", tmp_path / "new" / "t.cmg")
    assert (tmp_path / "new" / "t.cmg").is_file()


def test_a_gap_of_rounding_is_not_negative(table, tmp_path):
    _, err = train(table, "-p", "C=1", "-p", "tol=1e-12", "--no-tune", "-o", tmp_path / "t.cmg")
    share = float(err.split("at most ")[1].split(" %")[0])
    assert 1e-9 <= share < 1e-3


def test_how_far_from_the_optimum(table, tmp_path):
    """Relative to the least that it can be; of PrML only the last step is convex, and the bound of all is told too."""
    _, err = train(table, "-m", "m3l", "--no-tune", "-p", "tol=0.5", "-p", "C=1", "-o", tmp_path / "a.cmg")
    facts = Tagger.load(tmp_path / "a.cmg").facts
    share = facts["duality_gap"] / facts["dual_objective"]
    assert share > 1.05 * facts["duality_gap"] / facts["objective"]
    assert f"at most {100.0 * share:.2g} % above the optimum" in err
    _, err = train(table, "-m", "prml", "--no-tune", "--thresholds", "none", "-o", tmp_path / "b.cmg")
    bound = Tagger.load(tmp_path / "b.cmg").facts["lower_bound"]
    assert f"% above the best of its last convex step; nothing is below {bound:.6g}" in err
    assert "optimum" not in err


def test_one_label(tmp_path):
    """Some measures are not defined then, and one-vs-rest has nothing to choose from."""
    lines = (f"{i},wave {i % 7},{'sea' if i % 2 else ''}\n" for i in range(60))
    (tmp_path / "one.csv").write_text("id,body,tags\n" + "".join(lines), encoding="utf-8")
    given = (tmp_path / "one.csv", "--text", "body", "--labels", "tags", "--no-tune", "-o", tmp_path / "one.cmg")
    out, _ = train(*given)
    assert "micro_f1" in out
    assert "ranking_loss" not in out
    out, _ = train(*given, "--json")
    assert json.loads(out)["fold_measures"]["ranking_loss"] is None
    code, _, err = run("train", *given, "-m", "ovr")
    assert code == 2
    assert "--model 'ovr' needs at least two labels, the data has one" in err


def test_a_misspelt_column_proposes_the_nearest(posts):
    code, _, err = run("train", posts, "--text", "bodi", "--labels", "tags")
    assert code == code_of(err)
    assert "'bodi'" in err
    assert "'body'" in err


def test_list_of_models():
    code, out, _ = run("train", "--list-models")
    assert code == 0
    assert "rank-cvm" in out
    lines = {line.split()[0]: line for line in out.splitlines()}
    assert "compare only" not in lines["forest"]
    assert "compare only" not in lines["m3l"]


def test_debug_shows_where_an_error_comes_from(table):
    code, _, err = run_process("train", table, "-m", "m3k", "--debug")
    assert code == code_of(err)
    assert "Traceback" in err


def interrupted_training(arguments, tmp_path, word):
    """Send SIGINT to a training as soon as it says a word on standard error."""
    command = [str(COMMAND), "train", *map(str, arguments)]
    said = ""
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
    ) as process:
        while word not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=60)
    return process.returncode, out, said + rest


@pytest.mark.parametrize("field", ["body", "text"])
def test_json_lines(posts, tmp_path, field):
    with open(posts, newline="", encoding="utf-8") as file:
        rows = [{field: row["body"], "tags": row["tags"].split("|")} for row in csv.DictReader(file)]
    rows[0]["tags"] = "|".join(rows[0]["tags"])
    source = tmp_path / "posts.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    # A field called text need not be named.
    options = ["--text", field] if field == "body" else []
    train(source, *options, "--labels", "tags", "--sep", "|", "--no-tune", "-o", tmp_path / "t.cmg")
    tagger = Tagger.load(tmp_path / "t.cmg")
    assert sorted(tagger.label_names) == sorted(TAGS)
    assert tagger.reading["labels"] == "tags"
    code, out, err = run("evaluate", tmp_path / "t.cmg", source)
    assert code == 0, err
    assert "80 rows, 3 labels" in out
    code, out, err = run("train", source, *options, "--labels", "tag", "-o", tmp_path / "u.cmg")
    assert (code, out) == (code_of(err), "")
    assert f"posts.jsonl:1: has no field 'tag'; the nearest is 'tags'; it has {field}, tags; --labels says" in err


def test_json_lines_of_numbers(table, tmp_path):
    source = write(read(table), tmp_path / "table.jsonl")[0]
    outs = [train(path, "--no-tune", "-o", tmp_path / "t.cmg", "--json")[0] for path in (table, source)]
    measures = [json.loads(out)["fold_measures"] for out in outs]
    assert measures[0] == measures[1]


def test_ctrl_c_in_the_last_fit_keeps_what_is_there(tmp_path):
    write(make_correlated(3000, n_features=60, n_labels=30, seed=0), tmp_path / "large.csv")
    slow = (
        "-p",
        "C=1000",
        "-p",
        "tol=1e-12",
        "-p",
        "max_iter=100000000",
        "-p",
        "solver=dcd",
        "-p",
        "loss=hinge",
        "--no-tune",
    )
    code, out, err = interrupted_training(
        ["large.csv", *slow, "--thresholds", "none", "-o", "t.cmg"], tmp_path, "M3LClassifier"
    )
    assert code == 130, err
    assert "the tagger is written as it is" in err
    assert "t.cmg: " in out
    assert Tagger.load(tmp_path / "t.cmg").facts["duality_gap"] > 0.0


class Interrupted(KNeighborsClassifier):
    """Ctrl-C comes while all rows are fitted."""

    def fit(self, X, y):
        if len(X) == 150:
            signal.raise_signal(signal.SIGINT)
        return super().fit(X, y)


def test_ctrl_c_in_a_last_fit_that_never_asks_ends_the_command(table, tmp_path, monkeypatch):
    """A fit of scikit-learn goes on to its end; a message that it ends here would not be true."""
    recipe = replace(get_model("knn"), name="interrupted", estimator=Interrupted(), saved={})
    monkeypatch.setitem(models._REGISTRY, recipe.name, recipe)
    monkeypatch.setattr(cli_train, "_has_file", lambda recipe: True)
    code, out, err = run("train", table, "-m", "interrupted", "--no-tune", "-o", tmp_path / "t.cmg")
    assert (code, out) == (130, "")
    assert "ends here" not in err
    assert not (tmp_path / "t.cmg").exists()


def test_ctrl_c_in_the_search_leaves_nothing(tmp_path):
    write(make_correlated(3000, n_features=60, n_labels=30, seed=0), tmp_path / "large.csv")
    slow = ("-p", "tol=1e-12", "-p", "max_iter=100000000", "--grid", "C=0.001,1000")
    began = time.monotonic()
    code, out, err = interrupted_training(["large.csv", *slow, "-o", "t.cmg"], tmp_path, "tune: 1/")
    assert (code, out) == (130, "")
    assert err.rstrip().endswith("Interrupted.")
    assert not (tmp_path / "t.cmg").exists()
    assert time.monotonic() - began < 60.0


def test_a_test_file_that_does_not_fit_is_refused_before_the_training(table, posts, tmp_path):
    code, out, err = run("train", table, "--test", posts, "-o", tmp_path / "t.cmg")
    assert (code, out) == (code_of(err), "")
    assert "tune" not in err
    assert not (tmp_path / "t.cmg").exists()


def test_a_libsvm_test_file_with_smaller_indices(tmp_path):
    (tmp_path / "a.svm").write_text("".join(f"{k % 3} 1:{k % 5} 2:{k % 7} 9:{1 + k % 2}\n" for k in range(60)))
    (tmp_path / "b.svm").write_text("0 1:3 2:1\n1 1:1\n")
    arguments = ("--format", "libsvm", "--test", tmp_path / "b.svm", "-p", "C=1", "--no-tune", "-o", tmp_path / "t.cmg")
    out, _ = train(tmp_path / "a.svm", *arguments)
    assert "2 test rows" in out


def test_a_training_that_was_killed_goes_on(tmp_path):
    write(make_correlated(1000, n_features=20, n_labels=6, seed=0), tmp_path / "large.csv")
    command = [str(COMMAND), "train", "large.csv", "-p", "C=1", "-p", "tol=1e-8", "--no-tune"]
    command += ["--checkpoint", "state", "-o", "t.cmg"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        said = ""
        while "M3LClassifier" not in said.partition("cuts: 3/3")[2]:
            line = process.stderr.readline()
            assert line, said
            said += line
        process.kill()
    assert sorted(path.name for path in (tmp_path / "state").iterdir()) == ["checkpoint.json", "rule.cmg"]
    assert not (tmp_path / "t.cmg").exists()
    for change, code in (("C=2", 1), ("C=1", 0)):  # another training is refused
        again = [change if word == "C=1" else word for word in command]
        done = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == code, done.stderr
    assert "cuts:" not in done.stderr  # they were known
    assert not (tmp_path / "state").exists()
    assert Tagger.load(tmp_path / "t.cmg").facts["duality_gap"] >= 0.0


@pytest.mark.parametrize("text", ["C=1", "C={[]:1}"])
def test_parameters_twice_or_odd(table, text, tmp_path):
    code, _, err = run("train", table, "-p", "C=2", "-p", text, "-o", tmp_path / "t.cmg", "-q")
    assert code == code_of(err)
    assert "--param" in err
    assert "C has a value already, 2" in err


def test_a_value_that_is_no_literal(table, tmp_path):
    code, _, err = run("train", table, "-p", "C={[]:1}", "-o", tmp_path / "t.cmg", "-q")
    assert code == code_of(err)
    assert "The 'C' parameter of M3LClassifier must be" in err


def test_the_tagger_does_not_go_into_the_folder_that_is_emptied(table, tmp_path):
    folder = tmp_path / "state"
    code, _, err = run("train", table, "--checkpoint", folder, "-o", folder / "learner.cmg", "-q")
    assert code == code_of(err)
    assert err.startswith("Error: --output: ")
    assert "lies in the folder of --checkpoint" in err
    assert not folder.exists()
