"""Newton directions of coupled labels: through the coordinates of the rows' span, or by conjugate gradients."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests import reference_prml as reference

from comargin._validation import kernel_view
from comargin.problems.label_prior import PriorPart
from comargin.problems.prml import PrivilegedSets, SVMPlusProblem
from comargin.solvers import Control, _prml_coupled
from comargin.solvers._prml_coupled import solves_directly
from comargin.solvers._prml_feasible import privileged_ways
from comargin.solvers._prml_split import SplitPhase
from comargin.solvers._prml_step import StepBlock
from comargin.solvers._prml_system import Features
from comargin.solvers.prbr import _Split, solve_svm_plus


def wide_problem(rng, n=30, d=2000, n_labels=4, rank=2, sparse=True, C=1.0):
    """Few rows, many features, R of low rank; two rows are alike."""
    X = np.where(rng.random((n, d)) < 0.02, rng.normal(size=(n, d)), 0.0)
    X[1] = X[0]
    S = np.where(X @ rng.normal(size=(d, n_labels)) + 3.0 * rng.normal(size=(n, n_labels)) > 1.0, 1, -1).astype(np.int8)
    prior = PriorPart(np.arange(n_labels), "factor", rng.normal(size=(n_labels, rank)))
    X = sp.csr_array(X) if sparse else X
    return SVMPlusProblem(X, S, np.full(n, C), np.ones((2, n_labels)), prior, 0.5, PrivilegedSets.of(S))


def features_of(problem):
    return Features(problem.X, kernel_view(problem.X))


def advanced(problem, n_updates=3):
    block = StepBlock(problem, problem.labels, features_of(problem), 40.0, 1e-9, None, privileged_ways(problem))
    for _ in range(n_updates):
        block.advance()
    return block


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
    result = solve_svm_plus(problem, kernel_view(problem.X), Control(1e-7, 200), seeds=(0,))
    X = problem.X.toarray() if sparse else problem.X
    optimum = reference.d_step_optimum(X, problem.S, problem.prior.matrix.T, 1.0, 0.5)
    assert_allclose(result.primal, optimum.objective, rtol=1e-5)
    assert result.gap <= 1e-7 * result.primal


@pytest.mark.compiled
@pytest.mark.parametrize("at_once", [1, 2000, 10**9])
def test_both_ways_lead_to_one_point(rng, monkeypatch, at_once):
    problem = wide_problem(rng)
    monkeypatch.setattr(_prml_coupled, "_MOMENTS_AT_ONCE", at_once)
    monkeypatch.setattr(_prml_coupled, "_CG_SHARE", 1e-9)
    direct = advanced(problem)
    monkeypatch.setattr(_prml_coupled, "_DIRECT_SIZE", 0)
    by_cg = advanced(problem)
    assert_allclose(direct.best_dual, by_cg.best_dual, rtol=1e-6)
    assert_allclose(direct.T, by_cg.T, atol=1e-5)


@pytest.mark.compiled
def test_fruitless_passes_get_a_second_chance_before_conjugate_gradients(rng, monkeypatch):
    """A good start is not reached again by the first passes; a Newton step costs more than all of them."""
    problem = wide_problem(rng)
    monkeypatch.setattr(SplitPhase, "iterate", lambda self: None)
    for size, n_rounds in ((_prml_coupled._DIRECT_SIZE, 1), (0, 2)):
        monkeypatch.setattr(_prml_coupled, "_DIRECT_SIZE", size)
        split = _Split(advanced(problem, 1), seed=0)
        for number in range(n_rounds):
            assert not split.exhausted, number
            split.advance(map, lambda: None)
        assert split.exhausted
