"""A new file format is one entry of the table."""

from pathlib import Path

import numpy as np
import pytest

from comargin.cli import _options
from comargin.data import Dataset, convert, detect_format, read, stream, write
from comargin.data.chunks import Part, Rows
from comargin.data.format_table import FORMATS, TABLE, Format


class PairRows(Rows):
    feature_names, label_names = ("x0",), ("y0",)

    def __init__(self, source, wanted):
        self.source = source

    def parts(self):
        self.source.readline()
        for line in self.source.lines():
            x, y = line.split("|")
            yield Part(np.array([[float(x)]]), np.array([[float(y)]]))


def write_pairs(dataset, path, files):
    rows = zip(dataset.X.ravel(), dataset.Y.ravel(), strict=True)
    files.open(path).write("pairs\n" + "".join(f"{x}|{y}\n" for x, y in rows))


@pytest.fixture
def pairs(monkeypatch):
    entry = Format(
        PairRows,
        write_pairs,
        read_options=frozenset({"encoding"}),
        suffixes=(".pairs",),
        is_first_line=lambda line: line == "pairs",
    )
    monkeypatch.setitem(TABLE, "pairs", entry)


@pytest.mark.usefixtures("pairs")
def test_an_entry_of_the_table_is_read_written_streamed_and_detected(tmp_path):
    data = Dataset(np.array([[0.5], [2.0]]), np.array([[1], [0]], dtype=np.int32), ("x0",), ("y0",), "tiny")
    (path,) = write(data, tmp_path / "tiny.pairs")
    (tmp_path / "tiny.dat").write_bytes(path.read_bytes())
    assert detect_format(path) == detect_format(tmp_path / "tiny.dat") == "pairs"
    again = read(path)
    assert (again.X.tolist(), again.Y.tolist(), again.name) == ([[0.5], [2.0]], [[1], [0]], "tiny")
    assert [chunk.X.tolist() for chunk in stream(path)] == [[[0.5], [2.0]]]
    assert convert(path, tmp_path / "tiny.csv").X.tolist() == read(tmp_path / "tiny.csv").X.tolist()
    with pytest.raises(ValueError, match="drop= means nothing to format 'pairs'; it takes encoding"):
        read(path, drop=["x0"])
    with pytest.raises(ValueError, match="format='pairs': texts go into 'csv', 'text-csv', 'jsonl' or 'parquet'"):
        write(Dataset(["a", "b"], data.Y, (), ("y0",), ""), path)


def test_suffixes_belong_to_one_format_each():
    suffixes = [suffix for name in FORMATS for suffix in TABLE[name].suffixes]
    assert len(set(suffixes)) == len(suffixes)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_described(name):
    page = Path(__file__).parents[2] / "docs" / "formats.md"
    assert f'"{name}"' in read.__doc__
    assert f"`{name}`" in page.read_text(encoding="utf-8")
    assert name in _options._OF_FILES["format"]
