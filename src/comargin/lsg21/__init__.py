"""LSG21: least squares with an l2,1 norm on every edge of the label graph (Cai, Nie, Cai, Huang, ICCV 2013).

Minimise ||X W + 1 b^T - Y||^2 + alpha sum_ij a_ij ||[w_i, w_j]||_{2,1} over W and b, Eq. (3). ``problem.py`` centres
the data, Eq. (4), and states the dual: D(Theta) = -1/4 ||Theta||^2 - <Theta, Y> with the dual norm of every row of
X^T Theta at most alpha.

``solver.py`` reaches a certified gap:
  1. Labels without a penalty are least squares by themselves (``_label_split.py``).
  2. From nothing, where most weights will not be zero, ridge regression and reweighted conjugate steps come first.
  3. Each step moves all non-zero weights together, by reweighting or by Newton's method (``_edge_newton.py``), then
     passes over the features, each solved exactly by the proximal map of its row (``_loops_edges.py``,
     ``_loops_prox.py``, ``_loops_norm_sum.py``). When X^T X is too much, steps are for the features that matter.
  4. The certificate splits the slopes of every feature over the edges, and scales 2 (X W - Y) to be feasible.

``irls_solver.py`` is the paper's Algorithm 2, Eqs. (14)-(18), for comparison. ``classifier.py`` is the estimator.
"""

from .classifier import LSG21Classifier

__all__ = ["LSG21Classifier"]
