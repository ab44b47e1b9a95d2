"""Best labelings on a label graph: the MAP problem of structured SVMs, Eq. (14) of the CGM paper.

The score of a labeling is the sum of the potentials of the labels that are on and of the states of the cliques.
Components of the graph are solved separately, by the first of these that is fast enough:

- elimination of one label after the other, exact: ``_plan.py`` finds an order and writes it as flat arrays,
  ``_loops_elimination.py`` runs it on blocks of rows, for best labelings and for max-marginals
- MPLP, the message passing of the paper (Globerson and Jaakkola, 2007), with its upper bound: ``_loops_mplp.py``
- branch and bound with the bound that MPLP leaves behind: ``_loops_branch.py``

``cliques.py`` checks cliques and finds the components. ``engine.py`` chooses a method once per graph (`Inference`);
``_map.py`` is the call for tables of potentials (`solve_map`); ``_loops_clique_scores.py`` holds graphs as arrays, and
the score of a labeling.
"""

from ._map import MapResult, solve_map, solve_map_factors
from .engine import Inference

__all__ = ["Inference", "MapResult", "solve_map", "solve_map_factors"]
