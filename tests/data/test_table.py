"""CSV and Parquet tables, and texts with tags."""

from __future__ import annotations

import csv
import json
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from comargin.data import DataFormatError, Dataset, stream
from comargin.data import _source as source_module
from comargin.data import _table as table_module
from comargin.data.formats import detect_format, read, write

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def make(folder, text, name="a.csv"):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_csv_by_prefix(tmp_path):
    data = read(make(tmp_path, 'x,label:b,"y, z",label:a\n1,0,2.5,1\n-3,yes,1e3,False\n'))
    assert data.X.tolist() == [[1, 2.5], [-3, 1000]]
    assert data.Y.tolist() == [[0, 1], [1, 0]]
    assert data.Y.dtype == np.int32
    assert data.feature_names == ("x", "y, z")
    assert data.label_names == ("b", "a")


def test_csv_labels_argument(tmp_path):
    path = make(tmp_path, "x,b,a\n1,0,1\n2,1,1\n")
    with pytest.raises(DataFormatError, match="labels="):
        read(path)
    assert read(path, labels=["a", "b"]).Y.tolist() == [[1, 0], [1, 1]]
    assert read(path, labels="a", drop=["b"]).X.tolist() == [[1], [2]]
    assert read(path, labels=-2).label_names == ("b", "a")
    with pytest.raises(DataFormatError, match="'c' is not a column"):
        read(path, labels=["c"])
    with pytest.raises(ValueError, match="drop= names"):
        read(path, labels=["a"], drop=["c"])


def test_csv_missing(tmp_path):
    path = make(tmp_path, "x,y,label:a\n1,2,0\n,NA,1\n4,?,1\n")
    with pytest.raises(DataFormatError, match=r"a.csv:3: .*'x' is missing"):
        read(path)
    np.testing.assert_array_equal(read(path, missing="nan").X, [[1, 2], [np.nan, np.nan], [4, np.nan]])
    assert read(path, missing="zero").X.tolist() == [[1, 2], [0, 0], [4, 0]]
    assert read(path, missing="mean").X.tolist() == [[1, 2], [2.5, 2], [4, 2]]


def test_csv_delimiters_and_text_to_drop(tmp_path):
    assert read(make(tmp_path, "x\tlabel:a\n1\t0\n", "a.tsv")).X.tolist() == [[1]]
    assert read(make(tmp_path, "x;label:a\n1;0\n"), delimiter=";").X.tolist() == [[1]]
    path = make(tmp_path, 'body,x,label:a\n"two\nlines, and ""quotes""",1,0\nplain,2,1\n')
    assert read(path, drop=["body"]).X.tolist() == [[1], [2]]
    for bad in (",,", "", "1", '"', "é", "-"):
        with pytest.raises(ValueError, match="delimiter="):
            read(path, delimiter=bad)


@pytest.mark.parametrize("word", ["", "?", "NA", "nan", "NULL", "N/A", "None"])
def test_missing_cells_are_read_as_fast_as_others(tmp_path, word):
    path = make(tmp_path, f"x,y,label:a\n1,{word},0\n{word},{word},{word}\n")
    with patch("comargin.data._table.TableRows._cells", side_effect=AssertionError("the slow parser")):
        data = read(path, missing="nan", unlabelled="negative")
    np.testing.assert_array_equal(data.X, [[1, np.nan], [np.nan, np.nan]])
    assert data.Y.tolist() == [[0], [0]]
    assert read(path, missing="nan", unlabelled="drop").Y.tolist() == [[0]]
    with pytest.raises(DataFormatError, match=r"a.csv:3: '.*' in label column 'label:a'; unlabelled='negative' takes"):
        read(path, missing="nan")
    with pytest.raises(DataFormatError, match=r"a.csv:2: the value in column 'y' is missing; missing= says"):
        read(path)
    with pytest.raises(DataFormatError, match=r"a.csv:2: '1\?' in column 'x' is not a finite number"):
        read(make(tmp_path, f"x,y,label:a\n1{word or '?'},2,0\n".replace(f"1{word or '?'}", "1?")), missing="nan")


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("x,label:a\n1,0\n1\n", 3, "has 1 cells, the header 2"),
        ("x,label:a\n1,0\nabc,1\n", 3, "'abc' in column 'x'"),
        ("x,label:a\n1,0\ninf,1\n", 3, "'inf' in column 'x'"),
        ("x,label:a\n1,0\n1,2\n", 3, "'2' in label column"),
        ("x,label:a\n1,0\n1,\n", 3, "'' in label column"),
        ('x,label:a\n1,0\n"1,1\n', 3, "broken CSV"),
        ("x,x,label:a\n1,1,0\n", 1, "stands twice"),
        ("x,label:a\n", None, "no rows"),
        ("\n", 1, "no header"),
        ("x,label:a\n1,\xff\n", 2, "label column"),
    ],
)
def test_broken_csv(tmp_path, text, line, reason):
    with pytest.raises(DataFormatError, match=reason) as caught:
        read(make(tmp_path, text))
    assert caught.value.line == line


CELLS = st.one_of(
    st.floats(allow_nan=False).map(repr), st.integers(-99, 99).map(str), st.sampled_from(["", "?", "x", " 1 ", '"2"'])
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(CELLS, st.sampled_from(["0", "1", "1.0", "yes", "2"])).map(",".join), min_size=1, max_size=6))
def test_fast_is_careful(tmp_path_factory, rows):
    path = make(tmp_path_factory.mktemp("csv"), "x,label:a\n" + "\n".join(rows))
    outcomes = []
    for scan in (table_module.scan, lambda *_: None):
        try:
            with patch.object(table_module, "scan", scan):
                data = read(path, missing="nan")
            outcomes.append((repr(data.X.tolist()), data.Y.tolist()))
        except DataFormatError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_csv_blocks_do_not_show(tmp_path, monkeypatch):
    rows = [f"{i},{i % 2}" for i in range(50)]
    rows[30] = '"30","0"'  # quotes: from here on one stream
    rows[10] = " 10 , 0 "
    path = make(tmp_path, "x,label:a\n" + "\n".join(rows) + "\n")
    bad = make(tmp_path, "x,label:a\n" + "\n".join([*rows, "1,2,3"]) + "\n", "bad.csv")
    for size in (1, 20, 10**6):
        monkeypatch.setattr(source_module, "BLOCK_BYTES", size)
        data = read(path)
        assert data.X.ravel().tolist() == list(range(50))
        assert data.Y.ravel().tolist() == [i % 2 for i in range(50)]
        with pytest.raises(DataFormatError, match=r"bad.csv:52: has 3 cells"):
            read(bad)


def test_long_cells_are_read_in_many_threads(tmp_path):
    text = "word " * 60_000
    assert len(text) > 131_072  # the csv module's own limit
    data = Dataset([text, "b"], np.array([[1], [0]]), (), ("a",), "long")
    path = write(data, tmp_path / "a.csv")[0]
    with ThreadPoolExecutor(8) as pool:
        assert all(found.X == data.X for found in pool.map(lambda _: read(path), range(40)))
    # The limit is a global of the csv module: whoever put it back would cut off the others.
    assert csv.field_size_limit() > len(text)


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("x,label:\n1,0\n", {}, "column 2 is called 'label:', a label without a name"),
        (",x,label:a\n0,1,0\n", {}, r"column 1 is called ''.*index=False.*drop=\[''\]"),
        ("x,label:a,\n0,1,0\n", {}, r"column 3 is called ''.*drop=\[''\]"),
        ("x,\n0,1\n", {"labels": -1}, "column 2 is called ''"),
        ("x,y\n1,0\n", {"labels": ["y"], "delimiter": ";"}, "'y' is not a column"),
        ("id,body,tags\n1,hello,a;b\n", {}, "say labels= .*text= and labels="),
        ("only\n1\n", {}, r"text= and labels= \(a name each\)$"),
    ],
)
def test_headers_that_need_a_word(tmp_path, text, options, reason):
    with pytest.raises(DataFormatError, match=reason) as caught:
        read(make(tmp_path, text), **options)
    assert caught.value.line == 1


def test_an_index_column_can_be_left_out(tmp_path):
    assert read(make(tmp_path, ",x,label:a\n0,5,0\n"), drop=[""]).feature_names == ("x",)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": [1.0], "label:a": [1], "__index_level_0__": [7]}), path)
    with pytest.raises(DataFormatError, match="index that pandas wrote"):
        read(path)
    assert read(path, drop=["__index_level_0__"]).X.tolist() == [[1]]
    with pytest.raises(ValueError, match="index of pandas"):
        write(Dataset(np.ones((1, 1)), np.ones((1, 1)), ("__index_level_0__",), ("a",), "n"), path)


def test_text_csv_by_hand(tmp_path):
    path = make(tmp_path, 'id,body,tags\n1,"a, b\nc", red ; blue\n2,,\n3,x,blue;;blue\n')
    data = read(path, format="text-csv", text="body", labels="tags")
    assert data.X == ["a, b\nc", "", "x"]
    assert data.label_names == ("blue", "red")
    assert isinstance(data.Y, sp.csr_array)
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0], [1, 0]]
    assert data.feature_names == ()
    assert read(path, text="body", labels="tags").X == data.X  # naming the text column says the format
    piped = make(tmp_path, "text,labels\nx,a|b;c\n", "b.csv")
    assert read(piped, sep="|").label_names == ("a", "b;c")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("body,tags\nx,a\n", "no column called 'text'"),
        ("text,tags\nx,a\n", "no column called 'labels'"),
        ("text,labels,labels\nx,a,b\n", "2 columns called 'labels'"),
        ("text,labels\nx\n", "has 1 cells"),
        ("text,labels\nx,\n", "no row has a label"),
        ("text,labels\n", "no rows"),
        ("text,labels:a;b\nx,c\n", "'c' is not one of those"),
        ("text,labels:a;a\nx,a\n", "twice"),
    ],
)
def test_broken_text_csv(tmp_path, text, reason):
    with pytest.raises(DataFormatError, match=reason):
        read(make(tmp_path, text), format="text-csv")


def test_label_names_that_could_not_be_read_back(tmp_path):
    for name in ("a;b", " a", "a "):
        data = Dataset(["x"], np.array([[1, 0]]), (), (name, "c"), "t")
        with pytest.raises(ValueError, match="read back"):
            write(data, tmp_path / "a.csv")
        assert not list(tmp_path.iterdir())
        assert read(write(data, tmp_path / "a.parquet")[0]).label_names == (name, "c")
        (tmp_path / "a.parquet").unlink()
    data = Dataset(["x"], np.array([[1, 0]]), (), ("a;b", "c"), "t")
    assert read(write(data, tmp_path / "a.csv", sep="|")[0], sep="|").label_names == ("a;b", "c")


def test_parquet_of_others(tmp_path):
    path = tmp_path / "a.parquet"
    columns = {"x": pa.array([1, 2, None]), "b": pa.array([True, False, True]), "t": pa.array(["p", "q", "r"])}
    pq.write_table(pa.table(columns), path)
    with pytest.raises(DataFormatError, match=r"'t' is of type string.*drop="):
        read(path, labels=["b"], missing="nan")
    with pytest.raises(DataFormatError, match=r"missing a value in row 2.*missing="):
        read(path, labels=["b"], drop=["t"])
    data = read(path, labels=["b"], drop=["t"], missing="mean")
    assert data.X.tolist() == [[1], [2], [1.5]]
    assert data.Y.tolist() == [[1], [0], [1]]
    with pytest.raises(DataFormatError, match="other values than 0 and 1"):
        read(path, labels=["x"], drop=["t"], unlabelled="negative")
    with pytest.raises(DataFormatError, match=r"missing a value in row 2.*; unlabelled='negative' takes"):
        read(path, labels=["x"], drop=["t"])


def test_a_column_of_texts_may_be_meant_as_one(tmp_path):
    text = r"\(is it a text\? text='body' reads it as one; drop= leaves it out\)$"
    posts = "n,body,tags\n1,red wine,a;b\n2,tea,\n"
    with pytest.raises(DataFormatError, match=rf"a.csv:2: 'red wine' in column 'body' is not a finite number {text}"):
        read(make(tmp_path, posts), labels=["tags"])
    assert read(make(tmp_path, posts), labels="tags", text="body").X == ["red wine", "tea"]
    # A code or a word is no text, and neither columns of 0 and 1 nor several columns are lists of labels.
    for content, labels in (
        (posts.replace("red wine", "wine"), ["tags"]),
        (posts.replace("red wine", "12 34"), ["tags"]),
    ):
        with pytest.raises(DataFormatError, match=r"is not a finite number \(drop= leaves it out\)$"):
            read(make(tmp_path, content), labels=labels)
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"n": [1], "body": ["red wine"], "tags": pa.array([["a", "b"]])}), path)
    with pytest.raises(DataFormatError, match=rf"column 'body' is of type string, not a number {text}"):
        read(path, labels=["tags"])
    pq.write_table(pa.table({"n": [1], "tags": pa.array([["a", "b"]])}), path)
    with pytest.raises(DataFormatError, match=r"column 'tags' is of type list.*not a number \(drop= leaves"):
        read(path, labels=["tags"])


POSTS = "id,body,joy,fear\n7,red wine,1,0\n8,tea,no,yes\n9,bread,0,0\n"


@pytest.mark.parametrize("labels", [["joy", "fear"], -2, "marked"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_texts_with_a_column_for_each_label(tmp_path, labels, kind):
    content = POSTS.replace("joy,fear", "label:joy,label:fear") if labels == "marked" else POSTS
    path = make(tmp_path, content)
    chosen = {} if labels == "marked" else {"labels": labels}
    if kind == "parquet":
        rows = list(csv.reader(content.splitlines()))
        columns = {name: [row[j] for row in rows[1:]] for j, name in enumerate(rows[0])}
        columns |= {name: [cell in ("1", "yes") for cell in columns[name]] for name in rows[0][2:]}
        pq.write_table(pa.table(columns), path := tmp_path / "a.parquet")
    data = read(path, text="body", **chosen)
    assert data.X == ["red wine", "tea", "bread"]
    names = ("joy", "fear") if labels != -2 or kind == "csv" else data.label_names
    assert (data.label_names, data.Y.tolist()) == (names, [[1, 0], [0, 1], [0, 0]])
    (chunk,) = stream(path, text="body", id="id", **{"labels": True, **chosen})
    assert (chunk.ids, chunk.tags) == (["7", "8", "9"], [["joy"], ["fear"], []])
    if labels == "marked":
        return
    with pytest.raises(DataFormatError, match="column 'body' is the text, and among the labels"):
        read(path, text="body", labels=["body", "joy"])
    with pytest.raises(DataFormatError, match="label 'joi' is not a column of the file; the nearest is 'joy'"):
        read(path, text="body", labels=["joi", "fear"])
    if kind == "csv":
        path.write_text(POSTS.replace("tea,no", "tea,"))
        assert read(path, text="body", labels=labels, unlabelled="drop").X == ["red wine", "bread"]
        assert read(path, text="body", labels=labels, unlabelled="negative").Y[1].tolist() == [0, 1]
        with pytest.raises(DataFormatError, match=r"a.csv:3: '' in label column 'joy'; unlabelled='negative' takes"):
            read(path, text="body", labels=labels)
        path.write_text(POSTS.replace("tea,no", "tea,2"))
        with pytest.raises(DataFormatError, match=r"a.csv:3: '2' in label column 'joy', allowed are 0 and 1"):
            read(path, text="body", labels=labels)


def test_lists_of_labels_as_pandas_and_json_write_them(tmp_path):
    cells = [["['joy', 'love']", "joy|love"], ['["joy","l\\u00f6ve"]', "joy|löve"], ["[]", ""], ["{'it\\'s'}", "it's"]]
    cells += [["[3, 4]", "3|4"], ["[a];b", "[a]|b"], ["(b)", "(b)"]]
    path = tmp_path / "a.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["text", "labels"], *([f"row {k}", cell] for k, (cell, _) in enumerate(cells))])
    (chunk,) = stream(path, labels=True)
    assert chunk.tags == [tags.split("|") if tags else [] for _, tags in cells]
    lines = "".join(json.dumps({"text": "x", "labels": cell}) + "\n" for cell, _ in cells)
    assert [
        chunk.tags[0] for chunk in stream(make(tmp_path, lines, "a.jsonl"), labels=True, chunk_rows=1)
    ] == chunk.tags
    for cell in ("['joy' 'love']", "['joy', nan]", "['joy'", "['a'];b"):
        path.write_text(f'text,labels\na,b\nc,"{cell}"\n')
        with pytest.raises(DataFormatError, match=r"a.csv:3: the labels .* start as a list and are none: write \['a'"):
            read(path)
    data = Dataset(["x"], np.array([[1]]), (), ("['a']",), "t")
    with pytest.raises(ValueError, match="could not be read back"):
        write(data, tmp_path / "b.csv")


def test_parquet_refuses_what_float64_cannot_hold(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"x": pa.array([2**60 + 1]), "label:a": pa.array([1])}), path)
    with pytest.raises(DataFormatError, match="does not fit"):
        read(path)
    pq.write_table(pa.table({"x": pa.array([np.inf]), "label:a": pa.array([1])}), path)
    with pytest.raises(DataFormatError, match="infinite"):
        read(path)


def test_parquet_texts_of_others(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"body": ["x", "y"], "tags": pa.array([["b", "a", "b"], None])}), path)
    data = read(path, text="body", labels="tags")
    assert data.X == ["x", "y"]
    assert data.label_names == ("a", "b")
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0]]
    assert detect_format(path) == "parquet"
    with pytest.raises(DataFormatError, match="not a list"):
        read(path, text="body", labels="body")
    with pytest.raises(ValueError, match="drop= means nothing to texts"):
        read(path, text="body", labels="tags", drop=["body"])


def text_parquet(path, tags, metadata=None):
    table = pa.table({"text": [f"t{i}" for i in range(len(tags))], "labels": tags})
    pq.write_table(table.replace_schema_metadata(metadata), path)
    return path


@pytest.mark.parametrize(
    "kept",
    [
        "5",
        "[]",
        '{"label_names": 5}',
        '{"label_names": ["a", ["b"]]}',
        '{"label_names": ["a", 3]}',
        '{"label_names": null}',
        '{"label_names": ["a", "a"]}',
        '{"label_names": ["a", ""]}',
        "{",
        "\xff",
        "[" * 100_000,
    ],
)
def test_broken_metadata_of_a_parquet_file(tmp_path, kept):
    path = text_parquet(tmp_path / "a.parquet", pa.array([["a"]]), {b"comargin": kept.encode("latin-1")})
    with pytest.raises(DataFormatError, match="broken metadata"):
        read(path)


def test_metadata_of_a_parquet_file_keeps_labels_without_rows(tmp_path):
    kept = json.dumps({"label_names": ["z", "a", "b"]}).encode()
    path = text_parquet(tmp_path / "a.parquet", pa.array([["a"], ["b", "a"]]), {b"comargin": kept})
    data = read(path)
    assert data.label_names == ("z", "a", "b")
    assert data.Y.toarray().tolist() == [[0, 1, 0], [0, 1, 1]]


def test_parquet_label_lists(tmp_path):
    path = tmp_path / "a.parquet"
    with pytest.raises(DataFormatError, match="null label in row 1"):
        read(text_parquet(path, pa.array([["a"], ["b", None]])))
    with pytest.raises(DataFormatError, match="lists of double"):
        read(text_parquet(path, pa.array([[0.5]])))
    data = read(text_parquet(path, pa.array([[3, 10], None, [], [10]])))
    assert data.label_names == ("10", "3")
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0], [0, 0], [1, 0]]
    # Only CSV headers list the labels.
    pq.write_table(pa.table({"text": ["a"], "labels:x;y": pa.array([["x"]])}), path)
    with pytest.raises(DataFormatError, match="no column starts with 'label:'"):
        read(path)


def test_parquet_in_several_pieces(tmp_path):
    path = tmp_path / "a.parquet"
    table = pa.table(
        {"text": [f"t{i}" for i in range(10)], "labels": pa.array([[f"l{i % 3}"] * (i % 2) for i in range(10)])}
    )
    pq.write_table(table, path, row_group_size=3, use_dictionary=False)
    data = read(path)
    assert data.X == [f"t{i}" for i in range(10)]
    tags = [[data.label_names[j] for j in row.nonzero()[0]] for row in data.Y.toarray()]
    assert tags == [[f"l{i % 3}"] * (i % 2) for i in range(10)]
