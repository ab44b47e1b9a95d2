"""PrBR and PrML: SVM+ with the other labels as privileged information (You et al., 2017).

Slacks are linear in the other labels of a row (4). PrML (5) has predictors of low rank, Z = D^T W; PrBR has W = I. Both
steps of PrML, over (W, T) (6) and over (D, T) (10), and PrBR are one convex problem with the dual (7), (11).

==================== =============================================================================================
problem.py           the equations: privileged features, the convex step and its dual, (5) and its lower bound
step_solver.py       one convex step to a certified gap: M3L for a start, splitting, Newton steps to finish
_split.py, _loops.py first method, ADMM: passes of coordinate descent with slacks held near U T, T by least squares
_step.py             second method, multipliers with Newton steps, and the certificate of both; where splitting creeps
_system.py           Newton systems of single labels, from their Gram matrix or their moments
_coupled.py          Newton systems of labels that R couples
_finish.py           interior point, for few features that are far larger than privileged ones
_directions.py       the literal form: which labels are feasible, and how their T can move
prml_solver.py       (5) by alternation, its starts and its states to go on from
_alternation.py      one start: W-step, balance, D-step; the objective never rises
start.py             where an alternation begins, and what it leaves for the next fit
prbr_classifier.py   PrBRClassifier
prml_classifier.py   PrMLClassifier
==================== =============================================================================================

==================== =============================================================================================
equations            where
==================== =============================================================================================
(1), (2)             independent SVMs, and predictors of low rank without privileged features: no code
(3), (4)             problem.py, ``PrivilegedSets``
(5)                  problem.py, ``PrMLProblem``; Algorithm 2, its alternation, in _alternation.py and prml_solver.py
(6)-(13)             problem.py, ``SVMPlusProblem``, for both steps at once; _step.py computes (7), (8), (11) and (12)
                     too. Coordinate descent on (11), Algorithm 1, is not implemented: _split.py and _step.py solve
(14)                 proof that the solution of a step is unique: no code
==================== =============================================================================================
"""

from .prbr_classifier import PrBRClassifier
from .prml_classifier import PrMLClassifier

__all__ = ["PrBRClassifier", "PrMLClassifier"]
