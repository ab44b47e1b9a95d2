"""Zero-shot classification: the rule by hand and by brute force, where R goes, what is refused, and how it fits in."""

import pickle
import re

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier
from sklearn.metrics import accuracy_score, top_k_accuracy_score
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.multiclass import check_classification_targets

from comargin import M3LClassifier, ZeroShotClassifier
from comargin.decisions import ThresholdClassifierCV

SEEN = np.array([[1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]])
UNSEEN = np.array([[1, 1, 0, 0], [0, 1, 1, 1], [1, 0, 0, 1]])
NAMES = ["owl", "bee", "carp"]


def m3l(**params):
    return M3LClassifier(**{"C": 0.02, "random_state": 0, **params})


class Given(ClassifierMixin, BaseEstimator):
    """Scores are the features; for rules computed by hand."""

    def fit(self, X, y, sample_weight=None):
        self.n_features_in_ = np.shape(X)[1]
        self.seen_y_ = y
        self.seen_weight_ = sample_weight
        return self

    def decision_function(self, X):
        return np.asarray(X, dtype=float)

    def predict(self, X):
        return (self.decision_function(X) > 0).astype(int)


@pytest.fixture
def data(rng):
    """Rows of the seen classes, and rows of the unseen ones with their class numbers."""
    mixing = rng.normal(size=(4, 9))

    def rows(signatures, n):
        classes = rng.integers(0, len(signatures), n)
        return (2 * signatures[classes] - 1) @ mixing + 0.7 * rng.normal(size=(n, 9)), classes

    X, seen = rows(SEEN, 120)
    X_new, unseen = rows(UNSEEN, 60)
    return X, SEEN[seen], X_new, unseen


# ---------------------------------------------------------------- the rule


def test_nearest_by_hand():
    model = ZeroShotClassifier(Given(), [[1, 1, 0], [0, 0, 1], [0, 0, 0]], decoding="nearest").fit(
        np.zeros((2, 3)), np.zeros((2, 3))
    )
    scores = model.decision_function([[3.0, -1.0, 1.0], [-3.0, 0.0, 6.0], [0.0, 0.0, 0.0]])
    assert_allclose(scores, [[1 / 3, -1 / 3, -1], [-3, 3, -1], [0, 0, 0]])
    assert_array_equal(model.predict([[3.0, -1.0, 1.0], [-3.0, 0.0, 6.0], [0.0, 0.0, 0.0]]), [0, 1, 0])  # a tie: first


def test_standardized_by_hand():
    X = np.array([[0.0, 1.0, 1.0], [5.0, -2.0, 0.0]])
    signatures = [[1, 1, 0], [1, 0, 0], [0, 0, 1]]
    agreement = np.array([[0.0, -2.0, 0.0], [3.0, 7.0, -3.0]]) / 3
    model = ZeroShotClassifier(Given(), signatures).fit(X, np.zeros((2, 3)))
    assert_allclose(model.score_mean_, agreement.mean(axis=0))
    assert_allclose(model.score_scale_, np.abs(agreement[1] - agreement[0]) / 2)
    # Two rows are one deviation below and above, whatever the class.
    assert_allclose(model.decision_function(X), [[-1, -1, 1], [1, 1, -1]])
    row = [[2.0, 2.0, 0.0]]  # agreements 4/3, 0, -4/3
    assert_allclose(model.decision_function(row), [[(4 - 1.5) / 1.5, (0 - 2.5) / 4.5, (-4 + 1.5) / 1.5]])
    assert_array_equal(model.predict(row), [0])


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(1, 5))
def test_nearest_is_the_nearest_signature(seed, n_labels, n_classes):
    """Brute force: the least Euclidean distance between scores and signs, and any positive scale of the scores."""
    rng = np.random.default_rng(seed)
    signatures = np.unique(rng.integers(0, 2, (n_classes, n_labels)), axis=0)
    X = rng.normal(size=(7, n_labels))
    model = ZeroShotClassifier(Given(), signatures, decoding="nearest").fit(X, X > 0)
    for x, label in zip(X, model.predict(X), strict=True):
        distances = [sum((f - (1 if on else -1)) ** 2 for f, on in zip(x, s, strict=True)) for s in signatures]
        assert distances[label] == pytest.approx(min(distances))
    assert_array_equal(model.predict(8.0 * X), model.predict(X))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 6), st.booleans())
def test_standardized_by_loops(seed, n_labels, weighted):
    rng = np.random.default_rng(seed)
    signatures = np.unique(rng.integers(0, 2, (4, n_labels)), axis=0)
    X, X_new = rng.normal(size=(9, n_labels)), rng.normal(size=(5, n_labels))
    weight = rng.uniform(0.1, 3.0, 9) if weighted else np.ones(9)
    model = ZeroShotClassifier(Given(), signatures).fit(X, X > 0, sample_weight=weight if weighted else None)
    expected = np.empty((5, len(signatures)))
    for c, signature in enumerate(signatures):

        def agreement(x, signature=signature):
            return sum(f if on else -f for f, on in zip(x, signature, strict=True)) / n_labels

        seen = [agreement(x) for x in X]
        mean = sum(w * a for w, a in zip(weight, seen, strict=True)) / weight.sum()
        variance = sum(w * (a - mean) ** 2 for w, a in zip(weight, seen, strict=True)) / weight.sum()
        expected[:, c] = [(agreement(x) - mean) / variance**0.5 for x in X_new]
    scores = model.decision_function(X_new)
    assert_allclose(scores, expected[:, 1] - expected[:, 0] if len(signatures) == 2 else expected, rtol=1e-9)
    assert_array_equal(model.predict(X_new), expected.argmax(axis=1))
    # Neither the unit of the scores nor a shift of one attribute's scores matters.
    moved = ZeroShotClassifier(Given(), signatures).fit(100 * X + 7, X > 0, sample_weight=weight)
    assert_allclose(moved.decision_function(100 * X_new + 7), scores, rtol=1e-7, atol=1e-9)


def test_an_attribute_of_most_training_rows_does_not_decide(rng):
    """Scores of attribute 0 are high for every row: nearest gives all rows to the class that has it."""
    signs = rng.choice([-1.0, 1.0], size=40)
    X = np.column_stack([np.full(40, 5.0), signs]) + 0.1 * rng.normal(size=(40, 2))
    signatures = [[1, 0], [0, 1]]
    nearest = ZeroShotClassifier(Given(), signatures, decoding="nearest").fit(X, X > 0)
    assert_array_equal(nearest.predict(X), 0)
    standardized = ZeroShotClassifier(Given(), signatures).fit(X, X > 0)
    assert_array_equal(standardized.predict(X), (signs > 0).astype(int))


def test_zero_weight_is_absence():
    X = np.random.default_rng(0).normal(size=(12, 3))
    weight = np.repeat([1.0, 0.0], 6)
    signatures = [[1, 1, 0], [0, 0, 1], [0, 1, 0]]
    model = ZeroShotClassifier(Given(), signatures).fit(X, X > 0, sample_weight=weight)
    expected = ZeroShotClassifier(Given(), signatures).fit(X[:6], X[:6] > 0)
    assert_allclose(model.decision_function(X), expected.decision_function(X))
    assert_array_equal(model.estimator_.seen_weight_, weight)


@pytest.mark.parametrize("level", [0.0, 0.1, 1e9])
def test_agreements_without_spread_are_not_blown_up(level):
    X = np.full((7, 3), level)
    model = ZeroShotClassifier(Given(), [[1, 1, 1], [0, 0, 1]]).fit(X, X > 0)
    assert_array_equal(model.score_scale_, 1.0)
    assert_allclose(model.decision_function(X), 0.0, atol=1e-6)
    one_row = ZeroShotClassifier(Given(), [[1, 1, 1], [0, 0, 1]]).fit(X[:1], X[:1] > 0)
    assert_array_equal(one_row.score_scale_, 1.0)


@pytest.mark.parametrize("decoding", ["nearest", "standardized"])
def test_two_classes_have_one_score_as_in_scikit_learn(decoding, data):
    X, Y, X_new, _ = data
    model = ZeroShotClassifier(m3l(), UNSEEN[:2], decoding=decoding).fit(X, Y)
    difference = model.decision_function(X_new)
    assert difference.shape == (60,)
    assert_array_equal(model.predict(X_new), (difference > 0).astype(int))
    both = (model.estimator_.decision_function(X_new) @ (2 * UNSEEN[:2] - 1).T / 4 - model.score_mean_) / (
        model.score_scale_
    )
    assert_allclose(difference, both[:, 1] - both[:, 0], atol=1e-12)


def test_one_class_one_label_one_row():
    model = ZeroShotClassifier(m3l(), [[1]], class_names=["only"]).fit([[1.0, 2.0]], [[0]])
    assert_array_equal(model.predict([[0.0, 0.0], [5.0, 5.0]]), ["only", "only"])
    assert model.decision_function([[0.0, 0.0]]).shape == (1, 1)
    assert model.predict_attributes([[1.0, 2.0]]).tolist() == [[0]]


@pytest.mark.parametrize("decoding", ["nearest", "standardized"])
@pytest.mark.parametrize("base", [m3l(), OneVsRestClassifier(LinearSVC(C=0.1))])
def test_it_finds_classes_never_seen(base, decoding):
    rng = np.random.default_rng(0)
    signatures = np.unique(rng.integers(0, 2, (24, 10)), axis=0)
    rng.shuffle(signatures)
    classes = rng.integers(0, len(signatures), 900)
    X = (2 * signatures[classes] - 1) @ rng.normal(size=(10, 20)) + rng.normal(size=(900, 20))
    new = classes < 4
    names = np.array(["owl", "bee", "carp", "asp"])
    model = ZeroShotClassifier(base, signatures[:4], class_names=names, decoding=decoding)
    model.fit(X[~new], signatures[classes[~new]])
    truth = names[classes[new]]
    assert model.score(X[new], truth) == accuracy_score(truth, model.predict(X[new])) > 0.9


# ---------------------------------------------------------------- where R goes


def by_hand(signatures, prior):
    """R = sum_c p_c s_c s_c^T, entry by entry."""
    n_labels = len(signatures[0])
    R = np.zeros((n_labels, n_labels))
    for p, signature in zip(prior, signatures, strict=True):
        for k in range(n_labels):
            for m in range(n_labels):
                R[k, m] += p * (2 * signature[k] - 1) * (2 * signature[m] - 1)
    return R


@pytest.mark.parametrize("prior", [None, [0.5, 0.2, 0.3]])
def test_the_estimator_gets_the_correlation_of_the_candidates(prior, data):
    X, Y, X_new, _ = data
    base = m3l(tol=1e-10, max_iter=10_000)
    model = ZeroShotClassifier(base, UNSEEN, class_prior=prior, class_names=NAMES).fit(X, Y)
    R = by_hand(UNSEEN, [1 / 3] * 3 if prior is None else prior)
    assert_allclose(model.label_correlation_, R, atol=1e-15)
    assert_allclose(model.estimator_.label_correlation, R, atol=1e-15)
    assert base.label_correlation is None
    assert not hasattr(base, "coef_")
    direct = clone(base).set_params(label_correlation=R).fit(X, Y)
    assert_allclose(model.estimator_.coef_, direct.coef_, atol=1e-4)
    assert_array_equal(model.predict_attributes(X_new), direct.predict(X_new))
    independent = ZeroShotClassifier(base, UNSEEN, label_correlation="estimator").fit(X, Y)
    assert independent.label_correlation_ is None
    assert_allclose(independent.estimator_.coef_, clone(base).fit(X, Y).coef_)
    assert not np.allclose(independent.estimator_.coef_, direct.coef_, atol=0.01)


def test_a_correlation_of_ones_own_is_kept_or_overwritten(data):
    X, Y, _, _ = data
    own = np.eye(4) + 0.2
    base = m3l(label_correlation=own)
    for choice in ("auto", "estimator"):
        model = ZeroShotClassifier(base, UNSEEN, label_correlation=choice).fit(X, Y)
        assert_array_equal(model.estimator_.label_correlation, own)
        assert model.label_correlation_ is None
    train = ZeroShotClassifier(m3l(label_correlation="train"), UNSEEN).fit(X, Y)
    assert train.estimator_.label_correlation == "train"
    model = ZeroShotClassifier(base, UNSEEN, label_correlation="signatures").fit(X, Y)
    assert_allclose(model.estimator_.label_correlation, by_hand(UNSEEN, [1 / 3] * 3), atol=1e-15)
    assert_array_equal(base.label_correlation, own)


@pytest.mark.parametrize(
    ("wrap", "name"),
    [
        (lambda m: make_pipeline(StandardScaler(), m), "m3lclassifier__label_correlation"),
        (lambda m: ThresholdClassifierCV(m, rule="global", cv=2), "estimator__label_correlation"),
        (lambda m: GridSearchCV(m, {"C": [0.1]}, cv=2), "estimator__label_correlation"),
        (
            lambda m: make_pipeline(StandardScaler(), ThresholdClassifierCV(m, rule="global", cv=2)),
            "thresholdclassifiercv__estimator__label_correlation",
        ),
    ],
    ids=["pipeline", "thresholds", "search", "both"],
)
def test_wrapped_estimators_get_it_too(wrap, name, data):
    X, Y, X_new, _ = data
    model = ZeroShotClassifier(wrap(m3l()), UNSEEN).fit(X, Y)
    assert_allclose(model.estimator_.get_params()[name], by_hand(UNSEEN, [1 / 3] * 3), atol=1e-15)
    direct = wrap(m3l(label_correlation=by_hand(UNSEEN, [1 / 3] * 3))).fit(X, Y)
    assert_allclose(model.estimator_.decision_function(X_new), direct.decision_function(X_new), atol=1e-10)
    assert_array_equal(model.predict_attributes(X_new), direct.predict(X_new))


@pytest.mark.parametrize("wrapper", [OneVsRestClassifier, MultiOutputClassifier, ClassifierChain])
def test_wrappers_that_show_one_label_at_a_time_keep_independent_labels(wrapper, data):
    X, Y, _, _ = data
    base = make_pipeline(StandardScaler(), wrapper(m3l()))
    if wrapper is MultiOutputClassifier:  # it has neither decision_function nor probabilities of margins
        base = make_pipeline(StandardScaler(), wrapper(LogisticRegression()))
    model = ZeroShotClassifier(base, UNSEEN).fit(X, Y)
    assert model.label_correlation_ is None
    with pytest.raises(ValueError, match=r'label_correlation="signatures" needs .* Pipeline has none'):
        ZeroShotClassifier(base, UNSEEN, label_correlation="signatures").fit(X, Y)


# ---------------------------------------------------------------- names, prior, order


def test_classes_are_sorted_and_everything_with_them(data):
    X, Y, X_new, unseen = data
    prior = [0.5, 0.25, 0.25]  # sums without rounding, so that the order of the classes does not change R
    model = ZeroShotClassifier(m3l(), UNSEEN, class_names=NAMES, class_prior=prior).fit(X, Y)
    assert_array_equal(model.classes_, ["bee", "carp", "owl"])
    assert_array_equal(model.signatures_, UNSEEN[[1, 2, 0]])
    assert_allclose(model.class_prior_, [0.25, 0.25, 0.5])
    plain = ZeroShotClassifier(m3l(), UNSEEN, class_prior=prior).fit(X, Y)
    assert_array_equal(plain.classes_, [0, 1, 2])
    assert_array_equal(model.predict(X_new), np.array(NAMES)[plain.predict(X_new)])
    scores = model.decision_function(X_new)
    assert_allclose(scores, plain.decision_function(X_new)[:, [1, 2, 0]], atol=1e-10)
    names = np.array(NAMES)[unseen]
    ranked = [set(model.classes_[row.argsort()[1:]]) for row in scores]
    in_two = np.mean([name in best for name, best in zip(names, ranked, strict=True)])
    assert top_k_accuracy_score(names, scores, k=2, labels=model.classes_) == in_two  # refuses unsorted classes


def test_data_frames_bring_names(data):
    pd = pytest.importorskip("pandas")
    X, Y, X_new, unseen = data
    columns = ["wings", "fur", "eggs", "stripes"]
    table = pd.DataFrame(UNSEEN.astype(bool), index=NAMES, columns=columns)
    rows = pd.DataFrame(X, columns=[f"x{i}" for i in range(9)], index=np.arange(120)[::-1])
    model = ZeroShotClassifier(m3l(), table).fit(rows, pd.DataFrame(Y, columns=columns))
    expected = ZeroShotClassifier(m3l(), UNSEEN, class_names=NAMES).fit(X, Y)
    new_rows = pd.DataFrame(X_new, columns=rows.columns)
    assert_array_equal(model.predict(new_rows), expected.predict(X_new))
    assert_array_equal(model.feature_names_in_, rows.columns)
    assert model.n_features_in_ == 9
    assert model.score(new_rows, pd.Series(NAMES)[unseen]) == expected.score(X_new, np.array(NAMES)[unseen])
    renamed = ZeroShotClassifier(m3l(), table, class_names=[3, 1, 2]).fit(X, Y)
    assert_array_equal(renamed.classes_, [1, 2, 3])
    swapped = pd.DataFrame(Y, columns=["wings", "eggs", "fur", "stripes"])
    with pytest.raises(ValueError, match="column 1 is 'eggs' in y and 'fur' in signatures"):
        clone(model).fit(rows, swapped)
    clone(model).fit(rows, pd.DataFrame(Y))  # numbered columns are no names


def test_a_prior_by_name(data):
    pd = pytest.importorskip("pandas")
    X, Y, _, _ = data
    by_name = {"carp": 0.3, "owl": 0.5, "bee": 0.2}
    counts = pd.Series(["owl"] * 5 + ["carp"] * 3 + ["bee"] * 2).value_counts(normalize=True)
    for prior in (by_name, pd.Series(by_name), counts, np.array([0.5, 0.2, 0.3])):
        model = ZeroShotClassifier(m3l(), UNSEEN, class_names=NAMES, class_prior=prior).fit(X, Y)
        assert_allclose(model.class_prior_, [0.2, 0.3, 0.5])
        assert_allclose(model.label_correlation_, by_hand(UNSEEN, [0.5, 0.2, 0.3]), atol=1e-15)
    numbered = ZeroShotClassifier(m3l(), UNSEEN, class_prior={2: 0.3, 0: 0.5, 1: 0.2}).fit(X, Y)
    assert_allclose(numbered.class_prior_, [0.5, 0.2, 0.3])


def test_the_constant_prediction_by_hand(data):
    X, Y, _, _ = data
    uniform = ZeroShotClassifier(RidgeClassifier(), UNSEEN).fit(X, Y)
    assert_array_equal(uniform.constant_attributes_, [1, 1, 0, 1])
    skewed = ZeroShotClassifier(RidgeClassifier(), UNSEEN, class_prior=[0.7, 0.2, 0.1]).fit(X, Y)
    assert_array_equal(skewed.constant_attributes_, [1, 1, 0, 0])
    tied = ZeroShotClassifier(RidgeClassifier(), UNSEEN[:2]).fit(X, Y)
    assert_array_equal(tied.constant_attributes_, [0, 1, 0, 0])


# ---------------------------------------------------------------- what goes in and through


FORMS = [np.asarray, np.float32, np.bool_, np.ndarray.tolist, sp.csr_array, sp.csr_matrix, sp.csc_array, sp.coo_matrix]


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_y_and_signatures(form, data):
    X, Y, X_new, _ = data
    expected = ZeroShotClassifier(m3l(), UNSEEN).fit(X, Y)
    for model in (
        ZeroShotClassifier(m3l(), UNSEEN).fit(X, form(Y)),
        ZeroShotClassifier(m3l(), form(UNSEEN)).fit(X, Y),
    ):
        assert_array_equal(model.decision_function(X_new), expected.decision_function(X_new))
    attributes = ZeroShotClassifier(m3l(), UNSEEN).fit(X, form(Y)).predict_attributes(X_new)
    assert sp.issparse(attributes) == sp.issparse(form(Y))
    dense = attributes.toarray() if sp.issparse(attributes) else attributes
    assert_array_equal(dense, expected.predict_attributes(X_new))


@pytest.mark.parametrize("form", [sp.csr_array, sp.csr_matrix, sp.csc_array])
def test_sparse_features(form, data):
    X, Y, X_new, _ = data
    expected = ZeroShotClassifier(m3l(tol=1e-9, max_iter=10_000), UNSEEN).fit(X, Y)
    model = clone(expected).fit(form(X), Y)
    assert_allclose(model.decision_function(form(X_new)), expected.decision_function(X_new), atol=1e-3)


def test_stored_zeros_in_a_sparse_y(data):
    _, Y, _, _ = data
    rows, columns = np.indices(Y.shape).reshape(2, -1)
    explicit = sp.coo_array((Y.ravel(), (rows, columns)), shape=Y.shape).tocsr()
    assert explicit.nnz == Y.size
    before = explicit.copy()
    model = ZeroShotClassifier(Given(), sp.csr_array(UNSEEN)).fit(np.zeros(Y.shape), explicit)
    assert isinstance(model.estimator_.seen_y_, sp.csr_array)
    assert model.estimator_.seen_y_.nnz == Y.sum()
    assert_array_equal(explicit.data, before.data)
    matrix = ZeroShotClassifier(Given(), UNSEEN).fit(np.zeros(Y.shape), sp.csr_matrix(Y))
    assert isinstance(matrix.estimator_.seen_y_, sp.csr_matrix)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint8, np.float64])
def test_the_estimator_gets_int64(dtype, data):
    _, Y, _, _ = data
    model = ZeroShotClassifier(Given(), UNSEEN).fit(np.zeros(Y.shape), Y.astype(dtype))
    assert model.estimator_.seen_y_.dtype == np.int64
    assert_array_equal(model.estimator_.seen_y_, Y)


def test_int8_labels_beyond_128():
    """scikit-learn's LabelBinarizer returns wrong labels for an int8 indicator with more than 128 columns."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    Y = (X @ rng.normal(size=(4, 140)) > 0).astype(np.int8)
    model = ZeroShotClassifier(OneVsRestClassifier(RidgeClassifier()), Y[:3]).fit(X, Y)
    assert (model.predict_attributes(X) == Y).mean() > 0.85


@pytest.mark.parametrize(
    "base",
    [
        RandomForestClassifier(20, max_depth=4, random_state=0),
        KNeighborsClassifier(7),
        MultiOutputClassifier(LogisticRegression()),
        OneVsRestClassifier(KNeighborsClassifier(7)),
    ],
    ids=lambda e: type(e).__name__,
)
def test_probabilities_are_centred(base, data):
    X, Y, X_new, _ = data
    model = ZeroShotClassifier(base, UNSEEN, decoding="nearest").fit(X, Y)
    fitted = clone(base).fit(X, Y)
    probabilities = fitted.predict_proba(X_new)
    if isinstance(probabilities, list):
        probabilities = np.column_stack([p[:, 1] for p in probabilities])
    signs = 2 * UNSEEN - 1
    expected = [[np.mean(s * (2 * p - 1)) for s in signs] for p in probabilities]
    assert_allclose(model.decision_function(X_new), expected, atol=1e-12)


def test_texts():
    words = np.array(["ant", "bee", "cat", "dog"])

    def texts(signatures):
        return [" ".join(["fox", *words[row == 1]]) for row in signatures]

    base = make_pipeline(CountVectorizer(), m3l())
    model = ZeroShotClassifier(base, UNSEEN, class_names=NAMES, label_correlation="estimator")
    model.fit(texts(SEEN), SEEN)
    assert_array_equal(model.predict(texts(UNSEEN)), NAMES)
    assert not hasattr(model, "feature_names_in_")


def test_precomputed_kernel(data):
    X, Y, X_new, _ = data
    kernel = ZeroShotClassifier(OneVsRestClassifier(SVC(kernel="precomputed")), UNSEEN).fit(X @ X.T, Y)
    direct = ZeroShotClassifier(OneVsRestClassifier(SVC(kernel="linear")), UNSEEN).fit(X, Y)
    assert_allclose(kernel.decision_function(X_new @ X.T), direct.decision_function(X_new), rtol=1e-6, atol=1e-6)


def test_attributes_follow_the_estimators_own_rule(data):
    X, Y, X_new, _ = data
    base = ThresholdClassifierCV(m3l(), rule="top-k", cv=2)
    attributes = ZeroShotClassifier(base, UNSEEN).fit(X, Y).predict_attributes(X_new)
    assert len(set(attributes.sum(axis=1))) == 1


def test_attributes_constant_in_training(data):
    X, Y, X_new, _ = data
    Y = Y.copy()
    Y[:, 0], Y[:, 3] = 1, 0
    model = ZeroShotClassifier(m3l(), UNSEEN).fit(X, Y)
    assert set(model.predict(X_new)) <= {0, 1, 2}
    assert np.isfinite(model.decision_function(X_new)).all()


def test_sample_weight_and_fit_parameters_pass_through(data):
    X, Y, X_new, _ = data
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    exact = m3l(tol=1e-9, max_iter=10_000)
    weighted = ZeroShotClassifier(exact, UNSEEN).fit(X, Y, sample_weight=weight)
    repeated = ZeroShotClassifier(exact, UNSEEN).fit(
        np.repeat(X, weight.astype(int), axis=0), np.repeat(Y, weight.astype(int), axis=0)
    )
    assert_allclose(weighted.decision_function(X_new), repeated.decision_function(X_new), atol=1e-3)
    assert not np.allclose(
        weighted.decision_function(X_new), clone(repeated).fit(X, Y).decision_function(X_new), atol=1e-2
    )
    pipeline = make_pipeline(FunctionTransformer(), exact)
    inside = ZeroShotClassifier(pipeline, UNSEEN).fit(X, Y, m3lclassifier__sample_weight=weight)
    assert_allclose(inside.estimator_[-1].coef_, weighted.estimator_.coef_, atol=1e-6)
    with pytest.raises(TypeError, match="speed"):
        ZeroShotClassifier(exact, UNSEEN).fit(X, Y, speed=3)
    with pytest.raises(ValueError, match="sample_weight must be finite and non-negative"):
        ZeroShotClassifier(exact, UNSEEN).fit(X, Y, sample_weight=weight - 1)


def test_metadata_routing(data):
    X, Y, X_new, _ = data
    weight = np.random.default_rng(0).integers(1, 4, len(X)).astype(float)
    with config_context(enable_metadata_routing=True):
        base = OneVsRestClassifier(LogisticRegression().set_fit_request(sample_weight=True))
        model = ZeroShotClassifier(base, UNSEEN).fit(X, Y, sample_weight=weight)
        expected = clone(base).fit(X, Y, sample_weight=weight)
        assert_allclose(model.estimator_.decision_function(X_new), expected.decision_function(X_new))
    assert not np.allclose(
        expected.decision_function(X_new), OneVsRestClassifier(LogisticRegression()).fit(X, Y).decision_function(X_new)
    )


# ---------------------------------------------------------------- as a scikit-learn estimator


def test_clone_pickle_and_nested_parameters(data):
    X, Y, X_new, _ = data
    model = ZeroShotClassifier(make_pipeline(StandardScaler(), m3l()), UNSEEN, class_names=NAMES)
    model.set_params(estimator__m3lclassifier__C=0.05, decoding="nearest")
    assert model.get_params()["estimator__m3lclassifier__C"] == 0.05
    assert is_classifier(model)
    assert repr(model).startswith("ZeroShotClassifier(")
    before = model.get_params(deep=False)
    model.fit(X, Y)
    assert all(value is before[name] for name, value in model.get_params(deep=False).items())
    copy = pickle.loads(pickle.dumps(model))
    assert_array_equal(copy.decision_function(X_new), model.decision_function(X_new))
    again = clone(model).fit(X, Y)
    assert_array_equal(again.decision_function(X_new), model.decision_function(X_new))


def test_tuned_by_the_attributes_of_held_out_rows(data):
    X, Y, _, _ = data

    def attribute_accuracy(model, X, Y):
        return np.mean(model.predict_attributes(X) == Y)

    search = GridSearchCV(
        ZeroShotClassifier(m3l(), UNSEEN, class_names=NAMES),
        {"estimator__C": [1e-4, 0.1], "label_correlation": ["auto", "estimator"]},
        scoring=attribute_accuracy,
        cv=3,
        error_score="raise",
    ).fit(X, Y)
    assert len(set(search.cv_results_["mean_test_score"])) > 2
    assert set(search.predict(X)) <= set(NAMES)


def test_not_fitted():
    model = ZeroShotClassifier(m3l(), UNSEEN)
    for method in (model.predict, model.decision_function, model.predict_attributes):
        with pytest.raises(NotFittedError):
            method(np.zeros((1, 9)))
    assert not hasattr(model, "n_features_in_")


def test_fit_is_all_or_nothing(data):
    X, Y, X_new, _ = data
    fresh = ZeroShotClassifier(m3l(), UNSEEN)
    with pytest.raises(ValueError, match="NaN"):
        fresh.fit(np.full_like(X, np.nan), Y)
    assert set(vars(fresh)) == set(fresh.get_params(deep=False))
    fresh.fit(X, Y)
    before, scores = dict(vars(fresh)), fresh.decision_function(X_new)
    for bad_X, bad_Y in ((np.full_like(X, np.nan), Y), (X, Y[:, :3]), (X, 2 * Y), (X[:5], Y)):
        with pytest.raises(ValueError):
            fresh.fit(bad_X, bad_Y)
        assert vars(fresh) == before or all(vars(fresh)[name] is before[name] for name in before)
    assert_array_equal(fresh.decision_function(X_new), scores)


class Infinite(Given):
    def decision_function(self, X):
        return np.full(np.shape(X), np.inf)


class Narrow(Given):
    def decision_function(self, X):
        return np.asarray(X)[:, :2]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"estimator": None}, "estimator must be a multi-label classifier .* pass one, got None"),
        ({"estimator": M3LClassifier}, r"pass an instance, M3LClassifier\(\)"),
        ({"estimator": StandardScaler()}, "estimator must be a multi-label classifier with decision_function"),
        ({"estimator": MultiOutputClassifier(Perceptron())}, "estimator must be .* decision_function or predict_proba"),
        ({"estimator": Infinite()}, "row 0 of X has scores that are not finite.*Infinite"),
        ({"estimator": Narrow()}, "n_labels=4 columns are expected"),
        ({"label_correlation": None}, "label_correlation must be one of 'auto', 'signatures', 'estimator'; got None"),
        ({"label_correlation": np.eye(4)}, "label_correlation must be one of"),
        ({"label_correlation": "signatures", "estimator": RidgeClassifier()}, "RidgeClassifier has none"),
        ({"decoding": "hamming"}, "decoding must be one of 'standardized', 'nearest'; got 'hamming'"),
        ({"signatures": None}, r"signatures must have shape \(n_classes, n_labels\), at least 1 x 1"),
        ({"signatures": UNSEEN[0]}, r"signatures must have shape .* got \(4,\)"),
        ({"signatures": np.zeros((0, 4))}, r"signatures must have shape .* got \(0, 4\)"),
        ({"signatures": np.zeros((3, 0))}, r"signatures must have shape .* got \(3, 0\)"),
        ({"signatures": 2 * UNSEEN - 1}, r"signatures must be .* entries in \{0, 1\}, got -1"),
        ({"signatures": 0.5 * UNSEEN}, r"signatures must be .* got 0.5"),
        ({"signatures": UNSEEN.astype(str)}, "signatures must be .* dtype"),
        ({"signatures": [[0, 1, 1], [1]]}, "signatures has rows of different lengths"),
        ({"signatures": np.where(UNSEEN, np.nan, 0)}, "signatures must be .* got nan"),
        ({"signatures": UNSEEN[:, :3]}, r"y has 4 attributes \(columns\), signatures has 3"),
        ({"signatures": UNSEEN[[0, 1, 0]]}, "signatures of the classes 0 and 2 are equal"),
        (
            {"signatures": UNSEEN[[0, 1, 1]], "class_names": NAMES},
            "signatures of the classes 'bee' and 'carp' are equal",
        ),
        ({"class_names": ["a", "b"]}, "class_names has 2 names, but signatures has 3"),
        ({"class_names": ["a", "b", "a"]}, "class_names must be distinct; 'a' occurs more than once"),
        ({"class_names": [1, 2, 1]}, "class_names must be distinct; 1 occurs"),
        ({"class_names": ["a", "b", 3]}, "class_names must be all strings or all numbers"),
        ({"class_names": [("a", 1), ("a", 2), ("b", 1)]}, "class_names must be all strings or all numbers"),
        ({"class_names": [None, None, None]}, "class_names must be all strings or all numbers"),
        ({"class_names": [1.0, 2.0, np.nan]}, "class_names must be all strings or all numbers"),
        ({"class_names": "abc"}, "class_names must be a sequence of 3 names; got 'abc'"),
        ({"class_names": 3}, "class_names must be a sequence of 3 names; got 3"),
        ({"class_prior": [0.5, 0.5]}, r"class_prior must have shape \(3,\)"),
        ({"class_prior": [0.5, 0.6, -0.1]}, "class_prior must be positive and finite; that of class 2 is -0.1"),
        ({"class_prior": [0.5, 0.0, 0.5]}, "that of class 1 is 0. Leave classes that cannot occur out"),
        ({"class_prior": [0.5, np.nan, 0.5]}, "that of class 1 is nan"),
        ({"class_prior": [0.5, 0.25, np.inf]}, "that of class 2 is inf"),
        ({"class_prior": [5, 3, 2]}, "class_prior must sum to 1, got 10; divide counts by their sum"),
        ({"class_prior": ["a", "b", "c"]}, "class_prior must hold numbers"),
        ({"class_prior": {0: 0.5, 1: 0.5}}, re.escape("one entry per class, [0, 1, 2]; got those of [0, 1]")),
        ({"class_prior": {"a": 0.5, "b": 0.5}}, "class_prior must have one entry per class"),
    ],
)
def test_bad_parameters_are_named_in_fit_and_not_before(params, message):
    model = ZeroShotClassifier(**{"estimator": Given(), "signatures": UNSEEN, **params})
    assert clone(model).get_params(deep=False).keys() == model.get_params(deep=False).keys()
    assert is_classifier(model)
    with pytest.raises(ValueError, match=message):
        model.fit(np.zeros((5, 4)), SEEN)
    assert not hasattr(model, "estimator_")


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (None, "requires y to be passed"),
        (np.arange(5), r"y must be the attributes of every row, .* not their classes.* Got shape \(5,\)"),
        (NAMES, "not their classes"),
        (2 * SEEN, "y must be a label indicator"),
        (np.where(SEEN, np.nan, 0), "y must be .* got nan"),
        ([["a", "b"], ["a"], [], [], []], "y has rows of different lengths"),
        (SEEN[:, :2], r"y has 2 attributes \(columns\), signatures has 4"),
        (sp.csr_array(SEEN[:, :2]), "y has 2 attributes"),
        (sp.csr_array(2 * SEEN), "y must be a label indicator"),
        (SEEN[:4], "inconsistent numbers of samples"),
    ],
)
def test_bad_targets_are_named(y, message):
    with pytest.raises(ValueError, match=message):
        ZeroShotClassifier(m3l(), UNSEEN).fit(np.zeros((5, 4)), y)


class EveryClassAnAttribute(ZeroShotClassifier):
    """An ordinary classifier for scikit-learn's suite: the classes of y are the candidates, each its own attribute."""

    def __init__(self, estimator, signatures=None, *, decoding="nearest"):
        super().__init__(estimator, signatures, decoding=decoding)

    def fit(self, X, y, sample_weight=None):
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        y = column_or_1d(check_array(y, ensure_2d=False, dtype=None), warn=True)
        check_classification_targets(y)
        classes, numbers = np.unique(y, return_inverse=True)
        inner = ZeroShotClassifier(
            self.estimator,
            np.eye(len(classes), dtype=int),
            class_names=classes.tolist(),
            label_correlation="estimator",
            decoding=self.decoding,
        )
        inner.fit(X, np.eye(len(classes), dtype=int)[numbers], sample_weight=sample_weight)
        fitted = {name: value for name, value in vars(inner).items() if name.endswith("_")}
        vars(self).update(fitted)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = True
        tags.target_tags.multi_output = False
        return tags


EXACT = M3LClassifier(tol=1e-10, max_iter=100_000, random_state=0)


@parametrize_with_checks([EveryClassAnAttribute(EXACT), EveryClassAnAttribute(EXACT, decoding="standardized")])
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
def test_sklearn_checks(estimator, check):
    check(estimator)


def test_score_wants_classes_not_attributes(data):
    X, Y, X_new, classes = data
    model = ZeroShotClassifier(m3l(), UNSEEN).fit(X, Y)
    assert model.score(X_new, classes) == accuracy_score(classes, model.predict(X_new))
    with pytest.raises(ValueError, match=r"y must be 1-D, one class name per row; got shape \(60, 4\)"):
        model.score(X_new, UNSEEN[classes])
