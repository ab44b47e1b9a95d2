"""`audit`: suspicious labels in names, the same for any number of threads and of blocks."""

import numpy as np
import pytest
import scipy.sparse as sp

from comargin import audit
from comargin.data import Dataset
from comargin.training import _audit

NAMES = ("sea", "beach", "boat", "city", "street", "car")


@pytest.fixture(scope="module")
def planted():
    """Three labels go together, and so do the three others; twelve cells are flipped."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    hidden = X[:, :2] + 0.3 * rng.normal(size=(300, 2)) > 0.0
    Y = np.repeat(hidden, 3, axis=1).astype(np.int32)
    wrong = np.zeros(Y.shape, dtype=bool)
    wrong[rng.choice(300, 12, replace=False), np.arange(12) % 6] = True
    return Dataset(X, np.where(wrong, 1 - Y, Y), tuple("abcd"), NAMES, "planted"), wrong


def in_names(wrong, names=range(300)):
    return {(names[row], NAMES[label]) for row, label in np.argwhere(wrong)}


FEW_TREES = {"n_estimators": 20}


@pytest.mark.parametrize(("model", "params"), [(None, FEW_TREES), ("m3l", None)])
def test_planted_errors_are_found(planted, model, params):
    data, wrong = planted
    found = audit(data, model, most=12, params=params)
    assert found.model == (model or "forest")
    cells = found.cells()
    assert len({(cell["row"], cell["label"]) for cell in cells} & in_names(wrong)) >= 11
    for cell in cells:
        given = data.Y[cell["row"], NAMES.index(cell["label"])]
        assert cell["problem"] == ("wrong" if given else "missing")
    assert [label["label"] for label in found.labels()] == list(NAMES)
    assert [label["rows"] for label in found.labels()] == data.Y.sum(axis=0).tolist()


def test_exchanged_labels_have_names():
    rng = np.random.default_rng(1)
    X = 3.0 * rng.normal(size=(1500, 4))
    Y = (rng.random(X.shape) < 1.0 / (1.0 + np.exp(-X))).astype(np.int32)
    rows = np.flatnonzero((Y[:, 0] == 1) & (Y[:, 3] == 0))[::4]
    Y[rows, 0], Y[rows, 3] = 0, 1
    names = ("sea", "beach", "city", "street")
    found = audit(Dataset(X, Y, tuple("abcd"), names, "exchanged"), "m3l", most=len(rows))
    (pair,) = found.pairs()
    assert (pair["label"], pair["given_instead"]) == ("sea", "street")
    assert pair["observed"] > pair["expected"]
    partners = {(cell["label"], cell["problem"], cell["exchanged_with"]) for cell in found.cells()}
    assert partners >= {("sea", "missing", "street"), ("street", "wrong", "sea")}


def test_rows_have_the_names_that_are_given(planted):
    data, wrong = planted
    names = [f"post {row}" for row in range(300)]
    cells = audit(data, "m3l", most=12, row_names=names).cells()
    assert len({(cell["row"], cell["label"]) for cell in cells} & in_names(wrong, names)) >= 11


@pytest.mark.parametrize(("model", "params"), [("m3l", None), ("forest", FEW_TREES)])
def test_threads_do_not_matter(planted, model, params):
    one, two = (audit(planted[0], model, params=params, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert (one.cells(), one.pairs(), one.labels()) == (two.cells(), two.pairs(), two.labels())


def test_the_seed_matters(planted):
    assert audit(planted[0], "m3l").cells() != audit(planted[0], "m3l", random_state=1).cells()


def test_sparse_rows_and_labels(planted):
    data, _ = planted
    sparse = Dataset(sp.csr_array(data.X), sp.csr_array(data.Y), data.feature_names, NAMES, "sparse")
    assert audit(sparse).model == "m3l"
    # Dense features are standardised.
    assert len({c["row"] for c in audit(sparse, most=12).cells()} & set(np.argwhere(planted[1])[:, 0])) >= 11


def test_blocks_of_labels(planted, monkeypatch):
    whole = audit(planted[0], "m3l", most=12).cells()
    monkeypatch.setattr(_audit, "_CELLS_AT_ONCE", 700)  # two labels at once
    parts = audit(planted[0], "m3l", most=12).cells()
    assert {(c["row"], c["label"]) for c in parts} == {(c["row"], c["label"]) for c in whole}


def test_parameters_are_those_given_or_in_the_middle(planted, monkeypatch):
    seen = []

    def spy(estimator, *args):
        seen.append(estimator[-1].get_params())
        return cross_fit(estimator, *args)

    cross_fit = _audit.cross_fit
    monkeypatch.setattr(_audit, "cross_fit", spy)
    audit(planted[0], "m3l", most=1)
    audit(planted[0], "m3l", most=1, params={"C": 5.0})
    audit(planted[0], "m3l-rbf", most=1)
    assert [one["C"] for one in seen] == [0.1, 5.0, 1.0]
    assert seen[2]["gamma"] == pytest.approx(0.25)  # 1 / n_features of standardised ones


def test_texts_with_one_label():
    texts = ["red wine", "white wine", "blue sky", "grey sky"] * 10
    Y = np.array([[1], [1], [0], [0]] * 10, dtype=np.int32)
    Y[4] = 0
    (cell,) = audit(Dataset(texts, Y, (), ("wine",), "texts"), most=1).cells()
    assert (cell["row"], cell["label"], cell["problem"]) == (4, "wine", "missing")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "m3"}, "models: there is no model 'm3'"),
        ({"params": {"D": 1}}, "params: there is no parameter 'D'"),
        ({"folds": 1}, "folds must"),
        ({"folds": 301}, "folds=301, but there are only 300 rows"),
        ({"most": 0}, "most must"),
        ({"n_jobs": 0}, "n_jobs must not be 0"),
        ({"random_state": -1}, "random_state must"),
        ({"row_names": ["a"]}, "row_names has 1 names for 300 rows"),
    ],
)
def test_bad_arguments(planted, arguments, message):
    with pytest.raises(ValueError, match=message):
        audit(planted[0], **arguments)


def test_bad_data(planted):
    data = planted[0]
    with pytest.raises(ValueError, match="dataset must be a Dataset, got a ndarray"):
        audit(data.X)
    with pytest.raises(ValueError, match="model='knn' needs at least two labels"):
        audit(Dataset(data.X, data.Y[:, :1], data.feature_names, NAMES[:1], "one"), "knn")
