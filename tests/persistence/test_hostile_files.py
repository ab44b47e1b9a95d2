"""Whatever is in a file: one error with path and reason, or a model that can be used; never code, never a crash."""

import contextlib
import copy
import io
import itertools
import json
import struct
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest
from saved_models import LEARNERS, TAGS, TEXTS, VECTORIZERS, X, Y, read_members, tagger, write_members
from sklearn.base import clone

from comargin.persistence import ModelFileError, inspect, load, load_meta, save
from comargin.persistence._archive import MAX_JSON

FUZZED = (
    "m3l smo",
    "m3l rbf",
    "structured, a clique",
    "rank-svm",
    "lsg21",
    "zero-shot",
    "scaled",
    "threshold per-label",
    "forest",
    "knn",
    "ovr-rbf",
    "chain",
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    models = {name: clone(LEARNERS[name]).fit(X, Y) for name in FUZZED}
    models["texts"] = tagger(VECTORIZERS["tfidf"]).fit(TEXTS, TAGS)
    return {name: save(model, folder / f"{k}.cmg") for k, (name, model) in enumerate(models.items())}


def load_and_use(path, rows):
    """Load, use what comes, and tell whether something came. Only a ModelFileError may come from loading."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overflow of hostile weights
        with contextlib.suppress(ModelFileError):
            model = load(path, max_size=1 << 26)
            # An estimator may refuse its parameters, and must not crash.
            with contextlib.suppress(ValueError, TypeError, AttributeError, LookupError, OverflowError, RuntimeError):
                model.predict(rows)
            return True
    return False


def npy(array, version=(1, 0)):
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version, allow_pickle=True)
    return stream.getvalue()


def header(text, data=b""):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin-1") + data


@pytest.mark.parametrize("name", ["m3l rbf", "texts"])
def test_truncated_anywhere(files, name, tmp_path):
    whole = files[name].read_bytes()
    path = tmp_path / "cut.cmg"
    for size in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(ModelFileError):
            load(path)
        with pytest.raises(ModelFileError):
            inspect(path)


@pytest.mark.parametrize("name", FUZZED)
def test_flipped_bytes(files, name, tmp_path, rng):
    whole = bytearray(files[name].read_bytes())
    path = tmp_path / "flipped.cmg"
    n_refused = 0
    for place in rng.choice(len(whole), 80, replace=False):
        changed = whole.copy()
        changed[place] ^= rng.integers(1, 256)
        path.write_bytes(changed)
        n_refused += not load_and_use(path, X)
    assert n_refused > 50


def places(node, path=()):
    """Paths of all values in a JSON document."""
    yield path
    for key, item in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        yield from places(item, (*path, key))


ODD = (None, True, -1, 0, 3, 10**18, -1.5, "", "linear", [], {}, [0], {"type": "array", "member": 0}, {"type": "tuple"},
       {"type": "float", "value": "nan"}, {"type": "list", "items": [None]}, {"type": "object", "class": "os.system"},
       {"type": "dict", "keys": [], "values": []}, {"type": "array", "member": 10**9})  # fmt: skip


@pytest.mark.parametrize("name", [*FUZZED, "texts"])
def test_wrong_values_in_the_json(files, name, tmp_path, rng):
    document, members = read_members(files[name])
    every = [place for place in places(document) if place]
    rows = TEXTS if name == "texts" else X
    n_refused = 0
    for _ in range(80):
        changed = copy.deepcopy(document)
        place = every[rng.integers(len(every))]
        parent = changed
        for key in place[:-1]:
            parent = parent[key]
        if rng.random() < 0.1 and isinstance(parent, dict):
            del parent[place[-1]]
        else:
            parent[place[-1]] = ODD[rng.integers(len(ODD))]
        path = write_members(tmp_path / "odd.cmg", changed, members)
        n_refused += not load_and_use(path, rows)
    assert n_refused > 20


@pytest.mark.parametrize("name", [*FUZZED, "texts"])
def test_wrong_numbers_in_the_arrays(files, name, tmp_path, rng):
    document, members = read_members(files[name])
    rows = TEXTS if name == "texts" else X
    for member, data in list(members.items())[:40]:  # more of them are further trees of a forest
        start = 10 + int.from_bytes(data[8:10], "little")
        size = len(data) - start
        for payload in (b"\xff" * size, b"\x01" * size, bytes(size), rng.bytes(size), b"\x7f\x00" * (size // 2)):
            changed = {**members, member: data[:start] + payload.ljust(size, b"\0")}
            load_and_use(write_members(tmp_path / "odd.cmg", document, changed), rows)
        other = rng.choice(list(members))
        load_and_use(write_members(tmp_path / "odd.cmg", document, {**members, member: members[other]}), rows)


ONE = npy(np.zeros(3))
HEADERS = {
    "objects": npy(np.array([{}], dtype=object)),
    "structured": npy(np.zeros(2, dtype=[("a", "f8")])),
    "complex": npy(np.zeros(2, dtype=complex)),
    "big-endian": npy(np.zeros(2, dtype=">f8")),
    "version 2": npy(np.zeros(2), version=(2, 0)),
    "no magic": b"x" * 128,
    "empty": b"",
    "huge shape": header("{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }\n", b"\0" * 8),
    "overflowing shape": header(
        "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }\n", b"\0" * 8
    ),
    "negative shape": header("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1), }\n", b"\0" * 8),
    "short": ONE[:-1],
    "long": ONE + b"\0",
    "code": header("{'descr': __import__('os').getcwd(), 'fortran_order': False, 'shape': (1,), }\n", b"\0" * 8),
    "dimensions": header("{'descr': '<f8', 'fortran_order': False, 'shape': (" + "1, " * 40 + "1), }\n", b"\0" * 8),
    "wide strings": header("{'descr': '<U999999', 'fortran_order': False, 'shape': (3,), }\n", b"\0" * 8),
    "no code point": header("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }\n", b"\xff" * 4),
    "no boolean": header("{'descr': '|b1', 'fortran_order': False, 'shape': (1,), }\n", b"\x02"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_arrays_that_are_none(files, case, tmp_path):
    document, members = read_members(files["m3l smo"])
    changed = {**members, "arrays/0.npy": HEADERS[case]}
    with pytest.raises(ModelFileError, match=r"arrays/0.npy|array 0"):
        load(write_members(tmp_path / "odd.cmg", document, changed))


def test_json_that_is_none(files, tmp_path):
    document, members = read_members(files["m3l smo"])
    good = json.dumps(document)
    for text, message in {
        "": "Expecting value",
        "[": "Expecting value",
        "[1]": "format number",
        good[:-2]: "Expecting|delimiter",
        good.replace('"format": 1', '"format": 2'): "reads formats up to 1: update comargin",
        good.replace('"format": 1', '"format": true'): "no format number",
        good.replace('"format": 1', '"format": 1, "format": 1'): "comes twice",
        good.replace('"format": 1', '"format": NaN'): "NaN is not finite",
        good.replace('"format": 1', '"format": 1e999'): "1e999 is not finite",
        good.replace('"format": 1', f'"format": {2**80}'): "more than 64 bits",
        good.replace('"format": 1', '"format": ' + "9" * 5000): "more than 64 bits",
        good.replace('"meta": null', '"meta": 3'): "meta is no object",
        good.replace('"meta": null', '"more": 3'): "lacks meta",
        good.replace('"meta": null', '"meta": ' + "[" * 5000 + "]" * 5000): "levels deep",
        '{"a": ' * 100_000: "levels deep",
        '"' + '\\"' * 1_000_000: "Unterminated",
        " " * (MAX_JSON + 1): "bytes, at most",
        b"\xff\xfe" + good.encode(): "utf-8",
        good.replace('"model": {"type": "object"', '"model": {"type": "list"'): "holds no model",
        good.replace('"class": "M3LClassifier"', '"class": "builtins.eval"'): "no class that is read here",
    }.items():
        path = write_members(tmp_path / "odd.cmg", text, members)
        assert text != good
        with pytest.raises(ModelFileError, match=message):
            load(path)


def test_a_parameter_that_no_longer_exists(files, tmp_path):
    document, members = read_members(files["m3l smo"])
    document["model"]["defaults"]["gone"] = 3  # what had its default is not needed
    del document["model"]["defaults"]["C"]
    assert load(write_members(tmp_path / "odd.cmg", document, members)).C == 1.0
    document["model"]["params"]["gone"] = document["model"]["defaults"].pop("gone")
    with pytest.raises(ModelFileError, match="M3LClassifier has no parameter 'gone' in the installed version"):
        load(write_members(tmp_path / "odd.cmg", document, members))


def test_attributes_that_do_not_belong(files, tmp_path):
    document, members = read_members(files["m3l smo"])
    document["model"]["state"]["predict"] = "x"
    with pytest.raises(ModelFileError, match="predict: M3LClassifier has no such attribute"):
        load(write_members(tmp_path / "odd.cmg", document, members))


def changed_zip(path, whole, offset_of, offset, data):
    """One field changed in the table of contents of the first member and in the member's own header."""
    changed = bytearray(whole)
    central = whole.index(b"PK\x01\x02")
    (local,) = struct.unpack_from("<I", whole, central + 42)
    changed[central + offset_of : central + offset_of + len(data)] = data
    if offset is not None:
        changed[local + offset : local + offset + len(data)] = data
    path.write_bytes(changed)
    return path


def test_members(files, tmp_path):
    whole = files["m3l smo"].read_bytes()
    document, members = read_members(files["m3l smo"])
    path = tmp_path / "odd.cmg"
    for extra in ("../evil", "arrays/99.npy", "arrays/00.npy", "arrays/x.npy", "MODEL.JSON", "/etc/passwd", "run.pkl"):
        with pytest.raises(ModelFileError, match=r"unknown member|lacks"):
            load(write_members(path, document, {**members, extra: b"x"}))
    with pytest.raises(ModelFileError, match="belong to nothing"):
        load(write_members(path, document, {**members, f"arrays/{len(members)}.npy": ONE}))
    with pytest.raises(ModelFileError, match="lacks"):
        load(write_members(path, document, dict(list(members.items())[1:])))
    for method in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA):
        with pytest.raises(ModelFileError, match=r"compression|not ours"):
            load(write_members(path, document, members, method))
    with pytest.raises(ModelFileError, match="is encrypted or written in a way that is not ours"):
        load(changed_zip(path, whole, 8, 6, b"\x01\x00"))
    for stored in (whole, write_members(path, document, members, zipfile.ZIP_STORED).read_bytes()):
        with pytest.raises(ModelFileError, match=r"model.json: \d+ bytes cannot be the 8000000 it declares"):
            load(changed_zip(path, stored, 24, None, struct.pack("<I", 8_000_000)))
    with pytest.raises(ModelFileError, match="CRC"):
        load(changed_zip(path, whole, 16, 14, b"abcd"))
    with pytest.raises(ModelFileError, match=r"more than the file has|cannot be"):
        load(changed_zip(path, whole, 20, None, struct.pack("<II", 1 << 30, 1 << 30)))
    with zipfile.ZipFile(path, "w") as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("model.json", "model.json"):
            archive.writestr(name, json.dumps(document))
    with pytest.raises(ModelFileError, match="twice"):
        load(path)
    for data in (b"", b"hello", b"#!/bin/sh\n" + whole, whole + b"x", b"PK\x05\x06" + bytes(18)):
        path.write_bytes(data)
        with pytest.raises(ModelFileError):
            load(path)
        with pytest.raises(ModelFileError):
            load_meta(path)


def test_a_table_of_contents_that_is_too_large(tmp_path):
    path = tmp_path / "many.cmg"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("x" * 60_000, b"")
    whole = path.read_bytes()
    (size,) = struct.unpack_from("<I", whole, len(whole) - 10)
    # the same entry again and again, and an end that counts them
    many = whole[: -22 - size] + whole[-22 - size : -22] * 80
    path.write_bytes(many + whole[-22:-14] + struct.pack("<HHII", 80, 80, size * 80, len(whole) - 22 - size) + b"\0\0")
    with pytest.raises(ModelFileError, match="table of contents has"):
        load(path)


def test_memory_is_counted_before_it_is_taken(files, tmp_path):
    document, members = read_members(files["m3l smo"])
    with pytest.raises(ModelFileError, match="more than max_size=1000"):
        load(files["m3l smo"], max_size=1000)
    bomb = header("{'descr': '<f8', 'fortran_order': False, 'shape': (8388608,), }\n", bytes(1 << 26))
    path = write_members(tmp_path / "bomb.cmg", document, {**members, "arrays/0.npy": bomb})
    del bomb
    assert path.stat().st_size < 1 << 20
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="more than max_size"):
        load(path, max_size=1 << 25)
    assert tracemalloc.get_traced_memory()[1] < 1 << 22
    tracemalloc.stop()


def test_an_array_that_is_used_again_and_again_counts_every_time(files, tmp_path):
    # A hundred graphs of one array of a megabyte would copy it a hundred times.
    document, _ = read_members(files["lsg21"])
    size = 1 << 17
    arrays = {"arrays/0.npy": npy(np.zeros(size)), "arrays/1.npy": npy(np.zeros(size, np.int32)),
              "arrays/2.npy": npy(np.r_[0, np.full(2, size)].astype(np.int32))}  # fmt: skip
    weights = {
        "type": "sparse",
        "format": "csr",
        "container": "array",
        "shape": [2, 2],
        "data": 0,
        "indices": 1,
        "indptr": 2,
    }
    graph = {"type": "object", "class": "LabelGraph", "weights": weights, "label_names": {"type": "tuple", "items": []}}
    del document["model"]["defaults"]["affinity"]
    document["model"]["params"]["affinity"] = {"type": "list", "items": [graph] * 100}
    document["model"]["state"] = {}
    path = write_members(tmp_path / "again.cmg", document, arrays)
    with pytest.raises(ModelFileError, match="more memory than max_size"):
        load(path, max_size=1 << 23)


def test_indices_out_of_range(files, tmp_path):
    """The loops of SciPy and our own do not look at bounds."""
    document, members = read_members(files["structured, a clique"])
    state = document["model"]["state"]
    weights = state["label_graph_"]["weights"]
    original = np.load(io.BytesIO(members[f"arrays/{weights['indices']}.npy"]))
    for value in (-1, 3, 2**31 - 1):
        wrong = original.copy()
        wrong[-1] = value
        changed = {**members, f"arrays/{weights['indices']}.npy": npy(wrong)}
        with pytest.raises(ModelFileError, match=r"label_graph_.weights: a sparse matrix with indices out of range"):
            load(write_members(tmp_path / "odd.cmg", document, changed))
    for clique in ([0, 1, 3], [-1, 0, 1], [1, 0, 2], [0, 0, 1], [0]):
        changed = copy.deepcopy(document)
        changed["model"]["state"]["cliques_"]["items"][0]["items"] = clique
        with pytest.raises(ModelFileError, match="cliques_"):
            load(write_members(tmp_path / "odd.cmg", changed, members))


def test_plans_of_wide_graphs_count(tmp_path):
    import comargin

    pairs = list(itertools.combinations(range(14), 2))
    labels = np.random.default_rng(0).integers(0, 2, (30, 14))
    model = comargin.StructuredSVMClassifier(alpha=1.0, graph=pairs, max_iter=100, tol=0.5).fit(X[:30, :1], labels)
    path = save(model, tmp_path / "m.cmg")
    assert model._inference_engine.width == 13
    load(path, max_size=1 << 20)
    with pytest.raises(ModelFileError, match="more memory than max_size"):
        load(path, max_size=1 << 17)


def test_support_rows_out_of_range(tmp_path):
    import comargin

    path = save(comargin.M3LClassifier(kernel="precomputed").fit(X @ X.T, Y), tmp_path / "m.cmg")
    document, members = read_members(path)
    name = f"arrays/{document['model']['state']['support_']['member']}.npy"
    support = np.load(io.BytesIO(members[name]))
    for value, message in ((40, "a row beyond the 40 training rows"), (-1, "at least 0")):
        wrong = support.copy()
        wrong[0] = value
        with pytest.raises(ModelFileError, match=message):
            load(write_members(path, document, {**members, name: npy(wrong)}))


def test_hashing_into_nothing(tmp_path):
    path = save(tagger(VECTORIZERS["hashing"]), tmp_path / "m.cmg")
    text = json.dumps(read_members(path)[0])
    with pytest.raises(ModelFileError, match="n_features: expected a whole number from 1"):
        load(write_members(path, text.replace('"n_features": 1024', '"n_features": 0'), {}))


def test_random_states_out_of_range(tmp_path):
    import comargin

    path = save(comargin.M3LClassifier(random_state=np.random.RandomState(0)), tmp_path / "m.cmg")
    document, members = read_members(path)
    document["model"]["params"]["random_state"]["position"] = 625
    with pytest.raises(ModelFileError, match="no state of a random generator"):
        load(write_members(path, document, members))


def test_the_error_can_be_pickled():
    import pickle

    error = pickle.loads(pickle.dumps(ModelFileError("a.cmg", "is odd")))
    assert (str(error), error.path, error.reason) == ("a.cmg: is odd", "a.cmg", "is odd")
