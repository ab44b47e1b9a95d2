"""Pictures of label graphs and of fits, as plotly figures, and whole pages about fitted models.

Needs the extra ``comargin[report]`` (plotly, networkx); neither is imported before a figure is made. All text
that a caller gives (label names, names of fits, titles) is shown as it is, never read as markup.
"""

from ._curves import objective_figure, rounds_figure
from ._graph_svg import label_graph_svg
from ._label_graph import label_graph_figure
from ._report import model_report, save_report
from .theme import save_figure

__all__ = [
    "label_graph_figure",
    "label_graph_svg",
    "model_report",
    "objective_figure",
    "rounds_figure",
    "save_figure",
    "save_report",
]
