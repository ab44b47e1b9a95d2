"""Measures over known cells only: what is said of an unknown cell changes no measure."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_equal

from comargin import M3LClassifier
from comargin.metrics import evaluate, per_label, scorers

PROPENSITIES = np.array([0.2, 0.9, 0.5, 0.7, 0.4])
# Means over the rows that have a known cell.
OF_ROWS = (
    *("subset_accuracy", "example_precision", "example_recall", "example_f1"),
    *("one_error", "coverage", "ranking_loss", "average_precision"),
    *("precision_at_1", "recall_at_1", "ndcg_at_1", "precision_at_3", "recall_at_3", "ndcg_at_3"),
)


@pytest.fixture
def predicted(rng):
    """Y with unknown cells, scores with ties, label sets, probabilities; a row and a label are unknown throughout."""
    Y = (rng.random((60, 5)) < 0.4).astype(float)
    Y[rng.random(Y.shape) < 0.3] = np.nan
    Y[4], Y[:, 2] = np.nan, np.nan
    scores = rng.normal(size=Y.shape).round(1)
    return Y, scores, (scores > 0.2).astype(int), 1 / (1 + np.exp(-scores))


def all_measures(Y, scores, Y_pred, p, **options):
    return evaluate(Y, scores, Y_pred, probabilities=p, propensities=PROPENSITIES[: Y.shape[1]], k=[1, 3], **options)


def test_nothing_said_of_an_unknown_cell_matters(predicted, rng):
    Y, scores, Y_pred, p = predicted
    unknown = np.isnan(Y)
    expected = all_measures(Y, scores, Y_pred, p)
    other = np.where(unknown, 100.0 * rng.normal(size=Y.shape), scores)
    changed = all_measures(Y, other, np.where(unknown, 1 - Y_pred, Y_pred), np.where(unknown, 1.0 - p, p))
    assert_equal(changed, expected)
    assert not np.isnan(list(expected.values())).any()
    below = np.where((Y == 1) & (rng.random(Y.shape) < 0.5), -np.inf, scores)  # not even beside infinite scores
    assert_equal(evaluate(Y, np.where(unknown, -np.inf, below)), evaluate(Y, np.where(unknown, np.inf, below)))


def test_rows_and_labels_without_a_known_cell_are_left_out(predicted, rng):
    Y, scores, Y_pred, p = (array[:40, [0, 1, 3]] for array in predicted)
    complete = np.nan_to_num(Y)
    wide, taller = np.full((45, 4), np.nan), np.arange(45) < 40
    wide[np.ix_(taller, [0, 1, 3])] = complete
    weight = 0.5 + rng.random(45)

    def spread(values):
        out = np.zeros((45, 4), dtype=values.dtype)
        out[np.ix_(taller, [0, 1, 3])] = values
        return out

    expected = evaluate(complete, scores, Y_pred, probabilities=p, k=[1, 3], sample_weight=weight[:40])
    found = evaluate(wide, spread(scores), spread(Y_pred), probabilities=spread(p), k=[1, 3], sample_weight=weight)
    for name, value in expected.items():
        assert_allclose(found[name], value, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("weighted", [False, True])
def test_measures_of_rows_are_those_of_their_known_labels(predicted, rng, weighted):
    Y, scores, Y_pred, _ = predicted
    weight = 0.5 + rng.random(len(Y)) if weighted else np.ones(len(Y))
    found = evaluate(Y, scores, Y_pred, k=[1, 3], sample_weight=weight if weighted else None)
    rows = [~np.isnan(row) for row in Y]
    alone = [
        evaluate(y[None, known], s[None, known], q[None, known], k=[1, 3]) if known.any() else None
        for y, s, q, known in zip(Y, scores, Y_pred, rows, strict=True)
    ]
    for name in OF_ROWS:
        values = np.array([np.nan if one is None else one[name] for one in alone])
        defined = ~np.isnan(values)
        assert_allclose(found[name], np.average(values[defined], weights=weight[defined]), rtol=1e-12, err_msg=name)


def test_measures_of_cells_and_labels_are_those_of_the_known_ones(predicted):
    Y, scores, Y_pred, p = predicted
    known = ~np.isnan(Y)
    found = all_measures(Y, scores, Y_pred, p)
    pooled = evaluate(
        Y[known][:, None], scores[known][:, None], Y_pred[known][:, None], probabilities=p[known][:, None]
    )
    for name in ("hamming_loss", "micro_precision", "micro_recall", "micro_f1", "micro_auc", "brier_score", "log_loss"):
        assert_allclose(found[name], pooled[name], rtol=1e-12, err_msg=name)
    by_label = [
        evaluate(*(array[known[:, k]][:, [k]] for array in (Y, scores, Y_pred)), probabilities=p[known[:, k]][:, [k]])
        for k in (0, 1, 3, 4)
    ]
    for name in ("macro_precision", "macro_recall", "macro_f1", "macro_auc", "calibration_error"):
        assert_allclose(found[name], np.mean([one[name] for one in by_label]), rtol=1e-12, err_msg=name)
    table = per_label(Y, Y_pred, scores=scores)
    assert [row["known"] for row in table] == known.sum(axis=0).tolist()
    assert table[0]["f1"] == by_label[0]["micro_f1"]
    assert "known" not in per_label(np.nan_to_num(Y), Y_pred)[0]


def test_sparse_scores_and_sparse_truth(predicted):
    Y, scores, Y_pred, _ = predicted
    stored = sp.coo_array(np.where(np.isnan(Y), 2.0, Y))
    stored.data[stored.data == 2.0] = np.nan
    assert_equal(evaluate(stored.tocsr(), scores, Y_pred), evaluate(Y, scores, Y_pred))
    some = sp.csr_array(np.where(scores > 0, scores, 0.0))
    dense = np.where(scores > 0, scores, -np.inf)
    found, expected = evaluate(Y, some, k=[1]), evaluate(Y, dense, k=[1])
    # Where a row has no stored score in a known cell nothing is predicted, which a dense row cannot say.
    has_one = ((scores > 0) & ~np.isnan(Y)).any(axis=1)
    assert found["precision_at_1"] <= expected["precision_at_1"]
    assert_allclose(
        evaluate(Y[has_one], some[has_one], k=[1])["precision_at_1"],
        evaluate(Y[has_one], dense[has_one], k=[1])["precision_at_1"],
    )


def test_nothing_known_is_not_a_number():
    Y = np.full((3, 2), np.nan)
    with pytest.raises(ValueError, match="not zero for all rows"):
        evaluate(np.zeros((3, 2)), np.zeros((3, 2)), sample_weight=np.zeros(3))
    found = evaluate(Y, np.eye(3, 2), np.eye(3, 2), probabilities=np.full((3, 2), 0.5))
    assert all(np.isnan(value) for name, value in found.items() if not name.startswith("micro_"))


def test_scorers_take_unknown_labels(predicted, rng):
    Y = predicted[0]
    X = rng.normal(size=(len(Y), 3))
    model = M3LClassifier(random_state=0).fit(X, Y)
    for name in ("micro_f1", "ranking_loss", "precision_at_3"):
        value = evaluate(Y, model.decision_function(X), model.predict(X))[name]
        assert scorers[name](model, X, Y) == (-value if name == "ranking_loss" else value)
