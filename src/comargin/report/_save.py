"""Figures to files."""

import html
import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..core.files import AtomicFiles
from .theme import graph_objects

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

_IMAGES = (".png", ".svg", ".pdf")


def save_figure(figure: "Figure", path: str | os.PathLike[str]) -> Path:
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
