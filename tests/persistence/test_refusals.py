"""What cannot be saved is said by its path, and no file is touched."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from saved_models import LEARNERS, X, Y
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.svm import NuSVC

import comargin
from comargin.decisions import GlobalCut, ThresholdClassifierCV
from comargin.graphs import LabelGraph
from comargin.persistence import load, save


class Child(comargin.M3LClassifier):
    pass


class OwnRule(GlobalCut):
    pass


def linear(A, B):
    return A @ B.T


def with_attribute(model, name, value):
    setattr(model, name, value)
    return model


M3L = comargin.M3LClassifier
REFUSED = {
    "kernel: a function": M3L(kernel=linear),
    "callback: a function": M3L(callback=print),
    r"steps\[0\].tokenizer: a function": make_pipeline(TfidfVectorizer(tokenizer=str.split), M3L()),
    r"estimator.steps\[0\].analyzer: a function": ThresholdClassifierCV(
        make_pipeline(CountVectorizer(analyzer=lambda text: text.split()), M3L())
    ),
    r"steps\[0\].input: expected one of content": make_pipeline(TfidfVectorizer(input="filename"), M3L()),
    r"steps\[0\]: an object of the class sklearn\..*\.FunctionTransformer": make_pipeline(FunctionTransformer(), M3L()),
    "estimator: an object of the class sklearn.svm._classes.NuSVC": OneVsRestClassifier(NuSVC()),
    "memory: a cache": make_pipeline(StandardScaler(), M3L(), memory="cache"),
    "rule: an object of the class .*OwnRule": ThresholdClassifierCV(M3L(), rule=OwnRule()),
    "label_correlation: a coo_array": M3L(label_correlation=sp.coo_array(np.eye(3))),
    "signatures: an object of the class pandas": comargin.ZeroShotClassifier(M3L(), pd.DataFrame([[0, 1], [1, 0]])),
    "label_correlation: an array of complex128": M3L(label_correlation=np.eye(2) * 1j),
    "label_correlation: an array of object": M3L(label_correlation=np.array([[None]])),
    "scoring: a function": comargin.M3LClassifierCV(scoring=linear),
    r"class_weight\[0\]\['x'\]: a function": M3L(class_weight=[{"x": linear}]),
    r"steps\[0\]: set_output": make_pipeline(StandardScaler().set_output(transform="pandas"), M3L()),
    "my_note: M3LClassifier has no such attribute": with_attribute(M3L(), "my_note", "kept?"),
    "a Child cannot be saved": Child(),
    "a ndarray cannot be saved": np.eye(2),
    "a dict cannot be saved": {},
}


@pytest.mark.parametrize("message", REFUSED)
def test_refused_by_path(message, tmp_path):
    with pytest.raises(TypeError, match=f"^{message}"):
        save(REFUSED[message], tmp_path / "model.cmg")
    assert not list(tmp_path.iterdir())


def test_a_fitted_callable_kernel(tmp_path):
    with pytest.raises(TypeError, match=r"^kernel: a function cannot be saved"):
        save(M3L(kernel=linear).fit(X, Y), tmp_path / "model.cmg")


def test_fitted_state_that_was_tampered_with(tmp_path):
    model = clone(LEARNERS["m3l"]).fit(X, Y)
    model.coef_ = model.coef_.astype(np.float32)
    with pytest.raises(TypeError, match=r"^coef_: expected a finite float64 array"):
        save(model, tmp_path / "model.cmg")
    model.coef_ = np.zeros((2, 2))
    with pytest.raises(ValueError, match=r"^coef_: expected the shape \(3, 4\)"):
        save(model, tmp_path / "model.cmg")
    model = clone(LEARNERS["lsg21"]).fit(X, Y)
    model.label_graph_ = LabelGraph(np.eye(2), ["a", "b"])
    with pytest.raises(ValueError, match=r"^label_graph_: expected the shape \(3,\), found \(2,\)"):
        save(model, tmp_path / "model.cmg")


def test_huge_integers_and_endless_nesting(tmp_path):
    with pytest.raises(ValueError, match=r"^random_state: an integer of more than 64 bits"):
        save(M3L(random_state=2**70), tmp_path / "model.cmg")
    model = M3L()
    for _ in range(60):
        model = ThresholdClassifierCV(model)
    with pytest.raises(ValueError, match="nested more than 100 levels"):
        save(model, tmp_path / "model.cmg")
    endless: list = []
    endless.append(endless)
    with pytest.raises(ValueError, match="or contains itself"):
        save(M3L(class_weight=endless), tmp_path / "model.cmg")


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ([1], "meta must be a dict or None"),
        ({1: 2}, "meta: keys must be strings"),
        ({"a": {"b": (1, 2)}}, r'meta\["a"\]\["b"\]: strings, finite numbers'),
        ({"a": [1, float("nan")]}, r'meta\["a"\]\[1\]: strings'),
        ({"a": 2**64}, r'meta\["a"\]: strings'),
        ({"a": np.float64(1.0)}, r'meta\["a"\]: strings'),
    ],
)
def test_meta_that_json_would_change(meta, message, tmp_path):
    with pytest.raises(TypeError, match=message):
        save(M3L(), tmp_path / "model.cmg", meta=meta)


def test_meta_too_large_or_deep(tmp_path):
    with pytest.raises(ValueError, match="shorten meta"):
        save(M3L(), tmp_path / "model.cmg", meta={"text": "x" * (1 << 23)})
    deep: list = []
    for _ in range(200):
        deep = [deep]
    with pytest.raises(ValueError, match="nested too deeply"):
        save(M3L(), tmp_path / "model.cmg", meta={"deep": deep})


def test_where_to(tmp_path):
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "nothing.cmg")
    with pytest.raises(ValueError, match="is a folder"):
        save(M3L(), tmp_path)
    with pytest.raises(ValueError, match="max_size must be a positive"):
        load(tmp_path / "nothing.cmg", max_size=0)
