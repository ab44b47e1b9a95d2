"""JSON Lines as a format like the others: texts or numbers with lists of labels, read, written and detected."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from comargin.data import DataFormatError, Dataset, convert, detect_format, load, read, stream, write
from comargin.data import _source as source_module


def make(folder, lines, name="a.jsonl"):
    """A file of JSON values, or of lines as they are."""
    path = folder / name
    text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


POSTS = [
    {"n": 1, "body": "red wine", "tags": ["wine", "red"]},
    {"n": 2, "body": "", "tags": []},
    {"n": 3, "body": "a\u2028b\u0085c", "tags": ["red", "red"]},
]


@pytest.mark.parametrize("name", ["a.jsonl", "a.ndjson", "a.JSONL.GZ", "a.json", "a.txt", "a", "a.log.gz"])
def test_suffix_or_first_line_says_what_it_is(tmp_path, name):
    path = make(tmp_path, ["", *POSTS], name.replace(".GZ", ".gz"))
    assert detect_format(path) == "jsonl"
    data = read(path, text="body", labels="tags")
    assert data.X == [post["body"] for post in POSTS]
    assert data.label_names == ("red", "wine")
    assert data.Y.toarray().tolist() == [[1, 1], [0, 0], [1, 0]]
    assert data.Y.dtype == np.int32
    assert data.feature_names == ()
    (chunk,) = stream(path, text="body", labels="tags")
    assert chunk.X == data.X


def test_a_byte_order_mark_does_not_hide_it(tmp_path):
    (tmp_path / "a").write_bytes(b'\xef\xbb\xbf{"text": "a", "labels": ["l"]}\n')
    assert read(tmp_path / "a").X == ["a"]


def test_default_fields_and_strings_of_labels(tmp_path):
    path = make(tmp_path, [{"text": "a", "labels": "x; y;;x"}, {"text": "b", "labels": ["z ", "x;y"]}])
    data = read(path)
    assert data.X == ["a", "b"]
    assert data.label_names == ("x", "x;y", "y", "z ")
    assert read(path, sep="|").label_names == ("x; y;;x", "x;y", "z ")
    assert read(path, labels=["labels"]).label_names == data.label_names


def test_numbers_in_the_order_of_the_first_row(tmp_path):
    rows = [{"b": 1, "tags": ["u"], "a": 2.5, "id": "i"}, {"id": "j", "a": True, "b": -3e2, "tags": ["v", "u"]}]
    data = read(make(tmp_path, rows), labels="tags", drop=["id"])
    assert data.feature_names == ("b", "a")
    assert data.X.tolist() == [[1, 2.5], [-300, 1]]
    assert data.Y.toarray().tolist() == [[1, 0], [1, 1]]
    with pytest.raises(DataFormatError, match=r"a.jsonl:1: the value of 'id' is a string, .*\(drop= leaves it out\)"):
        read(make(tmp_path, rows), labels="tags")
    with pytest.raises(ValueError, match=r"drop= names \['ident'\], not fields of "):
        read(make(tmp_path, rows), labels="tags", drop=["id", "ident"])
    with pytest.raises(ValueError, match="drop= leaves no label"):
        read(make(tmp_path, [{"x": 1, "labels": ["u"]}]), drop=["labels"])


def test_features_in_a_field_of_their_own(tmp_path):
    path = make(tmp_path, [{"id": "i", "features": [1, 2], "labels": ["u"]}, {"features": [3, 4], "labels": []}])
    data = read(path)
    assert data.X.tolist() == [[1, 2], [3, 4]]
    assert data.feature_names == ("x0", "x1")
    named = [{"features": {"labels": 1, "p": 2}, "labels": ["u"]}, {"features": {"p": 4, "labels": 3}, "labels": []}]
    data = read(make(tmp_path, named))
    assert data.X.tolist() == [[1, 2], [3, 4]]
    assert data.feature_names == ("labels", "p")
    # A number there is a feature of that name.
    data = read(make(tmp_path, [{"features": 7, "p": 1, "labels": ["u"]}]))
    assert (data.X.tolist(), data.feature_names) == ([[7, 1]], ("features", "p"))


ROWS = [{"text": f'row {i} ] , }}"', "labels": ["a", "b"][: i % 3]} for i in range(7)]


@pytest.mark.parametrize(
    "content",
    [
        json.dumps(ROWS),
        json.dumps(ROWS, indent=2),
        "\n[\n" + "\n,".join(map(json.dumps, ROWS)) + "\n]\n\n",
        "[" + ",\n".join(map(json.dumps, ROWS)) + "]",
    ],
)
def test_one_list_of_all_rows(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_text(content)
    (chunk,) = stream(path, labels=True)
    assert (chunk.X, chunk.tags) == ([row["text"] for row in ROWS], [row["labels"] for row in ROWS])
    assert read(path).X == chunk.X
    path.write_text("[[1, 2],\n[3, 4]]")
    assert next(stream(path, n_features=2)).X.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[{"text": "a"},\n{"text": x}]', r":2: is not a list of rows in JSON \(Expecting value, in .{.text.: x"),
        ('[{"text": "a"}\n{"text": "b"}]', ":2: is not JSON: a comma or ] must stand before"),
        ('[{"text": "a"}', ":1: is not a list of rows in JSON"),
        ('[\n{"text": "a"},\n]', ":3: is not a list of rows in JSON"),
        ('[{"text": "a"}]\n{"text": "b"}', ":2: has more after the end of the list"),
        ('[{"text": "a"},\n{"body":\n"b"}]', ":3: has no field 'text'"),
    ],
)
def test_broken_lists_of_rows(tmp_path, content, message):
    path = tmp_path / "a.json"
    path.write_text(content)
    with pytest.raises(DataFormatError, match=message):
        list(stream(path, text="text"))


def test_what_a_row_lacks_is_missing(tmp_path):
    path = make(
        tmp_path, [{"x": 1, "y": 2, "labels": ["u"]}, {"x": 3, "labels": []}, {"y": 6, "x": None, "labels": []}]
    )
    with pytest.raises(DataFormatError, match=r"a.jsonl:2: has no feature 'y'; missing= says what to do"):
        read(path)
    np.testing.assert_array_equal(read(path, missing="nan").X, [[1, 2], [3, np.nan], [np.nan, 6]])
    assert read(path, missing="zero").X.tolist() == [[1, 2], [3, 0], [0, 6]]
    assert read(path, missing="mean").X.tolist() == [[1, 2], [3, 4], [2, 6]]
    path = make(tmp_path, [{"text": "a", "labels": ["u"]}, {"text": "b", "labels": None}])
    with pytest.raises(DataFormatError, match=r":2: field 'labels' is null, not a list of labels \(\[\] if there are"):
        read(path)
    assert read(path, unlabelled="negative").Y.toarray().tolist() == [[1], [0]]
    assert read(path, unlabelled="drop").X == ["a"]


@pytest.mark.parametrize(
    ("line", "options", "message"),
    [
        ('{"n": 1, "body": "red', {"text": "body"}, r":4: is not JSON \(.*\): a line must hold one whole value"),
        ({"n": 1, "bdy": "x", "tags": []}, {"text": "body"},
         r":4: has no field 'body'; the nearest is 'bdy'; it has n, bdy, tags; text= says which"),
        ({"n": 1, "body": "x"}, {"text": "body"},
         r":4: has no field 'tags'; it has n, body; labels= says which .* \(a row without any has \[\]\)"),
        ({"n": 1, "body": ["x"], "tags": []}, {"text": "body"}, ":4: field 'body' is a list, not a string"),
        ({"n": 1, "body": "x", "tags": [7]}, {"text": "body"}, ":4: a label in 'tags' is a number, not a string"),
        ({"n": 1, "body": "x", "tags": ["", "a"]}, {"text": "body"}, ":4: a label in 'tags' is empty"),
        ({"n": 1, "body": "x", "tags": {"a": 1}}, {"text": "body"}, ":4: field 'tags' is an object, not a list"),
        ("[1, 2]", {"text": "body"}, ":4: is not an object with the field 'tags'$"),
        ([{"n": 1}], {"text": "body"}, ":4: .*; it is a list of objects, which must stand on a line each"),
        ({"n": 1, "m": 2, "body": "x", "tags": []}, {"drop": ["body"]},
         ":4: has a field 'm', and the first row, which says what the features are, has none; drop= leaves it out"),
        ({"n": "1", "body": "x", "tags": []}, {"drop": ["body"]},
         r":4: the value of 'n' is a string, not a number \(drop= leaves it out\)"),
        ({"n": 1, "body": "x", "tags": []}, {},
         r":1: the value of 'body' is a string, not a number \(is it a text\? text='body' reads it as one; drop= "),
    ],
)  # fmt: skip
def test_broken_rows(tmp_path, line, options, message):
    with pytest.raises(DataFormatError, match=message):
        read(make(tmp_path, [*POSTS, line]), labels="tags", **options)


@pytest.mark.parametrize(
    ("lines", "options", "message"),
    [
        (["", " "], {}, "a.jsonl: has no rows"),
        ([{"text": "a", "labels": []}], {}, "a.jsonl: no row has a label"),
        (POSTS, {}, ":1: has no field 'labels'; it has n, body, tags; labels= says which"),
        (POSTS, {"text": "bodi", "labels": "tags"}, ":1: has no field 'bodi'; the nearest is 'body'"),
        (['"a"'], {}, ":1: is not an object with the field 'labels'"),
        ([{"": 1, "labels": ["a"]}], {}, r":1: has a field without a name; drop=\[''\] leaves it out"),
        (['{"\\ud800": 1, "labels": ["a"]}'], {}, ":1: the name of a field holds half a surrogate pair"),
        ([{"features": [1], "labels": ["a"]}, {"x": 1, "labels": []}], {}, ":2: has named features, and the first row"),
        ([{"features": [1], "labels": ["a"]}, {"features": [1, 2], "labels": []}], {}, ":2: has 2 features, expected"),
        ([{"text": "a", "labels": ["a"], "all_labels": ["a", "a"]}], {}, ":1: 'all_labels' must list distinct names"),
        ([{"text": "a", "labels": ["a"], "all_labels": ["b"]}], {}, ":1: label 'a' is not one of those that 'all_la"),
    ],
)
def test_broken_files(tmp_path, lines, options, message):
    with pytest.raises(DataFormatError, match=message):
        read(make(tmp_path, lines), **options)


def test_options_that_mean_nothing(tmp_path):
    path = make(tmp_path, POSTS)
    for options, message in (
        ({"labels": ["tags", "body"]}, "for JSON Lines it must name the one field of label lists"),
        ({"labels": -2}, "labels=-2: for JSON Lines it must name"),
        ({"delimiter": ","}, "delimiter= means nothing to format 'jsonl'; it takes drop, encoding, labels"),
        ({"text": "body", "labels": "tags", "drop": ["n"]}, "drop= means nothing to texts"),
        ({"labels": "tags", "drop": ["tags"]}, "labels= and drop= both name 'tags'"),
    ):
        with pytest.raises(ValueError, match=message):
            read(path, **options)


def test_one_object_is_written_for_every_row(tmp_path):
    texts = Dataset(["a\u2028b\n", 'é "c"'], np.array([[1, 0], [1, 1]]), (), ("x", "y z"), "t")
    path = write(texts, tmp_path / "a.jsonl")[0]
    rows = [json.loads(line) for line in path.read_bytes().split(b"\n")[:-1]]
    assert rows == [{"text": "a\u2028b\n", "labels": ["x"]}, {"text": 'é "c"', "labels": ["x", "y z"]}]
    numbers = Dataset(sp.csr_array([[0.1, 0.0]]), np.array([[1]]), ("p", "q"), ("l",), "n")
    path = write(numbers, tmp_path / "b.ndjson")[0]
    assert json.loads(path.read_text()) == {"p": 0.1, "q": 0, "labels": ["l"]}


def test_labels_that_the_rows_do_not_tell_are_listed_once(tmp_path):
    Y = np.array([[1, 0, 0], [0, 0, 1]])
    for X, names in ((["s", "t"], ()), (np.array([[1.0], [2.0]]), ("x",))):
        data = Dataset(X, Y, names, ("b", "none has it", "a"), "d")
        path = write(data, tmp_path / "a.jsonl.gz")[0]
        rows = [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]
        assert [row.get("all_labels") for row in rows] == [["b", "none has it", "a"], None]
        again = read(path)
        assert again.label_names == data.label_names
        assert again.Y.toarray().tolist() == Y.tolist()
        assert (again.X if isinstance(X, list) else again.X.tolist()) == (X if isinstance(X, list) else X.tolist())
        options = {"feature_names": names} if names else {}
        assert [chunk.tags for chunk in stream(path, labels=True, **options)] == [[["b"], ["a"]]]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from(["text", "labels", "features", "all_labels", "a", " ", "\u2028"]), min_size=1, unique=True)
)
def test_features_may_be_called_like_our_fields(tmp_path_factory, names):
    X = np.arange(2.0 * len(names)).reshape(2, -1)
    Y = np.array([[0, 1], [0, 0]])
    path = write(Dataset(X, Y, tuple(names), ("text", "a"), "n"), tmp_path_factory.mktemp("names") / "a.jsonl")[0]
    again = read(path)
    assert again.feature_names == tuple(names)
    assert again.label_names == ("text", "a")
    np.testing.assert_array_equal(again.X, X)
    assert again.Y.toarray().tolist() == Y.tolist()
    (chunk,) = stream(path, feature_names=names[::-1], labels=True)
    np.testing.assert_array_equal(chunk.X, X[:, ::-1])
    assert chunk.tags == [["a"], []]


def test_convert_there_and_back(tmp_path):
    start = make(tmp_path, POSTS)
    for target in ("b.csv", "c.jsonl.gz", "d.parquet", "e.ndjson"):
        options = {"text": "body", "labels": "tags"} if start.name == "a.jsonl" else {}
        data = convert(start, tmp_path / target, **options)
        start = tmp_path / target
    assert data.X == read(start).X == [post["body"] for post in POSTS]
    assert read(start).label_names == ("red", "wine")


def test_rows_that_lack_most_features_do_not_eat_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "ARRAY_FLOOR", 1 << 20)
    wide = {f"x{j}": 0 for j in range(10_000)}
    path = make(tmp_path, [{**wide, "labels": ["a"]}, *[{"labels": []}] * 5_000])
    with pytest.raises(DataFormatError, match=r"rows of 10000 features: more than .* refused"):
        read(path, missing="zero")


def test_a_one_named_sequence_of_labels_streams_too(tmp_path):
    (chunk,) = stream(make(tmp_path, POSTS), text="body", labels=["tags"])
    assert chunk.tags == [["wine", "red"], [], ["red"]]
    with pytest.raises(ValueError, match="it must name the one field of label lists"):
        list(stream(tmp_path / "a.jsonl", text="body", labels=["tags", "n"]))


def test_a_set_of_the_data_folder(tmp_path):
    (tmp_path / "posts").mkdir()
    make(tmp_path / "posts", [{"text": "a", "labels": ["x"]}], "posts.jsonl.gz")
    data = load("posts", data_home=tmp_path)
    assert (data.X, data.label_names) == (["a"], ("x",))
