"""`comargin graph`: the label graph of taggers and of data, as pictures and as files for other programs."""

import csv
import xml.etree.ElementTree as ElementTree

import networkx
import numpy as np
import pytest
import scipy.sparse as sp
from command import code_of, run

from comargin import M3LClassifier, StructuredSVMClassifier
from comargin.data import Dataset, load, write
from comargin.graphs import smoothed_correlation
from comargin.training import Tagger

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def taggers(tmp_path_factory):
    """A folder with tree.cmg, which has a graph, and m3l.cmg, which has none."""
    folder = tmp_path_factory.mktemp("taggers")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    Y = (X + 0.2 * rng.normal(size=(40, 3)) > 0).astype(int)
    for name, model in {
        "tree": StructuredSVMClassifier(graph="tree", random_state=0),
        "m3l": M3LClassifier(random_state=0),
    }.items():
        Tagger(model.fit(X, Y), ("sea", "sky", "<city>"), 3).save(folder / f"{name}.cmg")
    return folder


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_the_graph_of_a_tagger(taggers, tmp_path):
    code, out, err = run("graph", taggers / "tree.cmg", "-o", tmp_path / "tree.csv")
    assert (code, err) == (0, "")
    assert out == f"{tmp_path / 'tree.csv'}: 3 labels, 2 edges\n"
    head, *edges = rows_of(tmp_path / "tree.csv")
    assert head == ["source", "target", "weight"]
    assert {name for edge in edges for name in edge[:2]} == {"sea", "sky", "<city>"}
    weights = [abs(float(edge[2])) for edge in edges]
    assert weights == sorted(weights, reverse=True)


def test_pictures_show_the_labels(taggers, tmp_path):
    for suffix in ("svg", "html"):
        code, _, err = run("graph", taggers / "tree.cmg", "-o", tmp_path / f"tree.{suffix}")
        assert code == 0, err
    root = ElementTree.parse(tmp_path / "tree.svg").getroot()
    assert {"sea", "sky", "<city>"} <= {node.text for node in root.iter(f"{SVG}text")}
    assert len(list(root.iter(f"{SVG}line"))) == 2
    assert "label graph of StructuredSVMClassifier" in (tmp_path / "tree.svg").read_text()
    assert "<city>" not in (tmp_path / "tree.html").read_text(encoding="utf-8").replace("\\u003ccity\\u003e", "")


def test_the_default_file_is_a_picture_here(taggers, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, _ = run("graph", taggers / "tree.cmg")
    assert code == 0
    assert out.startswith("tree-graph.svg: ")
    assert (tmp_path / "tree-graph.svg").exists()


def test_the_graph_of_data(tmp_path):
    code, out, err = run("graph", "digits", "-o", tmp_path / "digits.graphml")
    assert code == 0, err
    assert "7 labels, 21 edges" in out
    graph = networkx.read_graphml(tmp_path / "digits.graphml")
    digits = load("digits")
    expected = smoothed_correlation(digits.Y, label_names=digits.label_names)
    names = networkx.get_node_attributes(graph, "label")
    assert tuple(names.values()) == digits.label_names
    found = {(names[i], names[j]): weight for i, j, weight in graph.edges(data="weight")}
    assert found == {(edge.source, edge.target): edge.weight for edge in expected.top_edges()}
    shares = list(networkx.get_node_attributes(graph, "frequency").values())
    np.testing.assert_allclose(shares, np.asarray(digits.Y).mean(axis=0))


def test_kind_and_top(tmp_path):
    for kind in ("correlation", "cosine"):
        assert run("graph", "digits", "--kind", kind, "--top", "4", "-o", tmp_path / f"{kind}.csv")[0] == 0
    correlation, cosine = (rows_of(tmp_path / f"{kind}.csv") for kind in ("correlation", "cosine"))
    assert len(correlation) == len(cosine) == 5
    assert correlation[1:] != cosine[1:]
    assert any(float(edge[2]) < 0 for edge in correlation[1:])
    assert all(float(edge[2]) > 0 for edge in cosine[1:])


def test_a_part_says_that_it_is_one(tmp_path):
    code, _, err = run("graph", "digits", "-o", tmp_path / "a.svg")
    assert code == 0
    assert err == "15 of 21 edges are drawn; --top says how many\n"
    assert "digits: correlations of labels, the 15 strongest of 21 edges" in (tmp_path / "a.svg").read_text()
    assert run("graph", "digits", "-o", tmp_path / "a.svg", "-q")[2] == ""
    assert run("graph", "digits", "-o", tmp_path / "a.svg", "--top", "30")[2] == ""
    assert (tmp_path / "a.svg").read_text().count("<line") == 21 + 1  # one in the legend
    assert run("graph", "digits", "-o", tmp_path / "a.svg", "--title", "Mine")[0] == 0
    assert ">Mine</text>" in (tmp_path / "a.svg").read_text()


def test_many_labels(tmp_path):
    rng = np.random.default_rng(0)
    Y = sp.random_array((300, 1200), density=0.01, rng=rng, format="csr", dtype=float)
    Y.data[:] = 1
    names = tuple(f"y{k}" for k in range(1200))
    many = Dataset(sp.csr_array(np.ones((300, 1))), sp.csr_array(Y.astype(np.int8)), ("x",), names, "many")
    write(many, tmp_path / "many.libsvm")
    options = ("--format", "libsvm", "--n-labels", "1200", "--top", "30")
    code, out, err = run("graph", tmp_path / "many.libsvm", *options, "-o", tmp_path / "a.svg")
    assert code == 0, err
    assert "cosines, as 1200 labels are too many" in err
    assert int(out.split(": ")[1].split()[0]) <= 60  # only labels of these edges are drawn
    code, out, _ = run("graph", tmp_path / "many.libsvm", *options, "-o", tmp_path / "a.graphml")
    assert "1200 labels, 30 edges" in out


def test_names_that_xml_cannot_hold(tmp_path):
    (tmp_path / "a.csv").write_text("x,label:a\x01,label:a\x02,label:&<\n1,1,0,1\n2,1,1,0\n3,0,1,1\n", encoding="utf-8")
    for suffix in ("svg", "graphml"):
        code, _, err = run("graph", tmp_path / "a.csv", "-o", tmp_path / f"a.{suffix}")
        assert code == 0, err
    assert len(ElementTree.parse(tmp_path / "a.svg").findall(f"{SVG}circle")) >= 3
    graph = networkx.read_graphml(tmp_path / "a.graphml")
    assert list(networkx.get_node_attributes(graph, "label").values()) == ["a\ufffd", "a\ufffd", "&<"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["m3l.cmg"], "M3LClassifier has no label graph"),
        (["tree.cmg", "--kind", "cosine"], "--kind: for data"),
        (["tree.cmg", "--split", "test", "--text", "body"], "--split, --text: for data"),
        (["tree.cmg", "-o", "a.png"], "--output must end in one of .svg, .html, .graphml, .csv"),
        (["nothing.cmg"], "there is no tagger"),
        (["nothing.csv"], "there is no file"),
        (["digts"], "did you mean digits"),
    ],
)
def test_mistakes_end_in_one_line(taggers, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    source = taggers / arguments[0] if "." in arguments[0] else arguments[0]
    code, out, err = run("graph", source, *arguments[1:])
    assert code == code_of(err)
    assert message in err
    assert (out, err.count("\n")) == ("", 1)
    assert not list(tmp_path.iterdir())


def test_top_must_be_positive():
    assert run("graph", "digits", "--top", "0")[0] == 2
