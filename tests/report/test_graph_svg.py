"""The label graph as SVG: well formed, complete, and as the figure shows it."""

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from comargin.graphs import LabelGraph
from comargin.report import label_graph_svg

SVG = "{http://www.w3.org/2000/svg}"
NAMES = ["sea", "beach", "city", 'a "quoted" <b>&</b> name']


@pytest.fixture
def graph():
    return LabelGraph.from_edges([(0, 1), (1, 2)], [0.8, -0.2], label_names=NAMES)


def parts(svg, kind):
    return list(ElementTree.fromstring(svg.encode()).iter(f"{SVG}{kind}"))


def test_all_labels_and_edges_are_there(graph):
    svg = label_graph_svg(graph, frequencies=[0.5, 0.4, 0.1, 0.0], title="Beaches & <towns>")
    texts = [text.text for text in parts(svg, "text")]
    assert texts[0] == "Beaches & <towns>"
    assert texts[1] == "2 edges, 1 isolated label. Line width: weight. Node size: frequency."
    assert {"sea", "beach", "city", 'a "quoted" <b>&</...'} <= set(texts)  # long names are shortened
    tooltips = [title.text for title in parts(svg, "title")]
    assert "sea - beach: 0.8" in tooltips
    assert f"{NAMES[3]}\nfrequency 0\nno edge" in tooltips


def test_widths_are_weights_and_sizes_frequencies(graph):
    svg = label_graph_svg(graph, frequencies=[0.5, 0.4, 0.1, 0.0])
    edges = [line for line in parts(svg, "line") if line.find(f"{SVG}title") is not None]
    weak, strong = edges  # the strong ones are drawn last, above the others
    assert float(strong.get("stroke-width")) == pytest.approx(8.0)
    assert float(weak.get("stroke-width")) == pytest.approx(1.0 + 7.0 * 0.25)
    assert (weak.get("stroke-dasharray"), strong.get("stroke-dasharray")) == ("7 5", None)
    circles = [circle for circle in parts(svg, "circle") if circle.find(f"{SVG}title") is not None]
    radii = [float(circle.get("r")) for circle in circles]
    assert radii == sorted(radii, reverse=True)
    assert circles[3].get("fill") == "white"  # isolated


def test_the_same_graph_gives_the_same_text(graph):
    assert label_graph_svg(graph) == label_graph_svg(graph)


def test_everything_is_inside(rng):
    weights = np.triu(rng.normal(size=(60, 60)) * (rng.random((60, 60)) < 0.05), k=1)
    svg = label_graph_svg(LabelGraph(weights + weights.T, [f"label number {k}" for k in range(60)]))
    root = ElementTree.fromstring(svg.encode())
    width, height = float(root.get("width")), float(root.get("height"))
    for circle in parts(svg, "circle"):
        x, y, r = (float(circle.get(name)) for name in ("cx", "cy", "r"))
        assert r <= x <= width - r
        assert r <= y <= height - r


def test_a_graph_without_edges():
    svg = label_graph_svg(LabelGraph.from_edges([], label_names=["a", "b"]))
    assert len(parts(svg, "circle")) == 2
    assert not parts(svg, "line")


def test_characters_that_xml_does_not_have():
    svg = label_graph_svg(LabelGraph.from_edges([(0, 1)], label_names=["a\x00b", "\ud800"]))
    assert {"a\ufffdb", "\ufffd"} <= {text.text for text in parts(svg, "text")}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"graph": [[0, 1], [1, 0]]}, "graph must be a LabelGraph, got a list"),
        ({"seed": -1}, "seed must be an int"),
        ({"frequencies": [1.0]}, "frequencies must be 4 numbers"),
        ({"frequencies": [3, 1, 1, 1]}, "frequencies must lie in"),
    ],
)
def test_wrong_arguments_are_named(graph, arguments, message):
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        label_graph_svg(**{"graph": graph, **arguments})
