"""Where cells become labels: one meaning of words, one indicator, whatever the format."""

import numpy as np
import pytest
import scipy.sparse as sp

from comargin.data import DataFormatError
from comargin.data.labels import indicator, label_columns, label_of_cell, settled, tags_of


@pytest.mark.parametrize(
    ("cells", "number"),
    [(("1", "1.0", " Yes ", "TRUE", "+1"), 1.0), (("0", "-0", "no", "Absent"), 0.0), (("2", "x", "-1", "1 0"), None)],
)
def test_words_and_numbers_of_a_cell(cells, number):
    assert [label_of_cell(cell) for cell in cells] == [number] * len(cells)


def test_missing_cells_are_nan_and_become_0():
    cells = ["1", "", "?", "NaN", "null", "0"]
    numbers = np.array([[label_of_cell(cell)] for cell in cells])
    assert np.isnan(numbers[:, 0]).tolist() == [False, True, True, True, True, False]
    Y = settled(numbers)
    assert (Y.dtype, Y.ravel().tolist()) == (np.int32, [1, 0, 0, 0, 0, 0])
    sparse = settled(sp.csr_array(numbers))
    assert (sparse.dtype, sparse.nnz, sparse.toarray().tolist()) == (np.int32, 1, Y.tolist())


def test_lists_of_names_there_and_back():
    tags = settled([["b", "a", "b"], [], ["c"]])
    assert tags == [["b", "a"], [], ["c"]]
    Y, names = indicator(tags, None)
    assert (names, Y.toarray().tolist()) == (("a", "b", "c"), [[1, 1, 0], [0, 0, 0], [0, 0, 1]])
    assert tags_of(Y, names) == [["a", "b"], [], ["c"]]


def test_columns_by_name_and_by_number():
    names = ["x", "a", "b"]
    assert label_columns("f", names, ["b", "a"]) == [2, 1]
    assert (label_columns("f", names, 1), label_columns("f", names, -2)) == ([0], [1, 2])
    for labels, message in (
        (["aa"], "f:1: label 'aa' .list. is not an attribute of the file; the nearest is 'a'"),
        ([], "f:1: list names no labels"),
        (["a", "a"], "f:1: list names a label twice"),
        (4, "f:1: list says 4 labels, but there are 3 attributes"),
        (0, "f:1: list says 0 labels"),
    ):
        with pytest.raises(DataFormatError, match=message):
            label_columns("f", names, labels, noun="attribute", origin="list", line=1)
