"""Rank-CVM by the paper's Frank-Wolfe method, Eqs. (53)-(70) of Xu (2013), over rows of the kernel matrix."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..core.gram import FEWEST_ROWS, Gram, gram_blocks, gram_product
from ..core.loop import Control, run_loop
from ..core.result import Result
from ..core.threads import worker_threads
from ._loops_fw import FrankWolfe, FullRows, PairGroups, rank_fw_bounds, rank_fw_coefficients, rank_fw_steps
from .problem import RankProblem, core_vector_certificate, pair_rounding


def pair_groups(problem: RankProblem) -> PairGroups:
    """The pairs of all rows, by relevant label, then irrelevant label, then row."""
    on, off = problem.Y.astype(bool), problem.off
    n_labels = on.shape[1]
    row = np.empty(problem.n_pairs, dtype=np.uint32)
    begin = np.empty((n_labels, n_labels + 1), dtype=np.int64)
    end = 0
    for m in range(n_labels):
        relevant = np.flatnonzero(on[:, m])
        label, place = np.nonzero(off[relevant].T)
        begin[m] = end + np.searchsorted(label, np.arange(n_labels + 1))
        row[end : end + len(place)] = relevant[place]
        end += len(place)
    return PairGroups(row, begin, problem.cost)


class RowCache:
    """Rows of K in float64: all of them if they fit, else the ones used last, computed one by one on demand."""

    def __init__(self, gram: Gram, megabytes: float) -> None:
        n_samples = gram.n_samples
        capacity = min(max(int(megabytes * 2**20 / (8 * n_samples)), FEWEST_ROWS), n_samples)
        self.gram = gram
        self.rows = FullRows(
            np.empty((capacity, n_samples)),
            np.full(n_samples, -1, dtype=np.int32),
            np.zeros(n_samples, dtype=np.int64),
            np.ascontiguousarray(gram.diagonal, dtype=np.float64),
            np.empty(n_samples),
            np.empty(n_samples),
        )

    @property
    def holds_all(self) -> bool:
        return len(self.rows.rows) == self.gram.n_samples

    def fill(self, pool: ThreadPoolExecutor) -> None:
        """Bring all rows into memory; there must be room for them."""
        n_samples = self.gram.n_samples
        self.rows.slot[:] = np.arange(n_samples)
        list(pool.map(self._compute, (np.arange(n_samples)[b] for b in gram_blocks(n_samples, n_samples))))

    def fetch(self, i: int) -> None:
        """Bring row i into memory; without room it replaces the least recently used row."""
        slot = self.rows.slot
        held = np.flatnonzero(slot >= 0)
        free = len(held)
        if free == len(self.rows.rows):
            oldest = held[np.argmin(self.rows.stamp[held])]
            free, slot[oldest] = slot[oldest], -1
        slot[i] = free
        self._compute(np.array([i]))

    def _compute(self, rows: np.ndarray) -> None:
        block = self.gram.block(rows)
        self.rows.rows[self.rows.slot[rows]] = block
        self.rows.smallest[rows] = block.min(axis=1)
        beside = np.arange(self.gram.n_samples) != rows[:, None]
        self.rows.largest[rows] = block.max(axis=1, where=beside, initial=0.0)


def solve_rank_cvm_fw(
    problem: RankProblem, gram: Gram, control: Control, *, cache_size: float = 1000, n_threads: int = 1
) -> Result:
    """Solve Rank-CVM, Eq. (39) with f = W and S the simplex, by the paper's Frank-Wolfe algorithm to a certified gap.

    ``gram`` is K + 1; ``cache_size`` are megabytes for its rows. An iteration is n_samples Frank-Wolfe steps (the
    paper's epoch: one per pair), each two axpys of length n_samples and a search of some pairs. The gap falls as
    1 / steps. Threads compute K and the scores of certificates. ``dual_coef`` of the result is beta
    (n_samples, n_labels) of a on the simplex, ``coef`` is beta^T. Memory: 12 bytes per pair beside K.
    """
    n_samples, n_labels = problem.Y.shape
    pairs = pair_groups(problem)
    state = FrankWolfe(
        np.zeros(len(pairs.row)),
        np.empty((n_labels, n_samples)),
        np.empty((n_labels, n_labels)),
        np.empty((n_labels, n_labels), dtype=np.bool_),
        np.empty(n_labels),
    )
    cache = RowCache(gram, cache_size)
    # Eqs. (55), (56): the first pair of the row of the lowest diagonal entry of Theta, Eq. (54).
    first = int(np.argmin(2.0 * gram.diagonal + 1.0 / problem.cost))
    state.c[np.argmax(pairs.row == first)] = 1.0 / problem.cost[first]
    beta = np.empty((n_samples, n_labels))
    W, clock = np.inf, 0
    with worker_threads(n_threads) as pool:
        if cache.holds_all:
            cache.fill(pool)

        def step() -> float:
            nonlocal W, clock
            end = clock + n_samples
            while True:
                W, gap, done, missing = rank_fw_steps(cache.rows, pairs, state, W, clock, end - clock)
                clock += done
                if missing < 0:
                    return float(gap)
                cache.fetch(missing)

        def certify() -> tuple[float, float]:
            """Recompute everything from c, since the recursions accumulate rounding errors."""
            nonlocal W
            total, squares = rank_fw_coefficients(pairs, state.c, beta)
            F = gram_product(gram, beta, pool, cache.rows.rows if cache.holds_all else None)
            state.f[:] = F.T
            lowest = rank_fw_bounds(pairs, state) - pair_rounding(gram.diagonal, beta)
            W, bound = core_vector_certificate(total, float(np.vdot(beta, F)) + squares, lowest)
            for part in (beta, state.c, state.f, state.low, state.low_of):
                part /= total  # 1 up to rounding
            return W, bound

        status, history, tol_abs = run_loop(step, certify, control)  # no state: pairs are not kept
    return Result(np.ascontiguousarray(beta.T), beta, history, tol_abs, status)
