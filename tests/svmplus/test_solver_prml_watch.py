"""What is seen of PrML within its steps, and what remains when it is ended there."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.svmplus.test_solver_prml_solver import broken, make_problem

from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.validation import loop_view
from comargin.svmplus import _alternation
from comargin.svmplus.prml_solver import solve_prml


@pytest.fixture(autouse=True)
def always_looking(monkeypatch):
    monkeypatch.setattr(_alternation, "POLICY", replace(_alternation.POLICY, seconds=0.0))


def solve(problem, callback=None, rank=2, seeds=(0,), tol=1e-3, **options):
    control = Control(tol, 100, callback=callback)
    return solve_prml(problem, loop_view(problem.X), control, rank=rank, seeds=seeds, **options)


def stop_at(number):
    calls = itertools.count(1)
    return lambda point: next(calls) == number


@pytest.mark.compiled
@pytest.mark.parametrize("sparse", [False, True])
def test_looking_changes_nothing(rng, sparse, monkeypatch):
    problem, seen = make_problem(rng, C=1.0, sparse=sparse), []
    looked_at = solve(problem, seen.append)
    monkeypatch.setattr(_alternation, "POLICY", replace(_alternation.POLICY, seconds=np.inf))
    alone = solve(problem)
    assert_array_equal(looked_at.coef, alone.coef)
    assert [point.primal for point in looked_at.history] == [point.primal for point in alone.history]
    assert set(looked_at.history) < set(seen)
    n_iter = [point.n_iter for point in seen]
    assert n_iter == sorted(n_iter)
    looks = [n_iter.count(number) for number in range(1, alone.n_iter)]
    assert np.mean([count > 2 for count in looks]) >= 0.5  # a step that its start certifies shows nothing
    assert n_iter.count(0) > 2  # the start from PrBR included
    assert all(point.dual <= point.primal * (1 + 1e-9) for point in seen)
    seconds = [point.seconds for point in seen]
    assert seconds == sorted(seconds)


@pytest.mark.compiled
@pytest.mark.parametrize(("rank", "seeds", "n_threads"), [(2, (0,), 1), (1, (0,), 2), (2, (0, 1, 2), 1)])
def test_stopped_anywhere_it_has_a_feasible_point(rng, rank, seeds, n_threads):
    problem, seen = make_problem(rng, C=1.0), []
    whole = solve(problem, seen.append, rank, seeds, n_threads=n_threads)
    nothing = problem.objective(np.zeros((1, 6)), np.zeros((1, 4)), np.eye(4))
    within = 0
    for number in range(1, len(seen) + 1, max(1, len(seen) // 12)):
        result = solve(problem, stop_at(number), rank, seeds, n_threads=n_threads)
        assert result.status is Status.STOPPED
        assert broken(problem, result) <= 1e-9
        assert_allclose(result.primal, problem.objective(result.dictionary, result.codes, result.privileged.T))
        assert result.primal <= nothing
        assert result.gap >= -1e-9 * result.primal
        assert result.lower_bound <= result.primal * (1 + 1e-9)
        objectives = [point.primal for point in result.history]
        assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(objectives))
        n_iter = [point.n_iter for point in result.history]
        assert n_iter == sorted(n_iter)
        within += len(set(n_iter)) < len(n_iter)
        again = solve(problem, rank=rank, seeds=seeds, start=result.kept)
        assert again.status is Status.CONVERGED
        assert again.primal <= max(1.05 * whole.primal, result.primal)
    assert within > 1


@pytest.mark.compiled
def test_ended_within_a_step_it_is_no_worse_than_shown(rng):
    problem, seen = make_problem(rng, C=1.0), []
    solve(problem, seen.append)
    numbers = [k for k, point in enumerate(seen, 1) if point.n_iter == 1][1:-1]
    for number in numbers[:: max(1, len(numbers) // 8)]:
        result = solve(problem, stop_at(number))
        assert result.n_iter == 1
        assert [point.n_iter for point in result.history] == [1, 1]
        assert result.primal <= seen[number - 1].primal * (1 + 1e-12)


@pytest.mark.compiled
@pytest.mark.parametrize("C", [1.0, 100.0])
def test_ended_in_the_first_alternation_it_is_no_worse_than_all_that_was_shown(rng, C):
    problem, seen = make_problem(rng, C=C), []
    solve(problem, seen.append)
    shown = [point.primal for point in seen if point.n_iter == 0]
    assert all(after <= before * (1 + 1e-12) for before, after in itertools.pairwise(shown))
    for number in range(1, len(shown), max(1, len(shown) // 12)):
        result = solve(problem, stop_at(number))
        assert result.primal <= min(shown[:number]) * (1 + 1e-12)
        assert result.gap >= -1e-9 * result.primal
        assert broken(problem, result) <= 1e-9


@pytest.mark.compiled
def test_verbose_shows_the_steps(rng, capfd):
    problem = make_problem(rng, C=1.0)
    result = solve_prml(problem, problem.X, Control(1e-4, 100, verbose=1), rank=2, seeds=(0,))
    assert capfd.readouterr().err.count("iteration 1 ") > 2
    assert result.status is Status.CONVERGED


@pytest.mark.compiled
@pytest.mark.parametrize("seeds", [(0,), (0, 1)])
def test_kept_states_lead_to_the_same_end(rng, seeds):
    """Every alternation, and every look within a step, offers a state; a fit goes on from it as if uninterrupted."""
    problem, states = make_problem(rng, C=1.0), []
    control = Control(1e-5, 100, keep=lambda state: states.append(state().solution))
    whole = solve_prml(problem, loop_view(problem.X), control, rank=2, seeds=seeds)
    assert len(states) > whole.n_iter  # some were kept within a step
    assert len({state.stopped.history for state in states}) >= whole.n_iter > 2
    for state in (states[0], states[len(states) // 2], states[-1]):
        again = solve(problem, tol=1e-5, seeds=seeds, start=state)
        assert again.primal == whole.primal
        assert_array_equal(again.coef, whole.coef)
        assert [point.primal for point in again.history] == [point.primal for point in whole.history]
