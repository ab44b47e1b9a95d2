"""Pictures of label graphs and of fits, as plotly figures, and whole pages about fitted models.

Needs the extra ``comargin[report]`` (plotly, networkx); neither is imported before a figure is made. All text
that a caller gives (label names, names of fits, titles) is shown as it is, never read as markup.

- _label_graph.py, _graph_svg.py: a label graph with plotly and without. positions.py: places of its labels and names.
- _curves.py: objectives and rounds. label_figures.py: the other figures of a page. theme.py, svg.py: what they share.
- _report.py: `model_report`. _sections.py: its sections. _page.py: the file. anatomy.py: the parts of a fitted model.
- _assessment.py: the model on labelled rows.
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
