"""Best labelings from tables of potentials: one call, one graph, one row or many."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .cliques import checked_cliques
from .engine import Inference


@dataclass(frozen=True)
class MapResult:
    """Best labelings found, and upper bounds of all scores.

    Parameters
    ----------
    labels : uint8 ndarray of shape (K,) or (n, K)
        State of every label.
    score : float or ndarray of shape (n,)
        Score of ``labels``.
    bound : float or ndarray of shape (n,)
        No labeling has a higher score, up to rounding.

    Attributes
    ----------
    exact : bool or bool ndarray of shape (n,)
        Whether ``labels`` are certified to be best: score equals bound.
    certified : float
        Fraction of rows with ``exact``; 1.0 without rows.
    """

    labels: np.ndarray
    score: float | np.ndarray
    bound: float | np.ndarray

    @property
    def exact(self) -> bool | np.ndarray:
        """Whether the labels are certified to be best."""
        equal = np.equal(self.score, self.bound)
        return equal if isinstance(self.score, np.ndarray) else bool(equal)

    @property
    def certified(self) -> float:
        """Fraction of rows whose labels are certified to be best."""
        return float(np.mean(self.exact)) if np.size(self.score) else 1.0


def solve_map(node: Any, edges: Any, edge: Any, method: str = "auto") -> MapResult:
    r"""Labeling of highest score on a graph with pairs of labels.

    .. math:: s(y) = \sum_k \mathrm{node}_k(y_k) + \sum_e \mathrm{edge}_e(y_i, y_j), \quad (i, j) = \mathrm{edges}_e

    Parameters
    ----------
    node : array-like of shape (K, 2) or (n, K, 2)
        Value of every label being off and on.
    edges : array-like of int of shape (E, 2)
        Pairs of different labels. A pair that comes twice, in either direction, counts twice: its tables are added.
    edge : array-like of shape (E, 2, 2) or (n, E, 2, 2)
        Value of every state of the two labels of an edge, in the order in which ``edges`` names them.
    method : {"auto", "exact", "mplp"}, default="auto"
        "exact" eliminates labels one after the other, and raises an error if the graph is too wide for that. "auto"
        does so where it is fast and otherwise searches with the bounds of MPLP: exact up to 23 labels, or an induced
        width of 22, and nearly always beyond. "mplp" is MPLP alone, the bound of a linear relaxation.

    Returns
    -------
    MapResult
        Scalars and one labeling if neither ``node`` nor ``edge`` has the axis of n rows; else one per row (what has
        no such axis is the same in all rows). Of several best labelings any is returned, always the same.

    See Also
    --------
    solve_map_factors : Cliques of three and more labels.
    Inference : The same graph for batch after batch, and max-marginals.

    Examples
    --------
    Two labels like to be on, but not together; the third wants to be as the first.

    >>> node = [[0.0, 1.0], [0.0, 1.5], [0.0, 0.0]]
    >>> edges = [[0, 1], [0, 2]]
    >>> edge = [[[0.0, 0.0], [0.0, -4.0]], [[1.0, 0.0], [0.0, 1.0]]]
    >>> result = solve_map(node, edges, edge)
    >>> result.labels
    array([0, 1, 0], dtype=uint8)
    >>> result.score, result.bound, result.exact
    (2.5, 2.5, True)
    """
    node = _checked_node(node)
    pairs = checked_cliques(edges, node.shape[-2], "edges", twice=True)
    for pair in pairs:
        if len(pair) != 2:
            raise ValueError(f"edges must have shape (E, 2), got {pair}")
    tables = _numbers("edge", edge)
    n_edges = len(pairs)
    if tables.size == 0 and n_edges == 0 and tables.ndim < 3:
        tables = np.zeros((0, 2, 2))
    if tables.ndim not in (3, 4) or tables.shape[-3:] != (n_edges, 2, 2):
        raise ValueError(f"edge must have shape ({n_edges}, 2, 2) or (n, {n_edges}, 2, 2), got {tables.shape}")
    if n_edges == 0 and tables.ndim == 4 and node.ndim == 2:
        node = np.broadcast_to(node, (len(tables), *node.shape))
    return _solve(node, pairs, [tables[..., e, :, :] for e in range(n_edges)], method, "edge")


def solve_map_factors(node: Any, cliques: Sequence[Any], tables: Sequence[Any], method: str = "auto") -> MapResult:
    r"""Labeling of highest score on a graph with cliques of any order.

    .. math:: s(y) = \sum_k \mathrm{node}_k(y_k) + \sum_c \mathrm{tables}_c(y_{c_1}, y_{c_2}, \dots)

    Parameters
    ----------
    node : array-like of shape (K, 2) or (n, K, 2)
        Value of every label being off and on.
    cliques : sequence of sequences of int
        Each of at least two different labels. A set of labels that comes twice, in any order, counts twice.
    tables : sequence of array-like
        For each clique an array of shape (2, ..., 2) or (n, 2, ..., 2): one axis per label, in the order of the clique.
    method : {"auto", "exact", "mplp"}, default="auto"
        As in :func:`solve_map`.

    Returns
    -------
    MapResult
        As from :func:`solve_map`.

    Examples
    --------
    Exactly two of three labels should be on.

    >>> import numpy as np
    >>> table = np.zeros((2, 2, 2))
    >>> table[1, 1, 0] = table[1, 0, 1] = table[0, 1, 1] = 2.0
    >>> node = [[0.0, 0.1], [0.0, 0.3], [0.0, 0.2]]
    >>> result = solve_map_factors(node, [(0, 1, 2)], [table])
    >>> result.labels, result.score
    (array([0, 1, 1], dtype=uint8), 2.5)
    """
    node = _checked_node(node)
    if len(cliques) != len(tables):
        raise ValueError(f"tables must be one per clique, got {len(tables)} for {len(cliques)} cliques")
    checked, values = checked_cliques(cliques, node.shape[-2], "cliques", twice=True), []
    for c, (clique, table) in enumerate(zip(checked, tables, strict=True)):
        array = _numbers(f"tables[{c}]", table)
        shape = (2,) * len(clique)
        if array.shape != shape and array.shape[1:] != shape:
            raise ValueError(f"tables[{c}] must have shape {shape} or (n, {str(shape)[1:]}, got {array.shape}")
        values.append(array)
    return _solve(node, checked, values, method, "tables")


def _numbers(name: str, value: Any) -> np.ndarray:
    """Float64 array of finite numbers."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{name} must be an array of numbers: {error}") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be an array of real numbers, got dtype {array.dtype}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array.astype(np.float64, copy=False)


def _checked_node(node: Any) -> np.ndarray:
    node = _numbers("node", node)
    if node.ndim not in (2, 3) or node.shape[-1] != 2 or node.shape[-2] == 0:
        raise ValueError(f"node must have shape (K, 2) or (n, K, 2) with at least one label, got {node.shape}")
    return node


def _solve(
    node: np.ndarray,
    cliques: Sequence[tuple[int, ...]],
    tables: Sequence[np.ndarray],
    method: str,
    tables_name: str,
) -> MapResult:
    """Check node and tables together, run the engine, and score its labels with the tables."""
    n_labels = node.shape[-2]
    rows = {len(node)} if node.ndim == 3 else set()
    rows |= {len(table) for table, clique in zip(tables, cliques, strict=True) if table.ndim > len(clique)}
    if len(rows) > 1:
        raise ValueError(f"node and {tables_name} must have the same number of rows, got {sorted(rows)}")
    n_rows = rows.pop() if rows else None

    # One table per set of labels, with its labels in increasing order.
    merged: dict[tuple[int, ...], np.ndarray] = {}
    for clique, table in zip(cliques, tables, strict=True):
        order = np.argsort(clique)
        batch = table if table.ndim > len(clique) else table[None]
        turned = batch.transpose(0, *(1 + order))
        key = tuple(sorted(clique))
        merged[key] = merged[key] + turned if key in merged else turned

    engine = Inference(n_labels, list(merged), method)
    batch_node = node if node.ndim == 3 else node[None]
    potentials = np.empty((1 if n_rows is None else n_rows, engine.n_columns))
    with np.errstate(over="ignore"):
        potentials[:, :n_labels] = batch_node[:, :, 1] - batch_node[:, :, 0]
        first = n_labels
        for clique, table in merged.items():
            n_states = 1 << len(clique)
            potentials[:, first : first + n_states] = table.reshape(len(table), n_states)
            first += n_states
        total = np.abs(potentials).sum(axis=1) + np.abs(batch_node).sum(axis=(1, 2))
    if not np.isfinite(total).all():
        raise ValueError(f"node and {tables_name} are too large: their sum is not a finite number")

    labels, score, bound = engine.map(potentials)
    all_off = batch_node[:, :, 0].sum(axis=1)
    score, bound = score + all_off, bound + all_off
    if n_rows is None:
        return MapResult(labels[0], float(score[0]), float(bound[0]))
    return MapResult(labels, score, bound)
