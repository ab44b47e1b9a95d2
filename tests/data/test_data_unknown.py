"""Unknown labels in files: read as NaN where that is asked for, written by the formats that can hold them."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from comargin.data import DataFormatError, Dataset, read, stream, write
from comargin.data.matching import matched

Y = np.array([[1.0, np.nan, 0.0], [np.nan, np.nan, np.nan], [0.0, 1.0, 0.0]])
X = np.array([[1.5, 0.0], [0.0, 2.0], [3.0, 4.0]])


def dataset(sparse):
    form = sp.csr_array if sparse else np.asarray
    return Dataset(form(X), form(Y), ("a", "b"), ("r", "s", "t"), "hidden")


def dense(A):
    return A.toarray() if sp.issparse(A) else A


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("name", ["set.arff", "set.arff.gz", "set.csv", "set.tsv", "set.parquet"])
def test_formats_with_a_column_for_each_label_hold_unknown_labels(tmp_path, name, sparse):
    write(dataset(sparse), tmp_path / name)
    again = read(tmp_path / name, unlabelled="unknown")
    assert_array_equal(dense(again.Y), Y)
    assert_array_equal(dense(again.X), X)
    assert again.label_names == ("r", "s", "t")
    assert_array_equal(dense(read(tmp_path / name, unlabelled="negative").Y), np.nan_to_num(Y))
    assert_array_equal(dense(read(tmp_path / name, unlabelled="drop").Y), Y[2:])
    with pytest.raises(DataFormatError, match="unlabelled='unknown'"):
        read(tmp_path / name)


def test_meka_holds_unknown_labels(tmp_path):
    write(dataset(False), tmp_path / "set.arff", format="meka")
    assert_array_equal(read(tmp_path / "set.arff", unlabelled="unknown").Y, Y)


@pytest.mark.parametrize("name", ["set.svm", "set.txt", "set.jsonl"])
def test_other_formats_name_those_that_can(tmp_path, name):
    with pytest.raises(ValueError, match=r"holds no unknown labels .* 'mulan', 'meka', 'csv', 'parquet'"):
        write(dataset(True), tmp_path / name)
    texts = Dataset(["x", "y", "z"], sp.csr_array(Y), (), ("r", "s", "t"), "texts")
    with pytest.raises(ValueError, match="holds no unknown labels"):
        write(texts, tmp_path / "set.csv")
    assert not list(tmp_path.iterdir())


def test_known_labels_stay_integers(tmp_path):
    path = tmp_path / "set.csv"
    path.write_text("a,label:r\n1,0\n2,1\n")
    assert read(path, unlabelled="unknown").Y.dtype == np.int32


def test_a_row_without_a_list_is_unknown(tmp_path):
    path = tmp_path / "posts.jsonl"
    rows = [{"text": "x", "labels": ["s"]}, {"text": "y", "labels": None}, {"text": "z", "labels": ["r", "s"]}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    expected = [[0.0, 1.0], [np.nan, np.nan], [1.0, 1.0]]
    assert_array_equal(read(path, unlabelled="unknown").Y.toarray(), expected)
    path = tmp_path / "posts.csv"
    path.write_text("text,labels\nx,s\ny,\nz,r;s\n")
    assert_array_equal(read(path, unlabelled="unknown").Y.toarray(), expected)
    assert [chunk.unknown for chunk in stream(path, labels=True, unlabelled="unknown")] == [[[], None, []]]
    path = tmp_path / "columns.csv"
    path.write_text("text,r,s\nx,0,1\ny,?,\nz,1,1\n")
    assert_array_equal(read(path, text="text", labels=["r", "s"], unlabelled="unknown").Y, expected)


@pytest.mark.parametrize("sparse", [False, True])
def test_streams_and_matching_keep_what_is_unknown(tmp_path, sparse):
    path = tmp_path / "set.csv"
    write(dataset(sparse), path)
    (chunk,) = stream(path, labels=True, unlabelled="unknown")
    assert chunk.tags == [["r"], [], ["s"]]
    assert chunk.unknown == [["s"], ["r", "s", "t"], []]
    _, found = matched(dataset(sparse), 2, ("a", "b"), ("t", "s", "r", "u"))
    assert_array_equal(found.toarray(), np.hstack([Y[:, [2, 1, 0]], [[0.0]] * 3]))
