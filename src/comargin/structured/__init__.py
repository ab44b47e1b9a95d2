r"""Structured SVMs on a graph of labels, and CGM, which learns the graph (Tan et al., CVPR 2015).

The score of a labeling is a sum over labels and cliques, Eq. (2), and the best one is predicted, Eq. (1). Learning
minimises Eq. (10), F(w) = lambda/2 ||u||^2 + lambda/2 (sum_k ||omega_k||)^2 + mean loss, to a certified gap with its
dual, Eq. (4) and (8). The code has ``alpha`` for the paper's lambda, and masses a for its alpha. For groups of fixed
cliques:

- ``problem.py``     F, D, and the map between their variables
- ``cliques.py``     cliques, the columns of their states (section 4.5), the prox of the squared l2,1 norm (Algorithm 3)
- ``labelings.py``   dual points: for every row, labelings and their masses a
- ``solver.py``      one solve: labels alone by M3L, the other parts in turns with the weights of the groups
- ``_connected_part.py``  passes over the rows, Newton steps where passes are slow, certificates
- ``_loops.py``      a pass over a block of rows: pairwise steps, in place of Algorithm 2; means of label products
- ``_planes.py``     Newton's method on the labelings met so far; ``_loops_planes.py`` its loops
- ``kernel_features.py``  a factor of the kernel matrix in place of the features, and what its truncation can cost
- ``classifier.py``  ``StructuredSVMClassifier``: the graph is given
- ``_pulls.py``      what cliques contribute to the explanation of a label

CGM, Algorithm 1, adds cliques in rounds:

- ``cgm_solver.py``  scores ||v_c(a)||^2 of all cliques, Eq. (9), rounds, the rules that end them (section A.3), and
  the state that a stopped fit goes on from
- ``cgm_classifier.py``  ``CGMClassifier``

===============  ======================================================================================================
equations        where
===============  ======================================================================================================
(1), (2)         ``comargin.inference``, which ``classifier.py`` calls
(3), (5), (6)    the problem with a graph to choose and its relaxation: no code
(4)              u(a) and v(a) in ``_connected_part.py``; with them (8) is the dual
(7), (9)         ``cgm_solver.py`` (``score_cliques``)
(8), (10)        ``problem.py``
(11), (12)       the smoothed problem of Algorithm 2, which is not implemented: as printed it does not solve (10)
(13), (14)       the worst labeling: ``_connected_part.py``, by ``comargin.inference``; with the costs in they are (1)
(15)-(23)        dual and its proofs: no code but (17), (18), ``StructuredProblem.scale``
===============  ======================================================================================================
"""

from .cgm_classifier import CGMClassifier
from .classifier import StructuredSVMClassifier

__all__ = ["CGMClassifier", "StructuredSVMClassifier"]
