"""Files of scikit-learn's trees, SVMs and neighbours with something changed: their compiled loops check nothing."""

import io

import numpy as np
import pytest
import scipy.sparse as sp
from saved_models import RIVALS, X, Y, read_members, write_members
from sklearn.base import clone
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from test_hostile_files import load_and_use, npy

from comargin.persistence import ModelFileError, load, save


def arrays_of(node, members):
    """Arrays of the nodes of a state, by name."""
    return {
        name: np.load(io.BytesIO(members[f"arrays/{item['member']}.npy"]))
        for name, item in node.items()
        if isinstance(item, dict) and item.get("type") == "array"
    }


def with_array(path, node, name, array, document, members):
    return write_members(path, document, {**members, f"arrays/{node[name]['member']}.npy": npy(array)})


def changes_of_a_tree(whole, real):
    """(message, rows of ``whole``, rows of ``real``) of trees that are none."""
    n_nodes = whole.shape[1]
    inner, leaf = 0, int(np.flatnonzero(whole[0] == -1)[0])

    def whole_with(row, column, value):
        changed = whole.copy()
        changed[row, column] = value
        return changed

    for child in (n_nodes, 2**40, 0, -1, 2):
        yield "tree", whole_with(0, inner, child), real
        yield "tree", whole_with(1, inner, child), real
    yield "no tree", whole_with(0, leaf, 1), real
    yield "no tree", whole_with(1, leaf, 1), real
    backwards = whole.copy()  # every node but one has a parent, but in a cycle beside the root
    backwards[:2, 0], backwards[0, 1] = -1, 0
    yield "tree", backwards, real
    swapped = whole.copy()  # a permutation of children in which a node stands before its parent
    first, second = np.flatnonzero(whole[0] != -1)[[0, 1]]
    swapped[0, second], swapped[0, first] = whole[0, first], whole[0, second]
    yield "tree", swapped, real
    for feature in (4, -1, -2, 2**31, 2**62):
        yield "feature beyond", whole_with(2, inner, feature), real
    yield "no tree", whole_with(2, leaf, 0), real
    yield "negative", whole_with(3, inner, -1), real
    yield "no numbers", whole_with(4, inner, 2), real
    for row, value in ((0, np.nan), (1, np.inf), (2, np.nan)):
        odd = real.copy()
        odd[row, inner] = value
        yield "no numbers", whole, odd
    yield "expected the shape", whole[:, :-1], real
    yield "expected the shape", whole, real[:, :-1]
    yield "expected the shape", whole[:-1], real
    yield "expected the shape|no tree", whole[:, :0], real[:, :0]


def test_nodes_that_are_no_tree(tmp_path):
    model = DecisionTreeClassifier(random_state=0).fit(X, Y)
    path = save(model, tmp_path / "m.cmg")
    document, members = read_members(path)
    node = document["model"]["state"]["tree_"]
    found = arrays_of(node, members)
    for message, whole, real in changes_of_a_tree(found["whole"], found["real"]):
        changed = {
            **members,
            f"arrays/{node['whole']['member']}.npy": npy(whole),
            f"arrays/{node['real']['member']}.npy": npy(real),
        }
        with pytest.raises(ModelFileError, match=message):
            load(write_members(path, document, changed))
    for values in (found["values"][:, :2], found["values"][:-1], found["values"][..., :1], found["values"] * np.nan):
        with pytest.raises(ModelFileError, match="values"):
            load(with_array(path, node, "values", values, document, members))
    for n_classes in ([2, 2], [2, 2, 0], [3, 2, 2], [2, 2, 1]):
        with pytest.raises(ModelFileError, match=r"n_classes|values|tree 0"):
            load(with_array(path, node, "n_classes", np.array(n_classes), document, members))
    for n_features in (3, 5, 0, -1, 4.0, None, 2**62):
        changed = {**node, "n_features": n_features}
        document["model"]["state"]["tree_"] = changed
        with pytest.raises(ModelFileError, match="feature"):
            load(write_members(path, document, members))


def test_a_depth_that_is_not_in_the_file_is_the_right_one(tmp_path):
    # `decision_path` takes memory for the depth, and writes as deep as the tree is.
    deep = DecisionTreeClassifier(random_state=0).fit(np.arange(60.0)[:, None], np.arange(60) % 2)
    loaded = load(save(deep, tmp_path / "m.cmg"))
    assert loaded.tree_.max_depth == deep.tree_.max_depth > 5
    assert (loaded.decision_path(X[:, :1]) != deep.decision_path(X[:, :1])).nnz == 0


def test_trees_with_missing_values_have_infinite_thresholds(tmp_path):
    rows = np.array([[np.nan], [np.nan], [1.0], [2.0]])
    model = DecisionTreeClassifier(random_state=0).fit(rows, [0, 0, 1, 1])
    assert np.isinf(model.tree_.threshold).any()
    np.testing.assert_array_equal(load(save(model, tmp_path / "m.cmg")).predict(rows), [0, 0, 1, 1])


def test_trees_of_another_forest(tmp_path):
    path = save(clone(RIVALS["forest"]).fit(X, Y), tmp_path / "m.cmg")
    document, members = read_members(path)
    state = document["model"]["state"]
    other, more = read_members(save(clone(RIVALS["forest"]).fit(X[:, :3], Y), tmp_path / "other.cmg"))
    wide = {**document, "model": {**document["model"], "state": {**state, "n_features_in_": 400}}}
    narrow = {**document, "model": {**document["model"], "state": {**state, "n_outputs_": 2}}}
    for changed in (wide, narrow):
        with pytest.raises(ModelFileError, match=r"other features or classes|n_classes_"):
            load(write_members(path, changed, members))
    other["model"]["state"]["n_features_in_"] = 4
    with pytest.raises(ModelFileError, match="tree 0 is of other features"):
        load(write_members(path, other, more))
    state["estimators_"]["items"] = []
    with pytest.raises(ModelFileError, match=r"without trees|belong to nothing"):
        load(write_members(path, document, members))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("y", [Y[:, 0], Y.sum(axis=1)], ids=["two classes", "more"])
def test_arrays_of_an_svm_that_do_not_agree(sparse, y, tmp_path):
    rows = sp.csr_array(X) if sparse else X
    model = SVC(gamma=0.3).fit(rows, y)
    path = save(model, tmp_path / "m.cmg")
    np.testing.assert_array_equal(load(path).decision_function(rows), model.decision_function(rows))
    document, members = read_members(path)
    state = document["model"]["state"]
    found = arrays_of(state, members)
    for name in ("support_", "_n_support", "intercept_", "class_weight_", "_probA", "_probB", "support_vectors_"):
        if name in found:
            array = found[name]
            for odd in (array[:-1], np.concatenate([array, array]), np.concatenate([array, np.ones_like(array[:1])])):
                if odd.shape != array.shape:
                    with pytest.raises(ModelFileError):
                        load(with_array(path, state, name, odd, document, members))
    for name, value in (("support_", 40), ("support_", -1), ("_n_support", 2**30), ("_n_support", -1)):
        odd = found[name].copy()
        odd[0] = value
        with pytest.raises(ModelFileError, match=name):
            load(with_array(path, state, name, odd, document, members))
    for name in ("support_vectors_", "dual_coef_"):
        if sparse:
            shape = state[name]["shape"]
            state[name]["shape"] = [shape[0], shape[1] + 1]
            with pytest.raises(ModelFileError, match=name):
                load(write_members(path, document, members))
            state[name]["shape"] = shape
        else:
            with pytest.raises(ModelFileError, match=name):
                load(with_array(path, state, name, found[name][:, :-1], document, members))
    for kernel in ("precomputed", "none", 3, {"type": "object", "class": "os.system"}):
        document["model"]["params"]["kernel"] = kernel
        document["model"]["defaults"].pop("kernel", None)
        with pytest.raises(ModelFileError, match="kernel"):
            load(write_members(path, document, members))


def test_neighbours_of_no_class(tmp_path):
    path = save(clone(RIVALS["knn"]).fit(X, Y), tmp_path / "m.cmg")
    document, members = read_members(path)
    state = document["model"]["state"]
    found = arrays_of(state, members)
    for name, array in (
        ("_y", found["_y"] + 1),
        ("_y", found["_y"] * 2),
        ("_y", found["_y"][:, :2]),
        ("_y", found["_y"][:-1]),
        ("_fit_X", found["_fit_X"][:, :-1]),
        ("_fit_X", found["_fit_X"] * np.nan),
    ):
        with pytest.raises(ModelFileError, match=r"_y|_fit_X|NaN"):
            load(with_array(path, state, name, array, document, members))
    for parameter, value in (("n_jobs", 10**9), ("metric", "no such"), ("leaf_size", 0), ("algorithm", "os")):
        document, members = read_members(save(clone(RIVALS["knn"]).fit(X, Y), path))
        document["model"]["defaults"][parameter] = value
        with pytest.raises(ModelFileError, match=parameter):
            load(write_members(path, document, members))


def test_chains_in_no_order(tmp_path):
    path = save(clone(RIVALS["chain"]).fit(X, Y), tmp_path / "m.cmg")
    document, members = read_members(path)
    chain = document["model"]["state"]["chains_"]["items"][0]["state"]
    for order in ([0, 0, 1], [1, 2, 3], [0, 1]):
        with pytest.raises(ModelFileError, match="order_"):
            load(with_array(path, chain, "order_", np.array(order), document, members))
    state = document["model"]["state"]
    for varying in ([0, 1, 3], [0, 1, 1], [0, 1], []):
        with pytest.raises(ModelFileError, match=r"varying_|chains_"):
            load(with_array(path, state, "varying_", np.array(varying, int), document, members))
    chain["chain_method_"] = "fit"
    with pytest.raises(ModelFileError, match="chain_method_"):
        load(write_members(path, document, members))


@pytest.mark.parametrize("name", ["tree", "forest", "ovr-rbf", "knn", "chain"])
def test_random_nodes_and_arrays(name, tmp_path, rng):
    path = save(clone(RIVALS[name]).fit(X, Y), tmp_path / "m.cmg")
    document, members = read_members(path)
    names = list(members)
    for _ in range(60):
        member = names[rng.integers(len(names))]
        array = np.load(io.BytesIO(members[member])).copy()
        if array.size:
            flat = array.reshape(-1)
            flat[rng.integers(array.size)] = rng.choice([-2, -1, 0, 1, 3, 100])
        load_and_use(write_members(path, document, {**members, member: npy(array)}), X)
