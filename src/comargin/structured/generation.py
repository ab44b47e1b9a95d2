"""Clique generation: its rules, its rounds, and where it was stopped."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ..problems.cliques import CliqueSet
from ..problems.structured import StructuredProblem
from ._labelings import StructuredDual
from ._result import Checkpoint


class Round(NamedTuple):
    """One round of clique generation.

    Attributes
    ----------
    cliques : tuple of tuple of int
        Activated in this round; none in the first, which learns the nodes.
    n_cliques : int
        Active cliques.
    objective, gap : float
        Primal objective and its duality gap, with the active cliques.
    improvement : float
        No further cliques can lower the objective of the relaxed problem (6) by more than this.
    hamming : float
        Wrong labels among all, on the training rows.
    n_iter : int
        Passes; those of rounds that were taken back count for the one before them.
    seconds : float
        Time since the fit began.
    """

    cliques: tuple[tuple[int, ...], ...]
    n_cliques: int
    objective: float
    gap: float
    improvement: float
    hamming: float
    n_iter: int
    seconds: float


@dataclass(frozen=True)
class Generation:
    """Rules of clique generation.

    Attributes
    ----------
    per_round : int
        Cliques activated together, r.
    order : int
        Largest order of a clique.
    max_cliques : int or None
        Most cliques.
    max_rounds : int
        Most rounds after the first.
    round_tol : float
        Stop when the objective fell by no more than this fraction in two rounds, rule A.3, and take these back.
    """

    per_round: int
    order: int
    max_cliques: int | None
    max_rounds: int
    round_tol: float


@dataclass(frozen=True)
class StoppedGeneration(StructuredDual):
    """Where a callback stopped: dual of the round under way, and all that is needed to go on with it.

    Attributes
    ----------
    rules : Generation or None
        Rules of the fit.
    alpha, final_tol : float
        Its lambda and its tolerance.
    tol : float
        Tolerance of the round.
    taken_back : bool
        Whether it is the last, after useless ones.
    first_pass : int
        Passes that were done when its first checkpoint was.
    rounds : tuple of Round
        All so far; the last is the one under way.
    history : tuple of Checkpoint
        Certified moments so far.
    """

    rules: Generation | None = None
    alpha: float = 0.0
    final_tol: float = 0.0
    tol: float = 0.0
    taken_back: bool = False
    first_pass: int = 0
    rounds: tuple[Round, ...] = ()
    history: tuple[Checkpoint, ...] = ()

    def goes_on(self, problem: StructuredProblem, rules: Generation, tol: float) -> bool:
        """Whether this is a fit with the same parameters.

        Parameters
        ----------
        problem : StructuredProblem
            To be solved.
        rules : Generation
            Its rules.
        tol : float
            Its tolerance.

        Returns
        -------
        bool
            If not, the labelings and cliques still are a start.
        """
        return (self.rules, self.alpha, self.final_tol) == (rules, problem.alpha, tol)

    def rounds_before(self) -> list[tuple[CliqueSet, tuple[tuple[int, ...], ...], StructuredDual]]:
        """Cliques, new cliques and a start of the last two rounds that were finished.

        Returns
        -------
        list
            Their own duals are not kept: this one is a start for fewer cliques, too.
        """
        found: list[tuple[CliqueSet, tuple[tuple[int, ...], ...], StructuredDual]] = []
        for each in self.rounds[-3:-1]:
            cliques, groups = self.cliques.cliques[: each.n_cliques], self.cliques.groups[: each.n_cliques]
            found.append((CliqueSet(self.cliques.n_labels, cliques, groups), each.cliques, self))
        return found
