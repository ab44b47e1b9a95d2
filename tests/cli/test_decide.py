"""Aims, probabilities and promises on the command line."""

import csv
import json

import numpy as np
import pytest
from command import run

from comargin.data import make_correlated, read, write
from comargin.training import Tagger

DATA = make_correlated(700, n_features=6, n_labels=4, seed=0)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Rows to learn from, new ones, and taggers with an aim, with a promise, and with a rule."""
    folder = tmp_path_factory.mktemp("decide")
    write(DATA, folder / "rows.csv")
    common = ("train", folder / "rows.csv", "-p", "C=0.1", "--no-tune", "-q", "-o")
    for name, options in {
        "aim": ("--aim", "1:4"),
        "promise": ("--guarantee", "recall >= 0.6 and false tags per row of label_0 <= 0.9", "--confidence", "0.8"),
        "rule": ("--thresholds", "global"),
    }.items():
        code, _, err = run(*common, folder / f"{name}.cmg", *options)
        assert code == 0, err
    return folder


def test_aims_and_probabilities_of_new_rows(files):
    tagger = Tagger.load(files / "aim.cmg")
    assert tagger.facts["aim"] == [1.0, 4.0]
    P = tagger.probabilities(DATA.X)
    for aim, arguments in (([1.0, 4.0], ()), ("macro_f1", ("--aim", "macro_f1"))):
        code, out, _ = run("predict", files / "aim.cmg", files / "rows.csv", "--proba", "--top-k", "2", *arguments)
        assert code == 0
        rows = list(csv.DictReader(out.splitlines()))
        found = [[float(row[f"probability:label_{k}"]) for k in range(4)] for row in rows]
        np.testing.assert_array_equal(found, P)
        best = [float(row["top_probabilities"].split(";")[0]) for row in rows]
        np.testing.assert_array_equal(best, P.max(axis=1))
        expected = tagger.predict(DATA.X, aim).toarray()
        assert [len(row["labels"].split(";")) if row["labels"] else 0 for row in rows] == expected.sum(axis=1).tolist()
    code, out, _ = run("predict", files / "aim.cmg", files / "rows.csv", "--proba", "--to", "jsonl")
    first = json.loads(out.splitlines()[0])["probabilities"]
    assert list(first.values()) == P[0].tolist()


def test_promises_are_said_and_measured(files):
    tagger = Tagger.load(files / "promise.cmg")
    assert "at least 0.8 over the draw of the 210 calibration rows" in tagger.facts["guarantee"]
    code, out, err = run("evaluate", files / "promise.cmg", files / "rows.csv", "--json")
    assert (code, err) == (0, "")
    promise = json.loads(out)["promise"]
    assert list(promise) == ["recall >= 0.6", "false tags per row of label_0 <= 0.9"]
    on = tagger.predict(DATA.X).toarray()
    assert promise == tagger.promise.measured(DATA.Y, on)
    _, out, _ = run("evaluate", files / "promise.cmg", files / "rows.csv", "-q")
    assert f"Promised: recall >= 0.6. On these rows: {promise['recall >= 0.6']:.3f}" in out
    _, out, err = run(
        "predict", files / "promise.cmg", files / "rows.csv", "--aim", "micro_f1", "-o", files / "out.csv"
    )
    assert "--aim: these label sets do not keep the promise of the tagger, recall >= 0.6 and" in err
    output = ("-o", files / "held_out.cmg")
    code, out, err = run(
        "train", files / "rows.csv", "--holdout", "0.3", "--no-tune", "--guarantee", "recall >= 0.5", *output
    )
    assert code == 0, err
    assert "Promised: recall >= 0.5. On the test rows: 0." in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--aim", "micro-f1"), "--aim must be a measure or costs, got 'micro-f1'; did you mean 'micro_f1'"),
        (("--aim", "1:x"), "--aim 1:x: write costs as 1:5"),
        (("--aim", "1:2:3"), "--aim must have shape"),
        (("--aim", "precision_at_9"), "--aim must be of at most 4 labels, got 'precision_at_9'"),
        (("--guarantee", "recal >= 0.9"), "--guarantee: unknown measure 'recal'; did you mean 'recall'?"),
        (("--guarantee", "recall of label_9 >= 0.9"), "--guarantee: there is no label 'label_9'"),
        (("--guarantee", "recall >= 0.999"), "--guarantee: 210 calibration rows cannot keep 'recall >= 0.999'"),
        (("--guarantee", "recall >= 0.9", "--confidence", "2"), "--confidence must be a number between 0 and 1"),
        (("--guarantee", "recall >= 0.9", "--aim", "macro_f1"), "--aim and --guarantee exclude each other"),
        (("--guarantee", "recall >= 0.9", "--thresholds", "global"), "--aim and --guarantee need"),
        (("--confidence", "0.5"), "--confidence is that of a --guarantee, which is not given"),
    ],
)
def test_what_is_wrong_with_an_option_is_said_before_anything_is_learned(files, arguments, message, tmp_path):
    code, out, err = run("train", files / "rows.csv", "-o", tmp_path / "t.cmg", *arguments)
    assert code != 0
    assert out == ""
    assert "tune:" not in err
    assert message in err
    assert not list(tmp_path.iterdir())


def test_taggers_with_a_rule_have_no_probabilities(files):
    for command in (("predict", "--proba"), ("predict", "--aim", "macro_f1"), ("evaluate", "--aim", "macro_f1")):
        code, _, err = run(command[0], files / "rule.cmg", files / "rows.csv", *command[1:])
        assert code != 0
        assert "that was trained without --thresholds" in err
    assert read(files / "rows.csv").Y.shape == (700, 4)
