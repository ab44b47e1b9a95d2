"""`comargin evaluate`: the measures are those of `comargin.metrics`, and labels find their places."""

import csv
import gzip
import io
import json
import sys

import numpy as np
import pytest
from command import code_of, run
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from small_taggers import FEATURES, LABELS, TAGS, TEXTS, TRUE, feature_rows, feature_tagger, indicator, text_tagger

from comargin.cli._console import labels_table, measures_table
from comargin.data import Dataset, load, write
from comargin.metrics import evaluate as measured
from comargin.metrics import per_label
from comargin.training import Tagger

# What the rows are said to be: the tagger is wrong about two of them.
SAID = [["weather"], ["sport"], ["sport"], ["food"], ["food", "sport"], [], ["food"]]


@pytest.fixture(scope="module")
def taggers(tmp_path_factory):
    """A folder with texts.cmg, trained on texts and tags separated by a bar, and boxes.cmg."""
    folder = tmp_path_factory.mktemp("taggers")
    text_tagger(text="body", labels="tags", sep="|").save(folder / "texts.cmg")
    feature_tagger().save(folder / "boxes.cmg")
    return folder


@pytest.fixture
def evaluate(taggers):
    """Run the command; returns standard output and error."""

    def call(tagger, *arguments, code=0, stdin=None, **environment):
        with pytest.MonkeyPatch.context() as patch:
            if stdin is not None:
                patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            ended, out, err = run("evaluate", taggers / f"{tagger}.cmg", *arguments, **environment)
        assert ended == (code_of(err) if code is None else code), err
        return out, err

    return call


def text_csv(tags=SAID, sep="|"):
    file = io.StringIO()
    rows = [[text, sep.join(row)] for text, row in zip(TEXTS, tags, strict=True)]
    csv.writer(file, lineterminator="\n").writerows([["body", "tags"], *rows])
    return file.getvalue()


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "test.csv").write_text(text_csv())
    return tmp_path / "test.csv"


def expected_measures(k=(1, 3, 5)):
    return measured(indicator(SAID, TAGS), text_tagger().scores(TEXTS), indicator(TRUE, TAGS), k=k)


def expected_labels():
    return per_label(indicator(SAID, TAGS), indicator(TRUE, TAGS), TAGS, text_tagger().scores(TEXTS))


def test_a_table_of_all_measures(evaluate, texts):
    out, err = evaluate("texts", texts)
    assert err == ""
    lines = out.splitlines()
    assert lines[0] == f"{texts}: 7 rows, 3 labels; 1.00 labels per row, 1.29 predicted"
    table = {line.split()[0]: line.split()[1:] for line in lines[4:]}
    losses = ("hamming_loss", "one_error", "coverage", "ranking_loss")
    assert table == {
        name: [f"{value:.4f}", "lower" if name in losses else "higher"] for name, value in expected_measures().items()
    }
    assert table["hamming_loss"] == ["0.0952", "lower"]  # 2 of 21


def test_a_table_of_labels(evaluate, texts):
    out, _ = evaluate("texts", texts, "--per-label", COLUMNS="60")
    lines = out[out.index("label ") :].splitlines()
    assert lines[0].split() == ["label", "support", "predicted", "precision", "recall", "F1", "AUC"]
    assert [line.split()[:3] for line in lines[2:]] == [["food", "3", "3"], ["sport", "3", "3"], ["weather", "1", "3"]]
    assert lines[4].split()[3:6] == ["0.3333", "1.0000", "0.5000"]


@pytest.mark.parametrize("columns", ["40", "60", "72"])
def test_a_narrow_terminal_sees_whole_names_and_numbers(evaluate, texts, columns):
    out, _ = evaluate("texts", texts, "--per-label", COLUMNS=columns, FORCE_COLOR="1", TERM="dumb")
    assert "weather" in out
    assert "0.3333" in out
    assert "\u2026" not in out


def test_labels_in_every_order(evaluate, texts):
    labels = {label["label"]: label for label in expected_labels()}
    for by in ("support", "f1", "precision", "recall", "predicted", "auc"):
        out, _ = evaluate("texts", texts, "--per-label", "--sort", by, "--csv", "-")
        values = [labels[row["label"]][by] for row in csv.DictReader(io.StringIO(out))]
        assert values == sorted(values, reverse=True)
        assert len(values) == 3
    out, _ = evaluate("texts", texts, "--per-label", "--sort", "label", "--csv", "-")
    assert [row["label"] for row in csv.DictReader(io.StringIO(out))] == list(TAGS)


def test_what_is_not_defined_comes_last_and_is_a_dash_or_nothing(evaluate, tmp_path):
    (tmp_path / "a.csv").write_text("body,tags\nthe cup final,sport\n")
    out, _ = evaluate("texts", tmp_path / "a.csv", "--per-label", "--sort", "f1")
    lines = [line.split() for line in out.splitlines()[-3:]]
    assert lines[0][:6] == ["sport", "1", "1", "1.0000", "1.0000", "1.0000"]
    assert {line[0] for line in lines[1:]} == {"food", "weather"}
    assert lines[1][1:] == ["0", "0", "-", "-", "-", "-"]
    out, _ = evaluate("texts", tmp_path / "a.csv", "--per-label", "--csv", "-")
    assert "food,0,0,,,,\n" in out
    document = json.loads(evaluate("texts", tmp_path / "a.csv", "--json")[0])
    assert document["measures"]["macro_auc"] is None
    assert document["per_label"][1]["f1"] is None


def test_json_has_everything(evaluate, texts, taggers):
    out, err = evaluate("texts", texts, "--json", "--top-k", "2,1")
    assert err == ""
    assert json.loads(out) == {
        "tagger": str(taggers / "texts.cmg"),
        "data": str(texts),
        "n_rows": 7,
        "n_labels": 3,
        "n_known": 21,
        "unknown_labels": {},
        "promise": {},
        "measures": expected_measures(k=(1, 2)),
        "per_label": expected_labels(),
    }


def test_csv_of_measures_or_labels(evaluate, texts, tmp_path):
    out, err = evaluate("texts", texts, "--csv", tmp_path / "m.csv")
    assert out.startswith(f"{texts}: 7 rows")
    assert err == f"{tmp_path / 'm.csv'}: the measures\n"
    with open(tmp_path / "m.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["measure"]: float(row["value"]) for row in rows} == expected_measures()
    assert rows[0] == {"measure": "hamming_loss", "value": str(2 / 21), "better": "lower"}
    out, err = evaluate("texts", texts, "--csv", "-")
    assert (out, err) == ((tmp_path / "m.csv").read_text(), "")
    assert evaluate("texts", texts, "--per-label", "--csv", tmp_path / "l.csv", "--json", "-q")[1] == ""
    with open(tmp_path / "l.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["label", "support", "predicted", "precision", "recall", "f1", "auc"]
    assert rows[1][:3] == ["food", "3", "3"]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet", "-"])
def test_texts_in_all_formats(evaluate, tmp_path, name):
    stdin, source = None, tmp_path / name
    lines = "".join(json.dumps({"body": t, "tags": tags}) + "\n" for t, tags in zip(TEXTS, SAID, strict=True))
    options = []
    if name == "-":
        stdin, source = gzip.compress(lines.encode()), name
    elif name == "a.parquet":
        write(Dataset(TEXTS, indicator(SAID, TAGS).astype(np.int32), (), TAGS, "a"), source)
        options = ["--text", "text", "--labels", "labels"]
    else:
        content = (lines if name == "a.jsonl" else text_csv()).encode()
        source.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    out, _ = evaluate("texts", source, "--json", *options, stdin=stdin)
    assert json.loads(out)["measures"] == expected_measures()


def test_other_columns_and_separators(evaluate, tmp_path):
    (tmp_path / "a.csv").write_text(text_csv(sep="; ").replace("body,tags", "post,keys"))
    out, _ = evaluate("texts", tmp_path / "a.csv", "--text", "post", "--labels", "keys", "--sep", ";", "--json")
    assert json.loads(out)["measures"] == expected_measures()


def boxes(name="boxes"):
    """Labelled rows, of which one is said to be what the tagger does not find."""
    rows = feature_rows()
    Y = rows.Y.copy()
    Y[0] = 1 - Y[0]
    return Dataset(rows.X, Y, FEATURES, LABELS, name)


def expected_boxes():
    tagger, rows = feature_tagger(), boxes()
    return measured(rows.Y, tagger.scores(rows.X), tagger.predict(rows.X))


@pytest.mark.parametrize("name", ["a.arff", "a.arff.gz", "a.csv", "a.parquet", "a.svm", "a.txt"])
def test_features_in_all_formats(evaluate, tmp_path, name):
    write(boxes(), tmp_path / name)
    out, err = evaluate("boxes", tmp_path / name, "--json")
    document = json.loads(out)
    assert document["measures"] == expected_boxes()
    assert document["measures"]["subset_accuracy"] == 11 / 12
    nameless = name in ("a.svm", "a.txt")
    assert err == (
        f"{tmp_path / name}: its labels have no names; they are taken for the tagger's, in order\n" * nameless
    )


@pytest.mark.parametrize("name", ["a.csv", "a.arff"])
def test_labels_are_found_by_the_names_of_the_taggers_where_the_file_does_not_mark_them(evaluate, tmp_path, name):
    write(boxes(), tmp_path / name)
    if name == "a.csv":
        source = tmp_path / name
        source.write_text(source.read_text().replace("label:", ""))
    else:
        (tmp_path / "a.xml").unlink()
    out, _ = evaluate("boxes", tmp_path / name, "--json")
    assert json.loads(out)["measures"] == expected_boxes()
    if name == "a.csv":
        out, _ = evaluate("boxes", tmp_path / name, "--labels", "-3", "--json")
        assert json.loads(out)["measures"] == expected_boxes()
        out, _ = evaluate("boxes", tmp_path / name, "--labels", "deep,tall,wide", "--json")
        assert json.loads(out)["measures"] == expected_boxes()


def test_json_lines_of_features(evaluate):
    rows = boxes()
    lines = "".join(
        json.dumps({"features": x.tolist(), "is": [LABELS[j] for j in np.flatnonzero(y)]}) + "\n"
        for x, y in zip(rows.X, rows.Y, strict=True)
    )
    out, _ = evaluate("boxes", "-", "--format", "jsonl", "--labels", "is", "--json", stdin=lines.encode())
    assert json.loads(out)["measures"] == expected_boxes()


def test_labels_of_a_nameless_file_beyond_the_taggers_are_unknown(evaluate, tmp_path):
    (tmp_path / "a.svm").write_text("0,9 1:1 2:1 3:-1\n1 1:1 2:-1 3:-1\n")
    out, err = evaluate("boxes", tmp_path / "a.svm", "--json")
    assert json.loads(out)["unknown_labels"] == {"y9": 1}
    assert "no names" in err
    assert err.endswith("1 label in 1 row left out of the measures, as the tagger does not know it: y9\n")


def test_labels_that_the_tagger_does_not_know_are_left_out(evaluate, tmp_path):
    tags = [
        [*row, *more] for row, more in zip(SAID, [["new"], ["old"], ["new"], [], [], ["a", "b", "c"], []], strict=True)
    ]
    (tmp_path / "a.csv").write_text(text_csv(tags))
    out, err = evaluate("texts", tmp_path / "a.csv", "--json")
    document = json.loads(out)
    assert document["measures"] == expected_measures()
    assert document["unknown_labels"] == {"new": 2, "old": 1, "a": 1, "b": 1, "c": 1}
    words = "5 labels in 4 rows left out of the measures, as the tagger does not know them: new, old, a, b, c"
    assert err == f"{tmp_path / 'a.csv'}: {words}\n"
    assert evaluate("texts", tmp_path / "a.csv", "--json", "--quiet")[1] == ""


def test_names_that_only_look_like_numbers_are_names(evaluate, tmp_path):
    """A file with one label that the tagger knows has names."""
    (tmp_path / "a.csv").write_text("body,tags\nwind,y0|weather\n")
    assert json.loads(evaluate("texts", tmp_path / "a.csv", "--json")[0])["unknown_labels"] == {"y0": 1}


def test_rows_without_labels_count(evaluate, tmp_path):
    (tmp_path / "a.csv").write_text("body,tags\nwind,\nthe cup final,\n")
    out, _ = evaluate("texts", tmp_path / "a.csv", "--json")
    assert json.loads(out)["measures"]["hamming_loss"] == 2 / 6


def test_the_test_rows_of_a_known_set(tmp_path):
    train, test = load("digits", split="train"), load("digits", split="test")
    model = OneVsRestClassifier(LogisticRegression(max_iter=1000)).fit(train.X / 16.0, train.Y)
    Tagger(model, train.label_names, 64, train.feature_names).save(tmp_path / "d.cmg")
    code, out, _ = run("evaluate", tmp_path / "d.cmg", "digits", "--json")
    assert code == 0
    document = json.loads(out)
    assert document["n_rows"] == 450
    assert document["measures"] == measured(test.Y, model.decision_function(test.X), model.predict(test.X))
    assert json.loads(run("evaluate", tmp_path / "d.cmg", "digits", "--json", "--split", "all")[1])["n_rows"] == 1797


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("body,tags\nwind,wether\n", "", "the tagger knows none of the labels (wether); the nearest is 'weather'"),
        ("body,tags\nwind,q\n", "", "knows none of the labels (q); it knows food, sport, weather"),
        ("body,tgas\nwind,food\n", "", "no column called 'tags' in the header (body, tgas); say --labels; the"),
        ("body,tags\nwind,food\n", "--top-k 0", "--top-k '0' must be whole numbers from 1 separated by commas"),
        ("body,tags\nwind,food\n", "--top-k 1,", "--top-k '1,' must be"),
        ("body,tags\nwind,food\n", "--json --csv -", "--json and --csv - both print on the standard output"),
        ("body,tags\nwind,food\n", "--csv .", "--csv . is a folder"),
        ("body,tags\nwind\n", "", "test.csv:2: has 1 cells, the header 2"),
        ("body,tags\nwind,food\n", "--missing mean", "--missing 'mean'"),
    ],
)  # fmt: skip
def test_mistakes_end_in_one_line(evaluate, tmp_path, monkeypatch, content, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "test.csv").write_text(content)
    out, err = evaluate("texts", "test.csv", *options.split(), code=None)
    assert message in err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert out == ""


def test_a_wrong_order_is_a_mistake_of_use(evaluate, texts):
    assert "'support'" in evaluate("texts", texts, "--sort", "rows", code=2)[1]


def test_without_labels_the_file_is_refused_with_the_first_reason(evaluate, tmp_path):
    (tmp_path / "a.csv").write_text("width,height,depth\n1,2,3\n")
    _, err = evaluate("boxes", tmp_path / "a.csv", code=1)
    assert "no column starts with 'label:': say --labels" in err
    _, err = evaluate("boxes", "-", stdin=b"width,height,depth,tall,wide,deep\n1,2,3,0,0,0\n", code=1)
    assert "no column starts with 'label:': say --labels" in err


def test_names_are_never_markup(tmp_path):
    from rich.console import Console

    tagger = text_tagger()
    Tagger(tagger.model, ("[red]food[/]", "b", "c"), None, (), {"text": "body"}).save(tmp_path / "t.cmg")
    (tmp_path / "a.csv").write_text("body,labels\nwarm bread,[red]food[/]\nx,[bold]\n")
    code, out, err = run("evaluate", tmp_path / "t.cmg", tmp_path / "a.csv", "--per-label")
    assert code == 0
    assert "[red]food[/] " in out
    assert err.endswith(": [bold]\n")
    console = Console(width=30, file=io.StringIO())
    console.print(measures_table({"micro_f1": 0.51239, "hamming_loss": float("nan")}))
    console.print(labels_table([]))
    assert console.file.getvalue().split()[:3] == ["measure", "value", "better"]
    assert "0.5124  higher" in console.file.getvalue()
    assert "-  lower" in console.file.getvalue()


def test_help_shows_examples():
    code, out, _ = run("evaluate", "--help", COLUMNS="80")
    assert code == 0
    assert " comargin evaluate tagger.cmg test.csv --per-label --sort f1" in [
        line.rstrip() for line in out.splitlines()
    ]
