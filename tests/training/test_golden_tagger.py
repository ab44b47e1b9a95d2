"""Taggers of earlier versions load and predict as they did."""

import json
from pathlib import Path

import numpy as np
import pytest

from comargin.training import Tagger

GOLDEN = sorted(Path(__file__).parent.glob("golden-*-tagger.cmg"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_a_tagger_of_an_earlier_version(path):
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    tagger = Tagger.load(path)
    assert list(tagger.label_names) == expected["label_names"]
    assert tagger.reading == expected["reading"]
    assert tagger.facts["model"] == expected["model"]
    assert tagger.predict(expected["texts"]).toarray().tolist() == expected["labels"]
    np.testing.assert_allclose(tagger.scores(expected["texts"]), expected["scores"], rtol=1e-12, atol=1e-12)


def test_there_is_one():
    assert GOLDEN
