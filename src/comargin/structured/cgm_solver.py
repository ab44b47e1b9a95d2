"""Clique generation: solve, score every clique by the dual, activate the best, solve again (Algorithm 1).

For masses a the score of a clique is ||v_c(a)||^2, v_c = sum_iy a_iy (psi_c(y_i) - psi_c(y)) x_i. The dual of the
active cliques fixes the masses of the labelings of every connected part; over parts they are taken as independent, one
of the dual solutions. The states of a clique are signed sums of the moments X^T q_S of subsets S of its labels
(q_iS = sum_y a_iy (prod_S y_i - prod_S y)): for pairs with m_j, m_k, m_jk the four states are m_jk, m_j - m_jk,
m_k - m_jk and -(m_j + m_k - m_jk). So one product per pair scores all four.

What stops it. With r cliques a round, problem (6) has one group for every set of at most r cliques. For the masses a of
any active set

    D_all(a) = sum Delta a - (||u(a)||^2 + the r largest scores of all cliques) / (2 lambda)

is a lower bound of its optimum, and so is D_all(s a) with the rest of the mass on the true labelings, 0 <= s <= 1; F of
the active set is an upper one. Their difference bounds what further cliques can gain. Generation ends when
D(a) - D_all(a) <= tol F: to add the best cliques would not change the dual solution by more.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor
from dataclasses import replace

import numpy as np

from ..kernels._moments import label_products
from ..kernels._rows import CSR
from ..problems.cliques import CliqueSet
from ..problems.rows import row_blocks
from ..problems.structured import StructuredProblem
from ._generation import Generation, Round, StoppedGeneration
from ._labelings import StructuredDual
from ._loop import Control
from ._result import Checkpoint, Result, Status
from ._row_products import RowProducts
from ._structured_part import MapEngine
from ._threads import worker_threads
from .structured import solve_structured

# Moments computed together take about so many bytes, as coefficients of the rows and as weights of the features.
_MOMENT_BYTES = 2**26
# Rounds but the last are solved to this relative gap: their dual only has to rank cliques.
_ROUND_TOL = 1e-2


def candidate_cliques(n_labels: int, order: int) -> Iterator[tuple[int, ...]]:
    """All cliques of order 2 to ``order``.

    Parameters
    ----------
    n_labels : int
        Labels.
    order : int
        Largest order.

    Returns
    -------
    iterator of tuple of int
        In a fixed order.
    """
    for size in range(2, order + 1):
        yield from itertools.combinations(range(n_labels), size)


class _Expectations:
    """Expected products of labels under the masses: labelings of different parts are taken as independent."""

    def __init__(self, problem: StructuredProblem, dual: StructuredDual) -> None:
        self.problem, self.dual = problem, dual
        self.place = {label: (p, k) for p, labels in enumerate(dual.parts) for k, label in enumerate(labels)}
        self.inverse = np.divide(1.0, problem.mass, out=np.zeros_like(problem.mass), where=problem.mass > 0.0)
        self.single = np.column_stack([self._within(*self.place[k], ()) for k in range(problem.cliques.n_labels)])

    def _within(self, part: int, first: int, others: tuple[int, ...]) -> np.ndarray:
        """Probability that some labels of one part are all on."""
        out = np.empty(len(self.inverse))
        label_products(self.dual.known[part], np.array((first, *others)), out)
        out *= self.inverse
        return out

    def moment(self, subset: tuple[int, ...]) -> np.ndarray:
        """q_iS of every row."""
        truth = np.all(self.problem.Y[:, subset], axis=1)
        by_part: dict[int, list[int]] = {}
        for label in subset:
            by_part.setdefault(self.place[label][0], []).append(label)
        expected = np.ones(len(truth))
        for part, labels in by_part.items():
            if len(labels) == 1:
                expected *= self.single[:, labels[0]]
            else:
                first, *others = (self.place[label][1] for label in labels)
                expected *= self._within(part, first, tuple(others))
        return self.problem.mass * (truth - expected)


def score_cliques(
    problem: StructuredProblem, dual: StructuredDual, order: int, pool: Executor
) -> tuple[list[tuple[int, ...]], np.ndarray]:
    """||v_c(a)||^2 of all cliques up to an order, in parts of bounded memory.

    Parameters
    ----------
    problem : StructuredProblem
        Rows and labels; its cliques do not matter.
    dual : StructuredDual
        Masses a.
    order : int
        Largest order of a clique.
    pool : Executor
        Threads.

    Returns
    -------
    cliques : list of tuple of int
        All candidates, and active cliques of a higher order.
    scores : ndarray of shape (n_candidates,)
        Not negative.
    """
    products, expectations = RowProducts(problem.X, pool), _Expectations(problem, dual)
    cliques = list(candidate_cliques(problem.cliques.n_labels, order))
    cliques += [clique for clique in problem.cliques.cliques if len(clique) > order]  # of a fit before
    scores = np.empty(len(cliques))
    widest = max(16, _MOMENT_BYTES // (8 * max(problem.X.shape)) // 2**order)
    for part in row_blocks(len(cliques), widest):
        # Cliques of two orders are scored apart, so that one table of signs serves all.
        for size, group in itertools.groupby(range(part.start, part.stop), key=lambda c: len(cliques[c])):
            places = list(group)
            scores[places] = _scores([cliques[c] for c in places], size, products, expectations)
    return cliques, scores


def _scores(
    cliques: list[tuple[int, ...]], order: int, products: RowProducts, expectations: _Expectations
) -> np.ndarray:
    """Scores of some cliques of one order."""
    # Subset number t of a clique has the labels at the ones of t, so that subset 0 is empty.
    subsets: dict[tuple[int, ...], int] = {}
    of_clique = np.empty((len(cliques), 2**order), dtype=np.int64)
    for c, clique in enumerate(cliques):
        for t in range(1, 2**order):
            subset = tuple(label for position, label in enumerate(clique) if t >> position & 1)
            of_clique[c, t] = subsets.setdefault(subset, len(subsets))
    moments = products.backward(np.column_stack([expectations.moment(subset) for subset in subsets]))
    scores = np.zeros(len(cliques))
    for on in range(2**order):
        # [the labels of ``on`` are on, the others off] = sum over sets between ``on`` and all of (-1)^|set - on|
        state = np.zeros((moments.shape[0], len(cliques)))
        for t in range(1, 2**order):
            if t & on == on:
                sign = -1.0 if (t ^ on).bit_count() % 2 else 1.0
                state += sign * moments[:, of_clique[:, t]]
        scores += np.einsum("ij,ij->j", state, state)
    return scores


def solve_cgm(
    problem: StructuredProblem,
    view: np.ndarray | CSR,
    engine_of: Callable[[CliqueSet], MapEngine],
    control: Control,
    rules: Generation,
    *,
    seed: int,
    n_threads: int = 1,
    start: StructuredDual | None = None,
) -> tuple[Result, CliqueSet, list[Round]]:
    """Learn weights and cliques.

    Parameters
    ----------
    problem : StructuredProblem
        Data, without cliques.
    view : ndarray or CSR
        ``problem.X`` as the kernels take it.
    engine_of : callable
        Inference on given cliques.
    control : Control
        Tolerance of the last round, most passes of each round, progress and callback.
    rules : Generation
        Rules.
    seed : int
        Order of the blocks.
    n_threads : int, default=1
        Threads; the result is the same for any number.
    start : StructuredDual or None
        Of a fit before, whose cliques the first round begins with. A ``StoppedGeneration`` of the same parameters goes
        on in its round, as if it had not been stopped.

    Returns
    -------
    result : Result
        Of the last round; its history goes over all rounds.
    cliques : CliqueSet
        Active cliques, one group per round.
    rounds : list of Round
        What happened, without rounds that were taken back.
    """
    begin = time.perf_counter()
    active: CliqueSet = problem.cliques if start is None else start.cliques
    new: tuple[tuple[int, ...], ...] = active.cliques
    n_candidates = sum(math.comb(active.n_labels, size) for size in range(2, rules.order + 1))
    most = n_candidates if rules.max_cliques is None else min(rules.max_cliques, n_candidates)
    history: list[Checkpoint] = []
    rounds: list[Round] = []
    tol = max(control.tol, _ROUND_TOL)
    before: list[tuple[CliqueSet, tuple[tuple[int, ...], ...], StructuredDual]] = []  # of the last rounds
    taken_back = False
    n_passes, first_pass = 0, None  # done so far, and where those of this round began, if it is under way
    if isinstance(start, StoppedGeneration) and start.goes_on(problem, rules, control.tol):
        tol, taken_back, before = start.tol, start.taken_back, start.rounds_before()
        *history, last = start.history
        *rounds, under_way = start.rounds
        new, begin = under_way.cliques, begin - last.seconds
        n_passes, first_pass = last.n_iter, start.first_pass
    with worker_threads(n_threads) as pool:
        while True:
            current = replace(problem, cliques=active)
            left = control.max_iter if first_pass is None else max(control.max_iter - (n_passes - first_pass), 0)
            round_control = replace(control, tol=tol, max_iter=left, n_before=n_passes, started=begin)
            result = solve_structured(
                current, view, engine_of, round_control, seed=seed, n_threads=n_threads, start=start
            )
            start = result.dual_coef
            first_pass = result.history[0].n_iter if first_pass is None else first_pass
            history += result.history
            candidates, scores = score_cliques(current, result.dual_coef, rules.order, pool)
            best = np.argsort(-scores, kind="stable")
            score_of = dict(zip(candidates, scores.tolist(), strict=True))
            violation = _violation(current, score_of, float(scores[best[: rules.per_round]].sum()))
            lower = _lower_bound(_expected_loss(current, start), result.dual - violation)
            hamming = _hamming(current, result.coef, engine_of(active), pool)
            rounds.append(
                Round(
                    cliques=new,
                    n_cliques=len(active.cliques),
                    objective=result.primal,
                    gap=result.gap,
                    improvement=result.primal - lower,
                    hamming=hamming,
                    n_iter=result.n_iter - sum(earlier.n_iter for earlier in rounds),
                    seconds=time.perf_counter() - begin,
                )
            )
            if result.status is Status.STOPPED:
                start = StoppedGeneration(
                    **vars(start),
                    rules=rules,
                    alpha=problem.alpha,
                    final_tol=control.tol,
                    tol=tol,
                    taken_back=taken_back,
                    first_pass=first_pass,
                    rounds=tuple(rounds),
                    history=tuple(history),
                )
                break
            n_passes, first_pass = result.n_iter, None
            if taken_back:
                break
            fell = _fell(rounds[-3].objective, rounds[-1].objective) if len(rounds) > 3 else np.inf
            if rules.round_tol > 0.0 and fell <= rules.round_tol:
                # Two rounds were useless: the one before them again, to the tolerance that was asked for.
                taken_back, tol = True, control.tol
                active, new, start = before[-2]
                del rounds[-3:]
                continue
            if (
                len(active.cliques) >= most
                or len(rounds) > rules.max_rounds
                or violation <= control.tol * result.primal
            ):
                if tol == control.tol:
                    break
                tol = control.tol  # this round again
                rounds.pop()
                continue
            before = [*before[-1:], (active, new, start)]
            taken = set(active.cliques)
            room = min(rules.per_round, most - len(active.cliques))
            new = tuple(itertools.islice((candidates[c] for c in best if candidates[c] not in taken), room))
            groups = active.groups + (active.n_groups,) * len(new)
            active = CliqueSet(active.n_labels, active.cliques + new, groups)
    return Result(result.coef, start, tuple(history), result.tol_abs, result.status), active, rounds


def _fell(before: float, now: float) -> float:
    """What the objective fell by, as a fraction."""
    return (before - now) / before if before > 0.0 else 0.0


def _violation(problem: StructuredProblem, score_of: dict[tuple[int, ...], float], best: float) -> float:
    """How much the dual objective falls when the group of the r best cliques is added: D(a) - D_all(a)."""
    groups = np.zeros(problem.cliques.n_groups)
    for clique, group in zip(problem.cliques.cliques, problem.cliques.groups, strict=True):
        groups[group] += score_of[clique]
    return 0.5 * max(best - float(groups.max(initial=0.0)), 0.0) / problem.alpha


def _expected_loss(problem: StructuredProblem, dual: StructuredDual) -> float:
    """Sum Delta a, the linear part of the dual."""
    total = 0.0
    for labels, known in zip(dual.parts, dual.known, strict=True):
        truth = problem.Y[:, labels]
        costs = np.where(truth > 0, problem.cost[1, labels], problem.cost[0, labels])
        for p in range(known.mass.shape[1]):
            total += float(known.mass[:, p] @ np.sum(costs * (known.labels[:, p] != truth), axis=1))
    return total


def _lower_bound(linear: float, dual: float) -> float:
    """The best of D_all(s a) = s linear - s^2 quadratic, 0 <= s <= 1: mass may be moved to the true labelings."""
    quadratic = linear - dual
    s = min(1.0, 0.5 * linear / quadratic) if quadratic > 0.0 else 1.0
    return s * linear - s**2 * quadratic


def _hamming(problem: StructuredProblem, coef: np.ndarray, engine: MapEngine, pool: Executor) -> float:
    """Fraction of wrong labels of the training rows, weighted as they are."""
    products = RowProducts(problem.X, pool)

    def wrong(rows: slice) -> float:
        labels = engine.map(np.ascontiguousarray(products.part(rows) @ coef.T))[0]
        return float(problem.mass[rows] @ np.mean(labels != problem.Y[rows], axis=1))

    return sum(pool.map(wrong, row_blocks(len(problem.Y), 1024)))
