"""Scores of cliques and rounds of their generation, against labelings that are all written out."""

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize_scalar
from tests.structured.naive_structured import naive_clique_scores
from tests.structured.reference_structured import all_labelings, features, structured_dual

from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.row_products import RowProducts
from comargin.core.validation import loop_view
from comargin.inference import Inference
from comargin.structured import cgm_solver as module
from comargin.structured import solver as solver_module
from comargin.structured.cgm_solver import Generation, candidate_cliques, score_cliques, solve_cgm
from comargin.structured.cliques import CliqueSet
from comargin.structured.problem import StructuredProblem
from comargin.structured.solver import solve_structured

GRAPHS = {
    "none": CliqueSet(4),
    "tree": CliqueSet(4, ((0, 1), (1, 3)), (0, 0)),
    "two parts": CliqueSet(4, ((0, 2), (1, 3)), (0, 1)),
    "triple": CliqueSet(4, ((0, 2, 3),), (0,)),
    "all joined": CliqueSet(4, ((0, 1), (1, 2), (2, 3)), (0, 0, 1)),
}


def problem_of(rng, cliques, n=14, n_features=3, alpha=0.05):
    """Labels that depend on X and on each other; row 3 has no mass, and the last feature is constant."""
    n_labels = cliques.n_labels
    X = np.column_stack([rng.normal(size=(n, n_features)) * (rng.random((n, n_features)) < 0.8), np.ones(n)])
    Y = (X @ rng.normal(size=(n_features + 1, n_labels)) + 0.5 * rng.normal(size=(n, n_labels)) > 0).astype(np.uint8)
    Y[:, -1] = Y[:, 0] ^ Y[:, 1]
    mass = 0.5 + rng.random(n)
    mass[3] = 0.0
    return StructuredProblem(X, Y, mass / mass.sum(), np.ones(Y.shape), cliques, alpha)


def engine_of(cliques):
    return Inference(cliques.n_labels, cliques.cliques)


def dual_of(problem):
    """Masses on several labelings of most rows: a few passes from the truth."""
    return solve_structured(problem, loop_view(problem.X), engine_of, Control(1e-9, 3), seed=0).dual_coef


def explicit(problem, dual):
    """The masses as one array over all labelings: parts are independent, so that their shares are multiplied."""
    labelings = all_labelings(problem.cliques.n_labels)
    out = np.repeat(problem.mass[:, None], len(labelings), axis=1)
    for labels, known in zip(dual.parts, dual.known, strict=True):
        for i in np.flatnonzero(problem.mass):
            share = np.zeros(len(labelings))
            for p in range(known.count[i]):
                share[np.all(labelings[:, labels] == known.labels[i, p], axis=1)] += known.mass[i, p]
            out[i] *= share / problem.mass[i]
    return out


def scores_of(problem, dual, order):
    with ThreadPoolExecutor(1) as pool:
        return score_cliques(problem, dual, order, RowProducts(problem.X, pool))


def solve(problem, rules, tol=1e-4, max_iter=3000, callback=None, **options):
    control = Control(tol, max_iter, callback=callback)
    options = {"seed": 0} | options
    return solve_cgm(problem, loop_view(problem.X), engine_of, control, rules, **options)


def test_candidates_are_all_subsets():
    assert list(candidate_cliques(4, 2)) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    found = list(candidate_cliques(5, 4))
    assert len(found) == len(set(found)) == 10 + 10 + 5
    assert all(list(c) == sorted(set(c)) and 2 <= len(c) <= 4 for c in found)
    assert list(candidate_cliques(1, 2)) == []


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("graph", GRAPHS)
def test_scores_are_those_of_all_labelings(graph, order, rng):
    problem = problem_of(rng, GRAPHS[graph])
    dual = dual_of(problem)
    cliques, scores = scores_of(problem, dual, order)
    higher = [clique for clique in GRAPHS[graph].cliques if len(clique) > order]
    assert cliques == [*candidate_cliques(4, order), *higher]
    expected = naive_clique_scores(problem.X, problem.Y, explicit(problem, dual), cliques, fit_intercept=False)
    assert max(expected) > 1e-3
    assert_allclose(scores, expected, rtol=1e-9, atol=1e-14)


def test_scores_of_all_orders_at_once(rng):
    problem = problem_of(rng, GRAPHS["tree"])
    dual = dual_of(problem)
    cliques, scores = scores_of(problem, dual, 4)
    expected = naive_clique_scores(problem.X, problem.Y, explicit(problem, dual), cliques, fit_intercept=False)
    assert_allclose(scores, expected, rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_scores_in_parts_of_bounded_memory(storage, rng, monkeypatch):
    problem = problem_of(rng, CliqueSet(6, ((0, 5), (2, 3)), (0, 0)), n=8)
    dual = dual_of(problem)
    if storage == "csr":
        problem = replace(problem, X=sp.csr_array(problem.X))
    cliques, whole = scores_of(problem, dual, 3)
    widths = []
    backward = RowProducts.backward

    def counted(self, Q):
        widths.append(Q.shape[1])
        return backward(self, Q)

    monkeypatch.setattr(RowProducts, "backward", counted)
    monkeypatch.setattr(module, "_MOMENT_BYTES", 0)
    again, scores = scores_of(problem, dual, 3)
    assert again == cliques
    assert len(cliques) == 15 + 20
    assert len(widths) >= 3
    assert max(widths) <= 16 * 7  # as many subsets as 16 triples can have
    assert_allclose(scores, whole, rtol=1e-12)
    pairs = cliques[:3] + cliques[-3:]
    X = problem.X.toarray() if storage == "csr" else problem.X
    expected = naive_clique_scores(X, problem.Y, explicit(problem, dual), pairs, fit_intercept=False)
    assert_allclose(np.r_[scores[:3], scores[-3:]], expected, rtol=1e-9, atol=1e-14)


def test_masses_on_the_truth_ask_for_no_clique(rng):
    problem = problem_of(rng, GRAPHS["tree"])
    assert_allclose(scores_of(problem, module.StructuredDual.true(problem), 3)[1], 0.0, atol=1e-30)


def test_one_label_has_no_cliques(rng):
    problem = problem_of(rng, CliqueSet(4))
    Y = np.ascontiguousarray(problem.Y[:, :1])
    one = replace(problem, Y=Y, cost=np.ones((len(Y), 1)), cliques=CliqueSet(1))
    result, cliques, rounds = solve(one, Generation(1, 2, None, 50, 0.0))
    assert cliques.cliques == ()
    assert len(rounds) == 1
    assert 0.0 <= rounds[0].improvement <= result.gap * (1 + 1e-9) + 1e-14


@pytest.mark.parametrize("per_round", [1, 2])
def test_improvement_is_the_dual_of_the_relaxed_problem(per_round, rng):
    """Problem (6) has a group for every set of r cliques: its dual at the same masses, all labelings written out.

    Part of the mass may be moved to the true labelings, where it counts for nothing: the best part.
    """
    problem = problem_of(rng, CliqueSet(4))
    sets = list(itertools.combinations(candidate_cliques(4, 2), per_round))
    cliques = [c for chosen in sets for c in chosen]
    groups = np.repeat(np.arange(len(sets)), per_round)
    weight = problem.mass * len(problem.mass)
    shares = []
    for n_rounds in range(4):
        result, active, rounds = solve(problem, Generation(per_round, 2, None, n_rounds, 0.0))
        masses = explicit(replace(problem, cliques=active), result.dual_coef)

        def negative_dual(share, masses=masses):
            return -structured_dual(
                problem.X, problem.Y, cliques, groups, problem.alpha, share * masses, False, sample_weight=weight
            )

        best = minimize_scalar(negative_dual, bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-9})
        bound = -min(best.fun, negative_dual(1.0))
        shares.append(best.x)
        last = rounds[-1]
        assert len(rounds) <= n_rounds + 1
        assert_allclose(last.objective - last.improvement, bound, rtol=1e-7, atol=1e-9)
        assert 0.0 < last.improvement <= last.objective
    assert last.improvement < rounds[0].improvement
    assert min(shares) < 0.9


def test_each_round_takes_the_best_inactive_cliques(rng):
    problem = problem_of(rng, CliqueSet(4))
    _, cliques, rounds = solve(problem, Generation(2, 2, 5, 50, 0.0), tol=1e-2)
    assert [r.n_cliques for r in rounds] == [0, 2, 4, 5]  # the last has room for one only
    assert cliques.groups == (0, 0, 1, 1, 2)
    assert cliques.cliques == tuple(c for r in rounds for c in r.cliques)
    for k in range(1, 4):
        before, active, _ = solve(problem, Generation(2, 2, 2 * (k - 1), 50, 0.0), tol=1e-2)
        assert active.cliques == cliques.cliques[: 2 * (k - 1)]
        replaced = replace(problem, cliques=active)
        candidates, scores = scores_of(replaced, before.dual_coef, 2)
        inactive = [c for c in np.argsort(-scores) if candidates[c] not in active.cliques]
        assert rounds[k].cliques == tuple(candidates[c] for c in inactive[: len(rounds[k].cliques)])


def test_passes_and_certificates_of_the_rounds_add_up(rng):
    problem = problem_of(rng, CliqueSet(4))
    result, _, rounds = solve(problem, Generation(1, 2, 3, 50, 0.0), tol=1e-6)
    assert result.status is Status.CONVERGED
    assert result.n_iter == sum(r.n_iter for r in rounds)
    iterations = [point.n_iter for point in result.history]
    assert iterations == sorted(iterations)
    seconds = [point.seconds for point in result.history]
    assert seconds == sorted(seconds)
    certified = {(point.n_iter, point.primal, point.gap) for point in result.history}
    assert all(
        (n, r.objective, r.gap) in certified for n, r in zip(np.cumsum([r.n_iter for r in rounds]), rounds, strict=True)
    )
    assert all(r.gap <= 1.0001e-2 * r.objective for r in rounds)
    assert rounds[-1].gap <= 1e-6 * rounds[-1].objective


@pytest.mark.compiled
def test_the_last_round_is_that_of_the_fixed_graph(rng):
    problem = problem_of(rng, CliqueSet(4))
    result, cliques, _ = solve(problem, Generation(1, 3, 3, 50, 0.0), tol=1e-6)
    fixed = replace(problem, cliques=cliques)
    direct = solve_structured(fixed, loop_view(problem.X), engine_of, Control(1e-6, 5000), seed=1)
    assert_allclose(result.primal, direct.primal, rtol=2e-6)
    assert len(cliques.cliques) == 3


@pytest.mark.compiled
def test_rule_of_two_rounds(rng):
    """Rule A.3: stop at the first t > 2 with f_(t-2) - f_t <= round_tol f_(t-2), and go back to t - 2."""
    problem = problem_of(rng, CliqueSet(5))
    _, _, everything = solve(problem, Generation(1, 2, None, 50, 0.0), tol=1e-2)  # no round is solved twice
    objectives = [r.objective for r in everything]
    falls = {t: (objectives[t - 2] - objectives[t]) / objectives[t - 2] for t in range(3, len(objectives))}
    assert len(falls) >= 2
    for round_tol in (1.0, *(1.001 * fall for fall in falls.values()), 0.0):
        _, _, rounds = solve(problem, Generation(1, 2, None, 50, round_tol), tol=1e-2)
        stops = [t for t, fall in falls.items() if fall <= round_tol and round_tol > 0.0]
        last = min(stops, default=len(objectives) + 1) - 2
        found = [r.objective for r in rounds]
        assert found[:-1] == objectives[:last]
        assert_allclose(found[-1], objectives[last], rtol=1e-13)  # certified again on the way back


@pytest.mark.compiled
def test_rounds_and_cliques_are_bounded(rng):
    problem = problem_of(rng, CliqueSet(4))
    for most, n_rounds, expected in [(0, 50, 0), (None, 0, 0), (None, 2, 2), (1, 50, 1), (3, 2, 2), (100, 100, 6)]:
        _, cliques, rounds = solve(problem, Generation(1, 2, most, n_rounds, 0.0), tol=1e-6)
        assert len(cliques.cliques) <= expected
        assert (
            len(cliques.cliques) == expected or rounds[-1].improvement - rounds[-1].gap <= 1e-6 * rounds[-1].objective
        )
        assert len(rounds) == 1 + cliques.n_groups


def test_rounds_share_the_inner_products_of_the_rows(rng, monkeypatch):
    problem, made = problem_of(rng, CliqueSet(4), n_features=20), []

    def products(X, pool):
        made.append(RowProducts(X, pool))
        return made[-1]

    for solver in (module, solver_module):
        monkeypatch.setattr(solver, "RowProducts", products)
    rounds = solve(problem, Generation(1, 2, 3, 50, 0.0))[2]
    assert len(rounds) > 2
    assert len(made) == 1


def test_a_callback_stops_generation(rng):
    problem = problem_of(rng, CliqueSet(4))
    seen = []
    result, cliques, rounds = solve(
        problem,
        Generation(1, 2, None, 50, 0.0),
        callback=lambda point: seen.append(point) or len(seen) == 6,
    )
    assert result.status is Status.STOPPED
    assert result.history == tuple(seen)
    assert len(rounds) == 1 + cliques.n_groups
    assert rounds[-1].objective == seen[-1].primal
    assert result.coef.shape == (cliques.n_columns, 4)


@pytest.mark.compiled
@pytest.mark.parametrize("round_tol", [0.0, 0.5])
def test_a_state_goes_on_to_the_same_end(round_tol, rng):
    """States are copies: all are taken while the solver runs on, and each leads to the end of the uninterrupted run."""
    problem = problem_of(rng, CliqueSet(4), n=40, alpha=1e-3)
    rules, states = Generation(1, 2, 4, 50, round_tol), []
    control = Control(1e-6, 3000, keep=lambda state: states.append(state().solution))
    whole, cliques, rounds = solve_cgm(problem, loop_view(problem.X), engine_of, control, rules, seed=0)
    assert [state.history[-1] for state in states] == list(whole.history)
    within = [s for s in states if len(s.history) > 1 and s.history[-1].n_iter > s.first_pass]
    assert within
    for state in states:
        assert state.shape == problem.Y.shape
        again, same_cliques, same_rounds = solve(problem, rules, tol=1e-6, start=state)
        assert same_cliques == cliques
        assert [r.cliques for r in same_rounds] == [r.cliques for r in rounds]
        assert_allclose([r.objective for r in same_rounds], [r.objective for r in rounds], rtol=1e-2)
        assert_allclose(again.primal, whole.primal, rtol=2e-6)
        n_before = len(state.history) - 1
        assert again.history[:n_before] == whole.history[:n_before]
        assert_allclose(again.history[n_before][2:], whole.history[n_before][2:], rtol=1e-9)
        assert again.n_iter == sum(r.n_iter for r in same_rounds)
    end, _, same_rounds = solve(problem, rules, tol=1e-6, start=states[-1])
    assert len(end.history) == len(whole.history)
    assert same_rounds[:-1] == rounds[:-1]


@pytest.mark.compiled
def test_a_start_goes_on_where_another_ended(rng):
    problem = problem_of(rng, CliqueSet(4))
    first, cliques, _ = solve(problem, Generation(1, 2, 2, 50, 0.0), tol=1e-6)
    again, more, rounds = solve(problem, Generation(1, 2, 4, 50, 0.0), tol=1e-6, start=first.dual_coef)
    cold, from_nothing, _ = solve(problem, Generation(1, 2, 4, 50, 0.0), tol=1e-6)
    assert more.cliques[:2] == cliques.cliques
    assert more.groups == (0, 1, 2, 3)
    assert rounds[0].n_cliques == 2
    assert again.history[0].gap <= 1e-5 * again.history[0].primal
    if more.cliques == from_nothing.cliques:
        assert_allclose(again.primal, cold.primal, rtol=2e-6)


def test_a_start_with_larger_cliques_than_those_asked_for(rng):
    problem = problem_of(rng, CliqueSet(4), n=60)
    problem.Y[:, :2] = rng.integers(0, 2, size=(60, 2))
    problem.Y[:, 3] = problem.Y[:, 0] ^ problem.Y[:, 1]
    first, cliques, _ = solve(problem, Generation(1, 3, 1, 50, 0.0), tol=1e-3)
    assert cliques.cliques == ((0, 1, 3),)
    _, more, _ = solve(problem, Generation(1, 2, 2, 50, 0.0), tol=1e-3, start=first.dual_coef)
    assert more.cliques[0] == cliques.cliques[0]
    assert len(more.cliques[1]) == 2


@pytest.mark.usefixtures("threaded_blas")
def test_threads_do_not_change_the_result(rng, monkeypatch):
    monkeypatch.setattr("comargin.core.row_products._WORTH_A_THREAD", 1)
    monkeypatch.setattr("comargin.structured._connected_part._CHUNK", 8)
    problem = problem_of(rng, CliqueSet(4), n=30)
    one, two = (solve(problem, Generation(1, 3, 3, 50, 0.0), tol=1e-3, n_threads=n) for n in (1, 2))
    assert_array_equal(one[0].coef, two[0].coef)
    assert one[1] == two[1]
    assert [r[:-1] for r in one[2]] == [r[:-1] for r in two[2]]  # all but the seconds


def test_hamming_is_weighted_by_the_rows(rng):
    problem = problem_of(rng, CliqueSet(4), alpha=0.5)
    result, cliques, rounds = solve(problem, Generation(1, 2, 2, 50, 0.0))
    labelings = all_labelings(4)
    scores = problem.X @ result.coef.T @ features(cliques, labelings).T
    wrong = np.mean(labelings[np.argmax(scores, axis=1)] != problem.Y, axis=1)
    assert wrong.any()
    assert rounds[-1].hamming == pytest.approx(problem.mass @ wrong)
