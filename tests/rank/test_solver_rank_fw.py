"""Frank-Wolfe for Rank-CVM: independent optimum, certificate, textbook iterates, any cache size, threads, stopping."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from comargin.core.gram import Gram
from comargin.core.loop import Control
from comargin.core.result import Status
from comargin.rank import fw_solver as rank_fw
from comargin.rank.fw_solver import pair_groups, solve_rank_cvm_fw
from comargin.rank.problem import RankProblem


def make_problem(rng, n=30, n_labels=4, C=2.0, kernel="rbf"):
    X = rng.normal(size=(n, 3))
    squares = ((X[:, None] - X) ** 2).sum(axis=-1)
    K = np.exp(-0.3 * squares) if kernel == "rbf" else X @ X.T
    Y = (np.sin(X @ rng.normal(size=(3, n_labels))) + 0.4 * rng.normal(size=(n, n_labels)) > 0).astype(np.uint8)
    Y[Y.all(axis=1), 0] = 0
    Y[~Y.any(axis=1), 0] = 1
    gram = Gram(lambda rows, columns: K[rows][:, columns], np.diag(K) + 1.0, 1.0)
    return K + 1.0, RankProblem.of(Y, 0.5 + rng.random(n), C), gram


def literal(K, problem):
    """Pairs (i, m, n) by row, their H, and Theta."""
    on = problem.Y.astype(bool)
    labels = range(on.shape[1])
    pairs = [(i, m, k) for i in range(len(on)) for m in labels for k in labels if on[i, m] and not on[i, k]]
    i, m, k = np.array(pairs).T
    H = np.zeros((len(i), on.shape[1]))
    H[np.arange(len(i)), m], H[np.arange(len(i)), k] = 1.0, -1.0
    return i, H, (H @ H.T) * K[np.ix_(i, i)] + np.diag(1.0 / problem.cost[i])


def coordinate_descent(Theta, n_sweeps=3000):
    """min 1/2 x^T Theta x - sum(x), x >= 0; the optimum of W is x / sum(x)."""
    x, g = np.zeros(len(Theta)), -np.ones(len(Theta))
    for _ in range(n_sweeps):
        moved = 0.0
        for p in range(len(Theta)):
            new = max(x[p] - g[p] / Theta[p, p], 0.0)
            moved = max(moved, abs(new - x[p]))
            g += (new - x[p]) * Theta[:, p]
            x[p] = new
        if moved < 1e-14:
            break
    return x / x.sum()


def textbook(Theta, i, K, problem, n_steps):
    """Literal Frank-Wolfe from Eqs. (55), (56)."""
    a = np.zeros(len(Theta))
    a[np.flatnonzero(i == np.argmin(2.0 * np.diag(K) + 1.0 / problem.cost))[0]] = 1.0
    for _ in range(n_steps):
        g = Theta @ a
        d = -a
        d[np.argmin(g)] += 1.0
        a = a + min(-(g @ d) / (d @ Theta @ d), 1.0) * d
    return a


def coefficients(i, H, a, shape):
    beta = np.zeros(shape)
    np.add.at(beta, i, a[:, None] * H)
    return beta


@pytest.mark.compiled
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_reaches_the_optimum_of_coordinate_descent(rng, kernel, C):
    K, problem, gram = make_problem(rng, n=20, C=C, kernel=kernel)
    i, H, Theta = literal(K, problem)
    best = coordinate_descent(Theta)
    optimum = 0.5 * best @ Theta @ best
    result = solve_rank_cvm_fw(problem, gram, Control(1e-3, 50_000))
    assert result.status is Status.CONVERGED
    assert np.abs(result.coef).max() > 1e-3
    assert optimum * (1 - 1e-12) <= result.primal <= optimum * (1 + 1e-3)
    assert result.dual <= optimum * (1 + 1e-12)
    scores = K @ coefficients(i, H, best, problem.Y.shape)
    # W is 1-strongly convex in f of the norm of the kernel: |f - f*|^2 <= 2 gap K_ii.
    assert np.abs(K @ result.dual_coef - scores).max() <= np.sqrt(2 * result.gap * np.diag(K).max())


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_iterates_are_the_textbooks(rng, kernel):
    K, problem, gram = make_problem(rng, n=15, kernel=kernel)
    i, H, Theta = literal(K, problem)
    for n_iter in (0, 1, 4):  # an iteration is n_samples steps
        a = textbook(Theta, i, K, problem, 15 * n_iter)
        result = solve_rank_cvm_fw(problem, gram, Control(0.0, n_iter))
        assert result.n_iter == n_iter
        assert_allclose(result.dual_coef, coefficients(i, H, a, problem.Y.shape), atol=1e-11)
        assert_allclose(result.primal, 0.5 * a @ Theta @ a, rtol=1e-10)
        assert_allclose(result.gap, a @ Theta @ a - (Theta @ a).min(), rtol=1e-8)


@pytest.mark.compiled
@pytest.mark.parametrize("kernel", ["rbf", "linear"])
def test_certificates_enclose_the_optimum_and_objectives_fall(rng, kernel):
    K, problem, gram = make_problem(rng, n=20, kernel=kernel)
    _, _, Theta = literal(K, problem)
    best = coordinate_descent(Theta)
    optimum = 0.5 * best @ Theta @ best
    history = solve_rank_cvm_fw(problem, gram, Control(1e-3, 100_000)).history
    assert len(history) > 2
    assert all(point.dual <= optimum * (1 + 1e-12) <= point.primal * (1 + 2e-12) for point in history)
    assert np.all(np.diff([point.primal for point in history]) < 0)


def test_result_has_scores_that_sum_to_zero_and_weights_of_one(rng):
    _, problem, gram = make_problem(rng)
    result = solve_rank_cvm_fw(problem, gram, Control(1e-2, 1000))
    beta = result.dual_coef
    assert_array_equal(result.coef, beta.T)
    assert_allclose(beta.sum(axis=1), 0.0, atol=1e-15)
    assert_allclose(np.sum(beta * problem.Y), 1.0)  # sum(a), since every pair adds to one relevant label
    assert np.all(beta * (2.0 * problem.Y - 1.0) >= 0.0)


def test_few_rows_in_memory_give_the_same_as_all(rng, monkeypatch):
    monkeypatch.setattr(rank_fw, "FEWEST_ROWS", 3)
    K, problem, _ = make_problem(rng, n=40)
    asked = []

    def values(rows, columns):
        asked.append(rows)
        return K[rows][:, columns] - 1.0

    gram = Gram(values, np.diag(K).copy(), 1.0)
    whole = solve_rank_cvm_fw(problem, gram, Control(1e-2, 200))
    n_blocks = len(asked)
    assert n_blocks == 1  # K once
    for n_rows in (0, 3, 17, 39):
        asked.clear()
        part = solve_rank_cvm_fw(problem, gram, Control(1e-2, 200), cache_size=n_rows * 40 * 8 / 2**20)
        assert len(asked) > n_blocks
        assert part.n_iter == whole.n_iter
        assert_allclose(part.dual_coef, whole.dual_coef, atol=1e-10)
        assert_allclose(part.gap, whole.gap, rtol=1e-6)


def test_least_recently_used_row_makes_room(monkeypatch):
    monkeypatch.setattr(rank_fw, "FEWEST_ROWS", 2)
    K = np.arange(25.0).reshape(5, 5)
    cache = rank_fw.RowCache(Gram(lambda rows, columns: K[rows][:, columns], np.diag(K).copy()), 0.0)
    assert not cache.holds_all
    cache.fetch(3)
    cache.fetch(1)
    cache.rows.stamp[[3, 1]] = [7, 5]
    cache.fetch(4)
    assert_array_equal(cache.rows.slot >= 0, [False, False, False, True, True])
    for i in (3, 4):
        assert_array_equal(cache.rows.rows[cache.rows.slot[i]], K[i])
        assert cache.rows.smallest[i] == K[i].min()
    assert cache.rows.largest[4] == 23.0  # off the diagonal


@pytest.mark.compiled
@pytest.mark.parametrize("cache_size", [0.001, 1000])
@pytest.mark.usefixtures("threaded_blas")
def test_same_bits_again_and_for_any_number_of_threads(rng, cache_size):
    _, problem, gram = make_problem(rng, n=100)
    one, again, three = (
        solve_rank_cvm_fw(problem, gram, Control(5e-2, 500), cache_size=cache_size, n_threads=t) for t in (1, 1, 3)
    )
    assert one.status is Status.CONVERGED
    assert_array_equal(one.dual_coef, again.dual_coef)
    assert_array_equal(one.dual_coef, three.dual_coef)


def test_callback_and_limit_stop_it(rng):
    _, problem, gram = make_problem(rng)
    seen = []

    def enough(point):
        seen.append(point)
        return len(seen) == 3

    stopped = solve_rank_cvm_fw(problem, gram, Control(1e-9, 10_000, callback=enough))
    assert stopped.status is Status.STOPPED
    assert list(stopped.history) == seen
    assert solve_rank_cvm_fw(problem, gram, Control(1e-9, 7)).status is Status.MAX_ITER


def test_interrupt_goes_on_to_the_caller(rng):
    _, problem, gram = make_problem(rng)

    def interrupt(point):
        if point.n_iter:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        solve_rank_cvm_fw(problem, gram, Control(1e-9, 10_000, callback=interrupt))


@pytest.mark.parametrize("K", [[[3.0]], [[3.0, 0.5], [0.5, 1.5]]])
def test_one_and_two_rows(K):
    K = np.array(K)
    Y = np.array([[1, 0], [0, 1]], dtype=np.uint8)[: len(K)]
    problem = RankProblem.of(Y, np.ones(len(K)), 1.0)
    gram = Gram(lambda rows, columns: K[rows][:, columns], np.diag(K).copy())
    result = solve_rank_cvm_fw(problem, gram, Control(1e-10, 1000))
    assert result.status is Status.CONVERGED
    _, _, Theta = literal(K, problem)
    best = coordinate_descent(Theta)
    assert_allclose(result.primal, 0.5 * best @ Theta @ best, rtol=1e-9)


def test_pair_groups_are_all_pairs_in_order(rng):
    _, problem, _ = make_problem(rng, n_labels=5)
    groups = pair_groups(problem)
    found = [
        (m, k, i) for m in range(5) for k in range(5) for i in groups.row[groups.begin[m, k] : groups.begin[m, k + 1]]
    ]
    on = problem.Y.astype(bool)
    expected = [(m, k, i) for m in range(5) for k in range(5) for i in range(30) if on[i, m] and not on[i, k]]
    assert found == expected
    assert len(found) == problem.n_pairs


@pytest.mark.compiled
def test_labels_that_all_rows_have_or_none(rng):
    K, problem, gram = make_problem(rng, n=12)
    Y = np.column_stack([np.ones(12), problem.Y, np.zeros(12)]).astype(np.uint8)
    wider = RankProblem.of(Y, np.ones(12), 1.0)
    _, _, Theta = literal(K, wider)
    best = coordinate_descent(Theta)
    result = solve_rank_cvm_fw(wider, gram, Control(1e-3, 50_000))
    assert result.status is Status.CONVERGED
    assert_allclose(result.primal, 0.5 * best @ Theta @ best, rtol=1e-3)
