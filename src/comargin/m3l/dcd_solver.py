r"""The paper's solver for linear M3L: dual coordinate ascent along labels, with coupled shrinking.

Section 6 of Hariharan, Vishwanathan and Varma (2012), on top of Hsieh et al. (2008), for comparison; the default,
:mod:`comargin.m3l.solver`, reads X once for all labels of a row.

From the paper
--------------
- Single dual variables, each to its exact optimum (37)-(39). L steps in turn along one label, the weights of the other
  labels brought up to date after them (41)-(43).
- At first single variables of any label, which costs more, because L steps along a label right from the start can slow
  convergence down. The switch comes when the projected gradients are below a threshold.
- An active set for each label. A variable at a bound leaves when its gradient lies outside the extremal gradients of
  its label. They are infinite at first; after each pass, with g the projected gradients met in it, they become

  .. math:: lb_l = \min_k |R_{kl}| \min_{i \in A_k} g_{ik}, \qquad ub_l = \max_k |R_{kl}| \max_{i \in A_k} g_{ik}
     \qquad (44), (45)

- When all projected gradients of the active sets are below tau, everything becomes active again.

Our choices where the paper is silent
-------------------------------------
- We draw without replacement: a pass is cut into runs of L variables of one label (at first: of one variable), the runs
  come in random order, and the rows of a run are drawn from those of its label that are still to come. Every active
  variable is visited once a pass, so the extrema of (44), (45) are over whole active sets.
- The threshold of the switch is ``switch_at`` times the largest margin asked for, usually reached after one to a few
  passes. A label without a partner in R makes no difference between the phases.
- (44), (45) assume a correlation matrix, R_kk = 1. For other R we take |R_kl| / R_kk: an exact step at gradient g along
  (i, k) changes the gradient of (i, l) by (R_kl / R_kk) g, and so the rule does not depend on the scale of R.
- A lower extremum that is not negative, or an upper one that is not positive, becomes infinite, as in LIBLINEAR. So
  does that of a label none of whose partners was visited.
- The certified duality gap ends the algorithm. tau only says when the active sets are solved well enough to check the
  rest. A certificate that contradicts the gap met on the way makes everything active, too.

L steps along a label cost O(non-zeros of L rows), and O(partners of the label in R) for each feature of the rows that
moved. A factored R is multiplied out. Badly scaled features take many passes: there are no finishing steps here.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..core.loop import Control, run_loop, tolerance
from ..core.random_numbers import random_state_array
from ..core.result import Result
from ..core.row_blocks import squared_lengths
from ..core.rows import CSR
from ..core.threads import worker_threads
from ._loops import Dual, m3l_dual_average, m3l_sums
from ._loops_dcd import LabelActive, m3l_dcd_pass
from .losses import LabelSums
from .prior import prior_for_loops, whole_prior
from .problem import M3LProblem, dual_rounding, restricted


@dataclass(frozen=True)
class AscentPolicy:
    switch_at: float = 10.0  # largest projected gradient, in margins, at which runs along a label begin
    # tau over the largest projected gradient of the last pass over all variables. Smaller solves wrong active sets too
    # well, larger visits too much: from 0.1 to 0.7 the time to a gap of 1e-6 hardly changes.
    tau_factor: float = 0.3
    most_optimism: float = 10.0  # limit of how many times larger than its estimate the gap is expected


POLICY = AscentPolicy()


class LabelCoupling:
    """R as a whole, in the form the passes take it, and the bounds (44), (45) for shrinking.

    ``matrix`` is a dense array or CSR; ``coupled`` marks the labels with a partner.
    """

    def __init__(self, problem: M3LProblem) -> None:
        self.part = R = whole_prior(problem.prior)
        self.matrix, self.diagonal = prior_for_loops(R), R.diagonal
        entries = sp.coo_array(R.matrix)
        between = entries.row != entries.col
        self.coupled = np.bincount(entries.row[between], minlength=len(R.labels)) > 0
        # |R_kl| / R_kk for k != l. R_kk = 0 next to R_kl != 0 is rounding in a semi-definite R.
        self._from, self._to = entries.row[between], entries.col[between]
        own = self.diagonal[self._from]
        self._share = np.divide(np.abs(entries.data[between]), own, out=np.zeros(own.shape), where=own > 0.0)

    def extremal_gradients(self, found: np.ndarray) -> np.ndarray:
        """Bounds for shrinking, (2, n_labels), from ``LabelActive.found``; infinite where it says nothing."""
        lowest, highest = np.minimum(found[0], 0.0), np.maximum(found[1], 0.0)
        bounds = np.stack([lowest, highest])
        np.minimum.at(bounds[0], self._to, self._share * lowest[self._from])  # Eq. (44)
        np.maximum.at(bounds[1], self._to, self._share * highest[self._from])  # Eq. (45)
        bounds[0, bounds[0] == 0.0] = -np.inf
        bounds[1, bounds[1] == 0.0] = np.inf
        return bounds


class LabelAscent:
    """State of the scheme. Invariant after ``certify``: Z = 2 V R with V = X^T (S o A)."""

    def __init__(
        self, problem: M3LProblem, view: np.ndarray | CSR, tol: float, seed: int, start: np.ndarray | None
    ) -> None:
        X = problem.X
        n_samples, n_labels = problem.S.shape
        self.problem, self.view, self.tol = problem, view, tol
        self.coupling = LabelCoupling(problem)
        A = np.zeros((n_samples, n_labels)) if start is None else np.clip(start, 0.0, problem.upper(), order="C")
        own, sqnorm = restricted(problem, self.coupling.part), squared_lengths(X)
        self.dual_state = Dual(A, own.S, own.targets, own.row_cost, own.label_cost, sqnorm, own.loss)
        self.active = LabelActive(
            np.tile(np.arange(n_samples, dtype=np.int32), (n_labels, 1)),
            np.empty(n_labels, dtype=np.int32),
            np.empty((2, n_labels)),
            np.empty((2, n_labels)),
            random_state_array(seed),
        )
        self.Z = np.zeros((X.shape[1], n_labels), order="F" if isinstance(self.coupling.matrix, CSR) else "C")
        self.margin, self.tau = float(np.max(problem.target())), 0.0
        self.along_labels = not self.coupling.coupled.any()
        self.estimate = np.inf
        self.optimism = 1.0  # how many times larger the certified gap was than its estimate
        self.activate_all()

    def activate_all(self) -> None:
        """Every dual variable may move again, and none leaves in the next pass."""
        self.active.count[:] = self.dual_state.A.shape[0]
        self.active.bounds[0], self.active.bounds[1] = -np.inf, np.inf

    def step(self) -> float:
        """One pass over the active sets; returns an estimate of the gap."""
        n_moved, everything = self._pass()
        if n_moved == 0 and not everything:  # only the active part is solved
            self.activate_all()
            self._pass()
        return self.estimate

    def _pass(self) -> tuple[int, bool]:
        """One pass; returns how many variables moved, and whether all of them were visited."""
        coupling, active = self.coupling, self.active
        n_samples, n_labels = self.dual_state.A.shape
        everything = bool(np.all(active.count == n_samples))
        run_length = n_labels if self.along_labels else 1
        R = coupling.matrix, coupling.diagonal, coupling.coupled
        gap, n_moved = m3l_dcd_pass(self.view, *R, self.dual_state, active, self.Z, run_length)
        self.estimate = self.optimism * gap
        active.bounds[:] = coupling.extremal_gradients(active.found)
        largest = max(-float(active.found[0].min()), float(active.found[1].max()), 0.0)
        self.along_labels = self.along_labels or largest <= POLICY.switch_at * self.margin
        if everything:
            self.tau = POLICY.tau_factor * largest
        elif largest <= self.tau:
            self.activate_all()
        return n_moved, everything

    def certify(self) -> tuple[float, float]:
        """Compute exact objectives, and Z anew from A so that rounding does not add up."""
        V = np.zeros(self.Z.shape)
        m3l_dual_average(self.view, self.dual_state, V)
        Z = 2.0 * self.problem.apply_prior(V)  # Eq. (23)
        losses_and_gains = np.empty((2, V.shape[1]))
        m3l_sums(self.view, self.dual_state, Z, losses_and_gains)
        sums = LabelSums(np.einsum("ij,ij->j", V, Z), *losses_and_gains)
        self.Z[:] = Z
        gap, allowed = sums.gap, tolerance(self.tol, sums.primal)
        if gap > allowed and self.estimate <= allowed:
            # The active part looked solved: something left too early, or margins moved on within the pass.
            self.activate_all()
            if self.estimate > 0.0:
                self.optimism = min(self.optimism * gap / self.estimate, POLICY.most_optimism)
        rounding = dual_rounding(self.coupling.part, self.dual_state.sqnorm, self.dual_state.A, sums.quadratic)
        return sums.primal, sums.dual - rounding


def solve_m3l_dcd(
    problem: M3LProblem, view: np.ndarray | CSR, control: Control, *, seed: int, start: np.ndarray | None = None
) -> Result:
    """Solve linear M3L by the paper's scheme, to a certified gap; ``coef`` is Z^T, ``dual_coef`` is A.

    ``view`` is ``problem.X`` as the loops take it; ``start`` (n_samples, n_labels) is clipped to the bounds; ``seed``
    fixes the order of the variables. An iteration is a pass over the active variables.
    """
    ascent = LabelAscent(problem, view, control.tol, seed, start)
    with worker_threads(1):  # limits the threads of BLAS
        status, history, tol_abs = run_loop(
            ascent.step, ascent.certify, control, state=lambda: ascent.dual_state.A.copy()
        )
    return Result(np.ascontiguousarray(ascent.Z.T), ascent.dual_state.A, history, tol_abs, status)
