"""AutoClassifier: the right model wins, the blend is the optimum of its problem, noise chooses nothing."""

import warnings

import cvxpy as cp
import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import expit, logit
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from comargin import AutoClassifier, DecisionClassifierCV, M3LClassifier
from comargin.core.executor import Threads, using
from comargin.core.memory import Memory
from comargin.decisions import BlendedClassifier, LabelCalibrator
from comargin.decisions.blending import blend_weights, held_out_log_odds, row_losses
from comargin.metrics import evaluate, log_loss
from comargin.models import ModelRecipe
from comargin.search import auto
from comargin.search._candidates import Candidate, candidates_for, suited
from comargin.search._trials import Contender, Tournament, Trial
from comargin.search.budget import parse_budget

LINEAR = ModelRecipe("linear", M3LClassifier(loss="logistic"), (("C", (0.01, 0.1, 1.0)),))
TREES = ModelRecipe("trees", RandomForestClassifier(15), (("min_samples_leaf", (1, 2, 5)),))
KERNEL = ModelRecipe("kernel", M3LClassifier(kernel="rbf", loss="logistic"), (("C", (1.0, 10.0)),))
BOTH = [LINEAR, TREES]


def lines(rng, n=240, noise=1.5):
    """Labels that are noisy half-spaces."""
    X = rng.normal(size=(n, 5))
    return X, (X @ rng.normal(size=(5, 3)) + noise * rng.normal(size=(n, 3)) > 0.3).astype(int)


def rings(rng, n=240):
    """Labels that are rings around the origin: no linear model does better than their rates."""
    X = rng.normal(size=(n, 2))
    radius = np.hypot(*X.T)
    return X, np.column_stack([radius < 0.8, np.abs(radius - 1.2) < 0.4, radius > 1.5]).astype(int)


def crossed(rng, n=240):
    """Half-spaces, of which trees see one better: its sign changes with a product."""
    X, Y = lines(rng, n)
    Y[:, 0] ^= X[:, 0] * X[:, 1] > 0.0
    return X, Y


@pytest.fixture
def data(rng):
    return crossed(rng)


def drawn_log_odds(rng, n=80, n_labels=4, k=3):
    truth = rng.normal(size=(n, n_labels))
    Y = sp.csr_array((rng.random(truth.shape) < expit(truth)).astype(float))
    return [truth + scale * rng.normal(size=truth.shape) for scale in np.linspace(0.5, 1.5, k)], Y


EXACT = M3LClassifier(loss="logistic", tol=1e-12, max_iter=10_000, random_state=0)


@parametrize_with_checks(
    [AutoClassifier([("linear", EXACT)], aim="hamming_loss")],
    expected_failed_checks=lambda estimator: {
        "check_sample_weight_equivalence_on_sparse_data": "TF-IDF counts rows, not their weights"
    },
)
def test_sklearn_checks(estimator, check):
    check(estimator)


@parametrize_with_checks([BlendedClassifier([("linear", EXACT)])])
def test_sklearn_checks_of_a_blend(estimator, check):
    check(estimator)


def test_the_only_model_that_works_is_taken(rng):
    X, Y = rings(rng)
    model = AutoClassifier([LINEAR, KERNEL], random_state=0).fit(X, Y)
    assert [name for name, _ in model.members_] == ["kernel"]
    linear = DecisionClassifierCV(M3LClassifier(loss="logistic")).fit(X, Y)
    X, Y = rings(np.random.default_rng(1), 500)
    assert log_loss(Y, model.predict_proba(X)) < 0.5 * log_loss(Y, linear.predict_proba(X))


def test_a_single_model_is_the_one_that_is_named(data):
    X, Y = data
    model = AutoClassifier([LINEAR], budget="3 fits", random_state=3).fit(X, Y)
    named = make_pipeline(StandardScaler(), M3LClassifier(0.1, loss="logistic", random_state=3))
    named = DecisionClassifierCV(named, random_state=3).fit(X, Y)
    assert_array_equal(model.estimator_.decision_function(X), named.estimator_.decision_function(X))
    # Once the features are ready, decisions are the same too: only the scaling of the folds differs.
    Z = StandardScaler().fit_transform(X)
    again = DecisionClassifierCV(named.estimator_[-1], random_state=3).fit(Z, Y)
    assert_allclose(model.predict_proba(X), again.predict_proba(Z), rtol=1e-9)


def test_weights_are_the_optimum_of_their_problem(rng):
    log_odds, Y = drawn_log_odds(rng)
    weight = rng.integers(1, 4, size=Y.shape[0]).astype(float)
    w = cp.Variable(3, nonneg=True)
    eta = sum(w[k] * z for k, z in enumerate(log_odds))
    loss = cp.sum(cp.multiply(weight[:, None], cp.logistic(eta) - cp.multiply(Y.toarray(), eta)))
    problem = cp.Problem(cp.Minimize(loss), [cp.sum(w) == 1])
    problem.solve(solver=cp.CLARABEL)
    found = blend_weights(log_odds, Y, weight)
    assert np.count_nonzero(found > 0.01) > 1  # no corner
    assert found.min() >= 0.0
    assert found.sum() == pytest.approx(1.0)
    mixed = sum(share * z for share, z in zip(found, log_odds, strict=True))
    assert weight @ row_losses(mixed, Y) == pytest.approx(problem.value, rel=1e-7)


def test_row_losses_are_those_of_the_probabilities(rng):
    (log_odds, *_), Y = drawn_log_odds(rng)
    assert row_losses(log_odds, Y).mean() / Y.shape[1] == pytest.approx(log_loss(Y, expit(log_odds)))
    assert_array_equal(blend_weights([log_odds], Y), [1.0])


def test_a_blend_is_the_mean_of_its_members(data):
    X, Y = data
    members = [("linear", M3LClassifier(random_state=0)), ("trees", RandomForestClassifier(15, random_state=0))]
    model = BlendedClassifier(members).fit(X, Y)
    by_hand = sum(share * z for share, z in zip(model.weights_, model.log_odds(X), strict=True))
    assert_allclose(model.decision_function(X), by_hand)
    assert_array_equal(model.predict(X), by_hand > 0.0)
    assert model.n_features_in_ == 5
    twice = BlendedClassifier(members[:1]).fit(X, Y[:, 0])
    assert twice.predict(X).shape == twice.decision_function(X).shape == (len(X),)


def test_members_and_weights_are_those_of_the_trials(rng):
    X, Y = crossed(rng, 400)
    model = AutoClassifier(BOTH, random_state=0).fit(X, Y)
    assert isinstance(model.estimator_[-1], BlendedClassifier)
    assert {trial.model: trial.weight for trial in model.trials_ if trial.weight} == {
        name: pytest.approx(share) for (name, _), share in zip(model.members_, model.weights_, strict=True)
    }
    for name, member in model.members_:
        trial = next(trial for trial in model.trials_ if trial.weight and trial.model == name)
        assert trial.parameters.items() <= member.get_params().items()
    assert sum(trial.weight for trial in model.trials_) == pytest.approx(1.0)
    best = {name: min(t.log_loss for t in model.trials_ if t.model == name) for name in ("linear", "trees")}
    assert all(trial.log_loss == best[trial.model] for trial in model.trials_ if trial.weight)


def test_noise_promises_nothing(rng):
    X, Y = rng.normal(size=(150, 4)), rng.integers(0, 2, size=(150, 3))
    model = AutoClassifier([LINEAR, ("neighbours", KNeighborsClassifier(40))], tune=False, random_state=0).fit(X, Y)
    X, Y = rng.normal(size=(2000, 4)), rng.integers(0, 2, size=(2000, 3))
    assert log_loss(Y, model.predict_proba(X)) < np.log(2.0) + 0.03


def test_curves_of_other_rows_do_not_flatter_noise(rng):
    scores, Y = rng.normal(size=(300, 4)), sp.csr_array(rng.integers(0, 2, size=(300, 4)).astype(float))
    flattered = logit(LabelCalibrator().fit(scores, Y).probabilities(scores))
    assert row_losses(flattered, Y).mean() / 4 < np.log(2.0) < row_losses(held_out_log_odds(scores, Y), Y).mean() / 4


def test_a_blend_is_calibrated_once(rng):
    X, Y = crossed(rng, 400)
    blend = AutoClassifier(BOTH, random_state=0).fit(X, Y)
    assert len(blend.members_) == 2
    p = expit(blend.estimator_.decision_function(X))
    assert_allclose(blend.predict_proba(X), blend.rule_.sets_for_.sets_.marginals(p))
    single = AutoClassifier([LINEAR], tune=False, random_state=0).fit(X, Y)
    assert not single.rule_.log_odds


def test_a_member_with_a_tenth_of_the_largest_weight_is_left_out(rng):
    (good, other, _), Y = drawn_log_odds(rng, n=400)
    useless = 3.0 * rng.normal(size=good.shape)
    judged = Tournament(lambda: None, Y, np.ones(400), "micro_f1", Memory(), print, [])
    known = [
        Contender(Candidate(name, None, ()), log_odds=z) for name, z in (("u", useless), ("g", good), ("o", other))
    ]
    members, weights = judged.blend(known)
    assert [one.candidate.name for one in members] == ["g", "o"]
    assert_allclose(weights, blend_weights([good, other], Y))


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_threads_change_nothing(n_jobs, data):
    X, Y = data
    one = AutoClassifier(BOTH, random_state=0).fit(X, Y)
    with using(Threads(n_jobs)):
        other = AutoClassifier(BOTH, random_state=0, n_jobs=n_jobs).fit(X, Y)
    assert [timeless(trial) for trial in one.trials_] == [timeless(trial) for trial in other.trials_]
    assert_array_equal(one.predict_proba(X), other.predict_proba(X))


def timeless(trial):
    return {**vars(trial), "seconds": 0.0}


def test_a_budget_in_fits_is_a_beginning_of_the_search(data):
    X, Y = data
    whole = AutoClassifier(BOTH, random_state=0).fit(X, Y).trials_
    assert len(whole) > 3
    assert [trial.model for trial in whole[:2]] == ["linear", "trees"]
    for budget, n_trials in (("1 fit", 1), ("6 fits", 2), ("11 fits", 3)):
        model = AutoClassifier(BOTH, budget=budget, random_state=0).fit(X, Y)
        assert len(model.trials_) == n_trials
        for trial, same in zip(model.trials_, whole, strict=False):
            assert {**timeless(trial), "weight": 0.0} == {**timeless(same), "weight": 0.0}
        assert model.budget_ == f"{3 * n_trials} fits"


def test_a_budget_in_time_can_be_repeated_in_fits(data):
    X, Y = data
    short = AutoClassifier(BOTH, budget=1e-9, random_state=0).fit(X, Y)
    assert len(short.trials_) == 1  # the first trial is finished in any case
    again = AutoClassifier(BOTH, budget=short.budget_, random_state=0).fit(X, Y)
    assert_array_equal(short.predict_proba(X), again.predict_proba(X))
    assert len(AutoClassifier(BOTH, budget="1h", random_state=0).fit(X, Y).trials_) > 3


def test_without_tuning_every_candidate_is_tried_once(data):
    model = AutoClassifier(BOTH, tune=False, random_state=0).fit(*data)
    assert [trial.parameters for trial in model.trials_] == [{"C": 0.1}, {"min_samples_leaf": 2}]


@pytest.mark.parametrize("budget", ["soon", "", "5 apples", "0 fits", "2.5 fits", "-3s", 0, -1.0, np.inf, True, [3]])
def test_budgets_that_make_no_sense(budget, data):
    with pytest.raises(ValueError, match="budget must be a time"):
        AutoClassifier(budget=budget).fit(*data)


def test_budgets_in_all_units():
    assert [parse_budget(text).seconds for text in ("90s", "5m", "1h", "1.5 m", 2)] == [90.0, 300.0, 3600.0, 90.0, 2.0]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cv": "prefit"}, "cv must be an int"),
        ({"tune": 1}, "tune must be"),
        ({"aim": "f1_micro"}, "did you mean"),
        ({"candidates": ["m3k"]}, "no model 'm3k'"),
        ({"candidates": [("rule", 3)]}, "classifier"),
    ],
)
def test_bad_parameters(params, message, data):
    with pytest.raises((ValueError, TypeError), match=message):
        AutoClassifier(**{"candidates": [LINEAR], **params}).fit(*data)


def test_many_rows_begin_with_some(rng, monkeypatch):
    monkeypatch.setattr(auto, "FIRST_ROWS", 100)
    X, Y = lines(rng, 300)
    model = AutoClassifier(BOTH, random_state=0).fit(X, Y)
    last = [trial for trial in model.trials_ if trial.rows == 300]
    assert {trial.rows for trial in model.trials_} == {100, 300}
    assert 1 <= len(last) <= 2
    assert all(trial.rows == 300 for trial in model.trials_ if trial.weight)
    assert model.budget_ == f"{3 * (len(model.trials_) - len(last))} fits"
    assert evaluate(Y, model.predict_proba(X), model.predict(X))["micro_f1"] > 0.6


def test_weights_of_rows_reach_models_and_decisions(data):
    X, Y = data
    weight = np.ones(len(X))
    plain = AutoClassifier([LINEAR], budget="3 fits", random_state=0).fit(X, Y)
    same = AutoClassifier([LINEAR], budget="3 fits", random_state=0).fit(X, Y, sample_weight=weight)
    assert_allclose(plain.predict_proba(X), same.predict_proba(X), atol=1e-6)
    weight[Y[:, 0] == 1] = 20.0
    other = AutoClassifier([("n", KNeighborsClassifier()), LINEAR], budget="3 fits", random_state=0)
    other.fit(X, Y, sample_weight=weight)
    assert [name for name, _ in other.members_] == ["linear"]  # neighbours take no weights
    assert other.predict_proba(X)[:, 0].mean() > plain.predict_proba(X)[:, 0].mean() + 0.2
    with pytest.raises(ValueError, match="no candidate takes it"):
        AutoClassifier([("n", KNeighborsClassifier())]).fit(X, Y, sample_weight=weight)


def test_texts_and_sparse_counts(rng):
    words = np.array(["sea", "sky", "city", "night", "wind", "road"])
    chosen = rng.random((120, 6)) < 0.4
    texts = [" ".join([*words[row], "the"]) for row in chosen]
    Y = sp.csr_array((chosen[:, :2] & ~chosen[:, 2:4]).astype(int))
    model = AutoClassifier(BOTH, tune=False, random_state=0).fit(texts, Y)
    assert sp.issparse(model.predict(texts[:5]))
    assert_array_equal(AutoClassifier([LINEAR], tune=False).fit(texts, Y).predict(texts).toarray(), Y.toarray())
    counts = sp.csr_array(chosen.astype(float))
    assert AutoClassifier([LINEAR], tune=False).fit(counts, Y).predict(counts).shape == Y.shape


def test_a_promise_is_certified_on_other_rows(rng):
    X, Y = lines(rng, 400)
    model = AutoClassifier(BOTH, tune=False, guarantee="recall >= 0.6", random_state=0).fit(X, Y)
    assert model.trials_[0].rows == 280
    assert model.promise_.cuts_.shape == (3,)


def test_candidates_suit_the_data(rng):
    assert suited(500, 6, False) == ("m3l", "knn", "forest", "extra-trees", "m3l-rbf")
    assert suited(50_000, 6, False) == ("m3l", "knn")
    assert suited(500, 6, True) == ("m3l", "knn", "extra-trees", "m3l-rbf")
    assert suited(5000, 100, True) == ("m3l", "knn", "m3l-rbf")
    assert suited(200_000, 6, False) == ("m3l",)
    assert suited(500, 1, False) == ("m3l", "m3l-rbf")
    assert suited(5000, 1000, False) == ("m3l", "knn", "m3l-rbf")
    X = rng.normal(size=(20, 3))
    for n_labels, searched in ((3, ["C", "label_correlation"]), (1001, ["C"])):
        (candidate,) = candidates_for(["m3l"], X, sp.csr_array((20, n_labels), dtype=np.int8), 7, False)
        assert [name for name, _ in candidate.grid] == searched
        assert candidate.estimator.random_state == 7
    for features, searched in ((X, (1, 2, 5, 10)), (sp.csr_array(X), (2,))):
        (trees,) = candidates_for(["extra-trees"], features, sp.csr_array((20, 3), dtype=np.int8), 7, False)
        assert trees.grid == (("min_samples_leaf", searched),)
    with pytest.raises(ValueError, match="neither decision_function"):
        candidates_for([("none", OnlyLabels())], X, sp.csr_array((20, 3), dtype=np.int8), 0, False)


class OnlyLabels(OneVsRestClassifier):
    decision_function = predict_proba = property()

    def __init__(self, estimator=None):
        super().__init__(estimator or LinearSVC())


def test_rare_labels_warn_once_at_most(data):
    X, Y = data
    Y[:, 2] = 0
    Y[5, 2] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = AutoClassifier(BOTH, tune=False, random_state=0).fit(X, Y)
    assert model.predict_proba(X)[:, 2].max() < 0.5


def test_a_trial_is_its_fields():
    trial = Trial("m3l", {"C": 0.1, "label_correlation": None}, 10, 1.0, 0.5, 2.0)
    assert trial.text == "C = 0.1, label_correlation = None"
    assert clone(AutoClassifier([LINEAR], budget="3 fits")).budget == "3 fits"
    assert LabelCalibrator().get_params() == {}
