"""LIBSVM multi-label and XMC files, against scikit-learn's reader and by hand."""

from __future__ import annotations

import io
from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file
from sklearn.preprocessing import MultiLabelBinarizer

from comargin.data import DataFormatError, Dataset
from comargin.data import sparse_text as sparse_text_module
from comargin.data.formats import detect_format, read, write


def make(folder, text, name="a.svm"):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_libsvm_by_hand(tmp_path):
    data = read(make(tmp_path, "0,2 1:0.5 3:-1e1\n 2:1\n1:7\n1\n \n0,1 \n2,0 3:1 1:2\n"))
    assert data.X.toarray().tolist() == [
        [0.5, 0, -10], [0, 1, 0], [7, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [2, 0, 1]
    ]  # fmt: skip
    assert data.Y.toarray().tolist() == [
        [1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0], [1, 0, 1]
    ]  # fmt: skip
    assert isinstance(data.X, sp.csr_array)
    assert (data.X.dtype, data.Y.dtype) == (np.float64, np.int32)
    assert data.feature_names == ("x0", "x1", "x2")
    assert data.label_names == ("y0", "y1", "y2")


def test_libsvm_is_what_scikit_learn_reads(tmp_path, rng):
    X = sp.random_array((60, 12), density=0.3, rng=rng, format="csr")
    Y = (rng.random((60, 5)) < 0.4).astype(int)
    X[0, 11] = 1.0
    Y[:, 0] |= Y.sum(axis=1) == 0  # scikit-learn skips rows without labels
    path = tmp_path / "a.svm"
    dump_svmlight_file(X, sp.csr_matrix(Y), str(path), zero_based=False, multilabel=True)
    data = read(path)
    theirs, labels = load_svmlight_file(str(path), multilabel=True, zero_based=False)
    np.testing.assert_array_equal(data.X.toarray(), theirs.toarray())
    np.testing.assert_array_equal(data.Y.toarray(), MultiLabelBinarizer(classes=range(5)).fit_transform(labels))


def test_scikit_learn_reads_what_we_write(tmp_path, rng):
    X = rng.normal(size=(20, 6)) * (rng.random((20, 6)) < 0.5)
    Y = (rng.random((20, 4)) < 0.5).astype(np.int8)
    Y[0], Y[1], X[0, -1] = 1, 0, 3.0
    path = write(Dataset(X, Y, (), (), "a"), tmp_path / "a.svm")[0]
    theirs, labels = load_svmlight_file(io.BytesIO(path.read_bytes()), multilabel=True, zero_based=False, n_features=6)
    np.testing.assert_array_equal(theirs.toarray(), X)
    assert [set(map(int, row)) for row in labels] == [set(np.flatnonzero(y)) for y in Y]


def test_bases_and_shape(tmp_path):
    path = make(tmp_path, "1 0:5\n2 1:6\n")
    with pytest.raises(DataFormatError, match=r"a.svm:1: feature 0.*count from 1; index_base="):
        read(path)
    data = read(path, index_base=0, label_base=1, n_features=4, n_labels=3)
    assert data.X.toarray().tolist() == [[5, 0, 0, 0], [0, 6, 0, 0]]
    assert data.Y.toarray().tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(DataFormatError, match=r"a.svm:2: label 2 is out of range, there are 1"):
        read(path, index_base=0, label_base=1, n_labels=1)
    with pytest.raises(DataFormatError, match=r"a.svm:2: feature 1 is out of range"):
        read(path, index_base=0, n_features=1)


def test_comments(tmp_path):
    data = read(make(tmp_path, "# made by hand\n0 1:2 # first\n# between\n1 2:3\n"))
    assert data.X.toarray().tolist() == [[2, 0], [0, 3]]


def test_xmc_by_hand(tmp_path):
    path = make(tmp_path, "4 5 3\n0,2 0:0.5 3:1\n 1:1\n\n2\n\n\n", "a.txt")
    assert detect_format(path) == "xmc"
    data = read(path)
    assert data.X.shape == (4, 5)
    assert data.X.toarray()[:2].tolist() == [[0.5, 0, 0, 1, 0], [0, 1, 0, 0, 0]]
    assert data.Y.toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 0, 1]]


def test_xmc_needs_its_header(tmp_path):
    path = make(tmp_path, "0,2 0:0.5 3:1\n", "a.txt")
    assert detect_format(path) == "libsvm"
    with pytest.raises(DataFormatError, match=r"format='libsvm'.*index_base=0"):
        read(path, format="xmc")
    assert read(path, index_base=0).X.toarray().tolist() == [[0.5, 0, 0, 1]]


@pytest.mark.parametrize(
    ("text", "line", "reason"),
    [
        ("0 1:1\n0 2:x\n", 2, "'x' is not a finite number"),
        ("0 1:1\n0 2:nan\n", 2, "not a finite number"),
        ("0 1:1\n0 2:1e999\n", 2, "not a finite number"),
        ("0 1:1 1:2\n", 1, "stands twice"),
        ("0 1:1\n0 0:1\n", 2, "count from 1"),
        ("0 1:1\n1.5 1:1\n", 2, "'1.5' is not a label index"),
        ("-1 1:1\n", 1, "not a label index"),
        ("0 1:1\n0 -1:1\n", 2, "not a feature index"),
        ("0 1:1\n0 qid:3 1:1\n", 2, "not a feature index"),
        ("0 1:1\n\n0 1:1\n", 2, "blank line"),
        ("0 1:1\n0 7\n", 2, "expected index:value"),
        ("0 1:1\n0, 1:1\n", 2, "not a label index"),
        ("0 1:1\n0 1:\n", 2, "not a finite number"),
        ("0 99999999999:1\n", None, "not plausible"),
        ("99999999999 1:1\n", None, "not plausible"),
        ("\n\n", None, "no rows"),
        (" 1:1\n 2:1\n", None, "no row has a label"),
    ],
)
def test_broken_libsvm(tmp_path, text, line, reason):
    with pytest.raises(DataFormatError, match=reason) as caught:
        read(make(tmp_path, text), format="libsvm")
    assert caught.value.line == line


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("3 5 3\n0 0:1\n1 1:1\n", "header says 3 rows, the file has 2"),
        ("1 5 3\n0 0:1\n1 1:1\n", "header says 1 rows, the file has 2"),
        ("99999999999 9 9\n0 0:1\n", "header says 99999999999 rows"),
        ("1 99999999999 9\n0 0:1\n", "99999999999 features .* not plausible"),
        ("1 9 99999999999\n0 0:1\n", "99999999999 labels .* not plausible"),
        ("1 5 3\n3 0:1\n", "label 3 is out of range"),
        ("1 5 3\n0 5:1\n", "feature 5 is out of range"),
        ("0 5 3\n", "no rows"),
        ("1 5\n0 0:1\n", "first line is not"),
    ],
)
def test_broken_xmc(tmp_path, text, reason):
    with pytest.raises(DataFormatError, match=reason):
        read(make(tmp_path, text, "a.txt"), format="xmc")


def test_trailing_empty_columns_survive(tmp_path):
    X, Y = np.zeros((2, 5)), np.zeros((2, 4), dtype=np.int8)
    X[0, 1], Y[1, 0] = 2.5, 1
    for name in ("a.svm", "a.txt"):
        data = read(write(Dataset(X, Y, (), (), "a"), tmp_path / name)[0])
        np.testing.assert_array_equal(data.X.toarray(), X)
        np.testing.assert_array_equal(data.Y.toarray(), Y)
    assert read(tmp_path / "a.svm", n_features=7, n_labels=9).X.shape == (2, 7)


def test_nan_is_refused(tmp_path):
    data = Dataset(np.array([[np.nan]]), np.array([[1]]), (), (), "a")
    for name in ("a.svm", "a.txt"):
        with pytest.raises(ValueError, match="NaN"):
            write(data, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


TOKENS = st.one_of(
    st.tuples(st.integers(0, 5), st.floats(allow_nan=False, width=32)).map(lambda t: f"{t[0]}:{t[1]!r}"),
    st.tuples(st.integers(1, 9), st.integers(-9, 9)).map(lambda t: f"{t[0]}:{t[1]}"),
    st.sampled_from(["1", "1:", ":1", "2:x", "#", ""]),
)
ROWS = st.tuples(
    st.one_of(st.lists(st.integers(0, 6).map(str), max_size=3).map(",".join), st.sampled_from(["", " ", "1,", "x"])),
    st.sampled_from([" ", " ", "  ", "\t"]),
    st.lists(TOKENS, max_size=4).map(" ".join),
).map("".join)


@settings(max_examples=300, deadline=None)
@given(st.lists(ROWS, min_size=1, max_size=6), st.sampled_from([1, 0, "xmc"]))
def test_fast_is_careful(tmp_path_factory, rows, kind):
    options = {"format": "xmc"} if kind == "xmc" else {"format": "libsvm", "index_base": kind}
    header = f"{len(rows)} 8 7\n" if kind == "xmc" else ""
    path = make(tmp_path_factory.mktemp("rows"), header + "\n".join(rows) + "\n")
    outcomes = []
    for scan in (sparse_text_module.scan, lambda *_: None):
        try:
            with patch.object(sparse_text_module, "scan", scan):
                data = read(path, **options)
            outcomes.append((data.X.toarray().tolist(), data.Y.toarray().tolist()))
        except DataFormatError as error:
            outcomes.append(str(error))
    assert outcomes[0] == outcomes[1]


def test_yeast_is_the_same_in_both_forms(data_home):
    text = data_home / "yeast" / "napkinxc_xmc_format" / "yeast_test.txt"
    arff = data_home / "yeast" / "yeast-test.arff"
    if not (text.is_file() and arff.is_file()):
        pytest.skip("yeast is not in the data folder")
    assert detect_format(text) == "libsvm"
    ours, reference = read(text), read(arff, labels=-14)
    np.testing.assert_array_equal(ours.X.toarray(), reference.X)
    np.testing.assert_array_equal(ours.Y.toarray(), reference.Y)
