"""Where the labels of a graph stand: one unit of the plane is one pixel of the picture.

Labels with edges stand in a core, drawn by the distances in the graph; labels without any stand in rows below it.
"""

import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, shortest_path

from ..core.checks import whole_number
from ..core.wording import shortened

# The clearest of four or two layouts by least stress is kept; their cost grows with the square of the labels.
_MAX_LABELS_WITH_FOUR_STARTS, _MAX_LABELS_BY_STRESS = 60, 300
_TOUCHING = 0.03  # a node so near to an edge, as a fraction of the width, looks like a part of it
# Up to so many labels every name is shown, beyond it those in the core that have room.
_MAX_NAMES = 40
_LONGEST_NAME = 20
_SIDES = ("top center", "bottom center", "middle right", "middle left")
_CORNERS = ("top right", "bottom right", "top left", "bottom left")  # farther from the node
_MARGIN = 48.0
_ROW_HEADING = 30.0
_OVERHANG = 16.0  # a name may reach so far into the margin around the panel
_HIT = 1000.0  # cost of covering a name or a node: more than all edges together in most pictures

_Box = tuple[float, float, float, float]  # left, right, low, high


class Plane(NamedTuple):
    """Positions of all labels and their names, shared by all panels of a figure."""

    points: np.ndarray  # (n_labels, 2), from (0, 0) at the lower left to (width, height)
    width: float  # of a panel
    height: float
    in_core: np.ndarray  # whether a label has an edge in any of the graphs
    rows_top: float  # height below which the rows of labels without edges stand; 0 without such labels
    names: list[str]  # shortened
    font_size: float
    sides: list[str]  # where each name stands, as a ``textposition`` of plotly; "" for a name that is not shown


def place_labels(edges: np.ndarray, label_names: Sequence[str], sizes: np.ndarray, widest: float, seed: int) -> Plane:
    """Place nodes of these sizes and their names, given the edges of all graphs together."""
    whole_number("seed", seed, 0, 2**31 - 1)
    n_labels = len(label_names)
    names = [short_name(name) for name in label_names]
    font_size = 12.0 if n_labels <= 60 else 10.0
    in_core = np.zeros(n_labels, dtype=bool)
    in_core[edges.ravel()] = True
    core, alone = np.flatnonzero(in_core), np.flatnonzero(~in_core)
    width = min(max(125.0 * np.sqrt(n_labels), 540.0), widest)

    points = np.zeros((n_labels, 2))
    core_height = 0.0
    if core.size:
        number_in_core = np.cumsum(in_core) - 1
        shape = _upright(_core_shape(number_in_core[edges], core.size, int(seed)))
        extent = np.ptp(shape, axis=0)
        scale = (width - 2 * _MARGIN) / extent[0]
        # A graph that is nearly a line still gets some height for the names; a square one does not get too tall.
        inner_height = min(max(extent[1] * scale, 60.0), 0.85 * width)
        scale_y = min(scale, inner_height / extent[1]) if extent[1] > 0 else scale
        core_height = inner_height + 2 * _MARGIN
        points[core] = (shape - (shape.min(axis=0) + shape.max(axis=0)) / 2) * [scale, scale_y]
    points[alone], rows_height = _rows([names[k] for k in alone], width, font_size)
    points[core] += [width / 2, rows_height + core_height / 2]
    plane = Plane(points, width, rows_height + core_height, in_core, rows_height, names, font_size, [])
    return plane._replace(sides=_sides_of_names(plane, edges, sizes / 2))


def short_name(name: str) -> str:
    """The name as a picture shows it; hover texts have the whole name."""
    return shortened(name, _LONGEST_NAME)


def text_width(text: str, font_size: float) -> float:
    """Estimated width of a text in pixels; wide (East Asian) characters are square."""
    return font_size * sum(1.0 if unicodedata.east_asian_width(character) in "WF" else 0.6 for character in text)


def _sides_of_names(plane: Plane, edges: np.ndarray, radii: np.ndarray) -> list[str]:
    """Choose the side of its node on which each name stands.

    One name after the other, labels with many edges first, takes the side where it covers the fewest names and
    nodes, then the fewest edges. With more than `_MAX_NAMES` labels, names of the core that would cover something are
    left out, and so are all in the rows below.
    """
    points, core = plane.points, np.flatnonzero(plane.in_core)
    n_alone = len(points) - core.size
    chosen = ["" if is_core or n_alone > _MAX_NAMES else "bottom center" for is_core in plane.in_core]
    n_steps = int(np.clip(15000 // max(len(edges), 1), 12, 30))
    steps = np.linspace(0.0, 1.0, n_steps)[1:-1, None, None]
    on_edges = (points[edges[:, 0]] * (1 - steps) + points[edges[:, 1]] * steps).reshape(-1, 2)
    degree = np.bincount(edges.ravel(), minlength=len(points))
    taken: list[_Box] = []
    for k in core[np.argsort(-degree[core], kind="stable")]:

        def cost_of(place: tuple[str, _Box], k: int = k) -> float:
            position, (left, right, low, high) = place
            outside = max(-left, 0.0) + max(right - plane.width, 0.0) + max(high - plane.height, 0.0)
            nearest = np.clip(points[core], [left, low], [right, high])
            covered = (np.hypot(*(points[core] - nearest).T) < radii[core]) & (core != k)
            names_hit = sum(left < b[1] and b[0] < right and low < b[3] and b[2] < high for b in taken)
            pad = 4.0  # edges are wide
            inside = (on_edges > [left - pad, low - pad]) & (on_edges < [right + pad, high + pad])
            hits = names_hit + np.count_nonzero(covered) + (outside > _OVERHANG)
            far = 4.0 if position in _CORNERS else 0.0
            return float(_HIT * hits + outside + far + np.count_nonzero(inside.all(axis=1)))

        places = _places(points[k], radii[k], text_width(plane.names[k], plane.font_size), plane.font_size)
        position, box = best = min(places, key=cost_of)
        if core.size <= _MAX_NAMES or cost_of(best) < _HIT:
            chosen[k] = position
            taken.append(box)
    return chosen


def _places(point: np.ndarray, radius: float, width: float, height: float) -> list[tuple[str, _Box]]:
    """The eight places of a name, the best first, and the boxes it takes there."""
    x, y = point
    gap = radius / 0.8 + 1.0  # plotly's own distance of a text from its marker
    line = 1.25 * height
    columns = {
        "left": (x - gap - width, x - gap),
        "center": (x - width / 2, x + width / 2),
        "right": (x + gap, x + gap + width),
    }
    rows = {
        "top": (y + gap, y + gap + line),
        "bottom": (y - gap - line, y - gap),
        "middle": (y - line / 2, y + line / 2),
    }
    places = [side.split() for side in _SIDES + _CORNERS]
    return [(f"{row} {column}", columns[column] + rows[row]) for row, column in places]


def _core_shape(edges: np.ndarray, n_labels: int, seed: int) -> np.ndarray:
    """Positions without scale, distances in the plane like distances in the graph (Kamada and Kawai, 1989)."""
    try:
        import networkx
    except ImportError as error:
        raise ImportError("figures of label graphs need networkx: pip install 'comargin[report]'") from error
    graph = networkx.Graph()
    graph.add_nodes_from(range(n_labels))
    graph.add_edges_from(edges.tolist())
    if n_labels > _MAX_LABELS_BY_STRESS:
        return np.array(list(networkx.spring_layout(graph, seed=seed).values()))
    distances = _distances(edges, n_labels)
    by_label = {k: dict(enumerate(row.tolist())) for k, row in enumerate(distances)}
    found = []
    for k in range(4 if n_labels <= _MAX_LABELS_WITH_FOUR_STARTS else 2):
        start = networkx.spring_layout(graph, seed=seed + k)
        found.append(np.array(list(networkx.kamada_kawai_layout(graph, dist=by_label, pos=start).values())))
    return min(found, key=lambda shape: (_nodes_on_edges(shape, edges), _stress(shape, distances)))


def _distances(edges: np.ndarray, n_labels: int) -> np.ndarray:
    """Numbers of edges between labels; parts that are not connected stand side by side without overlap."""
    graph = sp.csr_array((np.ones(len(edges)), edges.T), shape=(n_labels, n_labels))
    distances = np.asarray(shortest_path(graph, directed=False, unweighted=True))
    _, part = connected_components(graph, directed=False)
    radius = np.array([distances[np.ix_(part == p, part == p)].max() / 2 for p in part])
    return np.where(np.isfinite(distances), distances, 1.0 + 0.8 * (radius[:, None] + radius))


def _nodes_on_edges(shape: np.ndarray, edges: np.ndarray) -> int:
    """How often a label lies on an edge between two others, which then looks like two edges."""
    start, along = shape[edges[:, 0]], shape[edges[:, 1]] - shape[edges[:, 0]]
    square_length = np.maximum(np.sum(along**2, axis=1), np.finfo(np.float64).tiny)
    total = 0
    for k, point in enumerate(shape):
        where = np.clip(np.sum((point - start) * along, axis=1) / square_length, 0.0, 1.0)
        distance = np.linalg.norm(start + where[:, None] * along - point, axis=1)
        near = distance < _TOUCHING * np.ptp(shape, axis=0).max()
        total += int(np.count_nonzero(near & np.all(edges != k, axis=1)))
    return total


def _stress(shape: np.ndarray, distances: np.ndarray) -> float:
    """Relative errors of all distances, squared and summed, at the best scale."""
    upper = np.triu_indices(len(shape), k=1)
    ratio = np.linalg.norm(shape[upper[0]] - shape[upper[1]], axis=1) / distances[upper]
    return float(np.sum((ratio * (ratio.sum() / np.sum(ratio**2)) - 1.0) ** 2))


def _upright(shape: np.ndarray) -> np.ndarray:
    """Turn the long side to the horizontal, the first label to the upper left."""
    centered = shape - shape.mean(axis=0)
    _, _, axes = np.linalg.svd(centered, full_matrices=False)
    turned = centered @ axes.T
    turned[:, 0] *= -1.0 if turned[0, 0] > 0 else 1.0
    turned[:, 1] *= -1.0 if turned[0, 1] < 0 else 1.0
    return np.asarray(turned)


def _rows(names: list[str], width: float, font_size: float) -> tuple[np.ndarray, float]:
    """Positions of labels without edges, in rows from the top, and the height of all rows with their heading."""
    if not names:
        return np.empty((0, 2)), 0.0
    pitch_x = pitch_y = 30.0
    if len(names) <= _MAX_NAMES:
        pitch_x, pitch_y = max(max(text_width(name, font_size) for name in names) + 12.0, 48.0), 56.0
    per_row = max(min(int((width - 16.0) // pitch_x), len(names)), 1)
    n_rows = -(-len(names) // per_row)
    per_row = -(-len(names) // n_rows)  # rows of equal length
    k = np.arange(len(names))
    height = n_rows * pitch_y + _ROW_HEADING
    x = 8.0 + (width - 16.0) * (k % per_row + 0.5) / per_row
    y = height - _ROW_HEADING - pitch_y * (k // per_row + 0.4)
    return np.column_stack([x, y]), height
