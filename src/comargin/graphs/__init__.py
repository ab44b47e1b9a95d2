"""Label graphs and label correlations: what is known about how labels depend on each other.

Every function returns a :class:`LabelGraph`, the one object that learners accept and return.
"""

from ._affinity import cooccurrence, correlation_from_classes, cosine_affinity, smoothed_correlation
from ._label_graph import Edge, LabelGraph
from ._tree import chow_liu_tree

__all__ = [
    "Edge",
    "LabelGraph",
    "chow_liu_tree",
    "cooccurrence",
    "correlation_from_classes",
    "cosine_affinity",
    "smoothed_correlation",
]
