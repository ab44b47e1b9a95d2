"""Clique generation: its rules, a round, and the state of a stopped fit."""

from dataclasses import dataclass
from typing import NamedTuple

from ..core.result import Checkpoint
from .cliques import CliqueSet
from .labelings import StructuredDual
from .problem import StructuredProblem


class Round(NamedTuple):
    """One round of clique generation."""

    cliques: tuple[tuple[int, ...], ...]  # activated in this round; none in the first, which learns the nodes
    n_cliques: int  # active cliques
    objective: float  # primal objective with the active cliques
    gap: float  # its duality gap
    improvement: float  # further cliques lower the objective of the relaxed problem (6) by no more than this
    hamming: float  # fraction of wrong labels on the training rows
    n_iter: int  # passes; those of rounds that were taken back count for the one before them
    seconds: float  # since the fit began


@dataclass(frozen=True)
class Generation:
    """Rules of clique generation."""

    per_round: int  # cliques activated together, r
    order: int  # largest order of a clique
    max_cliques: int | None
    max_rounds: int  # after the first
    round_tol: float  # stop when the objective fell by no more than this fraction in two rounds (A.3); take these back


@dataclass(frozen=True)
class StoppedGeneration(StructuredDual):
    """State of a fit: the dual of the current round, and all that is needed to go on with it."""

    rules: Generation | None = None
    alpha: float = 0.0  # lambda
    final_tol: float = 0.0  # tolerance of the fit
    tol: float = 0.0  # tolerance of the round
    taken_back: bool = False  # whether the round is the last, after useless ones
    first_pass: int = 0  # passes that were done at the first certificate of the round
    rounds: tuple[Round, ...] = ()  # the last is the one under way; taken while it runs, its hamming is NaN
    history: tuple[Checkpoint, ...] = ()  # certified moments so far

    def goes_on(self, problem: StructuredProblem, rules: Generation, tol: float) -> bool:
        """Whether the fit had the same parameters; if not, its labelings and cliques still are a start."""
        return (self.rules, self.alpha, self.final_tol) == (rules, problem.alpha, tol)

    def rounds_before(self) -> list[tuple[CliqueSet, tuple[tuple[int, ...], ...], StructuredDual]]:
        """Cliques, new cliques and a start of the last two rounds that were finished.

        Their own duals are not kept: this one is a start for fewer cliques, too.
        """
        found: list[tuple[CliqueSet, tuple[tuple[int, ...], ...], StructuredDual]] = []
        for each in self.rounds[-3:-1]:
            cliques, groups = self.cliques.cliques[: each.n_cliques], self.cliques.groups[: each.n_cliques]
            found.append((CliqueSet(self.cliques.n_labels, cliques, groups), each.cliques, self))
        return found
