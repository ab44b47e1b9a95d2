"""Label graphs and label correlations: what is known about how labels depend on each other.

Every function returns a :class:`LabelGraph`. Learners take one where they take a matrix between labels, as
``label_correlation`` of M3L or ``affinity`` of LSG21, and `CGMClassifier` returns what it has learned as one.

==================  ===========================================================================
`_label_graph.py`   `LabelGraph`, sparse weights with names of labels, and its `Edge`
`_affinity.py`      co-occurrences, cosines and correlations, of training labels or of classes
`_tree.py`          the Chow-Liu tree
==================  ===========================================================================
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
