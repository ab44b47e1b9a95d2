"""The paper's scheme for linear M3L: independent optimum, literal loops, certificate, shrinking, invariances."""

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
from comargin.core.random_numbers import random_state_array
from comargin.core.result import Status
from comargin.core.rows import CSR
from comargin.core.validation import loop_view
from comargin.m3l import dcd_solver as module
from comargin.m3l.dcd_solver import LabelAscent, LabelCoupling, solve_m3l_dcd
from comargin.m3l.prior import identity_prior, split_prior
from comargin.m3l.problem import M3LProblem
from comargin.m3l.solver import label_blocks, solve_m3l

NO_TARGETS = np.empty((0, 0))


def make_problem(rng, n=18, d=12, n_labels=6, sparse=False, prior="identity", targets=False, cost=0.3):
    """Small and well conditioned, so that plain coordinate steps end it soon, also uncompiled."""
    dense = rng.normal(size=(n, d))
    if sparse:
        dense *= rng.random((n, d)) < 0.6
    dense[0] = 0.0
    S = np.where(dense @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0, 1, -1)
    S[:, 0] = -1  # a label without positives
    return M3LProblem(
        sp.csr_array(dense) if sparse else dense,
        S.astype(np.int8),
        cost * (0.1 + rng.random(n)),
        0.5 + rng.random((2, n_labels)),
        split_prior(make_prior(prior, n_labels, rng), n_labels),
        0.2 + rng.random(S.shape) if targets else NO_TARGETS,
    )


def solve(problem, tol=1e-9, max_iter=5000, seed=0, **options):
    return solve_m3l_dcd(problem, loop_view(problem.X), Control(tol, max_iter), seed=seed, **options)


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("targets", [False, True])
def test_matches_cvxpy(rng, sparse, prior, targets):
    problem = make_problem(rng, sparse=sparse, prior=prior, targets=targets)
    R = problem.apply_prior(np.eye(6))
    T = problem.targets if targets else 1.0
    optimum, Z = reference.m3l_optimum(problem.X, problem.S, problem.upper(), R, T)
    result = solve(problem)
    assert result.status is Status.CONVERGED
    assert np.linalg.norm(result.coef) > 1e-3
    free = (result.dual_coef > 0.0) & (result.dual_coef < problem.upper())
    assert np.count_nonzero(free) > 5  # not all at a bound
    assert_allclose(result.primal, optimum, rtol=1e-7)
    assert_allclose(result.coef.T, Z, rtol=1e-3, atol=2e-4)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("prior", PRIORS)
def test_certificate(rng, tol, prior):
    problem = make_problem(rng, n_labels=7, prior=prior, targets=True)
    result = solve(problem, tol=tol)
    A = result.dual_coef
    assert (A >= 0).all()
    assert (A <= problem.upper()).all()
    assert_allclose(result.coef.T, problem.weights(A), rtol=1e-10, atol=1e-12)
    assert_allclose(result.primal, naive.sums(problem, A).primal, rtol=1e-12)
    assert_allclose(result.dual, naive.dual(problem, A), rtol=1e-11)
    assert -1e-12 * result.primal <= result.gap <= result.tol_abs
    assert result.tol_abs == tol * abs(result.primal)
    if tol <= 1e-8:
        assert np.abs(naive.kkt_residual(problem, A)).max() < 1e-3
    duals = [c.dual for c in result.history]
    assert all(b >= a - 1e-12 * abs(a) for a, b in itertools.pairwise(duals))


@pytest.mark.parametrize("prior", ["identity", "dense", "sparse", "low rank", "zero label"])
@pytest.mark.parametrize("targets", [False, True])
def test_scheme_equals_literal_loops(rng, prior, targets, monkeypatch):
    """Both phases, coupled shrinking and its undoing: the same variables are active with the same values."""
    monkeypatch.setattr(module, "POLICY", module.AscentPolicy(switch_at=1.0, tau_factor=0.9))
    problem = make_problem(rng, n=12, d=4, n_labels=4, prior=prior, targets=targets, cost=3.0)
    R = problem.apply_prior(np.eye(4))
    passes = naive.m3l_dcd(problem.X, problem.S, problem.upper(), R, problem.targets, random_state_array(5), 1.0, 0.9)
    ascent = LabelAscent(problem, problem.X, 0.0, 5, None)
    for A, rows, found in itertools.islice(passes, 15):
        ascent.step()
        assert_allclose(ascent.dual_state.A, A, rtol=1e-7, atol=1e-10)
        for label in range(4):
            active = ascent.active.rows[label, : ascent.active.count[label]]
            assert_array_equal(active, rows[label])
        extrema = np.abs([ascent.active.found.T, found])
        if np.any((extrema > 0.0) & (extrema < 1e-9)):
            break  # something is solved: what leaves next is a matter of rounding
    assert np.linalg.norm(A) > 1e-3


@pytest.mark.parametrize("prior", ["dense", "sparse"])
def test_active_sets_shrink_and_grow_again(prior):
    problem = make_problem(np.random.default_rng(0), n=100, d=30, prior=prior)
    ascent = LabelAscent(problem, problem.X, 0.0, 5, None)
    n_active = []
    for _ in range(60):
        ascent.step()
        n_active.append(int(ascent.active.count.sum()))
    assert ascent.along_labels
    assert min(n_active) < 0.5 * problem.S.size
    assert any(b > a for a, b in itertools.pairwise(n_active))


@pytest.mark.compiled
def test_agrees_with_the_row_block_solver(rng):
    problem = make_problem(rng, n=60, d=40, n_labels=12, sparse=True, prior="dense", cost=0.1)
    seeds = range(len(label_blocks(problem.prior)))
    other = solve_m3l(problem, loop_view(problem.X), Control(1e-9, 5000), seeds=seeds)
    result = solve(problem)
    assert_allclose(result.primal, other.primal, rtol=2e-9)
    assert_allclose(result.coef, other.coef, rtol=1e-3, atol=1e-4)


def test_is_one_vs_rest_liblinear(rng):
    """R = I is LIBLINEAR's hinge loss with C' = 2 C and no bias."""
    problem = make_problem(rng, n=40, d=20, n_labels=3)
    problem = replace(problem, row_cost=np.full(40, 0.05), label_cost=np.ones((2, 3)))
    result = solve(problem, tol=1e-10)
    for label in (1, 2):
        svm = LinearSVC(loss="hinge", C=0.1, fit_intercept=False, tol=1e-9, max_iter=1_000_000, random_state=0)
        svm.fit(problem.X, problem.S[:, label])
        assert_allclose(result.coef[label], svm.coef_[0], rtol=1e-4, atol=1e-5)


def test_correlated_loss_with_zero_margins(rng):
    """A diagonally dominant R can ask for margins of exactly zero; all of them zero is the trivial problem."""
    problem = make_problem(rng)
    targets = np.where(rng.random(problem.S.shape) < 0.5, 0.0, 1.0)
    optimum, _ = reference.m3l_optimum(problem.X, problem.S, problem.upper(), None, targets)
    assert_allclose(solve(replace(problem, targets=targets)).primal, optimum, rtol=1e-7)
    trivial = solve(replace(problem, targets=np.zeros(problem.S.shape)))
    assert trivial.primal == trivial.dual == 0.0
    assert not trivial.coef.any()


def test_seed_fixes_the_result(rng):
    problem = make_problem(rng, prior="dense", n=40, sparse=True)
    one, again, other = solve(problem, 1e-3, seed=1), solve(problem, 1e-3, seed=1), solve(problem, 1e-3, seed=2)
    assert_array_equal(one.coef, again.coef)
    assert_array_equal(one.dual_coef, again.dual_coef)
    assert one.n_iter == again.n_iter
    assert not np.array_equal(one.dual_coef, other.dual_coef)


@pytest.mark.parametrize("prior", PRIORS)
def test_dense_equals_csr(rng, prior):
    problem = make_problem(rng, n=30, d=15, sparse=True, prior=prior)
    dense = replace(problem, X=problem.X.toarray())
    assert_allclose(solve(problem, 1e-3).coef, solve(dense, 1e-3).coef, rtol=1e-7, atol=1e-9)


def test_start_at_the_optimum_takes_no_pass(rng):
    problem = make_problem(rng, prior="dense")
    first = solve(problem, tol=1e-9)
    again = solve(problem, tol=1e-8, start=first.dual_coef)
    assert again.n_iter == 0
    assert_allclose(again.coef, first.coef, rtol=1e-9, atol=1e-12)


def test_start_is_clipped_and_left_alone(rng):
    problem = make_problem(rng, prior="dense")
    start = np.asfortranarray(10.0 * rng.normal(size=problem.S.shape))
    given = start.copy()
    result = solve(problem, start=start)
    assert_array_equal(start, given)
    assert result.status is Status.CONVERGED
    assert_allclose(result.primal, solve(problem).primal, rtol=1e-8)
    assert solve(problem, max_iter=0, start=start).n_iter == 0
    inside = np.clip(given, 0.0, problem.upper())
    assert_array_equal(solve(problem, max_iter=0, start=start).dual_coef, inside)


def test_rows_without_weight_are_as_if_not_there(rng):
    problem = make_problem(rng, n=36, prior="dense")
    weight = np.where(np.arange(36) % 2, problem.row_cost, 0.0)
    half = replace(problem, X=problem.X[1::2], S=problem.S[1::2].copy(), row_cost=problem.row_cost[1::2].copy())
    assert_allclose(solve(replace(problem, row_cost=weight), 1e-11).coef, solve(half, 1e-11).coef, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("prior", ["identity", "dense"])
@pytest.mark.parametrize("sparse", [False, True])
def test_smallest_problems(rng, prior, sparse):
    """One row, one feature, one label; and no feature that is not zero."""
    for n, d, n_labels in itertools.product((1, 3), (1, 2), (1, 2)):
        X = rng.normal(size=(n, d))
        S = np.where(rng.random((n, n_labels)) < 0.5, 1, -1).astype(np.int8)
        R = split_prior(np.eye(n_labels) + (0.5 if prior == "dense" else 0.0), n_labels)
        for values in (X, np.zeros((n, d))):
            features = sp.csr_array(values) if sparse else values
            problem = M3LProblem(features, S, np.ones(n), np.ones((2, n_labels)), R, NO_TARGETS)
            result = solve(problem)
            assert result.status is Status.CONVERGED
            if not values.any():
                assert_allclose(result.primal, 2.0 * n * n_labels, rtol=1e-12)


@pytest.mark.compiled
def test_permuted_rows_and_labels(rng):
    problem = make_problem(rng, n=25, n_labels=5, prior="dense")
    rows, labels = rng.permutation(25), rng.permutation(5)
    R = problem.apply_prior(np.eye(5))
    permuted = M3LProblem(
        problem.X[rows],
        problem.S[rows][:, labels].copy(),
        problem.row_cost[rows],
        problem.label_cost[:, labels].copy(),
        split_prior(R[np.ix_(labels, labels)], 5),
        NO_TARGETS,
    )
    assert_allclose(solve(permuted, 1e-11).coef, solve(problem, 1e-11).coef[labels], rtol=1e-5, atol=1e-6)


@pytest.mark.compiled
def test_scale_of_R_does_not_matter(rng):
    """(R, C) and (c R, C / c) have the same weights; with c a power of two even the same steps."""
    problem = make_problem(rng, n=30, prior="dense")
    R = problem.apply_prior(np.eye(6))
    scaled = replace(problem, prior=split_prior(1024.0 * R, 6), row_cost=problem.row_cost / 1024.0)
    assert_array_equal(solve(scaled, 1e-6).coef, solve(problem, 1e-6).coef)


def test_zero_tolerance_ends_at_rounding(rng):
    result = solve(make_problem(rng), tol=0.0)
    assert result.status in (Status.CONVERGED, Status.STALLED)
    assert abs(result.gap) <= 1e-12 * result.primal


def test_iteration_limit_and_callback(rng):
    problem = make_problem(rng, prior="low rank")
    assert solve(problem, tol=1e-12, max_iter=2).status is Status.MAX_ITER
    control = Control(1e-12, 100, callback=lambda point: point.n_iter > 0)
    stopped = solve_m3l_dcd(problem, loop_view(problem.X), control, seed=0)
    assert stopped.status is Status.STOPPED
    assert_allclose(stopped.dual, naive.dual(problem, stopped.dual_coef), rtol=1e-12)


def test_what_left_too_early_comes_back(rng):
    """Everything shrunk at the start, as if by a wrong bound: the scheme notices and ends at the optimum."""
    problem = make_problem(rng, prior="dense")
    ascent = LabelAscent(problem, problem.X, 1e-6, 0, None)
    ascent.active.count[:] = 0
    ascent.step()
    assert ascent.dual_state.A.any()


@pytest.mark.parametrize("kind", PRIORS)
def test_coupling(rng, kind):
    """R comes out of its parts whole; extremal gradients as eqs. (44) and (45) say."""
    n_labels = 7
    R = make_prior(kind, n_labels, rng)
    problem = replace(make_problem(rng, n_labels=n_labels), prior=split_prior(R, n_labels))
    coupling = LabelCoupling(problem)
    R = R.toarray() if sp.issparse(R) else R
    matrix = coupling.matrix
    if isinstance(matrix, CSR):
        matrix = sp.csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(n_labels, n_labels)).toarray()
    assert_allclose(matrix, R, rtol=1e-12, atol=1e-12)
    assert_array_equal(coupling.coupled, np.count_nonzero(np.abs(R) > 1e-12, axis=1) - (np.abs(np.diag(R)) > 0) > 0)
    found = np.sort(rng.normal(size=(2, n_labels)), axis=0)
    found[:, 2] = np.inf, -np.inf  # a label that was not visited
    expected = naive.m3l_extremal_gradients(found.T.tolist(), R.tolist())
    assert_allclose(coupling.extremal_gradients(found).T, expected, rtol=1e-9)


def test_large_identity_is_never_made_dense():
    n_labels = 20_000
    S = np.ones((1, n_labels), dtype=np.int8)
    problem = M3LProblem(np.ones((1, 1)), S, np.ones(1), np.ones((2, n_labels)), identity_prior(n_labels), NO_TARGETS)
    coupling = LabelCoupling(problem)
    assert isinstance(coupling.matrix, CSR)
    assert coupling.matrix.data.size == n_labels
    assert not coupling.coupled.any()
