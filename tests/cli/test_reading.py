"""Files as they are in life, through the commands: label columns beside texts, missing features, unlabelled rows."""

import csv
import json

import numpy as np
import pytest
from command import run

from comargin.training import Tagger

QUICK = ("-m", "ovr", "--no-tune", "--folds", "2")
WORDS = {"joy": "wine", "fear": "storm", "anger": "tax"}


def done(*arguments, **environment):
    code, out, err = run(*arguments, **environment)
    assert code == 0, err
    return out, err


def posts(path, n=60, heading=("body", *WORDS), cells=None):
    """Write texts, and what ``cells`` makes of their labels; without it a column of 0 and 1 for each."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(heading)
        for k in range(n):
            tags = [tag for tag in WORDS if rng.random() < 0.5]
            marks = [int(tag in tags) for tag in WORDS] if cells is None else [cells(tags)]
            table.writerow([f"row {k} {' '.join(WORDS[tag] for tag in tags)}", *marks])
    return path


@pytest.mark.parametrize("labels", ["joy,fear,anger", "-3"])
def test_a_text_and_a_column_for_each_label(tmp_path, labels):
    data, tagger = posts(tmp_path / "posts.csv"), tmp_path / "t.cmg"
    reading = ("--text", "body", "--labels", labels)
    _, err = done("train", data, *reading, *QUICK, "-o", tagger)
    assert "have no label" not in err  # a row of zeros says so
    assert Tagger.load(tagger).reading == {"text": "body", "labels": ["joy", "fear", "anger"]}
    out, _ = done("predict", tagger, data)
    assert out.startswith("row,labels\n0,")
    for options in ((), ("--labels", "anger,fear,joy")):
        out, _ = done("evaluate", tagger, data, *options, "--json")
        assert json.loads(out)["measures"]["micro_f1"] > 0.95
    out, _ = done("data", "info", data, *reading)
    assert "60 rows, texts, 3 labels" in out
    out, _ = done("data", "convert", data, tmp_path / "lists.csv", *reading)
    assert "3 labels" in out
    out, _ = done(
        "compare", data, *reading, "-m", "ovr", "--no-tune", "--folds", "2", "--inner-folds", "2", "--results",
        tmp_path / "r.csv", "--jobs", "1", "--json",
    )  # fmt: skip
    assert json.loads(out)["failed"] == []


def table(path, gaps, n=80):
    """Write features whose signs are the labels; some cells are empty."""
    rng = np.random.default_rng(1)
    with path.open("w") as file:
        file.write("a,b,c,label:x,label:y\n")
        for row in rng.normal(size=(n, 3)).round(3):
            cells = ["" if rng.random() < gaps else str(value) for value in row]
            file.write(",".join([*cells, str(int(row[0] > 0)), str(int(row[1] > 0))]) + "\n")
    return path


@pytest.mark.parametrize("missing", ["mean", "nan", "zero"])
def test_missing_features_are_filled_as_in_training(tmp_path, missing):
    data, tagger = table(tmp_path / "train.csv", 0.2), tmp_path / "t.cmg"
    with_gaps = "a,b,c\n2,,\n,-2,\n-2,2,0\n"
    done("train", data, "--missing", missing, *QUICK, "--test", data, "-o", tagger)
    (tmp_path / "new.csv").write_text(with_gaps)
    (tmp_path / "new.arff").write_text(
        "@relation r\n@attribute a real\n@attribute b real\n@attribute c real\n@data\n" + "2,?,?\n?,-2,?\n-2,2,0\n"
    )
    out, _ = done("predict", tagger, tmp_path / "new.csv", "--explain", 1)
    assert [line.split(",")[1] for line in out.splitlines()[1:]] in (["x", "", "y"], ["x;y", "x", "y"], ["x", "x", "y"])
    assert done("predict", tagger, tmp_path / "new.arff", "--explain", 1)[0] == out
    assert json.loads(done("evaluate", tagger, data, "--json")[0])["measures"]["micro_f1"] > 0.8
    code, _, err = run("predict", tagger, tmp_path / "new.csv", "--missing", "error")
    assert code != 0
    assert "new.csv:2: the value in column 'b' is missing" in err
    if missing != "zero":
        means = np.nanmean(np.genfromtxt(data, delimiter=",", skip_header=1)[:, :3], axis=0)
        (tmp_path / "filled.csv").write_text("a,b,c\n2,{1},{2}\n{0},-2,{2}\n-2,2,0\n".format(*means))
        assert done("predict", tagger, tmp_path / "filled.csv")[0] == done("predict", tagger, tmp_path / "new.csv")[0]


def test_a_tagger_without_missing_features_says_how_to_have_them(tmp_path):
    data, tagger = table(tmp_path / "train.csv", 0.0), tmp_path / "t.cmg"
    done("train", data, *QUICK, "-o", tagger)
    code, _, err = run("predict", tagger, data, "--missing", "nan")
    assert code == 2
    assert "allowed are error, zero; comargin train --missing mean makes one that fills them itself" in err


def test_rows_without_labels_are_counted(tmp_path):
    data = posts(tmp_path / "posts.csv", heading=("body", "tags"), cells=";".join)
    with data.open() as file:
        n_empty = sum(row["tags"] == "" for row in csv.DictReader(file))
    assert n_empty > 3
    reading = ("--text", "body", "--labels", "tags")
    _, err = done("train", data, *reading, *QUICK, "-o", tmp_path / "t.cmg")
    assert f"{n_empty} of 60 rows have no label, and are learned as such; --unlabelled drop leaves them out" in err
    _, err = done("train", data, *reading, "--unlabelled", "negative", *QUICK, "-o", tmp_path / "t.cmg")
    assert "have no label" not in err
    _, err = done("train", data, *reading, "--unlabelled", "drop", *QUICK, "-o", tmp_path / "t.cmg")
    assert f"{60 - n_empty} rows, 3 labels to learn" in err
    out, _ = done("evaluate", tmp_path / "t.cmg", data, "--unlabelled", "drop")
    assert f"{60 - n_empty} rows" in out
    _, err = done("train", data, *reading, "--unlabelled", "unknown", *QUICK, "-o", tmp_path / "t.cmg")
    assert "have no label" not in err
    out, _ = done("evaluate", tmp_path / "t.cmg", data, "--unlabelled", "unknown")
    assert f"Measured on the known cells: {3 * (60 - n_empty)} of 180" in out
    code, _, err = run("train", data, *reading, "--unlabelled", "maybe")
    assert code == 2
    assert "--unlabelled 'maybe', allowed are None, 'drop', 'negative', 'unknown'" in err


def test_unknown_cells_from_a_table_to_the_report(tmp_path):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(120, 3))
    Y = np.where(X > 0, "1", "0").astype(object)
    Y[rng.random(Y.shape) < 0.3] = "?"
    n_known, data, tagger = int((Y != "?").sum()), tmp_path / "genes.csv", tmp_path / "t.cmg"
    with data.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerows([["a", "b", "c", "r", "s", "t"], *np.hstack([X.round(3), Y])])
    reading = ("--labels", "-3", "--unlabelled", "unknown")
    out, _ = done("data", "info", data, *reading)
    assert f"known cells of Y: {n_known} of 360 ({n_known / 360:.1%})" in out
    assert f" {(Y[:, 0] != '?').sum()} " in out
    code, _, err = run("data", "info", data, "--labels", "-3")
    assert code != 0
    assert "--unlabelled" in err
    out, err = done("train", data, *reading, *QUICK, "-o", tagger)
    assert f"in their known cells: {n_known} of 360" in out + err
    assert f"{n_known} of 360" in Tagger.load(tagger).facts["data"]["known"]
    out, _ = done("evaluate", tagger, data, "--unlabelled", "unknown", "--json")
    assert json.loads(out)["n_known"] == n_known
    assert json.loads(out)["measures"]["micro_f1"] > 0.9
    out, _ = done("evaluate", tagger, data, "--unlabelled", "negative", "--json")
    assert json.loads(out)["measures"]["micro_f1"] < 0.9
    done("report", tagger, data, *reading[2:], "-o", tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert f"{n_known / 360:.1%}" in page
    assert "rows that know it" in page
    done("graph", data, *reading, "-o", tmp_path / "graph.svg")
    assert "nan" not in (tmp_path / "graph.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("cells", "options", "hint"),
    [
        (
            " | ".join,
            (),
            "no row has two labels, and '|' stands in 4 of their 7 names: if it stands between labels, say --sep '|'",
        ),
        (lambda tags: ";".join(tags or ["nan"]), (), "'nan' is learned as a label"),
        (
            lambda tags: ";".join([tags[0].upper(), *tags[1:]] if tags else []),
            (),
            "differ in upper and lower case only",
        ),
        (str, (), None),
        (";".join, (), None),
        (lambda tags: tags[0] if tags else "no topic", (), None),
    ],
)
def test_labels_that_look_wrong_get_a_remark(tmp_path, cells, options, hint):
    data = posts(tmp_path / "posts.csv", heading=("text", "labels"), cells=cells)
    _, err = done("train", data, *options, *QUICK, "--unlabelled", "negative", "-o", tmp_path / "t.cmg")
    lines = [line for line in err.splitlines() if "label" in line and "to learn" not in line]
    assert [hint in line for line in lines] == [True] if hint else lines == []
