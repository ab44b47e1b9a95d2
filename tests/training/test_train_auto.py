"""Training without a model's name: interruptions, budgets, files, pages and comparisons of a blend."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier

from comargin import AutoClassifier, M3LClassifier
from comargin.comparison import compare
from comargin.data import Dataset, make_correlated
from comargin.decisions import BlendedClassifier
from comargin.report import model_report
from comargin.training import ModelRecipe, Tagger, _folder, train
from comargin.training.building import default_model

_toy = make_correlated(160, n_features=5, n_labels=3, seed=0)
_Y = np.array(_toy.Y)
_Y[:, 0] ^= _toy.X[:, 0] * _toy.X[:, 1] > 0.0  # a label for trees
DATA = Dataset(_toy.X, _Y, _toy.feature_names, _toy.label_names, "crossed")
MEMBERS = [("linear", M3LClassifier(loss="logistic")), ("trees", RandomForestClassifier(15))]
AUTO = ModelRecipe("small auto", AutoClassifier(MEMBERS), prepare=False)


class KilledError(Exception):
    """Stands for the end of a process."""


def test_without_a_name_it_is_auto_unless_something_is_of_one_model():
    assert default_model(None, {}, False) == "auto"
    assert [default_model(*given) for given in (({"C": 1}, None), (None, {"C": [1]}), (None, True))] == ["m3l"] * 3
    assert train(DATA, params={"C": 1.0}).facts["model"] == "m3l"


def test_the_facts_say_what_was_tried_and_the_file_has_the_members(tmp_path):
    tagger = train(DATA, AUTO, aim="subset_accuracy")
    trials = tagger.facts["trials"]
    assert [trial["model"] for trial in trials] == ["linear", "trees"]
    assert tagger.facts["budget"] == "6 fits"
    assert isinstance(tagger.model.estimator_[-1], BlendedClassifier)
    loaded = Tagger.load(tagger.save(tmp_path / "tagger.cmg"))
    assert loaded.facts == tagger.facts
    np.testing.assert_array_equal(loaded.probabilities(DATA.X), tagger.probabilities(DATA.X))
    assert [name for name, _ in loaded.model.members_] == ["linear", "trees"]
    np.testing.assert_array_equal(loaded.model.weights_, tagger.model.weights_)
    assert loaded.model.trials_ == tagger.model.trials_
    page = model_report(loaded.model, DATA)
    assert "2 models of 2 trials" in page
    assert page.index("Members</h2>") < page.index("Training</h2>")


@pytest.mark.parametrize("n_kept", [1, 3, 4, 6, 9, 10, 11])
def test_an_interrupted_training_goes_on(n_kept, tmp_path, monkeypatch):
    whole = train(DATA, AUTO)
    kept, keep = [], _folder.FolderMemory.keep

    def keep_some(memory, key, value):
        if len(kept) == n_kept:
            raise KilledError
        kept.append(key)
        keep(memory, key, value)

    with monkeypatch.context() as patched:
        patched.setattr(_folder.FolderMemory, "keep", keep_some)
        try:
            train(DATA, AUTO, checkpoint=tmp_path)
        except KilledError:
            assert len(kept) == n_kept
    resumed = train(DATA, AUTO, checkpoint=tmp_path)
    np.testing.assert_array_equal(resumed.probabilities(DATA.X), whole.probabilities(DATA.X))
    for one, other in zip(resumed.facts["trials"], whole.facts["trials"], strict=True):
        assert {**one, "seconds": 0.0} == {**other, "seconds": 0.0}


def test_a_wish_to_stop_ends_the_last_fit_with_what_it_has():
    stopped = train(DATA, AUTO, should_stop=lambda: True)
    whole = train(DATA, AUTO)
    (_, linear), (_, trees) = stopped.model.members_
    assert linear.n_iter_ < dict(whole.model.members_)["linear"].n_iter_
    assert len(trees.estimators_) == 15
    assert stopped.probabilities(DATA.X).shape == DATA.Y.shape


def test_a_budget_is_for_a_model_that_chooses():
    assert len(train(DATA, AUTO, budget="3 fits").facts["trials"]) == 1
    with pytest.raises(ValueError, match="budget= is for auto"):
        train(DATA, "m3l", budget="5m")
    with pytest.raises(ValueError, match="budget must be a time"):
        train(DATA, AUTO, budget="soon")


def test_one_label_and_a_promise():
    one = Dataset(DATA.X, DATA.Y[:, :1], DATA.feature_names, DATA.label_names[:1], "one")
    linear = ModelRecipe("linear auto", AutoClassifier(["m3l"]), prepare=False)
    assert train(one, linear, tune=False).probabilities(one.X).shape == (160, 1)
    tagger = train(DATA, linear, tune=False, guarantee="recall >= 0.4", confidence=0.6)
    assert tagger.facts["certified_by_rows"] == 48
    assert tagger.facts["trials"][0]["rows"] == 112


def test_it_is_compared_like_any_other(tmp_path):
    settings = {"folds": 2, "inner_folds": 2, "measures": ["micro_f1", "ranking_loss"]}
    found = [
        compare(DATA, [AUTO, "m3l"], tune=tune, results=tmp_path / f"{tune}.csv", **settings) for tune in (False, True)
    ]
    assert not any(cell["error"] for one in found for cell in one.cells)
    cells = [{cell["cell"] for cell in one.cells if cell["model"] == AUTO.name} for one in found]
    assert cells[0] - cells[1] == cells[0]  # with and without its search it is another model
    for one in found:
        assert one.table("ranking_loss").mean[0, 0] < 0.2
