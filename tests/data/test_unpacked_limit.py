"""What a compressed file may become is bounded, whatever its size, and the bound can be raised."""

import gzip

import pytest

from comargin.data import DataFormatError, read


@pytest.fixture
def packed(tmp_path):
    path = tmp_path / "rows.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("x,y\n" + "1.5,1\n0.25,0\n" * 500)
    return path


def test_the_limit_holds_for_files_that_expand_little(packed, monkeypatch):
    monkeypatch.setenv("COMARGIN_MAX_UNPACKED", "1000")
    with pytest.raises(DataFormatError, match=r"expands to more than 1000 bytes: .*COMARGIN_MAX_UNPACKED \(now 1000\)"):
        read(packed, labels=-1)
    monkeypatch.setenv("COMARGIN_MAX_UNPACKED", "100000")
    assert read(packed, labels=-1).Y.shape == (1000, 1)


@pytest.mark.parametrize("value", ["", "-1", "0", "2 GB"])
def test_a_limit_that_is_no_number_is_refused(packed, monkeypatch, value):
    monkeypatch.setenv("COMARGIN_MAX_UNPACKED", value)
    with pytest.raises(ValueError, match="COMARGIN_MAX_UNPACKED must be a whole number of bytes"):
        read(packed, labels=-1)
