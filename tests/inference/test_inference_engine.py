"""The engine against all labelings, on trees, loops, dense graphs and cliques of order 2 to 4."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from tests.inference import brute

from comargin.inference import Inference
from comargin.inference import engine as _engine

SHAPES = ["tree", "sparse", "loopy", "dense", "higher order"]
KINDS = ["weak", "even", "strong", "ties", "zeros"]


@pytest.fixture(params=["exact", "auto", "search", "search only"])
def make(request, monkeypatch):
    """Engines that must all be exact on small graphs."""
    if request.param == "exact":
        return lambda n_labels, cliques: Inference(n_labels, cliques, "exact")
    if request.param == "auto":
        return Inference
    if request.param == "search only":
        monkeypatch.setattr(_engine, "LARGEST_WIDTH", 0)
    else:
        monkeypatch.setattr(_engine, "POLICY", _engine.InferencePolicy(marginal_width=0))
    return lambda n_labels, cliques: Inference(n_labels, cliques, max_width=0)


@pytest.mark.parametrize("shape", SHAPES)
def test_equals_brute_force(make, shape, rng):
    for trial in range(25):
        n_labels, cliques = brute.random_graph(rng, shape)
        engine = make(n_labels, cliques)
        P = brute.random_potentials(rng, 20, n_labels, cliques, KINDS[trial % len(KINDS)])
        scores = brute.all_scores(n_labels, cliques, P)
        labels, score, bound = engine.map(P)
        assert_array_equal(engine.best_labels(P), labels)
        assert labels.dtype == np.uint8
        assert_allclose(score, scores.max(axis=1), rtol=1e-11, atol=1e-11)
        assert_allclose(score, brute.scores_of(labels, scores), rtol=1e-11, atol=1e-11)
        assert_array_equal(bound, score)
        size = np.abs(P).sum(axis=1).max()
        assert_allclose(engine.max_marginals(P), brute.max_marginals(n_labels, scores), atol=1e-11 * size)


def test_larger_graphs_equal_brute_force(make, rng):
    for n_labels, n_cliques, orders in ((12, 66, (2,)), (12, 20, (2,)), (12, 14, (2, 3, 4))):
        cliques = brute.random_cliques(rng, n_labels, n_cliques, orders)
        P = brute.random_potentials(rng, 12, n_labels, cliques, "even")
        scores = brute.all_scores(n_labels, cliques, P)
        engine = make(n_labels, cliques)
        labels, score, bound = engine.map(P)
        assert_array_equal(engine.best_labels(P), labels)
        assert_allclose(score, scores.max(axis=1), rtol=1e-11)
        assert_allclose(brute.scores_of(labels, scores), score, rtol=1e-11)
        assert_array_equal(bound, score)
        assert_allclose(engine.max_marginals(P), brute.max_marginals(n_labels, scores), atol=1e-10)


@pytest.mark.parametrize("shape", SHAPES)
def test_mplp_bounds_every_score(shape, rng):
    n_certified = 0
    for trial in range(30):
        n_labels, cliques = brute.random_graph(rng, shape)
        P = brute.random_potentials(rng, 20, n_labels, cliques, KINDS[trial % len(KINDS)])
        scores = brute.all_scores(n_labels, cliques, P)
        rounding = 1e-11 * np.abs(P).sum(axis=1)
        bounds = []
        for max_sweeps in (1, 2, 3, 5, 10, 1000):
            labels, score, bound = Inference(n_labels, cliques, "mplp", max_sweeps=max_sweeps).map(P)
            assert_allclose(score, brute.scores_of(labels, scores), rtol=1e-11, atol=1e-11)
            assert np.all(bound >= scores.max(axis=1) - rounding)
            assert np.all(score[bound == score] >= scores.max(axis=1)[bound == score] - rounding[bound == score])
            bounds.append(bound)
        assert np.all(np.diff(bounds, axis=0) <= rounding)
        n_certified += np.sum(bound == score)
        if shape == "tree":
            assert_allclose(bound, scores.max(axis=1), atol=1e-9 * rounding.max() / 1e-11)
    assert n_certified > (540 if shape in ("tree", "sparse") else 100)


@pytest.mark.parametrize("max_nodes", [0, 1, 2, 5, 20, 100])
def test_search_given_up_is_honest(max_nodes, rng, monkeypatch):
    monkeypatch.setattr(_engine, "LARGEST_WIDTH", 0)
    n_open = 0
    for n_labels, n_cliques, orders in ((10, 45, (2,)), (9, 15, (2, 3, 4))):
        cliques = brute.random_cliques(rng, n_labels, 3 * n_cliques, orders)
        engine = Inference(n_labels, cliques, max_width=0, max_nodes=max_nodes)
        assert not engine.exact
        P = brute.random_potentials(rng, 50, n_labels, cliques, "even")
        scores = brute.all_scores(n_labels, cliques, P)
        labels, score, bound = engine.map(P)
        assert_allclose(brute.scores_of(labels, scores), score, rtol=1e-11)
        assert np.all(bound >= scores.max(axis=1) - 1e-10)
        certified = bound == score
        assert_allclose(score[certified], scores.max(axis=1)[certified], rtol=1e-11)
        n_open += np.sum(~certified)
        differences, true = engine.max_marginals(P), brute.max_marginals(n_labels, scores)
        assert np.isfinite(differences).all()
        assert np.mean(np.abs(differences - true) < 1e-9) > 0.3
    assert n_open > 0


def quadratic_maximum(n_labels, pairs, potentials):
    """Maximum over all labelings of y^T Q y + constant, which potentials of pairs come down to."""
    Q, constant = np.diag(potentials[:n_labels]), 0.0
    for (i, j), (t00, t01, t10, t11) in zip(pairs, potentials[n_labels:].reshape(-1, 4), strict=True):
        constant += t00
        Q[i, i] += t10 - t00
        Q[j, j] += t01 - t00
        Q[i, j] += t11 - t10 - t01 + t00
    half = n_labels // 2
    Y, Z = brute.labelings(half).astype(float), brute.labelings(n_labels - half).astype(float)
    first = np.einsum("si,ij,sj->s", Y, Q[:half, :half], Y, optimize=True)
    second = np.einsum("si,ij,sj->s", Z, Q[half:, half:], Z, optimize=True)
    cross = Y @ (Q[:half, half:] + Q[half:, :half].T) @ Z.T
    return constant + (first[:, None] + cross + second).max()


def test_complete_graph_of_20_labels_is_exact(rng):
    pairs = list(itertools.combinations(range(20), 2))
    engine = Inference(20, pairs)
    assert engine.exact
    assert engine.width == 19
    P = np.concatenate([brute.random_potentials(rng, 10, 20, pairs, kind) for kind in KINDS])
    _, score, bound = engine.map(P)
    assert_array_equal(bound, score)
    assert_allclose(score, [quadratic_maximum(20, pairs, row) for row in P], rtol=1e-10, atol=1e-10)
    _, relaxed_score, relaxed_bound = Inference(20, pairs, "mplp").map(P)
    assert np.all(relaxed_bound >= score - 1e-9)
    assert np.mean(relaxed_score < relaxed_bound) > 0.5  # MPLP alone does not do it


def test_rows_that_the_search_gives_up_are_eliminated(rng):
    pairs = list(itertools.combinations(range(16), 2))
    engine = Inference(16, pairs, max_width=5, max_nodes=10)
    P = brute.random_potentials(rng, 6, 16, pairs, "even")
    P[0] = 0.0
    P[0, 16:] = np.tile([0.0, 1.0, 1.0, 0.0], len(pairs))  # the best cut: 12870 labelings are equally good
    _, score, bound = engine.map(P)
    assert_array_equal(bound, score)
    assert_allclose(score, [quadratic_maximum(16, pairs, row) for row in P], rtol=1e-10)
    assert score[0] == 64.0
    assert_allclose(engine.max_marginals(P), Inference(16, pairs, "exact").max_marginals(P), atol=1e-10)


def test_long_chain_equals_viterbi(rng):
    n_labels, n = 300, 70
    cliques = [(k + 1, k) if k % 3 else (k, k + 1) for k in range(n_labels - 1)]
    P = rng.normal(size=(n, brute.n_columns(n_labels, cliques)))
    best = np.stack([np.zeros(n), P[:, 0]], axis=1)
    for k in range(n_labels - 1):
        table = P[:, n_labels + 4 * k : n_labels + 4 * k + 4].reshape(n, 2, 2)
        table = table.transpose(0, 2, 1) if k % 3 else table  # axes: k, k + 1
        best = (best[:, :, None] + table).max(axis=1) + np.stack([np.zeros(n), P[:, k + 1]], axis=1)
    for method in ("auto", "exact", "mplp"):
        _, score, bound = Inference(n_labels, cliques, method).map(P)
        assert_allclose(bound, best.max(axis=1), rtol=1e-11)
        assert_allclose(score, best.max(axis=1), rtol=1e-11)


@pytest.mark.parametrize("method", ["auto", "mplp"])
@pytest.mark.usefixtures("threaded_blas")
def test_rows_do_not_depend_on_each_other_or_on_threads(method, rng):
    cliques = [*itertools.combinations(range(9), 2), (9, 10), (11, 10), (12, 13, 14)]
    engine = Inference(17, cliques, method, max_width=3)
    P = rng.normal(size=(301, engine.n_columns))
    P.setflags(write=False)
    whole = (*engine.map(P), engine.max_marginals(P))
    with ThreadPoolExecutor(2) as pool:
        halves = [*pool.map(lambda part: (*engine.map(part), engine.max_marginals(part)), [P[:150], P[150:]] * 2)]
    for result, first, second in zip(whole, halves[0], halves[1], strict=True):
        assert_array_equal(result, np.concatenate([first, second]))
    for rows in (slice(0, 0), slice(0, 1), slice(0, 63), slice(7, 71), slice(0, 65)):
        part = np.ascontiguousarray(P[rows])
        for result, alone in zip(whole, (*engine.map(part), engine.max_marginals(part)), strict=True):
            assert_array_equal(result[rows], alone)
    labels, score, _, difference = whole
    assert_array_equal(engine.score(P, labels), score)
    assert_array_equal(labels[:, 15:], P[:, 15:17] > 0)
    assert_array_equal(difference[:, 15:], P[:, 15:17])
    if method == "auto":
        decided = np.abs(difference) > 1e-9
        assert_array_equal((difference > 0)[decided], labels[decided] == 1)


def test_many_components_share_plans_of_bounded_size(rng, monkeypatch):
    monkeypatch.setattr(_engine, "POLICY", _engine.InferencePolicy(shared_states=8))
    cliques = [(0, 1), (2, 3), (4, 5), (5, 6), (4, 6), (7, 8)]
    engine = Inference(10, cliques)
    assert len(engine._eliminations) == 3
    P = rng.normal(size=(40, engine.n_columns))
    scores = brute.all_scores(10, cliques, P)
    assert_allclose(engine.map(P)[1], scores.max(axis=1), rtol=1e-12)
    assert_allclose(engine.max_marginals(P), brute.max_marginals(10, scores), atol=1e-12)


def test_without_cliques():
    engine = Inference(3, [])
    assert engine.exact
    assert (engine.n_columns, engine.width) == (3, 0)
    labels, score, bound = engine.map(np.array([[1.0, -1.0, 0.0], [0.5, 0.25, -3.0]]))
    assert_array_equal(labels, [[1, 0, 0], [1, 1, 0]])
    assert_array_equal(score, [1.0, 0.75])
    assert_array_equal(bound, score)


def test_too_wide_for_elimination():
    pairs = list(itertools.combinations(range(26), 2))
    with pytest.raises(ValueError, match=r"method='exact'.*26 labels and 325 cliques.*width is 25, at most 22.*'auto'"):
        Inference(30, [*pairs, (27, 28)], "exact")
    assert not Inference(30, pairs).exact
    assert not Inference(3, [(0, 1)], "mplp").exact


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, [], "brute"), r"method must be one of .*'auto'.*got 'brute'"),
        ((0, []), "n_labels must be at least 1"),
        ((3, [(0,)]), r"cliques: a clique joins at least two labels, got \(0,\)"),
        ((3, [(0, 3)]), r"cliques: clique \(0, 3\) names a label outside 0\.\.2"),
        ((3, [(-1, 1)]), r"cliques: clique \(-1, 1\) names a label outside 0\.\.2"),
        ((3, [(1, 1)]), r"cliques: clique \(1, 1\) repeats a label"),
        ((3, [(0, 1), (1, 0)]), r"cliques: clique \(1, 0\) comes twice"),
    ],
)
def test_bad_graphs(arguments, message):
    with pytest.raises(ValueError, match=message):
        Inference(*arguments)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"max_width": 23}, "max_width must be between 0 and 22, got 23"),
        ({"max_sweeps": 0}, "max_sweeps must be at least 1"),
        ({"max_nodes": -1}, "max_nodes must be at least 0"),
    ],
)
def test_bad_options(option, message):
    with pytest.raises(ValueError, match=message):
        Inference(3, [(0, 1)], **option)


def test_bad_potentials():
    engine = Inference(3, [(0, 1)])
    good = np.zeros((4, 7))
    for bad in (good[:, :6], good.astype(np.float32), np.asfortranarray(good), good[0], good.tolist()):
        for method in (engine.map, engine.max_marginals):
            with pytest.raises(ValueError, match=r"potentials must be a C-contiguous float64 array of shape \(n, 7\)"):
                method(bad)
    with pytest.raises(ValueError, match=r"labels must be uint8 of shape \(4, 3\), got int64"):
        engine.score(good, np.zeros((4, 3), dtype=np.int64))


@pytest.mark.parametrize("forbidden", [-1e6, -1e9, -1e12])
def test_forbidden_states_do_not_hide_what_is_best(forbidden):
    """Potentials of very different size: what rounding of the large ones may hide is not called certified."""
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations(range(16), 2))
    potentials = np.concatenate(
        [rng.standard_normal((10, 16)), 0.5 * rng.standard_normal((10, 4 * len(pairs)))], axis=1
    )
    potentials[:, 16 + 3 :: 28] = forbidden  # state 11 of every seventh pair
    found = Inference(16, pairs).map(potentials)
    exact = Inference(16, pairs, "exact").map(potentials)
    np.testing.assert_allclose(found[1], exact[1], rtol=1e-9)


def test_search_that_is_given_up_is_no_worse_than_sweeps():
    rng = np.random.default_rng(1)
    pairs = list(itertools.combinations(range(30), 2))
    potentials = rng.standard_normal((5, 30 + 4 * len(pairs)))
    _, score, bound = Inference(30, pairs, max_nodes=5).map(potentials)
    _, swept_score, swept_bound = Inference(30, pairs, "mplp").map(potentials)
    assert (bound <= swept_bound + 1e-9).all()
    assert (score >= swept_score - 1e-9).all()
    assert (bound > score).any()
