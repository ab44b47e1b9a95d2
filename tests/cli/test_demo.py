"""`comargin demo` and `comargin warmup`, as a user meets them."""

import io
import re
import sys
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from command import run
from rich.console import Console
from sklearn.base import clone

from comargin import tune
from comargin.cli import _demo
from comargin.cli._demo import _gap, _picture, _scaled, models_of_the_demo
from comargin.data import load

# Round values, from which folds of the training images choose those of the demo.
_ALPHAS, _GAMMAS, _CS = (1.0, 0.1, 0.01, 0.001), (0.03, 0.1, 0.3, 1.0), (0.1, 1.0, 10.0, 100.0)
_KERNEL = (("gamma", _GAMMAS), ("C", _CS))
_PRIVILEGED = (("C", _CS), ("gamma2", (0.1, 1.0, 10.0)))
GRIDS = {
    "scikit-learn *": (("estimator__C", _CS),),
    "M3L": (("C", (0.01, *_CS)),),
    "M3L, whole sets": (("estimator__C", (0.01, *_CS)),),
    "LSG21": (("alpha", (0.1, 1.0, 10.0)),),
    "PrBR": _PRIVILEGED,
    "PrML": _PRIVILEGED,
    "CGM, its own graph": (("alpha", _ALPHAS),),
    "structured SVM, tree": (("alpha", _ALPHAS),),
    "CGM, rbf": (("gamma", _GAMMAS), ("alpha", _ALPHAS)),
    "SVC, rbf **": (("estimator__gamma", _GAMMAS), ("estimator__C", _CS)),
    "Rank-CVM, rbf": _KERNEL,
    "Rank-SVM, rbf": _KERNEL,
    "M3L, rbf kernel": _KERNEL,
}


def rows_of_the_table(out):
    """Cells of every model, with any kind of lines between them."""
    lines = out[out.index("On the new images") :].splitlines()
    rows = [re.split(r"\s*\|\s*|\s{2,}", line.strip(" |")) for line in lines]
    models = models_of_the_demo()
    return {name: cells for name, *cells in rows if name in models}


def shown_in_ascii(folder, monkeypatch):
    """What a demo of the quick models prints on a console that knows only ASCII."""
    slow = ("PrML", "Rank-SVM, rbf")
    quick = {name: model for name, model in models_of_the_demo().items() if name not in slow}
    quick["CGM, its own graph"].set_params(alpha=0.1)
    monkeypatch.setattr(_demo, "models_of_the_demo", lambda: quick)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True))
    monkeypatch.setenv("COLUMNS", "80")
    _demo.demo(folder=folder)
    return sys.stdout.buffer.getvalue().decode("ascii")


@pytest.mark.compiled
def test_the_demo_on_a_console_that_knows_only_ascii(tmp_path, capsys, monkeypatch):
    """All models, in a table for people: tests/test_readme.py."""
    out = shown_in_ascii(tmp_path / "made", monkeypatch)
    assert max(map(len, out[: out.index("made/report.html")].splitlines()[:-1])) <= 80
    rows = rows_of_the_table(out)
    assert len(rows) == len(models_of_the_demo()) - 2
    for name, (wrong, right, micro_f1, rank_loss, gap, seconds) in rows.items():
        assert 0.0 <= float(wrong.rstrip("%")) <= 28.0
        assert 10.0 <= float(right.rstrip("%")) <= 100.0
        assert 0.8 <= float(micro_f1) <= 1.0
        assert 0.0 <= float(rank_loss) <= 0.3
        assert float(seconds) >= 0.0
        is_ours = "*" not in name and name != "the usual segments"
        assert (gap == "-") != is_ours
        assert not is_ours or float(gap.removeprefix("< ")) <= 1e-3
    assert "Certified." in out
    pictures = out[out.index("Three new images") : out.index("On the new images")]
    assert " ---- " in pictures
    assert "\\u" not in out
    assert "7/12 training structured SVM, tree" in capsys.readouterr().err.splitlines()
    assert "7 labels" in (tmp_path / "made" / "report.html").read_text(encoding="utf-8")
    root = ElementTree.parse(tmp_path / "made" / "graph.svg").getroot()
    texts = {text.text for text in root.iter("{http://www.w3.org/2000/svg}text")}
    assert set("abcdefg") <= texts
    assert sorted(path.name for path in (tmp_path / "made").iterdir()) == ["graph.svg", "report.html"]


def test_without_the_extra_there_is_no_page(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    digits = _scaled(load("digits"))
    (line,) = _demo._written(None, digits, digits, tmp_path)
    assert "pip install 'comargin[report]'" in line
    assert not list(tmp_path.iterdir())


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "made").write_text("mine")
    with pytest.raises(ValueError, match=r"--folder .*made is a file"):
        _demo.demo(folder=tmp_path / "made")
    assert (tmp_path / "made").read_text() == "mine"


def test_a_gap_is_shown_as_a_share():
    class Model:
        objective_, duality_gap_ = 200.0, 0.1

    assert _gap(Model()) == "5e-04"
    Model.duality_gap_ = 1e-12
    assert _gap(Model()) == "< 1e-09"
    assert _gap(object()) == "-"


def test_the_demo_says_when_a_picture_is_wrong():
    digits = _scaled(load("digits", split="test"))
    for n_wrong, title in ((0, "a 3"), (1, "a 3 (1 segment wrong)"), (2, "a 3 (2 segments wrong)")):
        predicted = digits.Y.copy()
        predicted[0, :n_wrong] = 1 - predicted[0, :n_wrong]
        console = Console(width=60, record=True, file=io.StringIO())
        console.print(_picture(digits, predicted, 0, plain=False))
        assert console.export_text().splitlines()[0].strip("\u256d\u256e\u2500 ") == title


@pytest.mark.slow
@pytest.mark.parametrize("name", GRIDS)
def test_parameters_are_those_that_folds_of_the_training_images_choose(name):
    train = _scaled(load("digits", split="train"))
    model = models_of_the_demo()[name]
    used = model.get_params(deep=True)
    defaults = type(getattr(model, "estimator", model))().get_params()
    start = clone(model).set_params(**{key: defaults[key.split("__")[-1]] for key, _ in GRIDS[name]})
    found = tune(start, train.X, train.Y, GRIDS[name], cv=3, random_state=0, refit=False)
    assert found.best_params == {key: used[key] for key, _ in GRIDS[name]}


def test_every_learner_is_in_the_demo():
    import comargin

    learners = {
        name for name in comargin.__all__ if name.endswith("Classifier") and hasattr(getattr(comargin, name), "predict")
    }
    learners -= {"AutoClassifier", "StackedStructureClassifier", "ZeroShotClassifier"}  # made of others
    assert learners <= {type(model).__name__ for model in models_of_the_demo().values()}
    assert set(GRIDS) == set(models_of_the_demo()) - {"the usual segments"}


@pytest.mark.compiled
def test_warmup_says_what_it_has_done(monkeypatch):
    import comargin.training

    def compile_some(callback):
        callback("M3L", 0, 2)
        callback("CGM", 1, 2)
        return 7

    monkeypatch.setattr(comargin.training, "warmup", compile_some)
    code, out, err = run("warmup")
    assert code == 0
    assert re.fullmatch(r"Compiled 7 loops in \d+ s; they are kept on disk\.\n", out)
    assert err == "0/2 M3L\n1/2 CGM\n"
    monkeypatch.setattr(comargin.training, "warmup", lambda callback: 0)
    assert run("warmup", "--quiet") == (0, "All loops are compiled already.\n", "")


def test_images_are_scaled_alike():
    train, test = (_scaled(load("digits", split=part)) for part in ("train", "test"))
    assert (np.min(train.X), np.max(train.X), np.max(test.X)) == (0.0, 1.0, 1.0)
