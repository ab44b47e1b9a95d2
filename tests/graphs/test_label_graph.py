"""LabelGraph: what it stores, what it refuses, what it gives back."""

import pickle
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from comargin.graphs import Edge, LabelGraph

WEIGHTS = np.array([[1.0, 0.2, 0.0, 0.0], [0.2, 1.0, -0.7, 0.0], [0.0, -0.7, 0.5, 0.0], [0.0, 0.0, 0.0, 0.0]])
NAMES = ("sea", "sky", "city", "dog")


@pytest.fixture
def graph():
    return LabelGraph(WEIGHTS, NAMES)


@pytest.mark.parametrize(
    "form", [np.asarray, sp.csr_array, sp.csr_matrix, sp.coo_array, sp.csc_matrix, np.ndarray.tolist]
)
def test_every_form_of_weights_is_stored_as_canonical_csr(form):
    weights = LabelGraph(form(WEIGHTS), NAMES).weights
    assert isinstance(weights, sp.csr_array)
    assert weights.dtype == np.float64
    assert weights.has_canonical_format
    assert_array_equal(weights.toarray(), WEIGHTS)


def test_weights_are_copied_and_explicit_zeros_dropped():
    given = sp.csr_array(WEIGHTS)
    given.data[1] = 0.0  # (0, 1), and its mirror image:
    given[1, 0] = 0.0
    graph = LabelGraph(given)
    assert len(graph.edges) == 1
    assert graph.weights.nnz == 5
    given.data[:] = 9.0
    assert graph.to_array()[0, 0] == 1.0


def test_duplicate_entries_add_up_before_the_symmetry_check():
    rows, columns = [0, 0, 1], [1, 1, 0]
    graph = LabelGraph(sp.coo_array(([1.0, 2.0, 3.0], (rows, columns)), shape=(2, 2)))
    assert_array_equal(graph.to_array(), [[0, 3], [3, 0]])


def test_rounding_asymmetry_is_averaged_out():
    nearly = np.array([[1.0, 0.1], [0.1 * (1 + 1e-13), 1.0]])
    stored = LabelGraph(nearly).to_array()
    assert_array_equal(stored, stored.T)


def test_edges_and_weights_exclude_the_diagonal(graph):
    assert_array_equal(graph.edges, [[0, 1], [1, 2]])
    assert_array_equal(graph.edge_weights, [0.2, -0.7])
    assert graph.n_labels == 4
    assert graph.isolated == ("dog",)


def test_top_edges_by_absolute_weight_and_ties_in_label_order():
    edges = [(3, 2), (0, 3), (1, 2), (0, 1)]
    graph = LabelGraph.from_edges(edges, [0.5, -0.5, 0.9, 0.5], label_names=NAMES)
    assert graph.top_edges() == [
        Edge("sky", "city", 0.9),
        Edge("sea", "sky", 0.5),
        Edge("sea", "dog", -0.5),
        Edge("city", "dog", 0.5),
    ]
    assert graph.top_edges(2) == graph.top_edges()[:2]
    assert graph.top_edges(0) == []
    assert graph.top_edges(99) == graph.top_edges()
    source, target, weight = graph.top_edges(1)[0]
    assert (source, target, weight) == ("sky", "city", 0.9)


@pytest.mark.parametrize("k", [-1, 1.5, True, "all"])
def test_top_edges_refuses_a_bad_k(graph, k):
    with pytest.raises(ValueError, match="k must be an int of at least 0"):
        graph.top_edges(k)


def test_repr_is_short_and_names_the_strongest(graph):
    assert repr(graph) == "LabelGraph(4 labels, 2 edges; strongest: sky - city -0.7, sea - sky 0.2)"
    assert repr(LabelGraph([[1.0]])) == "LabelGraph(1 label, 0 edges)"


def test_to_array_is_fresh_and_numpy_understands_a_graph(graph):
    array = graph.to_array()
    array[:] = 7
    assert_array_equal(graph.to_array(), WEIGHTS)
    assert_array_equal(np.asarray(graph), WEIGHTS)
    assert np.asarray(graph, dtype=np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="without a copy"):
        np.array(graph, copy=False)


def test_to_networkx(graph):
    pytest.importorskip("networkx")
    result = graph.to_networkx()
    assert list(result.nodes) == list(NAMES)
    assert {frozenset(e[:2]): e[2] for e in result.edges.data("weight")} == {
        frozenset({"sea", "sky"}): 0.2,
        frozenset({"sky", "city"}): -0.7,
    }


def test_to_networkx_names_the_extra_when_it_is_missing(graph, monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"comargin\[report\]"):
        graph.to_networkx()


def test_frozen_and_picklable(graph):
    with pytest.raises(AttributeError):
        graph.weights = None
    again = pickle.loads(pickle.dumps(graph))
    assert again.label_names == NAMES
    assert_array_equal(again.to_array(), WEIGHTS)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros((2, 3)), "square"),
        (np.zeros((0, 0)), "at least one label"),
        (np.zeros(3), "square"),
        ([[0, 1], [2, 0]], r"symmetric.*\(0, 1\) and \(1, 0\) differ"),
        ([[0, np.nan], [np.nan, 0]], "finite"),
        ([[0, np.inf], [np.inf, 0]], "finite"),
        ([[0, 1j], [1j, 0]], "real numbers"),
        ([["a", "b"], ["b", "a"]], "real numbers"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=rf"weights must be .*{message}"):
        LabelGraph(weights)


@pytest.mark.parametrize(
    ("names", "message"), [(["a"], "2 names"), (["a", "a"], "'a' stands twice"), ("ab", "sequence")]
)
def test_bad_names_are_refused(names, message):
    with pytest.raises(ValueError, match=rf"label_names must .*{message}"):
        LabelGraph(np.eye(2), names)


def test_names_are_made_up_when_not_given():
    assert LabelGraph(np.eye(2)).label_names == ("label_0", "label_1")
    assert LabelGraph(np.eye(2), np.array(["x", "y"])).label_names == ("x", "y")


def test_from_edges_accepts_either_order_and_no_edges():
    graph = LabelGraph.from_edges([(2, 0)], n_labels=3)
    assert_array_equal(graph.to_array(), [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    empty = LabelGraph.from_edges([], n_labels=2)
    assert empty.edges.shape == (0, 2)
    assert empty.top_edges() == []
    assert empty.isolated == ("label_0", "label_1")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edges": [(0, 1)]}, "n_labels or label_names"),
        ({"edges": [(0, 3)], "n_labels": 3}, "edges must have label indices in 0..2"),
        ({"edges": [(-1, 1)], "n_labels": 3}, "edges must have label indices"),
        ({"edges": [(1, 1)], "n_labels": 3}, "edges must join two different labels.*label 1"),
        ({"edges": [(0, 1), (1, 0)], "n_labels": 3}, "edges must not name the same pair"),
        ({"edges": [(0, 1, 2)], "n_labels": 3}, "edges must be pairs"),
        ({"edges": [(0.0, 1.0)], "n_labels": 3}, "edges must be pairs of integer"),
        ({"edges": [(0, 1)], "weights": [1, 2], "n_labels": 3}, "weights must have one number per edge"),
    ],
)
def test_from_edges_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        LabelGraph.from_edges(**arguments)
