"""The method of multipliers: penalties that grow, and that are lowered when they prove too hard."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.svmplus import reference_prml as reference

from comargin.m3l.prior import identity_prior
from comargin.svmplus import _step as _prml_step
from comargin.svmplus._step import StepBlock
from comargin.svmplus._system import Features
from comargin.svmplus.problem import PrivilegedSets, SlackDual, SVMPlusProblem


def make_block(rng, sigma=None, tol=1e-8):
    X = rng.normal(size=(30, 4))
    S = np.where(X @ rng.normal(size=(4, 3)) + 0.7 * rng.normal(size=(30, 3)) > 0.2, 1, -1).astype(np.int8)
    problem = SVMPlusProblem(X, S, np.ones(30), np.ones((2, 3)), identity_prior(3)[0], 1.0, PrivilegedSets.of(S))
    part = problem.part(np.array([1]))
    block = StepBlock(part, Features(X, X), tol, SlackDual(np.zeros((30, 1)), part.set_cost))
    if sigma is not None:
        block.at.sigma = np.array([sigma])
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
        before, A = block.at.sigma.copy(), block.at.A
        block.advance()
        if block.done:
            break
        assert_allclose(block.at.sigma, 2.0 * before)
        assert block.at.A is not A
    assert block.done
    assert_allclose(block.best.primal, best_of(problem), rtol=1e-6)


@pytest.mark.compiled
def test_penalty_has_an_upper_limit(rng):
    _, block = make_block(rng, sigma=0.2)
    block.largest_penalty = np.array([0.3])
    block.advance()
    assert_array_equal(block.at.sigma, 0.3)


@pytest.mark.compiled
def test_penalty_that_is_too_hard_is_lowered(rng, monkeypatch):
    """Newton steps that end before anything is gained: the multipliers stay, and the next update is easier."""
    monkeypatch.setattr(StepBlock, "_newton_step", lambda self, *rest: False)
    problem, block = make_block(rng, sigma=1e6)
    A, B, dual, primal = block.at.A, block.at.B, block.best.dual, block.best.primal
    block.advance()
    assert_array_equal(block.at.sigma, 1e6 / 16.0)
    assert block.at.A is A
    assert block.at.B is B
    assert (block.best.dual, block.best.primal) == (dual, primal)
    monkeypatch.undo()
    for _ in range(40):
        block.advance()
        if block.done:
            break
    assert_allclose(block.best.primal, best_of(problem), rtol=1e-6)


@pytest.mark.compiled
def test_unsolved_update_that_gains_is_kept(rng, monkeypatch):
    """One Newton step is too few to solve it, but the dual has risen."""
    _, block = make_block(rng, sigma=0.05)
    monkeypatch.setattr(_prml_step, "POLICY", replace(_prml_step.POLICY, most_newton=1))
    dual, A = block.best.dual, block.at.A
    block.advance()
    assert block.best.dual > dual
    assert block.at.A is not A
    assert_allclose(block.at.sigma, 0.1)


@pytest.mark.compiled
@pytest.mark.parametrize("sigma", [1e-6, 1.0, 1e6, 1e12])
def test_any_penalty_leads_to_the_optimum(rng, sigma):
    problem, block = make_block(rng, sigma=sigma)
    duals = []
    for _ in range(100):
        block.advance()
        duals.append(block.best.dual)
        if block.done:
            break
    assert duals == sorted(duals)
    assert_allclose(block.best.primal, best_of(problem), rtol=1e-6)
