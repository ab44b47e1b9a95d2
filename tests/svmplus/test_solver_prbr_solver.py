"""SVM+ problems: PrBR and the steps of PrML against cvxpy, their certificates, feasibility, and invariances."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.svmplus import reference_prml as reference

from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.validation import loop_view
from comargin.m3l.prior import PriorPart, identity_prior
from comargin.m3l.problem import M3LProblem
from comargin.m3l.solver import solve_m3l
from comargin.svmplus import _split
from comargin.svmplus._directions import infeasible_labels
from comargin.svmplus._step import StepBlock
from comargin.svmplus.problem import PrivilegedSets, SlackDual, SVMPlusProblem, nearest_labels
from comargin.svmplus.step_solver import m3l_start, solve_svm_plus

FORMS = ["factor", "dense"]


def make_problem(rng, n=24, d=4, n_labels=3, C=1.0, gamma2=1.0, prior=None, mask=None, intercept=True, sparse=False):
    X = rng.normal(size=(n, d))
    Y = X @ rng.normal(size=(d, n_labels)) + 0.7 * rng.normal(size=(n, n_labels)) > 0.3
    S = np.where(Y, 1, -1).astype(np.int8)
    prior = identity_prior(n_labels)[0] if prior is None else prior
    sets = PrivilegedSets.of(S, mask, intercept=intercept)
    return SVMPlusProblem(
        sp.csr_array(X) if sparse else X, S, np.full(n, float(C)), np.ones((2, n_labels)), prior, gamma2, sets
    )


def solve(problem, tol=1e-8, max_iter=200, **options):
    return solve_svm_plus(problem, loop_view(problem.X), Control(tol, max_iter), **options)


def assert_certified(problem, result, tol):
    """The point is feasible, its objectives are those of the problem, and the gap is within the tolerance."""
    T = result.privileged.T
    assert result.status is Status.CONVERGED
    assert problem.violation(result.V, T).max() <= 1e-10
    assert_allclose(problem.primal(result.V, T), result.primal, rtol=1e-11)
    assert_allclose(problem.dual(result.dual_coef), result.dual, rtol=1e-9)
    assert -1e-10 * result.primal <= result.gap <= tol * result.primal
    assert min(part.min() for part in result.dual_coef) >= 0.0
    assert_allclose(result.coef.T, problem.weights(result.V), rtol=1e-12)


def prior_of(W, form):
    matrix = np.ascontiguousarray(W.T) if form == "factor" else W.T @ W
    return PriorPart(np.arange(W.shape[1]), form, matrix)


@pytest.mark.compiled
@pytest.mark.parametrize(("C", "gamma2"), [(1.0, 1.0), (0.03, 0.2), (20.0, 2.0)])
@pytest.mark.parametrize("sparse", [False, True])
def test_prbr_equals_cvxpy(rng, C, gamma2, sparse):
    problem = make_problem(rng, C=C, gamma2=gamma2, sparse=sparse)
    result = solve(problem)
    X = problem.X.toarray() if sparse else problem.X
    optimum = reference.prbr_optimum(X, problem.S, C, gamma2)
    assert_certified(problem, result, 1e-8)
    assert np.linalg.norm(result.coef) > 1e-2
    assert_allclose(result.primal, optimum.objective, rtol=1e-6)
    assert_allclose(result.coef.T, optimum.weights, atol=1e-3)
    assert_allclose(result.privileged.T, optimum.Wt, atol=1e-3)


@pytest.mark.compiled
def test_w_step_equals_cvxpy(rng):
    problem = make_problem(rng, gamma2=0.4, C=0.3)
    D = rng.normal(size=(2, 4))
    step = replace(problem, X=problem.X @ D.T, prior=PriorPart(np.arange(3), "diagonal", np.full(3, 1 / 0.6)))
    result = solve(step)
    optimum = reference.w_step_optimum(problem.X, problem.S, D, 0.3, 0.6, 0.4)
    assert_certified(step, result, 1e-8)
    assert_allclose(result.primal, optimum.objective, rtol=1e-6)
    assert_allclose(result.coef.T, optimum.weights, atol=1e-3)


@pytest.mark.compiled
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("C", "sparse"), [(0.05, True), (1.0, False), (5.0, True)])
def test_d_step_equals_cvxpy(rng, form, C, sparse):
    W = rng.normal(size=(2, 3))
    problem = make_problem(rng, C=C, gamma2=0.5, prior=prior_of(W, form), sparse=sparse)
    result = solve(problem)
    X = problem.X.toarray() if sparse else problem.X
    optimum = reference.d_step_optimum(X, problem.S, W, C, 0.5)
    assert_certified(problem, result, 1e-8)
    assert_allclose(result.primal, optimum.objective, rtol=1e-6)
    assert_allclose(W @ result.V.T, optimum.weights, atol=1e-3)


@pytest.mark.compiled
@pytest.mark.parametrize("form", [None, *FORMS])
def test_passes_alone_reach_a_moderate_precision(rng, form, monkeypatch):
    """Split slacks without a single Newton step."""
    prior = None if form is None else prior_of(rng.normal(size=(2, 3)), form)
    problem = make_problem(rng, n=60, C=0.05, prior=prior)
    endless = replace(_split.POLICY, most_alone=100_000, most_coupled=100_000, fall=0.0)
    monkeypatch.setattr(_split, "POLICY", endless)
    with monkeypatch.context() as without:
        without.delattr(StepBlock, "advance")
        result = solve(problem, tol=1e-3)
    assert_certified(problem, result, 1e-3)
    assert_allclose(result.primal, solve(problem, tol=1e-7).primal, rtol=1e-3)


@pytest.mark.compiled
def test_weights_of_rows_and_labels(rng):
    problem = make_problem(rng)
    row_cost, label_cost = rng.random(24), 0.5 + rng.random((2, 3))
    row_cost[:4], label_cost[0, 1] = 0.0, 0.0  # rows, and the negatives of a label, are out
    problem = replace(problem, row_cost=row_cost, label_cost=label_cost)
    result = solve(problem)
    optimum = reference.prbr_optimum(problem.X, problem.S, problem.cost, 1.0)
    assert_certified(problem, result, 1e-8)
    assert_allclose(result.primal, optimum.objective, rtol=1e-6)
    assert not result.dual_coef.A[problem.cost == 0.0].any()
    coupled = replace(problem, prior=prior_of(rng.normal(size=(2, 3)), "dense"))
    assert_certified(coupled, solve(coupled), 1e-8)  # no split passes: some pairs are missing


@pytest.mark.compiled
@pytest.mark.parametrize("n_privileged", [0, 1, 2])
def test_nearest_labels_only(rng, n_privileged):
    problem = make_problem(rng, n_labels=4, C=0.2)
    mask = nearest_labels(problem.S, n_privileged)
    problem = replace(problem, privileged=PrivilegedSets.of(problem.S, mask))
    result = solve(problem, tol=1e-7)
    optimum = reference.prbr_optimum(problem.X, problem.S, 0.2, 1.0, mask)
    assert_certified(problem, result, 1e-7)
    assert_allclose(result.primal, optimum.objective, rtol=1e-6)
    assert not result.privileged[~mask & ~np.eye(4, dtype=bool)].any()


def held_budgets(problem):
    """The step with the sums A + B held at the cost, without its privileged part: with 2 A for A, M3L at C / 2."""
    S, cost, prior = problem.S, 0.5 * problem.row_cost, (problem.prior,)
    return M3LProblem(problem.X, S, cost, problem.label_cost, prior, np.empty((0, 0)))


def test_held_budgets_are_m3l(rng):
    """With A + B held at the cost T is zero, and what is left of the step is M3L at half the cost."""
    W = rng.normal(size=(2, 3))
    problem = make_problem(rng, C=0.7, prior=prior_of(W, "factor"))
    m3l = solve_m3l(held_budgets(problem), problem.X, Control(1e-9, 2000), seeds=[0])
    A = 2.0 * m3l.dual_coef
    dual = SlackDual(A, problem.privileged.sum_by_set(problem.cost - A))
    assert_allclose(problem.privileged_weights(dual), 0.0, atol=1e-12)
    assert_allclose(problem.dual(dual), m3l.dual, rtol=1e-10)
    assert_allclose(problem.weights(problem.dual_average(A)), m3l.coef.T, rtol=1e-7, atol=1e-9)
    hinge = np.maximum(1.0 - problem.S * (problem.X @ m3l.coef.T), 0.0)
    quadratic = np.sum(problem.dual_average(A) * m3l.coef.T)
    assert_allclose(0.5 * quadratic + 0.7 * hinge.sum(), m3l.primal, rtol=1e-8)


def test_start_has_no_privileged_part(rng):
    problem = make_problem(rng)
    start = m3l_start(problem, problem.X, 0, 1)
    assert_allclose(problem.privileged_weights(start), 0.0, atol=1e-12)
    assert start.A.any()
    assert problem.dual(start) > 0.0


@pytest.mark.compiled
@pytest.mark.parametrize("coupled", [False, True])
def test_hard_cases(rng, coupled):
    """No positives, only positives, equal labels, an empty row, a label of no weight; one label set for all rows."""
    problem = make_problem(rng, n=20, n_labels=5, C=0.5)
    S, X = problem.S.copy(), problem.X.copy()
    S[:, 0], S[:, 1], S[:, 3] = -1, 1, S[:, 2]
    X[4] = 0.0
    W = rng.normal(size=(2, 5))
    W[:, 4] = 0.0
    prior = prior_of(W, "factor") if coupled else problem.prior
    for signs in (S, np.tile(S[:1], (20, 1))):
        some = replace(problem, X=X, S=signs, privileged=PrivilegedSets.of(signs), prior=prior)
        assert_certified(some, solve(some, tol=1e-6), 1e-6)


@pytest.mark.parametrize("n", [1, 2])
def test_one_label_and_few_rows(rng, n):
    S = np.array([[1], [-1]], dtype=np.int8)[:n]
    X = rng.normal(size=(n, 2))
    problem = SVMPlusProblem(X, S, np.ones(n), np.ones((2, 1)), identity_prior(1)[0], 1.0, PrivilegedSets.of(S))
    result = solve(problem)
    assert_certified(problem, result, 1e-8)
    assert_allclose(result.primal, reference.prbr_optimum(X, S, 1.0, 1.0).objective, rtol=1e-6)


@pytest.mark.compiled
@pytest.mark.parametrize("case", range(7))
def test_literal_form(case):
    """Feasible labels are solved, also those some of whose slacks are always zero; the others are named and proved."""
    rng = np.random.default_rng(case)
    problem = make_problem(rng, n=int(rng.integers(6, 25)), d=5, n_labels=int(rng.integers(2, 5)), intercept=False)
    optimum = reference.prbr_optimum(problem.X, problem.S, 1.0, 1.0, None, False)
    proofs = infeasible_labels(problem)
    assert tuple(sorted(proofs)) == optimum.infeasible
    if not proofs:
        result = solve(problem, tol=1e-7)
        assert result.status is Status.CONVERGED
        assert problem.violation(result.V, result.privileged.T).max() <= 1e-9
        assert_allclose(problem.primal(result.V, result.privileged.T), optimum.objective, rtol=1e-6)
        assert not np.diag(result.privileged).any()
        return
    with pytest.raises(ValueError, match=r"privileged_intercept=True"):
        solve(problem)


def test_infeasible_labels_are_named_and_proved(rng):
    """Equal rows of different sign whose other labels are opposite: no slack, and no margin."""
    X = np.ones((4, 1))
    S = np.array([[1, 1, 1], [-1, -1, -1], [1, 1, -1], [1, -1, 1]], dtype=np.int8)
    problem = SVMPlusProblem(
        X, S, np.ones(4), np.ones((2, 3)), identity_prior(3)[0], 1.0, PrivilegedSets.of(S, intercept=False)
    )
    proofs = infeasible_labels(problem)
    assert 0 in proofs
    for label, a in proofs.items():
        assert a.min() >= 0.0
        assert_allclose(a.sum(), 1.0)
        assert_allclose(X.T @ (a * S[:, label]), 0.0, atol=1e-9)
    named = ", ".join(str(label) for label in sorted(proofs))
    with pytest.raises(ValueError, match=rf"for {len(proofs)} of 3 labels \({named}\)"):
        solve(problem)
    assert infeasible_labels(replace(problem, privileged=PrivilegedSets.of(S))) == {}


@pytest.mark.parametrize("scale", [1e-9, 1e9, [1e-9, 1e9, 1.0, 1e-4, 1e4]], ids=str)
@pytest.mark.parametrize("case", range(4))
def test_feasibility_does_not_depend_on_the_units_of_features(case, scale):
    rng = np.random.default_rng(case)
    problem = make_problem(rng, n=14, d=5, n_labels=3, intercept=False)
    scaled = replace(problem, X=problem.X * scale)
    expected, proofs = infeasible_labels(problem), infeasible_labels(scaled)
    assert sorted(proofs) == sorted(expected)
    for label, a in proofs.items():
        left = np.abs(scaled.X.T @ (a * problem.S[:, label]))
        assert (left <= 1e-6 * np.abs(scaled.X).max(axis=0)).all()
    separable = np.where(problem.X[:, :2] > 0.0, 1, -1).astype(np.int8)
    sets = PrivilegedSets.of(separable, intercept=False)
    prior = identity_prior(2)[0]
    assert (
        infeasible_labels(replace(scaled, S=separable, privileged=sets, label_cost=np.ones((2, 2)), prior=prior)) == {}
    )


def test_one_label_without_privileged_features_is_a_hard_margin(rng):
    X = np.array([[2.0], [1.0], [-1.0]])
    S = np.array([[1], [1], [-1]], dtype=np.int8)
    sets = PrivilegedSets.of(S, intercept=False)
    problem = SVMPlusProblem(X, S, np.ones(3), np.ones((2, 1)), identity_prior(1)[0], 1.0, sets)
    assert_allclose(solve(problem).coef, [[1.0]], rtol=1e-6)
    with pytest.raises(ValueError, match="1 of 1 labels"):
        solve(replace(problem, X=np.array([[2.0], [-1.0], [-1.0]])))


@pytest.mark.compiled
@pytest.mark.parametrize("coupled", [False, True])
def test_any_number_of_threads(rng, coupled):
    prior = prior_of(rng.normal(size=(4, 6)), "dense") if coupled else None
    problem = make_problem(rng, n=60, d=8, n_labels=6, C=0.1, prior=prior, sparse=True)
    one, three = (solve(problem, tol=1e-4, n_threads=count) for count in (1, 3))
    assert_array_equal(one.coef, three.coef)
    assert_array_equal(one.dual_coef.A, three.dual_coef.A)
    assert_array_equal(one.privileged, three.privileged)


@pytest.mark.compiled
def test_dense_equals_csr(rng):
    problem = make_problem(rng, n=50, d=60, n_labels=4, sparse=True)  # fewer rows than features
    dense = replace(problem, X=problem.X.toarray())
    assert_allclose(solve(problem).coef, solve(dense).coef, rtol=1e-5, atol=1e-7)


@pytest.mark.compiled
def test_duplicate_rows_are_weights(rng):
    problem = make_problem(rng)
    S = np.vstack([problem.S] * 2)
    doubled = replace(problem, X=np.vstack([problem.X] * 2), S=S, row_cost=np.ones(48), privileged=PrivilegedSets.of(S))
    weighted = replace(problem, row_cost=np.full(24, 2.0))
    assert_allclose(solve(doubled).primal, solve(weighted).primal, rtol=1e-7)
    assert_allclose(solve(doubled).coef, solve(weighted).coef, atol=1e-4)


@pytest.mark.compiled
def test_optimum_by_kkt_and_as_a_start(rng):
    problem = make_problem(rng)
    first = solve(problem, tol=1e-10)
    for residual in reference.kkt_residual(problem, first.dual_coef):
        assert np.abs(residual).max() <= 1e-4
    again = solve(problem, tol=1e-7, start=first.dual_coef)
    assert again.n_iter <= 1
    duals = [point.dual for point in first.history]
    assert duals == sorted(duals)


@pytest.mark.compiled
@pytest.mark.parametrize("form", FORMS)
def test_passes_that_gain_nothing_are_no_stall(rng, form, monkeypatch):
    """As from a start that is more precise than passes are: Newton steps go on from there."""
    problem = make_problem(rng, n=60, n_labels=4, C=0.05, prior=prior_of(rng.normal(size=(2, 4)), form))
    monkeypatch.setattr("comargin.svmplus._split.SplitPasses.iterate", lambda phase: None)
    assert_certified(problem, solve(problem, tol=1e-7), 1e-7)


@pytest.mark.compiled
def test_start_is_no_worse_than_without_its_privileged_part(rng):
    """Dual variables in the middle of a fit have a T that can be far from feasible."""
    problem = make_problem(rng, n=60, C=1.0)
    A = m3l_start(problem, problem.X, 0, 1).A
    hinge = (1.0 - problem.S * (problem.X @ problem.weights(problem.X.T @ (problem.S * A)))).max(axis=0).clip(min=0.0)
    T = np.diag(hinge)
    primal = problem.primal(problem.X.T @ (problem.S * A), T)
    B = problem.privileged.sum_by_set(rng.random(A.shape))
    result = solve(problem, tol=1.0, max_iter=0, start=SlackDual(A, B))
    assert result.history[0].primal <= primal * (1.0 + 1e-12)
    assert_allclose(problem.violation(result.V, result.privileged.T), 0.0, atol=1e-10)


@pytest.mark.compiled
def test_point_before_is_returned_when_nothing_is_better(rng):
    problem = make_problem(rng, prior=prior_of(rng.normal(size=(2, 3)), "dense"))
    best = solve(problem, tol=1e-9)
    before = (best.primal * (1.0 - 1e-3), np.full((4, 3), np.nan), best.privileged.T)
    result = solve(problem, tol=1e-2, before=before)
    assert result.primal == before[0]
    assert np.isnan(result.V).all()
    assert result.dual <= best.primal


@pytest.mark.compiled
def test_limits_and_callback(rng):
    problem = make_problem(rng)
    assert solve(problem, tol=1e-12, max_iter=1).status is Status.MAX_ITER
    seen = []
    control = Control(1e-8, 100, callback=lambda point: seen.append(point) or len(seen) == 2)
    result = solve_svm_plus(problem, problem.X, control)
    assert result.status is Status.STOPPED
    assert len(seen) == 2
