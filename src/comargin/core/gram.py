"""The kernel matrix K of the training rows: computed block by block, and its rows in memory for all labels and threads.

Rows enter and leave the cache between the sweeps of a solver only, never while a thread reads them. So no lock is
needed, and neither the cached rows nor the result depend on the number of threads.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np

from .row_blocks import row_blocks


@dataclass(frozen=True)
class Gram:
    """K + constant, where K_ij = k(x_i, x_j).

    ``function(rows, columns)`` computes K[rows][:, columns] for int arrays or slices. ``diagonal`` is the non-negative
    diagonal of K + constant. ``constant`` is the product of two constant features, of the intercept, or 0.
    """

    function: Callable[[np.ndarray | slice, np.ndarray | slice], np.ndarray]
    diagonal: np.ndarray
    constant: float = 0.0

    @property
    def n_samples(self) -> int:
        return len(self.diagonal)

    def block(self, rows: np.ndarray | slice, columns: np.ndarray | slice = slice(None)) -> np.ndarray:
        """(K + constant)[rows][:, columns] in float64; read-only for the caller."""
        block = self.function(rows, columns)
        return block + self.constant if self.constant else block


# Entries and rows of K computed by one call at most: enough for efficient matrix products.
_BLOCK_SIZE = 2**22
_ROWS_PER_BLOCK = 256
# The cache holds this many rows however little memory is allowed: labels that wait for a single row crawl.
FEWEST_ROWS = 64


def gram_blocks(n_rows: int, n_columns: int) -> list[slice]:
    """Blocks of rows of an (n_rows, n_columns) part of K, each small enough to compute in one call."""
    return row_blocks(n_rows, min(max(_BLOCK_SIZE // n_columns, 1), _ROWS_PER_BLOCK))


def gram_product(
    gram: Gram, coefficients: np.ndarray, pool: Executor | None = None, K: np.ndarray | None = None
) -> np.ndarray:
    """K times coefficients (n_samples, any), K by blocks unless it is given."""
    support = np.flatnonzero(coefficients.any(axis=1))
    chosen, F = coefficients[support], np.zeros(coefficients.shape)

    def write(rows: slice) -> None:
        F[rows] = gram.block(rows, support) @ chosen if K is None else K[rows] @ coefficients

    if support.size:
        list((pool.map if pool else map)(write, gram_blocks(len(F), support.size)))
    return F


class GramRows(NamedTuple):
    """Rows of K, divided by a common scale, that are in memory.

    rows (capacity, n), float32 or float64.  slot int32 (n,): where row i of K is, or -1.  cached float32 (n,): 1 where
    slot >= 0, else 0.  diagonal (n,): K_ii.  inverse_norm float32 (n,): K_ii^(-1/2), 0 where K_ii is 0.
    stamp int64 (n,): when row i was used last.
    """

    rows: np.ndarray
    slot: np.ndarray
    cached: np.ndarray
    diagonal: np.ndarray
    inverse_norm: np.ndarray
    stamp: np.ndarray


class GramCache:
    """As many rows of K as fit, in float32; the least recently used ones make room for others.

    Float32 is enough to choose and take steps, and steps are bound by fetching rows. Objectives and gradients are
    computed from exact rows whenever the solver certifies; these are kept too if there is room for all of them.
    """

    def __init__(self, gram: Gram, megabytes: float) -> None:
        n_samples = gram.n_samples
        n_bytes = megabytes * 2**20
        self._exact = np.empty((n_samples, n_samples)) if 12 * n_samples**2 <= n_bytes else None
        capacity = min(max(int(n_bytes / (4 * n_samples)), FEWEST_ROWS), n_samples)
        largest = float(gram.diagonal.max())
        # The cache stores K / scale, so that any kernel fits into float32.
        self.scale = largest if largest > 0.0 else 1.0
        diagonal = np.maximum(gram.diagonal, 0.0) / self.scale
        inverse_norm = np.zeros(n_samples)
        np.divide(1.0, np.sqrt(diagonal), out=inverse_norm, where=diagonal > 0.0)
        self.gram = gram
        self.clock = 0
        self.rows = GramRows(
            np.empty((capacity, n_samples), dtype=np.float32),
            np.full(n_samples, -1, dtype=np.int32),
            np.zeros(n_samples, dtype=np.float32),
            diagonal,
            inverse_norm.astype(np.float32),
            np.zeros(n_samples, dtype=np.int64),
        )

    @property
    def capacity(self) -> int:
        return self.rows.rows.shape[0]

    @property
    def holds_all(self) -> bool:
        return self.capacity == self.gram.n_samples

    @property
    def keeps_exact(self) -> bool:
        """Whether all of K fits in float64, too."""
        return self._exact is not None

    @property
    def exact(self) -> np.ndarray | None:
        """K in float64, or None until all of it is in memory."""
        return self._exact if bool(np.all(self.rows.slot >= 0)) else None

    def fetch(self, wanted: Sequence[np.ndarray], pool: Executor) -> None:
        """Compute rows of K and cache them, evicting the least recently used ones.

        ``wanted`` has one array per requester, its most wanted row first. The requests are served in turn: first every
        requester's first row, then the second ones, as far as there is room. New rows take at most half of the memory,
        so that rows in use stay. ``pool`` computes the blocks.
        """
        self.clock += 1
        slot, cached, stamp = self.rows.slot, self.rows.cached, self.rows.stamp
        first = self.clock % len(wanted)  # the requester served first rotates
        in_turn = [i for turn in zip_longest(*wanted[first:], *wanted[:first]) for i in turn if i is not None]
        room = self.capacity if not (slot >= 0).any() else max(self.capacity // 2, 1)
        new = np.array([i for i in dict.fromkeys(in_turn) if slot[i] < 0][:room], dtype=np.int64)
        old = np.flatnonzero(slot >= 0)
        n_free = self.capacity - len(old)
        free = np.setdiff1d(np.arange(self.capacity), slot[old])[: len(new)]
        if len(new) > n_free:
            dropped = old[np.argsort(stamp[old], kind="stable")[: len(new) - n_free]]
            free = np.concatenate([free, slot[dropped]])
            slot[dropped], cached[dropped] = -1, 0.0
        slot[new], cached[new], stamp[new] = free, 1.0, self.clock
        list(pool.map(self._compute, [new[rows] for rows in gram_blocks(len(new), self.gram.n_samples)]))

    def _compute(self, rows: np.ndarray) -> None:
        block = self.gram.block(rows)
        if self._exact is not None:
            self._exact[rows] = block
        self.rows.rows[self.rows.slot[rows]] = block / self.scale
