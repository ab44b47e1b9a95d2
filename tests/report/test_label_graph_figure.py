"""Pictures of label graphs: what is drawn, where, how large, and what is refused."""

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal

from comargin.graphs import LabelGraph, chow_liu_tree
from comargin.report import label_graph_figure

NAMES = ("sea", "beach", "sky", "city", "plane", "night")
EDGES = [(0, 1), (1, 2), (0, 2), (2, 3)]
WEIGHTS = [0.9, -0.5, 0.2, 0.05]


@pytest.fixture
def graph():
    return LabelGraph.from_edges(EDGES, WEIGHTS, label_names=NAMES)


def nodes(figure, panel=""):
    """(position, size, text, hover text, kind) of each label, read back from the figure."""
    found = {}
    for trace in figure.data:
        if trace.customdata is not None and trace.xaxis == f"x{panel}":
            columns = (trace.x, trace.y, trace.marker.size, trace.text, trace.hovertext)
            for label, (x, y, *rest) in zip(trace.customdata, zip(*columns, strict=True), strict=True):
                assert label not in found
                found[int(label)] = ((x, y), *rest, trace.name)
    return found


def segments(figure, panel=""):
    """(start, end, width, dash) of each line."""
    lines = []
    for trace in figure.data:
        if trace.mode == "lines" and trace.xaxis == f"x{panel}":
            points = list(zip(trace.x, trace.y, strict=True))
            assert all(point == (None, None) for point in points[2::3])
            pairs = zip(points[::3], points[1::3], strict=True)
            lines += [(start, end, trace.line.width, trace.line.dash) for start, end in pairs]
    return lines


def edges_drawn(figure, panel=""):
    """Width and dash of the line between each pair of labels."""
    label_at = {node[0]: label for label, node in nodes(figure, panel).items()}
    found = {}
    for start, end, width, dash in segments(figure, panel):
        pair = tuple(sorted((label_at[start], label_at[end])))
        assert pair not in found
        found[pair] = (width, dash)
    return found


def test_every_label_and_every_edge_is_drawn_once(graph):
    figure = label_graph_figure(graph)
    assert sorted(nodes(figure)) == list(range(6))
    assert sorted(edges_drawn(figure)) == sorted(EDGES)
    assert [node[2] for _, node in sorted(nodes(figure).items())] == list(NAMES)


def test_widths_follow_absolute_weights_and_signs_are_told(graph):
    drawn = edges_drawn(label_graph_figure(graph))
    widths = [drawn[edge][0] for edge in EDGES]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == 4
    assert [drawn[edge][1] for edge in EDGES] == ["solid", "dash", "solid", "solid"]


def test_widths_are_monotone_over_many_weights():
    weights = np.random.default_rng(0).normal(size=45)
    pairs = list(itertools.combinations(range(10), 2))
    drawn = edges_drawn(label_graph_figure(LabelGraph.from_edges(pairs, weights, n_labels=10)))
    in_order = [drawn[pairs[k]][0] for k in np.argsort(np.abs(weights))]
    assert in_order == sorted(in_order)
    assert in_order[-1] > 2 * in_order[0]
    assert {pair for pair in pairs if drawn[pair][1] == "dash"} == {pairs[k] for k in np.flatnonzero(weights < 0)}


def test_sizes_grow_with_frequency_and_equal_ones_without(graph):
    frequencies = [0.3, 0.1, 0.9, 0.0, 0.5, 0.2]
    drawn = nodes(label_graph_figure(graph, frequencies=frequencies))
    sizes = [drawn[k][1] for k in np.argsort(frequencies)]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 6
    assert sizes[0] > 5  # a label that never occurs is still seen
    assert len({node[1] for node in nodes(label_graph_figure(graph)).values()}) == 1
    never = nodes(label_graph_figure(graph, frequencies=np.zeros(6)))
    assert len({node[1] for node in never.values()}) == 1


def test_isolated_labels_stand_apart_below_with_their_own_look(graph):
    figure = label_graph_figure(graph)
    drawn = nodes(figure)
    kinds = {label: node[4] for label, node in drawn.items()}
    assert [label for label, kind in kinds.items() if kind == "isolated label"] == [4, 5]
    assert [kinds[k] for k in range(4)] == ["label"] * 4
    highest = max(drawn[k][0][1] for k in (4, 5))
    assert highest < min(drawn[k][0][1] for k in range(4)) - 20
    filled, hollow = (trace for trace in figure.data if trace.customdata is not None)
    assert hollow.marker.color == "white" != filled.marker.color
    assert hollow.marker.line.color != filled.marker.color
    assert figure.layout.showlegend
    assert "Isolated labels" in [note.text for note in figure.layout.annotations]
    assert "4 edges, 2 isolated labels" in figure.layout.title.subtitle.text


def test_hover_texts_tell_names_weights_and_frequencies(graph):
    figure = label_graph_figure(graph, frequencies=[0.125, 0.2, 0.3, 0.4, 0.5, 0.6])
    drawn = nodes(figure)
    assert drawn[0][3] == "<b>sea</b><br>frequency 0.125<br>2 edges<br>beach 0.9<br>sky 0.2"
    assert drawn[4][3] == "<b>plane</b><br>frequency 0.5<br>no edge"
    (edge_trace,) = (trace for trace in figure.data if trace.mode == "markers")
    texts = {"<b>sea - beach</b><br>weight 0.9", "<b>beach - sky</b><br>weight -0.5"}
    assert texts < set(edge_trace.hovertext)
    assert edge_trace.marker.opacity == 0
    # The points that carry an edge's text lie on that edge.
    place = {text: (x, y) for text, x, y in zip(edge_trace.hovertext, edge_trace.x, edge_trace.y, strict=True)}
    x, y = place["<b>sea - beach</b><br>weight 0.9"]
    (x0, y0), (x1, y1) = drawn[0][0], drawn[1][0]
    assert (x - x0) * (y1 - y0) == pytest.approx((y - y0) * (x1 - x0), abs=1e-6)


def test_side_by_side_positions_are_the_same(graph):
    Y = np.random.default_rng(0).integers(0, 2, size=(50, 6))
    tree = chow_liu_tree(Y, label_names=NAMES)
    figure = label_graph_figure({"Chow-Liu tree": tree, "learned": graph})
    left, right = nodes(figure), nodes(figure, 2)
    assert sorted(left) == sorted(right) == list(range(6))
    for label in range(6):
        assert left[label][:3] == right[label][:3]
    assert sorted(edges_drawn(figure)) == [tuple(edge) for edge in tree.edges.tolist()]
    assert sorted(edges_drawn(figure, 2)) == sorted(EDGES)
    assert {node[4] for node in left.values()} == {"label"}
    assert [k for k in range(6) if right[k][4] == "isolated label"] == [4, 5]
    x, x2 = figure.layout.xaxis, figure.layout.xaxis2
    assert x.range == x2.range
    assert x.domain[1] < x2.domain[0]
    titles = [note.text for note in figure.layout.annotations]
    assert titles == ["<b>Chow-Liu tree</b>  5 edges", "<b>learned</b>  4 edges, 2 isolated labels"]
    shown = [trace.name for trace in figure.data if trace.showlegend]
    assert sorted(shown) == ["isolated label", "label", "negative weight"]


def test_isolated_in_every_graph_is_below_and_in_one_only_keeps_its_place(graph):
    other = LabelGraph.from_edges([(0, 4)], label_names=NAMES)
    figure = label_graph_figure({"a": graph, "b": other})
    drawn = nodes(figure)
    heights = {k: drawn[k][0][1] for k in range(6)}
    assert heights[5] < min(heights[k] for k in range(5)) - 20
    assert sum(note.text == "Isolated in every graph" for note in figure.layout.annotations) == 2


def test_many_panels_wrap_and_do_not_overlap(graph):
    figure = label_graph_figure({str(k): graph for k in range(5)})
    boxes = []
    for k in range(1, 6):
        suffix = "" if k == 1 else str(k)
        boxes.append((*figure.layout[f"xaxis{suffix}"].domain, *figure.layout[f"yaxis{suffix}"].domain))
    for (l1, r1, b1, t1), (l2, r2, b2, t2) in itertools.combinations(boxes, 2):
        assert r1 < l2 + 1e-9 or r2 < l1 + 1e-9 or t1 < b2 or t2 < b1
    assert len({box[2] for box in boxes}) == 2


@pytest.mark.parametrize("n_panels", [1, 2])
def test_one_unit_is_one_pixel(graph, n_panels):
    layout = label_graph_figure({str(k): graph for k in range(n_panels)}).layout
    inner_width = layout.width - layout.margin.l - layout.margin.r
    inner_height = layout.height - layout.margin.t - layout.margin.b
    x, y = layout.xaxis, layout.yaxis
    assert inner_width * (x.domain[1] - x.domain[0]) == pytest.approx(x.range[1] - x.range[0], abs=1)
    assert inner_height * (y.domain[1] - y.domain[0]) == pytest.approx(y.range[1] - y.range[0], abs=1)
    assert y.scaleanchor == "x"


def test_same_seed_same_figure_other_seed_other_picture():
    ring = LabelGraph.from_edges([(k, (k + 1) % 9) for k in range(9)] + [(0, 4), (2, 7)], n_labels=10)
    assert label_graph_figure(ring).to_json() == label_graph_figure(ring).to_json()
    positions = {tuple(node[0] for _, node in sorted(nodes(label_graph_figure(ring, seed=s)).items())) for s in (0, 50)}
    assert len(positions) == 2


@pytest.mark.parametrize("seed", range(3))
def test_nodes_do_not_overlap_and_stay_inside(seed):
    rng = np.random.default_rng(seed)
    n_labels = 20
    pairs = list(itertools.combinations(range(n_labels), 2))
    chosen = [pairs[k] for k in rng.choice(len(pairs), 15, replace=False)]
    graph = LabelGraph.from_edges(chosen, n_labels=n_labels)
    figure = label_graph_figure(graph, frequencies=rng.uniform(size=n_labels), seed=seed)
    drawn = nodes(figure)
    for one, other in itertools.combinations(drawn.values(), 2):
        assert np.hypot(*np.subtract(one[0], other[0])) > (one[1] + other[1]) / 2
    points = np.array([node[0] for node in drawn.values()])
    assert np.all(points > 0)
    assert np.all(points < [figure.layout.xaxis.range[1], figure.layout.yaxis.range[1]])


def test_a_tree_of_many_labels_shows_names_that_fit_and_hover_texts_for_all():
    rng = np.random.default_rng(0)
    names = [f"TAG_number_{k}" for k in range(159)]
    edges = [(int(rng.integers(k)), k) for k in range(1, 110)]
    figure = label_graph_figure(LabelGraph.from_edges(edges, rng.uniform(size=109), label_names=names))
    drawn = nodes(figure)
    assert [drawn[k][3].split("<br>")[0] for k in range(159)] == [f"<b>{name}</b>" for name in names]
    shown = [k for k in range(159) if drawn[k][2]]
    assert set(shown) <= set(range(110))  # isolated ones are too many for names
    assert len(shown) > 40
    assert figure.layout.width <= 1100
    # The names shown do not cover each other: boxes of 10 pixel letters, half as wide as high.
    sides = {}
    for trace in figure.data:
        if trace.customdata is not None:
            sides |= dict(zip(trace.customdata, trace.textposition, strict=True))
    boxes = []
    for k in shown:
        (x, y), size, text = drawn[k][:3]
        row, column = sides[k].split()
        away, half = size / 2, len(text) * 5 / 2
        x += {"left": -away - half, "center": 0, "right": away + half}[column]
        y += {"bottom": -away - 5, "middle": 0, "top": away + 5}[row]
        boxes.append((x - half, x + half, y - 5, y + 5))
    for (l1, r1, b1, t1), (l2, r2, b2, t2) in itertools.combinations(boxes, 2):
        assert r1 <= l2 or r2 <= l1 or t1 <= b2 or t2 <= b1


def test_up_to_forty_labels_all_names_are_shown():
    pairs = list(itertools.combinations(range(20), 2))
    figure = label_graph_figure(LabelGraph.from_edges(pairs, n_labels=40))
    assert all(node[2] for node in nodes(figure).values())


@pytest.mark.parametrize("n_labels", [1, 2, 7, 60])
def test_no_edges(n_labels):
    figure = label_graph_figure(LabelGraph.from_edges([], n_labels=n_labels))
    assert {node[4] for node in nodes(figure).values()} == {"isolated label"}
    assert not segments(figure)
    assert not figure.layout.showlegend
    assert len({node[0] for node in nodes(figure).values()}) == n_labels


@pytest.mark.parametrize("edges", [[(0, 1)], [(0, 1), (1, 2)], [(0, 1), (1, 2), (0, 2)], [(0, 1), (2, 3)]])
def test_small_graphs_have_finite_distinct_positions(edges):
    figure = label_graph_figure(LabelGraph.from_edges(edges, n_labels=1 + max(map(max, edges))))
    points = np.array([node[0] for node in nodes(figure).values()])
    assert np.all(np.isfinite(points))
    assert min(np.hypot(*(a - b)) for a, b in itertools.combinations(points, 2)) > 30


def test_more_labels_than_stress_can_take_are_drawn_too():
    rng = np.random.default_rng(0)
    graph = LabelGraph.from_edges([(int(rng.integers(k)), k) for k in range(1, 320)], n_labels=320)
    assert len(nodes(label_graph_figure(graph))) == 320


def test_the_diagonal_is_no_edge():
    figure = label_graph_figure(LabelGraph(np.eye(3)))
    assert not segments(figure)


def test_markup_in_names_and_titles_is_shown_as_text():
    names = ["<b>x</b>", "say \"a\" & 'b'", "$x^2$", "%{x}", "two\nlines"]
    graph = LabelGraph.from_edges([(0, 1), (1, 2)], label_names=names)
    figure = label_graph_figure({"<i>one</i>": graph}, title="a < b & c")
    drawn = nodes(figure)
    texts = [drawn[k][2] for k in range(5)]
    assert texts == ["&lt;b&gt;x&lt;/b&gt;", "say \"a\" &amp; 'b'", "&#36;x^2&#36;", "%{x}", "two lines"]
    assert drawn[0][3].startswith("<b>&lt;b&gt;x&lt;/b&gt;</b><br>")
    assert figure.layout.title.text == "a &lt; b &amp; c"
    assert figure.layout.annotations[0].text.startswith("<b>&lt;i&gt;one&lt;/i&gt;</b>")
    for trace in figure.data:  # a template would read %{x}
        assert trace.hovertemplate is None
        assert trace.texttemplate is None


def test_long_names_are_cut_in_the_picture_only():
    name = "a name that nobody wants to read in a picture"
    drawn = nodes(label_graph_figure(LabelGraph.from_edges([(0, 1)], label_names=[name, "b"])))
    assert drawn[0][2] == "a name that nobod..."
    assert name in drawn[0][3]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, sp.csr_matrix])
def test_frequencies_may_be_the_mean_of_any_indicator(graph, form):
    Y = np.random.default_rng(1).integers(0, 2, size=(30, 6))
    from_dense = label_graph_figure(graph, frequencies=Y.mean(axis=0))
    given = label_graph_figure(graph, frequencies=form(Y).mean(axis=0))
    assert_array_equal([nodes(given)[k][1] for k in range(6)], [nodes(from_dense)[k][1] for k in range(6)])


@pytest.mark.parametrize(
    ("frequencies", "message"),
    [
        ([0.1, 0.2], r"frequencies must be 6 numbers, one per label.*got shape \(2,\)"),
        ([1, 2, 3, 4, 5, 6], r"frequencies must lie in \[0, 1\], got 2; divide counts"),
        ([0.1] * 5 + [np.nan], r"frequencies must lie in \[0, 1\], got nan"),
        ([-0.1] * 6, "frequencies must lie in"),
        (["a"] * 6, "frequencies must be 6 numbers"),
        (np.zeros((10, 6)), r"frequencies must be 6 numbers.*Y.mean\(axis=0\)"),
    ],
)
def test_bad_frequencies(graph, frequencies, message):
    with pytest.raises(ValueError, match=message):
        label_graph_figure(graph, frequencies=frequencies)


def test_bad_graphs_and_seed(graph):
    with pytest.raises(ValueError, match=r"graphs must be a non-empty mapping from names to LabelGraph.*got a ndarray"):
        label_graph_figure(np.eye(3))
    with pytest.raises(ValueError, match=r"graphs must be a non-empty mapping.*an empty mapping"):
        label_graph_figure({})
    with pytest.raises(ValueError, match=r"graphs\['b'\] must be a LabelGraph, got a list"):
        label_graph_figure({"a": graph, "b": [[0, 1]]})
    other = LabelGraph.from_edges(EDGES, n_labels=6)
    with pytest.raises(ValueError, match=r"same labels in the same order: graphs\['b'\] has 6 labels \(label_0"):
        label_graph_figure({"a": graph, "b": other})
    for seed in (-1, 1.5, "0", None, True):
        with pytest.raises(ValueError, match="seed must be an int"):
            label_graph_figure(graph, seed=seed)
