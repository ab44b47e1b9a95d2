"""CGMClassifier: which cliques are generated, when generation stops, and what its bound promises."""

import itertools
from copy import deepcopy

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.exceptions import ConvergenceWarning
from tests.structured.reference_structured import (
    all_labelings,
    one_hot_states,
    structured_dual_optimum,
    structured_objective,
    structured_optimum,
)

from comargin import CGMClassifier, StructuredSVMClassifier
from comargin.graphs import LabelGraph


def make(rng, n=40, n_features=3, n_labels=4):
    """Labels that follow X, and some of them each other."""
    X = rng.normal(size=(n, n_features))
    Y = (X @ rng.normal(size=(n_features, n_labels)) + 0.7 * rng.normal(size=(n, n_labels)) > 0.2).astype(int)
    for label in range(1, n_labels, 2):
        copied = rng.random(n) < 0.5
        Y[copied, label] = Y[copied, label - 1]
    return X, Y


def make_coins(rng, n=200):
    """Label 3 is the parity of the coins 0 and 1, label 2 is known from X, and 4 is another coin."""
    X, coins = rng.normal(size=(n, 2)), rng.integers(0, 2, size=(n, 3))
    Y = np.column_stack([coins[:, 0], coins[:, 1], X[:, 0] > 0, coins[:, 0] ^ coins[:, 1], coins[:, 2]])
    return X, Y.astype(int)


@pytest.fixture
def data(rng):
    return make(rng)


def fit(X, Y, sample_weight=None, **options):
    options = {"alpha": 0.05, "round_tol": 0.0, "random_state": 0} | options
    return CGMClassifier(**options).fit(X, Y, sample_weight=sample_weight)


def groups_of(model):
    """One group per round."""
    return [k for k, generated in enumerate(model.rounds_[1:]) for _ in generated.cliques]


def objective(model, X, Y, groups, **options):
    half = 0.5 * np.column_stack([model.coef_, model.intercept_])
    tables = [np.column_stack(table) for table in zip(model.clique_coef_, model.clique_intercept_, strict=True)]
    u = np.stack([-half, half], axis=1)
    return structured_objective(X, Y, model.cliques_, groups, model.alpha, u, tables, **options)


def all_scores(model, X):
    """Scores of all labelings of every row, (n, 2^K)."""
    n_labels = len(model.coef_)
    labelings = all_labelings(n_labels)
    coef, intercept = np.vstack([model.coef_, *model.clique_coef_]), np.r_[model.intercept_, *model.clique_intercept_]
    states = np.hstack([labelings, one_hot_states(labelings, model.cliques_)[:, 2 * n_labels :]])
    return (X @ coef.T + intercept) @ states.T


@pytest.mark.parametrize("storage", ["dense", "csr"])
@pytest.mark.parametrize("options", [{}, {"cliques_per_round": 2, "clique_order": 3, "max_cliques": 5}], ids=str)
def test_objective_and_predictions_from_the_attributes(options, storage, data, rng):
    X, Y = data
    model = fit(sp.csr_array(X) if storage == "csr" else X, Y, tol=1e-4, **options)
    assert len(model.cliques_) >= 3
    assert len(set(model.cliques_)) == len(model.cliques_)
    assert_allclose(model.objective_, objective(model, X, Y, groups_of(model)), rtol=1e-9)
    assert 0.0 <= model.duality_gap_ <= 1e-4 * model.objective_
    tables = [np.column_stack(table) for table in zip(model.clique_coef_, model.clique_intercept_, strict=True)]
    assert_allclose(model.clique_norms_, [np.linalg.norm(table) for table in tables], rtol=1e-12)
    squares = np.zeros((4, 4))
    for clique, norm in zip(model.cliques_, model.clique_norms_, strict=True):
        for pair in itertools.permutations(clique, 2):
            squares[pair] += norm**2
    assert isinstance(model.label_graph_, LabelGraph)
    assert_allclose(model.label_graph_.to_array(), np.sqrt(squares), rtol=1e-12)
    new = rng.normal(size=(30, 3))
    rows = sp.csr_array(new) if storage == "csr" else new
    scores, labelings = all_scores(model, new), all_labelings(4)
    assert_array_equal(model.predict(rows), labelings[np.argmax(scores, axis=1)])
    marginals = [scores[:, y > 0].max(axis=1) - scores[:, y == 0].max(axis=1) for y in labelings.T]
    assert_allclose(model.decision_function(rows), np.column_stack(marginals), rtol=1e-9, atol=1e-11)
    assert model.predict_map(rows).certified == 1.0


@pytest.mark.parametrize("per_round", [1, 2])
def test_the_last_round_is_the_optimum_of_its_cliques(per_round, data):
    X, Y = data
    model = fit(X, Y, cliques_per_round=per_round, max_cliques=4, tol=1e-5)
    optimum, _, _ = structured_optimum(X, Y, model.cliques_, groups_of(model), 0.05)
    assert_allclose(model.objective_, optimum, rtol=2e-5)
    fixed = StructuredSVMClassifier(0.05, graph=model.cliques_, groups=groups_of(model), tol=1e-5, random_state=1).fit(
        X, Y
    )
    assert_allclose(model.objective_, fixed.objective_, rtol=2e-5)


def test_no_clique_improves_by_more_than_it_says(rng):
    """Problem (6) with one clique a round: all pairs, each its own group."""
    for alpha in (0.3, 0.05, 0.01):
        X, Y = make(rng)
        pairs = list(itertools.combinations(range(4), 2))
        optimum, _, _ = structured_optimum(X, Y, pairs, list(range(6)), alpha)
        model = fit(X, Y, alpha=alpha, tol=1e-4)
        for each in model.rounds_:
            assert each.objective - each.improvement <= optimum * (1 + 1e-7)
            assert each.objective >= optimum * (1 - 1e-7)
            assert 0.0 < each.improvement <= each.objective
        assert model.rounds_[0].improvement > 0.05 * optimum
        assert model.rounds_[-1].improvement <= 2.01e-4 * model.objective_
        assert_allclose(model.objective_, optimum, rtol=3e-4)


def test_sets_of_cliques_improve_by_no_more_than_it_says(data):
    """Two cliques a round: a group for every set of two, so that each clique is in five of fifteen groups."""
    X, Y = data
    sets = list(itertools.combinations(itertools.combinations(range(4), 2), 2))
    cliques, groups = [c for chosen in sets for c in chosen], np.repeat(np.arange(15), 2)
    optimum, _ = structured_dual_optimum(X, Y, cliques, groups, 0.05)
    model = fit(X, Y, cliques_per_round=2, tol=1e-4)
    for each in model.rounds_:
        assert each.objective - each.improvement <= optimum * (1 + 1e-5)
    assert model.rounds_[-1].objective - model.rounds_[-1].improvement > 0.5 * optimum  # and it says something


@pytest.mark.parametrize("options", [{}, {"cliques_per_round": 2}, {"tol": 0.05}], ids=str)
def test_rounds_and_history_tell_the_same(options, data):
    X, Y = data
    model = fit(X, Y, **options)
    rounds = model.rounds_
    assert model.cliques_ == [clique for each in rounds for clique in each.cliques]
    assert [each.n_cliques for each in rounds] == np.cumsum([len(each.cliques) for each in rounds]).tolist()
    assert rounds[0].cliques == ()
    assert all(1 <= len(each.cliques) <= model.cliques_per_round for each in rounds[1:])
    points = {(point.primal, point.gap) for point in model.history_}
    assert all((each.objective, each.gap) in points for each in rounds)
    assert (rounds[-1].objective, rounds[-1].gap) == (model.objective_, model.duality_gap_)
    assert all(each.gap <= 1.0001 * max(0.01, model.tol) * each.objective for each in rounds)
    seconds = [each.seconds for each in rounds]
    assert seconds == sorted(seconds)
    assert [point.n_iter for point in model.history_] == sorted(point.n_iter for point in model.history_)
    assert [point.seconds for point in model.history_] == sorted(point.seconds for point in model.history_)
    assert sum(each.n_iter for each in rounds) == model.n_iter_ == model.history_[-1].n_iter
    assert rounds[-1].hamming == pytest.approx(np.mean(model.predict(X) != Y))
    alone = StructuredSVMClassifier(0.05, graph="none", random_state=0).fit(X, Y)
    assert_allclose(rounds[0].objective, alone.objective_, rtol=max(0.011, model.tol))


def test_rows_are_weighted_in_every_round(data, rng):
    X, Y = data
    weight = 3.0 * rng.random(40)
    weight[:4] = 0.0
    model = fit(X, Y, sample_weight=weight, max_cliques=3, tol=1e-5)
    scaled = weight * 40 / weight.sum()
    assert_allclose(model.objective_, objective(model, X, Y, groups_of(model), sample_weight=scaled), rtol=1e-9)
    wrong = np.mean(model.predict(X) != Y, axis=1)
    assert model.rounds_[-1].hamming == pytest.approx(weight @ wrong / weight.sum())
    # All pairs at once: which of several optimal duals ranks them depends on the rows that are there.
    many = fit(X, Y, sample_weight=weight, cliques_per_round=6, tol=1e-5)
    few = fit(X[4:], Y[4:], sample_weight=weight[4:], cliques_per_round=6, tol=1e-5)
    assert sorted(few.cliques_) == sorted(many.cliques_)
    assert_allclose(few.objective_, many.objective_, rtol=2e-5)


@pytest.mark.parametrize(
    ("options", "counts"),
    [
        ({"max_cliques": 0}, [0]),
        ({"max_rounds": 0}, [0]),
        ({"max_cliques": 1}, [0, 1]),
        ({"max_rounds": 2}, [0, 1, 2]),
        ({"max_rounds": 2, "cliques_per_round": 2}, [0, 2, 4]),
        ({"max_cliques": 5, "cliques_per_round": 2}, [0, 2, 4, 5]),
        ({"max_cliques": 2, "cliques_per_round": 4}, [0, 2]),
        ({"cliques_per_round": 100}, [0, 6]),
        ({"max_cliques": 100, "cliques_per_round": 4, "tol": 0.0, "max_iter": 30}, [0, 4, 6]),
        ({"round_tol": 1.0}, [0, 1]),  # rounds 2 and 3 are taken back
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rules_that_stop_it(options, counts, data):
    model = fit(*data, **({"alpha": 0.01} | options))
    assert [each.n_cliques for each in model.rounds_] == counts
    assert len(model.cliques_) == len(model.clique_coef_) == len(model.clique_norms_) == counts[-1]


def test_nothing_to_generate_is_the_model_without_cliques(data):
    X, Y = data
    model = fit(X, Y, max_cliques=0, tol=1e-6)
    alone = StructuredSVMClassifier(0.05, graph="none", tol=1e-6, random_state=0).fit(X, Y)
    assert_allclose(model.objective_, alone.objective_, rtol=2e-6)
    assert model.label_graph_.isolated == tuple(f"label_{k}" for k in range(4))
    assert_allclose(model.decision_function(X), X @ model.coef_.T + model.intercept_, rtol=1e-12)


def test_a_true_triple_is_found_and_unrelated_labels_stay_alone(rng):
    X, Y = make_coins(rng)
    model = fit(X, Y, alpha=0.2, clique_order=3)
    assert model.cliques_ == [(0, 1, 3)]
    assert model.label_graph_.isolated == ("label_2", "label_4")
    assert model.label_graph_.edges.tolist() == [[0, 1], [0, 3], [1, 3]]
    last = model.rounds_[-1]
    assert last.improvement - last.gap <= model.tol * last.objective  # this is what stopped it
    assert last.objective < 0.9 * model.rounds_[0].objective
    predicted = model.predict(X)
    assert_array_equal(predicted[:, 3], predicted[:, 0] ^ predicted[:, 1])
    # Pairs know nothing of a parity.
    pairs = fit(X, Y, alpha=0.2, clique_order=2)
    assert pairs.objective_ > 0.95 * model.rounds_[0].objective


def test_pairs_and_triples_compete(data):
    X, Y = data
    model = fit(X, Y, clique_order=3, tol=1e-4)
    orders = {len(clique) for clique in model.cliques_}
    assert orders <= {2, 3}
    both = [c for order in (2, 3) for c in itertools.combinations(range(4), order)]
    optimum, _, _ = structured_optimum(X, Y, both, list(range(10)), 0.05)
    assert_allclose(model.objective_, optimum, rtol=3e-4)
    assert all(each.objective - each.improvement <= optimum * (1 + 1e-7) for each in model.rounds_)


def test_rule_of_two_rounds_leaves_labels_alone(rng):
    """After the edge between 0 and 1 nothing lowers the objective by 10 % in two rounds: these are taken back."""
    X = rng.normal(size=(150, 6))
    Y = (X > 0).astype(int)
    Y[:, 1] = np.where(Y[:, 0] == 1, X[:, 1] > 0, X[:, 1] < 0)
    model = CGMClassifier(0.01, round_tol=0.1, tol=1e-2, random_state=0).fit(X, Y)
    assert model.cliques_ == [(0, 1)]
    assert model.label_graph_.isolated == tuple(f"label_{k}" for k in range(2, 6))
    first, last = (each.objective for each in model.rounds_)
    assert last < first / 1.5
    more = CGMClassifier(0.01, round_tol=0, max_cliques=3, tol=1e-2, random_state=0).fit(X, Y)
    assert 0.9 * last <= more.objective_ <= last * (1 + 1e-2)


def test_one_label_and_classes(rng):
    X, Y = make(rng, n=60)
    one = fit(X, Y[:, [0]], tol=1e-5)
    optimum, _, _ = structured_optimum(X, Y[:, [0]], [], None, 0.05)
    assert_allclose(one.objective_, optimum, rtol=2e-5)
    assert one.cliques_ == []
    assert len(one.rounds_) == 1
    y = np.where(Y[:, 0] == 1, "yes", "no")
    binary = fit(X, y, tol=1e-5)
    assert_array_equal(binary.coef_, one.coef_)
    assert_array_equal(binary.predict(X), np.where(one.predict(X)[:, 0] == 1, "yes", "no"))
    y = np.argmax(X + 0.3 * rng.normal(size=X.shape), axis=1)
    multiclass = fit(X, y, tol=1e-4)
    assert_array_equal(multiclass.classes_, [0, 1, 2])
    assert_array_equal(multiclass.predict(X), np.argmax(multiclass.decision_function(X), axis=1))
    assert multiclass.score(X, y) > 0.7
    indicator = (y[:, None] == np.arange(3)).astype(int)
    assert_allclose(multiclass.objective_, objective(multiclass, X, indicator, groups_of(multiclass)), rtol=1e-9)


def test_without_intercept(data):
    X, Y = data
    model = fit(X, Y, fit_intercept=False, max_cliques=2, tol=1e-5)
    assert not model.intercept_.any()
    assert not any(intercept.any() for intercept in model.clique_intercept_)
    optimum, _, _ = structured_optimum(X, Y, model.cliques_, groups_of(model), 0.05, fit_intercept=False)
    assert_allclose(model.objective_, optimum, rtol=2e-5)


@pytest.mark.usefixtures("threaded_blas")
def test_threads_do_not_change_the_result(rng, monkeypatch):
    monkeypatch.setattr("comargin.core.row_products._WORTH_A_THREAD", 1)
    monkeypatch.setattr("comargin.structured._connected_part._CHUNK", 16)
    X, Y = make(rng, n=120, n_labels=6)
    one, two = (fit(X, Y, max_cliques=4, clique_order=3, n_jobs=n) for n in (1, 2))
    assert one.cliques_ == two.cliques_
    assert_array_equal(one.coef_, two.coef_)
    for a, b in zip(one.clique_coef_, two.clique_coef_, strict=True):
        assert_array_equal(a, b)
    assert [each[:-1] for each in one.rounds_] == [each[:-1] for each in two.rounds_]  # all but the seconds


@pytest.mark.parametrize("changed", [{"kernel": "rbf"}, {"gamma": 2.0}, {"class_weight": {0: 1.0, 1: 3.0}}])
def test_a_stopped_fit_does_not_go_on_with_other_parameters(changed, data):
    X, Y = data
    seen = []
    kernel = {"kernel": "poly" if "kernel" in changed else "rbf", "gamma": 0.1, "max_cliques": 3, "warm_start": True}
    model = CGMClassifier(0.01, **kernel, callback=lambda point: seen.append(point) or len(seen) == 6, random_state=0)
    model.fit(X, Y)
    assert len(seen) == 6
    model.set_params(callback=None)
    same = deepcopy(model).fit(X, Y)
    assert same.history_[:5] == model.history_[:5]  # goes on
    assert same.rounds_[0].n_cliques == 0
    n_cliques = len(model.cliques_)
    other = model.set_params(**changed).fit(X, Y)
    assert other.rounds_[0].n_cliques == n_cliques > 0  # a start, in a first round of its own
    assert other.duality_gap_ <= other.tol * other.objective_


def test_a_callback_stops_between_and_within_rounds(data):
    X, Y = data
    full = fit(X, Y)
    for n_calls in (1, 3, len(full.history_) - 2):
        seen = []
        model = fit(X, Y, callback=lambda point, n=n_calls, seen=seen: seen.append(point) or len(seen) == n)
        assert model.history_ == seen
        assert len(seen) == n_calls
        assert (model.rounds_[-1].objective, model.rounds_[-1].gap) == (seen[-1].primal, seen[-1].gap)
        assert model.cliques_ == full.cliques_[: len(model.cliques_)]
        assert_allclose(model.objective_, objective(model, X, Y, groups_of(model)), rtol=1e-9)
        assert model.predict(X).shape == Y.shape


def test_warm_start_goes_on_with_more_cliques(data):
    X, Y = data
    model = fit(X, Y, max_cliques=2, tol=1e-6, warm_start=True)
    first, before = list(model.cliques_), model.objective_
    model.fit(X, Y)
    assert model.cliques_ == first
    assert model.n_iter_ == 0
    model.set_params(max_cliques=4).fit(X, Y)
    assert model.cliques_[:2] == first
    assert len(model.cliques_) == 4
    assert model.objective_ < before
    assert [each.n_cliques for each in model.rounds_] == [2, 3, 4]
    assert model.history_[0].gap <= 1e-5 * model.history_[0].primal
    groups = [0, 1, 2, 3]
    optimum, _, _ = structured_optimum(X, Y, model.cliques_, groups, 0.05)
    assert_allclose(model.objective_, optimum, rtol=3e-6)
    model.set_params(alpha=0.1, max_cliques=0).fit(X, Y)  # what is there stays
    assert len(model.cliques_) == 4
    optimum, _, _ = structured_optimum(X, Y, model.cliques_, groups, 0.1)
    assert_allclose(model.objective_, optimum, rtol=3e-6)


def test_warm_start_with_smaller_cliques(rng):
    X, Y = make_coins(rng)
    model = fit(X, Y, alpha=0.05, clique_order=3, max_cliques=1, warm_start=True)
    assert model.cliques_ == [(0, 1, 3)]
    model.set_params(clique_order=2, max_cliques=2).fit(X, Y)
    assert model.cliques_[0] == (0, 1, 3)
    assert [len(clique) for clique in model.cliques_[1:]] == [2]


def test_warm_start_with_other_features(data):
    X, Y = data
    model = fit(X, Y, max_cliques=2, tol=1e-5, warm_start=True)
    cliques = list(model.cliques_)
    model.set_params(fit_intercept=False).fit(X[:, :2], Y)
    assert model.cliques_ == cliques
    optimum, _, _ = structured_optimum(X[:, :2], Y, cliques, [0, 1], 0.05, fit_intercept=False)
    assert_allclose(model.objective_, optimum, rtol=2e-5)


def test_too_few_passes_are_told(data):
    with pytest.warns(ConvergenceWarning, match=r"max_iter=2 in each round\).*gap .* > tolerance") as caught:
        model = fit(*data, max_iter=2, tol=1e-9, max_cliques=2)
    assert len(caught) == 1
    assert len(model.cliques_) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clique_order": 5}, "clique_order=5 is more than the number of labels of y, 4"),
        ({"clique_order": 1}, "'clique_order' parameter"),
        ({"clique_order": 13}, "'clique_order' parameter"),
        ({"clique_order": 2.5}, "'clique_order' parameter"),
        ({"cliques_per_round": 0}, "'cliques_per_round' parameter"),
        ({"max_cliques": -1}, "'max_cliques' parameter"),
        ({"max_cliques": "all"}, "'max_cliques' parameter"),
        ({"max_rounds": -1}, "'max_rounds' parameter"),
        ({"max_rounds": None}, "'max_rounds' parameter"),
        ({"round_tol": -0.1}, "'round_tol' parameter"),
        ({"round_tol": 1.5}, "'round_tol' parameter"),
        ({"alpha": 0}, "'alpha' parameter"),
        ({"inference": "best"}, "'inference' parameter"),
        ({"class_weight": [{0: 1}]}, "class_weight has 1 dicts, but y has 4 labels"),
    ],
)
def test_bad_parameters_are_named_and_nothing_remains(options, message, data):
    model = CGMClassifier(**options)
    with pytest.raises(ValueError, match=message):
        model.fit(*data)
    assert vars(model) == vars(CGMClassifier(**options))


def test_order_two_is_allowed_for_one_label(rng):
    X, Y = make(rng, n_labels=1)
    assert fit(X, Y).cliques_ == []
    with pytest.raises(ValueError, match="clique_order=3 is more than the number of labels of y, 1"):
        fit(X, Y, clique_order=3)


def test_a_graph_that_grows_too_dense_for_exact_inference(rng):
    X, Y = make(rng, n_labels=25)
    options = {"alpha": 0.1, "inference": "exact", "cliques_per_round": 300}
    model = CGMClassifier(**options)
    with pytest.raises(ValueError, match=r"inference='exact'.* width is 24, at most 22"):
        model.fit(X, Y)
    assert vars(model) == vars(CGMClassifier(**options))


def test_a_row_of_hardly_any_weight_changes_nothing(data):
    X, Y = data
    weight = np.ones(len(X))
    weight[3] = 1e-320
    tiny = CGMClassifier(0.05, max_cliques=2, random_state=0).fit(X, Y, sample_weight=weight)
    weight[3] = 0.0
    without = CGMClassifier(0.05, max_cliques=2, random_state=0).fit(X, Y, sample_weight=weight)
    assert tiny.cliques_ == without.cliques_
    assert np.isfinite([each.improvement for each in tiny.rounds_]).all()
