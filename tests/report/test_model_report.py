"""The page: its parts follow from the model and the rows, names are text, and nothing is loaded."""

import base64
import hashlib
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline

from comargin import CGMClassifier, LSG21Classifier, M3LClassifier, RankSVMClassifier
from comargin.core.result import Checkpoint
from comargin.data import Dataset
from comargin.decisions import DecisionClassifierCV, ThresholdClassifierCV
from comargin.graphs import LabelGraph
from comargin.metrics import evaluate, per_label
from comargin.report import model_report, save_report
from comargin.report.label_figures import strongest_part

HOSTILE = (
    "<script>window.hacked = 1</script>",
    "</script><script>window.hacked = 1</script>",
    "\"' onmouseover='window.hacked = 1'",
    "<img src=x onerror='window.hacked = 1'>",
)


class Page(HTMLParser):
    """Elements, ids and texts of a page, and what its scripts are."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.ids, self.links, self.attributes = [], [], [], []
        self.scripts, self.texts, self.cells, self._open = [], [], [], None
        self.feed(text)
        self.close()
        (self.data,) = (json.loads(s) for kind, s in self.scripts if kind == "application/json")
        self.shown = " ".join(" ".join(self.texts).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        attrs = dict(attrs)
        self.attributes += attrs
        self._open = (tag, attrs.get("type"))
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "a":
            self.links.append(attrs["href"])
        if tag == "meta" and "http-equiv" in attrs:
            self.policy = attrs["content"]

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open and self._open[0] == "script":
            self.scripts.append((self._open[1], data))
        elif not (self._open and self._open[0] == "style"):
            self.texts.append(data)

    @property
    def sections(self):
        return [link.removeprefix("#") for link in self.links]


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 6))
    return X, (X[:, :4] + 0.5 * X[:, 1:5] + 0.7 * rng.normal(size=(90, 4)) > 0.4).astype(int)


def ovr():
    return OneVsRestClassifier(LogisticRegression())


ALWAYS = ["summary", "graph", "labels", "one-label", "confused"]
END = ["scores", "training"]


@pytest.mark.parametrize(
    ("model", "sections"),
    [
        (M3LClassifier(), [*ALWAYS, "why", "features", *END, "convergence"]),
        (ThresholdClassifierCV(M3LClassifier(), cv=2), [*ALWAYS, "why", "features", *END, "convergence"]),
        (M3LClassifier(kernel="rbf"), [*ALWAYS, "why", *END, "convergence"]),
        (RankSVMClassifier(), [*ALWAYS, "why", *END, "convergence"]),
        (LSG21Classifier(), [*ALWAYS, "why", "features", *END, "convergence"]),
        (CGMClassifier(alpha=0.1, max_cliques=2, random_state=0), [*ALWAYS, "why", "features", *END, "convergence"]),
        (ovr(), [*ALWAYS, "why", "features", "scores", "probabilities", "training"]),
        (
            DecisionClassifierCV(M3LClassifier(), guarantee="recall of 0 >= 0.1", confidence=0.5, cv=2),
            [*ALWAYS, "why", "features", "scores", "probabilities", "promise", "training", "convergence"],
        ),
        (RandomForestClassifier(n_estimators=3, max_depth=2, random_state=0), [*ALWAYS, *END]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_sections_follow_from_the_model(model, sections, rows):
    page = Page(model_report(model.fit(*rows), rows))
    assert page.sections == sections
    assert set(page.sections) <= set(page.ids)
    assert len(page.ids) == len(set(page.ids))
    places = {name.removeprefix("figure-") for name in page.ids if name.startswith("figure-")}
    assert places == set(page.data["figures"])
    assert len(page.data["labels"]) == 4
    assert type(model).__name__ in page.shown


@pytest.mark.parametrize(
    ("model", "sections"),
    [
        (M3LClassifier(), ["features", "training", "convergence"]),
        (CGMClassifier(alpha=0.1, max_cliques=2, random_state=0), ["graph", "features", "training", "convergence"]),
        (RandomForestClassifier(n_estimators=3, random_state=0), ["training"]),
    ],
    ids=lambda value: type(value).__name__,
)
def test_without_rows_the_model_tells_about_itself(model, sections, rows):
    page = Page(model_report(model.fit(*rows), label_names=list("abcd")))
    assert page.sections == sections
    assert "labels" not in page.data
    assert "without labelled rows" in page.shown


def test_numbers_of_the_page_are_those_of_the_metrics(rows):
    X, Y = rows
    model = M3LClassifier().fit(X, Y)
    names = ["sea", "sun", "sky", "ski"]
    page = Page(model_report(model, rows, label_names=names, feature_names=list("uvwxyz"), meta={"seed": {"x": 7}}))
    scores, predicted = model.decision_function(X), model.predict(X)
    measures = evaluate(Y, scores, predicted)
    assert f"{measures['micro_f1']:.3f} Micro F1 higher is better" in page.shown
    assert f"Ranking loss {measures['ranking_loss']:.4g} lower Mean fraction of pairs" in page.shown
    for label in per_label(Y, predicted, names, scores):
        row = [label["label"], str(label["support"]), str(label["predicted"])]
        row += [f"{label[measure]:.3f}" for measure in ("precision", "recall", "f1", "auc")]
        assert " ".join(row) in page.shown
    assert f"no solution is below {model.dual_objective_:.6g}" in page.shown
    assert "seed: x 7" in page.shown
    assert page.data["first"] == int(np.argmax(Y.sum(axis=0)))
    for k, detail in enumerate(page.data["labels"]):
        assert detail["name"] == names[k]
        assert detail["cut"] == 0.0
        order = np.argsort(-model.coef_[k])
        assert detail["features"]["names"] == ["uvwxyz"[j] for j in order]
        np.testing.assert_allclose(detail["features"]["weights"], model.coef_[k, order], rtol=1e-3)
        without, with_label = detail["histogram"][2:]
        assert sum(without) == pytest.approx(1, abs=1e-2)
        assert sum(with_label) == pytest.approx(1, abs=1e-2)


def test_a_graph_of_the_model_is_shown_before_correlations(rows):
    model = CGMClassifier(alpha=0.1, max_cliques=2, random_state=0).fit(*rows)
    page = Page(model_report(model, rows, label_names=list("abcd")))
    assert "The graph of the model." in page.shown
    edges = {(i, j) for i, j, _ in page.data["graph"]["edges"]}
    assert edges == {tuple(edge) for edge in model.label_graph_.edges.tolist()}
    assert len(page.data["figures"]["rounds"]["data"]) > 0
    other = Page(model_report(M3LClassifier().fit(*rows), rows))
    assert "Correlations of the true labels of these rows." in other.shown
    assert other.data["graph"]["names"][0] == {"full": "label_0", "short": "label_0"}


def test_texts_through_a_pipeline():
    texts = ["red sea", "blue sea", "red sun", "blue sun", "red sea sun", "grey sky"] * 4
    Y = np.array([[int("sea" in text), int("sun" in text)] for text in texts])
    model = make_pipeline(TfidfVectorizer(), ThresholdClassifierCV(ovr(), cv=2)).fit(texts, Y)
    page = Page(model_report(model, Dataset(texts, Y, (), ("SEA", "SUN"), "waves")))
    assert (
        "TfidfVectorizer > ThresholdClassifierCV > OneVsRestClassifier, on 24 rows with 2 labels of waves" in page.shown
    )
    assert page.data["labels"][0]["features"]["names"][0] == "sea"
    assert page.data["labels"][1]["name"] == "SUN"
    assert {"red sea", "grey sky"}.isdisjoint(page.texts)  # words, not texts


def test_tags_are_explained_by_numbers_that_sum(rows):
    X, Y = rows
    model = M3LClassifier().fit(X, Y)
    names, features = ["sea", "sun", "sky", "ski"], list("uvwxyz")
    page = Page(model_report(model, (X[:4], Y[:4]), label_names=names, feature_names=features))
    assert (
        f"The tags of the first {np.count_nonzero(model.predict(X[:4]).any(axis=1))} rows that have some" in page.shown
    )
    (row, label), *_ = np.argwhere(model.predict(X[:4]))
    products = X[row] * model.coef_[label]
    order = np.argsort(-np.abs(products))
    sides = [
        " , ".join(f"{features[j]} {products[j]:+.3g}" for j in order if sign * products[j] > 0) or "none"
        for sign in (1, -1)
    ]
    begin = f"{row} {names[label]} {'yes' if Y[row, label] else 'no'} {model.decision_function(X)[row, label]:.4g} "
    assert f"{begin}{sides[0]} {sides[1]} 0 {model.intercept_[label]:.4g}" in page.shown.replace(" ,", " ,")


def test_names_in_explanations_are_text_and_short():
    X = np.array([[1.0, 0.0], [0.0, 1.0]] * 4)
    names = ["<b>" * 40, "<script>window.hacked = 1</script>"]
    page = model_report(ovr().fit(X, X.astype(int)), (X, X.astype(int)), label_names=HOSTILE[:2], feature_names=names)
    why = page[page.index('<section id="why">') : page.index('<section id="features">')]
    assert "<script>" not in why
    assert "<b>" not in why
    assert "&lt;b&gt;" in why
    assert "&lt;b&gt;" * 20 not in why


def test_hostile_names_stay_text_and_no_foreign_script_may_run(rows):
    X, Y = rows
    model = M3LClassifier().fit(X, Y)
    text = model_report(
        model,
        rows,
        label_names=HOSTILE,
        feature_names=[*HOSTILE, "&amp;", "$x$"],
        title=HOSTILE[1],
        meta={HOSTILE[0]: HOSTILE[1], HOSTILE[2]: {HOSTILE[3]: 1}},
    )
    page = Page(text)
    for name in HOSTILE:
        assert page.shown.count(" ".join(name.split())) >= 3  # choice, tables, meta
    assert "img" not in page.tags
    assert not [name for name in page.attributes if name.startswith("on")]
    kinds = [kind for kind, _ in page.scripts]
    assert kinds == ["application/json", None, None]
    assert not set("<>&") & set(page.scripts[0][1])
    allowed = re.search(r"script-src ([^;]*)", page.policy)[1].split()
    digests = [hashlib.sha256(script.encode()).digest() for kind, script in page.scripts if kind is None]
    assert allowed == [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    assert page.policy.startswith("default-src 'none'")
    # In figures plotly reads markup: it must not see any of ours.
    drawn = json.dumps(page.data["figures"])
    assert "<script" not in drawn
    assert "<img" not in drawn
    assert "<script" not in json.dumps([detail["features"] for detail in page.data["labels"]])
    assert page.data["labels"][0]["name"] == HOSTILE[0]  # set as text by the script


def test_the_page_holds_everything_once_and_is_the_same_every_time(rows):
    model = M3LClassifier().fit(*rows)
    text = model_report(model, rows)
    assert text == model_report(model, rows)
    assert not re.findall(r"<(?:script|link|img|iframe)[^>]*\b(?:src|href)\s*=", text)
    assert 4_000_000 < len(text) < 6_000_000  # plotly.js is in it once


def test_without_figures_there_is_no_plotly(rows):
    model = RandomForestClassifier(n_estimators=3, random_state=0).fit(*rows)
    assert len(model_report(model)) < 100_000


def test_hundreds_of_labels_make_no_large_page():
    rng = np.random.default_rng(0)
    n_labels = 150
    X = rng.normal(size=(600, 30))
    Y = (X @ rng.normal(size=(30, n_labels)) + rng.normal(size=(600, n_labels)) > 9).astype(int)
    Y[:, 7] = 0
    coef = rng.normal(size=(n_labels, 30))
    coef[7] = 0.0

    class Fixed:
        classes_, coef_ = np.arange(n_labels), coef

        def decision_function(self, X):
            return X @ self.coef_.T

        def predict(self, X):
            return (self.decision_function(X) > 10).astype(int)

    text = model_report(Fixed(), (X, Y))
    assert len(text) < 9_000_000
    page = Page(text)
    assert len(page.data["labels"]) == n_labels
    assert len(page.data["graph"]["edges"]) == 225
    assert "The 225 strongest of" in page.shown
    assert page.data["labels"][7]["curve"] is None
    assert "label_7 0 0 not defined not defined not defined not defined" in page.shown
    # The predictions have a cut at 10 that the model does not tell: none is drawn where it makes a difference.
    differs = (Fixed().decision_function(X) > 0).any(axis=0)
    assert differs.sum() > 100
    assert [detail["cut"] is None for detail in page.data["labels"]] == differs.tolist()


def test_beyond_a_thousand_labels_the_most_frequent_are_shown(monkeypatch, rows):
    X, Y = rows
    monkeypatch.setattr("comargin.report._report._MOST_LABELS", 3)
    model = M3LClassifier().fit(X, Y)
    page = Page(model_report(model, rows, label_names=list("abcd")))
    rarest = "abcd"[int(np.argmin(Y.sum(axis=0)))]
    assert [detail["name"] for detail in page.data["labels"]] == [name for name in "abcd" if name != rarest]
    assert "The 3 most frequent of 4 labels." in page.shown
    places = dict(zip("abcd", (-1,) * 4, strict=True)) | {d["name"]: k for k, d in enumerate(page.data["labels"])}
    drawn = [name["full"] for name in page.data["graph"]["names"]]
    assert page.data["graph"]["labels"] == [places[name] for name in drawn]


def test_the_drawn_part_of_a_graph_has_its_strongest_edges():
    rng = np.random.default_rng(0)
    weights = rng.normal(size=(30, 30))
    graph = LabelGraph(np.triu(weights, 1) + np.triu(weights, 1).T)
    part = strongest_part(graph)
    assert len(part.edge_weights) == 45
    assert [e.weight for e in part.top_edges()] == [e.weight for e in graph.top_edges(45)]
    assert part.label_names == graph.label_names
    small = LabelGraph.from_edges([(0, 1)], n_labels=5)
    assert strongest_part(small) is small
    wide = LabelGraph.from_edges([(0, 1), (2, 600)], [1.0, -2.0], n_labels=700)
    assert strongest_part(wide).label_names == ("label_0", "label_1", "label_2", "label_600")
    assert [tuple(edge) for edge in strongest_part(wide).top_edges()] == [tuple(edge) for edge in wide.top_edges()]


@pytest.mark.parametrize(("last_dual", "dtick"), [(0.5, None), (1 - 1e-5, 1), (1 - 1e-12, 2)])
def test_powers_of_ten_are_not_crowded(rows, last_dual, dtick):
    model = M3LClassifier().fit(*rows)
    model.history_ = [Checkpoint(1, 0.1, 1.0, 0.1), Checkpoint(2, 0.2, 1.0, last_dual)]
    page = Page(model_report(model))
    assert page.data["figures"]["gap"]["layout"]["yaxis"].get("dtick") == dtick


def test_one_label_needs_no_graph(rows):
    X, Y = rows
    page = Page(model_report(M3LClassifier().fit(X, Y[:, :1]), (X, Y[:, :1])))
    assert page.sections == ["summary", "labels", "one-label", "why", "features", "scores", "training", "convergence"]


def test_bad_arguments_are_named(rows, tmp_path):
    X, Y = rows
    model = M3LClassifier().fit(X, Y)
    with pytest.raises(ValueError, match=r"model must be a fitted classifier with predict, got a str"):
        model_report("tagger.cmg")
    with pytest.raises(ValueError, match=r"model must be fitted: M3LClassifier has no classes_"):
        model_report(make_pipeline(M3LClassifier()))
    with pytest.raises(ValueError, match=r"dataset must be a Dataset, a pair \(X, Y\) or None, got a ndarray"):
        model_report(model, X)
    with pytest.raises(ValueError, match=r"dataset must have at least one row and one label"):
        model_report(model, (X[:0], Y[:0]))
    with pytest.raises(ValueError, match=r"label_names must have 4 names, one per label, got 2"):
        model_report(model, rows, label_names=["a", "b"])
    with pytest.raises(ValueError, match=r"label_names must be distinct, but 'a' stands twice"):
        model_report(model, rows, label_names=["a", "a", "b", "c"])
    with pytest.raises(ValueError, match=r"feature_names must name the 6 features of the model, got 1"):
        model_report(model, rows, feature_names=["a"])
    with pytest.raises(ValueError, match=r"meta must be a mapping or None, got a list"):
        model_report(model, meta=[1])
    with pytest.raises(ValueError, match=r"path must end in .html, got 'page.pdf'"):
        save_report("<p>", tmp_path / "page.pdf")
    with pytest.raises(ValueError, match=r"report must be the page that model_report returns, got a SimpleNamespace"):
        save_report(SimpleNamespace(), tmp_path / "page.html")
    assert not list(tmp_path.iterdir())


def test_saving_replaces_a_file_as_a_whole(tmp_path, monkeypatch):
    path = save_report("<p>\u00e4</p>", tmp_path / "page.html")
    assert path.read_text(encoding="utf-8") == "<p>\u00e4</p>"
    with pytest.raises(UnicodeEncodeError):
        save_report("\ud800", path)
    assert path.read_text(encoding="utf-8") == "<p>\u00e4</p>"
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_without_plotly_the_extra_is_named(rows, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r"figures need plotly: pip install 'comargin\[report\]'"):
        model_report(M3LClassifier().fit(*rows))


def test_the_guide_does_what_it_says(tmp_path, monkeypatch):
    guide = (Path(__file__).resolve().parents[2] / "docs" / "report.md").read_text(encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    exec(compile(re.search(r"```python\n(.*?)```", guide, flags=re.DOTALL)[1], "report.md", "exec"), {})
    page = Page((tmp_path / "digits.html").read_text(encoding="utf-8"))
    assert "trained on digits, training part" in page.shown
    titles = re.findall(r"^\| (\w[\w ]*) \|", guide, flags=re.MULTILINE)[1:]
    assert len(titles) == len(page.sections)
    assert all(title in page.shown for title in titles)


def test_what_measures_mean_does_not_need_docstrings():
    code = "from comargin.report._sections import _meaning; print(_meaning('precision_at_3'))"
    done = subprocess.run([sys.executable, "-OO", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "Mean fraction of relevant labels among the 3 best-scored ones of each row.\n"
