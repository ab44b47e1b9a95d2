"""Affinities and correlations against loops written from the definitions."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from comargin.graphs import cooccurrence, correlation_from_classes, cosine_affinity, smoothed_correlation

FORMS = {
    "bool": lambda Y: Y.astype(bool),
    "int8": lambda Y: Y.astype(np.int8),
    "float": lambda Y: Y.astype(np.float64),
    "list": lambda Y: Y.tolist(),
    "csr_array": lambda Y: sp.csr_array(Y.astype(np.int8)),
    "csr_matrix": lambda Y: sp.csr_matrix(Y.astype(bool)),
    "csc_array": lambda Y: sp.csc_array(Y.astype(np.float32)),
    "explicit zeros": lambda Y: sp.csr_array(
        (Y.ravel().astype(np.int8), np.indices(Y.shape)[1].ravel(), np.arange(0, Y.size + 1, Y.shape[1])),
        shape=Y.shape,
    ),
}


@pytest.fixture(params=[0, 1, 2])
def Y(request):
    """Random labels, one without positives (3), one always on (4), two equal (0, 5)."""
    rng = np.random.default_rng(request.param)
    Y = (rng.random((60, 6)) < rng.uniform(0.05, 0.6, 6)).astype(int)
    Y[:, 3], Y[:, 4], Y[:, 5] = 0, 1, Y[:, 0]
    return Y


def loop_cooccurrence(Y):
    n, L = Y.shape
    counts = np.zeros((L, L))
    for row in range(n):
        for i in range(L):
            for j in range(L):
                counts[i, j] += Y[row, i] == 1 and Y[row, j] == 1
    return counts


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("function", [cooccurrence, cosine_affinity, smoothed_correlation])
def test_the_form_of_Y_does_not_matter(Y, form, function):
    given = FORMS[form](Y)
    assert_array_equal(function(given).to_array(), function(Y).to_array())


def test_input_is_not_changed():
    Y = sp.csr_array((np.array([1, 0, 1], dtype=np.int8), [0, 1, 1], [0, 2, 3]), shape=(2, 2))
    cosine_affinity(Y)
    assert Y.nnz == 3
    assert Y.dtype == np.int8


def test_cooccurrence_against_loops(Y):
    assert_array_equal(cooccurrence(Y).to_array(), loop_cooccurrence(Y))


@pytest.mark.parametrize("cut", [0.0, 0.1, 0.4, 1.0])
def test_cosine_against_loops(Y, cut):
    L = Y.shape[1]
    expected = np.zeros((L, L))
    for i in range(L):
        for j in range(L):
            norms = math.sqrt(sum(Y[:, i] ** 2)) * math.sqrt(sum(Y[:, j] ** 2))
            expected[i, j] = float(Y[:, i] @ Y[:, j]) / norms if norms else 0.0
    largest = expected.max()
    expected[expected < cut * largest * (1 - 1e-12)] = 0.0
    affinity = cosine_affinity(Y, cut=cut).to_array()
    assert_allclose(affinity, expected, atol=1e-14)
    assert_array_equal(affinity.diagonal(), [1, 1, 1, 0, 1, 1])
    assert affinity[0, 5] == 1.0


@pytest.mark.parametrize("cut", [0.0, 0.3])
def test_cosine_of_weighted_rows_is_that_of_repeated_rows(Y, cut):
    times = np.random.default_rng(5).integers(0, 4, len(Y))
    expected = cosine_affinity(np.repeat(Y, times, axis=0), cut).to_array()
    for given in (times, times.astype(float), times.tolist()):
        assert_allclose(cosine_affinity(Y, cut, sample_weight=given).to_array(), expected, atol=1e-14)
    # A cosine has no unit, and rows of weight 0 are not there.
    assert_allclose(cosine_affinity(Y, cut, sample_weight=1e6 * times).to_array(), expected, atol=1e-14)
    assert_array_equal(
        cosine_affinity(Y, cut, sample_weight=times).to_array(),
        cosine_affinity(Y[times > 0], cut, sample_weight=times[times > 0]).to_array(),
    )


def test_cosine_of_equal_weights_is_the_plain_one(Y):
    assert_allclose(cosine_affinity(Y, sample_weight=np.ones(len(Y))).to_array(), cosine_affinity(Y).to_array())


@pytest.mark.parametrize("n_labels", [12, 20])
def test_equal_columns_have_a_cosine_of_one_whatever_the_weights(n_labels):
    """Else a cut of 1 would lose them, or the diagonal."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        Y, weight = (rng.random((200, n_labels)) < 0.5).astype(int), rng.random(200)
        Y[:, -1] = Y[:, 0]
        affinity = cosine_affinity(Y, cut=1.0, sample_weight=weight).to_array()
        expected = np.eye(n_labels)
        expected[0, -1] = expected[-1, 0] = 1.0
        assert_array_equal(affinity, expected)


@pytest.mark.parametrize("function", [cooccurrence, cosine_affinity, smoothed_correlation])
@pytest.mark.parametrize("shape", [(50, 64), (50, 65), (70_000, 60)])
def test_wide_and_long_dense_indicators_give_what_sparse_ones_do(function, shape):
    Y = (np.random.default_rng(0).random(shape) < 0.1).astype(np.int8)
    assert_array_equal(function(Y).to_array(), function(sp.csr_array(Y)).to_array())


def test_labels_on_rows_without_weight_only_have_no_affinity():
    Y = np.array([[1, 1], [1, 0], [0, 1]])
    assert_array_equal(cosine_affinity(Y, sample_weight=[0.0, 2.0, 0.0]).to_array(), [[1.0, 0.0], [0.0, 0.0]])
    assert_array_equal(cosine_affinity(Y, sample_weight=[0.0, 0.0, 0.0]).to_array(), np.zeros((2, 2)))


@pytest.mark.parametrize("weight", [[1.0, 2.0], [1.0, -1.0, 1.0], [1.0, np.nan, 1.0], [1.0, np.inf, 1.0], [[1.0] * 3]])
def test_bad_weights_of_rows_are_named(weight):
    with pytest.raises(ValueError, match="sample_weight must hold 3 finite, non-negative numbers"):
        cosine_affinity([[1, 1], [1, 0], [0, 1]], sample_weight=weight)


def test_cosine_equal_to_the_cut_is_kept():
    """Two labels with 10 positives each, one in common: the cosine is exactly 0.1."""
    Y = np.zeros((19, 2), dtype=int)
    Y[:10, 0] = 1
    Y[9:, 1] = 1
    assert cosine_affinity(Y, cut=0.1).top_edges()[0].weight == 0.1
    assert cosine_affinity(Y, cut=0.1000001).top_edges() == []


def test_cosine_without_any_positive_is_empty():
    graph = cosine_affinity(np.zeros((4, 3)))
    assert graph.weights.nnz == 0
    assert len(graph.isolated) == 3


def test_cosine_of_many_labels_stays_sparse():
    rng = np.random.default_rng(0)
    n, L = 2000, 20_000
    rows, columns = np.repeat(np.arange(n), 3), rng.integers(0, L, 3 * n)
    Y = sp.csr_array((np.ones(3 * n), (rows, columns)), shape=(n, L))
    Y.data[:] = 1.0
    graph = cosine_affinity(Y)
    assert graph.weights.nnz < 50_000  # a dense L x L result would have 4e8 entries
    i, j = graph.edges[0]
    dense_i, dense_j = Y[:, [i]].toarray().ravel(), Y[:, [j]].toarray().ravel()
    cosine = dense_i @ dense_j / np.linalg.norm(dense_i) / np.linalg.norm(dense_j)
    assert_allclose(graph.edge_weights[0], cosine, rtol=1e-14)


@pytest.mark.parametrize("cut", [-0.1, 1.1, math.nan, "no", None])
def test_cosine_refuses_a_bad_cut(cut):
    with pytest.raises(ValueError, match=r"cut must be a number in \[0, 1\]"):
        cosine_affinity([[1, 0]], cut=cut)


def test_smoothed_correlation_without_smoothing_is_pearson(Y):
    R = smoothed_correlation(Y, smoothing=0.0).to_array()
    varying = [0, 1, 2, 5]
    assert_allclose(R[np.ix_(varying, varying)], np.corrcoef(Y[:, varying].T), atol=1e-13)
    for constant in (3, 4):
        assert_array_equal(R[constant], np.eye(6)[constant])


@pytest.mark.parametrize("smoothing", [0.0, 0.5, 1.0, 30.0])
def test_smoothed_correlation_against_loops_and_psd(Y, smoothing):
    signs = 2.0 * Y - 1.0
    L = Y.shape[1]
    gram = np.zeros((L, L))
    for i in range(L):
        for j in range(L):
            gram[i, j] = sum((signs[:, i] - signs[:, i].mean()) * (signs[:, j] - signs[:, j].mean()))
    expected = np.eye(L)
    for i in range(L):
        for j in range(L):
            scale = math.sqrt((gram[i, i] + smoothing) * (gram[j, j] + smoothing))
            if i != j and scale > 1e-12:
                expected[i, j] = gram[i, j] / scale
    R = smoothed_correlation(Y, smoothing=smoothing).to_array()
    assert_allclose(R, expected, atol=1e-13)
    assert_array_equal(R.diagonal(), 1.0)
    assert np.linalg.eigvalsh(R).min() >= smoothing / (len(Y) + smoothing) - 1e-12


def test_smoothing_shrinks_to_the_identity(Y):
    assert_allclose(smoothed_correlation(Y, smoothing=1e12).to_array(), np.eye(6), atol=1e-9)
    off = [abs(smoothed_correlation(Y, smoothing=s).to_array()[0, 5]) for s in (0.0, 1.0, 10.0, 100.0)]
    assert off == sorted(off, reverse=True)
    assert off[-1] < off[0]


@pytest.mark.parametrize("smoothing", [-1.0, math.inf, math.nan, "1"])
def test_bad_smoothing_is_refused(smoothing):
    with pytest.raises(ValueError, match="smoothing must be a non-negative finite number"):
        smoothed_correlation([[1, 0]], smoothing=smoothing)


def test_one_row_and_one_label():
    assert_array_equal(smoothed_correlation([[1]]).to_array(), [[1]])
    assert_array_equal(cosine_affinity([[1]]).to_array(), [[1]])
    assert_array_equal(smoothed_correlation([[1, 0]]).to_array(), np.eye(2))


@pytest.mark.parametrize("function", [cooccurrence, cosine_affinity, smoothed_correlation])
@pytest.mark.parametrize(
    ("Y", "message"),
    [
        ([[0, 2]], "got 2"),
        ([[0, -1]], "got -1"),
        ([[0.5, 1]], "got 0.5"),
        ([[np.inf, 1]], "got inf"),
        ([0, 1], "shape"),
        (np.zeros((0, 3)), "shape"),
        (np.zeros((3, 0)), "shape"),
        ([["a"]], "dtype"),
        (sp.csr_array(([1, 1], [0, 0], [0, 2]), shape=(1, 1)), "got 2"),
    ],
)
def test_what_is_no_indicator_is_refused(function, Y, message):
    with pytest.raises(ValueError, match=f"Y must be a label indicator.*{message}"):
        function(Y)


def test_label_names_are_passed_on():
    assert cosine_affinity([[1, 1]], label_names=["a", "b"]).top_edges() == [("a", "b", 1.0)]
    with pytest.raises(ValueError, match="label_names must have 2 names"):
        smoothed_correlation([[1, 1]], label_names=["a"])


@pytest.mark.parametrize("prior", [None, "random", "one class"])
def test_correlation_from_classes_against_loops(prior, rng):
    signatures = (rng.random((4, 7)) < 0.5).astype(int)
    p = {"random": rng.dirichlet(np.ones(4)), "one class": np.eye(4)[2]}.get(prior, np.full(4, 0.25))
    expected = np.zeros((7, 7))
    for probability, row in zip(p, 2 * signatures - 1, strict=True):
        expected += probability * np.outer(row, row)
    given = None if prior is None else p
    R = correlation_from_classes(signatures, given).to_array()
    assert_allclose(R, expected, atol=1e-14)
    assert_array_equal(R.diagonal(), 1.0)
    eigenvalues = np.linalg.eigvalsh(R)
    assert eigenvalues.min() > -1e-12
    assert np.sum(eigenvalues > 1e-9) <= 4
    for same in (
        2 * signatures - 1,
        signatures.astype(bool),
        sp.csr_array(signatures),
        signatures.astype(float),
    ):
        assert_array_equal(correlation_from_classes(same, given).to_array(), R)


@pytest.mark.parametrize(
    ("signatures", "prior", "message"),
    [
        ([[0, 2]], None, r"signatures must have entries in \{0, 1\}"),
        ([[0, -1]], None, "signatures must have entries"),
        ([[0.5, 1]], None, "signatures must have entries"),
        ([[np.nan, 1]], None, "signatures must have entries"),
        ([0, 1], None, "signatures must be a matrix"),
        (np.zeros((0, 2)), None, "signatures must be a matrix"),
        ([[0, 1]], [0.5, 0.5], "prior must have one probability per class"),
        ([[0, 1], [1, 1]], [1.5, -0.5], "prior must be finite and non-negative"),
        ([[0, 1], [1, 1]], [np.nan, 1], "prior must be finite"),
        ([[0, 1], [1, 1]], [2, 2], "prior must sum to 1, got 4"),
    ],
)
def test_correlation_from_classes_refuses_bad_arguments(signatures, prior, message):
    with pytest.raises(ValueError, match=message):
        correlation_from_classes(signatures, prior)
