"""What a report finds out about a model, whatever it is wrapped in."""

import numpy as np
import pytest
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multioutput import ClassifierChain, MultiOutputClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from comargin import M3LClassifier, M3LClassifierCV
from comargin.decisions import GlobalCut, ThresholdClassifierCV, TopK
from comargin.report.anatomy import (
    certificate_text,
    cuts_of,
    linear_weights,
    names_of_features,
    parameters_of,
    take_apart,
    tuned_values,
    value_text,
)

X = np.random.default_rng(0).normal(size=(60, 4))
Y = (X[:, :3] + 0.3 * X[:, 1:] > 0).astype(int)
TEXTS = [
    " ".join(word for word, value in zip(("sea", "sun", "sky", "ski"), row, strict=True) if value > 0) for row in X
]


def ovr():
    return OneVsRestClassifier(LogisticRegression())


@pytest.mark.parametrize(
    ("model", "layers", "transformers"),
    [
        (ovr(), ["OneVsRestClassifier"], []),
        (make_pipeline(StandardScaler(), ovr()), ["StandardScaler", "OneVsRestClassifier"], ["StandardScaler"]),
        (
            ThresholdClassifierCV(make_pipeline(StandardScaler(), "passthrough", ovr()), cv=2),
            ["ThresholdClassifierCV", "StandardScaler", "OneVsRestClassifier"],
            ["StandardScaler"],
        ),
        (
            make_pipeline(StandardScaler(), ThresholdClassifierCV(ovr(), cv=2)),
            ["StandardScaler", "ThresholdClassifierCV", "OneVsRestClassifier"],
            ["StandardScaler"],
        ),
        (
            GridSearchCV(ovr(), {"estimator__C": [0.1, 1.0]}, cv=2),
            ["GridSearchCV", "OneVsRestClassifier"],
            [],
        ),
    ],
)
def test_every_wrapper_is_taken_off(model, layers, transformers):
    anatomy = take_apart(model.fit(X, Y))
    assert anatomy.model is model
    assert [type(layer).__name__ for layer in anatomy.layers] == layers
    assert [type(step).__name__ for step in anatomy.transformers] == transformers
    assert anatomy.classifier is anatomy.layers[-1]
    assert linear_weights(anatomy.classifier).shape == (3, 4)


def test_weights_reproduce_the_scores():
    for model in (M3LClassifier(), ovr(), MultiOutputClassifier(LogisticRegression())):
        model.fit(X, Y)
        weights = linear_weights(model)
        if isinstance(model, MultiOutputClassifier):
            scores = np.column_stack([one.decision_function(X) for one in model.estimators_])
        else:
            scores = model.decision_function(X)
        differences = scores - X @ weights.T  # the intercepts
        np.testing.assert_allclose(differences, np.broadcast_to(differences[0], scores.shape), atol=1e-9)


def test_a_constant_label_has_no_weights():
    constant = Y.copy()
    constant[:, 1] = 1
    with pytest.warns(UserWarning, match="Label 1 is present in all"):
        model = ovr().fit(X, constant)
    weights = linear_weights(model)
    assert not weights[1].any()
    assert weights[[0, 2]].all()


@pytest.mark.parametrize(
    "model",
    [
        OneVsRestClassifier(SVC()),
        M3LClassifier(kernel="rbf"),
        RandomForestClassifier(n_estimators=3, random_state=0),
        ClassifierChain(LogisticRegression()),
        MultiOutputClassifier(RandomForestClassifier(n_estimators=2, random_state=0)),
    ],
    ids=lambda model: type(model).__name__,
)
def test_what_is_not_linear_has_no_weights(model):
    assert linear_weights(model.fit(X, Y)) is None


def test_features_are_named_by_the_vectorizer_or_the_data():
    given = ["a", "b", "c", "d"]
    texts = take_apart(make_pipeline(TfidfVectorizer(), ovr()).fit(TEXTS, Y))
    assert names_of_features(texts, None, 4) == ["sea", "ski", "sky", "sun"]
    scaled = take_apart(make_pipeline(StandardScaler(), ovr()).fit(X, Y))
    assert names_of_features(scaled, given, 4) == given
    assert names_of_features(scaled, None, 4) == ["x0", "x1", "x2", "x3"]
    plain = take_apart(ovr().fit(X, Y))
    assert names_of_features(plain, given, 4) == given
    assert names_of_features(plain, (), 4) == ["feature 0", "feature 1", "feature 2", "feature 3"]
    hashed = take_apart(make_pipeline(HashingVectorizer(n_features=2**4), ovr()).fit(TEXTS, Y))
    assert names_of_features(hashed, None, 16)[:2] == ["feature 0", "feature 1"]
    mixed = take_apart(make_pipeline(TfidfVectorizer(), TruncatedSVD(2, random_state=0), ovr()).fit(TEXTS, Y))
    assert names_of_features(mixed, None, 2) == ["truncatedsvd0", "truncatedsvd1"]
    with pytest.raises(ValueError, match=r"feature_names must name the 4 features of the model, got 3 names"):
        names_of_features(plain, given[:3], 4)


def test_names_of_a_data_frame_win_over_those_of_the_caller():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=list("wxyz"))
    model = make_pipeline(StandardScaler(), ovr()).fit(frame, Y)
    assert names_of_features(take_apart(model), None, 4) == list("wxyz")
    assert names_of_features(take_apart(model), list("wxyz"), 4) == list("wxyz")


def test_cuts_are_learned_ones_else_the_middle():
    learned = ThresholdClassifierCV(ovr(), cv=2).fit(X, Y)
    np.testing.assert_array_equal(cuts_of(take_apart(learned), 3), learned.thresholds_)
    assert cuts_of(take_apart(ovr().fit(X, Y)), 3).tolist() == [0, 0, 0]
    forest = RandomForestClassifier(n_estimators=3, random_state=0).fit(X, Y)
    assert cuts_of(take_apart(forest), 3).tolist() == [0.5, 0.5, 0.5]


def test_changed_parameters_come_first():
    rows = parameters_of(M3LClassifier(C=0.25, random_state=3))
    assert rows[:2] == [("C", "0.25", True), ("random_state", "3", True)]
    assert not any(is_changed for _, _, is_changed in rows[2:])
    assert ("kernel", "linear", False) in rows
    assert parameters_of(object()) == []


def test_values_become_one_short_line():
    assert value_text(0.1 + 0.2) == "0.3"
    assert value_text(True) == "True"
    assert value_text(np.zeros((3, 4))) == "array of shape (3, 4)"
    assert value_text({"a": 1, "b": [1.5, None]}) == "a: 1, b: 1.5, None"
    assert value_text(list(range(30))).endswith("18, 19, ... (30 in all)")
    assert value_text("two\nlines") == "two lines"
    assert value_text(np.mean) == "mean"
    assert len(value_text("x" * 1000)) == 160


def test_what_was_tuned_is_told():
    path = M3LClassifierCV(Cs=[0.1, 1.0], cv=2, random_state=0).fit(X, Y)
    told = dict(tuned_values(take_apart(path)))
    assert told["C (M3LClassifierCV)"] == f"{path.C_:g}, the best of 2 from 0.1 to 1"
    assert told["mean score in the folds (M3LClassifierCV)"] == f"{path.best_score_:.4g}"
    search = GridSearchCV(ovr(), {"estimator__C": [0.5]}, cv=2).fit(X, Y)
    assert dict(tuned_values(take_apart(search)))["estimator__C (GridSearchCV)"] == "0.5"
    one_cut = ThresholdClassifierCV(ovr(), rule=GlobalCut(), cv=2).fit(X, Y)
    assert dict(tuned_values(take_apart(one_cut)))["cut of all labels"] == f"{one_cut.rule_.cut_:.4g}"
    top = ThresholdClassifierCV(ovr(), rule=TopK(k=2), cv=2).fit(X, Y)
    assert dict(tuned_values(take_apart(top)))["labels on in every row"] == "2"
    assert tuned_values(take_apart(ovr().fit(X, Y))) == []


def test_the_certificate_in_plain_words():
    class Fit:
        objective_, dual_objective_, duality_gap_ = 200.0, 199.0, 1.0

    text = certificate_text(Fit())
    assert "reached 200." in text
    assert "no solution is below 199, so at most 1 is left to gain: 0.5 % of the objective." in text
    Fit.lower_bound_ = 150.0  # of a problem that is convex step by step
    text = certificate_text(Fit())
    assert "no solution of its last convex step is below 199, so at most 1 is left to gain by it: 0.5 % of" in text
    assert text.endswith("The whole problem is not convex; none of its solutions is below 150.")
    del Fit.lower_bound_
    Fit.duality_gap_ = float("nan")  # a search without a last fit
    assert certificate_text(Fit()) is None
    assert certificate_text(ovr()) is None
    model = M3LClassifier().fit(X, Y)
    assert f"{model.dual_objective_:.6g}" in certificate_text(model)
