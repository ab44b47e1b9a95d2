"""Rank-CVM and Rank-SVM: learning to rank the labels of every row (Xu, Pattern Recognition 46(3), 2013).

A pair (i, m, n) asks that label m, on in row i, scores higher there than label n, which is off. ``problem.py`` states
both problems with their duals and bounds.

Rank-CVM, Eq. (30), dual (37): minimise W(a) = 1/2 a^T Theta a on the simplex, the dual of a squared hinge of all pairs.
  1. ``cvm_solver.py`` solves one row after the other exactly for five passes (over sorted scores, ``_loops.py``), then
     takes Newton steps for the coefficients and finally for the scores (``_newton.py``). Large costs are raised level
     by level. The Frank-Wolfe gap, Eq. (62), certifies.
  2. ``fw_solver.py`` and ``_loops_fw.py`` are the paper's Frank-Wolfe method, Eqs. (53)-(70), for comparison.

Rank-SVM, Eq. (18), dual (19): the hinge of all pairs, with free biases.
  ``svm_solver.py`` is the proximal point method; ``_newton.py`` solves every smooth step over the loops of
  ``_loops_svm.py``. A flow between labels makes the dual point feasible, and the duality gap certifies.

``_products.py`` multiplies the kernel matrix with coefficients, for linear and other kernels. ``label_sets.py`` turns
rankings into label sets, Eq. (2), by a threshold that is linear in the scores. ``classifier.py`` is the base of the
estimators in ``cvm_classifier.py`` and ``svm_classifier.py``.

================  =====================================================================================================
equations         where
================  =====================================================================================================
(1), (8)-(14)     background: the data, other methods, binary SVM and CVM; no code
(2)               ``label_sets.py``
(3)-(7)           ``comargin.metrics``
(15)-(26)         ``problem.py`` states them, ``svm_solver.py`` and ``_loops_svm.py`` solve
(27)              the scores: ``svm_solver.py`` and ``cvm_solver.py`` give their coefficients
(28)-(38)         ``problem.py``; ``cvm_solver.py`` and ``_loops.py`` solve; vectors h and the matrix H are never formed
(39)              minimise f over a polyhedron S, the general form of the Frank-Wolfe method: no code of its own. Here f
                  is W of (37) and S, (40), the simplex; ``solve_rank_cvm_fw`` in ``fw_solver.py`` solves that case
(40)-(52)         the method for (39), for Rank-SVM too, and its rate: no code but (41), (43), (45), (46), which
                  ``_loops_fw.py`` takes on the simplex
(53)-(70)         ``fw_solver.py``, ``_loops_fw.py``; (57), (60) are the certificate of the start, (69) is (70) for all
(71)-(76)         comparison of costs; no code
(77)              `comargin.tune`, where it is the default
================  =====================================================================================================
"""

from .cvm_classifier import RankCVMClassifier
from .label_sets import RankSVMCut
from .svm_classifier import RankSVMClassifier

__all__ = ["RankCVMClassifier", "RankSVMClassifier", "RankSVMCut"]
