"""Predictions in CSV, JSON Lines and Parquet: what was written is there, whole, or nothing is."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp

from comargin.core import Contribution, Explanation
from comargin.data import Chunk, PredictionWriter, read, stream

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

LABELS = ("red", "wine, dry", "food")
Y = np.array([[1, 1, 0], [0, 0, 0], [0, 0, 1]])
SCORES = np.array([[0.1, 2.0, -1.0], [-3.0, -0.25, -0.25], [-1e-300, 0.0, 1 / 3]])
CHUNKS = (Chunk(["a", "b"], 0), Chunk(["c"], 2))
NAMED = (Chunk(["a", "b"], 0, ["x,1", "é\n"]), Chunk(["c"], 2, ["007"]))


def write_all(target, chunks=CHUNKS, make=np.asarray, **options):
    with PredictionWriter(target, LABELS, **options) as out:
        for chunk in chunks:
            rows = slice(chunk.first_row, chunk.first_row + chunk.n_rows)
            out.write(chunk, make(Y[rows]), SCORES[rows])
    return out


def cells(path):
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t" if ".tsv" in path.name else ","))


@pytest.mark.parametrize("make", [np.asarray, sp.csr_array, lambda A: A.astype(bool), lambda A: A.tolist()])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.csv.gz"])
def test_csv(tmp_path, name, make):
    out = write_all(tmp_path / name, make=make)
    assert out.n_rows == 3
    assert cells(tmp_path / name) == [["row", "labels"], ["0", "red;wine, dry"], ["1", ""], ["2", "food"]]
    assert os.listdir(tmp_path) == [name]


def test_csv_with_everything(tmp_path):
    write_all(tmp_path / "a.csv", NAMED, top_k=2, scores=True, sep="|", id_name="name")
    table = cells(tmp_path / "a.csv")
    assert table[0] == ["name", "labels", "top", "top_scores", "score:red", "score:wine, dry", "score:food"]
    assert [row[0] for row in table[1:]] == ["x,1", "é\n", "007"]
    assert [row[2] for row in table[1:]] == ["wine, dry|red", "wine, dry|food", "food|wine, dry"]
    assert table[2][3] == "-0.25|-0.25"
    assert np.array([row[4:] for row in table[1:]], dtype=float).tobytes() == SCORES.tobytes()


def test_equal_scores_keep_the_order_of_the_labels():
    names = [f"l{j}" for j in range(60)]
    file = io.StringIO()
    with PredictionWriter(file, names, format="jsonl", top_k=40) as out:
        out.write(Chunk(["a"], 0), np.zeros((1, 60)), np.repeat([[1.0, 2.0, 1.0]], 20, axis=1))
    assert json.loads(file.getvalue())["top"] == [*names[20:40], *names[:20]]


def test_json_lines(tmp_path):
    write_all(tmp_path / "a.jsonl", NAMED, top_k=9, scores=True)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[0] == {
        "row": "x,1",
        "labels": ["red", "wine, dry"],
        "top": ["wine, dry", "red", "food"],
        "top_scores": [2.0, 0.1, -1.0],
        "scores": {"red": 0.1, "wine, dry": 2.0, "food": -1.0},
    }
    assert [row["row"] for row in rows] == ["x,1", "é\n", "007"]
    write_all(tmp_path / "b.ndjson")
    assert json.loads((tmp_path / "b.ndjson").read_text().splitlines()[2]) == {"row": 2, "labels": ["food"]}


@pytest.mark.parametrize("chunks", [CHUNKS, NAMED])
def test_parquet(tmp_path, chunks):
    write_all(tmp_path / "a.parquet", chunks, top_k=1, scores=True)
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column("row").to_pylist() == ([0, 1, 2] if chunks is CHUNKS else ["x,1", "é\n", "007"])
    assert table.column("labels").to_pylist() == [["red", "wine, dry"], [], ["food"]]
    assert table.column("top").to_pylist() == [["wine, dry"], ["wine, dry"], ["food"]]
    assert table.column("top_scores").to_pylist() == [[2.0], [-0.25], [1 / 3]]
    assert [table.column(f"score:{name}").to_pylist() for name in LABELS] == SCORES.T.tolist()


def test_explanations(tmp_path):
    terms = (Contribution("feature", "grape", 1.5), Contribution("with", ("food",), -0.5))
    one = Explanation("wine, dry", 1.0, terms, 0.0, 0.0)
    text = "wine, dry: grape +1.5, with food -0.5, others +0, intercept +0 = 1"
    red = one._replace(label="red", contributions=())
    told = [[red, one], [], [one]]
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        with PredictionWriter(tmp_path / name, LABELS, explain=True) as out:
            out.write(Chunk(["a", "b", "c"], 0), Y, None, told)
            with pytest.raises(ValueError, match="explanations must be those of the 1 rows of the chunk"):
                out.write(Chunk(["d"], 3), Y[:1], None, told)
            with pytest.raises(ValueError, match="explanations must be those of the 1 rows of the chunk"):
                out.write(Chunk(["d"], 3), Y[:1])
    rows = cells(tmp_path / "a.csv")
    assert rows[0] == ["row", "labels", "explain"]
    assert [row[2] for row in rows[1:]] == [f"red: others +0, intercept +0 = 1;{text}", "", text]
    rows = [json.loads(line)["explain"] for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert rows == [{"red": red.to_dict(), "wine, dry": one.to_dict()}, {}, {"wine, dry": one.to_dict()}]
    table = pq.read_table(tmp_path / "a.parquet")
    assert table.column("explain").to_pylist() == [[str(red), text], [], [text]]


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl", "a.parquet"])
def test_no_rows_at_all(tmp_path, name):
    write_all(tmp_path / name, chunks=())
    if name == "a.parquet":
        assert pq.read_table(tmp_path / name).num_rows == 0
    else:
        assert (tmp_path / name).read_text() == ("row,labels\n" if name == "a.csv" else "")


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz", "a.jsonl", "a.parquet"])
def test_a_failure_leaves_the_old_file(tmp_path, name):
    (tmp_path / name).write_bytes(b"old")
    out = PredictionWriter(tmp_path / name, LABELS)

    def stopped():
        with out:
            out.write(CHUNKS[0], Y[:2])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stopped()
    assert (tmp_path / name).read_bytes() == b"old"
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(ValueError, match="inside its with block"):
        out.write(CHUNKS[0], Y[:2])


def test_a_fault_of_the_input_leaves_the_old_file(tmp_path):
    source, target = tmp_path / "in.csv", tmp_path / "out.csv"
    source.write_text("x\n1\n2\nthree\n")
    target.write_text("old")

    def predict():
        with PredictionWriter(target, ["a"]) as out:
            for chunk in stream(source, chunk_rows=2):
                out.write(chunk, np.ones((chunk.n_rows, 1)))

    with pytest.raises(ValueError, match=r"in.csv:4: 'three'"):
        predict()
    assert target.read_text() == "old"


def test_standard_output_is_flushed_by_chunk(capsys):
    class Counting(io.StringIO):
        flushed = 0

        def flush(self):
            self.flushed += 1

    for format in ("jsonl", "csv"):
        file = Counting()
        write_all(file, format=format)
        assert file.flushed == 2
        assert not file.closed
    write_all("-")
    assert capsys.readouterr().out == 'row,labels\n0,"red;wine, dry"\n1,\n2,food\n'
    file.close()
    with pytest.raises(ValueError, match="is closed"):
        write_all(file)


def test_a_reader_that_has_gone(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    file = os.fdopen(writing, "w")
    with pytest.raises(BrokenPipeError):
        write_all(file)
    with pytest.raises(BrokenPipeError):
        file.close()


def test_through_a_pipe():
    code = (
        "import numpy as np\nfrom comargin.data import PredictionWriter, stream\n"
        "with PredictionWriter('-', ['a'], format='jsonl') as out:\n"
        "    for chunk in stream('-', chunk_rows=1): out.write(chunk, np.ones((chunk.n_rows, 1)))"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for i in range(3):  # every line is answered before the next is sent
            process.stdin.write((b"text\n" if i == 0 else b"") + b"some text\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"row": i, "labels": ["a"]}
        process.stdin.close()
        assert process.wait() == 0


def test_labels_read_back(tmp_path):
    write_all(tmp_path / "a.csv")
    again = read(tmp_path / "a.csv", text="row", labels="labels")
    assert again.label_names == tuple(sorted(LABELS))
    assert again.Y.toarray()[:, [1, 2, 0]].tolist() == Y.tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"format": "xls"}, "format='xls' is unknown, allowed are csv, jsonl, parquet"),
        ({"target": "a.xls"}, "the suffix of 'a.xls' names no format"),
        ({"target": "-", "format": "parquet"}, "format='parquet' needs a file"),
        ({"label_names": []}, "label_names= must hold distinct names"),
        ({"label_names": ["a", "a"]}, "label_names= must hold distinct names"),
        ({"label_names": "ab"}, "label_names='ab' must be a sequence of names"),
        ({"label_names": ["a;b"]}, "label_names: label 'a;b' .*contains sep=';'"),
        ({"top_k": 0}, "top_k must be an int of at least 1, got 0"),
        ({"top_k": True}, "top_k must be"),
        ({"sep": ""}, "sep='' must be a string that is not empty"),
        ({"delimiter": "ab"}, "delimiter='ab' must be one ASCII character"),
        ({"id_name": "labels"}, "id_name='labels' must be a name that no other column has"),
    ],
)
def test_wrong_arguments(options, message):
    arguments = {"target": "a.csv", "label_names": ["a"], **options}
    with pytest.raises(ValueError, match=message):
        PredictionWriter(**arguments)


def test_wrong_predictions(tmp_path):
    with PredictionWriter(tmp_path / "a.csv", LABELS, top_k=1) as out:
        for Y_pred, scores, message in (
            (Y[:1], SCORES[:2], r"Y_pred has shape \(1, 3\), expected \(2, 3\)"),
            (Y[:2] * 2, SCORES[:2], "Y_pred must be a label indicator"),
            (Y[:2], None, "scores: they are to be written"),
            (Y[:2], SCORES, r"scores has shape \(3, 3\), expected \(2, 3\)"),
            (Y[:2], SCORES[:2] * np.inf, "scores holds NaN or infinite values"),
        ):
            with pytest.raises(ValueError, match=message):
                out.write(CHUNKS[0], Y_pred, scores)
    assert cells(tmp_path / "a.csv") == [["row", "labels", "top", "top_scores"]]
    with pytest.raises(ValueError, match="is a folder"):
        write_all(tmp_path, format="csv")
