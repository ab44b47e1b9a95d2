"""Newton's method on the restricted problem against cvxpy's optimum of the same planes."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from tests.structured.reference_structured import all_labelings, features
from tests.structured.reference_structured import solve as solve_cvxpy

from comargin.core.row_products import RowProducts
from comargin.core.threads import worker_threads
from comargin.structured import _planes
from comargin.structured._loops import Known
from comargin.structured._planes import PlaneProblem, newton_planes
from comargin.structured.cliques import CliqueSet
from comargin.structured.labelings import layout_of
from comargin.structured.problem import StructuredProblem

GRAPHS = {
    "none": CliqueSet(3),
    "one group": CliqueSet(3, ((0, 1), (1, 2)), (0, 0)),
    "triple": CliqueSet(4, ((0, 2, 3), (1, 3)), (0, 0)),
    "three groups": CliqueSet(4, ((0, 1), (1, 2), (2, 3), (0, 2)), (0, 1, 2, 1)),
}


class CountingProducts(RowProducts):
    """Counts rows that products visit; shared with the parts that ``take`` makes."""

    def __init__(self, X, pool, visited=None):
        super().__init__(X, pool)
        self.visited = [0] if visited is None else visited

    def take(self, rows):
        return self if len(rows) == self.n_rows else CountingProducts(self.X[rows], self.pool, self.visited)

    def forward(self, W, rows=None):
        self.visited[0] += self.n_rows
        return super().forward(W, rows)

    def backward(self, Q):
        self.visited[0] += self.n_rows
        return super().backward(Q)


def make(seed, graph, alpha=0.02, storage="dense", n=14, d=3):
    """A problem and rows that know up to five labelings, with all mass on the true ones; two rows weigh nothing."""
    rng = np.random.default_rng(seed)
    cliques = GRAPHS[graph]
    n_labels = cliques.n_labels
    X = np.column_stack([rng.normal(size=(n, d)), np.ones(n)])
    scores = X @ rng.normal(size=(d + 1, n_labels)) + 0.5 * rng.normal(size=(n, n_labels))
    Y = (scores > 0.2).astype(np.uint8)
    Y[:, 1] ^= Y[:, 0] & (rng.random(n) < 0.6).astype(np.uint8)
    mass = 0.5 + rng.random(n)
    mass[[4, 9]] = 0.0
    rows = sp.csr_array(X) if storage == "csr" else X
    sides = 0.7 + 0.6 * rng.random((2, n_labels))
    cost = np.where(Y > 0, sides[1], sides[0])
    problem = StructuredProblem(rows, Y, mass / mass.sum(), cost, cliques, alpha)
    labels = np.zeros((n, 6, n_labels), dtype=np.uint8)
    masses, count = np.zeros((n, 6)), rng.integers(1, 6, size=n).astype(np.int32)
    labels[:, 0], masses[:, 0] = Y, problem.mass
    for i in range(n):
        others = rng.permutation([y for y in all_labelings(n_labels) if (y != Y[i]).any()])
        labels[i, 1 : count[i]] = others[: count[i] - 1]
    return problem, Known(labels, masses, np.zeros((n, 6), dtype=np.int32), count)


@pytest.fixture
def pool():
    with worker_threads(1) as threads:
        yield threads


def dense_rows(problem):
    return problem.X.toarray() if sp.issparse(problem.X) else problem.X


def dense_planes(problem, known):
    """(i, B, Delta) of every row with mass, from whole features."""
    for i in np.flatnonzero(problem.mass > 0.0):
        labels = known.labels[i, : known.count[i]]
        B = features(problem.cliques, labels) - features(problem.cliques, problem.Y[[i]])
        yield i, B, np.where(labels != problem.Y[i], problem.cost[i], 0.0).sum(axis=1)


def restricted_primal(problem, known, W, scale=None):
    """Objective with the labelings known, for one scale or for the regulariser itself."""
    X, sqnorms = dense_rows(problem), np.sum(W**2, axis=0)
    if scale is None:
        value = problem.regulariser(sqnorms)
    else:
        assert not sqnorms[scale == 0.0].any()
        value = 0.5 * np.sum(sqnorms[scale > 0.0] / scale[scale > 0.0])
    return value + sum(problem.mass[i] * np.max(delta + B @ (X[i] @ W)) for i, B, delta in dense_planes(problem, known))


def restricted_dual(problem, known, mass, scale=None):
    X = dense_rows(problem)
    linear, V = 0.0, np.zeros((X.shape[1], problem.cliques.n_columns))
    for i, B, delta in dense_planes(problem, known):
        a = mass[i, : len(delta)]
        linear += a @ delta
        V -= np.outer(X[i], a @ B)
    sqnorms = np.sum(V**2, axis=0)
    return problem.dual(linear, sqnorms) if scale is None else linear - 0.5 * scale @ sqnorms


def restricted_optimum(problem, known, scale=None):
    """By cvxpy, the columns scaled to a plain norm where there is a scale."""
    X, cliques = dense_rows(problem), problem.cliques
    W, worst = cp.Variable((X.shape[1], cliques.n_columns)), cp.Variable(len(X))
    if scale is None:
        root = np.ones(cliques.n_columns)
        tables = [W[:, a:b] for a, b in itertools.pairwise(cliques.column)]
        lengths = [
            cp.norm(cp.hstack([t for t, g in zip(tables, cliques.groups, strict=True) if g == k]), "fro")
            for k in range(cliques.n_groups)
        ]
        squares = 0.5 * cp.sum_squares(W[:, : cliques.n_labels]) + cp.square(cp.sum(cp.hstack(lengths)))
        penalty = 0.5 * problem.alpha * squares
    else:
        root = np.sqrt(scale)
        penalty = 0.5 * cp.sum_squares(W)
    constraints = [worst[i] >= delta + (B * root) @ (X[i] @ W) for i, B, delta in dense_planes(problem, known)]
    model = cp.Problem(cp.Minimize((penalty + problem.mass @ worst) / problem.alpha), [*constraints, worst >= 0.0])
    solve_cvxpy(model)
    return restricted_primal(problem, known, W.value * root, scale)


def never(V, allowed):
    """The scale will do."""
    del V, allowed


def run(problem, known, scale, pool, goal, work=1e5, products=None, rescale=never, sigma=0.02):
    planes = PlaneProblem(problem, layout_of(problem.cliques), known, products or RowProducts(problem.X, pool))
    W = np.zeros((problem.X.shape[1], problem.cliques.n_columns), order="F")
    return planes, *newton_planes(planes, planes.masses(known), W, scale, sigma, goal, work, rescale)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("alpha", [0.1, 1e-3])
@pytest.mark.parametrize("graph", GRAPHS)
def test_agrees_with_the_restricted_optimum(graph, alpha, storage, pool, seed):
    """Of a fixed scale: groups weigh what they are given to weigh."""
    problem, known = make(seed, graph, alpha, storage)
    t = np.random.default_rng(seed).dirichlet(np.ones(max(problem.cliques.n_groups, 1)))[: problem.cliques.n_groups]
    scale = problem.scale(t)
    optimum = restricted_optimum(problem, known, scale)
    planes, a, W, sigma = run(problem, known, scale, pool, goal=1e-9 * optimum)
    assert sigma > 0.0
    assert np.linalg.norm(W) > 1e-2
    assert_allclose(restricted_primal(problem, known, W, scale), optimum, rtol=1e-7)
    planes.store(known, a)
    assert a.min() >= 0.0
    assert_allclose(known.mass.sum(axis=1), problem.mass, atol=1e-12)
    dual = restricted_dual(problem, known, known.mass, scale)
    assert_allclose(dual, optimum, rtol=1e-7)
    # The goal is met as promised, not only nearly.
    assert restricted_primal(problem, known, W, scale) - dual <= 1.01e-9 * optimum + 1e-14


class GroupWeights:
    """t_k <- t_k ||v_k||, normalised; groups that will vanish are dropped early, the longest one is taken up again."""

    def __init__(self, problem):
        self.problem, self.n_dropped = problem, 0
        self.t = np.full(problem.cliques.n_groups, 1.0 / problem.cliques.n_groups)

    def rescale(self, V, allowed):
        lengths = self.problem.cliques.group_lengths(np.sum(V**2, axis=0))
        longest = lengths.max()
        if 0.5 * (longest**2 - self.t @ lengths**2) / self.problem.alpha <= allowed:
            return None
        vanishing = (self.t < 0.05) & (lengths < 0.8 * longest)
        self.n_dropped += np.count_nonzero(vanishing & (self.t > 0.0))
        taken_up = np.where(lengths == longest, np.maximum(self.t, 1e-3), self.t)
        t = np.where(vanishing, 0.0, taken_up * lengths)
        self.t = t / t.sum()
        return self.problem.scale(self.t)


@pytest.mark.parametrize(
    ("number", "n_dropped"),
    [(0, 0), (1, 0), (3, 1), (4, 1), (7, 2)],
)
def test_groups_find_their_weights(number, n_dropped, pool):
    """With a rescaling: the optimum of the squared l2,1 norm, not of the first scale."""
    problem, known = make(number, "three groups", alpha=0.05)
    optimum, groups = restricted_optimum(problem, known), GroupWeights(problem)
    first = problem.scale(groups.t)
    assert restricted_optimum(problem, known, first) > optimum * (1 + 1e-5)
    planes, a, W, _ = run(problem, known, first, pool, 1e-7 * optimum, rescale=groups.rescale)
    assert groups.n_dropped == n_dropped
    assert_allclose(restricted_primal(problem, known, W), optimum, rtol=1e-6)
    planes.store(known, a)
    assert_allclose(restricted_dual(problem, known, known.mass), optimum, rtol=1e-6)


def test_columns_of_scale_zero_have_no_weights(pool, seed):
    problem, known = make(seed, "three groups")
    scale = problem.scale(np.array([0.7, 0.0, 0.3]))
    dropped = problem.cliques.group_of_column == 1
    optimum = restricted_optimum(problem, known, scale)
    planes = PlaneProblem(problem, layout_of(problem.cliques), known, RowProducts(problem.X, pool))
    W = np.random.default_rng(seed).normal(size=(4, problem.cliques.n_columns))  # dropped ones not zero at the start
    _, W, _ = newton_planes(planes, planes.masses(known), W, scale, 0.02, 1e-8 * optimum, 1e5, never)
    assert_array_equal(W[:, dropped], 0.0)
    assert np.abs(W[:, ~dropped]).max(axis=0).min() > 0.0
    assert_allclose(restricted_primal(problem, known, W, scale), optimum, rtol=1e-6)


def test_starting_at_the_optimum_ends_at_once(pool, seed):
    problem, known = make(seed, "triple")
    scale = problem.scale(np.ones(1))
    planes, a, W, _ = run(problem, known, scale, pool, goal=1e-10)
    products = CountingProducts(problem.X, pool)
    again = PlaneProblem(problem, layout_of(problem.cliques), known, products)
    products.visited[0] = 0
    b, U, _ = newton_planes(again, a, W, scale, 0.02, 1e-4, 1e5, never)
    assert products.visited[0] <= 3 * len(planes.rows)
    assert_allclose(b, a, atol=1e-4)
    assert_allclose(U, W, atol=1e-12)


@pytest.mark.parametrize("work", [0.0, 5.0, 20.0])
def test_work_is_respected(work, monkeypatch, pool, seed):
    """Products are counted in visits to all rows; the last Newton step may exceed the limit, by its own products."""
    monkeypatch.setattr(_planes, "POLICY", _planes.NewtonPolicy(most_products=4))
    problem, known = make(seed, "triple", alpha=1e-4, n=30)
    scale, products = problem.scale(np.ones(1)), CountingProducts(problem.X, pool)
    planes, a, W, _ = run(problem, known, scale, pool, goal=0.0, work=work, products=products)
    passes = products.visited[0] / len(planes.rows)
    assert work <= passes <= max(work, 1.0) + 2 * 4 + 2
    assert a.min() >= 0.0
    assert_allclose(np.add.reduceat(a, planes.planes.begin[:-1]), planes.mass, atol=1e-13)
    # Whatever was reached is a pair of feasible points.
    primal = restricted_primal(problem, known, W, scale)
    planes.store(known, a)
    assert restricted_dual(problem, known, known.mass, scale) <= primal * (1 + 1e-12)


def test_an_interrupted_call_does_not_lose_the_start(pool):
    for seed, work in itertools.product(range(4), (5.0, 20.0, 60.0)):
        problem, known = make(seed, "triple", alpha=1e-3, n=40)
        scale = problem.scale(np.ones(1))
        before = restricted_dual(problem, known, known.mass, scale)
        planes, a, _, _ = run(problem, known, scale, pool, goal=1e-12, work=work, sigma=0.1 / 40)
        planes.store(known, a)
        assert restricted_dual(problem, known, known.mass, scale) >= before - 1e-12


@pytest.mark.parametrize("storage", ["dense", "csr"])
def test_planes_of_all_rows_by_dense_features(storage, pool, seed):
    problem, known = make(seed, "triple", storage=storage)
    planes = PlaneProblem(problem, layout_of(problem.cliques), known, RowProducts(problem.X, pool))
    assert_array_equal(planes.rows, np.flatnonzero(problem.mass))
    X, W = dense_rows(problem), np.random.default_rng(seed).normal(size=(4, problem.cliques.n_columns))
    a = planes.masses(known)
    scores, average, delta, first = planes.scores(W), np.zeros_like(W), [], 0
    for i, B, losses in dense_planes(problem, known):
        last = first + len(B)
        assert_allclose(scores[first:last], B @ (X[i] @ W), atol=1e-12)
        assert_array_equal(a[first:last], known.mass[i, : len(B)])
        average += np.outer(X[i], a[first:last] @ B)
        delta.extend(losses)
        first = last
    assert first == len(a)
    assert_allclose(planes.average(a), average, atol=1e-13)
    assert_allclose(planes.delta, delta, atol=1e-14)
    untouched = known.mass[[4, 9]].copy()
    planes.store(known, np.arange(len(a), dtype=float))
    assert_array_equal(planes.masses(known), np.arange(len(a)))
    assert_array_equal(known.mass[[4, 9]], untouched)


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("divided", ["some", "none", "all"])
def test_rows_that_divide_their_mass(divided, storage, pool, seed):
    problem, known = make(seed, "triple", storage=storage)
    rng = np.random.default_rng(seed)
    planes = PlaneProblem(problem, layout_of(problem.cliques), known, RowProducts(problem.X, pool))
    begin = planes.planes.begin
    a = np.ones(begin[-1]) if divided == "all" else np.zeros(begin[-1])
    a[begin[:-1]] = 1.0
    if divided == "some":
        a *= rng.random(len(a)) < 0.5
        a += rng.random(len(a)) < 0.3
    part = planes.free(a)
    W = rng.normal(size=(4, problem.cliques.n_columns))
    scores = planes.scores(W)
    wanted, sizes = np.zeros(len(a), dtype=bool), []
    for first, last in itertools.pairwise(begin):
        positive = a[first:last] > 0.0
        if positive.sum() > 1:
            wanted[first:last] = positive
            sizes.append(positive.sum())
    assert_array_equal(np.diff(part.planes.begin), sizes)
    assert_allclose(part.scores(W), scores[wanted], atol=1e-13)
    change = np.zeros(len(a))
    change[wanted] = rng.normal(size=wanted.sum())
    assert_allclose(part.average(change[wanted]), planes.average(change), atol=1e-13)
    assert (len(sizes) > 0) == (divided != "none")
