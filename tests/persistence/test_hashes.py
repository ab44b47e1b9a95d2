"""A model file identifies its contents: what was changed after it was written is refused."""

import zipfile

import numpy as np
import pytest
from saved_models import read_members, write_members

from comargin import M3LClassifier
from comargin.persistence import ModelFileError, inspect, load, save
from comargin.training import Tagger


@pytest.fixture
def file(tmp_path):
    X, Y = [[0.0, 1.0], [1.0, 0.0]], [[0, 1], [1, 0]]
    return save(M3LClassifier(random_state=0).fit(X, Y), tmp_path / "model.cmg", meta={"labels": ["sea", "sky"]})


def rewritten(file, change):
    """The file with one member changed, and right checksums of the zip file."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    target = file.with_name("changed.cmg")
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, change(name, data))
    return target


def with_a_number_changed(file):
    return rewritten(file, lambda name, data: data[:-1] + bytes([data[-1] ^ 1]) if name.endswith("/0.npy") else data)


def test_a_changed_array_is_refused(file):
    changed = with_a_number_changed(file)
    with pytest.raises(ModelFileError, match=r"arrays/0.npy: was changed after it was written: its SHA-256 differs"):
        load(changed)
    with pytest.raises(ModelFileError, match="SHA-256 differs"):
        inspect(changed, verify=True)
    load(changed, verify=False)


def test_a_changed_document_is_refused(file):
    changed = rewritten(file, lambda name, data: data.replace(b'"sea"', b'"tea"'))
    for read in (load, inspect):
        with pytest.raises(ModelFileError, match=r"model.json: was changed after it was written"):
            read(changed)
    load(changed, verify=False)


@pytest.mark.parametrize("own", [b'"sha256":3', b'"sha256":"abc"', b'"sha256":null'])
def test_a_hash_that_is_none_is_refused(file, own):
    real = f'"sha256":"{inspect(file)["sha256"]}"'.encode()
    with pytest.raises(ModelFileError, match="SHA-256 differs"):
        load(rewritten(file, lambda name, data: data.replace(real, own)))


def test_the_expected_hash(file, tmp_path):
    own = inspect(file)["sha256"]
    assert np.array_equal(load(file, expect_hash=own.upper()).coef_, load(file).coef_)
    assert Tagger.load(file, expect_hash=own).label_names
    for read in (load, inspect):
        with pytest.raises(ModelFileError, match=f"has the SHA-256 {own}, not the expected abc"):
            read(file, expect_hash="abc")
    with pytest.raises(ModelFileError, match="SHA-256 differs"):  # asked for, whatever verify says
        load(with_a_number_changed(file), expect_hash=own, verify=False)


def test_the_hash_is_that_of_the_contents(file, tmp_path):
    model = load(file)
    again = save(model, tmp_path / "again.cmg", meta={"labels": ["sea", "sky"]})
    assert inspect(again)["sha256"] == inspect(file)["sha256"]
    model.coef_[0, 0] += 1.0
    assert inspect(save(model, again))["sha256"] != inspect(file)["sha256"]


def test_files_without_a_hash_load(file, tmp_path):
    old = write_members(tmp_path / "old.cmg", *read_members(file))
    assert np.array_equal(load(old).coef_, load(file).coef_)
    assert inspect(old)["sha256"] is None
    with pytest.raises(ModelFileError, match="has no SHA-256, not the expected"):
        load(old, expect_hash="abc")


def test_a_file_that_is_there_twice_is_refused(file):
    file.write_bytes(2 * file.read_bytes())
    for read in (load, inspect):
        with pytest.raises(ModelFileError, match="something stands before it"):
            read(file)
