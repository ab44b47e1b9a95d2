"""Rank-CVM and Rank-SVM: learning to rank the labels of every row (Xu, Pattern Recognition 46(3), 2013).

A pair (i, m, n) asks that label m, on in row i, scores higher there than label n, which is off. ``problem.py`` states
both problems with their duals and bounds.

Rank-CVM, Eq. (37): minimise W(a) = 1/2 a^T Theta a on the simplex, the dual of a squared hinge of all pairs.
  1. ``cvm_solver.py``: five passes that solve one row after the other exactly (over sorted scores, ``_loops.py``), then
     Newton steps for the coefficients (``_newton.py``), at last Newton steps for the scores themselves. Large
     costs are raised level by level. The Frank-Wolfe gap, Eq. (62), certifies.
  2. ``fw_solver.py``, ``_loops_fw.py``: the paper's Frank-Wolfe method, Eqs. (53)-(70), for comparison.

Rank-SVM, Eq. (18), dual (19): the hinge of all pairs, with free biases.
  ``svm_solver.py``: the proximal point method; every step is smooth and solved by ``_newton.py`` over the loops of
  ``_loops_svm.py``. A flow between labels makes the dual point feasible, and the duality gap certifies.

``_products.py`` multiplies the kernel matrix with coefficients, for linear and other kernels. ``label_sets.py`` turns
rankings into label sets by a threshold that is linear in the scores. ``classifier.py`` is what the estimators of
``cvm_classifier.py`` and ``svm_classifier.py`` share.
"""

from .cvm_classifier import RankCVMClassifier
from .label_sets import RankSVMCut
from .svm_classifier import RankSVMClassifier

__all__ = ["RankCVMClassifier", "RankSVMClassifier", "RankSVMCut"]
