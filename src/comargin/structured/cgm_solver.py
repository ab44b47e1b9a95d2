"""Clique generation: solve, score every clique by the dual, activate the best, solve again (Algorithm 1).

For masses a the score of a clique is ||v_c(a)||^2, v_c = sum_iy a_iy (psi_c(y_i) - psi_c(y)) x_i. The dual of the
active cliques fixes the masses of the labelings of every connected part; over parts they are taken as independent, one
of the dual solutions. The states of a clique are signed sums of the moments X^T q_S of subsets S of its labels
(``cliques.py``), q_iS = sum_y a_iy (prod_S y_i - prod_S y), so that one product per pair scores its four states.

Stopping rule. With r cliques a round, problem (6) has one group for every set of at most r cliques. For the masses a of
any active set

    D_all(a) = sum Delta a - (||u(a)||^2 + the r largest scores of all cliques) / (2 lambda)

is a lower bound of its optimum, and so is D_all(s a) with the rest of the mass on the true labelings, 0 <= s <= 1; F of
the active set is an upper one. Their difference bounds what further cliques can gain. Generation ends when
D(a) - D_all(a) <= tol F: the best cliques would change the dual solution by no more.
"""

import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from ..core.loop import Control
from ..core.result import Checkpoint, FitState, Result, Status
from ..core.row_blocks import row_blocks
from ..core.row_products import RowProducts
from ..core.rows import CSR
from ..core.threads import worker_threads
from ..inference import Inference
from ._loops import label_products
from .cliques import CliqueSet
from .labelings import StructuredDual, columns_of, layout_of
from .problem import StructuredProblem
from .solver import solve_structured

_SAME_DUAL = 1e-6  # relative difference of dual objectives that rounding explains
_MOMENT_BYTES = 2**26  # of moments computed together, as coefficients of the rows and as weights of the features


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
    alpha: float = 0.0  # of the problem
    final_tol: float = 0.0  # tolerance of the fit
    tol: float = 0.0  # tolerance of the round
    taken_back: bool = False  # whether the round is the last, after useless ones
    first_pass: int = 0  # passes that were done at the first certificate of the round
    rounds: tuple[Round, ...] = ()  # the last is the one under way; taken while it runs, its hamming is NaN
    history: tuple[Checkpoint, ...] = ()  # certified moments so far

    def goes_on(self, problem: StructuredProblem, rules: Generation, tol: float) -> bool:
        """Whether the fit had the same parameters and rows; if not, its labelings and cliques still are a start.

        Another kernel, features or costs show in the dual objective at the same masses.
        """
        if (self.rules, self.alpha, self.final_tol) != (rules, problem.alpha, tol):
            return False
        expectations, layout = _Expectations(problem, self), layout_of(self.cliques)
        q = np.column_stack([expectations.moment(subset) for subset in self.cliques.subsets])
        V = columns_of(np.ascontiguousarray(problem.X.T @ q), layout)
        linear = _expected_loss(problem, self)
        dual = replace(problem, cliques=self.cliques).dual(linear, np.einsum("ij,ij->j", V, V))
        return abs(dual - self.history[-1].dual) <= _SAME_DUAL * max(linear, abs(dual))

    def rounds_before(self) -> list[tuple[CliqueSet, tuple[tuple[int, ...], ...], StructuredDual]]:
        """Cliques, new cliques and a start of the last two rounds that were finished.

        Their own duals are not kept: this one is a start for fewer cliques, too.
        """
        found: list[tuple[CliqueSet, tuple[tuple[int, ...], ...], StructuredDual]] = []
        for each in self.rounds[-3:-1]:
            cliques, groups = self.cliques.cliques[: each.n_cliques], self.cliques.groups[: each.n_cliques]
            found.append((CliqueSet(self.cliques.n_labels, cliques, groups), each.cliques, self))
        return found


@dataclass(frozen=True)
class CGMPolicy:
    round_gap: float = 1e-2  # relative, of all rounds but the last: their dual only has to rank cliques


POLICY = CGMPolicy()


def candidate_cliques(n_labels: int, order: int) -> Iterator[tuple[int, ...]]:
    """All cliques of order 2 to ``order``, in a fixed order."""
    for size in range(2, order + 1):
        yield from itertools.combinations(range(n_labels), size)


class _Expectations:
    """Expected products of labels under the masses: labelings of different parts are taken as independent."""

    def __init__(self, problem: StructuredProblem, dual: StructuredDual) -> None:
        self.problem, self.dual = problem, dual
        self.place = {label: (p, k) for p, labels in enumerate(dual.parts) for k, label in enumerate(labels)}
        self.inverse = np.divide(1.0, problem.mass, out=np.zeros_like(problem.mass), where=problem.mass > 0.0)
        self.single = {label: self._all_on([label]) for label in self.place}

    def _all_on(self, labels: list[int]) -> np.ndarray:
        """Probability that some labels of one part are all on."""
        out = np.empty(len(self.inverse))
        known = self.dual.known[self.place[labels[0]][0]]
        label_products(known, np.array([self.place[label][1] for label in labels]), out)
        out *= self.inverse
        return out

    def moment(self, subset: tuple[int, ...]) -> np.ndarray:
        """q_iS of every row."""
        by_part: dict[int, list[int]] = {}
        for label in subset:
            by_part.setdefault(self.place[label][0], []).append(label)
        expected = np.ones(len(self.inverse))
        for labels in by_part.values():
            expected *= self.single[labels[0]] if len(labels) == 1 else self._all_on(labels)
        return self.problem.mass * (np.all(self.problem.Y[:, subset], axis=1) - expected)


def score_cliques(
    problem: StructuredProblem, dual: StructuredDual, order: int, products: RowProducts
) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """Cliques up to an order, and active ones of a higher order, with their scores for the masses of a dual."""
    expectations = _Expectations(problem, dual)
    cliques = list(candidate_cliques(problem.cliques.n_labels, order))
    cliques += [clique for clique in problem.cliques.cliques if len(clique) > order]  # of a fit before
    scores = np.empty(len(cliques))
    widest = max(16, _MOMENT_BYTES // (8 * max(problem.X.shape)) // 2**order)
    for some in row_blocks(len(cliques), widest):
        labels = sorted(set().union(*cliques[some]))
        local = CliqueSet(problem.cliques.n_labels, tuple(cliques[some]), (0,) * len(cliques[some])).within(labels)
        subsets = [tuple(labels[k] for k in subset) for subset in local.subsets]
        moments = products.backward(np.column_stack([expectations.moment(subset) for subset in subsets]))
        v = columns_of(np.ascontiguousarray(moments), layout_of(local))
        scores[some] = local.clique_squares(np.einsum("ij,ij->j", v, v))  # ||v_c(a)||^2 of Eq. (9)
    return cliques, scores


class _Progress:
    """State of generation: its cliques, the start and tolerance of the current round, and the rounds before."""

    def __init__(self, problem: StructuredProblem, rules: Generation, final_tol: float, start: Any) -> None:
        self.problem, self.rules, self.final_tol, self.start = problem, rules, final_tol, start
        self.active: CliqueSet = problem.cliques if start is None else start.cliques
        self.new: tuple[tuple[int, ...], ...] = self.active.cliques
        self.tol, self.taken_back = max(final_tol, POLICY.round_gap), False
        self.before: list[tuple[CliqueSet, tuple[tuple[int, ...], ...], StructuredDual]] = []  # of the last rounds
        self.rounds: list[Round] = []
        self.history: list[Checkpoint] = []
        self.began = time.perf_counter()
        self.first_pass: int | None = None  # passes before the round under way; None before its first certificate
        if isinstance(start, StoppedGeneration) and start.goes_on(problem, rules, final_tol):
            self.tol, self.taken_back, self.before = start.tol, start.taken_back, start.rounds_before()
            *self.rounds, under_way = start.rounds
            self.new, self.first_pass = under_way.cliques, start.first_pass
            self.history = list(start.history)
            self.began -= self.history[-1].seconds

    def control(self, control: Control) -> Control:
        """Tolerance and limits of the next round; its certificates go to ``history``, ``keep`` gets whole states."""
        n_passes, left = 0, control.max_iter
        if self.history:
            n_passes = self.history[-1].n_iter
            if self.first_pass is not None:
                left = max(left - (n_passes - self.first_pass), 0)
                self.history.pop()  # the round goes on with the same certificate
        state: Callable[[], FitState]

        def remember(latest: Callable[[], FitState]) -> None:
            nonlocal state
            state = latest

        def at_certificate(point: Checkpoint) -> object:
            self.history.append(point)
            self.first_pass = point.n_iter if self.first_pass is None else self.first_pass
            if control.keep is not None:
                control.keep(lambda: FitState(self.stopped(state().solution, self.round_at(point))))
            return control.callback is not None and control.callback(point)

        limits = replace(control, tol=self.tol, max_iter=left, n_before=n_passes, started=self.began)
        return replace(limits, callback=at_certificate, keep=None if control.keep is None else remember)

    def round_at(self, point: Checkpoint, lower: float = 0.0, hamming: float = math.nan) -> Round:
        """The current round at a certificate, with a lower bound of the relaxed problem (6)."""
        return Round(
            cliques=self.new,
            n_cliques=len(self.active.cliques),
            objective=point.primal,
            gap=point.gap,
            improvement=point.primal - lower,
            hamming=hamming,
            n_iter=point.n_iter - sum(earlier.n_iter for earlier in self.rounds),
            seconds=time.perf_counter() - self.began,
        )

    def stopped(self, dual: StructuredDual, under_way: Round) -> StoppedGeneration:
        """The state to resume from, with the dual of the current round."""
        assert self.first_pass is not None  # there was a certificate
        return StoppedGeneration(
            **vars(dual),
            rules=self.rules,
            alpha=self.problem.alpha,
            final_tol=self.final_tol,
            tol=self.tol,
            taken_back=self.taken_back,
            first_pass=self.first_pass,
            rounds=(*self.rounds, under_way),
            history=tuple(self.history),
        )

    def activate(self, new: tuple[tuple[int, ...], ...]) -> None:
        """Begin a round with more cliques."""
        self.before = [*self.before[-1:], (self.active, self.new, self.start)]
        groups = self.active.groups + (self.active.n_groups,) * len(new)
        self.active, self.new = CliqueSet(self.active.n_labels, self.active.cliques + new, groups), new

    def take_back(self) -> None:
        """Solve the round before two useless ones again, to the tolerance that was asked for."""
        self.taken_back, self.tol = True, self.final_tol
        self.active, self.new, self.start = self.before[-2]
        del self.rounds[-3:]

    def is_useless(self) -> bool:
        """Rule of section A.3: whether the objective fell by no more than a fraction in the last two rounds."""
        if self.rules.round_tol <= 0.0 or len(self.rounds) <= 3:
            return False
        before, now = self.rounds[-3].objective, self.rounds[-1].objective
        return before - now <= self.rules.round_tol * before  # section A.3


def solve_cgm(
    problem: StructuredProblem,
    view: np.ndarray | CSR,
    engine_of: Callable[[CliqueSet], Inference],
    control: Control,
    rules: Generation,
    *,
    seed: int,
    n_threads: int = 1,
    start: StructuredDual | None = None,
) -> tuple[Result, CliqueSet, list[Round]]:
    """Learn weights and cliques, Algorithm 1; the result is the same for any number of threads.

    ``problem`` has no cliques, ``view`` is its X as the loops take it, ``engine_of`` makes the inference on given
    cliques, ``seed`` fixes the order of the blocks. ``control`` has the tolerance of the last round and the most passes
    of each round; its ``keep`` gets states as ``StoppedGeneration``. The first round begins with the cliques of
    ``start``. A ``StoppedGeneration`` of the same parameters goes on in its round, with its rounds and history: from
    the end of a round as without the stop but for rounding, from within one to a solution within its tolerance.

    Returns the result of the last round with the history of all rounds, the active cliques, one group per round, and
    the rounds that were not taken back.
    """
    now = _Progress(problem, rules, control.tol, start)
    n_candidates = sum(math.comb(problem.cliques.n_labels, size) for size in range(2, rules.order + 1))
    most = n_candidates if rules.max_cliques is None else min(rules.max_cliques, n_candidates)
    with worker_threads(n_threads) as pool:
        products = RowProducts(problem.X, pool)
        while True:
            current = replace(problem, cliques=now.active)
            result = solve_structured(
                current,
                view,
                engine_of,
                now.control(control),
                seed=seed,
                n_threads=n_threads,
                start=now.start,
                products=products,
            )
            now.start, now.history[-1] = result.dual_coef, result.history[-1]
            candidates, scores = score_cliques(current, result.dual_coef, rules.order, products)
            best = np.argsort(-scores, kind="stable")  # Eq. (7), (9)
            score_of = dict(zip(candidates, scores.tolist(), strict=True))
            violation = _violation(current, score_of, float(scores[best[: rules.per_round]].sum()))
            lower = _lower_bound(_expected_loss(current, result.dual_coef), result.dual - violation)
            hamming = _hamming(current, result.coef, engine_of(now.active), products)
            last = now.round_at(result.history[-1], lower, hamming)
            if result.status is Status.STOPPED:
                now.start = now.stopped(result.dual_coef, last)
            now.rounds.append(last)
            if result.status is Status.STOPPED or now.taken_back:
                break
            now.first_pass = None
            if now.is_useless():
                now.take_back()
                continue
            n_active = len(now.active.cliques)
            if n_active >= most or len(now.rounds) > rules.max_rounds or violation <= control.tol * result.primal:
                if now.tol == control.tol:
                    break
                now.tol = control.tol  # this round again
                now.rounds.pop()
                continue
            active = set(now.active.cliques)
            inactive = (candidates[c] for c in best if candidates[c] not in active)
            now.activate(tuple(itertools.islice(inactive, min(rules.per_round, most - n_active))))
    return Result(result.coef, now.start, tuple(now.history), result.tol_abs, result.status), now.active, now.rounds


def _violation(problem: StructuredProblem, score_of: dict[tuple[int, ...], float], best: float) -> float:
    """D(a) - D_all(a): the fall of the dual objective when the group of the r best cliques is added."""
    groups = np.zeros(problem.cliques.n_groups)
    for clique, group in zip(problem.cliques.cliques, problem.cliques.groups, strict=True):
        groups[group] += score_of[clique]
    return 0.5 * max(best - float(groups.max(initial=0.0)), 0.0) / problem.alpha


def _expected_loss(problem: StructuredProblem, dual: StructuredDual) -> float:
    """Sum Delta a, the linear part of the dual."""
    total = 0.0
    for labels, known in zip(dual.parts, dual.known, strict=True):
        truth, costs = problem.Y[:, labels], problem.cost[:, labels]
        for p in range(known.mass.shape[1]):
            total += float(known.mass[:, p] @ np.sum(costs * (known.labels[:, p] != truth), axis=1))
    return total


def _lower_bound(linear: float, dual: float) -> float:
    """Maximum over 0 <= s <= 1 of D_all(s a) = s linear - s^2 quadratic; the other mass is on true labelings."""
    quadratic = linear - dual
    s = min(1.0, 0.5 * linear / quadratic) if quadratic > 0.0 else 1.0
    return s * linear - s**2 * quadratic


def _hamming(problem: StructuredProblem, coef: np.ndarray, engine: Inference, products: RowProducts) -> float:
    """Fraction of wrong labels of the training rows, weighted by their masses."""

    def wrong(rows: slice) -> float:
        labels = engine.map(np.ascontiguousarray(products.part(rows) @ coef.T))[0]
        return float(problem.mass[rows] @ np.mean(labels != problem.Y[rows], axis=1))

    return sum(products.pool.map(wrong, row_blocks(len(problem.Y), 1024)))
