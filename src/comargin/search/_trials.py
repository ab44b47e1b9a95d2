"""The trials of `AutoClassifier`: what to try next, what it is worth, and which models to blend."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.memory import Memory
from ..core.threshold_rule import FloatArray
from ..decisions import LabelDecisions
from ..decisions.blending import blend_weights, held_out_log_odds, row_losses
from ..metrics import evaluate
from ._candidates import Candidate, Place
from ._tune_result import text_of
from .budget import Purse

# A member stays with so much of the largest weight. Where it had to make the blend better by a standard error, 15 of 18
# figures were worse on flags, emotions and enron, subset accuracy and macro-F1 by up to 0.023.
_LEAST_SHARE = 0.1


@dataclass
class Trial:
    """One model with one choice of parameters, judged on rows that it was not fitted on.

    Attributes
    ----------
    model : str
        Name of the model.
    parameters : dict
        Values that were searched.
    rows : int
        Rows it was judged on.
    log_loss : float
        Mean over rows of the summed log losses of their calibrated labels: what trials are compared by.
    value : float
        The measure of the aim, at label sets made for it.
    seconds : float
        Time of its fits and scores.
    weight : float
        Weight in the final blend, 0 if it is no member.
    """

    model: str
    parameters: dict[str, Any]
    rows: int
    log_loss: float
    value: float
    seconds: float
    weight: float = 0.0

    @property
    def text(self) -> str:
        """The parameters in one line."""
        return ", ".join(f"{name} = {text_of(value)}" for name, value in self.parameters.items())


@dataclass
class Contender:
    """A candidate and the best of its trials."""

    candidate: Candidate
    tried: set[Place] = field(default_factory=set)
    place: Place = ()
    trial: Any = None  # the three below belong to it; None before the first
    calibrator: Any = None
    scores: Any = None
    log_odds: Any = None

    def estimator(self) -> Any:
        """The estimator at its best place, not fitted."""
        return self.candidate.estimator_at(self.place)

    def untried(self) -> list[Place]:
        """Neighbours of the best place that have not been tried."""
        return [place for place in self.candidate.neighbours(self.place) if place not in self.tried]


class Tournament:
    """Trials on one split of some rows, in an order that follows from their results alone.

    ``held_out(estimator, memory)`` returns scores of the rows, to which ``Y`` and ``weight`` belong. Results are added
    to ``trials``, and kept in ``memory`` by their number there.
    """

    def __init__(
        self,
        held_out: Callable[[Any, Memory], FloatArray],
        Y: Any,
        weight: FloatArray,
        aim: Any,
        memory: Memory,
        show: Callable[[str], None],
        trials: list[Trial],
    ) -> None:
        self._held_out, self._Y, self._weight, self._aim = held_out, Y, weight, aim
        self._memory, self._show, self._trials = memory, show, trials

    def attempt(self, contender: Contender, place: Place) -> None:
        """Try a place of a candidate, which becomes its best one if it is."""
        part, began = self._memory.part(f"search/{len(self._trials)}"), time.perf_counter()
        estimator, parameters = contender.candidate.estimator_at(place), contender.candidate.parameters(place)
        scores = self._held_out(estimator, part)
        seconds = part.recall("seconds")  # of a fit that was interrupted
        if not isinstance(seconds, float):
            seconds = time.perf_counter() - began
            part.keep("seconds", seconds)
        log_odds = held_out_log_odds(scores, self._Y, self._weight)
        loss = self._mean(row_losses(log_odds, self._Y))
        decisions = LabelDecisions(self._aim).fit(scores, self._Y, self._weight)
        value = value_of(decisions, scores, self._Y)
        trial = Trial(contender.candidate.name, parameters, self._Y.shape[0], loss, value, seconds)
        self._trials.append(trial)
        contender.tried.add(place)
        if contender.trial is None or loss < contender.trial.log_loss:
            contender.place, contender.trial = place, trial
            contender.calibrator, contender.scores, contender.log_odds = decisions.calibrator_, scores, log_odds
        self._show(f"{trial.model}  {trial.text}  {trial.rows} rows, log loss {loss:.4g}")

    def run(self, candidates: list[Candidate], purse: Purse, refine: bool) -> list[Contender]:
        """Try every candidate at its start, then the neighbours of its best place, until none is better."""
        names = ", ".join(candidate.name for candidate in candidates)
        self._show(f"tries {len(candidates)} models on {self._Y.shape[0]} rows, then other parameters of each: {names}")
        known: list[Contender] = []
        for candidate in candidates:
            contender = Contender(candidate)
            if purse.allows(None, self._seconds()):
                self.attempt(contender, candidate.start())
                known.append(contender)
        if not refine:
            return known
        seconds = purse.expected([(one.trial.seconds, len(one.untried())) for one in known])
        self._show(f"expects to take about {seconds:.0f} s more")
        while ahead := [(one, place) for one in sorted(known, key=_log_loss) for place in one.untried()]:
            for contender, place in ahead:
                if not purse.allows(contender.trial.seconds, self._seconds()):
                    return known
                self.attempt(contender, place)
        return known

    def blend(self, contenders: list[Contender]) -> tuple[list[Contender], FloatArray]:
        """The members of the best blend and their weights, without those that it hardly needs."""
        members, weights = contenders, self._weights(contenders)
        while (needed := weights >= _LEAST_SHARE * weights.max()).sum() < len(members):
            members = [one for one, is_needed in zip(members, needed, strict=True) if is_needed]
            weights = self._weights(members)
        return members, weights

    def _seconds(self) -> list[float]:
        return [trial.seconds for trial in self._trials]

    def _weights(self, members: list[Contender]) -> FloatArray:
        return blend_weights([one.log_odds for one in members], self._Y, self._weight)

    def _mean(self, values: FloatArray) -> float:
        return float(np.average(values, weights=self._weight))


def _log_loss(contender: Contender) -> float:
    return contender.trial.log_loss


def value_of(decisions: LabelDecisions, scores: FloatArray, Y: Any) -> float:
    """The measure of the aim of decisions on their rows; the mean cost of a known label for costs."""
    on, P = decisions.decide(scores)
    aim = decisions.aim
    if isinstance(aim, str):
        name = "ranking_loss" if aim == "ranking" else aim
        depth = [int(name.rpartition("_")[2])] if name.startswith("precision_at_") else []
        return float(evaluate(Y, P, on, k=depth)[name])
    costs, wrong = np.broadcast_to(np.asarray(aim, dtype=np.float64), (Y.shape[1], 2)), on - Y.toarray()
    cost = np.where(wrong > 0, costs[:, 0], 0.0) + np.where(wrong < 0, costs[:, 1], 0.0)
    return float(np.mean(cost[~np.isnan(wrong)]))
