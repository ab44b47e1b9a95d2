"""`explain`: contributions sum to the score they explain, through every learner and every wrapper."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from comargin import (
    LSG21Classifier,
    LSG21ClassifierCV,
    M3LClassifier,
    M3LClassifierCV,
    PrBRClassifier,
    PrMLClassifier,
    RankCVMClassifier,
    RankSVMClassifier,
    ZeroShotClassifier,
    explain,
)
from comargin.core import Contribution, Explanation
from comargin.core.explanation import require_explainable
from comargin.decisions import ThresholdClassifierCV
from comargin.training import ChainEnsemble

N_LABELS = 4


@pytest.fixture(scope="module")
def rows():
    """Rows with zeros in them, and labels of three features each and a fourth that depends on the first two."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 6)) * (rng.random((60, 6)) < 0.7)
    Y = (X[:, :3] + 0.05 * rng.normal(size=(60, 3)) > 0).astype(int)
    return X, np.column_stack([Y, Y[:, 0] & Y[:, 1]])


def assert_sums(found, scores):
    """Scores of all labels are those given, and the terms of every explanation sum to its score."""
    assert_allclose([[one.score for one in row] for row in found], scores, rtol=1e-9, atol=1e-11)
    for one in (one for row in found for one in row):
        total = sum(term.value for term in one.contributions) + one.others + one.intercept
        assert_allclose(total, one.score, rtol=1e-9, atol=1e-12)
        sizes = [abs(term.value) for term in one.contributions]
        assert sizes == sorted(sizes, reverse=True)


LINEAR = [
    M3LClassifier(C=0.1, random_state=0),
    M3LClassifier(kernel="linear", solver="smo", C=0.1, fit_intercept=False),
    M3LClassifierCV(Cs=[0.1, 1.0], cv=2, random_state=0),
    LSG21Classifier(alpha=0.1),
    LSG21ClassifierCV(alphas=[0.1, 1.0], cv=2),
    PrBRClassifier(C=0.1, random_state=0),
    PrMLClassifier(C=1.0, gamma1=0.1, random_state=0),
    RankCVMClassifier(kernel="linear"),
    RankSVMClassifier(kernel="linear"),
]
KERNEL = [
    M3LClassifier(kernel="rbf"),
    M3LClassifier(kernel="poly", degree=2, fit_intercept=False),
    RankCVMClassifier(),
    RankSVMClassifier(),
]


@pytest.mark.compiled
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize("learner", [*LINEAR, *KERNEL], ids=lambda one: type(one).__name__)
def test_contributions_sum_to_the_decision_function(learner, storage, rows):
    X, Y = storage(rows[0]), rows[1]
    model = learner.fit(X, Y)
    assert np.abs(model.decision_function(X)).max() > 1e-4
    found = model.explain(X[:20], top=2, labels=range(N_LABELS))
    assert [[one.label for one in row] for row in found] == [list(range(N_LABELS))] * 20
    assert max(len(one.contributions) for row in found for one in row) == 2
    assert_sums(found, model.decision_function(X[:20]))
    predicted = model.explain(X[:20])
    assert [[one.label for one in row] for row in predicted] == [
        np.flatnonzero(y).tolist() for y in model.predict(X[:20])
    ]


@pytest.mark.compiled
@pytest.mark.parametrize("learner", LINEAR[:1] + LINEAR[3:4], ids=lambda one: type(one).__name__)
def test_linear_learners_name_each_feature_times_its_weight(learner, rows):
    X, Y = rows
    model = learner.fit(X, Y)
    names = [f"column {j}" for j in range(X.shape[1])]
    for i, row in enumerate(model.explain(X[:10], top=100, labels=[2, 0], feature_names=names)):
        for label, one in zip([2, 0], row, strict=True):
            products = X[i] * model.coef_[label]
            assert {term.name: term.value for term in one.contributions} == {
                names[j]: products[j] for j in np.flatnonzero(products)
            }
            assert one.others == 0.0
    (one,), *_ = model.explain(X[:1], top=1, labels=[1])
    strongest = int(np.argmax(np.abs(X[0] * model.coef_[1])))
    assert one.contributions == (Contribution("feature", strongest, X[0, strongest] * model.coef_[1, strongest]),)


@pytest.mark.compiled
def test_kernels_name_the_strongest_training_rows(rows):
    X, Y = rows
    model = M3LClassifier(kernel="rbf", gamma=0.5, C=1.0).fit(X, Y)
    (one,), *_ = model.explain(X[:1], top=3, labels=[0])
    values = np.exp(-0.5 * ((model.support_vectors_ - X[0]) ** 2).sum(axis=1)) * model.dual_coef_[0]
    strongest = np.argsort(-np.abs(values), kind="stable")[:3]
    assert [term.kind for term in one.contributions] == ["training_row"] * 3
    assert [term.name for term in one.contributions] == model.support_[strongest].tolist()
    assert_allclose([term.value for term in one.contributions], values[strongest], rtol=1e-9)
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(axis=2))
    same = M3LClassifier(kernel="precomputed", C=1.0).fit(K, Y)
    assert_sums(same.explain(K, labels=range(N_LABELS)), same.decision_function(K))


@pytest.mark.compiled
def test_constant_labels_of_a_ranking_have_the_sign_of_the_constant(rows):
    X, Y = rows
    Y = np.column_stack([Y, np.zeros(len(Y)), np.ones(len(Y))]).astype(int)
    model = RankCVMClassifier(kernel="linear").fit(X, Y)
    found = model.explain(X, labels=[4, 5])
    assert_sums(found, model.decision_function(X)[:, 4:])
    assert all(row[0].score < 0.0 < row[1].score for row in found)


@pytest.mark.compiled
def test_classes_are_explained_by_their_columns(rows):
    X, _ = rows
    two = np.where(X[:, 0] > 0, "yes", "no")
    three = np.array(["a", "b", "c"])[np.argmax(X[:, :3], axis=1)]
    for learner in (M3LClassifier(C=0.1), RankCVMClassifier(kernel="linear"), LogisticRegression()):
        model = learner.fit(X, two)
        assert_sums(explain(model, X), model.decision_function(X)[:, None])
        model = learner.fit(X, three)
        scores = model.decision_function(X)
        assert_sums(explain(model, X), scores.max(axis=1, keepdims=True))
        assert [row[0].label for row in explain(model, X)] == np.argmax(scores, axis=1).tolist()


@pytest.mark.parametrize(
    "model",
    [
        OneVsRestClassifier(LogisticRegression()),
        OneVsRestClassifier(LinearSVC(fit_intercept=False)),
        OneVsRestClassifier(SVC(kernel="linear")),
        RidgeClassifier(),
        ThresholdClassifierCV(OneVsRestClassifier(LogisticRegression()), cv=2),
        make_pipeline(StandardScaler(with_mean=False), OneVsRestClassifier(LogisticRegression())),
        ThresholdClassifierCV(make_pipeline(StandardScaler(with_mean=False), RidgeClassifier()), cv=2),
        GridSearchCV(RidgeClassifier(), {"alpha": [0.1, 1.0]}, cv=2),
    ],
    ids=lambda model: type(model).__name__,
)
@pytest.mark.parametrize("storage", [np.asarray, sp.csr_array], ids=["dense", "csr"])
def test_linear_classifiers_of_scikit_learn(model, storage, rows):
    X, Y = storage(rows[0]), rows[1]
    model.fit(X, Y)
    assert_sums(explain(model, X, labels=range(N_LABELS)), model.decision_function(X))
    predicted = explain(model, X)
    assert [[one.label for one in row] for row in predicted] == [np.flatnonzero(y).tolist() for y in model.predict(X)]


def test_a_constant_label_has_no_weights(rows):
    X, Y = rows
    Y = np.column_stack([Y, np.ones(len(Y), dtype=int)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn's, that label 4 is constant
        model = OneVsRestClassifier(LogisticRegression()).fit(X, Y)
    assert explain(model, X[:1], labels=[4]) == [[Explanation(4, 1.0, (), 0.0, 1.0)]]
    assert_sums(explain(model, X, labels=range(5)), model.decision_function(X))


def test_words_and_columns_go_by_name():
    texts = ["rain and wind", "the cup final", "rain stops the final", "warm bread", "bread at the cup"]
    Y = np.array([[1, 0], [0, 1], [1, 1], [0, 0], [0, 1]])
    model = make_pipeline(TfidfVectorizer(), OneVsRestClassifier(LogisticRegression(C=100.0)))
    cut = ThresholdClassifierCV(model.fit(texts, Y), cv="prefit").fit(texts, Y)
    ((rain,), (cup,)) = cut.explain(["rain again", "final cup"], top=1)
    assert (rain.label, rain.contributions[0].name) == (0, "rain")
    assert (cup.label, {term.name for term in cup.contributions}) == (1, {"cup"})
    assert explain(cut, texts) == explain(model, texts, labels=cut.predict(texts))
    X = np.random.default_rng(0).normal(size=(20, 2))
    model = make_pipeline(StandardScaler(), OneVsRestClassifier(LogisticRegression())).fit(X, X > 0)
    (one,), *_ = explain(model, X[:1], top=1, labels=[1], feature_names=["width", "height"])
    assert one.contributions[0].name == "height"


@pytest.mark.compiled
def test_columns_of_a_data_frame_go_by_name(rows):
    pd = pytest.importorskip("pandas")
    X = pd.DataFrame(rows[0], columns=list("abcdef"))
    for model in (M3LClassifier(C=0.1), RidgeClassifier()):
        (one,), *_ = explain(model.fit(X, rows[1]), X, top=100, labels=[0])
        assert {term.name for term in one.contributions} == set(X.columns[rows[0][0] != 0])


@pytest.mark.compiled
@pytest.mark.parametrize("n_classes", [2, 3])
def test_classes_without_rows_are_explained_by_their_attributes(n_classes, rows):
    X, Y = rows
    signatures = np.array([[0, 1, 1, 0], [1, 1, 0, 1], [1, 0, 0, 0]])[:n_classes]
    for inner in (M3LClassifier(C=0.1), RandomForestClassifier(n_estimators=5, random_state=0)):
        model = ZeroShotClassifier(inner, signatures).fit(X, Y)
        scores = model.decision_function(X).reshape(len(X), -1)
        found = model.explain(X, labels=range(scores.shape[1]))
        assert_sums(found, scores)
        assert {term.kind for row in found for one in row for term in one.contributions} == {"attribute"}
        (one,), *_ = model.explain(X[:1])
        assert one.label == (0 if n_classes == 2 else np.argmax(scores[0]))


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (RandomForestClassifier(n_estimators=3), "RandomForestClassifier"),
        (KNeighborsClassifier(), "KNeighborsClassifier"),
        (OneVsRestClassifier(SVC()), "OneVsRestClassifier of SVC"),
        (ChainEnsemble(LogisticRegression(), n_chains=2), "ChainEnsemble"),
        (make_pipeline(StandardScaler(), KNeighborsClassifier()), "KNeighborsClassifier"),
        (ThresholdClassifierCV(OneVsRestClassifier(SVC()), cv=2), "OneVsRestClassifier of SVC"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_models_are_refused_by_name(model, name, rows):
    X, Y = rows
    model.fit(X, Y)
    with pytest.raises(ValueError, match=f"^{name} gives no explanation of its scores; the learners of comargin do"):
        explain(model, X)
    with pytest.raises(ValueError, match=name):
        require_explainable(model)


def test_scores_that_are_not_linear_in_spite_of_weights_are_refused(rows):
    class Squared(RidgeClassifier):
        def decision_function(self, X):
            return super().decision_function(X) ** 2

    model = Squared().fit(*rows)
    with pytest.raises(ValueError, match="Squared gives no explanation"):
        explain(model, rows[0])


def test_bad_arguments(rows):
    X, Y = rows
    model = RidgeClassifier().fit(X, Y)
    for top in (0, True, 2.5):
        with pytest.raises(ValueError, match="top must be an int of at least 1"):
            explain(model, X, top=top)
    with pytest.raises(ValueError, match="labels must be numbers from 0 to 3, got 4"):
        explain(model, X, labels=[0, 4])
    for labels in ([-1], ["a"], [0.5]):
        with pytest.raises(ValueError, match="labels must be numbers of labels, an indicator or None"):
            explain(model, X, labels=labels)
    with pytest.raises(ValueError, match="labels has 2 rows, but X has 60"):
        explain(model, X, labels=Y[:2])
    with pytest.raises(ValueError, match="feature_names must name the 6 features of the model, got 2 names"):
        explain(model, X, feature_names=["a", "b"])
    with pytest.raises(NotFittedError):
        explain(RidgeClassifier(), X)


def test_an_explanation_as_text_and_as_numbers():
    terms = (
        Contribution("feature", "sea", 1.25),
        Contribution("with", (1, 0), -0.5),
        Contribution("training_row", 17, 0.25),
    )
    one = Explanation(2, 0.75, terms, 0.0, -0.25)
    named = one.with_names(["sky", "city", "beach"])
    assert (
        str(named)
        == "beach: sea +1.25, with city and sky -0.5, training row 17 +0.25, others +0, intercept -0.25 = 0.75"
    )
    assert named.to_dict() == {
        "score": 0.75,
        "contributions": [
            {"feature": "sea", "value": 1.25},
            {"with": ["city", "sky"], "value": -0.5},
            {"training_row": 17, "value": 0.25},
        ],
        "others": 0.0,
        "intercept": -0.25,
    }
    assert one.negated().negated() == one
    assert (one.negated().score, one.negated().contributions[0].value) == (-0.75, -1.25)
