"""scikit-learn's trees: their nodes as two plain matrices, checked to be a tree, as its loops do not look at bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from ._kinds import MATRIX, Kind, check_shape, floats, inside, integers
from ._values import Node, Reader, Writer

_SAMPLE = DecisionTreeClassifier().fit([[0.0]], [0]).tree_
TREE = type(_SAMPLE)
_NODE = _SAMPLE.__getstate__()["nodes"].dtype
_WHOLE = ("left_child", "right_child", "feature", "n_node_samples", "missing_go_to_left")
_REAL = ("threshold", "impurity", "weighted_n_node_samples")
_LEAF, _NO_FEATURE = -1, -2


class TreeCodec:
    """Trees of scikit-learn; a leaf has the children -1 and the feature -2, other nodes stand before their children."""

    name = "Tree"
    cls = TREE

    def write(self, obj: Any, writer: Writer, where: str) -> dict[str, Node]:
        """Return numbers of features and classes, nodes, and values of nodes."""
        state = obj.__getstate__()
        nodes = state["nodes"]
        values = {
            "n_features": int(obj.n_features),
            "n_classes": np.array(obj.n_classes),
            "whole": np.stack([nodes[name].astype(np.int64) for name in _WHOLE]),
            "real": np.stack([nodes[name] for name in _REAL]),
            "values": state["values"],
        }
        return {name: writer.value(value, inside(where, name)) for name, value in values.items()}

    def read(self, node: dict[str, Node], reader: Reader, where: str) -> Any:
        """Return the tree, checked."""
        if set(_NODE.names) != {*_WHOLE, *_REAL}:
            raise ValueError(f"{where}: trees of the installed scikit-learn have other nodes")
        kinds: dict[str, Kind] = {
            "n_classes": integers(1, least=1),
            "whole": integers(2, least=_NO_FEATURE),
            "real": floats(2, finite=False),
            "values": floats(3),
        }
        found = {name: reader.value(node[name], inside(where, name)) for name in ("n_features", *kinds)}
        for name, kind in kinds.items():
            kind.check(found[name], inside(where, name))
        n_features, n_classes, whole, real = (found[name] for name in ("n_features", "n_classes", "whole", "real"))
        n_nodes = real.shape[1]
        check_shape(inside(where, "whole"), whole, len(_WHOLE), n_nodes)
        check_shape(inside(where, "real"), real, len(_REAL), n_nodes)
        check_shape(inside(where, "values"), found["values"], n_nodes, len(n_classes), max(n_classes, default=0))
        if type(n_features) is not int or not 0 < n_features < 1 << 31 or whole[-2:].min(initial=0) < 0:
            raise ValueError(f"{where}: negative numbers, or no features")
        # Thresholds are infinite where missing values alone go to one side.
        if np.isnan(real[0]).any() or not MATRIX.accepts(real[1:]) or whole[-1].max(initial=0) > 1:
            raise ValueError(f"{where}: nodes that are no numbers")
        max_depth = _depth(whole[0], whole[1], whole[2], n_features, where)
        reader.take(n_nodes * _NODE.itemsize + found["values"].nbytes)
        nodes = np.zeros(n_nodes, _NODE)
        for name, column in zip((*_WHOLE, *_REAL), (*whole, *real), strict=True):
            nodes[name] = column
        tree = TREE(n_features, n_classes.astype(np.intp), len(n_classes))
        values = np.ascontiguousarray(found["values"])
        tree.__setstate__({"max_depth": max_depth, "node_count": n_nodes, "nodes": nodes, "values": values})
        return tree


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
