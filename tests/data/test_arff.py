"""Mulan and MEKA files: the careful parser by hand-made files, the fast one against it, both against liac's rules."""

from __future__ import annotations

import gzip
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from comargin.data import DataFormatError, stream
from comargin.data import _source as source_module
from comargin.data._arff_header import quote, unquote
from comargin.data._numbers import COMMA, NEWLINE, byte_table, format_number, parse_number, scan
from comargin.data.formats import detect_format, read

TABLE = byte_table({b"\n": NEWLINE, b",": COMMA})


def make(folder, rows, attributes, labels=("l1", "l2"), relation="r", name="a"):
    """Write an ARFF file with its XML and return the path."""
    path = folder / f"{name}.arff"
    lines = [f"@relation {relation}", *(f"@attribute {a}" for a in attributes), "@data", *rows]
    path.write_bytes(("\n".join(lines) + "\n").encode())
    if labels:
        xml = "".join(f'<label name="{label}"/>' for label in labels)
        path.with_suffix(".xml").write_text(f'<labels xmlns="x">{xml}</labels>')
    return path


def careful(path, **options):
    """Read without the fast path."""
    with patch("comargin.data._arff_rows.scan", return_value=None):
        return read(path, format="mulan", **options)


def dense(A):
    return A.toarray() if sp.issparse(A) else A


LABELS = ["l1 {0,1}", "l2 {0,1}"]


def test_dense_rows(tmp_path):
    data = read(make(tmp_path, ["1.5,-2e3,0,1", ".5,+7,1,0"], ["x numeric", "y REAL", *LABELS]))
    assert data.X.dtype == np.float64
    assert data.X.flags.c_contiguous
    assert data.Y.dtype == np.int32
    assert data.X.tolist() == [[1.5, -2000.0], [0.5, 7.0]]
    assert data.Y.tolist() == [[0, 1], [1, 0]]
    assert (data.feature_names, data.label_names, data.name) == (("x", "y"), ("l1", "l2"), "a")


def test_sparse_rows_in_any_order(tmp_path):
    rows = ["{0 1.5,3 1}", "{}", "{ 2 1 , 1 -2 }", "{3 0,0 0}"]
    data = read(make(tmp_path, rows, ["x numeric", "y numeric", *LABELS]))
    assert isinstance(data.X, sp.csr_array)
    assert isinstance(data.Y, sp.csr_array)
    assert data.Y.dtype == np.int32
    assert data.X.toarray().tolist() == [[1.5, 0], [0, 0], [0, -2], [0, 0]]
    assert data.Y.toarray().tolist() == [[0, 1], [0, 0], [1, 0], [0, 0]]
    assert data.X.nnz == 2  # written zeros are not stored


def test_labels_in_the_order_of_the_xml_and_anywhere_in_the_file(tmp_path):
    path = make(tmp_path, ["1,5,0", "0,6,1"], ["b {0,1}", "x numeric", "a {0,1}"], labels=("a", "b"))
    data = read(path)
    assert data.label_names == ("a", "b")
    assert data.Y.tolist() == [[0, 1], [1, 0]]
    assert data.X.tolist() == [[5], [6]]


def test_header_forms(tmp_path):
    path = tmp_path / "a.arff"
    path.write_bytes(
        b"\xef\xbb\xbf% comment\r\n\r\n@RELATION 'a name: with blanks'\r\n"
        b"@Attribute\t'first one'\tNUMERIC % why not\r\n@attribute \"sec'ond\" integer\r\n"
        b"  @ATTRIBUTE third{0, 1}\r\n@attribute m\\'usica { 0 ,1 }\r\n@Data\r\n"
        b"% a comment\r\n1,2,0,1\r\n\r\n 3 , 4 ,\t1,0 % trailing\r\n"
    )
    path.with_suffix(".xml").write_text(r"""<labels><label name="m\'usica"/><label name="third"/></labels>""")
    data = read(path)
    assert data.feature_names == ("first one", "sec'ond")
    assert data.label_names == ("m'usica", "third")
    assert data.X.tolist() == [[1, 2], [3, 4]]
    assert data.Y.tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize(
    "name", ["plain", "a b", "it's", 'say "x"', "back\\slash", "a\\'b", "x\ny\tz\r", "%", "{a,b}", "?", "ü"]
)
def test_quote_and_unquote_are_inverse(tmp_path, name):
    written = quote(name)
    assert (unquote(written[1:-1], quoted=True) if written.startswith("'") else written) == name
    data = read(make(tmp_path, ["1,0"], [f"{written} numeric", "l {0,1}"], labels=("l",)))
    assert data.feature_names == (name,)


@pytest.mark.parametrize(
    ("declared", "written", "columns", "names"),
    [
        ("{1,2,3}", ["3", "1", "2"], [[3], [1], [2]], ["c"]),
        ("{NO,YES}", ["YES", "NO", "NO"], [[1], [0], [0]], ["c"]),
        ("{YES,NO}", ["YES", "NO", "NO"], [[1], [0], [0]], ["c"]),
        ("{True, False}", ["True", "False", "False"], [[1], [0], [0]], ["c"]),
        ("{red,blue}", ["red", "blue", "blue"], [[0], [1], [1]], ["c"]),
        ("{a,'b c',d}", ["'b c'", "d", "a"], [[0, 1, 0], [0, 0, 1], [1, 0, 0]], ["c=a", "c=b c", "c=d"]),
        ("{only}", ["only"] * 3, [[1], [1], [1]], ["c=only"]),
        ("{0,1}", ["1.0", "0", "1"], [[1], [0], [1]], ["c"]),
    ],
)
def test_nominal_features(tmp_path, declared, written, columns, names):
    path = make(tmp_path, [f"{value},1,0" for value in written], [f"c {declared}", *LABELS])
    data = read(path)
    assert data.X.tolist() == columns
    assert list(data.feature_names) == names


def test_nominal_onehot_makes_columns_of_numbers(tmp_path):
    path = make(tmp_path, ["3,1,1,0", "1,0,1,0"], ["c {1,2,3}", "d {0,1}", *LABELS])
    data = read(path, nominal="onehot")
    assert data.feature_names == ("c=1", "c=2", "c=3", "d")
    assert data.X.tolist() == [[0, 0, 1, 1], [1, 0, 0, 0]]


def test_what_a_sparse_row_leaves_out_is_the_first_declared_value(tmp_path):
    attributes = ["c {1,2}", "d {YES,NO}", "e {r,g,b}", "f numeric", *LABELS]
    data = read(make(tmp_path, ["{}", "{0 2,1 NO,2 b,3 4,5 1}"], attributes))
    assert data.feature_names == ("c", "d", "e=r", "e=g", "e=b", "f")
    assert data.X.toarray().tolist() == [[1, 1, 1, 0, 0, 0], [2, 0, 0, 0, 1, 4]]
    assert data.Y.toarray().tolist() == [[0, 0], [0, 1]]


@pytest.mark.parametrize(
    ("declared", "values"),
    [("{0,1}", "01"), ("{1,0}", "01"), ("numeric", "01"), ("{-1,1}", ["-1", "1"]), ("{false,true}", ["false", "true"])],
)
def test_label_values(tmp_path, declared, values):
    path = make(tmp_path, [f"5,{values[1]}", f"5,{values[0]}"], ["x numeric", f"l {declared}"], labels=("l",))
    assert read(path).Y.tolist() == [[1], [0]]


@pytest.mark.parametrize(
    ("row", "declared"), [("5,2", "numeric"), ("5,0.5", "numeric"), ("5,a", "{a,b,c}"), ("5,2", "{0,1}")]
)
def test_bad_label_values(tmp_path, row, declared):
    with pytest.raises(DataFormatError, match="l"):
        read(make(tmp_path, [row], ["x numeric", f"l {declared}"], labels=("l",)))


def test_missing_values(tmp_path):
    path = make(tmp_path, ["1,a,0,1", "?,?,0,1", "4,c,1,1"], ["x numeric", "c {a,b,c}", *LABELS])
    with pytest.raises(DataFormatError, match="missing=") as caught:
        read(path)
    assert caught.value.line == 8
    np.testing.assert_array_equal(read(path, missing="nan").X, [[1, 1, 0, 0], [np.nan] * 4, [4, 0, 0, 1]])
    assert read(path, missing="zero").X.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [4, 0, 0, 1]]
    assert read(path, missing="mean").X.tolist() == [[1, 1, 0, 0], [2.5, 0.5, 0, 0.5], [4, 0, 0, 1]]


def test_missing_values_in_sparse_rows(tmp_path):
    path = make(tmp_path, ["{0 3}", "{0 ?,1 ?}", "{}"], ["x numeric", "c {a,b,c}", *LABELS])
    expected = np.array([[3, 1, 0, 0], [np.nan] * 4, [0, 1, 0, 0]])
    np.testing.assert_array_equal(read(path, missing="nan").X.toarray(), expected)
    np.testing.assert_array_equal(read(path, missing="zero").X.toarray(), np.nan_to_num(expected))
    mean = read(path, missing="mean").X.toarray()
    np.testing.assert_array_equal(mean[1], [1.5, 1, 0, 0])  # the zero of the last row counts


def test_missing_labels(tmp_path):
    path = make(tmp_path, ["1,?,1"], ["x numeric", *LABELS])
    for missing in ("error", "nan", "mean", "zero"):
        with pytest.raises(DataFormatError, match=r"a.arff:6: the label of attribute 'l1' is missing.*unlabelled='neg"):
            read(path, missing=missing)
    assert read(path, unlabelled="negative").Y.tolist() == [[0, 1]]
    with pytest.raises(DataFormatError, match="every row misses a label, so that unlabelled='drop' leaves none"):
        read(path, unlabelled="drop")
    with pytest.raises(ValueError, match="unlabelled='zero', allowed are None, 'drop', 'negative'"):
        read(path, unlabelled="zero")
    sparse = make(tmp_path, ["{0 2,1 ?}", "{0 3,2 1}"], ["x numeric", *LABELS], name="sparse")
    data = read(sparse, unlabelled="drop")
    assert (data.X.toarray().tolist(), data.Y.toarray().tolist()) == ([[3]], [[0, 1]])
    assert read(sparse, unlabelled="negative").Y.toarray().tolist() == [[0, 0], [0, 1]]
    assert [c.tags for c in stream(sparse, labels=True, unlabelled="drop")] == [[["l2"]]]


@pytest.mark.parametrize("rows", [["?,3,?", "2,?,1"], ["{0 ?,1 3,2 ?}", "{0 2,1 ?,2 1}"]])
def test_missing_numbers_are_read_as_fast_as_others(tmp_path, rows):
    path = make(tmp_path, rows, ["x numeric", "c {0,2,3}", "l1 {0,1}"], labels=("l1",))
    kind = "sparse" if rows[0].startswith("{") else "dense"
    slow = careful(path, missing="nan", unlabelled="negative")
    with patch(f"comargin.data._arff_rows.CarefulParser.{kind}", side_effect=AssertionError("the slow parser")):
        data = read(path, missing="nan", unlabelled="negative")
    for found in (data, slow):
        np.testing.assert_array_equal(dense(found.X), [[np.nan, 3], [2, np.nan]])
        assert dense(found.Y).tolist() == [[0], [1]]


def test_missing_values_beside_words(tmp_path):
    rows = ["?,u,?,?", "?,?,1,0", "2,v,0,1"]
    path = make(tmp_path, rows, ["x numeric", "c {u,v}", *LABELS])
    data = read(path, missing="nan", unlabelled="negative")
    np.testing.assert_array_equal(data.X, [[np.nan, 0], [np.nan, np.nan], [2, 1]])
    assert data.Y.tolist() == [[0, 0], [1, 0], [0, 1]]
    with patch("comargin.data._arff_plan.Column.number", side_effect=AssertionError("value by value")):
        np.testing.assert_array_equal(read(path, missing="nan", unlabelled="negative").X, data.X)


def test_a_missing_value_beside_another_spelling(tmp_path):
    path = make(tmp_path, ["?,u,1.0"], ["x numeric", "c {u,v}", "l {0,1}"], labels=("l",))  # 1.0 is not declared
    np.testing.assert_array_equal(read(path, missing="nan").X, [[np.nan, 0]])


def test_an_empty_document_of_slashdot(tmp_path):
    for rows in (["{,2 1}", "{0 5}"], ["{,2 1}", "{0 5} % slow"]):
        data = read(make(tmp_path, rows, ["x numeric", *LABELS]))
        assert (data.X.toarray().tolist(), data.Y.toarray().tolist()) == ([[0], [5]], [[0, 1], [0, 0]])


def test_two_readings_that_disagree_are_an_error(tmp_path):
    attributes = ["w1 {0,1}", "w2 {0,1}", "a {0,1}", "b {0,1}"]
    path = make(tmp_path, ["1,0,1,1"], attributes, labels=(), relation="'r: -C 2'")
    (tmp_path / "other.xml").write_text('<labels xmlns="x"><label name="a"/><label name="b"/></labels>')
    with pytest.raises(
        DataFormatError, match=r"the first 2 attributes \(-C 2 in .*other.xml lists. Say labels=2 or lab"
    ):
        read(path)
    assert read(path, labels=2).label_names == ("w1", "w2")
    assert read(path, labels=tmp_path / "other.xml").label_names == ("a", "b")
    (tmp_path / "other.xml").rename(tmp_path / "a.xml")  # its own XML is right
    assert read(path).label_names == ("a", "b")
    (tmp_path / "a.xml").write_text('<labels xmlns="x"><label name="stranger"/></labels>')
    (tmp_path / "a.xml").rename(tmp_path / "c.xml")  # that of another set
    assert read(path).label_names == ("w1", "w2")


def test_a_count_of_labels_before_columns_were_moved_is_not_trusted(tmp_path):
    relation = "'r: -C 2-weka.filters.unsupervised.attribute.Remove-R1-2'"
    path = make(tmp_path, ["1,0,1,1"], ["w1 {0,1}", "w2 {0,1}", "a {0,1}", "b {0,1}"], labels=(), relation=relation)
    with pytest.raises(DataFormatError, match=r"first 2 attributes .* may be no labels.*labels= \(2 if they are\)"):
        read(path)
    assert read(path, labels=-2).label_names == ("a", "b")


def test_a_compressed_xml_beside_a_compressed_file(tmp_path):
    for path in (tmp_path / "a.arff", tmp_path / "a.xml"):
        make(tmp_path, ["1,0,1"], ["w {0,1}", *LABELS], relation="'r: -C 1'")
        (tmp_path / f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
    for path in (tmp_path / "a.arff", tmp_path / "a.xml"):
        path.unlink()
    assert read(tmp_path / "a.arff.gz").label_names == ("l1", "l2")
    (tmp_path / "a.xml.gz").write_bytes(b"no gzip")
    with pytest.raises(DataFormatError, match=r"a.xml.gz: cannot be read"):
        read(tmp_path / "a.arff.gz")


def test_string_and_date_need_drop(tmp_path):
    attributes = ["s string", 'd date "yyyy-MM-dd"', "x numeric", *LABELS]
    path = make(tmp_path, ["'free, text',2001-01-01,3,0,1"], attributes)
    with pytest.raises(DataFormatError, match=r"'s' is a string.*drop="):
        read(path)
    assert read(path, drop=["s", "d"]).X.tolist() == [[3]]
    with pytest.raises(ValueError, match="drop= names"):
        read(path, drop=["nothing"])


@pytest.mark.parametrize(
    ("relation", "first"), [("'x: -C 2'", True), ("'x: -C -2'", False), ("x-C_no -C 2 -split", True)]
)
def test_meka(tmp_path, relation, first):
    labels, features = ["l1 {0,1}", "l2 {0,1}"], ["x numeric"]
    row = "1,0,7" if first else "7,1,0"
    path = make(tmp_path, [row], labels + features if first else features + labels, labels=(), relation=relation)
    assert detect_format(path) == "meka"
    data = read(path)
    assert (data.X.tolist(), data.Y.tolist(), data.label_names) == ([[7]], [[1, 0]], ("l1", "l2"))


def test_an_xml_of_its_own_outweighs_a_stale_count_of_labels(tmp_path):
    columns = ["x numeric", *LABELS]
    path = make(tmp_path, ["7,1,0"], columns, relation="'x: -C 2'")  # of a file whose labels came first
    assert detect_format(path) == "mulan"
    assert read(path).label_names == ("l1", "l2")
    assert [chunk.X.tolist() for chunk in stream(path)] == [[[7.0]]]
    path.with_suffix(".xml").rename(tmp_path / "other.xml")
    assert detect_format(path) == "meka"


def test_labels_argument(tmp_path):
    path = make(tmp_path, ["7,1,0"], ["x numeric", *LABELS], labels=())
    with pytest.raises(DataFormatError, match="labels="):
        read(path)
    assert read(path, labels=["l2", "l1"]).Y.tolist() == [[0, 1]]
    assert read(path, labels=np.array(["l2"]), drop=("l1",)).Y.tolist() == [[0]]
    assert read(path, labels=-2).Y.tolist() == [[1, 0]]
    other = tmp_path / "sub" / "names.xml"
    other.parent.mkdir()
    other.write_text('<labels><label name="l2"/></labels>')
    assert read(path, labels=other).Y.tolist() == [[0]]
    for bad in (0, 4, -4, ["nothing"], ["l1", "l1"], []):
        with pytest.raises(DataFormatError, match="label"):
            read(path, labels=bad)


def test_xml_is_found(tmp_path):
    make(tmp_path, ["7,1,0"], ["x numeric", *LABELS], labels=("l1",), name="one")
    make(tmp_path, ["7,1,0"], ["x numeric", *LABELS], labels=("l2",), name="two")
    for name, expected in (("one-train", "l1"), ("two_test", "l2"), ("one", "l1")):
        path = tmp_path / f"{name}.arff"
        path.write_bytes((tmp_path / "one.arff").read_bytes())
        assert read(path).label_names == (expected,)
    path = tmp_path / "three.arff"
    path.write_bytes((tmp_path / "one.arff").read_bytes())
    with pytest.raises(DataFormatError, match=r"2 XML files.*labels="):
        read(path)
    (tmp_path / "two.xml").unlink()
    assert read(path).label_names == ("l1",)


def test_nested_labels_are_flattened(tmp_path):
    path = make(tmp_path, ["7,1,0"], ["x numeric", *LABELS], labels=())
    (tmp_path / "a.xml").write_text('<labels><label name="l2"><label name="l1"/></label></labels>')
    assert read(path).label_names == ("l2", "l1")


NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.integers(-(10**25), 10**25).map(str),
    st.from_regex(r"[+-]?[0-9]{0,26}\.[0-9]{1,26}", fullmatch=True),
    st.from_regex(r"[+-]?[0-9]{1,3}(\.[0-9]{0,3})?([eE][+-]?[0-9]{1,2})?", fullmatch=True),
)
JUNK = st.text(st.sampled_from("0123456789.-+eE"), max_size=6)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(NUMBERS, NUMBERS, JUNK), min_size=1, max_size=8))
def test_scan_reads_numbers_as_python_does(texts):
    expected = [0.0 if text == "" else parse_number(text) for text in texts]
    found = scan((",".join(texts) + "\n").encode(), TABLE)
    if None in expected:
        assert found is None
    else:
        assert [float(value).hex() for value in found.value] == [float(value).hex() for value in expected]
        assert found.filled.tolist() == [text != "" for text in texts]
        assert found.plain.tolist() == [text == "" or text.isdigit() for text in texts]


def test_scan_rounds_correctly_next_to_ties(rng):
    # Decimals of 17 to 21 digits around the middle of two neighbouring doubles, where a sloppy division fails.
    from fractions import Fraction

    texts = []
    for x in rng.random(3000):
        middle = (Fraction(float(x)) + Fraction(float(np.nextafter(x, 2)))) / 2
        digits = int(rng.integers(16, 21))
        texts += [f"0.{int(middle * 10**digits) + shift:0{digits}d}" for shift in (0, 1)]
    texts += [f"{2**53 + 2 * k + 1}.{'0' * z}" for k in range(50) for z in (1, 2)]
    found = scan((",".join(texts) + "\n").encode(), TABLE)
    assert found.value.tolist() == [float(text) for text in texts]


@settings(max_examples=300, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_format_number_is_exact(value):
    assert float(format_number(value)).hex() == value.hex()


CELLS = st.one_of(NUMBERS, st.sampled_from(["0", "1", "?", "", "x", "2", "1.0", " 3 ", "-0"]))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(CELLS, st.sampled_from("00123"), st.sampled_from(["0", "1", "1.0", "01", "2"])),
        min_size=1,
        max_size=6,
    ),
    st.sampled_from([",", ", ", " ,", "\t,"]),
    st.sampled_from(["\n", "\n\n", "\r\n"]),
)
def test_fast_dense_is_careful_dense(tmp_path_factory, rows, comma, end):
    path = tmp_path_factory.mktemp("dense") / "a.arff"
    body = end.join(comma.join(row) for row in rows)
    path.write_bytes(
        f"@relation r\n@attribute x real\n@attribute c {{0,1,2,3}}\n@attribute l {{0,1}}\n@data\n{body}".encode()
    )
    assert_same_outcome(path)
    assert_same_outcome(path, missing="nan", unlabelled="negative")


ENTRIES = st.tuples(st.integers(0, 3), st.one_of(NUMBERS, st.sampled_from(["0", "1", "1", "?", "2", "y"])))


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(ENTRIES, max_size=4), min_size=1, max_size=6), st.sampled_from([",", ", ", " , "]))
def test_fast_sparse_is_careful_sparse(tmp_path_factory, rows, comma):
    path = tmp_path_factory.mktemp("sparse") / "a.arff"
    body = "\n".join("{" + comma.join(f"{j} {value}" for j, value in row) + "}" for row in rows)
    head = "@relation r\n@attribute x real\n@attribute c {0,1}\n@attribute l {0,1}\n@data\n"
    path.write_text(head + body + "\n")
    assert_same_outcome(path)
    assert_same_outcome(path, missing="nan", unlabelled="negative")


def assert_same_outcome(path, **options):
    outcomes = []
    for reader in (read, careful):
        try:
            data = reader(path, labels=["l"], **options)
            outcomes.append((type(data.X), str(dense(data.X).tolist()), dense(data.Y).tolist()))
        except DataFormatError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_blocks_do_not_show(tmp_path, monkeypatch, rng):
    # Rows are read in blocks; whatever their size, the result and the line of a fault are the same.
    X = rng.normal(size=(40, 3)).round(3)
    rows = [",".join(map(repr, x)) + ",0,1" for x in X.tolist()]
    rows[25:25] = ["% comment", ""]
    attributes = ["x numeric", "y numeric", "z numeric", *LABELS]
    good = make(tmp_path, rows, attributes)
    bad = make(tmp_path, [*rows[:30], "1,2,3,0", *rows[30:]], attributes, name="bad")
    for size in (1, 7, 100, 10**6):
        monkeypatch.setattr(source_module, "BLOCK_BYTES", size)
        np.testing.assert_array_equal(read(good).X, X)
        with pytest.raises(DataFormatError, match=r"bad.arff:38: has 4 values, expected 5"):
            read(bad)


SHAPES = {
    "bibtex/bibtex": (7395, 1836, 159, 2.402),
    "delicious/delicious": (16105, 500, 983, 19.02),
    "emotions/emotions": (593, 72, 6, 1.868),
    "enron/enron": (1702, 1001, 53, 3.378),
    "flags/flags": (194, 19, 7, 3.392),
    "genbase/genbase": (662, 1185, 27, 1.252),
    "yeast/yeast": (2417, 103, 14, 4.237),
    "cal500/cal500": (502, 68, 174, 26.044),
    "scene/scene-train": (1211, 294, 6, None),
    "corel5k/Corel5k-sparse": (5000, 499, 374, 3.522),
    "corel5k/Corel5k-train-sparse": (4500, 499, 374, None),
    "tmc2007-500/tmc2007-500": (28596, 500, 22, 2.158),
    "mediamill_small/mediamill_small": (2500, 120, 101, 4.353),
    "plant/plant978.orig": (978, 440, 12, 1.079),
    "rcv1subset1/rcv1subset1500.orig": (6000, 500, 101, 2.88),
    "medical/medical": (978, 1449, 45, 1.245),
    "medical/medical-train": (333, 1449, 45, 1.255),
    "medical/medical-test": (645, 1449, 45, 1.24),
    "langlog/langlog": (1460, 1004, 75, 1.18),
    "slashdot/slashdot-train": (3025, 3125, 20, 1.177),
}


@pytest.mark.parametrize("stem", SHAPES)
def test_published_sets(data_home, stem):
    path = data_home / f"{stem}.arff"
    if not path.is_file():
        pytest.skip(f"{stem} is not in the data folder")
    n, d, n_labels, cardinality = SHAPES[stem]
    data = read(path, drop=("protein",) if "genbase" in stem else ())
    assert data.X.shape == (n, d)
    assert data.Y.shape == (n, n_labels)
    assert len(set(data.feature_names)) == d
    if cardinality is not None:
        assert data.Y.sum() / n == pytest.approx(cardinality, abs=6e-4)


def test_published_set_fast_is_careful(data_home):
    for stem in ("emotions/emotions-test", "enron/enron-test"):
        path = data_home / f"{stem}.arff"
        if not path.is_file():
            pytest.skip(f"{stem} is not in the data folder")
        fast, slow = read(path), careful(path)
        np.testing.assert_array_equal(dense(fast.X), dense(slow.X))
        np.testing.assert_array_equal(dense(fast.Y), dense(slow.Y))
        assert fast.label_names == slow.label_names


def test_delicious_keeps_its_escaped_label(data_home):
    path = data_home / "delicious" / "delicious-test.arff"
    if not path.is_file():
        pytest.skip("delicious is not in the data folder")
    names = read(path).label_names
    assert "TAG_m'usica" in names
    assert "TAG_musica" in names


def test_onehot_columns_called_like_others(tmp_path):
    nominal = "a {x,y,z}"
    for other in ("'a=x' numeric", "'a=x' {1,2}"):
        path = make(tmp_path, ["x,1,0,1"], [nominal, other, *LABELS])
        with pytest.raises(DataFormatError, match="column 'a=x' of X comes from attribute 'a' and from 'a=x'"):
            read(path)
        assert read(path, drop=["a=x"]).feature_names == ("a=x", "a=y", "a=z")
    path = make(tmp_path, ["'b=x',x,0,1"], ["a {b=x,y,z}", "'a=b' {x,y,z}", *LABELS])
    with pytest.raises(DataFormatError, match="column 'a=b=x' of X comes from attribute 'a' and from 'a=b'"):
        read(path)


def test_other_spellings_of_declared_numbers(tmp_path):
    attributes = ["a {1,2.50,1e1}", "b {7,3}", "l1 {-1,1}", "l2 {1,0}"]
    path = make(tmp_path, ["1.0,3.0,+1,0.0", "2.5,7,-1.0,01", "10,3,1,1"], attributes)
    for data in (read(path), careful(path)):
        assert data.X.tolist() == [[1, 3], [2.5, 7], [10, 3]]
        assert data.Y.tolist() == [[1, 0], [0, 1], [1, 1]]
    hot = read(path, nominal="onehot")
    assert hot.feature_names == ("a=1", "a=2.50", "a=1e1", "b")
    assert hot.X.tolist() == [[1, 0, 0, 3], [0, 1, 0, 7], [0, 0, 1, 3]]


def test_many_kinds_of_nominal_numbers(tmp_path):
    """Beyond a few domains the careful parser takes over: the values are the same."""
    n = 100
    attributes = [f"a{j} {{{j},{j + 1},{j + 2}}}" for j in range(n)]
    rows = ["{" + ",".join(f"{j} {j + i}" for j in range(n)) + "}" for i in range(3)]
    data = read(make(tmp_path, [*rows, "{}"], [*attributes, *LABELS]))
    expected = [[j + i for j in range(n)] for i in range(3)]
    assert data.X.toarray().tolist() == [*expected, list(range(n))]  # left out: the first declared value


def test_omitted_values_in_parts(tmp_path, monkeypatch):
    rows = ["{0 2}", "{}", "{1 b,2 1}", "{2 1,3 1}", "{0 2,1 c}"]
    path = make(tmp_path, rows, ["x {1,2}", "c {a,b,c}", *LABELS])
    whole = read(path)
    assert whole.X.toarray().tolist() == [[2, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 0], [2, 0, 0, 1]]
    for at_once in (1, 3, 4):
        monkeypatch.setattr("comargin.data._arff._ADDED_AT_ONCE", at_once)
        again = read(path)
        np.testing.assert_array_equal(again.X.toarray(), whole.X.toarray())
        np.testing.assert_array_equal(again.Y.toarray(), whole.Y.toarray())
