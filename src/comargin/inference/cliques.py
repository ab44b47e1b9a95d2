"""Cliques of labels: the check of those that a user gives, and the connected components of their graph."""

from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components


def checked_cliques(cliques: Any, n_labels: int, name: str, *, twice: bool = False) -> tuple[tuple[int, ...], ...]:
    """Cliques with their labels in the given order; an error names the argument ``name``.

    The same labels may come again, in any order, only if ``twice``.
    """
    if not isinstance(cliques, Iterable):
        raise ValueError(f"{name}: cliques are a sequence of sequences of label indices, got {cliques!r}")
    checked: list[tuple[int, ...]] = []
    seen: set[frozenset[int]] = set()
    for given in cliques:
        labels = tuple(given) if isinstance(given, Iterable) and not isinstance(given, str) else None
        if labels is None or not all(isinstance(k, Integral) and not isinstance(k, bool | np.bool_) for k in labels):
            raise ValueError(f"{name}: a clique is a sequence of label indices, got {given!r}")
        clique = tuple(int(label) for label in labels)
        if len(clique) < 2:
            raise ValueError(f"{name}: a clique joins at least two labels, got {clique}; every label is a node anyway")
        if min(clique) < 0 or max(clique) >= n_labels:
            raise ValueError(f"{name}: clique {clique} names a label outside 0..{n_labels - 1}")
        members = frozenset(clique)
        if len(members) < len(clique):
            raise ValueError(f"{name}: clique {clique} repeats a label")
        if members in seen and not twice:
            raise ValueError(f"{name}: clique {clique} comes twice")
        seen.add(members)
        checked.append(clique)
    return tuple(checked)


def component_of_labels(n_labels: int, cliques: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Number of the connected component of every label, (n_labels,)."""
    pairs = np.array([(clique[0], label) for clique in cliques for label in clique[1:]], dtype=np.int64).reshape(-1, 2)
    edges = sp.coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n_labels, n_labels))
    return np.asarray(connected_components(edges, directed=False)[1])
