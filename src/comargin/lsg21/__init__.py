"""LSG21: least squares with an l2,1 norm on every edge of the label graph (Cai, Nie, Cai, Huang, ICCV 2013).

Minimise ||X W + 1 b^T - Y||^2 + alpha sum_ij a_ij ||[w_i, w_j]||_{2,1} over W and b, Eq. (3). ``problem.py`` centres
the data, Eq. (4), and states the dual: D(Theta) = -1/4 ||Theta||^2 - <Theta, Y> with the dual norm of every row of
X^T Theta at most alpha.

``solver.py`` reaches a certified gap:
  1. Labels without a penalty are solved by least squares (``_label_split.py``).
  2. A cold start where most weights will not be zero begins with ridge regression and reweighted conjugate steps.
  3. Each step moves all non-zero weights together, by reweighting or by Newton's method (``_edge_newton.py``), then
     passes over the features, each solved exactly by the proximal map of its row (``_loops_edges.py``,
     ``_loops_prox.py``, ``_loops_norm_sum.py``). Where X^T X is too large, steps change chosen features only.
  4. The certificate splits the slopes of every feature over the edges, and scales 2 (X W - Y) to be feasible.

``_unknown.py`` counts known cells only, by turns of filling the others in and going some steps. ``irls_solver.py`` is
the paper's Algorithm 2, Eqs. (14)-(18), for comparison. ``classifier.py`` is the estimator.

===========  ==========================================================================================================
equations    where
===========  ==========================================================================================================
(1), (2)     the problem in general, and with every edge once; not solved here
(3), (4)     ``problem.py``; the penalty's values and derivatives in ``_loops_edges.py``
(5)-(13)     reweighting in general, Algorithm 1, and its proofs; (6) in ``_loops_edges.py``, (9) in ``_edge_newton.py``
(14)-(18)    ``irls_solver.py``; (14), (16) also in ``_edge_newton.py``
(19)         ``comargin.graphs.cosine_affinity``
===========  ==========================================================================================================
"""

from .classifier import LSG21Classifier

__all__ = ["LSG21Classifier"]
