"""The structured SVM's references, written twice from the equations, agree with each other and with numbers by hand."""

import itertools

import cvxpy as cp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.svm import LinearSVC
from tests.structured import naive_structured as naive
from tests.structured import reference_structured as reference

CASES = {
    "no cliques": ([], []),
    "one edge": ([(0, 1)], None),
    "tree in one group": ([(0, 1), (2, 1), (3, 0)], [7, 7, 7]),
    "three groups": ([(0, 1), (1, 2), (3, 2)], [0, 1, 2]),
    "order three, mixed groups": ([(2, 0, 3), (0, 1), (3, 1)], [4, -1, 4]),
    "all labels and a loop": ([(0, 1, 2, 3), (0, 1), (1, 2), (2, 0)], [0, 1, 1, 2]),
}


def dependent_labels(rng, n, d, n_labels):
    """Labels of noisy linear scores, the second a noisy copy of the first so that an edge is worth having."""
    X = rng.normal(size=(n, d))
    Y = (X @ rng.normal(size=(d, n_labels)) + rng.normal(size=(n, n_labels)) > 0).astype(int)
    if n_labels > 1:
        Y[:, 1] = Y[:, 0] ^ (rng.random(n) < 0.2)
    return X, Y


def random_dual(rng, Y, sample_weight=None):
    """Dual variables with sum_y <= s_i / n, most of them sparse."""
    n, n_labels = Y.shape
    a = rng.dirichlet(np.full(2**n_labels, 0.3), size=n) * rng.random((n, 1))
    return a * (np.ones(n) if sample_weight is None else sample_weight)[:, None] / n


def flat(u, clique_weights):
    return np.concatenate([u.ravel(), *(v.ravel() for v in clique_weights)])


@pytest.fixture(params=CASES, ids=str)
def graph(request):
    return CASES[request.param]


# ---- both feature maps, objectives and duals are the same functions


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_objective_equals_plain_loops(graph, fit_intercept, rng):
    cliques, groups = graph
    X, Y = dependent_labels(rng, 7, 2, 4)
    s = rng.integers(0, 4, size=7).astype(float)
    delta, phi = naive.losses_and_differences(X, Y, cliques, fit_intercept)
    w = rng.normal(size=len(phi[0][0]))
    d = X.shape[1] + fit_intercept
    omega = naive.SquaredL21(4, d, cliques, [0] * len(cliques) if groups is None else groups, 1.0)
    expected = 0.3 * omega.value(w, smoothed=False)
    for i in range(7):
        expected += s[i] / 7 * max(delta[i][y] - w @ phi[i][y] for y in range(16))
    u, clique_weights = naive.unflatten(w, 4, cliques)
    assert u.shape == (4, 2, d)
    value = reference.structured_objective(X, Y, cliques, groups, 0.3, u, clique_weights, fit_intercept, s)
    assert_allclose(value, expected, rtol=1e-12)


def test_dual_sums_equal_plain_loops(graph, rng):
    cliques, groups = graph
    X, Y = dependent_labels(rng, 6, 2, 4)
    a = random_dual(rng, Y)
    delta, phi = naive.losses_and_differences(X, Y, cliques, True)
    total, linear = np.zeros(len(phi[0][0])), 0.0
    for i, y in itertools.product(range(6), range(16)):
        total += a[i, y] * phi[i][y]
        linear += a[i, y] * delta[i][y]
    u, sums = reference.structured_dual_sums(X, Y, cliques, a)
    assert_allclose(flat(u, sums), total, atol=1e-14)
    scores = naive.naive_clique_scores(X, Y, a, cliques)
    assert_allclose(scores, [np.sum(v**2) for v in sums], rtol=1e-12)
    squares = {}
    for score, group in zip(scores, [0] * len(cliques) if groups is None else groups, strict=True):
        squares[group] = squares.get(group, 0.0) + score
    expected = linear - (np.sum(u**2) + max(squares.values(), default=0.0)) / (2 * 0.3)
    assert_allclose(reference.structured_dual(X, Y, cliques, groups, 0.3, a), expected, rtol=1e-12)


def test_labelings_and_states_are_in_c_order():
    labelings = reference.all_labelings(3)
    assert labelings[1].tolist() == [0, 0, 1]
    assert labelings[4].tolist() == [1, 0, 0]
    assert labelings.tolist() == [naive.labeling(k, 3) for k in range(8)]
    states = reference.one_hot_states(np.array([[1, 0, 1]]), [(2, 1), (1, 2)])
    assert np.flatnonzero(states).tolist() == [1, 2, 5, 6 + 0b10, 10 + 0b01]


# ---- the optimum


def test_by_hand_one_label():
    """F = lam/4 t^2 + max(0, 1 - 2 t) with t = u_1 - u_0: the hinge stays at lam = 16, it is just closed at lam = 2."""
    X, Y = np.array([[2.0]]), np.array([[1]])
    for alpha, t, expected in [(16.0, 0.25, 0.75), (2.0, 0.5, 0.125)]:
        objective, u, clique_weights = reference.structured_optimum(X, Y, [], [], alpha, fit_intercept=False)
        assert_allclose(objective, expected, rtol=1e-6)
        assert_allclose(u[0, :, 0], [-t / 2, t / 2], rtol=1e-4)
        assert clique_weights == []


@pytest.mark.parametrize("weight", [1.0, 3.0])
def test_by_hand_one_edge(weight):
    """A large lam leaves all mass s on the complement: D = 2 s - s^2 (4 + 2) / (2 lam)."""
    X, Y = np.array([[1.0]]), np.array([[1, 1]])
    objective, u, (v,) = reference.structured_optimum(X, Y, [(0, 1)], [0], 100.0, False, [weight])
    assert_allclose(objective, 2 * weight - 3 * weight**2 / 100, rtol=1e-6)
    assert_allclose(u[:, :, 0], weight / 100 * np.array([[-1, 1], [-1, 1]]), atol=1e-5)
    assert_allclose(v[:, 0], weight / 100 * np.array([-1, 0, 0, 1]), atol=1e-5)


@pytest.mark.parametrize("alpha", [0.2, 1e-3])
def test_strong_duality(graph, alpha, rng):
    cliques, groups = graph
    X, Y = dependent_labels(rng, 20, 3, 4)
    s = rng.uniform(0.2, 2.0, size=20)
    objective, u, clique_weights = reference.structured_optimum(X, Y, cliques, groups, alpha, sample_weight=s)
    dual, a = reference.structured_dual_optimum(X, Y, cliques, groups, alpha, sample_weight=s)
    value = reference.structured_objective(X, Y, cliques, groups, alpha, u, clique_weights, sample_weight=s)
    assert_allclose(objective, value, rtol=1e-12)
    assert_allclose(dual, reference.structured_dual(X, Y, cliques, groups, alpha, a, sample_weight=s), rtol=1e-12)
    assert_allclose(dual, objective, rtol=1e-6)
    assert_allclose(u, reference.structured_dual_sums(X, Y, cliques, a)[0] / alpha, atol=1e-3 * np.abs(u).max())
    assert np.linalg.norm(u) > 1e-3


def test_weak_duality(graph, rng):
    cliques, groups = graph
    X, Y = dependent_labels(rng, 8, 2, 4)
    s = rng.uniform(0.0, 2.0, size=8)
    size = 3 * (8 + sum(2 ** len(c) for c in cliques))
    for scale in (0.0, 0.1, 1.0, 10.0):
        u, clique_weights = naive.unflatten(scale * rng.normal(size=size), 4, cliques)
        primal = reference.structured_objective(X, Y, cliques, groups, 0.1, u, clique_weights, sample_weight=s)
        for shrink in (1.0, 0.1):
            a = shrink * random_dual(rng, Y, s)
            assert reference.structured_dual(X, Y, cliques, groups, 0.1, a, sample_weight=s) < primal


def test_infeasible_dual_is_refused(rng):
    X, Y = dependent_labels(rng, 4, 2, 2)
    for a in (np.full((4, 4), 0.07), np.eye(4) * -0.01):
        with pytest.raises(ValueError, match="alpha_dual must be"):
            reference.structured_dual(X, Y, [(0, 1)], None, 1.0, a)


@pytest.mark.parametrize(("alpha", "n_dropped"), [(0.1, 0), (0.3, 1), (1.0, 2)])
def test_groups_below_the_largest_are_dropped(alpha, n_dropped):
    """omega_k = 0 unless ||omega_k(a)|| is the largest; omega_k points along omega_k(a); the norms sum to max / lam."""
    X, Y = dependent_labels(np.random.default_rng(0), 30, 3, 5)
    cliques, groups = [(0, 1), (1, 2), (3, 4), (2, 4)], [0, 1, 1, 2]
    _, _, clique_weights = reference.structured_optimum(X, Y, cliques, groups, alpha)
    _, a = reference.structured_dual_optimum(X, Y, cliques, groups, alpha)
    _, sums = reference.structured_dual_sums(X, Y, cliques, a)
    members = [[0], [1, 2], [3]]
    omega = [np.concatenate([clique_weights[c].ravel() for c in m]) for m in members]
    dual_omega = [np.concatenate([sums[c].ravel() for c in m]) for m in members]
    norms, dual_norms = (np.array([np.linalg.norm(v) for v in o]) for o in (omega, dual_omega))
    largest = dual_norms.max()
    dropped = dual_norms < 0.999 * largest
    assert dropped.sum() == n_dropped
    assert_allclose(norms[dropped], 0.0, atol=1e-4)
    assert_allclose(alpha * norms.sum(), largest, rtol=1e-3)
    for v, v_dual, out in zip(omega, dual_omega, dropped, strict=True):
        if not out:
            assert_allclose(v / np.linalg.norm(v), v_dual / np.linalg.norm(v_dual), atol=1e-3)


# ---- reductions and invariances


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_cliques_every_label_is_a_binary_svm(fit_intercept, rng):
    """u_1 = -u_0 = t/2, so label k adds lam/4 ||t||^2 + 1/n sum hinge: an SVM with C = 2 / (lam n), times lam / 2."""
    X, Y = dependent_labels(rng, 30, 3, 4)
    Y[:, 3] = 1  # LinearSVC needs two classes: this label is checked by hand below
    alpha, n = 0.05, 30
    objective, u, _ = reference.structured_optimum(X, Y, [], None, alpha, fit_intercept)
    assert_allclose(u[:, 0], -u[:, 1], atol=1e-5)
    augmented = np.column_stack([X, np.ones(n)]) if fit_intercept else X
    total = 0.0
    for k in range(3):
        C = 2.0 / (alpha * n)
        svm = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-9, max_iter=10**6, random_state=0)
        t = svm.fit(augmented, Y[:, k]).coef_[0]
        hinge = np.maximum(0.0, 1.0 - (2 * Y[:, k] - 1) * (augmented @ t)).sum()
        total += alpha / 2 * (0.5 * t @ t + C * hinge)
        assert_allclose(u[k, 1] - u[k, 0], t, atol=1e-3)
    t = u[3, 1] - u[3, 0]
    total += alpha / 4 * t @ t + np.maximum(0.0, 1.0 - augmented @ t).mean()
    assert_allclose(objective, total, rtol=1e-6)


def test_weight_is_repetition(rng):
    """n stays the divisor: with N = sum s_i, the weighted F at lam is N/n times the repeated F at lam n / N."""
    X, Y = dependent_labels(rng, 10, 2, 3)
    s = rng.integers(0, 4, size=10)
    cliques, groups, factor = [(0, 1), (1, 2)], [0, 1], s.sum() / 10
    weighted, u, v = reference.structured_optimum(X, Y, cliques, groups, 0.1, sample_weight=s)
    repeated = reference.structured_optimum(
        np.repeat(X, s, axis=0), np.repeat(Y, s, axis=0), cliques, groups, 0.1 / factor
    )
    assert_allclose(weighted, factor * repeated[0], rtol=1e-6)
    assert_allclose(flat(u, v), flat(*repeated[1:]), atol=1e-3)


def test_names_do_not_matter(rng):
    """Permuted labels, cliques, labels inside a clique and group numbers leave the optimum; weights move along."""
    X, Y = dependent_labels(rng, 20, 2, 4)
    cliques, groups = [(0, 1), (1, 2, 3), (0, 3)], [0, 1, 0]
    objective, u, v = reference.structured_optimum(X, Y, cliques, groups, 0.05)
    moved = [2, 0, 3, 1]  # column j of the permuted Y is column moved[j] of Y
    place = {label: j for j, label in enumerate(moved)}
    renamed = [(place[0], place[3]), (place[1], place[0]), (place[3], place[1], place[2])]
    again, u2, v2 = reference.structured_optimum(X, Y[:, moved], renamed, [9, 9, -4], 0.05)
    assert_allclose(again, objective, rtol=1e-7)
    assert_allclose(u2, u[moved], atol=1e-3)
    assert_allclose(v2[0], v[2], atol=1e-3)
    assert_allclose(v2[1], v[0][[0b00, 0b10, 0b01, 0b11]], atol=1e-3)
    assert_allclose(v2[2].reshape(2, 2, 2, -1), v[1].reshape(2, 2, 2, -1).transpose(2, 0, 1, 3), atol=1e-3)


def test_finer_groups_cost_more_and_cliques_never_do(rng):
    X, Y = dependent_labels(rng, 20, 2, 4)
    cliques = [(0, 1), (1, 2), (2, 3)]
    values = [
        reference.structured_optimum(X, Y, c, g, 0.05)[0]
        for c, g in [(cliques, [0, 0, 0]), (cliques, [0, 0, 1]), (cliques, [0, 1, 2]), (cliques[:1], [0]), ([], [])]
    ]
    assert values[0] < values[1] <= values[2] * (1 + 1e-7)
    assert values[2] <= values[3] * (1 + 1e-7)
    assert values[3] < values[4] * (1 - 1e-3)


@pytest.mark.parametrize("dtype", [bool, float])
def test_small_and_constant_inputs(dtype):
    X = np.array([[0.5, -1.0]])
    for Y in ([[1]], [[0]], [[0, 0, 0]], [[1, 1, 1]], [[1, 0, 1]]):
        Y = np.array(Y, dtype=dtype)
        cliques = [(0, 2), (2, 1, 0)] if Y.shape[1] == 3 else []
        groups = list(range(len(cliques)))
        objective, _, _ = reference.structured_optimum(X, Y, cliques, groups, 0.1)
        dual, _ = reference.structured_dual_optimum(X, Y, cliques, groups, 0.1)
        fit = naive.naive_bcfw(X, Y, cliques[:1], 0.1, 200, 0)
        single, _, _ = reference.structured_optimum(X, Y, cliques[:1], None, 0.1)
        assert_allclose(dual, objective, rtol=1e-6)
        assert_allclose(fit.history[-1], single, rtol=1e-3)
        assert 0 < objective < Y.shape[1]


# ---- block-coordinate Frank-Wolfe


def bcfw_agrees(X, Y, cliques, alpha, seed, fit_intercept=True, sample_weight=None):
    objective, u, v = reference.structured_optimum(X, Y, cliques, None, alpha, fit_intercept, sample_weight)
    fit = naive.naive_bcfw(X, Y, cliques, alpha, 600, seed, fit_intercept, sample_weight)
    primals, duals = (np.array(h) for h in zip(*fit.history, strict=True))
    assert_allclose(fit.dual, objective, rtol=1e-3)
    assert_allclose(primals.min(), objective, rtol=1e-3)
    assert primals.min() >= objective * (1 - 1e-7)
    assert duals.max() <= objective * (1 + 1e-7)
    assert np.all(np.diff(duals) >= -1e-12)
    mass = (np.ones(len(X)) if sample_weight is None else sample_weight) / len(X)
    assert_allclose(fit.alpha_dual.sum(axis=1), mass, rtol=1e-9)
    value = reference.structured_dual(X, Y, cliques, None, alpha, fit.alpha_dual, fit_intercept, sample_weight)
    assert_allclose(value, fit.dual, rtol=1e-9)
    sums = reference.structured_dual_sums(X, Y, cliques, fit.alpha_dual, fit_intercept)
    assert_allclose(flat(*sums) / alpha, fit.w, atol=1e-9)
    assert_allclose(fit.w, flat(u, v), atol=0.1 * np.abs(fit.w).max())


def test_bcfw_reaches_the_optimum(rng, seed):
    X, Y = dependent_labels(rng, 12, 2, 3)
    bcfw_agrees(X, Y, [(0, 1), (2, 1)], 0.3, seed)


def test_bcfw_reaches_the_optimum_with_weights_and_order_three(rng, seed):
    X, Y = dependent_labels(rng, 10, 3, 3)
    s = rng.integers(0, 3, size=10).astype(float)
    bcfw_agrees(X, Y, [(2, 0, 1)], 0.5, seed, fit_intercept=False, sample_weight=s)


def test_bcfw_takes_the_whole_step_when_nothing_curves():
    """Rows of zeros cannot be learned: the dual is the loss of the complement, in one step per row."""
    fit = naive.naive_bcfw(np.zeros((2, 1)), np.array([[1, 0], [0, 0]]), [(0, 1)], 1.0, 10, 0, fit_intercept=False)
    assert fit.history[-1] == (2.0, 2.0)
    assert not fit.w.any()


# ---- Algorithm 3, clique scores, Algorithm 2


def test_prox_by_hand():
    assert naive.naive_prox_squared_l21([3.0, 1.0], 1.0) == [1.5, 0.0]
    assert_allclose(naive.naive_prox_squared_l21([1.0, 2.0, 2.0], 0.5), [0.0, 1.0, 1.0])
    assert naive.naive_prox_squared_l21([0.0, 0.0], 2.0) == [0.0, 0.0]
    assert naive.naive_prox_squared_l21([], 2.0) == []


@pytest.mark.parametrize("s", [0.01, 0.5, 100.0])
def test_prox_minimises_over_vectors(s, rng):
    """argmin 1/2 ||omega - v||^2 + s/2 (sum_k ||omega_k||)^2 keeps directions and shrinks the norms."""
    blocks = [rng.normal(size=size) * scale for size, scale in [(3, 2.0), (1, 1.0), (4, 0.05), (2, 1.0)]]
    omega = [cp.Variable(len(v)) for v in blocks]
    distance = sum(cp.sum_squares(o - v) for o, v in zip(omega, blocks, strict=True))
    norms = cp.sum(cp.hstack([cp.norm(o) for o in omega]))
    cp.Problem(cp.Minimize(distance + s * cp.square(norms))).solve(solver=cp.CLARABEL)
    before = [np.linalg.norm(v) for v in blocks]
    after = naive.naive_prox_squared_l21(before, s)
    for o, v, old, new in zip(omega, blocks, before, after, strict=True):
        assert_allclose(o.value, v * new / old, atol=1e-5)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1e3).map(lambda v: round(v, 2)), min_size=1, max_size=8), st.floats(1e-3, 1e3))
def test_prox_satisfies_its_optimality_condition(norms, s):
    """o = max(0, norms - s sum(o)), in ties and zeros too; this fixed point is unique since the problem is."""
    o = np.array(naive.naive_prox_squared_l21(norms, s))
    assert_allclose(o, np.maximum(0.0, np.array(norms) - s * o.sum()), atol=1e-9 * (1 + s) * (1 + max(norms)))


def test_clique_scores_by_hand():
    """A row (1, 1, 0) with mass 1 on (0, 0, 0): a clique that changes state has +x and -x, the others nothing."""
    X, Y = np.array([[2.0, 1.0]]), np.array([[1, 1, 0]])
    a = np.zeros((1, 8))
    a[0, 0b000] = 1.0
    cliques = [(0, 1), (1, 2), (2, 0), (0, 1, 2)]
    assert naive.naive_clique_scores(X, Y, a, cliques) == [12.0, 12.0, 12.0, 12.0]
    a = np.zeros((1, 8))
    a[0, 0b010], a[0, 0b110] = 0.5, 0.25  # the first label flips; the truth has no effect
    assert_allclose(naive.naive_clique_scores(X, Y, a, cliques, fit_intercept=False), [2.5, 0.0, 2.5, 2.5])


@pytest.mark.parametrize("ratio", [0.01, 1.0])
def test_spdca_solves_the_smoothed_problem(ratio, rng, seed):
    """P(w) <= Q(w) <= D_sigma + gap and D_sigma <= P* + sigma/2 ||omega*||^2, where P is (10) and Q is (11)."""
    X, Y = dependent_labels(rng, 12, 2, 3)
    cliques, groups, alpha = [(0, 1), (1, 2), (0, 2)], [0, 1, 1], 0.5
    fit = naive.naive_spdca(X, Y, cliques, groups, alpha, ratio * alpha, 150, seed)
    objective, _, v = reference.structured_optimum(X, Y, cliques, groups, alpha)
    smoothing = 0.5 * ratio * alpha * sum(np.sum(c**2) for c in v)
    primals, duals = (np.array(h) for h in zip(*fit.history, strict=True))
    gap = primals[-1] - duals[-1]
    assert np.all(np.diff(duals) >= -1e-12)
    assert np.all(primals >= duals)
    assert gap <= 0.01 * objective
    assert objective * (1 - 1e-7) <= fit.objective <= objective + smoothing + gap
    weights = naive.unflatten(fit.w, 3, cliques)
    assert_allclose(reference.structured_objective(X, Y, cliques, groups, alpha, *weights), fit.objective, rtol=1e-9)
    assert_allclose(fit.alpha_dual.sum(axis=1), 1 / 12, rtol=1e-9)
    assert reference.structured_dual(X, Y, cliques, groups, alpha, fit.alpha_dual) <= duals[-1] + 1e-12
    if ratio == 0.01:
        assert_allclose(fit.objective, objective, rtol=5e-3)


def test_spdca_equals_bcfw_on_one_group(rng, seed):
    """One group: Omega is quadratic, ratio r leaves lam on u and lam (1 + r) on omega; r -> 0 is the plain SVM."""
    X, Y = dependent_labels(rng, 8, 2, 3)
    cliques = [(0, 1), (1, 2)]
    smoothed = naive.naive_spdca(X, Y, cliques, [3, 3], 0.3, 1e-9, 20, seed)
    plain = naive.naive_bcfw(X, Y, cliques, 0.3, 20, seed)
    assert_allclose(smoothed.w, plain.w, atol=1e-6)
    assert_allclose(smoothed.history, plain.history, rtol=1e-6)
