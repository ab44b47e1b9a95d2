"""``comargin graph``: the label graph of a tagger or of data as a picture, or as a file for other programs."""

from __future__ import annotations

import csv
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ._console import check_target, remark, say
from ._options import DataHome, Quiet, Split, reading_flag, reads_a_file
from ._rows import load_tagger, obtain

if TYPE_CHECKING:
    import numpy as np

    from ..graphs import LabelGraph

_SUFFIXES = (".svg", ".html", ".graphml", ".csv")
_MOST_CORRELATED = 1000  # labels; correlations of all pairs of more do not fit into memory


# Relations that join two labels of a data set.
Kind = StrEnum("Kind", "CORRELATION COSINE")


@reads_a_file
def graph(
    source: Annotated[str, Argument(metavar="SOURCE", help="A tagger, a data file, or the name of a known set.")],
    *,
    output: Annotated[
        Path | None,
        Option(
            "--output", "-o", help="File to write: .svg, .html, .graphml or .csv (default: name of the source, .svg)."
        ),
    ] = None,
    kind: Annotated[
        Kind | None,
        Option(
            help="What joins two labels of data: correlation (may be negative) or cosine "
            "(default: correlation; cosine from 1000 labels on)."
        ),
    ] = None,
    top: Annotated[
        int | None,
        Option(
            min=1,
            help="How many of the strongest edges (default: all in .graphml and .csv, as many as can be read in a "
            "picture).",
        ),
    ] = None,
    title: Annotated[str | None, Option(help="Title of the picture.")] = None,
    split: Split = "all",
    data_home: DataHome = None,
    quiet: Quiet = False,
    reading: dict[str, Any],
) -> None:
    r"""Write a label graph: which labels depend on each other, and how strongly.

    Of a tagger it is the graph that the model learned or used (cgm, ssvm-tree, lsg21); of data, how labels occur
    together. A .csv file has the columns source, target and weight, the strongest edges first.

    \b
    comargin graph tagger.cmg -o graph.svg
    comargin graph yeast -o yeast.graphml
    comargin graph posts.csv --text body --labels tags --top 30 -o tags.html
    """
    from ..report.label_figures import strongest_part

    target = Path(f"{Path(source).name.split('.')[0]}-graph.svg") if output is None else output
    if target.suffix.lower() not in _SUFFIXES:
        raise ValueError(f"--output must end in one of {', '.join(_SUFFIXES)}, got {target.name!r}")
    check_target("--output", target, "graph.svg")
    if _is_tagger(source):
        used = ["--kind"] * (kind is not None) + ["--split"] * (split != "all") + [*map(reading_flag, reading)]
        if used:
            raise ValueError(f"{', '.join(used)}: for data; {source} is a tagger, which has its own graph")
        whole, frequencies, about = _graph_of_tagger(Path(source))
    else:
        whole, frequencies, about = _graph_of_data(source, split, data_home, reading, kind, quiet)
    is_picture = target.suffix.lower() in (".svg", ".html")
    if is_picture:
        shown = strongest_part(whole, top)
    else:
        shown = whole if top is None else strongest_part(whole, top, most_nodes=whole.n_labels)
    if frequencies is not None:
        place = {name: k for k, name in enumerate(whole.label_names)}
        frequencies = frequencies[[place[name] for name in shown.label_names]]
    n_all, n_shown = len(whole.edge_weights), len(shown.edge_weights)
    part = f", the {n_shown} strongest of {n_all} edges" if n_shown < n_all else ""
    _write(shown, frequencies, target, f"{about}{part}" if title is None else title)
    if is_picture and top is None and part:
        remark(f"{n_shown} of {n_all} edges are drawn; --top says how many", quiet)
    say(f"{target}: {shown.n_labels} labels, {n_shown} edges")


def _is_tagger(source: str) -> bool:
    """Whether this is a tagger file, which is a zip file, or is named like one."""
    path = Path(source)
    if not path.is_file():
        return path.suffix == ".cmg"
    with path.open("rb") as file:
        return path.suffix == ".cmg" or file.read(4) == b"PK\x03\x04"


def _graph_of_tagger(path: Path) -> tuple[LabelGraph, np.ndarray | None, str]:
    from ..graphs import LabelGraph
    from ..report.anatomy import take_apart

    tagger = load_tagger(path)
    anatomy = take_apart(tagger.model)
    learned, name = anatomy.first("label_graph_"), type(anatomy.classifier).__name__
    if learned is None:
        raise ValueError(
            f"{path}: {name} has no label graph (cgm, ssvm-tree and lsg21 have); comargin graph DATA draws how the "
            "labels of the data occur together"
        )
    if learned.n_labels != len(tagger.label_names):
        raise ValueError(f"{path}: the graph has {learned.n_labels} nodes for {len(tagger.label_names)} labels")
    return LabelGraph(learned.weights, tagger.label_names), None, f"{path.stem}: label graph of {name}"


def _graph_of_data(
    source: str, split: str, data_home: Path | None, reading: dict[str, Any], kind: Kind | None, quiet: bool
) -> tuple[LabelGraph, np.ndarray, str]:
    import numpy as np

    from ..core.indicator import split_unknown
    from ..graphs import cosine_affinity, smoothed_correlation

    dataset = obtain(source, split, data_home, reading)
    if min(dataset.Y.shape) == 0:
        raise ValueError(f"{source} has no rows or no labels")
    if kind is None:
        kind = Kind.CORRELATION if dataset.Y.shape[1] <= _MOST_CORRELATED else Kind.COSINE
        if kind is Kind.COSINE:
            remark(f"cosines, as {dataset.Y.shape[1]} labels are too many for correlations of all pairs", quiet)
    measure = smoothed_correlation if kind is Kind.CORRELATION else cosine_affinity
    found = measure(dataset.Y, label_names=dataset.label_names)
    ones, known = split_unknown(dataset.Y, "dataset.Y")
    n_known = ones.shape[0] if known is None else np.maximum(known.sum(axis=0), 1)
    return found, np.asarray(ones.sum(axis=0)).ravel() / n_known, f"{dataset.name}: {kind}s of labels"


def _write(graph: LabelGraph, frequencies: np.ndarray | None, target: Path, title: str) -> None:
    """Write the file, whole or not at all; its suffix says how."""
    from ..core.files import AtomicFiles
    from ..report import label_graph_figure, label_graph_svg, save_figure

    suffix = target.suffix.lower()
    if suffix == ".html":
        save_figure(label_graph_figure(graph, frequencies=frequencies, title=title), target)
        return
    with AtomicFiles() as files:
        if suffix == ".svg":
            files.open(target).write(label_graph_svg(graph, frequencies=frequencies, title=title))
        elif suffix == ".csv":
            writer = csv.writer(files.open(target), lineterminator="\n")
            writer.writerows([("source", "target", "weight"), *graph.top_edges()])
        else:
            _write_graphml(graph, frequencies, files.reserve(target))


def _write_graphml(graph: LabelGraph, frequencies: np.ndarray | None, path: Path) -> None:
    """Write a graph with numbered nodes: names may hold characters that XML lacks, and be equal without them."""
    from ..report.svg import xml_text

    try:
        import networkx
    except ImportError as error:
        raise ImportError("GraphML files need networkx: pip install 'comargin[report]'") from error
    written = networkx.Graph()
    for k, name in enumerate(graph.label_names):
        frequency = {} if frequencies is None else {"frequency": float(frequencies[k])}
        written.add_node(f"n{k}", label=xml_text(name), **frequency)
    for (i, j), weight in zip(graph.edges, graph.edge_weights, strict=True):
        written.add_edge(f"n{i}", f"n{j}", weight=float(weight))
    networkx.write_graphml_xml(written, path)  # the one that needs no lxml
