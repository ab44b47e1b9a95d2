"""Identities of the structured SVM that need no solver: all labelings of a few labels are written out."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from tests.structured.reference_structured import all_labelings, features, structured_dual, structured_objective

from comargin.inference import Inference
from comargin.structured.cliques import CliqueSet
from comargin.structured.problem import StructuredProblem

GRAPHS = {
    "none": CliqueSet(3),
    "one label": CliqueSet(1),
    "one group": CliqueSet(3, ((0, 1), (1, 2)), (0, 0)),
    "triple": CliqueSet(4, ((2, 0, 1), (3, 2)), (0, 0)),
    "three groups": CliqueSet(4, ((0, 1), (1, 2), (2, 3), (0, 2, 3)), (0, 1, 0, 2)),
}


def make(rng, graph, n=6, d=3, sparse=False, unit_cost=False):
    cliques = GRAPHS[graph]
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.8)
    Y = (rng.random((n, cliques.n_labels)) < 0.5).astype(np.uint8)
    mass = rng.random(n)
    mass[2] = 0.0
    cost = np.ones(Y.shape) if unit_cost else rng.normal(0.6, 0.6, size=Y.shape)
    X = sp.csr_array(X) if sparse else X
    return StructuredProblem(X, Y, mass / mass.sum(), cost, cliques, alpha=0.3)


def random_masses(rng, problem):
    """On the simplex of every row, some labelings without mass."""
    shape = (len(problem.Y), 2**problem.cliques.n_labels)
    a = rng.exponential(size=shape) * (rng.random(shape) < 0.6)
    a[:, 0] += 1e-3
    return a * (problem.mass / a.sum(axis=1))[:, None]


def tables(problem, W):
    """Columns of every clique, read off without the problem's own bookkeeping."""
    first = problem.cliques.n_labels
    for clique in problem.cliques.cliques:
        yield clique, W[:, first : first + 2 ** len(clique)]
        first += 2 ** len(clique)


def score(problem, W, x, y):
    """W . Psi(y, x) by loops; a label that is off adds nothing."""
    total = sum(float(x @ W[:, k]) for k in range(problem.cliques.n_labels) if y[k])
    for clique, table in tables(problem, W):
        total += float(x @ table[:, int("".join(str(int(y[label])) for label in clique), 2)])
    return total


def wrong(problem, i, y):
    """Delta(y, y_i) by loops."""
    return sum(problem.cost[i, k] for k, t in enumerate(problem.Y[i]) if t != y[k])


def true_scores(problem, potentials, rows=slice(None)):
    """W . Psi(y_i, x_i) of rows with potentials X W, up to a constant of the row, as the solver computes them."""
    engine = Inference(problem.cliques.n_labels, problem.cliques.cliques)
    return engine.score(np.ascontiguousarray(potentials), problem.Y[rows])


def objective(problem, W):
    """F by its own methods and a maximum over all labelings."""
    potentials = problem.X @ W
    true = true_scores(problem, potentials)
    constant = problem.augment(potentials)
    scores = potentials @ features(problem.cliques, all_labelings(problem.cliques.n_labels)).T
    return problem.regulariser(np.sum(W**2, axis=0)) + problem.mass @ (scores.max(axis=1) + constant - true)


def dual_parts(problem, a):
    """Sum of Delta a and V by loops."""
    labelings = all_labelings(problem.cliques.n_labels)
    psi, true = features(problem.cliques, labelings), features(problem.cliques, problem.Y)
    X = problem.X.toarray() if sp.issparse(problem.X) else problem.X
    linear, V = 0.0, np.zeros((X.shape[1], problem.cliques.n_columns))
    for i in range(len(X)):
        for p, y in enumerate(labelings):
            linear += a[i, p] * wrong(problem, i, y)
            V += a[i, p] * np.outer(X[i], true[i] - psi[p])
    return linear, V


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("graph", GRAPHS)
def test_weak_duality(graph, sparse, rng):
    problem = make(rng, graph, sparse=sparse)
    for _ in range(8):
        linear, V = dual_parts(problem, random_masses(rng, problem))
        dual = problem.dual(linear, np.sum(V**2, axis=0))
        t = rng.dirichlet(np.ones(problem.cliques.n_groups)) if problem.cliques.n_groups else np.zeros(0)
        for W in (rng.normal(size=V.shape), np.zeros(V.shape), V * problem.scale(t)):
            assert objective(problem, W) >= dual - 1e-12


@pytest.mark.parametrize("graph", GRAPHS)
def test_both_objectives_agree_with_two_blocks_per_node(graph, rng):
    """The reference has weights for labels that are off as well; it knows unit costs only."""
    problem = make(rng, graph, unit_cost=True)
    cliques, groups = problem.cliques.cliques, problem.cliques.groups
    options = {"fit_intercept": False, "sample_weight": problem.mass * len(problem.Y)}
    W = rng.normal(size=(3, problem.cliques.n_columns))
    half = 0.5 * W[:, : problem.cliques.n_labels].T
    u = np.stack([-half, half], axis=1)
    weights = [table.T for _, table in tables(problem, W)]
    expected = structured_objective(problem.X, problem.Y, cliques, groups, 0.3, u, weights, **options)
    assert_allclose(objective(problem, W), expected, rtol=1e-12)
    a = random_masses(rng, problem)
    linear, V = dual_parts(problem, a)
    expected = structured_dual(problem.X, problem.Y, cliques, groups, 0.3, a, **options)
    assert_allclose(problem.dual(linear, np.sum(V**2, axis=0)), expected, rtol=1e-12)


@pytest.mark.parametrize("graph", GRAPHS)
def test_objective_by_literal_loops(graph, rng):
    problem = make(rng, graph)
    W = rng.normal(size=(3, problem.cliques.n_columns))
    loss = 0.0
    for i, x in enumerate(problem.X):
        margins = [
            wrong(problem, i, y) + score(problem, W, x, y) - score(problem, W, x, problem.Y[i])
            for y in all_labelings(problem.cliques.n_labels)
        ]
        loss += problem.mass[i] * max(margins)
    lengths = np.zeros(problem.cliques.n_groups)
    for (_, table), group in zip(tables(problem, W), problem.cliques.groups, strict=True):
        lengths[group] = np.hypot(lengths[group], np.linalg.norm(table))
    nodes = np.sum(W[:, : problem.cliques.n_labels] ** 2)
    # Two blocks +-g/2 per node: ||u||^2 = ||g||^2 / 2.
    assert_allclose(objective(problem, W), 0.15 * (0.5 * nodes + lengths.sum() ** 2) + loss, rtol=1e-12)


@pytest.mark.parametrize("rows", [None, slice(1, 4), np.array([5, 0, 2]), slice(0, 0)])
@pytest.mark.parametrize("graph", ["one label", "triple"])
def test_augment_and_true_scores_by_loops(graph, rows, rng):
    problem = make(rng, graph)
    chosen = np.arange(6) if rows is None else np.arange(6)[rows]
    some = () if rows is None else (rows,)
    W = rng.normal(size=(3, problem.cliques.n_columns))
    potentials = problem.X[chosen] @ W
    expected = [score(problem, W, problem.X[i], problem.Y[i]) for i in chosen]
    assert_allclose(true_scores(problem, potentials, *some), expected, atol=1e-12)
    before = potentials.copy()
    constant = problem.augment(potentials, *some)
    assert constant.shape == (len(chosen),)
    n_labels = problem.cliques.n_labels
    assert_allclose(potentials[:, n_labels:], before[:, n_labels:], rtol=0)
    for r, i in enumerate(chosen):
        for y, psi in zip(all_labelings(n_labels), features(problem.cliques, all_labelings(n_labels)), strict=True):
            value = wrong(problem, i, y) + score(problem, W, problem.X[i], y)
            assert_allclose(potentials[r] @ psi + constant[r], value, atol=1e-12)


def test_scale_by_hand():
    problem = StructuredProblem(
        np.ones((1, 1)),
        np.zeros((1, 3), dtype=np.uint8),
        np.ones(1),
        np.ones((1, 3)),
        CliqueSet(3, ((0, 1), (0, 1, 2), (1, 2)), (1, 0, 1)),
        alpha=0.5,
    )
    assert_allclose(problem.scale(np.array([0.25, 0.75])), [4.0] * 3 + [1.5] * 4 + [0.5] * 8 + [1.5] * 4)


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_dual_is_the_least_of_its_linear_forms(graph, rng):
    """D = min over t of sum Delta a - 1/2 sum_col scale_col(t) ||v_col||^2, attained at a corner."""
    problem = make(rng, graph)
    linear, V = dual_parts(problem, random_masses(rng, problem))
    sqnorms, n_groups = np.sum(V**2, axis=0), problem.cliques.n_groups
    dual = problem.dual(linear, sqnorms)
    corners = np.eye(n_groups) if n_groups else np.zeros((1, 0))
    assert_allclose(min(linear - 0.5 * problem.scale(t) @ sqnorms for t in corners), dual, rtol=1e-12)
    inside = rng.dirichlet(np.ones(n_groups), size=50) if n_groups else corners
    assert all(linear - 0.5 * problem.scale(t) @ sqnorms >= dual - 1e-12 for t in inside)


@pytest.mark.parametrize("graph", GRAPHS)
def test_the_regulariser_is_the_least_of_its_quadratic_forms(graph, rng):
    """lambda/2 (sum_k ||omega_k||)^2 = min over t of lambda/2 sum_k ||omega_k||^2 / t_k, at t_k ~ ||omega_k||."""
    problem = make(rng, graph)
    sqnorms, n_groups = rng.random(problem.cliques.n_columns), problem.cliques.n_groups
    value = problem.regulariser(sqnorms)
    lengths = problem.cliques.group_lengths(sqnorms)
    best = lengths / lengths.sum()
    assert_allclose(0.5 * np.sum(sqnorms / problem.scale(best)), value, rtol=1e-12)
    for t in rng.dirichlet(np.ones(n_groups), size=50) if n_groups else ():
        assert 0.5 * np.sum(sqnorms / problem.scale(t)) >= value - 1e-12


def test_regulariser_and_dual_by_hand():
    cliques = CliqueSet(2, ((0, 1),), (0,))
    problem = StructuredProblem(
        np.ones((1, 1)), np.zeros((1, 2), dtype=np.uint8), np.ones(1), np.ones((1, 2)), cliques, alpha=0.1
    )
    sqnorms = np.array([2.0, 4.0, 1.0, 0.0, 3.0, 5.0])  # nodes 6, the clique 9
    assert_allclose(problem.regulariser(sqnorms), 0.05 * (3.0 + 9.0))
    assert_allclose(problem.dual(7.0, sqnorms), 7.0 - 5.0 * (12.0 + 9.0))
