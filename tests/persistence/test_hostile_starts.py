"""Warm starts of hostile files: compiled loops index with them, so what does not fit must be refused on loading."""

import contextlib
import copy
import io
import warnings

import numpy as np
import pytest
from saved_models import LEARNERS, X, Y, read_members, write_members
from sklearn.base import clone
from test_hostile_files import ODD, npy, places

import comargin
from comargin.persistence import ModelFileError, load, save


def stop_at(n_iter):
    return lambda point: point.n_iter >= n_iter


STARTED = {
    "m3l": (LEARNERS["m3l"], None),
    "rank-cvm": (LEARNERS["rank-cvm"], None),
    "rank-svm": (LEARNERS["rank-svm"], None),
    "lsg21": (LEARNERS["lsg21"], None),
    "prbr": (LEARNERS["prbr"], None),
    "prml": (comargin.PrMLClassifier(C=1.0, rank=2, random_state=0, tol=0.01), None),
    "prml, stopped": (comargin.PrMLClassifier(C=1.0, rank=2, random_state=0, n_init=3, max_iter=4, tol=1e-3), 2),
    "structured": (LEARNERS["structured"], None),
    "structured, a clique": (LEARNERS["structured, a clique"], None),
    "cgm": (LEARNERS["cgm"], None),
    "cgm, stopped": (comargin.CGMClassifier(alpha=1e-2, random_state=0, round_tol=0.0), 60),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("starts")
    found = {}
    for k, (name, (learner, n_iter)) in enumerate(STARTED.items()):
        calls = []
        callback = stop_at(n_iter) if n_iter != 2 else lambda point, calls=calls: calls.append(point) or len(calls) == 5
        model = clone(learner).set_params(warm_start=True, callback=callback if n_iter else None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # few iterations
            model.fit(X, Y)
        found[name] = save(model.set_params(callback=None, max_iter=4), folder / f"{k}.cmg")
    return found


def load_and_fit(path):
    """Load, and go on with the fit if something came; tell whether it did. An index out of range is no excuse."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model = load(path, max_size=1 << 26)
        except ModelFileError:
            return False
        with contextlib.suppress(ValueError, FloatingPointError, ArithmeticError, RuntimeError, np.linalg.LinAlgError):
            model.fit(X, Y)
    return True


def arrays_in(node):
    """Numbers of the arrays below a node."""
    if isinstance(node, dict):
        for key, item in node.items():
            if type(item) is int and key in ("member", "values", "shapes", "ends"):
                yield item
            else:
                yield from arrays_in(item)
    elif isinstance(node, list):
        for item in node:
            yield from arrays_in(item)


def start_of(document):
    return document["model"]["state"]["_dual_start"]


def test_the_states_are_what_they_say(files):
    stopped = load(files["prml, stopped"])._dual_start.point.stopped
    assert stopped.best is not None
    assert stopped.number > 0
    generation = load(files["cgm, stopped"])._dual_start
    assert len(generation.rounds) > 1
    assert generation.history[-1].n_iter >= 60


@pytest.mark.parametrize("name", STARTED)
def test_wrong_numbers(files, name, tmp_path, rng):
    document, members = read_members(files[name])
    for k in sorted(set(arrays_in(start_of(document)))):
        data = members[f"arrays/{k}.npy"]
        array = np.load(io.BytesIO(data))
        begin = 10 + int.from_bytes(data[8:10], "little")
        size = len(data) - begin
        payloads = [data[:begin] + raw for raw in (b"\xff" * size, b"\x01" * size, bytes(size), rng.bytes(size))]
        payloads += [npy(other) for other in (array[:-1], array[:0], np.concatenate([array, array]), array.T.copy())]
        payloads += [npy(1e300 * array), npy(-array)] if array.dtype == np.float64 else []
        if name.startswith("prml"):  # whose fits take long
            payloads = [payloads[n] for n in rng.choice(len(payloads), 3, replace=False)]
        for payload in payloads:
            load_and_fit(write_members(tmp_path / "odd.cmg", document, {**members, f"arrays/{k}.npy": payload}))


@pytest.mark.parametrize("name", STARTED)
def test_wrong_values(files, name, tmp_path, rng):
    document, members = read_members(files[name])
    every = [place for place in places(start_of(document)) if place]
    for _ in range(25):
        changed = copy.deepcopy(document)
        place = every[rng.integers(len(every))]
        parent = start_of(changed)
        for key in place[:-1]:
            parent = parent[key]
        parent[place[-1]] = ODD[rng.integers(len(ODD))]
        load_and_fit(write_members(tmp_path / "odd.cmg", changed, members))


def changed_array(files, name, field, change, tmp_path):
    """The file with one array of its start replaced."""
    document, members = read_members(files[name])
    node = start_of(document)
    for key in field.split("."):
        node = node["fields"][key] if "fields" in node else node[key]
    member = f"arrays/{node['member']}.npy"
    array = np.load(io.BytesIO(members[member]))
    return write_members(tmp_path / "odd.cmg", document, {**members, member: npy(change(array))})


def no_labeling(count):
    count[0, 0] = 0
    return count


def one_more(count):
    count[-1, -1] += 1
    return count


def swapped(count):
    count[0, 0], count[0, 1] = 1000, count[0, 0] + count[0, 1] - 1000
    return count


@pytest.mark.parametrize(
    ("name", "field", "change", "message"),
    [
        ("structured", "count", no_labeling, "count: .*at least 1"),
        ("structured", "count", one_more, "labelings and their number do not agree"),
        ("structured", "count", swapped, "count: .*at least 1"),
        ("structured", "count", lambda a: a.astype(np.int64), "expected an int32 array"),
        ("structured", "count", lambda a: np.vstack([a, a]), "in each of 1 parts"),
        ("structured", "labels", lambda a: a[:-1], "do not agree"),
        ("structured", "mass", lambda a: -a, "from 0 to 1"),
        ("structured", "mass", lambda a: a + 1e9, "from 0 to 1"),
        ("structured", "mass", lambda a: a * np.nan, "finite"),
        ("structured", "weights", lambda a: a[:, :-1], "do not belong to"),
        ("structured", "weights", lambda a: a[:0], "do not belong to"),
        ("structured", "group_weights", lambda a: a[:-1], "expected the shape"),
        ("structured", "group_weights", lambda a: -a, "not be negative"),
        ("cgm, stopped", "count", lambda a: a[:, :-1], "do not agree"),
        ("prml", "point.dictionary", lambda a: a[:-1], r"_dual_start\.point.*: expected the shape"),
        ("prml", "point.codes", lambda a: a[:, :-1], r"_dual_start\.point.*: expected the shape"),
        ("prml", "point.privileged", lambda a: a[:-1], r"_dual_start\.point.*: expected the shape"),
        ("prml", "point.dual.A", lambda a: a[:-1], r"_dual_start\.point.*: expected the shape"),
        (
            "prml, stopped",
            "point.stopped.best.dictionary",
            lambda a: a[:, :-1],
            r"_dual_start\.point.*: expected the shape",
        ),
        ("prml, stopped", "point.stopped.best.dual.B", lambda a: a[:-1], r"_dual_start\.point.*: expected the shape"),
    ],
)
def test_states_that_do_not_fit_together(files, name, field, change, message, tmp_path):
    path = changed_array(files, name, field, change, tmp_path)
    with pytest.raises(ModelFileError, match=message):
        load(path)


@pytest.mark.parametrize(
    ("name", "field", "value", "message"),
    [
        ("structured", "n_labels", 0, "names a label outside"),
        ("structured", "n_labels", 10**15, "do not belong to"),
        ("structured", "groups", {"type": "tuple", "items": [0, 2]}, "numbered from 0"),
        ("structured", "groups", {"type": "tuple", "items": [0]}, "one int per clique"),
        ("structured", "weights", None, "expected a finite float64 array"),
        ("cgm, stopped", "rounds", {"type": "tuple", "items": []}, "do not lead to the cliques"),
        ("cgm, stopped", "history", {"type": "tuple", "items": []}, "does not lead to the round"),
        ("cgm, stopped", "first_pass", 10**9, "does not lead to the round"),
    ],
)
def test_values_that_do_not_fit_together(files, name, field, value, message, tmp_path):
    document, members = read_members(files[name])
    start_of(document)[field] = value
    with pytest.raises(ModelFileError, match=message):
        load(write_members(tmp_path / "odd.cmg", document, members))


def test_labelings_count_before_they_are_made(files, tmp_path):
    # One row with many labelings would make every row as wide.
    def wide(count):
        count[:] = 1
        count[0, 0] = 1 << 22
        return count

    document, members = read_members(files["structured"])
    node = start_of(document)
    count = wide(np.load(io.BytesIO(members[f"arrays/{node['count']['member']}.npy"])))
    changed = {
        f"arrays/{node['count']['member']}.npy": npy(count),
        f"arrays/{node['labels']['member']}.npy": npy(np.zeros(count.sum(), np.uint8)),
        f"arrays/{node['mass']['member']}.npy": npy(np.zeros(count.sum())),
    }
    path = write_members(tmp_path / "wide.cmg", document, {**members, **changed})
    with pytest.raises(ModelFileError, match="more memory than max_size"):
        load(path, max_size=1 << 28)


def test_states_are_small(tmp_path, rng):
    # Eight labels to a byte, and no room for labelings to come.
    labels = (rng.random((300, 24)) < 0.3).astype(int)
    model = comargin.StructuredSVMClassifier(alpha=0.1, random_state=0, warm_start=True, tol=0.05)
    model.fit(rng.normal(size=(300, 5)), labels)
    known = model._dual_start.known[0]
    assert known.labels.shape[2] == 24
    with_state = save(model, tmp_path / "a.cmg").stat().st_size
    del model._dual_start
    without = save(model, tmp_path / "b.cmg").stat().st_size
    assert with_state - without < 2 * known.count.sum() * (3 + 8)
