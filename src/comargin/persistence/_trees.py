"""scikit-learn's trees: their nodes as two plain matrices, checked to be a tree, as its loops do not look at bounds."""

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from ._codecs import PackedCodec
from ._kinds import MATRIX, Kind, floats, inside, integers
from ._values import Reader

_SAMPLE = DecisionTreeClassifier().fit([[0.0]], [0]).tree_
TREE = type(_SAMPLE)
_NODE = _SAMPLE.__getstate__()["nodes"].dtype
_WHOLE = ("left_child", "right_child", "feature", "n_node_samples", "missing_go_to_left")
_REAL = ("threshold", "impurity", "weighted_n_node_samples")
_LEAF, _NO_FEATURE = -1, -2


_FIELDS: dict[str, Kind] = {
    "n_features": Kind("a whole number from 1 to 2^31 - 1", lambda value: type(value) is int and 0 < value < 1 << 31),
    "n_classes": integers(1, least=1).shaped("outputs"),
    "whole": integers(2, least=_NO_FEATURE).shaped(len(_WHOLE), "nodes"),
    "real": floats(2, finite=False).shaped(len(_REAL), "nodes"),
    "values": floats(3).shaped("nodes", "outputs", "classes"),
}


def _split(tree: Any) -> dict[str, Any]:
    state = tree.__getstate__()
    nodes = state["nodes"]
    return {
        "n_features": int(tree.n_features),
        "n_classes": np.array(tree.n_classes),
        "whole": np.stack([nodes[name].astype(np.int64) for name in _WHOLE]),
        "real": np.stack([nodes[name] for name in _REAL]),
        "values": state["values"],
    }


def _join(fields: dict[str, Any], reader: Reader, where: str) -> Any:
    if set(_NODE.names) != {*_WHOLE, *_REAL}:
        raise ValueError(f"{where}: trees of the installed scikit-learn have other nodes")
    n_classes, whole, real, values = (fields[name] for name in ("n_classes", "whole", "real", "values"))
    if values.shape[2] != n_classes.max(initial=0):
        raise ValueError(f"{inside(where, 'values')}: expected {n_classes.max(initial=0)} classes")
    if whole[-2:].min(initial=0) < 0:
        raise ValueError(f"{where}: negative numbers")
    # Thresholds are infinite where missing values alone go to one side.
    if np.isnan(real[0]).any() or not MATRIX.accepts(real[1:]) or whole[-1].max(initial=0) > 1:
        raise ValueError(f"{where}: nodes that are no numbers")
    max_depth = _depth(whole[0], whole[1], whole[2], fields["n_features"], where)
    n_nodes = real.shape[1]
    reader.take(n_nodes * _NODE.itemsize + values.nbytes)
    nodes = np.zeros(n_nodes, _NODE)
    for name, column in zip((*_WHOLE, *_REAL), (*whole, *real), strict=True):
        nodes[name] = column
    tree = TREE(fields["n_features"], n_classes.astype(np.intp), len(n_classes))
    values = np.ascontiguousarray(values)
    tree.__setstate__({"max_depth": max_depth, "node_count": n_nodes, "nodes": nodes, "values": values})
    return tree


# A leaf has the children -1 and the feature -2; other nodes stand before their children.
TREE_CODEC = PackedCodec("Tree", TREE, _FIELDS, _split, _join)


def _depth(left: np.ndarray, right: np.ndarray, feature: np.ndarray, n_features: int, where: str) -> int:
    """Depth of a tree; every node but the first must be the child of exactly one node before it."""
    n_nodes, inner = len(left), np.flatnonzero(left != _LEAF)
    children = np.stack([left[inner], right[inner]])
    if n_nodes == 0 or not np.array_equal(np.sort(children, axis=None), np.arange(1, n_nodes)):
        raise ValueError(f"{where}: children that make no tree")
    leaves = np.delete(np.arange(n_nodes), inner)
    tested = feature[inner]
    if (children <= inner).any() or (right[leaves] != _LEAF).any() or (feature[leaves] != _NO_FEATURE).any():
        raise ValueError(f"{where}: nodes that are no tree")
    if len(inner) and not 0 <= tested.min() <= tested.max() < n_features:
        raise ValueError(f"{where}: a feature beyond the {n_features} that there are")
    depth, level = 0, np.zeros(1, np.int64)
    while (level := level[left[level] != _LEAF]).size:
        depth, level = depth + 1, np.concatenate([left[level], right[level]])
    return depth


def check_trees(model: Any, where: str) -> None:
    """Raise ValueError when a tree does not belong to its classifier or forest, which hands it rows unseen."""
    several = isinstance(model.classes_, list)
    n_classes = [len(classes) for classes in model.classes_] if several else [len(model.classes_)]
    if model.n_outputs_ != len(n_classes) or np.atleast_1d(model.n_classes_).tolist() != n_classes:
        raise ValueError(f"{inside(where, 'n_classes_')}: does not fit the classes")
    if several != (model.n_outputs_ > 1):
        raise ValueError(f"{inside(where, 'classes_')}: lists are for several outputs")
    trees = [each.tree_ for each in getattr(model, "estimators_", [model])]
    for k, tree in enumerate(trees):
        if tree.n_features != model.n_features_in_ or list(tree.n_classes) != n_classes:
            raise ValueError(f"{where}: tree {k} is of other features or classes")
    if not trees:
        raise ValueError(f"{where}: a forest without trees")
