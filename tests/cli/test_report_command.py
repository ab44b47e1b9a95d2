"""`comargin report`: one page about a tagger, with and without rows."""

import pytest
from command import code_of, run
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline

from comargin import M3LClassifier
from comargin.data import load, write
from comargin.training import Tagger

TEXTS = ["rain and wind", "the cup final", "rain stops the final", "sun at last", "cup and sun", "wind again"]
TAGS = ["weather", "sport", "weather;sport", "weather", "weather;sport", "weather"]


@pytest.fixture(scope="module")
def taggers(tmp_path_factory):
    """A folder with digits.cmg and posts.cmg."""
    folder = tmp_path_factory.mktemp("taggers")
    train = load("digits", split="train")
    facts = {"model": "m3l", "searched": {"C": 0.01}, "criterion": None, "parameters": {"C": 0.01}}
    model = M3LClassifier(C=0.01, random_state=0).fit(train.X, train.Y)
    Tagger(model, train.label_names, 64, train.feature_names, {}, facts).save(folder / "digits.cmg")
    Y = [[int(name in tags.split(";")) for name in ("sport", "weather")] for tags in TAGS]
    texts = make_pipeline(TfidfVectorizer(), M3LClassifier(random_state=0)).fit(TEXTS, Y)
    reading = {"text": "body", "labels": "tags", "sep": ";"}
    Tagger(texts, ("sport", "weather"), None, (), reading).save(folder / "posts.cmg")
    return folder


def posts(path, extra=""):
    path.write_text("body,tags\n" + "".join(f"{text},{tags}\n" for text, tags in zip(TEXTS, TAGS, strict=True)) + extra)
    return path


def test_a_page_stands_beside_its_tagger(taggers):
    code, out, err = run("report", taggers / "digits.cmg")
    assert (code, err) == (0, "")
    page = taggers / "digits.html"
    assert out == f"{page}: {page.stat().st_size / 1e6:.1f} MB\n"
    text = page.read_text(encoding="utf-8")
    assert "<h1>digits</h1>" in text
    assert "without labelled rows" in text
    about = text.split("<h3>About the training</h3>")[1].split("<h3>")[0]
    assert "digits.cmg" in about
    assert "searched" in about
    assert "criterion" not in about  # has no value
    assert "parameters" not in about  # in a table of their own


def test_rows_of_a_known_set_are_its_test_rows(taggers, tmp_path):
    target = tmp_path / "page.html"
    code, _, err = run("report", taggers / "digits.cmg", "digits", "-o", target, "--title", "Segments <a> & b")
    assert code == 0, err
    text = target.read_text(encoding="utf-8")
    assert "<h1>Segments &lt;a&gt; &amp; b</h1>" in text
    assert "on 450 rows with 7 labels of digits" in text


def test_rows_of_a_file(taggers, tmp_path):
    write(load("digits", split="test"), tmp_path / "new.csv")
    code, _, err = run("report", taggers / "digits.cmg", tmp_path / "new.csv", "-o", tmp_path / "page.html")
    assert code == 0, err
    assert "on 450 rows with 7 labels of new.csv" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_texts_are_read_as_in_training(taggers, tmp_path):
    path = posts(tmp_path / "new.csv", "a new law,politics\n")
    code, _, err = run("report", taggers / "posts.cmg", path, "-o", tmp_path / "page.html")
    assert code == 0, err
    assert "politics" in err  # a label the tagger does not know
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "on 7 rows with 2 labels" in text
    assert run("report", taggers / "posts.cmg", path, "-o", tmp_path / "page.html", "-q")[2] == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.cmg"], "there is no tagger"),
        (["digits.cmg", "-o", "page.pdf"], "--output must end in .html, got 'page.pdf'"),
        (["digits.cmg", "-o", "."], "--output . is a folder"),
        (["digits.cmg", "--split", "test"], "need DATA"),
        (["digits.cmg", "nothing.csv"], "there is no file nothing.csv"),
        (["digits.cmg", "digts"], "did you mean digits"),
        (["posts.cmg", "digits"], "the tagger takes texts"),
    ],
)
def test_mistakes_end_in_one_line(taggers, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("report", taggers / arguments[0], *arguments[1:])
    assert code == code_of(err)
    assert message in err
    assert (out, err.count("\n")) == ("", 1)
    assert not list(tmp_path.iterdir())


def test_a_broken_tagger(tmp_path):
    (tmp_path / "a.cmg").write_bytes(b"PK\x03\x04 nothing")
    code, _, err = run("report", tmp_path / "a.cmg")
    assert code == code_of(err)
    assert err.count("\n") == 1
    assert "a.cmg" in err
