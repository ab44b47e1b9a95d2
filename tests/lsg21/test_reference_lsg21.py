"""The references of LSG21 agree with each other, with plain loops, with scikit-learn and with numbers by hand."""

import math

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import Lasso, MultiTaskLasso
from tests.lsg21 import naive_lsg21 as naive
from tests.lsg21 import reference_lsg21 as reference
from tests.rank.reference_rank import solve

SHAPES = [(18, 5, 4), (7, 11, 3)]  # more rows than features, and fewer


def instance(rng, n=18, d=5, n_labels=4):
    """Labels of a few shared features, and an affinity with a missing edge."""
    X = rng.normal(size=(n, d)) + 0.5
    Y = (X[:, :2] @ rng.normal(size=(2, n_labels)) + 0.5 * rng.normal(size=(n, n_labels)) > 0).astype(float)
    Y[0], Y[1] = 0.0, 1.0  # no column is constant
    A = rng.uniform(0.2, 1.0, (n_labels, n_labels))
    A = (A + A.T) / 2.0
    A[0, 1] = A[1, 0] = 0.0
    return X, Y, A


# ---- the objective


@pytest.mark.parametrize("self_edges", [True, False])
def test_objective_equals_plain_loops_and_the_sum_over_edges(self_edges, rng):
    X, Y, A = instance(rng)
    W, b, s = rng.normal(size=(5, 4)), rng.normal(size=4), rng.uniform(0.0, 2.0, 18)
    value = reference.objective(W, b, X, Y, A, 0.7, self_edges, s)
    assert_allclose(value, naive.objective(W, b, X, Y, A, 0.7, self_edges, s), rtol=1e-13)
    graph = reference.edge_list(A, self_edges)
    assert len(graph) == (9 if self_edges else 5)
    by_edges = sum(omega * np.linalg.norm(W[:, labels], axis=1).sum() for labels, omega in graph)
    assert_allclose(reference.penalty(W, A, self_edges), by_edges, rtol=1e-13)


def test_penalty_by_hand():
    W, A = np.array([[3.0, 4.0], [0.0, -2.0]]), np.array([[1.0, 0.5], [0.5, 2.0]])
    edge = 2 * 0.5 * (5.0 + 2.0)
    assert_allclose(reference.penalty(W, A, self_edges=False), edge, rtol=1e-14)
    assert_allclose(reference.penalty(W, A), edge + math.sqrt(2.0) * (1.0 * 3.0 + 2.0 * 6.0), rtol=1e-14)


def test_negative_affinities_are_refused():
    with pytest.raises(ValueError, match="A must not have negative entries"):
        reference.edge_list([[1.0, -0.1], [-0.1, 1.0]])


# ---- the optimum


@pytest.mark.parametrize(("alpha", "fit_intercept"), [(0.1, False), (0.4, True), (50.0, True)])
def test_one_label_and_one_feature_by_hand(alpha, fit_intercept):
    # ||x w - y||^2 + alpha sqrt(2) a |w|: x.y shrunk by alpha a / sqrt(2), over x.x; b takes the means off first.
    x, y, a = np.array([1.0, -2.0, 0.5, 3.0]), np.array([1.0, 0.0, 0.0, 1.0]), 0.8
    best = reference.lsg21_optimum(x[:, None], y[:, None], [[a]], alpha, fit_intercept=fit_intercept)
    xc, yc = (x - x.mean(), y - y.mean()) if fit_intercept else (x, y)
    w = max(xc @ yc - alpha * a / math.sqrt(2.0), 0.0) / (xc @ xc)
    assert_allclose(best.W, [[w]], atol=1e-8)
    assert_allclose(best.b, [y.mean() - w * x.mean() if fit_intercept else 0.0], atol=1e-8)
    assert (w > 0.1) == (alpha < 10.0)


@pytest.mark.parametrize("alpha", [0.5, 2.0, 20.0])
def test_one_edge_by_hand(alpha):
    # One feature, two labels, no self edges: x.x ||w - u||^2 + 2 alpha a ||w|| shrinks u = x^T Y / x.x as a whole.
    x, Y, a = np.array([1.0, -2.0, 0.5, 3.0]), np.array([[1, 0], [0, 0], [1, 1], [1, 1]]), 0.6
    u = x @ Y / (x @ x)
    w = max(1.0 - alpha * a / (x @ x * np.linalg.norm(u)), 0.0) * u
    A = [[9.0, a], [a, 9.0]]
    best = reference.lsg21_optimum(x[:, None], Y, A, alpha, self_edges=False, fit_intercept=False)
    assert_allclose(best.W, [w], atol=1e-8)
    assert (w.max() > 0.1) == (alpha < 10.0)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_only_self_edges_is_the_lasso_of_every_label(shape, fit_intercept, rng):
    X, Y, _ = instance(rng, *shape)
    A, alpha = np.diag(rng.uniform(0.5, 1.5, shape[2])), 0.8
    best = reference.lsg21_optimum(X, Y, A, alpha, fit_intercept=fit_intercept)
    for label in range(shape[2]):
        strength = math.sqrt(2.0) * alpha * A[label, label] / (2.0 * len(X))
        lasso = Lasso(alpha=strength, fit_intercept=fit_intercept, tol=1e-12, max_iter=100_000).fit(X, Y[:, label])
        assert_allclose(best.W[:, label], lasso.coef_, atol=1e-6)
        assert_allclose(best.b[label], lasso.intercept_, atol=1e-6)
    assert np.any(np.abs(best.W) > 0.05)
    assert np.any(best.W == 0.0)


@pytest.mark.parametrize("shape", [(18, 5, 2), (7, 11, 2)])
def test_one_edge_is_the_multi_task_lasso(shape, rng):
    X, Y, _ = instance(rng, *shape)
    a = 0.7
    A = np.full((2, 2), a)
    alpha = 0.5 * reference.alpha_max(X, Y, A, self_edges=False)
    best = reference.lsg21_optimum(X, Y, A, alpha, self_edges=False)
    rival = MultiTaskLasso(alpha=alpha * a / len(X), tol=1e-12, max_iter=100_000).fit(X, Y)
    assert_allclose(best.W, rival.coef_.T, atol=1e-6)
    assert_allclose(best.b, rival.intercept_, atol=1e-6)
    rows = np.abs(best.W).max(axis=1)
    assert rows.max() > 0.02
    assert rows.min() == 0.0


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("self_edges", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_reweighting_finds_the_optimum(shape, self_edges, fit_intercept, rng):
    X, Y, A = instance(rng, *shape)
    s = rng.uniform(0.3, 3.0, len(X))
    options = {"self_edges": self_edges, "fit_intercept": fit_intercept, "sample_weight": s}
    best = reference.lsg21_optimum(X, Y, A, 0.3, **options)
    run = naive.reweighting(X, Y, A, 0.3, 200, eps=1e-7, **options)
    assert np.all(np.diff(run.smoothed) <= 1e-12 * run.smoothed[0])
    assert run.objective[1] > 1.0001 * best.objective
    assert best.objective * (1.0 - 1e-9) <= run.objective[-1] <= best.objective * (1.0 + 2e-5)
    assert_allclose(run.W, best.W, atol=5e-3)
    assert_allclose(run.b, best.b, atol=5e-3)
    assert np.abs(best.W).max() > 0.05
    assert np.any(best.b != 0.0) == fit_intercept
    assert_allclose(run.objective[-1], reference.objective(run.W, run.b, X, Y, A, 0.3, self_edges, s), rtol=1e-12)


def test_reweighting_slows_down(rng):
    # Fast at first; what is left after many rounds is the smoothing of the zeros, about alpha eps for each of them.
    X, Y, A = instance(rng)
    best = reference.lsg21_optimum(X, Y, A, 1.0)
    excess = (np.array(naive.reweighting(X, Y, A, 1.0, 200).objective) - best.objective) / best.objective
    assert np.sum(best.W == 0.0) > 3
    assert 1e-6 < excess[10] < 5e-3
    assert -1e-9 < excess[200] < 5e-6
    assert excess[200] < 0.05 * excess[10]


@pytest.mark.parametrize("self_edges", [True, False])
def test_facts_about_the_optimum(self_edges, rng):
    X, Y, A = instance(rng, 20, 6)
    s, alpha = rng.uniform(0.3, 3.0, 20), 0.6
    best = reference.lsg21_optimum(X, Y, A, alpha, self_edges=self_edges, sample_weight=s)
    residual = Y - X @ best.W - best.b
    assert_allclose(best.T, 2.0 * s[:, None] * residual, atol=1e-5)
    assert_allclose(s @ residual, 0.0, atol=1e-8)
    # Optimality: no row of the gradient is longer than alpha, and it is along W: <X^T T, W> = alpha Omega(W).
    gradient = X.T @ (2.0 * s[:, None] * residual)
    norms = [reference.dual_norm(g, A, self_edges) for g in gradient]
    assert max(norms) <= alpha * (1.0 + 1e-6)
    assert_allclose(np.sum(gradient * best.W), alpha * reference.penalty(best.W, A, self_edges), rtol=1e-6)
    for row, norm in zip(best.W, norms, strict=True):
        assert np.abs(row).max() < 1e-6 or norm == pytest.approx(alpha, rel=1e-6)
    assert np.abs(best.W).max() > 0.05


def test_weights_are_repeated_rows(rng):
    X, Y, A = instance(rng)
    s = np.ones(18)
    s[2], s[5] = 2.0, 0.0
    one = reference.lsg21_optimum(X, Y, A, 0.5, sample_weight=s)
    rows = np.append(np.delete(np.arange(18), 5), 2)
    two = reference.lsg21_optimum(X[rows], Y[rows], A, 0.5)
    assert_allclose(one.objective, two.objective, rtol=1e-9)
    assert_allclose(one.W, two.W, atol=1e-9)
    assert_allclose(one.b, two.b, atol=1e-9)
    assert np.abs(one.W - reference.lsg21_optimum(X, Y, A, 0.5).W).max() > 1e-4
    maxima = [
        reference.alpha_max(X, Y, A, sample_weight=s),
        reference.alpha_max(X[rows], Y[rows], A),
    ]
    assert_allclose(maxima[0], maxima[1], rtol=1e-9)


def test_only_the_symmetric_part_of_the_affinity_counts(rng):
    X, Y, A = instance(rng)
    upper = np.triu(2.0 * A, 1) + np.diag(np.diag(A))
    one, two = reference.lsg21_optimum(X, Y, A, 0.5), reference.lsg21_optimum(X, Y, upper, 0.5)
    assert_allclose(one.objective, two.objective, rtol=1e-9)
    assert_allclose(reference.alpha_max(X, Y, A), reference.alpha_max(X, Y, upper), rtol=1e-9)
    runs = [naive.reweighting(X, Y, M, 0.5, 5).W for M in (A, upper)]
    assert_allclose(runs[0], runs[1], rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_label_without_edges_has_the_least_norm(shape, rng):
    X, Y, A = instance(rng, *shape)
    A[2, :] = A[:, 2] = 0.0
    A[2, 2] = 5.0
    s = rng.uniform(0.5, 2.0, len(X))
    best = reference.lsg21_optimum(X, Y, A, 0.4, self_edges=False, sample_weight=s)
    run = naive.reweighting(X, Y, A, 0.4, 2, self_edges=False, sample_weight=s)
    assert_allclose(run.W[:, 2], best.W[:, 2], atol=1e-8)
    assert_allclose(run.b[2], best.b[2], atol=1e-8)
    others = [label for label in range(shape[2]) if label != 2]
    rest = reference.lsg21_optimum(X, Y[:, others], A[np.ix_(others, others)], 0.4, self_edges=False, sample_weight=s)
    assert_allclose(best.W[:, others], rest.W, atol=1e-6)
    residual = Y[:, 2] - X @ best.W[:, 2] - best.b[2]
    if shape[0] < shape[1]:
        assert_allclose(residual, 0.0, atol=1e-9)
        centred = X - s @ X / s.sum()
        inside = np.linalg.lstsq(centred.T, best.W[:, 2], rcond=None)[0]
        assert_allclose(centred.T @ inside, best.W[:, 2], atol=1e-9)  # in the span of rows: of least norm
    else:
        assert_allclose(X.T @ (s * residual), 0.0, atol=1e-9)
    assert np.abs(best.W[:, 2]).max() > 0.05


def test_no_penalty_is_least_squares(rng):
    X, Y, A = instance(rng)
    design = np.column_stack([X, np.ones(len(X))])
    expected = np.linalg.lstsq(design, Y, rcond=None)[0]
    for affinity, alpha in ((A, 0.0), (np.zeros((4, 4)), 1.0)):
        best = reference.lsg21_optimum(X, Y, affinity, alpha)
        assert_allclose(np.vstack([best.W, best.b]), expected, atol=1e-10)


# ---- one row


@pytest.mark.parametrize("self_edges", [True, False])
def test_dual_norm_is_the_polar_of_the_penalty(self_edges, rng):
    _, _, A = instance(rng)
    for g in rng.normal(size=(4, 4)) * np.array([[1e-3], [1.0], [1.0], [1e3]]):
        v = cp.Variable(4)
        norms = [omega * cp.norm(v[labels], 2) for labels, omega in reference.edge_list(A, self_edges)]
        problem = cp.Problem(cp.Maximize(g / np.abs(g).max() @ v), [sum(norms) <= 1])
        solve(problem)
        assert_allclose(reference.dual_norm(g, A, self_edges), problem.value * np.abs(g).max(), rtol=1e-8)


@pytest.mark.parametrize(("a", "a_0", "a_1"), [(0.5, 1.0, 1.0), (0.3, 0.0, 2.0), (1.0, 0.0, 0.0)])
def test_dual_norm_of_two_labels_by_bisection(a, a_0, a_1, rng):
    A = np.array([[a_0, a], [a, a_1]])
    for g in [*rng.normal(size=(4, 2)), np.array([1.0, 0.0])]:
        expected = naive.dual_norm_of_a_pair(*g, 2.0 * a, math.sqrt(2.0) * a_0, math.sqrt(2.0) * a_1)
        assert_allclose(reference.dual_norm(g, A), expected, rtol=1e-8)


def test_dual_norm_by_hand():
    # One self edge: |g| / (sqrt(2) a). One edge: ||g|| / (2 a). A chain 0 - 1 - 2 shares label 1 equally.
    assert_allclose(reference.dual_norm([3.0], [[2.0]]), 3.0 / (2.0 * math.sqrt(2.0)), rtol=1e-9)
    edge = [[0.0, 0.5], [0.5, 0.0]]
    assert_allclose(reference.dual_norm([3.0, -4.0], edge), 5.0, rtol=1e-9)
    chain = [[0.0, 0.5, 0.0], [0.5, 0.0, 0.5], [0.0, 0.5, 0.0]]
    assert_allclose(reference.dual_norm([3.0, 8.0, 3.0], chain), 5.0, rtol=1e-9)
    assert reference.dual_norm([0.0, 0.0], edge) == 0.0
    assert reference.dual_norm([0.0, 1.0], [[1.0, 0.0], [0.0, 0.0]]) == math.inf
    assert_allclose(reference.dual_norm([1.0, 0.0], [[1.0, 0.0], [0.0, 0.0]]), 1.0 / math.sqrt(2.0), rtol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("self_edges", [True, False])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_alpha_max_is_where_the_first_row_enters(shape, self_edges, fit_intercept, rng):
    X, Y, A = instance(rng, *shape)
    options = {"self_edges": self_edges, "fit_intercept": fit_intercept}
    top = reference.alpha_max(X, Y, A, **options)
    above, below = (reference.lsg21_optimum(X, Y, A, factor * top, **options) for factor in (1.01, 0.99))
    assert_array_equal(above.W, 0.0)
    assert_allclose(above.b, Y.mean(axis=0) if fit_intercept else 0.0, atol=1e-7)
    assert 1e-4 < np.abs(below.W).max()
    assert below.objective < above.objective * (1.0 - 1e-6)


def test_alpha_max_leaves_out_labels_without_edges(rng):
    X, Y, A = instance(rng)
    A[3, :] = A[:, 3] = 0.0
    expected = reference.alpha_max(X, Y[:, :3], A[:3, :3])
    assert_allclose(reference.alpha_max(X, Y, A), expected, rtol=1e-12)
    assert reference.alpha_max(X, Y, np.zeros((4, 4))) == 0.0
    assert reference.alpha_max(X, np.ones((18, 4)), A) == pytest.approx(0.0, abs=1e-10)  # b alone fits constants


@pytest.mark.parametrize("self_edges", [True, False])
@pytest.mark.parametrize("step", [0.05, 0.3, 5.0])
def test_prox_optimality(self_edges, step, rng):
    _, _, A = instance(rng)
    u = rng.normal(size=4)
    v = reference.prox(u, step, A, self_edges)
    assert reference.dual_norm(u - v, A, self_edges) <= step * (1.0 + 1e-7)
    assert_allclose((u - v) @ v, step * reference.penalty(v[None, :], A, self_edges), atol=1e-8)
    assert (np.abs(v).max() > 1e-3) == (step < 1.0)


def test_prox_by_hand():
    u, a = np.array([3.0, -4.0]), 0.5
    edge, selves = np.array([[0.0, a], [a, 0.0]]), np.diag([a, a])
    assert_allclose(reference.prox(u, 2.0, edge), (1.0 - 2.0 / 5.0) * u, atol=1e-12)
    shrunk = np.sign(u) * (np.abs(u) - 2.0 * math.sqrt(2.0) * a)
    assert_allclose(reference.prox(u, 2.0, selves), shrunk, atol=1e-12)
    assert_allclose(reference.prox(u, 2.0, edge + selves), (1.0 - 2.0 / np.linalg.norm(shrunk)) * shrunk, atol=1e-12)
    assert_array_equal(reference.prox(u, 100.0, edge), 0.0)
    assert_allclose(reference.prox(u, 2.0, edge, self_edges=False), reference.prox(u, 2.0, edge), atol=1e-12)


def test_orthogonal_features_are_solved_row_by_row(rng):
    _, Y, A = instance(rng)
    Q = np.linalg.qr(rng.normal(size=(18, 5)))[0] * np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    best = reference.lsg21_optimum(Q, Y, A, 0.2, fit_intercept=False)
    for k in range(5):
        # (k+1)^2 ||w - u||^2 + alpha Omega(w), u = q^T Y / (k+1)^2
        row = reference.prox(Q[:, k] @ Y / (k + 1.0) ** 2, 0.2 / (2.0 * (k + 1.0) ** 2), A)
        assert_allclose(best.W[k], row, atol=1e-10)
    assert np.abs(best.W).max() > 0.05
