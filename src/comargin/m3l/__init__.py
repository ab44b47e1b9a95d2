r"""M3L: max-margin multi-label classification with a prior R on how labels depend on each other.

The solvers minimise P(Z) = 1/2 tr(Z R^-1 Z^T) + 2 sum_il U_il phi(t_il - S_il z_l . x_i) by its dual over one variable
0 <= A_il <= upper_il per row and label, Z = 2 X^T (S o A) R (Hariharan, Vishwanathan and Varma, 2012).

- problem.py: both objectives with the paper's equation numbers. losses.py: phi as numbers; the sums of a certificate.
- prior.py: R, checked and split into components, each diagonal, dense, sparse or of low rank.
- solver.py: the default for linear M3L. All labels of a row take a coordinate step together (_loops.py; the step itself
  is in _loops_step.py) until a certificate meets the tolerance. Badly scaled labels are solved by interior-point and
  Newton steps on the dual (_finish.py by way of _interior_point.py and _box_newton.py), those of smooth losses by
  Newton steps on the primal (_newton.py).
- dcd_solver.py, _loops_dcd.py: the paper's scheme for linear M3L, section 6, for comparison.
- kernel_solver.py, _loops_pairs.py: pair steps over a shared kernel matrix, section 5.1, and the paper's order of them,
  finished by the Newton steps on the dual of _finish.py; for the logistic loss the steps of _newton.py instead.
- classifier.py: the estimator. zero_shot.py: unseen classes by their attributes, section 7.2.

A loss with a quadratic conjugate is one line in losses.py and its name in classifier.py. Another one is a branch in the
functions that losses.py lists and a call of its step in the vectorised pass of _loops.py; _finish.py and
_loops_pairs.py do not take it.

==============  =======================================================================================================
equations       where
==============  =======================================================================================================
(1)-(10)        the problem over all labelings and its reduction: no code; (6) is the margin 1 of losses.py
(11)-(18)       problem.py; (15)-(18) are the case R = I, a diagonal part of prior.py
(19)-(25)       problem.py states the dual, losses.py sums it up, _loops.py computes it (m3l_sums)
(26)-(36)       _loops_pairs.py, section 5.1; the gradient (29) also in _finish.py, (31) in _loops_step.py
(37)-(39)       _loops_step.py, and _loops_pairs.py for a variable without a partner
(40)            _loops.py, _loops_dcd.py and _finish.py
(41)-(45)       _loops_dcd.py and dcd_solver.py, section 6
(46)-(83)       proofs of convergence: no code
==============  =======================================================================================================
"""

from .classifier import M3LClassifier
from .zero_shot import ZeroShotClassifier

__all__ = ["M3LClassifier", "ZeroShotClassifier"]
