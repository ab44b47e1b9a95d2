"""Measures against double loops written from their definitions, and against scikit-learn where it agrees."""

import math
import pickle

import numpy as np
import pytest
import sklearn.metrics as skm
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse
from sklearn.datasets import make_multilabel_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from comargin import M3LClassifier, metrics
from comargin.metrics.measures import MEASURES

SET_MEASURES = [
    "hamming_loss",
    "subset_accuracy",
    *(f"{average}_{m}" for average in ("example", "micro", "macro") for m in ("precision", "recall", "f1")),
    "macro_f1_of_averages",
]
ROW_MEASURES = ["one_error", "coverage", "ranking_loss", "average_precision"]
AT_K = ["precision_at_k", "recall_at_k", "ndcg_at_k"]
SPARSE_FLAVOURS = [sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix]


def _ratio(numerator, denominator, zero_division=0.0):
    return numerator / denominator if denominator else zero_division


def _mean(values):
    values = [v for v in values if not math.isnan(v)]
    return sum(values) / len(values) if values else math.nan


def _equal(a, b):
    return (math.isnan(a) and math.isnan(b)) or a == pytest.approx(b, abs=1e-12)


# Loops from the definitions, one row or label at a time.


def naive_sets(Y, P, zero_division=0.0):
    n, L = Y.shape
    result = {
        "hamming_loss": sum(Y[i, j] != P[i, j] for i in range(n) for j in range(L)) / (n * L),
        "subset_accuracy": sum(all(Y[i] == P[i]) for i in range(n)) / n,
    }

    def three(y, p):
        hits = sum(a and b for a, b in zip(y, p, strict=True))
        return (
            _ratio(hits, sum(p), zero_division),
            _ratio(hits, sum(y), zero_division),
            _ratio(2 * hits, sum(y) + sum(p), zero_division),
        )

    rows = [three(Y[i].tolist(), P[i].tolist()) for i in range(n)]
    labels = [three(Y[:, j].tolist(), P[:, j].tolist()) for j in range(L)]
    pooled = three(Y.ravel().tolist(), P.ravel().tolist())
    for position, name in enumerate(("precision", "recall", "f1")):
        result[f"example_{name}"] = _mean([r[position] for r in rows])
        result[f"micro_{name}"] = pooled[position]
        result[f"macro_{name}"] = _mean([c[position] for c in labels])
    p, r = result["macro_precision"], result["macro_recall"]
    result["macro_f1_of_averages"] = _ratio(2 * p * r, p + r)
    return result


def naive_ranking(Y, F):
    one, cover, loss, precision = [], [], [], []
    for y, f in zip(Y, F, strict=True):
        relevant, irrelevant = np.flatnonzero(y), np.flatnonzero(y == 0)
        if len(relevant) == 0:
            continue
        first = next(k for k in range(len(f)) if all(f[k] >= f[j] for j in range(len(f))))
        one.append(float(first not in relevant))
        lowest = min(f[k] for k in relevant)
        cover.append(sum(f[k] >= lowest for k in range(len(f))) - 1.0)
        if len(irrelevant):
            wrong = sum(f[k] <= f[j] for k in relevant for j in irrelevant)
            loss.append(wrong / (len(relevant) * len(irrelevant)))
        precision.append(
            np.mean([sum(f[j] >= f[k] for j in relevant) / sum(f[j] >= f[k] for j in range(len(f))) for k in relevant])
        )
    return {
        "one_error": _mean(one),
        "coverage": _mean(cover),
        "ranking_loss": _mean(loss),
        "average_precision": _mean(precision),
    }


def naive_auc(y, f):
    pairs = [(a, b) for a in f[y == 1] for b in f[y == 0]]
    return _mean([1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs])


def naive_top_k(y, f, k):
    return sorted(range(len(f)), key=lambda j: (-f[j], j))[:k]


def naive_at_k(Y, F, k):
    precision, recall, ndcg = [], [], []
    for y, f in zip(Y, F, strict=True):
        hits = [y[j] for j in naive_top_k(y, f, k)]
        precision.append(sum(hits) / k)
        if y.sum():
            recall.append(sum(hits) / y.sum())
            best = sum(1 / math.log2(r + 2) for r in range(min(k, int(y.sum()))))
            ndcg.append(sum(h / math.log2(r + 2) for r, h in enumerate(hits)) / best)
    return {"precision_at_k": _mean(precision), "recall_at_k": _mean(recall), "ndcg_at_k": _mean(ndcg)}


def naive_propensity_scored(Y, F, k, p):
    gain = best = 0.0
    for y, f in zip(Y, F, strict=True):
        gain += sum(y[j] / p[j] for j in naive_top_k(y, f, k))
        best += sum(sorted((y[j] / p[j] for j in range(len(y))), reverse=True)[:k])
    return _ratio(gain, best, math.nan)


@st.composite
def problems(draw, min_labels=1, finite=False):
    shape = (draw(st.integers(1, 6)), draw(st.integers(min_labels, 6)))
    Y = draw(hnp.arrays(np.int8, shape, elements=st.integers(0, 1)))
    P = draw(hnp.arrays(np.int8, shape, elements=st.integers(0, 1)))
    # Few distinct values, so that ties are the rule.
    values = [-1.5, 0.0, 0.25, 1.0] if finite else [-np.inf, -1.5, 0.0, 0.25, 1.0, np.inf]
    F = draw(hnp.arrays(np.float64, shape, elements=st.sampled_from(values)))
    return Y, P, F


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([0.0, 1.0, math.nan]))
def test_set_measures_match_loops(problem, zero_division):
    Y, P, _ = problem
    for name, expected in naive_sets(Y, P, zero_division).items():
        plain = name in ("hamming_loss", "subset_accuracy")
        options = {} if plain else {"zero_division": zero_division}
        assert _equal(getattr(metrics, name)(Y, P, **options), expected), name


@settings(max_examples=150, deadline=None)
@given(problems())
def test_ranking_measures_match_loops(problem):
    Y, _, F = problem
    for name, expected in naive_ranking(Y, F).items():
        assert _equal(getattr(metrics, name)(Y, F), expected), name
    assert _equal(metrics.macro_auc(Y, F), _mean([naive_auc(y, f) for y, f in zip(Y.T, F.T, strict=True)]))
    assert _equal(metrics.micro_auc(Y, F), naive_auc(Y.ravel(), F.ravel()))


@settings(max_examples=150, deadline=None)
@given(problems(), st.data())
def test_measures_at_k_match_loops(problem, data):
    Y, _, F = problem
    k = data.draw(st.integers(1, Y.shape[1] + 3))
    for name, expected in naive_at_k(Y, F, k).items():
        assert _equal(getattr(metrics, name)(Y, F, k=k), expected), name
    p = np.linspace(0.1, 1.0, Y.shape[1])
    ours = metrics.propensity_scored_precision_at_k(Y, F, k=k, propensities=p)
    assert _equal(ours, naive_propensity_scored(Y, F, k, p))


@settings(max_examples=100, deadline=None)
@given(problems())
def test_evaluate_equals_the_single_functions(problem):
    Y, P, F = problem
    n_labels = Y.shape[1]
    p = np.linspace(0.1, 1.0, n_labels)
    result = metrics.evaluate(Y, F, P, k=(1, 2, 9), propensities=p)
    depths = [1, 2, 9]
    names = SET_MEASURES + ROW_MEASURES + ["macro_auc", "micro_auc"]
    assert list(result) == names + [
        f"{name[:-1]}{k}" for name in [*AT_K, "propensity_scored_precision_at_k"] for k in depths
    ]
    for name in SET_MEASURES:
        assert _equal(result[name], getattr(metrics, name)(Y, P)), name
    for name in [*ROW_MEASURES, "macro_auc", "micro_auc"]:
        assert _equal(result[name], getattr(metrics, name)(Y, F)), name
    for name in AT_K:
        for k in depths:
            assert _equal(result[f"{name[:-1]}{k}"], getattr(metrics, name)(Y, F, k=k)), name


@pytest.fixture
def data(rng):
    """Rows with at least one and not all labels, labels with both values: where all definitions agree."""
    Y = (rng.random((200, 7)) < 0.35).astype(int)
    Y[:, 0], Y[:, 1] = Y[:, 2:].sum(axis=1) == 0, Y[:, 2:].sum(axis=1) < 5
    P = np.where(rng.random(Y.shape) < 0.2, 1 - Y, Y)
    return Y, P, np.round(rng.normal(size=Y.shape) + Y, 1)


@pytest.mark.parametrize("weighted", [False, True])
def test_agrees_with_scikit_learn(data, rng, weighted):
    Y, P, F = data
    weight = rng.random(len(Y)) if weighted else None
    w = {"sample_weight": weight}
    assert metrics.hamming_loss(Y, P, **w) == pytest.approx(skm.hamming_loss(Y, P, **w))
    assert metrics.subset_accuracy(Y, P, **w) == pytest.approx(skm.accuracy_score(Y, P, **w))
    for average, theirs in (("example", "samples"), ("micro", "micro"), ("macro", "macro")):
        for name in ("precision", "recall", "f1"):
            ours = getattr(metrics, f"{average}_{name}")(Y, P, **w)
            peer = getattr(skm, f"{name}_score")(Y, P, average=theirs, zero_division=0, **w)
            assert ours == pytest.approx(peer), (average, name)
    assert metrics.coverage(Y, F, **w) == pytest.approx(skm.coverage_error(Y, F, **w) - 1)
    assert metrics.ranking_loss(Y, F, **w) == pytest.approx(skm.label_ranking_loss(Y, F, **w))
    lrap = skm.label_ranking_average_precision_score(Y, F, **w)
    assert metrics.average_precision(Y, F, **w) == pytest.approx(lrap)
    for average in ("macro", "micro"):
        ours = getattr(metrics, f"{average}_auc")(Y, F, **w)
        assert ours == pytest.approx(skm.roc_auc_score(Y, F, average=average, **w))
    distinct = F + 1e-3 * rng.random(F.shape)
    for k in (1, 3, 7):
        peer = skm.ndcg_score(Y, distinct, k=k, **w)
        assert metrics.ndcg_at_k(Y, distinct, k=k, **w) == pytest.approx(peer)


@settings(max_examples=100, deadline=None)
@given(problems(min_labels=2), st.sampled_from([0.0, 1.0, math.nan]), st.booleans())
def test_edge_cases_of_sets_agree_with_scikit_learn(problem, zero_division, as_sparse):
    """Rows and labels that are empty or full. (It reads a single column as two classes, hence two labels.)"""
    Y, P, _ = problem
    if as_sparse:
        Y, P = sparse.csr_array(Y), sparse.csr_array(P)
    assert metrics.hamming_loss(Y, P) == pytest.approx(skm.hamming_loss(Y, P))
    assert metrics.subset_accuracy(Y, P) == pytest.approx(skm.accuracy_score(Y, P))
    for average, theirs in (("example", "samples"), ("micro", "micro"), ("macro", "macro")):
        for name in ("precision", "recall", "f1"):
            ours = getattr(metrics, f"{average}_{name}")(Y, P, zero_division=zero_division)
            peer = getattr(skm, f"{name}_score")(Y, P, average=theirs, zero_division=zero_division)
            assert _equal(ours, peer), (average, name)


@settings(max_examples=100, deadline=None)
@given(problems(min_labels=2, finite=True))
def test_ties_agree_with_scikit_learn(problem):
    """Constant rows and labels are taken out first: there the definitions differ, see the docstrings."""
    Y, _, F = problem
    rows = (Y.sum(axis=1) > 0) & (Y.sum(axis=1) < Y.shape[1])
    if rows.any():
        assert metrics.coverage(Y[rows], F[rows]) == pytest.approx(skm.coverage_error(Y[rows], F[rows]) - 1)
        assert metrics.ranking_loss(Y[rows], F[rows]) == pytest.approx(skm.label_ranking_loss(Y[rows], F[rows]))
        lrap = skm.label_ranking_average_precision_score(Y[rows], F[rows])
        assert metrics.average_precision(Y[rows], F[rows]) == pytest.approx(lrap)
    labels = (Y.sum(axis=0) > 0) & (Y.sum(axis=0) < Y.shape[0])
    if labels.any():
        assert metrics.macro_auc(Y, F) == pytest.approx(skm.roc_auc_score(Y[:, labels], F[:, labels]))
        assert metrics.micro_auc(Y, F) == pytest.approx(skm.roc_auc_score(Y.ravel(), F.ravel()))


def test_measures_at_k_agree_with_scikit_learn(data, rng):
    Y, _, F = data
    F = F + 1e-3 * rng.random(F.shape)
    for k in (1, 3, 7):
        top = np.zeros_like(Y)
        np.put_along_axis(top, np.argsort(-F, axis=1)[:, :k], 1, axis=1)
        precision = skm.precision_score(Y, top, average="samples")
        assert metrics.precision_at_k(Y, F, k=k) == pytest.approx(precision)
        assert metrics.recall_at_k(Y, F, k=k) == pytest.approx(skm.recall_score(Y, top, average="samples"))
        assert 1 - metrics.one_error(Y, F) == pytest.approx(metrics.precision_at_k(Y, F, k=1))


def test_more_places_than_labels():
    Y, F = np.array([[1, 0, 1], [0, 0, 1]]), np.array([[3.0, 2, 1], [3, 2, 1]])
    p = [0.5, 0.5, 0.25]
    assert metrics.precision_at_k(Y, F, k=5) == pytest.approx((2 / 5 + 1 / 5) / 2)
    assert metrics.recall_at_k(Y, F, k=5) == 1.0
    assert metrics.ndcg_at_k(Y, F, k=5) == pytest.approx(skm.ndcg_score(Y, F, k=5))
    assert metrics.ndcg_at_k(Y, F, k=10**9) == metrics.ndcg_at_k(Y, F, k=3)  # and no array of that size
    assert metrics.propensity_scored_precision_at_k(Y, F, k=10**9, propensities=p) == 1.0
    result = metrics.evaluate(Y, F, propensities=p, k=(2, 5))
    for name in AT_K:
        assert result[f"{name[:-1]}5"] == getattr(metrics, name)(Y, F, k=5)
    assert result["propensity_scored_precision_at_5"] == 1.0
    assert metrics.precision_at_k(Y, sparse.csr_array(F), k=5) == metrics.precision_at_k(Y, F, k=5)


def test_evaluate_takes_one_depth(data):
    Y, _, F = data
    one = metrics.evaluate(Y, F, k=3)
    assert one == metrics.evaluate(Y, F, k=[3]) == metrics.evaluate(Y, F, k=np.int64(3))
    assert "precision_at_3" in one
    assert "precision_at_1" not in one


def test_integer_weights_are_repetitions(data, rng):
    Y, P, F = data
    times = rng.integers(0, 4, len(Y))
    p = metrics.label_propensities(Y)
    weighted = metrics.evaluate(Y, F, P, sample_weight=times, propensities=p)
    repeated = metrics.evaluate(
        np.repeat(Y, times, axis=0),
        np.repeat(F, times, axis=0),
        np.repeat(P, times, axis=0),
        propensities=p,
    )
    assert weighted == pytest.approx(repeated)


def test_documented_differences_from_scikit_learn():
    Y, F = np.array([[0, 0, 0], [1, 1, 1], [1, 0, 0]]), np.array([[3.0, 2, 1], [3, 2, 1], [1, 2, 3]])
    assert metrics.ranking_loss(Y, F) == 1.0
    assert skm.label_ranking_loss(Y, F) == pytest.approx(1 / 3)
    assert metrics.coverage(Y, F) == 2.0
    assert skm.coverage_error(Y, F) == 2.0
    assert metrics.average_precision(Y, F) == pytest.approx((1 + 1 / 3) / 2)
    assert skm.label_ranking_average_precision_score(Y, F) == pytest.approx((1 + 1 + 1 / 3) / 3)
    assert metrics.ndcg_at_k(Y, F, k=1) == 0.5
    assert skm.ndcg_score(Y, F, k=1) == pytest.approx(1 / 3)


def test_hand_example():
    # Row 0: labels 0 and 2 relevant, ranking 2, 1, 0, 3.  Row 1: label 3 relevant, all scores tied.
    Y = [[1, 0, 1, 0], [0, 0, 0, 1]]
    F = [[0.2, 0.5, 0.9, 0.1], [0.3, 0.3, 0.3, 0.3]]
    assert metrics.one_error(Y, F) == 0.5
    assert metrics.coverage(Y, F) == 2.5
    assert metrics.coverage(Y, F, normalize=True) == 0.625
    assert metrics.ranking_loss(Y, F) == (0.25 + 1.0) / 2
    assert metrics.average_precision(Y, F) == pytest.approx(((1 + 2 / 3) / 2 + 1 / 4) / 2)
    assert metrics.precision_at_k(Y, F, k=2) == 0.25
    assert metrics.recall_at_k(Y, F, k=2) == 0.25
    assert metrics.ndcg_at_k(Y, F, k=3) == pytest.approx((1 + 0.5) / (1 + 1 / math.log2(3)) / 2)


def test_two_macro_f1_differ():
    # Precision 1, recall 0.5 for one label and the reverse for the other.
    Y, P = np.array([[1, 1], [1, 0], [0, 0]]), np.array([[1, 1], [0, 1], [0, 0]])
    assert metrics.macro_f1(Y, P) == pytest.approx(2 / 3)
    assert metrics.macro_f1_of_averages(Y, P) == pytest.approx(0.75)


@settings(max_examples=60, deadline=None)
@given(problems())
def test_macro_f1_is_at_most_the_f1_of_averages(problem):
    Y, P, _ = problem
    assert metrics.macro_f1(Y, P) <= metrics.macro_f1_of_averages(Y, P) + 1e-12


def test_perfect_and_worst_predictions(rng):
    Y = (rng.random((50, 6)) < 0.4).astype(int)
    Y[:, 0], Y[:, 1] = 1, 0
    k = (1,)
    p = metrics.label_propensities(Y)
    # The best order for propensity-scored precision too: rarest relevant label first.
    F = np.where(Y == 1, 1 / p, 0.1 * rng.random(Y.shape))
    best = metrics.evaluate(Y, F, Y, k=k, propensities=p)
    worst = metrics.evaluate(Y, -F, 1 - Y, k=k, propensities=p)
    for name, value in best.items():
        if name in ("coverage", "recall_at_1", "macro_precision", "macro_recall", "macro_f1") or "of_av" in name:
            continue
        assert value == (1.0 if metrics.higher_is_better[name] else 0.0), name
    assert best["coverage"] == pytest.approx(Y.sum(axis=1).mean() - 1)
    # Label 1 has no positives: 0/0 counts as 0 in macro measures unless asked otherwise.
    assert best["macro_f1"] == pytest.approx(5 / 6)
    assert metrics.macro_f1(Y, Y, zero_division=1) == 1.0
    assert metrics.macro_f1(Y, Y, zero_division=np.nan) == 1.0
    for name, value in worst.items():
        if name in ("coverage", "average_precision"):
            continue
        assert value == (0.0 if metrics.higher_is_better[name] else 1.0), name
    assert worst["coverage"] == 5.0


def test_constant_scores_are_the_worst_ranking(rng):
    Y = (rng.random((30, 5)) < 0.4).astype(int)
    Y[:, 4], Y[:, 0] = 1, 0
    result = metrics.evaluate(Y, np.zeros(Y.shape))
    assert (result["ranking_loss"], result["one_error"], result["coverage"]) == (1.0, 1.0, 4.0)
    assert (result["macro_auc"], result["micro_auc"]) == (0.5, 0.5)


@pytest.mark.parametrize("make", SPARSE_FLAVOURS)
@pytest.mark.parametrize("dtype", [bool, np.int8, np.int64, np.float32, np.float64])
def test_sparse_equals_dense(data, make, dtype):
    Y, P, F = data
    expected = metrics.evaluate(Y, F, P)
    assert metrics.evaluate(make(Y.astype(dtype)), F, make(P.astype(dtype))) == expected
    assert metrics.evaluate(make(Y.astype(dtype)), F, P.astype(dtype)) == expected


def test_stored_zeros_and_unsorted_indices(data):
    Y, P, F = data
    cells = [(i, j) for i in range(Y.shape[0]) for j in reversed(range(Y.shape[1]))]
    rows, columns = np.transpose(cells)
    stored = sparse.csr_matrix((Y[rows, columns], columns, np.arange(0, Y.size + 1, Y.shape[1])), Y.shape)
    assert stored.nnz == Y.size
    assert not stored.has_sorted_indices
    before = stored.indices.copy()
    assert metrics.evaluate(stored, F, P) == metrics.evaluate(Y, F, P)
    assert stored.nnz == Y.size
    assert np.array_equal(stored.indices, before)
    twice = sparse.coo_array((np.ones(2), ([0, 0], [1, 1])), shape=Y.shape)
    with pytest.raises(ValueError, match="Y_pred must be a label indicator"):
        metrics.hamming_loss(Y, twice)


def test_blocks_do_not_change_the_result(data, monkeypatch):
    Y, P, F = data
    expected = metrics.evaluate(Y, F, P)
    for module in ("_ranking", "_top_k"):
        monkeypatch.setattr(f"comargin.metrics.{module}.BLOCK_ELEMENTS", 10)
    monkeypatch.setattr("comargin.metrics._ranking._COLUMN_BLOCK_ELEMENTS", 1)
    assert metrics.evaluate(Y, F, P) == expected


def test_sparse_scores_are_lists_of_predictions():
    Y = sparse.csr_array([[1, 1, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0]])
    # Row 0 predicts label 1 only (with a negative score); row 1 a stored zero for label 2; row 2 nothing.
    scores = sparse.csr_array((np.array([-2.0, 0.0]), np.array([1, 2]), np.array([0, 1, 2, 2])), shape=(3, 4))
    assert metrics.precision_at_k(Y, scores, k=2) == pytest.approx((0.5 + 0.5 + 0) / 3)
    assert metrics.recall_at_k(Y, scores, k=1) == pytest.approx((0.5 + 1 + 0) / 3)
    result = metrics.evaluate(Y, scores, k=(1, 3))
    assert list(result) == [f"{m}_at_{k}" for m in ("precision", "recall", "ndcg") for k in (1, 3)]
    with pytest.raises(ValueError, match="scores must be dense"):
        metrics.one_error(Y, scores)


@settings(max_examples=60, deadline=None)
@given(problems(), st.data())
def test_fully_stored_sparse_scores_equal_dense(problem, data):
    Y, _, F = problem
    k = data.draw(st.integers(1, Y.shape[1] + 3))
    n, L = F.shape
    stored = sparse.csr_array((F.ravel(), np.tile(np.arange(L), n), np.arange(0, n * L + 1, L)), shape=(n, L))
    p = np.linspace(0.2, 1.0, L)
    ours = metrics.evaluate(Y, stored, k=[k], propensities=p)
    dense = metrics.evaluate(Y, F, k=[k], propensities=p)
    for name, value in ours.items():
        assert _equal(value, dense[name]), name


def test_many_labels_stay_sparse(rng):
    # A dense copy of Y or of the scores would take 8e9 bytes here.
    n, L, m = 100_000, 10_000, 3
    columns = rng.integers(0, L, (n, m))
    Y = sparse.csr_array((np.ones(n * m, dtype=np.int64), columns.ravel(), np.arange(0, n * m + 1, m)), shape=(n, L))
    Y.sum_duplicates()
    Y.data[:] = 1
    scores = Y.astype(np.float64)
    result = metrics.evaluate(Y, scores, Y, propensities=metrics.label_propensities(Y))
    assert result["ndcg_at_5"] == 1.0
    assert result["propensity_scored_precision_at_5"] == pytest.approx(1.0)
    assert result["micro_f1"] == 1.0


def test_propensities_follow_the_formula():
    Y = np.zeros((100, 3), dtype=int)
    Y[:100, 0], Y[:10, 1] = 1, 1
    for A, B in ((0.55, 1.5), (0.5, 0.4)):
        C = (math.log(100) - 1) * (B + 1) ** A
        expected = [1 / (1 + C * math.exp(-A * math.log(count + B))) for count in (100, 10, 0)]
        assert metrics.label_propensities(Y, A=A, B=B) == pytest.approx(expected)


def test_nothing_defined_is_nan():
    empty = np.zeros((3, 2), dtype=int)
    result = metrics.evaluate(empty, np.ones((3, 2)), empty, k=(1,))
    for name in [*ROW_MEASURES, "macro_auc", "micro_auc", "recall_at_1", "ndcg_at_1"]:
        assert math.isnan(result[name]), name
    assert result["precision_at_1"] == 0.0
    assert result["subset_accuracy"] == 1.0
    full = np.ones((3, 2), dtype=int)
    assert math.isnan(metrics.ranking_loss(full, np.ones((3, 2))))
    assert metrics.one_error(full, np.ones((3, 2))) == 0.0


def test_one_row_one_label():
    result = metrics.evaluate([[1]], [[0.3]], [[0]])
    assert result["hamming_loss"] == 1.0
    assert (result["one_error"], result["coverage"], result["precision_at_1"]) == (0.0, 0.0, 1.0)
    assert (result["precision_at_3"], result["recall_at_3"], result["ndcg_at_3"]) == (1 / 3, 1.0, 1.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.hamming_loss([[1, 0]], [[1, 0, 1]]), "Y_pred must have the shape of Y_true"),
        (lambda: metrics.hamming_loss([1, 0], [1, 0]), "Y_true must be a label indicator of shape"),
        (lambda: metrics.hamming_loss([[2, 0]], [[1, 0]]), "Y_true must be .*, got 2"),
        (lambda: metrics.hamming_loss([[1, 0]], [[1, -1]]), "Y_pred must be .*, got -1"),
        (lambda: metrics.hamming_loss([[1, np.inf]], [[1, 0]]), "Y_true must be .*, got inf"),
        (lambda: metrics.hamming_loss([["a", "b"]], [[1, 0]]), "Y_true must be .* got dtype"),
        (lambda: metrics.hamming_loss(sparse.csr_array([[3, 0]]), [[1, 0]]), "Y_true must be .* got 3"),
        (
            lambda: metrics.hamming_loss(np.empty((0, 2)), np.empty((0, 2))),
            "Y_true must have at least one row",
        ),
        (lambda: metrics.ranking_loss([[1, 0]], [[1.0, np.nan]]), "scores must not contain NaN"),
        (lambda: metrics.ranking_loss([[1, 0]], [[1.0]]), "scores must have the shape of Y_true"),
        (lambda: metrics.ranking_loss([[1, 0]], [["a", "b"]]), "scores must hold numbers"),
        (lambda: metrics.precision_at_k([[1, 0]], [[1.0, 0]], k=0), "k must be an int of at least 1, got 0"),
        (lambda: metrics.precision_at_k([[1, 0]], [[1.0, 0]], k=1.0), "k must be an int of at least 1"),
        (lambda: metrics.precision_at_k([[1, 0]], [[1.0, 0]], k=True), "k must be an int of at least 1"),
        (lambda: metrics.evaluate([[1, 0]]), "scores or Y_pred must be given"),
        (lambda: metrics.evaluate([[1, 0]], [[1.0]]), "scores must have the shape of Y,"),
        (lambda: metrics.evaluate([[1, 0]], [[1.0, 0.0]], k=(0,)), "k must be an int of at least 1"),
        (lambda: metrics.evaluate([[1, 0]], [[1.0, 0.0]], k=-3), "k must be an int of at least 1, got -3"),
        (lambda: metrics.evaluate([[1, 0]], [[1.0, 0.0]], k="3"), "k must be an int of at least 1, got '3'"),
        (lambda: metrics.evaluate([[1, 0]], [[1.0, 0.0]], k=None), "k must be an int of at least 1, got None"),
        (lambda: metrics.propensity_scorer(0, [0.5]), "k must be an int of at least 1"),
        (lambda: metrics.propensity_scorer(1, [0.5, 2.0]), "propensities must be in"),
        (lambda: metrics.propensity_scorer(1, [[0.5, 1.0]]), "propensities must have shape"),
        (lambda: metrics.macro_f1([[1, 0]], [[1, 0]], zero_division=2), "zero_division must be 0, 1 or nan"),
        (lambda: metrics.macro_f1([[1, 0]], [[1, 0]], sample_weight=[1, 2]), "sample_weight must have shape"),
        (lambda: metrics.macro_f1([[1, 0]], [[1, 0]], sample_weight=[-1]), "sample_weight must be finite"),
        (lambda: metrics.macro_f1([[1, 0]], [[1, 0]], sample_weight=[0]), "sample_weight must be finite"),
        (lambda: metrics.label_propensities([[1, 0], [0, 1]]), "Y_train must have at least 3 rows"),
        (lambda: metrics.label_propensities(np.ones((3, 1)), A=0), "A must be a positive number"),
        (lambda: metrics.label_propensities(np.ones((3, 1)), B=np.inf), "B must be a positive number"),
        (
            lambda: metrics.propensity_scored_precision_at_k([[1, 0]], [[1.0, 0]], k=1, propensities=[1]),
            "propensities must have shape",
        ),
        (
            lambda: metrics.propensity_scored_precision_at_k([[1, 0]], [[1.0, 0]], k=1, propensities=[1, 0]),
            "propensities must be in",
        ),
        (lambda: metrics.per_label([[1, 0]], [[1, 0]], ["a"]), "label_names must have 2 entries"),
    ],
)
def test_bad_input_names_the_argument(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_input_is_not_changed(data):
    Y, P, F = data
    copies = [a.copy() for a in data]
    metrics.evaluate(Y, F, P)
    for before, after in zip(copies, data, strict=True):
        assert np.array_equal(before, after)
    for array in data:
        array.setflags(write=False)
    metrics.evaluate(Y, F, P, sample_weight=np.ones(len(Y)))


def test_per_label_table(data):
    Y, P, F = data
    Y = np.column_stack([Y, np.zeros(len(Y), dtype=int)])
    P = np.column_stack([P, np.zeros(len(P), dtype=int)])
    F = np.column_stack([F, np.zeros(len(F))])
    names = [f"label {j}" for j in range(Y.shape[1])]
    table = metrics.per_label(sparse.csr_array(Y), P, names, F)
    assert [row["label"] for row in table] == names
    for j, row in enumerate(table[:-1]):
        assert row["support"] == Y[:, j].sum()
        assert row["predicted"] == P[:, j].sum()
        assert row["precision"] == pytest.approx(skm.precision_score(Y[:, j], P[:, j]))
        assert row["recall"] == pytest.approx(skm.recall_score(Y[:, j], P[:, j]))
        assert row["f1"] == pytest.approx(skm.f1_score(Y[:, j], P[:, j]))
        assert row["auc"] == pytest.approx(skm.roc_auc_score(Y[:, j], F[:, j]))
    assert table[-1]["support"] == 0
    assert all(math.isnan(table[-1][key]) for key in ("precision", "recall", "f1", "auc"))
    plain = metrics.per_label(Y, P)
    assert plain[3]["label"] == 3
    assert "auc" not in plain[3]


# Scorers


def logistic():
    """A solver without BLAS: fits this small gain nothing from threads."""
    return LogisticRegression(solver="liblinear")


@pytest.fixture(scope="module")
def task():
    return make_multilabel_classification(n_samples=120, n_features=8, n_classes=6, random_state=0)


def test_scorers_cover_every_measure():
    of_probabilities = set(metrics.evaluate([[1, 0]], probabilities=[[0.5, 0.5]]))
    measures = {n for n in metrics.higher_is_better if not n.startswith("propensity")} - of_probabilities
    assert set(metrics.scorers) == measures
    result = metrics.evaluate([[1, 0, 0, 1, 0]] * 3, [[1.0, 2, 3, 4, 5]] * 3, [[0, 0, 0, 1, 0]] * 3)
    assert list(result) == list(metrics.scorers)


@pytest.mark.parametrize("name", list(MEASURES))
def test_the_table_says_what_the_docstring_says(name):
    meaning = MEASURES[name].meaning
    assert meaning.endswith(".")
    first_line = getattr(metrics, name).__doc__.splitlines()[0]
    assert first_line.startswith(meaning.format(k="k").removesuffix("."))


@pytest.mark.parametrize("name", list(metrics.scorers))
def test_grid_search_with_each_scorer(task, name):
    X, Y = task
    model = OneVsRestClassifier(logistic())
    grid = {"estimator__C": [1e-3, 1.0]}
    search = GridSearchCV(model, grid, scoring=metrics.scorers[name], cv=2, error_score="raise").fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    value = metrics.scorers[name](search, X, Y)
    if name in SET_MEASURES:
        expected = getattr(metrics, name)(Y, search.predict(X))
    else:
        expected = metrics.evaluate(Y, search.decision_function(X))[name]
    assert value == pytest.approx(expected if metrics.higher_is_better[name] else -expected)


def test_scorers_prefer_the_better_model(task):
    X, Y = task
    good = OneVsRestClassifier(logistic()).fit(X, Y)
    bad = OneVsRestClassifier(logistic()).fit(X, 1 - Y)
    for name, scorer in metrics.scorers.items():
        assert scorer(good, X, Y) > scorer(bad, X, Y), name


def test_several_scorers_and_sparse_targets(task):
    X, Y = task
    search = GridSearchCV(
        OneVsRestClassifier(logistic()),
        {"estimator__C": [0.1, 1.0]},
        scoring={name: metrics.scorers[name] for name in ("micro_f1", "ranking_loss")},
        refit="ranking_loss",
        cv=2,
        error_score="raise",
    ).fit(X, sparse.csr_matrix(Y))
    assert (search.cv_results_["mean_test_ranking_loss"] <= 0).all()
    assert (search.cv_results_["mean_test_micro_f1"] >= 0).all()


@pytest.mark.parametrize("name", list(metrics.scorers))
def test_scorers_of_a_single_label_column(task, name):
    """Forests turn the column into a vector, and give two columns of probabilities."""
    X, Y = task[0], task[1][:, :1]
    forest = RandomForestClassifier(n_estimators=5, random_state=0).fit(X, Y.ravel())
    predicted, scores = forest.predict(X)[:, None], forest.predict_proba(X)[:, 1:]
    expected = metrics.evaluate(Y, scores, predicted)[name]
    expected = expected if metrics.higher_is_better[name] else -expected
    assert _equal(metrics.scorers[name](forest, X, Y), expected)
    assert _equal(metrics.scorers[name](forest, X, sparse.csr_array(Y)), expected)
    assert _equal(metrics.scorers[name](forest, X, Y.ravel()), expected)
    words = np.array(["off", "on"])[Y.ravel()]
    forest.fit(X, words)
    assert _equal(metrics.scorers[name](forest, X, words), expected)


def test_scorers_of_a_vector_y_need_the_two_classes_of_the_estimator(task):
    X, Y = task
    model = logistic().fit(X, Y[:, 0])
    # The classes are those of the estimator: a part of the rows may show one of them only.
    positives = Y[:, 0] == 1
    recall = (model.predict(X)[positives] == 1).mean()
    assert metrics.scorers["micro_recall"](model, X[positives], Y[positives, 0]) == pytest.approx(recall)
    assert M3LClassifier(random_state=0).fit(X, Y[:, 0]).classes_.tolist() == [0, 1]
    m3l = cross_val_score(M3LClassifier(random_state=0), X, Y[:, 0], scoring=metrics.scorers["macro_auc"], cv=3)
    auc = cross_val_score(M3LClassifier(random_state=0), X, Y[:, 0], scoring="roc_auc", cv=3)
    assert m3l == pytest.approx(auc)
    for y in (Y[:, 0] + 1, Y.sum(axis=1), np.where(Y[:, 0], "yes", "no")):
        with pytest.raises(ValueError, match=r"y must be a label indicator .* knows the classes \[0, 1\]"):
            metrics.scorers["micro_f1"](model, X, y)
    three = GaussianNB().fit(X, Y[:, :2].sum(axis=1))
    with pytest.raises(ValueError, match=r"^y must be .* knows the classes \[0, 1, 2\]"):
        metrics.scorers["macro_auc"](three, X, Y[:, :2].sum(axis=1))
    with pytest.raises(ValueError, match="Y_pred must be a label indicator"):
        metrics.scorers["micro_f1"](logistic().fit(X, Y[:, 0] + 1), X, Y[:, :1])


def test_all_scorers_at_once_on_three_labels(task):
    X, Y = task[0], task[1][:, :3]
    result = cross_validate(
        OneVsRestClassifier(logistic()), X, Y, scoring=dict(metrics.scorers), cv=2, error_score="raise"
    )
    for name in metrics.scorers:
        assert np.isfinite(result[f"test_{name}"]).all(), name


def test_scorers_of_losses_are_negated(task):
    X, Y = task
    model = OneVsRestClassifier(logistic()).fit(X, Y)
    result = metrics.evaluate(Y, model.decision_function(X), model.predict(X))
    losses = [name for name in metrics.scorers if not metrics.higher_is_better[name]]
    assert losses == ["hamming_loss", "one_error", "coverage", "ranking_loss"]
    for name, value in result.items():
        assert metrics.scorers[name](model, X, Y) == pytest.approx(-value if name in losses else value)
    for text in (metrics.__doc__, metrics.scorers.__doc__):
        assert "negated" in text
        assert all(f'"{name}"' in text for name in losses)


def test_scorers_know_any_depth(task):
    X, Y = task
    model = OneVsRestClassifier(logistic()).fit(X, Y)
    result = metrics.evaluate(Y, model.decision_function(X), k=(2, 40))
    for k in (2, 40):
        for name in (f"precision_at_{k}", f"recall_at_{k}", f"ndcg_at_{k}"):
            assert metrics.higher_is_better[name]
            assert metrics.scorers[name](model, X, Y) == pytest.approx(result[name])
    assert metrics.higher_is_better["propensity_scored_precision_at_2"]
    assert len(metrics.scorers) == len(list(metrics.scorers)) == 27


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("f1_micro", "'f1_micro'; did you mean 'micro_f1'"),
        ("hamming", "did you mean 'hamming_loss'"),
        ("roc_auc", "auc"),
        ("precision_at_0", "no measure is named 'precision_at_0'"),
        ("hits_at_3", "no measure is named 'hits_at_3'"),
        ("xyzzy", "there are hamming_loss, subset_accuracy"),
        (3, "no measure is named 3"),
        ("propensity_scored_precision_at_3", r"use propensity_scorer\(k, propensities\)"),
    ],
)
def test_unknown_names_lead_to_known_ones(name, message):
    with pytest.raises(KeyError, match=message):
        metrics.scorers[name]
    assert name not in metrics.scorers
    assert metrics.scorers.get(name) is None
    with pytest.raises(KeyError, match=message):
        metrics.MeasureScorer(name)(KNeighborsClassifier(1).fit([[0.0]], [[1, 0]]), [[0.0]], [[1, 0]])


def test_scorers_cannot_be_changed():
    with pytest.raises(TypeError):
        metrics.scorers["micro_f1"] = metrics.scorers["macro_f1"]


def test_propensity_scorer(task):
    X, Y = task
    p = metrics.label_propensities(Y)
    model = OneVsRestClassifier(logistic()).fit(X, Y)
    scores = model.decision_function(X)
    weight = np.arange(len(Y)) % 3
    scorer = metrics.propensity_scorer(3, p)
    assert scorer(model, X, sparse.csr_array(Y)) == pytest.approx(naive_propensity_scored(Y, scores, 3, p))
    assert scorer(model, X, Y, sample_weight=weight) == pytest.approx(
        metrics.propensity_scored_precision_at_k(Y, scores, k=3, propensities=p, sample_weight=weight)
    )
    assert pickle.loads(pickle.dumps(scorer)) == scorer == metrics.propensity_scorer(3, p.tolist())
    assert scorer != metrics.propensity_scorer(2, p)
    assert len({scorer, metrics.propensity_scorer(3, p), metrics.propensity_scorer(3, p / 2)}) == 2
    assert repr(scorer) == "MeasureScorer(name='propensity_scored_precision_at_3')"
    search = GridSearchCV(
        OneVsRestClassifier(logistic()), {"estimator__C": [1e-3, 1.0]}, scoring=scorer, cv=2, error_score="raise"
    )
    assert 0 < search.fit(X, Y).best_score_ <= 1
    with pytest.raises(ValueError, match=r"propensities must have shape \(6,\), got \(5,\)"):
        metrics.propensity_scorer(3, p[:5])(model, X, Y)


def test_scorer_is_a_value():
    scorer = metrics.scorers["coverage"]
    assert pickle.loads(pickle.dumps(scorer)) == scorer
    assert repr(scorer) == "MeasureScorer(name='coverage')"


@pytest.mark.parametrize(
    "model",
    [
        OneVsRestClassifier(logistic()),
        OneVsRestClassifier(LinearSVC()),
        OneVsRestClassifier(GaussianNB()),
        make_pipeline(StandardScaler(), OneVsRestClassifier(logistic())),
        make_pipeline(StandardScaler(), RandomForestClassifier(n_estimators=5, random_state=0)),
        GridSearchCV(RandomForestClassifier(random_state=0), {"n_estimators": [3]}, cv=2),
        MultiOutputClassifier(logistic()),
        ClassifierChain(logistic()),
        KNeighborsClassifier(),
        RidgeClassifier(),
    ],
    ids=lambda model: type(model).__name__,
)
def test_scores_of_any_classifier(task, model):
    X, Y = task
    model.fit(X, Y)
    scores = metrics.scores_of(model, X, n_labels=6)
    assert scores.shape == Y.shape
    # On the training data every label's scores must point the right way.
    assert all(row["auc"] > 0.6 for row in metrics.per_label(Y, Y, scores=scores))
    assert np.array_equal(scores, metrics.scores_of(model, X))


def test_scores_of_labels_with_one_class(task):
    X, Y = task
    Y = Y.copy()
    Y[:, 1], Y[:, 2] = 0, 1
    scores = metrics.scores_of(RandomForestClassifier(n_estimators=3, random_state=0).fit(X, Y), X)
    assert not scores[:, 1].any()
    assert (scores[:, 2] == 1).all()


def test_scores_of_a_wrapper_around_one_matrix_per_label(task):
    from comargin.decisions import ThresholdClassifierCV

    X, Y = task
    model = ThresholdClassifierCV(RandomForestClassifier(n_estimators=3, random_state=0), cv=2).fit(X, Y)
    expected = np.column_stack([matrix[:, 1] for matrix in model.estimator_.predict_proba(X)])
    assert np.array_equal(metrics.scores_of(model, X), expected)


def test_scores_of_binary_classifiers(task):
    X, Y = task
    y = Y[:, 0]
    linear = logistic().fit(X, y)
    assert np.array_equal(metrics.scores_of(linear, X), linear.decision_function(X)[:, None])
    bayes = GaussianNB().fit(X, y)
    assert np.array_equal(metrics.scores_of(bayes, X, n_labels=1), bayes.predict_proba(X)[:, [1]])


def test_scores_of_says_what_is_missing(task):
    X, Y = task
    with pytest.raises(TypeError, match="decision_function or predict_proba, StandardScaler has neither"):
        metrics.scores_of(StandardScaler().fit(X), X)
    with pytest.raises(ValueError, match="n_labels=4 columns"):
        metrics.scores_of(RidgeClassifier().fit(X, Y), X, n_labels=4)
    forest = RandomForestClassifier(n_estimators=2, random_state=0).fit(X, 2 * Y)
    with pytest.raises(ValueError, match="labels must be 0 and 1"):
        metrics.scores_of(forest, X)


def test_cross_val_score_with_sample_of_scorers(task):
    X, Y = task
    values = cross_val_score(KNeighborsClassifier(), X, Y, scoring=metrics.scorers["one_error"], cv=3)
    assert ((values >= -1) & (values <= 0)).all()
