"""Files of version 0.1 load and predict the same for ever."""

import json
from pathlib import Path

import numpy as np
import pytest
from make_golden import GOLDEN, MARKS, ROWS, TAGS, TEXTS
from saved_models import read_members
from sklearn.base import clone

from comargin.persistence import inspect, load, save

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", GOLDEN)
def test_they_load_and_predict_the_same(name):
    expected = json.loads((HERE / f"{name}.json").read_text())
    model, (_, new) = load(HERE / f"{name}.cmg"), GOLDEN[name]()
    # Not to the bit: another BLAS may sum in another order.
    np.testing.assert_allclose(model.decision_function(new), expected["scores"], rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(model.predict(new), expected["labels"])
    assert len({tuple(row) for row in expected["labels"]}) > 2


@pytest.mark.parametrize("name", GOLDEN)
def test_they_tell_what_they_are(name):
    facts = inspect(HERE / f"{name}.cmg")
    assert (facts["format"], facts["comargin"]) == (1, "0.1.0")
    assert facts["meta"] == {"labels": ["sea", "city", "sky"], "rows": 24}


def test_parts_of_the_tagger():
    learner = load(HERE / "golden-0.1.cmg").estimator_[-1]
    assert learner.get_params()["class_weight"] == {0: 1.0, 1: 2.0}
    assert learner.cliques_
    assert learner.label_graph_.n_labels == 3
    assert learner.history_[-1].gap == learner.duality_gap_


def test_they_can_be_fitted_again():
    assert clone(load(HERE / "golden-0.1.cmg")).fit(TEXTS, TAGS).predict(TEXTS).shape == (24, 3)
    model = load(HERE / "golden-0.1-kernel.cmg")
    objective = model[-1].objective_
    refitted = model.fit(ROWS, MARKS)  # a warm start from the solution of the file
    assert refitted[-1].objective_ == pytest.approx(objective, rel=1e-2)


@pytest.mark.parametrize("name", GOLDEN)
def test_what_is_written_today_has_the_same_form(name, tmp_path):
    """Names and types of attributes: a change of them needs a reader of the old ones."""
    old, _ = read_members(HERE / f"{name}.cmg")
    new, _ = read_members(save(GOLDEN[name]()[0], tmp_path / "new.cmg"))

    def form(node):
        if isinstance(node, dict):
            return {key: form(item) for key, item in node.items() if key not in ("history_", "rounds_", "defaults")}
        return type(node).__name__

    assert form(new["model"]) == form(old["model"])
    assert old["format"] == new["format"]
