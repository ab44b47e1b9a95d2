"""Files that work offline, what is missing said plainly, and nothing imported too early."""

import importlib.util
import re
import subprocess
import sys

import pytest

from comargin.core.result import Checkpoint
from comargin.graphs import LabelGraph
from comargin.report import label_graph_figure, objective_figure, rounds_figure, save_figure

GRAPH = LabelGraph.from_edges([(0, 1)], label_names=["</script><script>alert(1)</script>", "b"])
HISTORY = [Checkpoint(1, 0.1, 2.0, 1.0)]


@pytest.fixture
def figure():
    return label_graph_figure(GRAPH, title='a < "b" & c')


def test_html_holds_everything_and_is_the_same_every_time(figure, tmp_path):
    path = save_figure(figure, tmp_path / "graph.html")
    assert path == tmp_path / "graph.html"
    page = path.read_text(encoding="utf-8")
    assert len(page) > 1_000_000  # plotly.js is in it
    assert not re.findall(r"<(?:script|link|img)[^>]*\b(?:src|href)\s*=", page)
    assert '<title>a &lt; "b" &amp; c</title>' in page
    assert page == save_figure(figure, str(tmp_path / "again.HTML")).read_text(encoding="utf-8")


def test_a_label_cannot_end_the_script(figure, tmp_path):
    page = save_figure(figure, tmp_path / "graph.html").read_text(encoding="utf-8")
    assert "alert(1)" in page
    assert "</script><script>alert(1)" not in page


def test_unknown_endings_and_other_things_are_refused(figure, tmp_path):
    with pytest.raises(ValueError, match=r"path must end in one of .html, .png, .svg, .pdf, got 'graph.txt'"):
        save_figure(figure, tmp_path / "graph.txt")
    with pytest.raises(ValueError, match=r"figure must be a plotly.graph_objects.Figure, got a LabelGraph"):
        save_figure(GRAPH, tmp_path / "graph.html")
    assert not list(tmp_path.iterdir())


def test_images_need_kaleido_and_say_so(figure, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"\.png files need kaleido: pip install kaleido"):
        save_figure(figure, tmp_path / "graph.png")


def test_images_are_left_to_plotly(figure, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    written = []
    monkeypatch.setattr(type(figure), "write_image", lambda self, path, scale: written.append((path, scale)))
    save_figure(figure, tmp_path / "graph.svg")
    assert written == [(tmp_path / "graph.svg", 2)]


@pytest.mark.parametrize("make", [lambda: label_graph_figure(GRAPH), lambda: objective_figure({"a": HISTORY})])
def test_without_plotly_the_extra_is_named(make, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    with pytest.raises(ImportError, match=r"figures need plotly: pip install 'comargin\[report\]'"):
        make()


def test_without_networkx_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "networkx", None)
    with pytest.raises(ImportError, match=r"need networkx: pip install 'comargin\[report\]'"):
        label_graph_figure(GRAPH)
    assert objective_figure({"a": HISTORY}).data  # curves do not need it
    assert label_graph_figure(LabelGraph.from_edges([], n_labels=2)).data


def test_importing_the_report_imports_neither():
    code = "import sys, comargin.report; print({'plotly', 'networkx', 'sklearn', 'numba'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_all_figures_share_one_look():
    class Round:
        n_cliques, objective, gap, hamming, seconds = 1, 1.0, 0.1, 0.2, 3.0

    figures = [label_graph_figure(GRAPH), objective_figure({"a": HISTORY}), rounds_figure([Round()])]
    looks = {(f.layout.paper_bgcolor, f.layout.font.family, f.layout.title.font.size) for f in figures}
    assert len(looks) == 1
