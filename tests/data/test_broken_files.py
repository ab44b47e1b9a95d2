"""Broken files of every kind end in one DataFormatError, soon and without eating the memory."""

from __future__ import annotations

import gzip
import pickle
import time
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from comargin.data import DataFormatError, Dataset
from comargin.data import _source as source_module
from comargin.data._formats import detect_format, read, write
from comargin.data._labels_xml import MAX_DEPTH, read_labels_xml

HEADER = "@relation r\n@attribute x numeric\n@attribute c {a,b,d}\n@attribute l {0,1}\n@data\n"
XML = '<labels><label name="l"/></labels>'


def make(folder, text, xml=XML, name="a.arff"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    if xml is not None:
        (folder / "a.xml").write_text(xml)
    return path


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        (HEADER + "1,a,0\n1,a\n", 7, "has 2 values, expected 3"),
        (HEADER + "1,a,0\n1,a,0,0\n", 7, "has 4 values, expected 3"),
        (HEADER + "1,a,0\n1,", 7, "expected 3"),
        (HEADER + "1,a,0\nx,a,0\n", 7, "'x' is not a finite number"),
        (HEADER + "1,a,0\n1_0,a,0\n", 7, "'1_0' is not a finite number"),
        (HEADER + "1,a,0\ninf,a,0\n", 7, "'inf' is not a finite number"),
        (HEADER + "1,a,0\nnan,a,0\n", 7, "'nan' is not a finite number"),
        (HEADER + "1,a,0\n1e999,a,0\n", 7, "'1e999' is not a finite number"),
        (HEADER + "1,a,0\n\u0661,a,0\n", 7, "is not a finite number"),
        (HEADER + "1,a,0\n1,e,0\n", 7, "'e' is not a declared value"),
        (HEADER + "1,a,0\n1,'a,0\n", 7, "quotes"),
        (HEADER + "1,a,0\n1,,0\n", 7, "'' is not a declared value"),
        (HEADER + "1,a,0\n{0 1}\n", 7, "sparse row in a file of dense rows"),
        (HEADER + "{0 1}\n1,a,0\n", 7, "dense row in a file of sparse rows"),
        (HEADER + "{0 1}\n{0 1\n", 7, "not closed"),
        (HEADER + "{0 1}\n{0 1,0 2}\n", 7, "index 0 stands twice"),
        (HEADER + "{0 1}\n{3 1}\n", 7, "index 3 is out of range"),
        (HEADER + "{0 1}\n{99999999999999999999 1}\n", 7, "expected 'index value'"),
        (HEADER + "{0 1}\n{-1 1}\n", 7, "expected 'index value'"),
        (HEADER + "{0 1}\n{0}\n", 7, "expected 'index value'"),
        (HEADER + "{0 1}\n{0 1,}\n", 7, "ends in a comma"),
        (HEADER + "{0 1}\n{0 1},{5}\n", 7, "expected|number"),
        (HEADER + "1,a,0\n1,a,0\0\n", 7, "NUL"),
        (HEADER.encode() + b"1,a,0\n1,\xff,0\n", 7, "not utf-8"),
        (HEADER, 5, "no rows"),
        (HEADER + "% nothing\n\n", 7, "no rows"),
        (HEADER[:-6], 4, "ends before @data"),
        (HEADER[:40], 3, "expected @relation, @attribute or @data, found '@attrib'"),
        ("@relation r\n@data\n1\n", 2, "@data before any @attribute"),
        ("@relation r\nhello\n", 2, "expected @relation, @attribute or @data"),
        ("@relation r\n@attribute x\n@data\n", 2, "no type"),
        ("@relation r\n@attribute x complex\n", 2, "unknown type 'complex'"),
        ("@relation r\n@attribute x relational\n", 2, "unknown type 'relational'"),
        ("@relation r\n@attribute 'x numeric\n", 2, "name"),
        ("@relation r\n@attribute\n", 2, "name"),
        ("@relation r\n@attribute x {a,b\n", 2, "not closed"),
        ("@relation r\n@attribute x {}\n", 2, "malformed"),
        ("@relation r\n@attribute x {a,a}\n", 2, "declares a value twice"),
        ("@relation r\n@attribute x numeric 5\n", 2, "unexpected '5'"),
        ("@relation r\n@attribute x {a} b\n", 2, "unexpected 'b'"),
        ("@relation r\n@attribute x real\n@attribute x real\n", 3, "declared twice"),
        (HEADER.replace("l {0,1}", "m {0,1}") + "1,a,0\n", None, r"label 'l' \(listed in a.xml\) is not an attribute"),
    ],
)
def test_broken_arff(tmp_path, text, line, reason):
    with pytest.raises(DataFormatError, match=reason) as caught:
        read(make(tmp_path, text))
    assert caught.value.line == line
    assert caught.value.path == str(tmp_path / "a.arff")


@pytest.mark.parametrize(
    ("xml", "reason"),
    [
        ("", "is empty"),
        ("<labels/>", "lists no labels"),
        ('<labels><label name="l"/>', "not well-formed"),
        ("<labels><label/></labels>", "has no name"),
        ('<labels><label name="l"/><label name="l"/></labels>', "listed twice"),
        ('<other><label name="l"/></other>', "root element is <other>"),
        ('<labels><feature name="l"/></labels>', "unexpected element"),
        ("not xml at all", "not well-formed"),
        ('<?xml version="1.0" encoding="klingon"?><labels><label name="l"/></labels>', "not well-formed"),
        ('<!DOCTYPE labels [<!ENTITY a "aaaa">]><labels><label name="&a;"/></labels>', "refused"),
        ('<!DOCTYPE labels SYSTEM "file:///etc/passwd"><labels><label name="l"/></labels>', "refused"),
        ("<labels>" + '<label name="l">' * 100_000, "nested deeper|listed twice"),
        ("<labels>" + "".join(f'<label name="l{i}">' for i in range(100_000)), f"deeper than {MAX_DEPTH}"),
    ],
)
def test_broken_xml(tmp_path, xml, reason):
    path = make(tmp_path, HEADER + "1,a,0\n", xml)
    with pytest.raises(DataFormatError, match=reason) as caught:
        read(path)
    assert caught.value.path == str(tmp_path / "a.xml")


def test_billion_laughs_do_not_expand(tmp_path):
    entities = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10}">' for i in range(1, 12))
    xml = tmp_path / "a.xml"
    xml.write_text(f'<!DOCTYPE labels [<!ENTITY a0 "ha">{entities}]><labels><label name="&a11;"/></labels>')
    with pytest.raises(DataFormatError, match="refused"):
        read_labels_xml(xml)


def test_huge_xml_is_not_read(tmp_path):
    path = make(tmp_path, HEADER + "1,a,0\n", None)
    with (tmp_path / "a.xml").open("wb") as file:
        file.truncate(1 << 30)  # sparse on disk
    start = time.perf_counter()
    with pytest.raises(DataFormatError, match="larger than"):
        read(path)
    assert time.perf_counter() - start < 1


@pytest.mark.parametrize("name", ["a.arff", "a.csv", "a.svm", "a.txt", "a.parquet", "a.arff.gz", "a"])
def test_no_file_a_folder_an_empty_file_and_garbage(tmp_path, name):
    path = tmp_path / name
    with pytest.raises(FileNotFoundError):
        read(path)
    path.mkdir()
    for function in (read, detect_format):
        with pytest.raises(DataFormatError, match="folder"):
            function(path)
    path.rmdir()
    path.write_bytes(b"")
    with pytest.raises(DataFormatError, match="is empty"):
        read(path)
    rng = np.random.default_rng(0)
    for size in (1, 5, 100, 100_000):
        path.write_bytes(rng.bytes(size))
        with pytest.raises(DataFormatError):
            read(path)
    for garbage in (b"\xff\xfea\0b\0", b"\xef\xbb\xbf", b"\0" * 10_000, b"\n" * 10_000, b" " * 10_000):
        path.write_bytes(garbage)
        with pytest.raises(DataFormatError):
            read(path)


def test_utf16_is_named(tmp_path):
    path = tmp_path / "a.arff"
    path.write_bytes(HEADER.encode("utf-16"))
    with pytest.raises(DataFormatError, match="UTF-16"):
        read(path)


def test_gzip_bomb_and_broken_gzip(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "EXPANSION_FLOOR", 1 << 20)
    path = tmp_path / "a.arff.gz"
    (tmp_path / "a.xml").write_text(XML)
    path.write_bytes(gzip.compress((HEADER + ("%" + "x" * 1000 + "\n") * 30_000).encode()))
    tracemalloc.start()
    with pytest.raises(DataFormatError, match="expands to more than"):
        read(path)
    assert tracemalloc.get_traced_memory()[1] < 1 << 28
    tracemalloc.stop()
    good = gzip.compress((HEADER + "1,a,0\n").encode())
    for broken in (good[:-9], good[:20], good[:-6] + b"123456", good[:15] + b"\xff" + good[16:]):
        path.write_bytes(broken)
        with pytest.raises(DataFormatError, match="gzip"):
            read(path)


def test_endless_line(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "MAX_LINE_BYTES", 1 << 20)
    for name, start in (("a.arff", HEADER), ("a.svm", ""), ("a.csv", "x,label:a\n")):
        path = make(tmp_path, start + "1" * (3 << 20), name=name)
        with pytest.raises(DataFormatError, match="longer than"):
            read(path)


@pytest.mark.parametrize("text", ["99999999999 9 9\n0 0:1\n", "1 999999999999 999999999999\n0 0:1\n"])
def test_declared_counts_allocate_nothing(tmp_path, text):
    path = make(tmp_path, text, name="a.txt")
    tracemalloc.start()
    start = time.perf_counter()
    with pytest.raises(DataFormatError):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert time.perf_counter() - start < 1
    assert peak < 10_000_000


@pytest.mark.parametrize(
    "line",
    [
        "@attribute x {" + " " * 200_000,
        "@attribute x {" + "a " * 100_000,
        "@attribute '" + "\\" * 200_001,
        "@attribute " + "a" * 200_000,
    ],
)
def test_malformed_headers_take_linear_time(tmp_path, line):
    path = make(tmp_path, f"@relation r\n{line}\n")
    start = time.perf_counter()
    with pytest.raises(DataFormatError):
        read(path)
    assert time.perf_counter() - start < 2


@pytest.mark.parametrize(
    "row", ["1,'" + "\\" * 200_001, "1," + " " * 200_000 + "'", "{0 " + " " * 200_000, "{0 '" + "a" * 200_000]
)
def test_malformed_rows_take_linear_time(tmp_path, row):
    path = make(tmp_path, HEADER + row + "\n")
    start = time.perf_counter()
    with pytest.raises(DataFormatError):
        read(path)
    assert time.perf_counter() - start < 2


def test_the_error_survives_pickling(tmp_path):
    with pytest.raises(DataFormatError) as caught:
        read(make(tmp_path, HEADER + "1,a\n"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.line) == (str(caught.value), 6)


@pytest.fixture(scope="module")
def valid_files(tmp_path_factory):
    """Small valid files of every format: (name, bytes, XML or None)."""
    folder = tmp_path_factory.mktemp("valid")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6, 3)).round(2) * (rng.random((6, 3)) < 0.7)
    Y = (rng.random((6, 2)) < 0.5).astype(np.int8)
    names = ("a", "b c", "it's"), ("l1", "l 2")
    numbers, sparse = Dataset(X, Y, *names, "n"), Dataset(sp.csr_array(X), Y, *names, "n")
    texts = Dataset(["a, b", 'c\n"d"', "", "e", "f", "g"], Y, (), names[1], "n")
    jobs = [
        (numbers, "dense.arff", "mulan"), (sparse, "sparse.arff", "mulan"), (numbers, "m.arff", "meka"),
        (numbers, "c.csv", "csv"), (sparse, "s.svm", "libsvm"), (sparse, "x.txt", "xmc"), (texts, "t.csv", "text-csv"),
        (numbers, "p.parquet", "parquet"), (texts, "tp.parquet", "parquet"), (numbers, "z.csv.gz", "csv"),
    ]  # fmt: skip
    files = [write(data, folder / name, format=format) for data, name, format in jobs]
    found = [
        (paths[0].name, paths[0].read_bytes(), paths[1].read_bytes() if len(paths) > 1 else None) for paths in files
    ]
    return [*found, ("nominal.arff", (HEADER + "1,a,0\n2.5,'b',1\n-1e3,d,0\n").encode(), XML.encode())]


PIECES = st.one_of(
    st.binary(min_size=1, max_size=3),
    st.sampled_from(
        b"{ } , ' \" \\ ? \n \r : - . e + 99999999999 nan 1e999 @data % # <!DOCTYPE &a; label: 0 1".split(b" ")
    ),
)
EDITS = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 6), PIECES, st.sampled_from("icx")), min_size=1, max_size=4)


@settings(max_examples=400, deadline=None)
@given(st.data(), EDITS, st.booleans())
def test_mutated_files_end_in_one_error_or_none(tmp_path_factory, valid_files, draw, edits, in_xml):
    name, content, xml = draw.draw(st.sampled_from(valid_files))
    in_xml = in_xml and xml is not None
    broken = bytearray(xml if in_xml else content)
    for where, length, piece, kind in edits:
        at = int(where * len(broken))
        if kind == "c":
            del broken[at:]  # cut off
        else:
            broken[at : at + length] = piece if kind == "i" else b""
    folder = tmp_path_factory.mktemp("mutated")
    path = folder / name
    path.write_bytes(content if in_xml else bytes(broken))
    if xml is not None:
        path.with_suffix(".xml").write_bytes(bytes(broken) if in_xml else xml)
    try:
        data = read(path)
    except DataFormatError:
        return
    n_rows = len(data.X) if isinstance(data.X, list) else data.X.shape[0]
    assert n_rows == data.Y.shape[0] >= 1
    assert len(data.label_names) == data.Y.shape[1] >= 1
    if not isinstance(data.X, list):
        assert len(data.feature_names) == data.X.shape[1]
        assert np.isfinite(data.X.data if sp.issparse(data.X) else data.X).all()
