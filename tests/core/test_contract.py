"""The estimator contract, over every public learner: what scikit-learn's checks do not ask."""

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from comargin import (
    CGMClassifier,
    LSG21Classifier,
    M3LClassifier,
    PrBRClassifier,
    PrMLClassifier,
    RankCVMClassifier,
    RankSVMClassifier,
    StructuredSVMClassifier,
)


@dataclass(frozen=True)
class Learner:
    """A class with options that suit the small data here, called like the class itself."""

    cls: type
    options: dict
    cost: Callable  # parameters for a cost C of errors, of 120 rows
    same_sums: bool = False  # whether dense and sparse rows are summed in the same order
    ranks: bool = False  # labels against each other: one alone says nothing
    draws: bool = True  # whether random_state has a part in it
    weighs_classes: bool = True  # whether it has class_weight
    exact: float = 1e-10  # tolerance where answers are compared
    loose: dict = field(default_factory=lambda: {"tol": 0.1})  # options that take some iterations
    again: int = 0  # most iterations of a warm start from its own solution
    shares_slack: bool = False  # rows of a label set have the slack of the worst: labels may not be worth learning

    def __call__(self, **options):
        return self.cls(**(self.options | options))


LEARNERS = [
    Learner(M3LClassifier, {}, lambda C: {"C": C}, same_sums=True),
    Learner(StructuredSVMClassifier, {"alpha": 0.02}, lambda C: {"alpha": 1 / (120 * C)}),
    Learner(CGMClassifier, {"alpha": 0.02, "max_cliques": 3}, lambda C: {"alpha": 1 / (120 * C)}),
    Learner(RankCVMClassifier, {"kernel": "linear"}, lambda C: {"C": C}, ranks=True, weighs_classes=False),
    Learner(
        RankSVMClassifier,
        {"kernel": "linear"},
        lambda C: {"C": C},
        ranks=True,
        draws=False,
        weighs_classes=False,
        exact=1e-8,
        again=5,
    ),
    Learner(
        LSG21Classifier,
        {"alpha": 0.02},
        lambda C: {"alpha": 1 / C},
        draws=False,
        weighs_classes=False,
        loose={"tol": 1e-8},
    ),
    # Small costs: with rows of noise no label is worth learning at large ones, as equal label sets share one slack.
    Learner(
        PrBRClassifier,
        {"C": 0.01},
        lambda C: {"C": 0.01 * C},
        again=6,
        shares_slack=True,
        loose={"C": 1.0, "tol": 1e-2},
    ),
    Learner(
        PrMLClassifier,
        {"C": 0.01, "gamma1": 0.01},
        lambda C: {"C": 0.01 * C},
        exact=1e-7,
        again=10,
        shares_slack=True,
    ),
]


@pytest.fixture(params=LEARNERS, ids=lambda learner: learner.cls.__name__)
def learner(request):
    return request.param


@pytest.fixture
def data(rng):
    X = rng.normal(size=(120, 8))
    Y = (X @ rng.normal(size=(8, 5)) + rng.normal(size=(120, 5)) > 0.8).astype(int)
    Y[3] = 0  # a row without labels but one
    Y[:, 1] = 0  # no positives
    Y[:, 2] = 1  # only positives
    return X, Y


def comparable(learner, scores):
    """Scores as far as they are unique: a ranking fixes no constant of a row, nor the biases of one-sided labels."""
    return scores[:, [0, 3, 4]] - scores[:, [0, 3, 4]].mean(axis=1, keepdims=True) if learner.ranks else scores


# Every form of X, every form of Y, and both sparse: X and Y are read apart from each other.
FORMS = [
    *((form, np.asarray) for form in (np.float32, sp.csr_matrix, sp.csr_array, sp.csc_array, np.asfortranarray)),
    *((np.asarray, form) for form in (sp.csr_matrix, sp.csr_array, sp.coo_array, np.asfortranarray)),
    (sp.csr_matrix, sp.csr_matrix),
    (sp.csr_array, sp.csr_array),
]


def test_forms_of_input_give_one_answer(learner, data):
    X, Y = data
    X = X.astype(np.float32).astype(float)
    options, tolerance = ({}, 1e-8) if learner.same_sums else ({"tol": max(learner.exact, 1e-9)}, 1e-3)
    expected = learner(random_state=0, **options).fit(X, Y)
    expected_scores, expected_labels = comparable(learner, expected.decision_function(X)), expected.predict(X)
    for to_X, to_Y in FORMS:
        form = f"X: {to_X.__name__}, Y: {to_Y.__name__}"
        model = learner(random_state=0, **options).fit(to_X(X), to_Y(Y))
        scores = comparable(learner, model.decision_function(X))
        assert_allclose(scores, expected_scores, rtol=tolerance, atol=0.01 * tolerance, err_msg=form)
        predicted = model.predict(to_X(X))
        assert sp.issparse(predicted) == sp.issparse(to_Y(Y)), form
        predicted = predicted.toarray() if sp.issparse(predicted) else predicted
        # Scores of labels not worth learning are rounding, and so are their signs.
        clear = np.abs(expected.decision_function(X)) > 1e-6 if learner.shares_slack else slice(None)
        assert_array_equal(predicted[clear], expected_labels[clear], err_msg=form)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.int64, np.float64])
def test_dtypes_of_y(learner, data, dtype):
    X, Y = data
    assert_array_equal(
        learner(random_state=0).fit(X, Y.astype(dtype)).predict(X),
        learner(random_state=0).fit(X, Y).predict(X),
    )


def test_int64_sparse_indices_are_accepted(learner, data):
    X, Y = data
    wide = sp.csr_array(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert learner(random_state=0).fit(wide, Y).predict(wide).shape == Y.shape


def test_unsorted_duplicates_are_summed_in_a_copy(learner, data):
    X, Y = data
    messy = sp.csr_array((np.ones(4), np.array([2, 0, 0, 1]), np.array([0, 3, 4])), shape=(2, 8))
    X = sp.csr_array(sp.vstack([sp.csr_array(X), messy]))
    X.has_canonical_format = False
    before = X.copy()
    Y = np.vstack([Y, Y[:2]])
    model = learner(random_state=0, tol=learner.exact).fit(X, Y)
    dense = learner(random_state=0, tol=learner.exact).fit(X.toarray(), Y)
    assert_allclose(model.coef_, dense.coef_, rtol=1e-4, atol=1e-6)
    assert_array_equal(X.indices, before.indices)
    assert_array_equal(X.data, before.data)


def test_certificate_and_history(learner, data):
    X, Y = data
    model = learner(random_state=0, tol=1e-5).fit(X, Y)
    assert model.duality_gap_ == pytest.approx(model.objective_ - model.dual_objective_)
    assert 0 <= model.duality_gap_ <= 1e-5 * model.objective_
    assert model.history_[-1].n_iter == model.n_iter_
    assert [c.n_iter for c in model.history_] == sorted(c.n_iter for c in model.history_)
    assert all(c.primal >= c.dual - 1e-9 * abs(c.primal) for c in model.history_)


def test_shapes_and_names(learner, data):
    pd = pytest.importorskip("pandas")
    X, Y = data
    frame = pd.DataFrame(X, columns=[f"f{j}" for j in range(8)])
    model = learner(random_state=0).fit(frame, pd.DataFrame(Y))
    assert list(model.feature_names_in_) == list(frame.columns)
    assert model.n_features_in_ == 8
    assert_array_equal(model.classes_, np.arange(5))
    assert model.coef_.shape == (5, 8)
    assert model.intercept_.shape == (5,)
    assert model.decision_function(frame).shape == (120, 5)


def test_one_sided_labels(learner, data):
    X, Y = data
    predicted = learner(random_state=0, **learner.cost(100.0)).fit(X, Y).predict(X)
    assert not predicted[:, 1].any()
    assert predicted[:, 2].all()


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
def test_one_label_column_stays_two_dimensional(learner, data):
    X, Y = data
    if learner.ranks:
        with pytest.raises(ValueError, match=r"some label is on and another is off. y has 1 label"):
            learner().fit(X, Y[:, [0]])
        return
    model = learner(random_state=0).fit(X, Y[:, [0]])
    assert model.predict(X).shape == (120, 1)
    assert model.decision_function(X).shape == (120, 1)


@pytest.mark.usefixtures("threaded_blas")
def test_same_result_for_any_n_jobs(learner, rng):
    X = sp.random_array((80, 30), density=0.3, rng=rng, format="csr")
    Y = (rng.random((80, 70)) < 0.2).astype(int)
    one = learner(random_state=3, **learner.loose, n_jobs=1).fit(X, Y)
    assert one.n_iter_ > 1
    for n_jobs in (2, 4, -1):
        model = learner(random_state=3, **learner.loose, n_jobs=n_jobs).fit(X, Y)
        assert_array_equal(model.coef_, one.coef_)


def test_random_state_fixes_the_result(learner, data):
    X, Y = data
    loose = {"tol": 1e-1}
    a, b, c = (learner(random_state=s, **loose).fit(X, Y).coef_ for s in (0, 0, 1))
    assert_array_equal(a, b)
    assert np.array_equal(a, c) != learner.draws


def test_sample_weight_two_is_twice_the_row(learner, data):
    X, Y = data
    weight = np.ones(120)
    weight[:40] = 2.0
    weighted = learner(random_state=0, tol=learner.exact).fit(X, Y, sample_weight=weight)
    repeated = learner(random_state=0, tol=learner.exact).fit(np.vstack([X, X[:40]]), np.vstack([Y, Y[:40]]))
    assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-4, atol=1e-5)
    assert_allclose(weighted.objective_, repeated.objective_, rtol=max(1e-9, 2 * learner.exact))


@pytest.mark.filterwarnings("ignore:.*all predictors are zero:UserWarning")
def test_class_weight_forms(learner, data):
    X, Y = data
    if not learner.weighs_classes:
        assert "class_weight" not in learner().get_params()
        return
    each = learner(random_state=0, class_weight=[{0: 1, 1: 3}] * 5).fit(X, Y)
    same = learner(random_state=0, class_weight={1: 3}).fit(X, Y)
    assert_array_equal(each.coef_, same.coef_)
    plain = learner(random_state=0).fit(X, Y)
    if learner.shares_slack:  # the worst row of a label set counts, not how many there are
        assert not np.allclose(same.coef_, plain.coef_, rtol=1e-2)
    else:
        assert same.predict(X)[:, 0].sum() > plain.predict(X)[:, 0].sum()
    share = Y[:, 0].mean()
    balanced = learner(random_state=0, class_weight="balanced").fit(X, Y[:, [0]])
    by_hand = learner(random_state=0, class_weight={0: 0.5 / (1 - share), 1: 0.5 / share}).fit(X, Y[:, [0]])
    assert_allclose(balanced.coef_, by_hand.coef_, rtol=1e-9)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tol": -1.0}, "tol"),
        ({"max_iter": 0}, "max_iter"),
        ({"C": 0.0}, "C"),
        ({"C": "big"}, "C"),
        ({"class_weight": "equal"}, "class_weight"),
        ({"class_weight": [{0: 1}]}, "class_weight has 1 dicts, but y has 5 labels"),
        ({"class_weight": {2: 1.0}}, r"class_weight must be a dict .* one per label"),
        ({"class_weight": {1: -1.0}}, "non-negative"),
        ({"callback": 3}, "callback"),
    ],
)
def test_bad_parameters_are_named(data, options, message):
    X, Y = data
    with pytest.raises(ValueError, match=message):
        M3LClassifier(**options).fit(X, Y)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, Y: (X, Y[:-1]), "inconsistent"),
        (lambda X, Y: (X, Y * 2), r"entries in \{0, 1\}"),
        (lambda X, Y: (X, np.where(Y > 0, "on", "off")), r"entries in \{0, 1\}"),
        (lambda X, Y: (X, Y[:, :0]), "no labels"),
        (lambda X, Y: (X, Y[:, :, None]), "dimensions|dim 3"),
        (lambda X, Y: (X, np.where(Y > 0, np.inf, 0.0)), "infinity"),
        (lambda X, Y: (np.where(X > 1, np.nan, X), Y), "NaN"),
        (lambda X, Y: (np.where(X > 1, np.inf, X), Y), "infinity"),
        (lambda X, Y: (X, None), "requires y"),
    ],
)
def test_bad_data_is_named_and_nothing_remains(learner, data, change, message):
    X, Y = change(*data)
    model = learner()
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)
    assert vars(model) == vars(learner())


@pytest.mark.parametrize("weight", [np.ones(3), -np.ones(120), np.zeros(120), np.full(120, np.nan), np.ones((120, 1))])
def test_bad_sample_weight_is_named(learner, data, weight):
    with pytest.raises(ValueError, match="sample_weight"):
        learner().fit(*data, sample_weight=weight)


def test_failed_refit_keeps_the_fit_before(learner, data):
    X, Y = data
    model = learner(random_state=0).fit(X, Y)
    before = dict(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((4, 3), np.nan), np.zeros((4, 2), dtype=int))
    assert vars(model) == before


def test_convergence_warning_has_numbers_and_points_here(learner, data):
    with pytest.warns(
        ConvergenceWarning, match=r"max_iter=1( in each round)?\).*gap .* > tolerance .*Increase max_iter"
    ) as caught:
        learner(random_state=0, tol=1e-9, max_iter=1).fit(*data)
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_silent_when_converged(learner, data, capfd):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner(random_state=0).fit(*data)
    assert capfd.readouterr() == ("", "")


def test_verbose_shows_the_gap(learner, data, capfd):
    learner(random_state=0, verbose=1).fit(*data)
    assert "gap" in capfd.readouterr().err


def test_callback_stops_with_what_there_is(learner, data):
    seen = []
    model = learner(random_state=0, tol=0.0, callback=lambda point: seen.append(point) or len(seen) == 2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.fit(*data)
    assert model.history_ == seen
    assert model.duality_gap_ > 0
    assert model.predict(data[0]).shape == data[1].shape


def test_callback_error_reaches_the_caller_and_nothing_remains(learner, data):
    def callback(point):
        raise RuntimeError("from the callback")

    model = learner(callback=callback)
    with pytest.raises(RuntimeError, match="from the callback"):
        model.fit(*data)
    assert not hasattr(model, "classes_")


def test_warm_start_along_C(learner, data):
    X, Y = data
    model = learner(**learner.cost(0.5), random_state=0, warm_start=True, tol=1e-6).fit(X, Y)
    model.fit(X, Y)
    assert model.n_iter_ <= learner.again  # next to nothing to do at the optimum
    model.set_params(**learner.cost(0.45)).fit(X, Y)
    cold = learner(**learner.cost(0.45), random_state=0, tol=1e-6).fit(X, Y)
    assert_allclose(model.objective_, cold.objective_, rtol=1e-5)
    assert model.history_[0].gap < 0.5 * cold.history_[0].gap
    with pytest.raises(ValueError, match="warm_start=True continues on the same rows"):
        model.fit(X[:-1], Y[:-1])


def test_pickle_and_clone(learner, data):
    X, Y = data
    model = learner(random_state=0).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.predict(X))
    assert_array_equal(clone(model).fit(X, Y).coef_, model.coef_)


def test_inside_pipeline_and_grid_search(learner, data):
    X, Y = data
    search = GridSearchCV(
        make_pipeline(StandardScaler(), learner(random_state=0)),
        {f"{learner.cls.__name__.lower()}__{name}": [value, 2 * value] for name, value in learner.cost(0.5).items()},
        cv=3,
        scoring="f1_micro",
    )
    assert search.fit(X, Y).best_score_ > 0.5


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT")
def test_ctrl_c_ends_a_long_fit_and_leaves_everything_unharmed(tmp_path):
    script = tmp_path / "long_fit.py"
    script.write_text(
        textwrap.dedent(
            """
            import numpy as np
            from comargin import M3LClassifier

            rng = np.random.default_rng(0)
            X = rng.normal(size=(3000, 40))
            Y = (rng.random((3000, 40)) < 0.3).astype(int)
            copies = X.copy(), Y.copy()
            ready = lambda point: print("running", flush=True)
            model = M3LClassifier(C=1000.0, tol=0.0, max_iter=10**9, n_jobs=2, random_state=0, callback=ready)
            try:
                model.fit(X, Y)
            except KeyboardInterrupt:
                assert (X == copies[0]).all() and (Y == copies[1]).all()
                assert not hasattr(model, "classes_") and not hasattr(model, "n_features_in_")
                print("interrupted", flush=True)
            """
        )
    )
    process = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline().strip() == "running"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert out.splitlines()[-1] == "interrupted", err
    assert process.returncode == 0
