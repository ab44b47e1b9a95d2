"""The common look of all figures, how they are saved, and the one place that imports plotly."""

from __future__ import annotations

import html
import importlib.util
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.files import AtomicFiles

if TYPE_CHECKING:
    from plotly.graph_objects import Figure
else:
    Figure = Any  # plotly is imported where a figure is made

# Okabe and Ito's colours, distinct for every common kind of colour vision; dark ones first, and without yellow, which
# is faint on white paper.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
BLUE, VERMILLION = COLORS[:2]
INK, FAINT_INK, GRID = "#222222", "#666666", "#E6E6E6"
EDGE = "#55606B"
HALO = "0 0 3px white, 0 0 3px white, 0 0 3px white"  # around names that stand over lines
FONT_FAMILY = "Helvetica, Arial, sans-serif"

# Replacements of the colours on a dark page; its own colours are in assets/page.css.
DARK = {
    "white": "#1A1E24",
    INK: "#E6E9ED",
    FAINT_INK: "#98A2AE",
    GRID: "#2F363F",
    EDGE: "#8A95A1",
    HALO: HALO.replace("white", "#1A1E24"),
    **dict(zip(COLORS, ("#4FB0E8", "#FF8A4C", "#3CCB9F", "#E3A0C5", "#F5B83D", "#8CCBF2", "#FFFFFF"), strict=True)),
}


def graph_objects() -> Any:
    """Return the module ``plotly.graph_objects``, or say how to install it."""
    try:
        import plotly.graph_objects
    except ImportError as error:
        raise ImportError("figures need plotly: pip install 'comargin[report]'") from error
    return plotly.graph_objects


def plain(text: object) -> str:
    """Escape a text so that plotly shows it as it is.

    Plotly reads a subset of HTML, and text between dollar signs as a formula. It knows only a few named
    entities (quotes are not among them), so quotes stay.
    """
    return html.escape(str(text), quote=False).replace("$", "&#36;").replace("\n", " ")


def number(value: float) -> str:
    """Four significant digits, for titles and hover texts."""
    return f"{value:.4g}"


def finite(values: Any) -> list[float | None]:
    """Values for plotly, which leaves out None."""
    return [float(value) if np.isfinite(value) else None for value in values]


def new_figure(title: str = "", caption: str = "", **layout: Any) -> Any:
    """An empty figure with the common look: white background, a title, and a line below that explains the figure."""
    base = {
        "template": None,
        "title": {
            "text": plain(title),
            "font": {"size": 18, "color": INK},
            "subtitle": {"text": plain(caption), "font": {"size": 12, "color": FAINT_INK}},
            "x": 0,
            "xref": "paper",
            "xanchor": "left",
            "y": 1,
            "yref": "container",
            "yanchor": "top",
            "pad": {"t": 18},
        },
        "font": {"family": FONT_FAMILY, "size": 12, "color": INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hoverlabel": {"bgcolor": "white", "bordercolor": FAINT_INK, "font": {"color": INK}, "align": "left"},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "yanchor": "top", "bgcolor": "rgba(0,0,0,0)"},
    }
    return graph_objects().Figure(layout=base).update_layout(layout)


def measured_axis(title: str = "", **changes: Any) -> dict[str, Any]:
    """Axis of a curve: a line, outside ticks, a light grid, apart from ``changes``."""
    return {
        "title": {"text": plain(title), "standoff": 8},
        "showline": True,
        "linecolor": FAINT_INK,
        "ticks": "outside",
        "tickcolor": FAINT_INK,
        "gridcolor": GRID,
        "zeroline": False,
        "automargin": True,
        **changes,
    }


def axis_ids(panel: int) -> tuple[str, str]:
    """Plotly's names of the axes of a panel, counted from 1: x and y, x2 and y2, ..."""
    suffix = "" if panel == 1 else str(panel)
    return f"x{suffix}", f"y{suffix}"


def named(things: Any, argument: str, what: str) -> dict[str, Any]:
    """Check a non-empty mapping from names to things, and return it as a dict."""
    if not isinstance(things, Mapping) or not things:
        got = "an empty mapping" if isinstance(things, Mapping) else f"a {type(things).__name__}"
        raise ValueError(f"{argument} must be a non-empty mapping from names to {what}, got {got}")
    return {str(name): thing for name, thing in things.items()}


_IMAGES = (".png", ".svg", ".pdf")


def save_figure(figure: Figure, path: str | os.PathLike[str]) -> Path:
    """Write a figure to a page that works without a network, or to an image.

    Parameters
    ----------
    figure : plotly.graph_objects.Figure
        The figure.
    path : str or path-like
        File to write; its ending says how: ``.html`` for one page with everything in it (the same figure gives
        the same bytes), ``.png``, ``.svg`` or ``.pdf`` for an image, which needs the package kaleido.

    Examples
    --------
    >>> import tempfile
    >>> from comargin.graphs import LabelGraph
    >>> from comargin.report import label_graph_figure
    >>> figure = label_graph_figure(LabelGraph.from_edges([(0, 1)], n_labels=3))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_figure(figure, f"{folder}/graph.html").name
    'graph.html'
    """
    if not isinstance(figure, graph_objects().Figure):
        raise ValueError(f"figure must be a plotly.graph_objects.Figure, got a {type(figure).__name__}")
    target = Path(path)
    ending = target.suffix.lower()
    if ending == ".html":
        config = {"displaylogo": False, "showSendToCloud": False}
        body = figure.to_html(full_html=False, include_plotlyjs=True, div_id="figure", config=config)
        # The title of a figure is escaped already, apart from quotes, which an element may contain.
        title = html.escape(html.unescape(figure.layout.title.text or "Figure"), quote=False)
        head = f'<meta charset="utf-8"><title>{title}</title><style>body {{ margin: 0; background: white; }}</style>'
        with AtomicFiles() as files:
            page = f'<!DOCTYPE html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}\n</body>\n</html>\n'
            files.open(target).write(page)
    elif ending in _IMAGES:
        if importlib.util.find_spec("kaleido") is None:
            raise ImportError(f"{ending} files need kaleido: pip install kaleido; or write an .html file")
        figure.write_image(target, scale=2)
    else:
        allowed = ", ".join((".html", *_IMAGES))
        raise ValueError(f"path must end in one of {allowed}, got {target.name!r}")
    return target
