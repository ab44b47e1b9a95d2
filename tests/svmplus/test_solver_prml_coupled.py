"""Newton directions of coupled labels in the span of the rows; passes alone where that is too large."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests.svmplus import reference_prml as reference

from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.validation import loop_view
from comargin.m3l.prior import PriorPart
from comargin.svmplus import _coupled
from comargin.svmplus._coupled import solves_directly
from comargin.svmplus._system import Features
from comargin.svmplus.problem import PrivilegedSets, SVMPlusProblem
from comargin.svmplus.step_solver import solve_svm_plus


def wide_problem(rng, n=30, d=2000, n_labels=4, rank=2, sparse=True, C=1.0):
    """Few rows, many features, R of low rank; two rows are alike."""
    X = np.where(rng.random((n, d)) < 0.02, rng.normal(size=(n, d)), 0.0)
    X[1] = X[0]
    S = np.where(X @ rng.normal(size=(d, n_labels)) + 3.0 * rng.normal(size=(n, n_labels)) > 1.0, 1, -1).astype(np.int8)
    prior = PriorPart(np.arange(n_labels), "factor", rng.normal(size=(n_labels, rank)))
    X = sp.csr_array(X) if sparse else X
    return SVMPlusProblem(X, S, np.full(n, C), np.ones((2, n_labels)), prior, 0.5, PrivilegedSets.of(S))


def features_of(problem):
    return Features(problem.X, loop_view(problem.X))


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize(("n", "d"), [(20, 50), (50, 20)])
def test_compact_rows_have_the_same_products(rng, n, d, sparse):
    X = rng.normal(size=(n, d))
    X[3] = 2.0 * X[1]
    features = Features(sp.csr_array(X) if sparse else X, None)
    rows = np.array([0, 1, 3, 7])
    compact = features.compact(rows)
    assert compact.shape == (4, min(n, d)) == (4, features.n_compact)
    assert_allclose(compact @ compact.T, X[rows] @ X[rows].T, atol=1e-12)
    if not sparse:
        V = X.T @ rng.normal(size=(n, 3))
        assert_allclose(compact @ features.compact_weights(V), X[rows] @ V, atol=1e-10)


@pytest.mark.compiled
@pytest.mark.parametrize("sparse", [True, False])
def test_few_rows_are_solved_directly(rng, sparse):
    """D has 4000 entries, but rows of it are in the span of 30 rows of X."""
    problem = wide_problem(rng, sparse=sparse)
    assert solves_directly(features_of(problem), problem.prior)
    result = solve_svm_plus(problem, loop_view(problem.X), Control(1e-7, 200))
    X = problem.X.toarray() if sparse else problem.X
    optimum = reference.d_step_optimum(X, problem.S, problem.prior.matrix.T, 1.0, 0.5)
    assert_allclose(result.primal, optimum.objective, rtol=1e-5)
    assert result.gap <= 1e-7 * result.primal


@pytest.mark.compiled
@pytest.mark.parametrize("at_once", [1, 2000, 10**9])
def test_moments_are_summed_in_parts_of_any_size(rng, monkeypatch, at_once):
    problem = wide_problem(rng)
    whole = solve_svm_plus(problem, loop_view(problem.X), Control(1e-6, 200))
    monkeypatch.setattr(_coupled, "_MOMENTS_AT_ONCE", at_once)
    parts = solve_svm_plus(problem, loop_view(problem.X), Control(1e-6, 200))
    assert_allclose(parts.primal, whole.primal, rtol=1e-6)


@pytest.mark.compiled
@pytest.mark.parametrize("weighted", [False, True])
def test_passes_are_enough_where_newton_steps_are_too_large(rng, monkeypatch, weighted):
    """Also with rows and pairs of no weight, which have no constraints."""
    problem = wide_problem(rng, C=0.3)
    if weighted:
        row_cost, label_cost = problem.row_cost.copy(), np.ones((2, 4))
        row_cost[:3], label_cost[0, 1] = 0.0, 0.0
        problem = replace(problem, row_cost=row_cost, label_cost=label_cost)
    best = solve_svm_plus(problem, loop_view(problem.X), Control(1e-7, 200))
    monkeypatch.setattr(_coupled, "_MOST_ENTRIES", 0)
    passes = solve_svm_plus(problem, loop_view(problem.X), Control(1e-3, 200))
    assert passes.status is Status.CONVERGED
    assert problem.violation(passes.V, passes.privileged.T).max() <= 1e-9
    assert best.dual * (1 - 1e-9) <= passes.primal <= best.primal * (1 + 1e-3)
