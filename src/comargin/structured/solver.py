"""Structured SVM to a certified gap, one connected part of the graph at a time.

Labels without cliques are independent hinge-loss SVMs, solved by the row-block method of M3L: with U_il = m_i / lambda
and the costs as targets its objective is 2/lambda times theirs. Parts with cliques are solved by passes and Newton
steps (``_part.py``). With several groups there is one such part, which also moves the weights t of the groups.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from ..core.loop import Control, average_rounding, run_loop
from ..core.result import Checkpoint, Result, Status
from ..core.row_blocks import squared_lengths
from ..core.row_products import RowProducts
from ..core.rows import CSR
from ..core.threads import worker_threads
from ..inference import Inference
from ..m3l.prior import identity_prior
from ..m3l.problem import M3LProblem
from ..m3l.solver import label_blocks, solve_m3l
from ._loops import Known
from ._part import Pace, Part, PartData
from .cliques import CliqueSet
from .labelings import StructuredDual, flips, without_room
from .problem import StructuredProblem


def solve_structured(
    problem: StructuredProblem,
    view: np.ndarray | CSR,
    engine_of: Callable[[CliqueSet], Inference],
    control: Control,
    *,
    seed: int,
    n_threads: int = 1,
    start: StructuredDual | None = None,
) -> Result:
    """Solve a structured SVM to a certified gap; the result is the same for any number of threads.

    ``view`` is ``problem.X`` as the loops take it, ``engine_of`` makes the inference on given cliques, ``seed`` fixes
    the order of the blocks. ``start`` is the ``dual_coef`` of another result on the same rows, or a state kept by
    ``control``; the true labelings if None. From a state the solver ends within the tolerance of where it would have
    ended, not exactly there: the order of blocks and the moments of certificates begin anew.

    In the result ``coef`` is W^T (n_columns, n_features) and ``dual_coef`` a ``StructuredDual``.
    """
    control = control if control.started is not None else replace(control, started=time.perf_counter())
    given = start or StructuredDual.true(problem)
    start = given.start_of(problem)
    known = dict(zip(start.parts, start.known, strict=True))
    single = [labels for labels in start.parts if len(labels) == 1]
    joined = [labels for labels in start.parts if len(labels) > 1]
    weights = np.zeros((problem.X.shape[1], problem.cliques.n_columns), order="F")
    alone = None
    if single:

        def flipped_known(flipped: np.ndarray) -> dict[tuple[int, ...], Known]:
            masses = zip(single, flipped.T, strict=True)
            return {labels: flips(problem.Y[:, labels], problem.mass, mass) for labels, mass in masses}

        def packed(dual: np.ndarray) -> StructuredDual:
            before = weights if start.weights is None else start.weights
            return _packed(start, known | flipped_known(problem.alpha * dual), before.copy())

        quiet = control.packing(packed)
        if joined:  # the states of these labels are not states of the whole
            quiet = replace(quiet, verbose=0, callback=None, keep=None, before=())
        alone_labels = [labels[0] for labels in single]
        alone = _solve_single(problem, view, alone_labels, known, quiet, seed, n_threads)
        weights[:, alone_labels] = alone.coef.T
        known |= flipped_known(alone.dual_coef)
        if not joined:
            dual = _packed(start, known, weights)
            return replace(alone, coef=np.ascontiguousarray(weights.T), dual_coef=dual)
        # A resumed fit solved these labels before its first checkpoint.
        control = replace(control, n_before=control.before[0].n_iter if control.before else alone.n_iter)
    parts: list[Part] = []
    with worker_threads(n_threads) as pool:
        products = RowProducts(problem.X, pool)
        columns = []
        for labels in joined:
            local, column = problem.cliques.within(labels), problem.cliques.column
            inside = [c for c, clique in enumerate(problem.cliques.cliques) if clique[0] in labels]
            places = np.concatenate([labels, *(np.arange(column[c], column[c + 1]) for c in inside)])  # of its columns
            columns.append(places)
            Y, cost = np.ascontiguousarray(problem.Y[:, labels]), np.ascontiguousarray(problem.cost[:, labels])
            data = PartData.of(replace(problem, Y=Y, cost=cost, cliques=local), engine_of(local), products)
            new_cliques = given.cliques != problem.cliques
            pace = Pace(control.tol, problem.X.shape, start.by_newton, new_cliques)
            W = None if start.weights is None else np.asfortranarray(start.weights[:, places])
            parts.append(Part(data, pace, seed, known[labels], W, start.group_weights, start.sigma))

        def solution() -> StructuredDual:
            W = weights.copy(order="F")
            for places, part in zip(columns, parts, strict=True):
                W[:, places] = part.weights
            masses = known | {labels: part.known for labels, part in zip(joined, parts, strict=True)}
            sigmas = [part.relative_sigma for part in parts if part.wants_newton]
            return _packed(replace(start, group_weights=parts[0].t), masses, W, sigmas)

        status, history, tol_abs = _loop(problem, parts, columns, control, alone, solution)
        dual = solution()
    if alone is not None and status is Status.CONVERGED and alone.status is not Status.CONVERGED:
        status = alone.status
    assert dual.weights is not None  # a solution has weights
    return Result(np.ascontiguousarray(dual.weights.T), dual, history, tol_abs, status)


def _packed(
    start: StructuredDual, known: dict[tuple[int, ...], Known], weights: np.ndarray, sigmas: Sequence[float] = ()
) -> StructuredDual:
    """The start of another solve; ``sigmas`` are those of the parts that want Newton steps."""
    slim = tuple(without_room(known[labels]) for labels in start.parts)
    return replace(start, known=slim, weights=weights, by_newton=bool(sigmas), sigma=min(sigmas, default=0.0))


def _solve_single(
    problem: StructuredProblem,
    view: np.ndarray | CSR,
    labels: list[int],
    known: dict[tuple[int, ...], Known],
    control: Control,
    seed: int,
    n_threads: int,
) -> Result:
    """Solve for labels without cliques; ``dual_coef`` are the masses of their wrong values, (n, n_single)."""
    alpha, Y, cost = problem.alpha, problem.Y[:, labels], problem.cost[:, labels]
    prior = identity_prior(len(labels))
    targets = np.empty((0, 0)) if np.all(cost == 1.0) else cost
    signs = 2 * Y.astype(np.int8) - 1
    m3l = M3LProblem(problem.X, signs, problem.mass / alpha, np.ones((2, len(labels))), prior, targets)
    wrong = np.empty(Y.shape)
    for k, label in enumerate(labels):
        own = known[label,]
        wrong[:, k] = np.sum(own.mass * (own.labels[:, :, 0] != Y[:, [k]]), axis=1)
    seeds = range(seed, seed + len(label_blocks(prior)))
    control = replace(control, unit=0.5 * alpha)
    result = solve_m3l(m3l, view, control, seeds=seeds, n_threads=n_threads, start=wrong / alpha)
    return replace(result, dual_coef=alpha * result.dual_coef)


def _loop(
    problem: StructuredProblem,
    parts: list[Part],
    columns: list[np.ndarray],
    control: Control,
    alone: Result | None,
    state: Callable[[], StructuredDual],
) -> tuple[Status, tuple[Checkpoint, ...], float]:
    """Step all parts, which have the given columns, until the gap of the whole is within the tolerance."""
    base_primal, base_dual = (0.0, 0.0) if alone is None else (alone.primal, alone.dual)
    lengths = np.sqrt(squared_lengths(problem.X))

    def step() -> float:
        if all(part.done for part in parts):  # for these t
            for part in parts:
                part.regroup()
        for part in parts:
            if not part.done:
                part.step()
        return base_primal - base_dual + sum(part.gap for part in parts)

    def certify() -> tuple[float, float]:
        for part in parts:
            if not part.done:
                part.certify()
        squares, dual_squares = np.zeros(problem.cliques.n_columns), np.zeros(problem.cliques.n_columns)
        for part, places in zip(parts, columns, strict=True):
            weights, V = part.weights, part.average
            squares[places] = np.einsum("ij,ij->j", weights, weights)
            dual_squares[places] = np.einsum("ij,ij->j", V, V)
        primal = base_primal + problem.regulariser(squares) + sum(part.certificate.loss for part in parts)
        rounding = 0.0
        if dual_squares.any():  # not all mass is on the true labelings, which make no V
            # Labelings move each column of V by the mass of the row at most.
            scale = problem.scale(np.ones(problem.cliques.n_groups))
            rounding = average_rounding(lengths, problem.mass[:, None], scale, scale * dual_squares)
        return primal, base_dual + problem.dual(sum(part.linear for part in parts), dual_squares) - rounding

    return run_loop(step, certify, control, state=state)
