"""Identities of PrML and its steps that need no solver."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.svmplus import reference_prml as reference

from comargin.m3l.prior import PriorPart
from comargin.svmplus._system import privileged_gram
from comargin.svmplus.problem import PrivilegedSets, PrMLProblem, SlackDual, SVMPlusProblem, nearest_labels


def make_data(rng, n=20, d=4, n_labels=4, repeat=2):
    """Rows whose label sets repeat, among them the empty and the full one."""
    S = np.where(rng.random((n, n_labels)) < 0.4, 1, -1).astype(np.int8)
    S[n // repeat :] = S[rng.integers(0, n // repeat, n - n // repeat)]
    S[0], S[1] = -1, 1
    return rng.normal(size=(n, d)), S


def make_step(rng, prior="dense", mask=None, intercept=True, sparse=False, **sizes):
    X, S = make_data(rng, **sizes)
    n_labels = S.shape[1]
    F = rng.normal(size=(n_labels, 3))
    matrix = {"dense": F @ F.T, "factor": F, "diagonal": 0.5 + rng.random(n_labels)}[prior]
    return SVMPlusProblem(
        sp.csr_array(X) if sparse else X,
        S,
        0.2 + rng.random(len(S)),
        0.5 + rng.random((2, n_labels)),
        PriorPart(np.arange(n_labels), prior, matrix),
        0.7,
        PrivilegedSets.of(S, mask, intercept=intercept),
    )


def by_rows(problem, B):
    """B of sets as B of rows: all of it on the first row of each set."""
    out = np.zeros(problem.S.shape)
    order, starts = problem.privileged.by_set
    out[order[starts]] = B
    return out


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("n_privileged", [None, 0, 1, 2])
def test_slack_and_adjoint_are_those_of_the_features(rng, intercept, n_privileged):
    _, S = make_data(rng)
    S[rng.random(S.shape) < 0.2] = 0
    mask = None if n_privileged is None else nearest_labels(S, n_privileged)
    sets = PrivilegedSets.of(S, mask, intercept=intercept)
    labels = np.array([2, 0])
    T = rng.normal(size=(4, 2)) * sets.used[:, labels]
    gamma = rng.normal(size=(len(sets.sets), 2))
    chosen = rng.random(len(sets.sets)) < 0.7
    for k, label in enumerate(labels):
        rows = reference.privileged_features(S, label, mask, intercept)
        features = reference.privileged_features(sets.sets, label, mask, intercept)
        assert_allclose(sets.slack(T, labels)[sets.row_set, k], rows @ T[:, k], atol=1e-12)
        assert_allclose(sets.adjoint(gamma, labels)[:, k], features.T @ gamma[:, k], atol=1e-12)
        columns = sets.columns(label)
        assert_array_equal(sets.features(label, np.arange(len(sets.sets))), features[:, columns])
        for some in (chosen, ~chosen, np.ones(len(chosen), dtype=bool)):
            gram = (features[some].T @ features[some])[np.ix_(columns, columns)]
            expected = 0.7 * gram + 0.2 * np.eye(len(gram))
            assert_allclose(privileged_gram(sets, label, 0.7 * some, 0.2), expected, atol=1e-12)


def test_sets_are_the_distinct_rows(rng):
    _, S = make_data(rng)
    sets = PrivilegedSets.of(S)
    assert_array_equal(sets.sets[sets.row_set], S)
    assert len(sets.sets) == len({tuple(row) for row in S}) < len(S)
    values = rng.normal(size=(len(S), 2))
    for g in range(len(sets.sets)):
        assert_allclose(sets.sum_by_set(values)[g], values[sets.row_set == g].sum(axis=0))
        assert_allclose(sets.largest_by_set(values)[g], values[sets.row_set == g].max(axis=0))


@pytest.mark.parametrize("n_privileged", [0, 1, 3, 9])
def test_nearest_labels(rng, n_privileged):
    _, S = make_data(rng, n=30, n_labels=5)
    S[:, 4] = S[:, 2]  # equally near to all others
    assert_array_equal(nearest_labels(S, n_privileged), reference.nearest_labels(S, n_privileged))


@pytest.mark.parametrize("prior", ["dense", "factor", "diagonal"])
@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("sparse", [True, False])
def test_objectives_by_the_reference(rng, prior, intercept, sparse):
    problem = make_step(rng, prior, intercept=intercept, sparse=sparse)
    R, cost, S = problem.prior.to_array(), problem.cost, problem.S
    V, T = rng.normal(size=(4, 4)), rng.normal(size=(4, 4)) * problem.privileged.used
    dual = SlackDual(rng.random(S.shape), rng.random(problem.set_cost.shape))
    expected = 0.5 * np.trace(V @ R @ V.T) + reference.step_objective(0.0, T, S, cost, 0.0, 0.7, None, intercept)
    assert_allclose(problem.primal(V, T), expected, rtol=1e-11)
    X = problem.X.toarray() if sparse else problem.X
    average = X.T @ (S * dual.A)
    norm = np.trace(average @ R @ average.T)
    B = by_rows(problem, dual.B)
    assert_allclose(
        problem.dual(dual), reference.dual_value(norm, dual.A, B, S, cost, 0.7, None, intercept), rtol=1e-11
    )
    Wt = reference.privileged_weights(dual.A, B, S, cost, 0.7, None, intercept)
    assert_allclose(problem.privileged_weights(dual), Wt, rtol=1e-10, atol=1e-12)
    broken = [
        reference.violation(X @ V @ R[:, [i]], S[:, [i]], T[[i]][:, [i]] * 0.0, cost[:, [i]], None, True)
        for i in range(4)
    ]
    assert_allclose(problem.violation(V, np.zeros((4, 4))), broken, rtol=1e-10)


@pytest.mark.parametrize("prior", ["dense", "diagonal"])
def test_weak_duality(rng, prior):
    problem = make_step(rng, prior)
    for _ in range(20):
        V, T = rng.normal(size=(4, 4)), rng.normal(size=(4, 4))
        T[np.diag_indices(4)] += np.maximum(problem.violation(V, T), 0.0)  # the constant makes it feasible
        assert problem.violation(V, T).max() <= 1e-12
        dual = SlackDual(rng.random(problem.S.shape), rng.random(problem.set_cost.shape))
        assert problem.primal(V, T) >= problem.dual(dual)


def test_dual_gradient_by_finite_differences(rng):
    problem = make_step(rng)
    dual = SlackDual(0.5 + rng.random(problem.S.shape), 0.5 + rng.random(problem.set_cost.shape))
    residual = reference.kkt_residual(problem, dual)  # all variables are positive: the gradient of -D itself
    for part, (i, label) in ((0, (3, 1)), (0, (11, 2)), (1, (2, 0)), (1, (4, 3))):
        ends = []
        for step in (1e-5, -1e-5):
            moved = [dual.A.copy(), dual.B.copy()]
            moved[part][i, label] += step
            ends.append(problem.dual(SlackDual(*moved)))
        assert_allclose(-residual[part][i, label], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-6)


def test_pairs_without_cost_have_no_constraint(rng):
    problem = make_step(rng)
    problem.label_cost[:, 2] = 0.0
    assert problem.violation(np.zeros((4, 4)), np.zeros((4, 4)))[2] == -np.inf
    assert (problem.violation(np.zeros((4, 4)), np.zeros((4, 4)))[[0, 1, 3]] == 1.0).all()


def make_prml(rng):
    X, S = make_data(rng)
    return PrMLProblem(X, S, 0.2 + rng.random(20), 0.5 + rng.random((2, 4)), 0.6, 0.7, PrivilegedSets.of(S))


def test_steps_are_parts_of_the_objective(rng):
    problem = make_prml(rng)
    D, W, T = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), rng.normal(size=(4, 4))
    cost = problem.w_step(D).cost
    whole = problem.objective(D, W, T)
    assert_allclose(whole, reference.prml_objective(D, W, T, problem.S, cost, 0.6, 0.7), rtol=1e-11)
    w_step = problem.w_step(D)
    assert_allclose(w_step.primal(0.6 * W, T) + 0.5 * np.sum(D**2), whole, rtol=1e-11)
    assert_allclose(w_step.X @ w_step.weights(0.6 * W), problem.X @ D.T @ W, rtol=1e-10, atol=1e-12)
    V = rng.normal(size=(4, 4))
    d_step, D = problem.d_step(W), W @ V.T
    assert_allclose(d_step.primal(V, T) + 0.3 * np.sum(W**2), problem.objective(D, W, T), rtol=1e-11)
    assert_allclose(d_step.weights(V), D.T @ W, rtol=1e-10, atol=1e-12)


def test_lower_bound_holds_for_every_rank(rng):
    problem = make_prml(rng)
    for _ in range(20):
        rank = rng.integers(1, 5)
        D, W, T = rng.normal(size=(rank, 4)), rng.normal(size=(rank, 4)), 0.1 * rng.normal(size=(4, 4))
        margins = problem.S * (problem.X @ D.T @ W)
        xi = problem.privileged.slack(T, np.arange(4))
        needed = np.maximum(problem.privileged.largest_by_set(1.0 - margins), 0.0)
        T[np.diag_indices(4)] += np.maximum((needed - xi).max(axis=0), 0.0)
        A = rng.random(problem.S.shape) * 0.3
        B = problem.privileged.sum_by_set(problem.w_step(D).cost * rng.random())
        assert 0.0 < problem.lower_bound(SlackDual(A, B)) <= problem.objective(D, W, T)
    # As it is where the sums of A and B are the cost, which T = 0 belongs to.
    A *= 0.1
    cost = problem.privileged.sum_by_set(problem.w_step(D).cost)
    V = problem.X.T @ (problem.S * A)
    scale = min(1.0, np.sqrt(problem.gamma1) / np.linalg.norm(V, 2))
    bound = problem.lower_bound(SlackDual(A, cost - problem.privileged.sum_by_set(A)))
    assert_allclose(bound, scale * A.sum(), rtol=1e-12)
