"""Generators: the models they claim, by definition and by statistics; determinism; refused arguments."""

import itertools
import math
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import LabelBinarizer
from sklearn.svm import LinearSVC

from comargin.data.generators import make_cgm_toy, make_correlated, make_text_like


def toy_score(toy, x, y):
    """Score of one labeling, term by term as the model is written."""
    score = sum(y[k] * float(u @ x) for k, u in enumerate(toy.extra["node_weights"]))
    for (j, k), states in zip(toy.extra["edges"], toy.extra["edge_weights"], strict=True):
        state = {(0, 0): 0, (0, 1): 1, (1, 0): 2, (1, 1): 3}[int(y[j]), int(y[k])]
        score += float(states[state] @ x)
    return score


@pytest.mark.parametrize("seed", [0, 5])
def test_cgm_toy_labels_are_the_best_labelings(seed):
    toy = make_cgm_toy(6, seed=seed)
    for x, y in zip(toy.X, toy.Y, strict=True):
        best = max(itertools.product((0, 1), repeat=10), key=lambda labeling, x=x: toy_score(toy, x, labeling))
        assert_array_equal(y, best)


def test_cgm_toy_shapes_and_defaults_are_those_of_the_paper():
    toy = make_cgm_toy()
    assert toy.X.shape == (3000, 10)
    assert toy.Y.shape == (3000, 10)
    assert toy.Y.dtype == np.int32
    assert toy.extra["edges"].tolist() == [[0, 1], [0, 2], [0, 3], [0, 4]]
    assert toy.extra["node_weights"].shape == (10, 10)
    assert toy.extra["edge_weights"].shape == (4, 4, 10)
    assert len(toy.feature_names) == 10
    assert len(toy.label_names) == 10
    assert_allclose(toy.X.mean(axis=0), 0, atol=0.08)
    assert_allclose(toy.X.std(axis=0), 1, atol=0.08)
    assert 0.3 < toy.Y.mean() < 0.7


def test_cgm_toy_edges_matter_and_only_where_they_are():
    """A linear classifier per label fits the labels without edges (5..9) and not those with."""
    toy = make_cgm_toy(seed=1)
    errors = []
    for label in range(10):
        model = LogisticRegression(C=100.0).fit(toy.X[:2000], toy.Y[:2000, label])
        errors.append(np.mean(model.predict(toy.X[2000:]) != toy.Y[2000:, label]))
    assert min(errors[:5]) > 0.08
    assert max(errors[5:]) < 0.02
    assert 0.04 < np.mean(errors) < 0.12


def test_cgm_toy_without_edges_is_linear():
    toy = make_cgm_toy(50, n_labels=3, n_features=4, edges=())
    assert_array_equal(toy.Y, toy.X @ toy.extra["node_weights"].T > 0)
    assert toy.extra["edges"].shape == (0, 2)


def test_cgm_toy_more_rows_keep_the_first():
    small, large = make_cgm_toy(500, seed=3), make_cgm_toy(20_000, seed=3)
    assert_array_equal(small.X, large.X[:500])
    assert_array_equal(small.Y, large.Y[:500])
    assert not np.array_equal(small.X, make_cgm_toy(500, seed=4).X)


@pytest.mark.parametrize(("correlation", "rank"), [(0.0, 2), (0.6, 1), (0.9, 3), (1.0, 2)])
def test_correlated_R_is_a_correlation_of_the_stated_form(correlation, rank):
    data = make_correlated(20, 6, 8, correlation=correlation, rank=rank, seed=2)
    R = data.extra["R"]
    assert_array_equal(R, R.T)
    assert_array_equal(R.diagonal(), 1.0)
    eigenvalues = np.linalg.eigvalsh(R)
    assert_allclose(eigenvalues[: 8 - rank], 1.0 - correlation, atol=1e-12)
    off = np.abs(R[~np.eye(8, dtype=bool)])
    assert off.max() <= correlation + 1e-12
    if rank == 1:
        assert_allclose(off, correlation, atol=1e-12)


def test_correlated_weights_have_covariance_R():
    data = make_correlated(1, 200_000, 5, correlation=0.8, rank=2, seed=0)
    weights = data.extra["weights"]  # (L, d), covariance R / d over features
    assert_allclose(weights @ weights.T, data.extra["R"], atol=0.02)


def test_correlated_labels_follow_the_scores():
    exact = make_correlated(300, 10, 6, noise=0.0, seed=1)
    scores = exact.X @ exact.extra["weights"].T + exact.extra["intercept"]
    assert_array_equal(exact.Y, scores > 0)
    assert exact.Y.dtype == np.int32
    noisy = make_correlated(300, 10, 6, noise=1.0, seed=1)
    assert_array_equal(noisy.X, exact.X)
    assert 0.1 < np.mean(noisy.Y != exact.Y) < 0.4


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_correlated_positive_rate(rate):
    data = make_correlated(20_000, 10, 5, positive_rate=rate, noise=0.5, seed=4)
    assert_allclose(data.Y.mean(axis=0), rate, atol=0.02)


def test_correlated_labels_are_correlated():
    """Labels of one row of R: arcsine law, E[s_i s_j] = 2/pi asin(cos(w_i, w_j)) without noise."""
    data = make_correlated(50_000, 30, 4, noise=0.0, correlation=1.0, rank=1, seed=0)
    signs = 2.0 * data.Y - 1.0
    weights = data.extra["weights"] / np.linalg.norm(data.extra["weights"], axis=1, keepdims=True)
    cosines = np.clip(weights @ weights.T, -1, 1)
    assert_allclose(signs.T @ signs / len(signs), 2 / math.pi * np.arcsin(cosines), atol=0.02)


@pytest.fixture(scope="module")
def text():
    return make_text_like(n=6000, d=2000, L=20, nnz=40, seed=0)


def test_text_forms(text):
    assert isinstance(text.X, sp.csr_array)
    assert isinstance(text.Y, sp.csr_array)
    assert text.X.dtype == np.float64
    assert text.X.indices.dtype == np.int32
    assert text.X.indptr.dtype == np.int32
    assert text.Y.dtype == np.int32
    for matrix in (text.X, text.Y):
        matrix.check_format(full_check=True)
        inside = np.ones(matrix.nnz - 1, dtype=bool)
        inside[matrix.indptr[1:-1][(matrix.indptr[1:-1] > 0) & (matrix.indptr[1:-1] < matrix.nnz)] - 1] = False
        assert np.all(np.diff(matrix.indices)[inside] > 0)  # sorted, no duplicates
    assert set(np.unique(text.Y.data)) == {1}
    assert text.X.data.min() > 0
    assert_allclose(np.sqrt((text.X * text.X).sum(axis=1)), 1.0, rtol=1e-12)
    assert len(text.feature_names) == 2000
    assert len(set(text.label_names)) == 20


def test_text_statistics(text):
    assert text.X.nnz / 6000 == pytest.approx(40, rel=0.03)
    assert np.diff(text.X.indptr).min() >= 1
    assert text.Y.nnz / 6000 == pytest.approx(3.2, rel=0.05)
    counts = text.Y.sum(axis=0)
    assert_allclose(counts / 6000, text.extra["label_frequencies"], atol=0.02)
    assert counts.min() >= 3
    assert counts.max() / np.median(counts) > 3  # skewed
    document_frequency = np.sort(np.bincount(text.X.indices, minlength=2000))[::-1]
    # Zipf: the most frequent words are in a good part of all rows, the median word in few.
    assert document_frequency[0] > 0.2 * 6000
    assert document_frequency[0] > 10 * document_frequency[1000]


def test_text_labels_of_a_theme_occur_together(text):
    Y = text.Y.toarray().astype(float)
    themes = text.extra["themes"]
    correlation = np.corrcoef(Y.T)
    same = (themes[:, None] == themes) & ~np.eye(20, dtype=bool)
    other = themes[:, None] != themes
    assert correlation[same].mean() > 0.1
    assert correlation[other].mean() < 0.0


def test_text_is_learnable_by_a_linear_model_and_not_separable(text):
    Y = text.Y.toarray()
    model = OneVsRestClassifier(LinearSVC(C=0.3)).fit(text.X[:4000], Y[:4000])
    predicted = model.predict(text.X[4000:])
    majority = np.broadcast_to(Y[:4000].mean(axis=0) > 0.5, predicted.shape)
    error, baseline = np.mean(predicted != Y[4000:]), np.mean(majority != Y[4000:])
    assert error < 0.6 * baseline
    assert error > 0.02
    assert np.mean(model.predict(text.X[:4000]) != Y[:4000]) > 0.005


def test_text_more_rows_keep_the_first():
    """6000 rows are three blocks; no label is rare enough here to be made more frequent for a small n."""
    model = {"d": 500, "L": 5, "nnz": 20, "seed": 3}
    whole = make_text_like(n=6000, **model)
    for n in (700, 2047, 2048, 2049, 5000):
        part = make_text_like(n=n, **model)
        assert_array_equal(part.X.indptr, whole.X.indptr[: n + 1])
        assert_array_equal(part.X.indices, whole.X.indices[: whole.X.indptr[n]])
        assert_array_equal(part.X.data, whole.X.data[: whole.X.indptr[n]])
        assert_array_equal(part.Y.toarray(), whole.Y[:n].toarray())


def test_text_blocks_and_seeds_differ(text):
    first, second = text.X[:2048].toarray(), text.X[2048:4096].toarray()
    assert not np.array_equal(first, second)
    other = make_text_like(n=100, d=2000, L=20, nnz=40, seed=1)
    assert not np.array_equal(other.X.toarray(), first[:100])


def test_text_every_label_has_positives_in_a_small_set():
    for seed in range(5):
        counts = make_text_like(n=1000, seed=seed).Y.sum(axis=0)
        assert counts.min() >= 2


@pytest.mark.parametrize(
    ("n", "d", "L", "nnz"),
    [(1, 2, 1, 1), (5, 50, 1, 25), (300, 60, 3, 20), (50, 3000, 40, 5), (10, 40, 2, 1)],
)
def test_text_small_and_odd_shapes(n, d, L, nnz):
    data = make_text_like(n=n, d=d, L=L, nnz=nnz)
    assert data.X.shape == (n, d)
    assert data.Y.shape == (n, L)
    assert np.diff(data.X.indptr).min() >= 1
    if n >= 50:
        assert data.X.nnz / n == pytest.approx(nnz, rel=0.25)


def test_text_labels_per_row():
    data = make_text_like(n=3000, d=500, L=30, nnz=20, labels_per_row=1.5)
    assert data.Y.nnz / 3000 == pytest.approx(1.5, rel=0.15)


def test_text_at_the_shape_of_rcv1():
    data = make_text_like(n=4096, d=47_236, L=103, nnz=76)
    assert data.X.nnz / 4096 == pytest.approx(76, rel=0.03)
    assert data.Y.nnz / 4096 == pytest.approx(3.2, rel=0.08)
    assert 0.4 < data.Y.sum(axis=0).max() / 4096 < 0.5  # RCV1's most frequent topic: 0.47


def test_text_needs_little_memory_beyond_the_result():
    """A fresh process: the peak grows by the result and one block, not by a second copy of the result."""
    code = (
        "import resource\n"
        "from comargin.data.generators import make_text_like\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024\n"
        "make_text_like(n=2048, d=20000, L=50, nnz=76)\n"
        "before = peak()\n"
        "X = make_text_like(n=100_000, d=20000, L=50, nnz=76).X\n"
        "import sys\n"
        "sys.stdout.write(str((peak() - before) / (X.data.nbytes + X.indices.nbytes)))\n"
    )
    pytest.importorskip("resource")
    if sys.platform == "darwin":
        pytest.skip("ru_maxrss is in bytes there")
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert float(out) < 1.6


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (make_cgm_toy, {"n_samples": 0}, "n_samples must be an int of at least 1"),
        (make_cgm_toy, {"n_samples": 10.0}, "n_samples must be an int"),
        (make_cgm_toy, {"n_features": -1}, "n_features must be"),
        (make_cgm_toy, {"n_labels": 17}, "n_labels must be an int from 1 to 16"),
        (make_cgm_toy, {"n_labels": 3}, r"edges must join different labels out of 0\.\.2"),
        (make_cgm_toy, {"edges": [(1, 1)]}, "edges must join different labels"),
        (make_cgm_toy, {"edges": [(0, 1, 2)]}, "edges must be pairs"),
        (make_cgm_toy, {"edges": [(0.5, 1)]}, "edges must be pairs of integer"),
        (make_cgm_toy, {"seed": -1}, "seed must be an int of at least 0"),
        (make_cgm_toy, {"seed": None}, "seed must be"),
        (make_correlated, {"n_labels": True}, "n_labels must be"),
        (make_correlated, {"correlation": 1.2}, r"correlation must be a finite number from 0 to 1"),
        (make_correlated, {"correlation": math.nan}, "correlation must be"),
        (make_correlated, {"rank": 0}, "rank must be"),
        (make_correlated, {"noise": -0.1}, "noise must be"),
        (make_correlated, {"noise": math.inf}, "noise must be"),
        (make_correlated, {"positive_rate": 0.0}, "positive_rate must lie strictly between"),
        (make_correlated, {"seed": 1.5}, "seed must be"),
        (make_text_like, {"n": 0}, "n must be"),
        (make_text_like, {"d": 1}, "d must be an int of at least 2"),
        (make_text_like, {"L": 0}, "L must be"),
        (make_text_like, {"nnz": 0}, "nnz must be"),
        (make_text_like, {"d": 100, "nnz": 51}, "nnz must be an int from 1 to 50"),
        (make_text_like, {"labels_per_row": 4.1}, r"labels_per_row must be a number in \[0, 4\]"),
        (make_text_like, {"labels_per_row": 0}, "labels_per_row must be positive"),
        (make_text_like, {"seed": -3}, "seed must be"),
    ],
)
def test_bad_arguments_are_refused_by_name(function, arguments, message):
    with pytest.raises(ValueError, match=message):
        function(**arguments)


def test_scikit_learn_does_not_mix_up_more_than_128_labels():
    """Its LabelBinarizer does for an int8 indicator: ours must be of a type it handles."""
    data = make_correlated(50, 5, 200, seed=0)
    np.testing.assert_array_equal(LabelBinarizer().fit_transform(data.Y), data.Y)
