"""The M3L solver: certificate, independent optimum, LIBLINEAR, badly scaled data, threads, starts."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.svm import LinearSVC
from tests.m3l import naive, reference
from tests.m3l.priors import PRIORS, make_prior

from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.validation import loop_view
from comargin.m3l.prior import identity_prior, split_prior
from comargin.m3l.problem import M3LProblem
from comargin.m3l.solver import label_blocks, solve_m3l

NO_TARGETS = np.empty((0, 0))


def make_problem(rng, n=40, d=8, n_labels=5, sparse=False, scale=1.0, prior="identity", targets=False):
    dense = rng.normal(size=(n, d)) * scale
    if sparse:
        dense *= rng.random((n, d)) < 0.5
    dense[0] = 0.0
    S = np.where(dense @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) * scale > 0, 1, -1)
    S[:, 0] = -1  # a label without positives
    return M3LProblem(
        sp.csr_array(dense) if sparse else dense,
        S.astype(np.int8),
        0.1 + rng.random(n),
        0.5 + rng.random((2, n_labels)),
        split_prior(make_prior(prior, n_labels, rng), n_labels),
        0.2 + rng.random(S.shape) if targets else NO_TARGETS,
    )


def with_identity(X, S, row_cost, label_cost):
    return M3LProblem(X, S, row_cost, label_cost, identity_prior(S.shape[1]), NO_TARGETS)


def solve(problem, tol=1e-10, max_iter=20_000, seed=0, **options):
    seeds = [seed + b for b in range(len(label_blocks(problem.prior)))]
    return solve_m3l(problem, loop_view(problem.X), Control(tol, max_iter), seeds=seeds, **options)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("targets", [False, True])
def test_matches_cvxpy(rng, sparse, prior, targets):
    problem = make_problem(rng, sparse=sparse, n_labels=6, prior=prior, targets=targets)
    R = problem.apply_prior(np.eye(6))
    T = problem.targets if targets else 1.0
    optimum, Z = reference.m3l_optimum(problem.X, problem.S, problem.upper(), R, T)
    result = solve(problem)
    assert result.status is Status.CONVERGED
    assert np.linalg.norm(result.coef) > 1e-3
    assert_allclose(result.primal, optimum, rtol=1e-7)
    assert_allclose(result.coef.T, Z, rtol=1e-3, atol=2e-4)


@pytest.mark.compiled
@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-6, 1e-10])
@pytest.mark.parametrize("prior", PRIORS)
def test_certificate(rng, tol, prior):
    problem = make_problem(rng, n=300, d=20, n_labels=7, prior=prior)
    result = solve(problem, tol=tol)
    A = result.dual_coef
    assert (A >= 0).all()
    assert (A <= problem.upper()).all()
    assert_allclose(result.coef.T, problem.weights(A), rtol=1e-10, atol=1e-12)
    assert_allclose(result.primal, naive.sums(problem, A).primal, rtol=1e-12)
    assert_allclose(result.dual, naive.dual(problem, A), rtol=1e-12)
    assert -1e-12 * result.primal <= result.gap <= result.tol_abs
    assert result.tol_abs == tol * abs(result.primal)
    if tol <= 1e-10:
        assert np.abs(naive.kkt_residual(problem, A)).max() < 1e-4
    duals = [c.dual for c in result.history]
    assert all(b >= a - 1e-12 * abs(a) for a, b in itertools.pairwise(duals))


def test_is_one_vs_rest_liblinear(rng):
    """R = I is LIBLINEAR's hinge loss with C' = 2 C and no bias."""
    problem = make_problem(rng, n=200, d=10, n_labels=3)
    problem = with_identity(problem.X, problem.S, np.full(200, 0.35), np.ones((2, 3)))
    result = solve(problem)
    for label in (1, 2):
        svm = LinearSVC(loss="hinge", C=0.7, fit_intercept=False, tol=1e-9, max_iter=1_000_000, random_state=0)
        svm.fit(problem.X, problem.S[:, label])
        assert_allclose(result.coef[label], svm.coef_[0], rtol=1e-4, atol=1e-5)


BAD_SCALES = {
    "far from zero": lambda Z: Z + 100.0,
    "very far from zero": lambda Z: Z + 10_000.0,
    "very different": lambda Z: Z * np.logspace(-2, 3, Z.shape[1]),
    "age and year": lambda Z: np.column_stack([40 + 12 * Z[:, 0], 2000 + 8 * Z[:, 1], np.ones(len(Z))]),
    "income": lambda Z: np.column_stack([40 + 12 * Z[:, 0], 2000 + 8 * Z[:, 1], 0.01 * Z[:, 2], np.exp(11 + Z[:, 3])]),
}


@pytest.mark.parametrize("kind", BAD_SCALES)
@pytest.mark.parametrize("n", [100, 300, 700])
def test_badly_scaled_features_still_converge(rng, kind, n):
    """Passes alone would need millions here: interior-point and Newton steps end it."""
    Z = rng.normal(size=(n, 5))
    S = np.where(Z @ rng.normal(size=(5, 2)) + 0.5 * rng.normal(size=(n, 2)) > 0, 1, -1).astype(np.int8)
    problem = with_identity(BAD_SCALES[kind](Z), S, np.ones(n), np.ones((2, 2)))
    result = solve(problem, tol=1e-4, max_iter=500)
    assert result.status is Status.CONVERGED
    # Sums of n terms of size |x| |x| with |x| = 2e4 cancel to margins of size 1: eps |x|^2 sqrt(n) is 1e-6.
    assert_allclose(result.primal, naive.sums(problem, result.dual_coef).primal, rtol=1e-6)
    duals = [c.dual for c in result.history]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(duals))


def test_finishing_steps_never_lower_the_dual(rng, monkeypatch):
    """Whatever the interior-point method returns, NaN included."""
    Z = rng.normal(size=(150, 3))
    S = np.where(rng.random((150, 2)) < 0.4, 1, -1).astype(np.int8)
    problem = with_identity(Z + 50.0, S, np.ones(150), np.ones((2, 2)))

    def nonsense(M, linear, upper, gap):
        return np.full(len(upper), np.nan), upper * rng.random(len(upper))

    monkeypatch.setattr("comargin.m3l._finish.interior_point_on_box", nonsense)
    result = solve(problem, tol=1e-6, max_iter=200)
    duals = [c.dual for c in result.history]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(duals))
    assert np.isfinite(result.coef).all()


def test_rows_without_weight_are_as_if_not_there(rng):
    problem = make_problem(rng, n=60)
    weight = np.where(np.arange(60) % 2, problem.row_cost, 0.0)
    half = replace(problem, X=problem.X[1::2], S=problem.S[1::2], row_cost=problem.row_cost[1::2])
    assert_allclose(solve(replace(problem, row_cost=weight), 1e-11).coef, solve(half, 1e-11).coef, rtol=1e-6, atol=1e-8)


@pytest.mark.compiled
@pytest.mark.parametrize("prior", ["identity", "components", "dense"])
@pytest.mark.usefixtures("threaded_blas")
def test_more_labels_than_a_block_any_threads(rng, prior):
    problem = make_problem(rng, n=60, d=12, n_labels=70, sparse=True, prior=prior)
    one = solve(problem, tol=1e-5, n_threads=1)
    three = solve(problem, tol=1e-5, n_threads=3)
    assert_array_equal(one.coef, three.coef)
    assert_array_equal(one.dual_coef, three.dual_coef)
    assert one.gap <= one.tol_abs


def test_dense_equals_csr(rng):
    problem = make_problem(rng, n=80, d=15, n_labels=6, sparse=True)
    dense = replace(problem, X=problem.X.toarray())
    assert_allclose(solve(problem, tol=1e-4).coef, solve(dense, tol=1e-4).coef, rtol=1e-8, atol=1e-10)


def test_start_at_the_optimum_takes_no_pass(rng):
    problem = make_problem(rng)
    first = solve(problem, tol=1e-9)
    again = solve(problem, tol=1e-8, start=first.dual_coef)
    assert again.n_iter == 0
    assert_allclose(again.coef, first.coef, rtol=1e-9, atol=1e-12)


def test_duplicate_rows_are_weights(rng):
    problem = make_problem(rng, n=30)
    doubled = replace(
        problem, X=np.vstack([problem.X] * 2), S=np.vstack([problem.S] * 2), row_cost=np.tile(problem.row_cost, 2)
    )
    weighted = replace(problem, row_cost=2 * problem.row_cost)
    assert_allclose(solve(doubled, 1e-12).coef, solve(weighted, 1e-12).coef, rtol=1e-6, atol=1e-8)


def test_permuted_rows_and_labels(rng):
    problem = make_problem(rng, n=50, prior="dense")
    rows, labels = rng.permutation(50), rng.permutation(5)
    R = problem.apply_prior(np.eye(5))
    permuted = M3LProblem(
        problem.X[rows],
        problem.S[rows][:, labels].copy(),
        problem.row_cost[rows],
        problem.label_cost[:, labels].copy(),
        split_prior(R[np.ix_(labels, labels)], 5),
        NO_TARGETS,
    )
    assert_allclose(solve(permuted, 1e-12).coef, solve(problem, 1e-12).coef[labels], rtol=1e-6, atol=1e-7)


def test_zero_tolerance_ends_at_rounding(rng):
    result = solve(make_problem(rng), tol=0.0)
    assert result.status in (Status.CONVERGED, Status.STALLED)
    assert abs(result.gap) <= 1e-12 * result.primal


def test_label_blocks_cover(rng):
    for n_labels in (1, 31, 32, 33, 64, 100, 983):
        covered = np.concatenate([part.labels for part in label_blocks(identity_prior(n_labels))])
        assert_array_equal(covered, np.arange(n_labels))
    mixed = label_blocks(split_prior(make_prior("components", 70, rng), 70))
    assert_array_equal(np.sort(np.concatenate([part.labels for part in mixed])), np.arange(70))


@pytest.mark.parametrize("sparse", [False, True])
def test_few_classes_behind_many_labels_are_no_obstacle(rng, sparse):
    """R of rank 2: single variables creep, the interior-point method sees all labels at once."""
    classes = np.array(
        [[1, -1, 1, -1], [-1, 1, -1, -1], [-1, -1, 1, 1], [1, 1, 1, -1], [-1, -1, -1, -1]], dtype=np.int8
    )
    unseen = np.array([[1, 1, -1, -1], [-1, 1, 1, 1]])
    S = classes[rng.integers(0, 5, size=120)]
    X = S @ rng.normal(size=(4, 9)) + 0.7 * rng.normal(size=(120, 9))
    R = unseen.T @ unseen / 2
    problem = M3LProblem(
        sp.csr_array(X) if sparse else X, S, np.ones(120), np.ones((2, 4)), split_prior(R, 4), NO_TARGETS
    )
    result = solve(problem, tol=1e-6, max_iter=100)
    assert result.status is Status.CONVERGED
    optimum, _ = reference.m3l_optimum(X, S, np.ones(S.shape), R)
    assert_allclose(result.primal, optimum, rtol=2e-6)


@pytest.mark.parametrize("prior", ["dense", "low rank"])
def test_badly_scaled_features_converge_with_coupled_labels(rng, prior):
    """Fewer free variables than weights, yet far from the optimum: all labels are solved at once."""
    X = rng.normal(size=(300, 60)) * np.logspace(0, 2.5, 60) + 30.0
    S = np.where(rng.random((300, 6)) < 0.3, 1, -1).astype(np.int8)
    problem = M3LProblem(X, S, np.ones(300), np.ones((2, 6)), split_prior(make_prior(prior, 6, rng), 6), NO_TARGETS)
    result = solve(problem, tol=1e-8, max_iter=200)
    assert result.status is Status.CONVERGED
    duals = [c.dual for c in result.history]
    assert all(b >= a - 1e-9 * abs(a) for a, b in itertools.pairwise(duals))


def test_the_best_weights_are_returned_when_passes_run_out(rng):
    """The primal of the last dual variables may be worse than one before."""
    X = rng.normal(size=(300, 30)) + 3.0
    S = np.where(rng.random((300, 4)) < 0.3, 1, -1).astype(np.int8)
    R = make_prior("dense", 4, rng)
    problem = M3LProblem(X, S, np.full(300, 10.0), np.ones((2, 4)), split_prior(R, 4), NO_TARGETS)
    rose = False
    for max_iter in range(1, 19):
        result = solve(problem, tol=1e-12, max_iter=max_iter)
        assert result.primal == min(c.primal for c in result.history)
        Z, losses = result.coef.T, np.maximum(0.0, 1.0 - S * (X @ result.coef.T))
        assert_allclose(result.primal, 0.5 * np.sum(Z * (Z @ np.linalg.inv(R))) + 20.0 * losses.sum(), rtol=1e-9)
        last = naive.sums(problem, result.dual_coef).primal
        assert last >= result.primal * (1.0 - 1e-12)
        rose |= last > 1.01 * result.primal
    assert rose


@pytest.mark.parametrize("seed", range(6))
def test_blocks_that_were_best_at_different_moments_converge_together(rng):
    """The best weights of every block may meet the tolerance when no certificate did: that is no failure."""
    X = rng.normal(size=(80, 4))
    X[:, 0] *= 1e5
    X[:, 1] = X[:, 0]
    S = np.where(rng.random((80, 8)) < 0.5, 1, -1).astype(np.int8)
    R = np.kron(np.eye(4), [[1.0, 0.5], [0.5, 1.0]])
    problem = M3LProblem(X, S, np.full(80, 100.0), np.ones((2, 8)), split_prior(R, 8), NO_TARGETS)
    whole = solve(problem, tol=1e-14, max_iter=60)
    for tol in whole.gap / whole.primal * np.array([0.5, 0.9, 1.1, 2.0]):
        result = solve(problem, tol=tol, max_iter=60)
        assert (result.status is Status.CONVERGED) == (result.gap <= result.tol_abs)
        assert [c.n_iter for c in result.history] == sorted({c.n_iter for c in result.history})
