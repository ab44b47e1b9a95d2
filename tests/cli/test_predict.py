"""`comargin predict`: every way in, every way out, and what is said when it goes wrong."""

import contextlib
import csv
import gzip
import io
import json
import re
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from command import COMMAND, code_of, run
from rich.console import Console
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from small_taggers import LABELS, TAGS, TEXTS, TRUE, feature_rows, feature_tagger, text_tagger

from comargin.cli import _console, _rows
from comargin.data import Dataset, load, write
from comargin.training import Tagger

EXPECTED = [";".join(tags) for tags in TRUE]


@pytest.fixture(scope="module")
def taggers(tmp_path_factory):
    """A folder with texts.cmg, whose texts are in the column body, boxes.cmg, and scaled.cmg for dense rows."""
    folder = tmp_path_factory.mktemp("taggers")
    text_tagger(text="body", labels="tags").save(folder / "texts.cmg")
    feature_tagger().save(folder / "boxes.cmg")
    feature_tagger(scaled=True).save(folder / "scaled.cmg")
    return folder


def text_csv(rows=TEXTS):
    """A table with a name and a text in every row."""
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([["name", "body"], *([f"n{i}", row] for i, row in enumerate(rows))])
    return file.getvalue()


def text_json(rows=TEXTS):
    return "".join(json.dumps({"name": f"n{i}", "body": text}) + "\n" for i, text in enumerate(rows))


@pytest.fixture
def texts(tmp_path):
    (tmp_path / "new.csv").write_text(text_csv())
    return tmp_path / "new.csv"


@pytest.fixture
def predict(taggers):
    """Run the command; returns standard output and error."""

    def call(tagger, *arguments, code=0, stdin=None, **environment):
        with pytest.MonkeyPatch.context() as patch:
            if stdin is not None:
                patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
            ended, out, err = run("predict", taggers / f"{tagger}.cmg", *arguments, **environment)
        assert ended == (code_of(err) if code is None else code), err
        return out, err

    return call


def column(table, name="labels", delimiter=","):
    return [row[name] for row in csv.DictReader(io.StringIO(table), delimiter=delimiter)]


def test_csv_goes_to_the_standard_output_and_nothing_else_is_said(predict, texts):
    out, err = predict("texts", texts)
    assert out == "row,labels\n" + "".join(f"{i},{tags}\n" for i, tags in enumerate(EXPECTED))
    assert err == ""


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.csv.gz", "out.jsonl", "out.ndjson", "out.parquet"])
def test_files_that_are_written(predict, texts, tmp_path, name):
    target = tmp_path / "folder" / name
    out, err = predict("texts", texts, "-o", target, "--id", "name", "--top-k", "2", "--scores")
    assert out == ""
    assert err == f"{target}: 7 rows, 1.29 labels per row\n"
    scores = text_tagger().scores(TEXTS)
    best = [[TAGS[j] for j in row] for row in np.argsort(-scores, axis=1)[:, :2]]
    if target.suffix == ".parquet":
        import pyarrow.parquet as pq

        rows = pq.read_table(target).to_pylist()
        found = [[row[f"score:{tag}"] for tag in TAGS] for row in rows]
    elif target.suffix in (".jsonl", ".ndjson"):
        rows = [json.loads(line) for line in target.read_text().splitlines()]
        found = [[row["scores"][tag] for tag in TAGS] for row in rows]
    else:
        content = (gzip.decompress(target.read_bytes()) if target.suffix == ".gz" else target.read_bytes()).decode()
        table = csv.DictReader(io.StringIO(content), delimiter="\t" if target.suffix == ".tsv" else ",")
        rows = [{**row, "labels": row["labels"].split(";"), "top": row["top"].split(";")} for row in table]
        found = [[float(row[f"score:{tag}"]) for tag in TAGS] for row in rows]
    assert [row["name"] for row in rows] == [f"n{i}" for i in range(7)]
    assert [row["labels"] for row in rows] == TRUE
    assert [row["top"] for row in rows] == best
    np.testing.assert_array_equal(found, scores)


def test_the_standard_output_takes_json_and_other_separators(predict, texts):
    out, _ = predict("texts", texts, "--to", "jsonl", "--id", "name")
    assert [json.loads(line) for line in out.splitlines()][2] == {"name": "n2", "labels": ["sport", "weather"]}
    out, _ = predict("texts", texts, "-o", "-", "--to-sep", "+", "--to-delimiter", "\\t")
    assert out.splitlines()[3] == "2\tsport+weather"


def test_every_predicted_label_is_explained(predict, texts):
    tagger = text_tagger()
    out, _ = predict("texts", texts, "--explain", "1", "--to", "jsonl")
    rows = [json.loads(line) for line in out.splitlines()]
    scores = tagger.scores(TEXTS)
    for i, row in enumerate(rows):
        assert list(row["explain"]) == row["labels"] == TRUE[i]
        for label, one in row["explain"].items():
            (term,) = one["contributions"]
            assert term["feature"] in TEXTS[i].split()
            assert one["score"] == pytest.approx(scores[i, TAGS.index(label)])
            assert term["value"] + one["others"] + one["intercept"] == pytest.approx(one["score"])
    assert {rows[5]["explain"]["weather"]["contributions"][0]["feature"]} == {"wind"}
    out, _ = predict("texts", texts, "--explain", "1")
    assert re.fullmatch(r"weather: wind \+[\d.]+, others \+0, intercept [-+][\d.]+ = [\d.]+", column(out, "explain")[5])
    out, _ = predict("boxes", "--explain", "5", "-", stdin=b"depth,width,height\n1,-1,-1\n-1,-1,-1\n")
    assert [set(re.findall(r"(\w+) [-+]", cell)) for cell in column(out, "explain")] == [
        {"width", "height", "depth", "others", "intercept"},
        set(),
    ]


def test_a_model_that_gives_no_explanation_is_named_before_anything_is_written(tmp_path):
    data = feature_rows(40)
    model = KNeighborsClassifier(3).fit(data.X, data.Y)
    Tagger(model, LABELS, 3, data.feature_names).save(tmp_path / "t.cmg")
    write(data, tmp_path / "new.csv")
    code, out, err = run("predict", tmp_path / "t.cmg", tmp_path / "new.csv", "--explain", "2")
    assert (code, out) == (code_of(err), "")
    assert "KNeighborsClassifier gives no explanation of its scores; the learners of comargin do" in " ".join(
        err.split()
    )


def test_labels_are_separated_as_they_were_in_training(tmp_path, texts):
    names = ("food; drink", *TAGS[1:])  # which the usual separator would tear apart
    tagger = text_tagger()
    Tagger(tagger.model, names, None, (), {"text": "body", "sep": "|"}).save(tmp_path / "t.cmg")
    code, out, _ = run("predict", tmp_path / "t.cmg", texts)
    assert code == 0
    assert column(out)[3:5] == ["food; drink", "food; drink|sport"]


@pytest.mark.parametrize(
    ("content", "options"),
    [
        (text_csv().encode(), []),
        (gzip.compress(text_csv().encode()), []),
        (text_csv().replace(",", ";").encode(), ["--delimiter", ";"]),
        (text_json().encode(), []),
        (text_json().replace("body", "b").encode(), ["--text", "b"]),
        ("".join(json.dumps(text) + "\n" for text in TEXTS).encode(), ["--format", "jsonl"]),
    ],
)
def test_rows_from_the_standard_input(predict, content, options):
    assert column(predict("texts", "-", *options, stdin=content)[0]) == EXPECTED


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.jsonl", "a.jsonl.gz", "a.txt"])
def test_rows_of_texts_in_files(predict, tmp_path, name):
    source = tmp_path / name
    if name == "a.parquet":
        Y = np.zeros((7, 1), dtype=np.int32)
        write(Dataset(TEXTS, Y, (), ("unknown",), "a"), source)
        options = ["--text", "text"]
    else:
        table = text_csv().replace(",", "\t") if name == "a.tsv" else text_csv()
        content = (text_json() if "json" in name or name == "a.txt" else table).encode()
        source.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
        options = []
    assert column(predict("texts", source, *options)[0]) == EXPECTED


@pytest.mark.parametrize("tagger", ["boxes", "scaled"])
@pytest.mark.parametrize("name", ["a.arff", "a.csv", "a.svm", "a.txt", "a.parquet", "a.arff.gz"])
def test_rows_of_features_in_files_with_labels(predict, tmp_path, name, tagger):
    rows = feature_rows()
    write(rows, tmp_path / name)
    found = column(predict(tagger, tmp_path / name)[0])
    assert found == [";".join(name for name, on in zip(LABELS, row, strict=True) if on) for row in rows.Y]


def test_columns_are_found_by_name(predict, tmp_path):
    rows = feature_rows()
    expected = [";".join(name for name, on in zip(LABELS, row, strict=True) if on) for row in rows.Y]
    with open(tmp_path / "a.csv", "w") as file:
        file.write("colour,depth,id,width,height\n")
        file.writelines(f"red,{d},i{i},{w},{h}\n" for i, (w, h, d) in enumerate(rows.X.tolist()))
    out, _ = predict("boxes", tmp_path / "a.csv", "--id", "id", "--chunk-rows", "5")
    assert column(out) == expected
    assert column(out, "id") == [f"i{i}" for i in range(12)]


def test_missing_values_are_zero_when_asked_for(predict):
    out, _ = predict("boxes", "-", "--missing", "zero", stdin=b"width,height,depth\n1,,-1\n")
    assert out == predict("boxes", "-", stdin=b"width,height,depth\n1,0,-1\n")[0]


def test_test_rows_of_a_known_set(tmp_path):
    train, test = load("digits", split="train"), load("digits", split="test")
    model = OneVsRestClassifier(LogisticRegression(max_iter=1000)).fit(train.X[:, ::-1] / 16.0, train.Y)
    # Its columns are called as those of the set, in another order.
    Tagger(model, train.label_names, 64, train.feature_names[::-1]).save(tmp_path / "d.cmg")
    code, out, _ = run("predict", tmp_path / "d.cmg", "Digits")
    assert code == 0
    predicted = [[int(name in row.split(";")) for name in train.label_names] for row in column(out)]
    np.testing.assert_array_equal(predicted, model.predict(test.X[:, ::-1]))
    assert len(column(run("predict", tmp_path / "d.cmg", "digits", "--split", "train")[1])) == 1347


def test_quiet_says_nothing(predict, texts, tmp_path):
    assert predict("texts", texts, "-o", tmp_path / "o.csv", "-q") == ("", "")
    assert column((tmp_path / "o.csv").read_text()) == EXPECTED


def test_lines_of_progress_when_no_one_looks_at_a_screen(predict, texts, tmp_path, monkeypatch):
    monkeypatch.setattr(_console, "_PATIENCE", 0.0)
    _, err = predict("texts", texts, "-o", tmp_path / "o.csv", "--chunk-rows", "7")
    assert err.splitlines()[0].startswith("7 rows, ")
    assert err.splitlines()[0].endswith(" rows/s")
    assert predict("texts", texts, "-o", tmp_path / "o.csv", "-q")[1] == ""
    monkeypatch.setattr(_console, "_PATIENCE", 1000.0)
    assert "rows/s" not in predict("texts", texts, "-o", tmp_path / "o.csv")[1]


@pytest.mark.parametrize(
    ("width", "size", "told"), [(100, 200, "100/200 bytes"), (60, 200, "50%"), (100, None, "5 rows")]
)
def test_a_bar_on_a_screen(monkeypatch, width, size, told):
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=width, color_system=None)
    monkeypatch.setattr(_console, "console_for", lambda **_: console)
    monkeypatch.setattr(_console, "_PATIENCE", 0.0)
    with _console.row_progress(False, size) as show:
        show(5, 100)
    assert "5 rows, " in file.getvalue()
    assert told in file.getvalue()


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz", "a.jsonl", "a.jsonl.gz"])
def test_a_file_whose_bytes_are_counted_is_read_alike(tmp_path, name):
    tagger, source = text_tagger(text="body"), tmp_path / name
    content = text_json() if "json" in name else text_csv().replace(",", "\t" if name == "a.tsv" else ",")
    source.write_bytes(gzip.compress(content.encode()) if name.endswith(".gz") else content.encode())
    counted = _rows.counted_file(str(source), None)
    places = {"split": None, "data_home": None}
    (chunk,) = _rows.rows_for(tagger, str(source), {}, **places, counted=counted)
    (same,) = _rows.rows_for(tagger, str(source), {}, **places)
    assert chunk == same
    assert counted.tell() == source.stat().st_size
    counted.close()
    source.write_text(content.replace("wine", '"') if "json" in name else "name,body\na\n")
    with _rows.counted_file(str(source), "jsonl") as counted, pytest.raises(ValueError, match=str(source)):
        list(_rows.rows_for(tagger, str(source), {}, **places, counted=counted))  # faults name the file all the same


@pytest.mark.parametrize("name", ["a.arff", "a.svm", "a.parquet", "a.dat"])
def test_files_that_must_be_opened_by_their_names_are_not_counted(tmp_path, name):
    (tmp_path / name).write_text("x")
    assert _rows.counted_file(str(tmp_path / name), None) is None
    assert _rows.counted_file("-", "jsonl") is None


@pytest.mark.parametrize("scaled", [True, False])
def test_a_known_set_without_names_is_taken_by_position(tmp_path, scaled):
    home = tmp_path / "home" / "boxes"
    home.mkdir(parents=True)
    rows = feature_rows()
    write(rows, home / "boxes.txt")
    feature_tagger(scaled).save(tmp_path / "t.cmg")
    code, out, err = run("predict", tmp_path / "t.cmg", "boxes", "--data-home", tmp_path / "home")
    assert code == 0, err
    assert column(out) == [";".join(name for name, on in zip(LABELS, row, strict=True) if on) for row in rows.Y]


def test_chunks_of_wide_rows_are_shorter():
    tagger = feature_tagger()
    assert _rows._rows_at_once(tagger) == 4096
    names = tuple(map(str, range(1 << 20)))
    assert _rows._rows_at_once(replace(tagger, label_names=names)) == 4
    assert _rows._rows_at_once(replace(tagger, n_features=1 << 30)) == 4096
    assert _rows._rows_at_once(replace(feature_tagger(scaled=True), n_features=1 << 30)) == 1


@pytest.mark.parametrize("cuts", [True, False])
def test_labels_and_scores_of_one_pass_are_those_of_two(cuts):
    tagger = text_tagger(cuts=cuts)
    Y, scores = tagger.labels_and_scores(TEXTS)
    np.testing.assert_array_equal(Y.toarray(), tagger.predict(TEXTS).toarray())
    np.testing.assert_array_equal(scores, tagger.scores(TEXTS))
    rows = feature_rows()
    Y, scores = feature_tagger().labels_and_scores(rows.X)
    np.testing.assert_array_equal(Y.toarray(), rows.Y)
    assert scores.shape == Y.shape


def test_a_broken_row_leaves_no_file(predict, tmp_path):
    source, target = tmp_path / "new.csv", tmp_path / "o.csv"
    source.write_text(text_csv(TEXTS * 20) + "n140\n")
    target.write_text("old")
    _, err = predict("texts", source, "-o", target, "--chunk-rows", "10", code=1)
    assert err == f"Error: {source}:142: has 1 cells, the header 2\n"
    assert target.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"new.csv", "o.csv"}


def test_rows_before_a_broken_one_are_out(predict, tmp_path):
    out, err = predict("texts", "-", "--chunk-rows", "1", stdin=(text_json() + "{\n").encode(), code=1)
    assert column(out) == EXPECTED
    assert err.startswith("Error: <stdin>:8: is not JSON")


def test_what_cannot_be_read_at_all_leaves_no_heading(predict):
    out, err = predict("texts", "-", stdin=b"", code=1)
    assert (out, err) == ("", "Error: <stdin>: is empty\n")


@pytest.mark.parametrize(
    ("tagger", "content", "options", "message"),
    [
        ("texts", "name,boddy\na,b\n", "", "no column called 'body' in the header (name, boddy); say --text; the"),
        ("texts", "name;body,x\na;b,c\n", "", "say which stands between cells, as in --delimiter ','"),
        ("texts", "body\na\n", "--id number", "column 'number' is not there"),
        ("texts", "body\na\n", "--id body --to-delimiter ab", "--to-delimiter 'ab' must be one ASCII character"),
        ("texts", "body\na\n", "--to excel", "--to 'excel' is unknown, allowed are csv, jsonl, parquet"),
        ("texts", "body\na\n", "--to parquet", "--to 'parquet' needs a file"),
        ("texts", "body\na\n", "--to-sep oo", "Choose another --to-sep or --to"),
        ("texts", "body\na\n", "-o x.foo", "the suffix of 'x.foo' names no format; say --to"),
        ("texts", "body\na\n", "--id labels", "--id 'labels' must be a name that no other column has"),
        ("texts", "body\na\n", "--split test", "--split is for known sets"),
        ("texts", "body\na\n", "--index-base 0", "--index-base means nothing to format 'csv'"),
        ("texts", "body\na\n", "--format libsvm", "the tagger takes texts, and a file of this format has none"),
        ("texts", "body\na\n", "--format excel", "--format 'excel' is unknown"),
        ("boxes", "width,hight,depth\n1,2,3\n", "", "column 'height' is not there; the nearest is 'hight'"),
        ("boxes", "width,height,depth\n1,2,\n", "", "--missing says what to do"),
        ("boxes", "width,height,depth\n1,2,\n", "--missing nan", "--missing 'nan': the tagger takes no missing values"),
        ("boxes", "width,height,depth\n1,2,x\n", "", "new.csv:2: 'x' in column 'depth' is not a finite number"),
        ("boxes", "width,height,depth\n1,2,3\n", "--text width", "--text: the tagger takes 3 features, not texts"),
        ("boxes", "0 7:1\n", "--format libsvm", "new.csv:1: feature 7 is out of range, there are 3"),
    ],
)  # fmt: skip
def test_mistakes_end_in_one_line(predict, tmp_path, monkeypatch, tagger, content, options, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new.csv").write_text(content)
    out, err = predict(tagger, "new.csv", *options.split(), code=None)
    assert message in err
    assert err.startswith("Error: ")
    assert err.count("\n") == 1
    assert out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


@pytest.mark.parametrize(
    ("tagger", "new", "message"),
    [
        ("text", "new.csv", "did you mean {folder}/texts.cmg?"),
        ("zzz", "new.csv", "there is no tagger {folder}/zzz.cmg; comargin train writes one"),
        ("texts", "nothere.csv", "there is no file nothere.csv"),
        ("texts", "digts", "did you mean digits"),
        ("texts", "digits", "digits has features, and the tagger takes texts"),
        ("boxes", "digits", "digits: column 'width' is not there (nor are 2 others)"),
        ("texts", ".", ". is a folder"),
    ],
)
def test_what_is_not_there(predict, taggers, tagger, new, message):
    assert message.format(folder=taggers) in predict(tagger, new, code=None)[1]


def test_options_that_known_sets_and_numbers_refuse(predict, texts, tmp_path):
    assert "--text only says how to read a file" in predict("texts", "digits", "--text", "body", code=None)[1]
    assert "--top-k" in predict("texts", texts, "--top-k", "0", code=2)[1]
    assert f"--output {tmp_path} is a folder" in predict("texts", texts, "-o", tmp_path, code=None)[1]
    code, _, err = run("predict", texts, tmp_path)  # the two in the wrong order
    assert (code, err) == (1, f"Error: {texts}: is not a model file of comargin\n")


def test_help_shows_examples():
    code, out, _ = run("predict", "--help", COLUMNS="80")
    assert code == 0
    assert " comargin predict tagger.cmg new.csv -o labels.csv" in [line.rstrip() for line in out.splitlines()]


def write_texts(process, n_rows):
    block = (json.dumps({"body": " ".join(TEXTS * 3)}) + "\n").encode() * 1000
    for _ in range(n_rows // 1000):
        process.stdin.write(block)
    process.stdin.flush()


def test_who_stops_reading_hears_nothing(taggers):
    """In a process, whose output is closed after its first line."""
    command = [COMMAND, "predict", taggers / "texts.cmg", "-", "--chunk-rows", "500"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        write_texts(process, 1000)
        assert process.stdout.readline() == b"row,labels\n"
        process.stdout.close()
        with contextlib.suppress(BrokenPipeError):  # it may have ended before it has read all
            write_texts(process, 10_000)
            process.stdin.close()
        assert process.stderr.read() == b""
        assert process.wait(60) in (1, 141)


_MEASURED = """
import resource, sys
from comargin.cli import main
try:
    main()
finally:
    sys.stderr.write(str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_rows(taggers):
    peaks = []
    for n_rows in (40_000, 200_000):
        command = [sys.executable, "-c", _MEASURED, "predict", taggers / "texts.cmg", "-", "--top-k", "2", "-q"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            write_texts(process, n_rows)
            process.stdin.close()
            peaks.append(int(process.stderr.read()) / 1024)  # MiB
    assert peaks[1] - peaks[0] < 30
