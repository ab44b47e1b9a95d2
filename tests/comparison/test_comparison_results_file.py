"""The results file: what is written, what is repaired, what is refused."""

import numpy as np
import pytest
import scipy.sparse as sp

from comargin.comparison._results import FIXED, ResultsFile, read_results
from comargin.data import _dataset, fingerprint
from comargin.training.identity import described

MEASURES = ("micro_f1", "coverage")


def record(k, **changes):
    made = {name: {str: f'{name}, "{k}"', int: k, float: k / 3}[kind] for name, kind in FIXED.items()}
    return made | {"micro_f1": 0.1 * k, "coverage": np.nan if k else None} | changes


def texts(records):
    """Comparable although nan is not equal to itself."""
    return [repr(one) for one in records]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rows_come_back_as_they_were(tmp_path, suffix):
    path = tmp_path / f"results.{suffix}"
    file = ResultsFile(path, MEASURES)
    rows = [record(k) for k in range(3)] + [record(3, error="", fit_seconds=None)]
    for row in rows:
        file.append(row)
    assert read_results(path)[0] == MEASURES
    assert texts(read_results(path)[1]) == texts(rows)
    again = ResultsFile(path, ("coverage",))
    assert again.measures == MEASURES
    assert texts(again.records) == texts(rows)
    again.append(record(4))
    assert texts(read_results(path)[1]) == texts([*rows, record(4)])


def test_a_file_cut_anywhere_is_repaired(tmp_path):
    path = tmp_path / "results.csv"
    file = ResultsFile(path, MEASURES)
    for k in range(3):
        file.append(record(k))
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        complete = max(whole[:size].count(b"\n") - 1, 0)
        before = path.read_bytes()
        assert len(read_results(path)[1]) == complete
        assert path.read_bytes() == before  # reading changes nothing
        ResultsFile(path, MEASURES).append(record(7))
        assert texts(read_results(path)[1]) == texts([*(record(k) for k in range(complete)), record(7)])


def test_a_parquet_file_is_replaced_in_one_step(tmp_path, monkeypatch):
    import pyarrow.parquet

    path = tmp_path / "results.parquet"
    file = ResultsFile(path, MEASURES)
    file.append(record(1))
    before = path.read_bytes()

    def breaks(table, where):
        where.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pyarrow.parquet, "write_table", breaks)
    with pytest.raises(OSError, match="disk full"):
        file.append(record(2))
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b,c\n1,2,3\n", "is no results file: its columns begin with a, b, c"),
        (b"some other text without an end", "is no results file"),
        (b"\xff\xfe\n", "is no UTF-8 text"),
        ((",".join([*FIXED, *MEASURES]) + "\n1,2\n").encode(), ":2: 2 values for 19 columns"),
        ((",".join([*FIXED, *MEASURES]) + "\n" + ",".join("x" * 19) + "\n").encode(), ":2: invalid literal"),
    ],
)
def test_other_files_are_refused_and_kept(tmp_path, content, message):
    path = tmp_path / "results.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        ResultsFile(path, MEASURES)
    assert path.read_bytes() == content


def test_what_a_path_must_be(tmp_path):
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(ValueError, match="is a folder"):
        ResultsFile(tmp_path / "folder.csv", MEASURES)
    with pytest.raises(ValueError, match="there is no file"):
        read_results(tmp_path / "none.csv")
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1 and so on")
    with pytest.raises(ValueError, match="is no Parquet file"):
        read_results(broken)


def test_a_measure_that_the_file_does_not_have(tmp_path):
    path = tmp_path / "results.csv"
    ResultsFile(path, MEASURES).append(record(0))
    with pytest.raises(ValueError, match="has no column 'ndcg_at_7'"):
        ResultsFile(path, (*MEASURES, "ndcg_at_7"))


def test_fingerprints_see_every_number():
    X, Y = np.array([[1.0, 0.0], [2.0, 3.0]]), np.array([[1, 0], [0, 1]])
    prints = {
        fingerprint(X, Y),
        fingerprint(X, 1 - Y),
        fingerprint(X[::-1], Y),
        fingerprint(X.T, Y),
        fingerprint(np.nextafter(X, 9), Y),
        fingerprint(["a", "bc"], Y),
        fingerprint(["ab", "c"], Y),
    }
    assert len(prints) == 7
    assert fingerprint(X, Y) == fingerprint(X, Y.astype(np.int8))


def test_descriptions_are_of_values():
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    def of(value):
        return described(value, "it")

    assert of(OneVsRestClassifier(LogisticRegression(C=2))) == of(OneVsRestClassifier(LogisticRegression(C=2)))
    assert of(OneVsRestClassifier(LogisticRegression(C=2))) != of(OneVsRestClassifier(LogisticRegression(C=3)))
    assert of(np.arange(3.0)) != of(np.arange(1, 4.0))
    assert of({"a": (1, None)}) == of({"a": [np.int64(1), None]})
    assert of(1) == of(1.0) == of(np.float64(1)) != of("1")
    assert of(1) != of(1.5)
    assert of(np.linalg.norm) != of(np.linalg.det)
    with pytest.raises(ValueError, match=r"it\[1\] is <object object"):
        of([1, object()])


def test_fingerprints_of_many_blocks(monkeypatch):
    monkeypatch.setattr(_dataset, "_CELLS", 12)
    monkeypatch.setattr(_dataset, "_LEAST_ROWS", 3)
    X = np.where(np.random.default_rng(0).random((20, 4)) < 0.5, 0.0, np.arange(80.0).reshape(20, 4))
    Y = (X[:, :2] > 30.0).astype(int)
    assert fingerprint(X, Y) == fingerprint(sp.csr_array(X), sp.csc_array(Y)) == fingerprint(sp.coo_array(X), Y)
    moved = X[[1, 0, *range(2, 20)]]
    assert len({fingerprint(X, Y), fingerprint(moved, Y), fingerprint(X[:-1], Y[:-1]), fingerprint(X, Y[::-1])}) == 4
