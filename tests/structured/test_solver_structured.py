"""The structured SVM against an independent optimum, and what its certificate promises."""

import itertools
import os

import numpy as np
import pytest
import scipy.sparse as sp
from tests.structured.reference_structured import (
    all_labelings,
    features,
    structured_dual,
    structured_objective,
    structured_optimum,
)

from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.core.row_products import RowProducts
from comargin.core.threads import worker_threads
from comargin.core.validation import loop_view
from comargin.inference import Inference
from comargin.structured import _connected_part as module
from comargin.structured import labelings as _labelings
from comargin.structured._loops import scores_of_known
from comargin.structured.cliques import CliqueSet
from comargin.structured.labelings import StructuredDual, layout_of, parts_of
from comargin.structured.problem import StructuredProblem
from comargin.structured.solver import solve_structured

GRAPHS = {
    "none": ((), ()),
    "tree": (((0, 1), (1, 2), (1, 3)), (0, 0, 0)),
    "loop": (((0, 1), (1, 2), (0, 2)), (0, 0, 0)),
    "triple": (((0, 1, 2), (2, 3)), (0, 0)),
    "three groups": (((0, 1), (1, 2), (2, 3), (0, 3)), (0, 1, 1, 2)),
    "each its own": (((0, 1), (0, 2), (0, 3), (1, 2, 3)), (0, 1, 2, 3)),
}


# Plain Python is slow: one alpha and half the rows are enough to run every line.
PLAIN = os.environ.get("NUMBA_DISABLE_JIT") == "1"
ALPHAS = [0.01] if PLAIN else [0.3, 0.01, 1e-4]


def make(seed, n_samples=30, n_features=4, n_labels=4):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_samples, n_features))
    scores = X @ rng.standard_normal((n_features, n_labels)) + 0.5 * rng.standard_normal((n_samples, n_labels))
    Y = (scores > 0.3).astype(np.uint8)
    Y[:, 1] ^= (Y[:, 0] & (rng.random(n_samples) < 0.7)).astype(np.uint8)
    return X, Y


def problem_of(X, Y, graph, alpha, mass=None):
    rows = np.column_stack([X.toarray() if sp.issparse(X) else X, np.ones(len(Y))])
    rows = sp.csr_array(rows) if sp.issparse(X) else rows
    cliques, groups = GRAPHS[graph]
    mass = np.full(len(Y), 1.0 / len(Y)) if mass is None else mass
    return StructuredProblem(rows, Y, mass, np.ones(Y.shape), CliqueSet(Y.shape[1], cliques, groups), alpha)


def solve(problem, tol=1e-6, max_iter=5000, **options):
    return solve_structured(
        problem, loop_view(problem.X), engine_of, Control(tol, max_iter), seed=options.pop("seed", 0), **options
    )


def engine_of(cliques):
    return Inference(cliques.n_labels, cliques.cliques)


def blocks(problem, coef):
    """Weights as the reference writes them: u (K, 2, d) and one table per clique."""
    n_labels, column = problem.cliques.n_labels, problem.cliques.column
    half = 0.5 * coef[:n_labels]
    tables = [coef[a:b] for a, b in itertools.pairwise(column)]
    return np.stack([-half, half], axis=1), tables


def explicit_dual(problem, result):
    """Masses as an array over all labelings, the first label the most significant bit."""
    labelings = all_labelings(problem.cliques.n_labels)
    dual = np.repeat(problem.mass[:, None], len(labelings), axis=1)
    for labels, known in zip(result.dual_coef.parts, result.dual_coef.known, strict=True):
        for i in range(len(problem.Y)):  # independent between parts: products of the shares of the mass
            share = np.zeros(len(labelings))
            for p in range(known.count[i]):
                share[np.all(labelings[:, labels] == known.labels[i, p], axis=1)] += known.mass[i, p]
            dual[i] *= share / problem.mass[i]
    return dual


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("graph", GRAPHS)
def test_agrees_with_the_independent_optimum(graph, alpha, storage, seed):
    X, Y = make(seed, n_samples=15 if PLAIN else 30)
    cliques, groups = GRAPHS[graph]
    optimum, _, _ = structured_optimum(X, Y, cliques, groups, alpha)
    problem = problem_of(sp.csr_array(X) if storage == "csr" else X, Y, graph, alpha)
    result = solve(problem)
    assert result.status is Status.CONVERGED
    assert np.linalg.norm(result.coef) > 1e-3
    np.testing.assert_allclose(result.primal, optimum, rtol=3e-6, atol=1e-12)
    assert result.dual <= optimum * (1 + 1e-7)
    u, tables = blocks(problem, result.coef)
    np.testing.assert_allclose(structured_objective(X, Y, cliques, groups, alpha, u, tables), result.primal, rtol=1e-9)
    dual = structured_dual(X, Y, cliques, groups, alpha, explicit_dual(problem, result))
    np.testing.assert_allclose(dual, result.dual, rtol=1e-9, atol=1e-12)


def test_newton_steps_alone_agree(monkeypatch, seed):
    monkeypatch.setattr(module, "POLICY", module.StructuredPolicy(fewest_passes=1, most_passes=1))
    X, Y = make(seed)
    for graph in ("loop", "three groups"):
        optimum, _, _ = structured_optimum(X, Y, *GRAPHS[graph], 1e-3)
        result = solve(problem_of(X, Y, graph, 1e-3))
        assert result.n_iter < 100
        np.testing.assert_allclose(result.primal, optimum, rtol=3e-6)


def test_passes_alone_agree(monkeypatch, seed):
    monkeypatch.setattr(module, "POLICY", module.StructuredPolicy(fewest_passes=10**9))
    X, Y = make(seed)
    for graph in ("loop", "triple"):
        optimum, _, _ = structured_optimum(X, Y, *GRAPHS[graph], 0.1)
        result = solve(problem_of(X, Y, graph, 0.1), tol=1e-5)
        np.testing.assert_allclose(result.primal, optimum, rtol=3e-5)


def test_scores_of_known_labelings_are_differences_from_the_true_one(seed):
    X, Y = make(seed)
    problem = problem_of(X, Y, "triple", 0.05)
    dual = solve(problem, max_iter=5).dual_coef
    known, cliques = dual.known[0], problem.cliques
    potentials = np.random.default_rng(seed).normal(size=(len(Y), cliques.n_columns))
    out = np.full(known.mass.shape, np.nan)
    scores_of_known(np.arange(len(Y)), layout_of(cliques), known, potentials, out)
    for i in range(len(Y)):
        scores = features(cliques, known.labels[i]) @ potentials[i]
        scores[known.count[i] :] = scores[0]
        np.testing.assert_allclose(out[i], scores - scores[0], atol=1e-12)
    assert (known.count > 1).any()


def test_the_best_multiple_of_the_weights_is_certified(monkeypatch, seed):
    """After the same passes the dual is the same, and no known multiple of the weights has a lower primal."""
    rng = np.random.default_rng(seed)
    X, Y = rng.standard_normal((30, 40)), (rng.random((30, 4)) < 0.4).astype(np.uint8)
    problem = problem_of(X, Y, "tree", 1e-4)
    scaled = solve(problem, max_iter=3).history[-1]
    primals = []
    for multiple in (0.95, 1.0, 1.05):
        with monkeypatch.context() as patch:
            patch.setattr(module.ConnectedPart, "_best_multiple", lambda *_, multiple=multiple: multiple)
            last = solve(problem, max_iter=3).history[-1]
        np.testing.assert_allclose(last.dual, scaled.dual, rtol=1e-12)
        primals.append(last.primal)
    assert scaled.primal < 0.999 * primals[1]
    assert scaled.primal <= min(primals) * (1 + 1e-3)


@pytest.mark.compiled
@pytest.mark.parametrize("graph", ["none", "one alone", "tree", "three groups"])
def test_a_state_goes_on_to_the_same_end(graph, seed, monkeypatch):
    """States are copies: all are taken while the solver runs on, and each leads to its end, within the tolerance."""
    monkeypatch.setitem(GRAPHS, "one alone", (((0, 1), (1, 3)), (0, 0)))
    problem, states = problem_of(*make(seed), graph, 1e-3), []
    control = Control(1e-6, 5000, keep=lambda state: states.append(state().solution))
    whole = solve_structured(problem, loop_view(problem.X), engine_of, control, seed=0)
    assert len(states) >= len(whole.history) >= 2
    for state in states:
        assert isinstance(state, StructuredDual)
        again = solve(problem, start=state)
        assert again.status is Status.CONVERGED
        np.testing.assert_allclose(again.primal, whole.primal, rtol=2e-6)
    shown = [solve(problem, start=state, max_iter=0).history[0] for state in states[-len(whole.history) :]]
    np.testing.assert_allclose([p.dual for p in shown], [p.dual for p in whole.history], rtol=1e-9, atol=1e-12)


@pytest.mark.compiled
def test_weights_count_as_repeated_rows(seed):
    X, Y = make(seed)
    weight = np.random.default_rng(seed).integers(0, 3, len(X))
    repeated = solve(problem_of(np.repeat(X, weight, axis=0), np.repeat(Y, weight, axis=0), "tree", 0.05))
    weighted = solve(problem_of(X, Y, "tree", 0.05, mass=weight / weight.sum()))
    np.testing.assert_allclose(weighted.primal, repeated.primal, rtol=5e-6)
    np.testing.assert_allclose(weighted.coef, repeated.coef, atol=2e-2 * np.abs(repeated.coef).max())


def test_costs_of_wrong_labels(seed):
    """A cost of two for one label is the same as that label's loss counted twice in the explicit dual."""
    X, Y = make(seed)
    problem = problem_of(X, Y, "tree", 0.05)
    cost = np.array([[1.0, 2.0, 1.0, 0.5], [3.0, 1.0, 1.0, 0.0]])
    costs = np.where(Y > 0, cost[1], cost[0])
    costly = StructuredProblem(problem.X, Y, problem.mass, costs, problem.cliques, problem.alpha)
    result = solve(costly)
    u, tables = blocks(costly, result.coef)
    labelings = all_labelings(4)
    rows = np.asarray(problem.X)
    scores = np.zeros((len(rows), 16))
    for k in range(4):
        scores += (rows @ u[k].T)[:, labelings[:, k].astype(int)]
    for (a, b), table in zip(problem.cliques.cliques, tables, strict=True):
        scores += (rows @ table.T)[:, (2 * labelings[:, a] + labelings[:, b]).astype(int)]
    wrong = labelings[None] != Y[:, None]
    losses = np.sum(wrong * costs[:, None], axis=2)
    true = scores[np.arange(len(rows)), Y @ (2 ** np.arange(4)[::-1])]
    hinge = np.max(losses + scores - true[:, None], axis=1).mean()
    squares = np.sum(u**2) + sum(np.sum(t**2) for t in tables)
    np.testing.assert_allclose(result.primal, 0.5 * problem.alpha * squares + hinge, rtol=1e-9)
    assert result.gap <= 1e-6 * result.primal


@pytest.mark.usefixtures("threaded_blas")
def test_threads_do_not_change_the_result(seed, monkeypatch):
    monkeypatch.setattr("comargin.core.row_products._WORTH_A_THREAD", 1)
    monkeypatch.setattr(module, "_CHUNK", 8)
    X, Y = make(seed)
    one, two = (solve(problem_of(X, Y, "loop", 0.01), tol=1e-4, n_threads=n) for n in (1, 2))
    np.testing.assert_array_equal(one.coef, two.coef)
    assert one.history[-1].primal == two.history[-1].primal


def test_warm_start_at_the_optimum_is_certified_at_once(seed):
    X, Y = make(seed)
    problem = problem_of(X, Y, "three groups", 0.1)
    first = solve(problem, tol=1e-7)
    again = solve(problem, tol=1e-3, start=first.dual_coef)
    assert again.n_iter == 0
    np.testing.assert_allclose(again.primal, first.primal, rtol=1e-3)


def test_rows_that_know_more_labelings_than_there_is_room_for(monkeypatch, seed):
    monkeypatch.setattr(_labelings, "FIRST_CAPACITY", 2)
    X, Y = make(seed)
    optimum, _, _ = structured_optimum(X, Y, *GRAPHS["tree"], 0.05)
    result = solve(problem_of(X, Y, "tree", 0.05))
    assert result.dual_coef.known[0].labels.shape[1] > 2
    np.testing.assert_allclose(result.primal, optimum, rtol=3e-6)


def test_passes_in_row_space_keep_scores_and_moments_in_step(seed):
    problem = problem_of(*make(seed, n_features=40), "three groups", 1e-2)
    with worker_threads(1) as pool:
        data = module.PartData.of(problem, engine_of(problem.cliques), RowProducts(problem.X, pool))
        assert data.in_row_space
        assert data.super_blocks[0].stop == module.POLICY.row_space_block < len(problem.Y)
        start = StructuredDual.true(problem)
        part = module.ConnectedPart(data, module.Pace(1e-3), seed, start.known[0], None, start.group_weights)
        for _ in range(4):
            part.run_pass()
        V, moments = part.average, part.moments.copy()
        np.testing.assert_allclose(part.potentials, problem.X @ moments, atol=1e-12)
        part.certify()
    assert np.linalg.norm(V) > 1e-3
    np.testing.assert_allclose(moments, part.moments, atol=1e-12)  # anew from the masses
    assert part.certificate.dual > 0.0


class Loose:
    """Inference that finds the best labeling, but proves only a bound that is too high by ``slack``."""

    def __init__(self, engine, slack):
        self.engine, self.slack = engine, slack

    def map(self, potentials):
        labels, score, _ = self.engine.map(potentials)
        return labels, score, score + self.slack

    def best_labels(self, potentials):
        return self.engine.best_labels(potentials)

    def score(self, potentials, labels):
        return self.engine.score(potentials, labels)


def test_the_gap_counts_the_bound_of_inference(seed):
    X, Y = make(seed)
    problem = problem_of(X, Y, "loop", 0.1)
    exact = solve(problem, tol=1e-5)

    def loose_engine_of(cliques):
        return Loose(engine_of(cliques), 0.01)

    loose = solve_structured(problem, loop_view(problem.X), loose_engine_of, Control(1e-5, 60), seed=0)
    assert loose.status.falls_short
    assert loose.gap >= 0.01
    assert loose.dual <= exact.primal
    np.testing.assert_allclose(loose.primal, exact.primal + 0.01, rtol=1e-2)


def test_true_labelings_are_a_dual_point_of_value_zero():
    X, Y = make(0)
    problem = problem_of(X, Y, "tree", 0.1)
    start = StructuredDual.true(problem)
    assert start.shape == Y.shape
    result = solve(problem, tol=2.0, max_iter=1, start=start)
    assert result.history[0].dual == 0.0
    np.testing.assert_allclose(result.history[0].primal, 4.0)  # all labels wrong at w = 0


def test_parts_of_a_graph():
    cliques = CliqueSet(7, ((1, 3), (3, 5), (0, 2, 6)), (0, 0, 0))
    assert parts_of(cliques) == [(0, 2, 6), (1, 3, 5), (4,)]
    assert parts_of(CliqueSet(2)) == [(0,), (1,)]


def test_start_from_another_graph_keeps_the_dual_of_what_stays(seed):
    """More cliques, fewer cliques: masses of the labels are kept, and the optimum is found from there."""
    X, Y = make(seed)
    first = solve(problem_of(X, Y, "none", 0.05), tol=1e-7)
    more = problem_of(X, Y, "loop", 0.05)
    start = first.dual_coef.start_of(more)
    assert start.parts == ((0, 1, 2), (3,))
    for k in range(3):
        single, known = first.dual_coef.known[k], start.known[0]
        on = np.sum(single.mass * single.labels[:, :, 0], axis=1)
        np.testing.assert_allclose(np.sum(known.mass * known.labels[:, :, k], axis=1), on, atol=1e-15)
    np.testing.assert_array_equal(start.known[0].labels[:, 0], Y[:, :3])
    optimum, _, _ = structured_optimum(X, Y, *GRAPHS["loop"], 0.05)
    result = solve(more, start=first.dual_coef)
    np.testing.assert_allclose(result.primal, optimum, rtol=3e-6)
    back = solve(problem_of(X, Y, "none", 0.05), start=result.dual_coef)
    np.testing.assert_allclose(back.primal, first.primal, rtol=3e-6)
