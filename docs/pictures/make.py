"""Make the pictures of the guide from real fits on built-in data. Run: python docs/pictures/make.py

Each is a small SVG file on white ground, to be seen on light and dark pages. Colours and lengths are rounded
before they are written: the same versions give the same files.
"""

from __future__ import annotations

from collections import defaultdict
from html import escape
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer

from comargin import (
    CGMClassifier,
    LSG21Classifier,
    LSG21ClassifierCV,
    M3LClassifier,
    PrBRClassifier,
    RankCVMClassifier,
    ZeroShotClassifier,
)
from comargin.data import load, make_cgm_toy, make_text_like
from comargin.decisions import GlobalCut, PerLabelCut
from comargin.graphs import LabelGraph, chow_liu_tree

HERE = Path(__file__).parent
INK, PALE, LINE = "#1f2933", "#616e7c", "#cbd2d9"
BLUE, PALE_BLUE, ORANGE, GREEN = (31, 95, 153), (99, 146, 190), (192, 86, 33), (47, 133, 90)

# Where the segments a to g of a display are, in a box 2 wide and 4 high: two ends each.
SEGMENTS = {
    "a": (0, 0, 2, 0), "b": (2, 0, 2, 2), "c": (2, 2, 2, 4), "d": (0, 4, 2, 4), "e": (0, 2, 0, 4), "f": (0, 0, 0, 2),
    "g": (0, 2, 2, 2),
}  # fmt: skip


def tint(colour: tuple[int, int, int], strength: float) -> str:
    """Between white (0) and the colour (1), in eight steps."""
    share = round(min(max(strength, 0.0), 1.0) * 8) / 8
    return "#" + "".join(f"{round(255 + share * (part - 255)):02x}" for part in colour)


class Picture:
    """Lines, circles, cells and words, written as SVG."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'role="img" font-family="system-ui, sans-serif" font-size="13" fill="{INK}">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        ]

    def text(
        self,
        x: float,
        y: float,
        words: str,
        *,
        anchor: str = "start",
        size: int = 13,
        fill: str = INK,
        bold: bool = False,
    ) -> None:
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.4g}" y="{y:.4g}" text-anchor="{anchor}" font-size="{size}" fill="{fill}"{weight}>'
            f"{escape(words)}</text>"
        )

    def line(
        self, x1: float, y1: float, x2: float, y2: float, stroke: str = LINE, width: float = 1.0, dash: str = ""
    ) -> None:
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<line x1="{x1:.4g}" y1="{y1:.4g}" x2="{x2:.4g}" y2="{y2:.4g}" stroke="{stroke}" '
            f'stroke-width="{width:.2g}" stroke-linecap="round"{dashed}/>'
        )

    def box(self, x: float, y: float, width: float, height: float, fill: str) -> None:
        self.parts.append(
            f'<rect x="{x:.4g}" y="{y:.4g}" width="{width:.4g}" height="{height:.4g}" rx="4" fill="{fill}"/>'
        )

    def circle(self, x: float, y: float, radius: float, fill: str, stroke: str = INK) -> None:
        self.parts.append(f'<circle cx="{x:.4g}" cy="{y:.4g}" r="{radius:.3g}" fill="{fill}" stroke="{stroke}"/>')

    def curve(self, xs: NDArray[np.float64], ys: NDArray[np.float64], stroke: str) -> None:
        points = " ".join(f"{x:.4g},{y:.4g}" for x, y in zip(xs, ys, strict=True))
        self.parts.append(f'<polyline points="{points}" fill="none" stroke="{stroke}" stroke-width="2"/>')

    def cells(self, x: float, y: float, size: float, values: NDArray[np.float64]) -> None:
        """A small image: blue is positive, orange negative, white exactly or nearly zero; 1 is the strongest."""
        by_colour = defaultdict(list)
        for (row, column), value in np.ndenumerate(values):
            colour = tint(BLUE if value > 0 else ORANGE, abs(value))
            if value != 0 and colour != "#ffffff":
                by_colour[colour].append(f"M{column} {row}h1v1h-1z")
        rows, columns = values.shape
        self.parts.append(f'<g transform="translate({x:.4g} {y:.4g}) scale({size:.4g})" shape-rendering="crispEdges">')
        self.parts += [f'<path fill="{colour}" d="{"".join(cells)}"/>' for colour, cells in sorted(by_colour.items())]
        self.parts.append(
            f'<rect width="{columns}" height="{rows}" fill="none" stroke="{LINE}" stroke-width="{1 / size:.3g}"/></g>'
        )

    def display(
        self, x: float, y: float, size: float, colours: dict[str, str], width: float, unlit: str = "#edf0f2"
    ) -> None:
        """Seven segments, those named in `colours` lit."""
        for segment, (x1, y1, x2, y2) in SEGMENTS.items():
            dx, dy = 0.16 * np.sign(x2 - x1), 0.16 * np.sign(y2 - y1)  # room at the corners
            ends = (x1 + dx, y1 + dy, x2 - dx, y2 - dy)
            x1, y1, x2, y2 = (start + size * end for start, end in zip((x, y, x, y), ends, strict=True))
            if segment in colours or unlit:
                self.line(x1, y1, x2, y2, colours.get(segment, unlit), width)

    def save(self, name: str) -> None:
        text = "\n".join([*self.parts, "</svg>"]) + "\n"
        (HERE / f"{name}.svg").write_text(text, encoding="utf-8")


def m3l() -> Picture:
    """Weights of the seven segments, each where its segment is."""
    train = load("digits", split="train")
    model = M3LClassifier(C=0.01, tol=1e-6, random_state=0).fit(train.X, train.Y)
    contributions = model.coef_ * train.X.std(axis=0)  # a weight counts as far as its pixel varies
    contributions /= np.abs(contributions).max()
    picture = Picture(640, 400, "Weights that M3L learns for the seven segments of a display")
    cell, side = 12, 96
    for segment, weights in zip(train.label_names, contributions, strict=True):
        if segment in "adg":
            x, y = 30 + 104, (24, 264, 144)["adg".index(segment)]
        else:
            x, y = 30 + 208 * (segment in "bc"), 84 + 120 * (segment in "ce")
        picture.cells(x, y, cell, weights.reshape(8, 8))
        picture.text(x + side / 2, y + side + 15, segment, anchor="middle", fill=PALE)
    picture.display(440, 60, 32, dict.fromkeys("abcdefg", tint(BLUE, 0.5)), 7)
    for segment, (x1, y1, x2, y2) in SEGMENTS.items():
        x, y = 440 + 16 * (x1 + x2), 60 + 16 * (y1 + y2)
        right, down = {"b": (14, 4), "c": (14, 4), "e": (-22, 4), "f": (-22, 4)}.get(segment, (-4, -8))
        picture.text(x + right, y + down, segment, fill=PALE)
    picture.text(380, 250, "An image of a digit is 8 x 8 pixels;")
    picture.text(380, 268, "the labels are the segments it lights.")
    picture.text(380, 296, "blue: ink here speaks for the segment", fill=tint(BLUE, 1))
    picture.text(380, 314, "orange: against it", fill=tint(ORANGE, 1))
    picture.text(380, 346, f"objective {model.objective_:.4f}", bold=True)
    picture.text(380, 364, f"no solution is below {model.dual_objective_:.4f}", bold=True)
    return picture


def structured() -> Picture:
    """The Chow-Liu tree of the toy's labels, and the graph that CGM learns."""
    toy = make_cgm_toy(3000)
    X, Y = toy.X[:2000], toy.Y[:2000]
    learned = CGMClassifier(alpha=1e-4, cliques_per_round=2, random_state=0).fit(X, Y).label_graph_
    true = {tuple(edge) for edge in toy.extra["edges"].tolist()}
    picture = Picture(640, 330, "Chow-Liu tree and the graph learned by CGM")
    for left, name, graph in ((0, "Chow-Liu tree", chow_liu_tree(Y)), (320, "CGM", learned)):
        _graph(picture, left + 160, 170, 105, graph, true)
        right = sum(tuple(edge) in true for edge in graph.edges.tolist())
        picture.text(left + 160, 28, name, anchor="middle", size=15, bold=True)
        picture.text(left + 160, 314, f"{len(graph.edges)} edges, {right} of them true", anchor="middle", fill=PALE)
    return picture


def _graph(picture: Picture, x: float, y: float, radius: float, graph: LabelGraph, true: set[tuple[int, int]]) -> None:
    """Labels on a circle; edges as wide as their weight, green where they are true, the missed ones dashed."""
    angles = 2 * np.pi * np.arange(graph.n_labels) / graph.n_labels - np.pi / 2
    places = np.column_stack([x + radius * np.cos(angles), y + radius * np.sin(angles)])
    edges = {tuple(edge): weight for edge, weight in zip(graph.edges.tolist(), graph.edge_weights, strict=True)}
    strongest = max(edges.values())
    for edge in sorted(true - set(edges)):
        picture.line(*places[edge[0]], *places[edge[1]], tint(GREEN, 0.6), 1.5, "4 5")
    for edge, weight in edges.items():
        picture.line(
            *places[edge[0]], *places[edge[1]], tint(GREEN if edge in true else ORANGE, 0.9), 6 * weight / strongest
        )
    for label, (px, py) in enumerate(places):
        picture.circle(px, py, 13, "#ffffff")
        picture.text(px, py + 4.5, str(label), anchor="middle")


def rank() -> Picture:
    """Scores of the labels of some new rows, and the threshold of each row."""
    train, test = load("digits", split="train"), load("digits", split="test")
    model = make_pipeline(MinMaxScaler(), RankCVMClassifier(C=16.0, gamma=0.06, random_state=0)).fit(train.X, train.Y)
    digits = test.extra["y"]
    shown = [int(np.flatnonzero(digits == digit)[0]) for digit in range(10)]
    scores = model.decision_function(test.X[shown])
    scores = scores / np.abs(scores).max(axis=1, keepdims=True)
    picture = Picture(640, 400, "Rank-CVM's scores of the seven segments of ten new images")
    picture.text(366, 26, "threshold of the row", anchor="middle", fill=PALE)
    picture.line(366, 36, 366, 360, PALE, 1.2, "3 4")
    for k, (row, values) in enumerate(zip(shown, scores, strict=True)):
        y = 52 + 33 * k
        picture.cells(20, y - 14, 3.5, test.X[row].reshape(8, 8) / 16)
        picture.display(
            70, y - 12, 6, {s: tint(BLUE, 1) for s, on in zip(SEGMENTS, test.Y[row], strict=True) if on}, 2.6
        )
        picture.line(116, y, 616, y)
        for value, on in zip(values, test.Y[row], strict=True):
            picture.circle(366 + 240 * value, y, 6, tint(BLUE, 0.75) if on else "#ffffff", tint(BLUE, 1))
    picture.text(116, 388, "filled: the segment is on; empty: it is off. Higher scores to the right.", fill=PALE)
    return picture


def lsg21() -> Picture:
    """Weights of the seven segments at three strengths of the penalty."""
    train = load("digits", split="train")
    path = LSG21ClassifierCV(scoring="average_precision").fit(train.X, train.Y)
    picture = Picture(640, 330, "Pixels that LSG21 uses for the seven segments")
    for k, segment in enumerate(train.label_names):
        picture.text(150 + 69 * k + 28, 26, segment, anchor="middle", bold=True)
    for k, share in enumerate((0.3, 0.1, 0.01)):
        model = LSG21Classifier(alpha=share * path.alpha_max_).fit(train.X, train.Y)
        y, strongest = 38 + 84 * k, np.abs(model.coef_).max()
        picture.text(16, y + 26, f"{share:g} alpha_max")
        picture.text(16, y + 44, f"{model.sparse_coef_.nnz} of {model.coef_.size} weights", fill=PALE)
        for segment, weights in enumerate(model.coef_):
            picture.cells(150 + 69 * segment, y, 7, weights.reshape(8, 8) / strongest)
    picture.text(
        16,
        304,
        "White is exactly zero. Segments that are often on together are made to use the same pixels,",
        fill=PALE,
    )
    picture.text(16, 321, "with weights of their own: blue for the segment, orange against it.", fill=PALE)
    return picture


def prml() -> Picture:
    """How much slack PrBR gives each segment of each digit."""
    digits, train = load("digits"), load("digits", split="train")
    model = PrBRClassifier(C=0.01, random_state=0).fit(train.X / 16, train.Y)
    signatures = digits.extra["signatures"]
    n_labels = signatures.shape[1]
    privileged = np.repeat(2.0 * signatures[:, None, :] - 1.0, n_labels, axis=1)  # digit, label, its other labels
    privileged[:, range(n_labels), range(n_labels)] = 1.0
    slack = np.einsum("clk,lk->cl", privileged, model.privileged_coef_)
    picture = Picture(640, 350, "Slack of every segment of every digit")
    for digit, lit in enumerate(signatures):
        x, y = 52 + 120 * (digit % 5), 28 + 144 * (digit // 5)
        colours = {
            s: tint(ORANGE, 0.1 + 0.9 * value / slack.max()) for s, value in zip(SEGMENTS, slack[digit], strict=True)
        }
        picture.display(x, y, 26, colours, 3)
        picture.display(x, y, 26, {s: colours[s] for s, on in zip(SEGMENTS, lit, strict=True) if on}, 10, unlit="")
    words = f"Wide segments are on. From pale (no slack) to dark ({slack.max():.1f}): how far the rows of a digit"
    picture.text(20, 322, words, fill=PALE)
    picture.text(
        20, 339, "may miss the margin of a segment. All rows with the same labels have the same slack.", fill=PALE
    )
    return picture


def zero_shot() -> Picture:
    """Images of digits that were never seen, the segments found in them, and the digit these tell."""
    digits, unseen = load("digits"), [1, 8, 9]
    y, signatures = digits.extra["y"], digits.extra["signatures"]
    new = np.isin(y, unseen)
    base = make_pipeline(Normalizer(), M3LClassifier(C=0.05, random_state=0))
    model = ZeroShotClassifier(base, signatures[unseen], class_names=unseen).fit(digits.X[~new], signatures[y[~new]])
    X, y = digits.X[new], y[new]
    found, attributes = model.predict(X), model.predict_attributes(X)
    picture = Picture(640, 330, "Digits never seen in training, found by their segments")
    for k, digit in enumerate(unseen):
        top = 24 + 94 * k
        lit = {s: tint(BLUE, 1) for s, on in zip(SEGMENTS, signatures[digit], strict=True) if on}
        picture.display(24, top + 4, 14, lit, 4)
        rows = np.flatnonzero(y == digit)
        for place, row in enumerate(rows[:5]):
            x = 92 + 88 * place
            picture.cells(x, top, 4.5, X[row].reshape(8, 8) / 16)
            lit = {s: tint(PALE_BLUE, 1) for s, on in zip(SEGMENTS, attributes[row], strict=True) if on}
            picture.display(x + 46, top + 2, 8, lit, 2.6)
            right = found[row] == digit
            picture.text(
                x + 28, top + 62, str(found[row]), size=16, fill=tint(GREEN if right else ORANGE, 1), bold=True
            )
        share = np.mean(found[rows] == digit)
        picture.text(534, top + 30, f"{share:.0%} of {len(rows)}", size=15, bold=True)
    words = "Left: the signature. Each image has the segments that were predicted beside it, and below"
    picture.text(20, 304, words, fill=PALE)
    picture.text(20, 321, "the digit whose signature agrees best (green: right). Chance is a third.", fill=PALE)
    return picture


def thresholds() -> Picture:
    """F1 of a rare label on new rows over the cut, and where the rules cut."""
    data = make_text_like(6000, seed=0)
    fitted, tuned, new = slice(0, 3000), slice(3000, 4500), slice(4500, 6000)
    model = M3LClassifier(C=0.05, random_state=0).fit(data.X[fitted], data.Y[fitted])
    Y = np.asarray(data.Y.todense()) if hasattr(data.Y, "todense") else data.Y
    held_out, scores = model.decision_function(data.X[tuned]), model.decision_function(data.X[new])
    by_frequency = np.argsort(Y[fitted].sum(axis=0))
    label = int(by_frequency[len(by_frequency) // 4])
    cuts = np.linspace(-1.6, 0.6, 111)
    on = scores[:, label] > cuts[:, None]
    hits, predicted, true = on @ Y[new][:, label], on.sum(axis=1), Y[new][:, label].sum()
    f1 = 2 * hits / (predicted + true)

    def place(cut: float, value: float) -> tuple[float, float]:
        return 60 + 540 * (cut - cuts[0]) / (cuts[-1] - cuts[0]), 280 - 230 * value

    picture = Picture(640, 340, "F1 of a rare label over the cut")
    for value in (0.0, 0.25, 0.5, 0.75, 1.0):
        picture.line(60, place(0, value)[1], 600, place(0, value)[1])
        picture.text(52, place(0, value)[1] + 4, f"{value:g}", anchor="end", fill=PALE)
    for cut in (-1.5, -1.0, -0.5, 0.0, 0.5):
        picture.text(place(cut, 0)[0], 298, f"{cut:g}", anchor="middle", fill=PALE)
    picture.curve(*np.transpose([place(cut, value) for cut, value in zip(cuts, f1, strict=True)]), tint(BLUE, 1))
    rules = (("cut at 0", 0.0), ("global", GlobalCut().fit(held_out, Y[tuned]).thresholds_[label]),
             ("per label", PerLabelCut().fit(held_out, Y[tuned]).thresholds_[label]))  # fmt: skip
    for height, (name, cut) in enumerate(rules):
        value = float(np.interp(cut, cuts, f1))
        x, y = place(cut, value)
        picture.line(x, 280, x, 46 + 18 * height, tint(ORANGE, 1), 1.2, "4 4")
        picture.circle(x, y, 5, tint(ORANGE, 1), "#ffffff")
        side, anchor = (-6, "end") if name == "per label" else (6, "start")
        words = f"{name}: F1 {value:.2f}"
        picture.text(x + side, 52 + 18 * height, words, anchor=anchor, fill=tint(ORANGE, 1), bold=True)
    share = Y[new][:, label].mean()
    picture.text(60, 26, f"F1 on new rows of a label that {share:.1%} of the rows have", bold=True)
    picture.text(330, 320, "cut: the label is on where its score is greater", anchor="middle", fill=PALE)
    return picture


def architecture() -> Picture:
    """The packages, floor by floor; each imports from those below."""
    floors = (
        (("cli",), "commands"),
        (("data", "persistence", "training", "comparison", "report"), "the workbench"),
        (("models",), "one declaration for every model"),
        (("decisions", "search"), "from scores to label sets; parameters"),
        (("m3l", "structured", "rank", "lsg21", "svmplus", "baselines"), "one folder a paper"),
        (("graphs", "inference", "metrics", "model_selection"), "what several papers use"),
        (("core",), "rows, loops, certificates, tasks, the estimator base"),
    )
    picture = Picture(640, 60 * len(floors) + 20, "The packages of comargin, floor by floor")
    for floor, (packages, what) in enumerate(floors):
        y = 16 + 60 * floor
        colour = tint(BLUE, 0.5 if "m3l" in packages else 0.15)
        width = 616 / len(packages)
        for k, package in enumerate(packages):
            x = 12 + k * width
            picture.box(x + 2, y, width - 4, 34, colour)
            picture.text(x + width / 2, y + 22, package, anchor="middle", bold=True)
        picture.text(320, y + 49, what, anchor="middle", size=11, fill=PALE)
    return picture


PICTURES = (architecture, m3l, structured, rank, lsg21, prml, zero_shot, thresholds)

if __name__ == "__main__":
    for draw in PICTURES:
        draw().save(draw.__name__)
