"""Rows in chunks: what `read` gives, whatever the sizes of chunks and blocks, in memory that does not grow."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from comargin.data import DataFormatError, Dataset, convert, detect_format, load, make_text_like, read, stream, write
from comargin.data import _source as source_module
from comargin.data import _table as table_module
from comargin.data import chunks as chunks_module
from comargin.data.labels import tags_of

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

FILES = [
    "a.arff",
    "meka.arff",
    "a.csv",
    "a.tsv",
    "a.jsonl",
    "a.parquet",
    "a.svm",
    "a.txt",
    "a.arff.gz",
    "a.csv.gz",
    "a.svm.gz",
]


def stacked(parts):
    if isinstance(parts[0], list):
        return [text for part in parts for text in part]
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def all_rows(source, **options):
    """X, names of rows and labels of all chunks together, which are numbered without gaps."""
    chunks = list(stream(source, **options))
    assert [chunk.first_row for chunk in chunks] == [sum(c.n_rows for c in chunks[:i]) for i in range(len(chunks))]
    together = [
        None if chunks[0][part] is None else [item for chunk in chunks for item in chunk[part]] for part in (2, 3)
    ]
    return stacked([chunk.X for chunk in chunks]), *together


def assert_same(X, expected):
    if isinstance(expected, list):
        assert X == expected
        return
    assert sp.issparse(X) == sp.issparse(expected)
    for A, B in zip(*((M.data, M.indices, M.indptr) if sp.issparse(M) else (M,) for M in (X, expected)), strict=True):
        np.testing.assert_array_equal(A, B)


def assert_streams_as_read(path, chunk_rows, **options):
    data = read(path, **options)
    named = not isinstance(data.X, list) and path.suffix not in (".svm", ".txt", ".gz")
    wanted = {"feature_names": data.feature_names} if named else {}
    if not named and not isinstance(data.X, list):
        wanted["n_features"] = data.X.shape[1]
    X, ids, tags = all_rows(path, chunk_rows=chunk_rows, labels=True, **wanted, **options)
    assert_same(X, data.X)
    assert tags == tags_of(data.Y, data.label_names)
    assert ids is None
    X, _, tags = all_rows(path, chunk_rows=chunk_rows, **wanted, **options)
    assert_same(X, data.X)
    assert tags is None


def make(folder, text, name="a.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def some_data(sparse):
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(61, 5)), 3) * rng.integers(0, 2, size=(61, 5))
    Y = rng.integers(0, 2, size=(61, 3)).astype(np.int32)
    return Dataset(sp.csr_array(X) if sparse else X, Y, ("a", "b c", "d,e", "f", "g"), ("p", "q r", "s"), "some")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("chunk_rows", [1, 7, 4096])
def test_chunks_are_what_read_gives(tmp_path, monkeypatch, name, sparse, chunk_rows):
    path = tmp_path / name
    write(some_data(sparse), path, format="meka" if name.startswith("meka") else None)
    for block in (source_module.BLOCK_BYTES, 200):
        monkeypatch.setattr(source_module, "BLOCK_BYTES", block)
        assert_streams_as_read(path, chunk_rows)


@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz", "a.jsonl", "a.ndjson.gz", "a.parquet"])
@pytest.mark.parametrize("chunk_rows", [1, 3, 100])
def test_texts_are_what_read_gives(tmp_path, monkeypatch, name, chunk_rows):
    monkeypatch.setattr(source_module, "BLOCK_BYTES", 16)
    texts = ["plain", 'quo"ted', "two\nlines", "", "cr\r\nlf", "tab\t, comma", "é\u2028"]
    Y = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [0, 1], [1, 0], [0, 0]])
    write(Dataset(texts, Y, (), ("x", "y"), "texts"), tmp_path / name)
    assert_streams_as_read(tmp_path / name, chunk_rows)


@pytest.mark.parametrize("name", ["emotions", "flags", "genbase", "bibtex", "mediamill_small"])
def test_published_sets(data_home, name):
    folder = data_home / name
    path = sorted(folder.glob("*.arff"), key=lambda p: (len(p.name), p.name))[0]
    data = read(path)
    X, _, tags = all_rows(path, chunk_rows=500, feature_names=data.feature_names, labels=True)
    assert_same(X, data.X)
    assert tags == tags_of(data.Y, data.label_names)
    # Without names the XML beside the file says what are labels.
    assert_same(all_rows(path, n_features=len(data.feature_names))[0], data.X)


def test_built_in_and_generated_sets(tmp_path):
    write(load("digits", split="train"), tmp_path / "digits.csv")
    write(make_text_like(300, 2000, 7), tmp_path / "text.svm")
    for name in ("digits.csv", "text.svm"):
        assert_streams_as_read(tmp_path / name, 100)


CELLS = st.one_of(st.sampled_from(["1", "-2.5", "1e3", '"4"', '"5\n"', "", "?", " 6 "]), st.integers(-99, 99).map(str))


@settings(max_examples=150, deadline=None)
@given(
    rows=st.lists(st.tuples(CELLS, CELLS, st.sampled_from(["0", "1", "yes", '"0"'])), min_size=1, max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
    blank=st.integers(0, 11),
    chunk_rows=st.integers(1, 5),
    block=st.integers(1, 60),
)
def test_any_csv_is_what_read_gives(tmp_path_factory, rows, end, blank, chunk_rows, block):
    lines = ["x,y,label:a", *(",".join(row) for row in rows)]
    lines.insert(1 + min(blank, len(rows)), "")
    path = make(tmp_path_factory.mktemp("csv"), b"\xef\xbb\xbf" + (end.join(lines) + end).encode())
    kept, source_module.BLOCK_BYTES = source_module.BLOCK_BYTES, block
    try:
        data = read(path, missing="nan")
        X, _, tags = all_rows(path, missing="nan", labels=True, chunk_rows=chunk_rows)
    finally:
        source_module.BLOCK_BYTES = kept
    assert_same(X, data.X)
    assert tags == tags_of(data.Y, data.label_names)


def test_columns_are_found_by_name_and_others_left_out(tmp_path):
    path = make(tmp_path, "label:t,word,b,a,id\n1,red,2,1,007\n0,blue,4,3,x y\n")
    X, ids, tags = all_rows(path, feature_names=["a", "b"], id="id", labels=["t"])
    assert X.tolist() == [[1, 2], [3, 4]]
    assert ids == ["007", "x y"]
    assert tags == [["t"], []]
    # The same table in Parquet, and in JSON Lines.
    table = pa.table({"word": ["red", "blue"], "b": [2, 4], "a": [1.0, 3.0], "id": ["007", "x y"], "t": [True, False]})
    pq.write_table(table, tmp_path / "a.parquet")
    again = all_rows(tmp_path / "a.parquet", feature_names=["a", "b"], id="id", labels=["t"])
    assert (again[0].tolist(), *again[1:]) == (X.tolist(), ids, tags)
    rows = [{"b": 2, "a": 1, "id": "007", "labels": "t; u"}, {"id": "x y", "a": 3, "b": 4.0, "labels": []}]
    again = all_rows(
        io.BytesIO(b"\n".join(json.dumps(row).encode() for row in rows)), feature_names=["a", "b"], id="id"
    )
    assert (again[0].tolist(), *again[1:]) == (X.tolist(), ids, None)


def test_names_of_arff_attributes(tmp_path):
    header = (
        "@relation r\n@attribute s string\n@attribute c {u,v,w}\n@attribute y numeric\n@attribute x numeric\n@data\n"
    )
    path = make(tmp_path, header + "'no, thing',w,2,1\n?,u,4,3\n", "a.arff")
    names = ["x", "c=w", "c=u", "c=v"]
    assert all_rows(path, feature_names=names)[0].tolist() == [[1, 1, 0, 0], [3, 0, 1, 0]]
    sparse = make(tmp_path, header + "{3 1,2 2}\n{1 w}\n", "s.arff")
    assert all_rows(sparse, feature_names=names)[0].toarray().tolist() == [[1, 0, 1, 0], [0, 1, 0, 0]]
    data = write(some_data(sparse=True), tmp_path / "some.arff")[0]
    X, expected = all_rows(data, feature_names=["g", "f", "a"])[0], read(data).X[:, [4, 3, 0]]
    assert X.has_canonical_format
    np.testing.assert_array_equal(X.toarray(), expected.toarray())
    with pytest.raises(DataFormatError, match=r"column 'xx' is not there; the nearest is 'x'"):
        next(stream(path, feature_names=["xx", "y"]))
    with pytest.raises(DataFormatError, match=r"a.arff:2: attribute 's' is a string, where a number"):
        next(stream(path, feature_names=["s"]))
    with pytest.raises(DataFormatError, match="column 'c=z' is not there"):
        next(stream(path, feature_names=["c=u", "c=z"]))


def test_labels_need_not_be_there(tmp_path):
    assert all_rows(make(tmp_path, "body,n\nred wine,1\n"), text="body")[0] == ["red wine"]
    assert all_rows(make(tmp_path, "text\nred wine\n"))[0] == ["red wine"]
    assert all_rows(make(tmp_path, "a,b\n1,2\n"), n_features=2)[0].tolist() == [[1, 2]]
    assert all_rows(make(tmp_path, " 1:2\n\t2:1\n", "a.svm"), n_features=3)[0].toarray().tolist() == [
        [2, 0, 0],
        [0, 1, 0],
    ]
    header = "@relation r\n@attribute x numeric\n@data\n"
    assert all_rows(make(tmp_path, header + "1\n", "a.arff"))[0].tolist() == [[1]]
    pq.write_table(pa.table({"text": ["red"], "n": [1]}), tmp_path / "a.parquet")
    assert all_rows(tmp_path / "a.parquet")[0] == ["red"]


def test_a_feature_may_be_called_text(tmp_path):
    pq.write_table(pa.table({"text": [3.0, 4.0], "n": [1, 2]}), tmp_path / "a.parquet")
    assert all_rows(tmp_path / "a.parquet")[0].tolist() == [[3, 1], [4, 2]]
    path = make(tmp_path, '{"text": 3, "n": 1, "labels": ["a"]}\n{"text": 4, "n": 2, "labels": []}\n', "a.jsonl")
    assert read(path).X.tolist() == [[3, 1], [4, 2]]


def test_labels_of_arff(tmp_path, monkeypatch):
    text = "@relation r\n@attribute x numeric\n@attribute t {0,1}\n@attribute u {0,1}\n@data\n1,1,1\n2,0,1\n"
    path = make(tmp_path, text, "a-test.arff")
    for labels in (-2, ["t", "u"]):
        for source in (path, io.BytesIO(text.encode())):
            X, _, tags = all_rows(source, labels=labels)
            assert (X.tolist(), tags) == ([[1], [2]], [["t", "u"], ["u"]])
    make(tmp_path, "<labels><label name='u'/><label name='t'/></labels>", "a.xml")
    assert all_rows(path, labels=True)[2] == all_rows(path, labels=tmp_path / "a.xml")[2] == [["u", "t"], ["u"]]
    # Another list of labels may be around; it says nothing about a stream.
    monkeypatch.chdir(tmp_path)
    assert all_rows(io.BytesIO(text.encode()))[0].shape == (2, 3)
    with pytest.raises(DataFormatError, match="A stream has no XML file beside it; say labels="):
        list(stream(io.BytesIO(text.encode()), labels=True))
    # Labels that are left out do not stop the fast parser.
    monkeypatch.delattr("comargin.data._arff_rows.CarefulParser.dense")
    assert all_rows(path)[0].tolist() == all_rows(path, feature_names=["x"])[0].tolist() == [[1], [2]]
    meka = text.replace("relation r", "relation 'r: -C -2'").encode()
    assert all_rows(io.BytesIO(meka))[0].tolist() == [[1], [2]]
    assert all_rows(io.BytesIO(meka), labels=True)[2] == [["t", "u"], ["u"]]


def test_labels_of_nameless_formats(tmp_path):
    path = make(tmp_path, "0,2 1:1\n\n1 \n", "a.txt")
    rows = "3 2 3\n" + path.read_text()
    for name, text in (("a.svm", rows.partition("\n")[2].replace("\n\n", "\n \n")), ("b.txt", rows)):
        path = make(tmp_path, text, name)
        options = {"index_base": 0} if name == "a.svm" else {}
        assert all_rows(path, n_features=2, labels=True, **options)[2] == [["y0", "y2"], [], ["y1"]]
        assert all_rows(path, n_features=2, labels=["u", "v", "w"], **options)[2] == [["u", "w"], [], ["v"]]
        with pytest.raises(DataFormatError, match="label 2 is out of range, there are 2"):
            list(stream(path, n_features=2, labels=["u", "v"], **options))
        with pytest.raises(DataFormatError, match="feature 1 is out of range, there are 1"):
            list(stream(path, n_features=1, **options))


def test_json_lines():
    def rows(lines, **options):
        return all_rows(io.BytesIO(lines.encode()), format="jsonl", **options)

    assert rows('"a"\n\n  "b\\n"\r\n')[0] == ["a", "b\n"]
    assert rows('{"text": "a", "n": 1}\n"b"\n')[0] == ["a", "b"]
    assert rows('{"body": "a", "k": ["x", "y", "x"], "i": 7}\n', text="body", labels="k", id="i")[1:] == (
        ["7"],
        [["x", "y"]],
    )
    assert rows("[1, 2.5]\n[true, -3e2]\n")[0].tolist() == [[1, 2.5], [1, -300]]
    assert rows('{"features": [1, 2], "i": "a"}\n', id="i")[0].tolist() == [[1, 2]]
    nested = '{"features": {"b": 1, "a": 2}}\n{"a": null}\n'
    assert rows(nested, feature_names=["a", "b"], missing="zero")[0].tolist() == [[2, 1], [0, 0]]
    assert np.isnan(rows("[1, null]\n", missing="nan")[0][0, 1])


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ('{"text": "a"', {}, r":2: is not JSON \(Expecting ',' delimiter, character 14\)"),
        ('{"txt": "a"}', {"text": "text"}, r":2: has no field 'text'; the nearest is 'txt'"),
        ('{"text": 3}', {"text": "text"}, r":2: field 'text' is a number, not a string"),
        ("3", {"text": "text"}, r":2: is not an object with the field 'text'"),
        ('"\\ud800"', {"text": "text"}, r":2: the text holds half a surrogate pair"),
        ('{"text": "a", "text": "b"}', {"text": "text"}, r":2: .*field 'text' stands twice"),
        ("[" * 100_000, {"text": "text"}, r":2: is not JSON that can be read"),
        ('{"text": "a", "labels": 3}', {"labels": True}, r":2: field 'labels' is a number, not a list of labels"),
        ('{"text": "a", "labels": [3]}', {"labels": True}, r":2: a label in 'labels' is a number, not a string"),
        ('{"text": "a", "i": [1]}', {"id": "i"}, r":2: has no field 'i'|:2: field 'i' is a list, not a string"),
    ],
)
def test_broken_json_texts(tmp_path, line, options, message):
    path = make(tmp_path, '{"text": "a", "labels": [], "i": null}\n' + line + "\n", "a.jsonl")
    with pytest.raises(DataFormatError, match=message):
        list(stream(path, **options))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("[1]", ":2: has 1 features, expected 2"),
        ("[1, NaN]", ":2: .*NaN is not a number of JSON"),
        ("[1, 1e999]", ":2: the value of 'number 2' is not a finite number"),
        ("[1, 1" + "0" * 400 + "]", ":2: the value of 'number 2' is not a finite number"),
        ('[1, "2"]', ":2: the value of 'number 2' is a string, not a number"),
        ("[1, null]", ":2: the value of 'number 2' is missing; missing= says"),
        ('{"aa": 1, "b": 2}', ":2: has no feature 'a'; the nearest is 'aa'; missing= says"),
        ('"ab"', ":2: is a string, neither a list nor an object"),
    ],
)
def test_broken_json_features(tmp_path, line, message):
    path = make(tmp_path, "[1, 2]\n" + line + "\n", "a.ndjson")
    with pytest.raises(DataFormatError, match=message):
        list(stream(path, feature_names=["a", "b"]))
    if line.startswith("{"):
        with pytest.raises(DataFormatError, match="feature_names= does not say which"):
            list(stream(path))


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        ("a.csv", "", {}, "a.csv: is empty"),
        ("a.csv", "\n", {}, "a.csv:1: has no header line"),
        ("a.csv", "x,label:a\n", {}, "a.csv: has no rows"),
        ("a.csv", "text,labels\n\n\n", {}, "a.csv: has no rows"),
        ("a.csv", "height,width\n1,2\n", {"feature_names": ["width", "hight"]}, "a.csv:1: column 'hight' .*'height'"),
        (
            "a.csv",
            "a\n1\n",
            {"feature_names": ["a", "u", "v"]},
            r"a.csv:1: column 'u' is not there \(nor are 1 others\)",
        ),
        ("a.csv", "a,a,b\n1,2,3\n", {"feature_names": ["a"]}, "a.csv:1: column 'a' stands twice"),
        ("a.csv", "a,b\n1,2\n", {"n_features": 3}, "a.csv:1: has 2 features, expected 3"),
        ("a.csv", "body\nx\n", {"text": "bodi"}, "a.csv:1: no column called 'bodi' .*say text=; the nearest is 'body'"),
        ("a.csv", "a,b\n1,2\n3\n", {}, "a.csv:3: has 1 cells, the header 2"),
        ("a.csv", "a,b\n1,2\n\n3,x\n", {"n_features": 2}, "a.csv:4: 'x' in column 'b' is not a finite number$"),
        ("a.csv", "a,b\n1,\n", {}, "a.csv:2: the value in column 'b' is missing"),
        ("a.csv", 'a,b\n1,"2\n', {}, "a.csv:2: broken CSV"),
        ("a.csv", "a,b\n1,2\n", {"labels": True}, "a.csv:1: no column starts with 'label:'"),
        ("a.csv", "a,b\n1,2\n", {"labels": ["c"]}, "a.csv:1: label 'c' is not a column"),
        ("a.csv", "a,b\n1,2\n", {"id": "bb"}, "a.csv:1: column 'bb' is not there; the nearest is 'b'"),
        ("a.csv", "a,b\n1,\0\n", {}, "a.csv:2: holds a NUL byte"),
        ("a.jsonl", "\n \n", {}, "a.jsonl: has no rows"),
        ("a.svm", "0 1:1\n\n1 1:2\n", {"n_features": 1}, "a.svm:2: a blank line between rows"),
        ("a.svm", "0 1:1\n1 2:2\n", {"n_features": 1}, "a.svm:2: feature 2 is out of range, there are 1"),
        ("a.txt", "3 2 1\n0 0:1\n", {}, "a.txt:1: the header says 3 rows, the file has 1"),
        ("a.arff", "@relation r\n@attribute x numeric\n@data\n", {}, "has no rows after @data"),
        ("a.arff", "@relation r\n@attribute x numeric\n@data\n1\n2,3\n", {}, "a.arff:5: has 2 values, expected 1"),
        ("a.arff", "@relation r\n@attribute x numeric\n@data\n1\n", {"labels": True}, "which attributes are labels"),
        ("a.arff", "@relation r\n@attribute x numeric\n@data\n1\n", {"n_features": 2}, "has 1 feature, expected 2"),
        ("a.parquet", "PAR1 and so on", {}, "is not a readable Parquet file"),
    ],
)
def test_faults_name_file_and_line(tmp_path, name, text, options, message):
    with pytest.raises(DataFormatError, match=message):
        list(stream(make(tmp_path, text, name), **options))


def test_faults_of_parquet_name_rows_of_the_file(tmp_path, monkeypatch):
    from comargin.data import parquet as _parquet

    monkeypatch.setattr(_parquet, "_BATCH_ROWS", 4)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0] * 9 + [None], "t": ["a"] * 9 + [None], "l": [["u"]] * 9 + [[None]]}), path)
    with pytest.raises(DataFormatError, match="column 'x' is missing a value in row 9"):
        list(stream(path, feature_names=["x"]))
    with pytest.raises(DataFormatError, match="column 't' is null in row 9"):
        list(stream(path, text="t"))
    pq.write_table(pa.table({"t": ["a"] * 10, "l": [["u"]] * 9 + [[None]]}), path)
    with pytest.raises(DataFormatError, match="column 'l' holds a null label in row 9"):
        list(stream(path, text="t", labels="l"))
    with pytest.raises(DataFormatError, match=r"column 't' is of type string, not a number$"):
        list(stream(path, feature_names=["t"]))
    with pytest.raises(DataFormatError, match=r"no column called 'u' in the header .*; say labels="):
        list(stream(path, text="t", labels="u"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chunk_rows": 0}, "chunk_rows must be an int of at least 1, got 0"),
        ({"chunk_rows": True}, "chunk_rows must be"),
        ({"format": "xls"}, "format='xls' is unknown, allowed are mulan, .*jsonl"),
        ({"missing": "mean"}, "missing='mean' needs the whole file"),
        ({"missing": "no"}, "missing='no', allowed are"),
        ({"feature_names": "ab"}, "feature_names='ab' must be a sequence of names"),
        ({"labels": False}, "labels=False must be a sequence of names"),
        ({"text": "t", "n_features": 3}, "text= asks for texts"),
        ({"feature_names": ["a"], "n_features": 3}, "n_features=3, but feature_names= has 1 names"),
        ({"id": 3}, "id=3 must be None or the name of a column"),
        ({"encoding": "utf-16"}, "encoding='utf-16' must name an encoding"),
    ],
)
def test_wrong_arguments_are_told_at_once(tmp_path, options, message):
    with pytest.raises(ValueError, match=message):
        stream(make(tmp_path, "a\n1\n"), **options)
    with pytest.raises(FileNotFoundError):
        stream(tmp_path / "nothing.csv")
    with pytest.raises(DataFormatError, match="is a folder"):
        stream(tmp_path)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("a.svm", {"id": "a", "n_features": 1}, "id= means nothing to format 'libsvm'"),
        ("a.svm", {"n_features": 1, "labels": "a"}, "labels='a': for format 'libsvm' it must be True or a sequence"),
        ("a.svm", {}, "n_features= must say how many features there are"),
        ("a.csv", {"index_base": 0}, "index_base= means nothing to format 'csv'"),
        ("t.csv", {"labels": ["a", "b"]}, "label 'a' is not a column of the file"),
    ],
)
def test_arguments_that_mean_nothing(tmp_path, name, options, message):
    path = make(tmp_path, {"a.svm": "0 1:1\n", "a.csv": "a\n1\n", "t.csv": "text\na\n"}[name], name)
    with pytest.raises(ValueError, match=message):
        list(stream(path, **options))


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ('\ufeff{"text": "a"}\n', {}, ["a"]),
        ("\n[1, 2]\n", {}, [[1, 2]]),
        ("\ufefftext,labels\r\na,b\r\n", {}, ["a"]),
        ('"text","labels"\n"two\nlines","b"\n', {}, ["two\nlines"]),
        ("a\tb\n1\t2\n", {"delimiter": "\t"}, [[1, 2]]),
        ("# c\n0,1 2:3\n", {"n_features": 2}, [[0, 3]]),
        ("1 2 1\n0 1:3\n", {}, [[0, 3]]),
        ("% c\n@RELATION r\n@attribute x numeric\n@data\n5\n", {}, [[5]]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_stream_is_looked_at(monkeypatch, text, options, expected, packed):
    data = gzip.compress(text.encode()) if packed else text.encode()
    for binary in (io.BytesIO(data), io.BufferedReader(Drops(data))):
        X = all_rows(binary, **options)[0]
        assert (X if isinstance(X, list) else (X.toarray() if sp.issparse(X) else X).tolist()) == expected
        assert not binary.closed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert len(list(stream("-", **options))) == 1
    assert not sys.stdin.closed


class Drops(io.RawIOBase):
    """Bytes that come one at a time, as through a slow pipe."""

    def __init__(self, data):
        self.data = io.BytesIO(data)

    def readable(self):
        return True

    def readinto(self, buffer):
        byte = self.data.read(1)
        buffer[: len(byte)] = byte
        return len(byte)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_is_known_by_its_mark(tmp_path, encoding):
    rows = [[f"rød vin {i}\u2028\U0001f600", "a;b"] for i in range(20_000)]  # more than a block
    content = ("\ufefftext,labels\n" + "".join(",".join(row) + "\n" for row in rows)).encode(encoding)
    path = tmp_path / "a.csv"
    path.write_bytes(content)
    (tmp_path / "b.csv.gz").write_bytes(gzip.compress(content))
    for source in (path, tmp_path / "b.csv.gz", io.BytesIO(content)):
        assert [text for chunk in stream(source, labels=True) for text in chunk.X] == [text for text, _ in rows]
    assert read(path).label_names == ("a", "b")


@pytest.mark.parametrize("sign", [",", ";", "\t", "|"])
def test_the_delimiter_is_that_of_the_header(tmp_path, sign):
    table = make(tmp_path, f"a{sign}'b, c'{sign}label:x\n1{sign}2{sign}1\n".replace("'", '"'))
    data = read(table)
    assert (data.feature_names, data.X.tolist(), data.Y.tolist()) == (("a", "b, c"), [[1, 2]], [[1]])
    assert next(stream(io.BytesIO(table.read_bytes()), feature_names=["b, c", "a"])).X.tolist() == [[2, 1]]
    texts = make(tmp_path, f"text{sign}labels\nred wine{sign}p\n", "t.csv")
    assert (read(texts).X, read(texts).label_names) == (["red wine"], ("p",))
    assert detect_format(texts) == "text-csv"


def test_a_header_with_two_delimiters_is_not_guessed(tmp_path):
    path = make(tmp_path, "a;b,label:x\n1,1\n")
    with pytest.raises(DataFormatError, match=r"a.csv:1: the header has ',' and ';': say which .* as in delimiter=','"):
        read(path)
    assert read(path, delimiter=",").feature_names == ("a;b",)
    assert read(make(tmp_path, "a,b\tlabel:x\n1\t1\n", "a.tsv")).feature_names == ("a,b",)  # by its suffix
    assert read(make(tmp_path, "text,labels:q;p\nwine,p\n")).label_names == ("q", "p")


def test_streams_that_cannot_be_read(monkeypatch):
    with pytest.raises(DataFormatError, match=r"<stream>: is empty"):
        list(stream(io.BytesIO(b"")))
    with pytest.raises(DataFormatError, match=r"<stream>: is empty"):
        list(stream(io.BytesIO(b"\n\n# nothing\n")))
    with pytest.raises(DataFormatError, match=r"<stream>: is Parquet, which is read from its end"):
        list(stream(io.BytesIO(b"PAR1....")))
    with pytest.raises(DataFormatError, match=r"<stream>:\d+: broken gzip data"):
        list(stream(io.BytesIO(gzip.compress(b"text\n" + os.urandom(999).hex().encode())[:-20])))
    with pytest.raises(ValueError, match="a stream of str, expected one of bytes"):
        list(stream(io.StringIO("text\na\n")))
    with pytest.raises(ValueError, match="source=3 must be a path, '-' or a binary stream"):
        list(stream(3))
    for closed in (None, io.TextIOWrapper(io.BytesIO())):
        if closed is not None:
            closed.close()
        monkeypatch.setattr(sys, "stdin", closed)
        with pytest.raises(ValueError, match="standard input, which is closed"):
            list(stream("-"))


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError("device is gone")])
def test_an_interruption_is_not_an_end(error):
    class Interrupted(io.RawIOBase):
        sent = False

        def readable(self):
            return True

        def readinto(self, buffer):
            if self.sent:
                raise error
            self.sent = True
            data = b"text\na\nb\nc"
            buffer[: len(data)] = data
            return len(data)

    chunks = stream(io.BufferedReader(Interrupted()), chunk_rows=1)
    assert [next(chunks).X, next(chunks).X] == [["a"], ["b"]]
    with pytest.raises(error if isinstance(error, type) else type(error)):
        next(chunks)


def test_lines_of_texts_are_given_out_as_they_come():
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as source, os.fdopen(writing, "wb", buffering=0) as sink:
        chunks = stream(source, chunk_rows=1, format="jsonl")
        for text in ("a", "b"):
            sink.write(json.dumps({"text": text}).encode() + b"\n")
            assert next(chunks).X == [text]  # would wait for ever if more than the line were asked for
        chunks.close()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_pipe_by_its_name(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    sender = threading.Thread(target=path.write_bytes, args=(b"text\n" + b"a\n" * 50_000,))
    sender.start()
    assert len(all_rows(path)[0]) == 50_000
    sender.join()


def test_standard_input_of_a_process():
    code = "from comargin.data import stream\nfor chunk in stream('-', chunk_rows=2): print(chunk.first_row, chunk.X)"
    done = subprocess.run([sys.executable, "-c", code], input=b"text\na\nb\nc\n", capture_output=True, check=True)
    assert done.stdout.split(b"\n") == [b"0 ['a', 'b']", b"2 ['c']", b""]


class Endless(io.RawIOBase):
    """A head and then the same lines for ever."""

    def __init__(self, head, lines):
        self.rest, self.lines = head, lines * max(1, 10_000 // len(lines))

    def readable(self):
        return True

    def readinto(self, buffer):
        while len(self.rest) < len(buffer):
            self.rest += self.lines
        n = len(buffer)
        buffer[:], self.rest = self.rest[:n], self.rest[n:]
        return n


ARFF = b"@relation r\n@attribute x numeric\n@attribute c {u,v,w}\n@data\n"


@pytest.mark.parametrize(
    ("format", "head", "lines", "options"),
    [
        ("csv", b"text,n\n", b'a b c,1\n"d, e\nf",2\n', {}),
        ("csv", b"x,y\n", b"1,2.5\n3,4\n", {}),
        ("csv", b"x,y\n", b'1,"2.5"\n3,4\n', {}),
        ("csv", b"x,y,i\n", b"1,2.5,u\n3,4,v\n", {"id": "i", "n_features": 2}),
        ("jsonl", b"", b'{"text": "a b c", "labels": ["u", "v"]}\n', {"labels": True}),
        ("jsonl", b"", b"[1, 2, 3]\n", {}),
        ("libsvm", b"", b"0,1 1:2 3:4\n2 2:1\n", {"n_features": 3, "labels": True}),
        ("xmc", b"99999999999 3 3\n", b"0,1 1:2 2:4\n\n", {}),
        ("mulan", ARFF, b"1,u\n?,w\n", {"missing": "nan"}),
        ("mulan", ARFF, b"{0 1}\n{1 w}\n", {}),
    ],
)
def test_memory_does_not_grow(monkeypatch, format, head, lines, options):
    monkeypatch.setattr(source_module, "BLOCK_BYTES", 1 << 12)
    monkeypatch.setattr(table_module, "CELLS_AT_ONCE", 1 << 9)
    chunks = stream(io.BufferedReader(Endless(head, lines)), format=format, chunk_rows=100, **options)

    def peak_of(n_rows):
        tracemalloc.reset_peak()
        for _ in range(n_rows // 100):
            next(chunks)
        return tracemalloc.get_traced_memory()[1]

    tracemalloc.start()
    try:
        early = peak_of(4_000)
        late = peak_of(12_000)
    finally:
        tracemalloc.stop()
    chunks.close()
    # One reference for each row would be 96 kB more.
    assert late < early + 60_000


def test_long_rows_make_small_chunks(monkeypatch):
    monkeypatch.setattr(chunks_module, "CHUNK_BYTES", 3000)
    texts = [chunk.X for chunk in stream(io.BytesIO(b"text\n" + (b"a" * 1000 + b"\n") * 7), chunk_rows=5)]
    assert [len(chunk) for chunk in texts] == [3, 3, 1]
    rows = [chunk.n_rows for chunk in stream(io.BytesIO(b"[" + b"1," * 199 + b"1]\n"), chunk_rows=5)]
    assert rows == [1]
    many = io.BytesIO((b"[" + b"1," * 199 + b"1]\n") * 5)
    assert [chunk.n_rows for chunk in stream(many, chunk_rows=5)] == [2, 2, 1]


def test_large_parquet_groups_are_read_in_parts(tmp_path):
    def held(n):
        x, y = np.random.default_rng(0).normal(size=(2, n))
        pq.write_table(pa.table({"x": x, "y": y}), tmp_path / "a.parquet", row_group_size=n)
        before = pa.total_allocated_bytes()
        most = [pa.total_allocated_bytes() - before for _ in stream(tmp_path / "a.parquet", chunk_rows=1000)]
        assert len(most) == n // 1000
        return max(most)

    few, many = held(200_000), held(1_000_000)
    assert many < few + 1_000_000  # the columns are 16 bytes a row: 12.8 MB more


def test_a_gzip_file_may_grow_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "EXPANSION_FLOOR", 1000)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"text\n" + b"a\n" * 50_000))
    with pytest.raises(DataFormatError, match="expands to more than"):
        read(path, text="text", labels="text")
    assert sum(chunk.n_rows for chunk in stream(path)) == 50_000


def test_the_file_is_closed_when_the_rest_is_not_wanted(tmp_path):
    path = make(tmp_path, "text\n" + "a\n" * 100)
    chunks = stream(path, chunk_rows=1)
    next(chunks)
    chunks.close()  # an open file would be a ResourceWarning, which is an error here
    convert(make(tmp_path, "0 1:1\n", "a.svm"), path)
    assert next(stream(path)).X.tolist() == [[1]]


SPLINTERS = [b",", b"\n", b'"', b"{", b"}", b"?", b"1", b"-", b" ", b":", b"\r\n", b"\0", b"\xff", b"#", b"%", b"nan"]


def mutated(data, rng):
    data = bytearray(data)
    for _ in range(rng.integers(1, 3)):
        at, kind = rng.integers(len(data) + 1), rng.integers(4)
        if kind == 0:
            data[at:at] = SPLINTERS[rng.integers(len(SPLINTERS))]
        elif kind == 1:
            del data[at : at + rng.integers(1, 5)]
        elif kind == 2:
            data[at : at + 1] = bytes([rng.integers(256)])
        else:
            data[at:] = data[at : at + 100]
    return bytes(data) or b"x"


@pytest.mark.parametrize("name", ["a.csv", "t.csv", "a.arff", "s.arff", "a.svm", "a.txt", "t.jsonl", "t.parquet"])
def test_mutated_files_are_what_read_gives_or_one_error(tmp_path, monkeypatch, rng, name):
    monkeypatch.setattr(source_module, "BLOCK_BYTES", 97)
    data = some_data(sparse=name[0] == "s")
    texts = [f'text {i}, "x"\nmore' if i % 3 else f"t{i}" for i in range(len(data.Y))]
    path = tmp_path / name
    write(Dataset(texts, data.Y, (), data.label_names, "t") if name[0] == "t" else data, path)
    whole = path.read_bytes()
    n_same = 0
    for _ in range(60):
        path.write_bytes(mutated(whole, rng))
        try:
            expected = read(path)
        except DataFormatError:
            expected = None
        options = {}
        if name in ("a.svm", "a.txt"):  # a header that is broken may leave rows of LIBSVM
            options["n_features"] = 5 if expected is None else expected.X.shape[1]
        try:
            X, _, tags = all_rows(path, chunk_rows=7, labels=True, **options)
        except DataFormatError:
            assert expected is None
            continue
        if expected is not None:
            assert_same(X, expected.X)
            assert [set(row) for row in tags] == [set(row) for row in tags_of(expected.Y, expected.label_names)]
            n_same += 1
    assert n_same > 0
