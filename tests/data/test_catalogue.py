"""Data sets by name: the published ones with their shapes, folders of one's own, OpenML, ways to fail."""

import gzip
import io
import pickle
import shutil
import urllib.error
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
import sklearn.datasets
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.utils import Bunch

from comargin.data._dataset import DataFormatError, Dataset
from comargin.data.catalogue import (
    ClassSignatures,
    DatasetInfo,
    DatasetUnavailableError,
    list_datasets,
    load,
    load_signatures,
)
from comargin.data.formats import read

# name: n, d, L, labels per row, train, test, sparse
PUBLISHED = {
    "bibtex": (7395, 1836, 159, 2.402, 4880, 2515, True),
    "delicious": (16105, 500, 983, 19.02, 12920, 3185, True),
    "emotions": (593, 72, 6, 1.868, 391, 202, False),
    "enron": (1702, 1001, 53, 3.378, 1123, 579, True),
    "flags": (194, 19, 7, 3.392, 129, 65, False),
    "genbase": (662, 1185, 27, 1.252, 463, 199, False),
    "yeast": (2417, 103, 14, 4.237, 1500, 917, False),
    "cal500": (502, 68, 174, 26.044, None, None, False),
    "scene": (2407, 294, 6, 1.074, 1211, 1196, False),
    "corel5k": (5000, 499, 374, 3.522, 4500, 500, True),
    "tmc2007-500": (28596, 500, 22, 2.158, 21519, 7077, True),
    "mediamill_small": (2500, 120, 101, 4.353, None, None, False),
    "plant": (978, 440, 12, 1.079, None, None, True),
    "rcv1subset1": (6000, 500, 101, 2.88, None, None, True),
}

ARFF = (
    "@relation {name}\n@attribute x numeric\n@attribute y numeric\n"
    "@attribute cat {{0,1}}\n@attribute dog {{0,1}}\n@data\n"
)
XML = '<labels xmlns="http://mulan.sourceforge.net/labels"><label name="cat"/><label name="dog"/></labels>'


def write_set(folder, *, rows=None, train=None, test=None, name=None):
    folder.mkdir(parents=True, exist_ok=True)
    name = name or folder.name
    (folder / f"{name}.xml").write_text(XML)
    for suffix, lines in (("", rows), ("-train", train), ("-test", test)):
        if lines is not None:
            (folder / f"{name}{suffix}.arff").write_text(ARFF.format(name=name) + "\n".join(lines) + "\n")


@pytest.fixture(autouse=True)
def no_home_of_the_user(monkeypatch, tmp_path, request):
    """Without an explicit data folder the tests look into an empty one."""
    if "data_home" not in request.fixturenames:
        monkeypatch.setenv("COMARGIN_DATA", str(tmp_path / "home"))


@pytest.fixture
def no_network(monkeypatch):
    def refuse(**_):
        raise urllib.error.URLError("Name or service not known")

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", refuse)


# ---- the published sets


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_sets_have_their_shapes(name, data_home):
    n, d, L, cardinality, n_train, n_test, sparse = PUBLISHED[name]
    if not (data_home / name).is_dir():
        pytest.skip(f"{name} is not in {data_home}")
    data = load(name, data_home=data_home)
    assert data.name == name
    assert data.X.shape == (n, d)
    assert data.Y.shape == (n, L)
    assert data.Y.dtype == np.int32
    assert data.X.dtype == np.float64
    assert sp.issparse(data.X) == sparse
    assert data.Y.sum() / n == pytest.approx(cardinality, abs=5e-4)
    assert len(data.feature_names) == d
    assert len(set(data.label_names)) == L
    assert set(np.unique(data.Y.toarray() if sp.issparse(data.Y) else data.Y)) == {0, 1}
    if n_train is None:
        with pytest.raises(ValueError, match=f"split='train': {name} has no published train/test split"):
            load(name, "train", data_home=data_home)
        return
    train, test = (load(name, side, data_home=data_home) for side in ("train", "test"))
    for part, rows in ((train, n_train), (test, n_test)):
        assert part.X.shape == (rows, d)
        assert part.Y.shape == (rows, L)
        assert part.label_names == data.label_names
        assert part.feature_names == data.feature_names
    # The same rows on both ways, whatever their order: sums of all columns agree. Except for genbase, whose
    # published train and test files have protein Q9XEL8 twice and lack O88658.
    strays = 1 if name == "genbase" else 1e-6
    for whole, first, second in ((data.X, train.X, test.X), (data.Y, train.Y, test.Y)):
        sums = first.sum(axis=0) + second.sum(axis=0)
        assert_allclose(whole.sum(axis=0), sums, rtol=1e-6, atol=strays)


def test_the_traps_of_the_published_sets(data_home):
    if not all((data_home / name).is_dir() for name in ("scene", "genbase", "corel5k", "enron", "delicious")):
        pytest.skip(f"some of the sets are not in {data_home}")
    scene, train = load("scene", data_home=data_home), load("scene", "train", data_home=data_home)
    assert_array_equal(scene.X[:1211], train.X)
    assert "protein" not in load("genbase", data_home=data_home).feature_names
    without = {
        name: int(np.sum(load(name, "train", data_home=data_home).Y.sum(axis=0) == 0))
        for name in ("corel5k", "genbase", "enron")
    }
    assert without == {"corel5k": 3, "genbase": 2, "enron": 1}
    assert any("'" in name for name in load("delicious", data_home=data_home).label_names)


def test_the_catalogue_says_what_the_files_say(data_home):
    infos = {info.name: info for info in list_datasets(data_home)}
    for name, (n, d, L, cardinality, n_train, n_test, _) in PUBLISHED.items():
        info = infos[name]
        assert (info.n_samples, info.n_features, info.n_labels) == (n, d, L)
        assert (info.n_train, info.n_test) == (n_train, n_test)
        assert info.labels_per_row == pytest.approx(cardinality)
        if (data_home / name).is_dir():
            assert info.where == str(data_home / name)


def test_awa(data_home):
    if not (data_home / "awa").is_dir():
        pytest.skip(f"awa is not in {data_home}")
    awa = load_signatures("awa", data_home=data_home)
    assert isinstance(awa, ClassSignatures)
    assert awa.signatures.shape == (50, 85)
    assert awa.signatures.dtype == np.int32
    assert awa.signatures.sum() / 50 == pytest.approx(31.24)
    assert awa.class_names[:2] == ("antelope", "grizzly+bear")
    assert awa.label_names[:2] == ("black", "white")
    assert (len(awa.train_classes), len(awa.test_classes)) == (40, 10)
    assert sorted([*awa.train_classes, *awa.test_classes]) == list(range(50))
    assert "chimpanzee" in {awa.class_names[i] for i in awa.test_classes}
    with pytest.raises(ValueError, match=r"load_signatures\('awa'\)"):
        load("awa", data_home=data_home)


# ---- digits


def test_digits_is_built_in_and_splits_without_a_file():
    digits = load("digits")
    assert isinstance(digits, Dataset)
    assert digits.X.shape == (1797, 64)
    assert digits.Y.shape == (1797, 7)
    assert digits.Y.dtype == np.int32
    assert digits.label_names == tuple("abcdefg")
    assert digits.extra["class_names"] == tuple("0123456789")
    raw = sklearn.datasets.load_digits()
    assert_array_equal(digits.X, raw.data)
    assert_array_equal(digits.extra["y"], raw.target)
    train, test = load("digits", "train"), load("DIGITS", "test")
    assert_array_equal(np.vstack([train.X, test.X]), digits.X)
    assert_array_equal(np.vstack([train.Y, test.Y]), digits.Y)
    assert_array_equal(np.concatenate([train.extra["y"], test.extra["y"]]), digits.extra["y"])
    assert (len(train.X), len(test.X)) == (1347, 450)
    assert np.bincount(test.extra["y"]).min() > 35


def test_digits_segments():
    """The picture of a display, drawn from the signatures, is the usual one."""
    digits = load("digits")
    signatures = digits.extra["signatures"]
    assert signatures.shape == (10, 7)
    assert signatures.dtype == np.int32
    assert len(np.unique(signatures, axis=0)) == 10
    assert signatures.sum(axis=1).tolist() == [6, 2, 5, 5, 4, 5, 6, 3, 7, 6]
    drawn = [
        "".join(" _"[s[0]] + "\n" + " |"[s[5]] + " _"[s[6]] + " |"[s[1]] + "\n" + " |"[s[4]] + " _"[s[3]] + " |"[s[2]])
        for s in signatures
    ]
    assert drawn[4] == " \n|_|\n  |"
    assert drawn[2] == "_\n _|\n|_ "
    assert drawn[5] == "_\n|_ \n _|"
    assert drawn[9] == "_\n|_|\n _|"
    assert_array_equal(digits.Y, signatures[digits.extra["y"]])


# ---- folders of one's own


def test_a_folder_with_arff_and_xml_is_loadable_by_its_name(tmp_path):
    write_set(
        tmp_path / "mine",
        rows=["1,2,0,1", "3,4,1,0", "5,6,1,1"],
        train=["1,2,0,1"],
        test=["3,4,1,0", "5,6,1,1"],
    )
    data = load("mine", data_home=tmp_path)
    assert data.name == "mine"
    assert data.label_names == ("cat", "dog")
    assert_array_equal(data.X, [[1, 2], [3, 4], [5, 6]])
    assert_array_equal(data.Y, [[0, 1], [1, 0], [1, 1]])
    assert_array_equal(load("mine", "train", data_home=str(tmp_path)).X, [[1, 2]])
    assert_array_equal(load("mine", "test", data_home=tmp_path).X, [[3, 4], [5, 6]])
    assert [info for info in list_datasets(tmp_path) if info.name == "mine"] == [
        DatasetInfo("mine", where=str(tmp_path / "mine"))
    ]


def test_without_a_union_all_is_train_then_test(tmp_path):
    write_set(tmp_path / "mine", train=["5,6,1,1"], test=["1,2,0,1", "3,4,1,0"])
    data = load("mine", data_home=tmp_path)
    assert_array_equal(data.X, [[5, 6], [1, 2], [3, 4]])
    assert_array_equal(data.Y, [[1, 1], [0, 1], [1, 0]])
    assert data.extra == {}


def test_sparse_parts_stay_sparse(tmp_path):
    write_set(tmp_path / "mine", train=["{0 5, 3 1}"], test=["{1 2}", "{2 1}"])
    data = load("mine", data_home=tmp_path)
    assert isinstance(data.X, sp.csr_array)
    assert isinstance(data.Y, sp.csr_array)
    assert_array_equal(data.X.toarray(), [[5, 0], [0, 2], [0, 0]])
    assert_array_equal(data.Y.toarray(), [[0, 1], [0, 0], [1, 0]])


def test_train_and_test_with_other_columns_are_refused(tmp_path):
    write_set(tmp_path / "mine", train=["5,6,1,1"], test=["1,2,0,1"])
    path = tmp_path / "mine" / "mine-test.arff"
    path.write_text(path.read_text().replace("@attribute y", "@attribute z"))
    with pytest.raises(DataFormatError, match=r"mine-test\.arff: does not have the columns of mine-train\.arff"):
        load("mine", data_home=tmp_path)


def test_one_file_of_another_format(tmp_path):
    (tmp_path / "table").mkdir()
    (tmp_path / "table" / "data.csv").write_text("x,label:a,label:b\n1,0,1\n2,1,0\n")
    (tmp_path / "table" / "README.txt").write_text("about the table\n")
    data = load("table", data_home=tmp_path)
    assert_array_equal(data.Y, [[0, 1], [1, 0]])
    assert data.name == "table"


def test_gzipped_files_are_found(tmp_path):
    write_set(tmp_path / "mine", rows=["1,2,0,1"])
    path = tmp_path / "mine" / "mine.arff"
    path.with_name("mine.arff.gz").write_bytes(gzip.compress(path.read_bytes()))
    path.unlink()
    assert load("mine", data_home=tmp_path).X.shape == (1, 2)


def test_the_file_named_like_the_folder_wins(tmp_path):
    write_set(tmp_path / "mine", rows=["1,2,0,1"])
    shutil.copy(tmp_path / "mine" / "mine.arff", tmp_path / "mine" / "mine-reduced.arff")
    assert load("mine", data_home=tmp_path).X.shape == (1, 2)


def test_a_folder_without_one_clear_file_is_an_error(tmp_path):
    write_set(tmp_path / "mine", rows=["1,2,0,1"], name="one")
    shutil.copy(tmp_path / "mine" / "one.arff", tmp_path / "mine" / "two.arff")
    (tmp_path / "empty").mkdir()
    for name in ("mine", "empty"):
        with pytest.raises(ValueError, match=f"name '{name}': .* does not have one data file"):
            load(name, data_home=tmp_path)
        assert name not in {info.name for info in list_datasets(tmp_path)}


@pytest.mark.parametrize("split", ["train", "test"])
def test_a_split_that_is_not_there_is_an_error(tmp_path, split):
    write_set(tmp_path / "mine", rows=["1,2,0,1"])
    with pytest.raises(ValueError, match=f"split='{split}': mine has no published train/test split"):
        load("mine", split, data_home=tmp_path)


def test_half_a_split_is_not_the_whole(tmp_path):
    write_set(tmp_path / "mine", train=["1,2,0,1"])
    with pytest.raises(ValueError, match="split='all': mine has only its train part"):
        load("mine", data_home=tmp_path)
    assert load("mine", "train", data_home=tmp_path).X.shape == (1, 2)


def test_validation_rows_are_a_part_and_not_the_whole(tmp_path):
    write_set(tmp_path / "mine", train=["5,6,1,1"], test=["1,2,0,1"])
    shutil.copy(tmp_path / "mine" / "mine-test.arff", tmp_path / "mine" / "mine-valid.arff")
    (tmp_path / "mine" / "mine-valid.xml").write_text(XML)
    assert load("mine", data_home=tmp_path).X.tolist() == [[5, 6], [1, 2], [1, 2]]
    (tmp_path / "mine" / "mine-train.arff").unlink()
    with pytest.raises(ValueError, match="has only its"):
        load("mine", data_home=tmp_path)


def test_arguments_about_reading_are_for_sets_of_files(tmp_path):
    write_set(tmp_path / "mine", rows=["1,?,0,1", "3,4,1,0"])
    assert_array_equal(load("mine", data_home=tmp_path, format="mulan", missing="zero").X, [[1, 0], [3, 4]])
    with pytest.raises(ValueError, match="format= only says how to read a file, and digits is none here"):
        load("digits", format="csv")


def test_a_broken_file_is_an_error_with_file_and_line(tmp_path):
    write_set(tmp_path / "mine", rows=["1,2,0,1", "1,oops,0,1"])
    with pytest.raises(DataFormatError, match=r"mine\.arff:\d+: "):
        load("mine", data_home=tmp_path)


def test_a_known_name_in_the_folder_goes_before_openml(tmp_path, no_network):
    write_set(tmp_path / "emotions", rows=["1,2,0,1"])
    assert load("Emotions", data_home=tmp_path).X.shape == (1, 2)


def test_where_the_data_folder_is(tmp_path, monkeypatch):
    write_set(tmp_path / "environment" / "mine", rows=["1,2,0,1"])
    write_set(tmp_path / "user" / ".cache" / "comargin" / "mine", rows=["1,2,0,1", "3,4,1,0"])
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("COMARGIN_DATA", str(tmp_path / "environment"))
    assert load("mine").X.shape == (1, 2)
    monkeypatch.setenv("COMARGIN_DATA", "")
    assert load("mine").X.shape == (2, 2)
    monkeypatch.delenv("COMARGIN_DATA")
    assert load("mine").X.shape == (2, 2)
    write_set(tmp_path / "user" / "data" / "mine", rows=["1,2,0,1"] * 3)
    assert load("mine", data_home="~/data").X.shape == (3, 2)


# ---- names


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("emotion", "did you mean emotions"),
        ("Yeats", "did you mean yeast"),
        ("qqqq", "known are awa, bibtex"),
        ("min", "mine"),
    ],
)
def test_unknown_names_get_near_ones(tmp_path, name, hint):
    write_set(tmp_path / "mine", rows=["1,2,0,1"])
    with pytest.raises(ValueError, match=f"name '{name}' is neither a known data set nor a folder of .*: .*{hint}"):
        load(name, data_home=tmp_path)


@pytest.mark.parametrize("name", ["../mine", "mine/..", "", "/tmp", "."])
def test_a_name_is_no_path(tmp_path, name):
    write_set(tmp_path / "mine", rows=["1,2,0,1"])
    with pytest.raises(ValueError, match="is neither a known data set"):
        load(name, data_home=tmp_path / "mine")


def test_bad_arguments():
    with pytest.raises(ValueError, match="split must be one of all, train, test, got 'validation'"):
        load("digits", "validation")
    with pytest.raises(ValueError, match="name must be a string, got 3"):
        load(3)


def test_list_without_any_folder(tmp_path):
    infos = {info.name: info for info in list_datasets(tmp_path / "nowhere")}
    assert list(infos) == sorted(infos)
    assert infos["digits"].where == "built in"
    assert infos["yeast"].where == "OpenML"
    assert infos["bibtex"].where is None
    assert infos["awa"].signatures_only


# ---- OpenML


def openml_bunch(**changes):
    """What scikit-learn returns for a multi-label set, as_frame=False."""
    bunch = Bunch(
        data=np.array([[0.5, 0.0, 1.0, 2.0], [1.5, 1.0, 0.0, 0.0]]),
        target=np.array([["TRUE", "FALSE"], ["FALSE", "FALSE"]], dtype=object),
        feature_names=["loud", "hit", "digit", "key"],
        target_names=["happy.pleased", "sad.lonely"],
        categories={"hit": ["YES", "NO"], "digit": ["3", "7"], "key": ["C", "D", "E"]},
        details={"name": "emotions"},
    )
    bunch.update(changes)
    return bunch


@pytest.fixture
def openml(monkeypatch):
    calls = []

    def answer(with_bunch):
        def fetch_openml(**arguments):
            calls.append(arguments)
            return with_bunch

        monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)
        return calls

    return answer


def test_openml_is_asked_by_number_and_its_columns_become_numbers(openml):
    calls = openml(openml_bunch())
    data = load("emotions")
    assert [(c["data_id"], c["as_frame"]) for c in calls] == [(40589, False)]
    assert data.feature_names == ("loud", "hit", "digit", "key=C", "key=D", "key=E")
    assert_array_equal(data.X, [[0.5, 1, 7, 0, 0, 1], [1.5, 0, 3, 1, 0, 0]])
    assert_array_equal(data.Y, [[1, 0], [0, 0]])
    assert data.Y.dtype == np.int32
    assert data.label_names == ("happy.pleased", "sad.lonely")
    assert data.name == "emotions"


@pytest.mark.parametrize(
    "values",
    [
        ["on", "off"],
        ["present", "absent"],
        ["T", "F"],
        ["b", "a"],
        ["1e1", "2"],
        ["3", "inf"],
        ["1_0", "2"],
        ["x", "y", "z"],
    ],
)
def test_openml_codes_are_those_of_read(openml, tmp_path, values):
    """The same attribute, fetched and in a file."""
    n = len(values)
    bunch = openml_bunch(
        data=np.arange(n, dtype=float)[:, None],
        feature_names=["v"],
        categories={"v": values},
        target=np.full((n, 1), "on", dtype=object),
        target_names=["l"],
    )
    openml(bunch)
    fetched = load("emotions")
    path = tmp_path / "a.arff"
    rows = "".join(f"{value},1\n" for value in values)
    path.write_text(f"@relation 'r: -C -1'\n@attribute v {{{','.join(values)}}}\n@attribute l {{0,1}}\n@data\n{rows}")
    local = read(path)
    assert fetched.feature_names == local.feature_names
    assert_array_equal(fetched.X, local.X)
    assert_array_equal(fetched.Y, local.Y)


def test_openml_sparse_features_stay_sparse_and_ids_are_dropped(openml):
    openml(openml_bunch(data=sp.csr_matrix([[0.0, 1, 0, 0], [2, 0, 0, 0]]), categories={}))
    data = load("emotions")
    assert isinstance(data.X, sp.csr_array)
    assert_array_equal(data.X.toarray(), [[0, 1, 0, 0], [2, 0, 0, 0]])
    bunch = openml_bunch(details={"name": "genbase"}, feature_names=["protein", "a", "b", "c"], categories={})
    openml(bunch)
    data = load("genbase")
    assert data.feature_names == ("a", "b", "c")
    assert_array_equal(data.X, bunch.data[:, 1:])


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"details": {"name": "iris"}}, "is named 'iris', expected 'emotions'"),
        ({"target": np.array(["TRUE", "FALSE"], dtype=object)}, "has one target"),
        ({"target": np.array([["TRUE", "maybe"], ["FALSE", "FALSE"]], dtype=object)}, "label value 'maybe'"),
        ({"data": np.array([[0.5, 0.0, 1.0, np.nan], [1.5, 1.0, 0.0, 0.0]])}, "missing or infinite"),
    ],
)
def test_what_openml_may_get_wrong(openml, changes, reason):
    openml(openml_bunch(**changes))
    with pytest.raises(DataFormatError, match=f"OpenML data set 40589: .*{reason}"):
        load("emotions")


def test_no_network_says_where_it_looked_and_what_to_do(tmp_path, no_network):
    with pytest.raises(DatasetUnavailableError) as caught:
        load("yeast", data_home=tmp_path)
    message = str(caught.value)
    for part in (
        "'yeast'",
        str(tmp_path),
        "Name or service not known",
        str(tmp_path / "yeast"),
        "$COMARGIN_DATA",
    ):
        assert part in message
    assert isinstance(caught.value, OSError)
    assert isinstance(caught.value.__cause__, urllib.error.URLError)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == message


def test_the_warnings_of_a_failed_download_are_not_shown(tmp_path, monkeypatch):
    """Through scikit-learn's own retries, which warn (and warnings are errors here)."""

    def urlopen(*_, **__):
        raise urllib.error.URLError("no route")

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    with pytest.raises(DatasetUnavailableError, match="no route"):
        load("slashdot", data_home=tmp_path)


def test_emotions_as_openml_sends_it(tmp_path, monkeypatch):
    """The answers of OpenML that scikit-learn keeps for its own tests, through scikit-learn's own parser."""
    answers = Path(sklearn.datasets.__file__).parent / "tests" / "data" / "openml" / "id_40589"
    if not answers.is_dir():
        pytest.skip("scikit-learn is installed without its test data")

    class Response(io.BytesIO):
        def info(self):
            return {"Content-Encoding": "gzip"}

    def urlopen(request, *_, **__):
        url = request.full_url
        kind = "jdf" if "features" in url else "jdq" if "qualities" in url else "jd" if "json/data/" in url else None
        pattern = "data-*.arff.gz" if kind is None else f"api-*-{kind}-40589.json.gz"
        return Response(next(answers.glob(pattern)).read_bytes())

    monkeypatch.setattr("sklearn.datasets._openml.urlopen", urlopen)
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    data = load("emotions", data_home=tmp_path)
    assert data.X.shape[1] == 72
    assert data.label_names[0].startswith("amazed")
    assert len(data.label_names) == 6
    assert data.Y.sum() > 0
    assert data.Y.shape == (data.X.shape[0], 6)


def test_a_set_openml_does_not_have(tmp_path):
    with pytest.raises(DatasetUnavailableError, match=r"'bibtex' is not in .*it is not on OpenML"):
        load("bibtex", data_home=tmp_path)
    with pytest.raises(ValueError, match="cal500 has no published train/test split"):
        load("cal500", "test", data_home=tmp_path)


def test_openml_has_no_split(tmp_path):
    with pytest.raises(DatasetUnavailableError, match="without a train/test split"):
        load("scene", "train", data_home=tmp_path)
    with pytest.raises(ValueError, match="birds has no published train/test split"):
        load("birds", "train", data_home=tmp_path)


# ---- signatures


def write_signatures(folder):
    folder.mkdir()
    (folder / "classes.txt").write_text("     1\tcat\n     2\tdog\n     3\tcow\n")
    (folder / "predicates.txt").write_text("1\tpaws\n2\tmeows\n")
    (folder / "predicate-matrix-binary.txt").write_text("1 1\n1 0\n0 0\n")
    (folder / "trainclasses.txt").write_text("cow\ncat\n")
    (folder / "testclasses.txt").write_text("dog\n")


def test_signatures_of_a_folder(tmp_path):
    write_signatures(tmp_path / "pets")
    pets = load_signatures("pets", data_home=tmp_path)
    assert pets.class_names == ("cat", "dog", "cow")
    assert pets.label_names == ("paws", "meows")
    assert_array_equal(pets.signatures, [[1, 1], [1, 0], [0, 0]])
    assert pets.train_classes.tolist() == [2, 0]
    assert pets.test_classes.tolist() == [1]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("predicate-matrix-binary.txt", "1 1\n1 0\n", r"has 2 rows for 3 classes"),
        (
            "predicate-matrix-binary.txt",
            "1 1\n1 0 1\n0 0\n",
            r"binary\.txt:2: expected 2 entries, each 0 or 1",
        ),
        ("predicate-matrix-binary.txt", "1 1\n1 2\n0 0\n", r"binary\.txt:2: expected 2 entries"),
        ("classes.txt", "1 cat\n3 dog\n2 cow\n", r"classes\.txt:2: expected '2 name'"),
        ("classes.txt", "1 cat\n2 cat\n3 cow\n", "has a name twice"),
        ("classes.txt", "", "has no names"),
        ("testclasses.txt", "dog\nbird\n", r"testclasses\.txt:2: 'bird' is not in classes\.txt"),
        ("trainclasses.txt", None, r"trainclasses\.txt: is missing"),
        ("predicates.txt", b"\xff\xfe\x00", r"predicates\.txt: is not text"),
    ],
)
def test_broken_signatures(tmp_path, file, text, message):
    write_signatures(tmp_path / "pets")
    path = tmp_path / "pets" / file
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataFormatError, match=message):
        load_signatures("pets", data_home=tmp_path)


def test_signatures_that_are_not_there(tmp_path):
    with pytest.raises(DatasetUnavailableError, match="'awa' is not in"):
        load_signatures(data_home=tmp_path)
    with pytest.raises(ValueError, match="is neither a known data set"):
        load_signatures("nothing", data_home=tmp_path)
