"""A solver's solution, its certificate, and the history of both."""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, NamedTuple

import numpy as np


class Status(Enum):
    """How a solver ended; the value is a sentence for people."""

    CONVERGED = "the duality gap is within the tolerance"
    MAX_ITER = "the iteration limit was reached before the tolerance"
    STALLED = "no step changes the objective any more"
    STOPPED = "the callback asked to stop"

    @property
    def falls_short(self) -> bool:
        """Whether the solver ended before the tolerance, and not because it was asked to."""
        return self in (Status.MAX_ITER, Status.STALLED)


class Checkpoint(NamedTuple):
    """One certified moment of a fit.

    Attributes
    ----------
    n_iter : int
        Iterations (epochs) done.
    seconds : float
        Time since the solver started.
    primal, dual : float
        Objective values; the optimum lies between them.
    """

    n_iter: int
    seconds: float
    primal: float
    dual: float

    @property
    def gap(self) -> float:
        """Duality gap, primal - dual: an upper bound on how far the primal is from its optimum."""
        return self.primal - self.dual


class FitState(NamedTuple):
    """A fit at one of its certificates, from which it resumes in this process or another.

    Attributes
    ----------
    solution : object with a shape
        Start of the learner's solver; its shape is that of the indicator.
    history : tuple of Checkpoint
        Certified moments so far, that of ``solution`` last; empty if ``solution`` holds them itself.
    measured : tuple of (float, bool)
        For a fit of a path: criterion and convergence of the values before, in the order of the path.
    """

    solution: Any
    history: tuple[Checkpoint, ...] = ()
    measured: tuple[tuple[float, bool], ...] = ()


@dataclass(frozen=True)
class Result:
    """Solution and certificate of one solve.

    Attributes
    ----------
    coef : ndarray of shape (n_labels, n_features)
        Primal solution.
    dual_coef : ndarray of shape (n_samples, n_labels), or another object with such a shape
        Dual solution; a start for the next solve.
    history : tuple of Checkpoint
        Certified moments; the last one belongs to ``coef`` and ``dual_coef``.
    tol_abs : float
        The scaled tolerance the last gap was compared with.
    status : Status
        How the solver ended.
    """

    coef: np.ndarray
    dual_coef: Any
    history: tuple[Checkpoint, ...]
    tol_abs: float
    status: Status

    def certified_by(self, primal: float, dual: float, tol_abs: float) -> "Result":
        """The same with other objectives at its end: those of the weights that are returned."""
        last = self.history[-1]._replace(primal=primal, dual=dual)
        lost = self.status is Status.CONVERGED and not last.gap <= tol_abs
        status = Status.STALLED if lost else self.status
        return replace(self, history=(*self.history[:-1], last), tol_abs=tol_abs, status=status)

    @property
    def primal(self) -> float:
        """Primal objective of ``coef``."""
        return self.history[-1].primal

    @property
    def dual(self) -> float:
        """Dual objective of ``dual_coef``."""
        return self.history[-1].dual

    @property
    def gap(self) -> float:
        """Duality gap of the returned pair."""
        return self.history[-1].gap

    @property
    def n_iter(self) -> int:
        """Iterations done."""
        return self.history[-1].n_iter
