r"""LSG21 with unknown labels: squares of known cells only, by filling the unknown ones in.

With M in {0, 1} the known cells, Eq. (3) counts M o (X W + 1 b^T - Y) only. Its minimum over W and b is that of the
complete problem over W, b and the values of the unknown cells, which is convex in all of them: fill the unknown cells
with the present scores, go some steps in the complete problem, and so on. No turn raises the objective.

The dual is that of problem.py with Theta = 0 in unknown cells and sqrt(s)^T Theta = 0, as b is free: twice the residual
of the known cells is such a Theta at the best b for W, the mean of Y - X W over the known cells of a label.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..core.loop import Control, run_loop
from ..core.result import Result
from ..core.validation import Matrix
from ._label_split import least_norm
from .problem import LSG21Problem
from .solver import Certifier, LSG21Start, solve_lsg21

_STEPS_A_TURN = 3  # in the complete problem, before its unknown cells are filled anew


@dataclass(frozen=True)
class KnownCells:
    """The problem of the known cells; ``complete`` has the same features and penalty."""

    complete: LSG21Problem
    X: Matrix  # as it was before ``complete`` centred it
    Y: np.ndarray
    known: np.ndarray
    sample_weight: np.ndarray

    @cached_property
    def weight(self) -> np.ndarray:
        return self.sample_weight[:, None] * self.known

    def mean(self, values: np.ndarray) -> np.ndarray:
        """Weighted mean of each label over its known cells; 0 without any, or without intercept."""
        total = self.weight.sum(axis=0)
        counts = (total > 0.0) & self.complete.fit_intercept
        return np.divide(np.einsum("il,il->l", self.weight, values), total, out=np.zeros(len(total)), where=counts)

    def intercept(self, W: np.ndarray) -> np.ndarray:
        """The best b for W."""
        return self.mean(self.Y - np.asarray(self.X @ W))

    def filled(self, W: np.ndarray) -> LSG21Problem:
        """The complete problem with the scores of W in unknown cells."""
        scores = np.asarray(self.X @ W)
        return self.complete.with_labels(np.where(self.known, self.Y, scores + self.mean(self.Y - scores)))

    def objectives(self, W: np.ndarray, certifier: Certifier) -> tuple[float, float]:
        """Primal and dual objective at W and the best b; all labels must be penalised."""
        root, scores = self.complete.root_weight[:, None] * self.known, np.asarray(self.X @ W)
        R = root * (scores + self.mean(self.Y - scores) - self.Y)
        excess = certifier.excess(self.complete.transposed(R), W)
        square, inner = float(np.vdot(R, R)), float(np.vdot(R, root * self.Y))
        primal = square + certifier.alpha * self.complete.penalty.value(W)  # Eq. (4)
        return primal, self.complete.dual(square, inner, float(excess.max(initial=0.0)))

    def at(self, labels: np.ndarray) -> "KnownCells":
        """The problem of some of the labels, which no edge joins to the others."""
        return KnownCells(
            self.complete.at(labels), self.X, self.Y[:, labels], self.known[:, labels], self.sample_weight
        )

    def rows_of(self, label: int) -> LSG21Problem:
        """The problem of one label on the rows where it is known."""
        rows, one = np.flatnonzero(self.known[:, label]), np.array([label])
        weight, Y = self.sample_weight[rows], self.Y[np.ix_(rows, one)]
        return LSG21Problem.build(self.X[rows], Y, weight, self.complete.penalty.at(one), self.complete.fit_intercept)


def solve_known_cells(
    cells: KnownCells,
    alpha: float,
    control: Control,
    *,
    start: np.ndarray | None = None,
    gram: np.ndarray | None = None,
) -> Result:
    """Solve LSG21 on the known cells to a certified gap; arguments and result are those of `solve_lsg21`."""
    shape = cells.Y.shape
    is_penalised = alpha * cells.complete.penalty.total > 0.0
    W = np.zeros((cells.X.shape[1], shape[1])) if start is None else start.copy()
    free_primal = free_dual = 0.0
    for label in np.flatnonzero(~is_penalised).tolist():
        if cells.weight[:, label].any():
            W[:, [label]], primal, dual = least_norm(cells.rows_of(label), np.array([0]))
            free_primal, free_dual = free_primal + primal, free_dual + dual
    penalised = np.flatnonzero(is_penalised)
    own, some = cells.at(penalised), Control(tol=control.tol, max_iter=_STEPS_A_TURN)
    certifier = Certifier(own.complete, alpha)

    def step() -> float:
        V = np.ascontiguousarray(W[:, penalised])
        W[:, penalised] = solve_lsg21(own.filled(V), alpha, some, start=V, gram=gram).coef.T
        return 0.0  # asks for a certificate

    def certify() -> tuple[float, float]:
        primal, dual = (
            own.objectives(np.ascontiguousarray(W[:, penalised]), certifier) if penalised.size else (0.0, 0.0)
        )
        return primal + free_primal, dual + free_dual

    def kept() -> LSG21Start:
        return LSG21Start(W.copy(), shape)

    status, history, tol_abs = run_loop(step, certify, control, patience=5, state=kept)
    return Result(np.ascontiguousarray(W.T), kept(), history, tol_abs, status)
