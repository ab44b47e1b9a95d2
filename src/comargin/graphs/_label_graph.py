"""The type of every graph between labels: symmetric sparse weights and label names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from ..core.checks import whole_number
from ..core.wording import counted

if TYPE_CHECKING:
    import networkx

# Weights computed in floating point may differ between (i, j) and (j, i) by rounding, not by more.
_SYMMETRY_RTOL = 1e-10


class Edge(NamedTuple):
    """One edge of a label graph; a plain tuple ``(source, target, weight)`` with names.

    Attributes
    ----------
    source, target : str
        The two labels, in the order of ``LabelGraph.label_names``.
    weight : float
        Weight of the edge.
    """

    source: str
    target: str
    weight: float


@dataclass(frozen=True, eq=False, repr=False)
class LabelGraph:
    """A weighted undirected graph between labels.

    An edge is a pair of different labels with a non-zero weight. The diagonal of ``weights`` is kept as it
    is given (a prior correlation needs it), but it is not an edge.

    Parameters
    ----------
    weights : array-like or sparse of shape (n_labels, n_labels)
        Symmetric, finite weights, copied. Explicit zeros are dropped, and differences between (i, j) and
        (j, i) of the size of rounding are averaged out; stored as a canonical ``csr_array`` of float64.
    label_names : sequence of str, default=()
        One distinct name per label; ``label_0``, ``label_1``, ... when empty.

    Examples
    --------
    >>> graph = LabelGraph([[1, 0.2, 0], [0.2, 1, -0.7], [0, -0.7, 1]], ["sea", "sky", "city"])
    >>> graph
    LabelGraph(3 labels, 2 edges; strongest: sky - city -0.7, sea - sky 0.2)
    >>> graph.top_edges(1)
    [Edge(source='sky', target='city', weight=-0.7)]
    >>> graph.isolated
    ()
    """

    weights: sp.csr_array
    label_names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        weights = _as_symmetric_csr(self.weights)
        object.__setattr__(self, "weights", weights)
        object.__setattr__(self, "label_names", _as_label_names(self.label_names, weights.shape[0]))

    @classmethod
    def from_edges(
        cls,
        edges: ArrayLike,
        weights: ArrayLike | None = None,
        *,
        n_labels: int | None = None,
        label_names: Sequence[str] | None = None,
    ) -> LabelGraph:
        """Build a graph from a list of label pairs.

        Parameters
        ----------
        edges : array-like of shape (n_edges, 2)
            Pairs of different label indices; a pair may stand in either order, but only once.
        weights : array-like of shape (n_edges,) or None, default=None
            Weight of each edge; 1 when None. An edge of weight 0 is no edge.
        n_labels : int or None, default=None
            Number of labels; needed when ``label_names`` is None.
        label_names : sequence of str or None, default=None
            One name per label.

        Returns
        -------
        graph : LabelGraph
            The graph, with a zero diagonal.

        Examples
        --------
        >>> LabelGraph.from_edges([(0, 1), (2, 0)], n_labels=4).isolated
        ('label_3',)
        """
        if n_labels is None:
            if label_names is None:
                raise ValueError("n_labels or label_names must be given: edges do not fix the number of labels")
            n_labels = len(label_names)
        pairs = np.asarray(edges)
        if pairs.size == 0:
            pairs = np.empty((0, 2), dtype=np.intp)
        if pairs.ndim != 2 or pairs.shape[1] != 2 or pairs.dtype.kind not in "iu":
            raise ValueError(
                f"edges must be pairs of integer label indices, got shape {pairs.shape}, dtype {pairs.dtype}"
            )
        low, high = pairs.min(axis=1), pairs.max(axis=1)
        if pairs.size and (low.min() < 0 or high.max() >= n_labels):
            raise ValueError(
                f"edges must have label indices in 0..{n_labels - 1}, got {int(low.min())}..{int(high.max())}"
            )
        if np.any(low == high):
            raise ValueError(f"edges must join two different labels, got a loop at label {int(low[low == high][0])}")
        if np.unique(np.column_stack([low, high]), axis=0).shape[0] != pairs.shape[0]:
            raise ValueError("edges must not name the same pair of labels twice")
        values = np.ones(len(pairs)) if weights is None else np.asarray(weights, dtype=np.float64)
        if values.shape != (len(pairs),):
            raise ValueError(f"weights must have one number per edge, shape ({len(pairs)},), got {values.shape}")
        rows, columns = np.concatenate([low, high]), np.concatenate([high, low])
        matrix = sp.coo_array((np.tile(values, 2), (rows, columns)), shape=(n_labels, n_labels))
        return cls(matrix, _as_label_names(label_names, n_labels))

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return int(self.weights.shape[0])

    @property
    def edges(self) -> np.ndarray:
        """Label index pairs (i, j), i < j, in lexicographic order; ndarray of shape (n_edges, 2)."""
        upper = sp.triu(self.weights, k=1, format="csr").tocoo()
        return np.column_stack([upper.row, upper.col]).astype(np.intp)

    @property
    def edge_weights(self) -> np.ndarray:
        """Weights in the order of ``edges``; ndarray of shape (n_edges,)."""
        return np.asarray(sp.triu(self.weights, k=1, format="csr").data)

    @property
    def isolated(self) -> tuple[str, ...]:
        """Names of the labels without an edge."""
        return tuple(self.label_names[k] for k in np.setdiff1d(np.arange(self.n_labels), self.edges))

    def top_edges(self, k: int | None = None) -> list[Edge]:
        """List the strongest edges.

        Parameters
        ----------
        k : int or None, default=None
            How many edges at most; all when None.

        Returns
        -------
        edges : list of Edge
            By decreasing absolute weight (a strong negative correlation is a strong edge); equal ones in label order.

        Examples
        --------
        >>> graph = LabelGraph.from_edges([(0, 1), (1, 2)], [0.5, -0.5], label_names=["a", "b", "c"])
        >>> [tuple(edge) for edge in graph.top_edges()]
        [('a', 'b', 0.5), ('b', 'c', -0.5)]
        """
        if k is not None:
            whole_number("k", k)
        edges, weights = self.edges, self.edge_weights
        order = np.argsort(-np.abs(weights), kind="stable")[:k]  # stable: ties stay in label order
        names = self.label_names
        return [Edge(names[edges[e, 0]], names[edges[e, 1]], float(weights[e])) for e in order]

    def to_array(self) -> np.ndarray:
        """Return the weights as a new dense array.

        Returns
        -------
        weights : ndarray of shape (n_labels, n_labels)
            Symmetric float64 weights, diagonal included.

        Examples
        --------
        >>> LabelGraph.from_edges([(0, 1)], n_labels=2).to_array()
        array([[0., 1.],
               [1., 0.]])
        """
        return np.asarray(self.weights.toarray())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a LabelGraph is stored sparse and cannot become an array without a copy")
        return self.to_array().astype(dtype or np.float64, copy=False)

    def to_networkx(self) -> networkx.Graph:
        """Return a ``networkx.Graph`` with the label names as nodes and ``weight`` on the edges.

        Returns
        -------
        graph : networkx.Graph
            Every label is a node, isolated ones too; the diagonal does not become loops.

        Examples
        --------
        >>> graph = LabelGraph.from_edges([(0, 1)], label_names=["sea", "sky", "city"])
        >>> graph.to_networkx().number_of_nodes()
        3
        """
        try:
            import networkx
        except ImportError as error:
            raise ImportError("to_networkx needs networkx: install it with `pip install comargin[report]`") from error
        graph = networkx.Graph()
        graph.add_nodes_from(self.label_names)
        names = self.label_names
        graph.add_weighted_edges_from(
            (names[i], names[j], float(weight)) for (i, j), weight in zip(self.edges, self.edge_weights, strict=True)
        )
        return graph

    def __repr__(self) -> str:
        n_edges = len(self.edge_weights)
        shown = ", ".join(f"{e.source} - {e.target} {e.weight:.3g}" for e in self.top_edges(3))
        text = f"{counted(self.n_labels, 'label')}, {counted(n_edges, 'edge')}"
        return f"LabelGraph({text}; strongest: {shown})" if shown else f"LabelGraph({text})"


def _as_symmetric_csr(weights: Any) -> sp.csr_array:
    """Copy to canonical CSR, exactly symmetric; a ValueError names what is wrong with ``weights``."""
    if not sp.issparse(weights):
        weights = np.asarray(weights)
    if weights.ndim != 2 or weights.shape[0] != weights.shape[1] or weights.shape[0] == 0:
        raise ValueError(f"weights must be a square matrix with at least one label, got shape {weights.shape}")
    if weights.dtype.kind not in "biuf":
        raise ValueError(f"weights must be real numbers, got dtype {weights.dtype}")
    matrix = sp.csr_array(weights, dtype=np.float64, copy=True)
    matrix.sum_duplicates()
    if not np.all(np.isfinite(matrix.data)):
        raise ValueError("weights must be finite, got NaN or infinity")
    difference = matrix - matrix.T
    largest = np.abs(matrix.data).max(initial=0.0)
    if np.abs(difference.data).max(initial=0.0) > _SYMMETRY_RTOL * largest:
        at = difference.tocoo()
        worst = np.abs(at.data).argmax()
        i, j = int(at.row[worst]), int(at.col[worst])
        raise ValueError(
            f"weights must be symmetric, but entries ({i}, {j}) and ({j}, {i}) differ by {at.data[worst]:.3g}"
        )
    matrix = sp.csr_array((matrix + matrix.T) * 0.5)
    matrix.eliminate_zeros()
    matrix.sort_indices()
    return matrix


def _as_label_names(names: Sequence[str] | None, n_labels: int) -> tuple[str, ...]:
    """Check the names; ``label_0``, ``label_1``, ... if there are none."""
    if names is None or (len(names) == 0 and n_labels > 0):
        return tuple(f"label_{i}" for i in range(n_labels))
    if isinstance(names, str):
        raise ValueError(f"label_names must be a sequence of names, got the string {names!r}")
    result = tuple(str(name) for name in names)
    if len(result) != n_labels:
        raise ValueError(f"label_names must have {n_labels} names, one per label, got {len(result)}")
    if len(set(result)) != n_labels:
        twice = next(name for i, name in enumerate(result) if name in result[:i])
        raise ValueError(f"label_names must be distinct, but {twice!r} stands twice")
    return result
