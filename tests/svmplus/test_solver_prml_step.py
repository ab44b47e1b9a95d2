"""The method of multipliers: penalties that grow, and that are lowered when they prove too hard."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests import reference_prml as reference

from comargin.problems.label_prior import identity_prior
from comargin.problems.prml import PrivilegedSets, SVMPlusProblem
from comargin.solvers import _prml_step
from comargin.solvers._prml_feasible import privileged_ways
from comargin.solvers._prml_step import StepBlock
from comargin.solvers._prml_system import Features


def make_block(rng, sigma=None, tol=1e-8):
    X = rng.normal(size=(30, 4))
    S = np.where(X @ rng.normal(size=(4, 3)) + 0.7 * rng.normal(size=(30, 3)) > 0.2, 1, -1).astype(np.int8)
    problem = SVMPlusProblem(X, S, np.ones(30), np.ones((2, 3)), identity_prior(3)[0], 1.0, PrivilegedSets.of(S))
    block = StepBlock(problem, np.array([1]), Features(X, X), 4.0, tol, None, privileged_ways(problem))
    if sigma is not None:
        block.sigma = np.array([sigma])
    return problem, block


def best_of(problem):
    """cvxpy's optimum of the block's label."""
    best = reference.prbr_optimum(problem.X, problem.S, 1.0, 1.0)
    Z, T = best.weights.copy(), best.Wt.copy()
    Z[:, [0, 2]], T[:, [0, 2]] = 0.0, 0.0
    xi = reference.privileged_features(problem.S, 1) @ T[:, 1]
    return 0.5 * np.sum(Z**2) + 0.5 * np.sum(T**2) + xi.sum()


@pytest.mark.compiled
def test_penalty_grows_while_updates_are_solved(rng):
    problem, block = make_block(rng, sigma=0.1)
    for _ in range(30):
        before, A = block.sigma.copy(), block.A
        block.advance()
        if block.done:
            break
        assert_allclose(block.sigma, 2.0 * before)
        assert block.A is not A
    assert block.done
    assert_allclose(block.best_primal, best_of(problem), rtol=1e-6)


@pytest.mark.compiled
def test_penalty_has_an_upper_limit(rng):
    _, block = make_block(rng, sigma=0.2)
    block.largest_penalty = np.array([0.3])
    block.advance()
    assert_array_equal(block.sigma, 0.3)


@pytest.mark.compiled
def test_penalty_that_is_too_hard_is_lowered(rng, monkeypatch):
    """Newton steps that end before anything is gained: the multipliers stay, and the next update is easier."""
    monkeypatch.setattr(StepBlock, "_newton_step", lambda self, *rest: False)
    problem, block = make_block(rng, sigma=1e6)
    A, B, dual, primal = block.A, block.B, block.best_dual, block.best_primal
    block.advance()
    assert_array_equal(block.sigma, 1e6 / 16.0)
    assert block.A is A
    assert block.B is B
    assert (block.best_dual, block.best_primal) == (dual, primal)
    monkeypatch.undo()
    for _ in range(40):
        block.advance()
        if block.done:
            break
    assert_allclose(block.best_primal, best_of(problem), rtol=1e-6)


@pytest.mark.compiled
def test_unsolved_update_that_gains_is_kept(rng, monkeypatch):
    """One Newton step is too few to solve it, but the dual has risen."""
    _, block = make_block(rng, sigma=0.05)
    monkeypatch.setattr(_prml_step, "_MOST_NEWTON", 1)
    dual, A = block.best_dual, block.A
    block.advance()
    assert block.best_dual > dual
    assert block.A is not A
    assert_allclose(block.sigma, 0.1)


@pytest.mark.compiled
@pytest.mark.parametrize("sigma", [1e-6, 1.0, 1e6, 1e12])
def test_any_penalty_leads_to_the_optimum(rng, sigma):
    problem, block = make_block(rng, sigma=sigma)
    duals = []
    for _ in range(100):
        block.advance()
        duals.append(block.best_dual)
        if block.done:
            break
    assert duals == sorted(duals)
    assert_allclose(block.best_primal, best_of(problem), rtol=1e-6)
