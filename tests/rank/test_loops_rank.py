"""Sums over pairs of labels against loops over all pairs; the solution of a row against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.rank import naive_rank as naive

from comargin.rank import _loops as _rank

NAMES = [name for name, value in vars(_rank).items() if callable(value) and name != "kernel"]
EPS = np.finfo(float).eps


def uncompile(monkeypatch):
    for name in NAMES:
        function = getattr(_rank, name)
        monkeypatch.setattr(_rank, name, getattr(function, "py_func", function))


@pytest.fixture(params=["compiled", "plain"])
def flavour(request, monkeypatch):
    """Every function of the module compiled, or none."""
    if request.param == "plain":
        uncompile(monkeypatch)
    return request.param


# ---- one row


def objective(a0, b0, kappa, a, b):
    short = np.maximum(b[None, :] - a[:, None], 0.0)
    return 0.5 * (np.sum((a - a0) ** 2) + np.sum((b - b0) ** 2) + kappa * np.sum(short**2))


def gradient(a0, b0, kappa, a, b):
    short = np.maximum(b[None, :] - a[:, None], 0.0)
    return np.concatenate([a - a0 - kappa * short.sum(axis=1), b - b0 + kappa * short.sum(axis=0)])


def exact_minimiser(a0, b0, kappa, a, b):
    """Newton's method in rational numbers from a guess; where the same pairs fall short again it is the minimiser."""
    start = [Fraction(float(v)) for v in (*a0, *b0)]
    z, kappa = [Fraction(float(v)) for v in (*a, *b)], Fraction(float(kappa))
    p, size, before = len(a0), len(a0) + len(b0), None
    for _ in range(30):
        short = [(m, n) for m in range(p) for n in range(p, size) if z[n] > z[m]]
        if short == before:
            return z
        before = short
        M = [[Fraction(int(r == c)) for c in range(size)] + [start[r]] for r in range(size)]
        for m, n in short:
            M[m][m] += kappa
            M[n][n] += kappa
            M[m][n] -= kappa
            M[n][m] -= kappa
        for c in range(size):
            for r in range(c + 1, size):
                if M[r][c]:
                    factor = M[r][c] / M[c][c]
                    M[r] = [x - factor * y for x, y in zip(M[r], M[c], strict=True)]
        for r in reversed(range(size)):
            z[r] = (M[r][size] - sum(M[r][c] * z[c] for c in range(r + 1, size))) / M[r][r]
    raise AssertionError("the pairs that fall short did not settle")


def solve_row(a0, b0, kappa, guess):
    p, n_labels = len(a0), len(a0) + len(b0)
    a, b = guess[:p].copy(), guess[p:].copy()
    reach = np.full(n_labels, 77, dtype=np.int32)
    _rank.solve_row(a0, b0, kappa, reach, np.full((4, n_labels), np.nan), a, b)
    return a, b, reach[:p]


def random_row(rng, n_labels, p, kind):
    scores = rng.normal(size=n_labels) * 10.0 ** rng.uniform(-2, 1)
    if kind == "ties":
        scores = np.round(scores)
    if kind == "equal":
        scores[:] = scores[0]
    if kind == "large":
        scores *= 1e6
    guess = scores + (np.arange(n_labels) >= p) if kind == "near" else rng.normal(size=n_labels) * 1e4
    return np.sort(scores[:p]), np.sort(scores[p:])[::-1] + 1.0, guess


def check_row(a0, b0, kappa, guess):
    a, b, reach = solve_row(a0, b0, kappa, guess)
    scale = max(np.abs(a0).max(), np.abs(b0).max())
    stiffness = 1.0 + kappa * (len(a0) + len(b0))
    assert np.abs(gradient(a0, b0, kappa, a, b)).max() <= 1e-12 * stiffness * scale
    exact = np.array([float(v) for v in exact_minimiser(a0, b0, kappa, a, b)])
    assert_allclose(np.concatenate([a, b]), exact, rtol=0, atol=(16 + stiffness) * EPS * scale)
    rounding = (16 + stiffness) * EPS * scale
    assert np.all(reach >= (b[None, :] > a[:, None] + rounding).sum(axis=1))
    assert np.all(reach <= (b[None, :] > a[:, None] - rounding).sum(axis=1))


@pytest.mark.parametrize("kind", ["any", "ties", "equal", "large", "near"])
@pytest.mark.parametrize(("n_labels", "p"), [(2, 1), (3, 1), (3, 2), (6, 1), (6, 5), (7, 3), (12, 5)])
def test_row_is_solved_exactly(flavour, kind, n_labels, p, rng):
    for kappa in 10.0 ** rng.uniform(-8, 8, size=2 if n_labels == 12 else 6):
        check_row(*random_row(rng, n_labels, p, kind)[:2], kappa, random_row(rng, n_labels, p, kind)[2])


def test_row_by_hand(flavour):
    # One pair: a - a0 = kappa (b - a) = b0 - b, so that b - a = (b0 - a0) / (1 + 2 kappa).
    a, b, reach = solve_row(np.array([0.0]), np.array([3.0]), 1.0, np.zeros(2))
    assert_allclose([*a, *b, *reach], [1.0, 2.0, 1], rtol=1e-15)
    # Nothing falls short.
    a, b, reach = solve_row(np.array([1.0, 2.0]), np.array([1.0, 0.5]), 2.0, np.array([-5.0, 0.0, 7.0, 8.0]))
    assert_array_equal([*a, *b, *reach], [1.0, 2.0, 1.0, 0.5, 0, 0])
    # All the same against one: b meets all of them, kappa -> inf makes all values the mean.
    a, b, _ = solve_row(np.zeros(3), np.ones(1), 1e8, np.zeros(4))
    assert_allclose([*a, *b], 0.25, atol=1e-7)


@pytest.mark.parametrize("kappa", [1e4, 1e8])
def test_large_kappa_costs_no_digits(flavour, kappa):
    rng = np.random.default_rng(0)
    for p in (1, 3, 5):
        a0, b0, _ = random_row(rng, 6, p, "any")
        a, b, _ = solve_row(a0, b0, kappa, np.concatenate([a0, b0]))
        exact = [float(v) for v in exact_minimiser(a0, b0, kappa, a, b)]
        assert_allclose(np.concatenate([a, b]), exact, rtol=0, atol=16 * EPS * max(np.abs(a0).max(), np.abs(b0).max()))


def test_minimum_is_lower_than_anything_around_it(flavour, rng):
    a0, b0, guess = random_row(rng, 7, 3, "any")
    a, b, _ = solve_row(a0, b0, 3.0, guess)
    best = objective(a0, b0, 3.0, a, b)
    assert_allclose(_rank._row_objective(a0, b0, 3.0, a, b), best, rtol=1e-14)
    for scale in (1e-4, 1e-2, 1.0):
        step = rng.normal(size=(20, 7)) * scale
        assert all(objective(a0, b0, 3.0, a + s[:3], b + s[3:]) > best for s in step)


def test_a_far_guess_and_large_kappa(flavour):
    a0, b0, kappa = np.array([-1.0, -1.0, 0.0]), np.array([2.0, 1.0, 1.0]), 43658629.628337264
    guess = np.array([121182.42445295, 97059.13120975, -16756.89160929, -82078.43947438, -50036.05055355, -85499.36])
    check_row(a0, b0, kappa, guess)


def test_damping_from_the_first_step_finds_the_same(monkeypatch):
    uncompile(monkeypatch)  # constants of compiled functions are fixed
    monkeypatch.setattr(_rank, "_PLAIN_STEPS", 0)
    rng = np.random.default_rng(5)
    for p in (1, 2, 3, 5):
        for kappa in 10.0 ** rng.uniform(-1, 4, size=60):
            a0, b0, guess = random_row(rng, 6, p, "ties")
            check_row(a0, b0, kappa, guess / 10.0 ** rng.uniform(2, 6))


# ---- sums over the pairs of all rows


class Rows:
    """Rows with their labels in the order the kernels begin with; every second row has unknown labels."""

    def __init__(self, rng, n=7, n_labels=5, ties=False):
        self.Y = rng.random((n, n_labels)) < 0.5
        self.Y[:, 0], self.Y[:, -1] = True, False
        self.Y[0, 1:], self.Y[-1, :-1] = False, True  # one relevant label, all but one
        side = np.where(self.Y, 0, 1)
        side[1::2, 1 : n_labels // 2] = 2
        side = rng.permuted(side, axis=1)
        self.Y = np.where(side == 2, np.nan, side == 0)
        self.U = rng.normal(size=(n, n_labels))
        if ties:
            self.U = np.round(self.U)
        self.cost = 0.1 + rng.random(n)
        self.order = np.argsort(side, axis=1, kind="stable").astype(np.int32)
        self.n_relevant = (side == 0).sum(axis=1).astype(np.int32)
        self.n_known = (side < 2).sum(axis=1).astype(np.int32)
        self.reach = np.full((n, n_labels), 99, dtype=np.int32)
        self.labels = (self.order, self.n_relevant, self.n_known)
        self.P = naive.list_pairs(self.Y)

    def x(self, U):
        return np.array([self.cost[i] * max(0.0, 1.0 - U[i, m] + U[i, n]) for i, m, n in self.P])

    def terms(self, U):
        beta = np.full(U.shape, np.nan)
        return _rank.rank_cvm_terms(U, *self.labels, self.cost, self.reach, beta), beta

    def curvature(self, V):
        out = np.full(V.shape, np.nan)
        _rank.rank_cvm_curvature(V, *self.labels, self.cost, self.reach, out)
        return out


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("n_labels", [2, 5, 9])
def test_terms_are_sums_over_pairs(flavour, n_labels, ties, rng):
    rows = Rows(rng, n_labels=n_labels, ties=ties)
    for scale in (1.0, 3.0, 0.0, -20.0):  # the order of labels is kept from call to call
        x = rows.x(scale * rows.U)
        (total, squares), beta = rows.terms(scale * rows.U)
        assert_allclose(beta, naive.coefficients(rows.Y, x), atol=1e-13 * max(x.max(), 1.0))
        assert_allclose(
            [total, squares], [x.sum(), sum(v**2 / rows.cost[p[0]] for v, p in zip(x, rows.P, strict=True))]
        )
        assert_array_equal(np.sort(rows.order, axis=1), np.arange(n_labels) + np.zeros_like(rows.order))
        for i, labels in enumerate(rows.order):
            p, q = rows.n_relevant[i], rows.n_known[i]
            assert_array_equal(rows.Y[i, labels], np.repeat([1.0, 0.0, np.nan], [p, q - p, n_labels - q]))
            u = scale * rows.U[i, labels]
            short = u[None, p:q] + 1.0 > u[:p, None]
            assert_array_equal(rows.reach[i, :q], [*short.sum(axis=1), *short.sum(axis=0)])


def test_no_pair_falls_short(flavour):
    rows = Rows(np.random.default_rng(0))
    (total, squares), beta = rows.terms(np.nan_to_num(rows.Y, nan=0.5))  # the margin exactly
    assert (total, squares) == (0.0, 0.0)
    assert_array_equal(beta, 0.0)
    assert_array_equal(rows.reach[np.arange(5) < rows.n_known[:, None]], 0)
    assert_array_equal(rows.curvature(rows.U), 0.0)


@pytest.mark.parametrize("n_labels", [2, 6])
def test_curvature_is_minus_the_derivative_of_beta(flavour, n_labels, rng):
    rows = Rows(rng, n_labels=n_labels)
    V = rng.normal(size=rows.U.shape)
    h = 1e-6
    ahead, behind = rows.terms(rows.U + h * V)[1], rows.terms(rows.U - h * V)[1]
    rows.terms(rows.U)
    assert_allclose(rows.curvature(V), -(ahead - behind) / (2 * h), atol=1e-7)


def test_curvature_is_a_laplacian(flavour, rng):
    rows = Rows(rng, n=4, n_labels=6)
    rows.terms(rows.U)
    size = rows.U.size
    D = np.array([rows.curvature(unit.reshape(rows.U.shape)).ravel() for unit in np.eye(size)])
    expected = np.zeros((size, size))
    for (i, m, n), x in zip(rows.P, rows.x(rows.U), strict=True):
        if x > 0.0:
            h = np.zeros(rows.U.shape)
            h[i, m], h[i, n] = 1.0, -1.0
            expected += rows.cost[i] * np.outer(h, h)
    assert_allclose(D, expected, atol=1e-14)
    assert_allclose(D, D.T, atol=1e-15)
    assert np.linalg.eigvalsh(D).min() > -1e-13
    assert np.abs(D).max() > 0.1


def test_lowest_gradient_is_the_least_of_all_pairs(flavour, rng):
    for ties in (False, True):
        rows = Rows(rng, n_labels=6, ties=ties)
        F = rng.normal(size=rows.U.shape)
        each = [F[i, m] - F[i, n] + max(0.0, 1.0 - rows.U[i, m] + rows.U[i, n]) for i, m, n in rows.P]
        assert_allclose(_rank.rank_lowest(F, rows.U, *rows.labels), min(each), rtol=1e-14)
        rows.terms(rows.U)  # another order of labels, the same result
        assert_allclose(_rank.rank_lowest(F, rows.U, *rows.labels), min(each), rtol=1e-14)


# ---- blocks of rows


class Block(Rows):
    """Rows of a block in the middle of others, with the K of all."""

    def __init__(self, rng, n=8, n_labels=4, C=1.0, ties=False):
        super().__init__(rng, n, n_labels, ties)
        self.cost *= C
        X = rng.normal(size=(n, 3))
        X[3] = X[2]  # K is singular
        self.K = X @ X.T + 1.0
        self.Theta = np.array([[naive.theta_entry(self.K, self.cost, p, q) for q in self.P] for p in self.P])
        self.beta = self.terms(self.U)[1]
        self.rows = slice(2, n - 1)

    def visit(self, visits):
        rows = self.rows
        theta = (self.K @ self.beta)[rows]
        gram, delta = np.ascontiguousarray(self.K[rows, rows]), np.full(theta.shape, np.nan)
        arguments = (np.array(visits), rows.start, *self.labels, self.cost, self.U, self.beta, delta)
        return _rank.rank_cvm_block(theta, gram, *arguments), theta, delta

    def dual(self):
        x = self.x(self.U)
        return x.sum() - 0.5 * x @ self.Theta @ x


def one_row_exactly(Theta, x, mine):
    """The row's part of max sum x - 1/2 x^T Theta x, x >= 0, by the active set of its pairs."""
    x = x.copy()
    x[mine] = 0.0
    right = 1.0 - (Theta @ x)[mine]
    own = Theta[np.ix_(mine, mine)]
    support = right > 0.0
    for _ in range(200):
        y = np.zeros(len(right))
        y[support] = np.linalg.solve(own[np.ix_(support, support)], right[support])
        if y.min(initial=0.0) < 0.0:
            support &= y > 0.0
            continue
        slope = np.where(support, -np.inf, right - own @ y)
        if slope.max() <= 1e-12:
            x[mine] = y
            return x
        support[slope.argmax()] = True
    raise AssertionError("the support did not settle")


@pytest.mark.parametrize("C", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("n_labels", [2, 5])
def test_block_solves_row_after_row(flavour, C, n_labels, rng):
    block = Block(rng, n_labels=n_labels, C=C)
    before, outside = block.beta.copy(), np.r_[0:2, 7]
    x, U = block.x(block.U), block.U.copy()
    visits = [4, 1, 0, 3, 1]  # row 2 of the block is left out, row 1 comes twice
    lowest = np.inf
    for r in visits:
        mine = np.array([j for j, p in enumerate(block.P) if p[0] == r + block.rows.start])
        lowest = min(lowest, (block.Theta @ x)[mine].min())
        x = one_row_exactly(block.Theta, x, mine)
    found, theta, delta = block.visit(visits)
    assert_allclose(block.x(block.U), x, atol=1e-11 * max(x.max(), C))
    assert_allclose(found, lowest, rtol=1e-9, atol=1e-10)
    assert_allclose(block.beta, naive.coefficients(block.Y, x), atol=1e-11 * max(np.abs(block.beta).max(), C))
    assert_allclose(delta, (block.beta - before)[block.rows], atol=1e-12 * max(np.abs(before).max(), 1.0))
    assert_allclose(theta, (block.K @ block.beta)[block.rows], atol=1e-11 * np.abs(block.K @ before).max())
    assert_array_equal(block.U[outside], U[outside])
    assert_array_equal(block.beta[outside], before[outside])
    assert_array_equal(block.U[4], U[4])
    assert_array_equal(delta[2], 0.0)
    assert np.abs(delta).max() > 1e-6


def test_dual_never_falls_and_rows_that_are_solved_stay(flavour, rng):
    block = Block(rng, C=5.0, ties=True)
    values = [block.dual()]
    for r in [0, 1, 2, 3, 4] * 5:
        block.visit([r])
        values.append(block.dual())
    assert np.all(np.diff(values) >= -1e-12 * abs(values[-1]))
    assert values[-1] > values[0] + 1e-2
    U = block.U.copy()
    _, _, delta = block.visit([4])
    assert np.abs(delta).max() <= 1e-12
    assert_allclose(block.U, U, atol=1e-13)


def test_compiled_equals_plain(monkeypatch):
    """The whole pass, and everything it calls."""
    results = []
    for plain in (False, True):
        if plain:
            uncompile(monkeypatch)
        block = Block(np.random.default_rng(4), n_labels=6, C=3.0)
        found, theta, delta = block.visit([0, 4, 2, 1, 3, 0])
        total, beta = block.terms(block.U)
        curvature = block.curvature(delta.repeat(2, axis=0)[: len(block.U)])
        lowest = _rank.rank_lowest(beta, block.U, *block.labels)
        results.append([*total, lowest, found, theta, delta, block.U, block.beta, beta, curvature])
    for compiled, plain in zip(*results, strict=True):
        assert_allclose(compiled, plain, rtol=1e-12, atol=1e-13)
