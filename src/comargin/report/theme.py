"""The common look of all figures, and the one place that imports plotly."""

import html
from collections.abc import Mapping
from typing import Any

import numpy as np

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
