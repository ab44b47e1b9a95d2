"""Places that cannot be written to are refused before there is any work."""

import os
from pathlib import Path

import pytest

from comargin.cli._console import check_target


def test_good_places_pass_and_nothing_is_left(tmp_path):
    check_target("-o", tmp_path / "a.csv", "b.csv")
    check_target("-o", tmp_path / "new" / "folder" / "a.csv", "b.csv")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_proposes_a_file_in_it(tmp_path):
    with pytest.raises(ValueError, match=r"-o .* is a folder; name the file to write, such as .*b.csv"):
        check_target("-o", tmp_path, "b.csv")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match=r"-o .*a.csv: nothing can be written into .*file \(Not a directory\)"):
        check_target("-o", tmp_path / "file" / "a.csv", "b.csv")


def test_a_device_is_not_replaced():
    with pytest.raises(ValueError, match="--csv /dev/null is a device or a pipe; name a file"):
        check_target("--csv", Path(os.devnull), "b.csv")
