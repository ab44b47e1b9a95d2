"""Broken files of every kind end in one DataFormatError, soon and without eating the memory."""

from __future__ import annotations

import gzip
import json
import pickle
import re
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from comargin.data import DataFormatError, Dataset
from comargin.data import _source as source_module
from comargin.data._labels_xml import MAX_DEPTH, read_labels_xml
from comargin.data.formats import detect_format, read, write

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
    tracemalloc.start()
    with pytest.raises(DataFormatError, match="larger than"):
        read(path)
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["a.arff", "a.csv", "a.svm", "a.txt", "a.jsonl", "a.parquet", "a.arff.gz", "a"])
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


def test_utf16_that_is_cut_is_named(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes("text,labels\na,b\n".encode("utf-16")[:-1])
    with pytest.raises(DataFormatError, match=r"a.csv:\d+: broken UTF-16 text \(truncated data\)"):
        read(path)


def test_gzip_bomb_and_broken_gzip(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "EXPANSION_FLOOR", 1 << 20)
    path = tmp_path / "a.arff.gz"
    (tmp_path / "a.xml").write_text(XML)
    path.write_bytes(gzip.compress((HEADER + ("%" + "x" * 1000 + "\n") * 30_000).encode()))
    tracemalloc.start()
    with pytest.raises(DataFormatError, match=r"expands to more than \d+ bytes: .*set this variable"):
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
    for name, start in (("a.arff", HEADER), ("a.svm", ""), ("a.csv", "x,label:a\n"), ("a.jsonl", '{"x": ')):
        path = make(tmp_path, start + "1" * (3 << 20), name=name)
        with pytest.raises(DataFormatError, match="longer than"):
            read(path)


@pytest.mark.parametrize("text", ["99999999999 9 9\n0 0:1\n", "1 999999999999 999999999999\n0 0:1\n"])
def test_declared_counts_allocate_nothing(tmp_path, text):
    path = make(tmp_path, text, name="a.txt")
    tracemalloc.start()
    with pytest.raises(DataFormatError):
        read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


CHILD = """
import json, sys
from comargin.data import DataFormatError, read
try:
    import resource
except ImportError:
    pass
else:
    resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
said = []
for path, options in json.loads(sys.stdin.read()):
    try:
        data = read(path, **options)
        said.append(f"read {data.Y.shape[0]} rows")
    except DataFormatError as error:
        said.append(error.reason)
print(json.dumps(said))
"""


def read_in_child(jobs):
    """Reason or size of every (path, options), read by a process that may take neither 6 GB nor two minutes."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=json.dumps([(str(path), options) for path, options in jobs]),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


MALFORMED = {  # a search that goes back over its input would not end in days
    "header1.arff": "@relation r\n@attribute x {" + " " * 2_000_000 + "\n",
    "header2.arff": "@relation r\n@attribute x {" + "a " * 1_000_000 + "\n",
    "header3.arff": "@relation r\n@attribute '" + "\\" * 2_000_001 + "\n",
    "header4.arff": "@relation r\n@attribute " + "a" * 2_000_000 + "\n",
    "row1.arff": HEADER + "1,'" + "\\" * 2_000_001 + "\n",
    "row2.arff": HEADER + "1," + " " * 2_000_000 + "'\n",
    "row3.arff": HEADER + "{0 " + " " * 2_000_000 + "\n",
    "row4.arff": HEADER + "{0 '" + "a" * 2_000_000 + "\n",
    "number.arff": HEADER + "1" * 2_000_000 + "x,a,0\n",
    "number.csv": "x,label:a\n" + "1" * 2_000_000 + "x,0\n",
    "number.svm": "0 1:" + "1" * 2_000_000 + "x\n",
    "pairs": "1:1" * 2_000_000 + " x\n",
    "pairs.txt": "1:1 " * 1_000_000 + " x\n",
    "labels": "1," * 1_000_000 + " x\n",
    "digits": "1" * 2_000_000 + " x\n",
    "blanks": "1" + " " * 2_000_000 + "x\n",
    "counts.txt": "1 1" + " " * 2_000_000 + "x\n",
    "dashes.arff": "@relation '" + "-C " * 700_000 + "\n",
    "open.jsonl": "[" * 2_000_000 + "\n",
    "number.jsonl": '{"x": ' + "1" * 2_000_000 + ', "labels": ["a"]}\n',
    "blanks.jsonl": '{"x": 1' + " " * 2_000_000 + "\n",
}


def test_malformed_files_take_linear_time(tmp_path):
    jobs = []
    for name, text in MALFORMED.items():
        path = tmp_path / name
        path.write_text(text)
        path.with_suffix(".xml").write_text(XML)
        jobs.append((path, {}))
    said = dict(zip(MALFORMED, read_in_child(jobs), strict=True))
    assert not [name for name, reason in said.items() if reason.startswith("read ")], said


def test_wide_tables_and_large_domains_take_linear_time(tmp_path):
    wide = tmp_path / "wide.csv"
    names = [f"x{j}" for j in range(100_000)] + [f"label:{j}" for j in range(100_000)]
    wide.write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    spelt = tmp_path / "spelt.arff"
    values = ",".join(map(str, range(100_000)))
    spelt.write_text(meka(f"@attribute a {{{values}}}\n", "0,99999.0\n" * 100_000))
    assert read_in_child([(wide, {}), (spelt, {})]) == ["read 1 rows", "read 100000 rows"]


def meka(attributes, rows):
    return "@relation 'r: -C 1'\n@attribute l {0,1}\n" + attributes + "@data\n" + rows


def nominal(name, n):
    return f"@attribute {name} {{{','.join(f'v{i}' for i in range(n))}}}\n"


def test_small_files_do_not_become_huge_arrays(tmp_path):
    omitted = "".join(f"@attribute a{i} {{1,2}}\n" for i in range(2000))  # left out means 1
    cases = [
        ("omitted", meka(omitted, "{}\n" * 80_000), {}, "2000 attributes, e.g. 'a0'; drop="),
        ("onehot", meka(nominal("id", 8000), "".join(f"0,v{i}\n" for i in range(8000))), {}, "attribute 'id' .*drop="),
        ("gaps", meka(nominal("id", 8000), "{1 ?}\n" * 50_000), {"missing": "nan"}, "1 attribute, e.g. 'id'"),
        ("name", meka(nominal("n" * 1_000_000, 8000), "0,v1\n"), {}, "names of columns"),
        ("one", meka(nominal("one", 300), "".join(f"0,v{i % 300}\n" for i in range(100_000))), {}, "read 100000 rows"),
        ("two", meka(omitted, "{}\n" * 3000), {}, "read 3000 rows"),
        ("sparse", meka(nominal("id", 8000), "".join(f"{{1 v{i}}}\n" for i in range(8000))), {}, "read 8000 rows"),
    ]  # fmt: skip
    jobs = []
    for name, text, options, _ in cases:
        path = tmp_path / f"{name}.arff"
        path.write_text(text)
        jobs.append((path, options))
    for said, (name, _, _, reason) in zip(read_in_child(jobs), cases, strict=True):
        assert re.search(reason, said), (name, said)
        assert "refused" in said or said.startswith("read "), (name, said)


def test_the_limit_of_arrays_grows_with_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(source_module, "ARRAY_FLOOR", 0)
    path = tmp_path / "a.arff"
    rows = "".join(f"0,v{i % 20}\n" for i in range(5000))  # 160 bytes of a row of 5: below 200 times
    path.write_text(meka(nominal("a", 20), rows))
    assert read(path).X.shape == (5000, 20)
    path.write_text(meka(nominal("a", 200), rows))
    with pytest.raises(DataFormatError, match="bytes of text: refused"):
        read(path)


def test_repeated_values_of_a_parquet_file(tmp_path):
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    numbers, texts = tmp_path / "numbers.parquet", tmp_path / "texts.parquet"
    ones = np.ones(10_000_000, dtype=np.int8)
    pq.write_table(pa.table({"x": ones, "label:a": ones}), numbers)
    assert numbers.stat().st_size < 100_000
    once = pa.DictionaryArray.from_arrays(pa.array(np.zeros(50_000, np.int32)), ["x" * 200_000])
    lists = pa.ListArray.from_arrays(np.arange(50_001, dtype=np.int32), once)
    pq.write_table(pa.table({"text": once, "labels": lists}), texts, store_schema=False)
    assert texts.stat().st_size < 100_000
    said = read_in_child([(numbers, {}), (texts, {})])  # the texts in full would be 20 GB
    assert re.search("10000000 rows of 2 columns: more than .* refused", said[0])
    assert said[1] == "read 50000 rows"


def test_codecs_that_raise_their_own_kind_of_error(tmp_path):
    """A UnicodeError that is no UnicodeDecodeError has no position to name."""
    path = make(tmp_path, "x,label:a\nxn--,0\n", name="a.csv")
    with pytest.raises(UnicodeError) as raised:
        b"xn--,0".decode("idna")
    assert not isinstance(raised.value, UnicodeDecodeError)
    with pytest.raises(DataFormatError, match=r"a.csv:2: is not idna text"):
        read(path, encoding="idna")


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
        (numbers, "j.jsonl", "jsonl"), (texts, "tj.jsonl", "jsonl"),
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
