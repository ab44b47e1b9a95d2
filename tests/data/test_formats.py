"""One door to all formats: what is written comes back, bit for bit; nothing half-written stays."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from comargin.core.files import AtomicFiles
from comargin.data import DataFormatError, Dataset
from comargin.data import sparse_text as sparse_text_module
from comargin.data.formats import convert, detect_format, read, target_files, write

FILES = [
    ("a.arff", "mulan"),
    ("a.arff", "meka"),
    ("a.csv", "csv"),
    ("a.tsv", "csv"),
    ("a.jsonl", "jsonl"),
    ("a.parquet", "parquet"),
    ("a.svm", "libsvm"),
    ("a.txt", "xmc"),
    ("a.arff.gz", "mulan"),
    ("a.csv.gz", "csv"),
    ("a.svm.gz", "libsvm"),
    ("a.ndjson.gz", "jsonl"),
]
NAMELESS = ("libsvm", "xmc")


def dense(A):
    return A.toarray() if sp.issparse(A) else np.asarray(A)


def small(name="tiny"):
    return Dataset(
        np.array([[0.1, 0], [2, -3]]), np.array([[1, 0], [0, 1]], dtype=np.int8), ("a", "b"), ("c", "d"), name
    )


# Printable and not: quotes, separators, line ends, other scripts; NUL and half surrogates no file holds.
LETTERS = st.characters(exclude_categories=("Cs",), exclude_characters="\0")
WILD = st.one_of(
    st.text(st.sampled_from("ab'\"\\,;%{}?@ \t\n\r:-#é"), min_size=1, max_size=6), st.text(LETTERS, min_size=1)
)
XML_SAFE = WILD.filter(lambda s: all(c in "\t\n\r" or (c >= " " and c not in "\ufffe\uffff") for c in s))


@st.composite
def datasets(draw):
    n, d, n_labels = draw(st.integers(1, 5)), draw(st.integers(1, 4)), draw(st.integers(1, 4))
    numbers = st.floats(allow_nan=False, allow_infinity=False)
    X = draw(arrays(np.float64, (n, d), elements=st.one_of(st.sampled_from([0.0, 0.0, 1.0, -2.5]), numbers)))
    Y = draw(arrays(np.int32, (n, n_labels), elements=st.integers(0, 1)))
    names = draw(st.lists(XML_SAFE, min_size=d + n_labels, max_size=d + n_labels, unique=True))
    names = [name.replace("label:", "label_") for name in names]
    if len(set(names)) < len(names):
        names = [f"{name}{j}" for j, name in enumerate(names)]
    return Dataset(X, Y, tuple(names[:d]), tuple(names[d:]), draw(WILD))


@settings(max_examples=120, deadline=None)
@given(datasets(), st.sampled_from(FILES), st.booleans())
def test_what_is_written_comes_back(tmp_path_factory, data, file, sparse):
    name, format = file
    given_X = sp.csr_array(data.X) if sparse else data.X
    path = tmp_path_factory.mktemp("trip") / name
    written = write(Dataset(given_X, data.Y, data.feature_names, data.label_names, data.name), path, format=format)
    assert written[0] == path
    assert detect_format(path) == format
    again = read(path)
    # Zeros lose their sign where only non-zeros are stored.
    signless = sparse or format in NAMELESS
    expected = data.X + 0.0 if signless else data.X
    assert dense(again.X).tobytes() == np.ascontiguousarray(expected).tobytes()
    assert dense(again.Y).tobytes() == data.Y.tobytes()
    assert again.Y.dtype == np.int32
    if format in NAMELESS:
        assert again.feature_names == tuple(f"x{j}" for j in range(data.X.shape[1]))
        assert again.label_names == tuple(f"y{j}" for j in range(data.Y.shape[1]))
    else:
        assert again.feature_names == data.feature_names
        assert again.label_names == data.label_names
    if format in ("mulan", "meka"):
        assert sp.issparse(again.X) == sparse
        assert sp.issparse(again.Y) == sparse


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.text(LETTERS), min_size=1, max_size=4),
    st.data(),
    st.sampled_from(["t.csv", "t.csv.gz", "t.parquet", "t.jsonl", "t.jsonl.gz"]),
)
def test_texts_come_back(tmp_path_factory, texts, draw, name):
    labels = draw.draw(
        st.lists(
            WILD.map(str.strip).filter(lambda s: s and ";" not in s and s[0] not in "[({"),
            min_size=1,
            max_size=4,
            unique=True,
        )
    )
    Y = draw.draw(arrays(np.int8, (len(texts), len(labels)), elements=st.integers(0, 1)))
    path = write(Dataset(texts, Y, (), tuple(labels), "t"), tmp_path_factory.mktemp("text") / name)[0]
    assert detect_format(path) == {"parquet": "parquet", "jsonl": "jsonl"}.get(name.split(".")[1], "text-csv")
    again = read(path)
    assert again.X == texts
    assert again.label_names == tuple(labels)
    assert again.Y.toarray().tolist() == Y.tolist()


@pytest.mark.parametrize(("name", "format"), FILES[:6])
def test_nan_comes_back_where_it_can(tmp_path, name, format):
    data = Dataset(np.array([[np.nan, 1], [0, np.nan]]), np.array([[1], [0]]), ("a", "b"), ("c",), "n")
    path = write(data, tmp_path / name, format=format)[0]
    with pytest.raises(DataFormatError, match="missing"):
        read(path)
    np.testing.assert_array_equal(dense(read(path, missing="nan").X), data.X)
    if format in ("mulan", "meka"):
        path = write(Dataset(sp.csr_array(data.X), data.Y, ("a", "b"), ("c",), "n"), tmp_path / name, format=format)[0]
        np.testing.assert_array_equal(dense(read(path, missing="nan").X), data.X)


@pytest.mark.parametrize("kind", [np.bool_, np.int64, np.float32])
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix])
def test_any_kind_of_arrays_can_be_written(tmp_path, kind, storage):
    X, Y = np.array([[0.5, 0], [0, 3]], dtype=np.float32), np.array([[1, 0], [0, 1]], dtype=kind)
    if sp.issparse(storage(Y)) and storage is sp.csr_array:
        stored_zero = sp.csr_array((np.array([1, 0, 1], dtype=kind), [0, 1, 1], [0, 2, 3]), shape=(2, 2))
        assert stored_zero.nnz == 3
        Y = stored_zero.toarray()
    data = Dataset(storage(X), storage(Y), (), (), "n")
    for name, format in FILES:
        again = read(write(data, tmp_path / name, format=format)[0])
        np.testing.assert_array_equal(dense(again.X), X)
        np.testing.assert_array_equal(dense(again.Y), Y)


def test_writing_does_not_change_what_it_is_given(tmp_path):
    X = sp.csr_array((np.array([1.0, 2.0, 0.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    Y = sp.csr_array((np.array([0, 1]), np.array([0, 1]), np.array([0, 2, 2])), shape=(2, 2))
    before = X.data.copy(), X.indices.copy(), Y.data.copy()
    again = read(write(Dataset(X, Y, (), (), "n"), tmp_path / "a.arff")[0])
    assert again.X.toarray().tolist() == [[0, 3], [0, 0]]
    assert again.Y.toarray().tolist() == [[0, 1], [0, 0]]
    for old, new in zip(before, (X.data, X.indices, Y.data), strict=True):
        np.testing.assert_array_equal(old, new)


def test_a_name_like_a_count_of_labels_is_not_one(tmp_path):
    for format in ("mulan", "meka"):
        path = write(small("x -C 1 -C -1"), tmp_path / f"{format}.arff", format=format)[0]
        assert detect_format(path) == format
        assert read(path).label_names == ("c", "d")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"Y": np.array([[2, 0], [0, 1]])}, r"entries in \{0, 1\}"),
        ({"Y": sp.csr_array(np.array([[-1, 0], [0, 1]]))}, r"entries in \{0, 1\}"),
        ({"Y": np.array([1, 0])}, "shape"),
        ({"Y": np.zeros((0, 2))}, "at least one row"),
        ({"Y": np.zeros((3, 2))}, "2 rows"),
        ({"X": np.array([[np.inf, 0], [0, 1]])}, "infinite"),
        ({"X": np.zeros(2)}, "dimensions"),
        ({"feature_names": ("a",)}, "1 names for 2"),
        ({"feature_names": ("a", "a")}, "twice"),
        ({"label_names": ("c", "c")}, "twice"),
        ({"label_names": ("c", "")}, "empty name"),
        ({"label_names": ("c", "\0")}, "NUL"),
        ({"label_names": ("c", "\ud800")}, "surrogate"),
        ({"label_names": ("c", 3)}, "strings"),
    ],
)
def test_data_that_cannot_be_written(tmp_path, change, message):
    base = small()
    fields = {k: getattr(base, k) for k in ("X", "Y", "feature_names", "label_names", "name")}
    for name, format in FILES:
        with pytest.raises(ValueError, match=message):
            write(Dataset(**(fields | change)), tmp_path / name, format=format)
    assert list(tmp_path.iterdir()) == []


def test_names_a_format_cannot_hold(tmp_path):
    X, Y = np.ones((1, 1)), np.ones((1, 1))
    with pytest.raises(ValueError, match="names a feature and a label"):
        write(Dataset(X, Y, ("a",), ("a",), "n"), tmp_path / "a.arff")
    with pytest.raises(ValueError, match="control character"):
        write(Dataset(X, Y, ("a",), ("\x01",), "n"), tmp_path / "a.arff")
    for name in ("a.csv", "a.parquet"):
        with pytest.raises(ValueError, match="label:"):
            write(Dataset(X, Y, ("label:a",), ("b",), "n"), tmp_path / name)
        data = read(write(Dataset(X, Y, ("a",), ("a",), "n"), tmp_path / name)[0])
        assert data.feature_names == data.label_names == ("a",)
    assert {path.name for path in tmp_path.iterdir()} == {"a.csv", "a.parquet"}


def test_texts_and_numbers_in_the_wrong_format(tmp_path):
    texts = Dataset(["x", "y"], small().Y, (), ("c", "d"), "t")
    for format in ("mulan", "libsvm", "xmc"):
        with pytest.raises(ValueError, match="texts go into"):
            write(texts, tmp_path / "a", format=format)
    write(texts, tmp_path / "a", format="csv")
    assert read(tmp_path / "a", format="text-csv", labels=["labels"]).X == texts.X
    with pytest.raises(ValueError, match="takes texts"):
        write(small(), tmp_path / "a.csv", format="text-csv")
    with pytest.raises(ValueError, match="suffix"):
        write(small(), tmp_path / "a.xyz")
    with pytest.raises(ValueError, match="is unknown"):
        write(small(), tmp_path / "a.csv", format="excel")
    with pytest.raises(ValueError, match="folder"):
        write(small(), tmp_path, format="csv")


def test_a_failure_leaves_the_old_files(tmp_path, monkeypatch):
    paths = write(small(), tmp_path / "a.arff")
    before = [path.read_bytes() for path in paths]

    def fail(*_, **__):
        raise OSError("disk full")

    monkeypatch.setattr("comargin.data._arff.write_labels_xml", fail)
    with pytest.raises(OSError, match="disk full"):
        write(Dataset(np.zeros((1, 1)), np.ones((1, 1)), ("other",), ("c",), "n"), tmp_path / "a.arff")
    assert [path.read_bytes() for path in paths] == before
    assert len(list(tmp_path.iterdir())) == 2


def test_a_folder_in_the_way_of_the_second_file(tmp_path):
    write(small(), tmp_path / "a.arff", format="meka")
    before = (tmp_path / "a.arff").read_bytes()
    (tmp_path / "a.xml").mkdir()
    with pytest.raises(ValueError, match=r"a.xml is a folder"):
        write(small(), tmp_path / "a.arff")
    assert (tmp_path / "a.arff").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"a.arff", "a.xml"}


def test_a_folder_that_appears_while_writing(tmp_path):
    def write_both():
        with AtomicFiles() as files:
            for name in ("a", "b"):
                files.open(tmp_path / name).write("new")
            (tmp_path / "b").mkdir()

    with pytest.raises(ValueError, match="is a folder"):
        write_both()
    assert [path.name for path in tmp_path.iterdir()] == ["b"]


def test_a_pipe_is_not_replaced_by_a_file(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match="is a device or a pipe"), AtomicFiles() as files:
        files.open(pipe)
    assert pipe.is_fifo()
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_link_stays_and_its_file_is_written(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with AtomicFiles() as files:
        files.open(tmp_path / "link").write("new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_text() == "new"


def test_target_files_are_those_that_are_written(tmp_path):
    for name, format in FILES:
        assert write(small(), tmp_path / name, format=format) == target_files(tmp_path / name, format)
        if format != "meka":
            assert target_files(tmp_path / name) == target_files(tmp_path / name, format)


def test_writing_does_not_touch_the_umask_of_the_process(tmp_path, monkeypatch):
    def umask(_):
        raise AssertionError("every thread would see it changed")

    monkeypatch.setattr(os, "umask", umask)
    write(small(), tmp_path / "a.csv")


def test_files_are_readable_by_others_and_the_same_every_time(tmp_path):
    first = write(small(), tmp_path / "a.csv.gz")[0].read_bytes()
    assert write(small(), tmp_path / "b.csv.gz")[0].read_bytes() == first
    umask = os.umask(0)
    os.umask(umask)
    assert (tmp_path / "a.csv.gz").stat().st_mode & 0o777 == 0o666 & ~umask
    assert gzip.decompress(first).startswith(b'"a","b","label:c"')


def test_convert(tmp_path):
    path = write(small(), tmp_path / "a.arff")[0]
    for name in ("b.csv", "c.parquet", "d.arff"):
        target = tmp_path / name
        data = convert(path, target)
        assert data.name == path.stem
        path = target
    again = read(path)
    np.testing.assert_array_equal(again.X, small().X)
    assert again.label_names == ("c", "d")
    convert(path, tmp_path / "e.dat", target_format="libsvm", labels=["d"], drop=["a", "c"])
    assert read(tmp_path / "e.dat").X.toarray().tolist() == [[0], [-3]]
    assert read(tmp_path / "e.dat").Y.toarray().tolist() == [[0], [1]]


def test_convert_can_write_other_separators(tmp_path):
    source, target = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_text("text,labels\nhello,a|b;c\n")
    data = convert(source, target, sep="|", target_sep=" / ", target_delimiter=";")
    assert data.label_names == ("a", "b;c")
    assert target.read_text() == '"text";"labels"\n"hello";"a / b;c"\n'
    again = read(target, sep=" / ", delimiter=";")  # the header is looked at with that delimiter too
    assert (again.X, again.label_names) == (data.X, data.label_names)
    with pytest.raises(ValueError, match="contains sep=';'"):
        convert(source, target, sep="|")


def test_names_that_cancel_each_other(tmp_path):
    for name in ("a.csv", "a.arff", "a.parquet"):
        path = write(small(), tmp_path / name)[0]
        labels = ["d"] if name == "a.arff" else ["label:d"]
        with pytest.raises(ValueError, match="labels= and drop= both name"):
            read(path, labels=labels, drop=labels)
        every = ["c", "d"] if name == "a.arff" else ["label:c", "label:d"]
        with pytest.raises(ValueError, match="drop= leaves no label"):
            read(path, drop=every)
        assert read(path, drop=every[:1]).label_names == ("d",)


def test_repr_is_one_short_line(tmp_path):
    data = small()
    assert repr(data) == "Dataset('tiny': 2 rows, 2 features (dense), 2 labels)"
    one = Dataset(sp.csr_array(data.X[:1, :1]), data.Y[:1, :1], (), (), "one")
    assert repr(one) == "Dataset('one': 1 row, 1 feature (sparse), 1 label)"
    assert repr(Dataset(["a", "b"], data.Y, (), (), "t")) == "Dataset('t': 2 rows, texts, 2 labels)"
    assert (
        repr(Dataset(np.zeros(2), np.zeros(2), (), (), "")) == "Dataset('': 2 rows, X of shape (2,), Y of shape (2,))"
    )


@pytest.mark.parametrize("stem", ["emotions/emotions-test", "enron/enron-test"])
def test_published_sets_come_back_through_every_format(data_home, tmp_path, stem):
    source = data_home / f"{stem}.arff"
    if not source.is_file():
        pytest.skip(f"{stem} is not in the data folder")
    data = read(source)
    for name, format in FILES:
        again = read(write(data, tmp_path / name, format=format)[0])
        np.testing.assert_array_equal(dense(again.X), dense(data.X))
        np.testing.assert_array_equal(dense(again.Y), dense(data.Y))
        if format not in NAMELESS:
            assert again.label_names == data.label_names


def test_detect_looks_into_files_without_a_known_suffix(tmp_path):
    contents = {
        "@relation r\n@attribute a {0,1}\n@data\n1\n": "mulan",
        "% hello\n\n@RELATION 'r: -C 1'\n@attribute a {0,1}\n@data\n1\n": "meka",
        "3 4 5\n": "xmc",
        "1,2 3:4\n": "libsvm",
        " 3:4\n": "libsvm",
        "3:4 5:1e-5\n": "libsvm",
        "# note\n1\n": "libsvm",
        '\n {"text": "a", "labels": []}\n': "jsonl",
        "[1, 2]\n": "jsonl",
    }
    for text, format in contents.items():
        path = tmp_path / "data"
        path.write_text(text)
        assert detect_format(path) == format, text
    for text in ("hello world\n", "1;2;3\n", "a,b\n1,2\n", "\n\n"):
        path.write_text(text)
        with pytest.raises(DataFormatError, match="format="):
            detect_format(path)


def test_options_are_checked(tmp_path):
    path = write(small(), tmp_path / "a.svm")[0]
    for options, message in (
        ({"format": "excel"}, "format='excel'"),
        ({"missing": "drop"}, "missing='drop', allowed are"),
        ({"nominal": "ordinal"}, "nominal='ordinal', allowed are"),
        ({"index_base": 2}, "index_base=2"),
        ({"n_features": -1}, "n_features must be an int of at least 0, got -1"),
        ({"n_labels": 1.5}, "n_labels must be an int of at least 0, got 1.5"),
        ({"labels": ["a"]}, "labels= means nothing to format 'libsvm'"),
        ({"drop": ["a"]}, "drop= means nothing"),
        ({"drop": "a"}, "drop='a' must be a sequence"),
        ({"drop": None}, "drop=None must be a sequence of names"),
        ({"drop": [3]}, r"drop=\[3\] must be a sequence of names"),
        ({"labels": 1.5}, "labels=1.5 must be a sequence of names or a number"),
        ({"labels": True}, "labels=True must be"),
        ({"labels": [None]}, "labels="),
        ({"encoding": "klingon"}, "encoding='klingon'"),
        ({"encoding": None}, "encoding=None"),
        ({"encoding": "undefined"}, "encoding='undefined'"),
        ({"encoding": "punycode"}, "encoding='punycode' must name an encoding that contains ASCII"),
        ({"encoding": "utf-16"}, "encoding='utf-16' must name"),
        ({"sep": ""}, "sep="),
        ({"sep": None}, "sep=None"),
        ({"text": 3}, "text=3"),
        ({"delimiter": 3}, "delimiter=3"),
    ):
        with pytest.raises(ValueError, match=message):
            read(path, **options)
    with pytest.raises(ValueError, match="a file of labels means something to ARFF only"):
        read(path, format="text-csv", labels=path)


def test_encoding_and_name(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("größe,label:a\n1,0\n".encode("latin-1"))
    with pytest.raises(DataFormatError, match=r"a.csv:1: is not utf-8"):
        read(path)
    assert read(path, encoding="latin-1").feature_names == ("größe",)
    assert read(path, encoding="latin-1", name="sizes").name == "sizes"
    assert read(write(small(), tmp_path / "b.arff.gz")[0]).name == "b"


def test_a_column_too_many_for_the_file_can_be_insisted_on(tmp_path, monkeypatch):
    monkeypatch.setattr(sparse_text_module, "_FREE_COLUMNS", 100)
    path = tmp_path / "a.svm"
    path.write_text("0 2000:1\n")
    with pytest.raises(DataFormatError, match="n_features="):
        read(path)
    assert read(path, n_features=2000).X.shape == (1, 2000)
